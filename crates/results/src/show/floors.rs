//! The floor of the method: the same event on a CPU where nothing sleeps.

use reveille_show::sheet::{Column, Unit};

use crate::statistics::Floor;

/// Its figures.
pub const FLOOR: &[Column<Floor>] = &[
    Column::words(
        "state",
        "state",
        "The poll state, or `awake`: nothing sleeps there",
        |floor| floor.state.as_str().into(),
    ),
    Column::words("source", "source", "What woke the CPU", |floor| {
        floor.source.as_str().into()
    }),
    Column::measured("count", "count", Unit::Count, "Datapoints", |floor| {
        floor.count.into()
    }),
    Column::measured("median_ns", "median", Unit::Ns, "Median latency", |floor| {
        floor.median_ns.into()
    }),
    Column::measured("p90_ns", "p90", Unit::Ns, "90th percentile", |floor| {
        floor.p90_ns.into()
    }),
    Column::measured("p99_ns", "p99", Unit::Ns, "99th percentile", |floor| {
        floor.p99_ns.into()
    }),
    Column::measured("max_ns", "max", Unit::Ns, "The longest latency", |floor| {
        floor.max_ns.into()
    }),
];
