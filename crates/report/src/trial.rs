//! The page of `reveille trial`: what each setting gave and what it cost.

mod figure;
mod rounds;
mod tables;
mod trade;

use reveille_trial::result::{Trial, parse};
use reveille_trial::sentence::sentences;
use reveille_trial::verdict::Cost;
use serde_json::json;

use crate::compared;
use reveille_show::chart::colour;
use reveille_show::page::framed;

/// The page of a `trial.json`.
///
/// # Errors
/// One line of what is wrong with it.
pub fn page(text: &[u8], title: Option<&str>) -> Result<String, String> {
    let trial = parse(text)?;
    let title = title.map_or_else(|| format!("Trial: {}", trial.about.name), str::to_owned);
    let body = [
        headline(&trial),
        charts(&trial),
        "<section><h2>Figures</h2>".to_owned(),
        tables::figures(&trial),
        tables::machine(&trial),
        tables::residency(&trial),
        "</section>".to_owned(),
        setup(&trial),
    ];
    Ok(framed(
        &title,
        &[compared::about(
            &trial.about,
            std::slice::from_ref(&trial.workload.what),
        )],
        &body.concat(),
        NOTE,
        &json!([]),
    ))
}

const NOTE: &str = "Settings took turns in shuffled order, round by round. Differences are paired by \
                    round; their 95 % intervals are those of the signed-rank test for medians, and \
                    of a jackknife over rounds for the 99th percentile. Residency is what the \
                    kernel asked for, in shares of all CPUs' time; a polling CPU is awake. What the \
                    machine did includes the work of others on it.";

/// The sentences, and what a reader must know.
fn headline(trial: &Trial) -> String {
    let mut all = sentences(trial);
    if all.is_empty() {
        all.push("No setting gave a figure.".into());
    }
    compared::headline(&all, &trial.notes)
}

fn charts(trial: &Trial) -> String {
    let figures = [
        trade::chart(trial),
        rounds::spread(trial),
        rounds::over_time(trial),
    ];
    let settings = trial.settings.iter().enumerate();
    let keys = settings.map(|(place, setting)| (colour(place), setting.name.as_str()));
    format!(
        "<section id=\"charts\"><h2>{}</h2>{}<div class=\"charts\">{}</div></section>",
        heading(trial),
        compared::legend(keys),
        figures.concat()
    )
}

fn heading(trial: &Trial) -> &'static str {
    match trial.cost {
        Some(Cost::Power) => "The figure against power",
        Some(Cost::TimeAwake) => "The figure against time awake",
        None => "The figure",
    }
}

/// What was changed by each setting, and how the trial went about it.
fn setup(trial: &Trial) -> String {
    let plan = &trial.plan;
    let pace = trial.workload.pace.as_ref().map_or(String::new(), |pace| {
        format!(
            " Each turn had {} requests of {} bytes, {} ms apart on average; an answer was waited \
             for {} ms.",
            pace.requests_per_round, pace.size_bytes, pace.interval_ms, pace.timeout_ms
        )
    });
    let how = format!(
        "{} rounds were requested, each setting once in each, after {} s to settle; seed {}.{pace}",
        plan.rounds, plan.settle_s, plan.seed
    );
    let changes = tables::changes(trial);
    compared::setup(&trial.about, "How it was measured", &how, &changes)
}
