//! The turns: each number of busy CPUs, in each order, in each round.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use reveille_kernel::{Error, Idle, Result, affinity};
use reveille_results::description::Ended;
use reveille_trial::rounds::{self, At, Plan, Progress, Turns};
use reveille_trial::setting::{InForce, Kind, Machine};

use super::order::Order;
use super::result::{Turn, Way};
use crate::dwell::{Dwells, Times};

/// What is measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Turns of each.
    pub rounds: u32,
    /// In which orders.
    pub orders: Vec<Order>,
    /// Of the order of turns.
    pub seed: u64,
}

/// On a machine of up to so many CPUs every number of busy CPUs is measured.
const EVERY: usize = 16;

/// The numbers of busy CPUs that are measured on a machine of `all`: every one, or the first ones and some more.
pub fn counts(all: usize) -> Vec<usize> {
    if all <= EVERY {
        return (0..=all).collect();
    }
    let mut counts: Vec<usize> = [0, 1, 2, 3, 4].into();
    counts.extend(
        (1..=12)
            .map(|part| all * part / 12)
            .filter(|count| *count > 4),
    );
    counts
}

/// The orders' CPUs; an order that is the same as one before it is left out, with a note.
///
/// # Errors
/// [`Error::Cannot`] without a CPU.
pub fn ways(idle: &Idle, orders: &[Order]) -> Result<(Vec<Way>, Vec<String>)> {
    let (mut ways, mut notes): (Vec<Way>, Vec<String>) = (Vec::new(), Vec::new());
    for &order in orders {
        let cpus = order.cpus(idle, &affinity::allowed());
        if cpus.is_empty() {
            return Err(Error::Cannot(
                "this process may use no CPU of this machine".to_owned(),
            ));
        }
        match ways.iter().find(|way| way.cpus == cpus) {
            Some(same) => notes.push(format!(
                "{} is the same as {} on this machine.",
                order.name(),
                same.order.name()
            )),
            None => ways.push(Way { order, cpus }),
        }
    }
    Ok((ways, notes))
}

struct Work<'d> {
    machine: &'d Machine,
    dwells: &'d mut dyn Dwells,
    ways: &'d [Way],
    counts: Vec<usize>,
    time: Duration,
}

impl Turns for Work<'_> {
    type Turn = Turn;

    fn name(&self, at: At) -> String {
        let order = self.ways[at.point].order.name();
        format!("{order}, {} busy", self.counts[at.setting])
    }

    fn expected(&self, _: usize) -> Option<Duration> {
        Some(self.time)
    }

    fn begin(&self, _: usize) -> Result<InForce> {
        Kind::AsIs.apply(self.machine)
    }

    fn turn(&mut self, at: At, stop: &AtomicBool) -> Result<Option<Turn>> {
        let (way, busy) = (&self.ways[at.point], self.counts[at.setting]);
        let dwell = self.dwells.dwell(&way.cpus[..busy], stop)?;
        Ok(dwell.map(|dwell| Turn {
            round: at.round,
            order: way.order,
            busy,
            power_w: dwell.power_w,
            joint_percent: dwell.joint_percent,
            package_percent: dwell.package_percent,
        }))
    }
}

/// Runs all rounds, or the whole ones before something ends the run.
///
/// # Errors
/// Of the first round, if it could not be measured.
pub fn run(
    machine: &Machine,
    dwells: &mut dyn Dwells,
    ways: &[Way],
    options: &Options,
    times: &Times,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(&Progress),
) -> Result<(Vec<Turn>, Ended)> {
    let counts = counts(ways.first().map_or(0, |way| way.cpus.len()));
    let plan = Plan {
        rounds: options.rounds,
        points: ways.len(),
        settings: counts.len(),
        seed: options.seed,
        whole: true,
    };
    let mut work = Work {
        machine,
        dwells,
        ways,
        counts,
        time: times.whole(),
    };
    rounds::run(&mut work, &plan, stop, progress)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_cpus_are_measured_in_steps() {
        assert_eq!(counts(2), [0, 1, 2]);
        assert_eq!(counts(16).len(), 17);
        let many = counts(96);
        assert_eq!(many[..6], [0, 1, 2, 3, 4, 8]);
        assert_eq!(many.last(), Some(&96));
        assert!(
            counts(17).windows(2).all(|two| two[0] < two[1]),
            "{:?}",
            counts(17)
        );
    }
}
