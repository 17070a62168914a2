//! Times in sentences and charts.

use reveille_show::quantity::duration;

use crate::cycle::Us;

/// In the unit that fits.
pub(crate) fn time(us: Us) -> String {
    duration(us as f64 * 1e3)
}
