//! Nothing can be anticipated: this program was built without BPF.

use std::collections::BTreeMap;

use reveille_anticipate::BlockDevice;
use reveille_kernel::{BUILT_WITHOUT_BPF, Error, Idle, Result};

/// Nothing.
#[derive(Default)]
pub struct Anticipation {}

/// What is to be anticipated.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Wanted {
    pub disks: Vec<BlockDevice>,
    pub budget: f64,
    pub applications: bool,
}

impl Anticipation {
    /// # Errors
    /// [`Error::Cannot`] if something is wanted.
    pub fn set(&mut self, wanted: Wanted, _: Option<&Idle>) -> Result<()> {
        match wanted.disks.is_empty() && !wanted.applications {
            true => Ok(()),
            false => Err(Error::Cannot(BUILT_WITHOUT_BPF.into())),
        }
    }

    pub fn has(&self, _: &str) -> bool {
        false
    }

    /// # Errors
    /// None.
    pub fn requests(&self) -> Result<BTreeMap<String, u64>> {
        Ok(BTreeMap::new())
    }
}
