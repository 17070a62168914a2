//! CLOCK_MONOTONIC, in which all instants are given.

use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};

/// Now, in ns of CLOCK_MONOTONIC.
pub fn monotonic_ns() -> u64 {
    reading_ns(ClockId::CLOCK_MONOTONIC)
}

/// CPU time of the calling thread, ns.
pub(crate) fn own_time_ns() -> u64 {
    reading_ns(ClockId::CLOCK_THREAD_CPUTIME_ID)
}

fn reading_ns(clock: ClockId) -> u64 {
    // It cannot fail: Linux always has these clocks.
    clock_gettime(clock).map_or(0, |reading| {
        reading.tv_sec() as u64 * 1_000_000_000 + reading.tv_nsec() as u64
    })
}

/// An instant in ns of CLOCK_MONOTONIC, which is std's clock on Linux; std does not export the value, so
/// the result is some 50 ns off.
pub(crate) fn instant_ns(instant: Instant) -> u64 {
    let (now, now_ns) = (Instant::now(), monotonic_ns());
    match instant.checked_duration_since(now) {
        Some(ahead) => now_ns.saturating_add(whole_ns(ahead)),
        None => now_ns.saturating_sub(whole_ns(now.duration_since(instant))),
    }
}

/// In ns, at most u64::MAX (584 years).
pub(crate) fn whole_ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_keeps_its_place_between_two_readings_of_the_clock() {
        let before = monotonic_ns();
        let instant = Instant::now();
        let after = monotonic_ns();
        // If the thread is interrupted within a conversion, its error is unbounded: one exact
        // result of many is enough.
        let fits = |ns: u64| (before.saturating_sub(1_000)..=after + 1_000).contains(&ns);
        assert!((0..10_000).any(|_| fits(instant_ns(instant))));
        let ahead = instant_ns(instant + Duration::from_secs(5));
        assert!(ahead >= before + 5_000_000_000);
    }
}
