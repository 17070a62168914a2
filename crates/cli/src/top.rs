//! `reveille top`: what sleeps, what wakes it and what holds it awake, again and again.

mod bounds;
mod csv;
mod draw;
mod grid;
mod help;
mod history;
mod idle;
mod input;
mod json;
mod look;
mod numbers;
mod pace;
mod screen;
mod sheet;
mod states;
mod tables;
mod view;
mod wakers;

#[cfg(test)]
mod pictures;

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;

use reveille_kernel::{Identity, Root};
use reveille_watch::live::Watch;

use draw::About;
use pace::Pace;
use reveille_show::terminal;
use tables::Tables;

/// Show live what sleeps, what wakes it, and what holds it awake.
///
/// Idle states per CPU, core, package and machine; how long waking from them took, seen passively,
/// without one added event; who wakes each CPU; which bounds are in force and who holds them. As
/// root; others see what /proc and /sys tell. Keys: h.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  sudo reveille top
  sudo reveille top --interval 5s
  sudo reveille top --count 1 | less                  tables, where there is no terminal
  sudo reveille top --json --count 60 > minute.jsonl  an object a line
  sudo reveille top --csv --interval 10s > day.csv

Ends with q, Ctrl-C, SIGTERM or the terminal; the exit code is then 0. Without colour by NO_COLOR,
in ASCII where the locale is not UTF-8.")]
pub struct Args {
    /// Refresh after this time: 100ms or longer
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_interval)]
    interval: Duration,
    /// End after N refreshes
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Print tables, as is done where standard output is no terminal
    #[arg(long)]
    text: bool,
    /// Print a JSON object a line at each refresh
    #[arg(long, conflicts_with = "text")]
    json: bool,
    /// Print a line for each figure of each state, CPU and waker at each refresh
    #[arg(long, conflicts_with_all = ["text", "json"])]
    csv: bool,
}

/// Watching is to be no load: a refresh costs some milliseconds.
const SHORTEST: Duration = Duration::from_millis(100);

fn parse_interval(text: &str) -> Result<Duration, String> {
    let interval = humantime::parse_duration(text);
    let interval = interval.map_err(|_| "not a duration such as 1s or 500ms".to_owned())?;
    match interval < SHORTEST {
        true => Err("too often: 100ms is the shortest".to_owned()),
        false => Ok(interval),
    }
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let root = Root::default();
    let identity = Identity::read(&root);
    let mut watch = Watch::start(&root)?;
    let mut read = || Ok(watch.snapshot()?);
    let about = About {
        host: identity.hostname,
        kernel: identity.kernel,
    };
    if is_for_people(&args) {
        screen::run(&about, args.interval, args.count, read)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut out: Box<dyn Write> = match args.json || args.csv {
        true => terminal::data(),
        false => Box::new(terminal::stdout()),
    };
    let mut tables = Tables::new(about);
    let mut pace = Pace::new(args.interval, args.count)?;
    if args.csv {
        out.write_all(csv::HEADING.as_bytes())?;
    }
    while pace.next()? {
        let snapshot = read()?;
        match (args.json, args.csv) {
            (true, _) => json::write(&snapshot, &mut out)?,
            (_, true) => csv::write(&snapshot, &mut out)?,
            _ => tables.write(&snapshot, &mut out)?,
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The view in a terminal, and not a stream of text.
fn is_for_people(args: &Args) -> bool {
    let dumb = std::env::var("TERM").is_ok_and(|kind| kind == "dumb");
    !(args.text || args.json || args.csv) && io::stdout().is_terminal() && !dumb
}
