//! Whether a server runs for others is seen by BPF, which this program was built without.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use reveille_kernel::{BUILT_WITHOUT_BPF, Error, Result};

/// Never there.
#[derive(Debug)]
pub enum Watch {}

/// Never there.
pub enum Program {}

/// Never there.
#[derive(Debug)]
pub enum Seat {}

impl Watch {
    /// [`Error::Cannot`].
    pub fn start() -> Result<(Arc<Self>, Program)> {
        Err(Error::Cannot(BUILT_WITHOUT_BPF.into()))
    }

    /// Of none.
    pub fn seat(self: &Arc<Self>) -> Option<Seat> {
        match **self {}
    }

    /// Of none.
    pub fn silence(&self) {
        match *self {}
    }
}

impl AsFd for Watch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match *self {}
    }
}

impl Seat {
    /// Of none.
    pub fn follow(&self, _: &[u32]) -> Result<()> {
        match *self {}
    }

    /// Of none.
    pub fn arm(&self, _: bool) {
        match *self {}
    }

    /// Of none.
    pub fn has_rung(&self) -> bool {
        match *self {}
    }

    /// Of none.
    pub fn runs(&self) -> bool {
        match *self {}
    }
}
