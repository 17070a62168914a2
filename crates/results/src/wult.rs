//! Results of wult: `info.yml` and `datapoints.csv`.
//!
//! Four formats were written, and what is known of them is from the history of wult's own reader and
//! writer (<https://github.com/intel/wult>: `defs/wult.yml`, `wultlibs/rawresultlibs/`, now
//! `wultlibs/result/`):
//!
//! | format | from | times | |
//! | --- | --- | --- | --- |
//! | 1.0 | 2020 | whole nanoseconds | |
//! | 1.1 | January 2021 (15c6e945) | microseconds | `DerivedCC1%` is `CC1Derived%` by another name |
//! | 1.2 | August 2021 (25192103) | microseconds | columns came and went in two years |
//! | 1.3 | August 2023 (4feb5fd1) | microseconds | the columns of 1.12 |
//!
//! What the history leaves open is refused or left out, see [`unit`] and [`left_out`].

use std::collections::BTreeMap;
use std::io::Read;

use crate::columns::{Column, Columns, Values};
use crate::csv::{Csv, Field, Form, LastLine};
use crate::description::{Description, Loaded};
use crate::statistics::WAKE_LATENCY;
use crate::{Malformed, Source};

/// The formats whose columns and units are known here.
const FORMATS: [&str; 4] = ["1.0", FORMAT_1_1, FORMAT_1_2, "1.3"];
const FORMAT_1_1: &str = "1.1";
const FORMAT_1_2: &str = "1.2";

/// Decimals by which microseconds become nanoseconds, and megahertz kilohertz.
const THREE_DECIMALS: u8 = 3;

pub(crate) const CSV_ALONE: &str = "A CSV file alone: machine and settings are unknown.";
pub(crate) const TORN: &str = "The file ended within a datapoint, which was left out.";

/// wult's column, ours, and the decimals by which its unit is larger than ours.
/// `ReqCState`, `IntrOff` and the shares are apart, see [`field`].
const INTEGERS: &[(&str, &str, u8)] = &[
    ("WakeLatency", "wake_latency_ns", THREE_DECIMALS),
    ("SilentTime", "silent_time_ns", THREE_DECIMALS),
    ("IntrLatency", "interrupt_latency_ns", THREE_DECIMALS),
    ("LDist", "launch_distance_ns", THREE_DECIMALS),
    ("SMICnt", "smi_count", 0),
    ("NMICnt", "nmi_count", 0),
    ("SWIRQCnt", "softirq_count", 0),
    ("WakeLatencyRaw", "wake_latency_raw_ns", THREE_DECIMALS),
    ("IntrLatencyRaw", "interrupt_latency_raw_ns", THREE_DECIMALS),
    ("WarmupDelay", "warmup_delay_ns", THREE_DECIMALS),
    ("LatchDelay", "latch_delay_ns", THREE_DECIMALS),
    ("CPUFreq", "cpu_frequency_khz", THREE_DECIMALS),
];

/// The keys and values of `info.yml`, which is flat.
pub type Info = BTreeMap<String, String>;

/// Reads `info.yml`; an error if it is another file, or of an unknown tool or format.
pub fn read_info_yml(text: &[u8]) -> Result<Info, Malformed> {
    let text = std::str::from_utf8(text).map_err(|_| Malformed::new("is not text"))?;
    let mut info = Info::new();
    for line in text.lines() {
        // Indented lines belong to a value that is a list or a map: wult has none that we need.
        if line.starts_with([' ', '\t', '#', '-', '%', '.']) {
            continue;
        }
        if let Some((key, value)) = line.split_once(':')
            && (value.is_empty() || value.starts_with([' ', '\t']))
        {
            info.insert(scalar(key), scalar(value));
        }
    }
    let Some(tool) = info.get("toolname") else {
        return Err(Malformed::new(
            "has no key toolname; expected the info.yml of a wult result",
        ));
    };
    if tool != "wult" {
        return Err(Malformed::new(format!(
            "is of the tool {tool:?}; of that family only wult measures wake latency"
        )));
    }
    let version = info.get("format_version").map_or("", String::as_str);
    if !FORMATS.contains(&version) {
        return Err(Malformed::new(format!(
            "has the format_version {version:?}, but this program reads {}",
            FORMATS.join(", ")
        )));
    }
    if is_on(&info, "intr_focus") {
        return Err(Malformed::new(
            "has intr_focus: wult then measured the interrupt's latency only, and wrote no wake \
             latency or zeroes for it",
        ));
    }
    Ok(info)
}

fn is_on(info: &Info, key: &str) -> bool {
    info.get(key)
        .is_some_and(|value| value.eq_ignore_ascii_case("true"))
}

/// A YAML scalar without its quotes and its comment.
fn scalar(text: &str) -> String {
    let text = text.trim();
    for quote in ['\'', '"'] {
        if let Some(inner) = text.strip_prefix(quote)
            && let Some(end) = inner.find(quote)
        {
            return inner[..end].to_owned();
        }
    }
    match text.find(" #") {
        Some(comment) => text[..comment].trim_end().to_owned(),
        None => text.to_owned(),
    }
}

/// Reads a `datapoints.csv`; `info` is the content of its `info.yml`, and `wanted` the columns to read (by our
/// names), all if it is `None`. The error, also for times of an unknown unit, names line and column.
pub fn read_csv(
    reader: impl Read + Send,
    info: Option<&Info>,
    wanted: Option<&[&str]>,
) -> Result<Loaded, Malformed> {
    read_opened_csv(Csv::new(reader)?, info, wanted)
}

pub(crate) fn read_opened_csv<R: Read + Send>(
    csv: Csv<R>,
    info: Option<&Info>,
    wanted: Option<&[&str]>,
) -> Result<Loaded, Malformed> {
    let plan = Plan::of(&csv.header, info, wanted)?;
    let table = csv.all(&plan.fields, LastLine::MayLackNewline)?;
    let mut columns = table.columns;
    let mut description = describe(info, columns.rows, plan.residency_columns);
    let notes = &mut description.notes;
    notes.extend(plan.left_out);
    let note = "Measured by wult: its wake latency ends after idle also where the interrupt's handler \
                ran first.";
    notes.push(note.to_owned());
    if !plan.unknown.is_empty() {
        let unknown = plan.unknown.join(", ");
        notes.push(format!("Columns that were not read: {unknown}."));
    }
    if table.torn {
        notes.push(TORN.to_owned());
    }
    if wanted.is_none_or(|wanted| wanted.contains(&"source")) {
        add_source(&mut columns, info);
    }
    Ok(Loaded {
        description,
        columns,
    })
}

/// How the columns of a header are read.
pub(crate) struct Plan {
    pub(crate) fields: Vec<Option<Field>>,
    /// Columns that mean nothing here.
    unknown: Vec<String>,
    /// Why columns that we know by name are not read, a sentence each.
    left_out: Vec<String>,
    residency_columns: Vec<String>,
}

impl Plan {
    pub(crate) fn of(
        header: &[String],
        info: Option<&Info>,
        wanted: Option<&[&str]>,
    ) -> Result<Self, Malformed> {
        if !header.iter().any(|name| name == "WakeLatency") {
            return Err(Malformed::new(
                "line 1: expected a column WakeLatency (wult) or wake_latency_ns (reveille)",
            ));
        }
        let unit = unit(header, info)?;
        let mut plan = Self {
            fields: Vec::new(),
            unknown: Vec::new(),
            left_out: Vec::new(),
            residency_columns: Vec::new(),
        };
        for name in header {
            let why_not = left_out(name, header, info);
            let field = field(name).filter(|_| why_not.is_none());
            match &field {
                Some(field) if field.form == Form::Percent => {
                    plan.residency_columns.push(field.name.clone());
                }
                None if why_not.is_none() => plan.unknown.push(name.clone()),
                _ => {}
            }
            plan.left_out.extend(why_not.map(str::to_owned));
            let is_wanted =
                |field: &Field| wanted.is_none_or(|wanted| wanted.contains(&field.name.as_str()));
            plan.fields
                .push(field.filter(is_wanted).map(|field| unit.of(field)));
        }
        let names = plan.fields.iter().flatten();
        let mut names: Vec<&str> = names.map(|field| field.name.as_str()).collect();
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            let why = format!("line 1: two columns mean {}", twice[0]);
            return Err(Malformed::new(why));
        }
        Ok(plan)
    }
}

/// The unit of a result's times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    Nanoseconds,
    Microseconds,
}

impl Unit {
    /// The field, which the file has in microseconds, in this unit.
    fn of(self, field: Field) -> Field {
        let is_time = matches!(field.form, Form::Integer(_)) && field.name.ends_with("_ns");
        if self == Self::Microseconds || !is_time {
            return field;
        }
        // wult of February to October 2021 converted a result of format 1.0 when it filtered one, some
        // of its versions more than once (336056da), and left the version in info.yml as it was.
        let form = Form::Whole(
            "whole nanoseconds, as format 1.0 has them (a later wult that filtered the result may \
             have converted them, once or twice)",
        );
        Field { form, ..field }
    }
}

/// Columns that no result in nanoseconds has: they came after format 1.0.
const AFTER_1_0: [&str; 9] = [
    "IntrLatency",
    "IntrLatencyRaw",
    "WakeLatencyRaw",
    "IntrOff",
    "SMICnt",
    "NMICnt",
    "SWIRQCnt",
    "CPUFreq",
    "CC1Derived%",
];

/// What unit the times are in: by the format, else by columns that only later formats have.
fn unit(header: &[String], info: Option<&Info>) -> Result<Unit, Malformed> {
    match info.and_then(|info| info.get("format_version")) {
        Some(version) if version == FORMATS[0] => Ok(Unit::Nanoseconds),
        Some(_) => Ok(Unit::Microseconds),
        None if header.iter().any(|name| AFTER_1_0.contains(&name.as_str())) => {
            Ok(Unit::Microseconds)
        }
        None => Err(Malformed::new(
            "line 1: the unit of the times is unknown (wult wrote nanoseconds in format 1.0, \
             microseconds later); put its info.yml beside datapoints.csv",
        )),
    }
}

/// The version of wult from which on the IntrLatency of its device `tdt` is that of its own timer
/// (549a5cf7).
const TDT_INTERRUPTS_SINCE: [u32; 3] = [1, 10, 59];

/// Why the content of a known column does not match its name.
fn left_out(name: &str, header: &[String], info: Option<&Info>) -> Option<&'static str> {
    match name {
        // 2778ac4f to bd2396bb, July 2021.
        "NMICnt" if !header.iter().any(|name| name == "SMICnt") => {
            Some("NMICnt was not read: without a column SMICnt it counts NMIs and SMIs together.")
        }
        "IntrLatency" | "IntrLatencyRaw" if interrupts_may_be_others(info) => Some(
            "The interrupt latency was not read: wult before 1.10.59 took that of another timer \
             for its device tdt's (0e677f63).",
        ),
        _ => None,
    }
}

fn interrupts_may_be_others(info: Option<&Info>) -> bool {
    let Some(info) = info else { return false };
    let value = |key: &str| info.get(key).map_or("", String::as_str);
    let numbers: Vec<u32> = value("toolver")
        .split('.')
        .map_while(|number| number.parse().ok())
        .collect();
    matches!(value("devid"), "tdt" | "tsc-deadline-timer")
        && matches!(value("format_version"), FORMAT_1_1 | FORMAT_1_2)
        && numbers.as_slice() < &TDT_INTERRUPTS_SINCE
}

/// How wult's column is read, where its times are in microseconds; `None` if it means nothing here.
pub(crate) fn field(name: &str) -> Option<Field> {
    if let Some(&(_, ours, shift)) = INTEGERS.iter().find(|(theirs, _, _)| *theirs == name) {
        return Some(Field::new(ours, ours != WAKE_LATENCY, Form::Integer(shift)));
    }
    match name {
        "ReqCState" => Some(Field::new("requested_state", true, Form::Name)),
        // With interrupts off in the idle state the code after idle runs first.
        "IntrOff" => Some(Field::new(
            "first",
            true,
            Form::Flag(["after_idle", "interrupt"]),
        )),
        // Until 1.1, by another name (25192103).
        "DerivedCC1%" => field("CC1Derived%"),
        // All states together (63d25214): no state's share.
        "CStates%" => None,
        _ => Some(Field::new(
            &share_name(name.strip_suffix('%')?)?,
            true,
            Form::Percent,
        )),
    }
}

/// Columns of ours that only wult's results have.
pub(crate) const EXTRA_COLUMNS: &[&str] = &[
    "wake_latency_raw_ns",
    "interrupt_latency_raw_ns",
    "warmup_delay_ns",
    "latch_delay_ns",
    "cpu_frequency_khz",
];

/// `CC6` becomes `cc6_percent`, `CC1Derived` `cc1_derived_percent`.
fn share_name(share: &str) -> Option<String> {
    let state = share.strip_suffix("Derived").unwrap_or(share);
    if state.is_empty() || !state.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return None;
    }
    let derived = match share.ends_with("Derived") {
        true => "_derived",
        false => "",
    };
    Some(format!("{}{derived}_percent", state.to_ascii_lowercase()))
}

/// The source that wult's device is: its timers, or a network card by its PCI address; `None` for
/// anything else. The names are those of `wultlibs/Devices.py` through its history.
fn source(info: Option<&Info>) -> Option<Source> {
    let device = info?.get("devid")?;
    match device.as_str() {
        "tdt" | "tdt_bpf" | "tsc-deadline-timer" | "hrt" | "hrtimer" | "hrt-bpf" | "hrt_bpf" => {
            Some(Source::Timer)
        }
        device if is_pci_address(device) => Some(Source::Nic),
        _ => None,
    }
}

/// `0000:04:00.0`, or without the domain.
fn is_pci_address(text: &str) -> bool {
    let hexadecimal =
        |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_hexdigit());
    let Some((rest, function)) = text.rsplit_once('.') else {
        return false;
    };
    let parts: Vec<&str> = rest.split(':').collect();
    matches!(parts.len(), 2 | 3) && parts.into_iter().all(hexadecimal) && hexadecimal(function)
}

fn describe(info: Option<&Info>, rows: usize, residency_columns: Vec<String>) -> Description {
    let mut description = Description::unknown(residency_columns);
    description.tool = "wult".to_owned();
    description.counts.kept = rows as u64;
    let notes = &mut description.notes;
    let Some(info) = info else {
        notes.push(CSV_ALONE.to_owned());
        return description;
    };
    let value = |key: &str| info.get(key).filter(|value| !value.is_empty());
    if let Some(version) = value("toolver") {
        description.tool = format!("wult {version}");
    }
    description.name = value("reportid").cloned().unwrap_or_default();
    description.started = value("date").cloned().unwrap_or_default();
    description.machine.hostname = value("hostname").cloned();
    let cpu = value("cpunum").or_else(|| value("cpu"));
    let settings = &mut description.settings;
    settings
        .sources
        .extend(source(Some(info)).map(|source| source.as_str().to_owned()));
    settings.cpu = cpu.and_then(|cpu| cpu.parse().ok());
    if let Some(device) = value("devdescr").or_else(|| value("devid")) {
        settings.arming.clone_from(device);
    }
    if is_on(info, "early_intr") {
        let note = "Measured with wult's early_intr: interrupts were enabled before the idle state, which \
                    the kernel does not do by itself.";
        notes.push(note.to_owned());
    }
    if let Some(resolution) = value("resolution") {
        notes.push(format!("The resolution of wult's device: {resolution} ns."));
    }
    if settings.cpu.is_none() {
        notes.push("Which CPU was measured is unknown.".to_owned());
    }
    description
}

/// The column `source`, the same for all datapoints; nothing where the device is not known.
pub(crate) fn add_source(columns: &mut Columns, info: Option<&Info>) {
    if let Some(source) = source(info) {
        let names = vec![source.as_str().to_owned()];
        let values = Values::Name {
            codes: vec![0; columns.rows],
            names,
        };
        columns.columns.push(Column {
            name: "source".to_owned(),
            values,
        });
    }
}
