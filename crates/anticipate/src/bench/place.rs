//! Where threads run, and the clock that they measure by.

use std::time::Duration;

use nix::errno::Errno;
use nix::libc;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, ClockNanosleepFlags, clock_gettime, clock_nanosleep};
use nix::unistd::Pid;
pub use reveille_kernel::affinity::{Binding, allowed, visit};
use reveille_kernel::interrupts::{self, Interrupts};
use reveille_kernel::{Root, load};

use crate::{Error, Result};

/// This thread.
const THIS: Pid = Pid::from_raw(0);

/// How long is looked for a quiet CPU: some 25 ticks.
const QUIET_LOOK: Duration = Duration::from_millis(250);

/// Lets this thread run on that CPU only.
///
/// # Errors
/// [`Error::Usage`] where there is no such CPU, or this process may not use it.
pub fn on_cpu(cpu: u32) -> Result<Binding> {
    Binding::here(cpu).map_err(|errno| match errno {
        Errno::EINVAL => Error::Usage(format!(
            "CPU {cpu}: there is no such CPU, it is offline, or this process may not use it"
        )),
        errno => Error::System {
            what: "sched_setaffinity",
            source: errno.into(),
        },
    })
}

/// # Errors
/// [`Error::Disturbed`] where the thread did not stay on its CPU.
pub(crate) fn stayed(bound: Binding) -> Result<()> {
    bound
        .lost()
        .map_or(Ok(()), |why| Err(Error::Disturbed(why)))
}

/// Keeps this thread, and those that it will start, off that CPU, where there is another one.
pub(crate) fn avoid(cpu: u32) {
    let mut others = CpuSet::new();
    let mut any = false;
    for other in allowed().into_iter().filter(|other| *other != cpu) {
        any |= others.set(other as usize).is_ok();
    }
    if any {
        // Where it is refused the thread stays where it was: nothing is wrong then but the noise.
        let _ = sched_setaffinity(THIS, &others);
    }
}

/// The CPU that serves the fewest device interrupts, by a short look; of those that are mostly idle
/// and that this process may use. The last of them where that cannot be seen.
///
/// # Errors
/// [`Error::Cannot`] where no CPU is known.
pub fn quiet_cpu(root: &Root) -> Result<u32> {
    let allowed = allowed();
    let quietest = || {
        let (before, ticks) = (Interrupts::read(root)?, load::idle_ticks(root)?);
        std::thread::sleep(QUIET_LOOK);
        let (after, later) = (Interrupts::read(root)?, load::idle_ticks(root)?);
        let idled = |cpu: &u32| later.get(cpu)?.checked_sub(*ticks.get(cpu)?);
        let most = allowed.iter().filter_map(idled).max()?;
        let idle = allowed.iter().copied();
        let idle = idle.filter(|cpu| idled(cpu) >= Some(most / 2));
        interrupts::quietest_cpu(&before, &after, &idle.collect::<Vec<_>>())
    };
    quietest()
        .or_else(|| allowed.last().copied())
        .ok_or_else(|| Error::Cannot("the kernel does not tell which CPUs there are".into()))
}

/// CLOCK_MONOTONIC, ns.
pub fn now_ns() -> u64 {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("CLOCK_MONOTONIC is always there");
    time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64
}

/// Sleeps until that instant of CLOCK_MONOTONIC.
pub fn sleep_until(at_ns: u64) {
    let at = TimeSpec::new((at_ns / 1_000_000_000) as _, (at_ns % 1_000_000_000) as _);
    let flags = ClockNanosleepFlags::TIMER_ABSTIME;
    while clock_nanosleep(ClockId::CLOCK_MONOTONIC, flags, &at) == Err(Errno::EINTR) {}
}

/// Makes the sleeps of this thread end when they should: a thread's timers may otherwise be 50 µs
/// late, so that several can expire together.
pub(crate) fn exact_timers() {
    // SAFETY: the call takes plain values and concerns the calling thread only.
    unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_where_it_was_put_and_a_cpu_that_is_not_there_is_said() {
        let first = allowed()[0];
        let put = std::thread::spawn(move || {
            on_cpu(first).unwrap();
            visit(&[first]);
            allowed()
        });
        assert_eq!(put.join().unwrap(), [first]);
        let refused = std::thread::spawn(|| on_cpu(1000).unwrap_err().to_string());
        assert!(refused.join().unwrap().contains("no such CPU"));
    }

    #[test]
    fn a_sleep_does_not_end_before_its_time() {
        let until = now_ns() + 2_000_000;
        sleep_until(until);
        assert!(now_ns() >= until);
        sleep_until(0);
    }
}
