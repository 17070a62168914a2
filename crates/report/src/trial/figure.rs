//! What the trial's charts have in common.

use reveille_show::chart::Quantity;
use reveille_show::markup::escape;
use reveille_trial::result::Trial;
use reveille_trial::workload::NANOSECONDS;

use crate::compared;

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

pub(super) fn absent(title: &str, why: &str) -> String {
    compared::figure(
        title,
        &format!("<p class=\"absent\">Not drawn: {}.</p>", escape(why)),
    )
}
