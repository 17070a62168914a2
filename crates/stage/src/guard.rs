//! The deadline guard: how long a server takes to answer a burst, learnt while it answers.
//!
//! Of each burst the guard takes its size (with the requests that the server had already) and the times from its release
//! to each response. A line through sizes and times, in which older bursts fade, gives the time of a burst of any size: a
//! start, and what each further request adds. The time of each request by the line is kept as a ratio; their quantile, at
//! the percentile of the service, widens the line's answer. A deadline that is missed because a request was held widens
//! it further, at once.

use std::collections::VecDeque;
use std::time::Duration;

/// Requests whose ratios are kept.
const RATIOS: usize = 4096;
/// Bursts whose sizes are kept.
const SIZES: usize = 256;
/// Bursts that are learnt before anything is held.
const FIRST: u64 = 20;
/// The line goes through the time in which this share of a burst is answered: all but stragglers.
const TYPICAL: f64 = 0.95;
/// What is left of a burst's weight in the line after the next one: half after 34 bursts.
const FADING: f64 = 0.98;
/// A burst has at most so many times the requests of the largest one that was learnt, as the line is known up to there.
const GROWTH: usize = 2;
/// What a miss multiplies the answers by, and what each burst without one divides that by: half after 350 bursts.
const WIDER: f64 = 1.5;
const NARROWER: f64 = 1.002;
/// The widest.
const WIDEST: f64 = 16.0;

/// What was learnt of a server.
#[derive(Debug, Clone)]
pub struct Guard {
    /// The share of requests that must keep to the deadline, 0 to 1.
    share: f64,
    line: Line,
    /// Bursts that were learnt.
    bursts: u64,
    /// Sizes of the last bursts.
    sizes: VecDeque<usize>,
    /// The longest times of the last bursts, s.
    longest: VecDeque<f64>,
    /// Times of the last requests, by the line's answer then.
    ratios: VecDeque<f64>,
    /// Their upper quantile, not below 1.
    ratio: f64,
    /// 1 and more, by misses.
    wider: f64,
}

impl Guard {
    /// One that knows nothing; `share`, above 0 and below 1, of the requests must keep to the deadline.
    pub fn new(share: f64) -> Self {
        Self {
            share,
            line: Line::default(),
            bursts: 0,
            sizes: VecDeque::new(),
            longest: VecDeque::new(),
            ratios: VecDeque::new(),
            ratio: 1.0,
            wider: 1.0,
        }
    }

    /// Takes a burst of `size` requests, and the times from its release to its responses. Those that failed are not among
    /// them, nor those that others sent before.
    pub fn learn(&mut self, size: usize, mut times: Vec<Duration>) {
        times.sort_unstable();
        let typical = (times.len() as f64 * TYPICAL).ceil() as usize;
        let Some(typical) = typical.checked_sub(1).map(|nth| times[nth].as_secs_f64()) else {
            return;
        };
        // With this burst: one that is far off would count twice, in the line and against it.
        self.line.add(size as f64, typical);
        if let Some(expected) = self.line.at(size).filter(|expected| *expected > 0.0) {
            let ratios = times.iter().map(|time| time.as_secs_f64() / expected);
            self.ratios.extend(ratios);
            let too_many = self.ratios.len().saturating_sub(RATIOS);
            self.ratios.drain(..too_many);
            self.ratio = quantile(&self.ratios, self.share).max(1.0);
        }
        if self.sizes.len() == SIZES {
            self.sizes.pop_front();
        }
        self.sizes.push_back(size);
        if self.longest.len() == SIZES {
            self.longest.pop_front();
        }
        self.longest.extend(times.last().map(Duration::as_secs_f64));
        self.bursts += 1;
        self.wider = (self.wider / NARROWER).max(1.0);
    }

    /// A request missed its deadline because it was held.
    pub fn missed(&mut self) {
        self.wider = (self.wider * WIDER).min(WIDEST);
    }

    /// How long a burst of `size` requests takes, at the service's percentile; `None` if too little is known.
    pub fn time_of(&self, size: usize) -> Option<Duration> {
        if self.bursts < FIRST {
            return None;
        }
        // No longer than was seen, a larger burst by its share.
        let longest = self.longest.iter().copied().fold(0.0, f64::max);
        let largest = self.sizes.iter().max().copied().unwrap_or(1).max(1);
        let most = longest * (size as f64 / largest as f64).max(1.0);
        let time = (self.line.at(size)? * self.ratio).min(most) * self.wider;
        Duration::try_from_secs_f64(time).ok()
    }

    /// The most requests of a burst.
    pub fn largest(&self) -> usize {
        let largest = self.sizes.iter().max().copied();
        largest.unwrap_or(1).saturating_mul(GROWTH)
    }
}

/// The order statistic above which at most the rest of the share is; the largest one where there are too few for that.
fn quantile(values: &VecDeque<f64>, share: f64) -> f64 {
    let mut values: Vec<f64> = values.iter().copied().collect();
    let rank = (values.len() as f64 * share).ceil() as usize;
    let nth = rank.clamp(1, values.len()) - 1;
    *values.select_nth_unstable_by(nth, f64::total_cmp).1
}

/// A line of least squares through sizes and times, in which older points fade.
#[derive(Debug, Clone, Default)]
struct Line {
    weight: f64,
    x: f64,
    y: f64,
    xx: f64,
    xy: f64,
}

impl Line {
    fn add(&mut self, x: f64, y: f64) {
        for (sum, one) in [
            (&mut self.weight, 1.0),
            (&mut self.x, x),
            (&mut self.y, y),
            (&mut self.xx, x * x),
            (&mut self.xy, x * y),
        ] {
            *sum = *sum * FADING + one;
        }
    }

    /// At that size; `None` without a point.
    fn at(&self, size: usize) -> Option<f64> {
        /// Sizes that differ by less carry no slope.
        const SPREAD_MIN: f64 = 0.1;
        if self.weight == 0.0 {
            return None;
        }
        let (x, y) = (self.x / self.weight, self.y / self.weight);
        let variance = self.xx / self.weight - x * x;
        let covariance = self.xy / self.weight - x * y;
        // Without a slope each request takes its turn, as with one worker. More requests do not take less time.
        let slope = match variance > (SPREAD_MIN * x).powi(2) {
            true => (covariance / variance).max(0.0),
            false => y / x,
        };
        let size = size as f64;
        // Between the points the line holds; it does not go below what the smallest took by its share.
        Some((y + slope * (size - x)).max(y * (size / x).min(1.0)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// One after the other: 1 ms, and 2 ms for each request; all of that so many times as long.
    fn served(size: usize, times: u64) -> Vec<Duration> {
        (1..=size as u64)
            .map(|nth| ms(times * (1 + 2 * nth)))
            .collect()
    }

    fn taught(sizes: impl Iterator<Item = usize>) -> Guard {
        let mut guard = Guard::new(0.999);
        for size in sizes {
            guard.learn(size, served(size, 1));
        }
        guard
    }

    #[test]
    fn nothing_is_known_at_first() {
        assert_eq!(Guard::new(0.999).time_of(1), None);
        let taught = |bursts: u64| taught((1..4).cycle().take(bursts as usize)).time_of(1);
        assert_eq!(taught(FIRST - 1), None);
        assert!(taught(FIRST).is_some());
    }

    #[test]
    fn a_line_is_learnt_and_goes_on() {
        let guard = taught((1..=20).cycle().take(400));
        for size in [1, 10, 40] {
            let time = guard.time_of(size).unwrap().as_secs_f64() * 1e3;
            let truth = 1.0 + 2.0 * size as f64;
            // The line goes through the 19th of 20, and the last one is above it.
            assert!((0.95..1.3).contains(&(time / truth)), "{size}: {time} ms");
        }
        assert_eq!(guard.largest(), 40);
    }

    #[test]
    fn requests_of_one_size_take_turns() {
        let guard = taught(std::iter::repeat_n(1, 100));
        assert_eq!(guard.time_of(10).unwrap().as_millis(), 30);
    }

    #[test]
    fn the_answer_covers_the_percentile_of_a_noisy_server() {
        let mut random = fastrand::Rng::with_seed(1);
        let mut guard = Guard::new(0.99);
        let (mut above, mut requests) = (0, 0);
        for nth in 0..20_000 {
            let size = random.usize(1..30);
            // All are served side by side, with a long tail.
            let mut time = || {
                let time = (1.0 + 2.0 * size as f64) * (1.0 - random.f64().max(1e-9).ln() / 4.0);
                Duration::from_secs_f64(time / 1e3)
            };
            let times: Vec<Duration> = (0..size).map(|_| time()).collect();
            if nth >= 1000 {
                let answer = guard.time_of(size).unwrap();
                above += times.iter().filter(|time| **time > answer).count();
                requests += size;
            }
            guard.learn(size, times);
        }
        let share = above as f64 / requests as f64;
        assert!((0.004..0.012).contains(&share), "{share}");
    }

    #[test]
    fn a_miss_widens_at_once_and_is_forgotten() {
        let mut guard = taught((1..=20).cycle().take(100));
        let before = guard.time_of(10).unwrap();
        guard.missed();
        assert!(guard.time_of(10).unwrap() > before.mul_f64(1.45));
        for size in (1..=20).cycle().take(1000) {
            guard.learn(size, served(size, 1));
        }
        assert!(guard.time_of(10).unwrap() < before.mul_f64(1.05));
    }

    #[test]
    fn a_server_that_becomes_slow_is_followed() {
        let mut guard = taught((1..=20).cycle().take(400));
        for size in (1..=20).cycle().take(60) {
            guard.learn(size, served(size, 4));
        }
        assert!(guard.time_of(10).unwrap() >= ms(80));
    }

    #[test]
    fn one_that_is_far_off_counts_once() {
        let mut guard = taught(std::iter::repeat_n(1, 400));
        guard.learn(1, vec![ms(3000)]);
        // Not a thousand times that.
        assert!(
            guard.time_of(1).unwrap() <= ms(3000),
            "{:?}",
            guard.time_of(1)
        );
        for _ in 0..1000 {
            guard.learn(1, served(1, 1));
        }
        assert!(guard.time_of(1).unwrap() < ms(10), "{:?}", guard.time_of(1));
    }

    proptest! {
        #[test]
        fn any_bursts_give_a_time_that_is_finite(bursts in proptest::collection::vec((1_usize..5000, 0_u64..1 << 40), 0..100), size in 1_usize..100_000) {
            let mut guard = Guard::new(0.9);
            for (size, time) in bursts {
                guard.learn(size, vec![Duration::from_nanos(time); size % 7]);
            }
            guard.missed();
            prop_assert!(guard.time_of(size).is_none_or(|time| time < Duration::from_secs(1 << 40)));
            prop_assert!(guard.ratio.is_finite());
        }
    }
}
