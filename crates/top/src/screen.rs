//! The view in a terminal, with keys. The terminal is restored however the program ends.

use std::io;
use std::mem::ManuallyDrop;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, raise};
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event::KeyEvent;
use ratatui::crossterm::terminal::{disable_raw_mode, enable_raw_mode};
use reveille_kernel::Error;
use reveille_show::terminal;
use reveille_watch::live::Snapshot;

use crate::Refresh;
use crate::draw::{About, Picture};
use crate::history::History;
use crate::input::{Input, InputEvent};
use crate::look::Look;
use crate::view::{Action, View};

/// The longest time until the first figures.
const FIRST_LOOK: Duration = Duration::from_secs(1);

/// Shows the snapshot of `read` at each refresh, until the user, a signal or the count ends it. An error
/// if there is no terminal for keys, and those of `read`.
pub fn run(
    about: &About,
    refresh: &Refresh,
    read: impl FnMut() -> reveille_kernel::Result<Snapshot>,
) -> anyhow::Result<()> {
    let mut input = Input::open(&refresh.ended_by).map_err(|error| {
        Error::Usage(format!(
            "no terminal for keys ({error}): use --text, --json or --csv"
        ))
    })?;
    let mut screen = Screen {
        terminal: Terminal::enter()?,
        state: State {
            about,
            look: Look::of_environment(),
            view: View::new(refresh.interval),
            history: History::default(),
            frozen: None,
        },
    };
    let ended = screen.follow(&mut input, refresh.count, read);
    drop(screen);
    match ended {
        Err(error) if gone(&error) => Ok(()),
        ended => ended,
    }
}

/// Whether the terminal was closed.
fn gone(error: &anyhow::Error) -> bool {
    let code = error.downcast_ref().and_then(io::Error::raw_os_error);
    let is_pipe = error.downcast_ref().map(io::Error::kind) == Some(io::ErrorKind::BrokenPipe);
    is_pipe || matches!(code, Some(nix::libc::EIO | nix::libc::EBADF))
}

struct Screen<'a> {
    terminal: Terminal,
    state: State<'a>,
}

struct State<'a> {
    about: &'a About,
    look: Look,
    view: View,
    history: History,
    /// The history at the time when the view was frozen.
    frozen: Option<History>,
}

impl State<'_> {
    fn picture(&self) -> Picture<'_> {
        Picture {
            history: self.frozen.as_ref().unwrap_or(&self.history),
            view: &self.view,
            about: self.about,
            look: self.look,
        }
    }

    fn press(&mut self, key: KeyEvent, height: u16) -> Action {
        let listed = self.picture().listed(height);
        let action = self.view.press(key, listed);
        match (self.view.frozen, &self.frozen) {
            (true, None) => self.frozen = Some(self.history.clone()),
            (false, Some(_)) => self.frozen = None,
            _ => {}
        }
        action
    }
}

impl Screen<'_> {
    fn follow(
        &mut self,
        input: &mut Input,
        mut count: Option<u64>,
        mut read: impl FnMut() -> reveille_kernel::Result<Snapshot>,
    ) -> anyhow::Result<()> {
        let mut next = Instant::now() + self.state.view.interval.min(FIRST_LOOK);
        self.draw()?;
        while count != Some(0) {
            for happened in input.wait(next)? {
                match happened {
                    InputEvent::End => return Ok(()),
                    InputEvent::Changed => self.redraw()?,
                    InputEvent::Key(key) => {
                        match self.state.press(key, self.terminal.height()?) {
                            Action::Quit => return Ok(()),
                            Action::Suspend => self.suspend()?,
                            Action::Redraw => self.redraw()?,
                            Action::Draw => self.draw()?,
                            Action::Nothing => {}
                        }
                        next = next.min(Instant::now() + self.state.view.interval);
                    }
                }
            }
            let now = Instant::now();
            if now >= next {
                self.state.history.push(read()?);
                count = count.map(|left| left - 1);
                // After a long stop, only one of the missed refreshes.
                next = (next + self.state.view.interval).max(now);
                if self.state.frozen.is_none() {
                    self.draw()?;
                }
            }
        }
        Ok(())
    }

    fn draw(&mut self) -> io::Result<()> {
        let picture = self.state.picture();
        let terminal = &mut self.terminal.0;
        terminal.draw(|frame| picture.draw(frame.area(), frame.buffer_mut()))?;
        Ok(())
    }

    fn redraw(&mut self) -> io::Result<()> {
        // Not clear(), which asks the terminal for its cursor position and waits for the answer.
        let size = self.terminal.0.size()?;
        self.terminal.0.resize(size.into())?;
        self.draw()
    }

    /// Returns the terminal to the shell until it continues this process.
    fn suspend(&mut self) -> io::Result<()> {
        leave()?;
        self.terminal.0.show_cursor()?;
        raise(Signal::SIGTSTP)?;
        enter()?;
        self.redraw()
    }
}

/// The terminal in raw mode, with the alternate screen. Dropping restores it; a panic restores it
/// before its message.
struct Terminal(ManuallyDrop<ratatui::Terminal<CrosstermBackend<terminal::Screen>>>);

impl Terminal {
    fn enter() -> io::Result<Self> {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let _ = leave();
            before(info);
        }));
        let screen =
            enter().and_then(|screen| ratatui::Terminal::new(CrosstermBackend::new(screen)));
        screen.map(ManuallyDrop::new).map(Self).inspect_err(|_| {
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
        let _ = leave();
        if cursor_is_back {
            // SAFETY: this is the only place that drops it, and it is not used after.
            unsafe { ManuallyDrop::drop(&mut self.0) };
        }
        // Otherwise the terminal is gone. ratatui's own drop would report that on standard error,
        // which is gone too, and panic.
    }
}

fn enter() -> io::Result<terminal::Screen> {
    enable_raw_mode()?;
    terminal::Screen::enter()
}

fn leave() -> io::Result<()> {
    disable_raw_mode()?;
    terminal::Screen::leave()
}
