//! The service in this process, with the kernel's own cgroups, clock and files.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::mpsc::{Sender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use reveille_alone::{Part, Use, take_to_change};
use reveille_govern::event::Event;
use reveille_govern::service::{self, Options};
use reveille_govern::status::{RuleStatus, Status};
use reveille_kernel::{Idle, Root, requests};

struct Service {
    events: Sender<Event>,
    thread: Option<JoinHandle<()>>,
    folder: tempfile::TempDir,
}

impl Service {
    fn start(rules: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let options = Options {
            file: folder.path().join("rules.toml"),
            socket: folder.path().join("socket"),
            accounting: false,
        };
        fs::write(&options.file, rules).unwrap();
        let (sender, received) = service::events();
        let events = sender.clone();
        let thread = std::thread::spawn(move || {
            let say = |line: &str| println!("{line}");
            service::run(&options, (sender, received), service::unheard, say, None).unwrap();
        });
        Self {
            events,
            thread: Some(thread),
            folder,
        }
    }

    fn status(&self) -> Status {
        let (ask, answer) = sync_channel(1);
        self.events.send(Event::Status(ask)).unwrap();
        answer.recv().unwrap()
    }

    /// Waits until the first rule is so.
    fn until(&self, what: &str, is_so: impl Fn(&RuleStatus) -> bool) {
        let end = Instant::now() + Duration::from_secs(20);
        loop {
            let status = self.status();
            if is_so(&status.rules[0]) {
                return;
            }
            assert!(Instant::now() < end, "not within 20 s: {what}: {status:#?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Why the first rule is in force on CPU 0, or is not.
    fn why(&self) -> String {
        self.status().cpus[0].why[0].why.clone()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.events.send(Event::End);
        let ended = self.thread.take().unwrap().join();
        assert!(ended.is_ok() || std::thread::panicking());
    }
}

/// A cgroup of a test's own. Dropping it removes it.
struct Cgroup(PathBuf);

impl Cgroup {
    /// Without a task; `None` with a word where there is none, or no bound.
    fn new(test: &str) -> Option<Self> {
        let skipped = |why: &str| println!("skipped: {test}: {why}");
        let idle = Idle::read(&Root::default()).unwrap();
        if !nix::unistd::geteuid().is_root() || !requests::honoured(&idle) {
            skipped("not root, or no cpuidle driver");
            return None;
        }
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
        let mount = mounts
            .lines()
            .find(|line| line.split(' ').nth(2) == Some("cgroup2"));
        let Some(mount) = mount.and_then(|line| line.split(' ').nth(1)) else {
            skipped("cgroup2 is not mounted");
            return None;
        };
        let name = format!("reveille-test-{}-{test}", std::process::id());
        Some(Self(Path::new(mount).join(name)))
    }

    fn name(&self) -> String {
        self.0.file_name().unwrap().to_string_lossy().into_owned()
    }

    fn run(&self) -> Task {
        let child = Command::new("sleep").arg("60").spawn().unwrap();
        fs::write(self.0.join("cgroup.procs"), child.id().to_string()).unwrap();
        Task(child)
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

/// A task, which ends when it is dropped.
struct Task(Child);

impl Drop for Task {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn set_attribute(cgroup: &Path, value: &str) -> bool {
    let set = Command::new("python3")
        .args([
            "-c",
            "import os, sys; os.setxattr(*sys.argv[1:3], sys.argv[3].encode())",
        ])
        .arg(cgroup)
        .args(["user.reveille.latency_us", value])
        .status();
    set.is_ok_and(|status| status.success())
}

fn is_held(rule: &RuleStatus) -> bool {
    !rule.in_force.is_empty()
}

#[test]
fn a_rule_is_in_force_while_a_task_is_in_its_cgroup() {
    let Some(cgroup) = Cgroup::new("a_rule_is_in_force_while_a_task_is_in_its_cgroup") else {
        return;
    };
    let Some(_alone) = take_to_change(&[Use::Alone(Part::IdleStates)]) else {
        return;
    };
    let rule = "[[rule]]\nname = \"a\"\nlatency = \"0us\"\nwhen.power = \"ac\"\n";
    let service = Service::start(&format!("{rule}when.cgroup = \"{}\"", cgroup.name()));
    let waits = format!("cgroup {}", cgroup.name());
    assert_eq!(service.status().rules[0].waits_for, Some(waits));
    fs::create_dir(&cgroup.0).unwrap();
    service.until("the cgroup is seen", |rule| rule.waits_for.is_none());
    assert!(
        service.why().starts_with("no task runs in cgroup "),
        "{}",
        service.why()
    );
    let task = cgroup.run();
    service.until("it is in force", is_held);
    assert_eq!(
        service.why(),
        format!("on AC and a task in {}", cgroup.name())
    );
    assert_eq!(service.status().cpus[0].bound_us, Some(0));
    drop(task);
    service.until("it is not", |rule| !is_held(rule));
    assert_eq!(service.status().cpus[0].bound_us, None);
}

#[test]
fn a_cgroup_asks_by_its_attribute_within_the_rules_limits() {
    let test = "a_cgroup_asks_by_its_attribute_within_the_rules_limits";
    let Some(cgroup) = Cgroup::new(test) else {
        return;
    };
    let Some(_alone) = take_to_change(&[Use::Alone(Part::IdleStates)]) else {
        return;
    };
    fs::create_dir(&cgroup.0).unwrap();
    let _task = cgroup.run();
    // The second rule allows no bound that stops a state, whatever is asked for.
    let rules = |name| {
        format!(
            "[[rule]]\nname = \"a\"\nat_least = \"0us\"\ncpus = \"1\"\n\
             when.cgroup = {{ path = \"{name}\", xattr = true }}\n\
             [[rule]]\nname = \"b\"\nat_least = \"1900s\"\n\
             when.cgroup = {{ path = \"{name}\", xattr = true }}\n"
        )
    };
    let service = Service::start(&rules(cgroup.name()));
    assert!(!is_held(&service.status().rules[0]));
    if !set_attribute(&cgroup.0, "0us") {
        return println!("skipped: {test}: no python3, or no attributes");
    }
    service.until("it is in force", is_held);
    let status = service.status();
    assert_eq!(
        (&status.rules[0].in_force[..], is_held(&status.rules[1])),
        (&[1][..], false)
    );
    assert!(set_attribute(&cgroup.0, "1900s"));
    service.until("it asks for less", |rule| !is_held(rule));
    let why = service.status().cpus[1].why[0].why.clone();
    assert!(
        why.ends_with("asks for 1900000000 µs, which every idle state keeps to"),
        "{why}"
    );
    assert!(set_attribute(&cgroup.0, "soon"));
    service.until("it is read", |_| {
        service.status().cpus[1].why[0].why.contains("no latency")
    });
}

#[test]
fn a_result_that_appears_judges_the_rules() {
    let Some(_alone) = take_to_change(&[Use::Alone(Part::IdleStates)]) else {
        return;
    };
    if Cgroup::new("a_result_that_appears_judges_the_rules").is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let result = folder.path().join("new/result");
    let rule = "[[rule]]\nname = \"a\"\nlatency = \"50us\"\nresult = ";
    let service = Service::start(&format!("{rule}\"{}\"", result.display()));
    let waits = format!("result {}", result.display());
    assert_eq!(service.status().rules[0].waits_for, Some(waits));
    fs::create_dir(result.parent().unwrap()).unwrap();
    fs::write(&result, "no result").unwrap();
    let is_read = |rule: &RuleStatus| {
        rule.judged
            .notes
            .iter()
            .any(|note| !note.contains("No such"))
    };
    service.until("it is read", |rule| {
        rule.waits_for.is_none() && is_read(rule)
    });
    assert!(service.folder.path().join("socket").exists());
}

/// Puts a folder of the test's own over sysfs's power supplies, for this thread and those that it starts; false
/// where it cannot be.
fn has_own_supplies(folder: &Path) -> bool {
    use nix::mount::{MsFlags, mount};
    use nix::sched::{CloneFlags, unshare};

    let none: Option<&str> = None;
    let mounted = || -> nix::Result<()> {
        unshare(CloneFlags::CLONE_NEWNS)?;
        mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)?;
        mount(Some(folder), SUPPLIES, none, MsFlags::MS_BIND, none)
    };
    mounted().is_ok()
}

const SUPPLIES: &str = "/sys/class/power_supply";

#[test]
fn a_rule_follows_the_power_source_by_uevents() {
    let test = "a_rule_follows_the_power_source_by_uevents";
    let Some(_alone) = take_to_change(&[Use::Alone(Part::IdleStates)]) else {
        return;
    };
    if Cgroup::new(test).is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let put = |file: &str, text: &str| {
        fs::create_dir_all(folder.path().join("BAT0")).unwrap();
        fs::write(folder.path().join("BAT0").join(file), text).unwrap();
    };
    put("type", "Battery\n");
    put("status", "Charging\n");
    std::thread::scope(|scope| {
        let follow = || {
            if !has_own_supplies(folder.path()) {
                return println!("skipped: {test}: no mount namespace");
            }
            let rule = "[[rule]]\nname = \"a\"\nlatency = \"0us\"\n";
            let service = Service::start(&format!("{rule}when.power = \"battery\""));
            assert!(!is_held(&service.status().rules[0]));
            put("status", "Discharging\n");
            assert!(!is_held(&service.status().rules[0]));
            // As the kernel does when a supply changes.
            fs::write("/sys/devices/system/cpu/cpu0/uevent", "change").unwrap();
            service.until("it is in force", is_held);
            assert_eq!(service.why(), "on battery");
        };
        scope.spawn(follow).join().unwrap();
    });
}
