//! The page of `reveille anticipate bench`: what each policy gave and what it took.

mod charts;
mod panels;
mod tables;

use std::fmt::Write as _;

use reveille_anticipate::bench::policy::Policy;
use reveille_anticipate::bench::result::{Bench, parse};
use reveille_anticipate::bench::sentence::sentences;
use serde_json::json;

use crate::trial::plain;
use reveille_show::chart::colour;
use reveille_show::markup::escape;
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
    let body = [
        headline(&bench),
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
        &[about(&bench)],
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

fn about(bench: &Bench) -> String {
    let machine = &bench.about.machine;
    let kernel = machine.kernel.as_ref();
    let device = bench.workload.device.as_ref();
    let known = [
        Some(bench.workload.what.clone()),
        device.map(|name| format!("on {name}")),
        machine.hostname.clone(),
        machine.cpu_model.clone(),
        kernel.map(|kernel| format!("Linux {kernel}")),
        Some(bench.about.started.clone()),
        Some(bench.about.tool.clone()),
    ];
    let known = known.into_iter().flatten().filter(|word| !word.is_empty());
    known.collect::<Vec<_>>().join(" · ")
}

/// The sentences, and what a reader must know.
fn headline(bench: &Bench) -> String {
    let mut html = String::new();
    for (place, sentence) in sentences(bench).iter().enumerate() {
        let class = if place == 0 { "headline" } else { "notice" };
        // Writing to a String cannot fail.
        let _ = write!(
            html,
            "<p class=\"{class}\">{}</p>",
            escape(&plain(sentence))
        );
    }
    for note in &bench.notes {
        let note = escape(&plain(note));
        let _ = write!(html, "<p class=\"notice\" role=\"note\">{note}</p>");
    }
    html
}

fn charts(bench: &Bench) -> String {
    if bench.rows.is_empty() {
        return String::new();
    }
    format!(
        "<section id=\"charts\"><h2>What each policy gives and takes</h2>{}<div class=\"charts\">{}{}</div>\
         </section>",
        legend(bench),
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

/// Which colour is which policy.
fn legend(bench: &Bench) -> String {
    let mut html = String::from("<p class=\"keys\">");
    for used in &bench.policies {
        let _ = write!(
            html,
            "<span class=\"key {}\"><i></i>{}</span> ",
            colour_of(used.policy),
            used.policy.name()
        );
    }
    html.push_str("</p>");
    html
}

/// What each policy changed, and how the benchmark went about it.
fn setup(bench: &Bench) -> String {
    let plan = &bench.plan;
    let idle = format!(
        "Idle driver {}, governor {}.",
        bench.about.driver.as_deref().unwrap_or("none"),
        bench.about.governor.as_deref().unwrap_or("none")
    );
    format!(
        "<section><h2>How it was measured</h2><p>{}</p>{}<p class=\"about\">{}</p></section>",
        escape(&format!(
            "{} of {} rounds, each policy once in each, on CPU {}; a turn ends after {} waits or {} s, \
             and {} before them do not count; seed {}. {idle}",
            bench.complete_rounds(),
            plan.rounds,
            plan.cpu,
            plan.waits,
            plan.turn_s,
            plan.warm_up,
            plan.seed
        )),
        tables::policies(bench),
        escape(&bench.about.command_line.join(" "))
    )
}
