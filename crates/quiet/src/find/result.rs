//! The result of `reveille quiet find`, kept as `quiet.json`.

use std::path::Path;

use reveille_kernel::{Error, Result, files};
use reveille_results::kept::{self, About};
use serde::{Deserialize, Serialize};

use super::group::{self, Foreground, Group, Slept};
use super::process::Reason;
use super::recorded::Recorded;

/// The file's name in the result's folder.
pub const FILE: &str = "quiet.json";

/// The version of its schema.
pub const SCHEMA_VERSION: u32 = 1;

/// A result has some hundred bytes a group.
const BYTES_MAX: u64 = 64 << 20;

/// The whole result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Found {
    /// Who made it, when, where.
    #[serde(flatten)]
    pub about: About,
    /// How long was recorded.
    pub elapsed_ns: u64,
    /// By how much a wake-up may be delayed.
    pub within_ns: u64,
    /// As it was.
    pub recorded: Slept,
    /// With timer slack for all groups that may wait.
    pub with_slack: Slept,
    /// With all groups that may wait held.
    pub held: Slept,
    /// Most wake-ups first.
    pub groups: Vec<Group>,
    /// What else there is to know.
    pub notes: Vec<String>,
}

/// From this share of lost events on, a note says that the figures are too low.
const LOST: f64 = 0.001;

impl Found {
    /// Of a recording.
    pub fn of(about: About, recorded: &Recorded, foreground: &Foreground, within_ns: u64) -> Self {
        let told = group::tell(recorded, foreground, within_ns);
        let mut notes = Vec::new();
        if recorded.lost as f64 > LOST * recorded.trace.events.len() as f64 {
            notes.push(format!(
                "{} of {} events did not fit into the buffer: this machine is too busy for true figures",
                recorded.lost,
                recorded.lost + recorded.trace.events.len() as u64
            ));
        }
        if let Foreground::Cgroup(name) = foreground
            && !told
                .groups
                .iter()
                .any(|group| group.reason == Some(Reason::Foreground))
        {
            notes.push(format!("nothing in cgroup {name} woke a CPU"));
        }
        Self {
            about,
            elapsed_ns: recorded.trace.ended_ns - recorded.trace.began_ns,
            within_ns,
            recorded: told.recorded,
            with_slack: told.with_slack,
            held: told.held,
            groups: told.groups,
            notes,
        }
    }
}

/// Reads such a file's text.
///
/// # Errors
/// In a line, without the file's path.
pub fn parse(text: &[u8]) -> std::result::Result<Found, String> {
    kept::parse(text, FILE, SCHEMA_VERSION)
}

/// Reads a result: its folder, or the file in it.
///
/// # Errors
/// [`Error::Usage`] if it cannot be read or is none.
pub fn open(path: &Path) -> Result<Found> {
    let file = match path.is_dir() {
        true => path.join(FILE),
        false => path.to_owned(),
    };
    let text = files::read(&file, BYTES_MAX)?;
    parse(&text).map_err(|why| Error::Usage(format!("{}: {why}", file.display())))
}
