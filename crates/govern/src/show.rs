//! Rules and their state for people: the names, units and words of their figures.

use reveille_kernel::cpulist::{self, named};
use reveille_kernel::requests;
use reveille_show::columns;
use reveille_show::quantity::{counted, listed};
use reveille_show::sheet::{Column, Heading, Judgement, Section, Sheet, Table, Value};

use crate::judge::{InTheWay, Judged, JudgedGroup};
use crate::status::{CpuStatus, HoldStatus, RuleStatus, Status, Why};

/// A rule on CPUs that are alike.
struct Line {
    rule: String,
    anticipates: bool,
    group: JudgedGroup,
}

const CONDITIONS: &[Column<Judged>] = &columns!(|rule|
    words "rule", "rule", rule.rule.as_str(), "The rule's name, in the order of the file";
    words "asks", "asks", rule.asks.as_str(), "What it asks for";
    driver(Seconds) "quiet_s", "quiet", rule.quiet_s,
        "How long a bound outlasts the last packet; none without traffic";
    words detail "quiet_by", "quiet by", rule.quiet_by.clone(), "How the quiet time was chosen";
    // The last column is never cut.
    words "when", "when", rule.when.as_str(),
        "Its conditions, in the order in which they are tested: it is in force while all of them hold";
);

const GROUPS: &[Column<Line>] = &columns!(|line|
    words "rule", "rule", line.rule.as_str(), "The rule's name";
    words "cpus", "CPUs", cpulist::format(&line.group.cpus), "CPUs that are alike";
    words "bound_us", "holds", held(line),
        "The latency bound that it holds there, µs; nothing where every state keeps to what it asks for";
    words "stops", "stops", list(&line.group.stops), "Idle states that the bound stops";
    words "leaves", "leaves", list(&line.group.leaves), "Idle states that can be entered under it";
    words "judged_by", "by", line.group.judged_by.as_str(),
        "What judges the states: a measured `result`, or the driver's `table`";
    words detail "by_table_us", "by table", line.group.by_table_us.map(|us| bound(Some(us))),
        "What the driver's table alone would hold, µs, if that is another figure";
);

const HOLDS: &[Column<HoldStatus>] = &columns!(|hold|
    words "number", "hold", hold.number.to_string(), "The hold's number";
    words "name", "of", hold.name.as_str(), "The program that asks";
    words detail "pid", "process", hold.pid.to_string(), "Its process";
    words "uid", "user", hold.uid.to_string(), "Its user";
    words "asks", "asks", hold.judged.asks.as_str(), "What it asks for";
    words "reason", "reason", hold.reason.as_str(), "What for, in the program's words";
    measured(Seconds) "held_s", "held", hold.held_s, "Since when";
);

const RULES: &[Column<RuleStatus>] = &columns!(|rule|
    words "rule", "rule", rule.judged.rule.as_str(), "The rule's name";
    words "asks", "asks", rule.judged.asks.as_str(), "What it asks for";
    words detail "when", "when", rule.judged.when.as_str(), "Its conditions";
    words "in_force", "in force on", on_cpus(&rule.in_force), "The CPUs on which it is in force now";
    measured(Count) "times", "times", rule.times, "How often it came into force, a sum over CPUs";
    measured(Seconds) "held_s", "held", rule.held_s, "For how long it was in force, a sum over CPUs";
    measured(Count) "packets", "packets", rule.packets, "Packets seen; none without traffic";
    measured(Count) "requests", "requests", rule.requests,
        "Requests to the disk that were seen; none without a disk";
    words "late", "too late", late(rule),
        "Of the last packets or requests, those that came when the bound had ended; none where they are few";
    words "waits_for", "waits for", waits(rule), "What is missing on this machine";
);

const CPUS: &[Column<CpuStatus>] = &columns!(|cpu|
    words "cpu", "CPU", cpu.cpu.to_string(), "The CPU's number";
    words "bound_us", "bound", bound(cpu.bound_us), "The latency bound that is wanted, µs";
    measured(Seconds) "since_s", "since", cpu.since_s, "For how long it has been so";
    words "why", "for", in_force(cpu), "The rules and holds that ask for it";
    words "in_the_way", "in the way", in_the_way(cpu),
        "Another program's value of the setting, which stays; or why the bound could not be set";
);

const WHY: &[Column<Why>] = &columns!(|why|
    words "of", "rule", why.of.as_str(), "The rule's name, or the hold's number";
    words "in_force", "in force", if why.in_force { "yes" } else { "no" }, "Is it in force on the CPU?";
    words "why", "why", why.why.as_str(), "Why it is, or is not";
);

fn bound(bound_us: Option<u32>) -> String {
    match bound_us {
        None => "nothing".into(),
        Some(us) => format!("{us} µs"),
    }
}

fn held(line: &Line) -> String {
    match line.group.bound_us {
        Some(_) if line.anticipates => "anticipates".into(),
        bound_us => bound(bound_us),
    }
}

fn list(names: &[String]) -> Value {
    match names {
        [] => Value::Unknown,
        names => names.join(", ").into(),
    }
}

fn on_cpus(cpus: &[u32]) -> Value {
    match cpus {
        [] => Value::Unknown,
        cpus => named(cpus).into(),
    }
}

fn late(rule: &RuleStatus) -> Value {
    let late = rule.judged.late.as_ref();
    let late: Value = late
        .map(|late| format!("{} of {}", late.late, late.packets))
        .into();
    late.judged(Judgement::Notable)
}

fn waits(rule: &RuleStatus) -> Value {
    let waits: Value = rule.waits_for.clone().into();
    waits.judged(Judgement::Notable)
}

fn in_force(cpu: &CpuStatus) -> Value {
    let names = cpu.why.iter().filter(|why| why.in_force);
    let names: Vec<&str> = names.map(|why| why.of.as_str()).collect();
    match names.is_empty() {
        true => Value::Unknown,
        false => names.join(", ").into(),
    }
}

fn in_the_way(cpu: &CpuStatus) -> Value {
    let why = cpu.failed.clone().or_else(|| cpu.in_the_way.clone());
    let why: Value = why.into();
    why.judged(Judgement::Notable)
}

/// The columns of `govern check`, by the list in the JSON that holds its rows.
pub fn check_reference() -> Vec<(&'static str, Vec<Heading>)> {
    vec![
        ("rules[]", Column::headings(CONDITIONS)),
        ("rules[].groups[]", Column::headings(GROUPS)),
    ]
}

/// The columns of `govern status` and `govern explain`.
pub fn status_reference() -> Vec<(&'static str, Vec<Heading>)> {
    vec![
        ("rules[]", Column::headings(RULES)),
        ("holds[]", Column::headings(HOLDS)),
        ("cpus[]", Column::headings(CPUS)),
        ("cpus[].why[]", Column::headings(WHY)),
    ]
}

/// What rules hold on this machine.
pub fn check(file: &str, rules: &[Judged], in_the_way: &[InTheWay]) -> Sheet<'static> {
    let mut sheet = Sheet {
        title: format!("Rules of {file}"),
        answer: format!(
            "{}{}{}",
            check_answer(rules),
            not_held(rules, in_the_way),
            too_late(rules.iter())
        ),
        ..Sheet::default()
    };
    let lines = rules.iter().flat_map(|rule| {
        let groups = rule.groups.iter().cloned();
        groups.map(|group| Line {
            rule: rule.rule.clone(),
            anticipates: rule.anticipates,
            group,
        })
    });
    let lines: Vec<Line> = lines.collect();
    let conditions = Table::of("Conditions", CONDITIONS, rules).whole();
    let bounds = Table::of("Bounds", GROUPS, &lines).whole();
    sheet.section(
        Section::new("rules", "Rules")
            .table(conditions.known())
            .table(bounds),
    );
    for rule in rules {
        for note in &rule.notes {
            sheet.notes.push(format!("{}: {note}", rule.rule));
        }
        for group in &rule.groups {
            if let Some(by_table) = group.by_table_us {
                sheet.notes.push(format!(
                    "{}: on {} the result gives {}, and the driver's table {}",
                    rule.rule,
                    named(&group.cpus),
                    bound(group.bound_us),
                    bound(Some(by_table))
                ));
            }
        }
    }
    sheet
}

fn check_answer(rules: &[Judged]) -> String {
    if rules.is_empty() {
        return "The file has no rules: nothing is held.".into();
    }
    let all = counted(rules.len() as u64, "rule");
    let holds = match rules.iter().map(holds_nothing).collect::<String>() {
        nothing if nothing.is_empty() => "; each holds a bound while it is in force.".to_owned(),
        nothing => format!(".{nothing}"),
    };
    let buts = rules.iter().flat_map(|rule| {
        let buts = rule.groups.iter().filter_map(|group| group.but.as_ref());
        buts.map(|but| format!(" {}: {but}.", rule.rule))
    });
    format!("{all}{holds}{}", buts.collect::<String>())
}

/// ` ping holds nothing on CPU 3: why.`; empty where it holds a bound on all its CPUs.
fn holds_nothing(rule: &Judged) -> String {
    let name = &rule.rule;
    if rule.groups.is_empty() {
        let why = rule.notes.first().map(String::as_str);
        let why = why.unwrap_or("nothing on this machine honours a bound");
        return format!(" {name} holds nothing here: {why}.");
    }
    let mut alike: Vec<(&String, Vec<u32>)> = Vec::new();
    for group in &rule.groups {
        let Some(why) = &group.why_nothing else {
            continue;
        };
        match alike.iter_mut().find(|(one, _)| *one == why) {
            Some((_, cpus)) => cpus.extend(&group.cpus),
            None => alike.push((why, group.cpus.clone())),
        }
    }
    let all: usize = rule.groups.iter().map(|group| group.cpus.len()).sum();
    let sentence = |(why, cpus): (&String, Vec<u32>)| match cpus.len() == all {
        true => format!(" {name} holds nothing here: {why}."),
        false => format!(" {name} holds nothing on {}: {why}.", named(&cpus)),
    };
    alike.into_iter().map(sentence).collect()
}

/// Where other programs' bounds keep those of the rules out, or are in their place; may be empty.
fn not_held(rules: &[Judged], in_the_way: &[InTheWay]) -> String {
    let any = |one: &InTheWay, is: &dyn Fn(u32) -> bool| {
        let bounds = rules.iter().filter(|rule| !rule.anticipates);
        let mut bounds = bounds.filter_map(|rule| rule.bound_us(one.cpu));
        bounds.any(is)
    };
    let is_out = |one: &InTheWay| any(one, &|us| !requests::is_within(&one.value, us));
    let is_another = |one: &&InTheWay| any(one, &|us| requests::text_of(us) != one.value);
    let others = in_the_way.iter().filter(is_another);
    let (out, instead): (Vec<_>, Vec<_>) = others.partition(|one| is_out(one));
    let values = |all: Vec<&InTheWay>| -> Vec<(u32, String)> {
        let values = all.into_iter().map(|one| (one.cpu, one.value.clone()));
        values.collect()
    };
    format!(
        "{}{}",
        kept_out(&values(out)),
        kept_by_others(&values(instead))
    )
}

/// Of CPUs on which nothing is held, and other programs' values there.
fn kept_out(others: &[(u32, String)]) -> String {
    match others {
        [] => String::new(),
        others => format!(" {}.", nothing_held(others)),
    }
}

/// That nothing is held on CPUs, for other programs' values are there; without a full stop.
pub fn nothing_held(others: &[(u32, String)]) -> String {
    format!(
        "Nothing is held on {}: another program has set a bound there, which stays",
        listed(&on_values(others))
    )
}

/// Of CPUs whose bound is kept, though not by the service, and other programs' values there.
fn kept_by_others(others: &[(u32, String)]) -> String {
    match others {
        [] => String::new(),
        others => format!(
            " On {} another program's bound is tighter, and stays in the place of this one.",
            listed(&on_values(others))
        ),
    }
}

/// `CPU 0 and CPU 1 (20 µs)`, of CPUs and the values that other programs have set there.
fn on_values(others: &[(u32, String)]) -> Vec<String> {
    let mut alike: Vec<(&str, Vec<u32>)> = Vec::new();
    for (cpu, value) in others {
        match alike.iter_mut().find(|(one, _)| one == value) {
            Some((_, cpus)) => cpus.push(*cpu),
            None => alike.push((value, vec![*cpu])),
        }
    }
    let words = alike.iter().map(|(value, cpus)| match *value {
        "n/a" => format!("{} (no latency at all)", named(cpus)),
        us => format!("{} ({us} µs)", named(cpus)),
    });
    words.collect()
}

/// What to do about bounds that mostly came too late; may be empty.
fn too_late<'a>(rules: impl Iterator<Item = &'a Judged>) -> String {
    let late = rules.filter_map(|rule| Some((&rule.rule, rule.late.as_ref()?)));
    late.map(|(rule, late)| format!(" {rule}: {}.", late.words()))
        .collect()
}

/// What the rules hold, and what is held now: for who has just started the service.
pub fn started(status: &Status) -> Sheet<'static> {
    let rules = status.rules.iter().map(|rule| rule.judged.clone());
    let rules: Vec<Judged> = rules.collect();
    let mut sheet = check(
        &status.file.display().to_string(),
        &rules,
        &status.in_the_way(),
    );
    // What is in the way it has already.
    let (held, _) = held_now(status);
    sheet.answer = format!("{} {held}", sheet.answer).trim_end().to_owned();
    sheet
}

/// What the service holds now.
pub fn status(status: &Status) -> Sheet<'static> {
    let mut sheet = Sheet {
        title: "reveille govern".to_owned(),
        answer: status_answer(status),
        ..Sheet::default()
    };
    let running =
        humantime::format_duration(std::time::Duration::from_secs(status.running_s as u64));
    sheet.fact(
        "Service",
        format!("process {}, running for {running}", status.pid),
    );
    sheet.fact(
        "Rules",
        format!("{}, read {}", status.file.display(), readable(&status.read)),
    );
    let own = &status.own;
    let used = format!("{:.3} s of CPU time, {} wake-ups", own.cpu_s, own.wakeups);
    sheet.fact("Own cost", used);
    if let Some(of) = &status.accounted {
        let runs = counted(of.program_runs, "run");
        let each = of.program_ns.checked_div(of.packets);
        let each = each.map_or(String::new(), |ns| {
            format!(", {ns} ns for each packet of a rule")
        });
        sheet.fact("BPF programs", format!("{runs}{each}"));
        sheet.fact("Bounds", format!("{} came after an idle entry", of.late));
    }
    sheet.section(
        Section::new("rules", "Rules").table(Table::of("", RULES, &status.rules).whole().known()),
    );
    let cpus = status.cpus.iter();
    let of_interest = |cpu: &&CpuStatus| {
        cpu.bound_us.is_some() || cpu.in_the_way.is_some() || cpu.failed.is_some()
    };
    let cpus: Vec<&CpuStatus> = cpus.filter(of_interest).collect();
    sheet.section(Section::new("cpus", "CPUs").table(Table::of("", CPUS, cpus).known()));
    let holds = Table::of("", HOLDS, &status.holds).known();
    sheet.section(Section::new("holds", "Holds").table(holds));
    sheet.notes.extend(status.problems.iter().cloned());
    if let Some(refused) = &status.refused {
        sheet
            .notes
            .push(format!("{refused}; the rules before stay in force"));
    }
    sheet
}

/// An instant for people: `2026-11-24 11:08:02 UTC`.
fn readable(instant: &str) -> String {
    instant.replace('T', " ").replace('Z', " UTC")
}

fn status_answer(status: &Status) -> String {
    let (held, out) = held_now(status);
    let late = too_late(status.rules.iter().map(|rule| &rule.judged));
    format!("{held}{out}{late}").trim_start().to_owned()
}

/// What the service holds, and where another program's bound is in its place; either may be empty.
fn held_now(status: &Status) -> (String, String) {
    let wanted = status.cpus.iter().filter(|cpu| cpu.bound_us.is_some());
    let (kept, out): (Vec<_>, Vec<_>) = wanted.partition(|cpu| cpu.is_kept());
    let is_anothers = |cpu: &&CpuStatus| cpu.is_kept_by_another();
    let (by_others, kept): (Vec<_>, Vec<_>) = kept.into_iter().partition(is_anothers);
    let values = |cpus: Vec<&CpuStatus>| -> Vec<(u32, String)> {
        let values = cpus.into_iter();
        let values = values.filter_map(|cpu| Some((cpu.cpu, cpu.in_the_way.clone()?)));
        values.collect()
    };
    let out = format!(
        "{}{}",
        kept_out(&values(out)),
        kept_by_others(&values(by_others))
    );
    let asks_nobody = status.rules.is_empty() && status.holds.is_empty();
    let held = match kept.iter().filter_map(|cpu| cpu.bound_us).min() {
        Some(tightest) => format!(
            "A latency bound is held on {}; the tightest is {}.",
            named(&kept.iter().map(|cpu| cpu.cpu).collect::<Vec<_>>()),
            bound(Some(tightest))
        ),
        None if asks_nobody => "Nothing is held: there are no rules and no holds.".into(),
        None if out.is_empty() => "Nothing is held now.".into(),
        None => String::new(),
    };
    (held, out)
}

/// Why CPUs are held, or not.
pub fn explain(status: &Status) -> Sheet<'static> {
    let mut sheet = Sheet {
        title: "reveille govern: why".to_owned(),
        answer: status_answer(status),
        ..Sheet::default()
    };
    let mut groups: Vec<(Vec<u32>, &CpuStatus)> = Vec::new();
    for cpu in &status.cpus {
        let alike = |other: &CpuStatus| {
            (other.bound_us, &other.why, &other.in_the_way)
                == (cpu.bound_us, &cpu.why, &cpu.in_the_way)
        };
        match groups.iter_mut().find(|(_, other)| alike(other)) {
            Some((numbers, _)) => numbers.push(cpu.cpu),
            None => groups.push((vec![cpu.cpu], cpu)),
        }
    }
    for (numbers, cpu) in groups {
        let held = match cpu.bound_us {
            Some(us) if cpu.is_kept_by_another() => {
                format!("kept to {} by another program", bound(Some(us)))
            }
            Some(us) if cpu.is_kept() => format!("held to {}", bound(Some(us))),
            Some(us) => format!("not held to {}", bound(Some(us))),
            None => "not held".to_owned(),
        };
        let mut section = Section::new("cpu", format!("{}: {held}", named(&numbers))).titled();
        if let Some(value) = &cpu.in_the_way {
            section = section.text(format!(
                "Another program has set the CPU's bound to {value}; it is left as it is."
            ));
        }
        if let Some(why) = &cpu.failed {
            section = section.text(format!("The bound could not be set: {why}."));
        }
        sheet.section(section.table(Table::of("", WHY, &cpu.why).whole()));
    }
    sheet.notes.extend(status.problems.iter().cloned());
    sheet
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::tests::wanting;

    fn rule(groups: &[(&[u32], Option<u32>, &str)]) -> Judged {
        let group = |(cpus, bound_us, why): &(&[u32], Option<u32>, &str)| JudgedGroup {
            cpus: cpus.to_vec(),
            bound_us: *bound_us,
            leaves: Vec::new(),
            stops: Vec::new(),
            judged_by: "table".into(),
            by_table_us: None,
            why_nothing: bound_us.is_none().then(|| (*why).to_owned()),
            but: bound_us.and_then(|_| (!why.is_empty()).then(|| (*why).to_owned())),
        };
        Judged {
            rule: "a".into(),
            groups: groups.iter().map(group).collect(),
            ..Judged::default()
        }
    }

    #[test]
    fn whose_bound_is_in_force_is_told() {
        let late = r#"{"rule": "a", "asks": "", "when": "", "result": null, "groups": [], "quiet_s": 0.02,
            "quiet_by": null, "late": {"packets": 20, "late": 19, "above_s": 0.2}, "notes": [], "waits_for": null,
            "in_force": [], "times": 0, "held_s": 0, "packets": 20, "requests": null}"#;
        let own = r#"{"cpu_s": 0.0, "wakeups": 0}"#;
        let text = format!(
            r#"{{"schema_version": 1, "tool": "", "pid": 1, "running_s": 0, "file": "f", "read": "", "refused": null,
            "problems": [], "rules": [{late}], "holds": [], "cpus": [], "own": {own}, "accounted": null}}"#
        );
        let of = |cpus: &[Option<&str>]| {
            let cpus = (0..).zip(cpus);
            Status {
                cpus: cpus.map(|(cpu, way)| wanting(cpu, *way)).collect(),
                ..serde_json::from_str(&text).unwrap()
            }
        };
        let cases: [(_, &[Option<&str>]); 3] = [
            ("ours", &[None, None]),
            ("tighter", &[Some("20"), Some("20")]),
            ("each", &[None, Some("20"), Some("100")]),
        ];
        let said = cases.map(|(case, cpus)| {
            let sheet = explain(&of(cpus));
            let titles = sheet.sections.iter().map(|section| section.heading.clone());
            (
                case,
                format!("{} {:?}", sheet.answer, titles.collect::<Vec<_>>()),
            )
        });
        reveille_snapshot::snapshot!("answers", said);
    }

    #[test]
    fn the_answer_has_where_a_rule_holds_nothing() {
        let held = || rule(&[(&[0, 1], Some(50), "")]);
        let way = |cpus: &[(u32, &str)]| -> Vec<InTheWay> {
            let one = |(cpu, value): &(u32, &str)| InTheWay {
                cpu: *cpu,
                value: (*value).into(),
            };
            cpus.iter().map(one).collect()
        };
        let both = rule(&[(&[0], None, "one"), (&[1], None, "two")]);
        let cases = [
            ("held", held(), way(&[])),
            (
                "nowhere",
                rule(&[(&[0], None, "x"), (&[1], None, "x")]),
                way(&[]),
            ),
            ("not for the same reason", both, way(&[(0, "5")])),
            (
                "on some",
                rule(&[(&[0], Some(50), ""), (&[1], None, "x")]),
                way(&[]),
            ),
            ("not all", rule(&[(&[0, 1], Some(50), "x")]), way(&[])),
            (
                "values",
                held(),
                way(&[(0, "n/a"), (1, "100000"), (2, "5")]),
            ),
            ("the same value", held(), way(&[(0, "50")])),
        ];
        let said = cases.map(|(case, rule, way)| (case, check("f", &[rule], &way).answer));
        reveille_snapshot::snapshot!("answers", said);
    }
}
