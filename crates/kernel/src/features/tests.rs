use std::collections::HashSet;
use std::io;

use super::survey::of;
use super::*;
use crate::capabilities::Credentials;
use crate::pm_qos;

fn feature(name: &str, group: Group, presence: Presence) -> Feature {
    Feature::new(group, name, presence, "", "")
}

fn yes() -> Presence {
    Presence::Yes(String::new())
}

#[test]
fn every_feature_has_its_own_name_cost_and_remedy() {
    let features = survey(&Root::default());
    let names: HashSet<&str> = features
        .iter()
        .map(|feature| feature.name.as_str())
        .collect();
    assert_eq!(names.len(), features.len());
    for feature in &features {
        assert!(
            !feature.costs.is_empty() && !feature.brings.is_empty(),
            "{}",
            feature.name
        );
        let reason = feature.presence.words();
        assert!(
            feature.presence.is_yes() || !reason.is_empty(),
            "{}",
            feature.name
        );
        assert!(!reason.contains('\n'), "{}", feature.name);
    }
    assert!(features.is_sorted_by_key(|feature| feature.group));
}

#[test]
fn an_empty_recording_claims_nothing() {
    let empty = tempfile::tempdir().unwrap();
    for feature in survey(&Root::at(empty.path())) {
        assert!(!feature.presence.is_yes(), "{feature:?}");
        assert_ne!(
            feature.group,
            Group::User,
            "of whoever reads it: {feature:?}"
        );
    }
    // Nothing is tried on the machine that reads a recording.
    let features = survey(&Root::at(empty.path()));
    for name in [
        names::TRACING,
        "clock source",
        "timers leave idle CPUs",
        "energy by perf (RAPL)",
        "energy by powercap (RAPL)",
    ] {
        let presence = &find(&features, name).unwrap().presence;
        assert_eq!(*presence, recorded(), "{name}");
    }
    let live = survey(&Root::default());
    assert!(live.iter().any(|feature| feature.group == Group::User));
    assert!(live.iter().all(|feature| feature.presence != recorded()));
    assert_ne!(find(&live, names::TRACING).unwrap().presence, recorded());
}

#[test]
fn a_tried_feature_overrides_what_was_read() {
    let mut features = vec![
        feature("a", Group::User, yes()),
        feature("b", Group::Bpf, yes()),
        feature("d", Group::Clock, yes()),
    ];
    put(
        &mut features,
        feature("b", Group::Bpf, Presence::No("tried".into())),
    );
    put(&mut features, feature("c", Group::Bpf, yes()));
    let names: Vec<&str> = features
        .iter()
        .map(|feature| feature.name.as_str())
        .collect();
    assert_eq!(names, ["a", "b", "c", "d"]);
    assert_eq!(find(&features, "b").unwrap().presence.words(), "tried");
}

#[test]
fn the_plan_is_the_bpf_probe_if_all_its_features_exist() {
    let with = |names: &[&str]| -> Vec<Feature> {
        names
            .iter()
            .map(|name| feature(name, Group::Bpf, yes()))
            .collect()
    };
    let all = [
        names::BTF,
        names::CPU_IDLE,
        names::TRACING,
        names::TIMER,
        names::TIMER_ABSOLUTE,
        names::TIMER_PINNED,
        names::SECOND_CPU,
        names::SMI,
        names::DRIVER,
    ];
    let plan = Plan::of(&with(&all));
    assert_eq!(plan.probe, Probe::Bpf);
    assert_eq!(plan.sources, ["timer", "remote"]);
    let said = plan.to_string();
    assert_eq!(
        said,
        "the BPF probe, source timer (absolute, pinned) or, if asked, remote; counting SMIs"
    );

    let old = Plan::of(&with(&all[..4]));
    assert_eq!(old.arming.as_deref(), Some("relative"));
    assert_eq!(old.sources, ["timer"]);
    assert!(
        old.to_string()
            .ends_with("no hardware counters; in the kernel's one default idle state")
    );
}

#[test]
fn the_probes_own_attempt_decides() {
    let mut features: Vec<Feature> = [names::BTF, names::CPU_IDLE, names::TRACING]
        .map(|name| feature(name, Group::Bpf, yes()))
        .to_vec();
    assert_eq!(Plan::of(&features).probe, Probe::Bpf);
    put(
        &mut features,
        feature(
            names::PROBES,
            Group::Bpf,
            Presence::No("the verifier".into()),
        ),
    );
    let plan = Plan::of(&features);
    assert_eq!(plan.instead_of_bpf.as_deref(), Some(names::PROBES));
}

#[test]
fn the_plan_is_the_user_probe_if_any_bpf_feature_is_missing() {
    let features = [names::BTF, names::CPU_IDLE, names::TIMER, names::SECOND_CPU]
        .map(|name| feature(name, Group::Bpf, yes()));
    let plan = Plan::of(&features);
    assert_eq!((plan.probe, plan.arming.clone()), (Probe::User, None));
    assert!(
        plan.to_string()
            .starts_with("the user probe (BPF lacks: tracing programs)")
    );
}

fn no(reason: &str) -> Presence {
    Presence::No(reason.to_owned())
}

fn yes_as(detail: &str) -> Presence {
    Presence::Yes(detail.to_owned())
}

fn unknown(reason: &str) -> Presence {
    Presence::Unknown(reason.to_owned())
}

/// The results of a group, in order.
fn of_group(features: &[Feature], group: Group) -> Vec<(&str, Presence)> {
    let of_group = features.iter().filter(|feature| feature.group == group);
    of_group
        .map(|feature| (feature.name.as_str(), feature.presence.clone()))
        .collect()
}

fn machine(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (file, text) in files {
        let path = folder.path().join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    folder
}

/// An x86 machine: CPU 0 has no idle states, CPU 1 has two, CPU 2 is offline.
fn x86() -> tempfile::TempDir {
    machine(&[
        ("sys/devices/system/cpu/present", "0-2\n"),
        ("sys/devices/system/cpu/online", "0-1\n"),
        (
            "sys/devices/system/cpu/cpuidle/current_driver",
            "intel_idle\n",
        ),
        ("sys/devices/system/cpu/cpuidle/current_governor", "menu\n"),
        (
            "sys/devices/system/cpu/cpuidle/available_governors",
            "ladder menu teo\n",
        ),
        ("sys/devices/system/cpu/cpu1/cpuidle/state0/name", "POLL\n"),
        ("sys/devices/system/cpu/cpu1/cpuidle/state1/name", "C1\n"),
        ("sys/devices/system/cpu/cpu2/cpuidle/state0/name", "OFF\n"),
        (
            "sys/devices/system/cpu/cpu0/power/pm_qos_resume_latency_us",
            "0\n",
        ),
        (
            "sys/devices/system/cpu/cpu1/power/pm_qos_resume_latency_us",
            "20\n",
        ),
        (
            "sys/devices/system/cpu/cpu2/power/pm_qos_resume_latency_us",
            "30\n",
        ),
        ("sys/devices/system/cpu/cpu1/online", "1\n"),
        ("proc/cmdline", "ro idle=halt nohlt\n"),
        (
            "proc/cpuinfo",
            "processor : 0\nvendor_id : GenuineIntel\nmodel name : X\nflags : constant_tsc nonstop_tsc lm\n",
        ),
        (
            "sys/devices/system/clocksource/clocksource0/current_clocksource",
            "hpet\n",
        ),
        (
            "sys/devices/system/clocksource/clocksource0/available_clocksource",
            "tsc hpet acpi_pm\n",
        ),
        ("proc/sys/kernel/timer_migration", "0\n"),
        (
            "sys/bus/event_source/devices/cstate_core/type",
            "4000000011\n",
        ),
        (
            "sys/bus/event_source/devices/cstate_core/format/event",
            "config:0-63\n",
        ),
        (
            "sys/bus/event_source/devices/cstate_core/events/c3-residency",
            "event=0x01\n",
        ),
        (
            "sys/bus/event_source/devices/cstate_core/events/c6-residency",
            "event=0x02\n",
        ),
        ("sys/bus/event_source/devices/msr/type", "4000000010\n"),
        (
            "sys/bus/event_source/devices/msr/format/event",
            "config:0-63\n",
        ),
        (
            "sys/bus/event_source/devices/msr/events/smi",
            "event=0x04\n",
        ),
        (
            "sys/bus/event_source/devices/power/events/energy-pkg",
            "event=0x02\n",
        ),
        (
            "sys/bus/event_source/devices/power/events/energy-pkg.unit",
            "Joules\n",
        ),
        (
            "sys/bus/event_source/devices/power/events/energy-cores",
            "event=0x01\n",
        ),
        ("sys/class/powercap/intel-rapl:0/energy_uj", "5\n"),
        ("sys/class/powercap/intel-rapl/enabled", "1\n"),
        (
            "sys/kernel/security/lockdown",
            "[none] integrity confidentiality\n",
        ),
    ])
}

/// An ARM machine with one CPU and hardly any files.
fn arm() -> tempfile::TempDir {
    machine(&[
        ("sys/devices/system/cpu/present", "0\n"),
        ("proc/cmdline", "quiet\n"),
        (
            "proc/cpuinfo",
            "processor : 0\nmodel name : Y\nCPU implementer : 0x41\nCPU architecture: 8\n",
        ),
        (
            "sys/devices/system/clocksource/clocksource0/current_clocksource",
            "arch_sys_counter\n",
        ),
        ("proc/sys/kernel/timer_migration", "1\n"),
        ("sys/bus/event_source/devices/power/events/other", "\n"),
        ("sys/class/powercap/intel-rapl:0/name", "package-0\n"),
    ])
}

#[test]
fn idle_states_and_their_limits_are_listed_one_by_one() {
    let folder = x86();
    let features = survey(&Root::at(folder.path()));
    let settings = "idle=halt: idle CPUs halt (HLT, C1); intel_idle and acpi_idle are off; nohlt: \
                    idle CPUs poll (not on x86): no idle state is entered";
    assert_eq!(
        of_group(&features, Group::Idle),
        [
            (names::DRIVER, yes_as("intel_idle: POLL, C1")),
            ("cpuidle governor", yes_as("menu (also: ladder, teo)")),
            ("switching states off", recorded()),
            ("default idle settings at boot", no(settings)),
            (pm_qos::DEVICE, recorded()),
            ("latency unbounded by other processes", recorded()),
            ("latency unbounded on each CPU", no("20 µs on CPU 1")),
        ]
    );
    // "no   no lockdown" would be read twice.
    for feature in &features {
        assert!(!feature.name.starts_with("no "), "{}", feature.name);
    }
    let folder = arm();
    let features = survey(&Root::at(folder.path()));
    let no_driver = "likely why: this kernel is built without cpuidle, or the folder cpu/cpuidle is \
                     not shown here";
    assert_eq!(
        of_group(&features, Group::Idle),
        [
            (names::DRIVER, no(no_driver)),
            ("cpuidle governor", no("the kernel reports none")),
            ("switching states off", no("no states")),
            ("default idle settings at boot", yes()),
            (pm_qos::DEVICE, recorded()),
            ("latency unbounded by other processes", recorded()),
            (
                "latency unbounded on each CPU",
                unknown("no CPU has a file pm_qos_resume_latency_us"),
            ),
        ]
    );
    assert_eq!(
        find(&features, names::DRIVER).unwrap().costs,
        "Idle CPUs wait for an interrupt (such as WFI), the kernel's own idle routine. No \
         states to choose from, and no driver's figures to check."
    );
}

#[test]
fn counters_clocks_and_surroundings_are_listed_one_by_one() {
    let folder = x86();
    let features = survey(&Root::at(folder.path()));
    let to_try = |columns| unknown(&format!("{columns}: could be tried on the machine itself"));
    let not_counted = no("perf's PMU msr does not count it on this CPU");
    assert_eq!(
        of_group(&features, Group::Counters),
        [
            (names::CORE_RESIDENCY, to_try("cc3_percent, cc6_percent")),
            (names::PACKAGE_RESIDENCY, recorded()),
            (names::SMI, to_try("smi_count")),
            ("MPERF", not_counted.clone()),
            ("APERF", not_counted),
            ("energy by perf (RAPL)", yes_as("cores, pkg")),
            ("energy by powercap (RAPL)", yes_as("intel-rapl:0")),
        ]
    );
    assert_eq!(
        of_group(&features, Group::Clock),
        [
            ("constant_tsc", yes()),
            ("nonstop_tsc", yes()),
            (
                "tsc_deadline_timer",
                no("not among the flags in /proc/cpuinfo"),
            ),
            ("HPET", recorded()),
            ("clock source", no("hpet (also: tsc, acpi_pm)")),
            ("timers leave idle CPUs", no("kernel.timer_migration is 0")),
        ]
    );
    assert_eq!(
        of_group(&features, Group::Machine),
        [
            (names::BARE_METAL, yes_as("no hypervisor")),
            ("outside of containers", recorded()),
            ("lockdown off", yes_as("none")),
            (names::SECOND_CPU, yes_as("online: 0-1")),
            ("CPU hotplug", yes_as("CPU 1")),
        ]
    );
    let folder = arm();
    let features = survey(&Root::at(folder.path()));
    assert_eq!(
        of_group(&features, Group::Counters),
        [
            (names::CORE_RESIDENCY, recorded()),
            (names::PACKAGE_RESIDENCY, recorded()),
            (names::SMI, recorded()),
            ("MPERF", recorded()),
            ("APERF", recorded()),
            (
                "energy by perf (RAPL)",
                no("perf's PMU power counts nothing here"),
            ),
            (
                "energy by powercap (RAPL)",
                no("this user may not read its counters"),
            ),
        ]
    );
    assert_eq!(
        of_group(&features, Group::Clock),
        [
            ("clock source", yes_as("arch_sys_counter")),
            (
                "timers leave idle CPUs",
                yes_as("kernel.timer_migration is 1")
            ),
        ]
    );
    assert_eq!(
        of_group(&features, Group::Machine),
        [
            (names::BARE_METAL, unknown("not reported by the machine")),
            ("outside of containers", recorded()),
            ("lockdown off", recorded()),
            (names::SECOND_CPU, no("online: 0")),
            ("CPU hotplug", no("no CPU has a file `online`")),
        ]
    );
    std::fs::remove_dir_all(folder.path().join("sys/class/powercap/intel-rapl:0")).unwrap();
    let features = survey(&Root::at(folder.path()));
    assert_eq!(
        find(&features, "energy by powercap (RAPL)")
            .unwrap()
            .presence,
        no("powercap has no RAPL zone")
    );
}

const NOBODY: Credentials = Credentials {
    user: 65534,
    capabilities: 0,
    is_outermost: true,
};

/// That folder as the running machine, for a user without rights.
fn live(root: &Root) -> Facts<'_> {
    Facts {
        root,
        credentials: Some(NOBODY),
        idle: Idle::read(root),
        identity: Identity::read(root),
        btf: None,
    }
}

#[test]
fn a_running_machine_names_its_missing_features_and_who_may_use_them() {
    let folder = tempfile::tempdir().unwrap();
    let root = Root::live_at(folder.path());
    let features = of(&live(&root));
    let expected = [
        ("BTF", no("no /sys/kernel/btf/vmlinux")),
        ("tracing programs", no("none without BTF")),
        ("probe cost counting", no("no kernel.bpf_stats_enabled")),
        (
            names::CORE_RESIDENCY,
            no("perf has no PMU cstate_core here"),
        ),
        (names::SMI, no("perf has no PMU msr here")),
        ("energy by perf (RAPL)", no("perf has no PMU power here")),
        ("energy by powercap (RAPL)", no("no /sys/class/powercap")),
        (
            "clock source",
            unknown("/sys/devices/system/clocksource/clocksource0 cannot be read"),
        ),
        (
            "timers leave idle CPUs",
            unknown("no kernel.timer_migration"),
        ),
        ("outside of containers", yes_as("the first namespaces")),
        (
            "lockdown off",
            yes_as("this kernel has none, or securityfs is not mounted"),
        ),
        (names::SECOND_CPU, unknown("the CPUs cannot be listed")),
        ("CPU hotplug", unknown("the CPUs cannot be listed")),
    ];
    for (name, presence) in expected {
        assert_eq!(find(&features, name).unwrap().presence, presence, "{name}");
    }
    let Presence::Unknown(why) = &find(&features, names::DRIVER).unwrap().presence else {
        panic!("a driver in an empty folder");
    };
    assert!(
        why.ends_with("mount sysfs (mount -t sysfs sysfs /sys)"),
        "{why}"
    );
    // In a recording mounting does not matter.
    let Err(error) = Idle::read(&Root::at(folder.path())) else {
        panic!("CPUs in an empty folder");
    };
    assert!(matches!(error, crate::Error::Io { .. }), "{error}");
}

#[test]
fn root_is_the_remedy_for_features_of_root() {
    let folder = x86();
    let disable = "sys/devices/system/cpu/cpu1/cpuidle/state0/disable";
    std::fs::write(folder.path().join(disable), "0\n").unwrap();
    std::fs::create_dir_all(folder.path().join("proc/sys/kernel")).unwrap();
    let counting = folder.path().join("proc/sys/kernel/bpf_stats_enabled");
    std::fs::write(&counting, "0\n").unwrap();
    let root = Root::live_at(folder.path());
    let features = of(&live(&root));
    let named = |name| find(&features, name).unwrap();
    let refused = named("probe cost counting");
    let why = "this user may not set kernel.bpf_stats_enabled";
    assert_eq!(refused.presence, Presence::Denied(why.to_owned()));
    assert_eq!(refused.brings, user::AS_ROOT);
    // Other features, and the user's, keep their values.
    assert_eq!(
        named("cpuidle governor").brings,
        "a kernel with CONFIG_CPU_IDLE_GOV_MENU or another governor"
    );
    assert!(matches!(named("CAP_BPF").presence, Presence::Denied(_)));
    let grant = "run as root (sudo reveille ...), or setcap cap_bpf,cap_perfmon+ep on the program";
    assert_eq!(named("CAP_BPF").brings, grant);
    let as_admin = |value: &str| {
        std::fs::write(&counting, value).unwrap();
        let facts = Facts {
            credentials: Some(Credentials {
                user: 0,
                capabilities: u64::MAX,
                ..NOBODY
            }),
            ..live(&root)
        };
        let features = of(&facts);
        let named = |name: &str| find(&features, name).unwrap().presence.clone();
        (named("probe cost counting"), named("switching states off"))
    };
    let off = yes_as("kernel.bpf_stats_enabled is 0; enabled while counting");
    let written = yes_as("cpu1/cpuidle/state0/disable can be written");
    assert_eq!(as_admin("0\n").0, off);
    let on = "kernel.bpf_stats_enabled is 1 already: every BPF program on this machine pays for it";
    assert_eq!(as_admin("1\n").0, yes_as(on));
    if nix::unistd::geteuid().is_root() {
        assert_eq!(as_admin("0\n").1, written);
    }
    std::fs::remove_file(folder.path().join(disable)).unwrap();
    let missing = "cpu1/cpuidle/state0/disable cannot be written: No such file or directory";
    assert_eq!(as_admin("0\n").1, no(missing));
}

#[test]
fn a_permission_error_differs_from_other_errors() {
    let folder = tempfile::tempdir().unwrap();
    let root = Root::live_at(folder.path());
    let facts = live(&root);
    let denied = |why: &str| Presence::Denied(why.to_owned());
    let refused = || io::Error::from(io::ErrorKind::PermissionDenied);
    let broken = || io::Error::other("it is on fire");

    let done = yes_as("tried: loaded and attached to power:cpu_idle");
    assert_eq!(bpf::tried(&facts, Ok(())), done);
    let may_not = denied("tried and refused: this user may not");
    assert_eq!(bpf::tried(&facts, Err(refused())), may_not);
    let expected = no("tried, and the kernel reports: it is on fire");
    assert_eq!(bpf::tried(&facts, Err(broken())), expected);

    assert_eq!(idling::opened(&facts, Ok(())), yes_as("can be opened"));
    let may_not = denied("this user may not open it");
    assert_eq!(idling::opened(&facts, Err(refused())), may_not);
    let missing = Err(io::ErrorKind::NotFound.into());
    assert_eq!(idling::opened(&facts, missing), no("no such device"));
    let expected = no("it is on fire");
    assert_eq!(idling::opened(&facts, Err(broken())), expected);

    let counter = |source| {
        let counter = "msr/smi".to_owned();
        let error = crate::Error::Counter {
            counter,
            cpu: 3,
            source,
        };
        counting::opened(&facts, "smi_count", 3, Some(error))
    };
    let all = counting::opened(&facts, "smi_count", 3, None);
    assert_eq!(all, yes_as("smi_count (opened on CPU 3)"));
    let may_not = denied("smi_count: this user may not open perf counters");
    assert_eq!(counter(refused()), may_not);
    let expected = no("cannot open the counter msr/smi on CPU 3: it is on fire");
    assert_eq!(counter(broken()), expected);
}

#[test]
fn a_non_initial_namespace_is_a_container() {
    let folder = machine(&[("proc/self/ns/x", "")]);
    let root = Root::live_at(folder.path());
    let link = |kind: &str, target: &str| {
        std::os::unix::fs::symlink(target, root.path(&format!("proc/self/ns/{kind}"))).unwrap();
    };
    link("pid", "pid:[4026531836]");
    link("user", "user:[4026531837]");
    assert_eq!(outside_of_containers(&root), yes_as("the first namespaces"));
    link("cgroup", "cgroup:[4026532999]");
    let own = no("separate namespaces: cgroup");
    assert_eq!(outside_of_containers(&root), own);
}

#[test]
fn tracepoints_depend_on_architecture_and_built_in_interrupts() {
    let x86 = x86();
    let put = |name: &str| {
        let folder = x86.path().join("sys/kernel/tracing/events").join(name);
        std::fs::create_dir_all(folder).unwrap();
    };
    put("power/cpu_idle");
    put("irq_vectors/thermal_apic_entry");
    let features = survey(&Root::at(x86.path()));
    let presence = |name: &str| find(&features, name).map(|found| found.presence.clone());
    let missing = Some(no("not in tracefs"));
    assert_eq!(presence("power:cpu_idle"), Some(yes_as("in tracefs")));
    assert_eq!(presence("irq_vectors:error_apic_entry"), missing);
    assert_eq!(presence("block:block_rq_issue"), missing);
    let built_in = presence("irq_vectors:thermal_apic_entry");
    assert_eq!(built_in, Some(yes_as("in tracefs")));
    assert_eq!(presence("irq_vectors:threshold_apic_entry"), None);
    assert_eq!(presence("ipi:ipi_entry"), None);

    let arm = arm();
    let features = survey(&Root::at(arm.path()));
    let presence = |name: &str| find(&features, name).map(|found| found.presence.clone());
    let unknown_tracepoints = Some(unknown("neither BTF nor tracefs can be read"));
    assert_eq!(presence("ipi:ipi_entry"), unknown_tracepoints);
    assert_eq!(presence("power:cpu_idle"), unknown_tracepoints);
    assert_eq!(presence("irq_vectors:error_apic_entry"), None);
}

#[test]
fn a_plan_names_its_obstacles_and_the_alternative() {
    let with = |names: &[&str]| -> Vec<Feature> {
        let all = names.iter().map(|name| feature(name, Group::Bpf, yes()));
        all.collect()
    };
    let bpf = [names::BTF, names::CPU_IDLE, names::TRACING];
    let without_timer = Plan::of(&with(&[&bpf[..], &[names::SECOND_CPU]].concat()));
    let expected = Plan {
        probe: Probe::Bpf,
        instead_of_bpf: None,
        sources: vec!["remote".to_owned()],
        arming: None,
        counted: vec![],
        cheap_counters: true,
        states: false,
    };
    assert_eq!(without_timer, expected);
    assert_eq!(
        without_timer.to_string(),
        "the BPF probe, no timer or, if asked, remote; no hardware counters; in the kernel's one \
         default idle state"
    );
    let user = Plan::of(&with(&[names::SECOND_CPU, names::SMI, names::DRIVER]));
    let expected = Plan {
        probe: Probe::User,
        instead_of_bpf: Some(names::BTF.to_owned()),
        sources: vec!["timer".to_owned()],
        arming: None,
        counted: vec![],
        cheap_counters: true,
        states: true,
    };
    assert_eq!(user, expected);
    assert_eq!(
        user.to_string(),
        "the user probe (BPF lacks: BTF), a thread's timer; no hardware counters"
    );
    let residencies = [
        names::TIMER,
        names::TIMER_ABSOLUTE,
        names::CORE_RESIDENCY,
        names::PACKAGE_RESIDENCY,
        names::DRIVER,
    ];
    let mut guest = with(&[&bpf[..], &residencies].concat());
    let hypervisor = no("runs under KVM");
    guest.push(feature(names::BARE_METAL, Group::Machine, hypervisor));
    assert_eq!(
        Plan::of(&guest).to_string(),
        "the BPF probe, source timer (absolute); counting core residency, package residency unless \
         that is slow"
    );
    guest.retain(|one| !one.name.ends_with("residency"));
    assert_eq!(
        Plan::of(&guest).to_string(),
        "the BPF probe, source timer (absolute); no hardware counters"
    );
    let last = guest.len() - 1;
    guest[last].presence = yes();
    assert!(Plan::of(&guest).cheap_counters);
}

#[test]
fn each_group_has_its_heading() {
    let headings = [
        (Group::User, "This user"),
        (Group::Bpf, "BPF"),
        (Group::Tracepoints, "Tracepoints"),
        (Group::Idle, "Idle states and their limits"),
        (Group::Counters, "Counters"),
        (Group::Clock, "Clocks and timers"),
        (Group::Machine, "The machine"),
        (Group::Sleep, "Suspend and resume"),
    ];
    for (group, heading) in headings {
        assert_eq!(group.title(), heading);
    }
}

#[test]
fn what_matters_comes_by_weight_and_once_for_one_effect_or_remedy() {
    let no = || Presence::No("gone".to_owned());
    let denied = || Presence::Denied("not this user".to_owned());
    let of = |name: &str, presence, weight| {
        let new = Feature::new(Group::Bpf, name, presence, name, format!("{name}'s"));
        new.weighing(weight)
    };
    let chosen = |features: &[Feature]| {
        let chosen = that_matter(features).into_iter();
        chosen
            .map(|feature| feature.name.clone())
            .collect::<Vec<_>>()
    };
    let mut features = vec![
        of("energy", no(), Weight::Adds),
        of("bare metal", no(), Weight::Distorts),
        of("there", yes(), Weight::Decides),
        of(
            "unseen",
            Presence::Unknown("why".to_owned()),
            Weight::Decides,
        ),
        of("root", denied(), Weight::Decides),
        of("BTF", no(), Weight::Decides),
        of("CAP_BPF", denied(), Weight::Decides),
    ];
    assert_eq!(chosen(&features), ["root", "BTF", "bare metal"]);
    features[6].presence = no();
    assert_eq!(chosen(&features), ["root", "BTF", "CAP_BPF", "bare metal"]);
    features[6].costs = "BTF".to_owned();
    assert_eq!(chosen(&features), ["root", "BTF", "bare metal"]);
    features[6].costs = "CAP_BPF".to_owned();
    features[6].brings = "BTF's".to_owned();
    assert_eq!(chosen(&features), ["root", "BTF", "bare metal"]);
}
