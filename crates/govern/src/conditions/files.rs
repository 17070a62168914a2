//! Files that may appear, change and vanish: each is watched by inotify in the nearest folder that exists.

use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use reveille_kernel::{Error, Result};

/// Who moves the folders about while they are watched has so many tries.
const TRIES: usize = 64;

/// Files, and how they were last seen.
pub struct Files {
    inotify: Inotify,
    files: Vec<(PathBuf, Option<Seen>)>,
}

/// Device, inode, size and time of change (s, ns): another one for another content.
type Seen = (u64, u64, u64, i64, i64);

impl Files {
    /// Watches these from now on.
    ///
    /// # Errors
    /// Where the kernel gives no inotify instance.
    pub fn watch(files: impl IntoIterator<Item = PathBuf>) -> Result<Self> {
        let inotify = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK);
        let inotify = inotify.map_err(Error::system("watching files by inotify"))?;
        let watched = |path: PathBuf| {
            watch_nearest(&inotify, &path);
            let seen = seen(&path);
            (path, seen)
        };
        let files = files.into_iter().map(watched).collect();
        Ok(Self { inotify, files })
    }

    /// Those that appeared, changed or vanished since they were last seen.
    pub fn changed(&mut self) -> Vec<PathBuf> {
        for _ in 0..TRIES {
            if self.inotify.read_events().is_err() {
                break;
            }
        }
        let mut changed = Vec::new();
        for (path, before) in &mut self.files {
            watch_nearest(&self.inotify, path);
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

/// Watches the nearest folder above. The next one on the way may appear before that: then it is watched.
fn watch_nearest(inotify: &Inotify, path: &Path) {
    let changes = AddWatchFlags::IN_CREATE
        | AddWatchFlags::IN_CLOSE_WRITE
        | AddWatchFlags::IN_MOVED_TO
        | AddWatchFlags::IN_MOVED_FROM
        | AddWatchFlags::IN_DELETE
        | AddWatchFlags::IN_ONLYDIR;
    let folders: Vec<&Path> = path.ancestors().skip(1).collect();
    let mut watched = folders.len();
    for _ in 0..TRIES {
        let mut above = folders[..watched].iter();
        match above.position(|folder| inotify.add_watch(*folder, changes).is_ok()) {
            Some(nth) => watched = nth,
            None => return,
        }
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

    fn is_announced(files: &Files) -> bool {
        use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
        let mut waited = [PollFd::new(files.as_fd(), PollFlags::POLLIN)];
        poll(&mut waited, PollTimeout::ZERO).unwrap() == 1
    }
}
