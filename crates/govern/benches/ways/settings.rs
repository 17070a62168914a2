//! The settings, and a turn of each.

use std::mem::offset_of;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use libbpf_rs::{MapCore, ProgramInput};
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_gettime};
use reveille_kernel::bpf::{
    self as kernel, Bell, Counting, KernelBtf, Plain, RunTime, Shared, run_time,
};
use reveille_kernel::interrupts::Interrupts;
use reveille_kernel::journal::LiveBound;
use reveille_kernel::{Error, Idle, Journal, Result, Root, affinity, limits, network};

use self::skeleton::{WaysSkel, WaysSkelBuilder, types};
use crate::Plan;
use crate::load::{self, Answers, Client};

mod skeleton {
    #![allow(clippy::all, non_camel_case_types, dead_code, unused_imports)]
    include!(concat!(env!("OUT_DIR"), "/ways.skel.rs"));
}

/// So long after the last packet a way ends.
pub const QUIET: Duration = Duration::from_millis(10);
/// The place in the kernel's sums of what is between turns.
const BETWEEN: u32 = 5;
/// B's timer comes no more often: that alone would keep the CPU busy.
const PERIOD_MIN_US: u64 = 50;

// SAFETY: only integers of 64 bits, without padding.
unsafe impl Plain for types::sums {}
pub use types::{next as Next, sums as Sums};

/// What is tried, with its place in the kernel's sums.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Setting {
    AsIs = 0,
    Held = 1,
    Thread = 2,
    Timer = 3,
    Work = 4,
}

impl Setting {
    /// In their order.
    pub const ALL: [Self; 5] = [
        Self::AsIs,
        Self::Held,
        Self::Thread,
        Self::Timer,
        Self::Work,
    ];

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::AsIs => "as is",
            Self::Held => "held",
            Self::Thread => "A thread",
            Self::Timer => "B timer",
            Self::Work => "C loop",
        }
    }

    /// `enum way` of ways.h.
    fn way(self) -> u32 {
        (self as u32).saturating_sub(1)
    }
}

/// What a setting's turns had.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// Of each turn.
    pub turns: Vec<Answers>,
    /// CPU time of A's thread.
    pub thread: Duration,
    /// Timer interrupts on the serving CPU.
    pub timer_interrupts: u64,
    /// The program at the packet.
    pub packet: Cost,
}

/// A program's runs, and their time without that of counting.
#[derive(Debug, Clone, Copy, Default)]
pub struct Cost {
    pub runs: u64,
    pub own_ns: u64,
}

/// The programs at work.
pub struct Programs {
    skel: WaysSkel<'static>,
    board: Shared<types::board>,
    bell: Bell,
    counting: Option<(Counting, u64)>,
    has_work: bool,
    /// Idle states that the bound forbids, a bit each.
    pub forbidden: u32,
    /// The state that polls.
    pub polling: Option<u32>,
    /// B's timer.
    pub period: Duration,
    /// B's timer stays on its CPU by a flag of the kernel's, and not by `kernel.timer_migration`.
    pub pins: bool,
}

/// A word of the board.
macro_rules! board {
    ($programs:expr, $field:ident) => {
        $programs
            .board
            .at(0)
            .word(offset_of!(types::board, $field), |board: &types::board| {
                &board.$field
            })
    };
}

impl Programs {
    /// Loads and attaches them.
    ///
    /// # Errors
    /// [`Error::Cannot`] where the kernel lacks what is needed or this user the right.
    pub fn start(plan: &Plan, idle: &Idle, journal: &mut Journal) -> Result<Self> {
        let states = &idle
            .cpu(plan.cpu)
            .ok_or_else(|| idle.no_cpu(plan.cpu))?
            .states;
        let is_forbidden = |latency: Option<u64>| latency > Some(plan.bound_us.into());
        let polling = limits::poll(states).map(|state| state.index);
        let forbidden = states.iter().filter(|state| {
            Some(state.index) != polling
                && (plan.bound_us == 0 || is_forbidden(state.exit_latency_us))
        });
        let bits = forbidden
            .clone()
            .fold(0, |bits, state| bits | 1 << state.index);
        let residency_us = forbidden
            .filter_map(|state| state.target_residency_us)
            .min();
        let period_us = match plan.period_us {
            0 => (residency_us.unwrap_or(0) * 3 / 4).max(PERIOD_MIN_US),
            us => us,
        };
        let period = Duration::from_micros(period_us);
        let btf = KernelBtf::read()?;
        let has_work = btf.function("bpf_wq_start");
        let mut open = WaysSkelBuilder::default().open(kernel::storage())?;
        let rodata = open.maps.rodata_data.as_deref_mut();
        let rodata = rodata.expect("the object has settings");
        rodata.cpu = plan.cpu;
        rodata.port = load::PORT.into();
        rodata.namespace = network::namespace()?;
        rodata.forbidden = bits;
        rodata.quiet_ns = QUIET.as_nanos() as u64;
        rodata.period_ns = period.as_nanos() as u64;
        rodata.has_work = has_work;
        let mut skel = open.load().map_err(kernel::cannot_load)?;
        let prepare = || {
            Ok(skel
                .progs
                .prepare
                .test_run(ProgramInput::default())?
                .return_value)
        };
        let errno = kernel::while_out_of_memory(prepare)?;
        if errno != 0 {
            let why = std::io::Error::from_raw_os_error(errno);
            return Err(Error::Cannot(format!("timers for BPF: {why}")));
        }
        let pins = skel
            .maps
            .bss_data
            .as_ref()
            .is_some_and(|bss| bss.timer_flags != 0);
        if !pins {
            // Without the flag a timer that is armed on an idle CPU may move to a busy one.
            journal.set("/proc/sys/kernel/timer_migration", "0")?;
        }
        skel.attach().map_err(kernel::cannot_load)?;
        let counting = Counting::start();
        let counting = counting.and_then(|counting| {
            let nothing_ns = counting.of_nothing_ns().ok()?;
            Some((counting, nothing_ns))
        });
        Ok(Self {
            board: Shared::of(&skel.maps.boards, 1)?,
            bell: Bell::all(&skel.maps.bells)?.remove(0),
            skel,
            counting,
            has_work,
            forbidden: bits,
            polling,
            period,
            pins,
        })
    }

    /// Those that this kernel can run.
    pub fn settings(&self) -> Vec<Setting> {
        let all = Setting::ALL.into_iter();
        all.filter(|&setting| setting != Setting::Work || self.has_work)
            .collect()
    }

    /// What the kernel counted of a setting.
    pub fn sums(&self, setting: Setting) -> Result<Sums> {
        let board = self
            .skel
            .maps
            .boards
            .lookup(&[0; 4], libbpf_rs::MapFlags::ANY)?;
        let board = board.expect("arrays have all their elements");
        let at = offset_of!(types::board, sums) + setting as usize * size_of::<Sums>();
        Ok(kernel::record(&board[at..]))
    }

    /// Runs a turn of a setting.
    ///
    /// # Errors
    /// Where a request is not answered, or the bound cannot be set.
    pub fn turn(
        &self,
        setting: Setting,
        plan: &Plan,
        bound: &LiveBound,
        client: &mut Client,
        outcome: &mut Outcome,
    ) -> Result<()> {
        board!(self, setting).store(setting as u32, Ordering::SeqCst);
        board!(self, way).store(setting.way(), Ordering::SeqCst);
        if setting == Setting::Held {
            bound.set(Some(plan.bound_us))?;
        }
        let (timers, packet) = (timer_interrupts(plan.cpu), self.packet()?);
        let paused = |from: u64, until: u64| {
            board!(self, pause_from).store(from, Ordering::SeqCst);
            board!(self, pause_until).store(until, Ordering::SeqCst);
        };
        let answers = match setting {
            Setting::Thread => {
                let over = AtomicBool::new(false);
                std::thread::scope(|scope| {
                    let thread = scope.spawn(|| self.keep(plan, bound, &over));
                    let answers = client.ask(paused);
                    over.store(true, Ordering::Release);
                    outcome.thread += thread.join().expect("the thread does not panic")?;
                    answers
                })?
            }
            _ => client.ask(paused)?,
        };
        board!(self, setting).store(BETWEEN, Ordering::SeqCst);
        std::thread::sleep(2 * QUIET);
        let after = self.packet()?;
        outcome.timer_interrupts += timer_interrupts(plan.cpu) - timers;
        outcome.packet.runs += after.runs - packet.runs;
        let nothing_ns = self.counting.as_ref().map_or(0, |&(_, ns)| ns);
        outcome.packet.own_ns += after.own_ns_since(packet, nothing_ns);
        outcome.turns.push(answers);
        board!(self, way).store(0, Ordering::SeqCst);
        bound.set(None)?;
        Ok(())
    }

    fn packet(&self) -> Result<RunTime> {
        run_time(self.skel.progs.packet.as_fd())
    }

    /// A: the thread on the CPU, as the service has it; its CPU time.
    fn keep(&self, plan: &Plan, bound: &LiveBound, over: &AtomicBool) -> Result<Duration> {
        affinity::bind(&[plan.cpu]).map_err(Error::system("sched_setaffinity"))?;
        let mut wait = None;
        let began = cpu_time();
        while !over.load(Ordering::Acquire) {
            let mut bell = [PollFd::new(self.bell.as_fd(), PollFlags::POLLIN)];
            // So often the thread looks whether the turn is over, which costs others nothing: the
            // service's thread is woken instead.
            let at_most = wait.unwrap_or(load::PAUSE);
            let _ = ppoll(&mut bell, Some(TimeSpec::from_duration(at_most)), None);
            self.bell.silence();
            if board!(self, called).swap(0, Ordering::SeqCst) != 0 {
                board!(self, held).store(1, Ordering::SeqCst);
                bound.set(Some(plan.bound_us))?;
            }
            wait = self.quiet_in();
            if wait.is_none() {
                // A packet from now on rings anew; one until now is seen here.
                board!(self, held).store(0, Ordering::SeqCst);
                wait = self.quiet_in();
                match wait {
                    Some(_) => board!(self, held).store(1, Ordering::SeqCst),
                    None => {
                        bound.set(None)?;
                    }
                }
            }
        }
        board!(self, held).store(0, Ordering::SeqCst);
        board!(self, called).store(0, Ordering::SeqCst);
        Ok(cpu_time() - began)
    }

    /// When the traffic ends if no packet comes; `None`: it has ended.
    fn quiet_in(&self) -> Option<Duration> {
        let last = board!(self, last_ns).load(Ordering::SeqCst);
        let since = Duration::from_nanos(reveille_kernel::now_ns().saturating_sub(last));
        QUIET.checked_sub(since).filter(|left| !left.is_zero())
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
