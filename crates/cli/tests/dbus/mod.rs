//! Holds on the system bus: a bus of the test's own with the shipped policy, the service, its clients, and
//! polkit, real or played.

mod authority;
mod bus;
mod client;
mod flood;
mod holds;
mod lifetime;
mod permission;
mod service;
mod upower;

use std::time::{Duration, Instant};

use reveille_alone::{Held, Part, Use, take_to_change};

/// One service at a time: all of them set the same CPUs.
fn alone() -> Option<Held> {
    take_to_change(&[Use::Alone(Part::IdleStates)])
}

/// Waits until it is so; some seconds at most, for these machines are busy.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !is_so() {
        assert!(Instant::now() < end, "not within 20 s: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
