//! The timeline: a row for each of the slowest devices, a bar for each call, and the critical path
//! through them (figures 1 and 4 of Xi and others).
//!
//! Bars are in an SVG of their own inside the drawing, [`SPAN`] units wide, so that the page's script
//! zooms by changing its view box.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

use reveille_show::axis::Axis;
use reveille_show::chart;
use reveille_show::markup::escape;
use reveille_show::quantity::{duration, shortened};

use crate::analysis::{
    CallResult, CycleResult, LinkKind, LinkResult, StageResult, half_name, stage_words,
};
use crate::cycle::{Name, StageKind, Us, time};
use crate::graph::Half;

/// Width of the bars' SVG, whatever the time is: browsers hold lengths in 32 bits, 6 of them after the
/// point, and cut what is longer than 2^25 (33.5 s in microseconds).
const SPAN: f64 = 1e6;

/// The drawing, in its own units.
const LEFT: f64 = 200.0;
const WIDTH: f64 = 950.0;
const FULL_WIDTH: f64 = 1160.0;
const ROW: f64 = 15.0;
const BAR: f64 = 11.0;
/// Above the rows: the names of stages.
const TOP: f64 = 18.0;
const BOTTOM: f64 = 38.0;

/// Letters of a name that the margin has room for.
const NAME: usize = 30;

/// What a row is of.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Row {
    Stages,
    Cpus,
    Device(Name, Option<Name>),
}

/// Of a length.
const UNKNOWN: &str = "unknown";

/// A stage of unknown length is a line.
fn stage_end(stage: &StageResult) -> Us {
    stage.start_us + stage.duration_us.unwrap_or(0)
}

/// The drawing of one half.
pub struct Drawing<'a> {
    cycle: &'a CycleResult,
    half: Half,
    path: &'a [LinkResult],
    calls: Vec<(usize, &'a CallResult)>,
    start: Us,
    end: Us,
    rows: Vec<Row>,
}

/// The slowest devices and those on the path, in the order of their first calls.
fn rows(
    cycle: &CycleResult,
    calls: &[(usize, &CallResult)],
    path: &[LinkResult],
    half: Half,
    top: usize,
) -> Vec<Row> {
    /// Shorter pieces of the path are not seen in a picture of this width.
    const LEAST_SHARE: f64 = 0.002;
    let mut sums: HashMap<Row, (Us, Us)> = HashMap::new();
    for (_, one) in calls {
        let us = one.duration_us.unwrap_or(0);
        let begins = one.call.start.or(one.call.end).unwrap_or(Us::MAX);
        let sum = sums.entry(row(one)).or_insert((0, begins));
        *sum = (sum.0 + us, sum.1.min(begins));
    }
    let mut slowest: Vec<(&Row, &(Us, Us))> = sums.iter().collect();
    slowest.sort_by_key(|(row, (us, begins))| (std::cmp::Reverse(*us), *begins, name(row)));
    let mut chosen: HashSet<&Row> = slowest.iter().take(top).map(|(row, _)| *row).collect();
    let total: Us = path.iter().map(|link| link.duration_us).sum();
    for link in path {
        let is_seen = link.duration_us as f64 >= total as f64 * LEAST_SHARE;
        let call = link.call.filter(|_| is_seen);
        let row = call.and_then(|call| cycle.calls.get(call)).map(row);
        if let Some((row, _)) = row.and_then(|row| sums.get_key_value(&row)) {
            chosen.insert(row);
        }
    }
    let mut chosen: Vec<&Row> = chosen.into_iter().collect();
    chosen.sort_by_key(|row| (sums[*row].1, name(row)));
    let is_on = half == Half::Resume;
    let has_cpus = cycle.cpus.iter().any(|step| step.on == is_on);
    let mut rows = vec![Row::Stages];
    rows.extend(has_cpus.then_some(Row::Cpus));
    rows.extend(chosen.into_iter().cloned());
    rows
}

fn row(call: &CallResult) -> Row {
    Row::Device(call.call.device.clone(), call.call.driver.clone())
}

fn name(row: &Row) -> String {
    match row {
        Row::Stages => "stages".to_owned(),
        Row::Cpus => "CPUs".to_owned(),
        Row::Device(device, _) => device.to_string(),
    }
}

impl<'a> Drawing<'a> {
    /// With the `top` slowest devices; `None` where the log has nothing of this half, or its timestamps
    /// cannot tell one instant from the next.
    pub fn of(cycle: &'a CycleResult, half: Half, top: usize) -> Option<Self> {
        let stages = || cycle.stages.iter().filter(|stage| half.has(stage.stage));
        let path = cycle.path_of(half);
        if cycle.resolution_us > 1 && path.is_empty() {
            return None;
        }
        let first = stages().map(|stage| stage.start_us).min();
        let start = half.of(first, cycle.resume_start_us)?;
        // A suspend's path continues after its last stage.
        let links = path.iter().map(|link| link.start_us + link.duration_us);
        let end = stages().map(stage_end).chain(links).max()?;
        let calls: Vec<(usize, &CallResult)> = cycle.calls_of(half).collect();
        let rows = rows(cycle, &calls, path, half, top);
        (end > start).then_some(Self {
            cycle,
            half,
            path,
            calls,
            start,
            end,
            rows,
        })
    }

    /// A paragraph, the legend, the tools of the page's script, and the drawing.
    pub fn html(&self) -> String {
        let shown = self.rows.iter();
        let shown = shown.filter(|row| matches!(row, Row::Device(..)));
        let all: HashSet<Row> = self.calls.iter().map(|(_, one)| row(one)).collect();
        let devices = match all.len() {
            0 => String::new(),
            all => format!(
                "{} of {all} devices: the slowest, and those on the critical path, in the order of \
                 their first calls. ",
                shown.count()
            ),
        };
        format!(
            "<p>{devices}A dark line is the critical path; bars on it are opaque, others pale.</p>{}<div \
             class=\"tools\" hidden><label>Search <input type=\"search\" placeholder=\"device or \
             driver\"></label> <span>Drag over a span to enlarge it; double-click shows all. Keys: ↓ ↑ \
             the next bar, + - enlarge, ← → move, Esc all.</span></div><figure \
             class=\"scroll\">{}</figure>",
            legend(self.cycle, self.half),
            self.svg()
        )
    }

    fn svg(&self) -> String {
        let half = half_name(self.half);
        let high = ROW * self.rows.len() as f64;
        let total = self.end - self.start;
        let mut svg = format!(
            "<svg class=\"timeline\" viewBox=\"0 0 {FULL_WIDTH} {:.0}\" role=\"img\" tabindex=\"0\" \
             aria-label=\"Timeline of the {half}, {}\" data-total=\"{total}\" data-span=\"{SPAN}\" data-left=\"{LEFT}\" \
             data-width=\"{WIDTH}\" data-top=\"{TOP}\" data-height=\"{high}\">",
            TOP + high + BOTTOM,
            time(total)
        );
        self.axis(&mut svg, high);
        self.names(&mut svg);
        let _ = write!(
            svg,
            "<svg class=\"rows\" x=\"{LEFT}\" y=\"{TOP}\" width=\"{WIDTH}\" height=\"{high}\" \
             viewBox=\"0 0 {SPAN} {high}\" preserveAspectRatio=\"none\">"
        );
        self.stages(&mut svg, high);
        self.cpus(&mut svg);
        self.bars(&mut svg);
        self.critical(&mut svg);
        svg.push_str("</svg></svg>");
        svg
    }

    fn axis(&self, svg: &mut String, high: f64) {
        let axis = Axis::from_zero((self.end - self.start) as f64 * 1e3);
        svg.push_str("<g class=\"time-axis\">");
        for tick in axis.ticks() {
            let x = LEFT + WIDTH * axis.fraction(tick.value);
            let _ = write!(
                svg,
                "<path class=\"grid\" d=\"M{x:.1} {TOP}v{high}\"/><text text-anchor=\"{}\" x=\"{x:.1}\" \
                 y=\"{:.1}\">{}</text>",
                if x > LEFT + WIDTH - 20.0 {
                    "end"
                } else {
                    "middle"
                },
                TOP + high + 15.0,
                duration(tick.value)
            );
        }
        let _ = write!(
            svg,
            "</g><text class=\"name\" text-anchor=\"end\" x=\"{:.1}\" y=\"{:.1}\">time since the start of the \
             {}</text>",
            LEFT + WIDTH,
            TOP + high + 33.0,
            half_name(self.half)
        );
    }

    fn names(&self, svg: &mut String) {
        for (place, row) in self.rows.iter().enumerate() {
            let name = name(row);
            let driver = match row {
                Row::Device(_, Some(driver)) => driver,
                _ => "",
            };
            let both = format!("{name} {driver}");
            let short = match both.chars().count() > NAME {
                true => shortened(&name, NAME),
                false => both.trim().to_owned(),
            };
            let _ = write!(
                svg,
                "<text class=\"row\" data-row=\"{place}\" data-name=\"{} {}\" text-anchor=\"end\" \
                 x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                escape(&name.to_lowercase()),
                escape(&driver.to_lowercase()),
                LEFT - 6.0,
                TOP + ROW * place as f64 + ROW - 4.0,
                escape(&short)
            );
        }
    }

    fn place(&self, row: &Row) -> Option<usize> {
        self.rows.iter().position(|one| one == row)
    }

    /// An instant's place in the bars' picture.
    fn x(&self, at: Us) -> f64 {
        short((at - self.start) as f64 * SPAN / (self.end - self.start) as f64)
    }

    /// A bar in a row, with its text: a head, and lines of `name: value`.
    fn bar(&self, svg: &mut String, row: usize, class: &str, span: (Us, Us), text: &str) {
        let (from, to) = (self.x(span.0), self.x(span.1));
        let _ = write!(
            svg,
            "<rect class=\"{class}\" data-row=\"{row}\" x=\"{from}\" y=\"{:.1}\" width=\"{}\" \
             height=\"{BAR}\"><title>{}</title></rect>",
            ROW * row as f64 + (ROW - BAR) / 2.0,
            short((to - from).max(0.0)),
            escape(text)
        );
    }

    fn stages(&self, svg: &mut String, high: f64) {
        let stages = self.cycle.stages.iter();
        for stage in stages.filter(|stage| self.half.has(stage.stage)) {
            let span = (stage.start_us, stage_end(stage));
            let _ = write!(
                svg,
                "<path class=\"edge\" d=\"M{} 0v{high}\"/>",
                self.x(span.1)
            );
            let text = format!(
                "{}\nbegins: {}\ntakes: {}\ncalls: {}",
                stage_words(stage.stage),
                time(span.0 - self.start),
                stage.duration_us.map_or(UNKNOWN.to_owned(), time),
                stage.calls
            );
            let class = format!("{} on", stage_class(stage.stage));
            self.bar(svg, 0, &class, span, &text);
        }
    }

    fn cpus(&self, svg: &mut String) {
        let Some(row) = self.place(&Row::Cpus) else {
            return;
        };
        let is_on = self.half == Half::Resume;
        for step in self.cycle.cpus.iter().filter(|step| step.on == is_on) {
            let text = format!(
                "CPU {} {}\nbegins: {}\ntakes: {}",
                step.cpu,
                if is_on { "comes on" } else { "goes off" },
                time(step.start - self.start),
                time(step.end - step.start)
            );
            self.bar(svg, row, "c2 on", (step.start, step.end), &text);
        }
    }

    fn bars(&self, svg: &mut String) {
        let calls = self.path.iter().filter(|link| link.what == LinkKind::Call);
        let on_path: HashSet<usize> = calls.filter_map(|link| link.call).collect();
        let places: HashMap<&Row, usize> = self.rows.iter().zip(0..).collect();
        for (number, one) in &self.calls {
            let (Some(place), Some(span)) = (places.get(&row(one)), span(one)) else {
                continue;
            };
            let is_on = on_path.contains(number);
            let on = if is_on { " on" } else { "" };
            let class = format!("{}{on}", stage_class(one.call.stage));
            self.bar(svg, *place, &class, span, &text(one, self.start, is_on));
        }
    }

    /// The path as a line through the bars; waits that the log does not explain are dashed.
    fn critical(&self, svg: &mut String) {
        let mut line = String::new();
        let mut untold = String::new();
        let mut before: Option<f64> = None;
        for link in self.path {
            let call = link.call.and_then(|call| self.cycle.calls.get(call));
            let row = match (link.what, call) {
                (LinkKind::Cpu | LinkKind::BeforeCpu, _) => self.place(&Row::Cpus),
                (_, Some(call)) => self.place(&row(call)),
                _ => Some(0),
            };
            let Some(row) = row else {
                continue;
            };
            let y = ROW * row as f64 + ROW / 2.0;
            let end = link.start_us + link.duration_us;
            let (from, to) = (self.x(link.start_us), self.x(end));
            if link.what == LinkKind::Unexplained {
                let _ = write!(untold, "M{from} {y}H{to}");
            }
            let _ = match before {
                None => write!(line, "M{from} {y}H{to}"),
                Some(other) if other == y => write!(line, "H{to}"),
                Some(_) => write!(line, "H{from}V{y}H{to}"),
            };
            before = Some(y);
        }
        let _ = write!(
            svg,
            "<path class=\"critical\" d=\"{line}\"/><path class=\"untold\" d=\"{untold}\"/>"
        );
    }
}

/// Two digits behind the point: a microsecond of ten seconds.
fn short(units: f64) -> f64 {
    (units * 100.0).round() / 100.0
}

/// From and to. A line that took long to print was stamped before its call began; a missing end is
/// calculated from the duration that the kernel reports.
fn span(one: &CallResult) -> Option<(Us, Us)> {
    let us = one.duration_us?;
    let start = match (one.call.start, one.call.end) {
        (Some(start), _) => start + one.call.printing_us(),
        (None, end) => end? - us,
    };
    Some((start, start + us))
}

/// A call in words: its device, then lines of `name: value`.
fn text(one: &CallResult, start: Us, on_path: bool) -> String {
    let call = &one.call;
    let mut text = format!("{}\nstage: {}", call.device, stage_words(call.stage));
    let name = |name: &Option<Name>| name.as_ref().map(|name| name.to_string());
    let begins = call.start.map(|from| time(from - start));
    let failed = call.result.filter(|code| *code != 0);
    let fields = [
        ("driver", name(&call.driver)),
        ("parent", name(&call.parent)),
        ("function", name(&call.function)),
        ("begins", begins),
        ("takes", one.duration_us.map(time)),
        ("slack", one.slack_us.map(time)),
        ("worker", call.worker.map(|worker| worker.to_string())),
        ("result", failed.map(|code| code.to_string())),
        ("critical path", on_path.then(|| "yes".to_owned())),
    ];
    for (name, value) in fields {
        if let Some(value) = value {
            let _ = write!(text, "\n{name}: {value}");
        }
    }
    text
}

/// The colour of a stage; a stage of the suspend has that of its counterpart in the resume.
fn stage_class(stage: StageKind) -> &'static str {
    match stage {
        StageKind::CpusOff | StageKind::CpusOn => "c2",
        StageKind::SuspendNoirq | StageKind::ResumeNoirq => "c1",
        StageKind::SuspendLate | StageKind::ResumeEarly => "c4",
        StageKind::Suspend | StageKind::Resume => "c5",
        StageKind::Prepare | StageKind::Complete => "c7",
        StageKind::Sync | StageKind::Freeze | StageKind::Thaw => "c3",
        StageKind::Platform | StageKind::Idle | StageKind::Test => "c6",
    }
}

fn legend(cycle: &CycleResult, half: Half) -> String {
    let stages = cycle.stages.iter();
    chart::legend(stages.filter(|stage| half.has(stage.stage)).map(|stage| {
        let takes = stage.duration_us.map_or(UNKNOWN.to_owned(), time);
        let name = format!("{}, {takes}", stage_words(stage.stage));
        (stage_class(stage.stage).to_owned(), name)
    }))
}
