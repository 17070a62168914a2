//! From tokens to a typed condition: precedence climbing, one function per kind of operand.

use super::expression::{ColumnName, Expression, Kind};
use super::lexer::{Comparison, Token, tokens};
use super::wrong::{Span, Wrong};
use crate::csv::Form;
use crate::schema::{self, COLUMNS};
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
    operand.condition(at)
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
    fn operand(&mut self, least: u8) -> Result<(Expression, Span), Wrong> {
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
            left = join((left, at), (operator, operator_at), (right, right_at))?;
            at = at.to(right_at);
        }
        self.depth -= 1;
        Ok((left, at))
    }

    /// An operand without an operator between two.
    fn single(&mut self) -> Result<(Expression, Span), Wrong> {
        let (token, at) = self.take();
        let operand = match token {
            Token::Number(number) => Expression::Constant(number),
            Token::Text(text) => Expression::Text(text),
            Token::Word(word) if word == "null" => Expression::Null,
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
                let inner = Box::new(inner.condition(inner_at)?);
                return Ok((Expression::Not(inner), at.to(inner_at)));
            }
            Token::Minus => {
                let (inner, inner_at) = self.operand(NEGATIVE)?;
                let inner = Box::new(inner.number(inner_at)?);
                return Ok((Expression::Negative(inner), at.to(inner_at)));
            }
            _ => return Err(Wrong::new(at, "expected a column, a number, a text or (")),
        };
        Ok((operand, at))
    }
}

type Placed<T> = (T, Span);

fn join(
    (left, left_at): Placed<Expression>,
    (operator, at): Placed<Token>,
    (right, right_at): Placed<Expression>,
) -> Result<Expression, Wrong> {
    let (left, right) = match operator {
        Token::Or | Token::And => (left.condition(left_at)?, right.condition(right_at)?),
        Token::Compare(comparison) => {
            let is_equality = matches!(comparison, Comparison::Equal | Comparison::Unequal);
            let (a, b) = (left.kind(), right.kind());
            let wrong = |at, what| Err(Wrong::new(at, what));
            match (a, b) {
                (Kind::Number, Kind::Number) => {}
                _ if !is_equality => {
                    let (a, b, hint) = (a.words(), b.words(), "expected == or !=, or two numbers");
                    return wrong(at, format!("{a} and {b} have no order; {hint}"));
                }
                (Kind::Name, Kind::Text | Kind::Null)
                | (Kind::Text | Kind::Null, Kind::Name)
                | (Kind::Number, Kind::Null)
                | (Kind::Null, Kind::Number) => {}
                (Kind::Name, other) => {
                    let what = format!("expected a text in quotes, found {}", other.words());
                    return wrong(right_at, what);
                }
                (a, b) => {
                    let what = format!("{} cannot be compared with {}", a.words(), b.words());
                    return wrong(left_at.to(right_at), what);
                }
            }
            (left, right)
        }
        _ => (left.number(left_at)?, right.number(right_at)?),
    };
    Ok(Expression::Both(Box::new(left), operator, Box::new(right)))
}

/// A column by our name or by wult's.
fn column(word: &str, at: Span) -> Result<Expression, Wrong> {
    let named = |name: &str| ColumnName {
        name: name.to_owned(),
        at,
    };
    match COLUMNS.iter().find(|(name, _, _)| *name == word) {
        Some((name, schema::Kind::Name, _)) => return Ok(Expression::Name(named(name))),
        Some((name, _, _)) => return Ok(Expression::Number(named(name))),
        None => {}
    }
    if own_csv::is_residency_column(word) || wult::EXTRA_COLUMNS.contains(&word) {
        return Ok(Expression::Number(named(word)));
    }
    match wult::field(word).map(|field| (named(&field.name), field.form)) {
        Some((ours, Form::Name)) => return Ok(Expression::Name(ours)),
        Some((ours, Form::Percent)) => return Ok(Expression::Number(ours)),
        Some((ours, Form::Integer(shift))) => {
            // The same figure in wult's unit.
            let unit = Box::new(Expression::Constant(10_f64.powi(shift.into())));
            let column = Box::new(Expression::Number(ours));
            return Ok(Expression::Both(column, Token::Over, unit));
        }
        _ => {}
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
