//! A histogram of wake latencies, eight buckets to an octave, as in `bpf/live.h`.

use crate::live::WakeLatency;
use crate::lower_edge;

/// A p99 needs ten latencies beyond it.
const ENOUGH_FOR_P99: u64 = 1000;

/// Counted latencies, ns.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Latencies {
    pub count: u64,
    pub sum_ns: u64,
    pub max_ns: u64,
    pub buckets: Vec<u32>,
}

impl Latencies {
    /// Adds another CPU's latencies.
    pub fn add(&mut self, other: &Self) {
        self.count += other.count;
        self.sum_ns += other.sum_ns;
        self.max_ns = self.max_ns.max(other.max_ns);
        let length = self.buckets.len().max(other.buckets.len());
        self.buckets.resize(length, 0);
        for (sum, more) in self.buckets.iter_mut().zip(&other.buckets) {
            *sum += more;
        }
    }

    /// `None` if there are none.
    pub fn summary(&self) -> Option<WakeLatency> {
        (self.count > 0).then(|| WakeLatency {
            count: self.count,
            mean_ns: self.mean_ns(),
            median_ns: self.quantile_ns(0.5),
            p99_ns: (self.count >= ENOUGH_FOR_P99).then(|| self.quantile_ns(0.99)),
            max_ns: self.max_ns,
        })
    }

    pub fn mean_ns(&self) -> f64 {
        self.sum_ns as f64 / self.count.max(1) as f64
    }

    /// The middle of the quantile's bucket.
    fn quantile_ns(&self, quantile: f64) -> f64 {
        let rank = (quantile * self.count as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (index, &count) in self.buckets.iter().enumerate() {
            seen += u64::from(count);
            if seen >= rank {
                let (low, next) = (lower_edge(index), lower_edge(index + 1));
                let middle = (low + next - 1) as f64 / 2.0;
                return middle.min(self.max_ns as f64);
            }
        }
        self.max_ns as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_each_other_without_a_gap() {
        let mut next = 0;
        for index in 0..200 {
            let low = lower_edge(index);
            let width = lower_edge(index + 1) - low;
            assert_eq!(low, next, "bucket {index}");
            assert!(width == 1 || width * 8 <= low, "bucket {index}");
            next = low + width;
        }
        assert_eq!(next, 1 << 27);
    }

    #[test]
    fn quantiles_are_those_of_the_buckets_and_the_maximum_is_exact() {
        let mut buckets = vec![0; 200];
        // 100 of 1024 to 1151 ns, and one of 5000 ns.
        buckets[64] = 100;
        buckets[81] = 1;
        let latencies = Latencies {
            count: 101,
            sum_ns: 100 * 1100 + 5000,
            max_ns: 5000,
            buckets,
        };
        assert_eq!((lower_edge(64), lower_edge(65)), (1024, 1152));
        assert!((lower_edge(81)..lower_edge(82)).contains(&5000));
        let summary = latencies.summary().unwrap();
        assert_eq!(summary.median_ns, 1087.5);
        assert_eq!((summary.max_ns, summary.p99_ns), (5000, None));
        let mut ten_times = Latencies::default();
        (0..10).for_each(|_| ten_times.add(&latencies));
        let summary = ten_times.summary().unwrap();
        assert_eq!((summary.count, summary.p99_ns), (1010, Some(1087.5)));
        assert_eq!(Latencies::default().summary(), None);
    }
}
