//! A bus of the test's own.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::until;

/// What Debian's system.conf allows, then the shipped policy, and polkit's.
const CONFIG: &str = r#"<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
  "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <type>system</type>
  <listen>unix:path=FOLDER/bus</listen>
  <auth>EXTERNAL</auth>
  <policy context="default">
    <allow user="*"/>
    <deny own="*"/>
    <deny send_type="method_call"/>
    <allow send_type="signal"/>
    <allow send_requested_reply="true" send_type="method_return"/>
    <allow send_requested_reply="true" send_type="error"/>
    <allow receive_type="method_call"/>
    <allow receive_type="method_return"/>
    <allow receive_type="error"/>
    <allow receive_type="signal"/>
    <allow send_destination="org.freedesktop.DBus" send_interface="org.freedesktop.DBus"/>
    <allow send_destination="org.freedesktop.DBus" send_interface="org.freedesktop.DBus.Introspectable"/>
  </policy>
  <policy user="root">
    <allow own="org.freedesktop.PolicyKit1"/>
    <allow send_destination="org.freedesktop.PolicyKit1"/>
  </policy>
  <include ignore_missing="yes">/usr/share/dbus-1/system.d/org.freedesktop.PolicyKit1.conf</include>
  <include>PACKAGE/org.reveille.Reveille1.conf</include>
</busconfig>
"#;

/// The folder of what is shipped.
pub const PACKAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../package");

/// It ends with the value.
pub struct Bus {
    folder: tempfile::TempDir,
    daemon: Child,
}

impl Bus {
    /// `None` with a word if there is none here, or no bound can be held.
    pub fn start(test: &str) -> Option<Self> {
        let why = if !nix::unistd::geteuid().is_root() {
            "not root"
        } else if Command::new("dbus-daemon")
            .arg("--version")
            .output()
            .is_err()
        {
            "no dbus-daemon"
        } else if !super::service::can_hold() {
            "no cpuidle driver that honours bounds"
        } else {
            let folder = tempfile::tempdir().unwrap();
            fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
            let config = CONFIG.replace("FOLDER", folder.path().to_str().unwrap());
            let config = config.replace("PACKAGE", PACKAGE);
            fs::write(folder.path().join("bus.conf"), config).unwrap();
            let daemon = daemon(folder.path());
            return Some(Self { folder, daemon });
        };
        println!("skipped: {test}: {why}");
        None
    }

    /// As DBUS_SYSTEM_BUS_ADDRESS has it.
    pub fn address(&self) -> String {
        format!("unix:path={}", self.socket().display())
    }

    /// Its socket.
    pub fn socket(&self) -> std::path::PathBuf {
        self.folder.path().join("bus")
    }

    /// Ends it, and everybody's connection.
    pub fn end(&mut self) {
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
    }

    /// Starts it anew.
    pub fn again(&mut self) {
        let _ = fs::remove_file(self.socket());
        self.daemon = daemon(self.folder.path());
    }
}

impl Drop for Bus {
    fn drop(&mut self) {
        self.end();
    }
}

fn daemon(folder: &Path) -> Child {
    let mut command = Command::new("dbus-daemon");
    command.args(["--nofork", "--nopidfile", "--nosyslog", "--config-file"]);
    command.arg(folder.join("bus.conf")).stderr(Stdio::null());
    let daemon = command.spawn().unwrap();
    until("the bus listens", || {
        std::os::unix::net::UnixStream::connect(folder.join("bus")).is_ok()
    });
    daemon
}
