//! The page on results of measurements.

use reveille_show::page::framed;
use reveille_show::quantity::counted;

use crate::section::{charts, difference, headline, setting, statistics};
use crate::view::{View, Views};
use crate::{Error, Input, Options, Result, outliers};

/// One HTML page on these results. It is the same text for the same results.
///
/// # Errors
/// [`Error::NoResult`] where `inputs` is empty.
pub fn page(inputs: &[Input], options: &Options) -> Result<String> {
    if inputs.is_empty() {
        return Err(Error::NoResult);
    }
    let views = Views::of(inputs)?;
    let title = options
        .title
        .clone()
        .unwrap_or_else(|| default_title(&views.views));
    let parts = [
        headline::headline(&views),
        headline::notices(&views, options),
        statistics::summary(&views),
        difference::differences(&views),
        charts::overview(&views),
        charts::states(&views),
        charts::residency(&views),
        "<section id=\"statistics\"><h2>Statistics</h2>".to_owned(),
        statistics::details(&views),
        statistics::tails(&views),
        "</section>".to_owned(),
        setting::settings(&views),
    ];
    let about: Vec<String> = views.views.iter().map(about).collect();
    let outliers = outliers::data(&views.views);
    Ok(framed(&title, &about, &parts.concat(), NOTE, &outliers))
}

/// What the figures of a page of wake latencies are.
const NOTE: &str = "Figures come from the idle driver's table, from what was measured, or from an \
                    estimate; each head says which. Times are wake latencies unless said \
                    otherwise: from the launch time to the first instruction, less the \
                    instrument's overhead.";

fn default_title(views: &[View<'_>]) -> String {
    let names: Vec<String> = views.iter().map(View::title).collect();
    format!("Wake latency: {}", names.join(", "))
}

fn about(view: &View<'_>) -> String {
    let description = &view.input.loaded.description;
    let machine = &description.machine;
    let mut parts = vec![counted(view.input.loaded.columns.rows as u64, "datapoint")];
    let known = [
        machine.hostname.clone(),
        machine.cpu_model.clone(),
        machine
            .kernel
            .as_ref()
            .map(|kernel| format!("Linux {kernel}")),
        (!description.started.is_empty()).then(|| description.started.clone()),
        Some(description.tool.clone()),
    ];
    parts.extend(known.into_iter().flatten());
    let letter = view
        .letter
        .as_ref()
        .map_or(String::new(), |letter| format!("{letter}: "));
    format!("{letter}{}", parts.join(" · "))
}
