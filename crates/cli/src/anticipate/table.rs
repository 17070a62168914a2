//! What the engine does, as text.

use std::io::{self, Write};

use reveille_anticipate::{OperationStatistics, Statistics};

use reveille_show::table::{Side, Table};

/// All of it, and for whom if that is asked.
pub fn write(statistics: &Statistics, accounting: bool, out: &mut impl Write) -> io::Result<()> {
    if statistics.operations.is_empty() {
        writeln!(out, "No request was seen in {:.1} s.", statistics.elapsed_s)?;
    } else {
        operations(statistics, out)?;
        writeln!(out)?;
        refused(statistics, out)?;
    }
    writeln!(out)?;
    cpus(statistics, out)?;
    in_all(statistics, out)?;
    let wished = statistics.expectations;
    if wished != Default::default() {
        writeln!(
            out,
            "\nApplications announced {}: {} too late, {} over budget, {} beyond what one user \
             may, {} where the plan was full, {} for CPUs that are offline",
            wished.all(),
            wished.past,
            wished.over_budget,
            wished.of_user,
            wished.full,
            wished.no_cpu
        )?;
    }
    if accounting {
        writeln!(out)?;
        accounts(statistics, out)?;
    }
    Ok(())
}

fn operations(statistics: &Statistics, out: &mut impl Write) -> io::Result<()> {
    use Side::{Left, Right};
    let mut table = Table::new(&[
        ("disk", "", Left),
        ("op", "", Left),
        ("requests", "", Right),
        ("assisted", "", Right),
        ("in time", "%", Right),
        ("early", "%", Right),
        ("late", "%", Right),
        ("busy", "%", Right),
        ("error", "% p50", Right),
        ("", "% p90", Right),
        ("alone", "µs p50", Right),
        ("assisted", "µs p50", Right),
        ("gain", "µs, 95 %", Right),
    ]);
    for one in &statistics.operations {
        let fates = one.assistance;
        let of_assisted = |count: u64| match fates.assisted {
            0 => "-".to_owned(),
            all => format!("{:.1}", 100.0 * count as f64 / all as f64),
        };
        let number = |value: Option<f64>, decimals: usize| {
            value.map_or("-".to_owned(), |value| format!("{value:.decimals$}"))
        };
        table.row([
            one.device.clone(),
            one.operation.to_string(),
            one.requests.to_string(),
            fates.assisted.to_string(),
            of_assisted(fates.in_time),
            of_assisted(fates.early),
            of_assisted(fates.late),
            of_assisted(fates.cpu_busy),
            number(one.error_median_percent, 0),
            number(one.error_p90_percent, 0),
            number(one.left_alone.map(|latency| latency.median_us), 1),
            number(one.assisted.map(|latency| latency.median_us), 1),
            gain(one),
        ]);
    }
    table.write(out)
}

/// What is saved; the interval says whether it is more than chance.
fn gain(one: &OperationStatistics) -> String {
    one.gain.map_or("-".to_owned(), |gain| {
        format!(
            "{:.1} [{:.1}, {:.1}]",
            -gain.median_us, -gain.high_us, -gain.low_us
        )
    })
}

/// Why requests were not assisted.
fn refused(statistics: &Statistics, out: &mut impl Write) -> io::Result<()> {
    let sum =
        |of: fn(&OperationStatistics) -> u64| -> u64 { statistics.operations.iter().map(of).sum() };
    let reasons = [
        (sum(|one| one.assistance.control), "at random, to compare"),
        (sum(|one| one.assistance.learning), "too little is known"),
        (sum(|one| one.assistance.crowded), "too many in flight"),
        (sum(|one| one.assistance.over_budget), "over budget"),
        (sum(|one| one.assistance.plan_full), "plan full"),
        (sum(|one| one.assistance.unattended), "issued by the kernel"),
    ];
    let told: Vec<String> = reasons
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, why)| format!("{count} {why}"))
        .collect();
    match told.is_empty() {
        true => Ok(()),
        false => writeln!(out, "Left alone  {}", told.join(", ")),
    }
}

fn cpus(statistics: &Statistics, out: &mut impl Write) -> io::Result<()> {
    use Side::{Left, Right};
    let mut table = Table::new(&[
        ("CPU", "", Left),
        ("awake", "%", Right),
        ("times", "", Right),
        ("timers", "", Right),
        ("fired", "", Right),
        ("cancelled", "", Right),
        ("met it busy", "", Right),
        ("naps", "", Right),
        ("late after", "a sleep of 32 µs", Right),
    ]);
    for cpu in statistics
        .cpus
        .iter()
        .filter(|cpu| cpu.timers > 0 || cpu.awake_s > 0.0)
    {
        let late = cpu.late_us.iter().find(|(sleep_us, _)| *sleep_us == 32);
        table.row([
            cpu.cpu.to_string(),
            format!("{:.2}", cpu.awake_percent),
            cpu.spells.to_string(),
            cpu.timers.to_string(),
            cpu.fired.to_string(),
            cpu.cancelled.to_string(),
            cpu.busy.to_string(),
            cpu.naps.to_string(),
            late.map_or("-".to_owned(), |(_, late_us)| format!("{late_us:.1} µs")),
        ]);
    }
    table.write(out)
}

/// What all of it took.
fn in_all(statistics: &Statistics, out: &mut impl Write) -> io::Result<()> {
    write!(out, "Awake in all {:.2} ms", statistics.awake_s * 1e3)?;
    match (statistics.awake_j, statistics.awake_power) {
        (Some(joules), Some(power)) => writeln!(
            out,
            ", about {:.2} mJ: {:.1} W [{:.1}, {:.1}] for a CPU awake rather than asleep",
            joules * 1e3,
            power.median_w,
            power.low_w,
            power.high_w
        ),
        _ => writeln!(out),
    }
}

fn accounts(statistics: &Statistics, out: &mut impl Write) -> io::Result<()> {
    use Side::{Left, Right};
    let mut table = Table::new(&[
        ("on behalf of", "", Left),
        ("process", "", Right),
        ("disk", "", Left),
        ("requests", "", Right),
        ("assisted", "", Right),
        ("awake", "ms", Right),
        ("", "mJ", Right),
    ]);
    for one in &statistics.accounting {
        table.row([
            one.name.clone(),
            one.process
                .map_or("-".to_owned(), |process| process.to_string()),
            one.device
                .clone()
                .unwrap_or_else(|| "(by itself)".to_owned()),
            one.requests.to_string(),
            one.assisted.to_string(),
            format!("{:.2}", one.awake_s * 1e3),
            one.awake_j
                .map_or("-".to_owned(), |joules| format!("{:.2}", joules * 1e3)),
        ]);
    }
    table.write(out)
}

#[cfg(test)]
mod tests {
    use reveille_anticipate::{Accounted, AwakePower};

    use super::*;

    fn told(awake_power: Option<AwakePower>) -> String {
        let joules = |awake_s: f64| Some(awake_s * awake_power?.median_w);
        let statistics = Statistics {
            elapsed_s: 1.0,
            awake_power,
            awake_s: 0.02,
            awake_j: joules(0.02),
            operations: Vec::new(),
            cpus: Vec::new(),
            expectations: Default::default(),
            accounting: vec![Accounted {
                process: Some(4711),
                name: "reader".into(),
                cgroup: 1,
                device: Some("vda".into()),
                requests: 3,
                assisted: 2,
                awake_s: 0.01,
                awake_j: joules(0.01),
            }],
        };
        let mut text = Vec::new();
        write(&statistics, true, &mut text).unwrap();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn joules_are_told_where_the_power_is_known_and_a_dash_where_not() {
        let known = told(Some(AwakePower {
            median_w: 2.5,
            low_w: 2.25,
            high_w: 2.75,
        }));
        assert!(
            known.contains("Awake in all 20.00 ms, about 50.00 mJ: 2.5 W"),
            "{known}"
        );
        let account = |text: &str| {
            let last = text.lines().last().unwrap();
            last.split_whitespace()
                .skip(5)
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert_eq!(account(&known), "10.00 25.00", "{known}");
        let unknown = told(None);
        assert!(unknown.contains("Awake in all 20.00 ms\n"), "{unknown}");
        assert_eq!(account(&unknown), "10.00 -", "{unknown}");
    }
}
