//! Hardware counters of the measured CPU.

use std::os::fd::OwnedFd;

use reveille_kernel::{Root, counters};

use crate::event::Residency;
use crate::kernel::MAX_COUNTERS;

/// Counters that this CPU has and this user may open; the probes read only these.
#[derive(Default)]
pub struct Counters {
    pub events: Vec<OwnedFd>,
    pub smi: Option<usize>,
    pub residencies: Vec<Residency>,
    /// Names of the residencies' columns.
    pub columns: Vec<String>,
}

impl Counters {
    /// Opens the available counters. Shares need the TSC: without it no residency is read.
    pub fn open(root: &Root, cpu: u32) -> Self {
        let mut opened = Self::default();
        let discovered = counters::discover(root);
        let tsc = discovered.iter().find(|counter| counter.column == "tsc");
        let shares = discovered
            .iter()
            .filter(|counter| counter.column.ends_with("_percent"));
        let shares: Vec<_> = shares
            .filter_map(|counter| Some((counter, counter.open(cpu).ok()?)))
            .take(MAX_COUNTERS - 2)
            .collect();
        if let Some(Ok(tsc)) = tsc.filter(|_| !shares.is_empty()).map(|tsc| tsc.open(cpu)) {
            let cycles = opened.add(tsc);
            for (counter, event) in shares {
                let counter_index = opened.add(event);
                opened.residencies.push(Residency {
                    counter: counter_index,
                    cycles,
                });
                opened.columns.push(counter.column.clone());
            }
        }
        let smi = discovered
            .iter()
            .find(|counter| counter.column == "smi_count");
        if let Some(Ok(smi)) = smi.map(|smi| smi.open(cpu)) {
            opened.smi = Some(opened.add(smi));
        }
        opened
    }

    /// The residency of each column of a result; `None` if it is not read here.
    pub fn of_columns(&self, columns: &[String]) -> Vec<Option<Residency>> {
        let of = |name: &String| self.columns.iter().position(|column| column == name);
        columns
            .iter()
            .map(|name| Some(self.residencies[of(name)?]))
            .collect()
    }

    fn add(&mut self, event: OwnedFd) -> usize {
        self.events.push(event);
        self.events.len() - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_with_fewer_counters_fills_the_first_columns() {
        let columns = ["c1_percent", "c6_percent"].map(str::to_owned);
        let six = Residency {
            counter: 1,
            cycles: 0,
        };
        let fewer = Counters {
            residencies: vec![six],
            columns: vec!["c6_percent".into()],
            ..Counters::default()
        };
        let filled = fewer.of_columns(&columns);
        assert!(matches!(
            filled[..],
            [None, Some(Residency { counter: 1, .. })]
        ));
        let none = Counters::default().of_columns(&columns);
        assert!(matches!(none[..], [None, None]));
        assert!(fewer.of_columns(&[]).is_empty());
    }
}
