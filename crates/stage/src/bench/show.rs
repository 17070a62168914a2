//! The bench for people.

use reveille_show::columns;
use reveille_show::quantity::{self, counted};
use reveille_show::sheet::{Column, Heading, Section, Sheet, Table, Value};

use crate::show::judged;

use super::result::{Bench, Setting, Summary};

const SETTINGS: &[Column<Summary>] = &columns!(|one|
    words "setting", "setting", one.setting.name(), "How requests are released; without load, how often the CPUs wake anyway";
    measured(Count) "requests", "requests", one.requests, "Requests of all rounds";
    measured(Ns) "median_ns", "median", one.median_ns,
        "Latency: from the instant at which a request was to be sent to the end of its response, all rounds together";
    measured(Ns) "p99_ns", "p99", one.p99_ns, "As the median";
    measured(Ns) "p99_9_ns", "p99.9", one.p99_9_ns, "As the median";
    measured(Ns) detail "max_ns", "max", one.max_ns, "The longest latency";
    measured(Count) "over", "over", judged(one.over), "Latencies above the deadline";
    measured(Count) detail "missed", "missed", judged(one.missed), "Deadlines that were missed because of a hold, by the proxy's account";
    measured(Count) detail "failed", "failed", judged(one.failed), "Requests without a response";
    measured(Of("1/s")) "wakes_per_s", "wakes/s [95%]", one.wakes_per_s.as_ref(),
        "How often the server's CPUs woke, all together, by cpuidle; median over rounds with its 95% interval";
    measured(Of("1/s")) detail "wakes_between_per_s", "between", one.wakes_between_per_s.as_ref().map(|one| one.estimate),
        "How often the own server's CPU woke in the times of 10 ms and more without a request, a second of these times";
    measured(Share) "wakes_left", "left", one.wakes_left.as_ref().map(|left| left.estimate),
        "The wake-ups above those without load, by the direct load's";
    measured(Seconds) "mean_sleep_s", "mean sleep", one.mean_sleep_s.as_ref().map(|mean| mean.estimate),
        "The mean length of the sleep of the server's CPUs";
    measured(Of("%")) detail "slept_percent", "slept", one.slept_percent.as_ref(), "How long the server's CPUs slept";
    measured(Of("%")) "joint_low_percent", "all asleep ≥", one.joint_low_percent.as_ref(),
        "All CPUs of this machine slept at once for at least this share of the time";
    measured(Of("%")) "joint_high_percent", "≤", one.joint_high_percent.as_ref(), "At most";
    measured(Of("W")) "power_w", "power", one.power_w.as_ref(), "By the meter; median over rounds with its 95% interval";
    estimated(Of("W")) "saves_w", "saves [95%]", Value::difference(one.saves_w.as_ref()),
        "By how much less than with the direct load, median over rounds with its 95% interval";
);

/// The columns, by the list in the JSON that holds its rows.
pub fn reference() -> Vec<(&'static str, Vec<Heading>)> {
    vec![("settings[]", Column::headings(SETTINGS))]
}

/// The whole result.
pub fn sheet(bench: &Bench) -> Sheet<'_> {
    let server = match (&bench.upstream, bench.work_s) {
        (Some(upstream), _) => upstream.clone(),
        (None, work) => format!(
            "a server that computes for {}{}{}",
            quantity::time(work.unwrap_or_default()),
            if bench.http2 { ", asked in HTTP/2" } else { "" },
            if bench.unix { ", by a Unix socket" } else { "" }
        ),
    };
    let mut sheet = Sheet {
        title: "reveille stage bench".to_owned(),
        answer: answer(bench),
        facts: vec![
            (
                "Server",
                format!(
                    "{server}, on {}",
                    reveille_kernel::cpulist::named(&bench.server_cpus)
                ),
            ),
            (
                "Load",
                format!(
                    "{} requests/s{}, answered within {} at p{}; grid {}",
                    quantity::three_digits(bench.rate_per_s),
                    bench.surge.map_or(String::new(), |times| format!(
                        ", {} times that from the middle of each turn on",
                        quantity::three_digits(times)
                    )),
                    quantity::time(bench.deadline_s),
                    bench.percentile,
                    quantity::time(bench.grid_s)
                ),
            ),
        ],
        ..Sheet::default()
    };
    if let Some(rate) = bench.beside_per_s {
        sheet.facts.push((
            "Beside",
            format!(
                "{} requests/s of others, past the proxy, in every setting",
                quantity::three_digits(rate)
            ),
        ));
    }
    if let Some(meter) = &bench.meter {
        sheet
            .facts
            .push(("Meter", reveille_meter::show::words(meter)));
    }
    if let Some(early) = bench.about.ended.early() {
        sheet.fact("Ended", early);
    }
    sheet.notes.extend(bench.notes.iter().cloned());
    if bench.disturbed > 0 {
        let turns = counted(u64::from(bench.disturbed), "turn");
        sheet
            .notes
            .push(format!("{turns} not kept: other programs took CPU time."));
    }
    sheet.section(
        Section::new("settings", "Settings")
            .table(Table::of("", SETTINGS, &bench.settings).whole()),
    );
    sheet
}

fn answer(bench: &Bench) -> String {
    let of = |setting: Setting| bench.settings.iter().find(|one| one.setting == setting);
    if bench.settings.is_empty() {
        return "No whole round.".into();
    }
    let Some((direct, staged)) = of(Setting::Direct).zip(of(Setting::Staged)) else {
        let over = bench.settings.iter().filter(|one| one.requests > 0);
        let over = over.map(|one| {
            let requests = counted(one.requests, "request");
            format!(
                "{}: {} of {requests} took longer than the deadline",
                one.setting.name(),
                none_or(one.over)
            )
        });
        return format!("{}.", over.collect::<Vec<_>>().join("; "));
    };
    let Some((before, after)) = direct.wakes_per_s.as_ref().zip(staged.wakes_per_s.as_ref()) else {
        return "cpuidle counts no wake-ups here; only latencies are compared.".into();
    };
    let number = |one: f64| quantity::three_digits(one);
    let power = direct.power_w.as_ref().zip(staged.power_w.as_ref());
    let power = power.map_or(String::new(), |(before, after)| {
        let (before, after) = (before.text(number), after.text(number));
        format!(" The meter reads {after} W instead of {before} W.")
    });
    format!(
        "Staged, the server's CPUs wake {} times a second instead of {}; {} of {} took longer than the deadline.{power}",
        after.text(number),
        before.text(number),
        none_or(staged.over),
        counted(staged.requests, "request"),
    )
}

fn none_or(count: u64) -> String {
    match count {
        0 => "none".to_owned(),
        count => quantity::count(count),
    }
}
