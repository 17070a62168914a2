//! A folder that is read as `/`: the running machine, or a recorded one.

use std::path::{Path, PathBuf};

/// The folder of `/sys` and `/proc`. `Root::default()` is the running machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root {
    folder: PathBuf,
    is_live: bool,
}

impl Default for Root {
    fn default() -> Self {
        Self::at("/")
    }
}

impl Root {
    /// A recorded machine: `folder` holds `sys/` and `proc/`.
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        let folder = folder.into();
        let is_live = folder == Path::new("/");
        Self { folder, is_live }
    }

    /// A folder that a test takes for the running machine.
    #[cfg(test)]
    pub(crate) fn live_at(folder: impl Into<PathBuf>) -> Self {
        let folder = folder.into();
        let is_live = true;
        Self { folder, is_live }
    }

    /// Whether this is the running machine.
    pub fn is_live(&self) -> bool {
        self.is_live
    }

    /// `path` below this root; a leading `/` is allowed.
    pub fn path(&self, path: &str) -> PathBuf {
        self.folder.join(path.trim_start_matches('/'))
    }

    /// The file's text without trailing white space; `None` if it cannot be read (such as some files of an
    /// offline CPU).
    pub fn text(&self, path: &str) -> Option<String> {
        let path = self.path(path);
        // A recording may hold anything, such as a FIFO that is never written to.
        if !self.is_live() && !std::fs::metadata(&path).ok()?.is_file() {
            return None;
        }
        let text = std::fs::read(path).ok()?;
        Some(String::from_utf8_lossy(&text).trim_end().to_owned())
    }

    /// The file's one line, with spaces for control characters, which must not reach a terminal (a recording
    /// may come from anywhere). `None` if it is absent or empty.
    pub fn line(&self, path: &str) -> Option<String> {
        let line = self
            .text(path)?
            .replace(char::is_control, " ")
            .trim()
            .to_owned();
        (!line.is_empty()).then_some(line)
    }

    /// The names in a folder, ascending; `None` where there is no such folder.
    pub fn names(&self, folder: &str) -> Option<Vec<String>> {
        let entries = std::fs::read_dir(self.path(folder)).ok()?;
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let mut names: Vec<String> = names.collect();
        names.sort_unstable();
        Some(names)
    }

    /// The file's number; `None` where it is absent or is not a number.
    pub fn number(&self, path: &str) -> Option<u64> {
        self.text(path)?.trim().parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_cannot_control_the_terminal() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("name"), "C6\x1b[2J\nC7\n").unwrap();
        std::fs::write(folder.path().join("empty"), "\n").unwrap();
        let root = Root::at(folder.path());
        assert_eq!(root.line("name").as_deref(), Some("C6 [2J C7"));
        assert_eq!(root.line("empty"), None);
        assert_eq!(root.line("absent"), None);
    }

    #[test]
    fn a_fifo_in_a_recording_does_not_block() {
        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join("latency");
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRUSR).unwrap();
        let root = Root::at(folder.path());
        assert_eq!(root.text("latency"), None);
    }

    #[test]
    fn only_the_running_machines_root_is_live() {
        assert!(Root::default().is_live() && Root::at("/").is_live());
        assert!(!Root::at("/tmp").is_live());
        assert_eq!(
            Root::at("/tmp").path("/proc/stat"),
            Path::new("/tmp/proc/stat")
        );
    }
}
