//! What waits for what in a suspend or a resume: the dependency graph of a cycle.
//!
//! The kernel's rules, as drivers/base/power/main.c has them from Linux 3.6 to 6.17:
//!
//! - CPUs come on one after the other, then noirq, early, devices and complete follow each other. A
//!   stage begins when the one before has ended.
//! - Within a stage the devices are gone through in the order in which they were registered. Those
//!   that are asynchronous (`power.async_suspend`) are handed to kernel threads at the stage's
//!   beginning (since 6.16: when their parents are done); the others run one after the other in the
//!   process that suspends.
//! - Each device waits for its parent, and for its suppliers, before its callback is called and the
//!   line `calling …` is written. A call's duration has no such wait in it. A device without a
//!   callback waits too, so a call waits for the nearest ancestor that has one.
//! - At its end a stage waits for all asynchronous calls.
//! - `prepare` and `complete` run in the process that suspends, one device after the other, and wait
//!   for no other one.
//!
//! So a call starts at the latest end of what it waits for, and a **lag** later. The lag is what was
//! measured; it stays as it is when something else changes.
//!
//! **What a log does not show**: suppliers (unless a capture kept the machine's devices), locks,
//! CPUs that had other things to do. Nor does it show a synchronous device without a callback, which
//! holds up the process that suspends until its asynchronous parent is done, and holds up its own
//! asynchronous children until that process has come by it. Some kernels (6.8, and stable ones since
//! January 2024) hand each asynchronous device over only when that process comes by it. So a lag of
//! [`UNEXPLAINED_US`] or more needs another reason. If the call started within [`HANDOVER_US`] of the end of
//! another call of the stage, and that is no chance, it is taken to wait for that call: with *k* ends
//! in a lag of *L*, one of them falls into the last *d* of it by chance in about *k·d/L* of cases,
//! which may be [`CHANCE`] at most. Otherwise the wait is unexplained.
//!
//! **Which worker ran a call** has two meanings. The process that suspends has an order that must be
//! kept. A kernel thread has none: asynchronous work goes to an unbound workqueue, which
//! wakes or makes a thread for each item that waits, up to hundreds of them, and which thread takes
//! which item is chance. But an item that was ready for a while, was left lying, and was begun just
//! as a thread was done with another one, did wait for that thread: there were no CPUs for more, or
//! no threads. So two calls of one kernel thread are taken for a constraint if the second one was
//! ready [`PATIENCE_US`] or more before the first one's end (a thread would have been woken
//! meanwhile) and started at most [`HANDOVER_US`] after it.
//!
//! Suspend is the reverse: parents wait for their children.

mod build;
mod tree;

use std::collections::HashSet;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::cycle::{Call, Cycle, StageKind, Us};

pub use tree::Tree;

/// From this lag on, in µs, a call's wait is unexplained. A wake-up
/// of a thread and the writing of two lines take less, even on a slow console.
pub const UNEXPLAINED_US: Us = 1000;

/// How long an asynchronous call stays ready, in µs, before it is assumed that
/// no kernel thread was free for it. Waking a thread takes less.
pub const PATIENCE_US: Us = 500;

/// From the end of what a call waited for to its start, in µs, the waking of a thread and the writing
/// of two lines included.
pub const HANDOVER_US: Us = 1000;

/// A line that takes this long to print, in µs, is on a slow console; a call's first line has its own time in the
/// log, and the line before it takes as long.
pub const SLOW_US: Us = 2000;

/// The share of cases in which another call's end may fall just before a call's start by chance, for
/// the call to count as waiting for it. On generated machines with suppliers that no log shows, half
/// of the best removals are right to 2% of the whole without any such assumption, 88% at
/// 0.05, 97% at 0.2, and no more above.
pub const CHANCE: f64 = 0.2;

/// One half of a cycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Half {
    /// From the start to the last stage before the sleep.
    Suspend,
    /// From the first stage after the sleep to the end.
    Resume,
}

impl Half {
    /// Whether this stage belongs to it. The time asleep belongs to neither.
    pub fn has(self, stage: StageKind) -> bool {
        self.of(stage < StageKind::Platform, stage > StageKind::Test)
    }

    /// The one that belongs to it.
    pub(crate) fn of<T>(self, suspend: T, resume: T) -> T {
        match self {
            Half::Suspend => suspend,
            Half::Resume => resume,
        }
    }
}

/// What a log has of the devices in one half of a cycle.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeviceTimes {
    /// Each call, with its parent or the process that ran it.
    #[default]
    #[serde(rename = "told")]
    Ordered,
    /// How long devices took, and not what they waited for: `resume of drv:sd dev:3:0:0:0 complete
    /// after 7928.413 msecs`, before Linux 3.6. No path goes through them.
    Unordered,
    /// None: /sys/power/pm_print_times was off.
    Missing,
}

impl Cycle {
    /// What the log has of the devices in this half.
    pub(crate) fn device_times(&self, half: Half) -> DeviceTimes {
        let mut calls = self.calls.iter().filter(|call| half.has(call.stage));
        let has_calls = calls.clone().next().is_some();
        match calls.any(|call| call.worker.is_some() || call.parent.is_some()) {
            true => DeviceTimes::Ordered,
            false if has_calls => DeviceTimes::Unordered,
            false => DeviceTimes::Missing,
        }
    }
}

/// What waits for what in one half of a cycle.
#[derive(Debug, Clone)]
pub struct Graph {
    /// Which half.
    pub half: Half,
    /// When it began, by the log's clock.
    pub start: Us,
    /// When it ended, by the log's clock.
    pub end: Us,
    /// In their order.
    pub stages: Vec<StageNode>,
    /// What follows the last stage, and how long after that the half ends: the kernel's last word before the
    /// sleep, or of the resume, may come later.
    pub entry: Option<(StageKind, Us)>,
    /// The steps of all stages, stage by stage, each in the order of its start: what a step waits for
    /// is always before it.
    pub steps: Vec<Step>,
    /// The process that suspends, as far as the log shows.
    pub main: Option<u32>,
    /// What of the cycle is not in it.
    pub left_out: LeftOut,
    /// The devices, their parents and drivers.
    pub tree: Tree,
    /// The cycle's calls, which [`What::Call`] counts.
    pub calls: Vec<Call>,
}

/// A stage of the graph.
#[derive(Debug, Clone)]
pub struct StageNode {
    /// Which part of the cycle.
    pub kind: StageKind,
    /// By the log's clock.
    pub start: Us,
    /// By the log's clock.
    pub end: Us,
    /// From the end of the stage before it to its beginning; negative where the log's timestamps overlap.
    pub gap: Us,
    /// From its last call's end (or its beginning) to its own end.
    pub tail: Us,
    /// Its steps, in [`Graph::steps`].
    pub steps: Range<usize>,
    /// The devices that have a call in it, in [`Graph::tree`].
    pub with_call: HashSet<usize>,
}

/// A call, or a CPU that comes on or goes.
#[derive(Debug, Clone)]
pub struct Step {
    /// A call or a CPU.
    pub what: What,
    /// The device of a call, in [`Graph::tree`].
    pub device: Option<usize>,
    /// In [`Graph::stages`].
    pub stage: usize,
    /// By the log's clock.
    pub start: Us,
    /// By the log's clock.
    pub end: Us,
    /// From the latest end of what it waits for to its start.
    pub lag: Us,
    /// Of that, the last: its line was printed before it started.
    pub printing: Us,
    /// What it waits for besides its stage's beginning: calls of the nearest ancestor (in a suspend:
    /// of the nearest devices below). Steps, all before this one.
    pub tree: Vec<usize>,
    /// The step before it in the same process or thread, or the CPU before it, where it waits for that.
    pub before: Option<usize>,
    /// A call that ended just as this one started, which the log does not show as a wait, and
    /// which it is assumed to wait for.
    pub just_after: Option<usize>,
    /// The stage does not wait for it: it ended after the stage did.
    pub outlasts: bool,
}

/// What a step is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// The number of a call in the cycle's `calls`.
    Call(usize),
    /// The number of a step in the cycle's `cpus`.
    Cpu(usize),
}

/// What of the cycle is not in the graph, or not as it should be.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// Calls without a beginning, or without an end.
    pub half_calls: usize,
    /// Calls that end before they begin.
    pub backward_calls: usize,
    /// Calls of which the log has the duration, and neither a parent nor a process: what they waited
    /// for is unknown.
    #[serde(default)]
    pub unordered_calls: usize,
    /// Calls that started before their parent's call had ended (in a suspend: one of their
    /// children's). They are in the graph, and do not wait for it.
    pub did_not_wait: usize,
    /// Calls that ended after their stage. They are in the graph, and the stage does not wait.
    pub outlast: usize,
    /// Names of parents that several devices have: the one with the most calls is taken.
    pub parents_of_one_name: usize,
    /// The process that suspends could not be distinguished from the threads: the only order kept is
    /// that of calls of one thread.
    pub main_unknown: bool,
}

impl Step {
    /// Whether it is a call that waited for something that the log does not show.
    pub fn waits_unexplained(&self) -> bool {
        self.device.is_some() && (self.lag >= UNEXPLAINED_US || self.just_after.is_some())
    }
}

impl Graph {
    /// How long it took, in µs.
    pub fn total_us(&self) -> Us {
        self.end - self.start
    }
}
