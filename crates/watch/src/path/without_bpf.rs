//! In place of the follower where the program was built without BPF.

use reveille_kernel::{Idle, network};

use super::{Cost, Counts, Follow, Packet};
use crate::{Error, Result};

/// What is followed.
#[derive(Debug, Clone, PartialEq)]
pub struct Setup<'a> {
    /// Which packets, and to where.
    pub follow: Follow,
    /// Of this interface only.
    pub interface: Option<&'a network::Interface>,
    /// To this TCP or UDP port only; with [`Follow::Socket`].
    pub port: Option<u16>,
}

/// Never there.
pub enum Follower {}

impl Follower {
    /// # Errors
    /// Always [`Error::Cannot`].
    pub fn start(_: &Idle, _: &Setup<'_>) -> Result<Self> {
        Err(Error::Cannot(
            "this reveille was built without BPF, by which packets are followed; build it with \
             clang and libbpf-dev"
                .into(),
        ))
    }

    /// Never called: there is no follower.
    pub fn take_in(&self, _: impl FnMut(Packet)) -> Result<()> {
        match *self {}
    }

    /// As [`Follower::take_in`].
    pub fn cost(&self) -> Option<Cost> {
        match *self {}
    }

    /// As [`Follower::take_in`].
    pub fn counts(&self) -> Counts {
        match *self {}
    }
}
