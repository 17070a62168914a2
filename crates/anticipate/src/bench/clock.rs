//! The clock by which waits are measured.

use nix::errno::Errno;
use nix::libc;
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, ClockNanosleepFlags, clock_gettime, clock_nanosleep};

/// CLOCK_MONOTONIC, ns.
pub(super) fn now_ns() -> u64 {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("CLOCK_MONOTONIC is always there");
    time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64
}

/// Spins until that instant of CLOCK_MONOTONIC.
pub(super) fn spin_until(at_ns: u64) {
    while now_ns() < at_ns {
        std::hint::spin_loop();
    }
}

/// Sleeps until that instant of CLOCK_MONOTONIC.
pub(super) fn sleep_until(at_ns: u64) {
    let at = TimeSpec::new((at_ns / 1_000_000_000) as _, (at_ns % 1_000_000_000) as _);
    let flags = ClockNanosleepFlags::TIMER_ABSTIME;
    while clock_nanosleep(ClockId::CLOCK_MONOTONIC, flags, &at) == Err(Errno::EINTR) {}
}

/// Sets the calling thread's timer slack to 1 ns. By default timers may be 50 µs late, so that several
/// expire together.
pub(super) fn exact_timers() {
    // SAFETY: the call takes plain values and concerns the calling thread only.
    unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleep_does_not_end_early() {
        let until = now_ns() + 2_000_000;
        sleep_until(until);
        assert!(now_ns() >= until);
        sleep_until(0);
    }
}
