//! What the program inherits from its caller, and what it passes on to a command: rights,
//! descriptors, signals, and streams without a reader.

mod rights;
mod signals;
mod streams;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// One test at a time: some change settings of this machine.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The name of the shallowest idle state of CPU 0.
fn state_of_cpu_0() -> Option<String> {
    let name = std::fs::read_to_string("/sys/devices/system/cpu/cpu0/cpuidle/state0/name");
    Some(name.ok()?.trim().to_owned())
}
