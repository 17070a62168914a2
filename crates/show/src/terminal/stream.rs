//! Standard output and standard error, one write at a time.
//!
//! A terminal may take nothing: it is stopped (Ctrl-S), or nobody reads its other side. A write waits then, but not
//! beyond a signal that ends this program. So a terminal is opened once more, for a descriptor that does not block:
//! the flag on the one that was inherited would be the shell's, too.

use std::fs::File;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, OnceLock};
use std::time::{Duration, Instant};

use nix::libc;
use nix::poll::{PollFd, PollFlags, poll};
use nix::sys::stat::{FileStat, fstat};

/// One of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Output,
    /// Standard error.
    Error,
}

/// Between two looks at whether this program is to end.
const LOOK: u8 = 100;

/// How long a terminal that takes nothing keeps a program from its end. A live one takes what comes at once.
const PATIENCE: Duration = Duration::from_millis(500);

static ENDS: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// It took nothing when the program was to end: nothing waits for it any more.
static GIVEN_UP: AtomicBool = AtomicBool::new(false);

/// To be set by each signal that ends this program: from then on no write waits long for a terminal. Terminals are looked
/// at now, for one that was closed is none any more.
pub fn ends() -> Arc<AtomicBool> {
    let _ = [Stream::Output, Stream::Error].map(Stream::own);
    ENDS.clone()
}

nix::ioctl_read_bad!(
    /// Reads a terminal's rows and columns.
    window_size,
    libc::TIOCGWINSZ,
    libc::winsize
);

/// Whether standard error goes where standard output goes: what was said there need not be printed again.
pub fn is_one_place() -> bool {
    let place = |about: FileStat| (about.st_dev, about.st_ino);
    let both = [fstat(io::stdout()), fstat(io::stderr())].map(|about| about.map(place));
    matches!(both, [Ok(output), Ok(error)] if output == error)
}

impl Stream {
    /// Is it a terminal? Asked once: one that was closed is none any more.
    pub fn is_terminal(self) -> bool {
        static ARE: [OnceLock<bool>; 2] = [OnceLock::new(), OnceLock::new()];
        *ARE[self as usize].get_or_init(|| match self {
            Self::Output => io::stdout().is_terminal(),
            Self::Error => io::stderr().is_terminal(),
        })
    }

    /// Is it a terminal whose text can be written over?
    pub fn is_live(self) -> bool {
        let is_dumb = std::env::var_os("TERM").is_none_or(|kind| kind.is_empty() || kind == "dumb");
        !is_dumb && self.is_terminal()
    }

    /// The terminal's columns and rows; `None` if it is none, or does not say.
    pub fn size(self) -> Option<(usize, usize)> {
        let mut size = libc::winsize {
            ws_row: 0,
            ws_col: 0,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        // SAFETY: the descriptor is open for the whole run, and the kernel writes a `winsize`.
        unsafe { window_size(self.descriptor().as_raw_fd(), &raw mut size) }.ok()?;
        let (columns, rows) = (size.ws_col.into(), size.ws_row.into());
        (columns > 0 && rows > 0).then_some((columns, rows))
    }

    fn descriptor(self) -> BorrowedFd<'static> {
        static STREAMS: LazyLock<(io::Stdout, io::Stderr)> =
            LazyLock::new(|| (io::stdout(), io::stderr()));
        match self {
            Self::Output => STREAMS.0.as_fd(),
            Self::Error => STREAMS.1.as_fd(),
        }
    }

    /// The terminal, opened once more. `None`: it is none, or another user's.
    fn own(self) -> Option<&'static File> {
        static OWN: [OnceLock<Option<File>>; 2] = [OnceLock::new(), OnceLock::new()];
        let own = OWN[self as usize].get_or_init(|| {
            let path = format!("/proc/self/fd/{}", self.descriptor().as_raw_fd());
            let mut file = File::options();
            file.write(true)
                .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY);
            self.is_terminal().then(|| file.open(path).ok())?
        });
        own.as_ref()
    }

    /// Writes all of it.
    ///
    /// # Errors
    /// `BrokenPipe` if the reader is gone: of a pipe, and of a terminal, also one that takes nothing while this program
    /// is to end.
    pub fn write(self, bytes: &[u8]) -> io::Result<()> {
        match self.own() {
            Some(own) => write(own, bytes, true).map(drop),
            None => self.write_as_inherited(bytes),
        }
    }

    /// Writes as much as a terminal takes without waiting: how many bytes.
    ///
    /// # Errors
    /// As [`Stream::write`].
    pub fn write_now(self, bytes: &[u8]) -> io::Result<usize> {
        match self.own() {
            Some(own) => write(own, bytes, false),
            None => self.write_as_inherited(bytes).map(|()| bytes.len()),
        }
    }

    fn write_as_inherited(self, bytes: &[u8]) -> io::Result<()> {
        let written = match self {
            Self::Output => {
                let mut out = io::stdout();
                out.write_all(bytes).and_then(|()| out.flush())
            }
            Self::Error => io::stderr().write_all(bytes),
        };
        written.map_err(|error| match self.is_terminal() {
            true => of_terminal(error),
            false => error,
        })
    }
}

fn write(mut own: &File, bytes: &[u8], waits: bool) -> io::Result<usize> {
    let mut done = 0;
    while done < bytes.len() {
        match own.write(&bytes[done..]) {
            Ok(count) => done += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => match waits {
                true => wait(own)?,
                false => break,
            },
            Err(error) => return Err(of_terminal(error)),
        }
    }
    Ok(done)
}

/// A terminal that was closed is a reader that is gone.
fn of_terminal(error: io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(libc::EIO) => ErrorKind::BrokenPipe.into(),
        _ => error,
    }
}

/// Until the terminal takes something, or has not for too long.
fn wait(own: &File) -> io::Result<()> {
    let mut ending = None;
    loop {
        let mut fds = [PollFd::new(own.as_fd(), PollFlags::POLLOUT)];
        if matches!(poll(&mut fds, LOOK), Ok(1..)) {
            return Ok(());
        }
        if !ENDS.load(Ordering::Relaxed) {
            continue;
        }
        let since = *ending.get_or_insert_with(Instant::now);
        if since.elapsed() >= PATIENCE || GIVEN_UP.load(Ordering::Relaxed) {
            GIVEN_UP.store(true, Ordering::Relaxed);
            return Err(ErrorKind::BrokenPipe.into());
        }
    }
}
