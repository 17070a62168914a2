//! The BPF trace, if available: starting it, reading it, and counting its cost.

#[cfg(feature = "bpf")]
pub use with_bpf::Trace;
#[cfg(not(feature = "bpf"))]
pub use without_bpf::Trace;

#[cfg(feature = "bpf")]
mod with_bpf {
    use std::collections::BTreeMap;
    use std::time::Instant;

    use nix::sched::{CpuSet, sched_setaffinity};
    use nix::unistd::Pid;
    use reveille_kernel::counters::Counter;
    use reveille_kernel::{Idle, Root, cpulist};

    use crate::Result;
    use crate::live::hardware::Hardware;
    use crate::live::kernel::{Kernel, MAX_COUNTERS, Setup};
    use crate::live::seen::{Ended, Seen};
    use crate::live::symbols::Symbols;
    use reveille_kernel::bpf::{Counting, RunTime};

    /// Counting run times costs some 50 ns per run of a program, so only one refresh in this many
    /// does it.
    const COUNT_INTERVAL: u64 = 10;

    pub struct Trace {
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

    impl Trace {
        /// The trace and the kernel's symbols; adds a note for what is unavailable.
        pub fn start(
            root: &Root,
            idle: &Idle,
            notes: &mut Vec<String>,
        ) -> (Option<Self>, Option<Symbols>) {
            let symbols = Symbols::read(root);
            let hardware = Hardware::open(root, idle, MAX_COUNTERS);
            let setup = Setup {
                cpus: possible_cpus(root, idle),
                polling_states: polling_states(idle),
                symbols: symbols.as_ref(),
                counters: hardware.counters.len(),
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
                    "this kernel does not report who sends an interrupt to another CPU (since 6.4)"
                        .to_owned(),
                );
            }
            visit(idle);
            kernel.ask_for_counters();
            let mut trace = Self {
                kernel,
                hardware,
                cost: Cost::default(),
            };
            // Events during attachment belong to no interval.
            let _ = trace.ended();
            trace.cost.begin(&trace.kernel);
            (Some(trace), symbols)
        }

        pub fn counters(&self) -> &[Counter] {
            &self.hardware.counters
        }

        /// The online CPUs' data so far.
        pub fn seen(&self, idle: &Idle) -> BTreeMap<u32, Seen> {
            let online = idle.cpus.iter().filter(|cpu| cpu.online);
            let seen = online.map(|cpu| (cpu.number, self.kernel.seen(cpu.number)));
            let seen = seen.collect();
            self.kernel.ask_for_counters();
            seen
        }

        pub fn ended(&mut self) -> Result<Vec<Ended>> {
            self.kernel.ended()
        }

        pub fn unplaced(&self) -> u64 {
            self.kernel.unplaced()
        }

        /// The programs' share of one CPU's time, at the last count.
        pub fn cost_percent(&mut self) -> Result<Option<f64>> {
            let kernel = &self.kernel;
            self.cost.refresh(kernel)
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
    fn possible_cpus(root: &Root, idle: &Idle) -> u32 {
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

    /// States named POLL, and, without a driver, state 0 (`idle=poll`).
    fn polling_states(idle: &Idle) -> u32 {
        let states = idle.cpus.iter().flat_map(|cpu| &cpu.states);
        let polling = states.filter(|state| state.name == "POLL" && state.index < 32);
        let mask = polling.fold(0, |mask, state| mask | 1 << state.index);
        if idle.driver.is_none() { 1 } else { mask }
    }

    /// Wakes every CPU once, so that its next sleep is traced from its beginning.
    fn visit(idle: &Idle) {
        for cpu in idle.cpus.iter().filter(|cpu| cpu.online) {
            let visit = || {
                let mut set = CpuSet::new();
                // A CPU that this process may not use is traced from its next sleep on.
                let _ = set.set(cpu.number as usize);
                let _ = sched_setaffinity(Pid::from_raw(0), &set);
            };
            std::thread::scope(|scope| {
                scope.spawn(visit);
            });
        }
    }
}

#[cfg(not(feature = "bpf"))]
mod without_bpf {
    use std::collections::BTreeMap;

    use reveille_kernel::counters::Counter;
    use reveille_kernel::{Idle, Root};

    use crate::Result;
    use crate::live::seen::{Ended, Seen};
    use crate::live::symbols::Symbols;

    /// No trace in this build.
    pub enum Trace {}

    impl Trace {
        pub fn start(
            _root: &Root,
            _idle: &Idle,
            notes: &mut Vec<String>,
        ) -> (Option<Self>, Option<Symbols>) {
            notes.push("this program was built without BPF".to_owned());
            (None, None)
        }

        pub fn counters(&self) -> &[Counter] {
            match *self {}
        }

        pub fn seen(&self, _idle: &Idle) -> BTreeMap<u32, Seen> {
            match *self {}
        }

        pub fn ended(&mut self) -> Result<Vec<Ended>> {
            match *self {}
        }

        pub fn unplaced(&self) -> u64 {
            match *self {}
        }

        pub fn cost_percent(&mut self) -> Result<Option<f64>> {
            match *self {}
        }
    }
}
