//! `reveille cost`: follows a workload's wake-ups, and shows what waiting for sleeping CPUs costs it.

mod args;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use reveille_advise::MachineResult;
use reveille_kernel::workload::Subject;
use reveille_kernel::{Idle, Root};
use reveille_results::kept;
use reveille_results::output::{Existing, Folder};
use reveille_show::progress::Bar;
use reveille_watch::cost::{
    self, DEFAULT_DURATION, End, Ended, FILE, Followed, Measured, Options, Present, show,
};

use crate::command::Child;
use crate::output_format::To;
use crate::{exit, flags, signals};
pub use args::Args;

/// The folded stacks, beside cost.json.
const STACKS: &str = "stacks.folded";

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let root = Root::default();
    let measured = match &args.result {
        Some(folder) => {
            let description = MachineResult::description(folder, &Idle::read(&root)?)
                .map_err(flags::unfit)?
                .0;
            Some((folder.display().to_string(), description))
        }
        None => None,
    };
    let files = match args.stacks {
        true => &[FILE, STACKS][..],
        false => &[FILE],
    };
    let out = flags::output_folder(args.out.as_deref(), files)?;
    let (followed, code) = match args.command.is_empty() {
        true => present(&args, &root, measured)?,
        false => command(&args, &root, measured)?,
    };
    if followed.unopened_files > 0 {
        exit::say(show::unopened(followed.unopened_files));
    }
    let kept = out.map(|out| keep(&out, &followed));
    let cost = followed.cost;
    // A command's standard output is its own.
    let to = match args.command.is_empty() {
        true => To::Output,
        false => To::Error,
    };
    args.printed
        .print_kept(&cost, show::sheet(&cost), kept.transpose(), to)?;
    if cost.wakeups == 0 && args.command.is_empty() && cost.subject.ended != Ended::Interrupted {
        anyhow::bail!("{}", show::nothing(&cost));
    }
    Ok(code)
}

/// Follows a command until it ends, or its time is up; its exit code.
fn command(args: &Args, root: &Root, measured: Measured) -> anyhow::Result<(Followed, ExitCode)> {
    let mut child = Child::prepare(&args.command, &args.user.run_as()?)?;
    let subject = Subject::of_command(&args.command, child.pid());
    let options = Options {
        subject: &subject,
        duration: args.duration,
        stacks: args.stacks,
        measured,
    };
    let followed = cost::run(root, options, &mut child, None)?;
    Ok((followed, child.wait()?))
}

/// Follows what runs already.
fn present(args: &Args, root: &Root, measured: Measured) -> anyhow::Result<(Followed, ExitCode)> {
    let subject = &match (args.pid, &args.cgroup) {
        (Some(pid), _) => Subject::of_process(root, pid)?,
        (None, Some(cgroup)) => Subject::of_cgroup(root, cgroup)?,
        (None, None) => Subject::all(),
    };
    let stop = &*signals::stop()?;
    let mut end = Present {
        root,
        subject,
        stop,
    };
    let options = Options {
        subject,
        duration: args.duration.or(Some(DEFAULT_DURATION)),
        stacks: args.stacks,
        measured,
    };
    let followed = cost::run(root, options, &mut end, Some(&Bar::new()))?;
    let code = match followed.cost.subject.ended {
        Ended::Interrupted => ExitCode::from(exit::INTERRUPTED),
        Ended::Completed | Ended::WorkloadEnded => ExitCode::SUCCESS,
    };
    Ok((followed, code))
}

fn keep(out: &Folder, followed: &Followed) -> reveille_results::Result<PathBuf> {
    if let Some(stacks) = &followed.stacks {
        out.write(STACKS, Existing::Stays, stacks.as_bytes())?;
    }
    kept::write_pretty(&followed.cost, FILE, out)
}

impl End for Child {
    fn start(&mut self) -> reveille_kernel::Result<()> {
        Child::start(self)
    }

    fn wait(&mut self, at_most: Option<Duration>) -> reveille_kernel::Result<Option<Ended>> {
        let status = match at_most {
            Some(time) => {
                std::thread::sleep(time);
                self.try_wait()?
            }
            None => Some(self.wait_status()?),
        };
        Ok(status.map(|_| Ended::WorkloadEnded))
    }
}
