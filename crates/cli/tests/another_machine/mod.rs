//! `--host`, with an sshd of the test's own for another machine.

mod machine;

use std::fs;
use std::path::Path;
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use crate::program::{Ended, run};
use machine::Machine;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use reveille_alone::{Held, Part, Use, take_to_change};

/// What the far side takes to leave nothing, at most.
const CLEAN: Duration = Duration::from_secs(10);

/// Runs limit states, and the tests look at all settings.
fn alone() -> Option<Held> {
    take_to_change(&[Use::Alone(Part::IdleStates)])
}

fn printed(command: &mut Command) -> (Ended, String) {
    let output = command.output().unwrap();
    let ended = Ended {
        code: output.status.code().unwrap_or(-1),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    };
    (ended, String::from_utf8_lossy(&output.stdout).into_owned())
}

fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// The idle settings of this machine, which is the other one, too.
fn settings() -> Vec<(String, String)> {
    let mut settings = Vec::new();
    for cpu in fs::read_dir("/sys/devices/system/cpu").unwrap().flatten() {
        let states = fs::read_dir(cpu.path().join("cpuidle"))
            .into_iter()
            .flatten()
            .flatten();
        let disabled = states.map(|state| state.path().join("disable"));
        let bound = cpu.path().join("power/pm_qos_resume_latency_us");
        for path in disabled.chain([bound]) {
            if let Ok(value) = fs::read_to_string(&path) {
                settings.push((path.display().to_string(), value));
            }
        }
    }
    settings.sort();
    settings
}

/// A run, which does not go on after its test has failed.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Running {
    fn start(command: &mut Command) -> Self {
        Self(command.spawn().unwrap())
    }
}

/// Until the run's limit is in force: what has to be undone.
fn wait_for_limit(before: &[(String, String)], state: Option<&str>) {
    let until = Instant::now() + Duration::from_secs(30);
    while state.is_some() && settings() == before {
        assert!(Instant::now() < until, "no limit comes into force");
        thread::sleep(Duration::from_millis(20));
    }
}

/// A state that a run may be limited to.
fn first_state() -> Option<String> {
    let name = fs::read_to_string("/sys/devices/system/cpu/cpu0/cpuidle/state0/name");
    name.ok().map(|name| name.trim().to_owned())
}

#[test]
fn states_and_doctor_of_another_machine_are_as_they_are_there() {
    let Some(machine) = Machine::new() else {
        return;
    };
    machine.has_reveille();
    for command in ["states", "doctor"] {
        let (here, _) = printed(machine.near().args([command, "--json"]));
        let (there, text) = printed(machine.near().args([command, "--json", "--host", "sut"]));
        assert_eq!((there.code, here.code), (0, 0), "{}", there.stderr);
        assert!(json(&text).is_object());
        let (both, text) =
            printed(
                machine
                    .near()
                    .args([command, "--json", "--host=sut", "--host", "other"]),
            );
        assert_eq!(both.code, 0, "{}", both.stderr);
        let hosts: Vec<_> = json(&text)
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["host"].clone())
            .collect();
        assert_eq!(hosts, ["sut", "other"]);
        let (both, text) = printed(
            machine
                .near()
                .args([command, "--host=sut", "--host", "other"]),
        );
        assert_eq!(both.code, 0, "{}", both.stderr);
        for host in ["sut", "other"] {
            assert!(
                text.contains(&format!("\nMachine  {host}: "))
                    || text.starts_with(&format!("Machine  {host}: ")),
                "{text}"
            );
        }
        machine.is_clean_within(CLEAN);
    }
}

#[test]
fn two_machines_are_measured_at_the_same_time() {
    let Some(_alone) = alone() else {
        return;
    };
    let Some(machine) = Machine::new() else {
        return;
    };
    machine.has_reveille();
    let before = settings();
    let arguments = [
        "measure",
        "--host",
        "sut",
        "--host",
        "other",
        "--duration",
        "4s",
        "--out",
        "out",
        "--cpu",
        "1",
    ];
    let (ended, text) = printed(machine.near().args(arguments));
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(text.contains("\nhost "), "{text}");
    let mut started = Vec::new();
    for host in ["sut", "other"] {
        let result = machine.path("out").join(host);
        let mut files: Vec<_> = fs::read_dir(&result)
            .unwrap()
            .map(|file| file.unwrap().file_name())
            .collect();
        files.sort();
        assert_eq!(
            files,
            ["datapoints.parquet", "report.html", "result.json"],
            "{host}"
        );
        let description = json(&fs::read_to_string(result.join("result.json")).unwrap());
        assert_eq!(description["name"], host);
        assert_eq!(description["ended"], "completed");
        // They are one machine, and disturb each other.
        let kept = description["counts"]["kept"].as_u64();
        assert!(kept > Some(0), "{description}");
        let text = description["started"].as_str().unwrap();
        started.push(humantime::parse_rfc3339(text).unwrap());
        let shown = run(machine.near().arg("show").arg(&result));
        assert_eq!(shown.code, 0, "{}", shown.stderr);
    }
    started.sort();
    let between = started[1].duration_since(started[0]).unwrap();
    assert!(
        between < Duration::from_secs(4),
        "one after the other: {started:?}"
    );
    machine.is_clean_within(CLEAN);
    assert_eq!(settings(), before);
    // The folder holds a result now.
    let (again, _) = printed(machine.near().args(arguments));
    assert_eq!(again.code, 2, "{}", again.stderr);
}

#[test]
fn top_and_trial_of_another_machine() {
    let Some(_alone) = alone() else {
        return;
    };
    let Some(machine) = Machine::new() else {
        return;
    };
    machine.has_reveille();
    let top = [
        "top", "--json", "--count", "2", "--host", "sut", "--host", "other",
    ];
    let (ended, text) = printed(machine.near().args(top));
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let hosts: Vec<_> = text
        .lines()
        .map(|line| json(line)["host"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(
        hosts.iter().filter(|host| *host == "sut").count(),
        2,
        "{hosts:?}"
    );
    assert_eq!(hosts.len(), 4);
    assert_eq!(run(machine.near().args(["top", "--host", "sut"])).code, 2);

    let trial = [
        "trial",
        "--host",
        "sut",
        "--echo",
        "self",
        "--rounds",
        "1",
        "--requests",
        "3",
        "--out",
        "out",
    ];
    let (ended, text) = printed(
        machine
            .near()
            .args(trial)
            .args(["--settings", "as-is,no-sleep"]),
    );
    if ended.code == 3 {
        return eprintln!("skipped: trial over ssh: {}", ended.stderr.trim());
    }
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(text.contains("Kept in   out; "), "{text}");
    assert_eq!(run(machine.near().args(["show", "out"])).code, 0);
    machine.is_clean_within(CLEAN);
}

#[test]
fn ctrl_c_ends_the_run_there_and_keeps_its_data() {
    let Some(_alone) = alone() else {
        return;
    };
    let Some(machine) = Machine::new() else {
        return;
    };
    machine.has_reveille();
    let before = settings();
    let arguments = [
        "measure",
        "--host",
        "sut",
        "--duration",
        "100s",
        "--out",
        "out",
        "--cpu",
        "1",
    ];
    let child = machine
        .near()
        .args(arguments)
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let partial = machine.path("out/datapoints.partial.csv");
    wait_for(&partial);
    kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    assert!(machine.path("out/datapoints.parquet").exists() && !partial.exists());
    assert!(
        String::from_utf8_lossy(&output.stdout).contains("interrupted"),
        "{output:?}"
    );
    machine.is_clean_within(CLEAN);
    assert_eq!(settings(), before);
}

fn wait_for(file: &Path) {
    let until = Instant::now() + Duration::from_secs(30);
    while fs::metadata(file).map_or(0, |file| file.len()) == 0 {
        assert!(Instant::now() < until, "{} does not come", file.display());
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_killed_near_side_and_a_silent_one_leave_nothing_there() {
    let Some(_alone) = alone() else {
        return;
    };
    let Some(machine) = Machine::new() else {
        return;
    };
    machine.has_reveille();
    let before = settings();
    let state = first_state();
    let limited = || state.iter().flat_map(|state| ["--state", state.as_str()]);
    let arguments = [
        "measure",
        "--host",
        "sut",
        "--duration",
        "100s",
        "--cpu",
        "1",
        "--out",
    ];
    let mut child = Running::start(machine.near().args(arguments).arg("killed").args(limited()));
    wait_for(&machine.path("killed/datapoints.partial.csv"));
    wait_for_limit(&before, state.as_deref());
    child.0.kill().unwrap();
    child.0.wait().unwrap();
    eprintln!("killed: clean after {:?}", machine.is_clean_within(CLEAN));
    assert_eq!(settings(), before);
    // What came is a result.
    let shown = run(machine.near().args(["show", "killed"]));
    assert_eq!(shown.code, 0, "{}", shown.stderr);

    // Nothing passes any more, and nobody is told.
    machine.limit(-1, 30_000, 30);
    let mut child = Running::start(machine.near().args(arguments).arg("silent").args(limited()));
    while machine.path("limits").exists() {
        thread::sleep(Duration::from_millis(20));
    }
    // The near side hears nothing for 6 s.
    assert_eq!(child.0.wait().unwrap().code(), Some(1));
    let shown = run(machine.near().args(["show", "silent"]));
    assert_eq!(shown.code, 0, "{}", shown.stderr);
    eprintln!(
        "silent: clean {:?} after the near side's end",
        machine.is_clean_within(CLEAN)
    );
    assert_eq!(settings(), before);
}

#[test]
fn a_new_connection_fetches_the_rest_of_a_lost_run() {
    let Some(_alone) = alone() else {
        return;
    };
    let Some(machine) = Machine::new() else {
        return;
    };
    machine.has_reveille();
    let before = settings();
    let mut command = machine.near();
    command.args(["measure", "--host", "sut", "--duration", "100s"]);
    command.args(["--cpu", "1", "--out", "out"]);
    let child = command
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let partial = machine.path("out/datapoints.partial.csv");
    wait_for(&partial);
    machine.cut();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("; a new one fetched the rest; what came is kept in out"),
        "{said}"
    );
    // The run there was ended, and described itself.
    assert!(machine.path("out/datapoints.parquet").exists() && !partial.exists());
    let description = json(&fs::read_to_string(machine.path("out/result.json")).unwrap());
    assert_eq!(description["ended"], "interrupted");
    eprintln!("fetched: clean after {:?}", machine.is_clean_within(CLEAN));
    assert_eq!(settings(), before);
}

#[test]
fn the_rounds_of_a_trial_are_here_before_its_end() {
    let Some(_alone) = alone() else {
        return;
    };
    let Some(machine) = Machine::new() else {
        return;
    };
    machine.has_reveille();
    let mut command = machine.near();
    command.args([
        "trial", "--host", "sut", "--echo", "self", "--rounds", "200",
    ]);
    command.args([
        "--requests",
        "3",
        "--settings",
        "as-is,no-sleep",
        "--out",
        "out",
    ]);
    let mut child = Running::start(&mut command);
    let kept = machine.path("out/trial.json");
    let until = Instant::now() + Duration::from_secs(30);
    while !kept.exists() {
        if child
            .0
            .try_wait()
            .unwrap()
            .is_some_and(|ended| ended.code() == Some(3))
        {
            return eprintln!("skipped: trial over ssh: this machine cannot");
        }
        assert!(Instant::now() < until, "no round comes");
        thread::sleep(Duration::from_millis(50));
    }
    child.0.kill().unwrap();
    child.0.wait().unwrap();
    let trial = json(&fs::read_to_string(kept).unwrap());
    assert_eq!(trial["ended"]["disturbed"], "the trial was cut off");
    let rounds = trial["rounds"].as_array().unwrap().len();
    assert!((1..400).contains(&rounds), "{rounds}");
    let (shown, text) = printed(machine.near().args(["show", "out"]));
    assert_eq!(shown.code, 0, "{}", shown.stderr);
    assert!(text.contains("the trial was cut off"), "{text}");
    machine.is_clean_within(CLEAN);
}

#[test]
fn a_silent_connection_leaves_nothing_while_the_program_is_carried() {
    let Some(machine) = Machine::new() else {
        return;
    };
    if !carries(&machine) {
        eprintln!("skipped: carrying the program over: no static program; run `make static`");
        return;
    }
    machine.limit(5_000_000, -1, 60);
    let mut command = machine.near();
    command.args(["states", "--host", "sut"]);
    let mut child = Running::start(command.stderr(std::process::Stdio::piped()));
    let until = Instant::now() + CLEAN;
    while fs::read_dir(machine.tmp()).unwrap().count() == 0 {
        assert!(Instant::now() < until, "nothing arrives");
        thread::sleep(Duration::from_millis(20));
    }
    eprintln!("silent: clean after {:?}", machine.is_clean_within(CLEAN));
    assert_eq!(child.0.wait().unwrap().code(), Some(1));
    let mut said = String::new();
    let mut stderr = child.0.stderr.take().unwrap();
    std::io::Read::read_to_string(&mut stderr, &mut said).unwrap();
    assert_eq!(
        said,
        "reveille: sut: the program does not arrive there: silent for 20 s\n"
    );
}

#[test]
fn a_killed_far_side_leaves_nothing() {
    let Some(_alone) = alone() else {
        return;
    };
    let Some(machine) = Machine::new() else {
        return;
    };
    machine.has_reveille();
    let before = settings();
    let state = first_state();
    let limited = || state.iter().flat_map(|state| ["--state", state.as_str()]);
    // The supervisor, and the command that it runs.
    for (place, of) in [" far ", " measure "].into_iter().enumerate() {
        let out = format!("out{place}");
        let arguments = [
            "measure",
            "--host",
            "sut",
            "--duration",
            "100s",
            "--cpu",
            "1",
            "--out",
        ];
        let mut child = Running::start(machine.near().args(arguments).arg(&out).args(limited()));
        wait_for(&machine.path(&out).join("datapoints.partial.csv"));
        wait_for_limit(&before, state.as_deref());
        let tmp = machine.tmp();
        let found = fs::read_dir("/proc").unwrap().flatten().find(|process| {
            let line = fs::read(process.path().join("cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            let cwd = fs::read_link(process.path().join("cwd")).unwrap_or_default();
            let is_far = of == " far " && line.contains(&format!(" far {}", tmp.display()));
            let is_command = of == " measure " && cwd.starts_with(&tmp);
            (is_far && !line.starts_with("sh ")) || is_command
        });
        let pid = found
            .unwrap()
            .file_name()
            .to_str()
            .unwrap()
            .parse()
            .unwrap();
        kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap();
        let code = child.0.wait().unwrap().code();
        assert!(matches!(code, Some(1 | 137)), "{of}: {code:?}");
        eprintln!(
            "killed{of}: clean after {:?}",
            machine.is_clean_within(CLEAN)
        );
        assert_eq!(settings(), before, "{of}");
    }
}

/// How many connections are cut: 30 take two minutes.
fn cuts() -> u64 {
    std::env::var("CUTS").map_or(8, |cuts| cuts.parse().unwrap())
}

#[test]
fn a_connection_may_be_lost_at_any_byte() {
    let Some(_alone) = alone() else {
        return;
    };
    let Some(machine) = Machine::new() else {
        return;
    };
    let before = settings();
    let state = first_state();
    let is_carried = carries(&machine);
    if !is_carried {
        eprintln!(
            "skipped: cuts while the program is carried over: no static program; run `make static`"
        );
    }
    let seed = fastrand::u64(..);
    let mut random = fastrand::Rng::with_seed(seed);
    eprintln!("seed {seed}");
    let (mut longest, mut kept) = (Duration::ZERO, 0);
    for cut in 0..cuts() {
        // The program is some 30 MB; what comes before it some kilobytes, and so does a run's begin.
        let (up, down) = match (cut < cuts() / 3, cut % 4) {
            (true, _) if is_carried => (random.i64(1..31_000_000), -1),
            (_, 0) => (random.i64(1..8_000), -1),
            _ => (-1, random.i64(1..60_000)),
        };
        if cut == cuts() / 3 || !is_carried {
            machine.has_reveille();
        }
        machine.limit(up, down, 0);
        let out = format!("cut{cut}");
        let mut command = machine.near();
        command.args([
            "measure",
            "--host",
            "sut",
            "--duration",
            "6s",
            "--cpu",
            "1",
            "--out",
            &out,
        ]);
        command.args(state.iter().flat_map(|state| ["--state", state.as_str()]));
        let ended = run(&mut command);
        assert!(
            [0, 1].contains(&ended.code),
            "{up} {down}: {}",
            ended.stderr
        );
        let clean = machine.is_clean_within(CLEAN);
        eprintln!(
            "cut after {up}, {down}: {}",
            ended.stderr.lines().last().unwrap_or("not reached")
        );
        longest = longest.max(clean);
        assert_eq!(settings(), before, "{up} {down}");
        if machine.path(&out).exists() {
            let shown = run(machine.near().args(["show", &out]));
            assert_eq!(shown.code, 0, "{up} {down}: {}", shown.stderr);
            kept += u32::from(ended.code == 1);
        }
    }
    eprintln!(
        "{} cuts: clean after {longest:?} at most; {kept} kept a partial result",
        cuts()
    );
}

/// Whether this program can be carried: it is static, or one is beside it.
fn carries(machine: &Machine) -> bool {
    let ended = run(machine.near().args(["states", "--host", "sut"]));
    machine.is_clean_within(CLEAN);
    ended.code == 0
}

fn refused(machine: &Machine, host: &str, code: i32, words: &str) {
    let (ended, text) =
        printed(
            machine
                .near()
                .args(["measure", &format!("--host={host}"), "--out", "refused"]),
        );
    assert_eq!(ended.code, code, "{}", ended.stderr);
    assert!(ended.stderr.contains(words), "{}", ended.stderr);
    assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
    assert_eq!(text, "");
    assert!(!machine.path("refused").exists());
    machine.is_clean_within(CLEAN);
}

#[test]
fn what_cannot_be_is_one_clear_line_and_changes_nothing() {
    let Some(machine) = Machine::new() else {
        return;
    };
    refused(
        &machine,
        "nowhere.invalid",
        1,
        "nowhere.invalid: Could not resolve hostname",
    );
    refused(
        &machine,
        "-oProxyCommand=touch refused",
        2,
        "does not begin with",
    );
    refused(&machine, "127.0.0.1:x y", 2, "no spaces");

    machine.has(
        "uname",
        "#!/bin/sh\n[ \"$1\" = -m ] && echo riscv64 || echo Linux\n",
    );
    refused(
        &machine,
        "sut",
        3,
        "sut: Linux on riscv64, and this program is for",
    );
    fs::remove_file(machine.path("far-bin/uname")).unwrap();

    machine.has_reveille();
    let keys = fs::read(machine.path("authorized_keys")).unwrap();
    fs::write(machine.path("authorized_keys"), "").unwrap();
    machine.sshd("PasswordAuthentication yes");
    refused(&machine, "sut", 1, "Permission denied (publickey,password)");
    fs::write(machine.path("authorized_keys"), keys).unwrap();
    machine.sshd("");

    let tmp = machine.tmp();
    fs::remove_dir(&tmp).unwrap();
    let (ended, _) = printed(machine.near().args(["states", "--host", "sut"]));
    fs::create_dir(&tmp).unwrap();
    assert_eq!(ended.code, 3, "{}", ended.stderr);
    assert!(
        ended.stderr.contains("sut: no folder can be made in "),
        "{}",
        ended.stderr
    );

    use nix::mount::{MntFlags, MsFlags, mount, umount2};
    for (flags, options, words) in [
        (MsFlags::empty(), "size=1m", " has no space for "),
        (MsFlags::MS_NOEXEC, "size=90m", " does not let programs run"),
    ] {
        let mounted = mount(Some("tmpfs"), &tmp, Some("tmpfs"), flags, Some(options));
        if let Err(error) = mounted {
            eprintln!("skipped: a folder without space: {error}");
            continue;
        }
        let (ended, _) = printed(machine.near().args(["states", "--host", "sut"]));
        let left = fs::read_dir(&tmp).unwrap().count();
        umount2(&tmp, MntFlags::MNT_DETACH).unwrap();
        assert_eq!(ended.code, 3, "{}", ended.stderr);
        assert!(ended.stderr.contains(words), "{}", ended.stderr);
        assert_eq!((ended.stderr.lines().count(), left), (1, 0));
    }
}

#[test]
fn the_failure_of_one_machine_is_not_that_of_another() {
    let Some(machine) = Machine::new() else {
        return;
    };
    machine.has_reveille();
    let (ended, text) = printed(machine.near().args([
        "states",
        "--json",
        "--host",
        "nowhere.invalid",
        "--host",
        "sut",
    ]));
    assert_eq!(ended.code, 1, "{}", ended.stderr);
    assert!(
        ended.stderr.starts_with("reveille: nowhere.invalid: "),
        "{}",
        ended.stderr
    );
    let hosts = json(&text);
    assert_eq!(
        (hosts.as_array().unwrap().len(), &hosts[0]["host"]),
        (1, &"sut".into())
    );
    let (ended, _) = printed(
        machine
            .near()
            .args(["measure", "--host", "sut", "--state", "NONE"]),
    );
    assert_eq!(ended.code, 2, "{}", ended.stderr);
    assert!(
        ended.stderr.starts_with("reveille: sut: "),
        "{}",
        ended.stderr
    );
    machine.is_clean_within(CLEAN);
}

/// An ssh whose host `liar` says that it has this program, and then this.
fn liar(machine: &Machine, says: &str) {
    let ssh = fs::read_to_string(machine.path("bin/ssh")).unwrap();
    let ssh = ssh.lines().last().unwrap();
    let program = env!("CARGO_BIN_EXE_reveille");
    let script = format!(
        "#!/bin/sh\ncase \"$*\" in *liar*) ;; *) {ssh} ;; esac\nhash=$(sha256sum {program})\n\
         echo reveille-far machine Linux {} ${{hash%% *}}\nread size\n\
         echo reveille-far ready /tmp\nread order\n{says}\n",
        std::env::consts::ARCH
    );
    machine.script("bin/ssh", &script);
}

#[test]
fn a_machine_with_an_invalid_answer_hides_no_other() {
    let Some(machine) = Machine::new() else {
        return;
    };
    machine.has_reveille();
    // Its output `{"x":`, and its end with exit code 0.
    liar(
        &machine,
        r#"printf '\001\000\000\000\005{"x":\011\000\000\000\001\000'"#,
    );
    for command in ["states", "doctor"] {
        for json in [&[][..], &["--json"]] {
            let mut both = machine.near();
            both.arg(command).args(json);
            let (ended, text) = printed(both.args(["--host", "liar", "--host", "sut"]));
            assert_eq!(ended.code, 1, "{}", ended.stderr);
            assert!(
                ended
                    .stderr
                    .starts_with("reveille: liar: its answer is invalid: "),
                "{}",
                ended.stderr
            );
            assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
            assert!(text.contains("sut"), "{text}");
        }
    }
    liar(&machine, "printf 'rubbish of a hundred bytes'");
    let (ended, text) = printed(machine.near().args(["states", "--host", "liar"]));
    assert_eq!(
        (ended.code, ended.stderr.as_str(), text.as_str()),
        (
            1,
            "reveille: liar: what comes from there is not of reveille\n",
            ""
        )
    );
}

#[test]
fn a_reader_may_pause_the_stream_of_other_machines_and_may_leave_it() {
    use std::io::Read;
    use std::process::Stdio;
    let Some(machine) = Machine::new() else {
        return;
    };
    machine.has_reveille();
    let mut command = machine.near();
    command.args(["top", "--json", "--interval", "100ms"]);
    command.args(["--host", "sut", "--host", "other"]);
    let mut child = Running::start(command.stdout(Stdio::piped()).stderr(Stdio::piped()));
    let mut out = child.0.stdout.take().unwrap();
    out.read_exact(&mut [0]).unwrap();
    // Longer than it takes to fill what is between, and to lose a silent side.
    thread::sleep(Duration::from_secs(20));
    out.read_exact(&mut vec![0; 1 << 20]).unwrap();
    assert_eq!(child.0.try_wait().unwrap(), None);
    drop(out);
    let code = child.0.wait().unwrap().code();
    let mut said = String::new();
    let mut stderr = child.0.stderr.take().unwrap();
    stderr.read_to_string(&mut said).unwrap();
    assert_eq!((code, said.as_str()), (Some(0), ""));
    machine.is_clean_within(CLEAN);
}
