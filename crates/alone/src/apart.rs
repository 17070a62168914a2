//! A test in a process of its own, because it changes the whole process, looks at it, or needs another namespace.

use std::process::Command;

/// Set in such a process.
const APART: &str = "REVEILLE_TEST_APART";

/// True in the process of its own, where the test goes on; false when that process has passed, or when `by`, the
/// command that starts it (such as `unshare --pid --fork`; empty: nothing but the process), says that it cannot, which
/// is reported as skipped. Locks are taken there, not by the caller, who waits for it.
///
/// ```no_run
/// # fn a_test() {
/// if reveille_alone::is_apart("module::a_test", &["unshare", "--net"]) {
///     // ...
/// }
/// # }
/// ```
///
/// # Panics
/// If that process failed, or has no test of this name, which begins with its modules.
pub fn is_apart(test: &str, by: &[&str]) -> bool {
    if std::env::var_os(APART).is_some() {
        return true;
    }
    if let Err(why) = run(test, by) {
        println!("skipped: {test}: {why}");
    }
    false
}

/// Why `by` cannot start the process.
fn run(test: &str, by: &[&str]) -> Result<(), String> {
    let program = std::env::current_exe().unwrap();
    let mut words = by.iter().map(AsRef::as_ref).chain([program.as_os_str()]);
    let done = Command::new(words.next().unwrap())
        .args(words)
        .args([test, "--exact", "--nocapture"])
        .env(APART, "")
        .output();
    let done = done.map_err(|error| format!("{by:?}: {error}"))?;
    let said = String::from_utf8_lossy(&done.stdout);
    let complaints = String::from_utf8_lossy(&done.stderr);
    let itself = by.first().map(|by| format!("{by}:"));
    if itself.is_some_and(|by| complaints.starts_with(&by)) {
        return Err(complaints.into_owned());
    }
    for line in said.lines().filter(|line| line.contains("skipped")) {
        println!("{line}");
    }
    assert!(done.status.success(), "{said}{complaints}");
    assert!(said.contains("1 passed"), "no test {test}: {said}");
    Ok(())
}

/// As [`is_apart`], in a mount namespace in which tracefs is mounted, if it may be: in a fresh checkout nobody has.
pub fn is_apart_with_tracefs(test: &str) -> bool {
    let mounted = "mount -t tracefs tracefs /sys/kernel/tracing; exec \"$0\" \"$@\"";
    is_apart(test, &["unshare", "--mount", "sh", "-c", mounted])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_apart_runs_in_another_process_which_must_run_it_and_pass() {
        const TEST: &str =
            "apart::tests::a_test_apart_runs_in_another_process_which_must_run_it_and_pass";
        if is_apart(TEST, &["env", "OF_THE_CALLER=no"]) {
            assert_eq!(std::env::var("OF_THE_CALLER").as_deref(), Ok("no"));
            return;
        }
        assert!(std::panic::catch_unwind(|| is_apart(TEST, &["false"])).is_err());
        assert!(std::panic::catch_unwind(|| is_apart("no_such_test", &[])).is_err());
        // What starts it cannot: no failure.
        assert!(run(TEST, &["unshare", "--no-such-option"]).is_err());
        assert!(run(TEST, &["/no/such/program"]).is_err());
    }
}
