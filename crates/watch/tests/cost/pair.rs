//! Two threads on two CPUs that wake each other a given number of times after random pauses, and
//! record the clock just before the waking system call and just after the waiting one, and the
//! kernel's count of how often each really slept.

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use nix::errno::Errno;
use nix::libc;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::resource::{UsageWho, getrusage};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;

/// The threads' names.
pub const NAMES: [&str; 2] = ["truth-even", "truth-odd"];

/// One thread's record of its wake-ups by the other.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Account {
    /// For each sleep, the other's clock before the wake-up and its own after it.
    pub waits: Vec<(u64, u64)>,
    /// Other sleeps: for the pipe's lock, while the other held it and did not run.
    pub slept_besides: u64,
}

pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).unwrap();
    now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64
}

pub fn bind_to(cpu: usize) {
    let mut set = CpuSet::new();
    set.set(cpu).unwrap();
    sched_setaffinity(Pid::from_raw(0), &set).unwrap();
}

/// One thread's ends of two pipes. A message is the sender's clock.
struct Side {
    from_other: PipeReader,
    to_other: PipeWriter,
    pauses: fastrand::Rng,
}

impl Side {
    fn wake_other(&mut self, shortest: Duration, longest: Duration, account: &mut Account) {
        let range = shortest.as_nanos() as u64..longest.as_nanos() as u64;
        let until = now_ns() + self.pauses.u64(range);
        while now_ns() < until {
            std::hint::spin_loop();
        }
        let slept_before = sleeps();
        self.to_other.write_all(&now_ns().to_ne_bytes()).unwrap();
        account.slept_besides += (sleeps() - slept_before) as u64;
    }

    fn wait(&mut self, account: &mut Account) {
        let mut woken_at = [0; 8];
        let slept_before = sleeps();
        self.from_other.read_exact(&mut woken_at).unwrap();
        let runs_at = now_ns();
        let slept = (sleeps() - slept_before) as u64;
        if slept > 0 {
            account.waits.push((u64::from_ne_bytes(woken_at), runs_at));
            account.slept_besides += slept - 1;
        }
    }
}

/// This thread's voluntary context switches.
fn sleeps() -> i64 {
    let usage = getrusage(UsageWho::RUSAGE_THREAD).unwrap();
    usage.voluntary_context_switches()
}

/// `rounds` wake-ups each way, between CPUs 0 and 1.
pub fn wake_each_other(rounds: usize, shortest: Duration, longest: Duration) -> [Account; 2] {
    let (from_odd, to_even) = io::pipe().unwrap();
    let (from_even, to_odd) = io::pipe().unwrap();
    let side = |from_other, to_other, seed| Side {
        from_other,
        to_other,
        pauses: fastrand::Rng::with_seed(seed),
    };
    let run = |number: usize, mut side: Side| {
        move || {
            bind_to(number);
            schedule_as(libc::SCHED_FIFO, 10).expect("it was tried before");
            let mut account = Account::default();
            for _ in 0..rounds {
                if number == 0 {
                    side.wake_other(shortest, longest, &mut account);
                    side.wait(&mut account);
                } else {
                    side.wait(&mut account);
                    side.wake_other(shortest, longest, &mut account);
                }
            }
            account
        }
    };
    let start = |number: usize, side: Side| {
        let name = NAMES[number].to_owned();
        thread::Builder::new().name(name).spawn(run(number, side))
    };
    let odd_thread = start(1, side(from_even, to_even, 2)).unwrap();
    // The other exists and sleeps before its first wake-up.
    thread::sleep(Duration::from_millis(20));
    let even_thread = start(0, side(from_odd, to_odd, 1)).unwrap();
    [even_thread.join().unwrap(), odd_thread.join().unwrap()]
}

/// Keeps CPUs 0 and 1 awake, at the lowest priority, until dropped.
pub struct Spinners {
    stop: Arc<AtomicBool>,
    threads: Vec<thread::JoinHandle<()>>,
}

impl Spinners {
    pub fn start() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (ready, spinning) = mpsc::channel();
        let spin = |cpu| {
            let (stop, ready) = (stop.clone(), ready.clone());
            move || {
                bind_to(cpu);
                schedule_as(libc::SCHED_IDLE, 0).expect("anyone may give way");
                ready.send(()).unwrap();
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            }
        };
        let threads = (0..2).map(|cpu| thread::spawn(spin(cpu))).collect();
        for _ in 0..2 {
            spinning.recv().unwrap();
        }
        Self { stop, threads }
    }
}

impl Drop for Spinners {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Whether the threads may have real-time priority, which root lacks in a control group without
/// real-time quota.
pub fn may_be_prompt() -> io::Result<()> {
    let tried = thread::spawn(|| schedule_as(libc::SCHED_FIFO, 10));
    tried.join().unwrap()
}

/// The scheduler's policy for this thread.
fn schedule_as(policy: libc::c_int, priority: libc::c_int) -> io::Result<()> {
    let parameters = libc::sched_param {
        sched_priority: priority,
    };
    // SAFETY: the parameters outlive the call.
    let set = unsafe { libc::sched_setscheduler(0, policy, &raw const parameters) };
    Errno::result(set).map(drop).map_err(io::Error::from)
}
