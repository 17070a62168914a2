use super::*;

const NOON_US: Us = 1_795_284_000_000_000; // 2026-11-21 18:00:00 UTC

fn strip(line: &str) -> Message<'_> {
    match Prefixes::default().strip(line.as_bytes()) {
        Stripped::Message(message) => message,
        other => panic!("{line}: {other:?}"),
    }
}

/// Each known prefix before ` ata1: PM: calling …`, a message that starts with a space.
#[test]
fn a_message_is_the_same_after_every_prefix() {
    let text = " ata1: PM: calling ata_port_pm_resume [libata] @ 12, parent: 0000:00:1f.2";
    for prefix in [
        "[   12.345678] ",
        "[12.345678] ",
        "[   12.345678][ T4321] ",
        "[   12.345678] [ T4321] ",
        "[   12.345678,0] ",
        "[   12.345678 <    0.000123>] ",
        "<6>[   12.345678] ",
        "<6>[   12.345678][ T4321] ",
        "kern  :info  : [   12.345678] ",
        "kern  :warn  : [   12.345678][ T4321] ",
        "Nov 21 18:00:00 host kernel: [   12.345678] ",
        "Nov  1 18:00:00 host kernel: [   12.345678] ",
        "Nov 21 18:00:00 host kernel:[   12.345678] ",
        "Nov 21 18:00:00 kernel: [   12.345678] ",
        "<30>Nov 21 18:00:00 host kernel: [   12.345678] ",
        "<30>1 2026-11-21T18:00:00.123456Z host kernel - - - [   12.345678] ",
        "<30>1 2026-11-21T18:00:00.123456Z host kernel - - [x@1 y=\"z\"] [   12.345678] ",
        "2026-11-21T18:00:00.123456+00:00 host kernel: [   12.345678] ",
        "Nov 21 18:00:00 host klogd: [   12.345678] ",
        "main kernel: [   12.345678] ",
        "[   12.345678] host kernel: ",
        "kernel: [   12.345678] ",
        "some|thing new : [   12.345678] ",
        "> [   12.345678] ",
        "> >> [   12.345678] ",
        ">>[   12.345678] ",
        "\0\0\0[   12.345678] ",
        "6,1234,12345678,-;",
        "6,1234,12345678,-,caller=T4321;",
        // LAVA, GitHub Actions, Kubernetes, `dmesg | ts`, `dmesg | ts %.s`: copiers of console
        // lines stamp them, and name neither host nor program.
        "2026-11-21T18:00:00.383525  <6>[   12.345678] ",
        "    2026-11-21T18:00:00.383525  <6>[   12.345678] ",
        "2026-11-21T18:00:00.1234567Z [   12.345678] ",
        "2026-11-21T18:00:00.123456789Z stdout F [   12.345678] ",
        "2026-11-21 18:00:00.123 [   12.345678][ T4321] ",
        "2026-11-21T18:00:00.123456+01:00 host kernel [   12.345678] ",
        "Nov 21 18:00:00 [   12.345678] ",
        "Nov 21 18:00:00 <6>[   12.345678] ",
        "1795284000.123456 [   12.345678] ",
        // MediaTek's: the online CPUs, whether interrupts are off, the CPU, and the program that
        // printed it.
        "<6>[   12.345678]<1>.(0)[4321:kworker/u16:7]",
        "[   12.345678]  (3)[4321:kworker/u16:7]",
        "[   12.345678] -(3)[4321:swapper/0]",
    ] {
        let line = format!("{prefix}{text}\r");
        let message = strip(&line);
        assert_eq!(
            message.text,
            text.as_bytes(),
            "{prefix}: {}",
            String::from_utf8_lossy(message.text)
        );
        assert_eq!(
            (message.at.us, message.at.resolution_us),
            (12_345_678, 1),
            "{prefix}"
        );
        let logged = prefix.starts_with('[') && prefix.contains(" kernel:");
        let clock = if logged { Clock::Logger } else { Clock::Kernel };
        assert_eq!(message.clock, clock, "{prefix}");
        let named = ["[ T4321]", "[4321:"]
            .iter()
            .any(|name| prefix.contains(name));
        let caller = named.then_some(4321);
        assert_eq!(message.caller, caller, "{prefix}");
        let wall = ["18:00:00", "1795284000"]
            .iter()
            .any(|one| prefix.contains(one));
        assert_eq!(message.wall.is_some(), wall, "{prefix}");
    }
}

#[test]
fn without_the_kernels_stamp_the_wall_clock_is_used_with_its_resolution() {
    let text = "usb usb1: PM: calling usb_dev_resume+0x0/0x20 @ 12, parent: 0000:00:14.0";
    for (prefix, fraction_us, resolution_us) in [
        ("[Sat Nov 21 18:00:00 2026] ", 0, 1_000_000),
        ("kern  :info  : [Sat Nov 21 18:00:00 2026] ", 0, 1_000_000),
        ("2026-11-21T18:00:00,123456+00:00 ", 123_456, 1),
        (
            "kern  :info  : 2026-11-21T18:00:00,123456+00:00 ",
            123_456,
            1,
        ),
        ("2026-11-21T19:00:00+0100 host kernel: ", 0, 1_000_000),
        ("2026-11-21T18:00:00.123+00:00 host kernel: ", 123_000, 1000),
        ("2026-11-21T18:00:00.123456Z kernel: ", 123_456, 1),
        (
            "<30>1 2026-11-21T18:00:00.123456Z host kernel - - - ",
            123_456,
            1,
        ),
        ("Sat 2026-11-21 18:00:00 UTC host kernel: ", 0, 1_000_000),
        ("1795284000.123456 host kernel: ", 123_456, 1),
    ] {
        let line = format!("{prefix}{text}");
        let message = strip(&line);
        assert_eq!(message.text, text.as_bytes(), "{prefix}");
        assert_eq!(message.at.us, NOON_US + fraction_us, "{prefix}");
        assert_eq!(message.at.resolution_us, resolution_us, "{prefix}");
        let clock = match prefix.contains("kernel") || prefix.starts_with('<') {
            true => Clock::Wall,
            false => Clock::Dated,
        };
        assert_eq!(message.clock, clock, "{prefix}");
    }
    // Without a year.
    let message = strip("Nov 21 18:00:00.123456 host kernel: CPU1 is up");
    assert_eq!(message.at.us % 86_400_000_000, 64_800_123_456);
    assert_eq!(message.text, b"CPU1 is up");
    assert_eq!(message.wall, Some(&b"Nov 21 18:00:00.123456"[..]));
}

#[test]
fn deltas_are_added_up() {
    let mut prefixes = Prefixes::default();
    let mut at = |line: &'static str| match prefixes.strip(line.as_bytes()) {
        Stripped::Message(message) => message.at.us,
        other => panic!("{line}: {other:?}"),
    };
    let first = at("[Nov21 18:00] PM: suspend entry (deep)");
    assert_eq!(at("[  +0.000123] one") - first, 123);
    assert_eq!(at("[  +1.500000] two") - first, 1_500_123);
    assert_eq!(at("[<    0.000007>] three") - first, 1_500_130);
}

#[test]
fn other_programs_and_lines_without_a_stamp_are_distinguished() {
    let strip = |line: &'static str| Prefixes::default().strip(line.as_bytes());
    for line in [
        "Nov 21 18:00:00 host systemd[1]: Starting Suspend...",
        "2026-11-21T18:00:00+00:00 host systemd-sleep[7]: Entering sleep state 'suspend'...",
        "2026-11-21T18:00:00Z [INFO] PM: suspend entry (deep)",
        "Nov 21 18:00:00 host probe[7]: took [12.5] of [    7]",
    ] {
        assert_eq!(strip(line), Stripped::Foreign, "{line}");
    }
    assert_eq!(
        strip("> dev:3:0:0:0 complete after 7 msecs"),
        Stripped::Bare(b"dev:3:0:0:0 complete after 7 msecs")
    );
    for line in ["", " \r", ">", "> ", "\0\0"] {
        assert_eq!(strip(line), Stripped::Blank, "{line:?}");
    }
}

#[test]
fn a_trace_is_read_with_and_without_its_columns() {
    for (line, us) in [
        ("  sh-203     [000] .....     6.744896: EVENT", 6_744_896),
        ("  sh-203     [000] d..1     6.744896: EVENT", 6_744_896),
        ("  sh-203     [000]     6.744896: EVENT", 6_744_896),
        (
            "  sh-203   (    203) [000] .....     6.744896: EVENT",
            6_744_896,
        ),
        ("  sh-203     [000] .....     6.744896123: EVENT", 6_744_896),
        (
            " kworker/u8:1-a-203 [1024] .....  280208.686221: EVENT",
            280_208_686_221,
        ),
    ] {
        let stripped = Prefixes::default().strip(line.as_bytes());
        let Stripped::Trace { at, pid, event } = stripped else {
            panic!("{line}: {stripped:?}");
        };
        assert_eq!(
            (at.us, pid, event),
            (us, Some(203), &b"EVENT"[..]),
            "{line}"
        );
    }
    let unknown = Prefixes::default().strip(b"  <...>-4745  [006] .... 1.000000: EVENT");
    assert!(matches!(
        unknown,
        Stripped::Trace {
            pid: Some(4745),
            ..
        }
    ));
}

#[test]
fn each_prefix_has_its_limits() {
    let strip = |line: &str| match Prefixes::default().strip(line.as_bytes()) {
        Stripped::Message(message) => {
            let text = String::from_utf8_lossy(message.text).into_owned();
            Ok((message.clock, message.at.us, text))
        }
        Stripped::Bare(text) => Err(text == line.as_bytes()),
        Stripped::Foreign => Err(false),
        other => panic!("{line}: {other:?}"),
    };
    let kernel = |us| Ok((Clock::Kernel, us, "x".to_owned()));
    let wall = Ok((Clock::Wall, NOON_US, "x".to_owned()));
    let (bare, foreign) = (Err(true), Err(false));
    let filled = |n: usize| "y".repeat(n);

    // The fields after the stamp, within its bracket.
    let behind = |n| strip(&format!("[   12.345678{}] x", filled(n)));
    assert_eq!((behind(31), behind(32)), (kernel(12_345_678), bare.clone()));
    // Seconds since 1970 from 1973 on; smaller numbers are anything.
    let seconds = |text: &str| strip(&format!("{text} host kernel: x"));
    assert_eq!(seconds("100000000.000000"), bare);
    let from_1973 = (Clock::Wall, 100_000_000_000_001, "x".to_owned());
    assert_eq!(seconds("100000000.000001"), Ok(from_1973));
    // `dmesg -x`: the facility and the level.
    let decoded = |names: &str| strip(&format!("{names} 2026-11-21T18:00:00,000000+00:00 x"));
    let dated = Ok((Clock::Dated, NOON_US, "x".to_owned()));
    assert_eq!(decoded("abcdefghi:info  :"), dated);
    assert_eq!(decoded("abcdefghij:info  :"), bare);
    assert_eq!(decoded("Kern  :info  :"), bare);
    assert_eq!(decoded("kern  ::"), bare);
    // A host's name.
    let host = |n| {
        strip(&format!(
            "2026-11-21T18:00:00+00:00 {} kernel: x",
            filled(n)
        ))
    };
    assert_eq!((host(112), host(113)), (wall, foreign));
    // Records of /dev/kmsg.
    let record = |level: u64, us: u64, flags| strip(&format!("{level},1,{us},{};x", filled(flags)));
    assert_eq!(record(999, 7, 63), kernel(7));
    assert_eq!(record(1000, 7, 63), bare);
    assert_eq!(record(999, 7, 64), bare);
    assert_eq!(record(0, (1 << 55) - 1, 1), kernel((1 << 55) - 1));
    assert_eq!(record(0, 1 << 55, 1), bare);
    // Junk before the bracket: the fewer digits the stamp has, the more evidence it needs.
    assert_eq!(strip("^C[   12.345678] x"), kernel(12_345_678));
    assert_eq!(strip("a b [12.345] x"), kernel(12_345_000));
    assert_eq!(strip("a b:[12.345] x"), kernel(12_345_000));
    assert_eq!(strip("a b[12.345] x"), bare);
    assert_eq!(strip("a b [12.34] x"), bare);
    assert_eq!(strip("a b [   12.345678 x"), bare);
    assert_eq!(strip("[   12.345678] x\0\0"), kernel(12_345_678));
}

#[test]
fn a_prefix_within_a_message_is_kept() {
    for text in [
        "[drm] x",
        "[13.0001] x",
        "[13.00000123] x",
        "y [   13.000001] x",
        "<6>x",
        "6,1234,12345678,-;x",
        "a:b: x",
    ] {
        for prefix in ["[   12.345678] ", "[   12.345678][ T4321] "] {
            let line = format!("{prefix}{text}");
            let message = strip(&line);
            assert_eq!(message.text, text.as_bytes(), "{line}");
            assert_eq!(message.at.us, 12_345_678, "{line}");
        }
    }
    assert_eq!(strip("[   12.345678][drm] x").text, b"[drm] x");
    // A serial console's logger stamps the line as well: the inner stamp is the kernel's.
    let message = strip("[   12.345678] [   13.000001] x");
    assert_eq!((message.at.us, message.text), (13_000_001, &b"x"[..]));
    let message = strip("2026-11-21T18:00:00+00:00 host kernel: y [   13.000001] x");
    assert_eq!((message.clock, message.at.us), (Clock::Wall, NOON_US));
    assert_eq!(message.text, b"y [   13.000001] x");
    assert_eq!(strip("[   12.345678][    C1] x").caller, None);
    assert_eq!(strip("[   12.345678][    C1] x").text, b"x");
}

#[test]
fn a_program_that_copies_messages_after_the_resume_gives_no_clock() {
    for level in ["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"] {
        let line = format!("2026-11-21 18:00:00,123 {level}:\tACPI: x");
        let message = strip(&line);
        assert_eq!(message.clock, Clock::None, "{line}");
        assert_eq!(message.at.us, NOON_US + 123_000, "{line}");
        assert_eq!(message.text, b"ACPI: x", "{line}");
    }
    let message = strip("2026-11-21 18:00:00,123 NOTE:\tACPI: x");
    assert_eq!(
        (message.clock, message.text),
        (Clock::Dated, &b"NOTE:\tACPI: x"[..])
    );
}

#[test]
fn programs_in_rfc_5424_syslog_are_other_programs() {
    let line = "<30>1 2026-11-21T18:00:00.123456Z host systemd 1 - - Starting Suspend...";
    let stripped = Prefixes::default().strip(line.as_bytes());
    assert_eq!(stripped, Stripped::Foreign);
}

#[test]
fn a_line_with_minutes_has_that_minute() {
    let message = strip("[Nov21 18:00] x");
    // 21 November 2000, because the year is missing: `date -u -d "2000-11-21 18:00" +%s`.
    assert_eq!(message.at.us, 974_829_600_000_000);
    assert_eq!((message.clock, message.text), (Clock::Kernel, &b"x"[..]));
    assert_eq!(message.wall, Some(&b"Nov21 18:00"[..]));
}

#[test]
fn a_second_message_in_a_line_starts_at_a_complete_stamp() {
    assert_eq!(next_stamp(b"x[   13.000001] y"), Some(1));
    assert_eq!(next_stamp(b"x [drm] [1.5] [   13.000001] y"), Some(14));
    for text in [
        "[   13.000001] y",
        "x[   13.000001]y",
        "x[   13.0001] y",
        "x[   13.0000012] y",
        "x[   13.000001 y",
    ] {
        assert_eq!(next_stamp(text.as_bytes()), None, "{text}");
    }
}

#[test]
fn a_trace_has_three_digits_of_a_cpu_and_few_flags() {
    let of = |line: &'static str| match Prefixes::default().strip(line.as_bytes()) {
        Stripped::Trace { at, .. } => Some(at.us),
        _ => None,
    };
    assert_eq!(of("sh-203 [000] 1234567 6.744896: E"), Some(6_744_896));
    assert_eq!(of("sh-203 [000] 12345678 6.744896: E"), None);
    assert_eq!(of("sh-203 [00] ..... 6.744896: E"), None);
}

#[test]
fn a_trace_line_after_another_stamp_is_that_stamps_message() {
    for (prefix, clock, us) in [
        ("6,1234,12345678,-;", Clock::Kernel, 12_345_678),
        ("2026-11-21T18:00:00Z host kernel: ", Clock::Wall, NOON_US),
    ] {
        let line = format!("{prefix}sh-203 [000] 6.744896: E");
        let message = strip(&line);
        assert_eq!((message.clock, message.at.us), (clock, us), "{prefix}");
        assert_eq!(message.text, b"sh-203 [000] 6.744896: E", "{prefix}");
    }
}

#[test]
fn a_program_that_forwards_messages_keeps_the_kernels_stamp_and_resolution() {
    let message = strip("Nov 21 18:00:00 host klogd: [   12.34] x");
    assert_eq!((message.clock, message.text), (Clock::Kernel, &b"x"[..]));
    assert_eq!(
        (message.at.us, message.at.resolution_us),
        (12_340_000, 10_000)
    );
}

#[test]
fn a_program_name_has_at_most_31_letters() {
    for (length, known) in [(31, true), (32, false)] {
        let process = format!(" -(3)[4321:{}]", "y".repeat(length - 2));
        // With the two digits of the worker's number.
        let process = process.replace("yyy]", "yyy/1]");
        let line = format!("[   12.345678]{process}x");
        let message = strip(&line);
        let (caller, text) = match known {
            true => (Some(4321), "x".to_owned()),
            false => (None, format!("{}x", &process[1..])),
        };
        assert_eq!((message.caller, message.text), (caller, text.as_bytes()));
    }
    // Anything else than such a list is the message.
    for text in ["(3)[x:y]z", "(x)[1:y]z", "(3)[1]z", "(3) z", "<x>(3)[1:y]z"] {
        let line = format!("[   12.345678] {text}");
        assert_eq!(strip(&line).text, text.as_bytes());
    }
}

#[test]
fn a_message_has_its_wall_clocks_text_and_instant() {
    let message = strip("2026-11-21T18:00:00.5Z host kernel: [   12.345678][ T7] x");
    let instant = |us, resolution_us| Instant { us, resolution_us };
    assert_eq!(
        message,
        Message {
            at: instant(12_345_678, 1),
            clock: Clock::Kernel,
            wall: Some(b"2026-11-21T18:00:00.5Z"),
            wall_at: Some(instant(NOON_US + 500_000, 100_000)),
            caller: Some(7),
            text: b"x",
        }
    );
}

#[test]
fn deltas_and_minutes_have_their_resolution() {
    let mut prefixes = Prefixes::default();
    let mut of = |line: &'static str| match prefixes.strip(line.as_bytes()) {
        Stripped::Message(message) => (message.at.us, message.at.resolution_us),
        other => panic!("{line}: {other:?}"),
    };
    assert_eq!(of("[  +1.25] x"), (1_250_000, 10_000));
    assert_eq!(of("[<    0.500>] x"), (1_750_000, 1000));
    // 1 March of 2000 from 1970 on: 11 017 days.
    let march = 11_017 * 86_400 * 1_000_000;
    assert_eq!(
        of("[Mar 1 09:07] x"),
        (march + 547 * 60_000_000, 60_000_000)
    );
    assert_eq!(of("[  +0.000001] x"), (march + 547 * 60_000_000 + 1, 1));
}

/// The seconds between two consecutive stamps.
fn steps<const N: usize>(stamps: [&'static str; N]) -> Vec<Us> {
    let mut prefixes = Prefixes::default();
    let at: Vec<Us> = stamps
        .iter()
        .map(|stamp| match prefixes.strip(stamp.as_bytes()) {
            Stripped::Message(message) => message.at.us / 1_000_000,
            other => panic!("{stamp}: {other:?}"),
        })
        .collect();
    at.windows(2).map(|two| two[1] - two[0]).collect()
}

const DAY: Us = 86_400;

#[test]
fn a_stamp_half_a_year_back_without_a_year_is_in_the_next_year() {
    let new_year = ["Dec 31 23:59:55 h kernel: x", "Jan  1 00:00:05 h kernel: x"];
    assert_eq!(steps(new_year), [10]);
    // The one after the next, too.
    let [december, january] = new_year;
    let (june, october) = ("Jun 30 00:00:05 h kernel: x", "Oct  1 00:00:05 h kernel: x");
    let of_two = steps([december, january, june, october, december, january]);
    assert_eq!((of_two[0], of_two[4]), (10, 10));
    assert_eq!(of_two.iter().sum::<Us>(), 365 * DAY + 10);
    // In any form.
    let minutes = ["[Dec31 23:59] x", "[Jan 1 00:01] x"];
    assert_eq!(steps(minutes), [120]);
    let mut prefixes = Prefixes::default();
    for line in minutes.into_iter().chain(["[  +0.5] x"]) {
        prefixes.strip(line.as_bytes());
    }
    // From 2 January 2000, because the year is missing, to 1 January of the next: 10 958 days and
    // 365.
    let seconds = 11_323 * DAY + 60;
    assert_eq!(prefixes.running_us, seconds * 1_000_000 + 500_000);
    // 180 days before it is the same year, and a second more is not.
    let half = |january| steps(["Jul  1 00:00:00 h kernel: x", january]);
    assert_eq!(half("Jan  2 00:00:00 h kernel: x"), [-180 * DAY]);
    assert_eq!(half("Jan  1 23:59:59 h kernel: x"), [185 * DAY - 1]);
    // A repeated log goes back as far, whatever it learnt about its years.
    let twice = [december, january, "Feb 29 00:00:00 h kernel: x"];
    let twice = steps([twice[0], twice[1], twice[2], twice[0], twice[1], twice[2]]);
    assert_eq!(twice[3..], twice[..2]);
    assert_eq!(twice[..3].iter().sum::<Us>(), 0);
}

#[test]
fn no_log_spans_more_than_a_thousand_years() {
    let mut prefixes = Prefixes::default();
    let mut year = || {
        let stamps = ["Jan  1", "Jun  1", "Nov  1"];
        let at = stamps.map(|day| {
            match prefixes.strip(format!("{day} 00:00:00 h kernel: x").as_bytes()) {
                Stripped::Message(message) => message.at.us / 1_000_000,
                other => panic!("{day}: {other:?}"),
            }
        });
        at[0]
    };
    let first = year();
    let behind = std::array::from_fn::<Us, 1001, _>(|_| year() - first);
    assert_eq!(
        behind[998..],
        [999, 1000, 1000].map(|years| years * 365 * DAY)
    );
}

#[test]
fn a_year_has_a_29_february_only_if_a_stamp_has_it() {
    let february = "Feb 28 23:59:55 h kernel: x";
    let march = "Mar  1 00:00:05 h kernel: x";
    let leap = "Feb 29 12:00:00 h kernel: x";
    assert_eq!(steps([february, march]), [10]);
    assert_eq!(steps([february, "Mar  1 00:00:00 h kernel: x"]), [5]);
    assert_eq!(steps([february, leap, march]), [43_205, 43_205]);
    // The year after a leap year has none, and is 366 days after it.
    let december = "Dec 31 23:59:55 h kernel: x";
    let january = "Jan  1 00:00:05 h kernel: x";
    let two = steps([leap, december, january, february, march]);
    // 306 days from 29 February to 31 December.
    assert_eq!(two[0], 306 * DAY + 12 * 3600 - 5);
    assert_eq!((two[1], two[3]), (10, 10));
    // The year after may have one again.
    let again = steps([december, january, february, leap, march]);
    assert_eq!((again[0], again[2], again[3]), (10, 43_205, 43_205));
    // The first stamp of a year may have that date.
    assert_eq!(steps([december, leap, march])[1], 43_205);
    assert_eq!(
        steps([december, leap]),
        [59 * DAY + 12 * 3600 + 5],
        "31 days of January and 28 of February"
    );
}

#[test]
fn a_stamp_with_a_year_is_in_that_year() {
    // Clocks without a battery start with 2000, a leap year.
    let leap = [
        "[Mon Feb 28 23:59:55 2000] x",
        "[Wed Mar  1 00:00:05 2000] x",
    ];
    assert_eq!(steps(leap), [DAY + 10]);
    // `date -u -d "2000-01-01 00:00:10" +%s`.
    let first = strip("[Sat Jan  1 00:00:10 2000] x");
    assert_eq!(first.at.us, 946_684_810_000_000);
    // It goes back if the clock was set back.
    let back = [
        "[Sat Nov 21 18:00:00 2026] x",
        "[Wed Jan 21 18:00:00 2026] x",
    ];
    assert_eq!(steps(back), [-304 * DAY]);
    // And is no evidence for those without one.
    let among = steps([
        "Nov 21 18:00:00 h kernel: x",
        "[Sat Nov 21 18:00:00 2026] x",
        "Nov 21 18:00:10 h kernel: x",
    ]);
    assert_eq!(among.iter().sum::<Us>(), 10);
}

#[test]
fn the_date_of_the_line_before_is_not_that_of_a_line_with_a_fraction_or_a_zone() {
    let mut prefixes = Prefixes::default();
    let mut at = |line: &str| match prefixes.strip(line.as_bytes()) {
        Stripped::Message(message) => (message.at.us, message.at.resolution_us),
        other => panic!("{line}: {other:?}"),
    };
    let first = at("Nov 21 18:00:00 host kernel: x").0;
    for (line, us, resolution_us) in [
        ("Nov 21 18:00:00 host kernel: y", 0, 1_000_000),
        ("Nov 21 18:00:00.5 host kernel: y", 500_000, 100_000),
        ("Nov 21 18:00:00 Host kernel: y", 0, 1_000_000),
        ("Nov 21 18:00:00 host kernel: y", 0, 1_000_000),
        ("Nov 21 18:00:01 host kernel: y", 1_000_000, 1_000_000),
        ("Nov 21 18:00:00 host kernel: y", 0, 1_000_000),
    ] {
        assert_eq!(at(line), (first + us, resolution_us), "{line}");
    }
    let zone = |line: &str| strip(line).wall.map(<[u8]>::len);
    let mut after = Prefixes::default();
    for line in [
        "Sat 2026-11-21 18:00:00 host kernel: x",
        "Sat 2026-11-21 18:00:00 UTC host kernel: x",
        "Sat 2026-11-21 18:00:00 host kernel: y",
    ] {
        let Stripped::Message(message) = after.strip(line.as_bytes()) else {
            panic!("{line}");
        };
        assert_eq!(message.wall.map(<[u8]>::len), zone(line), "{line}");
    }
}
