//! A workload is followed until it ends, its time is up, or a signal comes.

use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::Duration;

use reveille_kernel::{Idle, Root};
use reveille_show::progress::Bar;
use reveille_watch::cost::{Ended, Follower, Maps, fold};

use super::args::{Args, Followed};
use super::subject::Subject;
use crate::command::{self, Child};
use crate::{exit, signals};

const DEFAULT: Duration = Duration::from_secs(30);

/// How often it is looked whether the end has come: the program's own wake-ups.
const LOOK: Duration = Duration::from_millis(250);

pub fn follow(args: &Args, idle: &Idle) -> anyhow::Result<Followed> {
    match args.command.is_empty() {
        false => follow_command(args, idle),
        true => follow_subject(args, idle),
    }
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
        code: ExitCode::from(command::code(status)),
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
