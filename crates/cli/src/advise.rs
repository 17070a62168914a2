//! `reveille advise`.

use std::process::ExitCode;

/// Tell which idle states may be allowed for a latency budget.
#[derive(clap::Args)]
pub struct Args {}

pub fn run(_args: Args) -> anyhow::Result<ExitCode> {
    anyhow::bail!("being built")
}
