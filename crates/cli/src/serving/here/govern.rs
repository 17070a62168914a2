//! The service by rules, with its metrics and on the system bus.

use std::process::ExitCode;

use reveille_bus::Bus;
use reveille_govern::metrics::{Listener, Metrics};
use reveille_govern::service::Publish;

use crate::exit;
use crate::govern::{self, Serve};

pub fn serve(args: Serve) -> anyhow::Result<ExitCode> {
    let (mut listeners, complaints) = Listener::passed();
    complaints.iter().for_each(exit::say);
    if let Some(address) = &args.metrics {
        listeners.push(Listener::at(address)?);
    }
    govern::serve(args, |events| {
        let metrics = match listeners.is_empty() {
            true => None,
            false => Some(Metrics::serve(listeners, events.clone(), |line| {
                exit::say(line)
            })?),
        };
        let bus = Bus::start(move |event| events.send(event).is_ok())?;
        Ok(Box::new(move |standing| {
            // They are served as long as the bus is.
            let _ = &metrics;
            bus.publish(standing);
        }) as Publish)
    })
}
