//! A thread for each CPU. It keeps its CPU awake where no timer of another CPU can (the one that
//! takes a request's interrupt), and puts into its CPU's plan what applications expect. Between, it
//! sleeps; it has the lowest priority, so that it gives way to anything.

use std::collections::{HashMap, VecDeque};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use libbpf_rs::{MapCore, MapHandle, RingBufferBuilder, libbpf_sys};
use nix::errno::Errno;
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;

use super::skeleton::{AnticipateSkel, types};
use crate::{Error, Result};

/// An element of the table `agents`, which both sides write.
#[repr(C)]
struct Agent {
    until: AtomicU64,
    late_ns: AtomicU64,
}

/// The table, mapped.
struct Table {
    at: *mut libc::c_void,
    bytes: usize,
}

// SAFETY: the mapping is shared memory of atomics.
unsafe impl Send for Table {}
// SAFETY: as above.
unsafe impl Sync for Table {}

impl Table {
    fn map(table: &impl MapCore) -> Result<Self> {
        let bytes = table.max_entries() as usize * size_of::<Agent>();
        // SAFETY: a new mapping of a table that the kernel allows to be mapped; nothing of this
        // process is replaced.
        let at = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                table.as_fd().as_raw_fd(),
                0,
            )
        };
        match at == libc::MAP_FAILED {
            true => Err(system("mapping a table of the engine")),
            false => Ok(Self { at, bytes }),
        }
    }

    fn agent(&self, cpu: u32) -> &Agent {
        assert!((cpu as usize + 1) * size_of::<Agent>() <= self.bytes);
        // SAFETY: within the mapping (asserted), aligned, and of atomics, for any bits.
        unsafe { &*self.at.cast::<Agent>().add(cpu as usize) }
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and nobody has a reference into it any more.
        unsafe { libc::munmap(self.at, self.bytes) };
    }
}

fn system(what: &'static str) -> Error {
    Error::System {
        what,
        source: std::io::Error::last_os_error(),
    }
}

enum Wish {
    Expect {
        ticket: u64,
        wish: types::expectation,
    },
    Cancel(u64),
}

/// What a thread and those who ask it share.
struct Counter {
    wishes: Mutex<VecDeque<Wish>>,
    bell: EventFd,
    over: AtomicBool,
}

/// What became of what applications expected.
#[derive(Debug, Default)]
struct Fates {
    taken: AtomicU64,
    past: AtomicU64,
    over_budget: AtomicU64,
    full: AtomicU64,
}

/// How many windows applications wished, and what became of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct Expectations {
    /// Opened.
    pub taken: u64,
    /// Not opened: their time was over; the budget was spent; too many were open.
    pub past: u64,
    pub over_budget: u64,
    pub full: u64,
}

/// Where applications say when they will want a CPU. To say so takes no time: the CPU's own thread
/// does the rest.
#[derive(Clone)]
pub struct Desk {
    counters: Arc<[Arc<Counter>]>,
    tickets: Arc<AtomicU64>,
}

impl Desk {
    /// The CPU is to be awake at that instant (CLOCK_MONOTONIC, ns), for that long, on behalf of that
    /// process. Gives the number by which it can be cancelled; `None` where there is no such CPU.
    pub fn expect(&self, cpu: u32, at_ns: u64, window_ns: u64, process: u32) -> Option<u64> {
        let cpus = self.counters.len() as u64;
        // The CPU is told by the number.
        let number = self.tickets.fetch_add(1, Ordering::Relaxed);
        let ticket = number * cpus + u64::from(cpu);
        let wish = types::expectation {
            at_ns,
            window_ns,
            owner: types::owner {
                tgid: process,
                device: NO_DEVICE,
                ..Default::default()
            },
            ..Default::default()
        };
        self.ask(cpu, Wish::Expect { ticket, wish })
            .then_some(ticket)
    }

    /// What was expected has come, or will not come.
    pub fn cancel(&self, ticket: u64) {
        let cpu = ticket % self.counters.len() as u64;
        self.ask(cpu as u32, Wish::Cancel(ticket));
    }

    fn ask(&self, cpu: u32, wish: Wish) -> bool {
        let Some(counter) = self.counters.get(cpu as usize) else {
            return false;
        };
        let mut wishes = counter
            .wishes
            .lock()
            .unwrap_or_else(|error| error.into_inner());
        wishes.push_back(wish);
        drop(wishes);
        counter.bell.write(1).is_ok()
    }
}

/// The threads.
pub(super) struct Agents {
    desk: Desk,
    fates: Arc<Fates>,
    threads: Vec<JoinHandle<()>>,
}

impl Agents {
    pub(super) fn start(skel: &AnticipateSkel<'_>, inboxes: Vec<MapHandle>) -> Result<Self> {
        let table = Arc::new(Table::map(&skel.maps.agents)?);
        let programs = Arc::new(Programs {
            expect: duplicate(skel.progs.expect.as_fd())?,
            cancel: duplicate(skel.progs.cancel.as_fd())?,
        });
        let mut counters = Vec::new();
        for _ in &inboxes {
            let bell = EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC);
            counters.push(Arc::new(Counter {
                wishes: Mutex::default(),
                bell: bell.map_err(|errno| Error::System {
                    what: "making an event descriptor",
                    source: errno.into(),
                })?,
                over: AtomicBool::new(false),
            }));
        }
        let mut agents = Self {
            desk: Desk {
                counters: counters.into(),
                tickets: Arc::default(),
            },
            fates: Arc::default(),
            threads: Vec::new(),
        };
        for (cpu, inbox) in (0..).zip(inboxes) {
            let counter = agents.desk.counters[cpu as usize].clone();
            let (table, programs) = (table.clone(), programs.clone());
            let fates = agents.fates.clone();
            let serve = move || serve(cpu, &counter, &table, &programs, &fates, &inbox);
            let thread = std::thread::Builder::new().name(format!("ready-{cpu}"));
            let thread = thread.spawn(serve).map_err(|source| Error::System {
                what: "starting a thread",
                source,
            })?;
            agents.threads.push(thread);
        }
        Ok(agents)
    }

    pub(super) fn desk(&self) -> Desk {
        self.desk.clone()
    }

    pub(super) fn expectations(&self) -> Expectations {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Expectations {
            taken: of(&self.fates.taken),
            past: of(&self.fates.past),
            over_budget: of(&self.fates.over_budget),
            full: of(&self.fates.full),
        }
    }
}

/// NO_DEVICE of anticipate.h.
pub(super) const NO_DEVICE: u32 = 0xffff;

impl Drop for Agents {
    fn drop(&mut self) {
        for counter in self.desk.counters.iter() {
            counter.over.store(true, Ordering::Relaxed);
            let _ = counter.bell.write(1);
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

struct Programs {
    expect: OwnedFd,
    cancel: OwnedFd,
}

fn duplicate(descriptor: BorrowedFd<'_>) -> Result<OwnedFd> {
    let copy = descriptor.try_clone_to_owned();
    copy.map_err(|source| Error::System {
        what: "duplicating a descriptor",
        source,
    })
}

fn serve(
    cpu: u32,
    counter: &Counter,
    table: &Table,
    programs: &Programs,
    fates: &Fates,
    inbox: &MapHandle,
) {
    let agent = table.agent(cpu);
    let mut only = CpuSet::new();
    // An offline CPU has no thread: nothing is asked of it.
    if only.set(cpu as usize).is_err() || sched_setaffinity(Pid::from_raw(0), &only).is_err() {
        return;
    }
    give_way();
    let mut notices = RingBufferBuilder::new();
    let heard = |bytes: &[u8]| {
        if let Some(sent) = bytes.first_chunk::<8>() {
            stay_awake(agent, u64::from_ne_bytes(*sent));
        }
        0
    };
    if notices.add(inbox, heard).is_err() {
        return;
    }
    let Ok(notices) = notices.build() else {
        return;
    };
    // SAFETY: the ring buffer has an epoll descriptor as long as it lives, and outlives this.
    let inbox = unsafe { BorrowedFd::borrow_raw(notices.epoll_fd()) };
    let mut open = HashMap::new();
    while !counter.over.load(Ordering::Relaxed) {
        let mut waited = [
            PollFd::new(inbox, PollFlags::POLLIN),
            PollFd::new(counter.bell.as_fd(), PollFlags::POLLIN),
        ];
        if !matches!(
            poll(&mut waited, PollTimeout::NONE),
            Ok(_) | Err(Errno::EINTR)
        ) {
            return;
        }
        let _ = notices.consume();
        let _ = counter.bell.read();
        let wishes = std::mem::take(
            &mut *counter
                .wishes
                .lock()
                .unwrap_or_else(|error| error.into_inner()),
        );
        for wish in wishes {
            fulfil(wish, cpu, programs, &mut open, fates);
        }
    }
}

/// The lowest priority: anything else that is to run here runs at once.
fn give_way() {
    let parameter = libc::sched_param { sched_priority: 0 };
    // SAFETY: the call reads plain data and changes this thread only.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const parameter) };
}

fn now_ns() -> u64 {
    clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(0, |now| {
        now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64
    })
}

/// Keeps this thread's CPU awake until the engine says that it is enough, or the window ends.
fn stay_awake(agent: &Agent, sent_ns: u64) {
    let late = now_ns().saturating_sub(sent_ns);
    let before = agent.late_ns.load(Ordering::Relaxed);
    let late = late.min(10_000_000);
    let learnt = match before {
        0 => late,
        before => before - before / 8 + late / 8,
    };
    agent.late_ns.store(learnt, Ordering::Relaxed);
    while now_ns() < agent.until.load(Ordering::Relaxed) {
        std::hint::spin_loop();
    }
}

/// `open`: what was taken, by its ticket.
fn fulfil(
    wish: Wish,
    cpu: u32,
    programs: &Programs,
    open: &mut HashMap<u64, Given>,
    fates: &Fates,
) {
    match wish {
        Wish::Expect { ticket, mut wish } => {
            let now = now_ns();
            open.retain(|_, given: &mut Given| given.ends_ns > now);
            let ran = run(programs.expect.as_fd(), &mut wish);
            let fate = match (ran, Errno::from_raw(-wish.ticket.min(0) as i32)) {
                (true, _) if wish.ticket >= 0 => {
                    let given = Given {
                        window: wish.ticket as u64,
                        ends_ns: wish.at_ns.saturating_add(wish.window_ns),
                    };
                    open.insert(ticket, given);
                    &fates.taken
                }
                (true, Errno::ETIME) => &fates.past,
                (true, Errno::EDQUOT) => &fates.over_budget,
                _ => &fates.full,
            };
            fate.fetch_add(1, Ordering::Relaxed);
        }
        Wish::Cancel(ticket) => {
            if let Some(given) = open.remove(&ticket) {
                let mut wish = types::cancellation {
                    ticket: given.window,
                    cpu,
                    ..Default::default()
                };
                run(programs.cancel.as_fd(), &mut wish);
            }
        }
    }
}

/// A window that was opened.
struct Given {
    window: u64,
    ends_ns: u64,
}

/// Runs a program of the kind "syscall" on this CPU.
fn run<T>(program: BorrowedFd<'_>, context: &mut T) -> bool {
    let mut options = libbpf_sys::bpf_test_run_opts {
        sz: size_of::<libbpf_sys::bpf_test_run_opts>() as _,
        // The kernel writes the context back to where it was read.
        ctx_in: std::ptr::from_mut(context).cast(),
        ctx_size_in: size_of::<T>() as u32,
        ..Default::default()
    };
    // SAFETY: the context is plain data of the length given, and outlives the call.
    let result =
        unsafe { libbpf_sys::bpf_prog_test_run_opts(program.as_raw_fd(), &raw mut options) };
    result == 0 && options.retval == 0
}
