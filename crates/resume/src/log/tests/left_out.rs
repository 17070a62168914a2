//! Omissions: counted, merged, reported.

use std::io;

use super::super::reader::read_all;
use super::odd::moved;
use super::*;

/// Each count is different.
const ONE_TO_SIXTEEN: LeftOut = LeftOut {
    long_lines: 1,
    lines_without_stamp: 2,
    torn_lines: 3,
    returns_without_call: 4,
    calls_without_start: 5,
    calls_without_end: 6,
    guessed_stages: 7,
    clock_jumps: 8,
    late_stamps: 9,
    hibernations: 10,
    repeated_cycles: 11,
    repeated_lines: 12,
    lost_events: 13,
    too_many: 14,
    late_calls: 15,
    backward_lines: 16,
};

#[test]
fn each_reason_is_a_phrase_after_its_number() {
    let phrases = [
        "line of more than 64 KiB",
        "lines without a time",
        "damaged lines",
        "calls with only an end in the log; their start is from the kernel's duration",
        "calls without a start, and without a duration",
        "calls without an end",
        "calls in a guessed stage: no line marks the end of stages (/sys/power/pm_debug_messages)",
        "jumps of the clock within a cycle: no time passes there",
        "cycles whose lines a logger stamped later: suspend and resume are unknown, and a time asleep is \
         an upper bound (`dmesg` and `journalctl -k -o json` have the kernel's stamps)",
        "suspends to disk",
        "cycles that the log has twice",
        "lines that the log has twice",
        "events that the tracing buffer lost",
        "items beyond what is kept: 100,000 calls of a cycle, 1,000,000 calls and 100,000 cycles of a log",
        "lines on devices that resume when processes run again",
        "lines turned round, for the newest stands first",
    ];
    let expected: Vec<(u64, String)> = (1..).zip(phrases.map(str::to_owned)).collect();
    assert_eq!(ONE_TO_SIXTEEN.reasons(), expected);
    // Reasons that did not occur are not listed.
    assert_eq!(LeftOut::default().reasons(), []);
    let one = LeftOut {
        hibernations: 1,
        ..LeftOut::default()
    };
    assert_eq!(one.reasons(), [(1, "suspend to disk".to_owned())]);
}

#[test]
fn counts_of_two_streams_are_added_up() {
    let mut sum = ONE_TO_SIXTEEN;
    sum.add(LeftOut {
        long_lines: 150,
        lines_without_stamp: 140,
        torn_lines: 130,
        returns_without_call: 120,
        calls_without_start: 110,
        calls_without_end: 100,
        guessed_stages: 90,
        clock_jumps: 80,
        late_stamps: 70,
        hibernations: 60,
        repeated_cycles: 50,
        repeated_lines: 40,
        lost_events: 30,
        too_many: 20,
        late_calls: 10,
        backward_lines: 0,
    });
    let expected = LeftOut {
        long_lines: 151,
        lines_without_stamp: 142,
        torn_lines: 133,
        returns_without_call: 124,
        calls_without_start: 115,
        calls_without_end: 106,
        guessed_stages: 97,
        clock_jumps: 88,
        late_stamps: 79,
        hibernations: 70,
        repeated_cycles: 61,
        repeated_lines: 52,
        lost_events: 43,
        too_many: 34,
        late_calls: 25,
        backward_lines: 16,
    };
    assert_eq!(sum, expected);
}

/// A dmesg of three cycles, two of them repeated, a trace of one, also repeated; and each reason
/// that the reader itself counts.
#[test]
fn omissions_are_counted_over_all_parts_of_a_log() {
    let second = moved(TODAY, "20");
    // Its resume is a second longer: it matches none of the dmesg's cycles.
    let other_trace = TRACE
        .replace(" 10.309", " 51.309")
        .replace(" 10.31", " 51.31")
        .replace(" 10.", " 50.");
    let parts = [
        format!("PM: suspend exit\n{TODAY}{}\n", "x".repeat(70_000)),
        format!("{second}{TODAY}{second}{}", moved(TODAY, "30")),
        "[   40.000000] PM: resume of devices complete af\n".repeat(2),
        "[   41.000000] PM: resume of devices complete af\nPM: suspend exit\n\nPM: suspend exit\nPM: suspend exit\n"
            .to_owned(),
        // Two lines of one instant, and the second one is a different line.
        "[   42.000000] usb 1-1: x\n[   42.000000] usb 1-1: x\n[   42.000000] usb 1-1: y\n"
            .to_owned(),
        format!("{other_trace}CPU:0 [LOST 30 EVENTS]\n{other_trace}"),
    ];
    let found = read_all(parts.iter().map(String::as_bytes)).unwrap();
    assert_eq!(
        found.left_out,
        LeftOut {
            long_lines: 1,
            lines_without_stamp: 3,
            torn_lines: 2,
            // 10 s and 20 s from the dmesg, 50 s from the trace.
            repeated_cycles: 3,
            // The incomplete one, and the one of 42 s.
            repeated_lines: 2,
            // Each trace has one of 12.
            lost_events: 12 + 30 + 12,
            ..LeftOut::default()
        }
    );
    let lines: usize = parts.iter().map(|part| part.lines().count()).sum();
    let bytes: usize = parts.iter().map(String::len).sum();
    assert_eq!((found.lines, found.bytes), (lines as u64, bytes as u64));
    let begins: Vec<_> = found
        .cycles
        .iter()
        .map(|cycle| (cycle.number, cycle.stages[0].start))
        .collect();
    assert_eq!(
        begins,
        [
            (1, 10_000_000),
            (2, 20_000_000),
            (3, 30_000_000),
            (4, 50_000_100)
        ]
    );
}

#[test]
fn files_of_one_log_are_read_in_order_and_an_error_names_the_first() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let half = TODAY.find("[   10.006500]").unwrap();
    let (begin, end) = (file("1", &TODAY[..half]), file("2", &TODAY[half..]));
    assert_eq!(read_files(&[begin, end]).unwrap(), log(TODAY));

    let empty = [file("empty", ""), file("empty too", "")];
    let error = read_files(&empty).unwrap_err();
    assert!(
        matches!(&error, Error::Unreadable { path, why } if *path == empty[0] && why.starts_with("it is empty")),
        "{error:?}"
    );
    let packed = file("log.bz2", "BZh91AY");
    let error = read_files(&[empty[0].clone(), packed.clone()]).unwrap_err();
    assert!(
        matches!(&error, Error::Unreadable { path, why } if *path == packed && why.contains("bzip2")),
        "{error:?}"
    );
}

#[test]
fn of_several_reasons_for_no_suspend_the_first_to_fix_is_reported() {
    let why = |left_out: LeftOut, lines: u64| {
        let log = Log {
            lines,
            left_out,
            ..Log::default()
        };
        match log.or_no_suspend(Path::new("x")) {
            Err(Error::Unreadable { path, why }) if path == Path::new("x") => why,
            other => panic!("{other:?}"),
        }
    };
    let of = |lines_without_stamp, hibernations| LeftOut {
        lines_without_stamp,
        hibernations,
        ..LeftOut::default()
    };
    let said = [(7, 1, 9), (0, 0, 0), (0, 0, 9)].map(|(without, hibernations, lines)| {
        let case = format!("{lines} lines, {without} without a stamp, {hibernations} hibernations");
        (case, why(of(without, hibernations), lines))
    });
    reveille_snapshot::snapshot!("unreadable", said);
}

/// A line without a time counts with its line end, one of more than 64 KiB as 64 KiB.
#[test]
fn of_text_without_times_at_most_16_mib_are_read() {
    let long = format!("{}\n", "x".repeat((1 << 16) + 1));
    let text = format!("{}{}\n", long.repeat(255), "x".repeat((1 << 16) - 1));
    let just = log(&text);
    assert_eq!((just.lines, just.left_out.long_lines), (256, 255));
    assert_eq!(just.bytes, text.len() as u64);
    for more in ["\n", &long] {
        let error = read(format!("{text}{more}").as_bytes()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        assert!(error.to_string().contains("in its first 16 MiB"), "{error}");
    }
    // A line with a time, from any program, shows that it is a log.
    for timed in [
        "[    1.000000] x\n",
        "Nov 21 18:00:00 host cron[7]: x\n",
        "  sh-203     [000] .....     6.744896: EVENT\n",
        "{\"_TRANSPORT\":\"kernel\",\"_SOURCE_MONOTONIC_TIMESTAMP\":\"7\",\"MESSAGE\":\"x\"}\n",
    ] {
        let found = log(&format!("{timed}{}", long.repeat(257)));
        assert_eq!(found.left_out.long_lines, 257, "{timed}");
    }
}
