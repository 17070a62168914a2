use super::*;
use crate::Error;
use crate::policy::{CState, CStates, Choice, Dvfs, Law, PowerNap, Rule};
use crate::power::SERVER;

fn exponential(mean: f64) -> Service {
    Service::Exponential { mean }
}

/// The five distributions, with a mean of 10 ms each.
fn services() -> [Service; 5] {
    let (mean, cv) = (0.010, 1.7);
    let values = vec![0.002, 0.004, 0.006, 0.028];
    [
        exponential(mean),
        Service::Deterministic { mean },
        Service::Lognormal { mean, cv },
        Service::Gamma { mean, cv },
        Service::Empirical { values },
    ]
}

fn nap(suspend: f64, resume: f64, timeout: f64) -> Policy {
    Policy::PowerNap(PowerNap {
        suspend,
        resume,
        timeout,
    })
}

fn of(policy: &Policy, service: &Service, rate: f64) -> Outcome {
    outcome(policy, &SERVER, service, rate).unwrap()
}

#[track_caller]
fn close(value: f64, expected: f64) {
    let far = (value - expected).abs() > 1e-12 * expected.abs().max(1e-3);
    assert!(!far, "{value} is not {expected}");
}

/// Simpson's rule: a second way to the moments.
fn integral(from: f64, to: f64, f: impl Fn(f64) -> f64) -> f64 {
    let pieces = 20_000;
    let step = (to - from) / f64::from(pieces);
    let at = |place: u32| f(from + step * f64::from(place));
    let inner = (1..pieces).map(|place| at(place) * if place % 2 == 1 { 4.0 } else { 2.0 });
    (at(0) + inner.sum::<f64>() + at(pieces)) * step / 3.0
}

#[test]
fn queues_match_the_textbooks() {
    // M/M/1: E[R] = 1 / (100 - 50).
    close(
        of(&Policy::AlwaysOn, &exponential(0.010), 50.0).response_mean,
        0.020,
    );
    // M/D/1 waits half as long.
    let fixed = Service::Deterministic { mean: 0.010 };
    close(of(&Policy::AlwaysOn, &fixed, 50.0).wait_mean, 0.005);
    // M/G/1: (1 + cv²) / 2 times as long as M/M/1.
    let cv = 3.0;
    for service in [
        Service::Lognormal { mean: 0.010, cv },
        Service::Gamma { mean: 0.010, cv },
    ] {
        close(of(&Policy::AlwaysOn, &service, 50.0).wait_mean, 0.050);
    }
}

#[test]
fn without_transition_times_napping_equals_the_queue_exactly() {
    for service in services() {
        for percent in [1, 10, 50, 95] {
            let rate = f64::from(percent) / 100.0 / service.mean();
            let awake = of(&Policy::AlwaysOn, &service, rate);
            let napping = of(&nap(0.0, 0.0, 0.0), &service, rate);
            assert_eq!(napping.response_mean, awake.response_mean);
            assert_eq!(napping.wait_mean, awake.wait_mean);
            assert_eq!(napping.shares.nap, awake.shares.idle);
            assert_eq!(napping.shares.active, awake.shares.active);
            assert_eq!((napping.shares.transition, napping.shares.idle), (0.0, 0.0));
            let never = of(&nap(0.3, 0.2, f64::INFINITY), &service, rate);
            assert_eq!(never.response_mean, awake.response_mean);
            assert_eq!(never.shares, awake.shares);
            assert_eq!(never.power_mean, awake.power_mean);
        }
    }
}

#[test]
fn a_constant_setup_adds_the_time_of_the_formula() {
    // No suspend, 20 ms of resume, 50/s: (2·0.02 + 50·0.0004) / (2 (1 + 1)) = 15 ms.
    let outcome = of(&nap(0.0, 0.020, 0.0), &exponential(0.010), 50.0);
    close(outcome.response_mean, 0.035);
    // A cycle has 20 ms of nap and 20 ms of resume outside service.
    close(outcome.shares.nap, 0.25);
    close(outcome.shares.transition, 0.25);
    close(outcome.power_mean, 50.0 + 0.25 * 5.0 + 0.25 * 80.0);
    close(outcome.naps_per_s, 12.5);
}

#[test]
fn the_setups_moments_are_those_of_powernap_and_of_their_integrals() {
    for (rate, time) in [(0.01, 0.05), (1.0, 0.65), (20.0, 0.05), (90.0, 0.65)] {
        let one = PowerNap {
            suspend: time,
            resume: time,
            timeout: 0.0,
        };
        let setup = nap::setup(&one, rate);
        let paper = 2.0 * time - 1.0 / rate + (-rate * time).exp() / rate;
        assert!(
            (setup.mean / paper - 1.0).abs() < 1e-9,
            "{} {paper}",
            setup.mean
        );
        let asleep = (-rate * time).exp() * time * time;
        let second = asleep
            + integral(0.0, time, |x| {
                (2.0 * time - x).powi(2) * rate * (-rate * x).exp()
            });
        assert!(
            (setup.second_moment / second - 1.0).abs() < 1e-9,
            "{rate} {time}"
        );
    }
}

#[test]
fn small_and_large_arguments_keep_their_precision() {
    for a in [1e-12, 1e-7, 1e-3] {
        assert!((setup::first(a) / (a / 2.0) - 1.0).abs() < a);
        assert!((setup::second(a) / (a / 3.0) - 1.0).abs() < a);
    }
    // Both ways of computing agree.
    let (below, above) = (1.0 - 1e-12, 1.0);
    assert!((setup::first(below) - setup::first(above)).abs() < 1e-11);
    assert!((setup::second(below) - setup::second(above)).abs() < 1e-11);
    assert_eq!((setup::first(0.0), setup::second(0.0)), (0.0, 0.0));
}

#[test]
fn shares_sum_to_one_and_weight_the_power() {
    let states = CStates {
        states: vec![
            state("C1", 2e-6, 50.0, 0.0),
            state("C6", 133e-6, 20.0, 0.01),
        ],
        choice: Choice::Oracle,
    };
    let policies = [
        Policy::AlwaysOn,
        nap(0.65, 0.65, 0.0),
        nap(0.05, 0.02, 0.1),
        Policy::CStates(states),
        Policy::Dvfs(dvfs(Rule::Linear)),
    ];
    for policy in &policies {
        for service in services() {
            for rate in [0.1, 30.0, 95.0] {
                let shares = of(policy, &service, rate).shares;
                close(
                    shares.active + shares.idle + shares.transition + shares.nap,
                    1.0,
                );
                assert!(shares.active > 0.0 && shares.nap >= 0.0 && shares.idle >= 0.0);
            }
        }
    }
}

#[test]
fn a_lone_request_waits_for_the_resume_and_a_steady_stream_does_not() {
    let service = exponential(0.010);
    let rare = of(&nap(0.05, 0.02, 0.0), &service, 1e-9);
    assert!((rare.response_mean - 0.030).abs() < 1e-9);
    assert!((rare.power_mean - SERVER.nap).abs() < 1e-6);
    let full = of(&nap(0.05, 0.02, 0.0), &service, 99.9999);
    assert!((full.shares.active - 1.0).abs() < 1e-5);
}

#[test]
fn a_timeout_uses_its_share_of_the_idle_periods() {
    // P = e^(-1): the share of idle periods longer than a timeout of 1/λ.
    let (rate, timeout) = (20.0, 0.05);
    let one = of(&nap(0.0, 0.020, timeout), &exponential(0.010), rate);
    let p = (-1f64).exp();
    close(
        one.wait_mean,
        0.0025 + p * (0.040 + 20.0 * 0.0004) / (2.0 * (1.0 + p * 0.4)),
    );
    close(one.shares.idle / one.shares.nap, (1.0 - p) / p);
}

fn dvfs(rule: Rule) -> Dvfs {
    Dvfs {
        floor: 0.25,
        processor_share: 0.4,
        idle_share: 0.0,
        law: Law::Cubic,
        rule,
    }
}

#[test]
fn at_half_frequency_service_takes_twice_as_long() {
    let outcome = of(
        &Policy::Dvfs(dvfs(Rule::Fixed(0.5))),
        &exponential(0.010),
        25.0,
    );
    close(outcome.response_mean, 0.040);
    close(outcome.shares.active, 0.5);
    close(
        outcome.power_mean,
        0.5 * 100.0 * (0.6 + 0.4 / 8.0) + 0.5 * 60.0,
    );
}

#[test]
fn each_rule_chooses_its_frequency() {
    let at = |rule, rate| dvfs::frequency(&dvfs(rule), &exponential(0.010), rate).unwrap();
    close(at(Rule::BusyShare(0.8), 40.0), 0.5);
    close(at(Rule::BusyShare(0.8), 10.0), 0.25);
    close(at(Rule::BusyShare(0.8), 90.0), 1.0);
    close(at(Rule::Linear, 20.0), 0.4);
    // For exponential service times a slow-down is linear.
    close(at(Rule::Slowdown(4.0), 20.0), 0.4);
    for service in services() {
        let slow = Policy::Dvfs(dvfs(Rule::Slowdown(1.5)));
        let ratio = of(&slow, &service, 60.0).response_mean
            / of(&Policy::AlwaysOn, &service, 60.0).response_mean;
        close(ratio, 1.5);
    }
}

#[test]
fn a_measured_power_law_passes_through_its_points() {
    let law = Law::Measured(vec![(0.4, 0.2), (0.8, 0.6), (1.0, 1.0)]);
    for (frequency, power) in [(0.1, 0.2), (0.4, 0.2), (0.6, 0.4), (0.9, 0.8), (1.0, 1.0)] {
        close(law.power(frequency), power);
    }
}

fn state(name: &str, exit_latency: f64, power: f64, target_residency: f64) -> CState {
    CState {
        name: name.into(),
        exit_latency,
        power,
        target_residency,
    }
}

#[test]
fn the_oracle_sleeps_in_idle_periods_that_pay() {
    let (r1, r2, rate) = (0.004, 0.020, 60.0);
    let states = vec![state("C1", 0.001, 40.0, r1), state("C6", 0.003, 10.0, r2)];
    let policy = |choice| {
        Policy::CStates(CStates {
            states: states.clone(),
            choice,
        })
    };
    let service = exponential(0.010);
    let oracle = of(&policy(Choice::Oracle), &service, rate);
    let density = |x: f64| x * rate * (-rate * x).exp();
    let in_c1 = integral(r1, r2, density);
    let in_c6 = integral(r2, 1.0, density);
    let p1 = (-rate * r1).exp() - (-rate * r2).exp();
    let p2 = (-rate * r2).exp();
    let setup = p1 * 0.001 + p2 * 0.003;
    let outside = 1.0 / rate + setup;
    let nap = 0.4 * (in_c1 + in_c6) / outside;
    assert!((oracle.shares.nap / nap - 1.0).abs() < 1e-9);
    let awake = integral(0.0, r1, density);
    let energy = awake * 60.0 + in_c1 * 40.0 + in_c6 * 10.0 + setup * 80.0;
    let power = 0.6 * 100.0 + 0.4 * energy / outside;
    assert!((oracle.power_mean / power - 1.0).abs() < 1e-9);
    let squared = p1 * 1e-6 + p2 * 9e-6;
    let delay = (2.0 * setup + rate * squared) / (2.0 * (1.0 + rate * setup));
    close(oracle.wait_mean, 0.015 + delay);
    // The mean idle period is 16.7 ms: C1 fits it; C6 is the deepest.
    let mean = of(&policy(Choice::Mean), &service, rate);
    close(mean.wait_mean, 0.015 + (0.002 + 60.0 * 1e-6) / (2.0 * 1.06));
    let deepest = of(&policy(Choice::Deepest), &service, rate);
    close(
        deepest.wait_mean,
        0.015 + (0.006 + 60.0 * 9e-6) / (2.0 * 1.18),
    );
}

#[test]
fn an_unstable_load_is_refused_with_the_stable_limit() {
    let service = exponential(0.010);
    let slow = Policy::Dvfs(dvfs(Rule::Fixed(0.5)));
    let said = [(Policy::AlwaysOn, 120.0), (slow, 60.0)].map(|(policy, rate)| {
        let error = outcome(&policy, &SERVER, &service, rate).unwrap_err();
        (format!("{rate}/s, {policy:?}"), error)
    });
    reveille_snapshot::snapshot!("errors", said);
}

#[test]
fn invalid_values_are_refused_by_name() {
    let service = exponential(0.010);
    let refused = |policy: &Policy, power: &Power, service: &Service, rate: f64| {
        outcome(policy, power, service, rate)
            .unwrap_err()
            .to_string()
    };
    let on = Policy::AlwaysOn;
    assert!(refused(&on, &SERVER, &service, -1.0).starts_with("arrivals"));
    assert!(refused(&on, &SERVER, &service, f64::NAN).starts_with("arrivals"));
    assert!(refused(&on, &SERVER, &exponential(-0.1), 1.0).starts_with("service time"));
    let nothing = Service::Empirical { values: Vec::new() };
    assert!(refused(&on, &SERVER, &nothing, 1.0).contains("no measured value"));
    let negative = Power {
        nap: -1.0,
        ..SERVER
    };
    assert!(refused(&on, &negative, &service, 1.0).starts_with("power, nap"));
    assert!(refused(&nap(-0.1, 0.0, 0.0), &SERVER, &service, 1.0).starts_with("suspend"));
    assert!(refused(&nap(0.1, f64::NAN, 0.0), &SERVER, &service, 1.0).starts_with("resume"));
    let stopped = Policy::Dvfs(Dvfs {
        floor: 0.0,
        ..dvfs(Rule::Linear)
    });
    assert!(refused(&stopped, &SERVER, &service, 1.0).starts_with("floor"));
}

fn figures(outcome: &Outcome) -> [f64; 9] {
    let shares = &outcome.shares;
    [
        outcome.response_mean,
        outcome.wait_mean,
        outcome.power_mean,
        shares.active,
        shares.idle,
        shares.transition,
        shares.nap,
        outcome.naps_per_s,
        outcome.frequency,
    ]
}

/// At 20 requests a second of 10 ms: a load of 0.2, and an M/M/1 queue waits 2.5 ms.
#[track_caller]
fn comes_to(policy: &Policy, expected: [f64; 9]) {
    let found = of(policy, &exponential(0.010), 20.0);
    for (value, expected) in figures(&found).into_iter().zip(expected) {
        close(value, expected);
    }
}

/// 20% active, 80% idle: 20 W + 48 W.
const AWAKE: [f64; 9] = [0.0125, 0.0025, 68.0, 0.2, 0.8, 0.0, 0.0, 0.0, 1.0];

#[test]
fn a_policy_has_every_closed_form() {
    comes_to(&Policy::AlwaysOn, AWAKE);
    // Each request takes 20 ms, so the load is 0.4 and the wait 0.4 / 0.6 of that; active is
    // 100 (0.6 + 0.4/8) = 65 W, idle 60 (0.5 + 0.5/8) = 33.75 W.
    let half = Policy::Dvfs(Dvfs {
        idle_share: 0.5,
        ..dvfs(Rule::Fixed(0.5))
    });
    let wait = 0.020 * 2.0 / 3.0;
    comes_to(
        &half,
        [
            wait + 0.020,
            wait,
            26.0 + 20.25,
            0.4,
            0.6,
            0.0,
            0.0,
            0.0,
            0.5,
        ],
    );
    // By the formulas at the start of `nap.rs`: a = 0.4, P = e^(-0.2).
    let (p, rest) = ((-0.2f64).exp(), (-0.4f64).exp());
    let y = 0.020 * (rest - 0.6) / 0.4;
    let y_squared = 0.0004 - y / 10.0;
    let setup = p * (y + 0.030);
    let setup_squared = p * (y_squared + 0.060 * y + 0.0009);
    let wait = 0.0025 + (2.0 * setup + 20.0 * setup_squared) / (2.0 * (1.0 + 20.0 * setup));
    let cycle = (0.05 + setup) / 0.8;
    let (idle, transition, asleep) = ((1.0 - p) / 20.0, p * 0.050, p * rest / 20.0);
    let energy = idle * 60.0 + transition * 80.0 + asleep * 5.0;
    comes_to(
        &nap(0.020, 0.030, 0.010),
        [
            wait + 0.010,
            wait,
            20.0 + energy / cycle,
            0.2,
            idle / cycle,
            transition / cycle,
            asleep / cycle,
            p / cycle,
            1.0,
        ],
    );
}

#[test]
fn idle_states_have_every_closed_form() {
    let (c1, c6) = (
        state("C1", 0.005, 40.0, 0.010),
        state("C6", 0.020, 10.0, 0.050),
    );
    let policy = |states: &[CState], choice| {
        Policy::CStates(CStates {
            states: states.to_vec(),
            choice,
        })
    };
    let both = [c1, c6];
    // 50 ms in C6 and 20 ms for leaving it: 0.5 J + 1.6 J in 70 ms.
    let wait = 0.0025 + (0.040 + 20.0 * 0.0004) / (2.0 * 1.4);
    let (out, nap) = (0.8 * 2.0 / 7.0, 0.8 * 5.0 / 7.0);
    let in_c6 = [
        wait + 0.010,
        wait,
        20.0 + 0.8 * 30.0,
        0.2,
        0.0,
        out,
        nap,
        0.8 / 0.07,
        1.0,
    ];
    comes_to(&policy(&both, Choice::Deepest), in_c6);
    // C6 pays from exactly the mean idle period of 50 ms on.
    comes_to(&policy(&both, Choice::Mean), in_c6);
    // Idle periods of 10 ms and more, e^(-0.2) of them, are spent in C1, those of 50 ms and more,
    // e^(-1) of them, in C6.
    let (p1, p6) = ((-0.2f64).exp(), (-1f64).exp());
    let setup = (p1 - p6) * 0.005 + p6 * 0.020;
    let setup_squared = (p1 - p6) * 0.000025 + p6 * 0.0004;
    let wait = 0.0025 + (2.0 * setup + 20.0 * setup_squared) / (2.0 * (1.0 + 20.0 * setup));
    let (from_c1, from_c6) = (0.060 * p1, 0.100 * p6);
    let cycle = (0.05 + setup) / 0.8;
    let energy = (0.05 - from_c1) * 60.0 + (from_c1 - from_c6) * 40.0 + from_c6 * 10.0;
    comes_to(
        &policy(&both, Choice::Oracle),
        [
            wait + 0.010,
            wait,
            20.0 + (energy + setup * 80.0) / cycle,
            0.2,
            (0.05 - from_c1) / cycle,
            setup / cycle,
            from_c1 / cycle,
            p1 / cycle,
            1.0,
        ],
    );
    // No state, or none that pays: awake.
    for choice in [Choice::Deepest, Choice::Mean, Choice::Oracle] {
        comes_to(&policy(&[], choice), AWAKE);
    }
    comes_to(
        &policy(&[state("C6", 0.020, 10.0, 0.051)], Choice::Mean),
        AWAKE,
    );
}

#[test]
fn a_load_of_1_has_no_steady_state() {
    let service = exponential(0.010);
    let unstable = |policy: &Policy, rate: f64| match outcome(policy, &SERVER, &service, rate) {
        Err(Error::Unstable { load, hint }) => (load, hint.contains("at relative frequency")),
        other => panic!("{other:?}"),
    };
    let half = Policy::Dvfs(dvfs(Rule::Fixed(0.5)));
    for policy in [Policy::AlwaysOn, nap(0.1, 0.1, 0.0), half.clone()] {
        assert_eq!(unstable(&policy, 100.0), (1.0, false));
        assert_eq!(unstable(&policy, 150.0), (1.5, false));
    }
    assert_eq!(unstable(&half, 50.0), (1.0, true));
    assert_eq!(unstable(&half, 75.0), (1.5, true));
    assert_eq!(of(&half, &service, 49.0).shares.active, 0.98);
}

#[test]
fn a_rate_is_a_positive_number() {
    let service = exponential(0.010);
    let said = [0.0, -1.0, f64::NAN, f64::INFINITY].map(|rate| {
        let refused = outcome(&Policy::AlwaysOn, &SERVER, &service, rate).unwrap_err();
        (rate, format!("{refused:?}"))
    });
    reveille_snapshot::snapshot!("errors", said);
    assert!(outcome(&Policy::AlwaysOn, &SERVER, &service, 1e-300).is_ok());
}
