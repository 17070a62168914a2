//! What stands on the terminal and will be written over. All that is written to the terminal goes through here, one
//! lock for one write: whoever writes takes away what is drawn, and who draws draws it again below.

use std::io::{self, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::stream::Stream;

enum Drawn {
    /// So many lines, with the cursor behind the last one; possibly none.
    Lines(usize),
    /// The whole screen, and what is to be written once it is left.
    Screen(Vec<(Stream, Vec<u8>)>),
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
        Drawn::Screen(later) => {
            later.push((to, bytes.to_vec()));
            Ok(())
        }
        Drawn::Lines(lines) => {
            let lines = std::mem::take(lines);
            to.write(&[erased(lines).as_bytes(), bytes].concat())
        }
    }
}

/// Draws so many lines in place of those before; `text` has no newline at its end. It does not wait: if the terminal
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
            *drawn = Drawn::Screen(Vec::new());
        }
        Ok(Self(Vec::new()))
    }

    /// Gives it back, with a cursor; does nothing if it was given back already.
    ///
    /// # Errors
    /// Of the terminal.
    pub fn leave() -> io::Result<()> {
        let mut drawn = drawn();
        if let Drawn::Screen(later) = std::mem::replace(&mut *drawn, Drawn::Lines(0)) {
            Stream::Output.write(b"\x1b[?1049l\x1b[?25h")?;
            later.iter().try_for_each(|(to, bytes)| to.write(bytes))?;
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
