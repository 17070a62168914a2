//! When each cycle was by the meter's clock, and the power in each of its parts.

mod place;

use serde::{Deserialize, Serialize};

use super::time::{self, Stamp};
use super::{Clock, Format, LeftOut, Meter, Sample};
use crate::cycle::{Us, time};
use crate::times::Times;

pub use place::align;

/// A cycle that is to be found in the meter's samples.
#[derive(Debug, Clone, PartialEq)]
pub struct Subject {
    /// The cycle's, from 1.
    pub number: usize,
    /// The wall clock at its beginning, as the log has it.
    pub at: Option<String>,
    /// How long its parts took, by the log.
    pub times: Times,
}

/// Fewer samples have no mean here.
pub const FEWEST: usize = 3;

/// Above this many intervals between two samples some are missing.
const GAP: f64 = 2.5;

/// A machine's power, by a meter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Power {
    /// Of the meter's file.
    pub format: Format,
    /// What the meter's times count from.
    pub clock: Clock,
    /// The meter's samples.
    pub samples: usize,
    /// Lines of its file that gave no sample.
    pub left_out: LeftOut,
    /// From one sample to the next: the median, of two in the middle the shorter one.
    pub interval_us: Us,
    /// Where samples are missing: how often, and for how long in all. Nothing is averaged or added
    /// up over them.
    pub gaps: usize,
    /// How long these times without samples are together.
    pub gaps_us: Us,
    /// How cycles were found among the samples.
    #[serde(rename = "laid_by")]
    pub aligned_by: AlignedBy,
    /// Mean outside of all cycles, W; `None` where there are too few samples, as for the next two.
    pub idle_w: Option<f64>,
    /// Mean while asleep, W.
    pub asleep_w: Option<f64>,
    /// Mean in suspends and resumes, W.
    pub transition_w: Option<f64>,
    /// Asleep, of what it draws idle: 0 to 1.
    pub asleep_share_of_idle: Option<f64>,
    /// Energy of a whole cycle, suspend to resume: the median of those that have one, J.
    pub energy_j: Option<f64>,
    /// Outside of all cycles, from the first sample to the last.
    pub idle: Mean,
    /// Between suspend and resume.
    pub asleep: Mean,
    /// In the suspends.
    pub suspend: Mean,
    /// In the resumes.
    pub resume: Mean,
    /// Cycles that lie among the samples.
    pub cycles: Vec<CyclePower>,
    /// The samples for a picture, in at most [`POINTS`] points.
    pub series: Vec<Point>,
    /// What a reader must know, a sentence each.
    pub notes: Vec<String>,
}

/// How the meter's clock and the log's were aligned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AlignedBy {
    /// Both have the wall clock.
    WallClock,
    /// By the user's offset.
    Offset,
    /// By the drop in power while the machine sleeps.
    Drop,
}

/// The samples that lie entirely within some part of the cycles.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Mean {
    /// How many they are.
    pub samples: usize,
    /// `None` below [`FEWEST`] samples.
    pub mean_w: Option<f64>,
    /// The least, W; `None` without samples.
    pub min_w: Option<f64>,
    /// The largest, W; `None` without samples.
    pub max_w: Option<f64>,
    /// W; `None` below [`FEWEST`] samples.
    pub standard_deviation_w: Option<f64>,
}

/// Samples that follow each other, as one point of a picture.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Of the last of them, by the meter's clock.
    pub at_us: Us,
    /// The least of them, W.
    pub min_w: f64,
    /// The largest of them, W.
    pub max_w: f64,
    /// Samples are missing before it.
    pub after_gap: bool,
}

/// More than a picture has columns.
pub const POINTS: usize = 1_500;

/// One cycle by the meter's clock.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CyclePower {
    /// The cycle's, from 1.
    pub number: usize,
    /// Its beginning.
    pub start_us: Us,
    /// The kernel's last message.
    pub suspended_us: Us,
    /// The kernel's first message.
    pub woken_us: Us,
    /// The resume's end.
    pub end_us: Us,
    /// From `start_us` to `end_us`, J; `None` where samples are missing.
    pub energy_j: Option<f64>,
    /// Mean while asleep, W.
    pub asleep: Mean,
    /// Firmware's time at both ends of the sleep, which counts as neither.
    platform_us: Us,
}

/// Each cycle where its own wall clock puts it.
fn by_wall_clock(meter: &Meter, subjects: &[Subject]) -> Result<Vec<CyclePower>, &'static str> {
    if meter.clock == Clock::Elapsed {
        return Err("the meter's file has no wall clock");
    }
    let first = meter.samples[0].at_us;
    let (from, to) = (first, meter.samples[meter.samples.len() - 1].at_us);
    let mut cycles = Vec::new();
    for subject in subjects {
        let at = subject.at.as_deref();
        let Some(stamp) = at.and_then(|at| time::parse(at, 1e6)) else {
            continue;
        };
        let start = same_clock(stamp, meter.clock, first)?;
        let cycle = placed(subject, start);
        cycles.extend(cycle.filter(|cycle| cycle.start_us < to && cycle.end_us > from));
    }
    let has_clock = subjects.iter().any(|one| one.at.is_some());
    match (cycles.is_empty(), has_clock) {
        (false, _) => Ok(cycles),
        (true, true) => Err("no cycle lies within the meter's times"),
        (true, false) => Err("the log has no wall clock"),
    }
}

/// The log's timestamp by the meter's clock.
fn same_clock(stamp: Stamp, clock: Clock, first: Us) -> Result<Us, &'static str> {
    const DAY: Us = 86_400_000_000;
    match (stamp.clock, clock) {
        (_, Clock::TimeOfDay) => {
            // The day's times begin on the day of the first sample.
            let of_day = stamp.us.rem_euclid(DAY);
            let is_next_day = of_day < first - DAY / 2;
            Ok(of_day + if is_next_day { DAY } else { 0 })
        }
        (Clock::Utc, Clock::Utc) => Ok(stamp.us),
        (Clock::Local, Clock::Local) => Ok(time::shift_to_year_of(stamp.us, first)),
        (Clock::Elapsed, _) => Err("the log has no wall clock"),
        _ => Err("only one of the two clocks has a time zone"),
    }
}

/// All cycles, the first at `start`. The log's clock has the time between two of them; if it stops during
/// sleep, the time asleep that the kernel reports is added. It ends where that is unknown, or at a reboot.
fn chain(subjects: &[Subject], start: Us) -> Vec<CyclePower> {
    let mut cycles: Vec<CyclePower> = Vec::new();
    let mut begins = start;
    for (place, subject) in subjects.iter().enumerate() {
        if let (Some(cycle), Some(before)) = (cycles.last(), place.checked_sub(1)) {
            let awake = subject.times.start - subjects[before].times.own_end;
            if awake < 0 {
                break;
            }
            begins = cycle.end_us + awake;
        }
        let Some(cycle) = placed(subject, begins) else {
            break;
        };
        cycles.push(cycle);
    }
    cycles
}

/// The cycle by the meter's clock; `None` where one of its times is not known.
fn placed(subject: &Subject, start: Us) -> Option<CyclePower> {
    let times = &subject.times;
    let away = times.away_us.filter(|_| !times.aborted)?;
    let platform = times.platform_us.unwrap_or(0);
    let suspended = start + times.suspend_us?;
    let woken = suspended + away;
    Some(CyclePower {
        number: subject.number,
        start_us: start,
        suspended_us: suspended,
        woken_us: woken,
        end_us: woken + times.resume_us?,
        energy_j: None,
        asleep: Mean::default(),
        platform_us: platform.min((away - platform) / 2).max(0),
    })
}

/// What time each sample stands for, from and to: the time since the one before, for meters average
/// over it; after a gap the usual interval.
fn covered(meter: &Meter) -> Vec<(Us, Us, f64)> {
    let most = (meter.interval_us as f64 * GAP) as Us;
    let mut before: Option<Us> = None;
    let mut covered = Vec::with_capacity(meter.samples.len());
    for Sample { at_us, watts } in meter.samples.iter().copied() {
        let from = before.filter(|before| at_us - before <= most);
        covered.push((from.unwrap_or(at_us - meter.interval_us), at_us, watts));
        before = Some(at_us);
    }
    covered
}

fn averaged(
    meter: &Meter,
    covered: &[(Us, Us, f64)],
    aligned_by: AlignedBy,
    mut cycles: Vec<CyclePower>,
) -> Power {
    let (mut asleep, mut suspend, mut resume) = (Vec::new(), Vec::new(), Vec::new());
    for cycle in &mut cycles {
        let firmware = cycle.platform_us;
        let sleep = (cycle.suspended_us + firmware, cycle.woken_us - firmware);
        let within = within(covered, sleep);
        cycle.asleep = Mean::of(&within);
        asleep.extend(within);
        suspend.extend(self::within(covered, (cycle.start_us, cycle.suspended_us)));
        resume.extend(self::within(covered, (cycle.woken_us, cycle.end_us)));
        cycle.energy_j = energy(covered, (cycle.start_us, cycle.end_us), meter.interval_us);
    }
    let outside = outside(covered, &cycles);
    let transition: Vec<f64> = suspend.iter().chain(&resume).copied().collect();
    let (idle, asleep) = (Mean::of(&outside), Mean::of(&asleep));
    let both = asleep.mean_w.zip(idle.mean_w);
    let share = both.filter(|both| both.1 > 0.0).map(|both| both.0 / both.1);
    let mut energies: Vec<f64> = cycles.iter().filter_map(|cycle| cycle.energy_j).collect();
    energies.sort_by(f64::total_cmp);
    let most = (meter.interval_us as f64 * GAP) as Us;
    let steps = meter.samples.windows(2);
    let steps = steps.map(|two| two[1].at_us - two[0].at_us);
    let gaps: Vec<Us> = steps.filter(|step| *step > most).collect();
    Power {
        format: meter.format,
        clock: meter.clock,
        samples: meter.samples.len(),
        left_out: meter.left_out,
        interval_us: meter.interval_us,
        gaps: gaps.len(),
        gaps_us: gaps.iter().sum(),
        aligned_by,
        idle_w: idle.mean_w,
        asleep_w: asleep.mean_w,
        transition_w: Mean::of(&transition).mean_w,
        asleep_share_of_idle: share,
        energy_j: median(&energies),
        idle,
        asleep,
        suspend: Mean::of(&suspend),
        resume: Mean::of(&resume),
        cycles,
        series: series(meter, most),
        notes: Vec::new(),
    }
}

/// Of sorted figures; of two it is their mean.
fn median(sorted: &[f64]) -> Option<f64> {
    let count = sorted.len();
    let below = sorted.get(count.checked_sub(1)? / 2)?;
    Some(f64::midpoint(*below, sorted[count / 2]))
}

/// The least and the greatest of as many neighbours as a point has to stand for.
fn series(meter: &Meter, most: Us) -> Vec<Point> {
    let mut points: Vec<Point> = Vec::new();
    let together = meter.samples.len().div_ceil(POINTS);
    let mut before = meter.samples[0].at_us;
    for samples in meter.samples.chunks(together) {
        let watts = || samples.iter().map(|sample| sample.watts);
        let gap = |sample: &Sample| {
            let is_gap = sample.at_us - before > most;
            before = sample.at_us;
            is_gap
        };
        points.push(Point {
            after_gap: samples.iter().map(gap).fold(false, |any, one| any | one),
            at_us: samples[samples.len() - 1].at_us,
            min_w: watts().fold(f64::INFINITY, f64::min),
            max_w: watts().fold(0.0, f64::max),
        });
    }
    points
}

/// Samples that stand for time between these two instants only. Samples are in the order of time.
fn within(covered: &[(Us, Us, f64)], (from, to): (Us, Us)) -> Vec<f64> {
    let first = covered.partition_point(|sample| sample.1 <= from);
    let inside = covered[first..].iter().take_while(|sample| sample.1 <= to);
    let inside = inside.filter(|sample| sample.0 >= from);
    inside.map(|sample| sample.2).collect()
}

/// Samples that stand for time outside of all cycles.
fn outside(covered: &[(Us, Us, f64)], cycles: &[CyclePower]) -> Vec<f64> {
    let spans = cycles.iter().map(|one| (one.start_us, one.end_us));
    let mut spans: Vec<(Us, Us)> = spans.collect();
    spans.sort_unstable();
    let (mut next, mut samples) = (0, Vec::new());
    for (from, to, watts) in covered.iter().copied() {
        while spans.get(next).is_some_and(|span| span.1 <= from) {
            next += 1;
        }
        if spans.get(next).is_none_or(|span| span.0 >= to) {
            samples.push(watts);
        }
    }
    samples
}

/// The energy between two instants; `None` where samples are missing for more than half an interval.
fn energy(covered: &[(Us, Us, f64)], (from, to): (Us, Us), interval: Us) -> Option<f64> {
    let (mut joules, mut known) = (0.0, 0);
    let first = covered.partition_point(|sample| sample.1 <= from);
    for (begin, end, watts) in covered[first..].iter().copied() {
        if begin >= to {
            break;
        }
        let us = end.min(to) - begin.max(from);
        known += us;
        joules += watts * us as f64 / 1e6;
    }
    (to - from - known <= interval / 2).then_some(joules)
}

impl Mean {
    fn of(watts: &[f64]) -> Self {
        let count = watts.len() as f64;
        let mean = watts.iter().sum::<f64>() / count;
        let squares: f64 = watts.iter().map(|watts| (watts - mean).powi(2)).sum();
        let enough = watts.len() >= FEWEST;
        Self {
            samples: watts.len(),
            mean_w: enough.then_some(mean),
            min_w: watts.iter().copied().reduce(f64::min),
            max_w: watts.iter().copied().reduce(f64::max),
            standard_deviation_w: enough.then(|| (squares / (count - 1.0)).sqrt()),
        }
    }
}

/// Means that are not given, and why.
fn few(power: &Power, notes: &mut Vec<String>) {
    let cycles = power.cycles.iter();
    let longest =
        cycles.map(|one| (one.suspended_us - one.start_us).max(one.end_us - one.woken_us));
    if power.transition_w.is_none() {
        let transition = power.suspend.samples + power.resume.samples;
        notes.push(format!(
            "no mean for the transitions: the meter has a sample every {}, a transition takes {} at \
             most; samples entirely within one: {transition}",
            time(power.interval_us),
            time(longest.max().unwrap_or(0))
        ));
    }
    for (name, mean) in [("asleep", &power.asleep), ("idle", &power.idle)] {
        if mean.mean_w.is_none() {
            notes.push(format!(
                "no mean while {name}: {} of the meter's samples lie there, and {FEWEST} are needed",
                mean.samples
            ));
        }
    }
    let without = power.cycles.iter().filter(|cycle| cycle.energy_j.is_none());
    match without.count() {
        0 => {}
        count => notes.push(format!(
            "no energy for {count} of {} cycles: samples are missing there",
            power.cycles.len()
        )),
    }
}

#[cfg(test)]
mod tests;
