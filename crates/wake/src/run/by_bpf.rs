//! Measuring with BPF programs in the idle loop.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use reveille_dataset::description::{Characterisation, Cost};
use reveille_dataset::{Datapoint, Source};
use reveille_machine::{Awake, Journal, limits};

use super::{FLOOR_DISTANCES, FLOOR_GOAL, Goal, NOT_IDLE, Run, mean, rest};
use crate::counters::Counters;
use crate::distance::DRAWN;
use crate::event::Conversion;
use crate::kernel::{Counts, Kernel, Setup, types};
use crate::source::{self, EventSource};
use crate::{Result, floor, probe_cost};

/// Can the probes be loaded here at all? They come off at once.
///
/// # Errors
/// As [`Kernel::load`].
pub fn try_bpf(cpu: u32) -> Result<()> {
    let setup = Setup {
        cpu,
        source: types::source::SOURCE_TIMER,
        counters: &[],
        smi_counter: None,
    };
    Kernel::load(&setup).map(drop)
}

impl Run<'_> {
    pub(super) fn by_bpf(&mut self) -> Result<()> {
        let mut counters = Counters::open(self.root, self.options.cpu);
        for (number, name) in self.options.sources.iter().enumerate() {
            let mut source = source::by_name(name, self.options.cpu)?;
            let mut kernel = self.load(source.source(), &counters)?;
            let mut costs = self.costs(&kernel)?;
            if costs.per_counter(counters.events.len()) > DEAR_COUNTER_NS {
                self.note(format!(
                    "SMIs and residencies are not counted: reading a counter takes {:.0} ns here \
                     (a hypervisor answers), which would be in the way",
                    costs.per_counter(counters.events.len())
                ));
                counters = Counters::default();
                kernel = self.load(source.source(), &counters)?;
                costs = self.costs(&kernel)?;
            }
            if number == 0 {
                self.outcome.residency_columns = counters.columns.clone();
                self.outcome.characterisation = costs.described(&counters);
                self.sink.begin(&self.outcome)?;
            }
            let conversion = Conversion {
                cpu: self.options.cpu,
                started_ns: self.outcome.started_ns,
                overhead_ns: self.outcome.characterisation.overhead_ns,
                states: Conversion::state_names(&self.states),
                residencies: counters.residencies.clone(),
                smi_counter: counters.smi,
                counts_nmis: kernel.counts_nmis,
            };
            self.characterise(&kernel, source.as_mut(), &conversion)?;
            let arming = source.arming(&kernel);
            self.outcome.arming.push(arming);
            if self.phases(&kernel, source.as_mut(), &conversion)? {
                break;
            }
        }
        Ok(())
    }

    fn load(&mut self, source: Source, counters: &Counters) -> Result<Kernel> {
        self.tell("loading the probes", 0.0);
        Kernel::load(&Setup {
            cpu: self.options.cpu,
            source: source::kernel_side(source),
            counters: &counters.events,
            smi_counter: counters.smi,
        })
    }

    fn costs(&self, kernel: &Kernel) -> Result<Costs> {
        let cpu = self.options.cpu;
        Ok(Costs {
            timestamp: kernel.cost_of_timestamp(cpu)?,
            counters: kernel.cost_of_counters(cpu)?,
        })
    }

    fn characterise(
        &mut self,
        kernel: &Kernel,
        source: &mut dyn EventSource,
        conversion: &Conversion,
    ) -> Result<()> {
        self.tell("characterising", 0.0);
        source.start(kernel, &[FLOOR_DISTANCES.max_ns])?;
        source.stop(kernel, FLOOR_DISTANCES.max_ns)?;
        if source.source() == Source::Timer && !kernel.timer_is_pinned() {
            // Without the flag a timer that is armed on an idle CPU moves to a busy one.
            self.journal.set("/proc/sys/kernel/timer_migration", "0")?;
        }
        self.floor(kernel, source, conversion)?;
        let characterised = &self.outcome.characterisation;
        if characterised.probe_cost_per_idle_ns.is_none() {
            let (distances, seed) = (self.options.distances, self.options.seed);
            if let Some(cost) = probe_cost::count(kernel, source, &distances, seed)? {
                let characterisation = &mut self.outcome.characterisation;
                characterisation.probe_cost_per_idle_ns = Some(cost.idle.mean_ns);
                let costs = &mut characterisation.costs;
                costs.insert("probe at idle entry and exit".into(), cost.idle);
                costs.insert(
                    "probes at interrupts, per idle period".into(),
                    cost.interrupts,
                );
            }
        }
        Ok(())
    }

    /// The floor: in the poll state where there is one, else on a CPU that is kept awake.
    fn floor(
        &mut self,
        kernel: &Kernel,
        source: &mut dyn EventSource,
        conversion: &Conversion,
    ) -> Result<()> {
        let distances = FLOOR_DISTANCES.draw(DRAWN, self.options.seed);
        let mut floor = None;
        if let Some(poll) = limits::poll(&self.states).cloned() {
            let mut journal = Journal::new(self.root, &self.options.journal_folder);
            let cpu = self.options.cpu;
            if limits::allow_up_to(&mut journal, self.root, cpu, &self.states, poll.index).is_ok() {
                let seen = self.floor_latencies(kernel, source, conversion, &distances, 0)?;
                floor = floor::of(&poll.name, source.source(), seen);
            }
        }
        if floor.is_none() && !self.over() {
            let awake = Awake::keep(&[self.options.cpu])?;
            kernel.set_awake_counts(true);
            let seen = self.floor_latencies(kernel, source, conversion, &distances, -1);
            kernel.set_awake_counts(false);
            drop(awake);
            floor = floor::of(reveille_dataset::schema::AWAKE, source.source(), seen?);
        }
        match floor {
            Some(floor) => self.outcome.characterisation.floors.push(floor),
            None if !self.over() => self.note(format!(
                "no floor for the source {:?}: it woke no CPU that does not sleep",
                source.source()
            )),
            None => {}
        }
        Ok(())
    }

    fn floor_latencies(
        &mut self,
        kernel: &Kernel,
        source: &mut dyn EventSource,
        conversion: &Conversion,
        distances: &[u64],
        state: i32,
    ) -> Result<Vec<i64>> {
        let mut latencies = Vec::new();
        let goal = FLOOR_GOAL;
        let phase = "measuring the floor, where nothing sleeps";
        let gathering = Gathering {
            kernel,
            source,
            conversion,
            goal,
            phase,
        };
        let (_, _, result) = self.gather(gathering, distances, &mut |_, datapoint| {
            if datapoint.requested_state_index == Some(state) {
                latencies.push(datapoint.wake_latency_ns);
            }
            Ok(())
        });
        result.map(|()| latencies)
    }

    /// All phases of one source; true if the run is over.
    fn phases(
        &mut self,
        kernel: &Kernel,
        source: &mut dyn EventSource,
        conversion: &Conversion,
    ) -> Result<bool> {
        for deepest in self.deepest.clone() {
            let phase = self.allow(deepest)?;
            for (distances, goal) in self.steps() {
                let before = kernel.counts();
                let gathering = Gathering {
                    kernel,
                    source,
                    conversion,
                    goal,
                    phase: &phase,
                };
                let (beyond, elapsed, result) =
                    self.gather(gathering, &distances, &mut |run, datapoint| {
                        run.keep(datapoint)
                    });
                let now = kernel.counts();
                let mut dropped = drops(&before, &now);
                dropped.push(("beyond the number asked for", beyond));
                let full = now.dropped.ring_full - before.dropped.ring_full;
                self.outcome.counts.ring_buffer_full += full;
                self.account(
                    now.launched - before.launched,
                    &dropped,
                    elapsed,
                    mean(&distances),
                );
                result?;
                if self.over() {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Gathers until the goal is met, the run is over, or nothing comes any more. Gives how many
    /// came in the last batch beyond the number asked for, and how long it took, whatever the
    /// result.
    fn gather(
        &mut self,
        gathering: Gathering<'_>,
        distances: &[u64],
        take: &mut dyn FnMut(&mut Self, &Datapoint) -> Result<()>,
    ) -> (u64, Duration, Result<()>) {
        let Gathering {
            kernel,
            source,
            conversion,
            goal,
            phase,
        } = gathering;
        let start = Instant::now();
        let (mut taken, mut beyond) = (0, 0);
        let result = (|| {
            let batch = RefCell::new(Vec::<types::event>::new());
            let events = kernel.events(|event| batch.borrow_mut().push(*event))?;
            events.consume()?;
            batch.borrow_mut().clear(); // what an earlier phase left

            let mut drain = |run: &mut Self| {
                events.consume()?;
                for event in batch.take() {
                    if goal.datapoints.is_some_and(|goal| taken >= goal) {
                        beyond += 1;
                        continue;
                    }
                    take(run, &conversion.datapoint(&event))?;
                    taken += 1;
                }
                Ok(taken)
            };
            let longest = distances.iter().copied().max().unwrap_or(0);
            let patience = Duration::from_nanos(longest) * 4 + Duration::from_secs(2);
            source.start(kernel, distances)?;
            let (mut settled, mut last_settled) = (kernel.counts().settled, start);
            let gathered = loop {
                rest(goal.next_batch(start.elapsed()), self.interrupted);
                let done = match drain(self) {
                    Ok(taken) => goal.done(taken, start.elapsed()),
                    Err(error) => break Err(error),
                };
                self.tell(phase, done);
                let now = kernel.counts().settled;
                if now != settled {
                    (settled, last_settled) = (now, Instant::now());
                }
                if done >= 1.0 || self.over() {
                    break Ok(());
                }
                if last_settled.elapsed() > patience {
                    self.note(why_nothing_comes(kernel, source.source(), phase));
                    if goal.duration.is_none() || kernel.counts().strayed > 0 {
                        break Ok(());
                    }
                    last_settled = Instant::now();
                }
            };
            source.stop(kernel, longest)?;
            gathered.and_then(|()| drain(self).map(drop))
        })();
        (beyond, start.elapsed(), result)
    }
}

/// A counter that takes longer to read is not read: a register takes some 30 ns (RDPMC) to 100 ns
/// (RDMSR); beyond, a hypervisor answers, and a VM exit before each idle period is a disturbance.
const DEAR_COUNTER_NS: f64 = 250.0;

/// What the instrument's own steps cost on the measured CPU.
struct Costs {
    timestamp: Cost,
    counters: Cost,
}

impl Costs {
    fn per_counter(&self, counters: usize) -> f64 {
        (self.counters.mean_ns - self.timestamp.mean_ns) / counters.max(1) as f64
    }

    fn described(self, counters: &Counters) -> Characterisation {
        let mut characterisation = Characterisation {
            // A latency begins at an armed instant and ends at a clock reading, which comes by the
            // length of one reading after what it is to mark.
            overhead_ns: self.timestamp.mean_ns.round() as i64,
            clock: "CLOCK_MONOTONIC".into(),
            ..Default::default()
        };
        characterisation
            .costs
            .insert("timestamp".into(), self.timestamp);
        if !counters.events.is_empty() {
            characterisation
                .costs
                .insert("counters".into(), self.counters);
        }
        characterisation
    }
}

/// What is gathered from, and how long.
struct Gathering<'a> {
    kernel: &'a Kernel,
    source: &'a mut dyn EventSource,
    conversion: &'a Conversion,
    goal: Goal,
    phase: &'a str,
}

fn why_nothing_comes(kernel: &Kernel, source: Source, phase: &str) -> String {
    let why = match kernel.counts().strayed {
        0 => "the CPU is never idle; is something else running on it?",
        _ => "its timer ran on another CPU: the kernel moved it (kernel.timer_migration, hotplug)",
    };
    format!("for seconds nothing came from the source {source:?} ({phase}): {why}")
}

/// What was dropped between two moments, by reason in words.
fn drops(before: &Counts, now: &Counts) -> Vec<(&'static str, u64)> {
    let (b, n) = (before.dropped, now.dropped);
    vec![
        (NOT_IDLE, n.not_idle - b.not_idle),
        ("another interrupt", n.other_interrupt - b.other_interrupt),
        (
            "the source's interrupt was not seen",
            n.no_interrupt - b.no_interrupt,
        ),
        ("NMI", n.nmi - b.nmi),
        ("SMI", n.smi - b.smi),
        ("ring buffer full", n.ring_full - b.ring_full),
    ]
}
