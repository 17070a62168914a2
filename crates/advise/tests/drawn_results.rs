//! Results drawn from distributions with known percentiles: advice may not allow states above the
//! budget more often than its confidence permits, and has to allow states well within it.

use crate::made_up::{loaded, question, state, target};
use fastrand::Rng;
use reveille_advise::{Advice, Question, Standing};
use statrs::function::erf::erfc;

const RESULTS: u64 = 1000;
const DATAPOINTS: usize = 1000;

/// The question of these tests: one wake in a hundred may exceed 50 µs.
const BEYOND: f64 = 0.01;
const BUDGET_NS: f64 = 50_000.0;

/// The 5% of wrong advice in 1000 results that the confidence permits, plus four standard
/// deviations.
const WRONG_MAX: u64 = 50 + 4 * 7;

/// A distribution of latencies, ns.
enum Latencies {
    Exponential {
        mean: f64,
    },
    /// Mostly short, with a share of slow wakes; medians in ns and the spread of the logarithm.
    Mixture {
        short: f64,
        slow: f64,
        slow_share: f64,
        spread: f64,
    },
    /// Exponential, read from a clock with steps of 10 µs that rounds up: the budget is a multiple
    /// of the step.
    Stepped {
        mean: f64,
    },
}

impl Latencies {
    fn draw(&self, random: &mut Rng) -> i64 {
        let mut exponential = |mean: f64| -mean * (1.0 - random.f64()).ln();
        let ns = match *self {
            Self::Exponential { mean } => exponential(mean),
            Self::Stepped { mean } => (exponential(mean) / 10_000.0).ceil() * 10_000.0,
            Self::Mixture {
                short,
                slow,
                slow_share,
                spread,
            } => {
                let median = if random.f64() < slow_share {
                    slow
                } else {
                    short
                };
                let radius = (-2.0 * (1.0 - random.f64()).ln()).sqrt();
                let normal = radius * (std::f64::consts::TAU * random.f64()).cos();
                median * (spread * normal).exp()
            }
        };
        ns as i64
    }

    /// The share of wakes beyond the budget.
    fn truth(&self) -> f64 {
        match *self {
            Self::Exponential { mean } | Self::Stepped { mean } => (-BUDGET_NS / mean).exp(),
            Self::Mixture {
                short,
                slow,
                slow_share,
                spread,
            } => {
                let beyond = |median: f64| {
                    let deviations = (BUDGET_NS / median).ln() / spread;
                    0.5 * erfc(deviations / std::f64::consts::SQRT_2)
                };
                (1.0 - slow_share) * beyond(short) + slow_share * beyond(slow)
            }
        }
    }

    /// The exponential distribution with that share above the budget.
    fn exponential(truth: f64) -> Self {
        Self::Exponential {
            mean: -BUDGET_NS / truth.ln(),
        }
    }

    fn stepped(truth: f64) -> Self {
        Self::Stepped {
            mean: -BUDGET_NS / truth.ln(),
        }
    }
}

/// In how many of a thousand results each state was allowed, and in how many an unsafe one was.
fn allowed(machine: &[(&str, &str, Latencies)], question: Question) -> (Vec<u64>, u64) {
    let mut names: Vec<&str> = machine.iter().map(|(name, _, _)| *name).collect();
    names.dedup();
    let rows = (1..)
        .zip(&names)
        .map(|(index, name)| state(index, name, 2, 4));
    let target = target("intel_idle", rows.collect());
    let unsafe_states: Vec<&str> = machine
        .iter()
        .filter(|(_, _, latencies)| latencies.truth() > BEYOND)
        .map(|(name, _, _)| *name)
        .collect();
    let (mut counts, mut wrong) = (vec![0; names.len()], 0);
    let mut random = Rng::with_seed(7);
    for _ in 0..RESULTS {
        let samples: Vec<(&str, &str, Vec<i64>)> = machine
            .iter()
            .map(|(name, source, latencies)| {
                let sample = (0..DATAPOINTS).map(|_| latencies.draw(&mut random));
                (*name, *source, sample.collect())
            })
            .collect();
        let advice = Advice::of(&loaded(&samples), &target, question).unwrap();
        let allowed: Vec<&str> = advice.allowed().map(|one| one.state.as_str()).collect();
        for (count, name) in counts.iter_mut().zip(&names) {
            *count += u64::from(allowed.contains(name));
        }
        wrong += u64::from(allowed.iter().any(|name| unsafe_states.contains(name)));
    }
    (counts, wrong)
}

/// Slightly more than the allowed share: errors are likeliest there.
const JUST_UNSAFE: f64 = 1.0001 * BEYOND;

#[test]
fn a_state_just_above_the_budget_is_allowed_no_more_often_than_the_confidence_permits() {
    let mixture = Latencies::Mixture {
        short: 8_000.0,
        slow: 60_000.0,
        slow_share: 0.0139,
        spread: 0.3,
    };
    let truth = mixture.truth();
    assert!(truth > BEYOND && truth < 1.05 * BEYOND, "{truth}");
    for unsafe_one in [
        Latencies::exponential(JUST_UNSAFE),
        Latencies::stepped(JUST_UNSAFE),
        mixture,
    ] {
        let (_, wrong) = allowed(&[("C6", "timer", unsafe_one)], question(50, "99"));
        assert!(wrong <= WRONG_MAX, "{wrong} of {RESULTS}");
        // The test is exact, not just conservative: it uses its whole error rate except for the
        // steps of a count.
        assert!(wrong >= 10, "{wrong} of {RESULTS}");
    }
}

#[test]
fn confidence_holds_over_many_unsafe_states_and_sources() {
    let just_unsafe = || Latencies::exponential(JUST_UNSAFE);
    let machine = [
        ("C1", "timer", Latencies::exponential(BEYOND / 10.0)),
        ("C1E", "timer", just_unsafe()),
        ("C3", "timer", just_unsafe()),
        ("C6", "timer", just_unsafe()),
        ("C8", "timer", just_unsafe()),
    ];
    let (counts, wrong) = allowed(&machine, question(50, "99"));
    assert!(wrong <= WRONG_MAX, "{wrong} of {RESULTS}");
    assert!(counts[0] >= 980, "{counts:?}");

    // Unsafe by one source only: the other one must not make it allowed.
    let machine = [
        ("C1", "remote", just_unsafe()),
        ("C1", "timer", Latencies::exponential(BEYOND / 10.0)),
    ];
    let (_, wrong) = allowed(&machine, question(50, "99"));
    assert!(wrong <= WRONG_MAX, "{wrong} of {RESULTS}");
}

#[test]
fn states_well_within_the_budget_are_allowed() {
    let machine = [
        ("C1", "timer", Latencies::exponential(BEYOND / 10.0)),
        ("C1E", "timer", Latencies::stepped(BEYOND / 10.0)),
        (
            "C6",
            "timer",
            Latencies::Mixture {
                short: 20_000.0,
                slow: 60_000.0,
                slow_share: 0.001,
                spread: 0.2,
            },
        ),
        ("C8", "timer", Latencies::exponential(0.5)),
    ];
    let (counts, wrong) = allowed(&machine, question(50, "99"));
    assert!(counts[..3].iter().all(|&count| count >= 960), "{counts:?}");
    assert_eq!((counts[3], wrong), (0, 0));
}

#[test]
fn a_state_far_above_the_budget_exceeds_it() {
    let mut random = Rng::with_seed(3);
    let slow = Latencies::exponential(0.5);
    let sample = (0..DATAPOINTS).map(|_| slow.draw(&mut random)).collect();
    let loaded = loaded(&[("C6", "timer", sample)]);
    let target = target("intel_idle", vec![state(1, "C6", 133, 600)]);
    let advice = Advice::of(&loaded, &target, question(50, "99")).unwrap();
    assert_eq!(advice.states[1].standing, Standing::Exceeds);
}
