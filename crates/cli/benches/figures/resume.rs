//! Logs of suspends: how fast they are read, and what the whole analysis takes.

#[path = "../../../resume/tests/generator/mod.rs"]
mod generator;

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::Command;

use reveille_resume::log;

use super::{REVEILLE, Run, median, row, timed};

/// Given to this program itself, so that reading a log has a process of its own.
pub const READ_LOG: &str = "--only-read-log";

const CYCLES: usize = 200;
const BYTES: usize = 100_000_000;
const REPEATS: usize = 5;

/// Reads the log and nothing else.
pub fn read_log(path: &str) {
    let log = log::read(File::open(path).expect("the log opens")).expect("the log is read");
    assert_eq!(log.cycles.len(), CYCLES);
    assert!(log.cycles.iter().all(|cycle| cycle.stages.len() >= 11));
}

pub fn resume_logs(scratch: &Path) {
    let path = scratch.join("syslog");
    let mut out = BufWriter::new(File::create(&path).expect("a log in the scratch folder"));
    let calls = generator::text::syslog(&mut out, 1, CYCLES, BYTES).expect("the log is written");
    out.flush().expect("the log is written");
    let bytes = fs::metadata(&path).map_or(0, |meta| meta.len());
    let what = format!(
        "a syslog of {:.0} MB with {CYCLES} cycles and {calls} calls",
        bytes as f64 / 1e6
    );
    let this = std::env::current_exe().expect("this program has a path");
    let runs = |command: &mut dyn FnMut() -> Command| -> Vec<Run> {
        (0..REPEATS).map(|_| timed(&mut command())).collect()
    };
    let seconds = |runs: &[Run]| median(runs.iter().map(|run| run.wall.as_secs_f64()).collect());
    let cpu = |runs: &[Run]| median(runs.iter().map(|run| run.cpu_s).collect());
    let peak = |runs: &[Run]| runs.iter().map(|run| run.peak_kib).max().unwrap_or(0) / 1024;

    let reading = runs(&mut || {
        let mut command = Command::new(&this);
        command.arg(READ_LOG).arg(&path);
        command
    });
    let passes = runs(&mut || {
        let mut command = Command::new("sha256sum");
        command.arg(&path);
        command
    });
    let read = seconds(&reading);
    row(
        &format!("reading {what}"),
        format!(
            "{:.0} MB/s ({:.2} s of CPU, {:.1} times sha256sum's), {} MiB",
            bytes as f64 / 1e6 / read,
            cpu(&reading),
            cpu(&reading) / cpu(&passes),
            peak(&reading)
        ),
        "100 MB/s",
    );
    let analysing = runs(&mut || {
        let mut command = Command::new(REVEILLE);
        command.args(["resume", "analyze", "--json"]).arg(&path);
        command
    });
    row(
        "`resume analyze --json` of it",
        format!(
            "{:.2} s ({:.2} s of CPU), {} MiB",
            seconds(&analysing),
            cpu(&analysing),
            peak(&analysing)
        ),
        "3 s, 300 MiB",
    );
}
