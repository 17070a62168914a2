//! A sheet as Markdown, to paste into an issue: everything but the charts.

use std::fmt::Write as _;

use crate::sheet::{Part, Sheet, Table};
use crate::table::Side;
use crate::terminal::is_control;
use crate::text::{Detail, cells};

/// The sheet as Markdown with GitHub's tables.
pub fn markdown(sheet: &Sheet<'_>) -> String {
    let mut out = String::new();
    write(sheet, "##", &mut out);
    for subject in &sheet.subjects {
        out.push('\n');
        write(subject, "###", &mut out);
    }
    out
}

/// Below a heading of that level.
fn write(sheet: &Sheet<'_>, level: &str, out: &mut String) {
    // Writing to a String cannot fail.
    let _ = writeln!(out, "{level} {}", line(&sheet.title));
    if !sheet.answer.is_empty() {
        let _ = write!(out, "\n**{}**\n", prose(&sheet.answer));
    }
    for (how, what) in &sheet.failures {
        let _ = write!(out, "\n**{}: {}**\n", line(how), prose(what));
    }
    if sheet.all_facts().next().is_some() {
        out.push('\n');
    }
    for (word, figures) in sheet.all_facts() {
        let _ = writeln!(out, "- {word}: {}", prose(figures));
    }
    for section in &sheet.sections {
        let shown = |part: &&Part<'_>| !matches!(part, Part::Bars(_) | Part::Chart(_));
        let parts: Vec<_> = section.parts.iter().filter(shown).collect();
        if !parts.is_empty() {
            let _ = write!(out, "\n{level}# {}\n", line(&section.heading));
        }
        for part in parts {
            out.push('\n');
            match part {
                Part::Table(one) => {
                    if section.has_several_tables() && !one.caption.is_empty() {
                        let _ = write!(out, "{}:\n\n", line(&one.caption));
                    }
                    table(one, out);
                }
                Part::Text(text) => out.push_str(&(prose(text) + "\n")),
                Part::Command(command) => {
                    // As code no letter is markup.
                    for line in command.lines() {
                        let _ = writeln!(out, "    {}", line.replace(is_control, " "));
                    }
                }
                Part::Bars(_) | Part::Chart(_) => {}
            }
        }
    }
    for note in &sheet.notes {
        let _ = write!(out, "\n> {}\n", prose(note));
    }
}

fn table(table: &Table, out: &mut String) {
    let (headings, rows) = cells(table, Detail::All);
    let name = |(name, unit, _): &(String, String, Side)| match unit.as_str() {
        "" => name.clone(),
        unit => format!("{name}, {unit}"),
    };
    let rule = |(_, _, side): &(String, String, Side)| match side {
        Side::Left => "---".to_owned(),
        Side::Right => "--:".to_owned(),
    };
    let names = headings.iter().map(name).collect();
    let rules = headings.iter().map(rule).collect();
    for cells in [names, rules].into_iter().chain(rows) {
        let cells: Vec<String> = cells.iter().map(|cell| line(cell)).collect();
        let _ = writeln!(out, "| {} |", cells.join(" | "));
    }
}

/// A sentence, escaped as by [`line`]; what is between backquotes is code, as on a page.
fn prose(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut parts = text;
    while let Some((before, rest)) = parts.split_once('`')
        && let Some((code, after)) = rest.split_once('`')
        && !code.trim().is_empty()
    {
        out.push_str(&line(before));
        // In code a backslash would be shown.
        out.push_str(&format!("`{}`", code.replace(is_control, " ")));
        parts = after;
    }
    out + &line(parts)
}

/// Escapes text for use in a line or a cell: it cannot become markup.
fn line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '|' | '<' | '*' | '`' | '\\' | '[' => line.extend(['\\', character]),
            control if is_control(control) => line.push(' '),
            other => line.push(other),
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sheet::Section;
    use crate::sheet::tests::{COLUMNS, STATES};

    #[test]
    fn a_sheet_becomes_the_text_of_an_issue() {
        let mut sheet = Sheet {
            title: "Wakes".into(),
            answer: "C1 wakes in 2.5 µs.".into(),
            ..Sheet::default()
        };
        sheet.fact("Measured", "a|b\nc");
        sheet.fact("Run", "*`reveille hold *`*, a ` alone");
        let table = Table::of("", COLUMNS, &STATES);
        sheet.section(
            Section::new("states", "States")
                .chart(String::new)
                .table(table),
        );
        sheet.section(Section::new("chart", "Only a chart").chart(String::new));
        let mut one = Sheet {
            title: "One".into(),
            failures: vec![("failed", "sda".into())],
            ..Sheet::default()
        };
        one.section(Section::new("text", "Path").text("None."));
        sheet.subjects.push(one);
        assert_eq!(
            markdown(&sheet),
            "## Wakes\n\n**C1 wakes in 2.5 µs.**\n\n- Measured: a\\|b c\n\
             - Run: \\*`reveille hold *`\\*, a \\` alone\n\n### States\n\n\
             | state | exit, µs | median, µs | waits |\n| --- | --: | --: | --: |\n\
             | C1 | 2 | 2.50 | 12,345 |\n| C6, \"deep\" \\< | - | - | 1 |\n\n\
             ### One\n\n**failed: sda**\n\n#### Path\n\nNone.\n"
        );
    }

    #[test]
    fn no_part_of_a_sheet_prints_a_control_character() {
        const HOSTILE: &str = "a\x1b[31m\u{9b}31m`b\x07\u{202e}`";
        let mut sheet = Sheet {
            title: HOSTILE.into(),
            answer: HOSTILE.into(),
            failures: vec![("failed", HOSTILE.into())],
            notes: vec![HOSTILE.into()],
            ..Sheet::default()
        };
        sheet.fact("Fact", HOSTILE);
        let mut states = STATES;
        states[0].name = HOSTILE;
        let table = || Table::of(HOSTILE, COLUMNS, &states);
        let section = Section::new("all", HOSTILE).text(HOSTILE).command(HOSTILE);
        sheet.section(section.table(table()).table(table()));
        let printed = markdown(&sheet);
        let found = printed.find(|one| one != '\n' && is_control(one));
        assert_eq!(found, None, "{printed:?}");
        assert!(printed.matches("[31m").count() > 8, "{printed}");
    }
}
