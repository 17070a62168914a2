//! What a farm of such servers draws in a year, and what each policy saves of it.

use std::io::{self, Write};

use reveille_model::farm::Year;
use reveille_model::parameters::{Farm, Parameters};
use reveille_model::sentence::digits;

use reveille_show::table::{Side, Table};

pub fn write(
    farm: &Farm,
    parameters: &Parameters,
    years: &[Year],
    out: &mut impl Write,
) -> io::Result<()> {
    let overhead = match farm.overhead {
        1.0 => String::new(),
        overhead => format!(", with {overhead} W for each watt of a server"),
    };
    let load = digits(parameters.utilisation() * 100.0);
    let servers = farm.servers;
    writeln!(out)?;
    super::say(
        out,
        &format!("In a year, {servers} servers at {load} % load{overhead}:"),
    )?;
    writeln!(out)?;
    let mut headings = vec![
        ("policy", "", Side::Left),
        ("draws", "MWh", Side::Right),
        ("saves", "MWh", Side::Right),
    ];
    if farm.price_per_kwh.is_some() {
        headings.push(("saves", "money", Side::Right));
    }
    let mut table = Table::new(&headings);
    for year in years {
        let policy = year.policy.clone();
        let (draws, saves) = (
            megawatt_hours(year.energy_kwh),
            megawatt_hours(year.saved_kwh),
        );
        match year.saved_money {
            Some(money) => table.row([policy, draws, saves, format!("{money:.0}")]),
            None => table.row([policy, draws, saves]),
        }
    }
    table.write(out)
}

fn megawatt_hours(kwh: f64) -> String {
    format!("{:.1}", kwh / 1000.0)
}
