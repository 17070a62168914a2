//! For tests only. Tests that change a setting of the machine, or measure it, exclude each other: as threads of one
//! program, in other programs, and in other checkouts.
//!
//! ```no_run
//! use reveille_alone::{Part, Use, take};
//! let _held = take(&[Use::Alone(Part::IdleStates), Use::Beside(Part::Cpus)]);
//! ```

mod apart;
mod beside;

pub use apart::{is_apart, is_apart_with_tracefs};
pub use beside::{Over, while_spinning};

use std::fs::{self, DirBuilder, File};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::libc;
use nix::unistd::{AccessFlags, access};

/// A part of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Time of the CPUs. Alone: who measures how they sleep or wake. Beside: who loads them for more than a moment.
    Cpus,
    /// What decides where a CPU sleeps: latency bounds, disabled states, the governor, whether it is online. Alone: who
    /// changes that. Beside: who needs that it stays.
    IdleStates,
    /// The disk and what the kernel keeps of it.
    Disk,
    /// Which CPUs serve which interrupts.
    Interrupts,
}

/// How a test uses a part.
#[derive(Debug, Clone, Copy)]
pub enum Use {
    /// Nobody else may use it.
    Alone(Part),
    /// Others may use it so, too.
    Beside(Part),
}

impl Use {
    fn how(self, waits: bool) -> FlockArg {
        match (self, waits) {
            (Self::Alone(_), true) => FlockArg::LockExclusive,
            (Self::Alone(_), false) => FlockArg::LockExclusiveNonblock,
            (Self::Beside(_), true) => FlockArg::LockShared,
            (Self::Beside(_), false) => FlockArg::LockSharedNonblock,
        }
    }

    fn part(self) -> Part {
        match self {
            Self::Alone(part) | Self::Beside(part) => part,
        }
    }
}

/// Parts that are held until it is dropped, or the process ends.
#[derive(Debug)]
pub struct Held {
    _locks: Vec<Flock<File>>,
}

/// Waits until these parts are free.
///
/// # Panics
/// If the folder of temporary files cannot hold the locks, or another user has put something in their place.
#[must_use]
pub fn take(uses: &[Use]) -> Held {
    // Not below target/: other checkouts change the same machine.
    let user = nix::unistd::geteuid();
    take_in(
        &std::env::temp_dir().join(format!("reveille-tests-{user}")),
        uses,
    )
}

/// As [`take`], by a test that changes how CPUs sleep; `None`, with a word, where /sys is read-only and stays so, as in some
/// containers.
#[must_use]
pub fn take_to_change(uses: &[Use]) -> Option<Held> {
    let settings = "/sys/devices/system/cpu";
    if access(settings, AccessFlags::W_OK) == Err(Errno::EROFS) {
        let thread = std::thread::current();
        let test = thread.name().unwrap_or("a test");
        println!("skipped: {test}: {settings} is read-only here");
        return None;
    }
    Some(take(uses))
}

fn take_in(folder: &Path, uses: &[Use]) -> Held {
    let shown = folder.display();
    let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.unwrap_or_else(|error| panic!("{shown}: {error}"));
    // Anybody may write beside it, and root must follow nobody's link.
    let place = fs::symlink_metadata(folder).unwrap_or_else(|error| panic!("{shown}: {error}"));
    let is_own = place.is_dir() && place.uid() == nix::unistd::geteuid().as_raw();
    assert!(is_own, "{shown}: is another user's, or no folder");
    let open = |one: Use| {
        let file = File::options()
            .write(true)
            .create(true)
            .truncate(false)
            .custom_flags(libc::O_NOFOLLOW)
            .open(folder.join(format!("{:?}", one.part())));
        file.unwrap_or_else(|error| panic!("{shown}: {error}"))
    };
    // It waits for one with none in hand: then others may have them meanwhile, and no two wait for each other.
    let mut awaited = 0;
    loop {
        let mut locks = Vec::new();
        for (place, &one) in uses
            .iter()
            .enumerate()
            .cycle()
            .skip(awaited)
            .take(uses.len())
        {
            let is_first = place == awaited;
            match lock(open(one), one.how(is_first)) {
                Ok(lock) => locks.push(lock),
                Err(Errno::EWOULDBLOCK) => {
                    awaited = place;
                    break;
                }
                Err(error) => panic!("{shown}: {error}"),
            }
        }
        if locks.len() == uses.len() {
            return Held { _locks: locks };
        }
    }
}

fn lock(mut file: File, how: FlockArg) -> Result<Flock<File>, Errno> {
    loop {
        match Flock::lock(file, how) {
            Ok(held) => return Ok(held),
            Err((again, Errno::EINTR)) => file = again,
            Err((_, error)) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, channel};
    use std::time::Duration;

    use super::*;

    /// Another thread, which says when it has these.
    fn wants(folder: &Path, wanted: &[Use]) -> Receiver<()> {
        let (tell, told) = channel();
        let (folder, wanted) = (folder.to_owned(), wanted.to_vec());
        std::thread::spawn(move || {
            let _held = take_in(&folder, &wanted);
            // The test may have ended.
            let _ = tell.send(());
        });
        told
    }

    #[test]
    fn a_link_that_was_planted_is_not_followed() {
        let made = tempfile::tempdir().unwrap();
        let folder = made.path();
        let (outside, locks, linked) = (
            folder.join("outside"),
            folder.join("locks"),
            folder.join("linked"),
        );
        fs::create_dir_all(&locks).unwrap();
        fs::write(&outside, "mine").unwrap();
        std::os::unix::fs::symlink(&outside, locks.join("Disk")).unwrap();
        std::os::unix::fs::symlink(&locks, &linked).unwrap();
        let take =
            |place: &Path| std::panic::catch_unwind(|| take_in(place, &[Use::Alone(Part::Disk)]));
        assert!(take(&locks).is_err() && take(&linked).is_err());
        assert_eq!(fs::read_to_string(&outside).unwrap(), "mine");
        fs::remove_file(locks.join("Disk")).unwrap();
        assert!(take(&locks).is_ok() && take(&linked).is_err());
    }

    #[test]
    fn who_is_alone_excludes_all_and_others_only_who_wants_to_be_alone() {
        let made = tempfile::tempdir().unwrap();
        let folder = made.path();
        let (one, other) = (Part::Disk, Part::Interrupts);
        let (a_while, patience) = (Duration::from_millis(200), Duration::from_secs(60));
        for (held, wanted, waits) in [
            (Use::Alone(one), Use::Alone(one), true),
            (Use::Alone(one), Use::Beside(one), true),
            (Use::Beside(one), Use::Alone(one), true),
            (Use::Beside(one), Use::Beside(one), false),
            (Use::Alone(one), Use::Alone(other), false),
        ] {
            let first = take_in(folder, &[held]);
            let second = wants(folder, &[wanted]);
            if waits {
                assert!(
                    second.recv_timeout(a_while).is_err(),
                    "{held:?}, {wanted:?}"
                );
                drop(first);
            }
            assert!(
                second.recv_timeout(patience).is_ok(),
                "{held:?}, {wanted:?}"
            );
        }
    }

    #[test]
    fn who_waits_for_one_part_keeps_nobody_from_another() {
        let made = tempfile::tempdir().unwrap();
        let folder = made.path();
        let both = [Use::Alone(Part::Cpus), Use::Alone(Part::IdleStates)];
        for busy in both {
            let first = take_in(folder, &[busy]);
            let waits = wants(folder, &both);
            assert!(waits.recv_timeout(Duration::from_millis(200)).is_err());
            let other = both.into_iter().find(|one| one.part() != busy.part());
            let other = wants(folder, other.as_slice());
            assert!(other.recv_timeout(Duration::from_secs(60)).is_ok());
            drop(first);
            assert!(waits.recv_timeout(Duration::from_secs(60)).is_ok());
        }
    }
}
