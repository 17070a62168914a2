//! The probes' cost on the measured CPU, as the kernel counts it.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use reveille_kernel::bpf::Counting;
use reveille_results::description::Cost;

use crate::kernel::Kernel;
use crate::source::EventSource;
use crate::{Distances, Result, cost};

/// The number and length of the windows: some 50 idle periods each.
const WINDOWS: usize = 7;
/// With fewer, one disturbed window could be the median.
const WINDOWS_NEEDED: usize = 5;
const WINDOW: Duration = Duration::from_millis(100);

/// The probes' cost by `bpf_stats_enabled`, ns per idle period, from several short windows: of the
/// probe at idle entry and exit, and of those at interrupts and softirqs. It includes their early
/// returns on other CPUs, so it is an upper bound if those are busy. `None` if the kernel does not
/// count or the CPU was idle in too few windows.
pub fn count(
    kernel: &Kernel,
    source: &mut dyn EventSource,
    distances: &Distances,
    seed: u64,
) -> Result<Option<(Cost, Cost)>> {
    let Some(_counting) = Counting::start() else {
        return Ok(None);
    };
    source.start(kernel, &distances.draw(crate::distance::DRAWN, seed))?;
    let (mut at_idle, mut at_interrupts) = (Vec::new(), Vec::new());
    let now = || -> Result<(u64, u64, u64)> {
        let at_interrupts = kernel.interrupt_probes().into_iter().map(run_time_ns);
        let at_interrupts = at_interrupts.sum::<Result<u64>>()?;
        let at_idle = run_time_ns(kernel.idle_probe())?;
        Ok((at_idle, at_interrupts, kernel.counts().idle_entries))
    };
    for _ in 0..WINDOWS {
        let before = now()?;
        std::thread::sleep(WINDOW);
        let after = now()?;
        let periods = (after.2 - before.2) as f64;
        if periods > 0.0 {
            at_idle.push((after.0 - before.0) as f64 / periods);
            at_interrupts.push((after.1 - before.1) as f64 / periods);
        }
    }
    source.stop(kernel, distances.max_ns)?;
    if at_idle.len() < WINDOWS_NEEDED {
        return Ok(None);
    }
    Ok(cost::of(at_idle).zip(cost::of(at_interrupts)))
}

/// A program's run time, ns, on all CPUs.
fn run_time_ns(program: BorrowedFd<'_>) -> Result<u64> {
    Ok(reveille_kernel::bpf::run_time(program)?.ns)
}
