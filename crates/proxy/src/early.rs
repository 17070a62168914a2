//! Looks for servers on this machine, so that what is held for one goes early, while it runs for others.

use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use reveille_kernel::{Error, Result, Root, listeners};
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;

use crate::forward::Say;
use crate::hold::Stage;
#[cfg(feature = "bpf")]
use crate::server::{Program, Watch};
#[cfg(not(feature = "bpf"))]
use crate::without_bpf::{Program, Watch};
use reveille_stage::config::Upstream;

/// Between two looks whether the servers are still there.
const LOOK: Duration = Duration::from_secs(30);
/// Every so many looks all processes are gone through, whatever was found before.
const WHOLE: u32 = 20;

/// A queue, and the servers of its requests.
pub struct Queue {
    /// The queue.
    pub stage: Arc<Stage>,
    /// The servers.
    pub upstreams: Vec<Upstream>,
}

/// What is known of a queue's servers.
struct Known {
    stage: Arc<Stage>,
    tasks: Vec<u32>,
}

/// Once a server is found.
struct Loaded {
    watch: Arc<Watch>,
    bell: AsyncFd<OwnedFd>,
    _program: Program,
}

/// Looks at first, after each change of `queues`, and every now and then, and releases what may go early. `tasks` are those
/// of all servers, where they are known without looking. Never ends; dropping it removes what it loaded.
pub async fn follow(
    queues: impl Fn() -> Vec<Queue>,
    tasks: Option<Vec<u32>>,
    changed: &Notify,
    say: &Say,
) {
    let root = Root::default();
    let mut loaded = None;
    let mut known: Vec<Known> = Vec::new();
    let mut looks = 0_u32;
    loop {
        let queues = queues();
        let is_same = known.len() == queues.len()
            && known.iter().zip(&queues).all(|(known, queue)| {
                let is_there = |task: &u32| root.path(&format!("proc/{task}")).exists();
                Arc::ptr_eq(&known.stage, &queue.stage) && known.tasks.iter().all(is_there)
            });
        looks = if is_same { looks + 1 } else { 0 };
        // More and more rarely.
        if looks == 0 || looks.is_power_of_two() || looks.is_multiple_of(WHOLE) {
            let mut now = Vec::new();
            for queue in queues {
                let tasks = match &tasks {
                    Some(tasks) => tasks.clone(),
                    None => servers(queue.upstreams).await,
                };
                let stage = queue.stage;
                let before = known.iter().find(|one| Arc::ptr_eq(&one.stage, &stage));
                let before = before.map_or(&[][..], |before| &before.tasks);
                if tasks != before
                    && let Err(error) =
                        take(&stage, &tasks, before.is_empty(), &mut loaded, &root, say)
                {
                    say(format!("requests are not released early: {error}"));
                    drop((known, now));
                    return std::future::pending().await;
                }
                now.push(Known { stage, tasks });
            }
            known = now;
        }
        let mut next = std::pin::pin!(tokio::time::sleep(LOOK));
        loop {
            tokio::select! {
                () = changed.notified() => break,
                () = &mut next => break,
                () = rings(loaded.as_ref()) => known.iter().for_each(|one| one.stage.server_runs()),
            }
        }
    }
}

/// The processes that serve at these servers' addresses, but this one.
async fn servers(upstreams: Vec<Upstream>) -> Vec<u32> {
    let mut addresses: Vec<SocketAddr> = Vec::new();
    let mut paths = Vec::new();
    for upstream in upstreams {
        if let Some(path) = upstream.socket() {
            paths.push(path);
            continue;
        }
        let found = tokio::net::lookup_host(upstream.address()).await;
        // A name that is unknown now may be known later.
        addresses.extend(found.into_iter().flatten());
    }
    let found = tokio::task::spawn_blocking(move || {
        let root = Root::default();
        let of = |address: SocketAddr| listeners::of(&root, address);
        let mut all: Vec<u32> = addresses.into_iter().flat_map(of).collect();
        all.extend(
            paths
                .iter()
                .flat_map(|path| listeners::of_path(&root, path)),
        );
        all.sort_unstable();
        all.dedup();
        all.retain(|process| *process != std::process::id());
        all
    });
    found.await.unwrap_or_default()
}

/// Has the program follow these tasks for a queue, and says so if they are the first ones.
fn take(
    stage: &Stage,
    tasks: &[u32],
    is_new: bool,
    loaded: &mut Option<Loaded>,
    root: &Root,
    say: &Say,
) -> Result<()> {
    if loaded.is_none() {
        let (watch, program) = Watch::start()?;
        let bell = || {
            let descriptor = watch.as_fd().try_clone_to_owned()?;
            // SAFETY: an OwnedFd is one descriptor as long as it lives.
            Ok::<_, std::io::Error>(unsafe { AsyncFd::register(descriptor) }?)
        };
        *loaded = Some(Loaded {
            bell: bell().map_err(|error| Error::Cannot(format!("no descriptor: {error}")))?,
            watch,
            _program: program,
        });
    }
    let watch = &loaded.as_ref().expect("it was loaded above").watch;
    if !stage.follows(watch, tasks)? || !is_new {
        return Ok(());
    }
    let names = tasks.iter().map(|task| {
        let name = root.line(&format!("proc/{task}/comm"));
        format!(
            "{} ({task})",
            name.unwrap_or_default().replace(char::is_control, " ")
        )
    });
    let names: Vec<String> = names.take(3).collect();
    let more = match tasks.len() - names.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    if !tasks.is_empty() {
        say(format!(
            "requests are released early while {}{more} runs for others",
            names.join(", ")
        ));
    }
    Ok(())
}

async fn rings(loaded: Option<&Loaded>) {
    let Some(loaded) = loaded else {
        return std::future::pending().await;
    };
    match loaded.bell.readable().await {
        Ok(mut ready) => ready.clear_ready(),
        Err(_) => return std::future::pending().await,
    }
    loaded.watch.silence();
}
