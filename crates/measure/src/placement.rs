//! CPU affinity and priority of the threads: all but the waiting one stay off the measured CPU.

use reveille_kernel::Idle;
use reveille_kernel::affinity::{self, Binding};

use crate::{Error, Result};

/// Whether the calling thread runs on that CPU. When a CPU goes offline, the kernel lets the threads
/// bound to it run everywhere, permanently.
pub fn is_on(cpu: u32) -> bool {
    nix::sched::sched_getcpu() == Ok(cpu as usize)
}

/// The number of CPUs that the calling thread may use.
pub fn available_cpus() -> u32 {
    std::thread::available_parallelism().map_or(1, |count| count.get() as u32)
}

/// Where a run's own threads may be: not on the measured CPU's core, if there is another, because a
/// CPU whose core is awake wakes faster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Elsewhere {
    /// Without the measured CPU; ascending.
    pub cpus: Vec<u32>,
    /// They are on the measured CPU's core; `None`: unknown.
    pub same_core: Option<bool>,
}

impl Elsewhere {
    /// Of the CPUs that the calling thread may use.
    pub fn than(cpu: u32, idle: &Idle) -> Self {
        let siblings = idle.cpu(cpu).map_or(&[][..], |cpu| &cpu.siblings);
        let others = affinity::allowed()
            .into_iter()
            .filter(|other| *other != cpu);
        Self::among(others.collect(), siblings)
    }

    /// `others`: the usable CPUs; `siblings`: as the kernel lists them, empty if unknown.
    fn among(others: Vec<u32>, siblings: &[u32]) -> Self {
        let (same, other): (Vec<u32>, Vec<u32>) =
            others.into_iter().partition(|cpu| siblings.contains(cpu));
        if siblings.is_empty() {
            return Self {
                cpus: other,
                same_core: None,
            };
        }
        let same_core = other.is_empty() && !same.is_empty();
        Self {
            cpus: if same_core { same } else { other },
            same_core: Some(same_core),
        }
    }

    /// Their core, in words.
    #[cfg(any(feature = "bpf", test))]
    pub fn core(&self) -> &'static str {
        match self.same_core {
            Some(false) => "another core",
            Some(true) => "the same core",
            None => "core unknown",
        }
    }

    /// Binds the calling thread, and those that it will start, to these CPUs, if there are any.
    pub fn go(&self) -> Result<()> {
        if self.cpus.is_empty() {
            return Ok(());
        }
        affinity::bind(&self.cpus).map_err(Error::system("sched_setaffinity"))
    }
}

/// Binds the calling thread to a CPU.
///
/// # Errors
/// [`Error::Cannot`] if it is offline or not available to this process: which CPUs exist and are online
/// was checked before.
pub fn bind(cpu: u32) -> Result<()> {
    match Binding::here(cpu) {
        Ok(_) => Ok(()),
        Err(Error::Usage(_)) => Err(Error::Cannot(format!(
            "CPU {cpu}: threads of this process cannot run there: it is offline, or not in the \
             cpuset of this cgroup; bring it online or choose another with --cpu"
        ))),
        Err(error) => Err(error),
    }
}

/// Runs `work` on a new thread bound to `cpu`, and waits for it.
pub fn on_cpu<T: Send>(cpu: u32, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| bind(cpu).and_then(|()| work()));
        thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_of_another_core_is_preferred() {
        // CPU 0 with its sibling 4, as on most machines; and 0 with 1, as on others.
        for (siblings, others, taken) in [
            ([0, 4], vec![1, 2, 4], vec![1, 2]),
            ([0, 1], vec![1, 2, 3], vec![2, 3]),
        ] {
            let elsewhere = Elsewhere::among(others, &siblings);
            assert_eq!(elsewhere.cpus, taken);
            assert_eq!(elsewhere.same_core, Some(false));
            assert_eq!(elsewhere.core(), "another core");
        }
    }

    #[test]
    fn the_same_core_is_used_and_reported_if_there_is_no_other() {
        let elsewhere = Elsewhere::among(vec![1], &[0, 1]);
        assert_eq!(
            (elsewhere.cpus.as_slice(), elsewhere.same_core),
            (&[1][..], Some(true))
        );
        assert_eq!(elsewhere.core(), "the same core");
        let alone = Elsewhere::among(vec![], &[0, 1]);
        assert_eq!(
            (alone.cpus.as_slice(), alone.same_core),
            (&[][..], Some(false))
        );
    }

    #[test]
    fn a_cpu_that_is_unavailable_to_this_process_is_exit_code_3_and_another_can_be_chosen() {
        let none = nix::sched::CpuSet::count() as u32 - 1;
        let error = on_cpu(none, || Ok(())).unwrap_err();
        assert_eq!(error.exit_code(), Error::CANNOT, "{error}");
        assert!(error.to_string().contains("--cpu"), "{error}");
    }

    #[test]
    fn the_core_may_be_unknown() {
        let elsewhere = Elsewhere::among(vec![1, 2], &[]);
        assert_eq!(
            (elsewhere.cpus.as_slice(), elsewhere.same_core),
            (&[1, 2][..], None)
        );
    }
}
