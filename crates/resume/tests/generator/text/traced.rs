//! The lines of a trace.

use reveille_resume::cycle::StageKind;

use super::super::kernel::Truth;
use super::super::machine::{Machine, STAGES};
use super::Line;

/// The lines of a trace.
pub(super) fn traced(machine: &Machine, truth: &Truth) -> Vec<Line> {
    let mut lines = Vec::new();
    let mut add = |at, by, rank: u8, words: String| {
        lines.push((at, rank, Line { at, by, words }));
    };
    let main = machine.main;
    let names = [
        (StageKind::Prepare, "dpm_prepare[2]"),
        (StageKind::Suspend, "dpm_suspend[2]"),
        (StageKind::SuspendLate, "dpm_suspend_late[2]"),
        (StageKind::SuspendNoirq, "dpm_suspend_noirq[2]"),
        (StageKind::Platform, "machine_suspend[3]"),
        (StageKind::ResumeNoirq, "dpm_resume_noirq[16]"),
        (StageKind::ResumeEarly, "dpm_resume_early[16]"),
        (StageKind::Resume, "dpm_resume[16]"),
        (StageKind::Complete, "dpm_complete[16]"),
        (StageKind::Thaw, "thaw_processes[0]"),
    ];
    let freeze = truth.stage(StageKind::Freeze);
    add(
        freeze.start,
        main,
        0,
        "suspend_resume: suspend_enter[3] begin".to_owned(),
    );
    add(
        freeze.start,
        main,
        0,
        "suspend_resume: sync_filesystems[0] begin".to_owned(),
    );
    add(
        freeze.start,
        main,
        0,
        "suspend_resume: sync_filesystems[0] end".to_owned(),
    );
    add(
        freeze.start,
        main,
        0,
        "suspend_resume: freeze_processes[0] begin".to_owned(),
    );
    add(
        freeze.end,
        main,
        0,
        "suspend_resume: freeze_processes[0] end".to_owned(),
    );
    add(
        freeze.end,
        main,
        0,
        "suspend_resume: suspend_enter[3] end".to_owned(),
    );
    for (kind, name) in names {
        let stage = truth.stage(kind);
        add(
            stage.start,
            main,
            2,
            format!("suspend_resume: {name} begin"),
        );
        // A stage of zero length still ends after its start.
        let rank = if stage.start == stage.end { 3 } else { 1 };
        add(stage.end, main, rank, format!("suspend_resume: {name} end"));
    }
    for cpu in &truth.cpus {
        let name = if cpu.on { "CPU_ON" } else { "CPU_OFF" };
        add(
            cpu.start,
            main,
            2,
            format!("suspend_resume: {name}[{}] begin", cpu.cpu),
        );
        add(
            cpu.end,
            main,
            1,
            format!("suspend_resume: {name}[{}] end", cpu.cpu),
        );
    }
    for call in &truth.calls {
        let device = &machine.devices[call.device];
        let parent = device
            .parent
            .map_or("none", |one| &machine.devices[one].name);
        let (name, driver, by) = (&device.name, &device.driver, call.worker);
        let stage = STAGES.iter().position(|&one| one == call.stage).unwrap();
        let event = if stage < 4 { "suspend" } else { "resume" };
        let ops = [
            "",
            "bus ",
            "late bus ",
            "noirq bus ",
            "noirq bus ",
            "early bus ",
            "bus ",
            "",
        ];
        let ops = ops[stage];
        add(
            call.start,
            by,
            4,
            format!("device_pm_callback_start: {driver} {name}, parent: {parent}, {ops}[{event}]"),
        );
        let rank = if call.start == call.end { 5 } else { 0 };
        add(
            call.end,
            by,
            rank,
            format!("device_pm_callback_end: {driver} {name}, err=0"),
        );
    }
    lines.sort_by_key(|&(at, rank, _)| (at, rank));
    lines.into_iter().map(|(.., line)| line).collect()
}

pub(super) const TRACE_HEAD: &str = "\
# tracer: nop
#
# entries-in-buffer/entries-written: 4188/4188   #P:2
#
#                                _-----=> irqs-off/BH-disabled
#                               / _----=> need-resched
#                              | / _---=> hardirq/softirq
#                              || / _--=> preempt-depth
#                              ||| / _-=> migrate-disable
#                              |||| /     delay
#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION
#              | |         |   |||||     |         |
";
