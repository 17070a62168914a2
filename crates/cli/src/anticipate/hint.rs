//! `reveille anticipate hint`: announces a request to another machine.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use reveille_expect::remote::{Announced, Hint, Key, Sender, Service};
use reveille_expect::server::MOST_AHEAD;

use crate::exit::Failure;
use crate::value;

/// Announce a request to another machine, so that the CPU that serves it is awake.
///
/// The machine runs `reveille anticipate --hints ADDRESS:PORT` and allows hints of this one. The request
/// must come from the address from which the hint is sent. Without an answer: a hint is a datagram.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  reveille anticipate hint server:7171 --service tcp:8080 --after 3ms --within 500us
  reveille anticipate hint server:7171 --service udp:5060 --after 20ms --hint-key hint.key")]
pub struct Args {
    /// Where hints are taken
    #[arg(value_name = "HOST:PORT")]
    to: String,
    /// The service that the request goes to: tcp:8080, udp:5060
    #[arg(long, value_name = "SERVICE")]
    service: Service,
    /// The request comes after this time
    #[arg(long, value_name = "TIME", value_parser = value::time("3ms"))]
    after: Duration,
    /// It comes that much earlier or later at most [default: a tenth of the time]
    #[arg(long, value_name = "TIME", value_parser = value::time("500us"))]
    within: Option<Duration>,
    /// Sign with the key in this file
    #[arg(long, value_name = "FILE")]
    hint_key: Option<PathBuf>,
}

pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if args.after > MOST_AHEAD {
        return Err(Failure::usage("--after: at most 1s"));
    }
    let cannot = |error| Failure::cannot(format!("{}: {error}", args.to));
    let key = args.hint_key.as_deref().map(key).transpose()?;
    let mut sender = Sender::new(&args.to, key).map_err(cannot)?;
    let announced = Announced {
        after: args.after,
        within: args.within.unwrap_or(args.after / 10),
    };
    let service = args.service;
    sender.send(&Hint { service, announced }).map_err(cannot)?;
    Ok(ExitCode::SUCCESS)
}

/// The key in that file.
pub fn key(path: &Path) -> anyhow::Result<Key> {
    Key::read(path).map_err(Failure::usage)
}
