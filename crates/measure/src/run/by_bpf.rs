//! Measuring with the BPF probe.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::{Duration, Instant};

use libbpf_rs::RingBuffer;
use reveille_kernel::{Awake, IdleState, Journal, limits};
use reveille_results::description::{Characterisation, Cost};
use reveille_results::statistics::Floor;
use reveille_results::{Datapoint, Source, schema};

use super::periods::Periods;
use super::{
    BEYOND, FLOOR_DISTANCES, FLOOR_GOAL, FLOOR_PHASE, Gathered, Goal, Launches, NOT_IDLE, Order,
    Run, Step, by_reason, rest,
};
use crate::counters::Counters;
use crate::distance::DRAWN;
use crate::event::Conversion;
use crate::kernel::{Counts, Kernel, Setup, types};
use crate::source::{self, EventSource, Launch};
use crate::{Result, cost, floor, probe_cost};

/// Checks that the probes can be loaded; they are removed at once.
///
/// # Errors
/// [`crate::Error::Cannot`] if BTF, the tracepoint `power:cpu_idle` or the right to load BPF
/// programs is missing.
pub fn try_bpf(cpu: u32) -> Result<()> {
    let setup = Setup {
        cpu,
        source: Source::Timer,
        device_interrupt: None,
        interface: None,
        counters: &[],
        smi_counter: None,
        polling_states: 0,
        cold_bytes: 0,
    };
    Kernel::load(&setup).map(drop)
}

impl Run<'_> {
    pub(super) fn by_bpf(&mut self) -> Result<()> {
        // All of them before anything is measured: the last one may be refused.
        let sources =
            self.options.sources.iter().map(|name| {
                source::by_name(name, self.options, &self.outcome.idle, &mut self.journal)
            });
        let sources = sources.collect::<Result<Vec<_>>>()?;
        let mut counters = Counters::open(self.root, self.options.cpu);
        let mut all = self.loaded(sources, &mut counters)?;
        self.begin()?;
        let ended = self.measured(&mut all);
        if all.iter().any(|probes| probes.kernel.was_offline()) {
            let cpu = self.options.cpu;
            if let Err(error) = self.journal.interrupts_may_have_moved(cpu) {
                self.note(error.to_string());
            }
        }
        ended
    }

    fn measured(&mut self, all: &mut [Probes]) -> Result<()> {
        for number in 0..all.len() {
            self.switch(all, number)?;
            let probes = &mut all[number];
            self.characterise(probes)?;
            self.outcome
                .arming
                .push(probes.source.arming(&probes.kernel));
            if self.over() {
                return Ok(());
            }
        }
        self.floors(all)?;
        if self.over() {
            return Ok(());
        }
        self.phases(all)
    }

    /// The probes of each source, detached.
    fn loaded(
        &mut self,
        sources: Vec<Box<dyn EventSource>>,
        counters: &mut Counters,
    ) -> Result<Vec<Probes>> {
        let mut all = Vec::new();
        for source in sources {
            if let Some(why) = source.reservation() {
                self.note(why);
            }
            let mut kernel = self.load(&*source, counters)?;
            let mut costs = self.costs(&kernel)?;
            if costs.per_counter(counters.events.len()) > EXPENSIVE_COUNTER_NS {
                self.note(format!(
                    "SMIs and residencies are not counted: reading a counter takes {:.0} ns here \
                     (a hypervisor intercepts it), which would disturb the measurement",
                    costs.per_counter(counters.events.len())
                ));
                *counters = Counters::default();
                kernel = self.load(&*source, counters)?;
                costs = self.costs(&kernel)?;
            }
            if all.is_empty() {
                self.outcome.residency_columns = counters.columns.clone();
                self.outcome.characterisation = costs.described(counters);
            }
            let conversion = Conversion {
                cpu: self.options.cpu,
                source: source.source(),
                started_ns: self.outcome.started_ns,
                overhead_ns: self.outcome.characterisation.overhead_ns,
                states: Conversion::state_names(&self.states),
                residencies: counters.of_columns(&self.outcome.residency_columns),
                smi_counter: counters.smi,
                counts_nmis: kernel.counts_nmis,
            };
            let before = kernel.counts();
            all.push(Probes {
                kernel,
                source,
                conversion,
                before,
            });
        }
        Ok(all)
    }

    /// Only the probes of this source observe.
    fn switch(&mut self, all: &mut [Probes], to: usize) -> Result<()> {
        for (number, probes) in all.iter().enumerate() {
            if number != to {
                probes.kernel.detach();
            }
        }
        all[to].kernel.attach()
    }

    fn load(&mut self, source: &dyn EventSource, counters: &Counters) -> Result<Kernel> {
        self.report("loading the probes", 0.0);
        Kernel::load(&Setup {
            cpu: self.options.cpu,
            source: source.source(),
            device_interrupt: source.device_interrupt(),
            interface: source.interface(),
            counters: &counters.events,
            smi_counter: counters.smi,
            polling_states: polling_states(&self.states),
            cold_bytes: self.options.cold_bytes,
        })
    }

    fn costs(&self, kernel: &Kernel) -> Result<Costs> {
        let cpu = self.options.cpu;
        Ok(Costs {
            timestamp: kernel.cost_of_timestamp(cpu)?,
            counters: kernel.cost_of_counters(cpu)?,
        })
    }

    fn characterise(&mut self, probes: &mut Probes) -> Result<()> {
        self.report("characterising", 0.0);
        let cpu = self.options.cpu;
        let Probes { kernel, source, .. } = probes;
        if !kernel.find_timers(cpu)? {
            self.note(format!(
                "launches just after another timer of CPU {cpu} are not dropped, and seem too fast: \
                 this kernel does not show when the CPU's next timer is due"
            ));
        }
        source.start(kernel, &[FLOOR_DISTANCES.max_ns])?;
        source.stop(kernel, FLOOR_DISTANCES.max_ns)?;
        if source.source() == Source::Timer && !kernel.timer_is_pinned() {
            // Without the flag, a timer armed on an idle CPU moves to a busy one.
            self.journal.set("/proc/sys/kernel/timer_migration", "0")?;
        }
        let characterised = &mut self.outcome.characterisation;
        let (distances, seed) = (&self.options.distances, self.options.seed);
        if characterised.probe_cost_per_idle_ns.is_none()
            && let Some((idle, interrupts)) =
                probe_cost::count(kernel, source.as_mut(), distances, seed)?
        {
            characterised.probe_cost_per_idle_ns = idle.median_ns;
            let costs = [
                ("probe at idle entry and exit", idle),
                ("probes at interrupts, per idle period", interrupts),
            ];
            let costs = costs.map(|(name, cost)| (name.to_owned(), cost));
            characterised.costs.extend(costs);
        }
        Ok(())
    }

    /// The floors: in the poll state if there is one, otherwise on a CPU that is kept awake.
    fn floors(&mut self, all: &mut [Probes]) -> Result<()> {
        let mut floors = vec![None; all.len()];
        if let Some(poll) = limits::poll(&self.states).cloned() {
            let mut journal = Journal::new(self.root, &self.options.journal_folder);
            let cpu = self.options.cpu;
            if limits::allow_up_to(&mut journal, self.root, cpu, &self.states, poll.index).is_ok() {
                let missing: Vec<usize> = (0..all.len()).collect();
                self.floors_in(all, &missing, &poll.name, poll.index as i32, &mut floors)?;
            }
        }
        let missing: Vec<usize> = (0..all.len()).filter(|at| floors[*at].is_none()).collect();
        if !missing.is_empty() && !self.over() {
            let awake = Awake::keep(&[self.options.cpu])?;
            all.iter().for_each(|one| one.kernel.set_awake_counts(true));
            let seen = self.floors_in(all, &missing, schema::AWAKE, -1, &mut floors);
            all.iter()
                .for_each(|one| one.kernel.set_awake_counts(false));
            drop(awake);
            seen?;
        }
        for (probes, floor) in all.iter().zip(floors) {
            match floor {
                Some(floor) => self.outcome.characterisation.floors.push(floor),
                None if !self.over() => self.note(format!(
                    "no floor for the source {}: too few wake-ups without sleep",
                    probes.source.source().as_str()
                )),
                None => {}
            }
        }
        Ok(())
    }

    /// The floors of these sources in that state; several take turns in rounds.
    fn floors_in(
        &mut self,
        all: &mut [Probes],
        sources: &[usize],
        name: &str,
        state: i32,
        floors: &mut [Option<Floor>],
    ) -> Result<()> {
        let rounds = match sources.len() {
            1 => 1,
            several => FLOOR_ROUNDS.next_multiple_of(several as u64),
        };
        let distances = FLOOR_DISTANCES.draw(DRAWN, self.options.seed);
        let mut order = Order::new(sources.len(), self.options.seed);
        let mut seen = vec![Vec::new(); all.len()];
        for round in 0..rounds {
            for place in order.next_round() {
                let at = sources[place];
                let goal = floor_goal(all[at].source.slowest()).of_round(round, rounds);
                let step = (FLOOR_PHASE, &*distances, goal);
                self.switch(all, at)?;
                seen[at].push(self.floor_latencies(&mut all[at], step, state)?);
                if self.over() {
                    return Ok(());
                }
            }
        }
        for &at in sources {
            let seen = std::mem::take(&mut seen[at]);
            floors[at] = floor::of(name, all[at].source.source(), seen);
        }
        Ok(())
    }

    fn floor_latencies(
        &mut self,
        probes: &mut Probes,
        step: Step<'_>,
        state: i32,
    ) -> Result<Vec<i64>> {
        let mut latencies = Vec::new();
        let before = probes.kernel.counts();
        let (gathered, _) = self.gather(probes, &before, step, &mut |_, datapoint| {
            if datapoint.requested_state_index == Some(state) {
                latencies.push(datapoint.wake_latency_ns);
            }
            Ok(())
        });
        gathered.result.map(|()| latencies)
    }

    fn phases(&mut self, all: &mut [Probes]) -> Result<()> {
        for probes in all.iter_mut() {
            let reader = Reader::of(&probes.kernel)?;
            probes.before = reader.counts()?;
            reader.take(); // events of the characterisation
            // One may still be in progress; it counts from here on.
            self.outcome.counts.launched += probes.before.on_its_way();
        }
        let (mut switches, mut last) = (Vec::new(), None);
        let ended = self.each_phase(&mut |run, source, step| {
            let start = Instant::now();
            run.switch(all, source)?;
            if last.replace(source).is_some_and(|last| last != source) {
                switches.push(start.elapsed().as_nanos() as f64);
            }
            let probes = &mut all[source];
            let before = probes.before;
            let (gathered, now) = run.gather(probes, &before, step, &mut Self::keep);
            let full = now.dropped.ring_full - before.dropped.ring_full;
            run.outcome.counts.ring_buffer_full += full;
            probes.before = now;
            Ok(gathered)
        });
        let counts = &mut self.outcome.counts;
        let on_its_way = all.iter().map(|probes| probes.before.on_its_way());
        let on_its_way: u64 = on_its_way.sum();
        if on_its_way > 0 {
            *counts.dropped.entry(ON_ITS_WAY.into()).or_default() += on_its_way;
        }
        if let Some(cost) = cost::of(switches) {
            let costs = &mut self.outcome.characterisation.costs;
            costs.insert("switching to another source".into(), cost);
        }
        ended
    }

    /// Gathers until the goal is met, the run is over, or no more datapoints come. `before`: the counts at
    /// the end of the last step; those at the end of this one are returned.
    fn gather(
        &mut self,
        probes: &mut Probes,
        before: &Counts,
        step: Step<'_>,
        take: &mut dyn FnMut(&mut Self, Datapoint) -> Result<()>,
    ) -> (Gathered, Counts) {
        let start = Instant::now();
        let mut batch = Batch::default();
        let result = self.gather_into(&mut batch, probes, step, take);
        let now = batch.counts.unwrap_or_else(|| probes.kernel.counts());
        let mut dropped = drops(probes.source.source(), before, &now);
        dropped.push((BEYOND, batch.beyond));
        dropped.append(&mut batch.late);
        dropped.push(("settled between two phases", batch.stale));
        let gathered = Gathered {
            launched: now.launched - before.launched,
            dropped,
            periods: batch.periods,
            gave_up: batch.gave_up,
            elapsed: start.elapsed(),
            result,
        };
        (gathered, now)
    }

    fn gather_into(
        &mut self,
        batch: &mut Batch,
        probes: &mut Probes,
        (phase, distances, goal): Step<'_>,
        take: &mut dyn FnMut(&mut Self, Datapoint) -> Result<()>,
    ) -> Result<()> {
        let Probes {
            kernel,
            source,
            conversion,
            ..
        } = probes;
        let start = Instant::now();
        let reader = Reader::of(kernel)?;
        reader.counts()?;
        batch.stale = reader.take().len() as u64;
        let polling = polling_states(&self.states);
        let (mut taken, mut periods) = (0, Periods::default());
        let mut waiting = VecDeque::new();
        let mut drain = |run: &mut Self, source: &dyn EventSource, events: Vec<types::event>| {
            waiting.extend(events);
            while let Some(mut event) = waiting.front().copied() {
                let late = match source.launch(&event) {
                    Launch::Known => None,
                    Launch::At {
                        at_ns,
                        error_ns,
                        clock,
                    } => {
                        event.launch = at_ns;
                        event.launch_error = error_ns;
                        event.launch_clock = clock;
                        not_woken_by_it(&event)
                    }
                    Launch::Dropped(why) => Some(why),
                    Launch::NotYet => break,
                };
                waiting.pop_front();
                if let Some(why) = late {
                    batch.late.push((why, 1));
                    continue;
                }
                if goal.datapoints.is_some_and(|goal| taken >= goal) {
                    batch.beyond += 1;
                    continue;
                }
                take(run, conversion.datapoint(&event))?;
                taken += 1;
                let polls = u32::try_from(event.state).is_ok_and(|state| polls(polling, state));
                periods.add(event.entry, polls);
            }
            Ok::<_, crate::Error>(taken)
        };
        let longest = distances.iter().copied().max().unwrap_or(0);
        // A slow source that is begun anew takes seconds.
        let patience =
            (Duration::from_nanos(longest) + 10 * source.slowest()) * 4 + Duration::from_secs(2);
        let before = kernel.counts();
        source.start(kernel, distances)?;
        let (mut settled, mut last_settled) = (before.settled(), start);
        let (mut kept, mut last_kept) = (0, start);
        let ended = loop {
            rest(goal.next_batch(start.elapsed()), self.interrupted);
            reader.consume()?;
            let now_kept = match drain(self, &**source, reader.take()) {
                Ok(taken) => taken,
                Err(error) => break Err(error),
            };
            let done = goal.done(now_kept, start.elapsed());
            self.report(phase, done);
            let now = kernel.counts();
            self.warn_if_scarce(done, || Launches {
                launched: now.launched - before.launched,
                dropped: by_reason(drops(source.source(), &before, &now)),
                ..Launches::default()
            });
            if now.settled() != settled {
                (settled, last_settled) = (now.settled(), Instant::now());
            }
            if now_kept != kept {
                (kept, last_kept) = (now_kept, Instant::now());
            }
            self.look(kernel, source.as_ref());
            if done >= 1.0 || self.over() || source.has_ended() {
                break Ok(());
            }
            let stands = last_settled.elapsed() > patience;
            if stands || last_kept.elapsed() > patience + self.options.patience {
                let silent = last_kept.elapsed();
                let why = why_nothing_comes(&before, &now, source.source(), phase, silent);
                if goal.duration.is_none() || now.strayed > before.strayed {
                    batch.gave_up = Some(goal.missed(now_kept, &why));
                    break Ok(());
                }
                self.note(why);
                (last_settled, last_kept) = (Instant::now(), Instant::now());
            }
        };
        source.stop(kernel, longest)?;
        ended?;
        let counts = reader.counts()?;
        drain(self, &**source, reader.take())?;
        batch.counts = Some(counts);
        batch.periods = periods.over_by(counts.idle_entries);
        Ok(())
    }

    /// Ends the run if the CPUs that it needs were offline, even briefly.
    fn look(&mut self, kernel: &Kernel, source: &dyn EventSource) {
        if kernel.was_offline() {
            self.end_early(format!("CPU {} went offline", self.options.cpu));
        } else if let Some(why) = source.gone() {
            self.end_early(why);
        }
    }
}

/// The time for the floor of a source that launches at least so far apart.
fn floor_goal(slowest: Duration) -> Goal {
    Goal {
        duration: FLOOR_GOAL.duration.max(Some(slowest * FLOOR_LAUNCHES)),
        ..FLOOR_GOAL
    }
}

/// Bit N: state N polls. Without cpuidle state 0 is `idle=poll`; with it, state 0 may be a sleep
/// state.
fn polling_states(states: &[IdleState]) -> u32 {
    match (states.is_empty(), limits::poll(states)) {
        (true, _) => 1,
        (false, poll) => poll.map_or(0, |poll| 1 << poll.index),
    }
}

fn polls(polling_states: u32, state: u32) -> bool {
    state < u32::BITS && polling_states >> state & 1 == 1
}

const EARLIER_TIMER: &str = "an earlier timer";

/// Reason of a drop: not settled when the measurement of a source ended.
const ON_ITS_WAY: &str = "still on its way at the end";

/// Why the launch of an event was not what woke the CPU, by its times. For other events the BPF programs judge so.
fn not_woken_by_it(event: &types::event) -> Option<&'static str> {
    let first = match (event.tai, event.tintr) {
        (0, interrupt) => interrupt,
        (after, 0) => after,
        (after, interrupt) => after.min(interrupt),
    };
    // Of a CPU that was awake there is no TBI.
    if event.tbi >= event.launch || first <= event.launch {
        Some(NOT_IDLE)
    } else if event.timer_due < event.launch {
        Some(EARLIER_TIMER)
    } else {
        None
    }
}

/// What a step read of the BPF programs.
#[derive(Default)]
struct Batch {
    /// Events of the last batch beyond the number asked for.
    beyond: u64,
    /// Events of before it began.
    stale: u64,
    /// Events that the source, which alone knows their launch times, has dropped.
    late: Vec<(&'static str, u64)>,
    /// Idle periods that are over and have datapoints.
    periods: u64,
    gave_up: Option<String>,
    /// The counts at the end; `None` after an error.
    counts: Option<Counts>,
}

/// Reads the BPF programs' events.
struct Reader<'a> {
    kernel: &'a Kernel,
    events: RingBuffer<'a>,
    batch: Rc<RefCell<Vec<types::event>>>,
}

impl<'a> Reader<'a> {
    fn of(kernel: &'a Kernel) -> Result<Self> {
        let batch = Rc::new(RefCell::new(Vec::new()));
        let to = batch.clone();
        let events = kernel.events(move |event| to.borrow_mut().push(*event))?;
        Ok(Self {
            kernel,
            events,
            batch,
        })
    }

    fn consume(&self) -> Result<()> {
        Ok(self.events.consume()?)
    }

    /// The events that were read and not yet taken.
    fn take(&self) -> Vec<types::event> {
        self.batch.take()
    }

    /// Counts that match the events read: the CPU may be between sending one and counting it.
    fn counts(&self) -> Result<Counts> {
        loop {
            self.consume()?;
            let counts = self.kernel.counts();
            if counts.sent == self.kernel.read() {
                return Ok(counts);
            }
        }
    }
}

/// A counter that takes longer to read is not read: a register takes some 30 ns (RDPMC) to 100 ns
/// (RDMSR); beyond, a hypervisor intercepts it, and a VM exit before each idle period disturbs.
const EXPENSIVE_COUNTER_NS: f64 = 250.0;

/// Launches of a slow source's floor: some in each round.
const FLOOR_LAUNCHES: u32 = 100;

/// Rounds of the floors of several sources: enough for an interval of their difference that holds for a hundred
/// states and pairs of sources together.
const FLOOR_ROUNDS: u64 = 12;

/// The cost of the probes' own steps on the measured CPU.
struct Costs {
    timestamp: Cost,
    counters: Cost,
}

impl Costs {
    fn per_counter(&self, counters: usize) -> f64 {
        (typical(&self.counters) - typical(&self.timestamp)) / counters.max(1) as f64
    }

    fn described(self, counters: &Counters) -> Characterisation {
        let mut characterisation = Characterisation {
            // A latency begins at an armed instant and ends at a clock reading, which returns one
            // reading's duration after the moment that it marks.
            overhead_ns: typical(&self.timestamp).round() as i64,
            clock: "CLOCK_MONOTONIC".into(),
            ..Default::default()
        };
        let costs = &mut characterisation.costs;
        costs.insert("timestamp".into(), self.timestamp);
        if !counters.events.is_empty() {
            costs.insert("counters".into(), self.counters);
        }
        characterisation
    }
}

/// The median: one interrupt among the repetitions would move the mean.
fn typical(cost: &Cost) -> f64 {
    cost.median_ns.unwrap_or(cost.mean_ns)
}

/// A source, and the loaded programs that observe it.
struct Probes {
    // Before the programs: a waking thread ends before they are removed.
    source: Box<dyn EventSource>,
    kernel: Kernel,
    conversion: Conversion,
    /// The counts when its last turn ended.
    before: Counts,
}

/// `before`: the counts when the phase began.
fn why_nothing_comes(
    before: &Counts,
    now: &Counts,
    source: Source,
    phase: &str,
    silent: Duration,
) -> String {
    let launched = now.launched - before.launched;
    let not_idle = now.dropped.not_idle - before.dropped.not_idle;
    let why = if now.strayed > before.strayed {
        match source {
            Source::Timer => {
                "its interrupt came on another CPU: the kernel moved the timer (kernel.timer_migration, hotplug)"
            }
            _ => {
                "its interrupt came on another CPU: another program moved it (irqbalance), or a hotplug"
            }
        }
    } else if launched == 0 {
        "the BPF programs saw none of its launches"
    } else if 2 * not_idle > launched {
        "the CPU was not idle at most of its launches; something else runs on it"
    } else {
        "all of its launches were dropped or are in progress"
    };
    format!(
        "no datapoint for {} s from the source {} ({phase}): {why}",
        silent.as_secs(),
        source.as_str()
    )
}

/// Drops between two moments, by reason.
fn drops(source: Source, before: &Counts, now: &Counts) -> Vec<(&'static str, u64)> {
    let (b, n) = (before.dropped, now.dropped);
    let unanswered = match source {
        Source::Nic => "the card did not interrupt",
        _ => "no reply came",
    };
    vec![
        (NOT_IDLE, n.not_idle - b.not_idle),
        ("another interrupt", n.other_interrupt - b.other_interrupt),
        (EARLIER_TIMER, n.earlier_timer - b.earlier_timer),
        (
            "the source's interrupt was not seen",
            n.no_interrupt - b.no_interrupt,
        ),
        (
            "another packet came with the reply",
            n.other_packet - b.other_packet,
        ),
        ("NMI", n.nmi - b.nmi),
        ("SMI", n.smi - b.smi),
        ("ring buffer full", n.ring_full - b.ring_full),
        (
            "its interrupt came on another CPU",
            now.strayed - before.strayed,
        ),
        (unanswered, now.unanswered - before.unanswered),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From 10 µs on idle; awake again at 30 µs, with the interrupt at 31 µs; a timer would have been due at 90 µs.
    fn event(launch: u64) -> types::event {
        types::event {
            tbi: 10_000,
            tai: 30_000,
            tintr: 31_000,
            timer_due: 90_000,
            launch,
            ..Default::default()
        }
    }

    #[test]
    fn a_launch_is_between_the_idle_entry_and_the_first_code_after_it() {
        for (launch, why) in [
            (9_999, Some(NOT_IDLE)),
            (10_000, Some(NOT_IDLE)),
            (10_001, None),
            (29_999, None),
            (30_000, Some(NOT_IDLE)),
            (30_500, Some(NOT_IDLE)),
        ] {
            assert_eq!(not_woken_by_it(&event(launch)), why, "{launch}");
        }
        // Only one of the two was seen.
        let halted = types::event {
            tai: 0,
            ..event(30_500)
        };
        assert_eq!(not_woken_by_it(&halted), None);
        let by_flag = types::event {
            tintr: 0,
            ..event(30_500)
        };
        assert_eq!(not_woken_by_it(&by_flag), Some(NOT_IDLE));
    }

    #[test]
    fn a_cpu_whose_timer_was_due_before_the_launch_was_waking_already() {
        let due = |timer_due| types::event {
            timer_due,
            ..event(20_000)
        };
        assert_eq!(not_woken_by_it(&due(19_999)), Some(EARLIER_TIMER));
        assert_eq!(not_woken_by_it(&due(20_000)), None);
    }
}
