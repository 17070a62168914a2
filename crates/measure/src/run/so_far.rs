//! A run's datapoints so far: for its progress, and for the warning that few launches are kept.

use std::collections::BTreeMap;
use std::time::Duration;

use reveille_show::progress;
use reveille_show::quantity::{count, share};

/// A state's datapoints so far.
#[derive(Debug, Clone, Default)]
pub struct SoFar {
    /// Their number.
    pub count: u64,
    /// By the wake latency's logarithm; one that is not above 0 has the first bin.
    bins: BTreeMap<i32, u64>,
}

/// Bins for each doubling of the latency: each is 1% wide.
const BINS: f64 = 64.0;

impl SoFar {
    pub(super) fn add(&mut self, latency_ns: i64) {
        self.count += 1;
        let bin = match latency_ns {
            1.. => ((latency_ns as f64).log2() * BINS).round() as i32,
            _ => i32::MIN,
        };
        *self.bins.entry(bin).or_default() += 1;
    }

    /// The median wake latency, ns, within 1%; `None` without datapoints.
    pub fn median_ns(&self) -> Option<f64> {
        let middle = self.count.div_ceil(2);
        let mut below = 0;
        let bin = self.bins.iter().find(|(_, count)| {
            below += **count;
            below >= middle
        });
        bin.map(|(bin, _)| match *bin {
            i32::MIN => 0.0,
            bin => (f64::from(bin) / BINS).exp2(),
        })
    }
}

/// From this time of measuring on a run warns that it keeps few launches.
pub const JUDGED_AFTER: Duration = Duration::from_secs(10);

/// The share of launches that are kept below which a run takes long and may not be typical.
const SCARCE: f64 = 0.05;

/// Minimum launches for a share.
pub(super) const LAUNCHES_NEEDED: u64 = 20;

/// Launches so far: kept and dropped.
#[derive(Debug, Default)]
pub struct Launches {
    pub kept: u64,
    pub launched: u64,
    /// By reason.
    pub dropped: BTreeMap<String, u64>,
}

impl Launches {
    pub fn are_scarcely_kept(&self) -> bool {
        self.launched >= LAUNCHES_NEEDED && (self.kept as f64) < SCARCE * self.launched as f64
    }

    /// Why a run takes long: the reason of most drops, a CPU that would drop fewer, and the time left at
    /// this pace.
    pub fn warning(&self, cpu: u32, quieter: Option<u32>, left: Option<Duration>) -> String {
        let kept = share(self.kept as f64 / self.launched.max(1) as f64);
        let launched = count(self.launched);
        let mut words = format!("only {kept} of {launched} launches on CPU {cpu} kept");
        if let Some((reason, _)) = self.dropped.iter().max_by_key(|(_, dropped)| **dropped) {
            words += &format!("; main reason: {reason}");
        }
        if let Some(other) = quieter.filter(|other| *other != cpu) {
            words += &format!("; `--cpu {other}` is less busy");
        }
        if let Some(left) = left.filter(|left| *left >= Duration::from_secs(1)) {
            words += &format!("; {} left at this pace", progress::time(left));
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_within_one_per_cent_whatever_the_order() {
        let mut so_far = SoFar::default();
        assert_eq!(so_far.median_ns(), None);
        for ns in [900_000, 3, -5, 24_500, 100] {
            so_far.add(ns);
        }
        assert_eq!(so_far.count, 5);
        let median = so_far.median_ns().unwrap();
        assert!((median / 100.0 - 1.0).abs() < 0.01, "{median}");
        so_far.add(30_000);
        so_far.add(40_000);
        let median = so_far.median_ns().unwrap();
        assert!((median / 24_500.0 - 1.0).abs() < 0.01, "{median}");
        let mut none = SoFar::default();
        none.add(0);
        assert_eq!(none.median_ns(), Some(0.0));
    }

    fn of(kept: u64, launched: u64) -> Launches {
        let dropped = [("NMI", 1), ("not idle at the launch", launched - kept - 1)];
        Launches {
            kept,
            launched,
            dropped: dropped.map(|(why, count)| (why.to_owned(), count)).into(),
        }
    }

    #[test]
    fn less_than_a_twentieth_of_enough_launches_is_scarce() {
        assert!(of(0, 20).are_scarcely_kept());
        assert!(!of(0, 19).are_scarcely_kept());
        assert!(of(49, 1000).are_scarcely_kept());
        assert!(!of(50, 1000).are_scarcely_kept());
    }

    #[test]
    fn a_warning_has_the_main_reason_a_quieter_cpu_and_the_time_left() {
        let few = of(50, 10_000);
        assert_eq!(
            few.warning(1, Some(3), Some(Duration::from_secs(7200))),
            "only 0.500% of 10,000 launches on CPU 1 kept; main reason: not idle at the launch; `--cpu 3` is \
             less busy; 2h left at this pace"
        );
        let itself = few.warning(1, Some(1), None);
        assert!(itself.ends_with("not idle at the launch"), "{itself}");
    }
}
