//! What a trial says, in words: the same ones on the terminal and on a page.

use reveille_results::description::Ended;

use crate::result::Trial;
use crate::verdict::{Cost, Dominated, one_of_all};
use crate::workload::NANOSECONDS;
use reveille_figures::rounds::{Against, ERROR, Estimate, rounds_needed};

/// In what unit a trial's figures are shown.
#[derive(Debug, Clone, PartialEq)]
pub struct Scale {
    /// One of the unit is so many of the workload's.
    pub divisor: f64,
    /// `µs`, or the user's word; empty where none was given.
    pub unit: String,
}

impl Scale {
    /// The unit that leaves one to three digits before the point of that figure.
    pub fn of(unit: &str, figure: f64) -> Self {
        let (divisor, unit) = match (unit, figure.abs()) {
            (NANOSECONDS, size) if size < 999.5 => (1.0, "ns"),
            (NANOSECONDS, size) if size < 999.5e3 => (1e3, "µs"),
            (NANOSECONDS, size) if size < 999.5e6 => (1e6, "ms"),
            (NANOSECONDS, _) => (1e9, "s"),
            (unit, _) => (1.0, unit),
        };
        Self {
            divisor,
            unit: unit.to_owned(),
        }
    }

    /// The unit for all figures of the trial: that of the first median.
    pub fn of_trial(trial: &Trial) -> Self {
        let mut figures = trial.settings.iter().filter_map(|one| one.figure.as_ref());
        let median = figures.next().map_or(0.0, |figure| figure.median);
        Self::of(&trial.workload.unit, median)
    }

    /// Three significant digits, whole from 100 up, without the unit.
    pub fn number(&self, figure: f64) -> String {
        three_digits(figure / self.divisor)
    }

    /// With the unit.
    pub fn text(&self, figure: f64) -> String {
        format!("{} {}", self.number(figure), self.unit)
            .trim_end()
            .to_owned()
    }
}

/// Three significant digits, whole from 100 up, four places after the point at most.
pub fn three_digits(value: f64) -> String {
    match value.abs() {
        size if size >= 99.95 => format!("{value:.0}"),
        size if size >= 9.995 => format!("{value:.1}"),
        size if size >= 0.9995 => format!("{value:.2}"),
        size if size >= 0.099_95 => format!("{value:.3}"),
        0.0 => "0".into(),
        _ => format!("{value:.4}"),
    }
}

/// What the trial says, a sentence each.
pub fn sentences(trial: &Trial) -> Vec<String> {
    let mut sentences = Vec::new();
    let scale = Scale::of_trial(trial);
    sentences.extend(best(trial, &scale));
    sentences.extend(as_good(trial));
    sentences.extend(
        trial
            .verdict
            .dominated
            .iter()
            .map(|one| dominated(trial, one, &scale)),
    );
    sentences.extend(little_sleep(trial));
    sentences.extend(too_few_rounds(trial));
    match &trial.about.ended {
        Ended::Completed => {}
        Ended::Interrupted => {
            sentences.push("The trial was interrupted; this is what it had gathered.".into());
        }
        Ended::Disturbed(why) => {
            sentences.push(format!(
                "The trial ended early: {why}; this is what it had gathered."
            ));
        }
    }
    sentences
}

fn name(trial: &Trial, place: usize) -> String {
    format!("`{}`", trial.settings[place].name)
}

/// The place of "as is" among a trial's settings.
const AS_IS: usize = 0;

fn best(trial: &Trial, scale: &Scale) -> Option<String> {
    let place = trial.verdict.best?;
    let setting = &trial.settings[place];
    let median = scale.text(setting.figure.as_ref()?.median);
    let name = name(trial, place);
    // The p-value knows that it was chosen; the interval may be missing, or wider.
    let is_as_good = trial.verdict.as_good.contains(&AS_IS);
    let holds_zero = |gain: &Estimate| gain.against_zero() == Against::Unknown;
    // An estimate of 0 has no sign: what is better says in which direction it is.
    let is_less = |gain: &Estimate| match gain.estimate {
        0.0 => !trial.workload.higher_is_better,
        estimate => estimate < 0.0,
    };
    let more_or_less = |gain: &Estimate| if is_less(gain) { "less" } else { "more" };
    let interval = |gain: &Estimate| interval(gain, is_less(gain), scale);
    Some(match &trial.verdict.gain {
        None if place != AS_IS => format!(
            "{name} has the best median, {median}, and no round in common with `as is` to compare it."
        ),
        None if trial.verdict.as_good.is_empty() => {
            format!("Nothing beats {name}: {median} at the median.")
        }
        None => format!("Nothing is shown to beat {name}: {median} at the median."),
        Some(difference) if is_as_good && holds_zero(difference) => format!(
            "{name} has the best median, {median}, but it cannot be told from `as is` beyond noise."
        ),
        // Alone it would be beyond noise; as the best of several it may be so by chance.
        Some(difference) if is_as_good => format!(
            "{name} has the best median, {median}, {} {} than as is{}; of {} settings, the best one \
             may be so by chance.",
            scale.text(difference.estimate.abs()),
            more_or_less(difference),
            interval(difference),
            trial.settings.len()
        ),
        Some(difference) if difference.interval.is_some() && holds_zero(difference) => format!(
            "{name} is best: {median} at the median. That it is {} than as is is shown, but not by \
             how much: {}{}.",
            more_or_less(difference),
            scale.text(difference.estimate.abs()),
            interval(difference)
        ),
        Some(difference) => format!(
            "{name} is best: {median} at the median, {} {} than as is{}.",
            scale.text(difference.estimate.abs()),
            more_or_less(difference),
            interval(difference)
        ),
    })
}

/// The interval of a size: of how much less it is, or how much more.
fn interval(difference: &Estimate, is_less: bool, scale: &Scale) -> String {
    let Some((low, high)) = difference.interval else {
        return String::new();
    };
    let (low, high) = match is_less {
        true => (-high, -low),
        false => (low, high),
    };
    format!(" [{}, {}]", scale.number(low), scale.number(high))
}

fn as_good(trial: &Trial) -> Option<String> {
    let as_good = trial.verdict.as_good.iter();
    let names: Vec<String> = as_good.map(|place| name(trial, *place)).collect();
    (!names.is_empty()).then(|| {
        format!(
            "Not told apart from the best by these rounds: {}.",
            list(&names)
        )
    })
}

fn dominated(trial: &Trial, one: &Dominated, scale: &Scale) -> String {
    let (better, cheaper) = match (trial.workload.higher_is_better, trial.cost) {
        (false, Some(Cost::Power)) => ("quicker", "takes less power"),
        (false, _) => ("quicker", "sleeps more"),
        (true, Some(Cost::Power)) => ("better", "takes less power"),
        (true, _) => ("better", "sleeps more"),
    };
    let costs_no_more = match trial.cost {
        Some(Cost::Power) => "takes no more power",
        _ => "sleeps no less",
    };
    let why = match (one.in_figure, one.in_cost) {
        (true, true) => format!("is {better} and {cheaper}"),
        (true, false) => format!("is {better} and {costs_no_more}"),
        _ => format!("{cheaper} and is no worse"),
    };
    let figures = medians(trial, one, scale).unwrap_or_default();
    format!(
        "{} is dominated: {} {why}{figures}.",
        name(trial, one.setting),
        name(trial, one.by)
    )
}

fn medians(trial: &Trial, one: &Dominated, scale: &Scale) -> Option<String> {
    let of = |place: usize| Some(scale.text(trial.settings[place].figure.as_ref()?.median));
    Some(format!(" ({} against {})", of(one.by)?, of(one.setting)?))
}

/// CPUs that hardly sleep have nothing to wake from, whatever is set.
fn little_sleep(trial: &Trial) -> Option<String> {
    /// From here on most of what is measured meets a CPU that is awake.
    const BUSY_PERCENT: f64 = 70.0;
    let as_is = trial.settings.first()?.observed.as_ref()?;
    let awake = as_is.awake_percent.filter(|awake| *awake >= BUSY_PERCENT)?;
    Some(format!(
        "The CPUs were awake {awake:.0} % of the time under `as is`: there was little sleep whose \
         cost could show."
    ))
}

fn too_few_rounds(trial: &Trial) -> Option<String> {
    let least = trial.settings.iter().map(|setting| setting.rounds).min()?;
    let settings = trial.settings.len();
    let needed = rounds_needed(ERROR) as u64;
    let of_best = rounds_needed(one_of_all(settings)) as u64;
    let what = match &trial.verdict.gain {
        _ if least < needed => format!("A difference has an interval from {needed} rounds on"),
        Some(gain) if gain.interval.is_none() => format!(
            "The best one's gain has an interval from {of_best} rounds on, as one of {settings} \
             settings"
        ),
        _ => return None,
    };
    Some(format!(
        "{what}; here are {least}. Give more with --rounds."
    ))
}

/// `a`, `a and b`, `a, b and c`.
fn list(words: &[String]) -> String {
    match words {
        [] => String::new(),
        [one] => one.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::tests::{trial, workload};
    use crate::verdict::Verdict;

    #[test]
    fn a_figure_is_shown_in_the_unit_that_fits() {
        let scale = Scale::of(NANOSECONDS, 61_234.0);
        assert_eq!(
            (scale.unit.as_str(), scale.text(61_234.0)),
            ("µs", "61.2 µs".into())
        );
        assert_eq!(scale.text(1_234_567.0), "1235 µs");
        assert_eq!(Scale::of(NANOSECONDS, 2.5e9).text(2.5e9), "2.50 s");
        assert_eq!(Scale::of("ops/s", 5.0).text(123.4), "123 ops/s");
        assert_eq!(Scale::of("", 5.0).text(5.0), "5.00");
        assert_eq!(three_digits(-0.0), "0");
        assert_eq!(Scale::of("ms", 0.03).text(0.031), "0.0310 ms");
        assert_eq!(
            (three_digits(0.5), three_digits(0.9996)),
            ("0.500".into(), "1.00".into())
        );
    }

    #[test]
    fn the_best_setting_is_named_with_its_gain_and_interval() {
        let said = sentences(&trial());
        assert_eq!(
            said,
            ["`no sleep` is best: 77.0 ns at the median, 30.0 ns less than as is [30.0, 30.0]."]
        );
    }

    #[test]
    fn what_was_not_shown_is_not_claimed() {
        let mut trial = trial();
        trial.verdict.gain = Some(Estimate {
            estimate: -1.0,
            interval: Some((-3.0, 1.0)),
            rounds: 10,
        });
        trial.verdict.as_good = vec![0];
        let said = sentences(&trial);
        assert!(said[0].contains("cannot be told from `as is`"), "{said:?}");
        trial.verdict = Verdict {
            best: Some(0),
            ..Verdict::default()
        };
        assert!(sentences(&trial)[0].starts_with("Nothing beats `as is`"));
    }

    #[test]
    fn the_best_of_several_is_not_called_best_where_as_is_may_be_as_good() {
        let mut trial = trial();
        trial.verdict.as_good = vec![0];
        let said = sentences(&trial);
        assert!(said[0].contains("may be so by chance"), "{said:?}");
        assert!(said[1].starts_with("Not told apart"), "{said:?}");
    }

    #[test]
    fn a_best_one_that_is_told_apart_is_called_best_though_its_gain_has_no_interval() {
        let mut trial = trial();
        let third = trial.settings[0].clone();
        trial.settings.push(third);
        for setting in &mut trial.settings {
            setting.rounds = 6;
        }
        trial.verdict.gain = Some(Estimate {
            estimate: -30.0,
            interval: None,
            rounds: 6,
        });
        // Six rounds on one side are enough to tell it apart, and seven for an interval of three.
        assert_eq!(
            sentences(&trial),
            [
                "`no sleep` is best: 77.0 ns at the median, 30.0 ns less than as is.",
                "The best one's gain has an interval from 7 rounds on, as one of 3 settings; here \
                 are 6. Give more with --rounds."
            ]
        );
        trial.verdict.as_good = vec![0];
        let said = sentences(&trial);
        assert!(said[0].contains("cannot be told from `as is`"), "{said:?}");
    }

    #[test]
    fn a_best_one_that_is_told_apart_is_not_called_like_as_is_where_its_interval_holds_zero() {
        let mut trial = trial();
        trial.verdict.gain = Some(Estimate {
            estimate: -30.0,
            interval: Some((-63.0, 1.0)),
            rounds: 10,
        });
        assert_eq!(
            sentences(&trial),
            [
                "`no sleep` is best: 77.0 ns at the median. That it is less than as is is shown, but \
              not by how much: 30.0 ns [-1.00, 63.0]."
            ]
        );
    }

    #[test]
    fn a_dominated_setting_is_named_with_why() {
        let mut trial = trial();
        trial.verdict.dominated = vec![Dominated {
            setting: 0,
            by: 1,
            in_figure: true,
            in_cost: false,
        }];
        let said = sentences(&trial);
        assert_eq!(
            said[1],
            "`as is` is dominated: `no sleep` is quicker and sleeps no less (77.0 ns against 107 ns)."
        );
        trial.workload = workload(true);
        trial.cost = Some(Cost::Power);
        assert!(sentences(&trial)[1].contains("is better and takes no more power"));
    }

    #[test]
    fn a_busy_machine_is_said_to_have_had_little_sleep() {
        let mut trial = trial();
        let observed = trial.settings[0].observed.as_mut().unwrap();
        observed.awake_percent = Some(96.0);
        let said = sentences(&trial);
        assert!(said[1].contains("awake 96 %"), "{said:?}");
    }

    #[test]
    fn too_few_rounds_and_an_early_end_are_said() {
        let mut trial = trial();
        trial.settings[0].rounds = 3;
        trial.about.ended = Ended::Interrupted;
        let said = sentences(&trial);
        assert!(said[1].contains("from 6 rounds on; here are 3"), "{said:?}");
        assert!(said[2].contains("interrupted"), "{said:?}");
    }

    #[test]
    fn a_unit_and_the_digits_change_where_rounding_would_show_a_fourth_digit() {
        for (figure, text) in [
            (999.4, "999 ns"),
            (999.5, "1.00 µs"),
            (999.4e3, "999 µs"),
            (999.5e3, "1.00 ms"),
            (999.4e6, "999 ms"),
            (999.5e6, "1.00 s"),
            (-999.5e3, "-1.00 ms"),
        ] {
            assert_eq!(Scale::of(NANOSECONDS, figure).text(figure), text);
        }
        for (value, digits) in [
            (99.95, "100"),
            (99.94, "99.9"),
            (9.995, "10.0"),
            (9.994, "9.99"),
            (0.9995, "1.00"),
            (0.9994, "0.999"),
            (0.09995, "0.100"),
            (0.09994, "0.0999"),
            (-99.95, "-100"),
            (0.00004, "0.0000"),
        ] {
            assert_eq!(three_digits(value), digits, "{value}");
        }
    }

    #[test]
    fn the_first_sentence_claims_what_choice_and_interval_allow() {
        let gain = |estimate, interval| {
            Some(Estimate {
                estimate,
                interval,
                rounds: 10,
            })
        };
        let (clear, unclear) = (Some((-31.0, -29.0)), Some((-31.0, 1.0)));
        let mut trial = trial();
        for (best, as_good, gain, said) in [
            (
                1,
                vec![],
                None,
                "`no sleep` has the best median, 77.0 ns, and no round in common with `as is` to \
                 compare it.",
            ),
            (
                0,
                vec![],
                None,
                "Nothing beats `as is`: 107 ns at the median.",
            ),
            (
                0,
                vec![1],
                None,
                "Nothing is shown to beat `as is`: 107 ns at the median.",
            ),
            (
                1,
                vec![0],
                gain(-30.0, clear),
                "`no sleep` has the best median, 77.0 ns, 30.0 ns less than as is [29.0, 31.0]; of 2 \
                 settings, the best one may be so by chance.",
            ),
            (
                1,
                vec![0],
                gain(-30.0, unclear),
                "`no sleep` has the best median, 77.0 ns, but it cannot be told from `as is` beyond \
                 noise.",
            ),
        ] {
            trial.verdict = Verdict {
                best: Some(best),
                as_good,
                gain,
                ..Verdict::default()
            };
            assert_eq!(sentences(&trial)[0], said);
        }
    }

    #[test]
    fn what_is_shown_to_be_best_is_said_to_be_less_or_more_as_the_workload_has_it() {
        let mut trial = trial();
        for (higher_is_better, estimate, interval, said) in [
            (
                false,
                -30.0,
                Some((-31.0, -29.0)),
                ", 30.0 ns less than as is [29.0, 31.0].",
            ),
            (
                true,
                30.0,
                Some((29.0, 31.0)),
                ", 30.0 ns more than as is [29.0, 31.0].",
            ),
            (
                true,
                30.0,
                Some((-1.0, 63.0)),
                ". That it is more than as is is shown, but not by how much: 30.0 ns [-1.00, 63.0].",
            ),
            // An estimate of 0 has no sign, and the word is that of what is better.
            (
                false,
                0.0,
                Some((-3.0, 1.0)),
                ". That it is less than as is is shown, but not by how much: 0 ns [-1.00, 3.00].",
            ),
            (
                true,
                0.0,
                Some((-1.0, 3.0)),
                ". That it is more than as is is shown, but not by how much: 0 ns [-1.00, 3.00].",
            ),
            (false, 0.0, None, ", 0 ns less than as is."),
            (true, 0.0, None, ", 0 ns more than as is."),
        ] {
            trial.workload = workload(higher_is_better);
            trial.verdict.gain = Some(Estimate {
                estimate,
                interval,
                rounds: 10,
            });
            let said = format!("`no sleep` is best: 77.0 ns at the median{said}");
            assert_eq!(sentences(&trial)[0], said);
        }
    }

    #[test]
    fn why_a_setting_is_dominated_is_in_the_words_of_its_figure_and_cost() {
        let mut trial = trial();
        let power = Some(Cost::Power);
        let awake = Some(Cost::TimeAwake);
        for (higher_is_better, cost, in_figure, in_cost, why) in [
            (false, awake, true, true, "is quicker and sleeps more"),
            (false, awake, true, false, "is quicker and sleeps no less"),
            (false, awake, false, true, "sleeps more and is no worse"),
            (false, power, true, true, "is quicker and takes less power"),
            (
                false,
                power,
                true,
                false,
                "is quicker and takes no more power",
            ),
            (
                false,
                power,
                false,
                true,
                "takes less power and is no worse",
            ),
            (true, awake, true, true, "is better and sleeps more"),
            (true, power, true, true, "is better and takes less power"),
        ] {
            trial.workload = workload(higher_is_better);
            trial.cost = cost;
            trial.verdict.dominated = vec![Dominated {
                setting: 0,
                by: 1,
                in_figure,
                in_cost,
            }];
            let said = &sentences(&trial)[1];
            let expected =
                format!("`as is` is dominated: `no sleep` {why} (77.0 ns against 107 ns).");
            assert_eq!(*said, expected);
        }
    }

    #[test]
    fn from_70_percent_on_the_cpus_are_said_to_have_slept_little() {
        let mut trial = trial();
        let mut said = |awake| {
            let observed = trial.settings[0].observed.as_mut().unwrap();
            observed.awake_percent = awake;
            sentences(&trial).get(1).cloned()
        };
        let little = "The CPUs were awake 70 % of the time under `as is`: there was little sleep \
                      whose cost could show.";
        assert_eq!(said(Some(70.0)).as_deref(), Some(little));
        assert_eq!(said(Some(69.9)), None);
        assert_eq!(said(None), None);
    }

    #[test]
    fn settings_that_are_as_good_are_listed_and_an_early_end_says_why() {
        let mut trial = trial();
        for name in ["C1", "C6"] {
            let mut setting = trial.settings[0].clone();
            setting.name = name.into();
            trial.settings.push(setting);
        }
        trial.verdict.as_good = vec![0, 2, 3];
        trial.about.ended = Ended::Disturbed("CPU 3 went offline".into());
        let said = sentences(&trial);
        assert_eq!(
            said[1..],
            [
                "Not told apart from the best by these rounds: `as is`, `C1` and `C6`.",
                "The trial ended early: CPU 3 went offline; this is what it had gathered.",
            ]
        );
        let listed =
            |words: &[&str]| list(&words.iter().map(|&one| one.into()).collect::<Vec<_>>());
        assert_eq!(listed(&[]), "");
        assert_eq!(
            (listed(&["a"]), listed(&["a", "b"])),
            ("a".into(), "a and b".into())
        );
    }
}
