//! `reveille quiet` with cgroups and loops of the tests' own.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::program::{self, run, with_own_journal};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, geteuid};
use reveille_alone::{Held, Part, Use, take};
use reveille_kernel::{Idle, Root, requests};

/// Wake-ups, or how late something runs, are looked at.
fn measures() -> Held {
    take(&[Use::Beside(Part::IdleStates), Use::Alone(Part::Cpus)])
}

/// Its loops compute.
fn computes() -> Held {
    take(&[Use::Beside(Part::Cpus)])
}

/// The program, whose runs may be killed.
fn reveille() -> Command {
    with_own_journal(program::reveille())
}

/// Where cgroup2 is mounted; `None`, with a word, where it is not or the tests are not root.
fn cgroups(test: &str) -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let mut fields = mounts
        .lines()
        .map(|line| line.split(' ').collect::<Vec<_>>());
    let mount = fields.find(|fields| fields[2] == "cgroup2");
    let mount = mount.map(|fields| PathBuf::from(fields[1]));
    if mount.is_none() || !geteuid().is_root() {
        println!("skipped: {test}: no cgroup2 is mounted, or not root");
        return None;
    }
    mount
}

/// A cgroup that is removed with all that is in it.
struct Group {
    folder: PathBuf,
    tasks: Vec<Child>,
}

impl Group {
    fn new(mount: &Path, name: &str) -> Self {
        // Several tests have one of that name.
        static MADE: AtomicU32 = AtomicU32::new(0);
        let (id, number) = (std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        let folder = mount.join(format!("reveille-quiet-{name}-{id}-{number}"));
        fs::create_dir(&folder).unwrap();
        Self {
            folder,
            tasks: Vec::new(),
        }
    }

    fn name(&self) -> &str {
        self.folder.to_str().unwrap()
    }

    /// Starts a program in it, whose standard output is kept.
    fn start(&mut self, program: &str, arguments: &[&str]) -> &mut Child {
        let mut command = Command::new(program);
        command.args(arguments).stdout(Stdio::piped());
        let tasks = self.folder.join("cgroup.procs");
        let enter = move || fs::write(&tasks, "0");
        // SAFETY: between fork and exec, in a child whose copy of the allocator nobody else uses.
        unsafe { command.pre_exec(enter) };
        self.tasks.push(command.spawn().unwrap());
        self.tasks.last_mut().unwrap()
    }

    /// Removes it with what is in it, and makes one of the same name.
    fn make_again(&mut self) {
        for task in &mut self.tasks {
            task.kill().unwrap();
            task.wait().unwrap();
        }
        self.tasks.clear();
        let end = Instant::now() + Duration::from_secs(10);
        while fs::remove_dir(&self.folder).is_err() {
            assert!(Instant::now() < end, "it cannot be removed");
            std::thread::sleep(Duration::from_millis(5));
        }
        fs::create_dir(&self.folder).unwrap();
    }

    fn await_frozen(&self) {
        let until = Instant::now() + Duration::from_secs(30);
        while !self.frozen() {
            assert!(Instant::now() < until, "it is never held");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// How often it is seen frozen, of a hundred times.
    fn seen_frozen(&self) -> usize {
        let seen = (0..100).map(|_| {
            std::thread::sleep(Duration::from_millis(15));
            self.frozen()
        });
        seen.filter(|frozen| *frozen).count()
    }

    /// Not by what may be in its place in PATH, and starts others before.
    fn python(&mut self, script: &str) -> &mut Child {
        let program = ["/usr/bin/python3", "python3"];
        let is_there = Path::new(program[0]).exists();
        self.start(program[usize::from(!is_there)], &["-c", script])
    }

    fn frozen(&self) -> bool {
        let set = fs::read_to_string(self.folder.join("cgroup.freeze")).unwrap();
        set.trim() == "1"
    }

    /// The timer slack of each of its threads.
    fn slack(&self) -> Vec<u64> {
        let threads = fs::read_to_string(self.folder.join("cgroup.threads")).unwrap();
        let slack = |thread: &str| {
            let slack = fs::read_to_string(format!("/proc/{thread}/timerslack_ns")).ok()?;
            slack.trim().parse().ok()
        };
        threads.lines().filter_map(slack).collect()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::write(self.folder.join("cgroup.freeze"), "0");
        let _ = fs::write(self.folder.join("cgroup.kill"), "1");
        for task in &mut self.tasks {
            let _ = task.kill();
            let _ = task.wait();
        }
        let end = Instant::now() + Duration::from_secs(5);
        while fs::remove_dir(&self.folder).is_err() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Loops of 80 to 120 ms; at its end, or when a line comes, it prints by how much the latest sleep was late, ms.
const LOOPS: &str = "
import threading, time, random, sys
worst = [0.0]
def loop():
    period = random.uniform(0.08, 0.12)
    while True:
        began = time.monotonic()
        time.sleep(period)
        worst[0] = max(worst[0], time.monotonic() - began - period)
for _ in range(50): threading.Thread(target=loop, daemon=True).start()
print('ready', flush=True)
time.sleep(3600)
";

fn line_of(child: &mut Child) -> BufReader<std::process::ChildStdout> {
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    lines
}

/// Wake-ups a second for this cgroup, by `quiet find`.
fn wakeups(group: &str) -> f64 {
    let output = reveille()
        .args(["quiet", "find", "--duration", "3s", "--json"])
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{errors}");
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let groups = found["groups"].as_array().unwrap().iter();
    let ours = groups.filter(|one| {
        one["cgroup"]
            .as_str()
            .is_some_and(|name| group.ends_with(name))
    });
    ours.map(|one| one["wakeups_per_s"].as_f64().unwrap()).sum()
}

/// A run that ends with its test, whatever comes of it.
struct Run(Option<Child>);

impl Run {
    fn id(&self) -> u32 {
        self.0.as_ref().unwrap().id()
    }

    fn kill(mut self) {
        let mut child = self.0.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            // Not by kill -9: it undoes what it has set.
            let _ = kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM);
            let _ = child.wait();
        }
    }
}

/// A run in the background, after its first line.
fn started(arguments: &[&str]) -> (Run, BufReader<std::process::ChildStdout>) {
    let mut child = reveille()
        .args(["quiet", "run"])
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    // Where it is broken depends on the words before.
    while !line.contains("Ctrl-C") {
        line.clear();
        assert!(lines.read_line(&mut line).unwrap() > 0, "it has ended");
    }
    (Run(Some(child)), lines)
}

fn end(mut run: Run) -> String {
    let child = run.0.take().unwrap();
    kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM).unwrap();
    let output = child.wait_with_output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{errors}");
    errors
}

#[test]
fn fifty_loops_wake_cpus_less_often_and_have_their_slack_back() {
    const TEST: &str = "fifty_loops_wake_cpus_less_often_and_have_their_slack_back";
    let _alone = measures();
    let Some(mount) = cgroups(TEST) else { return };
    let mut group = Group::new(&mount, "loops");
    line_of(group.python(LOOPS));
    let before = wakeups(group.name());
    if before < 150.0 {
        // Of some 500.
        return println!("skipped: {TEST}: CPUs are kept awake, and wake {before} times a second");
    }
    let (run, _lines) = started(&["--cgroup", group.name()]);
    // Fifty loops of some 100 ms wake 500 times a second.
    assert!(before < 650.0, "{before}");
    let raised = group.slack();
    assert!(
        raised.len() > 50
            && raised
                .iter()
                .all(|ns| (99_900_000..100_000_000).contains(ns)),
        "{raised:?}"
    );
    let during = wakeups(group.name());
    // Without effect it would be as often.
    assert!(during < 0.7 * before, "{during} of {before}");
    // Who is born meanwhile inherits it.
    group.start("sleep", &["3600"]);
    end(run);
    let after = group.slack();
    assert!(
        after.len() > 51 && after.iter().all(|ns| *ns == 50_000),
        "{after:?}"
    );
}

/// What it does to a workload is compared by trial, which also counts how long all CPUs sleep at once.
#[test]
fn a_trial_compares_it_with_the_machine_as_it_is() {
    const TEST: &str = "a_trial_compares_it_with_the_machine_as_it_is";
    let _alone = measures();
    let Some(mount) = cgroups(TEST) else { return };
    let mut group = Group::new(&mount, "compared");
    line_of(group.python(LOOPS));
    let setting = format!("quiet run --cgroup {}", group.name());
    let words = [
        "trial",
        "--echo",
        "self",
        "--settings",
        "as-is",
        "--setting",
        &setting,
    ];
    let turns = [
        "--rounds",
        "2",
        "--requests",
        "20",
        "--interval",
        "100ms",
        "--json",
    ];
    // What else runs in one setting's turns, and not in the other's, counts as its effect.
    for last in [false, false, true] {
        let output = reveille().args(words).args(turns).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{errors}");
        let trial: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let value =
            |setting: usize, figure: &str| trial["settings"][setting]["observed"][figure].as_f64();
        let observed = |setting, figure| {
            value(setting, figure).unwrap_or_else(|| panic!("{figure} of {setting}: {trial}"))
        };
        for setting in [0, 1] {
            assert!((0.0..=100.0).contains(&observed(setting, "joint_percent")));
        }
        assert!(group.slack().iter().all(|ns| *ns == 50_000));
        if !requests::honoured(&Idle::read(&Root::default()).unwrap()) {
            return println!("skipped: {TEST}: without cpuidle nothing counts wake-ups");
        }
        let never_asleep = |setting| value(setting, "joint_mean_ns").is_none();
        if observed(0, "wakeups_per_s") < 150.0 || never_asleep(0) || never_asleep(1) {
            return println!("skipped: {TEST}: CPUs are kept awake");
        }
        let fewer = observed(1, "wakeups_per_s") < 0.7 * observed(0, "wakeups_per_s");
        let longer = observed(1, "joint_mean_ns") > observed(0, "joint_mean_ns");
        if fewer && longer {
            break;
        }
        assert!(!last, "{trial}");
    }
    // One that cannot be is said before anything is measured.
    let wrong = [
        "trial",
        "--echo",
        "self",
        "--setting",
        "quiet run --cgroup nosuch",
    ];
    let ended = run(reveille().args(wrong));
    assert_ne!(ended.code, 0);
    assert!(ended.stderr.contains("--cgroup: no "), "{}", ended.stderr);
}

#[test]
fn no_loop_is_later_than_its_bound() {
    const TEST: &str = "no_loop_is_later_than_its_bound";
    let _alone = measures();
    let Some(mount) = cgroups(TEST) else { return };
    let mut group = Group::new(&mount, "late");
    let script = LOOPS.replace(
        "time.sleep(3600)",
        "time.sleep(1); worst[0] = 0; time.sleep(4); print(worst[0], flush=True)",
    );
    let mut lines = line_of(group.python(&script));
    let (run, _lines) = started(&["--cgroup", group.name(), "--within", "50ms"]);
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    end(run);
    let worst_ms = 1e3 * line.trim().parse::<f64>().unwrap();
    // They wait on purpose, and, on a busy machine, for their CPU and for Python's lock.
    assert!((25.0..50.0 + 100.0).contains(&worst_ms), "{worst_ms}");
}

#[test]
fn after_kill_9_slack_and_frozen_cgroups_are_as_before() {
    const TEST: &str = "after_kill_9_slack_and_frozen_cgroups_are_as_before";
    let _alone = computes();
    let Some(mount) = cgroups(TEST) else { return };
    let [mut sleeper, mut burner, mut front] =
        ["sleeper", "burner", "front"].map(|name| Group::new(&mount, name));
    sleeper.start("sleep", &["3600"]);
    burner.python("while True: pass");
    front.start("sleep", &["3600"]);
    let names = [sleeper.name(), burner.name(), front.name()].map(str::to_owned);
    let [slept, burnt, foreground] = names.each_ref().map(String::as_str);
    // It is held once it has run as long as it may be held.
    let words = [
        "--cgroup",
        slept,
        "--freeze",
        burnt,
        "--foreground",
        foreground,
        "--within",
        "200ms",
    ];
    let (run, _lines) = started(&words);
    let until = Instant::now() + Duration::from_secs(30);
    while !burner.frozen() {
        assert!(Instant::now() < until, "it is never held");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(sleeper.slack().iter().all(|ns| *ns > 199_000_000));
    run.kill();
    // Who does not see cgroup2, as in a container, does not forget what is to be undone.
    let hidden = with_own_journal(Command::new("unshare"))
        .args(["--mount", "sh", "-c"])
        .args([
            "umount -a -t cgroup2 && exec \"$0\" restore",
            env!("CARGO_BIN_EXE_reveille"),
        ])
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&hidden.stderr);
    match errors.starts_with("umount") || errors.starts_with("unshare") {
        true => println!("skipped: {TEST}: without cgroup2: {errors}"),
        false => assert!(
            !hidden.status.success() && errors.contains("not visible here"),
            "{errors}"
        ),
    }
    assert!(reveille().arg("restore").output().unwrap().status.success());
    assert!(!burner.frozen());
    assert!(sleeper.slack().iter().all(|ns| *ns == 50_000));
}

/// As services are, at each restart.
#[test]
fn cgroups_that_are_made_again_are_followed() {
    const TEST: &str = "cgroups_that_are_made_again_are_followed";
    let _alone = computes();
    let Some(mount) = cgroups(TEST) else { return };
    let [mut burner, mut front] = ["burner", "front"].map(|name| Group::new(&mount, name));
    burner.python("while True: pass");
    front.start("sleep", &["3600"]);
    let names = [burner.name().to_owned(), front.name().to_owned()];
    let words = ["--freeze", &names[0], "--foreground", &names[1]];
    let (run, _lines) = started(&words);
    burner.await_frozen();
    burner.make_again();
    burner.python("while True: pass");
    burner.await_frozen();
    // A foreground without threads waits for nothing, and one that computes does not wait.
    front.make_again();
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(burner.seen_frozen(), 0);
    front.python("while True: pass");
    std::thread::sleep(Duration::from_millis(1300));
    assert_eq!(burner.seen_frozen(), 0);
    front.make_again();
    front.start("sleep", &["3600"]);
    burner.await_frozen();
    run.kill();
    assert!(reveille().arg("restore").output().unwrap().status.success());
    assert!(!burner.frozen());
}

/// It waits for the background when it is moved into the foreground.
#[test]
fn a_task_that_is_moved_into_the_foreground_is_seen_at_once() {
    const TEST: &str = "a_task_that_is_moved_into_the_foreground_is_seen_at_once";
    let _alone = computes();
    let Some(mount) = cgroups(TEST) else { return };
    let [mut burner, mut front, mut elsewhere] =
        ["burner", "front", "elsewhere"].map(|name| Group::new(&mount, name));
    burner.python("while True: pass");
    front.start("sleep", &["3600"]);
    // What it waits for is known of no other wait.
    let script =
        "import os\nreader, writer = os.pipe()\nprint('ready', flush=True)\nos.read(reader, 1)";
    let task = elsewhere.python(script);
    line_of(task);
    let task = task.id().to_string();
    let words = ["--freeze", burner.name(), "--foreground", front.name()];
    let (run, _lines) = started(&[&words[..], &["--within", "1s"]].concat());
    burner.await_frozen();
    fs::write(front.folder.join("cgroup.procs"), &task).unwrap();
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(burner.seen_frozen(), 0);
    end(run);
}

#[test]
fn a_cgroup_has_one_run_and_ctrl_z_stops_none() {
    const TEST: &str = "a_cgroup_has_one_run_and_ctrl_z_stops_none";
    let _alone = computes();
    let Some(mount) = cgroups(TEST) else { return };
    let [mut burner, mut front] = ["burner", "front"].map(|name| Group::new(&mount, name));
    burner.python("while True: pass");
    front.start("sleep", &["3600"]);
    let words = ["--freeze", burner.name(), "--foreground", front.name()];
    let (first, _lines) = started(&words);
    let ended = run(reveille().args(["quiet", "run"]).args(words));
    assert_eq!(ended.code, 3, "{}", ended.stderr);
    let whose = format!("process {} holds it already", first.id());
    assert!(ended.stderr.contains(&whose), "{}", ended.stderr);
    kill(Pid::from_raw(first.id() as i32), Signal::SIGTSTP).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    let stat = fs::read_to_string(format!("/proc/{}/stat", first.id())).unwrap();
    let state = stat.rsplit_once(") ").unwrap().1.chars().next();
    assert_ne!(state, Some('T'), "{stat}");
    end(first);
    assert!(!burner.frozen());
}

#[test]
fn what_computes_is_held_while_the_foreground_waits_and_for_its_limit_at_most() {
    const TEST: &str = "what_computes_is_held_while_the_foreground_waits_and_for_its_limit_at_most";
    let _alone = measures();
    let Some(mount) = cgroups(TEST) else { return };
    let [mut burner, mut front] = ["burner", "front"].map(|name| Group::new(&mount, name));
    burner.python("while True: pass");
    let script = "import time\nprint('ready', flush=True)\nwhile True: time.sleep(0.25)";
    line_of(front.python(script));
    let words = ["--freeze", burner.name(), "--foreground", front.name()];
    let (run, _lines) = started(&words);
    std::thread::sleep(Duration::from_secs(4));
    assert!(!burner.folder.join("nothing").exists());
    let said = end(run);
    assert!(!burner.frozen());
    // `held 19 times, 1.65 s in all, 100 ms at most; 7 times until the foreground ran`
    let words: Vec<&str> = said.lines().last().unwrap().split_whitespace().collect();
    let number = |place: usize| words[place].parse::<f64>().unwrap();
    assert!((10.0..=30.0).contains(&number(2)), "{said}");
    assert!(said.contains("ms at most"), "{said}");
    // A busy machine releases later.
    assert!(number(8) < 150.0, "{said}");
    assert!(!said.contains("; 0 times"), "{said}");
}

/// The foreground waits for a lock that the background has: held for its limit, that would take a minute.
#[test]
fn nothing_is_held_that_the_foreground_waits_for() {
    const TEST: &str = "nothing_is_held_that_the_foreground_waits_for";
    let _alone = computes();
    let Some(mount) = cgroups(TEST) else { return };
    let folder = tempfile::tempdir().unwrap();
    let lock = folder.path().join("lock");
    let lock = lock.to_str().unwrap();
    let [mut burner, mut front] = ["owner", "waiter"].map(|name| Group::new(&mount, name));
    // It has the lock for 3 s of its own time, after which it runs on.
    let owner = format!(
        "import fcntl, time\nf = open('{lock}', 'w'); fcntl.flock(f, fcntl.LOCK_EX); print('ready', flush=True)\n\
         while time.process_time() < 3: pass\n\
         f.close()\n\
         while True: pass"
    );
    line_of(burner.python(&owner));
    let waiter = format!(
        "import fcntl, time\nf = open('{lock}', 'w'); time.sleep(1.2)\n\
         fcntl.flock(f, fcntl.LOCK_EX); print('ready', flush=True); time.sleep(3600)"
    );
    let began = Instant::now();
    let task = front.python(&waiter);
    let stdout = task.stdout.take().unwrap();
    // Held from 0.5 s on, while the waiter sleeps.
    let words = [
        "--freeze",
        burner.name(),
        "--foreground",
        front.name(),
        "--within",
        "500ms",
    ];
    let (run, _lines) = started(&words);
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line).unwrap();
    let took = began.elapsed();
    let said = end(run);
    assert_eq!(line, "ready\n");
    // While it waits for the lock nothing is held: 3 s of work and what was held before.
    assert!(took < Duration::from_secs(12), "{took:?}: {said}");
    let times: u32 = said
        .lines()
        .last()
        .unwrap()
        .split_whitespace()
        .nth(2)
        .unwrap()
        .parse()
        .unwrap();
    assert!(times <= 2, "{said}");
}

#[test]
fn mistakes_get_one_line_and_change_nothing() {
    const TEST: &str = "mistakes_get_one_line_and_change_nothing";
    let Some(mount) = cgroups(TEST) else { return };
    let [outer, front] = ["outer", "front"].map(|name| Group::new(&mount, name));
    let inner = outer.folder.join("inner");
    fs::create_dir(&inner).unwrap();
    let [out, inn, foreground] = [outer.name(), inner.to_str().unwrap(), front.name()];
    let root = mount.to_str().unwrap();
    let outers = outer.folder.file_name().unwrap().to_str().unwrap();
    let roundabout = format!("{foreground}/../{outers}");
    for (words, code, why) in [
        (
            vec!["find", "--foreground", "nosuch"],
            2,
            "--foreground: no ",
        ),
        (vec!["find", "--within", "0s"], 2, "must be above zero"),
        (vec!["run"], 2, "--cgroup"),
        (vec!["run", "--cgroup", "nosuch"], 2, "--cgroup: no "),
        (
            vec!["run", "--cgroup", root],
            2,
            "every task that is in no other",
        ),
        (vec!["run", "--freeze", out], 2, "--foreground"),
        (
            vec!["run", "--freeze", out, "--foreground", inn],
            2,
            "one within the other",
        ),
        (
            vec!["run", "--freeze", inn, "--foreground", out],
            2,
            "one within the other",
        ),
        (
            vec!["run", "--freeze", &roundabout, "--foreground", inn],
            2,
            "one within the other",
        ),
        (vec!["run", "--cgroup", out, "--", "/nosuch"], 2, "/nosuch"),
    ] {
        let ended = run(reveille().arg("quiet").args(&words));
        assert_eq!(ended.code, code, "{words:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(why), "{words:?}: {}", ended.stderr);
    }
    // Someone else's.
    fs::write(outer.folder.join("cgroup.freeze"), "1").unwrap();
    let words = ["quiet", "run", "--freeze", out, "--foreground", foreground];
    let ended = run(reveille().args(words));
    assert_eq!(ended.code, 3, "{}", ended.stderr);
    assert!(
        ended.stderr.contains("is frozen already"),
        "{}",
        ended.stderr
    );
    assert!(outer.frozen());
    fs::remove_dir(&inner).unwrap();
}
