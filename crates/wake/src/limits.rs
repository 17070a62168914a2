//! Which idle states the measured CPU may use while it is measured.

use reveille_machine::{IdleState, Journal, Root};

use crate::{Error, Result};

/// Allows `deepest` and what is shallower on this CPU, and disables what is deeper. Other CPUs are
/// left alone, and so is a shallower state that somebody had disabled.
///
/// # Errors
/// Where a setting cannot be changed: the states below it may have been; the journal has them.
pub fn allow_up_to(
    journal: &mut Journal,
    root: &Root,
    cpu: u32,
    states: &[IdleState],
    deepest: u32,
) -> Result<()> {
    if poll(states).is_some_and(|poll| poll.index == deepest) {
        // Some governors (haltpoll) halt even where the state is disabled, but none does where no
        // latency at all is tolerated.
        let bound = format!("/sys/devices/system/cpu/cpu{cpu}/power/pm_qos_resume_latency_us");
        let bound = root.path(&bound);
        if bound.exists() {
            journal.set(&bound, "n/a").map_err(only_by_root)?;
        }
    }
    for state in states {
        let disable = match state.index {
            index if index > deepest => "1",
            index if index == deepest => "0",
            _ => continue,
        };
        let path = format!(
            "/sys/devices/system/cpu/cpu{cpu}/cpuidle/state{}/disable",
            state.index
        );
        journal
            .set(&root.path(&path), disable)
            .map_err(only_by_root)?;
    }
    Ok(())
}

fn only_by_root(error: reveille_machine::Error) -> Error {
    match error {
        reveille_machine::Error::Io { path, source }
            if source.kind() == std::io::ErrorKind::PermissionDenied =>
        {
            Error::Cannot(format!(
                "{}: idle states can only be limited by root; run with sudo",
                path.display()
            ))
        }
        other => other.into(),
    }
}

/// The state of that name, in any case.
///
/// # Errors
/// [`Error::Usage`] where the CPU has no such state; it names those that there are.
pub fn by_name<'a>(states: &'a [IdleState], cpu: u32, name: &str) -> Result<&'a IdleState> {
    let found = states
        .iter()
        .find(|state| state.name.eq_ignore_ascii_case(name));
    found.ok_or_else(|| {
        let names: Vec<_> = states.iter().map(|state| state.name.as_str()).collect();
        Error::Usage(match names.is_empty() {
            true => format!(
                "state {name:?}: CPU {cpu} has no idle states to choose from (no cpuidle driver); \
                 measure without --state"
            ),
            false => format!(
                "state {name:?}: CPU {cpu} has no such idle state; it has {}",
                names.join(", ")
            ),
        })
    })
}

/// The poll state, in which nothing sleeps: cpuidle's state 0 of that name.
pub fn poll(states: &[IdleState]) -> Option<&IdleState> {
    states
        .iter()
        .find(|state| state.index == 0 && state.name == "POLL")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn machine() -> (tempfile::TempDir, Root, Vec<IdleState>) {
        let folder = tempfile::tempdir().unwrap();
        let names = ["POLL", "C1", "C6"];
        let states = names.iter().enumerate().map(|(index, name)| {
            let dir = format!("sys/devices/system/cpu/cpu3/cpuidle/state{index}");
            let dir = folder.path().join(dir);
            fs::create_dir_all(&dir).unwrap();
            fs::write(dir.join("disable"), if index == 1 { "1\n" } else { "0\n" }).unwrap();
            IdleState {
                index: index as u32,
                name: (*name).into(),
                description: None,
                exit_latency_us: None,
                target_residency_us: None,
                disabled: None,
                enabled_by_default: None,
                usage: None,
                time_us: None,
                rejected: None,
                above: None,
                below: None,
            }
        });
        let states = states.collect();
        let root = Root::at(folder.path());
        (folder, root, states)
    }

    fn disabled(root: &Root) -> Vec<u64> {
        let file = |index| format!("/sys/devices/system/cpu/cpu3/cpuidle/state{index}/disable");
        (0..3)
            .map(|index| root.number(&file(index)).unwrap())
            .collect()
    }

    #[test]
    fn just_what_is_deeper_is_disabled_and_all_is_put_back() {
        let (folder, root, states) = machine();
        let mut journal = Journal::new(&folder.path().join("run"));
        allow_up_to(&mut journal, &root, 3, &states, 1).unwrap();
        assert_eq!(disabled(&root), [0, 0, 1]);
        allow_up_to(&mut journal, &root, 3, &states, 2).unwrap();
        assert_eq!(disabled(&root), [0, 0, 0]);
        allow_up_to(&mut journal, &root, 3, &states, 0).unwrap();
        assert_eq!(disabled(&root), [0, 1, 1]);
        drop(journal);
        assert_eq!(disabled(&root), [0, 1, 0]);
    }

    #[test]
    fn the_poll_state_alone_also_asks_for_no_latency_at_all() {
        let (folder, root, states) = machine();
        let power = folder.path().join("sys/devices/system/cpu/cpu3/power");
        fs::create_dir_all(&power).unwrap();
        let bound = power.join("pm_qos_resume_latency_us");
        fs::write(&bound, "0\n").unwrap();
        let read = || fs::read_to_string(&bound).unwrap();
        let mut journal = Journal::new(&folder.path().join("run"));
        allow_up_to(&mut journal, &root, 3, &states, 2).unwrap();
        assert_eq!(read(), "0\n");
        allow_up_to(&mut journal, &root, 3, &states, 0).unwrap();
        assert_eq!((disabled(&root), read()), (vec![0, 1, 1], "n/a".into()));
        journal.restore();
        assert_eq!((disabled(&root), read()), (vec![0, 1, 0], "0".into()));
    }

    #[test]
    fn a_state_is_found_in_any_case_and_its_absence_names_the_others() {
        let (_folder, _root, states) = machine();
        assert_eq!(by_name(&states, 3, "c6").unwrap().index, 2);
        let error = by_name(&states, 3, "C9").unwrap_err().to_string();
        assert!(error.contains("POLL, C1, C6"), "{error}");
    }
}
