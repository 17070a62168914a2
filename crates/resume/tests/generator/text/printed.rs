//! The lines of a kernel's log.

use reveille_resume::cycle::{StageKind, Us};

use super::super::kernel::Truth;
use super::super::machine::Machine;
use super::{Form, Line, stated};

/// The kernel's name of a stage in the line with its duration.
pub(super) fn stage_words(kind: StageKind) -> Option<&'static str> {
    Some(match kind {
        StageKind::Suspend => "suspend",
        StageKind::SuspendLate => "late suspend",
        StageKind::SuspendNoirq => "noirq suspend",
        StageKind::ResumeNoirq => "noirq resume",
        StageKind::ResumeEarly => "early resume",
        StageKind::Resume => "resume",
        _ => return None,
    })
}

/// A bus's callback.
pub(super) fn function(driver: &str, stage: StageKind) -> String {
    let bus = match driver {
        "ahci" | "snd_hda_intel" | "pcieport" => "pci_pm",
        "usb" | "uvcvideo" => "usb_dev",
        "sd" | "scsi" => "scsi_bus",
        "ata" => "ata_port_pm",
        "snd_hda_codec_realtek" => "hda_codec_pm",
        "i2c_hid_acpi" => "i2c_device_pm",
        _ => "platform_pm",
    };
    let stage = match stage {
        StageKind::Prepare => "prepare",
        StageKind::Suspend => "suspend",
        StageKind::SuspendLate => "suspend_late",
        StageKind::SuspendNoirq => "suspend_noirq",
        StageKind::ResumeNoirq => "resume_noirq",
        StageKind::ResumeEarly => "resume_early",
        StageKind::Resume => "resume",
        _ => "complete",
    };
    format!("{bus}_{stage}")
}

/// The module of a function, as the kernel appends it.
fn module(function: &str) -> &'static str {
    match () {
        () if function.starts_with("usb_dev") => " [usbcore]",
        () if function.starts_with("scsi_bus") => " [scsi_mod]",
        () if function.starts_with("hda_codec") => " [snd_hda_codec]",
        () => "",
    }
}

fn milliseconds(us: Us) -> String {
    format!("{}.{:03} msecs", us / 1000, us % 1000)
}

/// The lines of a kernel's log.
pub(super) fn printed(form: Form, machine: &Machine, truth: &Truth) -> Vec<Line> {
    let mut lines = Vec::new();
    let mut add = |at, words: String| {
        lines.push(Line {
            at,
            by: machine.main,
            words,
        });
    };
    let stage = |kind| truth.stage(kind);
    let freeze = stage(StageKind::Freeze);
    add(freeze.start, "PM: suspend entry (deep)".to_owned());
    let elapsed = format!(
        "(elapsed {}.{:03} seconds)",
        0,
        (freeze.end - freeze.start) / 1000
    );
    match form {
        Form::Old => {
            add(freeze.start, "PM: Syncing filesystems ... done.".to_owned());
            add(
                freeze.start,
                format!("Freezing user space processes ... {elapsed} done."),
            );
            add(freeze.start, "OOM killer disabled.".to_owned());
            add(
                freeze.end,
                format!("Freezing remaining freezable tasks ... {elapsed} done."),
            );
        }
        _ => {
            add(freeze.start, "Filesystems sync: 0.000 seconds".to_owned());
            add(freeze.start, "Freezing user space processes".to_owned());
            add(
                freeze.start,
                format!("Freezing user space processes completed {elapsed}"),
            );
            add(freeze.start, "OOM killer disabled.".to_owned());
            add(
                freeze.start,
                "Freezing remaining freezable tasks".to_owned(),
            );
            add(
                freeze.end,
                format!("Freezing remaining freezable tasks completed {elapsed}"),
            );
        }
    }
    for stage in &truth.stages {
        let Some(words) = stage_words(stage.kind) else {
            continue;
        };
        let took = milliseconds(stage.end - stage.start);
        add(
            stage.end,
            format!("PM: {words} of devices complete after {took}"),
        );
        if stage.kind == StageKind::Suspend && form != Form::Old {
            let took = milliseconds(stage.end - truth.stage(StageKind::Prepare).start);
            add(
                stage.end,
                format!("PM: start suspend of devices complete after {took}"),
            );
        }
    }
    if !truth.cpus.is_empty() {
        add(
            stage(StageKind::CpusOff).start,
            "Disabling non-boot CPUs ...".to_owned(),
        );
        add(
            stage(StageKind::CpusOn).start,
            "Enabling non-boot CPUs ...".to_owned(),
        );
    }
    for cpu in &truth.cpus {
        match cpu.on {
            false => add(cpu.end, format!("smpboot: CPU {} is now offline", cpu.cpu)),
            true => add(cpu.end, format!("CPU{} is up", cpu.cpu)),
        }
    }
    let asleep = truth.asleep_us / 1000;
    let awake = stage(StageKind::Platform).end;
    let low_level = match form {
        Form::Old => "ACPI: Low-level resume complete",
        _ => "ACPI: PM: Low-level resume complete",
    };
    add(awake, low_level.to_owned());
    let (seconds, rest) = (asleep / 1000, asleep % 1000);
    add(
        awake,
        format!("Timekeeping suspended for {seconds}.{rest:03} seconds"),
    );
    let thaw = stage(StageKind::Thaw);
    add(thaw.start, "OOM killer enabled.".to_owned());
    add(thaw.start, "Restarting tasks: Starting".to_owned());
    add(thaw.end, "Restarting tasks: Done".to_owned());
    add(thaw.end, "PM: suspend exit".to_owned());
    lines.extend(printed_calls(form, machine, truth));
    in_order(&mut lines);
    lines
}

/// A stage's own line comes after its last call's, and before the first one's of the next: the sort
/// by time is stable, so the calls' returns come first, then the stages, then new calls.
fn in_order(lines: &mut [Line]) {
    lines.sort_by_key(|line| {
        let rank = match () {
            () if line.words.contains(" returned ") => 0,
            () if line.words.contains("calling ") => 3,
            () if line.words.starts_with("OOM killer enabled") => 2,
            () if line.words == "Restarting tasks: Starting" => 2,
            () => 1,
        };
        (line.at, rank)
    });
}

fn printed_calls(form: Form, machine: &Machine, truth: &Truth) -> Vec<Line> {
    let mut lines = Vec::new();
    for call in &truth.calls {
        if matches!(call.stage, StageKind::Prepare | StageKind::Complete) {
            continue;
        }
        let device = &machine.devices[call.device];
        let parent = device
            .parent
            .map_or("none", |one| &machine.devices[one].name);
        let (name, driver, by) = (&device.name, &device.driver, call.worker);
        let us = stated(form, call.end - call.start);
        let function = function(driver, call.stage);
        let module = module(&function);
        let (calling, returned) = match form {
            Form::Old => (
                format!("calling  {name}+ @ {by}, parent: {parent}"),
                format!("call {name}+ returned 0 after {us} usecs"),
            ),
            _ => {
                let offset = if form == Form::Offset {
                    "+0x0/0x50"
                } else {
                    ""
                };
                let head = format!("{driver} {name}: PM:");
                let function = format!("{function}{offset}{module}");
                (
                    format!("{head} calling {function} @ {by}, parent: {parent}"),
                    format!("{head} {function} returned 0 after {us} usecs"),
                )
            }
        };
        for (at, words) in [(call.start, calling), (call.end, returned)] {
            lines.push(Line { at, by, words });
        }
    }
    lines
}
