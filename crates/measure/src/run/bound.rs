//! A foreign latency bound on the measured CPU: it rules out idle states, so the result has no
//! datapoint of them.

use reveille_kernel::{Idle, Root, bounds, pm_qos, requests};

/// A latency bound and the idle states that it rules out, at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bound {
    us: u32,
    rules_out: Vec<String>,
}

impl Bound {
    /// The bound in force on a CPU now. `None` if there is none, it rules out no state, or the idle
    /// governor does not respect it.
    pub fn in_force(root: &Root, cpu: u32) -> Option<Self> {
        let request_us = pm_qos::current_bound_us().ok().flatten();
        Self::of(&Idle::read(root).ok()?, cpu, request_us)
    }

    fn of(idle: &Idle, cpu: u32, request_us: Option<u32>) -> Option<Self> {
        let cpu = idle.cpu(cpu)?;
        let us = bounds::in_force_us(cpu, request_us)?;
        let rules_out = bounds::ruled_out(&cpu.states, us, idle.governor.as_deref());
        let rules_out: Vec<String> = rules_out.map(|state| state.name.clone()).collect();
        let matters =
            !rules_out.is_empty() && requests::honoured(idle) && requests::is_kept_to(idle, us);
        matters.then_some(Self { us, rules_out })
    }

    /// The note on a bound that is in force when the run begins.
    pub fn note(&self, cpu: u32) -> String {
        format!(
            "a latency bound of {} µs on CPU {cpu}, which this run did not set, rules out {}",
            self.us,
            self.rules_out.join(", ")
        )
    }
}

/// The note on a bound that changed during the run.
pub fn change(cpu: u32, start: Option<&Bound>, end: Option<&Bound>) -> Option<String> {
    let words = |bound: Option<&Bound>| match bound {
        Some(bound) => format!("{} µs (rules out {})", bound.us, bound.rules_out.join(", ")),
        None => "none that rules out a state".to_owned(),
    };
    (start != end).then(|| {
        format!(
            "the latency bound on CPU {cpu} changed during the run: {} at its start, {} at its end",
            words(start),
            words(end)
        )
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// CPU 0 with POLL (0 µs), C1 (2 µs) and C6 (133 µs), with that governor and own bound.
    fn machine(governor: &str, own: &str) -> Idle {
        let folder = tempfile::tempdir().unwrap();
        let write = |file: &str, text: &str| {
            let path = folder.path().join("sys/devices/system/cpu").join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("{text}\n")).unwrap();
        };
        write("present", "0");
        write("cpuidle/current_driver", "acpi_idle");
        write("cpuidle/current_governor", governor);
        write("cpu0/power/pm_qos_resume_latency_us", own);
        for (state, name, latency) in [(0, "POLL", "0"), (1, "C1", "2"), (2, "C6", "133")] {
            write(&format!("cpu0/cpuidle/state{state}/name"), name);
            write(&format!("cpu0/cpuidle/state{state}/latency"), latency);
        }
        Idle::read(&Root::at(folder.path())).unwrap()
    }

    fn noted(idle: &Idle, request_us: Option<u32>) -> Option<String> {
        Bound::of(idle, 0, request_us).map(|bound| bound.note(0))
    }

    #[test]
    fn a_bound_is_noted_with_the_states_it_rules_out() {
        let note = "a latency bound of 100 µs on CPU 0, which this run did not set, rules out C6";
        assert_eq!(
            noted(&machine("menu", "0"), Some(100)).as_deref(),
            Some(note)
        );
        assert_eq!(noted(&machine("menu", "100"), None).as_deref(), Some(note));
        let none = noted(&machine("menu", "n/a"), Some(100)).unwrap();
        assert!(none.contains("0 µs") && none.ends_with("C1, C6"), "{none}");
    }

    #[test]
    fn a_bound_that_rules_out_no_state_is_not_noted() {
        assert_eq!(noted(&machine("menu", "0"), None), None);
        assert_eq!(noted(&machine("menu", "133"), None), None);
        assert_eq!(noted(&machine("menu", "0"), Some(133)), None);
    }

    #[test]
    fn a_bound_that_the_governor_ignores_is_not_noted() {
        assert_eq!(noted(&machine("haltpoll", "100"), None), None);
        assert!(noted(&machine("haltpoll", "n/a"), None).is_some());
        let mut idle = machine("menu", "100");
        idle.governor = None;
        assert_eq!(noted(&idle, None), None);
    }

    #[test]
    fn a_change_is_noted_with_both_values_and_an_unchanged_bound_is_not_noted() {
        let bound = |us| Bound::of(&machine("menu", "0"), 0, us);
        let (tight, wide) = (bound(Some(1)), bound(Some(100)));
        let change =
            |start: &Option<Bound>, end: &Option<Bound>| change(0, start.as_ref(), end.as_ref());
        assert_eq!(change(&None, &None), None);
        assert_eq!(change(&wide, &wide), None);
        assert_eq!(
            change(&None, &wide).as_deref(),
            Some(
                "the latency bound on CPU 0 changed during the run: none that rules out a state at \
                 its start, 100 µs (rules out C6) at its end"
            )
        );
        assert!(change(&wide, &None).is_some() && change(&tight, &wide).is_some());
    }
}
