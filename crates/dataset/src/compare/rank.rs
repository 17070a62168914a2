//! Where the values of one sample lie in another.

/// Of each value, how many of the other sample lie below it, those equal to it counted half: mean
/// and variance (by count less one) of that number.
pub(super) struct Placements {
    pub(super) mean: f64,
    pub(super) variance: f64,
}

/// The placements of `values` among `others`; both ascending. In one pass over both.
pub(super) fn placements(values: &[i64], others: &[i64]) -> Placements {
    let (mut below, mut to) = (0, 0);
    let mut mean = 0.0;
    let mut squares = 0.0;
    for (at, value) in values.iter().enumerate() {
        while others.get(below).is_some_and(|other| other < value) {
            below += 1;
        }
        to = to.max(below);
        while others.get(to).is_some_and(|other| other == value) {
            to += 1;
        }
        let placement = (below + to) as f64 / 2.0;
        // Welford's recurrence.
        let off = placement - mean;
        mean += off / (at + 1) as f64;
        squares += off * (placement - mean);
    }
    Placements {
        mean,
        variance: squares / (values.len() as f64 - 1.0),
    }
}
