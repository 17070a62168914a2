use super::*;

const NOON_US: Us = 1_795_284_000_000_000; // 2026-11-21 18:00:00 UTC

fn strip(line: &str) -> Message<'_> {
    match Prefixes::default().strip(line.as_bytes()) {
        Stripped::Message(message) => message,
        other => panic!("{line}: {other:?}"),
    }
}

/// Each known prefix before ` ata1: PM: calling …`, a message that begins with a space.
#[test]
fn a_message_is_the_same_behind_every_prefix() {
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
        // LAVA, GitHub Actions, Kubernetes, `dmesg | ts`, `dmesg | ts %.s`: who copies a console's lines
        // stamps them, and names neither host nor program.
        "2026-11-21T18:00:00.383525  <6>[   12.345678] ",
        "    2026-11-21T18:00:00.383525  <6>[   12.345678] ",
        "2026-11-21T18:00:00.1234567Z [   12.345678] ",
        "2026-11-21T18:00:00.123456789Z stdout F [   12.345678] ",
        "2026-11-21 18:00:00.123 [   12.345678][ T4321] ",
        "2026-11-21T18:00:00.123456+01:00 host kernel [   12.345678] ",
        "Nov 21 18:00:00 [   12.345678] ",
        "Nov 21 18:00:00 <6>[   12.345678] ",
        "1795284000.123456 [   12.345678] ",
        // MediaTek's: the CPUs that are on, whether interrupts are off, the CPU, and who printed it.
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
        assert_eq!(message.clock, Clock::Kernel, "{prefix}");
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
fn without_the_kernels_stamp_the_wall_clock_is_taken_with_its_step() {
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
        assert_eq!(message.clock, Clock::Wall, "{prefix}");
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
fn other_programs_and_lines_without_a_stamp_are_told_apart() {
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
