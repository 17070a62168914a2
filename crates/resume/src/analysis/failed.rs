//! What failed, in all cycles.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use super::stopped::stopped;
use super::{CycleResult, Machine};
use crate::cycle::{Call, Failure, Name, Us, is_crash, stage_words, time};

const SECOND_US: Us = 1_000_000;

/// Of what came to an end, and a bad one.
pub(super) const FAILED: &str = "failed";

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
    /// Its cycle ended with it: the suspend was aborted, or a half never ended.
    pub ends: bool,
}

impl Machine {
    /// What never came to an end first, then in the order of the cycles, each once.
    pub fn failed(&self) -> Vec<Failed> {
        let mut all: Vec<Failed> = Vec::new();
        let mut places: HashMap<_, usize> = HashMap::new();
        for cycle in &self.cycles {
            for next in of_cycle(self, cycle) {
                match places.entry((next.how, next.what.clone())) {
                    Entry::Occupied(place) => {
                        let one: &mut Failed = &mut all[*place.get()];
                        one.cycles += usize::from(cycle.number != one.cycle);
                    }
                    Entry::Vacant(place) => {
                        place.insert(all.len());
                        all.push(next);
                    }
                }
            }
        }
        all.sort_by_key(|one| one.how == FAILED);
        all
    }

    /// What failed, and in which cycles.
    pub(crate) fn placed(&self, one: &Failed) -> String {
        match (self.cycles.len(), one.cycles) {
            (1, _) => one.what.clone(),
            (_, 1) => format!("cycle {}: {}", one.cycle, one.what),
            (all, several) => format!("{} in {several} of {all} cycles", one.what),
        }
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
    failure: Failure,
    function: Option<&'a str>,
    code: Option<&'a str>,
}

impl<'a> One<'a> {
    /// `PM: dpm_run_callback(): genpd_suspend_noirq+0x0/0x10 returns -110`, `failed to suspend: error -16`
    fn of(failure: &'a Failure) -> Self {
        let message = &failure.message;
        let returned = message.split_once(" returns ");
        let function = returned.and_then(|(head, _)| {
            let name = head.rsplit_once("(): ").map_or(head, |(_, name)| name);
            name.split(['+', ' ']).next()
        });
        let words = ["error ", "code ", "err="].into_iter();
        let code = returned.or(words.filter_map(|word| message.split_once(word)).next());
        Self {
            failure: failure.clone(),
            function,
            code: code.map(|(_, code)| code),
        }
    }

    /// Another line on the same failure. The first callback is the driver's own, those after it are of the bus
    /// that called it.
    fn takes(&mut self, next: &Self) -> bool {
        let (first, other) = (&mut self.failure, &next.failure);
        let has = |failure: &Failure, words: &str| failure.message.contains(words);
        let crashes = |failure: &Failure| is_crash(failure.message.as_bytes());
        let both = first.device.as_ref().zip(other.device.as_ref());
        let is_same = both.is_none_or(|(one, other)| one == other);
        // A watchdog of devices panics.
        if crashes(other) {
            return crashes(first) || has(first, "DPM device timeout");
        }
        if other.device.is_none() && next.code.is_none() {
            let words = ["wakeup source", "Wakeup Source", "Wakeup pending"];
            let of_wakeup = |one: &Failure| words.iter().any(|words| has(one, words));
            if of_wakeup(other) && (of_wakeup(first) || has(first, " aborted after ")) {
                let source = other.message.rsplit(": ").next();
                if source.is_some_and(|source| !has(first, source)) {
                    first.message += &format!("; {}", other.message);
                }
                return true;
            }
            let is_placed = first.device.is_some()
                || first.stage.is_none_or(|stage| other.stage == Some(stage));
            return has(other, "devices failed") && is_placed
                || has(other, "CPUs are not disabled");
        }
        // A line that lost its end has no code.
        let is_torn = both.is_some() && next.code.is_none() && has(other, "failed to ");
        if !is_same || self.code.is_none() || self.code != next.code && !is_torn {
            return false;
        }
        first.device = first.device.take().or(other.device.clone());
        first.driver = first.driver.take().or(other.driver.clone());
        self.function = self.function.or(next.function);
        true
    }

    fn words(&self, machine: &Machine, cycle: &CycleResult) -> String {
        let failure = &self.failure;
        let device = failure.device.as_ref().map(|device| {
            let call = cycle.calls.iter().find(|one| one.call.device == *device);
            let driver = call.and_then(|one| one.call.driver.as_ref());
            machine.called(device, failure.driver.as_ref().or(driver)) + ": "
        });
        let what = match (self.function, self.code) {
            (Some(function), Some(code)) => format!("{function} returned {code}"),
            _ => failure.message.replace("err=", "returned "),
        };
        let stage = failure
            .stage
            .map(|stage| format!(" ({})", stage_words(stage)));
        device.unwrap_or_default() + &what + &stage.unwrap_or_default()
    }
}

fn of_cycle(machine: &Machine, cycle: &CycleResult) -> Vec<Failed> {
    let mut failures: Vec<One> = Vec::new();
    for next in cycle.failures.iter().map(One::of) {
        if !failures.last_mut().is_some_and(|one| one.takes(&next)) {
            failures.push(next);
        }
    }
    let failed = |how, what, ends| Failed {
        cycle: cycle.number,
        cycles: 1,
        how,
        what,
        ends,
    };
    let reported = failures.iter().filter_map(|one| one.failure.device.clone());
    let reported: HashSet<Name> = reported.collect();
    let words = failures.iter().map(|one| {
        let aborts = cycle.aborted && !cycle.cut && one.failure.is_of_suspend();
        failed(FAILED, one.words(machine, cycle), aborts)
    });
    let mut all = Vec::from_iter(words);
    all.extend(stopped(cycle).map(|(how, what)| failed(how, what, true)));
    let (last, until) = (cycle.last_stage(), cycle.until_us());
    for one in &cycle.calls {
        let (call, stage) = (&one.call, stage_words(one.call.stage));
        match (call.result, call.start, call.end) {
            (Some(code @ ..0), _, _) if !reported.contains(&call.device) => {
                let device = machine.called(&call.device, call.driver.as_ref());
                let what = format!("{device}: returned {code} ({stage})");
                all.push(failed(FAILED, what, false));
            }
            (_, Some(start), None) => {
                let lasts = cycle.cut && Some(call.stage) == last;
                // What is left of a damaged line has neither.
                let is_whole = call.function.is_some() || call.parent.is_some();
                if lasts || !cycle.cut && is_whole {
                    let until = lasts.then_some(until);
                    let what = never_returned(machine, cycle, call, start, until);
                    all.push(failed("never returned", what, lasts));
                }
            }
            _ => {}
        }
    }
    all
}
