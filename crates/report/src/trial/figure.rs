//! What the trial's charts have in common.

use reveille_show::axis::Axis;
use reveille_show::chart::Quantity;
use reveille_show::markup::escape;
use reveille_trial::result::Trial;
use reveille_trial::workload::NANOSECONDS;

/// How the workload's figures are written on an axis.
pub(super) fn quantity(trial: &Trial) -> Quantity {
    match trial.workload.unit.as_str() {
        NANOSECONDS => Quantity::Duration,
        _ => Quantity::Number,
    }
}

/// What the figure is called on an axis.
pub(super) fn figure_name(trial: &Trial) -> String {
    match trial.workload.unit.as_str() {
        NANOSECONDS => trial.workload.figure.clone(),
        "" => "figure".into(),
        unit => format!("figure, {unit}"),
    }
}

/// From zero where the figures are alike, logarithmic where they are not.
pub(super) fn figure_axis(figures: impl Iterator<Item = f64> + Clone) -> Axis {
    /// Above this ratio small figures would lie on the axis.
    const RATIO: f64 = 8.0;
    let max = figures.clone().fold(f64::MIN, f64::max);
    let min = figures.fold(f64::MAX, f64::min);
    match min > 0.0 && max / min > RATIO {
        true => Axis::logarithmic(min, max),
        false => Axis::from_zero(max * 1.1),
    }
}

pub(super) fn figure(title: &str, body: &str) -> String {
    format!(
        "<figure><figcaption>{}</figcaption>{body}</figure>",
        escape(title)
    )
}

pub(super) fn absent(title: &str, why: &str) -> String {
    figure(
        title,
        &format!("<p class=\"absent\">Not drawn: {}.</p>", escape(why)),
    )
}
