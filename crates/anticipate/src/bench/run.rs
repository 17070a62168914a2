//! The benchmark's rounds: at each point every policy once, as settings of a trial.
//!
//! Only whole rounds of a point count, since figures are compared round by round.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use reveille_figures::rounds::{Estimate, Quantiles};
use reveille_kernel::asleep::{Counts, Reading};
use reveille_kernel::energy::{Packages, PackagesReading};
use reveille_kernel::{Idle, Root, affinity};
use reveille_meter::Steady;
use reveille_results::description::Ended;
use reveille_trial::rounds::{self, At, Progress, Turns};
use reveille_trial::setting::{InForce, Machine};

use crate::bench::assist::OwnCost;
use crate::bench::policy::{Policy, PolicySetting};
use crate::bench::result::{Plan, PolicyUsed, Skipped, Turn};
pub use crate::bench::work::{Sample, Work};
use crate::{Error, Result};

/// The turns of a benchmark.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// Those that had turns; "as is" is the first.
    pub policies: Vec<PolicyUsed>,
    /// Those for which this machine or user lacks something.
    pub skipped: Vec<Skipped>,
    /// In the order in which they were run.
    pub turns: Vec<Turn>,
    /// A point, and the engine's own cost there for each wait, ns; `None` if unknown.
    pub own_cost: Option<(usize, OwnCost)>,
    /// Why the meter failed in some turns.
    pub why_no_power: Option<String>,
    /// What ended the rounds.
    pub ended: Ended,
}

/// Runs the rounds under "as is" and these policies, and restores the machine. If `insist` is set, an
/// unavailable policy is an error; otherwise it is skipped.
///
/// # Errors
/// If a policy fails in another way, or a turn fails before a round of a point is complete. A later failure
/// ends the run, and its turns are the result.
pub fn run(
    machine: &Machine,
    work: &dyn Work,
    plan: &Plan,
    (policies, insist): (&[Policy], bool),
    meter: Option<Steady<'_>>,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Run> {
    let points = 0..work.points().len();
    let shortest = points.map(|point| work.expected(point)).min();
    if let Some((meter, turn)) = meter.as_ref().zip(shortest) {
        meter.suits("a turn of", turn)?;
    }
    let mut skipped = Vec::new();
    let used = rehearse(machine, work, policies, insist, &mut skipped)?;
    affinity::avoid(plan.cpu);
    let order = rounds::Plan {
        rounds: plan.rounds,
        points: work.points().len(),
        settings: used.len(),
        seed: plan.seed,
        whole: true,
    };
    let mut bench = Bench {
        machine,
        work,
        watch: Watch::new(&machine.root, &machine.idle, plan.cpu),
        meter,
        used,
        began: Instant::now(),
    };
    let (turns, ended) = rounds::run(&mut bench, &order, stop, progress)?;
    let meter = bench.meter.as_ref();
    let why_no_power = meter.and_then(|meter| Some(meter.why_failed()?.to_owned()));
    let own_cost = match ended {
        Ended::Completed => bench.own_cost(plan.rounds, stop),
        _ => None,
    };
    let policies = bench.used.into_iter();
    let policies = policies.map(|(policy, PolicySetting { how, .. })| PolicyUsed { policy, how });
    Ok(Run {
        policies: policies.collect(),
        skipped,
        turns,
        own_cost,
        why_no_power,
        ended,
    })
}

/// Applies and restores each policy once, to fail now and not after minutes of measuring.
fn rehearse(
    machine: &Machine,
    work: &dyn Work,
    policies: &[Policy],
    insist: bool,
    skipped: &mut Vec<Skipped>,
) -> Result<Vec<(Policy, PolicySetting)>> {
    let mut used = Vec::new();
    for policy in Policy::ALL {
        if policy != Policy::AsIs && !policies.contains(&policy) {
            continue;
        }
        let in_force = |setting: PolicySetting| Ok((setting.kind.apply(machine)?, setting));
        match work.setting(policy).and_then(in_force) {
            Ok((in_force, setting)) => {
                in_force.end()?;
                used.push((policy, setting));
            }
            Err(Error::Cannot(why)) if !insist && policy != Policy::AsIs => {
                skipped.push(Skipped { policy, why });
            }
            Err(error) => return Err(error),
        }
    }
    Ok(used)
}

struct Bench<'a, 'm> {
    machine: &'a Machine,
    work: &'a dyn Work,
    watch: Watch,
    meter: Option<Steady<'m>>,
    used: Vec<(Policy, PolicySetting)>,
    began: Instant,
}

impl Turns for Bench<'_, '_> {
    type Turn = Turn;

    fn name(&self, at: At) -> String {
        let point = &self.work.points()[at.point];
        format!("{}, {}", point.name, self.used[at.setting].0.name())
    }

    fn expected(&self, point: usize) -> Option<Duration> {
        Some(self.work.expected(point))
    }

    fn begin(&self, setting: usize) -> Result<InForce> {
        self.used[setting].1.kind.apply(self.machine)
    }

    /// `None` if nothing was waited for (the time was over at once).
    fn turn(&mut self, at: At, stop: &AtomicBool) -> Result<Option<Turn>> {
        let policy = self.used[at.setting].0;
        let assist = match policy {
            Policy::Anticipate => self.work.assisted()?,
            _ => None,
        };
        let account = || assist.as_ref()?.account();
        let began_s = self.began.elapsed().as_secs_f64();
        let work = || {
            let read = (self.watch.read(), account());
            let sample = self.work.turn(at.point, policy, at.round, stop);
            (read, sample, account(), self.watch.read())
        };
        let (worked, by_meter) = match &mut self.meter {
            None => (work(), None),
            Some(meter) => {
                let (worked, power_w) = meter.during(stop, work);
                (worked, Some(power_w?))
            }
        };
        let ((before, account_before), sample, account_after, after) = worked;
        let mut sample = sample?;
        let Some(latency) = Quantiles::of(&mut sample.latencies_ns) else {
            return Ok(None);
        };
        let elapsed_ns = sample.elapsed_ns.max(1) as f64;
        let (others_awake_percent, power_w) = self.watch.between(&before, &after);
        let (power_w, packages_w) = match by_meter {
            None => (power_w, None),
            Some(by_meter) => (by_meter, power_w),
        };
        let accounts = account_before.zip(account_after);
        let account = accounts.map(|(before, after)| after.since(before));
        let account = account.or(sample.account);
        let kept_ns = account.and_then(|account| account.kept_awake_ns);
        let assisted = account.filter(|account| account.waits > 0);
        Ok(Some(Turn {
            round: at.round,
            point: at.point,
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
            packages_w,
            run_ns: sample.run_ns.map(|ns| ns as f64),
        }))
    }
}

impl Bench<'_, '_> {
    /// The median of some more turns at the point with the least idle time. Counting slows the engine
    /// down, so turns that are compared do not count; with more time between waits, more of the
    /// engine's work is for what else the machine does. An error here fails nothing that was gathered.
    fn own_cost(&self, rounds: u32, stop: &AtomicBool) -> Option<(usize, OwnCost)> {
        /// A single turn may have met what takes milliseconds, such as a hypervisor's other guests.
        const TURNS: u32 = 3;
        if !self
            .used
            .iter()
            .any(|(policy, _)| *policy == Policy::Anticipate)
        {
            return None;
        }
        let points = self.work.points();
        let point = (0..points.len()).min_by_key(|&point| points[point].idle_ns)?;
        let cost = |turn| {
            let assist = self.work.assisted().ok()??;
            let cost = assist.own_cost(&mut || {
                let round = rounds + turn;
                let _ = self.work.turn(point, Policy::Anticipate, round, stop);
            });
            cost.filter(|_| !stop.load(Ordering::Relaxed))
        };
        let costs: Vec<OwnCost> = (0..TURNS).filter_map(cost).collect();
        let median = |of: fn(&OwnCost) -> f64| Some(Estimate::over(costs.iter().map(of))?.estimate);
        let own = OwnCost {
            ns: median(|cost| cost.ns)?,
            at_requests_ns: median(|cost| cost.at_requests_ns)?,
        };
        Some((point, own))
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
    use crate::bench::assist::Account;
    use crate::bench::result::{Point, Workload};

    /// Takes no time and records its turns.
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
        Machine::read(Root::default()).unwrap()
    }

    impl Work for Recorded {
        fn describe(&self) -> Workload {
            Workload::default()
        }
        fn points(&self) -> &[Point] {
            &self.points
        }
        fn expected(&self, _: usize) -> Duration {
            Duration::from_secs(1)
        }
        fn setting(&self, policy: Policy) -> Result<PolicySetting> {
            match policy {
                Policy::Shallowest => Err(Error::Cannot("there is but one".into())),
                policy => Ok(PolicySetting::as_is(policy.name())),
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

    fn run(work: &Recorded, insist: bool) -> Result<(Run, Vec<f64>)> {
        let plan = Plan {
            rounds: 3,
            waits: 1,
            turn_s: 1.0,
            warm_up: 0,
            seed: 1,
            cpu: affinity::allowed()[0],
        };
        let policies = [Policy::Shallowest, Policy::NoSleep];
        let mut done = Vec::new();
        let stop = AtomicBool::new(false);
        let mut progress = |now: &Progress| done.push(now.done);
        let policies = (&policies[..], insist);
        let run = super::run(
            &machine(),
            work,
            &plan,
            policies,
            None,
            &stop,
            &mut progress,
        );
        run.map(|run| (run, done))
    }

    #[test]
    fn every_policy_has_its_turn_at_every_point_in_every_round() {
        let work = Recorded::new();
        let (run, done) = run(&work, false).unwrap();
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
    fn a_policy_requested_by_name_is_not_skipped() {
        let error = run(&Recorded::new(), true).unwrap_err();
        assert!(error.to_string().contains("but one"), "{error}");
    }

    #[test]
    fn only_complete_rounds_of_a_point_are_kept() {
        for (stop_after, kept) in [(0, 0), (1, 0), (2, 2), (5, 4)] {
            let mut work = Recorded::new();
            work.stop_after = stop_after;
            let (run, _) = run(&work, false).unwrap();
            assert_eq!((run.ended, run.turns.len()), (Ended::Interrupted, kept));
        }
    }

    #[test]
    fn an_immediate_failure_is_an_error_and_a_later_one_ends_the_run() {
        let mut work = Recorded::new();
        work.fail_after = 0;
        assert!(run(&work, false).is_err());
        work = Recorded::new();
        work.fail_after = 3;
        let (run, _) = run(&work, false).unwrap();
        assert_eq!(run.ended, Ended::Disturbed("the disk is gone".into()));
        assert_eq!(run.turns.len(), 2);
    }
}
