//! Several tests at once: Holm, "A Simple Sequentially Rejective Multiple Test Procedure", Scandinavian Journal of
//! Statistics 6 (1979).

/// The p-values, each adjusted for all: the smallest counts once for each test, the next once less, and none is
/// less than the one before.
pub fn adjusted(p_values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|&left, &right| p_values[left].total_cmp(&p_values[right]));
    let mut adjusted = vec![0.0; p_values.len()];
    let mut least = 0.0_f64;
    for (rank, &at) in order.iter().enumerate() {
        let times = (order.len() - rank) as f64;
        least = least.max((p_values[at] * times).min(1.0));
        adjusted[at] = least;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_p_value_counts_for_the_tests_that_are_not_smaller() {
        // 4 · 0.01, 3 · 0.02, 2 · 0.03 (no less than the one before), 1 · 0.5.
        let adjusted = adjusted(&[0.5, 0.01, 0.03, 0.02]);
        let expected = [0.5, 0.04, 0.06, 0.06];
        let is_near = |(one, other): (&f64, &f64)| (one - other).abs() < 1e-12;
        assert!(adjusted.iter().zip(&expected).all(is_near), "{adjusted:?}");
        assert_eq!(super::adjusted(&[0.4, 0.9]), [0.8, 0.9]);
        assert_eq!(super::adjusted(&[0.7, 0.6]), [1.0, 1.0]);
        assert!(super::adjusted(&[]).is_empty());
    }
}
