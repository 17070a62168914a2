//! What is settled before the first request: loads, frequencies, and the window that is measured.

use super::arrivals::Arrivals;
use super::dispatch::Dispatcher;
use super::draw::Times;
use super::server::Behaviour;
use super::setup::{Horizon, Setup, WarmUp};
use crate::service::Service;
use crate::{Error, Result};
use reveille_show::quantity::{digits, time};

/// The fewest requests beyond a percentile, in each replication, with which it is given.
pub(super) const FEWEST_BEYOND: u64 = 10;

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
    /// Seconds in which a server forgets what it met; 0 for a trace, which is all there is.
    pub(super) memory: f64,
    pub(super) is_alone: bool,
    /// Whether anything is drawn at random.
    pub(super) is_drawn: bool,
    pub(super) replications: u32,
    pub(super) notes: Vec<String>,
}

impl<'a> Plan<'a> {
    pub(super) fn of(setup: &'a Setup) -> Result<Self> {
        let plan = Self::sized(setup)?;
        plan.refuse_rounding()?;
        Ok(plan)
    }

    /// Too long a run is not refused.
    pub(super) fn sized(setup: &'a Setup) -> Result<Self> {
        check(setup)?;
        let service = worked(setup);
        let rate = setup.arrivals.rate() / setup.servers as f64;
        let behaviour = |policy| Behaviour::of(policy, &setup.power, &service, rate);
        let behaviours = setup.policies.iter().map(behaviour);
        let behaviours = behaviours.collect::<Result<Vec<_>>>()?;
        let mut plan = Self {
            setup,
            behaviours,
            times: Times::of(&setup.service)?,
            from: 0.0,
            until: f64::INFINITY,
            load: 0.0,
            memory: 0.0,
            is_alone: is_alone(&setup.arrivals, setup.dispatcher, setup.servers),
            is_drawn: true,
            replications: setup.replications,
            notes: Vec::new(),
        };
        plan.load = plan.highest_load(&service, rate);
        plan.refuse_overload(&service)?;
        plan.memory = plan.memory(&service, rate);
        plan.from = plan.warm_up();
        plan.until = plan.from + plan.horizon()?;
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
    fn refuse_rounding(&self) -> Result<()> {
        /// Of the mean service time.
        const PART: f64 = 1e-3;
        let service = worked(self.setup);
        let end = match &self.setup.arrivals {
            Arrivals::Trace(trace) => trace.arrivals().last().copied().unwrap_or(0.0),
            _ => self.until,
        };
        let longest = service.mean() * PART / f64::EPSILON;
        ensure!(
            end <= longest,
            "{end:.2e} s are too long to simulate requests of {}: rounding would take their digits; give a \
             shorter horizon or a higher rate, for less than {}",
            time(service.mean()),
            time(longest)
        );
        Ok(())
    }

    /// Seconds that are simulated, but not measured: see [`WarmUp::Relaxation`].
    fn warm_up(&self) -> f64 {
        const TIMES: f64 = 5.0;
        match self.setup.warm_up {
            WarmUp::Seconds(seconds) => seconds,
            WarmUp::Relaxation => TIMES * self.memory,
        }
    }

    /// The queue's relaxation time, a cycle of idle and busy, and what the arrivals remember.
    fn memory(&self, service: &Service, rate: f64) -> f64 {
        let arrivals = &self.setup.arrivals;
        if let Arrivals::Trace(_) = arrivals {
            return 0.0;
        }
        let slowest = self.load / (rate * service.mean());
        let spread = arrivals.dispersion() + service.cv() * service.cv();
        let root = 1.0 - self.load.sqrt();
        let relaxation = service.mean() * slowest * spread / (2.0 * root * root);
        let transition = self.behaviours.iter().map(Behaviour::transition);
        let transition = transition.fold(0.0, f64::max);
        let cycle = (1.0 / rate + transition) / (1.0 - self.load);
        relaxation + cycle + arrivals.memory()
    }

    /// Seconds that all servers of a replication together are measured for, at least, before this percentile of the
    /// response time has converged: the part of them beyond it lasts for as long as a server remembers. A shorter
    /// window rarely meets a long queue, and its percentile is too low in the mean over replications: of M/M/1's
    /// by 2% or less at this length, by 8% at a third of it and by 20% at a tenth, at loads of 50 to 97%.
    fn converges_in(&self, share: f64) -> f64 {
        self.memory / (1.0 - share)
    }

    /// Is that so of a window of so many seconds?
    pub(super) fn has_converged(&self, share: f64, window: f64) -> bool {
        window * self.setup.servers as f64 >= self.converges_in(share) * (1.0 - 1e-9)
    }

    /// Requests of a replication with which this percentile is known; `None` of a trace, which has its own.
    pub(super) fn requests_for(&self, share: f64) -> Option<u64> {
        /// That a replication has fewer than the mean does not matter then.
        const FEWEST: f64 = 2.0 * FEWEST_BEYOND as f64;
        let of_each = self.setup.arrivals.rate() / self.setup.servers as f64;
        let requests = (of_each * self.converges_in(share)).max(FEWEST / (1.0 - share));
        (self.memory > 0.0).then(|| requests.ceil() as u64)
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
            let lines = match trace.out_of_order() {
                1 => "a line of the trace came before the one above it".to_owned(),
                lines => format!("{lines} lines of the trace came before the line above them"),
            };
            self.notes.push(lines + "; they were sorted");
        }
        let arrivals = matches!(
            self.setup.arrivals,
            Arrivals::Deterministic { .. } | Arrivals::Trace(_)
        );
        let services = self.recorded().is_some()
            || matches!(self.setup.service, Service::Deterministic { .. });
        let dispatch = self.setup.dispatcher != Dispatcher::Random || self.setup.servers == 1;
        self.is_drawn = !(arrivals && services && dispatch);
        if !self.is_drawn && self.replications > 1 {
            self.replications = 1;
            self.notes
                .push("nothing is drawn at random: one replication, and no intervals".into());
        }
    }
}

/// The service times that loads are reckoned with.
fn worked(setup: &Setup) -> Service {
    let recorded = match &setup.arrivals {
        Arrivals::Trace(trace) => trace.services().map(<[f64]>::to_vec),
        _ => None,
    };
    let recorded = recorded.map(|values| Service::Empirical { values });
    recorded.unwrap_or_else(|| setup.service.clone())
}

fn check(setup: &Setup) -> Result<()> {
    // Of each server a replication keeps the shares of time: half a GiB for all.
    const MOST_SERVERS: usize = 100_000;
    const MOST_RUNS: u64 = 1 << 24;
    let (servers, replications, confidence) = (setup.servers, setup.replications, setup.confidence);
    let policies = setup.policies.len();
    ensure!(
        (1..=MOST_SERVERS).contains(&servers),
        "servers: {servers}; give 1 to {MOST_SERVERS}"
    );
    setup.arrivals.check()?;
    worked(setup).check()?;
    setup.power.check()?;
    ensure!(
        [1, servers].contains(&policies),
        "policies: {policies} for {servers} servers; give one for all, or one for each"
    );
    ensure!(
        setup.dispatcher != (Dispatcher::Packing { bound: 0 }),
        "packing, bound: 0 requests; give 1 or above"
    );
    ensure!(
        replications > 0,
        "replications: 0; give 1 or above, 2 at least for intervals"
    );
    ensure!(
        servers as u64 * u64::from(replications) <= MOST_RUNS,
        "{replications} replications of {servers} servers: give at most {MOST_RUNS} servers in all \
         replications together"
    );
    ensure!(
        confidence > 0.0 && confidence < 1.0,
        "confidence: {confidence}; give a number between 0 and 1"
    );
    match setup.horizon {
        Horizon::Seconds(seconds) => ensure!(
            seconds > 0.0 && seconds.is_finite(),
            "horizon: {seconds} s; give a time above 0"
        ),
        Horizon::Requests(requests) => ensure!(requests > 0, "requests: 0; give 1 or above"),
        Horizon::Trace => {}
    }
    if let WarmUp::Seconds(seconds) = setup.warm_up {
        ensure!(
            seconds >= 0.0 && seconds.is_finite(),
            "warm-up: {seconds} s; give a time of 0 or above"
        );
    }
    Ok(())
}

/// Whether each server can be simulated alone.
fn is_alone(arrivals: &Arrivals, dispatcher: Dispatcher, servers: usize) -> bool {
    matches!(arrivals, Arrivals::Poisson { .. })
        && (dispatcher == Dispatcher::Random || servers == 1)
}

#[cfg(test)]
mod tests {
    use reveille_snapshot::snapshot;

    use super::*;
    use crate::policy::{CState, CStates, Choice, Dvfs, Law, Policy, PowerNap, Rule};
    use crate::power::SERVER;
    use crate::simulate::Trace;

    fn setup(arrivals: Arrivals, mean: f64, seconds: f64) -> Setup {
        let service = Service::Deterministic { mean };
        let mut setup = Setup::new(Policy::AlwaysOn, arrivals, service, SERVER);
        setup.horizon = Horizon::Seconds(seconds);
        setup.warm_up = WarmUp::Seconds(2.0);
        setup.replications = 3;
        setup
    }

    #[test]
    fn servers_are_independent_if_poisson_arrivals_are_split_at_random() {
        let rate = 1.0;
        let (poisson, even) = (Arrivals::Poisson { rate }, Arrivals::Deterministic { rate });
        for (arrivals, dispatcher, servers, alone) in [
            (&poisson, Dispatcher::Random, 1, true),
            (&poisson, Dispatcher::Random, 2, true),
            (&poisson, Dispatcher::LeastLoaded, 1, true),
            (&poisson, Dispatcher::LeastLoaded, 2, false),
            (&even, Dispatcher::Random, 1, false),
            (&even, Dispatcher::Random, 2, false),
        ] {
            let what = format!("{arrivals:?}, {dispatcher:?}, {servers}");
            assert_eq!(is_alone(arrivals, dispatcher, servers), alone, "{what}");
        }
    }

    #[test]
    fn the_expected_requests_are_those_until_the_end() {
        let poisson = setup(Arrivals::Poisson { rate: 5.0 }, 0.01, 10.0);
        assert_eq!(Plan::of(&poisson).unwrap().expected(), 3 * 5 * 12);
        let trace = Trace::read(b"0\n1\n11.9\n12\n13\n").unwrap();
        let trace = setup(Arrivals::Trace(trace), 0.01, 10.0);
        // A trace is simulated once.
        assert_eq!(Plan::of(&trace).unwrap().expected(), 3);
    }

    /// A thousandth of a request of 2⁻³² s has to be a step of the clock: up to 1e-3 · 2²⁰ s.
    #[test]
    fn a_clock_too_coarse_for_a_request_is_refused() {
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

    #[test]
    fn a_clock_with_just_enough_digits_is_accepted() {
        // The mean is a power of 2, so that only the thousandth is rounded.
        let mean = f64::from_bits((1023 - 32) << 52);
        let longest = mean * 1e-3 / f64::EPSILON;
        let mut exact = setup(Arrivals::Poisson { rate: 1.0 }, mean, longest);
        exact.warm_up = WarmUp::Seconds(0.0);
        assert_eq!(Plan::of(&exact).unwrap().until, longest);
        // The last arrival of a trace counts, wherever the window ends.
        let of = |last: &str| {
            let trace = Trace::read(format!("0\n{last}\n").as_bytes()).unwrap();
            let mut setup = setup(Arrivals::Trace(trace), mean, 1e9);
            setup.warm_up = WarmUp::Seconds(0.0);
            Plan::of(&setup).map(|plan| plan.until)
        };
        assert_eq!(of("1048"), Ok(1e9));
        assert!(of("1049").is_err());
    }

    fn dvfs(frequency: f64) -> Policy {
        Policy::Dvfs(Dvfs {
            floor: 0.1,
            processor_share: 0.5,
            idle_share: 0.0,
            law: Law::Cubic,
            rule: Rule::Fixed(frequency),
        })
    }

    fn nap(suspend: f64, resume: f64) -> Policy {
        Policy::PowerNap(PowerNap {
            suspend,
            resume,
            timeout: 7.0,
        })
    }

    fn c_states() -> Policy {
        let state = |exit_latency, target_residency| CState {
            name: "C".into(),
            exit_latency,
            power: 10.0,
            target_residency,
        };
        Policy::CStates(CStates {
            states: vec![state(0.25, 0.0), state(0.125, 9.0)],
            choice: Choice::Deepest,
        })
    }

    #[test]
    fn the_warm_up_is_five_times_relaxation_cycle_and_memory() {
        let of = |policies: &[Policy], arrivals: Arrivals, service: Service| {
            let mut setup = setup(arrivals, 1.0, 30.0);
            (setup.servers, setup.policies) = (2, policies.to_vec());
            (setup.service, setup.warm_up) = (service, WarmUp::Relaxation);
            setup.dispatcher = Dispatcher::RoundRobin;
            let plan = Plan::of(&setup).unwrap();
            assert_eq!(plan.until, plan.from + 30.0);
            plan.from
        };
        let close = |warm_up: f64, by_hand: f64| {
            assert!((warm_up - by_hand).abs() < 1e-9, "{warm_up}, {by_hand}");
        };
        // 10 per second for each server. Dispersion: rates are left 4 times a second, so 1 + 2 ·
        // 20² · 4 · 4 / (8² · (30 · 4 + 10 · 4)) = 2.25; the memory is 1/8 s.
        let bursty = Arrivals::Bursty {
            rates: [30.0, 10.0],
            stays: [0.25, 0.25],
        };
        let gamma = |mean| Service::Gamma { mean, cv: 3.0 };
        // At half the frequency the load is 0.25, and so is (1 − √ρ)²; c_s² is 9.
        close(
            of(&[dvfs(0.5)], bursty.clone(), gamma(0.0125)),
            5.0 * (0.0125 * 2.0 * (2.25 + 9.0) / 0.5 + 0.1 / 0.75 + 0.125),
        );
        // Poisson: 1 and no memory. The longer of two servers' transitions.
        let poisson = Arrivals::Poisson { rate: 20.0 };
        let relaxation = 0.025 * (1.0 + 9.0) / 0.5;
        for (policies, transition) in [
            (vec![Policy::AlwaysOn], 0.0),
            (vec![nap(0.5, 0.25)], 0.75),
            (vec![nap(0.5, 0.25), nap(0.125, 0.5)], 0.75),
            (vec![nap(0.125, 0.5), nap(0.5, 0.25)], 0.75),
            // The deepest is not the slowest here.
            (vec![c_states()], 0.25),
        ] {
            close(
                of(&policies, poisson.clone(), gamma(0.025)),
                5.0 * (relaxation + (0.1 + transition) / 0.75),
            );
        }
    }

    #[test]
    fn a_horizon_in_requests_is_the_time_in_which_they_arrive() {
        let of = |horizon, arrivals| {
            let mut setup = setup(arrivals, 0.001, 1.0);
            setup.horizon = horizon;
            Plan::of(&setup).map(|plan| plan.until)
        };
        let poisson = Arrivals::Poisson { rate: 8.0 };
        assert_eq!(of(Horizon::Requests(20), poisson.clone()), Ok(2.0 + 2.5));
        assert_eq!(of(Horizon::Seconds(20.0), poisson.clone()), Ok(2.0 + 20.0));
        assert!(of(Horizon::Trace, poisson).is_err());
        let trace = Arrivals::Trace(Trace::read(b"0\n1\n2\n").unwrap());
        assert_eq!(of(Horizon::Trace, trace.clone()), Ok(f64::INFINITY));
        assert_eq!(of(Horizon::Requests(3), trace), Ok(2.0 + 3.0));
    }

    #[test]
    fn the_load_is_that_of_the_slowest_server_or_of_all_by_dispatcher() {
        let of = |dispatcher, policies: &[Policy]| {
            // 4 per second of 0.25 s for two servers: half of their capacity at full frequency.
            let mut setup = setup(Arrivals::Poisson { rate: 4.0 }, 0.25, 1.0);
            (setup.servers, setup.policies) = (2, policies.to_vec());
            setup.dispatcher = dispatcher;
            let plan = Plan::of(&setup).unwrap();
            (plan.load, plan.frequency())
        };
        let mixed = [dvfs(0.625), dvfs(1.0)];
        for dispatcher in [Dispatcher::Random, Dispatcher::RoundRobin] {
            assert_eq!(of(dispatcher, &mixed), (0.8, None));
        }
        for dispatcher in [Dispatcher::LeastLoaded, Dispatcher::Packing { bound: 1 }] {
            assert_eq!(of(dispatcher, &mixed), (0.5 / 0.8125, None));
            assert_eq!(of(dispatcher, &[dvfs(0.625)]), (0.8, Some(0.625)));
        }
    }

    #[test]
    fn a_load_of_1_is_refused() {
        let said = [3.9, 4.0, 5.0].map(|rate| {
            let setup = setup(Arrivals::Poisson { rate }, 0.25, 1.0);
            let load = Plan::of(&setup).map(|plan| plan.load);
            (format!("{rate}/s of 0.25 s"), format!("{load:?}"))
        });
        snapshot!("errors", said);
    }

    #[test]
    fn a_trace_has_notes_for_its_order_and_its_load() {
        let said = [
            "0\n2\n4\n",
            "0,0.5\n4,0.25\n2,1.5\n",
            "4\n2\n0\n",
            "0,2\n2,2\n4,2\n",
        ]
        .map(|text| {
            let mut setup = setup(
                Arrivals::Trace(Trace::read(text.as_bytes()).unwrap()),
                1.0,
                1.0,
            );
            // Not for a trace with its own.
            setup.service = Service::Exponential { mean: 0.1 };
            setup.horizon = Horizon::Trace;
            setup.replications = 1;
            let plan = Plan::of(&setup).unwrap();
            let found = (plan.load, plan.recorded(), &plan.notes);
            (format!("{text:?}"), format!("{found:?}"))
        });
        snapshot!("notes", said);
    }

    #[test]
    fn one_replication_suffices_without_randomness() {
        let even = Arrivals::Deterministic { rate: 4.0 };
        let trace = |text: &[u8]| Arrivals::Trace(Trace::read(text).unwrap());
        let (recorded, bare) = (trace(b"0,0.1\n1,0.2\n"), trace(b"0\n1\n"));
        let poisson = Arrivals::Poisson { rate: 4.0 };
        let fixed = Service::Deterministic { mean: 0.1 };
        let drawn = Service::Exponential { mean: 0.1 };
        let (random, in_turn) = (Dispatcher::Random, Dispatcher::RoundRobin);
        for (arrivals, service, dispatcher, servers, asked, done) in [
            (&even, &fixed, in_turn, 2, 3, 1),
            (&even, &fixed, in_turn, 2, 2, 1),
            (&even, &fixed, in_turn, 2, 1, 1),
            (&even, &fixed, random, 1, 3, 1),
            (&recorded, &drawn, in_turn, 2, 3, 1),
            (&bare, &fixed, in_turn, 2, 3, 1),
            // Something is random: services, servers, or arrivals.
            (&bare, &drawn, in_turn, 2, 3, 3),
            (&even, &drawn, in_turn, 2, 3, 3),
            (&even, &fixed, random, 2, 3, 3),
            (&recorded, &drawn, random, 2, 3, 3),
            (&poisson, &fixed, in_turn, 2, 3, 3),
            (&poisson, &fixed, random, 1, 3, 3),
        ] {
            let mut setup = setup(arrivals.clone(), 0.1, 1.0);
            (setup.service, setup.dispatcher) = (service.clone(), dispatcher);
            (setup.servers, setup.replications) = (servers, asked);
            let plan = Plan::of(&setup).unwrap();
            let what = format!("{arrivals:?}, {service:?}, {dispatcher:?}, {servers}");
            let notes = usize::from(asked != done);
            assert_eq!(
                (plan.replications, plan.notes.len()),
                (done, notes),
                "{what}"
            );
        }
    }

    #[test]
    fn values_are_accepted_up_to_their_limits() {
        let mut said = Vec::new();
        let mut check = |what: String, change: &dyn Fn(&mut Setup)| {
            let mut setup = setup(Arrivals::Poisson { rate: 1.0 }, 0.01, 1.0);
            change(&mut setup);
            said.push((what, format!("{:?}", Plan::of(&setup).map(|_| ()))));
        };
        for servers in [0, 1, 100_000, 100_001] {
            check(format!("{servers} servers"), &|setup| {
                setup.servers = servers
            });
        }
        for policies in 0..5 {
            check(format!("{policies} policies of 3 servers"), &|setup| {
                setup.servers = 3;
                setup.policies = vec![Policy::AlwaysOn; policies];
            });
        }
        for bound in [0, 1] {
            let dispatcher = Dispatcher::Packing { bound };
            check(format!("{dispatcher:?}"), &|setup| {
                setup.dispatcher = dispatcher
            });
        }
        // 2²⁴ runs of a server.
        for replications in [0, 1, 4096, 4097] {
            check(
                format!("{replications} replications of 4096 servers"),
                &|setup| (setup.servers, setup.replications) = (4096, replications),
            );
        }
        for confidence in [-0.5, 0.0, 1e-9, 1.0 - 1e-9, 1.0, 1.5, f64::NAN] {
            check(format!("confidence {confidence}"), &|setup| {
                setup.confidence = confidence
            });
        }
        for horizon in [
            Horizon::Seconds(0.0),
            Horizon::Seconds(1e-9),
            Horizon::Seconds(f64::INFINITY),
            Horizon::Requests(0),
            Horizon::Requests(1),
        ] {
            check(format!("horizon {horizon:?}"), &|setup| {
                setup.horizon = horizon
            });
        }
        for seconds in [-1.0, 0.0, 1.0, f64::INFINITY] {
            check(format!("warm-up {seconds} s"), &|setup| {
                setup.warm_up = WarmUp::Seconds(seconds)
            });
        }
        snapshot!("errors", said);
    }
}
