//! Anticipatory wake-up without an engine and without root: by a thread of the process itself.
//!
//! The thread is bound to the CPU on which the application waits, sleeps until shortly before the
//! window, and then spins until the window ends or is cancelled. Its policy is SCHED_IDLE: every other
//! thread preempts it at once, and the scheduler treats a CPU that runs nothing else as idle.
//!
//! **Nothing waits for it.** A SCHED_IDLE thread may not run for long while its CPU is busy. If it held a
//! lock, the application would wait as long. So windows are passed in atomics under a sequence number
//! (odd while they are written), which is also the futex on which the thread sleeps.
//!
//! **The lead.** The thread's timer is late by the CPU's wake latency. The thread measures how late it is
//! and sets its timer that much earlier.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering, fence};
use std::sync::mpsc;
use std::thread::JoinHandle;

use nix::errno::Errno;
use nix::libc;
use nix::sched::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};
use nix::sys::signal::{SigSet, SigmaskHow};
use nix::unistd::{Pid, gettid};

use crate::budget::Budget;
use crate::clock::{monotonic_ns, own_time_ns};
use crate::limits::{Limits, MAX_OPEN, Refusal, Window};

/// Where the lead begins: a deep idle state's exit latency and the way to the thread.
const FIRST_LEAD_NS: u64 = 50_000;
/// The timer's interrupt alone takes longer.
const SHORTEST_LEAD_NS: u64 = 2_000;
/// A longer lateness is due to other work on that CPU.
const LONGEST_LEAD_NS: u64 = 300_000;
/// Its stack, bytes; the C library's minimum is 16 KiB.
const STACK: usize = 64 * 1024;

/// The application's side.
#[derive(Debug)]
pub(crate) struct OwnThread {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    pub limits: Limits,
    budget: Budget,
    /// Requests in the shared slots, with their windows as charged.
    slots: [Option<(u64, Window)>; MAX_OPEN as usize],
    /// CPUs that this process could use when the thread began.
    allowed: CpuSet,
}

#[derive(Debug)]
struct Shared {
    /// Odd while slots are written. The thread sleeps on it.
    sequence: AtomicU32,
    /// The thread sleeps, or is about to.
    asleep: AtomicBool,
    stop: AtomicBool,
    tid: AtomicI32,
    /// To which the thread is bound; [`NOWHERE`] at first.
    cpu: AtomicU32,
    lead_ns: AtomicU64,
    awake_ns: AtomicU64,
    slots: [Slot; MAX_OPEN as usize],
}

const NOWHERE: u32 = u32::MAX;

/// A window; over, or none, where its end is past.
#[derive(Debug, Default)]
struct Slot {
    cpu: AtomicU32,
    at_ns: AtomicU64,
    end_ns: AtomicU64,
}

impl OwnThread {
    /// Starts it; needs no privilege.
    pub fn start() -> io::Result<Self> {
        let allowed = sched_getaffinity(Pid::from_raw(0))?;
        let shared = Arc::new(Shared {
            sequence: AtomicU32::new(0),
            asleep: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            tid: AtomicI32::new(0),
            cpu: AtomicU32::new(NOWHERE),
            lead_ns: AtomicU64::new(FIRST_LEAD_NS),
            awake_ns: AtomicU64::new(0),
            slots: std::array::from_fn(|_| Slot::default()),
        });
        let thread = spawn(&shared)?;
        let limits = Limits::default();
        // For the longest window with its lead.
        let burst_ns = limits.window_ns + LONGEST_LEAD_NS;
        Ok(Self {
            shared,
            thread: Some(thread),
            limits,
            budget: Budget::new(limits.awake_ppm, burst_ns, monotonic_ns()),
            slots: [None; MAX_OPEN as usize],
            allowed,
        })
    }

    /// The CPU is to be awake in that window.
    pub fn expect(&mut self, id: u64, cpu: u32, window: Window) -> Result<(), Refusal> {
        let now_ns = monotonic_ns();
        let over = |slot: &Option<(u64, Window)>| {
            slot.is_none_or(|(_, window)| window.left_ns(now_ns) == 0)
        };
        if cpu as usize >= CpuSet::count() {
            return Err(Refusal::Cpu);
        }
        let place = self.slots.iter().position(over).ok_or(Refusal::Limit)?;
        let paid = self.with_lead(now_ns, window);
        if !self.budget.allows(now_ns, paid) {
            return Err(Refusal::Budget);
        }
        if self.shared.cpu.load(Ordering::Relaxed) != cpu {
            let tid = Pid::from_raw(self.shared.tid.load(Ordering::Relaxed));
            bind(tid, cpu).map_err(|_| Refusal::Cpu)?;
            self.shared.cpu.store(cpu, Ordering::Relaxed);
        }
        self.budget.take(paid);
        self.slots[place] = Some((id, paid));
        self.shared.write(|slots| {
            let slot = &slots[place];
            slot.cpu.store(cpu, Ordering::Relaxed);
            slot.at_ns.store(window.at_ns, Ordering::Relaxed);
            slot.end_ns.store(window.end_ns(), Ordering::Relaxed);
        });
        Ok(())
    }

    /// The request is over.
    pub fn cancel(&mut self, id: u64) {
        let now_ns = monotonic_ns();
        let is_it = |slot: &Option<(u64, Window)>| slot.is_some_and(|(other, _)| other == id);
        let Some(place) = self.slots.iter().position(is_it) else {
            return;
        };
        if let Some((_, paid)) = self.slots[place].take() {
            self.budget.give_back(now_ns, paid);
        }
        self.shared
            .write(|slots| slots[place].end_ns.store(0, Ordering::Relaxed));
    }

    /// Time for which the thread has kept CPUs awake, ns.
    pub fn awake_ns(&self) -> u64 {
        self.shared.awake_ns.load(Ordering::Relaxed)
    }

    /// How much before a window its timer is set at present, ns.
    pub fn lead_ns(&self) -> u64 {
        self.shared.lead_ns.load(Ordering::Relaxed)
    }

    /// The time awake that a window takes, including the lead. It begins at `now_ns` or later.
    fn with_lead(&self, now_ns: u64, window: Window) -> Window {
        let at_ns = window.at_ns.saturating_sub(self.lead_ns()).max(now_ns);
        Window {
            at_ns,
            length_ns: window.end_ns().saturating_sub(at_ns),
        }
    }
}

impl Drop for OwnThread {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        // On a busy CPU it would not run for long.
        let tid = Pid::from_raw(self.shared.tid.load(Ordering::Relaxed));
        let _ = sched_setaffinity(tid, &self.allowed);
        self.shared.write(|_| {});
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Starts the thread with all signals blocked, so that the application's handlers do not run in it.
fn spawn(shared: &Arc<Shared>) -> io::Result<JoinHandle<()>> {
    let (report, settled) = mpsc::channel();
    let before = SigSet::all().thread_swap_mask(SigmaskHow::SIG_SETMASK)?;
    let thread = std::thread::Builder::new()
        .name("expect".into())
        .stack_size(STACK)
        .spawn({
            let shared = shared.clone();
            move || {
                let ready = shared.settle();
                let serves = ready.is_ok();
                // The starter waits for it.
                let _ = report.send(ready);
                drop(report);
                if serves {
                    shared.serve();
                }
            }
        });
    before.thread_set_mask()?;
    let thread = thread?;
    match settled.recv() {
        Ok(Ok(())) => Ok(thread),
        Ok(Err(errno)) => Err(errno.into()),
        Err(_) => Err(io::Error::other("the thread ended")),
    }
}

fn bind(tid: Pid, cpu: u32) -> nix::Result<()> {
    let mut only = CpuSet::new();
    only.set(cpu as usize)?;
    sched_setaffinity(tid, &only)
}

/// Why the thread runs again.
#[derive(PartialEq, Eq)]
enum Woken {
    AtTime,
    /// By a change; or by nothing.
    ByChange,
}

impl Shared {
    /// Changes slots, and lets the thread know.
    fn write(&self, change: impl FnOnce(&[Slot])) {
        let sequence = self.sequence.load(Ordering::Relaxed);
        self.sequence
            .store(sequence.wrapping_add(1), Ordering::Relaxed);
        fence(Ordering::Release);
        change(&self.slots);
        // The thread sets `asleep` before the kernel compares the sequence; this writes the sequence
        // before it reads `asleep`. Both are sequentially consistent, so one side sees the other.
        self.sequence
            .store(sequence.wrapping_add(2), Ordering::SeqCst);
        if self.asleep.load(Ordering::SeqCst) {
            // It cannot fail for a sleeping thread.
            let _ = self.futex(libc::FUTEX_WAKE, 1, None);
        }
    }

    /// Sets the policy first, so that it delays no other thread.
    fn settle(&self) -> nix::Result<()> {
        let parameters = libc::sched_param { sched_priority: 0 };
        // SAFETY: the call takes plain values and a live struct, and concerns the calling thread.
        let set = unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &parameters) };
        Errno::result(set)?;
        // By default a thread's timers may be 50 µs late (prctl(2)).
        // SAFETY: the call takes plain values, and concerns the calling thread.
        let set = unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong) };
        Errno::result(set)?;
        self.tid.store(gettid().as_raw(), Ordering::Relaxed);
        Ok(())
    }

    fn serve(&self) {
        while !self.stop.load(Ordering::Relaxed) {
            let sequence = self.sequence.load(Ordering::Acquire);
            let now_ns = monotonic_ns();
            let next = self.next(now_ns);
            fence(Ordering::Acquire);
            if sequence % 2 == 1 || self.sequence.load(Ordering::Relaxed) != sequence {
                // The writer was interrupted, perhaps by this thread; it wakes this one at its end.
                self.sleep(sequence | 1, None);
                continue;
            }
            let Some((cpu, window)) = next else {
                self.sleep(sequence, None);
                continue;
            };
            self.go_to(cpu);
            let start_ns = window
                .at_ns
                .saturating_sub(self.lead_ns.load(Ordering::Relaxed));
            if now_ns < start_ns {
                if self.sleep(sequence, Some(start_ns)) == Woken::ByChange {
                    continue;
                }
                self.learn(monotonic_ns().saturating_sub(start_ns));
                self.go_to(cpu);
            }
            self.spin(sequence, window.end_ns());
        }
    }

    /// Binds the thread to the CPU if it is not there: for another window, or because the CPU went offline,
    /// which ends a binding for good. If the CPU is offline, the window passes where the thread is, and the
    /// next request for that CPU is refused.
    fn go_to(&self, cpu: u32) {
        let on_it = sched_getcpu() == Ok(cpu as usize) && self.cpu.load(Ordering::Relaxed) == cpu;
        if !on_it {
            let bound = bind(Pid::from_raw(0), cpu);
            let is_there = bound.map_or(NOWHERE, |()| cpu);
            self.cpu.store(is_there, Ordering::Relaxed);
        }
    }

    /// The window that begins first of those that are not over, and its CPU.
    fn next(&self, now_ns: u64) -> Option<(u32, Window)> {
        let windows = self.slots.iter().filter_map(|slot| {
            let end_ns = slot.end_ns.load(Ordering::Relaxed);
            let at_ns = slot.at_ns.load(Ordering::Relaxed);
            let window = Window {
                at_ns,
                length_ns: end_ns.saturating_sub(at_ns),
            };
            (end_ns > now_ns).then(|| (slot.cpu.load(Ordering::Relaxed), window))
        });
        windows.min_by_key(|(_, window)| window.at_ns)
    }

    /// Until the sequence is another, or that instant.
    fn sleep(&self, sequence: u32, until_ns: Option<u64>) -> Woken {
        self.asleep.store(true, Ordering::SeqCst);
        let slept = self.futex(libc::FUTEX_WAIT_BITSET, sequence, until_ns);
        self.asleep.store(false, Ordering::Relaxed);
        match slept {
            Err(Errno::ETIMEDOUT) => Woken::AtTime,
            _ => Woken::ByChange,
        }
    }

    fn spin(&self, sequence: u32, end_ns: u64) {
        let begun_ns = own_time_ns();
        while monotonic_ns() < end_ns && self.sequence.load(Ordering::Relaxed) == sequence {
            std::hint::spin_loop();
        }
        let spent_ns = own_time_ns().saturating_sub(begun_ns);
        self.awake_ns.fetch_add(spent_ns, Ordering::Relaxed);
    }

    /// Steps the lead up if it was too short and a third of that down if not, so that three in four are in
    /// time (a stochastic quantile). Higher quantiles, and what exceeds the longest lead, are due to other
    /// work on the CPU.
    fn learn(&self, late_ns: u64) {
        if late_ns > LONGEST_LEAD_NS {
            return;
        }
        let lead_ns = self.lead_ns.load(Ordering::Relaxed);
        let step_ns = (lead_ns / 16).max(3);
        let next_ns = if late_ns > lead_ns {
            lead_ns + step_ns
        } else {
            lead_ns - step_ns / 3
        };
        let bounded = next_ns.clamp(SHORTEST_LEAD_NS, LONGEST_LEAD_NS);
        self.lead_ns.store(bounded, Ordering::Relaxed);
    }

    /// futex(2) on the sequence; the instant is of CLOCK_MONOTONIC.
    fn futex(&self, operation: i32, value: u32, until_ns: Option<u64>) -> nix::Result<()> {
        let until = until_ns.map(|ns| libc::timespec {
            tv_sec: (ns / 1_000_000_000) as libc::time_t,
            tv_nsec: (ns % 1_000_000_000) as libc::c_long,
        });
        let until: *const libc::timespec = until.as_ref().map_or(std::ptr::null(), |until| until);
        // SAFETY: the sequence and the instant live through the call, which writes to neither.
        let done = unsafe {
            libc::syscall(
                libc::SYS_futex,
                self.sequence.as_ptr(),
                operation | libc::FUTEX_PRIVATE_FLAG,
                value,
                until,
                std::ptr::null::<u32>(),
                libc::FUTEX_BITSET_MATCH_ANY,
            )
        };
        Errno::result(done).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    /// Long: a busy machine may run a thread of that policy late.
    const DEADLINE: Duration = Duration::from_secs(60);

    fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
        let begun = Instant::now();
        while !is_so() {
            assert!(begun.elapsed() < DEADLINE, "waited in vain for {what}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn here() -> u32 {
        nix::sched::sched_getcpu().unwrap() as u32
    }

    fn from_now(ahead_ns: u64, length_ns: u64) -> Window {
        Window {
            at_ns: monotonic_ns() + ahead_ns,
            length_ns,
        }
    }

    #[test]
    fn it_spins_only_within_a_window() {
        let mut own = OwnThread::start().unwrap();
        let asleep = |own: &OwnThread| own.shared.asleep.load(Ordering::SeqCst);
        own.expect(1, here(), from_now(9_000_000_000, 5_000_000))
            .unwrap();
        wait_for("the thread to sleep before", || asleep(&own));
        assert_eq!(own.awake_ns(), 0);
        own.cancel(1);
        // Repeat for each window: a thread that is kept from running misses one.
        wait_for("a window to be spun in", || {
            let _ = own.expect(2, here(), from_now(1_000_000, 2_000_000));
            own.awake_ns() > 0
        });
        wait_for("the windows to be over", || {
            own.shared.next(monotonic_ns()).is_none()
        });
        wait_for("the thread to sleep after", || asleep(&own));
        // A thread that was late for a window may still be awake for a moment.
        wait_for("the time awake to stand still", || {
            let awake_ns = own.awake_ns();
            std::thread::sleep(Duration::from_millis(20));
            own.awake_ns() == awake_ns
        });
    }

    #[test]
    fn a_window_cancelled_before_it_began_costs_nothing() {
        let mut own = OwnThread::start().unwrap();
        own.expect(1, here(), from_now(5_000_000_000, 10_000_000))
            .unwrap();
        own.cancel(1);
        own.cancel(1);
        own.cancel(77);
        assert!(own.budget.is_full(monotonic_ns()));
        assert_eq!(own.shared.next(monotonic_ns()), None);
        assert_eq!(own.awake_ns(), 0);
    }

    #[test]
    fn it_spins_on_time_and_within_its_limits() {
        let mut own = OwnThread::start().unwrap();
        let cpu = here();
        let window = from_now(5_000_000_000, 8_000_000);
        own.expect(0, cpu, window).unwrap();
        assert_eq!(own.expect(1, cpu, window), Err(Refusal::Budget));
        own.cancel(0);
        for id in 0..u64::from(MAX_OPEN) {
            own.expect(id, cpu, from_now(5_000_000_000 + id * 50_000_000, 1))
                .unwrap();
        }
        let more = own.expect(99, cpu, from_now(9_000_000_000, 1));
        assert_eq!(more, Err(Refusal::Limit));
    }

    #[test]
    fn a_missing_cpu_is_refused() {
        let mut own = OwnThread::start().unwrap();
        for cpu in [1_000, u32::MAX] {
            let refused = own.expect(1, cpu, from_now(1_000_000, 1_000));
            assert_eq!(refused, Err(Refusal::Cpu));
        }
        assert!(own.budget.is_full(monotonic_ns()));
    }

    #[test]
    fn it_runs_on_the_requested_cpu_at_the_lowest_priority() {
        let mut own = OwnThread::start().unwrap();
        let cpu = here();
        own.expect(1, cpu, from_now(1_000_000_000, 1_000)).unwrap();
        let tid = own.shared.tid.load(Ordering::Relaxed);
        // SAFETY: the call takes a plain value.
        assert_eq!(unsafe { libc::sched_getscheduler(tid) }, libc::SCHED_IDLE);
        let bound = sched_getaffinity(Pid::from_raw(tid)).unwrap();
        let cpus = (0..CpuSet::count()).filter(|&cpu| bound.is_set(cpu) == Ok(true));
        assert_eq!(cpus.collect::<Vec<_>>(), [cpu as usize]);
        // And the application stays where it was.
        let mine = sched_getaffinity(Pid::from_raw(0)).unwrap();
        assert_eq!(mine, own.allowed);
    }

    #[test]
    fn it_returns_to_a_cpu_that_was_briefly_offline() {
        let cpus: Vec<u32> = (0..CpuSet::count() as u32)
            .filter(|&cpu| {
                let mine = sched_getaffinity(Pid::from_raw(0)).unwrap();
                mine.is_set(cpu as usize) == Ok(true)
            })
            .collect();
        let [cpu, .., other] = cpus[..] else {
            return println!("skipped: needs two CPUs");
        };
        let mut own = OwnThread::start().unwrap();
        own.expect(1, cpu, from_now(1_000_000, 1_000)).unwrap();
        let tid = Pid::from_raw(own.shared.tid.load(Ordering::Relaxed));
        // The kernel moves it elsewhere; its binding does not come back.
        bind(tid, other).unwrap();
        let mut only = CpuSet::new();
        only.set(cpu as usize).unwrap();
        wait_for("the thread to be back", || {
            let _ = own.expect(2, cpu, from_now(1_000_000, 1_000));
            sched_getaffinity(tid) == Ok(only)
        });
    }

    #[test]
    fn it_ends_with_its_owner_even_within_a_window() {
        let mut own = OwnThread::start().unwrap();
        let tid = own.shared.tid.load(Ordering::Relaxed);
        let there = format!("/proc/self/task/{tid}");
        assert!(std::path::Path::new(&there).exists());
        own.expect(1, here(), from_now(0, 10_000_000)).unwrap();
        drop(own);
        wait_for("the thread to be gone", || {
            !std::path::Path::new(&there).exists()
        });
    }

    #[test]
    fn the_lead_follows_the_lateness_within_its_bounds() {
        let own = OwnThread::start().unwrap();
        for _ in 0..10_000 {
            own.shared.learn(LONGEST_LEAD_NS + 1);
        }
        assert_eq!(own.lead_ns(), FIRST_LEAD_NS);
        for _ in 0..10_000 {
            own.shared.learn(LONGEST_LEAD_NS);
        }
        assert!(own.lead_ns() > LONGEST_LEAD_NS * 9 / 10);
        for _ in 0..10_000 {
            own.shared.learn(0);
        }
        assert_eq!(own.lead_ns(), SHORTEST_LEAD_NS);
        // Between 10 and 30 µs, uniformly: three in four are below 25 µs.
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..10_000 {
            own.shared.learn(random.u64(10_000..30_000));
        }
        let lead_ns = own.lead_ns();
        assert!((21_000..29_000).contains(&lead_ns), "{lead_ns}");
    }
}
