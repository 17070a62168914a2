//! The simulator compared with a simple event-driven one: the same requests, one by one.

use std::ops::ControlFlow;

use crate::plain::{Asked, Farm, Plain};
use reveille_model::closed::dvfs;
use reveille_model::policy::{CState, CStates, Choice, Dvfs, Law, Policy, PowerNap, Rule};
use reveille_model::power::Power;
use reveille_model::service::Service;
use reveille_model::simulate::{
    Arrivals, Dispatcher, Horizon, Request, Setup, Trace, WarmUp, follow, simulate,
};

const POWER: Power = Power {
    active: 100.0,
    idle: 60.0,
    nap: 5.0,
    transition: 80.0,
};

fn nap(suspend: f64, resume: f64, timeout: f64) -> Policy {
    Policy::PowerNap(PowerNap {
        suspend,
        resume,
        timeout,
    })
}

fn c_states(choice: Choice) -> Policy {
    let state = |name: &str, exit_latency, power, target_residency| CState {
        name: name.into(),
        exit_latency,
        power,
        target_residency,
    };
    Policy::CStates(CStates {
        states: vec![
            state("C1", 0.0001, 40.0, 0.001),
            state("C6", 0.002, 20.0, 0.013),
        ],
        choice,
    })
}

fn policies() -> Vec<Policy> {
    vec![
        Policy::AlwaysOn,
        nap(0.0031, 0.0052, 0.0),
        nap(0.0201, 0.0302, 0.0113),
        nap(0.01, 0.01, f64::INFINITY),
        Policy::Dvfs(Dvfs {
            floor: 0.4,
            processor_share: 0.33,
            idle_share: 0.1,
            law: Law::Cubic,
            rule: Rule::Linear,
        }),
        c_states(Choice::Deepest),
        c_states(Choice::Mean),
        c_states(Choice::Oracle),
    ]
}

const DISPATCHERS: [Dispatcher; 5] = [
    Dispatcher::Random,
    Dispatcher::RoundRobin,
    Dispatcher::LeastLoaded,
    Dispatcher::Packing { bound: 1 },
    Dispatcher::Packing { bound: 4 },
];

fn setup(
    servers: usize,
    policies: Vec<Policy>,
    dispatcher: Dispatcher,
    arrivals: Arrivals,
) -> Setup {
    let service = Service::Exponential { mean: 0.010 };
    let mut setup = Setup::new(Policy::AlwaysOn, arrivals, service, POWER);
    setup.policies = policies;
    setup.servers = servers;
    setup.dispatcher = dispatcher;
    setup.horizon = Horizon::Requests(1500);
    setup.warm_up = WarmUp::Seconds(100.0 / setup.arrivals.rate());
    setup.replications = 1;
    setup
}

fn requests(setup: &Setup) -> Vec<Request> {
    let mut requests = Vec::new();
    follow(setup, 0, &mut |request| requests.push(*request)).unwrap();
    requests.sort_by(|a, b| a.arrival.total_cmp(&b.arrival));
    requests
}

fn farm(setup: &Setup) -> Farm {
    let gap = setup.servers as f64 / setup.arrivals.rate();
    let WarmUp::Seconds(from) = setup.warm_up else {
        unreachable!("set above")
    };
    let policies: Vec<Policy> = match setup.policies.as_slice() {
        [one] => vec![one.clone(); setup.servers],
        each => each.to_vec(),
    };
    let frequency = |policy: &Policy| match policy {
        Policy::Dvfs(its) => dvfs::frequency(its, &setup.service, 1.0 / gap).unwrap(),
        _ => 1.0,
    };
    Farm {
        frequencies: policies.iter().map(frequency).collect(),
        policies,
        dispatcher: setup.dispatcher,
        power: setup.power,
        gap,
        window: (from, from + 1500.0 / setup.arrivals.rate()),
    }
}

fn asked(requests: &[Request]) -> Vec<Asked> {
    let ask = |request: &Request| Asked {
        arrival: request.arrival,
        work: request.work,
        server: Some(request.server),
    };
    requests.iter().map(ask).collect()
}

/// Rounding: both add up several thousand times of some milliseconds.
const CLOSE: f64 = 1e-9;

#[track_caller]
fn same_requests(setup: &Setup) {
    let name = format!(
        "{:?}, {:?}, {} servers",
        setup.policies, setup.dispatcher, setup.servers
    );
    let requests = requests(setup);
    assert!(requests.len() > 1000, "{name}: {}", requests.len());
    let (farm, asked) = (farm(setup), asked(&requests));
    let plain = Plain::run(&farm, &asked);
    for (request, got) in requests.iter().zip(&plain.got) {
        let close = (request.start - got.start).abs() < CLOSE
            && (request.departure - got.departure).abs() < CLOSE;
        let same = request.server == got.server && request.found_ready == got.found_ready;
        assert!(
            close && same,
            "{name}: {request:?}, but by events server {}, {} to {}, ready: {}",
            got.server,
            got.start,
            got.departure,
            got.found_ready
        );
    }
    // Little's law: the integral of the number of requests is the sum of their response times.
    let responses: f64 = requests.iter().map(|r| r.departure - r.arrival).sum();
    assert!(
        (plain.sums.requests / responses - 1.0).abs() < CLOSE,
        "{name}"
    );
}

#[track_caller]
fn same_accounts(setup: &Setup) {
    let name = format!(
        "{:?}, {:?}, {} servers",
        setup.policies, setup.dispatcher, setup.servers
    );
    let requests = requests(setup);
    let (farm, asked) = (farm(setup), asked(&requests));
    let plain = Plain::run(&farm, &asked);
    let simulated = simulate(setup, &mut |_| ControlFlow::Continue(())).unwrap();
    let run = &simulated.runs[0];
    let time = run.window * setup.servers as f64;
    let sums = &plain.sums;
    for (what, share, seconds) in [
        ("active", run.shares.active, sums.active),
        ("idle", run.shares.idle, sums.idle),
        ("transition", run.shares.transition, sums.transition),
        ("nap", run.shares.nap, sums.nap),
        ("energy", run.power_mean, sums.joules),
    ] {
        let expected = seconds / time;
        assert!(
            (share - expected).abs() < 1e-7,
            "{name}, {what}: {share}, not {expected}"
        );
    }
    let inside = requests
        .iter()
        .filter(|request| (farm.window.0..farm.window.1).contains(&request.arrival));
    let responses: Vec<f64> = inside.map(|r| r.departure - r.arrival).collect();
    assert_eq!(run.requests, responses.len() as u64, "{name}");
    let mean = responses.iter().sum::<f64>() / responses.len() as f64;
    assert!((run.response_mean - mean).abs() < CLOSE, "{name}");
    let share = run.shares;
    let whole = share.active + share.idle + share.transition + share.nap;
    assert!((whole - 1.0).abs() < CLOSE, "{name}: {whole}");
}

fn each_setup(check: impl Fn(&Setup)) {
    for servers in [1, 2, 7, 70] {
        // Mean service times are 10 ms, or up to 25 ms with DVFS.
        let rate = 55.0 * servers as f64;
        for arrivals in [
            Arrivals::Poisson { rate },
            Arrivals::Hyperexponential { rate, cv: 2.5 },
        ] {
            for dispatcher in DISPATCHERS {
                for policy in policies() {
                    check(&setup(servers, vec![policy], dispatcher, arrivals.clone()));
                }
            }
        }
    }
}

#[test]
fn each_request_leaves_when_the_reference_simulator_predicts() {
    each_setup(same_requests);
}

#[test]
fn times_and_energy_match_the_reference_simulator() {
    each_setup(|setup| {
        // If each server has its own requests the oracle also knows the next one after the window.
        let is_poisson = matches!(setup.arrivals, Arrivals::Poisson { .. });
        let is_alone = setup.servers == 1 || is_poisson && setup.dispatcher == Dispatcher::Random;
        if !(is_alone && setup.policies == [c_states(Choice::Oracle)]) {
            same_accounts(setup);
        }
    });
}

#[test]
fn servers_with_different_policies_keep_to_their_own() {
    let all = policies();
    let rate = 50.0 * all.len() as f64;
    let bursts = Arrivals::Hyperexponential { rate, cv: 2.5 };
    for dispatcher in DISPATCHERS {
        // All but the oracle, which knows more than the reference simulator about independent
        // servers.
        let poisson = Arrivals::Poisson { rate: 350.0 };
        let setups = [
            setup(7, all[..7].to_vec(), dispatcher, poisson),
            setup(all.len(), all.clone(), dispatcher, bursts.clone()),
        ];
        for setup in setups {
            same_requests(&setup);
            same_accounts(&setup);
        }
    }
}

#[test]
fn long_queues_are_compared_correctly() {
    // More than 64 requests in each queue: three bursts of 400 requests to three servers.
    let burst = |start: f64| {
        let arrival = move |place: u32| start + f64::from(place) * 1.13e-4;
        (0..400).map(move |place| {
            format!(
                "{},{}\n",
                arrival(place),
                1e-5 * f64::from(1 + place * 61 % 199)
            )
        })
    };
    let text: String = [0.0, 0.7, 1.2].into_iter().flat_map(burst).collect();
    let trace = Trace::read(text.as_bytes()).unwrap();
    for dispatcher in DISPATCHERS {
        for policy in [Policy::AlwaysOn, nap(0.02, 0.03, 0.01)] {
            let mut setup = setup(3, vec![policy], dispatcher, Arrivals::Trace(trace.clone()));
            setup.horizon = Horizon::Trace;
            same_requests(&setup);
        }
    }
}
