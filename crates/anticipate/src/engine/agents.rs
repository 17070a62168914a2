//! A thread for each CPU. It keeps its CPU awake where no timer of another CPU can (the one that
//! takes a request's interrupt), and puts into its CPU's plan what applications expect. Between, it
//! sleeps; it has the lowest priority, so that it gives way to anything.

use std::collections::VecDeque;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use libbpf_rs::{MapCore, MapHandle, RingBufferBuilder, libbpf_sys};
use nix::errno::Errno;
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;

use super::Refusal;
use super::skeleton::{AnticipateSkel, types};
use crate::{Error, Result};

/// How long an application's wish may wait for its CPU.
const PATIENCE: Duration = Duration::from_secs(1);

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
        wish: types::expectation,
        answer: Sender<std::result::Result<u64, Refusal>>,
    },
    Cancel(u64),
}

/// What a thread and those who ask it share.
struct Desk {
    wishes: Mutex<VecDeque<Wish>>,
    bell: EventFd,
    over: AtomicBool,
}

/// The threads.
pub(super) struct Agents {
    desks: Vec<Arc<Desk>>,
    threads: Vec<JoinHandle<()>>,
}

impl Agents {
    pub(super) fn start(skel: &AnticipateSkel<'_>, inboxes: Vec<MapHandle>) -> Result<Self> {
        let table = Arc::new(Table::map(&skel.maps.agents)?);
        let mut agents = Self {
            desks: Vec::new(),
            threads: Vec::new(),
        };
        let programs = Arc::new(Programs {
            expect: duplicate(skel.progs.expect.as_fd())?,
            cancel: duplicate(skel.progs.cancel.as_fd())?,
        });
        for (cpu, inbox) in (0..).zip(inboxes) {
            let bell = EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC);
            let desk = Arc::new(Desk {
                wishes: Mutex::default(),
                bell: bell.map_err(|errno| Error::System {
                    what: "making an event descriptor",
                    source: errno.into(),
                })?,
                over: AtomicBool::new(false),
            });
            agents.desks.push(desk.clone());
            let (table, programs) = (table.clone(), programs.clone());
            let thread = std::thread::Builder::new()
                .name(format!("ready-{cpu}"))
                .spawn(move || serve(cpu, &desk, &table, &programs, &inbox))
                .map_err(|source| Error::System {
                    what: "starting a thread",
                    source,
                })?;
            agents.threads.push(thread);
        }
        Ok(agents)
    }

    fn ask(&self, cpu: u32, wish: Wish) -> bool {
        let Some(desk) = self.desks.get(cpu as usize) else {
            return false;
        };
        let mut wishes = desk
            .wishes
            .lock()
            .unwrap_or_else(|error| error.into_inner());
        wishes.push_back(wish);
        drop(wishes);
        desk.bell.write(1).is_ok()
    }

    pub(super) fn expect(
        &self,
        cpu: u32,
        at_ns: u64,
        window_ns: u64,
        process: u32,
    ) -> std::result::Result<u64, Refusal> {
        let (answer, answered) = channel();
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
        if !self.ask(cpu, Wish::Expect { wish, answer }) {
            return Err(Refusal::NoSuchCpu);
        }
        answered
            .recv_timeout(PATIENCE)
            .unwrap_or(Err(Refusal::Past))
    }

    pub(super) fn cancel(&self, cpu: u32, ticket: u64) {
        self.ask(cpu, Wish::Cancel(ticket));
    }
}

/// NO_DEVICE of anticipate.h.
pub(super) const NO_DEVICE: u32 = 0xffff;

impl Drop for Agents {
    fn drop(&mut self) {
        for desk in &self.desks {
            desk.over.store(true, Ordering::Relaxed);
            let _ = desk.bell.write(1);
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

fn serve(cpu: u32, desk: &Desk, table: &Table, programs: &Programs, inbox: &MapHandle) {
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
    while !desk.over.load(Ordering::Relaxed) {
        let mut waited = [
            PollFd::new(inbox, PollFlags::POLLIN),
            PollFd::new(desk.bell.as_fd(), PollFlags::POLLIN),
        ];
        if !matches!(
            poll(&mut waited, PollTimeout::NONE),
            Ok(_) | Err(Errno::EINTR)
        ) {
            return;
        }
        let _ = notices.consume();
        let _ = desk.bell.read();
        let wishes = std::mem::take(
            &mut *desk
                .wishes
                .lock()
                .unwrap_or_else(|error| error.into_inner()),
        );
        for wish in wishes {
            fulfil(wish, cpu, programs);
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

fn fulfil(wish: Wish, cpu: u32, programs: &Programs) {
    match wish {
        Wish::Expect { mut wish, answer } => {
            let ran = run(programs.expect.as_fd(), &mut wish);
            let told = match (ran, wish.ticket) {
                (false, _) => Err(Refusal::Kernel),
                (true, ticket) if ticket >= 0 => Ok(ticket as u64),
                (true, error) => Err(match Errno::from_raw(-error as i32) {
                    Errno::ETIME => Refusal::Past,
                    Errno::EDQUOT => Refusal::OverBudget,
                    Errno::ENOSPC => Refusal::Full,
                    _ => Refusal::Kernel,
                }),
            };
            // Who asked may have given up.
            let _ = answer.send(told);
        }
        Wish::Cancel(ticket) => {
            run(
                programs.cancel.as_fd(),
                &mut types::cancellation {
                    ticket,
                    cpu,
                    ..Default::default()
                },
            );
        }
    }
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
