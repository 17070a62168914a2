//! What this program prints, on its way to a terminal: the one place where text becomes bytes there.
//!
//! Names of files, commands and devices are written by others. A control character in them would be
//! an order to the terminal, and is shown in the form of JSON's strings instead: `\u001b`. So are
//! characters that turn the direction of text. The only orders that reach a terminal are the styles
//! of this module.

use std::borrow::Cow;
use std::fmt;
use std::io::{self, IsTerminal, StderrLock, StdoutLock, Write};

use anstream::{AutoStream, ColorChoice};
use anstyle::AnsiColor;

/// Standard output, for people to read.
pub fn stdout() -> Shown<StdoutLock<'static>> {
    let styled = AutoStream::choice(&io::stdout()) != ColorChoice::Never;
    Shown::new(io::stdout().lock(), styled)
}

/// Standard error, for people to read.
pub fn stderr() -> Shown<StderrLock<'static>> {
    let styled = AutoStream::choice(&io::stderr()) != ColorChoice::Never;
    Shown::new(io::stderr().lock(), styled)
}

/// Standard output, for programs to read: the very bytes, unless it is a terminal.
pub fn data() -> Box<dyn Write> {
    match io::stdout().is_terminal() {
        true => Box::new(Shown::new(io::stdout().lock(), false)),
        false => Box::new(io::stdout().lock()),
    }
}

/// A line of this program on standard error. It is dropped where the reader is gone: a command ends its
/// work and restores settings all the same.
pub fn say(words: impl fmt::Display) {
    say_plainly(format_args!("reveille: {words}"));
}

/// As [`say`], without the program's name before it.
pub fn say_plainly(words: impl fmt::Display) {
    // In one write: other programs write to the same terminal.
    let words = format!("{}\n", shown(&words.to_string()));
    let _ = io::stderr().write_all(words.as_bytes());
}

/// Text of others within one line.
pub fn shown(text: &str) -> Cow<'_, str> {
    if !text.contains(is_order) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 8);
    text.chars()
        .for_each(|character| push(&mut shown, character));
    Cow::Owned(shown)
}

/// What a table looks like where nothing is styled: for tests.
///
/// # Panics
/// Where it is no text.
pub fn plain(table: Vec<u8>) -> String {
    let mut out = Shown::new(Vec::new(), false);
    out.write_all(&table).unwrap();
    String::from_utf8(out.to).unwrap()
}

/// How words stand out: `{STYLE}words{STYLE:#}`, within a line.
///
/// On its way a style is one of Unicode's noncharacters, which are for use within a program and never
/// part of text (Unicode 16, section 23.7). So nothing of others has to be taken for a style.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style(Option<char>);

/// No style.
pub const PLAIN: Style = Style(None);
/// What a line is about.
pub const STRONG: Style = Style(Some('\u{fdd0}'));
/// What is beside the point.
pub const FAINT: Style = Style(Some('\u{fdd1}'));
/// What a reader should look at.
pub const NOTABLE: Style = Style(Some('\u{fdd2}'));
/// What is wrong.
pub const BAD: Style = Style(Some('\u{fdd3}'));
/// What is right.
pub const GOOD: Style = Style(Some('\u{fdd4}'));
/// What is missing.
pub const ABSENT: Style = Style(Some('\u{fdd5}'));
const END: char = '\u{fddf}';

impl fmt::Display for Style {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(_) if f.alternate() => write!(f, "{END}"),
            Some(mark) => write!(f, "{mark}"),
            None => Ok(()),
        }
    }
}

fn rendered(mark: char) -> Option<anstyle::Style> {
    Some(match Style(Some(mark)) {
        STRONG => anstyle::Style::new().bold(),
        FAINT => anstyle::Style::new().dimmed(),
        NOTABLE => AnsiColor::Yellow.on_default(),
        BAD => AnsiColor::Red.on_default().bold(),
        GOOD => AnsiColor::Green.on_default(),
        ABSENT => AnsiColor::Red.on_default(),
        _ => return None,
    })
}

/// Shows what is written to it.
pub struct Shown<W: Write> {
    to: W,
    styled: bool,
    /// The beginning of a character whose end is not written yet.
    torn: Vec<u8>,
    /// A style lasts to the end of its line at most.
    is_in_style: bool,
}

impl<W: Write> Shown<W> {
    /// To that writer; without `styled` styles are left out.
    pub fn new(to: W, styled: bool) -> Self {
        Self {
            to,
            styled,
            torn: Vec::new(),
            is_in_style: false,
        }
    }

    fn show(&mut self, text: &str, out: &mut String) {
        for character in text.chars() {
            match character {
                '\n' => {
                    self.end_style(out);
                    out.push('\n');
                }
                '\t' => out.push('\t'),
                END => self.end_style(out),
                other => match rendered(other) {
                    Some(style) if self.styled => {
                        out.push_str(&style.render().to_string());
                        self.is_in_style = true;
                    }
                    Some(_) => {}
                    None => push(out, other),
                },
            }
        }
    }

    fn end_style(&mut self, out: &mut String) {
        if std::mem::take(&mut self.is_in_style) {
            out.push_str(&anstyle::Reset.render().to_string());
        }
    }
}

impl<W: Write> Write for Shown<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut whole = std::mem::take(&mut self.torn);
        whole.extend_from_slice(bytes);
        let mut out = String::with_capacity(whole.len());
        let mut left = whole.as_slice();
        loop {
            let error = match std::str::from_utf8(left) {
                Ok(text) => break self.show(text, &mut out),
                Err(error) => error,
            };
            let (text, rest) = left.split_at(error.valid_up_to());
            self.show(std::str::from_utf8(text).unwrap_or_default(), &mut out);
            let Some(wrong) = error.error_len() else {
                self.torn = rest.to_vec();
                break;
            };
            out.push(char::REPLACEMENT_CHARACTER);
            left = &rest[wrong..];
        }
        self.to.write_all(out.as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

fn push(out: &mut String, character: char) {
    match is_order(character) {
        // All of these have four digits.
        true => out.push_str(&format!("\\u{:04x}", u32::from(character))),
        false => out.push(character),
    }
}

/// Would a terminal do something else than show it? Control characters; those that turn the direction
/// of text (Unicode 16, UAX 9) or end a line; and the marks of this module.
pub fn is_order(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
            | '\u{fdd0}'..='\u{fdef}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(pieces: &[&[u8]], styled: bool) -> String {
        let mut out = Shown::new(Vec::new(), styled);
        pieces
            .iter()
            .for_each(|piece| out.write_all(piece).unwrap());
        String::from_utf8(out.to).unwrap()
    }

    #[test]
    fn no_order_of_others_reaches_the_terminal() {
        let hostile = "a\x1b]0;title\x07b\rc\u{7f}\u{9b}31m\u{202e}d\n\te".as_bytes();
        for styled in [false, true] {
            assert_eq!(
                written(&[hostile], styled),
                "a\\u001b]0;title\\u0007b\\u000dc\\u007f\\u009b31m\\u202ed\n\te"
            );
        }
        assert_eq!(
            shown("two\nlines\t\u{fdd0}"),
            "two\\u000alines\\u0009\\ufdd0"
        );
        assert_eq!(shown("µs, 日本"), "µs, 日本");
        // A terminal of eight bits would take it for a control sequence.
        assert_eq!(written(&[b"a\x9bb"], true), "a\u{fffd}b");
    }

    #[test]
    fn what_json_means_stays_as_it_was() {
        let value = serde_json::json!({ "name": "\u{9b}31m\u{7f}\u{202e}\x1b" });
        let text = written(&[value.to_string().as_bytes()], false);
        assert!(!text.contains(is_order), "{text}");
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&text).unwrap(),
            value
        );
    }

    #[test]
    fn a_character_may_come_in_pieces() {
        let text = "µ日".as_bytes();
        let bytes: Vec<&[u8]> = text.chunks(1).collect();
        assert_eq!(written(&bytes, false), "µ日");
    }

    #[test]
    fn a_style_is_an_order_only_where_it_is_wanted_and_ends_with_its_line() {
        let line = format!("{STRONG}a{STRONG:#} {PLAIN}b{PLAIN:#} {BAD}c\nd");
        assert_eq!(written(&[line.as_bytes()], false), "a b c\nd");
        assert_eq!(
            written(&[line.as_bytes()], true),
            "\x1b[1ma\x1b[0m b \x1b[1m\x1b[31mc\x1b[0m\nd"
        );
    }
}
