//! Logs of suspends with known times.

use std::fmt::Write as _;

/// A machine like the paper's Chromebook: sound, graphics, a webcam on USB, and an SSD, which alone
/// resumes in 50 ms. Each cycle has a suspend of 49 ms, sleeps for 20 s, and resumes in 600 ms.
///
/// Its resume, in ms from the first CPU's line: CPU 1 until 2; noirq until 4; early until 5; devices
/// until 598, with graphics 300 (5 to 305), sound 593 (5 to 598), the
/// disk 45 (5 to 50) and below a hub of 80 (5 to 85) the webcam, 450 (85 to 535); thawed by 600.
pub fn dmesg(cycles: usize) -> String {
    let mut log = String::from("[    0.000000] Linux version 6.12.0\n");
    for cycle in 0..cycles {
        one(&mut log, 100_000_000 + cycle as i64 * 60_000_000);
    }
    log
}

fn one(log: &mut String, start: i64) {
    let mut add = |ms: f64, words: &str| {
        let us = start + (ms * 1e3).round() as i64;
        // Writing to a String cannot fail.
        let _ = writeln!(log, "[{:5}.{:06}] {words}", us / 1_000_000, us % 1_000_000);
    };
    add(0.0, "PM: suspend entry (deep)");
    add(1.0, "Freezing user space processes");
    add(
        2.0,
        "Freezing user space processes completed (elapsed 0.001 seconds)",
    );
    add(
        3.0,
        "sd 0:0:0:0: PM: calling scsi_bus_suspend @ 31, parent: target0:0:0",
    );
    add(
        38.0,
        "sd 0:0:0:0: PM: scsi_bus_suspend returned 0 after 35000 usecs",
    );
    add(39.0, "PM: suspend of devices complete after 36.000 msecs");
    add(
        42.0,
        "PM: late suspend of devices complete after 3.000 msecs",
    );
    add(
        45.0,
        "PM: noirq suspend of devices complete after 3.000 msecs",
    );
    add(45.5, "Disabling non-boot CPUs ...");
    add(49.0, "smpboot: CPU 1 is now offline");
    let mut add = |ms: f64, words: &str| add(49.0 + ms, words);
    add(0.0, "Timekeeping suspended for 20.000 seconds");
    add(0.0, "Enabling non-boot CPUs ...");
    add(2.0, "CPU1 is up");
    add(
        4.0,
        "PM: noirq resume of devices complete after 2.000 msecs",
    );
    add(
        5.0,
        "PM: early resume of devices complete after 1.000 msecs",
    );
    let mut calls = [
        (
            "i915 0000:00:02.0",
            "pci_pm_resume",
            41,
            "pci0000:00",
            5.0,
            305.0,
        ),
        (
            "ahci 0000:00:1f.2",
            "pci_pm_resume",
            42,
            "pci0000:00",
            5.0,
            50.0,
        ),
        ("usb usb1", "usb_dev_resume", 43, "0000:00:1d.0", 5.0, 85.0),
        (
            "uvcvideo 1-1:1.0",
            "usb_dev_resume",
            43,
            "usb1",
            85.0,
            535.0,
        ),
        (
            "snd_hda_intel 0000:00:1b.0",
            "pci_pm_resume",
            44,
            "pci0000:00",
            5.0,
            598.0,
        ),
    ]
    .iter()
    .flat_map(|(device, function, worker, parent, from, to)| {
        let usecs = ((to - from) * 1e3) as i64;
        [
            (
                *from,
                format!("{device}: PM: calling {function} @ {worker}, parent: {parent}"),
            ),
            (
                *to,
                format!("{device}: PM: {function} returned 0 after {usecs} usecs"),
            ),
        ]
    })
    .collect::<Vec<(f64, String)>>();
    calls.sort_by(|one, other| one.0.total_cmp(&other.0));
    for (ms, words) in &calls {
        add(*ms, words);
    }
    add(598.0, "PM: resume of devices complete after 593.000 msecs");
    add(599.0, "Restarting tasks ... done.");
    add(600.0, "PM: suspend exit");
}
