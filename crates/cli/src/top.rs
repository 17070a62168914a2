//! `reveille top`: what sleeps, what wakes it and what holds it awake, again and again.

use std::process::ExitCode;
use std::time::Duration;

use reveille_kernel::{Identity, Root};
use reveille_watch::live::Watch;

use reveille_show::terminal::{self, Stream};
use reveille_top::{About, Form, Refresh};

use crate::elsewhere::{self, AS_GIVEN, Elsewhere};
use crate::exit::Failure;
use crate::signals::ending;
use crate::value;

/// Show live what sleeps, what wakes it, and what holds it awake.
///
/// Shows idle states per CPU, core, package and machine; how long waking from them took, observed
/// passively, without adding events; what wakes each CPU; which latency bounds are in force, and
/// their holders. Needs root for all of that; other users see what is in /proc and /sys. h lists the
/// keys.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  sudo reveille top
  sudo reveille top --interval 5s
  sudo reveille top --count 1 | less                  tables, if the output is not a terminal
  sudo reveille top --json --count 60 > minute.jsonl  an object per line
  reveille top --host root@sut --json                 another machine, by ssh
  sudo reveille top --csv --interval 10s > day.csv

Ends with q, Ctrl-C, SIGTERM or the terminal; the exit code is then 0. NO_COLOR disables colour;
without a UTF-8 locale the view is ASCII.")]
pub struct Args {
    /// Refresh after this time: 100ms or longer
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = value::interval)]
    interval: Duration,
    /// End after N refreshes
    #[arg(long, value_name = "N", value_parser = value::count(1..=u64::MAX))]
    count: Option<u64>,
    /// Print tables; the default if standard output is not a terminal
    #[arg(long)]
    text: bool,
    /// Print a JSON object on a line at each refresh
    #[arg(long, conflicts_with = "text")]
    json: bool,
    /// Print a line for each figure of each state, CPU and waker at each refresh
    #[arg(long, conflicts_with_all = ["text", "json"])]
    csv: bool,
    #[command(flatten)]
    elsewhere: Elsewhere,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    if args.elsewhere.is_given() {
        return there(&args);
    }
    let root = Root::default();
    let identity = Identity::read(&root);
    let mut watch = Watch::start(&root)?;
    let read = || watch.snapshot();
    let about = About {
        host: identity.hostname,
        kernel: identity.kernel,
    };
    let refresh = Refresh {
        interval: args.interval,
        count: args.count,
        ended_by: ending(),
    };
    match form(&args) {
        None => reveille_top::run(&about, &refresh, read)?,
        Some(Form::Text) => {
            reveille_top::stream(about, &refresh, Form::Text, terminal::stdout(), read)?;
        }
        Some(form) => reveille_top::stream(about, &refresh, form, terminal::data(), read)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// On other machines: objects as they come, with the key `host` if there are several.
fn there(args: &Args) -> anyhow::Result<ExitCode> {
    if !args.json {
        return Err(Failure::usage("--host needs --json with top"));
    }
    let ran = args
        .elsewhere
        .run(&AS_GIVEN, |_| Vec::new(), Vec::new(), true)?;
    Ok(elsewhere::end(&ran))
}

/// `None`: the view in a terminal, and no stream.
fn form(args: &Args) -> Option<Form> {
    match (args.json, args.csv) {
        (true, _) => Some(Form::Json),
        (_, true) => Some(Form::Csv),
        _ if args.text || !Stream::Output.is_live() => Some(Form::Text),
        _ => None,
    }
}
