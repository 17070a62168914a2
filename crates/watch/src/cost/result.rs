//! `cost.json`: what waking cost a workload.

use std::collections::BTreeMap;

use reveille_kernel::Identity;
use serde::{Deserialize, Serialize};

use super::Distribution;

/// The file's name in its folder.
pub const FILE: &str = "cost.json";

/// The schema version of `cost.json`; readers refuse unknown ones.
pub const SCHEMA_VERSION: u32 = 1;

/// Why following ended. The figures are complete up to then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// The time was up.
    Completed,
    /// The command or process ended.
    WorkloadEnded,
    /// The user or a signal interrupted it.
    Interrupted,
}

/// The parts of the waiting time, ns, summed over threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Waited {
    /// Time until a sleeping CPU left its idle state: the loss.
    pub leaving_ns: u64,
    /// Time in interrupt and scheduler, on a CPU that was awake by then.
    pub scheduling_ns: u64,
    /// Time behind other tasks.
    pub queueing_ns: u64,
    /// The longest single wait for a CPU to leave an idle state.
    pub longest_leaving_ns: u64,
}

impl Waited {
    /// Adds the sums; takes the maximum of the longest times.
    pub fn add(&mut self, other: &Self) {
        self.leaving_ns += other.leaving_ns;
        self.scheduling_ns += other.scheduling_ns;
        self.queueing_ns += other.queueing_ns;
        self.longest_leaving_ns = self.longest_leaving_ns.max(other.longest_leaving_ns);
    }
}

/// The cost of waits for CPUs in an idle state; `awake` and `busy`: in none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StateCost {
    /// The driver's name; `awake`, `busy`; `another state` for those beyond the kernel's table.
    pub state: String,
    /// The CPU polls in it: leaving it costs nothing.
    pub polling: bool,
    /// The driver's figure.
    pub driver_exit_latency_us: Option<u64>,
    /// Waits for a CPU in this state. A wake-up may wait for two: the one that takes the interrupt
    /// and the one that runs the task.
    pub waits: u64,
    /// Waits for which the event's instant is unknown: their leaving is not counted.
    pub unknown_waits: u64,
    /// Sums over its waits.
    #[serde(flatten)]
    pub waited: Waited,
    /// From the idle state's entry to the event that ended it, over all waits; `None` if the CPU was
    /// in no idle state, and in results of older versions.
    #[serde(default)]
    pub mean_stay_ns: Option<f64>,
    /// Mean time of leaving, ns, over waits of known instant.
    pub mean_leaving_ns: Option<f64>,
    /// Median, ns; `None` for a state that is not left; like the next two with fewer than ten beyond.
    pub median_leaving_ns: Option<u64>,
    /// The 90th percentile, ns.
    pub p90_leaving_ns: Option<u64>,
    /// The 99th percentile, ns.
    pub p99_leaving_ns: Option<u64>,
    /// Of leaving; for `awake` of scheduling, for `busy` of queueing.
    pub distribution: Distribution,
    /// The estimated cost of the waits of unknown instant.
    pub estimate: Option<Estimate>,
}

/// An estimate, which is in no total: the cost of the waits of unknown instant if they took as long
/// as others.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// Total of the unknown waits, ns.
    pub leaving_ns: u64,
    /// Its basis.
    pub by: String,
}

/// The cost of one thread's wake-ups of another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PairCost {
    /// A thread's name, or the interrupt.
    pub waker: String,
    /// The waker is an interrupt, not a thread.
    pub by_interrupt: bool,
    /// The woken threads' name (`comm`).
    pub wakee: String,
    /// Wake-ups of this pair.
    pub wakeups: u64,
    /// Of these, those that met a CPU in an idle state other than polling.
    pub asleep: u64,
    /// Their sums.
    #[serde(flatten)]
    pub waited: Waited,
}

/// The cost of wake-ups by one kind of interrupt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InterruptCost {
    /// `timer`, `another CPU`, or the device.
    pub interrupt: String,
    /// A device's number.
    pub irq: Option<u32>,
    /// Wake-ups by it.
    pub wakeups: u64,
    /// Of these, those that met a CPU in an idle state other than polling.
    pub asleep: u64,
    /// Their sums.
    #[serde(flatten)]
    pub waited: Waited,
}

/// The cost of waits for one CPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuCost {
    /// The CPU's number.
    pub cpu: u32,
    /// Waits for it.
    pub waits: u64,
    /// Of these, those that met it in an idle state other than polling.
    pub asleep: u64,
    /// Their sums.
    #[serde(flatten)]
    pub waited: Waited,
    /// Time of leaving, by state, ns.
    pub leaving_by_state_ns: BTreeMap<String, u64>,
}

/// A thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Thread {
    /// `comm`, at most 15 characters.
    pub name: String,
    /// The thread's ID, not its process's.
    pub pid: u32,
    /// Time until CPUs left idle states for it, ns.
    pub leaving_ns: u64,
}

/// Wake-ups and tasks that are missing in figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Missed {
    /// Tasks that ran on another CPU than they were woken for: their wait counts as queueing.
    pub moved: u64,
    /// Wake-ups whose task ran without a tracepoint; they are in no figure.
    pub unseen: u64,
    /// Wake-ups missing by pair and interrupt, because the kernel's table was full.
    pub pairs_full: u64,
    /// Wake-ups missing by stack, because the kernel's table was full.
    pub stacks_full: u64,
    /// Wake-ups whose stack the kernel could not take.
    pub stacks_failed: u64,
    /// Tasks not followed, because the kernel had no memory.
    pub unfollowed_tasks: u64,
}

/// The programs' cost, as the kernel counts it (`BPF_ENABLE_STATS`) in windows of time, without what
/// it counts for a program that does nothing. `None` if it does not count.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Overhead {
    /// All wake-ups on the machine: the programs run at each.
    pub machine_wakeups: u64,
    /// The windows together, s.
    pub counted_s: Option<f64>,
    /// Wake-ups on the machine in these windows.
    pub counted_wakeups: Option<u64>,
    /// Runs of programs per wake-up, from the idle state's entry until the task runs.
    pub runs_per_wakeup: Option<f64>,
    /// The programs' time per wake-up, ns.
    pub per_wakeup_ns: Option<f64>,
    /// The time to start following a forked task, ns.
    pub per_new_task_ns: Option<f64>,
    /// The kernel's counting per wake-up, ns, in the windows only.
    pub counting_per_wakeup_ns: Option<f64>,
    /// The programs' share of the time of all CPUs, without counting.
    pub share_of_cpu_time: Option<f64>,
}

/// What a wait would take instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Replacement {
    /// As the waits in the deepest state that is left: enough of them were seen.
    Seen,
    /// As long as in the driver's table.
    Driver,
    /// Nothing: the CPU would be awake.
    Nothing,
}

/// What was saved if no state deeper than one had been allowed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Forbidding {
    /// `None`: no sleep at all.
    pub deepest_allowed: Option<String>,
    /// A latency request that leaves just these states, by the driver's table, µs.
    pub latency_bound_us: u64,
    /// The deeper states, shallow ones first.
    pub forbidden: Vec<String>,
    /// The estimate, ns, of all wake-ups together.
    pub saved_ns: u64,
    /// The 95% interval; not below zero, and not above what was lost.
    pub saved_low_ns: u64,
    /// The upper end of that interval, ns.
    pub saved_high_ns: u64,
    /// What is taken for the waits that the forbidden states' would become.
    pub replaced_by: Replacement,
}

/// What was followed, where and when.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Subject {
    /// `reveille 0.1.0`.
    pub tool: String,
    /// RFC 3339, UTC.
    pub started: String,
    /// The program and its arguments.
    pub command_line: Vec<String>,
    /// In words: `nginx -g ...`, `process 4711 (nginx)`, `cgroup /web`, `all tasks`.
    pub workload: String,
    /// Why following ended.
    pub ended: Ended,
    /// The machine it ran on.
    pub machine: Identity,
    /// cpuidle's driver, if any.
    pub driver: Option<String>,
    /// cpuidle's governor, if any.
    pub governor: Option<String>,
}

/// What waking cost a workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// [`SCHEMA_VERSION`] of the writer.
    pub schema_version: u32,
    /// What was followed, where and when.
    #[serde(flatten)]
    pub subject: Subject,
    /// Duration, ns.
    pub elapsed_ns: u64,
    /// Wake-ups of the workload's tasks.
    pub wakeups: u64,
    /// Wake-ups that met a CPU in an idle state other than polling.
    pub met_sleeping_cpu: u64,
    /// Wake-ups that met a CPU in a polling state, which is awake.
    pub met_polling_cpu: u64,
    /// Sums over all wake-ups.
    #[serde(flatten)]
    pub waited: Waited,
    /// Leaving over elapsed; above 1 if many threads wait. `None` if no time elapsed.
    pub lost_share: Option<f64>,
    /// The thread that lost most: its waits do not overlap, so they are elapsed time.
    pub most_delayed_thread: Option<Thread>,
    /// `busy` and `awake`, then states from the shallowest, without those that have no wait.
    pub by_state: Vec<StateCost>,
    /// Most lost first.
    pub by_pair: Vec<PairCost>,
    /// Most lost first.
    pub by_interrupt: Vec<InterruptCost>,
    /// CPUs with waits, ascending.
    pub by_cpu: Vec<CpuCost>,
    /// What forbidding states would save; empty if too few waits have a known instant.
    pub forbidding: Vec<Forbidding>,
    /// The conclusion, in a sentence.
    pub sentence: String,
    /// Wake-ups and tasks that are missing in figures.
    pub missed: Missed,
    /// The programs' cost.
    pub overhead: Overhead,
    /// Notes for readers, one sentence each.
    pub notes: Vec<String>,
}
