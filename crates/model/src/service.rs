//! Distributions of service times.

use reveille_show::quantity::digits;
use serde::{Deserialize, Serialize};

use crate::{Error, Result, seconds};

/// How long a server works on a request when it does nothing else, in seconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "distribution", rename_all = "snake_case", deny_unknown_fields)]
pub enum Service {
    /// The times' spread is as large as their mean.
    Exponential {
        /// Seconds.
        #[serde(rename(serialize = "mean_s"), deserialize_with = "seconds::read")]
        mean: f64,
    },
    /// Every request takes the same.
    Deterministic {
        /// Seconds.
        #[serde(rename(serialize = "mean_s"), deserialize_with = "seconds::read")]
        mean: f64,
    },
    /// Few requests take much longer than most.
    Lognormal {
        /// Seconds.
        #[serde(rename(serialize = "mean_s"), deserialize_with = "seconds::read")]
        mean: f64,
        /// The coefficient of variation: standard deviation by mean.
        cv: f64,
    },
    /// Between deterministic and exponential where `cv` is below 1, beyond where it is above.
    Gamma {
        /// Seconds.
        #[serde(rename(serialize = "mean_s"), deserialize_with = "seconds::read")]
        mean: f64,
        /// The coefficient of variation: standard deviation by mean.
        cv: f64,
    },
    /// As measured: each value as likely as another.
    Empirical {
        /// Seconds each; at least one.
        #[serde(rename(serialize = "values_s"), deserialize_with = "seconds::read_all")]
        values: Vec<f64>,
    },
}

impl Service {
    /// E\[S\], in seconds.
    pub fn mean(&self) -> f64 {
        match self {
            Service::Exponential { mean }
            | Service::Deterministic { mean }
            | Service::Lognormal { mean, .. }
            | Service::Gamma { mean, .. } => *mean,
            Service::Empirical { values } => values.iter().sum::<f64>() / values.len() as f64,
        }
    }

    /// The load ρ at `rate` requests a second: the share of time that serving takes at full speed.
    pub fn load(&self, rate: f64) -> f64 {
        rate * self.mean()
    }

    /// The load, where it is below 1.
    pub(crate) fn stable_load(&self, rate: f64) -> Result<f64> {
        let load = self.load(rate);
        match load < 1.0 {
            true => Ok(load),
            false => Err(Error::Unstable {
                load,
                hint: format!(
                    ": with {} s a request that is fewer than {} requests a second",
                    digits(self.mean()),
                    digits(1.0 / self.mean())
                ),
            }),
        }
    }

    /// E\[S²\], in seconds squared.
    pub(crate) fn second_moment(&self) -> f64 {
        match self {
            Service::Empirical { values } => {
                values.iter().map(|value| value * value).sum::<f64>() / values.len() as f64
            }
            _ => {
                let (mean, cv) = (self.mean(), self.cv());
                mean * mean * (1.0 + cv * cv)
            }
        }
    }

    /// The distribution's name, as parameter files have it.
    pub fn name(&self) -> &'static str {
        match self {
            Service::Exponential { .. } => "exponential",
            Service::Deterministic { .. } => "deterministic",
            Service::Lognormal { .. } => "lognormal",
            Service::Gamma { .. } => "gamma",
            Service::Empirical { .. } => "empirical",
        }
    }

    /// Standard deviation by mean.
    pub fn cv(&self) -> f64 {
        match self {
            Service::Exponential { .. } => 1.0,
            Service::Deterministic { .. } => 0.0,
            Service::Lognormal { cv, .. } | Service::Gamma { cv, .. } => *cv,
            Service::Empirical { .. } => {
                let mean = self.mean();
                (self.second_moment() / (mean * mean) - 1.0).max(0.0).sqrt()
            }
        }
    }

    /// # Errors
    /// [`Error::Usage`] unless the mean is from 1e-12 s to 1e9 s, a coefficient of variation from 0 to
    /// 1000, and measured values are there and from 0 to 1e9 s. Beyond, squares and their ratios are
    /// no numbers any more.
    pub fn check(&self) -> Result<()> {
        if let Service::Empirical { values } = self {
            ensure!(
                !values.is_empty(),
                "service time: no measured value given; give at least one"
            );
            for value in values {
                ensure!(
                    (0.0..=LONGEST).contains(value),
                    "service time: a measured value is {value:?} s; give 0 to {LONGEST:e} s"
                );
            }
        }
        if let Service::Lognormal { cv, .. } | Service::Gamma { cv, .. } = self {
            ensure!(
                (0.0..=MOST_CV).contains(cv),
                "service time: the coefficient of variation is {cv:?}; give 0 to {MOST_CV}"
            );
        }
        let mean = self.mean();
        ensure!(
            (SHORTEST..=LONGEST).contains(&mean),
            "service time: the mean is {mean:?} s; give a time above 0, up to {LONGEST:e} s"
        );
        Ok(())
    }
}

/// Of a mean, in seconds.
const SHORTEST: f64 = 1e-12;
/// Seconds: thirty years.
const LONGEST: f64 = 1e9;
const MOST_CV: f64 = 1000.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_distribution_has_its_name_and_moments() {
        let (mean, cv) = (0.5, 3.0);
        // (1 + 1 + 4 + 4 + 2) / 5 = 2.4 and (1 + 1 + 16 + 16 + 4) / 5 = 7.6.
        let values = vec![1.0, 1.0, 4.0, 4.0, 2.0];
        let spread = (7.6f64 / 5.76 - 1.0).sqrt();
        for (service, name, moments) in [
            (
                Service::Exponential { mean },
                "exponential",
                [0.5, 0.5, 1.0],
            ),
            (
                Service::Deterministic { mean },
                "deterministic",
                [0.5, 0.25, 0.0],
            ),
            (
                Service::Lognormal { mean, cv },
                "lognormal",
                [0.5, 2.5, 3.0],
            ),
            (Service::Gamma { mean, cv }, "gamma", [0.5, 2.5, 3.0]),
            (
                Service::Empirical { values },
                "empirical",
                [2.4, 7.6, spread],
            ),
        ] {
            assert_eq!(service.name(), name);
            let found = [service.mean(), service.second_moment(), service.cv()];
            for (value, expected) in found.into_iter().zip(moments) {
                assert!(
                    (value - expected).abs() < 1e-12,
                    "{name}: {value}, {expected}"
                );
            }
        }
        // Rounding makes the square of the deviation no less than 0.
        let alike = Service::Empirical {
            values: vec![0.1; 3],
        };
        assert!(alike.cv() < 1e-7);
    }

    #[test]
    fn service_times_have_their_limits() {
        let empirical = |values: &[f64]| Service::Empirical {
            values: values.to_vec(),
        };
        let (mean, cv) = (1.0, 1000.0);
        let said = [
            Service::Exponential { mean: 1e-12 },
            Service::Deterministic { mean: 1e9 },
            Service::Lognormal { mean, cv: 0.0 },
            Service::Gamma { mean, cv },
            empirical(&[0.0, 1e9]),
            Service::Exponential { mean: 0.0 },
            Service::Gamma { mean: 1.001e9, cv },
            Service::Lognormal { mean, cv: -0.1 },
            Service::Gamma { mean, cv: 1000.5 },
            empirical(&[]),
            empirical(&[0.5, -0.5]),
            empirical(&[0.0, 0.0]),
        ]
        .map(|service| (format!("{service:?}"), format!("{:?}", service.check())));
        reveille_snapshot::snapshot!("errors", said);
    }
}
