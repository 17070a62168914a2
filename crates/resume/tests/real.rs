//! The graph of real suspends: two captures of the lab's guest, each as a kernel's log and as a trace.

use std::path::Path;

use reveille_resume::cycle::{Cycle, Us};
use reveille_resume::graph::{Graph, Half};
use reveille_resume::log;
use reveille_resume::path::{Link, Part};
use reveille_resume::what_if::{Change, replay};

fn cycle(name: &str) -> Cycle {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/logs")
        .join(name);
    let mut log = log::read_files(&[path]).unwrap();
    assert_eq!(log.cycles.len(), 1, "{name}");
    log.cycles.remove(0)
}

/// The devices of the path's calls that take at least 10 ms.
fn long(cycle: &Cycle, graph: &Graph) -> Vec<String> {
    let links = graph.critical_path().links;
    let long = links.into_iter().filter(|link| link.us() >= 10_000);
    let calls = long.filter_map(|link| match link.part {
        Part::Call(call) => Some(cycle.calls[call].device.to_string()),
        _ => None,
    });
    calls.collect()
}

#[test]
fn a_log_and_a_trace_of_one_resume_have_the_same_path() {
    let [log, trace] = ["6.12-dmesg.txt", "6.12-trace.txt"].map(cycle);
    let [of_log, of_trace] = [&log, &trace].map(Graph::of);
    // The disk on USB waits for its device's reset, and that for its root hub: the interface
    // between them has no call, and no line in the log.
    assert_eq!(long(&log, &of_log), ["0000:00:01.0", "usb2", "2-3"]);
    assert_eq!(long(&trace, &of_trace), long(&log, &of_log));
    // `prepare` and `complete` in a trace identify the suspending process, in a log the calls that
    // ran in it.
    assert!(of_trace.main.is_some());
    assert_eq!(of_log.main, of_trace.main);
}

/// 6.1.y passes asynchronous devices on when the suspending process reaches them. Here that process
/// waits for the keyboard's device, 1-1, before it reaches the next one.
#[test]
fn a_stable_kernels_resume_goes_from_one_usb_device_to_the_next() {
    let log = cycle("6.1-dmesg.txt");
    let graph = Graph::of(&log);
    assert_eq!(
        long(&log, &graph),
        ["0000:00:01.0", "0000:00:05.0", "usb1", "1-1"]
    );
    let without = replay(&graph, &[Change::without("usb1").unwrap()]).unwrap();
    assert!(
        without.total_us < graph.total_us() - 500_000,
        "{}",
        without.total_us
    );
}

#[test]
fn real_logs_have_no_call_before_its_parents_and_a_path_without_gaps() {
    for name in [
        "6.1-dmesg.txt",
        "6.1-trace.txt",
        "6.12-dmesg.txt",
        "6.12-trace.txt",
    ] {
        let cycle = cycle(name);
        for half in [Half::Suspend, Half::Resume] {
            let graph = Graph::of_half(&cycle, &[], half);
            assert!(graph.steps.len() > 50, "{name}");
            assert_eq!(graph.left_out.did_not_wait, 0, "{name}, {half:?}");
            assert_eq!(graph.left_out.outlast, 0, "{name}, {half:?}");
            assert!(
                graph.steps.iter().all(|step| step.lag >= 0),
                "{name}, {half:?}"
            );
            let path = graph.critical_path();
            let sum: Us = path.links.iter().map(Link::us).sum();
            assert_eq!(sum, graph.end - graph.start, "{name}, {half:?}");
            assert_eq!(
                replay(&graph, &[]).unwrap().total_us,
                sum,
                "{name}, {half:?}"
            );
        }
    }
}
