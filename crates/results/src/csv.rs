//! Typed CSV, a line per datapoint, columns by name. Numbers go straight from their text into integers (a
//! decimal is shifted into the column's unit), and columns that are not wanted are skipped: a wult result of
//! a million lines takes a fraction of a second and no more memory than its columns.

use std::io::{BufRead, BufReader, Read};

use crate::columns::{Column, Columns, NO_NAME, NULL, Values, code_of};
use crate::decimal::{self, Decimal};
use crate::{Malformed, schema::Kind};

/// A longer line is no line of datapoints.
const LINE_BYTES: usize = 1 << 20;

/// A longer header is no header of datapoints: a thousand columns fit into it.
const HEADER_BYTES: usize = 1 << 16;

/// Datapoints of a part.
const PART: usize = 4096;

/// A field of the file that becomes a value of a column.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) nullable: bool,
    pub(crate) form: Form,
}

/// How a field's text becomes a value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Form {
    /// A decimal number times ten to this power, rounded, in an integer column.
    Integer(u8),
    /// A whole number in an integer column; if it has a fraction, this is what was expected.
    Whole(&'static str),
    Percent,
    Name,
    /// A flag, 1 or 0, that stands for the first or the second name.
    Flag([&'static str; 2]),
}

impl Field {
    pub(crate) fn new(name: &str, nullable: bool, form: Form) -> Self {
        let name = name.to_owned();
        Self {
            name,
            nullable,
            form,
        }
    }

    /// A column of our own schema.
    pub(crate) fn of_kind(name: &str, kind: Kind, nullable: bool) -> Self {
        let form = match kind {
            Kind::Integer => Form::Integer(0),
            Kind::Percent => Form::Percent,
            Kind::Name => Form::Name,
        };
        Self::new(name, nullable, form)
    }

    fn empty(&self) -> Column {
        let names = |names: &[&str]| Values::Name {
            codes: Vec::new(),
            names: names.iter().map(|&name| name.to_owned()).collect(),
        };
        let values = match self.form {
            Form::Integer(_) | Form::Whole(_) => Values::Integer(Vec::new()),
            Form::Percent => Values::Percent(Vec::new()),
            Form::Name => names(&[]),
            Form::Flag(flags) => names(&flags),
        };
        let name = self.name.clone();
        Column { name, values }
    }
}

/// How the fields of a line are read; `None` is passed over.
pub(crate) type Fields = [Option<Field>];

/// What was read, and whether the file ended within a line (which is then left out).
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) columns: Columns,
    pub(crate) torn: bool,
}

/// Is the last line of a file whole although no newline ends it?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LastLine {
    /// Yes, if it has all fields.
    MayLackNewline,
    /// No: its writer was interrupted.
    IsTorn,
}

/// A CSV whose header has been read.
pub(crate) struct Csv<R> {
    reader: BufReader<R>,
    /// The header's fields.
    pub(crate) header: Vec<String>,
}

/// How a line ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Newline,
    /// The file's end.
    File,
}

impl<R: Read> Csv<R> {
    /// Reads the header.
    pub(crate) fn new(reader: R) -> Result<Self, Malformed> {
        let mut reader = BufReader::with_capacity(LINE_BYTES, reader);
        // Its first line may be longer than any of a CSV. An error of reading is the next one's, too.
        let start = reader.fill_buf().unwrap_or_default();
        if start.trim_ascii_start().starts_with(b"{") {
            return Err(Malformed::new(
                "is JSON, not CSV; `reveille show` prints other results",
            ));
        }
        let mut line = Vec::new();
        read_line(&mut reader, HEADER_BYTES, &mut line).map_err(|wrong| wrong.at_line(1))?;
        if line.iter().all(u8::is_ascii_whitespace) {
            return Err(Malformed::new(
                "is empty; expected a line with the names of columns",
            ));
        }
        let text = std::str::from_utf8(&line)
            .map_err(|_| Malformed::new("line 1: is not text; expected the names of columns"))?;
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let header: Vec<String> = text
            .split(',')
            .map(|name| name.trim().trim_matches('"').to_owned())
            .collect();
        for (at, name) in header.iter().enumerate() {
            if header[..at].contains(name) {
                return Err(Malformed::new(format!(
                    "line 1: two columns are named {name:?}; names must be unique"
                )));
            }
        }
        Ok(Self { reader, header })
    }

    /// Gives `sink` the datapoints in order, a part at a time.
    pub(crate) fn in_parts(
        mut self,
        fields: &Fields,
        last: LastLine,
        mut sink: impl FnMut(Columns) -> Result<(), Malformed>,
    ) -> Result<(), Malformed> {
        let mut line = 2;
        loop {
            let part = self.rows(fields, last, line, PART)?.columns;
            let rows = part.rows;
            if rows == 0 {
                return Ok(());
            }
            line += rows;
            sink(part)?;
        }
    }

    /// Reads all datapoints.
    pub(crate) fn all(mut self, fields: &Fields, last: LastLine) -> Result<Table, Malformed> {
        self.rows(fields, last, 2, usize::MAX)
    }

    /// Reads this many datapoints at most, from the line with that number on.
    fn rows(
        &mut self,
        fields: &Fields,
        last: LastLine,
        first: usize,
        most: usize,
    ) -> Result<Table, Malformed> {
        let mut columns: Vec<Option<Column>> = fields
            .iter()
            .map(|field| Some(field.as_ref()?.empty()))
            .collect();
        let (mut rows, mut torn) = (0, false);
        let mut line = Vec::new();
        while rows < most {
            let at_line = |wrong: Malformed| wrong.at_line(first + rows);
            let read = read_line(&mut self.reader, LINE_BYTES, &mut line).map_err(at_line)?;
            let Some(end) = read else {
                break;
            };
            // The file's own end may be an empty line.
            if line.is_empty() && self.is_at_end().map_err(at_line)? {
                break;
            }
            if end == End::File && last == LastLine::IsTorn {
                torn = true;
                break;
            }
            match parse_line(&line, fields, &mut columns) {
                Ok(()) => rows += 1,
                Err(LineError::TooShort(_)) if end == End::File => {
                    cut(&mut columns, rows);
                    torn = true;
                }
                Err(wrong) => return Err(at_line(wrong.into_malformed(&self.header))),
            }
        }
        let columns = Columns {
            columns: columns.into_iter().flatten().collect(),
            rows,
        };
        Ok(Table { columns, torn })
    }

    fn is_at_end(&mut self) -> Result<bool, Malformed> {
        self.reader
            .fill_buf()
            .map(<[u8]>::is_empty)
            .map_err(unreadable)
    }
}

/// The next line without its end; `None` after the last.
fn read_line(
    reader: &mut impl BufRead,
    limit: usize,
    line: &mut Vec<u8>,
) -> Result<Option<End>, Malformed> {
    line.clear();
    let read = reader.take(limit as u64).read_until(b'\n', line);
    let read = read.map_err(unreadable)?;
    let end = match line.pop_if(|last| *last == b'\n') {
        Some(_) => End::Newline,
        None if read == 0 => return Ok(None),
        None if read == limit => {
            return Err(Malformed::new(format!("is longer than {limit} bytes")));
        }
        None => End::File,
    };
    line.pop_if(|last| *last == b'\r');
    Ok(Some(end))
}

fn unreadable(error: std::io::Error) -> Malformed {
    Malformed::new(format!("cannot be read: {error}"))
}

/// Takes back what an unfinished line has left.
fn cut(columns: &mut [Option<Column>], rows: usize) {
    for column in columns.iter_mut().flatten() {
        match &mut column.values {
            Values::Integer(values) => values.truncate(rows),
            Values::Percent(values) => values.truncate(rows),
            Values::Name { codes, .. } => codes.truncate(rows),
        }
    }
}

enum LineError {
    TooShort(usize),
    TooLong,
    /// Which one, from 0, and what is wrong with it.
    Field(usize, String),
}

impl LineError {
    /// In the words of the file's own header.
    fn into_malformed(self, header: &[String]) -> Malformed {
        let expected = header.len();
        Malformed::new(match self {
            Self::TooShort(found) => {
                format!("has {found} fields, expected {expected} as in the header")
            }
            Self::TooLong => format!("has more than the {expected} fields of the header"),
            Self::Field(at, why) => format!("column {}: {why}", header[at]),
        })
    }
}

fn parse_line(
    line: &[u8],
    fields: &Fields,
    columns: &mut [Option<Column>],
) -> Result<(), LineError> {
    let mut rest = Some(line);
    for (found, (field, column)) in fields.iter().zip(columns.iter_mut()).enumerate() {
        let Some(text) = rest else {
            return Err(LineError::TooShort(found));
        };
        let (text, after) = split_field(text);
        rest = after;
        if let (Some(field), Some(column)) = (field, column) {
            store(text, field, &mut column.values)
                .map_err(|expected| LineError::Field(found, wrong_field(text, expected)))?;
        }
    }
    match rest {
        None => Ok(()),
        Some(_) => Err(LineError::TooLong),
    }
}

/// The first field, and what follows its comma.
fn split_field(text: &[u8]) -> (&[u8], Option<&[u8]>) {
    // A quoted field may hold commas (RFC 4180); no name that we know holds a quote.
    if let Some((b'"', inner)) = text.split_first()
        && let Some(end) = inner.iter().position(|&byte| byte == b'"')
        && matches!(inner.get(end + 1), None | Some(b','))
    {
        return (&inner[..end], inner.get(end + 2..));
    }
    match text.iter().position(|&byte| byte == b',') {
        Some(comma) => (&text[..comma], Some(&text[comma + 1..])),
        None => (text, None),
    }
}

fn wrong_field(text: &[u8], expected: &str) -> String {
    const SHOWN: usize = 40;
    let text = String::from_utf8_lossy(text);
    let mut shown: String = text.chars().take(SHOWN).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    format!("expected {expected}, found {shown:?}")
}

/// Appends the field's value; the error is what was expected.
fn store(text: &[u8], field: &Field, values: &mut Values) -> Result<(), &'static str> {
    let nullable = field.nullable;
    match (field.form, values) {
        (Form::Integer(shift), Values::Integer(values)) => {
            values.push(number(text, shift, nullable)?);
        }
        (Form::Whole(why_whole), Values::Integer(values)) => {
            let number = number(text, 0, nullable)?;
            if text.iter().any(|byte| b".eE".contains(byte)) {
                return Err(why_whole);
            }
            values.push(number);
        }
        (Form::Percent, Values::Percent(values)) => {
            values.push(decimal::percent(text).ok_or("a number")?);
        }
        (Form::Name, Values::Name { codes, names }) => {
            if text.is_empty() && !nullable {
                return Err("a name");
            }
            codes.push(code_of(names, text)?);
        }
        (Form::Flag(_), Values::Name { codes, .. }) => codes.push(match text {
            b"1" | b"1.0" | b"True" => 0,
            b"0" | b"0.0" | b"False" => 1,
            b"" => NO_NAME,
            _ => return Err("0 or 1"),
        }),
        _ => return Err("a column of another kind"),
    }
    Ok(())
}

fn number(text: &[u8], shift: u8, nullable: bool) -> Result<i64, &'static str> {
    match decimal::integer(text, shift) {
        Decimal::Number(number) => Ok(number),
        Decimal::Unknown if nullable => Ok(NULL),
        Decimal::Unknown | Decimal::Malformed => Err("a number"),
        Decimal::OutOfRange => Err("a number within 64 bits"),
    }
}

/// The columns without datapoints.
pub(crate) fn empty(fields: &Fields) -> Columns {
    Columns {
        columns: fields.iter().flatten().map(Field::empty).collect(),
        rows: 0,
    }
}

#[cfg(test)]
mod tests {
    use reveille_snapshot::snapshot;

    use super::*;

    #[test]
    fn a_field_ends_at_its_comma_or_at_its_closing_quote() {
        for (text, field, after) in [
            ("", "", None),
            ("a", "a", None),
            ("a,", "a", Some("")),
            ("a,b,c", "a", Some("b,c")),
            (",b", "", Some("b")),
            (r#""a""#, "a", None),
            (r#""a,b""#, "a,b", None),
            (r#""a,b",c,d"#, "a,b", Some("c,d")),
            (r#""a","#, "a", Some("")),
            (r#""",b"#, "", Some("b")),
            // A quote inside a field, or an unclosed one, is an ordinary character.
            (r#"a"b,c"#, r#"a"b"#, Some("c")),
            (r#""a,b"#, r#""a"#, Some("b")),
            (r#""a"b,c"#, r#""a"b"#, Some("c")),
        ] {
            let split = split_field(text.as_bytes());
            let expected = (field.as_bytes(), after.map(str::as_bytes));
            assert_eq!(split, expected, "{text}");
        }
    }

    #[test]
    fn a_wrong_field_is_shown_up_to_forty_characters() {
        let letters = |n: usize| "\u{e4}".repeat(n);
        let shown = |text: &str| wrong_field(text.as_bytes(), "a number");
        assert_eq!(shown("x\ty"), r#"expected a number, found "x\ty""#);
        assert_eq!(
            shown(&letters(40)),
            format!("expected a number, found \"{}\"", letters(40))
        );
        assert_eq!(
            shown(&letters(41)),
            format!("expected a number, found \"{}\u{2026}\"", letters(40))
        );
    }

    /// One of each kind.
    fn fields() -> Vec<Option<Field>> {
        vec![
            Some(Field::new("time_ns", false, Form::Integer(3))),
            None,
            Some(Field::new("silent_time_ns", true, Form::Integer(0))),
            Some(Field::new(
                "wake_latency_ns",
                true,
                Form::Whole("whole nanoseconds"),
            )),
            Some(Field::new("cc6_percent", true, Form::Percent)),
            Some(Field::new("source", false, Form::Name)),
            Some(Field::new("requested_state", true, Form::Name)),
            Some(Field::new(
                "first",
                true,
                Form::Flag(["after_idle", "interrupt"]),
            )),
        ]
    }

    const HEADER: &str = "t,x,s,w,c,o,r,f\n";

    fn read(lines: &str, last: LastLine) -> Result<Table, Malformed> {
        let csv = Csv::new(std::io::Cursor::new(format!("{HEADER}{lines}")))?;
        csv.all(&fields(), last)
    }

    fn wrong(lines: &str) -> String {
        let read = read(lines, LastLine::MayLackNewline);
        read.unwrap_err().to_string()
    }

    #[test]
    fn each_kind_of_field_becomes_its_value() {
        let lines = "1.5,junk,-7,12,99.5,timer,C6,1\n\
                     2,,,,,remote,,\r\n\
                     \"3\",\"a,b\",nan,-5,nan,\"timer\",\"C,1\",0\n\
                     4,,5,6,0,nic,C6,False\n";
        let table = read(lines, LastLine::MayLackNewline).unwrap();
        assert!(!table.torn);
        let columns = &table.columns;
        assert_eq!((columns.rows, columns.columns.len()), (4, 7));
        assert_eq!(
            columns.integers("time_ns"),
            Some(&[1500, 2000, 3000, 4000][..])
        );
        assert_eq!(
            columns.integers("silent_time_ns"),
            Some(&[-7, NULL, NULL, 5][..])
        );
        assert_eq!(
            columns.integers("wake_latency_ns"),
            Some(&[12, NULL, -5, 6][..])
        );
        let shares = columns.percents("cc6_percent").unwrap();
        assert_eq!((shares[0], shares[3]), (99.5, 0.0));
        assert!(shares[1].is_nan() && shares[2].is_nan());
        let names = |column: &str| {
            let (codes, names) = columns.names(column).unwrap();
            let name = |&code: &u8| names.get(usize::from(code)).map(String::as_str);
            codes.iter().map(name).collect::<Vec<_>>()
        };
        assert_eq!(
            names("source"),
            [Some("timer"), Some("remote"), Some("timer"), Some("nic")]
        );
        assert_eq!(
            names("requested_state"),
            [Some("C6"), None, Some("C,1"), Some("C6")]
        );
        assert_eq!(
            names("first"),
            [
                Some("after_idle"),
                None,
                Some("interrupt"),
                Some("interrupt")
            ]
        );
        for first in ["1", "1.0", "True"] {
            let table = read(&format!("1,,,,,a,,{first}\n"), LastLine::IsTorn).unwrap();
            assert_eq!(table.columns.names("first").unwrap().0, [0], "{first}");
        }
        for second in ["0", "0.0", "False"] {
            let table = read(&format!("1,,,,,a,,{second}\n"), LastLine::IsTorn).unwrap();
            assert_eq!(table.columns.names("first").unwrap().0, [1], "{second}");
        }
    }

    #[test]
    fn an_error_names_its_line_and_column() {
        let said = [
            ",,,,,a,,\n",
            "1,,,,,a,,\n2,,x,,,a,,\n",
            "1,,9223372036854775808,,,a,,\n",
            "1,,,5.0,,a,,\n",
            "1,,,5e1,,a,,\n",
            "1,,,,%,a,,\n",
            "1,,,,,,,\n",
            "1,,,,,a,,2\n",
            "1,,,,,a,,\n1,,,,,a,\n1,,,,,a,,\n",
            "1,,,,,a,,,\n",
            // An empty line is allowed only at the end.
            "1,,,,,a,,\n\n1,,,,,a,,\n",
        ]
        .map(|lines| (format!("{lines:?}"), wrong(lines)));
        snapshot!("csv", said);
        let table = read("1,,,,,a,,\n\n", LastLine::IsTorn).unwrap();
        assert_eq!((table.columns.rows, table.torn), (1, false));
    }

    #[test]
    fn the_end_of_the_file_is_a_datapoint_a_partial_one_or_nothing() {
        let whole = "1,,1,1,1,a,b,1\n";
        for (end, last, rows, torn) in [
            ("", LastLine::MayLackNewline, 1, false),
            ("2,,2,2,2,c,d,0", LastLine::MayLackNewline, 2, false),
            ("2,,2,2,2,c,d", LastLine::MayLackNewline, 1, true),
            ("2,,2", LastLine::MayLackNewline, 1, true),
            ("", LastLine::IsTorn, 1, false),
            ("2,,2,2,2,c,d,0", LastLine::IsTorn, 1, true),
            ("2,,2", LastLine::IsTorn, 1, true),
            ("2,,2,2,2,c,d,0\n", LastLine::IsTorn, 2, false),
        ] {
            let table = read(&format!("{whole}{end}"), last).unwrap();
            assert_eq!((table.columns.rows, table.torn), (rows, torn), "{end}");
            for column in &table.columns.columns {
                assert_eq!(column.values.len(), rows, "{end}: {}", column.name);
            }
        }
        // With too many fields, or an invalid one, it is not an incomplete datapoint.
        assert!(wrong(&format!("{whole}2,,2,2,2,c,d,0,")).starts_with("line 3: has more"));
        assert!(wrong(&format!("{whole}x,")).starts_with("line 3: column t"));
    }

    #[test]
    fn reading_in_parts_counts_lines_of_the_file_and_stops_when_the_consumer_fails() {
        // About 2 MB: two parts and more.
        let lines = format!("1,,,,,{},,\n", "a".repeat(200)).repeat(10_000);
        let text = format!("{HEADER}{lines}2,,x,,,a,,\n");
        let mut rows = 0;
        let csv = Csv::new(text.as_bytes()).unwrap();
        let wrong = csv.in_parts(&fields(), LastLine::IsTorn, |part| {
            rows += part.rows;
            Ok(())
        });
        assert!(
            wrong
                .unwrap_err()
                .to_string()
                .starts_with("line 10002: column s: ")
        );
        assert!((4000..10_000).contains(&rows), "{rows}");
        let csv = Csv::new(text.as_bytes()).unwrap();
        let mut calls = 0;
        let full = csv.in_parts(&fields(), LastLine::IsTorn, |_| {
            calls += 1;
            Err(Malformed::new("full"))
        });
        assert_eq!(
            (full.unwrap_err().to_string(), calls),
            ("full".to_owned(), 1)
        );
    }

    #[test]
    fn columns_without_datapoints_keep_their_names_and_kinds() {
        let none = empty(&fields());
        let named: Vec<(&str, bool)> = none
            .columns
            .iter()
            .map(|column| (column.name.as_str(), column.values.is_empty()))
            .collect();
        let names = [
            "time_ns",
            "silent_time_ns",
            "wake_latency_ns",
            "cc6_percent",
            "source",
            "requested_state",
            "first",
        ];
        assert_eq!(named, names.map(|name| (name, true)));
        assert_eq!(none, read("", LastLine::IsTorn).unwrap().columns);
        let fields = fields();
        let named: Vec<&str> = fields
            .iter()
            .flatten()
            .map(|field| field.name.as_str())
            .collect();
        assert_eq!(named, names);
    }
}
