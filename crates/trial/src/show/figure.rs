//! How a workload's figure is written: times in a suitable unit, others with the user's word.

use reveille_show::chart::Quantity;
use reveille_show::sheet::{Unit, Value};
use reveille_show::text::alone;

use crate::workload::{Description, NANOSECONDS};

/// The figure's unit in tables; a user's own is a part of the name.
pub fn unit(workload: &Description) -> Unit {
    match workload.unit.as_str() {
        NANOSECONDS => Unit::Ns,
        _ => Unit::Of(""),
    }
}

/// The user's own unit; empty for times and where none was given.
pub fn own_unit(workload: &Description) -> &str {
    match workload.unit.as_str() {
        NANOSECONDS => "",
        own => own,
    }
}

/// A figure in a sentence: `31.2 µs`, `66.3 [50.3, 82.6] µs`, `12 MB/s`.
pub fn text(workload: &Description, figure: impl Into<Value>) -> String {
    let text = alone(unit(workload), &figure.into()).unwrap_or_default();
    let text = format!("{text} {}", own_unit(workload));
    text.trim_end().to_owned()
}

/// How the figure is written on an axis.
pub fn quantity(workload: &Description) -> Quantity {
    match unit(workload) {
        Unit::Ns => Quantity::Duration,
        _ => Quantity::Number,
    }
}

/// The figure's name on an axis; a regular expression is none.
pub fn name(workload: &Description) -> String {
    match (unit(workload), own_unit(workload)) {
        (Unit::Ns, _) => workload.figure.clone(),
        (_, "") => "figure".into(),
        (_, own) => format!("figure, {own}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::tests::workload;

    #[test]
    fn a_time_has_the_unit_that_fits_and_another_figure_the_users() {
        let mut of = workload(false);
        assert_eq!(text(&of, 61_234.0), "61.2 µs");
        assert_eq!(name(&of), "round trip");
        for (unit, words, axis) in [("", "5", "figure"), ("MB/s", "5 MB/s", "figure, MB/s")] {
            of.unit = unit.into();
            assert_eq!((text(&of, 5.0), name(&of)), (words.into(), axis.into()));
        }
    }
}
