//! Idle states and wakers between two readings: the model of `reveille top`.
//!
//! [`Watch::start`], then a [`Watch::snapshot`] per refresh. The BPF programs only add up events
//! that happen anyway; without BPF (no root, or no BTF) the counts of sysfs and /proc are shown, and
//! [`Snapshot::notes`] lists what is missing.
//!
//! - `reading`: the machine at one moment; `change`: a CPU between two readings; `unit`: groups of
//!   CPUs; `wakers`, `power`, `requests`, `own`: the rest of a snapshot.
//! - `trace`: what the BPF programs provide; `programs`, `kernel`, `bpf/live.bpf.c` and `bpf/live.h`: the
//!   programs; `seen`: their data.
//!
//! [`WakeLatencies`] is for who wants nothing but these, now and then.

mod change;
// Unused without BPF.
#[cfg_attr(not(feature = "bpf"), allow(dead_code))]
mod hardware;
#[cfg_attr(not(feature = "bpf"), allow(dead_code))]
mod joint;
mod joint_counter;
#[cfg(feature = "bpf")]
mod kernel;
mod latencies;
mod model;
mod own;
mod power;
#[cfg(feature = "bpf")]
mod programs;
mod reading;
mod requests;
#[cfg_attr(not(feature = "bpf"), allow(dead_code))]
mod seen;
#[cfg_attr(not(feature = "bpf"), allow(dead_code))]
mod symbols;
mod trace;
mod unit;
mod wake_latencies;
mod wakers;

use reveille_kernel::boot::WithoutDriver;
use reveille_kernel::energy::{self, Meter};
use reveille_kernel::requests::honoured;
use reveille_kernel::{Idle, Root, bounds, frequency};

pub use joint_counter::JointCounter;
pub use model::*;
pub use wake_latencies::{Histogram, WakeLatencies};

use change::Change;
use own::Spent;
#[cfg(feature = "bpf")]
use programs::start;
use reading::Reading;
use requests::Requests;
use trace::Trace;
#[cfg(not(feature = "bpf"))]
use trace::start;
use unit::Speeds;
use wakers::Names;

use crate::Result;

/// A watched machine. Dropping it removes the BPF programs.
pub struct Watch {
    root: Root,
    trace: Option<Box<dyn Trace>>,
    /// Why there is no trace, and other constant notes.
    notes: Vec<String>,
    names: Names,
    meters: Vec<Meter>,
    requests: Requests,
    speeds: Speeds,
    before: Reading,
}

impl Watch {
    /// Starts watching. `root` is the running machine, or a recorded one, which has no trace. An error if
    /// the list of CPUs cannot be read; unavailable BPF is a note.
    pub fn start(root: &Root) -> Result<Self> {
        let idle = Idle::read(root)?;
        let mut notes = Vec::new();
        let (trace, symbols) = match root.is_live() {
            true => start(root, &idle, &mut notes),
            false => (None, None),
        };
        if trace.is_none() {
            notes.push(
                "without BPF wake latencies and wakers are unknown, and a sleep is counted when it \
                 is over"
                    .to_owned(),
            );
        }
        let meters = energy::meters(root);
        let range =
            |cpu: &reveille_kernel::Cpu| (cpu.number, frequency::Range::read(root, cpu.number));
        let speeds = Speeds {
            ranges: idle.cpus.iter().map(range).collect(),
            turbo: None,
        };
        let before = Reading::make(root, idle, &meters, trace.as_deref());
        Ok(Self {
            names: Names::new(root.clone(), symbols),
            root: root.clone(),
            trace,
            notes,
            meters,
            requests: Requests::default(),
            speeds,
            before,
        })
    }

    /// The interval since the last call, or since the start.
    pub fn snapshot(&mut self) -> Result<Snapshot> {
        let mut idle = self.before.idle.clone();
        idle.reread(&self.root)?;
        let now = Reading::make(&self.root, idle, &self.meters, self.trace.as_deref());
        let before = std::mem::replace(&mut self.before, now);
        let now = &self.before;
        let elapsed_s = (now.at - before.at).as_secs_f64();
        self.requests.look(&self.root);
        self.speeds.turbo = frequency::turbo(&self.root);
        let idle = &now.idle;
        let (bound_us, trace) = (self.requests.bound_us, self.trace.as_ref());
        let counters = trace.map_or(&[][..], |trace| trace.counters());
        let change = |cpu| Change::between(&before, now, cpu, counters, bound_us);
        let changes: Vec<Change> = idle.cpus.iter().map(change).collect();
        let mut snapshot = unit::units(idle, &changes, &self.speeds);
        let power = power::power(&self.root, &self.meters, &before, now);
        add_power(&mut snapshot, power);
        let units = std::iter::once(&mut snapshot.machine).chain(&mut snapshot.packages);
        for (unit, (before, after)) in units.zip(before.joints.iter().zip(&now.joints)) {
            unit.joint_sleep = joint::between(before, after);
        }
        let counts = before.interrupts.as_ref().zip(now.interrupts.as_ref());
        let wakers = match (&mut self.trace, counts) {
            (Some(trace), counts) => {
                wakers::that_woke(&mut self.names, &trace.ended()?, counts, elapsed_s)
            }
            (None, Some((before, now))) => wakers::that_came(before, now, elapsed_s),
            (None, None) => Vec::new(),
        };
        let bpf_percent = match &mut self.trace {
            Some(trace) => trace.cost_percent()?,
            None => Some(0.0),
        };
        Ok(Snapshot {
            schema_version: SCHEMA_VERSION,
            time_unix_s: now.time_unix_s,
            elapsed_s,
            driver: idle.driver.clone(),
            governor: idle.governor.clone(),
            wakers,
            bounds: bounds::of(idle, &self.root, bound_us, &self.requests.holders),
            own: own_cost(before.spent, now.spent, elapsed_s, bpf_percent),
            notes: self.notes(idle),
            ..snapshot
        })
    }

    fn notes(&self, idle: &Idle) -> Vec<String> {
        let mut notes = self.notes.clone();
        notes.extend(self.requests.notes.iter().cloned());
        if let Some(without) = WithoutDriver::of(idle, &self.root) {
            notes.push(format!(
                "no cpuidle driver: {}; {}",
                without.does, without.reason
            ));
        }
        let bounded = idle.cpus.iter().filter(|cpu| cpu.online);
        let mut bounded = bounded.map(|cpu| bounds::in_force_us(cpu, self.requests.bound_us));
        if !honoured(idle) && bounded.any(|bound| bound.is_some()) {
            notes.push(
                "latency bounds have no effect here: they need a cpuidle driver and a governor"
                    .to_owned(),
            );
        }
        if let Some(unplaced @ 1..) = self.trace.as_ref().map(|trace| trace.unplaced()) {
            notes.push(format!(
                "{unplaced} wake-ups have no known waker: the table of wakers is full"
            ));
        }
        notes
    }
}

/// Adds a package's meters to its row, and all meters to the machine's.
fn add_power(units: &mut Snapshot, power: Vec<(Option<u32>, Power)>) {
    for (package, power) in power {
        let label = package.map(|package| format!("package {package}"));
        let unit = units
            .packages
            .iter_mut()
            .find(|unit| Some(&unit.label) == label.as_ref());
        if let Some(unit) = unit {
            unit.power.push(power.clone());
        }
        units.machine.power.push(power);
    }
}

fn own_cost(
    before: Option<Spent>,
    now: Option<Spent>,
    elapsed_s: f64,
    bpf_percent: Option<f64>,
) -> OwnCost {
    let spent = before.zip(now);
    let process = spent.map(|(before, now)| (now.cpu_s - before.cpu_s) / elapsed_s * 100.0);
    let sleeps = spent.map(|(before, now)| now.sleeps.saturating_sub(before.sleeps));
    OwnCost {
        cpu_percent: process.map(|process| process + bpf_percent.unwrap_or(0.0)),
        bpf_percent,
        wakeups_per_s: sleeps.map(|sleeps| sleeps as f64 / elapsed_s),
    }
}
