//! One machine's cycles in a terminal: in short first, then its stages and tables.

use std::io::{self, Write};

use reveille_resume::analysis::{CycleResult, Machine, Spread, counted, stage_name, stage_words};
use reveille_resume::cycle::{StageKind, Us};
use reveille_resume::graph::Half;

use super::{power, tables, what_if};
use reveille_show::table::{Side, Table};
use reveille_show::terminal::BAD;
use reveille_show::wrap::{COLUMNS, onward, wrapped};

pub const UNKNOWN: &str = "-";

pub fn machine(machine: &Machine, top: usize, out: &mut impl Write) -> io::Result<()> {
    let cycle = machine.shown();
    summary(machine, cycle, out)?;
    failures(machine, out)?;
    writeln!(out)?;
    stages(machine, cycle).write(out)?;
    for half in [Half::Resume, Half::Suspend] {
        tables::path(cycle, half, top, out)?;
        tables::devices(machine, half, top, out)?;
        tables::removals(machine, half, top, out)?;
    }
    what_if::changes(machine, out)?;
    what_if::steps(machine, out)?;
    power::print(machine, out)?;
    notes(machine, out)
}

/// `suspend 680 ms, asleep 20.3 s, resume 650 ms`, and over all cycles where there are several.
fn summary(machine: &Machine, cycle: &CycleResult, out: &mut impl Write) -> io::Result<()> {
    let kernel = machine.source.kernel.as_ref();
    let kernel = kernel.map_or(String::new(), |kernel| format!(", Linux {kernel}"));
    let sleep = cycle.sleep.as_ref();
    let sleep = sleep.map_or(String::new(), |sleep| format!(", {sleep}"));
    let cycles = counted(machine.cycles.len(), "cycle");
    wrapped(
        out,
        "",
        2,
        &format!("{}: {cycles}{sleep}{kernel}", machine.name),
    )?;
    let times = [
        ("suspend", cycle.suspend_us, machine.suspend_us),
        ("asleep", cycle.asleep_us, machine.asleep_us),
        ("resume", cycle.resume_us, machine.resume_us),
    ];
    let told = times.map(|(name, us, _)| format!("{name} {}", known(us, duration)));
    let which = match machine.cycles.len() {
        1 => String::new(),
        _ => format!("cycle {}: ", cycle.number),
    };
    wrapped(out, "", 2, &format!("{which}{}", told.join(", ")))?;
    if machine.cycles.len() > 1 {
        let told = times.map(|(name, _, spread)| format!("{name} {}", known(spread, range)));
        wrapped(out, "", 2, &format!("all: {}", told.join(", ")))?;
    }
    Ok(())
}

/// `650 ms (640 to 702 ms)`.
pub fn range(spread: Spread) -> String {
    format!(
        "{} ({} to {})",
        duration(spread.median),
        duration(spread.min),
        duration(spread.max)
    )
}

/// More of them are counted.
const MOST_FAILED: usize = 12;

/// What failed stands out.
pub fn failures(machine: &Machine, out: &mut impl Write) -> io::Result<()> {
    let failed = machine.failed();
    for one in failed.iter().take(MOST_FAILED) {
        let how = one.how.to_uppercase();
        write!(out, "{BAD}{how}{BAD:#} ")?;
        let cycle = match machine.cycles.len() {
            1 => String::new(),
            _ => format!("cycle {}: ", one.cycle),
        };
        let words = format!("{cycle}{}", one.what);
        onward(out, COLUMNS, how.chars().count() + 1, 2, &words)?;
        writeln!(out)?;
    }
    match failed.len().saturating_sub(MOST_FAILED) {
        0 => Ok(()),
        more => writeln!(out, "{BAD}and {more} more{BAD:#}, see --json"),
    }
}

/// The stages of the shown cycle, and those that only others have; with several cycles, their spread.
fn stages(machine: &Machine, cycle: &CycleResult) -> Table {
    let several = machine.cycles.len() > 1;
    let mut heads = vec![
        ("stage", "", Side::Left),
        ("begins", "ms", Side::Right),
        ("takes", "ms", Side::Right),
        ("calls", "", Side::Right),
        ("they take", "ms", Side::Right),
    ];
    if several {
        heads.extend([
            ("median", "ms", Side::Right),
            ("min", "ms", Side::Right),
            ("max", "ms", Side::Right),
        ]);
    }
    let mut table = Table::new(&heads);
    for (kind, all) in machine.all_stages() {
        let stage = cycle.stages.iter().find(|one| one.stage == kind);
        let with_calls = stage.filter(|stage| stage.calls > 0);
        let mut row = vec![
            stage_words(kind).to_owned(),
            known(stage.and_then(|stage| cycle.begins_us(stage)), ms),
            known(stage.and_then(|stage| stage.duration_us), ms),
            with_calls.map_or(String::new(), |stage| stage.calls.to_string()),
            with_calls.map_or(String::new(), |stage| ms(stage.calls_us)),
        ];
        if several {
            row.extend([
                known(all, |all| ms(all.median)),
                known(all, |all| ms(all.min)),
                known(all, |all| ms(all.max)),
            ]);
        }
        table.push(row);
        let is_asleep =
            kind == StageKind::Idle && cycle.asleep_us == stage.and_then(|stage| stage.duration_us);
        if matches!(kind, StageKind::Platform | StageKind::Idle)
            && !is_asleep
            && let Some(asleep) = cycle.asleep_us
        {
            let mut row = vec!["asleep".to_owned(), String::new(), ms(asleep)];
            row.resize(heads.len(), String::new());
            if several && let Some(all) = &machine.asleep_us {
                row[5..].clone_from_slice(&[ms(all.median), ms(all.min), ms(all.max)]);
            }
            table.push(row);
        }
    }
    table
}

/// What was left out, and what else a reader must know.
pub fn notes(machine: &Machine, out: &mut impl Write) -> io::Result<()> {
    let left_out = &machine.source.left_out;
    if !left_out.is_empty() || !machine.notes.is_empty() {
        writeln!(out)?;
    }
    if !left_out.is_empty() {
        let counts: Vec<String> = left_out
            .iter()
            .map(|(why, count)| format!("{count} {why}"))
            .collect();
        wrapped(out, "Left out: ", 2, &counts.join(", "))?;
    }
    for note in &machine.notes {
        wrapped(out, "Note: ", 2, note)?;
    }
    Ok(())
}

/// `None` as a dash.
pub fn known<T>(figure: Option<T>, text: impl FnOnce(T) -> String) -> String {
    figure.map_or(UNKNOWN.to_owned(), text)
}

/// Milliseconds: three significant digits and at least whole ones; µs below 10 ms.
pub fn ms(us: Us) -> String {
    let ms = us as f64 / 1e3;
    match us.abs() {
        100_000.. => format!("{ms:.0}"),
        10_000.. => format!("{ms:.1}"),
        1_000.. => format!("{ms:.2}"),
        _ => format!("{ms:.3}"),
    }
}

/// In the unit that fits.
pub fn duration(us: Us) -> String {
    let size = us as f64;
    let digits = |value: f64| match value.abs() {
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    };
    match size.abs() {
        _ if us.abs() < 1_000 => format!("{us} µs"),
        // 999.5 would be rounded to 1000: that is the next unit's 1.
        ms if ms < 999_500.0 => format!("{} ms", digits(size / 1e3)),
        _ => format!("{} s", digits(size / 1e6)),
    }
}

/// A stage in one word, for columns.
pub fn stage_column(stage: StageKind) -> String {
    stage_name(stage).replace('_', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_digits_and_the_unit_that_fits() {
        assert_eq!(duration(7), "7 µs");
        assert_eq!(duration(49_000), "49.0 ms");
        assert_eq!(duration(650_000), "650 ms");
        assert_eq!(duration(999_600), "1.00 s");
        assert_eq!(ms(650_123), "650");
        assert_eq!(ms(-12), "-0.012");
        assert_eq!(ms(1_740), "1.74");
    }
}
