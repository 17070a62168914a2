//! Suspends this machine and keeps the kernel's log and trace of it.
//!
//! A recorder makes the kernel log and trace its suspend, an alarm of the real-time clock is set, and the
//! machine enters a sleep state. A folder keeps `dmesg.txt`, `trace.txt`, and `capture.json`, a
//! [`Record`]. Every setting goes through the journal.

mod alarm;
mod features;
mod kernel_log;
mod record;
mod recorder;
pub mod show;
mod sleep_state;
mod tracer;

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant, SystemTime};

use nix::time::{ClockId, clock_gettime};
use reveille_kernel::{Identity, Root, pm_qos};
use reveille_results::output::{Existing, Folder, Naming};

use crate::{Error, Result, devices};
use alarm::Alarm;
pub use features::features;
pub use record::RECORD;
pub use record::{CycleRecord, Record};
pub(crate) use record::{DMESG, FORMAT, TRACE, VERSION};
use recorder::Recorder;
pub use sleep_state::Mode;
use sleep_state::{STATE, SleepState};

/// Between two cycles, and after the last one: devices that resume by themselves (disks that spin
/// up, USB that is enumerated again) finish, and log it.
const BETWEEN: Duration = Duration::from_secs(2);

/// How long to wait for the end of wake-up events: most end within milliseconds, and one that lasts
/// prevents every suspend.
const EVENTS_END_WITHIN: Duration = Duration::from_secs(5);

const WAKEUP_COUNT: &str = "sys/power/wakeup_count";

/// What is to be captured.
#[derive(Debug, Clone)]
pub struct Options {
    /// `None`: what this machine does by default.
    pub mode: Option<Mode>,
    /// Whole seconds, one at least.
    pub wake_after: Duration,
    /// Cycles.
    pub repeat: usize,
    /// Where the files are put. It is made; it must not hold a capture.
    pub folder: PathBuf,
    /// Who chose the folder.
    pub naming: Naming,
    /// For [`reveille_kernel::Journal`].
    pub journal_folder: PathBuf,
    /// A virtual machine is suspended as well.
    pub virtual_machine: bool,
}

/// Progress of a capture.
pub enum Progress<'a> {
    /// All is set, and the machine is suspended now.
    Suspending {
        /// What is known so far.
        record: &'a Record,
        /// The cycle's number, from 1.
        number: usize,
    },
    /// The machine is awake again, after a sleep or a failed suspend.
    Awake(&'a CycleRecord),
}

/// How this machine can be suspended. Changes nothing.
fn prepare(root: &Root, options: &Options) -> Result<(SleepState, Alarm)> {
    if options.wake_after < Duration::from_secs(1) || options.wake_after.subsec_nanos() != 0 {
        return Err(Error::Usage(
            "the alarm is set in whole seconds, one at least".into(),
        ));
    }
    if options.folder.join(RECORD).exists() {
        let folder = options.folder.display();
        return Err(Error::Usage(format!(
            "{folder}: holds a capture already; choose another folder with --out"
        )));
    }
    sleep_state::refuse(root, options.virtual_machine)?;
    let target = SleepState::find(root, options.mode)?;
    let alarm = Alarm::find(root)?;
    Ok((target, alarm))
}

/// Suspends and resumes, as often as asked or until `stop` is set, and keeps the kernel's log and trace.
/// A cycle that failed is part of the result: its log has the reason.
///
/// # Errors
/// [`Error::Cannot`] where this machine cannot be suspended or woken, [`Error::Usage`] for a time that no alarm
/// can be set to; others where the files cannot be written or the kernel's log cannot be read. Settings are
/// restored in every case.
pub fn run(
    root: &Root,
    options: &Options,
    stop: &AtomicBool,
    show: &mut dyn FnMut(Progress<'_>),
) -> Result<Record> {
    let (target, alarm) = prepare(root, options)?;
    // Does the clock accept it? Before anything is kept.
    let armed = alarm.arm(root, options.wake_after, &options.journal_folder)?;
    armed.clear();
    let mut files = Files::create(Folder::make(&options.folder, options.naming)?)?;
    let begun = Recorder::start(root, &target, &options.journal_folder).and_then(|recorder| {
        let record = describe(root, options, &target, &alarm, &recorder);
        files.write(&record)?;
        Ok((recorder, record))
    });
    // Without a record the files cannot be read.
    let (mut recorder, mut record) = begun.inspect_err(|_| files.folder.give_up())?;
    for number in 1..=options.repeat {
        let wanted = match number {
            1 => !stop.load(Ordering::Relaxed),
            _ => pause(stop),
        };
        if !wanted {
            break;
        }
        // What came since the last cycle belongs to that one.
        files.keep(&mut recorder, record.cycles.last_mut())?;
        recorder.mark(number, options.repeat);
        files.keep(&mut recorder, None)?;
        show(Progress::Suspending {
            record: &record,
            number,
        });
        let mut cycle = suspend(root, options, &target, &alarm, number)?;
        files.keep(&mut recorder, Some(&mut cycle))?;
        show(Progress::Awake(&cycle));
        record.cycles.push(cycle);
        files.write(&record)?;
    }
    pause(&AtomicBool::new(false));
    files.keep(&mut recorder, record.cycles.last_mut())?;
    record.interrupted = record.cycles.len() < options.repeat;
    record.suspend_stats_after = record::suspend_stats(root);
    record.left_changed = recorder.stop();
    files.write(&record)?;
    Ok(record)
}

/// One cycle: the alarm is set, and the kernel suspends.
fn suspend(
    root: &Root,
    options: &Options,
    target: &SleepState,
    alarm: &Alarm,
    number: usize,
) -> Result<CycleRecord> {
    // Before the alarm: if it rings before the machine sleeps, it is one event more than the kernel
    // was given, and the suspend is aborted. Otherwise nothing would wake the machine.
    // Source: Documentation/ABI/testing/sysfs-power, wakeup_count.
    let events = wakeup_events(root)?;
    let armed = alarm.arm(root, options.wake_after, &options.journal_folder)?;
    let resumes = record::firmware(root).map(|(count, _)| count);
    let (started, before) = (SystemTime::now(), awake_and_asleep());
    let outcome = events
        .map_or(Ok(()), |count| set(root, WAKEUP_COUNT, &count))
        .and_then(|()| set(root, STATE, target.state));
    let after = awake_and_asleep();
    let rang = armed.rang(root);
    armed.clear();
    // Of the interrupt that woke it; the file cannot be read where none is known.
    let irq = root.number("sys/power/pm_wakeup_irq");
    let firmware = record::firmware(root).filter(|(count, _)| Some(*count) != resumes);
    Ok(CycleRecord {
        number,
        started: humantime::format_rfc3339_micros(started).to_string(),
        awake_us: micros(after.0.saturating_sub(before.0)),
        asleep_us: micros(after.1.saturating_sub(before.1)),
        error: outcome.err().map(|error| words(&error)),
        alarm_rang: rang,
        wakeup_irq: irq.and_then(|irq| u32::try_from(irq).ok()),
        firmware: firmware.map(|(_, firmware)| firmware),
        ..CycleRecord::default()
    })
}

/// The count of wake-up events, to be written back; `None` if the kernel counts none.
fn wakeup_events(root: &Root) -> Result<Option<String>> {
    let path = root.path(WAKEUP_COUNT);
    if !path.exists() {
        return Ok(None);
    }
    // The file is read to its end when no event goes on any more.
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || sender.send(std::fs::read_to_string(path)));
    match receiver.recv_timeout(EVENTS_END_WITHIN) {
        Ok(Ok(count)) => Ok(Some(count.trim().to_owned())),
        Ok(Err(error)) => Err(Error::Failed(format!("/{WAKEUP_COUNT}: {error}"))),
        Err(_) => Err(Error::Cannot(format!(
            "this machine is kept from sleep by a wake-up event that goes on for more than {} s: \
             /sys/kernel/debug/wakeup_sources names it",
            EVENTS_END_WITHIN.as_secs()
        ))),
    }
}

fn set(root: &Root, path: &str, value: &str) -> std::io::Result<()> {
    // Not fs::write: what is not there is not made.
    let file = OpenOptions::new()
        .write(true)
        .truncate(true)
        .open(root.path(path));
    file?.write_all(value.as_bytes())
}

/// Why the kernel did not suspend. What a device has to do with it is in the log.
fn words(error: &std::io::Error) -> String {
    match error.raw_os_error() {
        Some(nix::libc::EBUSY | nix::libc::EINVAL) => {
            format!("aborted: a wake-up event came meanwhile, or a device refused ({error})")
        }
        _ => error.to_string(),
    }
}

/// False if it was cut short.
fn pause(stop: &AtomicBool) -> bool {
    let end = Instant::now() + BETWEEN;
    while Instant::now() < end {
        if stop.load(Ordering::Relaxed) {
            return false;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    true
}

/// How long the machine was awake since its boot, and how long asleep: one of two clocks of the kernel stands
/// still while it sleeps.
/// Source: clock_gettime(2).
fn awake_and_asleep() -> (Duration, Duration) {
    let read = |clock| clock_gettime(clock).map_or(Duration::ZERO, Duration::from);
    let awake = read(ClockId::CLOCK_MONOTONIC);
    let asleep = read(ClockId::CLOCK_BOOTTIME).saturating_sub(awake);
    (awake, asleep)
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

fn describe(
    root: &Root,
    options: &Options,
    target: &SleepState,
    alarm: &Alarm,
    recorder: &Recorder,
) -> Record {
    let stats = record::suspend_stats(root);
    let mut notes = recorder.notes.clone();
    if let Some(us) = pm_qos::wakeup_bound_us().filter(|_| root.is_live()) {
        notes.push(format!(
            "a process holds a bound of {us} µs through {}, which limits how deep CPUs sleep in suspend to idle",
            pm_qos::WAKEUP_DEVICE
        ));
    }
    Record {
        format: FORMAT.into(),
        version: VERSION,
        started: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
        machine: Identity::read(root),
        model: record::model(root),
        mode: target.mode,
        state: target.state.into(),
        sleep: target.sleep.into(),
        alarm: alarm.name.clone(),
        wake_after_s: options.wake_after.as_secs(),
        cycles_asked: options.repeat,
        cycles: Vec::new(),
        interrupted: false,
        notes,
        suspend_stats_before: stats.clone(),
        suspend_stats_after: stats,
        left_changed: Vec::new(),
        devices: devices::read(root),
    }
}

/// The folder's files, written as it goes on: a machine that does not come back has its log up to
/// the last cycle.
struct Files {
    folder: Folder,
    log: BufWriter<File>,
    trace: BufWriter<File>,
}

impl Files {
    fn create(folder: Folder) -> Result<Self> {
        let files = folder.refuse_taken(RECORD).and_then(|()| {
            let file = |name: &str| folder.create(name).map(BufWriter::new);
            Ok((file(DMESG)?, file(TRACE)?))
        });
        let (log, trace) = files.inspect_err(|_| folder.give_up())?;
        Ok(Self { log, trace, folder })
    }

    fn write(&mut self, record: &Record) -> Result<()> {
        for (name, file) in [(DMESG, &mut self.log), (TRACE, &mut self.trace)] {
            let path = self.folder.path().join(name);
            file.flush().map_err(unwritable(&path))?;
            file.get_ref().sync_data().map_err(unwritable(&path))?;
        }
        let mut text = serde_json::to_vec_pretty(record).expect("a record is plain data");
        text.push(b'\n');
        self.folder.write(RECORD, Existing::Stays, &text)?;
        Ok(())
    }

    /// Keeps what is new in the kernel's log and trace, and counts it to that cycle.
    fn keep(&mut self, recorder: &mut Recorder, cycle: Option<&mut CycleRecord>) -> Result<()> {
        let drained = recorder.drain(&mut self.log, &mut self.trace);
        let (log, trace) = drained.map_err(unwritable(self.folder.path()))?;
        if let Some(cycle) = cycle {
            cycle.log_records += log.kept;
            cycle.log_lost += log.lost;
            cycle.trace_events += trace.kept;
            cycle.trace_lost += trace.lost;
        }
        Ok(())
    }
}

fn unwritable(path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    let path = path.display().to_string();
    move |error| Error::Failed(format!("{path}: {error}"))
}

#[cfg(test)]
mod tests;
