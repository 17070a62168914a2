//! Three ways to keep a CPU from deep idle states while packets come, against each other, beside "as is" and
//! the bound held all the time (`ways.bpf.c` has the ways):
//!
//! ```text
//! cargo bench --package reveille-govern --bench ways -- bound=0 rounds=10 cpu=1 client=0 awake=1
//! ```
//!
//! A client on one CPU sends bursts of UDP requests over loopback to a server on another, which takes the
//! packets, too (RPS, in a network namespace of the benchmark's own). Rounds have every setting once, in an
//! order drawn anew.

#[path = "ways/load.rs"]
mod load;
#[path = "ways/namespace.rs"]
mod namespace;
#[path = "ways/programs.rs"]
mod programs;
#[path = "ways/table.rs"]
mod table;
#[path = "ways/turn.rs"]
mod turn;

use std::path::Path;
use std::time::{Duration, Instant};

use reveille_figures::random::Random;
use reveille_kernel::journal::{FOLDER, LiveBound, recover};
use reveille_kernel::{Error, Idle, Journal, Result, Root, affinity, load as machine};

use load::Client;
use programs::Programs;
use turn::{Setting, Turn};

/// What is run; each has its word on the command line.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// The CPU that takes packets and answers.
    pub cpu: u32,
    /// The CPU that asks.
    pub client: u32,
    /// The bound, µs; 0: no sleep.
    pub bound_us: u32,
    /// How often each setting is run.
    pub rounds: u32,
    /// The client's CPU does not sleep, so its waking is not in the round trips.
    pub awake: bool,
    /// So long, s, the run waits for moments at which other programs leave both CPUs alone, and repeats
    /// turns that they disturbed; then it ends. 0: it takes all turns.
    pub patience: u32,
    /// B's timer, µs; 0: three quarters of the shortest target residency that the bound forbids.
    pub period_us: u64,
}

impl Plan {
    fn of(words: impl Iterator<Item = String>) -> Result<Self> {
        let mut plan = Self {
            cpu: 1,
            client: 0,
            bound_us: 0,
            rounds: 10,
            awake: true,
            patience: 120,
            period_us: 0,
        };
        for word in words.filter(|word| !word.starts_with('-')) {
            let usage = || Error::Usage(format!("{word}: not a word such as rounds=10"));
            let (name, value) = word.split_once('=').ok_or_else(usage)?;
            let value: u32 = value.parse().map_err(|_| usage())?;
            match name {
                "cpu" => plan.cpu = value,
                "client" => plan.client = value,
                "bound" => plan.bound_us = value,
                "rounds" => plan.rounds = value,
                "patience" => plan.patience = value,
                "awake" => plan.awake = value != 0,
                "period" => plan.period_us = value.into(),
                _ => return Err(usage()),
            }
        }
        Ok(plan)
    }
}

fn main() {
    if let Err(error) = run() {
        println!("skipped: ways: {error}");
        std::process::exit(error.exit_code().into());
    }
}

fn run() -> Result<()> {
    let plan = Plan::of(std::env::args().skip(1))?;
    let root = Root::default();
    let idle = Idle::read(&root)?;
    // Before there are threads: they would stay in the old namespace.
    namespace::enter(plan.cpu)?;
    // What a run that was killed has left.
    recover(&root, Path::new(FOLDER))?;
    let mut journal = Journal::new(&root, Path::new(FOLDER));
    let mut bounds = journal.live_bounds(&[plan.cpu, plan.client])?.into_iter();
    let (Some(bound), Some(clients)) = (bounds.next(), bounds.next()) else {
        return Err(Error::Usage("cpu and client: not the same CPU".into()));
    };
    let programs = Programs::start(&plan, &idle, &mut journal)?;
    affinity::bind(&[plan.client]).map_err(Error::system("sched_setaffinity"))?;
    let mut client = Client::start(plan.cpu)?;
    if plan.awake {
        clients.set(Some(0))?;
    }
    println!("{}", table::heading(&plan, &idle, &programs));
    let results = rounds(&plan, &programs, &bound, &mut client)?;
    clients.set(None)?;
    print!("{}", table::table(&programs, &results));
    if let Some(load) = machine::of_last_minute(&root) {
        println!("\nload of the last minute: {load:.2}");
    }
    Ok(())
}

/// Each setting's turns.
fn rounds(
    plan: &Plan,
    programs: &Programs,
    bound: &LiveBound,
    client: &mut Client,
) -> Result<Vec<(Setting, Vec<Turn>)>> {
    let mut random = Random(reveille_kernel::now_ns());
    let runs = |setting: &Setting| *setting != Setting::Work || programs.has_work;
    let mut results: Vec<(Setting, Vec<Turn>)> = Setting::ALL
        .into_iter()
        .filter(runs)
        .map(|setting| (setting, Vec::new()))
        .collect();
    let ends = Instant::now() + Duration::from_secs(plan.patience.into());
    let is_over = || plan.patience > 0 && Instant::now() >= ends;
    let mut nth = 0;
    for _ in 0..plan.rounds {
        let mut order: Vec<usize> = (0..results.len()).collect();
        order.sort_by_cached_key(|_| (random.uniform() * 1e9) as u64);
        for index in order {
            let (setting, turns) = &mut results[index];
            loop {
                while plan.patience > 0 && !is_over() && turn::is_disturbed(plan) {}
                if is_over() {
                    return Ok(results);
                }
                nth += 1;
                let turn = turn::turn(*setting, nth, plan, programs, bound, client);
                match turn {
                    // Another program's bound, which may be gone soon.
                    Err(Error::Disturbed(_)) if plan.patience > 0 => {
                        bound.set(None)?;
                    }
                    turn => {
                        let turn = turn?;
                        if !turn.disturbed || plan.patience == 0 {
                            turns.push(turn);
                            break;
                        }
                    }
                }
            }
        }
    }
    Ok(results)
}
