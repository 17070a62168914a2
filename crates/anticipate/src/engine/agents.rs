//! Where applications announce windows ([`Announcer`]), and a thread for each CPU.
//!
//! An announcement goes into its CPU's plan at once, by a program that runs on the caller's CPU:
//! nothing waits for a thread, so nothing is queued. The CPU arms its timer when it next goes idle; if
//! it sleeps, its thread's bell is rung, and that wakes it.
//!
//! The thread also keeps its CPU awake where no timer of another CPU can (the one that takes a
//! request's interrupt). Between, it sleeps; it has the lowest priority, so that it gives way to
//! anything. A bell is a ring buffer, which a BPF program can write to from anywhere.

use std::fs::File;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use libbpf_rs::{MapCore, libbpf_sys};
use nix::errno::Errno;
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CpuSet, sched_getcpu, sched_setaffinity};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::mman::ProtFlags;
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;
use reveille_kernel::bpf::{Bell, Mapping};
use reveille_kernel::cpulist;

use super::address::bytes_of;
use super::skeleton::{AnticipateSkel, types};
use crate::{Error, Result};

/// CLAIMS of anticipate.h.
const CLAIMS: usize = 8;

/// An element of the table `agents`, which both sides write.
#[repr(C)]
struct Agent {
    claims: [AtomicU64; CLAIMS],
    rung_ns: AtomicU64,
    late_ns: AtomicU64,
}

const _: () = assert!(size_of::<Agent>() == size_of::<types::agent>());

impl Agent {
    /// Until when its CPU is to be awake, ns of CLOCK_MONOTONIC.
    fn until_ns(&self) -> u64 {
        let claims = self.claims.iter();
        let latest = claims.map(|claim| claim.load(Ordering::Relaxed)).max();
        latest.unwrap_or_default()
    }
}

fn system(what: &'static str, source: impl Into<std::io::Error>) -> Error {
    Error::System {
        what,
        source: source.into(),
    }
}

/// The table `agents`.
struct Table(Mapping);

impl Table {
    fn map(table: &impl MapCore) -> Result<Self> {
        let bytes = table.max_entries() as usize * size_of::<Agent>();
        let both = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        Ok(Self(Mapping::of(table, bytes, 0, both)?))
    }

    fn agent(&self, cpu: u32) -> &Agent {
        assert!((cpu as usize + 1) * size_of::<Agent>() <= self.0.bytes());
        // SAFETY: within the mapping (asserted), aligned, and of atomics, for any bits.
        unsafe { self.0.start().cast::<Agent>().add(cpu as usize).as_ref() }
    }
}

/// Why a window is not opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unplanned {
    /// Not one that is there and online.
    #[error("the CPU does not exist or is offline")]
    Cpu,
    /// Its end lies in the past.
    #[error("the window is over already")]
    Past,
    /// The settings' share of this CPU's time, or of all CPUs'.
    #[error("the CPU's budget of time awake is used up")]
    Budget,
    /// A user may have so many windows on a CPU, and has them.
    #[error("the user has the maximum number of open windows on this CPU")]
    User,
    /// All places for applications are taken.
    #[error("the CPU's plan is full")]
    Full,
    /// Of a client's request: no packet of that service was read so far.
    #[error("no reader of that service's packets is known")]
    Reader,
}

/// A client of a service of this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Client {
    /// Where its packets come from.
    pub address: IpAddr,
    /// 6: TCP, 17: UDP.
    pub protocol: u8,
    /// The service's.
    pub port: u16,
}

/// How many windows applications announced, and what became of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct Expectations {
    /// Opened.
    pub taken: u64,
    /// Not opened: their time was over.
    pub past: u64,
    /// Not opened: the budget was spent.
    pub over_budget: u64,
    /// Not opened: their user had as many open as one may.
    pub of_user: u64,
    /// Not opened: all places for applications were taken.
    pub full: u64,
    /// Not opened: the CPU was offline or not there.
    pub no_cpu: u64,
}

/// Where applications announce when they will want a CPU. Nothing that is announced is kept but in
/// the CPU's plan, which has a place for so many windows and no more.
#[derive(Clone)]
pub struct Announcer(Arc<Counter>);

struct Counter {
    /// `None` when the engine has ended. One announcement at a time: the program counts how many a
    /// user has before it opens one more.
    programs: Mutex<Option<Programs>>,
    /// The list of CPUs that are online, read anew for each announcement: that takes a µs.
    online: File,
    cpus: u32,
    counts: Mutex<Expectations>,
}

impl Announcer {
    /// The CPU is to be awake at that instant (CLOCK_MONOTONIC, ns), for that long, on behalf of that
    /// process of that user. Gives the number by which it can be cancelled.
    ///
    /// # Errors
    /// Why it is not opened; [`Unplanned::Cpu`] also when the engine has ended.
    pub fn expect(
        &self,
        cpu: u32,
        at_ns: u64,
        window_ns: u64,
        process: u32,
        user: u32,
    ) -> std::result::Result<u64, Unplanned> {
        let window = self.0.open(types::expectation {
            at_ns,
            window_ns,
            owner: types::owner {
                tgid: process,
                device: NO_DEVICE,
                ..Default::default()
            },
            cpu,
            uid: user,
            ..Default::default()
        });
        let mut counts = locked(&self.0.counts);
        *match window {
            Ok(_) => &mut counts.taken,
            Err(Unplanned::Cpu) => &mut counts.no_cpu,
            Err(Unplanned::Past) => &mut counts.past,
            Err(Unplanned::Budget) => &mut counts.over_budget,
            Err(Unplanned::User) => &mut counts.of_user,
            Err(Unplanned::Full) => &mut counts.full,
            Err(Unplanned::Reader) => unreachable!("the CPU is given"),
        } += 1;
        // The ticket has the CPU, too.
        Ok(window? * u64::from(self.0.cpus) + u64::from(cpu))
    }

    /// The CPU on which that service's packets of that client are read is to be awake at that instant
    /// (CLOCK_MONOTONIC, ns), for that long, or until the packet comes. `quota`: windows that one
    /// of a number may have on a CPU are few.
    ///
    /// # Errors
    /// As [`Announcer::expect`], and [`Unplanned::Reader`].
    pub fn expect_of(
        &self,
        client: &Client,
        at_ns: u64,
        window_ns: u64,
        quota: u32,
    ) -> std::result::Result<(), Unplanned> {
        let (family, address) = bytes_of(client.address);
        let mut hint = types::hint {
            client: types::client_key {
                address,
                port: client.port,
                family,
                protocol: client.protocol,
            },
            at_ns,
            window_ns,
            uid: quota,
            ..Default::default()
        };
        let programs = locked(&self.0.programs);
        let program = programs
            .as_ref()
            .and_then(|programs| programs.expect_of_client.as_ref());
        match run(program.ok_or(Unplanned::Cpu)?.as_fd(), &mut hint) {
            true => why(hint.ticket).map(|_| ()),
            false => Err(Unplanned::Full),
        }
    }

    /// What was expected has come, or will not come. Nothing happens where the window is over.
    pub fn cancel(&self, ticket: u64) {
        let cpus = u64::from(self.0.cpus);
        let mut cancellation = types::cancellation {
            ticket: ticket / cpus,
            cpu: (ticket % cpus) as u32,
            ..Default::default()
        };
        if let Some(programs) = &*locked(&self.0.programs) {
            run(programs.cancel.as_fd(), &mut cancellation);
        }
    }
}

/// What a program gave: a ticket, or why there is none.
fn why(ticket: i64) -> std::result::Result<u64, Unplanned> {
    u64::try_from(ticket).map_err(|_| match Errno::from_raw(-ticket as i32) {
        Errno::ETIME => Unplanned::Past,
        Errno::EDQUOT => Unplanned::Budget,
        Errno::EUSERS => Unplanned::User,
        Errno::ESRCH => Unplanned::Reader,
        _ => Unplanned::Full,
    })
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Counter {
    fn open(&self, mut announced: types::expectation) -> std::result::Result<u64, Unplanned> {
        let programs = locked(&self.programs);
        let programs = programs.as_ref().ok_or(Unplanned::Cpu)?;
        if !self.is_online(announced.cpu) || !run(programs.expect.as_fd(), &mut announced) {
            return Err(Unplanned::Cpu);
        }
        why(announced.ticket)
    }

    fn is_online(&self, cpu: u32) -> bool {
        let mut list = [0; 4096];
        let read = self.online.read_at(&mut list, 0).unwrap_or(0);
        let list = str::from_utf8(&list[..read]).ok().and_then(cpulist::parse);
        list.is_some_and(|online| online.binary_search(&cpu).is_ok())
    }
}

/// The threads.
pub(super) struct Agents {
    announcer: Announcer,
    /// Readable when they are to end.
    over: Arc<EventFd>,
    threads: Vec<JoinHandle<()>>,
}

impl Agents {
    pub(super) fn start(skel: &AnticipateSkel<'_>, bells: Vec<Bell>, hinted: bool) -> Result<Self> {
        let table = Arc::new(Table::map(&skel.maps.agents)?);
        let over = EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)
            .map_err(|errno| system("making an event descriptor", errno))?;
        let programs = Programs {
            expect: duplicate(skel.progs.expect.as_fd())?,
            expect_of_client: match hinted {
                true => Some(duplicate(skel.progs.expect_of_client.as_fd())?),
                false => None,
            },
            cancel: duplicate(skel.progs.cancel.as_fd())?,
        };
        let online = File::open("/sys/devices/system/cpu/online")
            .map_err(|error| system("/sys/devices/system/cpu/online", error))?;
        let mut agents = Self {
            announcer: Announcer(Arc::new(Counter {
                programs: Mutex::new(Some(programs)),
                online,
                cpus: bells.len() as u32,
                counts: Mutex::default(),
            })),
            over: Arc::new(over),
            threads: Vec::new(),
        };
        for (cpu, bell) in (0..).zip(bells) {
            let (table, over) = (table.clone(), agents.over.clone());
            let serve = move || serve(cpu, table.agent(cpu), &bell, &over);
            let thread = std::thread::Builder::new().name(format!("ready-{cpu}"));
            let thread = thread
                .spawn(serve)
                .map_err(|error| system("starting a thread", error))?;
            agents.threads.push(thread);
        }
        Ok(agents)
    }

    pub(super) fn announcer(&self) -> Announcer {
        self.announcer.clone()
    }

    pub(super) fn expectations(&self) -> Expectations {
        *locked(&self.announcer.0.counts)
    }
}

/// NO_DEVICE of anticipate.h.
pub(super) const NO_DEVICE: u32 = 0xffff;

impl Drop for Agents {
    fn drop(&mut self) {
        // An announcer that is left keeps nothing in the kernel.
        *locked(&self.announcer.0.programs) = None;
        let _ = self.over.write(1);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

struct Programs {
    expect: OwnedFd,
    /// Where hints are taken.
    expect_of_client: Option<OwnedFd>,
    cancel: OwnedFd,
}

fn duplicate(descriptor: BorrowedFd<'_>) -> Result<OwnedFd> {
    let copy = descriptor.try_clone_to_owned();
    copy.map_err(|error| system("duplicating a descriptor", error))
}

fn serve(cpu: u32, agent: &Agent, bell: &Bell, over: &EventFd) {
    give_way();
    is_on(cpu);
    loop {
        let mut waited = [
            PollFd::new(bell.as_fd(), PollFlags::POLLIN),
            PollFd::new(over.as_fd(), PollFlags::POLLIN),
        ];
        if !matches!(
            poll(&mut waited, PollTimeout::NONE),
            Ok(_) | Err(Errno::EINTR)
        ) || waited[1].any() == Some(true)
        {
            return;
        }
        bell.silence();
        if is_on(cpu) {
            stay_awake(cpu, agent);
        }
    }
}

/// Is this thread on its CPU? The kernel moves it elsewhere, for good, when the CPU goes offline: when
/// it is called next, it tries to go back.
fn is_on(cpu: u32) -> bool {
    let mut only = CpuSet::new();
    sched_getcpu() == Ok(cpu as usize)
        || only.set(cpu as usize).is_ok() && sched_setaffinity(Pid::from_raw(0), &only).is_ok()
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

/// Keeps this thread's CPU awake until the engine ends its claims, or the last window ends.
fn stay_awake(cpu: u32, agent: &Agent) {
    let late = now_ns().saturating_sub(agent.rung_ns.load(Ordering::Relaxed));
    let before = agent.late_ns.load(Ordering::Relaxed);
    let late = late.min(10_000_000);
    let learnt = match before {
        0 => late,
        before => before - before / 8 + late / 8,
    };
    agent.late_ns.store(learnt, Ordering::Relaxed);
    // No other CPU, should this one go offline.
    while now_ns() < agent.until_ns() && sched_getcpu() == Ok(cpu as usize) {
        std::hint::spin_loop();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_is_wanted_until_its_last_claim_ends() {
        let agent = Agent {
            claims: [30, 0, 50, 0, 0, 0, 0, 10].map(AtomicU64::new),
            rung_ns: AtomicU64::new(0),
            late_ns: AtomicU64::new(0),
        };
        assert_eq!(agent.until_ns(), 50);
        agent.claims[2].store(0, Ordering::Relaxed);
        assert_eq!(agent.until_ns(), 30);
        agent.claims[7].store(0, Ordering::Relaxed);
        assert_eq!(agent.until_ns(), 30);
    }
}
