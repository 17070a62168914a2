//! How far a run is: a bar with an estimate of the time left, and a line below it.
//!
//! Nothing is drawn without a terminal, and the bar is removed at the end. No thread: drawing wakes CPUs, so
//! only callers draw, between measurements.

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::terminal::{self, Live, Stream, shown};

/// How far a run is, for another program: a line of standard error.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// What is being done.
    pub step: String,
    /// The share of the whole, 0 to 1.
    pub done: f64,
    /// The time until the end, if it is known.
    pub left_s: Option<f64>,
    /// What else there is to show.
    pub detail: String,
}

/// Before the JSON of a [`Step`]: no line of text begins with this character.
const MARK: u8 = 0x1e;

/// The least time between two of these lines.
const BETWEEN_STEPS: Duration = Duration::from_secs(1);

impl Step {
    /// The variable of the environment with which a run writes these lines.
    pub const VARIABLE: &str = "REVEILLE_PROGRESS";

    /// What the line of standard error says, if it is such a line.
    pub fn of_line(line: &[u8]) -> Option<Self> {
        serde_json::from_slice(line.strip_prefix(&[MARK])?).ok()
    }

    fn line(&self) -> Vec<u8> {
        let mut line = vec![MARK];
        line.extend(serde_json::to_vec(self).unwrap_or_default());
        line.push(b'\n');
        line
    }
}

/// `[===>    ]  50%`, as wide as that.
fn bar(done: f64, width: usize) -> String {
    let done = done.clamp(0.0, 1.0);
    let full = (done * width as f64) as usize;
    let tip = if full < width { ">" } else { "" };
    let bar = "=".repeat(full) + tip;
    format!("[{bar:width$}] {:>3}%", (done * 100.0) as u32)
}

/// The columns of a bar beside the bar itself.
const AROUND: usize = "[] 100%".len();

fn left_words(left: Option<Duration>) -> String {
    left.map_or(String::new(), |left| format!("{} left", time(left)))
}

/// Those that are not empty.
fn words(all: &[&str]) -> String {
    let all = all.iter().filter(|words| !words.is_empty());
    all.map(|words| shown(words)).collect::<Vec<_>>().join("  ")
}

/// The least time between two drawings, however often a command calls.
const BETWEEN_DRAWINGS: Duration = Duration::from_millis(100);

/// Keeps an interval.
#[derive(Default)]
struct Pace(Cell<Option<Instant>>);

impl Pace {
    /// Whether the time since the last one is over; then it is the last one.
    fn is_due(&self, between: Duration) -> bool {
        let is_due = self.0.get().is_none_or(|last| last.elapsed() >= between);
        if is_due {
            self.0.set(Some(Instant::now()));
        }
        is_due
    }
}

/// Progress of several runs, a line for each; removed from the terminal when dropped.
pub struct Bars {
    live: Live,
    pace: Pace,
    runs: RefCell<Vec<(String, Option<Step>)>>,
}

/// The most characters of a run's name in its line.
const NAME: usize = 30;

/// The columns of one bar of several.
const NARROW: usize = 20;

impl Bars {
    /// For runs of these names. Draws nothing yet.
    pub fn of(names: &[&str]) -> Self {
        let shown = |name: &&str| shown(name).chars().take(NAME).collect();
        Self {
            live: Live::on(Stream::Error),
            pace: Pace::default(),
            runs: RefCell::new(names.iter().map(|name| (shown(name), None)).collect()),
        }
    }

    /// How far the run in this place is.
    pub fn show(&self, place: usize, now: &Step) {
        self.runs.borrow_mut()[place].1 = Some(now.clone());
        if self.pace.is_due(BETWEEN_DRAWINGS) {
            self.live.draw(&self.lines());
        }
    }

    /// The run in this place has ended: its line is removed.
    pub fn end(&self, place: usize) {
        self.runs.borrow_mut()[place].1 = None;
        match self.lines() {
            none if none.is_empty() => self.live.clear(),
            lines => self.live.draw(&lines),
        }
    }

    fn lines(&self) -> String {
        let runs = self.runs.borrow();
        let width = runs.iter().map(|(name, _)| name.chars().count()).max();
        let width = width.unwrap_or(0);
        let line = |(name, now): &(String, Option<Step>)| {
            let now = now.as_ref()?;
            let bar = bar(now.done, NARROW);
            let left = now.left_s.map(Duration::try_from_secs_f64);
            let left = left_words(left.and_then(Result::ok));
            let words = words(&[&now.step, &left, &now.detail]);
            Some(format!("{name:width$} {bar}  {words}\n"))
        };
        runs.iter().filter_map(line).collect()
    }
}

/// Progress of one run; removed from the terminal when dropped.
pub struct Bar {
    live: Live,
    pace: Pace,
    /// Lines for another program instead.
    for_program: bool,
    since: Instant,
    is_announced: Cell<bool>,
}

/// A longer run is announced.
const LONG: Duration = Duration::from_secs(60);

/// From this time on an estimate at the pace so far is of use.
const PACE_IS_KNOWN: Duration = Duration::from_secs(2);

impl Bar {
    /// Draws nothing yet.
    #[expect(clippy::new_without_default, reason = "it begins to count the time")]
    pub fn new() -> Self {
        Self {
            live: Live::on(Stream::Error),
            pace: Pace::default(),
            for_program: std::env::var_os(Step::VARIABLE).is_some(),
            since: Instant::now(),
            is_announced: Cell::new(false),
        }
    }

    /// `step` is what is being done, `done` the share of the whole (0 to 1), `left` the time until the
    /// end, where it is known, and `detail` what else there is to show.
    pub fn show(&self, step: &str, done: f64, left: Option<Duration>, detail: &str) {
        if self.for_program && self.pace.is_due(BETWEEN_STEPS) {
            let now = Step {
                step: step.to_owned(),
                done,
                left_s: left.map(|left| left.as_secs_f64()),
                detail: detail.to_owned(),
            };
            let _ = io::stderr().write_all(&now.line());
        } else if !self.for_program && self.live.is_on() && self.pace.is_due(BETWEEN_DRAWINGS) {
            let columns = self.live.columns();
            self.live.draw(&drawn(step, done, left, detail, columns));
        }
    }

    /// The time left at the pace since the bar was made; `None` at the start.
    pub fn estimate(&self, done: f64) -> Option<Duration> {
        estimate(self.since.elapsed(), done)
    }

    /// Announces, once, how long a run of more than a minute takes; terminal or not.
    pub fn announce(&self, left: Duration) {
        if !self.is_announced.replace(true)
            && let Some(words) = announcement("this takes about", self.since.elapsed() + left)
        {
            terminal::say(words);
        }
    }

    /// As [`Bar::announce`], of what [`Bar::estimate`] gives, once the pace is known.
    pub fn announce_estimate(&self, left: Option<Duration>) {
        if self.since.elapsed() >= PACE_IS_KNOWN
            && let Some(left) = left
        {
            self.announce(left);
        }
    }

    /// Takes it off the terminal.
    pub fn clear(&self) {
        self.live.clear();
    }
}

/// Two lines, so that neither is longer than the terminal is wide.
fn drawn(step: &str, done: f64, left: Option<Duration>, detail: &str, columns: usize) -> String {
    let step = shown(step);
    let room = columns.saturating_sub(step.chars().count() + 1 + AROUND);
    let words = words(&[&left_words(left), detail]);
    format!("{step} {}\n  {words}", bar(done, room))
}

/// How long a run takes, for before it: `this takes about 3m 20s; ...`, where `takes` are the words
/// before the time. `None` for up to a minute.
pub fn announcement(takes: &str, expected: Duration) -> Option<String> {
    (expected > LONG).then(|| {
        let time = time(expected);
        format!("{takes} {time}; Ctrl-C ends it and keeps the results so far")
    })
}

/// In whole seconds, rounded up; from an hour on in whole minutes.
pub fn time(time: Duration) -> String {
    let seconds = time.as_secs_f64().ceil() as u64;
    let seconds = match seconds {
        3600.. => seconds.div_ceil(60) * 60,
        seconds => seconds,
    };
    humantime::format_duration(Duration::from_secs(seconds)).to_string()
}

/// A long file that is read, with a bar by its bytes.
pub struct Reading {
    file: File,
    step: String,
    bytes: u64,
    read: u64,
    bar: Bar,
}

/// Before it the pace of reading is not known.
const READING_IS_PACED: Duration = Duration::from_millis(500);

/// Shorter reads have no bar.
const SHORT: Duration = Duration::from_secs(2);

impl Reading {
    /// From where the file is now; the last part of `path` is shown.
    pub fn of(file: File, path: &Path) -> Self {
        let name = path.file_name().unwrap_or(path.as_os_str());
        Self {
            bytes: file.metadata().map_or(0, |file| file.len()),
            step: format!("reading {}", name.to_string_lossy()),
            file,
            read: 0,
            bar: Bar::new(),
        }
    }
}

impl Read for Reading {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read(bytes)?;
        self.read += count as u64;
        let done = (self.read as f64 / self.bytes.max(1) as f64).min(1.0);
        let elapsed = self.bar.since.elapsed();
        if is_long(elapsed, done) {
            self.bar.show(&self.step, done, self.bar.estimate(done), "");
        }
        Ok(count)
    }
}

/// Whether the whole takes long at the pace so far.
fn is_long(elapsed: Duration, done: f64) -> bool {
    let left = estimate(elapsed, done).unwrap_or_default();
    elapsed >= READING_IS_PACED && elapsed + left > SHORT
}

fn estimate(elapsed: Duration, done: f64) -> Option<Duration> {
    let left = elapsed.as_secs_f64() * (1.0 - done) / done;
    Duration::try_from_secs_f64(left).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_as_wide_as_the_terminal_and_has_its_words_below() {
        let left = Some(Duration::from_millis(61_500));
        let of = |done, columns| drawn("timer, CPU 3", done, left, "a\x1bb", columns);
        let words = "\n  1m 2s left  a\\u001bb";
        assert_eq!(
            of(0.5, 30),
            format!("timer, CPU 3 [=====>    ]  50%{words}")
        );
        assert_eq!(
            of(1.0, 30),
            format!("timer, CPU 3 [==========] 100%{words}")
        );
        assert_eq!(of(0.0, 9), format!("timer, CPU 3 []   0%{words}"));
    }

    #[test]
    fn several_runs_have_a_line_each_until_they_end() {
        let bars = Bars::of(&["a", "root@other"]);
        let now = Step {
            step: "timer".into(),
            done: 0.5,
            left_s: Some(61.5),
            detail: "POLL\x1b 1".into(),
        };
        bars.show(1, &now);
        let line = |name| {
            format!("{name} [==========>         ]  50%  timer  1m 2s left  POLL\\u001b 1\n")
        };
        assert_eq!(bars.lines(), line("root@other"));
        bars.show(0, &now);
        assert_eq!(bars.lines(), line("a         ") + &line("root@other"));
        bars.end(1);
        assert_eq!(bars.lines(), line("a         "));
    }

    #[test]
    fn a_step_is_read_from_its_line_and_from_no_other() {
        let now = Step {
            step: "a\nb".into(),
            done: 0.25,
            left_s: None,
            detail: String::new(),
        };
        assert_eq!(Step::of_line(&now.line()), Some(now.clone()));
        assert_eq!(now.line().iter().filter(|byte| **byte == b'\n').count(), 1);
        let line = now.line();
        for other in [&line[1..], &line[..9], b"", b"reveille: x\n"] {
            assert_eq!(Step::of_line(other), None);
        }
    }

    #[test]
    fn what_takes_more_than_a_minute_says_so_once() {
        let words = "it takes 1m 1s; Ctrl-C ends it and keeps the results so far";
        let takes = |seconds| announcement("it takes", Duration::from_secs(seconds));
        assert_eq!(takes(61).as_deref(), Some(words));
        assert_eq!(takes(60), None);
        let bar = Bar::new();
        // The pace is not known at the start.
        bar.announce_estimate(bar.estimate(0.001));
        assert!(!bar.is_announced.get());
        bar.announce(Duration::from_secs(1));
        assert!(bar.is_announced.get());
    }

    #[test]
    fn reading_has_a_bar_if_it_takes_more_than_two_seconds() {
        let long = |ms, done| is_long(Duration::from_millis(ms), done);
        assert!(!long(499, 0.001));
        assert!(long(500, 0.2));
        assert!(!long(500, 0.25));
        assert!(!long(2000, 1.0));
        assert!(long(2001, 1.0));
    }

    #[test]
    fn a_file_is_read_unchanged() {
        let mut file = tempfile::tempfile().unwrap();
        io::Write::write_all(&mut file, b"a line\n").unwrap();
        io::Seek::rewind(&mut file).unwrap();
        let mut reading = Reading::of(file, Path::new("folder/x\x1b"));
        let mut text = String::new();
        reading.read_to_string(&mut text).unwrap();
        assert_eq!((text.as_str(), reading.read), ("a line\n", 7));
        assert_eq!((reading.bytes, reading.step.as_str()), (7, "reading x\x1b"));
    }

    #[test]
    fn a_time_has_seconds_up_to_an_hour() {
        let of = |seconds| time(Duration::from_secs_f64(seconds));
        assert_eq!(of(0.2), "1s");
        assert_eq!(of(61.0), "1m 1s");
        assert_eq!(of(3599.5), "1h");
        assert_eq!(of(7261.0), "2h 2m");
    }

    #[test]
    fn the_time_left_is_what_the_rest_takes_at_the_pace_so_far() {
        let of = |done| estimate(Duration::from_secs(10), done);
        assert_eq!(of(0.25), Some(Duration::from_secs(30)));
        assert_eq!(of(1.0), Some(Duration::ZERO));
        assert_eq!(of(0.0), None);
    }
}
