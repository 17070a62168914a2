//! What one client may ask for, and why something is refused.

/// What one client may ask for. The engine sends its limits when a client connects; the process's own
/// thread has [`Limits::default`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Requests that are open (neither over nor cancelled) at a time.
    pub open: u32,
    /// The longest window, ns.
    pub window_ns: u64,
    /// How far ahead a window may begin, ns.
    pub ahead_ns: u64,
    /// Messages per second, including cancellations; a tenth of them may come at once.
    pub messages_per_second: u32,
    /// Time awake that may be asked for in any second, in millionths of it.
    pub awake_ppm: u32,
}

/// Requests that a [`Waker`](crate::Waker) holds at a time, at most.
pub const MAX_OPEN: u32 = 64;

impl Default for Limits {
    fn default() -> Self {
        Self {
            open: MAX_OPEN,
            // Some times what a disk or a GPU kernel takes; for longer waits a latency bound is better.
            window_ns: 10_000_000,
            ahead_ns: 10_000_000_000,
            // Operations of 200 µs without a pause: a request and a cancellation each.
            messages_per_second: 10_000,
            awake_ppm: 50_000,
        }
    }
}

/// The least time awake that a window is charged, ns: about what waking and going idle take.
pub const LEAST_CHARGED_NS: u64 = 50_000;

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// No time awake is left to the process.
    #[error("the process's budget of time awake is used up")]
    Budget,
    /// Too many requests are open, or came at once.
    #[error("too many requests are open, or too many came at once")]
    Limit,
    /// Its window is over.
    #[error("the window is over already")]
    Past,
    /// Its window begins too far ahead.
    #[error("the window begins too far ahead")]
    TooFar,
    /// Its window is longer than the engine opens one.
    #[error("the window is too long")]
    TooLong,
    /// Its window has no length.
    #[error("the window is empty")]
    Empty,
    /// That CPU is not there, is offline, or is not served.
    #[error("that CPU does not exist, is offline, or is not served")]
    Cpu,
    /// A newer engine's reason, which this library does not know.
    #[error("an unknown reason")]
    Other,
    /// No time awake is left to all of the user's processes together.
    #[error("the budget of time awake of all the user's processes is used up")]
    UserBudget,
    /// No place is left among that CPU's windows.
    #[error("as many windows are open on that CPU as this user, or all users, may have there")]
    Slots,
    /// No wake-up of that CPU is left to the user for the moment.
    #[error("the user's wake-ups of that CPU are used up for the moment")]
    Wakeups,
}

impl Refusal {
    /// By [`Refusal::index`], the number in the protocol; new ones come last.
    pub const ALL: [Self; 11] = [
        Self::Budget,
        Self::Limit,
        Self::Past,
        Self::TooFar,
        Self::TooLong,
        Self::Empty,
        Self::Cpu,
        Self::Other,
        Self::UserBudget,
        Self::Slots,
        Self::Wakeups,
    ];

    /// Its place in [`Refusal::ALL`].
    pub fn index(self) -> usize {
        self as usize
    }
}

/// When a CPU is to be awake, ns of CLOCK_MONOTONIC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Window {
    pub at_ns: u64,
    pub length_ns: u64,
}

impl Window {
    pub fn end_ns(self) -> u64 {
        self.at_ns.saturating_add(self.length_ns)
    }

    /// What is left of it at this instant, ns.
    pub fn left_ns(self, now_ns: u64) -> u64 {
        self.end_ns().saturating_sub(now_ns.max(self.at_ns))
    }
}

impl Limits {
    /// The window as planned: one that has already begun begins now.
    pub(crate) fn window(
        &self,
        now_ns: u64,
        at_ns: u64,
        length_ns: u64,
    ) -> Result<Window, Refusal> {
        if length_ns == 0 {
            return Err(Refusal::Empty);
        }
        if length_ns > self.window_ns {
            return Err(Refusal::TooLong);
        }
        if at_ns.saturating_sub(now_ns) > self.ahead_ns {
            return Err(Refusal::TooFar);
        }
        let left_ns = Window { at_ns, length_ns }.left_ns(now_ns);
        if left_ns == 0 {
            return Err(Refusal::Past);
        }
        Ok(Window {
            at_ns: at_ns.max(now_ns),
            length_ns: left_ns,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_window_is_refused_for_its_length_or_its_start() {
        let limits = Limits::default();
        let check = |at, length| limits.window(100 * SECOND, at, length);
        assert_eq!(check(101 * SECOND, 0), Err(Refusal::Empty));
        assert_eq!(check(101 * SECOND, 10_000_001), Err(Refusal::TooLong));
        assert_eq!(check(110 * SECOND + 1, 1), Err(Refusal::TooFar));
        assert_eq!(check(u64::MAX, 1), Err(Refusal::TooFar));
        assert_eq!(check(99 * SECOND, 1_000), Err(Refusal::Past));
        assert_eq!(check(100 * SECOND - 1_000, 1_000), Err(Refusal::Past));
        let whole = check(110 * SECOND, 10_000_000).unwrap();
        assert_eq!((whole.at_ns, whole.length_ns), (110 * SECOND, 10_000_000));
    }

    #[test]
    fn a_window_that_already_started_starts_now() {
        let window = Limits::default().window(100 * SECOND, 100 * SECOND - 400, 1_000);
        let rest = Window {
            at_ns: 100 * SECOND,
            length_ns: 600,
        };
        assert_eq!(window, Ok(rest));
    }

    #[test]
    fn refusals_have_their_documented_numbers() {
        for (place, refusal) in Refusal::ALL.into_iter().enumerate() {
            assert_eq!(refusal.index(), place);
        }
    }
}
