//! What if: the half is run again on its graph with something changed.
//!
//! Everything that is not changed keeps its duration and its lag; a step starts at the latest end of
//! what it waits for, plus its lag. A call that is removed leaves its place in the order of its process:
//! what waited for it waits for what it waited for. Without changes the result is the measured times.
//!
//! What a replay does not know:
//!
//! - what a log does not show (see [`crate::graph`]). An unexplained lag stays as it is, though what it
//!   waited for may be removed; and a call that seems to wait for another one may not have done so.
//!   This may be far off; the path marks it. What is doubtful does not count as a gain: the instant at
//!   which a removed call would have started is kept, and what started just after it, unexplained, waits
//!   for that instant. If the call itself had an unexplained wait, the next one in its process and the end
//!   of its stage wait for that instant as well: a device that no line shows may have delayed them.
//!   On generated machines whose truth is known, of the three best removals 97% are right to 2% of the
//!   whole where a tenth of the devices have suppliers, 96% where a kernel hands its devices over in
//!   turn, 85% where two CPUs run all calls, and 88% where there is all of this at once.
//! - which thread takes which call where CPUs or threads are few: the order that was stays.
//! - whether the kernel's own work before a call would be done by the time that another wait ends.
//!   These are microseconds.

mod change;
mod removal;
mod run;

pub use change::{Change, Pattern, Target};
pub(crate) use removal::removable;
pub use removal::{Next, REPLAYS, Removal, best_removals, steps};
pub use run::{Deferred, Replayed, replay};
