//! For any cycle read from a log the graph is valid: nothing panics, and the path is complete.

use proptest::prelude::*;
use reveille_resume::cycle::{Call, CpuStep, Cycle, Name, Stage, StageKind, Us};
use reveille_resume::graph::{Graph, Half, What};
use reveille_resume::what_if::{Change, best_removals, replay, steps};

const KINDS: [StageKind; 15] = [
    StageKind::Freeze,
    StageKind::Prepare,
    StageKind::Suspend,
    StageKind::SuspendLate,
    StageKind::SuspendNoirq,
    StageKind::CpusOff,
    StageKind::Platform,
    StageKind::Idle,
    StageKind::Test,
    StageKind::CpusOn,
    StageKind::ResumeNoirq,
    StageKind::ResumeEarly,
    StageKind::Resume,
    StageKind::Complete,
    StageKind::Thaw,
];

fn time() -> impl Strategy<Value = Us> {
    prop_oneof![
        0..50i64,
        0..5_000_000i64,
        -1_000_000_000_000..1_000_000_000_000i64
    ]
}

/// Few names, so that parents are children of their children, and devices share their names.
fn name() -> impl Strategy<Value = Name> {
    prop::sample::select(vec!["a", "b", "c", "1-2", "1-2:1.0", "usb1", "none", ""])
        .prop_map(Name::from)
}

fn call() -> impl Strategy<Value = Call> {
    let half = (prop::option::of(time()), prop::option::of(time()));
    let names = (name(), prop::option::of(name()), prop::option::of(name()));
    (names, half, 0..KINDS.len(), prop::option::of(0..4u32)).prop_map(
        |(names, half, kind, worker)| {
            let (device, driver, parent) = names;
            Call {
                device,
                driver,
                parent,
                function: None,
                stage: KINDS[kind],
                start: half.0,
                end: half.1,
                says_us: None,
                worker,
                result: None,
            }
        },
    )
}

fn cycle() -> impl Strategy<Value = Cycle> {
    let stages = prop::collection::vec(prop::option::of((time(), time())), KINDS.len());
    let cpus = prop::collection::vec((0..4u32, any::<bool>(), time(), time()), 0..6);
    (stages, cpus, prop::collection::vec(call(), 0..40)).prop_map(|(stages, cpus, calls)| Cycle {
        number: 1,
        sleep: None,
        at: None,
        stages: KINDS
            .into_iter()
            .zip(stages)
            .filter_map(|(kind, times)| {
                let (start, end) = times?;
                Some(Stage {
                    kind,
                    start,
                    end,
                    says_us: None,
                })
            })
            .collect(),
        cpus: cpus
            .into_iter()
            .map(|(cpu, on, start, end)| CpuStep {
                cpu,
                on,
                start,
                end,
            })
            .collect(),
        calls,
        asleep_us: None,
        shift_us: 0,
        failures: Vec::new(),
        cut: true,
        stamped: true,
        resolution_us: 1,
        woke: None,
        gaps: Vec::new(),
        ..Cycle::default()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn any_cycle_has_a_whole_path_and_a_replay(cycle in cycle()) {
        for half in [Half::Suspend, Half::Resume] {
            let graph = Graph::of_half(&cycle, &[], half);
            let path = graph.critical_path();
            let mut at = graph.start;
            for link in &path.links {
                prop_assert_eq!(link.start, at);
                at = link.end;
            }
            prop_assert_eq!(at, graph.end);
            let replayed = replay(&graph, &[]).unwrap();
            for step in &graph.steps {
                if let What::Call(call) = step.what {
                    prop_assert_eq!(replayed.calls[call], Some((step.start, step.end)));
                }
            }
            let without = Change::without("a,usb1").unwrap();
            let less = replay(&graph, std::slice::from_ref(&without)).unwrap();
            let mut at = graph.start;
            for link in &less.path.links {
                prop_assert_eq!(link.start, at);
                at = link.end;
            }
            prop_assert_eq!(at, graph.start + less.total_us);
            let best = best_removals(&graph);
            prop_assert!(best.iter().all(|one| one.total_us <= replayed.total_us));
            steps(&graph, &[without], 3).unwrap();
            let slack = graph.slack_us();
            prop_assert!(slack.iter().flatten().all(|&slack| slack >= 0), "{:?}", slack);
        }
    }
}
