//! Two machines by hand, after those of "Understanding the Critical Path in Power State Transition
//! Latencies" (Xi et al., 2013): a desktop that is limited by its SATA links, and a Chromebook
//! without need for its sound and graphics.

use crate::hand;
use std::sync::Arc;

use reveille_resume::cycle::{Call, CpuStep, Cycle, Name, Stage, StageKind, Us};
use reveille_resume::graph::Graph;
use reveille_resume::path::{CriticalPath, Part, Why};
use reveille_resume::what_if::{Change, best_removals, replay, steps};

const MS: Us = 1000;
const MAIN: u32 = 4000;

/// A cycle's resume, stage by stage, in milliseconds from the firmware's end.
struct Resume {
    cycle: Cycle,
}

impl Resume {
    fn new() -> Resume {
        let cycle = hand::cycle(1, &[]);
        Resume { cycle }.stage(StageKind::Platform, -100, 0)
    }

    fn stage(mut self, kind: StageKind, start: Us, end: Us) -> Resume {
        self.cycle.stages.push(Stage {
            kind,
            start: start * MS,
            end: end * MS,
            says_us: None,
        });
        self
    }

    fn cpu(mut self, cpu: u32, start: Us, end: Us) -> Resume {
        self.cycle.cpus.push(CpuStep {
            cpu,
            on: true,
            start: start * MS,
            end: end * MS,
        });
        self
    }

    /// A call in the most recently started stage: driver, device and parent, worker, start and end.
    fn call(mut self, names: [&str; 3], worker: u32, start: Us, end: Us) -> Resume {
        let name = |text: &str| -> Option<Name> { (text != "none").then(|| Arc::from(text)) };
        let [driver, device, parent] = names;
        self.cycle.calls.push(Call {
            device: device.into(),
            driver: name(driver),
            parent: name(parent),
            function: None,
            stage: self.cycle.stages.last().unwrap().kind,
            start: Some(start * MS),
            end: Some(end * MS),
            says_us: None,
            worker: Some(worker),
            result: Some(0),
        });
        self
    }
}

/// The devices of the path's calls.
fn devices(cycle: &Cycle, path: &CriticalPath) -> Vec<String> {
    let calls = path.links.iter().filter_map(|link| match link.part {
        Part::Call(call) => Some(cycle.calls[call].device.to_string()),
        _ => None,
    });
    calls.collect()
}

/// CPUs for 72 ms, noirq for 184, the rest of the devices for 394: 650 ms in all. Two SATA links take
/// 310 and 300 ms, and their disks follow; a graphics card and a sound card make noirq long.
fn desktop() -> Cycle {
    let mut resume = Resume::new().stage(StageKind::CpusOn, 0, 72);
    for cpu in 1..=6 {
        resume = resume.cpu(cpu as u32, (cpu - 1) * 12, cpu * 12);
    }
    let pci = "pci0000:00";
    resume
        .stage(StageKind::ResumeNoirq, 72, 256)
        .call(["pcieport", "0000:00:01.0", pci], MAIN, 72, 82)
        .call(["nouveau", "0000:01:00.0", "0000:00:01.0"], MAIN, 82, 142)
        .call(["snd_hda_intel", "0000:00:1b.0", pci], MAIN, 142, 166)
        .call(["ahci", "0000:00:1f.2", pci], MAIN, 166, 256)
        .stage(StageKind::Resume, 256, 650)
        .call(["ahci", "0000:00:1f.2", pci], 71, 256, 266)
        .call(["nouveau", "0000:01:00.0", "0000:00:01.0"], 72, 256, 356)
        .call(["snd_hda_intel", "0000:00:1b.0", pci], 73, 256, 296)
        .call(["ata", "ata1", "0000:00:1f.2"], 74, 266, 576)
        .call(["ata", "ata2", "0000:00:1f.2"], 75, 266, 566)
        .call(["sd", "0:0:0:0", "ata1"], 76, 576, 626)
        .call(["sr", "1:0:0:0", "ata2"], 77, 566, 576)
        .call(["reg-dummy", "reg-dummy", "platform"], MAIN, 256, 257)
        .cycle
        .tap_end(650)
}

/// noirq for 2 ms; then graphics for 300 ms with its dependents, a sound card for 500, a webcam for
/// 450 after its USB host's 90, 600 ms in all; the disk's link takes 44.
fn chromebook() -> Cycle {
    let pci = "pci0000:00";
    Resume::new()
        .stage(StageKind::CpusOn, 0, 4)
        .cpu(1, 0, 4)
        .stage(StageKind::ResumeNoirq, 4, 6)
        .call(["i915", "0000:00:02.0", pci], MAIN, 4, 6)
        .stage(StageKind::Resume, 6, 600)
        .call(["i915", "0000:00:02.0", pci], 81, 6, 306)
        .call(["snd_hda_intel", "0000:00:1b.0", pci], 82, 6, 94)
        .call(
            ["snd_hda_codec", "hdaudioC0D0", "0000:00:1b.0"],
            83,
            94,
            594,
        )
        .call(["ehci-pci", "0000:00:1a.0", pci], 84, 6, 26)
        .call(["usb", "usb1", "0000:00:1a.0"], 85, 26, 96)
        .call(["uvcvideo", "1-1:1.0", "usb1"], 86, 96, 546)
        .call(["ahci", "0000:00:1f.2", pci], 87, 6, 46)
        .call(["sd", "0:0:0:0", "0000:00:1f.2"], 88, 46, 50)
        // An input device of the panel, in the suspending process: it starts when graphics are
        // resumed.
        .call(["platform", "panel", "0000:00:02.0"], MAIN, 306, 310)
        .cycle
        .tap_end(600)
}

trait Ends {
    fn tap_end(self, ms: Us) -> Cycle;
}

impl Ends for Cycle {
    /// The calls in the order of their starts, and the cycle's end at its stated time.
    fn tap_end(mut self, ms: Us) -> Cycle {
        self.calls.sort_by_key(|call| (call.stage, call.start));
        assert_eq!(self.stages.last().map(|stage| stage.end), Some(ms * MS));
        self
    }
}

#[test]
fn the_desktops_path_goes_through_cpus_noirq_one_by_one_and_the_slowest_sata_link() {
    let cycle = desktop();
    let graph = Graph::of(&cycle);
    let path = graph.critical_path();
    assert_eq!(path.total_us, 650 * MS);
    let expected = [
        "0000:00:01.0",
        "0000:01:00.0",
        "0000:00:1b.0",
        "0000:00:1f.2",
        "0000:00:1f.2",
        "ata1",
        "0:0:0:0",
    ];
    assert_eq!(devices(&cycle, &path), expected);
    let cpus = path
        .links
        .iter()
        .filter(|link| matches!(link.part, Part::Cpu(_)));
    assert_eq!(cpus.clone().count(), 6);
    assert!(cpus.skip(1).all(|link| link.why == Why::CpuBefore));
    let why: Vec<Why> = path.links[6..].iter().map(|link| link.why).collect();
    // The graphics card is below the port ahead of it, which runs in the same process.
    let noirq = [
        Why::StageBegins,
        Why::Parent,
        Why::SameWorker,
        Why::SameWorker,
    ];
    let devices = [Why::StageBegins, Why::Parent, Why::Parent, Why::WaitsForAll];
    assert_eq!(why, [noirq, devices].concat());
    let slack = graph.slack_us();
    let slack_of = |device: &str| {
        let index = cycle.calls.iter().rposition(|call| *call.device == *device);
        slack[index.unwrap()].unwrap() / MS
    };
    // 24 ms pass from the disk's end to the stage's: all others could take until the disk is done.
    assert_eq!(slack_of("ata2"), 50);
    assert_eq!(slack_of("1:0:0:0"), 50);
    assert_eq!(slack_of("0000:01:00.0"), 270);
    assert_eq!(slack_of("0:0:0:0"), 0);
}

/// As in the paper: without graphics and sound noirq is 100 ms, and with zero time for the CPUs and
/// everything else the links still take 300.
#[test]
fn the_desktop_cannot_resume_faster_than_its_sata_links() {
    let graph = Graph::of(&desktop());
    let total = |changes: &[&str]| {
        let changes: Vec<Change> = changes
            .iter()
            .map(|text| match text.split_once(' ') {
                Some(("without", what)) => Change::without(what).unwrap(),
                Some(("set", what)) => Change::set(what).unwrap(),
                _ => Change::cpus(text).unwrap(),
            })
            .collect();
        replay(&graph, &changes).unwrap().total_us / MS
    };
    assert_eq!(total(&["without nouveau,snd*"]), 650 - 84);
    assert_eq!(total(&["set stage:resume_noirq=100ms"]), 650 - 84);
    assert_eq!(total(&["1"]), 650 - 72);
    assert_eq!(total(&["4"]), 650 - 36);
    assert_eq!(total(&["13"]), 650 + 72);
    // One link less is 50 ms less, because the other one is nearly as long and its disk takes less.
    assert_eq!(total(&["without ata1"]), 600);
    let all = [
        "without nouveau,snd*",
        "set stage:resume_noirq=0ms",
        "1",
        "set 0:0:0:0=0ms",
    ];
    let bound = total(&all);
    assert_eq!(bound, 10 + 310 + 24);
    assert!(bound > 300, "{bound}");
}

#[test]
fn the_chromebook_resumes_in_50_ms_without_sound_graphics_and_usb() {
    let cycle = chromebook();
    let graph = Graph::of(&cycle);
    let path = graph.critical_path();
    let expected = ["0000:00:02.0", "0000:00:1b.0", "hdaudioC0D0"];
    assert_eq!(devices(&cycle, &path), expected);
    let total = |changes: &[Change]| replay(&graph, changes).unwrap().total_us / MS;
    let sound = Change::without("snd*").unwrap();
    let graphics = Change::without("i915").unwrap();
    let usb = Change::defer("ehci*").unwrap();
    assert_eq!(total(std::slice::from_ref(&sound)), 546 + 6);
    assert_eq!(total(&[sound.clone(), usb.clone()]), 310 + 6);
    let all = [sound, graphics, usb];
    // noirq is gone with graphics: it consisted of its 2 ms.
    assert_eq!(total(&all), 54);
    let replayed = replay(&graph, &all).unwrap();
    assert_eq!(replayed.removed.len(), 4);
    let ready: Vec<(&str, Us)> = replayed
        .deferred
        .iter()
        .map(|one| (&*one.device, one.ready_us / MS))
        .collect();
    // 20, 70 and 450 ms, one below the other, after the 54.
    assert_eq!(
        ready,
        [("0000:00:1a.0", 74), ("usb1", 144), ("1-1:1.0", 594)]
    );
    let webcam = cycle
        .calls
        .iter()
        .position(|call| &*call.device == "1-1:1.0");
    assert_eq!(replayed.calls[webcam.unwrap()], Some((144 * MS, 594 * MS)));
}

#[test]
fn the_chromebooks_devices_are_removed_one_by_one_the_best_first() {
    let graph = Graph::of(&chromebook());
    let best = best_removals(&graph);
    assert_eq!(
        (&*best[0].device, best[0].saves_us / MS),
        ("hdaudioC0D0", 48)
    );
    // The card with its codec saves as much, and is one device more.
    assert_eq!((&*best[1].device, best[1].with_below), ("0000:00:1b.0", 1));
    let steps = steps(&graph, &[], 9).unwrap();
    let named: Vec<(&str, Us)> = steps
        .iter()
        .map(|one| (&*one.device, one.total_us / MS))
        .collect();
    assert_eq!(
        named[..3],
        [
            ("hdaudioC0D0", 552),
            ("1-1:1.0", 316),
            ("0000:00:02.0", 100)
        ]
    );
}

#[test]
fn incomplete_and_backward_calls_are_skipped_and_counted() {
    let mut cycle = chromebook();
    cycle.calls[1].end = None;
    let second = &mut cycle.calls[2];
    (second.start, second.end) = (second.end, second.start);
    let graph = Graph::of(&cycle);
    assert_eq!(graph.left_out.half_calls, 1);
    assert_eq!(graph.left_out.backward_calls, 1);
    assert_eq!(graph.steps.len(), cycle.calls.len() - 2 + 1);
    assert_eq!(graph.slack_us()[1], None);
    assert_eq!(graph.critical_path().total_us, 600 * MS);
}

#[test]
fn a_cycle_without_a_resume_has_an_empty_path() {
    let mut cycle = chromebook();
    cycle.stages.clear();
    cycle.calls.clear();
    cycle.cpus.clear();
    let graph = Graph::of(&cycle);
    assert_eq!(graph.critical_path().total_us, 0);
    assert!(graph.critical_path().links.is_empty());
    assert_eq!(replay(&graph, &[]).unwrap().total_us, 0);
    assert!(best_removals(&graph).is_empty());
    assert!(
        replay(&graph, &[Change::Cpus(2)]).is_err(),
        "no CPU shows the duration of one"
    );
    assert!(replay(&graph, &[Change::Cpus(1)]).is_ok());
}

#[test]
fn a_change_that_matches_nothing_is_reported() {
    let graph = Graph::of(&chromebook());
    let changes = [
        Change::without("nvme*").unwrap(),
        Change::set("panel@resume_early=1ms").unwrap(),
        Change::set("panel@resume=1ms").unwrap(),
        Change::set("stage:thaw=1ms").unwrap(),
    ];
    let replayed = replay(&graph, &changes).unwrap();
    assert_eq!(
        replayed.unmet,
        ["without nvme*", "panel@resume_early=1ms", "stage:thaw=1ms"]
    );
    assert_eq!(replayed.total_us, 600 * MS);
}
