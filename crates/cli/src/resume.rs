//! `reveille resume`: where the time of a suspend and a resume goes.

mod analyze;
mod capture;

use std::process::ExitCode;

/// Tell where the time of a suspend and a resume goes.
#[derive(clap::Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
#[command(after_help = "\
Examples:
  sudo reveille resume capture --repeat 10      suspend this machine, and find where the time went
  reveille resume analyze dmesg.txt             stages, critical path, what could be gained
  dmesg | reveille resume analyze -             the log of this machine")]
pub struct Args {
    #[command(subcommand)]
    command: Subcommand,
}

#[derive(clap::Subcommand)]
enum Subcommand {
    Capture(capture::Args),
    Analyze(Box<analyze::Args>),
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.command {
        Subcommand::Capture(args) => capture::run(&args),
        Subcommand::Analyze(args) => analyze::run(&args),
    }
}
