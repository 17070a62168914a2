//! Stores a run: the folder, the datapoints as they come, the description at the start and the end.

use std::time::SystemTime;

use reveille_kernel::Identity;
use reveille_results::description::{Description, Ended, Settings};
use reveille_results::kept::Header;
use reveille_results::{Datapoint, ResultFolder, Writer, schema};
use reveille_show::progress::Bar;
use reveille_show::quantity::{count, duration};
use reveille_show::terminal;

use crate::{Error, Notice, Options, Outcome, Progress, Protocol, Result, Sink};

/// The columns that the statistics need.
const STATISTICS_COLUMNS: &[&str] = &[
    "source",
    "requested_state",
    "requested_state_index",
    "wake_latency_ns",
    "launch_error_ns",
    "round",
];

/// Stores a run's datapoints and description, and shows its progress.
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
    /// Into an empty folder, which is removed if it stays empty. `name` is the result's in reports.
    pub fn new(
        folder: ResultFolder,
        name: String,
        machine: Identity,
        started: SystemTime,
        options: &Options,
    ) -> Self {
        Self {
            folder,
            name,
            started,
            machine,
            settings: options.settings(),
            writer: None,
            bar: Bar::new(),
        }
    }

    fn describe(&self, outcome: &Outcome) -> Description {
        let cpu = self.settings.cpu.and_then(|cpu| outcome.idle.cpu(cpu));
        let mut settings = self.settings.clone();
        settings.arming = outcome.arming.join("; ");
        let header = Header::of(self.started, self.machine.clone(), &outcome.idle);
        Description {
            schema_version: schema::SCHEMA_VERSION,
            tool: header.tool,
            name: self.name.clone(),
            started: header.started,
            command_line: header.command_line,
            probe: outcome.probe,
            ended: outcome.ended.clone(),
            machine: header.machine,
            driver: header.driver,
            governor: header.governor,
            states: cpu.map(|cpu| cpu.states.clone()).unwrap_or_default(),
            residency_columns: outcome.residency_columns.clone(),
            settings,
            characterisation: outcome.characterisation.clone(),
            counts: outcome.counts.clone(),
            statistics: Vec::new(),
            source_differences: Vec::new(),
            notes: outcome.notes.clone(),
        }
    }

    /// Completes the result: the Parquet file, the statistics, the description.
    ///
    /// # Errors
    /// If a file cannot be written, or the run never began.
    pub fn finish(mut self, outcome: &Outcome) -> Result<(ResultFolder, Description)> {
        self.bar.clear();
        let writer = self.writer.take();
        let writer =
            writer.ok_or_else(|| Error::Failed("the run ended before it began".to_owned()))?;
        let mut description = self.describe(outcome);
        // First without statistics, so that the counts are kept whatever fails next.
        self.folder.describe(&description)?;
        writer.finish()?;
        let columns = self.folder.read_back(Some(STATISTICS_COLUMNS))?.columns;
        description.conclude(&columns);
        self.folder.describe(&description)?;
        Ok((self.folder, description))
    }

    /// Ends a run that failed: keeps the datapoints and reports where they are, or, without any, removes
    /// the folder.
    pub fn abandon(mut self) -> Option<String> {
        self.bar.clear();
        let writer = self.writer.take();
        let rows = writer.as_ref().map_or(0, Writer::rows);
        if rows == 0 {
            self.folder.folder().give_up();
            return None;
        }
        // If it fails (on a full disk), the partial file is read instead.
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
            // For a run that is cut off.
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
            .map(|(state, so_far)| {
                let median = so_far.median_ns().map_or(String::new(), duration);
                format!("{state} {}, median {median}", count(so_far.count))
            })
            .collect();
        let detail = match progress.kept {
            0 => String::new(),
            _ => format!("{:.0}/s:  {}", progress.rate, counts.join("  ")),
        };
        self.bar
            .show(progress.phase, progress.done, progress.left, &detail);
    }

    fn notice(&mut self, notice: Notice) {
        terminal::say(&notice.0);
    }
}

impl Options {
    /// As a result keeps them.
    fn settings(&self) -> Settings {
        Settings {
            // As in the column; `arming` has what follows the name.
            sources: self
                .sources
                .iter()
                .filter_map(|name| name.split(':').next().map(str::to_owned))
                .collect(),
            cpu: Some(self.cpu),
            datapoints: self.datapoints,
            duration_s: self.duration.map(|duration| duration.as_secs_f64()),
            distance_min_ns: self.distances.min_ns,
            distance_max_ns: self.distances.max_ns,
            protocol: match self.protocol {
                Protocol::Random => "random".into(),
                Protocol::Sweep { datapoints, factor } => {
                    format!("sweep, {datapoints} datapoints a step, factor {factor}")
                }
            },
            deepest_states: self.deepest.clone(),
            cold_bytes: self.cold_bytes,
            offline_others: self.offline_others,
            arming: String::new(),
            seed: self.seed,
        }
    }
}
