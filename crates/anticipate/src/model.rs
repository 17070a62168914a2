//! The kernel side's models, for the statistics.

use serde::Serialize;

use crate::engine::skeleton::types;
use crate::{Learnt, correlation, expected};

/// Sectors of a KiB.
const SECTORS_PER_KIB: f64 = 2.0;
/// Sizes and mean times are in 2^-8.
const FINE: f64 = 256.0;

/// How long requests take, as it was learnt: by the number in flight.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Model {
    /// Requests in flight when one was issued: at least so many.
    pub in_flight: u32,
    /// Requests that were learnt from.
    pub count: u64,
    /// Requests of no size or of an absurd time; not learnt from.
    pub refused: u64,
    /// Times that the device had changed, and the model began anew.
    pub changes: u32,
    /// Of the last some 64 requests, the mean time, µs.
    pub mean_us: f64,
    /// Of the same, the mean size, KiB.
    pub mean_kib: f64,
    /// Of the same, what a KiB more takes, µs; `None` where their sizes do not vary.
    pub us_per_kib: Option<f64>,
    /// Of the mean size a request in twenty is complete before, µs; `None` until enough is known.
    pub early_us: Option<f64>,
    /// Of the mean size one in ten is complete after, µs; `None` until enough is known.
    pub late_us: Option<f64>,
    /// Pearson's correlation of size and time; `None` where sizes do not vary.
    pub correlation: Option<f64>,
}

/// What it has learnt, in plain numbers.
pub(crate) fn learnt(model: &types::model) -> Learnt {
    Learnt {
        age: model.age,
        informed: model.informed,
        mean_sectors: model.mean_sectors,
        mean_ns: model.mean_ns,
        var: model.var,
        cov: model.cov,
        early: model.early,
        late: model.late,
        seen_var_sectors: model.seen_var_sectors,
        seen_var_ns: model.seen_var_ns,
        seen_cov: model.seen_cov,
    }
}

/// `None` of a model that has seen nothing.
pub(crate) fn read(in_flight: u32, model: &types::model) -> Option<Model> {
    let learnt = learnt(model);
    let mean_sectors = model.mean_sectors as f64 / FINE;
    let of_mean = expected(&learnt, mean_sectors.round() as u32);
    (model.count > 0).then(|| Model {
        in_flight,
        count: model.count,
        refused: model.refused,
        changes: model.changes,
        mean_kib: mean_sectors / SECTORS_PER_KIB,
        mean_us: model.mean_ns as f64 / FINE / 1e3,
        early_us: of_mean.map(|expected| expected.early_ns / 1e3),
        late_us: of_mean.map(|expected| expected.late_ns / 1e3),
        us_per_kib: (model.var > 0).then(|| {
            let ns_per_sector = (model.cov as f64 / model.var as f64).max(0.0);
            ns_per_sector * SECTORS_PER_KIB / 1e3
        }),
        correlation: correlation(&learnt),
    })
}
