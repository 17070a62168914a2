//! A command as the workload: how long it takes, or numbers in what it prints.

use std::ffi::OsString;
use std::io::{PipeReader, Read};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use regex_lite::Regex;
use reveille_kernel::RunAs;

use super::{Description, Gathered, NANOSECONDS, Workload};
use crate::{Error, Result};

/// What is taken from a run.
pub enum Figure {
    /// From before the command is started until it has ended, ns.
    Duration,
    /// Every number that the expression finds in the standard output: its first group, or the
    /// whole where it has none.
    Output {
        /// A match that is not a number, or none at all, makes the run a failed one.
        expression: Regex,
        /// The user's word, empty where none was given.
        unit: String,
    },
}

/// A command that is run once per round.
///
/// A run is over when the command has ended. What it has left running by then goes on without us:
/// what that writes later is not read.
pub struct Command {
    argv: Vec<OsString>,
    program: PathBuf,
    run_as: RunAs,
    figure: Figure,
    description: Description,
    /// Of the last run.
    took: Option<Duration>,
}

impl Command {
    /// `argv` is the command and its arguments; not empty.
    ///
    /// # Errors
    /// [`Error::Usage`] where there is no such command, or its user may not execute it.
    pub fn new(
        argv: &[OsString],
        run_as: RunAs,
        figure: Figure,
        higher_is_better: bool,
    ) -> Result<Self> {
        let name = argv
            .first()
            .ok_or_else(|| Error::Usage("no command is given after `--`".into()))?;
        let program = run_as.find(name)?;
        let words: Vec<_> = argv.iter().map(|word| word.to_string_lossy()).collect();
        let (name, unit) = match &figure {
            Figure::Duration => ("duration".to_owned(), NANOSECONDS.to_owned()),
            Figure::Output { expression, unit } => (expression.to_string(), unit.clone()),
        };
        Ok(Self {
            argv: argv.to_vec(),
            program,
            run_as,
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

    fn start(&self) -> Result<Run> {
        let wrong = |error: std::io::Error| {
            let name = self.argv[0].to_string_lossy();
            Error::Failed(match self.run_as.user() {
                Some(user) => format!("{name} as {user}: {error}"),
                None => format!("{name}: {error}"),
            })
        };
        let (errors, stderr) = self.run_as.pipe().map_err(wrong)?;
        let mut command = std::process::Command::new(&self.program);
        command
            .arg0(&self.argv[0])
            .args(&self.argv[1..])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(stderr);
        let mut streams = vec![Stream::new(errors, Keep::End)];
        if let Figure::Output { .. } = self.figure {
            let (output, stdout) = self.run_as.pipe().map_err(wrong)?;
            command.stdout(stdout);
            streams.push(Stream::new(output, Keep::Beginning));
        }
        self.run_as.apply(&mut command);
        let mut child = command.spawn().map_err(wrong)?;
        match pidfd(child.id()) {
            Ok(end) => Ok(Run {
                child,
                end,
                streams,
            }),
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                Err(wrong(error))
            }
        }
    }

    /// The numbers of one run, or why there are none.
    fn figures(
        &self,
        took: Duration,
        status: ExitStatus,
        streams: &[Stream],
    ) -> std::result::Result<Vec<f64>, String> {
        if !status.success() {
            let last = last_line(&streams[0].kept).map(|line| format!("; last line: {line}"));
            return Err(format!("it {}{}", ending(status), last.unwrap_or_default()));
        }
        match &self.figure {
            Figure::Duration => Ok(vec![took.as_nanos() as f64]),
            Figure::Output { expression, .. } => match &streams[1] {
                output if output.dropped => Err(format!(
                    "it wrote more than {} MiB, too much to look for --figure in",
                    KEPT >> 20
                )),
                output => found(expression, &String::from_utf8_lossy(&output.kept)),
            },
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
        let mut run = self.start()?;
        run.wait(stop);
        let took = began.elapsed();
        let status = run
            .child
            .wait()
            .map_err(|error| Error::Failed(error.to_string()))?;
        if stop.load(Ordering::Relaxed) {
            return Ok(gathered);
        }
        run.read_the_rest();
        match self.figures(took, status, &run.streams) {
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

/// A signal ends the wait at once; one that comes just before the wait is seen this much later.
const LOOK: u16 = 500;
/// After SIGTERM a command has this long to end.
const GRACE: Duration = Duration::from_secs(3);

/// A command that runs.
struct Run {
    child: Child,
    /// Readable when it has ended.
    end: OwnedFd,
    /// Its errors, and its output where figures are looked for in that.
    streams: Vec<Stream>,
}

impl Run {
    /// Waits for the command's end and reads its output, so that the command never blocks on a pipe. Wakes a
    /// CPU for output, and otherwise twice a second. If `stop` is set, it ends the command.
    fn wait(&mut self, stop: &AtomicBool) {
        let mut terminated: Option<Instant> = None;
        loop {
            let mut polled = vec![PollFd::new(self.end.as_fd(), PollFlags::POLLIN)];
            let open = self.streams.iter().filter(|stream| stream.open);
            polled.extend(open.map(|stream| PollFd::new(stream.pipe.as_fd(), PollFlags::POLLIN)));
            // EINTR: a signal, which may have set `stop`.
            let any = poll(&mut polled, PollTimeout::from(LOOK)).is_ok_and(|ready| ready > 0);
            let ready: Vec<bool> = polled
                .iter()
                .map(|one| any && one.any().unwrap_or(true))
                .collect();
            if ready[0] {
                return;
            }
            let open = self.streams.iter_mut().filter(|stream| stream.open);
            for (stream, _) in open.zip(&ready[1..]).filter(|(_, ready)| **ready) {
                stream.read(AT_ONCE);
            }
            if !stop.load(Ordering::Relaxed) {
                continue;
            }
            let signal = match terminated {
                None => Signal::SIGTERM,
                Some(when) if when.elapsed() > GRACE => Signal::SIGKILL,
                Some(_) => continue,
            };
            // It is a child that was not waited for, so the number is still its own.
            let _ = kill(Pid::from_raw(self.child.id() as i32), signal);
            terminated.get_or_insert_with(Instant::now);
        }
    }

    /// Takes what the command had written by its end. What it has left running may hold the pipes
    /// open, and write on; nobody waits for that.
    fn read_the_rest(&mut self) {
        for stream in &mut self.streams {
            let mut left = stream.waiting();
            while left > 0 && stream.open {
                left = left.saturating_sub(stream.read(left.min(AT_ONCE)));
            }
        }
    }
}

/// A pipe that the command writes to.
struct Stream {
    pipe: PipeReader,
    keep: Keep,
    kept: Vec<u8>,
    /// Was anything of it not kept?
    dropped: bool,
    /// Has it a writer still?
    open: bool,
}

/// What is kept of a stream that is long.
enum Keep {
    /// The first [`KEPT`] bytes.
    Beginning,
    /// The last line, if it is no longer than [`LAST_WORDS`].
    End,
}

/// More than anybody looks for a number in.
const KEPT: usize = 16 << 20;
/// Longest last line of standard error that is kept, bytes.
const LAST_WORDS: usize = 64 << 10;
/// What a pipe holds (pipe(7)), bytes.
const AT_ONCE: usize = 64 << 10;

impl Stream {
    fn new(pipe: PipeReader, keep: Keep) -> Self {
        Self {
            pipe,
            keep,
            kept: Vec::new(),
            dropped: false,
            open: true,
        }
    }

    /// Bytes that can be read without waiting.
    fn waiting(&self) -> usize {
        let mut bytes: nix::libc::c_int = 0;
        // SAFETY: the kernel writes one int there.
        let asked =
            unsafe { nix::libc::ioctl(self.pipe.as_raw_fd(), nix::libc::FIONREAD, &raw mut bytes) };
        match asked {
            0 => usize::try_from(bytes).unwrap_or(0),
            _ => 0,
        }
    }

    /// Takes what is there, up to so many bytes, and waits where nothing is; how many they were.
    fn read(&mut self, most: usize) -> usize {
        let before = self.kept.len();
        self.kept.resize(before + most, 0);
        let read = self.pipe.read(&mut self.kept[before..]);
        // An interruption comes again; no error of a pipe's means that more can be read.
        let interrupted = |error: &std::io::Error| error.kind() == std::io::ErrorKind::Interrupted;
        self.open = match &read {
            Ok(bytes) => *bytes > 0,
            Err(error) => interrupted(error),
        };
        let bytes = read.unwrap_or(0);
        self.kept.truncate(before + bytes);
        match self.keep {
            Keep::Beginning if self.kept.len() > KEPT => {
                self.kept.truncate(KEPT);
                self.dropped = true;
            }
            Keep::End if self.kept.len() > 2 * LAST_WORDS => {
                self.kept.drain(..self.kept.len() - LAST_WORDS);
                self.dropped = true;
            }
            _ => {}
        }
        bytes
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
            _ => return Err(format!("--figure found {text:?}, not a number")),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn run(words: &[&str], figure: Figure) -> Gathered {
        let argv: Vec<OsString> = words.iter().map(OsString::from).collect();
        let mut command = Command::new(&argv, RunAs::default(), figure, false).unwrap();
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
    fn a_run_without_a_number_is_reported_as_a_failure() {
        let gathered = run(&["printf", "nothing"], output(r"(\d+)"));
        assert_eq!((gathered.figures.len(), gathered.failed), (0, 1));
        assert!(gathered.why.unwrap().contains("nothing in its output"));
        let gathered = run(&["printf", "time=fast"], output(r"time=(\w+)"));
        assert!(gathered.why.unwrap().contains("\"fast\", not a number"));
    }

    #[test]
    fn a_failed_command_is_reported_with_its_exit_code_and_last_words() {
        let gathered = run(
            &["sh", "-c", "echo first >&2; echo last words >&2; exit 7"],
            Figure::Duration,
        );
        assert_eq!((gathered.figures.len(), gathered.failed), (0, 1));
        let why = gathered.why.unwrap();
        assert!(why.contains("exit code 7; last line: last words"), "{why}");
        let gathered = run(&["sh", "-c", "kill -9 $$"], Figure::Duration);
        assert_eq!(gathered.why.unwrap(), "it was ended by signal 9");
    }

    #[test]
    fn the_last_words_are_kept_after_any_length() {
        let script = "head -c 17M /dev/zero | tr '\\0' '\\n' >&2; echo last words >&2; exit 7";
        let gathered = run(&["sh", "-c", script], Figure::Duration);
        let why = gathered.why.unwrap();
        assert!(why.ends_with("last line: last words"), "{why}");
    }

    #[test]
    fn a_run_ends_with_its_command_and_keeps_all_its_output() {
        let script = "sleep 100 & echo pid=$!; seq 20000";
        let gathered = run(&["sh", "-c", script], output(r"(?m)^(?:pid=)?(\d+)$"));
        assert_eq!(gathered.figures.len(), 20_001, "{:?}", gathered.why);
        let left = Pid::from_raw(gathered.figures[0] as i32);
        kill(left, Signal::SIGKILL).expect("what it left runs on");
        assert_eq!(gathered.figures[20_000], 20_000.0);
    }

    #[test]
    fn a_remaining_child_that_never_stops_writing_does_not_delay_a_run() {
        let gathered = run(&["sh", "-c", "echo 5; yes 5 & exit"], output(r"\d+"));
        assert_eq!(gathered.figures[0], 5.0);
    }

    #[test]
    fn only_the_end_of_a_long_stream_is_in_memory() {
        let (reads, mut writes) = std::io::pipe().unwrap();
        let mut stream = Stream::new(reads, Keep::End);
        for piece in 0..=255_u8 {
            std::io::Write::write_all(&mut writes, &[piece; 4096]).unwrap();
            stream.read(AT_ONCE);
            assert!(stream.kept.len() <= 2 * LAST_WORDS);
        }
        assert_eq!(stream.kept.last(), Some(&255));
    }

    #[test]
    fn output_too_long_to_keep_is_reported_as_a_failure() {
        let gathered = run(&["head", "-c", "17M", "/dev/zero"], output(r"\d+"));
        let why = gathered.why.unwrap();
        assert!(why.starts_with("it wrote more than 16 MiB"), "{why}");
    }

    #[test]
    fn a_missing_command_is_refused_before_it_is_run() {
        let no_program = tempfile::NamedTempFile::new().unwrap();
        let no_program = no_program.path().to_str().unwrap();
        for name in [
            "/nonexistent/x",
            "no-such-command-anywhere",
            no_program,
            "/",
        ] {
            let refused = Command::new(&[name.into()], RunAs::default(), Figure::Duration, false);
            assert!(matches!(refused, Err(Error::Usage(_))), "{name}");
        }
    }

    #[test]
    fn a_command_ends_soon_after_a_stop() {
        let argv: Vec<OsString> = ["sleep", "100"].map(OsString::from).into();
        let mut command = Command::new(&argv, RunAs::default(), Figure::Duration, false).unwrap();
        let began = Instant::now();
        let gathered = command.round(&AtomicBool::new(true)).unwrap();
        assert_eq!(gathered, Gathered::default());
        assert!(began.elapsed() < Duration::from_secs(60));
    }
}
