//! `reveille trial`.

use std::process::ExitCode;

/// Run one workload under several idle settings and compare.
#[derive(clap::Args)]
pub struct Args {}

pub fn run(_args: Args) -> anyhow::Result<ExitCode> {
    anyhow::bail!("being built")
}
