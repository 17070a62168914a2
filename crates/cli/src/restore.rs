//! `reveille restore`: undoes what a killed run left changed.

use std::path::Path;
use std::process::ExitCode;

use reveille_machine::{Restored, journal};

/// Put back the settings that a killed run left changed.
///
/// Every command does this when it starts; `restore` does nothing else, and says what it did. A
/// setting that somebody else has changed in the meantime is left to them.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  sudo reveille restore")]
pub struct Args {}

pub fn run(_args: Args) -> anyhow::Result<ExitCode> {
    let restored = journal::recover(Path::new(journal::FOLDER))?;
    if restored.is_empty() {
        println!("nothing to restore: no run left a setting changed");
        return Ok(ExitCode::SUCCESS);
    }
    for change in &restored.undone {
        println!("{}: back to {}", change.path.display(), change.before);
    }
    for (change, present) in &restored.foreign {
        let path = change.path.display();
        println!("{path}: left at {present}, which somebody else has set since");
    }
    Ok(match complain(&restored) {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    })
}

/// At the start of every other command: a word only where something was found.
pub fn quietly() {
    match journal::recover(Path::new(journal::FOLDER)) {
        Ok(restored) => {
            if !restored.undone.is_empty() {
                let count = restored.undone.len();
                eprintln!("reveille: put back {count} settings that a killed run had left changed");
            }
            complain(&restored);
        }
        Err(error) => eprintln!("reveille: {error}"),
    }
}

/// Says what could not be put back; false if there was nothing.
fn complain(restored: &Restored) -> bool {
    for (change, why) in &restored.failed {
        let path = change.path.display();
        eprintln!(
            "reveille: {path} could not be put back ({why}); `sudo reveille restore` tries again"
        );
    }
    !restored.failed.is_empty()
}
