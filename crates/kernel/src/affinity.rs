//! Which CPUs the calling thread may run on.

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::{Pid, gettid};

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

/// A thread that was bound to one CPU.
///
/// The kernel ends a binding for good when the CPU goes offline: the thread then runs on any CPU, also
/// after the CPU has come back (cpuset_cpus_allowed_fallback in kernel/cgroup/cpuset.c).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Binding {
    thread: Pid,
    cpu: u32,
}

impl Binding {
    /// Binds the calling thread to that CPU.
    ///
    /// # Errors
    /// EINVAL where there is no such CPU, it is offline, or this process may not use it.
    pub fn here(cpu: u32) -> nix::Result<Self> {
        let mut only = CpuSet::new();
        only.set(cpu as usize)?;
        sched_setaffinity(THIS, &only)?;
        let thread = gettid();
        Ok(Self { thread, cpu })
    }

    /// Why figures of this thread are not those of its CPU: its binding is lost. `None` while it holds.
    pub fn lost(&self) -> Option<String> {
        let mut only = CpuSet::new();
        let holds =
            only.set(self.cpu as usize).is_ok() && sched_getaffinity(self.thread) == Ok(only);
        (!holds).then(|| {
            format!(
                "the thread on CPU {0} is no longer bound to it: CPU {0} went offline, or another \
                 process changed the thread's CPUs",
                self.cpu
            )
        })
    }
}

/// Lets a thread of its own run on each of these CPUs for a moment. The calling one stays where it may
/// run: it could not be restored while one of its CPUs is offline.
///
/// A CPU counts its stay in an idle state when it leaves it, and looks at a new limit when it goes
/// idle next: after the visit both have happened. A CPU that this process may not use is passed
/// over.
pub fn visit(cpus: &[u32]) {
    let visit = || {
        for &cpu in cpus {
            let mut one = CpuSet::new();
            if one.set(cpu as usize).is_ok() {
                let _ = sched_setaffinity(THIS, &one);
            }
        }
    };
    std::thread::scope(|scope| {
        // Without a thread to be had no CPU is visited.
        let _ = std::thread::Builder::new().spawn_scoped(scope, visit);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_binding_that_the_kernel_ends_is_lost() {
        let all = sched_getaffinity(THIS).unwrap();
        let first = allowed()[0];
        std::thread::spawn(move || {
            let bound = Binding::here(first).unwrap();
            assert_eq!(bound.lost(), None);
            // From another thread, too.
            std::thread::spawn(move || assert_eq!(bound.lost(), None))
                .join()
                .unwrap();
            visit(&[first]);
            assert_eq!(bound.lost(), None);
            if allowed_of(&all) > 1 {
                // As the kernel does when the CPU goes offline.
                sched_setaffinity(THIS, &all).unwrap();
                let why = bound.lost().unwrap();
                assert!(why.contains(&format!("CPU {first} went offline")), "{why}");
            }
        })
        .join()
        .unwrap();
        assert!(Binding::here(4000).is_err());
    }

    fn allowed_of(cpus: &CpuSet) -> usize {
        let is_set = |cpu: &usize| cpus.is_set(*cpu) == Ok(true);
        (0..CpuSet::count()).filter(is_set).count()
    }

    #[test]
    fn the_binding_of_a_thread_that_ended_is_lost() {
        let first = allowed()[0];
        let bound = std::thread::spawn(move || Binding::here(first).unwrap());
        let bound = bound.join().unwrap();
        // The kernel forgets a thread a moment after it was waited for.
        let began = std::time::Instant::now();
        while bound.lost().is_none() {
            assert!(began.elapsed().as_secs() < 60);
            std::thread::yield_now();
        }
    }
}
