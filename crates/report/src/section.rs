//! The page's sections, in the order in which they are read.

pub mod charts;
pub mod difference;
pub mod headline;
pub mod setting;
pub mod statistics;

use reveille_results::description::Probe;

/// The probe in words.
pub fn probe(probe: Probe, tool: &str) -> String {
    match probe {
        Probe::Bpf => "BPF programs in the idle loop and at the interrupt's entry".to_owned(),
        Probe::User => "a waiting thread in user space (scheduling is in the figure)".to_owned(),
        Probe::Foreign => format!("another tool's: {tool}"),
    }
}
