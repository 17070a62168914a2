//! The engine at work until it is to end, and its statistics.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use reveille_anticipate::{Net, Operation, Readiness};
use reveille_expect::server::MOST_CLIENTS;

use crate::completion;
use crate::exit::Failure;
use crate::output_format::Printed;
use crate::value;

#[derive(clap::Args)]
#[group(skip)]
#[cfg_attr(not(feature = "bpf"), allow(dead_code))]
pub struct Args {
    /// Only this disk; may be repeated [default: all, and none with --nic or --hints]
    #[arg(long, value_name = "DEVICE", add = completion::disks())]
    device: Vec<String>,
    /// Also periodic packets that arrive on this interface; may be repeated
    #[arg(long, value_name = "INTERFACE", add = completion::interfaces(), conflicts_with_all = ["pid", "cgroup"])]
    nic: Vec<String>,
    /// Take hints of clients at this address: "my next request comes in 3 ms"
    #[arg(long, value_name = "ADDRESS:PORT", conflicts_with_all = ["pid", "cgroup"])]
    hints: Option<SocketAddr>,
    /// Clients whose hints are taken: an address or a network; may be repeated [default: this machine]
    #[arg(long, value_name = "NETWORK", requires = "hints")]
    allow: Vec<Net>,
    /// Take only hints that are signed with the key in this file
    #[arg(long, value_name = "FILE", requires = "hints")]
    hint_key: Option<PathBuf>,
    /// Hints of a client in any second, at most; three quarters of that for long
    #[arg(long, value_name = "N", default_value = "200", requires = "hints", value_parser = value::count(1..=100_000_u32))]
    client_hints: u32,
    /// Share of any second for which a client's hints may keep CPUs awake; 10 ms less for long
    #[arg(long, value_name = "SHARE", default_value = "5%", requires = "hints", value_parser = value::share)]
    client_budget: f64,
    /// Only these operations
    #[arg(
        long,
        value_name = "OPERATION",
        value_delimiter = ',',
        default_value = "read,write",
        add = completion::names(|| Operation::ALL)
    )]
    op: Vec<Operation>,
    /// Only requests of this process, with its threads
    #[arg(long, value_name = "PID", conflicts_with = "cgroup", value_parser = value::process, add = completion::processes())]
    pid: Option<u32>,
    /// Only requests of this cgroup (version 2) and those below it
    #[arg(long, value_name = "CGROUP", add = completion::cgroups())]
    cgroup: Option<PathBuf>,
    /// Share of a CPU's time that it may be kept awake
    #[arg(long, value_name = "SHARE", default_value = "5%", value_parser = value::share)]
    budget: f64,
    /// Share of all CPUs' time together [default: as for each]
    #[arg(long, value_name = "SHARE", value_parser = value::share)]
    budget_in_all: Option<f64>,
    /// Share of requests left alone at random, for comparison
    #[arg(long, value_name = "SHARE", default_value = "5%", value_parser = value::share)]
    control: f64,
    /// Wake this long before the completion [default: learnt from how late timers fire]
    #[arg(long, value_name = "TIME", value_parser = value::time("30us"))]
    lead: Option<Duration>,
    /// A result of `measure`: the first leads are its wake latencies, not the driver's table
    #[arg(long, value_name = "RESULT", conflicts_with = "lead", add = completion::results())]
    result: Option<PathBuf>,
    /// How a CPU stays ready: awake, by a kernel thread or in a softirq; or in naps, asleep in a shallow
    /// state because a timer soon expires: chosen, thread, softirq, naps
    #[arg(long, value_name = "HOW", default_value = "chosen", add = completion::names(|| ["chosen", "thread", "softirq", "naps"]))]
    ready: Readiness,
    /// Length of a nap
    #[arg(long, value_name = "TIME", default_value = "10us", value_parser = value::time("10us"))]
    nap: Duration,
    /// End after this time [default: Ctrl-C]
    #[arg(long, value_name = "TIME", value_parser = value::duration)]
    duration: Option<Duration>,
    /// Print statistics this often, with --json a line each time [default: 1s on a terminal, otherwise
    /// at the end]
    #[arg(long, value_name = "TIME", value_parser = value::interval)]
    interval: Option<Duration>,
    /// Show for whom CPUs were kept awake: the time, and the energy if power can be read
    #[arg(long)]
    accounting: bool,
    #[command(flatten)]
    printed: Printed,
    /// Where applications announce what they expect
    #[arg(long, value_name = "SOCKET", default_value = reveille_expect::SOCKET)]
    socket: PathBuf,
    /// Maximum number of connected applications: an eighth is reserved for root, and another user may
    /// have a quarter of the rest
    #[arg(
        long,
        value_name = "N",
        default_value = "256",
        conflicts_with = "no_socket"
    )]
    #[arg(value_parser = value::count(1..=MOST_CLIENTS))]
    clients: u32,
    /// Maximum number of wake-ups per second that the applications of a user other than root may cause
    /// on a CPU: an announcement takes up to three
    #[arg(
        long,
        value_name = "N",
        default_value = "100",
        conflicts_with = "no_socket"
    )]
    #[arg(value_parser = value::count(1..=1_000_000_u32))]
    user_wakeups: u32,
    /// Serve no applications
    #[arg(long, conflicts_with = "socket")]
    no_socket: bool,
}

#[cfg(not(feature = "bpf"))]
pub fn run(_: &Args) -> anyhow::Result<ExitCode> {
    Err(Failure::cannot(reveille_kernel::BUILT_WITHOUT_BPF))
}

#[cfg(feature = "bpf")]
pub use with_bpf::run;

#[cfg(feature = "bpf")]
mod with_bpf {
    use anyhow::Context;
    use reveille_advise::MachineResult;
    use reveille_anticipate::live::{self, Ended, Event, Live};
    use reveille_anticipate::{
        AwakePower, BlockDevice, Packets, SLEEPS, Settings, Subject, first_leads,
        provide_descriptors,
    };
    use reveille_expect::server;
    use reveille_kernel::network::Interface;
    use reveille_kernel::{Idle, Root, workload};
    use reveille_results::statistics::Percentile;
    use signal_hook::iterator::Signals;

    use super::*;
    use crate::anticipate::hint;
    use crate::anticipate::screen::Screen;
    use crate::exit;
    use crate::flags;
    use crate::signals::ending;

    pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
        let root = Root::default();
        let mut settings = settings(args, &root)?;
        let mut signals = Signals::new(ending()).context("signals")?;
        settings.awake_power = awake_power(args, &root);
        provide_descriptors(if args.no_socket { 0 } else { args.clients })?;
        let mut live = Live::start(&settings)?;
        if !args.no_socket {
            live.serve(&socket(args))
                .map_err(|error| Failure::cannot(format!("{error}; --no-socket does without")))?;
        }
        if let Some(at) = args.hints {
            live.hear(at, allowed(args)?)?;
        }
        begin(args, &settings, live.hears_at());
        let (sender, events) = live::events();
        let handle = signals.handle();
        let waiting = std::thread::spawn(move || {
            let _ = signals.forever().next().map(|_| sender.send(Event::End));
        });
        let mut screen = Screen::new(&args.printed, args.interval, args.accounting);
        let interval = screen.interval;
        let gone = |disk: &str| exit::say_plainly(format_args!("The disk {disk} is gone."));
        let ended = live.run(&events, args.duration, interval, gone, || {
            screen.show(&live)
        })?;
        handle.close();
        let _ = waiting.join();
        let shown = screen.last(&live);
        drop(live);
        match ended {
            Ended::NoDisks => Err(Failure::cannot("the anticipated disks are gone")),
            Ended::Requested => shown.map(|()| ExitCode::SUCCESS),
        }
    }

    fn settings(args: &Args, root: &Root) -> anyhow::Result<Settings> {
        if !root.path("sys/block").exists() {
            // Without sysfs no disk is found; this error names the remedy.
            Idle::read(root)?;
        }
        let named = args.device.iter();
        let mut devices = named
            .map(|name| BlockDevice::named(root, name))
            .collect::<Result<Vec<_>, _>>()?;
        let packets = packets(args, root)?;
        if devices.is_empty() && !packets.any() {
            devices = BlockDevice::all(root);
        }
        devices.dedup();
        if devices.is_empty() && !packets.any() {
            return Err(Failure::usage("no block device to anticipate"));
        }
        let subject = match (args.pid, &args.cgroup) {
            (Some(pid), _) => {
                workload::Subject::of_process(root, pid)?;
                Subject::Process(pid)
            }
            (None, Some(cgroup)) => {
                let (id, level, _) = workload::cgroup(root, "--cgroup", cgroup)?;
                Subject::Cgroup { id, level }
            }
            (None, None) => Subject::Anybody,
        };
        let settings = Settings {
            devices,
            reads: args.op.contains(&Operation::Read),
            writes: args.op.contains(&Operation::Write),
            subject,
            packets,
            budget: args.budget,
            budget_in_all: args.budget_in_all.unwrap_or(args.budget),
            control: args.control,
            lead: args.lead,
            first_lead_ns: leads(args, root)?,
            readiness: args.ready,
            nap: args.nap,
            awake_power: None,
        };
        settings.check()?;
        Ok(settings)
    }

    fn packets(args: &Args, root: &Root) -> anyhow::Result<Packets> {
        let mut interfaces = Vec::new();
        for name in &args.nic {
            let interface = Interface::named(root, name)?;
            if !interfaces.contains(&(interface.name.clone(), interface.index)) {
                interfaces.push((interface.name, interface.index));
            }
        }
        Ok(Packets {
            periodic: !interfaces.is_empty(),
            interfaces,
            hinted: args.hints.is_some(),
            clients: match args.allow.as_slice() {
                [] => Net::LOOPBACK.to_vec(),
                named => named.to_vec(),
            },
        })
    }

    fn allowed(args: &Args) -> anyhow::Result<server::Allowed> {
        Ok(server::Allowed {
            key: args.hint_key.as_deref().map(hint::key).transpose()?,
            per_second: args.client_hints,
            awake_ppm: (args.client_budget * 1e6) as u32,
        })
    }

    /// The first leads, by the result if there is one.
    fn leads(args: &Args, root: &Root) -> anyhow::Result<[u64; SLEEPS]> {
        let idle = match (Idle::read(root), &args.result) {
            (Ok(idle), _) => idle,
            (Err(_), None) => return Ok(Settings::default().first_lead_ns),
            (Err(error), Some(_)) => return Err(error.into()),
        };
        let Some(result) = &args.result else {
            return Ok(first_leads(&idle, |_| true, |_| None));
        };
        let measured = MachineResult::open(result, &idle, Percentile::P90).map_err(flags::unfit)?;
        Ok(first_leads(
            &idle,
            |cpu| measured.is_of(cpu.kind.as_ref(), &cpu.states),
            |state| u64::try_from(measured.of_state(state)?.latency_ns?).ok(),
        ))
    }

    /// The power of a CPU awake, measured before the engine starts.
    fn awake_power(args: &Args, root: &Root) -> Option<AwakePower> {
        let power = AwakePower::measure(root);
        if let (Err(why), true) = (&power, args.accounting) {
            exit::say_plainly(format_args!("Energy is unknown: {why}."));
        }
        power.ok()
    }

    fn socket(args: &Args) -> server::Settings {
        server::Settings {
            path: args.socket.clone(),
            clients: args.clients,
            quotas: server::Quotas {
                wakeups: args.user_wakeups,
                ..server::Quotas::default()
            },
            ..server::Settings::default().within(args.budget)
        }
    }

    fn begin(args: &Args, settings: &Settings, hints_at: Option<SocketAddr>) {
        if args.printed.data().is_some() {
            return;
        }
        let disks = settings.devices.iter().map(|disk| disk.name.as_str());
        let disks = disks.collect::<Vec<_>>().join(", ");
        let mut what = Vec::new();
        if !disks.is_empty() {
            what.push(format!("I/O of {disks}"));
        }
        if settings.packets.periodic {
            what.push(format!("periodic packets on {}", args.nic.join(", ")));
        }
        if let Some(at) = hints_at {
            what.push(format!("requests by hints at {at}"));
        }
        exit::say_plainly(format_args!(
            "Anticipating {}, with at most {:.3}% of a CPU's time, until {}.",
            what.join("; "),
            settings.budget * 100.0,
            match args.duration {
                Some(duration) => format!("{} have passed", humantime::format_duration(duration)),
                None => "Ctrl-C".to_owned(),
            }
        ));
    }
}
