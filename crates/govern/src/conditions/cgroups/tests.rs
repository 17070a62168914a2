use std::fs;
use std::os::fd::AsRawFd;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use nix::mount::{MsFlags, mount};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CloneFlags, unshare};

use super::*;
use crate::rules::Rules;

fn cgroup(condition: &str) -> Cgroup {
    let xattr = if condition.contains("xattr") {
        "at_least"
    } else {
        "latency"
    };
    let rule = format!("[[rule]]\nname = \"a\"\n{xattr} = \"5us\"\nwhen.cgroup = {condition}\n");
    let rules = Rules::parse(&rule).unwrap();
    rules.rules[0].when.cgroup.clone().unwrap()
}

/// A folder like a cgroup's.
fn make(mount: &Path, path: &str, events: &str) {
    fs::create_dir_all(mount.join(path)).unwrap();
    fs::write(mount.join(path).join("cgroup.events"), events).unwrap();
}

const BUSY: &str = "populated 1\nfrozen 0\n";
const EMPTY: &str = "populated 0\nfrozen 0\n";

fn active(tree: &Tree) -> Vec<String> {
    let active = tree.members().filter(|(_, state)| state.is_active());
    active.map(|(path, _)| shown(path)).collect()
}

fn is_announced(tree: &Tree) -> bool {
    let mut waited = [PollFd::new(tree.as_fd(), PollFlags::POLLIN)];
    poll(&mut waited, PollTimeout::ZERO).unwrap() == 1
}

/// Waits for what the kernel announces, until it is so.
fn until(tree: &mut Tree, what: &str, is_so: impl Fn(&Tree) -> bool) {
    let end = Instant::now() + Duration::from_secs(10);
    while !is_so(tree) {
        assert!(Instant::now() < end, "not within 10 s: {what}");
        let mut waited = [PollFd::new(tree.as_fd(), PollFlags::POLLIN)];
        poll(&mut waited, PollTimeout::from(1000_u16)).unwrap();
        tree.catch_up();
    }
}

#[test]
fn the_rules_cgroups_are_found_with_how_they_stand() {
    let folder = tempfile::tempdir().unwrap();
    make(folder.path(), "a.slice/one.service", BUSY);
    make(folder.path(), "a.slice/two.service", EMPTY);
    make(folder.path(), "a.slice/other.scope", BUSY);
    make(folder.path(), "b.slice/one.service", BUSY);
    fs::write(
        folder
            .path()
            .join("a.slice/one.service/cpuset.cpus.effective"),
        "1-2,7\n",
    )
    .unwrap();
    let tree = Tree::watch(folder.path(), &cgroup("\"a.slice/*.service\"")).unwrap();
    let members: Vec<_> = tree.members().collect();
    let state = |populated, cpus| State {
        populated,
        frozen: false,
        cpus,
        asks: None,
    };
    assert_eq!(
        members,
        [
            (
                Path::new("a.slice/one.service"),
                &state(true, Some(vec![1, 2, 7]))
            ),
            (Path::new("a.slice/two.service"), &state(false, None)),
        ]
    );
    assert!(members[0].1.may_use(7) && !members[0].1.may_use(3) && members[1].1.may_use(3));
    // Only folders that lead there are watched.
    assert!(!tree.folders.contains_key(Path::new("b.slice/one.service")));
}

#[test]
fn a_fifo_in_a_recording_does_not_block() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("a")).unwrap();
    let fifo = folder.path().join("a/cgroup.events");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRUSR).unwrap();
    let tree = Tree::watch(folder.path(), &cgroup("\"a\"")).unwrap();
    assert_eq!(tree.members().count(), 0);
}

#[test]
fn folders_that_come_change_and_go_are_followed() {
    let folder = tempfile::tempdir().unwrap();
    let mut tree = Tree::watch(folder.path(), &cgroup("\"a/**/x\"")).unwrap();
    make(folder.path(), "a/b/x", BUSY);
    assert!(is_announced(&tree));
    tree.catch_up();
    assert_eq!(active(&tree), ["a/b/x"]);
    assert!(!is_announced(&tree));
    make(folder.path(), "a/b/x", EMPTY);
    assert!(is_announced(&tree));
    tree.catch_up();
    assert!(active(&tree).is_empty());
    make(folder.path(), "a/b/x", BUSY);
    fs::write(folder.path().join("a/b/x/cpuset.cpus"), "").unwrap();
    tree.catch_up();
    fs::remove_dir_all(folder.path().join("a/b")).unwrap();
    make(folder.path(), "a/b/x/c/x", BUSY);
    tree.catch_up();
    assert_eq!(active(&tree), ["a/b/x/c/x"]);
    fs::remove_dir_all(folder.path().join("a")).unwrap();
    tree.catch_up();
    assert_eq!(tree.members().count(), 0);
    assert_eq!((tree.folders.len(), tree.watched.len()), (1, 1));
    make(folder.path(), "a/x", BUSY);
    tree.catch_up();
    assert_eq!(kernels_watches(&tree), tree.watched.len());
    tree.leave(Path::new(""));
    assert_eq!((kernels_watches(&tree), tree.watched.len()), (0, 0));
}

/// proc_pid_fdinfo(5).
fn kernels_watches(tree: &Tree) -> usize {
    let descriptor = tree.as_fd().as_raw_fd();
    let of = fs::read_to_string(format!("/proc/self/fdinfo/{descriptor}"));
    of.unwrap().matches("inotify wd:").count()
}

#[test]
fn cpus_that_change_above_a_cgroup_are_seen() {
    let folder = tempfile::tempdir().unwrap();
    make(folder.path(), "a/x", BUSY);
    fs::write(folder.path().join("a/cpuset.cpus"), "0-3\n").unwrap();
    fs::write(folder.path().join("a/x/cpuset.cpus.effective"), "0-3\n").unwrap();
    let mut tree = Tree::watch(folder.path(), &cgroup("\"a/x\"")).unwrap();
    fs::write(folder.path().join("a/x/cpuset.cpus.effective"), "2\n").unwrap();
    assert!(!is_announced(&tree));
    fs::write(folder.path().join("a/cpuset.cpus"), "2\n").unwrap();
    tree.catch_up();
    let (_, state) = tree.members().next().unwrap();
    assert_eq!(state.cpus, Some(vec![2]));
}

#[test]
fn a_flood_of_cgroups_is_bounded_and_does_not_hide_what_is_nearer_the_root() {
    let folder = tempfile::tempdir().unwrap();
    let nearer = ["a/x", "b/x"];
    nearer
        .iter()
        .for_each(|path| make(folder.path(), path, BUSY));
    // Whichever is looked at first.
    let floods = ["a/flood", "b/flood"].map(|path| folder.path().join(path));
    for flood in &floods {
        fs::create_dir(flood).unwrap();
        (0..MOST).for_each(|nth| fs::create_dir(flood.join(nth.to_string())).unwrap());
    }
    let mut tree = Tree::watch(folder.path(), &cgroup("\"**\"")).unwrap();
    assert_eq!(active(&tree), nearer);
    assert_eq!(tree.folders.len(), MOST);
    let left_out: Vec<&Path> = tree.left_out.iter().map(PathBuf::as_path).collect();
    assert_eq!(left_out, ["a/flood", "b/flood"].map(Path::new));
    // Who comes later has a place, and who floods has one less.
    make(folder.path(), "c", BUSY);
    make(folder.path(), "a/late/x", BUSY);
    until(&mut tree, "those that come later are watched", |tree| {
        active(tree) == ["a/late/x", "a/x", "b/x", "c"]
    });
    assert_eq!(tree.folders.len(), MOST);
    assert_eq!(kernels_watches(&tree), tree.watched.len());
    fs::remove_dir_all(folder.path().join("c")).unwrap();
    fs::remove_dir_all(folder.path().join("a/late")).unwrap();
    floods
        .iter()
        .for_each(|flood| fs::remove_dir_all(flood).unwrap());
    make(folder.path(), "b/y", BUSY);
    until(&mut tree, "all are watched again", |tree| {
        tree.left_out.is_empty()
    });
    assert_eq!(active(&tree), ["a/x", "b/x", "b/y"]);
}

#[test]
fn after_more_events_than_the_kernel_keeps_all_is_read_again() {
    let folder = tempfile::tempdir().unwrap();
    make(folder.path(), "a", BUSY);
    make(folder.path(), "b", BUSY);
    let mut tree = Tree::watch(folder.path(), &cgroup("\"*\"")).unwrap();
    let most = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap();
    let most: usize = most.trim().parse().unwrap();
    if most > 1 << 17 {
        return println!(
            "skipped: after_more_events_than_the_kernel_keeps_all_is_read_again: {most}"
        );
    }
    // Two in turn: like events one after the other are one.
    for _ in 0..most / 2 + 100 {
        fs::write(folder.path().join("a/cgroup.events"), EMPTY).unwrap();
        fs::write(folder.path().join("b/cgroup.events"), EMPTY).unwrap();
    }
    make(folder.path(), "c", BUSY);
    until(&mut tree, "the last is seen", |tree| active(tree) == ["c"]);
}

#[test]
fn an_attribute_is_a_time_or_a_number_of_microseconds() {
    assert_eq!(latency("50us"), Ok(50));
    assert_eq!(latency("50\n"), Ok(50));
    assert_eq!(latency("1ms\0"), Ok(1000));
    assert_eq!(latency("0"), Ok(0));
    for (text, why) in [
        ("", "not a time"),
        ("-1", "negative"),
        ("50 apples", "unit"),
        ("99999999999999999999", "not a time"),
        ("2000s", "beyond"),
        ("1\u{1b}[2Jx", ""),
    ] {
        let error = latency(text).unwrap_err();
        assert!(
            error.contains(why) && !error.contains(char::is_control),
            "{text}: {error}"
        );
    }
}

#[test]
fn the_mount_of_cgroup2_is_found_by_its_type() {
    let folder = tempfile::tempdir().unwrap();
    let root = Root::at(folder.path());
    assert_eq!(mount_of(&root, ""), None);
    let v1 = "30 26 0:26 / /sys/fs/cgroup/cpu rw shared:9 - cgroup cgroup rw,cpu\n";
    assert_eq!(mount_of(&root, v1), None);
    let v2 = "31 26 0:27 / /sys/fs/my\\040cgroups rw,nosuid shared:10 - cgroup2 cgroup2 rw\n";
    let path = root.path("/sys/fs/my cgroups");
    assert_eq!(mount_of(&root, &format!("{v1}{v2}")), Some(path));
}

fn mount_of(root: &Root, mounts: &str) -> Option<PathBuf> {
    fs::create_dir_all(root.path("/proc/self")).unwrap();
    fs::write(root.path("/proc/self/mountinfo"), mounts).unwrap();
    super::mount(root)
}

/// Runs a test with the kernel's cgroup2 at a folder; it is gone afterwards, with this thread's namespace.
fn with_kernels_cgroups(test: &str, run: impl FnOnce(&Path) + Send) {
    let folder = tempfile::tempdir().unwrap();
    let mounted = || -> nix::Result<()> {
        unshare(CloneFlags::CLONE_NEWNS)?;
        let none: Option<&str> = None;
        mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)?;
        mount(
            Some("none"),
            folder.path(),
            Some("cgroup2"),
            MsFlags::empty(),
            none,
        )
    };
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| match mounted() {
            Ok(()) => {
                let name = format!("reveille-test-{}-{test}", std::process::id());
                let own = Own(folder.path().join(name));
                fs::create_dir(&own.0).unwrap();
                run(&own.0);
            }
            Err(error) => println!("skipped: {test}: no cgroup2 here: {error}"),
        });
        thread.join().unwrap();
    });
}

/// A cgroup of a test's own, with one below. Dropping it removes both.
struct Own(PathBuf);

impl Drop for Own {
    fn drop(&mut self) {
        let _ = fs::remove_dir(self.0.join("x"));
        let _ = fs::remove_dir(&self.0);
    }
}

/// A task in a cgroup, which ends when it is dropped.
struct Task(Child);

impl Task {
    fn within(cgroup: &Path) -> Self {
        let child = Command::new("sleep").arg("60").spawn().unwrap();
        fs::write(cgroup.join("cgroup.procs"), child.id().to_string()).unwrap();
        Self(child)
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

fn set_attribute(cgroup: &Path, value: &str) {
    let path = CString::new(cgroup.as_os_str().as_bytes()).unwrap();
    let name = CString::new(ATTRIBUTE).unwrap();
    // SAFETY: both strings end with a zero, and the value is of that length.
    let set = unsafe {
        libc::setxattr(
            path.as_ptr(),
            name.as_ptr(),
            value.as_ptr().cast(),
            value.len(),
            0,
        )
    };
    assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
}

#[test]
fn the_kernel_announces_tasks_that_come_freeze_and_end() {
    with_kernels_cgroups("tasks", |own| {
        let mut tree = Tree::watch(own, &cgroup("\"x\"")).unwrap();
        assert_eq!(tree.members().count(), 0);
        let x = own.join("x");
        fs::create_dir(&x).unwrap();
        until(&mut tree, "there is a cgroup", |tree| {
            tree.members().count() == 1
        });
        assert!(active(&tree).is_empty());
        let task = Task::within(&x);
        until(&mut tree, "it has a task", |tree| active(tree) == ["x"]);
        fs::write(x.join("cgroup.freeze"), "1").unwrap();
        until(&mut tree, "it is frozen", |tree| active(tree).is_empty());
        fs::write(x.join("cgroup.freeze"), "0").unwrap();
        until(&mut tree, "it is not", |tree| active(tree) == ["x"]);
        drop(task);
        until(&mut tree, "it is empty", |tree| active(tree).is_empty());
        fs::remove_dir(&x).unwrap();
        until(&mut tree, "it is gone", |tree| tree.members().count() == 0);
        assert_eq!(
            tree.watched.len(),
            tree.folders[Path::new("")].watches.len()
        );
    });
}

#[test]
fn the_kernel_announces_an_attribute() {
    with_kernels_cgroups("attribute", |own| {
        let mut tree = Tree::watch(own, &cgroup("{ path = \"*\", xattr = true }")).unwrap();
        let x = own.join("x");
        fs::create_dir(&x).unwrap();
        let _task = Task::within(&x);
        let asks = |tree: &Tree| {
            tree.members()
                .next()
                .and_then(|(_, state)| state.asks.clone())
        };
        until(&mut tree, "it is watched", |tree| tree.folders.len() == 2);
        assert_eq!(asks(&tree), None);
        set_attribute(&x, "50us");
        until(&mut tree, "it asks", |tree| asks(tree) == Some(Ok(50)));
        assert_eq!(active(&tree), ["x"]);
        set_attribute(&x, &"9".repeat(100));
        until(&mut tree, "it is wrong", |tree| {
            matches!(asks(tree), Some(Err(_)))
        });
        assert!(active(&tree).is_empty());
        set_attribute(&x, "70");
        until(&mut tree, "it asks for another", |tree| {
            asks(tree) == Some(Ok(70))
        });
    });
}
