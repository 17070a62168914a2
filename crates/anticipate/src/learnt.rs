//! What a model has learnt, in terms of the program.

/// What a model has learnt, in the plain numbers of `struct model` in `src/bpf/model.h`, where the
/// method and its sources are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Learnt {
    /// I/Os since the model began or began anew; stops at 2^16.
    pub age: u32,
    /// I/Os in `var` and `cov`; stops at 64.
    pub informed: u32,
    /// Mean size, 2^-8 sectors of 512 bytes.
    pub mean_sectors: u64,
    /// Mean time, 2^-8 ns.
    pub mean_ns: u64,
    /// Weighted variance of the sizes, 2^-8 sectors².
    pub var: u64,
    /// Weighted covariance of sizes and times, 2^-8 sectors ns.
    pub cov: i64,
    /// The 5% quantile: one I/O in twenty is complete before `ns / (1 + early)`; 2^-20.
    pub early: u32,
    /// The 90% quantile: one I/O in ten is complete after `ns * (1 + late)`; 2^-20.
    pub late: u32,
    /// Variance of the sizes, 2^-8 sectors².
    pub seen_var_sectors: u64,
    /// Variance of the times, ns².
    pub seen_var_ns: u64,
    /// Covariance of the two, 2^-8 sectors ns.
    pub seen_cov: i64,
}

/// How long an I/O is expected to take from issue to completion, ns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Expected {
    /// The mean, ns.
    pub ns: f64,
    /// The 5% quantile, not above `ns`.
    pub early_ns: f64,
    /// The 90% quantile, not below `ns`.
    pub late_ns: f64,
}

/// I/Os before the first prediction: `MODEL_FEWEST`.
const FEWEST: u32 = 5;
/// `MODEL_MOST_NS`
const MOST_NS: f64 = (1_u64 << 34) as f64;
/// Roots of weights are at most this: `MODEL_MOST_ROOT`.
const MOST_ROOT: f64 = 4.0;
/// 2^-8
const FINE: f64 = 1.0 / 256.0;
/// 2^-20
const SHARE: f64 = 1.0 / 1_048_576.0;

/// Pearson's correlation of size and time, -1 to 1, over about the last 256 I/Os; times that are
/// far out of the way count as eight spreads from the line. `None` where sizes vary by less than a
/// sector, or times not at all.
pub fn correlation(learnt: &Learnt) -> Option<f64> {
    let sectors = learnt.seen_var_sectors as f64 * FINE;
    let ns = learnt.seen_var_ns as f64;
    let cov = learnt.seen_cov as f64 * FINE;
    // What is left of sizes that are long past is rounded, and stays below one.
    (sectors > 1.0 && ns > 0.0).then(|| (cov / (sectors * ns).sqrt()).clamp(-1.0, 1.0))
}

/// The prediction of `model_predict()` for an I/O of so many sectors of 512 bytes. `None` where it has
/// none: after too few I/Os, and for sizes too far from those that were seen.
pub fn expected(learnt: &Learnt, sectors: u32) -> Option<Expected> {
    if learnt.age < FEWEST {
        return None;
    }
    let mean_ns = learnt.mean_ns as f64 * FINE;
    let further = f64::from(sectors) - learnt.mean_sectors as f64 * FINE;
    let slope = match learnt.var {
        0 => 0.0,
        var => (learnt.cov as f64 / var as f64).max(0.0),
    };
    let ns = (mean_ns + slope * further).min(MOST_NS);
    if ns < mean_ns / 16.0 {
        return None;
    }
    let ns = ns.max(1.0);
    let far = further * (mean_ns / ns).min(MOST_ROOT);
    let near_enough = f64::from(learnt.informed) * learnt.var as f64 * FINE;
    (far * far <= near_enough.max(FINE)).then(|| Expected {
        ns,
        early_ns: ns / (1.0 + f64::from(learnt.early) * SHARE),
        late_ns: (ns * (1.0 + f64::from(learnt.late) * SHARE)).min(MOST_NS),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_correlation_is_the_covariance_by_both_deviations() {
        // Sizes vary by 4 sectors, times by 100 ns, together by 200.
        let learnt = Learnt {
            seen_var_sectors: 16 * 256,
            seen_var_ns: 10_000,
            seen_cov: 200 * 256,
            ..Learnt::default()
        };
        assert_eq!(correlation(&learnt), Some(0.5));
        let falling = Learnt {
            seen_cov: -200 * 256,
            ..learnt
        };
        assert_eq!(correlation(&falling), Some(-0.5));
    }

    #[test]
    fn constant_values_have_no_correlation() {
        let learnt = Learnt {
            seen_var_sectors: 16 * 256,
            seen_var_ns: 10_000,
            seen_cov: 200 * 256,
            ..Learnt::default()
        };
        let one_size = Learnt {
            seen_var_sectors: 256,
            ..learnt
        };
        let one_time = Learnt {
            seen_var_ns: 0,
            ..learnt
        };
        assert_eq!(correlation(&one_size), None);
        assert_eq!(correlation(&one_time), None);
        assert_eq!(correlation(&Learnt::default()), None);
    }

    #[test]
    fn the_line_is_followed_within_the_observed_range() {
        // 100 µs at 64 sectors, 500 ns per further sector; sizes vary by 32 sectors.
        let learnt = Learnt {
            age: 100,
            informed: 64,
            mean_sectors: 64 << 8,
            mean_ns: 100_000 << 8,
            var: 1024 << 8,
            cov: (1024 * 500) << 8,
            early: 1 << 18,
            late: 1 << 19,
            ..Learnt::default()
        };
        let prediction = expected(&learnt, 128).unwrap();
        assert_eq!(prediction.ns, 132_000.0);
        assert_eq!(prediction.early_ns, 132_000.0 / 1.25);
        assert_eq!(prediction.late_ns, 132_000.0 * 1.5);
        let young = Learnt {
            age: FEWEST - 1,
            ..learnt
        };
        assert_eq!(expected(&young, 128), None);
        // Sizes that hardly varied do not predict much larger ones.
        let narrow = Learnt {
            var: 1,
            cov: 500,
            ..learnt
        };
        assert_eq!(expected(&narrow, 128), None);
        assert!(expected(&narrow, 64).is_some());
    }
}
