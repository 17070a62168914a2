//! `reveille power states`: what idle states save, and their break-even residencies.

use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use reveille_kernel::Root;
use reveille_power::dwell::{Here, Times};
use reveille_power::states::result::Ran;
use reveille_power::states::{self, FILE, Options, RATES, SCHEMA_VERSION, States, show};
use reveille_trial::setting::Machine;

use crate::comparison::{self, Kept};
use crate::exit::Failure;
use crate::{signals, value};

/// Measure what each idle state saves, and from which stay on it pays.
///
/// Only one state is allowed at a time, and threads wake each CPU at several rates. The power is a line
/// over the entries to the state; where the lines of two states cross is the break-even residency, which
/// is shown beside the driver's target residency. Every setting is restored.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  sudo reveille power states --meter rapl:package-0
  sudo reveille power states --meter shelly:10.0.0.7 --rounds 20 --out states
  reveille advise RESULT --table --break-even states   the driver's table with these residencies

A dwell has at least 30 new values of the meter. Ctrl-C ends the run and keeps the rounds so far.")]
pub struct Args {
    /// The meter; `reveille power meters` lists them
    #[arg(long, value_name = "METER")]
    meter: String,
    /// Rounds; each state has a turn at each rate in each
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = value::count(1..=200_u32))]
    rounds: u32,
    /// Wake-ups of each CPU a second, at least two rates [default: 50,500,1000,2000]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = value::count(1..=20_000_u32))]
    rates: Vec<u32>,
    /// How long each turn is measured [default: 30 new values of the meter, at least 2 s]
    #[arg(long, value_name = "TIME", value_parser = value::duration)]
    dwell: Option<Duration>,
    /// Seed of the order of turns
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = value::seed, allow_hyphen_values = true)]
    seed: u64,
    #[command(flatten)]
    kept: Kept,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let rates_per_s = match &args.rates[..] {
        [] => RATES.to_vec(),
        [_] => return Err(Failure::usage("--rates: a line needs at least two rates")),
        rates => rates.iter().map(|&rate| rate.into()).collect(),
    };
    let root = Root::default();
    let machine = Machine::read(root.clone())?;
    let all = states::names(&machine.idle)?;
    let names: Vec<String> = all.iter().map(|state| state.name.clone()).collect();
    let out = args.kept.folder(FILE)?;
    let notes = comparison::held_by_others("turn").into_iter().collect();
    let stop = signals::stop()?;
    let started = SystemTime::now();
    let (mut meter, watched) = comparison::watched(&root, &args.meter, &stop)?;
    let times = Times::of(&watched, args.dwell)?;
    let mut here = Here::new(&root, &machine.idle, meter.as_mut(), times);
    let options = Options {
        rounds: args.rounds,
        rates_per_s,
        seed: args.seed,
    };
    let cpus = here.cpus().len();
    let (turns, ended) = comparison::with_bar(args.rounds, |progress| {
        states::run(
            &machine, &mut here, &names, &options, &times, &stop, progress,
        )
    })?;
    let about = args.kept.about(
        SCHEMA_VERSION,
        &machine,
        &args.meter,
        started,
        ended.clone(),
    );
    let ran = Ran {
        rounds: args.rounds,
        seed: args.seed,
        cpus,
        turns,
    };
    let result = States::of(about, watched, &times, &all, ran, notes);
    let forget = |result: &mut States| result.turns.clear();
    let out = (FILE, out.as_ref());
    args.kept.print(result, &ended, out, forget, show::sheet)
}
