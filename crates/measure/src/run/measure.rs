//! A whole measurement: preparation, characterisation, the phases, and restoring all settings.

use std::sync::atomic::AtomicBool;

use reveille_kernel::asleep::Cpus;
use reveille_kernel::{Root, limits};
use reveille_results::description::Probe;

use super::by_bpf::try_bpf;
use super::so_far::LAUNCHES_NEEDED;
use super::{NOT_IDLE, Options, Outcome, Run, Sink};
use crate::Result;

/// Measures. All settings that it changes are restored when it returns.
///
/// # Errors
/// Before anything was gathered: see [`crate::Error`]. A later disturbance (a CPU that goes offline) ends
/// the run normally, with the reason in [`Outcome::ended`].
pub fn measure(
    root: &Root,
    options: &Options,
    sink: &mut dyn Sink,
    interrupted: &AtomicBool,
) -> Result<Outcome> {
    Run::prepare(root, options, sink, interrupted)?.whole()
}

impl Run<'_> {
    fn whole(mut self) -> Result<Outcome> {
        // Before any other message: without it nothing is measured.
        if self.deepest.iter().any(Option::is_some) {
            limits::may_limit(self.root, self.options.cpu, &self.states)?;
        }
        if self.options.probe.is_none()
            && let Err(why) = try_bpf(self.options.cpu)
        {
            if self.options.cold_bytes > 0 {
                return Err(why);
            }
            self.note(format!("BPF is unavailable; using the user probe: {why}"));
            self.outcome.probe = Probe::User;
        }
        self.announce();
        // CPUs that are offline do not sleep.
        let before = (!self.options.offline_others).then(|| {
            let cpus = Cpus::online(self.root, &self.outcome.idle);
            (cpus.read(), cpus)
        });
        let gathered = match self.outcome.probe {
            Probe::User => self.by_thread(),
            _ => self.by_bpf(),
        };
        if let Err(error) = gathered {
            self.failed(error)?;
        }
        if let Some(why) = self.gave_up.take() {
            self.end_early(why);
        }
        let joint = before.and_then(|(before, cpus)| cpus.read().together_percent(&before));
        let counts = &mut self.outcome.counts;
        counts.joint_percent = joint;
        counts.elapsed_s = self.measured.as_secs_f64();
        let busy = counts.dropped.get(NOT_IDLE).copied().unwrap_or(0);
        if let Some(why) = mostly_busy(self.options.cpu, busy, counts.launched) {
            self.note(why);
        }
        for restored in [self.limits.restore(), self.journal.restore()] {
            self.outcome.notes.extend(restored.complaints());
        }
        self.compare_bounds();
        Ok(self.outcome)
    }
}

/// A note on a CPU that was busy at most launches, unless there were only a few.
fn mostly_busy(cpu: u32, busy: u64, launched: u64) -> Option<String> {
    (launched >= LAUNCHES_NEEDED && 2 * busy > launched).then(|| {
        format!(
            "CPU {cpu} was not idle at {busy} of {launched} launches: something else runs on it, \
             and what is left may not be typical"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_is_reported_as_busy_after_many_launches_only() {
        assert_eq!(mostly_busy(1, 1, 1), None);
        assert_eq!(mostly_busy(1, 10, 20), None);
        let said = mostly_busy(1, 11, 20).unwrap();
        assert!(said.contains("11 of 20 launches"), "{said}");
    }
}
