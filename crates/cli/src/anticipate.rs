//! `reveille anticipate`: waking in time.

mod bench;

use std::process::ExitCode;

/// Have CPUs awake just when what is waited for is done.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Subcommand,
}

#[derive(clap::Subcommand)]
enum Subcommand {
    Bench(Box<bench::Args>),
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.command {
        Subcommand::Bench(args) => bench::run(*args),
    }
}
