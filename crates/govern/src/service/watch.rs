//! Threads that wait for what the service reacts to. They end with the process.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::mpsc::Sender;

use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use reveille_kernel::Uevents;

use crate::event::Event;

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

/// Sends [`Event::Devices`] when a device comes or goes.
pub fn devices(events: Sender<Event>) {
    if let Ok(uevents) = Uevents::open() {
        std::thread::spawn(
            move || {
                while uevents.wait().is_ok() && events.send(Event::Devices).is_ok() {}
            },
        );
    }
}
