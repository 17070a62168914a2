//! `reveille cost`: follows a workload's wake-ups, and shows what waiting for sleeping CPUs costs it.

mod args;
#[cfg(feature = "bpf")]
mod follow;
#[cfg_attr(not(feature = "bpf"), allow(dead_code))]
pub(crate) mod subject;

use std::process::ExitCode;
use std::time::SystemTime;

use reveille_advise::MachineResult;
use reveille_kernel::interrupts::Interrupts;
use reveille_kernel::{Identity, Idle, Root, requests};
use reveille_results::kept;
use reveille_results::output::{Existing, Folder};
use reveille_watch::cost::{About, Cost, Ended, FILE, show};

use crate::chosen;
use crate::exit;
use crate::printed::{To, kept_in};
pub use args::Args;
#[cfg(feature = "bpf")]
use follow::follow;

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let root = Root::default();
    let idle = Idle::read(&root)?;
    let measured = match &args.result {
        Some(folder) => Some((
            folder.display().to_string(),
            MachineResult::description(folder, &idle)?.0,
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
    let followed = follow(&args, &idle)?;
    let cost = Cost::of(
        &followed.tallies,
        About {
            subject: reveille_watch::cost::Subject {
                tool: kept::tool(),
                started: kept::instant(started),
                command_line: kept::command_line(),
                workload: followed.workload,
                ended: followed.ended,
                machine: Identity::read(&root),
                driver: idle.driver.clone(),
                governor: idle.governor.clone(),
            },
            honours_requests: requests::honoured(&idle),
            interrupts: Interrupts::read(&root),
            measured,
        },
    );
    let kept = match &out {
        Some(out) => keep(out, &cost, followed.stacks.as_deref()),
        None => Ok(()),
    };
    // It is printed even if it could not be kept.
    let folder = out.as_ref().filter(|_| kept.is_ok());
    let mut sheet = show::sheet(&cost);
    if let Some(folder) = folder {
        kept_in(folder, &mut sheet);
    }
    // A command's standard output is its own.
    let to = match args.command.is_empty() {
        true => To::Output,
        false => To::Error,
    };
    let printed = args.printed.print(&cost, &sheet, to);
    kept?;
    exit::reader_may_leave(printed)?;
    if cost.wakeups == 0 && args.command.is_empty() && followed.ended != Ended::Interrupted {
        anyhow::bail!(
            "no wake-up was seen: {} ran without a pause, or not at all",
            cost.subject.workload
        );
    }
    Ok(followed.code)
}

#[cfg(not(feature = "bpf"))]
fn follow(_: &Args, _: &Idle) -> anyhow::Result<args::Followed> {
    let why = "following wake-ups needs BPF, and this program was built without it; build it with \
               clang and libbpf-dev";
    Err(reveille_kernel::Error::Cannot(why.into()).into())
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
