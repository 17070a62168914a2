//! Aligned columns of text: a heading of two lines, then rows.

use crate::terminal::{self, PLAIN, Style};
use std::io::{self, Write};
use std::ops::Range;

/// A column's alignment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Text.
    Left,
    /// Numbers.
    Right,
}

/// Between columns.
const GAP: &str = "  ";

/// A table whose columns are as wide as their widest cell.
pub struct Table {
    /// Name, unit, side.
    headings: Vec<(String, String, Side)>,
    rows: Vec<Vec<Cell>>,
}

/// Its text in a style.
type Cell = (Style, String);

impl Table {
    /// A table with these columns: name, unit, side.
    pub fn of(headings: Vec<(String, String, Side)>) -> Self {
        Self {
            headings,
            rows: Vec::new(),
        }
    }

    /// Adds a row, with a cell for each column.
    pub fn push(&mut self, cells: impl Iterator<Item = (Style, String)>) {
        // Sanitised here, because the columns' widths depend on it.
        let shown = cells.map(|(style, cell)| (style, terminal::shown(&cell).into_owned()));
        let row: Vec<Cell> = shown.collect();
        let columns = self.headings.len();
        assert_eq!(row.len(), columns, "a row has a cell for each column");
        self.rows.push(row);
    }

    /// Writes lines of text; a column is as wide as its widest cell.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let all: Vec<usize> = (0..self.headings.len()).collect();
        self.write_columns(&all, &self.widths(), 0..self.rows.len(), out)
    }

    /// How many columns of a terminal its lines need.
    pub fn width(&self) -> usize {
        let widths: usize = self.widths().iter().map(|width| width + GAP.len()).sum();
        widths.saturating_sub(GAP.len())
    }

    /// These rows, in as many parts as lines of `columns` need: each part begins with the first `keys`
    /// columns, or with fewer where these leave no room for another one.
    pub fn write_folded(
        &self,
        columns: usize,
        keys: usize,
        rows: Range<usize>,
        out: &mut impl Write,
    ) -> io::Result<()> {
        let widths = self.widths();
        let together = |part: &[usize]| {
            let widths: usize = part.iter().map(|column| widths[*column] + GAP.len()).sum();
            widths - GAP.len()
        };
        let fit = |keys: &usize| {
            let mut others = *keys..self.headings.len();
            let first: Vec<usize> = (0..*keys).collect();
            others.all(|other| together(&[&first[..], &[other]].concat()) <= columns)
        };
        let keys = (1..=keys).rev().find(fit).unwrap_or(1);
        let mut part: Vec<usize> = (0..keys).collect();
        for column in keys..self.headings.len() {
            part.push(column);
            if part.len() > keys + 1 && together(&part) > columns {
                part.pop();
                self.write_columns(&part, &widths, rows.clone(), out)?;
                writeln!(out)?;
                part.truncate(keys);
                part.push(column);
            }
        }
        self.write_columns(&part, &widths, rows.clone(), out)
    }

    fn widths(&self) -> Vec<usize> {
        let width = |column: usize| {
            let (name, unit, _) = &self.headings[column];
            let cells = self.rows.iter().map(|row| &row[column].1);
            let texts = cells.chain([name, unit]);
            texts.map(|text| text.chars().count()).max().unwrap_or(0)
        };
        (0..self.headings.len()).map(width).collect()
    }

    fn write_columns(
        &self,
        columns: &[usize],
        widths: &[usize],
        rows: Range<usize>,
        out: &mut impl Write,
    ) -> io::Result<()> {
        let headings = self.headings.iter();
        let names = headings.clone().map(|heading| (PLAIN, heading.0.clone()));
        let units = headings.map(|heading| (PLAIN, heading.1.clone()));
        let (names, units) = (names.collect(), units.collect());
        for line in [&names, &units].into_iter().chain(&self.rows[rows]) {
            let cell = |column: &usize| {
                let (style, text) = &line[*column];
                let blanks = " ".repeat(widths[*column] - text.chars().count());
                let text = format!("{style}{text}{style:#}");
                match self.headings[*column].2 {
                    Side::Left => format!("{text}{blanks}"),
                    Side::Right => format!("{blanks}{text}"),
                }
            };
            let cells: Vec<String> = columns.iter().map(cell).collect();
            writeln!(out, "{}", cells.join(GAP).trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(headings: &[(&str, &str, Side)]) -> Table {
        let owned = |(name, unit, side): &(&str, &str, Side)| {
            ((*name).to_owned(), (*unit).to_owned(), *side)
        };
        Table::of(headings.iter().map(owned).collect())
    }

    fn push(table: &mut Table, cells: &[&str]) {
        table.push(cells.iter().map(|cell| (PLAIN, (*cell).to_owned())));
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = of(&[("state", "", Side::Left), ("exit", "µs", Side::Right)]);
        push(&mut table, &["C1", "2"]);
        push(&mut table, &["default_idle", "133"]);
        let mut text = Vec::new();
        table.write(&mut text).unwrap();
        assert_eq!(
            String::from_utf8(text).unwrap(),
            "state         exit\n                µs\nC1               2\ndefault_idle   133\n"
        );
    }

    #[test]
    fn a_table_too_wide_for_its_lines_is_folded_and_repeats_the_names_of_rows() {
        let mut table = of(&[
            ("state", "", Side::Left),
            ("exit", "µs", Side::Right),
            ("median", "µs", Side::Right),
            ("max", "µs", Side::Right),
        ]);
        push(&mut table, &["C1", "2", "3.5", "12"]);
        let folded = |columns| {
            let mut text = Vec::new();
            table.write_folded(columns, 1, 0..1, &mut text).unwrap();
            String::from_utf8(text).unwrap()
        };
        let whole =
            "state  exit  median  max\n         µs      µs   µs\nC1        2     3.5   12\n";
        assert_eq!(folded(24), whole);
        assert_eq!(
            folded(23),
            "state  exit  median\n         µs      µs\nC1        2     3.5\n\n\
             state  max\n        µs\nC1      12\n"
        );
        // Two keys leave no room for the others.
        let mut text = Vec::new();
        table.write_folded(14, 2, 0..1, &mut text).unwrap();
        assert!(
            String::from_utf8(text)
                .unwrap()
                .starts_with("state  exit\n")
        );
        // A line too short for any column has one nevertheless.
        assert_eq!(folded(1).matches("state").count(), 3);
    }
}
