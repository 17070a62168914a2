//! Captures of made-up machines: a folder in place of the kernel, whose files accept writes and do
//! nothing. The lab tests real kernels.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};

use nix::sys::stat::Mode as FileMode;
use nix::unistd::mkfifo;

use super::*;

/// A machine that supports every feature.
struct Machine {
    folder: tempfile::TempDir,
    root: Root,
}

impl Machine {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path().join("root"));
        let machine = Self { folder, root };
        for (path, text) in [
            (STATE, "freeze mem\n"),
            ("sys/power/mem_sleep", "[s2idle] deep\n"),
            (WAKEUP_COUNT, "7\n"),
            ("sys/power/pm_print_times", "0\n"),
            ("sys/power/pm_debug_messages", "0\n"),
            ("sys/power/suspend_stats/success", "3\n"),
            ("sys/class/rtc/rtc0/since_epoch", "1000000\n"),
            ("sys/class/rtc/rtc0/wakealarm", "\n"),
            ("sys/class/rtc/rtc0/device/power/wakeup", "enabled\n"),
            ("proc/sys/kernel/printk", "7\t4\t1\t7\n"),
            ("dev/kmsg", ""),
        ] {
            machine.write(path, text);
        }
        machine
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.root.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn remove(&self, path: &str) {
        let path = self.root.path(path);
        match path.is_dir() {
            true => fs::remove_dir_all(path).unwrap(),
            false => fs::remove_file(path).unwrap(),
        }
    }

    fn reads(&self, path: &str) -> String {
        self.root.text(path).unwrap()
    }

    fn options(&self) -> Options {
        Options {
            mode: None,
            wake_after: Duration::from_secs(5),
            repeat: 1,
            folder: self.folder.path().join("capture"),
            naming: Naming::ByUser,
            journal_folder: self.folder.path().join("journals"),
            virtual_machine: false,
        }
    }

    fn refusal(&self, mode: Option<Mode>) -> String {
        let options = Options {
            mode,
            ..self.options()
        };
        match prepare(&self.root, &options) {
            Err(Error::Cannot(why)) => why,
            other => panic!("not refused as a machine that cannot: {other:?}"),
        }
    }

    fn state(&self, mode: Option<Mode>) -> SleepState {
        SleepState::find(&self.root, mode).unwrap()
    }
}

#[test]
fn the_kernels_offer_determines_the_state_and_variant_of_a_mode() {
    let machine = Machine::new();
    let deep = machine.state(Some(Mode::Mem));
    assert_eq!((deep.state, deep.mem_sleep), ("mem", Some("deep")));
    let idle = machine.state(Some(Mode::Freeze));
    assert_eq!((idle.state, idle.mem_sleep), ("freeze", None));
    // The default, as `mem` would be here: s2idle.
    assert_eq!(machine.state(None), idle);
    machine.write("sys/power/mem_sleep", "s2idle [deep]\n");
    assert_eq!(machine.state(None), deep);

    machine.write("sys/power/mem_sleep", "s2idle [shallow] deep\n");
    let shallow = machine.state(Some(Mode::Standby));
    assert_eq!((shallow.state, shallow.mem_sleep), ("mem", Some("shallow")));
    assert_eq!(machine.state(None), shallow);
    machine.write(STATE, "freeze standby mem\n");
    assert_eq!(machine.state(Some(Mode::Standby)).state, "standby");

    machine.remove("sys/power/mem_sleep");
    assert_eq!(machine.state(None).state, "mem");
    assert_eq!(machine.state(None).mem_sleep, None);
}

#[test]
fn an_unavailable_mode_is_refused_with_the_available_ones() {
    let machine = Machine::new();
    let why = machine.refusal(Some(Mode::Standby));
    assert!(
        why.contains("no standby") && why.contains("freeze, mem; of mem: s2idle, deep"),
        "{why}"
    );
    machine.write("sys/power/mem_sleep", "[s2idle]\n");
    let why = machine.refusal(Some(Mode::Mem));
    assert!(
        why.contains("no mem") && why.contains("--mode freeze"),
        "{why}"
    );
    machine.write(STATE, "\n");
    assert!(machine.refusal(None).contains("cannot suspend"));
}

#[test]
fn an_alarm_that_would_not_wake_the_machine_is_refused_with_the_reason() {
    let machine = Machine::new();
    machine.write("sys/class/rtc/rtc0/device/power/wakeup", "disabled\n");
    let why = machine.refusal(None);
    assert!(
        why.contains("may not wake") && why.contains("echo enabled"),
        "{why}"
    );
    // Another clock's alarm may.
    for (file, text) in [
        ("since_epoch", "9"),
        ("wakealarm", ""),
        ("device/power/wakeup", "enabled"),
    ] {
        machine.write(&format!("sys/class/rtc/rtc1/{file}"), text);
    }
    let (_, alarm) = prepare(&machine.root, &machine.options()).unwrap();
    assert_eq!(alarm.name, "rtc1");
    machine.remove("sys/class/rtc/rtc1");

    machine.remove("sys/class/rtc/rtc0/wakealarm");
    assert!(machine.refusal(None).contains("none has a wakealarm"));
    machine.remove("sys/class/rtc");
    assert!(machine.refusal(None).contains("no real-time clock"));
}

#[test]
fn another_programs_alarm_is_kept_unless_expired() {
    let machine = Machine::new();
    machine.write("sys/class/rtc/rtc0/wakealarm", "1000300\n");
    let why = machine.refusal(None);
    assert!(
        why.contains("rtc0 has an alarm already") && why.contains("in 300 s"),
        "{why}"
    );
    assert_eq!(machine.reads("sys/class/rtc/rtc0/wakealarm"), "1000300");
    machine.write("sys/class/rtc/rtc0/wakealarm", "999000\n");
    assert!(prepare(&machine.root, &machine.options()).is_ok());
}

#[test]
fn virtual_machines_and_sleep_inhibitors_are_respected() {
    let machine = Machine::new();
    machine.write(
        "run/systemd/inhibit/1",
        "WHAT=shutdown:sleep\nMODE=delay\nWHO=NetworkManager\n",
    );
    machine.write(
        "run/systemd/inhibit/2",
        "WHAT=handle-lid-switch\nMODE=block\nWHO=Desktop\n",
    );
    // A pipe; nobody is to read it.
    machine.write("run/systemd/inhibit/2.ref", "WHAT=sleep\nMODE=block\n");
    assert!(prepare(&machine.root, &machine.options()).is_ok());
    machine.write(
        "run/systemd/inhibit/3",
        "WHAT=idle:sleep\nMODE=block\nWHO=Backup\nWHY=A backup runs\n",
    );
    let why = machine.refusal(None);
    assert!(
        why.contains("Backup forbids") && why.contains("A backup runs"),
        "{why}"
    );
    machine.remove("run/systemd/inhibit/3");

    machine.write("sys/hypervisor/type", "xen\n");
    assert!(machine.refusal(None).contains("virtual machine (Xen)"));
    let options = Options {
        virtual_machine: true,
        ..machine.options()
    };
    assert!(prepare(&machine.root, &options).is_ok());
}

#[test]
fn times_outside_the_alarms_range_are_wrong_use() {
    let machine = Machine::new();
    for wake_after in [Duration::ZERO, Duration::from_millis(1500)] {
        let options = Options {
            wake_after,
            ..machine.options()
        };
        let refused = prepare(&machine.root, &options);
        assert!(matches!(refused, Err(Error::Usage(_))), "{refused:?}");
    }
}

/// The settings at the moment of the suspend, which are restored in the end.
#[test]
fn during_a_suspend_the_kernel_logs_more_and_afterwards_settings_are_restored() {
    let machine = Machine::new();
    let options = Options {
        mode: Some(Mode::Mem),
        ..machine.options()
    };
    let mut meanwhile = Vec::new();
    let never = AtomicBool::new(false);
    let record = run(&machine.root, &options, &never, &mut |progress| {
        if let Progress::Suspending { .. } = progress {
            for path in [
                "sys/power/pm_print_times",
                "sys/power/pm_debug_messages",
                "sys/power/mem_sleep",
                "proc/sys/kernel/printk",
            ] {
                meanwhile.push(machine.reads(path));
            }
        }
    })
    .unwrap();
    assert_eq!(meanwhile, ["1", "1", "deep", "5\t4\t1\t7"]);
    assert_eq!(machine.reads(STATE), "mem");
    for (path, before) in [
        ("sys/power/pm_print_times", "0"),
        ("sys/power/pm_debug_messages", "0"),
        ("sys/power/mem_sleep", "s2idle"),
        ("proc/sys/kernel/printk", "7\t4\t1\t7"),
        // Unset, as in the kernel's file.
        ("sys/class/rtc/rtc0/wakealarm", "0"),
    ] {
        assert_eq!(machine.reads(path), before, "{path}");
    }

    assert_eq!(record.cycles.len(), 1);
    assert_eq!(record.cycles[0].error, None);
    // This clock stands still.
    assert_eq!(record.cycles[0].alarm_rang, Some(false));
    assert_eq!(record.suspend_stats_before["success"], "3");
    assert!(record.notes[0].contains("no trace"), "{:?}", record.notes);
    let kept = fs::read(options.folder.join(RECORD)).unwrap();
    assert_eq!(serde_json::from_slice::<Record>(&kept).unwrap(), record);
    for name in [DMESG, TRACE] {
        assert!(options.folder.join(name).is_file(), "{name}");
    }
    // And it is not overwritten.
    assert!(matches!(
        prepare(&machine.root, &options),
        Err(Error::Usage(_))
    ));
}

#[test]
fn an_existing_file_with_an_outputs_name_is_kept_and_not_written_through() {
    type Plant = fn(&Path, &Path);
    let kinds: [(&str, Plant); 5] = [
        ("a link", |path, outside| {
            fs::write(outside, "theirs").unwrap();
            symlink(outside, path).unwrap();
        }),
        ("a dangling link", |path, outside| {
            symlink(outside, path).unwrap()
        }),
        ("a hard link", |path, outside| {
            fs::write(outside, "theirs").unwrap();
            fs::hard_link(outside, path).unwrap();
        }),
        ("a FIFO", |path, _| mkfifo(path, FileMode::S_IRWXU).unwrap()),
        ("a folder", |path, _| fs::create_dir(path).unwrap()),
    ];
    for name in [DMESG, TRACE, RECORD] {
        for (kind, plant) in kinds {
            let machine = Machine::new();
            let folder = machine.options().folder;
            let outside = machine.folder.path().join("outside");
            fs::create_dir(&folder).unwrap();
            plant(&folder.join(name), &outside);
            let state = || {
                let names = fs::read_dir(&folder).unwrap().map(|entry| {
                    let entry = entry.unwrap();
                    (entry.file_name(), entry.metadata().unwrap().ino())
                });
                (names.collect::<Vec<_>>(), fs::read(&outside).ok())
            };
            let before = state();
            let never = AtomicBool::new(false);
            let done = run(&machine.root, &machine.options(), &never, &mut |_| ());
            assert!(done.is_err(), "{name} is {kind}");
            assert_eq!(state(), before, "{name} is {kind}");
            // The suspend is not wasted.
            assert_eq!(machine.reads(STATE), "freeze mem", "{name} is {kind}");
        }
    }
}

#[test]
fn a_suspend_that_the_kernel_refuses_is_a_cycle_with_its_reason() {
    let machine = Machine::new();
    let never = AtomicBool::new(false);
    let record = run(&machine.root, &machine.options(), &never, &mut |progress| {
        if let Progress::Suspending { .. } = progress {
            machine.remove(STATE);
        }
    })
    .unwrap();
    assert_eq!(record.cycles.len(), 1);
    assert!(
        record.cycles[0]
            .error
            .as_ref()
            .unwrap()
            .contains("No such file")
    );
    assert_eq!(machine.reads("sys/power/pm_print_times"), "0");
}

#[test]
fn a_signal_ends_the_capture_after_the_running_cycle() {
    let machine = Machine::new();
    let options = Options {
        repeat: 5,
        ..machine.options()
    };
    let stop = AtomicBool::new(false);
    let record = run(&machine.root, &options, &stop, &mut |progress| {
        if let Progress::Suspending { .. } = progress {
            stop.store(true, Ordering::Relaxed);
        }
    })
    .unwrap();
    assert_eq!(record.cycles.len(), 1);
    assert!(record.interrupted);
}

#[test]
fn without_print_times_and_without_a_tracer_a_capture_is_refused() {
    let machine = Machine::new();
    machine.remove("sys/power/pm_print_times");
    let never = AtomicBool::new(false);
    let refused = run(&machine.root, &machine.options(), &never, &mut |_| ());
    assert!(matches!(&refused, Err(Error::Cannot(why)) if why.contains("CONFIG_PM_SLEEP_DEBUG")));
    assert_eq!(machine.reads("sys/power/pm_debug_messages"), "0");
    assert_eq!(machine.reads(STATE), "freeze mem");
}

#[test]
fn doctor_lists_what_a_capture_has_and_lacks() {
    let machine = Machine::new();
    let presences = || features(&machine.root).into_iter().map(|one| one.presence);
    let words: Vec<String> = presences().map(|one| one.words().to_owned()).collect();
    assert_eq!(words[..2], ["mem (deep), freeze (s2idle)", "rtc0"]);
    // This machine has no tracer.
    let there: Vec<bool> = presences().map(|one| one.is_yes()).collect();
    assert_eq!(there, [true, true, true, false]);
    machine.remove(STATE);
    machine.remove("sys/class/rtc");
    machine.remove("sys/power/pm_print_times");
    assert!(presences().all(|one| !one.is_yes()));
}

#[test]
fn firmwares_times_are_those_of_its_last_resume() {
    let machine = Machine::new();
    assert_eq!(record::firmware(&machine.root), None);
    for (name, text) in [
        ("suspend/suspend_start_ns", "5000000\n"),
        ("suspend/suspend_end_ns", "7220000\n"),
        ("resume/resume_prev_ns", "5589649000\n"),
        ("resume/resume_count", "4\n"),
    ] {
        machine.write(&format!("sys/firmware/acpi/fpdt/{name}"), text);
    }
    let (count, firmware) = record::firmware(&machine.root).unwrap();
    assert_eq!(
        (count, firmware.suspend_us, firmware.resume_us),
        (4, 2220, 5_589_649)
    );
    machine.remove("sys/firmware/acpi/fpdt/suspend");
    let (_, firmware) = record::firmware(&machine.root).unwrap();
    assert_eq!((firmware.suspend_us, firmware.resume_us), (0, 5_589_649));
}
