//! Whether a connection is used: by requests that are on their way, or were a while ago.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What a connection does.
#[derive(Debug, Clone)]
pub struct Used(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    open: usize,
    /// Since when, if none is open.
    idle: Instant,
    /// When something passed last.
    passed: Instant,
}

/// A request that is on its way.
#[derive(Debug)]
pub struct Open(Used);

impl Used {
    /// One that was made now.
    pub fn new(now: Instant) -> Self {
        Self(Arc::new(Mutex::new(State {
            open: 0,
            idle: now,
            passed: now,
        })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A request comes.
    pub fn open(&self) -> Open {
        let mut state = self.state();
        state.open += 1;
        state.passed = Instant::now();
        Open(self.clone())
    }

    /// Something passes.
    pub fn passes(&self) {
        self.state().passed = Instant::now();
    }

    /// For how long it could still be idle, of that time; `None` of a connection that is over.
    pub fn left(&self, longest: Duration, now: Instant) -> Option<Duration> {
        let state = self.state();
        match state.open {
            0 => left(longest, now, state.idle),
            _ => Some(longest),
        }
    }

    /// Within which time something must pass if that is to happen at least so often; `None`: nothing did.
    pub fn passes_within(&self, longest: Duration, now: Instant) -> Option<Duration> {
        left(longest, now, self.state().passed)
    }
}

/// What is left of a time that began then.
fn left(longest: Duration, now: Instant, since: Instant) -> Option<Duration> {
    let left = longest.checked_sub(now.saturating_duration_since(since));
    left.filter(|left| !left.is_zero())
}

impl Open {
    /// Something passes to the client.
    pub fn passes(&self) {
        self.0.passes();
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.open -= 1;
        state.idle = Instant::now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_over_once_it_was_idle_for_long() {
        let now = Instant::now();
        let s = Duration::from_secs;
        let used = Used::new(now);
        assert_eq!(used.left(s(60), now + s(20)), Some(s(40)));
        let open = [used.open(), used.open()];
        assert_eq!(used.left(s(60), now + s(600)), Some(s(60)));
        drop(open);
        assert_eq!(used.left(s(60), Instant::now() + s(61)), None);
    }

    #[test]
    fn what_passes_counts() {
        let s = Duration::from_secs;
        let past = Instant::now() - s(50);
        let used = Used::new(past);
        assert_eq!(used.passes_within(s(60), past + s(20)), Some(s(40)));
        let open = used.open();
        used.0.lock().unwrap().passed = past;
        open.passes();
        assert!(used.passes_within(s(60), Instant::now()).unwrap() > s(50));
        assert_eq!(used.passes_within(s(60), Instant::now() + s(61)), None);
    }
}
