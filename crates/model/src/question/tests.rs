use super::*;
use crate::policy::{Dvfs, Rule};
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
fn at_a_crossing_both_figures_are_equal_and_before_and_after_they_are_not() {
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
fn a_crossing_that_can_be_worked_out_is_found() {
    // Always half speed, all power the processor's: with f³ = 1/8 and no idle share, M/M/1 at 10 ms:
    // DVFS draws 2ρ·a/8 + (1 − 2ρ) i, napping without transition ρ·a + (1 − ρ) n. With a = 80, i = 20,
    // n = 0: 20ρ + 20 − 40ρ = 80ρ, so ρ = 0.2.
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

#[test]
fn a_policy_does_not_cross_itself() {
    let parameters = paper();
    let dvfs = policy(&parameters, "DVFS");
    let found = crossings(&parameters, dvfs, dvfs, Figure::Power).unwrap();
    assert!(found.crossings.is_empty());
    assert_eq!(found.first_is_lower_at_first, None);
}

#[test]
fn the_largest_transition_time_is_where_both_are_equal() {
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
fn napping_that_never_pays_or_always_does_is_said() {
    let parameters = paper();
    let fast = Policy::AlwaysOn;
    let at =
        |figure| largest_transition(&parameters, &nap(0.1, 0.1, 0.0), &fast, 0.3, figure).unwrap();
    assert_eq!(at(Figure::Response), Largest::Never);
    // A transition draws 14 W here, less than the 60 W of idleness: napping always saves.
    assert_eq!(at(Figure::Power), Largest::Any);
    // Where it draws just as much, there is less and less to save, and never nothing.
    let alike = Parameters::as_told();
    let nap = nap(0.1, 0.1, 0.0);
    let found = largest_transition(&alike, &nap, &fast, 0.3, Figure::Power);
    assert_eq!(found.unwrap(), Largest::Any);
}

#[test]
fn the_best_timeout_meets_the_budget_and_none_that_fits_saves_more() {
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
    let tight = best_timeout(&parameters, &template, load, 0.050).unwrap_err();
    assert!(tight.to_string().contains("cannot be met"), "{tight}");
}
