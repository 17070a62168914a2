//! The page of `reveille trial`: what each setting gave and what it cost.

mod rounds;
mod tables;
mod trade;

use std::fmt::Write as _;

use reveille_trial::result::{Trial, parse};
use reveille_trial::sentence::sentences;
use reveille_trial::verdict::Cost;
use reveille_trial::workload::NANOSECONDS;
use serde_json::json;

use reveille_show::axis::Axis;
use reveille_show::chart::{Quantity, colour};
use reveille_show::markup::escape;
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
        &[about(&trial)],
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

fn about(trial: &Trial) -> String {
    let machine = &trial.about.machine;
    let known = [
        Some(trial.workload.what.clone()),
        machine.hostname.clone(),
        machine.cpu_model.clone(),
        machine
            .kernel
            .as_ref()
            .map(|kernel| format!("Linux {kernel}")),
        Some(trial.about.started.clone()),
        Some(trial.about.tool.clone()),
    ];
    let known = known.into_iter().flatten().filter(|word| !word.is_empty());
    known.collect::<Vec<_>>().join(" · ")
}

/// The sentences, what had no answer, and what a reader must know.
fn headline(trial: &Trial) -> String {
    let mut html = String::new();
    let all = sentences(trial);
    if all.is_empty() {
        html.push_str("<p class=\"headline\">No setting gave a figure.</p>");
    }
    for (place, sentence) in all.iter().enumerate() {
        let class = if place == 0 { "headline" } else { "notice" };
        // Writing to a String cannot fail.
        let _ = write!(
            html,
            "<p class=\"{class}\">{}</p>",
            escape(&plain(sentence))
        );
    }
    for note in &trial.notes {
        let _ = write!(
            html,
            "<p class=\"notice\" role=\"note\">{}</p>",
            escape(&plain(note))
        );
    }
    html
}

/// Names in quotation marks instead of the terminal's.
pub(crate) fn plain(sentence: &str) -> String {
    let mut open = false;
    let quote = |character: char| match character {
        '`' => {
            open = !open;
            if open { '“' } else { '”' }
        }
        other => other,
    };
    sentence.chars().map(quote).collect()
}

fn charts(trial: &Trial) -> String {
    let figures = [
        trade::chart(trial),
        rounds::spread(trial),
        rounds::over_time(trial),
    ];
    format!(
        "<section id=\"charts\"><h2>Latency and cost</h2>{}<div class=\"charts\">{}</div></section>",
        legend(trial),
        figures.concat()
    )
    .replacen("Latency and cost", heading(trial), 1)
}

fn heading(trial: &Trial) -> &'static str {
    match trial.cost {
        Some(Cost::Power) => "The figure against power",
        Some(Cost::TimeAwake) => "The figure against time awake",
        None => "The figure",
    }
}

/// Which colour is which setting.
fn legend(trial: &Trial) -> String {
    let mut html = String::from("<p class=\"keys\">");
    for (place, setting) in trial.settings.iter().enumerate() {
        let _ = write!(
            html,
            "<span class=\"key {}\"><i></i>{}</span> ",
            colour(place),
            escape(&setting.name)
        );
    }
    html.push_str("</p>");
    html
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
    let idle = format!(
        "Idle driver {}, governor {}.",
        trial.about.driver.as_deref().unwrap_or("none"),
        trial.about.governor.as_deref().unwrap_or("none")
    );
    format!(
        "<section><h2>How it was tried</h2><p>{}</p>{}<p class=\"about\">{}</p></section>",
        escape(&format!(
            "{} rounds were asked for, each setting once in each, after {} s to settle; seed {}.{pace} \
             {idle}",
            plan.rounds, plan.settle_s, plan.seed
        )),
        tables::changes(trial),
        escape(&trial.about.command_line.join(" "))
    )
}

/// How the workload's figures are written on an axis.
fn quantity(trial: &Trial) -> Quantity {
    match trial.workload.unit.as_str() {
        NANOSECONDS => Quantity::Duration,
        _ => Quantity::Number,
    }
}

/// What the figure is called on an axis.
fn figure_name(trial: &Trial) -> String {
    match trial.workload.unit.as_str() {
        NANOSECONDS => trial.workload.figure.clone(),
        "" => "figure".into(),
        unit => format!("figure, {unit}"),
    }
}

/// From zero where the figures are alike, logarithmic where they are not.
fn figure_axis(figures: impl Iterator<Item = f64> + Clone) -> Axis {
    /// Above this ratio small figures would lie on the axis.
    const RATIO: f64 = 8.0;
    let max = figures.clone().fold(f64::MIN, f64::max);
    let min = figures.fold(f64::MAX, f64::min);
    match min > 0.0 && max / min > RATIO {
        true => Axis::logarithmic(min, max),
        false => Axis::from_zero(max * 1.1),
    }
}

fn figure(title: &str, body: &str) -> String {
    format!(
        "<figure><figcaption>{}</figcaption>{body}</figure>",
        escape(title)
    )
}

fn absent(title: &str, why: &str) -> String {
    figure(
        title,
        &format!("<p class=\"absent\">Not drawn: {}.</p>", escape(why)),
    )
}
