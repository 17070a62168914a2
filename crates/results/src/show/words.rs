//! A result, its probe and its states in words.

use crate::Description;
use crate::description::Probe;
use crate::statistics::StateStatistics;

/// The result's name, its CPU and its machine.
pub fn subject(description: &Description) -> String {
    let mut words = format!("{}: {}", description.name, description.settings.cpu_name());
    if let Some(model) = &description.machine.cpu_model {
        words += &format!(" of {model}");
    }
    if let Some(host) = &description.machine.hostname {
        words += &format!(" ({host})");
    }
    words
}

/// What measured, and what its figures include: after "measured".
pub fn by_probe(description: &Description) -> String {
    match description.probe {
        Probe::Bpf => "by BPF programs in the idle loop and at the interrupt's entry".to_owned(),
        Probe::User => {
            "by a waiting thread: the figures include the interrupt and the scheduler".to_owned()
        }
        Probe::Foreign => format!("by another tool ({})", description.tool),
    }
}

/// The state; with its source where there are several.
pub fn state(one: &StateStatistics, all: &[StateStatistics]) -> String {
    match all.iter().any(|other| other.source != one.source) {
        true => format!("{} ({})", one.state, one.source),
        false => one.state.clone(),
    }
}
