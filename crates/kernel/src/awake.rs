//! CPUs that are kept from sleeping by threads that spin on them.
//!
//! Used where no latency bound is honoured, and to measure the floor. The threads have the policy
//! SCHED_IDLE: everything else on the CPU preempts them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use nix::errno::Errno;
use nix::libc;
use nix::sched::sched_getcpu;

use crate::{Error, Result, affinity};

/// CPUs that do not sleep until this is dropped.
#[derive(Debug)]
pub struct Awake {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    /// A thread found itself on another CPU.
    moved: AtomicBool,
}

/// Spins between checks of the CPU and of `stop`: some microseconds.
const SPINS: u32 = 100;
/// The interval at which a thread tries to return to a CPU that was offline.
const AWAY: Duration = Duration::from_millis(10);

impl Awake {
    /// Starts a spinning thread on each of these CPUs, and returns when all spin. Needs no privilege.
    ///
    /// # Errors
    /// [`Error::Cannot`] if a CPU is offline or not available to this process, or no thread can start.
    pub fn keep(cpus: &[u32]) -> Result<Self> {
        let mut awake = Self {
            shared: Arc::default(),
            threads: Vec::new(),
        };
        let (report, reports) = mpsc::channel();
        for &cpu in cpus {
            let (shared, report) = (awake.shared.clone(), report.clone());
            let thread = std::thread::Builder::new()
                .name(format!("awake-{cpu}"))
                .spawn(move || spin(cpu, &shared, &report))
                .map_err(|error| not_kept(cpu, &error))?;
            awake.threads.push(thread);
        }
        // One report of each: those that spin keep their end of the channel.
        for settled in reports.iter().take(cpus.len()) {
            settled?;
        }
        Ok(awake)
    }

    /// Why one of the CPUs was not kept awake for a while, if that was noticed. It is kept awake again as
    /// soon as it is online.
    pub fn interrupted(&self) -> Option<String> {
        let moved = self.shared.moved.load(Ordering::Relaxed);
        moved.then(|| {
            "a CPU that was to be kept awake went offline, or another process moved its thread"
                .to_owned()
        })
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn spin(cpu: u32, shared: &Shared, report: &mpsc::Sender<Result<()>>) {
    let settled = settle(cpu).map_err(|errno| not_kept(cpu, &errno.into()));
    let spins = settled.is_ok();
    // The receiver is there until every thread has reported, or has gone with an error.
    let _ = report.send(settled);
    while spins && !shared.stop.load(Ordering::Relaxed) {
        if sched_getcpu() != Ok(cpu as usize) {
            // The kernel moves the thread elsewhere, for good, when its CPU goes offline.
            shared.moved.store(true, Ordering::Relaxed);
            if affinity::bind(&[cpu]).is_err() {
                std::thread::sleep(AWAY);
            }
            continue;
        }
        for _ in 0..SPINS {
            std::hint::spin_loop();
        }
    }
}

/// Binds the calling thread to the CPU, below everything else there.
fn settle(cpu: u32) -> nix::Result<()> {
    // First, so that it delays no other thread when it arrives.
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: the call takes plain values and a live struct, and concerns the calling thread only.
    let set = unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &parameters) };
    Errno::result(set)?;
    affinity::bind(&[cpu])
}

fn not_kept(cpu: u32, error: &std::io::Error) -> Error {
    Error::Cannot(format!(
        "CPU {cpu} cannot be kept awake by a thread: {error}; is it online, and may this process \
         use it?"
    ))
}

#[cfg(test)]
mod tests {
    use nix::sched::{CpuSet, sched_setaffinity};
    use nix::unistd::Pid;

    use super::*;

    /// Threads of this process that spin for a CPU, by name.
    fn spinning() -> usize {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
        let names = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
        names.filter(|name| name.starts_with("awake-")).count()
    }

    /// A joined thread is listed for a moment longer.
    fn none_spins() {
        let began = std::time::Instant::now();
        while spinning() > 0 {
            assert!(began.elapsed().as_secs() < 60, "{} spin", spinning());
            std::thread::yield_now();
        }
    }

    /// Moves the thread, as the kernel does when its CPU goes offline.
    fn goes_back(awake: &Awake, cpu: u32, other: u32) {
        assert_eq!(awake.interrupted(), None);
        let named = |task: &std::path::PathBuf| {
            let name = std::fs::read_to_string(task.join("comm"));
            name.is_ok_and(|name| name.trim() == format!("awake-{cpu}"))
        };
        let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
        let task = tasks.map(|task| task.path()).find(named).unwrap();
        let thread = task.file_name().unwrap().to_str().unwrap();
        let thread = Pid::from_raw(thread.parse().unwrap());
        let only = |cpu: u32| {
            let mut only = CpuSet::new();
            only.set(cpu as usize).unwrap();
            only
        };
        sched_setaffinity(thread, &only(other)).unwrap();
        let began = std::time::Instant::now();
        while nix::sched::sched_getaffinity(thread) != Ok(only(cpu)) {
            assert!(began.elapsed().as_secs() < 60, "it did not go back");
            std::thread::yield_now();
        }
        assert!(awake.interrupted().is_some());
    }

    #[test]
    fn the_threads_run_until_dropped_and_a_missing_cpu_is_an_error() {
        // One test for both, because both count this process's threads.
        let first = nix::sched::sched_getaffinity(Pid::from_raw(0)).unwrap();
        let cpu = (0..CpuSet::count())
            .find(|&cpu| first.is_set(cpu) == Ok(true))
            .unwrap();
        let awake = Awake::keep(&[cpu as u32]).unwrap();
        assert_eq!(spinning(), 1);
        if let Some(other) = (cpu + 1..CpuSet::count()).find(|&cpu| first.is_set(cpu) == Ok(true)) {
            goes_back(&awake, cpu as u32, other as u32);
        }
        drop(awake);
        none_spins();
        let error = Awake::keep(&[cpu as u32, 1000]).unwrap_err();
        assert!(
            matches!(&error, Error::Cannot(why) if why.contains("CPU 1000")),
            "{error}"
        );
        none_spins();
    }
}
