//! The cost of a step of the probes, from many repetitions.

use reveille_results::description::Cost;

/// Statistics of repetitions, ns; `None` if there are none.
pub fn of(mut tries: Vec<f64>) -> Option<Cost> {
    tries.sort_by(f64::total_cmp);
    let (min_ns, max_ns) = (*tries.first()?, *tries.last()?);
    let count = tries.len();
    let (low, high) = (tries[(count - 1) / 2], tries[count / 2]);
    Some(Cost {
        count: count as u64,
        mean_ns: tries.iter().sum::<f64>() / count as f64,
        median_ns: Some((low + high) / 2.0),
        min_ns,
        max_ns,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_interrupted_try_does_not_change_the_median() {
        let mut tries = vec![30.0; 999];
        tries.push(1e6);
        let cost = of(tries).unwrap();
        assert_eq!(cost.median_ns, Some(30.0));
        assert_eq!((cost.count, cost.min_ns, cost.max_ns), (1000, 30.0, 1e6));
        assert!(cost.mean_ns > 1000.0);
    }

    #[test]
    fn the_median_of_an_even_number_of_tries_is_the_mean_of_the_middle_two() {
        assert_eq!(of(vec![1.0, 4.0, 2.0, 3.5]).unwrap().median_ns, Some(2.75));
        assert_eq!(of(vec![294.0, 1254.0]).unwrap().median_ns, Some(774.0));
        assert_eq!(of(vec![5.0]).unwrap().median_ns, Some(5.0));
        assert_eq!(of(Vec::new()), None);
    }
}
