//! `cost.json`: what waking cost a workload.

use std::collections::BTreeMap;

use reveille_kernel::Identity;
use serde::{Deserialize, Serialize};

use super::Distribution;
use super::forbidding::Forbidding;

/// The file's name in its folder.
pub const FILE: &str = "cost.json";

/// Of `cost.json`; a reader refuses what it does not know.
pub const SCHEMA_VERSION: u32 = 1;

/// How following ended. What was gathered is complete up to there in every case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// The time was up.
    Completed,
    /// The command or process ended.
    WorkloadEnded,
    /// By the user, or by a signal.
    Interrupted,
}

/// Where the time of wake-ups went, ns, summed over threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Waited {
    /// For a sleeping CPU to leave its idle state. This is what is lost.
    pub leaving_ns: u64,
    /// For interrupt and scheduler, on a CPU that was awake by then.
    pub scheduling_ns: u64,
    /// Behind other tasks.
    pub queueing_ns: u64,
    /// The longest single wait for a CPU to leave an idle state.
    pub longest_leaving_ns: u64,
}

/// What waits for CPUs in one idle state cost; or, as `awake` and `busy`, in none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StateCost {
    /// As the driver calls it; `awake`, `busy`, or `another state` for those that the kernel's table
    /// has no place for.
    pub state: String,
    /// The CPU polls in it: nothing is lost in leaving.
    pub polling: bool,
    /// The driver's figure.
    pub driver_exit_latency_us: Option<u64>,
    /// Waits for a CPU in this state. A wake-up may wait for two: the one that takes the interrupt
    /// and the one that the task runs on.
    pub waits: u64,
    /// Of these, where the instant of the event is not known: nothing is counted as leaving.
    pub unknown_waits: u64,
    /// All of its waits together.
    #[serde(flatten)]
    pub waited: Waited,
    /// From the idle state's entry to the event that ended it, over all waits; `None` where the CPU was
    /// in no idle state, and in results of older versions.
    #[serde(default)]
    pub mean_stay_ns: Option<f64>,
    /// Of leaving, over the waits whose instant is known.
    pub mean_leaving_ns: Option<f64>,
    /// ns; `None` where fewer than ten lie beyond, as for the other two, and where nothing is left.
    pub median_leaving_ns: Option<u64>,
    /// The 90th percentile, ns.
    pub p90_leaving_ns: Option<u64>,
    /// The 99th percentile, ns.
    pub p99_leaving_ns: Option<u64>,
    /// Of leaving; of scheduling for `awake`, of queueing for `busy`.
    pub distribution: Distribution,
    /// What the unknown waits may have been.
    pub estimate: Option<Estimate>,
}

/// An estimate, in no total: what the waits of unknown instant cost if they took as long as others.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// What the unknown waits together took, ns.
    pub leaving_ns: u64,
    /// What it rests on.
    pub by: String,
}

/// What one thread's wake-ups of another cost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PairCost {
    /// A thread's name, or the interrupt.
    pub waker: String,
    /// The waker is an interrupt, no thread.
    pub by_interrupt: bool,
    /// The woken threads' name (`comm`).
    pub wakee: String,
    /// Wake-ups of this pair.
    pub wakeups: u64,
    /// Of these, those that met a CPU in an idle state other than polling.
    pub asleep: u64,
    /// All of them together.
    #[serde(flatten)]
    pub waited: Waited,
}

/// What wake-ups by one kind of interrupt cost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InterruptCost {
    /// `timer`, `another CPU`, or the device.
    pub interrupt: String,
    /// The device's.
    pub irq: Option<u32>,
    /// Wake-ups by it.
    pub wakeups: u64,
    /// Of these, those that met a CPU in an idle state other than polling.
    pub asleep: u64,
    /// All of them together.
    #[serde(flatten)]
    pub waited: Waited,
}

/// What waits for one CPU cost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuCost {
    /// The CPU's number.
    pub cpu: u32,
    /// Waits for it.
    pub waits: u64,
    /// Of these, those that met it in an idle state other than polling.
    pub asleep: u64,
    /// All of them together.
    #[serde(flatten)]
    pub waited: Waited,
    /// Leaving, by state.
    pub leaving_by_state_ns: BTreeMap<String, u64>,
}

/// A thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Thread {
    /// `comm`, at most 15 characters.
    pub name: String,
    /// The thread's own number, not its process's.
    pub pid: u32,
    /// What it waited for CPUs to leave idle states, ns.
    pub leaving_ns: u64,
}

/// What could not be followed, or fell between the tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Missed {
    /// Tasks that ran on another CPU than they had been woken for: their wait counts as queueing.
    pub moved: u64,
    /// Wake-ups whose task ran without the kernel telling so; they are in no figure.
    pub unseen: u64,
    /// Wake-ups that are missing by pair and interrupt, because the kernel's table was full.
    pub pairs_full: u64,
    /// Wake-ups that are missing by stack, because the kernel's table was full.
    pub stacks_full: u64,
    /// Wake-ups whose stack the kernel could not take.
    pub stacks_failed: u64,
    /// Tasks that were not followed, for want of memory.
    pub unfollowed_tasks: u64,
}

/// What following cost, as the kernel counts it (`BPF_ENABLE_STATS`) in windows of time. What it
/// counts for a program that does nothing is taken off each run. `None` where it does not count.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Overhead {
    /// All wake-ups on the machine: the programs run at each.
    pub machine_wakeups: u64,
    /// The windows together, and the wake-ups in them.
    pub counted_s: Option<f64>,
    /// Wake-ups on the machine in these windows.
    pub counted_wakeups: Option<u64>,
    /// Runs of programs for each wake-up, from the idle state's entry to the task's running.
    pub runs_per_wakeup: Option<f64>,
    /// What following took for each wake-up, ns.
    pub per_wakeup_ns: Option<f64>,
    /// To begin to follow a task that is forked.
    pub per_new_task_ns: Option<f64>,
    /// What counting took for each wake-up, in the windows only.
    pub counting_per_wakeup_ns: Option<f64>,
    /// Of the time of all CPUs, without counting.
    pub share_of_cpu_time: Option<f64>,
}

/// What waking cost a workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// [`SCHEMA_VERSION`] of the writer.
    pub schema_version: u32,
    /// `reveille 0.1.0`.
    pub tool: String,
    /// RFC 3339, UTC.
    pub started: String,
    /// The program and its arguments, as they were given.
    pub command_line: Vec<String>,
    /// As the caller of [`Cost::of`] names it: `process 4711 (nginx)`, ....
    pub workload: String,
    /// What ended following.
    pub ended: Ended,
    /// The machine it ran on.
    pub machine: Identity,
    /// cpuidle's driver; `None` where none is registered.
    pub driver: Option<String>,
    /// cpuidle's governor; `None` where there is none.
    pub governor: Option<String>,
    /// How long it was followed, ns.
    pub elapsed_ns: u64,
    /// Wake-ups of the workload's tasks.
    pub wakeups: u64,
    /// Wake-ups that met a CPU in an idle state other than polling.
    pub met_sleeping_cpu: u64,
    /// Wake-ups that met a CPU in a polling state: it is awake.
    pub met_polling_cpu: u64,
    /// All wake-ups together.
    #[serde(flatten)]
    pub waited: Waited,
    /// Leaving over elapsed; above 1 where many threads wait. `None` if no time elapsed.
    pub lost_share: Option<f64>,
    /// The thread that lost most: its waits follow each other, so they are time on the clock.
    pub most_delayed_thread: Option<Thread>,
    /// What was met: `busy` and `awake`, then states from the shallowest; none without a wait.
    pub by_state: Vec<StateCost>,
    /// Most lost first.
    pub by_pair: Vec<PairCost>,
    /// Most lost first.
    pub by_interrupt: Vec<InterruptCost>,
    /// CPUs that were waited for, ascending.
    pub by_cpu: Vec<CpuCost>,
    /// What it saves to forbid states; empty where too few waits are known.
    pub forbidding: Vec<Forbidding>,
    /// What a person needs to know, in a sentence.
    pub sentence: String,
    /// What is in no figure, or in another than it belongs to.
    pub missed: Missed,
    /// What following itself cost.
    pub overhead: Overhead,
    /// What a reader must know, one sentence each.
    pub notes: Vec<String>,
}

/// Reads a `cost.json`.
///
/// # Errors
/// One line: it is none, was cut short, or has a schema that is not known.
pub fn read(text: &[u8]) -> Result<Cost, String> {
    reveille_results::kept::parse(text, FILE, SCHEMA_VERSION)
}
