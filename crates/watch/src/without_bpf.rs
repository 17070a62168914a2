//! The runs that need BPF, which this program was built without.

use std::sync::atomic::AtomicBool;

use reveille_kernel::Root;
use reveille_show::progress::Bar;

use crate::cost::{self, End, Followed};
use crate::path::{self, Path};
use crate::{Error, Result};

fn needs_bpf() -> Error {
    Error::Cannot(reveille_kernel::BUILT_WITHOUT_BPF.into())
}

/// [`Error::Cannot`].
pub fn run_path(_: &Root, _: &path::Options<'_>, _: &AtomicBool, _: &Bar) -> Result<Path> {
    Err(needs_bpf())
}

/// [`Error::Cannot`].
pub fn run_cost(
    _: &Root,
    _: cost::Options<'_>,
    _: &mut impl End,
    _: Option<&Bar>,
) -> Result<Followed> {
    Err(needs_bpf())
}
