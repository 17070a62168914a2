//! The pane of idle states: a row for the machine and for each package, core or CPU.

use std::cmp::Ordering;

use ratatui::text::Line;
use reveille_watch::live::{CountedBy, Level, Power, PowerKind, Snapshot, StateShare, Unit};

use crate::grid::{Cell, Column, Grid, Order, descending};
use crate::history::{Figure, History};
use crate::look::{Tone, UNKNOWN};
use crate::numbers::{percent, whole};
use crate::sheet::Sheet;
use crate::view::{List, Values, View};
use crate::{numbers, states, wakers};

/// Sort orders; the machine stays on top.
pub const ORDERS: [&str; 5] = ["number", "awake", "wake-ups", "leaving", "frequency"];

/// The maximum width of a state's name in a heading.
const STATE_NAME: usize = 9;

/// The rows of the pane.
pub fn rows<'a>(snapshot: &'a Snapshot, view: &View) -> Vec<&'a Unit> {
    let units = match view.level {
        Level::Machine => &[],
        Level::Package => &*snapshot.packages,
        Level::Core => &*snapshot.cores,
        Level::Cpu => &*snapshot.cpus,
    };
    let list = view.list();
    let kind = |unit: &'a Unit| unit.kind.as_deref().unwrap_or_default();
    let passes = |unit: &&Unit| list.passes(&[&unit.label]);
    let mut units: Vec<&Unit> = units
        .iter()
        .filter(|unit| passes(unit) || list.passes(&[kind(unit)]))
        .collect();
    let order = direction(view);
    units.sort_by(|a, b| match order {
        Some(Order::Descending) => descending(figure(a, list.sort), figure(b, list.sort)),
        Some(Order::Ascending) => descending(figure(b, list.sort), figure(a, list.sort)),
        None => Ordering::Equal,
    });
    if list.sort == 0 && list.reversed {
        units.reverse();
    }
    [&snapshot.machine].into_iter().chain(units).collect()
}

/// The highest figures come first, unless reversed.
fn direction(view: &View) -> Option<Order> {
    match (view.list().sort, view.list().reversed) {
        (0, _) => None,
        (_, false) => Some(Order::Descending),
        (_, true) => Some(Order::Ascending),
    }
}

fn figure(unit: &Unit, order: usize) -> Option<f64> {
    match order {
        1 => unit.awake_percent,
        2 => unit.wakeups_per_s,
        3 => unit.leaving_percent,
        _ => unit.frequency.map(|frequency| frequency.mhz),
    }
}

pub fn draw(history: &History, view: &View, snapshot: &Snapshot, sheet: &mut Sheet) {
    let units = rows(snapshot, view);
    let selected = view.list().selected.min(units.len() - 1);
    let unit = units[selected];
    let mut more = vec![Line::default()];
    more.extend(sheet.pieces(&states::title(unit), Tone::Strong));
    more.extend(sheet.table(&states::grid(unit)));
    let wakers = wakers::of(unit, snapshot);
    let mut woken_by = Vec::new();
    if !wakers.is_empty() {
        let named = &wakers[..wakers.len().min(WAKERS)];
        woken_by.push(Line::default());
        woken_by.push(sheet.line(&format!("Wakers of {}", unit.label), Tone::Strong));
        let grid = wakers::grid(named, wakers::sum(&wakers), &List::default());
        woken_by.extend(sheet.table(&grid));
    }
    let grid = grid(&units, history, view);
    sheet.list(&grid, selected, &more, &woken_by);
}

/// The number of wakers shown for the selected unit: the most frequent ones.
const WAKERS: usize = 8;

/// A state in a column: its name and what counts it.
type StateKey<'a> = (&'a str, CountedBy);

/// A column that is omitted if no unit has the figure: heading, unit, index in [`ORDERS`] if rows can be
/// sorted by it, how it is written, and the figure.
type Optional = (
    &'static str,
    &'static str,
    Option<usize>,
    fn(Option<f64>) -> String,
    fn(&Unit) -> Option<f64>,
);

/// In narrow terminals the last one is omitted first.
const OPTIONAL: [Optional; 6] = [
    ("leaving", "%", Some(3), percent, |u| u.leaving_percent),
    ("freq", "MHz", Some(4), whole, |u| Some(u.frequency?.mhz)),
    ("power", "W", None, numbers::watts, |u| watts(&u.power)),
    ("bound", "µs", None, whole, |u| u.bound_us.map(f64::from)),
    ("above", "%", None, percent, |u| u.above_percent),
    ("below", "%", None, percent, |u| u.below_percent),
];

fn text((.., text, figure): &Optional, unit: &Unit) -> String {
    text(figure(unit))
}

/// The order in which columns are omitted. Of the kernel's states the shallowest is omitted first:
/// deep ones matter most.
const RANK_OF_SHALLOWEST: usize = 99;
/// The hardware's states are also below the list.
const RANK_OF_HARDWARE: usize = 100;
const RANK_OF_TREND: usize = 200;
const RANK_OF_OPTIONAL: usize = 210;

pub fn grid(units: &[&Unit], history: &History, view: &View) -> Grid {
    let states = states(units);
    let known = |column: &&Optional| units.iter().any(|unit| text(column, unit) != UNKNOWN);
    let optional: Vec<&Optional> = OPTIONAL.iter().filter(known).collect();
    let rows = units
        .iter()
        .map(|unit| row(unit, &states, &optional, history, view));
    Grid {
        rows: rows.collect(),
        columns: columns(&states, &optional, history, view),
    }
}

fn columns(
    states: &[StateKey],
    optional: &[&Optional],
    history: &History,
    view: &View,
) -> Vec<Column> {
    let sorted = |order: usize| direction(view).filter(|_| view.list().sort == order);
    let mut columns = vec![
        Column::text("", 8, 0),
        Column::figures("awake", "%", 5, 1).sorted(sorted(1)),
        Column::figures("wake-ups", "/s", 7, 2).sorted(sorted(2)),
    ];
    for (at, (name, counted_by)) in states.iter().enumerate() {
        let rank = match counted_by {
            CountedBy::Hardware => RANK_OF_HARDWARE + at,
            _ => RANK_OF_SHALLOWEST - at.min(90),
        };
        let name: String = name.chars().take(STATE_NAME).collect();
        let unit = state_unit(view.values, *counted_by);
        columns.push(Column::figures(name.trim_end(), unit, 5, rank));
    }
    for (at, column) in optional.iter().enumerate() {
        let (name, unit, order, ..) = column;
        let shown = Column::figures(*name, unit, 4, RANK_OF_OPTIONAL + at);
        columns.push(shown.sorted(order.and_then(sorted)));
    }
    let trend = |name, rank| Column::drawing(name, span(history), 10, 60, rank);
    columns.push(trend("awake", RANK_OF_TREND));
    columns.push(trend("wake-ups", usize::MAX));
    columns
}

/// The states of all units: those of the first unit, then others.
fn states<'a>(units: &[&'a Unit]) -> Vec<StateKey<'a>> {
    let mut states: Vec<StateKey> = Vec::new();
    for state in units.iter().flat_map(|unit| &unit.states) {
        let key = (&*state.name, state.counted_by);
        if !states.contains(&key) {
            states.push(key);
        }
    }
    // The hardware's last.
    states.sort_by_key(|(_, counted_by)| *counted_by == CountedBy::Hardware);
    states
}

fn state_unit(values: Values, counted_by: CountedBy) -> &'static str {
    match (values, counted_by) {
        (Values::Share, CountedBy::Hardware) => "hw %",
        (Values::Share, _) => "%",
        (Values::Stay, _) => "stay",
        (Values::Uses, _) => "/s",
        (Values::Median, _) => "med µs",
        (Values::P99, _) => "p99 µs",
        (Values::Max, _) => "max µs",
    }
}

/// The time span of the trends, for a heading.
fn span(history: &History) -> &'static str {
    match history.span_s() {
        ..90.0 => "last minute",
        ..900.0 => "last minutes",
        ..5400.0 => "last hour",
        _ => "last hours",
    }
}

fn row(
    unit: &Unit,
    states: &[StateKey],
    optional: &[&Optional],
    history: &History,
    view: &View,
) -> Vec<Cell> {
    let mut cells = vec![match unit.level {
        Level::Machine => Cell::Text(unit.label.clone(), Tone::Strong),
        _ => Cell::plain(label(unit)),
    }];
    if unit.online {
        cells.push(figure_cell(numbers::percent(unit.awake_percent)));
        cells.push(figure_cell(numbers::rate(unit.wakeups_per_s)));
        cells.extend(states.iter().map(|key| state_cell(unit, key, view.values)));
        cells.extend(
            optional
                .iter()
                .map(|column| figure_cell(text(column, unit))),
        );
    } else {
        cells.push(Cell::Text("off".to_owned(), Tone::Faint));
        let others = 1 + states.len() + optional.len();
        cells.extend((0..others).map(|_| figure_cell(UNKNOWN.to_owned())));
    }
    cells.push(Cell::Trend(
        history.trend(unit, Figure::AwakePercent),
        100.0,
    ));
    let wakeups = history.trend(unit, Figure::WakeupsPerSecond);
    let highest = wakeups.highest().unwrap_or(1.0);
    cells.push(Cell::Trend(wakeups, highest));
    cells
}

/// The label with the kind of its cores, if there are several: `CPU 3 P`.
fn label(unit: &Unit) -> String {
    match &unit.kind {
        Some(kind) => format!("{} {}", unit.label, short(kind)),
        None => unit.label.clone(),
    }
}

/// `performance cores` is P, `low-power efficient cores` LPE, `cores of capacity 446` 446, `cores up
/// to 2.4 GHz` 2.4G.
fn short(kind: &str) -> String {
    let number = |word: &&str| word.starts_with(|c: char| c.is_ascii_digit());
    if let Some(number) = kind.split(' ').find(number) {
        let unit = if kind.ends_with("GHz") { "G" } else { "" };
        return format!("{number}{unit}");
    }
    let words = kind.split([' ', '-']).filter(|word| *word != "cores");
    let initials = words.filter_map(|word| word.chars().next());
    initials.flat_map(char::to_uppercase).collect()
}

fn figure_cell(text: String) -> Cell {
    let tone = match &*text {
        UNKNOWN | "0.0" => Tone::Faint,
        _ => Tone::Plain,
    };
    Cell::Text(text, tone)
}

/// Empty if the unit has no such state.
fn state_cell(unit: &Unit, (name, counted_by): &StateKey, values: Values) -> Cell {
    let here = |state: &&StateShare| state.name == *name && state.counted_by == *counted_by;
    let Some(state) = unit.states.iter().find(here) else {
        return Cell::plain("");
    };
    let latency = state.wake_latency;
    let text = match values {
        Values::Share => numbers::percent(state.share_percent),
        Values::Stay => numbers::time(state.mean_stay_us),
        Values::Uses => numbers::rate(state.uses_per_s),
        Values::Median => numbers::latency_us(latency.map(|latency| latency.median_ns)),
        Values::P99 => numbers::latency_us(latency.and_then(|latency| latency.p99_ns)),
        Values::Max => numbers::latency_us(latency.map(|latency| latency.max_ns as f64)),
    };
    match state.disabled {
        Some(true) if text == UNKNOWN || text == "0.0" => Cell::Text("off".into(), Tone::Faint),
        _ => figure_cell(text),
    }
}

/// The most comprehensive figure: all packages together, or the platform, or the battery.
fn watts(power: &[Power]) -> Option<f64> {
    let of = |kind: PowerKind| power.iter().filter(move |power| power.kind == kind);
    let packages: Vec<f64> = of(PowerKind::Package).map(|power| power.watts).collect();
    match packages.is_empty() {
        false => Some(packages.iter().sum()),
        true => of(PowerKind::Platform)
            .chain(of(PowerKind::Battery))
            .chain(of(PowerKind::Cores))
            .map(|power| power.watts)
            .next(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_cores_have_short_names() {
        assert_eq!(short("performance cores"), "P");
        assert_eq!(short("low-power efficient cores"), "LPE");
        assert_eq!(short("cores of capacity 446"), "446");
        assert_eq!(short("cores up to 2.4 GHz"), "2.4G");
        assert_eq!(short(""), "");
    }
}
