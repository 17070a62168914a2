//! `reveille advise`: which states a latency budget allows, and the setting for it.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::ValueEnum;
use reveille_advise::table::{BreakEven, Residency, Table};
use reveille_advise::{
    Answer, Confidence, Demand, Error, Latency, Percentile, Question, Target, form, machine,
    measured_elsewhere, show,
};
use reveille_kernel::Root;
use reveille_power::states::{self, States};
use reveille_results::Loaded;
use reveille_show::terminal;

use crate::completion;
use crate::exit::{self, Failure};
use crate::flags;
use crate::output_format::{Printed, To};
use crate::value;

/// Show which idle states may be allowed for a latency budget, and how to set that.
///
/// States are judged by what was measured, not by the driver's table: one is allowed if, with the
/// confidence asked for, its percentile is within the budget, and those of all shallower states
/// are. The setting is then given in the driver's figures, which is what the kernel compares, and in
/// every form in which it is deployed. Changes nothing.
#[derive(clap::Args)]
#[command(group = clap::ArgGroup::new("question").required(true).args(["budget", "table"]))]
#[command(after_help = "\
Examples:
  reveille advise RESULT --budget 50us                       99.9% of wakes within 50 µs
  reveille advise RESULT --budget 50us --percentile 99.99 --confidence 99
  reveille advise RESULT --budget 50us --max                 the maximum that was seen
  reveille advise RESULT --budget 50us --form udev > 60-reveille.rules
  reveille advise RESULT --table                             the driver's table from measurement
  reveille advise wult-result --budget 50us --root /         with this machine's table

Columns:
  seen       the percentile as it was measured (a dash unless ten datapoints lie beyond it)
  at most    its upper bound, with the confidence asked for
  over       datapoints over the budget
  share ≤    upper bound of the share of wakes over the budget, with that confidence")]
pub struct Args {
    /// A result of `measure` or wult: its folder or CSV file
    #[arg(add = completion::results())]
    result: PathBuf,
    /// The longest wake latency, such as 50us; 0 means no sleep at all
    #[arg(long, value_name = "TIME", value_parser = value::bound, allow_hyphen_values = true)]
    budget: Option<u32>,
    /// Rewrite the driver's table from the measurement: intel_idle.table= (Linux 7.0)
    #[arg(long, conflicts_with = "max")]
    table: bool,
    /// The share of wakes that must be within the budget, per cent; for --table, the percentile
    /// that becomes the exit latency
    #[arg(long, value_name = "PERCENT", default_value = "99.9")]
    percentile: Percentile,
    /// Judge by the maximum seen, which is not a guarantee
    #[arg(long, conflicts_with = "percentile")]
    max: bool,
    /// Confidence, per cent
    #[arg(long, value_name = "PERCENT", default_value = "95")]
    confidence: Confidence,
    /// The latency to compare with the budget
    #[arg(long, value_name = "WHICH", default_value = "wake")]
    latency: LatencyChoice,
    /// Print only this form, ready for a file; `all` prints every form with the advice
    #[arg(long, value_name = "FORM")]
    form: Option<FormChoice>,
    /// How --table sets target residencies
    #[arg(
        long,
        value_name = "RULE",
        default_value = "keep",
        conflicts_with = "budget"
    )]
    residency: ResidencyChoice,
    /// For --table: a result of `power states`, whose break-even residencies become target residencies
    #[arg(long, value_name = "RESULT", conflicts_with = "budget", add = completion::kept_as(states::FILE))]
    break_even: Option<PathBuf>,
    /// The measured machine: / for this one, or a folder with sys/ and proc/. Provides the other CPUs,
    /// and the driver's table if the result has none [default: this machine, if its host name and CPU
    /// are the result's]
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    #[command(flatten)]
    printed: Printed,
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
    /// Keep them, unless the kernel requires larger ones
    Keep,
    /// Keep the driver's ratio of residency to latency
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
    /// The advice with every form
    All,
}

impl FormChoice {
    /// `None` for all.
    fn name(self) -> Option<form::Name> {
        Some(match self {
            Self::Hold => form::Name::Hold,
            Self::Limit => form::Name::Limit,
            Self::Kernel => form::Name::Kernel,
            Self::Tuned => form::Name::Tuned,
            Self::Systemd => form::Name::Systemd,
            Self::Udev => form::Name::Udev,
            Self::All => return None,
        })
    }
}

impl From<LatencyChoice> for Latency {
    fn from(choice: LatencyChoice) -> Self {
        match choice {
            LatencyChoice::Wake => Self::Wake,
            LatencyChoice::Interrupt => Self::Interrupt,
        }
    }
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let is_alone = args.form.and_then(FormChoice::name).is_some();
    if is_alone && (args.printed.all || args.printed.data().is_some()) {
        return Err(Failure::usage(
            "--form: a form is printed alone; --all, --json and --markdown are for the advice",
        ));
    }
    let loaded = reveille_results::open(&args.result)?;
    let root = match args.root.as_deref() {
        None => None,
        Some(folder) if folder == Path::new("/") => Some(Root::default()),
        Some(folder) => Some(flags::root(Some(folder))?),
    };
    let failed = |error| failure(&args, error);
    let machine = machine(&loaded, root.as_ref()).map_err(failed)?;
    let machine = machine.as_ref().map(|(identity, idle)| (identity, idle));
    let target = Target::new(&loaded.description, machine);
    match args.budget {
        Some(budget_us) => advise(&args, &loaded, &target, budget_us)?,
        None => rewrite(&args, &loaded, &target)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn advise(args: &Args, loaded: &Loaded, target: &Target, budget_us: u32) -> anyhow::Result<()> {
    let question = Question {
        budget_us,
        demand: match args.max {
            true => Demand::Maximum,
            false => Demand::Percentile(args.percentile),
        },
        confidence: args.confidence,
        latency: args.latency.into(),
    };
    let failed = |error| failure(args, error);
    let answer = Answer::of(loaded, target, question).map_err(failed)?;
    let Some(form) = args.form.and_then(FormChoice::name) else {
        let sheet = show::sheet(&answer, args.form.is_some());
        return Ok(args.printed.print(&answer, &sheet, To::Output)?);
    };
    let text = answer.form(form).map_err(failed)?;
    answer.beside_a_form(form).into_iter().for_each(exit::say);
    Ok(terminal::data().write_all(text.unwrap_or_default().as_bytes())?)
}

fn rewrite(args: &Args, loaded: &Loaded, target: &Target) -> anyhow::Result<()> {
    let residency = match args.residency {
        ResidencyChoice::Keep => Residency::Keep,
        ResidencyChoice::Scale => Residency::Scale,
    };
    let (percentile, confidence) = (args.percentile, args.confidence);
    let latency = args.latency.into();
    let states = args.break_even.as_deref().map(states::open).transpose()?;
    let stays = states.iter().flat_map(|states| {
        let all = target.states.iter();
        all.map(|state| (state.name.clone(), break_even(states, &state.name)))
    });
    let stays: BTreeMap<String, BreakEven> = stays.collect();
    let mut table = Table::of(
        loaded, target, percentile, confidence, latency, residency, &stays,
    )
    .map_err(|error| failure(args, error))?;
    if let (Some(states), Some(path)) = (&states, &args.break_even) {
        let (there, here) = (&states.about.machine, &loaded.description.machine);
        let elsewhere = measured_elsewhere(&path.display().to_string(), there, here);
        let elsewhere = elsewhere.into_iter().map(|note| note + ".");
        table.warnings.extend(elsewhere);
    }
    match args.form {
        None | Some(FormChoice::All) => {
            let sheet = show::table_sheet(&table, &loaded.description);
            args.printed.print(&table, &sheet, To::Output)?;
        }
        Some(FormChoice::Kernel) => {
            table.warnings.iter().for_each(exit::say);
            writeln!(terminal::stdout(), "{}", table.parameter)?;
        }
        Some(_) => {
            return Err(Failure::usage(
                "--form: a table goes on the kernel's command line only: --form kernel",
            ));
        }
    }
    Ok(())
}

fn break_even(states: &States, state: &str) -> BreakEven {
    let mut all = states.idle_states.iter();
    let measured = all.find(|one| one.name == state);
    match measured.and_then(|one| one.break_even.as_ref()) {
        Some(even) => BreakEven {
            us: even.known().map(|known| known.estimate.ceil() as u64),
            words: states::break_even(even),
        },
        None => BreakEven {
            us: None,
            words: "not measured".to_owned(),
        },
    }
}

/// A usage error, or an error of the result.
fn failure(args: &Args, error: Error) -> anyhow::Error {
    let result = args.result.display();
    match error {
        Error::NoLatency(_) | Error::NoTable => Failure::usage(format!("{result}: {error}")),
        Error::NoTableTaken(_) | Error::CannotBeWritten(_) => {
            Failure::cannot(format!("{result}: {error}"))
        }
        Error::NoForm(why) => Failure::cannot(why),
        Error::OtherMachine(_) => {
            let root = args.root.as_deref().unwrap_or(Path::new("/")).display();
            Failure::usage(format!("--root {root}: {error}"))
        }
        Error::Machine(error) => error.into(),
        other => anyhow::Error::new(other).context(result.to_string()),
    }
}
