//! The M/G/1 queue whose server needs a setup time before it serves again after idleness.
//!
//! P. D. Welch, "On a Generalized M/G/1 Queuing Process in which the First Customer of Each Busy
//! Period Receives Exceptional Service", *Operations Research* 12 (1964), 736-752; in this form in
//! H. Levy and L. Kleinrock, "A Queue with Starter and a Queue with Vacations", *Operations Research*
//! 34 (1986), 426-436, and in D. Meisner, B. T. Gold and T. F. Wenisch, "PowerNap", ASPLOS 2009.
//!
//! Let λ be the rate, S the service time, ρ = λE\[S\], and I the time from the arrival that ends an
//! idle period to the beginning of its service. I may depend on how long that idle period was (it
//! does, where the server was still on its way to sleep), but not on later arrivals. Then
//!
//! ```text
//! E[W] = λE[S²] / (2(1 − ρ))  +  (2E[I] + λE[I²]) / (2(1 + λE[I]))
//! ```
//!
//! **Derivation.** The mean wait of a Poisson arrival is, by PASTA, the mean wait that the state of
//! the server means to it. W(I) decomposes (Fuhrmann and Cooper 1985): the number in the system is
//! that of an M/G/1 queue plus, independently, what an arrival finds during a time without service.
//! Per cycle such time is one idle period, in which the queue is empty, and I. Of the arrivals
//! outside service, 1 per cycle ends the idle period (it waits I, with nobody before it) and λE\[I\]
//! come during I; who comes at age a of I finds 1 + N(a) before it. Summed over a cycle the queue that
//! they find is ∫₀ᴵ (1 + λa) λ da = λI + λ²I²/2, and there are 1 + λI of them; the mean is
//! (λE\[I\] + λ²E\[I²\]/2) / (1 + λE\[I\]). Little's law (division by λ) makes it the second term.
//!
//! **The cycle.** In a cycle 1 + λI requests come before service begins, and each begins a busy
//! period of mean E\[S\]/(1 − ρ), so that E\[C\] = (1/λ + E\[I\]) / (1 − ρ), and ρ is the share of
//! service whatever the policy. By renewal-reward each other share is (1 − ρ) · (its mean time in a
//! cycle) / (1/λ + E\[I\]).

use crate::service::Service;

/// The first two moments of the setup time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Setup {
    /// E\[I\], seconds.
    pub mean: f64,
    /// E\[I²\], seconds squared.
    pub second_moment: f64,
}

impl Setup {
    /// Ready at once.
    pub const NONE: Self = Self {
        mean: 0.0,
        second_moment: 0.0,
    };

    /// The mean time outside service in a cycle: the idle period and the setup, in seconds.
    pub(crate) fn outside_service(&self, rate: f64) -> f64 {
        1.0 / rate + self.mean
    }
}

/// E\[W\], from arrival to the beginning of service, in seconds. Without a setup it is the formula of
/// Pollaczek and Khinchine, to the last digit. The load must be below 1.
pub fn wait(rate: f64, service: &Service, setup: Setup) -> f64 {
    let load = service.load(rate);
    let queue = rate * service.second_moment() / (2.0 * (1.0 - load));
    queue + delay(rate, setup)
}

/// What the setup adds to the mean wait, in seconds.
pub fn delay(rate: f64, setup: Setup) -> f64 {
    (2.0 * setup.mean + rate * setup.second_moment) / (2.0 * (1.0 + rate * setup.mean))
}

/// (a − 1 + e⁻ᵃ) / a, for a ≥ 0: where X is exponential with rate 1, E\[(a − X)⁺\] / a. Half of a for
/// small a.
pub fn first(a: f64) -> f64 {
    match a < SERIES {
        true => a * series(a, 2),
        false => (a - 1.0 + (-a).exp()) / a,
    }
}

/// 1 − 2(a − 1 + e⁻ᵃ)/a², for a ≥ 0: E\[((a − X)⁺)²\] / a². A third of a for small a.
pub fn second(a: f64) -> f64 {
    match a < SERIES {
        true => 2.0 * a * series(a, 3),
        false => 1.0 - 2.0 * (a - 1.0 + (-a).exp()) / (a * a),
    }
}

/// Below it the differences above lose digits, and the series need few terms.
const SERIES: f64 = 1.0;

/// Σ (−a)ⁿ / (n + k)!, for a from 0 to 1.
fn series(a: f64, k: u32) -> f64 {
    // The twentieth term is below 1/20! = 4e-19: nothing beside the first.
    const TERMS: u32 = 20;
    let mut term = 1.0 / (1..=k).map(f64::from).product::<f64>();
    let mut sum = 0.0;
    for n in 0..TERMS {
        sum += term;
        term *= -a / f64::from(n + k + 1);
    }
    sum
}
