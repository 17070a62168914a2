//! The result of `reveille cost` for readers.

use std::collections::BTreeMap;
use std::time::Duration;

use reveille_kernel::Identity;
use reveille_show::page::is_page;
use reveille_show::{sheet, terminal, text, web};
use reveille_watch::cost::{
    About, BUCKETS, Cause, Cost, Counted, Depth, Ended, Pair, PairSums, SCHEMA_VERSION, State,
    Subject, Tallies, Thread, Totals, WaitSums, Waited, read, show,
};

/// A second in which a thread with a hostile name waited 1000 times, 80 µs each, for CPU 1 in C6.
fn tallies() -> Tallies {
    let state = |name: &str, us| State {
        name: name.to_owned(),
        polling: name == "POLL",
        exit_latency_us: Some(us),
        at: Vec::new(),
    };
    let mut counts = vec![0; BUCKETS];
    // 65 536 ns is bucket 112; 81 920 ns, a quarter of an octave further, is 114.
    counts[113] = 1000;
    let waited = Waited {
        leaving_ns: 80_000_000,
        scheduling_ns: 3_000_000,
        queueing_ns: 1_000_000,
        longest_leaving_ns: 81_000,
    };
    let waits = WaitSums {
        count: 1010,
        unknown: 10,
        waited,
        stay_ns: 2_020_000_000,
    };
    let pair = Pair {
        waker: "<script>".to_owned(),
        wakee: "worker".to_owned(),
        cause: Cause::Task,
    };
    let sums = PairSums {
        wakeups: 1010,
        asleep: 1010,
        waited,
    };
    Tallies {
        elapsed: Duration::from_secs(1),
        depth: Depth {
            states: vec![state("POLL", 0), state("C1E", 10), state("C6", 133)],
        },
        totals: Totals {
            wakeups: 1010,
            asleep: 1010,
            most: Some(Thread {
                name: "worker".to_owned(),
                pid: 12,
                leaving_ns: 80_000_000,
            }),
            ..Totals::default()
        },
        // The third state's place: after awake, busy and other.
        waits: BTreeMap::from([((1, 5), waits)]),
        distributions: BTreeMap::from([(5, counts)]),
        pairs: BTreeMap::from([(pair, sums)]),
        issued: 2000,
        counted: Some(Counted {
            elapsed: Duration::from_secs(1),
            machine_wakeups: 1000,
            run_time_ns: 800_000,
            runs: 6000,
            new_tasks: 10,
            new_tasks_ns: 10_500,
            counting_ns: 50,
        }),
        sees_sending: true,
    }
}

fn cost(tallies: &Tallies) -> Cost {
    Cost::of(
        tallies,
        About {
            subject: Subject {
                tool: "reveille test".to_owned(),
                started: "2026-01-01T00:00:00Z".to_owned(),
                command_line: Vec::new(),
                workload: "all tasks".to_owned(),
                ended: Ended::Completed,
                machine: Identity::default(),
                driver: Some("intel_idle".to_owned()),
                governor: Some("menu".to_owned()),
            },
            interrupts: None,
            measured: None,
        },
    )
}

fn html(cost: &Cost) -> String {
    let kept = read(&serde_json::to_vec(cost).unwrap()).unwrap();
    web::page(&show::sheet(&kept))
}

#[test]
fn a_result_has_the_loss_and_the_setting_against_it() {
    let cost = cost(&tallies());
    assert_eq!(cost.lost_share, Some(0.08));
    let answer = &cost.sentence;
    assert!(
        answer.contains("`reveille hold --latency 100us` would save 70"),
        "{answer}"
    );
    assert!(answer.contains("sleep no deeper than C1E"), "{answer}");
    let c6 = &cost.by_state[0];
    assert_eq!((c6.waits, c6.unknown_waits), (1010, 10));
    assert_eq!(c6.mean_leaving_ns, Some(80_000.0));
    // Those of unknown instant slept, too.
    assert_eq!(c6.mean_stay_ns, Some(2_000_000.0));
    // The ten unknown waits are estimated by the others, and are in no total.
    assert_eq!(c6.estimate.as_ref().unwrap().leaving_ns, 800_000);
    assert_eq!(cost.waited.leaving_ns, 80_000_000);
    // Neither includes the kernel's counting, 50 ns per run.
    assert_eq!(cost.overhead.per_wakeup_ns, Some(500.0));
    assert_eq!(cost.overhead.per_new_task_ns, Some(1000.0));
    assert_eq!(cost.overhead.counting_per_wakeup_ns, Some(300.0));
}

/// A kept sentence is that of the version that wrote it.
#[test]
fn the_conclusion_of_a_kept_result_is_by_its_figures() {
    let mut cost = cost(&tallies());
    let sentence = cost.sentence.clone();
    cost.sentence = "older words".into();
    let kept = |cost: &Cost| read(&serde_json::to_vec(cost).unwrap()).unwrap();
    assert_eq!(kept(&cost).sentence, sentence);
    for forbidding in &mut cost.forbidding {
        forbidding.saved_low_ns = 0;
    }
    let unclear = kept(&cost).sentence;
    assert!(!unclear.contains("reveille hold"), "{unclear}");
}

#[test]
fn without_a_driver_that_honours_requests_only_no_sleep_is_recommended() {
    let tallies = tallies();
    let mut about_nothing = cost(&tallies);
    assert!(about_nothing.sentence.contains("100us"));
    about_nothing = Cost::of(
        &tallies,
        About {
            subject: Subject {
                tool: String::new(),
                started: String::new(),
                command_line: Vec::new(),
                workload: "all tasks".to_owned(),
                ended: Ended::Completed,
                machine: Identity::default(),
                driver: None,
                governor: None,
            },
            interrupts: None,
            measured: None,
        },
    );
    assert!(
        about_nothing.sentence.contains("hold --latency 0`"),
        "{}",
        about_nothing.sentence
    );
}

#[test]
fn the_page_has_the_sentence_the_tables_and_the_charts() {
    let html = html(&cost(&tallies()));
    assert!(is_page(&html));
    for part in [
        "80 ms of 1 s were waits for CPUs in C6",
        "id=\"states\"",
        "id=\"distributions\"",
        "class=\"bars wide\"",
        "id=\"cpus\"",
        "id=\"forbidding\"",
        "the loss does not include them. Estimate: 800 µs, by the mean",
    ] {
        assert!(html.contains(part), "{part}");
    }
}

#[test]
fn a_loss_that_is_unknown_is_a_dash_and_no_loss_is_zero() {
    let mut tallies = tallies();
    let none = Waited {
        leaving_ns: 0,
        longest_leaving_ns: 0,
        ..tallies.pairs.values().next().unwrap().waited
    };
    let lost = |tallies: &Tallies| {
        let mut out = Vec::new();
        text::write(&show::sheet(&cost(tallies)), text::Detail::Short, &mut out).unwrap();
        let text = terminal::plain(out);
        let row = text.lines().find(|line| line.starts_with("<script>"));
        let cell = row.and_then(|row| row.split_whitespace().nth(4));
        cell.unwrap_or_else(|| panic!("{text}")).to_owned()
    };
    assert_eq!(lost(&tallies), "80");
    let pair = |tallies: &mut Tallies, asleep, waited| {
        let sums = tallies.pairs.values_mut().next().unwrap();
        (sums.asleep, sums.waited) = (asleep, waited);
    };
    pair(&mut tallies, 10, none);
    assert_eq!(lost(&tallies), "-");
    pair(&mut tallies, 0, none);
    assert_eq!(lost(&tallies), "0");
}

#[test]
fn a_threads_name_is_no_markup() {
    let html = html(&cost(&tallies()));
    assert!(html.contains("&lt;script&gt; → worker"), "{html}");
    assert!(!html.contains("<script> →"));
}

#[test]
fn without_wake_ups_the_page_has_no_figures() {
    let nothing = Tallies {
        elapsed: Duration::from_secs(2),
        ..Tallies::default()
    };
    let cost = cost(&nothing);
    assert_eq!(cost.lost_share, Some(0.0));
    assert_eq!(cost.overhead.per_wakeup_ns, None);
    assert!(html(&cost).contains("The workload had no wake-up in 2 s"));
    // Without elapsed time.
    assert_eq!(super_short().lost_share, None);
}

fn super_short() -> Cost {
    cost(&Tallies::default())
}

#[test]
fn other_files_are_refused_in_a_line() {
    let refused = |text: &[u8]| read(text).unwrap_err();
    assert!(refused(b"{").contains("cut short"));
    assert!(refused(b"{}").contains("no schema_version"));
    let mut newer = serde_json::to_value(cost(&tallies())).unwrap();
    newer["schema_version"] = (SCHEMA_VERSION + 1).into();
    assert!(refused(newer.to_string().as_bytes()).contains("schema version 2"));
}

#[test]
fn every_column_is_a_field_of_the_json() {
    let json = serde_json::to_value(cost(&tallies())).unwrap();
    for (table, headings) in show::reference() {
        // Without wake-ups by interrupts.
        if table != "by_interrupt[]" {
            assert_eq!(
                sheet::not_in_json(&json, table, &headings),
                Vec::<&str>::new(),
                "{table}"
            );
        }
    }
}
