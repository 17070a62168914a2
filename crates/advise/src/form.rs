//! The setting in the forms that people deploy.
//!
//! Sources: Documentation/admin-guide/pm/{cpuidle,intel_idle}.rst and kernel-parameters.txt of the
//! kernel, Documentation/ABI/testing/sysfs-devices-power, the `cpu` plug-in of TuneD,
//! systemd.service(5), udev(7).

mod all;
mod kernel;
mod service;

use reveille_kernel::cpulist;
use reveille_show::quantity::quoted;
use serde::Serialize;

use crate::setting::Bound;
use crate::{Demand, Leaves, Question, Setting, Target};

pub use all::{all, one};
pub(crate) use kernel::FOR_ALL;

/// One form of the setting.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Form {
    /// Which of the forms it is.
    pub name: Name,
    /// What it does.
    pub does: String,
    /// When it is read, and how it is undone.
    pub read: String,
    /// The file that the text goes into; `None` for a command or a parameter.
    pub file: Option<String>,
    /// The text, with its last newline; `None` if the setting cannot be written in this form.
    pub text: Option<String>,
    /// Why there is no text, or a caveat.
    #[serde(rename = "mind")]
    pub caveat: Option<String>,
}

/// The forms, in the order in which they are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Name {
    /// `reveille hold`: a latency bound while the command runs.
    Hold,
    /// `reveille limit`: states disabled in sysfs, until it ends or, with `--keep`, a reboot.
    Limit,
    /// Parameters of the kernel's command line.
    Kernel,
    /// A profile of TuneD.
    Tuned,
    /// A unit of systemd.
    Systemd,
    /// Rules of udev.
    Udev,
}

impl Name {
    /// In the order in which they are shown.
    pub const ALL: [Self; 6] = [
        Self::Hold,
        Self::Limit,
        Self::Kernel,
        Self::Tuned,
        Self::Systemd,
        Self::Udev,
    ];

    /// As it is typed.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Hold => "hold",
            Self::Limit => "limit",
            Self::Kernel => "kernel",
            Self::Tuned => "tuned",
            Self::Systemd => "systemd",
            Self::Udev => "udev",
        }
    }
}

/// The flag for the CPUs if not all are set: ` --cpu 0-3`.
fn cpu_flag(setting: &Setting) -> String {
    match &setting.cpus {
        Some(cpus) => format!(" --cpu {}", cpulist::format(cpus)),
        None => String::new(),
    }
}

/// The line that holds the bound. Where nothing honours a bound, `--latency 0` still prevents sleep: threads
/// keep the CPUs awake.
fn hold_line(setting: &Setting) -> Option<String> {
    let latency = match (setting.bound, &setting.decision.leaves) {
        (Some(Bound { us: 0, .. }), _) | (None, Leaves::NoSleep) => "0".to_owned(),
        (Some(Bound { us, .. }), _) => format!("{us}us"),
        (None, _) => return None,
    };
    let cpus = cpu_flag(setting);
    Some(format!("reveille hold --latency {latency}{cpus}"))
}

fn hold(setting: &Setting) -> Form {
    let does = match setting.cpus {
        Some(_) => "asks the kernel for the bound for these CPUs, while it or a command runs",
        None => "asks the kernel for the bound for all CPUs, while it or a command runs",
    };
    Form {
        name: Name::Hold,
        does: does.to_owned(),
        read: "at once; Ctrl-C ends it. `-- COMMAND` holds it for as long as a command runs"
            .to_owned(),
        file: None,
        text: hold_line(setting).map(line),
        caveat: match &setting.decision.leaves {
            Leaves::NoSleep if setting.bound.is_none() => {
                Some("Where nothing honours a bound, threads keep the CPUs awake".to_owned())
            }
            _ => setting.why_no_bound.clone(),
        },
    }
}

/// The line that disables states by name, or why there is none.
fn limit_line(setting: &Setting, target: &Target) -> Result<String, &'static str> {
    why_not_disabled(setting, target).map_or(Ok(()), Err)?;
    let deepest = match &setting.decision.leaves {
        Leaves::UpTo { state, .. } if is_plain(state) => quoted(state),
        Leaves::UpTo { .. } => return Err("the state's name cannot be written here"),
        _ => target.poll().unwrap_or_default().to_owned(),
    };
    let cpus = cpu_flag(setting);
    Ok(format!("reveille limit --deepest {deepest}{cpus}"))
}

/// Why states cannot be disabled.
fn why_not_disabled(setting: &Setting, target: &Target) -> Option<&'static str> {
    let is_none_left = setting.decision.leaves == Leaves::NoSleep && target.poll().is_none();
    if target.ignores_states_and_bounds() {
        Some("the governor haltpoll ignores disabled states")
    } else if is_none_left {
        Some("no state POLL to keep when all others are disabled")
    } else {
        None
    }
}

fn limit(setting: &Setting, target: &Target) -> Form {
    let text = limit_line(setting, target).map(line);
    Form {
        name: Name::Limit,
        does: "disables the deeper states by name, CPU by CPU, while it or a command runs"
            .to_owned(),
        read: "at once; Ctrl-C ends it. With `--keep` until `reveille restore` or a reboot"
            .to_owned(),
        file: None,
        caveat: text.as_ref().err().map(|why| (*why).to_owned()),
        text: text.ok(),
    }
}

/// Does each reader of a form take that name as it is? A result is a file that anybody may have written: a line break, a
/// quote, or a `%` of systemd would make another command of it.
pub(crate) fn is_plain(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b" _-./+:()".contains(&byte);
    name.bytes().all(plain)
}

fn line(text: String) -> String {
    format!("{text}\n")
}

/// The head of a file and the description of a unit, in ASCII.
fn summary(question: &Question, setting: &Setting) -> String {
    let left = match &setting.decision.leaves {
        Leaves::UpTo { state, .. } if is_plain(state) => format!("idle states up to {state}"),
        Leaves::UpTo { index, .. } => {
            let number = index.map_or_else(String::new, |index| format!(" {index}"));
            format!("idle states up to number{number}")
        }
        _ => "no idle state at all".to_owned(),
    };
    let us = question.budget_us;
    match question.demand {
        // It promises no time.
        _ if us == 0 => format!("CPUs never sleep: {left}"),
        Demand::Percentile(percentile) => {
            format!("CPUs wake within {us} us at {percentile}: {left}")
        }
        Demand::Maximum => format!("CPUs woke within {us} us when measured: {left}"),
    }
}
