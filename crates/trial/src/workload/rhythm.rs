//! When requests are sent: evenly, or in bursts with pauses between them.

use std::str::FromStr;
use std::thread;
use std::time::{Duration, Instant};

use reveille_kernel::asleep::Counts;
use reveille_show::parse;

use super::InBursts;

/// When requests are sent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Rhythm {
    /// From an answer to the next request, on average.
    Even(Duration),
    /// In bursts.
    Bursts(Bursts),
}

/// Requests at a steady rate for a time, then a pause. A burst always has the same number of requests: where
/// answers are late it takes longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bursts {
    per_s: u32,
    length: Duration,
    pause: Duration,
}

/// Requests a second, at most; timers are not more exact.
const RATE_MAX: u64 = 1_000_000;
/// Requests in a burst, at most: a turn holds the figures of some bursts in memory.
const REQUESTS_MAX: u128 = 100_000;
/// A longer burst or pause could not be interrupted soon.
const LONGEST: Duration = Duration::from_secs(10);
/// Requests in a turn if the user gives no number.
const REQUESTS: u32 = 100;
/// The same in bursts: each has only one first request.
const BURSTS: u32 = 10;

impl Bursts {
    /// Requests a second within a burst.
    pub fn per_s(&self) -> u32 {
        self.per_s
    }

    /// From a burst's first request to its end, if answers are in time.
    pub fn length(&self) -> Duration {
        self.length
    }

    /// From the last answer of a burst to the first request of the next, on average.
    pub fn pause(&self) -> Duration {
        self.pause
    }

    /// Requests in each burst: those due within its length; at least 2.
    pub fn requests(&self) -> u32 {
        due_within(self.length, self.per_s) as u32
    }

    /// When a request is due after its burst's first one, which has number 0.
    fn due(&self, nth: u32) -> Duration {
        Duration::from_secs(nth.into()) / self.per_s
    }
}

/// Requests at 0, 1, 2, ... periods that are due before `length` is over.
fn due_within(length: Duration, per_s: u32) -> u128 {
    (length.as_nanos() * u128::from(per_s)).div_ceil(1_000_000_000)
}

impl FromStr for Bursts {
    type Err = String;

    /// `1000/s,100ms,400ms`: requests a second, a burst's length, the pause.
    fn from_str(text: &str) -> Result<Self, String> {
        let parts: Vec<&str> = text.split(',').collect();
        let &[rate, length, pause] = parts.as_slice() else {
            return Err("not RATE,LENGTH,PAUSE, such as 1000/s,100ms,400ms".into());
        };
        let number = rate
            .strip_suffix("/s")
            .ok_or_else(|| format!("rate {rate}: no unit; write {rate}/s"))?;
        let per_s = parse::count(number).map_err(|why| format!("rate {rate}: {why}"))?;
        if !(1..=RATE_MAX).contains(&per_s) {
            return Err(format!("rate {rate}: must be from 1/s to {RATE_MAX}/s"));
        }
        let time = |what: &str, text: &str| match parse::time(text, "100ms") {
            Ok(time) if !time.is_zero() && time <= LONGEST => Ok(time),
            Ok(_) => Err(format!("{what} {text}: must be above 0 and at most 10s")),
            Err(why) => Err(format!("{what} {text}: {why}")),
        };
        let (length, pause) = (time("length", length)?, time("pause", pause)?);
        let per_s = per_s as u32;
        match due_within(length, per_s) {
            0..=1 => Err(format!(
                "{rate} for {length:?} is one request; a burst needs two"
            )),
            2..=REQUESTS_MAX => Ok(Self {
                per_s,
                length,
                pause,
            }),
            requests => Err(format!(
                "{rate} for {length:?} is {requests} requests; a burst has at most {REQUESTS_MAX}"
            )),
        }
    }
}

impl Rhythm {
    /// Requests in a turn: `wanted`, or the usual number; whole bursts.
    pub fn requests(&self, wanted: Option<u32>) -> u32 {
        match self {
            Self::Even(_) => wanted.unwrap_or(REQUESTS),
            Self::Bursts(bursts) => {
                let one = bursts.requests();
                wanted.unwrap_or(BURSTS * one).next_multiple_of(one)
            }
        }
    }

    /// How long so many requests take if answers are in time.
    pub(super) fn expected(&self, requests: u32) -> Duration {
        match self {
            Self::Even(interval) => *interval * requests,
            Self::Bursts(bursts) => {
                (bursts.pause + bursts.length) * requests.div_ceil(bursts.requests())
            }
        }
    }

    /// The mean pause between requests while the machine adapts to a setting: that within a burst.
    pub(super) fn settling(&self) -> Duration {
        match self {
            Self::Even(interval) => *interval,
            Self::Bursts(bursts) => bursts.due(1),
        }
    }
}

/// Sleeps from half to one and a half of `mean`, drawn evenly, so that requests do not keep step with the
/// machine's own timers.
pub(super) fn pause(mean: Duration, random: &mut fastrand::Rng) {
    thread::sleep(mean.mul_f64(0.5 + random.f64()));
}

/// The bursts of a turn.
pub(super) struct Running<'a> {
    bursts: Bursts,
    /// Of the CPU whose sleep in the pauses is counted.
    counts: Option<&'a Counts>,
    began: Instant,
    /// The counts at the beginning of the pause that is not over.
    pause: Option<Count>,
    paused_ns: f64,
    asleep_ns: Option<f64>,
    in_bursts: InBursts,
}

/// How long a CPU has slept until now, ns.
type Count = (Instant, Option<u64>);

impl<'a> Running<'a> {
    pub fn new(bursts: Bursts, counts: Option<&'a Counts>) -> Self {
        Self {
            bursts,
            counts,
            began: Instant::now(),
            pause: None,
            paused_ns: 0.0,
            asleep_ns: Some(0.0),
            in_bursts: InBursts::default(),
        }
    }

    /// Waits until that request of the turn is due, or not at all if it was due earlier.
    pub fn wait(&mut self, request: u32, random: &mut fastrand::Rng) {
        let nth = request % self.bursts.requests();
        if nth == 0 {
            self.pause = Some(self.count());
            pause(self.bursts.pause, random);
            self.began = Instant::now();
            return;
        }
        let due = self.began + self.bursts.due(nth);
        match due.checked_duration_since(Instant::now()) {
            Some(left) => thread::sleep(left),
            None => self.in_bursts.late += 1,
        }
    }

    /// The place of the answered request's figure if it was its burst's first. To be called after each
    /// request: a CPU counts a stay in an idle state when it leaves it, so a pause's sleep is known only then.
    pub fn first(&mut self) -> Option<&mut Vec<f64>> {
        let (began, before) = self.pause.take()?;
        let (ended, after) = self.count();
        self.paused_ns += ended.duration_since(began).as_nanos() as f64;
        let slept = before
            .zip(after)
            .and_then(|(before, after)| after.checked_sub(before));
        self.asleep_ns = self.asleep_ns.zip(slept).map(|(all, one)| all + one as f64);
        Some(&mut self.in_bursts.first)
    }

    pub fn end(mut self) -> InBursts {
        let asleep_ns = self.asleep_ns.filter(|_| self.paused_ns > 0.0);
        // The two clocks differ a little.
        let percent = asleep_ns.map(|asleep_ns| (100.0 * asleep_ns / self.paused_ns).min(100.0));
        self.in_bursts.asleep_percent = percent;
        self.in_bursts
    }

    fn count(&self) -> Count {
        (Instant::now(), self.counts.and_then(Counts::by_states_ns))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use reveille_kernel::{Idle, Root};

    use super::*;

    #[test]
    fn a_burst_has_the_requests_that_are_due_within_its_length() {
        for (text, requests) in [
            ("1000/s,100ms,400ms", 100),
            ("1k/s,1500us,1s", 2),
            ("3/s,1s,1ms", 3),
            ("10/s,101ms,1ms", 2),
        ] {
            let bursts: Bursts = text.parse().unwrap();
            assert_eq!(bursts.requests(), requests, "{text}");
            assert!(bursts.due(requests - 1) < bursts.length(), "{text}");
            assert!(bursts.due(requests) >= bursts.length(), "{text}");
        }
    }

    #[test]
    fn what_is_no_burst_is_refused_with_the_part_that_is_wrong() {
        let said = [
            "1000/s,100ms",
            "1000,100ms,400ms",
            "x/s,100ms,400ms",
            "0/s,100ms,400ms",
            "1000001/s,1ms,400ms",
            "1000/s,0s,400ms",
            "1000/s,100ms,0",
            "1000/s,100ms,11s",
            "1000/s,100,400ms",
            "10/s,100ms,400ms",
            "100k/s,2s,1s",
        ]
        .map(|text| (text, text.parse::<Bursts>().unwrap_err()));
        reveille_snapshot::snapshot!("errors", said);
    }

    /// A CPU with POLL and C1, which slept so long, µs.
    fn asleep(root: &Path, us: u64) {
        let cpus = root.join("sys/devices/system/cpu");
        for (index, name, us) in [(0, "POLL", 1_000_000 + us), (1, "C1", us)] {
            let state = cpus.join(format!("cpu0/cpuidle/state{index}"));
            fs::create_dir_all(&state).unwrap();
            fs::write(state.join("name"), name).unwrap();
            fs::write(state.join("time"), us.to_string()).unwrap();
        }
        fs::write(cpus.join("present"), "0").unwrap();
        fs::write(cpus.join("online"), "0").unwrap();
    }

    #[test]
    fn sleep_counts_from_a_bursts_end_to_the_answer_to_the_next_ones_first_request() {
        let folder = tempfile::tempdir().unwrap();
        asleep(folder.path(), 0);
        let root = Root::at(folder.path());
        let counts = Counts::of(&root, &Idle::read(&root).unwrap(), 0);
        let bursts = "100/s,20ms,100ms".parse().unwrap();
        let mut random = fastrand::Rng::with_seed(1);
        let mut running = Running::new(bursts, Some(&counts));
        let mut slept_us = 0;
        for request in 0..4 {
            running.wait(request, &mut random);
            // Of each pause 20 ms, of which the CPU's counter knows after it woke; as much in a burst.
            slept_us += 20_000;
            asleep(folder.path(), slept_us);
            assert_eq!(running.first().is_some(), request % 2 == 0);
        }
        let paused_ms = running.paused_ns / 1e6;
        assert!((100.0..1000.0).contains(&paused_ms), "{paused_ms}");
        let percent = running.end().asleep_percent.unwrap();
        assert!(
            (percent - 100.0 * 40.0 / paused_ms).abs() < 1e-6,
            "{percent}"
        );
        // Without a CPU nothing is known.
        let mut running = Running::new(bursts, None);
        running.wait(0, &mut random);
        assert!(running.first().is_some());
        assert_eq!(running.end().asleep_percent, None);
    }

    #[test]
    fn a_turn_has_whole_bursts() {
        let bursts = Rhythm::Bursts("100/s,40ms,160ms".parse().unwrap());
        assert_eq!(bursts.requests(None), 40);
        assert_eq!(
            (bursts.requests(Some(1)), bursts.requests(Some(9))),
            (4, 12)
        );
        assert_eq!(bursts.expected(12), Duration::from_millis(600));
        let even = Rhythm::Even(Duration::from_millis(20));
        assert_eq!((even.requests(None), even.requests(Some(7))), (100, 7));
        assert_eq!(even.expected(7), Duration::from_millis(140));
    }
}
