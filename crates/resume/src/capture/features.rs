//! What of a capture this machine allows, for `reveille doctor`.

use std::io::ErrorKind;

use reveille_kernel::Root;
use reveille_kernel::features::{Feature, Group, Presence};

use super::alarm::Alarm;
use super::recorder::PRINT_TIMES;
use super::sleep_state::{Mode, SleepState};
use super::tracer;

/// Each is one that `reveille resume capture` needs or makes use of.
pub fn features(root: &Root) -> Vec<Feature> {
    let feature = |name: &str, presence, costs: &str, brings: &str| {
        Feature::new(Group::Sleep, name, presence, costs, brings)
    };
    vec![
        feature(
            "suspend",
            states(root),
            "no resume capture; logs of other machines can still be analysed",
            "a machine whose firmware and kernel can suspend (CONFIG_SUSPEND)",
        ),
        feature(
            "alarm to wake by",
            alarm(root),
            "no resume capture: nothing would wake the machine",
            "a real-time clock with an alarm that may wake the machine",
        ),
        feature(
            "device times in the log",
            print_times(root),
            "resume capture has the times of devices from the trace alone",
            "a kernel with CONFIG_PM_SLEEP_DEBUG",
        ),
        feature(
            "trace of suspends",
            trace(root),
            "resume capture has the log alone: times as of the ends of its lines",
            "tracefs mounted at /sys/kernel/tracing, and a kernel with CONFIG_EVENT_TRACING",
        ),
    ]
}

fn states(root: &Root) -> Presence {
    let all = [Mode::Mem, Mode::Freeze, Mode::Standby].into_iter();
    let found = all.filter_map(|mode| SleepState::find(root, Some(mode)).ok());
    let found = found.map(|one| format!("{} ({})", one.mode, one.sleep));
    let found = Vec::from_iter(found);
    match found.is_empty() {
        true => Presence::No("/sys/power/state offers nothing".to_owned()),
        false => Presence::Yes(found.join(", ")),
    }
}

fn alarm(root: &Root) -> Presence {
    match Alarm::find(root) {
        Ok(alarm) => Presence::Yes(alarm.name),
        Err(error) => Presence::No(error.to_string()),
    }
}

fn print_times(root: &Root) -> Presence {
    match root.path(PRINT_TIMES).exists() {
        true => Presence::Yes(String::new()),
        false => Presence::No(format!("no /{PRINT_TIMES}")),
    }
}

fn trace(root: &Root) -> Presence {
    let mut denied = false;
    for place in tracer::PLACES {
        let event = root.path(place).join("events").join(tracer::EVENTS[1]);
        match std::fs::metadata(event) {
            Ok(_) => return Presence::Yes(String::new()),
            Err(error) => denied |= error.kind() == ErrorKind::PermissionDenied,
        }
    }
    match denied {
        true => Presence::Denied("tracefs is for root".to_owned()),
        false => Presence::No(format!("{} is not in tracefs", tracer::EVENTS[1])),
    }
}
