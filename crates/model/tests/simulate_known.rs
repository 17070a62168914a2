//! The simulator compared with known results about queues beyond the closed forms, and its
//! guarantees.
//!
//! Seeds are fixed; intervals are of 99.9%.

use std::ops::ControlFlow;

use reveille_model::Error;
use reveille_model::policy::{Policy, PowerNap};
use reveille_model::power::Power;
use reveille_model::service::Service;
use reveille_model::simulate::{
    Arrivals, Dispatcher, Estimate, Horizon, Replication, Request, Setup, Simulated, Trace, WarmUp,
    follow, simulate,
};

const POWER: Power = Power {
    active: 100.0,
    idle: 60.0,
    nap: 5.0,
    transition: 80.0,
};

const MEAN: f64 = 0.010;

fn setup(policy: Policy, servers: usize, load: f64) -> Setup {
    let rate = load * servers as f64 / MEAN;
    let service = Service::Exponential { mean: MEAN };
    let mut setup = Setup::new(policy, Arrivals::Poisson { rate }, service, POWER);
    setup.servers = servers;
    setup.confidence = 0.999;
    setup
}

fn always_on(servers: usize, load: f64, dispatcher: Dispatcher) -> Setup {
    let mut setup = setup(Policy::AlwaysOn, servers, load);
    setup.dispatcher = dispatcher;
    setup
}

fn nap(transition: f64, timeout: f64) -> Policy {
    Policy::PowerNap(PowerNap {
        suspend: transition,
        resume: transition,
        timeout,
    })
}

fn simulated(setup: &Setup) -> Simulated {
    simulate(setup, &mut |_| ControlFlow::Continue(())).unwrap()
}

#[track_caller]
fn covers(estimate: Estimate, exact: f64) {
    assert!(estimate.covers(exact), "{estimate:?} is not {exact}");
}

#[test]
fn response_times_of_m_m_1_are_exponential() {
    for load in [0.3, 0.7] {
        let mut setup = always_on(1, load, Dispatcher::Random);
        setup.replications = 20;
        let response = 1.0 / (1.0 / MEAN - load / MEAN);
        for percentile in simulated(&setup).response_percentiles {
            let exact = -response * (1.0 - percentile.share).ln();
            let mut estimate = percentile.response.unwrap();
            // The histogram's bucket.
            *estimate.half_width.as_mut().unwrap() += exact / 256.0;
            covers(estimate, exact);
        }
    }
}

/// Of M/M/1: a window that is short beside the time in which the queue forgets rarely meets a long queue.
#[test]
fn a_percentile_of_too_short_a_window_is_unknown_instead_of_too_low() {
    let mut known = Vec::new();
    for (load, requests) in [
        (0.9, 3_000),
        (0.9, 30_000),
        (0.97, 10_000),
        (0.97, 100_000),
        (0.99, 100_000),
    ] {
        let mut setup = always_on(1, load, Dispatcher::Random);
        setup.horizon = Horizon::Requests(requests);
        (setup.replications, setup.confidence) = (20, 0.999);
        let simulated = simulated(&setup);
        for percentile in &simulated.response_percentiles {
            let exact = -MEAN / (1.0 - load) * (1.0 - percentile.share).ln();
            if let Some(estimate) = percentile.response {
                covers(estimate, exact);
            }
        }
        let all = simulated.response_percentiles.iter();
        known.push(all.filter(|one| one.response.is_some()).count());
        assert_eq!(simulated.p99(), None);
        let needed = simulated.requests_for_p99.unwrap();
        assert!(needed > requests, "{load}: {needed}");
    }
    assert_eq!(known, [1, 3, 1, 3, 1]);
    let mut setup = always_on(1, 0.97, Dispatcher::Random);
    let needed = simulated(&setup).requests_for_p99.unwrap();
    setup.horizon = Horizon::Requests(needed);
    covers(simulated(&setup).p99().unwrap(), 100_f64.ln() * MEAN / 0.03);
}

/// The share of requests that wait if the times between requests have the transform `phi`: the root
/// of σ = φ(μ(1 − σ)) below 1; the mean response is E[S]/(1 − σ) (GI/M/1).
fn sigma(phi: impl Fn(f64) -> f64) -> f64 {
    (0..10_000).fold(0.5, |sigma, _| phi((1.0 - sigma) / MEAN))
}

#[test]
fn servers_in_turn_see_erlang_arrivals() {
    for servers in [2, 5, 40] {
        let stages = servers as f64;
        let rate = 0.8 * stages / MEAN;
        let sigma = sigma(|s| (rate / (rate + s)).powf(stages));
        let simulated = simulated(&always_on(servers, 0.8, Dispatcher::RoundRobin));
        covers(simulated.response_mean, MEAN / (1.0 - sigma));
        covers(simulated.waited, sigma);
    }
}

#[test]
fn renewal_arrivals_match_gi_m_1() {
    let rate = 0.8 / MEAN;
    let cv: f64 = 2.0;
    let shape = 1.0 / (cv * cv);
    let first = (1.0 + ((cv * cv - 1.0) / (cv * cv + 1.0)).sqrt()) / 2.0;
    let hyper = |s: f64| {
        let branch = |p: f64| p * 2.0 * p * rate / (2.0 * p * rate + s);
        branch(first) + branch(1.0 - first)
    };
    let even = sigma(|s| (-s / rate).exp());
    let gamma = sigma(|s| (shape * rate / (shape * rate + s)).powf(shape));
    for (arrivals, sigma) in [
        (Arrivals::Deterministic { rate }, even),
        (Arrivals::Gamma { rate, cv }, gamma),
        (Arrivals::Hyperexponential { rate, cv }, sigma(hyper)),
    ] {
        let mut setup = always_on(1, 0.8, Dispatcher::Random);
        setup.arrivals = arrivals;
        let simulated = simulated(&setup);
        covers(simulated.response_mean, MEAN / (1.0 - sigma));
        covers(simulated.waited, sigma);
    }
}

/// Erlang's C: the probability of waiting in M/M/k, and the mean response.
fn m_m_k(servers: usize, load: f64) -> f64 {
    let k = servers as f64;
    let offered = load * k;
    // Erlang's B, by its recursion.
    let blocked = (1..=servers).fold(1.0, |b, n| offered * b / (n as f64 + offered * b));
    let waits = blocked / (1.0 - load * (1.0 - blocked));
    MEAN + waits * MEAN / (k * (1.0 - load))
}

#[test]
fn the_shortest_queue_is_between_one_shared_queue_and_random_dispatch() {
    for servers in [2, 8] {
        let response = |dispatcher| simulated(&always_on(servers, 0.8, dispatcher));
        let random = response(Dispatcher::Random);
        let in_turn = response(Dispatcher::RoundRobin);
        let shortest = response(Dispatcher::LeastLoaded);
        covers(random.response_mean, MEAN / 0.2);
        let mean = |run: &Replication| run.response_mean;
        for (worse, better) in [(&random, &in_turn), (&in_turn, &shortest)] {
            let above = worse.above(better, 0.999, mean).unwrap();
            assert!(above.value > above.half_width.unwrap(), "{above:?}");
        }
        let one_queue = m_m_k(servers, 0.8);
        let Estimate { value, half_width } = shortest.response_mean;
        assert!(
            value - half_width.unwrap() > one_queue,
            "{value}, {one_queue}"
        );
    }
}

#[test]
fn packing_lets_more_servers_sleep_than_random_dispatch() {
    let naps = |dispatcher| {
        let mut setup = setup(nap(0.020, 0.0), 20, 0.3);
        setup.dispatcher = dispatcher;
        setup.horizon = Horizon::Requests(50_000);
        simulated(&setup)
    };
    let (random, packing) = (
        naps(Dispatcher::Random),
        naps(Dispatcher::Packing { bound: 4 }),
    );
    let saved = random.above(&packing, 0.999, |run| run.power_mean).unwrap();
    assert!(
        saved.value > 10.0 && saved.value > saved.half_width.unwrap(),
        "{saved:?}"
    );
    // The first have all the work, the last none.
    let (first, last) = (packing.by_server[0], packing.by_server[19]);
    assert!(first.active > 0.8 && last.nap > 0.8, "{first:?} {last:?}");
}

#[test]
fn poisson_arrivals_see_time_averages() {
    let mut napping = setup(nap(0.020, 0.010), 1, 0.4);
    napping.replications = 20;
    let napping = simulated(&napping);
    let apart = |run: &Replication| {
        run.found_asleep as f64 / run.requests as f64 - run.shares.nap - run.shares.transition
    };
    covers(napping.estimate(0.999, apart).unwrap(), 0.0);
    let apart = |run: &Replication| run.waited as f64 / run.requests as f64 + run.shares.idle - 1.0;
    covers(napping.estimate(0.999, apart).unwrap(), 0.0);
}

#[test]
fn shares_sum_to_one_and_energy_is_power_times_time() {
    for dispatcher in [Dispatcher::Random, Dispatcher::Packing { bound: 2 }] {
        let mut setup = setup(nap(0.020, 0.010), 7, 0.4);
        setup.dispatcher = dispatcher;
        setup.horizon = Horizon::Requests(5_000);
        for run in simulated(&setup).runs {
            for share in run.by_server.iter().chain([&run.shares]) {
                let sum = share.active + share.idle + share.transition + share.nap;
                assert!((sum - 1.0).abs() < 1e-9, "{share:?}");
                assert!(share.idle >= 0.0 && share.nap >= 0.0, "{share:?}");
            }
            let watts = run.shares.power(&POWER);
            assert!((run.power_mean - watts).abs() < 1e-7);
            let energy = watts * run.window * 7.0 / run.requests as f64;
            assert!((run.energy_per_request / energy - 1.0).abs() < 1e-9);
        }
    }
}

#[test]
fn results_depend_on_seeds_and_not_on_threads() {
    for (servers, dispatcher) in [(100, Dispatcher::Random), (5, Dispatcher::LeastLoaded)] {
        let mut setup = setup(nap(0.020, 0.010), servers, 0.5);
        setup.dispatcher = dispatcher;
        setup.horizon = Horizon::Requests(10_000);
        setup.replications = 4;
        let mut with = |threads, seed| {
            (setup.threads, setup.seed) = (threads, seed);
            simulated(&setup).runs
        };
        let one = with(1, 5);
        assert_eq!(one, with(2, 5));
        assert_eq!(one, with(7, 5));
        assert_ne!(one, with(1, 6));
        // Replications differ from each other, too.
        assert_ne!(one[0], one[1]);
    }
}

#[test]
fn policies_and_dispatchers_with_one_seed_meet_the_same_requests() {
    let asked = |policy, dispatcher| {
        let mut setup = setup(policy, 4, 0.5);
        setup.dispatcher = dispatcher;
        setup.horizon = Horizon::Requests(500);
        setup.warm_up = WarmUp::Seconds(0.0);
        let mut asked = Vec::new();
        let mut each = |request: &Request| asked.push((request.arrival, request.work));
        follow(&setup, 3, &mut each).unwrap();
        asked
    };
    let first = asked(Policy::AlwaysOn, Dispatcher::LeastLoaded);
    assert_eq!(first, asked(nap(0.020, 0.0), Dispatcher::LeastLoaded));
    assert_eq!(
        first,
        asked(nap(0.020, 0.0), Dispatcher::Packing { bound: 2 })
    );
    let split = asked(Policy::AlwaysOn, Dispatcher::Random);
    assert_eq!(split, asked(nap(0.020, 0.0), Dispatcher::Random));
}

#[test]
fn the_warm_up_removes_the_empty_start() {
    // Windows so short that a queue that starts empty affects them.
    let response = |warm_up| {
        let mut setup = always_on(1, 0.9, Dispatcher::Random);
        setup.horizon = Horizon::Requests(100);
        setup.replications = 4000;
        setup.warm_up = warm_up;
        // Of all requests, since replications have different numbers of them.
        let simulated = simulated(&setup);
        let sum = |run: &Replication| run.response_mean * run.requests as f64;
        let requests = simulated.requests as f64 / 4000.0;
        let sum = simulated.estimate(0.999, sum).unwrap();
        (sum.value / requests, sum.half_width.unwrap() / requests)
    };
    let exact = MEAN / 0.1;
    let (cold, half) = response(WarmUp::Seconds(0.0));
    assert!(cold + half < 0.7 * exact, "{cold} ± {half}");
    let (warm, half) = response(WarmUp::Relaxation);
    assert!((warm - exact).abs() < half, "{warm} ± {half}");
}

#[test]
fn intervals_use_students_distribution() {
    // By hand: mean 2, standard deviation 1; t(0.975, 2) = 4.302653.
    let estimate = Estimate::of(&[1.0, 2.0, 3.0], 0.95).unwrap();
    assert_eq!(estimate.value, 2.0);
    let half = 4.302_652_7 / 3f64.sqrt();
    assert!(
        (estimate.half_width.unwrap() - half).abs() < 1e-6,
        "{estimate:?}"
    );
    let alone = Estimate::of(&[1.0], 0.95).unwrap();
    assert_eq!((alone.value, alone.half_width), (1.0, None));
    assert_eq!(Estimate::of(&[], 0.95), None);
}

#[test]
fn a_trace_is_simulated_to_its_last_departure() {
    let text = b"arrival,service\n10,1\n10.5,1\n15,2\n";
    let arrivals = Arrivals::Trace(Trace::read(text).unwrap());
    let service = Service::Exponential { mean: 1.0 };
    let simulated = simulated(&Setup::new(nap(0.25, 0.5), arrivals, service, POWER));
    // By hand: the first arrives at 0. Served 0 to 1 and 1 to 2; idle to 2.5, suspended at 2.75,
    // woken at 5, ready at 5.25; served to 7.25.
    assert_eq!(simulated.replications, 1);
    assert_eq!(simulated.window, 7.25);
    let run = &simulated.runs[0];
    let close = |value: f64, exact: f64| assert!((value - exact).abs() < 1e-12, "{value} {exact}");
    close(run.response_mean, (1.0 + 1.5 + 2.25) / 3.0);
    close(run.shares.active, 4.0 / 7.25);
    close(run.shares.transition, 0.5 / 7.25);
    close(run.shares.idle, 0.5 / 7.25);
    close(run.shares.nap, 2.25 / 7.25);
    assert_eq!((run.naps, run.found_asleep, run.waited), (1, 1, 2));
    assert_eq!(simulated.response_mean.half_width, None);
    assert!(simulated.notes[0].contains("nothing is drawn at random"));
    assert!(
        simulated
            .response_percentiles
            .iter()
            .all(|p| p.response.is_none())
    );
}

#[test]
fn an_overload_is_refused_with_the_stable_limit_and_a_trace_is_noted() {
    let refused = |setup: &Setup| match simulate(setup, &mut |_| ControlFlow::Continue(())) {
        Err(error) => error.to_string(),
        Ok(_) => panic!("it was simulated"),
    };
    let error = refused(&always_on(10, 1.25, Dispatcher::LeastLoaded));
    for expected in ["1.250", "1000 requests", "8 ms"] {
        assert!(error.contains(expected) && !error.contains('\n'), "{error}");
    }
    // With random dispatch the slow one is overloaded; by queue length it is not.
    let mut mixed = always_on(2, 0.7, Dispatcher::RoundRobin);
    let slow = reveille_model::policy::Dvfs {
        floor: 0.5,
        processor_share: 0.3,
        idle_share: 0.0,
        law: reveille_model::policy::Law::Cubic,
        rule: reveille_model::policy::Rule::Fixed(0.5),
    };
    mixed.policies = vec![Policy::AlwaysOn, Policy::Dvfs(slow)];
    mixed.horizon = Horizon::Requests(1000);
    assert!(refused(&mixed).contains("load is 1.4"));
    mixed.dispatcher = Dispatcher::LeastLoaded;
    simulated(&mixed);

    let mut trace = always_on(1, 0.5, Dispatcher::Random);
    trace.arrivals = Arrivals::Trace(Trace::read(b"0,2\n1,2\n2,2\n").unwrap());
    trace.horizon = Horizon::Trace;
    let simulated = simulated(&trace);
    assert!(
        simulated.notes[0].contains("queue grows"),
        "{:?}",
        simulated.notes
    );
}

#[test]
fn invalid_input_is_refused_in_one_line() {
    let refused = |change: fn(&mut Setup), expected: &str| {
        let mut setup = always_on(2, 0.5, Dispatcher::Random);
        change(&mut setup);
        let error = simulate(&setup, &mut |_| ControlFlow::Continue(())).unwrap_err();
        assert!(matches!(error, Error::Usage(_)), "{error:?}");
        let text = error.to_string();
        assert!(text.contains(expected) && !text.contains('\n'), "{text}");
    };
    refused(|s| s.servers = 0, "servers: 0");
    refused(
        |s| s.policies = vec![Policy::AlwaysOn; 3],
        "3 for 2 servers",
    );
    refused(
        |s| s.dispatcher = Dispatcher::Packing { bound: 0 },
        "bound: 0",
    );
    refused(|s| s.replications = 0, "replications: 0");
    refused(
        |s| s.replications = u32::MAX,
        "4294967295 replications of 2",
    );
    refused(|s| s.confidence = 1.0, "confidence: 1");
    refused(|s| s.horizon = Horizon::Seconds(-1.0), "horizon: -1 s");
    refused(|s| s.horizon = Horizon::Requests(0), "requests: 0;");
    refused(|s| s.horizon = Horizon::Trace, "no trace");
    refused(|s| s.warm_up = WarmUp::Seconds(f64::NAN), "warm-up: NaN");
    refused(
        |s| s.service = Service::Exponential { mean: -1.0 },
        "the mean is -1",
    );
    refused(
        |s| s.arrivals = Arrivals::Poisson { rate: -1.0 },
        "rate: -1",
    );
    refused(|s| s.power.nap = -1.0, "nap");
    refused(
        |s| s.arrivals = Arrivals::Trace(Trace::default()),
        "no request in it",
    );
}

#[test]
fn a_stopped_simulation_keeps_completed_replications() {
    let mut setup = always_on(1, 0.5, Dispatcher::Random);
    setup.replications = 500;
    setup.horizon = Horizon::Requests(20_000);
    setup.threads = 2;
    let stop = &mut |progress: &reveille_model::simulate::Progress| {
        assert_eq!(progress.replications, 500);
        match progress.replications_done >= 3 {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    };
    let some = simulate(&setup, stop).unwrap();
    assert!(
        (3..500).contains(&some.replications),
        "{}",
        some.replications
    );
    assert_eq!(some.replications_asked, 500);
    setup.horizon = Horizon::Requests(2_000_000_000);
    let none = simulate(&setup, &mut |_| ControlFlow::Break(()));
    assert!(matches!(none, Err(Error::Nothing(_))));
}
