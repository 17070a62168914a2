//! A whole measurement: preparation, characterisation, the phases, and everything put back.

use std::sync::atomic::AtomicBool;

use reveille_kernel::Root;
use reveille_results::description::Probe;

use super::by_bpf::try_bpf;
use super::{NOT_IDLE, Options, Outcome, Run, Sink};
use crate::Result;

/// Measures. Whatever it changes on the machine is put back when it returns, by any way.
///
/// # Errors
/// Before anything was gathered: see [`crate::Error`]. Later trouble (a CPU that goes offline) ends the
/// run well: [`Outcome::ended`] says so.
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
        if self.options.probe.is_none()
            && let Err(why) = try_bpf(self.options.cpu)
        {
            self.note(format!(
                "measured with the user probe, for BPF cannot be had: {why}"
            ));
            self.outcome.probe = Probe::User;
        }
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
        let counts = &mut self.outcome.counts;
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

/// What has to be said of a CPU that was busy at most launches. Of a few that says nothing: a run
/// that is interrupted at once may have one.
fn mostly_busy(cpu: u32, busy: u64, launched: u64) -> Option<String> {
    const LAUNCHES_NEEDED: u64 = 20;
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
    fn a_cpu_is_said_to_be_busy_by_many_launches_only() {
        assert_eq!(mostly_busy(1, 1, 1), None);
        assert_eq!(mostly_busy(1, 10, 20), None);
        let said = mostly_busy(1, 11, 20).unwrap();
        assert!(said.contains("11 of 20 launches"), "{said}");
    }
}
