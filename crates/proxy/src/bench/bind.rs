//! On which CPUs a thread of the bench runs.

use reveille_kernel::{Error, Result, affinity};

/// Binds the calling thread to these CPUs; to none: it stays as it is.
pub fn bind(cpus: &[u32]) -> Result<()> {
    if cpus.is_empty() {
        return Ok(());
    }
    affinity::bind(cpus).map_err(|error| Error::Cannot(format!("CPUs {cpus:?}: {error}")))
}
