//! `reveille manual`: man pages, shell completions and the reference of columns, each from its one
//! definition.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory, ValueEnum};
use clap_complete::{Generator, Shell};
use reveille_results::output::{Existing, Folder, Naming};

use crate::columns;

/// Write the man pages, the shell completions and the reference of columns into a folder.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  reveille manual ~/.local/share/man     man1/ for man, completions/ for your shell
  reveille manual doc; man -l doc/man1/reveille-measure.1")]
pub struct Args {
    /// Gets man1/, completions/ and columns.md
    folder: PathBuf,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mut command = crate::Cli::command();
    let completions = Folder::make(&args.folder.join("completions"), Naming::ByUser)?;
    for shell in Shell::value_variants() {
        let mut text = Vec::new();
        clap_complete::generate(*shell, &mut command, "reveille", &mut text);
        completions.write(shell.file_name("reveille"), Existing::IsReplaced, &text)?;
    }
    let man = Folder::make(&args.folder.join("man1"), Naming::ByUser)?;
    // As clap_mangen's own writer of files: help has no pages.
    let mut command = crate::Cli::command().disable_help_subcommand(true);
    command.build();
    pages(command, &man)?;
    let folder = Folder::make(&args.folder, Naming::ByUser)?;
    folder.write(
        "columns.md",
        Existing::IsReplaced,
        columns::page().as_bytes(),
    )?;
    Ok(ExitCode::SUCCESS)
}

/// A page for the command, and for each below it.
fn pages(command: clap::Command, folder: &Folder) -> anyhow::Result<()> {
    let below = command.get_subcommands();
    for below in below.filter(|below| !below.is_hide_set()) {
        pages(below.clone(), folder)?;
    }
    let page = clap_mangen::Man::new(command);
    let mut text = Vec::new();
    page.render(&mut text)?;
    folder.write(page.get_filename(), Existing::IsReplaced, &text)?;
    Ok(())
}
