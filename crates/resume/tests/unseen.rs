//! Logs of machines that were not available here, in formats of kernels, serial lines, mails and
//! other programs.

use reveille_resume::analysis::{Analysis, Input, LinkKind, Question, Source, analyse, no_devices};
use reveille_resume::cycle::{Cycle, StageKind, Us};
use reveille_resume::graph::{Graph, Half};
use reveille_resume::log::read;
use reveille_resume::times::{self, Times};
use reveille_resume::what_if::Change;

use crate::reading::{log, one};

fn of(cycle: &Cycle) -> Times {
    times::of(cycle).unwrap()
}

fn stage(cycle: &Cycle, kind: StageKind) -> (Us, Us) {
    let found = cycle.stages.iter().find(|stage| stage.kind == kind);
    let found = found.unwrap_or_else(|| panic!("{kind:?}: {:#?}", cycle.stages));
    (found.start, found.end)
}

/// A public log; `None`, with a message, if the folder with them is missing.
fn public(name: &str) -> Option<Vec<u8>> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/logs");
    match std::fs::read(path.join(name)) {
        Ok(text) => Some(text),
        Err(error) => {
            eprintln!("skipped: {name} of the public logs: {error}");
            None
        }
    }
}

const SLEEP: &str = "\
[  100.000000] PM: suspend entry (deep)
[  100.001000] Freezing user space processes
[  100.002000] Freezing user space processes completed (elapsed 0.001 seconds)
[  100.003000] Freezing remaining freezable tasks completed (elapsed 0.000 seconds)
[  100.003150] printk: Suspending console(s) (use no_console_suspend to debug)
[  100.010000] usb usb1: PM: calling usb_dev_suspend+0x0/0x20 [usbcore] @ 31, parent: none
[  100.040000] usb usb1: PM: usb_dev_suspend+0x0/0x20 [usbcore] returned 0 after 30000 usecs
[  100.041000] PM: suspend of devices complete after 37.000 msecs
[  100.050000] PM: late suspend of devices complete after 8.000 msecs
[  100.060000] PM: noirq suspend of devices complete after 9.000 msecs
[  100.061000] ACPI: PM: Preparing to enter system sleep state S3
[  100.062000] ACPI: PM: Low-level resume complete
[  100.063000] PM: Timekeeping suspended for 9.500 seconds
[  100.064000] ACPI: PM: Waking up from system sleep state S3
[  100.100000] PM: noirq resume of devices complete after 9.000 msecs
[  100.110000] PM: early resume of devices complete after 8.000 msecs
[  100.120000] usb usb1: PM: calling usb_dev_resume+0x0/0x20 [usbcore] @ 31, parent: none
[  100.180000] usb usb1: PM: usb_dev_resume+0x0/0x20 [usbcore] returned 0 after 60000 usecs
[  100.190000] PM: resume of devices complete after 75.000 msecs
[  100.200000] OOM killer enabled.
[  100.210000] Restarting tasks ... done.
[  100.300000] PM: suspend exit
";

#[test]
fn junk_before_the_stamp_hides_no_line() {
    let whole = one(SLEEP);
    for junk in [
        "^C",
        "\u{3}",
        "\u{fffd}\u{fffd}x",
        "~ # ",
        "[12:31:05.113] ",
        "#",
    ] {
        let text = SLEEP.replace("[  100.180000]", &format!("{junk}[  100.180000]"));
        let cycle = one(&text);
        assert_eq!(cycle.calls, whole.calls, "{junk:?}");
    }
    // The previous line lost its end.
    let text = SLEEP.replace("parent: none\n[  100.180000]", "parent: none[  100.180000]");
    assert_eq!(one(&text).calls, whole.calls);
    assert_ne!(text, SLEEP);
}

#[test]
fn of_two_bracketed_stamps_the_inner_one_is_the_kernels() {
    let whole = one(SLEEP);
    let logged = |one_line: bool| -> String {
        let mut at = 1_700_000_000.0;
        let lines = SLEEP.lines().map(|line| {
            at += 0.25;
            match !one_line || line.contains("returned 0 after 60000") {
                true => format!("[{at:.6}] {line}\n"),
                false => format!("{line}\n"),
            }
        });
        lines.collect()
    };
    assert_eq!(one(&logged(false)), whole);
    assert_eq!(one(&logged(true)), whole);
}

#[test]
fn a_backward_step_of_a_second_does_not_split_a_cycle() {
    let back = |from: &str, to: &str, by: f64| -> String {
        let lines = SLEEP.lines().map(|line| {
            let stamp = line[1..13].trim();
            let at: f64 = stamp.parse().unwrap();
            match (from..to).contains(&stamp) {
                true => format!("[{:12.6}]{}\n", at - by, &line[14..]),
                false => format!("{line}\n"),
            }
        });
        lines.collect()
    };
    // From there on.
    let found = log(&back("100.120000", "101", 1.0));
    assert_eq!(found.cycles.len(), 1, "{:#?}", found.cycles);
    assert_eq!(found.left_out.clock_jumps, 1);
    assert!(!found.cycles[0].cut);
    let resume = stage(&found.cycles[0], StageKind::Resume);
    assert!(
        resume.1 - resume.0 < 80_000 && resume.1 > resume.0,
        "{resume:?}"
    );
    // For a few lines: another CPU's clock.
    let found = log(&back("100.120000", "100.185000", 1.0));
    assert_eq!(found.cycles.len(), 1);
    let times = of(&found.cycles[0]);
    assert!((times.end - 100_300_000).abs() < 100_000, "{times:?}");
    // From there on, and line by line it reaches its former value: that is no leap.
    let found = log(&back("100.120000", "101", 0.25));
    assert_eq!(found.cycles.len(), 1);
    let times = of(&found.cycles[0]);
    assert!((times.end - 100_300_000).abs() < 100_000, "{times:?}");
}

#[test]
fn an_irrelevant_line_of_another_clock_does_not_split_a_cycle() {
    let text = SLEEP.replace(
        "[  100.190000]",
        "Nov 21 18:00:00 host kernel: audit: backlog\n[  100.190000]",
    );
    assert_eq!(one(&text), one(SLEEP));
}

#[test]
fn a_resume_ends_with_suspend_exit() {
    assert_eq!(of(&one(SLEEP)).end, 100_300_000);
    // Only the lines of `grep PM:`.
    let some = |is: fn(&&str) -> bool| -> String {
        let lines = SLEEP.lines().filter(is);
        lines.map(|line| format!("{line}\n")).collect()
    };
    let cycle = one(&some(|line| line.contains("PM: ")));
    assert_eq!(of(&cycle).end, 100_300_000, "{:#?}", cycle.stages);
    assert_eq!(of(&cycle).resume_us, Some(238_000));
    // A device that continues after processes run again.
    let late = SLEEP.replace(
        "[  100.300000]",
        "[  100.250000] sd 0:0:0:0: PM: calling scsi_bus_resume+0x0/0x90 @ 77, parent: target0:0:0\n\
         [  100.260000] sd 0:0:0:0: PM: scsi_bus_resume+0x0/0x90 returned 0 after 9000 usecs\n\
         [  100.270000] PM: resume of devices complete after 151.000 msecs\n\
         [  100.300000]",
    );
    assert_eq!(of(&one(&late)).end, 100_300_000);
}

const REFUSED: &str = "\
[  200.000000] PM: suspend entry (deep)
[  200.150000] Filesystems sync: 0.150 seconds
[  200.151000] Freezing user space processes
[  200.165000] Freezing user space processes completed (elapsed 0.014 seconds)
[  200.165100] OOM killer disabled.
[  200.165200] Freezing remaining freezable tasks
[  220.170000] Freezing remaining freezable tasks failed after 20.004 seconds (1 tasks refusing to freeze, wq_busy=1):
[  220.170100] task:jbd2/dm-0-8     state:D stack:    0 pid:  431 ppid:     2 flags:0x00004000
[  220.170200] Call Trace:
[  220.170300]  <TASK>
[  220.171000] Showing freezable workqueues that are still busy:
[  220.171100] workqueue events_freezable: flags=0x4
[  220.172000] Restarting kernel threads ... done.
[  220.173000] OOM killer enabled.
[  220.174000] Restarting tasks ... done.
[  220.180000] PM: suspend exit
";

#[test]
fn a_message_wrapped_by_a_mail_is_complete_before_a_silence() {
    let wrapped = REFUSED.replace("completed (elapsed 0.014", "completed (elapsed\n0.014");
    let cycle = one(&wrapped
        .replace("[  2", "[  3")
        .replace("[  300.1651", "[  301.1651"));
    let gap = cycle
        .gaps
        .iter()
        .find(|gap| gap.message.contains("completed"));
    let words = "Freezing user space processes completed (elapsed 0.014 seconds)";
    assert_eq!(
        gap.map(|gap| &*gap.message),
        Some(words),
        "{:?}",
        cycle.gaps
    );
}

#[test]
fn a_failed_freeze_keeps_its_time_and_names_the_tasks() {
    let cycle = one(REFUSED);
    assert_eq!(stage(&cycle, StageKind::Freeze), (200_151_000, 220_170_000));
    let times = of(&cycle);
    assert!(times.aborted);
    assert!(
        !cycle.failures[0].message.contains("):;"),
        "{:?}",
        cycle.failures
    );
    assert_eq!(times.suspend_us, Some(20_170_000));
    assert_eq!(times.resume_us, None, "there is nothing to resume");
    let words = &cycle.failures[0].message;
    for name in ["jbd2/dm-0-8 (pid 431", "workqueue events_freezable"] {
        assert!(words.contains(name), "{name}: {words}");
    }
    // With the task's name as in kernels before 5.11, and the failure as before 6.3.
    let old = REFUSED
        .replace(
            "Freezing remaining freezable tasks failed",
            "Freezing of tasks failed",
        )
        .replace(
            "task:jbd2/dm-0-8     state:D stack:    0 pid:  431 ppid:     2 flags:0x00004000",
            "jbd2/dm-0-8     D    0   431      2 0x00004000",
        );
    let cycle = one(&old);
    assert_eq!(stage(&cycle, StageKind::Freeze).1, 220_170_000);
    let words = &cycle.failures[0].message;
    assert!(words.contains("jbd2/dm-0-8 (pid 431"), "{words}");
}

/// Linux 6.11 with pm_debug_messages, on x86: its clock continues in suspend to idle.
const IDLE: &str = "\
[  300.000000] PM: suspend entry (s2idle)
[  300.010000] Freezing user space processes
[  300.020000] Freezing remaining freezable tasks completed (elapsed 0.001 seconds)
[  300.030000] printk: Suspending console(s) (use no_console_suspend to debug)
[  300.100000] PM: suspend of devices complete after 69.000 msecs
[  300.120000] PM: late suspend of devices complete after 19.000 msecs
[  300.130000] ACPI: EC: interrupt blocked
[  300.140000] PM: noirq suspend of devices complete after 19.000 msecs
[  300.150000] PM: suspend-to-idle
[  409.900000] Timekeeping suspended for 109.500 seconds
[  409.910000] PM: Triggering wakeup from IRQ 9
[  409.920000] PM: resume from suspend-to-idle
[  409.930000] ACPI: EC: interrupt unblocked
[  409.950000] PM: noirq resume of devices complete after 25.000 msecs
[  409.960000] PM: early resume of devices complete after 9.000 msecs
[  410.060000] PM: resume of devices complete after 99.000 msecs
[  410.070000] OOM killer enabled.
[  410.080000] Restarting tasks ... done.
[  410.090000] PM: suspend exit
";

#[test]
fn suspend_to_idle_is_asleep_between_its_own_markers_without_firmware_time() {
    let at = |stamp: &str| -> f64 { stamp.parse().unwrap() };
    // A clock that stands still, as on ARM; and one whose kernel logs nothing about the clock.
    let still: String = IDLE
        .lines()
        .map(|line| match at(line[1..13].trim()) > 400.0 {
            true => format!("[{:12.6}]{}\n", at(line[1..13].trim()) - 109.5, &line[14..]),
            false => format!("{line}\n"),
        })
        .collect();
    let without_duration = IDLE.replace("Timekeeping suspended for 109.500 seconds", "i915: awake");
    for (name, text, asleep) in [
        ("goes on", IDLE, 109_500_000),
        ("stands still", &still, 109_500_000),
        ("without_duration", &without_duration, 109_770_000),
    ] {
        let cycle = one(text);
        let times = of(&cycle);
        assert_eq!(times.suspend_us, Some(150_000), "{name}");
        assert_eq!(times.resume_us, Some(170_000), "{name}");
        assert_eq!(times.asleep_us, Some(asleep), "{name}");
        assert_eq!(times.platform_us, None, "{name}: no firmware");
        assert!(!times.aborted);
    }
}

#[test]
fn the_wait_of_pm_test_is_neither_firmware_nor_sleep_nor_resume() {
    // Kernels have the test after devices, noirq, the CPUs or the last stage's devices.
    let text = "\
[   75.538497] PM: suspend entry (s2idle)
[   79.850949] Freezing user space processes
[   79.853684] Freezing remaining freezable tasks completed (elapsed 0.001 seconds)
[   81.514053] PM: suspend of devices complete after 1659.336 msecs
[   81.515616] PM: late suspend of devices complete after 1.509 msecs
[   81.516998] PM: noirq suspend of devices complete after 1.239 msecs
[   81.517016] PM: suspend debug: Waiting for 5 second(s).
[   89.598310] rpi_firmware_set_power: Set V3D to 1
[   95.678380] PM: noirq resume of devices complete after 9160.930 msecs
[   95.679604] PM: early resume of devices complete after 1.069 msecs
[   95.812282] PM: resume of devices complete after 132.657 msecs
[   95.814456] OOM killer enabled.
[   95.814466] Restarting tasks ... done.
[   95.827808] PM: suspend exit
";
    for text in [
        text.to_owned(),
        text.replace("PM: suspend debug", "suspend debug"),
    ] {
        let times = of(&one(&text));
        assert_eq!(times.suspend_us, Some(5_978_519));
        assert_eq!(times.platform_us, None);
        assert_eq!(times.asleep_us, None);
        assert_eq!(times.resume_us, Some(95_827_808 - 86_517_016));
    }
    let deep = SLEEP
        .replace(
            "ACPI: PM: Low-level resume complete",
            "PM: suspend debug: Waiting for 5 second(s).",
        )
        .replace(
            "[  100.063000] PM: Timekeeping suspended for 9.500 seconds\n",
            "",
        )
        .replace(
            "[  100.064000] ACPI: PM: Waking up from system sleep state S3\n",
            "",
        )
        .replace("[  100.1", "[  105.1")
        .replace("[  100.2", "[  105.2")
        .replace("[  100.3", "[  105.3");
    let times = of(&one(&deep));
    assert_eq!(times.suspend_us, Some(62_000));
    assert_eq!((times.platform_us, times.asleep_us), (None, None));
    assert_eq!(times.resume_us, Some(238_000));
}

#[test]
fn no_piece_of_a_path_is_negative() {
    // pm_runtime_force_resume is this machine's early callback for one device, and its name gives
    // no stage; the noirq stage's own duration reaches into the time before it.
    let text = SLEEP
        .replace(
            "[  100.110000] PM: early",
            "[  100.102000] mmc mmc0: PM: calling pm_runtime_force_resume+0x0/0x90 @ 31, parent: none\n\
             [  100.103000] mmc mmc0: PM: pm_runtime_force_resume+0x0/0x90 returned 0 after 900 usecs\n\
             [  100.104000] ahci 0000:00:02.0: PM: calling pci_pm_resume_early+0x0/0x40 @ 31, parent: none\n\
             [  100.105000] ahci 0000:00:02.0: PM: pci_pm_resume_early+0x0/0x40 returned 0 after 900 usecs\n\
             [  100.110000] PM: early",
        )
        .replace("[  100.100000] PM: noirq resume of devices complete after 9.000 msecs", "[  100.100000] PM: noirq resume of devices complete after 49.000 msecs");
    let quiet: String = text
        .lines()
        .filter(|line| !line.contains(" complete after "))
        .map(|line| format!("{line}\n"))
        .collect();
    for text in [text, quiet] {
        let cycle = one(&text);
        let early = cycle.calls.iter().find(|call| &*call.device == "mmc0");
        assert_eq!(early.unwrap().stage, StageKind::ResumeEarly);
        for half in [Half::Suspend, Half::Resume] {
            let graph = Graph::of_half(&cycle, &[], half);
            let path = graph.critical_path();
            for link in &path.links {
                assert!(link.us() >= 0, "{half:?}: {link:?}");
            }
            let sum: Us = path.links.iter().map(|link| link.us()).sum();
            assert_eq!(sum, graph.total_us());
        }
        let graph = Graph::of(&cycle);
        assert_eq!(Some(graph.total_us()), of(&cycle).resume_us);
    }
}

#[test]
fn the_public_logs_have_no_negative_piece() {
    for name in [
        "abreu",
        "ehci414",
        "em28xx-2014",
        "ideapad",
        "lenovo-gpe-b",
        "lkp-kmsg",
        "r8152",
        "rpi3-b",
        "s2idle-screen",
        "thinkbook13s",
        "usbip-faux",
    ] {
        let Some(text) = public(&format!("{name}.txt")) else {
            return;
        };
        let cycles = read(&text[..]).unwrap().cycles;
        for cycle in &cycles {
            for half in [Half::Suspend, Half::Resume] {
                let graph = Graph::of_half(cycle, &[], half);
                for link in &graph.critical_path().links {
                    assert!(link.us() >= 0, "{name}, cycle {}: {link:?}", cycle.number);
                }
            }
        }
    }
}

#[test]
fn non_breaking_spaces_are_spaces_and_quotes_may_be_indented() {
    let whole = one(SLEEP);
    let quoted = |space: &[u8], quote: &str| -> Vec<u8> {
        let mut text = Vec::new();
        for line in SLEEP.lines() {
            text.extend_from_slice(quote.as_bytes());
            for &byte in &line.as_bytes()[..14] {
                match byte {
                    b' ' => text.extend_from_slice(space),
                    byte => text.push(byte),
                }
            }
            text.extend_from_slice(&line.as_bytes()[14..]);
            text.extend_from_slice(b"\r\n");
        }
        text
    };
    for space in [&b"\xc2\xa0"[..], b"\xa0", b"\xef\xbf\xbd", b" "] {
        for quote in ["", "> > ", "  > "] {
            let mut found = read(&quoted(space, quote)[..]).unwrap();
            assert_eq!(found.cycles.len(), 1, "{space:?} {quote:?}");
            assert_eq!(found.cycles.remove(0), whole, "{space:?} {quote:?}");
        }
    }
    if let Some(text) = public("rpi3-b.txt") {
        let found = read(&text[..]).unwrap();
        assert_eq!(found.cycles.len(), 1);
        assert_eq!(
            of(&found.cycles[0]).resume_us,
            Some(95_827_808 - 86_517_016)
        );
    }
}

#[test]
fn a_utf_16_log_is_read_in_either_byte_order() {
    let whole = one(SLEEP);
    let units: Vec<u16> = std::iter::once(0xfeff)
        .chain(SLEEP.encode_utf16())
        .collect();
    for bytes in [u16::to_le_bytes, u16::to_be_bytes] {
        let text: Vec<u8> = units.iter().flat_map(|&unit| bytes(unit)).collect();
        for text in [&text[..], &text[2..]] {
            let found = read(text).unwrap();
            assert_eq!(
                found.cycles,
                std::slice::from_ref(&whole),
                "with a mark or without"
            );
        }
    }
}

#[test]
fn a_log_copied_by_amd_s2idle_has_its_stages_and_no_times_between_them() {
    let text: String = IDLE
        .lines()
        .map(|line| format!("2024-09-20 20:39:41,992 DEBUG:\t{}\n", &line[15..]))
        .collect();
    let cycle = one(&text);
    assert!(!cycle.stamped);
    assert_eq!(cycle.asleep_us, Some(109_500_000));
    let lasted = |kind| stage(&cycle, kind).1 - stage(&cycle, kind).0;
    assert_eq!(lasted(StageKind::Suspend), 69_000);
    assert_eq!(lasted(StageKind::SuspendNoirq), 19_000);
    assert_eq!(lasted(StageKind::Resume), 99_000);
    let times = of(&cycle);
    assert_eq!((times.suspend_us, times.resume_us), (None, None));
    assert_eq!(times.asleep_us, Some(109_500_000));
    if let Some(text) = public("s2idle-screen.txt") {
        let found = read(&text[..]).unwrap();
        assert_eq!(found.cycles.len(), 39);
        assert_eq!(found.cycles.iter().filter(|cycle| cycle.stamped).count(), 3);
    }
}

#[test]
fn a_syslogs_wall_clock_gives_the_time_asleep() {
    let text = |asleep: i64| -> String {
        let lines = SLEEP.lines().filter(|line| !line.contains("Timekeeping"));
        let mut text =
            String::from("Nov 21 18:01:30 host kernel: [   90.400000] usb 1-1: new device\n");
        for line in lines {
            let at: f64 = line[1..13].trim().parse().unwrap();
            // Messages before the sleep are written after it, except the first lines.
            let delay = if at < 100.002 { 0 } else { asleep };
            let seconds = 18 * 3600 + (at as i64) + delay;
            let clock = format!(
                "{:02}:{:02}:{:02}",
                seconds / 3600,
                seconds / 60 % 60,
                seconds % 60
            );
            text += &format!("Nov 21 {clock} host kernel: {line}\n");
        }
        let seconds = 18 * 3600 + 110 + asleep;
        let clock = format!(
            "{:02}:{:02}:{:02}",
            seconds / 3600,
            seconds / 60 % 60,
            seconds % 60
        );
        text + &format!("Nov 21 {clock} host kernel: [  110.000000] usb 1-1: link\n")
    };
    for asleep in [15, 3600] {
        let cycle = one(&text(asleep));
        let found = cycle.asleep_us.unwrap();
        assert!((found - asleep * 1_000_000).abs() <= 1_000_000, "{found}");
    }
    assert_eq!(
        one(&text(0)).asleep_us,
        None,
        "not more than the stamps' step"
    );
}

#[test]
fn the_kernels_message_before_a_long_gap_is_kept() {
    let text = SLEEP
        .replace("[  100.1", "[  101.1")
        .replace("[  100.2", "[  101.2")
        .replace("[  100.3", "[  101.3");
    let cycle = one(&text);
    let gap = cycle
        .gaps
        .iter()
        .max_by_key(|gap| gap.end - gap.start)
        .unwrap();
    assert_eq!(
        gap.message,
        "ACPI: PM: Waking up from system sleep state S3"
    );
    assert_eq!((gap.start, gap.end), (100_064_000, 101_100_000));
    if let Some(text) = public("abreu.txt") {
        let cycle = read(&text[..]).unwrap().cycles.remove(0);
        let gap = cycle
            .gaps
            .iter()
            .find(|gap| gap.message.contains("Waking up from"));
        assert_eq!(gap.map(|gap| gap.end - gap.start), Some(1_056_222));
    }
}

/// Returns the same bytes endlessly.
struct Endless<'a> {
    bytes: &'a [u8],
    at: usize,
    given: u64,
}

impl std::io::Read for Endless<'_> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let mut rest = &mut *into;
        while !rest.is_empty() {
            let count = rest.len().min(self.bytes.len() - self.at);
            let (now, later) = rest.split_at_mut(count);
            now.copy_from_slice(&self.bytes[self.at..self.at + count]);
            self.at = (self.at + count) % self.bytes.len();
            rest = later;
        }
        self.given += into.len() as u64;
        assert!(self.given < 2 << 30, "it never gives up");
        Ok(into.len())
    }
}

#[test]
fn an_endless_input_that_is_no_log_is_refused_in_one_line() {
    let random: Vec<u8> = (0..1 << 20)
        .scan(1_u64, |state, _| {
            *state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            Some((*state >> 56) as u8)
        })
        .collect();
    for (bytes, words) in [
        (&random[..], "not text"),
        (b"\0", "without the end of a line"),
        (
            b"a line of some program that has no time at all, and goes on and on and on\n",
            "no line with a time",
        ),
        (b"LPKSHHRH\0\0", "journalctl --file"),
        (b"BZh91AY", "bzip2"),
    ] {
        let bytes = bytes.repeat((1 << 20) / bytes.len());
        let endless = Endless {
            bytes: &bytes,
            at: 0,
            given: 0,
        };
        let error = read(endless).unwrap_err().to_string();
        assert!(error.contains(words) && !error.contains('\n'), "{error}");
    }
}

#[test]
fn a_cycle_without_an_end_is_kept_up_to_a_limit_and_the_rest_is_counted() {
    let mut text = String::from(&SLEEP[..SLEEP.find("[  100.041000]").unwrap()]);
    for number in 0..150_000 {
        text += &format!(
            "[  100.050000] d{number} d{number}: PM: calling a_suspend+0x0/0x20 @ 31, parent: none\n"
        );
    }
    let found = log(&text);
    assert_eq!(found.cycles[0].calls.len(), 100_000);
    assert_eq!(found.left_out.too_many, 150_001 - 100_000);
}

#[test]
fn a_compressed_log_is_read_directly() {
    use std::io::Write;
    use std::process::{Command, Stdio};
    let whole = read(SLEEP.as_bytes()).unwrap();
    for packer in ["gzip", "xz", "zstd"] {
        let spawned = Command::new(packer)
            .arg("-c")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let Ok(mut child) = spawned else {
            eprintln!("skipped: {packer} is not installed");
            continue;
        };
        child
            .stdin
            .take()
            .unwrap()
            .write_all(SLEEP.as_bytes())
            .unwrap();
        let packed = child.wait_with_output().unwrap().stdout;
        assert_eq!(read(&packed[..]).unwrap(), whole, "{packer}");
        // As joined by `cat`: the second one is the same cycle again.
        let twice = read(&[&packed[..], &packed].concat()[..]).unwrap();
        assert_eq!(twice.lines, 2 * whole.lines, "{packer}");
        // Truncated: an error by its name, and no panic.
        let error = read(&packed[..packed.len() / 2]).unwrap_err().to_string();
        assert!(error.contains("it is packed, and c"), "{packer}: {error}");
        // Tapes are padded with zeros; pzstd announces in a separate frame how long the next one
        // is.
        let filled = match packer {
            "gzip" => [&packed[..], &[0; 700]].concat(),
            "zstd" => {
                let skipped = b"\x50\x2a\x4d\x18\x04\0\0\0\x12\x34\x56\x78";
                [skipped, &packed[..], skipped, skipped].concat()
            }
            _ => continue,
        };
        assert_eq!(read(&filled[..]).unwrap(), whole, "{packer}");
    }
}

fn analysis(text: &str, changes: Vec<Change>) -> Result<Analysis, String> {
    let input = Input {
        name: "log".to_owned(),
        source: Source::default(),
        cycles: log(text).cycles,
        notes: Vec::new(),
        ..Input::default()
    };
    let question = Question {
        changes,
        ..Question::default()
    };
    analyse(vec![input], &question).map_err(|error| error.to_string())
}

#[test]
fn a_log_without_device_times_gives_no_device_advice_and_names_the_silences() {
    let quiet: String = SLEEP
        .lines()
        .filter(|line| !line.contains("usb1"))
        .map(|line| format!("{line}\n"))
        .collect();
    let found = analysis(&quiet, Vec::new()).unwrap();
    let machine = &found.machines[0];
    assert!(machine.removals.is_empty() && machine.suspend_removals.is_empty());
    for half in [Half::Suspend, Half::Resume] {
        let why = no_devices(machine.shown(), half).unwrap();
        assert!(why.contains("pm_print_times"), "{why}");
        let path = machine.shown().path_of(half);
        let silence = path.iter().find(|link| link.what == LinkKind::Silence);
        assert!(
            silence.is_some_and(|link| link.message.is_some()),
            "{path:#?}"
        );
    }
    // The time between the stages has its name, too.
    let waking = machine.shown().path.iter().find(|link| {
        let message = link.message.as_deref().unwrap_or_default();
        message == "ACPI: PM: Waking up from system sleep state S3"
    });
    assert_eq!(
        waking.unwrap().duration_us,
        27_000,
        "to where the next stage begins"
    );
    let sum: Us = machine
        .shown()
        .path
        .iter()
        .map(|link| link.duration_us)
        .sum();
    assert_eq!(Some(sum), machine.shown().resume_us);
    let error = analysis(&quiet, vec![Change::without("usb*").unwrap()]).unwrap_err();
    assert!(error.contains("pm_print_times"), "{error}");
}

#[test]
fn devices_with_only_a_duration_are_in_no_path() {
    let old: String = SLEEP
        .lines()
        .filter(|line| !line.contains("usb1"))
        .flat_map(|line| {
            let sd = "[  100.185000] PM: resume of drv:sd dev:3:0:0:0 complete after 70.000 msecs";
            let usb = "[  100.186000] PM: resume of drv:usb dev:usb1 complete after 60.000 msecs";
            let own = line.contains("PM: resume of devices complete");
            let before = own.then_some([sd, usb]).into_iter().flatten();
            before
                .chain([line])
                .map(|line| format!("{line}\n"))
                .collect::<Vec<_>>()
        })
        .collect();
    let found = analysis(&old, Vec::new()).unwrap();
    let machine = &found.machines[0];
    assert_eq!(machine.devices.len(), 2, "how long they took is known");
    assert_eq!(machine.devices[0].slack_us, None);
    assert!(machine.removals.is_empty());
    assert!(machine.shown().path.iter().all(|link| link.call.is_none()));
    let error = analysis(&old, vec![Change::without("sd").unwrap()]).unwrap_err();
    assert!(error.contains("not what they waited for"), "{error}");
}

#[test]
fn a_suspend_has_its_devices_and_their_savings() {
    let long = SLEEP
        .replace("[  100.04", "[  165.04")
        .replace("[  100.05", "[  165.05")
        .replace("[  100.06", "[  165.06")
        .replace("returned 0 after 30000", "returned 0 after 65030000")
        .replace("[  100.1", "[  165.1")
        .replace("[  100.2", "[  165.2")
        .replace("[  100.3", "[  165.3");
    let found = analysis(&long, Vec::new()).unwrap();
    let machine = &found.machines[0];
    let first = &machine.suspend_devices[0];
    assert_eq!((&*first.device, first.on_path), ("usb1", 1));
    assert_eq!(first.suspend_us.median, 65_030_000);
    assert_eq!(machine.suspend_removals[0].saves_us, 65_030_000);
}

#[test]
fn a_failed_freeze_gets_no_advice_on_a_resume() {
    let found = analysis(REFUSED, Vec::new()).unwrap();
    let machine = &found.machines[0];
    assert!(machine.shown().path.is_empty());
    assert!(!machine.shown().suspend_path.is_empty());
    assert!(machine.removals.is_empty());
}

#[test]
fn of_two_cycles_the_median_is_their_mean_and_the_slower_one_is_shown() {
    let second = SLEEP
        .replace("[  100.", "[  500.")
        .replace("[  500.3", "[  500.9");
    let found = analysis(&format!("{SLEEP}{second}"), Vec::new()).unwrap();
    let machine = &found.machines[0];
    let all = machine.resume_us.unwrap();
    assert_eq!(all.median, (all.min + all.max) / 2);
    assert!(all.min < all.max);
    assert_eq!(machine.shown().resume_us, Some(all.max));
}

/// An excerpt without the stages of the suspend.
const WITHOUT_SUSPEND: &str = "\
[  881.799289] PM: suspend entry (s2idle)
[  897.491720] PM: resume from suspend-to-idle
[  898.153259] PM: noirq resume of devices complete after 556.675 msecs
[  898.160000] PM: early resume of devices complete after 5.0 msecs
[  898.960000] PM: resume of devices complete after 700.0 msecs
[  899.826378] PM: suspend exit
";

#[test]
fn the_kernels_first_message_starts_a_resume_whose_suspend_has_no_lines() {
    let resume = |text: &str| {
        let log = read(text.as_bytes()).unwrap();
        assert_eq!(log.cycles.len(), 1, "{text}");
        let cycle = &log.cycles[0];
        let graph = Graph::of(cycle);
        let us = times::of(cycle).unwrap().resume_us;
        assert_eq!(us, Some(graph.total_us()), "{text}");
        us.unwrap()
    };
    let all = 899_826_378 - 897_491_720;
    assert_eq!(resume(WITHOUT_SUSPEND), all);
    let words = "PM: resume from suspend-to-idle";
    let deep = WITHOUT_SUSPEND.replace("s2idle", "deep");
    let deep = deep.replace(words, "ACPI: PM: Low-level resume complete");
    assert_eq!(resume(&deep), all);
    // With one stage of the suspend it is the same.
    let entry = "(s2idle)\n";
    let suspends = "[  882.100000] PM: noirq suspend of devices complete after 6.675 msecs\n";
    let with_one = WITHOUT_SUSPEND.replace(entry, &format!("{entry}{suspends}"));
    assert_eq!(resume(&with_one), all);
    // Without that message the first stage is the only evidence.
    let silent: String = WITHOUT_SUSPEND
        .lines()
        .filter(|line| !line.contains(words))
        .map(|line| format!("{line}\n"))
        .collect();
    assert_eq!(resume(&silent), 899_826_378 - (898_153_259 - 556_675));
    // Nothing but three lines of it.
    let three: String = WITHOUT_SUSPEND
        .lines()
        .filter(|line| !line.contains("devices"))
        .map(|line| format!("{line}\n"))
        .collect();
    assert_eq!(resume(&three), all);
}

#[test]
fn a_first_message_after_a_stage_of_the_resume_does_not_start_it() {
    let late = "\
[  898.153259] PM: noirq resume of devices complete after 556.675 msecs
[  898.160000] PM: early resume of devices complete after 5.0 msecs
[  898.170000] ACPI: PM: Waking up from system sleep state S3
[  898.960000] PM: resume of devices complete after 700.0 msecs
[  899.826378] PM: suspend exit
";
    let log = read(late.as_bytes()).unwrap();
    let times = times::of(&log.cycles[0]).unwrap();
    assert_eq!(times.resume_start, Some(898_153_259 - 556_675));
}

#[test]
fn freezing_takes_what_its_line_says_and_not_the_time_until_the_cpus_go_offline() {
    let log = read(
        b"[  100.000000] Filesystems sync: 0.015 seconds\n\
          [  100.010000] Freezing user space processes ... (elapsed 0.001 seconds) done.\n\
          [  100.330000] i2c_hid_acpi i2c-WCOM5120:00: failed to change power setting.\n\
          [  100.669000] Disabling non-boot CPUs ...\n\
          [  100.672000] smpboot: CPU 1 is now offline\n\
          [  100.676000] smpboot: CPU 2 is now offline\n\
          [  100.685000] Enabling non-boot CPUs ...\n\
          [  100.690000] CPU1 is up\n\
          [  100.695000] CPU2 is up\n\
          [  100.965000] Restarting tasks ... done.\n"
            .as_slice(),
    )
    .unwrap();
    let cycle = &log.cycles[0];
    assert_eq!(stage(cycle, StageKind::Sync), (99_985_000, 100_000_000));
    assert_eq!(stage(cycle, StageKind::Freeze), (100_010_000, 100_011_000));
    for pair in cycle.stages.windows(2) {
        assert!(pair[0].end <= pair[1].start, "{pair:?}");
    }
}

const ABORTED: &str = "\
PM: suspend entry (deep)
PM: dpm_run_callback(): pci_pm_suspend+0x0/0x1b0 returns -16
PM: Device 0000:00:14.0 failed to suspend async: error -16
PM: Some devices failed to suspend, or early wake event detected
PM: suspend exit
";

fn behind(prefix: &str, text: &str) -> String {
    let lines = text.lines().map(|line| format!("{prefix}{line}\n"));
    lines.collect()
}

#[test]
fn lines_without_a_stamp_are_read_behind_a_host_an_unknown_date_or_spaces() {
    let whole = one(ABORTED);
    let devices: Vec<_> = whole
        .failures
        .iter()
        .map(|one| one.device.clone())
        .collect();
    for prefix in [
        "   ",
        "> > ",
        "dom0 kernel: ",
        "Μαρ 02 10:00:00 host kernel: ",
        "3月 02 10:00:00 host kernel: ",
    ] {
        assert_eq!(one(&behind(prefix, ABORTED)), whole, "{prefix}");
    }
    // A month in small letters is one.
    let small = one(&behind("aug   05 10:00:00 host kernel: ", ABORTED));
    let named: Vec<_> = small
        .failures
        .iter()
        .map(|one| one.device.clone())
        .collect();
    assert_eq!(named, devices);
    assert!(small.at.is_some());
}

#[test]
fn a_mail_as_it_was_sent_has_its_letters_and_spaces_in_code() {
    let coded = SLEEP.replace("[  ", ">> [=C2=A0=C2=A0 ");
    assert_eq!(one(&coded), one(SLEEP));
}

#[test]
fn deltas_with_a_comma_are_as_those_with_a_point() {
    let delta = "\
[ +15.300000] PM: suspend entry (deep)
[  +0.300000] Freezing user space processes ... (elapsed 0.002 seconds) done.
[  +0.200000] ACPI: Preparing to enter system sleep state S3
[  +0.003000] ACPI: Low-level resume complete
[  +1.300000] Restarting tasks ... done.
[  +0.030000] PM: suspend exit
";
    let comma: Vec<String> = delta
        .lines()
        .map(|line| line.replacen('.', ",", 1))
        .collect();
    assert_eq!(one(&comma.join("\n")), one(delta));
}

#[test]
fn a_suspend_of_which_the_log_lacks_the_end_has_a_lower_bound() {
    let until = |words: &str| {
        let end = SLEEP.find(words).unwrap() + words.len();
        of(&one(&format!("{}\n", &SLEEP[..end])))
    };
    let times = until("37.000 msecs");
    assert_eq!(
        (times.suspend_us, times.suspend_at_least_us),
        (None, Some(41_000))
    );
    let times = until("9.000 msecs");
    assert_eq!(times.suspend_us, Some(60_000));
}

#[test]
fn the_json_of_dmesg_is_read() {
    let lines = SLEEP.lines().map(|line| {
        let (stamp, message) = line[1..].split_once("] ").unwrap();
        (stamp, format!("{message:?}"))
    });
    let pretty = lines.clone().map(|(stamp, message)| {
        format!("      {{\n         \"pri\": 6,\n         \"time\": {stamp},\n         \"msg\": {message}\n      }},")
    });
    let flat =
        lines.map(|(stamp, message)| format!("{{\"pri\":6,\"time\":{stamp},\"msg\":{message}}},"));
    for lines in [pretty.collect::<Vec<_>>(), flat.collect()] {
        let text = format!("{{\n   \"dmesg\": [\n{}\n   ]\n}}\n", lines.join("\n"));
        assert_eq!(one(&text), one(SLEEP));
    }
}

#[test]
fn a_terminals_break_behind_the_host_parts_no_line() {
    let text = behind("Nov 21 18:00:00 host kernel: ", ABORTED);
    let broken = text.replace("host kernel: ", "host\n kernel: ");
    assert_eq!(one(&broken), one(&text));
}

#[test]
fn the_words_of_firmware_are_not_the_kernels() {
    let firmware = "NOTICE:  BL31: v2.4\nlpddr4 self-refresh\n";
    let text: String = SLEEP
        .lines()
        .map(|line| format!("{line}\n{firmware}"))
        .collect();
    let found = one(&text);
    assert_eq!(found.gaps, one(SLEEP).gaps);
    assert!(!found.gaps.is_empty());
}

#[test]
fn a_suspend_to_disk_is_read_without_stamps_and_has_one_failure_of_one_image() {
    let untimed = "\
[  100.000000] PM: Image saving done
[  100.000000] PM: hibernation: Wrote 1000000 kbytes in 2.50 seconds (400.00 MB/s)
[  100.000000] PM: Image mismatch: architecture specific data
[  100.000000] PM: Error -1 resuming
[  100.000000] PM: Failed to load hibernation image, recovering.
"
    .replace("[  100.000000]", "");
    let log = read(untimed.as_bytes()).unwrap();
    assert_eq!(log.hibernations.len(), 1);
    assert_eq!(log.hibernations[0].written.unwrap().took_us, 2_500_000);
    assert_eq!(log.hibernations[0].failures.len(), 1);
}

#[test]
fn words_with_the_date_may_have_their_prefix_twice() {
    let text = |prefix: &str| {
        format!(
            "[  100.000000] {prefix}PM: suspend entry 2016-01-01 10:00:20.000000000 UTC\n\
             [  100.100000] PM: suspend of devices complete after 90.0 msecs\n\
             [  100.200000] PM: noirq suspend of devices complete after 90.0 msecs\n\
             [  100.300000] PM: noirq resume of devices complete after 50.0 msecs\n\
             [  100.400000] PM: resume of devices complete after 90.0 msecs\n\
             [  100.500000] {prefix}PM: suspend exit 2016-01-01 10:00:32.500000000 UTC\n"
        )
    };
    assert_eq!(one(&text("PM: ")).asleep_us, Some(12_000_000));
    assert_eq!(one(&text("")).asleep_us, Some(12_000_000));
}

#[test]
fn a_pause_before_freezing_is_no_sleep_of_a_logger_whose_stamps_agree_with_the_kernel() {
    let monotonic = SLEEP.replace("] ", "] host kernel: ");
    let whole = of(&one(&monotonic)).suspend_us;
    assert_eq!(whole, of(&one(SLEEP)).suspend_us);
    let paused = monotonic.replacen("[  100.000000]", "[   97.000000]", 1);
    assert_eq!(of(&one(&paused)).suspend_us, whole.map(|us| us + 3_000_000));
    // To 6.2 the time of freezing is in the line of its beginning.
    let old = SLEEP.replace(
        "[  100.001000] Freezing user space processes\n",
        "[  100.000100] Freezing user space processes ... (elapsed 0.002 seconds) done.\n",
    );
    let old = old.replace(
        "[  100.002000] Freezing user space processes completed (elapsed 0.001 seconds)\n",
        "",
    );
    let old = old.replace(
        "[  100.003000] Freezing remaining freezable tasks completed (elapsed 0.000 seconds)",
        "[  100.002900] Freezing remaining freezable tasks ... (elapsed 0.000 seconds) done.",
    );
    assert_eq!(
        of(&one(&old.replace("] ", "] host kernel: "))).suspend_us,
        whole
    );
}

/// From that line on.
fn from<'a>(text: &'a str, words: &str) -> &'a str {
    let at = text.find(words).unwrap();
    &text[text[..at].rfind('\n').map_or(0, |at| at + 1)..]
}

#[test]
fn without_the_lines_before_freezing_the_suspend_has_no_length() {
    let aborted = "\
[  100.000000] PM: suspend entry (deep)
[  100.001000] Freezing user space processes
[  100.002000] Freezing user space processes completed (elapsed 0.001 seconds)
[  100.003000] OOM killer disabled.
[  100.003100] Freezing remaining freezable tasks
[  100.004000] Freezing remaining freezable tasks completed (elapsed 0.000 seconds)
[  100.005000] printk: Suspending console(s) (use no_console_suspend to debug)
[  100.010000] usb 1-1: PM: failed to suspend: error -16
[  100.011000] PM: Some devices failed to suspend, or early wake event detected
[  100.100000] OOM killer enabled.
[  100.200000] Restarting tasks ... done.
[  100.300000] PM: suspend exit
";
    for text in [aborted, SLEEP] {
        let whole = of(&one(text));
        assert!(whole.suspend_us.is_some());
        for words in ["Freezing user space processes", "Freezing remaining"] {
            let cut = one(from(text, words));
            let times = of(&cut);
            assert_eq!((cut.cut, times.suspend_us), (true, None), "{words}");
            assert_eq!(times.resume_us, whole.resume_us, "{words}");
        }
    }
}

#[test]
fn a_log_that_begins_with_the_wake_up_has_its_sleep() {
    for words in ["Low-level resume complete", "Timekeeping suspended"] {
        let cut = one(from(SLEEP, words));
        assert_eq!((cut.cut, cut.asleep_us), (true, Some(9_500_000)), "{words}");
    }
}

#[test]
fn a_log_that_begins_within_the_resume_has_a_lower_bound_of_it() {
    let text = "\
[  500.100000] CPU3 is up
[  500.120000] CPU4 is up
[  500.200000] ACPI: Waking up from system sleep state S3
[  500.400000] PM: noirq resume of devices complete after 14.000 msecs
[  500.416000] PM: early resume of devices complete after 15.000 msecs
[  501.216000] PM: resume of devices complete after 800.000 msecs
[  501.217000] PM: Finishing wakeup.
[  501.217010] Restarting tasks ...
[  501.220000] done.
";
    let times = of(&one(text));
    assert_eq!(times.resume_us, None);
    assert_eq!(times.resume_at_least_us, Some(1_120_000));
}

const ATTEMPTS: &str = "\
PM: suspend entry (deep)
xhci_hcd 0000:05:00.0: PM: failed to suspend: error -16
PM: Some devices failed to suspend, or early wake event detected
PM: suspend exit
PM: suspend entry (s2idle)
xhci_hcd 0000:05:00.0: PM: failed to suspend: error -16
PM: Some devices failed to suspend, or early wake event detected
PM: suspend exit
";

#[test]
fn a_time_of_the_day_is_no_part_of_a_driver() {
    let found = log(&behind("12:00:00  ", ATTEMPTS)).cycles;
    assert_eq!(found, log(ATTEMPTS).cycles);
    let sleeps = found.iter().map(|cycle| cycle.sleep.as_deref());
    assert_eq!(Vec::from_iter(sleeps), [Some("deep"), Some("s2idle")]);
    for cycle in &found {
        assert_eq!(cycle.failures[0].driver.as_deref(), Some("xhci_hcd"));
    }
}

#[test]
fn of_attempts_without_their_begin_each_is_one() {
    let lines = ATTEMPTS
        .lines()
        .filter(|line| !line.contains("PM: suspend e"));
    let text: String = lines.map(|line| format!("{line}\n")).collect();
    assert_eq!(log(&text).cycles.len(), 2);
    let mut at = 100;
    let mut stamped = |line: &str| {
        at += 1;
        format!("[  {at}.000000] {line}\n")
    };
    let text: String = text.lines().map(&mut stamped).collect();
    assert_eq!(log(&text).cycles.len(), 2);
}

#[test]
fn a_mail_as_it_was_sent_names_who_refused() {
    let mail = "\
kernel: PM: suspend entry (s2idle)
kernel: Freezing of tasks failed after 20.001 seconds (1 tasks refusing t=
o freeze, wq_busy=3D0):
kernel: rsync           D    0  4321      1 0x00000004
kernel: Call Trace:
";
    let failures = one(mail).failures;
    assert_eq!(failures.len(), 1);
    let message = &failures[0].message;
    assert!(message.contains("wq_busy=0"), "{message}");
    assert!(message.ends_with("rsync (pid 4321)"), "{message}");
    let to_disk = "\
=CE=9C=CE=B1=CF=81 02 10:00:00 host kernel: PM: hibernation: hibernation entry
=CE=9C=CE=B1=CF=81 02 10:00:20 host kernel: Freezing of tasks failed after 20.003=
=20
seconds (1 tasks refusing to freeze, wq_busy=3D0):
=CE=9C=CE=B1=CF=81 02 10:00:20 host kernel: task:Xorg            state:D stack:  =
  0=20
pid: 1200 ppid:  1100 flags:0x00000004
";
    let failures = log(to_disk).hibernations.remove(0).failures;
    assert_eq!(failures.len(), 1);
    let message = &failures[0];
    assert!(message.contains("wq_busy=0"), "{message}");
    assert!(message.ends_with("Xorg (pid 1200)"), "{message}");
}

#[test]
fn a_leap_from_one_cycle_to_the_next_is_no_jump_of_the_clock() {
    let found = log("\
[7000.700000] PM: suspend devices took 0.900 seconds
[7004.000000] PM: resume devices took 0.300 seconds
[9000.100000] PM: suspend devices took 0.800 seconds
[9003.600000] PM: resume devices took 0.600 seconds
");
    assert_eq!((found.cycles.len(), found.left_out.clock_jumps), (2, 0));
}

#[test]
fn a_cycle_whose_lines_were_read_late_is_one_without_figures_too() {
    let text = "\
Apr 01 10:00:00 host kernel: PM: Preparing system for mem sleep
Apr 02 10:00:00 host kernel: Freezing user space processes ... (elapsed 0.001 seconds) done.
Apr 02 10:00:00 host kernel: Freezing remaining freezable tasks ... (elapsed 0.000 seconds) done.
Apr 02 10:00:00 host kernel: PM: Entering mem sleep
Apr 02 10:00:00 host kernel: sd 0:0:0:0: [sda] Synchronizing SCSI cache
";
    let found = analysis(text, vec![]).unwrap();
    assert!(!found.machines[0].shown().stamped);
}

#[test]
fn a_line_that_lost_its_end_is_no_second_failure() {
    let text = "\
[4000.100000] Freezing remaining freezable tasks
[4000.200000] nvidia 0000:05:00.0: PM: dpm_run_callback(): pci_pm_suspend returns -5
[4000.200020] nvidia 0000:05:00.0: PM: failed to suspe";
    let failed = |text: &str| analysis(text, vec![]).unwrap().machines[0].failed().len();
    assert_eq!(failed(text), 1);
    assert_eq!(
        failed(&text.replace("05:00.0: PM: failed", "06:00.0: PM: failed")),
        2
    );
}

#[test]
fn an_image_that_is_loaded_is_of_a_suspend_to_disk() {
    let found = log("\
[    9.100000] PM: Using 3 thread(s) for lzo decompression
[    9.100010] PM: Loading and decompressing image data (2000000 pages)...
[    9.130000] PM: Image loading progress:   0%
");
    assert_eq!((found.hibernations.len(), found.cycles.len()), (1, 0));
    let created = "\
[    9.000000] PM: hibernation: Creating image
[    9.000000] PM: hibernation: Need to copy 3000000 pages
[    9.000000] ACPI: PM: Restoring platform NVS memory
"
    .replace("[    9.000000] ", "");
    let found = log(&created);
    assert_eq!((found.hibernations.len(), found.cycles.len()), (1, 0));
}

#[test]
fn lines_with_a_date_of_a_language_that_is_not_known_are_said_to_be_such() {
    let text = behind(
        "നവം 02 10:00:00 host kernel: ",
        "\
ACPI: PM: Low-level resume complete
ACPI: PM: Waking up from system sleep state S3
",
    );
    let found = log(&text);
    assert!(found.unread.is_some_and(|form| form.contains("date")));
    assert!(found.or_no_suspend("log".as_ref()).is_err());
}

#[test]
fn a_log_that_ends_in_the_resume_ends_not_in_the_suspend() {
    let text = "\
Feb 01 10:00:00 host kernel: PM: Preparing system for sleep (mem)
Feb 01 10:00:30 host kernel: PM: Suspending system (mem)
Feb 01 10:00:30 host kernel: PM: suspend of devices complete after 1100.000 msecs
Feb 01 10:00:30 host kernel: PM: noirq suspend of devices complete after 17.000 msecs
Feb 01 10:00:30 host kernel: PM: noirq resume of devices complete after 15.000 msecs
Feb 01 10:00:30 host kernel: PM: early resume of devices complete after 18.000 msecs
";
    let found = analysis(text, vec![]).unwrap();
    let why = reveille_resume::analysis::no_length(found.machines[0].shown(), Half::Resume);
    assert!(!why.unwrap().contains("suspend"));
}

#[test]
fn a_half_without_its_stages_next_to_the_sleep_has_a_lower_bound() {
    let times = of(&log("\
[  700.000000] PM: suspend entry (deep)
[  700.100000] Freezing remaining freezable tasks completed (elapsed 0.001 seconds)
[  702.000000] PM: suspend devices took 1.850 seconds
[  703.000000] serial 00:01: activated
[  703.200000] PM: resume devices took 0.250 seconds
[  703.210000] Restarting tasks ... done.
[  703.300000] PM: suspend exit
")
    .cycles[0]);
    assert_eq!((times.suspend_us, times.resume_us), (None, None));
    let bounds = (times.suspend_at_least_us, times.resume_at_least_us);
    assert!(bounds.0.is_some_and(|us| us <= 2_000_000), "{bounds:?}");
    assert!(bounds.1.is_some_and(|us| us <= 350_000), "{bounds:?}");
    // One that failed before has no such stage.
    let times = of(&log("\
[  700.000000] PM: suspend entry (deep)
[  700.100000] Freezing remaining freezable tasks completed (elapsed 0.001 seconds)
[  700.200000] serial 00:01: PM: failed to suspend: error -16
[  702.000000] PM: Some devices failed to suspend, or early wake event detected
[  702.250000] PM: resume devices took 0.250 seconds
[  702.300000] Restarting tasks ... done.
[  702.400000] PM: suspend exit
")
    .cycles[0]);
    assert_eq!(times.resume_us, Some(400_000));
}

#[test]
fn a_wait_of_pm_test_is_no_sleep() {
    let times = of(&log("\
[  700.000000] PM: suspend entry (s2idle)
[  700.100000] Freezing remaining freezable tasks completed (elapsed 0.001 seconds)
[  700.200000] PM: noirq suspend of devices complete after 9.000 msecs
[  700.201000] PM: suspend debug: Waiting for 5 second(s).
[  705.300000] PM: noirq resume of devices complete after 9.000 msecs
[  705.400000] Restarting tasks ... done.
[  705.500000] PM: suspend exit
")
    .cycles[0]);
    assert_eq!((times.asleep_us, times.asleep_at_most_us), (None, None));
}

#[test]
fn a_line_may_have_its_cpu_in_a_bracket_of_its_own() {
    let text = SLEEP.replace("] ", "][ 3] [  T512] ");
    let (found, plain) = (log(&text), log(SLEEP));
    assert_eq!(found.event_lines, plain.event_lines);
    assert_eq!(of(&found.cycles[0]), of(&plain.cycles[0]));
}

#[test]
fn one_line_with_a_stamp_does_not_hide_what_the_others_say() {
    let read = log("\
PM: suspend entry (deep)
Filesystems sync: 0.031 seconds
PM: dpm_run_callback(): spi_drv_resume+0x0/0x4c returns -19
PM: Device flash.3.auto failed to resume async: error -19
Restarting tasks ... done.
root@board:~# [   35.451572] vdd9: disabling
");
    let failures = &read.cycles[0].failures;
    assert!(
        failures
            .iter()
            .any(|one| one.device.as_deref() == Some("flash.3.auto"))
    );
}

#[test]
fn a_driver_that_waits_to_cool_keeps_the_machine_from_sleeping() {
    let ends = |cooled: &str| {
        of(&log(&format!(
            "\
[  700.000000] PM: suspend entry (s2idle)
[  700.100000] Freezing remaining freezable tasks completed (elapsed 0.001 seconds)
[  700.200000] ACPI: EC: interrupt blocked
[  731.000000] intel_pch_thermal 0000:00:14.9: {cooled}
[  731.050000] ACPI: EC: interrupt unblocked
[  731.400000] Restarting tasks ... done.
[  731.500000] PM: suspend exit
"
        ))
        .cycles[0])
    };
    for cooled in [
        "Wakeup event detected, abort cooling",
        "CPU-PCH is cool [41C]",
    ] {
        let times = ends(cooled);
        assert_eq!(times.suspend_at_least_us, Some(31_000_000), "{cooled}");
        assert_eq!(times.asleep_at_most_us, Some(50_000), "{cooled}");
    }
}

#[test]
fn entry_and_exit_alone_bound_a_long_sleep() {
    for seconds in [370, 2_000, 40_000] {
        let exit = 700 + seconds;
        let text = format!(
            "[  700.000000] PM: suspend entry (s2idle)\n[{exit:5}.000000] PM: suspend exit\n"
        );
        let read = log(&text);
        let times = of(&read.cycles[0]);
        assert_eq!(times.asleep_at_most_us, Some(seconds * 1_000_000));
        assert_eq!(read.left_out.clock_jumps, 0);
    }
    // And a sync may take as long as it says.
    let text = "\
[  700.000000] PM: suspend entry (deep)
[ 1210.020000] Filesystems sync: 510.010 seconds
[ 1210.030000] Freezing user space processes
";
    assert_eq!(log(text).left_out.clock_jumps, 0);
}

#[test]
fn what_comes_after_the_thaw_is_no_silence_of_the_resume() {
    let found = analysis(
        "\
[  700.000000] PM: Syncing filesystems ... done.
[  700.010000] Freezing user space processes ... (elapsed 0.01 seconds) done.
[  700.050000] suspend of devices complete after 30.000 msecs
[  700.700000] PM: resume of devices complete after 100.000 msecs
[  700.900000] Restarting tasks ... done.
[  701.000000] codec: amplifier on
[  709.000000] charger: valid
[  710.000000] PM: Syncing filesystems ... done.
",
        Vec::new(),
    )
    .unwrap();
    let cycle = found.machines[0].shown();
    assert!(
        cycle.gaps.iter().all(|gap| gap.start < 700_900_000),
        "{:?}",
        cycle.gaps
    );
}

#[test]
fn processes_that_froze_are_not_said_never_to_have_frozen() {
    let attempt = |at: u32| {
        format!(
            "[ {at}.000000] Filesystems sync: 0.012 seconds\n\
             [ {at}.020000] Freezing user space processes completed (elapsed 0.006 seconds)\n\
             [ {at}.030000] Freezing remaining freezable tasks completed (elapsed 0.001 seconds)\n"
        )
    };
    let read = analysis(&[2000, 2004, 2040].map(attempt).concat(), Vec::new()).unwrap();
    let machine = &read.machines[0];
    assert_eq!(machine.cycles.len(), 3);
    assert_eq!(machine.failed(), []);
    let froze = |cycle: &reveille_resume::analysis::CycleResult| {
        let mut stages = cycle.stages.iter();
        let froze = stages.find(|one| one.stage == StageKind::Freeze);
        froze.map(|one| (one.start_us % 1_000_000, one.duration_us))
    };
    for cycle in &machine.cycles {
        assert_eq!(froze(cycle), Some((14_000, Some(16_000))));
    }
    // A kernel may sync after it froze them.
    let after = "\
[  700.000000] PM: suspend entry (deep)
[  700.010000] Freezing user space processes ... (elapsed 0.001 seconds) done.
[  700.020000] Freezing remaining freezable tasks ... (elapsed 0.001 seconds) done.
[  702.030000] Filesystems sync: 2.000 seconds
[  702.300000] PM: suspend devices took 0.200 seconds
";
    assert_eq!(log(after).cycles.len(), 1);
}

#[test]
fn a_line_of_another_clock_in_the_resume_begins_no_other_cycle() {
    let strays = |stray: &str| {
        log(&format!(
            "\
[  700.000000] PM: suspend entry (deep)
[  700.100000] Freezing remaining freezable tasks ... (elapsed 0.001 seconds) done.
[  700.200000] PM: noirq suspend of devices complete after 9.000 msecs
[  700.300000] Disabling non-boot CPUs ...
[  700.310000] smpboot: CPU 1 is now offline
[  700.320000] ACPI: Low-level resume complete
[  700.330000] Enabling non-boot CPUs ...
[  700.400000] CPU1 is up
{stray}[  700.700000] PM: noirq resume of devices complete after 9.000 msecs
[  701.000000] PM: resume of devices complete after 250.000 msecs
[  701.100000] Restarting tasks ... done.
"
        ))
    };
    let plain = strays("");
    let stray = strays("[    0.008000] ACPI: Waking up from system sleep state S3\n");
    assert_eq!(stray.cycles.len(), 1);
    let resume = |read: &reveille_resume::log::Log| of(&read.cycles[0]).resume_us;
    assert_eq!(resume(&stray), resume(&plain));
}

#[test]
fn an_image_that_was_restored_came_back() {
    let read = log("\
[  700.000000] PM: Creating hibernation image:
[  700.500000] PM: restore of devices complete after 120.000 msecs
[  700.600000] PM: Image restored successfully.
");
    assert!(read.hibernations[0].ended, "{:?}", read.hibernations);
}

#[test]
fn dates_of_other_languages_are_read() {
    let of_date = |date: &str| {
        SLEEP
            .lines()
            .map(|line| {
                let second = &line[3..6];
                let (_, message) = line.split_once("] ").unwrap();
                let second = second.trim().parse::<u32>().unwrap() % 60;
                format!(
                    "{} {message}\n",
                    date.replace("SS", &format!("{second:02}"))
                )
            })
            .collect::<String>()
    };
    let english = log(&of_date("[Wed Dec 30 19:16:SS 2019]"));
    assert_eq!(english.cycles.len(), 1);
    for date in [
        "[Mi Dez 30 19:16:SS 2019]",
        "[mer. déc. 30 19:16:SS 2019]",
        "[qua dez 30 19:16:SS 2019]",
        "[ср дек 30 19:16:SS 2019]",
    ] {
        let other = log(&of_date(date));
        let stages = |log: &reveille_resume::log::Log| log.cycles[0].stages.clone();
        assert_eq!(stages(&other), stages(&english), "{date}");
    }
    let host = "dez 30 19:16:SS host kernel:";
    assert_eq!(log(&of_date(host)).cycles.len(), 1);
}
