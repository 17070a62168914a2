//! The table of idle states, as wide as its reader's lines are.

use std::collections::BTreeSet;
use std::io::{self, Write};

use reveille_kernel::IdleState;
use reveille_kernel::cpulist;
use reveille_kernel::groups::{self, Group, ShareOf};

use super::View;
use reveille_show::terminal::{FAINT, NOTABLE, STRONG};
use reveille_show::wrap;

/// The widest that is used: all columns fit, some descriptions without their end.
pub const WIDEST: usize = 100;
/// What a description keeps at least: `ACPI FFH MWAIT 0x60`. Where lines are too short for that,
/// the descriptions stand below the table.
const DESCRIPTION_MIN: usize = 19;

/// An unknown value: never a zero.
const UNKNOWN: &str = "-";

/// In lines of so many columns.
pub fn write(view: &View, columns: usize, out: &mut impl Write) -> io::Result<()> {
    head(view, columns, out)?;
    let mut share_of = Vec::new();
    for group in &view.groups {
        writeln!(out)?;
        title(view, group, out)?;
        if group.online && !group.states.is_empty() {
            let (of, shares) = groups::shares(group, view.uptime_s);
            states(group, &shares, columns, out)?;
            if !share_of.contains(&of) {
                share_of.push(of);
            }
        }
    }
    for of in share_of {
        let of = match of {
            ShareOf::CpuTimeSinceBoot => "of the group's CPU time since boot",
            ShareOf::IdleTime => "of the time in the group's idle states",
        };
        writeln!(out, "\n{FAINT}share: {of}{FAINT:#}")?;
    }
    Ok(())
}

/// The machine: what is the same for all its CPUs.
fn head(view: &View, columns: usize, out: &mut impl Write) -> io::Result<()> {
    let mut line = |name: &str, value: &str| match value.is_empty() {
        true => Ok(()),
        false => wrapped(out, columns, name, value),
    };
    let identity = &view.identity;
    line("CPU", &cpu_line(view))?;
    line("Kernel", identity.kernel.as_deref().unwrap_or_default())?;
    line(
        "Hypervisor",
        identity.hypervisor.as_deref().unwrap_or_default(),
    )?;
    line("Driver", view.idle.driver.as_deref().unwrap_or("none"))?;
    if let Some(governor) = &view.idle.governor {
        let others: Vec<&str> = view
            .idle
            .available_governors
            .iter()
            .map(String::as_str)
            .collect();
        let others: Vec<&str> = others.into_iter().filter(|name| name != governor).collect();
        let unused = match view.idle.driver {
            Some(_) => "",
            None => ", unused without a driver",
        };
        match others.is_empty() {
            true => line("Governor", &format!("{governor}{unused}"))?,
            false => line(
                "Governor",
                &format!("{governor}{unused} (also: {})", others.join(", ")),
            )?,
        }
    }
    line("Isolated", &cpulist::format(&view.idle.isolated))?;
    line("Tickless", &cpulist::format(&view.idle.nohz_full))?;
    for setting in &view.settings {
        let value = setting
            .value
            .as_ref()
            .map(|value| format!("={value}"))
            .unwrap_or_default();
        line(
            "Booted with",
            &format!("{}{value}: {}", setting.name, setting.meaning),
        )?;
    }
    if let Some(bound) = view.bound_us {
        let rules_out = match view.idle.driver {
            Some(_) => ": no state with a longer exit latency is entered",
            None => "",
        };
        let request = "by a PM QoS request (reveille doctor says whose)";
        line("Bound", &format!("{bound} µs {request}{rules_out}"))?;
    }
    if let Some(without) = &view.without_driver {
        line("Instead", &without.does)?;
        line("Likely why", &without.reason)?;
    }
    Ok(())
}

/// A named value, wrapped below itself.
fn wrapped(out: &mut impl Write, columns: usize, name: &str, value: &str) -> io::Result<()> {
    const INDENT: usize = 13;
    let blanks = " ".repeat(INDENT - name.len());
    write!(out, "{STRONG}{name}{STRONG:#}{blanks}")?;
    wrap::onward(out, columns, INDENT, INDENT, value)?;
    writeln!(out)
}

/// `Model, 104 CPUs: 2 packages, 52 cores`.
fn cpu_line(view: &View) -> String {
    let cpus = &view.idle.cpus;
    let model = view
        .identity
        .cpu_model
        .as_deref()
        .unwrap_or("of unknown model");
    let packages: BTreeSet<u32> = cpus.iter().filter_map(|cpu| cpu.package).collect();
    let cores: BTreeSet<(u32, u32)> = cpus
        .iter()
        .filter_map(|cpu| cpu.package.zip(cpu.core))
        .collect();
    let mut parts = vec![counted(cpus.len(), "CPU")];
    if cores.len() > 1 && cpus.iter().all(|cpu| cpu.core.is_some()) {
        parts.push(counted(cores.len(), "core"));
        parts.push(counted(packages.len(), "package"));
    }
    let offline = cpus.iter().filter(|cpu| !cpu.online).count();
    if offline > 0 {
        parts.push(format!("{offline} offline"));
    }
    format!("{model}; {}", parts.join(", "))
}

fn counted(count: usize, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{plural}")
}

/// Which CPUs a group is, and what sets them apart.
fn title(view: &View, group: &Group, out: &mut impl Write) -> io::Result<()> {
    let noun = if group.cpus.len() == 1 { "CPU" } else { "CPUs" };
    write!(
        out,
        "{STRONG}{noun} {}{STRONG:#}",
        cpulist::format(&group.cpus)
    )?;
    if let Some(kind) = &group.kind {
        write!(out, ", {kind}")?;
    }
    if !group.online {
        writeln!(out, ": {NOTABLE}offline{NOTABLE:#}")?;
        return Ok(());
    }
    match (group.states.is_empty(), &view.idle.driver) {
        (false, _) => writeln!(out)?,
        (true, Some(_)) => writeln!(out, ": {NOTABLE}no idle states{NOTABLE:#}")?,
        (true, None) => writeln!(out, ": no idle states known to the kernel")?,
    }
    let bound = group
        .resume_latency_us
        .and_then(|bound| bound_in_words(bound, group));
    if let Some(bound) = bound {
        writeln!(out, "  {NOTABLE}{bound}{NOTABLE:#}")?;
    }
    Ok(())
}

/// A per-CPU bound and what it rules out; `None` where there is no bound.
fn bound_in_words(bound_us: i64, group: &Group) -> Option<String> {
    let bound = match bound_us {
        0 => return None,
        // No latency at all: cpuidle is left for polling.
        ..0 => 0,
        bound => bound.unsigned_abs(),
    };
    let beyond = group
        .states
        .iter()
        .filter(|state| state.exit_latency_us > Some(bound));
    let beyond: Vec<&str> = beyond.map(|state| state.name.as_str()).collect();
    let rules_out = match (group.states.is_empty(), beyond.is_empty()) {
        (true, _) => String::new(),
        (false, true) => ": rules out no state".to_owned(),
        (false, false) => format!(": rules out {}", beyond.join(", ")),
    };
    Some(format!(
        "bound by pm_qos_resume_latency_us to {bound} µs{rules_out}"
    ))
}

/// Left or right in its column.
#[derive(Clone, Copy, PartialEq)]
enum Side {
    Left,
    Right,
}

const HEADINGS: [(&str, &str, Side); 13] = [
    ("#", "", Side::Right),
    ("name", "", Side::Left),
    ("description", "", Side::Left),
    ("exit", "µs", Side::Right),
    ("target", "µs", Side::Right),
    ("dflt", "", Side::Left),
    ("now", "", Side::Left),
    ("uses", "", Side::Right),
    ("time", "", Side::Right),
    ("share", "%", Side::Right),
    ("rejected", "%", Side::Right),
    ("above", "%", Side::Right),
    ("below", "%", Side::Right),
];
const DESCRIPTION: usize = 2;
const NOW: usize = 6;

fn states(
    group: &Group,
    shares: &[Option<f64>],
    columns: usize,
    out: &mut impl Write,
) -> io::Result<()> {
    let mut rows: Vec<[String; 13]> = group
        .states
        .iter()
        .zip(shares)
        .map(|(state, share)| row(state, *share))
        .collect();
    let width_of = |rows: &[[String; 13]], column: usize| {
        let (name, unit, _) = HEADINGS[column];
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells
            .chain([name.len(), unit.chars().count()])
            .max()
            .unwrap_or(0)
    };
    let mut widths: Vec<usize> = (0..13).map(|column| width_of(&rows, column)).collect();
    let total = |gap: usize| widths.iter().sum::<usize>() + 12 * gap;
    let shortest = DESCRIPTION_MIN.min(widths[DESCRIPTION]);
    let to_spare = widths[DESCRIPTION] - shortest;
    let is_described_below = total(1) > columns + to_spare;
    let gap = if total(2) <= columns + to_spare { 2 } else { 1 };
    let excess = total(gap).saturating_sub(columns).min(to_spare);
    widths[DESCRIPTION] -= excess;
    for row in &mut rows {
        row[DESCRIPTION] = shortened(&row[DESCRIPTION], widths[DESCRIPTION]);
    }
    let pad = |text: &str, column: usize| {
        let blanks = " ".repeat(widths[column].saturating_sub(text.chars().count()));
        match HEADINGS[column].2 {
            Side::Left => format!("{text}{blanks}"),
            Side::Right => format!("{blanks}{text}"),
        }
    };
    let line = |cells: [&str; 13]| {
        let cells: Vec<String> = (0..13)
            .filter(|column| *column != DESCRIPTION || !is_described_below)
            .map(|column| pad(cells[column], column))
            .collect();
        cells.join(&" ".repeat(gap)).trim_end().to_owned()
    };
    writeln!(
        out,
        "{FAINT}{}{FAINT:#}",
        line(HEADINGS.map(|heading| heading.0))
    )?;
    writeln!(
        out,
        "{FAINT}{}{FAINT:#}",
        line(HEADINGS.map(|heading| heading.1))
    )?;
    for (row, state) in rows.iter().zip(&group.states) {
        let text = line(row.each_ref().map(String::as_str));
        match deviates(state) || row[NOW] == "off" {
            true => writeln!(out, "{NOTABLE}{text}{NOTABLE:#}")?,
            false => writeln!(out, "{text}")?,
        }
    }
    match is_described_below {
        true => descriptions(group, columns, out),
        false => Ok(()),
    }
}

/// The states' descriptions in a sentence of their own.
fn descriptions(group: &Group, columns: usize, out: &mut impl Write) -> io::Result<()> {
    let described = group.states.iter().filter_map(|state| {
        let description = state.description.as_deref()?;
        Some(format!("{}: {description}", state.name))
    });
    let words = described.collect::<Vec<_>>().join("; ");
    write!(out, "{FAINT}  ")?;
    wrap::onward(out, columns, 2, 2, &words)?;
    writeln!(out, "{FAINT:#}")
}

/// Is the state on that is off by default, or the reverse?
fn deviates(state: &IdleState) -> bool {
    state
        .disabled
        .zip(state.enabled_by_default)
        .is_some_and(|(off, default)| off == default)
}

fn row(state: &IdleState, share: Option<f64>) -> [String; 13] {
    let number = |value: Option<u64>| value.map_or(UNKNOWN.to_owned(), |value| value.to_string());
    let on = |on: Option<bool>| match on {
        Some(true) => "on".to_owned(),
        Some(false) => "off".to_owned(),
        None => UNKNOWN.to_owned(),
    };
    let of_uses = |count: Option<u64>| percent_of(count, state.usage);
    // A rejected request is no use.
    let requests = state
        .usage
        .zip(state.rejected)
        .map(|(uses, rejected)| uses + rejected);
    [
        state.index.to_string(),
        state.name.clone(),
        state
            .description
            .clone()
            .unwrap_or_else(|| UNKNOWN.to_owned()),
        number(state.exit_latency_us),
        number(state.target_residency_us),
        on(state.enabled_by_default),
        on(state.disabled.map(|disabled| !disabled)),
        state.usage.map_or(UNKNOWN.to_owned(), count),
        state.time_us.map_or(UNKNOWN.to_owned(), duration),
        share.map_or(UNKNOWN.to_owned(), percent),
        percent_of(state.rejected, requests),
        of_uses(state.above),
        of_uses(state.below),
    ]
}

fn percent_of(part: Option<u64>, whole: Option<u64>) -> String {
    match (part, whole) {
        (Some(0), Some(_)) => "0".to_owned(),
        (Some(part), Some(whole)) if whole > 0 => percent(part as f64 / whole as f64 * 100.0),
        _ => UNKNOWN.to_owned(),
    }
}

/// Two places, and nothing small shown as nothing.
fn percent(share: f64) -> String {
    match share {
        0.0 => "0".to_owned(),
        share if share < 0.005 => "<0.01".to_owned(),
        share if share >= 99.995 => format!("{share:.0}"),
        share => format!("{share:.2}"),
    }
}

/// A count in at most six characters.
fn count(count: u64) -> String {
    match count {
        0..100_000 => count.to_string(),
        100_000..10_000_000 => format!("{}k", count / 1_000),
        10_000_000..10_000_000_000 => format!("{}M", count / 1_000_000),
        _ => format!("{}G", count / 1_000_000_000),
    }
}

/// A time given in µs, in the unit that leaves it short.
fn duration(us: u64) -> String {
    const S: f64 = 1e6;
    const H: f64 = 3600.0 * S;
    let t = us as f64;
    match us {
        0..1_000 => format!("{us} µs"),
        1_000..1_000_000 => format!("{:.1} ms", t / 1e3),
        _ if t < 1e3 * S => format!("{:.1} s", t / S),
        _ if t < 10.0 * H => format!("{:.2} h", t / H),
        _ if t < 1e3 * H => format!("{:.1} h", t / H),
        _ => format!("{:.0} d", t / (24.0 * H)),
    }
}

fn shortened(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().take(width.saturating_sub(1)).collect();
    format!("{}…", kept.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_stay_short_and_never_round_to_nothing() {
        assert_eq!(duration(999), "999 µs");
        assert_eq!(duration(208_187_509), "208.2 s");
        assert_eq!(duration(3_600_000_000), "1.00 h");
        assert_eq!(duration(3_600_000_000 * 48), "48.0 h");
        assert_eq!(duration(3_600_000_000 * 24 * 900), "900 d");
        assert_eq!(count(99_999), "99999");
        assert_eq!(count(12_345_678), "12M");
        assert_eq!(percent(0.001), "<0.01");
        assert_eq!(percent(99.999), "100");
        assert_eq!(percent_of(Some(0), Some(0)), "0");
        assert_eq!(percent_of(None, Some(4)), UNKNOWN);
        assert_eq!(
            shortened("CPUIDLE CORE POLL IDLE", 18),
            "CPUIDLE CORE POLL…"
        );
    }

    #[test]
    fn where_lines_are_short_the_descriptions_stand_below_the_table() {
        let state = |index: u32, name: &str| IdleState {
            index,
            name: name.to_owned(),
            description: Some(format!("what the driver says of {name}")),
            exit_latency_us: Some(1048),
            target_residency_us: Some(3144),
            disabled: Some(false),
            enabled_by_default: Some(true),
            usage: Some(99_999),
            time_us: Some(999_900),
            rejected: Some(10_000),
            above: Some(10_000),
            below: Some(10_000),
        };
        let group = Group {
            cpus: vec![0],
            online: true,
            kind: None,
            resume_latency_us: None,
            states: vec![state(0, "haltpoll idle"), state(1, "C3_ACPI")],
        };
        let shown = |columns| {
            let mut out = Vec::new();
            states(&group, &[Some(99.99), None], columns, &mut out).unwrap();
            reveille_show::terminal::plain(out)
        };
        let narrow = shown(80);
        assert!(
            narrow.lines().all(|line| line.chars().count() <= 80),
            "{narrow}"
        );
        let below = "\n  haltpoll idle: what the driver says of haltpoll idle; C3_ACPI: what";
        assert!(narrow.contains(below), "{narrow}");
        assert!(!narrow.contains("description"), "{narrow}");
        let wide = shown(WIDEST);
        assert!(
            wide.contains("description") && !wide.contains(below),
            "{wide}"
        );
    }

    #[test]
    fn a_bound_names_the_states_that_it_rules_out() {
        let state = |name: &str, latency| IdleState {
            index: 0,
            name: name.to_owned(),
            description: None,
            exit_latency_us: latency,
            target_residency_us: None,
            disabled: None,
            enabled_by_default: None,
            usage: None,
            time_us: None,
            rejected: None,
            above: None,
            below: None,
        };
        let group = Group {
            cpus: vec![0],
            online: true,
            kind: None,
            resume_latency_us: None,
            states: vec![
                state("POLL", Some(0)),
                state("C1", Some(2)),
                state("C6", Some(133)),
            ],
        };
        assert_eq!(bound_in_words(0, &group), None);
        assert!(
            bound_in_words(10, &group)
                .unwrap()
                .ends_with("10 µs: rules out C6")
        );
        assert!(
            bound_in_words(-1, &group)
                .unwrap()
                .ends_with("0 µs: rules out C1, C6")
        );
        assert!(
            bound_in_words(133, &group)
                .unwrap()
                .ends_with("rules out no state")
        );
    }
}
