//! The driver's table anew.

use reveille_results::Description;
use reveille_results::show::{by_probe, subject};
use reveille_show::columns;
use reveille_show::quantity::{count as thousands, counted};
use reveille_show::sheet::{Column, Heading, Section, Sheet, Table};

use crate::table::{Origin, Residency, Row, Table as Rewritten};

const ROWS: &[Column<Row>] = &columns!(|row|
    words "state", "state", row.state.as_str(), "The idle state";
    measured(Count) "count", "datapoints", row.count, "Datapoints, of the source with the fewest";
    estimated(Ns) "measured_high_ns", "measured", row.measured_high_ns,
        "Upper bound of the percentile, by the source where it is largest";
    driver(Us) "driver_exit_latency_us", "exit: was", row.driver_exit_latency_us,
        "The driver's own exit latency";
    estimated(Us) "exit_latency_us", "now", row.exit_latency_us, "The exit latency to set";
    driver(Us) "driver_target_residency_us", "target: was", row.driver_target_residency_us,
        "The driver's own target residency";
    measured(Us) "break_even_us", "break-even", row.break_even_us,
        "The break-even residency by `power states`, which becomes the target residency; none if it is not known";
    estimated(Us) "target_residency_us", "now", row.target_residency_us, "The target residency to set";
);

/// The columns of the table, by the list in the JSON of `--table` that holds its rows.
pub fn reference() -> Vec<(&'static str, Vec<Heading>)> {
    vec![("rows[]", Column::headings(ROWS))]
}

/// The table for every medium.
pub fn sheet<'a>(rewritten: &'a Rewritten, description: &Description) -> Sheet<'a> {
    let mut sheet = Sheet {
        title: "The idle driver's table from measurement".to_owned(),
        notes: rewritten.warnings.clone(),
        ..Sheet::default()
    };
    sheet.fact("Result", subject(description));
    sheet.fact("Measured", by_probe(description));
    let residency = match rewritten.residency {
        Residency::Keep => "target residencies are kept",
        Residency::Scale => "target residencies keep the driver's ratio to the latency",
    };
    sheet.fact(
        "Figures",
        format!(
            "the exit latency is the upper bound of {} of the {}, with {} confidence; {residency}",
            rewritten.percentile, rewritten.latency, rewritten.confidence
        ),
    );
    let table = Table::of("Idle states", ROWS, &rewritten.rows)
        .whole()
        .known();
    let words = rewritten.rows.iter().flat_map(|row| words(row, rewritten));
    sheet.section(words.fold(
        Section::new("states", "Idle states").table(table),
        Section::text,
    ));
    let read = "Linux 7.0 and later reads it at boot: add it to the boot loader's kernel line and \
                reboot; `reveille states` then shows it.";
    sheet.section(
        Section::new("parameter", "Kernel parameter")
            .text(read)
            .command(&rewritten.parameter),
    );
    sheet
}

/// Why a row is not what was measured.
fn words(row: &Row, rewritten: &Rewritten) -> Vec<String> {
    let mut words = Vec::new();
    if let Origin::Driver { needed } = row.origin {
        let needed = needed.map_or_else(String::new, |needed| {
            let needed = thousands(needed);
            format!("; {} takes {needed} of each source", rewritten.percentile)
        });
        words.push(format!(
            "as in the driver's table: {}{needed}",
            counted(row.count, "datapoint")
        ));
    }
    let unknown = row.break_even_unknown.as_ref();
    words.extend(unknown.map(|what| {
        format!("its break-even is not known ({what}), so its target residency is not by it")
    }));
    words.extend(row.changes.iter().cloned());
    let words = words.into_iter();
    words
        .map(|words| format!("{}: {words}.", row.state))
        .collect()
}
