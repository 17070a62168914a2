//! The logs of a made-up machine, as kernels and log daemons write them.

mod printed;
mod traced;

use std::fmt::Write as _;
use std::io::{self, Write};

use reveille_resume::cycle::{Cycle, Stage, StageKind, Us};

use super::kernel::{Threads, Truth, run};
use super::machine::{Draw, Machine};
use printed::{function, printed, stage_words};
use traced::{TRACE_HEAD, traced};

/// A kernel's wording of its lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// 4.14 to 4.19: `calling  usb1+ @ 4321, parent: 0000:00:14.0`, in units of 1024 ns.
    Old,
    /// 5.x and 6.1: `usb usb1: PM: calling usb_dev_resume+0x0/0x50 @ 4321, parent: …`.
    Offset,
    /// 6.12: without offset and length.
    Plain,
    /// The text of a trace with `power:suspend_resume` and `power:device_pm_callback_*`.
    Trace,
}

/// The prefix of the kernel's lines. A trace has its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prefix {
    /// `[   12.345678] `
    Dmesg,
    /// `[   12.345678][ T4321] `
    Caller,
    /// `kern  :info  : [   12.345678] `, of `dmesg -x`.
    Facility,
    /// `<6>[   12.345678] `
    Level,
    /// `Nov 21 18:00:00 host kernel: [   12.345678] `
    Syslog,
    /// `Nov 21 18:00:00.123456 host kernel: `, of `journalctl -o short-precise`. The stamps are
    /// those of a clock that continues in sleep: midnight of 21 November plus the kernel's.
    ShortPrecise,
    /// `[   12.345678] host kernel: `, of `journalctl -o short-monotonic`.
    ShortMonotonic,
    /// `Nov 21 18:00:00 host kernel: `, of `journalctl`: whole seconds only.
    Short,
}

pub const PREFIXES: [Prefix; 8] = [
    Prefix::Dmesg,
    Prefix::Caller,
    Prefix::Facility,
    Prefix::Level,
    Prefix::Syslog,
    Prefix::ShortPrecise,
    Prefix::ShortMonotonic,
    Prefix::Short,
];

/// The options for writing.
#[derive(Debug, Clone, Copy)]
pub struct Text {
    pub form: Form,
    pub prefix: Prefix,
    /// Other messages in between, of the kernel and, if the log has them, of programs.
    pub others: usize,
}

/// A line: time, writer (0: an interrupt or unknown), text.
struct Line {
    at: Us,
    by: u32,
    words: String,
}

/// Writes these cycles of the machine.
pub fn write(
    out: &mut impl Write,
    text: Text,
    machine: &Machine,
    cycles: &[Truth],
) -> io::Result<()> {
    if text.form == Form::Trace {
        out.write_all(TRACE_HEAD.as_bytes())?;
    }
    for truth in cycles {
        let mut lines = match text.form {
            Form::Trace => traced(machine, truth),
            _ => printed(text.form, machine, truth),
        };
        add_others(&mut lines, text, machine, truth);
        lines.sort_by_key(|line| line.at);
        for line in &lines {
            write_line(out, text, machine, line)?;
        }
    }
    Ok(())
}

/// What such a log shows of a cycle, to the microsecond.
///
/// A kernel's log has no calls of `prepare` and `complete`, no functions before 5.0, and drivers
/// from then on. A CPU starts at the end of the previous one, the first one at the start of the
/// stage. `prepare` is the difference of "start suspend" and "suspend"; `complete` is from the
/// devices' end until processes are restarted. In a trace, the stages of CPUs start with the first
/// CPU.
pub fn logged(text: Text, machine: &Machine, truth: &Truth, number: usize) -> Cycle {
    let mut cycle = truth.cycle(machine, number);
    let freeze = truth.stage(StageKind::Freeze).start;
    cycle.words.first = Some(freeze);
    cycle.words.thawing = Some(truth.stage(StageKind::Thaw).start);
    cycle.words.last = Some(truth.end());
    if text.form != Form::Old {
        let says_us = (text.form != Form::Trace).then_some(0);
        let sync = Stage {
            kind: StageKind::Sync,
            start: freeze,
            end: freeze,
            says_us,
        };
        cycle.stages.insert(0, sync);
    }
    if text.form == Form::Trace {
        cycle.asleep_us = None;
        cycle.sleep = None;
        for stage in &mut cycle.stages {
            let own = |cpu: &&_| is_of(stage.kind, cpu);
            if let Some(first) = truth.cpus.iter().find(own) {
                stage.start = first.start;
            }
        }
    } else {
        let serial = [StageKind::Prepare, StageKind::Complete];
        cycle.calls.retain(|call| !serial.contains(&call.stage));
        let mut before = None;
        for cpu in &mut cycle.cpus {
            let kind = if cpu.on {
                StageKind::CpusOn
            } else {
                StageKind::CpusOff
            };
            let stage = truth.stage(kind).start;
            cpu.start = before
                .filter(|&(on, _)| on == cpu.on)
                .map_or(stage, |(_, end)| end);
            before = Some((cpu.on, cpu.end));
        }
        for stage in &mut cycle.stages {
            if stage_words(stage.kind).is_some() {
                stage.says_us = Some(stage.end - stage.start);
            }
        }
        for call in &mut cycle.calls {
            let took = call.end.zip(call.start).map(|(end, start)| end - start);
            call.says_us = took.map(|took| stated(text.form, took));
            match text.form {
                Form::Old => call.driver = None,
                _ => {
                    let driver = call.driver.as_deref().unwrap_or_default();
                    call.function = Some(function(driver, call.stage).into());
                }
            }
        }
    }
    // The kernel's last message is a CPU's, or the end of the last callbacks.
    if text.form != Form::Trace {
        let mut off = truth.cpus.iter().filter(|cpu| !cpu.on);
        let noirq = truth.stage(StageKind::SuspendNoirq).end;
        let last = off.next_back().map_or(noirq, |cpu| cpu.end);
        let mut stages = cycle.stages.iter_mut();
        if let Some(platform) = stages.find(|stage| stage.kind == StageKind::Platform) {
            platform.start = last;
        }
    }
    // Without a second CPU the kernel logs nothing about these stages.
    if truth.cpus.is_empty() {
        let of_cpus = [StageKind::CpusOff, StageKind::CpusOn];
        cycle.stages.retain(|stage| !of_cpus.contains(&stage.kind));
    }
    cycle
}

fn is_of(kind: StageKind, cpu: &reveille_resume::cycle::CpuStep) -> bool {
    matches!(
        (kind, cpu.on),
        (StageKind::CpusOff, false) | (StageKind::CpusOn, true)
    )
}

/// Before about 5.10 the kernel shifted nanoseconds by 10 and called it microseconds.
fn stated(form: Form, took: Us) -> Us {
    match form {
        Form::Old => (took * 1000) >> 10,
        _ => took,
    }
}

/// Other messages while a machine suspends and resumes.
const OTHERS: [&str; 10] = [
    "usb usb1: root hub lost power or was reset",
    "usb 1-2: reset high-speed USB device number 3 using xhci_hcd",
    "ata1: SATA link up 3.0 Gbps (SStatus 123 SControl 300)",
    "sd 0:0:0:0: [sda] Starting disk",
    "e1000e: eth0 NIC Link is Up 1000 Mbps Full Duplex, Flow Control: Rx/Tx",
    "nvme nvme0: 8/0/0 default/read/poll queues",
    "random: crng reseeded on system resumption",
    "thinkpad_acpi: calling it a day after 12 usecs of nothing, parent: none",
    "PCI: the call was returned unopened",
    "ACPI: EC: event unblocked",
];

/// Spreads other messages over the cycle, except while the firmware controls the machine: the
/// kernel's last message before and first after it determine how long that was.
fn add_others(lines: &mut Vec<Line>, text: Text, machine: &Machine, truth: &Truth) {
    let rng = &mut fastrand::Rng::with_seed(truth.stages[0].start as u64);
    let before = truth.stages[0].start..truth.stage(StageKind::CpusOff).start;
    let after = truth.stage(StageKind::ResumeNoirq).start..truth.end();
    for number in 0..text.others {
        let span = if number % 2 == 0 {
            before.clone()
        } else {
            after.clone()
        };
        if span.is_empty() {
            continue;
        }
        let words = match text.form {
            Form::Trace => "sched_waking: comm=sh pid=4321 prio=120 target_cpu=000".to_owned(),
            _ => rng.choice(OTHERS).unwrap().to_owned(),
        };
        lines.push(Line {
            at: rng.i64(span),
            by: machine.main,
            words,
        });
    }
}

fn write_line(out: &mut impl Write, text: Text, machine: &Machine, line: &Line) -> io::Result<()> {
    let (seconds, us) = (line.at / 1_000_000, line.at % 1_000_000);
    let stamp = format!("{seconds:5}.{us:06}");
    let words = &line.words;
    if text.form == Form::Trace {
        let comm = match line.by == machine.main {
            true => "sh".to_owned(),
            false => format!("kworker/u8:{}", line.by % 90),
        };
        let cpu = line.by % 8;
        return writeln!(
            out,
            "{comm:>16}-{:<7} [{cpu:03}] .....{seconds:6}.{us:06}: {words}",
            line.by
        );
    }
    let mut date = String::new();
    let of_day = seconds % 86_400;
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    write!(
        date,
        "Nov {:2} {hour:02}:{minute:02}:{second:02}",
        21 + seconds / 86_400
    )
    .unwrap();
    match text.prefix {
        Prefix::Dmesg => writeln!(out, "[{stamp}] {words}"),
        Prefix::Caller => writeln!(out, "[{stamp}][{:>6}] {words}", format!("T{}", line.by)),
        Prefix::Facility => writeln!(out, "kern  :info  : [{stamp}] {words}"),
        Prefix::Level => writeln!(out, "<6>[{stamp}] {words}"),
        Prefix::Syslog => writeln!(out, "{date} host kernel: [{stamp}] {words}"),
        Prefix::ShortPrecise => writeln!(out, "{date}.{us:06} host kernel: {words}"),
        Prefix::ShortMonotonic => writeln!(out, "[{stamp}] host kernel: {words}"),
        Prefix::Short => writeln!(out, "{date} host kernel: {words}"),
    }
}

/// A syslog of this many cycles of one machine, of at least `bytes`, with other programs' lines
/// between the cycles. Returns the number of calls in the kernel's log.
pub fn syslog(out: &mut impl Write, seed: u64, cycles: usize, bytes: usize) -> io::Result<usize> {
    let machine = Machine::draw(seed, &Draw::fully_logged(400..=400));
    let text = Text {
        form: Form::Offset,
        prefix: Prefix::Syslog,
        others: 100,
    };
    let mut threads = Threads::default();
    let (mut now, mut written, mut calls) = (1_000_000, 0, 0);
    for number in 0..cycles {
        let truth = run(&machine, now, &mut threads);
        calls += logged(text, &machine, &truth, number + 1).calls.len();
        let mut lines = Vec::new();
        write(&mut lines, text, &machine, std::slice::from_ref(&truth))?;
        now = truth.end();
        let wanted = bytes / cycles * (number + 1);
        while written + lines.len() < wanted {
            now += 100;
            let (minute, second) = (now / 60_000_000 % 60, now / 1_000_000 % 60);
            writeln!(
                lines,
                "Nov 21 18:{minute:02}:{second:02} host systemd[1]: Started session {now} of user root, call 0 after 1."
            )?;
        }
        out.write_all(&lines)?;
        written += lines.len();
        now += 1_000_000;
    }
    Ok(calls)
}
