//! Advice for people: the names, units and words of its figures.

mod evidence;
mod held;
mod rewritten;
mod setting;

use reveille_results::show::{by_probe, subject};
use reveille_show::columns;
use reveille_show::quantity::up;
use reveille_show::sheet::{
    Column, EXIT, EXIT_LATENCY, Heading, Judgement, Section, Sheet, Table, Value,
};

pub use held::{Statement, hold, hold_reference, limit, limit_reference};
pub use rewritten::{reference as table_reference, sheet as table_sheet};

use crate::{Answer, Demand, SourceEvidence, Standing, StateAdvice};

/// A state by one source; by none where it was not measured.
struct Row {
    state: StateAdvice,
    evidence: Option<SourceEvidence>,
    budget_ns: f64,
}

impl Row {
    fn figure<T: Into<Value>>(&self, figure: fn(&SourceEvidence) -> T) -> Value {
        self.evidence.as_ref().map(figure).into()
    }

    fn against_budget<T: Into<Value>>(&self, figure: fn(&SourceEvidence) -> T) -> Value {
        self.figure(figure).within(Some(self.budget_ns))
    }
}

/// The columns whose figures are the state's, by whatever source.
const OF_STATE: [&str; 3] = ["state", "standing", "driver_exit_latency_us"];

const COLUMNS: &[Column<Row>] = &columns!(|row|
    words "state", "state", row.state.state.as_str(), "The idle state";
    words "standing", "verdict", standing(&row.state),
        "`allowed` (in JSON `within`, and `allowed` is true); `within` the budget, but deeper than a state \
         that is not; `exceeds` it; `not shown` (`not_shown`) to be within it, nor to exceed it; `off` when it was measured; \
         `no sleep` (`no_sleep`) for a state that polls";
    words "source", "source", row.figure(|one| one.source.clone()), "What woke the CPU";
    driver(Us) "driver_exit_latency_us", EXIT, row.state.driver_exit_latency_us,
        EXIT_LATENCY;
    measured(Count) "count", "count", row.figure(|one| one.count), "Datapoints";
    measured(Ns) "median_ns", "median", row.figure(|one| one.median_ns), "Median latency";
    measured(Ns) "percentile_ns", "seen", row.against_budget(|one| one.percentile_ns),
        "The percentile as it was measured; unknown unless ten datapoints lie beyond it";
    estimated(Ns) "percentile_high_ns", "at most",
        row.against_budget(|one| Value::at_most(one.percentile_high_ns)),
        "Upper bound of the percentile, with the confidence asked for";
    measured(Ns) "max_ns", "max", row.figure(|one| one.max_ns), "Maximum latency";
    measured(Count) "exceeded", "over", row.figure(|one| one.exceeded), "Datapoints over the budget";
    estimated(Share) "exceeded_share_high", "share ≤",
        row.figure(|one| up(one.exceeded_share_high * 100.0) / 100.0),
        "Upper bound of the share of wakes over the budget, with the confidence asked for";
);

/// The columns of every table of [`Answer`], by the list in the JSON that holds its rows.
pub fn reference() -> Vec<(&'static str, Vec<Heading>)> {
    let (of_state, of_source) = Column::headings(COLUMNS)
        .into_iter()
        .partition(|heading| OF_STATE.contains(&heading.key));
    vec![("states[]", of_state), ("states[].evidence[]", of_source)]
}

/// The answer for every medium, with the first form of the setting or `all_forms`.
pub fn sheet<'a>(answer: &'a Answer<'_>, all_forms: bool) -> Sheet<'a> {
    let question = &answer.advice.question;
    let mut sheet = Sheet {
        title: format!("Idle states for {question}"),
        answer: setting::in_words(answer),
        notes: setting::notes(answer),
        ..Sheet::default()
    };
    facts(answer, &mut sheet);
    let states = answer.advice.states.iter();
    let rows: Vec<Row> = states
        .flat_map(|state| {
            let mut evidence: Vec<_> = state.evidence.iter().cloned().map(Some).collect();
            if evidence.is_empty() {
                evidence.push(None);
            }
            evidence.into_iter().map(|evidence| Row {
                state: state.clone(),
                evidence,
                budget_ns: question.budget_ns() as f64,
            })
        })
        .collect();
    let caption = format!("States by {}", question.latency);
    let mut table = Table::of(caption, COLUMNS, &rows).whole();
    if answer.advice.sources.len() <= 1 {
        table = table.without(&["source"]);
    }
    let words = answer.advice.states.iter();
    let words = words.flat_map(|state| evidence::words(state, question.demand));
    sheet.section(words.fold(
        Section::new("states", "Idle states").table(table),
        Section::text,
    ));
    sheet.section(setting::forms(answer, all_forms));
    sheet
}

fn facts(answer: &Answer<'_>, sheet: &mut Sheet<'_>) {
    let question = &answer.advice.question;
    sheet.fact("Result", subject(answer.description));
    sheet.fact(
        "Asked",
        match question.demand {
            Demand::Percentile(_) => format!(
                "{question} of the {}, with {} confidence",
                question.latency, question.confidence
            ),
            Demand::Maximum => format!(
                "{} µs as the maximum {} that was seen; a maximum is not a guarantee, it grows with the \
                 datapoints",
                question.budget_us, question.latency
            ),
        },
    );
    let sources = match answer.advice.sources.is_empty() {
        true => "unknown".to_owned(),
        false => answer.advice.sources.join(", "),
    };
    let probe = by_probe(answer.description);
    sheet.detail("Measured", format!("{probe}; woken by: {sources}"));
    if let Some(early) = answer.description.ended.early() {
        sheet.fact("Ended", early);
    }
    setting::facts(answer, sheet);
}

fn standing(state: &StateAdvice) -> Value {
    let (words, judgement) = match (state.standing, state.allowed) {
        (Standing::NoSleep, _) => ("no sleep", None),
        (Standing::Within, true) => ("allowed", Some(Judgement::Good)),
        (Standing::Within, false) => ("within", None),
        (Standing::Exceeds, _) => ("exceeds", Some(Judgement::Bad)),
        (Standing::NotShown, _) => ("not shown", Some(Judgement::Notable)),
        (Standing::Off, _) => ("off", None),
    };
    Value::from(words).judged(judgement)
}
