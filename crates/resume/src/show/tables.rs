//! The columns of every table.

use std::cmp::Reverse;

use reveille_show::columns;
use reveille_show::sheet::{Column, Heading, Origin, Table, Unit, Value};

use super::path::PATH;
use crate::analysis::{
    CallResult, CycleResult, DeviceSpread, Machine, Removal, Replay, Spread, SuspendDevice, WhatIf,
    half_name, stage_words,
};
use crate::cycle::{Name, StageKind, Us};
use crate::graph::Half;
use crate::power::align::{Mean, Power};

/// The columns of every table, by the list or object in the JSON that holds its rows. Four keys name
/// what is calculated from other fields: `begins_us`, `at_us`, `share`, `of_idle`.
pub fn reference() -> Vec<(&'static str, Vec<Heading>)> {
    let (of_cycle, of_all) = STAGES.split_at(STAGES_MEDIAN);
    vec![
        ("machines[]", Column::headings(MACHINES)),
        ("machines[].stages[]", Column::headings(of_all)),
        ("machines[].cycles[].stages[]", Column::headings(of_cycle)),
        ("machines[].cycles[].path[]", Column::headings(PATH)),
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

const MACHINES: &[Column<Machine>] = &columns!(|one|
    words "name", "machine", one.name.as_str(), "The log's name, or the name given";
    measured(Count) "cycles", "cycles", one.cycles.len(), "Suspends in the log";
    measured(UsAsMs) "suspend_us.median", "suspend", median(one.suspend_us), "Median time of a suspend";
    measured(UsAsMs) "asleep_us.median", "asleep", median(one.asleep_us), "Median time asleep";
    measured(UsAsMs) "resume_us.median", "resume", median(one.resume_us), "Median time of a resume";
    measured(UsAsMs) "resume_us.min", "min", one.resume_us.map(|all| all.min), "Shortest resume";
    measured(UsAsMs) "resume_us.max", "max", one.resume_us.map(|all| all.max), "Longest resume";
    estimated(UsAsMs) "changed_us", "with all changes",
        one.what_if.as_ref().and_then(|one| Some(one.replays.last()?.total_us)),
        "Time of the resume with all changes of the command line";
);

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

const STAGES: &[Column<Stage>] = &columns!(|one|
    words "stage", "stage", one.name, "Stage of the suspend or the resume";
    measured(UsAsMs) "begins_us", "starts", one.begins, "Its `start_us` since the start of the cycle";
    measured(UsAsMs) "duration_us", "takes", one.takes, "How long the stage took";
    measured(UsAsMs) detail "says_us", "as the kernel reports", one.kernel,
        "How long the stage took according to the kernel";
    measured(Count) "calls", "calls", one.calls, "Devices' callbacks in the stage";
    measured(UsAsMs) "calls_us", "sum of calls", one.calls_us,
        "Sum of the calls' times: what the stage would take with one call at a time";
    measured(UsAsMs) "duration_us.median", "median", median(one.all),
        "Median length of the stage over all cycles";
    measured(UsAsMs) "duration_us.min", "min", one.all.map(|all| all.min), "Shortest of all cycles";
    measured(UsAsMs) "duration_us.max", "max", one.all.map(|all| all.max), "Longest of all cycles";
);

/// From this column on a stage is that of all cycles.
const STAGES_MEDIAN: usize = 6;

/// The stages of the shown cycle, and those that only others have; with several cycles, their spread.
pub fn stages(machine: &Machine, cycle: &CycleResult) -> Table {
    let mut rows = Vec::new();
    for (kind, all) in machine.all_stages() {
        let stage = cycle.stages.iter().find(|one| one.stage == kind);
        let takes = stage.and_then(|stage| stage.duration_us);
        let with_calls = stage.filter(|stage| stage.calls > 0);
        rows.push(Stage {
            name: stage_words(kind),
            begins: stage.and_then(|stage| cycle.begins_us(stage)),
            takes,
            kernel: stage.and_then(|stage| stage.says_us),
            calls: stage.map(|stage| stage.calls),
            calls_us: with_calls.map(|stage| stage.calls_us),
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
    Table {
        largest: Some("duration_us"),
        ..Table::of("Stages in the order of a cycle", columns, &rows)
    }
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
        let own = |kind: &StageKind| {
            let one = machine.stages.iter().find(|one| one.stage == *kind);
            median(one.map(|one| one.duration_us))
        };
        table.column(of_machine(machine), kinds.iter().map(own))
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

const DEVICES: &[Column<DeviceSpread>] = &columns!(|one|
    words "device", "device", &*one.device, "The device's name in the kernel";
    words "driver", "driver", one.driver.as_deref(), "Its driver, if the log has it";
    measured(UsAsMs) "resume_us.median", "takes", one.resume_us.median,
        "Sum of its calls in a resume; the median of all cycles";
    measured(UsAsMs) "resume_us.min", "min", one.resume_us.min, "Shortest of all cycles";
    measured(UsAsMs) "resume_us.max", "max", one.resume_us.max, "Longest of all cycles";
    measured(UsAsMs) "slack_us.median", "slack", median(one.slack_us),
        "How much longer its longest call could take without a longer resume";
    measured(Count) "on_path", "on path", one.on_path,
        "Cycles in which its longest call is on the critical path";
);
const SUSPEND_DEVICES: &[Column<SuspendDevice>] = &columns!(|one|
    words "device", "device", &*one.device, "The device's name in the kernel";
    words "driver", "driver", one.driver.as_deref(), "Its driver, if the log has it";
    measured(UsAsMs) "suspend_us.median", "takes", one.suspend_us.median,
        "Sum of its calls in a suspend; the median of all cycles";
    measured(UsAsMs) "suspend_us.min", "min", one.suspend_us.min, "Shortest of all cycles";
    measured(UsAsMs) "suspend_us.max", "max", one.suspend_us.max, "Longest of all cycles";
    measured(UsAsMs) "slack_us.median", "slack", median(one.slack_us),
        "How much longer its longest call could take without a longer suspend";
    measured(Count) "on_path", "on path", one.on_path,
        "Cycles in which its longest call is on the critical path";
);

/// The slowest first.
pub fn devices(machine: &Machine, half: Half) -> Table {
    let caption = format!("Devices in the {}, the slowest first", half_name(half));
    let table = match half {
        Half::Resume => Table::of(caption, DEVICES, &machine.devices),
        Half::Suspend => Table::of(caption, SUSPEND_DEVICES, &machine.suspend_devices),
    };
    let table = with_names(table, machine);
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

const CALLS: &[Column<CallResult>] = &columns!(|one|
    words "device", "device", &*one.call.device, "The device's name in the kernel";
    words "driver", "driver", one.call.driver.as_deref(), "Its driver, if the log has it";
    words "parent", "parent", one.call.parent.as_deref(), "The device above it";
    words "stage", "stage", stage_words(one.call.stage), "The stage that calls it";
    measured(UsAsMs) "duration_us", "takes", one.duration_us, "How long the call took";
    measured(UsAsMs) "slack_us", "slack", one.slack_us,
        "How much longer it could take without lengthening the whole";
);

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

const REMOVALS: &[Column<Removal>] = &columns!(|one|
    words "device", "without", &*one.device, "The device that is removed";
    words "driver", "driver", one.driver.as_deref(), "Its driver, if the log has it";
    measured(Count) "with_below", "below", one.with_below,
        "Devices below it, which are removed with it";
    estimated(UsAsMs) "total_us", "would take", one.total_us,
        "Time of the suspend or resume without it";
    estimated(UsAsMs) "saves_us", "saves", one.saves_us, "Time saved";
);

pub fn removals(machine: &Machine, removals: &[Removal]) -> Table {
    let caption = "A device removed, with all that lies below it";
    with_names(Table::of(caption, REMOVALS, removals), machine)
}

/// Beside the drivers other names of the devices that the rows begin with, if any has one.
fn with_names(mut table: Table, machine: &Machine) -> Table {
    let place = table.headings.iter().position(|one| one.key == "driver");
    let mut any = false;
    for row in &mut table.rows {
        if let (Some(place), Value::Text(device)) = (place, &row[0])
            && machine.known_as.contains_key(device.as_str())
        {
            let driver = match &row[place] {
                Value::Text(driver) => Some(Name::from(driver.as_str())),
                _ => None,
            };
            let names = machine.names(&Name::from(device.as_str()), driver.as_ref());
            row[place] = names.join(", ").into();
            any = true;
        }
    }
    if let Some(place) = place.filter(|_| any) {
        table.headings[place].name = "known as".into();
    }
    table
}

const REPLAYS: &[Column<Replay>] = &columns!(|one|
    words "change", "change", one.change.as_str(), "What is changed";
    estimated(UsAsMs) "total_us", "resume", one.total_us,
        "Time of the resume with this change and those before it";
    estimated(UsAsMs) "saves_us", "saves", one.saves_us, "Time saved by this change";
);

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

const POWER: &[Column<PowerRow>] = &columns!(|one|
    words "when", "when", one.name, "Part of the cycle";
    measured(Count) "samples", "samples", one.mean.samples, "The meter's samples in it";
    measured(Of("W")) "mean_w", "mean", one.mean.mean_w, "Mean power";
    measured(Share) "of_idle", "of idle",
        one.mean.mean_w.zip(one.idle_w).filter(|both| both.1 > 0.0).map(|(mean, idle)| mean / idle),
        "Mean as a share of the idle mean";
    measured(Of("W")) detail "standard_deviation_w", "standard deviation", one.mean.standard_deviation_w,
        "Standard deviation of the samples";
    measured(Of("W")) "min_w", "min", one.mean.min_w, "Smallest sample";
    measured(Of("W")) "max_w", "max", one.mean.max_w, "Largest sample";
);

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
