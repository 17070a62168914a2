//! What activity costs in power, by any meter of `reveille-meter`.
//!
//! [`cpus`]: power against the number of busy CPUs. [`states`]: what each idle state saves, and its break-even. Turns and rounds are those of trial
//! ([`reveille_trial::rounds`]), and rounds are the independent units of every interval.

mod asleep;
mod busy;
pub mod cpus;
pub mod dwell;
pub mod states;
mod waking;

use std::path::Path;

use reveille_kernel::files;
pub use reveille_kernel::{Error, Result};

/// A result has some hundred bytes a turn.
const BYTES_MAX: u64 = 64 << 20;

/// Reads the result at `path`, which is the file of that name, or its folder.
fn open<T>(
    path: &Path,
    name: &str,
    parse: impl Fn(&[u8]) -> std::result::Result<T, String>,
) -> Result<T> {
    let file = match path.is_dir() {
        true => path.join(name),
        false => path.to_owned(),
    };
    let text = files::read(&file, BYTES_MAX)?;
    parse(&text).map_err(|why| Error::Unreadable { path: file, why })
}
