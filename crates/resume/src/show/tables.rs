//! The columns of every table.

use std::cmp::Reverse;

use reveille_show::sheet::{Column, Heading, Origin, Table, Unit, Value};

use crate::analysis::{
    CallResult, CycleResult, DeviceSpread, Machine, Removal, Replay, Spread, SuspendDevice, WhatIf,
    half_name, stage_words,
};
use crate::cycle::{StageKind, Us};
use crate::graph::Half;
use crate::power::align::{Mean, Power};

/// The columns by the list or object in the JSON that holds their rows.
pub fn reference() -> Vec<(&'static str, Vec<Heading>)> {
    vec![
        ("machines[]", Column::headings(MACHINES)),
        (
            "machines[].stages[]",
            Column::headings(&STAGES[STAGES_MEDIAN..]),
        ),
        (
            "machines[].cycles[].stages[]",
            Column::headings(&STAGES[..STAGES_MEDIAN]),
        ),
        (
            "machines[].cycles[].path[]",
            Column::headings(super::path::PATH),
        ),
        ("machines[].cycles[].calls[]", Column::headings(CALLS)),
        ("machines[].devices[]", Column::headings(DEVICES)),
        (
            "machines[].suspend_devices[]",
            Column::headings(SUSPEND_DEVICES),
        ),
        ("machines[].removals[]", Column::headings(REMOVALS)),
        ("machines[].what_if.replays[]", Column::headings(REPLAYS)),
        ("machines[].power.resume", Column::headings(POWER)),
    ]
}

const MACHINES: &[Column<Machine>] = &columns! { one:
    words "name" "machine", "The log's name, or the name given" => one.name.as_str();
    measured "cycles" "cycles" Unit::Count, "Suspends in the log" => one.cycles.len();
    measured "suspend_us.median" "suspend" Unit::UsAsMs, "Median time of a suspend"
        => median(one.suspend_us);
    measured "asleep_us.median" "asleep" Unit::UsAsMs, "Median time asleep"
        => median(one.asleep_us);
    measured "resume_us.median" "resume" Unit::UsAsMs, "Median time of a resume"
        => median(one.resume_us);
    measured "resume_us.min" "min" Unit::UsAsMs, "Shortest resume"
        => one.resume_us.map(|all| all.min);
    measured "resume_us.max" "max" Unit::UsAsMs, "Longest resume"
        => one.resume_us.map(|all| all.max);
    estimated "changed_us" "with all changes" Unit::UsAsMs,
        "Time of the resume with all changes of the command line" =>
            one.what_if.as_ref().and_then(|one| Some(one.replays.last()?.total_us));
};

fn median(all: Option<Spread>) -> Value {
    all.map(|all| all.median).into()
}

pub fn machines(machines: &[Machine]) -> Table {
    let table = Table::of("Medians of all whole cycles", MACHINES, machines);
    match machines.iter().any(|one| one.what_if.is_some()) {
        true => table,
        false => table.without(&["changed_us"]),
    }
}

/// A stage of the shown cycle and of all.
#[derive(Default)]
struct Stage {
    name: &'static str,
    begins: Option<Us>,
    takes: Option<Us>,
    kernel: Option<Us>,
    calls: Option<usize>,
    calls_us: Option<Us>,
    all: Option<Spread>,
}

const STAGES: &[Column<Stage>] = &columns! { one:
    words "stage" "stage", "Stage of the suspend or the resume" => one.name;
    measured "begins_us" "starts" Unit::UsAsMs, "Its `start_us` since the start of the cycle"
        => one.begins;
    measured "duration_us" "takes" Unit::UsAsMs, "How long the stage took" => one.takes;
    measured "says_us" "as the kernel reports" Unit::UsAsMs; detail,
        "How long the stage took according to the kernel" => one.kernel;
    measured "calls" "calls" Unit::Count, "Devices' callbacks in the stage" => one.calls;
    measured "calls_us" "sum of calls" Unit::UsAsMs,
        "Sum of the calls' times: what the stage would take with one call at a time" => one.calls_us;
    measured "duration_us.median" "median" Unit::UsAsMs,
        "Median length of the stage over all cycles" => median(one.all);
    measured "duration_us.min" "min" Unit::UsAsMs, "Shortest of all cycles"
        => one.all.map(|all| all.min);
    measured "duration_us.max" "max" Unit::UsAsMs, "Longest of all cycles"
        => one.all.map(|all| all.max);
};

/// From this column on a stage is that of all cycles.
const STAGES_MEDIAN: usize = 6;

/// The stages of the shown cycle, and those that only others have; with several cycles, their spread.
pub fn stages(machine: &Machine, cycle: &CycleResult) -> Table {
    let mut rows = Vec::new();
    for (kind, all) in machine.all_stages() {
        let stage = cycle.stages.iter().find(|one| one.stage == kind);
        let takes = stage.and_then(|stage| stage.duration_us);
        rows.push(Stage {
            name: stage_words(kind),
            begins: stage.and_then(|stage| cycle.begins_us(stage)),
            takes,
            kernel: stage.and_then(|stage| stage.says_us),
            calls: stage.map(|stage| stage.calls),
            calls_us: stage
                .filter(|stage| stage.calls > 0)
                .map(|stage| stage.calls_us),
            all,
        });
        let is_around_sleep = matches!(kind, StageKind::Platform | StageKind::Idle);
        let is_sleep = kind == StageKind::Idle && cycle.asleep_us == takes;
        if is_around_sleep && !is_sleep && cycle.asleep_us.is_some() {
            rows.push(Stage {
                name: "asleep",
                takes: cycle.asleep_us,
                all: machine.asleep_us,
                ..Stage::default()
            });
        }
    }
    let columns = match machine.cycles.len() {
        1 => &STAGES[..STAGES_MEDIAN],
        _ => STAGES,
    };
    Table::of("Stages in the order of a cycle", columns, &rows)
}

/// Each machine's median is a column.
pub fn stages_by_machine(machines: &[Machine]) -> Table {
    let stages = machines.iter().flat_map(|machine| &machine.stages);
    let mut kinds: Vec<StageKind> = stages.map(|one| one.stage).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let row = |kind: &StageKind| Stage {
        name: stage_words(*kind),
        ..Stage::default()
    };
    let rows: Vec<Stage> = kinds.iter().map(row).collect();
    let table = Table::of("Median length of each stage", &STAGES[..1], &rows);
    machines.iter().fold(table, |table, machine| {
        let own = |kind: &StageKind| machine.stages.iter().find(|one| one.stage == *kind);
        let values = kinds
            .iter()
            .map(|kind| own(kind).map(|one| one.duration_us.median).into());
        table.column(of_machine(machine), values)
    })
}

fn of_machine(machine: &Machine) -> Heading {
    Heading {
        key: "median_us",
        name: machine.name.clone().into(),
        unit: Unit::UsAsMs,
        origin: Some(Origin::Measured),
        about: "The machine's median",
        detail: false,
    }
}

const DEVICES: &[Column<DeviceSpread>] = &columns! { one:
    words "device" "device", "The device's name in the kernel" => &*one.device;
    words "driver" "driver", "Its driver, if the log has it" => one.driver.as_deref();
    measured "resume_us.median" "takes" Unit::UsAsMs,
        "Sum of its calls in a resume; the median of all cycles" => one.resume_us.median;
    measured "resume_us.min" "min" Unit::UsAsMs, "Shortest of all cycles" => one.resume_us.min;
    measured "resume_us.max" "max" Unit::UsAsMs, "Longest of all cycles" => one.resume_us.max;
    measured "slack_us.median" "slack" Unit::UsAsMs,
        "How much longer its longest call could take without a longer resume" => median(one.slack_us);
    measured "on_path" "on path" Unit::Count,
        "Cycles in which its longest call is on the critical path" => one.on_path;
};
const SUSPEND_DEVICES: &[Column<SuspendDevice>] = &columns! { one:
    words "device" "device", "The device's name in the kernel" => &*one.device;
    words "driver" "driver", "Its driver, if the log has it" => one.driver.as_deref();
    measured "suspend_us.median" "takes" Unit::UsAsMs,
        "Sum of its calls in a suspend; the median of all cycles" => one.suspend_us.median;
    measured "suspend_us.min" "min" Unit::UsAsMs, "Shortest of all cycles" => one.suspend_us.min;
    measured "suspend_us.max" "max" Unit::UsAsMs, "Longest of all cycles" => one.suspend_us.max;
    measured "slack_us.median" "slack" Unit::UsAsMs,
        "How much longer its longest call could take without a longer suspend" => median(one.slack_us);
    measured "on_path" "on path" Unit::Count,
        "Cycles in which its longest call is on the critical path" => one.on_path;
};

/// The slowest first.
pub fn devices(machine: &Machine, half: Half) -> Table {
    let caption = format!("Devices in the {}, the slowest first", half_name(half));
    let table = match half {
        Half::Resume => Table::of(caption, DEVICES, &machine.devices),
        Half::Suspend => Table::of(caption, SUSPEND_DEVICES, &machine.suspend_devices),
    };
    match machine.cycles.len() {
        1 => table.without(&[
            "resume_us.min",
            "resume_us.max",
            "suspend_us.min",
            "suspend_us.max",
        ]),
        _ => table,
    }
}

/// Each machine's median is a column; in the order of the longest on any machine.
pub fn devices_by_machine(machines: &[Machine]) -> Table {
    let slowest = slowest(machines);
    let caption = "Median of each device in the resume";
    let table = Table::of(caption, &DEVICES[..2], slowest.iter().copied());
    machines.iter().fold(table, |table, machine| {
        let values = slowest.iter().map(|one| median(own(machine, one)));
        table.column(of_machine(machine), values)
    })
}

/// The same device on this machine.
pub fn own(machine: &Machine, device: &DeviceSpread) -> Option<Spread> {
    let mut all = machine.devices.iter();
    let own = all.find(|one| one.device == device.device && one.driver == device.driver);
    own.map(|one| one.resume_us)
}

/// Each device once, the longest median of any machine first.
pub fn slowest(machines: &[Machine]) -> Vec<&DeviceSpread> {
    let mut all: Vec<&DeviceSpread> = machines.iter().flat_map(|one| &one.devices).collect();
    all.sort_by_key(|device| Reverse(device.resume_us.median));
    let mut seen = std::collections::HashSet::new();
    all.retain(|one| seen.insert((&one.device, &one.driver)));
    all
}

const CALLS: &[Column<CallResult>] = &columns! { one:
    words "device" "device", "The device's name in the kernel" => &*one.call.device;
    words "driver" "driver", "Its driver, if the log has it" => one.call.driver.as_deref();
    words "parent" "parent", "The device above it" => one.call.parent.as_deref();
    words "stage" "stage", "The stage that calls it" => stage_words(one.call.stage);
    measured "duration_us" "takes" Unit::UsAsMs, "How long the call took" => one.duration_us;
    measured "slack_us" "slack" Unit::UsAsMs,
        "How much longer it could take without lengthening the whole" => one.slack_us;
};

/// Calls beyond these are in the JSON only.
const MOST_CALLS: usize = 40;

/// The longest first.
pub fn calls(cycle: &CycleResult, half: Half) -> Table {
    let calls = cycle.calls_of(half).map(|(_, one)| one);
    let mut calls: Vec<&CallResult> = calls.filter(|one| one.duration_us.is_some()).collect();
    calls.sort_by_key(|one| (Reverse(one.duration_us), one.call.start));
    let all = calls.len();
    calls.truncate(MOST_CALLS);
    let caption = format!(
        "The {} longest of {all} calls in the {}",
        calls.len(),
        half_name(half)
    );
    Table::of(caption, CALLS, calls)
}

const REMOVALS: &[Column<Removal>] = &columns! { one:
    words "device" "without", "The device that is removed" => &*one.device;
    words "driver" "driver", "Its driver, if the log has it" => one.driver.as_deref();
    measured "with_below" "below" Unit::Count, "Devices below it, which are removed with it"
        => one.with_below;
    estimated "total_us" "would take" Unit::UsAsMs, "Time of the suspend or resume without it"
        => one.total_us;
    estimated "saves_us" "saves" Unit::UsAsMs, "Time saved" => one.saves_us;
};

pub fn removals(removals: &[Removal]) -> Table {
    let caption = "A device removed, with all that lies below it";
    Table::of(caption, REMOVALS, removals)
}

const REPLAYS: &[Column<Replay>] = &columns! { one:
    words "change" "change", "What is changed" => one.change.as_str();
    estimated "total_us" "resume" Unit::UsAsMs,
        "Time of the resume with this change and those before it" => one.total_us;
    estimated "saves_us" "saves" Unit::UsAsMs, "Time saved by this change" => one.saves_us;
};

/// As measured, then with each change.
pub fn replays(what_if: &WhatIf) -> Table {
    let measured = Replay {
        change: "as measured".to_owned(),
        total_us: what_if.measured_us,
        saves_us: 0,
        removed: Vec::new(),
        deferred: Vec::new(),
    };
    let rows = [&measured].into_iter().chain(&what_if.replays);
    Table::of("Time of the resume after each change", REPLAYS, rows)
}

/// A part of the cycles by a power meter.
struct PowerRow {
    name: &'static str,
    mean: Mean,
    /// Of the idle machine, W.
    idle_w: Option<f64>,
}

const WATTS: Unit = Unit::Of("W");

const POWER: &[Column<PowerRow>] = &columns! { one:
    words "when" "when", "Part of the cycle" => one.name;
    measured "samples" "samples" Unit::Count, "The meter's samples in it" => one.mean.samples;
    measured "mean_w" "mean" WATTS, "Mean power" => one.mean.mean_w;
    measured "of_idle" "of idle" Unit::Share, "Mean as a share of the idle mean"
        => one.mean.mean_w.zip(one.idle_w).filter(|both| both.1 > 0.0).map(|(mean, idle)| mean / idle);
    measured "standard_deviation_w" "standard deviation" WATTS; detail,
        "Standard deviation of the samples" => one.mean.standard_deviation_w;
    measured "min_w" "min" WATTS, "Smallest sample" => one.mean.min_w;
    measured "max_w" "max" WATTS, "Largest sample" => one.mean.max_w;
};

pub fn power(power: &Power) -> Table {
    let rows = [
        ("outside cycles (idle)", power.idle),
        ("suspend", power.suspend),
        ("asleep", power.asleep),
        ("resume", power.resume),
    ];
    let rows = rows.map(|(name, mean)| PowerRow {
        name,
        mean,
        idle_w: power.idle_w,
    });
    Table::of("Samples that lie entirely in each part", POWER, &rows)
}
