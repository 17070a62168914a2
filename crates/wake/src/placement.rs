//! On which CPU which thread runs, and how promptly: the measured CPU is left alone.

use nix::libc;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

use crate::{Result, system};

/// Binds the calling thread to one CPU.
pub fn bind(cpu: u32) -> Result<()> {
    let mut set = CpuSet::new();
    set.set(cpu as usize).map_err(system("CPU number"))?;
    sched_setaffinity(Pid::from_raw(0), &set).map_err(system("sched_setaffinity"))
}

/// The CPUs that the calling thread may use without `cpu`; empty on a machine with one CPU.
pub fn others(cpu: u32) -> Result<Vec<u32>> {
    let set = sched_getaffinity(Pid::from_raw(0)).map_err(system("sched_getaffinity"))?;
    let allowed = (0..CpuSet::count() as u32).filter(|&c| set.is_set(c as usize) == Ok(true));
    Ok(allowed.filter(|&c| c != cpu).collect())
}

/// How many CPUs the calling thread may use.
pub fn available_cpus() -> u32 {
    std::thread::available_parallelism().map_or(1, |count| count.get() as u32)
}

/// Keeps the calling thread, and those that it will start, off `cpu`. Returns false where there
/// is no other CPU to go to.
pub fn avoid(cpu: u32) -> Result<bool> {
    let others = others(cpu)?;
    if others.is_empty() {
        return Ok(false);
    }
    let mut set = CpuSet::new();
    for other in others {
        set.set(other as usize).map_err(system("CPU number"))?;
    }
    sched_setaffinity(Pid::from_raw(0), &set).map_err(system("sched_setaffinity"))?;
    Ok(true)
}

/// Runs `work` on a thread of its own on `cpu`, and waits for it.
pub fn on_cpu<T: Send>(cpu: u32, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| bind(cpu).and_then(|()| work()));
        thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Asks for real-time priority and exact timers for the calling thread. Returns false where the
/// priority is refused: other threads may then delay the waiting one.
pub fn be_prompt() -> bool {
    // SAFETY: both calls take plain values and concern the calling thread only.
    unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1);
        let parameters = libc::sched_param { sched_priority: 90 };
        libc::sched_setscheduler(0, libc::SCHED_FIFO, &parameters) == 0
    }
}

/// CLOCK_MONOTONIC, ns.
pub fn now_ns() -> u64 {
    let time = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC)
        .expect("CLOCK_MONOTONIC is always there");
    time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64
}
