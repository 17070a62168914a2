//! When background work is held, and when it runs: pure, with the time given.

use std::time::Duration;

/// How the foreground is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Foreground {
    /// One of its threads runs, or could.
    Runs,
    /// All wait; one of them for what the background could have.
    MayWaitForBackground {
        /// The last such wait began then, on the policy's clock.
        since: Duration,
    },
    /// All wait for something else, since this time.
    Waits {
        /// On the policy's clock.
        since: Duration,
    },
    /// It has no thread: nothing waits.
    Absent,
}

/// For how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    /// The background is held at most so long, and then runs at least as long as it was held, and a quarter of this;
    /// while the foreground goes on waiting, each time twice as long, up to [`PATIENCE`] times.
    pub within: Duration,
    /// How long the foreground waits before the background is held: freezing costs more than a short wait saves.
    pub after: Duration,
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Freeze, and ask again.
    Hold,
    /// Thaw, and ask again.
    Release(Because),
    /// Ask again at this time, and before if the foreground begins to run.
    Until(Duration),
    /// The foreground runs: ask again when it waits.
    UntilItWaits,
}

/// Why the background is released.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Because {
    /// The foreground runs: the machine is awake anyway.
    ForegroundRuns,
    /// It was held as long as it may be.
    Limit,
}

/// What the foreground waits for may be the background after all, whatever is known of the wait. So in one and the same
/// wait the background soon runs for this many times its limit before it is held again: it loses a tenth of its time. A
/// wait for what could be the background has lasted as long when it is held first. Threads that wait for ever, such as
/// idle ones of a pool, would keep it from being held for good otherwise.
pub const PATIENCE: u32 = 10;

/// The state of the background.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    times: Times,
    held: bool,
    since: Duration,
    /// How long the background runs before it is held again, at least.
    least: Duration,
    /// The same within one wait of the foreground.
    turn: Duration,
}

/// How often it is looked whether the foreground has threads.
const LOOK: Duration = Duration::from_secs(1);

impl Policy {
    /// At this time the background runs.
    pub fn new(times: Times, now: Duration) -> Self {
        Self {
            times,
            held: false,
            since: now,
            least: times.within,
            turn: times.within,
        }
    }

    /// What is to be done now. A step that holds or releases is taken as done.
    pub fn step(&mut self, now: Duration, foreground: Foreground) -> Step {
        let Times { within, after } = self.times;
        let longest = PATIENCE * within;
        let mut doubtful = false;
        let foreground = match foreground {
            Foreground::MayWaitForBackground { since } if now >= since + longest => {
                doubtful = true;
                Foreground::Waits { since }
            }
            other => other,
        };
        if self.held {
            let limit = self.since + within;
            let because = match foreground {
                Foreground::Waits { .. } if now < limit => return Step::Until(limit),
                Foreground::Waits { .. } => Because::Limit,
                _ => Because::ForegroundRuns,
            };
            // Some of the background may get no CPU in less than a part of the limit.
            self.least = now.saturating_sub(self.since).clamp(within / 4, within);
            self.turn = match because {
                Because::Limit if doubtful => longest,
                Because::Limit => (2 * self.turn).min(longest),
                Because::ForegroundRuns => self.least,
            };
            (self.held, self.since) = (false, now);
            return Step::Release(because);
        }
        // Another wait than the one in which it was held last.
        if let Foreground::Waits { since } = foreground
            && since > self.since
        {
            self.turn = self.least;
        }
        let turn = self.since + self.turn;
        if now < turn && foreground != Foreground::Runs {
            return Step::Until(turn.min(now + LOOK));
        }
        if now < self.since + self.least {
            return Step::Until(self.since + self.least);
        }
        match foreground {
            Foreground::Waits { since } if now < since + after => Step::Until(since + after),
            Foreground::Waits { .. } => {
                (self.held, self.since) = (true, now);
                Step::Hold
            }
            Foreground::MayWaitForBackground { since } => Step::Until(since + longest),
            Foreground::Runs => Step::UntilItWaits,
            Foreground::Absent => Step::Until(now + LOOK),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    const TIMES: Times = Times {
        within: ms(100),
        after: ms(10),
    };

    #[test]
    fn it_is_held_while_the_foreground_waits_and_runs_beside_it() {
        let mut policy = Policy::new(TIMES, ms(0));
        let waits = Foreground::Waits { since: ms(0) };
        assert_eq!(policy.step(ms(1), waits), Step::Until(ms(100)));
        assert_eq!(policy.step(ms(100), waits), Step::Hold);
        assert_eq!(policy.step(ms(101), waits), Step::Until(ms(200)));
        let runs = Step::Release(Because::ForegroundRuns);
        assert_eq!(policy.step(ms(150), Foreground::Runs), runs);
        // It has its turn, whatever the foreground does: as long as it was held.
        assert_eq!(policy.step(ms(160), waits), Step::Until(ms(200)));
        assert_eq!(policy.step(ms(250), Foreground::Runs), Step::UntilItWaits);
        let again = Foreground::Waits { since: ms(260) };
        assert_eq!(policy.step(ms(261), again), Step::Until(ms(270)));
        assert_eq!(policy.step(ms(270), again), Step::Hold);
    }

    #[test]
    fn it_is_released_at_its_limit_and_never_held_while_it_may_be_waited_for() {
        let mut policy = Policy::new(TIMES, ms(0));
        let waits = Foreground::Waits { since: ms(0) };
        assert_eq!(policy.step(ms(100), waits), Step::Hold);
        assert_eq!(policy.step(ms(200), waits), Step::Release(Because::Limit));
        let may = Foreground::MayWaitForBackground { since: ms(290) };
        assert_eq!(policy.step(ms(300), may), Step::Until(ms(400)));
        let waits = Foreground::Waits { since: ms(305) };
        assert_eq!(policy.step(ms(315), waits), Step::Hold);
        let runs = Step::Release(Because::ForegroundRuns);
        assert_eq!(policy.step(ms(316), may), runs);
        // It waits for ever.
        assert_eq!(policy.step(ms(1289), may), Step::Until(ms(1290)));
        assert_eq!(policy.step(ms(1290), may), Step::Hold);
        assert_eq!(policy.step(ms(1291), may), Step::Until(ms(1390)));
    }

    /// How long the background is held in that time, if the foreground is like this all the time.
    fn held_in(time: Duration, foreground: Foreground) -> Duration {
        let mut policy = Policy::new(TIMES, ms(0));
        let (mut now, mut held, mut since) = (ms(0), Duration::ZERO, None);
        while now < time {
            match policy.step(now, foreground) {
                Step::Hold => since = Some(now),
                Step::Release(_) => held += now - since.take().unwrap(),
                Step::Until(next) => now = next,
                Step::UntilItWaits => return held,
            }
        }
        held
    }

    #[test]
    fn in_one_wait_the_background_soon_loses_a_tenth_of_its_time() {
        // What the foreground waits for may be the background, whatever is known of the wait.
        let waits = Foreground::Waits { since: ms(0) };
        assert_eq!(held_in(ms(4_000), waits), ms(500));
        let hour = held_in(ms(3_600_000), waits).as_secs_f64();
        assert!((326.0..330.0).contains(&hour), "{hour}");
        let may = Foreground::MayWaitForBackground { since: ms(0) };
        assert_eq!(held_in(ms(4_000), may), ms(300));
        assert_eq!(held_in(ms(4_000), Foreground::Absent), ms(0));
    }

    #[test]
    fn in_a_new_wait_it_is_held_as_at_first() {
        let mut policy = Policy::new(TIMES, ms(0));
        let waits = |since| Foreground::Waits { since: ms(since) };
        assert_eq!(policy.step(ms(100), waits(0)), Step::Hold);
        assert_eq!(
            policy.step(ms(200), waits(0)),
            Step::Release(Because::Limit)
        );
        assert_eq!(policy.step(ms(300), waits(0)), Step::Until(ms(400)));
        assert_eq!(policy.step(ms(310), waits(301)), Step::Until(ms(311)));
        assert_eq!(policy.step(ms(311), waits(301)), Step::Hold);
    }

    /// How the holds and the turns between them go with a foreground that runs for 2 ms each time after these waits.
    fn spells(
        times: Times,
        waits: impl Iterator<Item = Duration>,
    ) -> (Vec<Duration>, Vec<Duration>) {
        let mut policy = Policy::new(times, ms(0));
        let (mut holds, mut turns) = (Vec::new(), Vec::new());
        let (mut now, mut since) = (ms(0), ms(0));
        for wait in waits {
            let waits = Foreground::Waits { since: now };
            let end = now + wait;
            for (until, foreground) in [(end, waits), (end + ms(2), Foreground::Runs)] {
                while now < until {
                    let changed = match policy.step(now, foreground) {
                        Step::Hold => &mut turns,
                        Step::Release(_) => &mut holds,
                        Step::Until(next) => {
                            now = next.min(until);
                            continue;
                        }
                        Step::UntilItWaits => {
                            now = until;
                            continue;
                        }
                    };
                    changed.push(now - since);
                    since = now;
                }
            }
        }
        (holds, turns)
    }

    #[test]
    fn a_foreground_that_waits_as_long_as_the_limit_gets_half_of_the_time() {
        let times = Times {
            within: ms(300),
            after: ms(10),
        };
        let (holds, _) = spells(times, std::iter::repeat_n(ms(298), 1000));
        let held: Duration = holds.iter().sum();
        assert!(
            (0.4..0.5).contains(&(held.as_secs_f64() / 300.0)),
            "{held:?}"
        );
    }

    proptest::proptest! {
        #[test]
        fn the_background_runs_as_long_as_it_was_held(waits in proptest::collection::vec(1_u64..1000, 1..100)) {
            let (holds, turns) = spells(TIMES, waits.into_iter().map(ms));
            for (held, ran) in holds.iter().zip(turns.iter().skip(1)) {
                proptest::prop_assert!(*held <= TIMES.within, "{held:?}");
                proptest::prop_assert!(ran >= held && *ran >= TIMES.within / 4, "{held:?} {ran:?}");
            }
        }
    }
}
