use super::*;

fn parse_of(event: &str) -> Parsed<'_> {
    parse(event.as_bytes(), Some(203))
}

fn stage(kind: StageKind, begins: bool) -> Event<'static> {
    match begins {
        true => Event::StageBegin(kind),
        false => Event::StageEnd {
            kind,
            says_us: None,
            aborted: false,
        },
    }
}

#[test]
fn a_step_is_the_start_or_the_end_of_its_stage() {
    for (name, kind) in [
        ("dpm_prepare", StageKind::Prepare),
        ("dpm_suspend", StageKind::Suspend),
        ("dpm_suspend_late", StageKind::SuspendLate),
        ("dpm_suspend_noirq", StageKind::SuspendNoirq),
        ("machine_suspend", StageKind::Platform),
        ("dpm_resume_noirq", StageKind::ResumeNoirq),
        ("dpm_resume_early", StageKind::ResumeEarly),
        ("dpm_resume", StageKind::Resume),
        ("dpm_complete", StageKind::Complete),
    ] {
        for (word, begins) in [("begin", true), ("end", false)] {
            // As written by the kernel and by trace-cmd report.
            for text in [
                format!("suspend_resume: {name}[2] {word}"),
                format!("suspend_resume:       {name}[16]  {word}\r"),
            ] {
                let expected = Parsed::Event(stage(kind, begins));
                assert_eq!(parse_of(&text), expected, "{text}");
            }
        }
    }
}

#[test]
fn the_other_steps_correspond_to_kernel_messages() {
    let begin = |sleep: Option<&'static str>| Event::Begin {
        sleep: sleep.map(str::as_bytes),
        first: true,
    };
    for (text, expected) in [
        // suspend_state_t of include/linux/suspend.h: to idle, standby, memory.
        ("suspend_enter[1] begin", begin(Some("s2idle"))),
        ("suspend_enter[2] begin", begin(Some("shallow"))),
        ("suspend_enter[3] begin", begin(Some("deep"))),
        ("suspend_enter[4] begin", begin(None)),
        (
            "sync_filesystems[0] begin",
            Event::StageBegin(StageKind::Sync),
        ),
        (
            "freeze_processes[0] begin",
            Event::Freezing { took_us: None },
        ),
        (
            "freeze_processes[0] end",
            Event::Frozen {
                after_us: None,
                took_us: None,
            },
        ),
        ("CPU_OFF[1] begin", Event::CpuBegin { cpu: 1, on: false }),
        ("CPU_OFF[1] end", Event::CpuEnd { cpu: 1, on: false }),
        ("CPU_ON[12] begin", Event::CpuBegin { cpu: 12, on: true }),
        ("CPU_ON[12] end", Event::CpuEnd { cpu: 12, on: true }),
        ("sync_filesystems[0] end", stage(StageKind::Sync, false)),
        ("syscore_resume[0] end", stage(StageKind::Platform, false)),
        ("thaw_processes[0] begin", stage(StageKind::Thaw, true)),
        ("thaw_processes[0] end", Event::Exit),
    ] {
        let text = format!("suspend_resume: {text}");
        assert_eq!(parse_of(&text), Parsed::Event(expected), "{text}");
    }
    for text in [
        "suspend_enter[3] end",
        "syscore_resume[0] begin",
        "syscore_suspend[0] begin",
        "resume_console[3] end",
    ] {
        let text = format!("suspend_resume: {text}");
        assert_eq!(parse_of(&text), Parsed::Nothing, "{text}");
    }
    for text in [
        "dpm_resume[16] beg",
        "dpm_resume[16",
        "dpm_resume",
        "dpm_resume[] end",
        "CPU_ON[4294967296] end",
    ] {
        let text = format!("suspend_resume: {text}");
        assert_eq!(parse_of(&text), Parsed::Torn, "{text}");
    }
    assert_eq!(
        parse_of("sched_switch: dpm_resume[16] begin"),
        Parsed::Nothing
    );
}

#[test]
fn a_callback_has_its_device_its_thread_and_evidence_of_its_stage() {
    use StageKind as K;
    let call = Call {
        device: b"usb1",
        driver: Some(b"usb"),
        parent: Some(b"0000:00:14.0"),
        function: None,
        worker: Some(203),
        stage: None,
    };
    for (what, stage) in [
        ("type [suspend]", None),
        ("type [resume]", None),
        ("[resume]", None),
        ("preparing bus [suspend]", Some(K::Prepare)),
        ("late driver [suspend]", Some(K::SuspendLate)),
        ("noirq bus [suspend]", Some(K::SuspendNoirq)),
        ("noirq bus [resume]", Some(K::ResumeNoirq)),
        ("early bus [resume]", Some(K::ResumeEarly)),
        ("completing bus [resume]", Some(K::Complete)),
    ] {
        let text = format!("device_pm_callback_start: usb usb1, parent: 0000:00:14.0, {what}");
        let expected = Call {
            stage,
            ..call.clone()
        };
        assert_eq!(
            parse_of(&text),
            Parsed::Event(Event::Call(expected)),
            "{text}"
        );
    }
    // A driver with a space, none, and a parent with spaces or none.
    for (text, driver, device, parent) in [
        (
            "HDA Intel 0000:00:1b.0, parent: pci0000:00, bus [resume]",
            Some("HDA Intel"),
            "0000:00:1b.0",
            Some("pci0000:00"),
        ),
        (" ata1, parent: none, driver [resume]", None, "ata1", None),
        (
            "mdio_bus a:00, parent: Fixed MDIO bus.0, bus [resume]",
            Some("mdio_bus"),
            "a:00",
            Some("Fixed MDIO bus.0"),
        ),
    ] {
        let text = format!("device_pm_callback_start: {text}");
        let expected = Call {
            device: device.as_bytes(),
            driver: driver.map(str::as_bytes),
            parent: parent.map(str::as_bytes),
            ..call.clone()
        };
        assert_eq!(
            parse_of(&text),
            Parsed::Event(Event::Call(expected)),
            "{text}"
        );
    }
    for text in [
        "usb usb1, parent: none, bus [freeze]",
        "usb usb1, parent: none, noirq bus [restore]",
    ] {
        let text = format!("device_pm_callback_start: {text}");
        assert_eq!(
            parse_of(&text),
            Parsed::Event(Event::HibernationCall),
            "{text}"
        );
    }
    for text in [
        "usb usb1, parent: none, bus [resu",
        "usb usb1, parent: none",
        "usb usb1, par",
        ", parent: none, bus [resume]",
    ] {
        let text = format!("device_pm_callback_start: {text}");
        assert_eq!(parse_of(&text), Parsed::Torn, "{text}");
    }
}

#[test]
fn a_callbacks_end_has_its_result() {
    let ret = Return {
        device: b"usb1",
        driver: Some(b"usb"),
        function: None,
        worker: Some(203),
        result: Some(0),
        says_us: None,
        of_1024_ns: false,
    };
    for (text, driver, result) in [
        ("usb usb1, err=0", Some(&b"usb"[..]), 0),
        ("usb usb1, err=-110", Some(b"usb"), -110),
        (" usb1, err=1", None, 1),
    ] {
        let text = format!("device_pm_callback_end: {text}");
        let expected = Return {
            driver,
            result: Some(result),
            ..ret.clone()
        };
        assert_eq!(
            parse_of(&text),
            Parsed::Event(Event::Return(expected)),
            "{text}"
        );
    }
    for text in [
        "usb usb1, err=",
        "usb usb1, err=-",
        "usb usb1",
        ", err=0",
        " , err=0",
    ] {
        let text = format!("device_pm_callback_end: {text}");
        assert_eq!(parse_of(&text), Parsed::Torn, "{text}");
    }
}
