//! The way to a file, watched by inotify: links on it, and folders that may be missing.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::sys::inotify::{AddWatchFlags, Inotify};

/// Who moves folders and links about while they are watched has so many tries.
const TRIES: usize = 64;
/// The kernel follows no more links either (path_resolution(7)).
const LINKS_MAX: usize = 40;

/// The links on the way to a file, and where the way ends: they decide which file it is.
pub fn steps(path: &Path) -> Vec<PathBuf> {
    let parts = |path: &Path| -> Vec<OsString> {
        let parts = path.components().rev();
        parts.map(|part| part.as_os_str().to_owned()).collect()
    };
    let (mut rest, mut at, mut steps) = (parts(path), PathBuf::new(), Vec::new());
    while let Some(part) = rest.pop() {
        at.push(part);
        if steps.len() < LINKS_MAX
            && let Ok(target) = at.read_link()
        {
            steps.push(at.clone());
            at.pop();
            rest.extend(parts(&target));
        }
    }
    steps.push(at);
    steps
}

/// Watches the folder of each step to a file, or the nearest one above that exists, and returns the steps. To be
/// called again after each event. The error is that something cannot be watched.
pub fn watch(inotify: &Inotify, path: &Path) -> (Vec<PathBuf>, nix::Result<()>) {
    let mut last = steps(path);
    for _ in 0..TRIES {
        let watched = last.iter().try_for_each(|step| nearest(inotify, step));
        let now = steps(path);
        if watched.is_err() || now == last {
            return (now, watched);
        }
        last = now;
    }
    (last, Ok(()))
}

/// Watches the nearest folder above. The next one on the way may appear before that: then it is watched.
fn nearest(inotify: &Inotify, path: &Path) -> nix::Result<()> {
    let changes = AddWatchFlags::IN_CREATE
        | AddWatchFlags::IN_CLOSE_WRITE
        | AddWatchFlags::IN_MOVED_TO
        | AddWatchFlags::IN_MOVED_FROM
        | AddWatchFlags::IN_DELETE
        | AddWatchFlags::IN_MOVE_SELF
        | AddWatchFlags::IN_DELETE_SELF
        | AddWatchFlags::IN_ONLYDIR;
    let folders: Vec<&Path> = path.ancestors().skip(1).collect();
    let mut watched = folders.len();
    for _ in 0..TRIES {
        let mut nearest = None;
        for (nth, folder) in folders[..watched].iter().enumerate() {
            let here = folder.as_os_str().is_empty();
            let folder = if here { Path::new(".") } else { folder };
            match inotify.add_watch(folder, changes) {
                Ok(_) => {
                    nearest = Some(nth);
                    break;
                }
                Err(error) if is_exhausted(error) => return Err(error),
                Err(_) => {}
            }
        }
        match nearest {
            Some(nth) => watched = nth,
            None => return Ok(()),
        }
    }
    Ok(())
}

/// Is it that the kernel gives no more watches, and not that there is nothing to watch?
pub fn is_exhausted(error: Errno) -> bool {
    matches!(error, Errno::ENOSPC | Errno::ENOMEM)
}

/// What a user should know of changes that are not announced, a sentence without its full stop.
pub fn unwatched(what: impl std::fmt::Display, error: Errno) -> String {
    let raise = |what, sysctl| {
        format!(
            "no inotify {what} is left; raise the sysctl fs.inotify.{sysctl} and restart the service"
        )
    };
    let why = match error {
        Errno::ENOSPC => raise("watch", "max_user_watches"),
        Errno::EMFILE => raise("instance", "max_user_instances"),
        other => other.desc().to_owned(),
    };
    format!("changes of {what} are not seen: {why}")
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn each_link_on_the_way_is_a_step() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("v1")).unwrap();
        fs::write(at("v1/file"), "").unwrap();
        symlink("v1", at("data")).unwrap();
        symlink("data/file", at("file")).unwrap();
        symlink(at("gone/file"), at("dangling")).unwrap();
        symlink("loop", at("loop")).unwrap();
        assert_eq!(steps(&at("v1/file")), [at("v1/file")]);
        assert_eq!(steps(&at("file")), [at("file"), at("data"), at("v1/file")]);
        assert_eq!(steps(&at("dangling")), [at("dangling"), at("gone/file")]);
        assert_eq!(steps(&at("loop")).len(), LINKS_MAX + 1);
        assert_eq!(steps(Path::new("file")), [Path::new("file")]);
    }
}
