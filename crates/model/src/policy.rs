//! What a server does while it has no work, and the outcome.

use serde::{Deserialize, Serialize};

use crate::power::{MOST, Power};
use crate::{Result, seconds};

/// How one server with one queue (first come, first served) saves power.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Policy {
    /// Idle at [`Power::idle`], ready at once.
    AlwaysOn,
    /// Asleep when there is nothing to do.
    PowerNap(PowerNap),
    /// Slower and at less power when there is less to do.
    Dvfs(Dvfs),
    /// In an idle state of the processor when there is nothing to do.
    CStates(CStates),
}

/// Asleep when there is nothing to do: PowerNap (Meisner, Gold and Wenisch, ASPLOS 2009), with a
/// timeout.
///
/// When its queue is empty, the server waits for `timeout` at [`Power::idle`] and serves a request that
/// arrives meanwhile at once. Then it suspends, which cannot be interrupted: a request that arrives
/// meanwhile waits for the end of the suspend and for the resume. After the suspend it naps at
/// [`Power::nap`]; the first arrival starts the resume, after which all waiting requests are served.
/// Suspend and resume draw [`Power::transition`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PowerNap {
    /// Seconds from awake to asleep; 0 and above.
    #[serde(rename(serialize = "suspend_s"), deserialize_with = "seconds::read")]
    pub suspend: f64,
    /// Seconds from asleep to ready; 0 and above.
    #[serde(rename(serialize = "resume_s"), deserialize_with = "seconds::read")]
    pub resume: f64,
    /// Seconds of idleness before the suspend; 0: at once. `f64::INFINITY`: never.
    #[serde(rename(serialize = "timeout_s"), serialize_with = "number_or_never")]
    #[serde(default, deserialize_with = "seconds::read")]
    pub timeout: f64,
}

/// Dynamic voltage and frequency scaling. The frequency follows the mean load, not each request: in
/// steady state it is one frequency. A request takes its service time divided by it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dvfs {
    /// The lowest relative frequency: above 0, at most 1.
    pub floor: f64,
    /// The part of [`Power::active`] that is the processor's and follows the frequency: 0 to 1.
    pub processor_share: f64,
    /// The part of [`Power::idle`] that follows the frequency: 0 to 1.
    #[serde(default)]
    pub idle_share: f64,
    /// How the processor's power follows the frequency.
    #[serde(default)]
    pub law: Law,
    /// How the frequency follows the load.
    pub rule: Rule,
}

/// The processor's power at a relative frequency, by that at full frequency.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Law {
    /// f³: voltage falls as the frequency does (P = C·V²·f).
    #[default]
    Cubic,
    /// As measured: (relative frequency, relative power), ascending, the last at 1; straight lines
    /// between them, and below the first its power.
    Measured(Vec<(f64, f64)>),
}

/// How the relative frequency f follows the load ρ (arrival rate by mean service time at full
/// frequency). Below the floor it is the floor, above 1 it is 1.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// Always the same.
    Fixed(f64),
    /// f = ρ / target: the server is busy for this share of the time, as governors of `cpufreq` aim
    /// at (`schedutil`: 0.8).
    BusyShare(f64),
    /// The lowest at which the mean response time is at most so many times that at full frequency:
    /// at least 1.
    Slowdown(f64),
    /// f = floor + (1 − floor) · ρ.
    Linear,
}

/// Idle states of a processor: the deeper, the less power, the later the first instruction.
///
/// Entered at once when the queue is empty; the first arrival begins the exit, which takes the exit
/// latency at [`Power::transition`]. Where no state fits, the server idles awake at [`Power::idle`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CStates {
    /// From shallow to deep: target residencies ascend.
    pub states: Vec<CState>,
    /// Which of them an idle period is spent in.
    pub choice: Choice,
}

/// One of those idle states.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CState {
    /// As the driver calls it: `C6`.
    pub name: String,
    /// Seconds from the arrival to the first instruction.
    #[serde(
        rename(serialize = "exit_latency_s"),
        deserialize_with = "seconds::read"
    )]
    pub exit_latency: f64,
    /// What the whole server draws in it, in watts.
    #[serde(rename(serialize = "power_w"))]
    pub power: f64,
    /// Seconds that an idle period must last for the state to pay.
    #[serde(
        rename(serialize = "target_residency_s"),
        deserialize_with = "seconds::read"
    )]
    pub target_residency: f64,
}

/// Which state an idle period is spent in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Choice {
    /// The deepest, always.
    Deepest,
    /// The deepest whose target residency is at most the mean time to the next arrival, 1/λ: what a
    /// governor predicts that knows the arrival rate and no more.
    Mean,
    /// The deepest whose target residency is at most the length of *this* idle period. Nobody knows
    /// it beforehand: a bound for governors.
    Oracle,
}

/// Shares of time, as numbers or as estimates; their sum is 1.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Shares<T = f64> {
    /// Serving a request.
    pub active: T,
    /// Awake without a request: the timeout too.
    pub idle: T,
    /// On the way to sleep and back.
    pub transition: T,
    /// Asleep, or in any idle state.
    pub nap: T,
}

impl Shares {
    /// The mean power, in watts.
    pub fn power(&self, power: &Power) -> f64 {
        self.active * power.active
            + self.idle * power.idle
            + self.transition * power.transition
            + self.nap * power.nap
    }
}

/// Power and response time of a policy in steady state.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Outcome {
    /// From arrival to departure, mean, in seconds.
    #[serde(rename = "response_mean_s")]
    pub response_mean: f64,
    /// From arrival to the beginning of service, mean, in seconds.
    #[serde(rename = "wait_mean_s")]
    pub wait_mean: f64,
    /// Watts.
    #[serde(rename = "power_mean_w")]
    pub power_mean: f64,
    /// Of the server's time.
    pub shares: Shares,
    /// How often a second the server falls asleep (or enters an idle state).
    pub naps_per_s: f64,
    /// The relative frequency at which it serves: 1 but for DVFS.
    pub frequency: f64,
}

/// A timeout as JSON has it, which knows no infinity.
pub(crate) fn number_or_never<S: serde::Serializer>(
    value: &f64,
    to: S,
) -> std::result::Result<S::Ok, S::Error> {
    match value.is_finite() {
        true => to.serialize_f64(*value),
        false => to.serialize_str("never"),
    }
}

impl Law {
    /// The processor's relative power at this relative frequency.
    pub fn power(&self, frequency: f64) -> f64 {
        match self {
            Law::Cubic => frequency * frequency * frequency,
            Law::Measured(points) => between(points, frequency),
        }
    }
}

fn between(points: &[(f64, f64)], frequency: f64) -> f64 {
    let above = points.partition_point(|(at, _)| *at <= frequency);
    match (
        above.checked_sub(1).map(|below| points[below]),
        points.get(above),
    ) {
        (Some((f0, p0)), Some((f1, p1))) => p0 + (p1 - p0) * (frequency - f0) / (f1 - f0),
        (None, Some((_, power))) => *power,
        (Some((_, power)), None) => power,
        (None, None) => 1.0,
    }
}

impl Dvfs {
    /// What the server draws while it serves at this relative frequency, in watts.
    pub fn active_power(&self, power: &Power, frequency: f64) -> f64 {
        power.active
            * (1.0 - self.processor_share + self.processor_share * self.law.power(frequency))
    }

    /// What the server draws while it waits at this relative frequency, in watts.
    pub fn idle_power(&self, power: &Power, frequency: f64) -> f64 {
        power.idle * (1.0 - self.idle_share + self.idle_share * self.law.power(frequency))
    }
}

impl CStates {
    /// The server never sleeps.
    pub(crate) const NONE: Self = Self {
        states: Vec::new(),
        choice: Choice::Deepest,
    };

    /// The place of the deepest state whose target residency is at most `idle` seconds; `None`: stay
    /// awake. [`Choice::Deepest`] does not ask.
    pub fn fitting(&self, idle: f64) -> Option<usize> {
        self.states
            .iter()
            .rposition(|state| state.target_residency <= idle)
    }

    /// The state of an idle period of `idle` seconds, where arrivals come every `gap` seconds in the
    /// mean.
    pub fn state(&self, idle: f64, gap: f64) -> Option<usize> {
        match self.choice {
            Choice::Deepest => self.states.len().checked_sub(1),
            Choice::Mean => self.fitting(gap),
            Choice::Oracle => self.fitting(idle),
        }
    }
}

impl Policy {
    /// # Errors
    /// [`crate::Error::Usage`] for an invalid figure: which, and the valid range.
    pub fn check(&self) -> Result<()> {
        match self {
            Policy::AlwaysOn => Ok(()),
            Policy::PowerNap(nap) => nap.check(),
            Policy::Dvfs(dvfs) => dvfs.check(),
            Policy::CStates(states) => states.check(),
        }
    }
}

impl PowerNap {
    fn check(&self) -> Result<()> {
        time("suspend", self.suspend)?;
        time("resume", self.resume)?;
        // Never to sleep is a timeout, too.
        match self.timeout == f64::INFINITY {
            true => Ok(()),
            false => time("timeout", self.timeout),
        }
    }
}

impl Dvfs {
    fn check(&self) -> Result<()> {
        let part = |name, f: f64| within(name, f, f > 0.0 && f <= 1.0, "above 0, at most 1");
        part("floor", self.floor)?;
        for (name, share) in [
            ("processor_share", self.processor_share),
            ("idle_share", self.idle_share),
        ] {
            within(name, share, (0.0..=1.0).contains(&share), "from 0 to 1")?;
        }
        match self.rule {
            Rule::Fixed(f) => part("fixed", f)?,
            Rule::BusyShare(share) => {
                let is_within = share > 0.0 && share < 1.0;
                within("busy_share", share, is_within, "between 0 and 1")?;
            }
            Rule::Slowdown(limit) => {
                let is_within = limit >= 1.0 && limit.is_finite();
                within("slowdown", limit, is_within, "1 or above")?;
            }
            Rule::Linear => {}
        }
        match &self.law {
            Law::Cubic => Ok(()),
            Law::Measured(points) => check_law(points),
        }
    }
}

fn check_law(points: &[(f64, f64)]) -> Result<()> {
    let ascending = points.windows(2).all(|pair| pair[0].0 < pair[1].0);
    let last = points
        .last()
        .is_some_and(|(frequency, _)| *frequency == 1.0);
    let positive = points
        .iter()
        .all(|(f, p)| *f > 0.0 && *p >= 0.0 && p.is_finite());
    ensure!(
        ascending && last && positive,
        "law: give pairs of relative frequency and relative power, frequencies ascending from above 0 to \
         1, powers 0 or above"
    );
    Ok(())
}

impl CStates {
    fn check(&self) -> Result<()> {
        for state in &self.states {
            let (named, power) = (|key: &str| format!("{}: {key}", state.name), state.power);
            time(&named("exit_latency"), state.exit_latency)?;
            time(&named("target_residency"), state.target_residency)?;
            let is_within = (0.0..=MOST).contains(&power);
            within(&named("power"), power, is_within, "0 to 1e9 W")?;
        }
        for (shallow, deep) in self.states.iter().zip(self.states.iter().skip(1)) {
            ensure!(
                shallow.target_residency <= deep.target_residency,
                "states: {} stands before {}, whose target residency is shorter; give them from shallow \
                 to deep",
                shallow.name,
                deep.name
            );
        }
        Ok(())
    }
}

/// Seconds: thirty years.
const LONGEST: f64 = 1e9;

fn time(name: &str, seconds: f64) -> Result<()> {
    let is_within = (0.0..=LONGEST).contains(&seconds);
    within(name, seconds, is_within, "a time from 0 to 1e9 s")
}

fn within(name: &str, value: f64, is_within: bool, wanted: &str) -> Result<()> {
    ensure!(is_within, "{name}: {value:?}; give {wanted}");
    Ok(())
}

#[cfg(test)]
mod tests;
