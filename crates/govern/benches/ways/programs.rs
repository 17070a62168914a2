//! The kernel's programs, and what they counted.

use std::mem::offset_of;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::Ordering;
use std::time::Duration;

use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use libbpf_rs::{MapCore, MapFlags, ProgramInput};
use reveille_kernel::bpf::{
    self as kernel, Bell, Counting, KernelBtf, Plain, RunTime, Shared, run_time,
};
use reveille_kernel::{Error, Idle, Journal, Result, limits, network};

use self::skeleton::{WaysSkel, WaysSkelBuilder, types};
use crate::Plan;
use crate::load;

mod skeleton {
    #![allow(clippy::all, non_camel_case_types, dead_code, unused_imports)]
    include!(concat!(env!("OUT_DIR"), "/ways.skel.rs"));
}

/// So long after the last packet a way ends.
pub const QUIET: Duration = Duration::from_millis(10);
/// B's timer comes no more often: that alone would keep the CPU busy.
const PERIOD_MIN_US: u64 = 50;

// SAFETY: only integers of 64 bits, without padding.
unsafe impl Plain for types::sums {}
pub use types::{next as Next, sums as Sums};

/// The programs at work.
pub struct Programs {
    skel: WaysSkel<'static>,
    board: Shared<types::board>,
    bell: Bell,
    counting: Option<(Counting, u64)>,
    /// The kernel has bpf_wq.
    pub has_work: bool,
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

    /// Begins a turn.
    pub fn begin(&self, way: u32, turn: u32) -> Result<()> {
        let zeros = [0; size_of::<Sums>()];
        self.skel
            .maps
            .sums_of_turn
            .update(&[0; 4], &zeros, MapFlags::ANY)?;
        board!(self, way).store(way, Ordering::SeqCst);
        board!(self, turn).store(turn, Ordering::SeqCst);
        Ok(())
    }

    /// Ends it; what the kernel counted.
    pub fn end(&self) -> Result<Sums> {
        let sums = self.skel.maps.sums_of_turn.lookup(&[0; 4], MapFlags::ANY)?;
        board!(self, turn).store(0, Ordering::SeqCst);
        Ok(kernel::record(
            &sums.expect("arrays have all their elements"),
        ))
    }

    /// Has the programs tell a pause from a burst, CLOCK_MONOTONIC, ns.
    pub fn paused(&self, from: u64, until: u64) {
        board!(self, pause_from).store(from, Ordering::SeqCst);
        board!(self, pause_until).store(until, Ordering::SeqCst);
    }

    /// Runs of the program at the packet.
    pub fn packet(&self) -> Result<RunTime> {
        run_time(self.skel.progs.packet.as_fd())
    }

    /// What a run of it costs, ns, without the kernel's counting.
    pub fn cost_ns(&self, before: RunTime, after: RunTime) -> f64 {
        let nothing_ns = self.counting.as_ref().map_or(0, |&(_, ns)| ns);
        after.own_ns_since(before, nothing_ns) as f64 / (after.runs - before.runs).max(1) as f64
    }

    /// Whether a packet asks for the bound; takes that up.
    pub fn called(&self) -> bool {
        self.bell.silence();
        board!(self, called).swap(0, Ordering::SeqCst) != 0
    }

    /// Notes whether the bound is in force by the thread; then packets do not wake it.
    pub fn note_held(&self, held: bool) {
        board!(self, held).store(held.into(), Ordering::SeqCst);
    }

    /// When the traffic ends if no packet comes; `None`: it has ended.
    pub fn quiet_in(&self) -> Option<Duration> {
        let last = board!(self, last_ns).load(Ordering::SeqCst);
        let since = Duration::from_nanos(reveille_kernel::now_ns().saturating_sub(last));
        QUIET.checked_sub(since).filter(|left| !left.is_zero())
    }
}

impl AsFd for Programs {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}
