//! What a refresh shows: the one model behind the terminal view, `--json` and `--csv`.
//!
//! Rates and shares are of the time between two readings. What is not known is `None`, never zero.

pub use reveille_kernel::bounds::{Bound, BoundKind};
use serde::Serialize;

/// Changes when a field of the JSON or CSV changes its meaning or goes away.
pub const SCHEMA_VERSION: u32 = 1;

/// The machine between two readings.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Snapshot {
    /// [`SCHEMA_VERSION`] of the writer.
    pub schema_version: u32,
    /// When the second reading was made: seconds since 1970.
    pub time_unix_s: f64,
    /// Between the two readings.
    pub elapsed_s: f64,
    /// The cpuidle driver; `None` where there is none.
    pub driver: Option<String>,
    /// cpuidle's governor; `None` where there is none.
    pub governor: Option<String>,
    /// All online CPUs together.
    pub machine: Unit,
    /// By number; empty where the kernel does not tell packages.
    pub packages: Vec<Unit>,
    /// By package and number; empty where the kernel does not tell cores.
    pub cores: Vec<Unit>,
    /// Ascending by number; offline ones are among them.
    pub cpus: Vec<Unit>,
    /// Who wakes CPUs, the most wake-ups first. Empty where that cannot be seen: `notes` says why.
    pub wakers: Vec<Waker>,
    /// What keeps CPUs from deep states, and who.
    pub bounds: Vec<Bound>,
    /// What watching takes of the machine.
    pub own: OwnCost,
    /// What is missing or estimated, why, and what would help: a sentence each.
    pub notes: Vec<String>,
}

/// Which CPUs a [`Unit`] is made of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// All of them.
    #[default]
    Machine,
    /// Those of a processor package.
    Package,
    /// The threads of a core.
    Core,
    /// A single one.
    Cpu,
}

/// A CPU, or several taken together.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Unit {
    /// Which CPUs it is made of.
    pub level: Level,
    /// `machine`, `package 0`, `core 3` (`core 1:3` where there are several packages), `CPU 5`.
    pub label: String,
    /// What sets its cores apart on a hybrid machine, such as `performance cores`.
    pub kind: Option<String>,
    /// The CPUs in it, ascending, offline ones among them.
    pub cpus: Vec<u32>,
    /// At least one of them is online.
    pub online: bool,
    /// As the driver orders them, then the hardware's own counters ([`CountedBy::Hardware`]), which
    /// are not to be added to the former. Of several CPUs: their mean share, their uses together.
    pub states: Vec<StateShare>,
    /// Share of the time in no idle state.
    pub awake_percent: Option<f64>,
    /// Idle periods that ended, per second, all CPUs of the unit together: an interrupt that a
    /// polling CPU takes without leaving its state is not counted.
    pub wakeups_per_s: Option<f64>,
    /// Idle states entered, per second: more than wake-ups where a driver enters another one when
    /// the first is over (haltpoll).
    pub idle_entries_per_s: Option<f64>,
    /// `None` where neither counters nor cpufreq tell, or no CPU is online.
    pub frequency: Option<Frequency>,
    /// Of the machine and of packages, by the meters that there are; else empty.
    pub power: Vec<Power>,
    /// Of the uses of all states: those that were too deep for the time they lasted (cpuidle's
    /// `above`).
    pub above_percent: Option<f64>,
    /// Of the uses of all states: those where a deeper one would have been better (`below`).
    pub below_percent: Option<f64>,
    /// Share of the time that went into leaving idle states: uses × mean measured latency, over the
    /// states whose latency has been seen.
    pub leaving_percent: Option<f64>,
    /// Of the wake-ups by timers since watching began: those that gave no latency (the timer was
    /// overdue, or something else came first).
    pub left_out_percent: Option<f64>,
    /// The lowest latency bound in force, µs; `None` where there is none or it cannot be read
    /// (`notes` says so).
    pub bound_us: Option<u32>,
    /// Counted in the interval by the processor, of the machine only where all CPUs tell.
    pub smi_per_s: Option<f64>,
}

/// An idle state of a unit.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct StateShare {
    /// As cpuidle or the hardware's counter names it.
    pub name: String,
    /// N of `stateN`; `None` for the hardware's counters.
    pub index: Option<u32>,
    /// Whose figures these are.
    pub counted_by: CountedBy,
    /// Share of the time, 0 to 100.
    pub share_percent: Option<f64>,
    /// Mean length of a stay, µs; `None` where none ended.
    pub mean_stay_us: Option<f64>,
    /// Stays that ended, per second, all CPUs of the unit together.
    pub uses_per_s: Option<f64>,
    /// Of its uses: too deep for the time they lasted.
    pub above_percent: Option<f64>,
    /// Of its uses: a deeper state would have been better.
    pub below_percent: Option<f64>,
    /// On all CPUs of the unit.
    pub disabled: Option<bool>,
    /// The driver's figure.
    pub exit_latency_us: Option<u64>,
    /// The driver's figure, µs.
    pub target_residency_us: Option<u64>,
    /// As measured passively, since watching began.
    pub wake_latency: Option<WakeLatency>,
}

/// Who tells how long a state lasted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CountedBy {
    /// cpuidle's counters: what the kernel asked for.
    #[default]
    Kernel,
    /// `power:cpu_idle`, seen by BPF: what the kernel asked for.
    Trace,
    /// The processor's residency counter: what it did.
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
    /// As the median; `None` on fewer than 1000, where fewer than ten lie beyond it.
    pub p99_ns: Option<f64>,
    /// Exact.
    pub max_ns: u64,
}

/// How fast the cores run while they run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Frequency {
    /// Mean over the unit's CPUs that tell.
    pub mhz: f64,
    /// Which of the two figures it is.
    pub told_by: FrequencyFrom,
    /// Lowest and highest, and the one without turbo, MHz.
    pub min_mhz: Option<f64>,
    /// `cpuinfo_max_freq`: the highest, turbo included, MHz.
    pub max_mhz: Option<f64>,
    /// `base_frequency`, without turbo, MHz; only intel_pstate tells it.
    pub base_mhz: Option<f64>,
    /// Is turbo allowed?
    pub turbo: Option<bool>,
}

/// What a CPU's frequency was read from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FrequencyFrom {
    /// APERF over MPERF: the mean while it ran, by the processor's counters.
    Counters,
    /// cpufreq's `scaling_cur_freq`: a moment's figure.
    Cpufreq,
}

/// A meter of power.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Power {
    /// `package-0`, `core`, `dram`, `psys`, `battery BAT0`.
    pub meter: String,
    /// What the meter covers.
    pub kind: PowerKind,
    /// Mean of the interval, or the moment's where a battery tells only that.
    pub watts: f64,
}

/// What a meter of power covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PowerKind {
    /// A package's RAPL domain.
    Package,
    /// RAPL: its cores.
    Cores,
    /// RAPL: its graphics or other parts.
    Uncore,
    /// RAPL: its memory.
    Dram,
    /// RAPL: the whole platform.
    Platform,
    /// A discharging battery: the whole computer.
    Battery,
}

/// Somebody who sends interrupts to a CPU, or sets its timers.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Waker {
    /// By what the CPU is reached.
    pub kind: WakerKind,
    /// Interrupt: the device's or handler's name. Timer: the function that it calls, or the
    /// command of the thread that sleeps. IPI: what is called or `reschedule`.
    pub name: String,
    /// The command behind it: who set the timer, who sent the IPI; `None` where that is unknown.
    pub command: Option<String>,
    /// Of that command; `None` where it is unknown or the kernel itself.
    pub pid: Option<u32>,
    /// Interrupts: the number.
    pub irq: Option<u32>,
    /// The CPU that is woken or interrupted.
    pub cpu: u32,
    /// How often it came, asleep or awake; `None` where only wake-ups are seen.
    pub per_s: Option<f64>,
    /// How often it was the first to come in an idle period, and so ended it; `None` where only
    /// interrupts are counted (without BPF).
    pub wakes_per_s: Option<f64>,
}

/// By what a CPU is woken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WakerKind {
    /// A device.
    Interrupt,
    /// A high-resolution timer, the scheduler's tick among them.
    Timer,
    /// Another CPU, by an interrupt or by writing the flag that this one monitors or polls.
    Ipi,
    /// Anything else: named by the interrupt's vector, or unknown.
    Other,
}

/// What watching itself costs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct OwnCost {
    /// CPU time of this process and of its BPF programs where that is known, % of one CPU.
    pub cpu_percent: Option<f64>,
    /// The part of it that the BPF programs took, by the kernel's count.
    pub bpf_percent: Option<f64>,
    /// How often this process slept and was woken, per second.
    pub wakeups_per_s: Option<f64>,
}
