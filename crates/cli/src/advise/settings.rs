//! The advice in words, what it costs, whom it covers, and its forms.

use std::io::{self, Write};

use reveille_advise::{
    Advice, Coverage, Demand, Finding, Form, Leaves, Setting, Standing, StateAdvice, form,
};
use reveille_kernel::cpulist;
use reveille_results::description::cpu_name;
use reveille_results::statistics::Floor;

use super::text::{about, listed, named, us, wrapped};
use super::{Answer, evidence};

pub fn write(answer: &Answer, out: &mut impl Write) -> io::Result<()> {
    let (advice, setting) = (answer.advice, answer.setting);
    named(out, "Advice", &in_words(advice, setting))?;
    if setting.is_to_be_set() {
        named(out, "Bound", &bound(advice, setting))?;
    }
    if let Some(words) = more(advice) {
        named(out, "More", &words)?;
    }
    if let Some(words) = alone(advice) {
        named(out, "Besides", &words)?;
    }
    for words in costs(answer) {
        named(out, "Cost", &words)?;
    }
    named(out, "Covers", &covers(answer))?;
    for words in remarks(answer) {
        named(out, "Note", &words)?;
    }
    if setting.is_to_be_set() {
        writeln!(out, "\nOne of these sets it; --form NAME prints it alone:")?;
        for form in &answer.forms {
            writeln!(out)?;
            write_form(form, out)?;
        }
    }
    Ok(())
}

fn in_words(advice: &Advice, setting: &Setting) -> String {
    let names = |states: &mut dyn Iterator<Item = &StateAdvice>| {
        listed(&states.map(|one| one.state.as_str()).collect::<Vec<_>>())
    };
    let allowed = names(&mut advice.allowed());
    let sure = match advice.question.demand {
        Demand::Percentile(_) => format!(
            ". The {} confidence is that of all of it together",
            advice.question.confidence
        ),
        Demand::Maximum => String::new(),
    };
    match &setting.leaves {
        Leaves::Everything if advice.allowed().next().is_none() => {
            "nothing sleeps here: there is no state to forbid".to_owned()
        }
        Leaves::Everything => {
            format!("every state may stay, {allowed}: nothing has to be set{sure}")
        }
        Leaves::UpTo { .. } => format!(
            "allow {allowed}; keep out of {}{sure}",
            listed(&setting.forbidden)
        ),
        Leaves::NoSleep if advice.question.budget_us == 0 => {
            "no idle state at all: that is what a budget of 0 asks for".to_owned()
        }
        Leaves::NoSleep => format!(
            "no idle state at all: even {}, the shallowest, is over the budget",
            setting.forbidden[0]
        ),
        Leaves::Unknown { state } => {
            let over = |one: &&StateAdvice| one.standing == Standing::Exceeds;
            let over = names(&mut advice.states.iter().filter(over));
            let over = match over.as_str() {
                "none" => String::new(),
                over => format!(". Over the budget: {over}"),
            };
            format!("unknown: there are too few datapoints of {state}. Nothing is to be set{over}")
        }
    }
}

/// The bound, and where it is another than the budget's.
fn bound(advice: &Advice, setting: &Setting) -> String {
    let Some(bound) = setting.bound else {
        let why = setting.why_no_bound.clone().unwrap_or_default();
        return format!("none: {why}");
    };
    let mut words = format!("{} µs, in the driver's figures", bound.us);
    if let Some(up_to) = bound.up_to_us.filter(|&up_to| up_to > bound.us) {
        words += &format!("; any up to {up_to} µs leaves the same states");
    }
    let budget = advice.question.budget_us;
    let by_measurement: Vec<&str> = advice.allowed().map(|one| one.state.as_str()).collect();
    match &setting.budget_as_bound_leaves {
        Some(by_table) if *by_table != by_measurement => {
            words += &format!(
                ". The budget itself as the bound, {budget} µs, would leave {} by the driver's table",
                listed(by_table)
            );
        }
        _ => {}
    }
    words
}

/// Beyond this many datapoints of a state another budget or percentile is the better advice.
const WORTH_MEASURING: u64 = 1_000_000;

/// The run that would have enough datapoints of every state, for results are not added up.
fn more(advice: &Advice) -> Option<String> {
    // A state in which nothing sleeps is allowed, whatever its datapoints show.
    let states = advice.states.iter();
    let in_question = states.filter(|one| one.standing != Standing::NoSleep);
    let wants = in_question.filter_map(evidence::wanting);
    let needed: Option<Vec<u64>> = wants.map(|(_, needed)| needed).collect();
    let needed = needed?.into_iter().max()?;
    if needed > WORTH_MEASURING {
        return None;
    }
    let samples = advice.states.len() * advice.sources.len();
    // Some of a state's turn go to shallower ones, or are dropped.
    let in_all = about(needed * samples as u64 * 3 / 2);
    let sources = advice.sources.join(",");
    let source = match advice
        .sources
        .iter()
        .all(|one| one == "timer" || one == "remote")
    {
        true => format!(" --source {sources}"),
        // Another tool's.
        false => String::new(),
    };
    Some(format!(
        "`reveille measure --each-state{source} --datapoints {in_all}` would have enough"
    ))
}

/// States that pass beyond one that does not.
fn alone(advice: &Advice) -> Option<String> {
    let alone: Vec<&str> = advice.alone().map(|one| one.state.as_str()).collect();
    if alone.is_empty() {
        return None;
    }
    let within = |state: &&str| !alone.contains(state);
    let forbidden = advice.forbidden().map(|one| one.state.as_str());
    let others: Vec<String> = forbidden.filter(within).map(form::quoted).collect();
    Some(format!(
        "{} would be within the budget too, taken alone, but {} deeper than a state that is not. \
         `reveille limit --disable {}` leaves it; the confidence is then that of each state by \
         itself",
        listed(&alone),
        if alone.len() == 1 { "is" } else { "are" },
        others.join(",")
    ))
}

fn costs(answer: &Answer) -> Vec<String> {
    let (cost, setting) = (&answer.cost, answer.setting);
    if !setting.is_to_be_set() {
        return Vec::new();
    }
    let forbidden = listed(&setting.forbidden);
    let cpu = cpu_name(answer.target.measured_cpu);
    let residency = match cost.forbidden_time_percent {
        Some(percent) => format!(
            "{cpu} spent {percent:.1} % of its idle time, from boot to the run, in {forbidden}"
        ),
        None => format!("how long {cpu} spent in {forbidden} is not in the result"),
    };
    if cost.frequency.is_empty() {
        let unknown = "watts are not known, for a result has none. Cores that are kept in shallow \
                       states take turbo from the others; by how much is not known either. \
                       `reveille trial` sees both, where the machine tells them";
        return vec![residency, unknown.to_owned()];
    }
    let medians: Vec<String> = cost
        .frequency
        .iter()
        .map(|one| {
            let ghz = one.median_khz as f64 / 1e6;
            format!("{ghz:.2} GHz after {}", one.state)
        })
        .collect();
    vec![
        residency,
        "watts are not known, for a result has none. `reveille trial` sees them, where there is a \
         meter"
            .to_owned(),
        format!(
            "cores that are kept in shallow states take turbo from the others. The CPU ran at {} \
             (medians)",
            medians.join(", ")
        ),
    ]
}

fn covers(answer: &Answer) -> String {
    let cpu = cpu_name(answer.target.measured_cpu);
    match &answer.target.coverage {
        Coverage::Result => format!(
            "{cpu} was measured; others are taken to be like it. On a machine with several \
             kinds of core give it with --root"
        ),
        Coverage::AllAlike => {
            format!("{cpu} was measured; the machine's other CPUs are of its kind")
        }
        Coverage::Hybrid { kind, cpus, others } => format!(
            "the {kind}, CPUs {}. CPUs {} are of another kind, and nothing is known of them: \
             measure one (`reveille measure --cpu {}`) and ask again",
            cpulist::format(cpus),
            cpulist::format(others),
            others[0]
        ),
    }
}

fn remarks(answer: &Answer) -> Vec<String> {
    let advice = answer.advice;
    let mut remarks = where_nothing_sleeps(answer);
    for state in &advice.states {
        if state.standing == Standing::Off {
            remarks.push(format!(
                "{} was disabled when it was measured, and is taken to stay so",
                state.state
            ));
        }
    }
    for (count, why) in [
        (advice.of_unknown_state, "whose idle state is not known"),
        (advice.without_latency, "without this latency"),
    ] {
        match count {
            0 => {}
            1 => remarks.push(format!("1 datapoint {why} counts nowhere")),
            _ => remarks.push(format!("{count} datapoints {why} count nowhere")),
        }
    }
    if answer.setting.is_to_be_set() && answer.as_the_governor_chose {
        remarks.push(
            "the states were measured as the governor chose them. With deeper ones forbidden the \
             others last longer, and colder caches may slow their wakes: `reveille measure \
             --each-state` sees that"
                .to_owned(),
        );
    }
    remarks.extend(answer.notes.iter().cloned());
    remarks
}

/// A budget that is not kept even where nothing sleeps: by the poll state's own datapoints, else by
/// the floors of the method.
fn where_nothing_sleeps(answer: &Answer) -> Vec<String> {
    let question = &answer.advice.question;
    if question.budget_us == 0 {
        return Vec::new();
    }
    let mut over = Vec::new();
    let awake = |state: &&StateAdvice| state.standing == Standing::NoSleep;
    for state in answer.advice.states.iter().filter(awake) {
        for one in &state.evidence {
            if let (Finding::Exceeds, Some(median), Some(max)) =
                (one.finding, one.median_ns, one.max_ns)
            {
                over.push(format!(
                    "{} ({}) is over the budget too, where nothing sleeps: {} µs at the median, {} \
                     µs at most. Idle states are not all that takes time here",
                    state.state,
                    one.source,
                    us(median),
                    us(max)
                ));
            }
        }
    }
    if over.is_empty() {
        let is_over = |floor: &&Floor| floor.median_ns > question.budget_ns();
        over.extend(answer.floors.iter().filter(is_over).map(|floor| {
            format!(
                "where nothing sleeps ({}, {}) half of the wakes take {} µs or more: no setting of \
                 idle states keeps this budget",
                floor.state,
                floor.source,
                us(floor.median_ns)
            )
        }));
    }
    over
}

fn write_form(form: &Form, out: &mut impl Write) -> io::Result<()> {
    const INDENT: usize = 2;
    let name = form.name.as_str();
    wrapped(out, &format!("{name}: "), INDENT, &form.does)?;
    match &form.text {
        Some(text) => {
            wrapped(out, "  Read ", INDENT, &form.read)?;
            if let Some(mind) = &form.mind {
                wrapped(out, "  ", INDENT, &format!("{mind}."))?;
            }
            if let Some(file) = &form.file {
                writeln!(out, "  {file}:")?;
            }
            for line in text.lines() {
                match line.is_empty() {
                    true => writeln!(out)?,
                    false => writeln!(out, "      {line}")?,
                }
            }
            Ok(())
        }
        None => wrapped(
            out,
            "  Not here: ",
            INDENT,
            form.mind.as_deref().unwrap_or_default(),
        ),
    }
}
