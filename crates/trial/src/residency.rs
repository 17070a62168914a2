//! Shares of time in idle states; in the packages' own ones, where the processor counts them.

use std::os::fd::OwnedFd;

use reveille_kernel::Root;
use reveille_kernel::counters::{self, Scope};
use serde::{Deserialize, Serialize};

/// A state's share of the time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Residency {
    /// As the driver calls it: `C6`.
    pub state: String,
    /// 0 to 100.
    pub percent: f64,
}

/// The counters of all packages.
#[derive(Default)]
pub struct PackageStates(Vec<Counted>);

struct Counted {
    state: String,
    counter: OwnedFd,
    /// On the same CPU: it counts cycles at the same rate, all the time.
    tsc: OwnedFd,
}

/// Of each counter its count and the TSC's; `None` where it could not be read.
pub type Reading = Vec<Option<(u64, u64)>>;

impl PackageStates {
    /// Opens the counters that this machine has and this user may open.
    pub fn open(root: &Root) -> Self {
        if !root.is_live() {
            return Self::default();
        }
        let found = counters::discover(root);
        let Some(tsc) = found.iter().find(|counter| counter.column == "tsc") else {
            return Self::default();
        };
        let packages = found.iter().filter(|one| one.scope == Scope::Package);
        let counted = packages.flat_map(|counter| {
            counter.counted_on.iter().filter_map(|&cpu| {
                Some(Counted {
                    state: counter.column.strip_suffix("_percent")?.to_uppercase(),
                    counter: counter.open(cpu).ok()?,
                    tsc: tsc.open(cpu).ok()?,
                })
            })
        });
        Self(counted.collect())
    }

    /// The counters at this instant.
    pub fn read(&self) -> Reading {
        let both = |one: &Counted| {
            let count = counters::read(&one.counter).ok()?;
            Some((count, counters::read(&one.tsc).ok()?))
        };
        self.0.iter().map(both).collect()
    }

    /// Each state's share of the time between two readings, a mean over the packages.
    pub fn between(&self, before: &Reading, after: &Reading) -> Vec<Residency> {
        let names = self.0.iter().map(|one| one.state.as_str());
        mean(names, before, after)
    }
}

fn mean<'a>(
    names: impl Iterator<Item = &'a str>,
    before: &Reading,
    after: &Reading,
) -> Vec<Residency> {
    let mut all: Vec<(&str, Vec<f64>)> = Vec::new();
    for (name, (before, after)) in names.zip(before.iter().zip(after)) {
        let Some(((count, tsc), (later, later_tsc))) = before.zip(*after) else {
            continue;
        };
        let share = later.checked_sub(count).zip(later_tsc.checked_sub(tsc));
        let Some((counted, elapsed)) = share.filter(|(_, elapsed)| *elapsed > 0) else {
            continue;
        };
        // The two are not read at the same instant.
        let percent = (100.0 * counted as f64 / elapsed as f64).min(100.0);
        match all.iter_mut().find(|(of, _)| *of == name) {
            Some((_, shares)) => shares.push(percent),
            None => all.push((name, vec![percent])),
        }
    }
    let of = |(name, shares): (&str, Vec<f64>)| Residency {
        state: name.to_owned(),
        percent: shares.iter().sum::<f64>() / shares.len() as f64,
    };
    all.into_iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_means_over_the_packages_that_were_read() {
        let names = ["PC2", "PC2", "PC6", "PC6"];
        let before = vec![Some((0, 1000)), Some((100, 0)), Some((0, 1000)), None];
        let after = vec![
            Some((500, 2000)),
            Some((800, 1000)),
            Some((250, 2000)),
            Some((1, 1)),
        ];
        let shares = mean(names.into_iter(), &before, &after);
        let shares: Vec<(&str, f64)> = shares
            .iter()
            .map(|one| (&*one.state, one.percent))
            .collect();
        assert_eq!(shares, [("PC2", 60.0), ("PC6", 25.0)]);
    }

    #[test]
    fn a_recorded_machine_has_no_counters() {
        let folder = tempfile::tempdir().unwrap();
        let states = PackageStates::open(&Root::at(folder.path()));
        assert_eq!(states.between(&states.read(), &states.read()), []);
    }
}
