//! The output of a command, defined once for every medium: a terminal, a page, Markdown.
//!
//! A capability defines its tables as [`Column`]s and its result as a [`Sheet`], in a file `show.rs`
//! beside the result. [`crate::text`] writes a sheet for a terminal, [`crate::web`] as a page,
//! [`crate::markdown`] for an issue. The book's reference of columns is generated from the columns.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use reveille_figures::rounds::{Against, Estimate};

use crate::chart::Bars;

/// The origin of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The idle driver's table.
    Driver,
    /// Measured on this machine.
    Measured,
    /// Extrapolated from measurements.
    Estimated,
}

impl Origin {
    /// In words: `measured`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Driver => "driver's table",
            Self::Measured => "measured",
            Self::Estimated => "estimated",
        }
    }
}

/// The kind and unit of a column's figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Words.
    Words,
    /// A count.
    Count,
    /// A time in ns, shown in a suitable unit.
    Ns,
    /// A time in µs, shown in a suitable unit.
    Us,
    /// A time in µs, in ms where columns are to be compared with each other.
    UsAsMs,
    /// A time in s, written in the unit that fits.
    Seconds,
    /// An energy in kWh, shown in MWh.
    Kwh,
    /// 0 to 1, shown in per cent.
    Share,
    /// Per cent.
    Percent,
    /// Another unit; empty for a plain number.
    Of(&'static str),
}

impl Unit {
    /// The length of the unit, ns.
    pub(crate) fn as_time(self) -> Option<f64> {
        match self {
            Self::Ns => Some(1.0),
            Self::Us | Self::UsAsMs => Some(1e3),
            Self::Seconds => Some(1e9),
            Self::Words | Self::Count | Self::Kwh | Self::Share | Self::Percent | Self::Of(_) => {
                None
            }
        }
    }
}

impl fmt::Display for Unit {
    /// The unit's name in JSON.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Words => "text",
            Self::Count => "count",
            Self::Ns => "ns",
            Self::Us | Self::UsAsMs => "µs",
            Self::Seconds => "s",
            Self::Kwh => "kWh",
            Self::Share => "share",
            Self::Percent => "%",
            Self::Of("") => "number",
            Self::Of(unit) => unit,
        })
    }
}

/// The name of the column of the driver's exit latency.
pub const EXIT: &str = "exit";

/// Its description.
pub const EXIT_LATENCY: &str = "The driver's exit latency";

/// What a cell says of its row's subject. Media colour it; its words or figures say the same without
/// colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Judgement {
    /// It keeps to a figure, or is better.
    Good,
    /// It deserves attention.
    Notable,
    /// It exceeds a figure, or is worse.
    Bad,
}

/// A cell.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Unknown or not applicable; never zero.
    Unknown,
    /// Words.
    Text(String),
    /// In the column's unit.
    Number(f64),
    /// A figure and half the width of its confidence interval, in the column's unit.
    Interval(f64, f64),
    /// As [`Value::Interval`], of a difference: with its sign.
    SignedInterval(f64, f64),
    /// A figure over rounds with its interval, in the column's unit: `80 [75, 90]`. A terminal shows the
    /// interval on request.
    Estimate(Estimate),
    /// A difference over rounds with its interval, in the column's unit: `+5 [-1, +11]`.
    Difference(Estimate),
    /// An upper bound, in the column's unit: it is rounded up.
    AtMost(f64),
    /// One of the others, judged.
    Judged(Judgement, Box<Value>),
}

impl Value {
    /// A difference; unknown for `None`.
    pub fn difference(of: Option<&Estimate>) -> Self {
        of.map_or(Self::Unknown, |one| Self::Difference(one.clone()))
    }

    /// An upper bound; unknown for `None`.
    pub fn at_most(of: Option<i64>) -> Self {
        of.map_or(Self::Unknown, |number| Self::AtMost(number as f64))
    }

    /// With this judgement, if any. What is unknown has none.
    pub fn judged(self, judgement: impl Into<Option<Judgement>>) -> Self {
        match judgement.into() {
            Some(judgement) if self != Self::Unknown => Self::Judged(judgement, Box::new(self)),
            _ => self,
        }
    }

    /// Notable if its figure is above the limit, which is in the column's unit.
    pub fn within(self, limit: Option<f64>) -> Self {
        let is_over = self
            .number()
            .zip(limit)
            .is_some_and(|(number, limit)| number > limit);
        self.judged(is_over.then_some(Judgement::Notable))
    }

    /// A difference with the judgement of its interval, if that is on one side of zero.
    pub fn better_if(self, better: Against) -> Self {
        let judgement = match &self {
            Self::Difference(one) => match one.against_zero() {
                Against::Unknown => None,
                against if against == better => Some(Judgement::Good),
                _ => Some(Judgement::Bad),
            },
            _ => None,
        };
        self.judged(judgement)
    }

    /// Its judgement, if it has one.
    pub(crate) fn judgement(&self) -> Option<Judgement> {
        match self {
            Self::Judged(judgement, _) => Some(*judgement),
            _ => None,
        }
    }

    /// Without the judgement.
    pub(crate) fn plain(&self) -> &Self {
        match self {
            Self::Judged(_, value) => value.plain(),
            value => value,
        }
    }

    /// The figure without its interval; `None` for words and what is unknown.
    pub(crate) fn number(&self) -> Option<f64> {
        match self.plain() {
            Self::AtMost(number)
            | Self::Number(number)
            | Self::Interval(number, _)
            | Self::SignedInterval(number, _) => Some(*number),
            Self::Estimate(one) | Self::Difference(one) => Some(one.estimate),
            Self::Text(_) | Self::Unknown | Self::Judged(..) => None,
        }
    }
}

impl From<&Estimate> for Value {
    fn from(estimate: &Estimate) -> Self {
        Self::Estimate(estimate.clone())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        match number.is_finite() {
            true => Self::Number(number),
            false => Self::Unknown,
        }
    }
}

macro_rules! whole {
    ($($number:ty),*) => {$(
        impl From<$number> for Value {
            fn from(number: $number) -> Self {
                Self::Number(number as f64)
            }
        }
    )*};
}
whole!(u32, u64, usize, i64);

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Unknown, Into::into)
    }
}

/// A column of a table of `R`s, defined once.
pub struct Column<R> {
    /// The heading.
    pub heading: Heading,
    /// A row's cell.
    pub value: fn(&R) -> Value,
}

/// What a column is, whatever its rows are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heading {
    /// The field in JSON: `snake_case` with the unit at the end. A field of an object in
    /// the row stands behind a dot: `resume_us.median`.
    pub key: &'static str,
    /// For people.
    pub name: Cow<'static, str>,
    /// Of its figures.
    pub unit: Unit,
    /// The figures' origin; `None` for words.
    pub origin: Option<Origin>,
    /// The description for the reference: a sentence without its full stop.
    pub about: &'static str,
    /// Terminals show it only on request.
    pub detail: bool,
}

impl<R> Column<R> {
    /// A column of words.
    pub const fn words(
        key: &'static str,
        name: &'static str,
        about: &'static str,
        value: fn(&R) -> Value,
    ) -> Self {
        Self::of(key, name, Unit::Words, None, about, value)
    }

    /// A column of measured figures.
    pub const fn measured(
        key: &'static str,
        name: &'static str,
        unit: Unit,
        about: &'static str,
        value: fn(&R) -> Value,
    ) -> Self {
        Self::of(key, name, unit, Some(Origin::Measured), about, value)
    }

    /// A column of the driver's figures.
    pub const fn driver(
        key: &'static str,
        name: &'static str,
        unit: Unit,
        about: &'static str,
        value: fn(&R) -> Value,
    ) -> Self {
        Self::of(key, name, unit, Some(Origin::Driver), about, value)
    }

    /// A column of estimates.
    pub const fn estimated(
        key: &'static str,
        name: &'static str,
        unit: Unit,
        about: &'static str,
        value: fn(&R) -> Value,
    ) -> Self {
        Self::of(key, name, unit, Some(Origin::Estimated), about, value)
    }

    const fn of(
        key: &'static str,
        name: &'static str,
        unit: Unit,
        origin: Option<Origin>,
        about: &'static str,
        value: fn(&R) -> Value,
    ) -> Self {
        let detail = false;
        Self {
            heading: Heading {
                key,
                name: Cow::Borrowed(name),
                unit,
                origin,
                about,
                detail,
            },
            value,
        }
    }

    /// The columns' definitions.
    pub fn headings(columns: &[Self]) -> Vec<Heading> {
        columns
            .iter()
            .map(|column| column.heading.clone())
            .collect()
    }

    /// A column that terminals show only on request.
    pub const fn detail(mut column: Self) -> Self {
        column.heading.detail = true;
        column
    }
}

/// The columns' keys that the first row of a list in JSON lacks. `list`: its path, such as
/// `groups[].stages[]`.
pub fn not_in_json(
    json: &serde_json::Value,
    list: &str,
    headings: &[Heading],
) -> Vec<&'static str> {
    let pointer = format!("/{}", list.replace("[]", "/0").replace('.', "/"));
    let row = json.pointer(&pointer);
    let lacks = |key: &&str| {
        let field = format!("/{}", key.replace('.', "/"));
        row.and_then(|row| row.pointer(&field)).is_none()
    };
    let keys = headings.iter().map(|heading| heading.key);
    keys.filter(lacks).collect()
}

/// A table, filled.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    /// The table's title.
    pub caption: String,
    /// Its columns.
    pub headings: Vec<Heading>,
    /// A cell for each column; the most important rows come first.
    pub rows: Vec<Vec<Value>>,
    /// Rows that a terminal shows unless all are asked for; with 0 it leaves the table out.
    pub first: usize,
    /// The place of the first of these rows.
    pub start: usize,
    /// The key of the column whose largest figures choose these rows; the table's first rows where there
    /// is none.
    pub largest: Option<&'static str>,
}

impl Table {
    /// A table with these columns and rows.
    pub fn of<'r, R: 'r>(
        caption: impl Into<String>,
        columns: &[Column<R>],
        rows: impl IntoIterator<Item = &'r R>,
    ) -> Self {
        let cells = |row: &R| columns.iter().map(|column| (column.value)(row)).collect();
        Self {
            caption: caption.into(),
            headings: Column::headings(columns),
            rows: rows.into_iter().map(cells).collect(),
            first: 10,
            start: 0,
            largest: None,
        }
    }

    /// With so many rows on a terminal, unless all are asked for.
    pub fn first(mut self, rows: usize) -> Self {
        self.first = rows;
        self
    }

    /// With all rows on a terminal, however many.
    pub fn whole(self) -> Self {
        // One more has to fit in.
        self.first(usize::MAX - 1)
    }

    /// With only these rows on a terminal, unless all are asked for.
    pub fn only(mut self, rows: Range<usize>) -> Self {
        self.start = rows.start;
        self.first(rows.len())
    }

    /// Without the columns of these keys.
    pub fn without(mut self, keys: &[&str]) -> Self {
        let kept: Vec<bool> = self
            .headings
            .iter()
            .map(|heading| !keys.contains(&heading.key))
            .collect();
        let mut place = kept.iter();
        self.headings.retain(|_| place.next() == Some(&true));
        for row in &mut self.rows {
            let mut place = kept.iter();
            row.retain(|_| place.next() == Some(&true));
        }
        self
    }

    /// Without the columns in which nothing is known.
    pub fn known(self) -> Self {
        let is_known = |place: &usize| self.rows.iter().any(|row| row[*place] != Value::Unknown);
        let places = 0..self.headings.len();
        let unknown = places.filter(|place| !is_known(place));
        let keys: Vec<_> = unknown.map(|place| self.headings[place].key).collect();
        self.without(&keys)
    }

    /// With one more column, whose name is known only when the program runs; `values` has a cell for each
    /// row.
    pub fn column(mut self, heading: Heading, values: impl IntoIterator<Item = Value>) -> Self {
        self.headings.push(heading);
        for (row, value) in self.rows.iter_mut().zip(values) {
            row.push(value);
        }
        self
    }
}

/// A part of a section.
pub enum Part<'a> {
    /// Figures.
    Table(Table),
    /// A paragraph.
    Text(String),
    /// A command or a file's lines to copy: as they are.
    Command(String),
    /// Stacked bars.
    Bars(Bars),
    /// A chart for pages, as HTML; drawn on demand.
    Chart(Box<dyn Fn() -> String + 'a>),
}

/// Parts under one heading.
pub struct Section<'a> {
    /// The element's id on the page.
    pub id: &'static str,
    /// Above it.
    pub heading: String,
    /// From top to bottom.
    pub parts: Vec<Part<'a>>,
    /// A terminal shows the heading, too.
    pub titled: bool,
    /// On a page: directly below the answer, before notes and facts, without its heading.
    pub leads: bool,
    /// Terminals show it only on request.
    pub detail: bool,
}

impl<'a> Section<'a> {
    /// A section without parts.
    pub fn new(id: &'static str, heading: impl Into<String>) -> Self {
        Self {
            id,
            heading: heading.into(),
            parts: Vec::new(),
            titled: false,
            leads: false,
            detail: false,
        }
    }

    /// With its heading on terminals, too.
    pub fn titled(mut self) -> Self {
        self.titled = true;
        self
    }

    /// What a page shows first: the chart and the figures that the answer is made of.
    pub fn leading(mut self) -> Self {
        self.leads = true;
        self
    }

    /// A section that terminals show only on request.
    pub fn detail(mut self) -> Self {
        self.detail = true;
        self
    }

    /// With this table, if it has rows.
    pub fn table(mut self, table: Table) -> Self {
        if !table.rows.is_empty() {
            self.parts.push(Part::Table(table));
        }
        self
    }

    /// Whether its tables need their captions to be told apart.
    pub(crate) fn has_several_tables(&self) -> bool {
        let tables = self.parts.iter();
        tables.filter(|part| matches!(part, Part::Table(_))).count() > 1
    }

    /// Adds a paragraph.
    pub fn text(mut self, text: impl Into<String>) -> Self {
        self.parts.push(Part::Text(text.into()));
        self
    }

    /// Adds a command.
    pub fn command(mut self, command: impl Into<String>) -> Self {
        self.parts.push(Part::Command(command.into()));
        self
    }

    /// Adds bars, if there are any.
    pub fn bars(mut self, bars: Bars) -> Self {
        if !bars.rows.is_empty() {
            self.parts.push(Part::Bars(bars));
        }
        self
    }

    /// Adds a chart, as HTML.
    pub fn chart(mut self, html: impl Fn() -> String + 'a) -> Self {
        self.parts.push(Part::Chart(Box::new(html)));
        self
    }
}

/// The output of a command.
#[derive(Default)]
pub struct Sheet<'a> {
    /// The page's title.
    pub title: String,
    /// Below the title: the subject, the machine, the time, the program.
    pub about: Vec<String>,
    /// The conclusion, in a sentence: first on a page, last on a terminal.
    pub answer: String,
    /// Facts: a word and its figures.
    pub facts: Vec<(&'static str, String)>,
    /// Facts that decide little: terminals show them on request only.
    pub details: Vec<(&'static str, String)>,
    /// What went wrong, and stands out: how (`failed`), and what.
    pub failures: Vec<(&'static str, String)>,
    /// Tables and charts.
    pub sections: Vec<Section<'a>>,
    /// Notes on the figures, one sentence each.
    pub notes: Vec<String>,
    /// Of each of several subjects, below the rest; a terminal shows them on request only.
    pub subjects: Vec<Sheet<'a>>,
    /// What the charts of a page need; one of those that its policy knows.
    pub script: &'static str,
    /// What the page's script shows of single datapoints; null where there is nothing.
    pub data: serde_json::Value,
    /// Below the page: how its figures are meant.
    pub foot: &'static str,
}

impl<'a> Sheet<'a> {
    /// Adds a fact.
    pub fn fact(&mut self, word: &'static str, figures: impl Into<String>) {
        self.facts.push((word, figures.into()));
    }

    /// Adds a fact that decides little.
    pub fn detail(&mut self, word: &'static str, figures: impl Into<String>) {
        self.details.push((word, figures.into()));
    }

    /// All facts.
    pub(crate) fn all_facts(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let facts = self.facts.iter().chain(&self.details);
        facts.map(|(word, figures)| (*word, figures.as_str()))
    }

    /// Adds a section, if it has parts.
    pub fn section(&mut self, section: Section<'a>) {
        if !section.parts.is_empty() {
            self.sections.push(section);
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) struct State {
        pub name: &'static str,
        exit_us: Option<u64>,
        median_ns: Option<f64>,
        waits: u64,
    }

    pub(crate) const COLUMNS: &[Column<State>] = &[
        Column::words("state", "state", "The idle state", |state| {
            state.name.into()
        }),
        Column::driver(
            "exit_latency_us",
            "exit",
            Unit::Us,
            "The driver's exit latency",
            |state| state.exit_us.into(),
        ),
        Column::measured("median_ns", "median", Unit::Ns, "The median", |state| {
            state.median_ns.into()
        }),
        Column::detail(Column::measured(
            "waits",
            "waits",
            Unit::Count,
            "Waits for it",
            |state| state.waits.into(),
        )),
    ];

    pub(crate) const STATES: [State; 2] = [
        State {
            name: "C1",
            exit_us: Some(2),
            median_ns: Some(2_500.0),
            waits: 12_345,
        },
        State {
            name: "C6, \"deep\" <",
            exit_us: None,
            median_ns: None,
            waits: 1,
        },
    ];

    #[test]
    fn nan_is_unknown() {
        assert_eq!(Value::from(f64::NAN), Value::Unknown);
        assert_eq!(Value::from(None::<u64>), Value::Unknown);
        assert_eq!(Value::from(Some(0_u64)), Value::Number(0.0));
    }

    #[test]
    fn a_figure_is_judged_by_its_limit_and_a_difference_by_its_interval() {
        let judgement = |value: Value| value.judgement();
        assert_eq!(judgement(Value::Number(3.0).within(Some(3.0))), None);
        let over = Value::Number(3.1).within(Some(3.0));
        assert_eq!(over.plain(), &Value::Number(3.1));
        assert_eq!(over.number(), Some(3.1));
        assert_eq!(judgement(over), Some(Judgement::Notable));
        assert_eq!(judgement(Value::Number(3.1).within(None)), None);
        assert_eq!(Value::Unknown.judged(Judgement::Bad), Value::Unknown);
        let of = |interval| {
            Value::Difference(Estimate {
                estimate: -5.0,
                interval,
                rounds: 10,
            })
        };
        let less = of(Some((-7.0, -3.0)));
        let judged = |better| judgement(less.clone().better_if(better));
        assert_eq!(judged(Against::Less), Some(Judgement::Good));
        assert_eq!(judged(Against::More), Some(Judgement::Bad));
        assert_eq!(
            judgement(of(Some((-7.0, 1.0))).better_if(Against::Less),),
            None
        );
        assert_eq!(judgement(of(None).better_if(Against::Less)), None);
        assert_eq!(
            judgement(Value::Number(-5.0).better_if(Against::Less)),
            None
        );
    }

    #[test]
    fn columns_can_be_left_out_and_added() {
        let heading = Heading {
            name: "laptop".into(),
            ..COLUMNS[2].heading.clone()
        };
        let table = Table::of("States", COLUMNS, &STATES).without(&["exit_latency_us", "waits"]);
        let table = table.column(heading, [Value::Number(1.0), Value::Unknown]);
        let names: Vec<&str> = table.headings.iter().map(|one| &*one.name).collect();
        assert_eq!(names, ["state", "median", "laptop"]);
        assert_eq!(
            table.rows[0],
            ["C1".into(), Value::Number(2500.0), Value::Number(1.0)]
        );
        assert_eq!(table.rows[1].len(), 3);
        let unknown = Table::of("States", COLUMNS, &STATES[1..]).known();
        let names: Vec<&str> = unknown.headings.iter().map(|one| &*one.name).collect();
        assert_eq!(names, ["state", "waits"]);
    }

    #[test]
    fn a_key_with_a_dot_is_a_field_of_an_object_in_the_row() {
        let json =
            serde_json::json!({ "list": [{ "state": "C1", "exit_latency_us": { "median": 1 } }] });
        let mut headings = Column::headings(&COLUMNS[..2]);
        assert!(not_in_json(&json, "list[]", &headings).is_empty());
        headings[1].key = "exit_latency_us.median";
        assert!(not_in_json(&json, "list[]", &headings).is_empty());
        headings[1].key = "exit_latency_us.max";
        assert_eq!(
            not_in_json(&json, "list[]", &headings),
            ["exit_latency_us.max"]
        );
    }

    #[test]
    fn a_section_without_rows_is_left_out() {
        let mut sheet = Sheet::default();
        sheet.section(Section::new("a", "A").table(Table::of("A", COLUMNS, &[])));
        assert!(sheet.sections.is_empty());
    }
}
