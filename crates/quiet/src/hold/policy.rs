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
}

/// For how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    /// The background is held at most so long, and then runs at least so long.
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

/// A wait that has lasted this many times the limit no longer keeps the background from being held: the background ran for
/// most of it, and holding it once adds a tenth. Threads that wait for ever, such as idle ones of a pool, would keep it from being held for good.
const PATIENCE: u32 = 10;

/// The state of the background.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    times: Times,
    held: bool,
    since: Duration,
}

impl Policy {
    /// At this time the background runs.
    pub fn new(times: Times, now: Duration) -> Self {
        Self {
            times,
            held: false,
            since: now,
        }
    }

    /// What is to be done now. A step that holds or releases is taken as done.
    pub fn step(&mut self, now: Duration, foreground: Foreground) -> Step {
        let Times { within, after } = self.times;
        let limit = self.since + within;
        let foreground = match foreground {
            Foreground::MayWaitForBackground { since } if now >= since + PATIENCE * within => {
                Foreground::Waits { since }
            }
            other => other,
        };
        if self.held {
            let because = match foreground {
                Foreground::Waits { .. } if now < limit => return Step::Until(limit),
                Foreground::Waits { .. } => Because::Limit,
                _ => Because::ForegroundRuns,
            };
            (self.held, self.since) = (false, now);
            return Step::Release(because);
        }
        if now < limit {
            return Step::Until(limit);
        }
        match foreground {
            Foreground::Waits { since } if now < since + after => Step::Until(since + after),
            Foreground::Waits { .. } => {
                (self.held, self.since) = (true, now);
                Step::Hold
            }
            Foreground::MayWaitForBackground { since } => Step::Until(since + PATIENCE * within),
            Foreground::Runs => Step::UntilItWaits,
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
        // It has its turn, whatever the foreground does.
        assert_eq!(policy.step(ms(160), waits), Step::Until(ms(250)));
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
        assert_eq!(policy.step(ms(300), may), Step::Until(ms(1290)));
        assert_eq!(policy.step(ms(310), waits), Step::Hold);
        let runs = Step::Release(Because::ForegroundRuns);
        assert_eq!(policy.step(ms(311), may), runs);
        // It waits for ever.
        assert_eq!(policy.step(ms(1289), may), Step::Until(ms(1290)));
        assert_eq!(policy.step(ms(1290), may), Step::Hold);
        assert_eq!(policy.step(ms(1291), may), Step::Until(ms(1390)));
    }
}
