//! From a cycle's lines to its stages.

use std::ops::Range;

use super::event::{Event, stage_of_name};
use super::message::accounted_between;
use super::prefix::Clock;
use super::stamp::Cursor;
use crate::cycle::{
    Call, CpuStep, Cycle, GAP_US, GAPS, Gap, STAGES, Stage, StageKind, Stop, Us, WITH_CALLS, Words,
    carries,
};

const KINDS: usize = STAGES.len();

/// What lines reported of one stage.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Mark {
    pub(super) start: Option<Us>,
    pub(super) end: Option<Us>,
    pub(super) says_us: Option<Us>,
    pub(super) aborted: bool,
}

/// A cycle of which lines are still to come.
#[derive(Debug, Default)]
pub(super) struct Open {
    /// As far as it is known.
    pub(super) cycle: Cycle,
    marks: [Mark; KINDS],
    /// Where it is.
    pub(super) stage: StageKind,
    /// Processes run again.
    pub(super) ended: bool,
    /// Processes are frozen; from here on it is about devices.
    pub(super) suspending: Option<Us>,
    /// The last word before sleep, and the first one after it.
    down: Option<Us>,
    up: Option<Us>,
    /// A message of the kernel shows that it was asleep.
    pub(super) slept: bool,
    /// When it last reported how long.
    slept_at: Option<Us>,
    /// The log's clock does not go on in sleep.
    stands_still: bool,
    /// What the kernel slept longer by its own word than this clock shows, of sleeps so far.
    ahead: Us,
    /// It logs when it starts to idle: only the end of that is the first message then.
    pub(super) idling: bool,
    /// Devices suspended anew while it idled: their calls are no longer of a stage.
    pub(super) naps: bool,
    /// The clock jumped while it slept: how long that was is not known.
    pub(super) platform_unknown: bool,
    pub(super) hibernates: bool,
    /// The stamp of its last line.
    pub(super) last: Us,
    /// So many calls began before the line that ended a stage last: they are of that one, or of those
    /// before it.
    pub(super) settled: usize,
    /// Of all its timestamps; `None` for ftrace.
    pub(super) clock: Option<Clock>,
    /// What it does between its suspend and its resume.
    pub(super) rest: StageKind,
    /// Freezing failed, and the lines that follow name the processes that refused.
    pub(super) refusing: bool,
    /// The stage in which devices failed to suspend, and when the last of them was reported.
    pub(super) failed: Option<(StageKind, Us)>,
    /// Nothing but its entry was there so far.
    pub(super) only_entry: bool,
    /// The clock was set within it.
    pub(super) jumped: bool,
    /// The stamps of all its events, by which a log that has it twice is recognised.
    pub(super) stamps: Vec<Us>,
    /// Of messages with the kernel's own wall clock (`PM: suspend exit 2014-08-21 12:00:28.122331393 UTC`):
    /// the first one and the last one, by stamp and by that clock.
    walls: Option<[(Us, Us); 2]>,
    /// Of gaps, by their ends: for how much of them the kernel accounts.
    accounted: Vec<(Us, Us)>,
    /// The message before.
    last_message: Vec<u8>,
    said_at: Option<Us>,
}

/// Of a message.
const MESSAGE_BYTES_MAX: usize = 200;

impl Open {
    pub(super) fn at(us: Us, wall: Option<&[u8]>, clock: Option<Clock>) -> Self {
        let cycle = Cycle {
            at: wall.map(|wall| String::from_utf8_lossy(wall).into_owned()),
            resolution_us: 1,
            ..Cycle::default()
        };
        Self {
            cycle,
            last: us,
            clock,
            rest: StageKind::Platform,
            only_entry: true,
            ..Self::default()
        }
    }

    /// A word of its beginning.
    pub(super) fn begins(&mut self, at: Us) {
        self.cycle.words.first.get_or_insert(at);
    }

    /// A word of its end: processes run again.
    pub(super) fn ends(&mut self, at: Us) {
        self.ended = true;
        self.cycle.words.last = self.cycle.words.last.max(Some(at));
    }

    pub(super) fn is_called(&mut self, sleep: Option<&[u8]>) {
        if let Some(sleep) = sleep {
            self.cycle.sleep = Some(String::from_utf8_lossy(sleep).into_owned());
        }
    }

    /// File systems are synced: since the entry, unless the kernel says that this took less.
    pub(super) fn synced(&mut self, at: Us, took: Us) {
        /// The kernel's figure has milliseconds, and a line has to be written.
        const APART_US: Us = 10_000;
        self.begins(at - took);
        let first = self.cycle.words.first;
        let first = first.filter(|first| at - first <= took + APART_US);
        *self.mark(StageKind::Sync) = Mark {
            start: Some(first.unwrap_or(self.as_stamp(at - took))),
            end: Some(at),
            says_us: Some(took),
            aborted: false,
        };
    }

    pub(super) fn mark(&mut self, kind: StageKind) -> &mut Mark {
        &mut self.marks[kind as usize]
    }

    /// Any message: was there a long time without one before it?
    pub(super) fn hears(&mut self, at: Us, message: &[u8]) {
        if let Some(before) = self.said_at
            && at - before >= GAP_US
        {
            self.cycle.gaps.push(Gap {
                start: before,
                end: at,
                message: String::from_utf8_lossy(&self.last_message).into_owned(),
                ended_by: String::from_utf8_lossy(short(message)).into_owned(),
            });
            if self.cycle.gaps.len() >= 4 * GAPS {
                self.keep_longest_gaps();
            }
            let accounted = accounted_between(&self.last_message, message);
            if accounted > 0 && self.accounted.len() < GAPS {
                self.accounted.push((at, accounted));
            }
        }
        if let Some(wall) = wall_clock(message) {
            let [first, _] = self.walls.unwrap_or([(at, wall); 2]);
            self.walls = Some([first, (at, wall)]);
        }
        self.said_at = Some(at);
        self.last_message.clear();
        self.last_message.extend_from_slice(short(message));
    }

    /// By how much more the kernel's wall clock advanced than the log's.
    fn slept_by_wall(&self) -> Option<Us> {
        let [first, last] = self.walls?;
        Some(last.1 - first.1 - (last.0 - first.0)).filter(|&us| us >= LEAST_SLEEP_US)
    }

    /// A word of the suspend, or of the resume from `since` on.
    pub(super) fn says(&mut self, of_resume: bool, at: Us, since: Us) {
        let words = &mut self.cycle.words;
        match of_resume {
            false if words.after_sleep.is_none() && !self.naps => words.before_sleep = Some(at),
            false => {}
            true => _ = words.after_sleep.get_or_insert(since),
        }
    }

    pub(super) fn has_heard_nothing(&self) -> bool {
        self.said_at.is_none()
    }

    /// An instant calculated from a stamp and a time that the kernel reports, as a stamp would have
    /// it: it is no finer than that stamp, which is half a step early in the mean.
    pub(super) fn as_stamp(&self, us: Us) -> Us {
        let step = self.cycle.resolution_us.max(1);
        (us + step / 2).div_euclid(step) * step
    }

    /// The clock was set: what lies between two messages is not known.
    pub(super) fn forgets_message(&mut self) {
        self.said_at = None;
    }

    /// The message at this instant is not of this cycle: the machine boots, or suspends again.
    pub(super) fn stops(&mut self, at: Us, boots: bool) {
        if let Some(gap) = self.cycle.gaps.pop_if(|gap| gap.end == at) {
            self.said_at = Some(gap.start);
            self.last_message = gap.message.into_bytes();
        }
        let after_us = self.said_at.map(|said| at - said);
        self.cycle.stop = Some(Stop {
            boots,
            after_us: after_us.filter(|&us| us > 0),
            ..Stop::default()
        });
    }

    /// It leaped ahead, which is no silence.
    pub(super) fn forgets_leap(&mut self) {
        self.said_at = None;
        self.cycle.gaps.retain(|gap| gap.end <= self.last);
    }

    fn keep_longest_gaps(&mut self) {
        let gaps = &mut self.cycle.gaps;
        gaps.sort_by_key(|gap| std::cmp::Reverse(gap.end - gap.start));
        gaps.truncate(GAPS);
        gaps.sort_by_key(|gap| gap.start);
    }

    /// The clock continued while the machine slept: from here on it is set back by this much.
    pub(super) fn sleeps_apart(&mut self, asleep: Us, at: Us) -> Option<Us> {
        /// The kernel may read how long it slept from a clock with whole seconds.
        const ROUNDED_US: Us = 1_000_000;
        let down = self.down.filter(|_| asleep >= LEAST_SLEEP_US)?;
        let share = |us: Us| us - us / 50;
        // Where the kernel sleeps several times, it reports each at its end; but an RTC reports it when
        // devices resume already.
        let before = self.slept_at.replace(at);
        let since = before.unwrap_or(down);
        let late = self.up.filter(|_| self.stage >= StageKind::ResumeNoirq);
        let until = late.unwrap_or(at);
        let shown = until - since;
        let is_rounded = before.is_some() && asleep - shown <= ROUNDED_US && shown >= asleep / 2;
        self.stands_still |= shown < share(asleep) && !is_rounded;
        if self.stands_still {
            return None;
        }
        let apart = (asleep + self.ahead).min(shown);
        self.ahead += asleep - apart;
        // Messages since then had leaped, too.
        if let Some(up) = self.up.filter(|up| up - since >= share(asleep)) {
            self.set_back(up, apart);
            self.up = Some((up - apart).max(since));
        }
        self.said_at = None;
        self.slept_at = Some(at - apart);
        Some(apart)
    }

    /// Messages from there on, by this much.
    fn set_back(&mut self, from: Us, by: Us) {
        let cycle = &mut self.cycle;
        let words = [&mut cycle.words.after_sleep, &mut cycle.words.last];
        let marks = self.marks.iter_mut();
        let marks = marks.flat_map(|mark| [&mut mark.start, &mut mark.end]);
        let calls = cycle.calls.iter_mut();
        let calls = calls.flat_map(|call| [&mut call.start, &mut call.end]);
        let cpus = cycle.cpus.iter_mut();
        let cpus = cpus.flat_map(|step| [&mut step.start, &mut step.end]);
        let gaps = cycle.gaps.iter_mut();
        let gaps = gaps.flat_map(|gap| [&mut gap.start, &mut gap.end]);
        let failures = cycle.failures.iter_mut().map(|failure| &mut failure.at);
        let said = cycle.said.iter_mut().map(|said| &mut said.at);
        let known = marks.chain(calls).chain(words).flatten();
        let all = known.chain(cpus).chain(gaps).chain(failures).chain(said);
        for at in all.filter(|at| (from..Us::MAX).contains(at)) {
            *at -= by;
        }
    }

    pub(super) fn has_woken(&self) -> bool {
        self.up.is_some()
    }

    pub(super) fn has_resumed(&self) -> bool {
        self.ended || self.mark_of(StageKind::Resume).end.is_some()
    }

    /// Can a callback of this name come next? A suspend that begins again after a resume is another cycle, and
    /// so is a stage before the main resume after that.
    pub(super) fn goes_on_with(&self, function: Option<&[u8]>) -> bool {
        let resumes = self.stage >= StageKind::ResumeNoirq;
        if !resumes && !self.has_resumed() {
            return true;
        }
        let named = function.and_then(stage_of_name);
        named.is_none_or(|(stage, suspends)| {
            !(resumes && suspends || self.has_resumed() && stage.is_some())
        })
    }

    /// Processes run, and a device resumes anyway: it began before, unless its line does not show it.
    pub(super) fn may_be_late(&self, at: Us, event: &Event<'_>) -> bool {
        let thaw = self.mark_of(StageKind::Thaw).start;
        let is_of_it = |us: Us| thaw.is_none_or(|thaw| at - us <= thaw);
        match event {
            Event::Call(call) => call.function.and_then(stage_of_name) == Some((None, false)),
            Event::StageEnd {
                kind: StageKind::Resume | StageKind::Complete,
                says_us,
                ..
            } => says_us.is_none_or(is_of_it),
            Event::Took {
                stage: StageKind::Resume,
                us,
                ..
            } => is_of_it(*us),
            _ => false,
        }
    }

    /// When the stages before this one had ended.
    pub(super) fn ended_before(&self, kind: StageKind) -> Option<Us> {
        let before = self.marks[..kind as usize].iter();
        before.filter_map(|mark| mark.end).max()
    }

    /// From 4.12 to 5.2 the noirq stage is within suspend to idle: for each wake-up that does not end that it is
    /// run through, back and forth.
    pub(super) fn idles_on(&self, event: &Event<'_>) -> bool {
        use StageKind::{ResumeEarly, ResumeNoirq, SuspendNoirq};
        let suspends = match event {
            Event::StageEnd { kind, aborted, .. } => *kind == SuspendNoirq && !aborted,
            Event::Call(call) => {
                call.function.and_then(stage_of_name) == Some((Some(SuspendNoirq), true))
            }
            _ => false,
        };
        let resumes = (ResumeNoirq..=ResumeEarly).contains(&self.stage);
        let may_idle = self.cycle.is_idle() || self.cycle.sleep.is_none();
        suspends && may_idle && (self.naps || resumes) && !self.resumes_early()
    }

    fn resumes_early(&self) -> bool {
        let last = self.cycle.calls.last().filter(|last| is_certain(last));
        last.is_some_and(|last| last.stage == StageKind::ResumeEarly)
    }

    /// Then what looked like the resume was none.
    pub(super) fn sleeps_on(&mut self) {
        let calls = self.cycle.calls.iter_mut().rev();
        let resumed = calls.take_while(|call| call.stage > StageKind::Test);
        resumed.for_each(|call| call.stage = StageKind::Idle);
        (self.idling, self.naps) = (true, true);
        (self.up, self.cycle.woke, self.cycle.words.after_sleep) = (None, None, None);
        *self.mark(StageKind::ResumeNoirq) = Mark::default();
        self.stage = StageKind::SuspendNoirq;
    }

    /// Devices resume, perhaps for a moment.
    pub(super) fn resumes(&mut self, at: Us) {
        let idling = std::mem::take(&mut self.idling);
        self.comes_up(at);
        self.idling = idling;
    }

    /// A word after sleep, or before it.
    pub(super) fn turns(&mut self, awake: bool, at: Us) {
        match awake {
            true => self.comes_up(at),
            false => self.goes_down(at),
        }
    }

    /// A word before sleep.
    pub(super) fn goes_down(&mut self, at: Us) {
        if self.up.is_none() {
            self.down = Some(at);
        }
    }

    /// A word after it; the first one counts.
    pub(super) fn comes_up(&mut self, at: Us) {
        if self.up.is_some() || self.idling {
            return;
        }
        // With its beginning missing, a word that others precede is not the first one.
        let first = self.cycle.words.after_sleep;
        match self.down {
            Some(_) => self.up = Some(at),
            None if first.is_some_and(|first| at - first > self.cycle.resolution_us) => {}
            None => _ = self.cycle.woke.get_or_insert(at),
        }
    }

    /// The clocks run again. Stamps before that may leap: of a clock that continues in sleep, or one that
    /// is read before it is set. If they do, this message counts and not the first one; unless devices
    /// resume already, one of which, the RTC, reports how long the sleep was.
    pub(super) fn clocks_run(&mut self, at: Us) {
        // The last CPU's devices (clocks, interrupt controllers) resume in a few milliseconds.
        const LEAP_US: Us = 50_000;
        match self.up {
            Some(up) if at - up > LEAP_US && self.stage < StageKind::ResumeNoirq => {
                self.up = Some(at);
            }
            Some(_) => {}
            None => self.comes_up(at),
        }
    }

    /// A logger that stamps with its own wall clock is frozen with all other processes, and stamps later
    /// messages of the kernel after the sleep: the leap of its clock is the sleep, with the suspend and the
    /// resume in it. `None` if its timestamps show devices before they leap, if the kernel reports a longer
    /// sleep, and if they continue or differ after the leap: a logger reads at once what was logged while it
    /// was frozen.
    fn logger_slept(&self) -> Option<Us> {
        /// Of a wall clock, which has the sleep in it.
        const LEAST_US: Us = 2_000_000;
        /// Timestamps of whole seconds are too early by at most this.
        const STEP_US: Us = 1_000_000;
        /// After the leap of a logger whose clock stands still in sleep everything takes this share of it at most.
        const SHARE: Us = 10;
        if self.clock == Some(Clock::Logger) && self.stamps_agree() {
            return None;
        }
        let (end, us) = self.longest_unaccounted()?;
        let share = SHARE * (self.last - end);
        let least = match self.clock? {
            // Two stamps that are one step apart may as well be the same instant.
            Clock::Wall => share.min(LEAST_US).max(self.cycle.resolution_us + 1),
            Clock::Logger => share,
            Clock::Kernel | Clock::Dated | Clock::None => return None,
        };
        let is_late = self.first_of_devices().is_none_or(|at| at >= end);
        let is_longer = |asleep: Us| asleep > us + STEP_US && self.clock == Some(Clock::Wall);
        let sleeps_longer = self.cycle.asleep_us.is_some_and(is_longer);
        let thaw = self.mark_of(StageKind::Thaw).start;
        let stands_apart = self.cycle.gaps.iter().any(|gap| {
            let is_after = gap.start >= end && thaw.is_none_or(|thaw| gap.end <= thaw);
            is_after && gap.end - gap.start >= LEAST_US
        });
        let goes_on = self.slept_at.is_some() && !self.stands_still;
        let is_frozen = is_late && !sleeps_longer && !stands_apart && !goes_on;
        (is_frozen && us >= least.max(GAP_US)).then_some(us)
    }

    /// The longest time without a message, less what the kernel accounts for: its end, and its length.
    fn longest_unaccounted(&self) -> Option<(Us, Us)> {
        let unaccounted = |gap: &Gap| {
            let accounted = self.accounted.iter().find(|&&(end, _)| end == gap.end);
            gap.end - gap.start - accounted.map_or(0, |&(_, us)| us)
        };
        // What comes after its last line is not of it.
        let gaps = self.cycle.gaps.iter().filter(|gap| gap.end <= self.last);
        let longest = gaps.max_by_key(|gap| unaccounted(gap))?;
        Some((longest.end, unaccounted(longest)))
    }

    /// The first stamp of a frozen machine.
    fn first_of_devices(&self) -> Option<Us> {
        let marks = self.marks.iter().enumerate();
        let frozen = marks.flat_map(|(kind, mark)| match STAGES[kind].0 {
            StageKind::Sync => [None, None],
            StageKind::Freeze => [None, mark.end],
            _ => [mark.start, mark.end],
        });
        let words = frozen.chain([self.suspending, self.down]).flatten();
        // The beginning of a call that only its return shows has no stamp.
        let calls = self.cycle.calls.iter();
        let calls = calls.filter_map(|call| match call.worker {
            Some(_) => call.start.or(call.end),
            None => call.end,
        });
        words.chain(calls).min()
    }

    /// The kernel says that a stage or a call took longer than its stamps leave for it: they are of a logger
    /// that read the lines later.
    fn stamps_contradict(&self) -> bool {
        const APART_US: Us = 20_000;
        if !matches!(self.clock, Some(Clock::Wall | Clock::Logger)) || self.jumped {
            return false;
        }
        // A logger that is not frozen may be late, but not by its own clock of the boot.
        let most = |span: Us| match self.clock {
            Some(Clock::Logger) => span + span / 10 + APART_US / 20,
            _ => 2 * span + APART_US + 2 * self.cycle.resolution_us,
        };
        let call = |call: &Call| {
            let stamps = call.start.zip(call.end).zip(call.says_us);
            stamps.is_some_and(|((start, end), says)| says > most(end - start))
        };
        self.told().any(|(span, says)| says > most(span)) || self.cycle.calls.iter().any(call)
    }

    /// They leave each stage as long as the kernel says it took: nobody read these lines later.
    fn stamps_agree(&self) -> bool {
        const LEAST_US: Us = 20_000;
        const SHORT_US: Us = 1_000;
        let told: Us = self.told().map(|(_, says)| says).sum();
        let agrees = |(span, says): (Us, Us)| span >= says - says / 10 - SHORT_US;
        told >= LEAST_US && self.told().all(agrees)
    }

    /// Of each stage whose length the kernel tells: what its stamps leave for it, and what the kernel says.
    fn told(&self) -> impl Iterator<Item = (Us, Us)> {
        STAGES[1..].iter().filter_map(|&(kind, ..)| {
            let mark = self.marks[kind as usize];
            let up = self.up.filter(|_| kind > StageKind::Test);
            let frozen = self.suspending.filter(|_| kind > StageKind::Freeze);
            let words = [frozen, up, mark.start];
            // `start suspend` ends with the suspend, and is the whole of it.
            let marks = STAGES.iter().zip(&self.marks).take(kind as usize);
            let ends = marks.filter(|((before, ..), _)| *before != StageKind::Prepare);
            let ends = ends.filter_map(|(_, mark)| mark.end);
            let before = words.into_iter().flatten().chain(ends).max()?;
            Some(((mark.end? - before).max(0), mark.says_us?))
        })
    }

    /// Does the kernel sleep, as far as its messages show?
    pub(super) fn is_down(&self) -> bool {
        self.down.is_some() && self.up.is_none()
    }

    /// Processes were frozen by then.
    pub(super) fn froze_by(&self, us: Us) -> bool {
        let end = self.mark_of(StageKind::Freeze).end;
        end.is_some_and(|end| end < us)
    }

    /// CPUs were off, and processes do not run yet.
    pub(super) fn wakes_up(&self) -> bool {
        self.up.is_some() && !self.ended
    }

    /// A CPU is off or on. It began with `CpuBegin`, or when the one before was done.
    pub(super) fn cpu_done(&mut self, cpu: u32, on: bool, at: Us) {
        let begun = self.mark_of(stage_of_cpus(on)).start;
        let cpus = &mut self.cycle.cpus;
        let mut same = cpus.iter_mut().rev().filter(|step| step.on == on);
        // ARM has two lines for a CPU that goes off.
        let known = same.find(|step| step.cpu == cpu && (step.end == Us::MAX || !on));
        if let Some(step) = known {
            step.end = at;
        } else {
            let mut same = cpus.iter().rev().filter(|step| step.on == on);
            let before = same.find(|step| step.end != Us::MAX).map(|step| step.end);
            let start = before.or(begun).unwrap_or(at);
            cpus.push(CpuStep {
                cpu,
                on,
                start: start.min(at),
                end: at,
            });
        }
        self.mark(stage_of_cpus(on)).end = Some(at);
    }

    pub(super) fn cpu_begins(&mut self, cpu: u32, on: bool, at: Us) {
        self.mark(stage_of_cpus(on)).start.get_or_insert(at);
        self.cycle.cpus.push(CpuStep {
            cpu,
            on,
            start: at,
            end: Us::MAX,
        });
    }

    /// The stage's own time holds for the calls that began in it, where their functions' names do not
    /// say otherwise: before a stage is over its calls cannot be distinguished from those of another.
    pub(super) fn calls_since(&mut self, start: Us, kind: StageKind) {
        let suspends = kind <= StageKind::SuspendNoirq;
        // Stamps of one step do not order calls; the lines do.
        let settled = match self.cycle.resolution_us {
            ..=1 => 0,
            _ => self.settled,
        };
        for call in self.cycle.calls[settled..].iter_mut().rev() {
            let Some(at) = call.start.or(call.end) else {
                continue;
            };
            if at < start {
                break;
            }
            let function = call.function.as_deref();
            let named = function.and_then(|name| stage_of_name(name.as_bytes()));
            if named.is_none_or(|(stage, direction)| stage.is_none() && direction == suspends) {
                call.stage = kind;
            }
        }
    }

    /// The whole; `None` if it was to disk.
    pub(super) fn close(mut self) -> Option<Cycle> {
        if self.hibernates {
            return None;
        }
        // The log ends within suspend to idle.
        if self.idling && self.stage <= StageKind::ResumeEarly && !self.resumes_early() {
            self.sleeps_on();
        }
        self.cycle.cpus.retain(|step| step.end != Us::MAX);
        self.cycle.cpus.sort_by_key(|step| (step.end, step.start));
        self.place_by_order();
        self.cycle.calls.sort_by_key(|call| call.start.or(call.end));
        self.cycle.calls.shrink_to_fit();
        let logger_slept = self.logger_slept();
        self.cycle.asleep_us = self.cycle.asleep_us.or(self.slept_by_wall());
        if self.ended && !self.cycle.suspend_failed() && self.clock == Some(Clock::Wall) {
            self.cycle.asleep_us = self.cycle.asleep_us.or(logger_slept);
        }
        let read_late = logger_slept.is_some() || self.stamps_contradict();
        let stamped = self.clock != Some(Clock::None) && !read_late;
        let mut stages = self.stages();
        let asleep_us = self.cycle.asleep_us.or_else(|| {
            let idle = stages.iter().find(|stage| stage.kind == StageKind::Idle)?;
            Some(idle.end - idle.start).filter(|&us| stamped && self.cycle.carries(us))
        });
        let rests = |gap: &Gap| {
            let rest = stages.iter().find(|stage| stage.kind.is_rest());
            rest.is_some_and(|rest| (rest.start..rest.end).contains(&gap.start))
        };
        let step = self.cycle.resolution_us;
        let is_told = |gap: &Gap| !rests(gap) && carries(step, gap.end - gap.start);
        self.cycle.gaps.retain(|gap| stamped && is_told(gap));
        self.keep_longest_gaps();
        if !stamped {
            stages.retain(|stage| stage.says_us.is_some());
            for stage in &mut stages {
                stage.start = stage.end - stage.says_us.unwrap_or(0);
            }
        }
        let words = Words {
            thawing: self.mark_of(StageKind::Thaw).start,
            ..self.cycle.words
        };
        let woke = self.cycle.woke.filter(|_| stamped && self.up.is_none());
        let woke = woke.filter(|&woke| {
            let is_between = |stage: &Stage| match stage.kind < StageKind::Platform {
                true => stage.end <= woke,
                false => woke <= stage.start,
            };
            stages.iter().all(is_between)
        });
        let message = String::from_utf8_lossy(&self.last_message).into_owned();
        let stop = self.cycle.stop.take().unwrap_or_default();
        let stop = Some(Stop { message, ..stop });
        Some(Cycle {
            cut: self.cycle.words.first.is_none() || !self.ended,
            stop: stop.filter(|stop| !self.ended && !stop.message.is_empty()),
            stages,
            asleep_us,
            stamped,
            woke,
            words: if stamped { words } else { Words::default() },
            ..self.cycle
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
        if let Some((start, end)) = self.rests(&found)
            && !self.platform_unknown
        {
            found[self.rest as usize] = stage(self.rest, start, end, None);
        }
        self.after_rest(&mut found);
        // The kinds are in the order of time, which coarse timestamps do not show.
        found.into_iter().flatten().collect()
    }

    /// Where it sleeps, or waits instead. If the log does not report it, an idle machine does nothing else
    /// between its devices' last stage and their first one.
    fn rests(&mut self, found: &[Option<Stage>; KINDS]) -> Option<(Us, Us)> {
        let is_test = self.rest == StageKind::Test;
        if let (Some(start), Some(end)) = (self.down, self.up) {
            let rested = self.slept || is_test || !self.cycle.suspend_failed();
            if self.rest == StageKind::Platform && self.cycle.is_idle() {
                self.rest = StageKind::Idle;
            }
            return rested.then_some((start, end));
        }
        let end = found[StageKind::SuspendNoirq as usize].as_ref()?.end;
        let start = found[StageKind::ResumeNoirq as usize].as_ref()?.start;
        let is_known = self.cycle.is_idle() && !self.cycle.suspend_failed() && end <= start;
        self.rest = StageKind::Idle;
        is_known.then_some((end, start))
    }

    /// A stage whose line has its length began after the rest at the earliest, and after the stage before
    /// it, unless a call or a line of its own shows otherwise: the figure is taken before
    /// the line is printed, and by another clock.
    fn after_rest(&self, found: &mut [Option<Stage>; KINDS]) {
        let mut before: Option<Us> = None;
        for stage in found.iter_mut().flatten() {
            let own = self.mark_of(stage.kind).start;
            let of_call = self.cycle.calls.iter();
            let of_call = of_call.filter(|call| call.stage == stage.kind);
            let earliest = of_call.filter_map(|call| call.start).chain(own).min();
            if let Some(end) = before
                && stage.start < end
            {
                let start = earliest.unwrap_or(end).min(end);
                stage.start = start.max(stage.start).min(stage.end);
            }
            before = Some(before.map_or(stage.end, |end| end.max(stage.end)));
        }
    }

    /// Callbacks whose functions' names have no stage are in that of the calls that ran before and after
    /// them: a stage begins when all calls of the one before it have returned.
    fn place_by_order(&mut self) {
        use StageKind::{Resume, ResumeEarly, ResumeNoirq, Suspend, SuspendLate, SuspendNoirq};
        // What starts then is of this stage, by its certain calls.
        let span = |kind: StageKind| {
            let calls = self.cycle.calls.iter();
            let calls = calls.filter(|call| call.stage == kind && is_certain(call));
            let span = match kind < StageKind::Platform {
                true => calls.filter_map(|call| call.start).min()? + 1..Us::MAX,
                false => Us::MIN..calls.filter_map(|call| call.end).max()?,
            };
            // A stage's own line has already shown which calls are of it.
            Some((kind, span)).filter(|_| self.mark_of(kind).end.is_none())
        };
        let spans = |kinds: [StageKind; 2]| Vec::from_iter(kinds.into_iter().filter_map(span));
        let before = spans([SuspendNoirq, SuspendLate]);
        let after = spans([ResumeNoirq, ResumeEarly]);
        for call in self.cycle.calls.iter_mut().filter(|call| !is_certain(call)) {
            let spans = match call.stage {
                Suspend | SuspendLate => &before,
                ResumeEarly | Resume => &after,
                _ => continue,
            };
            let starts_in = |span: &Range<Us>| call.start.is_some_and(|at| span.contains(&at));
            if let Some((kind, _)) = spans.iter().find(|(_, span)| starts_in(span)) {
                call.stage = *kind;
            }
        }
    }

    /// From the stage's own lines; where it has none, from the first call's start to the last one's end.
    fn of_calls(&self, kind: StageKind) -> Option<Stage> {
        let mark = self.marks[kind as usize];
        let all = || self.cycle.calls.iter().filter(|call| call.stage == kind);
        // Without the stage's own line the calls that are certainly of it bound it, if there are such.
        let by_name = mark.end.is_none() && all().any(is_certain);
        let calls = || all().filter(|call| !by_name || is_certain(call));
        let first = calls().filter_map(|call| call.start).min();
        // Where other stages have their line, this one's got lost, and with it where the calls of the next one
        // begin, unless their functions' names say it.
        let is_told = |&kind: &StageKind| self.mark_of(kind).says_us.is_some();
        let has_times = WITH_CALLS.iter().any(is_told);
        if mark.end.is_none() && has_times && calls().any(|call| !is_certain(call)) {
            return None;
        }
        // The line comes a little after the time in it was taken: a call that began before that time
        // was in the stage as well.
        let start = [self.told_start(mark), first].into_iter().flatten().min();
        let start = mark.start.or(start);
        // A device that failed in a stage may be the only sign of it. It began where the one before ended.
        let failed = self.failed.filter(|&(stage, _)| stage == kind);
        let before = match kind {
            StageKind::Suspend => self.mark_of(StageKind::Prepare).end.or(self.suspending),
            StageKind::SuspendLate => self.mark_of(StageKind::Suspend).end,
            _ => self.mark_of(StageKind::SuspendLate).end,
        };
        let start = start.or(failed.and(before))?;
        let end = mark.end.or_else(|| {
            let last = calls().filter_map(|call| call.end).max();
            last.or(failed.map(|(_, at)| at))
        })?;
        stage(kind, start, end, mark.says_us)
    }

    /// A stage that fails undoes itself before it logs that: it ended where the resume began.
    fn end_aborted(&self, found: &mut [Option<Stage>; KINDS]) {
        let resumes = found[StageKind::ResumeNoirq as usize..].iter().flatten();
        let resumed = resumes.map(|stage| stage.start).min();
        for kind in [StageKind::SuspendLate, StageKind::SuspendNoirq] {
            if self.marks[kind as usize].aborted
                && let (Some(resumed), Some(stage)) = (resumed, &mut found[kind as usize])
                && (stage.start..stage.end).contains(&resumed)
            {
                stage.end = resumed;
            }
        }
    }

    /// Stages without a figure of their own, if the log has a line at both of their ends: the kernel does
    /// nothing else between these.
    fn between(&self, found: &mut [Option<Stage>; KINDS]) {
        let mark = |kind| self.mark_of(kind);
        let has_completed = found[StageKind::Complete as usize].is_some();
        let mut set = |kind: StageKind, start: Option<Us>, end: Option<Us>, says_us| {
            let span = start.zip(end);
            found[kind as usize] = span.and_then(|(start, end)| stage(kind, start, end, says_us));
        };
        let sync = mark(StageKind::Sync);
        set(StageKind::Sync, sync.start, sync.end, sync.says_us);
        let freeze = mark(StageKind::Freeze);
        let of_users = freeze.start.zip(freeze.says_us);
        let of_users = of_users.map(|(start, took)| self.as_stamp(start + took));
        let frozen = match (freeze.end.or(of_users), self.suspending) {
            (Some(end), Some(next)) if !freeze.aborted => Some(end.min(next)),
            (end, next) => end.or(next),
        };
        let failed_after = freeze.says_us.filter(|_| freeze.aborted);
        set(StageKind::Freeze, freeze.start, frozen, failed_after);
        let (prepare, suspend) = (mark(StageKind::Prepare), mark(StageKind::Suspend));
        if prepare.start.is_none() {
            // `start suspend of devices complete` is the end of the suspend, too.
            let begun = suspend.start.or(self.told_start(suspend));
            let end = begun.or(prepare.end.filter(|_| prepare.aborted));
            let start = self.told_start(prepare).or(self.suspending);
            let start = start.filter(|start| Some(*start) < end);
            set(StageKind::Prepare, start, end, None);
        }
        let (resume, thaw) = (mark(StageKind::Resume), mark(StageKind::Thaw));
        let complete = mark(StageKind::Complete);
        if complete.start.is_none() && !has_completed {
            let start = resume.end.filter(|_| resume.end != complete.end);
            let end = complete.end.or(thaw.start);
            set(StageKind::Complete, start, end, None);
        }
        set(StageKind::Thaw, thaw.start, thaw.end, None);
    }

    pub(super) fn mark_of(&self, kind: StageKind) -> Mark {
        self.marks[kind as usize]
    }

    /// By the time that the kernel gives the stage.
    fn told_start(&self, mark: Mark) -> Option<Us> {
        Some(self.as_stamp(mark.end? - mark.says_us?))
    }

    fn of_cpus(&self, kind: StageKind) -> Option<Stage> {
        let mark = self.marks[kind as usize];
        let on = kind == StageKind::CpusOn;
        let own = self.cycle.cpus.iter().filter(|step| step.on == on);
        // Of a step without a line of its beginning only the end is known.
        let first = own.min_by_key(|step| step.start);
        let first = first.filter(|first| first.start < first.end);
        let start = mark.start.or(first.map(|first| first.start))?;
        stage(kind, start, mark.end?, None)
    }
}

/// The stage in which CPUs come on, or go off.
pub(super) fn stage_of_cpus(on: bool) -> StageKind {
    match on {
        true => StageKind::CpusOn,
        false => StageKind::CpusOff,
    }
}

/// Its function's name has the stage.
fn is_certain(call: &Call) -> bool {
    let name = call.function.as_deref().unwrap_or_default();
    matches!(stage_of_name(name.as_bytes()), Some((Some(_), _)))
}

/// A sleep shorter than this shows nothing of a clock.
const LEAST_SLEEP_US: Us = 100_000;

/// As much of a message as is kept.
pub(super) fn short(message: &[u8]) -> &[u8] {
    message[..message.len().min(MESSAGE_BYTES_MAX)].trim_ascii()
}

/// `PM: suspend exit 2014-08-21 12:00:28.122331393 UTC`, as Android's and others' kernels have it.
fn wall_clock(message: &[u8]) -> Option<Us> {
    let rest = message.strip_prefix(b"PM: ")?;
    // 4.14 has its prefix twice.
    let rest = rest.strip_prefix(b"PM: ").unwrap_or(rest);
    let rest = rest.strip_prefix(b"suspend e")?.strip_suffix(b" UTC")?;
    let date = memchr::memchr(b' ', rest)?;
    Some(Cursor(&rest[date + 1..]).iso()?.us)
}

fn stage(kind: StageKind, start: Us, end: Us, says_us: Option<Us>) -> Option<Stage> {
    (start <= end).then_some(Stage {
        kind,
        start,
        end,
        says_us,
    })
}

#[cfg(test)]
mod tests;
