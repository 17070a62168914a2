//! `reveille quiet`: background work that can wait.

mod find;
mod run;

pub use run::check;

use std::process::ExitCode;
use std::time::Duration;

/// Find background work that can wait, and delay it so that CPUs sleep longer, and together.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  sudo reveille quiet find                           who wakes CPUs, and what could wait
  sudo reveille quiet run --cgroup background.slice  delay its sleeps by up to 100 ms, until Ctrl-C")]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Find(find::Args),
    Run(run::Args),
}

/// How long background work may wait.
fn within(text: &str) -> Result<Duration, String> {
    let range = Duration::from_millis(1)..=Duration::from_secs(60);
    crate::value::time_within("100ms", range)(text)
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.command {
        Command::Find(args) => find::run(args),
        Command::Run(args) => run::run(args),
    }
}
