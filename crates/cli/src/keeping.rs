//! Where results are kept, and whose they are.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use reveille_machine::Identity;

/// Where a result is kept that was given no place.
pub fn default_folder(machine: &Identity, started: SystemTime) -> PathBuf {
    let host = machine.hostname.as_deref().unwrap_or("machine");
    let time = humantime::format_rfc3339_seconds(started).to_string();
    // 2026-11-21T03-35-30: a name for every file system.
    let time = time.trim_end_matches('Z').replace(':', "-");
    Path::new("reveille-results").join(format!("{host}-{time}"))
}

/// Under sudo the result belongs to who called it.
pub fn hand_over(folder: &Path) {
    let number = |name| std::env::var(name).ok()?.parse::<u32>().ok();
    let (Some(user), Some(group)) = (number("SUDO_UID"), number("SUDO_GID")) else {
        return;
    };
    let give = |path: &Path| {
        // Without it the result is root's: readable all the same.
        let _ = std::os::unix::fs::lchown(path, Some(user), Some(group));
    };
    give(folder);
    if folder
        .parent()
        .is_some_and(|parent| parent.ends_with("reveille-results"))
    {
        give(folder.parent().expect("checked"));
    }
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        give(&entry.path());
    }
}
