//! `reveille cost`, from the command line to the page.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::complains::complains;
use crate::elsewhere::elsewhere;
use crate::program::{as_nobody, in_a_pid_namespace, reveille, run};
use serde_json::Value;

#[test]
fn bad_input_gets_one_line() {
    for (arguments, words) in [
        (&["cost"][..], "--pid"),
        (
            &["cost", "--pid", "1", "--all-tasks"],
            "cannot be used with",
        ),
        (&["cost", "--pid", "99999999"], "no process 99999999"),
        (&["cost", "--cgroup", "no-such-group"], "no-such-group"),
        (
            &["cost", "--all-tasks", "--duration", "0"],
            "must be above zero",
        ),
        (&["cost", "--all-tasks", "--duration=-1s"], "--duration"),
        (
            &["cost", "--", "no-such-command-here"],
            "no such command in PATH",
        ),
    ] {
        complains(reveille().args(arguments), 2, words);
    }
    let folder = tempfile::tempdir().unwrap();
    let elsewhere = elsewhere(folder.path());
    let by = [
        "cost",
        "--all-tasks",
        "--duration",
        "1s",
        "--result",
        &elsewhere,
    ];
    complains(reveille().args(by), 2, "CPU 0 has other idle states");
}

#[test]
fn without_permission_it_names_the_remedy() {
    let Some((_folder, mut command)) = as_nobody() else {
        println!("skipped: without_permission_it_names_the_remedy: it takes root to leave root");
        return;
    };
    complains(
        command.args(["cost", "--all-tasks", "--duration", "1s"]),
        3,
        "root",
    );
}

#[test]
fn a_result_that_was_not_kept_is_not_reported_as_kept() {
    use nix::mount::{MntFlags, MsFlags, mount, umount2};
    if !nix::unistd::geteuid().is_root() {
        return println!("skipped: a_result_that_was_not_kept...: not root");
    }
    let disk = tempfile::tempdir().unwrap();
    let (flags, room) = (MsFlags::empty(), Some("size=64k"));
    if mount(Some("none"), disk.path(), Some("tmpfs"), flags, room).is_err() {
        return println!("skipped: a_result_that_was_not_kept...: no tmpfs");
    }
    std::fs::write(disk.path().join("mine"), vec![b'x'; 60 << 10]).unwrap();
    // A full disk: a page remains, and it is in the folder.
    std::fs::create_dir(disk.path().join("folder")).unwrap();
    let _ = std::fs::write(disk.path().join("rest"), vec![b'x'; 64 << 10]);
    let mut command = reveille();
    command.args(["cost", "--all-tasks", "--duration", "300ms", "--out"]);
    let output = command.arg(disk.path().join("folder")).output();
    umount2(disk.path(), MntFlags::MNT_DETACH).unwrap();
    let output = output.unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(3) {
        return println!("skipped: a_result_that_was_not_kept...: {errors}");
    }
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.contains("No space left"), "{errors}");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        said.contains("Wake-ups ") && !said.contains("Kept in"),
        "{said}"
    );
}

#[test]
fn a_workload_that_is_never_woken_is_reported_with_exit_code_1() {
    if !nix::unistd::geteuid().is_root() {
        return println!("skipped: a_workload_that_is_never_woken_is_reported...: not root");
    }
    let mut asleep = Command::new("sleep").arg("1000").spawn().unwrap();
    std::thread::sleep(Duration::from_millis(300));
    let pid = asleep.id().to_string();
    let ended = run(reveille().args(["cost", "--pid", &pid, "--duration", "300ms"]));
    asleep.kill().unwrap();
    asleep.wait().unwrap();
    if ended.code == 3 {
        return println!(
            "skipped: a_workload_that_is_never_woken_is_reported...: {}",
            ended.stderr
        );
    }
    assert_eq!(ended.code, 1, "{}", ended.stderr);
    assert!(
        ended.stderr.contains("no wake-up was seen"),
        "{}",
        ended.stderr
    );
}

/// This test's own cgroup, with a process in it that sleeps and wakes; both end with it.
struct Group {
    folder: PathBuf,
    process: Child,
}

impl Group {
    /// `None`, with a message, if there is no cgroup2 or it is not writable.
    fn new(test: &str) -> Option<Self> {
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
        let mut fields = mounts
            .lines()
            .map(|line| line.split(' ').collect::<Vec<_>>());
        let Some(mount) = fields.find(|fields| fields[2] == "cgroup2") else {
            println!("skipped: {test}: no cgroup2 is mounted");
            return None;
        };
        let name = format!("reveille-test-{}", std::process::id());
        let folder = PathBuf::from(mount[1]).join(name);
        if let Err(error) = std::fs::create_dir(&folder) {
            println!("skipped: {test}: {}: {error}", folder.display());
            return None;
        }
        let process = Command::new("sh")
            .args(["-c", "while :; do sleep 0.005; done"])
            .spawn()
            .unwrap();
        let group = Self { folder, process };
        let member = group.process.id().to_string();
        std::fs::write(group.folder.join("cgroup.procs"), member).unwrap();
        Some(group)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        // The shell's `sleep` ends by itself; until then the group is busy.
        let end = Instant::now() + Duration::from_secs(10);
        while std::fs::remove_dir(&self.folder).is_err() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

#[test]
fn a_cgroups_cost_is_that_of_its_own_tasks() {
    const TEST: &str = "a_cgroups_cost_is_that_of_its_own_tasks";
    let Some(group) = Group::new(TEST) else {
        return;
    };
    // A thread that does the same outside of the group is not to be counted.
    let over = Arc::new(AtomicBool::new(false));
    let until = over.clone();
    let outside = std::thread::spawn(move || {
        while !until.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(5));
        }
    });
    let output = reveille()
        .args(["cost", "--duration", "2s", "--json", "--cgroup"])
        .arg(&group.folder)
        .output();
    over.store(true, Ordering::Relaxed);
    outside.join().unwrap();
    let output = output.unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(3) {
        println!("skipped: {TEST}: {}", stderr.trim());
        return;
    }
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    let cost: Value = serde_json::from_slice(&output.stdout).unwrap();
    let wakees: Vec<&str> = cost["by_pair"]
        .as_array()
        .unwrap()
        .iter()
        .map(|pair| pair["wakee"].as_str().unwrap())
        .collect();
    assert!(
        wakees.contains(&"sh") && wakees.contains(&"sleep"),
        "{cost}"
    );
    assert!(
        wakees.iter().all(|name| ["sh", "sleep"].contains(name)),
        "{cost}"
    );
}

#[test]
fn a_commands_cost_is_kept_and_becomes_a_page_and_its_exit_code_is_passed_on() {
    const TEST: &str = "a_commands_cost_is_kept";
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("cost");
    let ended = run(reveille()
        .args(["cost", "--out"])
        .arg(&out)
        .args(["--", "sh", "-c"])
        .arg("for i in 1 2 3 4 5 6 7 8 9 10; do sleep 0.005; done; exit 7")
        .arg(OsStr::from_bytes(b"not UTF-8: \xe9")));
    if ended.code == 3 {
        println!("skipped: {TEST}: {}", ended.stderr.trim());
        return;
    }
    assert_eq!(ended.code, 7, "{}", ended.stderr);
    let words: Vec<&str> = ended.stderr.split_whitespace().collect();
    let makes = format!("`reveille report {}` makes a page", out.display());
    assert!(words.join(" ").contains(&makes), "{}", ended.stderr);
    let kept = std::fs::read_to_string(out.join("cost.json")).unwrap();
    let kept: Value = serde_json::from_str(&kept).unwrap();
    assert_eq!(kept["schema_version"], 1);
    let page = run(reveille().arg("report").arg(&out));
    assert_eq!(page.code, 0, "{}", page.stderr);
    let page = std::fs::read_to_string(out.join("report.html")).unwrap();
    assert!(reveille_show::page::is_page(&page[..page.len().min(4096)]));
    complains(
        reveille()
            .args(["cost", "--out"])
            .arg(&out)
            .args(["--", "true"]),
        2,
        "already",
    );
}

/// All wake-ups of processes of that name.
fn wakeups(cost: &Value, name: &str) -> u64 {
    let pairs = cost["by_pair"].as_array().unwrap().iter();
    let of_name = pairs.filter(|pair| pair["wakee"] == name);
    of_name.map(|pair| pair["wakeups"].as_u64().unwrap()).sum()
}

#[test]
fn in_a_pid_namespace_only_the_named_command_or_process_is_followed() {
    const TEST: &str = "in a PID namespace";
    // Outside of the namespace: a foreign process with another number inside, if any.
    let mut stranger = Command::new("sh")
        .args(["-c", "while :; do sleep 0.005; done"])
        .spawn()
        .unwrap();
    let outputs = [
        "$REVEILLE cost --json -- env -i sh -c 'for i in 1 2 3 4 5 6 7 8 9 10; do sleep 0.02; done'",
        "sh -c 'while :; do sleep 0.02; done' & $REVEILLE cost --json --duration 1s --pid $!
         code=$?; kill $!; exit $code",
    ]
    .map(|script| in_a_pid_namespace(TEST, script));
    stranger.kill().unwrap();
    stranger.wait().unwrap();
    for output in outputs.into_iter().flatten() {
        let cost: Value = serde_json::from_slice(&output.stdout).unwrap();
        let slept = wakeups(&cost, "sleep");
        assert!(
            (8..=60).contains(&slept),
            "{slept} of some 10 or 50: {cost}"
        );
        // The number shown is the one in this namespace: among the first few.
        if let Some(thread) = cost["most_delayed_thread"].as_object() {
            assert!(thread["pid"].as_u64() < Some(1000), "{thread:?}");
        }
    }
}

#[test]
fn in_a_pid_namespace_functions_have_their_names() {
    const TEST: &str = "functions in a PID namespace";
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("cost");
    // Two processes that wake each other by a pipe, until after their memory maps are read.
    let script = format!(
        "$REVEILLE cost --stacks --out {} -- sh -c \
         'i=0; while [ $i -lt 100 ]; do echo a; sleep 0.02; i=$((i+1)); done | cat >/dev/null'",
        out.display()
    );
    if in_a_pid_namespace(TEST, &script).is_none() {
        return;
    }
    let stacks = std::fs::read_to_string(out.join("stacks.folded")).unwrap();
    let mut wakers = stacks.lines().filter(|line| line.contains(";wakes cat "));
    let waker = wakers.next().expect("the shell wakes cat");
    let of_user = waker.split(';').filter(|frame| !frame.ends_with("_[k]"));
    let addresses = of_user.filter(|frame| frame.starts_with("0x")).count();
    assert_eq!(addresses, 0, "{waker}");
}
