use super::*;

fn event(text: &str) -> Event<'_> {
    match Messages::default().parse(text.as_bytes()) {
        Parsed::Event(event) => event,
        other => panic!("{text}: {other:?}"),
    }
}

fn stage_end(kind: StageKind, us: Us, aborted: bool) -> Event<'static> {
    Event::StageEnd {
        kind,
        says_us: Some(us),
        aborted,
    }
}

/// `calling` and `returned` as each generation of kernels prints them.
#[test]
fn a_call_and_its_return_are_read_in_every_format() {
    let call = Call {
        device: b"usb1",
        driver: Some(b"usb"),
        parent: Some(b"0000:00:14.0"),
        function: Some(b"usb_dev_resume"),
        worker: Some(4321),
        stage: None,
    };
    for text in [
        // 5.2 and later, with and without offsets, from a module, of a vendor's kernel.
        "usb usb1: PM: calling usb_dev_resume+0x0/0x20 @ 4321, parent: 0000:00:14.0",
        "usb usb1: PM: calling usb_dev_resume+0x0/0x20 [usbcore] @ 4321, parent: 0000:00:14.0",
        "usb usb1: PM: calling usb_dev_resume [usbcore] @ 4321, parent: 0000:00:14.0",
        "[pid:4321,cpu7,bash]usb usb1: PM: calling usb_dev_resume+0x0/0x20 @ 4321, parent: 0000:00:14.0",
        // 4.19 to 5.1
        "usb usb1: calling usb_dev_resume+0x0/0x20 @ 4321, parent: 0000:00:14.0",
    ] {
        assert_eq!(event(text), Event::Call(call.clone()), "{text}");
    }
    // Up to 4.18
    let old = Call {
        driver: None,
        function: None,
        ..call.clone()
    };
    for text in [
        "calling  usb1+ @ 4321, parent: 0000:00:14.0",
        "calling usb1+ @ 4321, parent: 0000:00:14.0",
    ] {
        assert_eq!(event(text), Event::Call(old.clone()), "{text}");
    }
    let ret = Return {
        device: b"usb1",
        driver: Some(b"usb"),
        function: Some(b"usb_dev_resume"),
        worker: None,
        result: Some(-110),
        says_us: Some(1234),
        of_1024_ns: false,
    };
    for text in [
        "usb usb1: PM: usb_dev_resume+0x0/0x20 returned -110 after 1234 usecs",
        "usb usb1: PM: usb_dev_resume+0x0/0x20 [usbcore] returned -110 after 1234 usecs",
        "usb usb1: PM: usb_dev_resume returned -110 after 1234 usecs",
        "usb usb1: usb_dev_resume+0x0/0x20 returned -110 after 1234 usecs",
    ] {
        assert_eq!(event(text), Event::Return(ret.clone()), "{text}");
    }
    let old = Return {
        driver: None,
        function: None,
        of_1024_ns: true,
        ..ret
    };
    for text in [
        "call usb1+ returned -110 after 1234 usecs",
        "call usb1+ returned -110 after 1234 usec",
    ] {
        assert_eq!(event(text), Event::Return(old.clone()), "{text}");
    }
}

#[test]
fn drivers_may_be_missing_or_contain_spaces_and_parents_may_be_missing() {
    for (text, driver, device, parent) in [
        (
            " ata1: PM: calling ata_port_pm_resume [libata] @ 1, parent: 0000:00:1f.2",
            None,
            "ata1",
            Some("0000:00:1f.2"),
        ),
        (
            "HDA Intel 0000:00:1b.0: PM: calling pci_pm_resume+0x0/0x90 @ 1, parent: pci0000:00",
            Some("HDA Intel"),
            "0000:00:1b.0",
            Some("pci0000:00"),
        ),
        (
            "mdio_bus fixed-0:00: PM: calling mdio_bus_phy_resume+0x0/0x40 @ 1, parent: Fixed MDIO bus.0",
            Some("mdio_bus"),
            "fixed-0:00",
            Some("Fixed MDIO bus.0"),
        ),
        (
            "platform Fixed MDIO bus.0: PM: calling platform_pm_resume+0x0/0x40 @ 1, parent: platform",
            Some("platform"),
            "Fixed MDIO bus.0",
            Some("platform"),
        ),
        (
            "leds input0::capslock: PM: calling led_resume @ 1, parent: none",
            Some("leds"),
            "input0::capslock",
            None,
        ),
    ] {
        let Event::Call(call) = event(text) else {
            panic!("{text}");
        };
        assert_eq!(call.driver, driver.map(str::as_bytes), "{text}");
        assert_eq!(call.device, device.as_bytes(), "{text}");
        assert_eq!(call.parent, parent.map(str::as_bytes), "{text}");
    }
}

#[test]
fn the_stages_times_are_read_to_the_microsecond() {
    for (text, expected) in [
        (
            "PM: suspend of devices complete after 619.703 msecs",
            stage_end(StageKind::Suspend, 619_703, false),
        ),
        (
            "PM: start suspend of devices complete after 621.392 msecs",
            stage_end(StageKind::Prepare, 621_392, false),
        ),
        (
            "PM: late suspend of devices complete after 1.514 msecs",
            stage_end(StageKind::SuspendLate, 1514, false),
        ),
        (
            "PM: noirq suspend of devices aborted after 0.007 msecs",
            stage_end(StageKind::SuspendNoirq, 7, true),
        ),
        (
            "PM: noirq resume of devices complete after 4.955 msecs",
            stage_end(StageKind::ResumeNoirq, 4955, false),
        ),
        (
            "PM: early resume of devices complete after 0.000 msecs",
            stage_end(StageKind::ResumeEarly, 0, false),
        ),
        (
            "PM: resume of devices complete after 6629.611 msecs",
            stage_end(StageKind::Resume, 6_629_611, false),
        ),
        (
            "PM: resume of drv:sd dev:3:0:0:0 complete after 7928.413 msecs",
            Event::Took {
                stage: StageKind::Resume,
                driver: b"sd",
                device: b"3:0:0:0",
                us: 7_928_413,
            },
        ),
        (
            "PM: resume of drv: dev:ep_00 complete after 117.454 msecs",
            Event::Took {
                stage: StageKind::Resume,
                driver: b"",
                device: b"ep_00",
                us: 117_454,
            },
        ),
        (
            "PM: noirq suspend of drv:HDA Intel dev:0000:00:1b.0 complete after 12.000 msecs",
            Event::Took {
                stage: StageKind::SuspendNoirq,
                driver: b"HDA Intel",
                device: b"0000:00:1b.0",
                us: 12_000,
            },
        ),
    ] {
        assert_eq!(event(text), expected, "{text}");
    }
}

#[test]
fn suspend_and_resume_are_read_in_each_versions_words() {
    let begin = |sleep: Option<&'static str>, first| Event::Begin {
        sleep: sleep.map(str::as_bytes),
        first,
    };
    let cpu = |cpu, on| Event::CpuEnd { cpu, on };
    for (text, expected) in [
        ("Linux version 6.12.9 (gcc)", Event::Boot),
        ("PM: suspend entry (deep)", begin(Some("deep"), true)),
        ("PM: suspend entry (s2idle)", begin(Some("s2idle"), true)),
        (
            "PM: suspend entry 2025-07-10 01:19:52.487634359 UTC",
            begin(None, true),
        ),
        (
            "PM: Preparing system for mem sleep",
            begin(Some("mem"), false),
        ),
        (
            "PM: Preparing system for sleep (mem)",
            begin(Some("mem"), false),
        ),
        ("PM: Syncing filesystems ... done.", Event::Syncing),
        ("PM: Syncing filesystems ... ", Event::Syncing),
        ("Filesystems sync: 0.012 seconds", Event::Synced(12_000)),
        ("PM: Filesystems sync: 0.012 seconds", Event::Synced(12_000)),
        (
            "Freezing user space processes ... (elapsed 0.019 seconds) done.",
            Event::Freezing {
                took_us: Some(19_000),
            },
        ),
        (
            "Freezing user space processes",
            Event::Freezing { took_us: None },
        ),
        (
            "Freezing user space processes completed (elapsed 0.001 seconds)",
            Event::Frozen {
                after_us: None,
                took_us: Some(1000),
            },
        ),
        (
            "Freezing remaining freezable tasks ... (elapsed 0.007 seconds) done.",
            Event::Frozen {
                after_us: Some(7000),
                took_us: None,
            },
        ),
        (
            "Freezing remaining freezable tasks completed (elapsed 0.001 seconds)",
            Event::Frozen {
                after_us: None,
                took_us: None,
            },
        ),
        (
            "PM: Entering mem sleep",
            Event::Suspending {
                sleep: Some(b"mem"),
            },
        ),
        (
            "PM: Suspending system (mem)",
            Event::Suspending {
                sleep: Some(b"mem"),
            },
        ),
        (
            "Suspending console(s) (use no_console_suspend to debug)",
            Event::Suspending { sleep: None },
        ),
        (
            "printk: Suspending console(s) (use no_console_suspend to debug)",
            Event::Suspending { sleep: None },
        ),
        (
            "ACPI: Preparing to enter system sleep state S3",
            Event::Message { awake: false },
        ),
        (
            "ACPI: PM: Preparing to enter system sleep state S3",
            Event::Message { awake: false },
        ),
        (
            "ACPI: PM: Saving platform NVS memory",
            Event::Message { awake: false },
        ),
        ("Disabling non-boot CPUs ...", Event::Cpus { on: false }),
        ("CPU 1 is now offline", cpu(1, false)),
        ("smpboot: CPU 12 is now offline", cpu(12, false)),
        ("CPU1: shutdown", cpu(1, false)),
        (
            "Calling timekeeping_suspend+0x0/0x2f0",
            Event::Message { awake: false },
        ),
        (
            "PM: Calling save_ioapic_entries+0x0/0xd0",
            Event::Message { awake: false },
        ),
        (
            "ACPI: Low-level resume complete",
            Event::Message { awake: true },
        ),
        (
            "ACPI: PM: Low-level resume complete",
            Event::Message { awake: true },
        ),
        (
            "PM: Calling timekeeping_resume+0x0/0x1a0",
            Event::Message { awake: true },
        ),
        ("Suspended for 3.123 seconds", Event::Asleep(3_123_000)),
        (
            "Timekeeping suspended for 2.856 seconds",
            Event::Asleep(2_856_000),
        ),
        (
            "PM: Timekeeping suspended for 2.856 seconds",
            Event::Asleep(2_856_000),
        ),
        ("PM: suspend-to-idle", Event::Idle { ends: false }),
        (
            "PM: resume from suspend-to-idle",
            Event::Idle { ends: true },
        ),
        ("Enabling non-boot CPUs ...", Event::Cpus { on: true }),
        (
            "smpboot: Booting Node 0 Processor 3 APIC 0x6",
            Event::CpuBegin { cpu: 3, on: true },
        ),
        (
            "Booting Node 0 Processor 1 APIC 0x1",
            Event::CpuBegin { cpu: 1, on: true },
        ),
        ("CPU3 is up", cpu(3, true)),
        ("PM: Finishing wakeup.", Event::Thawing),
        ("OOM killer enabled.", Event::Thawing),
        ("Restarting tasks ... done.", Event::Thawing),
        ("Restarting tasks: Starting", Event::Thawing),
        ("Restarting tasks: Done", Event::Thawed),
        ("done.", Event::Done),
        ("PM: suspend exit", Event::Exit),
        (
            "PM: hibernation: hibernation entry",
            Event::Hibernation { ends: false },
        ),
        ("PM: hibernation entry", Event::Hibernation { ends: false }),
        (
            "PM: hibernation: hibernation exit",
            Event::Hibernation { ends: true },
        ),
        (
            "PM: freeze of devices complete after 10.000 msecs",
            Event::HibernationCall,
        ),
        (
            "usb usb1: PM: calling usb_dev_freeze+0x0/0x20 @ 1, parent: none",
            Event::HibernationCall,
        ),
    ] {
        assert_eq!(event(text), expected, "{text}");
    }
}

#[test]
fn a_failure_keeps_the_kernels_words() {
    for (text, device, driver, message) in [
        (
            "PM: Device 00:08 failed to suspend: error -5",
            Some("00:08"),
            None,
            "failed to suspend: error -5",
        ),
        (
            "nvme 0000:01:00.0: PM: failed to suspend async: error -16",
            Some("0000:01:00.0"),
            Some("nvme"),
            "failed to suspend async: error -16",
        ),
        (
            "PM: Some devices failed to suspend, or early wake event detected",
            None,
            None,
            "Some devices failed to suspend, or early wake event detected",
        ),
        (
            "PM: Device usb1 not prepared for power transition: code -16",
            Some("usb1"),
            None,
            "not prepared for power transition: code -16",
        ),
        (
            "i915 0000:00:02.0: **** DPM device timeout ****",
            Some("0000:00:02.0"),
            Some("i915"),
            "**** DPM device timeout ****",
        ),
        (
            "i915 0000:00:02.0: PM: **** DPM device timeout after 120 seconds; 0 seconds until panic ****",
            Some("0000:00:02.0"),
            Some("i915"),
            "**** DPM device timeout after 120 seconds; 0 seconds until panic ****",
        ),
        (
            "pci_pm_suspend(): hcd_pci_suspend+0x0/0x20 returns -16",
            None,
            None,
            "pci_pm_suspend(): hcd_pci_suspend+0x0/0x20 returns -16",
        ),
        (
            "xhci_hcd 0000:00:14.0: PM: pci_pm_suspend(): hcd_pci_suspend+0x0/0x20 returns -16",
            Some("0000:00:14.0"),
            Some("xhci_hcd"),
            "pci_pm_suspend(): hcd_pci_suspend+0x0/0x20 returns -16",
        ),
        (
            "PM: Wakeup pending, aborting suspend",
            None,
            None,
            "Wakeup pending, aborting suspend",
        ),
        (
            "Error taking CPU1 down: -16",
            None,
            None,
            "Error taking CPU1 down: -16",
        ),
        (
            "Wakeup pending. Abort CPU freeze",
            None,
            None,
            "Wakeup pending. Abort CPU freeze",
        ),
        (
            "PM: dpm_run_callback(): usb_dev_suspend+0x0/0x20 returns -110",
            None,
            None,
            "dpm_run_callback(): usb_dev_suspend+0x0/0x20 returns -110",
        ),
        (
            "Could not suspend device 0000:00:02.0: error -16",
            Some("0000:00:02.0"),
            None,
            "Could not suspend device 0000:00:02.0: error -16",
        ),
    ] {
        assert_eq!(
            event(text),
            Event::Failure {
                device: device.map(str::as_bytes),
                driver: driver.map(str::as_bytes),
                message: message.as_bytes()
            },
            "{text}"
        );
    }
}

#[test]
fn a_fault_of_the_kernel_is_read() {
    for text in [
        "BUG: kernel NULL pointer dereference",
        "Internal error: Oops: 96000004 [#1] SMP",
        "Kernel panic - not syncing: Oops",
    ] {
        let message = text.as_bytes();
        assert_eq!(event(text), Event::Crash { message }, "{text}");
    }
    assert_eq!(parse("BUG: sleeping function called"), Parsed::Nothing);
}

#[test]
fn unrelated_messages_are_ignored() {
    for text in [
        "",
        "calling  acpi_init+0x0/0x30 @ 1",
        "initcall acpi_init+0x0/0x30 returned 0 after 1234 usecs",
        "probe of 0000:00:1f.2 returned 1 after 1234 usecs",
        "PM: hibernation: Registered nosave memory: [mem 0x00000000-0x00000fff]",
        "PM: Registering ACPI NVS region [mem 0x00000000-0x00000fff]",
        "CPU0: Thermal monitoring enabled",
        "Booting paravirtualized kernel on bare hardware",
        "call me back",
        "usb 1-1: reset high-speed USB device number 2 using xhci_hcd",
        "x86/PM: something else",
        "Freezing",
        "done",
    ] {
        assert_eq!(
            Messages::default().parse(text.as_bytes()),
            Parsed::Nothing,
            "{text}"
        );
    }
    for text in [
        "PM: resume of devices complete after 6629.6",
        "PM: resume of devices complete af",
        "usb usb1: PM: calling usb_dev_resume+0x0/0x20 @ 43",
        "usb usb1: PM: usb_dev_resume+0x0/0x20 returned 0 after 12",
        "calling  usb1+ @ 4321, par",
        "call usb1+ returned 0 after 1234",
    ] {
        assert_eq!(
            Messages::default().parse(text.as_bytes()),
            Parsed::Torn,
            "{text}"
        );
    }
}

#[test]
fn a_failed_freeze_is_reported_and_the_next_lines_name_the_tasks() {
    for text in [
        "Freezing of tasks failed after 20.01 seconds (1 tasks refusing to freeze, wq_busy=0):",
        "Freezing user space processes failed after 20.001 seconds (2 tasks refusing to freeze, wq_busy=0):",
    ] {
        let message = text.as_bytes();
        assert_eq!(event(text), Event::NotFrozen { message });
    }
    for (text, name) in [
        (
            "task:jbd2/dm-0-8     state:D stack:    0 pid:  431 ppid:     2 flags:0x00004000",
            Some("jbd2/dm-0-8 (pid 431)"),
        ),
        (
            "task:fuse            state:D stack:0     pid:1234  tgid:1234  ppid:1      flags:0x00000004",
            Some("fuse (pid 1234)"),
        ),
        (
            "Web Content     D    0  4310   4200 0x00000004",
            Some("Web Content (pid 4310)"),
        ),
        (
            "workqueue events_freezable: flags=0x4",
            Some("workqueue events_freezable"),
        ),
        ("Call Trace:", None),
        ("RIP: 0033:0x7f8c 00 1 2 0x3", None),
    ] {
        assert_eq!(refuses(text.as_bytes()).as_deref(), name, "{text}");
    }
}

fn parse(text: &str) -> Parsed<'_> {
    Messages::default().parse(text.as_bytes())
}

#[test]
fn words_that_only_start_like_known_ones_are_ignored() {
    // For each first letter, alone and after `PM: `.
    for letter in "BCDEFLNORSTdhps".chars() {
        for text in [
            format!("{letter}"),
            format!("{letter}o it was said"),
            format!("PM: {letter}"),
            format!("PM: {letter}o it was said"),
        ] {
            assert_eq!(parse(&text), Parsed::Nothing, "{text}");
        }
    }
    for text in [
        "Booting Node 0",
        "Booting Node 0 Processor x",
        "CPU1 is here",
        "Calling acpi_init+0x0/0x10",
        "Freezing of time",
        "Restarting services",
        "Suspending disks",
        "suspend debug: enabled",
        "smpboot: Max logical packages: 1",
        "printk: console [ttyS0] enabled",
        "psci: probing for conduit method",
        "done. And more",
        "PM: Entering mem",
        "PM: Early sleep",
        "PM: Suspending disks",
        "PM: resume from hibernation",
        "PM: hibernation image",
        "PM: Device 00:08 is here",
        "PM: resume of hope",
        "PM: thaw of processes",
        "PM: suspend of everything at once",
        "PM: early suspend of devices complete after 1.000 msecs",
        "PM: resume of drv:sd complete after 1.000 msecs",
        "PM: resume of drv:sd dev:3:0:0:0 begun after 1.000 msecs",
        "ACPI: PM: (supports S0 S3)",
        // Another subsystem's messages in the same words.
        "x86/PM: suspend exit",
        "ACPI: suspend exit",
        // Without `PM: ` it is a driver's own message.
        "usb usb1: it failed to return",
        "usb usb1: link returned 0 after 12 usecs",
        "usb usb1: calling usb_dev_resume+0x0/0x20 @ 43",
        "usb usb1: usb_dev_resume+0x0/0x20 returned 0 after 12",
        "it returns nothing",
        "PM: calling usb_dev_resume+0x0/0x20 @ 4321, parent: none",
        ": calling usb_dev_resume+0x0/0x20 @ 4321, parent: none",
        "a caller(): of usb_dev_resume returns -16",
        "probe(): pci_probe+0x0/0x20 returns -16",
    ] {
        assert_eq!(parse(text), Parsed::Nothing, "{text}");
    }
}

#[test]
fn rarer_messages_are_read() {
    let word = |awake| Event::Message { awake };
    let failure = |message: &'static str| Event::Failure {
        device: None,
        driver: None,
        message: message.as_bytes(),
    };
    for (text, expected) in [
        (
            "Non-boot CPUs are not disabled",
            failure("Non-boot CPUs are not disabled"),
        ),
        (
            "psci: CPU12: shutdown",
            Event::CpuEnd { cpu: 12, on: false },
        ),
        (
            "PM: suspend debug: Waiting for 5 second(s).",
            Event::Test(5_000_000),
        ),
        (
            "suspend debug: Waiting for 12 second(s).",
            Event::Test(12_000_000),
        ),
        (
            "PM: suspend devices took 0.300 seconds",
            Event::DevicesTook {
                kind: StageKind::Suspend,
                us: 300_000,
            },
        ),
        (
            "PM: resume devices took 7.930 seconds",
            Event::DevicesTook {
                kind: StageKind::Resume,
                us: 7_930_000,
            },
        ),
        ("ACPI: PM: Restoring platform NVS memory", word(true)),
        ("ACPI: Waking up from system sleep state S3", word(true)),
        ("ACPI: PM: Waking up from system sleep state S4", word(true)),
        ("ACPI: Saving platform NVS memory", word(false)),
        (
            "Freezing of tasks aborted after 0.001 seconds",
            Event::NotFrozen {
                message: b"Freezing of tasks aborted after 0.001 seconds",
            },
        ),
        (
            "PM: Some system devices failed to power down",
            failure("Some system devices failed to power down"),
        ),
        (
            "PM: late suspend of devices failed",
            failure("late suspend of devices failed"),
        ),
        (
            "PM: noirq suspend of devices failed",
            failure("noirq suspend of devices failed"),
        ),
        (
            "PM: last active wakeup source: alarmtimer",
            failure("last active wakeup source: alarmtimer"),
        ),
        (
            "PM: active wakeup source: alarmtimer",
            failure("active wakeup source: alarmtimer"),
        ),
        (
            "PM: Pending Wakeup Sources: alarmtimer",
            failure("Pending Wakeup Sources: alarmtimer"),
        ),
        (
            "PM: System core suspend callback x failed",
            failure("System core suspend callback x failed"),
        ),
        (
            "usb usb1: PM: usb_dev_freeze+0x0/0x20 returned 0 after 12 usecs",
            Event::HibernationCall,
        ),
        (
            "PM: late hibernate of devices complete after 1.000 msecs",
            Event::HibernationCall,
        ),
        // 3.x: one line for each of a device's callbacks' owners.
        (
            "PM: type suspend of drv:sd dev:3:0:0:0 complete after 1.500 msecs",
            Event::Took {
                stage: StageKind::Suspend,
                driver: b"sd",
                device: b"3:0:0:0",
                us: 1500,
            },
        ),
        (
            "PM: legacy resume of drv:sd dev:3:0:0:0 complete after 1.500 msecs",
            Event::Took {
                stage: StageKind::Resume,
                driver: b"sd",
                device: b"3:0:0:0",
                us: 1500,
            },
        ),
    ] {
        assert_eq!(event(text), expected, "{text}");
    }
    // A device of this name also occurs alone.
    let Event::Call(call) =
        event("Fixed MDIO bus.0: PM: calling platform_pm_resume+0x0/0x40 @ 1, parent: platform")
    else {
        panic!();
    };
    assert_eq!((call.driver, call.device), (None, &b"Fixed MDIO bus.0"[..]));
}

#[test]
fn truncated_and_impossible_values_are_damaged() {
    for text in [
        "PM: resume of drv:sd dev:3:0:0:0 compl",
        "PM: resume of devices complete after 6629.611 secs",
        "PM: resume of devices complete after x msecs",
        "usb usb1: PM: calling usb_dev_resume+0x0/0x20 @ 4321, parent: ",
        "usb usb1: PM: calling usb_dev_resume+0x0/0x20 @ 4294967296, parent: none",
        "usb usb1: PM: usb_dev_resume+0x0/0x20 returned 2147483648 after 12 usecs",
        // 2^50 us are 35 years.
        "call usb1+ returned 0 after 1125899906842624 usecs",
    ] {
        assert_eq!(parse(text), Parsed::Torn, "{text}");
    }
    let Event::Return(ret) = event("call usb1+ returned 0 after 1125899906842623 usecs") else {
        panic!();
    };
    assert_eq!(ret.says_us, Some(1_125_899_906_842_623));
}

#[test]
fn an_old_task_line_has_a_capital_state_letter_and_flags() {
    let of = |text: &str| refuses(text.as_bytes());
    let name = |name: &str| Some(name.to_owned());
    assert_eq!(
        of("jbd2/dm-0-8     D    0   431      2 0x00004000"),
        name("jbd2/dm-0-8 (pid 431)")
    );
    assert_eq!(
        of("fifteen_letters D ffff88003d4c5b00     0   431      2 0x00000000"),
        name("fifteen_letters (pid 431)")
    );
    // A stack of five digits; to 3.4 a name of thirteen letters.
    assert_eq!(
        of("systemd-udevd   D13440   382    330 0x80004124"),
        name("systemd-udevd (pid 382)")
    );
    assert_eq!(
        of("bash          D ffff88007c4a2c80     0  2345   2340 0x00800004"),
        name("bash (pid 2345)")
    );
    for text in [
        "jbd2/dm-0-8     d    0   431      2 0x00004000",
        "jbd2/dm-0-8     D    0   431      2 00004000",
        "jbd2/dm-0-8     DD   0   431      2 0x00004000",
        "jbd2/dm-0-8     D    0   pid      2 0x00004000",
        "jbd2/dm-0-8     D    2 0x00004000",
        "jbd2/dm-0-8",
        "task:fuse            state:D stack:0     pid: x",
        "workqueue events_freezable",
    ] {
        assert_eq!(of(text), None, "{text}");
    }
}

#[test]
fn a_complete_vendor_task_prefix_is_removed() {
    assert_eq!(event("[pid:916,cpu7,bash]PM: suspend exit"), Event::Exit);
    assert_eq!(
        parse("[pid:916,cpu7,bash PM: suspend exit"),
        Parsed::Nothing
    );
    assert_eq!(parse("[pi]PM: suspend exit"), Parsed::Nothing);
}
