//! Frequency scaling: an M/G/1 queue whose service times are S/f.
//!
//! The governor is taken to be slow beside the requests: it sees the load ρ and keeps one frequency
//! f(ρ). Changing it costs no time. Then ρ′ = ρ/f is the busy share, Pollaczek and Khinchine's formula
//! holds with E\[S\]/f and E\[S²\]/f², and
//!
//! ```text
//! E[P] = ρ′ · P_active (1 − s + s·g(f))  +  (1 − ρ′) · P_idle (1 − s_i + s_i·g(f))
//! ```
//!
//! where s and s_i are the processor's shares of active and idle power and g is the law: f³, or as
//! measured.
//!
//! Of the rules, [`Rule::Slowdown`] needs a word: E\[R(f)\] = E\[S\]/f + λE\[S²\]/(2f(f − ρ)) falls as f
//! rises; setting it to K times E\[R(1)\] =: k gives k f² − (kρ + E\[S\]) f + ρE\[S\] − λE\[S²\]/2 = 0,
//! whose greater root is the frequency. For exponential service times the root is
//! ρ + (1 − ρ)/K: [`Rule::Linear`] with a floor of 1/K.

use super::setup::{self, Setup};
use crate::policy::{Dvfs, Outcome, Rule, Shares};
use crate::power::Power;
use crate::service::Service;
use crate::{Error, Result};
use reveille_show::quantity::digits;

/// As [`super::outcome`].
pub fn outcome(dvfs: &Dvfs, power: &Power, service: &Service, rate: f64) -> Result<Outcome> {
    let frequency = frequency(dvfs, service, rate)?;
    let slowed = Slowed {
        mean: service.mean() / frequency,
        second_moment: service.second_moment() / (frequency * frequency),
    };
    let busy = rate * slowed.mean;
    let wait_mean = slowed.wait(rate);
    let shares = Shares {
        active: busy,
        idle: 1.0 - busy,
        ..Shares::default()
    };
    Ok(Outcome {
        response_mean: wait_mean + slowed.mean,
        wait_mean,
        power_mean: shares.active * dvfs.active_power(power, frequency)
            + shares.idle * dvfs.idle_power(power, frequency),
        shares,
        naps_per_s: 0.0,
        frequency,
    })
}

/// The relative frequency at this load.
///
/// # Errors
/// [`Error::Unstable`] where the load is 1 or above, or above what that frequency can serve.
pub fn frequency(dvfs: &Dvfs, service: &Service, rate: f64) -> Result<f64> {
    let load = service.stable_load(rate)?;
    let wanted = match dvfs.rule {
        Rule::Fixed(frequency) => frequency,
        Rule::BusyShare(target) => load / target,
        Rule::Slowdown(limit) => slowest(service, rate, limit),
        Rule::Linear => dvfs.floor + (1.0 - dvfs.floor) * load,
    };
    let frequency = wanted.max(dvfs.floor).min(1.0);
    match load < frequency {
        true => Ok(frequency),
        false => Err(Error::Unstable {
            load: load / frequency,
            hint: format!(
                ": at relative frequency {0} that is a load below {0} of full speed",
                digits(frequency)
            ),
        }),
    }
}

/// The lowest frequency at which the mean response time is at most `limit` times that at 1.
fn slowest(service: &Service, rate: f64, limit: f64) -> f64 {
    let load = service.load(rate);
    let mean = service.mean();
    let allowed = limit * (setup::wait(rate, service, Setup::NONE) + mean);
    let half = (allowed * load + mean) / 2.0;
    let rest = load * mean - rate * service.second_moment() / 2.0;
    (half + (half * half - allowed * rest).sqrt()) / allowed
}

/// Moments of a service time at a lower frequency.
struct Slowed {
    mean: f64,
    second_moment: f64,
}

impl Slowed {
    fn wait(&self, rate: f64) -> f64 {
        rate * self.second_moment / (2.0 * (1.0 - rate * self.mean))
    }
}
