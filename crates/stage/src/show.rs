//! What was staged, for people: the account of each service.

use reveille_show::columns;
use reveille_show::quantity::{count, counted};
use reveille_show::sheet::{Column, Heading, Judgement, Section, Sheet, Table, Value};

use crate::counts::Served;

const SERVICES: &[Column<Served>] = &columns!(|one|
    words "name", "service", one.name.as_str(), "The service's name";
    measured(Count) "requests", "requests", one.counts.requests, "Requests that came";
    measured(Count) "held", "held", one.counts.held, "Of them, those that were held";
    measured(Count) "bursts", "bursts", one.counts.bursts, "Times that held requests were released";
    measured(Count) detail "early", "early", one.counts.early,
        "Of these times, those before they had to go: their server ran for others";
    measured(Seconds) "held_mean_s", "held for", one.held_mean_s, "How long these were held, mean";
    measured(Seconds) "latency_mean_s", "latency", one.latency_mean_s,
        "From a request's arrival to its response's headers, mean";
    measured(Count) "missed", "missed", judged(one.counts.missed),
        "Answered after the deadline because they were held";
    measured(Count) "late", "late", judged(one.counts.late), "Answered after the deadline because of the server alone";
    measured(Count) "failed", "failed", judged(one.counts.failed), "Requests that the server did not answer";
    measured(Count) detail "broken", "broken", judged(one.counts.broken), "Responses that the server broke off";
    measured(Count) detail "refused", "refused", one.counts.refused,
        "Requests that are none, or whose body broke off";
    measured(Count) detail "gone", "gone", one.counts.gone, "Requests whose client went while they were held";
    measured(Count) detail "passed_learning", "learning", one.counts.passed_learning,
        "Not held, as too little was known of the server";
    measured(Count) detail "passed_awake", "awake", one.counts.passed_awake, "Not held, as the server was awake";
    measured(Count) detail "passed_deadline", "no time", one.counts.passed_deadline,
        "Not held, as that would have broken the deadline";
    measured(Count) detail "passed_busy", "busy", one.counts.passed_busy,
        "Not held, as the server was busy for most of its time";
    measured(Count) detail "passed_exempt", "exempt", one.counts.passed_exempt, "Not held, by the user's wish";
    measured(Seconds) detail "one_request_s", "one takes", one.one_request_s,
        "How long one request takes at the service's percentile, as learnt";
);

/// A count that is notable unless it is 0.
pub fn judged(count: u64) -> Value {
    let value: Value = count.into();
    match count {
        0 => value,
        _ => value.judged(Judgement::Notable),
    }
}

/// The columns, by the list in the JSON that holds its rows.
pub fn reference() -> Vec<(&'static str, Vec<Heading>)> {
    vec![("[]", Column::headings(SERVICES))]
}

/// The account at the end of a run.
pub fn sheet(services: &[Served]) -> Sheet<'static> {
    let sum = |of: fn(&Served) -> u64| services.iter().map(of).sum::<u64>();
    let (requests, held) = (sum(|one| one.counts.requests), sum(|one| one.counts.held));
    let missed = match sum(|one| one.counts.missed) {
        0 => "no deadline was missed because of it".to_owned(),
        missed => format!("{} missed because of it", counted(missed, "deadline")),
    };
    let mut sheet = Sheet {
        title: "reveille stage".to_owned(),
        answer: format!(
            "{} of {} held; {missed}.",
            count(held),
            counted(requests, "request")
        ),
        ..Sheet::default()
    };
    sheet.section(
        Section::new("services", "Services").table(Table::of("", SERVICES, services).whole()),
    );
    sheet
}
