//! The logs that a command line names.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use reveille_resume::analysis::{Input, Source, counted};
use reveille_resume::capture::{DMESG, RECORD, Record, TRACE};
use reveille_resume::devices::Device;
use reveille_resume::log::{self, Log};

use crate::exit::Failure;

/// Each log's cycles, with its name: the one that was given, or the file's.
pub fn read(logs: &[PathBuf], names: &[String]) -> anyhow::Result<Vec<Input>> {
    if !names.is_empty() && names.len() != logs.len() {
        return Err(Failure::usage(format!(
            "--name: {} for {}; give one for each, or none",
            counted(names.len(), "name"),
            counted(logs.len(), "log")
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
        let log = log::read(io::stdin().lock());
        let log = log.map_err(|error| anyhow::anyhow!("standard input: {error}"))?;
        let log = log.or_no_suspend(path)?;
        return Ok(input(log, name, vec!["-".to_owned()]));
    }
    let files = files(path)?;
    let log = log::read_files(&files)?;
    let names = files.iter().map(|file| short_name(file)).collect();
    let mut input = input(log, name, names);
    // A capture's own notes are an extra: its logs are as good without them.
    match record(path) {
        Ok(Some(record)) => add(&mut input, record),
        Ok(None) => {}
        Err(why) => input.notes.push(format!(
            "{RECORD} cannot be read ({why}): the capture's own clocks, devices and notes are missing"
        )),
    }
    Ok(input)
}

/// What a capture noted of itself; `None` where the path is not a folder with that.
fn record(folder: &Path) -> Result<Option<Record>, String> {
    use io::ErrorKind::{NotADirectory, NotFound};
    match std::fs::read(folder.join(RECORD)) {
        Ok(text) => match serde_json::from_slice(&text) {
            Ok(record) => Ok(Some(record)),
            Err(error) => Err(error.to_string()),
        },
        Err(error) if matches!(error.kind(), NotFound | NotADirectory) => Ok(None),
        Err(error) => Err(error.to_string()),
    }
}

/// What a capture knows and its logs do not: the wall clock, and the time asleep by two clocks.
fn add(input: &mut Input, record: Record) {
    input.notes.extend(told(&record));
    input.source.kernel = record.machine.kernel;
    let devices: Arc<[Device]> = record.devices.into();
    for cycle in &mut input.cycles {
        cycle.devices = devices.clone();
    }
    if input.cycles.len() != record.cycles.len() {
        return;
    }
    for (cycle, known) in input.cycles.iter_mut().zip(record.cycles) {
        cycle.at.get_or_insert(known.started);
        let slept = known.error.is_none() && known.asleep_us > 0;
        if cycle.asleep_us.is_none() && slept {
            cycle.asleep_us = Some(known.asleep_us);
        }
    }
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
    // What both saw is one cycle. The trace is empty where the kernel could not be traced.
    let has_text = |file: &PathBuf| std::fs::metadata(file).is_ok_and(|file| file.len() > 0);
    let files = [DMESG, TRACE].map(|name| path.join(name));
    let files: Vec<PathBuf> = files.into_iter().filter(has_text).collect();
    match files.is_empty() {
        false => Ok(files),
        true => Err(Failure::usage(format!(
            "{}: neither {DMESG} nor {TRACE} is in this folder; name a folder of `resume capture`, or \
             a log",
            path.display()
        ))),
    }
}

fn input(log: Log, name: String, files: Vec<String>) -> Input {
    let left_out = log.left_out.reasons().into_iter();
    Input {
        name,
        source: Source {
            files,
            lines: log.lines,
            bytes: log.bytes,
            left_out: left_out.map(|(count, why)| (why, count)).collect(),
            kernel: None,
        },
        cycles: log.cycles,
        notes: Vec::new(),
    }
}
