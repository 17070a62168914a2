//! Idle settings on the kernel's command line, and what the kernel does without cpuidle.
//!
//! Sources: Documentation/admin-guide/kernel-parameters.txt and admin-guide/pm/{cpuidle,
//! intel_idle}.rst of the kernel.

use std::fmt;

use serde::Serialize;

use crate::{Idle, Root, cpuinfo};

/// A setting of the command line that affects idling.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Setting {
    /// The parameter as the kernel names it, with `_` for `-`.
    pub name: String,
    /// `None` for a parameter without a value.
    pub value: Option<String>,
    /// What it does, in short.
    pub meaning: String,
}

/// As it is on the command line.
impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        self.value
            .iter()
            .try_for_each(|value| write!(f, "={value}"))
    }
}

/// The idle settings of a command line, in its order. Of one that is there several times only the last, which the
/// kernel uses.
pub fn settings(command_line: &str) -> Vec<Setting> {
    let mut settings = Vec::new();
    for word in words(command_line) {
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value.trim_matches('"'))),
            None => (word.as_str(), None),
        };
        let name = name.replace('-', "_");
        let meaning = meaning(&name, value);
        // The kernel ignores a value of `idle` that it does not know.
        if meaning.is_some() || name != "idle" {
            settings.retain(|earlier: &Setting| earlier.name != name);
        }
        settings.extend(meaning.map(|meaning| Setting {
            name,
            value: value.map(str::to_owned),
            meaning,
        }));
    }
    settings
}

/// The command line's words; quotes keep spaces together, and what follows `--` is for init.
fn words(command_line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quoted = false;
    for c in command_line.chars() {
        match c {
            '"' => {
                quoted = !quoted;
                words.last_mut().expect("never empty").push(c);
            }
            c if c.is_whitespace() && !quoted => words.push(String::new()),
            c => words.last_mut().expect("never empty").push(c),
        }
    }
    words.retain(|word| !word.is_empty());
    words.into_iter().take_while(|word| word != "--").collect()
}

fn meaning(name: &str, value: Option<&str>) -> Option<String> {
    let text = match (name, value) {
        ("intel_idle.max_cstate", Some("0")) => {
            "intel_idle is off; acpi_idle takes its place where firmware offers states".to_owned()
        }
        ("intel_idle.max_cstate", Some(n)) => format!("intel_idle has no states beyond index {n}"),
        // acpi_idle takes 0 for 1.
        ("processor.max_cstate", Some("0" | "1")) => {
            "acpi_idle has no state beyond index 1".to_owned()
        }
        ("processor.max_cstate", Some(n)) => format!("acpi_idle has no states beyond index {n}"),
        ("processor.nocst", _) => "the states of ACPI _CST are ignored".to_owned(),
        ("intel_idle.no_acpi", _) => "intel_idle ignores the states that ACPI offers".to_owned(),
        ("intel_idle.use_acpi", _) => {
            "intel_idle enables only those states that ACPI offers".to_owned()
        }
        ("intel_idle.no_native", _) => {
            "intel_idle uses ACPI's states, not its own table".to_owned()
        }
        ("intel_idle.states_off", Some(mask)) => {
            format!("intel_idle's states of mask {mask} are off unless enabled later")
        }
        ("intel_idle.preferred_cstates", Some(mask)) => {
            format!("intel_idle prefers the states of mask {mask} where two exclude each other")
        }
        ("intel_idle.table", Some(_)) => {
            "intel_idle's latencies and residencies are the command line's".to_owned()
        }
        ("cpuidle.off", Some(off)) if !matches!(off, "0" | "n" | "N") => {
            "cpuidle is off: the kernel's default idle routine is used".to_owned()
        }
        ("cpuidle.governor", Some(governor)) => format!("the governor {governor} is chosen"),
        ("cpuidle_haltpoll.force", _) => "haltpoll loads even where no hypervisor asks".to_owned(),
        ("idle", Some("poll")) => "idle CPUs poll: no idle state is ever entered".to_owned(),
        ("idle", Some("halt")) => {
            "idle CPUs halt (HLT, C1); intel_idle and acpi_idle are off".to_owned()
        }
        ("idle", Some("nomwait")) => {
            "idle states are not entered with MWAIT; intel_idle is off".to_owned()
        }
        ("nohz", Some(value)) if is_off(value) => {
            "idle CPUs get the tick, so that deep states are rarely entered".to_owned()
        }
        ("highres", Some(value)) if is_off(value) => {
            "timers expire at the tick only: what waits for one is late by up to a tick".to_owned()
        }
        ("nohlt", None) => "idle CPUs poll (not on x86): no idle state is entered".to_owned(),
        ("hlt", None) => "idle CPUs may halt (the default)".to_owned(),
        _ => return None,
    };
    Some(text)
}

/// As the kernel reads a switch (kstrtobool).
fn is_off(value: &str) -> bool {
    let value = value.to_ascii_lowercase();
    value.starts_with(['0', 'n', 'f']) || value.starts_with("of")
}

/// What an idle CPU does without an idle driver, and the likely reason that there is no driver.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WithoutDriver {
    /// Idle CPUs poll: nothing sleeps.
    pub polls: bool,
    /// What an idle CPU does instead, in a sentence.
    pub does: String,
    /// Why there is probably no driver, in words that follow a colon.
    pub reason: String,
}

impl WithoutDriver {
    /// Judges a machine without an idle driver; `None` where it has one.
    pub fn of(idle: &Idle, root: &Root) -> Option<Self> {
        if idle.driver.is_some() {
            return None;
        }
        let command_line = root.text("proc/cmdline").unwrap_or_default();
        let cpuinfo = root.text("proc/cpuinfo").unwrap_or_default();
        let processors = cpuinfo::parse(&cpuinfo);
        let has_cpuidle = root.path("sys/devices/system/cpu/cpuidle").is_dir();
        // Of Xen's domains the one that controls the machine.
        let capabilities = root.text("proc/xen/capabilities").unwrap_or_default();
        if capabilities.contains("control_d") {
            return Some(Self {
                polls: false,
                does: "Idle CPUs are handed to Xen, which has the idle states.".to_owned(),
                reason: "this is Xen's dom0; `xenpm get-cpuidle-states` shows the states"
                    .to_owned(),
            });
        }
        let first = processors.first();
        Some(Self::judge(
            &settings(&command_line),
            first,
            has_cpuidle,
            idle,
        ))
    }

    fn judge(
        settings: &[Setting],
        processor: Option<&cpuinfo::Processor>,
        has_cpuidle: bool,
        idle: &Idle,
    ) -> Self {
        // The kernel takes the last of several.
        let last = |name: &str| settings.iter().rev().find(|setting| setting.name == name);
        let value = |name: &str| last(name)?.value.as_deref();
        let flag = |flag: &str| processor.is_some_and(|processor| processor.has_flag(flag));
        let is_x86 = processor.is_some_and(|processor| processor.get("flags").is_some());

        let polls = (last("nohlt").is_some() && !is_x86) || value("idle") == Some("poll");
        let does = if polls {
            "Idle CPUs poll and never sleep."
        } else if is_x86 && value("idle") != Some("halt") && flag("monitor") {
            "Idle CPUs wait in C1 (MWAIT, or HLT), the kernel's own idle routine."
        } else if is_x86 {
            "Idle CPUs halt (HLT, C1), the kernel's own idle routine."
        } else {
            "Idle CPUs wait for an interrupt (such as WFI), the kernel's own idle routine."
        };
        let blamed = ["cpuidle.off", "idle", "nohlt", "intel_idle.max_cstate"]
            .iter()
            .find_map(|name| last(name))
            .filter(|setting| setting.name != "nohlt" || !is_x86);
        let reason = if let Some(setting) = blamed {
            format!("{setting} on the kernel command line")
        } else if !has_cpuidle {
            "this kernel is built without cpuidle, or the folder cpu/cpuidle is not shown here"
                .to_owned()
        } else if flag("hypervisor") && !flag("monitor") {
            let haltpoll = match idle.available_governors.contains(&"haltpoll".to_owned()) {
                true => {
                    "; the driver haltpoll loads where the hypervisor dedicates CPUs to it, or \
                         with cpuidle_haltpoll.force=1"
                }
                false => "",
            };
            format!(
                "a virtual machine: its hypervisor offers neither MWAIT nor ACPI idle \
                 states{haltpoll}"
            )
        } else if is_x86 {
            "no driver supports this CPU and firmware offers no ACPI idle states (see \"C-states\" in \
             the firmware's setup), or the driver's module is not loaded"
                .to_owned()
        } else {
            "firmware or device tree describe no idle states, or the driver is not built in"
                .to_owned()
        };
        Self {
            polls,
            does: does.to_owned(),
            reason,
        }
    }
}

#[cfg(test)]
mod tests {
    use reveille_snapshot::snapshot;

    use super::*;

    fn judge(command_line: &str, cpuinfo: &str, governors: &[&str]) -> WithoutDriver {
        let idle = Idle {
            driver: None,
            governor: None,
            available_governors: governors.iter().map(|&name| name.to_owned()).collect(),
            cpus: vec![],
            isolated: vec![],
            nohz_full: vec![],
        };
        let processors = cpuinfo::parse(cpuinfo);
        WithoutDriver::judge(&settings(command_line), processors.first(), true, &idle)
    }

    #[test]
    fn idle_parameters_are_recognized_among_others_and_init_keeps_its_own() {
        let found =
            settings("ro quiet intel_idle.max-cstate=1 x=\"a idle=poll\" idle=halt -- nohlt");
        let names: Vec<(&str, Option<&str>)> = found
            .iter()
            .map(|s| (s.name.as_str(), s.value.as_deref()))
            .collect();
        assert_eq!(
            names,
            [("intel_idle.max_cstate", Some("1")), ("idle", Some("halt"))]
        );
        assert!(found[0].meaning.contains("index 1"));
        assert!(settings("BOOT_IMAGE=/vmlinuz root=/dev/sda1 idle=fast cpuidle.off=0").is_empty());
    }

    #[test]
    fn a_command_line_parameter_explains_a_missing_driver() {
        let x86 = "processor: 0\nflags: monitor\n";
        let off = judge("cpuidle.off=1", x86, &[]);
        assert!(
            off.reason.contains("cpuidle.off=1") && off.does.contains("MWAIT"),
            "{off:?}"
        );
        let poll = judge("idle=halt idle=poll", x86, &[]);
        assert!(
            poll.reason.contains("idle=poll") && poll.does.contains("poll"),
            "{poll:?}"
        );
        assert!(judge("idle=halt", x86, &[]).does.contains("halt"));
    }

    #[test]
    fn otherwise_a_virtual_machine_without_mwait_explains_it() {
        let guest = "processor: 0\nflags: hypervisor\n";
        let without = judge("quiet", guest, &["menu", "haltpoll"]);
        assert!(without.does.contains("HLT") && without.reason.contains("cpuidle_haltpoll.force"));
        assert!(!judge("quiet", guest, &["menu"]).reason.contains("haltpoll"));
        let arm = judge("", "processor: 0\nFeatures: fp\n", &[]);
        assert!(arm.does.contains("WFI") && arm.reason.contains("device tree"));
    }

    #[test]
    fn each_idle_parameter_has_its_meaning() {
        let words = [
            "intel_idle.max_cstate=0",
            "intel_idle.max_cstate=2",
            "processor.max_cstate=0",
            "processor.max_cstate=1",
            "processor.max_cstate=3",
            "processor.nocst",
            "intel_idle.no_acpi=1",
            "intel_idle.use_acpi=1",
            "intel_idle.no_native",
            "intel_idle.states_off=6",
            "intel_idle.preferred_cstates=4",
            "intel_idle.table=C1:1:1",
            "cpuidle.off=1",
            "cpuidle.governor=teo",
            "cpuidle_haltpoll.force=1",
            "idle=poll",
            "idle=halt",
            "idle=nomwait",
            "nohz=off",
            "highres=off",
            "nohlt",
            "hlt",
        ];
        let said = words.map(|word| {
            let [
                Setting {
                    name,
                    value,
                    meaning,
                },
            ] = &settings(word)[..]
            else {
                panic!("{word}: {:?}", settings(word));
            };
            assert_eq!(
                word.split_once('=').unzip(),
                (value.is_some().then_some(name.as_str()), value.as_deref())
            );
            (word, meaning.clone())
        });
        snapshot!("boot", said);
        for word in [
            "cpuidle.off=n",
            "cpuidle.off=N",
            "cpuidle.off",
            "nohlt=1",
            "nohz=on",
            "nohz=1",
            "highres=yes",
            "nohz",
        ] {
            assert_eq!(settings(word), [], "{word}");
        }
        for word in ["nohz=0", "nohz=N", "nohz=false", "highres=n"] {
            assert_eq!(settings(word).len(), 1, "{word}");
        }
    }

    #[test]
    fn of_a_parameter_that_is_there_twice_the_last_counts() {
        let found =
            settings("intel_idle.max_cstate=1 idle=poll quiet intel_idle.max-cstate=4 idle=fast");
        let words: Vec<String> = found.iter().map(Setting::to_string).collect();
        assert_eq!(words, ["idle=poll", "intel_idle.max_cstate=4"]);
        assert_eq!(settings("cpuidle.off=1 cpuidle.off=0"), []);
    }

    #[test]
    fn nohlt_applies_to_other_architectures_than_x86() {
        let arm = judge("nohlt", "processor: 0\nFeatures: fp\n", &[]);
        let x86 = judge("nohlt", "processor: 0\nflags: monitor\n", &[]);
        assert_eq!((arm.polls, x86.polls), (true, false));
        let said = [("arm", arm), ("x86", x86)];
        snapshot!(
            "boot",
            said.map(|(machine, without)| (machine, format!("{without:#?}")))
        );
    }

    #[test]
    fn a_machine_without_a_driver_is_explained_from_its_files() {
        let folder = tempfile::tempdir().unwrap();
        let put = |file: &str, text: &str| {
            let path = folder.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        put("sys/devices/system/cpu/present", "0\n");
        put("proc/cmdline", "quiet\n");
        put("proc/cpuinfo", "processor: 0\nflags: fpu\n");
        let root = Root::at(folder.path());
        let of = || WithoutDriver::of(&Idle::read(&root).unwrap(), &root);
        let no_folder = of().unwrap();
        put("sys/devices/system/cpu/cpuidle/current_driver", "none\n");
        let no_driver = of().unwrap();
        put("proc/xen/capabilities", "\n");
        assert_eq!(of().unwrap(), no_driver);
        put("proc/xen/capabilities", "control_d\n");
        let said = [
            ("no cpuidle", no_folder),
            ("no driver", no_driver),
            ("Xen's dom0", of().unwrap()),
        ];
        snapshot!(
            "boot",
            said.map(|(case, without)| (case, format!("{without:#?}")))
        );
        put(
            "sys/devices/system/cpu/cpuidle/current_driver",
            "acpi_idle\n",
        );
        assert_eq!(of(), None);
    }
}
