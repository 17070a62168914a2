//! One CPU between two readings.

use reveille_kernel::counters::Counter;
use reveille_kernel::{Cpu, IdleState, bounds};
use reveille_results::schema::DEFAULT_IDLE;

use crate::live::hardware;
use crate::live::latencies::Latencies;
use crate::live::model::{CountedBy, FrequencyFrom};
use crate::live::reading::Reading;
use crate::live::seen::{Sample, Seen, SeenState};

/// The index in the trace of the state that the kernel enters without a driver.
const DEFAULT_IDLE_INDEX: u32 = 1;

/// Ticks of /proc/stat (USER_HZ): 10 ms on every architecture in use.
const TICK_NS: f64 = 1e7;

/// One CPU between two readings.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    pub number: u32,
    pub online: bool,
    pub elapsed_s: f64,
    pub states: Vec<StateChange>,
    pub wakeups: Option<u64>,
    pub entries: Option<u64>,
    /// Wake-ups by timers since watching began, and those of them with a latency.
    pub by_timer: Option<(u64, u64)>,
    pub hardware: Vec<HardwareShare>,
    pub mhz: Option<(f64, FrequencyFrom)>,
    pub smis: Option<(u64, f64)>,
    pub bound_us: Option<u32>,
}

/// One of its idle states.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StateChange {
    pub name: String,
    pub index: u32,
    pub counted_by: CountedBy,
    /// Time in the state, within the interval.
    pub time_ns: Option<f64>,
    /// Stays that ended in the interval, and their total time.
    pub uses: Option<u64>,
    pub stays_ns: Option<f64>,
    /// cpuidle's `usage`, `above` (too deep) and `below` (not deep enough).
    pub counted_uses: Option<u64>,
    pub above: Option<u64>,
    pub below: Option<u64>,
    pub disabled: Option<bool>,
    pub exit_latency_us: Option<u64>,
    pub target_residency_us: Option<u64>,
    /// Since watching began.
    pub latencies: Latencies,
}

/// The share of a residency counter of the processor.
#[derive(Debug, Clone, PartialEq)]
pub struct HardwareShare {
    pub name: String,
    pub percent: f64,
    pub for_cpus: bool,
}

impl Change {
    /// The change of a CPU of the second reading. If it was absent or offline before, its
    /// differences are unknown.
    pub fn between(
        before: &Reading,
        after: &Reading,
        cpu: &Cpu,
        counters: &[Counter],
        request_us: Option<u32>,
    ) -> Self {
        let number = cpu.number;
        let seen = |reading: &'_ Reading| reading.seen.as_ref()?.get(&number).cloned();
        let seen = seen(before).zip(seen(after)).filter(|_| cpu.online);
        let elapsed_s = match &seen {
            Some((before, after)) => after.at_ns.saturating_sub(before.at_ns) as f64 / 1e9,
            None => after.at.duration_since(before.at).as_secs_f64(),
        };
        let earlier = before.idle.cpu(number);
        let mut states = counted(earlier, cpu);
        let samples = match &seen {
            Some((before, after)) => {
                see(&mut states, before, after);
                before.sample.as_ref().zip(after.sample.as_ref())
            }
            None => {
                limit(&mut states, elapsed_s);
                if states.is_empty() {
                    states.extend(by_ticks(before, after, number));
                }
                None
            }
        };
        let samples = samples.and_then(|(before, after)| Samples::between(counters, before, after));
        let current = after
            .mhz
            .get(&number)
            .map(|&mhz| (mhz, FrequencyFrom::Cpufreq));
        Self {
            number,
            online: cpu.online,
            elapsed_s,
            states,
            wakeups: difference(&seen, |seen| seen.wakeups),
            entries: difference(&seen, |seen| seen.entries),
            by_timer: seen
                .as_ref()
                .map(|(_, seen)| (seen.by_timer, seen.latencies)),
            mhz: samples.as_ref().and_then(Samples::mhz).or(current),
            smis: samples.as_ref().and_then(Samples::smis),
            hardware: samples.map_or_else(Vec::new, |samples| samples.shares()),
            bound_us: bounds::in_force_us(cpu, request_us),
        }
    }

    /// Share of the time in no idle state; `None` if a state's time is unknown. Without a driver BPF names states once
    /// they are entered: none then means that the CPU did not sleep.
    pub fn awake_percent(&self) -> Option<f64> {
        let is_known = !self.states.is_empty() || self.entries.is_some();
        if !self.online || !is_known || self.elapsed_s <= 0.0 {
            return None;
        }
        let asleep: Option<f64> = self.states.iter().map(|state| state.time_ns).sum();
        Some((100.0 - asleep? / (self.elapsed_s * 1e9) * 100.0).clamp(0.0, 100.0))
    }
}

fn difference(seen: &Option<(Seen, Seen)>, of: impl Fn(&Seen) -> u64) -> Option<u64> {
    let (before, after) = seen.as_ref()?;
    of(after).checked_sub(of(before))
}

/// States by cpuidle's counters.
fn counted(before: Option<&Cpu>, after: &Cpu) -> Vec<StateChange> {
    let change = |state: &IdleState| {
        let earlier = before
            .filter(|before| before.online && after.online)
            .and_then(|cpu| cpu.states.iter().find(|other| other.index == state.index))
            .filter(|other| other.name == state.name);
        let grown = |of: fn(&IdleState) -> Option<u64>| of(state)?.checked_sub(of(earlier?)?);
        let time_ns = grown(|state| state.time_us).map(|us| us as f64 * 1e3);
        StateChange {
            name: state.name.clone(),
            index: state.index,
            counted_by: CountedBy::Kernel,
            time_ns,
            stays_ns: time_ns,
            uses: grown(|state| state.usage),
            counted_uses: grown(|state| state.usage),
            above: grown(|state| state.above),
            below: grown(|state| state.below),
            disabled: state.disabled,
            exit_latency_us: state.exit_latency_us,
            target_residency_us: state.target_residency_us,
            latencies: Latencies::default(),
        }
    };
    after.states.iter().map(change).collect()
}

/// Replaces cpuidle's counts by BPF's, which include the current sleep. Adds states without a
/// driver's description once they have been entered.
fn see(states: &mut Vec<StateChange>, before: &Seen, after: &Seen) {
    let never = SeenState::default();
    for (index, now) in after.states.iter().enumerate() {
        let then = before.states.get(index).unwrap_or(&never);
        let place = states.iter().position(|state| state.index == index as u32);
        let place = match place {
            Some(place) => place,
            None if now.time_ns > 0 => {
                states.push(undescribed(index as u32));
                states.len() - 1
            }
            None => continue,
        };
        let state = &mut states[place];
        state.counted_by = CountedBy::Trace;
        state.time_ns = Some(now.time_ns.saturating_sub(then.time_ns) as f64);
        state.stays_ns = Some(now.stays_ns.saturating_sub(then.stays_ns) as f64);
        state.uses = now.uses.checked_sub(then.uses);
        state.latencies = now.latencies.clone();
    }
}

fn undescribed(index: u32) -> StateChange {
    StateChange {
        name: match index {
            0 => "POLL".to_owned(),
            DEFAULT_IDLE_INDEX => DEFAULT_IDLE.to_owned(),
            _ => format!("state{index}"),
        },
        index,
        ..StateChange::default()
    }
}

/// Limits cpuidle's times to the interval: it counts a sleep when it is over, with its whole length.
fn limit(states: &mut [StateChange], elapsed_s: f64) {
    let sum: f64 = states.iter().filter_map(|state| state.time_ns).sum();
    let excess = sum / (elapsed_s * 1e9);
    if excess > 1.0 {
        for time in states.iter_mut().filter_map(|state| state.time_ns.as_mut()) {
            *time /= excess;
        }
    }
}

/// Idle time by /proc/stat, without cpuidle and BPF.
fn by_ticks(before: &Reading, after: &Reading, number: u32) -> Option<StateChange> {
    let ticks = |reading: &Reading| reading.idle_ticks.as_ref()?.get(&number).copied();
    let idle = ticks(after)?.checked_sub(ticks(before)?)?;
    Some(StateChange {
        time_ns: Some(idle as f64 * TICK_NS),
        ..undescribed(DEFAULT_IDLE_INDEX)
    })
}

/// Two samples of a CPU's counters.
struct Samples<'a> {
    counters: &'a [Counter],
    /// Increase of each counter.
    grown: Vec<Option<u64>>,
    tsc: u64,
    elapsed_s: f64,
}

impl<'a> Samples<'a> {
    /// `None` if the CPU has not read them in between, or has no TSC.
    fn between(counters: &'a [Counter], before: &Sample, after: &Sample) -> Option<Self> {
        let grown: Vec<Option<u64>> = before
            .values
            .iter()
            .zip(&after.values)
            .map(|(before, after)| (*after)?.checked_sub((*before)?))
            .collect();
        let elapsed_ns = after.at_ns.checked_sub(before.at_ns)?;
        let place = counters
            .iter()
            .position(|counter| counter.column == "tsc")?;
        let tsc = (*grown.get(place)?)?;
        (elapsed_ns > 0 && tsc > 0).then(|| Self {
            counters,
            grown,
            tsc,
            elapsed_s: elapsed_ns as f64 / 1e9,
        })
    }

    fn grown(&self, column: &str) -> Option<u64> {
        let place = self
            .counters
            .iter()
            .position(|counter| counter.column == column)?;
        self.grown[place]
    }

    /// The frequency while it ran: MPERF then counts at the TSC's rate, APERF at the core's.
    fn mhz(&self) -> Option<(f64, FrequencyFrom)> {
        let tsc_mhz = self.tsc as f64 / self.elapsed_s / 1e6;
        let (aperf, mperf) = (self.grown("aperf")?, self.grown("cc0_percent")?);
        (mperf > 0).then(|| {
            let mhz = tsc_mhz * aperf as f64 / mperf as f64;
            (mhz, FrequencyFrom::Counters)
        })
    }

    /// The number of SMIs, and in how many seconds.
    fn smis(&self) -> Option<(u64, f64)> {
        Some((self.grown("smi_count")?, self.elapsed_s))
    }

    fn shares(&self) -> Vec<HardwareShare> {
        let share = |(counter, grown): (&Counter, &Option<u64>)| {
            Some(HardwareShare {
                name: hardware::state_name(counter)?,
                percent: ((*grown)? as f64 / self.tsc as f64 * 100.0).min(100.0),
                for_cpus: hardware::is_for_cpus(counter),
            })
        };
        self.counters
            .iter()
            .zip(&self.grown)
            .filter_map(share)
            .collect()
    }
}

#[cfg(test)]
mod tests;
