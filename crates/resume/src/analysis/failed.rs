//! What failed, of all cycles: it stands out wherever a machine is shown.

use super::{CycleResult, Machine, stage_words};

/// A device that refused or never came back, or a cycle that was broken off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failed {
    /// The cycle's number.
    pub cycle: usize,
    /// `failed` or `never returned`.
    pub how: &'static str,
    /// What, and where, in a sentence.
    pub what: String,
}

impl Machine {
    /// In the order of the cycles; what the kernel said of a device is not said again by the value
    /// that its call returned.
    pub fn failed(&self) -> Vec<Failed> {
        self.cycles.iter().flat_map(of_cycle).collect()
    }
}

fn of_cycle(cycle: &CycleResult) -> Vec<Failed> {
    let failed = |how, what| Failed {
        cycle: cycle.number,
        how,
        what,
    };
    let mut all = Vec::new();
    for failure in &cycle.failures {
        let device = failure.device.as_deref();
        let device = device.map_or(String::new(), |device| format!("{device}: "));
        let stage = failure
            .stage
            .map_or(String::new(), |stage| format!(" ({})", stage_words(stage)));
        all.push(failed(
            "failed",
            format!("{device}{}{stage}", failure.message),
        ));
    }
    let said = |device| {
        let mut failures = cycle.failures.iter();
        failures.any(|failure| failure.device.as_ref() == Some(device))
    };
    for one in &cycle.calls {
        let (call, stage) = (&one.call, stage_words(one.call.stage));
        match (call.result, call.start, call.end) {
            (Some(code @ ..0), _, _) if !said(&call.device) => {
                all.push(failed(
                    "failed",
                    format!("{}: returned {code} ({stage})", call.device),
                ));
            }
            (_, Some(_), None) if !cycle.cut => {
                all.push(failed(
                    "never returned",
                    format!("{} ({stage})", call.device),
                ));
            }
            _ => {}
        }
    }
    all
}
