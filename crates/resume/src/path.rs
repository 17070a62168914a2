//! The critical path: the chain of waits whose shortening shortens the whole, and how much longer
//! everything else could take.

use serde::{Deserialize, Serialize};

use crate::cycle::{StageKind, Us};
use crate::graph::{Graph, Half, SLOW_US, UNEXPLAINED_US, What};

/// The chain from the first moment to the last. Its links follow each other without a gap, so their
/// times add up to the total.
#[derive(Debug, Clone, PartialEq)]
pub struct CriticalPath {
    /// The half that it goes through.
    pub half: Half,
    /// From the start of the half to its end.
    pub total_us: Us,
    /// In the order of time.
    pub links: Vec<Link>,
}

/// A piece of time of the path.
#[derive(Debug, Clone, PartialEq)]
pub struct Link {
    /// What the time went to.
    pub part: Part,
    /// The stage that it lies in.
    pub stage: StageKind,
    /// By the log's clock; in a replay, by the clock of what would have been.
    pub start: Us,
    /// By the same clock.
    pub end: Us,
    /// Why it could not begin before the link ahead of it had ended.
    pub why: Why,
}

/// What the time went to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// A call; its number in the cycle's `calls`.
    Call(usize),
    /// A CPU that comes on or goes; its number in the cycle's `cpus`.
    Cpu(usize),
    /// CPUs that a what-if adds to those that the log has.
    MoreCpus(u32),
    /// From the end of what this call waited for to its start: the kernel's own work, waking a thread.
    Before(usize),
    /// The same, and long enough ([`UNEXPLAINED_US`]) that it waited for something that is not in the log: a
    /// supplier, a lock, a CPU. The number is the call's.
    Unexplained(usize),
    /// From the stamp of this call's first line to its start: that line was printed.
    Printing(usize),
    /// Before a CPU is worked on.
    BeforeCpu(usize),
    /// Between the stage before this one and its beginning; behind a suspend's last stage, to the kernel's
    /// last word.
    BeforeStage,
    /// From the stage's last call to its end, or all of a stage without calls.
    StageItself,
    /// All of a stage whose time is set by a what-if.
    StageSet,
}

/// Why a link could not begin earlier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// It is the first: the half begins.
    Begins,
    /// The stage before it had to end.
    StageBefore,
    /// Its stage had to begin.
    StageBegins,
    /// Its parent's call, or the nearest ancestor's, had to return.
    Parent,
    /// The calls of the devices below it had to return (in a suspend).
    Children,
    /// A supplier's call had to return, or the nearest of what that waits for (see
    /// [`crate::devices`]).
    Supplier,
    /// The calls of the devices that it supplies had to return (in a suspend).
    Consumers,
    /// The process or thread that runs it was busy with the call before.
    SameWorker,
    /// It started just as that call had returned. The reason is not in the log: a supplier, a lock, or a
    /// device without a callback between the two.
    JustAfter,
    /// CPUs are worked on one after the other.
    CpuBefore,
    /// A stage waits for all its calls.
    WaitsForAll,
    /// It follows on the time before it.
    Follows,
}

impl Link {
    /// Its length.
    pub fn us(&self) -> Us {
        self.end - self.start
    }
}

/// What set a step's start: another step, and why, or else its stage.
pub(crate) type Bound = Option<(usize, Why)>;

/// Times of a graph's stages and steps: as measured, or as a what-if has them.
#[derive(Debug, Clone)]
pub(crate) struct Times {
    /// Beginning and end of each stage.
    pub stages: Vec<(Us, Us)>,
    /// Start and end of each step, `None` where it is not in the run.
    pub steps: Vec<Option<(Us, Us)>>,
    /// Where a step that is not in the run would have started: see [`crate::what_if`].
    pub would_start: Vec<Option<Us>>,
    pub bounds: Vec<Bound>,
    /// The step that each stage ended with, if there is one.
    pub last: Vec<Option<usize>>,
    /// CPUs added and the time for them, at the end of the CPUs' stage.
    pub more_cpus: Option<(usize, u32, Us)>,
    /// Stages whose time is set.
    pub set: Vec<bool>,
    pub start: Us,
    pub end: Us,
}

impl Graph {
    /// How much longer each of the cycle's calls could take without the whole getting longer, in
    /// µs, by the call's number. `None`: the call is not in the graph (another half, no start or no
    /// end). 0: on a critical path.
    pub fn slack_us(&self) -> Vec<Option<Us>> {
        let mut latest = self.latest_ends();
        let mut slack = vec![None; self.calls.len()];
        for (step, latest) in self.steps.iter().zip(latest.drain(..)) {
            if let What::Call(call) = step.what {
                slack[call] = latest.map(|latest| latest - step.end);
            }
        }
        slack
    }

    /// The latest end of each step with which the stage after it still begins as it did; `None` for
    /// a step that nothing waits for.
    fn latest_ends(&self) -> Vec<Option<Us>> {
        let mut latest: Vec<Option<Us>> = vec![None; self.steps.len()];
        let allow = |latest: &mut Option<Us>, end: Us| {
            *latest = Some(latest.map_or(end, |one| one.min(end)));
        };
        for index in (0..self.steps.len()).rev() {
            let step = &self.steps[index];
            let stage = &self.stages[step.stage];
            if !step.outlasts {
                allow(&mut latest[index], stage.end - stage.tail);
            }
            let Some(end) = latest[index] else { continue };
            let ready = end - (step.end - step.start) - step.lag;
            for &one in step.tree.iter().chain(&step.before).chain(&step.just_after) {
                allow(&mut latest[one], ready);
            }
        }
        latest
    }
}

/// The path through any times of a graph: from the end back to what set each start.
pub(crate) fn path_of(graph: &Graph, times: &Times) -> CriticalPath {
    let mut links = Vec::new();
    if let Some((stage, us)) = graph.entry {
        links.push(Link {
            part: Part::BeforeStage,
            stage,
            start: times.end - us,
            end: times.end,
            why: Why::StageBefore,
        });
    }
    for stage in (0..graph.stages.len()).rev() {
        stage_links(graph, times, stage, &mut links);
    }
    links.reverse();
    links.retain(|link| link.start != link.end || matches!(link.part, Part::Call(_)));
    if let Some(first) = links.first_mut() {
        first.why = Why::Begins;
    }
    CriticalPath {
        half: graph.half,
        total_us: times.end - times.start,
        links,
    }
}

/// The links of one stage, from its end to its beginning, and of the time before it.
fn stage_links(graph: &Graph, times: &Times, stage: usize, links: &mut Vec<Link>) {
    let kind = graph.stages[stage].kind;
    let (begin, end) = times.stages[stage];
    let mut push = |part, start, end, why| {
        links.push(Link {
            part,
            stage: kind,
            start,
            end,
            why,
        });
    };
    let before = match stage {
        0 => times.start,
        _ => times.stages[stage - 1].1,
    };
    if times.set[stage] {
        push(Part::StageSet, begin, end, Why::StageBegins);
    } else {
        let mut at = times.last[stage];
        let mut until = end;
        let last = at.and_then(|step| times.steps[step]).map(|(_, end)| end);
        match (times.more_cpus.filter(|&(one, ..)| one == stage), last) {
            (Some((_, more, us)), _) => {
                until = last.unwrap_or(begin);
                push(Part::StageItself, until + us, end, Why::Follows);
                push(Part::MoreCpus(more), until, until + us, Why::CpuBefore);
            }
            (None, Some(last)) => push(Part::StageItself, last, end, Why::WaitsForAll),
            (None, None) => push(Part::StageItself, begin, end, Why::StageBegins),
        }
        while let Some(step) = at {
            let Some((start, end)) = times.steps[step] else {
                break;
            };
            until = end.min(until);
            let (why, ready, next) = match times.bounds[step] {
                None => (Why::StageBegins, begin, None),
                Some((one, why)) => {
                    let end = times.steps[one].map_or(begin, |(_, end)| end);
                    (why, end, Some(one))
                }
            };
            let lag = start - ready;
            let own_why = if lag == 0 { why } else { Why::Follows };
            let printing = graph.steps[step].printing;
            let called = start - printing.clamp(0, lag.max(0));
            let slow = if printing >= SLOW_US { printing } else { 0 };
            let (part, waited) = match graph.steps[step].what {
                // The line before its own was printed as slowly.
                What::Call(call) if called - ready >= UNEXPLAINED_US + slow => {
                    (Part::Call(call), Part::Unexplained(call))
                }
                What::Call(call) => (Part::Call(call), Part::Before(call)),
                What::Cpu(cpu) => (Part::Cpu(cpu), Part::BeforeCpu(cpu)),
            };
            push(part, start, until, own_why);
            if let Part::Call(call) = part {
                let why = if called == ready { why } else { Why::Follows };
                push(Part::Printing(call), called, start, why);
            }
            push(waited, ready, called, why);
            at = next;
        }
    }
    push(Part::BeforeStage, before, begin, Why::StageBefore);
}
