//! The ten recorded machines, read completely and compared with their kernels' files.

mod facts;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use facts::{Facts, MACHINES};
use reveille_kernel::boot::{self, WithoutDriver};
use reveille_kernel::{CoreKind, Cpu, Identity, Idle, IdleState, PreWake, Root};

/// The folder of recorded machines, beside the repository.
fn recordings() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/machines")
}

/// A recorded machine as files that tests may read; `None`, with a message, if the recordings are
/// unavailable. Extracted once and kept below `target/tmp`: ten machines are 50 000 files.
fn machine(name: &str) -> Option<Root> {
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let recording = recordings().join(name).join("sysfs.txt.xz");
    // A replaced recording is a different one.
    let length = recording.metadata().map_or(0, |recording| recording.len());
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{length}"));
    if !folder.exists() {
        // Renamed when it is complete: another process may do the same at the same time.
        let unfinished = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        lay_out(name, unfinished.path())?;
        let _ = std::fs::rename(unfinished.path(), &folder);
    }
    Some(Root::at(folder))
}

/// Writes a recorded machine into a folder; `None`, with a message, if that fails.
fn lay_out(name: &str, folder: &Path) -> Option<()> {
    let program = recordings().join("lay-out");
    if !program.exists() {
        println!("skipped: no recorded machines at ../shared/machines");
        return None;
    }
    match Command::new(&program).arg(name).arg(folder).status() {
        Ok(status) if status.success() => Some(()),
        // It calls python3 and xz.
        other => {
            println!("skipped: {} {name}: {other:?}", program.display());
            None
        }
    }
}

#[test]
fn only_intels_servers_have_pre_wake() {
    let servers = [
        "ivbep1",
        "hswep0",
        "bdwep0",
        "bdwex0-nocpuidle",
        "sklep0",
        "icx2s3",
    ];
    for facts in MACHINES {
        let Some(root) = machine(facts.name) else {
            return;
        };
        let pre_wake = Identity::read(&root).c_state_pre_wake;
        let is_server = servers.contains(&facts.name);
        // A recording holds no register.
        let is_unknown = matches!(pre_wake, Some(PreWake::Unknown(_)));
        assert_eq!(
            (pre_wake.is_some(), is_unknown),
            (is_server, is_server),
            "{}",
            facts.name
        );
    }
}

#[test]
fn every_recorded_machine_is_identified() {
    for facts in MACHINES {
        let Some(root) = machine(facts.name) else {
            return;
        };
        let idle = Idle::read(&root).unwrap();
        let identity = Identity::read(&root);
        let name = facts.name;
        assert!(
            identity.cpu_model.as_deref().unwrap().contains(facts.model),
            "{name}"
        );
        assert_eq!(identity.kernel.as_deref(), Some(facts.kernel), "{name}");
        assert_eq!(identity.architecture.as_deref(), Some("x86_64"), "{name}");
        assert_eq!(identity.hypervisor, None, "{name}");
        assert_eq!(identity.cpus_online, Some(facts.cpus as u32), "{name}");
        assert!(
            identity
                .microcode
                .is_some_and(|code| code.starts_with("0x")),
            "{name}"
        );

        assert_eq!(idle.driver.as_deref(), Some(facts.driver), "{name}");
        assert_eq!(idle.governor.as_deref(), Some("menu"), "{name}");
        assert!(
            idle.available_governors.contains(&"menu".to_owned()),
            "{name}"
        );
        assert_eq!(WithoutDriver::of(&idle, &root), None, "{name}");

        assert_eq!(idle.cpus.len(), facts.cpus, "{name}");
        assert!(idle.cpus.iter().all(|cpu| cpu.online), "{name}");
        assert!(
            idle.cpus.iter().all(|cpu| cpu.resume_latency_us == Some(0)),
            "{name}"
        );
        assert_eq!(
            distinct(&idle, |cpu| cpu.package.zip(cpu.core)),
            facts.cores,
            "{name}"
        );
        assert_eq!(distinct(&idle, |cpu| cpu.package), facts.packages, "{name}");
        for cpu in &idle.cpus {
            assert!(
                cpu.siblings.contains(&cpu.number),
                "{name}, CPU {}",
                cpu.number
            );
            states_are(&facts, cpu);
        }
    }
}

fn distinct<Key: Eq + std::hash::Hash>(idle: &Idle, key: impl Fn(&Cpu) -> Option<Key>) -> usize {
    let keys: std::collections::HashSet<Key> = idle.cpus.iter().filter_map(key).collect();
    keys.len()
}

fn states_are(facts: &Facts, cpu: &Cpu) {
    let place = format!("{}, CPU {}", facts.name, cpu.number);
    let figures = |state: &IdleState| {
        let latency = state.exit_latency_us.unwrap();
        (
            state.name.clone(),
            latency,
            state.target_residency_us.unwrap(),
        )
    };
    let found: Vec<_> = cpu.states.iter().map(figures).collect();
    let expected: Vec<_> = facts
        .states
        .iter()
        .map(|&(name, exit, target)| (name.to_owned(), exit, target))
        .collect();
    assert_eq!(found, expected, "{place}");
    let named = |chosen: fn(&&IdleState) -> bool| -> Vec<String> {
        cpu.states
            .iter()
            .filter(chosen)
            .map(|state| state.name.clone())
            .collect()
    };
    let off_by_default = named(|state| state.enabled_by_default == Some(false));
    assert_eq!(off_by_default, facts.off_by_default, "{place}");
    assert_eq!(
        named(|state| state.disabled == Some(true)),
        facts.off,
        "{place}"
    );
}

/// Every line of the recording, read without this crate.
fn lines(name: &str) -> HashMap<String, String> {
    let file = recordings().join(name).join("sysfs.txt.xz");
    let text = Command::new("xz")
        .arg("-dc")
        .arg(file)
        .output()
        .unwrap()
        .stdout;
    let text = String::from_utf8(text).unwrap();
    let line = |line: &str| {
        line.split_once('|')
            .map(|(path, value)| (path.into(), value.into()))
    };
    text.lines().filter_map(line).collect()
}

#[test]
fn every_recorded_value_of_every_state_is_read() {
    for Facts { name, .. } in MACHINES {
        let Some(root) = machine(name) else {
            return;
        };
        let mut lines = lines(name);
        for cpu in Idle::read(&root).unwrap().cpus {
            for state in cpu.states {
                let folder = format!(
                    "/sys/devices/system/cpu/cpu{}/cpuidle/state{}/",
                    cpu.number, state.index
                );
                let number = |value: Option<u64>| value.unwrap().to_string();
                let shown = [
                    ("name", state.name),
                    ("desc", state.description.unwrap()),
                    ("latency", number(state.exit_latency_us)),
                    ("residency", number(state.target_residency_us)),
                    ("disable", u8::from(state.disabled.unwrap()).to_string()),
                    (
                        "default_status",
                        ["disabled", "enabled"][usize::from(state.enabled_by_default.unwrap())]
                            .into(),
                    ),
                    ("usage", number(state.usage)),
                    ("time", number(state.time_us)),
                    ("rejected", number(state.rejected)),
                    ("above", number(state.above)),
                    ("below", number(state.below)),
                ];
                for (file, value) in shown {
                    let recorded = lines.remove(&format!("{folder}{file}"));
                    assert_eq!(
                        recorded.as_deref(),
                        Some(value.as_str()),
                        "{name} {folder}{file}"
                    );
                }
                // The old ABI's file, which nothing here reads.
                lines.remove(&format!("{folder}power"));
            }
        }
        let unread: Vec<&String> = lines
            .keys()
            .filter(|path| path.contains("/cpuidle/state"))
            .collect();
        assert!(unread.is_empty(), "{name}: not read: {unread:?}");
    }
}

#[test]
fn equal_cpus_are_one_group_and_a_hybrid_has_two() {
    for Facts { name, cpus, .. } in MACHINES {
        let Some(root) = machine(name) else {
            return;
        };
        let groups = Idle::read(&root).unwrap().groups();
        if name != "rpl0" {
            assert_eq!(groups.len(), 1, "{name}");
            assert_eq!(
                (groups[0].cpus.len(), &groups[0].kind),
                (cpus, &None),
                "{name}"
            );
            continue;
        }
        let found: Vec<_> = groups
            .iter()
            .map(|group| (group.cpus.clone(), group.kind.clone()))
            .collect();
        let expected = [
            ((0..8).collect(), Some(CoreKind::MaxFrequencyKhz(4_600_000))),
            (
                (8..16).collect::<Vec<u32>>(),
                Some(CoreKind::MaxFrequencyKhz(3_400_000)),
            ),
        ];
        assert_eq!(found, expected);
    }
}

#[test]
fn only_the_performance_cores_of_a_hybrid_have_siblings() {
    let Some(root) = machine("rpl0") else {
        return;
    };
    let idle = Idle::read(&root).unwrap();
    assert_eq!(idle.cpu(2).unwrap().siblings, [2, 3]);
    assert_eq!(idle.cpu(11).unwrap().siblings, [11]);
}

#[test]
fn no_recorded_machine_has_idle_parameters() {
    for Facts { name, .. } in MACHINES {
        let Some(root) = machine(name) else {
            return;
        };
        let command_line = Identity::read(&root).command_line.unwrap();
        assert!(command_line.contains("BOOT_IMAGE="), "{name}");
        assert_eq!(boot::settings(&command_line), [], "{name}");
    }
}

#[test]
fn a_recording_without_cpuidle_is_a_machine_without_a_driver() {
    let folder = tempfile::tempdir().unwrap();
    let Some(()) = lay_out("cfl-u", folder.path()) else {
        return;
    };
    let cpu = folder.path().join("sys/devices/system/cpu");
    std::fs::remove_dir_all(cpu.join("cpuidle")).unwrap();
    for number in 0..8 {
        std::fs::remove_dir_all(cpu.join(format!("cpu{number}/cpuidle"))).unwrap();
    }
    std::fs::write(folder.path().join("proc/cmdline"), "ro cpuidle.off=1\n").unwrap();
    let root = Root::at(folder.path());
    let idle = Idle::read(&root).unwrap();
    assert_eq!((idle.driver.as_deref(), idle.cpus.len()), (None, 8));
    assert!(idle.cpus.iter().all(|cpu| cpu.states.is_empty()));
    let without = WithoutDriver::of(&idle, &root).unwrap();
    assert!(without.reason.contains("cpuidle.off=1") && without.does.contains("MWAIT"));
}
