//! Packets are followed until the time is up, their count is reached, or a signal comes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use reveille_kernel::network::{self, Interface};
use reveille_kernel::{Identity, Idle, Root};
use reveille_results::kept;
use reveille_show::progress::Bar;
use reveille_watch::path::{
    Follow, Follower, Gathered, Path, SCHEMA_VERSION, Setup, Subject, delays,
};

use super::args::{Args, is_here};

/// How often packets are taken in: the program's own wake-ups.
const LOOK: Duration = Duration::from_millis(250);

/// Follows packets until the time, the count or a signal says so.
pub fn follow(
    args: &Args,
    root: &Root,
    interface: Option<&Interface>,
    interrupted: &AtomicBool,
) -> anyhow::Result<Path> {
    let idle = Idle::read(root)?;
    let setup = Setup {
        follow: match args.ping {
            true => Follow::Ping,
            false => Follow::Socket,
        },
        interface,
        port: args.port,
    };
    let started = SystemTime::now();
    let follower = Follower::start(&idle, &setup)?;
    let begun = Instant::now();
    let mut gathered = Gathered::default();
    let bar = Bar::new();
    loop {
        let left = args.duration.saturating_sub(begun.elapsed());
        std::thread::sleep(left.min(LOOK));
        follower.take_in(|packet| {
            if gathered.packets < args.count {
                gathered.add(&idle, &packet);
            }
        })?;
        show_progress(&bar, args, &gathered, begun.elapsed());
        let over = begun.elapsed() >= args.duration || gathered.packets >= args.count;
        if over || interrupted.load(Ordering::Relaxed) {
            break;
        }
    }
    bar.clear();
    let elapsed_s = begun.elapsed().as_secs_f64();
    let (counts, cost) = (follower.counts(), follower.cost());
    let readers = gathered.readers();
    let delays = there(root, interface, &gathered)
        .iter()
        .flat_map(|one| {
            let settings = delays::DriverSettings::of(&one.name);
            delays::delays(root, one, &settings, readers.as_ref())
        })
        .collect();
    Ok(Path {
        schema_version: SCHEMA_VERSION,
        tool: kept::tool(),
        subject: Subject {
            follow: setup.follow,
            interface: args.nic.clone(),
            port: args.port,
            started: kept::instant(started),
            machine: Identity::read(root),
            driver: idle.driver.clone(),
            governor: idle.governor.clone(),
        },
        elapsed_s,
        interrupted: interrupted.load(Ordering::Relaxed),
        counts,
        cost,
        groups: gathered.groups(),
        readers,
        delays,
    })
}

/// The interface that was asked for, or those at which packets came.
fn there(root: &Root, asked: Option<&Interface>, gathered: &Gathered) -> Vec<Interface> {
    if let Some(asked) = asked {
        return vec![asked.clone()];
    }
    network::names(root)
        .iter()
        .filter_map(|name| Interface::read(root, name))
        .filter(|interface| gathered.interfaces.contains(&interface.index) && is_here(interface))
        .collect()
}

/// By the time or by the count, whichever is nearer to its end.
fn show_progress(bar: &Bar, args: &Args, gathered: &Gathered, elapsed: Duration) {
    let by_time = elapsed.as_secs_f64() / args.duration.as_secs_f64();
    let by_count = gathered.packets as f64 / args.count as f64;
    let done = by_time.max(by_count).min(1.0);
    let what = match args.ping {
        true => "pings",
        false => "packets",
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
    bar.show(what, done, bar.estimate(done), &detail);
}
