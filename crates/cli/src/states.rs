//! `reveille states`: the idle states of a machine.

use std::path::PathBuf;
use std::process::ExitCode;

use reveille_kernel::Idle;
use reveille_watch::states::{States, show};

use crate::completion;
use crate::elsewhere::{self, AS_GIVEN, Elsewhere, Kept};
use crate::flags;
use crate::output_format::{Printed, To};
use crate::value::{self, CpuList};

/// Show the CPUs' idle states: the driver's figures, what is allowed, and how each was used.
///
/// CPUs that are alike are one group; those that differ (kind of core, states, disabled states,
/// latency bounds, offline) are listed separately. Counts and times are since boot.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  reveille states
  reveille states --cpu 0-3
  reveille states --json | jq '.groups[].states[] | {name, exit_latency_us}'
  reveille states --host root@sut --host root@other   of other machines, in one table
  reveille states --root /tmp/recorded-machine

Columns:
  exit, target   the driver's exit latency and target residency
  dflt, now      is the state on by default, and is it now
  uses, time     sums over the CPUs of the group
  share          of the CPUs' time since boot; of all idle time if the uptime is unknown
  above, below   uses for which a shallower (above) or a deeper (below) state would have been
                 right, per cent of uses
With --all also:
  description    the driver's description
  rejected       requests that hardware or firmware rejected, per cent of all requests")]
pub struct Args {
    /// Only these CPUs, as a list such as 0-3,8
    #[arg(long, value_name = "LIST", value_parser = value::cpus, add = completion::cpus())]
    cpu: Option<CpuList>,
    /// Read a recorded machine: a folder that holds sys/ and proc/
    #[arg(long, value_name = "DIR", conflicts_with = "host")]
    root: Option<PathBuf>,
    #[command(flatten)]
    elsewhere: Elsewhere,
    #[command(flatten)]
    printed: Printed,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    if args.elsewhere.is_given() {
        return there(&args);
    }
    let root = flags::root(args.root.as_deref())?;
    let idle = Idle::read(&root)?;
    let cpus = flags::cpus(&idle, args.cpu.as_ref())?;
    let states = States::of(&root, idle, &cpus);
    args.printed
        .print(&states, &show::sheet(&states), To::Output)?;
    Ok(ExitCode::SUCCESS)
}

/// Of other machines.
fn there(args: &Args) -> anyhow::Result<ExitCode> {
    if args.elsewhere.is_one() {
        let ran = args
            .elsewhere
            .run(&AS_GIVEN, |_| Vec::new(), Vec::new(), false)?;
        elsewhere::print(&ran, args.printed.data().is_some())?;
        return Ok(elsewhere::end(&ran));
    }
    let mut ran = args.elsewhere.run(
        &IN_A_TABLE,
        |_| vec!["--json".to_owned()],
        Vec::new(),
        false,
    )?;
    if args.printed.json {
        elsewhere::print_json(&mut ran)?;
        return Ok(elsewhere::end(&ran));
    }
    let mut hosts = Vec::new();
    for one in &mut ran {
        if let Some(states) = one.parsed() {
            hosts.push((one.host.clone(), states));
        }
    }
    args.printed
        .print(&(), &show::of_hosts(&hosts), To::Output)?;
    Ok(elsewhere::end(&ran))
}

/// How it is printed is for this side.
const IN_A_TABLE: Kept = Kept {
    values: &[],
    flags: &["--json", "--markdown", "--all", "--full"],
};
