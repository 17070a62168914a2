//! Applies the events of a log to the open cycle.

use super::super::event::Event;
use super::super::message::failed_after;
use super::super::prefix::{Clock, MINUTE_US};
use super::super::stages::{Open, stage_of_cpus};
use super::{ALL_CALLS_MAX, At, CALLS_MAX, CPUS_MAX, Cycles, half_of, opens, wakes};
use crate::cycle::{StageKind, Us};
use crate::hibernation::Hibernation;

/// More names of what woke a machine say nothing.
const WOKEN_MAX: usize = 20;

impl Cycles {
    /// If the duration in this event exceeds the time since its start by the clock's step back, the clock
    /// leaped within it, and the shift is corrected.
    pub(in crate::log) fn measures(&mut self, at: &At<'_>, event: &Event<'_>) {
        let (Some(by), Some(open)) = (self.returned.take(), &self.open) else {
            return;
        };
        let (since, says_us) = match event {
            Event::Return(ret) => (self.begun(open, ret), ret.says_us),
            Event::StageEnd { kind, says_us, .. } => (open.ended_before(*kind), *says_us),
            _ => return,
        };
        if let (Some(since), Some(says)) = (since, says_us)
            && says - (at.us + self.shift - since) > by / 2
        {
            self.shift += by;
        }
    }

    /// A line's event. Its stamp has to have passed.
    pub(in crate::log) fn event(&mut self, at: &At<'_>, event: Event<'_>) {
        if let Event::Hibernation { ends } = event {
            return self.hibernates(ends);
        }
        if let Event::DevicesTook { kind, us } = event {
            let took = self.open.as_mut().is_some_and(|open| {
                let begins_anew = kind == StageKind::Suspend && open.stage >= StageKind::CpusOff;
                open.mark(kind).end.is_some() && !begins_anew
            });
            if !took {
                // The other stages have no lines for that.
                let has_stage_times = self.has_stage_times;
                let (says_us, aborted) = (Some(us), false);
                let end = Event::StageEnd {
                    kind,
                    says_us,
                    aborted,
                };
                self.event(at, end);
                self.has_stage_times = has_stage_times;
            }
            // It is printed when devices are completed; before processes run the console catches up.
            if let Some(open) = self.open.as_mut().filter(|_| kind == StageKind::Resume) {
                open.mark(StageKind::Complete).end = Some(at.us + self.shift);
            }
            return;
        }
        let suspends = matches!(event, Event::Begin { first: true, .. });
        if suspends || matches!(event, Event::Boot) {
            self.hibernating = false;
        }
        // Only a machine that did not come back from a hibernation suspends before its end.
        self.is_to_disk &= !suspends;
        if self.hibernating {
            return;
        }
        if self.is_foreign(at) {
            if !opens(&event) {
                return;
            }
            self.close();
            self.last = Some((at.clock, at.us));
        }
        let us = match at.clock {
            Some(Clock::None) => self.copied(at, &event),
            _ => {
                self.follow_clock(at, &event);
                at.us
            }
        };
        if !self.fits(us + self.shift, &event) {
            self.stops(at, matches!(event, Event::Boot));
        }
        if self.open.is_none() {
            // The first word of a wake-up is of a suspend to disk, if there is one.
            if !opens(&event) || self.is_to_disk && wakes(&event) {
                return;
            }
            self.open = Some(Open::at(us, at.wall, at.clock));
        }
        self.apply(us + self.shift, at, event);
    }

    /// A suspend to disk begins, or ends; it may have begun before the log did.
    fn hibernates(&mut self, ends: bool) {
        let is_counted = ends && (self.is_to_disk || self.open.is_some());
        if let Some(open) = &mut self.open {
            open.hibernates |= ends;
        }
        self.close();
        if !is_counted {
            self.hibernation_begins(Hibernation::default());
        }
        if let Some(last) = self.hibernations.last_mut().filter(|_| ends) {
            last.ended = true;
        }
        self.is_to_disk = !ends;
        self.hibernating = !ends;
    }

    fn apply(&mut self, us: Us, at: &At<'_>, event: Event<'_>) {
        let Some(open) = &mut self.open else { return };
        // CPUs that are taken off and brought on later are none of its business.
        let done = matches!(
            event,
            Event::Cpus { .. }
                | Event::CpuBegin { .. }
                | Event::CpuEnd { .. }
                | Event::Message { .. }
                | Event::Asleep(_)
                | Event::Crash { .. }
        );
        if open.ended && open.may_be_late(us, &event) {
            self.left_out.late_calls += 1;
            return;
        }
        let many = match event {
            Event::Call(_) | Event::Return(_) | Event::Took { .. } => {
                open.cycle.calls.len() >= CALLS_MAX
                    || self.calls + open.cycle.calls.len() >= ALL_CALLS_MAX
            }
            Event::CpuBegin { .. } | Event::CpuEnd { .. } => open.cycle.cpus.len() >= CPUS_MAX,
            _ => false,
        };
        if many {
            self.left_out.too_many += 1;
            return;
        }
        if open.ended && done {
            return;
        }
        open.last = us;
        let is_fine = at.clock != Some(Clock::None) && at.resolution_us == 1;
        if is_fine && open.stamps.len() < CALLS_MAX {
            open.stamps.push(at.us);
        }
        if let Some((of_resume, since)) = half_of(us, &event) {
            open.says(of_resume, us, since);
        }
        if open.idles_on(&event) {
            open.sleeps_on();
        }
        open.only_entry &= matches!(event, Event::Begin { first: true, .. });
        // Lines that were copied later have no timestamps of their own.
        if at.clock != Some(Clock::None) && at.resolution_us < MINUTE_US {
            open.cycle.resolution_us = open.cycle.resolution_us.max(at.resolution_us);
        }
        match event {
            Event::Boot
            | Event::Hibernation { .. }
            | Event::DevicesTook { .. }
            | Event::Around { .. } => {}
            Event::Begin { sleep, first } => {
                open.begins(us);
                open.is_called(sleep);
                // Before 4.12 it follows on the sync.
                let sync = open.mark(StageKind::Sync);
                if !first && sync.start.is_some() {
                    sync.end.get_or_insert(us);
                }
            }
            Event::Syncing | Event::StageBegin(StageKind::Sync) => {
                open.begins(us);
                open.mark(StageKind::Sync).start = Some(us);
            }
            Event::Synced(took) => open.synced(us, took),
            Event::Freezing { took_us } => {
                let mark = open.mark(StageKind::Freeze);
                mark.start.get_or_insert(us);
                mark.says_us = mark.says_us.or(took_us);
            }
            Event::Frozen { after_us, took_us } => {
                let end = open.as_stamp(us + after_us.unwrap_or(0));
                let mark = open.mark(StageKind::Freeze);
                mark.end = Some(end);
                // The line of its beginning may be lost.
                mark.start = mark.start.or(took_us.map(|took| us - took));
            }
            Event::Done if open.stage == StageKind::Freeze && !open.ended => {
                let kind = match open.mark(StageKind::Freeze).start {
                    Some(_) => StageKind::Freeze,
                    None => StageKind::Sync,
                };
                open.mark(kind).end = Some(us);
            }
            Event::Suspending { sleep } => {
                open.is_called(sleep);
                open.suspending.get_or_insert(us);
                open.stage = StageKind::Prepare;
            }
            Event::StageBegin(kind) => {
                open.mark(kind).start = Some(us);
                match kind {
                    StageKind::Platform => open.goes_down(us),
                    StageKind::ResumeNoirq => open.comes_up(us),
                    StageKind::Thaw => open.ends(us),
                    _ => {}
                }
                open.stage = kind;
            }
            Event::StageEnd {
                kind,
                says_us,
                aborted,
            } => self.stage_ends(us, kind, says_us, aborted),
            Event::Call(call) => self.call(us, at, call),
            Event::Return(ret) => self.returns(us, at, ret),
            Event::Took {
                stage,
                driver,
                device,
                us: took,
            } => self.took(us, stage, driver, device, took),
            Event::Cpus { on } => {
                open.turns(on, us);
                open.stage = stage_of_cpus(on);
                open.mark(stage_of_cpus(on)).start = Some(us);
            }
            Event::CpuBegin { cpu, on } => {
                if on {
                    open.comes_up(us);
                }
                open.cpu_begins(cpu, on, us);
            }
            Event::CpuEnd { cpu, on } => {
                open.cpu_done(cpu, on, us);
                // That it is on is not the first word of a resume.
                if !on || open.is_down() || open.mark_of(StageKind::CpusOn).start.is_some() {
                    open.turns(on, us);
                }
            }
            Event::CpuLoses => {
                if open.mark(StageKind::CpusOff).start.is_some() {
                    open.mark(StageKind::CpusOff).end = Some(us);
                    open.goes_down(us);
                }
            }
            Event::Woken(what) => {
                let what = String::from_utf8_lossy(what).into_owned();
                // `57 triggered qpnp_rtc_alarm`
                let irq = what.split_once(" triggered ");
                let irq = irq.map(|(irq, what)| format!("IRQ {irq}, {what}"));
                let what = irq.unwrap_or(what);
                if open.cycle.woken.last() != Some(&what) && open.cycle.woken.len() < WOKEN_MAX {
                    open.cycle.woken.push(what);
                }
            }
            Event::Message { awake } => {
                open.slept |= awake && open.is_down();
                open.turns(awake, us);
            }
            Event::Idle { ends } => {
                open.cycle.sleep.get_or_insert_with(|| "s2idle".to_owned());
                open.idling = !ends;
                open.turns(ends, us);
                match ends {
                    true => open.slept = true,
                    false => open.rest = StageKind::Idle,
                }
            }
            // A test suspends the clocks, too.
            Event::Asleep(_) if open.rest == StageKind::Test => {}
            // The kernel has no clock to read it from.
            Event::Asleep(0) => {
                open.slept = true;
                open.clocks_run(us);
            }
            Event::Asleep(asleep) => {
                open.cycle.asleep_us = Some(open.cycle.asleep_us.unwrap_or(0) + asleep);
                open.slept = true;
                let apart = open.sleeps_apart(asleep, us).unwrap_or(0);
                self.shift -= apart;
                open.last = us - apart;
                open.clocks_run(us - apart);
            }
            Event::Test(wait) => {
                open.goes_down(us);
                open.rest = StageKind::Test;
                open.comes_up(us + wait);
            }
            Event::NotFrozen { message } => {
                let took = failed_after(message);
                let begun = took.map(|took| us - took);
                let begun = begun.max(open.cycle.words.first.filter(|_| begun.is_some()));
                let mark = open.mark(StageKind::Freeze);
                mark.start = mark.start.or(begun);
                mark.says_us = took;
                mark.end = Some(us);
                mark.aborted = true;
                open.refusing = true;
                self.fails(us, None, None, message);
            }
            Event::Failure {
                device,
                driver,
                message,
            } => self.fails(us, device, driver, message),
            Event::Crash { message } => self.fails(us, None, None, message),
            Event::Thawing => {
                open.refusing = false;
                open.mark(StageKind::Thaw).start.get_or_insert(us);
                open.ends(us);
            }
            Event::Thawed | Event::Done if !open.ended => {}
            Event::Thawed | Event::Done => {
                open.mark(StageKind::Thaw).end = Some(us);
                open.ends(us);
            }
            Event::Exit => {
                // Of a trace it ends the thaw itself.
                if at.clock.is_none() {
                    open.mark(StageKind::Thaw).end = Some(us);
                }
                open.ends(us);
                self.close();
            }
            Event::HibernationCall => open.hibernates = true,
        }
    }
}
