//! The floor of the method: the same event on a CPU that does not sleep.

use reveille_results::statistics::Floor;
use reveille_results::{Source, statistics};

/// The floor of a source from its latencies, by round; `None` for fewer than 20.
pub fn of(state: &str, source: Source, mut rounds: Vec<Vec<i64>>) -> Option<Floor> {
    const NEEDED: usize = 20;
    let mut latencies = rounds.concat();
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
        medians_ns: match rounds.len() {
            1 => Vec::new(),
            _ => rounds
                .iter_mut()
                .map(|round| Some(statistics::summarise(round)?.median_ns))
                .collect(),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_a_floor_need_ten_datapoints_beyond_them() {
        let floor = |count: i64| of("POLL", Source::Timer, vec![(1..=count).collect()]);
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

    #[test]
    fn each_of_several_rounds_has_its_median() {
        let rounds = vec![(1..=11).collect(), Vec::new(), (101..=111).collect()];
        let floor = of("POLL", Source::Hpet, rounds).unwrap();
        assert_eq!(floor.medians_ns, [Some(6), None, Some(106)]);
        let one = of("POLL", Source::Hpet, vec![(1..=22).collect()]).unwrap();
        assert!(one.medians_ns.is_empty());
    }
}
