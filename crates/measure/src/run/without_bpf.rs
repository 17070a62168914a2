//! Replaces the BPF probe in a build without BPF.

use super::Run;
use crate::{Error, Result};

/// # Errors
/// Always.
pub fn try_bpf(_cpu: u32) -> Result<()> {
    Err(Error::Cannot(
        "this program was built without BPF (clang or libbpf's headers were missing): install them \
         and build again; --probe user works without BPF"
            .into(),
    ))
}

impl Run<'_> {
    pub(super) fn by_bpf(&mut self) -> Result<()> {
        try_bpf(self.options.cpu)
    }
}
