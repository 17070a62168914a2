//! Two results, state by state: does one wake slower, by how much, and how sure is that?
//!
//! Latencies are skewed and tied, so nothing here supposes a normal distribution or equal spreads:
//! the test is Brunner and Munzel's, and the differences of quantiles have intervals from order
//! statistics.

pub use reveille_figures::two_samples::{Comparison, Difference, VALUES_MIN};
use reveille_figures::{holm, two_samples};
use serde::{Deserialize, Serialize};

use crate::Columns;
use crate::statistics::{self, Group};

/// A difference is called significant below this.
const SIGNIFICANT: f64 = 0.05;

/// One state in both results.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StateComparison {
    /// The requested state's name.
    pub state: String,
    /// As in the column `source`.
    pub source: String,
    /// A and B in this state, by this source.
    pub comparison: Comparison,
    /// The p-value with all states of these results taken into account ([`holm`]).
    pub adjusted_p_value: f64,
}

impl StateComparison {
    /// Is one side slower, and not by chance alone? (5%, all states taken into account)
    pub fn is_significant(&self) -> bool {
        self.adjusted_p_value < SIGNIFICANT
    }
}

/// All states that both results have.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Comparisons {
    /// By state and source, in the order of A's datapoints.
    pub states: Vec<StateComparison>,
    /// States and sources with fewer than [`VALUES_MIN`] datapoints on one side.
    pub not_compared: Vec<(String, String)>,
}

/// Compares two sets of datapoints by (requested state, source); states are matched by name.
pub fn by_state(a: &Columns, b: &Columns) -> Comparisons {
    let mut comparisons = Comparisons::default();
    let mut others = statistics::samples(b, statistics::WAKE_LATENCY);
    for (group, mut sample_a) in merged(statistics::samples(a, statistics::WAKE_LATENCY)) {
        let mut sample_b = Vec::new();
        others.retain_mut(|(other, sample)| {
            let same = other.state == group.state && other.source == group.source;
            if same {
                sample_b.append(sample);
            }
            !same
        });
        match two_samples::compare(&mut sample_a, &mut sample_b) {
            Some(comparison) => comparisons.states.push(StateComparison {
                state: group.state,
                source: group.source,
                adjusted_p_value: comparison.p_value,
                comparison,
            }),
            None => comparisons.not_compared.push((group.state, group.source)),
        }
    }
    let others = others
        .into_iter()
        .map(|(group, _)| (group.state, group.source));
    comparisons.not_compared.extend(others);
    adjust(&mut comparisons.states);
    comparisons
}

/// Groups that differ only in the index (hybrid CPUs number their states differently) are one.
fn merged(samples: Vec<(Group, Vec<i64>)>) -> Vec<(Group, Vec<i64>)> {
    let mut merged: Vec<(Group, Vec<i64>)> = Vec::new();
    for (group, mut sample) in samples {
        let same = |(known, _): &&mut (Group, Vec<i64>)| {
            known.state == group.state && known.source == group.source
        };
        match merged.iter_mut().find(same) {
            Some((_, known)) => known.append(&mut sample),
            None => merged.push((group, sample)),
        }
    }
    merged
}

fn adjust(states: &mut [StateComparison]) {
    let p_values: Vec<f64> = states.iter().map(|one| one.comparison.p_value).collect();
    for (one, adjusted) in states.iter_mut().zip(holm::adjusted(&p_values)) {
        one.adjusted_p_value = adjusted;
    }
}

#[cfg(test)]
mod tests;
