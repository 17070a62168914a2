//! How long a bound outlasts its traffic: by the gaps between packets, where the rule leaves it open.
//!
//! A packet that comes later after the one before than the quiet time meets a CPU that is not held: the bound is
//! too late for it, and was held for nothing. So the quiet time is the shortest with which that happens to
//! no more than one packet in ten, for gaps of 2 s at most. Bursts with long pauses have few such
//! packets, and their pauses are not held.

use std::time::Duration;

use reveille_show::quantity::duration;
use serde::{Deserialize, Serialize};

/// The shortest quiet time that is chosen. Each release and hold wakes a thread twice, which takes some 20 µs: one per
/// mille of this.
pub const SHORTEST: Duration = Duration::from_millis(20);
/// One packet in so many may be late, the first of a burst: 10 % of the packets.
const LATE_IN: u64 = 10;
/// A quiet time that follows the traffic is no longer: `ping` sends once a second.
const MOST: Duration = Duration::from_secs(2);
/// Packets do not come at exact distances.
const MARGIN: f64 = 1.25;
/// So many times, and more, a bound has to have been late before that is said...
const LATE_MIN: u64 = 5;
/// ...and for one packet in so many: a request and its answer are some packets.
const SAID_IN: u64 = 4;

/// The quiet time of a rule.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Quiet {
    /// The rule's, or the one that the states ask for.
    pub least: Duration,
    /// It is longer where the traffic's gaps ask for that.
    pub follows: bool,
}

/// Gaps between packets on one CPU, lately.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Gaps {
    /// The longest ones: those that a quiet time could miss.
    pub long: Vec<Duration>,
    /// Packets of that time, these gaps' among them.
    pub packets: u64,
}

/// How many packets of late came after the bound had ended.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Late {
    /// Packets, or requests to a disk.
    pub packets: u64,
    /// Of these, those that met a CPU that was not held.
    pub late: u64,
    /// With a quiet time above this, s, no more than a tenth of them would have.
    pub above_s: f64,
}

impl Late {
    /// What to say of it, what to do, and what that costs: a clause.
    pub fn words(&self) -> String {
        let (late, packets) = (self.late, self.packets);
        let above = duration(self.above_s * 1e9);
        format!(
            "{late} of the last {packets} came too late: raise `quiet` above {above}, \
             and CPUs are held in between"
        )
    }
}

impl Quiet {
    /// The quiet time after traffic with such gaps.
    pub fn after(self, gaps: &Gaps) -> Duration {
        match gaps.missed_by(self.least) {
            Some(missed) if self.follows && missed <= MOST => missed.mul_f64(MARGIN),
            _ => self.least,
        }
    }
}

impl Gaps {
    /// The gap that a quiet time has to exceed so that no more than one packet in [`LATE_IN`] is late; `None` if
    /// this one is long enough.
    fn missed_by(&self, quiet: Duration) -> Option<Duration> {
        let allowed = usize::try_from(self.packets / LATE_IN).unwrap_or(usize::MAX);
        let mut longer: Vec<Duration> = self
            .long
            .iter()
            .copied()
            .filter(|gap| *gap > quiet)
            .collect();
        longer.sort_unstable_by(|a, b| b.cmp(a));
        longer.get(allowed).copied()
    }

    fn late(&self, quiet: Duration) -> u64 {
        self.long.iter().filter(|gap| **gap > quiet).count() as u64
    }
}

/// What to say of a rule's bound that mostly is too late, by each CPU's gaps and the quiet time there; `None` if it is
/// not.
pub fn late(cpus: &[(Gaps, Duration)]) -> Option<Late> {
    let all = Gaps {
        long: cpus
            .iter()
            .flat_map(|(gaps, _)| gaps.long.iter().copied())
            .collect(),
        packets: cpus.iter().map(|(gaps, _)| gaps.packets).sum(),
    };
    let longest = cpus.iter().map(|(_, quiet)| *quiet).max()?;
    let above = all.missed_by(longest)?;
    let late = Late {
        packets: all.packets,
        late: cpus.iter().map(|(gaps, quiet)| gaps.late(*quiet)).sum(),
        above_s: above.as_secs_f64(),
    };
    (late.late >= LATE_MIN && late.late * SAID_IN >= late.packets).then_some(late)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn gaps(long: &[u64], packets: u64) -> Gaps {
        Gaps {
            long: long.iter().map(|gap| ms(*gap)).collect(),
            packets,
        }
    }

    const FOLLOWS: Quiet = Quiet {
        least: Duration::from_millis(20),
        follows: true,
    };

    #[test]
    fn packets_at_a_distance_are_all_within_the_quiet_time_that_follows_them() {
        assert_eq!(FOLLOWS.after(&gaps(&[], 1)), ms(20));
        // From the second packet on, and a single longer gap changes little.
        assert_eq!(FOLLOWS.after(&gaps(&[200], 2)), ms(250));
        let mut twenty = vec![200; 19];
        twenty.push(1500);
        assert_eq!(FOLLOWS.after(&gaps(&twenty, 20)), ms(250));
        assert_eq!(
            FOLLOWS.after(&gaps(&[1001; 12], 12)),
            ms(1001).mul_f64(MARGIN)
        );
    }

    #[test]
    fn the_pauses_of_bursts_are_not_held_nor_what_no_quiet_time_reaches() {
        assert_eq!(FOLLOWS.after(&gaps(&[400; 16], 1600)), ms(20));
        assert_eq!(
            FOLLOWS.after(&gaps(&[400; 16], 160)),
            ms(20),
            "bursts of ten"
        );
        assert_eq!(
            FOLLOWS.after(&gaps(&[400; 16], 159)),
            ms(500),
            "shorter ones"
        );
        assert_eq!(FOLLOWS.after(&gaps(&[5000; 16], 16)), ms(20));
        let fixed = Quiet {
            follows: false,
            ..FOLLOWS
        };
        assert_eq!(fixed.after(&gaps(&[200; 16], 16)), ms(20));
    }

    #[test]
    fn a_bound_that_is_never_in_time_says_which_quiet_time_would_be() {
        let said = late(&[(gaps(&[200; 20], 20), ms(100))]).unwrap();
        assert_eq!((said.packets, said.late, said.above_s), (20, 20, 0.2));
        // The same packets, spread over CPUs; and one that has none.
        let four = gaps(&[200; 4], 4);
        assert_eq!(late(&[(four.clone(), ms(100))]), None, "too few");
        let both = [
            (four.clone(), ms(100)),
            (four, ms(100)),
            (gaps(&[], 0), ms(100)),
        ];
        assert_eq!(late(&both).unwrap().late, 8);
        // In time, and bursts whose first packets alone are late.
        assert_eq!(late(&[(gaps(&[200; 20], 20), ms(201))]), None);
        assert_eq!(late(&[(gaps(&[200; 20], 100), ms(100))]), None);
        assert!(late(&[(gaps(&[200; 20], 80), ms(100))]).is_some());
    }
}
