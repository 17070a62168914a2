//! How long an operation will take, from how long the same kind took before.
//!
//! The durations of repeated operations (iterations of a solver) are predictable with about 87%
//! accuracy ("Software Engagement with Sleeping CPUs", HotOS XV, 2015, "GPU Case Study").
//!
//! The last [`RECENT`] durations of each [`Kind`] are kept. The prediction is their median, with the
//! drift where they rise or fall; a lone outlier moves neither. If the last four all lie clear of the
//! earlier ones, the behaviour has jumped, and the earlier ones are dropped.
//!
//! **The first call of a series is ignored**: it loads code, fills caches, and is often much longer.
//! A series begins with the first call, and after a gap of more than [`SILENCE_NS`] that is also more
//! than eight times the gap before. The first call of a series is not predicted.

use std::collections::HashMap;
use std::time::Duration;

use crate::clock::{monotonic_ns, whole_ns};
use crate::{Error, Result};

mod fit;

use fit::{Fit, fit};

/// Durations kept of each kind.
pub const RECENT: usize = 16;
/// Durations needed for a prediction.
pub const FEWEST: usize = 3;
/// A shorter gap between two calls never ends a series, ns.
pub const SILENCE_NS: u64 = 1_000_000_000;
/// A gap ends a series only if it is this many times the gap before it.
const LONGER: u64 = 8;
/// The longest valid duration, ns: an hour. Longer ones come from a clock that was set.
pub const LONGEST_NS: u64 = 3_600_000_000_000;
/// Predictions from which the accuracy is computed.
const ERRORS: usize = 32;
/// Predictions needed for an accuracy.
const FEWEST_ERRORS: usize = 4;
/// Kinds that are kept; a new one replaces the least recently used.
pub const MOST_KINDS: usize = 1024;

/// A kind of operation: a number, or a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Kind(u64);

impl Kind {
    /// As a number: for C, and for tables.
    pub fn number(self) -> u64 {
        self.0
    }

    /// FNV-1a (Fowler, Noll and Vo) of the name, with the highest bit set: distinct from every number.
    pub fn named(name: &[u8]) -> Self {
        let hash = name.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, &byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Self(hash | 1 << 63)
    }

    /// A kind by what [`Kind::number`] gave.
    pub const fn from_number(number: u64) -> Self {
        Self(number)
    }
}

impl From<u32> for Kind {
    fn from(number: u32) -> Self {
        Self(number.into())
    }
}

impl From<&str> for Kind {
    fn from(name: &str) -> Self {
        Self::named(name.as_bytes())
    }
}

/// How long the next operation of a kind will take.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prediction {
    /// Most likely.
    pub duration: Duration,
    /// One in ten is shorter than this; not more than `duration`.
    pub early: Duration,
    /// One in ten is longer than this; not less than `duration`.
    pub late: Duration,
    /// 1 less the median relative error of the last predictions, at least 0; `None` below four.
    pub accuracy: Option<f64>,
    /// By how much each call is longer than the one before, ns; 0 without a trend.
    pub drift_ns: f64,
    /// Durations that it is made from.
    pub calls: usize,
}

/// What operations took.
#[derive(Debug, Default)]
pub struct History {
    kinds: HashMap<Kind, Series>,
    refused: u64,
}

#[derive(Debug)]
struct Series {
    /// Oldest first, ns.
    recent: Vec<f64>,
    next: Option<Fit>,
    /// Relative errors of the last predictions, oldest first.
    errors: Vec<f64>,
    end_ns: u64,
    /// Between the last call and the one before it.
    gap_ns: Option<u64>,
}

impl History {
    /// Of no call yet: it predicts nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// An operation of this kind has just ended, after that time.
    ///
    /// # Errors
    /// [`Error::InvalidDuration`] where the duration is zero or longer than [`LONGEST_NS`]; it is counted
    /// and changes nothing.
    pub fn observe(&mut self, kind: impl Into<Kind>, duration: Duration) -> Result<()> {
        self.observe_at(kind.into(), duration, monotonic_ns())
    }

    /// As [`History::observe`], for an operation that ended at that instant, ns of CLOCK_MONOTONIC.
    pub fn observe_at(&mut self, kind: Kind, duration: Duration, end_ns: u64) -> Result<()> {
        let took_ns = whole_ns(duration);
        if took_ns == 0 || took_ns > LONGEST_NS {
            self.refused += 1;
            return Err(Error::InvalidDuration(duration));
        }
        match self.kinds.get_mut(&kind) {
            Some(series) => series.observe(took_ns, end_ns),
            None => {
                self.make_room();
                self.kinds.insert(kind, Series::begun(end_ns));
            }
        }
        Ok(())
    }

    /// How long an operation of this kind takes that begins now; `None` if too few were observed, or it
    /// begins a series.
    pub fn predict(&self, kind: impl Into<Kind>) -> Option<Prediction> {
        self.predict_at(kind.into(), monotonic_ns())
    }

    /// As [`History::predict`], for an operation that begins at that instant, ns of CLOCK_MONOTONIC.
    pub fn predict_at(&self, kind: Kind, begin_ns: u64) -> Option<Prediction> {
        let series = self.kinds.get(&kind)?;
        if series.is_silent_until(begin_ns) {
            return None;
        }
        let next = series.next?;
        Some(Prediction {
            duration: nanoseconds(next.next_ns),
            early: nanoseconds(next.early_ns),
            late: nanoseconds(next.late_ns),
            accuracy: series.accuracy(),
            drift_ns: next.drift_ns,
            calls: series.recent.len(),
        })
    }

    /// Observations that were nonsense.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    fn make_room(&mut self) {
        if self.kinds.len() < MOST_KINDS {
            return;
        }
        let oldest = self.kinds.iter().min_by_key(|(_, series)| series.end_ns);
        if let Some(kind) = oldest.map(|(&kind, _)| kind) {
            self.kinds.remove(&kind);
        }
    }
}

fn nanoseconds(ns: f64) -> Duration {
    Duration::from_nanos(ns as u64)
}

impl Series {
    /// The first call ever is ignored.
    fn begun(end_ns: u64) -> Self {
        Self {
            recent: Vec::with_capacity(RECENT + 1),
            next: None,
            errors: Vec::with_capacity(ERRORS + 1),
            end_ns,
            gap_ns: None,
        }
    }

    fn observe(&mut self, took_ns: u64, end_ns: u64) {
        let begin_ns = end_ns.saturating_sub(took_ns);
        let first = self.is_silent_until(begin_ns);
        self.gap_ns = Some(begin_ns.saturating_sub(self.end_ns));
        self.end_ns = end_ns.max(self.end_ns);
        if first {
            return;
        }
        let took_ns = took_ns as f64;
        if let Some(next) = self.next {
            keep_last(
                &mut self.errors,
                ERRORS,
                (next.next_ns - took_ns).abs() / took_ns,
            );
        }
        keep_last(&mut self.recent, RECENT, took_ns);
        if let Some(earlier) = fit::jumped_after(&self.recent) {
            self.recent.drain(..earlier);
        }
        self.next = (self.recent.len() >= FEWEST).then(|| fit(&self.recent));
    }

    /// Whether a call at that instant begins a series.
    fn is_silent_until(&self, begin_ns: u64) -> bool {
        let gap_ns = begin_ns.saturating_sub(self.end_ns);
        let usual_ns = self.gap_ns.unwrap_or(0);
        gap_ns > SILENCE_NS && gap_ns > usual_ns.saturating_mul(LONGER)
    }

    fn accuracy(&self) -> Option<f64> {
        (self.errors.len() >= FEWEST_ERRORS)
            .then(|| (1.0 - fit::median(&mut self.errors.clone())).max(0.0))
    }
}

fn keep_last(list: &mut Vec<f64>, most: usize, new: f64) {
    if list.len() == most {
        list.remove(0);
    }
    list.push(new);
}
