//! How often a meter has a new value.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use reveille_figures::quantile::median;
use reveille_kernel::{Error, Result};
use serde::{Deserialize, Serialize};

use crate::reading::{About, Counts, FAILURES, Meter, Reading, is_over};

/// The least pause between readings: a tenth of RAPL's period.
pub(crate) const BETWEEN: Duration = Duration::from_micros(100);

/// How long a meter is watched before anything is measured.
pub const WATCH: Duration = Duration::from_secs(3);

/// How long a meter is watched that has few new values.
const LONGER: Duration = Duration::from_secs(60);

/// Between readings of a meter with few new values.
const SELDOM: Duration = Duration::from_millis(20);

/// The largest part of a time that may be without readings.
pub(crate) const LOST_MAX: f64 = 0.1;

/// New values that give a refresh period.
const CHANGES: usize = 3;

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
    /// The mean time between two new values, s. `None` with fewer than three of them.
    pub refresh_s: Option<f64>,
    /// The least change between two values, J or W; `None` without a change.
    pub least_change: Option<f64>,
    /// The mean power of the time; `None` if an energy counter did not change twice.
    pub power_w: Option<f64>,
}

/// New values of a meter in a time that is measured, at least: a reading at an end is wrong by one of them.
pub const REFRESHES: f64 = 30.0;

/// Between readings of a meter of power whose refresh period is unknown.
const UNKNOWN_REFRESH: Duration = Duration::from_millis(100);

/// Is the time long enough for a meter?
pub(crate) fn suits(what: &str, time_s: f64, name: &str, refresh_s: f64) -> Result<()> {
    if time_s >= refresh_s * REFRESHES {
        return Ok(());
    }
    let least_s = (refresh_s * REFRESHES * 10.0).ceil() / 10.0;
    Err(Error::Usage(format!(
        "{what} {time_s:.1}s: too short for {name}, which has a new value every {refresh_s:.3} s: at least {least_s:.1}s"
    )))
}

impl Watched {
    /// How often it has a new value, for a time of that `option`.
    ///
    /// # Errors
    /// [`Error::Usage`] if the meter is too coarse for the time.
    pub fn refresh_within(&self, option: &str, time: Duration) -> Result<Duration> {
        let refresh = self.refresh();
        let refresh_s = refresh.as_secs_f64();
        suits(option, time.as_secs_f64(), &self.about.name, refresh_s)?;
        Ok(refresh)
    }

    /// How often it has a new value; 0.1 s where that is unknown.
    pub fn refresh(&self) -> Duration {
        self.refresh_s
            .map_or(UNKNOWN_REFRESH, Duration::from_secs_f64)
    }

    /// An energy counter that did not change.
    pub fn stands_still(&self) -> bool {
        self.about.counts == Counts::Energy && self.least_change.is_none()
    }
}

/// Reads the meter for `time`. Some readings may fail.
///
/// # Errors
/// As [`Meter::read`], if that takes more than a tenth of the time.
pub fn watch(meter: &mut dyn Meter, time: Duration, stop: &AtomicBool) -> Result<Watched> {
    let began = Instant::now();
    let mut seen = Seen::new(Reading::of(meter)?);
    let mut lost = Duration::ZERO;
    while began.elapsed() < time && !stop.load(Ordering::Relaxed) {
        let before = Instant::now();
        std::thread::sleep(seen.pause(BETWEEN));
        match Reading::of(meter) {
            Ok(now) => seen.add(now),
            Err(why) => {
                lost += before.elapsed();
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                if is_over(&why) || lost > time.mul_f64(LOST_MAX) {
                    return Err(why);
                }
            }
        }
    }
    Ok(seen.end(meter.about().clone()))
}

/// Reads a meter until its refresh period is known, for up to a minute. A meter of power may stay at one value because the
/// power does: all CPUs are busy until it has a new value, idle until the next, and so on. A slow meter
/// shows each of them at its next refresh.
///
/// # Errors
/// As [`Meter::read`]; [`Error::Cannot`] if there are too few new values.
pub fn watch_longer(meter: &mut dyn Meter, stop: &AtomicBool) -> Result<Watched> {
    watch_until_known(meter, LONGER, stop)
}

fn watch_until_known(
    meter: &mut dyn Meter,
    longest: Duration,
    stop: &AtomicBool,
) -> Result<Watched> {
    let began = Instant::now();
    let mut seen = Seen::new(Reading::of(meter)?);
    let (mut load, mut failed) = (Load::default(), 0);
    while seen.changes.len() < CHANGES && began.elapsed() < longest && !stop.load(Ordering::Relaxed)
    {
        if meter.about().counts == Counts::Power && seen.changes.len().is_multiple_of(2) {
            load.begin();
        } else {
            load.end();
        }
        std::thread::sleep(seen.pause(SELDOM));
        match Reading::of(meter) {
            Err(why) if failed + 1 == FAILURES || is_over(&why) => return Err(why),
            Err(_) => failed += 1,
            Ok(now) => {
                seen.add(now);
                failed = 0;
            }
        }
    }
    drop(load);
    let watched = seen.end(meter.about().clone());
    if watched.refresh_s.is_none() && !stop.load(Ordering::Relaxed) {
        let name = &watched.about.name;
        let s = longest.as_secs_f64();
        return Err(Error::Cannot(match watched.about.counts {
            Counts::Energy => format!(
                "{name}: the counter has fewer than {CHANGES} new values in {s} s; it stands still, or is too coarse"
            ),
            Counts::Power => format!(
                "{name}: fewer than {CHANGES} new values in {s} s, though all CPUs were busy and idle in turn; it is too \
                 slow, or measures something else"
            ),
        }));
    }
    Ok(watched)
}

/// The mean of the times between new values, with a reading every `between_s`. Not the median, which is a whole number of
/// readings. A much longer time counts for several: new values in it were equal to the ones before. With few readings it does
/// not, since then it is longer by a reading.
fn usual(periods: &[f64], between_s: f64) -> Option<f64> {
    const LONG: f64 = 1.75;
    const FEW: f64 = 0.25;
    let median = median(periods)?;
    let count = |period: &f64| match period / median {
        times if times < LONG || between_s > FEW * median => 1.0,
        times => times.round(),
    };
    Some(periods.iter().sum::<f64>() / periods.iter().map(count).sum::<f64>())
}

/// What was seen until now.
struct Seen {
    began: Instant,
    last: Reading,
    changes: Vec<Reading>,
    took_s: Vec<f64>,
    sum: f64,
    least_change: Option<f64>,
}

impl Seen {
    fn new(first: Reading) -> Self {
        Self {
            began: first.before,
            last: first,
            changes: Vec::new(),
            took_s: Vec::new(),
            sum: first.value,
            least_change: None,
        }
    }

    fn add(&mut self, now: Reading) {
        self.took_s
            .push(now.after.duration_since(now.before).as_secs_f64());
        self.sum += now.value;
        let change = (now.value - self.last.value).abs();
        if change > 0.0 {
            self.least_change = Some(self.least_change.map_or(change, |least| least.min(change)));
            self.changes.push(now);
        }
        self.last = now;
    }

    /// How long to wait for the next reading: at most half of the time is spent with readings.
    fn pause(&self, least: Duration) -> Duration {
        self.last.after.duration_since(self.last.before).max(least)
    }

    fn end(self, about: About) -> Watched {
        let readings = self.took_s.len() as u64 + 1;
        let watched_s = (self.last.after.duration_since(self.began)).as_secs_f64();
        let periods: Vec<f64> = self
            .changes
            .windows(2)
            .map(|two| two[1].since_s(&two[0]))
            .collect();
        let power_w = match about.counts {
            Counts::Power => Some(self.sum / readings as f64),
            Counts::Energy => {
                self.changes
                    .first()
                    .zip(self.changes.last())
                    .and_then(|(first, last)| {
                        let s = last.since_s(first);
                        (s > 0.0).then(|| (last.value - first.value) / s)
                    })
            }
        };
        Watched {
            about,
            readings,
            reading_s: median(&self.took_s).unwrap_or_default(),
            refresh_s: (self.changes.len() >= CHANGES)
                .then(|| usual(&periods, watched_s / readings as f64))
                .flatten(),
            least_change: self.least_change,
            power_w,
        }
    }
}

/// The name of its threads.
const LOAD: &str = "busy";

/// All CPUs that this process may use, busy or idle.
#[derive(Default)]
struct Load {
    threads: Vec<std::thread::JoinHandle<()>>,
    ended: Arc<AtomicBool>,
}

impl Load {
    fn begin(&mut self) {
        if !self.threads.is_empty() {
            return;
        }
        self.ended.store(false, Ordering::Relaxed);
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        // Fewer where no more may be.
        self.threads.extend((0..cpus).map_while(|_| {
            let ended = self.ended.clone();
            let busy = move || {
                while !ended.load(Ordering::Relaxed) {
                    std::hint::black_box(0);
                }
            };
            let thread = std::thread::Builder::new().name(LOAD.to_owned());
            thread.spawn(busy).ok()
        }));
    }

    fn end(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            thread.join().expect("it does not panic");
        }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::made::Made;

    /// What is seen in 3 s where a reading takes so long, with the pauses of [`watch`], on a machine that never delays it.
    fn seen(counts: Counts, period_s: f64, reading_s: f64) -> Watched {
        let meter = Made::new(counts, period_s);
        let began = Instant::now();
        let mut now_s = 0.0;
        let mut next = |pause: Duration| {
            let before_s = now_s + pause.as_secs_f64();
            now_s = before_s + reading_s;
            let [before, after] = [before_s, now_s].map(|s| began + Duration::from_secs_f64(s));
            let value = meter.value(now_s);
            (
                Reading {
                    before,
                    after,
                    value,
                },
                now_s,
            )
        };
        let mut seen = Seen::new(next(Duration::ZERO).0);
        loop {
            let (reading, at_s) = next(seen.pause(BETWEEN));
            if at_s > 3.0 {
                return seen.end(meter.about().clone());
            }
            seen.add(reading);
        }
    }

    #[test]
    fn the_refresh_period_is_known() {
        for counts in [Counts::Energy, Counts::Power] {
            let watched = seen(counts, 0.02, 0.0005);
            let refresh_s = watched.refresh_s.unwrap();
            assert!((0.0199..0.0201).contains(&refresh_s), "{watched:?}");
            let power_w = watched.power_w.unwrap();
            let expected_w = if counts == Counts::Energy { 40.0 } else { 40.5 };
            assert!((power_w - expected_w).abs() < 0.1, "{watched:?}");
            let change = watched.least_change.unwrap();
            assert!(change > 0.79 && change < 1.01, "0.8 J, 1 W: {change}");
        }
    }

    #[test]
    fn the_refresh_period_is_not_a_whole_number_of_readings() {
        // With the pauses after them a reading takes 44 ms, or 88: new values are seen after whole numbers of them.
        for takes_s in [0.022, 0.044] {
            let refresh_s = seen(Counts::Power, 0.1, takes_s).refresh_s.unwrap();
            assert!((0.095..0.106).contains(&refresh_s), "{refresh_s}");
        }
    }

    #[test]
    fn some_readings_may_fail_while_it_is_watched() {
        // A tenth may: the rest of that is for a busy machine.
        let time = Duration::from_secs(2);
        for (fails, is_watched) in [(0.1..0.12, true), (0.1..1.0, false)] {
            let mut meter = Made::new(Counts::Power, 0.02);
            meter.fails.push(fails);
            let watched = watch(&mut meter, time, &AtomicBool::new(false));
            assert_eq!(watched.is_ok(), is_watched, "{watched:?}");
        }
    }

    #[test]
    fn a_counter_that_stands_still_is_known() {
        let mut meter = Made::new(Counts::Energy, 0.01);
        meter.stops_s = 0.0;
        let time = Duration::from_millis(30);
        let stop = AtomicBool::new(false);
        assert!(watch(&mut meter, time, &stop).unwrap().stands_still());
        let mut meter = Made::new(Counts::Power, 0.01);
        meter.more = 0.0;
        assert!(!watch(&mut meter, time, &stop).unwrap().stands_still());
    }

    #[test]
    fn a_coarse_counter_is_watched_longer() {
        let stop = AtomicBool::new(false);
        let mut meter = Made::new(Counts::Energy, 0.3);
        let short = watch(&mut meter, Duration::from_millis(400), &stop).unwrap();
        assert_eq!(short.refresh_s, None);
        let refresh_s = watch_longer(&mut meter, &stop).unwrap().refresh_s.unwrap();
        assert!((0.2..0.55).contains(&refresh_s), "{refresh_s}");
        meter.stops_s = 0.0;
        let why = watch_until_known(&mut meter, Duration::from_millis(200), &stop).unwrap_err();
        assert!(
            why.to_string().contains("stands still, or is too coarse"),
            "{why}"
        );
    }

    /// 60 W where there was load at the last refresh, and else 40 W.
    struct OfLoad {
        made: Made,
        period: Duration,
        next: Instant,
        watts: f64,
    }

    fn is_loaded() -> bool {
        let threads = fs::read_dir("/proc/self/task").unwrap();
        let mut names = threads.map(|one| fs::read_to_string(one.unwrap().path().join("comm")));
        names.any(|name| name.is_ok_and(|name| name.trim() == LOAD))
    }

    impl Meter for OfLoad {
        fn about(&self) -> &About {
            self.made.about()
        }

        fn read(&mut self) -> Result<f64> {
            while Instant::now() >= self.next {
                self.next += self.period;
                self.watts = if is_loaded() { 60.0 } else { 40.0 };
            }
            Ok(self.watts)
        }
    }

    #[test]
    fn a_meter_at_one_value_is_watched_under_load() {
        let stop = AtomicBool::new(false);
        let mut meter = OfLoad {
            made: Made::new(Counts::Power, 1.0),
            period: Duration::from_millis(400),
            next: Instant::now(),
            watts: 40.0,
        };
        let watched = watch_longer(&mut meter, &stop).unwrap();
        let refresh_s = watched.refresh_s.unwrap();
        assert!((0.25..0.75).contains(&refresh_s), "{watched:?}");
        assert_eq!(watched.least_change, Some(20.0));

        let mut meter = Made::new(Counts::Power, 1.0);
        meter.more = 0.0;
        let why = watch_until_known(&mut meter, Duration::from_millis(200), &stop).unwrap_err();
        assert!(why.to_string().contains("it is too slow"), "{why}");
    }
}
