use std::collections::HashSet;
use std::io;

use reveille_snapshot::snapshot;

use super::survey::of;
use super::*;
use crate::capabilities::Credentials;

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

    let old = Plan::of(&with(&all[..4]));
    assert_eq!(old.arming.as_deref(), Some("relative"));
    assert_eq!(old.sources, ["timer"]);
    snapshot!("plans", [("all", plan), ("few", old)]);
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
    assert_eq!(plan.instead_of_bpf.as_deref(), Some(names::TRACING));
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

/// The results of these groups, in order.
fn of_groups(machine: &str, features: &[Feature], groups: &[Group]) -> Vec<(String, String)> {
    let of_groups = features
        .iter()
        .filter(|feature| groups.contains(&feature.group));
    of_groups
        .map(|feature| {
            (
                format!("{machine}: {}", feature.name),
                format!("{:?}", feature.presence),
            )
        })
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
    let mut said = of_groups("x86", &features, &[Group::Idle]);
    // "no   no memory" would be read twice.
    for feature in &features {
        assert!(!feature.name.starts_with("no "), "{}", feature.name);
    }
    let folder = arm();
    let features = survey(&Root::at(folder.path()));
    said.extend(of_groups("arm", &features, &[Group::Idle]));
    let costs = &find(&features, names::DRIVER).unwrap().costs;
    said.push(("arm: what the missing driver costs".into(), costs.clone()));
    snapshot!("features", said);
}

#[test]
fn counters_clocks_and_surroundings_are_listed_one_by_one() {
    let folder = x86();
    let features = survey(&Root::at(folder.path()));
    let groups = [Group::Counters, Group::Clock, Group::Machine];
    let mut said = of_groups("x86", &features, &groups);
    let folder = arm();
    let features = survey(&Root::at(folder.path()));
    said.extend(of_groups("arm", &features, &groups));
    snapshot!("features", said);
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
    let said = [
        names::BTF,
        names::TRACING,
        "probe cost counting",
        names::CORE_RESIDENCY,
        names::SMI,
        "energy by perf (RAPL)",
        "energy by powercap (RAPL)",
        "clock source",
        "timers leave idle CPUs",
        "outside of containers",
        "kernel memory for BPF",
        names::SECOND_CPU,
        "CPU hotplug",
    ]
    .map(|name| {
        let presence = &find(&features, name).unwrap().presence;
        (name, format!("{presence:?}"))
    });
    snapshot!("features", said);
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
    assert!(matches!(refused.presence, Presence::Denied(_)));
    assert_eq!(refused.brings, user::AS_ROOT);
    // Other features, and the user's, keep their values.
    assert_ne!(named("cpuidle governor").brings, user::AS_ROOT);
    assert!(matches!(named("CAP_BPF").presence, Presence::Denied(_)));
    assert!(named("CAP_BPF").brings.contains("cap_bpf,cap_perfmon+ep"));
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
    let counting = ["0\n", "1\n"].map(|value| as_admin(value).0);
    if nix::unistd::geteuid().is_root() {
        let written = yes_as("cpu1/cpuidle/state0/disable can be written");
        assert_eq!(as_admin("0\n").1, written);
    }
    std::fs::remove_file(folder.path().join(disable)).unwrap();
    let [off, on] = counting.map(|presence| format!("{presence:?}"));
    let missing = format!("{:?}", as_admin("0\n").1);
    snapshot!(
        "features",
        [
            ("counting", off),
            ("counting already", on),
            ("no file", missing)
        ]
    );
}

#[test]
fn a_permission_error_differs_from_other_errors() {
    let folder = tempfile::tempdir().unwrap();
    let root = Root::live_at(folder.path());
    let facts = live(&root);
    let errors: [fn() -> io::Result<()>; 4] = [
        || Ok(()),
        || Err(io::ErrorKind::PermissionDenied.into()),
        || Err(io::ErrorKind::NotFound.into()),
        || Err(io::Error::other("it is on fire")),
    ];
    let counted = |result: io::Result<()>| {
        let error = result.err().map(|source| crate::Error::Counter {
            counter: "msr/smi".to_owned(),
            cpu: 3,
            source,
        });
        counting::opened(&facts, "smi_count", 3, error)
    };
    let said = errors.map(|result| {
        let presences = [
            bpf::tried(&facts, result()),
            idling::opened(&facts, result()),
            counted(result()),
        ];
        let case = format!("{:?}: a BPF program, a device, a counter", result());
        (
            case,
            presences.map(|presence| format!("{presence:?}")).join("\n"),
        )
    });
    snapshot!("features", said);
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
    let counting = Plan::of(&guest);
    guest.retain(|one| !one.name.ends_with("residency"));
    let plans = [
        ("without a timer", without_timer),
        ("without BPF", user),
        ("a guest", counting),
        ("a guest without counters", Plan::of(&guest)),
    ];
    snapshot!("plans", plans);
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
        of("own hardware", no(), Weight::Distorts),
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
    assert_eq!(chosen(&features), ["root", "BTF", "own hardware"]);
    features[6].presence = no();
    assert_eq!(
        chosen(&features),
        ["root", "BTF", "CAP_BPF", "own hardware"]
    );
    features[6].costs = "BTF".to_owned();
    assert_eq!(chosen(&features), ["root", "BTF", "own hardware"]);
    features[6].costs = "CAP_BPF".to_owned();
    features[6].brings = "BTF's".to_owned();
    assert_eq!(chosen(&features), ["root", "BTF", "own hardware"]);
}
