//! A condition over many datapoints, a batch at a time: the loops are over plain slices, and what
//! lies between the operators stays in the cache.

use super::expression::{ColumnName, Expression};
use super::lexer::{Comparison, Token};
use super::wrong::Wrong;
use crate::columns::{Columns, NO_NAME, NULL, Values};
use crate::nearest;

/// Datapoints per batch.
const BATCH: usize = 4096;

/// Kleene's three values, chosen so that `or` is the larger and `and` the smaller.
const FALSE: u8 = 0;
const UNKNOWN: u8 = 1;
const TRUE: u8 = 2;

/// One flag per datapoint: is the condition true?
pub(super) fn evaluate(condition: &Expression, columns: &Columns) -> Result<Vec<bool>, Wrong> {
    let mut kept = Vec::with_capacity(columns.rows);
    let mut start = 0;
    // Also without datapoints the names are checked.
    loop {
        let batch = Batch {
            columns,
            start,
            end: (start + BATCH).min(columns.rows),
        };
        let truths = batch.condition(condition)?;
        kept.extend(truths.into_iter().map(|truth| truth == TRUE));
        start = batch.end;
        if start >= columns.rows {
            return Ok(kept);
        }
    }
}

struct Batch<'a> {
    columns: &'a Columns,
    start: usize,
    end: usize,
}

impl Batch<'_> {
    fn condition(&self, condition: &Expression) -> Result<Vec<u8>, Wrong> {
        Ok(match condition {
            Expression::Not(inner) => {
                let mut inner = self.condition(inner)?;
                inner.iter_mut().for_each(|truth| *truth = TRUE - *truth);
                inner
            }
            Expression::Both(left, Token::Compare(comparison), right) => {
                self.comparison(left, *comparison, right)?
            }
            Expression::Both(left, operator, right) => {
                let (mut truths, right) = (self.condition(left)?, self.condition(right)?);
                for (left, right) in truths.iter_mut().zip(right) {
                    *left = match operator {
                        Token::Or => right.max(*left),
                        _ => right.min(*left),
                    };
                }
                truths
            }
            _ => unreachable!("the parser has checked that it is a condition"),
        })
    }

    fn comparison(
        &self,
        left: &Expression,
        comparison: Comparison,
        right: &Expression,
    ) -> Result<Vec<u8>, Wrong> {
        let equal = comparison == Comparison::Equal;
        Ok(match (left, right) {
            (Expression::Name(column), other) | (other, Expression::Name(column)) => {
                let (codes, names) = self.names(column)?;
                let wanted = match other {
                    Expression::Text(text) => names.iter().position(|name| name == text),
                    _ => {
                        let is_null = codes.iter().map(|&code| flag((code == NO_NAME) == equal));
                        return Ok(is_null.collect());
                    }
                };
                let truth = |&code: &u8| match code {
                    NO_NAME => UNKNOWN,
                    code => flag((Some(usize::from(code)) == wanted) == equal),
                };
                codes.iter().map(truth).collect()
            }
            (number, Expression::Null) | (Expression::Null, number) => {
                let values = self.number(number)?.into_iter();
                values.map(|value| flag(value.is_nan() == equal)).collect()
            }
            (left, right) => {
                let pairs = self.number(left)?.into_iter().zip(self.number(right)?);
                pairs
                    .map(|(left, right)| compare(left, comparison, right))
                    .collect()
            }
        })
    }

    /// NaN where unknown. A double holds every integer up to 2^53: ns of a hundred days.
    fn number(&self, number: &Expression) -> Result<Vec<f64>, Wrong> {
        Ok(match number {
            Expression::Constant(value) => vec![*value; self.end - self.start],
            Expression::Number(column) => match self.values(column)? {
                Values::Integer(values) => {
                    let known = |&value: &i64| match value {
                        NULL => f64::NAN,
                        value => value as f64,
                    };
                    values[self.start..self.end].iter().map(known).collect()
                }
                Values::Percent(values) => {
                    let values = values[self.start..self.end].iter();
                    values.map(|&value| f64::from(value)).collect()
                }
                Values::Name { .. } => return Err(other_kind(column)),
            },
            Expression::Negative(inner) => {
                let mut inner = self.number(inner)?;
                inner.iter_mut().for_each(|value| *value = -*value);
                inner
            }
            Expression::Both(left, operator, right) => {
                let (mut left, right) = (self.number(left)?, self.number(right)?);
                for (left, right) in left.iter_mut().zip(right) {
                    match operator {
                        Token::Plus => *left += right,
                        Token::Minus => *left -= right,
                        Token::Times => *left *= right,
                        _ => *left /= right,
                    }
                }
                left
            }
            _ => unreachable!("the parser has checked that it is a number"),
        })
    }

    fn values(&self, column: &ColumnName) -> Result<&Values, Wrong> {
        self.columns.get(&column.name).ok_or_else(|| {
            let there = self
                .columns
                .columns
                .iter()
                .map(|column| column.name.as_str());
            let hint = match nearest::name(&column.name, there.clone()) {
                Some(near) => format!("did you mean {near}?"),
                None => format!("it has {}", there.collect::<Vec<_>>().join(", ")),
            };
            Wrong::new(
                column.at,
                format!("this result has no column {}; {hint}", column.name),
            )
        })
    }

    fn names(&self, column: &ColumnName) -> Result<(&[u8], &[String]), Wrong> {
        match self.values(column)? {
            Values::Name { codes, names } => Ok((&codes[self.start..self.end], names)),
            _ => Err(other_kind(column)),
        }
    }
}

fn other_kind(column: &ColumnName) -> Wrong {
    Wrong::new(
        column.at,
        format!("column {} is of another kind in this result", column.name),
    )
}

fn flag(truth: bool) -> u8 {
    if truth { TRUE } else { FALSE }
}

fn compare(left: f64, comparison: Comparison, right: f64) -> u8 {
    if left.is_nan() || right.is_nan() {
        return UNKNOWN;
    }
    flag(match comparison {
        Comparison::Equal => left == right,
        Comparison::Unequal => left != right,
        Comparison::Less => left < right,
        Comparison::LessOrEqual => left <= right,
        Comparison::Greater => left > right,
        Comparison::GreaterOrEqual => left >= right,
    })
}
