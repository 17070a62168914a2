//! A sheet on a terminal: facts, tables, notes, and last the answer, nearest to the prompt.

use std::io::{self, Write};

use crate::quantity::{self, aligned, scale_of};
use crate::sheet::{Heading, Part, Sheet, Table, Unit, Value};
use crate::table::{self, Side};
use crate::terminal::STRONG;
use crate::wrap;

/// The maximum length of a name in a table.
const NAME: usize = 32;

/// How much of a sheet is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// The most important rows and columns.
    Short,
    /// All of them.
    All,
}

/// Writes the sheet as text.
///
/// # Errors
/// Of `out`.
pub fn write(sheet: &Sheet<'_>, detail: Detail, out: &mut impl Write) -> io::Result<()> {
    let notes = sheet.notes.iter().map(|note| ("Note", note.as_str()));
    let facts = sheet
        .facts
        .iter()
        .map(|(word, figures)| (*word, figures.as_str()));
    let lines = || facts.clone().chain(notes.clone());
    let indent = lines()
        .map(|(word, _)| word.chars().count() + 2)
        .max()
        .unwrap_or(0);
    let line = |out: &mut _, (word, words): (&str, &str)| {
        wrap::wrapped(out, &format!("{word:indent$}"), indent, words)
    };
    facts.clone().try_for_each(|fact| line(out, fact))?;
    for part in sheet.sections.iter().flat_map(|section| &section.parts) {
        match part {
            Part::Table(table) => {
                writeln!(out)?;
                write_table(table, detail, out)?;
            }
            Part::Text(text) => {
                writeln!(out)?;
                wrap::wrapped(out, "", 0, text)?;
            }
            Part::Command(command) => writeln!(out, "    {command}")?,
            Part::Bars(bars) if bars.on_terminals => {
                writeln!(out)?;
                bars.write(out)?;
            }
            Part::Bars(_) | Part::Chart(_) => {}
        }
    }
    if !sheet.notes.is_empty() {
        writeln!(out)?;
        notes.clone().try_for_each(|note| line(out, note))?;
    }
    if sheet.answer.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    let mut answer = Vec::new();
    wrap::wrapped(&mut answer, "", 0, &sheet.answer)?;
    for line in String::from_utf8_lossy(&answer).lines() {
        writeln!(out, "{STRONG}{line}{STRONG:#}")?;
    }
    Ok(())
}

/// Writes a table.
///
/// # Errors
/// Of `out`.
pub fn write_table(table: &Table, detail: Detail, out: &mut impl Write) -> io::Result<()> {
    let (headings, rows) = cells(table, detail);
    let mut text = table::Table::of(headings);
    rows.into_iter().for_each(|row| text.push(row));
    let columns = wrap::terminal().unwrap_or(usize::MAX);
    text.write_folded(columns, words(table).max(1), out)?;
    match table.rows.len().saturating_sub(shown_rows(table, detail)) {
        0 => Ok(()),
        rest => writeln!(out, "and {rest} more: --full shows them"),
    }
}

/// The number of leading columns of words, which name the row.
fn words(table: &Table) -> usize {
    let words = |heading: &&Heading| heading.unit == Unit::Words;
    table.headings.iter().take_while(words).count()
}

fn shown_rows(table: &Table, detail: Detail) -> usize {
    match detail {
        // A line about one omitted row is as long as that row.
        Detail::Short if table.rows.len() > table.first + 1 => table.first,
        _ => table.rows.len(),
    }
}

type Headings = Vec<(String, String, Side)>;

/// Name, unit and side of each column, and the cells as text: each column in one unit.
pub(crate) fn cells(table: &Table, detail: Detail) -> (Headings, Vec<Vec<String>>) {
    let rows = &table.rows[..shown_rows(table, detail)];
    let mut headings = Vec::new();
    let mut lines = vec![Vec::new(); rows.len()];
    for (place, heading) in table.headings.iter().enumerate() {
        if heading.detail && detail == Detail::Short {
            continue;
        }
        let numbers = rows.iter().filter_map(|row| match row[place] {
            Value::Number(number) => Some(number),
            Value::Text(_) | Value::Unknown => None,
        });
        let numbers: Vec<f64> = numbers.collect();
        // Whole figures, such as a driver's 2 µs, get no decimals.
        let whole = |factor: f64| {
            numbers
                .iter()
                .all(|number| (number * factor).fract() == 0.0)
        };
        let (factor, unit) = in_one_unit(heading.unit, numbers.clone());
        let are_whole = whole(factor);
        let side = match heading.unit {
            Unit::Words => Side::Left,
            _ => Side::Right,
        };
        headings.push((heading.name.to_owned(), unit.to_owned(), side));
        for (line, row) in lines.iter_mut().zip(rows) {
            line.push(match &row[place] {
                Value::Unknown => "-".to_owned(),
                Value::Text(text) if detail == Detail::Short => cut(text),
                Value::Text(text) => text.clone(),
                Value::Number(number) if are_whole => format!("{:.0}", number * factor),
                Value::Number(number) => aligned(number * factor),
            });
        }
    }
    (headings, lines)
}

/// The factor of the column's numbers, and the resulting unit. The unit of times suits their median.
fn in_one_unit(unit: Unit, mut numbers: Vec<f64>) -> (f64, &'static str) {
    match (unit, unit.as_time()) {
        (_, Some(ns)) => {
            numbers.retain(|number| *number != 0.0);
            numbers.sort_by(|a, b| a.abs().total_cmp(&b.abs()));
            match numbers.get(numbers.len() / 2) {
                Some(middle) => {
                    let scale = scale_of(middle * ns);
                    (ns / scale.ns, scale.unit)
                }
                // Only zeros or unknown values: no unit.
                None => (1.0, ""),
            }
        }
        (Unit::Share, _) => (100.0, "%"),
        (Unit::Of(unit), _) => (1.0, unit),
        _ => (1.0, ""),
    }
}

/// A figure with its unit, for a page or a sentence.
pub(crate) fn alone(unit: Unit, value: &Value) -> Option<String> {
    Some(match (value, unit, unit.as_time()) {
        (Value::Unknown, ..) => return None,
        (Value::Text(text), ..) => text.clone(),
        (Value::Number(number), _, Some(ns)) => quantity::duration(number * ns),
        (Value::Number(number), Unit::Count, _) => quantity::count(*number as u64),
        (Value::Number(number), Unit::Share, _) => quantity::share(*number),
        (Value::Number(number), Unit::Of(unit), _) => {
            format!("{} {unit}", quantity::three_digits(*number))
                .trim_end()
                .to_owned()
        }
        (Value::Number(number), ..) => quantity::three_digits(*number),
    })
}

fn cut(name: &str) -> String {
    match name.chars().count() > NAME {
        true => name.chars().take(NAME - 1).chain(['…']).collect(),
        false => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sheet::tests::{COLUMNS, STATES};
    use crate::sheet::{Column, Section};
    use crate::terminal::plain;

    fn text(sheet: &Sheet<'_>, detail: Detail) -> String {
        let mut out = Vec::new();
        write(sheet, detail, &mut out).unwrap();
        plain(out)
    }

    #[test]
    fn facts_come_first_and_the_answer_last() {
        let mut sheet = Sheet {
            answer: "C1 wakes in 2.5 µs.".into(),
            notes: vec!["Few datapoints.".into()],
            ..Sheet::default()
        };
        sheet.fact("Measured", "CPU 1");
        sheet.section(Section::new("states", "States").table(Table::of("", COLUMNS, &STATES)));
        assert_eq!(
            text(&sheet, Detail::Short),
            "Measured  CPU 1\n\n\
             state         exit  median\n\
             \u{20}               µs      µs\n\
             C1               2    2.50\n\
             C6, \"deep\" <     -       -\n\n\
             Note      Few datapoints.\n\n\
             C1 wakes in 2.5 µs.\n"
        );
        assert!(text(&sheet, Detail::All).contains("waits\n"));
    }

    #[test]
    fn a_column_has_one_unit_that_suits_its_median() {
        assert_eq!(
            in_one_unit(Unit::Ns, vec![0.0, 0.0, 2e6, 3e3, 7e6]),
            (1e-6, "ms")
        );
        assert_eq!(in_one_unit(Unit::Us, vec![2.0]), (1.0, "µs"));
        assert_eq!(in_one_unit(Unit::Us, vec![0.0]), (1.0, ""));
        assert_eq!(in_one_unit(Unit::Seconds, vec![0.002]), (1e3, "ms"));
        assert_eq!(in_one_unit(Unit::Share, vec![0.5]), (100.0, "%"));
    }

    #[test]
    fn a_long_table_shows_its_first_rows_and_the_number_of_others() {
        const NUMBER: &[Column<u64>] =
            &[Column::measured("n", "n", Unit::Count, "", |n| (*n).into())];
        let of = |rows: u64, detail| {
            let rows: Vec<u64> = (0..rows).collect();
            let mut out = Vec::new();
            write_table(&Table::of("", NUMBER, &rows), detail, &mut out).unwrap();
            plain(out)
        };
        assert!(of(12, Detail::Short).ends_with("9\nand 2 more: --full shows them\n"));
        assert!(of(12, Detail::All).ends_with("11\n"));
        assert!(of(11, Detail::Short).ends_with("10\n"));
    }
}
