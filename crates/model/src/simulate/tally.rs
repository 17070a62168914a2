//! What requests met, in bounded memory.

use super::run::{Follow, Request};

/// The shares of requests whose response time is given as a percentile.
pub const PERCENTILES: [f64; 5] = [0.5, 0.9, 0.95, 0.99, 0.999];

/// A percentile needs so many requests beyond it, in each replication; with fewer it is not given.
const FEWEST_BEYOND: f64 = 10.0;

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
    pub(super) response_max: f64,
    /// Requests that were not served at once.
    pub(super) waited: u64,
    /// Requests that found the server asleep, or on the way there or back.
    pub(super) found_asleep: u64,
}

impl Follow for Tally {
    #[inline(always)]
    fn measured(&mut self, request: &Request) {
        let response = request.departure - request.arrival;
        let wait = request.start - request.arrival;
        let sums = &mut self.sums;
        sums.requests += 1;
        sums.response += response;
        sums.wait += wait;
        sums.response_max = sums.response_max.max(response);
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
        self.response_max = self.response_max.max(other.response_max);
        self.waited += other.waited;
        self.found_asleep += other.found_asleep;
    }
}

/// A log-linear histogram of times: octaves of 128 equal parts, as in HdrHistogram. What it gives
/// is the middle of a part: within 1/256 of the value.
#[derive(Debug, Clone)]
pub(super) struct Histogram {
    counts: Vec<u64>,
    total: u64,
}

const PARTS_BITS: u32 = 7;
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
    }

    pub(super) fn merge(&mut self, other: &Self) {
        let both = self.counts.iter_mut().zip(&other.counts);
        both.for_each(|(mine, count)| *mine += count);
        self.total += other.total;
    }

    /// The time that this share of requests does not exceed (the smallest rank is rounded up);
    /// `None` where too few lie beyond it.
    pub(super) fn percentile(&self, share: f64) -> Option<f64> {
        if self.total as f64 * (1.0 - share) < FEWEST_BEYOND {
            return None;
        }
        let rank = (self.total as f64 * share).ceil() as u64;
        let mut below = 0;
        let place = self.counts.iter().position(|count| {
            below += count;
            below >= rank
        })?;
        Some(Self::middle(place))
    }

    fn middle(place: usize) -> f64 {
        let Some(part) = place.checked_sub(1) else {
            return 0.0;
        };
        let bits =
            |part: usize| ((LOWEST_EXPONENT << PARTS_BITS) + part as u64) << (52 - PARTS_BITS);
        (f64::from_bits(bits(part)) + f64::from_bits(bits(part + 1))) / 2.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_histogram_gives_is_within_half_a_per_cent() {
        let mut time = 1e-9;
        while time < 1e10 {
            let given = Histogram::middle(Histogram::place(time));
            assert!(
                (given / time - 1.0).abs() <= 1.0 / 256.0 + 1e-12,
                "{time}: {given}"
            );
            time *= 1.000_7;
        }
        assert_eq!(Histogram::middle(Histogram::place(0.0)), 0.0);
        assert_eq!(Histogram::place(1e300), PARTS);
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
    fn percentiles_with_fewer_than_ten_requests_beyond_are_not_given() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.percentile(0.5), None);
        (0..999).for_each(|_| histogram.add(1.0));
        assert_eq!(histogram.percentile(0.99), None);
        histogram.add(1.0);
        histogram.add(1.0);
        assert!(histogram.percentile(0.99).is_some());
    }
}
