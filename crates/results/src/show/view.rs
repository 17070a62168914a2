//! Between the datapoints and the page: each result's groups, planes and outliers, on axes that all
//! results share, so that two pictures can be laid beside each other.

use crate::columns::Values;
use crate::statistics::StateStatistics;
use crate::{Columns, NULL};
use reveille_figures::tail::Tail;

use super::groups::{Group, Groups, Key};
use super::input::{Error, Input, Result};
use reveille_show::axis::Axis;
use reveille_show::density::Density;

/// Cells of a plane, across and up. Each is 4 by 4 units of the drawing.
pub const CELLS: (usize, usize) = (120, 70);

/// The axes of the whole page. `None` where no result has such values.
#[derive(Debug, Clone)]
pub struct Axes {
    pub latency: Axis,
    /// Over the datapoints and the drivers' figures alone.
    pub measured: Axis,
    /// Each state's own, which its datapoints fill better than the one for all.
    pub states: Vec<StateAxes>,
    pub silent_time: Option<Axis>,
    pub launch_distance: Option<Axis>,
    pub time: Option<Axis>,
}

/// The latency axes of one state and source.
#[derive(Debug, Clone)]
pub struct StateAxes {
    pub key: Key,
    /// Over the datapoints and the driver's figure.
    pub measured: Axis,
    /// Over the tail's estimate as well.
    pub datapoints: Axis,
    /// Over the floor as well.
    pub figures: Axis,
}

/// Wake latency over another quantity.
#[derive(Debug, Clone)]
pub struct Plane {
    /// All datapoints, on the latency axis of all states.
    pub whole: Density,
    /// Those of each group, in the groups' order and on its own latency axis.
    pub groups: Vec<Density>,
}

/// A residency share over the silent time.
#[derive(Debug, Clone)]
pub struct Residency {
    pub column: String,
    pub density: Density,
}

/// One result, ready to be drawn.
#[derive(Debug)]
pub struct View<'a> {
    pub input: &'a Input,
    /// `A`, `B`, ...; `None` where there is one result only.
    pub letter: Option<String>,
    pub groups: Groups,
    pub silent_time: Option<Plane>,
    pub launch_distance: Option<Plane>,
    pub time: Option<Plane>,
    pub residency: Vec<Residency>,
    /// Rows drawn singly, ascending, over all groups.
    pub outliers: Vec<u32>,
}

/// Every result, and the axes that they share.
#[derive(Debug)]
pub struct Views<'a> {
    pub(super) axes: Axes,
    pub(super) views: Vec<View<'a>>,
}

impl<'a> Views<'a> {
    /// Groups and counts the datapoints of every result. [`Error::NoResult`] without one; [`Error::NoLatency`]
    /// for datapoints without wake latencies.
    pub fn of(inputs: &'a [Input]) -> Result<Self> {
        if inputs.is_empty() {
            return Err(Error::NoResult);
        }
        let groups: Vec<Groups> = inputs
            .iter()
            .map(|input| Groups::of(&input.loaded.columns))
            .collect::<Result<_>>()?;
        let axes = axes(inputs, &groups);
        let views = inputs
            .iter()
            .zip(groups)
            .enumerate()
            .map(|(place, (input, groups))| {
                View::of(
                    input,
                    groups,
                    &axes,
                    (inputs.len() > 1).then(|| letter(place)),
                )
            });
        Ok(Self {
            views: views.collect(),
            axes,
        })
    }

    /// The groups of all results, each key once, in the order of the first result that has it.
    pub fn keys(&self) -> Vec<Key> {
        let mut indexed: Vec<(i64, Key)> = Vec::new();
        for group in self.views.iter().flat_map(|view| &view.groups.groups) {
            if !indexed.iter().any(|(_, key)| *key == group.key) {
                indexed.push((group.index.unwrap_or(i64::MAX), group.key.clone()));
            }
        }
        // Stable: sources and states of equal index stay as they came.
        indexed.sort_by_key(|(index, _)| *index);
        indexed.into_iter().map(|(_, key)| key).collect()
    }
}

impl<'a> View<'a> {
    fn of(input: &'a Input, groups: Groups, axes: &Axes, letter: Option<String>) -> Self {
        let columns = &input.loaded.columns;
        let latency = columns.integers("wake_latency_ns").unwrap_or(&[]);
        let own: Vec<_> = groups
            .groups
            .iter()
            .map(|group| axes.of(&group.key).datapoints.binning(CELLS.1))
            .collect();
        let shared = axes.latency.binning(CELLS.1);
        // The rows of cells of each datapoint, once for all planes; 70 fit into a byte.
        let cell_rows: Vec<[u8; 2]> = latency
            .iter()
            .enumerate()
            .map(|(row, ns)| match groups.of_row(row) {
                Some(place) => [shared(*ns as f64) as u8, own[place](*ns as f64) as u8],
                None => [0, 0],
            })
            .collect();
        let plane =
            |name: &str, axis: Option<Axis>| plane(columns, &groups, &cell_rows, name, axis?);
        let silent_time = plane("silent_time_ns", axes.silent_time);
        let launch_distance = plane("launch_distance_ns", axes.launch_distance);
        let time = plane("time_ns", axes.time);
        let mut outliers: Vec<u32> = groups
            .groups
            .iter()
            .flat_map(|group| group.outliers.iter().copied())
            .collect();
        outliers.sort_unstable();
        Self {
            residency: residency(columns, axes),
            input,
            letter,
            silent_time,
            launch_distance,
            time,
            outliers,
            groups,
        }
    }

    /// The result's letter and name, or its name alone.
    pub fn title(&self) -> String {
        let name = match &*self.input.loaded.description.name {
            "" => "unnamed result",
            name => name,
        };
        match &self.letter {
            Some(letter) => format!("{letter}: {name}"),
            None => name.to_owned(),
        }
    }

    /// The result's letter before words about it, where there are several.
    pub fn who(&self) -> String {
        let letter = self.letter.as_ref();
        letter.map_or(String::new(), |letter| format!("{letter}: "))
    }

    /// Where that group's places are in planes.
    pub fn place(&self, key: &Key) -> Option<usize> {
        self.groups
            .groups
            .iter()
            .position(|group| group.key == *key)
    }
}

impl Input {
    /// The statistics of that group.
    pub(super) fn statistics(&self, key: &Key) -> Option<&StateStatistics> {
        let mut all = self.loaded.description.statistics.iter();
        all.find(|one| one.state == key.state && one.source == key.source)
    }

    /// The driver's exit latency for that group's state, ns.
    pub(super) fn driver_figure(&self, key: &Key) -> Option<f64> {
        let of_table = || {
            let mut states = self.loaded.description.states.iter();
            states
                .find(|state| state.name == key.state)?
                .exit_latency_us
        };
        let figure = self
            .statistics(key)
            .and_then(|one| one.driver_exit_latency_us);
        Some(figure.or_else(of_table)? as f64 * 1e3)
    }

    /// The floor's median for that group's source, ns.
    pub(super) fn floor(&self, key: &Key) -> Option<f64> {
        let mut floors = self.loaded.description.characterisation.floors.iter();
        let floor = floors.find(|floor| floor.source == key.source)?;
        Some(floor.median_ns as f64)
    }
}

/// `A` to `Z`, then `A1`, `B1`, ...
fn letter(place: usize) -> String {
    let letter = char::from(b'A' + (place % 26) as u8);
    match place / 26 {
        0 => letter.to_string(),
        round => format!("{letter}{round}"),
    }
}

impl Axes {
    /// The latency axes of that state and source; those of all where it has none.
    pub fn of(&self, key: &Key) -> StateAxes {
        let own = self.states.iter().find(|axes| axes.key == *key);
        own.cloned().unwrap_or_else(|| StateAxes {
            key: key.clone(),
            measured: self.measured,
            datapoints: self.latency,
            figures: self.latency,
        })
    }
}

fn axes(inputs: &[Input], groups: &[Groups]) -> Axes {
    // Measured, with the tail's estimate, with the floor.
    let mut ranges: Vec<(Key, [Span; 3])> = Vec::new();
    for (input, groups) in inputs.iter().zip(groups) {
        for group in &groups.groups {
            let measured = measured_span(input, group);
            let datapoints = with_tail(measured, input, group);
            let spans = [
                measured,
                datapoints,
                datapoints.with(input.floor(&group.key)),
            ];
            match ranges.iter_mut().find(|(key, _)| *key == group.key) {
                Some((_, all)) => *all = std::array::from_fn(|place| all[place].and(spans[place])),
                None => ranges.push((group.key.clone(), spans)),
            }
        }
    }
    let all = |place: usize| {
        let spans = ranges.iter().map(|(_, spans)| spans[place]);
        spans.reduce(Span::and).unwrap_or(Span(1.0, 1.0)).axis()
    };
    let (measured, latency) = (all(0), all(2));
    let range = |name: &'static str| {
        inputs
            .iter()
            .filter_map(move |input| column_span(&input.loaded.columns, name))
    };
    let logarithmic = |name: &'static str| range(name).reduce(Span::and).map(Span::axis);
    Axes {
        latency,
        measured,
        states: ranges
            .into_iter()
            .map(|(key, spans)| {
                let [measured, datapoints, figures] = spans.map(Span::axis);
                StateAxes {
                    key,
                    measured,
                    datapoints,
                    figures,
                }
            })
            .collect(),
        silent_time: logarithmic("silent_time_ns"),
        launch_distance: logarithmic("launch_distance_ns"),
        time: range("time_ns")
            .map(|Span(_, high)| high)
            .reduce(f64::max)
            .map(Axis::from_zero),
    }
}

/// From the least to the greatest value that an axis must show.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Span(f64, f64);

impl Span {
    fn and(self, other: Self) -> Self {
        Self(self.0.min(other.0), self.1.max(other.1))
    }

    /// With a figure that is above zero: no other has a place on a logarithmic axis.
    fn with(self, figure: Option<f64>) -> Self {
        match figure.filter(|figure| *figure > 0.0) {
            Some(figure) => self.and(Self(figure, figure)),
            None => self,
        }
    }

    fn axis(self) -> Axis {
        Axis::logarithmic(self.0, self.1)
    }
}

/// The latencies of a group from the 0.1th percentile that is above zero to the greatest, with the
/// driver's figure. A single small value must not push all others aside.
fn measured_span(input: &Input, group: &Group) -> Span {
    let sorted = &group.latencies;
    let positive = &sorted[sorted.partition_point(|ns| *ns <= 0)..];
    let low = positive.get(positive.len() / 1000).copied().unwrap_or(1) as f64;
    let high = sorted.last().copied().unwrap_or(1).max(1) as f64;
    // The figure's mark does not stand on the axis's edge.
    let figure = input.driver_figure(&group.key);
    let span = Span(low, high.max(low)).with(figure.map(|ns| ns * 0.8));
    span.with(figure.map(|ns| ns * 1.25))
}

/// With the tail's estimate, whose interval may reach far out: the datapoints shall keep most of the room.
fn with_tail(span: Span, input: &Input, group: &Group) -> Span {
    match input.statistics(&group.key).map(|one| &one.tail) {
        Some(Tail::Estimated(tail)) => {
            span.with(Some((tail.quantile_high_ns as f64).min(span.1 * 4.0)))
        }
        _ => span,
    }
}

/// As [`measured_span`] for any column; `None` where it is absent or has no value above zero.
fn column_span(columns: &Columns, name: &str) -> Option<Span> {
    let values = columns.integers(name)?;
    let mut positive: Vec<i64> = values.iter().copied().filter(|value| *value > 0).collect();
    let high = *positive.iter().max()?;
    let place = positive.len() / 1000;
    let (_, low, _) = positive.select_nth_unstable(place);
    Some(Span(*low as f64, high as f64))
}

fn plane(
    columns: &Columns,
    groups: &Groups,
    cell_rows: &[[u8; 2]],
    name: &str,
    axis: Axis,
) -> Option<Plane> {
    let values = columns.integers(name)?;
    let bin = axis.binning(CELLS.0);
    let mut whole = Density::new(CELLS.0, CELLS.1);
    let mut densities = vec![whole.clone(); groups.groups.len()];
    for (row, &value) in values
        .iter()
        .enumerate()
        .filter(|(_, value)| **value != NULL)
    {
        if let Some(place) = groups.of_row(row) {
            let [shared, own] = cell_rows[row].map(usize::from);
            let column = bin(value as f64);
            whole.add(column, shared);
            densities[place].add(column, own);
        }
    }
    (whole.total() > 0).then_some(Plane {
        whole,
        groups: densities,
    })
}

fn residency(columns: &Columns, axes: &Axes) -> Vec<Residency> {
    let Some((silent_time, axis)) = columns.integers("silent_time_ns").zip(axes.silent_time) else {
        return Vec::new();
    };
    let (across, up) = (axis.binning(CELLS.0), percent_axis().binning(CELLS.1));
    let mut all = Vec::new();
    for column in &columns.columns {
        let Values::Percent(shares) = &column.values else {
            continue;
        };
        let mut density = Density::new(CELLS.0, CELLS.1);
        for (&ns, &share) in silent_time.iter().zip(shares) {
            if ns != NULL && !share.is_nan() {
                density.add(across(ns as f64), up(f64::from(share)));
            }
        }
        if density.total() > 0 {
            all.push(Residency {
                column: column.name.clone(),
                density,
            });
        }
    }
    all
}

/// The axis of residency shares, per cent.
pub fn percent_axis() -> Axis {
    Axis::from_zero(100.0)
}
