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
