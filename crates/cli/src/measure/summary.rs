//! What a run found, in words and one table.

use std::io::{self, Write};
use std::path::Path;

use reveille_figures::tail::Tail;
use reveille_results::description::{Description, Ended, Probe};
use reveille_results::statistics::StateStatistics;

use reveille_show::table::{Side, Table};
use reveille_show::terminal;
use reveille_show::wrap::{self, wrapped};

/// Of the lines that begin with a word: where what they say begins.
const INDENT: usize = 10;

pub fn print(description: &Description, folder: &Path, report: Option<&Path>) -> io::Result<()> {
    let mut out = terminal::stdout();
    head(description, &mut out)?;
    if !description.statistics.is_empty() {
        match wrap::terminal() {
            Some(columns) => table(description).write_folded(columns, KEYS, &mut out)?,
            None => table(description).write(&mut out)?,
        }
        writeln!(out)?;
        for statistics in &description.statistics {
            verdict(description, statistics, &mut out)?;
        }
        writeln!(out)?;
    }
    counts(description, &mut out)?;
    writeln!(out, "Result    {}", folder.display())?;
    if let Some(report) = report {
        writeln!(out, "Report    {}", report.display())?;
    }
    Ok(())
}

/// A line that begins with this word.
fn line(out: &mut impl Write, name: &str, words: &str) -> io::Result<()> {
    wrapped(out, &format!("{name:<INDENT$}"), INDENT, words)
}

fn head(description: &Description, out: &mut impl Write) -> io::Result<()> {
    let machine = &description.machine;
    let or_unknown = |text: &Option<String>| text.clone().unwrap_or_else(|| "unknown".into());
    line(
        out,
        &description.settings.cpu_name(),
        &or_unknown(&machine.cpu_model),
    )?;
    let hypervisor = machine
        .hypervisor
        .as_ref()
        .map(|name| format!(", under {name}"));
    let kernel = or_unknown(&machine.kernel) + &hypervisor.unwrap_or_default();
    line(out, "Kernel", &kernel)?;
    let idle = format!(
        "driver {}, governor {}",
        description.driver.as_deref().unwrap_or("none"),
        description.governor.as_deref().unwrap_or("none")
    );
    line(out, "Idle", &idle)?;
    let probe = match description.probe {
        Probe::Bpf => "BPF in the idle loop",
        Probe::User => "a waiting thread: scheduling is in the figures",
        Probe::Foreign => "another tool",
    };
    let probe = format!("{probe}; {}", description.settings.arming);
    line(out, "Probe", &probe)?;
    for floor in &description.characterisation.floors {
        let place = match floor.state.as_str() {
            reveille_results::schema::AWAKE => "on a CPU that is awake".to_owned(),
            poll => format!("in {poll}, where nothing sleeps"),
        };
        let p99 = floor
            .p99_ns
            .map_or(String::new(), |p99| format!(", {} at p99", us(p99)));
        let floor = format!(
            "{}: {} at the median{p99}, {place} ({} datapoints)",
            floor.source,
            us(floor.median_ns),
            floor.count
        );
        line(out, "Floor", &floor)?;
    }
    writeln!(out)
}

/// What `costs` has it under.
const PROBE_COST: &str = "probe at idle entry and exit";

/// A state's name and the source: what each part of the table begins with.
const KEYS: usize = 2;

const UNKNOWN: &str = "-";

fn table(description: &Description) -> Table {
    let mut table = Table::new(&[
        ("state", "", Side::Left),
        ("source", "", Side::Left),
        ("driver", "µs", Side::Right),
        ("count", "", Side::Right),
        ("min", "µs", Side::Right),
        ("median", "µs", Side::Right),
        ("p90", "µs", Side::Right),
        ("p99", "µs", Side::Right),
        ("p99.9", "µs", Side::Right),
        ("p99.99", "µs", Side::Right),
        ("max", "µs", Side::Right),
        ("mean ± sd", "µs", Side::Right),
        ("above floor", "µs", Side::Right),
    ]);
    for statistics in &description.statistics {
        let summary = &statistics.wake_latency;
        let figure = |ns: Option<i64>| ns.map_or(UNKNOWN.into(), |ns| short(ns as f64));
        let deviation = summary
            .standard_deviation_ns
            .map(|ns| format!(" ± {}", short(ns)))
            .unwrap_or_default();
        table.row([
            statistics.state.clone(),
            statistics.source.clone(),
            statistics
                .driver_exit_latency_us
                .map_or(UNKNOWN.into(), |us| us.to_string()),
            summary.count.to_string(),
            short(summary.min_ns as f64),
            short(summary.median_ns as f64),
            figure(summary.p90_ns),
            figure(summary.p99_ns),
            figure(summary.p99_9_ns),
            figure(summary.p99_99_ns),
            short(summary.max_ns as f64),
            format!("{}{deviation}", short(summary.mean_ns)),
            figure(statistics.median_above_floor_ns),
        ]);
    }
    table
}

fn verdict(
    description: &Description,
    statistics: &StateStatistics,
    out: &mut impl Write,
) -> io::Result<()> {
    let several = description.settings.sources.len() > 1;
    let source = if several {
        format!(" ({})", statistics.source)
    } else {
        String::new()
    };
    let start = format!("{}{source}: ", statistics.state);
    let mut words = statistics.verdict.to_string();
    if let Some(exceedance) = &statistics.exceedance {
        words += &format!(
            "; {} of {} above the driver's figure, {}% [{}, {}]",
            exceedance.exceeded,
            exceedance.count,
            percent(exceedance.share),
            percent(exceedance.low),
            percent(exceedance.high)
        );
    }
    wrapped(out, &start, 2, &words)?;
    let tail = match &statistics.tail {
        Tail::Estimated(tail) => format!(
            "estimate: 1 wake in {} takes longer than {} [{}, {}]",
            tail.exceeded_by_one_in,
            us(tail.quantile_ns),
            us(tail.quantile_low_ns),
            us(tail.quantile_high_ns)
        ),
        Tail::Refused(why) => format!("no estimate beyond the data: {why}"),
    };
    wrapped(out, "  ", 4, &tail)
}

fn counts(description: &Description, out: &mut impl Write) -> io::Result<()> {
    let counts = &description.counts;
    let mut kept = format!("{} of {} launched", counts.kept, counts.launched);
    if let Some(possible) = counts.possible.filter(|possible| *possible > 0) {
        let share = 100.0 * counts.kept as f64 / possible as f64;
        kept += &format!(
            " in {:.1} s, {share:.1}% of what the launch distances allow",
            counts.elapsed_s
        );
    }
    line(out, "Kept", &kept)?;
    if !counts.dropped.is_empty() {
        let dropped: Vec<_> = counts
            .dropped
            .iter()
            .map(|(reason, count)| format!("{reason} {count}"))
            .collect();
        line(out, "Dropped", &dropped.join(", "))?;
    }
    if description.probe != Probe::Foreign {
        line(out, "Checked", &second_method(description))?;
    }
    if let Some(cost) = description.characterisation.probe_cost_per_idle_ns {
        let windows = description.characterisation.costs.get(PROBE_COST);
        let of = windows.map_or(String::new(), |windows| {
            format!(", the median of {} windows", windows.count)
        });
        line(
            out,
            "Probes",
            &format!("{cost:.0} ns per idle entry and exit{of}"),
        )?;
    }
    match &description.ended {
        Ended::Completed => Ok(()),
        Ended::Interrupted => line(out, "Ended", "interrupted; what was gathered is kept"),
        Ended::Disturbed(why) => line(
            out,
            "Ended",
            &format!("early: {why}; what was gathered is kept"),
        ),
    }
}

/// What cpuidle's own counts say to the datapoints.
fn second_method(description: &Description) -> String {
    let counts = &description.counts;
    let periods = format!("datapoints are of {} idle periods", counts.idle_periods);
    match counts.cpuidle_entries {
        Some(entries) => format!("{periods}, and cpuidle counts {entries} idle entries meanwhile"),
        None => format!("{periods}; there are no counts of cpuidle to hold that against"),
    }
}

/// Three significant digits of µs, whole from 100 up.
fn short(ns: f64) -> String {
    let us = ns / 1e3;
    match us.abs() {
        x if x >= 100.0 => format!("{us:.0}"),
        x if x >= 10.0 => format!("{us:.1}"),
        _ => format!("{us:.2}"),
    }
}

fn us(ns: i64) -> String {
    format!("{} µs", short(ns as f64))
}

fn percent(share: f64) -> String {
    match 100.0 * share {
        0.0 => "0".into(),
        percent if percent >= 1.0 => format!("{percent:.1}"),
        percent => format!("{percent:.2}"),
    }
}
