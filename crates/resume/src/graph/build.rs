//! From a cycle to its graph.

use std::collections::{HashMap, HashSet};

use super::tree::main_worker;
use super::{
    CHANCE, Graph, HANDOVER_US, Half, LeftOut, PATIENCE_US, StageNode, Step, Tree, UNEXPLAINED_US,
    What,
};
use crate::cycle::{Call, Cycle, StageKind, Us};
use crate::graph::{DeviceTimes, SLOW_US};
use crate::times;

impl Graph {
    /// The graph of a cycle's resume. A cycle without any part of a resume gives a graph without
    /// stages, whose total is 0.
    pub fn of(cycle: &Cycle) -> Graph {
        Graph::of_half(cycle, std::slice::from_ref(cycle), Half::Resume)
    }

    /// The graph of a half of `cycle`. The tree of devices, and who runs what, are learnt from all
    /// cycles of the machine: a device that only another cycle names a parent of has it here as well.
    pub fn of_half(cycle: &Cycle, machine: &[Cycle], half: Half) -> Graph {
        let tree = Tree::of(cycle, machine);
        let main = main_worker(cycle);
        let mut left_out = LeftOut {
            parents_of_one_name: tree.ambiguous,
            main_unknown: main.is_none(),
            ..LeftOut::default()
        };
        let mut by_stage = steps_by_stage(cycle, half, &tree, &mut left_out);
        let spans = stages(cycle, half, &by_stage);
        let start = begin(cycle, half, &spans);
        let mut graph = Graph {
            half,
            start,
            end: start,
            stages: Vec::new(),
            entry: None,
            steps: Vec::new(),
            main,
            left_out,
            tree,
            calls: cycle.calls.clone(),
        };
        for (kind, start, end) in spans {
            let steps = by_stage.remove(&kind).unwrap_or_default();
            graph.add_stage(kind, start, end, steps);
        }
        graph.entry = entry(cycle, half, graph.end);
        graph.end += graph.entry.map_or(0, |(_, us)| us);
        graph
    }
}

/// What comes next behind the half's last stage, and how long after it the half ends.
fn entry(cycle: &Cycle, half: Half, end: Us) -> Option<(StageKind, Us)> {
    let times = times::of(cycle)?;
    let (until, next) = match half {
        Half::Suspend => {
            let mut stages = cycle.stages.iter();
            let next = stages.find(|stage| !half.has(stage.kind));
            let next = next.map_or(StageKind::Suspend, |next| next.kind);
            (times.start + times.suspend_us?, next)
        }
        Half::Resume => (times.resume_start? + times.resume_us?, StageKind::Thaw),
    };
    Some((next, until - end)).filter(|(_, us)| *us > 0)
}

/// A resume begins where the sleep ends, a suspend with its first word or stage.
fn begin(cycle: &Cycle, half: Half, spans: &[(StageKind, Us, Us)]) -> Us {
    let rest = cycle.stages.iter().find(|stage| stage.kind.is_rest());
    let woke = rest.map(|rest| rest.end).or(cycle.woke);
    let word = half.of(cycle.words.first, woke);
    let first = spans.first().map(|&(_, start, _)| start);
    word.into_iter().chain(first).min().unwrap_or_default()
}

/// The half's stages with their spans. A stage known only from calls reaches from the first one's
/// start to the last one's end.
fn stages(
    cycle: &Cycle,
    half: Half,
    steps: &HashMap<StageKind, Vec<Step>>,
) -> Vec<(StageKind, Us, Us)> {
    let own = cycle.stages.iter().filter(|stage| half.has(stage.kind));
    let own = own.map(|stage| (stage.kind, stage.start, stage.end.max(stage.start)));
    let mut spans: Vec<_> = own.collect();
    for (&kind, steps) in steps {
        if spans.iter().all(|&(one, ..)| one != kind) {
            let start = steps.iter().map(|step| step.start).min();
            let end = steps.iter().map(|step| step.end).max();
            spans.extend(start.zip(end).map(|(start, end)| (kind, start, end)));
        }
    }
    spans.sort_by_key(|&(kind, start, _)| (kind, start));
    part(&mut spans, steps);
    spans
}

/// Stages follow each other. Where timestamps say that one begins before the one before it has ended (a
/// line that is printed late, a call that is taken for another stage's), the later one's beginning
/// counts, so that no time is in two of them.
fn part(spans: &mut [(StageKind, Us, Us)], steps: &HashMap<StageKind, Vec<Step>>) {
    let mut latest = Us::MAX;
    for (kind, start, end) in spans.iter_mut().rev() {
        let own = steps.get(kind).into_iter().flatten();
        let first = own.map(|step| step.start).min().unwrap_or(*start);
        *end = (*end).min(latest);
        *start = (*start).min(first).min(*end);
        latest = *start;
    }
}

fn steps_by_stage(
    cycle: &Cycle,
    half: Half,
    tree: &Tree,
    left_out: &mut LeftOut,
) -> HashMap<StageKind, Vec<Step>> {
    let mut steps: HashMap<StageKind, Vec<Step>> = HashMap::new();
    let mut add = |kind, what, device, (start, end), printing| {
        steps.entry(kind).or_default().push(Step {
            what,
            device,
            stage: 0,
            start,
            end,
            lag: 0,
            printing,
            tree: Vec::new(),
            before: None,
            just_after: None,
            outlasts: false,
        });
    };
    let is_ordered = cycle.device_times(half) == DeviceTimes::Ordered;
    for (index, call) in cycle.calls.iter().enumerate() {
        if !half.has(call.stage) {
            continue;
        }
        if !is_ordered {
            left_out.unordered_calls += 1;
            continue;
        }
        match (call.start, call.end) {
            (Some(start), Some(end)) if start <= end => {
                let device = tree.find(&call.device, call.driver.as_ref());
                let printing = cycle.printing_us(call);
                let span = (start + printing, end);
                add(call.stage, What::Call(index), device, span, printing);
            }
            (Some(_), Some(_)) => left_out.backward_calls += 1,
            _ => left_out.half_calls += 1,
        }
    }
    let (on, kind) = half.of((false, StageKind::CpusOff), (true, StageKind::CpusOn));
    for (index, cpu) in cycle.cpus.iter().enumerate() {
        if cpu.on == on && cpu.start <= cpu.end {
            add(kind, What::Cpu(index), None, (cpu.start, cpu.end), 0);
        }
    }
    for steps in steps.values_mut() {
        steps.sort_by_key(|step| (step.start, step.end));
    }
    steps
}

impl Graph {
    /// The devices with a call that a device waits for: a device without one waits too, and is waited for, unless
    /// it is `gone`.
    pub(crate) fn nearest(
        &self,
        device: usize,
        with_call: &HashSet<usize>,
        gone: &HashSet<usize>,
    ) -> Vec<usize> {
        let waits_for = |device: usize| -> Vec<usize> {
            match self.half {
                Half::Resume => self.tree.superiors(device).collect(),
                Half::Suspend => self.tree.inferiors(device).collect(),
            }
        };
        let (mut nearest, mut seen) = (Vec::new(), HashSet::from([device]));
        let mut next = waits_for(device);
        while let Some(one) = next.pop() {
            if gone.contains(&one) || !seen.insert(one) {
                continue;
            }
            match with_call.contains(&one) {
                true => nearest.push(one),
                false => next.extend(waits_for(one)),
            }
        }
        nearest
    }

    fn add_stage(&mut self, kind: StageKind, start: Us, end: Us, steps: Vec<Step>) {
        let first = self.steps.len();
        let stage = self.stages.len();
        let mut known = Known {
            with_call: steps.iter().filter_map(|step| step.device).collect(),
            ..Known::default()
        };
        for mut step in steps {
            step.stage = stage;
            self.connect(&mut step, (kind, start), &mut known);
            // A stamp may be a microsecond or so ahead of the stage's own line; a stage whose end is
            // computed from the kernel's figure is cut to the microsecond as well.
            step.outlasts = step.end > end;
            self.left_out.outlast += usize::from(step.outlasts);
            known.note(&self.calls, &step, self.steps.len());
            self.steps.push(step);
        }
        let with_call = known.with_call;
        let waited_for = self.steps[first..].iter().filter(|step| !step.outlasts);
        let last = waited_for.map(|step| step.end).max();
        let before = self.stages.last().map_or(self.start, |stage| stage.end);
        self.stages.push(StageNode {
            kind,
            start,
            end,
            gap: start - before,
            tail: end - last.unwrap_or(start).max(start),
            steps: first..self.steps.len(),
            with_call,
        });
        self.end = end;
    }

    /// What the step waits for, and how long after that it starts.
    fn connect(&mut self, step: &mut Step, (kind, begins): (StageKind, Us), known: &mut Known) {
        let mut ready = begins;
        // Its line is printed when it has waited.
        let called = step.start - step.printing;
        let serial = matches!(kind, StageKind::Prepare | StageKind::Complete);
        if let Some(device) = step.device.filter(|_| !serial) {
            let (waits_for, too_late) = self.waits_for(device, called, known);
            self.left_out.did_not_wait += usize::from(too_late);
            step.tree = waits_for;
            let ends = step.tree.iter().map(|&one| self.steps[one].end);
            ready = ends.fold(ready, Us::max);
        }
        step.before = self.before(step, ready, known);
        if let Some(before) = step.before {
            ready = ready.max(self.steps[before].end);
        }
        if called - ready >= UNEXPLAINED_US && step.device.is_some() {
            step.just_after = known.just_before(called, ready, slow(step.printing));
            let end = step.just_after.map(|one| self.steps[one].end);
            ready = end.unwrap_or(ready);
        }
        step.lag = step.start - ready;
    }

    /// The step before this one in its process or thread, if it had to wait for that one.
    fn before(&self, step: &Step, ready: Us, known: &Known) -> Option<usize> {
        let worker = match step.what {
            What::Cpu(_) => None,
            What::Call(call) => Some(self.calls[call].worker?),
        };
        let before = *known.last_in.get(&worker)?;
        let end = self.steps[before].end;
        let ordered = worker.is_none() || worker == self.main;
        let called = step.start - step.printing;
        // The line before this one was printed as slowly as its own.
        let handover = HANDOVER_US + slow(step.printing);
        let left_lying = end - ready >= PATIENCE_US && called - end <= handover;
        (end <= called && (ordered || left_lying)).then_some(before)
    }

    /// The calls in this stage that a device waits for, and whether some that it should have waited
    /// for had not ended.
    fn waits_for(&self, device: usize, start: Us, known: &Known) -> (Vec<usize>, bool) {
        let nearest = self.nearest(device, &known.with_call, &HashSet::new());
        let mut too_late = nearest.iter().any(|one| !known.of_device.contains_key(one));
        let known = nearest.iter().filter_map(|one| known.of_device.get(one));
        let mut found: Vec<usize> = known.flatten().copied().collect();
        found.retain(|&one| {
            too_late |= self.steps[one].end > start;
            self.steps[one].end <= start
        });
        (found, too_late)
    }
}

/// What the printing of the line before a call's own may have taken: as long as that one's, if lines take so long
/// that no other work is as slow.
fn slow(printing: Us) -> Us {
    Some(printing).filter(|&us| us >= SLOW_US).unwrap_or(0)
}

/// The steps of a stage so far.
#[derive(Default)]
struct Known {
    /// The devices that have a call in the stage.
    with_call: HashSet<usize>,
    /// The calls so far of each.
    of_device: HashMap<usize, Vec<usize>>,
    /// The last step of each worker; of `None`, the last CPU.
    last_in: HashMap<Option<u32>, usize>,
    /// The ends of the calls so far, in their order.
    ends: Vec<(Us, usize)>,
}

impl Known {
    fn note(&mut self, calls: &[Call], step: &Step, index: usize) {
        match step.what {
            What::Call(call) if calls[call].worker.is_none() => {}
            What::Call(call) => _ = self.last_in.insert(calls[call].worker, index),
            What::Cpu(_) => _ = self.last_in.insert(None, index),
        }
        if let Some(device) = step.device {
            self.of_device.entry(device).or_default().push(index);
            let place = self.ends.partition_point(|&(end, _)| end <= step.end);
            self.ends.insert(place, (step.end, index));
        }
    }

    /// The call that ended so shortly before a start that it is no chance, in a lag that began then.
    /// Its line was written before that, which may take as long as the printing of the start's own.
    fn just_before(&self, start: Us, ready: Us, printing: Us) -> Option<usize> {
        let until = self.ends.partition_point(|&(end, _)| end <= start);
        let from = self.ends.partition_point(|&(end, _)| end <= ready);
        let &(end, last) = self.ends[from.min(until)..until].last()?;
        let by_chance = (until - from) as f64 * (start - end) as f64 / (start - ready) as f64;
        (start - end <= HANDOVER_US + printing && by_chance <= CHANCE).then_some(last)
    }
}
