//! `reveille power record`: a meter's samples as a file.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::Duration;

use reveille_kernel::{Error, Root};
use reveille_meter::Steady;
use reveille_power::dwell;
use reveille_results::output::{Folder, Naming};
use reveille_show::terminal;

use crate::exit::{self, Failure, say};
use crate::{signals, value};

/// Record a meter's samples as CSV.
///
/// A line for each sample has the time, in UTC, and the power in W. `resume analyze --power` reads it: a machine that
/// is suspended cannot read a meter, so this runs on another one, with the same time (NTP), for a meter of what the
/// suspended one takes: a socket in the wall, a PDU. An energy counter gives the mean from the sample before. Lines are
/// written at once. Without --duration Ctrl-C ends it.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  reveille power record --meter shelly:10.0.0.7 --out meter.csv
  reveille power record --meter tasmota:10.0.0.8 --duration 5min > meter.csv
  reveille resume analyze capture/ --power meter.csv")]
pub struct Args {
    /// The meter; `reveille power meters` lists them
    #[arg(long, value_name = "METER")]
    meter: String,
    /// The file, a new one [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Record for this time [default: until Ctrl-C]
    #[arg(long, value_name = "TIME", value_parser = value::duration)]
    duration: Option<Duration>,
    /// Time between samples [default: as often as the meter has a new value, at least 100 ms]
    #[arg(long, value_name = "TIME", value_parser = value::duration)]
    interval: Option<Duration>,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let stop = signals::stop()?;
    let mut meter = reveille_meter::named(&Root::default(), &args.meter)?;
    let place = args.out.as_deref().map(place).transpose()?;
    let watched = reveille_meter::watch(meter.as_mut(), dwell::WATCH, &stop)?;
    let interval = watched.interval(args.interval)?;
    let (name, mut file): (_, Box<dyn Write>) = match &place {
        Some((folder, name)) => (folder.path().join(name), Box::new(folder.create(name)?)),
        None => ("standard output".into(), Box::new(terminal::data())),
    };
    let mut line = |line: String| {
        let written = file.write_all(line.as_bytes()).and_then(|()| file.flush());
        written.map_err(Error::at(&name))
    };
    line("time,power_w\n".into())?;
    let mut steady = Steady::new(meter.as_mut(), watched.refresh());
    let recorded = steady.record(interval, args.duration, &stop, &mut |at, watts| {
        let at = humantime::format_rfc3339_millis(at);
        // No -0.
        line(format!("{at},{:.4}\n", watts + 0.0))
    })?;
    if let Some(why) = recorded.why {
        say(format!(
            "{} readings failed, the last one: {why}",
            recorded.missed
        ));
    }
    let mean_w = recorded.sum_w / recorded.samples as f64;
    say(&match recorded.samples {
        0 => "No sample.".to_owned(),
        samples => format!(
            "{samples} samples, asked for every {:.3} s, {mean_w:.2} W on average: {}",
            interval.as_secs_f64(),
            name.display()
        ),
    });
    let is_cut_off = args.duration.is_some() && stop.load(Ordering::Relaxed);
    Ok(match recorded.samples {
        _ if is_cut_off => ExitCode::from(exit::INTERRUPTED),
        0 if stop.load(Ordering::Relaxed) => ExitCode::from(exit::INTERRUPTED),
        // The average says little then.
        samples if samples <= recorded.missed => ExitCode::FAILURE,
        _ => ExitCode::SUCCESS,
    })
}

/// The folder and the name of a new file.
fn place(path: &Path) -> anyhow::Result<(Folder, PathBuf)> {
    let name = path.file_name().ok_or_else(|| {
        Failure::usage(format!("--out {}: not the name of a file", path.display()))
    })?;
    let folder = Folder::open(path.parent().unwrap_or(Path::new("")), Naming::ByUser)?;
    folder.refuse_taken(name)?;
    Ok((folder, name.into()))
}
