//! The graph's rules, the tree of devices and changes, each on a few calls by hand: at their
//! limits, below and above them.

use crate::hand::{call, cpu, cycle};
use reveille_resume::analysis::{Input, Question, Source, analyse};
use reveille_resume::cycle::{Call, Cycle, Name, StageKind, Us};
use reveille_resume::devices;
use reveille_resume::graph::{DeviceTimes, Graph, Half, LeftOut, Tree};
use reveille_resume::path::{Part, Why};
use reveille_resume::what_if::{Change, Pattern, best_removals, replay, steps};
use reveille_snapshot::snapshot;

use StageKind::{
    Complete, CpusOn, Freeze, Platform, Prepare, Resume, ResumeEarly, ResumeNoirq, Suspend,
    SuspendLate, SuspendNoirq, Thaw,
};

/// Firmware until 0, the devices' resume from 0 to 100 ms; worker 1 is the suspending process, as
/// its call of `complete` shows.
fn resume(calls: Vec<Call>) -> Cycle {
    let mut cycle = cycle(
        1,
        &[
            (Platform, -50_000, 0),
            (Resume, 0, 100_000),
            (Complete, 100_000, 100_010),
        ],
    );
    cycle.calls = calls;
    let complete = call("bus last", "none", Complete, 1, (100_000, 100_010));
    cycle.calls.push(complete);
    cycle
}

/// A call of the devices' resume: its device, parent, worker and times.
fn at(device: &str, parent: &str, worker: u32, span: (Us, Us)) -> Call {
    call(&format!("drv {device}"), parent, Resume, worker, span)
}

/// For the call of this device in the resume's graph: its lag, the device of the previous call in
/// its worker, and that of the call that it directly follows.
fn waits(calls: Vec<Call>, device: &str) -> (Us, Option<String>, Option<String>) {
    let graph = Graph::of(&resume(calls));
    assert_eq!(graph.main, Some(1));
    let name = |step: usize| {
        let device = graph.steps[step].device.unwrap();
        graph.tree.devices[device].name.to_string()
    };
    let own = (0..graph.steps.len()).find(|&step| name(step) == device);
    let step = &graph.steps[own.unwrap()];
    (step.lag, step.before.map(name), step.just_after.map(name))
}

fn some(name: &str) -> Option<String> {
    Some(name.to_owned())
}

#[test]
fn a_call_waits_for_the_one_that_ended_just_before_it_unless_by_chance() {
    // Ends of other calls, the start; the lag, and the call that it directly follows.
    let found = |ends: &[Us], start: Us| {
        let mut calls: Vec<Call> = ends
            .iter()
            .enumerate()
            .map(|(place, &end)| at(&format!("x{place}"), "none", 10 + place as u32, (0, end)))
            .collect();
        calls.push(at("y", "none", 2, (start, start + 1_000)));
        let (lag, before, just_after) = waits(calls, "y");
        assert_eq!(before, None);
        (lag, just_after)
    };
    // Waking a thread and writing two lines takes less than a millisecond.
    assert_eq!(found(&[990], 999), (999, None));
    // One of five falls into the last fifth by chance.
    assert_eq!(found(&[800], 1_000), (200, some("x0")));
    assert_eq!(found(&[799], 1_000), (1_000, None));
    assert_eq!(found(&[9_000], 10_000), (1_000, some("x0")));
    assert_eq!(found(&[8_999], 10_000), (10_000, None));
    // Of three, one falls into the last 666 of 10,000 in 0.1998 of cases, into the last 667 in 0.2001.
    assert_eq!(found(&[9_334, 4_000, 5_000], 10_000), (666, some("x0")));
    assert_eq!(found(&[4_000, 5_000, 9_333], 10_000), (10_000, None));
    assert_eq!(found(&[5_000, 5_000], 5_000), (0, some("x1")));
    // It was not done when the call started.
    assert_eq!(found(&[5_001], 5_000), (5_000, None));
}

#[test]
fn a_call_that_ended_with_the_parent_explains_no_later_start() {
    // p and q end at 3,000: for x alone, chance is 150 in 1,000, for two calls it would be 300.
    let calls = vec![
        at("p", "none", 2, (0, 3_000)),
        at("q", "none", 3, (0, 3_000)),
        at("x", "none", 4, (0, 3_850)),
        at("y", "p", 5, (4_000, 5_000)),
    ];
    assert_eq!(waits(calls.clone(), "y"), (150, None, some("x")));
    // 210 of 1,000 may be chance; a lag of 999 needs no reason.
    let with = |end: Us, start: Us| {
        let mut calls = calls.clone();
        calls[2].end = Some(end);
        calls[3].start = Some(start);
        waits(calls, "y")
    };
    assert_eq!(with(3_790, 4_000), (1_000, None, None));
    assert_eq!(with(3_990, 3_999), (999, None, None));
    assert_eq!(with(3_990, 4_000), (10, None, some("x")));
    let mut only = calls.clone();
    only.remove(2);
    assert_eq!(waits(only, "y"), (1_000, None, None));
}

#[test]
fn a_printed_line_is_no_wait() {
    // The stamp is at 4,000; it took 500, so it started at 8,500: its line took 4,500.
    let mut y = at("y", "p", 5, (4_000, 9_000));
    y.says_us = Some(500);
    let p = at("p", "none", 2, (0, 3_001));
    assert_eq!(waits(vec![p.clone(), y.clone()], "y"), (5_499, None, None));
    // From 3,000 on it is longer than waking a thread takes; x ended as its line was stamped.
    let p = at("p", "none", 2, (0, 3_000));
    let x = at("x", "none", 4, (0, 3_900));
    assert_eq!(waits(vec![p, x, y], "y"), (4_600, None, some("x")));
}

#[test]
fn a_kernel_threads_call_waits_for_its_predecessor_if_it_was_queued() {
    let found = |worker: u32, end: Us, start: Us| {
        let x = at("x", "none", worker, (0, end));
        let y = at("y", "none", worker, (start, start + 1_000));
        let (lag, before, just_after) = waits(vec![x, y], "y");
        assert_eq!(just_after, None);
        (lag, before)
    };
    // A thread would have been woken meanwhile.
    assert_eq!(found(2, 500, 500), (0, some("x")));
    assert_eq!(found(2, 499, 499), (499, None));
    assert_eq!(found(2, 500, 1_500), (1_000, some("x")));
    assert_eq!(found(2, 500, 1_501), (1_501, None));
    assert_eq!(found(2, 501, 500), (500, None));
    // The suspending process has an order.
    assert_eq!(found(1, 10, 9_000), (8_990, some("x")));
    assert_eq!(found(1, 9_000, 9_000), (0, some("x")));
    assert_eq!(found(1, 9_001, 9_000), (9_000, None));
    // Its line was stamped too late for that, or before the other one had ended.
    let with = |stated: Us, span: (Us, Us)| {
        let mut y = at("y", "none", 2, span);
        y.says_us = Some(stated);
        waits(vec![at("x", "none", 2, (0, 700)), y], "y").1
    };
    assert_eq!(with(1_000, (1_700, 4_000)), some("x"));
    assert_eq!(with(1_000, (1_701, 4_000)), None);
    assert_eq!(with(1_000, (699, 4_000)), None);
    // It was ready when its parent was done, 499 µs before.
    let family = |end: Us| {
        let calls = vec![
            at("p", "none", 3, (0, 2_000)),
            at("x", "none", 2, (0, end)),
            at("y", "p", 2, (2_600, 3_000)),
        ];
        waits(calls, "y").1
    };
    assert_eq!((family(2_499), family(2_500)), (None, some("x")));
    // Without a worker's name there is no order.
    let mut calls = vec![at("x", "none", 2, (0, 600)), at("y", "none", 2, (600, 700))];
    calls[1].worker = None;
    calls[1].parent = Some("p".into());
    assert_eq!(waits(calls, "y"), (600, None, None));
}

#[test]
fn a_call_waits_for_its_nearest_ancestors_call_if_that_ended() {
    let graph = |top_end: Us| {
        let cycle = resume(vec![
            at("top", "none", 2, (0, top_end)),
            // middle has no call of its own in this stage.
            call("drv middle", "top", ResumeEarly, 3, (0, 0)),
            at("low", "middle", 4, (5_000, 6_000)),
        ]);
        Graph::of(&cycle)
    };
    for (end, waits, too_late) in [(5_000, true, 0), (5_001, false, 1)] {
        let graph = graph(end);
        let low = graph.steps.iter().find(|step| step.start == 5_000).unwrap();
        assert_eq!(low.tree.len(), usize::from(waits), "{end}");
        assert_eq!(low.lag, if waits { 0 } else { 5_000 });
        let left_out = LeftOut {
            did_not_wait: too_late,
            ..LeftOut::default()
        };
        assert_eq!(graph.left_out, left_out);
    }
    // Nor does it wait for a call that starts with it, and so is not known yet.
    let cycle = resume(vec![
        at("low", "top", 4, (5_000, 6_000)),
        at("top", "none", 2, (5_000, 6_001)),
    ]);
    let found = Graph::of(&cycle);
    assert_eq!(found.left_out.did_not_wait, 1);
    // `complete` runs sequentially, and waits for none.
    let mut cycle = resume(Vec::new());
    cycle.calls = vec![
        call("drv top", "none", Complete, 1, (100_000, 100_003)),
        call("drv low", "top", Complete, 1, (100_004, 100_005)),
    ];
    let graph = Graph::of(&cycle);
    assert_eq!(
        (graph.steps[1].tree.len(), graph.steps[1].before),
        (0, Some(0))
    );
    assert_eq!(graph.steps[1].lag, 1);
}

#[test]
fn stages_follow_each_other_and_calls_that_outlast_theirs_are_counted() {
    let mut cycle = cycle(
        1,
        &[
            (Platform, 0, 1_000),
            (CpusOn, 1_200, 2_000),
            (ResumeNoirq, 2_100, 3_000),
            (Resume, 2_900, 9_000),
            (Thaw, 9_000, 9_500),
        ],
    );
    cycle.cpus = vec![
        cpu(1, true, 1_300, 1_500),
        cpu(2, true, 1_500, 1_500),
        cpu(3, true, 1_900, 1_899),
        cpu(4, false, 1_600, 1_700),
    ];
    cycle.calls = vec![
        call("drv a", "none", ResumeNoirq, 1, (2_100, 2_900)),
        call("drv b", "none", ResumeNoirq, 2, (2_100, 2_901)),
        call("drv c", "none", Resume, 3, (2_900, 8_000)),
        // Only their calls' lines show these stages.
        call("drv c", "none", ResumeEarly, 3, (2_900, 2_900)),
        call("drv d", "none", Complete, 1, (9_000, 9_010)),
        call("drv e", "none", Complete, 1, (9_010, 9_030)),
        call("drv e", "none", Suspend, 1, (-100, -50)),
        call("drv f", "none", Resume, 1, (5_000, 4_999)),
        call("drv g", "none", Resume, 1, (5_000, 5_000)),
    ];
    let mut half = call("drv h", "none", Resume, 1, (5_000, 5_000));
    half.start = None;
    cycle.calls.push(half);
    let graph = Graph::of(&cycle);
    let stages: Vec<_> = graph
        .stages
        .iter()
        .map(|one| {
            (
                one.kind,
                one.start,
                one.end,
                one.gap,
                one.tail,
                one.steps.clone(),
            )
        })
        .collect();
    assert_eq!(
        stages,
        [
            (CpusOn, 1_200, 2_000, 200, 500, 0..2),
            // Its end would be in the next one.
            (ResumeNoirq, 2_100, 2_900, 100, 0, 2..4),
            (ResumeEarly, 2_900, 2_900, 0, 0, 4..5),
            (Resume, 2_900, 9_000, 0, 1_000, 5..7),
            (Complete, 9_000, 9_000, 0, 0, 7..9),
            (Thaw, 9_000, 9_500, 0, 500, 9..9),
        ]
    );
    assert_eq!(
        (graph.start, graph.end, graph.total_us()),
        (1_000, 9_500, 8_500)
    );
    let left_out = LeftOut {
        half_calls: 1,
        backward_calls: 1,
        outlast: 3,
        ..LeftOut::default()
    };
    assert_eq!(graph.left_out, left_out);
    let outlasts: Vec<Us> = graph
        .steps
        .iter()
        .filter(|step| step.outlasts)
        .map(|step| step.end)
        .collect();
    assert_eq!(outlasts, [2_901, 9_010, 9_030]);
    // A call that outlasts its stage may take any time, if nothing else waits for it.
    let slack = graph.slack_us();
    assert_eq!(slack[0], Some(0));
    assert_eq!(slack[1], None);
    assert_eq!(slack[2], Some(0));
    assert_eq!(slack[8], Some(3_000));
    assert_eq!(graph.critical_path().total_us, 8_500);
}

#[test]
fn a_suspend_continues_to_the_kernels_last_message() {
    let entry = |last: Us, sleep: (StageKind, Us, Us)| {
        let stages = [(Freeze, 10, 20), (Suspend, 20, last), sleep];
        let graph = Graph::of_half(&cycle(1, &stages), &[], Half::Suspend);
        (graph.start, graph.end, graph.entry)
    };
    let sleep = (Platform, 90, 95);
    assert_eq!(entry(60, sleep), (10, 90, Some((Platform, 30))));
    assert_eq!(entry(89, sleep), (10, 90, Some((Platform, 1))));
    assert_eq!(entry(90, sleep), (10, 90, None));
    assert_eq!(entry(91, sleep), (10, 91, None));
    // A log with only a resume has nothing of it.
    let graph = Graph::of_half(
        &cycle(1, &[(Platform, 0, 5), (Resume, 5, 9)]),
        &[],
        Half::Suspend,
    );
    assert_eq!(
        (graph.total_us(), graph.entry, graph.stages.len()),
        (0, None, 0)
    );
    // A resume starts at the end of the sleep, or with its first stage, if that is earlier.
    let begins = |rest: (StageKind, Us, Us)| Graph::of(&cycle(1, &[rest, (Resume, 50, 90)])).start;
    assert_eq!(begins((Platform, 0, 30)), 30);
    assert_eq!(begins((Platform, 0, 60)), 50);
    assert_eq!(begins((Suspend, 0, 30)), 50);
}

/// Through the analysis, which shows it.
fn shown_as(cycle: Cycle) -> [DeviceTimes; 2] {
    let input = Input {
        name: String::new(),
        source: Source::default(),
        cycles: vec![cycle],
        notes: Vec::new(),
        ..Input::default()
    };
    let analysis = analyse(vec![input], &Question::default()).unwrap();
    let shown = analysis.machines[0].shown();
    [shown.has(Half::Suspend), shown.has(Half::Resume)]
}

#[test]
fn a_log_has_calls_with_an_order_or_without_or_none() {
    let has = |change: fn(&mut Call)| {
        let mut cycle = cycle(1, &[(Platform, 0, 5), (Resume, 5, 90)]);
        let mut one = call("drv a", "p", Resume, 1, (10, 20));
        change(&mut one);
        cycle.calls = vec![one];
        let graph = Graph::of(&cycle);
        let found = shown_as(cycle);
        (found, graph.steps.len(), graph.left_out.unordered_calls)
    };
    use DeviceTimes::{Missing, Ordered, Unordered};
    assert_eq!(has(|_| ()), ([Missing, Ordered], 1, 0));
    assert_eq!(has(|call| call.worker = None), ([Missing, Ordered], 1, 0));
    assert_eq!(has(|call| call.parent = None), ([Missing, Ordered], 1, 0));
    let neither = |call: &mut Call| (call.worker, call.parent) = (None, None);
    assert_eq!(has(neither), ([Missing, Unordered], 0, 1));
    assert_eq!(
        has(|call| call.stage = SuspendLate),
        ([Ordered, Missing], 0, 0)
    );
}

/// Calls of `device worker` in these stages, at any time.
fn ran(calls: &[(StageKind, &str, u32)]) -> Cycle {
    let mut cycle = cycle(1, &[]);
    let one = |&(kind, device, worker): &(StageKind, &str, u32)| {
        call(&format!("drv {device}"), "none", kind, worker, (0, 1))
    };
    cycle.calls = calls.iter().map(one).collect();
    cycle
}

#[test]
fn the_suspending_process_is_recognized_by_exclusive_calls() {
    let main = |calls: &[(StageKind, &str, u32)]| Graph::of(&ran(calls)).main;
    let noirq = |devices: &[&'static str]| -> Vec<(StageKind, &str, u32)> {
        devices.iter().map(|&one| (ResumeNoirq, one, 5)).collect()
    };
    // `prepare` and `complete` run in it, whatever else runs elsewhere.
    for kind in [Prepare, Complete] {
        assert_eq!(
            main(&[(Resume, "a", 7), (Suspend, "a", 7), (kind, "b", 9)]),
            Some(9)
        );
    }
    // All calls of the late, noirq and early stages ran in one: three are evidence, two are not.
    assert_eq!(main(&noirq(&["a", "b", "c"])), Some(5));
    assert_eq!(main(&noirq(&["a", "b"])), None);
    for kind in [SuspendLate, SuspendNoirq, ResumeEarly] {
        let more = [noirq(&["a", "b", "c"]), vec![(kind, "d", 6)]].concat();
        assert_eq!(main(&more), None, "{kind:?}");
    }
    // Devices that ran twice, and in no other worker.
    assert_eq!(main(&[(Suspend, "a", 7), (Resume, "a", 7)]), Some(7));
    assert_eq!(main(&[(Resume, "a", 7), (Resume, "b", 7)]), None);
    // c ran in it, too, and in another one: it is a thread of the pool.
    let thread = [
        (Suspend, "a", 7),
        (Resume, "a", 7),
        (Suspend, "c", 7),
        (Resume, "c", 8),
    ];
    assert_eq!(main(&thread), None);
    // Names are a bus's own.
    let mut two = ran(&[(Suspend, "a", 7), (Resume, "a", 7), (Resume, "c", 8)]);
    two.calls[2].device = "a".into();
    two.calls[2].driver = Some("other".into());
    assert_eq!(Graph::of(&two).main, Some(7));
    let tie = [
        (Suspend, "a", 7),
        (Resume, "a", 7),
        (Suspend, "c", 8),
        (Resume, "c", 8),
    ];
    assert_eq!(main(&tie), None);
    let more = [&tie[..], &[(ResumeNoirq, "c", 8)]].concat();
    assert_eq!(main(&more), Some(8));
    // The calls in the main stages indicate another one than the noirq stage's.
    let other = [
        noirq(&["a", "b", "c"]),
        vec![(Suspend, "d", 7), (Resume, "d", 7)],
    ]
    .concat();
    assert_eq!(main(&other), Some(7));
    // They indicate the same one, although e has more calls than d.
    let same = [
        noirq(&["a", "b", "c"]),
        vec![
            (Suspend, "d", 5),
            (Resume, "d", 5),
            (Freeze, "e", 6),
            (Thaw, "e", 6),
            (Thaw, "e", 6),
        ],
    ]
    .concat();
    assert_eq!(main(&same), Some(5));
}

/// Each device with its parent's name, in their order.
fn parents(tree: &Tree) -> Vec<(String, Option<String>)> {
    let name = |device: usize| {
        let device = &tree.devices[device];
        format!(
            "{} {}",
            device.driver.as_deref().unwrap_or("-"),
            device.name
        )
    };
    let devices = 0..tree.devices.len();
    devices
        .map(|one| (name(one), tree.devices[one].parent.map(name)))
        .collect()
}

fn tree_of(calls: &[(&str, &str)]) -> Cycle {
    let mut cycle = cycle(1, &[]);
    let one = |&(names, parent): &(&str, &str)| call(names, parent, Resume, 1, (0, 1));
    cycle.calls = calls.iter().map(one).collect();
    // A root's parent has that name.
    for call in &mut cycle.calls {
        call.parent.get_or_insert("none".into());
    }
    cycle
}

fn assert_tree(tree: &Tree, expected: &[(&str, Option<&str>)], ambiguous: usize) {
    let expected: Vec<_> = expected
        .iter()
        .map(|&(one, parent)| (one.to_owned(), parent.map(str::to_owned)))
        .collect();
    assert_eq!(parents(tree), expected);
    assert_eq!(tree.ambiguous, ambiguous);
    for (place, device) in tree.devices.iter().enumerate() {
        let children =
            (0..tree.devices.len()).filter(|&one| tree.devices[one].parent == Some(place));
        let mut own = device.children.clone();
        own.sort_unstable();
        assert_eq!(own, children.collect::<Vec<_>>());
    }
}

#[test]
fn a_parent_is_identified_by_name_and_otherwise_by_most_calls() {
    let cycle = tree_of(&[
        ("sd 0:0", "none"),
        ("sg 0:0", "none"),
        ("sg 0:0", "none"),
        ("bsg x", "0:0"),
        ("bsg y", "0:0"),
        ("usb u", "hub"),
    ]);
    let expected = [
        ("sd 0:0", None),
        ("sg 0:0", None),
        ("bsg x", Some("sg 0:0")),
        ("bsg y", Some("sg 0:0")),
        ("usb u", Some("- hub")),
        ("- hub", None),
    ];
    let tree = Tree::of(&cycle, &[]);
    assert_tree(&tree, &expected, 1);
    let calls: Vec<usize> = tree.devices.iter().map(|one| one.calls).collect();
    assert_eq!(calls, [1, 2, 1, 1, 1, 0]);
    // Of two with as many calls the first one is taken.
    let tie = tree_of(&[("sd 0:0", "none"), ("sg 0:0", "none"), ("bsg x", "0:0")]);
    let expected = [
        ("sd 0:0", None),
        ("sg 0:0", None),
        ("bsg x", Some("sd 0:0")),
    ];
    assert_tree(&Tree::of(&tie, &[]), &expected, 1);
    // No device lies below itself.
    let round = tree_of(&[("a a", "b"), ("b b", "a")]);
    assert_tree(
        &Tree::of(&round, &[]),
        &[("a a", Some("b b")), ("b b", None)],
        0,
    );
    // Another cycle has what this one lacks, and is ignored otherwise.
    let one = tree_of(&[("a a", "none"), ("b b", "x")]);
    let other = tree_of(&[("a a", "p"), ("b b", "q"), ("c c", "a")]);
    let expected = [
        ("a a", Some("- p")),
        ("b b", Some("- x")),
        ("c c", Some("a a")),
        ("- p", None),
        ("- x", None),
    ];
    assert_tree(&Tree::of(&one, std::slice::from_ref(&other)), &expected, 0);
}

#[test]
fn an_interface_without_calls_is_below_its_usb_device() {
    let cycle = tree_of(&[
        ("usb 2-3", "usb2"),
        ("sd host", "2-3:1.0"),
        ("x hid", "2-4:1.0"),
        ("hub 2-0:1.0", "usb9"),
        ("usb usb2", "none"),
    ]);
    let expected = [
        ("usb 2-3", Some("usb usb2")),
        ("sd host", Some("- 2-3:1.0")),
        ("x hid", Some("- 2-4:1.0")),
        // It has calls, so its line decides.
        ("hub 2-0:1.0", Some("- usb9")),
        ("usb usb2", None),
        ("- 2-3:1.0", Some("usb 2-3")),
        // There is no 2-4.
        ("- 2-4:1.0", None),
        ("- usb9", None),
    ];
    assert_tree(&Tree::of(&cycle, &[]), &expected, 0);
    // If its device is known to be below it, it is left unchanged.
    let round = tree_of(&[("usb 2-3", "2-3:1.0")]);
    let expected = [("usb 2-3", Some("- 2-3:1.0")), ("- 2-3:1.0", None)];
    assert_tree(&Tree::of(&round, &[]), &expected, 0);
    // One with a call, whose parent no line names, stays separate.
    let own = tree_of(&[("usb 2-3", "none"), ("uvc 2-3:1.0", "none")]);
    assert_tree(
        &Tree::of(&own, &[]),
        &[("usb 2-3", None), ("uvc 2-3:1.0", None)],
        0,
    );
}

fn known(name: &str, driver: &str, parent: Option<usize>, suppliers: &[usize]) -> devices::Device {
    devices::Device {
        name: name.into(),
        driver: (driver != "-").then(|| driver.into()),
        parent,
        suppliers: suppliers.to_vec(),
    }
}

#[test]
fn sysfs_takes_precedence_over_the_log() {
    let mut cycle = tree_of(&[
        ("ahci disk", "elsewhere"),
        ("old net", "elsewhere"),
        ("new twin", "elsewhere"),
        ("b twin", "elsewhere"),
    ]);
    cycle.devices = vec![
        known("root", "-", None, &[]),
        known("disk", "ahci", Some(0), &[4]),
        // It has another driver now; no other device has its name.
        known("net", "e1000", Some(1), &[77]),
        known("twin", "a", Some(1), &[]),
        known("clock", "clk", Some(0), &[]),
        known("twin", "b", Some(2), &[]),
        // Nothing that has a call needs it.
        known("stray", "s", Some(0), &[]),
    ]
    .into();
    let tree = Tree::of(&cycle, &[]);
    let expected = [
        ("ahci disk", Some("- root")),
        ("old net", Some("ahci disk")),
        // Neither of the two of this name has its driver: the log decides.
        ("new twin", Some("- elsewhere")),
        ("b twin", Some("old net")),
        ("- root", None),
        ("clk clock", Some("- root")),
        ("- elsewhere", None),
    ];
    let mut found = parents(&tree);
    let mut expected: Vec<_> = expected
        .iter()
        .map(|&(one, parent)| (one.to_owned(), parent.map(str::to_owned)))
        .collect();
    found.sort();
    expected.sort();
    assert_eq!(found, expected);
    let place = |name: &str| {
        tree.devices
            .iter()
            .position(|one| &*one.name == name)
            .unwrap()
    };
    let (disk, clock) = (place("disk"), place("clock"));
    assert_eq!(tree.devices[disk].suppliers, [clock]);
    assert_eq!(tree.devices[clock].consumers, [disk]);
    let others = tree.devices.iter().filter(|one| !one.suppliers.is_empty());
    assert_eq!(others.count(), 1);
    // A damaged list: invalid indices, and a device below itself.
    cycle.devices = vec![
        known("disk", "ahci", Some(1), &[9]),
        known("net", "old", Some(0), &[]),
    ]
    .into();
    let tree = Tree::of(&cycle, &[]);
    let (disk, net) = (place_of(&tree, "disk"), place_of(&tree, "net"));
    let both = [tree.devices[disk].parent, tree.devices[net].parent];
    assert!(
        both == [Some(net), None] || both == [None, Some(disk)],
        "{both:?}"
    );
    assert!(tree.is_below(disk, disk) && tree.devices[disk].suppliers.is_empty());
}

fn place_of(tree: &Tree, name: &str) -> usize {
    let mut devices = tree.devices.iter();
    devices.position(|one| &*one.name == name).unwrap()
}

#[test]
fn a_change_is_read_and_written_at_the_limits_of_its_numbers() {
    let set = |text: &str| Change::set(text).map(|one| one.to_string()).ok();
    for (text, written) in [
        ("a=0s", Some("a=0s")),
        ("a=86400s", Some("a=86400s")),
        ("a=86400000001us", None),
        ("a=999us", Some("a=999us")),
        ("a=1000us", Some("a=1ms")),
        ("a=1001us", Some("a=1001us")),
        ("a=1000ms", Some("a=1s")),
        ("a= 5 ms ", Some("a=5ms")),
        ("a=499ns", Some("a=0s")),
        ("a=501ns", Some("a=1us")),
        ("a=b=5ms", Some("a=b=5ms")),
        ("a@b@resume=5ms", Some("a@b@resume=5ms")),
        ("a,b*@resume_noirq=7s", Some("a,b*@resume_noirq=7s")),
        ("a,b*@suspend_noirq=7s", None),
        ("stage:cpus_on=1ms", Some("stage:cpus_on=1ms")),
        ("a=ms", None),
        ("a,=1ms", None),
    ] {
        assert_eq!(set(text).as_deref(), written, "{text}");
    }
    assert_eq!(Change::cpus(" 1 ").unwrap(), Change::Cpus(1));
    let set = |text| (text, Change::set(text).unwrap_err().to_string());
    let no_cpus = ("0 CPUs", Change::cpus("0").unwrap_err().to_string());
    let said = [set("ata1"), set("a=5x"), set("stage:noirq=5ms"), no_cpus];
    snapshot!("errors", said);
    let written = [
        Change::without("a,b*").unwrap(),
        Change::defer("usb?").unwrap(),
        Change::Cpus(8),
    ];
    assert_eq!(
        written.map(|one| one.to_string()),
        ["without a,b*", "defer usb?", "8 CPUs"]
    );
    let pattern = Pattern::parse("*a?c*,exact").unwrap();
    for (name, fits) in [
        ("abc", true),
        ("xxabcxx", true),
        ("aac", true),
        ("ac", false),
        ("aabc", true),
        ("exact", true),
        ("exactly", false),
        ("inexact", false),
    ] {
        assert_eq!(pattern.fits(name), fits, "{name}");
    }
}

/// Three CPUs; a for 20 ms with b below it for 10, c beside them for 25, and d after c in its thread.
/// The stage ends 5 ms after the last of them.
fn machine() -> Cycle {
    let mut machine = cycle(
        1,
        &[
            (Platform, 0, 1_000),
            (CpusOn, 2_000, 20_000),
            (Resume, 20_000, 60_000),
            (Complete, 60_000, 61_000),
        ],
    );
    machine.cpus = vec![cpu(1, true, 2_000, 8_000), cpu(2, true, 9_000, 19_000)];
    machine.calls = vec![
        at("a", "none", 2, (20_000, 40_000)),
        at("b", "a", 3, (40_500, 50_500)),
        at("c", "none", 4, (20_000, 45_000)),
        at("d", "none", 4, (45_000, 55_000)),
        call("drv a", "none", Complete, 1, (60_000, 60_500)),
        call("drv e", "none", Complete, 1, (60_500, 60_600)),
    ];
    machine
}

fn total(changes: &[&str]) -> Us {
    let change = |text: &&str| match text.split_once(' ') {
        Some(("without", what)) => Change::without(what).unwrap(),
        Some(("defer", what)) => Change::defer(what).unwrap(),
        Some(("set", what)) => Change::set(what).unwrap(),
        _ => Change::cpus(text).unwrap(),
    };
    let changes: Vec<Change> = changes.iter().map(change).collect();
    let replayed = replay(&Graph::of(&machine()), &changes).unwrap();
    // The links cover the whole time.
    let mut at = 1_000;
    for link in &replayed.path.links {
        assert_eq!(link.start, at, "{changes:?}: {:#?}", replayed.path.links);
        at = link.end;
    }
    assert_eq!(at, 1_000 + replayed.total_us);
    replayed.total_us
}

#[test]
fn a_replay_lasts_as_long_as_the_remaining_calls() {
    // By hand, of 60 ms: c and d set the end, at 55; b ends at 50.5, a at 40.
    for (changes, us) in [
        (&[][..], 60_000),
        (&["without d"], 55_500),
        // Its call of the last stage is gone, too: half a millisecond.
        (&["without a"], 59_500),
        (&["without d", "without a"], 49_500),
        // Without c, d has no thread to wait for: it starts with the stage.
        (&["without c"], 55_500),
        (&["without c,a"], 34_500),
        (&["without a,c,d"], 24_500),
        // e is in the last stage, whose tail stays: 0.4 ms.
        (&["without e"], 59_900),
        (&["set c=0us"], 55_500),
        (&["set d=0ms", "set c=30ms"], 55_500),
        (&["set d=0ms", "set c=31ms"], 56_000),
        // The later one decides.
        (&["set d=0ms", "set d=11ms"], 61_000),
        // Both calls of a: its longest one is the resume's.
        (&["set a=100ms"], 135_500),
        (&["set a@complete=1ms"], 60_500),
        (&["set stage:resume=1ms"], 21_000),
        (&["set stage:resume=1ms", "set stage:resume=2ms"], 22_000),
        // The first CPU takes 6 ms, the second one 10 and a wait of 1: 8.5 on average.
        (&["3"], 60_000),
        (&["2"], 49_000),
        (&["1"], 43_000),
        (&["4"], 68_500),
        (&["5"], 77_000),
        (&["5", "3"], 60_000),
        (&["1", "3"], 60_000),
        // Deferred, it is not in the total.
        (&["defer d"], 55_500),
        (&["defer d", "without d"], 55_500),
    ] {
        assert_eq!(total(changes), us, "{changes:?}");
    }
}

#[test]
fn steps_of_a_set_stage_keep_their_positions() {
    let graph = Graph::of(&machine());
    let change = Change::set("stage:resume=4ms").unwrap();
    let replayed = replay(&graph, std::slice::from_ref(&change)).unwrap();
    // A tenth of 40 ms.
    let calls = [
        (20_000, 22_000),
        (22_050, 23_050),
        (20_000, 22_500),
        (22_500, 23_500),
        (24_000, 24_500),
        (24_500, 24_600),
    ];
    assert_eq!(replayed.calls, calls.map(Some));
    let set = replayed
        .path
        .links
        .iter()
        .find(|link| link.part == Part::StageSet)
        .unwrap();
    assert_eq!(
        (set.start, set.end, set.why),
        (20_000, 24_000, Why::StageBegins)
    );
    let stages: Vec<_> = replayed
        .stages
        .iter()
        .map(|one| (one.kind, one.start, one.end))
        .collect();
    assert_eq!(
        stages,
        [
            (CpusOn, 2_000, 20_000),
            (Resume, 20_000, 24_000),
            (Complete, 24_000, 25_000)
        ]
    );
}

#[test]
fn added_cpus_follow_the_existing_ones() {
    let graph = Graph::of(&machine());
    let links = |cpus: u32| {
        let replayed = replay(&graph, &[Change::Cpus(cpus)]).unwrap();
        let links = replayed.path.links.into_iter();
        let own = links.filter(|link| link.stage == CpusOn);
        own.map(|link| (link.part, link.start, link.end, link.why))
            .collect::<Vec<_>>()
    };
    let first = [
        (Part::BeforeStage, 1_000, 2_000, Why::Begins),
        (Part::Cpu(0), 2_000, 8_000, Why::StageBegins),
    ];
    let second = [
        (Part::BeforeCpu(1), 8_000, 9_000, Why::CpuBefore),
        (Part::Cpu(1), 9_000, 19_000, Why::Follows),
    ];
    let tail = |at: Us, why: Why| (Part::StageItself, at, at + 1_000, why);
    assert_eq!(
        links(3),
        [&first[..], &second, &[tail(19_000, Why::WaitsForAll)]].concat()
    );
    assert_eq!(
        links(2),
        [&first[..], &[tail(8_000, Why::WaitsForAll)]].concat()
    );
    assert_eq!(links(1), [first[0], tail(2_000, Why::StageBegins)]);
    let more = (Part::MoreCpus(2), 19_000, 36_000, Why::CpuBefore);
    assert_eq!(
        links(5),
        [&first[..], &second, &[more, tail(36_000, Why::Follows)]].concat()
    );
    let error = |cpus: u32, graph: &Graph| {
        replay(graph, &[Change::Cpus(cpus)])
            .unwrap_err()
            .to_string()
    };
    let mut without = machine();
    without.cpus.clear();
    let said = [
        ("none", error(0, &graph)),
        ("of a log without", error(2, &Graph::of(&without))),
    ];
    snapshot!("errors", said);
    // CPUs that take no time, by the log, and one that comes online only after its stage has ended.
    let paths = |span: (Us, Us), end: Us| {
        let mut cycle = cycle(1, &[(Platform, 0, 2_000), (CpusOn, 2_000, end)]);
        cycle.cpus = vec![cpu(1, true, span.0, span.1)];
        let path = replay(&Graph::of(&cycle), &[Change::Cpus(3)]).unwrap().path;
        let links = path.links.into_iter();
        links
            .map(|link| (link.part, link.start, link.end, link.why))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        paths((2_000, 2_000), 3_000),
        [(Part::StageItself, 2_000, 3_000, Why::Begins)]
    );
    assert_eq!(
        paths((2_000, 3_001), 3_000),
        [
            (Part::MoreCpus(1), 2_000, 3_001, Why::Begins),
            (Part::StageItself, 3_001, 4_001, Why::Follows),
        ]
    );
    // A mean is rounded: of 6 and 11 with 2 µs more it is 8.501, of 1 more 8.5005.
    let mut uneven = machine();
    uneven.cpus[1].end += 1;
    let total = |cycle: &Cycle, cpus| {
        replay(&Graph::of(cycle), &[Change::Cpus(cpus)])
            .unwrap()
            .total_us
    };
    assert_eq!(total(&uneven, 4) - total(&uneven, 3), 8_501);
    uneven.cpus[1].end += 1;
    assert_eq!(total(&uneven, 4) - total(&uneven, 3), 8_501);
}

#[test]
fn deferred_calls_keep_their_order_at_the_end() {
    let graph = Graph::of(&machine());
    let changes = [Change::defer("a,d").unwrap()];
    let replayed = replay(&graph, &changes).unwrap();
    // c and e remain, and b goes with a: 45 ms and 5 more, and of the last stage 0.1 and 0.4.
    assert_eq!(replayed.total_us, 49_500);
    let end = 50_500;
    let calls = [
        Some((end, end + 20_000)),
        Some((end + 20_500, end + 30_500)),
        Some((20_000, 45_000)),
        Some((end, end + 10_000)),
        // Its stage comes after all deferred calls of the previous one.
        Some((end + 30_500, end + 31_000)),
        Some((50_000, 50_100)),
    ];
    assert_eq!(replayed.calls, calls);
    let ready: Vec<_> = replayed
        .deferred
        .iter()
        .map(|one| (&*one.device, one.ready_us))
        .collect();
    assert_eq!(ready, [("a", 80_500), ("b", 80_000), ("d", 59_500)]);
    assert!(replayed.removed.is_empty());
    // A removed device is not deferred, whichever comes first.
    for changes in [
        [Change::defer("a").unwrap(), Change::without("b").unwrap()],
        [Change::without("b").unwrap(), Change::defer("a").unwrap()],
    ] {
        let replayed = replay(&graph, &changes).unwrap();
        assert_eq!(replayed.removed, [Name::from("b")]);
        assert_eq!(replayed.deferred.len(), 1);
        assert_eq!((replayed.calls[1], replayed.unmet.len()), (None, 0));
    }
    let suspend = Graph::of_half(&machine(), &[], Half::Suspend);
    let refused = replay(&suspend, &changes).unwrap_err();
    snapshot!("errors", [("defer in a suspend", refused)]);
}

#[test]
fn a_change_matches_devices_with_calls_and_their_ancestors() {
    let mut cycle = machine();
    // p has no call, nothing below q has one, and r's are of the suspend.
    cycle.calls[2].parent = Some("p".into());
    cycle.calls.push(call("drv r", "q", Suspend, 9, (-50, -40)));
    cycle.cpus.push(cpu(3, false, -30, -20));
    let graph = Graph::of(&cycle);
    let meets = |change: Change| change.meets(&graph);
    for (name, is_met) in [
        ("a", true),
        ("p", true),
        ("q", false),
        ("r", false),
        ("drv", true),
    ] {
        assert_eq!(meets(Change::without(name).unwrap()), is_met, "{name}");
        assert_eq!(meets(Change::defer(name).unwrap()), is_met, "{name}");
    }
    for (text, is_met) in [
        ("a=1ms", true),
        // Descendants are not set.
        ("p=1ms", false),
        ("a@resume=1ms", true),
        ("a@resume_noirq=1ms", false),
        ("c@complete=1ms", false),
        ("stage:complete=1ms", true),
        ("stage:thaw=1ms", false),
    ] {
        assert_eq!(meets(Change::set(text).unwrap()), is_met, "{text}");
    }
    assert!(meets(Change::Cpus(2)));
    cycle.cpus.retain(|cpu| !cpu.on);
    assert!(!Change::Cpus(2).meets(&Graph::of(&cycle)));
}

#[test]
fn the_remaining_calls_limit_the_saving_of_a_removal() {
    let removals = |graph: &Graph| -> Vec<(String, usize, Us)> {
        let all = best_removals(graph);
        assert!(
            all.iter()
                .all(|one| one.total_us + one.saves_us == graph.total_us())
        );
        all.into_iter()
            .map(|one| (one.device.to_string(), one.with_below, one.saves_us))
            .collect()
    };
    let of = |name: &str, below: usize, us: Us| (name.to_owned(), below, us);
    let graph = Graph::of(&machine());
    // e only has a call of `complete`, which every bus has. a's is half a millisecond of the path.
    assert_eq!(
        removals(&graph),
        [
            of("c", 0, 4_500),
            of("d", 0, 4_500),
            of("a", 1, 500),
            of("b", 0, 0)
        ]
    );
    let steps = |most: usize| -> Vec<(String, usize, Us, Us)> {
        let all = steps(&graph, &[], most).unwrap().into_iter();
        all.map(|one| {
            (
                one.device.to_string(),
                one.with_below,
                one.total_us,
                one.saves_us,
            )
        })
        .collect()
    };
    // Without c, a and b set the end; without these d, which starts with the stage and takes 10 ms.
    let taken = [
        ("c".to_owned(), 0, 55_500, 4_500),
        ("a".to_owned(), 1, 34_500, 21_000),
        ("d".to_owned(), 0, 24_500, 10_000),
    ];
    for most in 0..5 {
        assert_eq!(steps(most), taken[..most.min(3)], "{most}");
    }
    // Neither of two equally long ones saves anything alone.
    let both = resume(vec![
        at("x", "none", 2, (0, 9_000)),
        at("y", "none", 3, (0, 9_000)),
    ]);
    let both = Graph::of(&both);
    assert_eq!(reveille_resume::what_if::steps(&both, &[], 5).unwrap(), []);
    assert_eq!(removals(&both), [of("x", 0, 0), of("y", 0, 0)]);
}

#[test]
fn a_calls_slack_depends_on_its_waiters() {
    let graph = Graph::of(&machine());
    // a, with b half a millisecond after it, has b's slack; c has that of d's thread.
    let slack = [4_500, 4_500, 0, 0, 0, 0].map(Some);
    assert_eq!(graph.slack_us(), slack);
    let suspend = Graph::of_half(&machine(), &[], Half::Suspend);
    assert_eq!(suspend.slack_us(), [None; 6]);
}

#[test]
fn a_call_with_a_printed_line_has_printing_in_the_path() {
    // p until 3,000; y is called by then or 70 later, prints until 8,500 and takes 500.
    let links = |called: Us| {
        let mut y = at("y", "p", 5, (called, 9_000));
        y.says_us = Some(500);
        let cycle = resume(vec![at("p", "none", 2, (0, 3_000)), y]);
        let links = Graph::of(&cycle).critical_path().links.into_iter();
        links
            .map(|link| (link.part, link.start, link.end, link.why))
            .collect::<Vec<_>>()
    };
    let first = (Part::Call(0), 0, 3_000, Why::Begins);
    let rest = [
        (Part::Call(1), 8_500, 9_000, Why::Follows),
        (Part::StageItself, 9_000, 100_000, Why::WaitsForAll),
        (Part::Call(2), 100_000, 100_010, Why::StageBegins),
    ];
    let at_once = [first, (Part::Printing(1), 3_000, 8_500, Why::Parent)];
    assert_eq!(links(3_000), [&at_once[..], &rest].concat());
    let later = [
        first,
        (Part::Before(1), 3_000, 3_070, Why::Parent),
        (Part::Printing(1), 3_070, 8_500, Why::Follows),
    ];
    assert_eq!(links(3_070), [&later[..], &rest].concat());
    // The line before it may take as long as its own, 5,000 here, and what is longer than that is unexplained.
    let explained = [
        first,
        (Part::Before(1), 3_000, 4_000, Why::Parent),
        (Part::Printing(1), 4_000, 8_500, Why::Follows),
    ];
    assert_eq!(links(4_000), [&explained[..], &rest].concat());
    let unexplained = [
        first,
        (Part::Unexplained(1), 3_000, 6_600, Why::Parent),
        (Part::Printing(1), 6_600, 8_500, Why::Follows),
    ];
    assert_eq!(links(6_600), [&unexplained[..], &rest].concat());
}

#[test]
fn of_a_devices_calls_the_longest_is_set_and_of_equal_ones_the_first() {
    let graph = |early: (Us, Us)| {
        let mut cycle = cycle(
            1,
            &[
                (Platform, -9, 0),
                (ResumeNoirq, 0, 500),
                (Resume, 500, 2_000),
            ],
        );
        cycle.calls = vec![
            call("drv a", "none", ResumeNoirq, 1, early),
            call("drv a", "none", Resume, 1, (1_000, 1_100)),
        ];
        Graph::of(&cycle)
    };
    let set = |early: (Us, Us)| {
        let replayed = replay(&graph(early), &[Change::set("a=0s").unwrap()]).unwrap();
        let took = |call: usize| replayed.calls[call].map(|(start, end)| end - start);
        (took(0), took(1))
    };
    assert_eq!(set((10, 109)), (Some(99), Some(0)));
    assert_eq!(set((10, 110)), (Some(0), Some(100)));
    assert_eq!(set((10, 111)), (Some(0), Some(100)));
}

#[test]
fn a_waiter_of_a_removed_call_waits_for_its_predecessors() {
    // l, below p, waited for m's end at 15,000 in the suspending process, and 2,000 more without a
    // known reason: without p it is unchanged, and its stage waits for that.
    let l = resume(vec![
        at("p", "none", 2, (0, 10_000)),
        at("m", "none", 1, (0, 15_000)),
        at("l", "p", 1, (17_000, 18_000)),
    ]);
    let total = |cycle: &Cycle, what: &str| {
        let change = Change::without(what).unwrap();
        let graph = Graph::of(cycle);
        graph.total_us() - replay(&graph, &[change]).unwrap().total_us
    };
    assert_eq!(total(&l, "p"), 1_000);
    // If it waited for less than a millisecond everything is explained.
    let mut explained = l.clone();
    (explained.calls[2].start, explained.calls[2].end) = (Some(15_999), Some(16_999));
    assert_eq!(total(&explained, "p"), 1_999);
    // y started just as x had ended; b, gone, was to start when x now ends: that is no later.
    let graph = Graph::of(&resume(vec![
        at("x", "none", 2, (0, 9_000)),
        at("b", "none", 1, (2_000, 3_000)),
        at("y", "none", 1, (9_000, 10_000)),
    ]));
    for (us, start, why) in [
        // The reason for b's wait is unknown: only that the half had started.
        (1_999, 2_000, Why::Begins),
        (2_000, 2_000, Why::JustAfter),
        (2_001, 2_001, Why::JustAfter),
    ] {
        let changes = [
            Change::without("b").unwrap(),
            Change::set(&format!("x={us}us")).unwrap(),
        ];
        let replayed = replay(&graph, &changes).unwrap();
        assert_eq!(replayed.calls[2], Some((start, start + 1_000)));
        let mut links = replayed.path.links.iter();
        let y = links.find(|link| link.part == Part::Call(2) || link.part == Part::Unexplained(2));
        assert_eq!(y.unwrap().why, why, "{us}");
    }
}

#[test]
fn a_parent_suspends_after_its_children() {
    let mut cycle = cycle(1, &[(Suspend, 0, 40_000), (Platform, 40_000, 50_000)]);
    cycle.calls = vec![
        call("drv c", "p", Suspend, 2, (900, 10_000)),
        call("drv p", "none", Suspend, 3, (10_500, 30_000)),
    ];
    let graph = Graph::of_half(&cycle, &[], Half::Suspend);
    let links = graph.critical_path().links.into_iter();
    let links: Vec<_> = links
        .map(|link| (link.part, link.start, link.end, link.why))
        .collect();
    assert_eq!(
        links,
        [
            (Part::Before(0), 0, 900, Why::Begins),
            (Part::Call(0), 900, 10_000, Why::Follows),
            (Part::Before(1), 10_000, 10_500, Why::Children),
            (Part::Call(1), 10_500, 30_000, Why::Follows),
            (Part::StageItself, 30_000, 40_000, Why::WaitsForAll),
        ]
    );
    // Without its child it has nothing to wait for.
    let replayed = replay(&graph, &[Change::without("c").unwrap()]).unwrap();
    assert_eq!(replayed.calls, [None, Some((500, 20_000))]);
    assert_eq!(replayed.total_us, 30_000);
    // The devices that it supplies suspend before it, too.
    cycle.calls[0].parent = None;
    cycle.devices = vec![known("p", "drv", None, &[]), known("c", "drv", None, &[0])].into();
    let graph = Graph::of_half(&cycle, &[], Half::Suspend);
    let links = graph.critical_path().links;
    assert_eq!(
        (links[2].part, links[2].why),
        (Part::Before(1), Why::Consumers)
    );
}

/// The kernel's consumer waits for a supplier without a callback until what that waits for is done; without the
/// supplier it waits for nothing.
#[test]
fn a_removed_supplier_holds_up_no_consumer_whether_it_has_a_call_in_the_stage_or_not() {
    for with_call in [true, false] {
        let mut cycle = resume(vec![
            at("a", "none", 2, (1_000, 61_000)),
            at("c", "none", 3, (61_500, 99_000)),
        ]);
        if with_call {
            cycle.calls[1].start = Some(71_500);
            cycle.calls.push(at("b", "a", 4, (61_100, 71_000)));
        }
        let early = call("drv b", "a", ResumeEarly, 1, (-900, -500));
        cycle
            .stages
            .insert(1, hand_stage(ResumeEarly, -1_000, -400));
        cycle.calls.push(early);
        cycle.devices = [
            known("a", "drv", None, &[]),
            known("b", "drv", Some(0), &[]),
            known("c", "drv", None, &[1]),
        ]
        .into();
        let graph = Graph::of(&cycle);
        let change = Change::without("b").unwrap();
        let without = replay(&graph, &[change]).unwrap();
        // Then c, of 37.5 ms or less, runs beside a, of 60 ms.
        let saves = graph.total_us() - without.total_us;
        assert!(saves > 25_000, "{with_call}: {saves}");
        let best = best_removals(&graph);
        let of_b = best.iter().find(|one| &*one.device == "b").unwrap();
        assert_eq!(of_b.total_us, without.total_us);
        // With nothing removed it is as measured.
        assert_eq!(replay(&graph, &[]).unwrap().total_us, graph.total_us());
    }
}

fn hand_stage(kind: StageKind, start: Us, end: Us) -> reveille_resume::cycle::Stage {
    reveille_resume::cycle::Stage {
        kind,
        start,
        end,
        says_us: None,
    }
}

/// A replay takes as long as the graph is large.
#[test]
fn a_long_chain_of_parents_is_replayed_for_its_longest_parts_only() {
    use reveille_resume::what_if::REPLAYS;
    let mut text =
        String::from("[  100.000000] PM: noirq resume of devices complete after 9.000 msecs\n");
    for (at, device) in (0..2 * REPLAYS).enumerate() {
        let parent = device
            .checked_sub(1)
            .map_or("none".to_owned(), |one| format!("d{one}"));
        let us = 200 * at;
        text += &format!(
            "[  101.{us:06}] drv d{device}: PM: calling f+0x0/0x20 @ 31, parent: {parent}\n\
             [  101.{:06}] drv d{device}: PM: f+0x0/0x20 returned 0 after 200 usecs\n",
            us + 200
        );
    }
    text += "[  102.000000] PM: resume of devices complete after 1000.000 msecs\n[  102.1] PM: suspend exit\n";
    let log = reveille_resume::log::read(text.as_bytes()).unwrap();
    let removals = best_removals(&Graph::of(&log.cycles[0]));
    assert_eq!(removals.len(), REPLAYS);
    assert_eq!(&*removals[0].device, "d0");
    assert_eq!(removals[0].with_below, 2 * REPLAYS - 1);
    // Those without a figure are counted in a note.
    let input = Input {
        name: "log".to_owned(),
        cycles: log.cycles,
        ..Input::default()
    };
    let notes = analyse(vec![input], &Question::default()).unwrap().machines[0]
        .notes
        .clone();
    let of_them = format!("{REPLAYS} devices");
    assert_eq!(
        notes.iter().filter(|note| note.contains(&of_them)).count(),
        1,
        "{notes:?}"
    );
}
