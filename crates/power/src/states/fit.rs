//! The line of a round, and the crossing of two.

use reveille_figures::rounds::Estimate;
use reveille_figures::student;
use serde::{Deserialize, Serialize};

/// The power of a state over its entries.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Line {
    /// Without entries, W.
    pub power_w: f64,
    /// J of an entry.
    pub entry_j: f64,
}

impl Line {
    /// The least squares line through (entries/s, W); `None` of fewer than two different rates.
    pub fn through(points: &[(f64, f64)]) -> Option<Self> {
        let count = points.len() as f64;
        let mean_x = points.iter().map(|(x, _)| x).sum::<f64>() / count;
        let mean_y = points.iter().map(|(_, y)| y).sum::<f64>() / count;
        let square: f64 = points.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
        let product: f64 = points
            .iter()
            .map(|(x, y)| (x - mean_x) * (y - mean_y))
            .sum();
        (square > 0.0).then(|| Self {
            power_w: mean_y - product / square * mean_x,
            entry_j: product / square,
        })
    }

    /// Of a state that polls: nothing is entered, and the entries that cpuidle counts are the poll loop's own time
    /// limit as well as wake-ups. `None` of no point.
    pub fn flat(points: &[(f64, f64)]) -> Option<Self> {
        let count = points.len() as f64;
        (!points.is_empty()).then(|| Self {
            power_w: points.iter().map(|(_, y)| y).sum::<f64>() / count,
            entry_j: 0.0,
        })
    }
}

/// From which stay on the deeper of two states takes less.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BreakEven {
    /// µs; `None` if the data carry only a bound.
    pub estimate_us: Option<f64>,
    /// The interval's lower end, µs; `None` with too few rounds.
    pub low_us: Option<f64>,
    /// The interval's upper end, µs; `None` if it is open, or with too few rounds.
    pub high_us: Option<f64>,
    /// Rounds with both states.
    pub rounds: u64,
}

/// As all other intervals over rounds.
const ROUNDS_MIN: usize = 6;

/// The sum over rounds by their number less one.
fn one_less(rounds: &[(Line, Line)], of: &dyn Fn(&(Line, Line)) -> f64) -> f64 {
    rounds.iter().map(of).sum::<f64>() / (rounds.len() as f64 - 1.0)
}

impl BreakEven {
    /// By each round's lines of the shallower and the deeper state, with `cpus` CPUs that were woken together. `None`
    /// without rounds.
    ///
    /// It is the ratio of two means over rounds, with Fieller's interval ("Some Problems in Interval Estimation",
    /// Journal of the Royal Statistical Society B 16, 1954), which is open where the state is not shown to save.
    pub fn of(rounds: &[(Line, Line)], cpus: usize) -> Option<Self> {
        let count = rounds.len() as f64;
        // What entries cost more, in W for each µs between them; what staying saves, in W.
        let costs =
            |(shallow, deep): &(Line, Line)| 1e6 * cpus as f64 * (deep.entry_j - shallow.entry_j);
        let saves = |(shallow, deep): &(Line, Line)| shallow.power_w - deep.power_w;
        let mean = |of: &dyn Fn(&(Line, Line)) -> f64| rounds.iter().map(of).sum::<f64>() / count;
        let (cost, save) = (mean(&costs), mean(&saves));
        // Of the means.
        let variance = |one: &dyn Fn(&(Line, Line)) -> f64| one_less(rounds, one) / count;
        let covariance = variance(&|round| (costs(round) - cost) * (saves(round) - save));
        let cost_variance = variance(&|round| (costs(round) - cost).powi(2));
        let save_variance = variance(&|round| (saves(round) - save).powi(2));
        let mut even = Self {
            // A stay is not negative: a deeper state that costs no more pays at once.
            estimate_us: (save > 0.0).then(|| (cost / save).max(0.0)),
            low_us: None,
            high_us: None,
            rounds: rounds.len() as u64,
        };
        if rounds.len() >= ROUNDS_MIN {
            let t2 = student::quantile(count - 1.0).powi(2);
            let a = save.powi(2) - t2 * save_variance;
            let b = cost * save - t2 * covariance;
            let c = cost.powi(2) - t2 * cost_variance;
            let square = b * b - a * c;
            // All that is not excluded: between the roots, or outside of them where a is below zero. A root of less than zero: nothing is.
            match a > 0.0 {
                true if save > 0.0 => {
                    let root = square.max(0.0).sqrt();
                    even.low_us = Some(((b - root) / a).max(0.0));
                    even.high_us = Some(((b + root) / a).max(0.0));
                }
                true => {}
                false => {
                    let root = square.sqrt();
                    let low = Some((b - root) / a);
                    even.low_us = low.filter(|low| *low > 0.0 && (b + root) / a <= 0.0);
                }
            }
        }
        (!rounds.is_empty()).then_some(even)
    }

    /// An estimate that the rounds show: its interval has an end, and begins above 0, unless it is all 0. Where it begins
    /// at 0, it is not shown that an entry costs anything, and the estimate in its middle is of noise.
    pub fn known(&self) -> Option<Estimate> {
        let is_shown = |(low, high)| low > 0.0 || high <= 0.0;
        self.carried()
            .filter(|all| all.interval.is_some_and(is_shown))
    }

    /// An estimate with both ends.
    pub fn carried(&self) -> Option<Estimate> {
        Some(Estimate {
            estimate: self.estimate_us?,
            interval: Some((self.low_us?, self.high_us?)),
            rounds: self.rounds,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_that_of_its_points() {
        let line = Line::through(&[(100.0, 21.0), (1000.0, 30.0), (2000.0, 40.0)]).unwrap();
        assert!((line.power_w - 20.0).abs() < 1e-9 && (line.entry_j - 0.01).abs() < 1e-12);
        assert_eq!(Line::through(&[(100.0, 21.0)]), None);
        assert_eq!(Line::through(&[(100.0, 21.0), (100.0, 22.0)]), None);
    }

    #[test]
    fn the_interval_has_the_truth_in_95_of_100_runs() {
        let mut random = fastrand::Rng::with_seed(3);
        let mut noisy = |(power_w, entry_j): (f64, f64)| {
            let points: Vec<(f64, f64)> = [200.0, 2000.0, 4000.0, 8000.0]
                .into_iter()
                .map(|rate| {
                    let noise: f64 = (0..12).map(|_| random.f64()).sum::<f64>() - 6.0;
                    (rate, (power_w + entry_j * rate) * (1.0 + 0.01 * noise))
                })
                .collect();
            Line::through(&points).unwrap()
        };
        let runs = 1000;
        let hits = (0..runs).filter(|_| {
            let rounds: Vec<(Line, Line)> = (0..10)
                .map(|_| (noisy((60.0, 0.0005)), noisy((40.0, 0.0010))))
                .collect();
            let even = BreakEven::of(&rounds, 4).unwrap();
            let is_above = even.low_us.is_none_or(|low_us| low_us <= 100.0);
            is_above && even.high_us.is_none_or(|high_us| high_us >= 100.0)
        });
        let hits = hits.count();
        // Three standard deviations of a share of 95%.
        assert!((930..=970).contains(&hits), "{hits} of {runs}");
    }

    #[test]
    fn a_break_even_is_a_crossing_and_open_where_nothing_is_saved() {
        let line = |power_w, entry_j| Line { power_w, entry_j };
        // 2 CPUs, 10 mJ more for 40 W less: 500 µs.
        let round = (line(60.0, 0.002), line(20.0, 0.012));
        let same = BreakEven::of(&[round; 6], 2).unwrap();
        assert!((same.estimate_us.unwrap() - 500.0).abs() < 1e-6, "{same:?}");
        let all = same.carried().unwrap();
        assert!(
            all.interval.unwrap().1 - all.interval.unwrap().0 < 1e-3,
            "{same:?}"
        );
        assert_eq!(
            BreakEven::of(&[round; 5], 2).unwrap().carried(),
            None,
            "too few rounds"
        );
        // Costs of 20 mW/µs; saves of 1 to 6 W, and of -2 to 9 W: a mean of 3.5 W, which may be zero.
        let saving = |watts: f64| (line(20.0 + watts, 0.002), line(20.0, 0.012));
        let some: Vec<_> = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0].map(saving).into();
        let some = BreakEven::of(&some, 2).unwrap().carried().unwrap();
        // The mean's standard error is 0.764 W, and t of 5 degrees of freedom 2.571: from 1.536 to 5.464 W.
        let (low, high) = some.interval.unwrap();
        assert!((some.estimate - 20e3 / 3.5).abs() < 1e-6, "{some:?}");
        assert!(
            (low - 20e3 / 5.464).abs() < 2.0 && (high - 20e3 / 1.536).abs() < 10.0,
            "{some:?}"
        );
        let open: Vec<_> = [-2.0, 0.0, 3.0, 4.0, 7.0, 9.0].map(saving).into();
        let open = BreakEven::of(&open, 2).unwrap();
        // From -0.84 to 7.84 W: 2.55 ms and more, or never.
        assert_eq!((open.high_us, open.carried()), (None, None));
        assert!(
            (open.low_us.unwrap() - 20e3 / 7.84).abs() < 20.0,
            "{open:?}"
        );
        let never: Vec<_> = [-1.0, -2.0, -1.0, -2.0, -1.0, -2.0].map(saving).into();
        let never = BreakEven::of(&never, 2).unwrap();
        assert_eq!(
            (never.estimate_us, never.low_us, never.high_us),
            (None, None, None)
        );
        let free = (line(60.0, 0.002), line(20.0, 0.001));
        assert_eq!(BreakEven::of(&[free; 6], 2).unwrap().estimate_us, Some(0.0));
        assert_eq!(BreakEven::of(&[], 2), None);
    }
}
