//! A condition over many datapoints, a batch at a time: the loops are over plain slices, and what
//! lies between the operators stays in the cache.

use super::expression::{ColumnName, Expression, Nullable, Number, Operation};
use super::lexer::Comparison;
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
            Expression::Or(left, right) => {
                let (mut left, right) = (self.condition(left)?, self.condition(right)?);
                left.iter_mut()
                    .zip(right)
                    .for_each(|(left, right)| *left = right.max(*left));
                left
            }
            Expression::And(left, right) => {
                let (mut left, right) = (self.condition(left)?, self.condition(right)?);
                left.iter_mut()
                    .zip(right)
                    .for_each(|(left, right)| *left = right.min(*left));
                left
            }
            Expression::Not(inner) => {
                let mut inner = self.condition(inner)?;
                inner.iter_mut().for_each(|truth| *truth = TRUE - *truth);
                inner
            }
            Expression::Numbers(left, comparison, right) => {
                let (left, right) = (self.number(left)?, self.number(right)?);
                let pairs = left.into_iter().zip(right);
                pairs
                    .map(|(left, right)| compare(left, *comparison, right))
                    .collect()
            }
            Expression::Name {
                column,
                text,
                equal,
            } => {
                let (codes, names) = self.names(column)?;
                let wanted = names.iter().position(|name| name == text);
                let truth = |&code: &u8| match code {
                    NO_NAME => UNKNOWN,
                    code => flag((Some(usize::from(code)) == wanted) == *equal),
                };
                codes.iter().map(truth).collect()
            }
            Expression::Null {
                of: Nullable::Name(column),
                is_null,
            } => {
                let (codes, _) = self.names(column)?;
                codes
                    .iter()
                    .map(|&code| flag((code == NO_NAME) == *is_null))
                    .collect()
            }
            Expression::Null {
                of: Nullable::Number(number),
                is_null,
            } => {
                let values = self.number(number)?;
                values
                    .into_iter()
                    .map(|value| flag(value.is_nan() == *is_null))
                    .collect()
            }
        })
    }

    /// NaN where unknown. A double holds every integer up to 2^53: ns of a hundred days.
    fn number(&self, number: &Number) -> Result<Vec<f64>, Wrong> {
        Ok(match number {
            Number::Constant(value) => vec![*value; self.end - self.start],
            Number::Column(column) => match self.values(column)? {
                Values::Integer(values) => {
                    let known = |&value: &i64| {
                        if value == NULL {
                            f64::NAN
                        } else {
                            value as f64
                        }
                    };
                    values[self.start..self.end].iter().map(known).collect()
                }
                Values::Percent(values) => values[self.start..self.end]
                    .iter()
                    .map(|&value| f64::from(value))
                    .collect(),
                Values::Name { .. } => return Err(other_kind(column)),
            },
            Number::Negative(inner) => {
                let mut inner = self.number(inner)?;
                inner.iter_mut().for_each(|value| *value = -*value);
                inner
            }
            Number::Both(left, operation, right) => {
                let (mut left, right) = (self.number(left)?, self.number(right)?);
                for (left, right) in left.iter_mut().zip(right) {
                    match operation {
                        Operation::Add => *left += right,
                        Operation::Subtract => *left -= right,
                        Operation::Multiply => *left *= right,
                        Operation::Divide => *left /= right,
                    }
                }
                left
            }
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
