//! A sheet on a terminal: facts, tables, notes, and last the answer, nearest to the prompt.

use std::io::{self, Write};

use crate::quantity::{self, LEGIBLE, SCALES, Scale, aligned, scale_of, up};
use crate::sheet::{Heading, Judgement, Part, Section, Sheet, Table, Unit, Value};
use crate::table::{self, Side};
use crate::terminal::{BAD, GOOD, NOTABLE, PLAIN, STRONG, Style};
use crate::wrap;

/// The maximum length of a name in a table.
const NAME: usize = 32;

/// Letters of a name where lines are too short for the table.
const NARROW: usize = 20;

/// Failures that stand above the tables.
const FAILURES: usize = 12;

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
    let mut text = Vec::new();
    write_all(sheet, detail, &mut text)?;
    // A section without facts above it begins with an empty line.
    out.write_all(text.strip_prefix(b"\n").unwrap_or(&text))
}

fn write_all(sheet: &Sheet<'_>, detail: Detail, out: &mut Vec<u8>) -> io::Result<()> {
    let notes = sheet.notes.iter().map(|note| ("Note", note.as_str()));
    let shown = match detail {
        Detail::Short => sheet.facts.len(),
        Detail::All => usize::MAX,
    };
    let facts = || sheet.all_facts().take(shown);
    let lines = || facts().chain(notes.clone());
    let indent = lines()
        .map(|(word, _)| word.chars().count() + 2)
        .max()
        .unwrap_or(0);
    let line = |out: &mut Vec<u8>, (word, words): (&str, &str)| {
        wrap::wrapped(out, &format!("{word:indent$}"), indent, words)
    };
    facts().try_for_each(|fact| line(out, fact))?;
    write_failures(sheet, detail, out)?;
    let shown = |section: &&Section<'_>| detail == Detail::All || !section.detail;
    for section in sheet.sections.iter().filter(shown) {
        let alike = sheet.sections.iter().filter(|one| one.id == section.id);
        let alike: Vec<&Table> = alike.flat_map(tables).collect();
        write_section(section, &alike, detail, out)?;
    }
    if !sheet.notes.is_empty() {
        writeln!(out)?;
        notes.clone().try_for_each(|note| line(out, note))?;
    }
    if detail == Detail::Short && !sheet.subjects.is_empty() {
        writeln!(out, "\n--all shows the tables of each")?;
    } else if detail == Detail::Short && has_more(sheet) {
        writeln!(out, "\n--all shows all facts and tables")?;
    }
    if !sheet.answer.is_empty() {
        writeln!(out)?;
        let mut answer = Vec::new();
        wrap::wrapped(&mut answer, "", 0, &sheet.answer)?;
        for line in String::from_utf8_lossy(&answer).lines() {
            writeln!(out, "{STRONG}{line}{STRONG:#}")?;
        }
    }
    let subjects = sheet.subjects.iter().filter(|_| detail == Detail::All);
    subjects.into_iter().try_for_each(|subject| {
        writeln!(out, "\n{STRONG}{}{STRONG:#}", subject.title)?;
        write_all(subject, detail, out)
    })
}

/// Whether facts or whole tables are left out of the short form. Cut tables have a line of their own.
fn has_more(sheet: &Sheet<'_>) -> bool {
    let hidden = |section: &Section<'_>| {
        let mut tables = tables(section);
        section.detail || tables.any(|table| table.first == 0)
    };
    !sheet.details.is_empty() || sheet.sections.iter().any(hidden)
}

fn write_failures(sheet: &Sheet<'_>, detail: Detail, out: &mut impl Write) -> io::Result<()> {
    let shown = match detail {
        Detail::Short => sheet.failures.len().min(FAILURES),
        Detail::All => sheet.failures.len(),
    };
    for (how, what) in &sheet.failures[..shown] {
        let how = how.to_uppercase();
        write!(out, "{BAD}{how}{BAD:#} ")?;
        wrap::onward(out, wrap::width(), how.chars().count() + 1, 2, what)?;
        writeln!(out)?;
    }
    match sheet.failures.len() - shown {
        0 => Ok(()),
        rest => writeln!(out, "{BAD}and {rest} more{BAD:#}: --all shows them"),
    }
}

fn tables<'a>(section: &'a Section<'_>) -> impl Iterator<Item = &'a Table> {
    section.parts.iter().filter_map(|part| match part {
        Part::Table(table) => Some(table),
        _ => None,
    })
}

/// `alike`: the tables of this section and of those with the same id.
fn write_section(
    section: &Section<'_>,
    alike: &[&Table],
    detail: Detail,
    out: &mut impl Write,
) -> io::Result<()> {
    let columns = wrap::terminal().unwrap_or(usize::MAX);
    let shown = |part: &&Part<'_>| match part {
        Part::Table(table) => shown_rows(table, detail) > 0,
        Part::Text(_) | Part::Command(_) => true,
        Part::Bars(bars) => bars.on_terminals,
        Part::Chart(_) => false,
    };
    let captioned = detail == Detail::All && section.has_several_tables();
    for (place, part) in section.parts.iter().filter(shown).enumerate() {
        // A command belongs to the words before it.
        if place == 0 || !matches!(part, Part::Command(_)) {
            writeln!(out)?;
        }
        if place == 0 && section.titled {
            writeln!(out, "{STRONG}{}{STRONG:#}", section.heading)?;
        }
        match part {
            Part::Table(table) => {
                if captioned && !table.caption.is_empty() {
                    wrap::wrapped(out, "", 0, &format!("{}:", table.caption))?;
                }
                write_within(columns, table, alike, detail, out)?;
            }
            Part::Text(text) => wrap::wrapped(out, "", 0, text)?,
            Part::Command(command) => {
                for line in command.lines() {
                    writeln!(out, "{}", format!("    {line}").trim_end())?;
                }
            }
            Part::Bars(bars) => bars.write(out)?,
            Part::Chart(_) => {}
        }
    }
    Ok(())
}

/// In lines of so many columns: names are cut first, then columns stand below others. The columns have the
/// same units and widths in all tables of `alike` with the same headings, so that they can be compared.
fn write_within(
    columns: usize,
    table: &Table,
    alike: &[&Table],
    detail: Detail,
    out: &mut impl Write,
) -> io::Result<()> {
    let alike = alike.iter().filter(|one| one.headings == table.headings);
    let (mut together, mut own) = (Vec::new(), 0..0);
    for one in alike {
        let rows = chosen(one, detail);
        if std::ptr::eq(*one, table) {
            own = together.len()..together.len() + rows.len();
        }
        together.extend(rows);
    }
    let (headings, rows) = cells_of(&table.headings, &together, detail);
    let places: Vec<usize> = (0..table.headings.len())
        .filter(|place| is_shown(&table.headings[*place], detail))
        .collect();
    let style = |row: usize, column: usize| style(&together[row][places[column]]);
    let text = |letters: Option<usize>| {
        let mut text = table::Table::of(headings.clone());
        let last = headings.len() - 1;
        let cell = |(place, cell): (usize, &String)| match letters {
            Some(letters) if headings[place].2 == Side::Left && place < last => {
                quantity::shortened(cell, letters)
            }
            _ => cell.clone(),
        };
        for (number, row) in rows.iter().enumerate() {
            let cells = row.iter().enumerate();
            text.push(cells.map(|(place, one)| (style(number, place), cell((place, one)))));
        }
        text
    };
    let mut lines = text(None);
    if detail == Detail::Short && lines.width() > columns {
        let words = headings.iter().filter(|heading| heading.2 == Side::Left);
        let room = match words.count() {
            // Two of them fit beside each other.
            2.. => columns.saturating_sub(2) / 2,
            _ => columns,
        };
        lines = text(Some(NARROW.min(room).max(1)));
    }
    // The first columns of words name the row.
    let words = headings
        .iter()
        .take_while(|heading| heading.2 == Side::Left);
    lines.write_folded(columns, words.count().max(1), own, out)?;
    match table.rows.len().saturating_sub(shown_rows(table, detail)) {
        0 => Ok(()),
        rest => writeln!(out, "and {rest} more: --all shows them"),
    }
}

fn shown_rows(table: &Table, detail: Detail) -> usize {
    match detail {
        Detail::Short if table.first == 0 => 0,
        // A line about one hidden row would be as long as that row.
        Detail::Short if table.rows.len().saturating_sub(1) > table.first => table.first,
        _ => table.rows.len(),
    }
}

/// The rows that are shown, in the table's order.
fn chosen(table: &Table, detail: Detail) -> Vec<&Vec<Value>> {
    let shown = shown_rows(table, detail);
    let by = |key| table.headings.iter().position(|heading| heading.key == key);
    let Some(column) = table.largest.and_then(by) else {
        let start = table.start.min(table.rows.len() - shown);
        return table.rows[start..start + shown].iter().collect();
    };
    let figure = |place: &usize| {
        table.rows[*place][column]
            .number()
            .unwrap_or(f64::NEG_INFINITY)
    };
    let mut places: Vec<usize> = (0..table.rows.len()).collect();
    places.sort_by(|a, b| figure(b).total_cmp(&figure(a)));
    places.truncate(shown);
    places.sort_unstable();
    places.iter().map(|place| &table.rows[*place]).collect()
}

fn is_shown(heading: &Heading, detail: Detail) -> bool {
    detail == Detail::All || !heading.detail
}

fn style(cell: &Value) -> Style {
    match cell.judgement() {
        Some(Judgement::Good) => GOOD,
        Some(Judgement::Notable) => NOTABLE,
        Some(Judgement::Bad) => BAD,
        None => PLAIN,
    }
}

type Headings = Vec<(String, String, Side)>;

/// Name, unit and side of each column, and the cells as text: each column in one unit.
pub(crate) fn cells(table: &Table, detail: Detail) -> (Headings, Vec<Vec<String>>) {
    cells_of(&table.headings, &chosen(table, detail), detail)
}

fn cells_of(
    columns: &[Heading],
    rows: &[&Vec<Value>],
    detail: Detail,
) -> (Headings, Vec<Vec<String>>) {
    let mut headings = Vec::new();
    let mut lines = vec![Vec::new(); rows.len()];
    for (place, heading) in columns.iter().enumerate() {
        if !is_shown(heading, detail) {
            continue;
        }
        let numbers: Vec<f64> = rows.iter().filter_map(|row| row[place].number()).collect();
        // Whole figures, such as a driver's 2 µs, get no decimals.
        let whole = |factor: f64| {
            numbers
                .iter()
                .all(|number| (number * factor).fract() == 0.0)
        };
        let (factor, unit) = in_one_unit(heading.unit, numbers.clone());
        let are_whole = whole(factor);
        // Nothing stands to the right of the last column.
        let is_last = place + 1 == columns.len();
        let side = match heading.unit {
            Unit::Words => Side::Left,
            _ => Side::Right,
        };
        headings.push((heading.name.to_string(), unit.to_owned(), side));
        for (line, row) in lines.iter_mut().zip(rows) {
            line.push(match row[place].plain() {
                Value::Unknown => "-".to_owned(),
                Value::Text(text) if detail == Detail::Short && !is_last => {
                    quantity::shortened(text, NAME)
                }
                Value::Text(text) => text.clone(),
                small if is_too_small(heading.unit, small, factor) => {
                    // It has a figure.
                    alone(heading.unit, small).unwrap_or_default()
                }
                Value::Interval(number, half) => quantity::interval(number * factor, half * factor),
                Value::SignedInterval(number, half) => {
                    signed(*number, quantity::interval(number * factor, half * factor))
                }
                Value::Estimate(one) if detail == Detail::Short => aligned(one.estimate * factor),
                Value::Estimate(one) => one.text(|number| aligned(number * factor)),
                Value::Difference(one) => {
                    one.text(|number| signed(number, aligned(number * factor)))
                }
                Value::Number(number) if heading.unit == Unit::Count => {
                    quantity::count(number.round() as u64)
                }
                Value::Number(number) if are_whole => format!("{:.0}", number * factor),
                // Only all is 100%.
                Value::Number(number) if unit == "%" && is_nearly_all(number * factor) => {
                    quantity::percent(number * factor)
                }
                Value::AtMost(number) => aligned(up(number * factor)),
                Value::Number(number) => aligned(number * factor),
                Value::Judged(..) => unreachable!("it is plain"),
            });
        }
    }
    (headings, lines)
}

/// The factor of the column's numbers, and the resulting unit. The unit of times suits their median, or
/// their least one if that would lose digits and the largest one remains readable.
fn in_one_unit(unit: Unit, numbers: Vec<f64>) -> (f64, &'static str) {
    match (unit, unit.as_time()) {
        (Unit::UsAsMs, _) => (1e-3, "ms"),
        (_, Some(ns)) => {
            let times = numbers.iter().map(|number| (number * ns).abs());
            let mut times: Vec<f64> = times.filter(|time| *time != 0.0).collect();
            times.sort_by(f64::total_cmp);
            let [least, .., largest] = times[..] else {
                // Only zeros or unknown values: no unit.
                return times
                    .first()
                    .map_or((1.0, ""), |one| within(scale_of(*one), ns));
            };
            let median = scale_of(times[times.len() / 2]);
            let fits = |scale: &Scale| {
                scale.ns <= median.ns && least / scale.ns >= LEGIBLE && largest / scale.ns < 1e5
            };
            within(SCALES.into_iter().find(fits).unwrap_or(median), ns)
        }
        (Unit::Kwh, _) => (1e-3, "MWh"),
        (Unit::Share, _) => (100.0, "%"),
        (Unit::Percent, _) => (1.0, "%"),
        (Unit::Of(unit), _) => (1.0, unit),
        _ => (1.0, ""),
    }
}

/// Whether per cents are less than 100, but three digits are not.
fn is_nearly_all(percent: f64) -> bool {
    (99.95..100.0).contains(&percent)
}

/// The factor from units of `ns` to this one, and its symbol.
fn within(scale: Scale, ns: f64) -> (f64, &'static str) {
    (ns / scale.ns, scale.unit)
}

/// Whether its column's unit leaves too few digits of a time.
fn is_too_small(unit: Unit, value: &Value, factor: f64) -> bool {
    let interval = match value {
        Value::Estimate(one) | Value::Difference(one) => one.interval,
        _ => None,
    };
    let (low, high) = interval.unwrap_or_default();
    let size = [value.number().unwrap_or(0.0), low, high].map(f64::abs);
    let size = size.into_iter().fold(0.0, f64::max);
    unit != Unit::UsAsMs && unit.as_time().is_some() && size != 0.0 && size * factor < LEGIBLE
}

/// `+5` for 5.
fn signed(number: f64, text: String) -> String {
    match number > 0.0 {
        true => format!("+{text}"),
        false => text,
    }
}

/// A figure with its unit, for a page or a sentence; `None` if it is unknown.
pub fn alone(unit: Unit, value: &Value) -> Option<String> {
    let value = value.plain();
    let in_unit_of = |number: f64, text: &dyn Fn(f64) -> String| {
        let (factor, unit) = match unit.as_time() {
            Some(ns) => within(scale_of(number * ns), ns),
            None => in_one_unit(unit, Vec::new()),
        };
        match unit {
            "%" => format!("{}%", text(factor)),
            unit => format!("{} {unit}", text(factor)).trim_end().to_owned(),
        }
    };
    Some(match (value, unit, unit.as_time()) {
        (Value::Unknown, ..) => return None,
        (Value::Text(text), ..) => text.clone(),
        (Value::Interval(number, half), ..) => in_unit_of(*number, &|factor| {
            quantity::interval(number * factor, half * factor)
        }),
        (Value::SignedInterval(number, half), ..) => {
            signed(*number, alone(unit, &Value::Interval(*number, *half))?)
        }
        (Value::Estimate(one) | Value::Difference(one), ..) => {
            let (low, high) = one.interval.unwrap_or((one.estimate, one.estimate));
            let largest = [low, high, one.estimate].map(f64::abs).into_iter();
            in_unit_of(largest.fold(0.0, f64::max), &|factor| {
                one.text(|number| {
                    let text = quantity::three_digits(number * factor);
                    match value {
                        Value::Difference(_) => signed(number, text),
                        _ => text,
                    }
                })
            })
        }
        (Value::AtMost(number), ..) => in_unit_of(*number, &|factor| {
            quantity::three_digits(up(number * factor))
        }),
        (Value::Number(number), Unit::Kwh, _) => {
            format!("{} MWh", quantity::three_digits(number * 1e-3))
        }
        (Value::Number(number), _, Some(ns)) => quantity::duration(number * ns),
        (Value::Number(number), Unit::Count, _) => quantity::count(number.round() as u64),
        (Value::Number(number), Unit::Share, _) => quantity::share(*number),
        (Value::Number(number), Unit::Percent, _) => quantity::share(number / 100.0),
        (Value::Number(number), Unit::Of(unit), _) => {
            format!("{} {unit}", quantity::three_digits(*number))
                .trim_end()
                .to_owned()
        }
        (Value::Number(number), ..) => quantity::three_digits(*number),
        (Value::Judged(..), ..) => unreachable!("it is plain"),
    })
}

#[cfg(test)]
mod tests {
    use reveille_figures::rounds::Estimate;

    use super::*;
    use crate::sheet::tests::{COLUMNS, STATES};
    use crate::sheet::{Column, Section};
    use crate::terminal::plain;

    fn text(sheet: &Sheet<'_>, detail: Detail) -> String {
        let mut out = Vec::new();
        write(sheet, detail, &mut out).unwrap();
        plain(out)
    }

    fn write_table_within(columns: usize, table: &Table, detail: Detail, out: &mut Vec<u8>) {
        write_within(columns, table, &[table], detail, out).unwrap();
    }

    #[test]
    fn tables_of_like_sections_have_their_columns_in_the_same_place_and_unit() {
        const TIME: &[Column<(&str, f64)>] = &[
            Column::words("name", "name", "", |row| row.0.into()),
            Column::measured("ns", "time", Unit::Ns, "", |row| row.1.into()),
        ];
        let mut sheet = Sheet::default();
        let mut group = |id, rows: &[(&'static str, f64)]| {
            let section = Section::new(id, id).titled();
            sheet.section(section.table(Table::of("", TIME, rows)));
        };
        group("group", &[("C1", 2.5e6), ("default_idle", 3e6)]);
        group("group", &[("C1", 400.0)]);
        group("other", &[("C1", 400.0)]);
        let text = text(&sheet, Detail::Short);
        assert_eq!(
            text,
            "group\nname          time\n                µs\nC1            2500\n\
             default_idle  3000\n\n\
             group\nname          time\n                µs\nC1            0.40\n\n\
             other\nname  time\n        ns\nC1     400\n"
        );
    }

    #[test]
    fn a_count_is_rounded_not_cut() {
        let counts = Table {
            rows: vec![vec![Value::Number(722_808.6)]],
            ..Table::of::<u64>(
                "",
                &[Column::measured("n", "n", Unit::Count, "", |n| (*n).into())],
                &[],
            )
        };
        assert_eq!(cells(&counts, Detail::Short).1.concat(), ["722,809"]);
        assert_eq!(
            alone(Unit::Count, &Value::Number(722_808.6)).unwrap(),
            "722,809"
        );
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
    fn failures_precede_the_tables_and_single_subjects_are_optional() {
        let mut sheet = Sheet {
            failures: vec![("failed", "sda: returned -5".into())],
            subjects: vec![Sheet {
                title: "laptop".into(),
                answer: "It sleeps.".into(),
                ..Sheet::default()
            }],
            ..Sheet::default()
        };
        let chart = Section::new("chart", "Chart").titled();
        sheet.section(chart.chart(String::new));
        let texts = Section::new("text", "Path").titled();
        sheet.section(texts.text("One.").text("Two."));
        let common = "FAILED sda: returned -5\n\nPath\nOne.\n\nTwo.\n\n";
        assert_eq!(
            text(&sheet, Detail::Short),
            format!("{common}--all shows the tables of each\n")
        );
        assert_eq!(
            text(&sheet, Detail::All),
            format!("{common}laptop\n\nIt sleeps.\n")
        );
        sheet.failures = vec![("failed", "x".into()); FAILURES + 3];
        assert!(text(&sheet, Detail::Short).contains("x\nand 3 more: --all"));
    }

    #[test]
    fn a_section_of_details_is_shown_on_request() {
        let mut sheet = Sheet::default();
        sheet.section(Section::new("one", "One").text("First."));
        sheet.section(Section::new("two", "Two").text("Second.").detail());
        let of = |detail| {
            let mut out = Vec::new();
            write(&sheet, detail, &mut out).unwrap();
            plain(out)
        };
        assert_eq!(
            of(Detail::Short),
            "First.\n\n--all shows all facts and tables\n"
        );
        assert_eq!(of(Detail::All), "First.\n\nSecond.\n");
    }

    #[test]
    fn if_lines_are_too_short_names_are_cut_before_columns_are_stacked() {
        const COLUMNS: &[Column<u64>] = &[
            Column::words("name", "name", "", |n| "x".repeat(*n as usize).into()),
            Column::measured("n", "n", Unit::Count, "", |n| (*n).into()),
        ];
        let of = |columns, detail| {
            let mut out = Vec::new();
            write_table_within(columns, &Table::of("", COLUMNS, &[25]), detail, &mut out);
            plain(out)
        };
        assert!(of(29, Detail::Short).contains(&format!("{}  25", "x".repeat(25))));
        assert!(of(28, Detail::Short).contains(&format!("{}…  25", "x".repeat(19))));
        assert!(of(28, Detail::All).contains(&format!("{}  25", "x".repeat(25))));
    }

    #[test]
    fn words_are_cut_but_in_the_last_column() {
        const WORDS: &[Column<String>] = &[
            Column::words("a", "a", "", |words| words.as_str().into()),
            Column::words("b", "b", "", |words| words.as_str().into()),
        ];
        let table = Table::of("", WORDS, &["x".repeat(NAME + 5)]);
        let lengths = |detail| {
            let (_, rows) = cells(&table, detail);
            rows[0]
                .iter()
                .map(|cell| cell.chars().count())
                .collect::<Vec<_>>()
        };
        assert_eq!(lengths(Detail::Short), [NAME, NAME + 5]);
        assert_eq!(lengths(Detail::All), [NAME + 5; 2]);
        let mut out = Vec::new();
        write_table_within(50, &table, Detail::Short, &mut out);
        let line = format!("{}…  {}\n", "x".repeat(NARROW - 1), "x".repeat(NAME + 5));
        assert!(plain(out).ends_with(&line));
    }

    #[test]
    fn rows_are_chosen_by_the_largest_figures_and_keep_their_order() {
        const NUMBER: &[Column<u64>] =
            &[Column::measured("n", "n", Unit::Count, "", |n| (*n).into())];
        let table = |first| Table {
            largest: Some("n"),
            ..Table::of("", NUMBER, &[3, 9, 1, 7]).first(first)
        };
        let of = |first, detail| {
            let (_, rows) = cells(&table(first), detail);
            rows.concat().join(" ")
        };
        assert_eq!(of(2, Detail::Short), "9 7");
        assert_eq!(of(2, Detail::All), "3 9 1 7");
        // A section that a terminal omits.
        let one = Table::of("", NUMBER, &[3]).first(0);
        assert!(cells(&one, Detail::Short).1.is_empty());
        assert_eq!(cells(&one, Detail::All).1.len(), 1);
    }

    #[test]
    fn rows_in_the_middle_are_chosen_by_their_places() {
        const NUMBER: &[Column<u64>] =
            &[Column::measured("n", "n", Unit::Count, "", |n| (*n).into())];
        let of = |rows: &[u64], only, detail| {
            let (_, rows) = cells(&Table::of("", NUMBER, rows).only(only), detail);
            rows.concat().join(" ")
        };
        assert_eq!(of(&[3, 9, 1, 7], 1..3, Detail::Short), "9 1");
        assert_eq!(of(&[3, 9, 1, 7], 1..3, Detail::All), "3 9 1 7");
        // A line about the one hidden row would be as long as that row.
        assert_eq!(of(&[3, 9, 1], 1..3, Detail::Short), "3 9 1");
    }

    #[test]
    fn a_judged_cell_is_coloured_and_its_column_stays_aligned() {
        const COLUMNS: &[Column<(&str, f64)>] = &[
            Column::measured("ns", "median", Unit::Ns, "", |row| {
                Value::from(row.1).within(Some(150.0))
            }),
            Column::words("verdict", "verdict", "", |row| {
                Value::from(row.0).judged((row.0 == "over").then_some(Judgement::Bad))
            }),
            Column::words("end", "end", "", |_| "x".into()),
        ];
        let mut out = Vec::new();
        let table = Table::of("", COLUMNS, &[("over", 200.0), ("none", 90.0)]);
        write_table_within(usize::MAX, &table, Detail::Short, &mut out);
        let text = String::from_utf8(out).unwrap();
        let (number, verdict) = (
            format!("{NOTABLE}200{NOTABLE:#}"),
            format!("{BAD}over{BAD:#}"),
        );
        assert_eq!(
            text,
            format!(
                "median  verdict  end\n    ns\n   {number}  {verdict}     x\n    90  none     x\n"
            )
        );
    }

    #[test]
    fn an_upper_bound_is_not_rounded_down() {
        const BOUND: &[Column<f64>] = &[Column::estimated("ns", "at most", Unit::Ns, "", |ns| {
            Value::AtMost(*ns)
        })];
        let of = |ns: f64| {
            let (_, rows) = cells(&Table::of("", BOUND, &[ns, 3e5]), Detail::Short);
            rows[0][0].clone()
        };
        assert_eq!(of(101_010.0), "102");
        assert_eq!(of(101_000.0), "101");
        assert_eq!(of(79_410.0), "79.5");
        let alone = |ns| alone(Unit::Ns, &Value::AtMost(ns)).unwrap();
        assert_eq!([alone(101_010.0), alone(2_501.0)], ["102 µs", "2.51 µs"]);
    }

    #[test]
    fn a_small_time_keeps_its_digits_beside_large_ones() {
        const TIME: &[Column<f64>] = &[Column::measured("ns", "max", Unit::Ns, "", |ns| {
            (*ns).into()
        })];
        let of = |times: &[f64]| {
            let (headings, rows) = cells(&Table::of("", TIME, times), Detail::Short);
            (headings[0].1.clone(), rows.concat().join(" "))
        };
        let as_text = |unit: &str, cells: &str| (unit.to_owned(), cells.to_owned());
        // The budget is 50 µs: 0.07 ms would not show by how much this state exceeds it.
        assert_eq!(
            of(&[68_020.0, 1.3e6, 2.25e6]),
            as_text("µs", "68.0 1300 2250")
        );
        assert_eq!(
            of(&[680_020.0, 1.3e6, 2.25e6]),
            as_text("ms", "0.68 1.30 2.25")
        );
        assert_eq!(of(&[200.0, 2e6, 20e6]), as_text("µs", "0.20 2000 20000"));
        // Over too wide a span the small one has a unit of its own.
        assert_eq!(of(&[9.8e6, 2e9, 300e9]), as_text("s", "9.8 ms 2.00 300"));
    }

    #[test]
    fn a_column_has_one_unit_that_fits_the_middle_of_its_figures() {
        assert_eq!(
            in_one_unit(Unit::Ns, vec![0.0, 0.0, 2e6, 3e5, 7e6]),
            (1e-6, "ms")
        );
        assert_eq!(in_one_unit(Unit::UsAsMs, vec![2.0]), (1e-3, "ms"));
        assert_eq!(in_one_unit(Unit::Us, vec![2.0]), (1.0, "µs"));
        assert_eq!(in_one_unit(Unit::Us, vec![0.0]), (1.0, ""));
        assert_eq!(in_one_unit(Unit::Seconds, vec![0.002]), (1e3, "ms"));
        assert_eq!(in_one_unit(Unit::Share, vec![0.5]), (100.0, "%"));
    }

    #[test]
    fn an_interval_has_the_columns_unit_and_decimals_of_its_own() {
        const TIME: &[Column<f64>] = &[Column::estimated("s", "time", Unit::Seconds, "", |n| {
            Value::Interval(*n, n / 100.0)
        })];
        let (headings, rows) = cells(&Table::of("", TIME, &[0.04, 2.0, 0.05]), Detail::Short);
        assert_eq!(headings[0].1, "ms");
        assert_eq!(rows.concat(), ["40.00 ±0.40", "2000 ±20", "50.00 ±0.50"]);
        let figure = alone(Unit::Seconds, &Value::Interval(0.04, 0.002));
        assert_eq!(figure.unwrap(), "40.0 ±2.0 ms");
        let above = alone(Unit::Seconds, &Value::SignedInterval(0.04, 0.002));
        assert_eq!(above.unwrap(), "+40.0 ±2.0 ms");
        for (unit, value) in [(Unit::Share, 0.123), (Unit::Percent, 12.3)] {
            assert_eq!(alone(unit, &Value::Number(value)).unwrap(), "12.3%");
            assert_eq!(
                alone(unit, &Value::Interval(value, value / 10.0)).unwrap(),
                "12.3 ±1.2%"
            );
        }
        assert_eq!(alone(Unit::Kwh, &Value::Number(2500.0)).unwrap(), "2.5 MWh");
    }

    #[test]
    fn a_difference_has_a_sign_and_one_unit_for_itself_and_its_interval() {
        const CHANGE: &[Column<Estimate>] =
            &[Column::estimated("ns", "change", Unit::Ns, "", |one| {
                Value::difference(Some(one))
            })];
        let of = |estimate, interval| Estimate {
            estimate,
            interval,
            rounds: 10,
        };
        let clear = of(-51_800.0, Some((-69_600.0, 2_000.0)));
        let (headings, rows) = cells(
            &Table::of("", CHANGE, &[clear.clone(), of(3_000.0, None)]),
            Detail::Short,
        );
        assert_eq!(headings[0].1, "µs");
        assert_eq!(rows.concat(), ["-51.8 [-69.6, +2.00]", "+3.00"]);
        const FIGURE: &[Column<Estimate>] =
            &[Column::estimated("ns", "figure", Unit::Ns, "", |one| {
                one.into()
            })];
        let figure = |detail| cells(&Table::of("", FIGURE, [&clear]), detail).1;
        assert_eq!(figure(Detail::Short).concat(), ["-51.8"]);
        assert_eq!(figure(Detail::All).concat(), ["-51.8 [-69.6, 2.00]"]);
        let alone = |value| alone(Unit::Ns, &value).unwrap();
        assert_eq!(
            alone(Value::Difference(clear.clone())),
            "-51.8 [-69.6, +2] µs"
        );
        assert_eq!(alone((&clear).into()), "-51.8 [-69.6, 2] µs");
        // Its own unit would be ns.
        let near_zero = of(0.0, Some((-3_000.0, 4_000.0)));
        assert_eq!(alone(Value::Difference(near_zero)), "0 [-3, +4] µs");
        assert_eq!(alone(Value::Difference(of(0.0, None))), "0 ns");
    }

    #[test]
    fn a_long_table_shows_its_first_rows_and_the_number_of_others() {
        const NUMBER: &[Column<u64>] =
            &[Column::measured("n", "n", Unit::Count, "", |n| (*n).into())];
        let of = |rows: u64, detail| {
            let rows: Vec<u64> = (0..rows).collect();
            let mut out = Vec::new();
            write_table_within(usize::MAX, &Table::of("", NUMBER, &rows), detail, &mut out);
            plain(out)
        };
        assert!(of(12, Detail::Short).ends_with("9\nand 2 more: --all shows them\n"));
        assert!(of(12, Detail::All).ends_with("11\n"));
        assert!(of(11, Detail::Short).ends_with("10\n"));
    }
}
