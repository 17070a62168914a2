//! Samples of a meter, one after the other, for as long as one likes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use reveille_kernel::{Error, Result};

use crate::reading::{Counts, Reading, is_over};
use crate::steady::{SHORTEST, Steady, pause};
use crate::watch::Watched;

/// A meter without an answer for so long is gone: one in the network may miss some.
const GONE: Duration = Duration::from_secs(30);

/// By default samples are not closer. A resume takes longer.
const LEAST: Duration = Duration::from_millis(100);

/// What was recorded.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Recorded {
    /// Samples.
    pub samples: u64,
    /// What they cover: the time since the one before, or after a reading that failed an interval.
    pub covered_s: f64,
    /// The energy in that time.
    pub energy_j: f64,
    /// Readings that failed.
    pub missed: u64,
    /// Why the last of them did.
    pub why: Option<String>,
}

impl Watched {
    /// The time between samples: this one, else as often as the meter has a new value, at least 100 ms.
    ///
    /// # Errors
    /// [`Error::Usage`] for a shorter time than from one new value to the next.
    pub fn interval(&self, given: Option<Duration>) -> Result<Duration> {
        let refresh = self.refresh();
        match given {
            None => Ok(refresh.max(LEAST)),
            Some(given) if self.refresh_s.is_none() || given >= refresh.mul_f64(SHORTEST) => {
                Ok(given)
            }
            Some(given) => Err(Error::Usage(format!(
                "--interval {:.3}s: {} has a new value only every {:.3} s",
                given.as_secs_f64(),
                self.about.name,
                refresh.as_secs_f64()
            ))),
        }
    }
}

impl Steady<'_> {
    /// A sample each `interval`, for `time`, or until `stop`. A value of power is that of its instant; an energy
    /// counter gives the mean from one new value to another, at the instant of the latter.
    ///
    /// # Errors
    /// Of `keep`; as [`crate::Meter::read`] for the first reading, or if none succeeds for 30 s.
    pub fn record(
        &mut self,
        interval: Duration,
        time: Option<Duration>,
        stop: &AtomicBool,
        keep: &mut dyn FnMut(SystemTime, f64) -> Result<()>,
    ) -> Result<Recorded> {
        let counts = self.meter.about().counts;
        let began = Instant::now();
        let (mut next, mut answered) = (began, None);
        let mut before: Option<Reading> = None;
        let mut recorded = Recorded::default();
        loop {
            pause(next.saturating_duration_since(Instant::now()), stop);
            if stop.load(Ordering::Relaxed) || time.is_some_and(|time| began.elapsed() >= time) {
                return Ok(recorded);
            }
            // Not those that were missed, one after the other.
            next = (next + interval).max(Instant::now());
            let read = match counts {
                Counts::Energy => self.changed(stop),
                Counts::Power => Reading::of(self.meter).map(Some),
            };
            let now = match read {
                Ok(Some(now)) => now,
                Ok(None) => continue,
                Err(why) if answered.is_none_or(|at: Instant| at.elapsed() > GONE) => {
                    return Err(why);
                }
                Err(why) => {
                    if is_over(&why) || counts == Counts::Power {
                        // What there was meanwhile is unknown.
                        before = None;
                    }
                    recorded.missed += 1;
                    recorded.why = Some(why.to_string());
                    continue;
                }
            };
            answered = Some(now.after);
            let (watts, covered_s) = match (counts, before.replace(now)) {
                (Counts::Power, None) => (now.value, interval.as_secs_f64()),
                (Counts::Power, Some(before)) => (now.value, now.since_s(&before)),
                (Counts::Energy, None) => continue,
                (Counts::Energy, Some(before)) => {
                    let s = now.since_s(&before);
                    ((now.value - before.value) / s, s)
                }
            };
            let middle = now.before + now.after.duration_since(now.before) / 2;
            keep(SystemTime::now() - middle.elapsed(), watts)?;
            recorded.samples += 1;
            recorded.covered_s += covered_s;
            recorded.energy_j += watts * covered_s;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made::Made;

    /// 40 W, with new values each 10 ms.
    fn recorded(
        counts: Counts,
        change: impl FnOnce(&mut Made),
    ) -> (Result<Recorded>, Vec<(SystemTime, f64)>) {
        let mut meter = Made::new(counts, 0.01);
        meter.more = 0.0;
        change(&mut meter);
        let mut steady = Steady::new(&mut meter, Duration::from_millis(10));
        let [interval, time] = [25, 600].map(Duration::from_millis);
        let mut samples = vec![];
        let stop = AtomicBool::new(false);
        let recorded = steady.record(interval, Some(time), &stop, &mut |at, watts| {
            samples.push((at, watts));
            Ok(())
        });
        (recorded, samples)
    }

    #[test]
    fn samples_have_their_instants_and_a_counter_gives_means_between_new_values() {
        for counts in [Counts::Energy, Counts::Power] {
            let began = SystemTime::now();
            let (recorded, samples) = recorded(counts, |_| ());
            let recorded = recorded.unwrap();
            assert_eq!(
                (recorded.samples, recorded.missed),
                (samples.len() as u64, 0)
            );
            assert!((12..=24).contains(&samples.len()), "{samples:?}");
            assert!(samples.is_sorted_by(|one, next| one.0 < next.0));
            assert!(samples[0].0 >= began && samples[0].0 < began + Duration::from_millis(300));
            let mean_w = recorded.energy_j / recorded.covered_s;
            assert!((38.0..42.0).contains(&mean_w), "{mean_w}");
        }
    }

    #[test]
    fn the_average_of_a_counter_is_by_time() {
        // 40 W for 100 ms, then nothing for 400 ms, in one sample.
        let (recorded, samples) = recorded(Counts::Energy, |meter| meter.halts_s = 0.1..0.5);
        let recorded = recorded.unwrap();
        let mean_w = recorded.energy_j / recorded.covered_s;
        assert!((9.0..17.0).contains(&mean_w), "{mean_w}: {samples:?}");
    }

    #[test]
    fn the_average_of_a_meter_of_power_is_by_time() {
        // Of 600 ms, the last 300 have two or three samples.
        let (recorded, samples) = recorded(Counts::Power, |meter| meter.slow_s = (0.3, 0.15));
        let recorded = recorded.unwrap();
        let covered_s = recorded.covered_s;
        assert!(
            (0.45..0.95).contains(&covered_s),
            "{covered_s}: {samples:?}"
        );
    }

    #[test]
    fn readings_that_fail_are_counted_and_a_meter_that_never_answers_is_an_error() {
        let (some, samples) = recorded(Counts::Power, |meter| meter.fails.push(0.2..0.4));
        let some = some.unwrap();
        assert!(some.missed > 2 && some.why.unwrap().contains("no answer"));
        let gap = samples
            .windows(2)
            .map(|two| two[1].0.duration_since(two[0].0).unwrap());
        assert!(gap.max().unwrap() > Duration::from_millis(190));
        assert!(
            recorded(Counts::Power, |meter| meter.fails.push(0.0..9.0))
                .0
                .is_err()
        );
    }
}
