//! Idle states with an exit latency each.
//!
//! Entering takes no time here (the driver's tables give none; what it costs is in the target
//! residency). The setup time is the exit latency of the state that the idle period X was spent in.
//! With one state for every period (the deepest, or the one that fits the mean 1/λ) it is a constant
//! L: E\[I\] = L, E\[I²\] = L².
//!
//! The oracle enters the deepest state i whose target residency r_i is at most X. With X exponential,
//! it enters i with probability p_i = e^(−λr_i) − e^(−λr_(i+1)) (the last r is ∞), whence
//! E\[I\] = Σ p_i L_i and E\[I²\] = Σ p_i L_i². A cycle spends in state i
//! ∫ x λe^(−λx) dx from r_i to r_(i+1) = (r_i + 1/λ) e^(−λr_i) − (r_(i+1) + 1/λ) e^(−λr_(i+1)), and
//! below r_0 it stays awake.

use super::setup::{self, Setup};
use crate::Result;
use crate::policy::{CStates, Choice, Outcome, Shares};
use crate::power::Power;
use crate::service::Service;

/// Means of one cycle's idle period.
struct Period {
    setup: Setup,
    /// Seconds awake.
    awake: f64,
    /// Seconds in any state.
    asleep: f64,
    /// Joules in states.
    energy: f64,
    /// Probability that a state is entered.
    entered: f64,
}

/// As [`super::outcome`].
pub fn outcome(states: &CStates, power: &Power, service: &Service, rate: f64) -> Result<Outcome> {
    let busy = service.stable_load(rate)?;
    let period = match states.choice {
        Choice::Deepest | Choice::Mean => one_state(states, rate),
        Choice::Oracle => oracle(states, rate),
    };
    let wait_mean = setup::wait(rate, service, period.setup);
    let outside = period.setup.outside_service(rate);
    let share = |time: f64| (1.0 - busy) * (time / outside);
    let shares = Shares {
        active: busy,
        idle: share(period.awake),
        transition: share(period.setup.mean),
        nap: share(period.asleep),
    };
    let awake = shares.active * power.active
        + shares.idle * power.idle
        + shares.transition * power.transition;
    Ok(Outcome {
        response_mean: wait_mean + service.mean(),
        wait_mean,
        power_mean: awake + share(period.energy),
        shares,
        naps_per_s: share(period.entered),
        frequency: 1.0,
    })
}

/// Every idle period is spent in the same state, or awake.
fn one_state(states: &CStates, rate: f64) -> Period {
    let idle = 1.0 / rate;
    match states.state(idle, idle).map(|place| &states.states[place]) {
        Some(state) => Period {
            setup: Setup {
                mean: state.exit_latency,
                second_moment: state.exit_latency * state.exit_latency,
            },
            awake: 0.0,
            asleep: idle,
            energy: idle * state.power,
            entered: 1.0,
        },
        None => awake(idle),
    }
}

fn awake(idle: f64) -> Period {
    Period {
        setup: Setup::NONE,
        awake: idle,
        asleep: 0.0,
        energy: 0.0,
        entered: 0.0,
    }
}

/// Each idle period is spent in the deepest state that pays for it.
fn oracle(states: &CStates, rate: f64) -> Period {
    let gap = 1.0 / rate;
    let longer = |than: f64| (-rate * than).exp();
    // E[X; X ≥ r]: at r = ∞ it is 0, where the formula has ∞ · 0.
    let time_from = |residency: f64| match residency.is_finite() {
        true => (residency + gap) * longer(residency),
        false => 0.0,
    };
    let first = states.states.first();
    let first = first.map_or(f64::INFINITY, |state| state.target_residency);
    let mut period = awake(gap - time_from(first));
    let next = states.states.iter().skip(1);
    let ends = next
        .map(|state| state.target_residency)
        .chain([f64::INFINITY]);
    for (state, end) in states.states.iter().zip(ends) {
        let probability = longer(state.target_residency) - longer(end);
        let time = time_from(state.target_residency) - time_from(end);
        period.setup.mean += probability * state.exit_latency;
        period.setup.second_moment += probability * state.exit_latency * state.exit_latency;
        period.asleep += time;
        period.energy += time * state.power;
        period.entered += probability;
    }
    period
}
