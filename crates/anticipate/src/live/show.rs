//! The names, units and sentences of the engine's statistics.

use reveille_show::columns;
use reveille_show::quantity::{count, counted, duration, share, three_digits};
use reveille_show::sheet::{Column, Heading, Section, Sheet, Table, Value};

use super::{Applications, Hints, Snapshot};
use crate::{Accounted, Cpu, Flow, Gain, OperationStatistics, PacketStatistics, Statistics};

/// The length of sleep whose timers' lateness the table shows, µs.
const SLEEP_US: u64 = 32;

const OPERATIONS: &[Column<OperationStatistics>] = &columns!(|one|
    words "device", "disk", one.device.as_str(), "The disk, as in `/sys/block`";
    words "operation", "op", one.operation.to_string(), "`read` or `write`";
    measured(Count) "requests", "requests", one.requests,
        "Reads, or synchronous writes, that may be anticipated";
    measured(Count) "assistance.assisted", "assisted", one.assistance.assisted,
        "Requests for which the engine scheduled a CPU to be awake";
    measured(Count) "assistance.in_time", "in time", one.assistance.in_time,
        "Of those assisted: complete while the CPU was ready";
    measured(Count) "assistance.early", "early", one.assistance.early,
        "Of those assisted: complete before; the timer was cancelled";
    measured(Count) "assistance.late", "late", one.assistance.late,
        "Of those assisted: complete after the window";
    measured(Count) "assistance.cpu_busy", "busy", one.assistance.cpu_busy,
        "Of those assisted: complete before the CPU went to sleep at all";
    measured(Count) detail "assistance.two_cpus", "two CPUs", one.assistance.two_cpus,
        "Of those assisted: another CPU takes the interrupt, and was scheduled to be awake, too";
    measured(Percent) "error_median_percent", "error", one.error_median_percent,
        "Median error of the prediction, of what the request took";
    measured(Percent) "error_p90_percent", "p90", one.error_p90_percent,
        "90th percentile of that error; unknown below 100 predictions";
    measured(Us) "left_alone.median_us", "wait alone", one.left_alone.map(|latency| latency.median_us),
        "Median time from issue until the waiting task runs, of requests left alone at random";
    measured(Us) "assisted.median_us", "wait assisted", one.assisted.map(|latency| latency.median_us),
        "The same of requests that were assisted";
    estimated(Us) "gain.median_us", "difference",
        one.gain.map_or(Value::Unknown, |gain| interval(&gain)),
        "Difference of the medians, with its 95% interval: below zero, assisted requests are faster";
);

const CPUS: &[Column<Cpu>] = &columns!(|one|
    words "cpu", "CPU", one.cpu.to_string(), "The CPU's number";
    measured(Percent) "awake_percent", "awake", one.awake_percent,
        "Time that the engine kept the CPU awake, of the time that it has run";
    measured(Count) "spells", "times", one.spells,
        "Times that the CPU was kept ready, awake or in naps";
    measured(Count) "timers", "timers", one.timers, "Timers that were armed";
    measured(Count) "fired", "fired", one.fired, "Of these, those that fired";
    measured(Count) "cancelled", "cancelled", one.cancelled,
        "Of these, those whose request was complete before";
    measured(Count) "busy", "CPU busy", one.busy, "Timers that fired on a busy CPU";
    measured(Count) "naps", "naps", one.naps, "Of the times that the CPU was kept ready, those in naps";
    measured(Us) "late_us", "late by",
        one.late_us.iter().find(|late| late.0 == SLEEP_US).map(|late| late.1),
        "90th percentile of how late timers fire after a sleep of 32 µs to 64 µs; the JSON has all \
         lengths of sleep";
);

const FLOWS: &[Column<Flow>] = &columns!(|one|
    words "protocol", "protocol", one.protocol, "`udp` or `tcp`";
    words "from", "from", one.from.to_string(), "Source address and port";
    words "to", "to", one.to.to_string(), "Destination address and port";
    measured(Count) "arrivals", "arrivals", one.arrivals,
        "Arrivals; packets that come together are one";
    measured(Count) "assisted", "assisted", one.assisted,
        "Arrivals for which the engine scheduled a CPU to be awake";
    measured(Count) "in_time", "in time", one.in_time,
        "Of those assisted: they came while the CPU was ready";
    measured(Us) "period_us", "period", one.period_us, "Mean time between arrivals";
    measured(Us) "spread_us", "spread", one.spread_us,
        "From the 5th to the 90th percentile of an arrival's time";
);

const ACCOUNTING: &[Column<Accounted>] = &columns!(|one|
    words "name", "on behalf of", one.name.as_str(), "The process's name; empty after its end";
    words "process", "process", one.process.map(|process| process.to_string()),
        "The process's number in the engine's PID namespace";
    words "device", "disk", one.device.as_deref().unwrap_or("(announced)"),
        "The disk; `(announced)` for windows that the process announced itself";
    measured(Count) "requests", "requests", one.requests,
        "Requests of the process, or windows that it announced";
    measured(Count) "assisted", "assisted", one.assisted,
        "Of these, those for which the engine scheduled a CPU to be awake";
    measured(Seconds) "awake_s", "awake", one.awake_s, "Time that CPUs were kept awake for them";
    estimated(Of("J")) "awake_j", "energy", one.awake_j,
        "The energy of that time, an upper estimate";
);

fn interval(gain: &Gain) -> Value {
    Value::Interval(gain.median_us, half_us(gain))
}

fn half_us(gain: &Gain) -> f64 {
    (gain.high_us - gain.low_us) / 2.0
}

/// `-12.0 ±2.0 µs`; the sign is the caller's.
fn figure(median_us: f64, gain: &Gain) -> String {
    format!("{median_us:.1} ±{:.1} µs", half_us(gain))
}

/// The columns of every table, by the list of its rows in the JSON.
pub fn reference() -> Vec<(&'static str, Vec<Heading>)> {
    vec![
        ("operations[]", Column::headings(OPERATIONS)),
        ("packets.flows[]", Column::headings(FLOWS)),
        ("cpus[]", Column::headings(CPUS)),
        ("accounting[]", Column::headings(ACCOUNTING)),
    ]
}

/// What was done so far as a sheet; with `accounting` for whom, too.
pub fn sheet(snapshot: &Snapshot, accounting: bool) -> Sheet<'_> {
    let statistics = &snapshot.statistics;
    let mut sheet = Sheet {
        title: "Anticipatory wake-up".to_owned(),
        answer: answer(snapshot),
        ..Sheet::default()
    };
    let sum = |of| sum(statistics, of);
    let left_alone = [
        ("for comparison", sum(|one| one.assistance.control)),
        ("while learning", sum(|one| one.assistance.learning)),
        ("too many in flight", sum(|one| one.assistance.crowded)),
        ("over budget", sum(|one| one.assistance.over_budget)),
        ("plan full", sum(|one| one.assistance.plan_full)),
        ("issued by the kernel", sum(|one| one.assistance.unattended)),
    ];
    counts(&mut sheet, "Left alone", left_alone);
    sheet.fact("Awake", awake(statistics));
    let announced = statistics.expectations;
    let windows = [
        ("opened", announced.taken),
        ("too late", announced.past),
        ("over budget", announced.over_budget),
        ("beyond one user's share", announced.of_user),
        ("plan full", announced.full),
        ("for CPUs that are offline", announced.no_cpu),
    ];
    counts(&mut sheet, "Announced", windows);
    if let Some(applications) = &snapshot.applications {
        served(applications, &mut sheet);
    }
    if let Some(packets) = &statistics.packets {
        packets_facts(packets, &mut sheet);
    }
    if let Some(hints) = &snapshot.hints {
        hints_facts(hints, &mut sheet);
    }
    if !statistics.operations.is_empty() {
        let operations = Table::of("Requests", OPERATIONS, &statistics.operations);
        sheet.section(Section::new("operations", "By disk and operation").table(operations));
    }
    if let Some(packets) = statistics.packets.as_ref()
        && !packets.flows.is_empty()
    {
        let flows = Table::of("Periodic flows", FLOWS, &packets.flows);
        sheet.section(Section::new("flows", "Periodic flows").table(flows));
    }
    let active = |cpu: &&Cpu| cpu.timers > 0 || cpu.awake_s > 0.0;
    let cpus = Table::of("CPUs", CPUS, statistics.cpus.iter().filter(active));
    sheet.section(Section::new("cpus", "By CPU").table(cpus.whole()));
    if accounting {
        let table = Table::of("Time awake by process", ACCOUNTING, &statistics.accounting);
        sheet.section(Section::new("accounting", "By process").table(table));
    }
    sheet
}

fn packets_facts(packets: &PacketStatistics, sheet: &mut Sheet<'_>) {
    let of = packets.assistance;
    let arrivals = [
        ("assisted", of.assisted),
        ("in time", of.in_time),
        ("early", of.early),
        ("late", of.late),
        ("CPU busy", of.cpu_busy),
    ];
    sheet.fact("Packets", counted(packets.arrivals, "arrival"));
    counts(sheet, "Of these", arrivals);
    let left_alone = [
        ("for comparison", of.control),
        ("while learning", of.learning),
        ("irregular", of.irregular),
        ("over budget", of.over_budget),
        ("plan full", of.plan_full),
        ("without a reader", of.unattended),
    ];
    counts(sheet, "Packets left alone", left_alone);
    if let (Some(alone), Some(assisted)) = (packets.left_alone, packets.assisted) {
        let gain = packets
            .gain
            .as_ref()
            .map(|gain| format!(", difference {}", figure(gain.median_us, gain)));
        sheet.fact(
            "Arrival to reader",
            format!(
                "median {} left alone, {} assisted{}",
                duration(alone.median_us * 1e3),
                duration(assisted.median_us * 1e3),
                gain.unwrap_or_default()
            ),
        );
    }
}

fn hints_facts(hints: &Hints, sheet: &mut Sheet<'_>) {
    let helped = match hints.followed {
        0 => String::new(),
        all => format!(
            "; {} of these helped",
            share(hints.helped as f64 / all as f64)
        ),
    };
    sheet.fact(
        "Hints",
        format!(
            "{} received, {} followed{helped}",
            count(hints.received),
            count(hints.followed)
        ),
    );
    let refused = hints
        .refused
        .iter()
        .map(|(why, times)| (why.as_str(), *times));
    let dropped = [
        ("from strangers", hints.strangers),
        ("beyond an address's rate", hints.floods),
    ];
    counts(sheet, "Hints refused", refused.chain(dropped));
}

fn sum(statistics: &Statistics, of: fn(&OperationStatistics) -> u64) -> u64 {
    statistics.operations.iter().map(of).sum()
}

fn answer(snapshot: &Snapshot) -> String {
    let statistics = &snapshot.statistics;
    let requests = sum(statistics, |one| one.requests);
    let elapsed = duration(statistics.elapsed_s * 1e9);
    if requests > 0 {
        // A gain is of one operation: of several, that which was assisted most.
        let all = &statistics.operations;
        let most = all.iter().max_by_key(|one| one.assistance.assisted);
        let of = most.filter(|_| all.len() > 1);
        let of = of.map(|one| format!(" for {} of {}", one.operation, one.device));
        return brought(
            &counted(requests, "request"),
            sum(statistics, |one| one.assistance.in_time),
            sum(statistics, |one| one.assistance.cpu_busy),
            most.and_then(|one| one.gain.as_ref()),
            &of.unwrap_or_default(),
            statistics,
        );
    }
    match (&statistics.packets, &snapshot.hints) {
        (None, Some(hints)) => format!(
            "{} of {} helped in {elapsed}; {} were followed.",
            count(hints.helped),
            counted(hints.received, "hint"),
            count(hints.followed)
        ),
        (Some(packets), _) if packets.arrivals > 0 => brought(
            &format!("{} of packets", counted(packets.arrivals, "arrival")),
            packets.assistance.in_time,
            packets.assistance.cpu_busy,
            packets.gain.as_ref(),
            "",
            statistics,
        ),
        (Some(_), _) => format!("No packet arrived in {elapsed}."),
        (None, None) => format!("No request was issued in {elapsed}."),
    }
}

/// What it brought, and its price: `all` are requests or arrivals, and `of` those of them that the gain is of.
fn brought(
    all: &str,
    in_time: u64,
    busy: u64,
    gain: Option<&Gain>,
    of: &str,
    statistics: &Statistics,
) -> String {
    let elapsed = duration(statistics.elapsed_s * 1e9);
    let busy = match busy {
        0 => String::new(),
        busy => format!("; {} met a CPU that was busy anyway", count(busy)),
    };
    if in_time == 0 {
        return format!(
            "None of {all} in {elapsed} came while a CPU was kept ready{busy}: nothing was gained."
        );
    }
    let gain = match gain {
        None => "What that gains is not known: too few were left alone to compare".to_owned(),
        Some(gain) => {
            let size = |median_us| figure(median_us, gain);
            let wait = format!("the median wait{of}");
            match (gain.low_us, gain.high_us) {
                (_, high) if high < 0.0 => {
                    format!("Assisted, {wait} was {} shorter", size(-gain.median_us))
                }
                (low, _) if low > 0.0 => {
                    format!("Assisted, {wait} was {} longer", size(gain.median_us))
                }
                _ => format!(
                    "That {wait} was shorter if assisted is not shown ({})",
                    size(gain.median_us)
                ),
            }
        }
    };
    format!(
        "{} of {all} in {elapsed} came while a CPU was kept ready{busy}. {gain}. Time kept awake: {}.",
        count(in_time),
        awake(statistics)
    )
}

/// The time awake, and its energy if that is known.
fn awake(statistics: &Statistics) -> String {
    let time = duration(statistics.awake_s * 1e9);
    match (statistics.awake_j, statistics.awake_power) {
        (Some(joules), Some(power)) => format!(
            "{time} over all CPUs, about {} J, at {} W [{}, {}] more than asleep",
            three_digits(joules),
            three_digits(power.median_w),
            three_digits(power.low_w),
            three_digits(power.high_w)
        ),
        _ => format!("{time} over all CPUs"),
    }
}

fn served(applications: &Applications, sheet: &mut Sheet<'_>) {
    if applications.welcomed == 0 && applications.sent_away.is_empty() {
        return;
    }
    sheet.fact(
        "Applications",
        format!(
            "{} connected, {} accepted",
            count(applications.connected as u64),
            counted(applications.accepted, "request")
        ),
    );
    for (word, by_reason) in [
        ("Refused", &applications.refused),
        ("Disconnected", &applications.sent_away),
    ] {
        let by_reason = by_reason.iter();
        counts(
            sheet,
            word,
            by_reason.map(|(why, count)| (why.as_str(), *count)),
        );
    }
}

/// A fact such as `3 over budget, 1 plan full`: those that occurred, if any did.
fn counts<'a>(
    sheet: &mut Sheet<'_>,
    word: &'static str,
    counts: impl IntoIterator<Item = (&'a str, u64)>,
) {
    let occurred = counts.into_iter().filter(|(_, count)| *count > 0);
    let words: Vec<String> = occurred
        .map(|(what, times)| format!("{} {what}", count(times)))
        .collect();
    if !words.is_empty() {
        sheet.fact(word, words.join(", "));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use reveille_show::sheet::not_in_json;
    use reveille_show::text::{Detail, write};

    use super::*;
    use crate::{Assistance, AwakePower, Latency, Operation};

    fn snapshot(awake_power: Option<AwakePower>) -> Snapshot {
        let joules = |awake_s: f64| Some(awake_s * awake_power?.median_w);
        let latency = |median_us| {
            Some(Latency {
                count: 100,
                median_us,
                p90_us: None,
                p99_us: None,
                median_error_us: 0.5,
            })
        };
        let operation = OperationStatistics {
            device: "vda".into(),
            operation: Operation::Read,
            requests: 100,
            assistance: Assistance {
                control: 5,
                over_budget: 15,
                assisted: 80,
                in_time: 60,
                early: 20,
                ..Assistance::default()
            },
            error_median_percent: Some(7.0),
            error_p90_percent: None,
            models: Vec::new(),
            left_alone: latency(55.0),
            assisted: latency(43.0),
            gain: Some(Gain {
                median_us: -12.0,
                low_us: -14.0,
                high_us: -10.0,
            }),
        };
        let cpu = |cpu, timers| Cpu {
            cpu,
            awake_s: 0.0,
            awake_j: None,
            awake_percent: 0.0,
            spells: 0,
            timers,
            refused: 0,
            fired: 0,
            cancelled: 0,
            busy: 0,
            strayed: 0,
            naps: 0,
            notices: 0,
            late_us: vec![(16, 7.5), (32, 8.5)],
            nap_late_us: None,
        };
        let statistics = Statistics {
            elapsed_s: 1.0,
            awake_power,
            awake_s: 0.02,
            awake_j: joules(0.02),
            operations: vec![operation],
            cpus: vec![cpu(0, 3), cpu(1, 0)],
            packets: None,
            hints: None,
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
        Snapshot {
            statistics,
            hints: None,
            applications: None,
        }
    }

    fn packets() -> PacketStatistics {
        let latency = |median_us| {
            Some(Latency {
                count: 100,
                median_us,
                p90_us: None,
                p99_us: None,
                median_error_us: 0.5,
            })
        };
        PacketStatistics {
            arrivals: 1000,
            assistance: Assistance {
                control: 50,
                assisted: 900,
                in_time: 850,
                ..Assistance::default()
            },
            left_alone: latency(60.0),
            assisted: latency(20.0),
            gain: Some(Gain {
                median_us: -40.0,
                low_us: -42.0,
                high_us: -38.0,
            }),
            flows: vec![Flow {
                protocol: "udp",
                from: ([192, 0, 2, 1], 4000).into(),
                to: ([192, 0, 2, 2], 5060).into(),
                arrivals: 1000,
                assisted: 900,
                in_time: 850,
                period_us: Some(20_000.0),
                spread_us: Some(250.0),
            }],
        }
    }

    fn text(snapshot: &Snapshot) -> String {
        let mut out = Vec::new();
        write(&sheet(snapshot, true), Detail::Short, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    const POWER: AwakePower = AwakePower {
        median_w: 2.5,
        low_w: 2.25,
        high_w: 2.75,
    };

    #[test]
    fn every_column_is_a_field_of_the_json() {
        let mut all = snapshot(Some(POWER));
        all.statistics.packets = Some(packets());
        let json = serde_json::to_value(all).unwrap();
        for (list, headings) in reference() {
            assert_eq!(not_in_json(&json, list, &headings), [""; 0], "{list}");
        }
    }

    #[test]
    fn energy_is_shown_if_the_power_is_known_and_otherwise_a_dash() {
        let account = |text: &str| {
            let line = text.lines().find(|line| line.starts_with("reader"));
            let words = line.unwrap().split_whitespace().skip(5);
            words.collect::<Vec<_>>().join(" ")
        };
        let known = text(&snapshot(Some(POWER)));
        let awake = "20 ms over all CPUs, about 0.05 J, at 2.5 W [2.25, 2.75] more";
        assert!(known.contains(awake), "{known}");
        assert_eq!(account(&known), "10 0.025", "{known}");
        let unknown = text(&snapshot(None));
        assert!(
            unknown.contains("Awake       20 ms over all CPUs\n"),
            "{unknown}"
        );
        assert_eq!(account(&unknown), "10 -", "{unknown}");
    }

    #[test]
    fn requests_are_counted_by_outcome() {
        let shown = text(&snapshot(None));
        assert!(shown.contains("Left alone  5 for comparison, 15 over budget\n"));
        assert!(shown.contains("-12.0 ±2.0"), "{shown}");
        // The other CPU did nothing.
        assert!(shown.contains("\n0 ") && !shown.contains("\n1 "), "{shown}");
    }

    #[test]
    fn the_answer_claims_a_gain_only_if_it_is_shown() {
        let of = |change: fn(&mut OperationStatistics)| {
            let mut snapshot = snapshot(None);
            change(&mut snapshot.statistics.operations[0]);
            answer(&snapshot)
        };
        let none = |one: &mut OperationStatistics| {
            (one.assistance.in_time, one.assistance.cpu_busy) = (0, 77);
        };
        let said = [
            ("shorter", of(|_| {})),
            (
                "longer",
                of(|one| {
                    one.gain = Some(Gain {
                        median_us: 3.0,
                        low_us: 1.0,
                        high_us: 5.0,
                    })
                }),
            ),
            (
                "not shown",
                of(|one| {
                    one.gain = Some(Gain {
                        median_us: -1.0,
                        low_us: -5.0,
                        high_us: 3.0,
                    })
                }),
            ),
            ("not known", of(|one| one.gain = None)),
            ("busy", of(|one| one.assistance.cpu_busy = 17)),
            ("none in time", of(none)),
        ];
        let mut others = snapshot(None);
        others.statistics.operations.clear();
        let nothing = answer(&others);
        others.statistics.packets = Some(packets());
        let arrivals = answer(&others);
        let said = said
            .into_iter()
            .chain([("no request", nothing), ("packets", arrivals)]);
        reveille_snapshot::snapshot!("live", said);
    }

    #[test]
    fn packets_and_hints_are_shown_with_what_they_brought() {
        let mut with = snapshot(None);
        with.statistics.packets = Some(packets());
        with.hints = Some(Hints {
            received: 120,
            followed: 100,
            helped: 75,
            refused: BTreeMap::from([("wrong signature".to_owned(), 20)]),
            strangers: 3,
            floods: 0,
        });
        // Where lines break is not the point.
        let shown = text(&with);
        let shown = shown.split_whitespace().collect::<Vec<_>>().join(" ");
        for expected in [
            "1,000 arrivals",
            "900 assisted, 850 in time",
            "median 60 µs left alone, 20 µs assisted",
            "-40.0 ±2.0",
            "120 received, 100 followed; 75.0% of these helped",
            "20 wrong signature, 3 from strangers",
            "192.0.2.1:4000",
        ] {
            assert!(shown.contains(expected), "{expected}\n{shown}");
        }
    }

    #[test]
    fn applications_are_shown_after_the_first_connects() {
        let mut with = snapshot(None);
        let mut applications = Applications {
            connected: 0,
            welcomed: 0,
            accepted: 7,
            cancelled: 0,
            orphaned: 0,
            unheard: 0,
            held_back: 0,
            refused: BTreeMap::from([("Budget".to_owned(), 3)]),
            sent_away: BTreeMap::new(),
            users: Vec::new(),
        };
        with.applications = Some(applications.clone());
        assert!(!text(&with).contains("Applications"));
        applications.welcomed = 1;
        with.applications = Some(applications);
        let shown = text(&with);
        assert!(shown.contains("Applications  0 connected, 7 requests accepted\n"));
        assert!(shown.contains("Refused       3 Budget\n"), "{shown}");
    }
}
