//! Devices by the names that their owners know, and what the kernel said of them while they were called.

use reveille_resume::analysis::{Analysis, Question, analyse, inputs};
use reveille_resume::cycle::Us;
use reveille_resume::graph::Half;
use reveille_resume::show::sheet;
use reveille_resume::what_if::Change;

/// A network adapter in a dock takes 11 s to resume, 10.8 s of it until it accepts no address.
const DOCK: &str = "\
[  100.000000] usb 3-1: Product: USB 10/100/1000 LAN
[  100.100000] r8152 3-1:1.0 eth0: v1.12.13
[  100.200000] r8152 3-1:1.0 enx00e04c680001: renamed from eth0
[  500.000000] PM: suspend entry (deep)
[  500.010000] Freezing user space processes
[  500.012000] Freezing user space processes completed (elapsed 0.002 seconds)
[  500.013000] printk: Suspending console(s) (use no_console_suspend to debug)
[  500.100000] usb 3-1: PM: calling usb_dev_suspend @ 50, parent: usb3
[  500.101000] usb 3-1: PM: usb_dev_suspend returned 0 after 1000 usecs
[  500.200000] PM: suspend of devices complete after 187.000 msecs
[  500.206000] PM: late suspend of devices complete after 5.000 msecs
[  500.212000] PM: noirq suspend of devices complete after 5.000 msecs
[  500.213000] ACPI: PM: Preparing to enter system sleep state S3
[  500.240000] ACPI: PM: Low-level resume complete
[  500.241000] ACPI: PM: Waking up from system sleep state S3
[  500.260000] PM: noirq resume of devices complete after 5.000 msecs
[  500.270000] PM: early resume of devices complete after 5.000 msecs
[  500.280000] xhci_hcd 0000:00:14.0: PM: calling pci_pm_resume @ 60, parent: pci0000:00
[  500.290000] xhci_hcd 0000:00:14.0: PM: pci_pm_resume returned 0 after 10000 usecs
[  500.290100] usb usb3: PM: calling usb_dev_resume @ 61, parent: 0000:00:14.0
[  500.300100] usb usb3: PM: usb_dev_resume returned 0 after 10000 usecs
[  500.300200] usb 3-1: PM: calling usb_dev_resume @ 62, parent: usb3
[  505.300200] usb 3-2: reset SuperSpeed USB device number 3 using xhci_hcd
[  511.100200] usb 3-1: device not accepting address 2, error -62
[  511.200000] usb 3-1: reset SuperSpeed USB device number 2 using xhci_hcd
[  511.300200] usb 3-1: PM: usb_dev_resume returned 0 after 11000000 usecs
[  511.300300] PM: resume of devices complete after 11021.000 msecs
[  511.310000] OOM killer enabled.
[  511.311000] Restarting tasks: Starting
[  511.312000] Restarting tasks: Done
[  511.320000] PM: suspend exit
";

fn analysis(text: &str, changes: Vec<Change>) -> Result<Analysis, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log.txt");
    std::fs::write(&path, text).unwrap();
    let inputs = inputs(&[path], &[]).map_err(|error| error.to_string())?;
    let question = Question {
        changes,
        ..Question::default()
    };
    analyse(inputs, &question).map_err(|error| error.to_string())
}

#[test]
fn a_device_has_the_names_that_other_lines_of_the_log_give_it() {
    let analysis = analysis(DOCK, Vec::new()).unwrap();
    let machine = &analysis.machines[0];
    let known: Vec<(&str, usize)> = machine
        .known_as
        .iter()
        .map(|(name, all)| (&**name, all.len()))
        .collect();
    assert_eq!(known, [("3-1", 3)]);
    let names = machine.called(&"3-1".into(), Some(&"usb".into()));
    assert_eq!(names, "3-1 (USB 10/100/1000 LAN, r8152, enx00e04c680001)");
    let answer = sheet(&analysis, None).answer;
    assert!(answer.contains(&names), "{answer}");
    // Nothing else of the log has another name.
    assert_eq!(
        machine.called(&"usb3".into(), Some(&"usb".into())),
        "usb3 (usb)"
    );
}

#[test]
fn what_the_kernel_said_of_a_device_within_its_call_stands_with_it() {
    let analysis = analysis(DOCK, Vec::new()).unwrap();
    let cycle = analysis.machines[0].shown();
    // Of 3-2 no callback runs.
    let said: Vec<(&str, bool)> = cycle
        .said
        .iter()
        .map(|one| (&*one.device, one.is_error))
        .collect();
    assert_eq!(said, [("3-1", true), ("3-1", false)]);
    let within = |from: Us, to: Us| {
        cycle
            .said_of(&"3-1".into(), from..=to)
            .map(|one| one.at - from)
    };
    let called = 500_300_200;
    assert_eq!(within(called, 511_300_200), Some(10_800_000));
    // Without an error the last message counts.
    assert_eq!(within(511_100_201, 511_300_200), Some(99_799));
    assert_eq!(within(called, called + 1), None);
    let answer = sheet(&analysis, None).answer;
    assert!(
        answer.contains("10.8 s") && answer.contains("error -62"),
        "{answer}"
    );
}

#[test]
fn a_call_that_never_returned_has_the_kernels_words_on_it() {
    let end = DOCK.find("[  511.200000]").unwrap();
    let analysis = analysis(&DOCK[..end], Vec::new()).unwrap();
    let failed = analysis.machines[0].failed();
    assert_eq!(failed.len(), 1);
    assert!(
        failed[0].what.contains("r8152") && failed[0].what.contains("error -62"),
        "{failed:?}"
    );
}

#[test]
fn savings_of_one_chain_are_one_row_by_the_lowest_device() {
    let analysis = analysis(DOCK, Vec::new()).unwrap();
    let removals = analysis.machines[0].removals_of(Half::Resume);
    let rows: Vec<(&str, Vec<&str>)> = removals
        .iter()
        .map(|one| {
            (
                &*one.device,
                one.as_much.iter().map(|name| &**name).collect(),
            )
        })
        .collect();
    assert_eq!(rows, [("3-1", vec!["usb3", "0000:00:14.0"])]);
}

#[test]
fn a_parent_that_saves_much_more_has_a_row_of_its_own() {
    // The controller takes as long as the adapter.
    let slow = DOCK.replace("[  500.280000]", "[  500.270100]").replace(
        "500.290000] xhci_hcd 0000:00:14.0: PM: pci_pm_resume returned 0 after 10000",
        "509.270100] xhci_hcd 0000:00:14.0: PM: pci_pm_resume returned 0 after 9000000",
    );
    let slow: String = slow
        .lines()
        .map(|line| match line[1..13].trim().parse::<f64>().unwrap() {
            at if at > 500.2900 && !line.contains("xhci_hcd 0000") => {
                format!("[{:12.6}]{}\n", at + 9.0, &line[14..])
            }
            _ => format!("{line}\n"),
        })
        .collect();
    let analysis = analysis(&slow, Vec::new()).unwrap();
    let removals = analysis.machines[0].removals_of(Half::Resume);
    let rows: Vec<(&str, usize)> = removals
        .iter()
        .map(|one| (&*one.device, one.as_much.len()))
        .collect();
    assert_eq!(rows, [("0000:00:14.0", 0), ("3-1", 1)]);
}

#[test]
fn a_device_is_removed_by_any_of_its_names() {
    for name in ["3-1", "r8152", "enx*", "*LAN"] {
        let change = Change::without(name).unwrap();
        let analysis = analysis(DOCK, vec![change]).unwrap();
        let what_if = analysis.machines[0].what_if.as_ref().unwrap();
        assert_eq!(what_if.replays[0].saves_us, 11_000_100, "{name}");
    }
    assert!(analysis(DOCK, vec![Change::without("eth0").unwrap()]).is_err());
}
