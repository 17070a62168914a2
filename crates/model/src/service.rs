//! Distributions of service times.

use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// How long a server works on a request when it does nothing else, in seconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "distribution", rename_all = "snake_case", deny_unknown_fields)]
pub enum Service {
    Exponential {
        #[serde(rename = "mean_s")]
        mean: f64,
    },
    Deterministic {
        #[serde(rename = "mean_s")]
        mean: f64,
    },
    /// `cv` is the coefficient of variation: standard deviation by mean.
    Lognormal {
        #[serde(rename = "mean_s")]
        mean: f64,
        cv: f64,
    },
    Gamma {
        #[serde(rename = "mean_s")]
        mean: f64,
        cv: f64,
    },
    /// As measured: each value as likely as another.
    Empirical {
        #[serde(rename = "values_s")]
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

    /// E\[S²\], in seconds squared.
    pub fn second_moment(&self) -> f64 {
        match self {
            Service::Exponential { mean } => 2.0 * mean * mean,
            Service::Deterministic { mean } => mean * mean,
            Service::Lognormal { mean, cv } | Service::Gamma { mean, cv } => {
                mean * mean * (1.0 + cv * cv)
            }
            Service::Empirical { values } => {
                values.iter().map(|value| value * value).sum::<f64>() / values.len() as f64
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
    /// [`Error::Usage`] unless the mean is above 0, a coefficient of variation 0 or above, and
    /// measured values are there and 0 or above.
    pub fn check(&self) -> Result<()> {
        if let Service::Empirical { values } = self {
            if values.is_empty() {
                return Err(Error::Usage(
                    "service time: there is no measured value; give at least one".into(),
                ));
            }
            if let Some(value) = values.iter().find(|value| !not_negative(**value)) {
                return Err(Error::Usage(format!(
                    "service time: a measured value is {value} s; give 0 or above"
                )));
            }
        }
        if let Service::Lognormal { cv, .. } | Service::Gamma { cv, .. } = self
            && !not_negative(*cv)
        {
            return Err(Error::Usage(format!(
                "service time: the coefficient of variation is {cv}; give 0 or above"
            )));
        }
        let mean = self.mean();
        match mean > 0.0 && mean.is_finite() {
            true => Ok(()),
            false => Err(Error::Usage(format!(
                "service time: the mean is {mean} s; give a time above 0"
            ))),
        }
    }
}

fn not_negative(value: f64) -> bool {
    value >= 0.0 && value.is_finite()
}
