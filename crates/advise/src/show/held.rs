//! A latency bound and a limit for people: what each leaves of the idle states.

use reveille_kernel::cpulist::named;
use reveille_kernel::limits::{self, LimitedState};
use reveille_show::columns;
use reveille_show::quantity::listed;
use reveille_show::sheet::{Column, EXIT, EXIT_LATENCY, Heading, Section, Sheet, Table};

use crate::hold::{self, Effect, HeldState, Through};

const HELD: &[Column<HeldState>] = &columns!(|state|
    words "index", "#", state.index.to_string(), "N of cpuidle's `stateN`";
    words "name", "state", state.name.as_str(), "The idle state";
    driver(Us) "exit_latency_us", EXIT, state.exit_latency_us, EXIT_LATENCY;
    measured(Ns) "measured_ns", "measured", state.measured_ns,
        "The percentile of the measured wake latencies; only with `--result`";
    measured(Count) "datapoints", "datapoints", state.datapoints,
        "Datapoints of the state; only with `--result`";
    words "fate", "bound", effect(state.effect),
        "`left` by the bounds in force, or `stopped`; `disabled`, with or without them";
);

fn effect(effect: Effect) -> Option<&'static str> {
    match effect {
        Effect::Left => Some("left"),
        Effect::Stopped => Some("stopped"),
        Effect::Disabled => Some("disabled"),
        Effect::Unknown => None,
    }
}

const LIMITED: &[Column<LimitedState>] = &columns!(|state|
    words "index", "#", state.index.to_string(), "N of cpuidle's `stateN`";
    words "name", "state", state.name.as_str(), "The idle state";
    driver(Us) "exit_latency_us", EXIT, state.exit_latency_us, EXIT_LATENCY;
    words "was_disabled", "was", on(state.was_disabled), "On or off before the limit";
    words "disabled", "limited", on(state.disabled), "On or off under the limit";
    words "ruled_out", "bound", state.ruled_out.then_some("ruled out"),
        "Whether a latency bound in force rules the state out, whatever the limit leaves";
);

fn on(disabled: Option<bool>) -> Option<&'static str> {
    disabled.map(|off| if off { "off" } else { "on" })
}

/// The columns of `hold`, by the list in the JSON that holds its rows.
pub fn hold_reference() -> Vec<(&'static str, Vec<Heading>)> {
    vec![("groups[].states[]", Column::headings(HELD))]
}

/// The columns of `limit`.
pub fn limit_reference() -> Vec<(&'static str, Vec<Heading>)> {
    vec![("groups[].states[]", Column::headings(LIMITED))]
}

/// What is set, for people.
pub struct Statement {
    /// All of it.
    pub sheet: Sheet<'static>,
    /// In short, for standard error: a line for each group of CPUs, then the notes.
    pub lines: Vec<String>,
}

/// A latency bound. `until`: how long it lasts, in a sentence; may be empty.
pub fn hold(plan: &hold::Plan, until: &str) -> Statement {
    let mut sheet = sheet("Latency bound", &plan.notes);
    let whose = match plan.all {
        true => "all CPUs".to_owned(),
        false if plan.cpus.is_empty() => "no CPU".to_owned(),
        false => named(&plan.cpus),
    };
    let through = match plan.through {
        Some(Through::Device) => ", through /dev/cpu_dma_latency",
        Some(Through::EachCpu) => ", through power/pm_qos_resume_latency_us",
        None => "",
    };
    let bound = match plan.bound_us {
        0 => "0 (no sleep)".to_owned(),
        us => format!("{us} µs"),
    };
    sheet.fact("Bound", format!("{bound} for {whose}{through}"));
    let mut effects = Vec::new();
    if plan.request_us != plan.bound_us {
        let request = format!("{} µs, by the measured latencies", plan.request_us);
        sheet.fact("Request", request);
    }
    if let (Some(percentile), Some(result)) = (plan.percentile, &plan.result) {
        let measured = format!("{percentile} of the wake latencies in {result}");
        sheet.fact("Measured", measured);
    }
    let mut lines = Vec::new();
    for group in &plan.groups {
        let mut table = Table::of("", HELD, &group.states).whole();
        if plan.percentile.is_none() {
            table = table.without(&["measured_ns", "datapoints"]);
        }
        section(&mut sheet, &group.cpus, group.core_kind.as_deref(), table);
        let names = |effect| {
            let states = group.states.iter().filter(|state| state.effect == effect);
            states.map(|state| state.name.as_str()).collect::<Vec<_>>()
        };
        let (left, stopped) = (names(Effect::Left), names(Effect::Stopped));
        let stops = if stopped.is_empty() {
            "none".to_owned()
        } else {
            stopped.join(", ")
        };
        let unknown = match &names(Effect::Unknown)[..] {
            [] => String::new(),
            names => format!(
                "; whether it stops {} is unknown without an exit latency",
                listed(names)
            ),
        };
        let cpus = named(&group.cpus);
        lines.push(format!(
            "{bound} held on {cpus}: leaves {}, stops {stops}{unknown}",
            left.join(", ")
        ));
        let (left, stopped) = (states(&left), states(&stopped));
        let effect = format!("leaves {left} and stops {stopped}{unknown}");
        effects.push((group.cpus.clone(), effect));
    }
    lines.extend(plan.notes.iter().cloned());
    sheet.answer = in_a_sentence("The bound", &effects, until);
    Statement { sheet, lines }
}

/// A limit, as [`hold()`].
pub fn limit(plan: &limits::Plan, until: &str) -> Statement {
    let mut sheet = sheet("Limit of idle states", &plan.notes);
    let (mut lines, mut effects) = (Vec::new(), Vec::new());
    for group in &plan.groups {
        let mut table = Table::of("", LIMITED, &group.states).whole();
        if group.in_force_us.is_none() {
            table = table.without(&["ruled_out"]);
        }
        section(&mut sheet, &group.cpus, group.core_kind.as_deref(), table);
        let those = |is_so: fn(&&LimitedState) -> bool| {
            let states = group.states.iter().filter(is_so);
            states.map(|state| state.name.as_str()).collect::<Vec<_>>()
        };
        let on = those(|state| state.disabled == Some(false) && !state.ruled_out);
        let ruled_out = those(|state| state.disabled == Some(false) && state.ruled_out);
        let off = those(|state| state.disabled == Some(true) && !was_off(state));
        let enabled = those(|state| state.disabled == Some(false) && was_off(state));
        let still_off = those(|state| state.disabled == Some(true) && was_off(state));
        let cpus = named(&group.cpus);
        let bound = match (group.in_force_us, &ruled_out[..]) {
            (Some(us), names @ [_, ..]) => {
                let names = listed(names);
                format!("; a latency bound in force, {us} µs, rules out {names}")
            }
            _ => String::new(),
        };
        lines.push(match off.is_empty() {
            true => format!("{cpus}: no state is disabled{bound}"),
            false => format!("{cpus}: disables {}{bound}", off.join(", ")),
        });
        let Some(shallowest) = group.states.first() else {
            continue;
        };
        let left = match on[..] {
            [] => format!("no state (the kernel still uses {})", shallowest.name),
            _ => states(&on),
        };
        let mut effect = format!("leaves {left} and disables {}", states(&off));
        for (names, verb) in [(enabled, "enables"), (still_off, "keeps off")] {
            if !names.is_empty() {
                effect += &format!(", {verb} {}", listed(&names));
            }
        }
        effects.push((group.cpus.clone(), effect + &bound));
    }
    lines.extend(plan.notes.iter().cloned());
    sheet.answer = match plan.without_effect {
        Some(why) => {
            // The answer says it.
            sheet.notes.retain(|note| !note.starts_with(why));
            let upper = why[..1].to_uppercase();
            format!("{upper}{}. {until}", &why[1..])
                .trim_end()
                .to_owned()
        }
        None => in_a_sentence("The limit", &effects, until),
    };
    Statement { sheet, lines }
}

fn was_off(state: &LimitedState) -> bool {
    state.was_disabled == Some(true)
}

/// `The bound leaves C1 and stops C6. Held until Ctrl-C.`, with the CPUs where it does not do the same on
/// all. Without CPUs that honour it, the notes say what is done instead.
fn in_a_sentence(what: &str, effects: &[(Vec<u32>, String)], until: &str) -> String {
    let mut alike: Vec<(Vec<u32>, &str)> = Vec::new();
    for (cpus, effect) in effects {
        match alike.iter_mut().find(|(_, one)| one == effect) {
            Some((others, _)) => others.extend(cpus),
            None => alike.push((cpus.clone(), effect)),
        }
    }
    let words: Vec<String> = match &alike[..] {
        [] => return until.to_owned(),
        [(_, one)] => vec![(*one).to_owned()],
        all => all
            .iter()
            .map(|(cpus, one)| format!("{one} on {}", named(cpus)))
            .collect(),
    };
    format!("{what} {}. {until}", words.join("; it "))
        .trim_end()
        .to_owned()
}

fn states(names: &[&str]) -> String {
    match names {
        [] => "no state".to_owned(),
        names => listed(names),
    }
}

fn sheet(title: &str, notes: &[String]) -> Sheet<'static> {
    Sheet {
        title: title.to_owned(),
        notes: notes.iter().map(|note| format!("{note}.")).collect(),
        ..Sheet::default()
    }
}

/// CPUs that are alike.
fn section(sheet: &mut Sheet<'_>, cpus: &[u32], kind: Option<&str>, table: Table) {
    let kind = kind.map_or_else(String::new, |kind| format!(", {kind}"));
    let heading = format!("{}{kind}", named(cpus));
    sheet.section(Section::new("group", heading).titled().table(table));
}

#[cfg(test)]
mod tests {
    use super::*;
    use reveille_show::sheet::not_in_json;

    #[test]
    fn every_column_is_a_field_of_the_json() {
        let held = HeldState {
            index: 0,
            name: "C1".into(),
            exit_latency_us: None,
            measured_ns: None,
            datapoints: None,
            effect: Effect::Unknown,
        };
        let limited = LimitedState {
            index: 0,
            name: "C1".into(),
            exit_latency_us: None,
            was_disabled: None,
            disabled: None,
            ruled_out: false,
        };
        let states = [
            (serde_json::to_value(held).unwrap(), hold_reference()),
            (serde_json::to_value(limited).unwrap(), limit_reference()),
        ];
        for (state, reference) in states {
            let json = serde_json::json!({ "groups": [{ "states": [state] }] });
            for (list, headings) in reference {
                assert_eq!(not_in_json(&json, list, &headings), [""; 0], "{list}");
            }
        }
    }

    #[test]
    fn a_limit_disables_what_was_on_and_cpus_alike_are_named_once() {
        let state = |name: &str, was: bool, is: bool| LimitedState {
            index: 0,
            name: name.into(),
            exit_latency_us: None,
            was_disabled: Some(was),
            disabled: Some(is),
            ruled_out: false,
        };
        let group = |cpus: &[u32], states: Vec<LimitedState>| limits::LimitedGroup {
            cpus: cpus.to_vec(),
            cpu_list: String::new(),
            core_kind: None,
            in_force_us: None,
            states,
        };
        let answer = |groups: Vec<limits::LimitedGroup>| {
            let plan = limits::Plan {
                groups,
                settings: Vec::new(),
                notes: Vec::new(),
                without_effect: None,
            };
            limit(&plan, "").sheet.answer
        };
        let some = || vec![state("C1", false, false), state("C6", false, true)];
        let had_c3 = || vec![state("C1", false, false), state("C3", true, true)];
        assert_eq!(
            answer(vec![
                group(&[0], some()),
                group(&[1], had_c3()),
                group(&[2], some()),
                group(&[3], Vec::new()),
            ]),
            "The limit leaves C1 and disables C6 on CPUs 0,2; it leaves C1 and disables no state, keeps off C3 \
             on CPU 1."
        );
        assert_eq!(
            answer(vec![group(
                &[0],
                vec![state("C1", true, false), state("C6", true, true)]
            )]),
            "The limit leaves C1 and disables no state, enables C1, keeps off C6."
        );
        assert_eq!(
            answer(vec![group(&[0], vec![state("C1", false, true)])]),
            "The limit leaves no state (the kernel still uses C1) and disables C1."
        );
    }
}
