//! `reveille cost`.

use std::process::ExitCode;

/// Tell how much time a workload loses waiting for CPUs to wake.
#[derive(clap::Args)]
pub struct Args {}

pub fn run(_args: Args) -> anyhow::Result<ExitCode> {
    anyhow::bail!("being built")
}
