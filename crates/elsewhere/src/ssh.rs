//! One connection: the ssh program, the script that it runs, and what both say.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use nix::sys::signal::{SigHandler, Signal, signal};

use crate::Host;
use crate::frames::Frame;

/// How the script's own lines begin.
const WORD: &str = "reveille-far ";
/// The longest line that a login may print.
const LONGEST_LINE: u64 = 64 << 10;
/// What of ssh's standard error is kept.
const COMPLAINT: usize = 4096;
/// What waits to be handled, and to be sent.
const QUEUED: usize = 16;

/// What came from the other side.
pub enum Came {
    /// `uname`'s words for the system and the machine, and the SHA-256 of the program there, or `-`.
    Machine([String; 3]),
    /// Why nothing can be run there.
    Refused(String),
    /// The program is there, and takes an order.
    Ready,
    /// One of the program's frames.
    Frame(Frame),
    /// The connection has ended.
    Closed,
}

/// A connection. Dropped, it is ended.
pub struct Ssh {
    child: Child,
    to: Option<SyncSender<Vec<u8>>>,
    came: Receiver<Came>,
    complaint: Arc<Mutex<Vec<u8>>>,
}

impl Ssh {
    /// Connects. With `asks`, ssh may ask for a password, or whether to trust a key, on the terminal.
    ///
    /// # Errors
    /// If ssh cannot be started.
    pub fn start(host: &Host, asks: bool) -> io::Result<Self> {
        let mut command = Command::new("ssh");
        // No terminal there; of the user's configuration, nothing that forwards or runs something else.
        command.args(["-T", "-x", "-e", "none"]);
        command.args(["-o", "ClearAllForwardings=yes", "-o", "RemoteCommand=none"]);
        command.args(["-o", "ConnectTimeout=15"]);
        if !asks {
            command.args(["-o", "BatchMode=yes"]);
        }
        command.args(["--", host.name(), &script()]);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        // Keys of the terminal are for this program, which ends the command there first.
        let ignore_keys = || {
            for one in [Signal::SIGINT, Signal::SIGQUIT, Signal::SIGHUP] {
                // SAFETY: SIG_IGN is no handler.
                unsafe { signal(one, SigHandler::SigIgn) }?;
            }
            Ok(())
        };
        // SAFETY: between fork and exec only sigaction(2) is called.
        unsafe { command.pre_exec(ignore_keys) };
        let mut child = command.spawn()?;
        let complaint = Arc::new(Mutex::new(Vec::new()));
        let (to, queue) = sync_channel::<Vec<u8>>(QUEUED);
        let (sends, came) = sync_channel(QUEUED);
        if let Some(stdin) = child.stdin.take() {
            thread::spawn(move || write(stdin, &queue));
        }
        let stderr = child.stderr.take().map(|stderr| {
            let complaint = complaint.clone();
            thread::spawn(move || keep_last(stderr, &complaint))
        });
        if let Some(stdout) = child.stdout.take() {
            thread::spawn(move || {
                let _ = read(BufReader::new(stdout), &sends);
                // What ssh complains of is known before its end is.
                stderr.map(JoinHandle::join);
                let _ = sends.send(Came::Closed);
            });
        }
        Ok(Self {
            child,
            to: Some(to),
            came,
            complaint,
        })
    }

    /// What comes.
    pub fn came(&self) -> &Receiver<Came> {
        &self.came
    }

    /// Queues bytes for the other side; dropped if it takes none.
    pub fn send(&self, bytes: Vec<u8>) {
        if let Some(to) = &self.to {
            let _ = to.try_send(bytes);
        }
    }

    /// Closes the way to the other side.
    pub fn close(&mut self) {
        self.to = None;
    }

    /// The last line of ssh's standard error, or of the shell's there.
    pub fn complaint(&self) -> Option<String> {
        let bytes = self
            .complaint
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let text = String::from_utf8_lossy(&bytes);
        let last = text.lines().map(str::trim).rfind(|line| !line.is_empty());
        last.map(|line| line.strip_prefix("ssh: ").unwrap_or(line).to_owned())
    }
}

impl Drop for Ssh {
    fn drop(&mut self) {
        self.close();
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One word for any shell there: the script has no single quotes.
fn script() -> String {
    let lines = include_str!("script.sh").lines();
    let lines: Vec<&str> = lines
        .filter(|line| !line.trim_start().starts_with('#'))
        .collect();
    format!("exec sh -c '{}'", lines.join("\n"))
}

fn write(mut stdin: ChildStdin, queue: &Receiver<Vec<u8>>) {
    for bytes in queue {
        if stdin.write_all(&bytes).is_err() {
            return;
        }
    }
}

fn read(mut from: impl BufRead, sends: &SyncSender<Came>) -> io::Result<()> {
    let send = |came| {
        let gone = |_| io::ErrorKind::BrokenPipe.into();
        sends.send(came).map_err(gone)
    };
    loop {
        let mut line = Vec::new();
        if from
            .by_ref()
            .take(LONGEST_LINE)
            .read_until(b'\n', &mut line)?
            == 0
        {
            return Ok(());
        }
        let line = String::from_utf8_lossy(&line);
        let Some(words) = line.strip_prefix(WORD) else {
            continue;
        };
        let (first, rest) = words
            .trim_end()
            .split_once(' ')
            .unwrap_or((words.trim_end(), ""));
        match first {
            "ready" => break,
            "refused" => send(Came::Refused(rest.to_owned()))?,
            "machine" => {
                let mut words = rest.split(' ');
                send(Came::Machine(
                    [(); 3].map(|()| words.next().unwrap_or("?").to_owned()),
                ))?;
            }
            _ => {}
        }
    }
    let ready: io::Result<()> = send(Came::Ready);
    ready?;
    loop {
        send(Came::Frame(Frame::read(&mut from)?))?;
    }
}

fn keep_last(mut from: impl Read, kept: &Mutex<Vec<u8>>) {
    let mut bytes = [0; 1024];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend(&bytes[..count]);
        let excess = kept.len().saturating_sub(COMPLAINT);
        kept.drain(..excess);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_is_one_word_for_any_shell() {
        let script = script();
        assert_eq!(script.matches('\'').count(), 2);
        assert!(script.starts_with("exec sh -c 'trap "), "{script}");
    }

    #[test]
    fn what_a_login_prints_is_passed_over() {
        let (sends, came) = sync_channel(8);
        let greeting = b"Welcome!\nreveille-far machine Linux x86_64 -\n\xff\nreveille-far ready\n";
        let mut text = greeting.to_vec();
        Frame::Exit(3).write(&mut text).unwrap();
        assert!(read(text.as_slice(), &sends).is_err());
        drop(sends);
        let came: Vec<Came> = came.iter().collect();
        assert!(matches!(&came[0], Came::Machine(words) if *words == ["Linux", "x86_64", "-"]));
        assert!(matches!(
            &came[1..],
            [Came::Ready, Came::Frame(Frame::Exit(3))]
        ));
    }
}
