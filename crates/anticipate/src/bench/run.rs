//! The rounds: at each point every policy once, in a new order each time.
//!
//! Policies take turns within seconds, so that what drifts (temperature, other people's work) meets
//! all of them, and their order is shuffled, so that none of them always comes after the same other
//! one. Only whole rounds of a point count: figures are compared round by round.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use reveille_kernel::energy::{Packages, PackagesReading};
use reveille_kernel::{Idle, Root, affinity};
use reveille_results::description::Ended;

use crate::bench::asleep::{Counts, Reading};
use crate::bench::policy::{InForce, Machine, Policy};
use crate::bench::result::{Point, PolicyUsed, Skipped, Turn, Workload};
use crate::bench::{Account, OwnCost};
use crate::{Error, Result};
use reveille_figures::rounds::{Estimate, Quantiles};

/// A workload that waits again and again.
pub trait Work {
    /// What it does, for the result.
    fn describe(&self) -> Workload;

    /// Where it is measured, one point for each idle time or series.
    fn points(&self) -> &[Point];

    /// The CPU on which it waits.
    fn cpu(&self) -> u32;

    /// About how long a turn takes.
    fn expected(&self, point: usize) -> Duration;

    /// Puts a policy in force.
    ///
    /// # Errors
    /// [`Error::Cannot`] where this machine or user cannot, and it is to be left out.
    fn begin(&self, policy: Policy) -> Result<InForce>;

    /// One turn; it ends early when `stop` becomes true.
    ///
    /// # Errors
    /// Where what is waited for fails.
    fn turn(&self, point: usize, policy: Policy, round: u32, stop: &AtomicBool) -> Result<Sample>;
}

/// What a turn gave.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Sample {
    /// Of each wait, in any order.
    pub latencies_ns: Vec<u64>,
    /// The turn's length, ns.
    pub elapsed_ns: u64,
    /// How long of it the workload's CPU was asleep; `None` where nothing counts that.
    pub asleep_ns: Option<u64>,
    /// Of a workload that has an end: what it took to get there.
    pub run_ns: Option<u64>,
    /// Where the workload itself asks to be awake in time.
    pub account: Option<Account>,
}

/// How it is gone about.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// How often each policy gets its turn at each point.
    pub rounds: u32,
    /// Of the order.
    pub seed: u64,
    /// "As is" is always among them.
    pub policies: Vec<Policy>,
    /// A policy that cannot be had is an error, and not left out: the user named it.
    pub insist: bool,
}

/// Where it is. Told before each turn, never during one.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress<'a> {
    /// From 0.
    pub round: u32,
    /// Where the next turn is.
    pub point: &'a Point,
    /// The policy of the next turn.
    pub policy: Policy,
    /// 0 to 1.
    pub done: f64,
    /// Until the last turn is over, by what turns have taken.
    pub left: Duration,
}

/// What was done.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// Those that had turns; "as is" is the first.
    pub policies: Vec<PolicyUsed>,
    /// Those that this machine or user lacks something for.
    pub skipped: Vec<Skipped>,
    /// In the order in which they were run.
    pub turns: Vec<Turn>,
    /// A point, and what waking in time takes itself there for each wait, ns; `None` where that is
    /// not told.
    pub own_cost: Option<(usize, OwnCost)>,
    /// What ended the rounds.
    pub ended: Ended,
}

/// Runs the rounds. Whatever ends it, the machine is as before.
///
/// # Errors
/// Where a policy cannot be put in force for another reason than that this machine or user cannot, and
/// where the first turn fails. Later, what was gathered is the result.
pub fn run(
    machine: &Machine,
    work: &dyn Work,
    options: &Options,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(&Progress<'_>),
) -> Result<Run> {
    let (policies, skipped) = rehearse(work, options)?;
    affinity::avoid(work.cpu());
    let mut bench = Bench {
        work,
        options,
        watch: Watch::new(&machine.root, &machine.idle, work.cpu()),
        used: policies.iter().map(|used| used.policy).collect(),
        began: Instant::now(),
        expected_done: Duration::ZERO,
        turns: Vec::new(),
    };
    let ended = bench.rounds(stop, progress)?;
    let own_cost = match ended {
        Ended::Completed => bench.own_cost(stop),
        _ => None,
    };
    Ok(Run {
        policies,
        skipped,
        turns: bench.turns,
        own_cost,
        ended,
    })
}

/// Every policy once in force and back, so that what cannot be done is known before minutes of
/// measuring.
fn rehearse(work: &dyn Work, options: &Options) -> Result<(Vec<PolicyUsed>, Vec<Skipped>)> {
    let (mut used, mut skipped) = (Vec::new(), Vec::new());
    for policy in Policy::ALL {
        if policy != Policy::AsIs && !options.policies.contains(&policy) {
            continue;
        }
        match work.begin(policy) {
            Ok(in_force) => {
                let how = in_force.how.clone();
                if let Some(wrong) = in_force.end() {
                    return Err(Error::Cannot(wrong));
                }
                used.push(PolicyUsed { policy, how });
            }
            Err(Error::Cannot(why)) if !options.insist && policy != Policy::AsIs => {
                skipped.push(Skipped { policy, why });
            }
            Err(error) => return Err(error),
        }
    }
    Ok((used, skipped))
}

struct Bench<'a> {
    work: &'a dyn Work,
    options: &'a Options,
    watch: Watch,
    used: Vec<Policy>,
    began: Instant,
    /// What was expected of the turns that are done.
    expected_done: Duration,
    turns: Vec<Turn>,
}

impl Bench<'_> {
    fn rounds(
        &mut self,
        stop: &AtomicBool,
        progress: &mut dyn FnMut(&Progress<'_>),
    ) -> Result<Ended> {
        let mut random = fastrand::Rng::with_seed(self.options.seed);
        let mut points: Vec<usize> = (0..self.work.points().len()).collect();
        let mut policies = self.used.clone();
        for round in 0..self.options.rounds {
            random.shuffle(&mut points);
            for &point in &points {
                random.shuffle(&mut policies);
                if let Some(ended) = self.point(round, point, &policies, stop, progress)? {
                    return Ok(ended);
                }
            }
        }
        Ok(Ended::Completed)
    }

    /// Every policy's turn at one point. What ended the benchmark, if something did; then the turns of
    /// this point are not kept.
    fn point(
        &mut self,
        round: u32,
        point: usize,
        policies: &[Policy],
        stop: &AtomicBool,
        progress: &mut dyn FnMut(&Progress<'_>),
    ) -> Result<Option<Ended>> {
        let mut turns = Vec::new();
        for &policy in policies {
            progress(&self.progress(round, point, policy));
            let turn = match self.turn(round, point, policy, stop) {
                Ok(turn) => turn,
                Err(error) if self.turns.is_empty() => return Err(error),
                Err(error) => return Ok(Some(Ended::Disturbed(error.to_string()))),
            };
            if stop.load(Ordering::Relaxed) {
                return Ok(Some(Ended::Interrupted));
            }
            turns.extend(turn);
            self.expected_done += self.work.expected(point);
        }
        if turns.len() == policies.len() {
            self.turns.extend(turns);
        }
        Ok(None)
    }

    /// One turn; `None` where nothing was waited for (the time was over at once).
    fn turn(
        &mut self,
        round: u32,
        point: usize,
        policy: Policy,
        stop: &AtomicBool,
    ) -> Result<Option<Turn>> {
        let in_force = self.work.begin(policy)?;
        let began_s = self.began.elapsed().as_secs_f64();
        let before = self.watch.read();
        let account_before = in_force.account();
        let sample = self.work.turn(point, policy, round, stop);
        let account_after = in_force.account();
        let after = self.watch.read();
        let interrupted = in_force.interrupted();
        let wrong = in_force.end();
        let mut sample = sample?;
        if let Some(why) = interrupted {
            return Err(Error::Disturbed(why));
        }
        if let Some(wrong) = wrong {
            return Err(Error::Cannot(wrong));
        }
        let Some(latency) = Quantiles::of(&mut sample.latencies_ns) else {
            return Ok(None);
        };
        let elapsed_ns = sample.elapsed_ns.max(1) as f64;
        let (others_awake_percent, power_w) = self.watch.between(&before, &after);
        let accounts = account_before.zip(account_after);
        let account = accounts.map(|(before, after)| after.since(before));
        let account = account.or(sample.account);
        let kept_ns = account.and_then(|account| account.kept_awake_ns);
        let assisted = account.filter(|account| account.waits > 0);
        Ok(Some(Turn {
            round,
            point,
            policy,
            began_s,
            elapsed_s: elapsed_ns / 1e9,
            latency,
            per_s: latency.count as f64 / (elapsed_ns / 1e9),
            awake_percent: sample.asleep_ns.map(|ns| awake_percent(ns, elapsed_ns)),
            others_awake_percent,
            kept_awake_percent: kept_ns.map(|ns| 100.0 * ns as f64 / after.ns_since(&before)),
            assisted_percent: assisted
                .map(|account| 100.0 * account.assisted as f64 / account.waits as f64),
            power_w,
            run_ns: sample.run_ns.map(|ns| ns as f64),
        }))
    }

    /// Some turns more at the point with the least idle time, and the median of what they tell: to
    /// count what the engine takes makes it slower, so that it is not done in turns that are compared.
    /// With more time between waits, more of what it takes is for what else the machine does. What
    /// fails now fails nothing that was gathered.
    fn own_cost(&self, stop: &AtomicBool) -> Option<(usize, OwnCost)> {
        /// A single one may have met what takes milliseconds, a hypervisor's other guests.
        const TURNS: u32 = 3;
        if !self.used.contains(&Policy::Anticipate) {
            return None;
        }
        let points = self.work.points();
        let point = (0..points.len()).min_by_key(|&point| points[point].idle_ns)?;
        let cost = |turn| {
            let in_force = self.work.begin(Policy::Anticipate).ok()?;
            let told = in_force.own_cost(&mut || {
                let round = self.options.rounds + turn;
                let _ = self.work.turn(point, Policy::Anticipate, round, stop);
            });
            in_force.end();
            told.filter(|_| !stop.load(Ordering::Relaxed))
        };
        let costs: Vec<OwnCost> = (0..TURNS).filter_map(cost).collect();
        let median = |of: fn(&OwnCost) -> f64| Some(Estimate::over(costs.iter().map(of))?.estimate);
        let own = OwnCost {
            ns: median(|cost| cost.ns)?,
            at_requests_ns: median(|cost| cost.at_requests_ns)?,
        };
        Some((point, own))
    }

    fn progress(&self, round: u32, point: usize, policy: Policy) -> Progress<'_> {
        let one_round: Duration = (0..self.work.points().len())
            .map(|point| self.work.expected(point) * self.used.len() as u32)
            .sum();
        let all = one_round * self.options.rounds;
        let done = self.expected_done.as_secs_f64() / all.as_secs_f64().max(1e-9);
        // What turns have really taken; before the first one, what is expected.
        let left = all.saturating_sub(self.expected_done).as_secs_f64();
        let pace = match self.expected_done.as_secs_f64() {
            0.0 => 1.0,
            expected => self.began.elapsed().as_secs_f64() / expected,
        };
        Progress {
            round,
            point: &self.work.points()[point],
            policy,
            done: done.clamp(0.0, 1.0),
            left: Duration::from_secs_f64((left * pace).clamp(0.0, 1e9)),
        }
    }
}

fn awake_percent(asleep_ns: u64, elapsed_ns: f64) -> f64 {
    // Counts in ticks are coarser than the clock.
    (100.0 * (1.0 - asleep_ns as f64 / elapsed_ns)).clamp(0.0, 100.0)
}

/// What else is counted around a turn: the other CPUs' sleep, and energy.
struct Watch {
    others: Vec<(u32, Counts)>,
    packages: Option<Packages>,
}

struct Read {
    at: Instant,
    others: Vec<Reading>,
    energy: Option<PackagesReading>,
}

impl Read {
    fn ns_since(&self, before: &Self) -> f64 {
        self.at.duration_since(before.at).as_nanos().max(1) as f64
    }
}

impl Watch {
    fn new(root: &Root, idle: &Idle, cpu: u32) -> Self {
        let allowed = affinity::allowed();
        let others = idle
            .cpus
            .iter()
            .map(|other| other.number)
            .filter(|other| *other != cpu && allowed.contains(other));
        Self {
            others: others
                .map(|other| (other, Counts::of(root, idle, other)))
                .collect(),
            packages: Packages::of(root),
        }
    }

    fn read(&self) -> Read {
        let read = |(cpu, counts): &(u32, Counts)| {
            // A stay in an idle state is counted when it ends.
            affinity::visit(&[*cpu]);
            counts.read()
        };
        Read {
            others: self.others.iter().map(read).collect(),
            energy: self.packages.as_ref().map(Packages::read),
            at: Instant::now(),
        }
    }

    /// The other CPUs' mean time awake, %, and the power, W.
    fn between(&self, before: &Read, after: &Read) -> (Option<f64>, Option<f64>) {
        let elapsed_ns = after.ns_since(before);
        let others = before.others.iter().zip(&after.others);
        let awake = others.map(|(before, after)| {
            let asleep_ns = after.since(before)?;
            Some(awake_percent(asleep_ns, elapsed_ns))
        });
        let awake: Option<Vec<f64>> = awake.collect();
        let awake = awake.filter(|awake| !awake.is_empty());
        let mean = awake.map(|awake| awake.iter().sum::<f64>() / awake.len() as f64);
        let used_j = || {
            let packages = self.packages.as_ref()?;
            packages.between_j(before.energy.as_ref()?, after.energy.as_ref()?)
        };
        (mean, used_j().map(|used| used / elapsed_ns * 1e9))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    /// Takes no time; says which turns it had.
    struct Recorded {
        points: Vec<Point>,
        turns: RefCell<Vec<(u32, usize, Policy)>>,
        stop_after: usize,
        fail_after: usize,
    }

    impl Recorded {
        fn new() -> Self {
            Self {
                points: vec![Point::idle(0), Point::idle(1000)],
                turns: RefCell::default(),
                stop_after: usize::MAX,
                fail_after: usize::MAX,
            }
        }
    }

    fn machine() -> Machine {
        let root = Root::default();
        Machine {
            idle: Idle::read(&root).unwrap(),
            root,
            journal_folder: "/nonexistent".into(),
        }
    }

    impl Work for Recorded {
        fn describe(&self) -> Workload {
            Workload::default()
        }
        fn points(&self) -> &[Point] {
            &self.points
        }
        fn cpu(&self) -> u32 {
            affinity::allowed()[0]
        }
        fn expected(&self, _: usize) -> Duration {
            Duration::from_secs(1)
        }
        fn begin(&self, policy: Policy) -> Result<InForce> {
            match policy {
                Policy::Shallowest => Err(Error::Cannot("there is but one".into())),
                policy => Ok(machine().unchanged(policy.name().into())),
            }
        }
        fn turn(
            &self,
            point: usize,
            policy: Policy,
            round: u32,
            stop: &AtomicBool,
        ) -> Result<Sample> {
            let mut turns = self.turns.borrow_mut();
            turns.push((round, point, policy));
            stop.store(turns.len() > self.stop_after, Ordering::Relaxed);
            if turns.len() > self.fail_after {
                return Err(Error::Usage("the disk is gone".into()));
            }
            Ok(Sample {
                latencies_ns: vec![7],
                elapsed_ns: 1_000_000,
                asleep_ns: Some(250_000),
                run_ns: None,
                account: Some(Account {
                    kept_awake_ns: None,
                    waits: 4,
                    assisted: 3,
                }),
            })
        }
    }

    fn options(insist: bool) -> Options {
        Options {
            rounds: 3,
            seed: 1,
            policies: vec![Policy::Shallowest, Policy::NoSleep],
            insist,
        }
    }

    fn run(work: &Recorded, options: &Options) -> Result<(Run, Vec<f64>)> {
        let mut done = Vec::new();
        let stop = AtomicBool::new(false);
        let run = super::run(&machine(), work, options, &stop, &mut |progress| {
            done.push(progress.done);
        });
        run.map(|run| (run, done))
    }

    #[test]
    fn every_policy_has_its_turn_at_every_point_in_every_round() {
        let work = Recorded::new();
        let (run, done) = run(&work, &options(false)).unwrap();
        assert_eq!(run.ended, Ended::Completed);
        let names: Vec<&str> = run.policies.iter().map(|used| used.how.as_str()).collect();
        assert_eq!(names, ["as is", "no sleep"]);
        assert_eq!(run.skipped[0].policy, Policy::Shallowest);
        assert!(run.skipped[0].why.contains("but one"));
        let mut turns = work.turns.borrow().clone();
        assert_eq!(turns.len(), 12);
        turns.sort_by_key(|(round, point, policy)| (*round, *point, policy.name()));
        turns.dedup();
        assert_eq!(turns.len(), 12);
        assert_eq!(run.turns.len(), 12);
        let turn = &run.turns[0];
        assert_eq!((turn.awake_percent, turn.latency.median), (Some(75.0), 7.0));
        assert_eq!((turn.per_s, turn.assisted_percent), (1000.0, Some(75.0)));
        assert_eq!(turn.kept_awake_percent, None);
        assert!(done.is_sorted() && done[0] == 0.0 && done[11] < 1.0);
    }

    #[test]
    fn a_policy_that_was_asked_for_by_name_is_not_left_out() {
        let error = run(&Recorded::new(), &options(true)).unwrap_err();
        assert!(error.to_string().contains("but one"), "{error}");
    }

    #[test]
    fn only_whole_rounds_of_a_point_are_kept() {
        for (stop_after, kept) in [(0, 0), (1, 0), (2, 2), (5, 4)] {
            let mut work = Recorded::new();
            work.stop_after = stop_after;
            let (run, _) = run(&work, &options(false)).unwrap();
            assert_eq!((run.ended, run.turns.len()), (Ended::Interrupted, kept));
        }
    }

    #[test]
    fn what_fails_at_once_is_an_error_and_what_fails_later_ends_it() {
        let mut work = Recorded::new();
        work.fail_after = 0;
        assert!(run(&work, &options(false)).is_err());
        work = Recorded::new();
        work.fail_after = 3;
        let (run, _) = run(&work, &options(false)).unwrap();
        assert_eq!(run.ended, Ended::Disturbed("the disk is gone".into()));
        assert_eq!(run.turns.len(), 2);
    }
}
