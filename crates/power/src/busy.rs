//! Threads that keep CPUs busy: each bound to one, computing without memory.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};
use reveille_kernel::affinity::Binding;
use reveille_kernel::{Error, Result};

/// Steps between looks at `stop`: some ten microseconds.
const STEPS: u32 = 10_000;

/// What the CPUs do meanwhile.
pub trait Load {
    /// Ends it: CPU time that it did not get, in CPUs.
    ///
    /// # Errors
    /// [`Error::Disturbed`] if it was not what it should be.
    fn end(self) -> Result<f64>;
}

/// Busy CPUs until this is ended or dropped.
pub struct Busy {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Result<f64>>>,
}

impl Busy {
    /// Starts a thread on each CPU, and returns when all are there.
    ///
    /// # Errors
    /// If a CPU is offline or not available to this process, or a thread cannot start.
    pub fn keep(cpus: &[u32]) -> Result<Self> {
        let mut busy = Self {
            stop: Arc::default(),
            threads: Vec::new(),
        };
        let (report, reports) = mpsc::channel();
        for &cpu in cpus {
            let (stop, report) = (busy.stop.clone(), report.clone());
            let thread = std::thread::Builder::new().name(format!("busy-{cpu}"));
            let thread = thread.spawn(move || compute(cpu, &stop, &report));
            busy.threads
                .push(thread.map_err(Error::system("starting a thread"))?);
        }
        for settled in reports.iter().take(cpus.len()) {
            settled?;
        }
        Ok(busy)
    }
}

impl Load for Busy {
    /// The time is a share of one CPU's: 0.5 is half of one, or a quarter of each of two.
    fn end(mut self) -> Result<f64> {
        self.stop.store(true, Ordering::Relaxed);
        let threads = self.threads.drain(..);
        threads
            .map(|thread| thread.join().expect("the thread does not panic"))
            .sum()
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Computes until `stop`: the share of the time that the thread did not get.
fn compute(cpu: u32, stop: &AtomicBool, report: &mpsc::Sender<Result<()>>) -> Result<f64> {
    let bound = match Binding::here(cpu) {
        Ok(bound) => bound,
        Err(error) => {
            let _ = report.send(Err(error));
            return Ok(0.0);
        }
    };
    let _ = report.send(Ok(()));
    let (began, used) = (Instant::now(), cpu_time()?);
    let mut numbers = [1_u64, 2, 3, 4];
    while !stop.load(Ordering::Relaxed) {
        // Independent chains: the core's arithmetic units are all in use.
        for _ in 0..STEPS {
            numbers = numbers.map(|number| number.wrapping_mul(0x5851_f42d_4c95_7f2d) ^ 0x1405);
        }
        black_box(&mut numbers);
    }
    let (elapsed, used) = (began.elapsed(), cpu_time()?.saturating_sub(used));
    bound.holds()?;
    Ok(elapsed.saturating_sub(used).as_secs_f64() / elapsed.as_secs_f64().max(1e-9))
}

fn cpu_time() -> Result<Duration> {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID);
    Ok(time.map_err(Error::system("clock_gettime"))?.into())
}

#[cfg(test)]
mod tests {
    use reveille_kernel::affinity;

    use super::*;

    #[test]
    fn threads_compute_until_they_are_ended_and_a_missing_cpu_is_refused() {
        let cpu = affinity::allowed()[0];
        let busy = Busy::keep(&[cpu]).unwrap();
        std::thread::sleep(Duration::from_millis(50));
        let lost = busy.end().unwrap();
        assert!((0.0..=1.0).contains(&lost), "{lost}");
        // Two threads on one CPU have half of it each.
        let busy = Busy::keep(&[cpu, cpu]).unwrap();
        std::thread::sleep(Duration::from_millis(300));
        let lost = busy.end().unwrap();
        assert!(lost > 0.5, "{lost}");
        assert!(Busy::keep(&[1023]).is_err());
    }
}
