//! `reveille top` in its own terminal: it shows data, obeys keys, and restores the terminal.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::held::{is_loaded, programs_of};
use crate::program::{as_nobody, reveille, run};
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::libc;
use nix::poll::{PollFd, PollFlags, poll};
use nix::pty::{Winsize, openpty};
use nix::sys::signal::{Signal, kill};
use nix::sys::termios::{Termios, tcgetattr};
use nix::unistd::{Pid, setsid};

nix::ioctl_write_int_bad!(
    /// Makes the terminal the session's controlling one.
    take_terminal,
    libc::TIOCSCTTY
);
nix::ioctl_write_ptr_bad!(
    /// Sets the terminal's rows and columns.
    set_size,
    libc::TIOCSWINSZ,
    Winsize
);

/// Far longer than any run, even on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The program in a terminal.
struct InTerminal {
    child: Child,
    /// Keys go in here; output comes out. `None`: closed.
    master: Option<File>,
    slave: OwnedFd,
    shown: Arc<Mutex<String>>,
    closed: Arc<AtomicBool>,
    watching: Option<JoinHandle<()>>,
    before: Termios,
}

/// The screen after these bytes: cursor movements, clearing and text; colours are ignored.
fn screen(bytes: &str) -> String {
    let mut rows = vec![vec![' '; 300]; 100];
    let (mut row, mut column) = (0, 0);
    for part in bytes.split("\x1b[") {
        let end = part.find(|c: char| c.is_ascii_alphabetic());
        let (sequence, text) = part.split_at(end.map_or(0, |end| end + 1));
        if let Some(place) = sequence.strip_suffix('H') {
            let place = place.split_once(';').unwrap_or(("1", "1"));
            row = place.0.parse::<usize>().unwrap() - 1;
            column = place.1.parse::<usize>().unwrap() - 1;
        } else if sequence == "2J" {
            rows.iter_mut().for_each(|row| row.fill(' '));
        }
        for c in text.chars() {
            rows[row][column] = c;
            column += 1;
        }
    }
    let lines = rows.iter().map(|row| row.iter().collect::<String>());
    lines
        .map(|line| line.trim_end().to_owned() + "\n")
        .collect()
}

/// Collects the output until the terminal is closed.
fn gather(mut master: File, into: &Mutex<String>, closed: &AtomicBool) {
    let mut bytes = [0; 4096];
    while !closed.load(Ordering::Relaxed) {
        let mut fds = [PollFd::new(master.as_fd(), PollFlags::POLLIN)];
        if poll(&mut fds, 20_u8).unwrap() == 0 {
            continue;
        }
        match master.read(&mut bytes) {
            Ok(count @ 1..) => {
                *into.lock().unwrap() += &String::from_utf8_lossy(&bytes[..count]);
            }
            _ => return,
        }
    }
}

fn size(columns: u16, rows: u16) -> Winsize {
    Winsize {
        ws_row: rows,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    }
}

impl InTerminal {
    fn start(command: &mut Command) -> Self {
        let pty = openpty(&size(100, 30), None).unwrap();
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
        let master = File::from(pty.master);
        let shown = Arc::new(Mutex::new(String::new()));
        let (reader, into) = (master.try_clone().unwrap(), shown.clone());
        let closed = Arc::new(AtomicBool::new(false));
        let until = closed.clone();
        let watching = std::thread::spawn(move || gather(reader, &into, &until));
        Self {
            child,
            master: Some(master),
            slave: pty.slave,
            shown,
            closed,
            watching: Some(watching),
            before,
        }
    }

    /// Closes the terminal, as a window is closed.
    fn close(&mut self) {
        self.closed.store(true, Ordering::Relaxed);
        self.watching.take().unwrap().join().unwrap();
        self.master = None;
    }

    fn top(arguments: &[&str]) -> Self {
        Self::start(reveille().arg("top").args(arguments))
    }

    fn press(&mut self, keys: &str) {
        self.master
            .as_mut()
            .unwrap()
            .write_all(keys.as_bytes())
            .unwrap();
    }

    /// Waits until these words are on the screen.
    fn until_shown(&mut self, words: &str) {
        self.until(&format!("{words:?}"), |screen| screen.contains(words));
    }

    fn until(&mut self, what: &str, is_so: impl Fn(&str) -> bool) {
        let end = Instant::now() + PATIENCE;
        loop {
            let screen = screen(&self.shown.lock().unwrap());
            if is_so(&screen) {
                return;
            }
            let ended = self.child.try_wait().unwrap();
            assert!(
                ended.is_none() && Instant::now() < end,
                "waits for {what}, {ended:?}: {screen}"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Discards the output so far.
    fn forget(&self) {
        self.shown.lock().unwrap().clear();
    }

    fn send(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).unwrap();
    }

    fn ended(&mut self) -> ExitStatus {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < end, "it goes on");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// It ended successfully, and the terminal is restored.
    fn ends_well(mut self) {
        let status = self.ended();
        self.until_left();
        let shown = self.shown.lock().unwrap();
        assert_eq!(status.code(), Some(0), "{shown}");
        let after = tcgetattr(&self.slave).unwrap();
        assert_eq!(after.local_flags, self.before.local_flags);
        assert_eq!(after.input_flags, self.before.input_flags);
    }

    /// The last bytes may still be in the terminal.
    fn until_left(&self) {
        let end = Instant::now() + PATIENCE;
        // It left the alternate screen, and the cursor is visible again.
        while !["\x1b[?1049l", "\x1b[?25h"]
            .iter()
            .all(|left| self.shown.lock().unwrap().contains(left))
        {
            assert!(Instant::now() < end, "{}", self.shown.lock().unwrap());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for InTerminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn q_quits_and_restores_the_terminal() {
    let mut top = InTerminal::top(&[]);
    top.until_shown("wake-ups");
    top.press("q");
    top.ends_well();
}

#[test]
fn a_signal_quits() {
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        let mut top = InTerminal::top(&[]);
        top.until_shown("reveille");
        top.send(signal);
        top.ends_well();
    }
}

#[test]
fn keys_change_the_view_at_once() {
    // One refresh in an hour: changes are due to the keys.
    let mut top = InTerminal::top(&["--interval", "1h"]);
    top.until_shown("machine");
    top.press("2");
    top.until_shown("woken");
    top.press("h");
    top.until_shown("quit");
    top.press("\x03");
    top.ends_well();
}

#[test]
fn the_view_follows_the_terminal_size() {
    let mut top = InTerminal::top(&[]);
    top.until_shown("wake-ups");
    // The keys are being read when the size changes: none may be lost.
    top.press("v");
    top.until_shown("mean stay");
    for (columns, rows) in [(20, 5), (1, 1), (200, 60)] {
        // SAFETY: the descriptor is open, and the size lives through the call.
        unsafe { set_size(top.slave.as_raw_fd(), &size(columns, rows)) }.unwrap();
        top.send(Signal::SIGWINCH);
        top.until(&format!("{columns} x {rows}"), |screen| {
            let widest = screen.lines().map(|line| line.chars().count()).max();
            let filled = screen.lines().filter(|line| !line.is_empty()).count();
            let fits = widest <= Some(columns.into()) && filled <= rows.into();
            fits && (columns < 20 || screen.contains("awake"))
        });
    }
    top.press("q");
    top.ends_well();
}

#[test]
fn a_closed_terminal_quits() {
    let mut top = InTerminal::top(&[]);
    top.until_shown("reveille");
    top.close();
    let ended = top.ended();
    assert_eq!(ended.code(), Some(0), "{ended}");
}

#[test]
fn kill_9_leaves_nothing_in_the_kernel() {
    let mut top = InTerminal::top(&[]);
    top.until_shown("wake-ups");
    let loaded = programs_of(top.child.id());
    if loaded.is_empty() {
        println!("skipped: kill_9_leaves_nothing_in_the_kernel: no BPF here");
        return;
    }
    top.send(Signal::SIGKILL);
    top.ended();
    // The kernel frees them once all its CPUs have moved on.
    let end = Instant::now() + PATIENCE;
    while is_loaded(&loaded) {
        assert!(Instant::now() < end, "{loaded:?} are there still");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn control_z_releases_the_terminal_until_resumed() {
    let mut top = InTerminal::top(&[]);
    top.until_shown("wake-ups");
    top.press("\x1a");
    top.until_left();
    top.forget();
    top.send(Signal::SIGCONT);
    top.until_shown("machine");
    top.press("q");
    top.ends_well();
}

#[test]
fn without_root_the_missing_data_is_named() {
    let Some((_folder, mut command)) = as_nobody() else {
        println!("skipped: without_root_the_missing_data_is_named: not root, so all tests are");
        return;
    };
    let mut top = InTerminal::start(command.arg("top"));
    top.until_shown("note:");
    top.press("h");
    top.until_shown("quit");
    top.press("xq");
    top.ends_well();
}

#[test]
fn a_count_quits() {
    let top = InTerminal::top(&["--count", "2", "--interval", "250ms"]);
    top.ends_well();
}

#[test]
fn without_a_terminal_it_prints_tables() {
    let output = reveille()
        .args(["top", "--count", "2", "--interval", "250ms"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
    assert_eq!(said.matches("machine").count() / 2, 2, "{said}");
    assert!(!said.contains('\x1b'), "{said}");
}

#[test]
fn a_closed_pipe_is_no_failure() {
    let line = format!(
        "{} top --interval 100ms | head -1 >/dev/null; exit ${{PIPESTATUS[0]}}",
        env!("CARGO_BIN_EXE_reveille")
    );
    let ended = run(Command::new("bash").args(["-c", &line]));
    assert_eq!((ended.code, &*ended.stderr), (0, ""));
}

#[test]
fn wrong_use_is_one_line() {
    for arguments in [
        &["--interval", "1"][..],
        &["--interval", "1ms"],
        &["--count", "0"],
        &["--json", "--csv"],
    ] {
        let ended = run(reveille().arg("top").args(arguments));
        assert_eq!(ended.code, 2, "{arguments:?}");
        assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
    }
}
