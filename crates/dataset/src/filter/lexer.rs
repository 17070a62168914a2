//! An expression's text as tokens.

use super::{Span, Wrong};

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token {
    /// A column's name, or `null`.
    Word(String),
    /// With its unit applied: ns for times.
    Number(f64),
    Text(String),
    Or,
    And,
    Not,
    Compare(Comparison),
    Plus,
    Minus,
    Times,
    Over,
    Open,
    Close,
    End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Comparison {
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// Tokens and their places; the last one is [`Token::End`].
pub(super) fn tokens(text: &str) -> Result<Vec<(Token, Span)>, Wrong> {
    let mut tokens = Vec::new();
    let mut start = 0;
    while let Some(first) = text[start..].chars().next() {
        if first.is_whitespace() {
            start += first.len_utf8();
            continue;
        }
        let rest = &text[start..];
        let (token, length) = match first {
            '"' | '\'' => quoted(rest, first, start)?,
            '0'..='9' | '.' => number(rest, start)?,
            _ if first.is_ascii_alphabetic() || first == '_' => word(rest),
            _ => symbol(rest, start)?,
        };
        tokens.push((
            token,
            Span {
                start,
                end: start + length,
            },
        ));
        start += length;
    }
    tokens.push((Token::End, Span { start, end: start }));
    Ok(tokens)
}

fn quoted(rest: &str, quote: char, start: usize) -> Result<(Token, usize), Wrong> {
    match rest[1..].find(quote) {
        Some(end) => Ok((Token::Text(rest[1..=end].to_owned()), end + 2)),
        None => {
            let at = Span {
                start,
                end: start + rest.len(),
            };
            Err(Wrong::new(
                at,
                format!("a text begins here and has no closing {quote}"),
            ))
        }
    }
}

fn word(rest: &str) -> (Token, usize) {
    let belongs = |character: char| character.is_ascii_alphanumeric() || character == '_';
    let mut end = rest
        .find(|character| !belongs(character))
        .unwrap_or(rest.len());
    // wult's shares: CC6%.
    if rest[end..].starts_with('%') {
        end += 1;
    }
    let token = match &rest[..end] {
        "and" => Token::And,
        "or" => Token::Or,
        "not" => Token::Not,
        word => Token::Word(word.to_owned()),
    };
    (token, end)
}

fn number(rest: &str, start: usize) -> Result<(Token, usize), Wrong> {
    let bytes = rest.as_bytes();
    let digits = |mut at: usize| {
        while bytes
            .get(at)
            .is_some_and(|&byte| byte.is_ascii_digit() || byte == b'_')
        {
            at += 1;
        }
        at
    };
    let mut end = digits(0);
    if bytes.get(end) == Some(&b'.') {
        end = digits(end + 1);
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        let exponent = digits(end + 1 + sign);
        if exponent > end + 1 + sign {
            end = exponent;
        }
    }
    let at = Span {
        start,
        end: start + end.max(1),
    };
    let value: f64 = rest[..end]
        .replace('_', "")
        .parse()
        .map_err(|_| Wrong::new(at, "expected a number such as 250, 2.5us or 90%"))?;
    let after = &rest[end..];
    let unit_length = after
        .find(|character: char| !character.is_ascii_alphanumeric())
        .unwrap_or(after.len());
    let (factor, unit_length) = match &after[..unit_length] {
        "" if after.starts_with('%') => (1.0, 1),
        "" | "ns" => (1.0, unit_length),
        "us" => (1e3, unit_length),
        "ms" => (1e6, unit_length),
        "s" => (1e9, unit_length),
        unit => {
            let at = Span {
                start: start + end,
                end: start + end + unit_length,
            };
            return Err(Wrong::new(
                at,
                format!("{unit:?} is no unit; expected ns, us, ms, s or %"),
            ));
        }
    };
    Ok((Token::Number(value * factor), end + unit_length))
}

fn symbol(rest: &str, start: usize) -> Result<(Token, usize), Wrong> {
    const SYMBOLS: [(&str, Token); 15] = [
        ("||", Token::Or),
        ("&&", Token::And),
        ("==", Token::Compare(Comparison::Equal)),
        ("!=", Token::Compare(Comparison::Unequal)),
        ("<=", Token::Compare(Comparison::LessOrEqual)),
        (">=", Token::Compare(Comparison::GreaterOrEqual)),
        ("<", Token::Compare(Comparison::Less)),
        (">", Token::Compare(Comparison::Greater)),
        ("!", Token::Not),
        ("+", Token::Plus),
        ("-", Token::Minus),
        ("*", Token::Times),
        ("/", Token::Over),
        ("(", Token::Open),
        (")", Token::Close),
    ];
    for (symbol, token) in SYMBOLS {
        if rest.starts_with(symbol) {
            return Ok((token, symbol.len()));
        }
    }
    let character = rest.chars().next().unwrap_or(' ');
    let at = Span {
        start,
        end: start + character.len_utf8(),
    };
    let hint = match character {
        '=' => "\"=\" is written \"==\"",
        '&' => "\"&\" is written \"&&\"",
        '|' => "\"|\" is written \"||\"",
        'µ' | 'μ' => "microseconds are written \"us\"",
        _ => {
            let what = format!(
                "{character:?} means nothing here; expected a column, a number or an operator"
            );
            return Err(Wrong::new(at, what));
        }
    };
    Err(Wrong::new(at, hint))
}
