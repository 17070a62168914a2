//! What failed, in all cycles.

use std::collections::HashSet;

use super::stopped::stopped;
use super::{CycleResult, Machine};
use crate::cycle::{Call, Failure, Name, Us, is_crash, stage_words, time};

const SECOND_US: Us = 1_000_000;

/// A device that refused or never came back, or a cycle that was broken off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failed {
    /// The number of the first cycle with it.
    pub cycle: usize,
    /// In how many cycles it is.
    pub cycles: usize,
    /// `failed`, `never returned`, `never froze` or `never resumed`.
    pub how: &'static str,
    /// What, and where, in a sentence.
    pub what: String,
}

impl Machine {
    /// What never came to an end first, then in the order of the cycles, each once.
    pub fn failed(&self) -> Vec<Failed> {
        let mut all: Vec<Failed> = Vec::new();
        for cycle in &self.cycles {
            for (how, what) in of_cycle(self, cycle) {
                let same = |one: &&mut Failed| one.how == how && one.what == what;
                match all.iter_mut().find(same) {
                    Some(one) => one.cycles += usize::from(cycle.number != one.cycle),
                    None => all.push(Failed {
                        cycle: cycle.number,
                        cycles: 1,
                        how,
                        what,
                    }),
                }
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
        let (into, message) = (time(said.at - start), &said.message);
        format!("; {into} into it the kernel says \u{201c}{message}\u{201d}")
    });
    format!(
        "{}:{} ({}), called {} after the start of the cycle{after}{said}",
        machine.called(&call.device, call.driver.as_ref()),
        function.unwrap_or_default(),
        stage_words(call.stage),
        time(start - cycle.start_us)
    )
}

/// A failure of which the kernel may log several lines: of the callback, of its caller, of the device, and that
/// the stage failed; or that a wake-up is pending, and of which source.
struct One<'a> {
    first: &'a Failure,
    device: Option<&'a Name>,
    driver: Option<&'a Name>,
    function: Option<&'a str>,
    code: Option<&'a str>,
    sources: Vec<&'a str>,
}

impl<'a> One<'a> {
    /// `PM: dpm_run_callback(): genpd_suspend_noirq+0x0/0x10 returns -110`, `failed to suspend: error -16`
    fn of(first: &'a Failure) -> Self {
        let returned = first.message.split_once(" returns ");
        let function = returned.and_then(|(head, _)| {
            let name = head.rsplit_once("(): ").map_or(head, |(_, name)| name);
            name.split(['+', ' ']).next()
        });
        let mut code = returned;
        for before in ["error ", "code ", "err="] {
            code = code.or_else(|| first.message.split_once(before));
        }
        Self {
            first,
            device: first.device.as_ref(),
            driver: first.driver.as_ref(),
            function,
            code: code.map(|(_, code)| code),
            sources: Vec::new(),
        }
    }

    /// Does it only tell what the failure before it led to?
    fn follows(&self, before: &Self) -> bool {
        let message = &self.first.message;
        let is_crash = |one: &Self| is_crash(one.first.message.as_bytes());
        if is_crash(self) {
            // A watchdog of devices panics.
            return is_crash(before) || self.device.is_some() && self.device == before.device;
        }
        let is_placed = before.device.is_some()
            || before.first.stage.is_none()
            || before.first.stage == self.first.stage;
        let is_of_all = message.contains("devices failed") && is_placed;
        is_of_all || message.starts_with("Non-boot CPUs are not")
    }

    /// Another line on the same failure. The first callback is the driver's own, those after it are of the bus
    /// that called it.
    fn takes(&mut self, next: &Self) -> bool {
        if next.device.is_none() && next.code.is_none() {
            let message = &*next.first.message;
            let stops = ["Wakeup pending", " aborted after "];
            let is_stopped = stops.iter().any(|words| self.first.message.contains(words));
            let names = ["wakeup source", "Wakeup Source", "Wakeup pending"];
            if is_stopped && names.iter().any(|words| message.contains(words)) {
                let is_new = message != self.first.message && !self.sources.contains(&message);
                self.sources.extend(is_new.then_some(message));
                return true;
            }
        }
        if next.follows(self) {
            return true;
        }
        let both = self.device.zip(next.device);
        let is_same = both.is_none_or(|(one, other)| one == other);
        if !is_same || self.code.is_none() || self.code != next.code {
            return false;
        }
        self.device = self.device.or(next.device);
        self.driver = self.driver.or(next.driver);
        self.function = self.function.or(next.function);
        true
    }

    fn words(&self, machine: &Machine, cycle: &CycleResult) -> String {
        let device = self.device.map(|device| {
            let mut calls = cycle.calls.iter().map(|one| &one.call);
            let call = calls.find(|call| call.device == *device);
            let driver = self.driver.or(call.and_then(|call| call.driver.as_ref()));
            machine.called(device, driver) + ": "
        });
        let what = match (self.function, self.code) {
            (Some(function), Some(code)) => format!("{function} returned {code}"),
            _ => self.first.message.replace("err=", "returned "),
        };
        let parts = [&[&*what], &self.sources[..]].concat();
        let what = parts.join("; ");
        let stage = self.first.stage;
        let stage = stage.map(|stage| format!(" ({})", stage_words(stage)));
        device.unwrap_or_default() + &what + &stage.unwrap_or_default()
    }
}

/// How, and what.
fn of_cycle(machine: &Machine, cycle: &CycleResult) -> Vec<(&'static str, String)> {
    let mut failures: Vec<One> = Vec::new();
    for next in cycle.failures.iter().map(One::of) {
        if !failures.last_mut().is_some_and(|one| one.takes(&next)) {
            failures.push(next);
        }
    }
    let reported: HashSet<&Name> = failures.iter().filter_map(|one| one.device).collect();
    let words = |one: &One<'_>| ("failed", one.words(machine, cycle));
    let mut all = Vec::from_iter(failures.iter().map(words));
    all.extend(stopped(cycle));
    let (last, until) = (cycle.last_stage(), cycle.until_us());
    for one in &cycle.calls {
        let (call, stage) = (&one.call, stage_words(one.call.stage));
        match (call.result, call.start, call.end) {
            (Some(code @ ..0), _, _) if !reported.contains(&call.device) => {
                let device = machine.called(&call.device, call.driver.as_ref());
                all.push(("failed", format!("{device}: returned {code} ({stage})")));
            }
            (_, Some(start), None) => {
                let lasts = cycle.cut && Some(call.stage) == last;
                if lasts || !cycle.cut {
                    let until = lasts.then_some(until);
                    let what = never_returned(machine, cycle, call, start, until);
                    all.push(("never returned", what));
                }
            }
            _ => {}
        }
    }
    all
}
