//! `reveille trial`: one workload under several idle settings.

use std::ffi::OsString;
use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime};

use regex_lite::Regex;
use reveille_govern::rules::Rules;
use reveille_meter::Steady;
use reveille_results::description::Ended;
use reveille_results::kept;
use reveille_show::terminal;
use reveille_trial::result::{FILE, Plan, Round, SCHEMA_VERSION, Trial};
use reveille_trial::run::{self, Around};
use reveille_trial::setting::{Kind, Machine, Planned, Setting, Wanted, choose, parse_line};
use reveille_trial::show;
use reveille_trial::workload::{
    Bursts, Client, Command, Figure, Pace, Rhythm, Server, Transport, Workload, parse_address,
};
use reveille_watch::live::JointCounter;

use crate::command::As;
use crate::comparison::{self, Kept, Metered};
use crate::completion;
use crate::elsewhere::{self, Elsewhere, OUT};
use crate::exit::Failure;
use crate::output_format::To;
use crate::value;
use crate::{exit, flags, quiet, signals};

/// Run one workload under several idle settings and compare.
///
/// Settings take turns in shuffled order, round by round, so that drift affects all of them alike.
/// Differences from the machine as it is have 95% intervals. By default: as is, each idle state as
/// the deepest, and no sleep. Every setting is restored after its turn.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  sudo reveille trial --ping 192.168.1.1                 echo requests, 20 ms apart
  sudo reveille trial --ping router --latency 20us,100us --out router-trial
  reveille trial --serve                                 on the other machine, then here:
  sudo reveille trial --echo other:7177 --tcp
  sudo reveille trial --echo self                        without another machine
  sudo reveille trial --echo self --bursts 1000/s,100ms,400ms
  sudo reveille trial -- make -j4                        its run time
  sudo reveille trial --figure 'time=([0-9.]+)' --unit ms -- ping -c 20 -i 0.2 192.168.1.1
  sudo reveille trial --meter shelly:10.0.0.7 --requests 2000 --echo self
  sudo reveille trial --setting 'limit --disable C6' --settings no-sleep -- ./job
  sudo reveille trial --setting 'quiet run --cgroup background.slice' --settings as-is --echo self
  reveille trial --host root@sut --echo self             on another machine, by ssh
  reveille trial --dry-run --echo self                   the settings that it would compare
  reveille report router-trial                           the page, with latency against power

Durations: 20us, 20ms, 1s. Ctrl-C ends the trial and keeps the figures so far. --json
omits the single turns; --out keeps them.")]
pub struct Args {
    /// Workload: a command, run once per setting and round; its figure is its run time
    #[arg(last = true, value_name = "COMMAND", add = completion::command())]
    command: Vec<OsString>,
    #[command(flatten)]
    user: As,
    /// Workload: ICMP echo requests to HOST; its figure is the round trip
    #[arg(long, value_name = "HOST", conflicts_with_all = ["command", "user", "echo", "serve"])]
    ping: Option<String>,
    /// Workload: requests to a `reveille trial --serve` at HOST[:PORT], by UDP; `self` is a thread
    /// of this process on another CPU
    #[arg(long, value_name = "HOST:PORT", conflicts_with_all = ["command", "user", "serve"])]
    echo: Option<String>,
    /// No trial: reply to --echo, by UDP and TCP [default: port 7177, every address]
    #[arg(long, value_name = "ADDR[:PORT]", num_args = 0..=1, value_parser = parse_address, conflicts_with_all = ["command", "user", "host"])]
    serve: Option<Option<SocketAddr>>,
    /// Use TCP for --echo
    #[arg(long, requires = "echo")]
    tcp: bool,
    /// The command's figure: each number that REGEX finds in its output (the first group, if any)
    #[arg(long, value_name = "REGEX", requires = "command")]
    figure: Option<Regex>,
    /// Unit of --figure, for tables: ms, MB/s
    #[arg(long, value_name = "TEXT", requires = "figure", default_value = "")]
    unit: String,
    /// A higher --figure is better
    #[arg(long, requires = "figure")]
    higher_is_better: bool,

    /// Latency bounds to compare, too: 20us,100us
    #[arg(long, value_name = "LATENCY", value_delimiter = ',', value_parser = value::bound)]
    latency: Vec<u32>,
    /// Your own setting: 'hold --latency 50us --cpu 2', 'limit --disable C6', 'quiet run --cgroup G'; may be repeated
    #[arg(long, value_name = "LINE", value_parser = parse_line)]
    setting: Vec<Setting>,
    /// Of the default settings, only these: C1E,C6,no-sleep; `as-is` alone: only your own
    #[arg(long, value_name = "LIST", value_delimiter = ',', add = completion::settings())]
    settings: Vec<String>,

    /// Rounds; each setting has a turn in each
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = value::count(1..=200_u32))]
    rounds: u32,
    /// Requests in each turn; whole bursts with --bursts [default: 100, or 10 bursts]
    #[arg(long, value_name = "N", value_parser = value::count(1..=1_000_000_u32))]
    requests: Option<u32>,
    /// Mean pause from a reply to the next request; each is drawn from half to one and a half of it
    #[arg(long, value_name = "TIME", default_value = "20ms", value_parser = value::time("20ms"))]
    interval: Duration,
    /// Requests in bursts: so many a second in a burst, its length, and the mean pause to the next one:
    /// 1000/s,100ms,400ms; each burst's first request is shown apart
    #[arg(long, value_name = "RATE,LENGTH,PAUSE", value_parser = clap::value_parser!(Bursts), conflicts_with_all = ["command", "user", "serve", "interval"])]
    bursts: Option<Bursts>,
    /// Bytes of payload in a request [default: 56 for --ping, 64 for --echo]
    #[arg(long, value_name = "BYTES")]
    size: Option<usize>,
    /// Longest wait for a reply
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = value::time("1s"))]
    timeout: Duration,
    /// Time that a setting is in force before its turn counts
    #[arg(long, value_name = "TIME", default_value = "200ms", value_parser = value::time("200ms"))]
    settle: Duration,
    /// CPU that sends requests and waits for replies [default: the scheduler's choice]
    #[arg(long, value_name = "N", conflicts_with = "command", value_parser = value::cpu, add = completion::cpu())]
    cpu: Option<u32>,
    /// Seed of the order and the pauses
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = value::seed, allow_hyphen_values = true)]
    seed: u64,

    #[command(flatten)]
    metered: Metered,
    #[command(flatten)]
    elsewhere: Elsewhere,
    #[command(flatten)]
    kept: Kept,
    /// Print the settings that would be compared, and change nothing
    #[arg(long, conflicts_with = "host")]
    dry_run: bool,
    /// With --dry-run: a recorded machine, a folder that holds sys/ and proc/
    #[arg(long, value_name = "DIR", requires = "dry_run")]
    root: Option<PathBuf>,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    if let Some(address) = args.serve {
        return serve(address);
    }
    if args.elsewhere.is_given() {
        return there(&args);
    }
    let machine = Machine::read(flags::root(args.root.as_deref())?)?;
    let wanted = Wanted {
        bounds_us: args.latency.clone(),
        given: args.setting.clone(),
        only: args.settings.clone(),
    };
    let (settings, notes) = choose(&machine.idle, &wanted)?;
    let planned = Planned::of(args.rounds, &settings, notes, &machine.idle)?;
    for setting in &args.setting {
        // These take effect by a program of their own, which would find its mistakes in the middle of the trial.
        match &setting.kind {
            Kind::Govern(rules) => drop(Rules::read(rules)?),
            Kind::Quiet(flags) if args.root.is_none() => quiet::check(flags)?,
            _ => {}
        }
    }
    if args.dry_run {
        let sheet = show::planned(&planned);
        args.kept.printed.print(&planned, &sheet, To::Output)?;
        return Ok(ExitCode::SUCCESS);
    }
    let out = args.kept.folder(FILE)?;
    let mut notes = planned.notes;
    notes.extend(comparison::held_by_others("setting"));
    let mut workload = workload(&args)?;
    let counter = JointCounter::start(&machine.root);
    if let Err(why) = &counter {
        notes.push(format!(
            "How long all CPUs slept at once is unknown: {why}."
        ));
    }
    let stop = signals::stop()?;
    let started = SystemTime::now();
    let plan = Plan {
        rounds: args.rounds,
        settle_s: args.settle.as_secs_f64(),
        seed: args.seed,
    };
    let mut meter = args.metered.watched(&machine.root, &stop)?;
    let watched = meter.as_ref().map(|(_, watched)| watched.clone());
    let description = workload.description().clone();
    let trial = |ended, rounds, of_run: &[String]| {
        let about = (args.kept).about(SCHEMA_VERSION, &machine, &description.what, started, ended);
        let notes = [&notes, of_run].concat();
        let (description, plan) = (description.clone(), plan.clone());
        let (names, watched) = (&planned.settings, watched.clone());
        Trial::of(about, description, plan, watched, names, rounds, notes)
    };
    let mut kept_at = None;
    let mut keep = |rounds: &[Round], notes: &[String]| {
        let is_due = kept_at.is_none_or(|at: Instant| at.elapsed() >= BETWEEN_KEPT);
        if let Some(out) = out.as_ref().filter(|_| is_due) {
            let cut_off = Ended::Disturbed("the trial was cut off".into());
            // If it fails, so does the whole one, which is reported.
            let _ = kept::write(&trial(cut_off, rounds.to_vec(), notes), FILE, out);
            kept_at = Some(Instant::now());
        }
    };
    let joint = || counter.as_ref().ok()?.so_far();
    let ran = comparison::with_bar(args.rounds, |progress| {
        run::run(
            &machine,
            &settings,
            &plan,
            workload.as_mut(),
            Around {
                joint: Some(&joint),
                meter: meter
                    .as_mut()
                    .map(|(meter, watched)| Steady::new(meter.as_mut(), watched.refresh())),
                stop: &stop,
                progress,
                keep: &mut keep,
            },
        )
    })?;
    let trial = trial(ran.ended.clone(), ran.rounds, &ran.notes);
    let forget = |trial: &mut Trial| trial.rounds.clear();
    let out = (FILE, out.as_ref());
    (args.kept).print(trial, &ran.ended, out, forget, show::sheet)
}

/// To compare the rounds so far takes time, and the machine is to be quiet.
const BETWEEN_KEPT: Duration = Duration::from_secs(5);

/// How it is printed and kept is for this side.
const KEPT: elsewhere::Kept = elsewhere::Kept {
    values: &["--out"],
    flags: &["--json", "--markdown", "--all", "--full"],
};

/// On other machines.
fn there(args: &Args) -> anyhow::Result<ExitCode> {
    let folders = match args.kept.out() {
        Some(out) => args.elsewhere.folders(Some(out))?,
        None => Vec::new(),
    };
    for folder in &folders {
        folder.folder().refuse_taken(FILE)?;
    }
    let is_kept = !folders.is_empty();
    let besides = |_| {
        let kept = is_kept.then_some(["--out", OUT]);
        let words = ["--json"].into_iter().chain(kept.into_iter().flatten());
        words.map(str::to_owned).collect()
    };
    let mut ran = args.elsewhere.run(&KEPT, besides, folders, false)?;
    if args.kept.printed.json {
        elsewhere::print_json(&mut ran)?;
        return Ok(elsewhere::end(&ran));
    }
    for one in &mut ran {
        let Some(trial) = one.read(reveille_trial::result::parse) else {
            continue;
        };
        let mut sheet = show::sheet(&trial);
        if !args.elsewhere.is_one() {
            sheet.title = format!("{}: {}", one.host, sheet.title);
            elsewhere::heading(&one.host, args.kept.printed.markdown)?;
        }
        let kept = one.received.as_ref().filter(|received| received.has_any());
        let kept = kept.map(|received| received.result().path().join(FILE));
        let printed = &args.kept.printed;
        printed.print_kept(&trial, sheet, Ok(kept), To::Output)?;
    }
    Ok(elsewhere::end(&ran))
}

fn workload(args: &Args) -> anyhow::Result<Box<dyn Workload>> {
    let rhythm = args
        .bursts
        .map_or(Rhythm::Even(args.interval), Rhythm::Bursts);
    let client = Client {
        pace: Pace {
            requests: rhythm.requests(args.requests),
            rhythm,
            timeout: args.timeout,
        },
        size: args.size,
        cpu: args.cpu,
        seed: args.seed,
    };
    let transport = match args.tcp {
        true => Transport::Tcp,
        false => Transport::Udp,
    };
    match (&args.ping, &args.echo) {
        (Some(host), _) => Ok(client.ping(host)?),
        (None, Some(server)) => Ok(client.echo(server, transport)?),
        (None, None) if args.command.is_empty() => Err(Failure::usage(
            "no workload: give --ping HOST, --echo HOST:PORT, or a command after `--`",
        )),
        (None, None) => {
            let figure = match &args.figure {
                Some(expression) => Figure::Output {
                    expression: expression.clone(),
                    unit: args.unit.clone(),
                },
                None => Figure::Duration,
            };
            let run_as = args.user.run_as()?;
            let command = Command::new(&args.command, run_as, figure, args.higher_is_better);
            Ok(Box::new(command?))
        }
    }
}

fn serve(address: Option<SocketAddr>) -> anyhow::Result<ExitCode> {
    let mut signals = signal_hook::iterator::Signals::new(signals::ending())?;
    let server = Server::start(address)?;
    exit::reader_may_leave(writeln!(
        terminal::stdout(),
        "Listening at {} by UDP and TCP; Ctrl-C ends it",
        server.address()
    ))?;
    signals.forever().next();
    Ok(ExitCode::SUCCESS)
}
