//! What is held, and what it leaves: as a table, as JSON, or in a line beside a command's output.

use std::io::{self, Write};

use super::plan::{Fate, Left, Plan, State, Through};
use crate::chosen::named;
use crate::exit;
use reveille_show::table::{Side, Table};

/// An unknown value: never a zero.
const UNKNOWN: &str = "-";

pub fn write(plan: &Plan, json: bool, out: &mut impl Write) -> io::Result<()> {
    if json {
        serde_json::to_writer_pretty(&mut *out, plan).map_err(io::Error::from)?;
        return writeln!(out);
    }
    writeln!(out, "{}", head(plan))?;
    for group in &plan.groups {
        let kind = group.core_kind.as_ref();
        let kind = kind.map_or_else(String::new, |kind| format!(", {kind}"));
        writeln!(out, "\n{}{kind}", named(&group.cpus))?;
        match plan.percentile {
            Some(_) => with_measured(group).write(out)?,
            None => by_table(group).write(out)?,
        }
    }
    if let Some(percentile) = plan.percentile {
        writeln!(
            out,
            "\nmeasured: {percentile} of the wake latencies in {}",
            plan.result.as_deref().unwrap_or_default()
        )?;
    }
    if !plan.notes.is_empty() {
        writeln!(out)?;
    }
    for note in &plan.notes {
        writeln!(out, "Note: {note}.")?;
    }
    Ok(())
}

/// Below the statement, while it is held.
pub fn until_told(json: bool, out: &mut impl Write) -> io::Result<()> {
    if !json {
        writeln!(out, "\nHeld until Ctrl-C.")?;
    }
    out.flush()
}

/// On standard error, since standard output is the command's.
pub fn in_short(plan: &Plan) {
    for group in &plan.groups {
        let names = |fate: Fate| {
            let states = group.states.iter().filter(|state| state.fate == fate);
            let names: Vec<&str> = states.map(|state| state.name.as_str()).collect();
            names.join(", ")
        };
        let stops = match names(Fate::Stopped) {
            none if none.is_empty() => "stops none".to_owned(),
            stopped => format!("stops {stopped}"),
        };
        exit::say(format_args!(
            "{} held on {}: leaves {}, {stops}",
            bound(plan.bound_us),
            named(&group.cpus),
            names(Fate::Left)
        ));
    }
    for note in &plan.notes {
        exit::say(note);
    }
}

fn head(plan: &Plan) -> String {
    let whose = match plan.all {
        true => "all CPUs".to_owned(),
        false => named(&plan.cpus),
    };
    let through = match plan.through {
        Some(Through::Device) => ", through /dev/cpu_dma_latency",
        Some(Through::EachCpu) => ", through power/pm_qos_resume_latency_us",
        None => "",
    };
    let asked = match plan.request_us == plan.bound_us {
        true => String::new(),
        false => format!(
            "\nBy what was measured, the kernel is asked for {} µs.",
            plan.request_us
        ),
    };
    format!(
        "Latency bound of {} for {whose}{through}{asked}",
        bound(plan.bound_us)
    )
}

fn bound(us: u32) -> String {
    match us {
        0 => "0 (no sleep at all)".to_owned(),
        us => format!("{us} µs"),
    }
}

fn by_table(group: &Left) -> Table {
    let mut table = Table::new(&[
        ("#", "", Side::Right),
        ("state", "", Side::Left),
        ("exit", "µs", Side::Right),
        ("bound", "", Side::Left),
    ]);
    for state in &group.states {
        table.row([
            state.index.to_string(),
            state.name.clone(),
            number(state.exit_latency_us),
            fate(state).to_owned(),
        ]);
    }
    table
}

fn with_measured(group: &Left) -> Table {
    let mut table = Table::new(&[
        ("#", "", Side::Right),
        ("state", "", Side::Left),
        ("exit", "µs", Side::Right),
        ("measured", "µs", Side::Right),
        ("datapoints", "", Side::Right),
        ("bound", "", Side::Left),
    ]);
    for state in &group.states {
        let measured = state.measured_ns.map(|ns| ns as f64 / 1000.0);
        table.row([
            state.index.to_string(),
            state.name.clone(),
            number(state.exit_latency_us),
            measured.map_or_else(|| UNKNOWN.into(), |us| format!("{us:.1}")),
            number(state.datapoints),
            fate(state).to_owned(),
        ]);
    }
    table
}

fn number(number: Option<u64>) -> String {
    number.map_or_else(|| UNKNOWN.into(), |number| number.to_string())
}

fn fate(state: &State) -> &'static str {
    match state.fate {
        Fate::Left => "left",
        Fate::Stopped => "stopped",
        Fate::Disabled => "disabled",
        Fate::Unknown => UNKNOWN,
    }
}
