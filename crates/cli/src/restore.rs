//! `reveille restore`: undoes what a killed run left changed, and what was kept.

use std::path::Path;
use std::process::ExitCode;

use reveille_machine::{Journal, Restored, journal};

/// Put back the settings that a killed run left changed, and those of `limit --keep`.
///
/// What a killed run left, every command puts back when it starts; what was kept, only `restore`
/// does, and the next boot. It says what it did. A setting that somebody else has changed in the
/// meantime is left to them.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  sudo reveille restore")]
pub struct Args {}

pub fn run(_args: Args) -> anyhow::Result<ExitCode> {
    let restored = journal::release(Path::new(journal::FOLDER))?;
    if restored.is_empty() {
        println!("nothing to restore: no run left a setting changed, and none was kept");
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
                let settings = if count == 1 { "setting" } else { "settings" };
                eprintln!(
                    "reveille: put back {count} {settings} that a killed run had left changed"
                );
            }
            complain(&restored);
        }
        Err(error) => eprintln!("reveille: {error}"),
    }
}

/// Puts back what a command has changed, with a word on what went otherwise. False where something
/// could not be put back.
pub fn at_the_end(mut journal: Journal) -> bool {
    let restored = journal.restore();
    for (change, present) in &restored.foreign {
        let path = change.path.display();
        eprintln!(
            "reveille: {path} was set to {present} by somebody else meanwhile; left so, not put \
             back to {}",
            change.before
        );
    }
    !complain(&restored)
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
