//! What failed, in all cycles.

use std::collections::HashSet;

use super::{CycleResult, Machine};
use crate::cycle::{Call, Failure, Name, StageKind, Us, stage_words, time};

const SECOND_US: Us = 1_000_000;

/// A device that refused or never came back, or a cycle that was broken off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failed {
    /// The number of the first cycle with it.
    pub cycle: usize,
    /// In how many cycles it is.
    pub cycles: usize,
    /// `failed`, `never returned` or `never froze`.
    pub how: &'static str,
    /// What, and where, in a sentence.
    pub what: String,
}

const NEVER: &str = "never returned";

impl Machine {
    /// What never came to an end first, then in the order of the cycles, each once.
    pub fn failed(&self) -> Vec<Failed> {
        let mut all: Vec<Failed> = Vec::new();
        for (how, what, cycle) in self.cycles.iter().flat_map(|cycle| of_cycle(self, cycle)) {
            let same = |one: &&mut Failed| one.how == how && one.what == what;
            match all.iter_mut().find(same) {
                Some(one) => one.cycles += usize::from(cycle != one.cycle),
                None => all.push(Failed {
                    cycle,
                    cycles: 1,
                    how,
                    what,
                }),
            }
        }
        all.sort_by_key(|one| one.how == "failed");
        all
    }
}

/// What was called, and when; and what comes after it in the log.
fn never_returned(
    machine: &Machine,
    cycle: &CycleResult,
    call: &Call,
    start: Us,
    until: Option<Us>,
) -> String {
    let function = call.function.as_ref().map(|name| format!(" {name}"));
    let after = match until.map(|until| until - start) {
        None => "; later stages are in the log".to_owned(),
        Some(..SECOND_US) => "; there the log ends".to_owned(),
        Some(us) => format!("; the log continues for {}", time(us)),
    };
    let said = cycle.said_of(&call.device, start..=Us::MAX);
    let said = said.map_or(String::new(), |said| {
        let into = time(said.at - start);
        format!(
            "; {into} into it the kernel says \u{201c}{}\u{201d}",
            said.message
        )
    });
    format!(
        "{}:{} ({}), called {} after the start of the cycle{after}{said}",
        machine.called(&call.device, None),
        function.unwrap_or_default(),
        stage_words(call.stage),
        time(start - cycle.start_us)
    )
}

/// A failure of which the kernel may log several lines: of the callback, of its caller, of the device, and that
/// the stage failed.
struct One {
    device: Option<Name>,
    stage: Option<StageKind>,
    function: Option<String>,
    code: Option<String>,
    message: String,
}

impl One {
    /// `PM: dpm_run_callback(): genpd_suspend_noirq+0x0/0x10 returns -110`, `failed to suspend: error -16`
    fn of(failure: &Failure) -> One {
        let message = &failure.message;
        let returned = message.split_once(" returns ");
        let function = returned.and_then(|(head, _)| {
            let name = head.rsplit_once("(): ").map_or(head, |(_, name)| name);
            name.split(['+', ' ']).next().map(str::to_owned)
        });
        let code = returned.or_else(|| message.split_once("error "));
        // `Device 00:01 failed to suspend: error -16`, before Linux 5.1.
        let device = message
            .strip_prefix("Device ")
            .and_then(|rest| rest.split(' ').next());
        One {
            device: failure.device.clone().or(device.map(Name::from)),
            stage: failure.stage,
            function,
            code: code.map(|(_, code)| code.to_owned()),
            message: message.clone(),
        }
    }

    /// Another line on the same failure. The last callback is the device's own.
    fn takes(&mut self, next: &One) -> bool {
        let is_stage = next.device.is_none() && next.code.is_none();
        let is_of_devices = next.message.contains("devices failed");
        if is_stage {
            return is_of_devices && (self.device.is_some() || self.stage == next.stage);
        }
        let is_same = self.device.is_none() || next.device.is_none() || self.device == next.device;
        if !is_same || self.code.is_none() || self.code != next.code {
            return false;
        }
        self.device = self.device.take().or(next.device.clone());
        self.function = next.function.clone().or(self.function.take());
        true
    }

    fn words(self, machine: &Machine) -> String {
        let device = self.device.as_ref();
        let device = device.map_or(String::new(), |device| {
            format!("{}: ", machine.called(device, None))
        });
        let what = match (self.function, self.code) {
            (Some(function), Some(code)) => format!("{function} {code}"),
            _ => self.message,
        };
        let stage = self.stage;
        let stage = stage.map_or(String::new(), |stage| format!(" ({})", stage_words(stage)));
        format!("{device}{what}{stage}")
    }
}

/// How, what, and the cycle.
fn of_cycle(machine: &Machine, cycle: &CycleResult) -> Vec<(&'static str, String, usize)> {
    let mut all = Vec::new();
    let mut failures: Vec<One> = Vec::new();
    for next in cycle.failures.iter().map(One::of) {
        if !failures.last_mut().is_some_and(|one| one.takes(&next)) {
            failures.push(next);
        }
    }
    let reported: HashSet<_> = failures
        .iter()
        .filter_map(|one| one.device.clone())
        .collect();
    all.extend(
        failures
            .into_iter()
            .map(|one| ("failed", one.words(machine))),
    );
    if cycle.stalls() {
        all.push(("never froze", stalled(cycle)));
    }
    let (last, until) = (cycle.last_stage(), cycle.until_us());
    for one in &cycle.calls {
        let (call, stage) = (&one.call, stage_words(one.call.stage));
        match (call.result, call.start, call.end) {
            (Some(code @ ..0), _, _) if !reported.contains(&call.device) => {
                let device = machine.called(&call.device, None);
                let what = format!("{device}: returned {code} ({stage})");
                all.push(("failed", what));
            }
            (_, Some(start), None) => {
                let lasts = cycle.cut && Some(call.stage) == last;
                if lasts || !cycle.cut {
                    let until = lasts.then_some(until);
                    all.push((NEVER, never_returned(machine, cycle, call, start, until)));
                }
            }
            _ => {}
        }
    }
    let numbered = all.into_iter().map(|(how, what)| (how, what, cycle.number));
    numbered.collect()
}

/// The suspend began, and then nothing.
fn stalled(cycle: &CycleResult) -> String {
    let start = cycle.start_us as f64 / 1e6;
    let last = cycle.gaps.first().map_or(String::new(), |gap| {
        format!("; its last line is \u{201c}{}\u{201d}", gap.message)
    });
    format!(
        "the suspend that began at {start:.3} had not frozen the processes {} later{last}",
        time(cycle.until_us() - cycle.start_us)
    )
}
