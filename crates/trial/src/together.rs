//! The time in which all CPUs sleep at once, counted by BPF programs of another crate.

use reveille_kernel::asleep::Together;

/// How it stands; `None` where a CPU came or went since the beginning.
pub type Counter<'a> = &'a dyn Fn() -> Option<Together>;

/// Between two readings.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Between {
    pub percent: f64,
    pub mean_ns: Option<f64>,
    /// Who ended it, most often first, and how often a second.
    pub enders: Vec<(String, f64)>,
}

impl Between {
    pub fn of(before: &Together, after: &Together) -> Option<Self> {
        let elapsed_ns = after.at_ns.checked_sub(before.at_ns).filter(|ns| *ns > 0)?;
        let asleep_ns = after.asleep_ns.checked_sub(before.asleep_ns)?;
        let times = after.times.checked_sub(before.times)?;
        let ended_ns = after.ended_ns.checked_sub(before.ended_ns)?;
        Some(Self {
            percent: (100.0 * asleep_ns as f64 / elapsed_ns as f64).clamp(0.0, 100.0),
            mean_ns: (times > 0).then(|| ended_ns as f64 / times as f64),
            enders: enders(before, after, elapsed_ns as f64 / 1e9),
        })
    }
}

fn enders(before: &Together, after: &Together, elapsed_s: f64) -> Vec<(String, f64)> {
    let mut enders: Vec<(String, f64)> = after
        .ended_by
        .iter()
        .map(|(name, times)| {
            let earlier = before.ended_by.get(name).copied().unwrap_or_default();
            (
                name.clone(),
                times.saturating_sub(earlier) as f64 / elapsed_s,
            )
        })
        .filter(|(_, per_s)| *per_s > 0.0)
        .collect();
    enders.sort_by(|a, b| b.1.total_cmp(&a.1));
    enders
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_present_sleep_counts_for_the_share_and_ended_ones_for_the_mean() {
        let before = Together {
            at_ns: 1000,
            asleep_ns: 300,
            times: 2,
            ended_ns: 250,
            ended_by: [("a".into(), 2)].into(),
        };
        let after = Together {
            at_ns: 2000,
            asleep_ns: 900,
            times: 6,
            ended_ns: 850,
            ended_by: [("a".into(), 3), ("b".into(), 3)].into(),
        };
        let between = Between::of(&before, &after).unwrap();
        assert_eq!((between.percent, between.mean_ns), (60.0, Some(150.0)));
        assert_eq!(between.enders, [("b".into(), 3e6), ("a".into(), 1e6)]);
        let nothing = Together {
            at_ns: 1500,
            ..before.clone()
        };
        assert_eq!(Between::of(&before, &nothing).unwrap().mean_ns, None);
        assert_eq!(Between::of(&before, &before), None);
    }
}
