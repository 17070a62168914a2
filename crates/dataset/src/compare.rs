//! Two results, state by state: does one wake slower, by how much, and how sure is that?
//!
//! Latencies are skewed and tied, so nothing here supposes a normal distribution or equal spreads:
//! the test is Brunner and Munzel's, and the differences of quantiles have intervals from order
//! statistics.

mod rank;

use serde::{Deserialize, Serialize};
use statrs::function::beta::beta_reg;
use statrs::function::factorial::ln_binomial;

use crate::description::{Description, Probe};
use crate::interval;
use crate::statistics::{self, Group, Share};
use crate::{Columns, Loaded};

/// Fewer datapoints on either side carry no test: the distribution of its statistic is an
/// approximation that Brunner and Munzel recommend from ten on.
const DATAPOINTS_MIN: usize = 10;

/// A difference is called significant below this.
const SIGNIFICANT: f64 = 0.05;

/// Two samples of wake latencies, A and B.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Values of A.
    pub count_a: u64,
    /// Values of B.
    pub count_b: u64,
    /// The probability that a wake of B takes longer than one of A, ties counted half: 0.5 where
    /// neither is slower. With its 95 % interval.
    pub b_slower: f64,
    /// The lower end of its interval.
    pub b_slower_low: f64,
    /// The upper end of its interval.
    pub b_slower_high: f64,
    /// Of the two-sided test that it is 0.5 (Brunner and Munzel).
    pub p_value: f64,
    /// The difference of the medians.
    pub median: Difference,
    /// `None` where one of the samples has fewer than ten values beyond its p99 (1000 in all).
    pub p99: Option<Difference>,
}

/// A quantile of B minus that of A, ns, with its 95 % interval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Difference {
    /// The quantile of A, ns.
    pub a_ns: i64,
    /// The quantile of B, ns.
    pub b_ns: i64,
    /// B less A, ns.
    pub difference_ns: i64,
    /// The lower end of its interval, ns.
    pub low_ns: i64,
    /// The upper end of its interval, ns.
    pub high_ns: i64,
}

impl Difference {
    /// Does the interval leave out 0?
    pub fn is_significant(&self) -> bool {
        self.low_ns > 0 || self.high_ns < 0
    }
}

/// One state in both results.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StateComparison {
    /// The requested state's name.
    pub state: String,
    /// As in the column `source`.
    pub source: String,
    /// A and B in this state, by this source.
    pub comparison: Comparison,
    /// The p-value with all states of these results taken into account (Holm, "A Simple
    /// Sequentially Rejective Multiple Test Procedure", Scandinavian Journal of Statistics 6, 1979).
    pub adjusted_p_value: f64,
}

impl StateComparison {
    /// Is one side slower, and not by chance alone? (5 %, all states taken into account)
    pub fn is_significant(&self) -> bool {
        self.adjusted_p_value < SIGNIFICANT
    }
}

/// All states that both results have.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Comparisons {
    /// By state and source, in the order of A's datapoints.
    pub states: Vec<StateComparison>,
    /// What must be said beside the figures, one sentence each: different probes, ...
    pub notes: Vec<String>,
}

/// Compares two results by (requested state, source).
pub fn results(a: &Loaded, b: &Loaded) -> Comparisons {
    let mut comparisons = by_state(&a.columns, &b.columns);
    comparisons
        .notes
        .splice(0..0, notes(&a.description, &b.description));
    comparisons
}

/// Compares two sets of datapoints by (requested state, source); states are matched by name.
pub fn by_state(a: &Columns, b: &Columns) -> Comparisons {
    let mut comparisons = Comparisons::default();
    let mut others = statistics::samples(b, statistics::WAKE_LATENCY);
    let mut alone: Vec<String> = Vec::new();
    for (group, mut sample_a) in merged(statistics::samples(a, statistics::WAKE_LATENCY)) {
        let mut sample_b = Vec::new();
        others.retain_mut(|(other, sample)| {
            let same = other.state == group.state && other.source == group.source;
            if same {
                sample_b.append(sample);
            }
            !same
        });
        match samples(&mut sample_a, &mut sample_b) {
            Some(comparison) => comparisons.states.push(StateComparison {
                state: group.state,
                source: group.source,
                adjusted_p_value: comparison.p_value,
                comparison,
            }),
            None => alone.push(format!("{} ({})", group.state, group.source)),
        }
    }
    alone.extend(
        others
            .iter()
            .map(|(group, _)| format!("{} ({})", group.state, group.source)),
    );
    if !alone.is_empty() {
        comparisons.notes.push(format!(
            "Not compared, for less than {DATAPOINTS_MIN} datapoints on one side: {}.",
            alone.join(", ")
        ));
    }
    adjust(&mut comparisons.states);
    comparisons
}

/// Groups that differ only in the index (hybrid CPUs number their states differently) are one.
fn merged(samples: Vec<(Group, Vec<i64>)>) -> Vec<(Group, Vec<i64>)> {
    let mut merged: Vec<(Group, Vec<i64>)> = Vec::new();
    for (group, mut sample) in samples {
        let same = |(known, _): &&mut (Group, Vec<i64>)| {
            known.state == group.state && known.source == group.source
        };
        match merged.iter_mut().find(same) {
            Some((_, known)) => known.append(&mut sample),
            None => merged.push((group, sample)),
        }
    }
    merged
}

fn notes(a: &Description, b: &Description) -> Vec<String> {
    let words = |description: &Description| match description.probe {
        Probe::Bpf => "BPF".to_owned(),
        Probe::User => "a waiting thread (scheduling is in it)".to_owned(),
        Probe::Foreign => description.tool.clone(),
    };
    let mut notes = Vec::new();
    let (of_a, of_b) = (words(a), words(b));
    if a.probe != b.probe || of_a != of_b {
        notes.push(format!(
            "A was measured by {of_a} and B by {of_b}: their difference is one of methods, too."
        ));
    }
    if a.machine.kernel != b.machine.kernel {
        let name = |kernel: &Option<String>| kernel.clone().unwrap_or_else(|| "unknown".to_owned());
        notes.push(format!(
            "The kernels differ: {} and {}.",
            name(&a.machine.kernel),
            name(&b.machine.kernel)
        ));
    }
    notes
}

/// Holm: the smallest p-value counts once per state, the next once less, and none less than before.
fn adjust(states: &mut [StateComparison]) {
    let mut order: Vec<usize> = (0..states.len()).collect();
    order.sort_by(|&left, &right| {
        states[left]
            .comparison
            .p_value
            .total_cmp(&states[right].comparison.p_value)
    });
    let mut least = 0.0_f64;
    for (rank, &at) in order.iter().enumerate() {
        let times = (order.len() - rank) as f64;
        least = least.max((states[at].comparison.p_value * times).min(1.0));
        states[at].adjusted_p_value = least;
    }
}

/// Compares two samples (any order; they are sorted in place). `None` where one has fewer than ten
/// values.
pub fn samples(a: &mut [i64], b: &mut [i64]) -> Option<Comparison> {
    if a.len() < DATAPOINTS_MIN || b.len() < DATAPOINTS_MIN {
        return None;
    }
    a.sort_unstable();
    b.sort_unstable();
    let test = brunner_munzel(a, b);
    Some(Comparison {
        count_a: a.len() as u64,
        count_b: b.len() as u64,
        b_slower: test.effect,
        b_slower_low: test.low,
        b_slower_high: test.high,
        p_value: test.p_value,
        median: difference(a, b, Share(1, 2))?,
        p99: (P99.is_carried_by(a.len()) && P99.is_carried_by(b.len()))
            .then(|| difference(a, b, P99))
            .flatten(),
    })
}

const P99: Share = Share(99, 100);

struct Test {
    effect: f64,
    low: f64,
    high: f64,
    p_value: f64,
}

/// Brunner and Munzel, "The Nonparametric Behrens-Fisher Problem: Asymptotic Theory and a
/// Small-Sample Approximation", Biometrical Journal 42 (2000): ranks among both samples against
/// ranks within the own one, which also gives the variance where spreads differ and values tie.
fn brunner_munzel(a: &[i64], b: &[i64]) -> Test {
    let (count_a, count_b) = (a.len() as f64, b.len() as f64);
    let (of_a, of_b) = (rank::placements(a, b), rank::placements(b, a));
    // Mean share of A below a value of B.
    let effect = of_b.mean / count_a;
    let (spread_a, spread_b) = (
        of_a.variance / (count_b * count_b),
        of_b.variance / (count_a * count_a),
    );
    let (share_a, share_b) = (spread_a / count_a, spread_b / count_b);
    let error = (share_a + share_b).sqrt();
    let least = least_p_value(a.len(), b.len());
    if error == 0.0 {
        return without_scatter(effect, a.len().min(b.len()) as u64, least);
    }
    // Satterthwaite's degrees of freedom.
    let freedom = (share_a + share_b).powi(2)
        / (share_a.powi(2) / (count_a - 1.0) + share_b.powi(2) / (count_b - 1.0));
    let half = student_quantile(freedom) * error;
    let (low, high) = effect_limits(effect, a.len(), b.len());
    Test {
        effect,
        low: (effect - half).clamp(0.0, low),
        high: (effect + half).clamp(high, 1.0),
        p_value: student_two_sided((effect - 0.5) / error, freedom).max(least),
    }
}

/// The smallest p-value that samples of these sizes can have: were there no difference, each of the
/// ways to part the values into the two samples would be as likely, and in two of them all values of
/// one are below those of the other. Never zero.
fn least_p_value(count_a: usize, count_b: usize) -> f64 {
    let ways = ln_binomial((count_a + count_b) as u64, count_a as u64);
    (std::f64::consts::LN_2 - ways).exp().max(f64::MIN_POSITIVE)
}

/// Where all of one sample lie on one side of the other, or all values are the same, their ranks
/// have no variance, and tell nothing of how sure that is. But the first values of both are a pair,
/// the second ones another, and so on: were the share of such pairs s, all of them would be so with
/// probability s^pairs. That bounds s as the exact interval of a share does.
fn without_scatter(effect: f64, pairs: u64, least: f64) -> Test {
    let others = 1.0 - interval::share_low(pairs, pairs, interval::SIDE);
    let (low, high, p_value) = if effect > 0.5 {
        (1.0 - others, 1.0, least)
    } else if effect < 0.5 {
        (0.0, others, least)
    } else {
        // All tie. Those that do not may all lie on one side.
        (0.5 - others / 2.0, 0.5 + others / 2.0, 1.0)
    };
    Test {
        effect,
        low,
        high,
        p_value,
    }
}

/// The 95 % limits of the probability that a value of B is above one of A, of which `effect` was seen:
/// Newcombe, "Confidence Intervals for an Effect Size Measure Based on the Mann-Whitney Statistic. Part
/// 2", Statistics in Medicine 25 (2006), method 5. The variance is that at the limit and not that which
/// was seen, which is too small where the samples hardly overlap.
fn effect_limits(effect: f64, count_a: usize, count_b: usize) -> (f64, f64) {
    /// The 97.5 % quantile of the normal distribution.
    const Z: f64 = 1.959_964;
    let (a, b) = (count_a as f64, count_b as f64);
    let is_within = |limit: f64| {
        let others = f64::midpoint(a, b) - 1.0;
        let shape = 1.0 + others * ((1.0 - limit) / (2.0 - limit) + limit / (1.0 + limit));
        let variance = limit * (1.0 - limit) * shape / (a * b);
        (effect - limit).powi(2) <= Z * Z * variance
    };
    let limit = |mut out: f64| {
        let mut within = effect;
        for _ in 0..60 {
            let middle = f64::midpoint(within, out);
            if is_within(middle) {
                within = middle;
            } else {
                out = middle;
            }
        }
        within
    };
    (limit(0.0), limit(1.0))
}

/// `P(|T| >= |t|)` of Student's distribution.
fn student_two_sided(t: f64, freedom: f64) -> f64 {
    // Abramowitz and Stegun, 26.7.1.
    beta_reg(
        freedom / 2.0,
        0.5,
        (freedom / (freedom + t * t)).clamp(0.0, 1.0),
    )
}

/// The t that is exceeded on either side with 5 % together.
fn student_quantile(freedom: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1000.0);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if student_two_sided(middle, freedom) > 2.0 * interval::SIDE {
            low = middle;
        } else {
            high = middle;
        }
    }
    f64::midpoint(low, high)
}

/// The quantile's difference. Each quantile has a distribution-free interval from order statistics;
/// that of the difference is made of both as in Zou and Donner, "Construction of Confidence Limits
/// about Effect Measures: A General Approach", Statistics in Medicine 27 (2008).
fn difference(a: &[i64], b: &[i64], share: Share) -> Option<Difference> {
    let one = |sorted: &[i64]| {
        let value = sorted[share.rank(sorted.len()) - 1];
        let (low, high) = interval::of_quantile(share.0 as f64 / share.1 as f64, sorted.len())?;
        let below = value as f64 - sorted[low - 1] as f64;
        let above = sorted[high - 1] as f64 - value as f64;
        Some((value, below, above))
    };
    let ((a_ns, a_below, a_above), (b_ns, b_below, b_above)) = (one(a)?, one(b)?);
    let difference_ns = b_ns.saturating_sub(a_ns);
    Some(Difference {
        a_ns,
        b_ns,
        difference_ns,
        low_ns: difference_ns.saturating_sub(b_below.hypot(a_above).ceil() as i64),
        high_ns: difference_ns.saturating_add(b_above.hypot(a_below).ceil() as i64),
    })
}

#[cfg(test)]
mod tests;
