//! Several machines, or one before and after, side by side.

use std::io::{self, Write};

use reveille_resume::analysis::{DeviceSpread, Machine, Spread, counted, stage_words};
use reveille_resume::cycle::StageKind;

use super::tables::{NAME, cut};
use super::text::{duration, failures, known, ms, notes, range};
use reveille_show::table::{Side, Table};
use reveille_show::wrap::{COLUMNS, wrapped};

/// Columns need short names.
const LETTERS: [&str; 26] = [
    "A", "B", "C", "D", "E", "F", "G", "H", "I", "J", "K", "L", "M", "N", "O", "P", "Q", "R", "S",
    "T", "U", "V", "W", "X", "Y", "Z",
];

pub fn side_by_side(machines: &[Machine], top: usize, out: &mut impl Write) -> io::Result<()> {
    for (letter, machine) in LETTERS.iter().zip(machines) {
        let words = [
            counted(machine.cycles.len(), "cycle"),
            format!("suspend {}", known(machine.suspend_us, range)),
            format!(
                "asleep {}",
                known(machine.asleep_us, |all| duration(all.median))
            ),
            format!("resume {}", known(machine.resume_us, range)),
        ];
        wrapped(
            out,
            &format!("{letter}  "),
            3,
            &format!("{}: {}", machine.name, words.join(", ")),
        )?;
        failures(machine, out)?;
        if let Some(what_if) = &machine.what_if
            && let Some(last) = what_if.replays.last()
        {
            wrapped(
                out,
                "   ",
                5,
                &format!(
                    "with all changes: {} instead of {} (cycle {})",
                    duration(last.total_us),
                    duration(what_if.measured_us),
                    what_if.cycle
                ),
            )?;
        }
    }
    writeln!(out, "\nStages, medians in ms")?;
    stages(machines).write_folded(COLUMNS, 1, out)?;
    writeln!(out, "\nSlowest devices of the resumes, medians in ms")?;
    devices(machines, top).write_folded(COLUMNS, 2, out)?;
    for machine in machines {
        if !machine.notes.is_empty() || !machine.source.left_out.is_empty() {
            write!(out, "\n{}:", machine.name)?;
            notes(machine, out)?;
        }
    }
    wrapped(
        out,
        "\n",
        0,
        "One LOG alone shows its critical path, and what could be gained.",
    )
}

fn heads(first: &[(&'static str, &'static str, Side)], machines: &[Machine]) -> Table {
    let letters = LETTERS.iter().take(machines.len());
    let letters = letters.map(|letter| (*letter, "", Side::Right));
    Table::new(&first.iter().copied().chain(letters).collect::<Vec<_>>())
}

fn stages(machines: &[Machine]) -> Table {
    let mut table = heads(&[("stage", "", Side::Left)], machines);
    let mut kinds: Vec<StageKind> = machines
        .iter()
        .flat_map(|machine| machine.stages.iter().map(|stage| stage.stage))
        .collect();
    kinds.sort_unstable();
    kinds.dedup();
    let median = |spread: &Spread| ms(spread.median);
    for kind in kinds {
        let figure = |machine: &Machine| {
            let mut all = machine.stages.iter();
            let stage = all.find(|stage| stage.stage == kind);
            known(stage.map(|stage| &stage.duration_us), median)
        };
        let mut row = vec![stage_words(kind).to_owned()];
        row.extend(machines.iter().take(LETTERS.len()).map(figure));
        table.push(row);
    }
    table
}

fn devices(machines: &[Machine], top: usize) -> Table {
    let mut table = heads(
        &[("device", "", Side::Left), ("driver", "", Side::Left)],
        machines,
    );
    for device in slowest(machines).into_iter().take(top) {
        let figure = |machine: &Machine| {
            let mut all = machine.devices.iter();
            let own = all.find(|one| is_same(one, device));
            known(own, |one| ms(one.resume_us.median))
        };
        let mut row = vec![
            cut(&device.device, NAME),
            cut(device.driver.as_deref().unwrap_or_default(), 16),
        ];
        row.extend(machines.iter().take(LETTERS.len()).map(figure));
        table.push(row);
    }
    table
}

fn is_same(one: &DeviceSpread, other: &DeviceSpread) -> bool {
    one.device == other.device && one.driver == other.driver
}

/// Each device once, in the order of its longest median on any machine.
fn slowest(machines: &[Machine]) -> Vec<&DeviceSpread> {
    let mut all: Vec<&DeviceSpread> = machines
        .iter()
        .flat_map(|machine| &machine.devices)
        .collect();
    all.sort_by_key(|device| std::cmp::Reverse(device.resume_us.median));
    let mut once: Vec<&DeviceSpread> = Vec::new();
    for device in all {
        if !once.iter().any(|one| is_same(one, device)) {
            once.push(device);
        }
    }
    once
}
