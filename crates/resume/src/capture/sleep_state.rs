//! The sleep states of this machine, and what forbids them.

use std::fmt;
use std::str::FromStr;

use nix::unistd::{AccessFlags, Uid, access};
use reveille_kernel::features::{self, Presence};
use reveille_kernel::{Identity, Root};
use serde::{Deserialize, Serialize};

use crate::{Error, Result};

pub(super) const STATE: &str = "sys/power/state";

const MEM_SLEEP: &str = "sys/power/mem_sleep";
const INHIBITORS: &str = "run/systemd/inhibit";

/// How deep the machine is to sleep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Suspend to RAM: only memory is kept alive.
    Mem,
    /// Suspend to idle: devices are suspended, and the CPUs idle as deep as they can.
    Freeze,
    /// Between the two, where the firmware has such a state: the CPUs keep what they hold.
    Standby,
}

impl Mode {
    const ALL: [(Self, &'static str); 3] = [
        (Self::Mem, "mem"),
        (Self::Freeze, "freeze"),
        (Self::Standby, "standby"),
    ];
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::ALL.iter().find(|(mode, _)| mode == self);
        f.write_str(name.map_or("", |(_, name)| name))
    }
}

impl FromStr for Mode {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let mode = Self::ALL.iter().find(|(_, name)| *name == text);
        mode.map(|(mode, _)| *mode)
            .ok_or_else(|| "a mode is mem, freeze or standby".into())
    }
}

/// What is written where.
/// Source: Documentation/admin-guide/pm/sleep-states.rst.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SleepState {
    /// As it was asked for, or what the machine does by default.
    pub mode: Mode,
    /// To /sys/power/state.
    pub state: &'static str,
    /// To /sys/power/mem_sleep before; `None`: it does not matter, or there is none.
    pub mem_sleep: Option<&'static str>,
    /// As the kernel's log names it.
    pub sleep: &'static str,
}

impl SleepState {
    /// The state for that mode; without one, for what this machine does by default.
    pub fn find(root: &Root, mode: Option<Mode>) -> Result<Self> {
        let states = words(root, STATE);
        if states.is_empty() {
            return Err(Error::Cannot(
                "this machine cannot suspend: /sys/power/state offers nothing".into(),
            ));
        }
        let offers = |state: &str| states.iter().any(|offered| offered == state);
        let depths = words(root, MEM_SLEEP);
        let deep_enough = |depth: &str| depths.iter().any(|offered| bare(offered) == depth);
        let mode = mode.unwrap_or_else(|| by_default(&depths, offers("mem")));
        let by = |state, mem_sleep, sleep| {
            Ok(Self {
                mode,
                state,
                mem_sleep,
                sleep,
            })
        };
        match mode {
            Mode::Mem if offers("mem") && deep_enough("deep") => by("mem", Some("deep"), "deep"),
            // Before Linux 4.10 `mem` was that and nothing else.
            Mode::Mem if offers("mem") && depths.is_empty() => by("mem", None, "deep"),
            Mode::Freeze if offers("freeze") => by("freeze", None, "s2idle"),
            Mode::Standby if offers("standby") => by("standby", None, "shallow"),
            Mode::Standby if offers("mem") && deep_enough("shallow") => {
                by("mem", Some("shallow"), "shallow")
            }
            _ => Err(Error::Cannot(lacking(mode, &states, &depths))),
        }
    }
}

/// The words of a file, with the brackets of the chosen one.
fn words(root: &Root, path: &str) -> Vec<String> {
    let text = root.text(path).unwrap_or_default();
    text.split_whitespace().map(str::to_owned).collect()
}

fn bare(word: &str) -> &str {
    word.trim_matches(['[', ']'])
}

fn by_default(depths: &[String], offers_mem: bool) -> Mode {
    match depths.iter().find(|depth| depth.starts_with('[')) {
        Some(chosen) if bare(chosen) == "deep" => Mode::Mem,
        Some(chosen) if bare(chosen) == "shallow" => Mode::Standby,
        None if offers_mem && depths.is_empty() => Mode::Mem,
        _ => Mode::Freeze,
    }
}

fn lacking(mode: Mode, states: &[String], depths: &[String]) -> String {
    let offered = match depths.is_empty() {
        true => states.join(", "),
        false => {
            let depths: Vec<&str> = depths.iter().map(|depth| bare(depth)).collect();
            format!("{}; of mem: {}", states.join(", "), depths.join(", "))
        }
    };
    let instead = match states.iter().any(|state| state == "freeze") && mode != Mode::Freeze {
        true => "; --mode freeze suspends to idle",
        false => "",
    };
    format!("this machine has no {mode}: it offers {offered}{instead}")
}

/// What forbids a suspend whatever the machine can.
pub(super) fn refuse(root: &Root, virtual_machine: bool) -> Result<()> {
    let cannot = |why: String| Err(Error::Cannot(why));
    if root.is_live() {
        if !Uid::effective().is_root() {
            return cannot("suspending needs root; run with sudo".into());
        }
        if let Presence::No(why) = features::outside_of_containers(root) {
            return cannot(format!(
                "a container cannot suspend the machine ({why}); run on the host"
            ));
        }
        let state = root.path(STATE);
        if state.exists() && access(&state, AccessFlags::W_OK).is_err() {
            return cannot(format!("{}: cannot be written", state.display()));
        }
    }
    if let Some(hypervisor) = Identity::read(root).hypervisor
        && !virtual_machine
    {
        return cannot(format!(
            "this is a virtual machine ({hypervisor}), and whether its host would wake it is \
             unknown from inside; --virtual-machine tries"
        ));
    }
    match inhibitor(root) {
        Some(words) => cannot(words),
        None => Ok(()),
    }
}

/// A program that has asked systemd-logind that the machine does not sleep. logind would heed it;
/// the kernel, asked directly, would not.
/// Source: the files that systemd-logind keeps; <https://systemd.io/INHIBITOR_LOCKS>.
fn inhibitor(root: &Root) -> Option<String> {
    // `1.ref` is the pipe that whoever asked for `1` keeps open: reading it would wait for the end of that.
    let names = root.names(INHIBITORS)?.into_iter();
    let mut names = names.filter(|name| !name.ends_with(".ref"));
    names.find_map(|name| {
        let text = root.text(&format!("{INHIBITORS}/{name}"))?;
        let value = |key: &str| {
            let found = text.lines().find_map(|line| line.strip_prefix(key));
            found.map(|value| value.replace(char::is_control, " "))
        };
        let forbids =
            value("WHAT=")?.split(':').any(|what| what == "sleep") && value("MODE=")? == "block";
        let known = |key| value(key).unwrap_or_else(|| "?".into());
        forbids.then(|| {
            format!(
                "{} forbids this machine to sleep ({}); end it first, `systemd-inhibit` lists such \
                 programs",
                known("WHO="),
                known("WHY=")
            )
        })
    })
}
