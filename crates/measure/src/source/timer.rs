//! A BPF timer on the measured CPU. Available everywhere, but the CPU knows when it will be woken.

use reveille_results::Source;

use super::event_source::{EventSource, wait_until_settled};
use crate::Result;
use crate::kernel::Kernel;

/// Each callback arms the next launch, so nothing else runs on the CPU.
pub struct Timer {
    pub cpu: u32,
}

impl EventSource for Timer {
    fn source(&self) -> Source {
        Source::Timer
    }

    fn arming(&self, kernel: &Kernel) -> String {
        let instant = match kernel.timer_is_absolute() {
            true => "absolute",
            false => "relative (launch time from timer:hrtimer_start)",
        };
        let place = match kernel.timer_is_pinned() {
            true => "pinned to the CPU",
            false => "kept on the CPU by kernel.timer_migration=0",
        };
        format!("BPF timer, {instant}, {place}")
    }

    fn start(&mut self, kernel: &Kernel, distances: &[u64]) -> Result<()> {
        kernel.set_distances(distances);
        kernel.set_stop(false);
        kernel.on_cpu(self.cpu, Kernel::start_timer)
    }

    fn stop(&mut self, kernel: &Kernel, longest_ns: u64) -> Result<()> {
        kernel.set_stop(true);
        wait_until_settled(kernel, longest_ns);
        Ok(())
    }
}
