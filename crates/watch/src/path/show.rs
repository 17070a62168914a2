//! The names, units and sentences of `path`'s figures.

use reveille_kernel::{cpulist, driver_and_governor};
use reveille_results::description::Ended;
use reveille_results::statistics::Summary;
use reveille_show::chart::Bars;
use reveille_show::chart::bars::{self, Row};
use reveille_show::columns;
use reveille_show::quantity::{count, counted, duration, listed, nanoseconds, share};
use reveille_show::sheet::{Column, Heading, Section, Sheet, Table, Value};

use super::Follow;
use super::stage::Stage;
use super::summary::{Delay, Group, Path, ReadersPlace, StageFigures};

const FOOT: &str = "Stages are measured between kernel tracepoints, by the monotonic clock. No \
                    tracepoint has the instant at which a packet reached the card: unless the sender \
                    runs on the same machine, the figures do not include the time from there to the \
                    CPU's first code; estimates of it are labelled.";

/// A stage, or the whole.
struct Figures {
    name: &'static str,
    until: &'static str,
    of: Summary,
}

const STAGES: &[Column<Figures>] = &columns!(|row|
    words "stage", "stage", row.name, "The part of a packet's time; `whole`: all of it";
    words "until", "until", row.until, "The instant that ends the stage";
    measured(Count) "count", "packets", row.of.count, "Packets that have the stage";
    measured(Ns) "median_ns", "median", row.of.median_ns, "Median";
    measured(Ns) detail "p90_ns", "p90", row.of.p90_ns, "90th percentile; needs 100 packets";
    measured(Ns) "p99_ns", "p99", row.of.p99_ns, "99th percentile; needs 1000 packets";
    measured(Ns) "max_ns", "max", row.of.max_ns, "Maximum";
    measured(Ns) "mean_ns", "mean", row.of.mean_ns, "Mean";
    measured(Ns) detail "standard_deviation_ns", "sd", row.of.standard_deviation_ns,
        "Standard deviation; needs two packets";
);

/// A row of the table that compares groups; it has a column for each.
struct Part {
    name: &'static str,
    until: &'static str,
}

const PARTS: &[Column<Part>] = &columns!(|row|
    words "stage", "stage", row.name, "The part of a packet's time; `whole`: all of it";
    words "until", "until", row.until, "The instant that ends the stage";
    measured(Ns) "share_of_mean_ns", "of the mean", Value::Unknown,
        "Its mean over all packets of the group: the stages' add up to the mean of the whole; a table has a \
         column for each group";
);

/// Where readers ran, and their time from wake-up to first instruction.
struct Place {
    name: &'static str,
    of: Summary,
}

const READERS: &[Column<Place>] = &columns!(|row|
    words "reader", "reader ran", row.name, "The CPU on which the reader ran";
    measured(Count) "count", "packets", row.of.count, "Packets read there";
    measured(Ns) "median_ns", "median", row.of.median_ns,
        "Median time from the reader's wake-up to its first instruction";
    measured(Ns) "p99_ns", "p99", row.of.p99_ns, "Its 99th percentile";
    measured(Ns) "max_ns", "max", row.of.max_ns, "Maximum";
);

/// The columns of every table, by the place of its rows in `path.json`.
pub fn reference() -> Vec<(&'static str, Vec<Heading>)> {
    let stages = [Column::headings(STAGES), Column::headings(&PARTS[2..])];
    vec![
        ("groups[].stages[]", stages.concat()),
        ("readers", Column::headings(READERS)),
    ]
}

/// The result as a sheet.
pub fn sheet(path: &Path) -> Sheet<'static> {
    let packets: u64 = path.groups.iter().map(|group| group.packets).sum();
    let subject = &path.subject;
    let mut about = vec![counted(packets, "packet")];
    about.extend(subject.machine.words());
    about.extend(subject.port.map(|port| format!("port {port}")));
    about.extend([subject.started.clone(), path.tool.clone()]);
    let mut sheet = Sheet {
        title: title(path),
        about: vec![about.join(" · ")],
        answer: answer(path),
        foot: FOOT,
        ..Sheet::default()
    };
    facts(path, packets, &mut sheet);
    sheet.section(Section::new("stages", "Stages").bars(bars(path)).detail());
    let are_several = path.groups.len() > 1;
    if are_several {
        let packets = path.groups.iter();
        let packets = packets.map(|group| format!("{} {}", group.name(), count(group.packets)));
        let packets = packets.collect::<Vec<_>>().join(", ");
        let heading = format!("Mean time by stage (packets: {packets})");
        let means = Section::new("means", heading).titled().table(means(path));
        sheet.section(unobserved(path).into_iter().fold(means, Section::text));
    }
    for group in &path.groups {
        let section = Section::new("tables", format!("With {}", met(group)))
            .text(words(path, group))
            .table(stages(group));
        sheet.section(match are_several {
            true => section.detail(),
            false => section,
        });
    }
    if let Some(readers) = &path.readers {
        sheet.section(self::readers(readers));
    }
    let (adding, others): (Vec<_>, Vec<_>) = path.delays.iter().partition(|one| one.adds_any());
    let section = Section::new("delays", "Other causes of latency").titled();
    sheet.section(adding.into_iter().fold(section, delay));
    let section = Section::new("settings", "Settings that add no latency here").titled();
    sheet.section(others.into_iter().fold(section, delay).detail());
    sheet
}

fn title(path: &Path) -> String {
    let what = match path.subject.follow {
        Follow::Ping => "pings",
        Follow::Socket => "packets",
    };
    let place = path.subject.interface.as_deref();
    let place = place.or(path.subject.machine.hostname.as_deref());
    let place = place.map_or(String::new(), |place| format!(" at {place}"));
    format!("Latency of {what} by stage{place}")
}

/// The stage that takes the most time on average: `the longest stage is wake, 61 µs of it`.
fn longest(group: &Group) -> Option<String> {
    let by_mean = |one: &&StageFigures| one.share_of_mean_ns as i64;
    let longest = group.stages.iter().max_by_key(by_mean)?;
    Some(format!(
        "the longest stage is {}, {} of it",
        longest.stage.name(),
        duration(longest.share_of_mean_ns)
    ))
}

/// Each group's mean and longest stage: only means of stages add up to that of the whole.
fn answer(path: &Path) -> String {
    if path.groups.is_empty() {
        let why = nothing(path);
        return why[..1].to_uppercase() + &why[1..] + ".";
    }
    let mean = |group: &Group| {
        let mean = duration(group.whole.mean_ns);
        let longest = longest(group).map_or(String::new(), |longest| format!("; {longest}"));
        let of = match group.packets {
            1 => ", one packet".to_owned(),
            packets => format!(" on average of {}", counted(packets, "packet")),
        };
        format!("With {}: {mean}{of}{longest}.", met(group))
    };
    let means: Vec<String> = path.groups.iter().map(mean).collect();
    means.join(" ")
}

fn facts(path: &Path, packets: u64, sheet: &mut Sheet<'_>) {
    let subject = &path.subject;
    let mut what = match subject.follow {
        Follow::Ping => "ICMP echo requests".to_owned(),
        Follow::Socket => "packets that wake a reader".to_owned(),
    };
    if let Some(interface) = &subject.interface {
        what += &format!(" at {interface}");
    }
    if let Some(port) = subject.port {
        what += &format!(", port {port}");
    }
    let seen = count(path.counts.seen);
    let elapsed = duration(path.elapsed_s * 1e9);
    let packets = format!("{} of {seen} seen in {elapsed}", count(packets));
    sheet.fact("Followed", format!("{what}; {packets}"));
    sheet.detail("Kernel", subject.machine.kernel_words());
    let (driver, governor) = (&subject.driver, &subject.governor);
    sheet.detail(
        "Idle",
        driver_and_governor(driver.as_deref(), governor.as_deref()),
    );
    let lost = lost(path);
    if !lost.is_empty() {
        sheet.fact("Without", reasons(&lost));
    }
    if let Some(cost) = path.cost.filter(|cost| cost.runs > 0) {
        let of_time = share(cost.run_time_ns as f64 / 1e9 / path.elapsed_s);
        let run = duration(cost.run_time_ns as f64 / cost.runs as f64);
        sheet.detail(
            "Cost",
            format!("{of_time} of one CPU, {run} per run of a program"),
        );
    }
    if path.interrupted {
        sheet.fact("Ended", Ended::INTERRUPTED);
    }
}

/// Why packets are not in the figures.
struct Lost {
    packets: u64,
    why: &'static str,
    /// What has more of them followed.
    instead: &'static str,
}

/// The packets that are not in the figures, by reason.
fn lost(path: &Path) -> Vec<Lost> {
    const SLOWER: &str = "send them more slowly";
    let counts = &path.counts;
    let reasons = [
        (
            counts.left_out,
            "evenly skipped because of the rate",
            SLOWER,
        ),
        (counts.fragments, "fragments", "send smaller packets"),
        (
            counts.unanswered,
            "unanswered",
            "see whether a firewall or net.ipv4.icmp_echo_ignore_all drops them",
        ),
        (
            counts.nobody_woken,
            "that woke no reader",
            "see whether a program reads them (`ss -lntup`), and send them so slowly that it sleeps in between",
        ),
        (counts.not_returned, "whose reader had not returned", SLOWER),
        (counts.ring_full, "lost because the buffer was full", SLOWER),
    ];
    let some = reasons.into_iter().filter(|(packets, ..)| *packets > 0);
    let lost = some.map(|(packets, why, instead)| Lost {
        packets,
        why,
        instead,
    });
    lost.collect()
}

fn reasons(lost: &[Lost]) -> String {
    let reasons = lost
        .iter()
        .map(|one| format!("{} {}", count(one.packets), one.why));
    reasons.collect::<Vec<_>>().join(", ")
}

/// The error if no packet is in the figures: why, and what to measure instead.
pub fn nothing(path: &Path) -> String {
    let counts = &path.counts;
    let what = match path.subject.follow {
        Follow::Ping => "ICMP echo request",
        Follow::Socket => "packet",
    };
    let interface = path.subject.interface.as_ref();
    let interface = interface.map_or(String::new(), |name| format!(" at {name}"));
    let port = path.subject.port;
    let port = port.map_or(String::new(), |port| format!(" for port {port}"));
    let place = port + &interface;
    let time = path.elapsed_s;
    if counts.seen == 0 {
        return format!(
            "no {what}{place} reached this machine in {time:.1} s; send some, or increase \
             --duration"
        );
    }
    let lost = lost(path);
    let most = lost.iter().max_by_key(|one| one.packets);
    format!(
        "none of {}{place} in {time:.1} s was followed to its end{}; {}",
        counted(counts.seen, what),
        match lost.is_empty() {
            true => String::new(),
            false => format!(": {}", reasons(&lost)),
        },
        most.map_or("increase --duration", |most| most.instead)
    )
}

fn met(group: &Group) -> String {
    match (&group.state, group.in_poll) {
        (Some(state), _) => format!("the CPU asleep in {state}"),
        (None, false) => "the CPU awake".to_owned(),
        (None, true) => "other packets before them in one poll".to_owned(),
    }
}

/// What announced the packets of a group, and which of their time is not observed.
fn words(path: &Path, group: &Group) -> String {
    let causes = group.causes.iter();
    let causes: Vec<String> = causes
        .map(|(cause, number)| format!("{cause} ({})", count(*number)))
        .collect();
    let asleep = group.asleep.as_ref().map_or(String::new(), |asleep| {
        let (median, most) = (nanoseconds(asleep.median_ns), nanoseconds(asleep.max_ns));
        format!(" (for {median} at the median, at most {most})")
    });
    format!(
        "With {}{asleep}: {}. Announced by: {}.{}",
        met(group),
        counted(group.packets, "packet"),
        causes.join(", "),
        before(path, group)
    )
}

/// The note on the time before the first instant.
fn before(path: &Path, group: &Group) -> String {
    if group.from_sender {
        return " The sender is this machine: the first stage begins when it sends.".to_owned();
    }
    match (&group.state, &group.estimate) {
        (Some(_), Some(estimate)) => {
            let tail = estimate.p99_ns;
            let tail = tail.map_or(String::new(), |ns| format!(", {} at p99", nanoseconds(ns)));
            format!(
                " Not observed: from the packet's arrival to that first code, about {} at the \
                 median{tail} (an estimate: {}, source {}).",
                nanoseconds(estimate.median_ns),
                estimate.result,
                estimate.source
            )
        }
        (Some(_), None) => " Not observed: from the packet's arrival to that first code, which is \
                            the wake-up; --result RESULT adds an estimate."
            .to_owned(),
        _ if path.subject.follow == Follow::Ping || group.in_poll => {
            " Not observed: from the packet's arrival to the first instant here.".to_owned()
        }
        _ => String::new(),
    }
}

fn stages(group: &Group) -> Table {
    let stage = |one: &StageFigures| Figures {
        name: one.stage.name(),
        until: one.stage.until(),
        of: one.summary.clone(),
    };
    let mut rows: Vec<Figures> = group.stages.iter().map(stage).collect();
    rows.push(Figures {
        name: "whole",
        until: "",
        of: group.whole.clone(),
    });
    let mut table = Table::of(format!("Stages, {}", group.name()), STAGES, &rows);
    table.first = rows.len();
    table
}

/// The stages' shares of each group's mean.
fn means(path: &Path) -> Table {
    let of = |group: &Group, stage: Stage| {
        let mut stages = group.stages.iter();
        let found = stages.find(|one| one.stage == stage);
        found.map(|one| one.share_of_mean_ns)
    };
    let is_met = |stage: &Stage| path.groups.iter().any(|group| of(group, *stage).is_some());
    let stages: Vec<Stage> = Stage::all().filter(is_met).collect();
    let part = |stage: &Stage| Part {
        name: stage.name(),
        until: stage.until(),
    };
    let whole = Part {
        name: "whole",
        until: "",
    };
    let rows: Vec<Part> = stages.iter().map(part).chain([whole]).collect();
    let table = Table::of("Mean time by stage and idle state", &PARTS[..2], &rows).whole();
    path.groups.iter().fold(table, |table, group| {
        let heading = Heading {
            name: group.name().to_owned().into(),
            ..PARTS[2].heading.clone()
        };
        let means = stages.iter().map(|stage| of(group, *stage));
        let means = means.chain([Some(group.whole.mean_ns)]);
        table.column(heading, means.map(Value::from))
    })
}

/// What no group's figures include.
fn unobserved(path: &Path) -> Option<String> {
    let mut groups = path.groups.iter();
    if groups.all(|group| group.from_sender || before(path, group).is_empty()) {
        return None;
    }
    let estimates = path.groups.iter().filter_map(|group| {
        let median = nanoseconds(group.estimate.as_ref()?.median_ns);
        Some(format!("{median} from {}", group.state.as_ref()?))
    });
    let estimates: Vec<String> = estimates.collect();
    Some(format!(
        "Not observed: from a packet's arrival to the first instant here, which for a sleeping CPU is its \
         wake-up{}.",
        match estimates.is_empty() {
            true => "; --result RESULT adds an estimate".to_owned(),
            false => format!(", at the median about {} (estimates)", listed(&estimates)),
        }
    ))
}

/// Stacked means, a row for each group.
fn bars(path: &Path) -> Bars {
    let part = |stage: Stage| bars::Part {
        name: stage.name().to_owned(),
        letter: stage.letter(),
        is_estimate: false,
    };
    let mut parts: Vec<bars::Part> = Stage::all().map(part).collect();
    let wake_up = parts.len();
    parts.push(bars::Part {
        name: "wake-up, estimate".to_owned(),
        letter: '?',
        is_estimate: true,
    });
    let row = |group: &Group| {
        let estimate = group.estimate.as_ref();
        let estimate = estimate.map_or(0.0, |estimate| estimate.median_ns.max(0) as f64);
        let stages = group.stages.iter();
        let stages = stages.map(|one| (one.stage as usize, one.share_of_mean_ns));
        Row {
            name: group.name().to_owned(),
            lengths: [(wake_up, estimate)].into_iter().chain(stages).collect(),
            total_ns: group.whole.mean_ns,
        }
    };
    Bars {
        label: "Mean time by stage and idle state".to_owned(),
        axis: "mean time",
        parts,
        rows: path.groups.iter().map(row).collect(),
        on_terminals: true,
    }
}

fn readers(readers: &ReadersPlace) -> Section<'static> {
    let names = readers.names.iter();
    let names: Vec<String> = names
        .map(|(name, wakes)| format!("{name} {}", count(*wakes)))
        .collect();
    let text = format!(
        "Readers: {}. Received on CPU {}, read on CPU {}, which slept {} times.",
        names.join(", "),
        cpulist::format(&readers.received_on),
        cpulist::format(&readers.read_on),
        count(readers.cpu_asleep)
    );
    let places = [
        ("on the receiving CPU", &readers.on_the_same_cpu),
        ("on another CPU", &readers.on_another_cpu),
    ];
    let places = places.into_iter().filter_map(|(name, summary)| {
        let of = summary.clone()?;
        Some(Place { name, of })
    });
    let places: Vec<Place> = places.collect();
    let table = Table::of(
        "From the wake-up to the first instruction",
        READERS,
        &places,
    );
    Section::new("readers", "Readers").text(text).table(table)
}

fn delay(section: Section<'static>, delay: &Delay) -> Section<'static> {
    let interface = delay.interface.as_ref();
    let interface = interface.map_or(String::new(), |name| format!("{name}, "));
    let adds = delay.adds.as_ref();
    let adds = adds.map_or(String::new(), |adds| format!("; adds {adds}"));
    let section = section.text(format!("{interface}{}: {}{adds}", delay.what, delay.now));
    match &delay.set {
        Some(set) => section.command(set),
        None => section,
    }
}

#[cfg(test)]
mod tests {
    use reveille_snapshot::snapshot;

    use super::*;
    use crate::path::{Counts, Gathered, Packet, SCHEMA_VERSION, Subject};
    use reveille_kernel::{Idle, Root};

    /// One ping: a softirq after 30 µs, the protocols after 10 more, the reply after 2 more.
    fn path() -> Path {
        let mut gathered = Gathered::default();
        gathered.add(
            &Idle::read(&Root::default()).unwrap(),
            &Packet {
                sent: Some(1_000),
                ends: [
                    (Stage::Softirq, 31_000),
                    (Stage::Protocol, 41_000),
                    (Stage::Answer, 43_000),
                ]
                .into(),
                ..Packet::default()
            },
        );
        Path {
            schema_version: SCHEMA_VERSION,
            tool: String::new(),
            subject: Subject {
                follow: Follow::Ping,
                interface: None,
                port: None,
                started: String::new(),
                machine: Default::default(),
                driver: None,
                governor: None,
            },
            elapsed_s: 2.0,
            interrupted: false,
            counts: Counts::default(),
            cost: None,
            groups: gathered.groups(),
            readers: None,
            delays: Vec::new(),
        }
    }

    #[test]
    fn the_answer_has_the_whole_and_its_longest_stage_as_means() {
        // A median of the whole may be less than the mean of a stage.
        let mut path = path();
        path.groups[0].whole.median_ns = 1;
        let one = answer(&path);
        path.groups[0].packets = 315;
        snapshot!("words", [("1 packet", one), ("315 packets", answer(&path))]);
    }

    #[test]
    fn stages_are_numbered_in_the_order_of_all() {
        for (place, stage) in Stage::all().enumerate() {
            assert_eq!(stage as usize, place);
        }
    }

    #[test]
    fn without_a_followed_packet_the_error_has_the_reason() {
        let mut path = path();
        path.groups.clear();
        let unseen = nothing(&path);
        path.counts.seen = 3;
        let unknown = nothing(&path);
        path.counts.unanswered = 3;
        let unanswered = answer(&path);
        path.subject.follow = Follow::Socket;
        path.subject.port = Some(5201);
        path.counts = Counts {
            seen: 4812,
            left_out: 12,
            nobody_woken: 4800,
            ..Counts::default()
        };
        let said = [
            ("no packet", unseen),
            ("none to its end", unknown),
            ("unanswered", unanswered),
            ("nobody woken", answer(&path)),
        ];
        snapshot!("words", said);
    }
}
