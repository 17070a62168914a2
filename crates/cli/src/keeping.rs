//! Where results are kept that were given no place.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use reveille_kernel::Identity;
use reveille_results::output::Naming;

/// Where a result is kept that was given no place.
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
    fn a_host_name_cannot_lead_out_of_the_folder() {
        assert_eq!(one_name("sklep0.example.org"), "sklep0.example.org");
        assert_eq!(one_name("../../etc/x"), "_.._etc_x");
        assert_eq!(one_name("a b\n"), "a_b_");
    }
}
