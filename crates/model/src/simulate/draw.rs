//! Random streams, and the draws that are made from them.
//!
//! Each purpose (arrivals, services, dispatch) of each replication, and of each server where servers
//! are simulated alone, has a stream of its own: xoshiro256++ (Blackman and Vigna, *Scrambled linear
//! pseudorandom number generators*, ACM TOMS 47, 2021), whose state comes from the seed. The same
//! draws are made whatever the policy, so that policies are compared on the same requests (common
//! random numbers), and whatever the number of threads.

use rand_distr::{Distribution, Exp1, Gamma, LogNormal};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use crate::service::Service;
use crate::{Error, Result};

pub(super) type Stream = Xoshiro256PlusPlus;

/// What a stream is for.
#[derive(Debug, Clone, Copy)]
pub(super) enum Purpose {
    Arrivals = 1,
    Services = 2,
    Dispatch = 3,
}

/// The stream of this purpose. `server` is 0 where all servers share it.
pub(super) fn stream(seed: u64, replication: u32, server: usize, purpose: Purpose) -> Stream {
    let parts = [u64::from(replication), server as u64, purpose as u64];
    let key = parts
        .iter()
        .fold(mixed(seed), |key, part| mixed(key ^ *part));
    Stream::seed_from_u64(key)
}

/// SplitMix64's step (Steele, Lea and Flood 2014): near inputs come out far apart.
fn mixed(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Exponential, mean 1 (ziggurat).
#[inline(always)]
pub(super) fn exponential(stream: &mut Stream) -> f64 {
    Exp1.sample(stream)
}

/// From 0 to below 1, in steps of 2⁻⁵³.
#[inline(always)]
pub(super) fn uniform(stream: &mut Stream) -> f64 {
    (stream.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
}

/// A whole number below `bound`. Its bias is at most bound/2⁶⁴.
#[inline(always)]
pub(super) fn below(stream: &mut Stream, bound: usize) -> usize {
    ((u128::from(stream.next_u64()) * bound as u128) >> 64) as usize
}

/// Positive times with a mean and a coefficient of variation.
#[derive(Debug, Clone)]
pub(super) enum Times {
    Exponential(f64),
    Fixed(f64),
    Gamma(Gamma<f64>),
    Lognormal(LogNormal<f64>),
    Measured(Vec<f64>),
}

impl Times {
    pub(super) fn of(service: &Service) -> Result<Self> {
        Ok(match service {
            Service::Exponential { mean } => Self::Exponential(*mean),
            Service::Deterministic { mean } => Self::Fixed(*mean),
            Service::Lognormal { mean, cv } => Self::lognormal(*mean, *cv)?,
            Service::Gamma { mean, cv } => Self::gamma(*mean, *cv)?,
            Service::Empirical { values } => Self::Measured(values.clone()),
        })
    }

    pub(super) fn gamma(mean: f64, cv: f64) -> Result<Self> {
        if cv == 0.0 {
            return Ok(Self::Fixed(mean));
        }
        let square = cv * cv;
        Gamma::new(1.0 / square, mean * square)
            .map(Self::Gamma)
            .map_err(|_| unfit("gamma", mean, cv))
    }

    pub(super) fn lognormal(mean: f64, cv: f64) -> Result<Self> {
        let variance = (cv * cv).ln_1p();
        LogNormal::new(mean.ln() - variance / 2.0, variance.sqrt())
            .map(Self::Lognormal)
            .map_err(|_| unfit("lognormal", mean, cv))
    }

    #[inline(always)]
    pub(super) fn draw(&self, stream: &mut Stream) -> f64 {
        match self {
            Self::Exponential(mean) => mean * exponential(stream),
            Self::Fixed(time) => *time,
            Self::Gamma(gamma) => gamma.sample(stream),
            Self::Lognormal(lognormal) => lognormal.sample(stream),
            Self::Measured(values) => values[below(stream, values.len())],
        }
    }
}

fn unfit(name: &str, mean: f64, cv: f64) -> Error {
    Error::Usage(format!(
        "{name}: a mean of {mean:?} s with a coefficient of variation of {cv:?} cannot be drawn; give both \
         nearer to 1"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use statrs::distribution::{ContinuousCDF, Exp, Gamma as GammaLaw, LogNormal as LognormalLaw};

    const DRAWS: usize = 100_000;

    fn sorted(times: &Times) -> Vec<f64> {
        let mut stream = stream(7, 0, 0, Purpose::Services);
        let mut drawn: Vec<f64> = (0..DRAWS).map(|_| times.draw(&mut stream)).collect();
        drawn.sort_by(f64::total_cmp);
        drawn
    }

    /// Kolmogorov and Smirnov's distance; it exceeds 1.95/√n for one in a thousand seeds, and this
    /// seed is fixed.
    #[track_caller]
    fn follows(drawn: &[f64], cdf: impl Fn(f64) -> f64) {
        let n = drawn.len() as f64;
        let far = drawn.iter().enumerate().map(|(place, value)| {
            let law = cdf(*value);
            (law - place as f64 / n)
                .abs()
                .max((law - (place + 1) as f64 / n).abs())
        });
        let far = far.fold(0.0, f64::max);
        assert!(far < 1.95 / n.sqrt(), "distance {far}");
    }

    #[test]
    fn draws_follow_their_distributions() {
        let exponential = Exp::new(100.0).unwrap();
        follows(&sorted(&Times::Exponential(0.01)), |x| exponential.cdf(x));
        for cv in [0.3, 1.7] {
            let (shape, rate) = (1.0 / (cv * cv), 1.0 / (0.01 * cv * cv));
            let gamma = GammaLaw::new(shape, rate).unwrap();
            follows(&sorted(&Times::gamma(0.01, cv).unwrap()), |x| gamma.cdf(x));
            let variance = f64::ln_1p(cv * cv);
            let law = LognormalLaw::new(0.01f64.ln() - variance / 2.0, variance.sqrt()).unwrap();
            follows(&sorted(&Times::lognormal(0.01, cv).unwrap()), |x| {
                law.cdf(x)
            });
        }
    }

    #[test]
    fn draws_have_the_moments_of_the_closed_forms() {
        let values = vec![0.002, 0.004, 0.006, 0.028];
        let (mean, cv) = (0.01, 0.9);
        for service in [
            Service::Exponential { mean },
            Service::Deterministic { mean },
            Service::Lognormal { mean, cv },
            Service::Gamma { mean, cv },
            Service::Empirical { values },
        ] {
            let drawn = sorted(&Times::of(&service).unwrap());
            let mean = drawn.iter().sum::<f64>() / DRAWS as f64;
            let second = drawn.iter().map(|x| x * x).sum::<f64>() / DRAWS as f64;
            assert!(
                (mean / service.mean() - 1.0).abs() < 0.015,
                "{service:?}: {mean}"
            );
            let off = (second / service.second_moment() - 1.0).abs();
            assert!(off < 0.05, "{service:?}: {second}");
        }
    }

    #[test]
    fn each_part_of_a_name_changes_the_stream() {
        let first = |mut stream: Stream| stream.next_u64();
        let mut seen = std::collections::HashSet::new();
        for seed in 0..4 {
            for replication in 0..4 {
                for server in 0..4 {
                    for purpose in [Purpose::Arrivals, Purpose::Services, Purpose::Dispatch] {
                        assert!(seen.insert(first(stream(seed, replication, server, purpose))));
                    }
                }
            }
        }
    }

    #[test]
    fn whole_numbers_below_a_bound_are_uniform() {
        let mut stream = stream(3, 0, 0, Purpose::Dispatch);
        let mut counts = [0u32; 7];
        (0..70_000).for_each(|_| counts[below(&mut stream, 7)] += 1);
        // Each count has a standard deviation of 93.
        assert!(
            counts.iter().all(|count| count.abs_diff(10_000) < 400),
            "{counts:?}"
        );
    }

    /// The first two numbers of SplitMix64 from 0, as printed by its authors' program.
    #[test]
    fn splitmix_separates_similar_inputs() {
        assert_eq!(mixed(0), 0xe220_a839_7b1d_cdaf);
        assert_eq!(mixed(0x9e37_79b9_7f4a_7c15), 0x6e78_9e6a_a1b9_65f4);
    }
}
