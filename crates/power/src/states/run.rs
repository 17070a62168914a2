//! The turns: each state at each rate, in each round.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use reveille_kernel::limits::Limit;
use reveille_kernel::{Error, Idle, IdleState, Result, polls};
use reveille_results::description::Ended;
use reveille_trial::rounds::{self, At, Plan, Progress, Turns};
use reveille_trial::setting::{InForce, Kind, Machine};

use super::result::Turn;
use crate::dwell::{Here, Times};
use crate::waking::Waking;

/// Wake-ups of each CPU a second, by default.
pub const RATES: [f64; 4] = [50.0, 500.0, 1000.0, 2000.0];

/// The CPU time of a wake-up of ours, s: far more than it takes.
const WAKE_S: f64 = 50e-6;

/// What is measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Turns of each.
    pub rounds: u32,
    /// Wake-ups of each CPU a second.
    pub rates_per_s: Vec<f64>,
    /// Of the order of turns.
    pub seed: u64,
}

/// What a turn at a rate gives.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Woken {
    /// Mean power.
    pub power_w: f64,
    /// Entries to the state a second, all CPUs together.
    pub entries_per_s: f64,
    /// Of all entries, per cent.
    pub share_percent: f64,
}

/// What is woken: this machine, or a simulated one.
pub trait Wakes {
    /// Wakes each CPU so often while only this state is allowed. `None` if `stop` ended it.
    ///
    /// # Errors
    /// Those of the meter; [`Error::Disturbed`] by other load.
    fn wake(&mut self, state: &str, rate_per_s: f64, stop: &AtomicBool) -> Result<Option<Woken>>;
}

impl Wakes for Here<'_> {
    fn wake(&mut self, state: &str, rate_per_s: f64, stop: &AtomicBool) -> Result<Option<Woken>> {
        let cpus = self.cpus().to_vec();
        let own = cpus.len() as f64 * rate_per_s * WAKE_S;
        let measured = self.under(&|| Waking::start(&cpus, rate_per_s), &[], own, stop)?;
        Ok(measured.map(|(power_w, between)| {
            let of_state = between.entries.get(state).copied().unwrap_or(0) as f64;
            let all: u64 = between.entries.values().sum();
            Woken {
                power_w,
                entries_per_s: of_state / between.elapsed_s,
                share_percent: 100.0 * of_state / all.max(1) as f64,
            }
        }))
    }
}

/// The states of the machine by depth, once by name.
///
/// # Errors
/// [`Error::Cannot`] with fewer than two.
pub fn names(idle: &Idle) -> Result<Vec<&IdleState>> {
    let mut states: Vec<&IdleState> = Vec::new();
    let online = idle.cpus.iter().filter(|cpu| cpu.online);
    for state in online.flat_map(|cpu| &cpu.states) {
        if !states.iter().any(|known| known.name == state.name) {
            states.push(state);
        }
    }
    states.sort_by_key(|state| (state.exit_latency_us.unwrap_or(u64::MAX), state.index));
    match states.len() {
        0 | 1 => Err(Error::Cannot(
            "this machine has no two idle states to compare (`reveille states` shows them)"
                .to_owned(),
        )),
        _ => Ok(states),
    }
}

struct Work<'d> {
    machine: &'d Machine,
    wakes: &'d mut dyn Wakes,
    states: &'d [String],
    options: &'d Options,
    time: Duration,
}

impl Work<'_> {
    fn of(&self, setting: usize) -> (&str, f64) {
        let rates = &self.options.rates_per_s;
        (
            &self.states[setting / rates.len()],
            rates[setting % rates.len()],
        )
    }
}

impl Turns for Work<'_> {
    type Turn = Turn;

    fn name(&self, at: At) -> String {
        let (state, rate) = self.of(at.setting);
        format!("{state}, {rate} wake-ups/s")
    }

    fn expected(&self, _: usize) -> Option<Duration> {
        Some(self.time)
    }

    fn begin(&self, setting: usize) -> Result<InForce> {
        let (state, _) = self.of(setting);
        let others = self.states.iter().filter(|other| *other != state);
        let limit = Limit::Disable(others.cloned().collect());
        // Governors that ignore what is off honour a bound, and then poll.
        let kind = match polls(state) {
            true => Kind::Hold {
                bound_us: 0,
                cpus: None,
            },
            false => Kind::Limit { limit, cpus: None },
        };
        kind.apply(self.machine)
    }

    fn turn(&mut self, at: At, stop: &AtomicBool) -> Result<Option<Turn>> {
        let (state, rate_per_s) = self.of(at.setting);
        let state = state.to_owned();
        let woken = self.wakes.wake(&state, rate_per_s, stop)?;
        Ok(woken.map(|woken| Turn {
            round: at.round,
            state,
            rate_per_s,
            power_w: woken.power_w,
            entries_per_s: woken.entries_per_s,
            share_percent: woken.share_percent,
        }))
    }
}

/// Runs all rounds, or the whole ones before something ends the run.
///
/// # Errors
/// Of the first round, if it could not be measured.
pub fn run(
    machine: &Machine,
    wakes: &mut dyn Wakes,
    states: &[String],
    options: &Options,
    times: &Times,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(&Progress),
) -> Result<(Vec<Turn>, Ended)> {
    let plan = Plan {
        rounds: options.rounds,
        points: 1,
        settings: states.len() * options.rates_per_s.len(),
        seed: options.seed,
        whole: true,
    };
    let mut work = Work {
        machine,
        wakes,
        states,
        options,
        time: times.whole(),
    };
    rounds::run(&mut work, &plan, stop, progress)
}
