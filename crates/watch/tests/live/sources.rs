//! Threads that wake CPUs at a known rate under a known name.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::sched::{CpuSet, sched_setaffinity};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;
use reveille_kernel::{Idle, Root};

const PAUSE: Duration = Duration::from_millis(5);

pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).unwrap();
    now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64
}

pub fn online_cpus() -> Vec<u32> {
    let idle = Idle::read(&Root::default()).unwrap();
    let online = idle.cpus.iter().filter(|cpu| cpu.online);
    online.map(|cpu| cpu.number).collect()
}

/// How often all CPUs have been in each idle state, by name; empty if nothing counts it.
pub fn uses() -> BTreeMap<String, u64> {
    let idle = Idle::read(&Root::default()).unwrap();
    let mut uses = BTreeMap::new();
    for state in idle.cpus.iter().flat_map(|cpu| &cpu.states) {
        if let Some(usage) = state.usage {
            *uses.entry(state.name.clone()).or_default() += usage;
        }
    }
    uses
}

/// Interrupts that other CPUs have sent to this one; 0 on architectures with other names than x86.
pub fn calls(cpu: u32) -> u64 {
    let text = std::fs::read_to_string("/proc/interrupts").unwrap();
    let column = format!("CPU{cpu}");
    let heading = text.lines().next().unwrap();
    let column = heading.split_whitespace().position(|name| name == column);
    let lines = text.lines().filter_map(|line| {
        let (name, counts) = line.split_once(':')?;
        let sent = ["RES", "CAL"].contains(&name.trim());
        let count = sent.then(|| counts.split_whitespace().nth(column?))??;
        count.parse::<u64>().ok()
    });
    lines.sum()
}

fn bind(cpu: u32) {
    let mut set = CpuSet::new();
    set.set(cpu as usize).unwrap();
    sched_setaffinity(Pid::from_raw(0), &set).unwrap();
}

fn thread(name: String, work: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    std::thread::Builder::new().name(name).spawn(work).unwrap()
}

/// A thread on a CPU that repeatedly sleeps for 5 ms.
pub struct Sleeper {
    name: String,
    stop: Arc<AtomicBool>,
    slept: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Sleeper {
    pub fn on(cpu: u32) -> Self {
        let name = format!("sleeper {cpu}");
        let (stop, slept) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicU64::new(0)),
        );
        let (stopped, sleeps) = (stop.clone(), slept.clone());
        let work = move || {
            bind(cpu);
            while !stopped.load(Ordering::Relaxed) {
                std::thread::sleep(PAUSE);
                sleeps.fetch_add(1, Ordering::Relaxed);
            }
        };
        Self {
            thread: Some(thread(name.clone(), work)),
            name,
            stop,
            slept,
        }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn slept(&self) -> u64 {
        self.slept.load(Ordering::Relaxed)
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// A thread on one CPU that unparks a thread on another, every 5 ms.
pub struct Waking {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Waking {
    pub fn start(from: u32, to: u32) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let woken = thread("woken".into(), move || {
            bind(to);
            while !stopped.load(Ordering::Relaxed) {
                std::thread::park();
            }
        });
        let (stopped, other) = (stop.clone(), woken.thread().clone());
        let waker = thread("a waking thread".into(), move || {
            bind(from);
            while !stopped.load(Ordering::Relaxed) {
                std::thread::sleep(PAUSE);
                other.unpark();
            }
            other.unpark();
        });
        Self {
            stop,
            threads: vec![woken, waker],
        }
    }

    pub fn name(&self) -> &str {
        "a waking thread"
    }
}

impl Drop for Waking {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
