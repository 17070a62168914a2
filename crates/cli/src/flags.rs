//! What flags of several commands choose: `--root`, `--cpu`, `--out`.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use reveille_advise::Unfit;
use reveille_kernel::{Error, Identity, Idle, Root};
use reveille_results::output::{Folder, Naming};

use crate::exit::Failure;
use crate::value::CpuList;

/// The running machine, or the recorded one in `folder`.
pub fn root(folder: Option<&Path>) -> anyhow::Result<Root> {
    match folder {
        Some(folder) if !folder.join("sys").is_dir() => {
            let what = match folder.is_dir() {
                true => "has no sys/ in it",
                false => "not a folder",
            };
            let folder = folder.display();
            Err(Failure::usage(format!(
                "--root {folder}: {what}; give a folder that holds sys/ and proc/"
            )))
        }
        Some(folder) => Ok(Root::at(folder)),
        None => Ok(Root::default()),
    }
}

/// The folder of `--out`, made if missing, for `files`. Called before the work, which would be wasted
/// if its result cannot be kept.
pub fn output_folder(out: Option<&Path>, files: &[&str]) -> anyhow::Result<Option<Folder>> {
    let Some(out) = out else {
        return Ok(None);
    };
    let folder = Folder::make(out, Naming::ByUser)?;
    for file in files {
        folder.refuse_taken(file)?;
    }
    Ok(Some(folder))
}

/// Why the result of `--result` does not judge.
pub fn unfit(error: Unfit) -> anyhow::Error {
    const WITHOUT: &str = "without --result the driver's table is used";
    match error {
        Unfit::OtherMachine { .. } | Unfit::NoLatency { .. } => {
            Failure::usage(format!("--result {error}"))
        }
        Unfit::OtherKind { .. } => Failure::usage(format!("--result {error}; {WITHOUT}")),
        Unfit::NothingMeets(_) => Failure::cannot(format!("--result: {error}; {WITHOUT}")),
        Unfit::NoAdvice { .. } => Error::Failed(error.to_string()).into(),
        Unfit::Other(error) => error.into(),
    }
}

/// The CPUs of the list, ascending; all of the machine, offline ones too, without a list.
pub fn cpus(idle: &Idle, list: Option<&CpuList>) -> anyhow::Result<Vec<u32>> {
    let there: Vec<u32> = idle.cpus.iter().map(|cpu| cpu.number).collect();
    let Some(CpuList(cpus)) = list else {
        return Ok(there);
    };
    match cpus.iter().find(|cpu| !there.contains(cpu)) {
        None => Ok(cpus.clone()),
        Some(missing) => Err(idle.no_cpu(*missing).into()),
    }
}

/// The folder in which results are kept without `--out`.
pub const RESULTS: &str = "reveille-results";

/// Where a result is kept without `--out`.
pub fn default_folder(machine: &Identity, started: SystemTime) -> PathBuf {
    folder_of(machine.hostname.as_deref().unwrap_or("machine"), started)
}

/// Where a result of that host is kept without `--out`.
pub fn folder_of(host: &str, started: SystemTime) -> PathBuf {
    let time = humantime::format_rfc3339_seconds(started).to_string();
    // 2026-11-21T03-35-30: a name for every file system.
    let time = time.trim_end_matches('Z').replace(':', "-");
    Path::new(RESULTS).join(format!("{}-{time}", one_name(host)))
}

/// A host's name may hold any character, and becomes a part of one folder's name.
pub fn one_name(host: &str) -> String {
    let is_plain = |character: char| character.is_alphanumeric() || "-_.".contains(character);
    host.trim_start_matches('.')
        .replace(|character| !is_plain(character), "_")
}

/// Who chose the folder of a result.
pub fn naming(out: Option<&Path>) -> Naming {
    match out {
        Some(_) => Naming::ByUser,
        None => Naming::ByDefault,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_name_cannot_leave_the_folder() {
        assert_eq!(one_name("sklep0.example.org"), "sklep0.example.org");
        assert_eq!(one_name("../../etc/x"), "_.._etc_x");
        assert_eq!(one_name("a b\n"), "a_b_");
    }
}
