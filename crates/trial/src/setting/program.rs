//! Another command of this program as a setting, for the time of a turn: `govern`, `quiet run`.

use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use reveille_kernel::{Idle, Root, bounds, journal};
use serde::Deserialize;

use crate::{Error, Result};

/// Loading BPF programs takes a second or two on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// Between two looks whether it is in force.
const LOOK: Duration = Duration::from_millis(10);

/// A service that is in force answers at once.
const ANSWERS_WITHIN: Duration = Duration::from_millis(200);

/// How often it is not in force, one look after the other, where others are in the way.
const LOOKS: usize = 5;

/// A command that runs. Dropped, it takes its changes back and ends.
pub(super) struct Program {
    child: Mutex<Child>,
    name: String,
    /// Of a service.
    socket: Option<PathBuf>,
}

impl Program {
    /// `govern` with these rules, once they are in force.
    pub fn govern(rules: &Path) -> Result<Self> {
        let socket = Path::new(journal::FOLDER);
        let socket = socket.join(format!("trial-{}.sock", std::process::id()));
        let mut command = this_program()?;
        command
            .args(["govern", "--alone", "--config"])
            .arg(rules)
            .arg("--socket")
            .arg(&socket)
            .stdout(Stdio::null());
        let name = format!("govern --config {}", rules.display());
        let in_force = |_: &Child| answers(&socket);
        let mut program = Self::start(command, name, in_force)?;
        program.socket = Some(socket);
        Ok(program)
    }

    /// `quiet run` with these flags, once it is in force, which its first output tells.
    pub fn quiet(flags: &[String]) -> Result<Self> {
        let mut command = this_program()?;
        command
            .args(["quiet", "run", "--json"])
            .args(flags)
            .stdout(Stdio::piped());
        let name = format!("quiet run {}", flags.join(" "));
        Self::start(command, name, has_output)
    }

    fn start(
        mut command: Command,
        name: String,
        in_force: impl Fn(&Child) -> bool,
    ) -> Result<Self> {
        let child = command.spawn();
        let child = child.map_err(Error::system("starting reveille"))?;
        let program = Self {
            child: Mutex::new(child),
            name,
            socket: None,
        };
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(why) = program.ended() {
                return Err(Error::Failed(why));
            }
            if in_force(&program.child.lock().expect("nothing panics with it")) {
                return Ok(program);
            }
            if Instant::now() > end {
                return Err(Error::Failed(format!("{}: does not answer", program.name)));
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Why it no longer runs; `None` while it does.
    pub fn ended(&self) -> Option<String> {
        let mut child = self.child.lock().expect("nothing panics with it");
        let status = child.try_wait().ok().flatten()?;
        Some(format!("{}: ended: {status}", self.name))
    }
}

/// What the service says of a CPU.
#[derive(Deserialize)]
struct CpuStatus {
    cpu: u32,
    bound_us: Option<u32>,
    in_the_way: Option<String>,
}

#[derive(Deserialize)]
struct Status {
    cpus: Vec<CpuStatus>,
}

impl Program {
    /// Why a service's bounds are not in force, or not known to be: other programs' are in the way, or it does not answer.
    pub fn prevented(&self) -> Option<String> {
        // Traffic may have one set or taken back between the two looks.
        let mut why = None;
        for _ in 0..LOOKS {
            why = self.is_another();
            if why.is_none() {
                break;
            }
            std::thread::sleep(LOOK);
        }
        why
    }

    fn is_another(&self) -> Option<String> {
        let Some((status, now)) =
            status(self.socket.as_ref()?).zip(Idle::read(&Root::default()).ok())
        else {
            return Some(format!(
                "{}: does not answer; whether its bounds are in force is not known",
                self.name
            ));
        };
        status.cpus.iter().find_map(|one| {
            let wanted = one.bound_us?;
            let present = bounds::own_us(now.cpu(one.cpu)?.resume_latency_us?);
            (one.in_the_way.is_some() || present != Some(wanted)).then(|| {
                let present = match present {
                    Some(us) => format!("another program's latency bound of {us} µs"),
                    None => "no latency bound".to_owned(),
                };
                format!(
                    "{}: CPU {} has {present}, so one of {wanted} µs is not in force",
                    self.name, one.cpu
                )
            })
        })
    }
}

fn this_program() -> Result<Command> {
    let program = std::env::current_exe().map_err(Error::system("/proc/self/exe"))?;
    let mut command = Command::new(program);
    // Ctrl-C ends the trial, which ends the command.
    command.stdin(Stdio::null()).process_group(0);
    let end_with_parent = || {
        nix::sys::prctl::set_pdeathsig(Signal::SIGTERM)?;
        Ok(())
    };
    // SAFETY: between fork and exec only prctl(2) is called.
    unsafe { command.pre_exec(end_with_parent) };
    Ok(command)
}

fn status(socket: &Path) -> Option<Status> {
    let mut stream = UnixStream::connect(socket).ok()?;
    let _ = stream.set_read_timeout(Some(ANSWERS_WITHIN));
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    serde_json::from_str(&text).ok()
}

/// The service answers as soon as its rules are in force.
fn answers(socket: &Path) -> bool {
    let Ok(mut stream) = UnixStream::connect(socket) else {
        return false;
    };
    let _ = stream.set_read_timeout(Some(PATIENCE));
    let mut first = [0];
    stream.read(&mut first).is_ok_and(|length| length > 0)
}

/// It stays in the pipe, which has room for it.
fn has_output(child: &Child) -> bool {
    let stdout = child.stdout.as_ref().expect("it is piped");
    let mut waited = [PollFd::new(stdout.as_fd(), PollFlags::POLLIN)];
    poll(&mut waited, PollTimeout::ZERO).is_ok_and(|ready| ready > 0)
        && waited[0]
            .revents()
            .is_some_and(|events| events.contains(PollFlags::POLLIN))
}

impl Drop for Program {
    fn drop(&mut self) {
        let mut child = self.child.lock().expect("nothing panics with it");
        if let Ok(None) = child.try_wait() {
            let _ = kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM);
            let _ = child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn bounds_of_a_service_that_does_not_answer_are_not_known_to_be_in_force() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("socket");
        let listener = UnixListener::bind(&socket).unwrap();
        let program = Program {
            child: Mutex::new(Command::new("sleep").arg("60").spawn().unwrap()),
            name: "govern".to_owned(),
            socket: Some(socket),
        };
        assert!(program.prevented().is_some());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                // Whoever asked before has gone.
                let _ = stream.unwrap().write_all(br#"{"cpus": []}"#);
            }
        });
        assert_eq!(program.prevented(), None);
    }
}
