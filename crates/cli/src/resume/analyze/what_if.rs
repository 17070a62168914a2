//! What the resume would take with something changed.

use std::io::{self, Write};

use reveille_resume::analysis::{Machine, Replay, WhatIf};

use super::tables::{cut, removal_cells};
use super::text::{duration, ms, range};
use reveille_show::table::{Side, Table};
use reveille_show::wrap::wrapped;

/// Names that a line of words holds.
const NAMES: usize = 6;

pub fn changes(machine: &Machine, out: &mut impl Write) -> io::Result<()> {
    let Some(what_if) = &machine.what_if else {
        return Ok(());
    };
    writeln!(
        out,
        "\nWhat if, one after the other (cycle {})",
        what_if.cycle
    )?;
    table(what_if).write(out)?;
    for replay in &what_if.replays {
        devices(replay, out)?;
    }
    for change in &what_if.unmet {
        wrapped(
            out,
            "",
            2,
            &format!("{change}: meets nothing in this resume"),
        )?;
    }
    match what_if.all_cycles_us {
        Some(all) if all.count > 1 => wrapped(
            out,
            "",
            2,
            &format!(
                "With all changes, over {} cycles: {}",
                all.count,
                range(all)
            ),
        ),
        _ => Ok(()),
    }
}

fn table(what_if: &WhatIf) -> Table {
    let mut table = Table::new(&[
        ("change", "", Side::Left),
        ("resume", "ms", Side::Right),
        ("saves", "ms", Side::Right),
    ]);
    table.row(["as measured".into(), ms(what_if.measured_us), String::new()]);
    for replay in &what_if.replays {
        table.row([
            cut(&replay.change, 50),
            ms(replay.total_us),
            ms(replay.saves_us),
        ]);
    }
    table
}

/// Which devices a change meets.
fn devices(replay: &Replay, out: &mut impl Write) -> io::Result<()> {
    let listed = |names: Vec<String>| {
        let more = names.len().saturating_sub(NAMES);
        let mut words = names.into_iter().take(NAMES).collect::<Vec<_>>().join(", ");
        if more > 0 {
            words = format!("{words} and {more} more");
        }
        words
    };
    if !replay.removed.is_empty() {
        let names = replay.removed.iter().map(|name| name.to_string()).collect();
        wrapped(
            out,
            "",
            2,
            &format!("{}: takes out {}", replay.change, listed(names)),
        )?;
    }
    let Some(last) = replay.deferred.iter().max_by_key(|one| one.ready_us) else {
        return Ok(());
    };
    let count = replay.deferred.len();
    let mut names: Vec<String> = replay
        .deferred
        .iter()
        .map(|one| one.device.to_string())
        .collect();
    names.dedup();
    wrapped(
        out,
        "",
        2,
        &format!(
            "{}: {count} later ({}), the last, {}, ready {} after the resume's begin",
            replay.change,
            listed(names),
            last.device,
            duration(last.ready_us)
        ),
    )
}

/// The best removal, then the best after it.
pub fn steps(machine: &Machine, out: &mut impl Write) -> io::Result<()> {
    if machine.steps.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nStep by step, the best removal each time")?;
    let mut table = Table::new(&[
        ("", "", Side::Right),
        ("without", "", Side::Left),
        ("driver", "", Side::Left),
        ("below", "", Side::Right),
        ("resume", "ms", Side::Right),
        ("saves", "ms", Side::Right),
    ]);
    for (place, removal) in machine.steps.iter().enumerate() {
        let [device, driver, below, resume, saves] = removal_cells(removal);
        table.row([
            (place + 1).to_string(),
            device,
            driver,
            below,
            resume,
            saves,
        ]);
    }
    table.write(out)
}
