//! One run of a graph.

use std::collections::{BTreeSet, HashSet};

use serde::{Deserialize, Serialize};

use super::change::{Change, Pattern, Target};
use crate::cycle::{Name, Stage, StageKind, Us};
use crate::graph::{Graph, Half, StageNode, Step, What};
use crate::path::{Bound, CriticalPath, Times, Why, path_of};
use crate::{Error, Result};

/// The result of a replay.
#[derive(Debug, Clone, PartialEq)]
pub struct Replayed {
    /// From the start of the half to its end, without what is deferred.
    pub total_us: Us,
    /// By the log's clock; the half starts when it did.
    pub stages: Vec<Stage>,
    /// New start and end of each of the cycle's calls; `None` for those that are removed or not in
    /// the graph. Deferred calls come after the half's end.
    pub calls: Vec<Option<(Us, Us)>>,
    /// The removed devices that have a call in the half, by name.
    pub removed: Vec<Name>,
    /// The deferred devices.
    pub deferred: Vec<Deferred>,
    /// The critical path with the changes.
    pub path: CriticalPath,
    /// The changes that match nothing, as [`Change`] writes them.
    pub unmet: Vec<String>,
}

/// A device that resumes after the whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deferred {
    /// As the kernel names it.
    pub device: Name,
    /// From the start of the resume until its last call has returned, in µs.
    pub ready_us: Us,
}

/// Replays the graph with these changes. A device that one change removes and another defers is removed.
/// Of two changes that set the same time the later one counts.
///
/// What is deferred begins when the half has ended, and keeps its own order: its stages follow each
/// other, its calls wait for those of its parents that are deferred too, and a worker's calls follow
/// each other as before; the kernel's own time between stages is not counted again.
///
/// # Errors
/// [`Error::Usage`] if no CPU is left, if there should be more CPUs and the log has none to take
/// their time from, or if something is to be deferred in a suspend.
pub fn replay(graph: &Graph, changes: &[Change]) -> Result<Replayed> {
    let run = Run::new(graph, changes)?;
    let times = run.times();
    let mut calls = vec![None; graph.calls.len()];
    for (step, times) in graph.steps.iter().zip(&times.steps) {
        if let What::Call(call) = step.what {
            calls[call] = *times;
        }
    }
    let deferred = run.deferred(times.end, &mut calls);
    let stages = graph.stages.iter().zip(&times.stages);
    let stage = |(stage, &(start, end)): (&StageNode, &(Us, Us))| Stage {
        kind: stage.kind,
        start,
        end,
        says_us: None,
    };
    let unmet = changes.iter().filter(|change| !change.meets(graph));
    Ok(Replayed {
        total_us: times.end - times.start,
        stages: stages.map(stage).collect(),
        calls,
        removed: run.removed(),
        deferred,
        path: path_of(graph, &times),
        unmet: unmet.map(Change::to_string).collect(),
    })
}

impl Graph {
    /// The critical path of what was measured.
    ///
    /// Where two chains are equally long one of them is given: shortening it alone shortens nothing.
    pub fn critical_path(&self) -> CriticalPath {
        path_of(self, &self.measured())
    }

    /// The times that the log has, with what set each.
    pub(crate) fn measured(&self) -> Times {
        Run::unchanged(self).times()
    }
}

/// Whether a step runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Status {
    Runs,
    Removed,
    Deferred,
}

/// A graph with changed durations, and without some of its steps.
#[derive(Debug, Clone)]
pub(crate) struct Run<'a> {
    graph: &'a Graph,
    took: Vec<Us>,
    status: Vec<Status>,
    /// Removed devices, with a call or without.
    gone: HashSet<usize>,
    /// Of each stage, the time that is set.
    set: Vec<Option<Us>>,
    /// CPUs that the log does not have, and the time for all of them.
    more_cpus: Option<(u32, Us)>,
}

impl<'a> Run<'a> {
    pub(crate) fn unchanged(graph: &'a Graph) -> Run<'a> {
        Run {
            graph,
            took: graph.steps.iter().map(|one| one.end - one.start).collect(),
            status: vec![Status::Runs; graph.steps.len()],
            gone: HashSet::new(),
            set: vec![None; graph.stages.len()],
            more_cpus: None,
        }
    }

    pub(crate) fn new(graph: &'a Graph, changes: &[Change]) -> Result<Run<'a>> {
        let mut run = Run::unchanged(graph);
        let devices = |pattern: &Pattern| pattern.devices(&graph.tree);
        for change in changes {
            match change {
                Change::Without(pattern) => run.mark(&devices(pattern), Status::Removed),
                Change::Defer(_) if graph.half == Half::Suspend => {
                    return Err(Error::Usage(format!(
                        "{change}: only a resume can leave devices for later"
                    )));
                }
                Change::Defer(pattern) => run.mark(&devices(pattern), Status::Deferred),
                Change::Set { what, us } => run.set(what, *us),
                Change::Cpus(cpus) => run.cpus(*cpus)?,
            }
        }
        Ok(run)
    }

    /// The devices and all that lies below them.
    fn mark(&mut self, devices: &[usize], status: Status) {
        let tree = &self.graph.tree;
        let mut marked = vec![false; tree.devices.len()];
        for one in devices.iter().flat_map(|&device| tree.with_below(device)) {
            marked[one] = true;
            if status == Status::Removed {
                self.gone.insert(one);
            }
        }
        for (step, own) in self.graph.steps.iter().zip(&mut self.status) {
            if step.device.is_some_and(|device| marked[device]) && *own != Status::Removed {
                *own = status;
            }
        }
    }

    /// The same run without a device and all that lies below it.
    pub(crate) fn without(&self, device: usize) -> Run<'a> {
        let mut run = self.clone();
        run.mark(&[device], Status::Removed);
        run
    }

    fn set(&mut self, what: &Target, us: Us) {
        match what {
            Target::Stage(kind) => {
                for (stage, set) in self.graph.stages.iter().zip(&mut self.set) {
                    if stage.kind == *kind {
                        *set = Some(us);
                    }
                }
            }
            Target::Devices { pattern, stage } => {
                for device in pattern.devices(&self.graph.tree) {
                    self.set_device(device, *stage, us);
                }
            }
        }
    }

    fn set_device(&mut self, device: usize, stage: Option<StageKind>, us: Us) {
        let graph = self.graph;
        let own = (0..graph.steps.len()).filter(|&one| graph.steps[one].device == Some(device));
        match stage {
            Some(kind) => {
                for one in own.filter(|&one| graph.stages[graph.steps[one].stage].kind == kind) {
                    self.took[one] = us;
                }
            }
            None => {
                let length = |&one: &usize| graph.steps[one].end - graph.steps[one].start;
                if let Some(one) = own.rev().max_by_key(length) {
                    self.took[one] = us;
                }
            }
        }
    }

    fn cpus(&mut self, cpus: u32) -> Result<()> {
        let graph = self.graph;
        let is_cpu = |one: &usize| matches!(graph.steps[*one].what, What::Cpu(_));
        let own: Vec<usize> = (0..graph.steps.len()).filter(is_cpu).collect();
        let Some(wanted) = cpus.checked_sub(1) else {
            let message = "0 CPUs: give 1 or more";
            return Err(Error::Usage(message.to_owned()));
        };
        for (count, &one) in own.iter().enumerate() {
            self.status[one] = match count < wanted as usize {
                true => Status::Runs,
                false => Status::Removed,
            };
        }
        self.more_cpus = None;
        let more = wanted.saturating_sub(own.len() as u32);
        if more > 0 {
            if own.is_empty() {
                return Err(Error::Usage(format!(
                    "{cpus} CPUs: the log brings no CPU on, so the time of one is unknown"
                )));
            }
            let times = own.iter().map(|&one| &graph.steps[one]);
            let sum: Us = times.map(|step| step.lag + step.end - step.start).sum();
            let count = own.len() as Us;
            let us = (sum * Us::from(more) + count / 2).div_euclid(count);
            self.more_cpus = Some((more, us));
        }
        Ok(())
    }

    fn removed(&self) -> Vec<Name> {
        let steps = self.graph.steps.iter().zip(&self.status);
        let gone = steps.filter(|(_, own)| **own == Status::Removed);
        let gone: BTreeSet<usize> = gone.filter_map(|(step, _)| step.device).collect();
        let devices = &self.graph.tree.devices;
        gone.iter().map(|&one| devices[one].name.clone()).collect()
    }

    /// When everything that runs starts and ends.
    pub(crate) fn times(&self) -> Times {
        let graph = self.graph;
        let befores = self.befores(Status::Runs);
        let mut times = Times {
            stages: Vec::with_capacity(graph.stages.len()),
            steps: vec![None; graph.steps.len()],
            would_start: vec![None; graph.steps.len()],
            bounds: vec![None; graph.steps.len()],
            last: vec![None; graph.stages.len()],
            more_cpus: None,
            set: self.set.iter().map(Option::is_some).collect(),
            start: graph.start,
            end: graph.start,
        };
        for (index, stage) in graph.stages.iter().enumerate() {
            let begin = times.end + stage.gap;
            let mut until = begin;
            for step in stage.steps.clone() {
                let (start, bound) = self.start((step, befores[step]), begin, &times, Status::Runs);
                if self.status[step] != Status::Runs {
                    times.would_start[step] = Some(start);
                    if graph.steps[step].waits_unexplained() && !graph.steps[step].outlasts {
                        until = until.max(start);
                    }
                    continue;
                }
                let end = start + self.took[step];
                times.steps[step] = Some((start, end));
                times.bounds[step] = bound;
                if end >= until && !graph.steps[step].outlasts {
                    until = end;
                    times.last[index] = Some(step);
                }
            }
            if let (StageKind::CpusOn | StageKind::CpusOff, Some((more, us))) =
                (stage.kind, self.more_cpus)
            {
                times.more_cpus = Some((index, more, us));
                until += us;
            }
            let mut end = until + stage.tail;
            if let Some(set) = self.set[index] {
                squeeze(&mut times.steps[stage.steps.clone()], (begin, end), set);
                end = begin + set;
            }
            times.stages.push((begin, end));
            times.end = end;
        }
        times.end += graph.entry.map_or(0, |(_, us)| us);
        times
    }

    /// When a step starts, and what sets that, among the steps of this status.
    fn start(
        &self,
        (index, before): (usize, Option<usize>),
        begin: Us,
        times: &Times,
        status: Status,
    ) -> (Us, Bound) {
        let graph = self.graph;
        let step = &graph.steps[index];
        let (mut ready, mut bound) = (begin, None);
        let mut wait_for = |one: usize, why: Why| match (times.steps[one], times.would_start[one]) {
            (Some((_, end)), _) if end >= ready => (ready, bound) = (end, Some((one, why))),
            (None, Some(at)) if at > ready => (ready, bound) = (at, None),
            _ => (),
        };
        if let Some(one) = step.just_after {
            wait_for(one, Why::JustAfter);
        }
        if let Some(before) = before {
            let why = match step.what {
                What::Call(_) => Why::SameWorker,
                What::Cpu(_) => Why::CpuBefore,
            };
            wait_for(before, why);
        }
        let is_below = |one: Option<usize>, other: Option<usize>| {
            let both = one.zip(other);
            both.is_some_and(|(one, other)| graph.tree.is_below(one, other))
        };
        let why = |one: usize| {
            let (own, other) = (step.device, graph.steps[one].device);
            match graph.half {
                Half::Resume if is_below(own, other) => Why::Parent,
                Half::Resume => Why::Supplier,
                Half::Suspend if is_below(other, own) => Why::Children,
                Half::Suspend => Why::Consumers,
            }
        };
        let is_absent = self.status[index] != status;
        let still = self.still_waits_for(step);
        let is_still = |one: usize| match (&still, graph.steps[one].device) {
            (None, _) => true,
            (Some(still), device) => device.is_some_and(|device| still.contains(&device)),
        };
        for &one in &step.tree {
            if is_absent || self.status[one] == status && is_still(one) {
                wait_for(one, why(one));
            }
        }
        (ready + step.lag, bound)
    }

    /// The devices that a step waits for without those that are gone: a supplier without a call in the stage, too,
    /// makes its consumers wait for what it waits for. `None`: all that it did wait for, as no device is between.
    fn still_waits_for(&self, step: &Step) -> Option<Vec<usize>> {
        let tree = &self.graph.tree;
        let may_change = !self.gone.is_empty() && tree.has_suppliers;
        let device = step.device.filter(|_| may_change)?;
        let with_call = &self.graph.stages[step.stage].with_call;
        Some(self.graph.nearest(device, with_call, &self.gone))
    }

    /// Of each step, the one before it in its process that has this status, or that had an unexplained wait:
    /// that wait may not have been its own.
    fn befores(&self, status: Status) -> Vec<Option<usize>> {
        let steps = &self.graph.steps;
        let mut befores = vec![None; steps.len()];
        for (index, step) in steps.iter().enumerate() {
            befores[index] = step.before.and_then(|one| {
                match self.status[one] == status || steps[one].waits_unexplained() {
                    true => Some(one),
                    false => befores[one],
                }
            });
        }
        befores
    }

    /// Runs what is deferred, from this instant on.
    fn deferred(&self, from: Us, calls: &mut [Option<(Us, Us)>]) -> Vec<Deferred> {
        let graph = self.graph;
        let befores = self.befores(Status::Deferred);
        let mut times = self.times();
        times.steps.fill(None);
        times.would_start.fill(None);
        let mut ready: Vec<Option<Us>> = vec![None; graph.tree.devices.len()];
        let mut at = from;
        for stage in &graph.stages {
            let begin = at;
            for step in stage.steps.clone() {
                if self.status[step] != Status::Deferred {
                    continue;
                }
                let (start, _) = self.start((step, befores[step]), begin, &times, Status::Deferred);
                let end = start + self.took[step];
                times.steps[step] = Some((start, end));
                at = at.max(end);
                if let What::Call(call) = graph.steps[step].what {
                    calls[call] = times.steps[step];
                }
                if let Some(device) = graph.steps[step].device {
                    ready[device] = Some(end - graph.start);
                }
            }
        }
        let devices = graph.tree.devices.iter().zip(ready);
        let deferred = devices.filter_map(|(device, ready)| {
            let (device, ready_us) = (device.name.clone(), ready?);
            Some(Deferred { device, ready_us })
        });
        deferred.collect()
    }
}

/// Steps of a stage that is set to take another time keep their places in it, in proportion.
fn squeeze(steps: &mut [Option<(Us, Us)>], (begin, end): (Us, Us), to: Us) {
    let was = i128::from((end - begin).max(1));
    let move_to = |at: Us| begin + (i128::from(at - begin) * i128::from(to) / was) as Us;
    for (start, end) in steps.iter_mut().flatten() {
        (*start, *end) = (move_to(*start), move_to(*end));
    }
}
