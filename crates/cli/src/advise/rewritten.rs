//! The driver's table anew, as text.

use std::io::{self, Write};

use reveille_advise::table::{Origin, Residency, Row, Table as Rewritten};
use reveille_results::Loaded;

use super::evidence::{of_what, probe};
use super::text::{UNKNOWN, named, us, wrapped};
use reveille_show::table::{Side, Table};

pub fn write(rewritten: &Rewritten, loaded: &Loaded, out: &mut impl Write) -> io::Result<()> {
    named(out, "Result", &of_what(loaded))?;
    named(out, "Measured", probe(loaded.description.probe))?;
    let residency = match rewritten.residency {
        Residency::Keep => "target residencies are kept",
        Residency::Scale => "target residencies keep the driver's ratio to the latency",
    };
    let figures = format!(
        "the exit latency is the upper bound of {} of the {}, with {} confidence; {residency}",
        rewritten.percentile, rewritten.latency, rewritten.confidence
    );
    named(out, "Figures", &figures)?;
    writeln!(out)?;
    table(rewritten).write(out)?;
    writeln!(out)?;
    for row in &rewritten.rows {
        if let Origin::Driver { needed } = row.origin {
            let needed = needed.map_or_else(String::new, |needed| {
                format!("; {} takes {needed} of each source", rewritten.percentile)
            });
            let words = format!("as the driver has it: {} datapoints{needed}", row.count);
            wrapped(out, &format!("{}: ", row.state), 2, &words)?;
        }
        for change in &row.changes {
            wrapped(out, &format!("{}: ", row.state), 2, change)?;
        }
    }
    for warning in &rewritten.warnings {
        named(out, "Note", warning)?;
    }
    named(
        out,
        "Read",
        "at boot, by Linux 7.0 and later: add it to the boot loader's kernel line and reboot; \
         `reveille states` then shows it",
    )?;
    writeln!(out, "\n{}", rewritten.parameter)
}

fn table(rewritten: &Rewritten) -> Table {
    let mut table = Table::new(&[
        ("state", "", Side::Left),
        ("count", "", Side::Right),
        ("measured", "µs", Side::Right),
        ("exit: was", "µs", Side::Right),
        ("now", "µs", Side::Right),
        ("residency: was", "µs", Side::Right),
        ("now", "µs", Side::Right),
    ]);
    for row in &rewritten.rows {
        let Row {
            state,
            count,
            measured_high_ns,
            ..
        } = row;
        table.row([
            state.clone(),
            count.to_string(),
            measured_high_ns.map_or(UNKNOWN.to_owned(), us),
            row.driver_exit_latency_us.to_string(),
            row.exit_latency_us.to_string(),
            row.driver_target_residency_us.to_string(),
            row.target_residency_us.to_string(),
        ]);
    }
    table
}
