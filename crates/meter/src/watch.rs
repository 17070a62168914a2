//! What a meter does: how often it has a new value, and the mean power of a time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use reveille_figures::quantile::median;
use reveille_kernel::{Error, Result, affinity};
use serde::{Deserialize, Serialize};

use crate::reading::{About, Counts, Meter, Reading};

/// The least pause between readings: a tenth of RAPL's period.
const BETWEEN: Duration = Duration::from_micros(100);

/// The longest sleep without a look at what ends a run.
const LOOK: Duration = Duration::from_millis(250);

/// A meter of power is read as often as it has news, within these bounds.
const POWER_BETWEEN: [f64; 2] = [0.01, 1.0];

/// An energy counter is read at least so often, so that no wrap is missed.
const ENERGY_BETWEEN: Duration = Duration::from_secs(30);

/// What was seen of a meter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Watched {
    /// The meter.
    #[serde(flatten)]
    pub about: About,
    /// Readings taken.
    pub readings: u64,
    /// The median time of a reading, s.
    pub reading_s: f64,
    /// The median time between two new values, s; `None` with fewer than three of them.
    pub refresh_s: Option<f64>,
    /// The least change between two values, J or W; `None` without a change.
    pub least_change: Option<f64>,
    /// The mean power of the time; `None` if an energy counter did not change twice.
    pub power_w: Option<f64>,
}

/// New values of a meter in a time that is measured, at least: a reading at an end is wrong by one of them.
pub const REFRESHES: f64 = 30.0;

/// A meter's first values of power in a time are in part of what was before: so many refresh periods are dropped.
const LAG_REFRESHES: f64 = 3.0;

/// A work's time may be less than [`REFRESHES`] periods by so much: if its pauses are drawn, it varies.
pub(crate) const SHORTEST: f64 = 0.9;

/// Between readings of a meter of power whose refresh period is unknown.
const UNKNOWN_REFRESH: Duration = Duration::from_millis(100);

/// Is the time long enough for a meter?
fn suits(what: &str, time_s: f64, name: &str, refresh_s: f64) -> Result<()> {
    if time_s >= refresh_s * REFRESHES {
        return Ok(());
    }
    let least_s = (refresh_s * REFRESHES * 10.0).ceil() / 10.0;
    Err(Error::Usage(format!(
        "{what} {time_s:.1}s: too short for {name}, which has a new value every {refresh_s:.3} s: at least {least_s:.1}s"
    )))
}

impl Watched {
    /// How often it has a new value. Where that is unknown, for it stayed at one value, `time` is believed, which `option`
    /// gave.
    ///
    /// # Errors
    /// [`Error::Usage`] if it is too coarse for that time.
    pub fn refresh_within(&self, option: &str, time: Duration) -> Result<Duration> {
        let time_s = time.as_secs_f64();
        let refresh_s = self.refresh_s.unwrap_or(time_s / REFRESHES);
        suits(option, time_s, &self.about.name, refresh_s)?;
        Ok(Duration::from_secs_f64(refresh_s))
    }

    /// How often it has a new value, for a time that is not known beforehand.
    pub fn refresh(&self) -> Duration {
        self.refresh_s
            .map_or(UNKNOWN_REFRESH, Duration::from_secs_f64)
    }
}

/// Reads the meter for `time`, at most half of it.
///
/// # Errors
/// As [`Meter::read`]; [`Error::Failed`] if an energy counter stands still.
pub fn watch(meter: &mut dyn Meter, time: Duration, stop: &AtomicBool) -> Result<Watched> {
    let began = Instant::now();
    let first = Reading::of(meter)?;
    let (mut changes, mut last) = (vec![], first);
    let (mut took_s, mut sum_w) = (vec![], first.value);
    let mut least_change: Option<f64> = None;
    while began.elapsed() < time && !stop.load(Ordering::Relaxed) {
        std::thread::sleep(last.after.duration_since(last.before).max(BETWEEN));
        let now = Reading::of(meter)?;
        took_s.push(now.after.duration_since(now.before).as_secs_f64());
        sum_w += now.value;
        if now.value != last.value {
            let change = (now.value - last.value).abs();
            least_change = Some(least_change.map_or(change, |least| least.min(change)));
            changes.push(now);
        }
        last = now;
    }
    let about = meter.about().clone();
    if about.counts == Counts::Energy && changes.is_empty() && began.elapsed() >= time {
        let name = about.name;
        return Err(Error::Failed(format!(
            "{name}: the counter stands still; it is no meter now"
        )));
    }
    let readings = took_s.len() as u64 + 1;
    let periods: Vec<f64> = changes
        .windows(2)
        .map(|two| two[1].since_s(&two[0]))
        .collect();
    let power_w = match about.counts {
        Counts::Power => Some(sum_w / readings as f64),
        Counts::Energy => changes
            .first()
            .zip(changes.last())
            .and_then(|(first, last)| {
                let s = last.since_s(first);
                (s > 0.0).then(|| (last.value - first.value) / s)
            }),
    };
    Ok(Watched {
        about,
        readings,
        reading_s: median(&took_s).unwrap_or_default(),
        refresh_s: (periods.len() > 1).then(|| median(&periods)).flatten(),
        least_change,
        power_w,
    })
}

/// Sleeps, at most until `stop`.
pub fn pause(time: Duration, stop: &AtomicBool) {
    let began = Instant::now();
    while let Some(left) = time.checked_sub(began.elapsed())
        && !stop.load(Ordering::Relaxed)
    {
        std::thread::sleep(left.min(LOOK));
    }
}

/// The mean power of a time, while the machine does one thing.
pub struct Steady<'m> {
    pub(crate) meter: &'m mut dyn Meter,
    refresh: Duration,
    avoided: Option<u32>,
}

impl<'m> Steady<'m> {
    /// By a meter with new values so often.
    pub fn new(meter: &'m mut dyn Meter, refresh: Duration) -> Self {
        Self {
            meter,
            refresh,
            avoided: None,
        }
    }

    /// Without readings on that CPU while a work runs.
    pub fn away_from(self, cpu: u32) -> Self {
        let avoided = Some(cpu);
        Self { avoided, ..self }
    }

    /// W during about `time`, at whose ends an energy counter is awaited: its value is that of the instant at which
    /// it changes. `None` if `stop` ended it.
    ///
    /// # Errors
    /// As [`Meter::read`]; [`Error::Disturbed`] if an energy counter does not change any more.
    pub fn mean_w(&mut self, time: Duration, stop: &AtomicBool) -> Result<Option<f64>> {
        let began = Instant::now();
        let left = || time.saturating_sub(began.elapsed());
        if self.meter.about().counts == Counts::Energy {
            let Some(first) = self.changed(stop)? else {
                return Ok(None);
            };
            while !left().is_zero() && !stop.load(Ordering::Relaxed) {
                pause(left().min(ENERGY_BETWEEN), stop);
                self.meter.read()?;
            }
            let last = self.changed(stop)?;
            return Ok(last.map(|last| (last.value - first.value) / last.since_s(&first)));
        }
        let between = self.between();
        let (mut sum, mut readings) = (0.0, 0.0);
        while !left().is_zero() {
            pause(left().min(between), stop);
            if stop.load(Ordering::Relaxed) {
                return Ok(None);
            }
            sum += self.meter.read()?;
            readings += 1.0;
        }
        Ok((readings > 0.0).then(|| sum / readings))
    }

    /// Is a work that takes so long long enough? `what` begins the message: `a turn of`.
    ///
    /// # Errors
    /// [`Error::Usage`] with the time that the meter needs.
    pub fn suits(&self, what: &str, time: Duration) -> Result<()> {
        let name = &self.meter.about().name;
        suits(what, time.as_secs_f64(), name, self.refresh.as_secs_f64())
    }

    /// What `work` gives, and W while it runs, however long that is. An energy counter is awaited before and after,
    /// and else read every 30 s; a meter of power is read by another thread, whose first readings are dropped. W is
    /// unknown if the work was too short for the meter, or `stop` ended it. What the meter's errors are, as in
    /// [`Self::mean_w`], the work is done all the same.
    pub fn during<T>(
        &mut self,
        stop: &AtomicBool,
        work: impl FnOnce() -> T,
    ) -> (T, Result<Option<f64>>) {
        let first = match self.meter.about().counts {
            Counts::Energy => self.changed(stop),
            Counts::Power => Ok(None),
        };
        let (end, ended) = channel();
        let began = Instant::now();
        let (value, read) = std::thread::scope(|scope| {
            let reader = scope.spawn(|| self.read_until(ended));
            let value = work();
            drop(end);
            (value, reader.join().expect("it does not panic"))
        });
        let took = began.elapsed();
        let mean_w = first.and_then(|first| match (first, read?) {
            (None, mean_w) => Ok(mean_w),
            (Some(first), _) => {
                let last = self.changed(stop)?;
                Ok(last.map(|last| (last.value - first.value) / last.since_s(&first)))
            }
        });
        let is_whole =
            took >= self.refresh.mul_f64(SHORTEST * REFRESHES) && !stop.load(Ordering::Relaxed);
        (value, mean_w.map(|mean_w| mean_w.filter(|_| is_whole)))
    }

    /// Reads the meter until the other end of `ended` is gone; the mean of a meter of power.
    fn read_until(&mut self, ended: Receiver<()>) -> Result<Option<f64>> {
        if let Some(cpu) = self.avoided {
            affinity::avoid(cpu);
        }
        let is_energy = self.meter.about().counts == Counts::Energy;
        let (between, lag) = match is_energy {
            true => (ENERGY_BETWEEN, Duration::ZERO),
            false => (self.between(), self.refresh.mul_f64(LAG_REFRESHES)),
        };
        let began = Instant::now();
        let (mut sum, mut readings) = (0.0, 0.0);
        while ended.recv_timeout(between) == Err(RecvTimeoutError::Timeout) {
            let value = self.meter.read()?;
            if began.elapsed() > lag {
                sum += value;
                readings += 1.0;
            }
        }
        Ok((readings > 0.0 && !is_energy).then(|| sum / readings))
    }

    /// The time between readings of a meter of power.
    fn between(&self) -> Duration {
        let [least, most] = POWER_BETWEEN;
        Duration::from_secs_f64(self.refresh.as_secs_f64().clamp(least, most))
    }

    /// The next new value of an energy counter.
    pub(crate) fn changed(&mut self, stop: &AtomicBool) -> Result<Option<Reading>> {
        let began = Instant::now();
        let patience = (self.refresh * 10).max(Duration::from_secs(1));
        let between = (self.refresh / 20).clamp(BETWEEN, LOOK);
        let first = self.meter.read()?;
        while !stop.load(Ordering::Relaxed) {
            let now = Reading::of(self.meter)?;
            if now.value != first {
                return Ok(Some(now));
            }
            if began.elapsed() > patience {
                return Err(Error::Disturbed(format!(
                    "{}: the counter has not changed for {:.1} s; the meter stopped",
                    self.meter.about().name,
                    began.elapsed().as_secs_f64()
                )));
            }
            std::thread::sleep(between);
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reading::Scope;

    /// A constant power, counted in steps of a period; at `stops` it stands.
    struct Made {
        about: About,
        began: Instant,
        period_s: f64,
        watts: f64,
        stops_s: f64,
    }

    impl Made {
        fn new(counts: Counts, period_s: f64, stops_s: f64) -> Self {
            let about = About {
                name: "made-up".to_owned(),
                scope: Scope::Other,
                counts,
                resolution: None,
                range_j: None,
            };
            let (began, watts) = (Instant::now(), 40.0);
            Self {
                about,
                began,
                period_s,
                watts,
                stops_s,
            }
        }
    }

    impl Meter for Made {
        fn about(&self) -> &About {
            &self.about
        }

        fn read(&mut self) -> Result<f64> {
            let s = self.began.elapsed().as_secs_f64().min(self.stops_s);
            let step = (s / self.period_s).floor();
            Ok(match self.about.counts {
                Counts::Energy => step * self.period_s * self.watts,
                Counts::Power => self.watts + step % 2.0,
            })
        }
    }

    #[test]
    fn the_refresh_period_is_measured() {
        for counts in [Counts::Energy, Counts::Power] {
            let mut meter = Made::new(counts, 0.02, 1e9);
            let time = Duration::from_millis(500);
            let watched = watch(&mut meter, time, &AtomicBool::new(false)).unwrap();
            let refresh_s = watched.refresh_s.unwrap();
            assert!((0.015..0.03).contains(&refresh_s), "{watched:?}");
            assert!(
                (35.0..45.0).contains(&watched.power_w.unwrap()),
                "{watched:?}"
            );
            let change = watched.least_change.unwrap();
            assert!(change > 0.79 && change < 1.01, "0.8 J, 1 W: {change}");
        }
    }

    #[test]
    fn a_counter_that_stands_still_is_told() {
        let mut meter = Made::new(Counts::Energy, 0.01, 0.0);
        let stop = AtomicBool::new(false);
        let why = watch(&mut meter, Duration::from_millis(30), &stop).unwrap_err();
        assert!(why.to_string().contains("stands still"));
        let mut meter = Made::new(Counts::Energy, 0.01, 0.05);
        let mut steady = Steady::new(&mut meter, Duration::from_millis(10));
        let why = steady
            .mean_w(Duration::from_millis(100), &stop)
            .unwrap_err();
        assert!(why.to_string().contains("the meter stopped"), "{why}");
    }

    #[test]
    fn a_coarse_counter_gives_the_mean_of_a_time_exactly() {
        let mut meter = Made::new(Counts::Energy, 0.05, 1e9);
        let mut steady = Steady::new(&mut meter, Duration::from_millis(50));
        let mean = steady.mean_w(Duration::from_millis(330), &AtomicBool::new(false));
        let mean_w = mean.unwrap().unwrap();
        // Not aligned, 6 or 7 steps of 50 ms would be 36 to 43 W.
        assert!((mean_w - 40.0).abs() < 1.5, "{mean_w}");
    }

    #[test]
    fn the_mean_of_a_work_is_that_of_its_own_time() {
        let stop = AtomicBool::new(false);
        let sleep = |ms| move || std::thread::sleep(Duration::from_millis(ms));
        for counts in [Counts::Energy, Counts::Power] {
            let mut meter = Made::new(counts, 0.02, 1e9);
            let mut steady = Steady::new(&mut meter, Duration::from_millis(20));
            // 40 W, and every other period 41.
            let ((), mean_w) = steady.during(&stop, sleep(800));
            let mean_w = mean_w.unwrap().unwrap();
            assert!((39.5..41.0).contains(&mean_w), "{counts:?}: {mean_w}");
            let ((), mean_w) = steady.during(&stop, sleep(300));
            assert_eq!(mean_w.unwrap(), None, "15 periods");
            let ((), mean_w) = steady.during(&stop, || {
                sleep(800)();
                stop.store(true, Ordering::Relaxed);
            });
            assert_eq!(mean_w.unwrap(), None, "stopped");
            stop.store(false, Ordering::Relaxed);
            let why = steady.suits("a turn of", Duration::from_millis(500));
            let why = why.unwrap_err().to_string();
            assert!(
                why.contains("a turn of 0.5s: too short for made-up"),
                "{why}"
            );
            assert!(why.contains("at least 0.6s"), "{why}");
        }
    }

    /// 10 W in the first 40 ms, and then 40 W.
    struct Lags(About, Instant);

    impl Meter for Lags {
        fn about(&self) -> &About {
            &self.0
        }

        fn read(&mut self) -> Result<f64> {
            let is_late = self.1.elapsed() > Duration::from_millis(40);
            Ok(if is_late { 40.0 } else { 10.0 })
        }
    }

    #[test]
    fn a_work_is_done_even_if_the_meter_fails() {
        let mut meter = Made::new(Counts::Energy, 0.01, 0.0);
        let mut steady = Steady::new(&mut meter, Duration::from_millis(10));
        let (done, mean_w) = steady.during(&AtomicBool::new(false), || 7);
        assert_eq!(done, 7);
        assert!(
            mean_w
                .unwrap_err()
                .to_string()
                .contains("the meter stopped")
        );
    }

    #[test]
    fn what_a_meter_shows_of_the_time_before_a_work_is_dropped() {
        let about = Made::new(Counts::Power, 0.02, 1e9).about;
        let mut meter = Lags(about, Instant::now());
        let mut steady = Steady::new(&mut meter, Duration::from_millis(20));
        let work = || std::thread::sleep(Duration::from_millis(700));
        let ((), mean_w) = steady.during(&AtomicBool::new(false), work);
        assert_eq!(mean_w.unwrap(), Some(40.0));
    }

    #[test]
    fn a_stop_ends_a_mean() {
        for counts in [Counts::Energy, Counts::Power] {
            let mut meter = Made::new(counts, 0.01, 1e9);
            let mut steady = Steady::new(&mut meter, Duration::from_millis(10));
            let mean = steady.mean_w(Duration::from_secs(60), &AtomicBool::new(true));
            assert_eq!(mean.unwrap(), None);
        }
    }
}
