//! `reveille hold`.

use std::process::ExitCode;

/// Hold the CPUs awake as far as a latency bound needs, while a command runs.
#[derive(clap::Args)]
pub struct Args {}

pub fn run(_args: Args) -> anyhow::Result<ExitCode> {
    anyhow::bail!("being built")
}
