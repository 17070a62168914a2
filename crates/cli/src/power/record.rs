//! `reveille power record`: a meter's samples as a file.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::Duration;

use reveille_kernel::{Error, Root};
use reveille_meter::{Counts, Steady, WATCH};
use reveille_results::output::{Folder, Naming};
use reveille_show::quantity::counted;
use reveille_show::terminal;

use crate::exit::{self, Failure, say};
use crate::{comparison, signals, value};

const HEAD: &str = "time,power_w\n";

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
    let mut watched = reveille_meter::watch(meter.as_mut(), WATCH, &stop)?;
    // Only the counter decides how much a sample covers. A value of power may stay as it is for hours.
    if watched.about.counts == Counts::Energy {
        watched = comparison::longer(meter.as_mut(), watched, &stop)?;
    }
    let interval = watched.interval(args.interval)?;
    let name = match &place {
        Some((folder, name)) => folder.path().join(name),
        None => "standard output".into(),
    };
    let mut left = false;
    // Made with the first sample: what has none leaves no file.
    let mut file: Option<File> = None;
    let mut whole = 0;
    let mut line = |line: String| -> Result<(), Error> {
        let line = format!("{}{line}", if whole == 0 { HEAD } else { "" });
        let written = match &place {
            Some((folder, short)) => {
                let file = match &mut file {
                    Some(file) => file,
                    none => none.insert(folder.create(short)?),
                };
                file.write_all(line.as_bytes()).inspect_err(|_| {
                    // Half a line does not stay, nor a file without a sample.
                    match whole {
                        0 => folder.remove(short),
                        whole => drop(file.set_len(whole)),
                    }
                })
            }
            None => {
                let mut output = terminal::data();
                let written = output.write_all(line.as_bytes());
                match written.and_then(|()| output.flush()) {
                    // Who reads standard output has enough.
                    Err(why) if why.kind() == ErrorKind::BrokenPipe => {
                        stop.store(true, Ordering::Relaxed);
                        left = true;
                        Ok(())
                    }
                    written => written,
                }
            }
        };
        whole += line.len() as u64;
        written.map_err(Error::at(&name))
    };
    let mut steady = Steady::new(meter.as_mut(), watched.refresh());
    let mut written = 0;
    let recorded = steady.record(interval, args.duration, &stop, &mut |at, watts| {
        let at = humantime::format_rfc3339_millis(at);
        // No -0.
        line(format!("{at},{:.4}\n", watts + 0.0))?;
        written += 1;
        Ok(())
    });
    let recorded = match recorded {
        Err(why) if written > 0 => {
            say(format!(
                "{} kept: {}",
                counted(written, "sample"),
                name.display()
            ));
            return Err(why.into());
        }
        recorded => recorded?,
    };
    if let Some(why) = recorded.why {
        say(format!(
            "{} readings failed, the last one: {why}",
            recorded.missed
        ));
    }
    let mean_w = recorded.energy_j / recorded.covered_s;
    say(&match recorded.samples {
        0 => "No sample.".to_owned(),
        samples => format!(
            "{}, asked for every {:.3} s, {mean_w:.2} W on average: {}",
            counted(samples, "sample"),
            interval.as_secs_f64(),
            name.display()
        ),
    });
    if left {
        return Ok(ExitCode::SUCCESS);
    }
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
