//! `reveille path`.

use std::process::ExitCode;

/// Tell where the time goes for packets that reach this machine.
#[derive(clap::Args)]
pub struct Args {}

pub fn run(_args: Args) -> anyhow::Result<ExitCode> {
    anyhow::bail!("being built")
}
