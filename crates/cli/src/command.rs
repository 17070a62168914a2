//! A user's command as a child of this program: with the user's rights, made ready before anything
//! is changed; this program's signals and the command's exit code are handed on.

use std::ffi::OsString;
use std::io::{PipeReader, PipeWriter, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitCode, ExitStatus};
use std::sync::OnceLock;
use std::thread::JoinHandle;

use nix::libc;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::unistd::{getpid, getsid};
use reveille_kernel::{Error, Inherited, Result, RunAs};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGWINCH};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::origin::WithOrigin;
use signal_hook::low_level::siginfo::Cause;

use crate::completion;
use crate::signals::{ending, not_ignored};

/// Whose rights a user's command gets.
#[derive(clap::Args)]
pub struct As {
    /// Run the command as this user [default: the user who called sudo; without sudo, the current user]
    #[arg(long, value_name = "NAME|UID", requires = "command", add = completion::users())]
    user: Option<String>,
}

static INHERITED: OnceLock<Inherited> = OnceLock::new();

impl As {
    /// # Errors
    /// A usage error where there is no such user, or only root could become one.
    pub fn run_as(&self) -> Result<RunAs> {
        let inherited = INHERITED.get().cloned().unwrap_or_default();
        RunAs::new(self.user.as_deref(), inherited)
    }
}

/// Descriptors for anything here: `cost --stacks` keeps a file open for each that a waker has mapped.
const DESCRIPTORS: u64 = 65_536;

/// Records which descriptors the caller left open for a command, and how many it may have; then raises
/// that limit for this process (it is often 1,024). The first call of `main`: what is opened later is
/// this program's own, and no command gets it.
pub fn record_inherited_descriptors() {
    INHERITED.get_or_init(Inherited::at_start);
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        // Where it is too low all the same, the work that needs more reports it.
        let raised = soft.max(hard.min(DESCRIPTORS));
        let _ = setrlimit(Resource::RLIMIT_NOFILE, raised, hard);
    }
}

/// A user's command. It is in this program's process group, so that the terminal treats both as
/// one: Ctrl-C reaches it by itself, and is not sent a second time.
///
/// Dropped before it was started, it is ended before its first instruction.
pub struct Child {
    name: String,
    pid: u32,
    state: State,
    /// From before the fork on, so that no signal and no end is missed.
    signals: SignalsInfo<WithOrigin>,
}

enum State {
    /// Forked; its exec waits for a byte.
    Ready {
        go: PipeWriter,
        spawning: JoinHandle<std::io::Result<std::process::Child>>,
    },
    Running(std::process::Child),
    /// Its process number may be another's by now.
    Ended(ExitStatus),
    Gone,
}

impl Child {
    /// Forks; the command's own program is not begun before [`Child::start`].
    ///
    /// # Errors
    /// A usage error where there is no such program, or it may not be run: nothing was changed then.
    pub fn prepare(argv: &[OsString], run_as: &RunAs) -> Result<Self> {
        let (name, arguments) = argv
            .split_first()
            .ok_or_else(|| Error::Usage("no command is given after --".to_owned()))?;
        let mut command = Command::new(run_as.find(name)?);
        command.arg0(name).args(arguments);
        run_as.apply(&mut command);
        let name = match run_as.user() {
            Some(user) => format!("{} as {user}", name.to_string_lossy()),
            None => name.to_string_lossy().into_owned(),
        };
        Self::prepare_command(command, &name)
    }

    /// As [`Child::prepare`], of a command with, for example, its output redirected; `name` is what
    /// errors call it.
    ///
    /// # Errors
    /// Where no process can be started.
    pub fn prepare_command(mut command: Command, name: &str) -> Result<Self> {
        // All but SIGCHLD are handed on. SIGTSTP and SIGCONT are not: they stop and continue both.
        let handed_on = ending().into_iter().chain(not_ignored([SIGWINCH]));
        let watched = handed_on.chain([SIGCHLD]);
        let signals = SignalsInfo::<WithOrigin>::new(watched).map_err(Error::system("signals"))?;
        let (waits, go) = std::io::pipe().map_err(Error::system("pipe"))?;
        let (mut pid_from, pid_to) = std::io::pipe().map_err(Error::system("pipe"))?;
        wait_before_exec(&mut command, waits, &go, pid_to);
        // std's spawn returns after the exec, so it has a thread of its own.
        let spawning = std::thread::spawn(move || {
            let spawned = command.spawn();
            // Closes this side's ends of the pipes: a fork that failed is seen as their end.
            drop(command);
            spawned
        });
        let mut pid = [0; 4];
        if pid_from.read_exact(&mut pid).is_err() {
            drop(go);
            let spawned = spawning.join().expect("spawning does not panic");
            let why = spawned.err().map_or_else(String::new, |e| e.to_string());
            let why = format!("{name}: cannot start a process: {why}");
            return Err(Error::Failed(why));
        }
        Ok(Self {
            name: name.to_owned(),
            pid: u32::from_ne_bytes(pid),
            state: State::Ready { go, spawning },
            signals,
        })
    }

    /// Its process number, valid until it was waited for.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Begins the command.
    ///
    /// # Errors
    /// A usage error where the kernel does not take the program (such as a wrong format).
    pub fn start(&mut self) -> Result<()> {
        let State::Ready { mut go, spawning } = std::mem::replace(&mut self.state, State::Gone)
        else {
            return Err(Error::Failed(format!("{}: already started", self.name)));
        };
        // Where it was killed while it waited, the spawn reports it.
        let _ = go.write_all(&[1]);
        drop(go);
        let spawned = spawning.join().expect("spawning does not panic");
        let child = spawned
            .map_err(|error| Error::Usage(format!("{}: cannot be run: {error}", self.name)))?;
        self.state = State::Running(child);
        // The terminal's keys reached the forked process before its exec, but not the command.
        for early in self.signals.pending() {
            send(early.signal, self.pid);
        }
        Ok(())
    }

    /// Hands on the signals that came since the last call; how the command ended, if it has.
    pub fn try_wait(&mut self) -> Result<Option<ExitStatus>> {
        if let State::Ended(status) = self.state {
            return Ok(Some(status));
        }
        for signal in self.signals.pending() {
            hand_on(&signal, self.pid, &self.state);
        }
        let State::Running(child) = &mut self.state else {
            return Err(Error::Failed(format!("{}: does not run", self.name)));
        };
        let ended = child.try_wait();
        let ended = ended.map_err(Error::system("waiting for the command"))?;
        if let Some(status) = ended {
            self.state = State::Ended(status);
        }
        Ok(ended)
    }

    /// Waits for the command's end, handing on the signals that this program gets; its exit code,
    /// or 128 and the number of the signal that ended it, as in shells.
    pub fn wait(mut self) -> Result<ExitCode> {
        Ok(ExitCode::from(code(self.wait_status()?)))
    }

    /// As [`Child::wait`], with how it ended.
    pub fn wait_status(&mut self) -> Result<ExitStatus> {
        loop {
            if let Some(status) = self.try_wait()? {
                return Ok(status);
            }
            // Its end is a signal, too: SIGCHLD.
            let came: Vec<_> = self.signals.wait().collect();
            for signal in came {
                hand_on(&signal, self.pid, &self.state);
            }
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if let State::Ready { go, spawning } = std::mem::replace(&mut self.state, State::Gone) {
            // It reads the end of the pipe, and ends.
            drop(go);
            let _ = spawning.join();
        }
    }
}

/// The exit code of a command: its own, or 128 plus the signal's number.
pub fn code(status: ExitStatus) -> u8 {
    let number = status
        .code()
        .or_else(|| status.signal().map(|signal| 128 + signal));
    number.map_or(1, |number| number as u8)
}

fn hand_on(signal: &signal_hook::low_level::siginfo::Origin, pid: u32, state: &State) {
    // What the kernel sends for the terminal (a key, its end) went to the whole process group; its end only to who leads
    // the session, if somebody does.
    let leads = || getsid(None) == Ok(getpid());
    let of_the_terminal = match signal.signal {
        SIGHUP => !leads(),
        other => [SIGINT, SIGQUIT, SIGWINCH].contains(&other),
    };
    let reached_both = signal.cause == Cause::Kernel && of_the_terminal;
    if reached_both || !matches!(state, State::Running(_)) {
        return;
    }
    send(signal.signal, pid);
}

fn send(signal: i32, pid: u32) {
    if signal != SIGCHLD {
        // SAFETY: the call takes two numbers; nix knows no real-time signals. The command was not waited for
        // yet, so that its number is still its own, even if it has ended.
        unsafe { libc::kill(pid as i32, signal) };
    }
}

/// Lets the forked process send its number and wait for a byte before its exec; if the pipe ends
/// without one, this program is gone or has given up, and so does the process.
fn wait_before_exec(command: &mut Command, waits: PipeReader, go: &PipeWriter, pid_to: PipeWriter) {
    let go = go.as_raw_fd();
    let before_exec = move || {
        // SAFETY: close(2) and getpid(2) may be called between fork and exec. The descriptor is
        // this process's copy of the other end, which would keep the pipe from ending; nothing
        // else here uses it.
        let pid = unsafe {
            libc::close(go);
            libc::getpid()
        };
        (&pid_to).write_all(&pid.to_ne_bytes())?;
        // Read::read is one read(2); an interruption by a signal is tried again.
        (&waits).read_exact(&mut [0])
    };
    // SAFETY: the closure only closes, reads and writes descriptors: no allocation, no lock. Its
    // errors are of the kernel's own or static kinds.
    unsafe { command.pre_exec(before_exec) };
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::sync::{Mutex, MutexGuard, PoisonError};
    use std::time::{Duration, Instant};

    use nix::sys::signal::{Signal, kill};
    use nix::unistd::Pid;

    use super::*;

    /// A signal to this process reaches the children of all tests: one test at a time.
    fn alone() -> MutexGuard<'static, ()> {
        static ALONE: Mutex<()> = Mutex::new(());
        ALONE.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn shell(script: &str) -> Vec<OsString> {
        ["sh", "-c", script].map(OsString::from).to_vec()
    }

    fn ended(script: &str) -> u8 {
        let mut child = Child::prepare(&shell(script), &RunAs::default()).unwrap();
        child.start().unwrap();
        code(child.wait_status().unwrap())
    }

    #[test]
    fn the_commands_exit_code_is_passed_on_and_a_signal_is_128_plus_its_number() {
        let _alone = alone();
        assert_eq!(ended("exit 0"), 0);
        assert_eq!(ended("exit 7"), 7);
        assert_eq!(ended("kill -TERM $$"), 128 + 15);
        assert_eq!(ended("kill -KILL $$"), 128 + 9);
    }

    #[test]
    fn how_a_command_ended_stays_known_and_its_number_gets_no_signal() {
        let _alone = alone();
        let mut child = Child::prepare(&shell("exit 7"), &RunAs::default()).unwrap();
        child.start().unwrap();
        assert_eq!(code(child.wait_status().unwrap()), 7);
        // Another process that got the number since.
        let mut other = Command::new("sleep").arg("9").spawn().unwrap();
        child.pid = other.id();
        kill(Pid::this(), Signal::SIGUSR2).unwrap();
        // Time for it to arrive, here and there.
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(code(child.wait_status().unwrap()), 7);
        std::thread::sleep(Duration::from_millis(50));
        assert!(other.try_wait().unwrap().is_none());
        other.kill().unwrap();
        other.wait().unwrap();
    }

    #[test]
    fn the_command_runs_nothing_before_it_is_started() {
        let _alone = alone();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ran");
        let script = format!("echo $$ >{}", file.display());
        let mut child = Child::prepare(&shell(&script), &RunAs::default()).unwrap();
        std::thread::sleep(Duration::from_millis(50));
        assert!(!file.exists());
        child.start().unwrap();
        assert!(child.wait_status().unwrap().success());
        let pid: u32 = std::fs::read_to_string(&file)
            .unwrap()
            .trim()
            .parse()
            .unwrap();
        assert_eq!(pid, child.pid());
    }

    #[test]
    fn a_command_that_is_never_started_is_ended() {
        let _alone = alone();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ran");
        let child = Child::prepare(
            &shell(&format!("touch {}", file.display())),
            &RunAs::default(),
        )
        .unwrap();
        let process = PathBuf::from(format!("/proc/{}", child.pid()));
        assert!(process.exists());
        drop(child);
        assert!(!process.exists() && !file.exists());
    }

    #[test]
    fn a_signal_reaches_the_command_once() {
        let _alone = alone();
        // Only this test uses SIGUSR2.
        let script = "n=0; trap 'n=$((n+1))' USR2; trap 'exit $n' ALRM; echo ready; \
                      while :; do sleep 0.01; done";
        let mut command = Command::new("sh");
        let (mut ready, stdout) = std::io::pipe().unwrap();
        command.args(["-c", script]).stdout(stdout);
        let mut child = Child::prepare_command(command, "sh").unwrap();
        child.start().unwrap();
        ready.read_exact(&mut [0; 6]).unwrap();
        kill(Pid::this(), Signal::SIGUSR2).unwrap();
        // Time for it to arrive, and for an erroneous second one.
        let until = Instant::now() + Duration::from_millis(300);
        while Instant::now() < until {
            assert!(child.try_wait().unwrap().is_none());
            std::thread::sleep(Duration::from_millis(10));
        }
        kill(Pid::from_raw(child.pid() as i32), Signal::SIGALRM).unwrap();
        assert_eq!(code(child.wait_status().unwrap()), 1);
    }

    #[test]
    fn a_command_that_cannot_run_is_refused_before_any_change() {
        let refused = |name: &str| {
            let error = Child::prepare(&[name.into()], &RunAs::default())
                .err()
                .unwrap();
            format!("{error}")
        };
        assert!(refused("no-such-command-here").contains("no such command in PATH"));
        assert!(refused("/nonexistent/program").contains("no such program"));
        assert!(refused("/proc/self/status").contains("may not be executed"));
        assert!(refused("/tmp").contains("no such program"));
        assert!(Child::prepare(&[], &RunAs::default()).is_err());
    }

    #[test]
    fn a_file_that_the_kernel_rejects_is_reported_at_the_start() {
        let _alone = alone();
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("odd");
        std::fs::write(&file, "#!/nonexistent/interpreter\n").unwrap();
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o755)).unwrap();
        let mut child = Child::prepare(&[file.into()], &RunAs::default()).unwrap();
        let error = child.start().unwrap_err().to_string();
        assert!(error.contains("cannot be run"), "{error}");
    }
}
