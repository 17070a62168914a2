//! A sweep with its questions and their answers.

use serde::Serialize;

use crate::farm::{Year, years};
use crate::parameters::{ALWAYS_ON, Named, Parameters};
use crate::policy::{Policy, PowerNap};
use crate::question::{self, BestTimeout, Figure, Largest};
use crate::run::{self, EXACT_FOR};
use crate::sweep::{Pair, Sweep, pair};
use crate::{Error, Result};

/// What is asked; policies by their names.
#[derive(Debug, Default)]
pub struct Questions<'a> {
    /// Where these two cross; all pairs without any.
    pub crossing: &'a [String],
    /// The longest transition with which the first still has lower figures than the second.
    pub largest_transition: &'a [String],
    /// The best timeout of a policy within a mean response time, s.
    pub best_timeout: Option<(&'a str, f64)>,
}

impl Questions<'_> {
    /// Is there any?
    pub fn any(&self) -> bool {
        !self.crossing.is_empty() || self.at_one_load()
    }

    /// Is there one at the load of the parameters?
    pub fn at_one_load(&self) -> bool {
        !self.largest_transition.is_empty() || self.best_timeout.is_some()
    }
}

/// A sweep, the answers, and a farm's year.
#[derive(Debug, Serialize)]
pub struct Swept<'a> {
    /// All loads.
    #[serde(flatten)]
    pub sweep: Sweep,
    /// For power and response time each.
    pub largest_transitions: Vec<LargestTransition>,
    /// `None`: not asked for.
    pub best_timeout: Option<BestAnswer>,
    /// At the load of the parameters; `None`: no farm is given.
    pub years: Option<Vec<Year>>,
    /// The arrivals for which the closed forms are exact.
    pub exact_for: &'static str,
    /// The origin of the parameters.
    pub notes: &'a [String],
}

/// The longest transition for one figure.
#[derive(Debug, Serialize)]
pub struct LargestTransition {
    /// The policy that naps, as it was asked for.
    pub first: String,
    /// The other policy.
    pub second: String,
    /// The load.
    pub utilisation: f64,
    /// Power or response time.
    pub figure: Figure,
    /// The answer.
    pub largest: Largest,
}

/// The best timeout.
#[derive(Debug, Serialize)]
pub struct BestAnswer {
    /// The policy that naps, as it was asked for.
    pub policy: String,
    /// The load.
    pub utilisation: f64,
    /// The mean response time that is not to be exceeded.
    pub budget_s: f64,
    /// The answer.
    #[serde(flatten)]
    pub best: BestTimeout,
}

impl<'a> Swept<'a> {
    /// Sweeps, and answers.
    ///
    /// # Errors
    /// [`Error::Usage`] if a policy is missing or does not nap; as [`Sweep::of`].
    pub fn of(
        parameters: &Parameters,
        questions: &Questions<'_>,
        notes: &'a [String],
    ) -> Result<Self> {
        let utilisation = parameters.utilisation();
        let years = years_of(parameters)?;
        let mut sweep = Sweep::of(parameters)?;
        if !questions.crossing.is_empty() {
            let pairs = questions.crossing.chunks_exact(2);
            let pairs = pairs.map(|names| crossing(parameters, names));
            sweep.pairs = pairs.collect::<Result<_>>()?;
        }
        let mut largest_transitions = Vec::new();
        for names in questions.largest_transition.chunks_exact(2) {
            let (template, second) = (nap(parameters, &names[0])?, named(parameters, &names[1])?);
            for figure in [Figure::Power, Figure::Response] {
                let other = &second.policy;
                largest_transitions.push(LargestTransition {
                    first: names[0].clone(),
                    second: second.name.clone(),
                    utilisation,
                    figure,
                    largest: question::largest_transition(
                        parameters,
                        &template,
                        other,
                        utilisation,
                        figure,
                    )?,
                });
            }
        }
        let best = |(name, budget_s): (&str, f64)| -> Result<BestAnswer> {
            let template = nap(parameters, name)?;
            Ok(BestAnswer {
                policy: name.to_owned(),
                utilisation,
                budget_s,
                best: question::best_timeout(parameters, &template, utilisation, budget_s)?,
            })
        };
        Ok(Self {
            sweep,
            largest_transitions,
            best_timeout: questions.best_timeout.map(best).transpose()?,
            years,
            exact_for: EXACT_FOR,
            notes,
        })
    }
}

fn years_of(parameters: &Parameters) -> Result<Option<Vec<Year>>> {
    let Some(farm) = &parameters.farm else {
        return Ok(None);
    };
    let point = run::at(parameters)?;
    Ok(Some(years(farm, &parameters.policies, &point)))
}

/// The policy of that name; `always on` always exists.
fn named(parameters: &Parameters, name: &str) -> Result<Named> {
    match parameters.policy(name) {
        Err(_) if name.to_lowercase() == ALWAYS_ON => Ok(Named::always_on()),
        found => found.cloned(),
    }
}

fn crossing(parameters: &Parameters, names: &[String]) -> Result<Pair> {
    let (first, second) = (named(parameters, &names[0])?, named(parameters, &names[1])?);
    pair(parameters, &first, &second)
}

fn nap(parameters: &Parameters, name: &str) -> Result<PowerNap> {
    match named(parameters, name)?.policy {
        Policy::PowerNap(nap) => Ok(nap),
        _ => Err(Error::Usage(format!(
            "`{name}` does not nap: name a policy of kind power_nap"
        ))),
    }
}
