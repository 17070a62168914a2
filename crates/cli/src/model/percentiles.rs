//! `reveille model run --simulate`: the percentiles, which closed forms do not give.

use std::io::{self, Write};
use std::ops::ControlFlow;

use reveille_model::parameters::{Named, Parameters};
use reveille_model::simulate::{Arrivals, Estimate, Setup, Simulated, simulate};
use reveille_model::{Error, sentence};
use serde::Serialize;

use reveille_show::table::{Side, Table};

/// One policy, simulated.
#[derive(Serialize)]
pub struct Row {
    policy: String,
    /// `None`: unstable at this load.
    simulated: Option<Simulated>,
}

/// Every policy at the parameters' load: one server, Poisson arrivals, ten replications of a hundred
/// thousand requests; the same requests for each policy.
pub fn rows(parameters: &Parameters) -> anyhow::Result<Vec<Row>> {
    let always_on = Named::always_on();
    let first = (!parameters.has_always_on()).then_some(&always_on);
    let all = first.into_iter().chain(&parameters.policies);
    all.map(|named| row(parameters, named)).collect()
}

fn row(parameters: &Parameters, named: &Named) -> anyhow::Result<Row> {
    let rate = parameters.rate();
    let setup = Setup::new(
        named.policy.clone(),
        Arrivals::Poisson { rate },
        parameters.service.clone(),
        parameters.power,
    );
    let simulated = match simulate(&setup, &mut |_| ControlFlow::Continue(())) {
        Ok(simulated) => Some(simulated),
        Err(Error::Unstable { .. }) => None,
        Err(other) => return Err(super::told(other)),
    };
    Ok(Row {
        policy: named.name.clone(),
        simulated,
    })
}

pub fn write(rows: &[Row], out: &mut impl Write) -> io::Result<()> {
    if let Some(one) = rows.iter().find_map(|row| row.simulated.as_ref()) {
        writeln!(
            out,
            "\nSimulated, {} requests for each policy; ± is the {} % interval:\n",
            one.requests,
            sentence::digits(one.confidence * 100.0)
        )?;
    }
    let mut table = Table::new(&[
        ("policy", "", Side::Left),
        ("mean", "ms", Side::Right),
        ("p50", "ms", Side::Right),
        ("p90", "ms", Side::Right),
        ("p95", "ms", Side::Right),
        ("p99", "ms", Side::Right),
        ("p99.9", "ms", Side::Right),
    ]);
    for row in rows {
        table.push(cells(row));
    }
    table.write(out)
}

fn cells(row: &Row) -> Vec<String> {
    let ms = |estimate: Option<&Estimate>| estimate.map_or("–".to_owned(), milliseconds);
    let simulated = row.simulated.as_ref();
    let mut cells = vec![
        row.policy.clone(),
        ms(simulated.map(|one| &one.response_mean)),
    ];
    for place in 0..reveille_model::simulate::PERCENTILES.len() {
        let percentile =
            simulated.and_then(|one| one.response_percentiles[place].response.as_ref());
        cells.push(ms(percentile));
    }
    cells
}

fn milliseconds(estimate: &Estimate) -> String {
    let value = sentence::digits(estimate.value * 1e3);
    match estimate.half_width {
        Some(half) => format!("{value} ±{:.1}", half * 1e3),
        None => value,
    }
}
