//! The hardware's own residency against the silent time.

use super::caption;
use crate::show::view::{Views, percent_axis};
use reveille_show::chart::{Frame, Quantity, figure, heat};
use reveille_show::quantity::counted;

/// Residency against silent time, where it was counted.
pub fn residency(views: &Views<'_>) -> String {
    let mut charts = String::new();
    for (place, view) in views.views.iter().enumerate() {
        for residency in &view.residency {
            let Some(x) = views.axes.silent_time else {
                continue;
            };
            let share = residency.column.trim_end_matches("_percent").to_uppercase();
            let title = caption(view, &format!("{share} residency against silent time"));
            let y_name = format!("{share} residency");
            let frame = Frame {
                x,
                y: percent_axis(),
                x_name: "silent time",
                y_name: &y_name,
                x_quantity: Quantity::Duration,
                y_quantity: Quantity::Percent,
            };
            let datapoints = counted(residency.density.total(), "datapoint");
            let label = format!("{title}: density of {datapoints}");
            charts.push_str(&figure(
                &title,
                &heat::heat(&frame, &label, place, &residency.density, &[], &[]),
                "",
            ));
        }
    }
    match charts.is_empty() {
        true => "<p>No residency was counted: it is unknown which state the hardware was in.</p>"
            .to_owned(),
        false => format!("<div class=\"charts\">{charts}</div>"),
    }
}
