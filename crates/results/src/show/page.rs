//! The page of one result, or of several side by side.

use reveille_show::quantity::{counted, listed};
use reveille_show::sheet::{Section, Sheet};

use super::notices::{notices, subject};
use super::statistics::{Row, distribution, tails, verdicts};
use super::view::{View, Views};
use super::{charts, difference, machine, outliers, sources, verdicts as words};
use crate::compare::Comparisons;

/// What the figures of a page of wake latencies are.
const FOOT: &str = "Figures come from the idle driver's table, from what was measured, or from an \
                    estimate, as each head shows. Times are wake latencies if nothing else is \
                    stated: from the launch time to the first instruction, less the \
                    instrument's overhead.";

/// The results, with all their datapoints, by the title `given` or their names. It is the same for the same results.
pub fn sheet<'a>(views: &'a Views<'a>, given: Option<&str>) -> Sheet<'a> {
    let titles: Vec<String> = views.views.iter().map(View::title).collect();
    let title = format!("Wake latency: {}", titles.join(", "));
    let comparisons = difference::all(views);
    let mut sheet = Sheet {
        title: given.map_or(title, str::to_owned),
        about: views.views.iter().map(about).collect(),
        answer: views.views[0].input.told(answer(views, &comparisons)),
        data: outliers::data(&views.views),
        foot: FOOT,
        ..Sheet::default()
    };
    for view in &views.views {
        let datapoints = counted(view.input.datapoints() as u64, "datapoint");
        let subject = subject(&view.input.loaded.description);
        sheet.fact("Measured", format!("{}{subject}, {datapoints}", view.who()));
    }
    notices(&views.views, &mut sheet);
    let rows = rows(views);
    let differences = difference::section(views, &comparisons);
    let method = difference::method(&comparisons);
    sheet.section(
        Section::new("summary", "By idle state")
            .leading()
            .chart(move || charts::lead(views, &comparisons))
            .table(verdicts(&rows)),
    );
    sheet.section(views.views.iter().fold(sources::empty(), |section, view| {
        sources::section(section, &view.who(), &view.input.loaded.description)
    }));
    sheet.section(differences);
    sheet.section(method);
    sheet.section(Section::new("overview", "All datapoints").chart(|| charts::overview(views)));
    sheet.section(Section::new("states", "State by state").chart(|| charts::states(views)));
    sheet.section(Section::new("residency", "Residency").chart(|| charts::residency(views)));
    let section = Section::new("statistics", "Statistics").table(distribution(&rows));
    sheet.section(section.detail());
    sheet.section(tails(&rows));
    sheet.section(machine::settings(views).detail());
    sheet
}

/// The verdicts on one result's states, or what differs between several.
fn answer(views: &Views<'_>, comparisons: &[Comparisons]) -> String {
    let is_empty = |view: &&View<'_>| view.input.datapoints() == 0;
    let empty: Vec<String> = views
        .views
        .iter()
        .filter(is_empty)
        .map(View::title)
        .collect();
    match &views.views[..] {
        [one] => words::answer(&one.input.loaded.description),
        _ if !empty.is_empty() => format!(
            "No datapoints in {}. {}",
            listed(&empty),
            difference::answer(views, comparisons)
        ),
        _ => difference::answer(views, comparisons),
    }
}

/// Every result's statistics, state by state so that results stand one below the other.
fn rows(views: &Views<'_>) -> Vec<Row> {
    let of_view = |view: &View<'_>| {
        let statistics = view.input.loaded.description.statistics.clone();
        let result = view.letter.clone().unwrap_or_default();
        statistics.into_iter().map(move |of| Row {
            result: result.clone(),
            of,
        })
    };
    let mut rows: Vec<Row> = views.views.iter().flat_map(of_view).collect();
    // Stable: results stay in their order.
    rows.sort_by_key(|row| {
        let one = &row.of;
        (
            one.index.unwrap_or(i32::MAX),
            one.state.clone(),
            one.source.clone(),
        )
    });
    rows
}

fn about(view: &View<'_>) -> String {
    let description = &view.input.loaded.description;
    let mut parts = vec![counted(view.input.datapoints() as u64, "datapoint")];
    parts.extend(description.machine.words());
    let started = Some(description.started.clone()).filter(|started| !started.is_empty());
    parts.extend(started.into_iter().chain([description.tool.clone()]));
    format!("{}{}", view.who(), parts.join(" · "))
}
