//! The second method: the idle periods with datapoints, for comparison with cpuidle's counts.

/// The number of idle periods that cpuidle must have counted.
#[derive(Debug, Default)]
pub struct Periods {
    count: u64,
    last_entry: u64,
}

impl Periods {
    /// Adds a datapoint. `entry`: the number of the idle entry before it, 0: none was seen; `polls`:
    /// the CPU takes interrupts without leaving the state.
    ///
    /// Each datapoint must have its own period, and counts as if it had even if the probe's entry
    /// number differs: that would be the error to detect. Only polling gives several
    /// consecutive datapoints of one period.
    pub fn add(&mut self, entry: u64, polls: bool) {
        if !polls || entry == 0 || entry != self.last_entry {
            self.count += 1;
        }
        self.last_entry = entry;
    }

    /// The periods that are over at `entry`, the last idle entry: cpuidle counts a period at its end.
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
    fn each_datapoint_of_a_sleep_state_takes_a_period() {
        assert_eq!(of(&[(4, false), (5, false), (7, false)]).over_by(9), 3);
        // One entry cannot give three.
        assert_eq!(of(&[(4, false), (4, false), (4, false)]).over_by(9), 3);
    }

    #[test]
    fn a_datapoint_without_an_entry_takes_a_period() {
        assert_eq!(of(&[(0, false), (0, false)]).over_by(9), 2);
        assert_eq!(of(&[(0, true), (0, true)]).over_by(0), 2);
    }

    #[test]
    fn one_period_of_polling_may_have_several_datapoints() {
        assert_eq!(
            of(&[(4, true), (4, true), (5, true), (6, false)]).over_by(9),
            3
        );
    }

    #[test]
    fn an_unfinished_period_is_not_counted() {
        assert_eq!(of(&[(4, false), (5, false)]).over_by(5), 1);
        assert_eq!(Periods::default().over_by(0), 0);
    }
}
