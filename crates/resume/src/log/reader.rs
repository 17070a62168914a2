//! From lines to events.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use memchr::{memchr, memchr2, memchr3, memmem, memrchr};
use reveille_show::progress::Reading;

use super::cycles::{At, Cycles};
use super::event::{Event, Parsed};
use super::journal::{self, Export};
use super::lines::{self, Line};
use super::message::{Messages, refuses, split_at};
use super::prefix::{Clock, MINUTE_US, Message, Prefixes, Stripped, behind_logger, next_stamp};
use super::stamp::{Cursor, Instant};
use super::{LeftOut, Log, both, packed, trace};
use crate::cycle::{Firmware, INSTANT_MAX, Us};
use crate::hibernation::Hibernation;
use crate::known_as::KnownAs;
use crate::{Error, Result};

/// A mail's line has room for half a message or so; what follows without a stamp is something else.
const CONTINUATIONS_MAX: usize = 3;
const MESSAGE_BYTES_MAX: usize = 4096;

/// Puts the lines of one machine's log together.
#[derive(Default)]
struct Reader {
    messages: Messages,
    prefixes: Prefixes,
    export: Export,
    printk: Cycles,
    ftrace: Cycles,
    pending: Pending,
    lines: u64,
    bytes: u64,
    event_lines: u64,
    resolution_us: Option<Us>,
    left_out: LeftOut,
    unread: Option<&'static str>,
    /// A line of this source had a time.
    timed: bool,
    /// So had one about a suspend.
    has_timed_events: bool,
    /// Lines about a suspend without a time, as long as none of those has one.
    untimed: Vec<Vec<u8>>,
    order: Order,
    /// By the cycle that follows it.
    firmware: Vec<(usize, Firmware)>,
    known_as: KnownAs,
    /// A date and a host, where a terminal broke the line behind them.
    host: Option<Vec<u8>>,
    /// Of the message that follows.
    json_time: Option<Instant>,
}

/// In which direction the stamps of a source go.
#[derive(Default)]
struct Order {
    last: Option<Us>,
    forth: usize,
    back: usize,
    is_coarse: bool,
    /// Its lines, as long as it may be one with the newest line first (`journalctl -r`).
    lines: Vec<Vec<u8>>,
    bytes: usize,
}

impl Order {
    fn stamp(&mut self, at: Instant) {
        if let Some(last) = self.last.replace(at.us) {
            self.forth += usize::from(at.us > last);
            self.back += usize::from(at.us < last);
        }
        self.is_coarse = at.resolution_us > 1;
    }

    /// Two CPUs' stamps may be out of order, and few boots follow each other in one log.
    fn may_go_back(&self) -> bool {
        self.forth <= 8 + self.back / 8 && self.bytes < BACKWARD_BYTES_MAX
    }

    fn keeps(&mut self, line: &[u8]) {
        self.bytes += line.len();
        match self.may_go_back() {
            true => self.lines.push(line.to_vec()),
            false => self.lines = Vec::new(),
        }
    }

    /// The lines from the oldest on, if the source has the newest first.
    fn turned(&mut self) -> Option<Vec<Vec<u8>>> {
        // Many lines have one stamp of whole seconds.
        let least = if self.is_coarse { 1 } else { 3 };
        let goes_back = self.back >= least && self.back > 4 * self.forth && self.may_go_back();
        let mut lines = std::mem::take(&mut self.lines);
        lines.reverse();
        Some(lines).filter(|_| goes_back)
    }
}

/// A larger log is not turned round.
const BACKWARD_BYTES_MAX: usize = 64 << 20;
/// What a boot says of the device at which the resume before it hung, with 1 in /sys/power/pm_trace.
const PM_TRACE: [&[u8]; 2] = [b": hash matches", b"PM:   hash matches "];
/// No more lines without a time are kept.
const UNTIMED_MAX: usize = 20_000;

/// An input without a line with a time in this many bytes is not a log, and may have no end.
const TIMELESS_BYTES_MAX: usize = 16 << 20;

fn no_log() -> io::Error {
    let words =
        "no line with a time in its first 16 MiB; expected a kernel's log (dmesg, syslog, ftrace)";
    io::Error::new(io::ErrorKind::InvalidData, words)
}

/// A message that may go on in the next line.
#[derive(Default)]
struct Pending {
    is_some: bool,
    text: Vec<u8>,
    /// Where its lines end in `text`, but for the last.
    joints: Vec<usize>,
    wall: Vec<u8>,
    has_wall: bool,
    at: Option<(Instant, Option<Clock>)>,
    caller: Option<u32>,
}

impl Reader {
    /// A file, or a part of the log otherwise.
    fn source(&mut self, input: impl Read) -> io::Result<()> {
        self.prefixes.begin();
        self.export = Export::default();
        let mut timeless = 0;
        (self.timed, self.has_timed_events) = (false, false);
        self.order = Order::default();
        let is_first = self.lines == 0;
        let read = lines::each(packed::text(input)?, |line| {
            match line {
                Line::Text(text) => {
                    timeless += text.len() + 1;
                    self.order.keeps(text);
                    self.line(text);
                }
                Line::TooLong => {
                    timeless += 1 << 16;
                    self.flush();
                    self.left_out.long_lines += 1;
                }
            }
            match timeless > TIMELESS_BYTES_MAX && !self.timed {
                true => Err(no_log()),
                false => Ok(()),
            }
        });
        self.flush();
        let (lines, bytes) = read?;
        if let Some(turned) = self.order.turned().filter(|_| is_first) {
            *self = Self::default();
            self.left_out.backward_lines = lines;
            turned.iter().for_each(|line| self.line(line));
            self.flush();
        }
        self.reads_untimed();
        self.lines += lines;
        self.bytes += bytes;
        Ok(())
    }

    /// Lines about a suspend of which none has a time may still say how long stages and calls took.
    fn reads_untimed(&mut self) {
        let lines = std::mem::take(&mut self.untimed);
        let says = |line: &Vec<u8>| match self.messages.parse(line) {
            Parsed::Event(Event::StageEnd { says_us, .. }) => says_us.is_some(),
            Parsed::Event(Event::Return(ret)) => ret.says_us.is_some(),
            Parsed::Event(Event::Failure { .. } | Event::NotFrozen { .. }) => true,
            Parsed::Event(Event::Asleep(_) | Event::Woken(_)) => true,
            Parsed::Event(event) => matches!(event, Event::DevicesTook { .. } | Event::Took { .. }),
            _ => Hibernation::default().hears(&String::from_utf8_lossy(line)),
        };
        if self.has_timed_events || !lines.iter().any(says) {
            return;
        }
        let (us, resolution_us) = (0, 1);
        let at = At::of(Instant { us, resolution_us }, Some(Clock::None));
        for line in &lines {
            self.printk.hears_of_disk(line);
            self.printk.hears_of_refusal(line);
            if let Parsed::Event(event) = self.messages.parse(line) {
                self.left_out.lines_without_stamp -= 1;
                self.event_lines += 1;
                self.printk.event(&at, event);
            }
        }
        self.printk.close();
    }

    fn finish(mut self) -> Log {
        self.printk.close();
        self.ftrace.close();
        for (place, firmware) in std::mem::take(&mut self.firmware) {
            let stream = match self.printk.done.is_empty() {
                true => &mut self.ftrace,
                false => &mut self.printk,
            };
            if let Some(cycle) = stream.done.get_mut(place) {
                cycle.firmware = Some(firmware);
            }
        }
        let mut left_out = self.left_out;
        left_out.add(self.printk.left_out);
        left_out.add(self.ftrace.left_out);
        for stream in [&mut self.printk, &mut self.ftrace] {
            left_out.repeated_cycles +=
                both::without_repeated(&mut stream.done, &mut stream.stamps);
            left_out.repeated_lines += both::without_pasted(&mut stream.done, &stream.stamps);
        }
        let mut cycles = both::together(self.printk.done, self.ftrace.done);
        let known_as = Arc::new(self.known_as);
        for cycle in &mut cycles {
            cycle.known_as = known_as.clone();
        }
        Log {
            hibernations: self.printk.hibernations,
            cycles,
            lines: self.lines,
            bytes: self.bytes,
            event_lines: self.event_lines,
            resolution_us: self.resolution_us,
            left_out,
            unread: self.unread,
        }
    }

    fn line(&mut self, line: &[u8]) {
        // One search for what either of them changes: nothing in most lines.
        if memchr3(0xa0, 0xbd, 0x1b, line).is_none() {
            return self.plain_line(line);
        }
        let spaced = with_plain_spaces(line);
        let mut plain = Vec::new();
        without_colours(spaced.as_deref().unwrap_or(line), &mut plain);
        self.plain_line(&plain);
    }

    fn plain_line(&mut self, line: &[u8]) {
        let entry = match line.first() {
            Some(b'{') => journal::of_json(line).map(Some),
            _ => self.export.line(line.strip_suffix(b"\r").unwrap_or(line)),
        };
        if let Some(entry) = entry {
            entry.into_iter().for_each(|entry| self.entry(entry));
            return;
        }
        match self.prefixes.strip(line) {
            Stripped::Message(message) => {
                self.timed = true;
                // A kernel's clock just below zero is printed as 2^64 ns less a little.
                if message.at.us > INSTANT_MAX {
                    self.flush();
                    self.left_out.torn_lines += 1;
                    return;
                }
                if self.pending.is_again(&message) {
                    self.left_out.repeated_lines += 1;
                    return;
                }
                self.flush();
                if let Some(next) = next_stamp(message.text) {
                    // The end of its line got lost.
                    let at = line.len() - message.text.len() + next;
                    self.plain_line(&line[..at]);
                    self.plain_line(&line[at..]);
                    return;
                }
                self.order.stamp(message.at);
                let at = At {
                    wall: message.wall,
                    caller: message.caller,
                    ..At::of(message.at, Some(message.clock))
                };
                self.printk.passes(&at);
                if let (Clock::Kernel, Some(wall)) = (message.clock, message.wall_at) {
                    self.printk.clocks(message.at.us, wall);
                }
                self.pending.begin(&at, message.text);
            }
            Stripped::Trace { at, pid, event } => {
                self.timed = true;
                self.flush();
                let at = At {
                    caller: pid,
                    ..At::of(at, None)
                };
                self.ftrace.passes(&at);
                self.pending.begin(&at, event);
            }
            Stripped::Foreign => {
                self.timed = true;
                self.flush();
                self.host = memchr(b']', line)
                    .or_else(|| memmem::find(line, b": "))
                    .map_or(Some(line.to_vec()), |_| None);
            }
            Stripped::Blank => self.flush(),
            Stripped::Bare(text) => self.bare(text),
        }
    }

    /// A line without a stamp: the rest of the one before, or of no time.
    fn bare(&mut self, text: &[u8]) {
        if let Some(plain) = of_mail(text) {
            return self.plain_line(&plain);
        }
        let goes_on = text.trim_ascii_start().starts_with(b"kernel: ");
        if let Some(host) = self.host.take().filter(|_| goes_on) {
            return self.plain_line(&[&host, text.trim_ascii_start()].join(&b' '));
        }
        let whole = text.len();
        let text = behind_logger(text);
        let has_logger = text.len() < whole;
        if let Some(lost) = lost_events(text) {
            self.left_out.lost_events += lost;
            return;
        }
        if let Some(firmware) = firmware(text) {
            self.flush();
            let done = self.printk.done.len().max(self.ftrace.done.len());
            self.firmware.push((done, firmware));
            return;
        }
        // A journal's mark, `-- Boot 8f2b… --`; to systemd 247 `-- Reboot --`.
        let is_mark = text.starts_with(b"-- Boot ") || text.starts_with(b"-- Reboot");
        if !is_mark && !is_of_firmware(text) && self.pending.goes_on(text) {
            return;
        }
        self.flush();
        // A line of a mail as it was sent goes on in the next one: behind `=`, or its space at the end (`=20`).
        let last = self.untimed.last_mut();
        let last = last.filter(|_| !self.has_timed_events);
        if let Some(last) = last.filter(|last| last.ends_with(b"=") || last.ends_with(b" ")) {
            last.pop_if(|sign| *sign == b'=');
            last.extend_from_slice(&decoded(text, 0));
            return;
        }
        self.printk.boots |= is_mark;
        if self.json(text.trim_ascii()).is_some() {
            return;
        }
        let (form, message) = unread(text).unzip();
        let message = message.unwrap_or(text).trim_ascii_start();
        let is_event = matches!(self.messages.parse(message), Parsed::Event(_));
        self.left_out.lines_without_stamp += u64::from(is_event);
        // Read all the same, if it says how long something took.
        let dated =
            has_logger.then_some("lines with a date in an unknown language, or without one");
        self.unread = self.unread.or(form.or(dated).filter(|_| is_event));
        // Of a suspend to disk no line is an event; and of who refuses.
        let may_tell = is_event && form.is_none()
            || message.starts_with(b"PM: ")
            || !self.untimed.is_empty()
                && (refuses(message).is_some() || message.starts_with(b"task:"));
        if may_tell && !self.has_timed_events && self.untimed.len() < UNTIMED_MAX {
            self.untimed.push(message.to_vec());
        }
    }

    /// `"time": 12.345678,` and behind it `"msg": "…"`, as `dmesg --json` writes them.
    fn json(&mut self, text: &[u8]) -> Option<()> {
        const MESSAGE: &[u8] = b"\"msg\":";
        if let Some((_, time)) = split_at(text, b"\"time\":") {
            let mut time = Cursor(time.trim_ascii_start());
            self.json_time = Some(time.seconds()?);
        }
        let (_, message) = split_at(text, MESSAGE)?;
        let end = memrchr(b'"', message)?;
        let message: String = serde_json::from_slice(&message[..=end]).ok()?;
        let us = self.json_time.take()?.us;
        let line = format!("[{}.{:06}] {message}", us / 1_000_000, us % 1_000_000);
        self.plain_line(line.as_bytes());
        self.flush();
        Some(())
    }

    /// Of a journal as JSON or for export.
    fn entry(&mut self, entry: journal::Entry) {
        self.timed = true;
        self.flush();
        if entry.us > INSTANT_MAX {
            self.left_out.torn_lines += 1;
            return;
        }
        let at = Instant {
            us: entry.us,
            resolution_us: 1,
        };
        self.order.stamp(at);
        let at = At::of(at, Some(entry.clock));
        self.printk.passes(&at);
        let first = entry.message.split(|&byte| byte == b'\n').next();
        self.pending.begin(&at, first.unwrap_or_default());
        self.flush();
    }

    /// Parses the message, now that it is whole.
    fn flush(&mut self) {
        let is_some = std::mem::take(&mut self.pending.is_some);
        let Some((at, clock)) = self.pending.at.filter(|_| is_some) else {
            return;
        };
        let text = std::mem::take(&mut self.pending.text);
        let stamp = At {
            wall: self.pending.has_wall.then_some(&self.pending.wall),
            caller: self.pending.caller,
            ..At::of(at, clock)
        };
        let glued;
        let first = self.pending.joints.first().copied();
        let mut heard = &text[..];
        let mut parsed = self.parse(heard, &stamp);
        let is_call = |parsed: &Parsed<'_>| matches!(parsed, Parsed::Event(Event::Call(_)));
        if let Some(first) = first
            && is_call(&parsed)
        {
            // Its parent ends the line, if it is whole without the next one.
            let of_first = self.parse(&text[..first], &stamp);
            parsed = Some(of_first).filter(is_call).unwrap_or(parsed);
        } else if let Some(first) = first
            && matches!(parsed, Parsed::Event(_))
        {
            // What stands below a line that is whole may be another program's.
            let whole = &text[..first];
            let is_open = memrchr(b'(', whole) > memrchr(b')', whole);
            if !is_open && matches!(self.parse(whole, &stamp), Parsed::Event(_)) {
                heard = whole;
            }
        } else if let Some(first) = first {
            // Cut within a word, or not by a mail at all.
            glued = self.pending.without_joints(&text);
            parsed = self.parse(&glued, &stamp);
            heard = &glued;
            if !matches!(parsed, Parsed::Event(_)) {
                heard = &text[..first];
                parsed = self.parse(heard, &stamp);
            }
        }
        if clock.is_some() {
            if let Parsed::Event(event) = &parsed {
                self.printk.measures(&stamp, event);
            }
            self.printk.hears(&stamp, heard);
        }
        match parsed {
            Parsed::Event(event) => {
                self.has_timed_events = true;
                self.event_lines += 1;
                if clock != Some(Clock::None) && at.resolution_us < MINUTE_US {
                    self.resolution_us = self.resolution_us.max(Some(at.resolution_us));
                }
                if clock.is_some() {
                    self.printk.event(&stamp, event);
                    self.printk.begins_with(&stamp, &text);
                } else {
                    self.ftrace.event(&stamp, event);
                }
            }
            Parsed::Torn => self.left_out.torn_lines += 1,
            Parsed::Nothing if clock.is_some() => {
                if PM_TRACE
                    .iter()
                    .any(|words| text.ends_with(words) || text.starts_with(words))
                {
                    self.unread = Some("pm_trace");
                }
                self.known_as.hears(&text);
                self.printk.says(&stamp, &text);
            }
            Parsed::Nothing => {}
        }
        self.pending.text = text;
    }

    fn parse<'a>(&self, text: &'a [u8], at: &At<'_>) -> Parsed<'a> {
        match at.clock {
            Some(_) => self.messages.parse(text),
            None => trace::parse(text, at.caller),
        }
    }
}

impl Pending {
    fn begin(&mut self, at: &At<'_>, text: &[u8]) {
        self.is_some = true;
        self.text.clear();
        self.text.extend_from_slice(text);
        self.joints.clear();
        self.has_wall = at.wall.is_some();
        self.wall.clear();
        self.wall.extend_from_slice(at.wall.unwrap_or_default());
        let (us, resolution_us) = (at.us, at.resolution_us);
        self.at = Some((Instant { us, resolution_us }, at.clock));
        self.caller = at.caller;
    }

    /// Does a log have its line twice, as it has with two consoles, or put together of two files?
    fn is_again(&self, message: &Message<'_>) -> bool {
        self.is_some
            && self.joints.is_empty()
            && message.clock == Clock::Kernel
            && message.at.resolution_us == 1
            && self.at == Some((message.at, Some(message.clock)))
            && self.text == message.text
    }

    fn goes_on(&mut self, text: &[u8]) -> bool {
        let fits = self.is_some
            && self.joints.len() < CONTINUATIONS_MAX
            && self.text.len() + text.len() < MESSAGE_BYTES_MAX;
        if fits && self.text.last() == Some(&b'=') {
            // Of a mail as it was sent (quoted-printable), where `=3D` is the sign itself.
            self.text.pop();
            self.text.extend_from_slice(&decoded(text, 0));
        } else if fits {
            self.joints.push(self.text.len());
            self.text.push(b' ');
            self.text.extend_from_slice(text.trim_ascii_start());
        }
        fits
    }

    /// `text` without the spaces at the joints.
    fn without_joints(&self, text: &[u8]) -> Vec<u8> {
        let mut from = 0;
        let mut glued = Vec::with_capacity(text.len());
        for &joint in &self.joints {
            glued.extend_from_slice(&text[from..joint]);
            from = joint + 1;
        }
        glued.extend_from_slice(&text[from..]);
        glued
    }
}

/// A line of a mail as it was sent (quoted-printable), with its letters beyond ASCII: `[=C2=A0 75.538497] …`.
fn of_mail(line: &[u8]) -> Option<Vec<u8>> {
    let is_letter = |&at: &usize| {
        let letter = coded(line, at).zip(coded(line, at + 3));
        letter.is_some_and(|(first, next)| first >= 0xc2 && next >= 0x80)
    };
    memchr::memchr_iter(b'=', line).find(is_letter)?;
    let plain = decoded(line, 0x80);
    Some(with_plain_spaces(&plain).unwrap_or(plain))
}

/// The byte that such a mail writes as `=C2`.
fn coded(line: &[u8], at: usize) -> Option<u8> {
    let [b'=', high, low, ..] = line.get(at..)? else {
        return None;
    };
    let digit = |letter: &u8| char::from(*letter).to_digit(16);
    Some((digit(high)? * 16 + digit(low)?) as u8)
}

/// With the bytes from `least` on that are written so: `=3D` is the sign itself, `=20` a space.
fn decoded(line: &[u8], least: u8) -> Vec<u8> {
    let mut plain = Vec::with_capacity(line.len());
    let mut at = 0;
    while at < line.len() {
        let code = coded(line, at).filter(|&byte| byte >= least);
        plain.push(code.unwrap_or(line[at]));
        at += if code.is_some() { 3 } else { 1 };
    }
    plain
}

/// What ARM's trusted firmware and coreboot write to the console between the kernel's lines.
fn is_of_firmware(line: &[u8]) -> bool {
    const WORDS: [&[u8]; 6] = [
        b"NOTICE: ",
        b"INFO: ",
        b"WARNING: ",
        b"ERROR: ",
        b"VERBOSE: ",
        b"coreboot-",
    ];
    WORDS.iter().any(|words| line.starts_with(words))
}

/// With spaces for those that do not break, in UTF-8 or Latin-1, and for what a mail's reader makes of
/// them (U+FFFD); `None` where there is none.
fn with_plain_spaces(line: &[u8]) -> Option<Vec<u8>> {
    memchr2(0xa0, 0xbd, line)?;
    let mut plain = Vec::with_capacity(line.len());
    let mut rest = line;
    while let Some((&first, others)) = rest.split_first() {
        let is_letters = plain.last().is_some_and(|&before: &u8| before >= 0x80);
        rest = match rest {
            [0xc2, 0xa0, behind @ ..] | [0xef, 0xbf, 0xbd, behind @ ..] => {
                plain.push(b' ');
                behind
            }
            // Latin-1's, and no byte within a letter of UTF-8.
            [0xa0, behind @ ..] if !is_letters => {
                plain.push(b' ');
                behind
            }
            _ => {
                plain.push(first);
                others
            }
        };
    }
    Some(plain)
}

/// Without the escape sequences of ECMA-48 that terminals understand (`ESC [ … letter`).
fn without_colours(line: &[u8], plain: &mut Vec<u8>) {
    plain.clear();
    let mut rest = line;
    while let Some(at) = memchr(0x1b, rest) {
        plain.extend_from_slice(&rest[..at]);
        rest = &rest[at + 1..];
        if let [b'[', sequence @ ..] = rest {
            let end = sequence.iter().position(|b| (0x40..=0x7e).contains(b));
            rest = end.map_or(&[][..], |end| &sequence[end + 1..]);
        }
    }
    plain.extend_from_slice(rest);
}

/// What prints lines of this form, whose messages are recognised and whose times are not read, and the message.
fn unread(line: &[u8]) -> Option<(&'static str, &[u8])> {
    let line = line.trim_ascii();
    // `03-12 10:11:12.345     0     0 I PM      : suspend entry (deep)`
    if let [_, _, b'-', _, _, b' ', _, _, b':', ..] = line {
        let colon = memmem::find(line, b": ")?;
        return Some(("adb logcat", &line[colon + 2..]));
    }
    // Or an export without the times of its entries.
    Some(("journalctl -o verbose", line.strip_prefix(b"MESSAGE=")?))
}

/// `CPU:1 [LOST 123 EVENTS]`
fn lost_events(line: &[u8]) -> Option<u64> {
    let at = memmem::find(line.strip_prefix(b"CPU:")?, b"[LOST ")?;
    Cursor(&line[at + 10..]).number()
}

/// `# fwsuspend 2220000 fwresume 5589649000`, ns, as sleepgraph writes it into a log's head.
fn firmware(line: &[u8]) -> Option<Firmware> {
    let mut rest = Cursor(line.strip_prefix(b"# fwsuspend ")?);
    let suspend = rest.number()?;
    rest.eat_text(b" fwresume ")?;
    let us = |ns: u64| Us::try_from(ns / 1000).ok();
    Some(Firmware {
        suspend_us: us(suspend)?,
        resume_us: us(rest.number()?)?,
    })
}

/// Reads a log of any length in a few megabytes and what its cycles need.
///
/// A log without a suspend is no error here: it has no cycles.
///
/// # Errors
/// Those of `input`.
pub fn read(input: impl Read) -> io::Result<Log> {
    read_all([input])
}

/// Reads several parts of one machine's log, in this order: a rotated log, or dmesg and a trace.
pub(super) fn read_all<R: Read>(inputs: impl IntoIterator<Item = R>) -> io::Result<Log> {
    let mut reader = Reader::default();
    for input in inputs {
        reader.source(input)?;
    }
    Ok(reader.finish())
}

/// Reads the files of one machine's log.
///
/// # Errors
/// [`Error::Io`] where a file cannot be opened, [`Error::Unreadable`] where it is no text or all of them
/// together have no suspend.
pub fn read_files(paths: &[PathBuf]) -> Result<Log> {
    let mut reader = Reader::default();
    for path in paths {
        let file = File::open(path).map_err(Error::at(path))?;
        let file = Reading::of(file, path);
        reader.source(file).map_err(|error| Error::Unreadable {
            path: path.clone(),
            why: error.to_string(),
        })?;
    }
    let first = paths.first().map_or(Path::new("-"), PathBuf::as_path);
    reader.finish().or_no_suspend(first)
}

#[cfg(test)]
#[path = "reader/tests.rs"]
mod tests;
