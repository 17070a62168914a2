//! Replaces the BPF probe in a build without BPF.

use super::Run;
use crate::{Error, Result};

/// # Errors
/// Always.
pub fn try_bpf(_cpu: u32) -> Result<()> {
    Err(Error::Cannot(format!(
        "{}; --probe user works without BPF",
        reveille_kernel::BUILT_WITHOUT_BPF
    )))
}

impl Run<'_> {
    pub(super) fn by_bpf(&mut self) -> Result<()> {
        try_bpf(self.options.cpu)
    }
}
