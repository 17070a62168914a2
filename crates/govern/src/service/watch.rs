//! Threads that wait for what the service reacts to. They end with the process.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollEvent, EpollTimeout};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, InotifyEvent};
use reveille_kernel::Uevents;

use crate::event::{Event, Seen};
use crate::way;

/// The service rests so many times as long as it reacted: other users' programs, which may change cgroups
/// all the time, take at most some 5 % of a CPU.
const PAUSES: u32 = 19;
const PAUSE_MIN: Duration = Duration::from_millis(20);
/// So that nobody waits for long; only a reaction of 260 ms and more takes a larger share.
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// Sends [`Event::Reload`] when the file is written, replaced or removed, or a link on the way to it changes.
/// Where the kernel does not announce that, SIGHUP is left, and the answer is why, in words.
pub fn file(path: &Path, events: Sender<Event>) -> Option<String> {
    let path = path.to_owned();
    let unwatched = |error| Some(way::unwatched(path.display(), error));
    let inotify = match Inotify::init(InitFlags::IN_CLOEXEC) {
        Ok(inotify) => inotify,
        Err(error) => return unwatched(error),
    };
    let (mut steps, watched) = way::watch(&inotify, &path);
    let problem = watched.err().and_then(unwatched);
    std::thread::spawn(move || {
        while let Ok(seen) = inotify.read_events() {
            let before = std::mem::replace(&mut steps, way::watch(&inotify, &path).0);
            let is_it = steps != before || seen.iter().any(|one| is_of(one, &before));
            if is_it && events.send(Event::Reload).is_err() {
                return;
            }
        }
    });
    problem
}

/// Is the event one of the file's, at the end of these steps?
fn is_of(event: &InotifyEvent, steps: &[PathBuf]) -> bool {
    let is = |flag| event.mask.contains(flag);
    // A file that was made is yet to be written.
    let is_made = is(AddWatchFlags::IN_CREATE) && !is(AddWatchFlags::IN_ISDIR);
    let mut names = steps.iter().flat_map(|step| step.iter());
    let is_named = |name| names.any(|one| one == name);
    let is_of_all = is(AddWatchFlags::IN_Q_OVERFLOW)
        || is(AddWatchFlags::IN_MOVE_SELF)
        || is(AddWatchFlags::IN_DELETE_SELF);
    is_of_all || !is_made && event.name.as_deref().is_some_and(is_named)
}

/// After devices, so that a CPU that is back has its bound within a second. Only root makes them come and go.
const DEVICES_PAUSE_MAX: Duration = Duration::from_millis(500);

/// Sends [`Event::Settings`] when another program has written one of these settings and closed it. One that keeps
/// it open is not noticed; nor is one in another network namespace, which has a sysfs of its own.
pub fn settings(paths: impl Iterator<Item = PathBuf>, events: Sender<Event>) {
    let Ok(inotify) = Inotify::init(InitFlags::IN_CLOEXEC) else {
        return;
    };
    for path in paths {
        // A status looks at all of them.
        let _ = inotify.add_watch(&path, AddWatchFlags::IN_CLOSE_WRITE);
    }
    std::thread::spawn(move || {
        while inotify.read_events().is_ok() && announce(&events, Event::Settings, PAUSE_MAX) {}
    });
}

/// Sends [`Event::Devices`] when a device comes or goes, or its power supply changes.
pub fn devices(events: Sender<Event>) {
    if let Ok(uevents) = Uevents::open() {
        std::thread::spawn(move || {
            while uevents.wait().is_ok() && announce(&events, Event::Devices, DEVICES_PAUSE_MAX) {}
        });
    }
}

/// Sends [`Event::Conditions`] when one of the descriptors can be read.
pub fn conditions(descriptors: Arc<Epoll>, events: Sender<Event>) {
    std::thread::spawn(move || {
        loop {
            let mut one = [EpollEvent::empty()];
            match descriptors.wait(&mut one, EpollTimeout::NONE) {
                Ok(_) if announce(&events, Event::Conditions, PAUSE_MAX) => {}
                Err(Errno::EINTR) => {}
                Ok(_) | Err(_) => return,
            }
        }
    });
}

/// Sends an event, and waits until the service has reacted and rested, no longer than `most`; false if it has ended.
/// So there is one such event at a time, however often others change what it is about.
fn announce(events: &Sender<Event>, event: impl FnOnce(Seen) -> Event, most: Duration) -> bool {
    let (seen, is_seen) = channel();
    let sent = Instant::now();
    if events.send(event(Seen(seen))).is_err() {
        return false;
    }
    // Nothing is sent: it ends when the service drops it.
    let _ = is_seen.recv();
    let pause = (sent.elapsed() * PAUSES).clamp(PAUSE_MIN, most);
    std::thread::sleep(pause);
    true
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::sync::mpsc::Receiver;

    use nix::sys::epoll::{EpollCreateFlags, EpollFlags};
    use nix::sys::eventfd::EventFd;

    use super::*;

    /// How many events come in half a second while there is always one to send, if a reaction takes so long.
    fn events_of_a_flood(reaction: Duration) -> u32 {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).unwrap();
        let always = EventFd::from_value(1).unwrap();
        let event = EpollEvent::new(EpollFlags::EPOLLIN, 0);
        epoll.add(&always, event).unwrap();
        let (sender, received) = channel();
        conditions(Arc::new(epoll), sender);
        let react = |wait| {
            let event = received.recv_timeout(wait);
            let is_one = matches!(event, Ok(Event::Conditions(_)));
            std::thread::sleep(reaction);
            u32::from(is_one)
        };
        // Beside other load the first ones may take long.
        for _ in 0..2 {
            assert_eq!(react(Duration::from_secs(30)), 1);
        }
        let end = Instant::now() + Duration::from_millis(500);
        let mut count = 0;
        while let Some(left) = end.checked_duration_since(Instant::now()) {
            count += react(left);
        }
        count
    }

    #[test]
    fn others_that_change_conditions_all_the_time_get_a_small_share_of_it() {
        let quick = events_of_a_flood(Duration::ZERO);
        assert!(quick <= 25, "{quick}");
        let slow = events_of_a_flood(Duration::from_millis(10));
        assert!(slow <= 3, "{slow}");
    }

    /// Is the file to be read again? Then until no more is announced.
    fn is_changed(received: &Receiver<Event>) -> bool {
        let next = |wait| matches!(received.recv_timeout(wait), Ok(Event::Reload));
        let is_changed = next(Duration::from_secs(1));
        while is_changed && next(Duration::from_millis(100)) {}
        is_changed
    }

    #[test]
    fn rules_behind_links_are_read_again_when_a_link_or_the_file_changes() {
        let folder = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for version in ["v1", "v2"] {
            fs::create_dir(at(version)).unwrap();
            fs::write(at(version).join("rules"), "").unwrap();
        }
        let target = elsewhere.path().join("rules of mine");
        fs::write(&target, "").unwrap();
        // As tools do that switch all files of a folder at once.
        symlink("v1", at("..data")).unwrap();
        symlink("..data/rules", at("rules")).unwrap();
        let switch = |to: &Path, link: &str| {
            symlink(to, at("next")).unwrap();
            fs::rename(at("next"), at(link)).unwrap();
        };
        let (sender, received) = channel();
        assert_eq!(file(&at("rules"), sender), None);
        fs::write(at("v1/rules"), "").unwrap();
        assert!(is_changed(&received), "the file is written");
        switch(Path::new("v2"), "..data");
        assert!(is_changed(&received), "a link above is switched");
        fs::write(at("v2/rules"), "").unwrap();
        assert!(is_changed(&received), "the new file is written");
        switch(&target, "rules");
        assert!(is_changed(&received), "the link is switched");
        fs::write(&target, "").unwrap();
        assert!(is_changed(&received), "the file elsewhere is written");
        fs::remove_file(at("rules")).unwrap();
        assert!(is_changed(&received), "the link is removed");
        symlink(&target, at("rules")).unwrap();
        assert!(is_changed(&received), "it is made again");
        fs::write(at("another"), "").unwrap();
        assert!(!is_changed(&received), "another file is written");
    }
}
