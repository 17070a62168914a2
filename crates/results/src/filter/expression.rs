//! What a filter says, with the type of each part known.

use super::lexer::Comparison;
use super::wrong::Span;

/// A condition: true, false or unknown for each datapoint.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Expression {
    Or(Box<Expression>, Box<Expression>),
    And(Box<Expression>, Box<Expression>),
    Not(Box<Expression>),
    Numbers(Number, Comparison, Number),
    /// Is the name the text (or is it another one)?
    Name {
        column: ColumnName,
        text: String,
        equal: bool,
    },
    /// Is the value unknown (or is it known)?
    Null {
        of: Nullable,
        is_null: bool,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Nullable {
    Number(Number),
    Name(ColumnName),
}

/// A number for each datapoint.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Number {
    Constant(f64),
    Column(ColumnName),
    Negative(Box<Number>),
    Both(Box<Number>, Operation, Box<Number>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    Add,
    Subtract,
    Multiply,
    Divide,
}

/// A column, and where it is named.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ColumnName {
    pub(super) name: String,
    pub(super) at: Span,
}

impl Expression {
    /// Adds the names of its columns.
    pub(super) fn columns<'a>(&'a self, names: &mut Vec<&'a str>) {
        match self {
            Self::Or(left, right) | Self::And(left, right) => {
                left.columns(names);
                right.columns(names);
            }
            Self::Not(inner) => inner.columns(names),
            Self::Numbers(left, _, right) => {
                left.columns(names);
                right.columns(names);
            }
            Self::Name { column, .. }
            | Self::Null {
                of: Nullable::Name(column),
                ..
            } => {
                names.push(&column.name);
            }
            Self::Null {
                of: Nullable::Number(number),
                ..
            } => number.columns(names),
        }
    }
}

impl Number {
    fn columns<'a>(&'a self, names: &mut Vec<&'a str>) {
        match self {
            Self::Constant(_) => {}
            Self::Column(column) => names.push(&column.name),
            Self::Negative(inner) => inner.columns(names),
            Self::Both(left, _, right) => {
                left.columns(names);
                right.columns(names);
            }
        }
    }
}
