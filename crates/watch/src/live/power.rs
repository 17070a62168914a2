//! Power between two readings.

use reveille_kernel::Root;
use reveille_kernel::energy::{self, Domain, Meter};

use crate::live::model::{Power, PowerKind};
use crate::live::reading::Reading;

/// Power by RAPL's meters, each with its package, and by batteries.
pub fn power(
    root: &Root,
    meters: &[Meter],
    before: &Reading,
    after: &Reading,
) -> Vec<(Option<u32>, Power)> {
    let elapsed_s = after.at.duration_since(before.at).as_secs_f64();
    let readings = before.energy_uj.iter().zip(&after.energy_uj);
    let metered = meters.iter().zip(readings).filter_map(|(meter, readings)| {
        let used_uj = meter.between_uj((*readings.0)?, (*readings.1)?)?;
        let power = Power {
            meter: meter.name.clone(),
            kind: kind(meter.domain),
            watts: used_uj as f64 / 1e6 / elapsed_s,
        };
        Some((meter.package, power))
    });
    let batteries = energy::discharging(root).into_iter().map(|discharge| {
        let power = Power {
            meter: format!("battery {}", discharge.battery),
            kind: PowerKind::Battery,
            watts: discharge.watts,
        };
        (None, power)
    });
    metered.chain(batteries).collect()
}

fn kind(domain: Domain) -> PowerKind {
    match domain {
        Domain::Package => PowerKind::Package,
        Domain::Cores => PowerKind::Cores,
        Domain::Uncore => PowerKind::Uncore,
        Domain::Dram => PowerKind::Dram,
        Domain::Platform => PowerKind::Platform,
    }
}
