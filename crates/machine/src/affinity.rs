//! Which CPUs the calling thread may run on.

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

/// This thread.
const THIS: Pid = Pid::from_raw(0);

/// The CPUs that this thread may use, ascending; empty where the kernel does not tell.
pub fn allowed() -> Vec<u32> {
    let Ok(cpus) = sched_getaffinity(THIS) else {
        return Vec::new();
    };
    let is_set = |cpu: &u32| cpus.is_set(*cpu as usize).unwrap_or(false);
    (0..CpuSet::count() as u32).filter(is_set).collect()
}

/// Runs on each of these CPUs for a moment, and is then where it was allowed before.
///
/// A CPU counts its stay in an idle state when it leaves it, and looks at a new limit when it goes
/// idle next: after the visit both have happened. A CPU that this process may not use is passed
/// over.
pub fn visit(cpus: &[u32]) {
    let Ok(before) = sched_getaffinity(THIS) else {
        return;
    };
    for &cpu in cpus {
        let mut one = CpuSet::new();
        if one.set(cpu as usize).is_ok() {
            let _ = sched_setaffinity(THIS, &one);
        }
    }
    let _ = sched_setaffinity(THIS, &before);
}
