//! Logs, what is read in them, the cycles, and how they are shown.

mod analysis;
mod any_cycle;
mod attacked;
mod clocks;
mod coarse;
mod ends;
mod generator;
mod graph;
mod hand;
mod log;
mod owned;
mod paper;
mod parts;
mod pasted;
mod reading;
mod real;
mod rules;
mod sheet;
mod shown;
mod structure;
mod times;
mod unseen;
