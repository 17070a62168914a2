//! `reveille manual`: man pages, shell completions and the reference of columns, each from its one
//! definition.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::ValueEnum;
use clap_complete::{Generator, Shell};
use reveille_results::output::{Existing, Folder, Naming};

use crate::{columns, completion};

/// Write man pages, shell completions and the reference of columns into a folder.
///
/// `make install` installs the same files. Completions include this machine's idle states, CPUs,
/// interfaces and disks, and results: they run `reveille`, which must be in PATH.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  reveille manual ~/.local/share/man             man1/ for man, completions/ for your shell
  reveille manual doc; man -l doc/man1/reveille-measure.1
  reveille manual doc; source doc/completions/reveille.bash")]
pub struct Args {
    /// Folder for man1/, completions/ and columns.md
    folder: PathBuf,
}

pub fn run(args: Args, command: clap::Command) -> anyhow::Result<ExitCode> {
    let completions = Folder::make(&args.folder.join("completions"), Naming::ByUser)?;
    for shell in Shell::value_variants() {
        let text = completion::script(*shell)?;
        let name = shell.file_name("reveille");
        completions.write(name, Existing::IsReplaced, text.as_bytes())?;
    }
    let man = Folder::make(&args.folder.join("man1"), Naming::ByUser)?;
    // As clap_mangen's own writer of files: help has no pages.
    let mut command = command.disable_help_subcommand(true);
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
