//! Output to terminals: the only place where text is written to one.
//!
//! Names of files, commands and devices come from elsewhere. A control character in them could control
//! the terminal, and is shown as in JSON strings instead: `\u001b`. So are characters that change the
//! direction of text. The only control sequences that reach a terminal are the styles of this module.

mod drawn;
mod live;
mod stream;

use std::borrow::Cow;
use std::fmt;
use std::io::{self, LineWriter, Write};

use anstream::{AutoStream, ColorChoice};
use anstyle::AnsiColor;

pub use drawn::Screen;
pub use live::Live;
pub use stream::{Stream, ends, is_one_place};

/// The way to a stream: no lock is kept between two writes, so that another thread's message never waits for who draws.
pub struct Way(Stream);

impl Write for Way {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        drawn::write(self.0, bytes).map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Whole lines, each written at once. What follows the last newline is written when it is flushed or dropped.
pub type Lines = LineWriter<Shown<Way>>;

/// The longest line that is written at once.
const LINE: usize = 16 << 10;

fn lines(to: Stream, styled: bool) -> Lines {
    LineWriter::with_capacity(LINE, Shown::new(Way(to), styled))
}

/// Standard output for people.
pub fn stdout() -> Lines {
    lines(Stream::Output, is_styled(Stream::Output))
}

/// Standard error for people.
pub fn stderr() -> Lines {
    lines(Stream::Error, is_styled(Stream::Error))
}

fn is_styled(stream: Stream) -> bool {
    let choice = match stream {
        Stream::Output => AutoStream::choice(&io::stdout()),
        Stream::Error => AutoStream::choice(&io::stderr()),
    };
    choice != ColorChoice::Never
}

/// Standard output for programs: unchanged, unless it is a terminal.
pub fn data() -> Box<dyn Write> {
    match Stream::Output.is_terminal() {
        true => Box::new(lines(Stream::Output, false)),
        false => Box::new(io::stdout()),
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
    let _ = drawn::write(Stream::Error, words.as_bytes());
}

/// Text of others within one line.
pub fn shown(text: &str) -> Cow<'_, str> {
    if !text.contains(is_control) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 8);
    text.chars()
        .for_each(|character| push(&mut shown, character));
    Cow::Owned(shown)
}

/// A table without styles, for tests.
///
/// # Panics
/// If it is not UTF-8.
pub fn plain(table: Vec<u8>) -> String {
    let mut out = Shown::new(Vec::new(), false);
    out.write_all(&table).unwrap();
    String::from_utf8(out.to).unwrap()
}

/// A style: `{STYLE}words{STYLE:#}`, within a line.
///
/// Internally a style is one of Unicode's noncharacters, which are for use within a program and never
/// part of text (Unicode 16, section 23.7). So no text from elsewhere can be mistaken for a style.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style(Option<char>);

/// No style.
pub const PLAIN: Style = Style(None);
/// The subject of a line.
pub const STRONG: Style = Style(Some('\u{fdd0}'));
/// Less important text.
pub const FAINT: Style = Style(Some('\u{fdd1}'));
/// Values that deserve attention.
pub const NOTABLE: Style = Style(Some('\u{fdd2}'));
/// Errors.
pub const BAD: Style = Style(Some('\u{fdd3}'));
/// Success.
pub const GOOD: Style = Style(Some('\u{fdd4}'));
/// Missing features.
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

fn is_style(character: char) -> bool {
    character == END || rendered(character).is_some()
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

/// A writer that makes text safe for a terminal.
pub struct Shown<W: Write> {
    to: W,
    styled: bool,
    /// The beginning of an incomplete character.
    torn: Vec<u8>,
    /// A style ends at the latest with its line.
    is_in_style: bool,
}

impl<W: Write> Shown<W> {
    /// Writes to `to`; without `styled`, styles are omitted.
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
    match is_control(character) {
        // All of these have four digits.
        true => out.push_str(&format!("\\u{:04x}", u32::from(character))),
        false => out.push(character),
    }
}

/// Whether a terminal may interpret the character: control characters; those that change the direction
/// of text (Unicode 16, UAX 9) or end a line; and the style marks of this module.
pub fn is_control(character: char) -> bool {
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
    fn no_foreign_control_sequence_reaches_the_terminal() {
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
        // An 8-bit terminal would interpret it as a control sequence.
        assert_eq!(written(&[b"a\x9bb"], true), "a\u{fffd}b");
    }

    #[test]
    fn json_keeps_its_meaning() {
        let value = serde_json::json!({ "name": "\u{9b}31m\u{7f}\u{202e}\x1b" });
        let text = written(&[value.to_string().as_bytes()], false);
        assert!(!text.contains(is_control), "{text}");
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
    fn a_style_is_written_only_if_enabled_and_ends_with_its_line() {
        let line = format!("{STRONG}a{STRONG:#} {PLAIN}b{PLAIN:#} {BAD}c\nd");
        assert_eq!(written(&[line.as_bytes()], false), "a b c\nd");
        assert_eq!(
            written(&[line.as_bytes()], true),
            "\x1b[1ma\x1b[0m b \x1b[1m\x1b[31mc\x1b[0m\nd"
        );
    }
}
