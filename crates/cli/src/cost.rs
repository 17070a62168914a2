//! `reveille cost`: a workload's wake-ups are followed, and what waiting for sleeping CPUs cost it
//! is said.

pub(crate) mod subject;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use reveille_kernel::interrupts::Interrupts;
use reveille_kernel::{Identity, Idle, Root, requests};
use reveille_results::output::{Existing, Folder};
use reveille_watch::cost::{About, Cost, Ended, FILE, Follower, Maps, Tallies, fold, show};

use crate::chosen;
use crate::command::{As, Child};
use crate::exit;
use crate::measured::open_of_machine;
use crate::printed::{Printed, To};
use crate::signals;
use reveille_show::progress::Bar;
use subject::Subject;

/// Tell how much time a workload loses waiting for CPUs to wake.
///
/// A CPU that is leaving an idle state executes nothing, so no profiler shows it. BPF programs
/// follow every wake-up of the workload's tasks: was a CPU asleep in the way, in which state, and
/// how long until the task ran. Says what each state cost, and what it would regain to forbid it.
/// Nothing is changed. Needs root.
#[derive(clap::Args)]
#[command(group = clap::ArgGroup::new("workload").required(true).args(["pid", "cgroup", "all", "command"]))]
#[command(after_help = "\
Examples:
  sudo reveille cost -- ./benchmark --threads 4     until it ends; the table on standard error
  sudo reveille cost --user root -- ./needs-root    under sudo a command runs as who called sudo
  sudo reveille cost --pid 4711 --duration 1min     a running process, with its threads
  sudo reveille cost --cgroup system.slice/nginx.service
  sudo reveille cost --all --out costs; reveille report costs
  sudo reveille cost --pid 4711 --out costs --stacks; flamegraph.pl costs/stacks.folded

With a command the exit code is the command's, and --json goes to standard output after the
command's own: with --out it is kept in a file. Otherwise Ctrl-C ends the following, and what was
gathered until then is said (exit code 130). Without a command, no wake-up at all is exit code 1.")]
pub struct Args {
    /// Follow this process: its threads, and what it starts from now on
    #[arg(long, value_name = "P", conflicts_with = "user")]
    pid: Option<u32>,
    /// Follow the tasks of this cgroup and of those below it: its folder, or its path in cgroup2
    #[arg(long, value_name = "G", conflicts_with = "user")]
    cgroup: Option<PathBuf>,
    /// Follow all tasks
    #[arg(long, conflicts_with = "user")]
    all: bool,
    /// Follow for this time [default: a command, until it ends; others 30s, or until they end]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    duration: Option<Duration>,
    /// A result of `measure`: estimates waits for CPUs that a device woke, by what was measured
    #[arg(long, value_name = "DIR")]
    result: Option<PathBuf>,
    /// Folder to keep cost.json in, for `reveille report`
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Keep the wakers' stacks, user and kernel, weighted by the µs waited: folded, as flame graphs
    /// take them, in stacks.folded beside cost.json. Costs a µs or more at each wake-up
    #[arg(long, requires = "out")]
    stacks: bool,
    #[command(flatten)]
    printed: Printed,
    #[command(flatten)]
    user: As,
    /// A command to run and follow, after --
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

const DEFAULT: Duration = Duration::from_secs(30);

/// How often it is looked whether the end has come: the program's own wake-ups.
const LOOK: Duration = Duration::from_millis(250);

fn parse_duration(text: &str) -> Result<Duration, String> {
    let duration = humantime::parse_duration(text)
        .map_err(|_| "not a duration such as 30s or 5min".to_owned())?;
    match duration.is_zero() {
        true => Err("nothing wakes in no time".to_owned()),
        false => Ok(duration),
    }
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let root = Root::default();
    let idle = Idle::read(&root)?;
    let measured = match &args.result {
        Some(folder) => Some((
            folder.display().to_string(),
            open_of_machine(folder, &idle)?.0,
        )),
        None => None,
    };
    let files = if args.stacks {
        &[FILE, STACKS][..]
    } else {
        &[FILE]
    };
    let out = chosen::output_folder(args.out.as_deref(), files)?;
    let started = SystemTime::now();
    let followed = match args.command.is_empty() {
        false => follow_command(&args, &idle)?,
        true => follow_subject(&args, &idle)?,
    };
    let cost = Cost::of(
        &followed.tallies,
        About {
            tool: format!("reveille {}", env!("CARGO_PKG_VERSION")),
            started: humantime::format_rfc3339_seconds(started).to_string(),
            command_line: std::env::args().collect(),
            workload: followed.workload,
            ended: followed.ended,
            machine: Identity::read(&root),
            driver: idle.driver.clone(),
            governor: idle.governor.clone(),
            honours_requests: requests::honoured(&idle),
            interrupts: Interrupts::read(&root),
            measured,
        },
    );
    let kept = match &out {
        Some(out) => keep(out, &cost, followed.stacks.as_deref()),
        None => Ok(()),
    };
    // What was followed is said, even if it could not be kept.
    let folder = out.as_ref().filter(|_| kept.is_ok());
    let mut sheet = show::sheet(&cost);
    if let Some(folder) = folder {
        sheet.fact("Kept in", folder.path().display().to_string());
    }
    // A command's standard output is its own.
    let to = match args.command.is_empty() {
        true => To::Output,
        false => To::Error,
    };
    let said = args.printed.print(&cost, &sheet, to);
    kept?;
    exit::reader_may_leave(said)?;
    if cost.wakeups == 0 && args.command.is_empty() && followed.ended != Ended::Interrupted {
        anyhow::bail!(
            "no wake-up was seen: {} ran without a pause, or not at all",
            cost.workload
        );
    }
    Ok(followed.code)
}

/// What was followed to its end.
struct Followed {
    tallies: Tallies,
    workload: String,
    ended: Ended,
    code: ExitCode,
    stacks: Option<String>,
}

fn follow_command(args: &Args, idle: &Idle) -> anyhow::Result<Followed> {
    let mut child = Child::prepare(&args.command, &args.user.run_as()?)?;
    let subject = Subject::of_command(&args.command, child.pid());
    let follower = Follower::start(idle, &subject.workload, args.stacks)?;
    child.start()?;
    let mut watch = Watch::new(args, &follower);
    let mut ended = Ended::WorkloadEnded;
    let mut tallies = None;
    // Where nothing is to be looked at meanwhile, this program sleeps until the command's end.
    let status = match args.duration.is_some() || args.stacks {
        false => child.wait_status()?,
        true => loop {
            if let Some(status) = child.try_wait()? {
                break status;
            }
            watch.look()?;
            let left = args
                .duration
                .map(|all| all.saturating_sub(follower.elapsed()));
            if left.is_some_and(|left| left.is_zero()) {
                // The command goes on by itself to its end.
                ended = Ended::Completed;
                tallies = Some(follower.finish()?);
                break child.wait_status()?;
            }
            std::thread::sleep(left.map_or(LOOK, |left| left.min(LOOK)));
        },
    };
    let tallies = match tallies {
        Some(tallies) => tallies,
        None => follower.finish()?,
    };
    Ok(Followed {
        stacks: watch.stacks()?,
        tallies,
        workload: subject.name,
        ended,
        code: ExitCode::from(crate::command::code(status)),
    })
}

/// Wakers' memory, looked at while they live.
struct Watch<'a> {
    follower: &'a Follower,
    wanted: bool,
    maps: Maps,
}

impl<'a> Watch<'a> {
    fn new(args: &Args, follower: &'a Follower) -> Self {
        Self {
            follower,
            wanted: args.stacks,
            maps: Maps::default(),
        }
    }

    fn look(&mut self) -> anyhow::Result<()> {
        if self.wanted {
            let processes = self.follower.stack_processes()?;
            self.maps.look(&Root::default(), &processes);
        }
        Ok(())
    }

    /// The folded stacks, if they are wanted.
    fn stacks(&mut self) -> anyhow::Result<Option<String>> {
        if !self.wanted {
            return Ok(None);
        }
        self.look()?;
        let stacks = self.follower.stacks()?;
        match self.maps.unopened() {
            0 => {}
            files => exit::say(format_args!(
                "--stacks: files that wakers had mapped and that could not be opened: {files}; their \
                 functions are called by the file"
            )),
        }
        Ok(Some(fold(&stacks, &self.maps)))
    }
}

fn follow_subject(args: &Args, idle: &Idle) -> anyhow::Result<Followed> {
    let root = Root::default();
    let subject = match (args.pid, &args.cgroup) {
        (Some(pid), _) => Subject::of_process(&root, pid)?,
        (None, Some(cgroup)) => Subject::of_cgroup(&root, cgroup)?,
        (None, None) => Subject::all(),
    };
    let interrupted = signals::stop()?;
    let duration = args.duration.unwrap_or(DEFAULT);
    let follower = Follower::start(idle, &subject.workload, args.stacks)?;
    let mut watch = Watch::new(args, &follower);
    let bar = Bar::new();
    let ended = loop {
        let elapsed = follower.elapsed();
        let left = duration.saturating_sub(elapsed);
        let done = 1.0 - left.as_secs_f64() / duration.as_secs_f64();
        bar.show("following", done, Some(left), &subject.name);
        watch.look()?;
        if interrupted.load(Ordering::Relaxed) {
            break Ended::Interrupted;
        }
        if elapsed >= duration {
            break Ended::Completed;
        }
        if subject.is_gone(&root) {
            break Ended::WorkloadEnded;
        }
        std::thread::sleep(left.min(LOOK));
    };
    bar.clear();
    Ok(Followed {
        tallies: follower.finish()?,
        stacks: watch.stacks()?,
        workload: subject.name,
        ended,
        code: match ended {
            Ended::Interrupted => ExitCode::from(exit::INTERRUPTED),
            Ended::Completed | Ended::WorkloadEnded => ExitCode::SUCCESS,
        },
    })
}

/// The folded stacks, beside cost.json.
const STACKS: &str = "stacks.folded";

fn keep(out: &Folder, cost: &Cost, stacks: Option<&str>) -> anyhow::Result<()> {
    if let Some(stacks) = stacks {
        out.write(STACKS, Existing::Stays, stacks.as_bytes())?;
    }
    let mut json = serde_json::to_vec_pretty(cost)?;
    json.push(b'\n');
    out.write(FILE, Existing::Stays, &json)?;
    Ok(())
}
