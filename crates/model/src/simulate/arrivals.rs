//! When requests come.

use super::draw::{self, Stream, Times};
use super::trace::Trace;
use crate::Result;

/// The arrival process. Rates are requests a second, to all servers together.
#[derive(Debug, Clone, PartialEq)]
pub enum Arrivals {
    /// Exponential times between requests.
    Poisson {
        /// A second.
        rate: f64,
    },
    /// Evenly spaced.
    Deterministic {
        /// A second.
        rate: f64,
    },
    /// Independent times between requests, gamma.
    Gamma {
        /// A second.
        rate: f64,
        /// The times' coefficient of variation.
        cv: f64,
    },
    /// Independent times between requests, lognormal.
    Lognormal {
        /// A second.
        rate: f64,
        /// The times' coefficient of variation.
        cv: f64,
    },
    /// Independent times between requests, either of two exponentials that have half of the time
    /// each (balanced means). Requests come in clusters.
    Hyperexponential {
        /// A second.
        rate: f64,
        /// The times' coefficient of variation: 1 or above.
        cv: f64,
    },
    /// A Poisson process whose rate changes between two (Markov-modulated), each for exponential
    /// times. With a rate of 0 it is an interrupted Poisson process: bursts and silence.
    Bursty {
        /// A second.
        rates: [f64; 2],
        /// The mean time of each, s.
        stays: [f64; 2],
    },
    /// As recorded.
    Trace(Trace),
}

impl Arrivals {
    /// Requests a second in the mean. For a trace: (requests − 1) by the time from the first to the
    /// last; infinite where that is 0.
    pub fn rate(&self) -> f64 {
        match self {
            Self::Poisson { rate }
            | Self::Deterministic { rate }
            | Self::Gamma { rate, .. }
            | Self::Lognormal { rate, .. }
            | Self::Hyperexponential { rate, .. } => *rate,
            Self::Bursty { rates, stays } => {
                (rates[0] * stays[0] + rates[1] * stays[1]) / (stays[0] + stays[1])
            }
            Self::Trace(trace) => trace.rate(),
        }
    }

    /// The index of dispersion for counts over long times: the variance of the number of requests by
    /// its mean; for renewal processes cv². 0 for a trace, of which nothing is assumed.
    pub(crate) fn dispersion(&self) -> f64 {
        match self {
            Self::Poisson { .. } => 1.0,
            Self::Deterministic { .. } | Self::Trace(_) => 0.0,
            Self::Gamma { cv, .. }
            | Self::Lognormal { cv, .. }
            | Self::Hyperexponential { cv, .. } => cv * cv,
            // Heffes and Lucantoni, IEEE JSAC 4 (1986), with r_i = 1/stays[i].
            Self::Bursty { rates, stays } => {
                let leave = stays.map(|stay| 1.0 / stay);
                let both = leave[0] + leave[1];
                let apart = rates[0] - rates[1];
                1.0 + 2.0 * apart * apart * leave[0] * leave[1]
                    / (both * both * (rates[0] * leave[1] + rates[1] * leave[0]))
            }
        }
    }

    /// Seconds in which the process forgets its state: 0 for renewal processes.
    pub(super) fn memory(&self) -> f64 {
        match self {
            Self::Bursty { stays, .. } => stays[0] * stays[1] / (stays[0] + stays[1]),
            _ => 0.0,
        }
    }

    /// # Errors
    /// [`crate::Error::Usage`] for an invalid figure.
    pub fn check(&self) -> Result<()> {
        match self {
            Self::Poisson { rate } | Self::Deterministic { rate } => positive("rate", *rate),
            Self::Gamma { rate, cv } | Self::Lognormal { rate, cv } => {
                positive("rate", *rate)?;
                ensure!(
                    (LEAST_CV..=MOST_CV).contains(cv),
                    "arrivals, cv: {cv:?}; give {LEAST_CV} to {MOST_CV}; evenly spaced arrivals are \
                     `deterministic`"
                );
                Ok(())
            }
            Self::Hyperexponential { rate, cv } => {
                positive("rate", *rate)?;
                ensure!(
                    (1.0..=MOST_CV).contains(cv),
                    "arrivals, cv: {cv:?}; a hyperexponential has 1 to {MOST_CV}; gamma takes less"
                );
                Ok(())
            }
            Self::Bursty { rates, stays } => {
                for stay in stays {
                    ensure!(
                        STAYS.contains(stay),
                        "arrivals, stays: {stay:?} s; give {:e} to {:e} s",
                        STAYS.start(),
                        STAYS.end()
                    );
                }
                let [first, second] = *rates;
                ensure!(
                    rates.iter().all(|rate| *rate >= 0.0 && rate.is_finite())
                        && first + second > 0.0,
                    "arrivals, rates: {first} and {second}; give two of 0 or above, one of them above 0"
                );
                Ok(())
            }
            Self::Trace(trace) => trace.check(),
        }
    }

    /// The instants at which requests come, from time 0 on; the rate is multiplied with `share`,
    /// which only a Poisson process may be (a random part of it is one again).
    pub(super) fn stream(&self, share: f64, mut stream: Stream) -> Result<Arriving<'_>> {
        let gaps = match self {
            Self::Poisson { rate } => Gaps::Renewal(Times::Exponential(1.0 / (rate * share))),
            Self::Deterministic { rate } => Gaps::Renewal(Times::Fixed(1.0 / rate)),
            Self::Gamma { rate, cv } => Gaps::Renewal(Times::gamma(1.0 / rate, *cv)?),
            Self::Lognormal { rate, cv } => Gaps::Renewal(Times::lognormal(1.0 / rate, *cv)?),
            Self::Hyperexponential { rate, cv } => {
                let square = cv * cv;
                let first = (((square - 1.0) / (square + 1.0)).sqrt() + 1.0) / 2.0;
                Gaps::Hyperexponential {
                    first,
                    means: [first, 1.0 - first].map(|p| 1.0 / (2.0 * p * rate)),
                }
            }
            Self::Bursty { rates, stays } => {
                let in_first = stays[0] / (stays[0] + stays[1]);
                let phase = usize::from(draw::uniform(&mut stream) >= in_first);
                Gaps::Bursty {
                    rates: *rates,
                    stays: *stays,
                    phase,
                    left: stays[phase] * draw::exponential(&mut stream),
                }
            }
            Self::Trace(trace) => Gaps::Trace(trace.arrivals().iter()),
        };
        Ok(Arriving {
            at: 0.0,
            gaps,
            stream,
        })
    }
}

/// Coefficients of variation: below, all gaps are the same but for their last digits; above, the
/// warm-up would not end.
const LEAST_CV: f64 = 1e-3;
const MOST_CV: f64 = 1000.0;
/// Seconds that a rate may last in the mean.
const STAYS: std::ops::RangeInclusive<f64> = 1e-9..=1e9;

fn positive(name: &str, value: f64) -> Result<()> {
    ensure!(
        value > 0.0 && value.is_finite(),
        "arrivals, {name}: {value}; give a number above 0"
    );
    Ok(())
}

/// Requests as they come.
#[derive(Debug)]
pub(super) struct Arriving<'a> {
    at: f64,
    gaps: Gaps<'a>,
    stream: Stream,
}

#[derive(Debug)]
enum Gaps<'a> {
    Renewal(Times),
    Hyperexponential {
        /// The probability of the first mean.
        first: f64,
        means: [f64; 2],
    },
    Bursty {
        rates: [f64; 2],
        stays: [f64; 2],
        phase: usize,
        /// Seconds until the rate changes.
        left: f64,
    },
    Trace(std::slice::Iter<'a, f64>),
}

impl Arriving<'_> {
    /// When the next request comes; infinite after a trace's last.
    #[inline(always)]
    pub(super) fn next(&mut self) -> f64 {
        let stream = &mut self.stream;
        self.at += match &mut self.gaps {
            Gaps::Renewal(times) => times.draw(stream),
            Gaps::Hyperexponential { first, means } => {
                let which = usize::from(draw::uniform(stream) >= *first);
                means[which] * draw::exponential(stream)
            }
            Gaps::Bursty {
                rates,
                stays,
                phase,
                left,
            } => {
                let mut gap = 0.0;
                loop {
                    // By 0 it is infinite: no request before the rate changes.
                    let next = draw::exponential(stream) / rates[*phase];
                    if next < *left {
                        *left -= next;
                        break gap + next;
                    }
                    gap += *left;
                    *phase = 1 - *phase;
                    *left = stays[*phase] * draw::exponential(stream);
                }
            }
            Gaps::Trace(arrivals) => {
                self.at = arrivals.next().copied().unwrap_or(f64::INFINITY);
                0.0
            }
        };
        self.at
    }
}

#[cfg(test)]
mod tests {
    use super::super::draw::{Purpose, stream};
    use super::*;

    /// Requests in each of many long spans.
    fn counts(arrivals: &Arrivals, span: f64, spans: usize) -> Vec<f64> {
        let mut arriving = arrivals
            .stream(1.0, stream(11, 0, 0, Purpose::Arrivals))
            .unwrap();
        let mut counts = vec![0.0; spans];
        loop {
            let place = (arriving.next() / span) as usize;
            match counts.get_mut(place) {
                Some(count) => *count += 1.0,
                None => return counts,
            }
        }
    }

    #[test]
    fn processes_have_their_rates_and_their_dispersion() {
        let rate = 20.0;
        for arrivals in [
            Arrivals::Poisson { rate },
            Arrivals::Gamma { rate, cv: 0.5 },
            Arrivals::Lognormal { rate, cv: 1.5 },
            Arrivals::Hyperexponential { rate, cv: 3.0 },
            Arrivals::Bursty {
                rates: [100.0, 0.0],
                stays: [0.5, 2.0],
            },
            Arrivals::Bursty {
                rates: [50.0, 5.0],
                stays: [1.0, 2.0],
            },
        ] {
            arrivals.check().unwrap();
            let counts = counts(&arrivals, 100.0, 2000);
            let mean = counts.iter().sum::<f64>() / 2000.0;
            let variance = counts.iter().map(|n| (n - mean) * (n - mean)).sum::<f64>() / 1999.0;
            let of = mean / 100.0 / arrivals.rate();
            assert!((of - 1.0).abs() < 0.02, "{arrivals:?}: {mean}");
            // The variance of 2000 counts is known to 3% (standard error).
            let dispersion = variance / mean / arrivals.dispersion();
            assert!(
                (0.85..1.15).contains(&dispersion),
                "{arrivals:?}: {dispersion}"
            );
        }
    }

    #[test]
    fn even_arrivals_are_equally_spaced() {
        let even = Arrivals::Deterministic { rate: 4.0 };
        let mut arriving = even
            .stream(1.0, stream(0, 0, 0, Purpose::Arrivals))
            .unwrap();
        assert_eq!([(); 3].map(|()| arriving.next()), [0.25, 0.5, 0.75]);
    }

    #[test]
    fn invalid_values_are_refused() {
        for (arrivals, expected) in [
            (Arrivals::Poisson { rate: 0.0 }, "rate: 0"),
            (
                Arrivals::Gamma {
                    rate: 1.0,
                    cv: -1.0,
                },
                "cv: -1",
            ),
            (
                Arrivals::Hyperexponential { rate: 1.0, cv: 0.5 },
                "gamma takes less",
            ),
            (
                Arrivals::Bursty {
                    rates: [0.0, 0.0],
                    stays: [1.0, 1.0],
                },
                "one of them above 0",
            ),
            (Arrivals::Poisson { rate: f64::NAN }, "rate: NaN"),
        ] {
            let error = arrivals.check().unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn bursts_match_a_calculation_by_hand() {
        let bursty = Arrivals::Bursty {
            rates: [8.0, 2.0],
            stays: [0.5, 0.25],
        };
        assert_eq!(bursty.rate(), 6.0);
        // Leaving rates 2 and 4 per second: 1 + 2 · 6² · 2 · 4 / (6² · (8 · 4 + 2 · 2)).
        assert!((bursty.dispersion() - (1.0 + 576.0 / 1296.0)).abs() < 1e-12);
        assert!((bursty.memory() - 1.0 / 6.0).abs() < 1e-12);
        assert_eq!(Arrivals::Poisson { rate: 3.0 }.memory(), 0.0);
    }

    #[test]
    fn values_are_accepted_up_to_their_limits() {
        let rate = 1.0;
        let bursty = |rates, stays| Arrivals::Bursty { rates, stays };
        let hyper = |cv| Arrivals::Hyperexponential { rate, cv };
        for arrivals in [
            Arrivals::Poisson { rate: 1e-300 },
            Arrivals::Gamma { rate, cv: 1e-3 },
            Arrivals::Lognormal { rate, cv: 1000.0 },
            hyper(1.0),
            hyper(1000.0),
            bursty([0.0, 5.0], [1e-9, 1e9]),
            bursty([5.0, 5.0], [1e9, 1e-9]),
        ] {
            assert_eq!(arrivals.check(), Ok(()), "{arrivals:?}");
        }
        let said = [
            Arrivals::Poisson {
                rate: f64::INFINITY,
            },
            Arrivals::Deterministic { rate: 0.0 },
            Arrivals::Gamma {
                rate: -1.0,
                cv: 1.0,
            },
            Arrivals::Gamma { rate, cv: 0.0009 },
            Arrivals::Lognormal { rate, cv: 1001.0 },
            hyper(0.99),
            hyper(1001.0),
            bursty([1.0, 1.0], [0.5, 0.0]),
            bursty([1.0, 1.0], [2e9, 1.0]),
            bursty([-1.0, 2.0], [1.0, 1.0]),
            bursty([1.0, f64::INFINITY], [1.0, 1.0]),
            bursty([0.0, 0.0], [1.0, 1.0]),
        ]
        .map(|arrivals| (format!("{arrivals:?}"), format!("{:?}", arrivals.check())));
        reveille_snapshot::snapshot!("errors", said);
    }

    /// A thousand streams.
    fn streams(arrivals: &Arrivals) -> impl Iterator<Item = Arriving<'_>> {
        (0..1000).map(|replication| {
            let stream = stream(5, replication, 0, Purpose::Arrivals);
            arrivals.stream(1.0, stream).unwrap()
        })
    }

    #[test]
    fn bursts_start_in_their_steady_state() {
        // A quarter of the time there are requests, one per millisecond; then there is none.
        let bursty = Arrivals::Bursty {
            rates: [1000.0, 0.0],
            stays: [0.5, 1.5],
        };
        let (mut started, mut requests) = (0, 0);
        for mut arriving in streams(&bursty) {
            // Nearly no burst starts so early, and nearly no request of one comes later.
            let mut last = arriving.next();
            if last > 0.008 {
                continue;
            }
            started += 1;
            // A silence is shorter than this once in a hundred times.
            loop {
                requests += 1;
                let next = arriving.next();
                if next - last > 0.015 {
                    break;
                }
                last = next;
            }
        }
        // Standard deviations: 14 of 250, and 32 of the 500 requests in 0.5 s.
        assert!((200..310).contains(&started), "{started}");
        let each = f64::from(requests) / f64::from(started);
        assert!((400.0..610.0).contains(&each), "{each}");
    }

    #[test]
    fn splitting_a_poisson_process_splits_its_rate() {
        let poisson = Arrivals::Poisson { rate: 8.0 };
        let stream = stream(5, 0, 0, Purpose::Arrivals);
        let mut arriving = poisson.stream(0.25, stream).unwrap();
        let last = (0..10_000).fold(0.0, |_, _| arriving.next());
        // 10 000 gaps of 0.5 s; a hundredth is the standard deviation.
        assert!((4800.0..5200.0).contains(&last), "{last}");
    }
}
