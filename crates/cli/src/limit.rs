//! `reveille limit`.

use std::process::ExitCode;

/// Disable idle states while a command runs, or until `restore`.
#[derive(clap::Args)]
pub struct Args {}

pub fn run(_args: Args) -> anyhow::Result<ExitCode> {
    anyhow::bail!("being built")
}
