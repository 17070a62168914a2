//! What flags of several commands choose: times, shares, `--root`, `--cpu`, `--out`.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use reveille_kernel::{Identity, Idle, Root, cpulist};
use reveille_results::output::{Folder, Naming};

use crate::exit::Failure;

/// CPUs as a flag names them. (clap takes a bare `Vec` for a repeated flag.)
#[derive(Debug, Clone)]
pub struct CpuList(Vec<u32>);

impl CpuList {
    /// For clap's `value_parser`.
    pub fn parse(text: &str) -> Result<Self, String> {
        match cpulist::parse(text) {
            Some(cpus) if !cpus.is_empty() => Ok(Self(cpus)),
            _ => Err("not a list of CPUs such as 0-3,8".to_owned()),
        }
    }
}

/// A time above zero, for clap's `value_parser`.
pub fn duration(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(Duration::ZERO) => Err("must be above zero".to_owned()),
        parsed => parsed.map_err(|_| "not a duration such as 30s or 5min".to_owned()),
    }
}

/// `5%`, from 0 to 100, for clap's `value_parser`.
pub fn share(text: &str) -> Result<f64, String> {
    let percent = text
        .strip_suffix('%')
        .and_then(|number| number.parse::<f64>().ok());
    match percent {
        Some(percent) if (0.0..=100.0).contains(&percent) => Ok(percent / 100.0),
        _ => Err("not a share of time such as 5%, from 0% to 100%".to_owned()),
    }
}

/// The running machine, or the recorded one in `folder`.
pub fn root(folder: Option<&Path>) -> anyhow::Result<Root> {
    match folder {
        Some(folder) if !folder.join("sys").is_dir() => {
            let what = match folder.is_dir() {
                true => "has no sys/ in it",
                false => "no such folder",
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

/// The folder of `--out`, made where it is not there yet, in which `files` are to be made. Before the
/// work, which would be in vain if its result cannot be kept.
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

/// The CPUs of the list, ascending; all of the machine, offline ones too, without a list.
pub fn cpus(idle: &Idle, list: Option<&CpuList>) -> anyhow::Result<Vec<u32>> {
    let there: Vec<u32> = idle.cpus.iter().map(|cpu| cpu.number).collect();
    let Some(CpuList(cpus)) = list else {
        return Ok(there);
    };
    match cpus.iter().find(|cpu| !there.contains(cpu)) {
        None => Ok(cpus.clone()),
        Some(missing) => {
            let there = cpulist::format(&there);
            Err(Failure::usage(format!(
                "--cpu: there is no CPU {missing}; this machine has {there}"
            )))
        }
    }
}

/// Where a result is kept without `--out`.
pub fn default_folder(machine: &Identity, started: SystemTime) -> PathBuf {
    let host = machine.hostname.as_deref().unwrap_or("machine");
    let time = humantime::format_rfc3339_seconds(started).to_string();
    // 2026-11-21T03-35-30: a name for every file system.
    let time = time.trim_end_matches('Z').replace(':', "-");
    Path::new("reveille-results").join(format!("{}-{time}", one_name(host)))
}

/// A host's name may hold any character, and is to be a part of one folder's name.
fn one_name(host: &str) -> String {
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
    fn a_time_has_a_unit_and_is_positive() {
        assert_eq!(duration("1500ms"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("0s").unwrap_err(), "must be above zero");
        assert!(duration("30").unwrap_err().starts_with("not a duration"));
    }

    #[test]
    fn shares_are_percentages_of_time() {
        assert_eq!(share("5%"), Ok(0.05));
        assert_eq!(share("0.5%"), Ok(0.005));
        for bad in ["5", "-1%", "101%", "NaN%", "%", "inf%"] {
            assert!(share(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_host_name_cannot_leave_the_folder() {
        assert_eq!(one_name("sklep0.example.org"), "sklep0.example.org");
        assert_eq!(one_name("../../etc/x"), "_.._etc_x");
        assert_eq!(one_name("a b\n"), "a_b_");
    }
}
