//! What the kernel side has learnt of how long requests take, in terms of the program. The model
//! itself is `src/bpf/model.h`, which says what its figures are.

use crate::engine::{Model, skeleton::types};

/// Shares are in 2^-20, sizes and mean times in 2^-8.
const WHOLE: f64 = (1 << 20) as f64;
const FINE: f64 = (1 << 8) as f64;

/// Two sectors are a KiB.
const SECTORS_PER_KIB: f64 = 2.0;

/// `None` of a model that has seen nothing.
pub(crate) fn told(in_flight: u32, model: &types::model) -> Option<Model> {
    let mean_us = model.mean_ns as f64 / FINE / 1e3;
    let longer = |share: u32| 1.0 + f64::from(share) / WHOLE;
    (model.count > 0).then(|| Model {
        in_flight,
        count: model.count,
        refused: model.refused,
        changes: model.changes,
        mean_us,
        mean_kib: model.mean_sectors as f64 / FINE / SECTORS_PER_KIB,
        us_per_kib: (model.var_sectors > 0).then(|| {
            let ns_per_sector = model.cov as f64 / model.var_sectors as f64;
            ns_per_sector.max(0.0) * SECTORS_PER_KIB / 1e3
        }),
        early_us: mean_us / longer(model.early),
        late_us: mean_us * longer(model.late),
        correlation: correlation(
            model.seen_var_sectors as f64 / FINE,
            model.seen_var_ns as f64,
            model.seen_cov as f64 / FINE,
        ),
    })
}

/// Pearson's; `None` where one of the two does not vary.
fn correlation(variance: f64, other_variance: f64, covariance: f64) -> Option<f64> {
    let both = (variance * other_variance).sqrt();
    (both > 0.0).then(|| (covariance / both).clamp(-1.0, 1.0))
}
