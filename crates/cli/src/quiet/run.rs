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
use reveille_power::cpus::{FILE, Least};
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
    /// A result of `power cpus` with several orders: `--cpus cheapest` is as many CPUs as without it, or as many of
    /// these as were measured, of the order that took least power
    #[arg(long, value_name = "RESULT", requires = "cpus", add = completion::kept_as(FILE))]
    power: Option<PathBuf>,
    #[command(flatten)]
    printed: Printed,
    #[command(flatten)]
    user: As,
    /// A command to run meanwhile, after --
    #[arg(last = true, value_name = "COMMAND", add = completion::command(), conflicts_with_all = ["json", "markdown", "all"])]
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
    /// Why these, by --power; `None` without it, or if no order took less than another.
    power: Option<&'a Least>,
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

/// CPUs for the background.
struct Chosen {
    cpus: Vec<u32>,
    /// What `--power` tells of them: `None` without it, `Some(None)` if no order took less than another.
    by: Option<Option<Least>>,
}

impl Cpus {
    /// `power`: a result of `power cpus`.
    fn choose(&self, root: &Root, idle: &Idle, power: Option<&Path>) -> anyhow::Result<Chosen> {
        let cpus = match self {
            Self::Cheapest => cheapest(idle),
            Self::These(_) if power.is_some() => {
                return Err(Failure::usage("--power is for --cpus cheapest"));
            }
            Self::These(cpus) => cpus.clone(),
        };
        let Some(power) = power else {
            return Ok(Chosen { cpus, by: None });
        };
        let wrong = |why: &str| Failure::usage(format!("--power: {}: {why}", power.display()));
        let result = reveille_power::cpus::open(power)?;
        let here = Identity::read(root).cpu_model;
        if here.is_none() || here != result.about.machine.cpu_model {
            return Err(wrong("it is of a machine with another processor"));
        }
        let least = result.least(idle, cpus.len()).map_err(|why| wrong(&why))?;
        Ok(Chosen {
            cpus: least.as_ref().map_or(cpus, |least| least.cpus.clone()),
            by: Some(least),
        })
    }
}

/// `The background runs on CPU 1.`, and why on these.
fn runs_on(Chosen { cpus, by }: &Chosen) -> Vec<String> {
    let cpus = cpulist::named(cpus);
    let mut lines = vec![format!("The background runs on {cpus}.")];
    match by {
        None => {}
        Some(None) => lines.push(
            "By --power no CPUs took less power than others beyond chance; these are chosen by kind, package and core."
                .to_owned(),
        ),
        Some(Some(Least { took, than, .. })) => {
            let others = than.iter();
            let others =
                others.map(|one| format!("{:.1} W in order {}", one.power_w, one.order.name()));
            lines.push(format!(
                "With {cpus} busy (order {}) the meter showed {:.1} W; with as many, {}.",
                took.order.name(),
                took.power_w,
                others.collect::<Vec<_>>().join(", ")
            ));
        }
    }
    lines
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
            power: cpus
                .as_ref()
                .and_then(|(chosen, _)| chosen.by.as_ref()?.as_ref()),
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
            let (kept, restored) = confined.stop();
            whole &= kept;
            for restored in restored {
                whole &= restore::is_whole(&restored);
            }
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
    lines.extend(cpus.into_iter().flat_map(runs_on));
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

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::json;

    use super::*;

    /// Two packages of two CPUs.
    fn machine(folder: &Path) -> (Root, Idle) {
        let cpus = folder.join("sys/devices/system/cpu");
        for cpu in 0..4 {
            let topology = cpus.join(format!("cpu{cpu}/topology"));
            fs::create_dir_all(&topology).unwrap();
            fs::write(topology.join("physical_package_id"), (cpu / 2).to_string()).unwrap();
            fs::write(topology.join("core_id"), (cpu % 2).to_string()).unwrap();
        }
        fs::write(cpus.join("present"), "0-3").unwrap();
        fs::write(cpus.join("online"), "0-3").unwrap();
        fs::create_dir(folder.join("proc")).unwrap();
        fs::write(
            folder.join("proc/cpuinfo"),
            "processor\t: 0\nmodel name\t: made up\n",
        )
        .unwrap();
        let root = Root::at(folder);
        let idle = Idle::read(&root).unwrap();
        (root, idle)
    }

    /// A result of six rounds of two busy CPUs.
    fn result(folder: &Path, model: &str, fill_w: f64, spread_w: f64) {
        let turns = (0..6).flat_map(|round| {
            [("fill", fill_w), ("spread", spread_w)].map(|(order, power_w)| {
                json!({"round": round, "order": order, "busy": 2, "power_w": power_w + f64::from(round * 7 % 5)})
            })
        });
        let order = |name, cpus: [u32; 4]| json!({"order": name, "cpus": cpus, "points": []});
        let result = json!({
            "schema_version": 1, "tool": "reveille", "name": "made up", "started": "2026-11-29T00:00:00Z",
            "command_line": [], "ended": "completed", "machine": {"cpu_model": model}, "driver": null,
            "governor": null, "rounds": 6, "dwell_s": 30.0, "settle_s": 1.0, "seed": 1, "notes": [],
            "meter": {"name": "made up", "scope": "wall", "counts": "power", "readings": 9, "reading_s": 0.1},
            "orders": [order("fill", [0, 1, 2, 3]), order("spread", [0, 2, 1, 3])],
            "turns": turns.collect::<Vec<_>>(),
        });
        fs::write(folder.join(FILE), result.to_string()).unwrap();
    }

    #[test]
    fn a_result_decides_which_cpus_are_cheapest_if_it_can() {
        let folder = tempfile::tempdir().unwrap();
        let (root, idle) = machine(folder.path());
        let chosen = |power| Cpus::Cheapest.choose(&root, &idle, power);
        let without = chosen(None).unwrap();
        assert_eq!((&without.cpus[..], &without.by), (&[0, 1][..], &None));

        result(folder.path(), "made up", 40.0, 30.0);
        let power = Some(folder.path());
        let spread = chosen(power).unwrap();
        assert_eq!(spread.cpus, [0, 2]);
        assert_eq!(
            runs_on(&spread).join(" "),
            "The background runs on CPUs 0,2. With CPUs 0,2 busy (order spread) the meter showed 31.7 W; with as many, \
             41.7 W in order fill."
        );

        result(folder.path(), "made up", 30.0, 30.0);
        let either = chosen(power).unwrap();
        assert_eq!(either.cpus, [0, 1]);
        assert!(runs_on(&either)[1].starts_with("By --power no CPUs took less"));

        result(folder.path(), "another", 40.0, 30.0);
        let why = chosen(power).err().unwrap().to_string();
        assert!(why.contains("another processor"), "{why}");
        let why = Cpus::These(vec![0]).choose(&root, &idle, power).err();
        assert!(why.unwrap().to_string().contains("--cpus cheapest"));
    }
}
