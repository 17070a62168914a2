//! What stands before a kernel message: when it was, and who passed it on.
//!
//! The kernel's own clock (`[   12.345678] `) is preferred to the wall clock of a syslog before it.
//! A prefix that is none of the known ones is passed over where the kernel's stamp follows it.

use memchr::{memchr, memmem};

use super::stamp::{Cursor, Instant};
use crate::cycle::Us;

/// Beyond it no stamp is looked for.
const PREFIX_BYTES_MAX: usize = 120;
/// `Nov21 18:00`
const MINUTE_BYTES: usize = 11;
/// Seconds beyond it, three years, are counted from 1970 and not from the boot.
pub(super) const SINCE_1970_US: Us = 100_000_000_000_000;
pub(super) const MINUTE_US: Us = 60_000_000;
/// Of these few a line has, each once or twice.
const PARTS_MAX: usize = 8;

/// Which clock a stamp is of. Only timestamps of one clock are subtracted from each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Clock {
    /// printk's, from the boot on.
    Kernel,
    /// Seconds from the boot on with a host behind them (`journalctl -o short-monotonic`): printk's, or since
    /// systemd 257 those at which the journal read the line.
    Logger,
    /// printk's, to which dmesg added the date of the boot (`-T`, `--time-format iso`).
    Dated,
    /// As a syslog or a journal has it: of the logger.
    Wall,
    /// The timestamps are of when lines were copied, not when the kernel wrote them: amd_s2idle.py.
    None,
}

/// A line without what stands before and around its message.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Stripped<'a> {
    Message(Message<'a>),
    /// Of ftrace: `TASK-PID [CPU] FLAGS STAMP: EVENT: …`.
    Trace {
        at: Instant,
        pid: Option<u32>,
        event: &'a [u8],
    },
    /// Another program's.
    Foreign,
    /// Without a stamp.
    Bare(&'a [u8]),
    Blank,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Message<'a> {
    pub(super) at: Instant,
    pub(super) clock: Clock,
    /// The wall clock's text, where there is one.
    pub(super) wall: Option<&'a [u8]>,
    pub(super) wall_at: Option<Instant>,
    /// The thread that printed it (`[ T123]`, CONFIG_PRINTK_CALLER).
    pub(super) caller: Option<u32>,
    pub(super) text: &'a [u8],
}

/// What the lines before a line show about its stamp.
#[derive(Debug, Default)]
pub(super) struct Prefixes {
    /// For `dmesg -H` and `dmesg --time-format delta`: timestamps that count from the line before.
    running_us: Us,
    /// Of timestamps without a year: the last one, and the years that have begun since the first one.
    last_us: Option<Us>,
    years_us: Us,
    /// One of this year was of 29 February.
    leap_year: bool,
    /// The date of the line before with two letters behind it, and its instant: many lines have the same.
    again: Vec<u8>,
    again_at: Option<Instant>,
}

#[derive(Default)]
struct Parts<'a> {
    kernel: Option<Instant>,
    wall: Option<(Instant, &'a [u8])>,
    caller: Option<u32>,
    foreign: bool,
    dated: bool,
    written_later: bool,
    /// A host stands behind the kernel's stamp.
    logged: bool,
}

impl Prefixes {
    /// The next file of the same log.
    pub(super) fn begin(&mut self) {
        self.running_us = 0;
    }

    pub(super) fn strip<'a>(&mut self, line: &'a [u8]) -> Stripped<'a> {
        let line = unquoted(line);
        if line.is_empty() {
            return Stripped::Blank;
        }
        let mut parts = Parts::default();
        let mut rest = self.parts(line, &mut parts);
        if parts.kernel.is_none()
            && parts.wall.is_none()
            && let Some(event) = trace(line)
        {
            return event;
        }
        // A wall clock may be of who copied the kernel's lines, with their timestamps.
        if parts.kernel.is_none()
            && (parts.wall.is_none() || parts.foreign)
            && let Some(at) = stamp_within(line)
        {
            rest = self.parts(&line[at..], &mut parts);
        }
        let (at, clock) = match (parts.kernel, parts.wall) {
            (Some(at), None) if parts.logged => (at, Clock::Logger),
            (Some(at), _) => (at, Clock::Kernel),
            (None, Some(_)) if parts.foreign => return Stripped::Foreign,
            (None, Some((at, _))) if parts.written_later => (at, Clock::None),
            (None, Some((at, _))) if parts.dated => (at, Clock::Dated),
            (None, Some((at, _))) => (at, Clock::Wall),
            (None, None) => return Stripped::Bare(line),
        };
        Stripped::Message(Message {
            at,
            clock,
            wall: parts.wall.map(|(_, text)| text),
            wall_at: parts.wall.map(|(at, _)| at),
            caller: parts.caller,
            text: rest,
        })
    }

    /// Takes the parts of a prefix one by one; the message.
    fn parts<'a>(&mut self, line: &'a [u8], parts: &mut Parts<'a>) -> &'a [u8] {
        let mut rest = Cursor(line);
        for _ in 0..PARTS_MAX {
            let mut ahead = rest;
            // A message may begin with a space: a device without a driver does.
            if parts.kernel.is_none() {
                ahead.spaces();
            }
            let taken = match ahead.peek() {
                Some(b'[') => self.bracket(&mut ahead, parts),
                _ if parts.kernel.is_some() => {
                    process(&mut ahead, parts).or_else(|| passed_on(&mut ahead, parts))
                }
                Some(b'<') => level(&mut ahead),
                Some(b'0'..=b'9') => self.number(&mut ahead, parts),
                Some(b'a'..=b'z' | b'A'..=b'Z') => self.word(&mut ahead, parts),
                _ => None,
            };
            if taken.is_none() {
                break;
            }
            rest = ahead;
        }
        rest.0
    }

    /// `[   12.345678] `, `[ T123] `, `[Sat Nov 21 18:00:00 2026] `, `[Nov21 18:00] `, `[  +0.1] `.
    fn bracket<'a>(&mut self, text: &mut Cursor<'a>, parts: &mut Parts<'a>) -> Option<()> {
        text.eat(b'[')?;
        let inside = *text;
        text.spaces();
        if parts.kernel.is_some() {
            let mut ahead = *text;
            if caller(&mut ahead, parts).is_some() {
                *text = ahead;
                return Some(());
            }
            // What passed the line on (a serial console's logger) stamped it, too: the inner one is
            // the kernel's.
            parts.kernel = Some(printk_stamp(text)?);
            let _ = text.eat(b' ');
            return Some(());
        }
        match text.peek()? {
            // `+` of `dmesg -H`, and `<` of `dmesg --show-delta --notime`.
            sign @ (b'+' | b'<') => {
                text.eat(sign)?;
                if sign == b'<' {
                    text.spaces();
                }
                // A comma where the language has one.
                let delta = text.seconds().or_else(|| text.seconds_by(b','))?;
                if sign == b'<' {
                    text.eat(b'>')?;
                }
                self.running_us = self.running_us.saturating_add(delta.us);
                parts.kernel = Some(self.running(delta.resolution_us));
            }
            b'0'..=b'9' => {
                let at = text.seconds()?;
                // Behind it another figure: the CPU, or the time since the line before.
                let behind = text.0.iter().take(32).position(|&byte| byte == b']')?;
                text.0 = &text.0[behind..];
                parts.kernel = Some(at);
            }
            _ => {
                let at = match self.date(text) {
                    Some(at) => at,
                    None => self.minute(text)?,
                };
                let stamp = consumed(inside.0, text.0);
                parts.wall = Some((at, stamp));
                parts.dated = true;
                // The deltas of the lines after it are from it on, and those before it end anywhere in its minute.
                if stamp.len() == MINUTE_BYTES {
                    parts.kernel = Some(self.running(MINUTE_US));
                }
                text.eat(b']')?;
                let _ = text.eat(b' ');
                return Some(());
            }
        }
        text.eat(b']')?;
        // `[   12.345678][ T123] `
        let mut ahead = *text;
        if ahead.eat(b'[').is_some() && caller(&mut ahead, parts).is_some() {
            *text = ahead;
            return Some(());
        }
        let _ = text.eat(b' ');
        Some(())
    }

    fn running(&self, resolution_us: Us) -> Instant {
        Instant {
            us: self.running_us,
            resolution_us,
        }
    }

    /// `Nov21 18:00`: the first line of a minute of `dmesg -H`; deltas follow it.
    fn minute(&mut self, text: &mut Cursor<'_>) -> Option<Instant> {
        let inside = text.0.get(..MINUTE_BYTES)?;
        let with_seconds = [&inside[..3], b" ", &inside[3..], b":00"].concat();
        let mut cursor = Cursor(&with_seconds);
        let at = self.date(&mut cursor)?;
        text.0 = &text.0[MINUTE_BYTES..];
        self.running_us = at.us;
        Some(at)
    }

    /// An ISO time, seconds since 1970, or a record of /dev/kmsg.
    fn number<'a>(&mut self, text: &mut Cursor<'a>, parts: &mut Parts<'a>) -> Option<()> {
        if parts.wall.is_some() {
            return None;
        }
        let before = *text;
        if let Some(at) = text.iso() {
            let stamp = consumed(before.0, text.0);
            parts.wall = Some((at, stamp));
            text.eat(b' ')?;
            // dmesg writes a comma before the fraction, and neither host nor program behind it.
            return if stamp.contains(&b',') {
                parts.written_later = logger(text).is_some();
                parts.dated = true;
                Some(())
            } else {
                host_and_program(text, parts)
            };
        }
        *text = before;
        if let Some(us) = kmsg(text) {
            let resolution_us = 1;
            parts.kernel = Some(Instant { us, resolution_us });
            return Some(());
        }
        *text = before;
        let at = text.seconds().filter(|at| at.us > SINCE_1970_US)?;
        parts.wall = Some((at, consumed(before.0, text.0)));
        text.eat(b' ')?;
        host_and_program(text, parts)
    }

    /// A date, `kern  :info  : `, or a program that passed the line on.
    fn word<'a>(&mut self, text: &mut Cursor<'a>, parts: &mut Parts<'a>) -> Option<()> {
        if parts.wall.is_some() {
            return None;
        }
        let before = *text;
        if let Some(at) = self.date(text) {
            parts.wall = Some((at, consumed(before.0, text.0)));
            text.eat(b' ')?;
            return host_and_program(text, parts);
        }
        *text = before;
        passed_on(text, parts).or_else(|| {
            *text = before;
            for _ in 0..2 {
                let n = memchr(b':', text.0).filter(|&n| n < 10)?;
                let name = text.0[..n].trim_ascii_end();
                if name.is_empty() || !name.iter().all(u8::is_ascii_lowercase) {
                    return None;
                }
                text.0 = &text.0[n + 1..];
            }
            text.eat(b' ')
        })
    }

    fn date(&mut self, text: &mut Cursor<'_>) -> Option<Instant> {
        let before = text.0;
        if !self.again.is_empty() && before.starts_with(&self.again) {
            text.0 = &before[self.again.len() - 2..];
            return self.again_at;
        }
        self.again.clear();
        self.again_at = Some(self.new_date(text)?);
        // With a small letter behind it nothing that follows is of it: a fraction, a year or a zone.
        if let [b' ', b'a'..=b'z', ..] = text.0 {
            let taken = before.len() - text.0.len();
            self.again.extend_from_slice(&before[..taken + 2]);
        }
        self.again_at
    }

    /// A stamp without a year is one of 2000 here, or of a year behind it: of the one in which it is
    /// nearest to the stamp before. Whether its year has a 29 February is not known before a line is of
    /// that day: without one, 1 March is the day behind 28 February.
    fn new_date(&mut self, text: &mut Cursor<'_>) -> Option<Instant> {
        const DAY_US: Us = 86_400_000_000;
        const FEBRUARY_29: Us = (10_957 + 59) * DAY_US;
        const MARCH: Us = FEBRUARY_29 + DAY_US;
        const HALF_YEAR_US: Us = 180 * DAY_US;
        /// No log has as many; sums of more could overflow.
        const YEARS_US_MAX: Us = 1000 * 365 * DAY_US;
        let (mut at, has_year) = text.date()?;
        if has_year {
            return Some(at);
        }
        let placed = |by: &Self| {
            let has_more = at.us < MARCH || by.leap_year;
            at.us + by.years_us + if has_more { DAY_US } else { 0 }
        };
        let ahead = self.last_us.map_or(0, |last| placed(self) - last);
        if ahead < -HALF_YEAR_US && self.years_us < YEARS_US_MAX {
            self.years_us += if self.leap_year { 366 } else { 365 } * DAY_US;
            self.leap_year = false;
        } else if ahead > HALF_YEAR_US && self.years_us > 0 {
            // The log is there twice.
            self.years_us = 0;
            self.leap_year = false;
        }
        self.leap_year |= (FEBRUARY_29..MARCH).contains(&at.us);
        at.us = placed(self);
        self.last_us = Some(at.us);
        Some(at)
    }
}

/// `T123] ` or `C1] `, or `1] ` with the CPU alone, behind the bracket.
fn caller(text: &mut Cursor<'_>, parts: &mut Parts<'_>) -> Option<()> {
    text.spaces();
    let of_thread = text.eat(b'T').is_some();
    let _ = text.eat(b'C');
    let id = text.number()?;
    text.eat(b']')?;
    let _ = text.eat(b' ');
    if of_thread {
        parts.caller = u32::try_from(id).ok();
    }
    Some(())
}

/// `<1>.(0)[1490:kworker/u16:7]` behind the stamp, as MediaTek's kernels have it: how many CPUs are on,
/// whether interrupts are off, the CPU, and the process.
fn process(text: &mut Cursor<'_>, parts: &mut Parts<'_>) -> Option<()> {
    let mut ahead = *text;
    ahead.spaces();
    if ahead.peek() == Some(b'<') {
        level(&mut ahead)?;
    }
    if matches!(ahead.peek(), Some(b'.' | b'-' | b'*' | b'~' | b' ')) {
        ahead.0 = &ahead.0[1..];
    }
    ahead.eat(b'(')?;
    ahead.number()?;
    ahead.eat_text(b")[")?;
    let id = ahead.number()?;
    ahead.eat(b':')?;
    let name = memchr(b']', ahead.0).filter(|&at| at < 32)?;
    parts.caller = u32::try_from(id).ok();
    text.0 = &ahead.0[name + 1..];
    Some(())
}

/// `<6>`, and RFC 5424's version behind it.
fn level(text: &mut Cursor<'_>) -> Option<()> {
    text.eat(b'<')?;
    text.number()?;
    text.eat(b'>')?;
    let _ = text.eat_text(b"1 ");
    Some(())
}

/// `kernel: ` or `HOST kernel: `, as journalctl -o short-monotonic has it behind the stamp.
fn passed_on(text: &mut Cursor<'_>, parts: &mut Parts<'_>) -> Option<()> {
    if text.eat_text(b"kernel:").is_none() {
        let colon = memchr(b':', text.0).filter(|&n| n < PREFIX_BYTES_MAX)?;
        let host = text.0[..colon].strip_suffix(b" kernel")?;
        if host.contains(&b' ') {
            return None;
        }
        text.0 = &text.0[colon + 1..];
        parts.logged = parts.kernel.is_some();
    }
    let _ = text.eat(b' ');
    parts.foreign = false;
    Some(())
}

/// `HOST PROGRAM[PID]: `; or RFC 5424's `HOST PROGRAM PID ID DATA `.
fn host_and_program(text: &mut Cursor<'_>, parts: &mut Parts<'_>) -> Option<()> {
    if passed_on(text, parts).is_some() {
        return Some(());
    }
    parts.foreign = true;
    let mut ahead = *text;
    let rfc_5424 = ahead.word().is_some()
        && ahead.eat(b' ').is_some()
        && ahead.word().is_some_and(|program| program == b"kernel")
        && ahead.eat(b' ').is_some();
    if rfc_5424 {
        for _ in 0..2 {
            ahead.word()?;
            ahead.eat(b' ')?;
        }
        if ahead.eat_text(b"- ").is_none() {
            let data = memmem::find(ahead.0, b"] ")?;
            ahead.0 = &ahead.0[data + 2..];
        }
        let _ = ahead.eat_text(b"\xef\xbb\xbf");
        *text = ahead;
        parts.foreign = false;
        return Some(());
    }
    // A program that passes on the kernel's messages leaves the kernel's stamp.
    let within = &text.0[..text.0.len().min(PREFIX_BYTES_MAX)];
    let bracket = memchr::memchr_iter(b'[', within).find(|&at| within[..at].ends_with(b": "))?;
    text.0 = &text.0[bracket..];
    Some(())
}

/// `DEBUG:\t`: a program in Python (amd_s2idle.py) that copies the kernel's messages after the resume.
fn logger(text: &mut Cursor<'_>) -> Option<()> {
    const LEVELS: [&[u8]; 5] = [b"DEBUG", b"INFO", b"WARNING", b"ERROR", b"CRITICAL"];
    let colon = memchr(b':', text.0).filter(|&at| LEVELS.contains(&&text.0[..at]))?;
    text.0 = text.0[colon + 1..].trim_ascii_start();
    Some(())
}

/// `6,1234,12345678,-;`: level, number, microseconds, flags.
fn kmsg(text: &mut Cursor<'_>) -> Option<Us> {
    text.number().filter(|&level| level < 1000)?;
    text.eat(b',')?;
    text.number()?;
    text.eat(b',')?;
    let us = text.number().filter(|&us| us < 1 << 55)?;
    text.eat(b',')?;
    let flags = memchr(b';', text.0).filter(|&n| n < 64)?;
    text.0 = &text.0[flags + 1..];
    Some(us as Us)
}

/// Without `> ` of mails, white space at the end and bytes of zero around it (a machine that went
/// down leaves such in its syslog).
fn unquoted(line: &[u8]) -> &[u8] {
    let is_padding = |byte: &u8| *byte == 0 || byte.is_ascii_whitespace();
    let end = line.iter().rposition(|byte| !is_padding(byte));
    let mut line = &line[..end.map_or(0, |at| at + 1)];
    while let [0, rest @ ..] = line {
        line = rest;
    }
    loop {
        match line.trim_ascii_start() {
            [b'>', rest @ ..] => line = rest.strip_prefix(b" ").unwrap_or(rest),
            _ => return line,
        }
    }
}

/// A line without a stamp, behind the logger's words: a date in another language, or none, and the host; or
/// behind a time of the day.
pub(super) fn behind_logger(line: &[u8]) -> &[u8] {
    const KERNEL: &[u8] = b"kernel: ";
    let within = &line[..line.len().min(PREFIX_BYTES_MAX)];
    let mut words = memmem::find_iter(within, KERNEL);
    if let Some(at) = words.find(|&at| at == 0 || line[at - 1] == b' ') {
        return &line[at + KERNEL.len()..];
    }
    let mut behind = Cursor(line);
    match behind.clock().and_then(|_| behind.eat(b' ')) {
        Some(()) => behind.0.trim_ascii_start(),
        None => line,
    }
}

fn consumed<'a>(before: &'a [u8], after: &[u8]) -> &'a [u8] {
    &before[..before.len() - after.len()]
}

/// Where the kernel's stamp is behind a prefix that is not known, or behind junk: `^C`, a prompt, the
/// noise of a serial line.
fn stamp_within(line: &[u8]) -> Option<usize> {
    let within = &line[..line.len().min(PREFIX_BYTES_MAX)];
    memchr::memchr_iter(b'[', within)
        .filter(|&at| at > 0)
        .find(|&at| {
            let mut ahead = Cursor(&line[at + 1..]);
            ahead.spaces();
            let parted = matches!(line[at - 1], b' ' | b':');
            let stamp = ahead.seconds().filter(|_| ahead.peek() == Some(b']'));
            // Seconds since 1970 are a program's own.
            let stamp = stamp.filter(|at| at.us < SINCE_1970_US);
            stamp.is_some_and(|at| at.resolution_us == 1 || parted && at.resolution_us <= 1000)
        })
}

/// `   12.345678]`, behind the bracket: always six digits.
fn printk_stamp(text: &mut Cursor<'_>) -> Option<Instant> {
    text.spaces();
    let before = text.0;
    let at = text.seconds().filter(|at| at.resolution_us == 1)?;
    let digits = before.len() - text.0.len();
    let dot = memchr(b'.', before)?;
    text.eat(b']')?;
    (digits - dot == 7).then_some(at)
}

/// Where a second message begins within a line whose end got lost (a serial console).
pub(super) fn next_stamp(text: &[u8]) -> Option<usize> {
    memchr::memchr_iter(b'[', text)
        .filter(|&at| at > 0)
        .find(|&at| {
            let mut ahead = Cursor(&text[at + 1..]);
            printk_stamp(&mut ahead).is_some() && ahead.peek() == Some(b' ')
        })
}

/// `   sh-203     [000] d..1.     6.744896: suspend_resume: …`; the flags may be missing, and the
/// thread group (`(  203)`) there.
fn trace(line: &[u8]) -> Option<Stripped<'_>> {
    let open = memchr(b'[', &line[..line.len().min(PREFIX_BYTES_MAX)])?;
    let mut rest = Cursor(&line[open + 1..]);
    if rest.digits()?.len() < 3 {
        return None;
    }
    rest.eat(b']')?;
    rest.spaces();
    let at = rest.seconds().or_else(|| {
        rest.word().filter(|flags| flags.len() < 8)?;
        rest.spaces();
        rest.seconds()
    })?;
    rest.eat(b':')?;
    rest.spaces();
    let mut task = line[..open].trim_ascii();
    if let [before @ .., b')'] = task {
        let group = memchr::memrchr(b'(', before)?;
        task = before[..group].trim_ascii_end();
    }
    let dash = memchr::memrchr(b'-', task)?;
    Some(Stripped::Trace {
        at,
        pid: Cursor(&task[dash + 1..])
            .number()
            .and_then(|pid| u32::try_from(pid).ok()),
        event: rest.0,
    })
}

#[cfg(test)]
#[path = "prefix/tests.rs"]
mod tests;
