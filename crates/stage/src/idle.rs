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
}

/// A request that is on its way.
#[derive(Debug)]
pub struct Open(Used);

impl Used {
    /// One that was made now.
    pub fn new(now: Instant) -> Self {
        Self(Arc::new(Mutex::new(State { open: 0, idle: now })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A request comes.
    pub fn open(&self) -> Open {
        self.state().open += 1;
        Open(self.clone())
    }

    /// For how long it could still be idle, of that time; `None` of a connection that is over.
    pub fn left(&self, longest: Duration, now: Instant) -> Option<Duration> {
        let state = self.state();
        let idle = match state.open {
            0 => now.saturating_duration_since(state.idle),
            _ => Duration::ZERO,
        };
        longest.checked_sub(idle).filter(|left| !left.is_zero())
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
}
