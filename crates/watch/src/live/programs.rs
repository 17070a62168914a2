//! The BPF programs of the live view, and what they cost.

use std::collections::BTreeMap;
use std::time::Instant;

use reveille_kernel::bpf::{Counting, RunTime};
use reveille_kernel::counters::Counter;
use reveille_kernel::{Idle, Root, affinity, cpulist};

use crate::Result;
use crate::live::hardware::Hardware;
use crate::live::joint;
use crate::live::kernel::{Kernel, MAX_COUNTERS, Setup};
use crate::live::seen::{Ended, Seen, SeenJoint};
use crate::live::symbols::Symbols;
use crate::live::trace::{Started, Trace};

/// Counting run times costs some 50 ns per run of a program: one refresh in this many does it.
const COUNT_INTERVAL: u64 = 10;

struct Programs {
    kernel: Kernel,
    hardware: Hardware,
    cost: Cost,
}

/// The programs' cost, as the kernel counts it.
#[derive(Default)]
struct Cost {
    refreshes: u64,
    counting: Option<(Counting, RunTime, Instant)>,
    percent: Option<f64>,
}

/// The trace and the kernel's symbols; adds a note for what is unavailable.
pub fn start(root: &Root, idle: &Idle, notes: &mut Vec<String>) -> Started {
    let symbols = Symbols::read(root);
    let hardware = Hardware::open(root, idle, MAX_COUNTERS);
    let setup = Setup {
        cpus: possible_cpus(root, idle),
        polling_states: idle.polling_states(),
        symbols: symbols.as_ref(),
        counters: hardware.counters.len(),
        wakers: true,
        joints: Some(&joint::packages(idle)),
        events: &hardware.events,
    };
    let kernel = match Kernel::load(&setup) {
        Ok(kernel) => kernel,
        Err(error) => {
            notes.push(error.to_string());
            return (None, None);
        }
    };
    if symbols.is_none() {
        notes.push(
            "functions are shown by address: /proc/kallsyms hides addresses \
             (kernel.kptr_restrict)"
                .to_owned(),
        );
    }
    if !kernel.reports_senders {
        notes.push(
            "this kernel does not report what sends an interrupt to another CPU (since 6.4)"
                .to_owned(),
        );
    }
    // Every CPU is woken once, so that its next sleep is traced from its beginning.
    let online = idle.cpus.iter().filter(|cpu| cpu.online);
    affinity::visit(&online.map(|cpu| cpu.number).collect::<Vec<u32>>());
    kernel.ask_for_counters();
    let mut trace = Programs {
        kernel,
        hardware,
        cost: Cost::default(),
    };
    // Events during attachment belong to no interval.
    let _ = trace.ended();
    trace.cost.begin(&trace.kernel);
    (Some(Box::new(trace)), symbols)
}

impl Trace for Programs {
    fn counters(&self) -> &[Counter] {
        &self.hardware.counters
    }

    fn seen(&self, idle: &Idle) -> BTreeMap<u32, Seen> {
        let online = idle.cpus.iter().filter(|cpu| cpu.online);
        let seen = online.map(|cpu| (cpu.number, self.kernel.seen(cpu.number)));
        let seen = seen.collect();
        self.kernel.ask_for_counters();
        seen
    }

    fn together(&self, online: &[u32]) -> Vec<SeenJoint> {
        self.kernel.together(online)
    }

    fn ended(&mut self) -> Result<Vec<Ended>> {
        self.kernel.ended()
    }

    fn unplaced(&self) -> u64 {
        self.kernel.unplaced()
    }

    fn cost_percent(&mut self) -> Result<Option<f64>> {
        self.cost.refresh(&self.kernel)
    }
}

impl Cost {
    fn begin(&mut self, kernel: &Kernel) {
        let started = Counting::start().zip(kernel.run_time().ok());
        self.counting = started.map(|(counting, before)| (counting, before, Instant::now()));
    }

    fn refresh(&mut self, kernel: &Kernel) -> Result<Option<f64>> {
        if let Some((_, before, since)) = self.counting.take() {
            let ns = kernel.run_time()?.ns.saturating_sub(before.ns);
            self.percent = Some(ns as f64 / since.elapsed().as_nanos() as f64 * 100.0);
        }
        self.refreshes += 1;
        if self.refreshes.is_multiple_of(COUNT_INTERVAL) {
            self.begin(kernel);
        }
        Ok(self.percent)
    }
}

/// One more than the highest possible CPU number, online or not.
pub fn possible_cpus(root: &Root, idle: &Idle) -> u32 {
    let possible = root.text("sys/devices/system/cpu/possible");
    let possible = possible
        .and_then(|list| cpulist::parse(&list))
        .unwrap_or_default();
    let present = idle.cpus.iter().map(|cpu| cpu.number);
    possible
        .into_iter()
        .chain(present)
        .max()
        .map_or(1, |last| last + 1)
}
