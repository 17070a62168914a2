//! Datapoints in memory: one compact vector per column, so that a million of them stay small.

use crate::Malformed;

/// Null in an integer column.
pub const NULL: i64 = i64::MIN;

/// Null in a name column.
pub const NO_NAME: u8 = u8::MAX;

/// The values of one column.
#[derive(Debug, Clone, PartialEq)]
pub enum Values {
    /// [`NULL`] where unknown.
    Integer(Vec<i64>),
    /// NaN where unknown.
    Percent(Vec<f32>),
    /// An index into `names`, or [`NO_NAME`].
    Name {
        /// One for each row.
        codes: Vec<u8>,
        /// Each name once.
        names: Vec<String>,
    },
}

impl Values {
    /// How many values there are.
    pub fn len(&self) -> usize {
        match self {
            Self::Integer(values) => values.len(),
            Self::Percent(values) => values.len(),
            Self::Name { codes, .. } => codes.len(),
        }
    }

    /// Has it no value?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends values of the same kind; names keep their meaning whatever their codes were.
    fn append(&mut self, more: Values) -> Result<(), CannotAppend> {
        match (self, more) {
            (Self::Integer(values), Self::Integer(more)) => values.extend(more),
            (Self::Percent(values), Self::Percent(more)) => values.extend(more),
            (
                Self::Name { codes, names },
                Self::Name {
                    codes: more,
                    names: others,
                },
            ) => {
                let mut translated = Vec::with_capacity(others.len());
                for name in &others {
                    translated.push(code_of(names, name.as_bytes()).map_err(|_| CannotAppend)?);
                }
                let code = |code: u8| translated.get(usize::from(code)).copied();
                codes.extend(more.into_iter().map(|old| code(old).unwrap_or(NO_NAME)));
            }
            _ => return Err(CannotAppend),
        }
        Ok(())
    }
}

/// The columns' kinds differ, or there are too many names.
#[derive(Debug)]
struct CannotAppend;

/// The longest name that a file may hold.
const NAME_BYTES_MAX: usize = 256;

/// The name's code; a new name is added while codes last. An empty name is no name.
pub(crate) fn code_of(names: &mut Vec<String>, name: &[u8]) -> Result<u8, &'static str> {
    if name.is_empty() {
        return Ok(NO_NAME);
    }
    if let Some(code) = names.iter().position(|known| known.as_bytes() == name) {
        return Ok(code as u8);
    }
    if name.len() > NAME_BYTES_MAX {
        return Err("a name of at most 256 bytes");
    }
    let name = std::str::from_utf8(name).map_err(|_| "a name in UTF-8")?;
    if names.len() >= usize::from(NO_NAME) {
        return Err("one of at most 255 names");
    }
    names.push(name.to_owned());
    Ok((names.len() - 1) as u8)
}

/// A named column.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    /// As in the [schema](crate::schema).
    pub name: String,
    /// A value for each row.
    pub values: Values,
}

/// Columns of equal length.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Columns {
    /// All of the same length.
    pub columns: Vec<Column>,
    /// How many datapoints there are.
    pub rows: usize,
}

impl Columns {
    /// Appends datapoints with the same columns.
    pub(crate) fn append(&mut self, more: Self) -> Result<(), Malformed> {
        self.rows += more.rows;
        for (column, more) in self.columns.iter_mut().zip(more.columns) {
            column.values.append(more.values).map_err(|CannotAppend| {
                Malformed::new(format!("column {}: has more than 255 names", column.name))
            })?;
        }
        Ok(())
    }

    /// The column of that name.
    pub fn get(&self, name: &str) -> Option<&Values> {
        let column = self.columns.iter().find(|column| column.name == name)?;
        Some(&column.values)
    }

    /// Columns from their names and values; the error is the name of one that is not as long as the first.
    pub fn new(columns: Vec<Column>) -> std::result::Result<Self, String> {
        let rows = columns.first().map_or(0, |column| column.values.len());
        match columns.iter().find(|column| column.values.len() != rows) {
            Some(column) => Err(column.name.clone()),
            None => Ok(Self { columns, rows }),
        }
    }

    /// The integers of that column; `None` where there is no such integer column.
    pub fn integers(&self, name: &str) -> Option<&[i64]> {
        match self.get(name)? {
            Values::Integer(values) => Some(values),
            _ => None,
        }
    }

    /// Codes and names of that column.
    pub fn names(&self, name: &str) -> Option<(&[u8], &[String])> {
        match self.get(name)? {
            Values::Name { codes, names } => Some((codes, names)),
            _ => None,
        }
    }

    /// The shares of that column, per cent.
    pub fn percents(&self, name: &str) -> Option<&[f32]> {
        match self.get(name)? {
            Values::Percent(values) => Some(values),
            _ => None,
        }
    }

    /// Leaves only the datapoints whose flag is set, in place. Missing flags count as not set.
    pub fn retain(&mut self, kept: &[bool]) {
        fn pick<T>(values: &mut Vec<T>, kept: &[bool]) {
            let mut flags = kept.iter();
            values.retain(|_| flags.next().copied().unwrap_or(false));
            values.shrink_to_fit();
        }
        for column in &mut self.columns {
            match &mut column.values {
                Values::Integer(values) => pick(values, kept),
                Values::Percent(values) => pick(values, kept),
                Values::Name { codes, .. } => pick(codes, kept),
            }
        }
        self.rows = kept.iter().take(self.rows).filter(|&&kept| kept).count();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(codes: &[u8], names: &[&str]) -> Values {
        Values::Name {
            codes: codes.to_vec(),
            names: names.iter().map(|&name| name.to_owned()).collect(),
        }
    }

    #[test]
    fn a_column_has_the_length_of_its_values() {
        for (values, length) in [
            (Values::Integer(vec![]), 0),
            (Values::Integer(vec![4, NULL]), 2),
            (Values::Percent(vec![]), 0),
            (Values::Percent(vec![f32::NAN, 1.0, 2.0]), 3),
            (named(&[], &["a", "b"]), 0),
            (named(&[0, NO_NAME, 0, 0], &["a"]), 4),
        ] {
            assert_eq!(
                (values.len(), values.is_empty()),
                (length, length == 0),
                "{values:?}"
            );
        }
    }

    #[test]
    fn values_of_one_kind_are_appended_and_names_keep_their_meaning() {
        let mut integers = Values::Integer(vec![1]);
        integers.append(Values::Integer(vec![NULL, 3])).unwrap();
        assert_eq!(integers, Values::Integer(vec![1, NULL, 3]));
        let mut shares = Values::Percent(vec![1.0]);
        shares.append(Values::Percent(vec![2.0])).unwrap();
        assert_eq!(shares, Values::Percent(vec![1.0, 2.0]));
        // b is 0 in the second part and 1 in the first; c is new; 9 has no name.
        let mut names = named(&[0, 1], &["a", "b"]);
        names
            .append(named(&[0, 1, NO_NAME, 9], &["b", "c"]))
            .unwrap();
        assert_eq!(
            names,
            named(&[0, 1, 1, 2, NO_NAME, NO_NAME], &["a", "b", "c"])
        );
        let kinds = [
            Values::Integer(vec![1]),
            Values::Percent(vec![1.0]),
            named(&[0], &["a"]),
        ];
        for (at, kind) in kinds.iter().enumerate() {
            for (other, more) in kinds.iter().enumerate() {
                assert_eq!(kind.clone().append(more.clone()).is_ok(), at == other);
            }
        }
    }

    #[test]
    fn a_name_has_at_most_256_bytes_and_a_column_at_most_255_names() {
        let mut names = Vec::new();
        assert_eq!(code_of(&mut names, b"C1"), Ok(0));
        assert_eq!(code_of(&mut names, b"C6"), Ok(1));
        assert_eq!(code_of(&mut names, b"C1"), Ok(0));
        assert_eq!(code_of(&mut names, b""), Ok(NO_NAME));
        assert_eq!(
            code_of(&mut names, &[b'x'; 257]),
            Err("a name of at most 256 bytes")
        );
        assert_eq!(code_of(&mut names, b"\xff"), Err("a name in UTF-8"));
        assert_eq!(names, ["C1", "C6"]);
        assert_eq!(code_of(&mut names, &[b'x'; 256]), Ok(2));
        for at in 3..255 {
            assert_eq!(code_of(&mut names, format!("S{at}").as_bytes()), Ok(at));
        }
        let full = code_of(&mut names, b"one more");
        assert_eq!(full, Err("one of at most 255 names"));
        // The existing ones are still found.
        assert_eq!(code_of(&mut names, b"S254"), Ok(254));
        assert!(named(&[0], &["one more"]).append(named(&[], &[])).is_ok());
        let mut all = Values::Name {
            codes: vec![],
            names,
        };
        assert!(all.append(named(&[0], &["S254"])).is_ok());
        assert!(all.append(named(&[0], &["one more"])).is_err());
    }

    fn three() -> Columns {
        let column = |name: &str, values| Column {
            name: name.to_owned(),
            values,
        };
        Columns::new(vec![
            column("cpu", Values::Integer(vec![5, 6, 7])),
            column("cc6_percent", Values::Percent(vec![0.5, 1.5, 2.5])),
            column("first", named(&[1, 0, 1], &["thread", "interrupt"])),
        ])
        .unwrap()
    }

    #[test]
    fn a_column_is_found_by_its_name_and_kind() {
        let columns = three();
        assert_eq!(columns.rows, 3);
        assert_eq!(columns.integers("cpu"), Some(&[5, 6, 7][..]));
        assert_eq!(columns.percents("cc6_percent"), Some(&[0.5, 1.5, 2.5][..]));
        let (codes, names) = columns.names("first").unwrap();
        assert_eq!(codes, [1, 0, 1]);
        assert_eq!(names, ["thread", "interrupt"]);
        for name in ["cc6_percent", "first", "weather"] {
            assert_eq!(columns.integers(name), None);
        }
        for name in ["cpu", "first", "weather"] {
            assert_eq!(columns.percents(name), None);
        }
        for name in ["cpu", "cc6_percent", "weather"] {
            assert_eq!(columns.names(name), None);
        }
        assert_eq!(columns.get("weather"), None);
    }

    #[test]
    fn columns_of_different_length_are_refused_by_name() {
        let mut columns = three().columns;
        columns[2].values = named(&[0, 0], &["thread"]);
        assert_eq!(Columns::new(columns), Err("first".to_owned()));
        assert_eq!(Columns::new(Vec::new()), Ok(Columns::default()));
    }

    #[test]
    fn retained_values_are_those_with_their_flag_set() {
        let mut columns = three();
        columns.retain(&[true, false, true]);
        assert_eq!(columns.rows, 2);
        assert_eq!(columns.integers("cpu"), Some(&[5, 7][..]));
        assert_eq!(columns.percents("cc6_percent"), Some(&[0.5, 2.5][..]));
        assert_eq!(columns.names("first").unwrap().0, [1, 1]);
        // A missing flag is not set, and an extra one belongs to no datapoint.
        let mut columns = three();
        columns.retain(&[false, true]);
        assert_eq!(
            (columns.rows, columns.integers("cpu").unwrap()),
            (1, &[6][..])
        );
        let mut columns = three();
        columns.retain(&[true; 5]);
        assert_eq!(columns, three());
    }
}
