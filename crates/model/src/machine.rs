//! The transition times of analysed machines as policies.

use serde::{Deserialize, Serialize};

use crate::comparison::Watch;
use crate::parameters::{Named, OfAPaper, Parameters};
use crate::policy::{Policy, PowerNap};
use crate::question::{Figure, Largest, largest_transition};
use crate::run::Run;
use crate::sweep::{Pair, Sweep};
use crate::{Error, Result};
use reveille_show::quantity::digits;

/// Which of several cycles counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// The fastest.
    Min,
    /// The one in the middle.
    Median,
    /// The slowest.
    Max,
}

/// The fields of an analysis that are read.
#[derive(Deserialize)]
struct Analysis {
    format: String,
    version: u32,
    #[serde(default)]
    machines: Vec<Machine>,
}

/// A machine of an analysis.
#[derive(Debug, Deserialize)]
pub struct Machine {
    name: String,
    suspend_us: Option<Spread>,
    resume_us: Option<Spread>,
    what_if: Option<WhatIf>,
    power: Option<Measured>,
}

#[derive(Debug, Deserialize)]
struct Spread {
    median: f64,
    min: f64,
    max: f64,
    count: u64,
}

#[derive(Debug, Deserialize)]
struct WhatIf {
    all_cycles_us: Option<Spread>,
}

/// What a meter read of a server, in watts; `None`: it did not see that.
#[derive(Debug, Default, Deserialize)]
pub struct Measured {
    /// All CPUs busy. It is not in an analysis.
    #[serde(skip)]
    pub active_w: Option<f64>,
    /// Awake, no CPU busy.
    pub idle_w: Option<f64>,
    /// Suspended.
    pub asleep_w: Option<f64>,
    /// On the way there and back.
    pub transition_w: Option<f64>,
}

impl By {
    fn seconds(self, spread: &Spread) -> f64 {
        let us = match self {
            Self::Min => spread.min,
            Self::Median => spread.median,
            Self::Max => spread.max,
        };
        us / 1e6
    }

    fn word(self) -> &'static str {
        match self {
            Self::Min => "fastest",
            Self::Median => "median",
            Self::Max => "slowest",
        }
    }
}

/// The machines of an analysis in JSON, or the one of that name. `format` and `version` are those that
/// the program writes.
///
/// # Errors
/// [`Error::Content`] if the text is not such an analysis, [`Error::Usage`] if it has no such machine.
pub fn read(text: &[u8], format: &str, version: u32, name: Option<&str>) -> Result<Vec<Machine>> {
    let is_none = "is not an analysis; give what `reveille resume analyze --json` writes";
    let unreadable = |error| Error::Content(format!("{is_none} ({error})"));
    let analysis: Analysis = serde_json::from_slice(text).map_err(unreadable)?;
    if analysis.format != format {
        let other = &analysis.format;
        return Err(Error::Content(format!(
            "{is_none} (its format is `{other}`)"
        )));
    }
    if !(1..=version).contains(&analysis.version) {
        return Err(Error::Content(format!(
            "has version {}, and this program reads {version}; take a newer reveille",
            analysis.version
        )));
    }
    if analysis.machines.is_empty() {
        return Err(Error::Content("has no machine in it".into()));
    }
    let all = analysis.machines.iter().map(|one| one.name.clone());
    let names: Vec<String> = all.collect();
    let wanted = |one: &Machine| name.is_none_or(|name| name == one.name);
    let machines: Vec<Machine> = analysis.machines.into_iter().filter(wanted).collect();
    ensure!(
        !machines.is_empty(),
        "has no machine `{}`; it has: {}",
        name.unwrap_or_default(),
        names.join(", ")
    );
    Ok(machines)
}

/// Replaces the napping policies by the machines' and, with one machine, the power by its own. Returns
/// notes.
///
/// # Errors
/// [`Error::Content`] if no machine has a whole resume.
pub fn put_into(parameters: &mut Parameters, machines: &[Machine], by: By) -> Result<Vec<String>> {
    let mut notes = Vec::new();
    let naps = naps(machines, by, &mut notes)?;
    let policies = &mut parameters.policies;
    policies.retain(|named| !matches!(named.policy, Policy::PowerNap(_)));
    let others = (!policies.is_empty()).then_some(OfAPaper::OtherPolicies);
    policies.splice(0..0, naps);
    parameters.given(OfAPaper::Policies, others);
    notes.push(match machines {
        [one] => match &one.power {
            Some(power) => measured(power, parameters),
            None => "No power was measured; it is the parameters'.".into(),
        },
        _ => "Several machines: power is the parameters'; --machine takes one's own.".into(),
    });
    Ok(notes)
}

/// A policy for each machine, and one for each what-if.
fn naps(machines: &[Machine], by: By, notes: &mut Vec<String>) -> Result<Vec<Named>> {
    let mut naps = Vec::new();
    for machine in machines {
        let name = &machine.name;
        let Some(resume) = &machine.resume_us else {
            notes.push(format!("{name}: no whole resume in it; left out."));
            continue;
        };
        let suspend = machine.suspend_us.as_ref().map(|spread| by.seconds(spread));
        let counted = match resume.count {
            1 => "one resume".to_owned(),
            count => format!("the {} of {count} resumes", by.word()),
        };
        let without = match suspend {
            Some(_) => "",
            None => "; no whole suspend in it: it is taken to cost no time",
        };
        notes.push(format!("{name}: {counted}{without}."));
        let changed = machine.what_if.as_ref();
        let changed = changed.and_then(|one| one.all_cycles_us.as_ref());
        for (resume, what_if) in [(Some(resume), ""), (changed, ", what if")] {
            let Some(resume) = resume else { continue };
            naps.push(Named {
                name: format!("nap, {name}{what_if}"),
                policy: Policy::PowerNap(PowerNap {
                    suspend: suspend.unwrap_or(0.0),
                    resume: by.seconds(resume),
                    timeout: 0.0,
                }),
            });
        }
    }
    match naps.is_empty() {
        false => Ok(naps),
        true => Err(Error::Content("no machine in it has a whole resume".into())),
    }
}

/// Replaces the parameters' power by a meter's. Returns a note.
pub fn measured(meter: &Measured, parameters: &mut Parameters) -> String {
    let power = &mut parameters.power;
    let mut figures = Vec::new();
    if let Some(idle) = meter.idle_w {
        if power.idle > 0.0 {
            // What was not measured keeps its ratio to idle power. The order of operations keeps the
            // figures' last digits.
            power.active = power.active * idle / power.idle;
            power.transition = power.transition * idle / power.idle;
        }
        power.idle = idle;
        let active = match meter.active_w {
            Some(active) => {
                power.active = active;
                format!("active {} W", digits(active))
            }
            None => format!(
                "active {} W, by the parameters' ratio",
                digits(power.active)
            ),
        };
        figures.push(format!("idle {} W ({active})", digits(idle)));
    }
    if let Some(asleep) = meter.asleep_w {
        power.nap = asleep;
        figures.push(format!("asleep {} W", digits(asleep)));
    }
    if let Some(transition) = meter.transition_w {
        power.transition = transition;
        figures.push(format!("in transition {} W", digits(transition)));
    }
    if !figures.is_empty() {
        let all = [
            meter.active_w,
            meter.idle_w,
            meter.asleep_w,
            meter.transition_w,
        ];
        let others = all.iter().any(Option::is_none);
        let others = others.then_some(OfAPaper::OtherPowers);
        parameters.given(OfAPaper::Powers, others);
    }
    match figures.is_empty() {
        true => "The power meter gave no mean; power is the parameters'.".into(),
        false => format!("Measured: {}.", figures.join(", ")),
    }
}

/// What the transition times of machines are worth.
#[derive(Debug, Serialize)]
pub struct Worth<'a> {
    /// At one load.
    #[serde(flatten)]
    pub run: Run<'a>,
    /// Where policies cross.
    pub pairs: &'a [Pair],
    /// For the first machine, against always-on and each policy that scales the frequency.
    pub needed: Vec<Needed>,
}

/// The longest transition with which napping draws less than another policy at this load.
#[derive(Debug, Serialize)]
pub struct Needed {
    /// The machine's policy.
    pub policy: String,
    /// The other policy.
    pub than: String,
    /// The load.
    pub utilisation: f64,
    /// The answer.
    pub largest: Largest,
}

impl<'a> Worth<'a> {
    /// At the load of the sweep's parameters.
    ///
    /// # Errors
    /// As [`Run::of`] and [`largest_transition`].
    pub fn of(swept: &'a Sweep, notes: &'a [String], progress: &mut Watch<'_>) -> Result<Self> {
        let run = Run::of(&swept.parameters, notes, progress)?;
        Ok(Self {
            needed: needed(&swept.parameters, run.point.utilisation)?,
            pairs: &swept.pairs,
            run,
        })
    }
}

fn needed(parameters: &Parameters, utilisation: f64) -> Result<Vec<Needed>> {
    let always_on = Named::always_on();
    let scales = |named: &&Named| matches!(named.policy, Policy::Dvfs(_));
    let others = parameters.policies.iter().filter(scales);
    let naps = |named: &Named| match named.policy {
        Policy::PowerNap(nap) => Some((named.name.clone(), nap)),
        _ => None,
    };
    let Some((policy, nap)) = parameters.policies.iter().find_map(naps) else {
        return Ok(Vec::new());
    };
    let against = |other: &Named| {
        let (than, other) = (other.name.clone(), &other.policy);
        let largest = largest_transition(parameters, &nap, other, utilisation, Figure::Power)?;
        Ok(Needed {
            policy: policy.clone(),
            than,
            utilisation,
            largest,
        })
    };
    [&always_on]
        .into_iter()
        .chain(others)
        .map(against)
        .collect()
}
