//! What a person needs to know of a result, in a sentence.

use super::result::{Cost, Forbidding};

/// Less than this share of the time is not worth a setting.
const WORTH: f64 = 0.001;

/// One thread's share of all that was lost from which on its time speaks for the workload's.
const ALONE: f64 = 0.95;

pub(super) fn of(cost: &Cost, honours_requests: bool) -> String {
    if cost.wakeups == 0 {
        return format!(
            "No wake-up of the workload was seen in {}: it ran without a pause, or not at all.",
            seconds(cost.elapsed_ns)
        );
    }
    let sleeping = cost.by_state.iter().filter(|state| !state.polling);
    let worst = sleeping.max_by_key(|state| state.waited.leaving_ns);
    let Some(worst) = worst.filter(|state| state.waited.leaving_ns > 0) else {
        return match cost.met_sleeping_cpu {
            0 => "No wake-up met a sleeping CPU: nothing was lost.",
            _ => "No wait for a sleeping CPU is of known length: there is no figure of what was lost.",
        }
        .to_owned();
    };
    let lost = lost(cost, &worst.state, worst.waited.leaving_ns);
    if cost.lost_share.is_some_and(|share| share < WORTH) {
        return format!("{lost}: below a thousandth of the time, and not worth a setting.");
    }
    let forbidding = cost
        .forbidding
        .iter()
        .find(|forbidding| forbidding.forbidden.first() == Some(&worst.state));
    match forbidding {
        Some(forbidding) if forbidding.saved_low_ns > 0 => {
            format!("{lost}; {}.", regain(forbidding, honours_requests))
        }
        Some(_) => format!("{lost}; by what was seen, forbidding it would regain nothing."),
        None => format!("{lost}; there are too few to say what forbidding it would regain."),
    }
}

fn lost(cost: &Cost, state: &str, leaving_ns: u64) -> String {
    let elapsed = seconds(cost.elapsed_ns);
    let most = cost.most_delayed_thread.as_ref();
    let alone = most.filter(|most| most.leaving_ns as f64 >= ALONE * cost.waited.leaving_ns as f64);
    match (alone, most) {
        (None, Some(most)) => format!(
            "Waits for CPUs in {state} add up to {} over all threads in {elapsed}, and the thread \
             that lost most, {} ({}), lost {}",
            seconds(leaving_ns),
            most.name,
            most.pid,
            seconds(most.leaving_ns)
        ),
        _ => format!(
            "{} of {elapsed} were waits for CPUs in {state}",
            seconds(leaving_ns)
        ),
    }
}

fn regain(forbidding: &Forbidding, honours_requests: bool) -> String {
    // Where no driver keeps to requests, only the request for no sleep at all can be met.
    let bound = match (honours_requests, forbidding.latency_bound_us) {
        (false, _) | (true, 0) => "0".to_owned(),
        (true, us) => format!("{us}us"),
    };
    format!(
        "`reveille hold --latency {bound}` would regain about {}",
        seconds(forbidding.saved_ns)
    )
}

/// A time in ns as three digits and s, ms or µs.
pub fn seconds(ns: u64) -> String {
    let (value, unit) = match ns {
        0..1_000_000 => (ns as f64 / 1e3, "µs"),
        1_000_000..1_000_000_000 => (ns as f64 / 1e6, "ms"),
        _ => (ns as f64 / 1e9, "s"),
    };
    match value {
        x if x >= 99.95 => format!("{x:.0} {unit}"),
        x if x >= 9.995 => format!("{x:.1} {unit}"),
        x => format!("{x:.2} {unit}"),
    }
}
