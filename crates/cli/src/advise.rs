//! `reveille advise`: a question is put to a result, and the answer is said.

mod evidence;
mod rewritten;
mod settings;
mod text;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::ValueEnum;
use reveille_advise::form::{self, Form};
use reveille_advise::table::{Residency, Table};
use reveille_advise::{
    Advice, Confidence, Cost, Demand, Error, Latency, Leaves, Percentile, Question, Setting,
    Target, why_other_machine,
};
use reveille_kernel::latency::parse_bound;
use reveille_kernel::{Identity, Idle, Root};
use reveille_results::Loaded;
use reveille_results::description::Probe;
use reveille_results::statistics::Floor;
use serde::Serialize;

use crate::chosen;
use crate::exit::{self, Failure};
use reveille_show::terminal;

/// Tell which idle states may be allowed for a latency budget, and how to set that.
///
/// States are judged by what was measured, not by the driver's table: one is allowed if, with the
/// confidence asked for, its percentile is within the budget, and those of all shallower states
/// are. The setting is then given in the driver's figures, which is what the kernel compares, and in
/// every form that people deploy. Nothing is changed on the machine.
#[derive(clap::Args)]
#[command(group = clap::ArgGroup::new("question").required(true).args(["budget", "table"]))]
#[command(after_help = "\
Examples:
  reveille advise RESULT --budget 50us                       99.9 % of wakes within 50 µs
  reveille advise RESULT --budget 50us --percentile 99.99 --confidence 99
  reveille advise RESULT --budget 50us --max                 the maximum that was seen
  reveille advise RESULT --budget 50us --form udev > 60-reveille.rules
  reveille advise RESULT --table                             the driver's table from measurement
  reveille advise wult-result --budget 50us --root /         with this machine's table

Columns:
  seen       the percentile as it was seen (a dash unless ten datapoints lie beyond it)
  at most    its upper bound, with the confidence asked for
  over       datapoints over the budget
  share ≤    so large a share of all wakes is over the budget at most, with that confidence
  driver     the exit latency in the driver's table

Exit codes: 0 with any answer, also that no state may stay; 3 where the setting cannot be said in
the form that was asked for.")]
pub struct Args {
    /// A result: its folder, a folder of wult's, or a CSV file of either
    result: PathBuf,
    /// The longest that a wake may take, such as 50us; 0 asks for no sleep at all
    #[arg(long, value_name = "TIME", value_parser = parse_bound, allow_hyphen_values = true)]
    budget: Option<u32>,
    /// Write the driver's table anew from what was measured: intel_idle.table= (Linux 7.0)
    #[arg(long, conflicts_with = "max")]
    table: bool,
    /// The share of wakes that has to be within the budget, per cent; for --table, the percentile
    /// that becomes the exit latency
    #[arg(long, value_name = "PERCENT", default_value = "99.9")]
    percentile: Percentile,
    /// Judge by the maximum that was seen: a maximum, and no guarantee
    #[arg(long, conflicts_with = "percentile")]
    max: bool,
    /// How sure it has to be, per cent
    #[arg(long, value_name = "PERCENT", default_value = "95")]
    confidence: Confidence,
    /// Which latency is meant
    #[arg(long, value_name = "WHICH", default_value = "wake")]
    latency: LatencyChoice,
    /// Print the setting in one form alone, ready for a file
    #[arg(long, value_name = "FORM", conflicts_with = "json")]
    form: Option<FormChoice>,
    /// What becomes of the target residencies in --table
    #[arg(
        long,
        value_name = "RULE",
        default_value = "keep",
        conflicts_with = "budget"
    )]
    residency: ResidencyChoice,
    /// The machine that was measured: / for this one, or a folder with sys/ and proc/. It tells the
    /// other CPUs, and the driver's table where the result has none [default: this machine, where
    /// host name and CPU are the result's]
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// Print JSON: units are in the names
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum LatencyChoice {
    /// Until the first instruction, in the idle loop or in the interrupt's handler
    Wake,
    /// Until the interrupt's handler
    Interrupt,
}

#[derive(Clone, Copy, ValueEnum)]
enum ResidencyChoice {
    /// They stay, unless the kernel's rules lift them
    Keep,
    /// The driver's ratio of residency to latency is kept
    Scale,
}

#[derive(Clone, Copy, ValueEnum)]
enum FormChoice {
    /// The line that holds a latency bound
    Hold,
    /// The line that disables states
    Limit,
    /// The kernel's command line
    Kernel,
    /// A profile of TuneD
    Tuned,
    /// A systemd unit
    Systemd,
    /// A udev rule
    Udev,
}

impl From<FormChoice> for form::Name {
    fn from(choice: FormChoice) -> Self {
        match choice {
            FormChoice::Hold => Self::Hold,
            FormChoice::Limit => Self::Limit,
            FormChoice::Kernel => Self::Kernel,
            FormChoice::Tuned => Self::Tuned,
            FormChoice::Systemd => Self::Systemd,
            FormChoice::Udev => Self::Udev,
        }
    }
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let loaded = reveille_results::open(&args.result)?;
    let machine = machine(args.root.as_deref(), &loaded)?;
    let machine = machine.as_ref().map(|(identity, idle)| (identity, idle));
    let target = Target::new(&loaded.description, machine);
    let latency = match args.latency {
        LatencyChoice::Wake => Latency::Wake,
        LatencyChoice::Interrupt => Latency::Interrupt,
    };
    match args.budget {
        Some(budget_us) => {
            let demand = match args.max {
                true => Demand::Maximum,
                false => Demand::Percentile(args.percentile),
            };
            let question = Question {
                budget_us,
                demand,
                confidence: args.confidence,
                latency,
            };
            answer(&args, &loaded, &target, question)?;
        }
        None => rewrite(&args, &loaded, &target, latency)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The machine of `--root`; without it this one, if the result is from here.
fn machine(root: Option<&Path>, loaded: &Loaded) -> anyhow::Result<Option<(Identity, Idle)>> {
    let Some(folder) = root else {
        let (here, measured) = (
            Identity::read(&Root::default()),
            &loaded.description.machine,
        );
        let is_told = here.hostname.is_some() && here.cpu_model.is_some();
        let is_same = here.hostname == measured.hostname && here.cpu_model == measured.cpu_model;
        let idle = Idle::read(&Root::default()).ok();
        let is_its = |idle: &Idle| is_told && is_same && why_other_machine(loaded, idle).is_none();
        return Ok(idle.filter(is_its).map(|idle| (here, idle)));
    };
    let root = match folder == Path::new("/") {
        true => Root::default(),
        false => chosen::root(Some(folder))?,
    };
    let idle = Idle::read(&root)?;
    if let Some(other) = why_other_machine(loaded, &idle) {
        return Err(Failure::usage(format!(
            "--root {}: {other}; give the machine that was measured",
            folder.display()
        )));
    }
    Ok(Some((Identity::read(&root), idle)))
}

/// The answer to a budget: for people and for programs the same.
#[derive(Serialize)]
struct Answer<'a> {
    result: &'a str,
    probe: Probe,
    target: &'a Target,
    #[serde(flatten)]
    advice: &'a Advice,
    setting: &'a Setting,
    cost: Cost,
    forms: Vec<Form>,
    /// No state was made the deepest for the run.
    as_the_governor_chose: bool,
    floors: &'a [Floor],
    notes: &'a [String],
}

fn answer(args: &Args, loaded: &Loaded, target: &Target, question: Question) -> anyhow::Result<()> {
    let advice = Advice::of(loaded, target, question).map_err(|error| told(args, error))?;
    let setting = Setting::of(&advice, target);
    if let Some(choice) = args.form {
        if let Some(why) = setting
            .why_no_bound
            .as_ref()
            .filter(|_| advice.unknown().is_some())
        {
            return Err(Failure::cannot(format!(
                "--form: {why}; run it without --form to see how many are needed"
            )));
        }
        warn_of_want(&advice);
        return print_form(
            form::one(choice.into(), &advice, &setting, target),
            &setting,
        );
    }
    let answer = Answer {
        result: &loaded.description.name,
        probe: loaded.description.probe,
        target,
        cost: Cost::of(loaded, target, &advice),
        forms: form::all(&advice, &setting, target),
        advice: &advice,
        setting: &setting,
        as_the_governor_chose: loaded.description.settings.deepest_states.is_empty(),
        floors: &loaded.description.characterisation.floors,
        notes: &loaded.description.notes,
    };
    let mut out = terminal::stdout();
    if args.json {
        return write_json(&answer, &mut out);
    }
    evidence::write(&answer, loaded, &mut out)?;
    settings::write(&answer, &mut out)?;
    Ok(())
}

/// What is asked for wrongly is told from what is wrong with the result.
fn told(args: &Args, error: Error) -> anyhow::Error {
    let result = args.result.display();
    match error {
        Error::NoLatency(_) | Error::NoTable => Failure::usage(format!("{result}: {error}")),
        Error::NoTableTaken(_) => Failure::cannot(format!("{result}: {error}")),
        other => anyhow::Error::new(other).context(result.to_string()),
    }
}

/// A file may outlive what was said when it was made: what it forbids only for want of datapoints
/// is said where its output does not go.
fn warn_of_want(advice: &Advice) {
    if let Some(state) = advice.ended_by_want() {
        exit::say(format_args!(
            "{} and what is deeper is forbidden for want of datapoints; run it without --form to see \
             how many are needed",
            state.state
        ));
    }
}

/// One form alone, so that it can be redirected into a file.
fn print_form(form: Form, setting: &Setting) -> anyhow::Result<()> {
    match form.text {
        Some(text) => terminal::data().write_all(text.as_bytes())?,
        None if setting.leaves == Leaves::Everything => {
            exit::say("nothing has to be set: every state keeps to the budget");
        }
        None => {
            return Err(Failure::cannot(format!(
                "--form {}: {}",
                form.name.as_str(),
                form.mind.unwrap_or_default()
            )));
        }
    }
    Ok(())
}

fn rewrite(args: &Args, loaded: &Loaded, target: &Target, latency: Latency) -> anyhow::Result<()> {
    let residency = match args.residency {
        ResidencyChoice::Keep => Residency::Keep,
        ResidencyChoice::Scale => Residency::Scale,
    };
    let (percentile, confidence) = (args.percentile, args.confidence);
    let table = Table::of(loaded, target, percentile, confidence, latency, residency)
        .map_err(|error| told(args, error))?;
    let mut out = terminal::stdout();
    match (args.form, args.json) {
        (Some(FormChoice::Kernel), _) => writeln!(out, "{}", table.parameter)?,
        (Some(_), _) => {
            return Err(Failure::usage(
                "--form: a table goes on the kernel's command line only: --form kernel",
            ));
        }
        (None, true) => write_json(&table, &mut out)?,
        (None, false) => rewritten::write(&table, loaded, &mut out)?,
    }
    Ok(())
}

fn write_json(value: &impl Serialize, out: &mut impl Write) -> anyhow::Result<()> {
    serde_json::to_writer_pretty(&mut *out, value).map_err(std::io::Error::from)?;
    Ok(writeln!(out)?)
}
