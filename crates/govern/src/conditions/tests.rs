use std::fs;

use nix::sys::epoll::{EpollCreateFlags, EpollTimeout};

use super::*;

/// A machine on battery at 40 %, with two cgroups, `a` on CPU 1 and `b` on any; `b` has no task.
struct Machine {
    _folder: tempfile::TempDir,
    root: Root,
    epoll: Epoll,
}

impl Machine {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let machine = Self {
            root: Root::at(folder.path()),
            _folder: folder,
            epoll: Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).unwrap(),
        };
        let mount = "31 26 0:27 / /cgroup rw shared:10 - cgroup2 cgroup2 rw\n";
        machine.put("proc/self/mountinfo", mount);
        machine.put("cgroup/a/cgroup.events", "populated 1\nfrozen 0\n");
        machine.put("cgroup/a/cpuset.cpus.effective", "1\n");
        machine.put("cgroup/b/cgroup.events", "populated 0\nfrozen 0\n");
        machine.put("sys/class/power_supply/BAT0/type", "Battery\n");
        machine.put("sys/class/power_supply/BAT0/status", "Discharging\n");
        machine.put("sys/class/power_supply/BAT0/capacity", "40\n");
        machine
    }

    fn put(&self, file: &str, text: &str) {
        let path = self.root.path(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn watch(&self, when: &str) -> Conditions {
        let text = format!("[[rule]]\nname = \"a\"\nlatency = \"5us\"\n[rule.when]\n{when}");
        Conditions::watch(&Rules::parse(&text).unwrap(), &self.root, &self.epoll)
    }

    fn is_announced(&self) -> bool {
        let mut one = [EpollEvent::empty()];
        self.epoll.wait(&mut one, EpollTimeout::ZERO).unwrap() == 1
    }
}

/// 2026-11-24, a Tuesday, at noon.
fn noon() -> Timestamp {
    "2026-11-24T12:00:00Z".parse().unwrap()
}

fn words(conditions: &Conditions, cpu: u32) -> Vec<String> {
    let findings = conditions.findings(0, cpu, noon()).into_iter();
    let with_sign = |one: Finding| format!("{} {}", if one.holds { '+' } else { '-' }, one.why);
    findings.map(with_sign).collect()
}

#[test]
fn without_conditions_a_rule_is_always_in_force() {
    let machine = Machine::new();
    let conditions = machine.watch("");
    assert_eq!(conditions.standing(0, noon()).on(0), Some(Asked::Rules));
    assert!(words(&conditions, 0).is_empty() && conditions.problems().is_empty());
}

#[test]
fn all_conditions_have_to_hold_and_each_is_told_in_their_order() {
    let machine = Machine::new();
    let all = |below| {
        format!(
            "cgroup = \"*\"\ntime = \"08:00-18:00\"\ndays = [\"tue\"]\n\
             battery_below = \"{below}%\"\npower = \"battery\""
        )
    };
    let conditions = machine.watch(&all(41));
    let standing = conditions.standing(0, noon());
    assert_eq!((standing.on(0), standing.on(1)), (None, Some(Asked::Rules)));
    let machines = ["+ on battery", "+ charge 40%", "+ 08:00-18:00 on Tue"];
    assert_eq!(words(&conditions, 1)[..3], machines);
    assert_eq!(words(&conditions, 1)[3], "+ a task in a");
    assert_eq!(words(&conditions, 0)[3], "- cgroup * may not use this CPU");
    // One of them does not hold.
    let conditions = machine.watch(&all(40));
    assert_eq!(conditions.standing(0, noon()).on(1), None);
    assert_eq!(words(&conditions, 1)[1], "- charge 40%");
    let night = "2026-11-24T20:00:00Z".parse().unwrap();
    let conditions = machine.watch(&all(41));
    assert_eq!(conditions.standing(0, night).on(1), None);
    assert_eq!(
        conditions.findings(0, 1, night)[2].why,
        "not 08:00-18:00 on Tue"
    );
}

#[test]
fn the_power_source_is_read_when_devices_change() {
    let machine = Machine::new();
    let mut conditions = machine.watch("power = \"ac\"");
    assert_eq!(conditions.standing(0, noon()).on(0), None);
    assert_eq!(words(&conditions, 0), ["- on battery"]);
    machine.put("sys/class/power_supply/AC/type", "Mains\n");
    machine.put("sys/class/power_supply/AC/online", "1\n");
    assert_eq!(conditions.standing(0, noon()).on(0), None);
    conditions.devices();
    assert_eq!(conditions.standing(0, noon()).on(0), Some(Asked::Rules));
}

#[test]
fn a_cgroup_is_followed_by_what_the_kernel_announces() {
    let machine = Machine::new();
    let mut conditions = machine.watch("cgroup = \"b\"");
    assert_eq!(words(&conditions, 0), ["- no task runs in cgroup b"]);
    assert!(!machine.is_announced());
    machine.put("cgroup/b/cgroup.events", "populated 1\nfrozen 0\n");
    assert!(machine.is_announced());
    assert!(!conditions.catch_up());
    assert!(!machine.is_announced());
    assert_eq!(conditions.standing(0, noon()).on(0), Some(Asked::Rules));
    machine.put("cgroup/b/cgroup.events", "populated 1\nfrozen 1\n");
    conditions.catch_up();
    assert_eq!(conditions.standing(0, noon()).on(0), None);
}

#[test]
fn the_tightest_of_the_cgroups_is_asked_for_on_the_cpus_of_each() {
    let mut of = OnCpus {
        everywhere: Some(Asked::Latency(50)),
        ..OnCpus::default()
    };
    of.on.insert(1, Asked::Latency(20));
    of.on.insert(2, Asked::Latency(80));
    let standing = Standing {
        machines: true,
        cgroups: Some(of),
    };
    let on = |cpu| standing.on(cpu);
    assert_eq!(on(0), Some(Asked::Latency(50)));
    assert_eq!(on(1), Some(Asked::Latency(20)));
    assert_eq!(on(2), Some(Asked::Latency(50)));
}

#[test]
fn what_is_missing_is_waited_for() {
    let machine = Machine::new();
    let result = machine.root.path("results/a.json");
    let text = format!(
        "[[rule]]\nname = \"a\"\nlatency = \"5us\"\nresult = \"{}\"\n\
         when.cgroup = \"c*\"\nwhen.traffic.interface = \"eth9\"",
        result.display()
    );
    let rules = Rules::parse(&text).unwrap();
    let mut conditions = Conditions::watch(&rules, &machine.root, &machine.epoll);
    let waits = format!("result {}, cgroup c*, interface eth9", result.display());
    assert_eq!(conditions.waits_for(0), Some(waits));
    let notes = notes(&rules.rules[0], &rules, &machine.root);
    let missing = ["cgroup c*", "interface eth9"];
    let is_noted = |(note, what): (&String, &str)| note.starts_with(what);
    assert!(
        notes.len() == 2 && notes.iter().zip(missing).all(is_noted),
        "{notes:?}"
    );
    machine.put("cgroup/c1/cgroup.events", "populated 0\n");
    assert!(machine.is_announced() && !conditions.catch_up());
    machine.put("results/a.json", "{}");
    assert!(machine.is_announced() && conditions.catch_up());
    machine.put("sys/class/net/eth9/mtu", "1500");
    assert_eq!(conditions.waits_for(0), None);
}

#[test]
fn without_cgroup2_the_other_rules_go_on() {
    let machine = Machine::new();
    machine.put("proc/self/mountinfo", "");
    let text = "[[rule]]\nname = \"a\"\nlatency = \"5us\"\nwhen.cgroup = \"a\"\n\
                [[rule]]\nname = \"b\"\nlatency = \"5us\"";
    let rules = Rules::parse(text).unwrap();
    let conditions = Conditions::watch(&rules, &machine.root, &machine.epoll);
    assert_eq!(conditions.problems(), ["cgroup2 is not mounted"]);
    assert_eq!(conditions.waits_for(0).as_deref(), Some("cgroup2"));
    assert_eq!(words(&conditions, 0), ["- cgroups are not watched"]);
    assert_eq!(conditions.standing(0, noon()).on(0), None);
    assert_eq!(conditions.standing(1, noon()).on(0), Some(Asked::Rules));
}

#[test]
fn a_machine_without_power_supply_has_a_note() {
    let machine = Machine::new();
    fs::remove_dir_all(machine.root.path("sys/class/power_supply")).unwrap();
    let text = "[[rule]]\nname = \"a\"\nlatency = \"5us\"\nwhen.battery_below = \"30%\"";
    let rules = Rules::parse(text).unwrap();
    let notes = notes(&rules.rules[0], &rules, &machine.root);
    reveille_snapshot::snapshot!("notes", notes.iter().enumerate());
}

#[test]
fn a_changed_time_zone_counts_at_once() {
    let machine = Machine::new();
    let mut conditions = machine.watch("time = \"08:00-18:00\"");
    assert_eq!(words(&conditions, 0), ["+ 08:00-18:00"]);
    // Version 1 of TZif: one type, nine hours before UTC, and its name.
    let mut zone = b"TZif\0".to_vec();
    zone.extend([0; 15]);
    zone.extend([0_u32, 0, 0, 0, 1, 4].map(u32::to_be_bytes).concat());
    zone.extend(32400_i32.to_be_bytes());
    zone.extend([0, 0]);
    zone.extend(b"JST\0");
    fs::create_dir_all(machine.root.path("etc")).unwrap();
    fs::write(machine.root.path(clock::ZONE), zone).unwrap();
    assert!(machine.is_announced() && !conditions.catch_up());
    assert_eq!(words(&conditions, 0), ["- not 08:00-18:00"]);
}

#[test]
fn a_note_names_the_interface_below_where_packets_are_seen() {
    let machine = Machine::new();
    let net = |name: &str, uevent: &str, below: &[&str]| {
        machine.put(&format!("sys/class/net/{name}/uevent"), uevent);
        for below in below {
            machine.put(&format!("sys/class/net/{name}/lower_{below}/mtu"), "1500\n");
        }
    };
    net("eth0", "INTERFACE=eth0\nIFINDEX=2\n", &[]);
    net("eth0.7", "DEVTYPE=vlan\nINTERFACE=eth0.7\n", &["eth0"]);
    net("macvlan0", "INTERFACE=macvlan0\n", &["eth0"]);
    net(
        "bond0",
        "DEVTYPE=bond\nINTERFACE=bond0\n",
        &["eth0", "eth1"],
    );
    // The kernel receives its packets once more, as its own.
    net("br0", "DEVTYPE=bridge\nINTERFACE=br0\n", &["eth0"]);
    let noted = |interface: &str| {
        let when = format!("when.traffic.interface = \"{interface}\"");
        let text = format!("[[rule]]\nname = \"a\"\nlatency = \"5us\"\n{when}");
        let rules = Rules::parse(&text).unwrap();
        notes(&rules.rules[0], &rules, &machine.root)
    };
    for one in ["eth0.7", "macvlan0"] {
        let notes = noted(one);
        assert!(notes.len() == 1 && notes[0].contains(one) && notes[0].contains("eth0 instead"));
    }
    assert!(noted("bond0")[0].ends_with("in a rule each: eth0 and eth1"));
    assert!(noted("eth0").is_empty() && noted("br0").is_empty());
}
