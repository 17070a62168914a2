//! Launch distances: the time from arming an event to its launch time.

use std::ops::RangeInclusive;

use reveille_show::quantity::nanoseconds;

use crate::{Error, Result};

/// Valid launch distances, ns. Below, arming takes longer than waiting; above, a run would gather
/// almost no datapoints.
pub const LIMITS_NS: RangeInclusive<u64> = 5_000..=1_000_000_000;

/// How many distances are drawn and used cyclically: DISTANCES of `intf.h`.
pub const DRAWN: usize = 8192;

/// The most steps of a sweep, each with its own start and stop; the thesis has 35.
pub const MOST_STEPS: usize = 1000;

/// A range of launch distances, ns; `min == max` is a fixed distance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Distances {
    /// The minimum, ns; above 0.
    pub min_ns: u64,
    /// The maximum, ns.
    pub max_ns: u64,
}

impl Distances {
    /// # Errors
    /// If the minimum is 0 or above the maximum.
    pub fn new(min_ns: u64, max_ns: u64) -> Result<Self> {
        if min_ns == 0 {
            return Err(Error::Usage(
                "invalid launch distance: the minimum must be above 0".into(),
            ));
        }
        if min_ns > max_ns {
            return Err(Error::Usage(format!(
                "invalid launch distance: the minimum, {}, is above the maximum, {}",
                nanoseconds(min_ns as i64),
                nanoseconds(max_ns as i64)
            )));
        }
        Ok(Self { min_ns, max_ns })
    }

    /// `count` distances, drawn log-uniformly, so that short and long silent times are equally well
    /// covered. The same seed gives the same distances.
    pub fn draw(&self, count: usize, seed: u64) -> Vec<u64> {
        let (low, high) = ((self.min_ns as f64).ln(), (self.max_ns as f64).ln());
        let mut random = fastrand::Rng::with_seed(seed);
        (0..count)
            .map(|_| {
                let distance = (low + (high - low) * random.f64()).exp().round() as u64;
                distance.clamp(self.min_ns, self.max_ns)
            })
            .collect()
    }

    /// The mean of log-uniform distances, ns: `(max - min) / ln(max / min)`.
    pub fn mean_ns(&self) -> f64 {
        if self.min_ns == self.max_ns {
            return self.min_ns as f64;
        }
        let (min, max) = (self.min_ns as f64, self.max_ns as f64);
        (max - min) / (max / min).ln()
    }

    /// The thesis's protocol: fixed distances from `min_ns`, each `factor` times the previous one,
    /// up to `max_ns`.
    ///
    /// # Errors
    /// [`Error::Usage`] if the factor makes no steps, or more than 1000.
    pub fn steps(&self, factor: f64) -> Result<Vec<u64>> {
        let (min, max) = (self.min_ns as f64, self.max_ns as f64);
        let count = 1.0 + ((max / min).ln() / factor.ln()).floor();
        if !(factor > 1.0 && factor.is_finite()) || count > MOST_STEPS as f64 {
            return Err(Error::Usage(format!(
                "invalid sweep: a factor of {factor} between {} µs and {} µs makes {}; it must be \
                 above 1 and make at most {MOST_STEPS} steps",
                min / 1e3,
                max / 1e3,
                match factor > 1.0 && factor.is_finite() {
                    true => format!("{count} steps"),
                    false => "no sweep".into(),
                }
            )));
        }
        let mut steps = Vec::new();
        let mut distance = self.min_ns as f64;
        while distance <= self.max_ns as f64 {
            steps.push(distance.round() as u64);
            distance *= factor;
        }
        Ok(steps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_decade_is_equally_likely() {
        let drawn = Distances::new(1_000, 1_000_000).unwrap().draw(30_000, 7);
        let decade = |low, high| drawn.iter().filter(|&&d| d >= low && d < high).count();
        for (low, high) in [(1_000, 10_000), (10_000, 100_000), (100_000, 1_000_000)] {
            let count = decade(low, high);
            // 10 000 expected, standard deviation 82.
            assert!((9_600..10_400).contains(&count), "{low}..{high}: {count}");
        }
    }

    #[test]
    fn the_computed_mean_is_the_mean_of_drawn_distances() {
        let distances = Distances::new(100_000, 8_000_000).unwrap();
        let drawn = distances.draw(100_000, 1);
        let mean = drawn.iter().sum::<u64>() as f64 / drawn.len() as f64;
        assert!((mean / distances.mean_ns() - 1.0).abs() < 0.02, "{mean}");
    }

    #[test]
    fn the_same_seed_draws_the_same_distances() {
        let distances = Distances::new(100, 10_000).unwrap();
        assert_eq!(distances.draw(100, 5), distances.draw(100, 5));
        assert_ne!(distances.draw(100, 5), distances.draw(100, 6));
    }

    #[test]
    fn the_thesis_takes_35_steps_from_300_us_to_8_ms() {
        let steps = Distances::new(300_000, 8_000_000)
            .unwrap()
            .steps(1.1)
            .unwrap();
        assert_eq!(steps.len(), 35);
        assert_eq!(steps[1], 330_000);
        assert!(*steps.last().unwrap() <= 8_000_000);
    }

    #[test]
    fn an_invalid_factor_or_too_many_steps_is_refused() {
        let distances = Distances::new(300_000, 8_000_000).unwrap();
        for factor in [1.000000001, 1.003, 1.0, 0.5, -2.0, f64::NAN, f64::INFINITY] {
            let error = distances.steps(factor).unwrap_err().to_string();
            assert!(error.contains("sweep"), "{factor}: {error}");
        }
        let least = (8.0f64 / 0.3).ln() / (MOST_STEPS as f64 - 0.5);
        let most = distances.steps(least.exp()).unwrap();
        assert_eq!(most.len(), MOST_STEPS);
    }

    #[test]
    fn an_inverted_range_or_one_from_zero_is_refused() {
        assert!(Distances::new(2, 1).is_err());
        assert!(Distances::new(0, 1).is_err());
    }
}
