//! cpuidle, and everything that keeps CPUs from its states.

use std::io;
use std::path::Path;

use nix::errno::Errno;
use nix::unistd::{AccessFlags, access};

use super::{Facts, Feature, Group, Presence, names, recorded};
use crate::boot::{self, WithoutDriver};
use crate::bounds::{self, Bound};
use crate::pm_qos::{self, Holder, Unseen};
use crate::{Idle, Root};

pub fn features(facts: &Facts) -> Vec<Feature> {
    let root = facts.root;
    let idle = match &facts.idle {
        Ok(idle) => idle,
        Err(error) => {
            return table! { Idle;
                names::DRIVER, Presence::Unknown(error.to_string()) =>
                    "this machine's idle states are unknown", "mount sysfs at /sys", Decides;
            };
        }
    };
    let without = WithoutDriver::of(idle, root);
    table! { Idle;
        names::DRIVER, driver(idle, without.as_ref()) =>
            &driver_costs(without.as_ref()),
            "idle states in the firmware's setup; in a virtual machine, a hypervisor that passes \
             MWAIT or ACPI idle states on; a driver for this CPU", Decides;
        "cpuidle governor", governor(idle) =>
            "nothing chooses between idle states",
            "a kernel with CONFIG_CPU_IDLE_GOV_MENU or another governor";
        "switching states off", switchable(facts, idle) =>
            "no --state, no --each-state: measured is what the governor chooses",
            "root, a writable /sys, and an idle driver", Distorts;
        "default idle settings at boot", boot_settings(root) =>
            "the kernel uses fewer or other states than this CPU has",
            "a kernel command line without them", Distorts;
        pm_qos::DEVICE, device(facts) =>
            "latency bounds cannot be requested (`reveille hold`), nor seen",
            "root; a kernel with CONFIG_CPU_IDLE; in a container, that device passed in";
        "deep states within processes' bounds", held(root, idle) =>
            "deeper states are not entered while it is held, and cannot be measured",
            "ending the process that holds it, or its setting (tuned's profile, an audio server, a game); \
             in a container that may be one outside",
            Distorts;
        "deep states within each CPU's bound", per_cpu(idle) =>
            "deeper states are not entered on those CPUs, and cannot be measured there",
            "writing 0 to /sys/devices/system/cpu/cpuN/power/pm_qos_resume_latency_us",
            Distorts;
    }
}

fn driver(idle: &Idle, without: Option<&WithoutDriver>) -> Presence {
    if let Some(without) = without {
        return Presence::No(format!("likely why: {}", without.reason));
    }
    let driver = idle.driver.as_deref().unwrap_or_default();
    let names = idle
        .cpus
        .iter()
        .find(|cpu| cpu.online && !cpu.states.is_empty());
    let names = names.map(|cpu| cpu.states.iter().map(|state| state.name.as_str()));
    match names {
        Some(names) => Presence::Yes(format!(
            "{driver}: {}",
            names.collect::<Vec<_>>().join(", ")
        )),
        None => Presence::No(format!("{driver} is there, but no CPU has states")),
    }
}

fn driver_costs(without: Option<&WithoutDriver>) -> String {
    let does = without.map_or(String::new(), |without| format!("{} ", without.does));
    format!("{does}No states to choose from, and no driver's figures to check.")
}

fn governor(idle: &Idle) -> Presence {
    let Some(governor) = &idle.governor else {
        return Presence::No("the kernel reports none".to_owned());
    };
    let all = idle.available_governors.iter().map(String::as_str);
    Presence::Yes(super::with_others(governor, all))
}

/// May this user write `disable`?
fn switchable(facts: &Facts, idle: &Idle) -> Presence {
    let root = facts.root;
    let mut with_states = idle.cpus.iter().filter(|cpu| cpu.online);
    let Some((cpu, state)) = with_states.find_map(|cpu| Some((cpu.number, cpu.states.first()?)))
    else {
        return Presence::No("no states".to_owned());
    };
    if !root.is_live() {
        return recorded();
    }
    let file = format!("cpu{cpu}/cpuidle/state{}/disable", state.index);
    let path = root.path(&format!("sys/devices/system/cpu/{file}"));
    match access(&path, AccessFlags::W_OK) {
        Ok(()) => Presence::Yes(format!("{file} can be written")),
        Err(Errno::EACCES) => facts.refused(format!("this user may not write {file}")),
        Err(error) => Presence::No(format!("{file} cannot be written: {}", error.desc())),
    }
}

fn boot_settings(root: &Root) -> Presence {
    let Some(command_line) = root.text("proc/cmdline") else {
        return Presence::Unknown("/proc/cmdline cannot be read".to_owned());
    };
    let settings = boot::settings(&command_line);
    let parts: Vec<String> = settings
        .iter()
        .map(|setting| format!("{setting}: {}", setting.meaning))
        .collect();
    match parts.is_empty() {
        true => Presence::Yes(String::new()),
        false => Presence::No(parts.join("; ")),
    }
}

fn device(facts: &Facts) -> Presence {
    if !facts.root.is_live() {
        return recorded();
    }
    opened(facts, pm_qos::current_bound_us().map(drop))
}

/// What came of opening the device.
pub(super) fn opened(facts: &Facts, result: io::Result<()>) -> Presence {
    match result {
        Ok(()) => Presence::Yes("can be opened".to_owned()),
        Err(error) => match error.kind() {
            io::ErrorKind::NotFound => Presence::No("no such device".to_owned()),
            io::ErrorKind::PermissionDenied => {
                facts.refused("this user may not open it".to_owned())
            }
            _ => Presence::No(error.to_string()),
        },
    }
}

fn held(root: &Root, idle: &Idle) -> Presence {
    if !root.is_live() {
        return recorded();
    }
    judge_held(
        idle,
        pm_qos::current_bound_us(),
        pm_qos::holders(Path::new("/proc")),
    )
}

/// The bound and its holders together. A process may have the device open and ask for
/// nothing; a driver of the kernel may ask without having it open.
fn judge_held(
    idle: &Idle,
    bound_us: io::Result<Option<u32>>,
    holders: io::Result<(Vec<Holder>, Unseen)>,
) -> Presence {
    let (holders, unseen) = holders.unwrap_or_else(|_| (Vec::new(), Unseen::OfOtherUsers));
    let named: Vec<String> = holders.iter().map(in_words).collect();
    let named = named.join(", ");
    let not_seen = match unseen {
        Unseen::None => "",
        Unseen::OfOtherUsers => "; other users' processes are not seen without root",
        Unseen::OfOtherNamespaces => "; processes outside of this container are not seen",
    };
    let holder = match (holders.is_empty(), unseen) {
        (false, _) => format!("; open in {named}{not_seen}"),
        (true, Unseen::None) => "; a driver of the kernel asks for it".to_owned(),
        (true, _) => not_seen.to_owned(),
    };
    match (bound_us, holders.is_empty()) {
        (Ok(None), true) => Presence::Yes("no bound".to_owned()),
        (Ok(None), false) => Presence::Yes(format!("no bound; open in {named}")),
        (Ok(Some(bound)), _) => judged(&[bounds::request(idle, bound)], &holder),
        (Err(_), true) => Presence::Unknown(format!("{} cannot be read{not_seen}", pm_qos::DEVICE)),
        (Err(_), false) => {
            Presence::Unknown(format!("its value is unknown; open in {named}{not_seen}"))
        }
    }
}

fn in_words(holder: &Holder) -> String {
    const COMMAND_LENGTH: usize = 60;
    let mut command: String = holder.command.chars().take(COMMAND_LENGTH).collect();
    if command.len() < holder.command.len() {
        command.push('…');
    }
    match command.is_empty() {
        true => format!("{} (PID {})", holder.name, holder.pid),
        false => format!("{} (PID {}: {command})", holder.name, holder.pid),
    }
}

fn per_cpu(idle: &Idle) -> Presence {
    let mut online = idle.cpus.iter().filter(|cpu| cpu.online);
    if !online.any(|cpu| cpu.resume_latency_us.is_some()) {
        return Presence::Unknown("no CPU has a file pm_qos_resume_latency_us".to_owned());
    }
    judged(&bounds::per_cpu(idle), "")
}

/// Bounds that rule out no state take nothing away.
fn judged(bounds: &[Bound], holder: &str) -> Presence {
    let parts: Vec<&str> = bounds.iter().map(|bound| bound.text.as_str()).collect();
    let parts = parts.join("; ");
    match bounds.iter().all(|bound| bound.rules_out.is_empty()) {
        true if bounds.is_empty() => Presence::Yes("no bound".to_owned()),
        true => Presence::Yes(format!("{parts}{holder}")),
        false => Presence::No(format!("{parts}{holder}")),
    }
}

#[cfg(test)]
mod tests {
    use reveille_snapshot::snapshot;

    use super::*;

    /// A CPU whose C6 wakes in 133 µs; its own bound.
    fn machine(own: &str) -> Idle {
        let folder = tempfile::tempdir().unwrap();
        for (file, text) in [
            ("present", "0"),
            ("online", "0"),
            ("cpu0/power/pm_qos_resume_latency_us", own),
            ("cpu0/cpuidle/state0/name", "C1"),
            ("cpu0/cpuidle/state0/latency", "2"),
            ("cpu0/cpuidle/state1/name", "C6"),
            ("cpu0/cpuidle/state1/latency", "133"),
        ] {
            let path = folder.path().join("sys/devices/system/cpu").join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        Idle::read(&Root::at(folder.path())).unwrap()
    }

    #[test]
    fn a_bound_that_rules_out_no_state_takes_nothing_away() {
        for (us, is_yes) in [(0, false), (132, false), (133, true), (2000, true)] {
            let all = judge_held(
                &machine("0"),
                Ok(Some(us)),
                Ok((vec![tuned()], Unseen::None)),
            );
            assert_eq!(all.is_yes(), is_yes, "{us} on all: {all:?}");
            let own = per_cpu(&machine(&us.max(1).to_string()));
            assert_eq!(own.is_yes(), is_yes, "{us} on a CPU: {own:?}");
        }
        assert!(!per_cpu(&machine("n/a")).is_yes());
    }

    fn tuned() -> Holder {
        Holder {
            pid: 7,
            name: "tuned".to_owned(),
            command: "python3 tuned".to_owned(),
            device: pm_qos::DEVICE,
        }
    }

    #[test]
    fn a_bound_is_shown_with_its_holder() {
        let no = judge_held(
            &machine("0"),
            Ok(Some(0)),
            Ok((vec![tuned()], Unseen::None)),
        );
        snapshot!("features", [("0 µs", format!("{no:?}"))]);
        let driver = judge_held(&machine("0"), Ok(Some(40)), Ok((vec![], Unseen::None)));
        assert!(driver.words().contains("a driver") && !driver.is_yes());
        assert!(
            judge_held(&machine("0"), Ok(None), Ok((vec![tuned()], Unseen::None))).is_yes(),
            "open without a bound"
        );
        assert!(judge_held(&machine("0"), Ok(None), Ok((vec![], Unseen::OfOtherUsers))).is_yes());
    }

    #[test]
    fn an_unreadable_value_is_unknown_and_names_what_root_would_show() {
        let denied = || Err(io::Error::from(io::ErrorKind::PermissionDenied));
        let unknown = judge_held(&machine("0"), denied(), Ok((vec![], Unseen::OfOtherUsers)));
        assert!(matches!(&unknown, Presence::Unknown(why) if why.contains("without root")));
        let seen = judge_held(
            &machine("0"),
            denied(),
            Ok((vec![tuned()], Unseen::OfOtherUsers)),
        );
        assert!(matches!(&seen, Presence::Unknown(why) if why.contains("PID 7")));
    }

    #[test]
    fn a_bound_without_a_visible_holder_may_be_another_users() {
        let unseen = judge_held(
            &machine("0"),
            Ok(Some(40)),
            Ok((vec![], Unseen::OfOtherUsers)),
        );
        let in_container = judge_held(
            &machine("0"),
            Ok(Some(40)),
            Ok((vec![], Unseen::OfOtherNamespaces)),
        );
        snapshot!(
            "features",
            [
                ("40 µs", format!("{unseen:?}")),
                ("40 µs, in a container", format!("{in_container:?}")),
            ]
        );
    }

    #[test]
    fn a_command_line_is_shown_up_to_60_characters() {
        let words = |length: usize| {
            in_words(&Holder {
                command: "µ".repeat(length),
                ..tuned()
            })
        };
        let sixty = "µ".repeat(60);
        assert_eq!(words(60), format!("tuned (PID 7: {sixty})"));
        assert_eq!(words(61), format!("tuned (PID 7: {sixty}…)"));
        assert_eq!(words(0), "tuned (PID 7)");
    }
}
