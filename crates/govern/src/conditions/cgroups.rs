//! Cgroups that a rule is for: which there are, whether something runs in them, on which CPUs it may, and what
//! latency their attribute asks for.
//!
//! All of it is announced by inotify: folders that come and go and attributes by a watch on the folder above,
//! tasks that come and go by one on `cgroup.events` (Documentation/admin-guide/cgroup-v2.rst, "[Un]populated
//! Notification"), CPUs by one on `cpuset.cpus` of the cgroup and those above it (what a
//! sibling's partition takes is seen at the cgroup's next change). Only folders that can lead to
//! the rule's cgroups are watched.

mod shares;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::ffi::{CString, OsStr};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::libc;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, InotifyEvent, WatchDescriptor};
use reveille_kernel::{Root, cpulist, pm_qos};
use reveille_show::parse;

use self::shares::{Place, Shares};
use crate::rules::{ATTRIBUTE, Cgroup, Glob, Places};
use crate::way;

/// Of one rule, folders that are watched; each takes some 2 KiB of the kernel's memory. Their owners may make any number,
/// so they have [`Shares`] of it.
const MOST: usize = 4096;
/// Of folders below which some are not watched, names that are kept.
const LEFT_OUT_NAMES: usize = 16;
/// Of one turn, reads of some hundred events each: what is left is read in the next turn.
const READS: usize = 64;
/// An attribute that is longer is no latency.
const ATTRIBUTE_BYTES: usize = 32;

/// Where cgroup2 is mounted; `None`: nowhere.
pub fn mount(root: &Root) -> Option<PathBuf> {
    // proc_pid_mountinfo(5): fields, a dash, and the type.
    let mounts = root.text("/proc/self/mountinfo")?;
    mounts.lines().find_map(|line| {
        let (fields, of) = line.split_once(" - ")?;
        let path = fields.split(' ').nth(4)?;
        let is_it = of.split(' ').next() == Some("cgroup2");
        is_it.then(|| root.path(&path.replace("\\040", " ")))
    })
}

/// A rule's cgroups.
pub struct Tree {
    mount: PathBuf,
    glob: Glob,
    by_attribute: bool,
    inotify: Inotify,
    folders: BTreeMap<PathBuf, Folder>,
    watched: HashMap<WatchDescriptor, (Watched, PathBuf)>,
    shares: Shares,
    /// There are more than [`MOST`] folders; some directly below these, the first ones, are not watched.
    pub left_out: BTreeSet<PathBuf>,
    /// Why some are not watched, if the kernel gives no more watches.
    pub unwatched: Option<Errno>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Watched {
    Folder,
    Events,
    Cpus,
}

struct Folder {
    at: Places,
    watches: Vec<WatchDescriptor>,
    state: Option<State>,
}

/// What is new: each folder once, however many events it has, and those above it first.
#[derive(Default)]
struct Changes {
    came_or_went: BTreeSet<PathBuf>,
    /// How these stand.
    stand: BTreeSet<PathBuf>,
}

/// How one of the rule's cgroups stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    /// Is there a task, in it or below?
    pub populated: bool,
    /// Is it frozen?
    pub frozen: bool,
    /// The CPUs that it may use, ascending; `None`: any.
    pub cpus: Option<Vec<u32>>,
    /// With attributes, what its own asks for, µs, or why that is no latency.
    pub asks: Option<std::result::Result<u32, String>>,
}

impl State {
    /// Does it ask for a bound on its CPUs?
    pub fn is_active(&self) -> bool {
        self.populated && !self.frozen && !matches!(self.asks, Some(Err(_)))
    }

    /// May it use that CPU?
    pub fn may_use(&self, cpu: u32) -> bool {
        self.cpus
            .as_ref()
            .is_none_or(|cpus| cpus.binary_search(&cpu).is_ok())
    }
}

impl Tree {
    /// The cgroups below that mount, and their changes from now on.
    ///
    /// # Errors
    /// Where the kernel gives no inotify instance.
    pub fn watch(mount: &Path, cgroup: &Cgroup) -> nix::Result<Self> {
        let inotify = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK);
        let mut tree = Self {
            mount: mount.to_owned(),
            glob: cgroup.path.clone(),
            by_attribute: cgroup.xattr,
            inotify: inotify?,
            folders: BTreeMap::new(),
            watched: HashMap::new(),
            shares: Shares::of(MOST),
            left_out: BTreeSet::new(),
            unwatched: None,
        };
        tree.enter(Path::new(""));
        Ok(tree)
    }

    /// The rule's cgroups: with attributes those that have one.
    pub fn members(&self) -> impl Iterator<Item = (&Path, &State)> {
        let folders = self.folders.iter();
        folders.filter_map(|(path, folder)| Some((path.as_path(), folder.state.as_ref()?)))
    }

    /// That some folders are not watched, and where, in words; `None` if all are.
    pub fn left_out_words(&self) -> Option<String> {
        const NAMES: usize = 3;
        let names = self.left_out.iter().map(|path| shown(path));
        let names: Vec<String> = names.take(NAMES).collect();
        let more = match self.left_out.len().saturating_sub(NAMES) {
            0 => "",
            _ => " and elsewhere",
        };
        let where_ = names.join(", ");
        (!names.is_empty())
            .then(|| format!("more than {MOST} cgroups; some below {where_}{more} get no bound"))
    }

    /// Takes up what has changed.
    pub fn catch_up(&mut self) {
        let mut changes = Changes::default();
        for _ in 0..READS {
            let Ok(events) = self.inotify.read_events() else {
                break;
            };
            if (events.iter()).any(|event| event.mask.contains(AddWatchFlags::IN_Q_OVERFLOW)) {
                return self.again();
            }
            events
                .iter()
                .for_each(|event| self.note(event, &mut changes));
        }
        for path in changes.came_or_went {
            // What was there by that name is another one.
            self.leave(&path);
            self.enter(&path);
        }
        match !self.left_out.is_empty() && self.folders.len() < MOST {
            true => self.again(),
            false => changes.stand.iter().for_each(|path| self.look(path)),
        }
    }

    /// Looks at the CPUs of all: CPUs came or went.
    pub fn look_at_all(&mut self) {
        let members = self.members().map(|(path, _)| path.to_owned());
        let members: Vec<PathBuf> = members.collect();
        members.iter().for_each(|path| self.look(path));
    }

    fn note(&self, event: &InotifyEvent, changes: &mut Changes) {
        let Some((watched, path)) = self.watched.get(&event.wd) else {
            return;
        };
        let is_of = |mask| event.mask.contains(mask);
        let named = || (event.name.as_ref()).map_or(path.clone(), |name| path.join(name));
        match watched {
            Watched::Events => {
                changes.stand.insert(path.clone());
            }
            Watched::Cpus => changes.stand.extend(self.below(path)),
            Watched::Folder if !is_of(AddWatchFlags::IN_ISDIR) => {}
            Watched::Folder if is_of(AddWatchFlags::IN_ATTRIB) => {
                changes.stand.insert(named());
            }
            Watched::Folder => {
                changes.came_or_went.insert(named());
            }
        }
    }

    fn again(&mut self) {
        self.leave(Path::new(""));
        // What is in the queue is of before.
        while self.inotify.read_events().is_ok() {}
        self.left_out.clear();
        self.enter(Path::new(""));
    }

    /// Watches a folder and those below that can lead to cgroups of the rule.
    fn enter(&mut self, path: &Path) {
        // Wide before deep: a deep folder's owner does not take the others' places.
        let mut rest = VecDeque::from([path.to_owned()]);
        while let Some(path) = rest.pop_front() {
            let at = match (path.parent(), path.file_name()) {
                (Some(parent), Some(name)) => match self.folders.get(parent) {
                    Some(parent) => self.glob.below(parent.at, name),
                    None => continue,
                },
                _ => self.glob.start(),
            };
            let (goes_on, is_match) = (self.glob.goes_on(at), self.glob.is_match(at));
            if !goes_on && !is_match || !self.mount.join(&path).is_dir() {
                continue;
            }
            if !self.has_place(&path) {
                continue;
            }
            let folder = Folder {
                at,
                watches: Vec::new(),
                state: None,
            };
            self.folders.insert(path.clone(), folder);
            self.shares.add(&path);
            self.add_watch(
                Watched::Cpus,
                &path,
                "cpuset.cpus",
                AddWatchFlags::IN_MODIFY,
            );
            if goes_on {
                let changes = AddWatchFlags::IN_CREATE
                    | AddWatchFlags::IN_DELETE
                    | AddWatchFlags::IN_ATTRIB
                    | AddWatchFlags::IN_ONLYDIR;
                self.add_watch(Watched::Folder, &path, "", changes);
                rest.extend(self.folders_in(&path));
            }
            self.look(&path);
        }
    }

    /// Makes a place for a folder, if one is due to it.
    fn has_place(&mut self, path: &Path) -> bool {
        let (has_place, left_out) = match self.shares.place_for(path) {
            Place::Free => return true,
            Place::None => (false, path.to_owned()),
            Place::Of(other) => {
                self.leave(&other);
                (true, other)
            }
        };
        if let Some(above) = left_out.parent()
            && self.left_out.len() < LEFT_OUT_NAMES
        {
            self.left_out.insert(above.to_owned());
        }
        has_place
    }

    fn folders_in(&self, path: &Path) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.mount.join(path));
        let entries = entries.into_iter().flatten().flatten();
        let folders = entries.filter(|entry| entry.file_type().is_ok_and(|of| of.is_dir()));
        // No more than these could have a place.
        let folders = folders.take(MOST);
        folders.map(|entry| path.join(entry.file_name())).collect()
    }

    fn below(&self, path: &Path) -> Vec<PathBuf> {
        let from = self.folders.range(path.to_owned()..);
        let below = from.take_while(|(other, _)| other.starts_with(path));
        below.map(|(other, _)| other.clone()).collect()
    }

    fn leave(&mut self, path: &Path) {
        // The deepest first.
        for path in self.below(path).into_iter().rev() {
            let folder = self.folders.remove(&path).expect("it is one of them");
            self.shares.remove(&path);
            for watch in folder.watches {
                self.watched.remove(&watch);
                // The kernel may have dropped it.
                let _ = self.inotify.rm_watch(watch);
            }
        }
    }

    fn add_watch(&mut self, what: Watched, path: &Path, file: &str, changes: AddWatchFlags) {
        let watched = match file {
            "" => self.mount.join(path),
            file => self.mount.join(path).join(file),
        };
        let watch = match self.inotify.add_watch(&watched, changes) {
            Ok(watch) => watch,
            Err(error) => {
                self.unwatched = self
                    .unwatched
                    .or(Some(error).filter(|&one| way::is_exhausted(one)));
                return;
            }
        };
        self.watched.insert(watch, (what, path.to_owned()));
        let folder = self
            .folders
            .get_mut(path)
            .expect("only known folders are watched");
        if !folder.watches.contains(&watch) {
            folder.watches.push(watch);
        }
    }

    /// Looks at how a cgroup stands, if it is one of the rule's.
    fn look(&mut self, path: &Path) {
        // cgroup2's root has no `cgroup.events`.
        let is_match = |folder: &Folder| self.glob.is_match(folder.at) && path != Path::new("");
        if !self.folders.get(path).is_some_and(is_match) {
            return;
        }
        let folder = self.mount.join(path);
        let asks = self.by_attribute.then(|| attribute(&folder));
        let state = match asks {
            Some(None) => None,
            asks => {
                // Before it is read: a change from now on is announced.
                self.add_watch(
                    Watched::Events,
                    path,
                    "cgroup.events",
                    AddWatchFlags::IN_MODIFY,
                );
                state(&folder, asks.flatten())
            }
        };
        if let Some(folder) = self.folders.get_mut(path) {
            folder.state = state;
        }
    }
}

impl AsFd for Tree {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inotify.as_fd()
    }
}

/// `None` if it is no cgroup, or none any more.
fn state(folder: &Path, asks: Option<std::result::Result<u32, String>>) -> Option<State> {
    let text = |file| {
        let path = folder.join(file);
        // A recording may hold anything, such as a FIFO that is never written to.
        let is_file = path.metadata().is_ok_and(|of| of.is_file());
        is_file.then(|| std::fs::read_to_string(path).ok())?
    };
    let events = text("cgroup.events")?;
    let is = |key| events.lines().any(|line| line == key);
    let cpus = text("cpuset.cpus.effective").and_then(|cpus| cpulist::parse(&cpus));
    Some(State {
        populated: is("populated 1"),
        frozen: is("frozen 1"),
        cpus,
        asks,
    })
}

/// What a cgroup's attribute asks for, µs: `50us`, or a number of µs. `None`: it has none.
fn attribute(folder: &Path) -> Option<std::result::Result<u32, String>> {
    let path = CString::new(folder.as_os_str().as_bytes()).ok()?;
    let name = CString::new(ATTRIBUTE).ok()?;
    let mut value = [0_u8; ATTRIBUTE_BYTES];
    // SAFETY: both strings end with a zero, and the kernel writes at most the size of the buffer.
    let length = unsafe {
        let buffer = value.as_mut_ptr().cast();
        libc::getxattr(path.as_ptr(), name.as_ptr(), buffer, value.len())
    };
    match Errno::result(length) {
        Ok(length) => {
            let value = value.get(..length.unsigned_abs())?;
            Some(latency(&String::from_utf8_lossy(value)))
        }
        Err(Errno::ERANGE) => Some(Err(format!("longer than {ATTRIBUTE_BYTES} bytes"))),
        Err(_) => None,
    }
}

fn latency(text: &str) -> std::result::Result<u32, String> {
    let text = text.trim_matches(|c: char| c.is_whitespace() || c == '\0');
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let text = if is_number {
        format!("{text}us")
    } else {
        text.to_owned()
    };
    let latency = parse::time(&text, "50us").and_then(pm_qos::bound_us);
    latency.map_err(|why| why.replace(char::is_control, " "))
}

/// A cgroup's path for people: its owner chose the name.
pub fn shown(path: &Path) -> String {
    let name: &OsStr = match path.as_os_str().is_empty() {
        true => OsStr::new("/"),
        false => path.as_os_str(),
    };
    name.to_string_lossy().replace(char::is_control, " ")
}

#[cfg(test)]
mod tests;
