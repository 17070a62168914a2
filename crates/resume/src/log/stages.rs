//! From what a cycle's lines said to its stages.

use crate::cycle::{Call, CpuStep, Cycle, Failure, Stage, StageKind, Us};

/// The kinds that have callbacks.
const WITH_CALLS: [StageKind; 8] = [
    StageKind::Prepare,
    StageKind::Suspend,
    StageKind::SuspendLate,
    StageKind::SuspendNoirq,
    StageKind::ResumeNoirq,
    StageKind::ResumeEarly,
    StageKind::Resume,
    StageKind::Complete,
];
const KINDS: usize = StageKind::Thaw as usize + 1;

/// What lines said of one stage.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Mark {
    pub(super) start: Option<Us>,
    pub(super) end: Option<Us>,
    pub(super) says_us: Option<Us>,
    pub(super) aborted: bool,
}

/// A cycle of which lines are still to come.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) sleep: Option<String>,
    pub(super) at: Option<String>,
    marks: [Mark; KINDS],
    pub(super) cpus: Vec<CpuStep>,
    pub(super) calls: Vec<Call>,
    pub(super) failures: Vec<Failure>,
    pub(super) asleep_us: Option<Us>,
    /// Where it is.
    pub(super) stage: StageKind,
    /// The first word of a suspend was there.
    pub(super) began: bool,
    /// Processes run again.
    pub(super) ended: bool,
    /// Processes are frozen; from here on it is about devices.
    pub(super) suspending: Option<Us>,
    /// The last word before sleep, and the first one after it.
    down: Option<Us>,
    up: Option<Us>,
    /// A word of the kernel tells that it was asleep.
    pub(super) slept: bool,
    /// It says when it begins to idle: only its end is the first word then.
    pub(super) idling: bool,
    /// The clock jumped while it slept: how long that was is not known.
    pub(super) platform_unknown: bool,
    pub(super) hibernates: bool,
    /// The stamp of its last line.
    pub(super) last: Us,
}

impl Open {
    pub(super) fn at(us: Us, wall: Option<&[u8]>) -> Self {
        Self {
            sleep: None,
            at: wall.map(|wall| String::from_utf8_lossy(wall).into_owned()),
            marks: [Mark::default(); KINDS],
            cpus: Vec::new(),
            calls: Vec::new(),
            failures: Vec::new(),
            asleep_us: None,
            stage: StageKind::Freeze,
            began: false,
            ended: false,
            suspending: None,
            down: None,
            up: None,
            slept: false,
            idling: false,
            platform_unknown: false,
            hibernates: false,
            last: us,
        }
    }

    pub(super) fn mark(&mut self, kind: StageKind) -> &mut Mark {
        &mut self.marks[kind as usize]
    }

    /// A word before sleep.
    pub(super) fn goes_down(&mut self, at: Us) {
        if self.up.is_none() {
            self.down = Some(at);
        }
    }

    /// A word after it; the first one counts.
    pub(super) fn comes_up(&mut self, at: Us) {
        if self.down.is_some() && self.up.is_none() && !self.idling {
            self.up = Some(at);
        }
    }

    /// The clocks run again. Stamps before that may leap: a clock that goes on in sleep, or one that is
    /// read before it is set right. So where they do, this word counts and not the first one.
    pub(super) fn clocks_run(&mut self, at: Us) {
        // The last CPU's devices (clocks, interrupt controllers) resume in a few milliseconds.
        const LEAP_US: Us = 50_000;
        match self.up {
            Some(up) if at - up > LEAP_US => self.up = Some(at),
            Some(_) => {}
            None => self.comes_up(at),
        }
    }

    /// Does the kernel sleep, as far as its words tell?
    pub(super) fn is_down(&self) -> bool {
        self.down.is_some() && self.up.is_none()
    }

    /// A CPU is off or on. It began with `CpuBegin`, or when the one before was done.
    pub(super) fn cpu_done(&mut self, cpu: u32, on: bool, at: Us) {
        let group = if on {
            StageKind::CpusOn
        } else {
            StageKind::CpusOff
        };
        let open = self
            .cpus
            .iter_mut()
            .rev()
            .find(|step| step.cpu == cpu && step.on == on && step.end == Us::MAX);
        if let Some(step) = open {
            step.end = at;
        } else {
            let before = self
                .cpus
                .iter()
                .rev()
                .find(|step| step.on == on && step.end != Us::MAX);
            let start = before
                .map(|step| step.end)
                .or(self.mark(group).start)
                .unwrap_or(at);
            self.cpus.push(CpuStep {
                cpu,
                on,
                start: start.min(at),
                end: at,
            });
        }
        self.mark(group).end = Some(at);
    }

    pub(super) fn cpu_begins(&mut self, cpu: u32, on: bool, at: Us) {
        let group = if on {
            StageKind::CpusOn
        } else {
            StageKind::CpusOff
        };
        self.mark(group).start.get_or_insert(at);
        self.cpus.push(CpuStep {
            cpu,
            on,
            start: at,
            end: Us::MAX,
        });
    }

    /// The stage's own time holds for the calls that began in it, where their functions' names do not
    /// say otherwise: before a stage is over its calls cannot be told from those of another.
    pub(super) fn calls_since(&mut self, start: Us, kind: StageKind) {
        let suspends = kind < StageKind::Platform;
        for call in self.calls.iter_mut().rev() {
            let Some(at) = call.start.or(call.end) else {
                continue;
            };
            if at < start {
                break;
            }
            let named = call
                .function
                .as_deref()
                .and_then(|name| super::event::stage_of_name(name.as_bytes()));
            let fits = match named {
                Some((Some(_), _)) => false,
                Some((None, direction)) => direction == suspends,
                None => true,
            };
            if fits {
                call.stage = kind;
            }
        }
    }

    /// The whole; `None` if it was to disk.
    pub(super) fn close(mut self) -> Option<Cycle> {
        if self.hibernates {
            return None;
        }
        self.cpus.retain(|step| step.end != Us::MAX);
        self.cpus.sort_by_key(|step| (step.end, step.start));
        self.calls.sort_by_key(|call| call.start.or(call.end));
        self.calls.shrink_to_fit();
        let stages = self.stages();
        Some(Cycle {
            number: 0,
            cut: !(self.began && self.ended),
            sleep: self.sleep,
            at: self.at,
            stages,
            cpus: self.cpus,
            calls: self.calls,
            asleep_us: self.asleep_us,
            failures: self.failures,
        })
    }

    fn stages(&mut self) -> Vec<Stage> {
        let mut found: [Option<Stage>; KINDS] = [const { None }; KINDS];
        for kind in WITH_CALLS {
            found[kind as usize] = self.of_calls(kind);
        }
        self.end_aborted(&mut found);
        self.between(&mut found);
        found[StageKind::CpusOff as usize] = self.of_cpus(StageKind::CpusOff);
        found[StageKind::CpusOn as usize] = self.of_cpus(StageKind::CpusOn);
        if let (Some(start), Some(end)) = (self.down, self.up)
            && (self.slept || self.failures.is_empty())
            && !self.platform_unknown
        {
            found[StageKind::Platform as usize] = stage(StageKind::Platform, start, end, None);
        }
        // The kinds are in the order of time, which coarse stamps do not tell.
        found.into_iter().flatten().collect()
    }

    /// From the stage's own lines; where it has none, from the first call's start to the last one's end.
    fn of_calls(&self, kind: StageKind) -> Option<Stage> {
        let mark = self.marks[kind as usize];
        let calls = || self.calls.iter().filter(|call| call.stage == kind);
        let first = calls().filter_map(|call| call.start).min();
        let told = match (mark.end, mark.says_us) {
            (Some(end), Some(us)) => Some(end - us),
            _ => None,
        };
        // The line comes a little after the time in it was taken: a call that began before what it
        // tells was in the stage all the same.
        let start = mark.start.or(match (told, first) {
            (Some(told), Some(first)) => Some(told.min(first)),
            (told, first) => told.or(first),
        })?;
        let end = mark
            .end
            .or_else(|| calls().filter_map(|call| call.end).max())?;
        stage(kind, start, end, mark.says_us)
    }

    /// A stage that fails undoes itself before it says so: it ended where the resume began.
    fn end_aborted(&self, found: &mut [Option<Stage>; KINDS]) {
        let resumed = found[StageKind::ResumeNoirq as usize..]
            .iter()
            .flatten()
            .map(|stage| stage.start)
            .min();
        for kind in [StageKind::SuspendLate, StageKind::SuspendNoirq] {
            if self.marks[kind as usize].aborted
                && let (Some(resumed), Some(stage)) = (resumed, &mut found[kind as usize])
                && (stage.start..stage.end).contains(&resumed)
            {
                stage.end = resumed;
            }
        }
    }

    /// What has no figure of its own: it lies between its neighbours.
    fn between(&self, found: &mut [Option<Stage>; KINDS]) {
        let mark = |kind: StageKind| self.marks[kind as usize];
        let begins = |found: &[Option<Stage>; KINDS], kind: StageKind| {
            found[kind as usize].as_ref().map(|stage| stage.start)
        };
        let ends = |found: &[Option<Stage>; KINDS], kind: StageKind| {
            found[kind as usize].as_ref().map(|stage| stage.end)
        };
        let suspend = begins(found, StageKind::Suspend);
        if mark(StageKind::Prepare).start.is_none() {
            // `start suspend of devices complete` is the end of the suspend, too.
            let prepare = mark(StageKind::Prepare);
            let start = match (prepare.end, prepare.says_us) {
                (Some(end), Some(us)) => Some(end - us),
                _ => self.suspending,
            };
            let end = suspend.or(prepare.end.filter(|_| prepare.aborted));
            found[StageKind::Prepare as usize] = match (start, end) {
                (Some(start), Some(end)) => stage(StageKind::Prepare, start, end, None),
                _ => None,
            };
        }
        let freeze = mark(StageKind::Freeze);
        let thaw = mark(StageKind::Thaw);
        let frozen = match (freeze.end, self.suspending) {
            (Some(end), Some(next)) => Some(end.min(next)),
            (end, next) => end.or(next),
        };
        // Where no device was suspended, it went on until processes were let go again.
        let gave_up = thaw.start.filter(|_| found.iter().all(Option::is_none));
        if let (Some(start), Some(end)) = (freeze.start, frozen.or(gave_up)) {
            found[StageKind::Freeze as usize] = stage(StageKind::Freeze, start, end, None);
        }
        if mark(StageKind::Complete).start.is_none()
            && found[StageKind::Complete as usize].is_none()
            && let (Some(start), Some(end)) = (ends(found, StageKind::Resume), thaw.start)
        {
            found[StageKind::Complete as usize] = stage(StageKind::Complete, start, end, None);
        }
        if let (Some(start), Some(end)) = (thaw.start, thaw.end) {
            found[StageKind::Thaw as usize] = stage(StageKind::Thaw, start, end, None);
        }
    }

    fn of_cpus(&self, kind: StageKind) -> Option<Stage> {
        let mark = self.marks[kind as usize];
        let on = kind == StageKind::CpusOn;
        let first = self
            .cpus
            .iter()
            .filter(|step| step.on == on)
            .map(|step| step.start)
            .min();
        stage(kind, mark.start.or(first)?, mark.end?, None)
    }
}

fn stage(kind: StageKind, start: Us, end: Us, says_us: Option<Us>) -> Option<Stage> {
    (start <= end).then_some(Stage {
        kind,
        start,
        end,
        says_us,
    })
}
