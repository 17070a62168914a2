//! Which setting is best, and which ones nobody should choose: as quick as another, or slower, and
//! dearer.

use serde::{Deserialize, Serialize};

use reveille_figures::quantile;
use reveille_figures::rounds::{
    self, ERROR, Estimate, PERMUTATIONS, median_difference, paired, rounds_needed,
};

/// What a setting costs: power where it can be read, else the time that the CPUs are awake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cost {
    /// Of the processor packages or the battery, W.
    Power,
    /// The share of the CPUs' time in which they did not sleep, 0 to 1.
    TimeAwake,
}

/// One setting's figure and cost of each round; `None` where the round has none.
#[derive(Debug, Clone, Default)]
pub struct Rounds {
    /// Of all rounds' figures together; `None` without one.
    pub median: Option<f64>,
    /// The rounds' medians; less is better (more-is-better figures come negated).
    pub figures: Vec<Option<f64>>,
    /// W, or the share of time awake; empty where neither is known.
    pub costs: Vec<Option<f64>>,
}

/// A setting that another one makes pointless.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dominated {
    /// The one that is pointless, a place in the list of settings.
    pub setting: usize,
    /// The one that makes it so, a place in the list of settings.
    pub by: usize,
    /// The other one's figure is better beyond noise; else its cost alone is.
    pub in_figure: bool,
    /// The other one's cost is less beyond noise; else its figure alone is.
    pub in_cost: bool,
}

/// What speaks against the setting with the best median.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Flaw {
    /// More of its requests had no reply, or more of its runs failed, than under "as is": its median is of the others.
    FailsMore,
    /// Its 99th percentile is worse than that of "as is", beyond noise.
    WorseP99,
}

/// The conclusion of a trial. Settings are places in the list of settings.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Verdict {
    /// The best figure; `None` where no setting has one.
    pub best: Option<usize>,
    /// Those that may be as good, for all that was measured.
    pub as_good: Vec<usize>,
    /// By setting, of the comparison with the best one, adjusted for its choice and for all comparisons;
    /// `None` for the best one and with too few rounds.
    #[serde(default)]
    pub p_values: Vec<Option<f64>>,
    /// From so many permutations; no p-value is below one in one more.
    #[serde(default)]
    pub permutations: u32,
    /// The best one's figure less that of "as is", paired by round; `None` where that is the best.
    /// The interval holds for whichever setting came out best (Bonferroni).
    #[serde(default)]
    pub gain: Option<Estimate>,
    /// Why the best median is not best in every respect.
    #[serde(default)]
    pub flaws: Vec<Flaw>,
    /// Each setting at most once, by the one that is best of those that dominate it.
    pub dominated: Vec<Dominated>,
}

/// By how much a figure or a power may be worse, of the other's, and still count as no worse.
const MARGIN: f64 = 0.05;
/// The same for the time awake: one percentage point, as a share.
const MARGIN_AWAKE: f64 = 0.01;

/// Compares each setting with each other one. Without a cost nothing is dominated.
///
/// A setting dominates another if it is better beyond noise in the figure or in the cost, and shown
/// to be no worse in the other of the two: the whole interval of the difference, paired by round, is
/// below the margin. That a difference was not seen is not enough, for too few rounds never see one.
/// With several settings each interval is widened so that the comparisons of one setting are wrong
/// in 5% of trials together (Bonferroni).
///
/// Which others differ from the best one is a separate test, as the best one is chosen by the figures: see
/// [`rounds::p_values`].
pub fn judge(settings: &[Rounds], cost: Option<Cost>) -> Verdict {
    judge_by(settings, cost, PERMUTATIONS)
}

fn judge_by(settings: &[Rounds], cost: Option<Cost>, permutations: u32) -> Verdict {
    let error = one_of_all(settings.len());
    let figure = |of: usize, than: usize| {
        let (of, than) = (&settings[of].figures, &settings[than].figures);
        Compared::new(of, than, error, MARGIN * middle(than).unwrap_or(0.0).abs())
    };
    let cost = |of: usize, than: usize| {
        let (of, than) = (&settings[of].costs, &settings[than].costs);
        let margin = match cost {
            Some(Cost::TimeAwake) => MARGIN_AWAKE,
            _ => MARGIN * middle(than).unwrap_or(0.0),
        };
        Compared::new(of, than, error, margin)
    };
    let medians = settings.iter().map(|rounds| rounds.median).enumerate();
    let mut by_figure: Vec<(usize, f64)> = medians
        .filter_map(|(place, median)| Some((place, median?)))
        .collect();
    by_figure.sort_by(|one, other| one.1.total_cmp(&other.1));
    let places: Vec<usize> = by_figure.into_iter().map(|(place, _)| place).collect();
    let Some((&best, others)) = places.split_first() else {
        return Verdict::default();
    };
    let dominates = |one: usize, other: usize| {
        let (figure, cost) = (figure(one, other), cost(one, other));
        let better = figure.less || cost.less;
        (better && figure.no_more && cost.no_more).then_some(Dominated {
            setting: other,
            by: one,
            in_figure: figure.less,
            in_cost: cost.less,
        })
    };
    let dominated = |other: &usize| places.iter().find_map(|one| dominates(*one, *other));
    let figures: Vec<Vec<Option<f64>>> = settings.iter().map(|one| one.figures.clone()).collect();
    let mut p_values = rounds::p_values(&figures, best, permutations);
    for (other, p_value) in p_values.iter_mut().enumerate() {
        let rounds = paired(&figures[best], &figures[other]).len();
        *p_value = p_value.filter(|_| rounds >= rounds_needed(ERROR));
    }
    let differs = |other: usize| p_values[other].is_some_and(|p_value| p_value <= ERROR);
    let as_good = others.iter().filter(|&&other| !differs(other));
    Verdict {
        best: Some(best),
        as_good: as_good.copied().collect(),
        p_values: p_values.clone(),
        permutations,
        gain: None,
        flaws: Vec::new(),
        dominated: (0..settings.len())
            .filter_map(|one| dominated(&one))
            .collect(),
    }
}

/// What each of the comparisons of one setting with all others may err by, so that all together err in
/// 5% of trials (Bonferroni).
pub(crate) fn one_of_all(settings: usize) -> f64 {
    ERROR / (settings.max(2) - 1) as f64
}

/// What the rounds show of two settings in one respect.
struct Compared {
    /// Less beyond noise.
    less: bool,
    /// More by no more than the margin, beyond noise.
    no_more: bool,
}

impl Compared {
    fn new(of: &[Option<f64>], than: &[Option<f64>], error: f64, margin: f64) -> Self {
        let difference = median_difference(&paired(of, than), error);
        let high = difference.and_then(|difference| Some(difference.interval?.1));
        Self {
            less: high.is_some_and(|high| high < 0.0),
            no_more: high.is_some_and(|high| high <= margin),
        }
    }
}

fn middle(rounds: &[Option<f64>]) -> Option<f64> {
    let known: Vec<f64> = rounds.iter().flatten().copied().collect();
    quantile::median(&known)
}

#[cfg(test)]
mod tests {
    use statrs::distribution::{Binomial, DiscreteCDF};

    use super::*;

    /// Ten rounds around a figure and a cost, with noise of ±1%.
    fn rounds(figure: f64, cost: Option<f64>, seed: u64) -> Rounds {
        so_many_rounds(10, figure, cost, seed)
    }

    fn so_many_rounds(count: usize, figure: f64, cost: Option<f64>, seed: u64) -> Rounds {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut noisy = |value: f64| Some(value * (0.99 + 0.02 * random.f64()));
        Rounds {
            median: Some(figure),
            figures: (0..count).map(|_| noisy(figure)).collect(),
            costs: cost.map_or(Vec::new(), |cost| (0..count).map(|_| noisy(cost)).collect()),
        }
    }

    #[test]
    fn a_setting_that_is_slower_and_no_cheaper_is_dominated() {
        let settings = [
            rounds(100.0, Some(10.0), 1), // cheap and slow
            rounds(50.0, Some(15.0), 2),
            rounds(60.0, Some(20.0), 3), // slower and dearer than the one before
            rounds(20.0, Some(30.0), 4), // quick and dear
        ];
        let verdict = judge(&settings, Some(Cost::Power));
        assert_eq!(
            (verdict.best, verdict.as_good.as_slice()),
            (Some(3), &[][..])
        );
        let [dominated] = verdict.dominated.as_slice() else {
            panic!("{verdict:?}");
        };
        assert_eq!((dominated.setting, dominated.by), (2, 1));
        assert!(dominated.in_figure && dominated.in_cost);
    }

    #[test]
    fn an_equally_quick_and_cheaper_setting_dominates_by_its_cost() {
        let settings = [rounds(50.0, Some(10.0), 5), rounds(50.0, Some(12.0), 6)];
        let verdict = judge(&settings, Some(Cost::Power));
        assert_eq!(verdict.as_good.len(), 1);
        let dominated = &verdict.dominated[0];
        assert_eq!((dominated.setting, dominated.by), (1, 0));
        assert!(!dominated.in_figure && dominated.in_cost);
    }

    #[test]
    fn without_a_cost_or_with_few_rounds_nothing_is_dominated() {
        let quick_or_slow = [rounds(50.0, None, 7), rounds(100.0, None, 8)];
        let verdict = judge(&quick_or_slow, None);
        assert_eq!((verdict.best, verdict.dominated.len()), (Some(0), 0));
        let mut few = [rounds(50.0, Some(1.0), 9), rounds(100.0, Some(2.0), 10)];
        for rounds in &mut few {
            rounds.figures.truncate(3);
            rounds.costs.truncate(3);
        }
        let verdict = judge(&few, Some(Cost::Power));
        assert_eq!(verdict.dominated.len(), 0);
        assert_eq!((verdict.best, verdict.as_good), (Some(0), vec![1]));
        assert_eq!(judge(&[Rounds::default()], None), Verdict::default());
    }

    #[test]
    fn a_difference_hidden_in_noise_is_not_equality() {
        let mut settings = [rounds(50.0, Some(10.0), 11), rounds(80.0, Some(10.0), 12)];
        assert_eq!(judge(&settings, Some(Cost::Power)).dominated.len(), 1);
        // The quicker one may now cost 40% more, or less: that it does not is unproven.
        for (place, cost) in settings[0].costs.iter_mut().enumerate() {
            *cost = Some(if place % 2 == 0 { 6.0 } else { 14.0 });
        }
        assert_eq!(judge(&settings, Some(Cost::Power)).dominated.len(), 0);
    }

    /// With twelve settings and twenty rounds: the test that assumes a best setting chosen
    /// beforehand (signed ranks, Bonferroni) is wrong in 12 of 100 there, which fewer trials would
    /// hide.
    #[test]
    fn equal_settings_are_distinguished_in_at_most_5_of_100_trials() {
        const TRIES: u64 = 600;
        const SETTINGS: u64 = 12;
        let (mut wrong, mut by_the_older) = (0, 0);
        for try_ in 0..TRIES {
            let mut same: Vec<Rounds> = (0..SETTINGS)
                .map(|one| so_many_rounds(20, 50.0, None, 1000 + try_ * SETTINGS + one))
                .collect();
            for rounds in &mut same {
                rounds.median = middle(&rounds.figures);
            }
            let verdict = judge_by(&same, None, 99);
            wrong += u64::from(verdict.as_good.len() < same.len() - 1);
            let (best, error) = (&same[verdict.best.unwrap()], one_of_all(same.len()));
            let is_less =
                |other: &Rounds| Compared::new(&best.figures, &other.figures, error, 0.0).less;
            by_the_older += u64::from(same.iter().any(is_less));
        }
        // The limits of a share of 5% in all but one of a thousand such tests, on either side.
        let promised = Binomial::new(ERROR, TRIES).unwrap();
        let (least, most) = (promised.inverse_cdf(0.001), promised.inverse_cdf(0.999));
        assert!((least..=most).contains(&wrong), "{wrong} of {TRIES}");
        assert!(by_the_older > most, "it would not be seen: {by_the_older}");
    }

    #[test]
    fn the_p_values_and_their_basis_are_reported() {
        let settings = [rounds(100.0, None, 1), rounds(50.0, None, 2)];
        let verdict = judge_by(&settings, None, 999);
        assert_eq!((verdict.permutations, verdict.p_values[1]), (999, None));
        // Ten rounds on one side: 2 in 1024, and no less than the permutations resolve.
        let p_value = verdict.p_values[0].unwrap();
        assert!((0.001..=0.008).contains(&p_value), "{p_value}");
        assert!(verdict.as_good.is_empty());
    }

    /// Rounds with figures that rise from `from` by `step`, at the same cost.
    fn rising(rounds: usize, from: f64, step: f64) -> Rounds {
        Rounds {
            median: Some(from),
            figures: (0..rounds)
                .map(|round| Some(from + step * round as f64))
                .collect(),
            costs: vec![Some(10.0); rounds],
        }
    }

    #[test]
    fn a_leads_p_value_is_the_share_of_orders_with_one_as_large() {
        let leading = |rounds: usize, settings: usize| -> Vec<Rounds> {
            let figure = |at: usize| 100.0 * (at + 1) as f64;
            (0..settings)
                .map(|at| rising(rounds, figure(at), 1.0))
                .collect()
        };
        let is_near = |(rounds, settings): (usize, usize), p_value: f64| {
            let all = leading(rounds, settings);
            let figures: Vec<Vec<Option<f64>>> = all.into_iter().map(|one| one.figures).collect();
            let seen = rounds::p_values(&figures, 0, PERMUTATIONS)[settings - 1].unwrap();
            // Four standard errors of 9999 permutations.
            let error = 4.0 * (p_value * (1.0 - p_value) / 9_999.0).sqrt();
            assert!((seen - p_value).abs() < error, "{seen} and {p_value}");
        };
        // Of the 2^n orders of two settings two have one of them ahead in each round.
        is_near((5, 2), 2.0 / 32.0);
        is_near((6, 2), 2.0 / 64.0);
        let as_good = |rounds| judge(&leading(rounds, 2), None).as_good.len();
        assert_eq!((as_good(5), as_good(6)), (1, 0));
        // Of the 6^n orders of three settings 6 have one ahead of another by two places in each.
        is_near((2, 3), 6.0 / 36.0);
        is_near((3, 3), 6.0 / 216.0);
    }

    #[test]
    fn a_setting_ahead_in_all_rounds_but_one_at_zero_is_not_better() {
        let mut settings = [rising(6, 100.0, 0.0), rising(6, 100.0, 0.0)];
        settings[1].figures = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
            .map(|more| Some(100.0 + more))
            .to_vec();
        settings[1].median = Some(102.0);
        // The interval of the difference is from -5 to 0.
        assert_eq!(judge(&settings, Some(Cost::Power)).as_good, [1]);
        settings[1].figures[0] = Some(100.5);
        assert_eq!(judge(&settings, Some(Cost::Power)).as_good, [0; 0]);
    }

    #[test]
    fn up_to_a_twentieth_more_is_not_worse_and_above_it_is() {
        // As quick, and costlier by this much in each round; the other is quicker by nothing.
        let with = |figure: f64| {
            let cheap = Rounds {
                median: Some(figure),
                figures: vec![Some(figure); 8],
                costs: vec![Some(5.0); 8],
            };
            let settings = [rising(8, 200.0, 0.0), cheap];
            let verdict = judge_by(&settings, Some(Cost::Power), 1);
            let first = verdict.dominated.first();
            first.map(|one| (one.setting, one.by, one.in_figure, one.in_cost))
        };
        assert_eq!(with(209.9), Some((0, 1, false, true)));
        assert_eq!(with(210.1), None);
    }

    #[test]
    fn time_awake_may_be_one_percentage_point_more_and_power_a_twentieth() {
        let with = |awake: f64, cost: Cost| {
            let mut quick = rising(8, 50.0, 0.0);
            quick.costs = vec![Some(0.5 + awake); 8];
            let mut slow = rising(8, 100.0, 0.0);
            slow.costs = vec![Some(0.5); 8];
            let verdict = judge_by(&[quick, slow], Some(cost), 1);
            !verdict.dominated.is_empty()
        };
        assert!(with(0.009, Cost::TimeAwake) && !with(0.011, Cost::TimeAwake));
        assert!(with(0.024, Cost::Power) && !with(0.026, Cost::Power));
    }

    #[test]
    fn rounds_are_paired_by_index_if_both_have_a_value() {
        let of = [Some(5.0), None, Some(7.0), Some(1.0)];
        let than = [Some(1.0), Some(2.0), None, Some(4.0)];
        assert_eq!(paired(&of, &than), [4.0, -3.0]);
        assert_eq!(middle(&than), Some(2.0));
        assert_eq!(middle(&[None]), None);
    }

    #[test]
    fn a_setting_without_figures_is_neither_best_nor_as_good() {
        let settings = [
            Rounds::default(),
            rising(8, 100.0, 1.0),
            rising(8, 90.0, 1.0),
        ];
        let verdict = judge(&settings, None);
        assert_eq!((verdict.best, verdict.as_good.len()), (Some(2), 0));
    }

    #[test]
    fn the_comparisons_of_one_setting_share_the_error_rate() {
        // With four others each has a quarter of the error rate.
        let shares = [1, 2, 3, 5].map(one_of_all);
        assert_eq!(shares, [ERROR, ERROR, ERROR / 2.0, ERROR / 4.0]);
    }
}
