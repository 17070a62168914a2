//! What stands on the terminal and will be written over. All that is written to the terminal goes through here, one
//! lock for one write: whoever writes takes away what is drawn, and who draws draws it again below.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::stream::Stream;

enum Drawn {
    /// So many lines, with the cursor behind the last one; possibly none.
    Lines(usize),
    /// The whole screen, and what is to be written once it is left.
    Screen(Kept),
}

/// The latest messages, and how many older ones are left out.
#[derive(Default)]
struct Kept {
    latest: VecDeque<(Stream, Vec<u8>)>,
    left_out: usize,
}

impl Kept {
    const MOST: usize = 1000;

    fn keep(&mut self, to: Stream, bytes: &[u8]) {
        if self.latest.len() == Self::MOST {
            self.latest.pop_front();
            self.left_out += 1;
        }
        self.latest.push_back((to, bytes.to_vec()));
    }
}

static DRAWN: Mutex<Drawn> = Mutex::new(Drawn::Lines(0));

fn drawn() -> MutexGuard<'static, Drawn> {
    DRAWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// To the beginning of the first line; all from there on goes.
fn erased(lines: usize) -> String {
    match lines {
        0 => String::new(),
        1 => "\r\x1b[J".to_owned(),
        _ => format!("\r\x1b[{}A\x1b[J", lines - 1),
    }
}

/// Writes whole lines, in place of what is drawn; below a screen, once that is left.
///
/// # Errors
/// Of the output.
pub fn write(to: Stream, bytes: &[u8]) -> io::Result<()> {
    if !to.is_terminal() {
        return to.write(bytes);
    }
    let mut drawn = drawn();
    match &mut *drawn {
        Drawn::Screen(kept) => {
            kept.keep(to, bytes);
            Ok(())
        }
        Drawn::Lines(lines) => {
            let lines = std::mem::take(lines);
            to.write(&[erased(lines).as_bytes(), bytes].concat())
        }
    }
}

/// Draws `text` in place of what is drawn: `lines` lines, without a newline at the end. It does not wait. If the terminal
/// takes nothing now, nothing is drawn.
pub fn draw(to: Stream, text: &str, lines: usize) {
    if let Drawn::Lines(before) = &mut *drawn()
        && matches!(to.write_now((erased(*before) + text).as_bytes()), Ok(1..))
    {
        *before = lines;
    }
}

/// The whole of the terminal on standard output, for a view that draws all of it. What others write meanwhile appears
/// once the view has left.
pub struct Screen(Vec<u8>);

impl Screen {
    /// Takes the terminal; what was on it comes back when it is left.
    ///
    /// # Errors
    /// Of the terminal.
    pub fn enter() -> io::Result<Self> {
        let mut drawn = drawn();
        if let Drawn::Lines(lines) = *drawn {
            Stream::Output.write((erased(lines) + "\x1b[?1049h").as_bytes())?;
            *drawn = Drawn::Screen(Kept::default());
        }
        Ok(Self(Vec::new()))
    }

    /// Gives it back, with a cursor; does nothing if it was given back already.
    ///
    /// # Errors
    /// Of the terminal.
    pub fn leave() -> io::Result<()> {
        let mut drawn = drawn();
        if let Drawn::Screen(kept) = std::mem::replace(&mut *drawn, Drawn::Lines(0)) {
            Stream::Output.write(b"\x1b[?1049l\x1b[?25h")?;
            if kept.left_out > 0 {
                let said = format!("{} older messages are left out\n", kept.left_out);
                Stream::Error.write(said.as_bytes())?;
            }
            kept.latest
                .iter()
                .try_for_each(|(to, bytes)| to.write(bytes))?;
        }
        Ok(())
    }
}

impl Write for Screen {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        match &*drawn() {
            Drawn::Screen(_) => Stream::Output.write(&std::mem::take(&mut self.0)),
            Drawn::Lines(_) => {
                self.0.clear();
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_messages_are_kept_and_the_others_counted() {
        let mut kept = Kept::default();
        for number in 0..Kept::MOST + 3 {
            kept.keep(Stream::Error, number.to_string().as_bytes());
        }
        assert_eq!((kept.latest.len(), kept.left_out), (Kept::MOST, 3));
        assert_eq!(kept.latest[0].1, b"3");
    }
}
