//! What is simulated, beyond what closed forms take: `[simulation]`.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::Result;
use crate::seconds;
use crate::simulate::{Arrivals, Dispatcher};

/// How requests come, at the rate that the load asks for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Process {
    /// Exponential times between requests.
    Poisson,
    /// Evenly spaced.
    Deterministic,
    /// Independent gamma times between requests.
    Gamma {
        /// Their coefficient of variation.
        cv: f64,
    },
    /// Independent lognormal times between requests.
    Lognormal {
        /// Their coefficient of variation.
        cv: f64,
    },
    /// Independent times between requests, either of two exponentials.
    Hyperexponential {
        /// Their coefficient of variation: 1 or above.
        cv: f64,
    },
    /// A Poisson process whose rate changes between two.
    Bursty {
        /// By each other: their mean is what the load asks for.
        rates: [f64; 2],
        /// Seconds that each lasts in the mean.
        #[serde(rename(deserialize = "stays"), deserialize_with = "seconds::read_two")]
        stays_s: [f64; 2],
    },
}

impl Process {
    /// # Errors
    /// [`crate::Error::Usage`] for an invalid figure.
    pub fn check(&self) -> Result<()> {
        match *self {
            // As they are written: scaled, two that are 0 are no numbers.
            Self::Bursty {
                rates,
                stays_s: stays,
            } => Arrivals::Bursty { rates, stays }.check(),
            _ => self.at(1.0).check(),
        }
    }

    /// With so many requests a second in the mean.
    pub fn at(&self, rate: f64) -> Arrivals {
        match *self {
            Self::Poisson => Arrivals::Poisson { rate },
            Self::Deterministic => Arrivals::Deterministic { rate },
            Self::Gamma { cv } => Arrivals::Gamma { rate, cv },
            Self::Lognormal { cv } => Arrivals::Lognormal { rate, cv },
            Self::Hyperexponential { cv } => Arrivals::Hyperexponential { rate, cv },
            Self::Bursty {
                rates,
                stays_s: stays,
            } => {
                let scale = rate / Arrivals::Bursty { rates, stays }.rate();
                let rates = rates.map(|rate| rate * scale);
                Arrivals::Bursty { rates, stays }
            }
        }
    }
}

/// The settings of `[simulation]`, or of the command line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub struct Simulation {
    /// Behind the dispatcher; each gets the load in the mean.
    pub servers: usize,
    /// The rule by which requests are spread over the servers.
    pub dispatcher: Dispatcher,
    /// When requests come; not used with a trace.
    pub arrivals: Process,
    /// Recorded requests, in place of arrivals and (where it has them) service times.
    pub trace: Option<PathBuf>,
    /// Measured in each replication; `None`: by `requests`, or the whole trace.
    #[serde(
        rename(deserialize = "horizon"),
        deserialize_with = "seconds::read_some"
    )]
    pub horizon_s: Option<f64>,
    /// Measured in each replication, to all servers together, in the mean; where no horizon is given.
    pub requests: u64,
    /// `None`: by the rule ([`crate::simulate::WarmUp::Relaxation`]).
    #[serde(
        rename(deserialize = "warm_up"),
        deserialize_with = "seconds::read_some"
    )]
    pub warm_up_s: Option<f64>,
    /// Independent runs; an interval needs two.
    pub replications: u32,
    /// Of the intervals.
    pub confidence: f64,
    /// The same seed gives the same figures.
    pub seed: u64,
}

impl Default for Simulation {
    fn default() -> Self {
        Self {
            servers: 1,
            dispatcher: Dispatcher::Random,
            arrivals: Process::Poisson,
            trace: None,
            horizon_s: None,
            requests: 100_000,
            warm_up_s: None,
            replications: 10,
            confidence: 0.95,
            seed: 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parameters::Parameters;

    fn simulation(lines: &str) -> Result<Simulation> {
        let text = format!("[arrivals]\nutilisation = 0.5\n[simulation]\n{lines}\n");
        Parameters::parse(&text).map(|parameters| parameters.simulation)
    }

    #[test]
    fn each_key_is_accepted() {
        let taken = simulation(
            "servers = 12\ndispatcher = { packing = { bound = 4 } }\nhorizon = \"1h\"\n\
             arrivals = { bursty = { rates = [9, 1], stays = [\"1s\", \"3s\"] } }\n\
             warm_up = \"10s\"\nreplications = 20\nconfidence = 0.99\nseed = 7",
        );
        let expected = Simulation {
            servers: 12,
            dispatcher: Dispatcher::Packing { bound: 4 },
            arrivals: Process::Bursty {
                rates: [9.0, 1.0],
                stays_s: [1.0, 3.0],
            },
            horizon_s: Some(3600.0),
            warm_up_s: Some(10.0),
            replications: 20,
            confidence: 0.99,
            seed: 7,
            ..Simulation::default()
        };
        assert_eq!(taken, Ok(expected));
        let trace = simulation("trace = \"a.csv\"").unwrap().trace;
        assert_eq!(trace, Some("a.csv".into()));
        assert_eq!(simulation(""), Ok(Simulation::default()));
    }

    #[test]
    fn every_process_has_the_rate_for_its_load() {
        for arrivals in [
            "\"poisson\"",
            "\"deterministic\"",
            "{ gamma = { cv = 2.0 } }",
            "{ lognormal = { cv = 2.0 } }",
            "{ hyperexponential = { cv = 2.0 } }",
            "{ bursty = { rates = [5, 0], stays = [1, 4] } }",
        ] {
            let taken = simulation(&format!("arrivals = {arrivals}")).unwrap();
            let rate = taken.arrivals.at(70.0).rate();
            assert!((rate - 70.0).abs() < 1e-9, "{arrivals}: {rate}");
        }
    }

    #[test]
    fn contradictory_or_unknown_keys_are_refused() {
        for (lines, message) in [
            ("horizon = \"1h\"\nrequests = 5", "either `horizon`"),
            ("trace = \"a\"\narrivals = \"poisson\"", "either `trace`"),
            ("server = 5", "line 4"),
            ("dispatcher = \"nearest\"", "nearest"),
            ("arrivals = { gamma = { cv = 1e300 } }", "cv: 1e300"),
            (
                "arrivals = { hyperexponential = { cv = 0.5 } }",
                "gamma takes less",
            ),
            (
                "arrivals = { bursty = { rates = [0, 0], stays = [1, 1] } }",
                "rates: 0 and 0",
            ),
            (
                "arrivals = { bursty = { rates = [1, 2], stays = [1, 1e300] } }",
                "stays: 1e300 s",
            ),
        ] {
            let why = simulation(lines).unwrap_err().to_string();
            assert!(why.contains(message) && !why.contains('\n'), "{why}");
        }
    }

    #[test]
    fn a_bursts_two_rates_keep_their_ratio() {
        let arrivals = Process::Bursty {
            rates: [9.0, 1.0],
            stays_s: [1.0, 3.0],
        };
        // (9 · 1 + 1 · 3) / 4 = 3: half of the requested rate.
        let expected = Arrivals::Bursty {
            rates: [18.0, 2.0],
            stays: [1.0, 3.0],
        };
        assert_eq!(arrivals.at(6.0), expected);
    }
}
