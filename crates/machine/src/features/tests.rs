use std::collections::HashSet;

use super::*;

fn feature(name: &str, group: Group, presence: Presence) -> Feature {
    Feature::new(group, name, presence, "", "")
}

fn yes() -> Presence {
    Presence::Yes(String::new())
}

#[test]
fn every_feature_has_a_name_of_its_own_and_says_what_it_costs_and_what_brings_it() {
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
    assert_eq!(
        find(&features, names::TRACING).unwrap().presence,
        recorded()
    );
    let live = survey(&Root::default());
    assert!(live.iter().any(|feature| feature.group == Group::User));
    assert_ne!(find(&live, names::TRACING).unwrap().presence, recorded());
}

#[test]
fn what_was_really_tried_takes_the_place_of_what_was_read() {
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
fn the_plan_is_the_bpf_probe_where_all_of_it_is_there() {
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
fn the_probes_own_try_is_the_last_word() {
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
fn the_plan_is_the_user_probe_where_anything_of_bpf_is_missing() {
    let features = [names::BTF, names::CPU_IDLE, names::TIMER, names::SECOND_CPU]
        .map(|name| feature(name, Group::Bpf, yes()));
    let plan = Plan::of(&features);
    assert_eq!((plan.probe, plan.arming.clone()), (Probe::User, None));
    assert!(
        plan.to_string()
            .starts_with("the user probe (BPF lacks: tracing programs)")
    );
}
