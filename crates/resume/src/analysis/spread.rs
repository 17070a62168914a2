//! Figures of several cycles.

use serde::{Deserialize, Serialize};

use crate::cycle::Us;

/// Figures of several cycles, µs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spread {
    /// The one in the middle; of an even number the mean of the two there.
    pub median: Us,
    /// The least.
    pub min: Us,
    /// The largest.
    pub max: Us,
    /// How many figures.
    pub count: usize,
}

/// `None` where there is no figure.
pub fn spread(mut figures: Vec<Us>) -> Option<Spread> {
    figures.sort_unstable();
    let count = figures.len();
    let (low, high) = (
        figures.get(count.checked_sub(1)? / 2)?,
        figures.get(count / 2)?,
    );
    Some(Spread {
        median: low.midpoint(*high),
        min: *figures.first()?,
        max: *figures.last()?,
        count: figures.len(),
    })
}
