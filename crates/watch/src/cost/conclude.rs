//! From the kernel's sums to the result.

use std::collections::BTreeMap;

use reveille_kernel::interrupts::Interrupts;
use reveille_results::Description;
use reveille_results::schema::AWAKE;

use super::depth::{AWAKE_PLACE, BUSY_PLACE, OTHER_PLACE};
use super::forbidding::{self, ENOUGH};
use super::result::{
    Cost, CpuCost, Estimate, FILE, InterruptCost, Overhead, PairCost, SCHEMA_VERSION, StateCost,
    Subject,
};
use super::tallies::{Cause, Counted, PairSums, Tallies, WaitSums};
use super::{Depth, Distribution, show};

/// The parts of the result that the BPF programs do not provide.
#[derive(Debug, Clone, PartialEq)]
pub struct About {
    /// What was followed, where and when.
    pub subject: Subject,
    /// Names of devices' interrupts.
    pub interrupts: Option<Interrupts>,
    /// For estimates of waits of unknown instant.
    pub measured: Measured,
}

/// A result with measured latencies, if any: its name and description.
pub type Measured = Option<(String, Description)>;

impl Cost {
    /// The result of these sums.
    pub fn of(tallies: &Tallies, about: About) -> Self {
        let totals = &tallies.totals;
        let all = tallies.all_waits();
        let elapsed_ns = tallies.elapsed.as_nanos() as u64;
        let by_state = by_state(tallies, about.measured.as_ref());
        let forbidding = forbidding::all(&tallies.depth, &by_state);
        let mut cost = Self {
            schema_version: SCHEMA_VERSION,
            wakeups: totals.wakeups,
            met_sleeping_cpu: totals.asleep,
            met_polling_cpu: totals.polling,
            waited: all.waited,
            lost_share: (elapsed_ns > 0).then(|| all.waited.leaving_ns as f64 / elapsed_ns as f64),
            most_delayed_thread: totals.most.clone(),
            by_state,
            by_pair: by_pair(tallies, about.interrupts.as_ref()),
            by_interrupt: by_interrupt(tallies, about.interrupts.as_ref()),
            by_cpu: by_cpu(tallies),
            forbidding,
            sentence: String::new(),
            missed: totals.missed,
            overhead: overhead(tallies, about.subject.machine.cpus_online),
            notes: notes(tallies),
            elapsed_ns,
            subject: about.subject,
        };
        cost.sentence = show::answer(&cost);
        cost
    }
}

/// Reads a `cost.json`; the error is one line: it is another file, was cut short, or has an unknown schema. The
/// conclusion is by the figures, whichever version wrote them.
pub fn read(text: &[u8]) -> Result<Cost, String> {
    let mut cost: Cost = reveille_results::kept::parse(text, FILE, SCHEMA_VERSION)?;
    cost.sentence = show::answer(&cost);
    Ok(cost)
}

/// The states with waits, from the shallowest, after `busy` and `awake`.
fn by_state(tallies: &Tallies, measured: Option<&(String, Description)>) -> Vec<StateCost> {
    let cost =
        |place, name: &str, polling, exit_us| state_cost(tallies, place, name, polling, exit_us);
    let mut all = vec![
        cost(BUSY_PLACE, "busy", false, None),
        cost(AWAKE_PLACE, AWAKE, false, None),
    ];
    for (order, state) in tallies.depth.states.iter().enumerate() {
        let place = Depth::place(order);
        if place != OTHER_PLACE {
            all.push(cost(
                place,
                &state.name,
                state.polling,
                state.exit_latency_us,
            ));
        }
    }
    all.push(cost(OTHER_PLACE, "another state", false, None));
    all.retain(|state| state.waits > 0);
    for state in &mut all {
        state.estimate = estimate(state, measured);
    }
    all
}

fn state_cost(
    tallies: &Tallies,
    place: u32,
    name: &str,
    polling: bool,
    driver_exit_latency_us: Option<u64>,
) -> StateCost {
    let sums = tallies.at_place(place);
    let distribution = match tallies.distributions.get(&place) {
        Some(counts) => Distribution::of(counts),
        None => Distribution::default(),
    };
    // For a state that is not left, the distribution is of other times.
    let sleeps = place >= OTHER_PLACE && !polling;
    let quantile = |share| sleeps.then(|| distribution.quantile_ns(share)).flatten();
    let known = sums.count - sums.unknown;
    StateCost {
        state: name.to_owned(),
        polling,
        driver_exit_latency_us,
        waits: sums.count,
        unknown_waits: sums.unknown,
        waited: sums.waited,
        mean_stay_ns: (place >= OTHER_PLACE && sums.count > 0)
            .then(|| sums.stay_ns as f64 / sums.count as f64),
        mean_leaving_ns: (sleeps && known > 0)
            .then(|| sums.waited.leaving_ns as f64 / known as f64),
        median_leaving_ns: quantile(0.5),
        p90_leaving_ns: quantile(0.9),
        p99_leaving_ns: quantile(0.99),
        distribution: match polling {
            false => distribution,
            true => Distribution::default(),
        },
        estimate: None,
    }
}

fn estimate(state: &StateCost, measured: Option<&(String, Description)>) -> Option<Estimate> {
    if state.unknown_waits == 0 {
        return None;
    }
    let of_result = measured.and_then(|(name, description)| {
        let mut statistics = description.statistics.iter();
        let found = statistics.find(|one| one.state == state.state)?;
        let by = format!("mean wake latency in {name} (source {})", found.source);
        Some((found.wake_latency.mean_ns, by))
    });
    let of_this = || {
        let mean = state.mean_leaving_ns?;
        let known = state.waits - state.unknown_waits;
        (known >= ENOUGH).then(|| (mean, format!("mean of {known} waits of known instant here")))
    };
    let (mean, by) = of_result.or_else(of_this)?;
    Some(Estimate {
        leaving_ns: (mean.max(0.0) * state.unknown_waits as f64) as u64,
        by,
    })
}

fn cause_name(cause: Cause, interrupts: Option<&Interrupts>) -> String {
    match cause {
        Cause::Task => "task".to_owned(),
        Cause::Timer => "timer".to_owned(),
        Cause::Call => "another CPU".to_owned(),
        Cause::Other => "other interrupt".to_owned(),
        Cause::Device(irq) => {
            let line = interrupts.and_then(|all| {
                let mut lines = all.lines.iter();
                lines.find(|line| line.name == irq.to_string())
            });
            // The device's name follows chip, hardware number and trigger.
            let device = line.and_then(|line| line.description.split_whitespace().last());
            match device {
                Some(device) => format!("{device} (irq {irq})"),
                None => format!("irq {irq}"),
            }
        }
    }
}

fn by_pair(tallies: &Tallies, interrupts: Option<&Interrupts>) -> Vec<PairCost> {
    let pair = |(pair, sums): (&super::Pair, &PairSums)| PairCost {
        waker: match pair.cause {
            Cause::Task => pair.waker.clone(),
            cause => cause_name(cause, interrupts),
        },
        by_interrupt: pair.cause != Cause::Task,
        wakee: pair.wakee.clone(),
        wakeups: sums.wakeups,
        asleep: sums.asleep,
        waited: sums.waited,
    };
    let mut pairs: Vec<_> = tallies.pairs.iter().map(pair).collect();
    pairs.sort_by_key(|pair| std::cmp::Reverse((pair.waited.leaving_ns, pair.wakeups)));
    pairs
}

fn by_interrupt(tallies: &Tallies, interrupts: Option<&Interrupts>) -> Vec<InterruptCost> {
    let mut sums: BTreeMap<Cause, PairSums> = BTreeMap::new();
    let by_interrupts = tallies.pairs.iter();
    for (pair, pair_sums) in by_interrupts.filter(|(pair, _)| pair.cause != Cause::Task) {
        sums.entry(pair.cause).or_default().add(pair_sums);
    }
    let cost = |(cause, sums): (&Cause, &PairSums)| InterruptCost {
        interrupt: cause_name(*cause, interrupts),
        irq: match cause {
            Cause::Device(irq) => Some(*irq),
            _ => None,
        },
        wakeups: sums.wakeups,
        asleep: sums.asleep,
        waited: sums.waited,
    };
    let mut all: Vec<_> = sums.iter().map(cost).collect();
    all.sort_by_key(|one| std::cmp::Reverse((one.waited.leaving_ns, one.wakeups)));
    all
}

fn by_cpu(tallies: &Tallies) -> Vec<CpuCost> {
    type OfCpu = (WaitSums, u64, BTreeMap<String, u64>);
    let mut cpus: BTreeMap<u32, OfCpu> = BTreeMap::new();
    for (&(cpu, place), waits) in tallies.waits.iter().filter(|(_, waits)| waits.count > 0) {
        let (sum, asleep, by_state) = cpus.entry(cpu).or_default();
        sum.add(waits);
        let state = tallies.depth.at_place(place);
        if place == OTHER_PLACE || state.is_some_and(|state| !state.polling) {
            *asleep += waits.count;
        }
        if let Some(state) = state {
            by_state.insert(state.name.clone(), waits.waited.leaving_ns);
        }
    }
    let cost = |(cpu, (sums, asleep, leaving_by_state_ns)): (u32, OfCpu)| CpuCost {
        cpu,
        waits: sums.count,
        asleep,
        waited: sums.waited,
        leaving_by_state_ns,
    };
    cpus.into_iter().map(cost).collect()
}

fn overhead(tallies: &Tallies, cpus: Option<u32>) -> Overhead {
    let counted = tallies.counted;
    let per = |ns: fn(&Counted) -> u64, divisor: fn(&Counted) -> u64| {
        counted
            .filter(|counted| divisor(counted) > 0)
            .map(|counted| ns(&counted) as f64 / divisor(&counted) as f64)
    };
    let share = |counted: Counted| {
        let cpu_time_ns = counted.elapsed.as_nanos() as f64 * f64::from(cpus?);
        let spent_ns = (counted.following_ns() + counted.beginning_ns()) as f64;
        (cpu_time_ns > 0.0).then_some(spent_ns / cpu_time_ns)
    };
    Overhead {
        machine_wakeups: tallies.issued,
        counted_s: counted.map(|counted| counted.elapsed.as_secs_f64()),
        counted_wakeups: counted.map(|counted| counted.machine_wakeups),
        runs_per_wakeup: per(|c| c.runs, |c| c.machine_wakeups),
        per_wakeup_ns: per(Counted::following_ns, |c| c.machine_wakeups),
        per_new_task_ns: per(Counted::beginning_ns, |c| c.new_tasks),
        counting_per_wakeup_ns: per(|c| c.runs * c.counting_ns, |c| c.machine_wakeups),
        share_of_cpu_time: counted.and_then(share),
    }
}

fn notes(tallies: &Tallies) -> Vec<String> {
    let missed = &tallies.totals.missed;
    let mut notes = Vec::new();
    if !tallies.sees_sending {
        notes.push(
            "This kernel does not report when one CPU sends an interrupt to another \
             (ipi:ipi_send_cpu): the waker's time from the wake-up until then, about 1 µs, counts as \
             leaving the idle state, and the instant is unknown for waits for a CPU that another \
             one's request woke."
                .to_owned(),
        );
    }
    if missed.pairs_full > 0 {
        notes.push(format!(
            "The table of pairs was full: {} wake-ups are in the totals, but in no pair.",
            missed.pairs_full
        ));
    }
    if missed.stacks_full + missed.stacks_failed > 0 {
        notes.push(format!(
            "The waker's stack is missing for {} wake-ups.",
            missed.stacks_full + missed.stacks_failed
        ));
    }
    if missed.unfollowed_tasks > 0 {
        notes.push(format!(
            "{} tasks could not be followed: the kernel had no memory.",
            missed.unfollowed_tasks
        ));
    }
    notes
}
