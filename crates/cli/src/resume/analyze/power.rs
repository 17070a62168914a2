//! What a power meter saw of the cycles.

use std::io::{self, Write};

use reveille_resume::analysis::Machine;
use reveille_resume::power::beside::{LaidBy, Mean, Power};

use super::text::{UNKNOWN, duration, known};
use reveille_show::table::{Side, Table};
use reveille_show::wrap::wrapped;

pub fn print(machine: &Machine, out: &mut impl Write) -> io::Result<()> {
    let Some(power) = &machine.power else {
        return Ok(());
    };
    writeln!(out)?;
    let by = match power.laid_by {
        LaidBy::WallClock => "by the wall clocks",
        LaidBy::Offset => "by --power-offset",
        LaidBy::Drop => "by the drop in power",
    };
    wrapped(
        out,
        "",
        2,
        &format!(
            "Power: {} samples, one every {}, laid beside the log {by}",
            power.samples,
            duration(power.interval_us)
        ),
    )?;
    table(power).write(out)?;
    if let Some(joules) = power.energy_j {
        let whole = power.cycles.iter().filter(|cycle| cycle.energy_j.is_some());
        writeln!(
            out,
            "energy of a cycle, suspend to resume: {joules:.1} J (median of {})",
            whole.count()
        )?;
    }
    if power.gaps > 0 {
        writeln!(
            out,
            "gaps: {}, {} in all, not averaged over",
            power.gaps,
            duration(power.gaps_us)
        )?;
    }
    let left = &power.left_out;
    if left.all() > 0 {
        wrapped(
            out,
            "Left out: ",
            2,
            &format!(
                "{} lines unreadable, {} negative, {} out of order",
                left.unreadable, left.negative, left.out_of_order
            ),
        )?;
    }
    for note in &power.notes {
        wrapped(out, "Note: ", 2, note)?;
    }
    Ok(())
}

fn table(power: &Power) -> Table {
    let mut table = Table::new(&[
        ("", "", Side::Left),
        ("samples", "", Side::Right),
        ("mean", "W", Side::Right),
        ("of idle", "%", Side::Right),
        ("min", "W", Side::Right),
        ("max", "W", Side::Right),
    ]);
    let watts = |watts: f64| format!("{watts:.2}");
    let rows: [(&str, &Mean); 4] = [
        ("outside of cycles", &power.idle),
        ("suspend", &power.suspend),
        ("asleep", &power.asleep),
        ("resume", &power.resume),
    ];
    for (name, mean) in rows {
        let share = mean
            .mean_w
            .zip(power.idle_w)
            .filter(|(_, idle)| *idle > 0.0);
        table.row([
            name.to_owned(),
            mean.samples.to_string(),
            known(mean.mean_w, watts),
            share.map_or(UNKNOWN.into(), |(mean, idle)| {
                format!("{:.1}", mean * 100.0 / idle)
            }),
            known(mean.min_w, watts),
            known(mean.max_w, watts),
        ]);
    }
    table
}
