//! The idle states of one machine, package, core or CPU: a row for each.

use std::ops::Range;

use reveille_show::quantity;
use reveille_watch::live::{CountedBy, FrequencyFrom, JointSleep, StateShare, Unit};

use crate::grid::{Cell, Column, Grid};
use crate::look::{Tone, UNKNOWN};
use crate::numbers;

pub fn grid(unit: &Unit) -> Grid {
    let mut columns = vec![
        Column::words("state", 0),
        Column::figures("share", "%", 5, 1),
        Column::drawing("", "", 8, 30, 10),
        Column::figures("mean stay", "", 8, 2),
        Column::figures("uses", "/s", 6, 3),
        Column::figures("above", "%", 5, 8),
        Column::figures("below", "%", 5, 9),
        Column::figures("median", "wake", 6, 4),
        Column::figures("p99", "latency,", 8, 5),
        Column::figures("max", "µs", 6, 6),
        Column::figures("count", "", 6, 7),
        Column::figures("exit", "driver", 6, 11),
        Column::words("counted by", 12),
    ];
    let mut rows: Vec<Vec<Cell>> = vec![awake(unit)];
    rows.extend(unit.states.iter().map(state));
    let judged = |state: &StateShare| state.above_percent.or(state.below_percent).is_some();
    if !unit.states.iter().any(judged) {
        columns.drain(ABOVE_AND_BELOW);
        for row in &mut rows {
            row.drain(ABOVE_AND_BELOW);
        }
    }
    Grid { columns, rows }
}

/// The columns of the governor's misses, which only a governor that counts them has.
const ABOVE_AND_BELOW: Range<usize> = 5..7;

fn awake(unit: &Unit) -> Vec<Cell> {
    let mut cells = vec![
        Cell::plain("awake"),
        Cell::plain(numbers::percent(unit.awake_percent)),
        Cell::Bar(
            unit.awake_percent.map(|percent| percent / 100.0),
            Tone::Awake,
        ),
    ];
    cells.resize(13, Cell::plain(""));
    cells
}

fn state(state: &StateShare) -> Vec<Cell> {
    let latency = state.wake_latency;
    let median = latency.map(|latency| latency.median_ns);
    // Highlight latencies above the driver's table.
    let driver = state.exit_latency_us.map(|us| us as f64 * 1e3);
    let tone = |ns: Option<f64>| match (ns, driver) {
        (Some(ns), Some(driver)) if ns > driver => Tone::Awake,
        _ => Tone::Plain,
    };
    let latency_cell = |ns: Option<f64>| Cell::Text(numbers::latency_us(ns), tone(ns));
    let name = match state.disabled {
        Some(true) => Cell::Text(format!("{} off", state.name), Tone::Faint),
        _ => Cell::plain(&*state.name),
    };
    vec![
        name,
        Cell::plain(numbers::percent(state.share_percent)),
        Cell::Bar(
            state.share_percent.map(|percent| percent / 100.0),
            Tone::Asleep,
        ),
        Cell::plain(numbers::time(state.mean_stay_us)),
        Cell::plain(numbers::rate(state.uses_per_s)),
        Cell::plain(numbers::percent(state.above_percent)),
        Cell::plain(numbers::percent(state.below_percent)),
        latency_cell(median),
        latency_cell(latency.and_then(|latency| latency.p99_ns)),
        latency_cell(latency.map(|latency| latency.max_ns as f64)),
        Cell::plain(latency.map_or_else(
            || UNKNOWN.to_owned(),
            |latency| numbers::count(latency.count),
        )),
        Cell::plain(numbers::whole(state.exit_latency_us.map(|us| us as f64))),
        Cell::Text(counted_by(state.counted_by).into(), Tone::Faint),
    ]
}

fn counted_by(counter: CountedBy) -> &'static str {
    match counter {
        CountedBy::Kernel => "kernel",
        CountedBy::Trace => "BPF",
        CountedBy::Hardware => "hardware",
    }
}

/// The ratio of entries to wake-ups from which on both are shown: haltpoll has two.
const MANY_MORE: f64 = 1.1;

/// The unit and its other figures, most important first.
pub fn title(unit: &Unit) -> Vec<String> {
    let mut facts = vec![match &unit.kind {
        Some(kind) => format!("{} ({kind})", unit.label),
        None => unit.label.clone(),
    }];
    if !unit.online {
        facts.push("offline".into());
        return facts;
    }
    if let Some(joint) = unit.joint_sleep.filter(|_| unit.cpus.len() > 1) {
        facts.push(together(&joint));
    }
    if let Some(bound) = unit.bound_us {
        facts.push(bound_and_allowed(unit, bound));
    }
    if let Some(percent) = unit.leaving_percent {
        facts.push(format!("{percent:.1}% of the time leaving idle"));
    }
    let more = |(entries, wakeups): &(f64, f64)| *entries > MANY_MORE * wakeups;
    if let Some((entries, _)) = unit.idle_entries_per_s.zip(unit.wakeups_per_s).filter(more) {
        facts.push(format!("{} idle entries/s", numbers::rate(Some(entries))));
    }
    if let Some(frequency) = unit.frequency {
        let by = match frequency.told_by {
            FrequencyFrom::Counters => "counted",
            FrequencyFrom::Cpufreq => "cpufreq",
        };
        let range = match (frequency.min_mhz, frequency.max_mhz) {
            (Some(min), Some(max)) => format!(", {min:.0} to {max:.0}"),
            _ => String::new(),
        };
        let base = frequency
            .base_mhz
            .map_or(String::new(), |base| format!(", base {base:.0}"));
        let turbo = match frequency.turbo {
            Some(true) => ", turbo on",
            Some(false) => ", turbo off",
            None => "",
        };
        facts.push(format!(
            "{:.0} MHz ({by}{range}{base}{turbo})",
            frequency.mhz
        ));
    }
    for power in &unit.power {
        facts.push(format!(
            "{} {} W",
            power.meter,
            numbers::watts(Some(power.watts))
        ));
    }
    if let Some(percent) = unit.left_out_percent {
        facts.push(format!("{percent:.0}% of timer wake-ups without latency"));
    }
    if let Some(smi) = unit.smi_per_s {
        facts.push(format!("{} SMIs/s", numbers::rate(Some(smi))));
    }
    facts
}

/// How much all CPUs sleep at once.
fn together(joint: &JointSleep) -> String {
    let mut text = format!(
        "all asleep {}%",
        numbers::percent(Some(joint.share_percent))
    );
    if let Some(mean) = joint.mean_us {
        let times = numbers::rate(Some(joint.ended_per_s));
        text += &format!(", {times} times/s for {}", quantity::time(mean / 1e6));
    }
    text
}

/// CPUs of a group may have different bounds: the allowed states are shown only for a single CPU.
fn bound_and_allowed(unit: &Unit, bound_us: u32) -> String {
    if unit.cpus.len() > 1 {
        return format!("strictest bound {bound_us} µs");
    }
    let kernels = unit.states.iter().filter(|state| state.index.is_some());
    let left = kernels.filter(|state| may_be_used(unit, state));
    let left: Vec<&str> = left.map(|state| &*state.name).collect();
    match left.is_empty() {
        false => format!("bound {bound_us} µs allows {}", left.join(", ")),
        true => format!("bound {bound_us} µs"),
    }
}

/// Whether the bound in force allows the state and it is not disabled. cpuidle's governors choose no
/// state whose exit latency in the driver's table exceeds the bound; a state without a figure is allowed.
pub fn may_be_used(unit: &Unit, state: &StateShare) -> bool {
    let too_slow = match (unit.bound_us, state.exit_latency_us) {
        (Some(bound), Some(exit)) => exit > u64::from(bound),
        _ => false,
    };
    !too_slow && state.disabled != Some(true)
}
