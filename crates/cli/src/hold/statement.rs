//! The text that `reveille hold` prints.

use std::io::{self, Write};

use reveille_advise::hold::{Effect, HeldGroup, Plan, Through};
use reveille_kernel::cpulist::named;
use reveille_show::table::{Side, Table};

use crate::until::Statement;

/// An unknown value: never a zero.
const UNKNOWN: &str = "-";

impl Statement for Plan {
    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "{}", head(self))?;
        for group in &self.groups {
            let kind = group.core_kind.as_ref();
            let kind = kind.map_or_else(String::new, |kind| format!(", {kind}"));
            writeln!(out, "\n{}{kind}", named(&group.cpus))?;
            table(group, self.percentile.is_some()).write(out)?;
        }
        if let Some(percentile) = self.percentile {
            writeln!(
                out,
                "\nmeasured: {percentile} of the wake latencies in {}",
                self.result.as_deref().unwrap_or_default()
            )?;
        }
        Ok(())
    }

    fn lines(&self) -> Vec<String> {
        let line = |group: &HeldGroup| {
            let names = |effect: Effect| {
                let states = group.states.iter().filter(|state| state.effect == effect);
                let names: Vec<&str> = states.map(|state| state.name.as_str()).collect();
                names.join(", ")
            };
            let stops = match names(Effect::Stopped) {
                none if none.is_empty() => "stops none".to_owned(),
                stopped => format!("stops {stopped}"),
            };
            format!(
                "{} held on {}: leaves {}, {stops}",
                bound(self.bound_us),
                named(&group.cpus),
                names(Effect::Left)
            )
        };
        self.groups.iter().map(line).collect()
    }

    fn notes(&self) -> &[String] {
        &self.notes
    }
}

fn head(plan: &Plan) -> String {
    let whose = match plan.all {
        true => "all CPUs".to_owned(),
        false => named(&plan.cpus),
    };
    let through = match plan.through {
        Some(Through::Device) => ", through /dev/cpu_dma_latency",
        Some(Through::EachCpu) => ", through power/pm_qos_resume_latency_us",
        None => "",
    };
    let asked = match plan.request_us == plan.bound_us {
        true => String::new(),
        false => format!(
            "\nBy the measured latencies, the request to the kernel is {} µs.",
            plan.request_us
        ),
    };
    format!(
        "Latency bound of {} for {whose}{through}{asked}",
        bound(plan.bound_us)
    )
}

fn bound(us: u32) -> String {
    match us {
        0 => "0 (no sleep at all)".to_owned(),
        us => format!("{us} µs"),
    }
}

fn table(group: &HeldGroup, with_measured: bool) -> Table {
    let mut columns = vec![
        ("#", "", Side::Right),
        ("state", "", Side::Left),
        ("exit", "µs", Side::Right),
    ];
    if with_measured {
        columns.push(("measured", "µs", Side::Right));
        columns.push(("datapoints", "", Side::Right));
    }
    columns.push(("bound", "", Side::Left));
    let mut table = Table::new(&columns);
    for state in &group.states {
        let mut row = vec![
            state.index.to_string(),
            state.name.clone(),
            number(state.exit_latency_us),
        ];
        if with_measured {
            let measured = state.measured_ns.map(|ns| ns as f64 / 1000.0);
            row.push(measured.map_or_else(|| UNKNOWN.into(), |us| format!("{us:.1}")));
            row.push(number(state.datapoints));
        }
        let effect = match state.effect {
            Effect::Left => "left",
            Effect::Stopped => "stopped",
            Effect::Disabled => "disabled",
            Effect::Unknown => UNKNOWN,
        };
        row.push(effect.to_owned());
        table.push(row);
    }
    table
}

fn number(number: Option<u64>) -> String {
    number.map_or_else(|| UNKNOWN.into(), |number| number.to_string())
}
