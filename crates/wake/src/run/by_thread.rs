//! Measuring with a waiting thread, where BPF cannot be had.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use reveille_dataset::{Datapoint, Source};
use reveille_machine::Awake;

use super::{FLOOR_DISTANCES, FLOOR_GOAL, Goal, NOT_IDLE, Run, mean, rest};
use crate::distance::DRAWN;
use crate::{Error, Result, floor, placement, user};

impl Run<'_> {
    pub(super) fn by_thread(&mut self) -> Result<()> {
        if self.options.sources.iter().any(|source| source != "timer") {
            return Err(Error::Usage(
                "the user probe can only be woken by a timer: leave --source at timer, or measure \
                 with --probe bpf"
                    .into(),
            ));
        }
        self.note(
            "user probe: the figure reaches from the timer's instant to the first instruction of \
             a waiting thread, as cyclictest measures; interrupt, scheduling and the return to \
             user space are in it, so it is above what the BPF probe sees",
        );
        if self.states.is_empty() {
            self.note(
                "the idle state of each datapoint is unknown: this CPU has no cpuidle states",
            );
        }
        self.outcome
            .arming
            .push("clock_nanosleep, absolute, by a thread bound to the CPU".into());

        let timestamp = placement::on_cpu(self.options.cpu, || Ok(user::cost_of_timestamp()))?;
        let characterisation = &mut self.outcome.characterisation;
        characterisation.overhead_ns = timestamp.mean_ns.round() as i64;
        characterisation.clock = "CLOCK_MONOTONIC".into();
        characterisation.costs.insert("timestamp".into(), timestamp);
        self.sink.begin(&self.outcome)?;
        self.floor_by_thread()?;

        for deepest in self.deepest.clone() {
            let phase = self.allow(deepest)?;
            for (distances, goal) in self.steps() {
                let waited = self.wait(&distances, goal, &phase, false, &mut |run, datapoint| {
                    run.keep(datapoint)
                });
                let dropped = [
                    (NOT_IDLE, waited.late),
                    ("beyond the number asked for", waited.beyond),
                ];
                self.account(waited.launched, &dropped, waited.elapsed, mean(&distances));
                waited.result?;
                if self.over() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn floor_by_thread(&mut self) -> Result<()> {
        let distances = FLOOR_DISTANCES.draw(DRAWN, self.options.seed);
        let mut latencies = Vec::new();
        let awake = Awake::keep(&[self.options.cpu])?;
        let phase = "measuring the floor, where nothing sleeps";
        let waited = self.wait(&distances, FLOOR_GOAL, phase, true, &mut |_, datapoint| {
            latencies.push(datapoint.wake_latency_ns);
            Ok(())
        });
        drop(awake);
        waited.result?;
        let floor = floor::of(reveille_dataset::schema::AWAKE, Source::Timer, latencies);
        self.outcome.characterisation.floors.extend(floor);
        Ok(())
    }

    fn wait(
        &mut self,
        distances: &[u64],
        goal: Goal,
        phase: &str,
        awake: bool,
        take: &mut dyn FnMut(&mut Self, &Datapoint) -> Result<()>,
    ) -> Waited {
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
        let mut prompt = true;
        let result = std::thread::scope(|scope| {
            let waiter = scope.spawn(|| -> Result<bool> {
                placement::bind(plan.cpu)?;
                let prompt = placement::be_prompt();
                user::wait(&plan, &waiting);
                Ok(prompt)
            });
            let mut drain = |run: &mut Self| {
                let batch = std::mem::take(&mut *waiting.lock());
                for datapoint in batch {
                    if goal.datapoints.is_some_and(|goal| taken >= goal) {
                        beyond += 1;
                        continue;
                    }
                    take(run, &datapoint)?;
                    taken += 1;
                }
                Ok(taken)
            };
            let gathered = loop {
                rest(goal.next_batch(start.elapsed()), self.interrupted);
                let done = match drain(self) {
                    Ok(taken) => goal.done(taken, start.elapsed()),
                    Err(error) => break Err(error),
                };
                self.tell(phase, done);
                if done >= 1.0 || self.over() || waiter.is_finished() {
                    break Ok(());
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
                "the waiting thread has no real-time priority (it needs CAP_SYS_NICE): where other \
                 threads want this CPU, their time is in the figure",
            );
        }
        Waited {
            launched: waiting.launched.load(Ordering::Relaxed),
            late: waiting.late.load(Ordering::Relaxed),
            beyond,
            elapsed: start.elapsed(),
            result,
        }
    }
}

/// What became of one phase of waiting.
struct Waited {
    launched: u64,
    late: u64,
    beyond: u64,
    elapsed: Duration,
    result: Result<()>,
}
