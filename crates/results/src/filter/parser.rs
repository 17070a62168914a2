//! From tokens to a typed condition: precedence climbing, one function per kind of operand.

use super::expression::{ColumnName, Expression, Nullable, Number, Operation};
use super::lexer::{Comparison, Token, tokens};
use super::wrong::{Span, Wrong};
use crate::schema::{COLUMNS, Kind};
use crate::{nearest, own_csv, wult};

/// Parentheses and negations within one another: deeper is no expression that a person writes, and
/// would use up the stack.
const DEPTH_MAX: usize = 64;

/// Operators in an expression, for the same reason: a chain is a tree as deep as it is long.
const OPERATORS_MAX: usize = 500;

/// Reads a whole expression.
pub(super) fn parse(text: &str) -> Result<Expression, Wrong> {
    let mut parser = Parser {
        tokens: tokens(text)?,
        next: 0,
        depth: 0,
        operators: 0,
    };
    let (operand, at) = parser.operand(0)?;
    let (token, after) = parser.peek();
    if *token != Token::End {
        return Err(Wrong::new(
            after,
            "expected an operator such as && or ||, or the end",
        ));
    }
    operand.into_condition(at)
}

/// What an operator can have at its sides.
enum Operand {
    Condition(Expression),
    Number(Number),
    NameColumn(ColumnName),
    Text(String),
    Null,
}

impl Operand {
    fn kind(&self) -> &'static str {
        match self {
            Self::Condition(_) => "a condition",
            Self::Number(_) => "a number",
            Self::NameColumn(_) => "a column of names",
            Self::Text(_) => "a text",
            Self::Null => "null",
        }
    }

    fn into_condition(self, at: Span) -> Result<Expression, Wrong> {
        match self {
            Self::Condition(condition) => Ok(condition),
            other => Err(Wrong::new(
                at,
                format!(
                    "expected a condition, found {}; compare it, for example with ==",
                    other.kind()
                ),
            )),
        }
    }

    fn into_number(self, at: Span) -> Result<Number, Wrong> {
        match self {
            Self::Number(number) => Ok(number),
            other => Err(Wrong::new(
                at,
                format!("expected a number, found {}", other.kind()),
            )),
        }
    }
}

struct Parser {
    tokens: Vec<(Token, Span)>,
    next: usize,
    depth: usize,
    operators: usize,
}

/// How tightly an operator binds; the tightest last.
fn precedence(token: &Token) -> Option<u8> {
    Some(match token {
        Token::Or => 1,
        Token::And => 2,
        Token::Compare(_) => 4,
        Token::Plus | Token::Minus => 5,
        Token::Times | Token::Over => 6,
        _ => return None,
    })
}

/// `not a == b` is `not (a == b)`.
const NOT: u8 = 3;
const NEGATIVE: u8 = 7;

impl Parser {
    fn peek(&self) -> (&Token, Span) {
        // The last one is the end, and after it nothing is taken.
        let (token, at) = &self.tokens[self.next];
        (token, *at)
    }

    fn take(&mut self) -> (Token, Span) {
        let (token, at) = self.peek();
        let taken = (token.clone(), at);
        self.next += 1;
        taken
    }

    /// An operand whose operators bind at least as tightly as `least`.
    fn operand(&mut self, least: u8) -> Result<(Operand, Span), Wrong> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(Wrong::new(
                self.peek().1,
                "is nested too deeply here; at most 64 levels",
            ));
        }
        let (mut left, mut at) = self.single()?;
        while let Some(strength) = precedence(self.peek().0)
            && strength >= least
        {
            let (operator, operator_at) = self.take();
            self.operators += 1;
            if self.operators > OPERATORS_MAX {
                return Err(Wrong::new(
                    operator_at,
                    "has too many operators; at most 500",
                ));
            }
            let (right, right_at) = self.operand(strength + 1)?;
            left = join(left, at, (&operator, operator_at), right, right_at)?;
            at = at.to(right_at);
        }
        self.depth -= 1;
        Ok((left, at))
    }

    /// An operand without an operator between two.
    fn single(&mut self) -> Result<(Operand, Span), Wrong> {
        let (token, at) = self.take();
        let operand = match token {
            Token::Number(number) => Operand::Number(Number::Constant(number)),
            Token::Text(text) => Operand::Text(text),
            Token::Word(word) if word == "null" => Operand::Null,
            Token::Word(word) => column(&word, at)?,
            Token::Open => {
                let (inner, _) = self.operand(0)?;
                let (token, close) = self.take();
                if token != Token::Close {
                    return Err(Wrong::new(close, "expected an operator or the closing )"));
                }
                return Ok((inner, at.to(close)));
            }
            Token::Not => {
                let (inner, inner_at) = self.operand(NOT)?;
                let inner = Box::new(inner.into_condition(inner_at)?);
                return Ok((Operand::Condition(Expression::Not(inner)), at.to(inner_at)));
            }
            Token::Minus => {
                let (inner, inner_at) = self.operand(NEGATIVE)?;
                let inner = Box::new(inner.into_number(inner_at)?);
                return Ok((Operand::Number(Number::Negative(inner)), at.to(inner_at)));
            }
            _ => return Err(Wrong::new(at, "expected a column, a number, a text or (")),
        };
        Ok((operand, at))
    }
}

fn join(
    left: Operand,
    left_at: Span,
    (operator, operator_at): (&Token, Span),
    right: Operand,
    right_at: Span,
) -> Result<Operand, Wrong> {
    let operation = match operator {
        Token::Or | Token::And => {
            let left = Box::new(left.into_condition(left_at)?);
            let right = Box::new(right.into_condition(right_at)?);
            return Ok(Operand::Condition(match operator {
                Token::Or => Expression::Or(left, right),
                _ => Expression::And(left, right),
            }));
        }
        Token::Compare(comparison) => {
            return compare(left, left_at, *comparison, operator_at, right, right_at);
        }
        Token::Plus => Operation::Add,
        Token::Minus => Operation::Subtract,
        Token::Times => Operation::Multiply,
        _ => Operation::Divide,
    };
    let left = Box::new(left.into_number(left_at)?);
    let right = Box::new(right.into_number(right_at)?);
    Ok(Operand::Number(Number::Both(left, operation, right)))
}

fn compare(
    left: Operand,
    left_at: Span,
    comparison: Comparison,
    at: Span,
    right: Operand,
    right_at: Span,
) -> Result<Operand, Wrong> {
    if let (Operand::Number(_), Operand::Number(_)) = (&left, &right) {
        let (left, right) = (left.into_number(left_at)?, right.into_number(right_at)?);
        return Ok(Operand::Condition(Expression::Numbers(
            left, comparison, right,
        )));
    }
    let equal = match comparison {
        Comparison::Equal => true,
        Comparison::Unequal => false,
        _ => {
            return Err(Wrong::new(
                at,
                format!(
                    "{} and {} have no order; expected == or !=, or two numbers",
                    left.kind(),
                    right.kind()
                ),
            ));
        }
    };
    Ok(Operand::Condition(match (left, right) {
        (Operand::NameColumn(column), Operand::Text(text))
        | (Operand::Text(text), Operand::NameColumn(column)) => Expression::Name {
            column,
            text,
            equal,
        },
        (Operand::NameColumn(column), Operand::Null)
        | (Operand::Null, Operand::NameColumn(column)) => Expression::Null {
            of: Nullable::Name(column),
            is_null: equal,
        },
        (Operand::Number(number), Operand::Null) | (Operand::Null, Operand::Number(number)) => {
            Expression::Null {
                of: Nullable::Number(number),
                is_null: equal,
            }
        }
        (Operand::NameColumn(_), other) => {
            let what = format!("expected a text in quotes, found {}", other.kind());
            return Err(Wrong::new(right_at, what));
        }
        (left, right) => {
            let what = format!("{} cannot be compared with {}", left.kind(), right.kind());
            return Err(Wrong::new(left_at.to(right_at), what));
        }
    }))
}

/// A column by our name or by wult's.
fn column(word: &str, at: Span) -> Result<Operand, Wrong> {
    let named = |name: &str| ColumnName {
        name: name.to_owned(),
        at,
    };
    let known = COLUMNS.iter().find(|(name, _, _)| *name == word);
    match known {
        Some((name, Kind::Name, _)) => return Ok(Operand::NameColumn(named(name))),
        Some((name, _, _)) => return Ok(Operand::Number(Number::Column(named(name)))),
        None => {}
    }
    if own_csv::is_residency_column(word) || wult::EXTRA_COLUMNS.contains(&word) {
        return Ok(Operand::Number(Number::Column(named(word))));
    }
    match wult::alias(word) {
        Some(wult::Alias::Name(ours)) => return Ok(Operand::NameColumn(named(&ours))),
        Some(wult::Alias::Number { ours, unit }) => {
            // The same figure in wult's unit.
            let column = Box::new(Number::Column(named(&ours)));
            let unit = Box::new(Number::Constant(f64::from(unit)));
            let number = Number::Both(column, Operation::Divide, unit);
            return Ok(Operand::Number(number));
        }
        None => {}
    }
    let ours = COLUMNS.iter().map(|&(name, _, _)| name);
    let hint = match nearest::name(word, ours.clone()) {
        Some(near) => format!("did you mean {near}?"),
        None => format!(
            "expected one of {}, or a share such as cc6_percent",
            ours.collect::<Vec<_>>().join(", ")
        ),
    };
    Err(Wrong::new(at, format!("there is no column {word}; {hint}")))
}
