//! The graph, its critical path and its what-ifs compared with the generator's simulation.

use std::collections::HashMap;

use crate::generator;
use crate::generator::kernel::{Threads, Truth, run};
use crate::generator::machine::{Draw, Kernel, Machine, STAGES};
use reveille_resume::cycle::{Cycle, StageKind, Us};
use reveille_resume::devices::Device;
use reveille_resume::graph::{Graph, Half};
use reveille_resume::path::{Link, Part, Why};
use reveille_resume::what_if::{Change, best_removals, replay, steps};

const FROM: Us = 12_345_678;

fn made(machine: &Machine) -> (Truth, Cycle) {
    let truth = run(machine, FROM, &mut Threads::default());
    let cycle = truth.cycle(machine, 1);
    (truth, cycle)
}

/// Fifty machines of each size, and two big ones.
fn machines() -> impl Iterator<Item = (u64, Machine)> {
    let sizes = [1..=4, 5..=30, 31..=150];
    let seeds = (0..50).flat_map(move |seed| sizes.clone().map(|size| (seed, size)));
    seeds
        .chain([(1, 2000..=2000), (2, 2000..=2000)])
        .map(|(seed, size)| {
            (
                seed,
                Machine::draw(seed * 3 + *size.start() as u64, &Draw::fully_logged(size)),
            )
        })
}

/// Every stage and every call of the replay is at the simulated kernel's time.
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
    let truths: HashMap<_, _> = after
        .calls
        .iter()
        .map(|one| ((one.device, one.stage), (one.start, one.end)))
        .collect();
    for (call, times) in before.calls.iter().zip(&replayed.calls) {
        let own = times.map(|(start, end)| (start + shift, end + shift));
        if Half::Resume.has(call.stage) {
            let truth = truths.get(&(call.device, call.stage));
            assert_eq!(own.as_ref(), truth, "{context} {call:?}");
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

fn assert_what_ifs(seed: u64, machine: &Machine, (truth, cycle): (Truth, Cycle)) {
    let graph = Graph::of(&cycle);
    let rng = &mut fastrand::Rng::with_seed(seed);
    let mut changed = machine.clone();
    let mut changes = Vec::new();
    for _ in 0..rng.usize(1..4) {
        let (text, devices) = chosen(rng, machine);
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
                    // By the measured machine: a set time does not determine the longest call.
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

#[test]
fn what_ifs_equal_the_kernels_own_run_to_the_microsecond() {
    for (seed, machine) in machines() {
        assert_what_ifs(seed, &machine, made(&machine));
    }
}

/// One in three devices gets a supplier, if both have a callback in every stage: no log shows the
/// order of a device without one. Nor, on kernels from 6.16 on, which pass on a device when its
/// parent is done or when the suspending process reaches it, would it show the latter.
fn supplied(seed: u64, mut machine: Machine) -> Machine {
    machine.kernel = Kernel::AtOnce;
    let rng = &mut fastrand::Rng::with_seed(seed);
    let calls = |one: &generator::machine::Device| one.work.iter().all(Option::is_some);
    for index in 1..machine.devices.len() {
        let supplier = rng.usize(0..index);
        if calls(&machine.devices[index]) && calls(&machine.devices[supplier]) && rng.u8(0..3) == 0
        {
            machine.devices[index].supplier = Some(supplier);
        }
    }
    machine
}

/// As in sysfs.
fn devices(machine: &Machine) -> Vec<Device> {
    let of = |one: &generator::machine::Device| Device {
        name: one.name.as_str().into(),
        driver: Some(one.driver.as_str().into()),
        parent: one.parent,
        suppliers: one.supplier.into_iter().collect(),
    };
    machine.devices.iter().map(of).collect()
}

#[test]
fn suppliers_in_a_capture_are_waited_for_to_the_microsecond() {
    let (mut suppliers, mut unexplained_before) = (0, 0);
    for (seed, machine) in machines() {
        let machine = supplied(seed, machine);
        let (truth, mut cycle) = made(&machine);
        let unexplained = |cycle: &Cycle| {
            let graph = Graph::of(cycle);
            graph
                .steps
                .iter()
                .filter(|step| step.waits_unexplained())
                .count()
        };
        unexplained_before += unexplained(&cycle);
        cycle.devices = devices(&machine).into();
        assert_eq!(unexplained(&cycle), 0, "seed {seed}");
        let all = machine.devices.iter();
        suppliers += all.filter(|one| one.supplier.is_some()).count();
        assert_what_ifs(seed, &machine, (truth, cycle));
    }
    // The log alone lacks them.
    assert!(
        suppliers > 100 && unexplained_before > 100,
        "{suppliers}, {unexplained_before}"
    );
}

#[test]
fn the_path_names_a_supplier() {
    let found = machines().any(|(seed, machine)| {
        let machine = supplied(seed, machine);
        let mut cycle = made(&machine).1;
        cycle.devices = devices(&machine).into();
        let why = |half, why: Why| {
            let path = Graph::of_half(&cycle, &[], half).critical_path();
            path.links.iter().any(|link| link.why == why)
        };
        why(Half::Resume, Why::Supplier) && why(Half::Suspend, Why::Consumers)
    });
    assert!(found);
}

/// The machine with a call that takes this much longer.
fn with_longer(machine: &Machine, call: &generator::kernel::TrueCall, by: Us) -> Machine {
    let mut machine = machine.clone();
    let stage = STAGES.iter().position(|&one| one == call.stage).unwrap();
    let work = machine.devices[call.device].work[stage].as_mut().unwrap();
    work.took += by;
    machine
}

fn total(machine: &Machine, half: Half) -> Us {
    let truth = run(machine, FROM, &mut Threads::default());
    match half {
        Half::Resume => truth.resume_us(),
        Half::Suspend => truth.stage(StageKind::Platform).start - FROM,
    }
}

/// Links follow each other without a gap, and cover the whole time.
fn assert_whole(links: &[Link], start: Us, total: Us) {
    let mut at = start;
    for link in links {
        assert_eq!(link.start, at, "{links:#?}");
        at = link.end;
    }
    assert_eq!(at, start + total);
}

/// The simulated kernel's criterion for the path: a microsecond less in any of its calls is one
/// less in the total. And for any call: longer by its slack makes no difference, a microsecond more
/// makes one. Returns whether there was only one path.
fn assert_path(seed: u64, machine: &Machine, half: Half, few: usize) -> bool {
    let (truth, cycle) = made(machine);
    let graph = Graph::of_half(&cycle, &[], half);
    let path = graph.critical_path();
    assert_eq!(path.total_us, total(machine, half));
    assert_whole(&path.links, graph.start, path.total_us);
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
    if zero == on_path.len() {
        for call in rng.choose_multiple(on_path.iter().copied(), few) {
            let shorter = with_longer(machine, &truth.calls[call], -1);
            let total = total(&shorter, half);
            assert_eq!(
                total,
                path.total_us - 1,
                "seed {seed}, {half:?}, call {call}"
            );
        }
    }
    let of_half = (0..truth.calls.len()).filter(|&call| half.has(truth.calls[call].stage));
    for call in rng.choose_multiple(of_half, few) {
        let slack = slack[call].expect("a call of this half has a slack");
        for (longer, more) in [(slack, 0), (slack + 1, 1)] {
            let longer = with_longer(machine, &truth.calls[call], longer);
            let total = total(&longer, half);
            assert_eq!(
                total,
                path.total_us + more,
                "seed {seed}, {half:?}, call {call}"
            );
        }
    }
    zero == on_path.len()
}

#[test]
fn path_and_slack_are_the_kernels_own() {
    let mut alone = 0;
    for (seed, machine) in machines() {
        let few = if machine.devices.len() > 1000 { 2 } else { 8 };
        alone += usize::from(assert_path(seed, &machine, Half::Resume, few));
    }
    assert!(alone > 130, "{alone} of 152 machines have one path only");
}

#[test]
fn a_suspend_has_a_path() {
    for seed in 0..40 {
        let mut machine = Machine::draw(seed, &Draw::fully_logged(1..=60));
        // In a suspend, parents wait for their children's children through devices without a
        // callback, which no log shows: here all have one.
        for device in &mut machine.devices {
            let (before, took) = (seed as Us + 3, 17);
            for work in &mut device.work {
                work.get_or_insert(generator::machine::Work { before, took });
            }
        }
        assert_path(seed, &machine, Half::Suspend, 8);
    }
}

/// The reason for the wait of each call on the path is the kernel's.
#[test]
fn the_paths_reasons_are_true() {
    let mut seen = [0; 3];
    for (seed, machine) in machines() {
        let (truth, cycle) = made(&machine);
        let path = Graph::of(&cycle).critical_path();
        let mut before = None;
        for link in &path.links {
            let why = link.why;
            if let (Some(before), Part::Before(call)) = (before, link.part) {
                let (one, other): (_, &generator::kernel::TrueCall) = (&truth.calls[call], before);
                match why {
                    Why::Parent => {
                        assert!(
                            machine.with_below(other.device).contains(&one.device),
                            "{seed}"
                        );
                        seen[0] += 1;
                    }
                    Why::SameWorker => {
                        assert_eq!((one.worker, other.worker), (machine.main, machine.main));
                        seen[1] += 1;
                    }
                    Why::StageBegins => panic!("a call came before it: seed {seed}, {link:?}"),
                    _ => panic!("seed {seed}: {link:?}"),
                }
                assert_eq!(other.end, link.start);
            }
            before = match link.part {
                Part::Call(call) => Some(&truth.calls[call]),
                _ => None,
            };
            seen[2] += usize::from(why == Why::CpuBefore);
        }
    }
    assert!(seen.iter().all(|&seen| seen > 100), "{seen:?}");
}

/// A kernel's log has no calls of `prepare` and `complete`, which run in the suspending process:
/// the devices that never ran elsewhere identify it.
#[test]
fn the_suspending_process_differs_from_its_workers() {
    for (seed, machine) in machines().filter(|(_, machine)| machine.devices.len() >= 5) {
        let (_, mut cycle) = made(&machine);
        let serial = [StageKind::Prepare, StageKind::Complete];
        cycle.calls.retain(|call| !serial.contains(&call.stage));
        let graph = Graph::of(&cycle);
        let runs = cycle
            .calls
            .iter()
            .any(|call| call.worker == Some(machine.main));
        assert_eq!(graph.main, runs.then_some(machine.main), "seed {seed}");
        assert_eq!(graph.left_out.main_unknown, !runs);
    }
}

#[test]
fn added_cpus_take_the_mean_time_of_the_existing_ones() {
    for seed in 0..20 {
        let mut machine = Machine::draw(seed, &Draw::fully_logged(1..=30));
        let cpu = generator::machine::Cpu {
            before: 40,
            off: 900,
            on: 12_000 + seed as Us,
        };
        machine.cpus = vec![cpu; 3];
        let (truth, cycle) = made(&machine);
        machine.cpus = vec![cpu; 11];
        let after = run(&machine, FROM, &mut Threads::default());
        let graph = Graph::of(&cycle);
        let replayed = replay(&graph, &[Change::Cpus(12)]).unwrap();
        assert_eq!(replayed.total_us, after.resume_us(), "seed {seed}");
        assert_eq!(
            replayed.total_us,
            truth.resume_us() + 8 * (12_040 + seed as Us)
        );
        assert_whole(&replayed.path.links, graph.start, replayed.total_us);
    }
}

#[test]
fn the_best_removals_are_the_best_of_all_replays() {
    for (seed, machine) in machines().filter(|(_, machine)| machine.devices.len() <= 60) {
        let (truth, cycle) = made(&machine);
        let graph = Graph::of(&cycle);
        let removals = best_removals(&graph);
        assert!(removals.is_sorted_by_key(|one| std::cmp::Reverse(one.saves_us)));
        let own = |device: usize| {
            let resumes = [
                StageKind::ResumeNoirq,
                StageKind::ResumeEarly,
                StageKind::Resume,
            ];
            let mut calls = truth.calls.iter();
            calls.any(|call| call.device == device && resumes.contains(&call.stage))
        };
        let count = (0..machine.devices.len()).filter(|&one| own(one)).count();
        assert_eq!(removals.len(), count, "seed {seed}");
        for removal in &removals {
            let device = machine
                .devices
                .iter()
                .position(|one| *one.name == *removal.device);
            let device = device.unwrap();
            let after = total(&machine.clone().without(&[device]), Half::Resume);
            assert_eq!(removal.total_us, after, "seed {seed}, {}", removal.device);
            assert_eq!(removal.saves_us, truth.resume_us() - after);
            let below = machine.with_below(device);
            let below = below.into_iter().filter(|&one| one != device && own(one));
            assert_eq!(removal.with_below, below.count());
        }
    }
}

/// Each step is the best of the remaining ones, and the last total is that of all of them together.
#[test]
fn steps_remove_the_best_remaining_device_repeatedly() {
    for (seed, machine) in machines().filter(|(_, machine)| machine.devices.len() <= 60) {
        let (_, cycle) = made(&machine);
        let graph = Graph::of(&cycle);
        let first = Change::defer(&machine.devices[0].name).unwrap();
        let taken = steps(&graph, std::slice::from_ref(&first), 4).unwrap();
        let mut changes = vec![first];
        let mut before = replay(&graph, &changes).unwrap().total_us;
        for step in taken {
            let with = |name: &str| {
                let mut changes = changes.clone();
                changes.push(Change::without(name).unwrap());
                replay(&graph, &changes).unwrap().total_us
            };
            let best = best_removals(&graph)
                .iter()
                .map(|one| with(&one.device))
                .min();
            assert_eq!(best, Some(step.total_us), "seed {seed}");
            assert_eq!(with(&step.device), step.total_us);
            assert_eq!(before - step.total_us, step.saves_us);
            before = step.total_us;
            changes.push(Change::without(&step.device).unwrap());
        }
    }
}

/// If the log is incomplete, paths still cover the whole time, nothing changes without a change,
/// and most removals are near the true saving: `what_if` defines how near.
#[test]
fn missing_information_costs_accuracy_but_not_plausibility() {
    let draw = |fully_logged, threads, kernel| Draw {
        devices: 20..=150,
        fully_logged,
        threads,
        kernel: Some(kernel),
    };
    for (name, draw, least) in [
        ("suppliers", draw(false, None, Kernel::AtOnce), 90),
        ("in turn", draw(true, None, Kernel::InTurn), 90),
        ("two CPUs", draw(true, Some(2), Kernel::AtOnce), 80),
        ("all of it", draw(false, Some(4), Kernel::InTurn), 80),
    ] {
        let (mut near, mut all) = (0, 0);
        for seed in 0..40 {
            let machine = Machine::draw(seed, &draw);
            let (truth, cycle) = made(&machine);
            let graph = Graph::of(&cycle);
            let path = graph.critical_path();
            assert_whole(&path.links, graph.start, truth.resume_us());
            assert_eq!(replay(&graph, &[]).unwrap().total_us, truth.resume_us());
            for removal in best_removals(&graph).iter().take(3) {
                let device = machine
                    .devices
                    .iter()
                    .position(|one| *one.name == *removal.device);
                let after = total(&machine.clone().without(&[device.unwrap()]), Half::Resume);
                let off = (removal.total_us - after).abs() as f64 / truth.resume_us() as f64;
                near += usize::from(off <= 0.02);
                all += 1;
            }
        }
        println!("{name}: {near} of {all} removals within 2% of the whole");
        assert!(near * 100 >= all * least, "{name}: {near} of {all}");
    }
}
