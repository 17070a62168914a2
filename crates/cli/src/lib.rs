//! The program `reveille`: a file for each subcommand, which parses, calls, and prints.
//!
//! There are two programs of it, [`main`] and [`services`]: what runs for long and speaks D-Bus or HTTP is linked into
//! the second one alone, which the first one becomes by exec(). So a build of the first is a short one.

// They panic if the reader closes the pipe. Data are written with `writeln!`, the rest by `exit::say`.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod advise;
mod anticipate;
mod codes;
mod columns;
mod command;
mod comparison;
mod completion;
mod cost;
mod doctor;
mod elsewhere;
mod exit;
mod export;
mod flags;
mod govern;
mod held;
mod hold;
mod kept;
mod limit;
mod manual;
mod measure;
mod model;
mod output_format;
mod page;
mod path;
mod power;
mod quiet;
mod report;
mod restore;
mod resume;
mod serving;
mod show;
mod signals;
mod stage;
mod start;
mod states;
mod top;
mod trial;
mod value;

use std::process::ExitCode;

use serving::Serving;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

/// The most columns of `--help`.
const HELP_WIDTH: usize = 100;

/// Measure how long CPUs take to wake from idle states, and manage those states.
#[derive(Parser)]
#[command(
    name = "reveille",
    bin_name = "reveille",
    version,
    max_term_width = HELP_WIDTH
)]
#[command(after_help = "\
Examples:
  reveille                                  overview of this machine, and the commands by question
  sudo reveille measure                     measure this machine for 30 seconds
  sudo reveille measure --each-state        every idle state in turn
  reveille states                           the driver's table, and how each state was used
  reveille show RESULT                      print a kept result again
  reveille report RESULT                    a page that opens in a browser
  sudo reveille top                         live: what sleeps, what wakes it, what holds it
  sudo reveille cost -- ./server            what a workload loses waiting for CPUs to wake
  reveille advise RESULT --budget 50us      which states may be allowed, and how to set it
  sudo reveille hold --latency 50us         hold a latency bound until Ctrl-C
  sudo reveille trial --ping 192.168.1.1    a workload under several settings, compared
  sudo reveille power meters                the meters of power here, and how good each is
  reveille model sweep                      what sleeping servers would save, and cost
  reveille doctor                           what this kernel, CPU and user allow")]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    Measure(measure::Args),
    Report(report::Args),
    Show(show::Args),
    States(states::Args),
    Top(top::Args),
    Cost(cost::Args),
    Path(path::Args),
    Power(power::Args),
    Hold(hold::Args),
    Limit(limit::Args),
    Advise(advise::Args),
    Trial(Box<trial::Args>),
    Anticipate(anticipate::Args),
    Govern(govern::Args),
    Quiet(quiet::Args),
    Stage(Box<stage::Args>),
    Model(Box<model::Args>),
    Doctor(doctor::Args),
    Export(export::Args),
    Resume(resume::Args),
    Restore(restore::Args),
    Manual(manual::Args),
    Far(elsewhere::FarArgs),
}

/// A damaged file gets its one line, without the panic that it caused in the parquet crate.
fn silence_caught_panics() {
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if !reveille_results::panic_becomes_an_error() {
            print(info);
        }
    }));
}

/// The program `reveille`, without what only `reveille-services` has.
pub fn main() -> ExitCode {
    run(None)
}

/// The program `reveille-services`: all of it.
#[cfg(feature = "services")]
pub fn services() -> ExitCode {
    run(Some(&serving::here::HERE))
}

fn run(serving: Option<&Serving>) -> ExitCode {
    if let Some(answered) = completion::answer(Cli::command) {
        return answered;
    }
    command::record_inherited_descriptors();
    silence_caught_panics();
    if let Err(error) = signals::survive_file_size_limit() {
        return exit::report(&error);
    }
    let mut all = codes::in_help(Cli::command());
    let parsed = all.try_get_matches_from_mut(std::env::args_os());
    let cli = match parsed.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(error) => return exit::usage_error(&error, &all),
    };
    let Some(command) = cli.command else {
        return start::run().unwrap_or_else(|error| exit::report(&error));
    };
    // Every command first undoes what a killed run left.
    if !matches!(command, Command::Restore(_) | Command::Far(_)) {
        restore::quietly();
    }
    let ended = match command {
        Command::Measure(args) => measure::run(args),
        Command::Report(args) => report::run(args),
        Command::Show(args) => show::run(args),
        Command::States(args) => states::run(args),
        Command::Top(args) => top::run(args),
        Command::Cost(args) => cost::run(args),
        Command::Path(args) => path::run(args),
        Command::Power(args) => power::run(args),
        Command::Hold(args) => hold::run(args, serving),
        Command::Limit(args) => limit::run(args),
        Command::Advise(args) => advise::run(args),
        Command::Trial(args) => trial::run(*args),
        Command::Anticipate(args) => anticipate::run(args),
        Command::Govern(args) => govern::run(args, |serve| match serving {
            Some(serving) => (serving.govern)(serve),
            None => Err(serving::replace()),
        }),
        Command::Quiet(args) => quiet::run(args),
        Command::Stage(args) => match serving {
            Some(serving) => (serving.stage)(*args),
            None => Err(serving::replace()),
        },
        Command::Model(args) => model::run(*args),
        Command::Doctor(args) => doctor::run(args),
        Command::Export(args) => export::run(args),
        Command::Resume(args) => resume::run(args),
        Command::Restore(args) => restore::run(args),
        Command::Manual(args) => manual::run(args, all),
        Command::Far(args) => elsewhere::far(&args),
    };
    ended.unwrap_or_else(|error| exit::report(&error))
}
