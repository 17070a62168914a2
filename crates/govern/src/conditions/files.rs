//! Files that may appear, change and vanish, each watched by inotify on the way to it.

use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::sys::inotify::{InitFlags, Inotify};

use crate::way;

/// Of one turn, reads of some hundred events each.
const READS: usize = 64;

/// Files, and how they were last seen.
pub struct Files {
    inotify: Inotify,
    files: Vec<(PathBuf, Option<Seen>)>,
    /// Of which changes are not announced, in words.
    pub unwatched: Option<String>,
}

/// Device, inode, size and time of change (s, ns): another one for another content.
type Seen = (u64, u64, u64, i64, i64);

impl Files {
    /// Watches these from now on.
    ///
    /// # Errors
    /// Where the kernel gives no inotify instance.
    pub fn watch(files: impl IntoIterator<Item = PathBuf>) -> nix::Result<Self> {
        let inotify = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK)?;
        let mut unwatched = None;
        let watched = |path: PathBuf| {
            note(&mut unwatched, &inotify, &path);
            let seen = seen(&path);
            (path, seen)
        };
        let files = files.into_iter().map(watched).collect();
        Ok(Self {
            inotify,
            files,
            unwatched,
        })
    }

    /// Those that appeared, changed or vanished since they were last seen.
    pub fn changed(&mut self) -> Vec<PathBuf> {
        for _ in 0..READS {
            if self.inotify.read_events().is_err() {
                break;
            }
        }
        let mut changed = Vec::new();
        for (path, before) in &mut self.files {
            note(&mut self.unwatched, &self.inotify, path);
            let now = seen(path);
            if now != *before {
                *before = now;
                changed.push(path.clone());
            }
        }
        changed
    }
}

impl AsFd for Files {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inotify.as_fd()
    }
}

fn seen(path: &Path) -> Option<Seen> {
    let of = std::fs::metadata(path).ok()?;
    Some((of.dev(), of.ino(), of.size(), of.mtime(), of.mtime_nsec()))
}

/// Watches the way to a file, and notes the first that is not watched.
fn note(unwatched: &mut Option<String>, inotify: &Inotify, path: &Path) {
    if let (_, Err(error)) = way::watch(inotify, path) {
        unwatched.get_or_insert_with(|| way::unwatched(path.display(), error));
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_file_is_seen_when_it_appears_below_folders_that_appear() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b/result.json");
        let mut files = Files::watch([path.clone()]).unwrap();
        assert!(files.changed().is_empty());
        for missing in ["a", "a/b"] {
            fs::create_dir(folder.path().join(missing)).unwrap();
            assert!(is_announced(&files), "{missing}");
            assert!(files.changed().is_empty());
        }
        fs::write(&path, "1").unwrap();
        assert!(is_announced(&files));
        assert_eq!(files.changed(), std::slice::from_ref(&path));
        assert!(files.changed().is_empty());
        fs::write(folder.path().join("a/b/new"), "12").unwrap();
        fs::rename(folder.path().join("a/b/new"), &path).unwrap();
        assert!(is_announced(&files));
        assert_eq!(files.changed(), std::slice::from_ref(&path));
        fs::remove_dir_all(folder.path().join("a")).unwrap();
        assert_eq!(files.changed(), [path]);
    }

    #[test]
    fn a_file_behind_links_is_seen_when_one_of_them_changes() {
        use std::os::unix::fs::symlink;
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for version in ["v1", "v2"] {
            fs::create_dir(at(version)).unwrap();
            fs::write(at(version).join("file"), version).unwrap();
        }
        symlink("v1", at("data")).unwrap();
        symlink("data/file", at("file")).unwrap();
        let mut files = Files::watch([at("file")]).unwrap();
        fs::write(at("v1/file"), "more").unwrap();
        assert!(is_announced(&files));
        assert_eq!(files.changed(), [at("file")]);
        symlink("v2", at("next")).unwrap();
        fs::rename(at("next"), at("data")).unwrap();
        assert!(is_announced(&files));
        assert_eq!(files.changed(), [at("file")]);
        fs::write(at("v2/file"), "even more").unwrap();
        assert!(is_announced(&files));
        assert_eq!(files.changed(), [at("file")]);
    }

    fn is_announced(files: &Files) -> bool {
        use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
        let mut waited = [PollFd::new(files.as_fd(), PollFlags::POLLIN)];
        poll(&mut waited, PollTimeout::ZERO).unwrap() == 1
    }
}
