//! The mean power of a time, or of a work.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use reveille_kernel::{Error, Result, affinity};

use crate::reading::{Counts, FAILURES, Meter, Reading, is_over};
use crate::watch::{BETWEEN, LOST_MAX, REFRESHES, suits};

/// The longest sleep without a look at what ends a run.
const LOOK: Duration = Duration::from_millis(250);

/// A meter of power is read as often as it has news, within these bounds.
const POWER_BETWEEN: [f64; 2] = [0.01, 1.0];

/// An energy counter is read at least so often, so that no wrap is missed.
const ENERGY_BETWEEN: Duration = Duration::from_secs(30);

/// A meter's first values of power in a time are in part of what was before: so many refresh periods are dropped.
const LAG_REFRESHES: f64 = 3.0;

/// A work's time may be less than [`REFRESHES`] periods by so much: if its pauses are drawn, it varies.
pub(crate) const SHORTEST: f64 = 0.9;

/// Sleeps, at most until `stop`.
pub fn pause(time: Duration, stop: &AtomicBool) {
    let began = Instant::now();
    while let Some(left) = time.checked_sub(began.elapsed())
        && !stop.load(Ordering::Relaxed)
    {
        std::thread::sleep(left.min(LOOK));
    }
}

/// A reading that failed as the run was stopped does not matter.
fn unless_stopped(mean_w: Result<Option<f64>>, stop: &AtomicBool) -> Result<Option<f64>> {
    match mean_w {
        Err(_) if stop.load(Ordering::Relaxed) => Ok(None),
        mean_w => mean_w,
    }
}

/// The mean power of a time, while the machine does one thing.
pub struct Steady<'m> {
    pub(crate) meter: &'m mut dyn Meter,
    refresh: Duration,
    avoided: Option<u32>,
    /// A work's power was measured.
    worked: bool,
    /// Works since then for which the meter failed.
    failed: u32,
    why_failed: Option<String>,
    /// The last value of a meter of power in a time in which it varied.
    varied_until: Option<f64>,
}

impl<'m> Steady<'m> {
    /// By a meter with new values so often.
    pub fn new(meter: &'m mut dyn Meter, refresh: Duration) -> Self {
        Self {
            meter,
            refresh,
            avoided: None,
            worked: false,
            failed: 0,
            why_failed: None,
            varied_until: None,
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
        unless_stopped(self.mean_of(time, stop), stop)
    }

    fn mean_of(&mut self, time: Duration, stop: &AtomicBool) -> Result<Option<f64>> {
        let began = Instant::now();
        let left = || time.saturating_sub(began.elapsed());
        if self.meter.about().counts == Counts::Energy {
            let Some(first) = self.changed(stop)? else {
                return Ok(None);
            };
            while !left().is_zero() && !stop.load(Ordering::Relaxed) {
                pause(left().min(ENERGY_BETWEEN), stop);
                self.keep_up()?;
            }
            let last = self.changed(stop)?;
            return Ok(last.map(|last| (last.value - first.value) / last.since_s(&first)));
        }
        let between = self.between();
        let mut mean = Mean::begin(&self.meter.about().name, between);
        while !left().is_zero() {
            pause(left().min(between), stop);
            if stop.load(Ordering::Relaxed) {
                return Ok(None);
            }
            mean.add(self.meter.read())?;
        }
        mean.end(&mut self.varied_until)
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
    /// unknown if the work was too short for the meter, `stop` ended it, or the meter failed, whose errors are those of
    /// [`Self::mean_w`]: they are returned until the power of a work was known, and for the third work in a row. The work is
    /// done all the same.
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
        let mean_w = self.forgive(unless_stopped(mean_w, stop));
        (value, mean_w.map(|w| w.filter(|_| is_whole)))
    }

    /// Some works may be without a power.
    fn forgive(&mut self, mean_w: Result<Option<f64>>) -> Result<Option<f64>> {
        match mean_w {
            Ok(mean_w) => {
                self.failed = 0;
                self.worked |= mean_w.is_some();
                Ok(mean_w)
            }
            Err(why) if self.worked && self.failed + 1 < FAILURES => {
                self.failed += 1;
                self.why_failed = Some(why.to_string());
                Ok(None)
            }
            Err(why) => Err(why),
        }
    }

    /// Why the power of a work is unknown, if the meter failed.
    pub fn why_failed(&self) -> Option<&str> {
        self.why_failed.as_deref()
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
        let mut mean: Option<Mean> = None;
        while ended.recv_timeout(between) == Err(RecvTimeoutError::Timeout) {
            if is_energy || began.elapsed() < lag {
                self.keep_up()?;
            } else {
                let name = &self.meter.about().name;
                let mean = mean.get_or_insert_with(|| Mean::begin(name, between));
                mean.add(self.meter.read())?;
            }
        }
        mean.map_or(Ok(None), |mean| mean.end(&mut self.varied_until))
    }

    /// Reads it, so that no wrap of a counter is missed. A reading that fails does no harm, unless the counter jumped.
    fn keep_up(&mut self) -> Result<()> {
        match self.meter.read() {
            Err(why) if is_over(&why) => Err(why),
            _ => Ok(()),
        }
    }

    /// The time between readings of a meter of power.
    fn between(&self) -> Duration {
        let [least, most] = POWER_BETWEEN;
        Duration::from_secs_f64(self.refresh.as_secs_f64().clamp(least, most))
    }

    /// The next new value of an energy counter; some readings may fail.
    pub(crate) fn changed(&mut self, stop: &AtomicBool) -> Result<Option<Reading>> {
        let patience = (self.refresh * 10).max(Duration::from_secs(1));
        let between = (self.refresh / 20).clamp(BETWEEN, LOOK);
        let mut first: Option<Reading> = None;
        let (mut failed, mut answered) = (0, Instant::now());
        while !stop.load(Ordering::Relaxed) {
            let now = match Reading::of(self.meter) {
                Ok(now) => now,
                Err(why) => {
                    failed += 1;
                    let is_gone = failed >= FAILURES && answered.elapsed() > patience;
                    if is_gone || is_over(&why) {
                        return Err(why);
                    }
                    // When it changes meanwhile is unknown.
                    first = None;
                    std::thread::sleep(between);
                    continue;
                }
            };
            (failed, answered) = (0, now.after);
            let first = first.get_or_insert(now);
            if now.value != first.value {
                return Ok(Some(now));
            }
            if now.since_s(first) > patience.as_secs_f64() {
                return Err(Error::Disturbed(format!(
                    "{}: the counter has not changed for {:.1} s; the meter stopped",
                    self.meter.about().name,
                    now.since_s(first)
                )));
            }
            std::thread::sleep(between);
        }
        Ok(None)
    }
}

/// A meter varies if it changes so often, among so many values at least: one that is too coarse for the power's changes may
/// only go to and fro between two.
const CHANGES: u32 = 8;
const VALUES: usize = 3;

/// A reading that comes later than this many pauses after the one before, or than this, stands for no more than that.
const LATE_PAUSES: u32 = 3;
const LATE: Duration = Duration::from_millis(100);

/// The mean of readings of power. Some may fail: a meter in a network sometimes does.
struct Mean {
    name: String,
    /// The longest time from one reading to the next for which the latter stands.
    longest: Duration,
    sum: f64,
    readings: u32,
    /// The last value, how often it was another one than before, and the first different ones.
    value: Option<f64>,
    changes: u32,
    values: Vec<f64>,
    began: Instant,
    /// When the last reading ended.
    last: Instant,
    /// What readings that failed took, with the pauses before them.
    lost: Duration,
    why: Option<Error>,
}

impl Mean {
    /// Of the meter of this name, with such pauses between readings.
    fn begin(name: &str, between: Duration) -> Self {
        let now = Instant::now();
        Self {
            name: name.to_owned(),
            longest: (between * LATE_PAUSES).max(LATE),
            sum: 0.0,
            readings: 0,
            value: None,
            changes: 0,
            values: Vec::new(),
            began: now,
            last: now,
            lost: Duration::ZERO,
            why: None,
        }
    }

    fn add(&mut self, read: Result<f64>) -> Result<()> {
        let before = std::mem::replace(&mut self.last, Instant::now());
        let took = self.last.duration_since(before);
        match read {
            Ok(value) => {
                self.sum += value;
                self.readings += 1;
                let is_other = self.value.replace(value) != Some(value);
                self.changes += u32::from(is_other && self.readings > 1);
                if self.values.len() < VALUES && !self.values.contains(&value) {
                    self.values.push(value);
                }
                if took > self.longest {
                    self.lost += took - self.longest;
                    self.why = Some(Error::Failed(format!(
                        "{}: a reading came only after {:.1} s",
                        self.name,
                        took.as_secs_f64()
                    )));
                }
            }
            Err(why) if is_over(&why) => return Err(why),
            Err(why) => {
                self.lost += took;
                self.why = Some(why);
            }
        }
        Ok(())
    }

    /// `None` without a reading; the last error if too many failed, or came late. A meter that varied in the time before, and
    /// stays at its last value for the whole of this one, has stopped.
    fn end(self, varied_until: &mut Option<f64>) -> Result<Option<f64>> {
        if self.readings == 0 || self.lost > self.began.elapsed().mul_f64(LOST_MAX) {
            return self.why.map_or(Ok(None), Err);
        }
        if self.changes == 0 && *varied_until == self.value {
            return Err(Error::Failed(format!(
                "{}: its value stayed at {} W for {:.1} s; the meter stopped",
                self.name,
                self.values[0],
                self.began.elapsed().as_secs_f64()
            )));
        }
        let varied = self.changes >= CHANGES && self.values.len() == VALUES;
        *varied_until = self.value.filter(|_| varied);
        Ok(Some(self.sum / f64::from(self.readings)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made::Made;
    use crate::reading::About;

    #[test]
    fn a_coarse_counter_gives_the_mean_of_a_time_exactly() {
        let mut meter = Made::new(Counts::Energy, 0.05);
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
            let mut meter = Made::new(counts, 0.02);
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
    struct Lags(Made, Instant);

    impl Meter for Lags {
        fn about(&self) -> &About {
            self.0.about()
        }

        fn read(&mut self) -> Result<f64> {
            let is_late = self.1.elapsed() > Duration::from_millis(40);
            Ok(if is_late { 40.0 } else { 10.0 })
        }
    }

    #[test]
    fn a_work_is_done_even_if_the_meter_fails() {
        let mut meter = Made::new(Counts::Energy, 0.01);
        meter.stops_s = 0.0;
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
    fn a_meter_may_fail_for_some_works_once_it_has_worked() {
        let stop = AtomicBool::new(false);
        let mut meter = Made::new(Counts::Energy, 0.01);
        meter.fails.push(0.6..9.0);
        let began = Instant::now();
        let mut steady = Steady::new(&mut meter, Duration::from_millis(10));
        let mut work = |ms| {
            let sleep = || std::thread::sleep(Duration::from_millis(ms));
            let ((), mean_w) = steady.during(&stop, sleep);
            mean_w
        };
        assert!(work(300).unwrap().is_some());
        std::thread::sleep(Duration::from_millis(600).saturating_sub(began.elapsed()));
        for _ in 0..2 {
            assert_eq!(work(1).unwrap(), None);
        }
        assert_eq!(work(1).unwrap_err().to_string(), "no answer");
        assert_eq!(steady.why_failed(), Some("no answer"));
    }

    #[test]
    fn what_a_meter_shows_of_the_time_before_a_work_is_dropped() {
        let mut meter = Lags(Made::new(Counts::Power, 0.02), Instant::now());
        let mut steady = Steady::new(&mut meter, Duration::from_millis(20));
        let work = || std::thread::sleep(Duration::from_millis(700));
        let ((), mean_w) = steady.during(&AtomicBool::new(false), work);
        assert_eq!(mean_w.unwrap(), Some(40.0));
    }

    #[test]
    fn a_counter_that_stops_is_an_error() {
        let mut meter = Made::new(Counts::Energy, 0.01);
        meter.stops_s = 0.05;
        let mut steady = Steady::new(&mut meter, Duration::from_millis(10));
        let mean_w = steady.mean_w(Duration::from_millis(100), &AtomicBool::new(false));
        let why = mean_w.unwrap_err().to_string();
        assert!(why.contains("the meter stopped"), "{why}");
    }

    #[test]
    fn some_readings_may_fail() {
        let stop = AtomicBool::new(false);
        let time = Duration::from_millis(600);
        for counts in [Counts::Energy, Counts::Power] {
            let mut meter = Made::new(counts, 0.02);
            // The counter is awaited at both ends, and not read in between.
            meter.fails = match counts {
                Counts::Energy => vec![0.0..0.1, 0.7..0.8],
                Counts::Power => vec![0.1..0.13],
            };
            let mut steady = Steady::new(&mut meter, Duration::from_millis(20));
            let mean_w = steady.mean_w(time, &stop).unwrap().unwrap();
            assert!((38.0..41.5).contains(&mean_w), "{counts:?}: {mean_w}");
            let ((), mean_w) = steady.during(&stop, || std::thread::sleep(time));
            let mean_w = mean_w.unwrap().unwrap();
            assert!((38.0..41.5).contains(&mean_w), "{counts:?}: {mean_w}");
            // Most of them may not.
            let mut meter = Made::new(counts, 0.02);
            meter.fails.push(0.2..9.0);
            let mut steady = Steady::new(&mut meter, Duration::from_millis(20));
            let why = steady.mean_w(time, &stop).unwrap_err();
            assert_eq!(why.to_string(), "no answer", "{counts:?}");
            let ((), why) = steady.during(&stop, || std::thread::sleep(time));
            assert_eq!(why.unwrap_err().to_string(), "no answer", "{counts:?}");
        }
    }

    #[test]
    fn few_readings_are_no_mean_of_a_time() {
        let stop = AtomicBool::new(false);
        let time = Duration::from_millis(600);
        for (takes_s, is_known) in [(0.25, false), (0.05, true)] {
            let mut meter = Made::new(Counts::Power, 0.02);
            meter.slow_s = (0.0, takes_s);
            let mut steady = Steady::new(&mut meter, Duration::from_millis(20));
            let ((), during) = steady.during(&stop, || std::thread::sleep(time));
            for mean_w in [steady.mean_w(time, &stop), during] {
                match mean_w {
                    Ok(mean_w) => assert!(is_known && mean_w.is_some()),
                    Err(why) => {
                        let why = why.to_string();
                        assert!(!is_known && why.contains("came only after 0."), "{why}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_meter_of_power_that_varied_and_stays_at_its_last_value_has_stopped() {
        let stop = AtomicBool::new(false);
        let time = Duration::from_millis(400);
        // One that is too coarse stays where it is, or goes to and fro.
        for (values, is_known) in [(3.0, false), (2.0, true)] {
            let mut meter = Made::new(Counts::Power, 0.02);
            (meter.values, meter.stops_s) = (values, 0.7);
            let mut steady = Steady::new(&mut meter, Duration::from_millis(20));
            let mut mean_w = || steady.mean_w(time, &stop);
            for _ in 0..2 {
                assert!(mean_w().unwrap().is_some());
            }
            for _ in 0..2 {
                match mean_w() {
                    Ok(_) => assert!(is_known),
                    Err(why) => {
                        let why = why.to_string();
                        assert!(
                            !is_known && why.contains("W for 0.4 s; the meter stopped"),
                            "{why}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn a_stop_while_the_meter_does_not_answer_is_no_error() {
        let mut meter = Made::new(Counts::Power, 0.01);
        meter.fails.push(0.0..9.0);
        let mut steady = Steady::new(&mut meter, Duration::from_millis(10));
        let stop = AtomicBool::new(false);
        let work = || {
            std::thread::sleep(Duration::from_millis(100));
            stop.store(true, Ordering::Relaxed);
        };
        assert_eq!(steady.during(&stop, work).1.unwrap(), None);
    }

    #[test]
    fn a_stop_ends_a_mean() {
        for counts in [Counts::Energy, Counts::Power] {
            let mut meter = Made::new(counts, 0.01);
            let mut steady = Steady::new(&mut meter, Duration::from_millis(10));
            let mean = steady.mean_w(Duration::from_secs(60), &AtomicBool::new(true));
            assert_eq!(mean.unwrap(), None);
        }
    }
}
