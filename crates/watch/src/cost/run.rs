//! Follows a workload until it ends, its time is up, or a signal comes.

use std::time::SystemTime;

use reveille_kernel::interrupts::Interrupts;
use reveille_kernel::{Identity, Idle, Root};
use reveille_results::kept::Header;
use reveille_show::progress::Bar;

use super::conclude::About;
use super::follower::Follower;
use super::options::{End, Followed, LOOK, Options};
use super::result::{Cost, Ended, Subject};
use super::stacks::{Maps, fold};
use crate::Result;

/// Follows the workload until `end` says so, or the time is up.
///
/// # Errors
/// [`crate::Error::Cannot`] if BTF, a tracepoint or the right to load BPF programs is missing.
pub fn run(
    root: &Root,
    options: Options<'_>,
    end: &mut impl End,
    bar: Option<&Bar>,
) -> Result<Followed> {
    let idle = Idle::read(root)?;
    let started = SystemTime::now();
    let follower = Follower::start(&idle, &options.subject.workload, options.stacks)?;
    end.start()?;
    let mut maps = Maps::default();
    let ended = loop {
        let left = options.duration.map(|all| {
            let left = all.saturating_sub(follower.elapsed());
            let done = 1.0 - left.as_secs_f64() / all.as_secs_f64();
            if let Some(bar) = bar {
                bar.show("following", done, Some(left), &options.subject.name);
                bar.announce(left);
            }
            left
        });
        if options.stacks {
            // Wakers' memory, while they live.
            maps.look(root, &follower.stack_processes()?);
        }
        if left.is_some_and(|left| left.is_zero()) {
            break Ended::Completed;
        }
        // Where nothing is to be looked at meanwhile, this program sleeps until the end.
        let looks = left.is_some() || options.stacks;
        let at_most = looks.then(|| left.map_or(LOOK, |left| left.min(LOOK)));
        if let Some(ended) = end.wait(at_most)? {
            break ended;
        }
    };
    let tallies = follower.finish()?;
    let stacks = match options.stacks {
        true => Some(stacks(root, &follower, &mut maps)?),
        false => None,
    };
    let header = Header::of(started, Identity::read(root), &idle);
    let about = About {
        subject: Subject {
            tool: header.tool,
            started: header.started,
            command_line: header.command_line,
            workload: options.subject.name.clone(),
            ended,
            machine: header.machine,
            driver: header.driver,
            governor: header.governor,
        },
        interrupts: Interrupts::read(root),
        measured: options.measured,
    };
    Ok(Followed {
        cost: Cost::of(&tallies, about),
        stacks,
        unopened_files: maps.unopened(),
    })
}

/// The folded stacks.
fn stacks(root: &Root, follower: &Follower, maps: &mut Maps) -> Result<String> {
    maps.look(root, &follower.stack_processes()?);
    Ok(fold(&follower.stacks()?, maps))
}
