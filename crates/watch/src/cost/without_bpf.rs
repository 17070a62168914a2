//! Replaces the follower in a build without BPF.

use std::time::Duration;

use reveille_kernel::Idle;

use super::{StackSums, Tallies, Workload};
use crate::{Error, Result};

/// No follower in this build.
pub enum Follower {}

impl Follower {
    /// # Errors
    /// Always [`Error::Cannot`].
    pub fn start(_: &Idle, _: &Workload, _: bool) -> Result<Self> {
        Err(Error::Cannot(
            "following wake-ups needs BPF, and this program was built without it; build it with \
             clang and libbpf-dev"
                .into(),
        ))
    }

    /// Never called.
    pub fn finish(&self) -> Result<Tallies> {
        match *self {}
    }

    /// Never called.
    pub fn elapsed(&self) -> Duration {
        match *self {}
    }

    /// Never called.
    pub fn stack_processes(&self) -> Result<Vec<u32>> {
        match *self {}
    }

    /// Never called.
    pub fn stacks(&self) -> Result<Vec<StackSums>> {
        match *self {}
    }
}
