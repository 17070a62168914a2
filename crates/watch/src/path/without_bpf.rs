//! Replaces the follower in a build without BPF.

use reveille_kernel::{Idle, network};

use super::{Cost, Counts, Follow, Packet};
use crate::{Error, Result};

/// The packets to follow.
#[derive(Debug, Clone, PartialEq)]
pub struct Setup<'a> {
    /// Which packets, and to which end.
    pub follow: Follow,
    /// Only of this interface.
    pub interface: Option<&'a network::Interface>,
    /// Only to this TCP or UDP port; with [`Follow::Socket`].
    pub port: Option<u16>,
}

/// No follower in this build.
pub enum Follower {}

impl Follower {
    /// # Errors
    /// Always [`Error::Cannot`].
    pub fn start(_: &Idle, _: &Setup<'_>) -> Result<Self> {
        Err(Error::Cannot(
            "following packets needs BPF, and this program was built without it; build it with \
             clang and libbpf-dev"
                .into(),
        ))
    }

    /// Never called.
    pub fn take_in(&self, _: impl FnMut(Packet)) -> Result<()> {
        match *self {}
    }

    /// Never called.
    pub fn cost(&self) -> Option<Cost> {
        match *self {}
    }

    /// Never called.
    pub fn counts(&self) -> Counts {
        match *self {}
    }
}
