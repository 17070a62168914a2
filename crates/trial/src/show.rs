//! Trials for people: the names, units and words of their figures.

pub mod compared;
