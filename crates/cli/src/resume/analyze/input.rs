//! The logs that a command line names.

use std::io;
use std::path::{Path, PathBuf};

use reveille_resume::analysis::{Input, Source};
use reveille_resume::capture::{DMESG, RECORD, Record, TRACE};
use reveille_resume::log::{self, Log};

use super::failure;
use crate::exit::Failure;

/// The files of a capture that are logs: what both saw is one cycle.
const LOGS: [&str; 2] = [DMESG, TRACE];

/// Each log's cycles, with its name: the one that was given, or the file's.
pub fn read(logs: &[PathBuf], names: &[String]) -> anyhow::Result<Vec<Input>> {
    if !names.is_empty() && names.len() != logs.len() {
        return Err(Failure::usage(format!(
            "--name: {} names for {} logs; give one for each, or none",
            names.len(),
            logs.len()
        )));
    }
    let stdin = logs.iter().filter(|log| log.as_os_str() == "-").count();
    if stdin > 1 {
        return Err(Failure::usage("-: standard input can be read once only"));
    }
    let name = |place: usize, log: &Path| match names.get(place) {
        Some(name) => name.clone(),
        None if log.as_os_str() == "-" => "standard input".to_owned(),
        None => short_name(log),
    };
    logs.iter()
        .enumerate()
        .map(|(place, log)| one(log, name(place, log)))
        .collect()
}

/// The last part of the path: a table's column has little room.
fn short_name(log: &Path) -> String {
    let name = log.file_name().unwrap_or(log.as_os_str());
    name.to_string_lossy().into_owned()
}

fn one(path: &Path, name: String) -> anyhow::Result<Input> {
    if path.as_os_str() == "-" {
        let log = log::read(io::stdin().lock())?;
        let log = log.or_no_suspend(path).map_err(failure)?;
        return Ok(input(log, name, vec!["-".to_owned()], None));
    }
    let files = files(path)?;
    let log = log::read_files(&files).map_err(failure)?;
    let names = files.iter().map(|file| short_name(file)).collect();
    // The notes are an extra: a log is as good without them.
    let capture = std::fs::read(path.join(RECORD)).ok();
    let capture: Option<Record> = capture.and_then(|text| serde_json::from_slice(&text).ok());
    let notes = capture.as_ref().map_or_else(Vec::new, told);
    let kernel = capture.and_then(|capture| capture.machine.kernel);
    let mut input = input(log, name, names, kernel);
    input.notes.extend(notes);
    Ok(input)
}

/// What a capture's own notes say of its cycles beyond the logs.
fn told(capture: &Record) -> Vec<String> {
    let mut notes = capture.notes.clone();
    for cycle in &capture.cycles {
        let number = cycle.number;
        if cycle.log_lost > 0 {
            notes.push(format!(
                "cycle {number}: {} records of the kernel's log were written over before they could be \
                 read",
                cycle.log_lost
            ));
        }
        if cycle.trace_lost > 0 {
            let lost = cycle.trace_lost;
            notes.push(format!(
                "cycle {number}: {lost} events of the trace were written over"
            ));
        }
        if cycle.alarm_rang == Some(false) && cycle.error.is_none() {
            notes.push(format!(
                "cycle {number}: something else woke the machine before the alarm"
            ));
        }
    }
    notes
}

fn files(path: &Path) -> anyhow::Result<Vec<PathBuf>> {
    if !path.exists() {
        return Err(Failure::usage(format!(
            "{}: no such file; name a log, a folder of `resume capture`, or - for standard input",
            path.display()
        )));
    }
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let files: Vec<PathBuf> = LOGS
        .iter()
        .map(|name| path.join(name))
        .filter(|file| file.is_file())
        .collect();
    match files.is_empty() {
        false => Ok(files),
        true => Err(Failure::usage(format!(
            "{}: neither {} nor {} is in this folder; name a folder of `resume capture`, or a log",
            path.display(),
            LOGS[0],
            LOGS[1]
        ))),
    }
}

fn input(log: Log, name: String, files: Vec<String>, kernel: Option<String>) -> Input {
    let left_out = log.left_out.reasons().into_iter();
    let mut notes = Vec::new();
    if let Some(us) = log.resolution_us.filter(|us| *us >= 1_000) {
        notes.push(format!(
            "the log's stamps are {} ms apart at the least: nothing shorter can be told",
            us / 1_000
        ));
    }
    Input {
        name,
        source: Source {
            files,
            lines: log.lines,
            bytes: log.bytes,
            left_out: left_out
                .map(|(count, why)| (why.to_owned(), count))
                .collect(),
            kernel,
        },
        cycles: log.cycles,
        notes,
    }
}
