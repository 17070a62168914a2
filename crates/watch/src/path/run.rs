//! Follows packets until the time is up, their count is reached, or a signal comes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use reveille_kernel::network::{self, Interface};
use reveille_kernel::{Identity, Idle, Root};
use reveille_results::kept::Header;
use reveille_show::progress::Bar;

use super::follower::Follower;
use super::summary::{Gathered, Path, SCHEMA_VERSION, Subject};
use super::{Follow, Options, delays};
use crate::Result;

/// How often packets are taken in: the program's own wake-ups.
const LOOK: Duration = Duration::from_millis(250);

/// Follows packets until the time or the count is reached, or `stop` is set.
///
/// # Errors
/// [`crate::Error::Cannot`] if BTF, a tracepoint or the right to load BPF programs is missing.
pub fn run(root: &Root, options: &Options<'_>, stop: &AtomicBool, bar: &Bar) -> Result<Path> {
    let idle = Idle::read(root)?;
    let setup = &options.setup;
    let started = SystemTime::now();
    let follower = Follower::start(&idle, setup)?;
    let begun = Instant::now();
    let mut gathered = Gathered::default();
    loop {
        let left = options.duration.saturating_sub(begun.elapsed());
        std::thread::sleep(left.min(LOOK));
        follower.take_in(|packet| {
            if gathered.packets < options.count {
                gathered.add(&idle, &packet);
            }
        })?;
        show_progress(bar, options, &gathered, begun.elapsed());
        let over = begun.elapsed() >= options.duration || gathered.packets >= options.count;
        if over || stop.load(Ordering::Relaxed) {
            break;
        }
    }
    let elapsed_s = begun.elapsed().as_secs_f64();
    let (counts, cost) = (follower.counts(), follower.cost());
    let readers = gathered.readers();
    let delays = interfaces(root, setup.interface, &gathered)
        .iter()
        .flat_map(|one| {
            let settings = delays::DriverSettings::of(&one.name);
            delays::delays(root, one, &settings, readers.as_ref())
        })
        .collect();
    let header = Header::of(started, Identity::read(root), &idle);
    let mut path = Path {
        schema_version: SCHEMA_VERSION,
        tool: header.tool,
        subject: Subject {
            follow: setup.follow,
            interface: setup.interface.map(|interface| interface.name.clone()),
            port: setup.port,
            started: header.started,
            machine: header.machine,
            driver: header.driver,
            governor: header.governor,
        },
        elapsed_s,
        interrupted: stop.load(Ordering::Relaxed),
        counts,
        cost,
        groups: gathered.groups(),
        readers,
        delays,
    };
    if let Some(measured) = options.measured {
        path.estimate(measured);
    }
    Ok(path)
}

/// The interface that was asked for, or those at which packets came.
fn interfaces(root: &Root, asked: Option<&Interface>, gathered: &Gathered) -> Vec<Interface> {
    if let Some(asked) = asked {
        return vec![asked.clone()];
    }
    network::names(root)
        .iter()
        .filter_map(|name| Interface::read(root, name))
        .filter(|interface| gathered.interfaces.contains(&interface.index) && interface.is_here())
        .collect()
}

/// By the time or by the count, whichever is nearer to its end.
fn show_progress(bar: &Bar, options: &Options<'_>, gathered: &Gathered, elapsed: Duration) {
    let by_time = elapsed.as_secs_f64() / options.duration.as_secs_f64();
    let by_count = gathered.packets as f64 / options.count as f64;
    let done = by_time.max(by_count).min(1.0);
    let what = match options.setup.follow {
        Follow::Ping => "pings",
        Follow::Socket => "packets",
    };
    let groups = gathered.by_group();
    let groups: Vec<String> = groups
        .iter()
        .map(|(name, count)| format!("{name} {count}"))
        .collect();
    let detail = match groups.is_empty() {
        true => "none yet".to_owned(),
        false => groups.join("  "),
    };
    // The bar has counted since before the programs were loaded.
    let most = options.duration.saturating_sub(elapsed);
    let left = bar.estimate(done).map(|left| left.min(most));
    bar.show(what, done, left, &detail);
    bar.announce_estimate(left);
}
