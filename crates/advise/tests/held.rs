//! What CPUs are asked for by a result: the same decision as advice.

use std::path::Path;

use crate::made_up::state;
use reveille_advise::MachineResult;
use reveille_advise::hold::asked;
use reveille_kernel::{Cpu, Idle, groups};
use reveille_results::statistics::Percentile;

/// The machine of the result `docs/example/results/lab`.
fn lab(governor: &str) -> Idle {
    let states = [("POLL", 0), ("C1", 2), ("C2", 33), ("C3", 133)];
    let states = (0..)
        .zip(states)
        .map(|(index, (name, exit))| state(index, name, exit, 2 * exit));
    let cpu = Cpu {
        number: 1,
        online: true,
        package: None,
        core: None,
        resume_latency_us: None,
        siblings: Vec::new(),
        kind: None,
        states: states.collect(),
    };
    Idle {
        driver: Some("acpi_idle".to_owned()),
        governor: Some(governor.to_owned()),
        available_governors: Vec::new(),
        cpus: vec![cpu],
        isolated: Vec::new(),
        nohz_full: Vec::new(),
    }
}

#[test]
fn nothing_is_asked_for_where_nothing_is_recommended() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/example/results/lab");
    let of = |governor, percentile, bound_us| {
        let idle = lab(governor);
        let result = MachineResult::open(&path, &idle, percentile).unwrap();
        let group = groups::alike(&idle.cpus).remove(0);
        let asked = asked(&group, &idle, Some(&result), bound_us).unwrap();
        assert!(asked.by_result);
        (asked.unmet.is_some(), asked.stops.len())
    };
    // Without sleep p99.9 is 81.5 µs; at p99 C1 is too close to 50 µs.
    assert_eq!(of("menu", Percentile::P99_9, 50), (true, 0));
    assert_eq!(of("menu", Percentile::P99, 50), (true, 0));
    assert_eq!(of("menu", Percentile::P99, 40), (false, 3));
    // The only bound that haltpoll honours is one of no sleep.
    assert_eq!(of("haltpoll", Percentile::P99, 40), (false, 3));
}
