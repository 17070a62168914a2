//! The results of `model` for people: the names, units and words of their figures.

mod charts;
mod closed;
mod simulated;
mod words;

pub use closed::{questions, run, sweep, worth};
pub use simulated::comparison;
pub use words::whose;

use reveille_show::sheet::Heading;

/// The columns of `model run`, by the list in the JSON that holds their rows. `utilisation`, `policy` and
/// the `years` response time are in other lists.
pub fn run_reference() -> Vec<(&'static str, Vec<Heading>)> {
    let simulated = ("simulated[]", simulated::response_headings());
    [closed::reference("policies[]"), vec![simulated]].concat()
}

/// The columns of `model sweep`.
pub fn sweep_reference() -> Vec<(&'static str, Vec<Heading>)> {
    let pairs = ("pairs[]", closed::crossing_headings());
    [vec![pairs], closed::reference("points[].policies[]")].concat()
}

/// The columns of `model simulate`.
pub fn simulate_reference() -> Vec<(&'static str, Vec<Heading>)> {
    vec![("policies[]", simulated::headings())]
}
