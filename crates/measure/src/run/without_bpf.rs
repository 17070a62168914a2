//! What stands for the BPF probe in a program that was built without it.

use super::Run;
use crate::{Error, Result};

/// # Errors
/// Always: see the message.
pub fn try_bpf(_cpu: u32) -> Result<()> {
    Err(Error::Cannot(
        "this program was built without BPF (clang or libbpf's headers were missing then): install \
         them and build again; --probe user measures without"
            .into(),
    ))
}

impl Run<'_> {
    pub(super) fn by_bpf(&mut self) -> Result<()> {
        try_bpf(self.options.cpu)
    }
}
