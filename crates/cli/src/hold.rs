//! `reveille hold`: a bound on how long CPUs take to wake, held while a command runs.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use reveille_advise::hold::{Options, Plan};
use reveille_advise::{MachineResult, show};
use reveille_govern::show::nothing_held;
use reveille_kernel::{Idle, Journal, Root, journal, requests};
use reveille_results::statistics::Percentile;

use crate::command::As;
use crate::completion;
use crate::exit::{self, Failure};
use crate::flags;
use crate::held::Until;
use crate::output_format::{Printed, To};
use crate::serving::{self, Serving};
use crate::value::{self, CpuList};

/// Hold a bound on wake latency while a command runs.
///
/// Keeps CPUs out of idle states whose exit latency, by the driver's table, exceeds the bound; 0
/// means no sleep at all. Without a command it holds until Ctrl-C. Needs root. The tightest of all
/// such requests counts.
///
/// For all CPUs the request goes through /dev/cpu_dma_latency: the kernel drops it when this
/// program ends, in any way. With --cpu it goes through these CPUs' own settings
/// (power/pm_qos_resume_latency_us), which are restored at the end; after kill -9, by the next
/// start of any command.
///
/// With --result the measured latencies decide: the request to the kernel leaves just the states
/// that `reveille advise` allows for this budget, with 95% confidence. If the governor ignores such a
/// bound (haltpoll: all but 0), nothing is held, and the exit code is 3.
///
/// With --via-service the service `reveille govern` holds the bound, which needs no root: polkit
/// decides who may. The hold ends with this program.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  sudo reveille hold --latency 100us                      until Ctrl-C
  sudo reveille hold --latency 20us -- ./server --port 80
  sudo reveille hold --latency 0 --cpu 2,3 -- ./loop      CPUs 2 and 3 never sleep
  sudo reveille hold --latency 50us --result RESULT       by measured latencies
  reveille hold --latency 50us --via-service -- ./player  without root, by the service
  reveille hold --latency 50us --dry-run                  what it would leave; changes nothing")]
pub struct Args {
    /// The longest wake latency: 100us, 1.5ms, or 0 for no sleep at all
    #[arg(
        long,
        value_name = "TIME",
        value_parser = value::bound,
        allow_hyphen_values = true
    )]
    latency: u32,
    /// Only these CPUs, as a list such as 0-3,8 [default: all]
    #[arg(long, value_name = "LIST", value_parser = value::cpus, add = completion::cpus())]
    cpu: Option<CpuList>,
    /// Judge states by the latencies measured in this result, not by the driver's table alone
    #[arg(long, value_name = "DIR", add = completion::results())]
    result: Option<PathBuf>,
    /// The percentile of measured wake latencies to compare with the bound
    #[arg(
        long,
        value_name = "P",
        value_parser = PossibleValuesParser::new(Percentile::ALL.map(Percentile::percent))
            .map(|percent| Percentile::of_percent(&percent).expect("one of the possible values")),
        default_value = "99.9",
        requires = "result"
    )]
    percentile: Percentile,
    /// Have the service `reveille govern` hold the bound; needs no root
    #[arg(long, conflicts_with_all = ["result", "dry_run"])]
    via_service: bool,
    /// Print which states the bound leaves, and change nothing; needs no root
    #[arg(long)]
    dry_run: bool,
    /// With --dry-run: a recorded machine, a folder that holds sys/ and proc/
    #[arg(long, value_name = "DIR", requires = "dry_run")]
    root: Option<PathBuf>,
    #[command(flatten)]
    printed: Printed,
    #[command(flatten)]
    user: As,
    /// A command to run, after --
    #[arg(last = true, value_name = "COMMAND", add = completion::command(), conflicts_with_all = ["json", "markdown", "all"])]
    command: Vec<OsString>,
}

pub fn run(args: Args, serving: Option<&Serving>) -> anyhow::Result<ExitCode> {
    let root = flags::root(args.root.as_deref())?;
    let idle = Idle::read(&root)?;
    let cpus = flags::cpus(&idle, args.cpu.as_ref())?;
    let result = match &args.result {
        Some(result) => {
            Some(MachineResult::open(result, &idle, args.percentile).map_err(flags::unfit)?)
        }
        None => None,
    };
    let options = Options {
        bound_us: args.latency,
        cpus: &cpus,
        all: args.cpu.is_none(),
        result: result.as_ref(),
    };
    let plan = Plan::of(&root, &idle, &options).map_err(flags::unfit)?;
    if args.dry_run {
        let statement = show::hold(&plan, "");
        args.printed.print(&plan, &statement.sheet, To::Output)?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.via_service {
        let Some(serving) = serving else {
            return Err(serving::replace());
        };
        return via_service(&args, plan, serving);
    }
    let until = Until::prepare(&args.command, &args.user)?;
    let mut journal = Journal::new(&root, Path::new(journal::FOLDER));
    let _held = plan.hold(&mut journal, &root)?;
    let statement = show::hold(&plan, "Held until Ctrl-C.");
    until.hold(&plan, &statement, &args.printed, journal)
}

fn via_service(args: &Args, mut plan: Plan, serving: &Serving) -> anyhow::Result<ExitCode> {
    if plan.through.take().is_none() {
        let why =
            "--via-service: latency bounds have no effect here: no cpuidle driver and governor";
        return Err(Failure::cannot(why));
    }
    let reason = match args.command.first() {
        Some(command) => command.to_string_lossy(),
        None => "reveille hold".into(),
    };
    let cpus = args.cpu.as_ref().map(|CpuList(cpus)| cpus.as_slice());
    // Before signals are caught: Ctrl-C ends this program while polkit asks the user.
    let held = (serving.hold)(cpus, args.latency, &reason)?;
    let out = kept_out(&Root::default(), &plan.cpus, args.latency);
    if !out.is_empty() {
        let cpus: Vec<u32> = out.iter().map(|(cpu, _)| *cpu).collect();
        plan.leave_out(&cpus, nothing_held(&out));
    }
    let until = Until::prepare(&args.command, &args.user)?;
    let statement = match plan.cpus.is_empty() {
        true => show::hold(&plan, "Nothing is held."),
        false => show::hold(&plan, "Held by the service until Ctrl-C."),
    };
    let copy = held.try_clone()?;
    std::thread::spawn(move || say_when_it_ends(&copy));
    let code = until.over(&plan, &statement, &args.printed);
    drop(held);
    code
}

/// The CPUs where another program's bound is in the place of the service's, which it sets in a moment, with that bound:
/// `0` is nobody's.
fn kept_out(root: &Root, cpus: &[u32], bound_us: u32) -> Vec<(u32, String)> {
    let end = Instant::now() + Duration::from_secs(1);
    let is_looser = |value: &str| value != "0" && !requests::is_within(value, bound_us);
    loop {
        let present = |cpu: &u32| Some((*cpu, root.text(&requests::file_of(*cpu))?));
        let mut present: Vec<_> = cpus.iter().filter_map(present).collect();
        present.retain(|(_, value)| is_looser(value));
        if present.is_empty() || Instant::now() > end {
            return present;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Nothing ever comes from a hold's descriptor but its end.
fn say_when_it_ends(held: &OwnedFd) {
    let _ = nix::unistd::read(held, &mut [0]);
    exit::say("the service has ended; the bound is not held any more");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_another_programs_looser_bound_keeps_a_hold_out() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        for cpu in 0..3 {
            let file = root.path(&requests::file_of(cpu));
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(&file, "20").unwrap();
        }
        // Where all states keep to the bound, the service sets none.
        for value in ["0", "n/a", "10"] {
            std::fs::write(root.path(&requests::file_of(0)), value).unwrap();
            let out = kept_out(&root, &[0, 1, 2, 3], 10);
            assert_eq!(out, [1, 2].map(|cpu| (cpu, "20".to_owned())), "{value}");
        }
    }
}
