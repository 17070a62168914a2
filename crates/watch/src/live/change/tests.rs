use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use reveille_kernel::counters::{Scope, Unit as CounterUnit};
use reveille_kernel::{CoreKind, Idle};

use super::*;
use crate::live::model::Unit;
use crate::live::unit::{Speeds, units};

/// A state with cpuidle's counts.
fn state(index: u32, name: &str, usage: u64, time_us: u64) -> IdleState {
    IdleState {
        index,
        name: name.to_owned(),
        description: None,
        exit_latency_us: Some(2),
        target_residency_us: Some(2),
        disabled: Some(false),
        enabled_by_default: None,
        usage: Some(usage),
        time_us: Some(time_us),
        rejected: None,
        above: Some(usage / 2),
        below: Some(usage / 4),
    }
}

fn cpu(number: u32, states: Vec<IdleState>) -> Cpu {
    Cpu {
        number,
        online: true,
        package: Some(0),
        core: Some(number),
        resume_latency_us: Some(0),
        siblings: vec![],
        kind: None,
        states,
    }
}

/// A reading this many seconds after the first.
fn reading(begun: Instant, seconds: u64, cpus: Vec<Cpu>) -> Reading {
    Reading {
        joints: Vec::new(),
        at: begun + Duration::from_secs(seconds),
        time_unix_s: 0.0,
        idle: Idle {
            driver: Some("made_idle".into()),
            governor: None,
            available_governors: vec![],
            cpus,
            isolated: vec![],
            nohz_full: vec![],
        },
        seen: None,
        idle_ticks: None,
        energy_uj: vec![],
        mhz: BTreeMap::new(),
        interrupts: None,
        spent: None,
    }
}

fn rows(before: &Reading, after: &Reading, counters: &[Counter]) -> (Unit, Vec<Unit>) {
    let change = |cpu| Change::between(before, after, cpu, counters, None);
    let changes: Vec<Change> = after.idle.cpus.iter().map(change).collect();
    let units = units(&after.idle, &changes, &Speeds::default());
    (units.machine, units.cpus)
}

fn seen(at_s: u64, uses: u64, stays_s: u64, time_s: u64) -> Seen {
    let latencies = Latencies {
        count: uses,
        sum_ns: uses * 100_000,
        max_ns: 100_000,
        buckets: vec![],
    };
    let deep = SeenState {
        uses,
        stays_ns: stays_s * 1_000_000_000,
        time_ns: time_s * 1_000_000_000,
        latencies,
    };
    Seen {
        at_ns: at_s * 1_000_000_000,
        entries: uses,
        wakeups: uses,
        by_timer: uses,
        latencies: uses / 2,
        states: vec![SeenState::default(), deep],
        sample: None,
    }
}

#[test]
fn cpuidles_counts_become_shares_stays_and_rates() {
    let begun = Instant::now();
    let before = reading(begun, 0, vec![cpu(0, vec![state(0, "C1", 100, 0)])]);
    let after = reading(begun, 2, vec![cpu(0, vec![state(0, "C1", 300, 500_000)])]);
    let (machine, _) = rows(&before, &after, &[]);
    let c1 = &machine.states[0];
    assert_eq!(c1.share_percent, Some(25.0));
    assert_eq!(
        (c1.mean_stay_us, c1.uses_per_s),
        (Some(2500.0), Some(100.0))
    );
    assert_eq!(
        (c1.above_percent, c1.below_percent),
        (Some(50.0), Some(25.0))
    );
    assert_eq!(machine.awake_percent, Some(75.0));
    assert_eq!(
        (machine.wakeups_per_s, machine.leaving_percent),
        (None, None)
    );
}

#[test]
fn a_sleep_that_began_before_the_interval_fills_at_most_the_interval() {
    let begun = Instant::now();
    let before = reading(
        begun,
        0,
        vec![cpu(0, vec![state(0, "C1", 1, 0), state(1, "C6", 1, 0)])],
    );
    let states = vec![state(0, "C1", 2, 1_000_000), state(1, "C6", 2, 3_000_000)];
    let after = reading(begun, 1, vec![cpu(0, states)]);
    let (machine, _) = rows(&before, &after, &[]);
    let shares: Vec<_> = machine
        .states
        .iter()
        .map(|state| state.share_percent)
        .collect();
    assert_eq!(shares, [Some(25.0), Some(75.0)]);
    assert_eq!(machine.awake_percent, Some(0.0));
}

#[test]
fn the_current_sleep_is_in_the_share_but_not_in_the_mean_stay() {
    let begun = Instant::now();
    let states = || vec![cpu(0, vec![state(1, "C6", 0, 0)])];
    let (mut before, mut after) = (reading(begun, 0, states()), reading(begun, 10, states()));
    before.seen = Some(BTreeMap::from([(0, seen(100, 0, 0, 0))]));
    after.seen = Some(BTreeMap::from([(0, seen(110, 4, 4, 9))]));
    let (machine, _) = rows(&before, &after, &[]);
    let c6 = &machine.states[0];
    assert_eq!(
        (c6.share_percent, c6.counted_by),
        (Some(90.0), CountedBy::Trace)
    );
    assert_eq!((c6.mean_stay_us, c6.uses_per_s), (Some(1e6), Some(0.4)));
    assert_eq!(machine.wakeups_per_s, Some(0.4));
    assert_eq!(machine.left_out_percent, Some(50.0));
    // 4 × 100 µs in 10 s.
    assert_eq!(machine.leaving_percent, Some(4.0 * 100e-6 / 10.0 * 100.0));
}

#[test]
fn without_a_driver_a_cpu_that_bpf_saw_enter_no_state_was_awake() {
    let begun = Instant::now();
    let none = || vec![cpu(0, vec![])];
    let (mut before, mut after) = (reading(begun, 0, none()), reading(begun, 10, none()));
    let (machine, _) = rows(&before, &after, &[]);
    assert_eq!(machine.awake_percent, None);
    before.seen = Some(BTreeMap::from([(0, seen(1, 0, 0, 0))]));
    after.seen = Some(BTreeMap::from([(0, seen(11, 0, 0, 0))]));
    let (machine, _) = rows(&before, &after, &[]);
    assert_eq!(
        (machine.awake_percent, machine.idle_entries_per_s),
        (Some(100.0), Some(0.0))
    );
}

#[test]
fn several_cpus_have_mean_shares_and_summed_uses_and_kinds_keep_their_names() {
    let begun = Instant::now();
    let cpus = |uses: u64, time_us: u64| {
        let mut efficient = cpu(1, vec![state(1, "C6S", uses, time_us)]);
        efficient.kind = Some(CoreKind::Efficient);
        vec![cpu(0, vec![state(1, "C6", uses, time_us)]), efficient]
    };
    let (before, after) = (
        reading(begun, 0, cpus(0, 0)),
        reading(begun, 1, cpus(10, 500_000)),
    );
    let (machine, cpus) = rows(&before, &after, &[]);
    let shares: Vec<_> = machine
        .states
        .iter()
        .map(|state| (state.name.as_str(), state.share_percent, state.uses_per_s))
        .collect();
    // Half of the CPUs, half of the time.
    let expected = (Some(25.0), Some(10.0));
    assert_eq!(
        shares,
        [
            ("C6", expected.0, expected.1),
            ("C6S", expected.0, expected.1)
        ]
    );
    assert_eq!(machine.awake_percent, Some(50.0));
    assert_eq!(
        (machine.kind, cpus[1].kind.as_deref()),
        (None, Some("efficient cores"))
    );
}

#[test]
fn a_cpu_that_came_or_went_has_unknown_differences() {
    let begun = Instant::now();
    let before = reading(begun, 0, vec![cpu(0, vec![state(0, "C1", 5, 5)])]);
    let mut away = cpu(0, vec![]);
    away.online = false;
    let gone = reading(begun, 1, vec![away.clone()]);
    let (machine, cpus) = rows(&before, &gone, &[]);
    assert!(!cpus[0].online && cpus[0].states.is_empty());
    assert_eq!(
        (machine.awake_percent, machine.idle_entries_per_s),
        (None, None)
    );
    // Back again, with the counts that it had.
    let back = reading(begun, 2, vec![cpu(0, vec![state(0, "C1", 9, 9)])]);
    let (_, cpus) = rows(&gone, &back, &[]);
    assert!(cpus[0].online);
    assert_eq!(
        (cpus[0].states[0].share_percent, cpus[0].awake_percent),
        (None, None)
    );
}

#[test]
fn the_processors_counters_give_shares_frequency_and_smis() {
    let counter = |column: &str, scope| Counter {
        column: column.to_owned(),
        pmu: "made".into(),
        event: column.to_owned(),
        unit: CounterUnit::TscCycles,
        scope,
        counted_on: vec![],
        pmu_type: 0,
        config: [0; 3],
    };
    let counters = [
        counter("cc6_percent", Scope::Core),
        counter("pc2_percent", Scope::Package),
        counter("cc0_percent", Scope::Cpu),
        counter("aperf", Scope::Cpu),
        counter("smi_count", Scope::Cpu),
        counter("tsc", Scope::Cpu),
    ];
    let sampled = |at_s: u64, values: [u64; 6]| {
        let mut seen = seen(at_s, 0, 0, 0);
        seen.sample = Some(Sample {
            at_ns: at_s * 1_000_000_000,
            values: values.map(Some).to_vec(),
        });
        Some(BTreeMap::from([(0, seen)]))
    };
    let begun = Instant::now();
    let states = || vec![cpu(0, vec![state(1, "C6", 0, 0)])];
    let (mut before, mut after) = (reading(begun, 0, states()), reading(begun, 2, states()));
    before.seen = sampled(10, [0; 6]);
    // 2 s at a TSC of 2000 MHz; a tenth awake, at 1.5 times that.
    after.seen = sampled(
        12,
        [
            3_000_000_000,
            1_000_000_000,
            400_000_000,
            600_000_000,
            6,
            4_000_000_000,
        ],
    );
    let (machine, cpus) = rows(&before, &after, &counters);
    let hardware = |unit: &Unit| -> Vec<(String, Option<f64>)> {
        let counted = |state: &&_| {
            matches!(
                state,
                &&crate::live::StateShare {
                    counted_by: CountedBy::Hardware,
                    ..
                }
            )
        };
        let states = unit.states.iter().filter(counted);
        states
            .map(|state| (state.name.clone(), state.share_percent))
            .collect()
    };
    let (cc6, pc2, cc0) = (
        ("CC6".to_owned(), Some(75.0)),
        ("PC2".to_owned(), Some(25.0)),
        ("CC0".to_owned(), Some(10.0)),
    );
    assert_eq!(hardware(&machine), [cc6.clone(), pc2, cc0.clone()]);
    assert_eq!(hardware(&cpus[0]), [cc6, cc0], "a package's is not a CPU's");
    let frequency = machine.frequency.unwrap();
    assert_eq!(
        (frequency.mhz, frequency.told_by),
        (3000.0, FrequencyFrom::Counters)
    );
    assert_eq!(machine.smi_per_s, Some(3.0));
}
