//! `reveille model from`: what the transition times of an analysed machine are worth.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::ValueEnum;
use reveille_model::parameters::{Named, Parameters};
use reveille_model::policy::{Policy, PowerNap};
use reveille_model::question::{Figure, Largest, largest_transition};
use reveille_model::sentence;
use reveille_model::sweep::{Pair, Sweep};
use reveille_results::text;
use reveille_resume::analysis::{FORMAT, VERSION};
use serde::{Deserialize, Serialize};

use super::run::{self, Answer};
use super::source::{self, Source};
use crate::exit::Failure;
use reveille_show::terminal;

/// What the suspend and resume of an analysed machine are worth to a server that sleeps between
/// requests.
///
/// Reads what `reveille resume analyze --json` writes. Each machine becomes a policy that naps with its
/// transition times; where a what-if was asked for, so does the machine with these changes. Where a
/// power meter's figures are in it and one machine is chosen, they take the place of the parameters'
/// idle, nap and transition power, and active power keeps its ratio to idle power. Policies of the
/// parameters that do not nap stay beside it.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  reveille resume analyze dmesg.txt --json > resume.json
  reveille model from resume.json --utilisation 0.2
  reveille model from resume.json --servers 1000 --price 0.2     what a farm of them would save
  reveille model from resume.json --by max --out model.html

Without --params: requests of 38 ms, a server that draws 100 W active, 60 W idle
and while it suspends and resumes, and 3 W asleep.")]
pub struct Args {
    /// The JSON of `reveille resume analyze`; `-` is standard input
    #[arg(value_name = "RESUME-JSON")]
    file: PathBuf,
    #[command(flatten)]
    source: source::SourceArgs,
    /// Only the machine of that name
    #[arg(long, value_name = "NAME")]
    machine: Option<String>,
    /// Which of several cycles counts
    #[arg(long, value_name = "WHICH", default_value = "median")]
    by: By,
    /// Write a page with charts to FILE
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// The page's title
    #[arg(long, value_name = "TEXT", requires = "out")]
    title: Option<String>,
    /// Print JSON: units are in the names
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum By {
    /// The fastest
    Min,
    /// The one in the middle
    Median,
    /// The slowest
    Max,
}

/// As much of the file as is needed; the rest is its own matter.
#[derive(Deserialize)]
struct Analysis {
    format: String,
    version: u32,
    #[serde(default)]
    machines: Vec<Machine>,
}

#[derive(Deserialize)]
struct Machine {
    name: String,
    suspend_us: Option<Spread>,
    resume_us: Option<Spread>,
    what_if: Option<WhatIf>,
    power: Option<Measured>,
}

#[derive(Deserialize)]
struct Spread {
    median: f64,
    min: f64,
    max: f64,
    count: u64,
}

#[derive(Deserialize)]
struct WhatIf {
    all_cycles_us: Option<Spread>,
}

#[derive(Deserialize)]
struct Measured {
    idle_w: Option<f64>,
    asleep_w: Option<f64>,
    transition_w: Option<f64>,
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

#[derive(Serialize)]
struct Whole<'a> {
    #[serde(flatten)]
    answer: Answer<'a>,
    pairs: &'a [Pair],
    needed: &'a [Needed],
}

/// How fast a machine has to become for napping to draw less than another policy at this load.
#[derive(Serialize)]
struct Needed {
    policy: String,
    than: String,
    utilisation: f64,
    largest: Largest,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let is_alone = super::page_alone(args.out.as_deref(), args.json.then_some("--json"))?;
    let machines = chosen(&args)?;
    let Source {
        mut parameters,
        mut notes,
    } = source::read_or(&args.source, Parameters::as_told())?;
    parameters
        .policies
        .retain(|named| !matches!(named.policy, Policy::PowerNap(_)));
    let naps = naps(&args, &machines, &mut notes)?;
    parameters.policies.splice(0..0, naps);
    match &machines[..] {
        [
            Machine {
                power: Some(power), ..
            },
        ] => measured(power, &mut parameters, &mut notes),
        [_] => notes.push("No power was measured; it is the parameters'.".into()),
        _ => notes
            .push("Several machines: power is the parameters'; --machine takes one's own.".into()),
    }
    parameters.check().map_err(super::told)?;
    let point = run::at(&parameters)?;
    let swept = Sweep::of(&parameters).map_err(super::told)?;
    if let Some(path) = &args.out {
        super::sweep::page(path, &swept, &notes, args.title.as_deref())?;
    }
    if is_alone {
        return Ok(ExitCode::SUCCESS);
    }
    let needed = needed(&parameters, point.utilisation)?;
    let answer = Answer::of(&parameters, &notes, &point);
    if args.json {
        super::write_json(&Whole {
            answer,
            pairs: &swept.pairs,
            needed: &needed,
        })?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut out = terminal::stdout();
    run::write(&answer, &mut out)?;
    crossings(&swept, &mut out)?;
    for one in &needed {
        let Needed {
            than,
            utilisation,
            largest,
            ..
        } = one;
        let line = sentence::largest(Figure::Power, largest, than, *utilisation);
        super::say(&mut out, &line)?;
    }
    if let Some(path) = args.out {
        writeln!(out, "\n{}", path.display())?;
    }
    Ok(ExitCode::SUCCESS)
}

fn crossings(swept: &Sweep, out: &mut impl Write) -> io::Result<()> {
    if !swept.pairs.is_empty() {
        writeln!(out)?;
    }
    for line in swept.pairs.iter().flat_map(sentence::pair) {
        super::say(out, &line)?;
    }
    Ok(())
}

/// For the first machine, against always-on and each policy that scales the frequency.
fn needed(parameters: &Parameters, utilisation: f64) -> anyhow::Result<Vec<Needed>> {
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
    let against = |other: &Named| -> anyhow::Result<Needed> {
        let largest =
            largest_transition(parameters, &nap, &other.policy, utilisation, Figure::Power);
        Ok(Needed {
            policy: policy.clone(),
            than: other.name.clone(),
            utilisation,
            largest: largest.map_err(super::told)?,
        })
    };
    std::iter::once(&always_on)
        .chain(others)
        .map(against)
        .collect()
}

/// A thousand cycles of a thousand devices have less.
const MOST_MIB: u64 = 4096;

/// The machines of the file that were asked for.
fn chosen(args: &Args) -> anyhow::Result<Vec<Machine>> {
    let path = args.file.display();
    let text = match args.file == Path::new("-") {
        true => text::read(io::stdin().lock(), MOST_MIB),
        false => File::open(&args.file).and_then(|file| text::read(file, MOST_MIB)),
    };
    let text = text.with_context(|| path.to_string())?;
    let is_none = "is no analysis; give what `reveille resume analyze --json` writes";
    let analysis: Analysis = serde_json::from_slice(&text)
        .map_err(|error| Failure::usage(format!("{path}: {is_none} ({error})")))?;
    if analysis.format != FORMAT {
        return Err(Failure::usage(format!(
            "{path}: {is_none} (its format is `{}`)",
            analysis.format
        )));
    }
    if !(1..=VERSION).contains(&analysis.version) {
        return Err(Failure::usage(format!(
            "{path}: has version {}, and this program knows {VERSION}; take a newer reveille",
            analysis.version
        )));
    }
    let names: Vec<String> = analysis
        .machines
        .iter()
        .map(|one| one.name.clone())
        .collect();
    let wanted = |one: &Machine| args.machine.as_ref().is_none_or(|name| *name == one.name);
    let machines: Vec<Machine> = analysis.machines.into_iter().filter(wanted).collect();
    match (machines.is_empty(), &args.machine) {
        (false, _) => Ok(machines),
        (true, Some(name)) => Err(Failure::usage(format!(
            "{path}: has no machine `{name}`; it has: {}",
            names.join(", ")
        ))),
        (true, None) => Err(Failure::usage(format!("{path}: has no machine in it"))),
    }
}

/// A policy for each machine, and one for each what-if.
fn naps(args: &Args, machines: &[Machine], notes: &mut Vec<String>) -> anyhow::Result<Vec<Named>> {
    let mut naps = Vec::new();
    for machine in machines {
        let Some(resume) = &machine.resume_us else {
            notes.push(format!(
                "{}: no whole resume in it; left out.",
                machine.name
            ));
            continue;
        };
        let suspend = machine
            .suspend_us
            .as_ref()
            .map(|spread| args.by.seconds(spread));
        let counted = match resume.count {
            1 => "one resume".to_owned(),
            count => format!("the {} of {count} resumes", args.by.word()),
        };
        let without = match suspend {
            Some(_) => "",
            None => "; no whole suspend in it: it is taken to cost no time",
        };
        notes.push(format!("{}: {counted}{without}.", machine.name));
        let nap = |resume: &Spread| {
            Policy::PowerNap(PowerNap {
                suspend: suspend.unwrap_or(0.0),
                resume: args.by.seconds(resume),
                timeout: 0.0,
            })
        };
        naps.push(Named {
            name: format!("nap, {}", machine.name),
            policy: nap(resume),
        });
        let changed = machine
            .what_if
            .as_ref()
            .and_then(|what_if| what_if.all_cycles_us.as_ref());
        if let Some(changed) = changed {
            let name = format!("nap, {}, what if", machine.name);
            naps.push(Named {
                name,
                policy: nap(changed),
            });
        }
    }
    match naps.is_empty() {
        false => Ok(naps),
        true => Err(Failure::usage(format!(
            "{}: no machine in it has a whole resume",
            args.file.display()
        ))),
    }
}

/// Puts the meter's figures in the place of the parameters'.
fn measured(power: &Measured, parameters: &mut Parameters, notes: &mut Vec<String>) {
    let watts = |watts: f64| format!("{} W", sentence::digits(watts));
    let mut said = Vec::new();
    if let Some(idle) = power.idle_w {
        let told = parameters.power;
        if told.idle > 0.0 {
            // What was not measured keeps its ratio to idle power.
            parameters.power.active = told.active * idle / told.idle;
            parameters.power.transition = told.transition * idle / told.idle;
        }
        parameters.power.idle = idle;
        said.push(format!(
            "idle {} (active {}, by the parameters' ratio)",
            watts(idle),
            watts(parameters.power.active)
        ));
    }
    if let Some(asleep) = power.asleep_w {
        parameters.power.nap = asleep;
        said.push(format!("asleep {}", watts(asleep)));
    }
    if let Some(transition) = power.transition_w {
        parameters.power.transition = transition;
        said.push(format!("in transition {}", watts(transition)));
    }
    notes.push(match said.is_empty() {
        true => "The power meter gave no mean; power is the parameters'.".into(),
        false => format!("Measured: {}.", said.join(", ")),
    });
}
