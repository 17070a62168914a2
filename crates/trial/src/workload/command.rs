//! A command as the workload: how long it takes, or numbers in what it prints.

use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use regex::Regex;

use super::{Description, Gathered, NANOSECONDS, Workload};
use crate::{Error, Result};

/// What is taken from a run.
pub enum Figure {
    /// From before the command is started until it has ended, ns.
    Duration,
    /// Every number that the expression finds in the standard output: its first group, or the
    /// whole where it has none.
    Output { expression: Regex, unit: String },
}

/// A command that is run once per round.
pub struct Command {
    program: OsString,
    arguments: Vec<OsString>,
    figure: Figure,
    description: Description,
    /// Of the last run.
    took: Option<Duration>,
}

impl Command {
    /// `argv` is the command and its arguments; not empty.
    ///
    /// # Errors
    /// [`Error::Usage`] where there is no such command.
    pub fn new(argv: &[OsString], figure: Figure, higher_is_better: bool) -> Result<Self> {
        let (program, arguments) = argv
            .split_first()
            .ok_or_else(|| Error::Usage("no command is given after `--`".into()))?;
        refuse_unknown(program)?;
        let words: Vec<_> = argv.iter().map(|word| word.to_string_lossy()).collect();
        let (name, unit) = match &figure {
            Figure::Duration => ("duration".to_owned(), NANOSECONDS.to_owned()),
            Figure::Output { expression, unit } => (expression.to_string(), unit.clone()),
        };
        Ok(Self {
            program: program.clone(),
            arguments: arguments.to_vec(),
            figure,
            description: Description {
                kind: "command".into(),
                what: words.join(" ").replace(char::is_control, " "),
                figure: name,
                unit,
                higher_is_better,
                pace: None,
                notes: Vec::new(),
            },
            took: None,
        })
    }

    fn start(&self) -> Result<(Child, OwnedFd)> {
        let wrong = |error: std::io::Error| {
            Error::Failed(format!("{}: {error}", self.program.to_string_lossy()))
        };
        let output = match self.figure {
            Figure::Duration => Stdio::null(),
            Figure::Output { .. } => Stdio::piped(),
        };
        let child = std::process::Command::new(&self.program)
            .args(&self.arguments)
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(Stdio::piped())
            .spawn()
            .map_err(wrong)?;
        let descriptor = pidfd(child.id()).map_err(wrong)?;
        Ok((child, descriptor))
    }

    /// The numbers of one run, or why there are none.
    fn figures(
        &self,
        took: Duration,
        status: ExitStatus,
        said: &Said,
    ) -> std::result::Result<Vec<f64>, String> {
        if !status.success() {
            let last = last_line(&said.errors).map(|line| format!("; it said: {line}"));
            return Err(format!("it {}{}", ending(status), last.unwrap_or_default()));
        }
        match &self.figure {
            Figure::Duration => Ok(vec![took.as_nanos() as f64]),
            Figure::Output { expression, .. } => {
                found(expression, &String::from_utf8_lossy(&said.output))
            }
        }
    }
}

impl Workload for Command {
    fn description(&self) -> &Description {
        &self.description
    }

    fn try_once(&mut self) -> Result<()> {
        // That it can be found was seen already; a run may be long, or not be free of effect.
        Ok(())
    }

    fn settle(&mut self, settle: Duration, _stop: &AtomicBool) {
        thread::sleep(settle);
    }

    fn round(&mut self, stop: &AtomicBool) -> Result<Gathered> {
        let mut gathered = Gathered::default();
        let began = Instant::now();
        let (mut child, descriptor) = self.start()?;
        let readers = Readers::of(&mut child);
        let ended = wait(&descriptor, &child, stop);
        let took = began.elapsed();
        let status = child
            .wait()
            .map_err(|error| Error::Failed(error.to_string()))?;
        let said = readers.read();
        if ended == Waited::Stopped || stop.load(Ordering::Relaxed) {
            return Ok(gathered);
        }
        match self.figures(took, status, &said) {
            Ok(figures) => {
                gathered.figures = figures;
                self.took = Some(took);
            }
            Err(why) => gathered.fail(|| why),
        }
        Ok(gathered)
    }

    fn expected(&self) -> Option<Duration> {
        self.took
    }
}

/// A descriptor that becomes readable when the process ends: pidfd_open(2), Linux 5.3.
fn pidfd(pid: u32) -> std::io::Result<OwnedFd> {
    // SAFETY: the call takes two numbers and touches no memory.
    let descriptor = unsafe { nix::libc::syscall(nix::libc::SYS_pidfd_open, pid, 0) };
    if descriptor < 0 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made this descriptor, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor as i32) })
}

#[derive(Debug, PartialEq, Eq)]
enum Waited {
    Ended,
    /// `stop` was set, and the command was told to end.
    Stopped,
}

/// A signal ends the wait at once; one that comes just before the wait is seen this much later.
const LOOK: u16 = 500;
/// After SIGTERM a command has this long to end.
const GRACE: Duration = Duration::from_secs(3);

/// Waits for the command's end without waking a CPU more than twice a second.
fn wait(descriptor: &OwnedFd, child: &Child, stop: &AtomicBool) -> Waited {
    let mut told: Option<Instant> = None;
    loop {
        let mut polled = [PollFd::new(descriptor.as_fd(), PollFlags::POLLIN)];
        // EINTR: a signal has come, and `stop` says whether it was for us.
        let ended = poll(&mut polled, PollTimeout::from(LOOK)).is_ok_and(|ready| ready > 0);
        if ended {
            return match told {
                Some(_) => Waited::Stopped,
                None => Waited::Ended,
            };
        }
        if !stop.load(Ordering::Relaxed) {
            continue;
        }
        let signal = match told {
            None => Signal::SIGTERM,
            Some(when) if when.elapsed() > GRACE => Signal::SIGKILL,
            Some(_) => continue,
        };
        // It is a child that was not waited for, so the number is still its own.
        let _ = kill(Pid::from_raw(child.id() as i32), signal);
        told.get_or_insert_with(Instant::now);
    }
}

/// What a run said: at most [`KEPT`] of each stream, the errors' end and the output's beginning.
#[derive(Default)]
struct Said {
    output: Vec<u8>,
    errors: Vec<u8>,
}

/// More than anybody looks for a number in.
const KEPT: u64 = 16 << 20;

/// Threads that empty the command's pipes, so that it never waits for us.
struct Readers {
    output: Option<thread::JoinHandle<Vec<u8>>>,
    errors: Option<thread::JoinHandle<Vec<u8>>>,
}

impl Readers {
    fn of(child: &mut Child) -> Self {
        fn reader(mut pipe: impl Read + Send + 'static) -> thread::JoinHandle<Vec<u8>> {
            thread::spawn(move || {
                let mut kept = Vec::new();
                // What was read before an error is kept; the rest goes nowhere.
                let _ = pipe.by_ref().take(KEPT).read_to_end(&mut kept);
                let _ = std::io::copy(&mut pipe, &mut std::io::sink());
                kept
            })
        }
        Self {
            output: child.stdout.take().map(reader),
            errors: child.stderr.take().map(reader),
        }
    }

    fn read(self) -> Said {
        let joined = |handle: Option<thread::JoinHandle<Vec<u8>>>| {
            handle
                .and_then(|handle| handle.join().ok())
                .unwrap_or_default()
        };
        Said {
            output: joined(self.output),
            errors: joined(self.errors),
        }
    }
}

/// Every number that the expression finds.
fn found(expression: &Regex, output: &str) -> std::result::Result<Vec<f64>, String> {
    let mut figures = Vec::new();
    for captures in expression.captures_iter(output) {
        let group = captures.get(1).or_else(|| captures.get(0));
        let text = group.map_or("", |group| group.as_str());
        match text.trim().parse::<f64>() {
            Ok(figure) if figure.is_finite() => figures.push(figure),
            _ => return Err(format!("--figure found {text:?}, which is no number")),
        }
    }
    match figures.is_empty() {
        true => Err("--figure found nothing in its output".into()),
        false => Ok(figures),
    }
}

fn last_line(errors: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(errors);
    let last = text.lines().map(str::trim).rfind(|line| !line.is_empty())?;
    Some(
        last.replace(char::is_control, " ")
            .chars()
            .take(200)
            .collect(),
    )
}

fn ending(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended with exit code {code}"),
        (None, Some(signal)) => format!("was ended by signal {signal}"),
        (None, None) => "ended in an unknown way".into(),
    }
}

/// # Errors
/// Where execvp(3) would not find it.
fn refuse_unknown(program: &OsStr) -> Result<()> {
    let runs = |path: &Path| {
        path.metadata()
            .is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
    };
    let name = program.to_string_lossy();
    if name.contains('/') {
        return match runs(Path::new(program)) {
            true => Ok(()),
            false => Err(Error::Usage(format!(
                "{name}: no such command, or it may not be run"
            ))),
        };
    }
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
    let mut folders = std::env::split_paths(&path);
    match folders.any(|folder: PathBuf| runs(&folder.join(program))) {
        true => Ok(()),
        false => Err(Error::Usage(format!("{name}: no such command in PATH"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(words: &[&str], figure: Figure) -> Gathered {
        let argv: Vec<OsString> = words.iter().map(OsString::from).collect();
        let mut command = Command::new(&argv, figure, false).unwrap();
        command.round(&AtomicBool::new(false)).unwrap()
    }

    fn output(expression: &str) -> Figure {
        Figure::Output {
            expression: Regex::new(expression).unwrap(),
            unit: "ms".into(),
        }
    }

    #[test]
    fn a_command_takes_at_least_as_long_as_it_sleeps() {
        let gathered = run(&["sleep", "0.05"], Figure::Duration);
        assert!(gathered.figures[0] >= 50e6, "{gathered:?}");
        assert_eq!(gathered.failed, 0);
    }

    #[test]
    fn every_number_that_the_expression_finds_is_a_figure() {
        let text = "from 10.0.0.1: time=1.34 ms\nfrom 10.0.0.1: time=.5 ms\nrtt 9";
        let gathered = run(&["printf", text], output(r"time=([0-9.]+)"));
        assert_eq!(gathered.figures, [1.34, 0.5]);
        let gathered = run(&["printf", "7 8"], output(r"\d+"));
        assert_eq!(gathered.figures, [7.0, 8.0]);
    }

    #[test]
    fn a_run_without_a_number_is_a_failure_that_says_so() {
        let gathered = run(&["printf", "nothing"], output(r"(\d+)"));
        assert_eq!((gathered.figures.len(), gathered.failed), (0, 1));
        assert!(gathered.why.unwrap().contains("nothing in its output"));
        let gathered = run(&["printf", "time=fast"], output(r"time=(\w+)"));
        assert!(
            gathered
                .why
                .unwrap()
                .contains("\"fast\", which is no number")
        );
    }

    #[test]
    fn a_command_that_dies_says_its_exit_code_and_its_last_words() {
        let gathered = run(
            &["sh", "-c", "echo first >&2; echo last words >&2; exit 7"],
            Figure::Duration,
        );
        assert_eq!((gathered.figures.len(), gathered.failed), (0, 1));
        let why = gathered.why.unwrap();
        assert_eq!(why, "it ended with exit code 7; it said: last words");
        let gathered = run(&["sh", "-c", "kill -9 $$"], Figure::Duration);
        assert_eq!(gathered.why.unwrap(), "it was ended by signal 9");
    }

    #[test]
    fn a_command_that_is_not_there_is_refused_before_it_is_run() {
        let no_program = tempfile::NamedTempFile::new().unwrap();
        let no_program = no_program.path().to_str().unwrap();
        for name in [
            "/nonexistent/x",
            "no-such-command-anywhere",
            no_program,
            "/",
        ] {
            let refused = Command::new(&[name.into()], Figure::Duration, false);
            assert!(matches!(refused, Err(Error::Usage(_))), "{name}");
        }
    }

    #[test]
    fn a_command_ends_soon_after_it_is_told_to() {
        let argv: Vec<OsString> = ["sleep", "100"].map(OsString::from).into();
        let mut command = Command::new(&argv, Figure::Duration, false).unwrap();
        let began = Instant::now();
        let gathered = command.round(&AtomicBool::new(true)).unwrap();
        assert_eq!(gathered, Gathered::default());
        assert!(began.elapsed() < Duration::from_secs(60));
    }
}
