//! Two samples: whether one is slower, by how much, and with which confidence.
//!
//! Latencies are skewed and have ties, so nothing here assumes a normal distribution or equal
//! spreads: the test is Brunner and Munzel's, and the differences of quantiles have intervals from
//! order statistics.

use serde::{Deserialize, Serialize};
use statrs::function::factorial::ln_binomial;

use crate::interval;
use crate::quantile::{MEDIAN, P99, Share};
use crate::student;

/// The minimum size of each sample: Brunner and Munzel recommend the approximate distribution of the
/// statistic from ten on.
pub const VALUES_MIN: usize = 10;

/// Two samples of wake latencies, A and B.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Values of A.
    pub count_a: u64,
    /// Values of B.
    pub count_b: u64,
    /// The probability that a wake of B takes longer than one of A, with ties counted half: 0.5 if
    /// neither is slower.
    pub b_slower: f64,
    /// The lower end of its 95% interval.
    pub b_slower_low: f64,
    /// The upper end of its 95% interval.
    pub b_slower_high: f64,
    /// The p-value of the two-sided test of 0.5 (Brunner and Munzel).
    pub p_value: f64,
    /// The difference of the medians.
    pub median: Difference,
    /// `None` if one of the samples has fewer than ten values beyond its p99 (1000 in all).
    pub p99: Option<Difference>,
}

/// A quantile of B minus that of A, ns, with its 95% interval.
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
    /// Whether the interval excludes 0.
    pub fn is_significant(&self) -> bool {
        self.low_ns > 0 || self.high_ns < 0
    }
}

/// Compares two samples (any order; they are sorted in place). `None` if one has fewer than ten
/// values.
pub fn compare(a: &mut [i64], b: &mut [i64]) -> Option<Comparison> {
    if a.len() < VALUES_MIN || b.len() < VALUES_MIN {
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
        median: difference(a, b, MEDIAN)?,
        p99: (P99.is_carried_by(a.len()) && P99.is_carried_by(b.len()))
            .then(|| difference(a, b, P99))
            .flatten(),
    })
}

struct Test {
    effect: f64,
    low: f64,
    high: f64,
    p_value: f64,
}

/// Brunner and Munzel, "The Nonparametric Behrens-Fisher Problem: Asymptotic Theory and a
/// Small-Sample Approximation", Biometrical Journal 42 (2000): ranks among both samples against
/// ranks within each, which also gives the variance with unequal spreads and ties.
fn brunner_munzel(a: &[i64], b: &[i64]) -> Test {
    let (count_a, count_b) = (a.len() as f64, b.len() as f64);
    let (of_a, of_b) = (placements(a, b), placements(b, a));
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
    let half = student::quantile(freedom) * error;
    let (low, high) = effect_limits(effect, a.len(), b.len());
    Test {
        effect,
        low: (effect - half).clamp(0.0, low),
        high: (effect + half).clamp(high, 1.0),
        p_value: student::two_sided((effect - 0.5) / error, freedom).max(least),
    }
}

/// Mean and variance (by count less one) of the placements: for each value, the number of values of
/// the other sample below it, with ties counted half.
struct Placements {
    mean: f64,
    variance: f64,
}

/// The placements of `values` among `others`; both ascending. In one pass over both.
fn placements(values: &[i64], others: &[i64]) -> Placements {
    let (mut below, mut to) = (0, 0);
    let mut mean = 0.0;
    let mut squares = 0.0;
    for (at, value) in values.iter().enumerate() {
        while others.get(below).is_some_and(|other| other < value) {
            below += 1;
        }
        to = to.max(below);
        while others.get(to).is_some_and(|other| other == value) {
            to += 1;
        }
        let placement = (below + to) as f64 / 2.0;
        // Welford's recurrence.
        let off = placement - mean;
        mean += off / (at + 1) as f64;
        squares += off * (placement - mean);
    }
    Placements {
        mean,
        variance: squares / (values.len() as f64 - 1.0),
    }
}

/// The smallest p-value of samples of these sizes: without a difference, every partition of the values
/// into the two samples is equally likely, and in two of them all values of one are below those of the
/// other. Never zero.
fn least_p_value(count_a: usize, count_b: usize) -> f64 {
    let ways = ln_binomial((count_a + count_b) as u64, count_a as u64);
    (std::f64::consts::LN_2 - ways).exp().max(f64::MIN_POSITIVE)
}

/// If all values of one sample lie on one side of the other, or all are equal, their ranks have no
/// variance, and give no confidence. But the first values of both are a pair, the second ones another,
/// and so on: if the share of such pairs is s, all of them are such with probability s^pairs. That
/// bounds s like the exact interval of a share.
fn without_scatter(effect: f64, pairs: u64, least: f64) -> Test {
    let others = 1.0 - interval::share_low(pairs, pairs, interval::SIDE);
    let (low, high, p_value) = if effect > 0.5 {
        (1.0 - others, 1.0, least)
    } else if effect < 0.5 {
        (0.0, others, least)
    } else {
        // All tie. Pairs that do not tie may all lie on one side.
        (0.5 - others / 2.0, 0.5 + others / 2.0, 1.0)
    };
    Test {
        effect,
        low,
        high,
        p_value,
    }
}

/// The 95% limits of the probability that a value of B is above one of A, from the observed `effect`:
/// Newcombe, "Confidence Intervals for an Effect Size Measure Based on the Mann-Whitney Statistic. Part
/// 2", Statistics in Medicine 25 (2006), method 5. The variance is that at the limit and not the observed
/// one, which is too small if the samples hardly overlap.
fn effect_limits(effect: f64, count_a: usize, count_b: usize) -> (f64, f64) {
    /// The 97.5% quantile of the normal distribution.
    const Z: f64 = 1.959_964;
    let (a, b) = (count_a as f64, count_b as f64);
    let is_within = |limit: f64| {
        let others = f64::midpoint(a, b) - 1.0;
        let shape = 1.0 + others * ((1.0 - limit) / (2.0 - limit) + limit / (1.0 + limit));
        let variance = limit * (1.0 - limit) * shape / (a * b);
        (effect - limit).powi(2) <= Z * Z * variance
    };
    let limit = |out: f64| interval::boundary(effect, out, 60, is_within);
    (limit(0.0), limit(1.0))
}

/// The difference of a quantile. Each quantile has a distribution-free interval from order statistics;
/// that of the difference combines both as in Zou and Donner, "Construction of Confidence Limits about
/// Effect Measures: A General Approach", Statistics in Medicine 27 (2008).
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
