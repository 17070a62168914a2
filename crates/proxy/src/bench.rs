//! The proxy against itself: the same load as it comes, released on a grid, and staged.
//!
//! The load is open: requests come at instants that are drawn before (Poisson), whether or not earlier ones are answered,
//! and a latency counts from that instant. So a slow server cannot slow the load down and hide what it costs.

mod bind;
mod load;
mod server;

use std::fs::File;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hyper::Uri;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use reveille_kernel::asleep::{Cpus, Readings};
use reveille_kernel::{Error, Idle, Result, Root, affinity, load as machine_load};
use reveille_meter::Steady;
use reveille_results::statistics::Percentile;
use reveille_stage::bench::{Setting, Turn};
use reveille_stage::config::{Config, Service, Upstream};
use reveille_stage::counts::Served;
use tokio::sync::mpsc::unbounded_channel;

use self::bind::bind;
use self::load::Load;
use self::server::Server;
use crate::serve::{self, Event};

/// The load before what counts, in which the guard learns.
const WARM_UP: Duration = Duration::from_secs(2);
/// CPU time of other programs, in CPUs, from which on a turn is not kept.
const OTHERS_MAX: f64 = 0.25;
/// Tries of a turn, of which none may be kept for that.
const TRIES: u32 = 5;

/// What is measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// The server; `None`: one of this program's own, which computes for `work`.
    pub upstream: Option<Upstream>,
    /// What the own server computes for each request.
    pub work: Duration,
    /// The own server is asked in HTTP/2, by one connection.
    pub http2: bool,
    /// The own server is asked by its Unix socket.
    pub unix: bool,
    /// The CPUs of the server: where the own one runs, and whose sleep is watched.
    pub server_cpus: Vec<u32>,
    /// What takes turns.
    pub settings: Vec<Setting>,
    /// Requests a second.
    pub rate: f64,
    /// What the rate is multiplied by from the middle of each turn on.
    pub surge: Option<f64>,
    /// Requests a second that others send to the server, past the proxy, in every setting.
    pub beside: Option<f64>,
    /// Each request's deadline.
    pub deadline: Duration,
    /// The share that must keep to it.
    pub percentile: Percentile,
    /// The grid's step.
    pub grid: Duration,
    /// Turns of each setting.
    pub rounds: u32,
    /// What counts of each turn.
    pub turn: Duration,
    /// Of the order of turns and of the load.
    pub seed: u64,
}

/// How far it is.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// From 0.
    pub round: u32,
    /// The setting of the next turn.
    pub setting: Setting,
    /// 0 to 1.
    pub done: f64,
    /// The time left, without turns that are tried again.
    pub left: Duration,
}

/// What a run has gathered.
pub struct Gathered {
    /// Whole rounds.
    pub turns: Vec<Turn>,
    /// Turns that were not kept, as other programs took CPU time.
    pub disturbed: u32,
    /// Did `stop` end it?
    pub interrupted: bool,
}

/// Runs all rounds, or the whole ones before `stop`.
///
/// # Errors
/// The server does not answer; CPUs are missing; other programs take CPU time in every try.
pub fn run(
    options: &Options,
    mut meter: Option<Steady<'_>>,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Gathered> {
    let root = Root::default();
    let idle = Idle::read(&root)?;
    let watch = Watch::new(&root, &idle, &options.server_cpus);
    let asked = Asked::of(options, &watch)?;
    let others: Vec<u32> = affinity::allowed()
        .into_iter()
        .filter(|cpu| !options.server_cpus.contains(cpu))
        .collect();
    let mut random = fastrand::Rng::with_seed(options.seed);
    let mut gathered = Gathered {
        turns: Vec::new(),
        disturbed: 0,
        interrupted: false,
    };
    let all = options.rounds as usize * options.settings.len();
    let mut kept = 0;
    for round in 0..options.rounds {
        let mut order = options.settings.clone();
        random.shuffle(&mut order);
        let before = gathered.turns.len();
        for setting in order {
            let mut tries = 0;
            loop {
                tries += 1;
                progress(&Progress {
                    round,
                    setting,
                    done: kept as f64 / all as f64,
                    left: (options.turn + WARM_UP) * (all - kept) as u32,
                });
                let one = turn(
                    options,
                    setting,
                    &asked,
                    &others,
                    &watch,
                    meter.as_mut(),
                    random.u64(..),
                    stop,
                )?;
                if stop.load(Ordering::Relaxed) {
                    gathered.turns.truncate(before);
                    gathered.interrupted = true;
                    return Ok(gathered);
                }
                match one {
                    Some(one) => {
                        gathered.turns.push(Turn { round, ..one });
                        break;
                    }
                    None => {
                        gathered.disturbed += 1;
                        if tries < TRIES {
                            continue;
                        }
                        gathered.turns.truncate(before);
                        if gathered.turns.is_empty() {
                            return Err(Error::Disturbed(other_load()));
                        }
                        return Ok(gathered);
                    }
                }
            }
            kept += 1;
        }
    }
    Ok(gathered)
}

/// Why a run ends early.
pub fn other_load() -> String {
    format!(
        "other load took more than {:.0}% of a CPU in each of {TRIES} tries; end it, or measure when the machine is idle",
        100.0 * OTHERS_MAX
    )
}

/// Who answers.
struct Asked {
    upstream: Upstream,
    /// Where requests go past the proxy.
    past: Uri,
    /// This program's own.
    server: Option<Server>,
}

impl Asked {
    fn of(options: &Options, watch: &Watch) -> Result<Self> {
        if let Some(upstream) = &options.upstream {
            if options.beside.is_some() && upstream.socket().is_some() {
                let why = "requests beside the proxy's need a server in the network";
                return Err(Error::Usage(format!("--beside: {why}")));
            }
            return Ok(Self {
                upstream: upstream.clone(),
                past: upstream.uri.clone(),
                server: None,
            });
        }
        let open = |file: &String| File::open(watch.root.path(file)).ok();
        let entries = watch.entries.iter().map(open).collect();
        let cpu = options.server_cpus[0];
        let server = Server::start(cpu, options.unix, entries, options.work)?;
        let address = server.address();
        let past = format!("http://{address}/").parse();
        Ok(Self {
            upstream: server.url(options.http2).parse().map_err(Error::Usage)?,
            past: past.map_err(|_| Error::Failed(format!("no URI: {address}")))?,
            server: Some(server),
        })
    }
}

/// One turn; `None` if other programs took CPU time.
#[expect(clippy::too_many_arguments, reason = "a turn has as many parts")]
fn turn(
    options: &Options,
    setting: Setting,
    asked: &Asked,
    cpus: &[u32],
    watch: &Watch,
    mut meter: Option<&mut Steady<'_>>,
    seed: u64,
    stop: &AtomicBool,
) -> Result<Option<Turn>> {
    let proxy = Proxy::start(options, setting, asked, cpus)?;
    let load = Load {
        beside: options.beside.map(|rate| (asked.past.clone(), rate)),
        to: proxy.address,
        rate: if setting == Setting::NoLoad {
            0.0
        } else {
            options.rate
        },
        surge: options.surge.unwrap_or(1.0),
        warm_up: WARM_UP,
        time: options.turn,
        seed,
    };
    let (mut readings, mut between) = (Vec::new(), None);
    let (latencies, power_w) = std::thread::scope(|scope| {
        let mut measures = None;
        let latencies = load.run(cpus, stop, &mut || {
            readings.push(watch.read());
            // The first time it begins anew.
            between = asked.server.as_ref().and_then(Server::wakes_between_per_s);
            // Once, on the load's CPUs, as threads inherit them.
            if let Some(meter) = meter.take() {
                measures = Some(scope.spawn(|| meter.mean_w(options.turn, stop)));
            }
        })?;
        let power_w = measures.map(|one| one.join().expect("it does not panic"));
        Ok::<_, Error>((latencies, power_w))
    })?;
    let (power_w, why_no_power) = match power_w {
        Some(Ok(watts)) => (watts, None),
        // The rest of the turn is as good without.
        Some(Err(why)) => (None, Some(why.to_string())),
        None => (None, None),
    };
    let served = proxy.end()?;
    if stop.load(Ordering::Relaxed) {
        return Ok(None);
    }
    let [before, after] = &readings[..] else {
        return Err(Error::Failed("a turn was not read".into()));
    };
    let seen = watch.between(before, after);
    if seen.others.is_some_and(|others| others > OTHERS_MAX) {
        return Ok(None);
    }
    let wakes_per_s = seen.wakes.map(|wakes| wakes as f64 / seen.elapsed_s);
    Ok(Some(Turn {
        round: 0,
        setting,
        elapsed_s: seen.elapsed_s,
        requests: latencies.all_ns.len() as u64 + latencies.failed,
        failed: latencies.failed,
        latencies_ns: latencies.all_ns,
        missed: served.counts.missed,
        late: served.counts.late,
        bursts: served.counts.bursts,
        early: served.counts.early,
        wakes_per_s,
        wakes_between_per_s: match setting {
            Setting::NoLoad if options.beside.is_none() && asked.server.is_some() => wakes_per_s,
            _ => between,
        },
        slept_percent: seen.slept_percent,
        joint_percent: seen.joint_percent,
        power_w,
        why_no_power,
    }))
}

/// The proxy of a turn, in a thread of this process.
struct Proxy {
    address: SocketAddr,
    events: tokio::sync::mpsc::UnboundedSender<Event>,
    thread: std::thread::JoinHandle<Result<Vec<Served>>>,
}

impl Proxy {
    fn start(options: &Options, setting: Setting, asked: &Asked, cpus: &[u32]) -> Result<Self> {
        let service = Service {
            name: "bench".into(),
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            upstreams: vec![asked.upstream.clone()],
            deadline: options.deadline,
            percentile: options.percentile,
            exempt: Vec::new(),
            grid: (setting == Setting::Grid).then_some(options.grid),
            direct: matches!(setting, Setting::Direct | Setting::NoLoad),
            hints: None,
            hint_key: None,
            tls: None,
        };
        let config = Config {
            services: vec![service],
        };
        let (events, received) = unbounded_channel();
        let (ready, is_ready) = std::sync::mpsc::channel();
        let cpus = cpus.to_vec();
        let tasks = asked.server.as_ref().map(|server| vec![server.task()]);
        let thread = std::thread::spawn(move || {
            bind(&cpus)?;
            // A server that does not answer is in the counts.
            let say = Arc::new(|_: String| {});
            serve::run(config, None, tasks, received, say, move |now| {
                let _ = ready.send(now.addresses[0]);
            })
        });
        match is_ready.recv() {
            Ok(address) => Ok(Self {
                address,
                events,
                thread,
            }),
            Err(_) => match thread.join() {
                Ok(Err(error)) => Err(error),
                _ => Err(Error::Failed("the proxy did not start".into())),
            },
        }
    }

    fn end(self) -> Result<Served> {
        let _ = self.events.send(Event::Stop);
        let served = self.thread.join();
        let served = served.map_err(|_| Error::Failed("the proxy failed".into()))??;
        served
            .into_iter()
            .next()
            .ok_or_else(|| Error::Failed("the proxy has no account".into()))
    }
}

/// The server's CPUs, and all.
struct Watch {
    root: Root,
    /// Files with the entries to the idle states in which the server's CPUs sleep.
    entries: Vec<String>,
    server: Vec<u32>,
    cpus: Cpus,
}

struct Reading {
    slept: Readings,
    entries: Option<u64>,
    idle_s: Option<f64>,
    own_s: f64,
}

struct Seen {
    elapsed_s: f64,
    wakes: Option<u64>,
    slept_percent: Option<f64>,
    joint_percent: Option<(f64, f64)>,
    others: Option<f64>,
}

impl Watch {
    fn new(root: &Root, idle: &Idle, server: &[u32]) -> Self {
        let entries = idle
            .cpus
            .iter()
            .filter(|cpu| server.contains(&cpu.number))
            .flat_map(|cpu| {
                let sleeps = cpu
                    .states
                    .iter()
                    .filter(|state| !reveille_kernel::polls(&state.name));
                let number = cpu.number;
                sleeps.map(move |state| {
                    format!(
                        "sys/devices/system/cpu/cpu{number}/cpuidle/state{}/usage",
                        state.index
                    )
                })
            });
        Self {
            root: root.clone(),
            entries: entries.collect(),
            server: server.to_vec(),
            cpus: Cpus::online(root, idle),
        }
    }

    fn read(&self) -> Reading {
        let slept = self.cpus.read();
        let entries: Option<u64> = self.entries.iter().map(|file| self.root.number(file)).sum();
        let idle = machine_load::idle_ticks(&self.root);
        // /proc/stat's ticks are of 10 ms.
        let idle_s = idle.map(|ticks| {
            let cpus = self.cpus.numbers().iter();
            cpus.filter_map(|cpu| ticks.get(cpu)).sum::<u64>() as f64 / 100.0
        });
        let own = getrusage(UsageWho::RUSAGE_SELF);
        let own_s = own.map_or(0.0, |usage| {
            (usage.user_time().num_microseconds() + usage.system_time().num_microseconds()) as f64
                / 1e6
        });
        Reading {
            slept,
            entries: entries.filter(|_| !self.entries.is_empty()),
            idle_s,
            own_s,
        }
    }

    fn between(&self, before: &Reading, after: &Reading) -> Seen {
        let elapsed_s = after.slept.elapsed_s(&before.slept);
        let each = self
            .cpus
            .numbers()
            .iter()
            .zip(after.slept.shares(&before.slept));
        let server = each.filter(|(cpu, _)| self.server.contains(cpu));
        let server: Option<Vec<f64>> = server.map(|(_, share)| share).collect();
        let server = server.filter(|shares| !shares.is_empty());
        let busy = before
            .idle_s
            .zip(after.idle_s)
            .map(|(before, after)| self.cpus.numbers().len() as f64 - (after - before) / elapsed_s);
        Seen {
            elapsed_s,
            wakes: before
                .entries
                .zip(after.entries)
                .and_then(|(before, after)| after.checked_sub(before)),
            slept_percent: server.map(|all| 100.0 * all.iter().sum::<f64>() / all.len() as f64),
            joint_percent: after.slept.together_percent(&before.slept),
            others: busy.map(|busy| busy - (after.own_s - before.own_s) / elapsed_s),
        }
    }
}

#[cfg(test)]
mod measuring {
    use reveille_alone::{Part, Use, take};

    use super::*;

    /// One after the other: they take both CPUs of a small machine.
    #[test]
    fn each_setting_has_a_turn_in_each_round() {
        let _alone = take(&[Use::Beside(Part::IdleStates), Use::Alone(Part::Cpus)]);
        each_setting_has_a_turn(false);
        each_setting_has_a_turn(true);
    }

    /// On a machine with one CPU it cannot run.
    fn each_setting_has_a_turn(unix: bool) {
        let cpus = affinity::allowed();
        if cpus.len() < 2 {
            return println!("skipped: the turns of stage bench: one CPU");
        }
        let options = Options {
            upstream: None,
            work: Duration::from_millis(1),
            http2: false,
            unix,
            server_cpus: vec![cpus[cpus.len() - 1]],
            settings: Setting::ALL.to_vec(),
            rate: 100.0,
            surge: Some(3.0),
            beside: None,
            deadline: Duration::from_millis(300),
            percentile: Percentile::P99_9,
            grid: Duration::from_millis(100),
            rounds: 1,
            turn: Duration::from_secs(1),
            seed: 1,
        };
        let mut steps = 0;
        let gathered = run(&options, None, &AtomicBool::new(false), &mut |_| steps += 1);
        let gathered = match gathered {
            // Others than tests run beside it.
            Err(Error::Disturbed(why)) => {
                return println!("skipped: the turns of stage bench: {why}");
            }
            gathered => gathered.unwrap(),
        };
        let mut settings: Vec<&str> = gathered
            .turns
            .iter()
            .map(|turn| turn.setting.name())
            .collect();
        settings.sort_unstable();
        assert_eq!(settings, ["direct", "grid", "no load", "staged"]);
        for turn in &gathered.turns {
            let has_load = turn.setting != Setting::NoLoad;
            assert_eq!((turn.failed, turn.requests > 50), (0, has_load), "{turn:?}");
            let has_bursts = matches!(turn.setting, Setting::Grid | Setting::Staged);
            assert_eq!(turn.bursts > 0, has_bursts, "{turn:?}");
        }
        assert!(steps >= 4);
    }
}
