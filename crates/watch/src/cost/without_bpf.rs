//! In place of the follower where the program was built without BPF.

use std::time::Duration;

use reveille_machine::Idle;

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

    pub fn finish(&self) -> Result<Tallies> {
        match *self {}
    }

    pub fn elapsed(&self) -> Duration {
        match *self {}
    }

    pub fn stack_processes(&self) -> Result<Vec<u32>> {
        match *self {}
    }

    pub fn stacks(&self) -> Result<Vec<StackSums>> {
        match *self {}
    }
}
