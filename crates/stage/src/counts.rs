//! The account of a service: requests, what became of them, and what holding them cost.

use std::sync::Mutex;
use std::time::Duration;

use serde::Serialize;

use crate::queue::Passed;

/// Upper ends of the histograms' buckets, s.
pub const LIMITS_S: [f64; 13] = [
    0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0,
];

/// A service as it is now.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Served {
    /// Its name.
    pub name: String,
    /// Requests that are held for its servers' machines now.
    pub held_now: usize,
    /// Requests that these machines have to answer now.
    pub open_now: usize,
    /// How long one request takes at the service's percentile, as learnt, s; `None` if that is not known yet.
    pub one_request_s: Option<f64>,
    /// How long held requests were held, mean, s; `None` of none.
    pub held_mean_s: Option<f64>,
    /// From a request's arrival to its response's headers, mean, s; `None` of none.
    pub latency_mean_s: Option<f64>,
    /// Since it began.
    #[serde(flatten)]
    pub counts: Counts,
}

/// Counts of a service since it began.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Counts {
    /// Requests that came.
    pub requests: u64,
    /// Of them, those that were held.
    pub held: u64,
    /// Not held, as too little was known of the server.
    pub passed_learning: u64,
    /// Not held, as the server was awake.
    pub passed_awake: u64,
    /// Not held, as that would have broken the deadline.
    pub passed_deadline: u64,
    /// Not held, as the server was busy for most of its time.
    pub passed_busy: u64,
    /// Not held, by the user's wish.
    pub passed_exempt: u64,
    /// Times that the held requests of its servers' machines were released.
    pub bursts: u64,
    /// Of these times, those before they had to go: their server ran for others.
    pub early: u64,
    /// Requests that the server did not answer.
    pub failed: u64,
    /// Responses that the server broke off.
    pub broken: u64,
    /// Requests that are none, or whose body broke off.
    pub refused: u64,
    /// Requests whose client went while they were held.
    pub gone: u64,
    /// Answered after the deadline, which they would have kept if they had not been held.
    pub missed: u64,
    /// Answered after the deadline, which they would not have kept either if they had not been held.
    pub late: u64,
    /// How long requests were held.
    pub held_s: Histogram,
    /// From a request's arrival to its response's headers.
    pub latency_s: Histogram,
}

/// How many values are in which bucket.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Histogram {
    /// In each of [`LIMITS_S`], and above.
    pub counts: [u64; LIMITS_S.len() + 1],
    /// Of all values, s.
    pub sum: f64,
}

impl Histogram {
    fn add(&mut self, value: Duration) {
        let value = value.as_secs_f64();
        let bucket = LIMITS_S.partition_point(|limit| *limit < value);
        self.counts[bucket] += 1;
        self.sum += value;
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Their mean, s; `None` of none.
    pub fn mean(&self) -> Option<f64> {
        match self.count() {
            0 => None,
            count => Some(self.sum / count as f64),
        }
    }

    /// Pairs of a limit and how many values are not above it.
    pub fn below(&self) -> impl Iterator<Item = (f64, u64)> + '_ {
        let sums = self.counts.iter().scan(0, |sum, count| {
            *sum += count;
            Some(*sum)
        });
        LIMITS_S.into_iter().zip(sums)
    }
}

/// An answered request.
#[derive(Debug, Clone, Copy)]
pub struct Answered {
    /// From its arrival to the response's headers.
    pub latency: Duration,
    /// Of that, held.
    pub held: Duration,
    /// What it had.
    pub deadline: Duration,
}

impl Answered {
    /// Did it miss its deadline because it was held?
    pub fn missed(&self) -> bool {
        self.is_late() && self.latency.saturating_sub(self.held) <= self.deadline
    }

    fn is_late(&self) -> bool {
        self.latency > self.deadline
    }
}

/// A request that has come: dropped before it may go, its client is gone.
#[derive(Debug)]
pub struct Coming<'a> {
    account: Option<&'a Account>,
}

impl Coming<'_> {
    /// It goes, or is answered here.
    pub fn stays(mut self) {
        self.account = None;
    }
}

impl Drop for Coming<'_> {
    fn drop(&mut self) {
        if let Some(account) = self.account {
            account.with(|counts| counts.gone += 1);
        }
    }
}

/// Counts that are added to.
#[derive(Debug, Default)]
pub struct Account(Mutex<Counts>);

impl Account {
    /// A request comes.
    pub fn comes(&self) -> Coming<'_> {
        self.with(|counts| counts.requests += 1);
        Coming {
            account: Some(self),
        }
    }

    /// It is none.
    pub fn refuses(&self) {
        self.with(|counts| counts.refused += 1);
    }

    /// Its response broke off.
    pub fn breaks(&self) {
        self.with(|counts| counts.broken += 1);
    }

    /// It may go; `passed` is why it was not held.
    pub fn goes(&self, passed: Option<Passed>, held: Duration) {
        self.with(|counts| {
            *match passed {
                None => &mut counts.held,
                Some(Passed::Learning) => &mut counts.passed_learning,
                Some(Passed::Awake) => &mut counts.passed_awake,
                Some(Passed::Deadline) => &mut counts.passed_deadline,
                Some(Passed::Busy) => &mut counts.passed_busy,
                Some(Passed::Exempt) => &mut counts.passed_exempt,
            } += 1;
            if passed.is_none() {
                counts.held_s.add(held);
            }
        });
    }

    /// The held requests of a machine go.
    pub fn bursts(&self) {
        self.with(|counts| counts.bursts += 1);
    }

    /// They go before they had to.
    pub fn early(&self) {
        self.with(|counts| counts.early += 1);
    }

    /// It is answered.
    pub fn answered(&self, answered: Answered) {
        self.with(|counts| {
            counts.latency_s.add(answered.latency);
            counts.missed += u64::from(answered.missed());
            counts.late += u64::from(answered.is_late() && !answered.missed());
        });
    }

    /// The server does not answer it.
    pub fn fails(&self) {
        self.with(|counts| counts.failed += 1);
    }

    /// As they are now.
    pub fn now(&self) -> Counts {
        self.with(|counts| counts.clone())
    }

    fn with<T>(&self, change: impl FnOnce(&mut Counts) -> T) -> T {
        change(&mut self.0.lock().expect("nothing panics with it"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_is_missed_by_whom_it_is() {
        let ms = Duration::from_millis;
        let of = |latency: u64, held: u64| {
            let account = Account::default();
            account.answered(Answered {
                latency: ms(latency),
                held: ms(held),
                deadline: ms(500),
            });
            let counts = account.now();
            (counts.missed, counts.late)
        };
        assert_eq!(
            (of(500, 400), of(501, 1), of(900, 399)),
            ((0, 0), (1, 0), (0, 1))
        );
    }

    #[test]
    fn a_histogram_has_each_value_once() {
        let mut histogram = Histogram::default();
        for ms in [0, 1, 2, 3, 20_000] {
            histogram.add(Duration::from_millis(ms));
        }
        let below: Vec<(f64, u64)> = histogram.below().take(3).collect();
        assert_eq!(below, [(0.001, 2), (0.002, 3), (0.005, 4)]);
        assert_eq!(
            (histogram.count(), histogram.below().last()),
            (5, Some((10.0, 4)))
        );
    }
}
