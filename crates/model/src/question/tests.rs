use super::*;
use crate::policy::{CState, CStates, Choice, Dvfs, Rule};
use crate::service::Service;

fn paper() -> Parameters {
    Parameters::paper()
}

fn policy<'a>(parameters: &'a Parameters, name: &str) -> &'a Policy {
    &parameters.policy(name).unwrap().policy
}

fn nap(suspend: f64, resume: f64, timeout: f64) -> PowerNap {
    PowerNap {
        suspend,
        resume,
        timeout,
    }
}

#[test]
fn at_a_crossing_both_figures_are_equal_and_differ_elsewhere() {
    let parameters = paper();
    for figure in [Figure::Power, Figure::Response] {
        let (first, second) = (
            policy(&parameters, "nap 100 ms"),
            policy(&parameters, "DVFS"),
        );
        let found = crossings(&parameters, first, second, figure).unwrap();
        assert!(!found.crossings.is_empty());
        for crossing in &found.crossings {
            let difference = |load: f64| {
                let of = |policy| figure.of(&parameters.outcome(policy, load).unwrap());
                of(first) - of(second)
            };
            let at = crossing.utilisation;
            assert!(difference(at).abs() < 1e-5);
            assert_eq!(difference(at * 0.99) < 0.0, crossing.first_is_lower_below);
            assert_eq!(difference(at * 1.01) > 0.0, crossing.first_is_lower_below);
        }
    }
}

#[test]
fn a_crossing_with_a_closed_form_is_found() {
    // Always half speed, all power the processor's: with f³ = 1/8 and no idle share, M/M/1 at 10
    // ms: DVFS draws 2ρ·a/8 + (1 − 2ρ) i, napping without transition ρ·a + (1 − ρ) n. With a = 80,
    // i = 20, n = 0: 20ρ + 20 − 40ρ = 80ρ, so ρ = 0.2.
    let mut parameters = paper();
    parameters.service = Service::Exponential { mean: 0.010 };
    parameters.power.active = 80.0;
    parameters.power.idle = 20.0;
    parameters.power.nap = 0.0;
    let slow = Policy::Dvfs(Dvfs {
        floor: 0.5,
        processor_share: 1.0,
        idle_share: 0.0,
        law: crate::policy::Law::Cubic,
        rule: Rule::Fixed(0.5),
    });
    let at_once = Policy::PowerNap(nap(0.0, 0.0, 0.0));
    let found = crossings(&parameters, &at_once, &slow, Figure::Power).unwrap();
    assert_eq!(found.crossings.len(), 1);
    assert!((found.crossings[0].utilisation - 0.2).abs() < 1e-9);
    assert!(found.crossings[0].first_is_lower_below);
    // Above half the load the slow one has no steady state.
    assert!(found.looked_at.unwrap().1 < 0.5);
    // Twice as slow, at every load: no crossing.
    let response = crossings(&parameters, &at_once, &slow, Figure::Response).unwrap();
    assert!(response.crossings.is_empty());
    assert_eq!(response.first_is_lower_at_first, Some(true));
}

/// The text of the answer is by these; what `model run` says at one of the loads must not be otherwise.
#[test]
fn what_three_digits_do_not_show_is_no_lower_figure() {
    let parameters = paper();
    let of_name = |name| (policy(&parameters, name), Policy::AlwaysOn);
    let names = ["nap 10 ms", "nap 50 ms", "nap 650 ms", "DVFS"];
    // The two cross, and from 47% to 72% load nothing is seen of that.
    let flat = (policy(&parameters, "nap 10 ms"), only_state(4.4));
    let pairs = names.map(of_name).into_iter().chain([flat]);
    let mut alike_somewhere = 0;
    for ((first, second), figure) in
        pairs.flat_map(|pair| [(pair.clone(), Figure::Power), (pair, Figure::Response)])
    {
        let found = crossings(&parameters, first, &second, figure).unwrap();
        alike_somewhere += found.alike.len();
        for step in 1..1000 {
            let load = f64::from(step) / 1000.0;
            let of = |policy| figure.of(&parameters.outcome(policy, load).unwrap());
            let [one, other] = [first, &second].map(of).map(|value| format!("{value:.2e}"));
            let is_alike = found
                .alike
                .iter()
                .any(|(from, to)| (*from..=*to).contains(&load));
            let near = |crossing: &Crossing| (crossing.utilisation - load).abs() < 0.05;
            let is_near = found.crossings.iter().any(near);
            assert!(
                is_alike || is_near || one != other,
                "{first:?} at {load}: {found:?}"
            );
        }
    }
    assert!(alike_somewhere >= 4);
}

#[test]
fn a_policy_does_not_cross_itself() {
    let parameters = paper();
    let dvfs = policy(&parameters, "DVFS");
    let found = crossings(&parameters, dvfs, dvfs, Figure::Power).unwrap();
    assert!(found.crossings.is_empty());
    assert_eq!(found.first_is_lower_at_first, None);
}

#[test]
fn the_largest_transition_time_makes_both_equal() {
    let parameters = paper();
    let other = policy(&parameters, "DVFS");
    for (template, figure) in [
        (nap(0.0, 0.1, 0.0), Figure::Power),
        (nap(0.3, 0.1, 0.0), Figure::Response),
        (nap(0.0, 0.0, 0.002), Figure::Power),
    ] {
        let found = largest_transition(&parameters, &template, other, 0.3, figure).unwrap();
        let Largest::Seconds { transition, nap } = found else {
            panic!("{found:?}");
        };
        let figure_of = |policy: &Policy| figure.of(&parameters.outcome(policy, 0.3).unwrap());
        let equal = figure_of(&Policy::PowerNap(nap)) / figure_of(other);
        assert!((equal - 1.0).abs() < 1e-6, "{equal}");
        assert!((nap.suspend + nap.resume - transition).abs() < 1e-12);
        let longer = PowerNap {
            resume: nap.resume * 1.01,
            ..nap
        };
        assert!(figure_of(&Policy::PowerNap(longer)) > figure_of(other));
    }
}

#[test]
fn napping_that_never_or_always_pays_is_reported() {
    let parameters = paper();
    let fast = Policy::AlwaysOn;
    let at =
        |figure| largest_transition(&parameters, &nap(0.1, 0.1, 0.0), &fast, 0.3, figure).unwrap();
    assert_eq!(at(Figure::Response), Largest::Never);
    // A transition draws 14 W here, less than the 60 W of idleness: napping always saves.
    assert_eq!(at(Figure::Power), Largest::Any);
    // If it draws just as much, the saving decreases and never reaches zero: it counts as far as three digits show it.
    let nap = nap(0.1, 0.1, 0.0);
    let seen = |parameters: &Parameters| {
        let found = largest_transition(parameters, &nap, &fast, 0.3, Figure::Power).unwrap();
        let Largest::Seconds { nap, .. } = found else {
            panic!("{found:?}");
        };
        let drawn = |by: f64| {
            let policy = Policy::PowerNap(PowerNap {
                resume: nap.resume * by,
                ..nap
            });
            parameters.outcome(&policy, 0.3).unwrap().power_mean
        };
        let on = parameters.outcome(&fast, 0.3).unwrap().power_mean;
        assert!(draws_less(drawn(0.999), on) && !draws_less(drawn(1.001), on));
    };
    seen(&Parameters::default());
    // Such a difference has a rounding error as large as that of the powers.
    for megawatts in 1..100 {
        let mut alike = paper();
        alike.power.active = f64::from(megawatts) * 1e6;
        alike.power.idle = alike.power.active * 0.7;
        alike.power.transition = alike.power.idle;
        seen(&alike);
    }
}

#[test]
fn the_best_timeout_meets_the_budget_and_saves_the_most() {
    let mut parameters = paper();
    parameters.power.transition = 60.0;
    let template = nap(0.05, 0.05, 0.0);
    let load = 0.3;
    let of = |timeout: f64| {
        let policy = Policy::PowerNap(PowerNap {
            timeout,
            ..template
        });
        parameters.outcome(&policy, load).unwrap()
    };
    let budget = 0.090;
    let best = best_timeout(&parameters, &template, load, budget).unwrap();
    assert_eq!(best.why, Why::BudgetBinds);
    assert!((best.outcome.response_mean - budget).abs() < 1e-12);
    for step in 0..2000 {
        let tried = of(f64::from(step) * 1e-3);
        let fits = tried.response_mean <= budget;
        assert!(!fits || tried.power_mean >= best.outcome.power_mean - 1e-9);
    }
    let loose = best_timeout(&parameters, &template, load, 10.0).unwrap();
    assert_eq!((loose.why, loose.timeout), (Why::AtOnceFits, 0.0));
    parameters.power.transition = 500.0;
    let dear = best_timeout(&parameters, &template, load, 10.0).unwrap();
    assert_eq!(
        (dear.why, dear.timeout),
        (Why::SleepingSavesNothing, f64::INFINITY)
    );
    // 0.03 of 100 W.
    let busy = best_timeout(&paper(), &nap(0.0, 0.0, 0.0), 0.9995, 1e3).unwrap();
    assert_eq!(busy.why, Why::SleepingSavesNothing);
    let tight = best_timeout(&parameters, &template, load, 0.050).unwrap_err();
    assert!(tight.to_string().contains("cannot be met"), "{tight}");
}

#[test]
fn the_root_is_the_middle_of_an_interval_of_relative_width_1e_9() {
    for place in 1..1000 {
        let place = f64::from(place) / 1000.0;
        for is_negative in [true, false] {
            let value = |at: f64| Ok(Some(if is_negative { at - place } else { place - at }));
            let found = root(0.0, 1.0, is_negative, value).unwrap();
            assert!((found - place).abs() <= 0.5e-9 * found, "{found} {place}");
        }
    }
    // At 0 no interval is small enough: the search ends when no number is between.
    assert_eq!(root(0.0, 1.0, true, |_| Ok(Some(1.0))), Ok(0.0));
    // 0.5, and then 0.75: there the search ends.
    let until = |at: f64| Ok((at < 0.7).then_some(-1.0));
    assert_eq!(root(0.0, 1.0, true, until), Ok(0.75));
}

#[test]
fn the_root_of_a_long_zero_stretch_is_its_start() {
    for sign in [-1.0, 1.0] {
        let value = |at: f64| {
            Ok(Some(match at {
                at if at < 0.3 => sign,
                at if at <= 0.6 => 0.0,
                _ => -sign,
            }))
        };
        let found = root(0.0, 1.0, sign < 0.0, value).unwrap();
        assert!((found - 0.3).abs() < 1e-9, "{found}");
    }
}

fn only_state(power: f64) -> Policy {
    Policy::CStates(CStates {
        states: vec![CState {
            name: "C1".into(),
            exit_latency: 0.0,
            power,
            target_residency: 0.0,
        }],
        choice: Choice::Deepest,
    })
}

#[test]
fn without_a_crossing_the_loads_and_the_lower_one_are_reported() {
    let mut parameters = paper();
    parameters.power.idle = 60.0;
    let found = |first: f64, second: f64| {
        let (first, second) = (only_state(first), only_state(second));
        crossings(&parameters, &first, &second, Figure::Power).unwrap()
    };
    let everywhere = vec![(0.001, 0.999)];
    // At 99.1% load they are 0.0945 W apart, and at 99.0% 0.105.
    for (first, second, is_lower, alike) in [
        (10.0, 20.5, Some(true), vec![(0.99, 0.999)]),
        (20.5, 10.0, Some(false), vec![(0.99, 0.999)]),
        (20.0, 20.0, None, everywhere.clone()),
        (20.0, 20.01, None, everywhere),
    ] {
        let expected = Crossings {
            figure: Figure::Power,
            crossings: Vec::new(),
            first_is_lower_at_first: is_lower,
            alike,
            looked_at: Some((0.001, 0.999)),
        };
        assert_eq!(found(first, second), expected);
    }
}

#[test]
fn a_transition_is_split_as_in_the_policy_up_to_the_first_time_that_is_too_long() {
    let mut parameters = paper();
    parameters.service = Service::Exponential { mean: 0.010 };
    let at = |template: &PowerNap, other: &Policy, figure| {
        let found = largest_transition(&parameters, template, other, 0.2, figure).unwrap();
        let Largest::Seconds { transition, nap } = found else {
            panic!("{found:?}");
        };
        (transition, nap)
    };
    // Compared with a nap of the same split, the answer is that nap's own transition.
    for (suspend, resume) in [(0.0, 0.002), (3.0, 1.0), (300.0, 900.0), (0.5, 0.5)] {
        let other = nap(suspend, resume, 0.0);
        let template = nap(suspend / 10.0, resume / 10.0, 0.0);
        let (transition, found) = at(&template, &Policy::PowerNap(other), Figure::Response);
        let near = |value: f64, expected: f64| (value - expected).abs() <= 1e-8 * expected;
        assert!(near(transition, suspend + resume), "{transition}");
        assert!(near(found.suspend, suspend) && near(found.resume, resume));
        assert_eq!(found.timeout, 0.0);
    }
    // By default, half and half.
    let other = Policy::PowerNap(nap(0.05, 0.05, 0.03));
    let (transition, half) = at(&nap(0.0, 0.0, 0.03), &other, Figure::Response);
    assert!((transition - 0.1).abs() < 1e-9, "{transition}");
    assert_eq!((half.suspend, half.timeout), (half.resume, 0.03));
    // With a timeout of 50 ms at 20 requests per second napping draws 51.2 W without any
    // transition; a suspend of 10 ms shortens the nap and makes it 51.7 W, and a long one at 14 W
    // makes it less again. 51.5 W are passed before 10 ms.
    let other = only_state((51.5 - 20.0) / 0.8);
    let (transition, found) = at(&nap(1.0, 0.0, 0.05), &other, Figure::Power);
    assert!((0.001..0.01).contains(&transition), "{transition}");
    let power = |nap| {
        parameters
            .outcome(&Policy::PowerNap(nap), 0.2)
            .unwrap()
            .power_mean
    };
    assert!((power(found) - 51.5).abs() < 1e-6);
    assert!(power(nap(1.0, 0.0, 0.05)) < 51.5);
}

#[test]
fn a_budget_without_time_for_transitions_means_never_to_sleep() {
    let parameters = paper();
    let template = nap(0.05, 0.05, 0.0);
    let at = |budget| best_timeout(&parameters, &template, 0.3, budget);
    let awake = parameters.outcome(&Policy::AlwaysOn, 0.3).unwrap();
    let just = at(awake.response_mean).unwrap();
    assert_eq!((just.timeout, just.why), (f64::INFINITY, Why::BudgetBinds));
    assert_eq!(just.outcome, awake);
    // 0.038 / 0.7 s.
    let refused = format!("{:?}", at(0.054).unwrap_err());
    reveille_snapshot::snapshot!("errors", [("a budget of 54 ms at 0.3", refused)]);
    assert!(at(f64::NAN).is_err());
    let at_once = at(10.0).unwrap();
    let expected = parameters
        .outcome(&Policy::PowerNap(template), 0.3)
        .unwrap();
    assert_eq!(at_once.outcome, expected);
    assert_eq!(
        at(at_once.outcome.response_mean).unwrap().why,
        Why::AtOnceFits
    );
}
