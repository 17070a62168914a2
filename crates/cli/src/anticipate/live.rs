//! The engine at work until it is told to end, and what it does meanwhile.

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use anyhow::Context;
use reveille_advise::MachineResult;
use reveille_anticipate::{
    Announcements, AwakePower, BlockDevice, Engine, Operation, SLEEPS, Settings, Statistics,
    Subject,
};
use reveille_expect::server::{self, Server};
use reveille_kernel::{Cpu, Idle, Root};
use reveille_results::statistics::Percentile;
use serde::Serialize;
use signal_hook::iterator::Signals;

use super::applications::Applications;
use super::{Args, engine, table};
use crate::cost::subject;
use crate::exit::{self, Failure};
use crate::signals::ending;
use reveille_show::terminal;

/// To come back from a sleep takes this much more than the driver's exit latency: interrupt, softirq.
const BESIDES_NS: u64 = 5_000;

pub fn live(args: &Args) -> anyhow::Result<ExitCode> {
    let root = Root::default();
    let mut settings = settings(args, &root)?;
    let mut signals = Signals::new(ending()).context("signals")?;
    settings.awake_power = awake_power(args, &root);
    engine::provide_descriptors(if args.no_socket { 0 } else { args.clients })?;
    let engine = Engine::start(&settings)?;
    let served = match args.no_socket {
        true => None,
        false => Some(serve(args, &engine)?),
    };
    begin(args, &settings);
    let (told, news) = channel();
    let handle = signals.handle();
    announce(told.clone());
    let waiting = std::thread::spawn(move || {
        let _ = signals.forever().next().map(|_| told.send(News::End));
    });
    let until = args.duration.map(|duration| Instant::now() + duration);
    let mut screen = Screen::new(args);
    let (mut missing, mut ended) = (Vec::new(), false);
    loop {
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        // Where nobody looks, nothing is looked at.
        let wait = match screen.refresh {
            Some(refresh) => left.map_or(refresh, |left| left.min(refresh)),
            None => left.unwrap_or(Duration::MAX),
        };
        match news.recv_timeout(wait) {
            Err(RecvTimeoutError::Timeout) | Ok(News::Devices) => {}
            Ok(News::End) | Err(RecvTimeoutError::Disconnected) => break,
        }
        if until.is_some_and(|until| Instant::now() >= until) {
            break;
        }
        ended = gone(&settings, &root, &mut missing, &screen);
        if ended {
            break;
        }
        screen.show(&engine, served.as_ref())?;
    }
    handle.close();
    let _ = waiting.join();
    let said = screen.last(&engine, served.as_ref());
    drop(served);
    match ended {
        true => Err(Failure::cannot("the disks that were anticipated are gone")),
        false => said.map(|()| ExitCode::SUCCESS),
    }
}

enum News {
    End,
    /// One came or went.
    Devices,
}

/// Tells of devices that come and go; where the kernel does not, they are looked at with the table.
fn announce(told: Sender<News>) {
    if let Ok(announcements) = Announcements::open() {
        // It ends with the process.
        std::thread::spawn(move || {
            while announcements.wait().is_ok() && told.send(News::Devices).is_ok() {}
        });
    }
}

fn settings(args: &Args, root: &Root) -> anyhow::Result<Settings> {
    if !root.path("sys/block").exists() {
        // Without sysfs no disk is known; this says what to do.
        Idle::read(root)?;
    }
    let mut devices = Vec::new();
    for name in &args.device {
        devices.push(BlockDevice::named(root, name)?);
    }
    if devices.is_empty() {
        devices = BlockDevice::all(root);
    }
    devices.dedup();
    let subject = match (args.pid, &args.cgroup) {
        (Some(pid), _) => {
            subject::Subject::of_process(root, pid)?;
            Subject::Process(pid)
        }
        (None, Some(cgroup)) => {
            let (id, level, _) = subject::cgroup(root, cgroup)?;
            Subject::Cgroup { id, level }
        }
        (None, None) => Subject::Anybody,
    };
    let settings = Settings {
        devices,
        reads: args.op.contains(&Operation::Read),
        writes: args.op.contains(&Operation::Write),
        subject,
        budget: args.budget,
        budget_in_all: args.budget_in_all.unwrap_or(args.budget),
        control: args.control,
        lead: args.lead,
        first_lead_ns: first_leads(args, root)?,
        readiness: args.ready,
        nap: args.nap,
        awake_power: None,
    };
    settings.check()?;
    Ok(settings)
}

/// What it costs to be awake rather than asleep, measured before the engine is there; where it cannot
/// be told, who wants joules hears why.
fn awake_power(args: &Args, root: &Root) -> Option<AwakePower> {
    match AwakePower::measure(root) {
        Ok(power) => Some(power),
        Err(why) => {
            if args.accounting {
                exit::say_plainly(format_args!("Time awake is not told in joules: {why}."));
            }
            None
        }
    }
}

/// How late a CPU comes after sleeps of each length: by the state that the governor can choose for
/// them, of the CPU that has most among those that a result speaks for, and what it or the driver says
/// of it.
fn first_leads(args: &Args, root: &Root) -> anyhow::Result<[u64; SLEEPS]> {
    let mut leads = Settings::default().first_lead_ns;
    let idle = match (Idle::read(root), &args.result) {
        (Ok(idle), _) => idle,
        (Err(_), None) => return Ok(leads),
        (Err(error), Some(_)) => return Err(error.into()),
    };
    let measured = match &args.result {
        Some(result) => Some(MachineResult::open(result, &idle, Percentile::P90)?),
        None => None,
    };
    let is_of = |cpu: &Cpu| {
        let measured = measured.as_ref();
        measured.is_none_or(|measured| measured.is_of(cpu.kind.as_ref(), &cpu.states))
    };
    let cpus = idle.cpus.iter().filter(|cpu| cpu.online && is_of(cpu));
    let Some(cpu) = cpus.max_by_key(|cpu| cpu.states.len()) else {
        return Ok(leads);
    };
    for (log, lead) in leads.iter_mut().enumerate() {
        let fits = cpu.states.iter().filter(|state| {
            state.disabled != Some(true) && state.target_residency_us.unwrap_or(0) <= 1 << log
        });
        let Some(state) = fits.max_by_key(|state| state.index) else {
            continue;
        };
        let figure = measured
            .as_ref()
            .and_then(|measured| measured.of_state(&state.name));
        let by_result = figure.and_then(|figure| figure.latency_ns);
        let by_driver = state.exit_latency_us.map(|us| us * 1000 + BESIDES_NS);
        match by_result.and_then(|ns| u64::try_from(ns).ok()) {
            Some(ns) => *lead = ns,
            None => *lead = by_driver.map_or(*lead, |ns| ns.max(*lead)),
        }
    }
    Ok(leads)
}

fn serve(args: &Args, engine: &Engine) -> anyhow::Result<Server> {
    let settings = server::Settings {
        path: args.socket.clone(),
        clients: args.clients,
        quotas: server::Quotas {
            wakeups: args.user_wakeups,
            ..server::Quotas::default()
        },
        ..server::Settings::default().within(args.budget)
    };
    Server::start(&settings, engine::Applications(engine.desk()))
        .map_err(|error| Failure::cannot(format!("{error}; --no-socket does without")))
}

fn begin(args: &Args, settings: &Settings) {
    if args.json {
        return;
    }
    let names: Vec<&str> = settings
        .devices
        .iter()
        .map(|disk| disk.name.as_str())
        .collect();
    exit::say_plainly(format_args!(
        "Waking CPUs in time for {}, at most {:.3}% of a CPU's time, until {}.",
        names.join(", "),
        settings.budget * 100.0,
        match args.duration {
            Some(duration) => format!("{} have passed", humantime::format_duration(duration)),
            None => "Ctrl-C".to_owned(),
        }
    ));
}

/// A disk that goes away is said; one that comes back under its number is anticipated again. Are all
/// of them gone?
fn gone(settings: &Settings, root: &Root, missing: &mut Vec<String>, screen: &Screen) -> bool {
    for disk in &settings.devices {
        let known = missing.iter().position(|name| *name == disk.name);
        match (disk.is_there(root), known) {
            (false, None) => {
                // The table is written over where it stands.
                if !screen.is_live() {
                    exit::say_plainly(format_args!("The disk {} is gone.", disk.name));
                }
                missing.push(disk.name.clone());
            }
            (true, Some(index)) => drop(missing.remove(index)),
            _ => {}
        }
    }
    missing.len() == settings.devices.len()
}

/// Where what it does is shown.
struct Screen {
    terminal: bool,
    json: bool,
    /// How often it is shown; `None`: at the end only.
    refresh: Option<Duration>,
    accounting: bool,
    /// Lines shown last, to be written over.
    lines: usize,
}

impl Screen {
    fn new(args: &Args) -> Self {
        let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        let terminal = io::stdout().is_terminal() && !dumb;
        Self {
            terminal,
            json: args.json,
            refresh: match terminal && !args.json {
                true => args.interval.or(Some(Duration::from_secs(1))),
                false => args.interval.filter(|_| args.json),
            },
            accounting: args.accounting,
            lines: 0,
        }
    }

    /// Is somebody there to look?
    fn is_live(&self) -> bool {
        self.terminal && !self.json
    }

    fn show(&mut self, engine: &Engine, server: Option<&Server>) -> anyhow::Result<()> {
        if self.refresh.is_none() {
            return Ok(());
        }
        if self.json {
            return self.last(engine, server);
        }
        let mut text = Vec::new();
        self.table(engine, server, &mut text)?;
        let text = String::from_utf8_lossy(&text).into_owned();
        if self.lines > 0 {
            write!(io::stdout(), "\x1b[{}A\x1b[J", self.lines)?;
        }
        let mut out = terminal::stdout();
        out.write_all(text.as_bytes())?;
        out.flush()?;
        self.lines = text.lines().count();
        Ok(())
    }

    fn table(
        &self,
        engine: &Engine,
        server: Option<&Server>,
        out: &mut impl Write,
    ) -> anyhow::Result<()> {
        let statistics = engine.statistics()?;
        table::write(&statistics, self.accounting, out)?;
        if let Some(server) = server {
            Applications::of(server).write(out)?;
        }
        Ok(())
    }

    fn last(&mut self, engine: &Engine, server: Option<&Server>) -> anyhow::Result<()> {
        if self.is_live() {
            return self.show(engine, server);
        }
        if !self.json {
            return self.table(engine, server, &mut terminal::stdout());
        }
        let mut out = terminal::data();
        let done = Done {
            statistics: engine.statistics()?,
            applications: server.map(Applications::of),
        };
        match self.refresh {
            Some(_) => serde_json::to_writer(&mut out, &done),
            None => serde_json::to_writer_pretty(&mut out, &done),
        }
        .map_err(io::Error::from)?;
        writeln!(out)?;
        out.flush()?;
        Ok(())
    }
}

/// What was done, as JSON.
#[derive(Serialize)]
struct Done {
    #[serde(flatten)]
    statistics: Statistics,
    /// `None` where there is no socket.
    applications: Option<Applications>,
}
