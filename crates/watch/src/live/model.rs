//! The data of a refresh: the model of the terminal view, `--json` and `--csv`.
//!
//! Rates and shares refer to the time between two readings. Unknown values are `None`, never zero.

pub use reveille_kernel::bounds::{Bound, BoundKind};
use serde::Serialize;

/// Incremented when a field of the JSON or CSV changes its meaning or is removed.
pub const SCHEMA_VERSION: u32 = 1;

/// The machine between two readings.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Snapshot {
    /// [`SCHEMA_VERSION`] of the writer.
    pub schema_version: u32,
    /// Time of the second reading, seconds since 1970.
    pub time_unix_s: f64,
    /// Time between the two readings.
    pub elapsed_s: f64,
    /// The cpuidle driver, if any.
    pub driver: Option<String>,
    /// cpuidle's governor, if any.
    pub governor: Option<String>,
    /// All online CPUs together.
    pub machine: Unit,
    /// By number; empty if the kernel does not report packages.
    pub packages: Vec<Unit>,
    /// By package and number; empty if the kernel does not report cores.
    pub cores: Vec<Unit>,
    /// By number, including offline CPUs.
    pub cpus: Vec<Unit>,
    /// Wakers of CPUs, most wake-ups first. Empty if unknown; `notes` has the reason.
    pub wakers: Vec<Waker>,
    /// Latency bounds and their holders.
    pub bounds: Vec<Bound>,
    /// The cost of watching.
    pub own: OwnCost,
    /// What is missing or estimated, why, and what would help: a sentence each.
    pub notes: Vec<String>,
}

/// The kind of a [`Unit`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// All CPUs.
    #[default]
    Machine,
    /// The CPUs of a processor package.
    Package,
    /// The threads of a core.
    Core,
    /// A single CPU.
    Cpu,
}

/// A CPU, or a group of CPUs.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Unit {
    /// The kind of group.
    pub level: Level,
    /// `machine`, `package 0`, `core 3` (`core 1:3` with several packages), `CPU 5`.
    pub label: String,
    /// The kind of its cores on a hybrid machine, such as `performance cores`.
    pub kind: Option<String>,
    /// Its CPUs, ascending, including offline ones.
    pub cpus: Vec<u32>,
    /// At least one of its CPUs is online.
    pub online: bool,
    /// In the driver's order, then the hardware's counters ([`CountedBy::Hardware`]), which do not
    /// add up with the former. For several CPUs: mean shares, summed uses.
    pub states: Vec<StateShare>,
    /// Share of the time in no idle state.
    pub awake_percent: Option<f64>,
    /// Idle periods that ended, per second, summed over the unit's CPUs; without interrupts that a
    /// polling CPU takes without leaving its state.
    pub wakeups_per_s: Option<f64>,
    /// The time in which all its CPUs sleep at once, of the machine and of packages; `None` for others, and without BPF.
    pub joint_sleep: Option<JointSleep>,
    /// Idle states entered, per second; more than wake-ups if a driver enters a second one (haltpoll).
    pub idle_entries_per_s: Option<f64>,
    /// `None` if neither counters nor cpufreq report it, or no CPU is online.
    pub frequency: Option<Frequency>,
    /// Power of the machine and of packages, by the available meters; empty for others.
    pub power: Vec<Power>,
    /// Share of all states' uses that were too deep for their duration (cpuidle's `above`).
    pub above_percent: Option<f64>,
    /// Share of all states' uses for which a deeper state would have been better (`below`).
    pub below_percent: Option<f64>,
    /// Share of the time spent leaving idle states: uses × mean latency, over states with a latency.
    pub leaving_percent: Option<f64>,
    /// Share of the wake-ups by timers since watching began that have no latency (the timer was
    /// overdue, or something else came first).
    pub left_out_percent: Option<f64>,
    /// The lowest latency bound in force, µs; `None` if there is none, or it is unknown (with a note).
    pub bound_us: Option<u32>,
    /// SMIs counted by the processor, per second; for several CPUs only if all count them.
    pub smi_per_s: Option<f64>,
}

/// The time in which all CPUs of a unit sleep at once. Polling is no sleep; a CPU counts from its first sleep after
/// watching began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct JointSleep {
    /// Share of the time, 0 to 100.
    pub share_percent: f64,
    /// Joint sleeps that ended, per second.
    pub ended_per_s: f64,
    /// Mean length of these, µs; `None` if none ended.
    pub mean_us: Option<f64>,
    /// Median length since watching began, µs, from a histogram whose buckets are at most 1/8 wide; lengths count
    /// in units of 1,024 ns.
    pub median_us: Option<f64>,
    /// Like the median; `None` for fewer than 1000.
    pub p99_us: Option<f64>,
}

/// An idle state of a unit.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct StateShare {
    /// The name in cpuidle or of the hardware's counter.
    pub name: String,
    /// N of `stateN`; `None` for the hardware's counters.
    pub index: Option<u32>,
    /// The origin of the figures.
    pub counted_by: CountedBy,
    /// Share of the time, 0 to 100.
    pub share_percent: Option<f64>,
    /// Mean length of a stay, µs; `None` if none ended.
    pub mean_stay_us: Option<f64>,
    /// Stays that ended, per second, summed over the unit's CPUs.
    pub uses_per_s: Option<f64>,
    /// Share of its uses that were too deep for their duration.
    pub above_percent: Option<f64>,
    /// Share of its uses for which a deeper state would have been better.
    pub below_percent: Option<f64>,
    /// Disabled on all CPUs of the unit.
    pub disabled: Option<bool>,
    /// The driver's figure, µs.
    pub exit_latency_us: Option<u64>,
    /// The driver's figure, µs.
    pub target_residency_us: Option<u64>,
    /// Observed since watching began.
    pub wake_latency: Option<WakeLatency>,
}

/// The origin of a state's time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CountedBy {
    /// cpuidle's counters: the state that the kernel requested.
    #[default]
    Kernel,
    /// `power:cpu_idle`, traced by BPF: the state that the kernel requested.
    Trace,
    /// The processor's residency counter: the state that it was in.
    Hardware,
}

/// Wake latencies of timers of known expiry: from the expiry to the first instruction after idle
/// or of the interrupt, whichever came first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct WakeLatency {
    /// Timers of known expiry that woke the CPUs from this state.
    pub count: u64,
    /// Mean, ns.
    pub mean_ns: f64,
    /// From a histogram whose buckets are at most 1/8 wide.
    pub median_ns: f64,
    /// Like the median; `None` for fewer than 1000, because fewer than ten lie beyond it.
    pub p99_ns: Option<f64>,
    /// Exact.
    pub max_ns: u64,
}

/// The cores' frequency while they run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Frequency {
    /// Mean over the unit's CPUs that report it.
    pub mhz: f64,
    /// Its origin.
    pub told_by: FrequencyFrom,
    /// `cpuinfo_min_freq`: the lowest, MHz.
    pub min_mhz: Option<f64>,
    /// `cpuinfo_max_freq`: the highest, with turbo, MHz.
    pub max_mhz: Option<f64>,
    /// `base_frequency`, without turbo, MHz; only intel_pstate reports it.
    pub base_mhz: Option<f64>,
    /// Turbo is allowed.
    pub turbo: Option<bool>,
}

/// The origin of a CPU's frequency.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FrequencyFrom {
    /// APERF over MPERF, the processor's counters: the mean while it ran.
    Counters,
    /// cpufreq's `scaling_cur_freq`: a momentary value.
    Cpufreq,
}

/// A meter of power.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Power {
    /// `package-0`, `core`, `dram`, `psys`, `battery BAT0`.
    pub meter: String,
    /// What the meter covers.
    pub kind: PowerKind,
    /// Mean of the interval; of a battery that reports only that, the momentary value.
    pub watts: f64,
}

/// What a meter of power covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PowerKind {
    /// A package's RAPL domain.
    Package,
    /// RAPL: a package's cores.
    Cores,
    /// RAPL: a package's graphics or other parts.
    Uncore,
    /// RAPL: a package's memory.
    Dram,
    /// RAPL: the whole platform.
    Platform,
    /// A discharging battery: the whole computer.
    Battery,
}

/// A source of a CPU's interrupts, timers or messages.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Waker {
    /// The kind of event.
    pub kind: WakerKind,
    /// Interrupt: the device's or handler's name. Timer: the function that it calls, or the
    /// command of the sleeping thread. IPI: the called function or `reschedule`.
    pub name: String,
    /// The command that set the timer or sent the IPI; `None`: unknown.
    pub command: Option<String>,
    /// Of that command; `None`: unknown, or the kernel.
    pub pid: Option<u32>,
    /// The number of an interrupt.
    pub irq: Option<u32>,
    /// The CPU that is woken or interrupted.
    pub cpu: u32,
    /// How often it came, to a sleeping or awake CPU; `None` if only wake-ups are counted.
    pub per_s: Option<f64>,
    /// How often it ended an idle period; `None` if only interrupts are counted (without BPF).
    pub wakes_per_s: Option<f64>,
    /// How often it was the first to wake a CPU while all slept; `None` if that is not counted (without BPF).
    pub joint_ended_per_s: Option<f64>,
}

/// What wakes a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WakerKind {
    /// A device.
    Interrupt,
    /// A high-resolution timer, including the scheduler's tick.
    Timer,
    /// Another CPU, by an interrupt or by writing the flag that this one monitors or polls.
    Ipi,
    /// Another interrupt vector, or unknown.
    Other,
}

/// The cost of watching.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct OwnCost {
    /// CPU time of this process and, if known, of its BPF programs, % of one CPU.
    pub cpu_percent: Option<f64>,
    /// The BPF programs' part of it, as the kernel counts it.
    pub bpf_percent: Option<f64>,
    /// How often this process slept and was woken, per second.
    pub wakeups_per_s: Option<f64>,
}
