//! Columns fitted to a width: the least important ones are omitted first.

use std::cmp::Ordering;
use std::io::{self, Write};
use std::ops::Range;

use ratatui::text::{Line, Span};

use crate::history::Trend;
use crate::look::{Look, Tone, UNKNOWN};
use reveille_show::table::Side;

/// A column's heading and its share of the width.
#[derive(Debug, Clone)]
pub struct Column {
    name: String,
    unit: &'static str,
    side: Side,
    /// The column of the highest rank is omitted first; ranks in a grid are unique.
    rank: usize,
    /// The width to which its cells may be truncated; `None`: never.
    least: Option<usize>,
    /// The minimum width, so that it does not change with each figure.
    steady: usize,
    /// The maximum width.
    most: usize,
    marked: Option<Order>,
    /// Contains bars or trends.
    drawn: bool,
}

/// Which way a column is sorted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    Ascending,
    Descending,
}

/// Unknown values come last.
pub fn descending(a: Option<f64>, b: Option<f64>) -> Ordering {
    let known = |value: Option<f64>| value.unwrap_or(f64::NEG_INFINITY);
    known(b).total_cmp(&known(a))
}

impl Column {
    /// Right-aligned figures, never truncated.
    pub fn figures(
        name: impl Into<String>,
        unit: &'static str,
        steady: usize,
        rank: usize,
    ) -> Self {
        Self {
            name: name.into(),
            unit,
            side: Side::Right,
            rank,
            least: None,
            steady,
            most: usize::MAX,
            marked: None,
            drawn: false,
        }
    }

    /// Left-aligned words, never truncated.
    pub fn words(name: &str, rank: usize) -> Self {
        Self {
            side: Side::Left,
            ..Self::figures(name, "", 0, rank)
        }
    }

    /// Left-aligned text, truncated to `least` columns if there is no room.
    pub fn text(name: &str, least: usize, rank: usize) -> Self {
        Self {
            least: Some(least),
            ..Self::words(name, rank)
        }
    }

    /// Bars and trends, `least` to `most` columns wide.
    pub fn drawing(name: &str, unit: &'static str, least: usize, most: usize, rank: usize) -> Self {
        Self {
            unit,
            most,
            drawn: true,
            ..Self::text(name, least, rank)
        }
    }

    /// Marks the column by which rows are sorted.
    pub fn sorted(mut self, order: Option<Order>) -> Self {
        self.marked = order;
        self
    }

    fn heading(&self, look: Look) -> String {
        let mark = match self.marked {
            Some(Order::Ascending) => "▲",
            Some(Order::Descending) => "▼",
            None => "",
        };
        look.text(&format!("{}{mark}", self.name)).into_owned()
    }
}

/// The content of a cell.
#[derive(Debug, Clone)]
pub enum Cell {
    Text(String, Tone),
    /// 0 to 1.
    Bar(Option<f64>, Tone),
    /// The trend, and the value of its full height.
    Trend(Trend, f32),
}

impl Cell {
    pub fn plain(text: impl Into<String>) -> Self {
        Self::Text(text.into(), Tone::Plain)
    }

    /// The width of the whole content.
    fn width(&self, look: Look) -> usize {
        match self {
            Self::Text(text, _) => Span::raw(&*look.text(text)).width(),
            Self::Bar(..) | Self::Trend(..) => usize::MAX,
        }
    }

    fn draw(&self, look: Look, width: usize, side: Side) -> Span<'static> {
        let (text, tone) = match self {
            Self::Text(text, tone) => (look.cut(text, width), *tone),
            Self::Bar(Some(share), tone) => (look.bar(*share, width), *tone),
            Self::Bar(None, _) => (UNKNOWN.to_owned(), Tone::Faint),
            Self::Trend(trend, top) => (look.trend(&trend.means(width), *top), Tone::Awake),
        };
        // The newest value of a trend is at the right.
        let side = match self {
            Self::Trend(..) => Side::Right,
            _ => side,
        };
        Span::styled(padded(&text, width, side), look.style(tone))
    }
}

fn padded(text: &str, width: usize, side: Side) -> String {
    let blanks = " ".repeat(width.saturating_sub(Span::raw(text).width()));
    match side {
        Side::Left => format!("{text}{blanks}"),
        Side::Right => format!("{blanks}{text}"),
    }
}

/// A table.
#[derive(Debug, Default)]
pub struct Grid {
    pub columns: Vec<Column>,
    pub rows: Vec<Vec<Cell>>,
}

/// A table fitted to a width; lines are made on demand.
pub struct Fitted<'a> {
    grid: &'a Grid,
    look: Look,
    /// The shown columns and their widths.
    chosen: Vec<(usize, usize)>,
    /// Blanks between them.
    gap: usize,
}

impl Fitted<'_> {
    /// Names, and above them the units.
    pub fn heading(&self) -> [Line<'static>; 2] {
        let line = |tone: Tone, text: &dyn Fn(&Column) -> String| {
            self.line(|column, width| {
                let column = &self.grid.columns[column];
                let text = self.look.cut(&text(column), width);
                let text = padded(&text, width, column.side);
                Span::styled(text, self.look.style(tone))
            })
        };
        [
            line(Tone::Faint, &|column| column.unit.to_owned()),
            line(Tone::Strong, &|column| column.heading(self.look)),
        ]
    }

    /// These rows, as far as they exist.
    pub fn rows(&self, wanted: Range<usize>) -> impl Iterator<Item = Line<'static>> {
        let last = self.grid.rows.len();
        let wanted = wanted.start.min(last)..wanted.end.min(last);
        self.grid.rows[wanted].iter().map(|row| {
            self.line(|column, width| {
                row[column].draw(self.look, width, self.grid.columns[column].side)
            })
        })
    }

    fn line(&self, cell: impl Fn(usize, usize) -> Span<'static>) -> Line<'static> {
        let mut spans = Vec::with_capacity(2 * self.chosen.len());
        for &(column, width) in &self.chosen {
            if !spans.is_empty() {
                spans.push(Span::raw(" ".repeat(self.gap)));
            }
            spans.push(cell(column, width));
        }
        Line::from(spans)
    }
}

impl Grid {
    /// The table in `width` columns of the terminal.
    pub fn fit(&self, look: Look, width: usize) -> Fitted<'_> {
        let roomy = self.choose(look, width, 2);
        let (chosen, gap) = match roomy.len() < self.columns.len() {
            true => (self.choose(look, width, 1), 1),
            false => (roomy, 2),
        };
        Fitted {
            grid: self,
            look,
            chosen,
            gap,
        }
    }

    /// The table as text in its full width, without bars and trends.
    pub fn write(mut self, look: Look, out: &mut impl Write) -> io::Result<()> {
        let drawn: Vec<bool> = self.columns.iter().map(|column| column.drawn).collect();
        for row in &mut self.rows {
            let mut drawn = drawn.iter();
            row.retain(|_| drawn.next() == Some(&false));
        }
        self.columns.retain(|column| !column.drawn);
        let fitted = self.fit(look, usize::MAX);
        for line in fitted
            .heading()
            .into_iter()
            .chain(fitted.rows(0..usize::MAX))
        {
            writeln!(out, "{}", line.to_string().trim_end())?;
        }
        Ok(())
    }

    /// The shown columns and their widths.
    fn choose(&self, look: Look, width: usize, gap: usize) -> Vec<(usize, usize)> {
        let wanted: Vec<usize> = (0..self.columns.len())
            .map(|column| self.wanted(look, column))
            .collect();
        let least = |column: usize| match self.columns[column].least {
            Some(least) => least.min(wanted[column]),
            None => wanted[column],
        };
        let mut shown: Vec<usize> = (0..self.columns.len()).collect();
        let taken = |shown: &[usize]| {
            let gaps = gap * shown.len().saturating_sub(1);
            shown.iter().map(|column| least(*column)).sum::<usize>() + gaps
        };
        while shown.len() > 1 && taken(&shown) > width {
            let last = (0..shown.len()).max_by_key(|&at| self.columns[shown[at]].rank);
            shown.remove(last.unwrap_or_default());
        }
        let mut left = width.saturating_sub(taken(&shown));
        let mut chosen: Vec<(usize, usize)> = shown
            .iter()
            .map(|&column| (column, least(column)))
            .collect();
        let mut by_rank: Vec<usize> = (0..chosen.len()).collect();
        by_rank.sort_by_key(|&at| self.columns[chosen[at].0].rank);
        for at in by_rank {
            let (column, given) = &mut chosen[at];
            let more = (wanted[*column] - *given).min(left);
            *given += more;
            left -= more;
        }
        chosen
    }

    /// The width of a column's cells and heading.
    fn wanted(&self, look: Look, index: usize) -> usize {
        let column = &self.columns[index];
        let heading = Span::raw(column.heading(look)).width();
        let heading = heading.max(Span::raw(column.unit).width());
        let cells = self.rows.iter().map(|row| row[index].width(look));
        let most = cells.max().unwrap_or(0).min(column.most);
        most.max(heading).max(column.steady)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOOK: Look = Look {
        colour: false,
        utf8: true,
    };

    fn grid() -> Grid {
        Grid {
            columns: vec![
                Column::figures("CPU", "", 0, 0),
                Column::text("command", 6, 2),
                Column::figures("rate", "/s", 7, 1),
                Column::drawing("trend", "", 4, 10, 3),
            ],
            rows: vec![vec![
                Cell::plain("3"),
                Cell::plain("a command of many words"),
                Cell::plain("12.5"),
                Cell::Bar(Some(0.5), Tone::Awake),
            ]],
        }
    }

    fn shown(width: usize) -> String {
        grid()
            .fit(LOOK, width)
            .rows(0..1)
            .next()
            .unwrap()
            .to_string()
    }

    #[test]
    fn the_least_important_column_is_omitted_first() {
        assert_eq!(
            shown(60),
            "  3  a command of many words     12.5  █████     "
        );
        assert_eq!(shown(30), "  3  a command…     12.5  ██  ");
        assert_eq!(shown(20), "  3 a comma…    12.5");
        assert_eq!(shown(12), "  3    12.5");
        assert_eq!(shown(4), "  3");
    }

    #[test]
    fn no_width_is_too_small() {
        for width in 0..80 {
            let row = grid().fit(LOOK, width).rows(0..1).next().unwrap().width();
            assert!(width < 3 || row <= width, "{width}");
        }
    }

    #[test]
    fn an_unknown_value_is_a_dash() {
        let cell = Cell::Bar(None, Tone::Plain).draw(LOOK, 3, Side::Left);
        assert_eq!(cell.content, "-  ");
    }
}
