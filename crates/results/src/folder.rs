//! A result's folder: making one, describing it, opening it.

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use reveille_show::progress::Reading;

use crate::columns::Columns;
use crate::csv::{Csv, LastLine};
use crate::description::{self, Description, Loaded};
use crate::output::{Existing, Folder, Naming};
use crate::writer::{PARQUET, PARTIAL, Writer};
use crate::{Error, Malformed, Result, own_csv, parquet_file, wult};

pub(crate) const DESCRIPTION: &str = "result.json";
const WULT_INFO: &str = "info.yml";
const WULT_DATAPOINTS: &str = "datapoints.csv";
/// A folder with one of them holds a result.
const FILES: [&str; 5] = [DESCRIPTION, PARQUET, PARTIAL, WULT_INFO, WULT_DATAPOINTS];

/// A description is some kilobytes; a file beyond this is none.
const DESCRIPTION_BYTES_MAX: u64 = 16 << 20;

/// A folder that a result is written to.
///
/// Describe it before the run and again after it: a run that is cut off then has a description.
#[derive(Debug)]
pub struct ResultFolder {
    folder: Arc<Folder>,
}

impl ResultFolder {
    /// Makes the folder that the user has named, and those above it. Errors as [`ResultFolder::of`] and
    /// [`Folder::make`].
    pub fn create(path: impl AsRef<Path>) -> Result<Self> {
        Self::of(Folder::make(path.as_ref(), Naming::ByUser)?)
    }

    /// The folder, for a result; [`Error::Refused`] if it holds one, ours or wult's.
    pub fn of(folder: Folder) -> Result<Self> {
        for name in FILES {
            if folder.holds(name)? {
                return Err(Error::Refused {
                    path: folder.path().to_owned(),
                    why: "holds a result already; choose another folder with --out".into(),
                });
            }
        }
        Ok(Self {
            folder: Arc::new(folder),
        })
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Starts writing datapoints with these residency columns; an error if a name is none of such a column.
    pub fn writer(&self, residency_columns: &[String]) -> Result<Writer> {
        Writer::new(self.folder.clone(), residency_columns)
    }

    /// Writes `result.json`. It is replaced as a whole: a reader sees the old one or the new one, also after
    /// a crash, an error or on a full disk.
    pub fn describe(&self, description: &Description) -> Result<()> {
        let mut text = serde_json::to_vec_pretty(description).map_err(|error| {
            let target = self.path().join(DESCRIPTION);
            Malformed::new(format!("cannot be written: {error}")).at(&target)
        })?;
        text.push(b'\n');
        let mut unfinished = self.folder.begin(DESCRIPTION, Existing::Stays)?;
        let written = unfinished.file.write_all(&text);
        let written = written.and_then(|()| unfinished.file.sync_all());
        written.map_err(|error| unfinished.failed(error))?;
        unfinished.place()?;
        self.folder.sync()
    }

    /// The folder itself, for what else is kept beside the result.
    pub fn folder(&self) -> &Folder {
        &self.folder
    }

    /// [`open`]s the result with the rights that it was written with: all columns, or only these.
    pub fn read_back(&self, columns: Option<&[&str]>) -> Result<Loaded> {
        self.folder.with_its_rights(|| load(self.path(), columns))
    }
}

/// Opens a result: a folder of ours, a folder of wult's, or a CSV file of either. An interrupted run is
/// read as far as it got, with a note in the description.
///
/// # Errors
/// [`Error::Io`] if a file cannot be read; [`Error::Unreadable`] if it is not a result, is damaged, or has an
/// unknown schema.
pub fn open(path: impl AsRef<Path>) -> Result<Loaded> {
    load(path.as_ref(), None)
}

/// As [`open`], with only these columns in memory. A column that the result lacks is left out.
pub fn open_columns(path: impl AsRef<Path>, columns: &[&str]) -> Result<Loaded> {
    load(path.as_ref(), Some(columns))
}

/// As [`open`], only the description.
pub fn open_description(path: impl AsRef<Path>) -> Result<Description> {
    Ok(load(path.as_ref(), Some(&[]))?.description)
}

/// Whether the folder has a file of a result, ours or wult's. [`open`] may still find it damaged.
pub fn is_result(folder: &Path) -> bool {
    is_own(folder) || is_wults(folder)
}

fn is_own(folder: &Path) -> bool {
    let names = [DESCRIPTION, PARQUET, PARTIAL];
    names.into_iter().any(|name| is_there(folder, name))
}

fn is_wults(folder: &Path) -> bool {
    is_there(folder, WULT_INFO) || is_there(folder, WULT_DATAPOINTS)
}

fn load(path: &Path, wanted: Option<&[&str]>) -> Result<Loaded> {
    let metadata = std::fs::metadata(path).map_err(Error::at(path))?;
    let mut loaded = if metadata.is_file() {
        load_file(path, wanted)?
    } else if !metadata.is_dir() {
        return Err(Malformed::new(
            "is neither a folder nor a regular file; expected the folder of a result",
        )
        .at(path));
    } else if is_own(path) {
        load_own(path, wanted)?
    } else if is_wults(path) {
        load_wult(path, wanted)?
    } else {
        return Err(nothing_there(
            path,
            &format!(
                "no result of `measure`; expected a folder with {DESCRIPTION} (reveille) or {WULT_INFO} (wult)"
            ),
        ));
    };
    if loaded.description.name.is_empty() {
        loaded.description.name = name_of(path);
    }
    Ok(loaded)
}

/// Whether [`open`] may find a result, by names alone.
pub fn looks_like_result(path: &Path) -> bool {
    let extension = path.extension().and_then(std::ffi::OsStr::to_str);
    matches!(extension, Some("csv" | "parquet")) || is_result(path)
}

/// A folder without a result is as one that is not there: another one was meant.
fn nothing_there(folder: &Path, why: &str) -> Error {
    Error::at(folder)(std::io::Error::new(std::io::ErrorKind::NotFound, why))
}

fn is_there(folder: &Path, name: &str) -> bool {
    folder.join(name).symlink_metadata().is_ok()
}

/// The file that holds the datapoints of the result at `path`.
pub(crate) fn datapoints_file(path: &Path) -> Result<PathBuf> {
    let metadata = std::fs::metadata(path).map_err(Error::at(path))?;
    if !metadata.is_dir() {
        return Ok(path.to_owned());
    }
    let found = [PARQUET, PARTIAL, WULT_DATAPOINTS]
        .into_iter()
        .find(|name| is_there(path, name));
    match found {
        Some(name) => Ok(path.join(name)),
        None if is_result(path) => Err(without_datapoints(path)),
        None => Err(nothing_there(
            path,
            &format!(
                "no result of `measure`; expected a folder with {PARQUET} (reveille) or \
                 {WULT_DATAPOINTS} (wult)"
            ),
        )),
    }
}

/// The `info.yml` beside a wult result's datapoints, where there is one.
pub(crate) fn wult_info_beside(datapoints: &Path) -> Result<Option<wult::Info>> {
    let path = datapoints.with_file_name(WULT_INFO);
    let is_wult = datapoints
        .file_name()
        .is_some_and(|name| name == WULT_DATAPOINTS);
    match is_wult && path.is_file() {
        true => read_info(&path).map(Some),
        false => Ok(None),
    }
}

/// The folder's name, for reports.
fn name_of(path: &Path) -> String {
    let absolute = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let name = if absolute.is_dir() {
        absolute.file_name()
    } else {
        absolute.file_stem()
    };
    name.map_or_else(
        || path.display().to_string(),
        |name| name.to_string_lossy().into_owned(),
    )
}

fn load_own(folder: &Path, wanted: Option<&[&str]>) -> Result<Loaded> {
    let mut notes = Vec::new();
    let described = if is_there(folder, DESCRIPTION) {
        let path = folder.join(DESCRIPTION);
        let text = read_small(&path, DESCRIPTION_BYTES_MAX)?;
        Some(description::read(&text).map_err(|wrong| wrong.at(&path))?)
    } else {
        notes.push(format!(
            "{DESCRIPTION} is missing: machine and settings are unknown."
        ));
        None
    };
    let parquet = folder.join(PARQUET);
    let partial = folder.join(PARTIAL);
    let columns = if is_there(folder, PARQUET) {
        let file = open_regular(&parquet)?;
        parquet_file::read(file, wanted).map_err(|wrong| wrong.at(&parquet))?
    } else if is_there(folder, PARTIAL) {
        let file = open_regular(&partial)?;
        let table = Csv::new(Reading::of(file, &partial))
            .and_then(|csv| {
                let fields = own_csv::fields(&csv.header, wanted)?;
                csv.all(&fields, LastLine::IsTorn)
            })
            .map_err(|wrong| wrong.at(&partial))?;
        notes.push(match table.columns.rows {
            1 => "The run was cut off; its one datapoint up to then is here.".to_owned(),
            rows => format!("The run was cut off; its {rows} datapoints up to then are all here."),
        });
        table.columns
    } else {
        return Err(without_datapoints(folder));
    };
    let mut description = described.unwrap_or_else(|| undescribed(&columns));
    description.notes.extend(notes);
    Ok(Loaded {
        description,
        columns,
    })
}

/// A result without its datapoints is damaged.
fn without_datapoints(folder: &Path) -> Error {
    let (description, datapoints) = match is_there(folder, DESCRIPTION) {
        true => (DESCRIPTION, PARQUET),
        false => (WULT_INFO, WULT_DATAPOINTS),
    };
    Malformed::new(format!(
        "holds {description} and no datapoints; the run gathered none, or {datapoints} was removed"
    ))
    .at(folder)
}

/// What the datapoints alone reveal.
fn undescribed(columns: &Columns) -> Description {
    let names = columns.columns.iter().map(|column| column.name.clone());
    let residency = names.filter(|name| own_csv::is_residency_column(name));
    let mut description = Description::unknown(residency.collect());
    description.settings.cpu = only_cpu(columns);
    description
}

/// The measured CPU, where all datapoints that were read name the same one.
fn only_cpu(columns: &Columns) -> Option<u32> {
    let cpus = columns.integers("cpu")?;
    let first = *cpus.first()?;
    let same = cpus.iter().all(|cpu| *cpu == first);
    same.then(|| first.try_into().ok()).flatten()
}

fn load_wult(folder: &Path, wanted: Option<&[&str]>) -> Result<Loaded> {
    let path = folder.join(WULT_DATAPOINTS);
    if !is_there(folder, WULT_INFO) {
        return Err(Malformed::new(format!(
            "holds {WULT_DATAPOINTS} without {WULT_INFO}; give the path of the CSV itself to read \
             it alone"
        ))
        .at(folder));
    }
    if !is_there(folder, WULT_DATAPOINTS) {
        return Err(without_datapoints(folder));
    }
    let info = read_info(&folder.join(WULT_INFO))?;
    let file = Reading::of(open_regular(&path)?, &path);
    wult::read_csv(file, Some(&info), wanted).map_err(|wrong| wrong.at(&path))
}

fn read_info(path: &Path) -> Result<wult::Info> {
    wult::read_info_yml(&read_small(path, DESCRIPTION_BYTES_MAX)?).map_err(|wrong| wrong.at(path))
}

fn load_file(path: &Path, wanted: Option<&[&str]>) -> Result<Loaded> {
    let mut file = open_regular(path)?;
    let mut start = Vec::new();
    (&mut file)
        .take(4)
        .read_to_end(&mut start)
        .map_err(Error::at(path))?;
    if start == parquet_file::MAGIC {
        let columns = parquet_file::read(file, wanted).map_err(|wrong| wrong.at(path))?;
        let mut description = undescribed(&columns);
        let note = "A Parquet file alone: machine and settings are unknown.";
        description.notes.push(note.into());
        return Ok(Loaded {
            description,
            columns,
        });
    }
    let info = wult_info_beside(path)?;
    let whole = start.as_slice().chain(Reading::of(file, path));
    let loaded = Csv::new(whole).and_then(|csv| {
        if !own_csv::is_own(&csv.header) {
            return wult::read_opened_csv(csv, info.as_ref(), wanted);
        }
        let fields = own_csv::fields(&csv.header, wanted)?;
        let table = csv.all(&fields, LastLine::MayLackNewline)?;
        let mut description = undescribed(&table.columns);
        description.notes.push(wult::CSV_ALONE.to_owned());
        if table.torn {
            description.notes.push(wult::TORN.to_owned());
        }
        Ok(Loaded {
            description,
            columns: table.columns,
        })
    });
    loaded.map_err(|wrong| wrong.at(path))
}

/// Opens a file that must be one: opening a FIFO would wait for ever, a device never ends.
pub(crate) fn open_regular(path: &Path) -> Result<File> {
    let metadata = std::fs::metadata(path).map_err(Error::at(path))?;
    if !metadata.is_file() {
        return Err(Malformed::new("is not a regular file").at(path));
    }
    File::open(path).map_err(Error::at(path))
}

fn read_small(path: &Path, limit: u64) -> Result<Vec<u8>> {
    let mut text = Vec::new();
    open_regular(path)?
        .take(limit + 1)
        .read_to_end(&mut text)
        .map_err(Error::at(path))?;
    if text.len() as u64 > limit {
        let why = format!("is larger than {limit} bytes; it is not a result");
        return Err(Malformed::new(why).at(path));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_file_is_read_whole_up_to_its_limit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        for text in [&b""[..], b"abc", b"abcd"] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(read_small(&path, 4).unwrap(), text);
        }
        for text in [&b"abcde"[..], b"abcdefgh"] {
            std::fs::write(&path, text).unwrap();
            let refused = read_small(&path, 4).unwrap_err();
            assert!(
                matches!(&refused, Error::Unreadable { path: of, why } if *of == path && why.contains("4 bytes")),
                "{refused:?}"
            );
        }
        assert!(matches!(
            read_small(&folder.path().join("y"), 4),
            Err(Error::Io { .. })
        ));
    }

    #[test]
    fn an_info_file_describes_wults_datapoints_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let beside = |name: &str| wult_info_beside(&folder.path().join(name));
        assert_eq!(beside(WULT_DATAPOINTS).unwrap(), None);
        let info = folder.path().join(WULT_INFO);
        std::fs::write(&info, "toolname: wult\nformat_version: 1.3\n").unwrap();
        let read = beside(WULT_DATAPOINTS).unwrap().unwrap();
        assert_eq!(read.get("toolname").map(String::as_str), Some("wult"));
        // Another file in the same folder is from elsewhere.
        assert_eq!(beside("export.csv").unwrap(), None);
        std::fs::write(&info, "toolname: ndl\n").unwrap();
        assert!(beside(WULT_DATAPOINTS).is_err());
        std::fs::remove_file(&info).unwrap();
        std::fs::create_dir(&info).unwrap();
        assert_eq!(beside(WULT_DATAPOINTS).unwrap(), None);
    }
}
