//! Where something changes: crossings, the largest transition time, the best timeout.

use std::cmp::Ordering;

use serde::Serialize;

use crate::closed::nap;
use crate::closed::setup::{self, Setup};
use crate::least::draws_less;
use crate::parameters::Parameters;
use crate::policy::{Outcome, Policy, PowerNap, number_or_never};
use crate::{Error, Result};
use reveille_show::quantity::time;

/// The figure in which policies are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Figure {
    /// The mean power.
    Power,
    /// The mean response time.
    Response,
}

impl Figure {
    /// W or s.
    pub fn of(self, outcome: &Outcome) -> f64 {
        match self {
            Figure::Power => outcome.power_mean,
            Figure::Response => outcome.response_mean,
        }
    }
}

/// A load at which two policies are equal.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Crossing {
    /// The load: arrival rate by mean service time at full speed.
    pub utilisation: f64,
    /// The first policy has the lower figure below this load, and the second above it; else the other
    /// way round.
    pub first_is_lower_below: bool,
}

/// Where two policies cross, and who is lower where they do not.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Crossings {
    /// The figure that is equal there.
    pub figure: Figure,
    /// Ascending; also where the difference is too small to be seen.
    pub crossings: Vec<Crossing>,
    /// Is the first lower at the lowest load at which a difference is seen? `None`: none is.
    pub first_is_lower_at_first: Option<bool>,
    /// From which load to which three digits do not tell the two apart; ascending. Around a crossing they never do: those
    /// below a tenth are left out there.
    pub alike: Vec<(f64, f64)>,
    /// The loads that were looked at: from 0.1% to 99.9%, as far as both are stable.
    pub looked_at: Option<(f64, f64)>,
}

/// Loads between which a change of sign is looked for. Two crossings within one step are not seen.
const STEPS: u32 = 1000;

/// The highest load that is looked at.
pub(crate) const LOAD_MAX: f64 = (STEPS - 1) as f64 / STEPS as f64;

/// The loads at which the two policies have the same figure, to within 1e-9.
///
/// # Errors
/// As [`crate::closed::outcome`], unless a load is unstable: such loads are left out.
pub fn crossings(
    parameters: &Parameters,
    first: &Policy,
    second: &Policy,
    figure: Figure,
) -> Result<Crossings> {
    let difference = |load: f64| {
        let figures = figures(parameters, first, second, figure, load)?;
        Ok(figures.map(|(first, second)| first - second))
    };
    let mut points = Vec::new();
    for step in 1..STEPS {
        let load = f64::from(step) / f64::from(STEPS);
        if let Some((first, second)) = figures(parameters, first, second, figure, load)? {
            points.push((load, first - second, seen(first, second)));
        }
    }
    // A zero that is met exactly takes the sign of what comes before: one crossing, not two.
    let signs = points
        .iter()
        .filter(|(_, difference, _)| *difference != 0.0);
    let signs = signs.map(|(load, difference, _)| (*load, difference.is_sign_negative()));
    let signs: Vec<(f64, bool)> = signs.collect();
    let mut crossings = Vec::new();
    for pair in signs.windows(2) {
        let [(low, below), (high, above)] = [pair[0], pair[1]];
        if below != above {
            crossings.push(Crossing {
                utilisation: root(low, high, below, difference)?,
                first_is_lower_below: below,
            });
        }
    }
    let mut orders = points.iter().map(|(.., order)| *order);
    Ok(Crossings {
        figure,
        crossings,
        first_is_lower_at_first: orders.find(|order| order.is_ne()).map(Ordering::is_lt),
        alike: alike(&points),
        looked_at: points.first().zip(points.last()).map(|(a, b)| (a.0, b.0)),
    })
}

/// Around a crossing, where three digits never tell two policies apart, a wider stretch is not expected.
const AROUND_CROSSING: f64 = 0.1;

/// From which load to which three digits do not tell the two apart.
fn alike(points: &[(f64, f64, Ordering)]) -> Vec<(f64, f64)> {
    let stretches = points.chunk_by(|one, next| one.2 == next.2);
    let stretches = stretches.map(|loads| (loads[0].2, loads[0].0, loads[loads.len() - 1].0));
    let stretches: Vec<(Ordering, f64, f64)> = stretches.collect();
    let alike = stretches.iter().enumerate();
    let alike = alike.filter(|(_, (order, ..))| order.is_eq());
    let alike = alike.filter_map(|(at, (_, from, to))| {
        let before = at.checked_sub(1).map(|before| stretches[before]);
        let after = stretches.get(at + 1);
        let crosses = before
            .zip(after)
            .is_some_and(|(one, other)| one.0 != other.0);
        let (from, to) = (
            before.map_or(*from, |one| one.2),
            after.map_or(*to, |one| one.1),
        );
        (!crosses || to - from > AROUND_CROSSING).then_some((from, to))
    });
    alike.collect()
}

/// How three digits have the one beside the other: less or more by one of the third digit at least, else equal.
fn seen(one: f64, other: f64) -> Ordering {
    let third_digit = 10_f64.powf(one.max(other).log10().floor() - 2.0);
    match (one - other).abs() >= third_digit {
        true => one.total_cmp(&other),
        false => Ordering::Equal,
    }
}

/// Both policies' figures; `None` where one of them is unstable.
fn figures(
    parameters: &Parameters,
    first: &Policy,
    second: &Policy,
    figure: Figure,
    load: f64,
) -> Result<Option<(f64, f64)>> {
    let of = |policy| match parameters.outcome(policy, load) {
        Ok(outcome) => Ok(Some(figure.of(&outcome))),
        Err(Error::Unstable { .. }) => Ok(None),
        Err(other) => Err(other),
    };
    Ok(of(first)?.zip(of(second)?))
}

/// Where the value, negative at `low` or not, becomes 0 or changes its sign. Halves the interval until
/// it is below 1e-9 of its place. Where a value is missing the search ends there.
fn root(
    mut low: f64,
    mut high: f64,
    is_negative: bool,
    value: impl Fn(f64) -> Result<Option<f64>>,
) -> Result<f64> {
    while high - low > 1e-9 * high {
        let middle = low + (high - low) / 2.0;
        match value(middle)? {
            Some(at) if at.is_sign_negative() == is_negative && at != 0.0 => low = middle,
            Some(_) => high = middle,
            None => break,
        }
    }
    Ok(low + (high - low) / 2.0)
}

/// The largest transition time at which napping still has the lower figure.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Largest {
    /// Up to this time.
    Seconds {
        /// Suspend and resume together, s.
        #[serde(rename = "transition_s")]
        transition: f64,
        /// The policy with it.
        nap: PowerNap,
    },
    /// It has not, even without any transition.
    Never,
    /// It has up to an hour, which was the longest looked at, by the digits that are shown.
    Any,
}

/// How long suspend and resume may take together, if napping is to have a lower figure than `other`
/// at this load. They are split as they are in `nap` (half and half where both are 0); the timeout
/// stays.
///
/// A longer transition never lowers the response time. Power it may raise and then lower, where a
/// transition draws less than the wait for the timeout. The first time at which napping is no longer
/// lower is the answer; where there is none, the first at which [`draws_less`] no longer sees it.
///
/// # Errors
/// As [`crate::closed::outcome`], also where the load is unstable.
pub fn largest_transition(
    parameters: &Parameters,
    nap: &PowerNap,
    other: &Policy,
    utilisation: f64,
    figure: Figure,
) -> Result<Largest> {
    let bound = figure.of(&parameters.outcome(other, utilisation)?);
    let whole = nap.suspend + nap.resume;
    let suspend_part = if whole > 0.0 {
        nap.suspend / whole
    } else {
        0.5
    };
    let with = |transition: f64| PowerNap {
        suspend: transition * suspend_part,
        resume: transition * (1.0 - suspend_part),
        ..*nap
    };
    let excess = |transition: f64| -> Result<Option<f64>> {
        let outcome = parameters.outcome(&Policy::PowerNap(with(transition)), utilisation)?;
        Ok(Some(figure.of(&outcome) - bound))
    };
    if excess(0.0)?.is_some_and(|excess| excess >= 0.0) {
        return Ok(Largest::Never);
    }
    // Where a transition draws what the other policy does, the difference goes to zero and never
    // through it, but for rounding: then the answer is up to where it is seen.
    let seen = |transition: f64| -> Result<Option<f64>> {
        let excess = excess(transition)?;
        Ok(
            excess.map(|excess| match draws_less(bound + excess, bound) {
                true => -1.0,
                false => 1.0,
            }),
        )
    };
    let transition = match first_above(1e-12 * bound, excess)? {
        None => first_above(0.0, seen)?,
        crossed => crossed,
    };
    Ok(match transition {
        None => Largest::Any,
        Some(0.0) => Largest::Never,
        Some(transition) => Largest::Seconds {
            transition,
            nap: with(transition),
        },
    })
}

/// The first time at which the value is above `least`, or rather changes its sign before that; 0: it is above at once.
fn first_above(least: f64, value: impl Fn(f64) -> Result<Option<f64>>) -> Result<Option<f64>> {
    let is_above = |time: f64| Ok(value(time)?.is_some_and(|value| value > least));
    let mut low = 0.0;
    if is_above(low)? {
        return Ok(Some(low));
    }
    for high in times() {
        if is_above(high)? {
            return Ok(Some(root(low, high, true, value)?));
        }
        low = high;
    }
    Ok(None)
}

/// From a microsecond to an hour, each 5% longer than the one before.
fn times() -> impl Iterator<Item = f64> {
    const SHORTEST: f64 = 1e-6;
    const LONGEST: f64 = 3600.0;
    let all = std::iter::successors(Some(SHORTEST), |time| Some(time * 1.05));
    all.take_while(|time| *time < LONGEST).chain([LONGEST])
}

/// The timeout that saves most within a budget.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct BestTimeout {
    /// Seconds of idleness before the suspend; infinite: never to sleep.
    #[serde(rename = "timeout_s", serialize_with = "number_or_never")]
    pub timeout: f64,
    /// Its outcome.
    pub outcome: Outcome,
    /// Why it is no shorter or longer.
    pub why: Why,
}

/// What decides on a timeout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// Sleeping at once is within the budget and draws least.
    AtOnceFits,
    /// The budget is met exactly; a shorter timeout would save more.
    BudgetBinds,
    /// At this load sleeping saves nothing that is seen.
    SleepingSavesNothing,
}

/// The timeout with the least mean power whose mean response time is within `budget` seconds.
///
/// With Poisson arrivals it has a closed form. Everything depends on the timeout through
/// P = e^(−λτ) alone, and both the mean response time and the mean power are ratios of linear
/// functions of P: monotone. The delay by setup, P·D / (2(1 + P·λe)) with D = 2e + λe₂, rises with P.
/// So the best P is 1 (at once), 0 (never), or the P at which the budget is met: with b twice what
/// the budget leaves for setup, P = b / (D − bλe). In other words: a timeout in itself saves no
/// power; it buys response time.
///
/// # Errors
/// [`Error::Usage`] where the budget is below the response time without any sleep, and as
/// [`crate::closed::outcome`].
pub fn best_timeout(
    parameters: &Parameters,
    nap: &PowerNap,
    utilisation: f64,
    budget: f64,
) -> Result<BestTimeout> {
    let at = |timeout: f64| -> Result<Outcome> {
        parameters.outcome(&Policy::PowerNap(PowerNap { timeout, ..*nap }), utilisation)
    };
    let (at_once, never) = (at(0.0)?, at(f64::INFINITY)?);
    ensure!(
        never.response_mean <= budget,
        "a budget of {} cannot be met: without any sleep the mean response time is {} at this load",
        time(budget),
        time(never.response_mean)
    );
    let (timeout, outcome, why) = if !draws_less(at_once.power_mean, never.power_mean) {
        (f64::INFINITY, never, Why::SleepingSavesNothing)
    } else if at_once.response_mean <= budget {
        (0.0, at_once, Why::AtOnceFits)
    } else {
        let rate = utilisation / parameters.service.mean();
        let timeout = binding(nap::setup(nap, rate), rate, budget - never.response_mean);
        (timeout, at(timeout)?, Why::BudgetBinds)
    };
    Ok(BestTimeout {
        timeout,
        outcome,
        why,
    })
}

/// The timeout at which setups add just `allowed` seconds to the mean response time.
fn binding(setup: Setup, rate: f64, allowed: f64) -> f64 {
    let twice = 2.0 * allowed;
    let sum = 2.0 * setup.mean + rate * setup.second_moment;
    let probability = twice / (sum - twice * rate * setup.mean);
    debug_assert!(allowed <= setup::delay(rate, setup));
    -probability.ln() / rate
}

#[cfg(test)]
mod tests;
