//! Another CPU wakes the measured one, without a device; the measured CPU cannot predict it.
//!
//! Reading a perf event of the measured CPU from another CPU makes the kernel send the measured
//! CPU a message and wait for the answer. A halted CPU gets an interrupt; one that polls, or
//! monitors its flag with MWAIT, only sees the flag change.

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU32};

use reveille_kernel::bpf::{Shared, run_here, word};
use reveille_kernel::counters::{Counter, Scope, Unit};
use reveille_kernel::{Idle, affinity, now_ns};
use reveille_results::Source;

use super::event_source::{EventSource, wait_until_settled};
use super::thread::Thread;
use crate::kernel::{Kernel, LaunchStamps, types};
use crate::placement::{self, Elsewhere};
use crate::user::sleep_until;
use crate::{Error, Result};

pub struct Remote {
    cpu: u32,
    waking_cpu: u32,
    elsewhere: Elsewhere,
    event: OwnedFd,
    thread: Thread,
    /// The waking thread was moved to another CPU.
    moved: Arc<AtomicBool>,
}

impl Remote {
    /// # Errors
    /// [`Error::Cannot`] if only one CPU is usable, or perf events are refused.
    pub fn new(cpu: u32, idle: &Idle) -> Result<Self> {
        let elsewhere = Elsewhere::than(cpu, idle);
        let Some(&waking_cpu) = elsewhere.cpus.first() else {
            return Err(Error::Cannot(
                "source remote: a second CPU must wake the measured one, and no other CPU is usable"
                    .into(),
            ));
        };
        let event = dummy_event(cpu).map_err(|error| {
            Error::Cannot(format!(
                "source remote: no perf event on CPU {cpu} ({error})"
            ))
        })?;
        Ok(Self {
            cpu,
            waking_cpu,
            elsewhere,
            event,
            thread: Thread::default(),
            moved: Arc::default(),
        })
    }
}

impl EventSource for Remote {
    fn source(&self) -> Source {
        Source::Remote
    }

    fn arming(&self, kernel: &Kernel) -> String {
        let LaunchStamps {
            before_queueing,
            at_interrupt,
        } = kernel.launch_stamps;
        let flag = match before_queueing {
            true => "when the kernel queues the message",
            false => "by the thread before its system call",
        };
        let interrupt = match at_interrupt {
            true => "when the kernel sends it",
            false => flag,
        };
        format!(
            "perf event read on CPU {} ({}); an interrupt is timestamped {interrupt}, a flag {flag}",
            self.waking_cpu,
            self.elsewhere.core()
        )
    }

    fn reservation(&self) -> Option<String> {
        let same_core = self.elsewhere.same_core == Some(true);
        same_core.then(|| {
            format!(
                "source remote: CPU {} wakes CPU {} and shares its core, because no CPU of another \
                 core is usable: the core is awake at each launch, so deep states seem faster than \
                 they are",
                self.waking_cpu, self.cpu
            )
        })
    }

    fn gone(&self) -> Option<String> {
        let moved = self.moved.load(Relaxed);
        moved.then(|| format!("CPU {}, which woke it, went offline", self.waking_cpu))
    }

    fn has_ended(&self) -> bool {
        self.thread.has_ended()
    }

    fn start(&mut self, kernel: &Kernel, distances: &[u64]) -> Result<()> {
        let waker = Waker {
            cpu: self.waking_cpu,
            event: (self.event.try_clone()).map_err(Error::system("duplicating the perf event"))?,
            shared: kernel.shared().clone(),
            begin: (kernel.begin_to_wake()).map_err(Error::system("duplicating a BPF program"))?,
            stamps: !kernel.launch_stamps.before_queueing,
            distances: distances.to_vec(),
            moved: self.moved.clone(),
        };
        self.thread.start("waker", move |stop| {
            let ended = waker.run(stop);
            ended.map_err(Error::system("source remote: the waking thread"))
        })
    }

    fn stop(&mut self, kernel: &Kernel, longest_ns: u64) -> Result<()> {
        self.thread.end()?;
        wait_until_settled(kernel, longest_ns.min(10_000_000));
        Ok(())
    }
}

/// A perf event of `cpu` that counts nothing.
pub(super) fn dummy_event(cpu: u32) -> reveille_kernel::Result<OwnedFd> {
    // From the kernel's include/uapi/linux/perf_event.h.
    const PERF_TYPE_SOFTWARE: u32 = 1;
    const PERF_COUNT_SW_DUMMY: u64 = 9;
    let dummy = Counter {
        column: String::new(),
        pmu: "software".into(),
        event: "dummy".into(),
        unit: Unit::Count,
        scope: Scope::Cpu,
        counted_on: Vec::new(),
        pmu_type: PERF_TYPE_SOFTWARE,
        config: [PERF_COUNT_SW_DUMMY, 0, 0],
    };
    dummy.open(cpu)
}

struct Waker {
    cpu: u32,
    event: OwnedFd,
    shared: Arc<Shared<types::bss>>,
    /// Registers this thread with the BPF programs.
    begin: OwnedFd,
    /// This thread takes the launch time, before its system call; the BPF programs do not.
    stamps: bool,
    distances: Vec<u64>,
    moved: Arc<AtomicBool>,
}

impl Waker {
    fn run(self, stop: &AtomicBool) -> std::io::Result<()> {
        placement::bind(self.cpu).map_err(std::io::Error::other)?;
        // Without the priority, launches come later than planned; their timestamps stay correct.
        affinity::be_prompt();
        run_here(self.begin.as_fd()).map_err(std::io::Error::other)?;
        let mut event = File::from(self.event);
        let mut value = [0u8; 8];
        // While `pending` is set, the launch belongs to the BPF programs.
        let place = self.shared.at(0);
        let pending: &AtomicU32 = word!(place, types::bss, hot.armed.pending);
        for &distance in self.distances.iter().cycle() {
            if stop.load(Relaxed) {
                break;
            }
            let armed_at = now_ns();
            sleep_until(armed_at + distance);
            if !placement::is_on(self.cpu) {
                self.moved.store(true, Relaxed);
                break;
            }
            if pending.load(Acquire) != 0 {
                continue; // the CPU was not idle since the previous launch
            }
            word!(place, types::bss, waker_armed_at).store(armed_at, Relaxed);
            if self.stamps {
                word!(place, types::bss, hot.armed.armed_at).store(armed_at, Relaxed);
                word!(place, types::bss, hot.armed.by_flag).store(0, Relaxed);
                word!(place, types::bss, hot.armed.time).store(now_ns(), Relaxed);
                word!(place, types::bss, launched).fetch_add(1, Relaxed);
                pending.store(1, Release);
            }
            event.read_exact(&mut value)?;
        }
        word!(place, types::bss, waker).store(0, Relaxed);
        Ok(())
    }
}
