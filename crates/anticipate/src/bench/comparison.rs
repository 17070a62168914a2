//! The comparison of policies, point by point. The columns of [`super::show`] describe the fields.

use reveille_figures::rounds::{Estimate, Quantiles, differences, paired, share_percent};
use reveille_trial::rounds::ByRound;
use serde::{Deserialize, Serialize};

use crate::bench::policy::Policy;

/// A policy, and what it changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PolicyUsed {
    /// Which policy.
    pub policy: Policy,
    /// What it changed on the machine, in words.
    pub how: String,
}

/// One policy at one point in one round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    /// From 0.
    pub round: u32,
    /// A place in the points.
    pub point: usize,
    /// The one in force.
    pub policy: Policy,
    /// Start of the turn, s since the run's.
    pub began_s: f64,
    /// The turn's length, s.
    pub elapsed_s: f64,
    /// From the issue of an I/O, or the completion of a call, until the waiting thread runs; ns.
    pub latency: Quantiles,
    /// Waits a second.
    pub per_s: f64,
    /// Time awake of the workload's CPU, its own work included; 0 to 100. `None` if sleep is not
    /// counted.
    pub awake_percent: Option<f64>,
    /// The same of the other CPUs on average, whatever keeps them awake.
    pub others_awake_percent: Option<f64>,
    /// By the engine's own account, in % of one CPU's time, all CPUs together.
    pub kept_awake_percent: Option<f64>,
    /// Share of the waits, warm-up included, for which a CPU was to be awake, by the engine's own
    /// account.
    pub assisted_percent: Option<f64>,
    /// Power by the meter that was named, else of the processor packages.
    pub power_w: Option<f64>,
    /// Power of the processor packages beside that of the meter.
    pub packages_w: Option<f64>,
    /// Time to the workload's completion, ns; `None` if it has none.
    pub run_ns: Option<f64>,
}

/// Latency and cost of a policy at a point, over the rounds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    pub point: usize,
    pub policy: Policy,
    pub waits: u64,
    pub median_ns: Option<Estimate>,
    pub p90_ns: Option<Estimate>,
    pub p99_ns: Option<Estimate>,
    pub max_ns: f64,
    pub per_s: Option<Estimate>,
    pub awake_percent: Option<Estimate>,
    pub others_awake_percent: Option<Estimate>,
    pub kept_awake_percent: Option<Estimate>,
    pub assisted_percent: Option<Estimate>,
    pub power_w: Option<Estimate>,
    pub packages_w: Option<Estimate>,
    pub run_ns: Option<Estimate>,
    /// Time that anticipatory wake-up takes for each wait, ns: the median of separate turns at the point with
    /// the least idle time, without the time for which CPUs are kept awake.
    pub own_cost_ns: Option<f64>,
    /// Of that, the programs at the issue and the completion of a request; the rest is at idle
    /// periods, switches of tasks and interrupts of all CPUs meanwhile.
    pub own_cost_at_requests_ns: Option<f64>,
    /// Against "as is", by round; `None` for that one itself.
    pub change: Option<Change>,
}

/// A policy against "as is", round by round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Change {
    pub median_percent: Option<Estimate>,
    pub p99_percent: Option<Estimate>,
    pub per_s_percent: Option<Estimate>,
    pub run_percent: Option<Estimate>,
    pub awake_points: Option<Estimate>,
    pub others_awake_points: Option<Estimate>,
    pub power_w: Option<Estimate>,
}

/// What sleep costs at a point (as is less no sleep), and how much of that a policy regains.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Gain {
    pub point: usize,
    pub policy: Policy,
    pub median: Regained,
    pub p99: Regained,
    pub awake_percent: Option<Estimate>,
    pub power_percent: Option<Estimate>,
}

/// At one quantile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Regained {
    pub lost_ns: Option<Estimate>,
    pub percent: Option<Estimate>,
}

/// Latency and cost by point and policy, and how much of the cost of sleep was regained.
pub fn conclude(points: usize, policies: &[PolicyUsed], turns: &[Turn]) -> (Vec<Row>, Vec<Gain>) {
    let rounds = turns.iter().map(|turn| turn.round + 1).max().unwrap_or(0);
    let (mut rows, mut gains) = (Vec::new(), Vec::new());
    for point in 0..points {
        let of = |policy: Policy| {
            let is = move |turn: &Turn| (turn.point, turn.policy) == (point, policy);
            ByRound::of(turns, rounds, move |turn| is(turn).then_some(turn.round))
        };
        let (as_is, no_sleep) = (of(Policy::AsIs), of(Policy::NoSleep));
        for used in policies {
            let rounds = of(used.policy);
            rows.extend(row(point, used.policy, &rounds, &as_is));
            if !matches!(used.policy, Policy::AsIs | Policy::NoSleep) && waits(&no_sleep) > 0 {
                gains.push(gain(point, used.policy, &rounds, &as_is, &no_sleep));
            }
        }
    }
    (rows, gains)
}

fn waits(rounds: &ByRound<'_, Turn>) -> u64 {
    rounds.turns().map(|turn| turn.latency.count).sum()
}

#[derive(Clone, Copy)]
enum Quantile {
    Median,
    P90,
    P99,
}

impl Quantile {
    fn of(self, latency: &Quantiles) -> Option<f64> {
        match self {
            Self::Median => Some(latency.median),
            Self::P90 => latency.p90,
            Self::P99 => latency.p99,
        }
    }

    /// Each round's, or none where too few waits of all rounds lie beyond it.
    fn each(self, rounds: &ByRound<'_, Turn>) -> Vec<Option<f64>> {
        /// Waits beyond a quantile, at least.
        const BEYOND_MIN: u64 = 10;
        let is_known = waits(rounds) >= BEYOND_MIN * self.one_in();
        rounds.each(|turn| self.of(&turn.latency).filter(|_| is_known))
    }

    /// N, where the quantile is exceeded by 1 in N waits; 0 for the median, which one wait suffices for.
    fn one_in(self) -> u64 {
        match self {
            Self::Median => 0,
            Self::P90 => 10,
            Self::P99 => 100,
        }
    }
}

fn row(
    point: usize,
    policy: Policy,
    rounds: &ByRound<'_, Turn>,
    as_is: &ByRound<'_, Turn>,
) -> Option<Row> {
    let max_ns = rounds.turns().map(|turn| turn.latency.max);
    let over = |each: Vec<Option<f64>>| Estimate::over(each.into_iter().flatten());
    let quantile = |quantile: Quantile| over(quantile.each(rounds));
    let figure = |figure: fn(&Turn) -> Option<f64>| over(rounds.each(figure));
    Some(Row {
        point,
        policy,
        waits: waits(rounds),
        max_ns: max_ns.reduce(f64::max)?,
        median_ns: quantile(Quantile::Median),
        p90_ns: quantile(Quantile::P90),
        p99_ns: quantile(Quantile::P99),
        per_s: figure(|turn| Some(turn.per_s)),
        awake_percent: figure(|turn| turn.awake_percent),
        others_awake_percent: figure(|turn| turn.others_awake_percent),
        kept_awake_percent: figure(|turn| turn.kept_awake_percent),
        assisted_percent: figure(|turn| turn.assisted_percent),
        power_w: figure(|turn| turn.power_w),
        packages_w: figure(|turn| turn.packages_w),
        run_ns: figure(|turn| turn.run_ns),
        own_cost_ns: None,
        own_cost_at_requests_ns: None,
        change: (policy != Policy::AsIs).then(|| change(rounds, as_is)),
    })
}

fn change(of: &ByRound<'_, Turn>, from: &ByRound<'_, Turn>) -> Change {
    let percent =
        |of: &[Option<f64>], from: &[Option<f64>]| share_percent(&differences(of, from), from);
    let quantile = |one: Quantile| percent(&one.each(of), &one.each(from));
    let ratio = |figure: fn(&Turn) -> Option<f64>| percent(&of.each(figure), &from.each(figure));
    let difference = |figure: fn(&Turn) -> Option<f64>| {
        Estimate::over(paired(&of.each(figure), &from.each(figure)))
    };
    Change {
        median_percent: quantile(Quantile::Median),
        p99_percent: quantile(Quantile::P99),
        per_s_percent: ratio(|turn| Some(turn.per_s)),
        run_percent: ratio(|turn| turn.run_ns),
        awake_points: difference(|turn| turn.awake_percent),
        others_awake_points: difference(|turn| turn.others_awake_percent),
        power_w: difference(|turn| turn.power_w),
    }
}

fn gain(
    point: usize,
    policy: Policy,
    rounds: &ByRound<'_, Turn>,
    as_is: &ByRound<'_, Turn>,
    no_sleep: &ByRound<'_, Turn>,
) -> Gain {
    let regained = |quantile: Quantile| {
        let as_is = quantile.each(as_is);
        let lost = differences(&as_is, &quantile.each(no_sleep));
        let regained = differences(&as_is, &quantile.each(rounds));
        Regained {
            percent: share_percent(&regained, &lost),
            lost_ns: Estimate::over(lost.into_iter().flatten()),
        }
    };
    let cost = |figure: fn(&Turn) -> Option<f64>| {
        let beyond =
            |rounds: &ByRound<'_, Turn>| differences(&rounds.each(figure), &as_is.each(figure));
        share_percent(&beyond(rounds), &beyond(no_sleep))
    };
    Gain {
        point,
        policy,
        median: regained(Quantile::Median),
        p99: regained(Quantile::P99),
        awake_percent: cost(|turn| turn.awake_percent),
        power_percent: cost(|turn| turn.power_w),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Turns of `rounds` rounds at one point with these medians, ns; p99 is double the median; the
    /// CPU is awake for this percentage.
    pub(crate) fn turns(rounds: u32, figures: &[(Policy, f64, f64)], waits: u64) -> Vec<Turn> {
        let turn = |round: u32, &(policy, median, awake): &(Policy, f64, f64)| Turn {
            round,
            point: 0,
            policy,
            began_s: f64::from(round),
            elapsed_s: 1.0,
            latency: Quantiles {
                count: waits,
                // Rounds drift, equally for all policies.
                median: median + f64::from(round) * 100.0,
                p90: Some(1.5 * median),
                p99: Some(2.0 * median),
                max: 10.0 * median + f64::from(round),
            },
            per_s: 1000.0,
            awake_percent: Some(awake),
            others_awake_percent: Some(1.0),
            kept_awake_percent: None,
            assisted_percent: None,
            power_w: None,
            packages_w: None,
            run_ns: None,
        };
        let rounds = (0..rounds).flat_map(|round| figures.iter().map(move |one| turn(round, one)));
        rounds.collect()
    }

    pub(crate) fn used(policies: &[Policy]) -> Vec<PolicyUsed> {
        let used = policies.iter().map(|&policy| PolicyUsed {
            policy,
            how: policy.name().into(),
        });
        used.collect()
    }

    const THREE: [Policy; 3] = [Policy::AsIs, Policy::NoSleep, Policy::Anticipate];

    #[test]
    fn the_regained_share_is_relative_to_the_cost_of_sleep() {
        let figures = [
            (Policy::AsIs, 55_000.0, 20.0),
            (Policy::NoSleep, 41_000.0, 100.0),
            (Policy::Anticipate, 43_800.0, 28.0),
        ];
        let (rows, gains) = conclude(1, &used(&THREE), &turns(7, &figures, 200));
        assert_eq!((rows.len(), gains.len()), (3, 1));
        let gain = &gains[0];
        assert_eq!(gain.policy, Policy::Anticipate);
        let lost = gain.median.lost_ns.as_ref().unwrap();
        assert_eq!(
            (lost.estimate, lost.interval),
            (14_000.0, Some((14_000.0, 14_000.0)))
        );
        let near = |figure: &Option<Estimate>, expected: f64| {
            let estimate = figure.as_ref().unwrap().estimate;
            assert!((estimate - expected).abs() < 1e-9, "{estimate} {expected}");
        };
        near(&gain.median.percent, 80.0);
        near(&gain.p99.percent, 80.0);
        // 8 of 80 points.
        near(&gain.awake_percent, 10.0);
        let change = rows[2].change.as_ref().unwrap();
        near(&change.awake_points, 8.0);
        near(&change.per_s_percent, 0.0);
        // In the middle round: 44.1 against 55.3.
        near(&change.median_percent, 100.0 * (44_100.0 / 55_300.0 - 1.0));
        assert_eq!(rows[0].change, None);
        assert_eq!(rows[0].max_ns, 550_006.0);
        assert_eq!(gain.power_percent, None);
    }

    #[test]
    fn too_few_waits_have_no_p99() {
        let figures = [
            (Policy::AsIs, 55_000.0, 20.0),
            (Policy::NoSleep, 41_000.0, 100.0),
            (Policy::Anticipate, 44_000.0, 28.0),
        ];
        let (rows, gains) = conclude(1, &used(&THREE), &turns(7, &figures, 100));
        assert!(rows[0].p99_ns.is_none() && rows[0].p90_ns.is_some());
        assert_eq!(
            gains[0].p99,
            Regained {
                lost_ns: None,
                percent: None
            }
        );
        assert!(gains[0].median.percent.is_some());
    }

    #[test]
    fn if_sleep_costs_nothing_no_share_is_regained() {
        let figures = [
            (Policy::AsIs, 41_000.0, 100.0),
            (Policy::NoSleep, 41_000.0, 100.0),
            (Policy::Anticipate, 42_000.0, 100.0),
        ];
        let (_, gains) = conclude(1, &used(&THREE), &turns(7, &figures, 200));
        assert_eq!(gains[0].median.percent, None);
        assert_eq!(gains[0].awake_percent, None);
    }

    #[test]
    fn a_gain_needs_the_no_sleep_policy_and_a_row_needs_turns() {
        let figures = [(Policy::AsIs, 5.0, 1.0), (Policy::Anticipate, 4.0, 1.0)];
        let policies = used(&[Policy::AsIs, Policy::Anticipate]);
        let (rows, gains) = conclude(2, &policies, &turns(2, &figures, 20));
        assert_eq!((rows.len(), gains.len()), (2, 0));
        assert_eq!(conclude(2, &policies, &[]), (vec![], vec![]));
    }
}
