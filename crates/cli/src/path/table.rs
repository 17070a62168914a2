//! Where packets' time went, for people: a table per state, bars side by side, and what else adds
//! latency.

use std::io::{self, Write};
use std::path::Path as FilePath;

use reveille_kernel::cpulist;
use reveille_watch::path::{Delay, Follow, Group, Path, ReadersPlace, Stage};

use reveille_show::table::{Side, Table};
use reveille_show::terminal;
use reveille_show::wrap::wrapped;

const UNKNOWN: &str = "-";
/// Letters in the longest bar.
const BAR: f64 = 56.0;
pub fn print(path: &Path, folder: Option<&FilePath>) -> io::Result<()> {
    let mut out = terminal::stdout();
    head(path, &mut out)?;
    for group in &path.groups {
        writeln!(out)?;
        self::group(path, group, &mut out)?;
    }
    if !path.groups.is_empty() {
        writeln!(out)?;
        bars(path, &mut out)?;
    }
    if let Some(readers) = &path.readers {
        writeln!(out)?;
        self::readers(readers, &mut out)?;
    }
    for (place, delay) in path.delays.iter().enumerate() {
        if place == 0 {
            writeln!(out, "\nWhat else adds latency")?;
        }
        self::delay(delay, &mut out)?;
    }
    if let Some(folder) = folder {
        writeln!(out, "\nKept in {}", folder.display())?;
    }
    Ok(())
}

/// Why there is no packet in the table.
pub fn nothing(path: &Path) -> String {
    let counts = &path.counts;
    let (what, where_from) = match (path.subject.follow, &path.subject.interface) {
        (Follow::Ping, _) => ("ICMP echo request", String::new()),
        (_, Some(interface)) => ("packet", format!(" at {interface}")),
        (_, None) => ("packet", String::new()),
    };
    let time = path.elapsed_s;
    if counts.seen == 0 {
        return format!(
            "no {what} reached this machine{where_from} in {time:.1} s; send some, or wait longer \
             with --duration"
        );
    }
    format!(
        "of {} {what}s{where_from} in {time:.1} s none was followed to its end: {}",
        counts.seen,
        lost(path).join(", ")
    )
}

fn head(path: &Path, out: &mut impl Write) -> io::Result<()> {
    let subject = &path.subject;
    let what = match subject.follow {
        Follow::Ping => "ICMP echo requests".to_owned(),
        Follow::Socket => "packets that wake a reader".to_owned(),
    };
    let interface = subject.interface.as_ref();
    let interface = interface.map_or(String::new(), |name| format!(" at {name}"));
    let port = subject
        .port
        .map_or(String::new(), |port| format!(", port {port}"));
    writeln!(out, "Followed  {what}{interface}{port}")?;
    let kernel = subject.machine.kernel.as_deref().unwrap_or("unknown");
    let hypervisor = subject.machine.hypervisor.as_ref();
    let hypervisor = hypervisor.map_or(String::new(), |name| format!(", under {name}"));
    writeln!(out, "Kernel    {kernel}{hypervisor}")?;
    writeln!(
        out,
        "Idle      driver {}, governor {}",
        subject.driver.as_deref().unwrap_or("none"),
        subject.governor.as_deref().unwrap_or("none")
    )?;
    let packets: u64 = path.groups.iter().map(|group| group.packets).sum();
    writeln!(
        out,
        "Packets   {packets} of {} seen in {:.1} s",
        path.counts.seen, path.elapsed_s
    )?;
    let lost = lost(path);
    if !lost.is_empty() {
        writeln!(out, "Without   {}", lost.join(", "))?;
    }
    if let Some(cost) = path.cost.filter(|cost| cost.runs > 0) {
        writeln!(
            out,
            "Cost      {:.2}% of one CPU, {:.0} ns each time a program ran",
            cost.run_time_ns as f64 / 1e7 / path.elapsed_s,
            cost.run_time_ns as f64 / cost.runs as f64
        )?;
    }
    if path.interrupted {
        writeln!(out, "Ended     interrupted; what was gathered is kept")?;
    }
    Ok(())
}

/// What is not among the figures, and why.
fn lost(path: &Path) -> Vec<String> {
    let counts = &path.counts;
    let reasons = [
        (counts.left_out, "left out for their rate"),
        (counts.fragments, "in fragments"),
        (counts.unanswered, "unanswered"),
        (counts.nobody_woken, "that woke nobody"),
        (counts.not_returned, "whose reader had not returned"),
        (counts.ring_full, "lost to a full buffer"),
    ];
    let some = reasons.into_iter().filter(|(count, _)| *count > 0);
    some.map(|(count, why)| format!("{count} {why}")).collect()
}

fn group(path: &Path, group: &Group, out: &mut impl Write) -> io::Result<()> {
    let causes: Vec<String> = group
        .causes
        .iter()
        .map(|(cause, count)| format!("{cause} {count}"))
        .collect();
    let asleep = group.asleep.as_ref();
    let asleep = asleep.map_or(String::new(), |asleep| {
        format!("; asleep for {} at the median", duration(asleep.median_ns))
    });
    let met = match group.in_poll {
        true => "in a poll, with others before them",
        false => group.name(),
    };
    let packets = match group.packets {
        1 => "1 packet".to_owned(),
        packets => format!("{packets} packets"),
    };
    writeln!(out, "{met}: {packets}{asleep}")?;
    writeln!(out, "announced by: {}", causes.join(", "))?;
    table(group).write(out)?;
    if group.from_sender {
        return Ok(());
    }
    let text = match (&group.state, &group.estimate) {
        (Some(_), Some(estimate)) => {
            let tail = estimate.p99_ns;
            let tail = tail.map_or(String::new(), |ns| format!(", {} at p99", duration(ns)));
            format!(
                "not seen: from the packet's arrival to that first code, about {} at the \
                 median{tail} (estimate: {}, source {})",
                duration(estimate.median_ns),
                estimate.result,
                estimate.source
            )
        }
        (Some(_), None) => "not seen: from the packet's arrival to that first code, the waking \
                            itself; --result RESULT adds an estimate"
            .to_owned(),
        _ if path.subject.follow == Follow::Ping || group.in_poll => {
            "not seen: from the packet's arrival to the first instant here".to_owned()
        }
        _ => return Ok(()),
    };
    wrapped(out, "", 2, &text)
}

fn table(group: &Group) -> Table {
    let mut table = Table::new(&[
        ("stage", "", Side::Left),
        ("until", "", Side::Left),
        ("count", "", Side::Right),
        ("median", "µs", Side::Right),
        ("p99", "µs", Side::Right),
        ("max", "µs", Side::Right),
        ("mean", "µs", Side::Right),
    ]);
    let figures = |summary: &reveille_results::statistics::Summary| {
        [
            short(summary.median_ns as f64),
            summary.p99_ns.map_or(UNKNOWN.into(), |ns| short(ns as f64)),
            short(summary.max_ns as f64),
            short(summary.mean_ns),
        ]
    };
    for one in &group.stages {
        let [median, p99, max, mean] = figures(&one.summary);
        table.row([
            one.stage.name().to_owned(),
            one.stage.until().to_owned(),
            one.summary.count.to_string(),
            median,
            p99,
            max,
            mean,
        ]);
    }
    let [median, p99, max, mean] = figures(&group.whole);
    let count = group.packets.to_string();
    table.row(["whole".into(), String::new(), count, median, p99, max, mean]);
    table
}

/// One bar for each group: so many letters for each stage as it has of the mean.
fn bars(path: &Path, out: &mut impl Write) -> io::Result<()> {
    let longest = path.groups.iter().map(|group| group.whole.mean_ns);
    let longest = longest.fold(0.0, f64::max);
    if longest <= 0.0 {
        return Ok(());
    }
    let scale = longest / BAR;
    writeln!(out, "Means, a letter for each {}", duration(scale as i64))?;
    let names = path.groups.iter().map(|group| group.name().chars().count());
    let width = names.max().unwrap_or(0);
    for group in &path.groups {
        let (name, mean) = (group.name(), short(group.whole.mean_ns));
        writeln!(out, "{name:width$}  {} {mean} µs", bar(group, scale))?;
    }
    let mut stages: Vec<Stage> = path
        .groups
        .iter()
        .flat_map(|group| group.stages.iter().map(|one| one.stage))
        .collect();
    stages.sort();
    stages.dedup();
    let legend: Vec<String> = stages
        .iter()
        .map(|stage| format!("{} {}", stage.letter(), stage.name()))
        .collect();
    wrapped(out, "", 2, &legend.join(", "))
}

/// Rounded where stages end, so that the bar is as long as its mean.
fn bar(group: &Group, scale: f64) -> String {
    let (mut bar, mut end) = (String::new(), 0.0);
    let mut letters = 0;
    for one in &group.stages {
        end += one.share_of_mean_ns / scale;
        let until = end.round() as usize;
        let count = until.saturating_sub(letters);
        bar.extend(std::iter::repeat_n(one.stage.letter(), count));
        letters += count;
    }
    bar
}

fn readers(readers: &ReadersPlace, out: &mut impl Write) -> io::Result<()> {
    let names: Vec<String> = readers
        .names
        .iter()
        .map(|(name, count)| format!("{name} {count}"))
        .collect();
    wrapped(out, "", 2, &format!("Readers: {}", names.join(", ")))?;
    writeln!(
        out,
        "received on CPU {}, read on CPU {}, whose CPU slept {} times",
        cpulist::format(&readers.received_on),
        cpulist::format(&readers.read_on),
        readers.cpu_asleep
    )?;
    for (place, summary) in [
        ("on the same CPU", &readers.on_the_same_cpu),
        ("on another CPU", &readers.on_another_cpu),
    ] {
        if let Some(summary) = summary {
            writeln!(
                out,
                "{place}: {} from wake-up to first instruction at the median ({})",
                duration(summary.median_ns),
                summary.count
            )?;
        }
    }
    Ok(())
}

fn delay(delay: &Delay, out: &mut impl Write) -> io::Result<()> {
    let interface = delay.interface.as_ref();
    let interface = interface.map_or(String::new(), |name| format!("{name}, "));
    wrapped(
        out,
        "",
        2,
        &format!("{interface}{}: {}", delay.what, delay.now),
    )?;
    if let Some(adds) = &delay.adds {
        wrapped(out, "    ", 6, &format!("adds {adds}"))?;
    }
    match &delay.set {
        // A command is not broken: it is copied.
        Some(set) => writeln!(out, "    {set}"),
        None => Ok(()),
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

/// In the unit that fits.
fn duration(ns: i64) -> String {
    let ns = ns as f64;
    match ns {
        x if x < 1e6 => format!("{} µs", short(x)),
        x if x < 1e9 => format!("{} ms", short(x / 1e3)),
        x => format!("{} s", short(x / 1e6)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reveille_kernel::{Idle, Root};
    use reveille_show::wrap::COLUMNS;
    use reveille_watch::path::{Counts, Gathered, Packet, SCHEMA_VERSION, Subject};

    /// One ping: a softirq after 30 µs, the protocols after 10 more, the reply after 2 more.
    fn path() -> Path {
        let mut gathered = Gathered::new();
        gathered.add(
            &Idle::read(&Root::default()).unwrap(),
            &Packet {
                sent: Some(1_000),
                softirq: Some(31_000),
                protocol: Some(41_000),
                answered: Some(43_000),
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
    fn a_bar_has_as_many_letters_for_each_stage_as_it_has_of_the_mean() {
        let path = path();
        assert_eq!(bar(&path.groups[0], 2_000.0), "sssssssssssssssrrrrre");
        // The longest fills the line.
        let mut out = Vec::new();
        bars(&path, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let line = text.lines().find(|line| line.starts_with("awake")).unwrap();
        assert_eq!(
            line,
            format!(
                "awake  {}{}{} 42.0 µs",
                "s".repeat(40),
                "r".repeat(13),
                "eee"
            )
        );
    }

    #[test]
    fn text_is_broken_at_spaces_within_the_width() {
        let mut out = Vec::new();
        wrapped(&mut out, "    ", 6, &"twelve chars".repeat(20)).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.lines().count() > 2, "{text}");
        assert!(
            text.lines().all(|line| line.chars().count() <= COLUMNS),
            "{text}"
        );
        assert!(
            text.lines().skip(1).all(|line| line.starts_with("      ")),
            "{text}"
        );
    }

    #[test]
    fn where_nothing_was_followed_it_is_said_why() {
        let mut path = path();
        path.groups.clear();
        assert!(nothing(&path).starts_with("no ICMP echo request reached this machine in 2.0 s"));
        path.counts.seen = 3;
        path.counts.unanswered = 3;
        let why = nothing(&path);
        assert!(
            why.contains("of 3 ICMP echo requests") && why.ends_with("3 unanswered"),
            "{why}"
        );
    }
}
