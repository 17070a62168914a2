//! The results for readers.

use reveille_model::answers::{Questions, Swept};
use reveille_model::comparison::Comparison;
use reveille_model::p99::P99;
use reveille_model::parameters::{Arrivals, Farm, Parameters};
use reveille_model::run::Run;
use reveille_model::service::Service;
use reveille_model::show;
use reveille_model::sweep::Sweep;
use reveille_show::sheet::{Heading, not_in_json};
use reveille_show::text::{Detail, write};
use reveille_show::web;
use std::ops::ControlFlow;

fn farm() -> Parameters {
    let mut parameters = Parameters::paper();
    parameters.policies[0].name = "<b>nap</b>".into();
    parameters.farm = Some(Farm {
        servers: 1000,
        price_per_kwh: Some(0.2),
        overhead: 1.3,
    });
    parameters.simulation.requests = 30_000;
    parameters
}

fn made() -> String {
    let sweep = Sweep::of(&farm()).unwrap();
    let swept = Swept::of(&farm(), &Questions::default(), &[]).unwrap();
    let notes = ["from <i>here</i>".to_owned()];
    web::page(&show::sweep(&sweep, swept.years.as_deref(), &notes))
}

#[test]
fn the_page_has_both_of_the_papers_figures_with_a_line_for_each_policy() {
    let html = made();
    assert_eq!(html.matches("<svg class=\"plot\"").count(), 4);
    // Five policies and always-on in each chart.
    assert_eq!(html.matches("<path class=\"curve ").count(), 4 * 6);
    // Four crossings in power and two in response time, in two charts each.
    assert_eq!(html.matches("<g class=\"crossing ").count(), 2 * (4 + 2));
    let crossing = "below 34.9% load";
    assert!(html.contains(crossing));
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

#[test]
fn a_table_has_the_first_and_the_last_load() {
    let sweep = Sweep::of(&Parameters::paper()).unwrap();
    let mut text = Vec::new();
    write(&show::sweep(&sweep, None, &[]), Detail::Short, &mut text).unwrap();
    let text = String::from_utf8_lossy(&text).into_owned();
    let heads = text
        .lines()
        .find(|line| line.starts_with("policy"))
        .unwrap();
    assert_eq!(heads.matches('%').count(), 6, "{heads}");
    assert!(heads.contains("  1%") && heads.ends_with("95%"), "{heads}");
}

/// At 38 ms a request, 99% load: 3.8 s in the mean, and ln 100 times that at p99.
#[test]
fn a_p99_is_exact_or_has_an_interval_or_is_not_converged() {
    let p99s = |load: f64, service: Option<Service>| {
        let mut parameters = Parameters::default();
        parameters.arrivals = Arrivals::Utilisation(load);
        parameters.service = service.unwrap_or(parameters.service);
        let go_on = &mut |_: &_, _, _: Option<&_>| ControlFlow::Continue(());
        let run = Run::of(&parameters, &[], go_on).unwrap();
        ["always on", "nap 50 ms"].map(|policy| run.p99(policy).unwrap())
    };
    let exact = 3.8 * 100_f64.ln();
    let [on, nap] = p99s(0.99, None);
    let P99::ClosedForm { response_s } = on else {
        panic!("{on:?}");
    };
    assert!((response_s / exact - 1.0).abs() < 1e-9, "{on:?}");
    let P99::Simulation {
        response_s,
        half_width_s: Some(half),
    } = nap
    else {
        panic!("{nap:?}");
    };
    // A nap adds little to what the queue takes, and that is known well by the same requests.
    assert!(response_s > exact && response_s - exact < 0.3, "{nap:?}");
    assert!(half < 0.05 * exact, "{nap:?}");
    let [on, nap] = p99s(0.999, None);
    assert!(matches!(on, P99::ClosedForm { .. }), "{on:?}");
    assert!(
        nap.lacks().is_some_and(|requests| requests > 300_000_000),
        "{nap:?}"
    );
    let mean = 0.038;
    let [on, _] = p99s(0.5, Some(Service::Deterministic { mean }));
    assert!(matches!(on, P99::Simulation { .. }), "{on:?}");
}

/// The lists, except for the columns that other lists have.
fn check(json: &serde_json::Value, lists: Vec<(&str, Vec<Heading>)>, elsewhere: &[&str]) {
    for (list, headings) in lists {
        let mut missing = not_in_json(json, list, &headings);
        missing.retain(|key| !elsewhere.contains(key));
        assert!(missing.is_empty(), "{list}: {missing:?}");
    }
}

#[test]
fn every_column_is_a_field_of_the_json() {
    let parameters = farm();
    let go_on = &mut |_: &_, _, _: Option<&_>| ControlFlow::Continue(());
    let run = Run::of(&parameters, &[], go_on).unwrap();
    let json = serde_json::to_value(&run).unwrap();
    let elsewhere = ["utilisation", "policy"];
    let mut lists = show::run_reference();
    // The response time of a year is that of `policies[]`.
    lists[1]
        .1
        .retain(|heading| heading.key != "response_mean_s");
    check(&json, lists, &elsewhere);

    let swept = Swept::of(&parameters, &Questions::default(), &[]).unwrap();
    let mut lists = show::sweep_reference();
    lists[2]
        .1
        .retain(|heading| heading.key != "response_mean_s");
    check(&serde_json::to_value(&swept).unwrap(), lists, &elsewhere);

    let compared = Comparison::of(&parameters, vec![], None, go_on).unwrap();
    let mut json = serde_json::to_value(&compared).unwrap();
    // The first is not compared with itself.
    json["policies"].as_array_mut().unwrap().remove(0);
    check(&json, show::simulate_reference(), &[]);

    // Differences from the first policy have their signs.
    let mut text = Vec::new();
    write(&show::comparison(&compared), Detail::All, &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let above = text.split("Above always").nth(1).unwrap();
    assert!(above.contains(" +") && above.contains('±'), "{above}");
}
