//! Parses the kernel's messages about a suspend or a resume.
//!
//! The words are those of drivers/base/power/main.c, drivers/base/syscore.c, kernel/power/{main,
//! suspend,process,wakeup_reason}.c, kernel/cpu.c, kernel/time/timekeeping_debug.c and
//! drivers/acpi/sleep.c, from Linux 3.6 to 6.18. Where a message changed, the versions stand beside
//! it. Until 4.13 the lines with the stages' times are always printed, since then with
//! /sys/power/pm_debug_messages only.

use memchr::memmem::{self, Finder};

use super::event::{Call, Event, Parsed, Return, is_of_hibernation};
use super::stamp::{Cursor, millionths};
use crate::cycle::{StageKind, Us, is_crash};

/// Looks for the words in messages. Made once: the searchers are prepared.
pub(super) struct Messages {
    pm: Finder<'static>,
    calling: Finder<'static>,
    returned: Finder<'static>,
    timeout: Finder<'static>,
}

impl Default for Messages {
    fn default() -> Self {
        Self {
            pm: Finder::new("PM: "),
            calling: Finder::new(": calling "),
            returned: Finder::new(" return"),
            timeout: Finder::new("**** DPM device timeout"),
        }
    }
}

impl Messages {
    /// Parses `text`.
    pub(super) fn parse<'a>(&self, text: &'a [u8]) -> Parsed<'a> {
        let text = without_task(text);
        if let Some(event) = own_words(text) {
            return Parsed::Event(event);
        }
        if text.starts_with(b"call") {
            return old_call(text);
        }
        if let Some(at) = self.pm.find(text) {
            let (before, after) = (&text[..at], &text[at + 4..]);
            // Before `PM: ` stands nothing, `printk: ` and the like, or a driver and a device.
            return match before.strip_suffix(b": ") {
                None if before.is_empty() => self.of_power_management(after),
                Some(b"ACPI") => parsed(acpi(after)),
                Some(device) => self.of_device(device, after, true),
                None => Parsed::Nothing,
            };
        }
        if let Some(acpi_words) = text.strip_prefix(b"ACPI: ") {
            return parsed(acpi(acpi_words));
        }
        // Linux 4.19 to 5.1 have the driver and the device without `PM: `.
        if let Some(at) = self.calling.find(text) {
            return self.of_device(&text[..at], &text[at + 2..], false);
        }
        if let Some(returned) = self.returned.find(text) {
            if let Some(event) = reported_result(text) {
                return Parsed::Event(event);
            }
            return match memmem::rfind(&text[..returned], b": ") {
                Some(at) => self.of_device(&text[..at], &text[at + 2..], false),
                None => Parsed::Nothing,
            };
        }
        if let Some(at) = self.timeout.find(text) {
            let device = text[..at].strip_suffix(b": ").unwrap_or_default();
            return Parsed::Event(failure(device, &text[at..]));
        }
        match split_at(text, b": ") {
            _ if is_crash(text) => Parsed::Event(Event::Crash { message: text }),
            Some((head, message)) if is_shallow(message) => Parsed::Event(failure(head, message)),
            // intel_pch_thermal's noirq callback may wait for a minute before it lets the machine sleep.
            Some((_, message))
                if message.starts_with(b"CPU-PCH ") || message.ends_with(b", abort cooling") =>
            {
                Parsed::Event(Event::Around { awake: false })
            }
            _ => Parsed::Nothing,
        }
    }

    /// Behind `PM: ` at the beginning.
    fn of_power_management<'a>(&self, text: &'a [u8]) -> Parsed<'a> {
        // Android's words with the date have it twice, since 4.14.
        let text = text.strip_prefix(b"PM: ").unwrap_or(text);
        // What is of `ACPI: ` today was of `PM: ` until 5.2 (NVS), or 5.16 (what woke it).
        let words = own_words(text).or_else(|| pm_words(text));
        if let Some(event) = words.or_else(|| acpi(text)) {
            return Parsed::Event(event);
        }
        // `Device 3-1 failed to suspend async: error -110`, to 5.16 or so.
        let named = text.strip_prefix(b"Device ");
        let named = named.and_then(|rest| split_at(rest, b" "));
        let (device, message) = named.unwrap_or((b"", text));
        match reported_result(text) {
            Some(event) => Parsed::Event(event),
            None if fails(message) => Parsed::Event(failure(device, message)),
            None => stage_time(text).unwrap_or(Parsed::Nothing),
        }
    }

    /// `head` is `DRIVER DEVICE`, of which the driver may be empty.
    fn of_device<'a>(&self, head: &'a [u8], text: &'a [u8], named: bool) -> Parsed<'a> {
        let (driver, device) = driver_and_device(head);
        if device.is_empty() {
            return Parsed::Nothing;
        }
        let damaged = if named { Parsed::Torn } else { Parsed::Nothing };
        if let Some(rest) = text.strip_prefix(b"calling ") {
            let function = function(rest);
            return match call_tail(rest) {
                Some(_) if is_of_hibernation(function) => Parsed::Event(Event::HibernationCall),
                Some((worker, parent)) => Parsed::Event(Event::Call(Call {
                    device,
                    driver,
                    parent,
                    function: Some(function),
                    worker: Some(worker),
                    stage: None,
                })),
                None => damaged,
            };
        }
        let mut returns = self.returned.find_iter(text);
        if let Some(at) = returns.find(|&at| text[at..].starts_with(b" returned ")) {
            let function = function(text);
            // `initcall FN+0x0/0x10 returned 0 after …` and `probe of DEVICE returned …` are others'.
            let is_callback = named || memchr::memchr(b'+', &text[..at]).is_some();
            return match returned(&text[at..]) {
                _ if !is_callback => Parsed::Nothing,
                Some(_) if is_of_hibernation(function) => Parsed::Event(Event::HibernationCall),
                Some((result, us)) => Parsed::Event(Event::Return(Return {
                    device,
                    driver,
                    function: Some(function),
                    worker: None,
                    result: Some(result),
                    says_us: Some(us),
                    of_1024_ns: false,
                })),
                None => damaged,
            };
        }
        if self.timeout.find(text).is_some() || (named && fails(text)) {
            return Parsed::Event(failure(head, text));
        }
        Parsed::Nothing
    }
}

fn parsed(event: Option<Event<'_>>) -> Parsed<'_> {
    event.map_or(Parsed::Nothing, Parsed::Event)
}

/// Messages that stand for themselves, with `PM: ` before them in some versions and without in others.
fn own_words(text: &[u8]) -> Option<Event<'_>> {
    let starts = |word: &str| text.starts_with(word.as_bytes());
    Some(match *text.first()? {
        // Android, since 2014: `Abort: Pending Wakeup Sources: alarmtimer`.
        b'A' if starts("Abort: ") => failure(b"", text),
        b'B' => {
            // `Booting Node 0 Processor 1 APIC 0x1`, before 3.10 or so without `smpboot: `.
            let at = memmem::find(text.strip_prefix(b"Booting Node ")?, b"Processor ")?;
            let cpu = Cursor(&text[13 + at + 10..]).number()?;
            Event::CpuBegin {
                cpu: u32::try_from(cpu).ok()?,
                on: true,
            }
        }
        // To 2.6.24 or so: `Could not suspend device 0000:00:02.0: error -16`.
        b'C' if starts("Could not ") => {
            let (_, device) = split_at(text, b" device ")?;
            failure(split_at(device, b": error ")?.0, text)
        }
        b'C' => return cpu(text).or_else(|| calling_core(text)),
        b'D' if starts("Disabling non-boot CPUs") => Event::Cpus { on: false },
        b'E' if starts("Enabling non-boot CPUs") => Event::Cpus { on: true },
        b'E' if starts("Error taking CPU") => failure(b"", text),

        // `Filesystems sync: 0.012 seconds` (5.2)
        b'F' if starts("Filesystems sync: ") => {
            Event::Synced(millionths(&mut Cursor(&text[18..])).unwrap_or(0))
        }
        b'F' => return freezing(text),
        // `IRQ 16: no longer affine to CPU1`
        b'I' if memmem::find(text, b" no longer affine to CPU").is_some() => {
            text.strip_prefix(b"IRQ").map(|_| Event::CpuLoses)?
        }
        b'L' if starts("Linux version ") => Event::Boot,
        b'N' if starts("Non-boot CPUs are not disabled") => failure(b"", text),
        // 4.13
        b'O' if starts("OOM killer enabled") => Event::Thawing,
        // `Restarting tasks ... done.`; since 6.16 `Restarting tasks: Starting` and `… Done`.
        b'R' if starts("Restarting tasks: Done") => Event::Thawed,
        b'R' if starts("Restarting tasks") => Event::Thawing,
        // Android: `Resume caused by IRQ 57, qpnp_rtc_alarm`.
        b'R' | b'r' if text[1..].starts_with(b"esume caused by ") => Event::Woken(&text[17..]),
        b'S' if starts("Suspending console(s)") => Event::Suspending { sleep: None },
        // `PM: Syncing filesystems ... done.` (before 5.2)
        b'S' if starts("Syncing filesystems") => Event::Syncing,
        // timekeeping: before 4.16, then as below.
        b'S' => Event::Asleep(millionths(&mut Cursor(
            text.strip_prefix(b"Suspended for ")?,
        ))?),
        b'T' => {
            let rest = text.strip_prefix(b"Timekeeping suspended for ")?;
            Event::Asleep(millionths(&mut Cursor(rest))?)
        }
        b'W' if starts("Wakeup pending. Abort CPU freeze") => failure(b"", text),
        b'd' if text == b"done." => Event::Done,
        b's' if starts("suspend debug: Waiting for ") => {
            Event::Test(millionths(&mut Cursor(&text[27..]))?)
        }
        // Which subsystem speaks, since 3.10 (smpboot), 5.1 (printk).
        b's' => return own_words(text.strip_prefix(b"smpboot: ")?),
        b'p' if starts("printk: ") => return own_words(&text[8..]),
        // `gic_show_resume_irq: 200 triggered qcom,smd-rpm`, and with `PM: ` `pm_system_irq_wakeup: …`.
        b'g' | b'p' if memmem::find(text, b"_irq").is_some() => {
            let (_, irq) =
                split_at(text, b"_irq: ").or_else(|| split_at(text, b"_irq_wakeup: "))?;
            Event::Woken(irq)
        }
        b'p' => return cpu(text.strip_prefix(b"psci: ")?),
        _ => return None,
    })
}

/// Who did not freeze, in the lines behind `Freezing … failed`: `jbd2/dm-0-8 (pid 431)`,
/// `workqueue events_freezable`.
pub(super) fn refuses(text: &[u8]) -> Option<String> {
    if let Some(rest) = text.strip_prefix(b"workqueue ") {
        let (name, _) = split_at(rest, b": flags=")?;
        return Some(format!("workqueue {}", String::from_utf8_lossy(name)));
    }
    // `    in-flight: 3124:disk_events_workfn`, below the workqueue that is busy with it.
    if let Some((_, works)) = split_at(text, b"in-flight: ") {
        let works = works
            .split(|&byte| byte == b' ')
            .filter_map(|work| split_at(work, b":"));
        let names: Vec<_> = works
            .map(|(_, name)| String::from_utf8_lossy(name))
            .collect();
        return Some(format!("busy with {}", names.join(" ")));
    }
    let (name, pid) = task(text).or_else(|| old_task(text))?;
    let name = String::from_utf8_lossy(name.trim_ascii_end());
    Some(format!("{name} (pid {pid})"))
}

/// `task:jbd2/dm-0-8     state:D stack:    0 pid:  431 ppid:     2 flags:0x00004000`, since 5.11.
fn task(text: &[u8]) -> Option<(&[u8], u64)> {
    let (name, rest) = split_at(text.strip_prefix(b"task:")?, b" state:")?;
    let (_, pid) = split_at(rest, b" pid:")?;
    let mut pid = Cursor(pid);
    pid.spaces();
    Some((name, pid.number()?))
}

/// `jbd2/dm-0-8     D    0   431      2 0x00004000`, before: a name of fifteen letters (to 3.4 thirteen), the
/// state, the free stack, the task, its parent, flags.
fn old_task(text: &[u8]) -> Option<(&[u8], u64)> {
    let of_width = |width| {
        let (name, rest) = text.split_at_checked(width)?;
        let fields = rest.split(|&byte| byte == b' ');
        let fields = fields.filter(|field| !field.is_empty());
        let [.., pid, _, flags] = fields.collect::<Vec<_>>()[..] else {
            return None;
        };
        // The stack's five digits leave no space behind the state.
        let is_state = rest[0].is_ascii_uppercase() && !rest[1].is_ascii_alphabetic();
        let is_task = name.ends_with(b" ") && is_state && flags.starts_with(b"0x");
        Some((name, Cursor(pid).number()?)).filter(|_| is_task)
    };
    of_width(16).or_else(|| of_width(14))
}

/// `CPU 1 is now offline` (x86), `CPU1: shutdown` and `CPU1 killed` (ARM has both, or one), `CPU1 is up`.
fn cpu(text: &[u8]) -> Option<Event<'_>> {
    let mut rest = Cursor(text.strip_prefix(b"CPU")?);
    rest.spaces();
    let cpu = u32::try_from(rest.number()?).ok()?;
    let _ = rest.eat(b':');
    let starts = |words: &[u8]| rest.0.starts_with(words);
    let on = starts(b" is up");
    let is_off = starts(b" is now offline") || starts(b" shutdown") || starts(b" killed");
    (on || is_off).then_some(Event::CpuEnd { cpu, on })
}

/// `Calling timekeeping_suspend+0x0/0x2f0`: what runs on the last CPU, with interrupts off. `PM: `
/// is before it in some versions.
fn calling_core(text: &[u8]) -> Option<Event<'_>> {
    let name = function(text.strip_prefix(b"Calling ")?);
    let (_, suspends) = super::event::stage_of_name(name).or_else(|| {
        // `save_ioapic_entries`, `acpi_save_bm_rld` and their like.
        (memmem::find(name, b"save").is_some()).then_some((None, true))
    })?;
    Some(Event::Message { awake: !suspends })
}

/// To 6.2 `Freezing user space processes ... (elapsed 0.001 seconds) done.` with the stamp of its
/// beginning; since 6.3 `Freezing user space processes`, and `… completed (elapsed 0.001 seconds)`
/// with the stamp of the end. `Freezing remaining freezable tasks` likewise.
fn freezing(text: &[u8]) -> Option<Event<'_>> {
    if !text.starts_with(b"Freezing ") {
        return None;
    }
    let has = |word: &[u8]| memmem::find(text, word).is_some();
    if has(b" failed after ") || has(b" aborted") {
        return Some(Event::NotFrozen { message: text });
    }
    if !has(b"user space processes") && !has(b"remaining freezable ") {
        return None;
    }
    let elapsed =
        memmem::find(text, b"(elapsed ").and_then(|at| millionths(&mut Cursor(&text[at + 9..])));
    if has(b" completed") {
        let took_us = elapsed.filter(|_| has(b"user space"));
        let after_us = None;
        return Some(Event::Frozen { after_us, took_us });
    }
    Some(match elapsed.filter(|_| has(b"remaining")) {
        after_us @ Some(_) => Event::Frozen {
            after_us,
            took_us: None,
        },
        None => Event::Freezing { took_us: elapsed },
    })
}

/// How much of the time between two messages the kernel accounts for in them: file systems were synced,
/// or processes froze. To 6.2 a line of that may have the stamp of its beginning or of its end.
pub(super) fn accounted_between(before: &[u8], message: &[u8]) -> Us {
    // Silences are many, and such a message is rare.
    let figure = |text: &[u8], word: &[u8]| {
        let mut places = memchr::memchr_iter(word[0], text);
        let at = places.find(|&at| text[at..].starts_with(word))?;
        millionths(&mut Cursor(&text[at + word.len()..]))
    };
    let is_begin = |_: &Us| memmem::find(before, b" completed").is_none();
    let behind = figure(before, b"(elapsed ").filter(is_begin);
    let sync = figure(message, b"Filesystems sync: ");
    let freezing = || figure(message, b"(elapsed ").or_else(|| failed_after(message));
    sync.or_else(freezing).unwrap_or(0) + behind.unwrap_or(0)
}

/// Does a driver speak of something that went wrong?
pub(super) fn is_error(message: &[u8]) -> bool {
    let words: [&[u8]; 6] = [
        b"rror",
        b"fail",
        b"imeout",
        b"imed out",
        b"not accept",
        b"not respond",
    ];
    words
        .iter()
        .any(|word| memmem::find(message, word).is_some())
}

/// `Freezing of tasks failed after 20.010 seconds (1 tasks refusing to freeze, wq_busy=0)`
pub(super) fn failed_after(message: &[u8]) -> Option<Us> {
    let (_, figure) = split_at(message, b" failed after ")?;
    millionths(&mut Cursor(figure))
}

/// Behind `PM: `.
fn pm_words(text: &[u8]) -> Option<Event<'_>> {
    let starts = |word: &str| text.starts_with(word.as_bytes());
    Some(match *text.first()? {
        // 4.12: `suspend entry (deep)`, and `suspend exit`. Android has a date instead.
        b's' if starts("suspend entry") => Event::Begin {
            sleep: in_brackets(text).filter(|_| starts("suspend entry (")),
            first: true,
        },
        b's' if starts("suspend exit") => Event::Exit,
        // CONFIG_PM_TEST_SUSPEND: preparing with the suspend, the resume with completing.
        b's' if starts("suspend devices took ") => devices_took(text, StageKind::Suspend)?,
        b'r' if starts("resume devices took ") => devices_took(text, StageKind::Resume)?,
        b's' if starts("suspend-to-idle") => Event::Idle { ends: false },
        b'r' if starts("resume from suspend-to-idle") => Event::Idle { ends: true },
        // `Preparing system for mem sleep` (to 4.4), `… for sleep (mem)`, since 4.12 `(deep)`.
        b'P' if starts("Preparing system for ") => Event::Begin {
            sleep: in_brackets(text).or_else(|| text[21..].strip_suffix(b" sleep")),
            first: false,
        },
        // `Entering mem sleep` (to 4.4), `Suspending system (deep)`.
        b'E' if starts("Entering ") && text.ends_with(b" sleep") => Event::Suspending {
            sleep: text[9..].strip_suffix(b" sleep"),
        },
        b'S' if starts("Suspending system (") => Event::Suspending {
            sleep: in_brackets(text),
        },
        b'T' if starts("Triggering wakeup from ") => Event::Woken(&text[23..]),
        b'I' if starts("IRQ wakeup: ") => Event::Woken(&text[12..]),
        b'W' if starts("Wakeup source ") => Event::Woken(&text[14..]),
        b'F' if starts("Finishing wakeup") => Event::Thawing,
        b'h' if starts("hibernation: hibernation e") || starts("hibernation e") => {
            Event::Hibernation {
                ends: memmem::find(text, b"exit").is_some(),
            }
        }
        _ => return None,
    })
}

/// `suspend devices took 0.300 seconds`, in whole ticks of the kernel.
fn devices_took(text: &[u8], kind: StageKind) -> Option<Event<'_>> {
    let (_, figure) = split_at(text, b" took ")?;
    let us = millionths(&mut Cursor(figure))?;
    Some(Event::DevicesTook { kind, us })
}

fn acpi(text: &[u8]) -> Option<Event<'_>> {
    let text = text.strip_prefix(b"PM: ").unwrap_or(text);
    const MESSAGES: [(&[u8], bool); 5] = [
        (b"Preparing to enter system sleep state", false),
        (b"Saving platform NVS memory", false),
        (b"Low-level resume complete", true),
        (b"Restoring platform NVS memory", true),
        (b"Waking up from system sleep state", true),
    ];
    match text {
        // In the devices' noirq stages.
        b"EC: interrupt blocked" => return Some(Event::Around { awake: false }),
        b"EC: interrupt unblocked" => return Some(Event::Around { awake: true }),
        _ => {}
    }
    // `ACPI fixed event wakeup`, `ACPI non-EC GPE wakeup`, `Wakeup after ACPI Notify sync`
    let event = text.strip_suffix(b" wakeup");
    let event = event.or_else(|| text.strip_prefix(b"Wakeup after "));
    if let Some(what) = event.filter(|what| what.starts_with(b"ACPI ")) {
        return Some(Event::Woken(what));
    }
    let known = MESSAGES.iter().find(|(words, _)| text.starts_with(words));
    known.map(|&(_, awake)| Event::Message { awake })
}

/// Do these words of the kernel or of a device say that it failed, or why?
fn fails(text: &[u8]) -> bool {
    const WORDS: [&[u8]; 8] = [
        b"devices failed",
        b"System core suspend callback",
        b"failed to ",
        b" returns -",
        NOT_PREPARED,
        b"Wakeup pending, aborting",
        b"active wakeup source",
        b"Pending Wakeup Sources",
    ];
    WORDS
        .iter()
        .any(|words| memmem::find(text, words).is_some())
}

/// `not prepared for power transition: code -16`
pub(super) const NOT_PREPARED: &[u8] = b"not prepared for power";

/// `amd_pmc AMDI0007:00: Last suspend didn't reach deepest state`,
/// `intel_pmc_core INT33A1:00: CPU did not enter SLP_S0!!! (S0ix cnt=0)`
pub(super) fn is_shallow(message: &[u8]) -> bool {
    message.starts_with(b"Last suspend didn't reach") || message.starts_with(b"CPU did not enter ")
}

/// `noirq resume of devices complete after 4.955 msecs`, `resume of drv:sd dev:3:0:0:0 complete after
/// 7928.413 msecs`, `late suspend of devices aborted after 1.234 msecs`.
///
/// `start suspend` (5.2) is the preparing with the suspend, `end suspend` late and noirq.
fn stage_time(text: &[u8]) -> Option<Parsed<'_>> {
    let (what, of) = split_at(text, b" of ")?;
    let mut words = what.rsplit(|&byte| byte == b' ');
    let suspends = match words.next()? {
        b"suspend" => true,
        b"resume" => false,
        b"freeze" | b"quiesce" | b"hibernate" | b"thaw" | b"restore" | b"recover"
            if of.starts_with(b"d") =>
        {
            return Some(Parsed::Event(Event::HibernationCall));
        }
        _ => return None,
    };
    let step = words.next().unwrap_or_default();
    let stage = match (step, suspends) {
        (b"" | b"type" | b"class" | b"legacy", true) => StageKind::Suspend,
        (b"late", true) => StageKind::SuspendLate,
        (b"noirq", true) => StageKind::SuspendNoirq,
        (b"noirq", false) => StageKind::ResumeNoirq,
        (b"early", false) => StageKind::ResumeEarly,
        (b"" | b"type" | b"class" | b"legacy", false) => StageKind::Resume,
        (b"start", true) => StageKind::Prepare,
        _ => return None,
    };
    let Some((subject, after)) = split_at(of, b" after ") else {
        let begun = of.starts_with(b"devices") || of.starts_with(b"drv:");
        return begun.then_some(Parsed::Torn);
    };
    let mut figure = Cursor(after);
    // Milliseconds times a million are nanoseconds.
    let us = match millionths(&mut figure) {
        Some(ns) if figure.0.trim_ascii_start().starts_with(b"msec") => ns / 1000,
        _ => return Some(Parsed::Torn),
    };
    Some(match subject {
        b"devices complete" | b"devices aborted" => Parsed::Event(Event::StageEnd {
            kind: stage,
            says_us: Some(us),
            aborted: subject.ends_with(b"aborted"),
        }),
        _ => {
            let (driver, device) = split_at(subject.strip_prefix(b"drv:")?, b" dev:")?;
            Parsed::Event(Event::Took {
                stage,
                driver,
                device: device.strip_suffix(b" complete")?,
                us,
            })
        }
    })
}

/// `calling  usb1+ @ 4321, parent: 0000:00:14.0` and `call usb1+ returned 0 after 1234 usecs` (to 4.18).
/// `calling  FN+0x0/0x10 @ 1` is an initcall.
fn old_call(text: &[u8]) -> Parsed<'_> {
    if let Some(rest) = text.strip_prefix(b"calling ") {
        let rest = rest.trim_ascii_start();
        let Some(at) = memmem::find(rest, b"+ @ ") else {
            return Parsed::Nothing;
        };
        // Kernels before 3.6 have no parent.
        let mut worker = Cursor(&rest[at + 4..]);
        let alone = worker.number().filter(|_| worker.0.is_empty());
        let alone = alone.and_then(|worker| Some((u32::try_from(worker).ok()?, None)));
        return match alone.or_else(|| call_tail(&rest[at..])) {
            Some((worker, parent)) => Parsed::Event(Event::Call(Call {
                device: &rest[..at],
                parent,
                worker: Some(worker),
                ..Call::default()
            })),
            None => Parsed::Torn,
        };
    }
    let Some((device, rest)) = text
        .strip_prefix(b"call ")
        .and_then(|rest| split_at(rest, b"+ returned "))
    else {
        return Parsed::Nothing;
    };
    let from = text.len() - rest.len() - b" returned ".len();
    match returned(&text[from..]) {
        Some((result, us)) => Parsed::Event(Event::Return(Return {
            device,
            result: Some(result),
            says_us: Some(us),
            of_1024_ns: true,
            ..Return::default()
        })),
        None => Parsed::Torn,
    }
}

/// `… @ 4321, parent: NAME`: the worker, and the parent where there is one.
fn call_tail(text: &[u8]) -> Option<(u32, Option<&[u8]>)> {
    let mut signs = memchr::memchr_iter(b'@', text);
    let is_apart = |at: usize| text[..at].ends_with(b" ") && text[at + 1..].starts_with(b" ");
    let mut rest = Cursor(&text[signs.find(|&at| is_apart(at))? + 1..]);
    rest.spaces();
    let worker = u32::try_from(rest.number()?).ok()?;
    rest.eat_text(b", parent:")?;
    // It ends the line, and its name may have spaces (`Fixed MDIO bus.0`).
    let parent = Some(rest.0.trim_ascii()).filter(|parent| !parent.is_empty())?;
    Some((worker, Some(parent).filter(|&parent| parent != b"none")))
}

/// ` returned -16 after 117 usecs`; `usec` in 3.x.
fn returned(text: &[u8]) -> Option<(i32, Us)> {
    let mut rest = Cursor(text.strip_prefix(b" returned ")?);
    let result = rest.result()?;
    rest.eat_text(b" after ")?;
    let us = Us::try_from(rest.number()?)
        .ok()
        .filter(|&us| us < 1 << 50)?;
    rest.eat_text(b" usec")?;
    Some((result, us))
}

/// `pci_pm_suspend(): hcd_pci_suspend+0x0/0x20 returns -16` (to 5.16 or so without the device).
fn reported_result(text: &[u8]) -> Option<Event<'_>> {
    let (callback, _) = split_at(text, b" returns -")?;
    let caller = memmem::find(callback, b"(): ")?;
    if callback[..caller].contains(&b' ') {
        return None;
    }
    super::event::stage_of_name(callback)?;
    Some(failure(b"", text))
}

fn failure<'a>(head: &'a [u8], message: &'a [u8]) -> Event<'a> {
    let (driver, device) = driver_and_device(head);
    Event::Failure {
        device: Some(device).filter(|device| !device.is_empty()),
        driver,
        message,
    }
}

/// Of `DRIVER DEVICE`. A driver's name may have spaces (`HDA Intel`) or be missing; a device's has
/// none but for a few (`Fixed MDIO bus.0`).
fn driver_and_device(head: &[u8]) -> (Option<&[u8]>, &[u8]) {
    const WITH_SPACES: &[u8] = b"Fixed MDIO bus.0";
    let at = if head.ends_with(WITH_SPACES) {
        (head.len() - WITH_SPACES.len()).checked_sub(1)
    } else {
        memchr::memrchr(b' ', head)
    };
    let Some(at) = at else { return (None, head) };
    let driver = head[..at].trim_ascii();
    (
        Some(driver).filter(|driver| !driver.is_empty()),
        &head[at + 1..],
    )
}

/// `usb_dev_resume+0x0/0x20 [usbcore] @ …` without what follows the name.
fn function(text: &[u8]) -> &[u8] {
    let text = text.trim_ascii_start();
    let end = memchr::memchr2(b'+', b' ', text);
    &text[..end.unwrap_or(text.len())]
}

/// Without `[pid:916,cpu7,bash]`, as some vendors' kernels have it.
fn without_task(text: &[u8]) -> &[u8] {
    if !text.starts_with(b"[pid:") {
        return text;
    }
    memchr::memchr(b']', text).map_or(text, |at| &text[at + 1..])
}

fn in_brackets(text: &[u8]) -> Option<&[u8]> {
    let (_, rest) = split_at(text, b"(")?;
    split_at(rest, b")").map(|(inside, _)| inside)
}

pub(super) fn split_at<'a>(text: &'a [u8], separator: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    let at = memmem::find(text, separator)?;
    Some((&text[..at], &text[at + separator.len()..]))
}

#[cfg(test)]
#[path = "message/tests.rs"]
mod tests;
