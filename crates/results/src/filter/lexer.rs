//! An expression's text as tokens.

use super::wrong::{Span, Wrong};

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
        tokens.push((token, Span::of(start, length)));
        start += length;
    }
    tokens.push((Token::End, Span::of(start, 0)));
    Ok(tokens)
}

fn quoted(rest: &str, quote: char, start: usize) -> Result<(Token, usize), Wrong> {
    match rest[1..].find(quote) {
        Some(end) => Ok((Token::Text(rest[1..=end].to_owned()), end + 2)),
        None => {
            let what = format!("a text begins here and has no closing {quote}");
            Err(Wrong::new(Span::of(start, rest.len()), what))
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
    let at = Span::of(start, end.max(1));
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
            let what = format!("{unit:?} is not a unit; expected ns, us, ms, s or %");
            return Err(Wrong::new(Span::of(start + end, unit_length), what));
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
    let at = Span::of(start, character.len_utf8());
    let hint = match character {
        '=' => "\"=\" is written \"==\"",
        '&' => "\"&\" is written \"&&\"",
        '|' => "\"|\" is written \"||\"",
        'µ' | 'μ' => "microseconds are written \"us\"",
        _ => {
            let expected = "expected a column, a number or an operator";
            let what = format!("{character:?} means nothing here; {expected}");
            return Err(Wrong::new(at, what));
        }
    };
    Err(Wrong::new(at, hint))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tokens with their start and end.
    fn placed(text: &str) -> Vec<(Token, usize, usize)> {
        let tokens = tokens(text).unwrap_or_else(|wrong| panic!("{text}: {}", wrong.what));
        tokens
            .into_iter()
            .map(|(token, at)| (token, at.start, at.end))
            .collect()
    }

    /// The error, and its start and end.
    fn wrong(text: &str) -> (String, usize, usize) {
        let wrong = tokens(text).err().unwrap_or_else(|| panic!("{text}"));
        (wrong.what, wrong.at.start, wrong.at.end)
    }

    #[test]
    fn a_text_is_cut_into_tokens_with_their_positions() {
        let word = |word: &str| Token::Word(word.to_owned());
        assert_eq!(placed(""), [(Token::End, 0, 0)]);
        assert_eq!(
            placed("\u{a0} _a1>=1.5us and\t'\u{e4} b'"),
            [
                (word("_a1"), 3, 6),
                (Token::Compare(Comparison::GreaterOrEqual), 6, 8),
                (Token::Number(1500.0), 8, 13),
                (Token::And, 14, 17),
                (Token::Text("\u{e4} b".to_owned()), 18, 24),
                (Token::End, 24, 24),
            ]
        );
        // A share of wult's ends with its sign; words that only start like an operator are names.
        assert_eq!(
            placed("CC6%x or_ not% or not"),
            [
                (word("CC6%"), 0, 4),
                (word("x"), 4, 5),
                (word("or_"), 6, 9),
                (word("not%"), 10, 14),
                (Token::Or, 15, 17),
                (Token::Not, 18, 21),
                (Token::End, 21, 21),
            ]
        );
        assert_eq!(
            placed("\"\"'\"'"),
            [
                (Token::Text(String::new()), 0, 2),
                (Token::Text("\"".to_owned()), 2, 5),
                (Token::End, 5, 5),
            ]
        );
    }

    #[test]
    fn each_symbol_is_one_token() {
        use Comparison::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual, Unequal};
        for (symbol, token) in [
            ("||", Token::Or),
            ("&&", Token::And),
            ("!", Token::Not),
            ("==", Token::Compare(Equal)),
            ("!=", Token::Compare(Unequal)),
            ("<", Token::Compare(Less)),
            ("<=", Token::Compare(LessOrEqual)),
            (">", Token::Compare(Greater)),
            (">=", Token::Compare(GreaterOrEqual)),
            ("+", Token::Plus),
            ("-", Token::Minus),
            ("*", Token::Times),
            ("/", Token::Over),
            ("(", Token::Open),
            (")", Token::Close),
        ] {
            let end = symbol.len();
            let expected = [
                (token.clone(), 0, end),
                (token, end + 1, 2 * end + 1),
                (Token::End, 2 * end + 1, 2 * end + 1),
            ];
            assert_eq!(placed(&format!("{symbol} {symbol}")), expected);
        }
    }

    #[test]
    fn a_number_has_its_unit_applied() {
        for (text, expected) in [
            ("0", 0.0),
            ("250", 250.0),
            ("2_000", 2000.0),
            ("1.5", 1.5),
            (".5", 0.5),
            ("5.", 5.0),
            ("2e3", 2000.0),
            ("2E3", 2000.0),
            ("2e+3", 2000.0),
            ("2e-1", 0.2),
            ("1.5e1_0", 1.5e10),
            ("12e10", 12e10),
            ("7ns", 7.0),
            ("7us", 7000.0),
            ("2.5ms", 2_500_000.0),
            ("2s", 2_000_000_000.0),
            ("3e2us", 300_000.0),
            ("90%", 90.0),
            ("0.5%", 0.5),
        ] {
            let length = text.len();
            assert_eq!(
                placed(text),
                [
                    (Token::Number(expected), 0, length),
                    (Token::End, length, length)
                ],
                "{text}"
            );
        }
        // Two numbers, because a second point belongs to no number.
        assert_eq!(
            placed(" 1.2.3us"),
            [
                (Token::Number(1.2), 1, 4),
                (Token::Number(300.0), 4, 8),
                (Token::End, 8, 8)
            ]
        );
    }

    #[test]
    fn an_invalid_token_is_marked_from_start_to_end() {
        let no_unit = |unit: &str| format!("{unit:?} is not a unit; expected ns, us, ms, s or %");
        let no_number = "expected a number such as 250, 2.5us or 90%";
        let nothing = |character: &str| {
            format!("{character} means nothing here; expected a column, a number or an operator")
        };
        for (text, what, start, end) in [
            ("a > 3min", no_unit("min"), 5, 8),
            ("a > 12.5e3h4 ", no_unit("h4"), 10, 12),
            // An exponent has digits.
            ("1e", no_unit("e"), 1, 2),
            (" 1e+", no_unit("e"), 2, 3),
            (" 12E-x", no_unit("E"), 3, 4),
            ("1e5e", no_unit("e"), 3, 4),
            ("a > .", no_number.to_owned(), 4, 5),
            ("a > ._ b", no_number.to_owned(), 4, 6),
            (
                "a 'bc",
                "a text begins here and has no closing '".to_owned(),
                2,
                5,
            ),
            (
                "a \"'",
                "a text begins here and has no closing \"".to_owned(),
                2,
                4,
            ),
            ("a = 1", "\"=\" is written \"==\"".to_owned(), 2, 3),
            ("a & b", "\"&\" is written \"&&\"".to_owned(), 2, 3),
            ("a | b", "\"|\" is written \"||\"".to_owned(), 2, 3),
            // The micro sign and the Greek letter.
            (
                "3 \u{b5}s",
                "microseconds are written \"us\"".to_owned(),
                2,
                4,
            ),
            (
                "3 \u{3bc}s",
                "microseconds are written \"us\"".to_owned(),
                2,
                4,
            ),
            ("a #", nothing("'#'"), 2, 3),
            ("a \u{20ac} b", nothing("'\u{20ac}'"), 2, 5),
            ("a % b", nothing("'%'"), 2, 3),
        ] {
            assert_eq!(wrong(text), (what, start, end), "{text}");
        }
    }
}
