//! Closed forms compared with the simulator: two ways to the same figures.
//!
//! At each point of a grid the closed form must lie within the simulator's 99% interval (Student's
//! t over replications). Of many points some lie outside by chance: of n independent ones,
//! Binomial(n, 0.01). So each figure has two tests over all points together, each of which a
//! correct pair fails with a probability below 0.1%:
//!
//! - the number outside is at most the 99.9% quantile of that binomial distribution;
//! - none is outside its interval at 1 − 0.001/n (Bonferroni).
//!
//! Rare events have no interval: a figure is judged at a point where the closed form expects at
//! least 200 of its naps.
//!
//! Seeds are fixed, one for each point, so the outcome is always the same.

use std::ops::ControlFlow;

use reveille_model::closed;
use reveille_model::policy::{CState, CStates, Choice, Dvfs, Law, Outcome, Policy, PowerNap, Rule};
use reveille_model::power::Power;
use reveille_model::service::Service;
use reveille_model::simulate::{Arrivals, Horizon, Replication, Setup, Simulated, simulate};
use statrs::distribution::{Binomial, DiscreteCDF};

const POWER: Power = Power {
    active: 100.0,
    idle: 60.0,
    nap: 5.0,
    transition: 80.0,
};

const MEAN: f64 = 0.010;

/// The five distributions, with a mean of 10 ms each.
fn services() -> [Service; 5] {
    [
        Service::Exponential { mean: MEAN },
        Service::Deterministic { mean: MEAN },
        Service::Lognormal {
            mean: MEAN,
            cv: 1.3,
        },
        Service::Gamma {
            mean: MEAN,
            cv: 0.7,
        },
        Service::Empirical {
            values: vec![0.001, 0.004, 0.006, 0.009, 0.030],
        },
    ]
}

struct Point {
    policy: Policy,
    service: Service,
    load: f64,
}

/// A figure by both ways.
struct Figure {
    name: &'static str,
    closed: fn(&Outcome) -> f64,
    simulated: fn(&Replication) -> f64,
    /// The rate of the events behind it, per second, if they may be rare. While asleep, the next
    /// request is on average 1/rate away.
    events: fn(&Outcome, rate: f64) -> f64,
}

const FIGURES: [Figure; 8] = [
    Figure {
        name: "response",
        closed: |outcome| outcome.response_mean,
        simulated: |run| run.response_mean,
        events: |_, rate| rate,
    },
    Figure {
        name: "wait",
        closed: |outcome| outcome.wait_mean,
        simulated: |run| run.wait_mean,
        events: |_, rate| rate,
    },
    Figure {
        name: "power",
        closed: |outcome| outcome.power_mean,
        simulated: |run| run.power_mean,
        events: |_, rate| rate,
    },
    Figure {
        name: "active",
        closed: |outcome| outcome.shares.active,
        simulated: |run| run.shares.active,
        events: |_, rate| rate,
    },
    Figure {
        name: "idle",
        closed: |outcome| outcome.shares.idle,
        simulated: |run| run.shares.idle,
        events: |_, rate| rate,
    },
    Figure {
        name: "transition",
        closed: |outcome| outcome.shares.transition,
        simulated: |run| run.shares.transition,
        events: |outcome, _| outcome.naps_per_s,
    },
    Figure {
        name: "nap",
        closed: |outcome| outcome.shares.nap,
        simulated: |run| run.shares.nap,
        events: |outcome, rate| outcome.shares.nap * rate,
    },
    Figure {
        name: "naps a second",
        closed: |outcome| outcome.naps_per_s,
        simulated: Replication::naps_per_s,
        events: |outcome, _| outcome.naps_per_s,
    },
];

fn simulated(point: &Point, seed: u64) -> Simulated {
    let arrivals = Arrivals::Poisson {
        rate: point.load / MEAN,
    };
    let (policy, service) = (point.policy.clone(), point.service.clone());
    let mut setup = Setup::new(policy, arrivals, service, POWER);
    // The longer the queue remembers, the longer a replication must be for its mean to be normal.
    setup.horizon = Horizon::Requests((4000.0 / (1.0 - point.load).powf(1.3)) as u64);
    setup.replications = 20;
    setup.seed = seed;
    simulate(&setup, &mut |_| ControlFlow::Continue(())).unwrap()
}

const CHANCE: f64 = 0.001;

/// The tests of the module comment.
fn agree(points: &[Point]) {
    let both: Vec<(Outcome, Simulated)> = (1..)
        .zip(points)
        .map(|(seed, point)| {
            let rate = point.load / MEAN;
            let outcome = closed::outcome(&point.policy, &POWER, &point.service, rate).unwrap();
            (outcome, simulated(point, seed))
        })
        .collect();
    for figure in FIGURES {
        let seen = |(point, (outcome, simulated)): &(&Point, &(Outcome, Simulated))| {
            let seconds = simulated.window * f64::from(simulated.replications);
            let never = (figure.closed)(outcome) == 0.0;
            never || (figure.events)(outcome, point.load / MEAN) * seconds >= 200.0
        };
        let judged: Vec<_> = points.iter().zip(&both).filter(seen).collect();
        assert!(
            judged.len() * 10 >= points.len() * 7,
            "{}: {}",
            figure.name,
            judged.len()
        );
        let n = judged.len() as u64;
        let most = Binomial::new(0.01, n).unwrap().inverse_cdf(1.0 - CHANCE);
        let outside: Vec<String> = judged
            .iter()
            .filter_map(|(point, both)| outside(&figure, point, both, n))
            .collect();
        println!(
            "{}: {} of {n} outside, {most} allowed",
            figure.name,
            outside.len()
        );
        assert!(outside.len() as u64 <= most, "{}", outside.join("\n"));
    }
}

/// The figures outside the 99% interval, as text; panics if one is outside Bonferroni's.
fn outside(figure: &Figure, point: &Point, both: &(Outcome, Simulated), n: u64) -> Option<String> {
    let (outcome, simulated) = both;
    let exact = (figure.closed)(outcome);
    let within = |confidence| {
        let estimate = simulated.estimate(confidence, figure.simulated).unwrap();
        // A figure without randomness differs by rounding only.
        let half = estimate.half_width.unwrap() + 1e-9 * exact.max(1e-3);
        (estimate.value - exact).abs() <= half
    };
    let said = format!(
        "{}: {exact} by closed form, {:?} simulated, at load {}, {:?}, {:?}",
        figure.name,
        simulated.estimate(0.99, figure.simulated),
        point.load,
        point.service,
        point.policy
    );
    assert!(within(1.0 - CHANCE / n as f64), "{said}");
    (!within(0.99)).then_some(said)
}

fn nap(transition: f64, timeout: f64) -> Policy {
    Policy::PowerNap(PowerNap {
        suspend: transition,
        resume: transition,
        timeout,
    })
}

#[test]
fn napping_agrees_over_loads_transition_times_and_service_times() {
    let mut points = Vec::new();
    for load in [0.01, 0.05, 0.10, 0.20, 0.35, 0.50, 0.65, 0.80, 0.90, 0.95] {
        for transition in [0.0, 0.010, 0.050, 0.100, 0.650] {
            for service in services() {
                let policy = nap(transition, 0.0);
                points.push(Point {
                    policy,
                    service,
                    load,
                });
            }
        }
    }
    assert!(points.len() >= 200);
    agree(&points);
}

fn c_states(choice: Choice) -> Policy {
    let state = |name: &str, exit_latency, power, target_residency| CState {
        name: name.into(),
        exit_latency,
        power,
        target_residency,
    };
    Policy::CStates(CStates {
        states: vec![
            state("C1", 0.0005, 40.0, 0.002),
            state("C6", 0.004, 20.0, 0.020),
        ],
        choice,
    })
}

fn dvfs(rule: Rule) -> Policy {
    Policy::Dvfs(Dvfs {
        floor: 0.3,
        processor_share: 0.33,
        idle_share: 0.1,
        law: Law::Cubic,
        rule,
    })
}

#[test]
fn the_other_policies_agree() {
    let policies = [
        Policy::AlwaysOn,
        Policy::PowerNap(PowerNap {
            suspend: 0.030,
            resume: 0.010,
            timeout: 0.015,
        }),
        nap(0.050, 0.200),
        dvfs(Rule::Linear),
        dvfs(Rule::BusyShare(0.8)),
        dvfs(Rule::Slowdown(1.5)),
        c_states(Choice::Deepest),
        c_states(Choice::Mean),
        c_states(Choice::Oracle),
    ];
    let mut points = Vec::new();
    for policy in policies {
        for load in [0.05, 0.30, 0.60, 0.85] {
            for service in services() {
                let policy = policy.clone();
                points.push(Point {
                    policy,
                    service,
                    load,
                });
            }
        }
    }
    agree(&points);
}
