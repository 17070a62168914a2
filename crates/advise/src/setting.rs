//! The advice in the driver's own figures.
//!
//! cpuidle enters a state only if the *driver's* exit latency of it is no larger than the bound in
//! force; what was measured it does not know. So the bound to hold is read from the driver's table:
//! it is at least the exit latency of the slowest state that is allowed, and has to be below that of every
//! state that is forbidden. Where the table does not part the two, no bound does, and states have to
//! be disabled by name.

use serde::Serialize;

use crate::{Advice, Decision, Standing, Target};

/// A latency bound that makes cpuidle leave just the allowed states.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Bound {
    /// The budget, µs, where it is among the bounds that leave the same states: it means the same on another CPU.
    /// Else the driver's exit latency of the slowest allowed state; 0 where none that sleeps is allowed.
    pub us: u32,
    /// Any bound up to this one leaves the same states; `None` where any larger one does.
    pub up_to_us: Option<u32>,
}

/// What to set.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Setting {
    /// What is recommended.
    #[serde(flatten)]
    pub decision: Decision,
    /// States to be kept out of, shallow ones first.
    pub forbidden: Vec<String>,
    /// `None` where no bound parts allowed and forbidden states; see `why_no_bound`.
    pub bound: Option<Bound>,
    /// One sentence; `None` where there is a bound.
    pub why_no_bound: Option<String>,
    /// What a bound of the budget itself would leave, for the driver's table is another thing than
    /// the measurement; `None` if the table is unknown.
    pub budget_as_bound_leaves: Option<Vec<String>>,
    /// The CPUs to set where not all are; `None` stands for all.
    pub cpus: Option<Vec<u32>>,
}

impl Setting {
    /// The setting that leaves what the advice allows, in the figures of the target's table.
    pub fn of(advice: &Advice, target: &Target) -> Self {
        let why_nothing = advice.why_nothing();
        let forbidden = advice.forbidden().filter(|_| why_nothing.is_none());
        let bound = why_nothing
            .clone()
            .map_or_else(|| bound(advice, target), Err);
        Self {
            decision: advice.decision.clone(),
            forbidden: forbidden.map(|state| state.state.clone()).collect(),
            why_no_bound: bound.as_ref().err().cloned(),
            bound: bound.ok(),
            budget_as_bound_leaves: left_by(advice, u64::from(advice.question.budget_us)),
            cpus: target.cpus().map(<[u32]>::to_vec),
        }
    }
}

/// The states that sleep, are on, and have an exit latency of no more than the bound by the table.
fn left_by(advice: &Advice, bound_us: u64) -> Option<Vec<String>> {
    let mut left = Vec::new();
    for state in &advice.states {
        if !matches!(state.standing, Standing::NoSleep | Standing::Off)
            && state.driver_exit_latency_us? <= bound_us
        {
            left.push(state.state.clone());
        }
    }
    Some(left)
}

fn bound(advice: &Advice, target: &Target) -> Result<Bound, String> {
    if !target.is_known {
        return Err("the driver's table is unknown; give the machine with --root".to_owned());
    }
    if target.driver.is_none() {
        return Err("without an idle driver nothing honours a bound".to_owned());
    }
    if advice.allowed().next().is_none() {
        // A bound of 0 means no sleep at all, whatever the table.
        let quickest = |state: &crate::StateAdvice| state.driver_exit_latency_us;
        let quickest: Option<Vec<u64>> = advice.forbidden().map(quickest).collect();
        let quickest = quickest.and_then(|all| all.into_iter().min()).unwrap_or(0);
        return Ok(Bound {
            us: 0,
            up_to_us: u32::try_from(quickest.saturating_sub(1)).ok(),
        });
    }
    let exit_latency = |state: &crate::StateAdvice| match state.driver_exit_latency_us {
        Some(us) => Ok((us, state.state.clone())),
        None => Err(format!("the driver gives {} no exit latency", state.state)),
    };
    let allowed: Result<Vec<_>, _> = advice.allowed().map(exit_latency).collect();
    let forbidden: Result<Vec<_>, _> = advice.forbidden().map(exit_latency).collect();
    let (slowest, quickest) = (allowed?.into_iter().max(), forbidden?.into_iter().min());
    // A bound of 0 would forbid even a state whose exit latency is 0.
    let us = slowest.as_ref().map_or(0, |(us, _)| (*us).max(1));
    if let (Some((slow, allowed)), Some((quick, forbidden))) = (&slowest, &quickest)
        && *quick <= us
    {
        return Err(format!(
            "the driver gives {forbidden} an exit latency of {quick} µs and {allowed} one of \
             {slow} µs, so that no bound leaves {allowed} and forbids {forbidden}"
        ));
    }
    if target.ignores_states_and_bounds() && quickest.is_some() {
        return Err("the governor haltpoll honours no bound but 0".to_owned());
    }
    let whole = |us: u64| u32::try_from(us).map_err(|_| format!("{us} µs is not a bound"));
    let up_to_us = match quickest {
        Some((us, _)) => Some(whole(us.saturating_sub(1))?),
        None => None,
    };
    let budget_us = advice.question.budget_us;
    let us = whole(us)?;
    let is_same = budget_us >= us && up_to_us.is_none_or(|up_to| budget_us <= up_to);
    Ok(Bound {
        us: if is_same { budget_us } else { us },
        up_to_us,
    })
}
