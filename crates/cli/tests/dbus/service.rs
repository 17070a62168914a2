//! The service, on a bus.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use reveille_kernel::{Idle, Root, requests};
use serde_json::Value;

use super::bus::Bus;
use super::until;
use crate::program::reveille;
use crate::program::without_terminal;

/// Are there bounds that CPUs keep to?
pub fn can_hold() -> bool {
    requests::honoured(&Idle::read(&Root::default()).unwrap())
}

/// It ends with the value.
pub struct Service {
    folder: tempfile::TempDir,
    address: String,
    child: Child,
}

impl Service {
    /// Serves that bus, without rules.
    pub fn start(bus: &Bus) -> Self {
        Self::with_rules(bus, "")
    }

    pub fn with_rules(bus: &Bus, rules: &str) -> Self {
        let service = Self::unserved(&bus.address(), rules);
        until("it has its name", || {
            super::client::Client::root(bus).version().is_ok()
        });
        service
    }

    /// Whatever comes of its bus.
    pub fn unserved(address: &str, rules: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
        fs::write(folder.path().join("rules.toml"), rules).unwrap();
        let service = Self {
            child: spawn(folder.path(), address),
            address: address.to_owned(),
            folder,
        };
        until("it answers", || service.ask().is_some());
        service
    }

    fn ask(&self) -> Option<Value> {
        let output = reveille()
            .args(["govern", "status", "--json", "--socket"])
            .arg(self.socket())
            .output()
            .unwrap();
        let answer = output.status.success();
        answer.then(|| serde_json::from_slice(&output.stdout).unwrap())
    }

    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    pub fn status(&self) -> Value {
        self.ask().expect("the service answers")
    }

    /// Its problems, a line each.
    pub fn problems(&self) -> String {
        let status = self.status();
        let problems = status["problems"].as_array().unwrap().iter();
        let problems: Vec<&str> = problems.map(|one| one.as_str().unwrap()).collect();
        problems.join("\n")
    }

    /// How many holds it has.
    pub fn holds(&self) -> usize {
        self.status()["holds"].as_array().unwrap().len()
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// How many descriptors it has open.
    pub fn descriptors(&self) -> usize {
        let open = fs::read_dir(format!("/proc/{}/fd", self.pid())).unwrap();
        open.count()
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap()
    }

    /// A command on the same bus.
    pub fn beside(&self, command: &mut Command, arguments: &[&str]) {
        command
            .args(arguments)
            .env("DBUS_SYSTEM_BUS_ADDRESS", &self.address);
    }

    /// Has it read these rules.
    pub fn reload(&self, rules: &str) {
        fs::write(self.folder.path().join("rules.toml"), rules).unwrap();
        kill(Pid::from_raw(self.child.id() as i32), Signal::SIGHUP).unwrap();
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = kill(Pid::from_raw(self.child.id() as i32), Signal::SIGTERM);
        let _ = self.child.wait();
    }
}

fn spawn(folder: &Path, address: &str) -> Child {
    let log = fs::File::create(folder.join("log")).unwrap();
    without_terminal(&mut reveille())
        .args(["govern", "--config"])
        .arg(folder.join("rules.toml"))
        .arg("--socket")
        .arg(folder.join("socket"))
        .env("DBUS_SYSTEM_BUS_ADDRESS", address)
        .stderr(log)
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}
