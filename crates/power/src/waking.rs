//! Threads that wake each CPU at a rate, by absolute timers, and sleep again at once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::sys::prctl;
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, ClockNanosleepFlags, clock_nanosleep};
use reveille_kernel::affinity::Binding;
use reveille_kernel::{Error, Result, now_ns};

use crate::busy::Load;

/// CPUs that are woken until this is ended or dropped.
pub struct Waking {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Result<()>>>,
}

impl Waking {
    /// Starts a thread on each CPU. All CPUs wake at the same instants, so that they sleep together.
    ///
    /// # Errors
    /// If a CPU is offline or not available to this process, or a thread cannot start.
    pub fn start(cpus: &[u32], rate_per_s: f64) -> Result<Self> {
        let mut waking = Self {
            stop: Arc::default(),
            threads: Vec::new(),
        };
        let period_ns = (1e9 / rate_per_s) as u64;
        let (report, reports) = mpsc::channel();
        for &cpu in cpus {
            let (stop, report) = (waking.stop.clone(), report.clone());
            let thread = std::thread::Builder::new().name(format!("waking-{cpu}"));
            let thread = thread.spawn(move || wake(cpu, period_ns, &stop, &report));
            waking
                .threads
                .push(thread.map_err(Error::system("starting a thread"))?);
        }
        for settled in reports.iter().take(cpus.len()) {
            settled?;
        }
        Ok(waking)
    }
}

impl Load for Waking {
    fn end(mut self) -> Result<f64> {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            thread.join().expect("the thread does not panic")?;
        }
        Ok(0.0)
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

fn wake(
    cpu: u32,
    period_ns: u64,
    stop: &AtomicBool,
    report: &mpsc::Sender<Result<()>>,
) -> Result<()> {
    let bound = match Binding::here(cpu) {
        Ok(bound) => bound,
        Err(error) => {
            let _ = report.send(Err(error));
            return Ok(());
        }
    };
    // The thread's own, which ends with it.
    prctl::set_timerslack(1).map_err(Error::system("prctl"))?;
    let _ = report.send(Ok(()));
    while !stop.load(Ordering::Relaxed) {
        // The grid of all CPUs; instants that were missed are left out.
        let next = (now_ns() / period_ns + 1) * period_ns;
        let next = TimeSpec::from_duration(Duration::from_nanos(next));
        let clock = ClockId::CLOCK_MONOTONIC;
        let _ = clock_nanosleep(clock, ClockNanosleepFlags::TIMER_ABSTIME, &next);
    }
    bound.holds()
}
