//! `reveille manual`: man pages and shell completions, from the one definition of the flags.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::{CommandFactory, ValueEnum};
use clap_complete::Shell;

/// Write the man pages and the shell completions into a folder.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  reveille manual ~/.local/share/man     man1/ for man, completions/ for your shell
  reveille manual doc; man -l doc/man1/reveille-measure.1")]
pub struct Args {
    /// Gets man1/ and completions/
    folder: PathBuf,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let (man, completions) = (args.folder.join("man1"), args.folder.join("completions"));
    for folder in [&man, &completions] {
        fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    clap_mangen::generate_to(crate::Cli::command(), &man)
        .with_context(|| man.display().to_string())?;
    for shell in Shell::value_variants() {
        let mut command = crate::Cli::command();
        clap_complete::generate_to(*shell, &mut command, "reveille", &completions)
            .with_context(|| completions.display().to_string())?;
    }
    Ok(ExitCode::SUCCESS)
}
