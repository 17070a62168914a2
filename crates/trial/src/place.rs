//! Where threads run.

use nix::errno::Errno;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

use crate::{Error, Result};

/// This thread.
const THIS: Pid = Pid::from_raw(0);

/// Lets this thread run on that CPU only.
///
/// # Errors
/// [`Error::Usage`] where there is no such CPU, or this process may not use it.
pub fn on_cpu(cpu: u32) -> Result<()> {
    let mut cpus = CpuSet::new();
    let done = cpus
        .set(cpu as usize)
        .and_then(|()| sched_setaffinity(THIS, &cpus));
    done.map_err(|errno| match errno {
        Errno::EINVAL => Error::Usage(format!(
            "CPU {cpu}: there is no such CPU, it is offline, or this process may not use it"
        )),
        errno => Error::Failed(format!("CPU {cpu}: {}", errno.desc())),
    })
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

/// The CPUs that this thread may use, ascending; empty where the kernel does not tell.
pub fn allowed() -> Vec<u32> {
    let Ok(cpus) = sched_getaffinity(THIS) else {
        return Vec::new();
    };
    let is_set = |cpu: &u32| cpus.is_set(*cpu as usize).unwrap_or(false);
    (0..CpuSet::count() as u32).filter(is_set).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_visit_this_thread_may_run_where_it_could_before() {
        let before = allowed();
        assert!(!before.is_empty());
        visit(&before);
        assert_eq!(allowed(), before);
        std::thread::spawn(move || {
            on_cpu(before[0]).unwrap();
            assert_eq!(allowed(), before[..1]);
            visit(&before);
            assert_eq!(allowed(), before[..1]);
        })
        .join()
        .unwrap();
        assert!(on_cpu(4000).is_err());
    }
}
