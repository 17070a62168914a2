//! Axes: positions of values, and ticks.

use std::fmt::Write as _;

/// How values are spread over an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// Equal ratios have equal lengths.
    Logarithmic,
    /// Equal differences have equal lengths.
    Linear,
}

/// A labelled value on an axis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tick {
    /// In the unit of the axis.
    pub value: f64,
    /// Kept in narrow drawings.
    pub major: bool,
}

/// A range of values. `min < max`; both are above zero on a logarithmic scale.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Axis {
    /// The scale.
    pub scale: Scale,
    /// The value at its beginning.
    pub min: f64,
    /// The value at its end.
    pub max: f64,
}

/// The steps of a decade at which axes begin, end and have labels.
const STEPS: [f64; 3] = [1.0, 2.0, 5.0];

impl Axis {
    /// The logarithmic axis from the nearest 1, 2 or 5 below `min` to the nearest above `max`.
    /// Values not above zero count as 1.
    pub fn logarithmic(min: f64, max: f64) -> Self {
        let min = if min > 0.0 && min.is_finite() {
            min
        } else {
            1.0
        };
        let max = if max.is_finite() { max.max(min) } else { min };
        // A single value is not at the edge.
        let (min, max) = match min == max {
            true => (step_below(min / 1.5), step_above(max * 1.5)),
            false => (step_below(min), step_above(max)),
        };
        Self {
            scale: Scale::Logarithmic,
            min,
            max,
        }
    }

    /// The linear axis from zero to `max` (1 if that is not above zero).
    pub fn from_zero(max: f64) -> Self {
        let max = if max > 0.0 && max.is_finite() {
            max
        } else {
            1.0
        };
        Self {
            scale: Scale::Linear,
            min: 0.0,
            max,
        }
    }

    /// From zero where the values are alike; logarithmic where the least would lie on the axis.
    pub fn over(values: impl Iterator<Item = f64> + Clone) -> Self {
        /// Of the greatest to the least.
        const RATIO: f64 = 8.0;
        let max = values.clone().fold(f64::MIN, f64::max);
        let min = values.fold(f64::MAX, f64::min);
        match min > 0.0 && max / min > RATIO {
            true => Self::logarithmic(min, max),
            false => Self::from_zero(max * 1.1),
        }
    }

    /// The position of `value`: 0 at `min`, 1 at `max`; values outside are at the edge.
    pub fn fraction(&self, value: f64) -> f64 {
        let fraction = match self.scale {
            Scale::Linear => (value - self.min) / (self.max - self.min),
            Scale::Logarithmic if value <= self.min => 0.0,
            Scale::Logarithmic => (value / self.min).ln() / (self.max / self.min).ln(),
        };
        fraction.clamp(0.0, 1.0)
    }

    /// The value at a position: the inverse of [`Axis::fraction`].
    pub fn value(&self, fraction: f64) -> f64 {
        match self.scale {
            Scale::Linear => self.min + fraction * (self.max - self.min),
            Scale::Logarithmic => self.min * (self.max / self.min).powf(fraction),
        }
    }

    /// A function from a value to its bin, of `bins` equal ones. Values outside are in the first or
    /// the last.
    pub fn binning(&self, bins: usize) -> impl Fn(f64) -> usize + use<> {
        let Self { scale, min, max } = *self;
        let (origin, factor) = match scale {
            Scale::Linear => (min, bins as f64 / (max - min)),
            Scale::Logarithmic => (min.ln(), bins as f64 / (max / min).ln()),
        };
        move |value: f64| {
            let place = match scale {
                Scale::Linear => value,
                Scale::Logarithmic => value.max(min).ln(),
            };
            // The conversion turns negative values and NaN into 0.
            (((place - origin) * factor) as usize).min(bins - 1)
        }
    }

    /// The labelled values: the 1, 2 and 5 of each decade (only the 1 over many decades), or round
    /// steps of a linear axis.
    pub fn ticks(&self) -> Vec<Tick> {
        match self.scale {
            Scale::Linear => self.linear_ticks(),
            Scale::Logarithmic => self.logarithmic_ticks(),
        }
    }

    /// Grid, line and ticks for rows of a chart, in its units: the axis is that wide from `left` on, below
    /// rows that are together that high; `text` writes a tick's value.
    pub fn below_rows(
        &self,
        left: f64,
        width: f64,
        high: f64,
        text: impl Fn(f64) -> String,
    ) -> String {
        let (mut grid, mut ticks) = (String::new(), String::new());
        for tick in self.ticks() {
            let x = left + width * self.fraction(tick.value);
            // Writing to a String cannot fail.
            let _ = write!(grid, "M{x:.1} 0v{high:.0}");
            ticks += &tick_text(x, left + width, high + 17.0, tick, &text(tick.value));
        }
        format!(
            "<path class=\"grid\" d=\"{grid}\"/><path class=\"axis\" \
             d=\"M{left} 0v{high:.0}h{width}\"/><g class=\"ticks\">{ticks}</g>"
        )
    }

    fn logarithmic_ticks(&self) -> Vec<Tick> {
        /// Above this many decades the 2 and the 5 have no room.
        const DECADES_WITH_STEPS: f64 = 2.6;
        let decades = (self.max / self.min).log10();
        let steps = if decades > DECADES_WITH_STEPS {
            &STEPS[..1]
        } else {
            &STEPS[..]
        };
        let first = self.min.log10().floor() as i32;
        let last = self.max.log10().ceil() as i32;
        let mut ticks = Vec::new();
        for exponent in first..=last {
            for &step in steps {
                let value = step * 10f64.powi(exponent);
                // A relative margin: powers of ten are not exact.
                if value >= self.min * (1.0 - 1e-9) && value <= self.max * (1.0 + 1e-9) {
                    ticks.push(Tick {
                        value,
                        major: step == 1.0 || decades < 1.0,
                    });
                }
            }
        }
        ticks
    }

    fn linear_ticks(&self) -> Vec<Tick> {
        /// The intended number of ticks.
        const TICKS: f64 = 6.0;
        let step = step_above((self.max - self.min) / TICKS);
        let first = (self.min / step).ceil() as i64;
        let last = (self.max / step + 1e-9).floor() as i64;
        (first..=last)
            .map(|place| Tick {
                value: place as f64 * step,
                major: place % 2 == 0,
            })
            .collect()
    }
}

/// The label of a tick of a horizontal axis, which ends at `right`. The last label ends inside the drawing.
pub(crate) fn tick_text(x: f64, right: f64, y: f64, tick: Tick, words: &str) -> String {
    /// The least room of a drawing after the axis.
    const ROOM: f64 = 22.0;
    let (anchor, x) = match x > right - ROOM {
        true => ("end", x + ROOM),
        false => ("middle", x),
    };
    let class = if tick.major { "" } else { " class=\"minor\"" };
    format!("<text{class} text-anchor=\"{anchor}\" x=\"{x:.1}\" y=\"{y:.1}\">{words}</text>")
}

/// The greatest 1, 2 or 5 of a decade that is not above `value`.
fn step_below(value: f64) -> f64 {
    let decade = 10f64.powf(value.log10().floor());
    let steps = STEPS.iter().rev().map(|step| step * decade);
    steps
        .into_iter()
        .find(|step| *step <= value * (1.0 + 1e-9))
        .unwrap_or(decade)
}

/// The least 1, 2 or 5 of a decade that is not below `value`.
fn step_above(value: f64) -> f64 {
    let decade = 10f64.powf(value.log10().floor());
    let steps = STEPS.iter().map(|step| step * decade);
    steps
        .into_iter()
        .find(|step| *step >= value * (1.0 - 1e-9))
        .unwrap_or(decade * 10.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quantity::duration;

    fn values(axis: Axis) -> Vec<f64> {
        axis.ticks().iter().map(|tick| tick.value.round()).collect()
    }

    #[test]
    fn a_logarithmic_axis_begins_and_ends_at_a_1_2_or_5() {
        let axis = Axis::logarithmic(730.0, 131_000.0);
        assert!((axis.min - 500.0).abs() < 1e-6, "{axis:?}");
        assert!((axis.max - 200_000.0).abs() < 1e-3, "{axis:?}");
    }

    #[test]
    fn over_many_decades_only_their_ones_are_labelled() {
        assert_eq!(values(Axis::logarithmic(500.0, 200_000.0)), [1e3, 1e4, 1e5]);
        assert_eq!(
            values(Axis::logarithmic(500.0, 5_000.0)),
            [500.0, 1e3, 2e3, 5e3]
        );
    }

    #[test]
    fn an_axis_over_nothing_or_one_value_has_a_length() {
        for (min, max) in [
            (0.0, 0.0),
            (5.0, 5.0),
            (-3.0, f64::NAN),
            (f64::INFINITY, 1.0),
        ] {
            let axis = Axis::logarithmic(min, max);
            assert!(
                axis.min > 0.0 && axis.max > axis.min,
                "{min} {max}: {axis:?}"
            );
            assert!(!axis.ticks().is_empty());
        }
    }

    #[test]
    fn an_axis_over_values_begins_at_zero_unless_they_differ_widely() {
        let over = |values: &[f64]| Axis::over(values.iter().copied());
        assert_eq!(over(&[10.0, 80.0]), Axis::from_zero(88.0));
        assert_eq!(over(&[10.0, 81.0]), Axis::logarithmic(10.0, 81.0));
        assert_eq!(over(&[0.0, 81.0]).scale, Scale::Linear);
        assert_eq!(over(&[]), Axis::from_zero(1.0));
    }

    #[test]
    fn every_value_is_in_the_bin_of_its_position_and_values_outside_in_the_edges() {
        for axis in [Axis::logarithmic(10.0, 10_000.0), Axis::from_zero(70.0)] {
            let bin = axis.binning(7);
            for value in [-1.0, 0.0, 9.9, 10.5, 33.0, 69.0, 4_321.0, 1e9] {
                let expected = ((axis.fraction(value) * 7.0) as usize).min(6);
                assert_eq!(bin(value), expected, "{value} on {axis:?}");
            }
            assert_eq!(bin(f64::NAN), 0);
        }
    }

    #[test]
    fn a_value_follows_from_its_position() {
        for axis in [Axis::logarithmic(10.0, 10_000.0), Axis::from_zero(70.0)] {
            assert!((axis.value(axis.fraction(42.0)) - 42.0).abs() < 1e-9);
        }
    }

    #[test]
    fn a_linear_axis_has_labels_at_round_steps() {
        assert_eq!(values(Axis::from_zero(20.0)), [0.0, 5.0, 10.0, 15.0, 20.0]);
        assert_eq!(
            values(Axis::from_zero(100.0)),
            [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]
        );
    }

    #[test]
    fn an_axis_below_rows_has_a_line_and_a_name_for_each_tick() {
        let axis = Axis::from_zero(100e6);
        let svg = axis.below_rows(10.0, 200.0, 50.0, duration);
        assert_eq!(svg.matches("<text").count(), axis.ticks().len());
        assert!(svg.starts_with("<path class=\"grid\" d=\"M10.0 0v50"));
        assert!(svg.contains("x=\"10.0\" y=\"67.0\">0 ns</text>"), "{svg}");
    }
}
