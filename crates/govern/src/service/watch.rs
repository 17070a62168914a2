//! Threads that wait for what the service reacts to. They end with the process.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollEvent, EpollTimeout};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use reveille_kernel::Uevents;

use crate::event::{Event, Seen};

/// The service rests so many times as long as it reacted: other users' programs, which may change cgroups
/// all the time, take at most some 5 % of a CPU.
const PAUSES: u32 = 19;
const PAUSE_MIN: Duration = Duration::from_millis(20);
/// So that nobody waits for long; only a reaction of 260 ms and more takes a larger share.
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// Sends [`Event::Reload`] when the file is written, replaced or removed. Where the kernel does not
/// announce that, SIGHUP is left.
pub fn file(path: &Path, events: Sender<Event>) {
    let name = path.file_name().map(OsStr::to_owned);
    // Editors replace a file: its folder is watched.
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let Ok(inotify) = Inotify::init(InitFlags::IN_CLOEXEC) else {
        return;
    };
    let changes = AddWatchFlags::IN_CLOSE_WRITE
        | AddWatchFlags::IN_MOVED_TO
        | AddWatchFlags::IN_MOVED_FROM
        | AddWatchFlags::IN_DELETE
        | AddWatchFlags::IN_ONLYDIR;
    if inotify.add_watch(folder, changes).is_err() {
        return;
    }
    std::thread::spawn(move || {
        while let Ok(seen) = inotify.read_events() {
            let is_it = seen.iter().any(|one| one.name == name);
            if is_it && events.send(Event::Reload).is_err() {
                return;
            }
        }
    });
}

/// Sends [`Event::Devices`] when a device comes or goes, or its power supply changes.
pub fn devices(events: Sender<Event>) {
    if let Ok(uevents) = Uevents::open() {
        std::thread::spawn(
            move || {
                while uevents.wait().is_ok() && announce(&events, Event::Devices) {}
            },
        );
    }
}

/// Sends [`Event::Conditions`] when one of the descriptors can be read.
pub fn conditions(descriptors: Arc<Epoll>, events: Sender<Event>) {
    std::thread::spawn(move || {
        loop {
            let mut one = [EpollEvent::empty()];
            match descriptors.wait(&mut one, EpollTimeout::NONE) {
                Ok(_) if announce(&events, Event::Conditions) => {}
                Err(Errno::EINTR) => {}
                Ok(_) | Err(_) => return,
            }
        }
    });
}

/// Sends an event, and waits until the service has reacted and rested; false if it has ended. So there is one
/// such event at a time, however often others change what it is about.
fn announce(events: &Sender<Event>, event: impl FnOnce(Seen) -> Event) -> bool {
    let (seen, is_seen) = channel();
    let sent = Instant::now();
    if events.send(event(Seen(seen))).is_err() {
        return false;
    }
    // Nothing is sent: it ends when the service drops it.
    let _ = is_seen.recv();
    let pause = (sent.elapsed() * PAUSES).clamp(PAUSE_MIN, PAUSE_MAX);
    std::thread::sleep(pause);
    true
}

#[cfg(test)]
mod tests {
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
        let end = Instant::now() + Duration::from_millis(500);
        let mut count = 0;
        while let Some(left) = end.checked_duration_since(Instant::now()) {
            if let Ok(Event::Conditions(_seen)) = received.recv_timeout(left) {
                std::thread::sleep(reaction);
                count += 1;
            }
        }
        count
    }

    #[test]
    fn others_that_change_conditions_all_the_time_get_a_small_share_of_it() {
        let quick = events_of_a_flood(Duration::ZERO);
        assert!((2..=25).contains(&quick), "{quick}");
        let slow = events_of_a_flood(Duration::from_millis(10));
        assert!((1..=3).contains(&slow), "{slow}");
    }
}
