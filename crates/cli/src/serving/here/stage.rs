//! The proxy, and its line on the terminal.

use std::cell::OnceCell;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use anyhow::Context;
use reveille_proxy::serve::{self, Event, Ready};
use reveille_show::quantity;
use reveille_show::terminal::{Live, Stream};
use reveille_stage::config::{Pattern, Service, Tls, Upstream};
use reveille_stage::counts::Served;
use reveille_stage::{Config, show};
use signal_hook::consts::SIGHUP;
use signal_hook::iterator::Signals;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use super::stage_bench;
use crate::exit::{self, Failure};
use crate::output_format::To;
use crate::signals::{ending, hangup_ends};
use crate::stage::{Args, Command};

/// Between two changes of the line on the terminal.
const LIVE: Duration = Duration::from_secs(1);

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
        return stage_bench::run(args);
    }
    let config = config(&args)?;
    let (sender, events) = unbounded_channel();
    hand_on_signals(sender, args.config.clone())?;
    let what: Vec<String> = config.services.iter().map(described).collect();
    let (ended, live) = mpsc::channel::<()>();
    let drawing = OnceCell::new();
    let ready = |ready: Ready| {
        what.iter().for_each(exit::say);
        let line = Live::on(Stream::Error);
        if line.is_on() {
            let _ = drawing.set(std::thread::spawn(move || show_live(&line, &ready, &live)));
        }
    };
    let say = Arc::new(|line: String| exit::say(line));
    let served = serve::run(config, args.metrics, None, events, say, ready);
    drop(ended);
    drawing.into_inner().map(|thread| thread.join());
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
fn show_live(on: &Live, ready: &Ready, ended: &mpsc::Receiver<()>) {
    let mut before = ready.now();
    while ended.recv_timeout(LIVE) == Err(RecvTimeoutError::Timeout) {
        let now = ready.now();
        on.draw(&line(&before, &now));
        before = now;
    }
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

/// SIGHUP reads the file again, if there is one and no terminal that it may come from; the others end the run.
fn hand_on_signals(events: UnboundedSender<Event>, file: Option<PathBuf>) -> anyhow::Result<()> {
    let file = file.filter(|_| !hangup_ends());
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
