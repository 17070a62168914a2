//! A turn of a setting.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::libc;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_gettime};
use reveille_kernel::interrupts::Interrupts;
use reveille_kernel::journal::{LiveBound, Slot};
use reveille_kernel::{Error, Result, Root, affinity};

use crate::Plan;
use crate::load::{self, Answers, Client};
use crate::programs::{Programs, QUIET, Sums};

/// What is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Setting {
    AsIs,
    Held,
    Thread,
    IdleClass,
    Timer,
    Work,
}

impl Setting {
    /// In their order.
    pub const ALL: [Self; 6] = [
        Self::AsIs,
        Self::Held,
        Self::Thread,
        Self::IdleClass,
        Self::Timer,
        Self::Work,
    ];

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::AsIs => "as is",
            Self::Held => "held",
            Self::Thread => "A thread",
            Self::IdleClass => "A, idle class",
            Self::Timer => "B timer",
            Self::Work => "C loop",
        }
    }

    /// `enum way` of ways.h.
    fn way(self) -> u32 {
        match self {
            Self::AsIs | Self::Held => 0,
            Self::Thread | Self::IdleClass => 1,
            Self::Timer => 2,
            Self::Work => 3,
        }
    }
}

/// What a turn had.
#[derive(Clone)]
pub struct Turn {
    pub answers: Answers,
    pub sums: Sums,
    /// CPU time of A's thread.
    pub thread: Duration,
    /// Timer interrupts on the serving CPU.
    pub timer_interrupts: u64,
    /// The program at the packet, ns a run.
    pub packet_ns: f64,
    /// Other programs ran for more than [`OTHERS_MAX`] of the time.
    pub disturbed: bool,
}

/// Of both CPUs' time; the benchmark's own programs take less.
const OTHERS_MAX: f64 = 0.05;

/// Runs a turn; `nth` counts from 1.
///
/// # Errors
/// Where a request is not answered, or the bound cannot be set.
pub fn turn(
    setting: Setting,
    nth: u32,
    plan: &Plan,
    programs: &Programs,
    bound: &LiveBound,
    client: &mut Client,
) -> Result<Turn> {
    if setting == Setting::Held {
        set(bound, Some(plan.bound_us))?;
    }
    let (timers, packet, others) = (timer_interrupts(plan.cpu), programs.packet()?, others(plan));
    programs.begin(setting.way(), nth)?;
    let began = Instant::now();
    let paused = |from, until| programs.paused(from, until);
    let mut thread_time = Duration::ZERO;
    let answers = match setting {
        Setting::Thread | Setting::IdleClass => {
            let over = AtomicBool::new(false);
            std::thread::scope(|scope| {
                let thread = scope.spawn(|| {
                    if setting == Setting::IdleClass {
                        yield_to_others()?;
                    }
                    keep(plan, programs, bound, &over)
                });
                let answers = client.ask(paused);
                over.store(true, Ordering::Release);
                thread_time = thread.join().expect("the thread does not panic")?;
                answers
            })?
        }
        _ => client.ask(paused)?,
    };
    let disturbed = self::others(plan) - others > most_of_others(began.elapsed());
    let sums = programs.end()?;
    std::thread::sleep(2 * QUIET);
    let turn = Turn {
        answers,
        sums,
        thread: thread_time,
        timer_interrupts: timer_interrupts(plan.cpu) - timers,
        packet_ns: programs.cost_ns(packet, programs.packet()?),
        disturbed,
    };
    set(bound, None)?;
    Ok(turn)
}

/// A: the thread on the CPU, as the service has it; its CPU time.
fn keep(
    plan: &Plan,
    programs: &Programs,
    bound: &LiveBound,
    over: &AtomicBool,
) -> Result<Duration> {
    affinity::bind(&[plan.cpu]).map_err(Error::system("sched_setaffinity"))?;
    let mut wait = None;
    let began = cpu_time();
    while !over.load(Ordering::Acquire) {
        let mut bell = [PollFd::new(programs.as_fd(), PollFlags::POLLIN)];
        // So often it looks whether the turn is over; the service's thread is woken instead.
        let at_most = TimeSpec::from_duration(wait.unwrap_or(load::PAUSE));
        let _ = ppoll(&mut bell, Some(at_most), None);
        if programs.called() {
            programs.note_held(true);
            set(bound, Some(plan.bound_us))?;
        }
        wait = programs.quiet_in();
        if wait.is_none() {
            // A packet from now on rings anew; one until now is seen here.
            programs.note_held(false);
            wait = programs.quiet_in();
            match wait {
                Some(_) => programs.note_held(true),
                None => set(bound, None)?,
            }
        }
    }
    let took = cpu_time() - began;
    programs.note_held(false);
    programs.called();
    Ok(took)
}

/// Has this thread run when the CPU has nothing else to run: that is early enough, for only then it idles.
fn yield_to_others() -> Result<()> {
    // SAFETY: all zeros are a valid value, and the one that the class takes.
    let parameters: libc::sched_param = unsafe { std::mem::zeroed() };
    // SAFETY: of this thread; the parameters outlive the call.
    match unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &parameters) } {
        0 => Ok(()),
        _ => Err(Error::system("sched_setscheduler")(Errno::last())),
    }
}

fn set(bound: &LiveBound, bound_us: Option<u32>) -> Result<()> {
    match bound.set(bound_us)? {
        Slot::Ours => Ok(()),
        Slot::Anothers(value) => Err(Error::Disturbed(format!(
            "CPU {}'s latency bound is another program's ({value})",
            bound.cpu
        ))),
    }
}

fn cpu_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

fn timer_interrupts(cpu: u32) -> u64 {
    let interrupts = Interrupts::read(&Root::default());
    interrupts
        .and_then(|read| read.count("LOC", cpu))
        .unwrap_or(0)
}

/// Whether other programs ran on either CPU for a moment from now on.
pub fn is_disturbed(plan: &Plan) -> bool {
    const MOMENT: Duration = Duration::from_millis(100);
    let before = others(plan);
    std::thread::sleep(MOMENT);
    others(plan) - before > most_of_others(MOMENT)
}

fn most_of_others(time: Duration) -> f64 {
    OTHERS_MAX * 2.0 * time.as_secs_f64()
}

/// Of both CPUs: time of programs (not of the kernel), seconds since boot: the first two numbers of each line
/// of /proc/stat, in hundredths.
fn others(plan: &Plan) -> f64 {
    let text = Root::default().text("proc/stat").unwrap_or_default();
    let of = |cpu: u32| {
        let name = format!("cpu{cpu} ");
        let line = text.lines().find_map(|line| line.strip_prefix(&name));
        let words = line.unwrap_or_default().split_whitespace().take(2);
        words
            .filter_map(|word| word.parse::<f64>().ok())
            .sum::<f64>()
            / 100.0
    };
    of(plan.cpu) + of(plan.client)
}
