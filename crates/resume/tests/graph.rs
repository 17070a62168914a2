//! The graph, its critical path and its what-ifs against the generator's truth.

#[path = "generator/mod.rs"]
mod generator;

use generator::kernel::{Threads, Truth, run};
use generator::machine::{Draw, Machine, STAGES};
use reveille_resume::cycle::{Cycle, StageKind, Us};
use reveille_resume::graph::{Graph, Half, What};
use reveille_resume::path::{Link, Part, Why};
use reveille_resume::what_if::{Change, best_removals, replay, steps};

const FROM: Us = 12_345_678;

fn made(machine: &Machine) -> (Truth, Cycle) {
    let truth = run(machine, FROM, &mut Threads::default());
    let cycle = truth.cycle(machine, 1);
    (truth, cycle)
}

/// A hundred machines of each size; in a debug build that takes some seconds.
fn machines() -> impl Iterator<Item = (u64, Machine)> {
    let sizes = [1..=4, 5..=30, 31..=150];
    let seeds = (0..100).flat_map(move |seed| sizes.clone().map(|size| (seed, size)));
    seeds
        .chain([(1, 2000..=2000), (2, 2000..=2000)])
        .map(|(seed, size)| {
            (
                seed,
                Machine::draw(seed * 3 + *size.start() as u64, &Draw::told(size)),
            )
        })
}

/// Every stage and every call of the replay is where the kernel had it in its own run.
fn assert_replays(seed: u64, before: &Truth, graph: &Graph, changes: &[Change], after: &Truth) {
    let replayed = replay(graph, changes).unwrap();
    let context = format!("seed {seed}, {changes:?}");
    assert_eq!(replayed.total_us, after.resume_us(), "{context}");
    let shift = after.stage(StageKind::Platform).end - before.stage(StageKind::Platform).end;
    for stage in &replayed.stages {
        let truth = after.stage(stage.kind);
        let own = (stage.start + shift, stage.end + shift);
        assert_eq!(own, (truth.start, truth.end), "{context} {:?}", stage.kind);
    }
    for (call, times) in before.calls.iter().zip(&replayed.calls) {
        let truth = after
            .calls
            .iter()
            .find(|one| (one.device, one.stage) == (call.device, call.stage));
        let own = times.map(|(start, end)| (start + shift, end + shift));
        if Half::Resume.has(call.stage) {
            let truth = truth.map(|one| (one.start, one.end));
            assert_eq!(own, truth, "{context} {call:?}");
        }
    }
}

#[test]
fn without_changes_every_time_is_the_measured_one() {
    for (seed, machine) in machines() {
        let (truth, cycle) = made(&machine);
        let graph = Graph::of(&cycle);
        assert_eq!(graph.total_us(), truth.resume_us());
        assert_replays(seed, &truth, &graph, &[], &truth);
    }
}

/// Devices to change: some at random, by name, or all of one driver.
fn chosen(rng: &mut fastrand::Rng, machine: &Machine) -> (String, Vec<usize>) {
    let count = machine.devices.len();
    if rng.u8(0..4) == 0 {
        let driver = machine.devices[rng.usize(0..count)].driver.clone();
        let of_driver = |&one: &usize| machine.devices[one].driver == driver;
        return (driver.clone(), (0..count).filter(of_driver).collect());
    }
    let devices: Vec<usize> = (0..rng.usize(1..4)).map(|_| rng.usize(0..count)).collect();
    let names: Vec<&str> = devices
        .iter()
        .map(|&one| &*machine.devices[one].name)
        .collect();
    (names.join(","), devices)
}

#[test]
fn what_ifs_equal_the_kernels_own_run_to_the_microsecond() {
    for (seed, machine) in machines() {
        let (truth, cycle) = made(&machine);
        let graph = Graph::of(&cycle);
        let rng = &mut fastrand::Rng::with_seed(seed);
        let mut changed = machine.clone();
        let mut changes = Vec::new();
        for _ in 0..rng.usize(1..4) {
            let (text, devices) = chosen(rng, &machine);
            match rng.u8(0..4) {
                0 => {
                    changed = changed.without(&devices);
                    changes.push(Change::without(&text).unwrap());
                }
                1 => {
                    changed = changed.defer(&devices);
                    changes.push(Change::defer(&text).unwrap());
                }
                2 => {
                    let us = rng.i64(0..60_000);
                    for &device in &devices {
                        // From the machine as measured: a set time is no measure of what is longest.
                        let set = machine.clone().set_longest(device, us);
                        for (one, (new, old)) in set.devices[device]
                            .work
                            .iter()
                            .zip(machine.devices[device].work)
                            .enumerate()
                        {
                            if new.map(|work| work.took) != old.map(|work| work.took) {
                                changed.devices[device].work[one] = *new;
                            }
                        }
                    }
                    changes.push(Change::set(&format!("{text}={us}us")).unwrap());
                }
                _ => {
                    let cpus = rng.usize(0..=machine.cpus.len());
                    changed.cpus = machine.cpus[..cpus].to_vec();
                    changes.push(Change::Cpus(cpus as u32 + 1));
                }
            }
        }
        let after = run(&changed, FROM, &mut Threads::default());
        assert_replays(seed, &truth, &graph, &changes, &after);
        let replayed = replay(&graph, &changes).unwrap();
        for deferred in &replayed.deferred {
            let named = machine
                .devices
                .iter()
                .position(|one| *one.name == *deferred.device);
            let begins = after.stage(StageKind::Platform).end;
            let ready = after.ready[named.unwrap()].map(|ready| ready - begins);
            assert_eq!(
                Some(deferred.ready_us),
                ready,
                "seed {seed}, {}",
                deferred.device
            );
        }
        let count = after.ready.iter().flatten().count();
        assert_eq!(replayed.deferred.len(), count, "seed {seed}");
    }
}

/// The number of devices that a call of the path or beside it is changed by.
fn with_longer(machine: &Machine, call: &generator::kernel::TrueCall, by: Us) -> Machine {
    let mut machine = machine.clone();
    let stage = STAGES.iter().position(|&one| one == call.stage).unwrap();
    let work = machine.devices[call.device].work[stage].as_mut().unwrap();
    work.took += by;
    machine
}

fn total(machine: &Machine) -> Us {
    run(machine, FROM, &mut Threads::default()).resume_us()
}

/// What the kernel's own run says of the path: a microsecond less in any of its calls is one less in
/// all. Of a call beside it: as much as its slack makes no difference, a microsecond more makes one.
#[test]
fn the_path_and_the_slack_are_the_kernels_own() {
    let mut alone = 0;
    for (seed, machine) in machines() {
        let (truth, cycle) = made(&machine);
        let graph = Graph::of(&cycle);
        let path = graph.critical_path();
        assert_eq!(path.total_us, truth.resume_us());
        let slack = graph.slack_us();
        let on_path: Vec<usize> = path
            .links
            .iter()
            .filter_map(|link| match link.part {
                Part::Call(call) => Some(call),
                _ => None,
            })
            .collect();
        assert!(
            on_path.iter().all(|&call| slack[call] == Some(0)),
            "seed {seed}"
        );
        // With two paths of the same length neither shortens anything alone.
        let zero = slack.iter().filter(|&&slack| slack == Some(0)).count();
        let rng = &mut fastrand::Rng::with_seed(seed);
        let few = if machine.devices.len() > 1000 { 3 } else { 20 };
        if zero == on_path.len() {
            alone += 1;
            for call in rng.choose_multiple(on_path.iter().copied(), few) {
                let shorter = with_longer(&machine, &truth.calls[call], -1);
                assert_eq!(
                    total(&shorter),
                    path.total_us - 1,
                    "seed {seed}, call {call}"
                );
            }
        }
        let in_resume: Vec<usize> = (0..truth.calls.len())
            .filter(|&call| Half::Resume.has(truth.calls[call].stage))
            .collect();
        for call in rng.choose_multiple(in_resume.iter().copied(), few) {
            let slack = slack[call].expect("a call of the resume has a slack");
            let longer = with_longer(&machine, &truth.calls[call], slack);
            assert_eq!(total(&longer), path.total_us, "seed {seed}, call {call}");
            let longer = with_longer(&machine, &truth.calls[call], slack + 1);
            assert_eq!(
                total(&longer),
                path.total_us + 1,
                "seed {seed}, call {call}"
            );
        }
    }
    assert!(alone > 250, "{alone} of 302 machines have one path only");
}

/// Links follow each other without a gap and add up.
fn assert_whole(links: &[Link], start: Us, end: Us) {
    let mut at = start;
    for link in links {
        assert_eq!(link.start, at, "{links:#?}");
        at = link.end;
    }
    assert_eq!(at, end);
}
