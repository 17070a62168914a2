//! A histogram of waits, eight buckets for each power of two (see `bucket` in cost.bpf.c).

use serde::{Deserialize, Serialize};

use crate::lower_edge;

/// Buckets of a distribution (BUCKETS of cost.h).
pub const BUCKETS: usize = 288;

/// A bucket: waits of at least `from_ns` and below `below_ns`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bin {
    /// The lower edge, ns.
    pub from_ns: u64,
    /// The upper edge, ns; not in the bin.
    pub below_ns: u64,
    /// Waits in it.
    pub count: u64,
}

/// The non-empty bins, ascending. The last bucket has no upper limit.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Distribution {
    /// Ascending, without empty ones.
    pub bins: Vec<Bin>,
}

impl Distribution {
    /// From the counts of all buckets.
    pub fn of(counts: &[u64]) -> Self {
        let bins = counts.iter().enumerate().filter(|(_, count)| **count > 0);
        let bin = |(bucket, count): (usize, &u64)| Bin {
            from_ns: lower_edge(bucket),
            below_ns: lower_edge(bucket + 1),
            count: *count,
        };
        Self {
            bins: bins.map(bin).collect(),
        }
    }

    /// Waits in all bins.
    pub fn count(&self) -> u64 {
        self.bins.iter().map(|bin| bin.count).sum()
    }

    /// A quantile, ns, interpolated within its bin (a bin is at most 12.5% wide). `None` if fewer
    /// than ten waits lie beyond it.
    pub fn quantile_ns(&self, share: f64) -> Option<u64> {
        const BEYOND: f64 = 10.0;
        // 100 * (1 - 0.9) is a little below 10.
        const ROUNDING: f64 = 1e-6;
        let count = self.count() as f64;
        if count * (1.0 - share) < BEYOND - ROUNDING {
            return None;
        }
        let mut left = share * count;
        let bin = self.bins.iter().find(|bin| {
            let here = left <= bin.count as f64;
            if !here {
                left -= bin.count as f64;
            }
            here
        })?;
        let width = (bin.below_ns - bin.from_ns) as f64;
        Some(bin.from_ns + (width * left / bin.count as f64) as u64)
    }

    /// The variance, ns², with each wait at the middle of its bin; `None` for fewer than two.
    pub(crate) fn variance_ns2(&self) -> Option<f64> {
        let count = self.count() as f64;
        if count < 2.0 {
            return None;
        }
        let middle = |bin: &Bin| (bin.from_ns + bin.below_ns) as f64 / 2.0;
        let sum: f64 = self.bins.iter().map(|b| b.count as f64 * middle(b)).sum();
        let mean = sum / count;
        let squares = self
            .bins
            .iter()
            .map(|b| b.count as f64 * (middle(b) - mean).powi(2));
        Some(squares.sum::<f64>() / (count - 1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As in cost.bpf.c.
    fn bucket(ns: u64) -> usize {
        match ns {
            0..8 => ns as usize,
            _ => {
                let exponent = ns.ilog2() as usize;
                (exponent - 2) * 8 + (ns >> (exponent - 3) & 7) as usize
            }
        }
    }

    #[test]
    fn each_wait_lies_within_its_bucket() {
        for ns in (0..5000).chain([65_535, 65_536, 12_345_678, (1 << 36) - 1]) {
            let bucket = bucket(ns);
            assert!(bucket < BUCKETS && lower_edge(bucket) <= ns && ns < lower_edge(bucket + 1));
        }
    }

    #[test]
    fn quantiles_and_variance_are_those_of_the_counted_waits() {
        let mut counts = vec![0; BUCKETS];
        for ns in 1000..2000 {
            counts[bucket(ns)] += 1;
        }
        let distribution = Distribution::of(&counts);
        assert_eq!(distribution.count(), 1000);
        assert!(distribution.quantile_ns(0.5).unwrap().abs_diff(1500) < 20);
        assert!(distribution.quantile_ns(0.9).unwrap().abs_diff(1900) < 20);
        // Ten must lie beyond.
        assert_eq!(distribution.quantile_ns(0.995), None);
        let of = |count| Distribution::of(&[0, count]);
        for (share, needed) in [(0.5, 20), (0.9, 100), (0.99, 1_000), (0.999, 10_000)] {
            assert!(of(needed).quantile_ns(share).is_some(), "{share}");
            assert_eq!(of(needed - 1).quantile_ns(share), None, "{share}");
        }
        let variance = distribution.variance_ns2().unwrap();
        assert!(
            (variance / (1000.0 * 1000.0 / 12.0) - 1.0).abs() < 0.05,
            "{variance}"
        );
    }

    #[test]
    fn an_empty_distribution_has_no_quantile_and_no_variance() {
        let none = Distribution::of(&[0; BUCKETS]);
        assert_eq!(
            (none.count(), none.quantile_ns(0.5), none.variance_ns2()),
            (0, None, None)
        );
    }
}
