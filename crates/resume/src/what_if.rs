//! What if: the half is run again on its graph with something changed.
//!
//! Everything that is not changed keeps its duration and its lag; a step starts at the latest end of
//! what it waits for, plus its lag. A call that is taken out leaves its place in the order of its
//! process: what waited for it waits for what it waited for. Without changes the measured times come
//! out.
//!
//! What a replay cannot know: a device that waits for a supplier keeps the instant's distance from
//! its parent and its stage, though the supplier may be gone; and whether the kernel's own work
//! before a call would be done by the time that another wait ends. The first may be far off, and is
//! where the path says "not told"; the second is some microseconds per call.

mod change;
mod removal;
mod run;

pub use change::{Change, Pattern, Target};
pub use removal::{Removal, best_removals, steps};
pub(crate) use run::Run;
pub use run::{Deferred, Replayed, replay};
