//! Parses events of ftrace: `suspend_resume`, `device_pm_callback_start` and `…_end`
//! (include/trace/events/power.h, since Linux 3.16).

use memchr::memmem;

use super::event::{Call, Event, Parsed, Return};
use super::stamp::Cursor;
use crate::cycle::StageKind;

/// Parses an event. `pid` is the thread that it is of.
pub(super) fn parse(event: &[u8], pid: Option<u32>) -> Parsed<'_> {
    if let Some(rest) = event.strip_prefix(b"suspend_resume:") {
        return step(rest.trim_ascii()).unwrap_or(Parsed::Torn);
    }
    if let Some(rest) = event.strip_prefix(b"device_pm_callback_start:") {
        return call(rest, pid).map_or(Parsed::Torn, Parsed::Event);
    }
    if let Some(rest) = event.strip_prefix(b"device_pm_callback_end:") {
        return ret(rest, pid).map_or(Parsed::Torn, Parsed::Event);
    }
    Parsed::Nothing
}

/// `dpm_resume_noirq[16] begin`: what, a figure, and its begin or end.
fn step(text: &[u8]) -> Option<Parsed<'_>> {
    let open = memchr::memchr(b'[', text)?;
    let name = text[..open].trim_ascii();
    let mut rest = Cursor(&text[open + 1..]);
    let value = rest.number()?;
    rest.eat(b']')?;
    rest.spaces();
    let begins = match rest.0 {
        b"begin" => true,
        b"end" => false,
        _ => return None,
    };
    let stage = |kind| match begins {
        true => Event::StageBegin(kind),
        false => Event::StageEnd {
            kind,
            says_us: None,
            aborted: false,
        },
    };
    Some(Parsed::Event(match name {
        b"suspend_enter" if begins => {
            // suspend_state_t; 3 is memory.
            let states: [&[u8]; 4] = [b"", b"s2idle", b"shallow", b"deep"];
            let sleep = states.get(value as usize).filter(|sleep| !sleep.is_empty());
            let (sleep, first) = (sleep.copied(), true);
            Event::Begin { sleep, first }
        }
        b"sync_filesystems" => stage(StageKind::Sync),
        b"freeze_processes" if begins => Event::Freezing { took_us: None },
        b"freeze_processes" => Event::Frozen {
            after_us: None,
            took_us: None,
        },
        b"CPU_OFF" | b"CPU_ON" => {
            let cpu = u32::try_from(value).ok()?;
            let on = name == b"CPU_ON";
            match begins {
                true => Event::CpuBegin { cpu, on },
                false => Event::CpuEnd { cpu, on },
            }
        }
        b"thaw_processes" if !begins => Event::Exit,
        b"thaw_processes" => stage(StageKind::Thaw),
        b"machine_suspend" => stage(StageKind::Platform),
        // Before its end a clock that counts the time asleep leaps.
        b"syscore_resume" if !begins => stage(StageKind::Platform),
        b"dpm_prepare" => stage(StageKind::Prepare),
        b"dpm_suspend" => stage(StageKind::Suspend),
        b"dpm_suspend_late" => stage(StageKind::SuspendLate),
        b"dpm_suspend_noirq" => stage(StageKind::SuspendNoirq),
        b"dpm_resume_noirq" => stage(StageKind::ResumeNoirq),
        b"dpm_resume_early" => stage(StageKind::ResumeEarly),
        b"dpm_resume" => stage(StageKind::Resume),
        b"dpm_complete" => stage(StageKind::Complete),
        _ => return Some(Parsed::Nothing),
    }))
}

/// ` usb usb1, parent: 0000:00:14.0, noirq bus [resume]`.
fn call(text: &[u8], pid: Option<u32>) -> Option<Event<'_>> {
    let at = memmem::rfind(text, b", parent: ")?;
    let (driver, device) = driver_and_device(&text[..at])?;
    let rest = &text[at + b", parent: ".len()..];
    let comma = memmem::rfind(rest, b", ")?;
    let (parent, what) = (&rest[..comma], &rest[comma + 2..]);
    let open = memchr::memrchr(b'[', what)?;
    let event = what[open + 1..].strip_suffix(b"]")?;
    let how = &what[..open];
    let suspends = match event {
        b"suspend" => true,
        b"resume" => false,
        _ => return Some(Event::HibernationCall),
    };
    let how = how.split_inclusive(|&byte| byte == b' ').next();
    let stage = match (how, suspends) {
        (Some(b"noirq "), true) => Some(StageKind::SuspendNoirq),
        (Some(b"noirq "), false) => Some(StageKind::ResumeNoirq),
        (Some(b"late "), _) => Some(StageKind::SuspendLate),
        (Some(b"early "), _) => Some(StageKind::ResumeEarly),
        (Some(b"preparing "), _) => Some(StageKind::Prepare),
        (Some(b"completing "), _) => Some(StageKind::Complete),
        _ => None,
    };
    Some(Event::Call(Call {
        device,
        driver,
        parent: Some(parent).filter(|&parent| parent != b"none"),
        function: None,
        worker: pid,
        stage,
    }))
}

/// ` usb usb1, err=0`.
fn ret(text: &[u8], pid: Option<u32>) -> Option<Event<'_>> {
    let at = memmem::rfind(text, b", err=")?;
    let (driver, device) = driver_and_device(&text[..at])?;
    let result = Cursor(&text[at + b", err=".len()..]).result()?;
    Some(Event::Return(Return {
        device,
        driver,
        worker: pid,
        result: Some(result),
        ..Return::default()
    }))
}

/// ` DRIVER DEVICE`; the driver may be missing.
fn driver_and_device(head: &[u8]) -> Option<(Option<&[u8]>, &[u8])> {
    let head = head.trim_ascii();
    let (driver, device) = match memchr::memrchr(b' ', head) {
        Some(at) => (Some(head[..at].trim_ascii()), &head[at + 1..]),
        None => (None, head),
    };
    (!device.is_empty()).then_some((driver, device))
}

#[cfg(test)]
#[path = "trace/tests.rs"]
mod tests;
