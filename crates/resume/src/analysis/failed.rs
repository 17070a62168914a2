//! What failed, in all cycles.

use std::collections::HashSet;

use super::{CycleResult, Machine};
use crate::cycle::{Call, Us, stage_words, time};

const SECOND_US: Us = 1_000_000;

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

const NEVER: &str = "never returned";

impl Machine {
    /// What never returned first, then in the order of the cycles. A failure that the kernel reported of a
    /// device is not repeated for the value that its call returned.
    pub fn failed(&self) -> Vec<Failed> {
        let mut all: Vec<Failed> = self.cycles.iter().flat_map(of_cycle).collect();
        all.sort_by_key(|one| one.how != NEVER);
        all
    }
}

/// What was called, and when; and what comes after it in the log.
fn never_returned(cycle: &CycleResult, call: &Call, start: Us, until: Option<Us>) -> String {
    let function = call.function.as_ref().map(|name| format!(" {name}"));
    let after = match until.map(|until| until - start) {
        None => "; later stages are in the log".to_owned(),
        Some(..SECOND_US) => "; there the log ends".to_owned(),
        Some(us) => format!("; the log continues for {}", time(us)),
    };
    format!(
        "{}:{} ({}), called {} after the start of the cycle{after}",
        call.device,
        function.unwrap_or_default(),
        stage_words(call.stage),
        time(start - cycle.start_us)
    )
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
        let stage = failure.stage;
        let stage = stage.map_or(String::new(), |stage| format!(" ({})", stage_words(stage)));
        let what = format!("{device}{}{stage}", failure.message);
        all.push(failed("failed", what));
    }
    let failures = cycle.failures.iter();
    let reported: HashSet<_> = failures.filter_map(|one| one.device.as_ref()).collect();
    let (last, until) = (cycle.last_stage(), cycle.until_us());
    for one in &cycle.calls {
        let (call, stage) = (&one.call, stage_words(one.call.stage));
        match (call.result, call.start, call.end) {
            (Some(code @ ..0), _, _) if !reported.contains(&call.device) => {
                let what = format!("{}: returned {code} ({stage})", call.device);
                all.push(failed("failed", what));
            }
            (_, Some(start), None) => {
                let lasts = cycle.cut && Some(call.stage) == last;
                if lasts || !cycle.cut {
                    let until = lasts.then_some(until);
                    let what = never_returned(cycle, call, start, until);
                    all.push(failed(NEVER, what));
                }
            }
            _ => {}
        }
    }
    all
}
