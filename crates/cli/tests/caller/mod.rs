//! What the program inherits from its caller, and what it passes on to a command: rights,
//! descriptors, signals, and streams without a reader.

mod rights;
mod signals;
mod streams;

use reveille_alone::{Held, Part, Use, take_to_change};

/// Some change settings of this machine, and look at all of them.
fn alone() -> Option<Held> {
    take_to_change(&[Use::Alone(Part::IdleStates)])
}

/// The name of the shallowest idle state of CPU 0.
fn state_of_cpu_0() -> Option<String> {
    let name = std::fs::read_to_string("/sys/devices/system/cpu/cpu0/cpuidle/state0/name");
    Some(name.ok()?.trim().to_owned())
}
