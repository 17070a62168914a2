//! One connection: the ssh program, the script that it runs, and what both say.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{SigHandler, Signal, signal};

use crate::Host;
use crate::frames::{Frame, HEARTBEAT};

/// How the script's own lines begin.
const WORD: &str = "reveille-far ";
/// The most that a login may print, with the script's lines.
const LONGEST_GREETING: u64 = 1 << 20;
/// How often the other side hears of this one.
const TICK: Duration = Duration::from_secs(1);
/// The longest wait for what ssh says at its end: others may hold its standard error, such as a proxy's command.
const LAST_WORDS: Duration = Duration::from_millis(500);
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
    /// So many bytes of the program have arrived there.
    Arrived(u64),
    /// The program is there, and takes an order; the folder of the run.
    Ready(String),
    /// One of the program's frames.
    Frame(Frame),
    /// The connection has ended.
    Closed,
}

enum Sent {
    Bytes(Vec<u8>),
    /// From now on the other side hears of this one.
    Heartbeats,
}

/// What a connection is for.
pub enum Purpose<'a> {
    /// A run. With `asks`, ssh may ask for a password, or whether to trust a key, on the terminal.
    Run { asks: bool },
    /// What a lost run has left in that folder.
    Rest { folder: &'a str },
}

/// A connection. Dropped, it is ended.
pub struct Ssh {
    child: Child,
    to: Option<SyncSender<Sent>>,
    came: Receiver<Came>,
    complaint: Arc<Mutex<Vec<u8>>>,
}

impl Ssh {
    /// Connects.
    ///
    /// # Errors
    /// If ssh cannot be started.
    pub fn start(host: &Host, purpose: &Purpose) -> io::Result<Self> {
        let mut command = Command::new("ssh");
        // No terminal there; of the user's configuration, nothing that forwards or runs something else. Other sessions
        // do not depend on this one.
        command.args(["-T", "-a", "-x", "-e", "none"]);
        command.args(["-o", "ClearAllForwardings=yes", "-o", "RemoteCommand=none"]);
        command.args(["-o", "PermitLocalCommand=no", "-o", "ControlMaster=no"]);
        let script = match purpose {
            Purpose::Run { asks } => {
                command.args(["-o", "ConnectTimeout=15"]);
                if !asks {
                    command.args(["-o", "BatchMode=yes"]);
                }
                one_word(include_str!("script.sh"))
            }
            Purpose::Rest { folder } => {
                // Not through the connection that was lost.
                command.args(["-o", "ConnectTimeout=5", "-o", "ControlPath=none"]);
                command.args(["-o", "BatchMode=yes"]);
                one_word(&format!("d={folder}\n{}", include_str!("rest.sh")))
            }
        };
        command.args(["--", host.name(), &script]);
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
        let (to, queue) = sync_channel(QUEUED);
        let (sends, came) = sync_channel(QUEUED);
        if let Some(stdin) = child.stdin.take() {
            thread::spawn(move || write(stdin, &queue));
        }
        let (all_said, is_all_said) = channel::<()>();
        if let Some(stderr) = child.stderr.take() {
            let complaint = complaint.clone();
            thread::spawn(move || {
                keep_last(stderr, &complaint);
                drop(all_said);
            });
        }
        if let Some(stdout) = child.stdout.take() {
            let complaint = complaint.clone();
            thread::spawn(move || {
                let ended = read(BufReader::new(stdout), &sends, &complaint);
                if ended.is_err_and(|error| error.kind() == io::ErrorKind::InvalidData) {
                    let why = "what comes from there is not of reveille";
                    let _ = sends.send(Came::Refused(why.to_owned()));
                }
                // What ssh complains of is known before its end is.
                let _ = is_all_said.recv_timeout(LAST_WORDS);
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
            let _ = to.try_send(Sent::Bytes(bytes));
        }
    }

    /// From now on the other side hears of this one each second, whatever this one is doing.
    pub fn send_heartbeats(&self) {
        if let Some(to) = &self.to {
            let _ = to.try_send(Sent::Heartbeats);
        }
    }

    /// Closes the way to the other side.
    pub fn close(&mut self) {
        self.to = None;
    }

    /// The last line of ssh's standard error, or of what the shell there says.
    pub fn complaint(&self) -> Option<String> {
        let complaint = self
            .complaint
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        last_line(&complaint)
    }
}

fn last_line(complaint: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(complaint);
    if text.lines().any(|line| line.starts_with("usage: ssh ")) {
        return Some("ssh takes no such host".to_owned());
    }
    let last = text.lines().map(str::trim).rfind(|line| !line.is_empty())?;
    let last = last.strip_prefix("ssh: ").unwrap_or(last);
    Some(last.trim_end_matches('.').to_owned())
}

impl Drop for Ssh {
    fn drop(&mut self) {
        self.close();
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A script as a command for any shell there: csh takes neither a line break nor `!` between quotes, so what may mean
/// something to a shell is written in octal.
fn one_word(script: &str) -> String {
    let is_comment = |line: &&str| line.trim_start().starts_with('#');
    let lines: Vec<&str> = script.lines().filter(|line| !is_comment(line)).collect();
    let mut word = String::new();
    for byte in lines.join("\n").bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b' ' | b'/' | b'.' | b'-' | b'_' | b'=' => {
                word.push(char::from(byte));
            }
            byte => word.push_str(&format!("\\0{byte:03o}")),
        }
    }
    format!("exec sh -c 'eval \"$(printf %b \"{word}\")\"'")
}

fn write(mut stdin: ChildStdin, queue: &Receiver<Sent>) {
    let mut has_heartbeats = false;
    loop {
        let written = match queue.recv_timeout(TICK) {
            Ok(Sent::Bytes(bytes)) => stdin.write_all(&bytes),
            Ok(Sent::Heartbeats) => {
                has_heartbeats = true;
                Ok(())
            }
            Err(RecvTimeoutError::Timeout) if has_heartbeats => stdin.write_all(&[HEARTBEAT]),
            Err(RecvTimeoutError::Timeout) => Ok(()),
            Err(RecvTimeoutError::Disconnected) => return,
        };
        if written.is_err() {
            return;
        }
    }
}

fn read(
    mut from: impl BufRead,
    sends: &SyncSender<Came>,
    complaint: &Mutex<Vec<u8>>,
) -> io::Result<()> {
    let send = |came| -> io::Result<()> {
        let gone = |_| io::ErrorKind::BrokenPipe.into();
        sends.send(came).map_err(gone)
    };
    let mut greeting = from.by_ref().take(LONGEST_GREETING);
    let mut line = Vec::new();
    loop {
        line.clear();
        if greeting.read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        let line = String::from_utf8_lossy(&line);
        let Some(words) = line.strip_prefix(WORD) else {
            hear(line.as_bytes(), complaint);
            continue;
        };
        let (first, rest) = words
            .trim_end()
            .split_once(' ')
            .unwrap_or((words.trim_end(), ""));
        match first {
            "ready" => {
                send(Came::Ready(rest.to_owned()))?;
                break;
            }
            "refused" => send(Came::Refused(rest.to_owned()))?,
            "arrived" => send(Came::Arrived(rest.parse().unwrap_or(0)))?,
            "machine" => {
                // What the login said is no complaint of what follows.
                complaint
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .clear();
                let mut words = rest.split(' ');
                send(Came::Machine(
                    [(); 3].map(|()| words.next().unwrap_or("?").to_owned()),
                ))?;
            }
            _ => {}
        }
    }
    loop {
        send(Came::Frame(Frame::read(&mut from)?))?;
    }
}

fn keep_last(mut from: impl Read, kept: &Mutex<Vec<u8>>) {
    let mut bytes = [0; 1024];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        hear(&bytes[..count], kept);
    }
}

fn hear(bytes: &[u8], kept: &Mutex<Vec<u8>>) {
    let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
    kept.extend(bytes);
    let excess = kept.len().saturating_sub(COMPLAINT);
    kept.drain(..excess);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_a_command_for_any_shell() {
        let script = "# a comment\nprintf \"%s\\n\" \"$1!\" `pwd`\nif ! false; then :; fi";
        let word = one_word(script);
        assert_eq!(word.matches('\'').count(), 2);
        assert!(!word.contains(['\n', '!', '`']), "{word}");
        let run = |shell: &str, script: &str| {
            let run = Command::new(shell).args(["-c", script]).output().unwrap();
            (run.status.success(), run.stdout)
        };
        assert_eq!(run("sh", &word), run("sh", script));
    }

    #[test]
    fn what_a_login_prints_is_passed_over() {
        let (sends, came) = sync_channel(8);
        let greeting =
            b"Welcome!\nreveille-far machine Linux x86_64 -\n\xff\nreveille-far ready /tmp/x\n";
        let mut text = greeting.to_vec();
        Frame::Exit(3).write(&mut text).unwrap();
        let complaint = Mutex::new(b"Authorized use only\n".to_vec());
        assert!(read(text.as_slice(), &sends, &complaint).is_err());
        let complaint = complaint.into_inner().unwrap();
        assert_eq!(last_line(&complaint).as_deref(), Some("\u{fffd}"));
        drop(sends);
        let came: Vec<Came> = came.iter().collect();
        assert!(matches!(&came[0], Came::Machine(words) if *words == ["Linux", "x86_64", "-"]));
        assert!(matches!(
            &came[1..],
            [Came::Ready(folder), Came::Frame(Frame::Exit(3))] if folder == "/tmp/x"
        ));
    }

    #[test]
    fn a_complaint_is_one_line() {
        for (said, line) in [
            ("", None),
            ("\n \r\n", None),
            (
                "Banner\nssh: connect to host x: Connection refused\r\n",
                Some("connect to host x: Connection refused"),
            ),
            (
                "This account is currently not available.\n",
                Some("This account is currently not available"),
            ),
            (
                "usage: ssh [-4]\n           destination [command]\n",
                Some("ssh takes no such host"),
            ),
        ] {
            assert_eq!(last_line(said.as_bytes()).as_deref(), line, "{said:?}");
        }
    }

    #[test]
    fn a_login_that_prints_without_end_is_given_up() {
        let (sends, came) = sync_channel(8);
        for byte in [b'y', b'\n'] {
            let endless = BufReader::new(io::repeat(byte));
            assert!(read(endless, &sends, &Mutex::default()).is_ok());
        }
        drop(sends);
        assert_eq!(came.iter().count(), 0);
    }
}
