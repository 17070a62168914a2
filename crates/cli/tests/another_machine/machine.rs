//! Another machine, as far as ssh is concerned: an sshd of the test's own, with its own keys and temporary folder, in a
//! process that ssh starts. Nothing listens anywhere.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

use crate::program::{reveille, with_own_journal};

pub struct Machine {
    folder: TempDir,
}

const PROXY: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/another_machine/proxy.py"
);

impl Machine {
    /// `None`, with a line, if it cannot be.
    pub fn new() -> Option<Self> {
        let skipped = |why: &str| {
            eprintln!("skipped: --host over ssh: {why}");
            None
        };
        if !nix::unistd::geteuid().is_root() {
            return skipped("an sshd needs root");
        }
        for program in ["/usr/sbin/sshd", "/usr/bin/ssh", "/usr/bin/python3"] {
            if !Path::new(program).exists() {
                return skipped(&format!("{program} is missing"));
            }
        }
        // sshd's own, as its package makes it at the boot.
        fs::create_dir_all("/run/sshd").ok()?;
        let machine = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        for name in ["host", "key"] {
            let path = machine.path(name);
            let mut keygen = Command::new("ssh-keygen");
            keygen
                .args(["-q", "-t", "ed25519", "-N", "", "-f"])
                .arg(path);
            assert!(keygen.status().unwrap().success());
        }
        fs::copy(machine.path("key.pub"), machine.path("authorized_keys")).unwrap();
        fs::create_dir(machine.path("bin")).unwrap();
        fs::create_dir(machine.path("far-bin")).unwrap();
        fs::create_dir(machine.tmp()).unwrap();
        machine.sshd("");
        let ssh = format!(
            "#!/bin/sh\nexec /usr/bin/ssh -F {} \"$@\"\n",
            machine.text("ssh_config")
        );
        machine.script("bin/ssh", &ssh);
        let known = "UserKnownHostsFile /dev/null\nStrictHostKeyChecking no\nLogLevel ERROR\n";
        let proxy = format!(
            "python3 {PROXY} {} {}",
            machine.text("sshd_config"),
            machine.text("limits")
        );
        let config = format!(
            "Host sut other\nUser root\nIdentityFile {}\nIdentitiesOnly yes\nProxyCommand {proxy}\n{known}",
            machine.text("key"),
        );
        fs::write(machine.path("ssh_config"), config).unwrap();
        Some(machine)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    /// The folder for temporary files there.
    pub fn tmp(&self) -> PathBuf {
        self.path("far-tmp")
    }

    /// The sshd's configuration, with these lines before the others: the first one counts.
    pub fn sshd(&self, lines: &str) {
        let config = format!(
            "{lines}\nHostKey {}\nAuthorizedKeysFile {}\nStrictModes no\nUsePAM no\nPermitRootLogin yes\n\
             KbdInteractiveAuthentication no\nPasswordAuthentication no\n\
             SetEnv TMPDIR={} PATH={}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin\n",
            self.text("host"),
            self.text("authorized_keys"),
            self.text("far-tmp"),
            self.text("far-bin"),
        );
        fs::write(self.path("sshd_config"), config).unwrap();
    }

    /// A program of this side.
    pub fn script(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
        fs::set_permissions(self.path(name), PermissionsExt::from_mode(0o755)).unwrap();
    }

    /// A program that the other machine has.
    pub fn has(&self, name: &str, text: &str) {
        self.script(&format!("far-bin/{name}"), text);
    }

    /// This program is installed there.
    pub fn has_reveille(&self) {
        let to = self.path("far-bin/reveille");
        let linked = Command::new("cp")
            .arg(env!("CARGO_BIN_EXE_reveille"))
            .arg(to)
            .status();
        assert!(linked.unwrap().success());
    }

    /// The next connection ends after so many bytes to the sshd, or from it.
    pub fn limit(&self, up: i64, down: i64, hold_s: u64) {
        fs::write(self.path("limits"), format!("{up} {down} {hold_s}")).unwrap();
    }

    /// Ends the connections, as the network between the two would.
    pub fn cut(&self) {
        let config = self.text("sshd_config");
        for process in fs::read_dir("/proc").unwrap().flatten() {
            let line = fs::read(process.path().join("cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            if line.contains(PROXY) && line.contains(&config) {
                let id = process.file_name().to_str().unwrap().parse().unwrap();
                kill(Pid::from_raw(id), Signal::SIGKILL).unwrap();
            }
        }
    }

    /// This program, in a folder of its own, with that ssh.
    pub fn near(&self) -> Command {
        let mut command = with_own_journal(reveille());
        let path = format!("{}:{}", self.text("bin"), std::env::var("PATH").unwrap());
        command.env("PATH", path).stdin(Stdio::null());
        command.current_dir(self.folder.path());
        command
    }

    /// What is there of a run.
    fn left(&self) -> Vec<String> {
        let tmp = self.tmp();
        let files = fs::read_dir(&tmp)
            .unwrap()
            .map(|entry| entry.unwrap().path().display().to_string());
        let mut left: Vec<String> = files.collect();
        let tmp = tmp.display().to_string();
        for process in fs::read_dir("/proc").unwrap().flatten() {
            let of = |name| {
                fs::read_link(process.path().join(name))
                    .unwrap_or_default()
                    .display()
                    .to_string()
            };
            let line = fs::read(process.path().join("cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            if of("cwd").starts_with(&tmp)
                || of("exe").starts_with(&tmp)
                || line.contains(&format!("{tmp}/"))
            {
                left.push(format!("{}: {line}", process.file_name().display()));
            }
        }
        left
    }

    /// Fails if anything of a run is left there after that time; how long it took.
    pub fn is_clean_within(&self, time: Duration) -> Duration {
        let since = Instant::now();
        loop {
            let left = self.left();
            if left.is_empty() {
                return since.elapsed();
            }
            assert!(since.elapsed() < time, "after {time:?}: {left:?}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}
