//! The view in a terminal: refreshed, steered by keys, and put away again however it ends.

use std::io::{self, stdout};
use std::mem::ManuallyDrop;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, raise};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::KeyEvent;
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen};
use ratatui::crossterm::terminal::{disable_raw_mode, enable_raw_mode};
use reveille_kernel::Error;
use reveille_watch::live::Snapshot;

use crate::Refresh;
use crate::draw::{About, Picture};
use crate::history::History;
use crate::input::{Happened, Input};
use crate::look::Look;
use crate::view::{Then, View};

/// Until the first figures come, at most.
pub const FIRST_LOOK: Duration = Duration::from_secs(1);

/// Shows what `read` gives at each refresh, in a terminal, until the user, a signal or the count ends it.
///
/// # Errors
/// Where there is no terminal to read keys from, and what `read` returns.
pub fn run(
    about: &About,
    refresh: &Refresh,
    read: impl FnMut() -> reveille_kernel::Result<Snapshot>,
) -> anyhow::Result<()> {
    let mut input = Input::open(&refresh.ended_by).map_err(|error| {
        Error::Usage(format!(
            "no terminal to read keys from ({error}): take --text, --json or --csv"
        ))
    })?;
    let mut shown = Shown {
        terminal: Terminal::enter()?,
        seen: Seen {
            about,
            look: Look::of_environment(),
            view: View::new(refresh.interval),
            history: History::default(),
            frozen: None,
        },
    };
    let ended = shown.follow(&mut input, refresh.count, read);
    drop(shown);
    match ended {
        Err(error) if gone(&error) => Ok(()),
        ended => ended,
    }
}

/// Did the terminal go away?
fn gone(error: &anyhow::Error) -> bool {
    let code = error.downcast_ref().and_then(io::Error::raw_os_error);
    matches!(
        code,
        Some(nix::libc::EIO | nix::libc::EPIPE | nix::libc::EBADF)
    )
}

struct Shown<'a> {
    terminal: Terminal,
    seen: Seen<'a>,
}

struct Seen<'a> {
    about: &'a About,
    look: Look,
    view: View,
    history: History,
    /// The history as it was when the view was frozen.
    frozen: Option<History>,
}

impl Seen<'_> {
    fn picture(&self) -> Picture<'_> {
        Picture {
            history: self.frozen.as_ref().unwrap_or(&self.history),
            view: &self.view,
            about: self.about,
            look: self.look,
        }
    }

    fn press(&mut self, key: KeyEvent, height: u16) -> Then {
        let listed = self.picture().listed(height);
        let then = self.view.press(key, listed);
        match (self.view.frozen, &self.frozen) {
            (true, None) => self.frozen = Some(self.history.clone()),
            (false, Some(_)) => self.frozen = None,
            _ => {}
        }
        then
    }
}

impl Shown<'_> {
    fn follow(
        &mut self,
        input: &mut Input,
        mut count: Option<u64>,
        mut read: impl FnMut() -> reveille_kernel::Result<Snapshot>,
    ) -> anyhow::Result<()> {
        let mut next = Instant::now() + self.seen.view.interval.min(FIRST_LOOK);
        self.draw()?;
        while count != Some(0) {
            for happened in input.wait(next)? {
                match happened {
                    Happened::End => return Ok(()),
                    Happened::Changed => self.draw_anew()?,
                    Happened::Key(key) => {
                        match self.seen.press(key, self.terminal.height()?) {
                            Then::Quit => return Ok(()),
                            Then::Suspend => self.suspend()?,
                            Then::DrawAnew => self.draw_anew()?,
                            Then::Draw => self.draw()?,
                            Then::Nothing => {}
                        }
                        next = next.min(Instant::now() + self.seen.view.interval);
                    }
                }
            }
            let now = Instant::now();
            if now >= next {
                self.seen.history.push(read()?);
                count = count.map(|left| left - 1);
                // After a long stop, one refresh and not all that were missed.
                next = (next + self.seen.view.interval).max(now);
                if self.seen.frozen.is_none() {
                    self.draw()?;
                }
            }
        }
        Ok(())
    }

    fn draw(&mut self) -> io::Result<()> {
        let picture = self.seen.picture();
        let terminal = &mut self.terminal.0;
        terminal.draw(|frame| picture.draw(frame.area(), frame.buffer_mut()))?;
        Ok(())
    }

    fn draw_anew(&mut self) -> io::Result<()> {
        // Not clear(), which asks the terminal where its cursor is and waits for an answer.
        let size = self.terminal.0.size()?;
        self.terminal.0.resize(size.into())?;
        self.draw()
    }

    /// Gives the terminal back to the shell until it lets this process go on.
    fn suspend(&mut self) -> io::Result<()> {
        leave()?;
        self.terminal.0.show_cursor()?;
        raise(Signal::SIGTSTP)?;
        enter()?;
        self.draw_anew()
    }
}

/// The terminal, taken: raw, with a screen of its own. Dropping gives it back; a panic does so
/// before it speaks.
struct Terminal(ManuallyDrop<DefaultTerminal>);

impl Terminal {
    fn enter() -> io::Result<Self> {
        ratatui::try_init()
            .map(ManuallyDrop::new)
            .map(Self)
            .inspect_err(|_| {
                let _ = leave();
            })
    }

    fn height(&self) -> io::Result<u16> {
        self.0.size().map(|size| size.height)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let cursor_is_back = self.0.show_cursor().is_ok();
        // A panic has left already; leaving twice would write over what it said.
        if !std::thread::panicking() {
            let _ = leave();
        }
        if cursor_is_back {
            // SAFETY: this is the only place that drops it, and it is not used after.
            unsafe { ManuallyDrop::drop(&mut self.0) };
        }
        // Else the terminal is gone. ratatui's own drop would say so on standard error, which has
        // gone with it, and panic.
    }
}

fn enter() -> io::Result<()> {
    enable_raw_mode()?;
    execute!(stdout(), EnterAlternateScreen)
}

fn leave() -> io::Result<()> {
    disable_raw_mode()?;
    execute!(stdout(), LeaveAlternateScreen)
}
