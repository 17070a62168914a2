//! The samples of a result: each idle state's latencies, source by source.

use reveille_results::Loaded;
use reveille_results::statistics::{self, UNKNOWN};

use crate::target::sleeps;
use crate::{Error, Latency, Result, Target};

/// One idle state of the machine, and what was measured of it.
pub(crate) struct MeasuredState {
    pub(crate) name: String,
    /// As cpuidle numbers it; `None` if unknown.
    pub(crate) index: Option<u32>,
    /// Source and latencies, ns, ascending; empty where none was measured.
    pub(crate) samples: Vec<(String, Vec<i64>)>,
}

/// What a result has of one latency.
pub(crate) struct Measured {
    /// Shallow ones first: in the driver's order, else by index, else by name. The latencies have
    /// no part in the order, which the judgement follows.
    pub(crate) states: Vec<MeasuredState>,
    /// The sources that were asked for, also without a datapoint, and those that the result has datapoints of, also if all
    /// are of states that poll; ascending.
    pub(crate) sources: Vec<String>,
    /// Datapoints of unknown states: they do not count.
    pub(crate) of_unknown_state: u64,
    /// Datapoints that lack this latency.
    pub(crate) without_latency: u64,
}

impl Measured {
    pub(crate) fn of(loaded: &Loaded, target: &Target, latency: Latency) -> Result<Self> {
        let columns = &loaded.columns;
        if columns.integers(latency.column()).is_none() {
            return Err(Error::NoLatency(latency));
        }
        if columns.rows == 0 {
            return Err(Error::NoDatapoints);
        }
        let mut states: Vec<MeasuredState> = target
            .states
            .iter()
            .map(|state| MeasuredState {
                name: state.name.clone(),
                index: Some(state.index),
                samples: Vec::new(),
            })
            .collect();
        let (mut of_unknown_state, mut kept) = (0, 0);
        for (group, sample) in statistics::samples(columns, latency.column()) {
            kept += sample.len() as u64;
            if group.state == UNKNOWN {
                of_unknown_state += sample.len() as u64;
                continue;
            }
            let index = group.index.and_then(|index| u32::try_from(index).ok());
            add(&mut states, group.state, index, group.source, sample);
        }
        if kept == 0 {
            return Err(Error::NoLatency(latency));
        }
        if target.states.is_empty() {
            states.sort_by(|a, b| depth(a).cmp(&depth(b)));
        }
        // Without the column no datapoint has its source.
        let mut sources = match columns.names("source") {
            Some(_) => loaded.description.settings.sources.clone(),
            None => Vec::new(),
        };
        for state in &mut states {
            for (source, sample) in &mut state.samples {
                sample.sort_unstable();
                if !sources.contains(source) {
                    sources.push(source.clone());
                }
            }
            state.samples.sort_by(|(a, _), (b, _)| a.cmp(b));
        }
        sources.sort_unstable();
        sources.dedup();
        Ok(Self {
            states,
            sources,
            of_unknown_state,
            without_latency: columns.rows as u64 - kept,
        })
    }
}

/// Adds a sample; a new state comes last.
fn add(
    states: &mut Vec<MeasuredState>,
    name: String,
    index: Option<u32>,
    source: String,
    sample: Vec<i64>,
) {
    let place = states.iter().position(|state| state.name == name);
    let place = place.unwrap_or_else(|| {
        states.push(MeasuredState {
            name,
            index,
            samples: Vec::new(),
        });
        states.len() - 1
    });
    let samples = &mut states[place].samples;
    match samples.iter_mut().find(|(known, _)| *known == source) {
        Some((_, known)) => known.extend(sample),
        None => samples.push((source, sample)),
    }
}

/// By index; if it is unknown by name, so that C1 comes before C1E and C8 before C10.
fn depth(state: &MeasuredState) -> (u32, (bool, u64, &str, &str)) {
    (state.index.unwrap_or(u32::MAX), depth_in_name(&state.name))
}

/// Whether it sleeps, the first number in the name, what follows it, and all of it.
fn depth_in_name(name: &str) -> (bool, u64, &str, &str) {
    let rest = name.trim_start_matches(|c: char| !c.is_ascii_digit());
    let suffix = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    let number = &rest[..rest.len() - suffix.len()];
    (
        sleeps(name),
        number.parse().unwrap_or(u64::MAX),
        suffix,
        name,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_table_names_give_the_depth() {
        let mut names = ["C10", "C6", "C1E", "POLL", "C7s", "C1", "C3"];
        names.sort_by_key(|name| depth_in_name(name));
        assert_eq!(names, ["POLL", "C1", "C1E", "C3", "C6", "C7s", "C10"]);
    }
}
