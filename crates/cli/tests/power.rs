//! `reveille power` with made-up meters: what it lists and records.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant, SystemTime};

use crate::meter::{self, made_up};
use crate::program::reveille;
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
pub fn power(words: &str, meter: &str) -> Command {
    let mut command = reveille();
    command
        .arg("power")
        .args(words.split(' '))
        .args(["--meter", meter]);
    command
}

pub fn json(output: &Output) -> Value {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_meter_in_the_network_is_watched() {
    let name = made_up(Duration::from_millis(20), || 40.0);
    let meters = json(&power("meters --json --time 1s", &name).output().unwrap());
    let one = &meters["meters"][0];
    assert_eq!(
        (&one["name"], &one["scope"]),
        (&Value::from(&*name), &Value::from("wall"))
    );
    let refresh_s = one["refresh_s"].as_f64().unwrap();
    assert!((0.015..0.1).contains(&refresh_s), "{one}");
    assert!(
        (36.0..44.0).contains(&one["power_w"].as_f64().unwrap()),
        "{one}"
    );
}

#[test]
fn what_is_no_meter_gets_one_line_and_an_exit_code() {
    for (name, code, why) in [
        ("shelly:127.0.0.1:1", 1, "127.0.0.1:1"),
        ("nonsense", 3, "no such meter here"),
        ("snmp:localhost", 2, "no OID"),
        ("shelly:localhost,volts", 2, "only `energy`"),
    ] {
        let output = power("meters", name).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        let has_meters = name == "nonsense" && output.status.code() == Some(2);
        assert!(
            output.status.code() == Some(code) || has_meters,
            "{name}: {errors}"
        );
        assert!(
            errors.contains(why) && errors.lines().count() == 1,
            "{name}: {errors}"
        );
    }
}

#[test]
fn one_meter_that_does_not_answer_leaves_the_others_in_the_list() {
    let name = meter::made_up(Duration::from_millis(20), || 40.0);
    let mut command = power("meters --time 1s --json", "shelly:127.0.0.1:1");
    let output = command.args(["--meter", &name]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let listed: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(listed["meters"][0]["name"], name);
    let why = listed["missing"][0].as_str().unwrap();
    assert!(why.contains("127.0.0.1:1"), "{why}");
}

/// The time and the power of each line.
fn samples(csv: &str) -> Vec<(f64, f64)> {
    let mut lines = csv.lines();
    assert_eq!(lines.next(), Some("time,power_w"), "{csv}");
    let sample = |line: &str| {
        let (time, watts) = line.split_once(',').unwrap();
        let time = humantime::parse_rfc3339(time).unwrap();
        let time = time.duration_since(SystemTime::UNIX_EPOCH).unwrap();
        (time.as_secs_f64(), watts.parse().unwrap())
    };
    lines.map(sample).collect()
}

#[test]
fn what_a_meter_records_has_the_power_and_its_time() {
    let name = made_up(Duration::from_millis(20), || 40.0);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("meter.csv");
    let began = SystemTime::now();
    let began_s = began
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap()
        .as_secs_f64();
    let record = || {
        let mut command = power("record --interval 50ms --duration 3s", &name);
        command.arg("--out").arg(&file).output().unwrap()
    };
    let output = record();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    assert!(
        errors.contains("samples, asked for every 0.050 s, "),
        "{errors}"
    );
    let samples = samples(&fs::read_to_string(&file).unwrap());
    // Beside other load fewer are read, and later.
    assert!((10..=61).contains(&samples.len()), "{samples:?}");
    // It is watched for 3 s before.
    let after_s = samples[0].0 - began_s;
    assert!((3.0..60.0).contains(&after_s), "{after_s}");
    // One that comes late is off; half are not.
    let mut watts: Vec<f64> = samples.iter().map(|(_, watts)| *watts).collect();
    watts.sort_by(f64::total_cmp);
    let median_w = watts[watts.len() / 2];
    assert!((median_w / 40.0 - 1.0).abs() < 0.02, "{median_w}");
    let kept = fs::read(&file).unwrap();
    let output = record();
    assert_eq!(output.status.code(), Some(2), "it is there already");
    assert_eq!(fs::read(&file).unwrap(), kept);
    let errors = power("record --interval 5ms", &name)
        .output()
        .unwrap()
        .stderr;
    let errors = String::from_utf8_lossy(&errors);
    assert!(errors.contains("has a new value only every"), "{errors}");
}

#[test]
fn a_record_leaves_nothing_behind_and_its_reader_may_leave() {
    let name = made_up(Duration::from_millis(20), || 40.0);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("meter.csv");
    let mut child = power("record", &name)
        .arg("--out")
        .arg(&file)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // It is still being watched.
    std::thread::sleep(Duration::from_secs(2));
    kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(!file.exists(), "without a sample");

    let mut child = power("record", &name)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut first)
        .unwrap();
    assert_eq!(first, "time,power_w\n");
    let output = child.wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    assert!(!errors.contains("roken pipe"), "{errors}");
}

#[test]
fn a_full_disk_ends_a_record_with_whole_lines() {
    let name = made_up(Duration::from_millis(20), || 40.0);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("meter.csv");
    // 5 bytes: not even the first line.
    for (room, samples_kept) in [(500, true), (5, false)] {
        let mut record = power("record --interval 50ms", &name);
        record.arg("--out").arg(&file);
        let limit = move || Ok(setrlimit(Resource::RLIMIT_FSIZE, room, room)?);
        // SAFETY: between fork and exec only setrlimit(2) is called.
        let output = unsafe { record.pre_exec(limit) }.output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{errors}");
        assert!(errors.contains("meter.csv: File too large"), "{errors}");
        assert_eq!(file.exists(), samples_kept);
        if samples_kept {
            let text = fs::read_to_string(&file).unwrap();
            let kept = samples(&text).len();
            assert!(text.ends_with('\n') && kept > 5, "{text}");
            assert!(errors.contains(&format!("{kept} samples kept")), "{errors}");
            fs::remove_file(&file).unwrap();
        }
    }
}

/// A log with the wall clock of now, of a machine that sleeps for three seconds, and a meter that knows that.
#[test]
fn resume_finds_a_sleep_in_what_was_recorded() {
    let sleep = [5.0, 8.0];
    let began = Instant::now();
    let wall = SystemTime::now();
    let name = made_up(Duration::from_millis(20), move || {
        let s = began.elapsed().as_secs_f64();
        if (sleep[0]..sleep[1]).contains(&s) {
            2.0
        } else {
            40.0
        }
    });
    let folder = tempfile::tempdir().unwrap();
    let meter = folder.path().join("meter.csv");
    let file = fs::File::create(&meter).unwrap();
    let mut record = power("record --interval 50ms --duration 6s", &name);
    assert!(
        record
            .stdout(file)
            .stderr(Stdio::null())
            .status()
            .unwrap()
            .success()
    );
    let log = folder.path().join("syslog");
    let line = |s: f64, text: &str| {
        let at = humantime::format_rfc3339_micros(wall + Duration::from_secs_f64(s));
        let at = at.to_string().replace('Z', "+00:00");
        format!(
            "{at} box kernel: [  {:.6}] {text}\n",
            100.0 + s.min(sleep[0]) + (s - sleep[1]).max(0.0)
        )
    };
    let lines = [
        line(sleep[0] - 0.3, "PM: suspend entry (deep)"),
        line(
            sleep[0] - 0.2,
            "printk: Suspending console(s) (use no_console_suspend to debug)",
        ),
        line(sleep[0] - 0.1, "PM: suspend devices took 0.100 seconds"),
        line(
            sleep[0],
            "ACPI: PM: Preparing to enter system sleep state S3",
        ),
        line(sleep[1], "ACPI: PM: Low-level resume complete"),
        line(sleep[1] + 0.2, "PM: resume devices took 0.200 seconds"),
        line(sleep[1] + 0.3, "PM: suspend exit"),
    ];
    fs::write(&log, lines.concat()).unwrap();
    let mut analyze = reveille();
    analyze
        .args(["resume", "analyze", "--json", "--power"])
        .arg(&meter)
        .arg(&log);
    let power = &json(&analyze.output().unwrap())["machines"][0]["power"];
    assert_eq!(
        (&power["clock"], &power["laid_by"]),
        (&"utc".into(), &"wall_clock".into()),
        "{power}"
    );
    let asleep_w = power["asleep_w"].as_f64().unwrap();
    assert!((asleep_w / 2.0 - 1.0).abs() < 0.1, "{asleep_w}");
    let idle_w = power["idle_w"].as_f64().unwrap();
    assert!((idle_w / 40.0 - 1.0).abs() < 0.02, "{idle_w}");
}
