//! Logs with stamps of whole seconds (`dmesg -T`, a syslog without the kernel's stamps).

use reveille_resume::Result;
use reveille_resume::analysis::{
    Analysis, CycleResult, Input, Question, Source, analyse, extent, no_length,
};
use reveille_resume::cycle::{StageKind, Us};
use reveille_resume::graph::Half;
use reveille_resume::log;
use reveille_resume::what_if::Change;
use reveille_snapshot::snapshot;

/// A suspend of 91 ms and a resume of 130 ms within a second; device 1-1 prepares, suspends and resumes.
const LOG: &str = "\
[  100.100000] PM: suspend entry (deep)
[  100.110000] Freezing user space processes
[  100.115000] Freezing user space processes completed (elapsed 0.004 seconds)
[  100.120000] printk: Suspending console(s) (use no_console_suspend to debug)
[  100.120200] usb 1-1: calling usb_dev_prepare+0x0/0x20 @ 100, parent: usb1
[  100.120300] usb 1-1: usb_dev_prepare+0x0/0x20 returned 0 after 40 usecs
[  100.121000] usb 1-1: calling usb_dev_suspend+0x0/0x20 @ 100, parent: usb1
[  100.161000] usb 1-1: usb_dev_suspend+0x0/0x20 returned 0 after 40000 usecs
[  100.172100] PM: suspend of devices complete after 52.000 msecs
[  100.172200] PM: start suspend of devices complete after 53.000 msecs
[  100.173000] foo 00:01: calling pm_runtime_force_suspend+0x0/0x20 @ 100, parent: pnp0
[  100.174000] foo 00:01: pm_runtime_force_suspend+0x0/0x20 returned 0 after 900 usecs
[  100.177100] PM: late suspend of devices complete after 5.000 msecs
[  100.184100] PM: noirq suspend of devices complete after 7.000 msecs
[  100.186100] Disabling non-boot CPUs ...
[  100.191100] smpboot: CPU 1 is now offline
[  100.192100] ACPI: PM: Low-level resume complete
[  100.192200] Timekeeping suspended for 5.000 seconds
[  100.193100] Enabling non-boot CPUs ...
[  100.197100] CPU1 is up
[  100.200100] ACPI: PM: Waking up from system sleep state S3
[  100.208100] PM: noirq resume of devices complete after 8.000 msecs
[  100.211100] PM: early resume of devices complete after 2.000 msecs
[  100.212100] usb 1-1: calling usb_dev_resume+0x0/0x20 @ 100, parent: usb1
[  100.292100] usb 1-1: usb_dev_resume+0x0/0x20 returned 0 after 80000 usecs
[  100.308300] PM: resume of devices complete after 96.200 msecs
[  100.310000] Restarting tasks ... done.
[  100.322100] PM: suspend exit
";

/// With stamps of whole seconds, `later` after those of the log.
fn in_seconds(log: &str, later: f64) -> String {
    let line = |line: &str| {
        let (stamp, text) = line[1..].split_once("] ").unwrap();
        let second = (stamp.trim().parse::<f64>().unwrap() + later) as u64 - 60;
        let (minute, second) = (second / 60, second % 60);
        format!("[Sat Nov 21 18:{minute:02}:{second:02} 2026] {text}\n")
    };
    log.lines().map(line).collect()
}

fn analysed(text: &str) -> Analysis {
    asked(text, &Question::default()).unwrap()
}

fn asked(text: &str, question: &Question) -> Result<Analysis> {
    let input = Input {
        name: "m".to_owned(),
        source: Source::default(),
        cycles: log::read(text.as_bytes()).unwrap().cycles,
        notes: Vec::new(),
        ..Input::default()
    };
    analyse(vec![input], question)
}

fn only(text: &str) -> CycleResult {
    let mut machine = analysed(text).machines.remove(0);
    assert_eq!(machine.cycles.len(), 1);
    machine.cycles.remove(0)
}

/// Stages that do not overlap, go back or exceed the whole.
fn is_consistent(cycle: &CycleResult) {
    for pair in cycle.stages.windows(2) {
        assert!(pair[0].start_us <= pair[1].start_us, "{pair:?}");
    }
    for half in [Half::Suspend, Half::Resume] {
        let whole = match half {
            Half::Suspend => cycle.suspend_us,
            Half::Resume => cycle.resume_us,
        };
        let path = cycle.path_of(half);
        assert!(path.iter().all(|link| link.duration_us >= 0), "{path:?}");
        assert_eq!(
            path.iter().map(|link| link.duration_us).sum::<Us>(),
            whole.unwrap_or(0)
        );
    }
}

#[test]
fn no_length_below_two_seconds_comes_from_stamps_of_whole_seconds() {
    // All in one second, and with a new second at every tenth.
    for tenth in 0..10 {
        let found = only(&in_seconds(LOG, f64::from(tenth) / 10.0));
        let lengths = (found.suspend_us, found.platform_us, found.resume_us);
        assert_eq!(lengths, (None, None, None), "{tenth}");
        assert_eq!(found.asleep_us, Some(5_000_000));
        is_consistent(&found);
        assert!(
            found
                .stages
                .iter()
                .all(|stage| stage.start_us >= found.start_us)
        );
    }
}

#[test]
fn a_stage_takes_the_time_that_the_kernel_states_and_is_otherwise_unknown() {
    use StageKind::{
        Complete, CpusOff, CpusOn, Freeze, Platform, Resume, ResumeEarly, ResumeNoirq, Suspend,
        SuspendLate, SuspendNoirq, Thaw,
    };
    for tenth in 0..10 {
        let found = only(&in_seconds(LOG, f64::from(tenth) / 10.0));
        let known = |kind| {
            let mut stages = found.stages.iter();
            let stage = stages.find(|stage| stage.stage == kind);
            stage.and_then(|stage| stage.duration_us)
        };
        let stated = [
            Suspend,
            SuspendLate,
            SuspendNoirq,
            ResumeNoirq,
            ResumeEarly,
            Resume,
        ];
        assert_eq!(
            stated.map(known),
            [52_000, 5_000, 7_000, 8_000, 2_000, 96_200].map(Some)
        );
        let others = [Freeze, CpusOff, Platform, CpusOn, Complete, Thaw];
        assert_eq!(others.map(known), [None; 6]);
        let begins = found.stages[1..].iter().map(|stage| found.begins_us(stage));
        assert!(begins.into_iter().all(|us| us.is_none()));
    }
}

#[test]
fn a_call_takes_the_time_that_the_kernel_states_and_is_in_the_stage_of_the_next_line() {
    let calls = |text: &str| -> Vec<(String, StageKind)> {
        let calls = only(text).calls.into_iter();
        let one = |one: reveille_resume::analysis::CallResult| {
            (
                one.call.function.unwrap_or_default().to_string(),
                one.call.stage,
            )
        };
        calls.map(one).collect()
    };
    let mut fine = calls(LOG);
    // Only its duration shows that this one was before the suspend.
    fine.retain(|(function, _)| function != "usb_dev_prepare");
    for tenth in 0..10 {
        let text = in_seconds(LOG, f64::from(tenth) / 10.0);
        let mut coarse = calls(&text);
        coarse.retain(|(function, _)| function != "usb_dev_prepare");
        assert_eq!(coarse, fine, "{tenth}");
        let found = only(&text);
        let took = found.calls.iter().map(|one| one.duration_us);
        assert_eq!(
            took.collect::<Vec<_>>(),
            [40, 40_000, 900, 80_000].map(Some)
        );
        assert!(found.calls.iter().all(|one| one.slack_us.is_none()));
    }
}

#[test]
fn a_long_resume_keeps_its_length_and_its_path() {
    // The disk takes eleven seconds.
    let lines: Vec<String> = LOG
        .lines()
        .map(|line| {
            let (stamp, text) = line[1..].split_once("] ").unwrap();
            let stamp: f64 = stamp.trim().parse().unwrap();
            let later = if stamp > 100.29 { 11.0 } else { 0.0 };
            let text = text.replace("after 80000", "after 11080000");
            let text = text.replace("after 96.200", "after 11096.200");
            format!("[  {:.6}] {text}\n", stamp + later)
        })
        .collect();
    for tenth in 0..10 {
        let found = only(&in_seconds(&lines.concat(), f64::from(tenth) / 10.0));
        let resume = found.resume_us.unwrap();
        assert!((11_000_000..=12_000_000).contains(&resume), "{resume}");
        is_consistent(&found);
        let longest = found.path.iter().max_by_key(|link| link.duration_us);
        assert_eq!(longest.unwrap().device.as_deref(), Some("1-1"));
        let printing = analysed(&in_seconds(&lines.concat(), f64::from(tenth) / 10.0));
        let notes = printing.machines[0].notes.join("\n");
        assert!(!notes.contains("printing"), "{notes}");
    }
}

/// Its precise figures end with this line.
fn until(line: &str) -> String {
    let end = LOG.find(line).unwrap();
    let end = end + LOG[end..].find('\n').unwrap() + 1;
    LOG[..end].to_owned()
}

#[test]
fn a_resume_too_short_for_the_stamps_is_still_in_the_log() {
    let machine = analysed(&in_seconds(LOG, 0.0)).machines.remove(0);
    let length = no_length(machine.shown(), Half::Resume).unwrap();
    snapshot!(
        "notes",
        [("notes", machine.notes.join("\n")), ("the resume", length)]
    );
    assert_eq!(analysed(LOG).machines[0].notes, [""; 0]);
}

#[test]
fn coarse_stamps_concern_their_cycle_and_not_the_log() {
    let both = format!("{}{LOG}", in_seconds(&until("CPU1 is up"), 0.0));
    let machine = analysed(&both).machines.remove(0);
    let steps = machine.cycles.iter().map(|cycle| cycle.resolution_us);
    assert_eq!(steps.collect::<Vec<_>>(), [1_000_000, 1]);
    let notes = machine.notes.join("\n");
    assert!(
        notes.contains("of 1 of 2 cycles have a resolution"),
        "{notes}"
    );
}

#[test]
fn a_truncated_resume_within_a_step_of_the_stamps_has_no_path() {
    for tenth in 0..10 {
        let later = f64::from(tenth) / 10.0;
        let cut = in_seconds(&until("usb_dev_resume+0x0/0x20 returned"), later);
        let machine = analysed(&cut).machines.remove(0);
        assert_eq!(machine.shown().path, [], "{tenth}");
        let answer = reveille_resume::show::sheet(&analysed(&cut), None).answer;
        assert!(answer.ends_with("no critical path."), "{answer}");
    }
}

#[test]
fn a_truncated_resume_has_a_path_to_its_end_and_no_savings() {
    let cut = until("usb_dev_resume+0x0/0x20 returned");
    let machine = analysed(&cut).machines.remove(0);
    let cycle = machine.shown();
    assert_eq!(cycle.resume_us, None);
    let seen: Us = cycle.path.iter().map(|link| link.duration_us).sum();
    assert_eq!(seen, 100_000);
    assert_ne!(extent(cycle, Half::Resume), "");
    assert_eq!(extent(cycle, Half::Suspend), "");
    let analysis = analysed(&cut);
    let facts = reveille_resume::show::sheet(&analysis, None).facts;
    let resume = facts.iter().find(|(word, _)| *word == "Resume").unwrap();
    assert_eq!(resume.1, "unknown; 100 ms in the log");
    let lacks = no_length(cycle, Half::Resume).unwrap();
    snapshot!(
        "notes",
        [
            ("lacks", &lacks),
            ("extent", &extent(cycle, Half::Resume).to_owned())
        ]
    );
    assert!(machine.removals.is_empty() && !machine.suspend_removals.is_empty());
    let has_slack = |half| cycle.calls_of(half).any(|(_, one)| one.slack_us.is_some());
    assert!(has_slack(Half::Suspend) && !has_slack(Half::Resume));
    // A complete one has both.
    let whole = analysed(LOG).machines.remove(0);
    assert_eq!(no_length(whole.shown(), Half::Resume), None);
    assert!(!whole.removals.is_empty());
    for change in [Change::without("1-1"), Change::cpus("8")] {
        let question = Question {
            changes: vec![change.unwrap()],
            steps: 1,
            ..Question::default()
        };
        let error = asked(&cut, &question).unwrap_err().to_string();
        assert!(error.contains(&*lacks), "{error}");
        assert!(asked(LOG, &question).is_ok());
    }
}
