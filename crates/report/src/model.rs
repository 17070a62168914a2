//! The page of `reveille model sweep`: power and response time of each policy at every load.

mod charts;
mod tables;

use std::fmt::Write as _;

use reveille_model::sentence;
use reveille_model::sweep::Sweep;
use serde_json::json;

use reveille_show::markup::escape;
use reveille_show::page::framed;

/// The page of a sweep. `notes` are what a reader must know of where its parameters come from.
pub fn page(sweep: &Sweep, notes: &[String], title: Option<&str>) -> String {
    let title = title.unwrap_or("What sleeping servers save, and what their requests pay");
    let body = [
        headline(sweep, notes),
        charts(sweep),
        "<section><h2>Figures</h2>".to_owned(),
        tables::crossings(sweep),
        tables::figures(sweep),
        tables::years(sweep),
        "</section>".to_owned(),
        assumptions(sweep),
    ];
    framed(title, &[about(sweep)], &body.concat(), NOTE, &json!([]))
}

const NOTE: &str = "Closed forms, exact for Poisson arrivals at one server with one queue, in the order \
                    of arrival; for other arrivals they are estimates, and the simulator takes any. \
                    Relative figures are by what a server without power management draws and takes \
                    at the same load.";

fn about(sweep: &Sweep) -> String {
    let service = &sweep.parameters.service;
    format!(
        "{} policies at {} loads · {} service times, mean {} · reveille {}",
        sweep.parameters.policies.len(),
        sweep.points.len(),
        service.name(),
        sentence::time(service.mean()),
        env!("CARGO_PKG_VERSION")
    )
}

/// Where policies cross, and what a reader must know.
fn headline(sweep: &Sweep, notes: &[String]) -> String {
    let mut html = String::new();
    let all = sweep.pairs.iter().map(sentence::both);
    for (place, line) in all.enumerate() {
        let class = if place == 0 { "headline" } else { "notice" };
        // Writing to a String cannot fail.
        let _ = write!(html, "<p class=\"{class}\">{}</p>", escape(&line));
    }
    for note in notes {
        let _ = write!(
            html,
            "<p class=\"notice\" role=\"note\">{}</p>",
            escape(note)
        );
    }
    html
}

fn charts(sweep: &Sweep) -> String {
    format!(
        "<section id=\"charts\"><h2>At every load</h2>{}<div class=\"charts\">{}</div></section>",
        legend(sweep),
        charts::all(sweep)
    )
}

/// Which colour is which policy; dashes where the colours begin again.
fn legend(sweep: &Sweep) -> String {
    let mut html = String::from("<p class=\"keys\">");
    for (place, named) in sweep.parameters.policies.iter().enumerate() {
        let _ = write!(
            html,
            "<span class=\"key {}\"><i></i>{}</span> ",
            charts::class(place),
            escape(&named.name)
        );
    }
    if !sweep.parameters.has_always_on() {
        let _ = write!(
            html,
            "<span class=\"key {}\"><i></i>always on</span>",
            charts::ALWAYS_ON
        );
    }
    html.push_str("</p>");
    html
}

/// What was taken for the whole and for each policy.
fn assumptions(sweep: &Sweep) -> String {
    let mut html = String::from("<section><h2>What was assumed</h2>");
    for line in sentence::assumptions(&sweep.parameters) {
        let _ = write!(html, "<p>{}</p>", escape(&line));
    }
    html.push_str(&tables::policies(sweep));
    html.push_str("</section>");
    html
}

#[cfg(test)]
mod tests {
    use super::*;
    use reveille_model::parameters::{Farm, Parameters};

    fn made() -> String {
        let mut parameters = Parameters::paper();
        parameters.policies[0].name = "<b>nap</b>".into();
        parameters.farm = Some(Farm {
            servers: 1000,
            price_per_kwh: Some(0.2),
            overhead: 1.3,
        });
        let sweep = Sweep::of(&parameters).unwrap();
        page(&sweep, &["from <i>here</i>".into()], None)
    }

    #[test]
    fn the_page_has_both_of_the_papers_figures_with_a_line_for_each_policy() {
        let html = made();
        assert_eq!(html.matches("<svg class=\"plot\"").count(), 4);
        // Five policies and always-on in each chart.
        assert_eq!(html.matches("<path class=\"curve ").count(), 4 * 6);
        // Four crossings in power and two in response time, in two charts each.
        assert_eq!(html.matches("<g class=\"crossing ").count(), 2 * (4 + 2));
        assert!(html.contains("draws less than DVFS below 34.9 % load;"));
        assert!(html.contains("In a year"));
    }

    #[test]
    fn names_and_notes_do_not_become_markup() {
        let html = made();
        assert!(!html.contains("<b>nap") && !html.contains("<i>here"));
        assert!(html.contains("&lt;b&gt;nap&lt;/b&gt;"));
    }

    #[test]
    fn the_same_sweep_makes_the_same_page() {
        assert_eq!(made(), made());
    }
}
