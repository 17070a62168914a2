//! The program in a terminal of its own.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::libc;
use nix::poll::{PollFd, PollFlags, poll};
use nix::pty::{Winsize, openpty};
use nix::sys::signal::{Signal, kill};
use nix::sys::termios::{Termios, tcgetattr};
use nix::unistd::{Pid, setsid};

use super::screen::Screen;

nix::ioctl_write_int_bad!(
    /// Makes the terminal the session's controlling one.
    take_terminal,
    libc::TIOCSCTTY
);
nix::ioctl_write_ptr_bad!(
    /// Sets the terminal's rows and columns, and tells the program.
    set_size,
    libc::TIOCSWINSZ,
    Winsize
);

/// Far longer than any run, even on a loaded machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// What becomes of the output.
#[derive(Default)]
struct Reader {
    /// Everything so far, and the screen after it.
    sent: Mutex<(Vec<u8>, Option<Screen>)>,
    closed: AtomicBool,
    paused: AtomicBool,
}

impl Reader {
    /// Reads until the terminal is closed.
    fn read(&self, mut master: File) {
        let mut bytes = [0; 4096];
        while !self.closed.load(Ordering::Relaxed) {
            if self.paused.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(20));
                continue;
            }
            let mut fds = [PollFd::new(master.as_fd(), PollFlags::POLLIN)];
            if poll(&mut fds, 20_u8).unwrap() == 0 {
                continue;
            }
            match master.read(&mut bytes) {
                Ok(count @ 1..) => {
                    let (sent, screen) = &mut *self.sent.lock().unwrap();
                    sent.extend_from_slice(&bytes[..count]);
                    screen.as_mut().unwrap().feed(&bytes[..count]);
                }
                _ => return,
            }
        }
    }
}

pub struct Session {
    pub child: Child,
    /// Keys go in here; output comes out. `None`: closed.
    master: Option<File>,
    slave: OwnedFd,
    reader: Arc<Reader>,
    reading: Option<JoinHandle<()>>,
    before: Termios,
}

fn size(columns: usize, rows: usize) -> Winsize {
    Winsize {
        ws_row: rows as u16,
        ws_col: columns as u16,
        ws_xpixel: 0,
        ws_ypixel: 0,
    }
}

impl Session {
    /// In a terminal of 100 columns and 30 rows.
    pub fn start(command: &mut Command) -> Self {
        Self::sized(command, 100, 30)
    }

    pub fn sized(command: &mut Command, columns: usize, rows: usize) -> Self {
        let pty = openpty(&size(columns, rows), None).unwrap();
        let end = || pty.slave.try_clone().unwrap();
        command.stdin(end()).stdout(end()).stderr(end());
        command
            .env("TERM", "xterm-256color")
            .env("LC_ALL", "C.UTF-8");
        // SAFETY: setsid and ioctl are system calls, which may follow a fork.
        unsafe {
            command.pre_exec(|| {
                setsid()?;
                take_terminal(libc::STDIN_FILENO, 0)?;
                Ok(())
            });
        }
        // The child must not hold the other end: it would never be closed.
        fcntl(&pty.master, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)).unwrap();
        fcntl(&pty.slave, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)).unwrap();
        let before = tcgetattr(&pty.slave).unwrap();
        let child = command.spawn().unwrap();
        // The command keeps ends of its own.
        command.stdin(std::process::Stdio::null());
        command.stdout(std::process::Stdio::null());
        command.stderr(std::process::Stdio::null());
        let master = File::from(pty.master);
        let reader = Arc::new(Reader::default());
        reader.sent.lock().unwrap().1 = Some(Screen::new(columns, rows));
        let (from, own) = (master.try_clone().unwrap(), reader.clone());
        let reading = std::thread::spawn(move || own.read(from));
        Self {
            child,
            master: Some(master),
            slave: pty.slave,
            reader,
            reading: Some(reading),
            before,
        }
    }

    /// Closes the terminal, as a window is closed.
    pub fn close(&mut self) {
        self.reader.closed.store(true, Ordering::Relaxed);
        self.reading.take().unwrap().join().unwrap();
        self.master = None;
    }

    /// Nobody reads any more, and the terminal is full.
    pub fn stop_reading(&self) {
        self.reader.paused.store(true, Ordering::Relaxed);
        let path = format!("/proc/self/fd/{}", self.slave.as_raw_fd());
        let own = File::options()
            .write(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
            .open(path);
        let mut own = own.unwrap();
        // The kernel moves some of it on: full is what stays full.
        let mut refused = 0;
        while refused < 10 {
            match own.write(&[b'x'; 1024]) {
                Ok(1..) => refused = 0,
                Ok(0) | Err(_) => {
                    refused += 1;
                    std::thread::sleep(Duration::from_millis(10));
                }
            }
        }
    }

    pub fn press(&mut self, keys: &str) {
        let master = self.master.as_mut().unwrap();
        master.write_all(keys.as_bytes()).unwrap();
    }

    pub fn send(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).unwrap();
    }

    pub fn resize(&self, columns: usize, rows: usize) {
        self.seen(|screen| screen.resize(columns, rows));
        // SAFETY: the descriptor is open, and the size lives through the call.
        unsafe { set_size(self.slave.as_raw_fd(), &size(columns, rows)) }.unwrap();
    }

    /// What the terminal shows.
    pub fn seen<T>(&self, of: impl FnOnce(&mut Screen) -> T) -> T {
        of(self.reader.sent.lock().unwrap().1.as_mut().unwrap())
    }

    /// What it was sent.
    pub fn sent(&self) -> String {
        String::from_utf8_lossy(&self.reader.sent.lock().unwrap().0).into_owned()
    }

    /// Discards what it was sent so far.
    pub fn forget(&self) {
        self.reader.sent.lock().unwrap().0.clear();
    }

    /// Waits until these words are on the screen.
    pub fn until_shown(&mut self, words: &str) {
        self.until(&format!("{words:?}"), |screen| screen.all().contains(words));
    }

    pub fn until(&mut self, what: &str, is_so: impl Fn(&Screen) -> bool) {
        let end = Instant::now() + PATIENCE;
        while !self.seen(|screen| is_so(screen)) {
            let ended = self.child.try_wait().unwrap();
            assert!(
                ended.is_none() && Instant::now() < end,
                "waits for {what}, {ended:?}: {}",
                self.seen(|screen| screen.all())
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// How it ended; `None` if it goes on after that time.
    pub fn ended_within(&mut self, time: Duration) -> Option<ExitStatus> {
        let end = Instant::now() + time;
        loop {
            let ended = self.child.try_wait().unwrap();
            if ended.is_some() || Instant::now() > end {
                return ended;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Of a command that has ended: what it wrote last may still be on its way.
    pub fn until_gone(&self, words: &str) {
        let end = Instant::now() + PATIENCE;
        while self.seen(|screen| screen.all().contains(words)) {
            let screen = || self.seen(|screen| screen.all());
            assert!(Instant::now() < end, "{words:?} stays: {}", screen());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub fn ended(&mut self) -> ExitStatus {
        self.ended_within(PATIENCE).expect("it goes on")
    }

    /// Does the terminal echo and edit lines as it did before, or is it closed?
    pub fn is_restored(&self) -> bool {
        let Ok(after) = tcgetattr(&self.slave) else {
            return self.master.is_none();
        };
        (after.local_flags, after.input_flags) == (self.before.local_flags, self.before.input_flags)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.reader.closed.store(true, Ordering::Relaxed);
    }
}
