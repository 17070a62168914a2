//! The floor of the method: the same event on a CPU where nothing sleeps.

use reveille_dataset::Source;
use reveille_dataset::description::Floor;

/// The floor of a source from its datapoints; `None` for fewer than 20.
pub fn of(state: &str, source: Source, mut latencies: Vec<i64>) -> Option<Floor> {
    const NEEDED: usize = 20;
    if latencies.len() < NEEDED {
        return None;
    }
    latencies.sort_unstable();
    // The least value that a share `p` of the sample does not exceed (Hyndman and Fan, type 1).
    let quantile = |p: f64| latencies[((p * latencies.len() as f64).ceil() as usize).max(1) - 1];
    Some(Floor {
        state: state.into(),
        source: match source {
            Source::Timer => "timer",
            Source::Remote => "remote",
            Source::Nic => "nic",
        }
        .into(),
        count: latencies.len() as u64,
        median_ns: quantile(0.5),
        p90_ns: quantile(0.9),
        p99_ns: quantile(0.99),
        max_ns: quantile(1.0),
    })
}
