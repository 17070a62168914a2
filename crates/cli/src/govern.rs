//! `reveille govern`: the service that holds latency by rules.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::Sender;

use anyhow::Context;
use reveille_govern::event::Event;
use reveille_govern::metrics::Address;
use reveille_govern::service::{self, Options, Publish, Started};
use reveille_govern::{Rules, judge, rules, show, socket};
use reveille_kernel::Error;
use reveille_show::terminal;
use reveille_show::text::{self, Detail};
use serde::Serialize;
use signal_hook::consts::SIGHUP;
use signal_hook::iterator::Signals;

use crate::exit::Failure;
use crate::output_format::{Printed, To};
use crate::signals::{ending, hangup_ends};
use crate::value::{self, CpuList};
use crate::{completion, exit, flags};

/// Hold latency bounds where rules ask for them, and let everything else sleep.
///
/// A service: it reads rules, each of which asks for a wake latency and says when, and holds on each CPU
/// the tightest bound of the rules in force there. With no rule in force it holds nothing, and nothing
/// of it runs. Rules for traffic hold just the CPUs that serve the traffic, while it lasts.
///
/// It runs in the foreground until Ctrl-C or SIGTERM, and takes all bounds back; after kill -9 the next
/// start of any command does. It reads the rules again when the file changes, or on SIGHUP, which ends it
/// if it has a terminal, for that may have been closed. A file with an error is refused whole, and the rules
/// before stay. Bounds that other programs set are left alone. Needs root.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = "\
Examples:
  sudo reveille govern                           the rules of /etc/reveille/govern.toml
  sudo reveille govern --config my-rules.toml
  sudo reveille govern --metrics 9816            curl http://localhost:9816/metrics
  reveille govern check my-rules.toml            what each rule would hold on this machine
  reveille govern status                         what is held now, where, for whom, since when
  reveille govern explain --cpu 2                why CPU 2 is held, or not

A rule:
  [[rule]]
  name = \"ssh\"
  latency = \"50us\"
  when.traffic = { interface = \"eth0\", port = 22 }")]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    serve: Serve,
}

/// What the service itself takes.
#[derive(clap::Args)]
pub struct Serve {
    /// The rules
    #[arg(long, value_name = "FILE", default_value = rules::FILE)]
    config: PathBuf,
    /// Count bounds that come too late, and the time of the BPF programs; costs some 160 ns at each of them
    #[arg(long)]
    accounting: bool,
    /// Where `status` and `explain` ask
    #[arg(long, value_name = "PATH", default_value = socket::SOCKET)]
    socket: PathBuf,
    /// Serve metrics for Prometheus at a port of this machine's own (9816), at ADDRESS:PORT, or at
    /// unix:PATH; systemd can pass sockets instead
    #[arg(long, value_name = "ADDRESS")]
    pub metrics: Option<Address>,
    /// Answer nobody but at the socket: a setting of `trial`, beside the machine's own service
    #[arg(long, hide = true, conflicts_with = "metrics")]
    alone: bool,
}

#[derive(clap::Subcommand)]
enum Command {
    Check(Check),
    Status(Status),
    Explain(Explain),
}

/// Check rules, and print what each would hold on this machine.
///
/// For each rule: the CPUs, the latency bound, the idle states that it stops, and whether a measured result
/// or the driver's table judges them. Changes nothing; needs no root.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  reveille govern check
  reveille govern check my-rules.toml
  reveille govern check my-rules.toml --root machines/router    on a recorded machine")]
struct Check {
    /// The rules
    #[arg(value_name = "FILE", default_value = rules::FILE)]
    file: PathBuf,
    /// A recorded machine, a folder that holds sys/ and proc/
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// Where a service that runs is asked whether its bounds came in time
    #[arg(long, value_name = "PATH", default_value = socket::SOCKET, conflicts_with = "root")]
    socket: PathBuf,
    #[command(flatten)]
    printed: Printed,
}

/// Print what the service holds now, where, for whom, since when, and what it took.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  reveille govern status
  reveille govern status --json")]
struct Status {
    /// Where the service answers
    #[arg(long, value_name = "PATH", default_value = socket::SOCKET)]
    socket: PathBuf,
    #[command(flatten)]
    printed: Printed,
}

/// Print why CPUs are held, or why not.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  reveille govern explain
  reveille govern explain --cpu 2")]
struct Explain {
    /// Only these CPUs, as a list such as 0-3,8 [default: all]
    #[arg(long, value_name = "LIST", value_parser = value::cpus, add = completion::cpus())]
    cpu: Option<CpuList>,
    /// Where the service answers
    #[arg(long, value_name = "PATH", default_value = socket::SOCKET)]
    socket: PathBuf,
    #[command(flatten)]
    printed: Printed,
}

/// `as_service` is what serves rules for others.
pub fn run(
    args: Args,
    as_service: impl FnOnce(Serve) -> anyhow::Result<ExitCode>,
) -> anyhow::Result<ExitCode> {
    match args.command {
        Some(Command::Check(args)) => check(&args),
        Some(Command::Status(args)) => {
            let status = socket::ask(&args.socket)?;
            args.printed
                .print(&status, &show::status(&status), To::Output)?;
            Ok(ExitCode::SUCCESS)
        }
        Some(Command::Explain(args)) => explain(&args),
        None if args.serve.alone => serve(args.serve, service::unheard),
        None => as_service(args.serve),
    }
}

#[derive(Serialize)]
struct Checked<'a> {
    file: &'a Path,
    #[serde(flatten)]
    checked: judge::Checked,
}

fn check(args: &Check) -> anyhow::Result<ExitCode> {
    let root = flags::root(args.root.as_deref())?;
    let rules = Rules::read(&args.file)?;
    let mut checked = judge::check(&rules, &root)?;
    match root.is_live().then(|| socket::ask(&args.socket)) {
        Some(Ok(status)) => {
            // The settings have its own bounds.
            checked.in_the_way = Some(status.in_the_way());
            let found: Vec<_> = status.rules.into_iter().map(|rule| rule.judged).collect();
            let rules = checked.rules.iter_mut();
            rules.for_each(|rule| rule.learn(&found));
        }
        Some(Err(error @ Error::Failed(_))) => {
            exit::say(format_args!(
                "{error}; so whether bounds that are set are its own is not known"
            ));
            checked.in_the_way = None;
        }
        // No service runs.
        Some(Err(_)) | None => {}
    }
    let judge::Checked { rules, in_the_way } = &checked;
    let in_the_way = in_the_way.as_deref().unwrap_or_default();
    let sheet = show::check(&args.file.display().to_string(), rules, in_the_way);
    let file = &args.file;
    let checked = Checked { file, checked };
    args.printed.print(&checked, &sheet, To::Output)?;
    Ok(ExitCode::SUCCESS)
}

fn explain(args: &Explain) -> anyhow::Result<ExitCode> {
    let mut status = socket::ask(&args.socket)?;
    if let Some(CpuList(cpus)) = &args.cpu {
        let is_known = |cpu: &u32| status.cpus.iter().any(|one| one.cpu == *cpu);
        if let Some(cpu) = cpus.iter().find(|cpu| !is_known(cpu)) {
            return Err(Failure::usage(format!(
                "--cpu: the service has no CPU {cpu}"
            )));
        }
        status.cpus.retain(|one| cpus.contains(&one.cpu));
    }
    let sheet = show::explain(&status);
    args.printed.print(&status.cpus, &sheet, To::Output)?;
    Ok(ExitCode::SUCCESS)
}

/// Serves until a signal; `publish` is as in [`service::run`].
pub fn serve(
    args: Serve,
    publish: impl FnOnce(Sender<Event>) -> reveille_kernel::Result<Publish>,
) -> anyhow::Result<ExitCode> {
    let (sender, events) = service::events();
    hand_on_signals(sender.clone())?;
    let options = Options {
        file: args.config,
        socket: args.socket,
        accounting: args.accounting,
    };
    let started = io::stdout()
        .is_terminal()
        .then(|| Box::new(print_start) as Started);
    let say = |line: &str| exit::say(line);
    service::run(&options, (sender, events), publish, say, started)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints what is held, and where, for who has started it by hand. Nobody waits for who does not read it.
fn print_start(status: &reveille_govern::status::Status) {
    let mut shown = Vec::new();
    let written = text::write(&show::started(status), Detail::Short, &mut shown);
    written.expect("memory takes all");
    std::thread::spawn(move || {
        let out = &mut terminal::stdout();
        out.write_all(&shown).and_then(|()| out.flush())
    });
}

/// SIGHUP reads the rules again, unless it may come from a terminal; the others end the service.
fn hand_on_signals(events: Sender<Event>) -> anyhow::Result<()> {
    let reloads = !hangup_ends();
    let mut signals = Signals::new(ending().into_iter().chain([SIGHUP])).context("signals")?;
    std::thread::spawn(move || {
        for signal in signals.forever() {
            let event = match signal {
                SIGHUP if reloads => Event::Reload,
                _ => Event::End,
            };
            if events.send(event).is_err() {
                return;
            }
        }
    });
    Ok(())
}
