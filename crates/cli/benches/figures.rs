//! `make bench`: what the program promises, as ratios and counts within one run.
//!
//! Each figure stands beside what it is held against, measured in the same run or named in the
//! issue that asks for it; nothing here passes or fails, for machines are shared and noisy.

use std::fs;
use std::io::{self, Read, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::libc;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use serde_json::Value;

#[cfg(feature = "bpf")]
#[path = "figures/anticipating.rs"]
mod anticipating;
#[path = "figures/resume.rs"]
mod resume;
#[path = "figures/simulating.rs"]
mod simulating;

const REVEILLE: &str = env!("CARGO_BIN_EXE_reveille");

/// Those named on the command line, or all of them: `cargo bench --bench figures -- anticipating`.
fn main() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [first, path] = &words[..]
        && first == resume::READ_LOG
    {
        return resume::read_log(path);
    }
    let named: Vec<&String> = words.iter().filter(|word| !word.starts_with('-')).collect();
    let wanted = |name: &str| named.is_empty() || named.iter().any(|word| *word == name);
    println!("| what | figure | held against |");
    println!("|---|---|---|");
    let yardstick = Yardstick::measured();
    if wanted("measuring") {
        measuring(scratch.path(), &yardstick);
    }
    if wanted("watching") {
        watching();
    }
    if wanted("costs") {
        waking_costs(scratch.path(), &yardstick);
    }
    #[cfg(feature = "bpf")]
    if wanted("anticipating") {
        anticipating::anticipating(&yardstick);
    }
    if wanted("reporting") {
        reporting(scratch.path());
    }
    if wanted("resume") {
        resume::resume_logs(scratch.path());
    }
    if wanted("simulating") {
        simulating::simulating();
    }
}

fn row(what: &str, figure: String, against: impl AsRef<str>) {
    println!("| {what} | {figure} | {} |", against.as_ref());
}

/// What own costs are held against, for hosts differ by three times.
struct Yardstick {
    /// What the kernel counts for one run of a BPF program that does nothing; `None` where it counts
    /// none.
    nothing_ns: Option<f64>,
    /// From one thread's waking another on the same CPU to that one's waking the first.
    wakeup_ns: f64,
}

impl Yardstick {
    fn measured() -> Self {
        #[cfg(feature = "bpf")]
        let nothing_ns = reveille_kernel::bpf::Counting::start()
            .and_then(|counting| counting.of_nothing_ns().ok())
            .filter(|&ns| ns > 0)
            .map(|ns| ns as f64);
        #[cfg(not(feature = "bpf"))]
        let nothing_ns = None;
        Self {
            nothing_ns,
            wakeup_ns: ping_pong_ns(Duration::ZERO..Duration::from_secs(1)),
        }
    }

    /// So many times an empty program, and so much of a wake-up.
    fn of(&self, ns: f64) -> String {
        let runs = self.nothing_ns.map(|nothing_ns| {
            format!(
                "{:.1} times an empty program's {nothing_ns:.0} ns, ",
                ns / nothing_ns
            )
        });
        format!(
            "{}{:.2} of a wake-up on a busy CPU, {:.0} ns",
            runs.unwrap_or_default(),
            ns / self.wakeup_ns,
            self.wakeup_ns
        )
    }
}

// ---- measuring ----

fn measuring(scratch: &Path, yardstick: &Yardstick) {
    let run = |name: &str, flags: &[&str]| {
        let out = scratch.join(name);
        let command = Command::new(REVEILLE)
            .args(["measure", "--json", "--no-report", "--out"])
            .arg(&out)
            .args(flags)
            .stderr(Stdio::null())
            .output()
            .expect("reveille runs");
        serde_json::from_slice::<Value>(&command.stdout).ok()
    };
    let long = [
        "--probe",
        "bpf",
        "--source",
        "timer,remote",
        "--duration",
        "30s",
    ];
    let Some(result) = run("bpf", &long) else {
        println!("skipped: measuring needs root and BPF (`reveille doctor`)");
        return;
    };
    let counts = &result["counts"];
    let share = 100.0 * number(&counts["kept"]) / number(&counts["possible"]);
    row(
        "datapoints kept, of those that the launch distances allow",
        format!(
            "{share:.1}% ({} in {:.0} s)",
            counts["kept"],
            number(&counts["elapsed_s"])
        ),
        "95%",
    );
    let characterisation = &result["characterisation"];
    // One run alone does not tell: 271 to 1171 ns were seen in fifteen on one quiet machine.
    let short = ["--probe", "bpf", "--source", "timer", "--datapoints", "100"];
    let again = (1..RUNS).filter_map(|n| run(&format!("bpf-{n}"), &short));
    let again = again.map(|one| number(&one["characterisation"]["probe_cost_per_idle_ns"]));
    let costs = std::iter::once(number(&characterisation["probe_cost_per_idle_ns"])).chain(again);
    let (cost, of_runs) = over_runs(costs.collect());
    row(
        "probe at idle entry and exit together, bpf_stats",
        format!("{of_runs}: {}", yardstick.of(cost)),
        "600 ns",
    );
    for floor in characterisation["floors"].as_array().into_iter().flatten() {
        row(
            &format!(
                "floor, {}, CPU in state {}",
                text(&floor["source"]),
                text(&floor["state"])
            ),
            format!(
                "{} at the median, {} at p99",
                us(&floor["median_ns"]),
                us(&floor["p99_ns"])
            ),
            match floor["source"].as_str() {
                Some("remote") => "2 µs in the poll state",
                _ => "7.5 µs seen in the poll state of a virtual machine",
            },
        );
    }
    for state in result["statistics"].as_array().into_iter().flatten() {
        let latency = &state["wake_latency"];
        row(
            &format!(
                "{} woken by {}",
                text(&state["state"]),
                text(&state["source"])
            ),
            format!(
                "{} at the median, {} at most",
                us(&latency["median_ns"]),
                us(&latency["max_ns"])
            ),
            format!("{} datapoints", latency["count"]),
        );
    }
    let Some(user) = run("user", &["--probe", "user", "--duration", "10s"]) else {
        return;
    };
    for state in user["statistics"].as_array().into_iter().flatten() {
        let median = number(&state["wake_latency"]["median_ns"]);
        let bpf = &result["statistics"][0]["wake_latency"]["median_ns"];
        row(
            "the user probe's median over the BPF probe's",
            format!("{:.2}", median / number(bpf)),
            "above 1: scheduling is in it",
        );
    }
}

/// Of what one run alone does not tell.
const RUNS: usize = 9;

/// The median of what several runs gave, and in words with the least and the most, ns.
fn over_runs(mut costs: Vec<f64>) -> (f64, String) {
    costs.sort_by(f64::total_cmp);
    let (runs, least, most) = (costs.len(), costs[0], costs[costs.len() - 1]);
    let median = costs[runs / 2];
    let words = format!("{median:.0} ns, the median of {runs} runs ({least:.0} to {most:.0} ns)");
    (median, words)
}

// ---- watching ----

/// What `top` costs at a refresh of 1 s, over 20 s: by rusage, less what its start takes, and the
/// BPF programs by the kernel's account.
fn watching() {
    const REFRESHES: u32 = 20;
    let top = |refreshes: u32| {
        let mut top = Command::new(REVEILLE);
        top.args(["top", "--json", "--count", &refreshes.to_string()]);
        top
    };
    let Ok(told) = top(2).output() else { return };
    let refreshes = String::from_utf8_lossy(&told.stdout).into_owned();
    let last = refreshes.lines().last().unwrap_or_default();
    let told: Value = serde_json::from_str(last).unwrap_or_default();
    let Some(bpf) = told["own"]["bpf_percent"].as_f64().filter(|&bpf| bpf > 0.0) else {
        println!("skipped: watching needs root and BPF (`reveille doctor`)");
        return;
    };
    let (start, whole) = (timed(&mut top(1)), timed(&mut top(1 + REFRESHES)));
    let process = (whole.cpu_s - start.cpu_s) / f64::from(REFRESHES) * 100.0;
    let wakeups = (whole.sleeps - start.sleeps) as f64 / f64::from(REFRESHES);
    row(
        "top at a refresh of 1 s: process and BPF programs",
        format!(
            "{:.2}% of one CPU ({process:.2}% and {bpf:.2}%), with {:.0} wake-ups per second on \
             the machine",
            process + bpf,
            number(&told["machine"]["wakeups_per_s"])
        ),
        "0.5%",
    );
    row(
        "its own wake-ups",
        format!("{wakeups:.1} per second"),
        "its refresh and 2",
    );
}

// ---- what waking costs a workload ----

fn waking_costs(scratch: &Path, yardstick: &Yardstick) {
    let workload = "for i in $(seq 2000); do echo $i; sleep 0.0005; done | cat >/dev/null";
    let overhead = |run: usize| {
        let out = scratch.join(format!("cost-{run}"));
        let followed = Command::new(REVEILLE)
            .args(["cost", "--out"])
            .arg(&out)
            .args(["--", "sh", "-c", workload])
            .stderr(Stdio::null())
            .status();
        let kept = followed.ok().and(fs::read(out.join("cost.json")).ok())?;
        let result = serde_json::from_slice::<Value>(&kept).ok()?;
        Some(result["overhead"].clone())
    };
    let overheads: Vec<Value> = (0..RUNS).map_while(overhead).collect();
    let Some(overhead) = overheads.last() else {
        println!("skipped: following wake-ups needs root and BPF (`reveille doctor`)");
        return;
    };
    let costs = overheads.iter().map(|one| number(&one["per_wakeup_ns"]));
    let (cost, of_runs) = over_runs(costs.collect());
    row(
        "following a wake-up after a sleep, bpf_stats less an empty program's",
        format!(
            "{of_runs}: {} ({} wake-ups, {:.1} program runs each); {:.0} ns for a new task",
            yardstick.of(cost),
            overhead["counted_wakeups"],
            number(&overhead["runs_per_wakeup"]),
            number(&overhead["per_new_task_ns"]),
        ),
        "1 µs",
    );
    following_busy(&scratch.join("cost-busy"));
}

/// What following adds to a wake-up where no CPU sleeps, by the workload's own clock.
fn following_busy(out: &Path) {
    const TURNS: usize = 7;
    let (mut alone, mut followed) = (Vec::new(), Vec::new());
    let mut account = Vec::new();
    for turn in 0..TURNS {
        alone.push(ping_pong_ns(Duration::ZERO..Duration::from_secs(1)));
        let out = out.with_extension(turn.to_string());
        let follower = Command::new(REVEILLE)
            .args(["cost", "--duration", "3s", "--pid"])
            .arg(std::process::id().to_string())
            .arg("--out")
            .arg(&out)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        // From then on the programs run, and the kernel has counted for the first time.
        let settled = Duration::from_millis(1200);
        followed.push(ping_pong_ns(settled..Duration::from_secs(2)));
        if !follower
            .and_then(|mut child| child.wait())
            .is_ok_and(|status| status.success())
        {
            println!("skipped: following a busy pair: `reveille cost --pid` failed");
            return;
        }
        let kept = fs::read(out.join("cost.json")).unwrap_or_default();
        let result: Value = serde_json::from_slice(&kept).unwrap_or_default();
        account.push(number(&result["overhead"]["per_wakeup_ns"]));
    }
    let (alone, followed) = (median(alone), median(followed));
    row(
        "following a wake-up of a busy CPU, by the workload's clock",
        format!(
            "{:.0} ns on top of {alone:.0} ns ({:.0} ns by bpf_stats)",
            followed - alone,
            median(account)
        ),
        "1 µs",
    );
}

/// Two threads on CPU 0 wake each other until the end of `span`: the time from one waking to the
/// next, ns, the median of rounds within `span`.
fn ping_pong_ns(span: Range<Duration>) -> f64 {
    const ROUNDS: u32 = 5000;
    let (mut from_other, mut to_self) = io::pipe().expect("a pipe");
    let (mut from_self, mut to_other) = io::pipe().expect("a pipe");
    let on_cpu_0 = || {
        let mut set = CpuSet::new();
        set.set(0).expect("CPU 0 is a CPU");
        sched_setaffinity(Pid::from_raw(0), &set).expect("CPU 0 may be used");
    };
    let other = std::thread::spawn(move || {
        on_cpu_0();
        let mut byte = [0];
        while from_self.read_exact(&mut byte).is_ok() && to_self.write_all(&byte).is_ok() {}
    });
    let this = std::thread::spawn(move || {
        on_cpu_0();
        let mut byte = [0];
        let mut rounds = Vec::new();
        let start = Instant::now();
        while start.elapsed() < span.end {
            let began = Instant::now();
            for _ in 0..ROUNDS {
                to_other.write_all(&byte).expect("the other reads");
                from_other.read_exact(&mut byte).expect("the other writes");
            }
            if start.elapsed() > span.start {
                rounds.push(began.elapsed().as_nanos() as f64 / f64::from(2 * ROUNDS));
            }
        }
        median(rounds)
    });
    let took = this.join().expect("the pair runs");
    other.join().expect("the pair ends");
    took
}

// ---- reporting ----

fn reporting(scratch: &Path) {
    let csv = scratch.join("wult");
    let made = Command::new(env!("CARGO"))
        .args([
            "run",
            "--quiet",
            "--release",
            "--package",
            "reveille-results",
            "--example",
            "make_wult",
        ])
        .arg("--")
        .arg(&csv)
        .status();
    if !made.is_ok_and(|status| status.success()) {
        println!("skipped: reporting: the million datapoints could not be made");
        return;
    }
    let csv_size = largest_file(&csv);
    let page = scratch.join("report.html");
    let mut report = Command::new(REVEILLE);
    report.arg("report").arg(&csv).arg("--out").arg(&page);
    // The machine's own pace at the same file: every byte hashed once.
    let mut pass = Command::new("sha256sum");
    pass.arg(csv_file(&csv));
    let (mut reports, mut passes) = (Vec::new(), Vec::new());
    for _ in 0..5 {
        reports.push(timed(&mut report));
        passes.push(timed(&mut pass));
    }
    let seconds = |runs: &[Run]| median(runs.iter().map(|run| run.wall.as_secs_f64()).collect());
    let memory = reports.iter().map(|run| run.peak_kib).max().unwrap_or(0);
    let (report, pass) = (seconds(&reports), seconds(&passes));
    let size = format!("{:.0} MB", csv_size as f64 / 1e6);
    row(
        &format!("report on a million datapoints of wult's ({size})"),
        format!(
            "{report:.2} s, {:.1} times sha256sum of the file",
            report / pass
        ),
        "2 s; wult's own report: 34 s",
    );
    row(
        "its memory",
        format!("{} MiB", memory / 1024),
        "250 MiB; wult's own: 486 MiB",
    );
    let html = fs::metadata(&page).map_or(0, |meta| meta.len());
    row(
        "its page",
        format!("{:.2} MiB", html as f64 / 1048576.0),
        "6 MiB; wult's own: 81 MB",
    );
}

struct Run {
    wall: Duration,
    peak_kib: i64,
    cpu_s: f64,
    /// Voluntary context switches.
    sleeps: i64,
}

#[expect(
    clippy::zombie_processes,
    reason = "waited for by wait4, which tells its memory"
)]
fn timed(command: &mut Command) -> Run {
    let start = Instant::now();
    let child = command
        .stdout(Stdio::null())
        .spawn()
        .expect("the command starts");
    let mut status = 0;
    // SAFETY: rusage is plain data, for which all zeroes is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the child is ours and not waited for elsewhere; both results outlive the call.
    let waited = unsafe { libc::wait4(child.id() as i32, &raw mut status, 0, &raw mut usage) };
    assert!(
        waited > 0 && libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0,
        "{command:?}"
    );
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    Run {
        wall: start.elapsed(),
        peak_kib: usage.ru_maxrss,
        cpu_s: seconds(usage.ru_utime) + seconds(usage.ru_stime),
        sleeps: usage.ru_nvcsw,
    }
}

fn csv_file(folder: &Path) -> PathBuf {
    folder.join("datapoints.csv")
}

fn largest_file(folder: &Path) -> u64 {
    fs::metadata(csv_file(folder)).map_or(0, |meta| meta.len())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(f64::NAN)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("?")
}

fn us(value: &Value) -> String {
    value
        .as_f64()
        .map_or("unknown".to_owned(), |ns| format!("{:.2} µs", ns / 1e3))
}
