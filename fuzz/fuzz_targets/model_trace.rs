#![no_main]

use std::ops::ControlFlow;

use libfuzzer_sys::fuzz_target;
use reveille_model::policy::{Policy, PowerNap};
use reveille_model::power::Power;
use reveille_model::service::Service;
use reveille_model::simulate::{Arrivals, Dispatcher, Setup, Trace, simulate};

// Recorded requests: refused in one line, or simulated.
fuzz_target!(|bytes: &[u8]| {
    match Trace::read(bytes) {
        Ok(trace) => {
            let nap = PowerNap {
                suspend: 0.01,
                resume: 0.02,
                timeout: 0.005,
            };
            let power = Power {
                active: 100.0,
                idle: 60.0,
                nap: 5.0,
                transition: 80.0,
            };
            let service = Service::Exponential { mean: 0.01 };
            let arrivals = Arrivals::Trace(trace);
            let mut setup = Setup::new(Policy::PowerNap(nap), arrivals, service, power);
            setup.servers = 3;
            setup.dispatcher = Dispatcher::Packing { bound: 2 };
            (setup.replications, setup.threads) = (1, 1);
            let _ = simulate(&setup, &mut |_| ControlFlow::Continue(()));
        }
        Err(error) => assert!(!error.to_string().contains('\n')),
    }
});
