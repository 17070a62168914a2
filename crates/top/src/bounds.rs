//! The pane of bounds: what keeps CPUs from deep states, and its holders.

use std::cmp::Ordering;

use ratatui::text::Line;
use reveille_kernel::cpulist;
use reveille_watch::live::{Bound, BoundKind, Snapshot, Unit};

use crate::grid::{Cell, Column, Grid};
use crate::look::{Tone, UNKNOWN};
use crate::sheet::{LIST_LEAST, Sheet};
use crate::states;
use crate::view::View;

/// Sort orders.
pub const ORDERS: [&str; 3] = ["bound", "kind", "holder"];

/// The rows of the pane.
pub fn rows<'a>(snapshot: &'a Snapshot, view: &View) -> Vec<&'a Bound> {
    let list = view.list();
    let passes = |bound: &&Bound| {
        list.passes(&[
            kind(bound.kind),
            &bound.text,
            bound.name.as_deref().unwrap_or_default(),
            bound.command.as_deref().unwrap_or_default(),
        ])
    };
    let mut rows: Vec<&Bound> = snapshot.bounds.iter().filter(passes).collect();
    rows.sort_by(|a, b| {
        let usual = match list.sort {
            0 => strictest(a, b),
            1 => kind(a.kind).cmp(kind(b.kind)),
            _ => a.name.cmp(&b.name),
        };
        list.ordered(usual)
    });
    rows
}

/// The lowest bound first; unknown ones last.
fn strictest(a: &Bound, b: &Bound) -> Ordering {
    let bound = |bound: &Bound| bound.bound_us.map_or(u64::MAX, u64::from);
    bound(a).cmp(&bound(b))
}

pub fn grid(bounds: &[&Bound]) -> Grid {
    let columns = vec![
        Column::figures("bound", "µs", 5, 1),
        Column::words("kind", 2),
        Column::text("CPUs", 4, 3),
        Column::text("rules out", 9, 5),
        Column::text("held by", 10, 4),
        Column::text("description", 20, 0),
    ];
    let row = |bound: &&Bound| {
        vec![
            Cell::plain(
                bound
                    .bound_us
                    .map_or(UNKNOWN.to_owned(), |us| us.to_string()),
            ),
            Cell::plain(kind(bound.kind)),
            Cell::plain(cpus(&bound.cpus)),
            Cell::plain(some(bound.rules_out.join(", "))),
            Cell::plain(holder(bound)),
            Cell::Text(bound.text.clone(), Tone::Faint),
        ]
    };
    Grid {
        rows: bounds.iter().map(row).collect(),
        columns,
    }
}

fn some(text: String) -> String {
    match text.is_empty() {
        true => UNKNOWN.to_owned(),
        false => text,
    }
}

fn cpus(cpus: &[u32]) -> String {
    match cpus.is_empty() {
        true => "all".to_owned(),
        false => cpulist::format(cpus),
    }
}

/// `sshd (812)`.
fn holder(bound: &Bound) -> String {
    match (&bound.name, bound.pid) {
        (Some(name), Some(pid)) => format!("{name} ({pid})"),
        (Some(name), None) => name.clone(),
        (None, Some(pid)) => format!("process {pid}"),
        (None, None) => UNKNOWN.to_owned(),
    }
}

fn kind(kind: BoundKind) -> &'static str {
    match kind {
        BoundKind::Request => "request",
        BoundKind::PerCpu => "per CPU",
        BoundKind::DisabledState => "disabled",
        BoundKind::CommandLine => "command line",
    }
}

pub fn draw(view: &View, snapshot: &Snapshot, sheet: &mut Sheet) {
    if sheet.rows() > 2 * LIST_LEAST {
        let room = sheet.rows() - LIST_LEAST;
        let in_force = sheet.table(&in_force(snapshot));
        in_force.iter().take(room).for_each(|line| sheet.put(line));
        sheet.put(&Line::default());
    }
    let rows = rows(snapshot, view);
    let selected = view.list().selected.min(rows.len().saturating_sub(1));
    let more = match (rows.get(selected), snapshot.bounds.is_empty()) {
        (Some(bound), _) => {
            let mut more = vec![Line::default()];
            more.extend(sheet.sentence(&bound.text, Tone::Strong));
            for command in bound.command.iter().filter(|command| !command.is_empty()) {
                more.extend(sheet.sentence(&format!("command: {command}"), Tone::Plain));
            }
            more
        }
        (None, true) => {
            vec![sheet.line("No bound is held, and no state is disabled.", Tone::Faint)]
        }
        (None, false) => {
            vec![sheet.line("No bound matches the filter; Esc shows all.", Tone::Faint)]
        }
    };
    sheet.list(&grid(&rows), selected, &more, &[]);
}

/// The bound in force and the allowed states, grouped by equal CPUs.
fn in_force(snapshot: &Snapshot) -> Grid {
    let mut alike: Vec<(Vec<u32>, &Unit)> = Vec::new();
    for unit in snapshot.cpus.iter().filter(|unit| unit.online) {
        let same = |(_, other): &&mut (Vec<u32>, &Unit)| {
            other.bound_us == unit.bound_us && allowed(other) == allowed(unit)
        };
        match alike.iter_mut().find(same) {
            Some((cpus, _)) => cpus.extend(&unit.cpus),
            None => alike.push((unit.cpus.clone(), unit)),
        }
    }
    let row = |(cpus, unit): &(Vec<u32>, &Unit)| {
        let (left, gone) = allowed(unit);
        vec![
            Cell::plain(unit.bound_us.map_or("none".to_owned(), |us| us.to_string())),
            Cell::plain(cpulist::format(cpus)),
            Cell::plain(some(left.join(", "))),
            Cell::plain(some(gone.join(", "))),
        ]
    };
    Grid {
        columns: vec![
            Column::figures("in force", "µs", 5, 0),
            Column::text("CPUs", 6, 1),
            Column::text("allows", 10, 2),
            Column::text("rules out", 10, 3),
        ],
        rows: alike.iter().map(row).collect(),
    }
}

/// A unit's allowed states, and the others.
fn allowed(unit: &Unit) -> (Vec<&str>, Vec<&str>) {
    let names = |may: bool| {
        unit.states
            .iter()
            .filter(|state| state.index.is_some() && states::may_be_used(unit, state) == may)
            .map(|state| &*state.name)
            .collect()
    };
    (names(true), names(false))
}
