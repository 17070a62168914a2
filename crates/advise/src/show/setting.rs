//! The advice in words, what it costs, whom it covers, and its forms.

use reveille_kernel::cpulist;
use reveille_results::description::cpu_name;
use reveille_show::quantity::{counted, listed, quoted, share, three_digits};
use reveille_show::sheet::{Section, Sheet};

use crate::decision::about;
use crate::without_sleep::Known;
use crate::{Advice, Answer, Coverage, Demand, Form, Leaves, Setting, Standing, StateAdvice};

/// The setting's figures, where there is one.
pub fn facts(answer: &Answer<'_>, sheet: &mut Sheet<'_>) {
    let (advice, setting) = (&answer.advice, &answer.setting);
    if setting.decision.is_to_be_set() {
        sheet.fact("Bound", bound(advice, setting));
    }
    if let Some(words) = more(advice) {
        sheet.fact("More", words);
    }
    if let Some(words) = alone(advice) {
        sheet.fact("Besides", words);
    }
    let mut costs = costs(answer).into_iter();
    if let Some(residency) = costs.next() {
        sheet.fact("Cost", residency);
    }
    costs.for_each(|words| sheet.detail("Cost", words));
    sheet.fact("Covers", covers(answer));
}

/// The forms that set it: all, or the first that this machine and setting have.
pub fn forms(answer: &Answer<'_>, all: bool) -> Section<'static> {
    let heading = match all {
        true => "Set it with one of (--form NAME: only that form):",
        false => "Set it with (--form all: other forms):",
    };
    let section = Section::new("forms", heading).titled();
    let mut forms = answer.forms.iter();
    match (answer.setting.decision.is_to_be_set(), all) {
        (false, _) => section,
        (true, true) => forms.fold(section, with_form),
        (true, false) => {
            let text = forms.find_map(|form| form.text.as_ref());
            text.into_iter().fold(section, Section::command)
        }
    }
}

fn with_form<'a>(section: Section<'a>, form: &Form) -> Section<'a> {
    let (name, does) = (form.name.as_str(), &form.does);
    let caveat = form.caveat.as_deref().unwrap_or_default();
    let Some(text) = &form.text else {
        return section.text(format!("{name}: {does}. Not here: {caveat}."));
    };
    let mut words = format!("{name}: {does}. Read {}.", form.read);
    if !caveat.is_empty() {
        words += &format!(" {}.", caveat.trim_end_matches('.'));
    }
    if let Some(file) = &form.file {
        words += &format!(" {file}:");
    }
    section.text(words).command(text)
}

/// The answer in a sentence or two.
pub fn in_words(answer: &Answer<'_>) -> String {
    let (advice, setting) = (&answer.advice, &answer.setting);
    let names = |states: &mut dyn Iterator<Item = &StateAdvice>| {
        listed(&states.map(|one| one.state.as_str()).collect::<Vec<_>>())
    };
    let allowed = names(&mut advice.allowed());
    let sure = match advice.question.demand {
        Demand::Percentile(_) => format!(
            " The {} confidence holds for all states jointly.",
            advice.question.confidence
        ),
        Demand::Maximum => String::new(),
    };
    match &setting.decision.leaves {
        Leaves::Everything if allowed == "none" => {
            let why = advice.why_nothing_to_set().unwrap_or_default();
            format!("{}: no state to forbid.", upper(why))
        }
        Leaves::Everything => {
            format!("Every state is allowed, {allowed}: nothing to set.{sure}")
        }
        Leaves::UpTo { .. } => format!(
            "Allow {allowed}; keep out of {}{}.{}{sure}",
            listed(&setting.forbidden),
            setting.bound.map_or(String::new(), |bound| format!(
                ": a latency bound of {} µs",
                bound.us
            )),
            match advice
                .forbidden()
                .all(|one| one.standing == Standing::Exceeds)
            {
                true => String::new(),
                false => standings(advice, |_| true),
            }
        ),
        Leaves::NoSleep if advice.question.budget_us == 0 => {
            "No idle state at all: a budget of 0 allows none.".to_owned()
        }
        Leaves::NoSleep => format!(
            "No idle state at all: even {}, the shallowest, is over the budget.{}",
            setting.forbidden[0],
            standings(advice, |group| group != OVER)
        ),
        Leaves::NoSetting => {
            let why = advice.why_nothing().unwrap_or_default();
            let more = match advice.without_sleep.finding {
                Known::Exceeds => "",
                _ => " `reveille measure --each-state` measures that, too.",
            };
            format!("{}. Set nothing.{more}", upper(&why))
        }
        Leaves::Unknown { .. } => {
            let why = advice.why_nothing().unwrap_or_default();
            let over = standings(advice, |group| group == OVER);
            format!("Unknown: {why}. Set nothing yet.{over}")
        }
    }
}

/// A group of the states that may not stay, as it is named.
const OVER: &str = "Over the budget";

/// Of the states that may not stay: which for what was seen of them, and which for want of that.
fn standings(advice: &Advice, is_said: fn(&str) -> bool) -> String {
    let group = |one: &StateAdvice| match (one.standing, one.wanting()) {
        (Standing::Exceeds, _) => OVER,
        (Standing::Within, _) => "Within it, taken alone",
        (_, Some((_, None))) => "Not shown either way",
        _ => "Not measured enough",
    };
    let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
    for one in advice.forbidden() {
        match groups.iter_mut().find(|(name, _)| *name == group(one)) {
            Some((_, states)) => states.push(&one.state),
            None => groups.push((group(one), vec![&one.state])),
        }
    }
    let said = groups.iter().filter(|(name, _)| is_said(name));
    said.map(|(name, states)| format!(" {name}: {}.", listed(states)))
        .collect()
}

fn upper(clause: &str) -> String {
    let (first, rest) = clause.split_at_checked(1).unwrap_or_default();
    first.to_uppercase() + rest
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
    if advice.without_sleep.finding == Known::Exceeds {
        return None;
    }
    // A state in which nothing sleeps is allowed, whatever its datapoints show.
    let states = advice.states.iter();
    let in_question = states.filter(|one| one.standing != Standing::NoSleep);
    let wants = in_question.filter_map(StateAdvice::wanting);
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
    let others: Vec<String> = forbidden.filter(within).map(quoted).collect();
    Some(format!(
        "{} would be within the budget too, taken alone, but {} deeper than a state that is not. \
         `reveille limit --disable {}` leaves it; the confidence is then that of each state by \
         itself",
        listed(&alone),
        if alone.len() == 1 { "is" } else { "are" },
        others.join(",")
    ))
}

fn costs(answer: &Answer<'_>) -> Vec<String> {
    let (cost, setting) = (&answer.cost, &answer.setting);
    if !setting.decision.is_to_be_set() {
        return Vec::new();
    }
    let forbidden = listed(&setting.forbidden);
    let cpu = cpu_name(answer.target.measured_cpu);
    let residency = match cost.forbidden_time_percent {
        Some(percent) => format!(
            "{cpu} spent {} of its idle time, from boot to the run, in {forbidden}",
            share(percent / 100.0)
        ),
        None => format!("how long {cpu} spent in {forbidden} is not in the result"),
    };
    let residency = match setting.decision.leaves {
        Leaves::NoSleep => format!("the CPUs it is set on never sleep. {residency}"),
        _ => residency,
    };
    let watts = "the power is unknown: a result has none. `reveille trial` measures it, where there is \
                 a meter";
    let turbo = "cores that are kept in shallow states take turbo from the others";
    let medians: Vec<String> = cost
        .frequency
        .iter()
        .map(|one| {
            let ghz = three_digits(one.median_khz as f64 / 1e6);
            format!("{ghz} GHz after {}", one.state)
        })
        .collect();
    let turbo = match medians.is_empty() {
        true => format!("{turbo}; by how much is unknown"),
        false => format!("{turbo}. The CPU ran at {} (medians)", medians.join(", ")),
    };
    vec![residency, watts.to_owned(), turbo]
}

fn covers(answer: &Answer<'_>) -> String {
    let cpu = cpu_name(answer.target.measured_cpu);
    match &answer.target.coverage {
        Coverage::Result => format!(
            "{cpu} was measured; others are assumed to be alike. On a machine with several \
             kinds of core give it with --root"
        ),
        Coverage::AllAlike => {
            format!("{cpu} was measured; the machine's other CPUs are of its kind")
        }
        Coverage::Hybrid {
            kind,
            cpus,
            others,
            one_of_each,
        } => {
            let measure = one_of_each.iter();
            let measure: Vec<String> = measure
                .map(|cpu| format!("`reveille measure --cpu {cpu}`"))
                .collect();
            let (of, which) = match &measure[..] {
                [_] => ("another kind, which was", "one"),
                _ => ("other kinds, which were", "one of each"),
            };
            format!(
                "the {kind}, {}. {} {} of {of} not measured: measure {which} ({}) and run this again",
                cpulist::named(cpus),
                cpulist::named(others),
                if others.len() == 1 { "is" } else { "are" },
                listed(&measure)
            )
        }
    }
}

/// What a reader must know of the advice.
pub fn notes(answer: &Answer<'_>) -> Vec<String> {
    let advice = &answer.advice;
    let mut notes = Vec::new();
    for state in &advice.states {
        if state.standing == Standing::Off {
            notes.push(format!(
                "{} was disabled when it was measured, and is assumed to stay so.",
                state.state
            ));
        }
    }
    for (count, why) in [
        (advice.of_unknown_state, "of unknown idle state"),
        (advice.without_latency, "without this latency"),
    ] {
        if count > 0 {
            let datapoints = counted(count, "datapoint");
            notes.push(format!("Counted nowhere: {datapoints} {why}."));
        }
    }
    if answer.setting.decision.is_to_be_set() && answer.as_the_governor_chose {
        notes.push(
            "The states were measured as the governor chose them. With deeper ones forbidden the \
             others last longer, and colder caches may slow their wakes: `reveille measure \
             --each-state` shows that."
                .to_owned(),
        );
    }
    notes.extend(answer.notes.iter().cloned());
    notes
}
