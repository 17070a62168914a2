//! A parsed filter. The parser has checked the kind of each part.

use super::lexer::Token;
use super::wrong::{Span, Wrong};

/// A condition, or what an operator has at its sides.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Expression {
    Constant(f64),
    Text(String),
    Null,
    Number(ColumnName),
    Name(ColumnName),
    Not(Box<Expression>),
    Negative(Box<Expression>),
    /// The operator's token between its two sides.
    Both(Box<Expression>, Token, Box<Expression>),
}

/// A column, and where it is named.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ColumnName {
    pub(super) name: String,
    pub(super) at: Span,
}

/// What a part is; in words as messages have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Condition,
    Number,
    Name,
    Text,
    Null,
}

impl Kind {
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Condition => "a condition",
            Self::Number => "a number",
            Self::Name => "a column of names",
            Self::Text => "a text",
            Self::Null => "null",
        }
    }
}

impl Expression {
    pub(super) fn kind(&self) -> Kind {
        match self {
            Self::Not(_) | Self::Both(_, Token::Or | Token::And | Token::Compare(_), _) => {
                Kind::Condition
            }
            Self::Constant(_) | Self::Number(_) | Self::Negative(_) | Self::Both(..) => {
                Kind::Number
            }
            Self::Name(_) => Kind::Name,
            Self::Text(_) => Kind::Text,
            Self::Null => Kind::Null,
        }
    }

    pub(super) fn condition(self, at: Span) -> Result<Self, Wrong> {
        match self.kind() {
            Kind::Condition => Ok(self),
            other => {
                let found = other.words();
                let hint = "compare it, for example with ==";
                Err(Wrong::new(
                    at,
                    format!("expected a condition, found {found}; {hint}"),
                ))
            }
        }
    }

    pub(super) fn number(self, at: Span) -> Result<Self, Wrong> {
        match self.kind() {
            Kind::Number => Ok(self),
            other => Err(Wrong::new(
                at,
                format!("expected a number, found {}", other.words()),
            )),
        }
    }

    /// Adds the names of its columns.
    pub(super) fn columns<'a>(&'a self, names: &mut Vec<&'a str>) {
        match self {
            Self::Constant(_) | Self::Text(_) | Self::Null => {}
            Self::Number(column) | Self::Name(column) => names.push(&column.name),
            Self::Not(inner) | Self::Negative(inner) => inner.columns(names),
            Self::Both(left, _, right) => {
                left.columns(names);
                right.columns(names);
            }
        }
    }
}
