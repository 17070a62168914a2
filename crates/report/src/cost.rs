//! The page of `reveille cost`: what waiting for sleeping CPUs cost a workload.

mod bars;
mod distributions;

use std::fmt::Write as _;

use reveille_watch::cost::{Cost, Replacement, StateCost, Waited, read};
use serde_json::json;

use reveille_show::html_table::{Origin, Table, known};
use reveille_show::markup::escape;
use reveille_show::page::framed;
use reveille_show::quantity::{count, duration, nanoseconds, share};

/// The page of a `cost.json`.
///
/// # Errors
/// One line of what is wrong with it.
pub fn page(text: &[u8], title: Option<&str>) -> Result<String, String> {
    let cost = read(text)?;
    let title = match title {
        Some(title) => title.to_owned(),
        None => format!("What waking cost: {}", cost.workload),
    };
    let body = [
        headline(&cost),
        states(&cost),
        distributions::charts(&cost),
        bars::pairs(&cost),
        pairs(&cost),
        interrupts(&cost),
        cpus(&cost),
        forbidding(&cost),
    ];
    Ok(framed(
        &title,
        &[about(&cost)],
        &body.concat(),
        NOTE,
        &json!([]),
    ))
}

const NOTE: &str = "Waits are summed over threads, which may wait at the same time. What is lost is \
                    the time that CPUs took to leave idle states; interrupt, scheduler and queueing \
                    stand apart. Where the instant of an event is not known, nothing is counted, \
                    and an estimate is said to be one.";

fn about(cost: &Cost) -> String {
    let machine = &cost.machine;
    let known = [
        Some(format!("{} wake-ups", count(cost.wakeups))),
        Some(nanoseconds(cost.elapsed_ns as i64)),
        machine.hostname.clone(),
        machine.cpu_model.clone(),
        machine
            .kernel
            .as_ref()
            .map(|kernel| format!("Linux {kernel}")),
        Some(cost.started.clone()),
        Some(cost.tool.clone()),
    ];
    known.into_iter().flatten().collect::<Vec<_>>().join(" · ")
}

fn headline(cost: &Cost) -> String {
    let mut html = format!("<p class=\"headline\">{}</p>", escape(&cost.sentence));
    let mut notice = |text: &str| {
        // Writing to a String cannot fail.
        let _ = write!(html, "<p class=\"notice\">{}</p>", escape(text));
    };
    if let Some(per_wakeup) = cost.overhead.per_wakeup_ns {
        let of_time = cost.overhead.share_of_cpu_time.map_or(String::new(), |of| {
            format!(", {} of the CPUs' time", share(of))
        });
        notice(&format!(
            "Following cost {} for each of the {} wake-ups on the machine{of_time}.",
            duration(per_wakeup),
            count(cost.overhead.machine_wakeups)
        ));
    }
    for state in cost.by_state.iter().filter(|state| state.unknown_waits > 0) {
        notice(&unknown(state));
    }
    cost.notes.iter().for_each(|note| notice(note));
    html
}

fn unknown(state: &StateCost) -> String {
    let estimate = match &state.estimate {
        Some(estimate) => format!(
            "An estimate, by the {}: {}.",
            estimate.by,
            nanoseconds(estimate.leaving_ns as i64)
        ),
        None => "There is no estimate.".to_owned(),
    };
    format!(
        "Of {} waits for CPUs in {} the instant of the event is not known; they are not in what was \
         lost. {estimate}",
        count(state.unknown_waits),
        state.state
    )
}

/// Lost, scheduling, queueing, longest.
fn waited(waited: &Waited) -> [String; 4] {
    [
        waited.leaving_ns,
        waited.scheduling_ns,
        waited.queueing_ns,
        waited.longest_leaving_ns,
    ]
    .map(|ns| nanoseconds(ns as i64))
}

const MEASURED: Option<Origin> = Some(Origin::Measured);

fn states(cost: &Cost) -> String {
    let mut table = Table::new(
        "By idle state",
        1,
        &[
            ("the CPU was", None),
            ("exit latency", Some(Origin::Driver)),
            ("waits", MEASURED),
            ("lost", MEASURED),
            ("mean", MEASURED),
            ("median", MEASURED),
            ("p90", MEASURED),
            ("p99", MEASURED),
            ("longest", MEASURED),
            ("scheduler", MEASURED),
            ("queueing", MEASURED),
        ],
    );
    for state in &cost.by_state {
        let [lost, scheduling, queueing, longest] = waited(&state.waited);
        let sleeps = state.mean_leaving_ns.is_some();
        let if_it_sleeps = |text: String| if sleeps { text } else { String::new() };
        let quantile = |ns: Option<u64>| known(ns, |ns| nanoseconds(ns as i64));
        table.row(&[
            state.state.clone(),
            known(state.driver_exit_latency_us, |us| duration(us as f64 * 1e3)),
            count(state.waits),
            if_it_sleeps(lost),
            known(state.mean_leaving_ns, duration),
            quantile(state.median_leaving_ns),
            quantile(state.p90_leaving_ns),
            quantile(state.p99_leaving_ns),
            if_it_sleeps(longest),
            scheduling,
            queueing,
        ]);
    }
    section("states", "Where the time went", table)
}

fn section(id: &str, heading: &str, table: Table) -> String {
    format!(
        "<section id=\"{id}\"><h2>{heading}</h2>{}</section>",
        table.html()
    )
}

/// Rows of the tables that may be long; all are in cost.json.
const MOST: usize = 50;

fn pairs(cost: &Cost) -> String {
    let heads = [
        ("woken by", None),
        ("task", None),
        ("wake-ups", MEASURED),
        ("met a sleeping CPU", MEASURED),
        ("lost", MEASURED),
        ("scheduler", MEASURED),
        ("queueing", MEASURED),
        ("longest", MEASURED),
    ];
    let mut table = Table::new("By waker and task", 2, &heads);
    for pair in cost.by_pair.iter().take(MOST) {
        let [lost, scheduling, queueing, longest] = waited(&pair.waited);
        table.row(&[
            pair.waker.clone(),
            pair.wakee.clone(),
            count(pair.wakeups),
            count(pair.asleep),
            lost,
            scheduling,
            queueing,
            longest,
        ]);
    }
    let more = match cost.by_pair.len().checked_sub(MOST) {
        None | Some(0) => String::new(),
        Some(rest) => format!("<p>And {rest} more, in cost.json.</p>"),
    };
    format!("{}{more}", table.html())
}

fn interrupts(cost: &Cost) -> String {
    if cost.by_interrupt.is_empty() {
        return String::new();
    }
    let heads = [
        ("interrupt", None),
        ("wake-ups", MEASURED),
        ("met a sleeping CPU", MEASURED),
        ("lost", MEASURED),
        ("longest", MEASURED),
    ];
    let mut table = Table::new("Wake-ups by interrupts", 1, &heads);
    for one in &cost.by_interrupt {
        let [lost, _, _, longest] = waited(&one.waited);
        table.row(&[
            one.interrupt.clone(),
            count(one.wakeups),
            count(one.asleep),
            lost,
            longest,
        ]);
    }
    section("interrupts", "By interrupt", table)
}

fn cpus(cost: &Cost) -> String {
    let heads = [
        ("CPU", None),
        ("waits", MEASURED),
        ("asleep", MEASURED),
        ("lost", MEASURED),
        ("scheduler", MEASURED),
        ("queueing", MEASURED),
        ("longest", MEASURED),
    ];
    let mut table = Table::new("Waits for each CPU", 1, &heads);
    for cpu in &cost.by_cpu {
        let [lost, scheduling, queueing, longest] = waited(&cpu.waited);
        table.row(&[
            cpu.cpu.to_string(),
            count(cpu.waits),
            count(cpu.asleep),
            lost,
            scheduling,
            queueing,
            longest,
        ]);
    }
    section("cpus", "By CPU", table)
}

fn forbidding(cost: &Cost) -> String {
    if cost.forbidding.is_empty() {
        return String::new();
    }
    let estimated = Some(Origin::Estimated);
    let heads = [
        ("deepest state allowed", None),
        ("a wait then takes", None),
        ("saved", estimated),
        ("95 % interval from", estimated),
        ("to", estimated),
    ];
    let mut table = Table::new("If deeper states were forbidden", 2, &heads);
    for one in &cost.forbidding {
        table.row(&[
            one.deepest_allowed.clone().unwrap_or("no sleep".to_owned()),
            match one.replaced_by {
                Replacement::Seen => "as those that were seen in it",
                Replacement::Driver => "what the driver's table says",
                Replacement::Nothing => "nothing",
            }
            .to_owned(),
            nanoseconds(one.saved_ns as i64),
            nanoseconds(one.saved_low_ns as i64),
            nanoseconds(one.saved_high_ns as i64),
        ]);
    }
    section("forbidding", "What it would save to forbid states", table)
}
