//! `reveille stage`: a reverse proxy that releases requests in bursts.

mod bench;

use std::io::{IsTerminal, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use anyhow::Context;
use reveille_results::statistics::Percentile;
use reveille_show::{quantity, terminal};
use reveille_stage::config::{Pattern, Service, Tls, Upstream};
use reveille_stage::serve::{self, Event, Ready, Served};
use reveille_stage::{Config, show};
use signal_hook::consts::SIGHUP;
use signal_hook::iterator::Signals;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use crate::exit::{self, Failure};
use crate::output_format::{Printed, To};
use crate::signals::ending;
use crate::value;

/// Between two changes of the line on the terminal.
const LIVE: Duration = Duration::from_secs(1);

/// Hold requests, and release them in bursts, so that the server behind sleeps in between.
///
/// A reverse proxy for HTTP/1.1 and HTTP/2. Each request has a deadline; the proxy learns how long the server takes to
/// answer a burst, holds requests while all deadlines are kept, and releases all when the first one must go. While the
/// server answers it is awake, so further requests pass. Nothing is held while too little is known of the server, near
/// saturation, and where a deadline leaves no time.
///
/// It runs in the foreground until Ctrl-C or SIGTERM: then it releases what it holds and answers what is on its way.
/// A second one drops those. With --config SIGHUP reads the file again.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = "\
Examples:
  reveille stage --listen 0.0.0.0:8080 --upstream http://127.0.0.1:8081 --deadline 500ms
  reveille stage --listen :8080 --upstream http://a:80 --upstream http://b:80 --deadline 200ms \\
      --percentile 99 --exempt '/health*'
  reveille stage --listen :50051 --upstream h2c://127.0.0.1:50052 --deadline 1s     gRPC
  reveille stage --listen :8080 --upstream unix:/run/app.sock --deadline 500ms
  reveille stage bench                              what it gains and costs on this machine
  reveille stage --config stage.toml --metrics 9817 several services; curl localhost:9817/status

Deadlines of requests: the headers grpc-timeout, x-envoy-expected-rq-timeout-ms and
x-reveille-deadline-ms shorten the service's deadline for their request.")]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// Services, in a file; each has the options below as keys
    #[arg(long, value_name = "FILE", required_unless_present = "listen")]
    config: Option<PathBuf>,
    /// Where clients connect to: ADDRESS:PORT, or :PORT for every address
    #[arg(long, value_name = "ADDRESS", value_parser = address, conflicts_with = "config", requires = "upstream", requires = "deadline")]
    listen: Option<SocketAddr>,
    /// The server that answers: http://HOST:PORT, https://HOST, h2c://HOST:PORT (HTTP/2 without TLS), h2://HOST (with
    /// TLS), unix:/PATH or unix+h2c:/PATH; several take turns
    #[arg(long, value_name = "URL", requires = "listen")]
    upstream: Vec<Upstream>,
    /// A request is answered within this time from its arrival on
    #[arg(long, value_name = "TIME", value_parser = value::time("500ms"), requires = "listen")]
    deadline: Option<Duration>,
    /// The share of requests that is: 90, 99, 99.9 or 99.99
    #[arg(long, value_name = "PERCENT", default_value = "99.9", value_parser = percentile, requires = "listen")]
    percentile: Percentile,
    /// Never hold requests for paths like this one; * is any text
    #[arg(long, value_name = "PATH", requires = "listen")]
    exempt: Vec<String>,
    /// Release at the multiples of this time, whatever the deadlines
    #[arg(long, value_name = "TIME", value_parser = value::time("500ms"), requires = "listen")]
    grid: Option<Duration>,
    /// Hold nothing
    #[arg(long, conflicts_with = "grid", requires = "listen")]
    direct: bool,
    /// Clients speak TLS: the certificate's chain, PEM
    #[arg(long, value_name = "FILE", requires = "tls_key", requires = "listen")]
    tls_certificate: Option<PathBuf>,
    /// Its private key, PEM
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    tls_key: Option<PathBuf>,
    /// Serve metrics for Prometheus at /metrics, and the state as JSON at /status: a port of this machine's own, or
    /// ADDRESS:PORT
    #[arg(long, value_name = "ADDRESS", value_parser = own_address)]
    metrics: Option<SocketAddr>,
    #[command(flatten)]
    printed: Printed,
}

#[derive(clap::Subcommand)]
enum Command {
    Bench(bench::Args),
}

fn percentile(text: &str) -> Result<Percentile, String> {
    Percentile::of_percent(text).ok_or_else(|| "not 90, 99, 99.9 or 99.99".to_owned())
}

/// `:8080` is every address.
fn address(text: &str) -> Result<SocketAddr, String> {
    let port = text
        .strip_prefix(':')
        .and_then(|port| port.parse::<u16>().ok());
    let every = port.map(|port| SocketAddr::from(([0_u16; 8], port)));
    let address = every.or_else(|| text.parse().ok());
    address.ok_or_else(|| "not an address, such as 127.0.0.1:8080 or :8080".to_owned())
}

/// A port alone is loopback's.
fn own_address(text: &str) -> Result<SocketAddr, String> {
    let port = text.strip_prefix(':').unwrap_or(text).parse::<u16>();
    let own = port.map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
    let address = own.or_else(|_| text.parse());
    address.map_err(|_| "not an address, such as 9817 or 127.0.0.1:9817".to_owned())
}

fn config(args: &Args) -> anyhow::Result<Config> {
    if let Some(file) = &args.config {
        return Ok(Config::read(file)?);
    }
    let tls = args.tls_certificate.clone().zip(args.tls_key.clone());
    let service = Service {
        name: "service".into(),
        listen: args.listen.expect("clap requires it"),
        upstreams: args.upstream.clone(),
        deadline: args.deadline.expect("clap requires it"),
        percentile: args.percentile,
        exempt: args.exempt.iter().cloned().map(Pattern).collect(),
        grid: args.grid,
        direct: args.direct,
        hints: None,
        hint_key: None,
        tls: tls.map(|(certificate, key)| Tls { certificate, key }),
    };
    let config = Config {
        services: vec![service],
    };
    config.check().map_err(Failure::usage)?;
    Ok(config)
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    if let Some(Command::Bench(args)) = args.command {
        return bench::run(args);
    }
    let config = config(&args)?;
    let (sender, events) = unbounded_channel();
    hand_on_signals(sender, args.config.clone())?;
    let what: Vec<String> = config.services.iter().map(described).collect();
    let (ended, live) = mpsc::channel::<()>();
    let ready = |ready: Ready| {
        what.iter().for_each(exit::say);
        if std::io::stderr().is_terminal() {
            std::thread::spawn(move || show_live(&ready, &live));
        }
    };
    let say = Arc::new(|line: String| exit::say(line));
    let served = serve::run(config, args.metrics, None, events, say, ready);
    drop(ended);
    let served = served?;
    args.printed
        .print(&served, &show::sheet(&served), To::Output)?;
    Ok(ExitCode::SUCCESS)
}

fn described(service: &Service) -> String {
    let upstreams: Vec<String> = service.upstreams.iter().map(Upstream::address).collect();
    format!(
        "{} at {}: {}, answered within {} at {}",
        service.name,
        service.listen,
        upstreams.join(", "),
        quantity::time(service.deadline.as_secs_f64()),
        service.percentile.name()
    )
}

/// Draws the services' state on the terminal, a line that changes, until the run ends.
fn show_live(ready: &Ready, ended: &mpsc::Receiver<()>) {
    let mut before = ready.now();
    let mut out = terminal::stderr();
    while ended.recv_timeout(LIVE) == Err(RecvTimeoutError::Timeout) {
        let now = ready.now();
        // To the line's beginning, and what was there goes.
        let _ = write!(out, "\r{}\x1b[K", line(&before, &now)).and_then(|()| out.flush());
        before = now;
    }
    let _ = write!(out, "\r\x1b[K").and_then(|()| out.flush());
}

fn line(before: &[Served], now: &[Served]) -> String {
    let rate = |of: fn(&Served) -> u64| {
        let sum = |all: &[Served]| all.iter().map(of).sum::<u64>();
        sum(now).saturating_sub(sum(before)) as f64 / LIVE.as_secs_f64()
    };
    let sum = |of: fn(&Served) -> u64| now.iter().map(of).sum::<u64>();
    format!(
        "{:.0} requests/s, {:.0} bursts/s; now {} held, {} on their way; {} missed of {}",
        rate(|one| one.counts.requests),
        rate(|one| one.counts.bursts),
        sum(|one| one.held_now as u64),
        sum(|one| one.open_now as u64),
        sum(|one| one.counts.missed),
        sum(|one| one.counts.requests),
    )
}

/// SIGHUP reads the file again, if there is one; the others end the run.
fn hand_on_signals(events: UnboundedSender<Event>, file: Option<PathBuf>) -> anyhow::Result<()> {
    let reloads = file.iter().map(|_| SIGHUP);
    let mut signals = Signals::new(ending().into_iter().chain(reloads)).context("signals")?;
    std::thread::spawn(move || {
        for signal in signals.forever() {
            let event = match (signal, &file) {
                (SIGHUP, Some(file)) => match Config::read(file) {
                    Ok(config) => Event::Reload(Box::new(config)),
                    Err(error) => {
                        exit::say(format_args!("{error}; the services are as before"));
                        continue;
                    }
                },
                _ => Event::Stop,
            };
            if events.send(event).is_err() {
                return;
            }
        }
    });
    Ok(())
}
