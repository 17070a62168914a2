//! `reveille resume`: where the time of a suspend and a resume goes.

mod analyze;
mod capture;

use std::process::ExitCode;

/// Show where the time of a suspend and a resume goes.
#[derive(clap::Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
#[command(after_help = "\
Examples:
  sudo reveille resume capture --repeat 10      suspend this machine ten times and analyse it
  reveille resume analyze dmesg.txt             stages, critical path, possible savings
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
