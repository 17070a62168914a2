//! The page of `reveille anticipate bench`: what each policy gave and what it took.

mod charts;
mod panels;
mod tables;

use reveille_anticipate::bench::policy::Policy;
use reveille_anticipate::bench::result::{Bench, parse};
use reveille_anticipate::bench::sentence::sentences;
use serde_json::json;

use crate::compared;
use reveille_show::chart::colour;
use reveille_show::page::framed;

/// The page of a `bench.json`.
///
/// # Errors
/// One line of what is wrong with it.
pub fn page(text: &[u8], title: Option<&str>) -> Result<String, String> {
    let bench = parse(text)?;
    let title = title.map_or_else(
        || format!("Waking in time: {}", bench.about.name),
        str::to_owned,
    );
    let device = bench.workload.device.iter();
    let what: Vec<String> = [bench.workload.what.clone()]
        .into_iter()
        .chain(device.map(|name| format!("on {name}")))
        .collect();
    let body = [
        compared::headline(&sentences(&bench), &bench.notes),
        charts(&bench),
        "<section><h2>Figures</h2>".to_owned(),
        tables::figures(&bench),
        tables::gains(&bench),
        tables::changes(&bench),
        "</section>".to_owned(),
        setup(&bench),
    ];
    Ok(framed(
        &title,
        &[compared::about(&bench.about, &what)],
        &body.concat(),
        NOTE,
        &json!([]),
    ))
}

const NOTE: &str = "Policies took turns in shuffled order, round by round. A figure is the median over \
                    rounds of each round's figure, with the sign test's interval of at least 95 %; \
                    shares and differences are taken round by round, too. Time awake is that of the \
                    CPU on which the workload waits, its own work and that of others among it: what \
                    neither cpuidle nor the scheduler counts as sleep.";

fn charts(bench: &Bench) -> String {
    if bench.rows.is_empty() {
        return String::new();
    }
    let policies = bench.policies.iter().map(|used| used.policy);
    let keys = policies.map(|policy| (colour_of(policy), policy.name()));
    format!(
        "<section id=\"charts\"><h2>What each policy gives and takes</h2>{}<div class=\"charts\">{}{}</div>\
         </section>",
        compared::legend(keys),
        charts::gives_and_takes(bench),
        charts::regained(bench)
    )
}

/// The same colour on every page, and far from each other.
fn colour_of(policy: Policy) -> String {
    colour(match policy {
        Policy::AsIs => 0,
        Policy::Shallowest => 2,
        Policy::NoSleep => 4,
        Policy::Poll => 3,
        Policy::Anticipate => 1,
    })
}

/// What each policy changed, and how the benchmark went about it.
fn setup(bench: &Bench) -> String {
    let plan = &bench.plan;
    let how = format!(
        "{} of {} rounds, each policy once in each, on CPU {}; a turn ends after {} waits or {} s, and \
         {} before them do not count; seed {}.",
        bench.complete_rounds(),
        plan.rounds,
        plan.cpu,
        plan.waits,
        plan.turn_s,
        plan.warm_up,
        plan.seed
    );
    let changes = tables::policies(bench);
    compared::setup(&bench.about, "How it was measured", &how, &changes)
}
