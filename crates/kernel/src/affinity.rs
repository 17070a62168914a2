//! Which CPUs the calling thread may run on.

use nix::errno::Errno;
use nix::libc;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::{Pid, gettid};

use crate::{Error, Result};

/// This thread.
const THIS: Pid = Pid::from_raw(0);

/// The CPUs that this thread may use, ascending; empty where the kernel does not report them.
pub fn allowed() -> Vec<u32> {
    let Ok(cpus) = sched_getaffinity(THIS) else {
        return Vec::new();
    };
    let is_set = |cpu: &u32| cpus.is_set(*cpu as usize).unwrap_or(false);
    (0..CpuSet::count() as u32).filter(is_set).collect()
}

/// Lets the calling thread run on these CPUs only.
///
/// # Errors
/// Where none of them is online and available to this process, or a number is none of a CPU.
pub fn bind(cpus: &[u32]) -> nix::Result<()> {
    let mut set = CpuSet::new();
    cpus.iter().try_for_each(|&cpu| set.set(cpu as usize))?;
    sched_setaffinity(THIS, &set)
}

/// A thread bound to one CPU. The kernel ends the binding for good when the CPU goes offline
/// (cpuset_cpus_allowed_fallback in kernel/cgroup/cpuset.c).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Binding {
    thread: Pid,
    cpu: u32,
}

impl Binding {
    /// Binds the calling thread to that CPU.
    ///
    /// # Errors
    /// [`Error::Usage`] if the CPU does not exist, is offline, or is not available to this process.
    pub fn here(cpu: u32) -> Result<Self> {
        match bind(&[cpu]) {
            Ok(()) => Ok(Self {
                thread: gettid(),
                cpu,
            }),
            Err(Errno::EINVAL) => Err(Error::Usage(format!(
                "CPU {cpu}: no such CPU, it is offline, or this process may not use it"
            ))),
            Err(errno) => Err(Error::system("sched_setaffinity")(errno)),
        }
    }

    /// The CPU.
    pub fn cpu(&self) -> u32 {
        self.cpu
    }

    /// # Errors
    /// [`Error::Disturbed`] once the thread is no longer bound: its figures are not those of the CPU.
    pub fn holds(&self) -> Result<()> {
        let mut only = CpuSet::new();
        let holds =
            only.set(self.cpu as usize).is_ok() && sched_getaffinity(self.thread) == Ok(only);
        match holds {
            true => Ok(()),
            false => Err(Error::Disturbed(format!(
                "the thread on CPU {0} is no longer bound to it: CPU {0} went offline, or another \
                 process changed the thread's CPUs",
                self.cpu
            ))),
        }
    }
}

/// Keeps the calling thread, and threads that it starts later, off that CPU if it may use others.
pub fn avoid(cpu: u32) {
    let mut others = allowed();
    others.retain(|other| *other != cpu);
    if !others.is_empty() {
        // If refused, the thread stays where it was and adds noise, nothing worse.
        let _ = bind(&others);
    }
}

/// Requests real-time priority and exact timers for the calling thread. Returns false if the
/// priority is refused: other threads may then delay the waiting one.
pub fn be_prompt() -> bool {
    // SAFETY: both calls take plain values and concern the calling thread only.
    unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1);
        let parameters = libc::sched_param { sched_priority: 90 };
        libc::sched_setscheduler(0, libc::SCHED_FIFO, &parameters) == 0
    }
}

/// Runs a new thread on each of these CPUs for a moment, except those that this process may not use. The
/// calling thread is not moved: it could not be restored while one of its CPUs is offline.
///
/// A CPU counts its stay in an idle state when it leaves it, and reads a new limit when it goes idle
/// next: after the visit both have happened.
pub fn visit(cpus: &[u32]) {
    let visit = || {
        for &cpu in cpus {
            let _ = bind(&[cpu]);
        }
    };
    std::thread::scope(|scope| {
        // If no thread can be started, no CPU is visited.
        let _ = std::thread::Builder::new().spawn_scoped(scope, visit);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_binding_that_the_kernel_breaks_is_lost() {
        let all = sched_getaffinity(THIS).unwrap();
        let first = allowed()[0];
        std::thread::spawn(move || {
            let bound = Binding::here(first).unwrap();
            bound.holds().unwrap();
            // From another thread as well.
            std::thread::spawn(move || bound.holds().unwrap())
                .join()
                .unwrap();
            visit(&[first]);
            bound.holds().unwrap();
            if allowed_of(&all) > 1 {
                // As the kernel does when the CPU goes offline.
                sched_setaffinity(THIS, &all).unwrap();
                let why = bound.holds().unwrap_err().to_string();
                assert!(why.contains(&format!("CPU {first} went offline")), "{why}");
            }
        })
        .join()
        .unwrap();
        let error = Binding::here(4000).unwrap_err().to_string();
        assert!(error.contains("no such CPU"), "{error}");
    }

    #[test]
    fn a_visit_restores_the_threads_affinity() {
        let before = allowed();
        assert!(!before.is_empty());
        visit(&before);
        assert_eq!(allowed(), before);
        std::thread::spawn(move || {
            Binding::here(before[0]).unwrap();
            assert_eq!(allowed(), before[..1]);
            visit(&before);
            assert_eq!(allowed(), before[..1]);
        })
        .join()
        .unwrap();
    }

    fn allowed_of(cpus: &CpuSet) -> usize {
        let is_set = |cpu: &usize| cpus.is_set(*cpu) == Ok(true);
        (0..CpuSet::count()).filter(is_set).count()
    }

    #[test]
    fn the_binding_of_an_ended_thread_is_lost() {
        let first = allowed()[0];
        let bound = std::thread::spawn(move || Binding::here(first).unwrap());
        let bound = bound.join().unwrap();
        // The kernel removes a thread a moment after it was joined.
        let began = std::time::Instant::now();
        while bound.holds().is_ok() {
            assert!(began.elapsed().as_secs() < 60);
            std::thread::yield_now();
        }
    }
}
