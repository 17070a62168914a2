//! From events of lines, in their order, to cycles.
//!
//! printk's order is kept: a line that waits for another in the kernel stands behind it, while the
//! stamps of two CPUs may differ by some microseconds. Calls are sorted at the end.

mod calls;
mod events;
mod offsets;

use hashbrown::HashMap;

use super::LeftOut;
use super::event::{Event, Return, stage_of_name};
use super::message::{NOT_PREPARED, is_error, is_shallow, refuses};
use super::names::{Id, Names};
use super::prefix::{Clock, MINUTE_US};
use super::stages::{Open, short};
use super::stamp::Instant;
use crate::cycle::{Call, Cycle, Failure, Name, SAID, STAGES, Said, StageKind, Us};
use crate::hibernation::Hibernation;
use offsets::Offsets;

/// Lines of several CPUs may be out of order by this much; beyond it the clock was set back.
const OUT_OF_ORDER_US: Us = 100_000;
/// Clocks of two CPUs that are taken for the same differ by less.
const JITTER_US: Us = 1000;
/// Freezing gives up after 20 seconds, and a device's watchdog after one or two minutes: with so much
/// between two lines of a cycle that does not sleep the clock was set.
const LEAP_US: Us = 400_000_000;
/// So long after processes froze, a sync is of another suspend.
const SYNC_US: Us = 1_000_000;
/// A clock that steps back by no more than this is not that of another boot.
const STEP_US: Us = 10_000_000;
/// Of who refused, no more names are kept.
const FAILURE_BYTES_MAX: usize = 1000;
/// A call is searched among this many of the last ones: a device has a dozen in a cycle.
const RECENT: usize = 64;
/// A machine with a thousand devices has some ten thousand calls in a cycle.
const CALLS_MAX: usize = 100_000;
/// Of all cycles of a log.
const ALL_CALLS_MAX: usize = 1_000_000;
const FAILURES_MAX: usize = 1000;
/// The last word on a suspend that devices refused.
const ALL_FAILED: &str = "Some devices failed";
const CPUS_MAX: usize = 20_000;
/// Of all cycles of a log, of which there are no more than this: a suspend every ten minutes for two
/// years.
const CYCLES_MAX: usize = 100_000;
const ALL_FAILURES_MAX: usize = 20_000;
const ALL_GAPS_MAX: usize = 200_000;

/// Where and when a line is from.
#[derive(Debug, Clone, Copy)]
pub(super) struct At<'a> {
    pub(super) us: Us,
    /// `None` for ftrace, of which no other clock is mixed in.
    pub(super) clock: Option<Clock>,
    pub(super) wall: Option<&'a [u8]>,
    pub(super) caller: Option<u32>,
    /// Of the clock's timestamps.
    pub(super) resolution_us: Us,
}

impl At<'_> {
    pub(super) fn of(at: Instant, clock: Option<Clock>) -> Self {
        Self {
            us: at.us,
            clock,
            wall: None,
            caller: None,
            resolution_us: at.resolution_us,
        }
    }
}

/// A stamp that is far before the one before it.
#[derive(Debug, Clone, Copy)]
struct Step {
    by: Us,
    /// The one ahead of it.
    from: Us,
    /// What the timestamps were moved by for it, from the first line with an event on.
    moved: Option<Us>,
}

/// Builds the cycles of one stream: printk's, or ftrace's.
#[derive(Debug, Default)]
pub(super) struct Cycles {
    pub(super) done: Vec<Cycle>,
    pub(super) left_out: LeftOut,
    /// Of the lines of each cycle, sorted: see [`Open::stamps`].
    pub(super) stamps: Vec<Vec<Us>>,
    pub(super) hibernations: Vec<Hibernation>,
    names: Names,
    open: Option<Open>,
    /// Of the open cycle: its calls by device.
    by_device: HashMap<Id, Vec<u32>>,
    /// Returns without a call so far.
    orphans: Vec<u32>,
    last: Option<(Option<Clock>, Us)>,
    /// A stamp of the open cycle stepped back.
    step: Option<Step>,
    /// The line continues where the clock was before it stepped back by this much.
    returned: Option<Us>,
    /// For lines whose timestamps have no meaning: the first one's, and how long the stages took since.
    copied: Us,
    offsets: Offsets,
    /// Of all cycles.
    calls: usize,
    failures: usize,
    gaps: usize,
    /// What is added to timestamps of the open cycle, so that its clock goes on evenly.
    shift: Us,
    /// This kernel prints the stages' times.
    has_stage_times: bool,
    /// A hibernation began whose end is still to come. Kernels boot meanwhile: the one that reads the
    /// image, and the machine's own.
    is_to_disk: bool,
    /// None of them booted yet: events are not of a suspend.
    hibernating: bool,
    /// A journal's mark of another boot precedes the next line.
    pub(super) boots: bool,
}

impl Cycles {
    /// A line's stamp, with or without an event.
    pub(super) fn passes(&mut self, at: &At<'_>) {
        self.returned = None;
        if std::mem::take(&mut self.boots) {
            self.stops(at, true);
        }
        // A line of another clock than the cycle's shows nothing of that one.
        if self.is_foreign(at) || at.clock == Some(Clock::None) {
            return;
        }
        if let Some((_, last)) = self.last.filter(|&(clock, _)| clock == at.clock) {
            if at.us < last - OUT_OF_ORDER_US {
                self.step = self.open.is_some().then_some(Step {
                    by: last - at.us,
                    from: last,
                    moved: None,
                });
            } else if let Some(step) = self.step {
                // Some lines were of another CPU's clock if this one leaps ahead as far as that stepped
                // back. Where a kernel's clock steps back by more than it is ever set, time may have passed as well.
                let is_stray = at.clock == Some(Clock::Kernel) && step.by > STEP_US;
                let more = match is_stray {
                    true => STEP_US.min(step.by / 10),
                    false => OUT_OF_ORDER_US,
                };
                let back = step.by - JITTER_US..=step.by + more;
                let is_back = back.contains(&(at.us - last));
                if is_back {
                    self.returned = step.moved;
                    self.shift -= step.moved.unwrap_or(0);
                }
                if is_back || at.us >= step.from {
                    self.step = None;
                }
            }
        }
        self.last = Some((at.clock, at.us));
        // A line that stands anywhere in its minute.
        if at.resolution_us >= MINUTE_US
            && let Some(open) = &mut self.open
        {
            open.cycle.resolution_us = open.cycle.resolution_us.max(at.resolution_us);
        }
    }

    fn is_foreign(&self, at: &At<'_>) -> bool {
        let open = self.open.as_ref();
        open.is_some_and(|open| open.clock != at.clock)
    }

    /// A message of a suspend to disk.
    pub(super) fn hears_of_disk(&mut self, message: &[u8]) {
        if !self.is_to_disk && !message.starts_with(b"PM: ") {
            return;
        }
        let text = String::from_utf8_lossy(message);
        // By a kernel that boots for that, and freezes processes before.
        let reads_image =
            text.ends_with(": resume from hibernation") || text.starts_with("PM: Loading ");
        self.hibernating |= reads_image;
        if self.is_to_disk
            && let Some(last) = self.hibernations.last_mut()
        {
            last.hears(&text);
            let freezing = last.failures.last_mut();
            if let Some(failed) = freezing.filter(|failed| failed.starts_with("Freezing ")) {
                add_refusing(failed, message);
            }
        } else {
            // The log begins within it.
            let mut cut = Hibernation::default();
            if cut.hears(&text) || reads_image {
                self.hibernation_begins(cut);
                self.is_to_disk = true;
            }
        }
    }

    fn hibernation_begins(&mut self, hibernation: Hibernation) {
        self.left_out.hibernations += 1;
        if self.hibernations.len() < CYCLES_MAX {
            self.hibernations.push(hibernation);
        }
    }

    /// A message, before it is parsed.
    pub(super) fn hears(&mut self, at: &At<'_>, message: &[u8]) {
        self.hears_of_disk(message);
        let Some(open) = &mut self.open else { return };
        if open.clock != at.clock || self.step.is_some_and(|step| step.moved.is_none()) {
            return;
        }
        open.hears(at.us + self.shift, message);
        self.hears_of_refusal(message);
    }

    /// A message behind those on a freezing that failed.
    pub(super) fn hears_of_refusal(&mut self, message: &[u8]) {
        let open = self.open.as_mut().filter(|open| open.refusing);
        if let Some(failure) = open.and_then(|open| open.cycle.failures.last_mut()) {
            add_refusing(&mut failure.message, message);
        }
    }

    /// A message that is no event: of a device whose callback runs?
    pub(super) fn says(&mut self, at: &At<'_>, message: &[u8]) -> Option<()> {
        let open = self.open.as_mut().filter(|open| open.clock == at.clock)?;
        let colon = memchr::memmem::find(message, b": ")?;
        let mut words = message[..colon].split(|&byte| byte == b' ');
        // `usb 3-1`, or `r8152 3-1:1.0 eth0`
        let device = words.find_map(|word| {
            let interface = memchr::memchr(b':', word).map_or(word, |at| &word[..at]);
            let last = |name| self.by_device.get(&self.names.known(name)?)?.last();
            let called = last(word).or_else(|| last(interface));
            let call = &open.cycle.calls[*called? as usize];
            (call.start.is_some() && call.end.is_none()).then(|| call.device.clone())
        })?;
        if open.cycle.said.len() < SAID {
            open.cycle.said.push(Said {
                device,
                at: at.us + self.shift,
                message: String::from_utf8_lossy(short(&message[colon + 2..])).into_owned(),
                is_error: is_error(message),
            });
        }
        Some(())
    }

    /// A message that began a cycle, or ended its sleep, after it did.
    pub(super) fn begins_with(&mut self, at: &At<'_>, message: &[u8]) {
        if let Some(open) = &mut self.open
            && open.has_heard_nothing()
        {
            open.hears(at.us + self.shift, message);
        }
    }

    /// The two clocks of one line of a syslog.
    pub(super) fn clocks(&mut self, kernel: Us, wall: Instant) {
        let has_ended = self.open.as_ref().is_some_and(|open| open.ended);
        if has_ended && self.offsets.is_of_another_boot(kernel) {
            self.close();
        }
        self.offsets.line(kernel, wall, self.open.is_some());
        self.slept_by_wall();
    }

    fn slept_by_wall(&mut self) {
        if let Some((number, us)) = self.offsets.slept()
            && let Some(cycle) = self.done.iter_mut().rfind(|cycle| cycle.number == number)
        {
            cycle.asleep_us = Some(us);
        }
    }

    /// Without useful timestamps the stages follow each other with the lengths that the kernel reports.
    fn copied(&mut self, at: &At<'_>, event: &Event<'_>) -> Us {
        match event {
            Event::Begin { first: true, .. } => self.copied = at.us,
            Event::StageEnd {
                kind,
                says_us: Some(us),
                ..
            } if *kind != StageKind::Prepare => self.copied += us,
            _ => {}
        }
        self.copied
    }

    /// A clock that was set, or a machine that was started again.
    fn follow_clock(&mut self, at: &At<'_>, event: &Event<'_>) {
        let Some(open) = &mut self.open else { return };
        let now = at.us + self.shift;
        if let Some(step) = self.step.as_mut().filter(|step| step.moved.is_none()) {
            // A boot's clock begins at zero; those of one machine's CPUs differ by little.
            let goes_on = at.clock == Some(Clock::Wall)
                || step.by <= STEP_US
                || (open.is_down() && is_of_resume(event))
                || (open.wakes_up() && matches!(event, Event::Message { awake: true }));
            // A log that stands there twice begins again with what is there.
            let goes_on = goes_on && !open.stamps.contains(&at.us);
            if !goes_on || matches!(event, Event::Boot) {
                return self.stops(at, matches!(event, Event::Boot));
            }
            self.left_out.clock_jumps += 1;
            open.platform_unknown |= open.is_down();
            open.jumped = true;
            open.forgets_message();
            step.moved = Some(open.last - now);
            self.shift += open.last - now;
            return;
        }
        let sleeps =
            open.is_down() || (StageKind::Prepare..=StageKind::Platform).contains(&open.stage);
        // With nothing but its entry and its exit, it sleeps in between.
        let sleeps = sleeps || open.only_entry && matches!(event, Event::Exit | Event::Thawing);
        // While processes freeze, a logger's wall clock leaps because the logger was asleep.
        let logger_sleeps = at.clock == Some(Clock::Wall) && open.stage == StageKind::Freeze;
        let leaps = now - open.last - event.synced_us() > LEAP_US
            && !sleeps
            && !logger_sleeps
            && !open.ended;
        // What begins another cycle is no jump within this one.
        if leaps
            && self.fits(now, event)
            && let Some(open) = &mut self.open
        {
            self.left_out.clock_jumps += 1;
            open.jumped = true;
            open.forgets_leap();
            self.shift += open.last - now;
        }
    }

    /// When the call of a return line began.
    pub(super) fn begun(&self, open: &Open, ret: &Return<'_>) -> Option<Us> {
        let calls = self.by_device.get(&self.names.known(ret.device)?)?;
        let recent = calls.iter().rev().take(RECENT);
        let mut recent = recent.map(|&call| &open.cycle.calls[call as usize]);
        recent.find(|call| call.end.is_none())?.start
    }

    /// Can the open cycle go on with it?
    fn fits(&self, us: Us, event: &Event<'_>) -> bool {
        let Some(open) = &self.open else { return true };
        let resumes = open.stage >= StageKind::ResumeNoirq;
        let freezes = open.stage == StageKind::Freeze && !open.ended;
        match event {
            Event::Boot => false,
            // Android's kernels print a second one, with the date in place of the state.
            Event::Begin { first: true, sleep } => {
                open.only_entry && open.cycle.sleep.is_some() != sleep.is_some()
            }
            Event::Freezing { .. } => freezes,
            // File systems are synced before processes freeze, or by some kernels right after.
            Event::Begin { first: false, .. } | Event::Syncing | Event::Synced(_) => {
                freezes && !open.froze_by(us - event.synced_us() - SYNC_US)
            }
            Event::Suspending { .. } => open.stage <= StageKind::Prepare && !open.ended,
            Event::Frozen { .. } | Event::NotFrozen { .. } | Event::Idle { ends: false } => {
                !(open.ended || resumes)
            }
            Event::Cpus { on: true } => !open.has_resumed(),
            // CPUs also go off by hand, once processes run.
            Event::Cpus { on: false }
            | Event::CpuEnd { on: false, .. }
            | Event::Message { awake: false } => {
                open.ended || open.cycle.words.after_sleep.is_none()
            }
            _ if open.idles_on(event) => true,
            // Of a device that is late: `suspend exit` is still to come.
            _ if open.ended && open.may_be_late(us, event) => true,
            Event::StageBegin(kind) | Event::Took { stage: kind, .. } => {
                !(open.ended || resumes && *kind <= StageKind::SuspendNoirq)
            }
            Event::StageEnd {
                kind,
                aborted,
                says_us,
            } => {
                let goes_back = resumes && *kind <= StageKind::SuspendNoirq && !aborted;
                // A stage that begins when it has ended is another cycle's.
                let ended = open.mark_of(*kind).end.zip(*says_us);
                let again = ended.is_some_and(|(end, says)| us - says >= end);
                !(open.ended || goes_back || again)
            }
            Event::Call(call) => !open.ended && open.goes_on_with(call.function),
            // Behind the last word of one attempt a device fails to suspend in the next one.
            Event::Failure { message, .. } => {
                let last = open.cycle.failures.last();
                let is_over = last.is_some_and(|last| last.message.starts_with(ALL_FAILED));
                let of_suspend = StageKind::Suspend..=StageKind::SuspendNoirq;
                let stage = failed_stage(message, open.stage);
                let suspends = stage.is_some_and(|stage| of_suspend.contains(&stage));
                !(is_over && suspends) || message.starts_with(ALL_FAILED.as_bytes())
            }
            _ => true,
        }
    }

    /// The open cycle ends before this line, which begins another boot or another cycle.
    pub(super) fn stops(&mut self, at: &At<'_>, boots: bool) {
        let us = at.us + self.shift;
        if let Some(open) = self.open.as_mut().filter(|open| open.clock == at.clock) {
            open.stops(us, boots);
        }
        self.close();
    }

    /// The open cycle ends here, or the log does.
    pub(super) fn close(&mut self) {
        let shift = std::mem::take(&mut self.shift);
        self.step = None;
        self.by_device.clear();
        let orphans = std::mem::take(&mut self.orphans).len() as u64;
        let Some(mut open) = self.open.take() else {
            return;
        };
        let mut stamps = std::mem::take(&mut open.stamps);
        stamps.sort_unstable();
        let is_copied = open.clock == Some(Clock::None);
        match open.close() {
            Some(_) if self.done.len() >= CYCLES_MAX => self.left_out.too_many += 1,
            Some(mut cycle) => {
                if self.gaps + cycle.gaps.len() > ALL_GAPS_MAX {
                    self.left_out.too_many += cycle.gaps.len() as u64;
                    cycle.gaps = Vec::new();
                }
                self.gaps += cycle.gaps.len();
                self.failures += cycle.failures.len();
                self.left_out.late_stamps += u64::from(!cycle.stamped && !is_copied);
                let count = |is: fn(&&Call) -> bool| cycle.calls.iter().filter(is).count() as u64;
                self.left_out.calls_without_end += count(|one| one.end.is_none());
                self.left_out.calls_without_start += count(|one| one.start.is_none());
                self.left_out.returns_without_call += orphans;
                cycle.number = self.done.len() + 1;
                cycle.shift_us = shift;
                self.calls += cycle.calls.len();
                self.offsets.cycle_ends(&cycle);
                self.done.push(cycle);
                self.stamps.push(stamps);
                self.slept_by_wall();
            }
            None if self.is_to_disk => {}
            None => self.hibernation_begins(Hibernation::default()),
        }
    }

    fn stage_ends(&mut self, us: Us, kind: StageKind, says_us: Option<Us>, aborted: bool) {
        self.has_stage_times |= says_us.is_some();
        let Some(open) = &mut self.open else { return };
        if kind == StageKind::Platform {
            open.slept = true;
            open.clocks_run(us);
            return;
        }
        if kind == StageKind::SuspendNoirq && open.naps {
            open.stage = StageKind::CpusOff;
            return;
        }
        let resumes = open.stage >= StageKind::ResumeNoirq;
        let mark = open.mark(kind);
        mark.end = Some(us);
        mark.says_us = says_us;
        mark.aborted = aborted;
        // The line of the prepare stands behind the suspend, which it is the whole of.
        let is_told = says_us.is_some();
        let is_over = is_told && (kind == StageKind::Prepare || aborted && resumes);
        if kind == StageKind::Sync || is_over {
            return;
        }
        if let Some(says_us) = says_us {
            if kind == StageKind::ResumeNoirq {
                open.resumes(open.as_stamp(us - says_us));
            }
            open.calls_since(open.as_stamp(us - says_us), kind);
        }
        open.settled = open.cycle.calls.len();
        if kind == StageKind::SuspendNoirq && !aborted {
            open.goes_down(us);
        }
        open.stage = after(kind, aborted);
    }

    fn fails(&mut self, us: Us, device: Option<&[u8]>, driver: Option<&[u8]>, message: &[u8]) {
        let driver = driver.map(|driver| self.names.name(driver));
        let names = &mut self.names;
        let Some(open) = &mut self.open else { return };
        if open.cycle.failures.len() >= FAILURES_MAX
            || self.failures + open.cycle.failures.len() >= ALL_FAILURES_MAX
        {
            self.left_out.too_many += 1;
            return;
        }
        let device = device.map(|device| (names.id(device), names.name(device)));
        let last = |(id, _): &(Id, Name)| self.by_device.get(id)?.last();
        let last = device.as_ref().and_then(last);
        let call = last.map(|&last| open.cycle.calls[last as usize].stage);
        let all = message.starts_with(ALL_FAILED.as_bytes());
        // Without a device's words, or those of stages that ended before, the place is not known once devices
        // suspend.
        let freeze = open.mark_of(StageKind::Freeze);
        let is_placed = match open.stage {
            StageKind::Freeze => freeze.end.is_none() || freeze.aborted,
            stage => self.has_stage_times || stage != StageKind::Prepare,
        };
        let call = call.or_else(|| {
            let (before, (_, name)) = open.cycle.failures.last().zip(device.as_ref())?;
            let is_its = before.device.as_ref() == Some(name);
            before.stage.filter(|_| is_its)
        });
        let place = call.unwrap_or(open.stage);
        // `Some devices failed to suspend` is also said where one was not prepared for it.
        let prepared = open.cycle.failures.last().and_then(|before| before.stage);
        let prepared = prepared.filter(|&stage| all && stage == StageKind::Prepare);
        let named = prepared.or(failed_stage(message, place));
        let stage = named.or(Some(place).filter(|_| is_placed || call.is_some()));
        // `noirq suspend of devices failed` says where, of what came before it.
        if device.is_none() && named.is_some() {
            let untold = open.cycle.failures.iter_mut().rev();
            for before in untold.take_while(|before| before.stage.is_none()) {
                before.stage = named;
            }
        }
        if all || device.is_some() {
            let of_devices = StageKind::Suspend..StageKind::Platform;
            let failed = stage.filter(|kind| of_devices.contains(kind));
            open.failed = failed.map(|stage| (stage, us)).or(open.failed);
        }
        // In older kernels nothing else shows that the resume starts.
        if all && open.stage <= StageKind::Suspend {
            open.stage = StageKind::Resume;
        }
        let message = String::from_utf8_lossy(message);
        open.cycle.failures.push(Failure {
            at: us,
            device: device.map(|(_, name)| name),
            driver,
            stage,
            message: message.trim_end_matches([' ', ':']).to_owned(),
        });
    }
}

/// The stage in which a device failed, by the words of it (`failed to resume noirq: error -5`); where
/// they have the direction only, the one where it was last.
fn failed_stage(message: &[u8], place: StageKind) -> Option<StageKind> {
    let has = |words: &[u8]| memchr::memmem::find(message, words).is_some();
    if has(NOT_PREPARED) {
        return Some(StageKind::Prepare);
    }
    if is_shallow(message) {
        return Some(StageKind::Idle);
    }
    let is_told = [&b"failed"[..], b"returns -"].into_iter().any(has);
    let (stage, suspends) = stage_of_name(message).filter(|_| is_told)?;
    use StageKind::{Resume, ResumeEarly, ResumeNoirq, Suspend, SuspendLate, SuspendNoirq};
    let (all, main, late) = match suspends {
        true => (Suspend..=SuspendNoirq, Suspend, SuspendLate),
        false => (ResumeNoirq..=Resume, Resume, ResumeEarly),
    };
    let is_late = has(b"suspend late") || has(b"late suspend") || has(b"resume early");
    let untold = if all.contains(&place) { place } else { main };
    Some(stage.unwrap_or(if is_late { late } else { untold }))
}

/// Who refused to freeze, if this line behind the failure has one.
fn add_refusing(failure: &mut String, line: &[u8]) {
    if failure.len() < FAILURE_BYTES_MAX
        && let Some(name) = refuses(line)
    {
        let has_one = failure.contains("; refused by ");
        failure.push_str(if has_one { ", " } else { "; refused by " });
        failure.push_str(&name);
    }
}

/// Which stage follows.
fn after(stage: StageKind, aborted: bool) -> StageKind {
    match (stage, aborted) {
        (StageKind::Freeze, _) => StageKind::Suspend,
        (StageKind::Prepare | StageKind::Suspend, true) => StageKind::Resume,
        (StageKind::SuspendLate, true) => StageKind::ResumeEarly,
        (StageKind::SuspendNoirq, true) => StageKind::ResumeNoirq,
        _ if (StageKind::CpusOff..=StageKind::CpusOn).contains(&stage) => StageKind::ResumeNoirq,
        (StageKind::Complete | StageKind::Thaw, _) => stage,
        _ => STAGES[stage as usize + 1].0,
    }
}

/// Does a cycle begin with it, if only because the log does?
///
/// CPUs go off and on, and processes are restarted, for other reasons, too.
fn opens(event: &Event<'_>) -> bool {
    matches!(
        event,
        Event::Begin { .. }
            | Event::Syncing
            | Event::Synced(_)
            | Event::Freezing { .. }
            | Event::NotFrozen { .. }
            | Event::Suspending { .. }
            | Event::Idle { .. }
            | Event::StageBegin(_)
            | Event::StageEnd { .. }
            | Event::Call(_)
            | Event::Return(_)
            | Event::Took { .. }
            | Event::Cpus { on: true }
    ) || wakes(event)
        || matches!(event, Event::Failure { message, .. } if failed_stage(message, StageKind::Freeze).is_some_and(|stage| !stage.is_rest()))
}

/// A word of a wake-up, with which a log may begin.
fn wakes(event: &Event<'_>) -> bool {
    matches!(
        event,
        Event::CpuEnd { on: true, .. } | Event::Asleep(_) | Event::Message { awake: true }
    )
}

/// Can this message come from a machine that wakes from sleep?
fn is_of_resume(event: &Event<'_>) -> bool {
    match event {
        Event::Asleep(_) | Event::StageBegin(StageKind::Platform) => true,
        Event::StageEnd { kind, .. } => *kind >= StageKind::Platform,
        Event::Call(call) => {
            let named = call.function.and_then(stage_of_name);
            named.is_none_or(|(_, suspends)| !suspends)
        }
        Event::Thawing | Event::Thawed | Event::Exit | Event::Took { .. } | Event::Return(_) => {
            false
        }
        _ => half_of(0, event).is_some_and(|(of_resume, _)| of_resume),
    }
}

/// Is this event certainly of the resume (`true`) or of the suspend, and since when was it that? A call's stage is
/// found when it is kept.
fn half_of(us: Us, event: &Event<'_>) -> Option<(bool, Us)> {
    match event {
        Event::Begin { .. } | Event::Syncing | Event::Synced(_) | Event::Freezing { .. } => {
            Some((false, us))
        }
        Event::Frozen { .. } | Event::NotFrozen { .. } | Event::Suspending { .. } => {
            Some((false, us))
        }
        Event::StageBegin(kind) if !kind.is_rest() => Some((*kind > StageKind::Test, us)),
        Event::StageEnd { kind, says_us, .. } if !kind.is_rest() => {
            Some((*kind > StageKind::Test, us - says_us.unwrap_or(0)))
        }
        Event::Took {
            stage, us: took, ..
        } => Some((*stage > StageKind::Test, us - took)),
        Event::Cpus { on } | Event::CpuBegin { on, .. } | Event::CpuEnd { on, .. } => {
            Some((*on, us))
        }
        Event::Message { awake } | Event::Around { awake } => Some((*awake, us)),
        Event::Idle { ends } => Some((*ends, us)),
        Event::Thawing | Event::Thawed | Event::Exit => Some((true, us)),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
