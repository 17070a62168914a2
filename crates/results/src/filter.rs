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
mod wrong;

use std::fmt;

use crate::Columns;
use expression::Expression;
pub use wrong::FilterError;

/// A condition on datapoints.
#[derive(Debug, Clone, PartialEq)]
pub struct Filter {
    text: String,
    condition: Expression,
}

impl Filter {
    /// Reads an expression; the error shows the place and what was expected.
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

    /// Which datapoints it keeps, one flag each; an error if `columns` lacks a column that it names.
    pub fn apply(&self, columns: &Columns) -> Result<Vec<bool>, FilterError> {
        evaluate::evaluate(&self.condition, columns).map_err(|wrong| wrong.within(&self.text))
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
