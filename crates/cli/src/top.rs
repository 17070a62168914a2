//! `reveille top`.

use std::process::ExitCode;

/// Show live what sleeps, what wakes it, and what holds it awake.
#[derive(clap::Args)]
pub struct Args {}

pub fn run(_args: Args) -> anyhow::Result<ExitCode> {
    anyhow::bail!("being built")
}
