//! The result of `reveille power cpus`, kept as `power-cpus.json`.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use reveille_figures::rounds::{ERROR, Estimate, PERMUTATIONS, p_values, paired, rounds_needed};
use reveille_kernel::{Idle, cpulist};
use reveille_meter::{Scope, Watched};
use reveille_results::kept::{self, About};
use serde::{Deserialize, Serialize};

use super::order::Order;
use crate::dwell::Times;

/// The file's name in the result's folder.
pub const FILE: &str = "power-cpus.json";

/// The version of its schema.
pub const SCHEMA_VERSION: u32 = 1;

/// An order and its CPUs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Way {
    /// The order.
    pub order: Order,
    /// The CPUs as they become busy.
    pub cpus: Vec<u32>,
}

/// One measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    /// From 0.
    pub round: u32,
    /// Which CPUs.
    pub order: Order,
    /// How many of them.
    pub busy: usize,
    /// Mean power.
    pub power_w: f64,
    /// All CPUs slept at once at least and at most so long.
    pub joint_percent: Option<(f64, f64)>,
    /// The packages' own sleep.
    pub package_percent: Option<f64>,
}

/// All rounds of one number of busy CPUs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Busy CPUs.
    pub busy: usize,
    /// Over rounds.
    pub power_w: Estimate,
    /// More than with the next smaller number, for each further CPU; `None` of the first point.
    pub step_w: Option<Estimate>,
    /// All CPUs slept at once at least and at most so long: means over rounds.
    pub joint_percent: Option<(f64, f64)>,
    /// The packages' own sleep: the mean over rounds.
    pub package_percent: Option<f64>,
}

/// One order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// The order and its CPUs.
    #[serde(flatten)]
    pub way: Way,
    /// By the number of busy CPUs.
    pub points: Vec<Point>,
    /// What the first busy CPU costs.
    pub first_w: Option<Estimate>,
    /// What each further one costs, a mean over all of them; `None` with one CPU.
    pub further_w: Option<Estimate>,
}

/// The whole result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cpus {
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
    /// The orders.
    pub orders: Vec<Curve>,
    /// What else there is to know.
    pub notes: Vec<String>,
    /// Every turn.
    pub turns: Vec<Turn>,
}

impl Cpus {
    /// Of these turns.
    #[expect(clippy::too_many_arguments, reason = "a result has as many parts")]
    pub fn of(
        about: About,
        meter: Watched,
        times: &Times,
        rounds: u32,
        seed: u64,
        ways: Vec<Way>,
        turns: Vec<Turn>,
        notes: Vec<String>,
    ) -> Self {
        Self {
            about,
            meter,
            rounds,
            dwell_s: times.dwell.as_secs_f64(),
            settle_s: times.settle.as_secs_f64(),
            seed,
            orders: ways
                .into_iter()
                .map(|way| Curve::of(way, rounds, &turns))
                .collect(),
            notes,
            turns,
        }
    }
}

impl Curve {
    fn of(way: Way, rounds: u32, turns: &[Turn]) -> Self {
        let of_way: Vec<&Turn> = turns
            .iter()
            .filter(|turn| turn.order == way.order)
            .collect();
        let mut counts: Vec<usize> = of_way.iter().map(|turn| turn.busy).collect();
        counts.sort_unstable();
        counts.dedup();
        // By round; a round that was ended early has none.
        let powers = |busy: usize| -> Vec<Option<f64>> {
            let at = |round| {
                of_way
                    .iter()
                    .find(move |turn| turn.round == round && turn.busy == busy)
            };
            (0..rounds)
                .map(|round| at(round).map(|turn| turn.power_w))
                .collect()
        };
        let step = |from: usize, to: usize| {
            let rounds = paired(&powers(to), &powers(from));
            Estimate::over(rounds.into_iter().map(|more_w| more_w / (to - from) as f64))
        };
        let mean = |busy: usize, figure: &dyn Fn(&Turn) -> Option<f64>| {
            let at = of_way.iter().filter(|turn| turn.busy == busy);
            let known: Option<Vec<f64>> = at.map(|turn| figure(turn)).collect();
            known
                .filter(|all| !all.is_empty())
                .map(|all| all.iter().sum::<f64>() / all.len() as f64)
        };
        let point = |(place, &busy): (usize, &usize)| {
            let joint = |high: bool| {
                mean(busy, &|turn| {
                    turn.joint_percent
                        .map(|(low, most)| if high { most } else { low })
                })
            };
            Some(Point {
                busy,
                power_w: Estimate::over(powers(busy).into_iter().flatten())?,
                step_w: place
                    .checked_sub(1)
                    .and_then(|before| step(counts[before], busy)),
                joint_percent: joint(false).zip(joint(true)),
                package_percent: mean(busy, &|turn| turn.package_percent),
            })
        };
        Self {
            points: counts.iter().enumerate().filter_map(point).collect(),
            first_w: step(0, 1),
            further_w: counts
                .last()
                .filter(|most| **most > 1)
                .and_then(|most| step(1, *most)),
            way,
        }
    }
}

/// An order, and the mean power while some of its first CPUs were busy.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Took {
    /// The order.
    pub order: Order,
    /// Mean power.
    pub power_w: f64,
}

/// The CPUs with which the meter showed least.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Least {
    /// The CPUs.
    pub cpus: Vec<u32>,
    /// The order whose first ones they are.
    #[serde(flatten)]
    pub took: Took,
    /// The orders that took more while as many were busy, beyond chance.
    pub than: Vec<Took>,
}

/// More is no meter's value.
const MOST_W: f64 = 1e9;

impl Cpus {
    /// Of all orders the first CPUs that took least power while `busy` of them were busy, or as many of these as were
    /// measured. `None` if no other order took more beyond chance.
    ///
    /// # Errors
    /// Why the result does not tell that of this machine.
    pub fn least(&self, idle: &Idle, busy: usize) -> Result<Option<Least>, String> {
        self.covers(idle)?;
        if self.turns.is_empty() {
            return Err("it has no turns; give a result that --out wrote".to_owned());
        }
        if self.orders.len() < 2 {
            return Err(
                "it has one order; `power cpus --order efficient-first,spread,siblings-last` measures those that \
                 differ on a machine"
                    .to_owned(),
            );
        }
        let counts = self.turns.iter().map(|turn| turn.busy);
        let Some(busy) = counts.filter(|count| (1..=busy).contains(count)).max() else {
            return Err(format!("it has no turn with {busy} busy CPUs"));
        };
        let mut by_round: BTreeMap<u32, HashMap<Order, f64>> = BTreeMap::new();
        for turn in self.turns.iter().filter(|turn| turn.busy == busy) {
            if !(0.0..=MOST_W).contains(&turn.power_w) {
                return Err(format!("{} W is no power of a machine", turn.power_w));
            }
            let round = by_round.entry(turn.round).or_default();
            round.insert(turn.order, turn.power_w);
        }
        // An order whose round was ended early has none of it.
        let whole: Vec<&HashMap<Order, f64>> = by_round
            .values()
            .filter(|round| {
                let mut orders = self.orders.iter();
                orders.all(|curve| round.contains_key(&curve.way.order))
            })
            .collect();
        let needed = rounds_needed(ERROR);
        if whole.len() < needed {
            return Err(format!(
                "it has {} whole rounds with {busy} busy CPUs; {needed} are needed",
                whole.len()
            ));
        }
        let figures_of = |curve: &Curve| -> Vec<f64> {
            let order = &curve.way.order;
            whole.iter().map(|round| round[order]).collect()
        };
        let figures: Vec<Vec<f64>> = self.orders.iter().map(figures_of).collect();
        let took = |place: usize| Took {
            order: self.orders[place].way.order,
            power_w: figures[place].iter().sum::<f64>() / whole.len() as f64,
        };
        let best = (0..figures.len())
            .min_by(|one, other| took(*one).power_w.total_cmp(&took(*other).power_w))
            .expect("there are two");
        let known = figures
            .iter()
            .map(|of| of.iter().copied().map(Some).collect());
        let chances = p_values(&known.collect::<Vec<_>>(), best, PERMUTATIONS);
        let than: Vec<Took> = (0..figures.len())
            .filter(|place| chances[*place].is_some_and(|chance| chance <= ERROR))
            .map(took)
            .collect();
        Ok((!than.is_empty()).then(|| Least {
            cpus: self.orders[best].way.cpus[..busy].to_vec(),
            took: took(best),
            than,
        }))
    }

    /// Whether it is of this machine's CPUs, and its meter covers all of them.
    fn covers(&self, idle: &Idle) -> Result<(), String> {
        for curve in &self.orders {
            let Way { order, cpus } = &curve.way;
            let most = self.turns.iter().filter(|turn| turn.order == *order);
            let most = most.map(|turn| turn.busy).max().unwrap_or(0);
            if order.cpus(idle, cpus) != *cpus || most > cpus.len() {
                return Err(format!(
                    "its CPUs are not those of this machine: {} in order {}",
                    cpulist::format(cpus),
                    order.name()
                ));
            }
        }
        let online = || idle.cpus.iter().filter(|cpu| cpu.online);
        let first = online().next().and_then(|cpu| cpu.package);
        let scope = self.meter.about.scope;
        let is_part = matches!(
            scope,
            Scope::Package | Scope::Cores | Scope::Dram | Scope::Other
        );
        match is_part && online().any(|cpu| cpu.package != first) {
            true => Err(format!(
                "this machine has several packages, and the meter {} ({}) may not cover them all; measure with one of \
                 the whole machine",
                self.meter.about.name,
                scope.word()
            )),
            false => Ok(()),
        }
    }
}

/// Reads the one at `path`, which is the file or its folder.
///
/// # Errors
/// [`reveille_kernel::Error::Io`], and [`reveille_kernel::Error::Unreadable`] for another file.
pub fn open(path: &Path) -> reveille_kernel::Result<Cpus> {
    crate::open(path, FILE, parse)
}

/// Reads a kept one.
///
/// # Errors
/// As [`kept::parse`].
pub fn parse(text: &[u8]) -> Result<Cpus, String> {
    kept::parse(text, FILE, SCHEMA_VERSION)
}
