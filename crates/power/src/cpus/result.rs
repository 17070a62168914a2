//! The result of `reveille power cpus`, kept as `power-cpus.json`.

use std::collections::BTreeSet;
use std::path::Path;

use reveille_figures::rounds::{self, Estimate};
use reveille_meter::Watched;
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
        let powers = |busy: usize| powers(turns, way.order, 0..rounds, busy);
        let step = |from: usize, to: usize| {
            let rounds = rounds::paired(&powers(to), &powers(from));
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

/// The CPUs that took least power.
#[derive(Debug, Clone, PartialEq)]
pub struct Least<'c> {
    /// The CPUs.
    pub cpus: &'c [u32],
    /// The order whose first ones they are.
    pub order: Order,
    /// Mean power while they were busy.
    pub power_w: f64,
    /// The orders that took more while as many were busy, beyond chance, and their mean power.
    pub than: Vec<(Order, f64)>,
}

impl Cpus {
    /// Of all orders the first CPUs that took least power while `busy` of them were busy, or as many of these as were
    /// measured. `None` if no other order took more beyond chance.
    ///
    /// # Errors
    /// Why there is nothing to compare.
    pub fn least(&self, busy: usize) -> Result<Option<Least<'_>>, String> {
        if self.turns.is_empty() {
            return Err("it has no turns; give a result that --out wrote".to_owned());
        }
        if self.orders.len() < 2 {
            return Err(
                "it has one order; measure several: `reveille power cpus --order efficient-first,spread`"
                    .to_owned(),
            );
        }
        let counts = self.turns.iter().map(|turn| turn.busy);
        let Some(busy) = counts.filter(|count| (1..=busy).contains(count)).max() else {
            return Err(format!("it has no turn with {busy} busy CPUs"));
        };
        let in_rounds: BTreeSet<u32> = self.turns.iter().map(|turn| turn.round).collect();
        let of_order = |curve: &Curve| {
            let rounds = in_rounds.iter().copied();
            powers(&self.turns, curve.way.order, rounds, busy)
        };
        let figures: Vec<Vec<Option<f64>>> = self.orders.iter().map(of_order).collect();
        let mean = |of_order: &Vec<Option<f64>>| {
            let known: Vec<f64> = of_order.iter().copied().flatten().collect();
            match known.is_empty() {
                true => f64::INFINITY,
                false => known.iter().sum::<f64>() / known.len() as f64,
            }
        };
        let means: Vec<f64> = figures.iter().map(mean).collect();
        let best = (0..means.len())
            .min_by(|one, other| means[*one].total_cmp(&means[*other]))
            .expect("there are two");
        let chances = rounds::p_values(&figures, best, rounds::PERMUTATIONS);
        let order = |place: usize| self.orders[place].way.order;
        let than: Vec<(Order, f64)> = (0..means.len())
            .filter(|place| chances[*place].is_some_and(|chance| chance < rounds::ERROR))
            .map(|place| (order(place), means[place]))
            .collect();
        let cpus = self.orders[best].way.cpus.get(..busy);
        Ok(cpus.filter(|_| !than.is_empty()).map(|cpus| Least {
            cpus,
            order: order(best),
            power_w: means[best],
            than,
        }))
    }
}

/// Power with so many busy CPUs, by round; a round that was ended early has none.
fn powers(
    turns: &[Turn],
    order: Order,
    rounds: impl Iterator<Item = u32>,
    busy: usize,
) -> Vec<Option<f64>> {
    let in_round = |round| {
        turns
            .iter()
            .find(move |turn| turn.order == order && turn.round == round && turn.busy == busy)
    };
    rounds
        .map(|round| in_round(round).map(|turn| turn.power_w))
        .collect()
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
