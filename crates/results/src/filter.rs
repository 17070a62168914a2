//! Which datapoints count: `requested_state == "C6" && silent_time_ns > 250us`.
//!
//! ```text
//! condition  = condition "||" condition | condition "&&" condition | "!" condition
//!            | "(" condition ")" | comparison          (also: or, and, not)
//! comparison = value ( "==" | "!=" | "<" | "<=" | ">" | ">=" ) value
//! value      = COLUMN | NUMBER [ "ns" | "us" | "ms" | "s" | "%" ] | "TEXT" | 'TEXT' | "null"
//!            | value ( "+" | "-" | "*" | "/" ) value | "-" value | "(" value ")"
//! ```
//!
//! Columns are those of [`crate::schema`], in their own units: a number with a unit becomes
//! nanoseconds. wult's names stand for the same columns in wult's units (`WakeLatency`, µs; `CC6%`).
//! A comparison with an unknown value is neither true nor false, as in SQL, and a datapoint is kept
//! only where the condition is true; `== null` asks for unknown values.

mod evaluate;
mod expression;
mod lexer;
mod parser;

use std::fmt;

use crate::Columns;
use expression::Expression;

/// A condition on datapoints.
#[derive(Debug, Clone, PartialEq)]
pub struct Filter {
    text: String,
    condition: Expression,
}

impl Filter {
    /// Reads an expression.
    ///
    /// # Errors
    /// Where it is none; the error shows the place and says what was expected.
    pub fn parse(text: &str) -> Result<Self, FilterError> {
        let condition = parser::parse(text).map_err(|wrong| wrong.within(text))?;
        Ok(Self {
            text: text.to_owned(),
            condition,
        })
    }

    /// The columns that it needs, each once.
    pub fn columns(&self) -> Vec<&str> {
        let mut names = Vec::new();
        self.condition.columns(&mut names);
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Which datapoints it keeps, one flag each.
    ///
    /// # Errors
    /// Where `columns` lacks a column that the expression names.
    pub fn apply(&self, columns: &Columns) -> Result<Vec<bool>, FilterError> {
        evaluate::evaluate(&self.condition, columns).map_err(|wrong| wrong.within(&self.text))
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// What is wrong with an expression, and where. `Display` points into it, in three lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilterError {
    /// What is wrong, and what was expected.
    pub what: String,
    /// The expression.
    pub expression: String,
    /// Where, in characters.
    pub at: usize,
    /// How many characters; at least one.
    pub length: usize,
}

impl fmt::Display for FilterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A line break or a tabulator would move the caret.
        let blank = |character: char| {
            if character.is_control() {
                ' '
            } else {
                character
            }
        };
        let expression: String = self.expression.chars().map(blank).collect();
        let (indent, carets) = (" ".repeat(self.at), "^".repeat(self.length));
        write!(
            f,
            "filter: {}\n  {expression}\n  {indent}{carets}",
            self.what
        )
    }
}

impl std::error::Error for FilterError {}

/// A place in an expression, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Span {
    start: usize,
    end: usize,
}

impl Span {
    fn to(self, end: Span) -> Span {
        Span {
            start: self.start,
            end: end.end,
        }
    }
}

/// What is wrong, before it is known in which expression.
#[derive(Debug)]
struct Wrong {
    what: String,
    at: Span,
}

impl Wrong {
    fn new(at: Span, what: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            at,
        }
    }

    fn within(self, text: &str) -> FilterError {
        let characters = |bytes: usize| {
            text.char_indices()
                .take_while(|&(at, _)| at < bytes)
                .count()
        };
        let (start, end) = (characters(self.at.start), characters(self.at.end));
        FilterError {
            what: self.what,
            expression: text.to_owned(),
            at: start,
            length: (end - start.min(end)).max(1),
        }
    }
}
