//! The machine at one moment; two readings make a snapshot.

use std::collections::BTreeMap;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use reveille_kernel::energy::Meter;
use reveille_kernel::interrupts::Interrupts;
use reveille_kernel::{Idle, Root, frequency, load};

use crate::live::joint;
use crate::live::own::Spent;
use crate::live::seen::{Seen, SeenJoint};
use crate::live::trace::Trace;

/// The machine at one moment.
pub struct Reading {
    pub at: Instant,
    pub time_unix_s: f64,
    /// cpuidle's counters, limits and bounds.
    pub idle: Idle,
    /// By CPU; `None` without BPF.
    pub seen: Option<BTreeMap<u32, Seen>>,
    /// Of the machine, then of each package; empty without BPF.
    pub joints: Vec<SeenJoint>,
    /// /proc/stat's ticks, if no CPU has cpuidle states.
    pub idle_ticks: Option<BTreeMap<u32, u64>>,
    /// In the order of the meters.
    pub energy_uj: Vec<Option<u64>>,
    /// By CPU, from cpufreq.
    pub mhz: BTreeMap<u32, f64>,
    pub interrupts: Option<Interrupts>,
    /// What this process has spent.
    pub spent: Option<Spent>,
}

impl Reading {
    pub fn make(root: &Root, idle: Idle, meters: &[Meter], trace: Option<&dyn Trace>) -> Self {
        let spent = Spent::so_far();
        let online = || idle.cpus.iter().filter(|cpu| cpu.online);
        let mhz = |number| Some((number, frequency::current_mhz(root, number)?));
        let mut reading = Self {
            at: Instant::now(),
            // A time before 1970 is a wrong clock.
            time_unix_s: SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0.0, |since| since.as_secs_f64()),
            seen: None,
            joints: Vec::new(),
            idle_ticks: match online().all(|cpu| cpu.states.is_empty()) {
                true => load::idle_ticks(root),
                false => None,
            },
            energy_uj: meters.iter().map(|meter| meter.read_uj(root)).collect(),
            mhz: online().filter_map(|cpu| mhz(cpu.number)).collect(),
            interrupts: None,
            spent,
            idle,
        };
        if let Some(trace) = trace {
            reading.seen = Some(trace.seen(&reading.idle));
            reading.joints = trace.together(&joint::online(&reading.idle));
            // The time at which sleeps were read.
            reading.at = Instant::now();
        }
        reading.interrupts = Interrupts::read(root);
        reading
    }
}
