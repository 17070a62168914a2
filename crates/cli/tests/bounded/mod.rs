//! CPUs whose latency bounds the tests of the service set and look at.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use reveille_alone::{Held, Part, Use, take_to_change};
use reveille_kernel::{Idle, Root, requests};

/// One service at a time: all of them set the same CPUs.
pub fn alone() -> Option<Held> {
    take_to_change(&[Use::Alone(Part::IdleStates)])
}

/// Are there two CPUs whose bounds can be set, and BPF? Else a word.
pub fn can_govern(test: &str) -> bool {
    let idle = Idle::read(&Root::default()).unwrap();
    let why = if !nix::unistd::geteuid().is_root() {
        "not root"
    } else if !requests::honoured(&idle) {
        "no cpuidle driver"
    } else if idle.cpus.iter().filter(|cpu| cpu.online).count() < 2 {
        "one CPU"
    } else if [setting(0), setting(1)] != ["0", "0"] {
        "another program bounds CPUs 0 or 1"
    } else {
        return true;
    };
    println!("skipped: {test}: {why}");
    false
}

pub fn setting(cpu: u32) -> String {
    let text = Root::default().text(&requests::file_of(cpu));
    text.unwrap_or_default()
}

/// Waits until it is so; some seconds at most, for these machines are busy.
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !is_so() {
        assert!(Instant::now() < end, "not within 20 s: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Values of a CPU's setting while something else happens.
pub fn values_during(cpu: u32, happens: impl FnOnce()) -> BTreeSet<String> {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watch = || {
            let mut seen = BTreeSet::new();
            while !over.load(Ordering::Relaxed) {
                seen.insert(setting(cpu));
                std::thread::sleep(Duration::from_micros(200));
            }
            seen
        };
        let watched = scope.spawn(watch);
        // Also where a check in it fails.
        let ended = catch_unwind(AssertUnwindSafe(happens));
        over.store(true, Ordering::Relaxed);
        let seen = watched.join().unwrap();
        ended.unwrap_or_else(|failed| resume_unwind(failed));
        seen
    })
}
