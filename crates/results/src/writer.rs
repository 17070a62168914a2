//! Datapoints on their way to the disk.
//!
//! A Parquet file can only be read with its footer, which is written last. So datapoints are first
//! appended, one line each and one `write(2)` each, to `datapoints.partial.csv`; when the run ends
//! that file becomes `datapoints.parquet` and is removed. What was pushed is with the kernel when
//! [`Writer::push`] returns: it survives `kill -9` and a panic of the program, and [`crate::open`]
//! reads the partial file as it reads a finished one. On a full disk the line that did not fit is
//! taken back and `push` fails; all lines before it stay.

use std::fs::File;
use std::io::{Seek, Write as _};
use std::path::PathBuf;
use std::sync::Arc;

use crate::csv::{Csv, LastLine};
use crate::output::{Existing, Folder};
use crate::parquet_file::{Definition, ParquetWriter};
use crate::schema::{COLUMNS, Kind};
use crate::{Datapoint, Error, Malformed, Result, csv_text, own_csv};

pub(crate) const PARQUET: &str = "datapoints.parquet";
pub(crate) const PARTIAL: &str = "datapoints.partial.csv";

/// Takes datapoints one by one. Dropped without [`Writer::finish`], it leaves a readable partial file.
#[derive(Debug)]
pub struct Writer {
    folder: Arc<Folder>,
    partial: PathBuf,
    file: File,
    definitions: Vec<Definition>,
    line: String,
    bytes: u64,
    rows: u64,
}

impl Writer {
    pub(crate) fn new(folder: Arc<Folder>, residency_columns: &[String]) -> Result<Self> {
        let partial = folder.path().join(PARTIAL);
        let definitions = definitions(residency_columns)
            .map_err(|wrong| wrong.at(&folder.path().join(PARQUET)))?;
        let mut file = folder.create(PARTIAL)?;
        let mut header = String::new();
        for (name, _, _) in &definitions {
            csv_text::field(&mut header, name);
        }
        csv_text::end_line(&mut header);
        file.write_all(header.as_bytes())
            .map_err(Error::at(&partial))?;
        Ok(Self {
            folder,
            partial,
            file,
            definitions,
            line: String::new(),
            bytes: header.len() as u64,
            rows: 0,
        })
    }

    /// Hands one datapoint to the kernel. An error if it cannot be written (a full disk), or has more or fewer
    /// shares than there are residency columns; what was pushed before stays.
    pub fn push(&mut self, datapoint: &Datapoint) -> Result<()> {
        let expected = self.definitions.len() - COLUMNS.len();
        if datapoint.residency_percent.len() != expected {
            return Err(Error::Unreadable {
                path: self.partial.clone(),
                why: format!(
                    "a datapoint has {} residency shares, expected {expected}",
                    datapoint.residency_percent.len()
                ),
            });
        }
        self.line.clear();
        write_line(&mut self.line, datapoint);
        if let Err(source) = self.file.write_all(self.line.as_bytes()) {
            // Half a line would be read as a torn end; without it the file is whole.
            let _ = self.file.set_len(self.bytes);
            let _ = self.file.seek(std::io::SeekFrom::Start(self.bytes));
            return Err(Error::at(&self.partial)(source));
        }
        self.bytes += self.line.len() as u64;
        self.rows += 1;
        Ok(())
    }

    /// How many datapoints were pushed.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Turns the partial file into `datapoints.parquet`; returns the number of its datapoints. If that cannot
    /// be written (a full disk) nothing is lost: the partial file stays and is read instead.
    pub fn finish(mut self) -> Result<u64> {
        self.file.sync_all().map_err(Error::at(&self.partial))?;
        let rewound = self.file.rewind();
        rewound.map_err(Error::at(&self.partial))?;
        convert(self.file, &self.folder, self.definitions).map_err(|wrong| Error::Unreadable {
            path: self.folder.path().join(PARQUET),
            why: format!("{wrong}; the datapoints are kept in {PARTIAL}, which is read instead"),
        })?;
        self.folder.sync()?;
        self.folder.remove(PARTIAL);
        Ok(self.rows)
    }
}

/// All columns of a result with these residency columns.
fn definitions(residency_columns: &[String]) -> std::result::Result<Vec<Definition>, Malformed> {
    let mut definitions: Vec<Definition> = COLUMNS
        .iter()
        .map(|&(name, kind, nullable)| (name.to_owned(), kind, nullable))
        .collect();
    for name in residency_columns {
        let named = |known: &Definition| known.0 == *name;
        if !own_csv::is_residency_column(name) || definitions.iter().any(named) {
            return Err(Malformed::new(format!(
                "{name:?} cannot be a residency column; expected another name, such as \
                 cc6_percent"
            )));
        }
        definitions.push((name.clone(), Kind::Percent, true));
    }
    Ok(definitions)
}

fn write_line(line: &mut String, datapoint: &Datapoint) {
    // The order is that of `schema::COLUMNS`.
    csv_text::field(line, datapoint.time_ns);
    csv_text::field(line, datapoint.cpu);
    csv_text::field(line, datapoint.source.as_str());
    csv_text::field(line, datapoint.woken_by.as_str());
    csv_text::optional(line, datapoint.requested_state_index);
    csv_text::name(
        line,
        datapoint.requested_state.as_deref().unwrap_or_default(),
    );
    csv_text::field(line, datapoint.launch_distance_ns);
    csv_text::optional(line, datapoint.launch_error_ns);
    csv_text::optional(line, datapoint.launch_clock);
    csv_text::optional(line, datapoint.silent_time_ns);
    csv_text::field(line, datapoint.wake_latency_ns);
    csv_text::optional(line, datapoint.interrupt_latency_ns);
    csv_text::field(line, datapoint.first.as_str());
    csv_text::optional(line, datapoint.smi_count);
    csv_text::optional(line, datapoint.nmi_count);
    csv_text::optional(line, datapoint.interrupt_count);
    csv_text::optional(line, datapoint.softirq_count);
    csv_text::optional(line, datapoint.round);
    for &share in &datapoint.residency_percent {
        csv_text::percent(line, share);
    }
    csv_text::end_line(line);
}

/// Writes the Parquet file from the partial one, in bounded memory.
fn convert(
    partial: File,
    folder: &Folder,
    definitions: Vec<Definition>,
) -> std::result::Result<(), Malformed> {
    let csv = Csv::new(partial)?;
    let fields = own_csv::fields(&csv.header, None)?;
    let unfinished = folder.begin(PARQUET, Existing::Stays).map_err(unwritten)?;
    let mut writer = ParquetWriter::new(&unfinished.file, definitions)?;
    csv.in_parts(&fields, LastLine::IsTorn, |part| writer.push(part))?;
    let written = writer.finish()?.sync_all();
    written.map_err(|error| unwritten(unfinished.failed(error)))?;
    unfinished.place().map_err(unwritten)?;
    Ok(())
}

/// Why there is no Parquet file, without its path.
fn unwritten(error: Error) -> Malformed {
    Malformed::new(match error {
        Error::Io { source, .. } => format!("cannot be written: {source}"),
        Error::Refused { why, .. } => why,
        other => other.to_string(),
    })
}
