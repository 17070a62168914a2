use std::path::Path;

use super::*;

/// Writes `path = value` lines below a folder, as sysfs would show them.
fn machine(files: &[(&str, &str)]) -> (tempfile::TempDir, Root) {
    let folder = tempfile::tempdir().unwrap();
    for (path, value) in files {
        let path = folder.path().join(CPU).join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, format!("{value}\n")).unwrap();
    }
    let root = Root::at(folder.path());
    (folder, root)
}

#[test]
fn every_field_of_a_state_is_read() {
    let (_folder, root) = machine(&[
        ("present", "0-1"),
        ("online", "0"),
        ("cpuidle/current_driver", "intel_idle"),
        ("cpuidle/current_governor", "menu"),
        ("cpuidle/available_governors", "ladder menu "),
        ("cpu0/cpuidle/state1/name", "C6"),
        ("cpu0/cpuidle/state1/desc", "MWAIT 0x20"),
        ("cpu0/cpuidle/state1/latency", "133"),
        ("cpu0/cpuidle/state1/residency", "400"),
        ("cpu0/cpuidle/state1/disable", "1"),
        ("cpu0/cpuidle/state1/default_status", "enabled"),
        ("cpu0/cpuidle/state1/usage", "7"),
        ("cpu0/cpuidle/state1/time", "8000"),
        ("cpu0/cpuidle/state1/rejected", "1"),
        ("cpu0/cpuidle/state1/above", "2"),
        ("cpu0/cpuidle/state1/below", "3"),
    ]);
    let idle = Idle::read(&root).unwrap();
    assert_eq!(idle.driver.as_deref(), Some("intel_idle"));
    assert_eq!(idle.governor.as_deref(), Some("menu"));
    assert_eq!(idle.available_governors, ["ladder", "menu"]);
    let online: Vec<bool> = idle.cpus.iter().map(|cpu| cpu.online).collect();
    assert_eq!(online, [true, false]);
    assert!(idle.cpus[1].states.is_empty());
    let expected = IdleState {
        index: 1,
        name: "C6".into(),
        description: Some("MWAIT 0x20".into()),
        exit_latency_us: Some(133),
        target_residency_us: Some(400),
        disabled: Some(true),
        enabled_by_default: Some(true),
        usage: Some(7),
        time_us: Some(8000),
        rejected: Some(1),
        above: Some(2),
        below: Some(3),
    };
    assert_eq!(idle.cpus[0].states, [expected]);
}

#[test]
fn missing_or_invalid_values_are_unknown_and_not_zero() {
    let (_folder, root) = machine(&[
        ("present", "0"),
        ("cpu0/cpuidle/state0/usage", "many"),
        ("cpu0/cpuidle/state0/latency", "-5"),
        ("cpu0/cpuidle/state0/disable", "2"),
        ("cpu0/cpuidle/state0/time", "99999999999999999999999"),
        ("cpu0/cpuidle/stateful/name", "no state"),
        ("cpu0/power/pm_qos_resume_latency_us", "soon"),
    ]);
    let idle = Idle::read(&root).unwrap();
    let cpu = &idle.cpus[0];
    assert_eq!(cpu.resume_latency_us, None);
    assert_eq!(cpu.states.len(), 1);
    let state = &cpu.states[0];
    assert_eq!(state.name, "state0");
    assert_eq!(
        (
            state.usage,
            state.exit_latency_us,
            state.disabled,
            state.time_us
        ),
        (None, None, None, None)
    );
}

#[test]
fn the_driver_none_is_no_driver() {
    let (_folder, root) = machine(&[("present", "0"), ("cpuidle/current_driver", "none")]);
    assert_eq!(Idle::read(&root).unwrap().driver, None);
}

#[test]
fn states_are_ordered_by_number() {
    let files: Vec<(String, &str)> = (0..12)
        .map(|n| (format!("cpu0/cpuidle/state{n}/name"), "S"))
        .chain([("present".to_owned(), "0")])
        .collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(p, v)| (p.as_str(), *v)).collect();
    let (_folder, root) = machine(&files);
    let idle = Idle::read(&root).unwrap();
    let order: Vec<u32> = idle.cpus[0]
        .states
        .iter()
        .map(|state| state.index)
        .collect();
    assert_eq!(order, (0..12).collect::<Vec<_>>());
}

#[test]
fn a_bound_differs_from_no_bound_and_from_zero_latency() {
    assert_eq!(resume_latency("0"), Some(0));
    assert_eq!(resume_latency("50\n"), Some(50));
    assert_eq!(resume_latency("n/a"), Some(-1));
    assert_eq!(resume_latency("-7"), None);
    assert_eq!(resume_latency(""), None);
}

#[test]
fn without_lists_the_folders_and_their_online_files_are_used() {
    let (_folder, root) = machine(&[
        ("cpu0/uevent", ""),
        ("cpu2/online", "0"),
        ("cpu10/online", "1"),
        ("cpufreq/boost", "1"),
    ]);
    let idle = Idle::read(&root).unwrap();
    let cpus: Vec<(u32, bool)> = idle
        .cpus
        .iter()
        .map(|cpu| (cpu.number, cpu.online))
        .collect();
    assert_eq!(cpus, [(0, true), (2, false), (10, true)]);
}

#[test]
fn siblings_come_from_the_lists_or_from_cpuinfo() {
    let (_folder, root) = machine(&[
        ("present", "0-1"),
        ("cpu0/topology/core_id", "0"),
        ("cpu0/topology/physical_package_id", "-1"),
        ("cpu0/topology/thread_siblings_list", "0-1"),
    ]);
    let idle = Idle::read(&root).unwrap();
    assert_eq!(idle.cpus[0].siblings, [0, 1]);
    assert_eq!((idle.cpus[0].package, idle.cpus[0].core), (None, Some(0)));

    let (folder, root) = machine(&[("present", "0-2")]);
    std::fs::create_dir_all(folder.path().join("proc")).unwrap();
    let block = |n, core| format!("processor: {n}\nphysical id: 0\ncore id: {core}\n\n");
    let cpuinfo = [block(0, 4), block(1, 5), block(2, 4)].concat();
    std::fs::write(folder.path().join("proc/cpuinfo"), cpuinfo).unwrap();
    let idle = Idle::read(&root).unwrap();
    assert_eq!(idle.cpus[2].siblings, [0, 2]);
    assert_eq!(idle.cpus[1].siblings, [1]);
}

#[test]
fn isolation_is_read_and_null_is_none() {
    let (_folder, root) = machine(&[
        ("present", "0-3"),
        ("isolated", "2-3"),
        ("nohz_full", "  (null)"),
    ]);
    let idle = Idle::read(&root).unwrap();
    assert_eq!(idle.isolated, [2, 3]);
    assert!(idle.nohz_full.is_empty());
}

#[test]
fn a_folder_without_cpus_is_one_error_line() {
    let empty = tempfile::tempdir().unwrap();
    let error = Idle::read(&Root::at(empty.path())).unwrap_err().to_string();
    assert!(
        error.contains("cpu/present") && !error.contains('\n'),
        "{error}"
    );
    let (_folder, root) = machine(&[("present", "lots\nof them")]);
    let error = Idle::read(&root).unwrap_err().to_string();
    assert!(
        error.contains("a list of CPUs") && !error.contains('\n'),
        "{error}"
    );
    assert!(Idle::read(&Root::at(Path::new("/dev/null"))).is_err());
}

#[test]
fn changing_values_are_reread_and_a_removed_cpu_is_noticed() {
    let (folder, root) = machine(&[
        ("present", "0-1"),
        ("online", "0-1"),
        ("cpu0/cpuidle/state0/name", "C1"),
        ("cpu0/cpuidle/state0/usage", "7"),
        ("cpu0/cpuidle/state0/disable", "0"),
        ("cpu0/power/pm_qos_resume_latency_us", "0"),
    ]);
    let mut idle = Idle::read(&root).unwrap();
    let write = |file: &str, text: &str| {
        std::fs::write(folder.path().join(CPU).join(file), text).unwrap();
    };
    write("cpu0/cpuidle/state0/usage", "9\n");
    write("cpu0/cpuidle/state0/disable", "1\n");
    write("cpu0/power/pm_qos_resume_latency_us", "20\n");
    idle.reread(&root).unwrap();
    assert_eq!(idle, Idle::read(&root).unwrap());
    assert_eq!(idle.cpus[0].states[0].usage, Some(9));
    write("online", "0\n");

    idle.reread(&root).unwrap();
    assert_eq!(idle, Idle::read(&root).unwrap());
    assert!(!idle.cpus[1].online);
}

#[test]
fn rereading_keeps_the_table_while_cpus_and_driver_are_unchanged() {
    let (folder, root) = machine(&[
        ("present", "0-1"),
        ("online", "0-1"),
        ("cpuidle/current_driver", "intel_idle"),
        ("cpu0/cpuidle/state0/name", "C1"),
        ("cpu0/cpuidle/state0/latency", "2"),
    ]);
    let mut idle = Idle::read(&root).unwrap();
    let write = |file: &str, text: &str| {
        std::fs::write(folder.path().join(CPU).join(file), text).unwrap();
    };
    // A driver's table does not change: it is not reread.
    write("cpu0/cpuidle/state0/latency", "50\n");
    idle.reread(&root).unwrap();
    assert_eq!(idle.cpus[0].states[0].exit_latency_us, Some(2));
    // Another driver has its own table.
    write("cpuidle/current_driver", "acpi_idle\n");
    idle.reread(&root).unwrap();
    assert_eq!(idle.cpus[0].states[0].exit_latency_us, Some(50));
    assert_eq!(idle.driver.as_deref(), Some("acpi_idle"));
}

#[test]
fn disabled_has_the_kernels_values_and_is_otherwise_unknown() {
    let of = |text: &str| {
        let (_folder, root) = machine(&[
            ("present", "0"),
            ("cpu0/cpuidle/state0/name", "C1"),
            ("cpu0/cpuidle/state0/disable", text),
            ("cpu0/cpuidle/state0/default_status", text),
        ]);
        let state = Idle::read(&root).unwrap().cpus.remove(0).states.remove(0);
        (state.disabled, state.enabled_by_default)
    };
    assert_eq!(of("0"), (Some(false), None));
    assert_eq!(of("1"), (Some(true), None));
    assert_eq!(of("2"), (None, None));
    assert_eq!(of("enabled"), (None, Some(true)));
    assert_eq!(of("disabled"), (None, Some(false)));
}

#[test]
fn a_cpu_is_found_by_number_and_not_by_position() {
    let (_folder, root) = machine(&[
        ("present", "1,5"),
        ("online", "1,5"),
        ("cpu5/power/pm_qos_resume_latency_us", "n/a"),
    ]);
    let idle = Idle::read(&root).unwrap();
    let bound = |number| idle.cpu(number).map(|cpu| cpu.resume_latency_us);
    assert_eq!(
        (bound(0), bound(1), bound(5)),
        (None, Some(None), Some(Some(-1)))
    );
}
