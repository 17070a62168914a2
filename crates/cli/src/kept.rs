//! Results that commands keep, identified by content.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use reveille_power::{cpus, states};
use reveille_quiet::find as quiet;
use reveille_results::is_result;
use reveille_show::sheet::Sheet;
use reveille_stage::bench::result as staged;
use serde::Serialize;
use serde::de::IgnoredAny;

use crate::exit::Failure;

/// A result on disk.
pub enum Kept {
    /// Datapoints of `measure` or of another tool.
    Measured,
    /// The folder of a `resume capture`: logs.
    Captured,
    /// The file of another command.
    File(PathBuf, Kind),
}

/// A file that another command keeps in its folder, or prints with `--json`.
#[derive(Clone, Copy)]
pub enum Kind {
    Cost,
    Path,
    Trial,
    Bench,
    PowerCpus,
    PowerStates,
    Quiet,
    StageBench,
    Resume,
}

/// Receives a result and its sheet.
pub trait Visit {
    type Out;
    fn visit(self, result: &impl Serialize, sheet: Sheet<'_>) -> Self::Out;
}

impl Kind {
    const ALL: [Self; 9] = [
        Self::Cost,
        Self::Path,
        Self::Trial,
        Self::Bench,
        Self::PowerCpus,
        Self::PowerStates,
        Self::Quiet,
        Self::StageBench,
        Self::Resume,
    ];

    /// The file's name, and a key that no other of these files has.
    fn signs(self) -> (&'static str, &'static str) {
        match self {
            Self::Cost => (reveille_watch::cost::FILE, "forbidding"),
            Self::Path => (reveille_watch::path::FILE, "delays"),
            Self::Trial => (reveille_trial::result::FILE, "verdict"),
            Self::Bench => (reveille_anticipate::bench::result::FILE, "policies"),
            Self::PowerCpus => (cpus::FILE, "orders"),
            Self::PowerStates => (states::FILE, "idle_states"),
            Self::Quiet => (quiet::FILE, "with_slack"),
            Self::StageBench => (staged::FILE, "grid_s"),
            Self::Resume => (reveille_resume::analysis::FILE, "machines"),
        }
    }

    /// Reads such a file.
    ///
    /// # Errors
    /// It cannot be read, is another file, was cut short, or has another schema.
    pub fn read<V: Visit>(self, file: &Path, visit: V) -> anyhow::Result<V::Out> {
        let text = fs::read(file).map_err(reveille_kernel::Error::at(file))?;
        let text = text.as_slice();
        let wrong = |why: String| anyhow::anyhow!("{}: {why}", file.display());
        Ok(match self {
            Self::Cost => {
                let cost = reveille_watch::cost::read(text).map_err(wrong)?;
                visit.visit(&cost, reveille_watch::cost::show::sheet(&cost))
            }
            Self::Path => {
                let path = reveille_watch::path::read(text).map_err(wrong)?;
                visit.visit(&path, reveille_watch::path::show::sheet(&path))
            }
            Self::Trial => {
                let trial = reveille_trial::result::parse(text).map_err(wrong)?;
                visit.visit(&trial, reveille_trial::show::sheet(&trial))
            }
            Self::Bench => {
                let bench = reveille_anticipate::bench::result::parse(text).map_err(wrong)?;
                visit.visit(&bench, reveille_anticipate::bench::show::sheet(&bench))
            }
            Self::PowerCpus => {
                let cpus = cpus::parse(text).map_err(wrong)?;
                visit.visit(&cpus, cpus::show::sheet(&cpus))
            }
            Self::PowerStates => {
                let states = states::parse(text).map_err(wrong)?;
                visit.visit(&states, states::show::sheet(&states))
            }
            Self::Quiet => {
                let found = quiet::parse(text).map_err(wrong)?;
                visit.visit(&found, quiet::show::sheet(&found))
            }
            Self::StageBench => {
                let bench = staged::parse(text).map_err(wrong)?;
                visit.visit(&bench, reveille_stage::bench::show::sheet(&bench))
            }
            Self::Resume => {
                let analysis = reveille_resume::analysis::read(text).map_err(wrong)?;
                visit.visit(&analysis, reveille_resume::show::sheet(&analysis, None))
            }
        })
    }
}

/// What is at `path`.
///
/// # Errors
/// It is missing, or is a folder or JSON without a result.
pub fn find(path: &Path) -> anyhow::Result<Kept> {
    let metadata = fs::metadata(path).map_err(reveille_kernel::Error::at(path))?;
    if metadata.is_dir() {
        return in_folder(path);
    }
    // Opening a FIFO would wait, and a device may not end; the reader of datapoints refuses both.
    if !metadata.is_file() {
        return Ok(Kept::Measured);
    }
    let name = path.file_name();
    let by_name = |kind: &Kind| name.is_some_and(|name| name == kind.signs().0);
    if let Some(kind) = Kind::ALL.into_iter().find(by_name) {
        return Ok(Kept::File(path.to_owned(), kind));
    }
    match keys(path)? {
        // Datapoints are a table.
        None => Ok(Kept::Measured),
        Some(keys) => by_keys(path, &keys),
    }
}

fn in_folder(path: &Path) -> anyhow::Result<Kept> {
    if is_result(path) {
        return Ok(Kept::Measured);
    }
    let files = Kind::ALL
        .into_iter()
        .map(|kind| (path.join(kind.signs().0), kind));
    if let Some((file, kind)) = files.into_iter().find(|(file, _)| file.is_file()) {
        return Ok(Kept::File(file, kind));
    }
    match path.join(reveille_resume::capture::RECORD).is_file() {
        true => Ok(Kept::Captured),
        false => Err(Failure::usage(format!(
            "{}: no result; give a folder written by reveille or wult",
            path.display()
        ))),
    }
}

/// Whether a folder has the file of another command than `measure`.
pub fn is_kept(folder: &Path) -> bool {
    let mut names = Kind::ALL.into_iter().map(|kind| kind.signs().0);
    names.any(|name| folder.join(name).is_file())
}

fn by_keys(path: &Path, keys: &BTreeMap<String, IgnoredAny>) -> anyhow::Result<Kept> {
    let is_ours = |kind: &Kind| keys.contains_key("tool") && keys.contains_key(kind.signs().1);
    let kind = Kind::ALL.into_iter().find(is_ours);
    if let Some(kind) = kind {
        return Ok(Kept::File(path.to_owned(), kind));
    }
    let advice = match keys.contains_key("characterisation") {
        true => "describes a result; give its folder",
        false => {
            "unknown JSON; give a file of `cost`, `path`, `trial`, `anticipate bench`, `power` or \
                  `resume analyze --json`"
        }
    };
    Err(anyhow::anyhow!("{}: {advice}", path.display()))
}

/// The keys of a JSON object; `None` for any other file. A table of datapoints may be long, and is not read.
fn keys(path: &Path) -> anyhow::Result<Option<BTreeMap<String, IgnoredAny>>> {
    let at = || reveille_kernel::Error::at(path);
    let mut file = BufReader::new(fs::File::open(path).map_err(at())?);
    let start = file.fill_buf().map_err(at())?;
    if start.trim_ascii_start().first() != Some(&b'{') {
        return Ok(None);
    }
    let damaged = |error| anyhow::anyhow!("{}: is damaged JSON: {error}", path.display());
    serde_json::from_reader(file).map(Some).map_err(damaged)
}
