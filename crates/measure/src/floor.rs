//! The floor of the method: the same event on a CPU that does not sleep.

use reveille_results::statistics::Floor;
use reveille_results::{Source, statistics};

/// The floor of a source from its datapoints; `None` for fewer than 20.
pub fn of(state: &str, source: Source, mut latencies: Vec<i64>) -> Option<Floor> {
    const NEEDED: usize = 20;
    if latencies.len() < NEEDED {
        return None;
    }
    let summary = statistics::summarise(&mut latencies)?;
    Some(Floor {
        state: state.into(),
        source: source.as_str().into(),
        count: summary.count,
        median_ns: summary.median_ns,
        p90_ns: summary.p90_ns,
        p99_ns: summary.p99_ns,
        max_ns: summary.max_ns,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_a_floor_need_ten_datapoints_beyond_them() {
        let floor = |count: i64| of("POLL", Source::Timer, (1..=count).collect());
        assert_eq!(floor(19), None);
        let quantiles = |count| {
            let floor = floor(count).unwrap();
            (floor.median_ns, floor.p90_ns, floor.p99_ns, floor.max_ns)
        };
        assert_eq!(quantiles(99), (50, None, None, 99));
        assert_eq!(quantiles(100), (50, Some(90), None, 100));
        assert_eq!(quantiles(999), (500, Some(900), None, 999));
        assert_eq!(quantiles(1000), (500, Some(900), Some(990), 1000));
    }
}
