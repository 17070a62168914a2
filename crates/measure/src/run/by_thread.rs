//! Measuring with the user probe.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use reveille_kernel::{Awake, affinity};
use reveille_results::{Datapoint, Source};

use super::{
    BEYOND, FLOOR_DISTANCES, FLOOR_GOAL, FLOOR_PHASE, Gathered, Launches, NOT_IDLE, Run, Step,
    by_reason, rest,
};
use crate::distance::DRAWN;
use crate::{Error, Result, floor, placement, user};

/// Reason of a drop.
const LATE: &str = "the launch had passed before the thread slept";

impl Run<'_> {
    pub(super) fn by_thread(&mut self) -> Result<()> {
        if self.options.sources.iter().any(|source| source != "timer") {
            return Err(match self.options.probe {
                Some(_) => Error::Usage(
                    "the user probe can only be woken by a timer: use --source timer or --probe bpf"
                        .into(),
                ),
                None => Error::Cannot(
                    "sources other than timer need BPF, which is unavailable here: use --source \
                     timer"
                        .into(),
                ),
            });
        }
        self.note(
            "user probe: the latency ends at the first instruction of a waiting thread, as in \
             cyclictest; it includes interrupt, scheduling and the return to user space, so it is \
             longer than with the BPF probe",
        );
        if self.states.is_empty() {
            self.note(
                "the CPU has no cpuidle states: the idle state of each datapoint is unknown, and \
                 whether the CPU slept at each launch; datapoints of times in which it was idle \
                 less than half by /proc/stat are dropped",
            );
        }
        self.outcome
            .arming
            .push("clock_nanosleep, absolute, by a thread bound to the CPU".into());

        let timestamp = placement::on_cpu(self.options.cpu, || Ok(user::cost_of_timestamp()))?;
        let characterisation = &mut self.outcome.characterisation;
        let overhead = timestamp.median_ns.unwrap_or(timestamp.mean_ns);
        characterisation.overhead_ns = overhead.round() as i64;
        characterisation.clock = "CLOCK_MONOTONIC".into();
        characterisation.costs.insert("timestamp".into(), timestamp);
        self.begin()?;
        self.floor_by_thread()?;

        self.each_phase(&mut |run, _, step| Ok(run.wait(step, false, &mut Self::keep)))
    }

    fn floor_by_thread(&mut self) -> Result<()> {
        let distances = FLOOR_DISTANCES.draw(DRAWN, self.options.seed);
        let mut latencies = Vec::new();
        let awake = Awake::keep(&[self.options.cpu])?;
        let step = (FLOOR_PHASE, distances.as_slice(), FLOOR_GOAL);
        let waited = self.wait(step, true, &mut |_, datapoint| {
            latencies.push(datapoint.wake_latency_ns);
            Ok(())
        });
        drop(awake);
        waited.result?;
        let floor = floor::of(
            reveille_results::schema::AWAKE,
            Source::Timer,
            vec![latencies],
        );
        self.outcome.characterisation.floors.extend(floor);
        Ok(())
    }

    fn wait(
        &mut self,
        (phase, distances, goal): Step<'_>,
        awake: bool,
        take: &mut dyn FnMut(&mut Self, Datapoint) -> Result<()>,
    ) -> Gathered {
        let waiting = user::Waiting::default();
        let start = Instant::now();
        let (mut taken, mut beyond) = (0, 0);
        let states = self.states.clone();
        let plan = user::Plan {
            root: self.root,
            cpu: self.options.cpu,
            states: &states,
            distances,
            started_ns: self.outcome.started_ns,
            overhead_ns: self.outcome.characterisation.overhead_ns,
            awake,
        };
        let mut idling =
            (states.is_empty() && !awake).then(|| user::Idling::of(self.root, self.options.cpu));
        let mut prompt = true;
        let mut gave_up = None;
        let result = std::thread::scope(|scope| {
            let waiter = scope.spawn(|| -> Result<bool> {
                placement::bind(plan.cpu)?;
                let prompt = affinity::be_prompt();
                user::wait(&plan, &waiting);
                Ok(prompt)
            });
            let mut drain = |run: &mut Self| {
                let batch = std::mem::take(&mut *waiting.lock());
                if idling.as_mut().is_some_and(|idling| !idling.was_idle()) {
                    waiting
                        .awake
                        .fetch_add(batch.len() as u64, Ordering::Relaxed);
                    return Ok(taken);
                }
                for datapoint in batch {
                    if goal.datapoints.is_some_and(|goal| taken >= goal) {
                        beyond += 1;
                        continue;
                    }
                    take(run, datapoint)?;
                    taken += 1;
                }
                Ok(taken)
            };
            let (mut kept, mut last_kept) = (0, start);
            let gathered = loop {
                rest(goal.next_batch(start.elapsed()), self.interrupted);
                let now_kept = match drain(self) {
                    Ok(taken) => taken,
                    Err(error) => break Err(error),
                };
                let done = goal.done(now_kept, start.elapsed());
                self.report(phase, done);
                self.warn_if_scarce(done, || {
                    let [launched, awake, late] =
                        [&waiting.launched, &waiting.awake, &waiting.late]
                            .map(|count| count.load(Ordering::Relaxed));
                    Launches {
                        launched,
                        dropped: by_reason(vec![(NOT_IDLE, awake), (LATE, late)]),
                        ..Launches::default()
                    }
                });
                // Before the reason is read: it sets that first.
                let is_finished = waiter.is_finished();
                if waiting.moved.load(Ordering::Relaxed) {
                    self.end_early(format!("CPU {} went offline", plan.cpu));
                }
                if done >= 1.0 || self.over() || is_finished {
                    break Ok(());
                }
                if now_kept != kept {
                    (kept, last_kept) = (now_kept, Instant::now());
                }
                if last_kept.elapsed() > self.options.patience {
                    let why = format!(
                        "no datapoint for {} s ({phase}): the CPU was not idle at the launches; \
                         something else runs on it",
                        last_kept.elapsed().as_secs()
                    );
                    if goal.duration.is_none() {
                        gave_up = Some(goal.missed(now_kept, &why));
                        break Ok(());
                    }
                    self.note(why);
                    last_kept = Instant::now();
                }
            };
            waiting.stop.store(true, Ordering::Relaxed);
            prompt = waiter
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            gathered.and_then(|()| drain(self).map(drop))
        });
        if !prompt {
            self.note(
                "the waiting thread has no real-time priority (it needs CAP_SYS_NICE): the latency \
                 may include other threads' time on this CPU",
            );
        }
        let counted = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Gathered {
            launched: counted(&waiting.launched),
            dropped: vec![
                (NOT_IDLE, counted(&waiting.awake)),
                (LATE, counted(&waiting.late)),
                (BEYOND, beyond),
            ],
            periods: taken,
            gave_up,
            elapsed: start.elapsed(),
            result,
        }
    }
}
