//! `reveille restore`: restores what a killed run left changed, and what was kept.

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use reveille_kernel::{Journal, Restored, Root, journal};

use crate::exit;
use reveille_show::terminal;

/// Restore the settings that a killed run left changed, and those of `limit --keep`.
///
/// Every command, when it starts, restores what a killed run left; only `restore` and the next boot
/// end `limit --keep`. A setting that another program has changed since is left alone; one that another
/// run still uses keeps the value of that run.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  sudo reveille restore
  sudo reveille restore --all      also what a removed container left
  sudo reveille restore --killed   as every command does first; `limit --keep` stays")]
pub struct Args {
    /// Also settings of other PID namespaces (containers), where a run may still use them
    #[arg(long)]
    all: bool,
    /// Only what killed runs left; settings of `limit --keep` stay
    #[arg(long, conflicts_with = "all")]
    killed: bool,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let folder = Path::new(journal::FOLDER);
    let root = Root::default();
    let restored = match args.killed {
        true => journal::recover(&root, folder)?,
        false => journal::release(&root, folder, args.all)?,
    };
    complain(&restored);
    // The work and its exit code do not change if the reader closes standard output.
    exit::reader_may_leave(write(&restored, args.killed, &mut terminal::stdout()))?;
    Ok(
        match restored.failed.is_empty() && restored.refused.is_empty() {
            true => ExitCode::SUCCESS,
            false => ExitCode::FAILURE,
        },
    )
}

fn write(restored: &Restored, killed: bool, out: &mut impl Write) -> io::Result<()> {
    if restored.is_empty() {
        let kept = if killed { "" } else { ", and none was kept" };
        return writeln!(
            out,
            "nothing to restore: no run left a setting changed{kept}"
        );
    }
    for change in &restored.undone {
        writeln!(out, "{}: back to {}", change.path.display(), change.before)?;
    }
    if restored.elsewhere > 0 {
        writeln!(
            out,
            "not restored: {} of runs in another PID namespace (a container); run `reveille \
             restore` there, or `reveille restore --all` if it no longer exists",
            match restored.elsewhere {
                1 => "1 setting".to_owned(),
                settings => format!("{settings} settings"),
            }
        )?;
    }
    Ok(())
}

/// At the start of every other command; it prints nothing unless it finds something.
pub fn quietly() {
    match journal::recover(&Root::default(), Path::new(journal::FOLDER)) {
        Ok(restored) => {
            if !restored.undone.is_empty() {
                let count = restored.undone.len();
                let settings = if count == 1 { "setting" } else { "settings" };
                exit::say(format_args!(
                    "restored {count} {settings} that a killed run left changed"
                ));
            }
            complain(&restored);
        }
        Err(error) => exit::say(error),
    }
}

/// Restores what a command has changed, however it ended, and reports what is not restored: a failure.
pub fn at_the_end(
    mut journal: Journal,
    ended: anyhow::Result<ExitCode>,
) -> anyhow::Result<ExitCode> {
    let is_done = is_whole(&journal.restore());
    match ended {
        Ok(ExitCode::SUCCESS) if !is_done => Ok(ExitCode::FAILURE),
        ended => ended,
    }
}

/// Whether all was restored; reports what was not.
pub fn is_whole(restored: &Restored) -> bool {
    complain(restored);
    restored.failed.is_empty() && restored.refused.is_empty()
}

fn complain(restored: &Restored) {
    for complaint in restored.complaints() {
        exit::say(complaint);
    }
}
