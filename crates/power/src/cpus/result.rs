//! The result of `reveille power cpus`, kept as `power-cpus.json`.

use reveille_figures::rounds::Estimate;
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
            let rounds = reveille_figures::rounds::paired(&powers(to), &powers(from));
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

/// Reads a kept one.
///
/// # Errors
/// As [`kept::parse`].
pub fn parse(text: &[u8]) -> Result<Cpus, String> {
    kept::parse(text, FILE, SCHEMA_VERSION)
}
