//! What `trial` and `anticipate bench` have in common: a comparison by rounds is kept and printed.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use reveille_kernel::{Identity, Root};
use reveille_meter::{Counts, Meter, WATCH, Watched};
use reveille_results::description::Ended;
use reveille_results::kept::{self, About, Header};
use reveille_results::output::Folder;
use reveille_show::progress::Bar;
use reveille_show::sheet::Sheet;
use reveille_trial::rounds::Progress;
use reveille_trial::setting::Machine;
pub use reveille_trial::setting::held_by_others;
use serde::Serialize;

use crate::exit::Failure;
use crate::output_format::{Printed, To};
use crate::{exit, flags};

#[derive(clap::Args)]
pub struct Kept {
    /// Folder to keep the result in, with every turn, for `reveille report`; must not hold one
    #[arg(short, long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Name in reports [default: the folder's, or the workload]
    #[arg(long, value_name = "TEXT")]
    name: Option<String>,
    #[command(flatten)]
    pub printed: Printed,
}

impl Kept {
    /// `--out`.
    pub fn out(&self) -> Option<&std::path::Path> {
        self.out.as_deref()
    }

    /// The folder of `--out`, before the run.
    pub fn folder(&self, file: &str) -> anyhow::Result<Option<Folder>> {
        flags::output_folder(self.out.as_deref(), &[file])
    }

    pub fn about(
        &self,
        schema_version: u32,
        machine: &Machine,
        workload: &str,
        started: SystemTime,
        ended: Ended,
    ) -> About {
        let folder = || Some(self.out.as_deref()?.file_name()?.to_string_lossy().into());
        let name = self.name.clone().or_else(folder);
        let header = Header::of(started, Identity::read(&machine.root), &machine.idle);
        About {
            schema_version,
            tool: header.tool,
            name: name.unwrap_or_else(|| workload.to_owned()),
            started: header.started,
            command_line: header.command_line,
            ended,
            machine: header.machine,
            driver: header.driver,
            governor: header.governor,
        }
    }

    /// Writes the result into its folder and prints it. JSON is printed without what `forget` drops: the
    /// single turns.
    pub fn print<T: Serialize>(
        &self,
        mut result: T,
        ended: &Ended,
        (file, folder): (&str, Option<&Folder>),
        forget: impl FnOnce(&mut T),
        sheet: impl for<'a> FnOnce(&'a T) -> Sheet<'a>,
    ) -> anyhow::Result<ExitCode> {
        // Before it is printed: the terminal may be closed.
        let kept = folder.map(|folder| kept::write(&result, file, folder));
        if self.printed.json {
            forget(&mut result);
        }
        let sheet = sheet(&result);
        self.printed
            .print_kept(&result, sheet, kept.transpose(), To::Output)?;
        Ok(match ended {
            Ended::Completed => ExitCode::SUCCESS,
            Ended::Interrupted => ExitCode::from(exit::INTERRUPTED),
            Ended::Disturbed(_) => ExitCode::FAILURE,
        })
    }
}

/// `--meter`.
#[derive(clap::Args)]
pub struct Metered {
    /// Measure power, too, by this meter, in each turn if there are turns; it needs 30 new values of the meter, which
    /// `reveille power meters` lists
    #[arg(long, value_name = "METER")]
    meter: Option<String>,
}

impl Metered {
    /// As [`watched`].
    pub fn watched(
        &self,
        root: &Root,
        stop: &AtomicBool,
    ) -> anyhow::Result<Option<(Box<dyn Meter>, Watched)>> {
        let name = self.meter.as_ref();
        name.map(|name| watched(root, name, stop)).transpose()
    }
}

/// A package that was busy is warm for some seconds.
const AFTER_LOAD: Duration = Duration::from_secs(3);

/// The meter of that name, as it was seen for some seconds, or longer if it has few new values.
pub fn watched(
    root: &Root,
    name: &str,
    stop: &AtomicBool,
) -> anyhow::Result<(Box<dyn Meter>, Watched)> {
    let mut meter = reveille_meter::named(root, name)?;
    let watched = reveille_meter::watch(meter.as_mut(), WATCH, stop)?;
    let watched = longer(meter.as_mut(), watched, stop)?;
    if watched.refresh_s.is_none() && stop.load(Ordering::Relaxed) {
        let why = format!("interrupted while {name} was watched");
        return Err(Failure::interrupted(why));
    }
    Ok((meter, watched))
}

/// Watches a meter until its refresh period is known, if that is not `watched` yet.
pub fn longer(
    meter: &mut dyn Meter,
    watched: Watched,
    stop: &AtomicBool,
) -> reveille_kernel::Result<Watched> {
    if watched.refresh_s.is_some() || stop.load(Ordering::Relaxed) {
        return Ok(watched);
    }
    let (load, after) = match watched.about.counts {
        Counts::Energy => ("", Duration::ZERO),
        Counts::Power => (", with all CPUs busy and idle in turn", AFTER_LOAD),
    };
    exit::say(format_args!(
        "{}: too few new values in {} s; watching it for up to a minute{load}",
        watched.about.name,
        WATCH.as_secs()
    ));
    let watched = reveille_meter::watch_longer(meter, stop)?;
    // The machine is as before then.
    reveille_meter::pause(after, stop);
    Ok(watched)
}

/// Shows progress while `run` runs.
pub fn with_bar<T>(rounds: u32, run: impl FnOnce(&mut dyn FnMut(&Progress)) -> T) -> T {
    let bar = Bar::new();
    let ran = run(&mut |now: &Progress| {
        let round = format!("round {}/{rounds}", now.round + 1);
        bar.show(&round, now.done, now.left, &now.turn);
        now.left.into_iter().for_each(|left| bar.announce(left));
    });
    bar.clear();
    ran
}
