//! What waking cost, for people.

use std::io::{self, Write};
use std::path::Path;

use reveille_watch::cost::{Cost, CpuCost, Ended, PairCost, Replacement, StateCost, seconds};

use reveille_show::table::{Side, Table};

const UNKNOWN: &str = "-";

/// Rows of the tables that may be long; all are in cost.json.
const MOST: usize = 10;

/// Letters of a name in a table.
const NAME: usize = 30;

pub fn write(cost: &Cost, folder: Option<&Path>, out: &mut impl Write) -> io::Result<()> {
    head(cost, out)?;
    if cost.wakeups > 0 {
        writeln!(out)?;
        states(cost).write(out)?;
        pairs(cost, out)?;
        interrupts(cost, out)?;
        cpus(cost, out)?;
        forbidding(cost, out)?;
    }
    estimates(cost, out)?;
    writeln!(out)?;
    foot(cost, folder, out)?;
    writeln!(out, "\n{}", wrapped("", &cost.sentence))
}

fn head(cost: &Cost, out: &mut impl Write) -> io::Result<()> {
    let ended = match cost.ended {
        Ended::Interrupted => ", interrupted",
        Ended::Completed | Ended::WorkloadEnded => "",
    };
    let elapsed = seconds(cost.elapsed_ns);
    let what = format!("{}, {elapsed}{ended}", cost.workload);
    writeln!(out, "{}", wrapped("Followed  ", &what))?;
    let driver = cost.driver.as_deref().unwrap_or("none");
    let governor = cost.governor.as_deref().unwrap_or("none");
    writeln!(out, "Idle      driver {driver}, governor {governor}")?;
    write!(out, "Wake-ups  {}", cost.wakeups)?;
    if cost.wakeups > 0 {
        let asleep = cost.met_sleeping_cpu;
        write!(out, ", {asleep} met a sleeping CPU")?;
    }
    if cost.met_polling_cpu > 0 {
        write!(out, ", {} a polling one", cost.met_polling_cpu)?;
    }
    writeln!(out)?;
    let waited = &cost.waited;
    if let Some(share) = cost.lost_share {
        let lost = seconds(waited.leaving_ns);
        writeln!(
            out,
            "Lost      {lost} waiting for CPUs to leave idle states, {} of the time",
            percent(share)
        )?;
    }
    writeln!(
        out,
        "Besides   {} interrupt and scheduler, {} queueing behind others",
        seconds(waited.scheduling_ns),
        seconds(waited.queueing_ns)
    )
}

fn states(cost: &Cost) -> Table {
    let mut table = Table::new(&[
        ("CPU was", "", Side::Left),
        ("driver", "µs", Side::Right),
        ("waits", "", Side::Right),
        ("lost", "ms", Side::Right),
        ("mean", "µs", Side::Right),
        ("median", "µs", Side::Right),
        ("p99", "µs", Side::Right),
        ("longest", "µs", Side::Right),
        ("sched", "ms", Side::Right),
        ("queue", "ms", Side::Right),
    ]);
    for state in &cost.by_state {
        table.row(row_of_state(state));
    }
    table
}

fn row_of_state(state: &StateCost) -> [String; 10] {
    let us = |ns: Option<f64>| ns.map_or(UNKNOWN.into(), |ns| short(ns / 1e3));
    let whole = |ns: Option<u64>| us(ns.map(|ns| ns as f64));
    // `busy` and `awake` are no states that could be left.
    let known = state.mean_leaving_ns.is_some();
    let latency = state.driver_exit_latency_us;
    [
        state.state.clone(),
        latency.map_or(UNKNOWN.into(), |us| us.to_string()),
        state.waits.to_string(),
        whole(known.then_some(state.waited.leaving_ns / 1000)),
        us(state.mean_leaving_ns),
        whole(state.median_leaving_ns),
        whole(state.p99_leaving_ns),
        whole(known.then_some(state.waited.longest_leaving_ns)),
        short(state.waited.scheduling_ns as f64 / 1e6),
        short(state.waited.queueing_ns as f64 / 1e6),
    ]
}

fn pairs(cost: &Cost, out: &mut impl Write) -> io::Result<()> {
    writeln!(out)?;
    let mut table = Table::new(&[
        ("woken by", "", Side::Left),
        ("task", "", Side::Left),
        ("wake-ups", "", Side::Right),
        ("asleep", "", Side::Right),
        ("lost", "ms", Side::Right),
        ("sched", "ms", Side::Right),
        ("queue", "ms", Side::Right),
    ]);
    for pair in cost.by_pair.iter().take(MOST) {
        table.row(row_of_pair(pair));
    }
    table.write(out)?;
    more(cost.by_pair.len(), out)
}

fn row_of_pair(pair: &PairCost) -> [String; 7] {
    let ms = |ns: u64| short(ns as f64 / 1e6);
    let waker = match pair.by_interrupt {
        true => format!("[{}]", pair.waker),
        false => pair.waker.clone(),
    };
    [
        cut(&waker),
        cut(&pair.wakee),
        pair.wakeups.to_string(),
        pair.asleep.to_string(),
        ms(pair.waited.leaving_ns),
        ms(pair.waited.scheduling_ns),
        ms(pair.waited.queueing_ns),
    ]
}

fn interrupts(cost: &Cost, out: &mut impl Write) -> io::Result<()> {
    if cost.by_interrupt.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    let mut table = Table::new(&[
        ("interrupt", "", Side::Left),
        ("wake-ups", "", Side::Right),
        ("asleep", "", Side::Right),
        ("lost", "ms", Side::Right),
    ]);
    for one in cost.by_interrupt.iter().take(MOST) {
        table.row([
            cut(&one.interrupt),
            one.wakeups.to_string(),
            one.asleep.to_string(),
            short(one.waited.leaving_ns as f64 / 1e6),
        ]);
    }
    table.write(out)?;
    more(cost.by_interrupt.len(), out)
}

fn cpus(cost: &Cost, out: &mut impl Write) -> io::Result<()> {
    let mut most: Vec<&CpuCost> = cost.by_cpu.iter().collect();
    most.sort_by_key(|cpu| std::cmp::Reverse((cpu.waited.leaving_ns, cpu.waits)));
    writeln!(out)?;
    let mut table = Table::new(&[
        ("CPU", "", Side::Right),
        ("waits", "", Side::Right),
        ("asleep", "", Side::Right),
        ("lost", "ms", Side::Right),
        ("longest", "µs", Side::Right),
    ]);
    for cpu in most.iter().take(MOST) {
        table.row([
            cpu.cpu.to_string(),
            cpu.waits.to_string(),
            cpu.asleep.to_string(),
            short(cpu.waited.leaving_ns as f64 / 1e6),
            short(cpu.waited.longest_leaving_ns as f64 / 1e3),
        ]);
    }
    table.write(out)?;
    more(most.len(), out)
}

fn more(rows: usize, out: &mut impl Write) -> io::Result<()> {
    match rows.checked_sub(MOST) {
        None | Some(0) => Ok(()),
        Some(rest) => writeln!(out, "and {rest} more, in --json"),
    }
}

fn forbidding(cost: &Cost, out: &mut impl Write) -> io::Result<()> {
    if cost.forbidding.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    let mut table = Table::new(&[
        ("deepest allowed", "", Side::Left),
        ("would save", "", Side::Right),
        ("95% interval", "", Side::Right),
        ("a wait then takes", "", Side::Left),
    ]);
    for one in &cost.forbidding {
        table.row([
            one.deepest_allowed.clone().unwrap_or("no sleep".into()),
            seconds(one.saved_ns),
            format!(
                "{} to {}",
                seconds(one.saved_low_ns),
                seconds(one.saved_high_ns)
            ),
            match one.replaced_by {
                Replacement::Seen => "as those seen there",
                Replacement::Driver => "what the driver's table says",
                Replacement::Nothing => "nothing",
            }
            .to_owned(),
        ]);
    }
    table.write(out)
}

fn estimates(cost: &Cost, out: &mut impl Write) -> io::Result<()> {
    for state in cost.by_state.iter().filter(|state| state.unknown_waits > 0) {
        let waits = state.unknown_waits;
        write!(
            out,
            "\nOf {waits} waits for CPUs in {} the event's instant is not known (a device's \
             interrupt):\nthey are in no figure of what was lost. ",
            state.state
        )?;
        match &state.estimate {
            Some(estimate) => writeln!(
                out,
                "Estimate: {}, by the\n{}.",
                seconds(estimate.leaving_ns),
                estimate.by
            )?,
            None => writeln!(out, "No estimate: give --result.")?,
        }
    }
    Ok(())
}

fn foot(cost: &Cost, folder: Option<&Path>, out: &mut impl Write) -> io::Result<()> {
    let overhead = &cost.overhead;
    if let (Some(ns), Some(share)) = (overhead.per_wakeup_ns, overhead.share_of_cpu_time) {
        writeln!(
            out,
            "Cost      {} a wake-up of the {} on the machine, {} of CPU time",
            seconds(ns as u64),
            overhead.machine_wakeups,
            percent(share)
        )?;
    }
    for note in &cost.notes {
        writeln!(out, "{}", wrapped("Note      ", note))?;
    }
    if let Some(folder) = folder {
        writeln!(out, "Kept in   {}", folder.display())?;
    }
    Ok(())
}

/// In lines of a terminal's usual width, the first behind `head` and the others below it.
fn wrapped(head: &str, text: &str) -> String {
    const WIDTH: usize = 80;
    let indent = head.chars().count();
    let (mut lines, mut line) = (String::new(), head.to_owned());
    for word in text.split(' ') {
        let length = line.chars().count();
        if length > indent && length + word.chars().count() >= WIDTH {
            lines.push_str(line.trim_end());
            lines.push('\n');
            line = " ".repeat(indent);
        }
        line.push_str(word);
        line.push(' ');
    }
    lines + line.trim_end()
}

fn cut(name: &str) -> String {
    match name.chars().count() > NAME {
        true => name.chars().take(NAME - 1).chain(['…']).collect(),
        false => name.to_owned(),
    }
}

/// Three significant digits, whole from 100 up.
fn short(value: f64) -> String {
    match value {
        0.0 => "0".into(),
        x if x >= 99.95 => format!("{x:.0}"),
        x if x >= 9.995 => format!("{x:.1}"),
        x => format!("{x:.2}"),
    }
}

fn percent(share: f64) -> String {
    match 100.0 * share {
        0.0 => "0%".into(),
        percent if percent >= 1.0 => format!("{percent:.1}%"),
        percent => format!("{percent:.2}%"),
    }
}
