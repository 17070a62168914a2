//! Keeps what is measured: the folder, the datapoints as they come, the description at both ends.

use std::time::SystemTime;

use anyhow::Context;
use reveille_kernel::{Identity, Root};
use reveille_measure::{Notice, Outcome, Progress, Result, Sink};
use reveille_results::description::{Description, Ended, Settings};
use reveille_results::output::Folder;
use reveille_results::{Datapoint, ResultFolder, Writer, schema, statistics};

use super::Args;
use crate::keeping::{default_folder, naming};
use reveille_show::progress::Bar;

/// The columns that the statistics need.
const STATISTICS_COLUMNS: &[&str] = &[
    "source",
    "requested_state",
    "requested_state_index",
    "wake_latency_ns",
];

pub struct Recorder {
    folder: ResultFolder,
    name: String,
    started: SystemTime,
    machine: Identity,
    settings: Settings,
    writer: Option<Writer>,
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
        // Before anything is measured. It goes again if nothing comes into it.
        let folder = ResultFolder::of(Folder::make(&out, naming(args.out.as_deref()))?)?;
        if !args.no_report {
            folder.folder().refuse_taken(crate::report::PAGE)?;
        }
        let name = args
            .name
            .clone()
            .or_else(|| Some(out.file_name()?.to_string_lossy().into()));
        Ok(Self {
            name: name.unwrap_or_else(|| out.display().to_string()),
            folder,
            started,
            machine,
            settings,
            writer: None,
            bar: Bar::new(),
        })
    }

    fn describe(&self, outcome: &Outcome) -> Description {
        let cpu = self.settings.cpu.and_then(|cpu| outcome.idle.cpu(cpu));
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
    pub fn finish(mut self, outcome: Outcome) -> anyhow::Result<(ResultFolder, Description)> {
        self.bar.clear();
        let writer = self
            .writer
            .take()
            .context("the run ended before it began")?;
        let mut description = self.describe(&outcome);
        // First without statistics: whatever happens next, the counts are kept.
        self.folder.describe(&description)?;
        writer.finish()?;
        let columns = self.folder.read_back(Some(STATISTICS_COLUMNS))?.columns;
        let figure = |name: &str| {
            let state = description.states.iter().find(|state| state.name == name)?;
            state.exit_latency_us
        };
        description.statistics =
            statistics::by_state(&columns, &figure, &description.characterisation.floors);
        self.folder.describe(&description)?;
        Ok((self.folder, description))
    }

    /// Ends a run that failed: what was gathered stays. Where that is nothing, what this run made
    /// goes. Says where the datapoints are.
    pub fn abandon(mut self) -> Option<String> {
        self.bar.clear();
        let writer = self.writer.take();
        let rows = writer.as_ref().map_or(0, Writer::rows);
        if rows == 0 {
            self.folder.folder().give_up();
            return None;
        }
        // On a full disk this fails, and the partial file is what is read.
        let _ = writer?.finish();
        Some(format!(
            "{rows} datapoints are kept in {}",
            self.folder.path().display()
        ))
    }
}

impl Sink for Recorder {
    fn begin(&mut self, so_far: &Outcome) -> Result<()> {
        let begin = || {
            let mut description = self.describe(so_far);
            // What stands there if the run is cut off.
            description.ended = Ended::Disturbed("the run was cut off".into());
            self.folder.describe(&description)?;
            self.folder.writer(&so_far.residency_columns)
        };
        self.writer = Some(begin()?);
        Ok(())
    }

    fn datapoint(&mut self, datapoint: &Datapoint) -> Result<()> {
        let writer = self.writer.as_mut().expect("begin comes first");
        writer.push(datapoint)
    }

    fn progress(&mut self, progress: &Progress<'_>) {
        let states = progress.by_state.iter();
        let counts: Vec<_> = states
            .map(|(state, count)| format!("{state} {count}"))
            .collect();
        let detail = match progress.kept {
            0 => String::new(),
            _ => format!("{:.0}/s:  {}", progress.rate, counts.join("  ")),
        };
        self.bar
            .show(progress.phase, progress.done, progress.left, &detail);
    }

    fn notice(&mut self, notice: Notice) {
        self.bar.say(&notice.0);
    }
}
