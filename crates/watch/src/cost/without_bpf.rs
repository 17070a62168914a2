//! In place of the follower where the program was built without BPF.

use std::time::Duration;

use reveille_kernel::Idle;

use super::{StackSums, Tallies, Workload};
use crate::{Error, Result};

/// Never there.
pub enum Follower {}

impl Follower {
    /// # Errors
    /// Always [`Error::Cannot`].
    pub fn start(_: &Idle, _: &Workload, _: bool) -> Result<Self> {
        Err(Error::Cannot(
            "this reveille was built without BPF, by which wake-ups are followed; build it with \
             clang and libbpf-dev"
                .into(),
        ))
    }

    /// Never called: there is no follower.
    pub fn finish(&self) -> Result<Tallies> {
        match *self {}
    }

    /// As [`Follower::finish`].
    pub fn elapsed(&self) -> Duration {
        match *self {}
    }

    /// As [`Follower::finish`].
    pub fn stack_processes(&self) -> Result<Vec<u32>> {
        match *self {}
    }

    /// As [`Follower::finish`].
    pub fn stacks(&self) -> Result<Vec<StackSums>> {
        match *self {}
    }
}
