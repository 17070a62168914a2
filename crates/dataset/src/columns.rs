//! Datapoints in memory: one compact vector per column, so that a million of them stay small.

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

    pub(crate) fn reserve(&mut self, more: usize) {
        match self {
            Self::Integer(values) => values.reserve_exact(more),
            Self::Percent(values) => values.reserve_exact(more),
            Self::Name { codes, .. } => codes.reserve_exact(more),
        }
    }

    /// Appends values of the same kind; names keep their meaning whatever their codes were.
    ///
    /// # Errors
    /// Where the kinds differ, or there would be more than 255 names.
    pub(crate) fn append(&mut self, more: Values) -> Result<(), CannotAppend> {
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
pub(crate) struct CannotAppend;

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
    /// The column of that name.
    pub fn get(&self, name: &str) -> Option<&Values> {
        let column = self.columns.iter().find(|column| column.name == name)?;
        Some(&column.values)
    }

    /// Columns from their names and values.
    ///
    /// # Errors
    /// The name of a column that is not as long as the first one.
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
