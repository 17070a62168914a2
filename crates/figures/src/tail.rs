//! The tail beyond the data: peaks over threshold, generalised Pareto.

mod goodness;
mod pareto;
mod profile;
#[cfg(test)]
mod tests;

use pareto::Pareto;
use serde::{Deserialize, Serialize};

/// An estimate beyond the data, or the reason why there is none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tail {
    /// An accepted fit and its quantile.
    Estimated(Estimate),
    /// The reason, in words.
    Refused(String),
}

/// A generalised Pareto tail and a far quantile from it. An estimate, never a measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The threshold of the excesses, ns.
    pub threshold_ns: i64,
    /// Datapoints above the threshold.
    pub exceedances: u64,
    /// Shape ξ (below 0: the tail ends at `threshold - scale/shape`).
    pub shape: f64,
    /// Scale σ of the excesses, ns.
    pub scale_ns: f64,
    /// Goodness of fit: the p-value of the Anderson-Darling test (small is bad).
    pub fit_p_value: f64,
    /// The quantile is exceeded by one wake-up in this many.
    pub exceeded_by_one_in: u64,
    /// That quantile, ns.
    pub quantile_ns: i64,
    /// 95% interval of `quantile_ns`.
    pub quantile_low_ns: i64,
    /// The upper end of that interval.
    pub quantile_high_ns: i64,
}

/// The minimum number of exceedances for a fit.
const EXCEEDANCES_MIN: usize = 100;

/// The maximum number: more are not needed, and extend below the tail.
const EXCEEDANCES_MAX: usize = 500;

/// The largest share of the sample that counts as its tail: one in twenty.
const SHARE_OF_SAMPLE: usize = 20;

/// The ratio of exceedances at successive thresholds.
const THINNING: f64 = 0.7;

/// A fit with a smaller p-value is refused.
const P_VALUE_MIN: f64 = 0.1;

/// A tail of this shape has no mean, so there is no useful estimate.
const SHAPE_MAX: f64 = 1.0;

/// Steps of the clock up to this share of the tail's scale are spread evenly; coarser ones hide the
/// tail's shape.
const STEP_PER_SCALE_MAX: f64 = 0.2;

/// The far quantile is that of the first power of ten from this multiple of the sample's size on:
/// beyond the data by at most a factor of twenty.
const BEYOND_DATA: u64 = 2;

/// The tail of an ascending sample, ns.
///
/// The values above a threshold are assumed to be generalised Pareto (Pickands 1975; Coles, "An
/// Introduction to Statistical Modeling of Extreme Values", 2001, chapter 4). Thresholds are tried
/// from the lowest, which has the most exceedances; the first one is used at which the
/// Anderson-Darling test does not reject the fit (Bader, Yan and Zhang, "Automated Threshold
/// Selection for Extreme Value Analysis via Ordered Goodness-of-Fit Tests", 2018). The interval is
/// by profile likelihood (Coles, section 4.3.3). Wake-ups are assumed to be independent.
pub fn estimate(sorted: &[i64]) -> Tail {
    let most = (sorted.len() / SHARE_OF_SAMPLE).min(EXCEEDANCES_MAX);
    if most < EXCEEDANCES_MIN {
        return Tail::Refused(format!(
            "too few datapoints ({} of {})",
            sorted.len(),
            EXCEEDANCES_MIN * SHARE_OF_SAMPLE
        ));
    }
    let mut refused = String::new();
    let mut exceedances = most;
    while exceedances >= EXCEEDANCES_MIN {
        match at_threshold(sorted, exceedances) {
            Ok(estimate) => return Tail::Estimated(estimate),
            // The reason at the lowest threshold is based on the most datapoints.
            Err(why) if refused.is_empty() => refused = why,
            Err(_) => {}
        }
        exceedances = (exceedances as f64 * THINNING) as usize;
    }
    Tail::Refused(refused)
}

fn at_threshold(sorted: &[i64], exceedances: usize) -> Result<Estimate, String> {
    let (below, above) = sorted.split_at(sorted.len() - exceedances);
    let threshold_ns = below.last().copied().unwrap_or_default();
    let excesses = spread_ties(threshold_ns, above)?;
    let fit = Pareto::fit(&excesses);
    let fit_p_value = goodness::p_value(&excesses, fit);
    if fit_p_value < P_VALUE_MIN {
        return Err(format!(
            "the highest {exceedances} datapoints do not follow a generalised Pareto distribution \
             (p = {fit_p_value:.2})"
        ));
    }
    if fit.shape >= SHAPE_MAX {
        return Err(format!(
            "its tail is too heavy (shape {:.2}) for any bound",
            fit.shape
        ));
    }
    let exceeded_by_one_in = far(sorted.len() as u64);
    // How many times rarer the quantile is than the threshold.
    let rarer = exceeded_by_one_in as f64 * exceedances as f64 / sorted.len() as f64;
    let (low, high) = profile::interval(&excesses, fit, rarer)
        .ok_or("its tail is too heavy for a bound from so few datapoints")?;
    let beyond = |excess: f64| threshold_ns.saturating_add(excess.round() as i64);
    Ok(Estimate {
        threshold_ns,
        exceedances: exceedances as u64,
        shape: fit.shape,
        scale_ns: fit.scale,
        fit_p_value,
        exceeded_by_one_in,
        quantile_ns: beyond(fit.quantile(rarer)),
        quantile_low_ns: beyond(low),
        quantile_high_ns: beyond(high),
    })
}

/// The power of ten for which the far quantile is given.
fn far(count: u64) -> u64 {
    let mut one_in = 10;
    while one_in < count.saturating_mul(BEYOND_DATA) {
        one_in *= 10;
    }
    one_in
}

/// The excesses over the threshold, ascending. If the clock has steps, equal values are spread evenly
/// over their step, as they were before rounding.
fn spread_ties(threshold_ns: i64, above: &[i64]) -> Result<Vec<f64>, String> {
    let step = above
        .windows(2)
        .filter_map(|pair| pair[1].checked_sub(pair[0]).filter(|&gap| gap > 0))
        .min();
    let Some(step) = step else {
        return Err("its highest datapoints are all the same".to_owned());
    };
    let mut excesses = Vec::with_capacity(above.len());
    for same in above.chunk_by(|left, right| left == right) {
        let excess = same[0] as f64 - threshold_ns as f64;
        let width = step as f64;
        excesses.extend((0..same.len()).map(|at| {
            let place = (at as f64 + 0.5) / same.len() as f64 - 0.5;
            // The threshold is a value of the sample: values equal to it lie above its middle.
            (excess + place * width).max(width * 0.25 * (at + 1) as f64 / same.len() as f64)
        }));
    }
    let mean = excesses.iter().sum::<f64>() / excesses.len() as f64;
    if step as f64 > STEP_PER_SCALE_MAX * mean {
        return Err(format!(
            "the clock's steps of {step} ns are too coarse for a tail of {mean:.0} ns"
        ));
    }
    excesses.sort_unstable_by(f64::total_cmp);
    Ok(excesses)
}
