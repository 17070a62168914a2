//! Logs and folders of captures, read.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use reveille_show::quantity::counted;

use super::{Input, Source};
use crate::capture::{DMESG, RECORD, Record, TRACE};
use crate::devices::Device;
use crate::known_as::KnownAs;
use crate::log::{self, Log};
use crate::{Error, Result};

/// The cycles of each log, `-` for standard input, or folder of a capture. Its name is the one given in
/// `names`, else the file's.
///
/// # Errors
/// [`Error::Usage`] where the names do not fit the logs or a file is missing, others where a log cannot be
/// read or has no suspend.
pub fn inputs(logs: &[PathBuf], names: &[String]) -> Result<Vec<Input>> {
    if !names.is_empty() && names.len() != logs.len() {
        return Err(Error::Usage(format!(
            "--name: {} for {}; give one for each, or none",
            counted(names.len() as u64, "name"),
            counted(logs.len() as u64, "log")
        )));
    }
    let stdin = logs.iter().filter(|log| log.as_os_str() == "-").count();
    if stdin > 1 {
        return Err(Error::Usage(
            "-: standard input can be read once only".to_owned(),
        ));
    }
    let name = |place: usize, log: &Path| match names.get(place) {
        Some(name) => name.clone(),
        None if log.as_os_str() == "-" => "standard input".to_owned(),
        None => short_name(log),
    };
    let logs = logs.iter().enumerate();
    logs.map(|(place, log)| one(log, name(place, log)))
        .collect()
}

/// The last part of the path.
fn short_name(log: &Path) -> String {
    let name = log.file_name().unwrap_or(log.as_os_str());
    name.to_string_lossy().into_owned()
}

fn one(path: &Path, name: String) -> Result<Input> {
    if path.as_os_str() == "-" {
        let log = log::read(io::stdin().lock());
        let log = log.map_err(|error| Error::Failed(format!("standard input: {error}")))?;
        let log = log.or_no_suspend(path)?;
        return Ok(input(log, name, vec!["-".to_owned()]));
    }
    let files = files(path)?;
    let log = log::read_files(&files)?;
    let names = files.iter().map(|file| short_name(file)).collect();
    let mut input = input(log, name, names);
    // The logs can be analysed without it.
    match record(path) {
        Ok(Some(record)) => add(&mut input, record),
        Ok(None) => {}
        Err(why) => input.notes.push(format!(
            "{RECORD} cannot be read ({why}): the capture's clocks, devices and notes are missing"
        )),
    }
    Ok(input)
}

/// A capture's record; `None` where the path is not a folder with one.
fn record(folder: &Path) -> std::result::Result<Option<Record>, String> {
    use ErrorKind::{NotADirectory, NotFound};
    let why = |error: serde_json::Error| error.to_string();
    match std::fs::read(folder.join(RECORD)) {
        Ok(text) => Ok(Some(serde_json::from_slice(&text).map_err(why)?)),
        Err(error) if matches!(error.kind(), NotFound | NotADirectory) => Ok(None),
        Err(error) => Err(error.to_string()),
    }
}

/// What is in a capture's record and not in its logs: the wall clock, the time asleep, the devices.
fn add(input: &mut Input, record: Record) {
    input.notes.extend(record.all_notes());
    input.source.kernel = record.machine.kernel;
    let devices: Arc<[Device]> = record.devices.into();
    let first = input.cycles.first();
    let mut known_as = first.map_or(KnownAs::default(), |cycle| (*cycle.known_as).clone());
    known_as.add_sysfs(&devices);
    let known_as = Arc::new(known_as);
    for cycle in &mut input.cycles {
        cycle.devices = devices.clone();
        cycle.known_as = known_as.clone();
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
        cycle.firmware = cycle.firmware.or(known.firmware);
    }
}

fn files(path: &Path) -> Result<Vec<PathBuf>> {
    if !path.exists() {
        return Err(Error::Usage(format!(
            "{}: no such file; name a log, a folder of `resume capture`, or - for standard input",
            path.display()
        )));
    }
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    // A cycle that is in both is one cycle. The trace is empty where the kernel could not be traced.
    let has_text = |file: &PathBuf| std::fs::metadata(file).is_ok_and(|file| file.len() > 0);
    let files = [DMESG, TRACE].map(|name| path.join(name));
    let files: Vec<PathBuf> = files.into_iter().filter(has_text).collect();
    match files.is_empty() {
        false => Ok(files),
        true => Err(Error::Usage(format!(
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
        hibernations: log.hibernations,
        notes: Vec::new(),
    }
}
