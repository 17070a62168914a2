//! Aligned columns of text: a heading of two lines, then rows.

use std::io::{self, Write};

/// Where a column's text stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Left,
    Right,
}

/// A table whose columns are as wide as their widest cell.
pub struct Table {
    /// Name, unit, side.
    headings: Vec<(&'static str, &'static str, Side)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub fn new(headings: &[(&'static str, &'static str, Side)]) -> Self {
        Self {
            headings: headings.to_vec(),
            rows: Vec::new(),
        }
    }

    pub fn row<const N: usize>(&mut self, cells: [String; N]) {
        assert_eq!(N, self.headings.len(), "a row has a cell for each column");
        self.rows.push(cells.into());
    }

    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let names = self
            .headings
            .iter()
            .map(|heading| heading.0.to_owned())
            .collect();
        let units = self
            .headings
            .iter()
            .map(|heading| heading.1.to_owned())
            .collect();
        let lines: Vec<&Vec<String>> = [&names, &units].into_iter().chain(&self.rows).collect();
        let widths: Vec<usize> = (0..self.headings.len())
            .map(|column| {
                lines
                    .iter()
                    .map(|line| line[column].chars().count())
                    .max()
                    .unwrap_or(0)
            })
            .collect();
        for line in lines {
            let cells = line.iter().zip(&widths).zip(&self.headings);
            let cells: Vec<String> = cells
                .map(|((cell, width), (_, _, side))| {
                    let blanks = " ".repeat(width - cell.chars().count());
                    match side {
                        Side::Left => format!("{cell}{blanks}"),
                        Side::Right => format!("{blanks}{cell}"),
                    }
                })
                .collect();
            writeln!(out, "{}", cells.join("  ").trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new(&[("state", "", Side::Left), ("exit", "µs", Side::Right)]);
        table.row(["C1".into(), "2".into()]);
        table.row(["default_idle".into(), "133".into()]);
        let mut text = Vec::new();
        table.write(&mut text).unwrap();
        assert_eq!(
            String::from_utf8(text).unwrap(),
            "state         exit\n                µs\nC1               2\ndefault_idle   133\n"
        );
    }
}
