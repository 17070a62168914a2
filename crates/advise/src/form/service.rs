//! The setting as a file that a daemon reads: TuneD, systemd, udev.

use super::{Form, Name, hold_line, limit_line, summary, why_not_disabled};
use crate::{Question, Setting, Target};

/// The name of profiles, units and rules: `reveille-50us`.
fn name(question: &Question) -> String {
    format!("reveille-{}us", question.budget_us)
}

fn devices(cpus: &[u32], between: &str) -> String {
    let devices: Vec<String> = cpus.iter().map(|cpu| format!("cpu{cpu}")).collect();
    devices.join(between)
}

pub(super) fn tuned(question: &Question, setting: &Setting) -> Form {
    let name = name(question);
    let text = setting.bound.map(|bound| {
        let us = bound.us;
        // TuneD's pm_qos_resume_latency_us is the kernel's file: there 0 is not a bound at all.
        let section = match &setting.cpus {
            None => format!("[cpu]\nforce_latency={us}\n"),
            Some(cpus) => format!(
                "[cpu]\ndevices={}\npm_qos_resume_latency_us={}\n",
                devices(cpus, ","),
                resume_latency(us)
            ),
        };
        let elsewhere = match us == question.budget_us {
            true => "The budget, and no state's number: it means the same on another CPU.",
            false => {
                "In the figures of this CPU's driver: on another one it may leave other states."
            }
        };
        format!(
            "[main]\nsummary={}\n\n# {elsewhere}\n{section}",
            summary(question, setting)
        )
    });
    let does = "TuneD holds the bound; a latency stays right where states are numbered otherwise";
    Form {
        name: Name::Tuned,
        does: does.to_owned(),
        read: format!(
            "by `tuned-adm profile {name}`, and at every boot from then on; add `include=PROFILE` \
             to [main] to keep the present profile. Before TuneD 2.24 the folder is /etc/tuned/{name}"
        ),
        file: Some(format!("/etc/tuned/profiles/{name}/tuned.conf")),
        text,
        caveat: setting.why_no_bound.clone(),
    }
}

pub(super) fn systemd(question: &Question, setting: &Setting, target: &Target) -> Form {
    let name = name(question);
    let command = hold_line(setting).map_or_else(|| limit_line(setting, target), Ok);
    let text = command.map(|command| {
        let summary = summary(question, setting);
        format!(
            "[Unit]\nDescription={summary}\n\n[Service]\nExecStart={command}\n\
             Restart=on-failure\n\n[Install]\nWantedBy=multi-user.target\n"
        )
    });
    let caveat = match text {
        Ok(_) => "reveille must be where systemd looks: /usr/local/bin or /usr/bin".to_owned(),
        Err(why) => format!("neither hold nor limit can express it: {why}"),
    };
    Form {
        name: Name::Systemd,
        does: "a service that holds the setting from boot on, and drops it when it is stopped"
            .to_owned(),
        read: format!("by `systemctl daemon-reload` and `systemctl enable --now {name}`"),
        file: Some(format!("/etc/systemd/system/{name}.service")),
        text: text.ok(),
        caveat: Some(caveat),
    }
}

pub(super) fn udev(question: &Question, setting: &Setting, target: &Target) -> Form {
    let assign = |file: &str, value: &str| format!("ATTR{{{file}}}=\"{value}\"");
    let writes = match setting.bound {
        Some(bound) => {
            let file = "power/pm_qos_resume_latency_us";
            Some(vec![assign(file, &resume_latency(bound.us))])
        }
        // Without a bound: the states by number; udev does not know their names.
        None => disabled_states(setting, target).map(|files| {
            let files = files.iter();
            files.map(|file| assign(file, "1")).collect()
        }),
    };
    let text = writes.map(|writes: Vec<String>| {
        let cpus = match &setting.cpus {
            None => "cpu[0-9]*".to_owned(),
            Some(cpus) => devices(cpus, "|"),
        };
        format!(
            "# {}\nACTION==\"add\", SUBSYSTEM==\"cpu\", KERNEL==\"{cpus}\", {}\n",
            summary(question, setting),
            writes.join(", ")
        )
    });
    let caveat = match (&text, setting.bound) {
        (None, _) => {
            let unknown = "neither a bound nor the states' numbers are known";
            Some(
                why_not_disabled(setting, target)
                    .unwrap_or(unknown)
                    .to_owned(),
            )
        }
        (Some(_), Some(bound)) if bound.us == 0 => {
            Some("In that file n/a means no latency at all; 0 would be no bound".to_owned())
        }
        (Some(_), Some(_)) => None,
        (Some(_), None) => {
            Some("States by number: the numbers differ on another CPU or kernel".to_owned())
        }
    };
    Form {
        name: Name::Udev,
        does: "writes the setting into each CPU's own file in sysfs; needs no running process"
            .to_owned(),
        read: "at every boot; now by `udevadm control --reload` and `udevadm trigger \
               --subsystem-match=cpu --action=add`. Removing the rule undoes it at the next boot"
            .to_owned(),
        file: Some("/etc/udev/rules.d/60-reveille.rules".to_owned()),
        text,
        caveat,
    }
}

/// As `power/pm_qos_resume_latency_us` has it: 0 is not a bound, `n/a` no latency at all.
/// Source: Documentation/ABI/testing/sysfs-devices-power of the kernel.
fn resume_latency(us: u32) -> String {
    match us {
        0 => "n/a".to_owned(),
        us => us.to_string(),
    }
}

/// The files that disable the forbidden states.
fn disabled_states(setting: &Setting, target: &Target) -> Option<Vec<String>> {
    if why_not_disabled(setting, target).is_some() {
        return None;
    }
    let file = |name: &String| {
        let index = target.state(name)?.index;
        Some(format!("cpuidle/state{index}/disable"))
    };
    setting.forbidden.iter().map(file).collect()
}
