//! The sweep's figures as tables.

use reveille_model::farm::years as years_of;
use reveille_model::question::Crossings;
use reveille_model::sentence::{described, digits, time};
use reveille_model::sweep::{Compared, Point, Sweep, point};

use reveille_show::html_table::{Table, known};

/// Where policies cross.
pub fn crossings(sweep: &Sweep) -> String {
    if sweep.pairs.is_empty() {
        return String::new();
    }
    let mut table = Table::new(
        "Where policies cross",
        2,
        &[
            ("policy", None),
            ("and", None),
            ("in power, % load", None),
            ("in response time, % load", None),
        ],
    );
    for pair in &sweep.pairs {
        table.row(&[
            pair.first.clone(),
            pair.second.clone(),
            loads(&pair.power),
            loads(&pair.response),
        ]);
    }
    table.html()
}

fn loads(crossings: &Crossings) -> String {
    let all: Vec<String> = crossings
        .crossings
        .iter()
        .map(|crossing| digits(crossing.utilisation * 100.0))
        .collect();
    match all.is_empty() {
        true => "nowhere".to_owned(),
        false => all.join(", "),
    }
}

/// Every policy at some of the loads.
pub fn figures(sweep: &Sweep) -> String {
    let mut table = Table::new(
        "Policies at some loads",
        2,
        &[
            ("load", None),
            ("policy", None),
            ("response time, ms", None),
            ("by always-on", None),
            ("power, W", None),
            ("by always-on", None),
            ("active, %", None),
            ("idle, %", None),
            ("in transition, %", None),
            ("napping, %", None),
            ("naps, /s", None),
            ("relative frequency", None),
        ],
    );
    for point in thinned(&sweep.points) {
        for (named, compared) in sweep.parameters.policies.iter().zip(&point.policies) {
            table.row(&row(point, &named.name, compared.as_ref()));
        }
    }
    table.html()
}

fn row(point: &Point, name: &str, compared: Option<&Compared>) -> Vec<String> {
    let figure =
        |value: fn(&Compared) -> f64, text: fn(f64) -> String| known(compared.map(value), text);
    let percent = |share: f64| format!("{:.1}", share * 100.0);
    vec![
        format!("{} %", digits(point.utilisation * 100.0)),
        name.to_owned(),
        figure(|one| one.outcome.response_mean * 1e3, digits),
        figure(|one| one.relative_response, digits),
        figure(|one| one.outcome.power_mean, digits),
        figure(|one| one.relative_power, digits),
        figure(|one| one.outcome.shares.active, percent),
        figure(|one| one.outcome.shares.idle, percent),
        figure(|one| one.outcome.shares.transition, percent),
        figure(|one| one.outcome.shares.nap, percent),
        figure(|one| one.outcome.naps_per_s, digits),
        figure(|one| one.outcome.frequency, digits),
    ]
}

/// A page has room for so many loads.
const LOADS: usize = 10;

/// At most [`LOADS`] points, evenly chosen, the last among them.
fn thinned(points: &[Point]) -> impl Iterator<Item = &Point> {
    let every = points.len().div_ceil(LOADS).max(1);
    points
        .iter()
        .skip((points.len() + every - 1) % every)
        .step_by(every)
}

/// What each policy does.
pub fn policies(sweep: &Sweep) -> String {
    let mut table = Table::new("Policies", 2, &[("policy", None), ("what it does", None)]);
    for named in &sweep.parameters.policies {
        table.row(&[named.name.clone(), described(&named.policy)]);
    }
    table.html()
}

/// What a farm draws in a year at the parameters' own load; nothing where there is none.
pub fn years(sweep: &Sweep) -> String {
    let parameters = &sweep.parameters;
    let Some(farm) = &parameters.farm else {
        return String::new();
    };
    let at = point(
        &parameters.policies,
        &parameters.power,
        &parameters.service,
        parameters.rate(),
    );
    // Who draws the page has been told of a load that is unstable.
    let Ok(at) = at else {
        return String::new();
    };
    let title = format!(
        "In a year, {} servers at {} % load, {} W drawn for each watt of a server",
        farm.servers,
        digits(at.utilisation * 100.0),
        digits(farm.overhead)
    );
    let heads = [
        ("policy", None),
        ("draws, MWh", None),
        ("saves, MWh", None),
        ("saves, money", None),
        ("mean response time", None),
    ];
    let mut table = Table::new(&title, 1, &heads);
    for year in years_of(farm, &parameters.policies, &at) {
        let place = parameters
            .policies
            .iter()
            .position(|named| named.name == year.policy);
        let outcome = match place {
            Some(place) => at.policies[place].map(|one| one.outcome),
            None => Some(at.always_on),
        };
        table.row(&[
            year.policy,
            format!("{:.1}", year.energy_kwh / 1e3),
            format!("{:.1}", year.saved_kwh / 1e3),
            known(year.saved_money, |money| format!("{money:.0}")),
            known(outcome, |outcome| time(outcome.response_mean)),
        ]);
    }
    table.html()
}
