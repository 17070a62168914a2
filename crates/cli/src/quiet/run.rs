//! `reveille quiet run`: background work waits while this runs.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::Parser;
use humantime::format_duration;
use reveille_advise::show::Statement;
use reveille_kernel::{Identity, Idle, Journal, Root, cpulist, journal, workload};
use reveille_power::cpus::Least;
use reveille_quiet::hold::cpus::{Confined, are_online, cheapest};
use reveille_quiet::hold::policy::Times;
use reveille_quiet::hold::{Account, Background, Freeze, Held, Slack};
use reveille_show::quantity::{self, counted};
use reveille_show::sheet::Sheet;
use serde::Serialize;
use signal_hook::consts::SIGTSTP;

use crate::command::As;
use crate::exit::Failure;
use crate::held::Until;
use crate::output_format::Printed;
use crate::{completion, exit, restore, value};

/// Delay background work, so that CPUs sleep longer, and together.
///
/// With --cgroup the timer slack of its threads is raised: the kernel may end each of their sleeps and waits with a
/// time-out by so much later, and ends those that are due together. Threads with a slack of their own keep it;
/// real-time threads, timerfd and POSIX timers have none.
///
/// With --freeze a cgroup does not run while the foreground waits for something else, and runs beside it when the
/// foreground runs: at least as long as it was held. It is not held while a thread of the foreground waits for what the
/// background could have: a lock, a pipe, whatever another process ended before. Freezing wakes each task, so it pays
/// for work that computes, not for work that sleeps. While the foreground waits on and on, the background soon loses
/// a tenth of its time.
///
/// With --cpus the background runs on few CPUs, and the others sleep on.
///
/// It ends with the command, or by Ctrl-C; everything is as before then, and after kill -9 by the next start of any
/// command. Threads that were created meanwhile keep the raised timer slack as their default, which they get back from
/// prctl(PR_SET_TIMERSLACK, 0). Needs root.
#[derive(clap::Args)]
#[command(group = clap::ArgGroup::new("background").required(true).multiple(true).args(["cgroup", "freeze"]))]
#[command(after_help = "\
Examples:
  sudo reveille quiet run --cgroup background.slice
  sudo reveille quiet run --cgroup a.slice --cgroup b.slice --within 1s
  sudo reveille quiet run --cgroup background.slice --cpus cheapest
  sudo reveille quiet run --cgroup background.slice --cpus cheapest --power RESULT
  sudo reveille quiet run --cgroup background.slice -- ./benchmark
  sudo reveille quiet run --freeze batch.slice --foreground system.slice/nginx.service")]
pub struct Args {
    /// A cgroup whose sleeps are delayed, with those below it: its folder, or its path in cgroup2
    #[arg(long, value_name = "G", add = completion::cgroups())]
    cgroup: Vec<PathBuf>,
    /// A cgroup that is held, with those below it, while the foreground waits
    #[arg(long, value_name = "G", requires = "foreground", add = completion::cgroups())]
    freeze: Vec<PathBuf>,
    /// What --freeze waits for: this cgroup and those below it
    #[arg(long, value_name = "G", requires = "freeze", add = completion::cgroups())]
    foreground: Option<PathBuf>,
    /// By how much a sleep is delayed, and how long the background is held, at most
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = super::within)]
    within: Duration,
    /// Hold the background when the foreground has waited so long
    #[arg(long, value_name = "TIME", default_value = "10ms", value_parser = value::time("10ms"), requires = "freeze")]
    after: Duration,
    /// Keep the background on these CPUs: a list such as 0-3,6, or `cheapest`: the efficient cores, otherwise one
    /// package, otherwise one core
    #[arg(long, value_name = "CPUS", value_parser = cpus)]
    cpus: Option<Cpus>,
    /// A result of `power cpus` with several orders: `--cpus cheapest` is as many CPUs, of the order that took least
    /// power
    #[arg(long, value_name = "RESULT", requires = "cpus", add = completion::results())]
    power: Option<PathBuf>,
    #[command(flatten)]
    printed: Printed,
    #[command(flatten)]
    user: As,
    /// A command to run meanwhile, after --
    #[arg(last = true, value_name = "COMMAND", add = completion::command())]
    command: Vec<OsString>,
}

#[derive(Clone)]
enum Cpus {
    Cheapest,
    These(Vec<u32>),
}

fn cpus(text: &str) -> Result<Cpus, String> {
    match text {
        "cheapest" => Ok(Cpus::Cheapest),
        list => cpulist::parse(list)
            .filter(|cpus| !cpus.is_empty())
            .map(Cpus::These)
            .ok_or_else(|| "neither `cheapest` nor a list of CPUs such as 0-3,6".to_owned()),
    }
}

/// What `--json` prints.
#[derive(Serialize)]
struct Plan<'a> {
    within_s: f64,
    slack: Option<Held>,
    freeze: Option<Frozen<'a>>,
    /// Those that the background may use; `None`: as before.
    cpus: Option<Vec<u32>>,
}

#[derive(Serialize)]
struct Frozen<'a> {
    cgroups: &'a [PathBuf],
    foreground: &'a Path,
    after_s: f64,
}

/// Checks flags that are used later; wrong ones, and cgroups and CPUs that do not exist, are usage errors.
pub fn check(flags: &[String]) -> anyhow::Result<()> {
    #[derive(clap::Parser)]
    #[command(no_binary_name = true)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }
    let line = Line::try_parse_from(flags);
    let wrong = |error| Failure::usage(format!("quiet run: {}", exit::usage_in_one_line(&error)));
    let Line { args } = line.map_err(wrong)?;
    let root = Root::default();
    args.background(&root)?;
    if let Some(foreground) = &args.foreground {
        workload::cgroup(&root, "--foreground", foreground)?;
    }
    if let Some(wanted) = &args.cpus {
        let idle = Idle::read(&root)?;
        let chosen = wanted.choose(&root, &idle, args.power.as_deref())?;
        are_online(&idle, &chosen.cpus)?;
    }
    Ok(())
}

/// CPUs for the background, and what is known of them.
struct Chosen {
    cpus: Vec<u32>,
    /// A sentence; empty if nothing was measured.
    why: String,
}

impl Cpus {
    /// `power`: a result of `power cpus`.
    fn choose(&self, root: &Root, idle: &Idle, power: Option<&Path>) -> anyhow::Result<Chosen> {
        let cheapest = match (self, power) {
            (Self::Cheapest, _) => cheapest(idle),
            (Self::These(_), Some(_)) => {
                return Err(Failure::usage("--power is for --cpus cheapest"));
            }
            (Self::These(cpus), None) => cpus.clone(),
        };
        let Some(power) = power else {
            let why = String::new();
            return Ok(Chosen {
                cpus: cheapest,
                why,
            });
        };
        let wrong = |why: &str| Failure::usage(format!("--power: {}: {why}", power.display()));
        let result = reveille_power::cpus::open(power)?;
        let (here, there) = (Identity::read(root).cpu_model, &result.about.machine);
        if here != there.cpu_model {
            return Err(wrong("it is of a machine with another processor"));
        }
        let least = result.least(cheapest.len()).map_err(|why| wrong(&why))?;
        Ok(match least {
            None => Chosen {
                cpus: cheapest,
                why: "No order of busy CPUs took less power than another beyond chance, so they are chosen by their kind, \
                      package and core."
                    .to_owned(),
            },
            Some(least) => Chosen {
                cpus: least.cpus.to_vec(),
                why: took(&least),
            },
        })
    }
}

/// `Busy, they took 31.2 W; as many in order spread took 38.4 W.`
fn took(least: &Least<'_>) -> String {
    let others = least
        .than
        .iter()
        .map(|(order, power_w)| format!("as many in order {} took {power_w:.1} W", order.name()));
    let others: Vec<String> = others.collect();
    format!(
        "Busy, they took {:.1} W; {}.",
        least.power_w,
        others.join(", ")
    )
}

impl Args {
    /// The cgroups of --cgroup, and of --freeze.
    fn background(&self, root: &Root) -> reveille_kernel::Result<[Vec<Background>; 2]> {
        let all = |flag, names: &[PathBuf]| {
            let all = names.iter().map(|name| Background::of(root, flag, name));
            all.collect::<reveille_kernel::Result<Vec<_>>>()
        };
        Ok([
            all("--cgroup", &self.cgroup)?,
            all("--freeze", &self.freeze)?,
        ])
    }
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let root = Root::default();
    let [delayed, frozen] = args.background(&root)?;
    if !frozen.is_empty() {
        // A stopped process thaws nothing. The command, if there is one, is stopped as ever.
        signal_hook::flag::register(SIGTSTP, Arc::default()).context("signals")?;
    }
    let until = Until::prepare(&args.command, &args.user)?;
    let mut journal = Journal::new(&root, Path::new(journal::FOLDER));
    let ran = (|| {
        let cpus = match &args.cpus {
            None => None,
            Some(wanted) => {
                let idle = Idle::read(&root)?;
                let chosen = wanted.choose(&root, &idle, args.power.as_deref())?;
                let both = [&delayed[..], &frozen[..]].concat();
                let failed = |error| exit::say(error);
                let journal = &mut journal;
                let confined = Confined::keep(&root, &idle, both, &chosen.cpus, journal, failed)?;
                Some((chosen, confined))
            }
        };
        let slack = match delayed.is_empty() {
            true => None,
            false => {
                let failed = |error| exit::say(format!("new threads are not delayed: {error}"));
                Some(Slack::raise(
                    &root,
                    delayed,
                    args.within,
                    &mut journal,
                    failed,
                )?)
            }
        };
        let freeze = match &args.foreground {
            Some(foreground) => {
                let times = Times {
                    within: args.within,
                    after: args.after,
                };
                let failed = |error| exit::say(format!("nothing is held any more: {error}"));
                let journal = &mut journal;
                Some(Freeze::start(
                    &root, frozen, foreground, times, journal, failed,
                )?)
            }
            None => None,
        };
        let held = slack.as_ref().map(Slack::held);
        let plan = Plan {
            within_s: args.within.as_secs_f64(),
            slack: held,
            freeze: args.foreground.as_deref().map(|foreground| Frozen {
                cgroups: &args.freeze,
                foreground,
                after_s: args.after.as_secs_f64(),
            }),
            cpus: cpus.as_ref().map(|(chosen, _)| chosen.cpus.clone()),
        };
        let statement = statement(&args, held, cpus.as_ref().map(|(chosen, _)| chosen));
        let ended = until.over(&plan, &statement, &args.printed);
        let mut whole = true;
        if let Some(freeze) = freeze {
            let account = freeze.stop();
            exit::say(words(&account));
            whole &= !account.failed;
        }
        if let Some(slack) = slack {
            whole &= slack.stop();
        }
        if let Some((_, confined)) = cpus {
            whole &= confined.stop();
        }
        match (ended?, whole) {
            (ExitCode::SUCCESS, false) => Ok(ExitCode::FAILURE),
            (code, _) => Ok(code),
        }
    })();
    restore::at_the_end(journal, ran)
}

fn statement(args: &Args, held: Option<Held>, cpus: Option<&Chosen>) -> Statement {
    let within = format_duration(args.within);
    let mut lines = Vec::new();
    if let Some(held) = held {
        let threads = counted(held.threads as u64, "thread");
        lines.push(format!(
            "The sleeps of {threads} may be delayed by up to {within}."
        ));
        match held.own_slack {
            0 => {}
            1 => lines.push("One thread has a timer slack of its own, and keeps it.".to_owned()),
            own => {
                let own = quantity::count(own as u64);
                lines.push(format!(
                    "{own} threads have a timer slack of their own, and keep it."
                ));
            }
        }
    }
    if let Some(foreground) = &args.foreground {
        let groups = counted(args.freeze.len() as u64, "cgroup");
        let foreground = foreground.display();
        lines.push(format!(
            "{groups} held for up to {within} at a time while {foreground} waits."
        ));
    }
    if let Some(Chosen { cpus, why }) = cpus {
        lines.push(format!("The background runs on {}.", cpulist::named(cpus)));
        lines.extend((!why.is_empty()).then(|| why.clone()));
    }
    Statement {
        sheet: Sheet {
            title: "Background work".to_owned(),
            answer: format!("{} Until Ctrl-C.", lines.join(" ")),
            ..Sheet::default()
        },
        lines,
    }
}

/// `held 12 times, 1.1 s in all, 100 ms at most; 3 times until the foreground ran`
fn words(account: &Account) -> String {
    let time = |s: f64| quantity::duration(s * 1e9);
    format!(
        "held {}, {} in all, {} at most; {} until the foreground ran",
        counted(account.times, "time"),
        time(account.held_s),
        time(account.longest_s),
        counted(account.for_foreground, "time"),
    )
}
