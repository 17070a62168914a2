//! Meters for people.

use reveille_show::columns;
use reveille_show::quantity::{counted, duration};
use reveille_show::sheet::{Column, Heading, Section, Sheet, Table, Value};

use crate::list::Meters;
use crate::reading::Counts;
use crate::watch::Watched;

const COLUMNS: &[Column<Watched>] = &columns!(|one|
    words "name", "meter", one.about.name.as_str(), "The meter, as --meter takes it";
    words "scope", "covers", one.about.scope.word(), "What it covers";
    words "counts", "counts", counts(one.about.counts), "Is it an energy counter, or a value of power?";
    words "resolution", "step", with_unit(one, one.about.resolution),
        "The step of its digits; in the JSON J or W";
    words detail "range_j", "range", one.about.range_j.map(|j| format!("{j:.0} J")),
        "Where the counter begins again";
    measured(Seconds) "refresh_s", "refresh", one.refresh_s,
        "Mean time between two new values; unknown with fewer than three of them";
    words detail "least_change", "least change", with_unit(one, one.least_change),
        "The least change that was seen; in the JSON J or W";
    measured(Seconds) detail "reading_s", "reading", one.reading_s, "Median time that a reading takes";
    measured(Count) detail "readings", "readings", one.readings, "Readings taken";
    measured(Of("W")) "power_w", "power now", one.power_w, "Mean power of the time it was watched";
);

fn counts(counts: Counts) -> &'static str {
    match counts {
        Counts::Energy => "energy",
        Counts::Power => "power",
    }
}

/// In J or W, thousandths and millionths where it is less.
fn with_unit(one: &Watched, value: Option<f64>) -> Value {
    let unit = match one.about.counts {
        Counts::Energy => "J",
        Counts::Power => "W",
    };
    let text = |value: f64| {
        let (value, prefix) = match value.abs() {
            1.0.. => (value, ""),
            1e-3.. => (value * 1e3, "m"),
            1e-6.. => (value * 1e6, "µ"),
            _ => (value * 1e9, "n"),
        };
        format!(
            "{} {prefix}{unit}",
            reveille_show::quantity::three_digits(value)
        )
    };
    value.map(text).into()
}

/// The columns of the table, by the list in the JSON that holds its rows.
pub fn reference() -> Vec<(&'static str, Vec<Heading>)> {
    vec![("meters[]", Column::headings(COLUMNS))]
}

/// The meters for every medium.
pub fn sheet(meters: &Meters) -> Sheet<'_> {
    let found = meters.meters.len();
    let watched = duration(meters.watched_s * 1e9);
    let mut sheet = Sheet {
        title: "Meters of power".to_owned(),
        answer: match found {
            0 => "No meter of power can be read here.".to_owned(),
            _ => {
                let each = if found == 1 { "" } else { " each" };
                format!(
                    "{}, watched for {watched}{each}.",
                    counted(found as u64, "meter")
                )
            }
        },
        ..Sheet::default()
    };
    let table = Table::of("Meters", COLUMNS, &meters.meters).whole();
    sheet.section(Section::new("meters", "Meters").table(table));
    let mut missing = Section::new("missing", "Without a reading").titled();
    if found > 0 {
        missing = missing.detail();
    }
    for why in &meters.missing {
        missing = missing.text(why.clone());
    }
    sheet.section(missing);
    sheet
}

/// What a meter is, in words, and how often it has a new value.
pub fn words(meter: &Watched) -> String {
    let refresh = meter.refresh_s.map_or(String::new(), |s| {
        format!(", a new value every {}", duration(s * 1e9))
    });
    format!(
        "{} ({}; {}{refresh})",
        meter.about.name,
        meter.about.scope.word(),
        counts(meter.about.counts)
    )
}

#[cfg(test)]
mod tests {
    use reveille_show::sheet::not_in_json;

    use super::*;
    use crate::reading::{About, Scope};

    #[test]
    fn every_column_is_a_field_of_the_json_and_small_steps_have_prefixes() {
        let watched = Watched {
            about: About {
                name: "rapl:package-0".to_owned(),
                scope: Scope::Package,
                counts: Counts::Energy,
                resolution: Some(61e-6),
                range_j: Some(262_143.0),
            },
            readings: 1000,
            reading_s: 1e-6,
            refresh_s: Some(1e-3),
            least_change: Some(0.012),
            power_w: Some(37.0),
        };
        assert_eq!(with_unit(&watched, Some(61e-6)), Value::from("61 µJ"));
        assert_eq!(with_unit(&watched, Some(0.012)), Value::from("12 mJ"));
        let meters = Meters {
            watched_s: 3.0,
            meters: vec![watched],
            missing: Vec::new(),
        };
        let json = serde_json::to_value(&meters).unwrap();
        for (list, headings) in reference() {
            assert_eq!(not_in_json(&json, list, &headings), [""; 0]);
        }
        assert_eq!(sheet(&meters).answer, "1 meter, watched for 3 s.");
    }
}
