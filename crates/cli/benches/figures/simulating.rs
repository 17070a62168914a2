//! How fast `reveille model simulate` is. It needs neither root nor BPF.

use std::ops::ControlFlow;
use std::time::Instant;

use nix::time::{ClockId, clock_gettime};
use reveille_model::policy::{Policy, PowerNap};
use reveille_model::power::Power;
use reveille_model::service::Service;
use reveille_model::simulate::{Arrivals, Dispatcher, Horizon, Setup, Simulated, simulate};

use super::{median, row};

const MEAN_S: f64 = 0.010;
const LOAD: f64 = 0.5;

pub fn simulating() {
    let nap = Policy::PowerNap(PowerNap {
        suspend: 0.010,
        resume: 0.010,
        timeout: 0.050,
    });
    let even = Service::Exponential { mean: MEAN_S };
    let wide = Service::Lognormal {
        mean: MEAN_S,
        cv: 1.5,
    };
    let packing = Dispatcher::Packing { bound: 4 };
    for (what, servers, policy, dispatcher, service) in [
        (
            "1 server, always on",
            1,
            &Policy::AlwaysOn,
            Dispatcher::Random,
            &even,
        ),
        ("1 server that naps", 1, &nap, Dispatcher::Random, &even),
        (
            "1 server that naps, lognormal",
            1,
            &nap,
            Dispatcher::Random,
            &wide,
        ),
        (
            "1000 servers that nap, at random",
            1000,
            &nap,
            Dispatcher::Random,
            &even,
        ),
        (
            "1000 servers that nap, in turn",
            1000,
            &nap,
            Dispatcher::RoundRobin,
            &even,
        ),
        (
            "1000 servers that nap, the least loaded",
            1000,
            &nap,
            Dispatcher::LeastLoaded,
            &even,
        ),
        ("1000 servers that nap, packing", 1000, &nap, packing, &even),
    ] {
        let mut setup = farm(servers, policy, dispatcher, service);
        (setup.threads, setup.replications) = (1, 1);
        setup.horizon = Horizon::Requests(5_000_000);
        let rates = (0..5).map(|_| {
            let before = cpu_seconds();
            let events = simulated(&setup).events as f64;
            events / (cpu_seconds() - before) / 1e6
        });
        row(
            &format!("simulating on one core: {what}"),
            format!("{:.0} million events per second", median(rates.collect())),
            "20 million",
        );
    }
    let mut setup = farm(1000, &nap, Dispatcher::Random, &even);
    (setup.threads, setup.replications) = (2, 1);
    setup.horizon = Horizon::Seconds(3600.0);
    let start = Instant::now();
    let simulated = simulated(&setup);
    let seconds = start.elapsed().as_secs_f64();
    row(
        "a thousand servers for an hour at 50% load of 10 ms, on two cores",
        format!(
            "{seconds:.1} s ({:.0} million requests)",
            simulated.requests as f64 / 1e6
        ),
        "20 s",
    );
}

fn farm(servers: usize, policy: &Policy, dispatcher: Dispatcher, service: &Service) -> Setup {
    let power = Power {
        active: 100.0,
        idle: 60.0,
        nap: 5.0,
        transition: 60.0,
    };
    let rate = LOAD / MEAN_S * servers as f64;
    let arrivals = Arrivals::Poisson { rate };
    let mut setup = Setup::new(policy.clone(), arrivals, service.clone(), power);
    (setup.servers, setup.dispatcher) = (servers, dispatcher);
    setup
}

fn simulated(setup: &Setup) -> Simulated {
    simulate(setup, &mut |_| ControlFlow::Continue(())).expect("the load is stable")
}

/// What this process has used: what others do on the same CPU is not in it.
fn cpu_seconds() -> f64 {
    let used = clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).expect("a clock of every Linux");
    used.tv_sec() as f64 + used.tv_nsec() as f64 / 1e9
}
