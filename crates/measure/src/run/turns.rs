//! Several sources take turns in rounds.
//!
//! Turns are short, so that drift (temperature, other work on the machine) affects all sources alike. Of as many
//! rounds as there are sources each source is first in one, and each has every other place once; which one follows
//! which is drawn anew after that.

use std::time::Duration;

/// As short as one turn may be: switching to another source takes some milliseconds.
const SHORTEST: Duration = Duration::from_millis(200);
/// As long as one turn should be.
const LONGEST: Duration = Duration::from_secs(1);
/// Rounds that short runs should have: a test of six rounds is significant only if all agree, and of several
/// states' tests more are needed.
const ROUNDS: u32 = 20;

/// How many rounds of `sources` a step has that takes `each` for each source; a multiple of `sources`.
pub fn rounds(sources: usize, each: Duration) -> u64 {
    if sources < 2 {
        return 1;
    }
    let turn = (each / ROUNDS).clamp(SHORTEST, LONGEST);
    let rounds = each.div_duration_f64(turn).round() as u64;
    rounds.max(1).next_multiple_of(sources as u64)
}

/// The order of the sources, round by round.
pub struct Order {
    random: fastrand::Rng,
    sources: Vec<usize>,
    round: usize,
}

impl Order {
    /// Of `sources` sources, at least one.
    pub fn new(sources: usize, seed: u64) -> Self {
        Self {
            random: fastrand::Rng::with_seed(seed),
            sources: (0..sources).collect(),
            round: 0,
        }
    }

    /// That of the next round.
    pub fn next_round(&mut self) -> Vec<usize> {
        match self.round % self.sources.len() {
            0 => self.random.shuffle(&mut self.sources),
            _ => self.sources.rotate_left(1),
        }
        self.round += 1;
        self.sources.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_as_many_rounds_as_sources_each_source_has_every_place_once() {
        for sources in 1..=4 {
            let mut order = Order::new(sources, 7);
            let mut firsts = Vec::new();
            for _ in 0..5 {
                let block: Vec<Vec<usize>> = (0..sources).map(|_| order.next_round()).collect();
                for place in 0..sources {
                    let mut there: Vec<usize> = block.iter().map(|round| round[place]).collect();
                    there.sort_unstable();
                    assert_eq!(there, (0..sources).collect::<Vec<_>>());
                }
                firsts.push(block[0][0]);
            }
            // The order is drawn, not always the same.
            firsts.dedup();
            assert!(sources == 1 || firsts.len() > 1, "{sources}: {firsts:?}");
        }
    }

    #[test]
    fn turns_last_a_second_or_less_and_there_are_twenty_rounds_if_the_time_allows() {
        let of = |sources, seconds| rounds(sources, Duration::from_secs_f64(seconds));
        assert_eq!(of(1, 3600.0), 1);
        assert_eq!((of(2, 15.0), of(2, 5.0), of(2, 4.0)), (20, 20, 20));
        // A turn of at least 200 ms.
        assert_eq!((of(2, 2.0), of(2, 0.05), of(2, 0.0)), (10, 2, 2));
        assert_eq!((of(2, 60.0), of(3, 60.0), of(3, 61.0)), (60, 60, 63));
    }
}
