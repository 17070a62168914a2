//! `reveille top`.

mod csv;
mod json;

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use reveille_machine::Root;
use reveille_watch::live::Watch;

/// Show live what sleeps, what wakes it, and what holds it awake.
#[derive(clap::Args)]
pub struct Args {
    /// Refresh after this time
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = humantime::parse_duration)]
    interval: Duration,
    /// End after N refreshes
    #[arg(long, value_name = "N")]
    count: Option<u64>,
    /// Print a JSON object a line at each refresh
    #[arg(long)]
    json: bool,
    /// Print a line for each figure at each refresh
    #[arg(long, conflicts_with = "json")]
    csv: bool,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mut out = anstream::stdout().lock();
    let mut watch = Watch::start(&Root::default())?;
    if args.csv {
        out.write_all(csv::HEADING.as_bytes())?;
    }
    for _ in 0..args.count.unwrap_or(u64::MAX) {
        std::thread::sleep(args.interval);
        let snapshot = watch.snapshot()?;
        match args.csv {
            true => csv::write(&snapshot, &mut out)?,
            false => json::write(&snapshot, &mut out)?,
        }
    }
    Ok(ExitCode::SUCCESS)
}
