//! Calls and their returns find each other, and their stage.

use super::super::event::{Call, Return, stage_of_name};
use super::super::names::Id;
use super::super::stages::Open;
use super::{At, Cycles, RECENT, after};
use crate::cycle::{self, Name, StageKind, Us};

/// A return that stands before its call, for the lines of two CPUs were mixed: they belong together
/// if the call began where the return puts it, within this much.
const MIXED_US: Us = 5_000;

impl Cycles {
    pub(super) fn call(&mut self, us: Us, at: &At<'_>, call: Call<'_>) {
        let device = self.names.id(call.device);
        let stage = match call.stage {
            Some(stage) => stage,
            None => self.stage_of(at, device, call.function),
        };
        let Some(open) = &mut self.open else { return };
        let stage = match open.naps && stage < StageKind::Platform {
            true => StageKind::Idle,
            false => stage,
        };
        open.stage = open.stage.max(stage);
        // Old kernels do not name the function, and so not the half.
        if call.function.is_some() || at.clock.is_none() {
            open.says(stage > StageKind::Test, us, us);
        }
        if stage == StageKind::ResumeNoirq {
            open.resumes(us);
        }
        let worker = call.worker.or(at.caller);
        let began = cycle::Call {
            device: self.names.name(call.device),
            driver: call.driver.map(|name| self.names.name(name)),
            parent: call.parent.map(|name| self.names.name(name)),
            function: call.function.map(|name| self.names.name(name)),
            stage,
            start: Some(us),
            worker,
            ..cycle::Call::default()
        };
        // Its return may have come before it.
        let is_its = |&(_, &orphan): &(usize, &u32)| {
            let ended = &open.cycle.calls[orphan as usize];
            let starts = ended.start.is_some_and(|at| (at - us).abs() <= MIXED_US);
            ended.device == began.device
                && (ended.function == began.function || ended.function.is_none())
                && starts
                && ended.end.is_some_and(|end| us <= end)
        };
        let mut recent = self.orphans.iter().enumerate().rev().take(RECENT);
        if let Some((at, &orphan)) = recent.find(is_its) {
            self.orphans.remove(at);
            let ended = &mut open.cycle.calls[orphan as usize];
            *ended = cycle::Call {
                end: ended.end,
                says_us: ended.says_us,
                result: ended.result,
                ..began
            };
            return;
        }
        let number = open.cycle.calls.len() as u32;
        self.by_device.entry(device).or_default().push(number);
        open.cycle.calls.push(began);
    }

    /// The stage of a call that begins.
    pub(super) fn stage_of(
        &mut self,
        at: &At<'_>,
        device: Id,
        function: Option<&[u8]>,
    ) -> StageKind {
        let Some(open) = &self.open else {
            return StageKind::Suspend;
        };
        let now = open.stage;
        // ftrace shows where each stage starts.
        if at.clock.is_none() && now != StageKind::Freeze {
            return now;
        }
        let named = function.and_then(stage_of_name);
        let suspends = match named {
            Some((Some(stage), _)) => return stage,
            Some((None, suspends)) => suspends,
            None if !self.has_stage_times && self.was_in(device, now) => {
                self.left_out.guessed_stages += 1;
                return after(now, false);
            }
            // Only the lines around it show the stage.
            None => now < StageKind::Platform && !open.has_woken(),
        };
        match (suspends, now) {
            (true, StageKind::SuspendLate | StageKind::SuspendNoirq) => now,
            (true, StageKind::CpusOff | StageKind::Platform) => StageKind::SuspendNoirq,
            (true, _) => StageKind::Suspend,
            (false, StageKind::Resume | StageKind::Complete) => now,
            (false, StageKind::ResumeNoirq | StageKind::ResumeEarly) if self.has_stage_times => now,
            (false, StageKind::CpusOff | StageKind::Platform | StageKind::CpusOn)
                if self.has_stage_times || named.is_none() =>
            {
                StageKind::ResumeNoirq
            }
            (false, _) => StageKind::Resume,
        }
    }

    /// Has the device been through that stage? One callback is all it has in one.
    fn was_in(&self, device: Id, stage: StageKind) -> bool {
        let Some(open) = &self.open else { return false };
        let calls = self.by_device.get(&device).into_iter().flatten().rev();
        let mut recent = calls
            .take(RECENT)
            .map(|&call| &open.cycle.calls[call as usize]);
        recent.any(|call| call.stage == stage && call.end.is_some())
    }

    pub(super) fn returns(&mut self, us: Us, at: &At<'_>, ret: Return<'_>) {
        let device = self.names.id(ret.device);
        let driver = ret.driver.map(|name| self.names.name(name));
        let function = ret.function.map(|name| self.names.name(name));
        let worker = ret.worker.or(at.caller);
        let Some(open) = &mut self.open else { return };
        let same =
            |had: &Option<Name>, has: &Option<Name>| had.is_none() || has.is_none() || had == has;
        let calls = self.by_device.entry(device).or_default();
        let recent = calls.iter().rev().take(RECENT).copied();
        let mut begun = recent.filter(|&call| {
            let call = &open.cycle.calls[call as usize];
            // No call goes on in sleep: the return of one of the suspend got lost.
            let is_lost = open.has_woken() && call.stage < StageKind::Platform;
            call.end.is_none()
                && !is_lost
                && same(&call.driver, &driver)
                && same(&call.function, &function)
        });
        // Of several devices of one name: the one in the same hands.
        let any = begun.clone().next();
        let begun = begun
            .find(|&call| worker.is_none() || open.cycle.calls[call as usize].worker == worker)
            .or(any);
        if let Some(begun) = begun {
            let call = &mut open.cycle.calls[begun as usize];
            call.end = Some(us);
            call.says_us = ret.says_us;
            call.result = ret.result;
            if call.stage < StageKind::Platform && call.function.is_some() {
                open.says(false, us, us);
            }
        } else if !open.goes_on_with(ret.function) {
            // Of a call that is not in the log, in the next cycle.
            self.close();
            self.open = Some(Open::at(at.us, at.wall, at.clock));
            return self.returns(at.us, at, ret);
        } else if open.ended {
            // Of a device that is late, or was started by something else.
        } else {
            let took = ret.says_us.map(|says| match ret.of_1024_ns {
                true => says.saturating_mul(128) / 125,
                false => says,
            });
            let name = self.names.name(ret.device);
            let stage = self.stage_of(at, device, ret.function);
            let Some(open) = &mut self.open else { return };
            let number = open.cycle.calls.len() as u32;
            self.by_device.entry(device).or_default().push(number);
            self.orphans.push(number);
            if ret.function.and_then(stage_of_name).is_some() {
                open.stage = open.stage.max(stage);
                open.says(stage > StageKind::Test, us, us - took.unwrap_or(0));
            }
            open.cycle.calls.push(cycle::Call {
                device: name,
                driver,
                parent: None,
                function,
                stage,
                start: took.map(|took| open.as_stamp(us - took)),
                end: Some(us),
                says_us: ret.says_us,
                worker,
                result: ret.result,
            });
        }
        if at.clock.is_none() && ret.result.is_some_and(|result| result < 0) {
            // dmesg has the kernel's words for it.
            let message = format!("err={}", ret.result.unwrap_or(0));
            self.fails(us, Some(ret.device), ret.driver, message.as_bytes());
        }
    }

    /// The line of old kernels for a device that takes long: it is the call's only trace, unless
    /// each call is printed, too.
    pub(super) fn took(
        &mut self,
        us: Us,
        stage: StageKind,
        driver: &[u8],
        device: &[u8],
        took: Us,
    ) {
        let id = self.names.id(device);
        let driver = (!driver.is_empty()).then(|| self.names.name(driver));
        let device = self.names.name(device);
        let Some(open) = &mut self.open else { return };
        let calls = self.by_device.entry(id).or_default();
        let printed = calls.iter().rev().copied().find(|&call| {
            let call = &open.cycle.calls[call as usize];
            call.stage == stage && (call.driver.is_none() || call.driver == driver)
        });
        if let Some(printed) = printed {
            open.cycle.calls[printed as usize].driver = driver;
            return;
        }
        calls.push(open.cycle.calls.len() as u32);
        open.cycle.calls.push(cycle::Call {
            device,
            driver,
            stage,
            start: Some(open.as_stamp(us - took)),
            end: Some(us),
            says_us: Some(took),
            ..cycle::Call::default()
        });
        open.stage = open.stage.max(stage);
    }
}
