//! What a driver is asked for, so that its card interrupts at a known instant.
//!
//! A request (`PTP_PEROUT_REQUEST2`) has a start and a period. igb and igc interrupt at the start and then after each
//! half of the period, unless they choose *frequency mode*, in which the card drives the pin alone, without
//! interrupts. Source: `igb_ptp_feature_enable_i210()` and `igc_ptp_feature_enable_i225()` of the kernel.

const SECOND_NS: u64 = 1_000_000_000;

/// Up to this half period, ns, both drivers choose frequency mode...
const FREQUENCY_UP_TO_NS: u64 = 70_000_000;
/// ...and for these.
const FREQUENCY_ALSO_NS: [u64; 3] = [125_000_000, 250_000_000, 500_000_000];

/// igc: the shortest with interrupts.
const SHORTEST_NS: u64 = FREQUENCY_UP_TO_NS + 1;
/// igc: at a longer distance than this, ns, the launch before would come within it.
const LONGEST_DISTANCE_NS: u64 = 65_000_000;
/// igb: the next request comes long before the second edge.
const LONG_NS: u64 = 2 * SECOND_NS;

/// igc moves a start that is less than two seconds ahead, of whole ones. If the second ends while it is asked, the
/// start must still be ahead of that.
const IGC_AHEAD_S: u64 = 2;
const IGC_ASKED_WITHIN_NS: u64 = 100_000_000;

const _: () = assert!(LONGEST_DISTANCE_NS < SHORTEST_NS);
const _: () = assert!(interrupts(SHORTEST_NS) && interrupts(LONG_NS));

/// Whether a driver interrupts for a request of that half period.
const fn interrupts(half_ns: u64) -> bool {
    let mut frequency = half_ns <= FREQUENCY_UP_TO_NS;
    let mut at = 0;
    while at < FREQUENCY_ALSO_NS.len() {
        frequency |= half_ns == FREQUENCY_ALSO_NS[at];
        at += 1;
    }
    !frequency
}

/// How launches are had from a driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// igb, of an i210 or i211: a request for each launch.
    EachLaunch,
    /// igc: one request, with a launch each 70 ms.
    Periodic,
}

/// Edges of the card's clock, ns: the start, and after it each half of a period. Each interrupts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    pub start_ns: u64,
    half_ns: u64,
}

impl Rule {
    /// Of the driver of that name; `has_pps`: its clock gives a pulse per second. Otherwise, what it cannot.
    pub fn of(driver: &str, has_pps: bool) -> Result<Self, &'static str> {
        match (driver, has_pps) {
            ("igb", true) => Ok(Self::EachLaunch),
            ("igb", false) => Err(
                "of this card (82576, 82580, i350, i354) takes no target time; that of an i210 or i211 does",
            ),
            ("igc", _) => Ok(Self::Periodic),
            _ => Err(
                "takes no target time that reveille knows of; igb (i210, i211) and igc (i225, i226) do",
            ),
        }
    }

    /// From a launch to the next one if nothing else is requested, ns.
    pub fn interval_ns(self) -> u64 {
        match self {
            Self::EachLaunch => LONG_NS,
            Self::Periodic => SHORTEST_NS,
        }
    }

    /// The request for a launch at `target_ns`, or for launches from now on. `now_ns`: the card's clock.
    pub fn request(self, now_ns: u64, target_ns: u64) -> Request {
        match self {
            Self::EachLaunch => Request {
                start_ns: target_ns,
                half_ns: self.interval_ns(),
            },
            Self::Periodic => {
                let latest = now_ns + IGC_ASKED_WITHIN_NS;
                Request {
                    start_ns: (latest / SECOND_NS + IGC_AHEAD_S) * SECOND_NS,
                    half_ns: self.interval_ns(),
                }
            }
        }
    }

    /// The least time between launches, ns; 0: any.
    pub fn least_ns(self) -> u64 {
        match self {
            Self::EachLaunch => 0,
            Self::Periodic => SHORTEST_NS,
        }
    }

    /// The longest launch distance, ns; `None`: any.
    pub fn longest_ns(self) -> Option<u64> {
        (self == Self::Periodic).then_some(LONGEST_DISTANCE_NS)
    }
}

impl Request {
    pub fn period_ns(&self) -> u64 {
        2 * self.half_ns
    }

    /// Whether the clock was set back between two readings, so that an edge to come has been before: it will not come.
    pub fn was_set_back(&self, earlier_ns: u64, later_ns: u64) -> bool {
        self.edge(later_ns) <= earlier_ns
    }

    /// The first edge at `from_ns` or later.
    pub fn edge(&self, from_ns: u64) -> u64 {
        let halves = from_ns.saturating_sub(self.start_ns).div_ceil(self.half_ns);
        self.start_ns + halves * self.half_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the drivers' code decides.
    fn use_freq(period_ns: u64) -> bool {
        let ns = period_ns >> 1;
        ns <= 70_000_000 || ns == 125_000_000 || ns == 250_000_000 || ns == 500_000_000
    }

    #[test]
    fn no_request_is_turned_into_frequency_mode() {
        for rule in [Rule::EachLaunch, Rule::Periodic] {
            for now in [0, 999_999_999, 5_123_456_789] {
                let request = rule.request(now, now + 100_000);
                assert!(!use_freq(request.period_ns()), "{request:?}");
                // The edges are halves of the period.
                let next = request.edge(request.start_ns + 1);
                assert_eq!(2 * (next - request.start_ns), request.period_ns());
            }
        }
        for half in [1, 70_000_000, 125_000_000, 250_000_000, 500_000_000] {
            assert!(!interrupts(half), "{half}");
        }
        assert!(interrupts(70_000_001) && interrupts(125_000_001));
    }

    #[test]
    fn igb_is_asked_for_each_launch() {
        let request = Rule::EachLaunch.request(1_000, 77_000);
        assert_eq!(request.start_ns, 77_000);
        assert_eq!(request.edge(1_500), 77_000);
    }

    #[test]
    fn igc_does_not_move_a_start() {
        // As the driver: a start before two seconds from now, of whole ones, is moved.
        let moved = |start_ns: u64, now_ns: u64| {
            let (start_s, safe_s) = (start_ns / SECOND_NS, now_ns / SECOND_NS + 2);
            start_s.max(safe_s) * SECOND_NS + start_ns % SECOND_NS
        };
        for now in [
            0,
            1,
            899_999_999,
            900_000_000,
            999_999_999,
            1_000_000_000,
            41_950_000_000,
        ] {
            let start = Rule::Periodic.request(now, 0).start_ns;
            for asked_after in [0, 50_000_000, IGC_ASKED_WITHIN_NS] {
                assert_eq!(moved(start, now + asked_after), start, "{now}");
            }
            assert!(start - now <= 3 * SECOND_NS, "{now}");
        }
    }

    #[test]
    fn the_next_edge_is_at_that_time_or_later() {
        let request = Request {
            start_ns: 1_000,
            half_ns: 100,
        };
        let edges = [0, 1_000, 1_001, 1_100, 1_101].map(|from| request.edge(from));
        assert_eq!(edges, [1_000, 1_000, 1_100, 1_100, 1_200]);
    }

    #[test]
    fn an_edge_before_which_the_clock_was_set_back_does_not_come_again() {
        let request = Request {
            start_ns: 1_000,
            half_ns: 100,
        };
        for (earlier, later, set_back) in [
            (500, 600, false),
            (1_240, 1_250, false),
            // Back, but not before an edge.
            (1_250, 1_210, false),
            (1_250, 1_201, false),
            (1_250, 1_200, true),
            (1_250, 1_150, true),
            (5_000, 500, true),
            // Before the first.
            (900, 500, false),
        ] {
            let answer = request.was_set_back(earlier, later);
            assert_eq!(answer, set_back, "{earlier} {later}");
        }
    }

    #[test]
    fn cards_without_a_target_time_are_told_from_others() {
        assert_eq!(Rule::of("igb", true), Ok(Rule::EachLaunch));
        assert_eq!(Rule::of("igc", true), Ok(Rule::Periodic));
        assert!(Rule::of("igb", false).unwrap_err().contains("i350"));
        assert!(Rule::of("e1000e", true).unwrap_err().contains("i225"));
    }
}
