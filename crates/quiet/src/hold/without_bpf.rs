//! Freezing needs BPF, which this program was built without.

use std::path::Path;

use reveille_kernel::{Journal, Root};

use super::policy::Times;
use super::{Account, Background};
use crate::{Error, Result};

/// Never there.
pub enum Freeze {}

impl Freeze {
    /// [`Error::Cannot`].
    pub fn start(
        _: &Root,
        _: Vec<Background>,
        _: &Path,
        _: Times,
        _: &mut Journal,
        _: impl FnOnce(Error) + Send + 'static,
    ) -> Result<Self> {
        Err(Error::Cannot(reveille_kernel::BUILT_WITHOUT_BPF.into()))
    }

    /// Of none.
    pub fn stop(self) -> Account {
        match self {}
    }
}
