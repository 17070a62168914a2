//! The second method: idle periods that datapoints are kept of, as cpuidle must have counted them.

/// How many there must have been.
#[derive(Debug, Default)]
pub struct Periods {
    count: u64,
    last_entry: u64,
}

impl Periods {
    /// A datapoint. `entry`: the number of the idle entry that was seen before it, 0 for none;
    /// `polls`: in a state in which a CPU takes interrupts without leaving it.
    ///
    /// Each datapoint must have a period of its own, and is held against cpuidle as if it had, even
    /// where the probe says that it shares one: that is what would be wrong. Only polling gives
    /// several of one, which come one after another.
    pub fn add(&mut self, entry: u64, polls: bool) {
        if !polls || entry == 0 || entry != self.last_entry {
            self.count += 1;
        }
        self.last_entry = entry;
    }

    /// Of those that are over, at `entry`, the last idle entry: cpuidle counts a period then.
    pub fn over_by(&self, entry: u64) -> u64 {
        let is_in_it = self.last_entry != 0 && self.last_entry == entry;
        self.count - u64::from(is_in_it)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(datapoints: &[(u64, bool)]) -> Periods {
        let mut periods = Periods::default();
        for &(entry, polls) in datapoints {
            periods.add(entry, polls);
        }
        periods
    }

    #[test]
    fn each_datapoint_of_a_state_that_sleeps_takes_a_period() {
        assert_eq!(of(&[(4, false), (5, false), (7, false)]).over_by(9), 3);
        // One entry cannot have given three.
        assert_eq!(of(&[(4, false), (4, false), (4, false)]).over_by(9), 3);
    }

    #[test]
    fn a_datapoint_without_an_entry_takes_a_period() {
        assert_eq!(of(&[(0, false), (0, false)]).over_by(9), 2);
        assert_eq!(of(&[(0, true), (0, true)]).over_by(0), 2);
    }

    #[test]
    fn of_one_time_of_polling_there_may_be_several() {
        assert_eq!(
            of(&[(4, true), (4, true), (5, true), (6, false)]).over_by(9),
            3
        );
    }

    #[test]
    fn a_period_that_goes_on_is_not_counted_yet() {
        assert_eq!(of(&[(4, false), (5, false)]).over_by(5), 1);
        assert_eq!(Periods::default().over_by(0), 0);
    }
}
