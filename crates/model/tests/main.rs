//! Closed forms and the simulator: against the paper, each other, and a simulator by events.

mod agree;
mod paper;
mod plain;
mod shown;
mod simulate_by_events;
mod simulate_known;
