//! What is settled before the first request: loads, frequencies, and the window that is measured.

use super::arrivals::Arrivals;
use super::dispatch::Dispatcher;
use super::draw::Times;
use super::run;
use super::server::Behaviour;
use super::{Horizon, Setup, WarmUp};
use crate::sentence::{digits, time};
use crate::service::Service;
use crate::{Error, Result};

pub(super) struct Plan<'a> {
    pub(super) setup: &'a Setup,
    /// One for all servers, or one for each.
    behaviours: Vec<Behaviour>,
    pub(super) times: Times,
    /// Seconds: the window begins here,
    pub(super) from: f64,
    /// and ends here; infinite: with a trace's last request.
    pub(super) until: f64,
    /// Work that comes by what can be done.
    pub(super) load: f64,
    pub(super) is_alone: bool,
    pub(super) replications: u32,
    pub(super) notes: Vec<String>,
}

impl<'a> Plan<'a> {
    pub(super) fn of(setup: &'a Setup) -> Result<Self> {
        check(setup)?;
        let service = worked(setup);
        let rate = setup.arrivals.rate() / setup.servers as f64;
        let behaviours = setup
            .policies
            .iter()
            .map(|policy| Behaviour::of(policy, &setup.power, &service, rate))
            .collect::<Result<Vec<_>>>()?;
        let mut plan = Self {
            setup,
            behaviours,
            times: Times::of(&setup.service)?,
            from: 0.0,
            until: f64::INFINITY,
            load: 0.0,
            is_alone: run::is_alone(&setup.arrivals, setup.dispatcher, setup.servers),
            replications: setup.replications,
            notes: Vec::new(),
        };
        plan.load = plan.highest_load(&service, rate);
        plan.refuse_overload(&service)?;
        plan.from = plan.warm_up(&service, rate);
        plan.until = plan.from + plan.horizon()?;
        plan.refuse_rounding(&service)?;
        plan.note();
        Ok(plan)
    }

    #[inline(always)]
    pub(super) fn behaviour(&self, server: usize) -> &Behaviour {
        match self.behaviours.as_slice() {
            [one] => one,
            each => &each[server],
        }
    }

    /// The relative frequency, where all servers have the same.
    pub(super) fn frequency(&self) -> Option<f64> {
        let first = self.behaviours.first()?.frequency;
        let all = self.behaviours.iter().all(|other| other.frequency == first);
        all.then_some(first)
    }

    /// Service times that a trace brings.
    pub(super) fn recorded(&self) -> Option<&'a [f64]> {
        match &self.setup.arrivals {
            Arrivals::Trace(trace) => trace.services(),
            _ => None,
        }
    }

    /// Requests that all replications will simulate, about.
    pub(super) fn expected(&self) -> u64 {
        let each = match &self.setup.arrivals {
            Arrivals::Trace(trace) => {
                trace.arrivals().partition_point(|at| *at < self.until) as f64
            }
            arrivals => arrivals.rate() * self.until,
        };
        (each * f64::from(self.replications)) as u64
    }

    /// Dispatchers that look at nothing load the slowest server most; the others fill all.
    fn highest_load(&self, service: &Service, rate: f64) -> f64 {
        let work = rate * service.mean();
        let frequencies = self.behaviours.iter().map(|behaviour| behaviour.frequency);
        match self.setup.dispatcher {
            Dispatcher::Random | Dispatcher::RoundRobin => {
                work / frequencies.fold(f64::INFINITY, f64::min)
            }
            Dispatcher::LeastLoaded | Dispatcher::Packing { .. } => {
                work / (frequencies.sum::<f64>() / self.behaviours.len() as f64)
            }
        }
    }

    fn refuse_overload(&mut self, service: &Service) -> Result<()> {
        if self.load < 1.0 {
            return Ok(());
        }
        if let Arrivals::Trace(_) = self.setup.arrivals {
            self.notes.push(format!(
                "the load is {:.3}: over the trace more work comes than the servers do, and the queue \
                 grows; the figures hold for a trace of this length only",
                self.load
            ));
            return Ok(());
        }
        let rate = self.setup.arrivals.rate();
        Err(Error::Unstable {
            load: self.load,
            hint: format!(
                ": with fewer than {} requests a second in all, or a mean service time below {}",
                digits(rate / self.load),
                time(service.mean() / self.load)
            ),
        })
    }

    /// Clocks that run for too long have no digits left for what a request takes.
    fn refuse_rounding(&self, service: &Service) -> Result<()> {
        /// Of the mean service time.
        const PART: f64 = 1e-3;
        let end = match &self.setup.arrivals {
            Arrivals::Trace(trace) => trace.arrivals().last().copied().unwrap_or(0.0),
            _ => self.until,
        };
        let longest = service.mean() * PART / f64::EPSILON;
        match end <= longest {
            true => Ok(()),
            false => Err(Error::Usage(format!(
                "{end:.2e} s are too long to simulate requests of {}: rounding would take their digits; \
                 give a shorter horizon or a higher rate, for less than {}",
                time(service.mean()),
                time(longest)
            ))),
        }
    }

    /// Seconds that are simulated, but not measured: see [`WarmUp::Relaxation`].
    fn warm_up(&self, service: &Service, rate: f64) -> f64 {
        const TIMES: f64 = 5.0;
        match (self.setup.warm_up, &self.setup.arrivals) {
            (WarmUp::Seconds(seconds), _) => seconds,
            (WarmUp::Relaxation, Arrivals::Trace(_)) => 0.0,
            (WarmUp::Relaxation, arrivals) => {
                let slowest = self.load / (rate * service.mean());
                let spread = arrivals.dispersion() + service.cv() * service.cv();
                let root = 1.0 - self.load.sqrt();
                let relaxation = service.mean() * slowest * spread / (2.0 * root * root);
                let transition = self.behaviours.iter().map(Behaviour::transition);
                let transition = transition.fold(0.0, f64::max);
                let cycle = (1.0 / rate + transition) / (1.0 - self.load);
                TIMES * (relaxation + cycle + arrivals.memory())
            }
        }
    }

    /// Seconds that are measured.
    fn horizon(&self) -> Result<f64> {
        match (self.setup.horizon, &self.setup.arrivals) {
            (Horizon::Seconds(seconds), _) => Ok(seconds),
            (Horizon::Requests(requests), arrivals) => Ok(requests as f64 / arrivals.rate()),
            (Horizon::Trace, Arrivals::Trace(_)) => Ok(f64::INFINITY),
            (Horizon::Trace, _) => Err(Error::Usage(
                "horizon: there is no trace whose end could be waited for; give seconds or a number \
                 of requests"
                    .into(),
            )),
        }
    }

    fn note(&mut self) {
        if let Arrivals::Trace(trace) = &self.setup.arrivals
            && trace.out_of_order() > 0
        {
            self.notes.push(match trace.out_of_order() {
                1 => {
                    "a line of the trace came before the one above it; they were sorted".to_owned()
                }
                lines => format!(
                    "{lines} lines of the trace came before the line above them; they were sorted"
                ),
            });
        }
        let arrivals = matches!(
            self.setup.arrivals,
            Arrivals::Deterministic { .. } | Arrivals::Trace(_)
        );
        let services = self.recorded().is_some()
            || matches!(self.setup.service, Service::Deterministic { .. });
        let dispatch = self.setup.dispatcher != Dispatcher::Random || self.setup.servers == 1;
        if arrivals && services && dispatch && self.replications > 1 {
            self.replications = 1;
            self.notes
                .push("nothing is drawn at random: one replication, and no intervals".into());
        }
    }
}

/// The service times that loads are reckoned with.
fn worked(setup: &Setup) -> Service {
    match &setup.arrivals {
        Arrivals::Trace(trace) => trace.services().map_or_else(
            || setup.service.clone(),
            |services| Service::Empirical {
                values: services.to_vec(),
            },
        ),
        _ => setup.service.clone(),
    }
}

fn check(setup: &Setup) -> Result<()> {
    // Of each server a replication keeps the shares of time: half a GiB for all.
    const MOST_SERVERS: usize = 100_000;
    const MOST_RUNS: u64 = 1 << 24;
    let usage = |text: String| Err(Error::Usage(text));
    if !(1..=MOST_SERVERS).contains(&setup.servers) {
        return usage(format!(
            "servers: {}; give 1 to {MOST_SERVERS}",
            setup.servers
        ));
    }
    setup.arrivals.check()?;
    worked(setup).check()?;
    setup.power.check()?;
    if ![1, setup.servers].contains(&setup.policies.len()) {
        return usage(format!(
            "policies: {} for {} servers; give one for all, or one for each",
            setup.policies.len(),
            setup.servers
        ));
    }
    if setup.dispatcher == (Dispatcher::Packing { bound: 0 }) {
        return usage("packing, bound: 0 requests; give 1 or above".into());
    }
    if setup.replications == 0 {
        return usage("replications: 0; give 1 or above, 2 at least for intervals".into());
    }
    if setup.servers as u64 * u64::from(setup.replications) > MOST_RUNS {
        return usage(format!(
            "{} replications of {} servers: give at most {MOST_RUNS} servers in all replications together",
            setup.replications, setup.servers
        ));
    }
    if !(setup.confidence > 0.0 && setup.confidence < 1.0) {
        return usage(format!(
            "confidence: {}; give a number between 0 and 1",
            setup.confidence
        ));
    }
    match setup.horizon {
        Horizon::Seconds(seconds) if !(seconds > 0.0 && seconds.is_finite()) => {
            return usage(format!("horizon: {seconds} s; give a time above 0"));
        }
        Horizon::Requests(0) => {
            return usage("horizon: 0 requests; give 1 or above".into());
        }
        _ => {}
    }
    match setup.warm_up {
        WarmUp::Seconds(seconds) if !(seconds >= 0.0 && seconds.is_finite()) => {
            usage(format!("warm-up: {seconds} s; give a time of 0 or above"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Policy;
    use crate::power::Power;
    use crate::simulate::Trace;

    const POWER: Power = Power {
        active: 100.0,
        idle: 60.0,
        nap: 5.0,
        transition: 80.0,
    };

    fn setup(arrivals: Arrivals, mean: f64, seconds: f64) -> Setup {
        let service = Service::Deterministic { mean };
        let mut setup = Setup::new(Policy::AlwaysOn, arrivals, service, POWER);
        setup.horizon = Horizon::Seconds(seconds);
        setup.warm_up = WarmUp::Seconds(2.0);
        setup.replications = 3;
        setup
    }

    #[test]
    fn as_many_requests_are_expected_as_come_until_the_end() {
        let poisson = setup(Arrivals::Poisson { rate: 5.0 }, 0.01, 10.0);
        assert_eq!(Plan::of(&poisson).unwrap().expected(), 3 * 5 * 12);
        let trace = Trace::read(b"0\n1\n11.9\n12\n13\n").unwrap();
        let trace = setup(Arrivals::Trace(trace), 0.01, 10.0);
        // A trace is gone through once.
        assert_eq!(Plan::of(&trace).unwrap().expected(), 3);
    }

    /// A thousandth of a request of 2⁻³² s has to be a step of the clock: up to 1e-3 · 2²⁰ s.
    #[test]
    fn clocks_without_digits_for_a_request_are_refused() {
        let mean = f64::from_bits((1023 - 32) << 52);
        let longest = 1e-3 * f64::from(1 << 20);
        let of = |seconds: f64| {
            let setup = setup(Arrivals::Poisson { rate: 1.0 }, mean, seconds - 2.0);
            Plan::of(&setup)
                .map(|_| ())
                .map_err(|error| error.to_string())
        };
        assert_eq!(of(longest * 0.999), Ok(()));
        let error = of(longest * 1.001).unwrap_err();
        assert!(error.contains("too long to simulate"), "{error}");
    }
}
