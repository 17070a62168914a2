//! What requests met, in bounded memory.

use super::plan::FEWEST_BEYOND;
use super::run::Request;

/// The shares of requests whose response time is given as a percentile.
pub const PERCENTILES: [f64; 5] = [0.5, 0.9, 0.95, P99, 0.999];

/// The one that answers name.
pub(super) const P99: f64 = 0.99;

/// What one run meets, or a part of its servers.
#[derive(Debug, Clone, Default)]
pub(super) struct Tally {
    pub(super) sums: Sums,
    pub(super) responses: Histogram,
}

/// Sums over requests.
#[derive(Debug, Clone, Default)]
pub(super) struct Sums {
    pub(super) requests: u64,
    pub(super) response: f64,
    pub(super) wait: f64,
    /// Requests that were not served at once.
    pub(super) waited: u64,
    /// Requests that found the server asleep, or on the way there or back.
    pub(super) found_asleep: u64,
}

impl Tally {
    #[inline(always)]
    pub(super) fn add(&mut self, request: &Request) {
        let response = request.departure - request.arrival;
        let wait = request.start - request.arrival;
        let sums = &mut self.sums;
        sums.requests += 1;
        sums.response += response;
        sums.wait += wait;
        sums.waited += u64::from(wait > 0.0);
        sums.found_asleep += u64::from(!request.found_ready);
        self.responses.add(response);
    }
}

impl Sums {
    /// The order of calls must not depend on threads: the sum of floating-point numbers depends on
    /// theirs.
    pub(super) fn merge(&mut self, other: &Self) {
        self.requests += other.requests;
        self.response += other.response;
        self.wait += other.wait;
        self.waited += other.waited;
        self.found_asleep += other.found_asleep;
    }
}

/// A log-linear histogram of times: octaves of 256 equal parts, as in HdrHistogram. What it gives
/// lies in the part where the asked rank is, at its place among the times there: off by 1/256 of it
/// at most.
#[derive(Debug, Clone)]
pub(super) struct Histogram {
    counts: Vec<u64>,
    total: u64,
    /// Exact.
    max: f64,
}

const PARTS_BITS: u32 = 8;
/// A percentile is off by this part of it at most.
pub const RESOLUTION: f64 = 1.0 / (1 << PARTS_BITS) as f64;
/// Times below 2⁻³⁰ s, about a nanosecond, are counted as one: as 0.
const LOWEST_EXPONENT: u64 = 1023 - 30;
/// Times from 2³⁴ s on, 500 years, are counted with the last part.
const OCTAVES: usize = 64;
const PARTS: usize = OCTAVES << PARTS_BITS;

impl Default for Histogram {
    fn default() -> Self {
        Self {
            counts: vec![0; 1 + PARTS],
            total: 0,
            max: 0.0,
        }
    }
}

impl Histogram {
    /// The exponent and the upper bits of the fraction are the place: times are 0 or above, and
    /// so ordered as their bits are.
    #[inline(always)]
    fn place(time: f64) -> usize {
        const LOWEST: u64 = (LOWEST_EXPONENT << PARTS_BITS) - 1;
        let bits = time.to_bits() >> (52 - PARTS_BITS);
        (bits.saturating_sub(LOWEST) as usize).min(PARTS)
    }

    #[inline(always)]
    fn add(&mut self, time: f64) {
        self.counts[Self::place(time)] += 1;
        self.total += 1;
        self.max = self.max.max(time);
    }

    pub(super) fn merge(&mut self, other: &Self) {
        let both = self.counts.iter_mut().zip(&other.counts);
        both.for_each(|(mine, count)| *mine += count);
        self.total += other.total;
        self.max = self.max.max(other.max);
    }

    pub(super) fn max(&self) -> f64 {
        self.max
    }

    /// The time that this share of requests does not exceed (the rank is rounded up); `None` where
    /// too few lie beyond it.
    pub(super) fn percentile(&self, share: f64) -> Option<f64> {
        // Whole numbers but for rounding stay what they are: 100 * 0.07.
        let rank = (self.total as f64 * share * (1.0 - 1e-12)).ceil() as u64;
        if self.total - rank < FEWEST_BEYOND {
            return None;
        }
        let mut below = 0;
        let place = self.counts.iter().position(|count| {
            below += count;
            below >= rank
        })?;
        let count = self.counts[place];
        let among = (rank + count - below) as f64 - 0.5;
        let (from, to) = Self::bounds(place);
        Some((from + (to - from) * among / count as f64).min(self.max))
    }

    fn bounds(place: usize) -> (f64, f64) {
        let Some(part) = place.checked_sub(1) else {
            return (0.0, 0.0);
        };
        let bits =
            |part: usize| ((LOWEST_EXPONENT << PARTS_BITS) + part as u64) << (52 - PARTS_BITS);
        (f64::from_bits(bits(part)), f64::from_bits(bits(part + 1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_is_a_256th_of_its_times_wide() {
        let mut time = 1e-9;
        while time < 1e10 {
            let (from, to) = Histogram::bounds(Histogram::place(time));
            assert!((from..to).contains(&time), "{time}: {from} to {to}");
            assert!((to - from) / from <= 1.0 / 256.0, "{time}: {from} to {to}");
            time *= 1.000_7;
        }
        assert_eq!(Histogram::bounds(Histogram::place(0.0)), (0.0, 0.0));
        assert_eq!(Histogram::place(1e300), PARTS);
    }

    #[test]
    fn equal_times_have_no_higher_percentile() {
        let mut histogram = Histogram::default();
        (0..100_000).for_each(|_| histogram.add(0.010));
        for share in PERCENTILES {
            let given = histogram.percentile(share).unwrap();
            assert!(
                (0.010 * (1.0 - 1.0 / 256.0)..=0.010).contains(&given),
                "{given}"
            );
        }
    }

    #[test]
    fn percentiles_are_those_of_the_sorted_times() {
        let mut histogram = Histogram::default();
        let times: Vec<f64> = (1..=20_000).map(|place| f64::from(place) * 1e-4).collect();
        times.iter().for_each(|time| histogram.add(*time));
        for share in PERCENTILES {
            let exact = times[(20_000.0 * share) as usize - 1];
            let given = histogram.percentile(share).unwrap();
            assert!(
                (given / exact - 1.0).abs() < 0.004,
                "{share}: {given}, not {exact}"
            );
        }
    }

    #[test]
    fn percentiles_with_fewer_than_ten_requests_beyond_are_unknown() {
        let given = |count: u32, share: f64| {
            let mut histogram = Histogram::default();
            (0..count).for_each(|_| histogram.add(1.0));
            histogram.percentile(share).is_some()
        };
        assert!(!given(0, 0.5));
        assert_eq!((given(19, 0.5), given(20, 0.5)), (false, true));
        assert_eq!((given(99, 0.9), given(100, 0.9)), (false, true));
        assert_eq!((given(199, 0.95), given(200, 0.95)), (false, true));
        assert_eq!((given(999, 0.99), given(1000, 0.99)), (false, true));
        assert_eq!((given(9999, 0.999), given(10_000, 0.999)), (false, true));
    }

    #[test]
    fn a_share_without_an_exact_binary_form_has_the_right_rank() {
        let mut histogram = Histogram::default();
        (1..100).for_each(|time| histogram.add(f64::from(time)));
        assert_eq!(histogram.percentile(0.9), None);
        // 100 * 0.07 is 7.000000000000001.
        histogram.add(100.0);
        let is_near = |share: f64, time: f64| {
            let given = histogram.percentile(share).unwrap();
            assert!((given / time - 1.0).abs() < 0.004, "{share}: {given}");
        };
        is_near(0.9, 90.0);
        is_near(0.07, 7.0);
    }

    #[test]
    fn a_rank_is_interpolated_within_its_bucket() {
        // 100 of 0.5 s; 400 in the bucket from 1 s to 1 + 1/256 s; 500 in that from 2 s to 2 +
        // 2/256 s, and the longest is near its end.
        let mut histogram = Histogram::default();
        (0..100).for_each(|_| histogram.add(0.5));
        (0..400).for_each(|_| histogram.add(1.0));
        (0..500).for_each(|_| histogram.add(2.0 + 1.999 / 256.0));
        let close = |share: f64, exact: f64| {
            let given = histogram.percentile(share).unwrap();
            assert!((given - exact).abs() < 1e-12, "{share}: {given}, {exact}");
        };
        close(0.05, 0.5 + 0.5 / 256.0 * 49.5 / 100.0);
        // The last of its bucket, and the first of the next.
        close(0.1, 0.5 + 0.5 / 256.0 * 99.5 / 100.0);
        close(0.101, 1.0 + 1.0 / 256.0 * 0.5 / 400.0);
        close(0.5, 1.0 + 1.0 / 256.0 * 399.5 / 400.0);
        close(0.75, 2.0 + 2.0 / 256.0 * 249.5 / 500.0);
        // A fractional rank is rounded up.
        close(0.7496, 2.0 + 2.0 / 256.0 * 249.5 / 500.0);
        assert_eq!(histogram.max(), 2.0 + 1.999 / 256.0);
    }

    #[test]
    fn times_at_the_ends_of_the_octaves_are_in_the_first_and_last_bucket() {
        let least = 2f64.powi(-30);
        let part = least / 256.0;
        for (time, place, bounds) in [
            (0.0, 0, (0.0, 0.0)),
            (least - part / 512.0, 0, (0.0, 0.0)),
            (least, 1, (least, least + part)),
            (least + part, 2, (least + part, least + 2.0 * part)),
            (2.0 * least, 257, (2.0 * least, 2.0 * least + 2.0 * part)),
            (
                2f64.powi(34) - 1.0,
                PARTS,
                (2f64.powi(34) - 2f64.powi(25), 2f64.powi(34)),
            ),
        ] {
            assert_eq!(Histogram::place(time), place, "{time}");
            assert_eq!(Histogram::bounds(place), bounds, "{time}");
        }
        assert_eq!(Histogram::place(2f64.powi(34)), PARTS);
    }

    #[test]
    fn merged_tallies_equal_the_tally_of_all() {
        let request = |arrival: f64, start: f64, departure: f64, found_ready| Request {
            server: 0,
            arrival,
            work: 9.0,
            start,
            departure,
            found_ready,
        };
        let (mut one, mut other) = (Tally::default(), Tally::default());
        one.add(&request(1.0, 1.0, 1.5, true));
        one.add(&request(2.0, 2.25, 4.0, false));
        other.add(&request(2.0, 4.0, 8.0, true));
        other.add(&request(16.0, 16.5, 17.0, false));
        other.add(&request(20.0, 20.5, 21.0, false));
        let sums = |sums: &Sums| {
            let seconds = (sums.response, sums.wait);
            (sums.requests, seconds, sums.waited, sums.found_asleep)
        };
        assert_eq!(sums(&one.sums), (2, (2.5, 0.25), 1, 1));
        assert_eq!(sums(&other.sums), (3, (8.0, 3.0), 3, 2));
        one.sums.merge(&other.sums);
        one.responses.merge(&other.responses);
        assert_eq!(sums(&one.sums), (5, (10.5, 3.25), 4, 3));
        assert_eq!((one.responses.total, one.responses.max()), (5, 6.0));
        let count = |time| one.responses.counts[Histogram::place(time)];
        assert_eq!([0.5, 1.0, 2.0, 6.0].map(count), [1, 2, 1, 1]);
        // The longest is in one of the two.
        let mut shorter = Histogram::default();
        shorter.add(3.0);
        one.responses.merge(&shorter);
        assert_eq!(one.responses.max(), 6.0);
    }
}
