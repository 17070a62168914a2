//! Distributions of service times.

use serde::{Deserialize, Serialize};

/// How long a server works on a request when it does nothing else, in seconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "distribution", rename_all = "snake_case", deny_unknown_fields)]
pub enum Service {
    Exponential {
        mean: f64,
    },
    Deterministic {
        mean: f64,
    },
    /// `cv` is the coefficient of variation: standard deviation by mean.
    Lognormal {
        mean: f64,
        cv: f64,
    },
    Gamma {
        mean: f64,
        cv: f64,
    },
    /// As measured: each value as likely as another.
    Empirical {
        values: Vec<f64>,
    },
}

impl Service {
    /// E[S], in seconds.
    pub fn mean(&self) -> f64 {
        match self {
            Service::Exponential { mean }
            | Service::Deterministic { mean }
            | Service::Lognormal { mean, .. }
            | Service::Gamma { mean, .. } => *mean,
            Service::Empirical { values } => values.iter().sum::<f64>() / values.len() as f64,
        }
    }

    /// E[S²], in seconds squared.
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
}
