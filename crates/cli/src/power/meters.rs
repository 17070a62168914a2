//! `reveille power meters`: which meters there are, and how good each is.

use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::Duration;

use reveille_kernel::Root;
use reveille_meter::list::Meters;
use reveille_meter::show;
use reveille_show::progress::Bar;

use crate::output_format::{Printed, To};
use crate::{exit, signals, value};

/// List the meters of power, and measure how often each has a new value.
///
/// Each meter is watched for some seconds, one after the other. What cannot be read is listed with the
/// reason.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  sudo reveille power meters
  reveille power meters --meter shelly:10.0.0.7 --meter snmp:pdu,1.3.6.1.4.1.318.1.1.12.1.16.0
  reveille power meters --time 20s     for meters with few new values")]
pub struct Args {
    /// Only this meter; may be repeated [default: all that are found]
    #[arg(long, value_name = "METER")]
    meter: Vec<String>,
    /// How long each meter is watched
    #[arg(long, value_name = "TIME", default_value = "3s", value_parser = value::duration)]
    time: Duration,
    #[command(flatten)]
    printed: Printed,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let stop = signals::stop()?;
    let bar = Bar::new();
    let progress = &mut |name: &str, done: f64| bar.show("watching", done, None, name);
    let meters = Meters::watch(&Root::default(), &args.meter, args.time, &stop, progress);
    bar.clear();
    let meters = meters?;
    args.printed
        .print(&meters, &show::sheet(&meters), To::Output)?;
    Ok(match stop.load(Ordering::Relaxed) {
        true => ExitCode::from(exit::INTERRUPTED),
        false if !args.meter.is_empty() && !meters.missing.is_empty() => ExitCode::FAILURE,
        false if meters.meters.is_empty() => ExitCode::from(exit::CANNOT),
        false => ExitCode::SUCCESS,
    })
}
