//! Repeats a test in its own PID namespace, as in a container: there processes and threads have
//! other numbers than in the initial one. For the tests of the crates that load BPF programs.

use std::process::Command;

/// Runs the test of this name, of the calling program, in a PID namespace.
pub fn run(test: &str) {
    let within = Command::new("unshare")
        .args(["--pid", "--fork", "--mount-proc"])
        .arg(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture"])
        .output();
    let within = match within {
        Ok(within) => within,
        Err(error) => return println!("skipped: {test} in a PID namespace: unshare: {error}"),
    };
    let said = String::from_utf8_lossy(&within.stdout);
    let complaints = String::from_utf8_lossy(&within.stderr);
    if complaints.starts_with("unshare:") {
        return println!("skipped: {test} in a PID namespace: {complaints}");
    }
    for line in said.lines().filter(|line| line.contains("skipped")) {
        println!("{line}");
    }
    assert!(within.status.success(), "{said}{complaints}");
    assert!(said.contains("1 passed"), "{said}");
}
