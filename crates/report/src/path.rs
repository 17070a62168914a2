//! The page of `reveille path`: where packets' time went, by the idle state that they met.

use std::fmt::Write as _;

use reveille_results::statistics::Summary;
use reveille_watch::path::{Follow, Group, Path, Stage, StageFigures, read};
use serde_json::json;

use reveille_show::axis::Axis;
use reveille_show::chart::{COLOURS, colour};
use reveille_show::html_table::{Origin, Table, known};
use reveille_show::markup::escape;
use reveille_show::page::framed;
use reveille_show::quantity::{count, duration, nanoseconds};

/// The page of a `path.json`.
///
/// # Errors
/// One line of what is wrong with it.
pub fn page(text: &[u8], title: Option<&str>) -> Result<String, String> {
    let path = read(text)?;
    let title = title.map_or_else(|| default_title(&path), str::to_owned);
    let body = [
        headline(&path),
        chart(&path),
        tables(&path),
        readers(&path),
        delays(&path),
    ];
    Ok(framed(
        &title,
        &[about(&path)],
        &body.concat(),
        NOTE,
        &json!([]),
    ))
}

const NOTE: &str = "Stages are between tracepoints of the kernel, by its monotonic clock. The \
                    instant at which a packet reached the card is in none of them: unless the \
                    sender runs on the same machine, the CPU's way from there to its first code \
                    is not in the figures, and an estimate of it is said to be one.";

fn default_title(path: &Path) -> String {
    let what = match path.subject.follow {
        Follow::Ping => "pings",
        Follow::Socket => "packets",
    };
    let place = path.subject.interface.as_deref();
    let place = place.or(path.subject.machine.hostname.as_deref());
    let place = place.map_or(String::new(), |place| format!(" at {place}"));
    format!("Where the time of {what} goes{place}")
}

fn about(path: &Path) -> String {
    let machine = &path.subject.machine;
    let known = [
        Some(format!("{} packets", count(packets(path)))),
        machine.hostname.clone(),
        machine.cpu_model.clone(),
        machine
            .kernel
            .as_ref()
            .map(|kernel| format!("Linux {kernel}")),
        path.subject.port.map(|port| format!("port {port}")),
        Some(path.subject.started.clone()),
        Some(path.tool.clone()),
    ];
    known.into_iter().flatten().collect::<Vec<_>>().join(" · ")
}

fn packets(path: &Path) -> u64 {
    path.groups.iter().map(|group| group.packets).sum()
}

/// Which stage takes most, of the packets that met the deepest sleep.
fn headline(path: &Path) -> String {
    let mut html = String::new();
    let by_mean = |one: &&StageFigures| one.share_of_mean_ns as i64;
    for group in &path.groups {
        let Some(most) = group.stages.iter().max_by_key(by_mean) else {
            continue;
        };
        // Writing to a String cannot fail.
        let _ = write!(
            html,
            "<p class=\"headline\"><b>{}.</b> {} packets, {} at the median; the longest stage is \
             <b>{}</b> (until: {}), {} on average.</p>",
            escape(&met(group)),
            count(group.packets),
            nanoseconds(group.whole.median_ns),
            escape(most.stage.name()),
            escape(most.stage.until()),
            duration(most.share_of_mean_ns),
        );
    }
    if path.groups.is_empty() {
        html.push_str("<p class=\"headline\">No packet was followed to its end.</p>");
    }
    let counts = &path.counts;
    for (lost, why) in [
        (counts.left_out, "left out, evenly, for their rate"),
        (counts.fragments, "came in fragments and were not followed"),
        (counts.unanswered, "were not answered"),
        (
            counts.nobody_woken,
            "woke nobody: their reader was awake, or there is none",
        ),
        (
            counts.not_returned,
            "woke a reader that had not returned when the next came",
        ),
        (counts.ring_full, "were lost to a full buffer"),
    ] {
        if lost > 0 {
            let _ = write!(
                html,
                "<p class=\"notice\">{} of {} packets {why}.</p>",
                count(lost),
                count(counts.seen)
            );
        }
    }
    if path.interrupted {
        html.push_str("<p class=\"notice\">Following was interrupted.</p>");
    }
    html
}

fn met(group: &Group) -> String {
    match (&group.state, group.in_poll) {
        (Some(state), _) => format!("The CPU slept in {state}"),
        (None, false) => "The CPU was awake".to_owned(),
        (None, true) => "Others came before them in one poll".to_owned(),
    }
}

/// The drawing, in its own units.
const LEFT: f64 = 140.0;
const WIDTH: f64 = 740.0;
const FULL_WIDTH: f64 = 980.0;
const ROW: f64 = 46.0;
const BAR: f64 = 26.0;
const BOTTOM: f64 = 44.0;

/// Means, stacked: a row for each state.
fn chart(path: &Path) -> String {
    let lengths = path
        .groups
        .iter()
        .map(|group| group.whole.mean_ns + unseen(group));
    let longest = lengths.fold(0.0, f64::max);
    if longest <= 0.0 {
        return String::new();
    }
    let axis = Axis::from_zero(longest);
    let x = |ns: f64| LEFT + WIDTH * axis.fraction(ns);
    let height = ROW * path.groups.len() as f64;
    let mut svg = format!(
        "<svg class=\"bars\" viewBox=\"0 0 {FULL_WIDTH} {:.0}\" role=\"img\" aria-label=\"Mean time \
         of each stage, stacked, by idle state\"><path class=\"grid\" d=\"",
        height + BOTTOM
    );
    for tick in axis.ticks() {
        let _ = write!(svg, "M{:.1} 0v{height:.0}", x(tick.value));
    }
    svg.push_str("\"/>");
    for (place, group) in path.groups.iter().enumerate() {
        row(group, ROW * place as f64, &x, &mut svg);
    }
    let _ = write!(
        svg,
        "<path class=\"axis\" d=\"M{LEFT} 0v{height:.0}h{WIDTH}\"/><g class=\"ticks\">"
    );
    for tick in axis.ticks() {
        let _ = write!(
            svg,
            "<text text-anchor=\"middle\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            x(tick.value),
            height + 17.0,
            duration(tick.value)
        );
    }
    let _ = write!(
        svg,
        "</g><text class=\"name\" text-anchor=\"end\" x=\"{:.1}\" y=\"{:.1}\">mean time</text></svg>",
        LEFT + WIDTH,
        height + BOTTOM - 6.0
    );
    format!(
        "<section id=\"stages\"><h2>Stages</h2>{}<figure>{svg}</figure></section>",
        legend(path)
    )
}

/// What came before the first instant, as far as it is estimated, ns.
fn unseen(group: &Group) -> f64 {
    let estimate = group.estimate.as_ref();
    estimate.map_or(0.0, |estimate| estimate.median_ns.max(0) as f64)
}

fn row(group: &Group, top: f64, x: &impl Fn(f64) -> f64, svg: &mut String) {
    let middle = top + ROW / 2.0;
    let bar = middle - BAR / 2.0;
    let _ = write!(
        svg,
        "<text class=\"name\" text-anchor=\"end\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
        LEFT - 8.0,
        middle + 4.0,
        escape(group.name())
    );
    let mut from = unseen(group);
    if from > 0.0 {
        let _ = write!(
            svg,
            "<rect class=\"unseen\" x=\"{LEFT}\" y=\"{bar:.1}\" width=\"{:.1}\" \
             height=\"{BAR}\"><title>not seen; estimate of the wake-up: {}</title></rect>",
            x(from) - LEFT,
            duration(from)
        );
    }
    for one in &group.stages {
        let (start, end) = (x(from), x(from + one.share_of_mean_ns));
        let _ = write!(
            svg,
            "<g class=\"{}\"><rect class=\"stage{}\" x=\"{start:.1}\" y=\"{bar:.1}\" \
             width=\"{:.1}\" height=\"{BAR}\"><title>{}: {}</title></rect></g>",
            colour(place(one.stage)),
            pale(one.stage),
            end - start,
            escape(one.stage.name()),
            duration(one.share_of_mean_ns)
        );
        from += one.share_of_mean_ns;
    }
    let _ = write!(
        svg,
        "<text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
        x(from) + 6.0,
        middle + 4.0,
        duration(group.whole.mean_ns)
    );
}

fn place(stage: Stage) -> usize {
    let place = Stage::ALL.iter().position(|one| *one == stage);
    place.expect("every stage is among all")
}

/// Twelve stages, seven colours.
fn pale(stage: Stage) -> &'static str {
    if place(stage) < COLOURS { "" } else { " pale" }
}

fn legend(path: &Path) -> String {
    let used = |stage: &&Stage| {
        let mut all = path.groups.iter().flat_map(|group| &group.stages);
        all.any(|one| one.stage == **stage)
    };
    let mut html = String::from("<div class=\"keys\">");
    for stage in Stage::ALL.iter().filter(used) {
        let _ = write!(
            html,
            "<span class=\"key {}\"><i class=\"{}\"></i>{}</span>",
            colour(place(*stage)),
            pale(*stage).trim(),
            escape(stage.name())
        );
    }
    if path.groups.iter().any(|group| unseen(group) > 0.0) {
        html.push_str("<span class=\"key\">dashed: not seen, estimate of the wake-up</span>");
    }
    html.push_str("</div>");
    html
}

fn tables(path: &Path) -> String {
    let mut html = String::from("<section id=\"tables\"><h2>By idle state</h2>");
    for group in &path.groups {
        let _ = write!(html, "<h3>{}</h3>", escape(&met(group)));
        let causes: Vec<String> = group
            .causes
            .iter()
            .map(|(cause, packets)| format!("{cause} ({})", count(*packets)))
            .collect();
        let asleep = group.asleep.as_ref().map_or(String::new(), |asleep| {
            format!(
                " The CPU had slept for {} at the median, {} at most.",
                nanoseconds(asleep.median_ns),
                nanoseconds(asleep.max_ns)
            )
        });
        let _ = write!(
            html,
            "<p>Announced by: {}.{asleep}{}</p>",
            escape(&causes.join(", ")),
            escape(&before(group))
        );
        html.push_str(&table(group));
    }
    html.push_str("</section>");
    html
}

/// What there is to say of the time before the first instant.
fn before(group: &Group) -> String {
    if group.from_sender {
        return " The sender is this machine: the first stage begins when it sent.".to_owned();
    }
    match &group.estimate {
        Some(estimate) => format!(
            " Not seen: from the packet's arrival to that first code, about {} at the median{} \
             (an estimate: {}, source {}).",
            nanoseconds(estimate.median_ns),
            estimate
                .p99_ns
                .map_or(String::new(), |ns| format!(", {} at p99", nanoseconds(ns))),
            estimate.result,
            estimate.source
        ),
        None => " Not seen: from the packet's arrival to the first instant here.".to_owned(),
    }
}

fn table(group: &Group) -> String {
    let measured = Some(Origin::Measured);
    let heads = [
        ("stage", None),
        ("until", None),
        ("packets", None),
        ("median", measured),
        ("p90", measured),
        ("p99", measured),
        ("max", measured),
        ("mean", measured),
        ("standard deviation", measured),
    ];
    let mut table = Table::new(&format!("Stages, {}", group.name()), 2, &heads);
    for one in &group.stages {
        let until = one.stage.until().to_owned();
        table.row(&cells(one.stage.name(), until, &one.summary));
    }
    table.row(&cells("whole", String::new(), &group.whole));
    table.html()
}

fn cells(name: &str, until: String, summary: &Summary) -> [String; 9] {
    [
        name.to_owned(),
        until,
        count(summary.count),
        nanoseconds(summary.median_ns),
        known(summary.p90_ns, nanoseconds),
        known(summary.p99_ns, nanoseconds),
        nanoseconds(summary.max_ns),
        duration(summary.mean_ns),
        known(summary.standard_deviation_ns, duration),
    ]
}

fn readers(path: &Path) -> String {
    let Some(readers) = &path.readers else {
        return String::new();
    };
    let heads = [
        ("reader ran", None),
        ("packets", None),
        ("median", Some(Origin::Measured)),
        ("p99", Some(Origin::Measured)),
        ("max", Some(Origin::Measured)),
    ];
    let mut table = Table::new("From its wake-up to its first instruction", 1, &heads);
    for (place, summary) in [
        ("on the CPU that received", &readers.on_the_same_cpu),
        ("on another CPU", &readers.on_another_cpu),
    ] {
        if let Some(summary) = summary {
            table.row(&[
                place.to_owned(),
                count(summary.count),
                nanoseconds(summary.median_ns),
                known(summary.p99_ns, nanoseconds),
                nanoseconds(summary.max_ns),
            ]);
        }
    }
    let names: Vec<String> = readers
        .names
        .iter()
        .map(|(name, wakes)| format!("{name} ({})", count(*wakes)))
        .collect();
    format!(
        "<section id=\"readers\"><h2>Readers</h2><p>Woken: {}. The reader's CPU slept {} times.</p>\
         {}</section>",
        escape(&names.join(", ")),
        count(readers.cpu_asleep),
        table.html()
    )
}

fn delays(path: &Path) -> String {
    if path.delays.is_empty() {
        return String::new();
    }
    let heads = [
        ("what", None),
        ("at", None),
        ("now", None),
        ("adds", None),
        ("to take it away", None),
    ];
    let mut table = Table::new("Settings of the card and its driver", 5, &heads);
    for delay in &path.delays {
        table.row(&[
            delay.what.clone(),
            delay.interface.clone().unwrap_or_default(),
            delay.now.clone(),
            delay.adds.clone().unwrap_or_default(),
            delay.set.clone().unwrap_or_default(),
        ]);
    }
    format!(
        "<section id=\"delays\"><h2>What else adds latency</h2>{}</section>",
        table.html()
    )
}
