//! Every policy simulated on the same requests, and compared with always-on.

use serde::Serialize;

use crate::least::{Least, draws_less};
use crate::p99::P99;
use crate::parameters::{Named, Parameters};
use crate::policy::Policy;
use crate::simulate::{Estimate, Progress, Replication, Simulated, Trace, simulate};
use crate::{Error, Result};
use std::ops::ControlFlow;

/// One policy, simulated.
#[derive(Debug, Serialize)]
pub struct Row {
    /// As [`Named::name`].
    pub policy: String,
    /// `None`: the policy is unstable, or the run was interrupted before.
    pub simulated: Option<Simulated>,
    /// Why there is nothing.
    pub why: Option<String>,
    /// `None` without figures, and of a trace that is too short for it.
    pub p99: Option<P99>,
    /// Compared with the first policy, on the same requests; `None` for the first itself.
    pub above_first: Option<Above>,
}

/// A difference of two policies, replication by replication.
#[derive(Debug, Serialize)]
pub struct Above {
    /// Seconds.
    pub response_mean_s: Estimate,
    /// Watts.
    pub power_mean_w: Estimate,
}

/// Gets the policy, its place among how many, and what is done of it; can stop the simulation.
pub type Watch<'a> = dyn FnMut(&Named, (usize, usize), Option<&Progress>) -> ControlFlow<()> + 'a;

/// The result of `model simulate`.
#[derive(Debug, Serialize)]
pub struct Comparison<'a> {
    /// Service times, powers, policies and what is simulated.
    pub parameters: &'a Parameters,
    /// Requests a second to all servers together; of a trace, its own.
    pub rate_per_s: f64,
    /// Of the service times in a trace.
    pub recorded_service_mean_s: Option<f64>,
    /// The origin of the parameters, and what is to be known of the figures.
    pub notes: Vec<String>,
    /// By the same requests, with intervals that hold for whichever policy came out least (Bonferroni).
    pub least: Option<Least>,
    /// Always-on first.
    pub policies: Vec<Row>,
}

impl<'a> Comparison<'a> {
    /// Simulates every policy.
    ///
    /// # Errors
    /// As [`simulate`], unless a policy is unstable or the simulation was stopped.
    pub fn of(
        parameters: &'a Parameters,
        mut notes: Vec<String>,
        trace: Option<&Trace>,
        progress: &mut Watch<'_>,
    ) -> Result<Self> {
        let policies = rows(parameters, trace, progress)?;
        // Notes of several policies are shown once.
        for simulated in policies.iter().filter_map(|row| row.simulated.as_ref()) {
            for note in &simulated.notes {
                if !notes.contains(note) {
                    notes.push(note.clone());
                }
            }
        }
        let mean = |times: &[f64]| times.iter().sum::<f64>() / times.len() as f64;
        Ok(Self {
            parameters,
            rate_per_s: match trace {
                Some(trace) => trace.rate(),
                None => parameters.rate() * parameters.simulation.servers as f64,
            },
            recorded_service_mean_s: trace.and_then(Trace::services).map(mean),
            notes,
            least: least(&policies),
            policies,
        })
    }

    /// Why there are no figures at all; `None` if there are some.
    pub fn nothing(&self) -> Option<&str> {
        if self.policies.iter().any(|row| row.simulated.is_some()) {
            return None;
        }
        let why = self.policies.iter().find_map(|row| row.why.as_deref());
        Some(why.unwrap_or("there is no policy"))
    }
}

fn least(rows: &[Row]) -> Option<Least> {
    let known = rows.iter();
    let known = known.filter_map(|row| Some((row.policy.as_str(), row.simulated.as_ref()?)));
    let known: Vec<(&str, &Simulated)> = known.collect();
    let powers: Vec<(&str, f64)> = known
        .iter()
        .map(|(name, simulated)| (*name, simulated.power_mean.value))
        .collect();
    let others = known.len().max(2) - 1;
    Least::of(&powers, |one, other| {
        let (one, other) = (known[one].1, known[other].1);
        let confidence = 1.0 - (1.0 - one.confidence) / others as f64;
        let above = other.above(one, confidence, |run| run.power_mean);
        above.is_some_and(|above| match above.half_width {
            Some(half) => above.value > half,
            None => !one.is_drawn && draws_less(one.power_mean.value, other.power_mean.value),
        })
    })
}

fn rows(
    parameters: &Parameters,
    trace: Option<&Trace>,
    progress: &mut Watch<'_>,
) -> Result<Vec<Row>> {
    let always_on = Named::always_on();
    let missing = (!parameters.has_always_on()).then_some(&always_on);
    let mut all: Vec<&Named> = missing.into_iter().chain(&parameters.policies).collect();
    all.sort_by_key(|named| named.policy != Policy::AlwaysOn);
    let policies = all.len();
    let mut rows: Vec<Row> = Vec::new();
    for (place, named) in all.into_iter().enumerate() {
        let of = (place, policies);
        if progress(named, of, None).is_break() {
            rows.push(Row::interrupted(named));
            continue;
        }
        let setup = parameters.setup(&named.policy, trace);
        let simulated = simulate(&setup, &mut |done| progress(named, of, Some(done)));
        let is_interrupted = progress(named, of, None).is_break();
        let first = rows.first().and_then(|row| row.simulated.as_ref());
        rows.push(row(named, simulated, first, is_interrupted)?);
    }
    Ok(rows)
}

fn row(
    named: &Named,
    simulated: Result<Simulated>,
    first: Option<&Simulated>,
    is_interrupted: bool,
) -> Result<Row> {
    let (simulated, why) = match simulated {
        Ok(simulated) => (Some(simulated), None),
        Err(Error::Nothing(_)) if is_interrupted => return Ok(Row::interrupted(named)),
        Err(error @ Error::Unstable { .. }) => (None, Some(error.to_string())),
        Err(other) => return Err(other),
    };
    let above = simulated.as_ref().zip(first);
    Ok(Row {
        policy: named.name.clone(),
        above_first: above.and_then(|(mine, first)| Above::of(mine, first)),
        p99: simulated.as_ref().and_then(P99::simulated),
        simulated,
        why,
    })
}

impl Row {
    fn interrupted(named: &Named) -> Self {
        Self {
            policy: named.name.clone(),
            simulated: None,
            why: Some("interrupted".to_owned()),
            p99: None,
            above_first: None,
        }
    }
}

impl Above {
    fn of(mine: &Simulated, first: &Simulated) -> Option<Self> {
        let above = |figure: fn(&Replication) -> f64| mine.above(first, mine.confidence, figure);
        Some(Self {
            response_mean_s: above(|run| run.response_mean)?,
            power_mean_w: above(|run| run.power_mean)?,
        })
    }
}
