//! What forbidding idle states would save, estimated from the observed waits.
//!
//! With the states below a depth forbidden, a CPU asleep in one of them would have been in the
//! deepest remaining state. Each of the N waits in a forbidden state is replaced by one in that
//! state, and the difference of the sums is saved:
//!
//! ```text
//! saved = sum over forbidden states of leaving  -  N × mean(left)
//! ```
//!
//! The 95% interval is normal, for a run whose waits are drawn again from the same distributions:
//! its variance is the sum of n × s² over the forbidden states, plus N × s² + N² × s²/n for the
//! remaining state (its N waits, and its mean from n waits only). Other effects of a setting, such
//! as on the frequency or the governor's choice, are not included.

use super::Depth;
use super::result::{Forbidding, Replacement, StateCost};

/// A mean is trusted from so many waits on.
pub(super) const ENOUGH: u64 = 30;

/// Normal quantile of a two-sided 95% interval.
const Z: f64 = 1.959_964;

/// Every depth that forbids a state with a loss, down to no sleep.
pub(super) fn all(depth: &Depth, seen: &[StateCost]) -> Vec<Forbidding> {
    let mut all = Vec::new();
    let first_sleep = depth.states.iter().position(|state| !state.polling);
    let Some(first_sleep) = first_sleep else {
        return all;
    };
    for order in (first_sleep..depth.states.len()).rev() {
        let lost = cost_of(&depth.states[order].name, seen);
        // Forbidding one more state without a loss changes nothing.
        if lost.is_some_and(|cost| cost.waited.leaving_ns > 0) && enough(depth, order, seen) {
            all.push(from(depth, order, seen));
        }
    }
    all
}

/// Whether there are enough waits for an interval.
fn enough(depth: &Depth, order: usize, seen: &[StateCost]) -> bool {
    let forbidden = depth.states[order..].iter();
    let costs = forbidden.filter_map(|state| cost_of(&state.name, seen));
    let known: u64 = costs.map(|cost| cost.waits - cost.unknown_waits).sum();
    known >= ENOUGH
}

fn cost_of<'a>(name: &str, seen: &'a [StateCost]) -> Option<&'a StateCost> {
    seen.iter().find(|cost| cost.state == name)
}

/// Forbids the state at `order` and all deeper ones.
fn from(depth: &Depth, order: usize, seen: &[StateCost]) -> Forbidding {
    let forbidden: Vec<String> = depth.states[order..]
        .iter()
        .map(|state| state.name.clone())
        .collect();
    let left = depth.states[..order]
        .iter()
        .rev()
        .find(|state| !state.polling);
    let (mut lost, mut waits, mut variance) = (0.0, 0.0, 0.0);
    for cost in forbidden.iter().filter_map(|name| cost_of(name, seen)) {
        let known = (cost.waits - cost.unknown_waits) as f64;
        lost += cost.waited.leaving_ns as f64;
        waits += known;
        variance += known * cost.distribution.variance_ns2().unwrap_or(0.0);
    }
    let left_seen = left.and_then(|state| cost_of(&state.name, seen));
    let left_seen = left_seen.filter(|cost| cost.waits - cost.unknown_waits >= ENOUGH);
    let driver = left.and_then(|state| state.exit_latency_us);
    let (mean, replaced_by) = match (left_seen, driver) {
        (Some(cost), _) => {
            let known = (cost.waits - cost.unknown_waits) as f64;
            let of_one = cost.distribution.variance_ns2().unwrap_or(0.0);
            variance += waits * of_one + waits * waits * of_one / known;
            (cost.mean_leaving_ns.unwrap_or(0.0), Replacement::Seen)
        }
        (None, Some(us)) => (us as f64 * 1e3, Replacement::Driver),
        (None, None) => (0.0, Replacement::Nothing),
    };
    let saved = lost - waits * mean;
    let within = |ns: f64| ns.clamp(0.0, lost) as u64;
    Forbidding {
        deepest_allowed: left.map(|state| state.name.clone()),
        latency_bound_us: bound(left.and_then(|state| state.exit_latency_us), depth, order),
        forbidden,
        saved_ns: within(saved),
        saved_low_ns: within(saved - Z * variance.sqrt()),
        saved_high_ns: within(saved + Z * variance.sqrt()),
        replaced_by,
    }
}

/// The roundest bound that allows the deepest remaining state, and not the state at `order`.
fn bound(allowed_us: Option<u64>, depth: &Depth, order: usize) -> u64 {
    let least = match allowed_us {
        Some(us) => us,
        None => return 0,
    };
    let below = depth.states[order].exit_latency_us.unwrap_or(u64::MAX);
    let decades = (0..9).rev().map(|power| 10u64.pow(power));
    let round = decades.flat_map(|ten| [5 * ten, 2 * ten, ten]);
    // cpuidle allows a state whose exit latency is not above the bound.
    let mut fitting = round.filter(|us| (least..below).contains(us));
    fitting.next().unwrap_or(least)
}

#[cfg(test)]
mod tests {
    use super::super::depth::State;
    use super::super::{BUCKETS, Distribution, Waited};
    use super::*;

    fn state(name: &str, us: u64) -> State {
        State {
            name: name.to_owned(),
            polling: name == "POLL",
            exit_latency_us: Some(us),
            at: Vec::new(),
        }
    }

    fn server() -> Depth {
        let states = [("POLL", 0), ("C1", 1), ("C1E", 10), ("C6", 133)];
        Depth {
            states: states.map(|(name, us)| state(name, us)).into(),
        }
    }

    /// `count` waits of 64 µs and as many of 96 µs: mean 80 µs, standard deviation 16 µs; bucket
    /// middles add some 3 µs to both.
    fn cost(name: &str, count: u64, scale: u64) -> StateCost {
        let mut counts = vec![0; BUCKETS];
        // 1024 ns is bucket 64, 1536 ns is 68; 64 times as much is six powers of two further.
        let octave = scale.ilog2() as usize;
        counts[64 + 8 * octave] = count;
        counts[68 + 8 * octave] = count;
        let leaving_ns = count * (1024 + 1536) * scale;
        StateCost {
            state: name.to_owned(),
            polling: false,
            driver_exit_latency_us: None,
            waits: 2 * count,
            unknown_waits: 0,
            waited: Waited {
                leaving_ns,
                ..Waited::default()
            },
            mean_stay_ns: None,
            mean_leaving_ns: Some(leaving_ns as f64 / (2 * count) as f64),
            median_leaving_ns: None,
            p90_leaving_ns: None,
            p99_leaving_ns: None,
            distribution: Distribution::of(&counts),
            estimate: None,
        }
    }

    #[test]
    fn waits_in_a_forbidden_state_are_replaced_by_observed_ones_above_it() {
        // 1000 waits in C6 of 81.92 µs at the mean, 1000 in C1E of 1.28 µs.
        let seen = [cost("C1E", 500, 1), cost("C6", 500, 64)];
        let all = all(&server(), &seen);
        let c6 = &all[0];
        assert_eq!(
            (c6.deepest_allowed.as_deref(), c6.replaced_by),
            (Some("C1E"), Replacement::Seen)
        );
        assert_eq!(c6.forbidden, ["C6"]);
        assert_eq!(c6.saved_ns, 1000 * (81_920 - 1_280));
        // sqrt(1000) × 16.4 µs × 1.96 is 1.02 ms.
        let width = (c6.saved_high_ns - c6.saved_low_ns) as f64 / 2e6;
        assert!((0.95..1.1).contains(&width), "{width} ms");
        assert_eq!(c6.latency_bound_us, 100);
        assert_eq!(all.len(), 2, "{all:?}");
        assert_eq!(all[1].forbidden, ["C1E", "C6"]);
        assert_eq!(all[1].replaced_by, Replacement::Driver);
    }

    #[test]
    fn without_a_remaining_state_waits_are_saved_entirely() {
        let depth = Depth {
            states: vec![state("POLL", 0), state("haltpoll idle", 1)],
        };
        let all = all(&depth, &[cost("haltpoll idle", 500, 8)]);
        assert_eq!(all.len(), 1);
        assert_eq!(all[0].deepest_allowed, None);
        assert_eq!(all[0].latency_bound_us, 0);
        assert_eq!(all[0].saved_ns, 500 * 2560 * 8);
    }

    #[test]
    fn without_a_loss_there_is_nothing_to_forbid() {
        assert_eq!(all(&server(), &[]), []);
        assert_eq!(all(&Depth::default(), &[]), []);
    }

    #[test]
    fn a_bound_is_round_and_between_the_two_states() {
        let depth = server();
        assert_eq!(bound(Some(10), &depth, 3), 100);
        assert_eq!(bound(Some(1), &depth, 2), 5);
        assert_eq!(bound(Some(0), &depth, 1), 0);
        assert_eq!(bound(None, &depth, 1), 0);
    }
}
