//! What begins and ends a cycle and its stages, by which clock, in logs that were read wrong before.

use serde_json::{Value, json};

use crate::pasted::{cycles, failed, fields, machine, one, stages};

/// How failures are called.
fn how(text: &str) -> Vec<&'static str> {
    failed(text).into_iter().map(|(how, _)| how).collect()
}

fn has_gap_to(cycle: &Value, words: &str) -> bool {
    let gaps = cycle["gaps"].as_array().unwrap();
    let ends = |gap: &Value| gap["ended_by"].as_str().unwrap().contains(words);
    gaps.iter().any(ends)
}

/// A stage's length, µs.
fn lasted(cycle: &Value, stage: &str) -> Value {
    let stages = cycle["stages"].as_array().unwrap().iter();
    let mut found = stages.filter(|one| one["stage"] == stage);
    found
        .next()
        .map_or(Value::Null, |one| one["duration_us"].clone())
}

#[test]
fn a_suspend_that_another_boot_follows_never_resumed() {
    let journal = "\
Jun 19 13:50:51 host kernel: PM: suspend entry (deep)
-- Boot 1fa31ab4e3e54376be7d49c8f6b3c2f8 --
Jun 19 13:56:47 host kernel: Linux version 6.9.5
";
    let stop = |message: &str, after: Option<u64>| json!({"message": message, "boots": true, "after_us": after});
    for text in [
        journal.to_owned(),
        // Of what `journalctl --grep` leaves.
        journal.replace("Linux version", "usb 1-1: version"),
        journal.replace(
            "-- Boot 1fa31ab4e3e54376be7d49c8f6b3c2f8 --",
            "-- Reboot --",
        ),
    ] {
        let cycle = one(&text);
        assert_eq!(
            cycle["stop"],
            stop("PM: suspend entry (deep)", Some(356_000_000))
        );
        let found = failed(&text);
        assert_eq!((found.len(), found[0].0), (1, "never resumed"));
        for fact in ["Jun 19 13:50:51", "suspend entry (deep)", "5 min 56 s"] {
            assert!(found[0].1.contains(fact), "{found:?}");
        }
    }
    // By the kernel's clock, which begins anew.
    let dmesg = "\
[ 8123.456789] PM: suspend entry (deep)
[ 8123.470000] Filesystems sync: 0.012 seconds
[    0.000000] Linux version 5.4.0
[   65.100000] wlan0: associated
";
    assert_eq!(
        one(dmesg)["stop"],
        stop("Filesystems sync: 0.012 seconds", None)
    );
    assert_eq!(how(dmesg), ["never resumed"]);
    // With devices, too.
    let late = dmesg.replace(
        "Filesystems sync: 0.012 seconds",
        "ACPI: EC: interrupt blocked",
    );
    assert_eq!(how(&late), ["never resumed"]);
}

#[test]
fn the_next_suspend_ends_no_silence_of_the_one_before() {
    let entries = "\
Jul 01 08:00:00 host kernel: PM: suspend entry (s2idle)
Jul 01 12:00:00 host kernel: PM: suspend entry (s2idle)
Jul 01 18:00:00 host kernel: PM: suspend entry (deep)
";
    let found = cycles(entries);
    assert_eq!(found.len(), 3);
    assert!(failed(entries).is_empty());
    let after = |cycle: &Value| cycle["stop"]["after_us"].clone();
    let hours: Vec<Value> = found.iter().map(after).collect();
    assert_eq!(
        hours,
        [
            json!(14_400_000_000u64),
            json!(21_600_000_000u64),
            Value::Null
        ]
    );
    // After lines of others it did not stall either: one suspend has to end before another begins.
    let others = entries.replace(
        "Jul 01 12",
        "Jul 01 11:59:59 host kernel: usb 1-1: new device\nJul 01 12",
    );
    assert!(failed(&others).is_empty());
    // A log that has no exit.
    let text = "\
[  500.000000] PM: suspend entry (s2idle)
[  500.012000] Freezing user space processes
[  500.015000] Suspending console(s) (use no_console_suspend to debug)
[  500.300000] ACPI: EC: interrupt blocked
[  510.300000] ACPI: EC: interrupt unblocked
[  600.000000] PM: suspend entry (s2idle)
[  600.012000] Freezing user space processes
[  600.300000] ACPI: EC: interrupt blocked
[  620.300000] ACPI: EC: interrupt unblocked
[  621.310000] PM: suspend exit
";
    let found = cycles(text);
    assert!(found.iter().all(|cycle| !has_gap_to(cycle, "entry")));
    assert_eq!(
        fields(&found[0]["stop"], &["boots", "after_us"]),
        json!([false, 89_700_000])
    );
    assert_eq!(found[1]["stop"], Value::Null);
}

#[test]
fn a_log_that_ends_with_a_suspends_first_line_is_one() {
    let text = "Sep 14 22:10:03 host kernel: PM: suspend entry (s2idle)\n";
    let cycle = one(text);
    assert_eq!(cycle["stop"]["message"], "PM: suspend entry (s2idle)");
    assert_eq!(
        fields(&cycle, &["sleep", "cut", "suspend_us"]),
        json!(["s2idle", true, null])
    );
    assert!(failed(text).is_empty());
    // Another program's time is no stamp of the kernel.
    let other =
        "Sep 14 22:10:03 host NetworkManager[1100]: <info>  [1694722203.1234] manager: sleep\n";
    let cycle = one(&format!("{text}{other}"));
    assert_eq!(cycle["gaps"], json!([]));
}

/// A notifier takes 5 s, devices 1.4 s.
const NOTIFIER: &str = "\
0,100000 PM: suspend entry (deep)
0,120000 Filesystems sync: 0.019 seconds
5,121000 Freezing user space processes
5,123000 Freezing user space processes completed (elapsed 0.001 seconds)
5,124500 Freezing remaining freezable tasks completed (elapsed 0.001 seconds)
5,124600 printk: Suspending console(s) (use no_console_suspend to debug)
6,000000 ACPI: PM: Low-level resume complete
6,524600 OOM killer enabled.
6,524700 Restarting tasks ... done.
6,530000 PM: suspend exit
";

#[test]
fn dates_of_dmesg_are_the_kernels_stamps() {
    let dated = |form: fn(&str, &str) -> String| -> String {
        let lines = NOTIFIER.lines().map(|line| line.split_once(',').unwrap());
        lines
            .map(|(second, rest)| form(second, rest) + "\n")
            .collect()
    };
    let iso = dated(|second, rest| {
        let (us, words) = rest.split_once(' ').unwrap();
        format!("2023-05-01T10:00:0{second},{us}+02:00 {words}")
    });
    let ctime = dated(|second, rest| format!("[Mon May  1 10:00:0{second} 2023] {}", &rest[7..]));
    for text in [&iso, &ctime] {
        let cycle = one(text);
        assert_eq!(
            fields(&cycle, &["stamped", "asleep_us"]),
            json!([true, null]),
            "{text}"
        );
    }
    assert_eq!(lasted(&one(&iso), "freeze"), 3_500);
    assert_eq!(one(&iso)["suspend_at_least_us"], 5_024_600);
    assert_eq!(one(&ctime)["suspend_at_least_us"], 4_000_000);
    // A journal stamps so late that the pause may be the sleep.
    let journal =
        dated(|second, rest| format!("May 01 10:00:0{second} host kernel: {}", &rest[7..]));
    let journal = journal.replace(":06 ", ":05 ");
    assert_eq!(
        fields(&one(&journal), &["stamped", "asleep_us"]),
        json!([false, 5_000_000])
    );
}

/// Linux 4.19: its noirq stage is within suspend to idle, and a wake-up that does not end that runs through it.
const NAPS: &str = "\
[  500.000000] PM: suspend entry (s2idle)
[  500.000100] PM: Syncing filesystems ... done.
[  500.012000] Freezing user space processes ... (elapsed 0.001 seconds) done.
[  500.013600] Freezing remaining freezable tasks ... (elapsed 0.001 seconds) done.
[  500.015100] Suspending console(s) (use no_console_suspend to debug)
[  500.215100] PM: suspend of devices complete after 199.500 msecs
[  500.225100] PM: late suspend of devices complete after 9.500 msecs
[  500.225200] PM: suspend-to-idle
[  500.225300] usb usb1: calling usb_dev_suspend_noirq+0x0/0x20 @ 9, parent: none
[  500.245000] usb usb1: usb_dev_suspend_noirq+0x0/0x20 returned 0 after 19700 usecs
[  500.245200] PM: noirq suspend of devices complete after 19.800 msecs
[  505.240000] usb usb1: calling usb_dev_resume_noirq+0x0/0x20 @ 9, parent: none
[  505.245000] usb usb1: usb_dev_resume_noirq+0x0/0x20 returned 0 after 5000 usecs
[  505.245300] PM: noirq resume of devices complete after 6.000 msecs
[  505.246000] usb usb1: calling usb_dev_suspend_noirq+0x0/0x20 @ 9, parent: none
[  505.265000] usb usb1: usb_dev_suspend_noirq+0x0/0x20 returned 0 after 19000 usecs
[  505.265300] PM: noirq suspend of devices complete after 19.500 msecs
[  515.270000] usb usb1: calling usb_dev_resume_noirq+0x0/0x20 @ 9, parent: none
[  515.285000] usb usb1: usb_dev_resume_noirq+0x0/0x20 returned 0 after 15000 usecs
[  515.285300] PM: noirq resume of devices complete after 15.300 msecs
[  515.285400] PM: resume from suspend-to-idle
[  515.287400] PM: early resume of devices complete after 1.500 msecs
[  515.587400] PM: resume of devices complete after 299.000 msecs
[  515.588100] OOM killer enabled.
[  515.588200] Restarting tasks ... done.
[  515.590000] PM: suspend exit
";

fn without(text: &str, words: &[&str]) -> String {
    let lines = text.lines();
    let lines = lines.filter(|line| !words.iter().any(|word| line.contains(word)));
    lines.map(|line| format!("{line}\n")).collect()
}

#[test]
fn a_wake_up_that_does_not_end_suspend_to_idle_begins_no_cycle() {
    let marks = ["suspend-to-idle"];
    let ends = ["complete after"];
    let calls = ["usb1"];
    for (gone, noirq) in [
        (&[][..], [19_900, 15_300]),
        (&marks, [19_900, 15_300]),
        (&calls, [19_800, 15_300]),
        (&ends, [19_700, 15_000]),
    ] {
        let cycle = one(&without(NAPS, gone));
        let found = ["suspend_noirq", "resume_noirq"].map(|stage| lasted(&cycle, stage));
        assert_eq!(found, noirq.map(Value::from), "{gone:?}");
        let asleep = cycle["asleep_us"].as_i64().unwrap();
        assert!(
            (15_024_000..=15_026_000).contains(&asleep),
            "{gone:?}: {asleep}"
        );
        let resume = cycle["resume_us"].as_i64().unwrap();
        assert!((319_000..=321_000).contains(&resume), "{gone:?}: {resume}");
        let suspend = cycle["suspend_us"].as_i64().unwrap();
        assert!(
            (245_000..=245_200).contains(&suspend),
            "{gone:?}: {suspend}"
        );
    }
    // The kernel's own word on each sleep.
    let told = NAPS
        .replace(
            "[  505.240000]",
            "[  505.239000] PM: Timekeeping suspended for 4.000 seconds\n[  505.240000]",
        )
        .replace(
            "[  515.270000]",
            "[  515.269000] PM: Timekeeping suspended for 9.000 seconds\n[  515.270000]",
        );
    let cycle = one(&told);
    assert_eq!(
        fields(&cycle, &["asleep_us", "resume_us", "suspend_us"]),
        json!([13_000_000, 320_000, 245_200])
    );
    // Once early devices resume it is another cycle's.
    let early = NAPS.replace(
        "505.246000] usb",
        "505.245900] PM: early resume of devices complete after 0.100 msecs\n[  505.246000] usb",
    );
    assert_eq!(cycles(&early).len(), 2);
}

#[test]
fn the_journal_of_a_suspend_that_fails_is_as_late_as_of_one_that_sleeps() {
    let frozen = "\
May 14 09:00:00 host kernel: PM: suspend entry (s2idle)
May 14 09:00:00 host kernel: Filesystems sync: 0.050 seconds
May 14 09:00:20 host kernel: Freezing user space processes
May 14 09:00:20 host kernel: Freezing user space processes failed after 20.004 seconds (1 tasks refusing to freeze, wq_busy=0):
May 14 09:00:20 host kernel: OOM killer enabled.
May 14 09:00:20 host kernel: Restarting tasks ... done.
May 14 09:00:20 host kernel: PM: suspend exit
";
    let cycle = one(frozen);
    assert_eq!(lasted(&cycle, "freeze"), 20_004_000);
    let known = ["stamped", "suspend_us", "asleep_us"];
    assert_eq!(fields(&cycle, &known), json!([false, null, null]));
    // Of a logger on another machine each line is in time.
    let remote = frozen.replace(
        ":20 host kernel: Freezing user space processes\n",
        ":00 host kernel: Freezing user space processes\n",
    );
    let cycle = one(&remote);
    assert_eq!(fields(&cycle, &known), json!([true, 20_000_000, null]));
    assert_eq!(lasted(&cycle, "freeze"), 20_004_000);
    let refused = "\
Jun 23 14:09:26 host kernel: PM: suspend entry (deep)
Jun 23 14:09:26 host kernel: Filesystems sync: 0.033 seconds
Jun 23 14:09:28 host kernel: Freezing user space processes ... (elapsed 0.001 seconds) done.
Jun 23 14:09:28 host kernel: Freezing remaining freezable tasks ... (elapsed 0.001 seconds) done.
Jun 23 14:09:28 host kernel: printk: Suspending console(s) (use no_console_suspend to debug)
Jun 23 14:09:28 host kernel: nvidia 0000:01:00.0: PM: failed to suspend async: error -5
Jun 23 14:09:28 host kernel: PM: Some devices failed to suspend, or early wake event detected
Jun 23 14:09:28 host kernel: OOM killer enabled.
Jun 23 14:09:28 host kernel: Restarting tasks ... done.
Jun 23 14:09:28 host kernel: PM: suspend exit
";
    let cycle = one(refused);
    assert_eq!(fields(&cycle, &known), json!([false, null, null]));
    assert_eq!(cycle["failures"].as_array().unwrap().len(), 2);
}

#[test]
fn completing_ends_where_the_kernel_says_and_not_with_the_consoles_backlog() {
    let text = "\
[   85.000000] PM: suspend-to-idle
[   88.000000] PM: resume from suspend-to-idle
[   88.300000] PM: noirq resume of devices complete after 299.000 msecs
[   88.310000] PM: early resume of devices complete after 9.000 msecs
[   91.310000] PM: resume of devices complete after 3000.000 msecs
[   91.410000] PM: resume devices took 3.400 seconds
[   93.410000] OOM killer enabled.
[   93.420000] PM: suspend exit
";
    assert_eq!(lasted(&one(text), "complete"), 100_000);
    let took = without(text, &["took"]);
    assert_eq!(lasted(&one(&took), "complete"), 2_100_000);
    // The resume's only line has completing in it.
    let only = without(text, &["complete after"]);
    let cycle = one(&only);
    assert_eq!(
        (lasted(&cycle, "resume"), lasted(&cycle, "complete")),
        (json!(3_400_000), Value::Null)
    );
}

#[test]
fn a_suspend_to_disk_has_its_failures_its_sleep_in_memory_and_its_end() {
    let disk = |text: &str| machine(text)["hibernations"].clone();
    let refused = "\
[  193.246691] PM: hibernation: hibernation entry
[  195.628400] Freezing remaining freezable tasks
[  215.632614] Freezing remaining freezable tasks failed after 20.003 seconds (0 tasks refusing to freeze, wq_busy=1):
[  215.632750] workqueue writes: flags=0x4
[  215.632770]     in-flight: 345:do_discards_work
[  215.734200] Restarting tasks ... done.
[  215.740000] PM: hibernation: hibernation exit
";
    let found = disk(refused);
    let failure = found[0]["failures"][0].as_str().unwrap();
    assert!(
        failure.contains("20.003") && failure.contains("do_discards_work"),
        "{failure}"
    );
    let broken = "\
[1.000000] PM: hibernation entry
[2.000000] PM: Some devices failed to power down, aborting
[3.000000] PM: hibernation exit
[4.000000] PM: hibernation entry
[5.000000] PM: Wakeup event detected during hibernation, rolling back.
[6.000000] PM: hibernation exit
";
    let found = disk(broken);
    for (place, word) in [(0, "power down"), (1, "Wakeup event")] {
        let failure = found[place]["failures"][0].as_str().unwrap();
        assert!(failure.contains(word), "{failure}");
    }
    // To Linux 4.11 neither entry nor exit.
    let old = "\
[  600.100200] PM: Syncing filesystems ... done.
[  601.203000] PM: Allocated 1649380 kbytes in 0.98 seconds (1683.04 MB/s)
[  601.505000] PM: freeze of devices complete after 299.000 msecs
[  601.527000] ACPI: Preparing to enter system sleep state S4
[  602.567000] PM: restore of devices complete after 999.000 msecs
[  602.568000] PM: Image restored successfully.
[  602.568200] Restarting tasks ... done.
";
    assert_eq!(
        fields(&disk(old)[0], &["ended", "in_memory"]),
        json!([true, false])
    );
    let hybrid = old.replace("S4", "S3");
    assert_eq!(
        fields(&disk(&hybrid)[0], &["ended", "in_memory"]),
        json!([true, true])
    );
    assert!(!machine(old)["notes"].to_string().contains("timestamps"));
}

#[test]
fn the_kernel_that_reads_an_image_does_not_suspend() {
    let text = "\
Jul 02 22:00:00 host kernel: PM: hibernation: hibernation entry
Jul 03 07:59:30 host kernel: Linux version 6.9.7
Jul 03 07:59:31 host kernel: PM: hibernation: resume from hibernation
Jul 03 07:59:31 host kernel: Freezing user space processes
Jul 03 07:59:31 host kernel: Freezing user space processes completed (elapsed 0.001 seconds)
Jul 03 07:59:32 host kernel: PM: Image mismatch: architecture specific data
Jul 03 07:59:32 host kernel: Restarting tasks ... done.
Jul 03 07:59:32 host kernel: PM: hibernation: resume failed (-1)
";
    let boot = text.split_once('\n').unwrap().1;
    for text in [text, boot] {
        let found = machine(text);
        assert_eq!(found["cycles"].as_array().unwrap().len(), 1);
        assert_eq!(
            fields(&found["cycles"][0], &["sleep", "stages"]),
            json!(["disk", []])
        );
        assert_eq!(
            found["hibernations"][0]["failures"]
                .as_array()
                .unwrap()
                .len(),
            1
        );
        // The machine may suspend later.
        let later = "\
Jul 03 08:59:31 host kernel: PM: suspend entry (deep)
Jul 03 09:59:31 host kernel: PM: suspend exit
";
        let both = machine(&format!("{text}{later}"));
        assert_eq!(both["cycles"][0]["sleep"], "deep");
    }
}

#[test]
fn a_mail_as_it_was_sent_is_joined_at_its_equals_signs() {
    let text = "\
[   96.726207] PM: suspend entry (deep)
[   96.730589] Filesystems sync: 0.000 s=
econds
[   96.736343] Freezing user space proce=
sses ... =
[  116.757631] Freezing of tasks failed =
after 20.015 seconds (1 tasks refusing to freeze, wq_busy=3D0):
[  116.768180] task:udevd   stat=
e:D stack:    0 pid:  128 ppid:   116 flags:0x00000081
";
    let cycle = one(text);
    assert_eq!(how(text), ["failed"]);
    let failure = cycle["failures"][0]["message"].as_str().unwrap();
    for words in [
        "failed after 20.015 seconds",
        "wq_busy=0",
        "udevd (pid 128)",
    ] {
        assert!(failure.contains(words), "{failure}");
    }
    assert_eq!(lasted(&cycle, "freeze"), 20_021_288);
}

#[test]
fn a_resume_whose_beginning_is_the_logs_end_lacks_its_end() {
    let text = "\
[   28.946038] PM: suspend-to-idle
[   28.950152] Timekeeping suspended for 3.320 seconds
[   28.950153] PM: Triggering wakeup from IRQ 9
[   29.211095] PM: resume from suspend-to-idle
";
    let cycle = one(text);
    assert_eq!(
        fields(&cycle, &["resume_start_us", "resume_us", "cut"]),
        json!([29_211_095, null, true])
    );
    assert_eq!(stages(&cycle).as_array().unwrap().len(), 1);
}

#[test]
fn a_suspend_in_a_dmesg_and_in_a_journal_of_one_file_is_one() {
    let dmesg = "\
[ 8123.456789] PM: suspend entry (deep)
[ 8123.470000] Filesystems sync: 0.012 seconds
[ 8123.475000] Freezing user space processes ... (elapsed 0.002 seconds) done.
[ 8123.480000] printk: Suspending console(s) (use no_console_suspend to debug)
[ 8124.535000] ACPI: Low-level resume complete
[ 8126.841000] OOM killer enabled.
[ 8126.850000] PM: suspend exit
";
    let journal = "\
Oct 03 09:12:01 host kernel: PM: suspend entry (deep)
Oct 03 09:12:01 host kernel: Filesystems sync: 0.012 seconds
Oct 03 10:42:11 host kernel: Freezing user space processes ... (elapsed 0.002 seconds) done.
Oct 03 10:42:11 host kernel: ACPI: Low-level resume complete
Oct 03 10:42:11 host kernel: PM: suspend exit
";
    for both in [format!("{dmesg}{journal}"), format!("{journal}{dmesg}")] {
        let found = one(&both);
        assert_eq!(fields(&found, &["number", "stamped"]), json!([1, true]));
    }
    let other = journal.replace("0.012", "0.013");
    assert_eq!(cycles(&format!("{dmesg}{other}")).len(), 2);
    // Each of the dmesg stands for one of the journal.
    assert_eq!(
        cycles(&format!(
            "{dmesg}{journal}{}",
            journal.replace("Oct 03", "Oct 04")
        ))
        .len(),
        2
    );
}
