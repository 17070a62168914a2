//! Keeps what is measured: the folder, the datapoints as they come, the description at both ends.

use std::path::PathBuf;
use std::time::SystemTime;

use anyhow::Context;
use reveille_dataset::description::{Description, Ended, Settings};
use reveille_dataset::{Datapoint, ResultFolder, Writer, open_columns, schema, statistics};
use reveille_machine::{Identity, Root};
use reveille_wake::{Error, Notice, Outcome, Progress, Result, Sink};

use super::{Args, progress::Bar};
use crate::exit::Failure;
use crate::keeping::{default_folder, hand_over};

/// The columns that the statistics need.
const STATISTICS_COLUMNS: &[&str] = &[
    "source",
    "requested_state",
    "requested_state_index",
    "wake_latency_ns",
];

pub struct Recorder {
    out: PathBuf,
    name: String,
    started: SystemTime,
    machine: Identity,
    settings: Settings,
    result: Option<(ResultFolder, Writer)>,
    bar: Bar,
}

impl Recorder {
    /// # Errors
    /// Where the folder holds a result already.
    pub fn new(root: &Root, args: &Args, settings: Settings) -> anyhow::Result<Self> {
        let machine = Identity::read(root);
        let started = SystemTime::now();
        let out = args
            .out
            .clone()
            .unwrap_or_else(|| default_folder(&machine, started));
        // Before anything is measured; the folder is made when there is something to keep.
        ResultFolder::refuse_occupied(&out).map_err(|error| Failure::usage(error.to_string()))?;
        let name = args
            .name
            .clone()
            .or_else(|| Some(out.file_name()?.to_string_lossy().into()));
        Ok(Self {
            name: name.unwrap_or_else(|| out.display().to_string()),
            out,
            started,
            machine,
            settings,
            result: None,
            bar: Bar::new(),
        })
    }

    fn describe(&self, outcome: &Outcome) -> Description {
        let cpu = outcome.idle.cpu(self.settings.cpu);
        let mut settings = self.settings.clone();
        settings.arming = outcome.arming.join("; ");
        Description {
            schema_version: schema::SCHEMA_VERSION,
            tool: format!("reveille {}", env!("CARGO_PKG_VERSION")),
            name: self.name.clone(),
            started: humantime::format_rfc3339_seconds(self.started).to_string(),
            command_line: std::env::args().collect(),
            probe: outcome.probe,
            ended: outcome.ended.clone(),
            machine: self.machine.clone(),
            driver: outcome.idle.driver.clone(),
            governor: outcome.idle.governor.clone(),
            states: cpu.map(|cpu| cpu.states.clone()).unwrap_or_default(),
            residency_columns: outcome.residency_columns.clone(),
            settings,
            characterisation: outcome.characterisation.clone(),
            counts: outcome.counts.clone(),
            statistics: Vec::new(),
            notes: outcome.notes.clone(),
        }
    }

    /// Completes the result: the Parquet file, the statistics, the description.
    pub fn finish(mut self, outcome: Outcome) -> anyhow::Result<(PathBuf, Description)> {
        self.bar.clear();
        let (folder, writer) = self
            .result
            .take()
            .context("the run ended before it began")?;
        let mut description = self.describe(&outcome);
        // First without statistics: whatever happens next, the counts are kept.
        folder.describe(&description)?;
        writer.finish()?;
        let columns = open_columns(folder.path(), STATISTICS_COLUMNS)?.columns;
        let figure = |name: &str| {
            let state = description.states.iter().find(|state| state.name == name)?;
            state.exit_latency_us
        };
        description.statistics =
            statistics::by_state(&columns, &figure, &description.characterisation.floors);
        folder.describe(&description)?;
        hand_over(folder.path());
        Ok((self.out, description))
    }

    /// Ends a run that failed: what was gathered stays, and the folder goes if that is nothing.
    /// Says where the datapoints are.
    pub fn abandon(mut self) -> Option<String> {
        self.bar.clear();
        let (folder, writer) = self.result.take()?;
        let rows = writer.rows();
        if rows == 0 {
            drop(writer);
            let _ = std::fs::remove_dir_all(folder.path());
            return None;
        }
        // On a full disk this fails, and the partial file is what is read.
        let _ = writer.finish();
        hand_over(folder.path());
        Some(format!(
            "{}: {rows} datapoints are kept",
            folder.path().display()
        ))
    }
}

impl Sink for Recorder {
    fn begin(&mut self, so_far: &Outcome) -> Result<()> {
        let begin = || {
            let folder = ResultFolder::create(&self.out)?;
            let mut description = self.describe(so_far);
            // What stands there if the run is cut off.
            description.ended = Ended::Disturbed("the run was cut off".into());
            folder.describe(&description)?;
            let writer = folder.writer(&so_far.residency_columns)?;
            Ok((folder, writer))
        };
        self.result = Some(begin().map_err(sink)?);
        Ok(())
    }

    fn datapoint(&mut self, datapoint: &Datapoint) -> Result<()> {
        let (_, writer) = self.result.as_mut().expect("begin comes first");
        writer.push(datapoint).map_err(sink)
    }

    fn progress(&mut self, progress: &Progress<'_>) {
        self.bar.show(progress);
    }

    fn notice(&mut self, notice: Notice) {
        self.bar.say(&notice.0);
    }
}

fn sink(error: reveille_dataset::Error) -> Error {
    match error {
        reveille_dataset::Error::Occupied { .. } | reveille_dataset::Error::NoFolder { .. } => {
            Error::Usage(error.to_string())
        }
        other => Error::Sink(Box::new(other)),
    }
}
