//! A simulated kernel's suspend and resume of a machine, event by event.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;

use reveille_resume::cycle::{Call, CpuStep, Cycle, Stage, StageKind, Us};

use super::machine::{Kernel, Machine, STAGES};

/// One suspend and resume, as simulated.
#[derive(Debug, Clone)]
pub struct Truth {
    pub stages: Vec<Stage>,
    pub cpus: Vec<CpuStep>,
    /// In the order of their starts.
    pub calls: Vec<TrueCall>,
    pub asleep_us: Us,
    /// For each deferred device, the return of its last call.
    pub ready: Vec<Option<Us>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrueCall {
    pub device: usize,
    pub stage: StageKind,
    pub start: Us,
    pub end: Us,
    pub worker: u32,
}

impl Truth {
    pub fn stage(&self, kind: StageKind) -> &Stage {
        let mut stages = self.stages.iter();
        stages.find(|stage| stage.kind == kind).expect("all stages")
    }

    /// From the firmware's end to the last thawed process.
    pub fn resume_us(&self) -> Us {
        self.stage(StageKind::Thaw).end - self.stage(StageKind::Platform).end
    }

    pub fn end(&self) -> Us {
        self.stage(StageKind::Thaw).end
    }

    /// A complete trace.
    pub fn cycle(&self, machine: &Machine, number: usize) -> Cycle {
        let name = |text: &str| Arc::<str>::from(text);
        let call = |one: &TrueCall| {
            let device = &machine.devices[one.device];
            let parent = device.parent.map(|one| name(&machine.devices[one].name));
            Call {
                device: name(&device.name),
                driver: Some(name(&device.driver)),
                parent,
                function: None,
                stage: one.stage,
                start: Some(one.start),
                end: Some(one.end),
                says_us: None,
                worker: Some(one.worker),
                result: Some(0),
            }
        };
        Cycle {
            number,
            sleep: Some("deep".to_owned()),
            at: None,
            stages: self.stages.clone(),
            cpus: self.cpus.clone(),
            calls: self.calls.iter().map(call).collect(),
            asleep_us: Some(self.asleep_us),
            shift_us: 0,
            failures: Vec::new(),
            cut: false,
            stamped: true,
            resolution_us: 1,
            woke: None,
            gaps: Vec::new(),
            ..Cycle::default()
        }
    }
}

/// Kernel threads, which outlive a stage: the most recently idle one is taken first.
#[derive(Debug, Clone, Default)]
pub struct Threads {
    made: u32,
    idle: Vec<u32>,
}

/// Suspends and resumes the machine, starting at this instant.
pub fn run(machine: &Machine, at: Us, threads: &mut Threads) -> Truth {
    let mut truth = Truth {
        stages: Vec::new(),
        cpus: Vec::new(),
        calls: Vec::new(),
        asleep_us: machine.asleep_us,
        ready: vec![None; machine.devices.len()],
    };
    let mut now = at;
    for kind in KINDS {
        let (before, after) = machine.own[kind as usize];
        let start = match kind {
            StageKind::Freeze => at,
            _ => now + before,
        };
        now = match (kind, STAGES.iter().position(|&one| one == kind)) {
            (StageKind::CpusOff | StageKind::CpusOn, _) => cpus(machine, kind, start, &mut truth),
            (_, Some(stage)) => {
                let resumes = stage >= 4;
                let takes_part = machine.devices.iter();
                let takes_part = takes_part.map(|one| !(one.absent || resumes && one.deferred));
                enact(
                    machine,
                    stage,
                    start,
                    takes_part.collect(),
                    threads,
                    &mut truth,
                )
            }
            _ => start,
        } + after;
        truth.stages.push(Stage {
            kind,
            start,
            end: now,
            says_us: None,
        });
    }
    run_deferred(machine, now, threads, &mut truth);
    truth.calls.sort_by_key(|call| (call.start, call.end));
    truth
}

const KINDS: [StageKind; 13] = [
    StageKind::Freeze,
    StageKind::Prepare,
    StageKind::Suspend,
    StageKind::SuspendLate,
    StageKind::SuspendNoirq,
    StageKind::CpusOff,
    StageKind::Platform,
    StageKind::CpusOn,
    StageKind::ResumeNoirq,
    StageKind::ResumeEarly,
    StageKind::Resume,
    StageKind::Complete,
    StageKind::Thaw,
];

/// One CPU after the other.
fn cpus(machine: &Machine, kind: StageKind, start: Us, truth: &mut Truth) -> Us {
    let on = kind == StageKind::CpusOn;
    let mut now = start;
    for (number, cpu) in machine.cpus.iter().enumerate() {
        let start = now + cpu.before;
        now = start + if on { cpu.on } else { cpu.off };
        truth.cpus.push(CpuStep {
            cpu: number as u32 + 1,
            on,
            start,
            end: now,
        });
    }
    now
}

/// Deferred devices go through the same stages, with nothing between them.
fn run_deferred(machine: &Machine, at: Us, threads: &mut Threads, truth: &mut Truth) {
    let later: Vec<bool> = machine
        .devices
        .iter()
        .map(|one| one.deferred && !one.absent)
        .collect();
    let known = truth.calls.len();
    let mut now = at;
    for stage in 4..8 {
        now = enact(machine, stage, now, later.clone(), threads, truth);
    }
    for call in &truth.calls[known..] {
        let ready = &mut truth.ready[call.device];
        *ready = (*ready).max(Some(call.end));
    }
}

/// The worker of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Thread {
    Main,
    Worker(u32),
}

/// A stage in progress.
struct Enactment<'a> {
    machine: &'a Machine,
    stage: usize,
    takes_part: Vec<bool>,
    /// Pending calls: return time, order of start, worker, device.
    returns: BinaryHeap<Reverse<(Us, usize, Thread, usize)>>,
    begun: usize,
    done: Vec<bool>,
    /// Who waits for a device, and with which one in hand.
    waiting: Vec<Vec<(Thread, usize)>>,
    handed_over: Vec<bool>,
    queue: VecDeque<usize>,
    /// The devices in the order in which the suspending process goes through them.
    order: Vec<usize>,
    next: usize,
    children: Vec<Vec<usize>>,
    consumers: Vec<Vec<usize>>,
    threads: &'a mut Threads,
    calls: Vec<TrueCall>,
}

/// Runs a stage of callbacks and returns when the last one has returned.
fn enact(
    machine: &Machine,
    stage: usize,
    start: Us,
    takes_part: Vec<bool>,
    threads: &mut Threads,
    truth: &mut Truth,
) -> Us {
    let count = machine.devices.len();
    let (mut children, mut consumers) = (vec![Vec::new(); count], vec![Vec::new(); count]);
    for (index, device) in machine.devices.iter().enumerate() {
        if let Some(parent) = device.parent {
            children[parent].push(index);
        }
        if let Some(supplier) = device.supplier {
            consumers[supplier].push(index);
        }
    }
    let mut order: Vec<usize> = (0..count).filter(|&one| takes_part[one]).collect();
    // `complete` goes through its list backwards, like the stages of a suspend.
    if stage != 0 && !(4..7).contains(&stage) {
        order.reverse();
    }
    let mut enactment = Enactment {
        machine,
        stage,
        takes_part,
        returns: BinaryHeap::new(),
        begun: 0,
        done: vec![false; count],
        waiting: vec![Vec::new(); count],
        handed_over: vec![false; count],
        queue: VecDeque::new(),
        order,
        next: 0,
        children,
        consumers,
        threads,
        calls: Vec::new(),
    };
    let end = enactment.run(start);
    truth.calls.extend(enactment.calls);
    end
}

impl Enactment<'_> {
    fn run(&mut self, start: Us) -> Us {
        let mut now = start;
        for index in 0..self.order.len() {
            let device = self.order[index];
            let now = match self.machine.kernel {
                Kernel::AtOnce => true,
                Kernel::InTurn => false,
                Kernel::WhenReady => self.waits_for(device).next().is_none(),
            };
            if now {
                self.hand_over(device);
            }
        }
        self.take(now);
        self.go_on(now);
        self.take(now);
        while let Some(Reverse((at, _, thread, device))) = self.returns.pop() {
            now = at;
            self.finish(thread, device, now);
            self.take(now);
        }
        let left = self.order.iter().filter(|&&one| !self.done[one]).count();
        assert_eq!(left, 0, "unprocessed devices");
        now
    }

    /// `prepare` and `complete` run in one process, device by device; formerly so did all except
    /// `suspend` and `resume`.
    fn is_async(&self, device: usize) -> bool {
        let may_be = match self.stage {
            0 | 7 => false,
            1 | 6 => true,
            _ => self.machine.async_noirq,
        };
        may_be && self.machine.devices[device].asynchronous
    }

    /// What must be done before this device: its parent and supplier, in a suspend the reverse, in
    /// `prepare` and `complete` nothing.
    fn waits_for(&self, device: usize) -> impl Iterator<Item = usize> + '_ {
        let devices = &self.machine.devices;
        let suspends = (1..4).contains(&self.stage);
        let resumes = (4..7).contains(&self.stage);
        let above = resumes.then(|| {
            let own = &devices[device];
            own.parent.into_iter().chain(own.supplier)
        });
        let below = suspends.then(|| {
            let children = self.children[device].iter();
            children.chain(&self.consumers[device]).copied()
        });
        above
            .into_iter()
            .flatten()
            .chain(below.into_iter().flatten())
            .filter(|&one| self.takes_part[one])
    }

    fn hand_over(&mut self, device: usize) {
        if self.is_async(device) && self.takes_part[device] && !self.handed_over[device] {
            self.handed_over[device] = true;
            self.queue.push_back(device);
        }
    }

    /// Threads take queued devices while there are threads. The limit stands for the number of
    /// CPUs: a thread that waits for another device uses no CPU, so only ready devices are taken.
    fn take(&mut self, now: Us) {
        loop {
            let few = self.machine.threads.is_some();
            let is_ready = |&one: &usize| !few || self.waits_for(one).all(|other| self.done[other]);
            let Some(place) = self.queue.iter().position(is_ready) else {
                return;
            };
            let made = self.threads.made;
            let may_make = |most: usize| (made as usize) < most;
            let thread = match self.threads.idle.pop() {
                Some(thread) => thread,
                None if self.machine.threads.is_none_or(may_make) => {
                    self.threads.made += 1;
                    100 + self.threads.made
                }
                None => return,
            };
            let device = self.queue.remove(place).expect("it was found there");
            self.work_on(Thread::Worker(thread), device, now);
        }
    }

    /// The suspending process goes through the list until it has to wait.
    fn go_on(&mut self, now: Us) {
        while let Some(&device) = self.order.get(self.next) {
            self.next += 1;
            if !self.is_async(device) {
                return self.work_on(Thread::Main, device, now);
            }
            self.hand_over(device);
        }
    }

    fn work_on(&mut self, thread: Thread, device: usize, now: Us) {
        let waits_for = self.waits_for(device).find(|&one| !self.done[one]);
        if let Some(other) = waits_for {
            self.waiting[other].push((thread, device));
            return;
        }
        let Some(work) = self.machine.devices[device].work[self.stage] else {
            return self.finish(thread, device, now);
        };
        let start = now + work.before;
        let end = start + work.took;
        self.begun += 1;
        self.returns
            .push(Reverse((end, self.begun, thread, device)));
        self.calls.push(TrueCall {
            device,
            stage: STAGES[self.stage],
            start,
            end,
            worker: match thread {
                Thread::Main => self.machine.main,
                Thread::Worker(thread) => thread,
            },
        });
    }

    fn finish(&mut self, thread: Thread, device: usize, now: Us) {
        self.done[device] = true;
        for (thread, device) in std::mem::take(&mut self.waiting[device]) {
            self.work_on(thread, device, now);
        }
        if self.machine.kernel == Kernel::WhenReady {
            match (1..4).contains(&self.stage) {
                true => {
                    if let Some(parent) = self.machine.devices[device].parent {
                        self.hand_over(parent);
                    }
                }
                false => {
                    for child in self.children[device].clone() {
                        self.hand_over(child);
                    }
                }
            }
        }
        match thread {
            Thread::Main => self.go_on(now),
            Thread::Worker(thread) => self.threads.idle.push(thread),
        }
    }
}
