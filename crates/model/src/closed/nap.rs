//! PowerNap with a timeout.
//!
//! Let X be the idle period's length, exponential with rate λ; τ the timeout, T_s the suspend, T_r
//! the resume; P = e^(−λτ) the probability that the timeout ends before X. Since X forgets, the rest
//! of it then is exponential again. The setup time is
//!
//! ```text
//! I = 0                        X < τ
//!     (T_s − (X − τ))⁺ + T_r   else
//! ```
//!
//! With Y = (T_s − X′)⁺ and a = λT_s: E\[Y\] = T_s (a − 1 + e⁻ᵃ)/a and
//! E\[Y²\] = T_s² − 2E\[Y\]/λ, hence E\[I\] = P (E\[Y\] + T_r) and
//! E\[I²\] = P (E\[Y²\] + 2T_r E\[Y\] + T_r²). For T_s = T_r and τ = 0 these are the moments of PowerNap
//! (2009): E\[I\] = 2T − 1/λ + e^(−λT)/λ.
//!
//! A cycle's times outside service: idle E\[min(X, τ)\] = (1 − P)/λ; in transition P (T_s + T_r), for a
//! suspend is never broken off; napping P e⁻ᵃ/λ. Their sum is 1/λ + E\[I\].

use super::setup::{self, Setup};
use crate::Result;
use crate::policy::{Outcome, PowerNap, Shares};
use crate::power::Power;
use crate::service::Service;

/// As [`super::outcome`].
pub fn outcome(nap: &PowerNap, power: &Power, service: &Service, rate: f64) -> Result<Outcome> {
    let asleep = asleep(nap, rate);
    with_probability(nap, power, service, rate, asleep)
}

/// The probability that an idle period outlasts the timeout.
pub fn asleep(nap: &PowerNap, rate: f64) -> f64 {
    (-rate * nap.timeout).exp()
}

/// The outcome if an idle period ends in a suspend with this probability: the timeout works through
/// nothing else.
pub(crate) fn with_probability(
    nap: &PowerNap,
    power: &Power,
    service: &Service,
    rate: f64,
    asleep: f64,
) -> Result<Outcome> {
    let busy = service.stable_load(rate)?;
    let whole = setup(nap, rate);
    let setup = Setup {
        mean: asleep * whole.mean,
        second_moment: asleep * whole.second_moment,
    };
    let wait_mean = setup::wait(rate, service, setup);
    let outside = setup.outside_service(rate);
    let share = |time: f64| (1.0 - busy) * (time / outside);
    let shares = Shares {
        active: busy,
        idle: share((1.0 - asleep) / rate),
        transition: share(asleep * (nap.suspend + nap.resume)),
        nap: share(asleep * (-rate * nap.suspend).exp() / rate),
    };
    Ok(Outcome {
        response_mean: wait_mean + service.mean(),
        wait_mean,
        power_mean: shares.power(power),
        shares,
        naps_per_s: asleep * (1.0 - busy) / outside,
        frequency: 1.0,
    })
}

/// The setup's moments without a timeout.
pub fn setup(nap: &PowerNap, rate: f64) -> Setup {
    let (suspend, resume) = (nap.suspend, nap.resume);
    let a = rate * suspend;
    let rest = suspend * setup::first(a);
    let rest_squared = suspend * suspend * setup::second(a);
    Setup {
        mean: rest + resume,
        second_moment: rest_squared + 2.0 * resume * rest + resume * resume,
    }
}
