//! The result of `reveille power states`, kept as `power-states.json`.

use std::collections::BTreeMap;
use std::path::Path;

use reveille_figures::rounds::Estimate;
use reveille_kernel::{IdleState, Result, polls};
use reveille_meter::Watched;
use reveille_results::kept::{self, About};
use serde::{Deserialize, Serialize};

use super::fit::{BreakEven, Line};
use crate::dwell::Times;

/// The file's name in the result's folder.
pub const FILE: &str = "power-states.json";

/// The version of its schema.
pub const SCHEMA_VERSION: u32 = 1;

/// Entries of a turn that must be to its state, per cent.
const SHARE_MIN: f64 = 95.0;

/// One measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    /// From 0.
    pub round: u32,
    /// The only one that was allowed.
    pub state: String,
    /// Wake-ups of each CPU a second, as wanted.
    pub rate_per_s: f64,
    /// Mean power.
    pub power_w: f64,
    /// Entries to the state, all CPUs together.
    pub entries_per_s: f64,
    /// Of all entries.
    pub share_percent: f64,
}

impl Turn {
    fn counts(&self) -> bool {
        self.share_percent >= SHARE_MIN
    }
}

/// One state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// As the driver calls it.
    pub name: String,
    /// The driver's, µs.
    pub target_residency_us: Option<u64>,
    /// The machine's power while all CPUs stay in it; `None` without a line.
    pub power_w: Option<Estimate>,
    /// The energy of an entry and the way back.
    pub entry_uj: Option<Estimate>,
    /// The next shallower state that has a line.
    pub shallower: Option<String>,
    /// By how much less the machine takes than in that one.
    pub saves_w: Option<Estimate>,
    /// From which stay on it pays against that one.
    pub break_even: Option<BreakEven>,
    /// Turns that do not count, for too many entries went to other states.
    pub dropped: u64,
}

/// The whole result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct States {
    /// Who made it, when, where.
    #[serde(flatten)]
    pub about: About,
    /// The meter, as it was seen before.
    pub meter: Watched,
    /// Rounds that were planned.
    pub rounds: u32,
    /// What counts of each turn, s.
    pub dwell_s: f64,
    /// What is dropped before, s.
    pub settle_s: f64,
    /// Seed of the order of turns.
    pub seed: u64,
    /// CPUs that were woken.
    pub cpus: usize,
    /// Shallow ones first.
    pub idle_states: Vec<State>,
    /// What else there is to know.
    pub notes: Vec<String>,
    /// Every turn.
    pub turns: Vec<Turn>,
}

/// The run of a result.
pub struct Ran {
    /// Rounds that were planned.
    pub rounds: u32,
    /// Seed of the order of turns.
    pub seed: u64,
    /// CPUs that were woken.
    pub cpus: usize,
    /// Every turn.
    pub turns: Vec<Turn>,
}

impl States {
    /// Of these turns; `states` by depth.
    pub fn of(
        about: About,
        meter: Watched,
        times: &Times,
        states: &[&IdleState],
        ran: Ran,
        mut notes: Vec<String>,
    ) -> Self {
        let mut all: Vec<(State, Vec<Option<Line>>)> = Vec::new();
        for state in states {
            let lines = lines(&state.name, ran.rounds, &ran.turns);
            let of_state = ran.turns.iter().filter(|turn| turn.state == state.name);
            let dropped: Vec<&Turn> = of_state.filter(|turn| !turn.counts()).collect();
            if let Some(least) = dropped
                .iter()
                .map(|turn| turn.share_percent)
                .reduce(f64::min)
            {
                notes.push(format!(
                    "{} turns of {} do not count: less than {SHARE_MIN:.0}% of the entries went to it, {least:.0}% in \
                     one; the governor or a bound chose others.",
                    dropped.len(),
                    state.name
                ));
            }
            let shallower = all
                .iter()
                .rfind(|(_, lines)| lines.iter().any(Option::is_some));
            let known = || lines.iter().flatten();
            let has_line = known().next().is_some();
            let (mut saves_w, mut break_even) = (None, None);
            if let Some((_, shallow)) = shallower.filter(|_| has_line) {
                let both = shallow.iter().zip(&lines);
                let both: Vec<(Line, Line)> = both
                    .filter_map(|(shallow, deep)| (*shallow).zip(*deep))
                    .collect();
                let saved = both
                    .iter()
                    .map(|(shallow, deep)| shallow.power_w - deep.power_w);
                saves_w = Estimate::over(saved);
                break_even = BreakEven::of(&both, ran.cpus);
            }
            let state = State {
                name: state.name.clone(),
                target_residency_us: state.target_residency_us,
                power_w: Estimate::over(known().map(|line| line.power_w)),
                entry_uj: Estimate::over(known().map(|line| line.entry_j * 1e6)),
                shallower: shallower
                    .filter(|_| has_line)
                    .map(|(state, _)| state.name.clone()),
                saves_w,
                break_even,
                dropped: dropped.len() as u64,
            };
            all.push((state, lines));
        }
        Self {
            about,
            meter,
            rounds: ran.rounds,
            dwell_s: times.dwell.as_secs_f64(),
            settle_s: times.settle.as_secs_f64(),
            seed: ran.seed,
            cpus: ran.cpus,
            idle_states: all.into_iter().map(|(state, _)| state).collect(),
            notes,
            turns: ran.turns,
        }
    }
}

impl States {
    /// The break-even residencies that are known, by the state's name, whole µs, rounded up.
    pub fn break_even_us(&self) -> BTreeMap<String, u64> {
        let known = self.idle_states.iter().filter_map(|state| {
            let even = state.break_even.as_ref()?.known()?;
            Some((state.name.clone(), even.estimate.ceil() as u64))
        });
        known.collect()
    }
}

/// A state's line of each round.
fn lines(state: &str, rounds: u32, turns: &[Turn]) -> Vec<Option<Line>> {
    let line = |round: u32| {
        let of_round = turns
            .iter()
            .filter(|turn| turn.state == state && turn.round == round);
        let counting = of_round.filter(|turn| turn.counts());
        let points: Vec<(f64, f64)> = counting
            .map(|turn| (turn.entries_per_s, turn.power_w))
            .collect();
        match polls(state) {
            true => Line::flat(&points),
            false => Line::through(&points),
        }
    };
    (0..rounds).map(line).collect()
}

/// Reads a kept one.
///
/// # Errors
/// As [`kept::parse`].
pub fn parse(text: &[u8]) -> std::result::Result<States, String> {
    kept::parse(text, FILE, SCHEMA_VERSION)
}

/// Reads the one at `path`, which is the file or its folder.
///
/// # Errors
/// [`reveille_kernel::Error::Io`], and [`reveille_kernel::Error::Unreadable`] for another file.
pub fn open(path: &Path) -> Result<States> {
    crate::open(path, FILE, parse)
}
