//! Packets cannot be watched: this program was built without BPF.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use reveille_kernel::{BUILT_WITHOUT_BPF, Error, Result};

use crate::quiet::Gaps;
use crate::rules::Rule;
use crate::status::Accounted;

/// There are none.
pub enum Packets {}

/// There is none.
pub enum OnCpu {}

/// There is none.
pub enum Counting {}

impl Counting {
    pub fn start() -> Option<Self> {
        None
    }

    pub fn of_nothing_ns(&self) -> Result<u64> {
        match *self {}
    }
}

impl Packets {
    /// # Errors
    /// [`Error::Cannot`].
    pub fn start(_: &[Rule], _: bool) -> Result<(Self, Vec<OnCpu>)> {
        Err(Error::Cannot(BUILT_WITHOUT_BPF.into()))
    }

    pub fn watch_disk(&self, _: usize, _: Option<u32>) {
        match *self {}
    }

    pub fn watch(&self, _: usize, _: Option<u32>) {
        match *self {}
    }

    pub fn count(&self, _: usize) -> u64 {
        match *self {}
    }

    pub fn accounted(&self, _: u64) -> Result<Accounted> {
        match *self {}
    }

    pub fn last_ns(&self, _: u32, _: usize) -> u64 {
        match *self {}
    }

    pub fn gaps(&self, _: u32, _: usize) -> Gaps {
        match *self {}
    }

    pub fn go_on(&self, _: usize, _: &Self, _: usize) {
        match *self {}
    }
}

impl OnCpu {
    pub fn called(&self) -> u32 {
        match *self {}
    }

    pub fn note_held(&self, _: u32) {
        match *self {}
    }

    pub fn gaps(&self, _: usize) -> Gaps {
        match *self {}
    }

    pub fn since_last(&self, _: usize) -> Duration {
        match *self {}
    }
}

impl AsFd for OnCpu {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match *self {}
    }
}
