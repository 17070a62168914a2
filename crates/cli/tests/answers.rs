//! On a terminal of 80 times 24 characters the answer of a command is on the last screen, above the prompt.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::terminal::{COLUMNS, LINES, in_terminal};

fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(path)
}

fn reveille() -> Command {
    Command::new(env!("CARGO_BIN_EXE_reveille"))
}

fn words(line: &str) -> Command {
    let mut command = reveille();
    command.args(line.split(' '));
    command
}

/// What a terminal shows in the end: without control sequences, and what was written over.
fn shown(command: &mut Command) -> Vec<String> {
    let (code, sent) = in_terminal(command);
    assert_eq!(code, Some(0), "{command:?}: {sent}");
    let mut parts = sent.split("\x1b[");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|letter: char| letter.is_ascii_alphabetic());
        text += &part[end.map_or(part.len(), |end| end + 1)..];
    }
    let lines = text.lines().map(|line| line.trim_end_matches('\r'));
    lines
        .map(|line| line.rsplit('\r').next().unwrap_or_default().to_owned())
        .collect()
}

/// The answer, by its first and its last words, is on the last screen; the lines that were printed.
fn ends_with(command: &mut Command, first: &str, last: &str) -> Vec<String> {
    let lines = shown(command);
    for line in &lines {
        let width = line.chars().count();
        assert!(width <= usize::from(COLUMNS), "{command:?}: {line}");
    }
    // The last line has the prompt.
    let screen = lines.len().saturating_sub(usize::from(LINES) - 1);
    let words: Vec<&str> = lines[screen..]
        .iter()
        .flat_map(|line| line.split_whitespace())
        .collect();
    let screen = words.join(" ");
    let answer = screen.find(first);
    let answer = answer.unwrap_or_else(|| panic!("{command:?}: {first}: {lines:#?}"));
    assert!(screen[answer..].ends_with(last), "{command:?}: {lines:#?}");
    lines
}

#[test]
fn kept_results_but_costs_fit_a_screen_and_all_end_with_the_answer() {
    let kept = std::fs::read_dir(repository("docs/example/results")).unwrap();
    let mut kept: Vec<_> = kept.map(|one| one.unwrap().file_name()).collect();
    kept.sort();
    let examples = [
        (
            "bench.json",
            "At 1 ms between reads: ",
            "about the maximum.",
        ),
        ("cost.json", "Waits for CPUs in ", "."),
        ("lab", "C1 wakes in ", "driver 133)."),
        ("path.json", "With the CPU asleep in ", " of it."),
        ("ping-trial.json", "`no sleep` is best:", "points more."),
        ("trial.json", "`no sleep` is best:", "points more."),
    ];
    // An example that is added here needs its line.
    assert_eq!(kept, examples.map(|(name, ..)| name));
    for (name, first, last) in examples {
        let file = repository("docs/example/results").join(name);
        let lines = ends_with(words("show").arg(&file), first, last);
        // cost has three tables where a workload met several idle states.
        let fits = lines.len() <= usize::from(LINES);
        assert!(fits || name == "cost.json", "{name}: {lines:#?}");
        let all = shown(words("show --all").arg(&file));
        assert!(all.len() > lines.len(), "{name}: {all:#?}");
    }
}

#[test]
fn an_analysed_log_and_models_end_with_the_answer() {
    let log = repository("crates/resume/tests/logs/6.12-dmesg.txt");
    let (first, last) = ("2-3 (usb) takes 885 ms of the", "500 ms, 653 ms less.");
    ends_with(words("resume analyze").arg(&log), first, last);
    let analysis = words("resume analyze --json").arg(&log).output().unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&file, analysis.stdout).unwrap();
    let (first, last) = ("At 30% load ", "no machine was measured.");
    ends_with(words("model from").arg(file.path()), first, last);
    for (line, first) in [
        ("model run --utilisation 0.2", "nap 10 ms draws least: "),
        ("model sweep", "nap 10 ms draws less than DVFS below "),
        (
            "model simulate --servers 4 --requests 20000",
            "nap 10 ms draws least in these runs: ",
        ),
    ] {
        ends_with(&mut words(line), first, ".");
    }
}

#[test]
fn advice_ends_with_the_answer() {
    let mut command = words("advise --budget 100us --percentile 80");
    command.arg(repository("docs/example/results/lab"));
    ends_with(
        &mut command,
        "Every state is allowed, C1, C2 and C3: nothing to set.",
        "for all states jointly.",
    );
}

/// Two CPUs with three idle states, one of them off.
fn machine() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let put = |file: &str, text: &str| {
        let path = folder.path().join("sys/devices/system/cpu").join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    put("present", "0-1");
    put("online", "0-1");
    put("cpuidle/current_driver", "some_idle");
    put("cpuidle/current_governor", "menu");
    for cpu in 0..2 {
        let states = [("POLL", 0, 0), ("C1", 2, 0), ("C6", 133, 1)];
        for (index, (name, exit, off)) in states.into_iter().enumerate() {
            let state = format!("cpu{cpu}/cpuidle/state{index}");
            put(&format!("{state}/name"), name);
            put(&format!("{state}/latency"), &format!("{exit}"));
            put(&format!("{state}/time"), &format!("{}", 1000 * exit));
            put(&format!("{state}/disable"), &format!("{off}"));
        }
    }
    folder
}

#[test]
fn states_bounds_and_limits_of_a_machine_end_with_the_answer() {
    let folder = machine();
    for (line, answer) in [
        (
            "states --root",
            "The CPUs slept longest in C6: 98.5% of the time in idle states. Off now: C6.",
        ),
        (
            "hold --latency 1us --dry-run --root",
            "The bound leaves POLL and stops C1.",
        ),
        (
            "limit --disable C1 --dry-run --root",
            "The limit leaves POLL and disables C1, keeps off C6.",
        ),
    ] {
        ends_with(words(line).arg(folder.path()), answer, answer);
    }
}

#[test]
fn the_overview_and_what_is_missing_here_end_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let mut overview = reveille();
    overview.current_dir(folder.path());
    ends_with(&mut overview, "Next ", "reveille doctor");
    ends_with(&mut words("doctor"), "reveille measure ", "");
}

#[test]
fn a_verdict_is_coloured_on_a_terminal_unless_colours_are_unwanted() {
    let mut command = words("show");
    command.arg(repository("docs/example/results/lab"));
    let verdict = "exceeded by most wakes";
    let (_, coloured) = in_terminal(&mut command);
    assert!(
        coloured.contains(&format!("\x1b[31m{verdict}\x1b[0m")),
        "{coloured:?}"
    );
    command.env("NO_COLOR", "1");
    let (_, plain) = in_terminal(&mut command);
    assert!(
        plain.contains(verdict) && !plain.contains('\x1b'),
        "{plain:?}"
    );
}
