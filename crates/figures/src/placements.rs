//! Placements of the values of one sample in another.

/// Mean and variance (by count less one) of the placements: for each value, the number of values of
/// the other sample below it, with ties counted half.
pub(crate) struct Placements {
    pub(crate) mean: f64,
    pub(crate) variance: f64,
}

/// The placements of `values` among `others`; both ascending. In one pass over both.
pub(crate) fn placements(values: &[i64], others: &[i64]) -> Placements {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placements_are_those_counted_pair_by_pair() {
        let values = [1, 1, 2, 5, 5, 5, 9];
        let others = [0, 1, 1, 1, 3, 5, 5, 8];
        let counted = values.map(|value| {
            let below = others.iter().filter(|&&other| other < value).count();
            let equal = others.iter().filter(|&&other| other == value).count();
            below as f64 + equal as f64 / 2.0
        });
        assert_eq!(counted, [2.5, 2.5, 4.0, 6.0, 6.0, 6.0, 8.0]);
        let placements = placements(&values, &others);
        assert!((placements.mean - 5.0).abs() < 1e-12);
        // 2 * 2.5² + 1² + 3 * 1² + 3² = 25.5, over 6.
        assert!((placements.variance - 25.5 / 6.0).abs() < 1e-12);
    }
}
