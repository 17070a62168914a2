use super::*;
use crate::Error;

/// Each value and its error; nothing for valid ones.
#[track_caller]
fn check(policy: impl Fn(f64) -> Policy, name: &str, wanted: &str, cases: &[(f64, bool)]) {
    for (value, can_be) in cases {
        let expected = match can_be {
            true => Ok(()),
            false => Err(Error::Usage(format!("{name}: {value:?}; give {wanted}"))),
        };
        assert_eq!(policy(*value).check(), expected, "{name} {value}");
    }
}

fn dvfs(change: impl Fn(&mut Dvfs)) -> Policy {
    let mut dvfs = Dvfs {
        floor: 0.25,
        processor_share: 0.4,
        idle_share: 0.0,
        law: Law::Cubic,
        rule: Rule::Linear,
    };
    change(&mut dvfs);
    Policy::Dvfs(dvfs)
}

#[test]
fn each_share_of_time_draws_its_own_power() {
    let shares = Shares {
        active: 0.4,
        idle: 0.3,
        transition: 0.1,
        nap: 0.2,
    };
    let power = shares.power(&crate::power::SERVER);
    assert!((power - (40.0 + 18.0 + 8.0 + 1.0)).abs() < 1e-12);
}

#[test]
fn figures_of_frequency_scaling_have_their_limits() {
    let above_0 = [
        (0.0, false),
        (1e-9, true),
        (0.5, true),
        (1.0, true),
        (1.001, false),
        (-0.5, false),
        (f64::NAN, false),
    ];
    let said = "above 0, at most 1";
    check(|f| dvfs(|dvfs| dvfs.floor = f), "floor", said, &above_0);
    let fixed = |f| dvfs(|dvfs| dvfs.rule = Rule::Fixed(f));
    check(fixed, "fixed", said, &above_0);
    let share = [
        (-0.001, false),
        (0.0, true),
        (0.5, true),
        (1.0, true),
        (1.001, false),
        (f64::NAN, false),
    ];
    let said = "from 0 to 1";
    let processor = |share| dvfs(|dvfs| dvfs.processor_share = share);
    check(processor, "processor_share", said, &share);
    let idle = |share| dvfs(|dvfs| dvfs.idle_share = share);
    check(idle, "idle_share", said, &share);
    check(
        |share| dvfs(|dvfs| dvfs.rule = Rule::BusyShare(share)),
        "busy_share",
        "between 0 and 1",
        &[
            (-0.5, false),
            (0.0, false),
            (1e-9, true),
            (0.999, true),
            (1.0, false),
            (1.5, false),
        ],
    );
    check(
        |limit| dvfs(|dvfs| dvfs.rule = Rule::Slowdown(limit)),
        "slowdown",
        "1 or above",
        &[
            (0.999, false),
            (1.0, true),
            (1e9, true),
            (f64::INFINITY, false),
            (f64::NAN, false),
        ],
    );
}

#[test]
fn a_measured_law_rises_from_above_0_to_1_and_has_no_negative_power() {
    let law = |points: &[(f64, f64)]| dvfs(|dvfs| dvfs.law = Law::Measured(points.to_vec()));
    for points in [
        &[(1.0, 1.0)][..],
        &[(1.0, 0.0)],
        &[(0.4, 0.9), (0.5, 0.2), (1.0, 3.0)],
    ] {
        assert_eq!(law(points).check(), Ok(()), "{points:?}");
    }
    let mut said = Vec::new();
    for points in [
        &[][..],
        &[(0.5, 0.5)],
        &[(0.5, 0.5), (0.9, 0.9)],
        &[(0.5, 0.5), (1.1, 1.0)],
        &[(0.5, 0.5), (0.5, 0.6), (1.0, 1.0)],
        &[(0.6, 0.5), (0.5, 0.6), (1.0, 1.0)],
        &[(1.0, 1.0), (1.0, 1.0)],
        &[(0.0, 0.5), (1.0, 1.0)],
        &[(-0.1, 0.5), (1.0, 1.0)],
        &[(f64::NAN, 0.5), (1.0, 1.0)],
        &[(0.5, -0.1), (1.0, 1.0)],
        &[(0.5, f64::INFINITY), (1.0, 1.0)],
        &[(0.5, f64::NAN), (1.0, 1.0)],
    ] {
        said.push((format!("{points:?}"), format!("{:?}", law(points).check())));
    }
    reveille_snapshot::snapshot!("errors", said);
}

/// Times and powers: 0 to 1e9.
const LIMITS: [(f64, bool); 6] = [
    (-0.001, false),
    (0.0, true),
    (1e9, true),
    (1.001e9, false),
    (f64::INFINITY, false),
    (f64::NAN, false),
];

#[test]
fn times_of_a_nap_are_from_0_to_thirty_years_and_its_timeout_may_be_never() {
    let nap = PowerNap {
        suspend: 0.1,
        resume: 0.1,
        timeout: 0.1,
    };
    let said = "a time from 0 to 1e9 s";
    let suspend = |suspend| Policy::PowerNap(PowerNap { suspend, ..nap });
    check(suspend, "suspend", said, &LIMITS);
    let resume = |resume| Policy::PowerNap(PowerNap { resume, ..nap });
    check(resume, "resume", said, &LIMITS);
    let timeout = |timeout| Policy::PowerNap(PowerNap { timeout, ..nap });
    let never = LIMITS.map(|(value, can_be)| (value, can_be || value == f64::INFINITY));
    check(timeout, "timeout", said, &never);
}

fn states(residencies: &[f64]) -> CStates {
    let states = residencies.iter().enumerate();
    CStates {
        states: states
            .map(|(place, residency)| CState {
                name: format!("C{place}"),
                exit_latency: 0.001,
                power: 10.0,
                target_residency: *residency,
            })
            .collect(),
        choice: Choice::Oracle,
    }
}

#[test]
fn idle_states_are_ordered_from_shallow_to_deep_and_refused_by_name() {
    let of = |change: fn(&mut CState, f64)| {
        move |value| {
            let mut states = states(&[0.0, 2.0]);
            change(&mut states.states[0], value);
            states.states[1].target_residency = 1e9;
            Policy::CStates(states)
        }
    };
    let said = "a time from 0 to 1e9 s";
    let latency = of(|state, value| state.exit_latency = value);
    check(latency, "C0: exit_latency", said, &LIMITS);
    let residency = of(|state, value| state.target_residency = value);
    check(residency, "C0: target_residency", said, &LIMITS);
    let power = of(|state, value| state.power = value);
    check(power, "C0: power", "0 to 1e9 W", &LIMITS);
    let order = |residencies: &[f64]| Policy::CStates(states(residencies)).check();
    assert_eq!(order(&[]), Ok(()));
    assert_eq!(order(&[1.0, 1.0, 2.0]), Ok(()));
    let refused = format!("{:?}", order(&[1.0, 3.0, 2.0]).unwrap_err());
    reveille_snapshot::snapshot!("errors", [("C1 above C2", refused)]);
    assert_eq!(Policy::AlwaysOn.check(), Ok(()));
}

#[test]
fn a_state_fits_from_its_target_residency_on() {
    let three = states(&[1.0, 2.0, 3.0]);
    for (idle, place) in [
        (0.999, None),
        (1.0, Some(0)),
        (1.999, Some(0)),
        (2.0, Some(1)),
        (3.0, Some(2)),
        (9.0, Some(2)),
    ] {
        assert_eq!(three.fitting(idle), place, "{idle}");
    }
    let chosen = |choice, idle, gap| {
        CStates {
            choice,
            ..three.clone()
        }
        .state(idle, gap)
    };
    assert_eq!(chosen(Choice::Deepest, 0.5, 1.5), Some(2));
    assert_eq!(chosen(Choice::Mean, 0.5, 1.5), Some(0));
    assert_eq!(chosen(Choice::Oracle, 0.5, 1.5), None);
    assert_eq!(chosen(Choice::Oracle, 2.5, 1.5), Some(1));
}

#[test]
fn only_the_laws_share_of_power_depends_on_frequency() {
    let law = Law::Measured(vec![(0.4, 0.3), (0.8, 0.5), (1.0, 1.0)]);
    for (frequency, power) in [(0.2, 0.3), (0.4, 0.3), (0.5, 0.35), (0.8, 0.5), (0.9, 0.75)] {
        assert!((law.power(frequency) - power).abs() < 1e-12, "{frequency}");
    }
    assert_eq!((law.power(1.0), law.power(1.5)), (1.0, 1.0));
    // At a point it is exactly the measured value: 0.9 + (0.1 − 0.9) is not 0.1.
    let fallen = Law::Measured(vec![(0.4, 0.9), (0.8, 0.1), (1.0, 1.0)]);
    assert_eq!([0.4, 0.8, 1.0].map(|f| fallen.power(f)), [0.9, 0.1, 1.0]);
    assert_eq!(Law::Cubic.power(0.5), 0.125);
    let Policy::Dvfs(dvfs) = dvfs(|dvfs| dvfs.idle_share = 0.2) else {
        unreachable!()
    };
    let power = Power {
        active: 80.0,
        idle: 40.0,
        nap: 0.0,
        transition: 0.0,
    };
    // 80 (0.6 + 0.4/8), 40 (0.8 + 0.2/8).
    assert!((dvfs.active_power(&power, 0.5) - 52.0).abs() < 1e-12);
    assert!((dvfs.idle_power(&power, 0.5) - 33.0).abs() < 1e-12);
    assert!((dvfs.active_power(&power, 1.0) - 80.0).abs() < 1e-12);
}

#[test]
fn an_infinite_timeout_is_written_as_never() {
    let nap = |timeout| PowerNap {
        suspend: 0.1,
        resume: 0.2,
        timeout,
    };
    let written = |timeout| serde_json::to_string(&nap(timeout)).unwrap();
    assert_eq!(
        written(0.5),
        r#"{"suspend_s":0.1,"resume_s":0.2,"timeout_s":0.5}"#
    );
    assert_eq!(
        written(f64::INFINITY),
        r#"{"suspend_s":0.1,"resume_s":0.2,"timeout_s":"never"}"#
    );
}
