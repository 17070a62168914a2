mod left_out;
mod odd;

use super::*;
use crate::cycle::{Call, CpuStep, StageKind, StageKind as K};

fn log(text: &str) -> Log {
    read(text.as_bytes()).unwrap()
}

fn one(text: &str) -> Cycle {
    let mut log = log(text);
    assert_eq!(log.cycles.len(), 1, "{:#?}", log.cycles);
    log.cycles.remove(0)
}

fn stages(cycle: &Cycle) -> Vec<(StageKind, Us, Us)> {
    let stages = cycle.stages.iter();
    stages
        .map(|stage| (stage.kind, stage.start, stage.end))
        .collect()
}

fn call<'a>(cycle: &'a Cycle, device: &str, stage: StageKind) -> &'a Call {
    let mut calls = cycle.calls.iter();
    calls
        .find(|call| &*call.device == device && call.stage == stage)
        .unwrap_or_else(|| panic!("{device} in {stage:?}: {:#?}", cycle.calls))
}

/// Linux 5.2 and later with pm_print_times and pm_debug_messages.
const TODAY: &str = "\
[   10.000000] PM: suspend entry (deep)
[   10.000100] Filesystems sync: 0.000 seconds
[   10.000200] PM: Preparing system for sleep (deep)
[   10.001000] Freezing user space processes
[   10.002000] Freezing user space processes completed (elapsed 0.001 seconds)
[   10.002100] OOM killer disabled.
[   10.002200] Freezing remaining freezable tasks
[   10.003000] Freezing remaining freezable tasks completed (elapsed 0.000 seconds)
[   10.003100] PM: Suspending system (deep)
[   10.003150] printk: Suspending console(s) (use no_console_suspend to debug)
[   10.004100] usb usb1: PM: calling usb_dev_suspend+0x0/0x20 [usbcore] @ 31, parent: 0000:00:05.0
[   10.004200] input input3: PM: calling input_dev_suspend+0x0/0x50 @ 203, parent: none
[   10.004250] input input3: PM: input_dev_suspend+0x0/0x50 returned 0 after 42 usecs
[   10.005000] usb usb1: PM: usb_dev_suspend+0x0/0x20 [usbcore] returned 0 after 890 usecs
[   10.005010] PM: suspend of devices complete after 1.010 msecs
[   10.005030] PM: start suspend of devices complete after 1.830 msecs
[   10.005100] ahci 0000:00:02.0: PM: calling pci_pm_suspend_late+0x0/0x40 @ 31, parent: pci0000:00
[   10.005110] ahci 0000:00:02.0: PM: pci_pm_suspend_late+0x0/0x40 returned 0 after 3 usecs
[   10.005200] PM: late suspend of devices complete after 0.150 msecs
[   10.005300] ahci 0000:00:02.0: PM: calling pci_pm_suspend_noirq+0x0/0x40 @ 31, parent: pci0000:00
[   10.005400] ahci 0000:00:02.0: PM: pci_pm_suspend_noirq+0x0/0x40 returned 0 after 90 usecs
[   10.005500] PM: noirq suspend of devices complete after 0.250 msecs
[   10.005600] ACPI: PM: Preparing to enter system sleep state S3
[   10.005700] ACPI: PM: Saving platform NVS memory
[   10.005800] Disabling non-boot CPUs ...
[   10.006000] smpboot: CPU 1 is now offline
[   10.006300] smpboot: CPU 2 is now offline
[   10.006310] Checking wakeup interrupts
[   10.006400] PM: Calling lapic_suspend+0x0/0x210
[   10.006500] ACPI: PM: Low-level resume complete
[   10.006510] ACPI: PM: Restoring platform NVS memory
[   10.006520] PM: Calling lapic_resume+0x0/0x360
[   10.006600] PM: Timekeeping suspended for 2.856 seconds
[   10.006700] Enabling non-boot CPUs ...
[   10.006710] x86: Booting SMP configuration:
[   10.006720] smpboot: Booting Node 0 Processor 1 APIC 0x1
[   10.007000] CPU1 is up
[   10.007500] CPU2 is up
[   10.007600] ACPI: PM: Waking up from system sleep state S3
[   10.008000] ahci 0000:00:02.0: PM: calling pci_pm_resume_noirq+0x0/0xc0 @ 31, parent: pci0000:00
[   10.009000] ahci 0000:00:02.0: PM: pci_pm_resume_noirq+0x0/0xc0 returned 0 after 960 usecs
[   10.009100] PM: noirq resume of devices complete after 1.200 msecs
[   10.009200] ahci 0000:00:02.0: PM: calling pci_pm_resume_early+0x0/0x40 @ 31, parent: pci0000:00
[   10.009210] ahci 0000:00:02.0: PM: pci_pm_resume_early+0x0/0x40 returned 0 after 3 usecs
[   10.009300] PM: early resume of devices complete after 0.150 msecs
[   10.009400] ahci 0000:00:02.0: PM: calling pci_pm_resume+0x0/0xb0 @ 31, parent: pci0000:00
[   10.009500]  ata1: PM: calling ata_port_pm_resume [libata] @ 12, parent: 0000:00:02.0
[   10.009600] ahci 0000:00:02.0: PM: pci_pm_resume+0x0/0xb0 returned 0 after 190 usecs
[   10.010000] usb usb1: root hub lost power or was reset
[   10.309500]  ata1: PM: ata_port_pm_resume [libata] returned -110 after 299990 usecs
[   10.309600] PM: resume of devices complete after 300.250 msecs
[   10.310000] PM: Finishing wakeup.
[   10.310100] OOM killer enabled.
[   10.310200] Restarting tasks: Starting
[   10.311000] random: crng reseeded on system resumption
[   10.311100] Restarting tasks: Done
[   10.312000] PM: suspend exit
";

fn expected_stages(shift: Us) -> Vec<(StageKind, Us, Us)> {
    [
        (K::Sync, 10_000_000, 10_000_100),
        (K::Freeze, 10_001_000, 10_003_000),
        (K::Prepare, 10_003_200, 10_004_000),
        (K::Suspend, 10_004_000, 10_005_010),
        (K::SuspendLate, 10_005_050, 10_005_200),
        (K::SuspendNoirq, 10_005_250, 10_005_500),
        (K::CpusOff, 10_005_800, 10_006_300),
        (K::Platform, 10_006_400, 10_006_500),
        (K::CpusOn, 10_006_700, 10_007_500),
        (K::ResumeNoirq, 10_007_900, 10_009_100),
        (K::ResumeEarly, 10_009_150, 10_009_300),
        (K::Resume, 10_009_350, 10_309_600),
        (K::Complete, 10_309_600, 10_310_000),
        (K::Thaw, 10_310_000, 10_311_100),
    ]
    .map(|(kind, start, end)| (kind, start + shift, end + shift))
    .to_vec()
}

#[test]
fn a_modern_log_has_every_stage_cpu_and_call() {
    let log = log(TODAY);
    assert_eq!((log.lines, log.bytes), (57, TODAY.len() as u64));
    assert_eq!(log.resolution_us, Some(1));
    assert_eq!(log.left_out, LeftOut::default());
    let cycle = one(TODAY);
    assert_eq!(stages(&cycle), expected_stages(0));
    assert_eq!(cycle.stages[11].says_us, Some(300_250));
    assert_eq!((cycle.number, cycle.sleep.as_deref()), (1, Some("deep")));
    assert_eq!((cycle.at.as_deref(), cycle.cut), (None, false));
    assert_eq!(cycle.asleep_us, Some(2_856_000));
    assert!(cycle.failures.is_empty(), "{:?}", cycle.failures);
    let step = |cpu, on, start, end| CpuStep {
        cpu,
        on,
        start,
        end,
    };
    assert_eq!(
        cycle.cpus,
        [
            step(1, false, 10_005_800, 10_006_000),
            step(2, false, 10_006_000, 10_006_300),
            step(1, true, 10_006_720, 10_007_000),
            step(2, true, 10_007_000, 10_007_500),
        ]
    );
    assert_eq!(cycle.calls.len(), 8);
    let name = |text: &str| Some(text.into());
    assert_eq!(
        *call(&cycle, "ata1", K::Resume),
        Call {
            device: "ata1".into(),
            driver: None,
            parent: name("0000:00:02.0"),
            function: name("ata_port_pm_resume"),
            stage: K::Resume,
            start: Some(10_009_500),
            end: Some(10_309_500),
            says_us: Some(299_990),
            worker: Some(12),
            result: Some(-110),
        }
    );
    assert_eq!(
        *call(&cycle, "input3", K::Suspend),
        Call {
            device: "input3".into(),
            driver: name("input"),
            parent: None,
            function: name("input_dev_suspend"),
            stage: K::Suspend,
            start: Some(10_004_200),
            end: Some(10_004_250),
            says_us: Some(42),
            worker: Some(203),
            result: Some(0),
        }
    );
    for (stage, start) in [
        (K::SuspendLate, 10_005_100),
        (K::SuspendNoirq, 10_005_300),
        (K::ResumeNoirq, 10_008_000),
        (K::ResumeEarly, 10_009_200),
        (K::Resume, 10_009_400),
    ] {
        assert_eq!(call(&cycle, "0000:00:02.0", stage).start, Some(start));
    }
}

/// As printed by kernels up to 4.18, with the lines that 2.6.33 to 3.x have for slow devices.
const OLD: &str = "\
[   30.075565] PM: Syncing filesystems ... done.
[   30.077755] PM: Preparing system for mem sleep
[   30.128189] Freezing user space processes ... (elapsed 0.019 seconds) done.
[   30.149985] Freezing remaining freezable tasks ... (elapsed 0.007 seconds) done.
[   30.158478] PM: Entering mem sleep
[   30.158851] Suspending console(s) (use no_console_suspend to debug)
[   30.161310] calling  input2+ @ 768, parent: serio1
[   30.163481] call input2+ returned 0 after 2011 usecs
[   30.163599] calling  0000:00:1f.2+ @ 768, parent: pci0000:00
[   30.163768] call 0000:00:1f.2+ returned 0 after 144 usecs
[   30.175275] PM: suspend of devices complete after 14.735 msecs
[   30.175416] PM: suspend devices took 0.010 seconds
[   30.178217] PM: late suspend of devices complete after 2.717 msecs
[   30.179000] calling  0000:00:1f.2+ @ 768, parent: pci0000:00
[   30.179100] call 0000:00:1f.2+ returned 0 after 97 usecs
[   30.179200] PM: noirq suspend of devices complete after 0.900 msecs
[   30.179300] ACPI: Preparing to enter system sleep state S3
[   30.179400] PM: Saving platform NVS memory
[   30.179500] Disabling non-boot CPUs ...
[   30.180000] CPU 1 is now offline
[   30.180100] ACPI: Low-level resume complete
[   30.180200] PM: Restoring platform NVS memory
[   30.180300] Enabling non-boot CPUs ...
[   30.180400] Booting Node 0 Processor 1 APIC 0x1
[   30.190000] CPU1 is up
[   30.191000] ACPI: Waking up from system sleep state S3
[   30.192000] calling  0000:00:1f.2+ @ 768, parent: pci0000:00
[   30.192500] call 0000:00:1f.2+ returned 0 after 480 usecs
[   30.193000] PM: noirq resume of devices complete after 1.500 msecs
[   30.194000] PM: early resume of devices complete after 0.900 msecs
[   30.195000] calling  0000:00:1f.2+ @ 801, parent: pci0000:00
[   30.196000] call 0000:00:1f.2+ returned 0 after 970 usecs
[   38.123413] PM: resume of drv:sd dev:3:0:0:0 complete after 7928.413 msecs
[   38.124000] PM: resume of devices complete after 7929.500 msecs
[   38.125000] PM: resume devices took 7.930 seconds
[   38.126000] PM: Finishing wakeup.
[   38.126100] Restarting tasks ... done.
[   99.000000] usb 1-1: new high-speed USB device
";

#[test]
fn an_old_kernels_log_gives_the_same_although_its_calls_do_not_name_their_stage() {
    let cycle = one(OLD);
    assert_eq!(
        stages(&cycle),
        [
            (K::Sync, 30_075_565, 30_077_755),
            (K::Freeze, 30_128_189, 30_156_985),
            (K::Prepare, 30_158_478, 30_160_540),
            (K::Suspend, 30_160_540, 30_175_275),
            (K::SuspendLate, 30_175_500, 30_178_217),
            (K::SuspendNoirq, 30_178_300, 30_179_200),
            (K::CpusOff, 30_179_500, 30_180_000),
            (K::Platform, 30_180_000, 30_180_100),
            (K::CpusOn, 30_180_300, 30_190_000),
            (K::ResumeNoirq, 30_191_500, 30_193_000),
            (K::ResumeEarly, 30_193_100, 30_194_000),
            (K::Resume, 30_194_500, 38_124_000),
            (K::Complete, 38_124_000, 38_125_000),
        ]
    );
    assert!(!cycle.cut);
    assert_eq!(cycle.sleep.as_deref(), Some("mem"));
    for (stage, start, worker) in [
        (K::Suspend, 30_163_599, 768),
        (K::SuspendNoirq, 30_179_000, 768),
        (K::ResumeNoirq, 30_192_000, 768),
        (K::Resume, 30_195_000, 801),
    ] {
        let call = call(&cycle, "0000:00:1f.2", stage);
        assert_eq!((call.start, call.worker), (Some(start), Some(worker)));
    }
    let disk = call(&cycle, "3:0:0:0", K::Resume);
    assert_eq!(disk.driver.as_deref(), Some("sd"));
    assert_eq!((disk.start, disk.end), (Some(30_195_000), Some(38_123_413)));
    assert_eq!(disk.says_us, Some(7_928_413));
    assert_eq!(cycle.calls.len(), 6);
}

/// Without pm_debug_messages no line has the end of a stage.
#[test]
fn without_the_stages_times_they_last_from_their_first_call_to_their_last() {
    let text: String = TODAY
        .lines()
        .filter(|line| !line.contains("of devices") && !line.contains("system"))
        .flat_map(|line| [line, "\n"])
        .collect();
    let log = log(&text);
    assert_eq!(log.left_out, LeftOut::default());
    assert_eq!(
        stages(&log.cycles[0]),
        [
            (K::Freeze, 10_001_000, 10_003_000),
            (K::Suspend, 10_004_100, 10_005_000),
            (K::SuspendLate, 10_005_100, 10_005_110),
            (K::SuspendNoirq, 10_005_300, 10_005_400),
            (K::CpusOff, 10_005_800, 10_006_300),
            (K::Platform, 10_006_400, 10_006_500),
            (K::CpusOn, 10_006_700, 10_007_500),
            (K::ResumeNoirq, 10_008_000, 10_009_000),
            (K::ResumeEarly, 10_009_200, 10_009_210),
            (K::Resume, 10_009_400, 10_309_500),
            (K::Thaw, 10_310_000, 10_311_100),
        ]
    );
    // Nor, in 4.14 to 4.18, the stage of a call: it is the next one, if the device was in this one.
    let old: String = OLD
        .lines()
        .filter(|line| !line.contains("of devices") && !line.contains(" of drv"))
        .flat_map(|line| [line, "\n"])
        .collect();
    let log = super::read(old.as_bytes()).unwrap();
    let of_disk = log.cycles[0].calls.iter().skip(1).map(|call| call.stage);
    assert_eq!(
        of_disk.collect::<Vec<_>>(),
        [K::Suspend, K::SuspendLate, K::ResumeNoirq, K::Resume],
        "`resume devices took` is about the last one"
    );
    assert_eq!(log.left_out.guessed_stages, 1);
}

/// A line of `TODAY` in another format, from its stamp, its message and the whole line.
type Form = fn(&str, &str, &str) -> String;

fn in_form(form: Form) -> String {
    let lines = TODAY.lines();
    lines
        .map(|line| form(&line[4..13], &line[15..], line) + "\n")
        .collect()
}

/// The same cycle after each kind of prefix; the expected effect of the prefix is given.
#[test]
fn prefixes_change_only_the_clock() {
    let plain = one(TODAY);
    let forms: [(&str, Form); 9] = [
        ("CRLF", |_, _, line| format!("{line}\r")),
        ("level", |_, _, line| format!("<6>{line}")),
        ("caller", |stamp, message, _| {
            let thread = match message {
                _ if message.contains("ata1") => 12,
                _ if message.contains("usb1") || message.contains("ahci") => 31,
                _ => 203,
            };
            format!("[   {stamp}][ T{thread}] {message}")
        }),
        ("dmesg -x", |_, _, line| format!("kern  :info  : {line}")),
        ("syslog", |_, _, line| {
            format!("Nov 21 18:00:00 host kernel: {line}")
        }),
        ("colours", |stamp, message, _| {
            format!("\x1b[32m[   {stamp}] \x1b[0m\x1b[1m{message}\x1b[0m")
        }),
        ("quoted", |_, _, line| format!("> > {line}\n> >")),
        ("journal, monotonic", |stamp, message, _| {
            format!("[   {stamp}] host kernel: {message}")
        }),
        ("between others", |_, _, line| {
            format!("Nov 21 18:00:00 host cron[7]: PM: suspend exit\n{line}")
        }),
    ];
    for (name, form) in forms {
        let mut cycle = one(&in_form(form));
        if name == "syslog" {
            assert_eq!(cycle.at.take().as_deref(), Some("Nov 21 18:00:00"));
        }
        assert_eq!(cycle, plain, "{name}");
    }
    // A wall clock: the same durations from another origin.
    let wall = one(&in_form(|stamp, message, _| {
        let (seconds, fraction) = stamp.split_once('.').unwrap();
        format!("2026-11-21T18:00:{seconds},{fraction}+00:00 {message}")
    }));
    let shift = wall.stages[0].start - plain.stages[0].start;
    assert_eq!(stages(&wall), expected_stages(shift));
    assert_eq!(wall.at.as_deref(), Some("2026-11-21T18:00:10,000000+00:00"));
}

#[test]
fn stamps_of_whole_seconds_are_reported() {
    let log = log(&in_form(|stamp, message, _| {
        format!("[Sat Nov 21 18:00:{} 2026] {message}", &stamp[..2])
    }));
    assert_eq!(log.resolution_us, Some(1_000_000));
    assert_eq!(log.cycles.len(), 1);
    // The kernel's duration of a call is still available.
    let ata = call(&log.cycles[0], "ata1", K::Resume);
    assert_eq!(ata.says_us, Some(299_990));
}

#[test]
fn a_journal_gives_the_same_as_json_and_as_export() {
    let plain = one(TODAY);
    let json = in_form(|stamp, message, _| {
        format!(
            "{{\"_TRANSPORT\":\"kernel\",\"_SOURCE_MONOTONIC_TIMESTAMP\":\"{}\",\"MESSAGE\":{}}}",
            stamp.replace('.', ""),
            serde_json::to_string(message).unwrap()
        )
    });
    assert_eq!(one(&json), plain);
    let export = in_form(|stamp, message, _| {
        format!(
            "__CURSOR=s\nMESSAGE={message}\n_TRANSPORT=kernel\n_SOURCE_MONOTONIC_TIMESTAMP={}\n",
            stamp.replace('.', "")
        )
    });
    assert_eq!(one(&export), plain);
}

#[test]
fn lines_wrapped_by_a_mail_are_joined() {
    let plain = one(TODAY);
    // At the last space before the 72nd column, as mail programs do; and hard, as terminals do.
    let soft: String = TODAY.lines().map(|line| wrap(line, true)).collect();
    assert!(soft.lines().count() > TODAY.lines().count() + 10);
    assert_eq!(one(&soft), plain);
    let hard: String = TODAY.lines().map(|line| wrap(line, false)).collect();
    assert_eq!(one(&hard), plain);
    let quoted: String = soft.lines().map(|line| format!("> {line}\n")).collect();
    assert_eq!(one(&quoted), plain);
}

fn wrap(line: &str, at_space: bool) -> String {
    if line.len() < 73 {
        return format!("{line}\n");
    }
    let at = if at_space {
        line[..72].rfind(' ').unwrap()
    } else {
        72
    };
    format!(
        "{}\n{}\n",
        &line[..at],
        line[at..]
            .strip_prefix(' ')
            .filter(|_| at_space)
            .unwrap_or(&line[at..])
    )
}

const TRACE: &str = "\
# tracer: nop
#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION
              sh-203     [000] .....    10.000000: suspend_resume: suspend_enter[3] begin
              sh-203     [000] .....    10.000100: suspend_resume: sync_filesystems[0] begin
              sh-203     [000] .....    10.000200: suspend_resume: sync_filesystems[0] end
              sh-203     [000] .....    10.001000: suspend_resume: freeze_processes[0] begin
              sh-203     [000] .....    10.003000: suspend_resume: freeze_processes[0] end
              sh-203     [000] .....    10.003100: suspend_resume: suspend_enter[3] end
              sh-203     [000] .....    10.003200: suspend_resume: dpm_prepare[2] begin
              sh-203     [000] .....    10.003300: device_pm_callback_start:  platform, parent: none, [suspend]
              sh-203     [000] .....    10.003310: device_pm_callback_end:  platform, err=0
              sh-203     [000] .....    10.003900: suspend_resume: dpm_prepare[2] end
              sh-203     [000] .....    10.004000: suspend_resume: dpm_suspend[2] begin
    kworker/u8:1-31      [001] d..1.    10.004100: device_pm_callback_start: usb usb1, parent: 0000:00:05.0, type [suspend]
    kworker/u8:1-31      [001] .....    10.005000: device_pm_callback_end: usb usb1, err=0
              sh-203     [000] .....    10.005010: suspend_resume: dpm_suspend[2] end
              sh-203     [000] .....    10.005050: suspend_resume: dpm_suspend_late[2] begin
              sh-203     [000] .....    10.005100: device_pm_callback_start: ahci 0000:00:02.0, parent: pci0000:00, late bus [suspend]
              sh-203     [000] .....    10.005110: device_pm_callback_end: ahci 0000:00:02.0, err=0
              sh-203     [000] .....    10.005200: suspend_resume: dpm_suspend_late[2] end
              sh-203     [000] .....    10.005250: suspend_resume: dpm_suspend_noirq[2] begin
              sh-203     [000] .....    10.005500: suspend_resume: dpm_suspend_noirq[2] end
              sh-203     [000] .....    10.005800: suspend_resume: CPU_OFF[1] begin
              sh-203     [000] .....    10.006300: suspend_resume: CPU_OFF[1] end
              sh-203     [000] d....    10.006400: suspend_resume: machine_suspend[3] begin
              sh-203     [000] d....    10.006500: suspend_resume: machine_suspend[3] end
              sh-203     [000] dN...    10.006600: suspend_resume: syscore_resume[0] end
              sh-203     [000] .....    10.006700: suspend_resume: CPU_ON[1] begin
              sh-203     [000] .....    10.007500: suspend_resume: CPU_ON[1] end
              sh-203     [000] .....    10.007900: suspend_resume: dpm_resume_noirq[16] begin
CPU:1 [LOST 12 EVENTS]
              sh-203     [000] .....    10.009100: suspend_resume: dpm_resume_noirq[16] end
              sh-203     [000] .....    10.009150: suspend_resume: dpm_resume_early[16] begin
              sh-203     [000] .....    10.009300: suspend_resume: dpm_resume_early[16] end
              sh-203     [000] .....    10.009350: suspend_resume: dpm_resume[16] begin
   kworker/u8:15-12      [001] .....    10.009500: device_pm_callback_start:  ata1, parent: 0000:00:02.0, driver [resume]
              sh-203     [000] .....    10.100000: sched_switch: something else
   kworker/u8:15-12      [001] .....    10.309500: device_pm_callback_end:  ata1, err=-110
              sh-203     [001] .....    10.309600: suspend_resume: dpm_resume[16] end
              sh-203     [001] .....    10.309600: suspend_resume: dpm_complete[16] begin
              sh-203     [001] .....    10.309990: suspend_resume: dpm_complete[16] end
              sh-203     [001] .....    10.309991: suspend_resume: resume_console[3] begin
              sh-203     [001] .....    10.309992: suspend_resume: resume_console[3] end
              sh-203     [001] .....    10.310000: suspend_resume: thaw_processes[0] begin
              sh-203     [001] .....    10.312000: suspend_resume: thaw_processes[0] end
";

#[test]
fn a_trace_gives_the_stages_with_their_own_ends_and_the_calls_with_their_workers() {
    let cycle = one(TRACE);
    let mut expected = expected_stages(0);
    (expected[0].1, expected[0].2) = (10_000_100, 10_000_200);
    expected[2].2 = 10_003_900;
    expected[12].2 = 10_309_990;
    expected[13].2 = 10_312_000;
    assert_eq!(stages(&cycle), expected);
    assert_eq!(cycle.sleep.as_deref(), Some("deep"));
    assert!(!cycle.cut);
    assert_eq!(
        cycle
            .calls
            .iter()
            .map(|call| call.stage)
            .collect::<Vec<_>>(),
        [K::Prepare, K::Suspend, K::SuspendLate, K::Resume]
    );
    let ata = call(&cycle, "ata1", K::Resume);
    assert_eq!((ata.start, ata.end), (Some(10_009_500), Some(10_309_500)));
    assert_eq!((ata.worker, ata.result), (Some(12), Some(-110)));
    assert_eq!(
        (&ata.driver, &ata.function, ata.says_us),
        (&None, &None, None)
    );
    assert_eq!(cycle.failures[0].device.as_deref(), Some("ata1"));
    assert_eq!(log(TRACE).left_out.lost_events, 12);
    // As trace-cmd report writes it, in nanoseconds.
    let report: String = TRACE
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| {
            let line = line
                .replace(" .....", "")
                .replace(" d....", "")
                .replace(": suspend_resume: ", "123: suspend_resume:       ");
            format!("{line}\n")
        })
        .collect();
    assert_eq!(stages(&one(&report)), expected);
}

#[test]
fn a_leap_before_the_clocks_run_again_is_not_part_of_the_resume() {
    // From the first device of the last CPU on, everything is 900 ms later.
    let later: String = TODAY
        .lines()
        .map(|line| match line[1..].split_once(']') {
            Some((stamp, rest)) if stamp.trim() >= "10.006520" => {
                let at: f64 = stamp.trim().parse().unwrap();
                format!("[   {:.6}]{rest}\n", at + 0.9)
            }
            _ => format!("{line}\n"),
        })
        .collect();
    let cycle = one(&later);
    assert_eq!(stages(&cycle)[7], (K::Platform, 10_006_400, 10_906_600));
}

#[test]
fn a_cycle_in_dmesg_and_a_trace_is_reported_once() {
    for text in [format!("{TODAY}{TRACE}"), format!("{TRACE}{TODAY}")] {
        let cycle = one(&text);
        assert_eq!(cycle.calls.len(), 4, "the trace's");
        assert_eq!(cycle.asleep_us, Some(2_856_000));
        let ata = call(&cycle, "ata1", K::Resume);
        assert_eq!(ata.function.as_deref(), Some("ata_port_pm_resume"));
        assert_eq!(ata.says_us, Some(299_990));
    }
    // Another cycle remains separate.
    let longer = TRACE
        .replace(" 10.309", " 11.309")
        .replace(" 10.31", " 11.31");
    assert_eq!(log(&format!("{TODAY}{longer}")).cycles.len(), 2);
    // A clock that continues in sleep leaps before syscore_resume's end.
    let boot: String = TRACE
        .lines()
        .map(|line| match line.find(" 10.0") {
            Some(at) if &line[at + 4..at + 9] >= "00660" => {
                format!("{} 13.0{}\n", &line[..at], &line[at + 5..])
            }
            _ => format!(
                "{}\n",
                line.replace(" 10.3", " 13.3").replace(" 10.1", " 13.1")
            ),
        })
        .collect();
    let cycle = one(&boot);
    assert_eq!(stages(&cycle)[7], (K::Platform, 10_006_400, 13_006_600));
    assert_eq!(one(&format!("{TODAY}{boot}")).calls.len(), 4);
}
