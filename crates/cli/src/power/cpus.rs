//! `reveille power cpus`: power against the number of busy CPUs.

use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use reveille_kernel::Root;
use reveille_power::cpus::{self, Cpus, FILE, Options, Order, SCHEMA_VERSION, show};
use reveille_power::dwell::{Here, Times};
use reveille_trial::setting::Machine;

use crate::comparison::{self, Kept};
use crate::{signals, value};

/// Measure power against the number of busy CPUs.
///
/// Threads keep 0, 1, 2, ... CPUs busy, in shuffled order, round by round, and the meter is read. It
/// shows what the first busy CPU costs, for which the machine may not sleep as a whole, and what each
/// further one costs. It needs a machine without other load.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  sudo reveille power cpus --meter rapl:package-0
  sudo reveille power cpus --meter shelly:10.0.0.7 --order fill,spread --out power

Orders:
  fill             core by core with all its threads, package by package
  spread           one package after the other in turn; second threads last
  siblings-last    package by package; second threads last
  efficient-first  as fill, efficient cores first

A dwell has at least 30 new values of the meter. Ctrl-C ends the run and keeps the rounds so far.")]
pub struct Args {
    /// The meter; `reveille power meters` lists them
    #[arg(long, value_name = "METER")]
    meter: String,
    /// Rounds; each number of busy CPUs has a turn in each
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = value::count(1..=200_u32))]
    rounds: u32,
    /// How long each turn is measured [default: 30 new values of the meter, at least 2 s]
    #[arg(long, value_name = "TIME", value_parser = value::duration)]
    dwell: Option<Duration>,
    /// In which orders CPUs become busy
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "fill", value_parser = order)]
    order: Vec<Order>,
    /// Seed of the order of turns
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = value::seed, allow_hyphen_values = true)]
    seed: u64,
    #[command(flatten)]
    kept: Kept,
}

fn order(text: &str) -> Result<Order, String> {
    let found = Order::ALL.iter().find(|(_, name)| *name == text);
    found.map(|(order, _)| *order).ok_or_else(|| {
        "not an order; write fill, spread, siblings-last or efficient-first".to_owned()
    })
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let root = Root::default();
    let machine = Machine::read(root.clone())?;
    let (ways, mut notes) = cpus::ways(&machine.idle, &args.order)?;
    let out = args.kept.folder(FILE)?;
    notes.extend(comparison::held_by_others("turn"));
    let stop = signals::stop()?;
    let started = SystemTime::now();
    let (mut meter, watched) = comparison::watched(&root, &args.meter, &stop)?;
    let times = Times::of(&watched, args.dwell)?;
    let mut here = Here::new(&root, &machine.idle, meter.as_mut(), times);
    let options = Options {
        rounds: args.rounds,
        orders: args.order,
        seed: args.seed,
    };
    let (turns, ended) = comparison::with_bar(args.rounds, |progress| {
        cpus::run(
            &machine, &mut here, &ways, &options, &times, &stop, progress,
        )
    })?;
    let about = args.kept.about(
        SCHEMA_VERSION,
        &machine,
        &args.meter,
        started,
        ended.clone(),
    );
    let result = Cpus::of(
        about,
        watched,
        &times,
        args.rounds,
        args.seed,
        ways,
        turns,
        notes,
    );
    let forget = |result: &mut Cpus| result.turns.clear();
    let out = (FILE, out.as_ref());
    args.kept.print(result, &ended, out, forget, show::sheet)
}
