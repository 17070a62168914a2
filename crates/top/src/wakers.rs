//! The pane of wakers: what ends the CPUs' sleep, by name and rate.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use reveille_watch::live::{Level, Snapshot, Unit, Waker, WakerKind};

use crate::grid::{Cell, Column, Grid, Order, descending};
use crate::look::{Tone, UNKNOWN};
use crate::numbers;
use crate::sheet::Sheet;
use crate::view::{List, View};

/// Sort orders.
pub const ORDERS: [&str; 5] = ["wake-ups", "rate", "waker", "kind", "CPU"];

/// A waker of one unit, with its wake-ups summed over the unit's CPUs.
#[derive(Debug, Clone)]
pub struct Row<'a> {
    waker: &'a Waker,
    /// The index of the unit.
    place: usize,
    woken: &'a str,
    per_s: Option<f64>,
    wakes_per_s: Option<f64>,
    joint_ended_per_s: Option<f64>,
}

/// The rows of the pane.
pub fn rows<'a>(snapshot: &'a Snapshot, view: &View) -> Vec<Row<'a>> {
    let units = match view.level {
        Level::Machine => std::slice::from_ref(&snapshot.machine),
        Level::Package => &*snapshot.packages,
        Level::Core => &*snapshot.cores,
        Level::Cpu => &*snapshot.cpus,
    };
    let list = view.list();
    let mut rows = together(&snapshot.wakers, units);
    rows.retain(|row| list.passes(&[row.woken, kind(row.waker.kind), &who(row.waker)]));
    rows.sort_by(|a, b| {
        let usual = match list.sort {
            0 => most(a, b),
            1 => descending(a.per_s, b.per_s),
            2 => who(a.waker).cmp(&who(b.waker)),
            3 => a.waker.kind.cmp(&b.waker.kind),
            _ => a.place.cmp(&b.place),
        };
        list.ordered(usual)
    });
    rows
}

/// The wakers of a unit, the most frequent first.
pub fn of<'a>(unit: &'a Unit, snapshot: &'a Snapshot) -> Vec<Row<'a>> {
    let mut rows = together(&snapshot.wakers, std::slice::from_ref(unit));
    rows.retain(|row| row.place == 0);
    rows.sort_by(|a, b| most(a, b));
    rows
}

/// The most wake-ups first; if they are unknown, the highest rate.
fn most(a: &Row, b: &Row) -> Ordering {
    descending(a.wakes_per_s, b.wakes_per_s).then(descending(a.per_s, b.per_s))
}

pub fn draw(view: &View, snapshot: &Snapshot, sheet: &mut Sheet) {
    let rows = rows(snapshot, view);
    let empty = match (rows.is_empty(), snapshot.wakers.is_empty()) {
        (false, _) => "",
        (true, true) => "Nothing woke a CPU.",
        (true, false) => "No waker matches the filter; Esc shows all.",
    };
    let selected = view.list().selected.min(rows.len().saturating_sub(1));
    let empty = sheet.line(empty, Tone::Faint);
    let known = snapshot.wakers.iter().filter_map(|waker| waker.wakes_per_s);
    let all = known.sum();
    sheet.list(&grid(&rows, all, view.list()), selected, &[empty], &[]);
}

fn together<'a>(wakers: &'a [Waker], units: &'a [Unit]) -> Vec<Row<'a>> {
    let places: BTreeMap<u32, usize> = (0..units.len())
        .flat_map(|place| units[place].cpus.iter().map(move |cpu| (*cpu, place)))
        .collect();
    let mut rows: Vec<Row> = Vec::new();
    let mut found = BTreeMap::new();
    for waker in wakers {
        let place = places.get(&waker.cpu).copied();
        let key = (
            place,
            waker.kind,
            &waker.name,
            &waker.command,
            waker.pid,
            waker.irq,
        );
        let at = *found.entry(key).or_insert(rows.len());
        if at == rows.len() {
            rows.push(Row {
                waker,
                place: place.unwrap_or(usize::MAX),
                woken: place.map_or(UNKNOWN, |place| &units[place].label),
                per_s: waker.per_s,
                wakes_per_s: waker.wakes_per_s,
                joint_ended_per_s: waker.joint_ended_per_s,
            });
        } else {
            let row = &mut rows[at];
            row.per_s = row.per_s.zip(waker.per_s).map(|(a, b)| a + b);
            row.wakes_per_s = row.wakes_per_s.zip(waker.wakes_per_s).map(|(a, b)| a + b);
            let joint = row.joint_ended_per_s.zip(waker.joint_ended_per_s);
            row.joint_ended_per_s = joint.map(|(a, b)| a + b);
        }
    }
    rows
}

/// The wake-ups of these rows per second.
pub fn sum(rows: &[Row]) -> f64 {
    rows.iter().filter_map(|row| row.wakes_per_s).sum()
}

/// `all`: the whole of the shares; `list`: the sort order.
pub fn grid(rows: &[Row], all: f64, list: &List) -> Grid {
    let sorted = |order: usize, usual: Order| {
        let other = match usual {
            Order::Ascending => Order::Descending,
            Order::Descending => Order::Ascending,
        };
        match (list.sort == order, list.reversed) {
            (false, _) => None,
            (true, false) => Some(usual),
            (true, true) => Some(other),
        }
    };
    let has_joint = rows.iter().any(|row| row.joint_ended_per_s.is_some());
    let mut columns = vec![
        Column::figures("wake-ups", "/s", 8, 0).sorted(sorted(0, Order::Descending)),
        Column::figures("share", "%", 5, 3),
        Column::drawing("", "", 6, 12, 6),
        Column::figures("rate", "/s", 7, 5).sorted(sorted(1, Order::Descending)),
        Column::words("woken", 2).sorted(sorted(4, Order::Ascending)),
        Column::words("kind", 4).sorted(sorted(3, Order::Ascending)),
        Column::text("waker", 12, 1).sorted(sorted(2, Order::Ascending)),
    ];
    if has_joint {
        columns.insert(JOINT, Column::figures("joint", "/s", 6, 5));
    }
    let row = |row: &Row| {
        let wakes = row.wakes_per_s;
        let share = wakes.filter(|_| all > 0.0).map(|wakes| wakes / all);
        let tone = match wakes {
            Some(0.0) => Tone::Faint,
            _ => Tone::Plain,
        };
        let mut cells = vec![
            Cell::Text(numbers::rate(wakes), tone),
            Cell::Text(numbers::percent(share.map(|share| share * 100.0)), tone),
            Cell::Bar(share, Tone::Awake),
            Cell::Text(numbers::rate(row.per_s), tone),
            Cell::Text(row.woken.to_owned(), tone),
            Cell::Text(kind(row.waker.kind).to_owned(), tone),
            Cell::Text(who(row.waker), tone),
        ];
        if has_joint {
            cells.insert(
                JOINT,
                Cell::Text(numbers::rate(row.joint_ended_per_s), tone),
            );
        }
        cells
    };
    Grid {
        rows: rows.iter().map(row).collect(),
        columns,
    }
}

/// The place of the column of joint sleeps that ended.
const JOINT: usize = 3;

fn kind(kind: WakerKind) -> &'static str {
    match kind {
        WakerKind::Interrupt => "IRQ",
        WakerKind::Timer => "timer",
        WakerKind::Ipi => "IPI",
        WakerKind::Other => "other",
    }
}

/// `virtio1-input.0 (26)`, `tick_nohz_handler`, `hrtimer_wakeup of sshd (812)`,
/// `reschedule from make (4711)`.
fn who(waker: &Waker) -> String {
    let mut name = waker.name.clone();
    if let Some(irq) = waker.irq {
        name.push_str(&format!(" ({irq})"));
    }
    let joined = match waker.kind {
        WakerKind::Ipi => " from ",
        _ => " of ",
    };
    match (&waker.command, waker.pid) {
        (Some(command), Some(pid)) => format!("{name}{joined}{command} ({pid})"),
        (Some(command), None) if *command != waker.name => format!("{name}{joined}{command}"),
        (None, Some(pid)) => format!("{name}{joined}process {pid}"),
        _ => name,
    }
}
