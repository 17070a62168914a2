use std::fs;

use super::*;

fn machine() -> (tempfile::TempDir, Root, Vec<IdleState>) {
    let folder = tempfile::tempdir().unwrap();
    let names = ["POLL", "C1", "C6"];
    let states = names.iter().enumerate().map(|(index, name)| {
        let dir = format!("sys/devices/system/cpu/cpu3/cpuidle/state{index}");
        let dir = folder.path().join(dir);
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("disable"), if index == 1 { "1\n" } else { "0\n" }).unwrap();
        IdleState {
            index: index as u32,
            name: (*name).into(),
            description: None,
            exit_latency_us: None,
            target_residency_us: None,
            disabled: None,
            enabled_by_default: None,
            usage: None,
            time_us: None,
            rejected: None,
            above: None,
            below: None,
        }
    });
    let states = states.collect();
    let root = Root::at(folder.path());
    (folder, root, states)
}

fn disabled(root: &Root) -> Vec<u64> {
    let file = |index| format!("/sys/devices/system/cpu/cpu3/cpuidle/state{index}/disable");
    (0..3)
        .map(|index| root.number(&file(index)).unwrap())
        .collect()
}

#[test]
fn only_deeper_states_are_disabled_and_all_are_restored() {
    let (folder, root, states) = machine();
    let mut journal = Journal::new(&root, &folder.path().join("run"));
    allow_up_to(&mut journal, &root, 3, &states, 1).unwrap();
    assert_eq!(disabled(&root), [0, 0, 1]);
    allow_up_to(&mut journal, &root, 3, &states, 2).unwrap();
    assert_eq!(disabled(&root), [0, 0, 0]);
    allow_up_to(&mut journal, &root, 3, &states, 0).unwrap();
    assert_eq!(disabled(&root), [0, 1, 1]);
    drop(journal);
    assert_eq!(disabled(&root), [0, 1, 0]);
}

#[test]
fn the_poll_state_alone_also_requests_zero_latency() {
    let (folder, root, states) = machine();
    let power = folder.path().join("sys/devices/system/cpu/cpu3/power");
    fs::create_dir_all(&power).unwrap();
    let bound = power.join("pm_qos_resume_latency_us");
    fs::write(&bound, "0\n").unwrap();
    let read = || fs::read_to_string(&bound).unwrap();
    let mut journal = Journal::new(&root, &folder.path().join("run"));
    allow_up_to(&mut journal, &root, 3, &states, 2).unwrap();
    assert_eq!(read(), "0\n");
    allow_up_to(&mut journal, &root, 3, &states, 0).unwrap();
    assert_eq!((disabled(&root), read()), (vec![0, 1, 1], "n/a".into()));
    journal.restore();
    assert_eq!((disabled(&root), read()), (vec![0, 1, 0], "0".into()));
}

#[test]
fn a_state_is_found_in_any_case_and_a_missing_one_names_the_others() {
    let (_folder, _root, states) = machine();
    assert_eq!(by_name(&states, 3, "c6").unwrap().index, 2);
    let error = by_name(&states, 3, "C9").unwrap_err().to_string();
    assert!(error.contains("POLL, C1, C6"), "{error}");
}

/// CPUs with these states and exit latencies, µs.
fn described(cpus: &[&[(&str, u64)]]) -> Idle {
    let (_folder, _root, like) = machine();
    let of = |(number, states): (usize, &&[(&str, u64)])| Cpu {
        number: number as u32,
        online: true,
        package: None,
        core: None,
        resume_latency_us: None,
        siblings: vec![],
        kind: None,
        states: (0..)
            .zip(*states)
            .map(|(index, (name, exit))| IdleState {
                index,
                name: (*name).into(),
                exit_latency_us: Some(*exit),
                ..like[0].clone()
            })
            .collect(),
    };
    Idle {
        driver: Some("intel_idle".into()),
        governor: Some("menu".into()),
        available_governors: vec![],
        cpus: cpus.iter().enumerate().map(of).collect(),
        isolated: vec![],
        nohz_full: vec![],
    }
}

fn said(settings: &[Setting]) -> Vec<String> {
    let one = |setting: &Setting| {
        let sign = if setting.disable { '-' } else { '+' };
        format!("{}{sign}{}", setting.cpu, setting.name)
    };
    settings.iter().map(one).collect()
}

/// CPU 0 of one kind, CPU 1 of another.
fn hybrid() -> Idle {
    described(&[
        &[("POLL", 0), ("C1E", 2), ("C6", 170), ("C10", 230)],
        &[("POLL", 0), ("C1", 1), ("C6A", 140), ("C6S", 270)],
    ])
}

fn deepest_of(name: &str) -> Limit {
    Limit::Deepest(name.into())
}

#[test]
fn a_state_of_one_kind_of_core_limits_the_other_by_exit_latency() {
    let planned = settings(&hybrid(), &[0, 1], &deepest_of("c6")).unwrap();
    assert_eq!(said(&planned), ["0+C6", "0-C10", "1-C6S"]);
    let planned = settings(&hybrid(), &[0, 1], &deepest_of("C6A")).unwrap();
    assert_eq!(said(&planned), ["0-C6", "0-C10", "1+C6A", "1-C6S"]);
}

#[test]
fn if_all_states_are_deeper_the_shallowest_is_kept() {
    let mut idle = hybrid();
    idle.cpus[1].states.remove(0);
    let planned = settings(&idle, &[0, 1], &deepest_of("POLL")).unwrap();
    assert_eq!(
        said(&planned),
        ["0+POLL", "0-C1E", "0-C6", "0-C10", "1-C6A", "1-C6S"]
    );
}

#[test]
fn states_are_disabled_on_the_cpus_that_have_them() {
    let limit = Limit::Disable(vec!["c10".into(), "C6S".into(), "POLL".into()]);
    let planned = settings(&hybrid(), &[0, 1], &limit).unwrap();
    assert_eq!(said(&planned), ["0-POLL", "0-C10", "1-POLL", "1-C6S"]);
    let limit = Limit::Disable(vec!["C10".into()]);
    let none = settings(&hybrid(), &[1], &limit).unwrap_err();
    assert!(matches!(&none, Error::Usage(why) if why.contains("POLL, C1, C6A, C6S")));
}

#[test]
fn an_invalid_or_unavailable_limit_is_reported() {
    let usage = |cpus: &[u32], limit| settings(&hybrid(), cpus, &limit).unwrap_err();
    assert!(matches!(usage(&[0, 7], deepest_of("C6")), Error::Usage(why) if why.contains("CPU 7")));
    assert!(matches!(usage(&[0], deepest_of("C9")), Error::Usage(why) if why.contains("C9")));
    let stateless = described(&[&[]]);
    let error = settings(&stateless, &[0], &deepest_of("C1")).unwrap_err();
    assert!(matches!(error, Error::Cannot(_)));
    let mut offline = hybrid();
    offline.cpus[1].online = false;
    let planned = settings(&offline, &[0, 1], &deepest_of("C6")).unwrap();
    assert_eq!(said(&planned), ["0+C6", "0-C10"]);
}

#[test]
fn a_plan_is_set_and_restored() {
    let (folder, root, states) = machine();
    let mut journal = Journal::new(&root, &folder.path().join("run"));
    apply(&mut journal, &up_to(3, &states, 1)).unwrap();
    assert_eq!(disabled(&root), [0, 0, 1]);
    drop(journal);
    assert_eq!(disabled(&root), [0, 1, 0]);
}

#[test]
fn a_state_of_equal_latency_under_another_name_is_kept() {
    let idle = described(&[
        &[("POLL", 0), ("C6", 140), ("C10", 230)],
        &[("POLL", 0), ("C6A", 140), ("C6S", 270)],
    ]);
    let planned = settings(&idle, &[1], &deepest_of("C6A")).unwrap();
    assert_eq!(said(&planned), ["1+C6A", "1-C6S"]);
    let planned = settings(&idle, &[0, 1], &deepest_of("C6A")).unwrap();
    assert_eq!(said(&planned), ["0-C10", "1+C6A", "1-C6S"]);
}

#[test]
fn an_unreadable_cpu_bound_is_an_error() {
    let (folder, root, states) = machine();
    let mut journal = Journal::new(&root, &folder.path().join("run"));
    let bound = root.path("sys/devices/system/cpu/cpu3/power/pm_qos_resume_latency_us");
    fs::create_dir_all(bound).unwrap();
    assert!(allow_up_to(&mut journal, &root, 3, &states, 0).is_err());
    assert_eq!(disabled(&root), [0, 1, 0]);
}

#[test]
fn the_poll_state_comes_first_and_has_that_name() {
    let (_folder, _root, mut states) = machine();
    assert_eq!(poll(&states), Some(&states[0].clone()));
    states[0].name = "C1".into();
    assert_eq!(poll(&states), None);
    states[1].name = "POLL".into();
    assert_eq!(poll(&states), None);
}
