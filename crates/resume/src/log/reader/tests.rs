use super::*;
use crate::cycle::Cycle;
use crate::log::{LeftOut, read};

fn of(text: &str) -> Log {
    read(text.as_bytes()).unwrap()
}

/// The failures of the one cycle with these lines, as device and message.
fn failures(text: &str) -> Vec<(Option<String>, String)> {
    let mut found = of(&format!("[   10.000000] PM: suspend entry (deep)\n{text}"));
    assert_eq!(found.cycles.len(), 1, "{text}");
    let failures = found.cycles.remove(0).failures.into_iter();
    failures
        .map(|one| (one.device.as_deref().map(str::to_owned), one.message))
        .collect()
}

#[test]
fn a_message_continues_over_three_lines_without_a_stamp() {
    let lines = |last: &str| {
        let text = format!(
            "[   10.100000] PM: Some devices failed to\n  suspend, or early\n> wake event\ndetected{last}\n"
        );
        failures(&text)
    };
    let whole = "Some devices failed to suspend, or early wake event detected";
    assert_eq!(lines(""), [(None, whole.to_owned())]);
    assert_eq!(lines("\nby a program"), [(None, whole.to_owned())]);
}

#[test]
fn a_message_with_its_continuations_is_shorter_than_4_kib() {
    // 23 bytes, and the rest of 4095.
    let stem = "PM: Some devices failed";
    for (rest, goes_on) in [(4095 - 23, true), (4096 - 23, false)] {
        let rest = "x".repeat(rest);
        let expected = match goes_on {
            true => format!("Some devices failed {rest}"),
            false => "Some devices failed".to_owned(),
        };
        let found = failures(&format!("[   10.100000] {stem}\n{rest}\n"));
        assert_eq!(found, [(None, expected)], "{}", rest.len());
    }
}

#[test]
fn words_cut_by_a_terminal_are_rejoined_at_each_cut() {
    let found =
        of("[   10.000000] PM: susp\nend ent\nry (de\nep)\n[   11.000000] PM: suspend exit\n");
    assert_eq!(found.event_lines, 2);
    let cycle = &found.cycles[0];
    assert_eq!(
        (cycle.sleep.as_deref(), cycle.cut, cycle.words.first),
        (Some("deep"), false, Some(10_000_000))
    );
    // Text after a message that does not belong to it removes nothing.
    let found = of("[   10.000000] done.\nby a program\n[   11.000000] x\nPM: suspend exit\n");
    assert_eq!((found.event_lines, found.left_out), (1, LeftOut::default()));
}

#[test]
fn lines_with_equal_stamps_to_the_microsecond_are_duplicates() {
    let repeated = |text: &str| of(text).left_out.repeated_lines;
    let line = "[   10.000000] usb 1-1: x\n";
    assert_eq!(repeated(&line.repeat(3)), 2);
    // After another prefix it is the same line.
    assert_eq!(repeated(&format!("{line}<6>{line}")), 1);
    for other in [
        "[   10.000000] usb 1-1: y\n",
        "[   10.000001] usb 1-1: x\n",
        // Between them nothing is kept, or more of the message.
        "\n[   10.000000] usb 1-1: x\n",
        "more\n[   10.000000] usb 1-1: x\n",
    ] {
        assert_eq!(repeated(&format!("{line}{other}")), 0, "{other}");
    }
    // Lines of one millisecond may be different, and so may those of a wall clock.
    for line in [
        "[   10.000] usb 1-1: x\n",
        "2026-11-21T18:00:00,123456+00:00 usb 1-1: x\n",
    ] {
        assert_eq!(repeated(&line.repeat(2)), 0, "{line}");
    }
}

#[test]
fn two_messages_in_one_line_are_two() {
    for prefix in ["", "Nov 21 18:00:00 host kernel: ", "<6>"] {
        for (first, second, sleep, start) in [
            // The end of the first one was lost with the line's end, or the line's end alone.
            (
                "PM: suspend ent",
                "PM: suspend entry (s2idle)",
                "s2idle",
                10_100_000,
            ),
            ("PM: suspend entry (deep)", "usb 1-1: x", "deep", 10_000_000),
        ] {
            let found = of(&format!(
                "{prefix}[   10.000000] {first}[   10.100000] {second}\n\
                 [   11.000000] PM: suspend exit\n"
            ));
            let begin = |cycle: &Cycle| (cycle.sleep.clone(), cycle.words.first);
            let cycles: Vec<_> = found.cycles.iter().map(begin).collect();
            assert_eq!(
                cycles,
                [(Some(sleep.to_owned()), Some(start))],
                "{prefix}{first}"
            );
        }
    }
}

#[test]
fn the_resolution_is_the_coarsest_of_relevant_stamped_lines() {
    let of = |text: &str| of(text).resolution_us;
    assert_eq!(of("[   10.000] usb 1-1: x\n"), None);
    let entry = "[   10.000000] PM: suspend entry (deep)\n";
    assert_eq!(of(&format!("{entry}[   10.000] usb 1-1: x\n")), Some(1));
    let exit = "[   10.010] PM: suspend exit\n";
    assert_eq!(of(&format!("{entry}{exit}")), Some(1000));
    let before = "[    9.0] PM: suspend exit\n";
    assert_eq!(of(&format!("{before}{entry}{exit}")), Some(100_000));
    // A program copied these after the resume: 1 ms is its resolution, not the kernel's.
    assert_eq!(
        of("2026-11-21 18:00:00,123 DEBUG:\tPM: suspend entry (s2idle)\n"),
        None
    );
}

#[test]
fn the_first_line_of_a_journal_entry_is_the_kernels_message() {
    let entry = |us: u64, message: &str| {
        format!(
            "{{\"_TRANSPORT\":\"kernel\",\"_SOURCE_MONOTONIC_TIMESTAMP\":\"{us}\",\"MESSAGE\":\"{message}\"}}\n"
        )
    };
    let found = of(&[
        entry(9_000_000, "PM: suspend entry (deep)"),
        entry(
            10_000_000,
            "PM: Some devices failed to suspend\\nSUBSYSTEM=pci",
        ),
    ]
    .concat());
    let failure = &found.cycles[0].failures[0];
    assert_eq!(
        (failure.at, &*failure.message),
        (10_000_000, "Some devices failed to suspend")
    );
    assert_eq!(found.resolution_us, Some(1));
}

#[test]
fn non_breaking_spaces_differ_from_bytes_of_letters() {
    let plain = |line: &[u8]| with_plain_spaces(line);
    assert_eq!(plain(b"a b"), None);
    for (line, expected) in [
        // UTF-8's, Latin-1's, U+FFFD.
        (&b"a\xc2\xa0b"[..], &b"a b"[..]),
        (b"a\xa0b", b"a b"),
        (b"\xa0\xa0b", b"  b"),
        (b"a\xef\xbf\xbdb", b"a b"),
        // \u{e0}, and the dagger, whose last byte but one is the lowest non-ASCII byte.
        ("a\u{e0}b".as_bytes(), "a\u{e0}b".as_bytes()),
        ("a\u{2020}b".as_bytes(), "a\u{2020}b".as_bytes()),
        // An incomplete U+FFFD, and one half.
        (b"\xbd", b"\xbd"),
        (b"\x7f\xa0", b"\x7f "),
    ] {
        assert_eq!(plain(line).as_deref(), Some(expected), "{line:x?}");
    }
}

#[test]
fn colours_are_removed_up_to_their_final_letter() {
    let mut plain = b"of the line before".to_vec();
    for (line, expected) in [
        (
            "\x1b[32m[   1.0] \x1b[0m\x1b[1mPM: x\x1b[0m",
            "[   1.0] PM: x",
        ),
        ("a\x1b[Kb", "ab"),
        // The first and the last byte that ends a sequence.
        ("a\x1b[1@b\x1b[1~c", "abc"),
        // Without a bracket it is only the escape, and without an end everything after it.
        ("a\x1bbc", "abc"),
        ("a\x1b[1;2", "a"),
        ("a\x1b", "a"),
    ] {
        without_colours(line.as_bytes(), &mut plain);
        assert_eq!(plain, expected.as_bytes(), "{line:?}");
    }
}

#[test]
fn the_tracing_buffers_loss_is_read_from_its_line() {
    assert_eq!(lost_events(b"CPU:1 [LOST 123 EVENTS]"), Some(123));
    assert_eq!(lost_events(b"CPU:127 [LOST 7 EVENTS]"), Some(7));
    for line in ["CPU:1 [LOST EVENTS]", "CPU1 [LOST 7 EVENTS]", "CPU:1 is up"] {
        assert_eq!(lost_events(line.as_bytes()), None, "{line}");
    }
}
