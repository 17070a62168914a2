//! `reveille govern` as a setting: the program itself, with rules, for the time of a turn.

use std::io::Read;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use reveille_kernel::journal;

use crate::{Error, Result};

/// Loading BPF programs takes a second or two on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// A service that runs. Dropped, it takes its bounds back and ends.
pub(super) struct Service {
    child: Mutex<Child>,
    rules: PathBuf,
}

impl Service {
    /// Starts the service with these rules, and waits until they are in force.
    pub fn start(rules: &Path) -> Result<Self> {
        let failed = |what, source| Error::System { what, source };
        let program = std::env::current_exe().map_err(|error| failed("/proc/self/exe", error))?;
        let socket = Path::new(journal::FOLDER);
        let socket = socket.join(format!("trial-{}.sock", std::process::id()));
        let mut command = Command::new(program);
        command
            .args(["govern", "--config"])
            .arg(rules)
            .arg("--socket")
            .arg(&socket)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            // Ctrl-C ends the trial, which ends the service.
            .process_group(0);
        let end_with_parent = || {
            nix::sys::prctl::set_pdeathsig(Signal::SIGTERM)?;
            Ok(())
        };
        // SAFETY: between fork and exec only prctl(2) is called.
        unsafe { command.pre_exec(end_with_parent) };
        let child = command
            .spawn()
            .map_err(|error| failed("starting reveille govern", error))?;
        let service = Self {
            child: Mutex::new(child),
            rules: rules.to_owned(),
        };
        let end = Instant::now() + PATIENCE;
        while !answers(&socket) {
            if let Some(why) = service.ended() {
                return Err(Error::Failed(why));
            }
            if Instant::now() > end {
                let rules = rules.display();
                return Err(Error::Failed(format!(
                    "govern --config {rules}: the service does not answer"
                )));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(service)
    }

    /// Why it no longer runs; `None` while it does.
    pub fn ended(&self) -> Option<String> {
        let mut child = self.child.lock().expect("nothing panics with it");
        let status = child.try_wait().ok().flatten()?;
        let rules = self.rules.display();
        Some(format!(
            "govern --config {rules}: the service ended: {status}"
        ))
    }
}

/// It answers as soon as its rules are in force.
fn answers(socket: &Path) -> bool {
    let Ok(mut stream) = UnixStream::connect(socket) else {
        return false;
    };
    let _ = stream.set_read_timeout(Some(PATIENCE));
    let mut first = [0];
    stream.read(&mut first).is_ok_and(|length| length > 0)
}

impl Drop for Service {
    fn drop(&mut self) {
        let mut child = self.child.lock().expect("nothing panics with it");
        if let Ok(None) = child.try_wait() {
            let _ = kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM);
            let _ = child.wait();
        }
    }
}
