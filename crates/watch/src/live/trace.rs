//! The BPF trace, if available: starting it, reading it, and counting its cost.

use std::collections::BTreeMap;

use reveille_kernel::Idle;
use reveille_kernel::counters::Counter;

use crate::Result;
use crate::live::seen::{Ended, Seen, SeenJoint};
use crate::live::symbols::Symbols;

/// Idle periods of all CPUs and their wakers, as the BPF programs add them up.
pub trait Trace {
    /// In the order of the samples' values.
    fn counters(&self) -> &[Counter];
    /// The online CPUs' data so far.
    fn seen(&self, idle: &Idle) -> BTreeMap<u32, Seen>;
    /// Joint sleep so far: of the machine, then of each package by number, of which so many CPUs are online.
    fn together(&self, online: &[u32]) -> Vec<SeenJoint>;
    /// The wakers since the last call.
    fn ended(&mut self) -> Result<Vec<Ended>>;
    /// Wake-ups whose waker did not fit into the table.
    fn unplaced(&self) -> u64;
    /// The programs' share of one CPU's time, at the last count.
    fn cost_percent(&mut self) -> Result<Option<f64>>;
}

/// The trace and the kernel's symbols, where they are available.
pub type Started = (Option<Box<dyn Trace>>, Option<Symbols>);

#[cfg(not(feature = "bpf"))]
pub fn start(_: &reveille_kernel::Root, _: &Idle, notes: &mut Vec<String>) -> Started {
    notes.push(reveille_kernel::BUILT_WITHOUT_BPF.to_owned());
    (None, None)
}
