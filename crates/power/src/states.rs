//! What each idle state saves, and how long a stay must be for it to pay: its break-even residency.
//!
//! Only one state is allowed; CPUs are woken at several rates, and the power is taken. In each round the power is a
//! line over the entries to the state: P = p + E × entries/s, where p is the power of staying in it and E the energy of
//! an entry and the way back. A deeper state, with a lower p and a larger E, pays from stays of n (E − E′) / (p′ − p)
//! on, n being the number of CPUs that are woken and ′ the next shallower state.

mod fit;
pub mod result;
mod run;
pub mod show;

pub use result::{FILE, SCHEMA_VERSION, States, open, parse};
pub use run::{Options, RATES, names, run};
pub use show::words as break_even;
