//! Which metrics there are. `docs/src/reference/metrics.md` explains each.
//!
//! What is unknown is left out; nothing stands in for it. Labels are numbers of CPUs and users, names of idle
//! states, and names of rules: what a program says of itself never becomes one.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use reveille_kernel::{Cpu, Idle, IdleState, Root, energy, limits};

use super::energy::Energy;
use super::latency::Latency;
use crate::status::{RuleStatus, Status};
use reveille_show::exposition::Exposition;
use reveille_show::exposition::Kind::{Counter, Gauge};

/// Users with a label of their own, as long as the service runs; others are `other`.
const USERS_MAX: usize = 64;

/// What is read at each scrape, and what is known from the scrapes before.
pub struct Content {
    root: Root,
    started: SystemTime,
    idle: Option<Idle>,
    energy: Energy,
    users: BTreeSet<u32>,
    latency: Latency,
    say: Box<dyn Fn(&str)>,
}

/// A metric of each idle state: its name, what it is, and its value.
type OfState = (&'static str, &'static str, fn(&IdleState) -> Option<f64>);

const COUNTED_OF_STATES: [OfState; 5] = [
    (
        "reveille_idle_seconds_total",
        "Time in the idle state since boot.",
        |state| state.time_us.map(|us| us as f64 / 1e6),
    ),
    (
        "reveille_idle_entries_total",
        "Entries into the idle state since boot.",
        |state| state.usage.map(|count| count as f64),
    ),
    (
        "reveille_idle_above_total",
        "Entries that were too deep for the time that the CPU was idle.",
        |state| state.above.map(|count| count as f64),
    ),
    (
        "reveille_idle_below_total",
        "Entries for which a deeper state would have been better.",
        |state| state.below.map(|count| count as f64),
    ),
    (
        "reveille_idle_rejected_total",
        "Requests for the idle state that the hardware or firmware rejected.",
        |state| state.rejected.map(|count| count as f64),
    ),
];

const FIGURES_OF_STATES: [OfState; 3] = [
    (
        "reveille_idle_exit_latency_seconds",
        "Exit latency of the idle state by the driver's table.",
        |state| state.exit_latency_us.map(|us| us as f64 / 1e6),
    ),
    (
        "reveille_idle_target_residency_seconds",
        "Target residency of the idle state by the driver's table.",
        |state| state.target_residency_us.map(|us| us as f64 / 1e6),
    ),
    (
        "reveille_idle_disabled",
        "Is the idle state disabled on the CPU?",
        |state| state.disabled.map(f64::from),
    ),
];

impl Content {
    /// Of a machine and the service that started then; `say` gets lines for the log.
    pub fn new(root: Root, started: SystemTime, say: impl Fn(&str) + 'static) -> Self {
        Self {
            energy: Energy::of(&root),
            root,
            started,
            idle: None,
            users: BTreeSet::new(),
            latency: Latency::default(),
            say: Box::new(say),
        }
    }

    /// All metrics, now.
    pub fn text(&mut self, status: &Status) -> String {
        let mut to = Exposition::default();
        self.latency
            .switch(status.wake_latency, &self.root, &self.say);
        self.machine(&mut to);
        bounds(&mut to, status);
        rules(&mut to, &status.rules);
        self.programs(&mut to, status);
        self.service(&mut to, status);
        to.into_text()
    }

    fn machine(&mut self, to: &mut Exposition) {
        let read = match &mut self.idle {
            Some(idle) => idle.reread(&self.root).is_ok(),
            none => {
                *none = Idle::read(&self.root).ok();
                none.is_some()
            }
        };
        if let Some(idle) = self.idle.as_ref().filter(|_| read) {
            idling(to, &idle.cpus);
            self.latency.write(idle, to);
        }
        let mut family = to.family(
            Counter,
            "reveille_energy_joules_total",
            "Energy that the processor's counters (RAPL) report.",
        );
        for ((domain, package), joules) in self.energy.read_j(&self.root, Instant::now()) {
            let package = package
                .map(|package| package.to_string())
                .unwrap_or_default();
            if let Some(joules) = joules {
                family.add(&[("domain", domain), ("package", &package)], *joules);
            }
        }
        let mut family = to.family(
            Gauge,
            "reveille_battery_power_watts",
            "Power that the battery gives; there only while it discharges.",
        );
        for battery in energy::discharging(&self.root) {
            family.add(&[("battery", &battery.battery)], battery.watts);
        }
    }

    /// Holds of programs, by user.
    fn programs(&mut self, to: &mut Exposition, status: &Status) {
        let mut of_users: BTreeMap<Option<u32>, u32> = BTreeMap::new();
        for hold in &status.holds {
            if self.users.len() < USERS_MAX {
                self.users.insert(hold.uid);
            }
            let user = Some(hold.uid).filter(|uid| self.users.contains(uid));
            *of_users.entry(user).or_default() += 1;
        }
        let mut family = to.family(
            Gauge,
            "reveille_program_holds",
            "Latency bounds that programs of this user ask for now.",
        );
        for (user, holds) in of_users {
            let user = user.map_or("other".to_owned(), |uid| uid.to_string());
            family.add(&[("uid", &user)], holds.into());
        }
    }

    fn service(&self, to: &mut Exposition, status: &Status) {
        to.one(
            Gauge,
            "reveille_rules",
            "Rules of the file, in force or not.",
            status.rules.len() as f64,
        );
        to.one(
            Gauge,
            "reveille_rules_refused",
            "Is the file's present content refused? The rules before it stay.",
            f64::from(status.refused.is_some()),
        );
        let read = humantime::parse_rfc3339(&status.read).ok();
        if let Some(read) = read.and_then(unix_s) {
            to.one(
                Gauge,
                "reveille_rules_read_time_seconds",
                "When the rules were read, since 1970.",
                read,
            );
        }
        to.one(
            Gauge,
            "reveille_problems",
            "What does not work; reveille govern status names it.",
            status.problems.len() as f64,
        );
        if let Some(started) = unix_s(self.started) {
            to.one(
                Gauge,
                "reveille_service_start_time_seconds",
                "When the service started, since 1970.",
                started,
            );
        }
        to.one(
            Counter,
            "reveille_service_cpu_seconds_total",
            "CPU time of the service.",
            status.own.cpu_s,
        );
        to.one(
            Counter,
            "reveille_service_wakeups_total",
            "How often a thread of the service ran after it had waited.",
            status.own.wakeups as f64,
        );
        let version = status.tool.rsplit(' ').next().unwrap_or_default();
        to.family(Gauge, "reveille_build_info", "1, and the version.")
            .add(&[("version", version)], 1.0);
        if let Some(accounted) = status.accounted {
            to.one(
                Counter,
                "reveille_bounds_late_total",
                "Idle entries before a bound that was asked for was in force.",
                accounted.late as f64,
            );
            to.one(
                Counter,
                "reveille_bpf_runs_total",
                "Runs of the service's BPF programs.",
                accounted.program_runs as f64,
            );
            to.one(
                Counter,
                "reveille_bpf_seconds_total",
                "Time of the service's BPF programs, without what empty ones take.",
                accounted.program_ns as f64 / 1e9,
            );
        }
    }
}

/// Idle states, and how they were used.
fn idling(to: &mut Exposition, cpus: &[Cpu]) {
    let kinds = [
        (Counter, &COUNTED_OF_STATES[..]),
        (Gauge, &FIGURES_OF_STATES),
    ];
    for (kind, metrics) in kinds {
        for (name, help, value) in metrics {
            let mut family = to.family(kind, name, help);
            for cpu in cpus {
                for state in &cpu.states {
                    let label = label(state, &cpu.states);
                    if let Some(value) = value(state) {
                        let number = cpu.number.to_string();
                        family.add(&[("cpu", &number), ("state", &label)], value);
                    }
                }
            }
        }
    }
    let mut family = to.family(
        Counter,
        "reveille_wakeups_total",
        "Wake-ups of the CPU since boot: entries into idle states other than polling.",
    );
    for cpu in cpus.iter().filter(|cpu| !cpu.states.is_empty()) {
        let poll = limits::poll(&cpu.states).map(|state| state.index);
        let asleep = cpu.states.iter().filter(|state| Some(state.index) != poll);
        if let Some(wakeups) = asleep.map(|state| state.usage).sum::<Option<u64>>() {
            family.add(&[("cpu", &cpu.number.to_string())], wakeups as f64);
        }
    }
}

/// The state's name, with its number where another one of the CPU has the same.
fn label(state: &IdleState, all: &[IdleState]) -> String {
    let of_name = all.iter().filter(|other| other.name == state.name);
    match of_name.count() {
        1 => state.name.clone(),
        _ => format!("{}.{}", state.name, state.index),
    }
}

/// What is held on the CPUs.
fn bounds(to: &mut Exposition, status: &Status) {
    let is_in_force =
        |cpu: &crate::status::CpuStatus| cpu.in_the_way.is_none() && cpu.failed.is_none();
    let mut family = to.family(
        Gauge,
        "reveille_bound_seconds",
        "Latency bound in force on the CPU now, 0: no sleep; there only while one is held.",
    );
    for cpu in status.cpus.iter().filter(|cpu| is_in_force(cpu)) {
        if let Some(bound_us) = cpu.bound_us {
            let bound = f64::from(bound_us) / 1e6;
            family.add(&[("cpu", &cpu.cpu.to_string())], bound);
        }
    }
    type Is = fn(&crate::status::CpuStatus) -> bool;
    let are: [(&'static str, &str, Is); 3] = [
        (
            "reveille_bound_wanted",
            "Do rules or programs ask for a latency bound on the CPU?",
            |cpu| cpu.bound_us.is_some(),
        ),
        (
            "reveille_bound_in_the_way",
            "Does another program's value stand in the CPU's setting?",
            |cpu| cpu.in_the_way.is_some(),
        ),
        (
            "reveille_bound_failed",
            "Did setting the bound, or taking it back, fail?",
            |cpu| cpu.failed.is_some(),
        ),
    ];
    for (name, help, is) in are {
        let mut family = to.family(Gauge, name, help);
        for cpu in &status.cpus {
            family.add(&[("cpu", &cpu.cpu.to_string())], f64::from(is(cpu)));
        }
    }
}

/// How rules were in force; counts begin anew when the rules are read.
fn rules(to: &mut Exposition, rules: &[RuleStatus]) {
    type Of = fn(&RuleStatus) -> Option<f64>;
    let metrics: [(_, &'static str, &str, Of); 6] = [
        (
            Gauge,
            "reveille_rule_cpus",
            "CPUs on which the rule is in force now.",
            |rule| Some(rule.in_force.len() as f64),
        ),
        (
            Gauge,
            "reveille_rule_waits",
            "Does the rule wait for something that is missing, such as an interface?",
            |rule| Some(f64::from(rule.waits_for.is_some())),
        ),
        (
            Counter,
            "reveille_rule_holds_total",
            "How often the rule came into force, a sum over CPUs.",
            |rule| Some(rule.times as f64),
        ),
        (
            Counter,
            "reveille_rule_held_seconds_total",
            "For how long the rule was in force, a sum over CPUs.",
            |rule| Some(rule.held_s),
        ),
        (
            Counter,
            "reveille_rule_packets_total",
            "Packets of the rule's traffic.",
            |rule| rule.packets.map(|packets| packets as f64),
        ),
        (
            Counter,
            "reveille_rule_requests_total",
            "Requests to the rule's disk.",
            |rule| rule.requests.map(|requests| requests as f64),
        ),
    ];
    for (kind, name, help, value) in metrics {
        let mut family = to.family(kind, name, help);
        for rule in rules {
            if let Some(value) = value(rule) {
                family.add(&[("rule", &rule.judged.rule)], value);
            }
        }
    }
}

/// Seconds since 1970.
fn unix_s(time: SystemTime) -> Option<f64> {
    let since = time.duration_since(UNIX_EPOCH).ok()?;
    Some(since.as_secs_f64())
}

#[cfg(test)]
#[path = "../../tests/exposition/mod.rs"]
mod exposition_reader;

#[cfg(test)]
#[path = "content/tests.rs"]
mod tests;
