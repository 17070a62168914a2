//! The setting on the kernel's command line.

use super::{Form, Name, line};
use crate::{Leaves, Setting, Target};

pub(super) fn form(setting: &Setting, target: &Target) -> Form {
    let (text, caveat) = match parameter(setting, target) {
        Ok((text, caveat)) => (Some(line(text)), caveat),
        Err(why) => (None, Some(why)),
    };
    let caveat = match (&setting.cpus, caveat) {
        (Some(_), Some(caveat)) => Some(format!("{caveat}. {FOR_ALL}")),
        (Some(_), None) => Some(FOR_ALL.to_owned()),
        (None, caveat) => caveat,
    };
    Form {
        name: Name::Kernel,
        does: "keeps the deeper states from ever being there, on all CPUs".to_owned(),
        read: "at boot: add it to the boot loader's kernel line (GRUB_CMDLINE_LINUX in \
               /etc/default/grub, then update-grub) and reboot; it cannot be changed later"
            .to_owned(),
        file: None,
        text,
        caveat,
    }
}

/// Beside a setting for CPUs of one kind.
pub(crate) const FOR_ALL: &str =
    "It holds for all CPUs, also for those of another kind, which were not measured";

/// The parameter and a caveat, or why there is none.
fn parameter(setting: &Setting, target: &Target) -> Result<(String, Option<String>), String> {
    let Leaves::UpTo { state, index } = &setting.decision.leaves else {
        return no_sleep(target);
    };
    let driver = target.driver.as_deref();
    match (driver, index) {
        (Some("intel_idle"), Some(index)) => Ok((
            format!("intel_idle.max_cstate={index}"),
            Some(halt_too(*index, INTEL_NUMBERS)),
        )),
        // acpi_idle names its states by the number that the parameter compares.
        (Some("acpi_idle"), Some(index)) => {
            let number = state
                .strip_prefix('C')
                .and_then(|number| number.parse().ok());
            Ok((
                format!("processor.max_cstate={}", number.unwrap_or(*index)),
                Some(halt_too(*index, ACPI_NUMBERS)),
            ))
        }
        (Some(_), Some(0)) if target.is_x86() == Some(false) => Ok((
            "cpuidle.off=1".to_owned(),
            Some(format!(
                "cpuidle is then off altogether, and what is left is the kernel's own idle routine, \
                 which {state} is on most machines"
            )),
        )),
        (Some(driver), _) => Err(format!(
            "the driver {driver} has no parameter for the depth; use another form"
        )),
        (None, _) if target.is_known => Err("no idle driver to limit".to_owned()),
        (None, _) => Err("the idle driver is unknown; give the machine with --root".to_owned()),
    }
}

const INTEL_NUMBERS: &str = "The number is that of the folder cpuidle/stateN; POLL is 0. On CPUs for \
    which intel_idle omits an entry of its own table (C1 or C1E on hybrid ones) it may leave \
    one state fewer, never one more. 0 would not stop sleep: acpi_idle would take over";

const ACPI_NUMBERS: &str = "The number is that in the state's name. It has no effect if intel_idle is \
    the driver";

/// Where only the first state is left, `idle=halt` comes near.
fn halt_too(index: u32, numbers: &str) -> String {
    match index {
        1 => format!(
            "{numbers}. idle=halt comes near, but waits by HLT and not by MWAIT, which was not measured"
        ),
        _ => numbers.to_owned(),
    }
}

fn no_sleep(target: &Target) -> Result<(String, Option<String>), String> {
    let caveat = "Idle CPUs then burn full power, take turbo from the busy ones, and slow their \
                hyperthreads down";
    match target.is_x86() {
        Some(true) => Ok(("idle=poll".to_owned(), Some(caveat.to_owned()))),
        Some(false) => Ok(("nohlt".to_owned(), Some(caveat.to_owned()))),
        None => {
            Err("architecture and idle driver are unknown; give the machine with --root".to_owned())
        }
    }
}
