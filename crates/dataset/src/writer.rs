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
use std::path::{Path, PathBuf};

use crate::csv::{Csv, LastLine};
use crate::folder::{PARQUET, PARTIAL, io_error, sync_folder};
use crate::parquet_file::{Definition, ParquetWriter};
use crate::schema::{COLUMNS, Kind};
use crate::{Datapoint, Error, Malformed, Result, csv_text, own_csv};

/// Takes datapoints one by one. Dropped without [`Writer::finish`], it leaves a partial file that
/// is read like a finished one.
#[derive(Debug)]
pub struct Writer {
    folder: PathBuf,
    partial: PathBuf,
    file: File,
    definitions: Vec<Definition>,
    line: String,
    bytes: u64,
    rows: u64,
}

impl Writer {
    pub(crate) fn new(folder: &Path, residency_columns: &[String]) -> Result<Self> {
        let partial = folder.join(PARTIAL);
        let definitions =
            definitions(residency_columns).map_err(|wrong| wrong.at(&folder.join(PARQUET)))?;
        let mut file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&partial)
            .map_err(io_error(&partial))?;
        let mut header = String::new();
        for (name, _, _) in &definitions {
            csv_text::field(&mut header, name);
        }
        csv_text::end_line(&mut header);
        file.write_all(header.as_bytes())
            .map_err(io_error(&partial))?;
        Ok(Self {
            folder: folder.to_owned(),
            partial,
            file,
            definitions,
            line: String::new(),
            bytes: header.len() as u64,
            rows: 0,
        })
    }

    /// Hands one datapoint to the kernel.
    ///
    /// # Errors
    /// Where it cannot be written (a full disk), or has more or fewer shares than there are
    /// residency columns. What was pushed before stays.
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
            return Err(io_error(&self.partial)(source));
        }
        self.bytes += self.line.len() as u64;
        self.rows += 1;
        Ok(())
    }

    /// How many datapoints were pushed.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Turns the partial file into `datapoints.parquet` and says how many datapoints are in it.
    ///
    /// # Errors
    /// Where the Parquet file cannot be written (a full disk). Nothing is lost then: the partial
    /// file stays and is read instead.
    pub fn finish(self) -> Result<u64> {
        self.file.sync_all().map_err(io_error(&self.partial))?;
        drop(self.file);
        let target = self.folder.join(PARQUET);
        let unfinished = self.folder.join(format!("{PARQUET}.unfinished"));
        let converted = convert(&self.partial, &unfinished, self.definitions).and_then(|()| {
            std::fs::rename(&unfinished, &target)
                .map_err(|error| Malformed::new(format!("cannot be written: {error}")))
        });
        if let Err(wrong) = converted {
            let _ = std::fs::remove_file(&unfinished);
            return Err(Error::Unreadable {
                path: target,
                why: format!(
                    "{wrong}; the datapoints are kept in {PARTIAL}, which is read instead"
                ),
            });
        }
        sync_folder(&self.folder)?;
        std::fs::remove_file(&self.partial).map_err(io_error(&self.partial))?;
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
                "{name:?} cannot be a residency column; expected a name of its own such as \
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
    csv_text::optional(line, datapoint.silent_time_ns);
    csv_text::field(line, datapoint.wake_latency_ns);
    csv_text::optional(line, datapoint.interrupt_latency_ns);
    csv_text::field(line, datapoint.first.as_str());
    csv_text::optional(line, datapoint.smi_count);
    csv_text::optional(line, datapoint.nmi_count);
    csv_text::optional(line, datapoint.interrupt_count);
    csv_text::optional(line, datapoint.softirq_count);
    for &share in &datapoint.residency_percent {
        csv_text::percent(line, share);
    }
    csv_text::end_line(line);
}

/// Writes the Parquet file from the partial one, in bounded memory.
fn convert(
    partial: &Path,
    target: &Path,
    definitions: Vec<Definition>,
) -> std::result::Result<(), Malformed> {
    let io = |error: std::io::Error| Malformed::new(format!("cannot be written: {error}"));
    let csv = Csv::new(File::open(partial).map_err(io)?)?;
    let fields = own_csv::fields(&csv.header, None)?;
    let mut writer = ParquetWriter::new(File::create(target).map_err(io)?, definitions)?;
    csv.in_parts(&fields, LastLine::IsTorn, |part| writer.push(part))?;
    writer.finish()?.sync_all().map_err(io)
}
