//! What a trial shows, in sentences. Names of settings are between backquotes.

use reveille_figures::rounds::{Against, ERROR, Estimate, rounds_needed};
use reveille_show::quantity::{counted, listed, share};

use super::figure;
use crate::result::{Setting, Trial};
use crate::verdict::{Cost, Dominated, one_of_all};

/// The place of "as is" among a trial's settings.
const AS_IS: usize = 0;

/// The best setting, and which ones may be as good.
pub fn answer(trial: &Trial) -> String {
    let Some(best) = best(trial) else {
        return "No setting gave a figure.".to_owned();
    };
    let as_good = trial.verdict.as_good.iter();
    let names: Vec<String> = as_good.map(|place| name(trial, *place)).collect();
    match names.is_empty() {
        true => best,
        false => format!(
            "{best} Not distinguishable from the best by these rounds: {}.",
            listed(&names)
        ),
    }
}

/// What else the rounds show, and what they lack.
pub fn notes(trial: &Trial) -> Vec<String> {
    let dominated = trial.verdict.dominated.iter();
    let dominated = dominated.map(|one| self::dominated(trial, one));
    let settings = trial.settings.iter().enumerate();
    let failed = settings.filter_map(|(place, setting)| failed(trial, place, setting));
    dominated
        .chain(little_sleep(trial))
        .chain(too_few_rounds(trial))
        .chain(failed)
        .chain(late(trial))
        .collect()
}

fn name(trial: &Trial, place: usize) -> String {
    format!("`{}`", trial.settings[place].name)
}

fn median(trial: &Trial, place: usize) -> Option<String> {
    let median = trial.settings[place].figure.as_ref()?.median;
    Some(figure::text(&trial.workload, median))
}

fn best(trial: &Trial) -> Option<String> {
    let place = trial.verdict.best?;
    let (name, median) = (name(trial, place), median(trial, place)?);
    let as_good = &trial.verdict.as_good;
    let Some(gain) = &trial.verdict.gain else {
        return Some(match place {
            AS_IS if as_good.is_empty() => format!("No setting beats {name}: median {median}."),
            AS_IS => format!("No setting is shown to beat {name}: median {median}."),
            _ => format!(
                "{name} has the best median, {median}; it has no round in common with `as is`, so \
                 they are not compared."
            ),
        });
    };
    // The p-value takes the choice of the best into account; the interval may be missing, or wider.
    let is_as_good = as_good.contains(&AS_IS);
    let holds_zero = gain.against_zero() == Against::Unknown;
    // An estimate of 0 has no sign: it is the better direction.
    let is_less = match gain.estimate {
        0.0 => !trial.workload.higher_is_better,
        estimate => estimate < 0.0,
    };
    let than = if is_less { "less" } else { "more" };
    let size = figure::text(&trial.workload, &size(gain, is_less));
    Some(match (is_as_good, holds_zero) {
        (true, true) => format!(
            "{name} has the best median, {median}, but its difference from `as is` is within noise."
        ),
        // Alone it would be beyond noise.
        (true, false) => format!(
            "{name} has the best median, {median}, {size} {than} than `as is`; as the best of {} \
             settings it may be so by chance.",
            trial.settings.len()
        ),
        (false, true) if gain.interval.is_some() => format!(
            "{name} is best: median {median}, {than} than `as is`, but the size of the difference is \
             uncertain: {size}."
        ),
        (false, _) => format!("{name} is best: median {median}, {size} {than} than `as is`."),
    })
}

/// How much less it is, or how much more.
fn size(difference: &Estimate, is_less: bool) -> Estimate {
    let interval = difference.interval;
    Estimate {
        estimate: difference.estimate.abs(),
        interval: match is_less {
            true => interval.map(|(low, high)| (-high, -low)),
            false => interval,
        },
        rounds: difference.rounds,
    }
}

fn dominated(trial: &Trial, one: &Dominated) -> String {
    let better = match trial.workload.higher_is_better {
        false => "faster",
        true => "better",
    };
    let (cheaper, costs_no_more) = match trial.cost {
        Some(Cost::Power) => ("takes less power", "takes no more power"),
        _ => ("sleeps more", "sleeps no less"),
    };
    let why = match (one.in_figure, one.in_cost) {
        (true, true) => format!("is {better} and {cheaper}"),
        (true, false) => format!("is {better} and {costs_no_more}"),
        _ => format!("{cheaper} and is no worse"),
    };
    let medians = median(trial, one.by).zip(median(trial, one.setting));
    let medians = medians.map(|(by, of)| format!(" ({by} against {of})"));
    format!(
        "{} is dominated: {} {why}{}.",
        name(trial, one.setting),
        name(trial, one.by),
        medians.unwrap_or_default()
    )
}

/// Requests without a reply, or runs that failed.
fn failed(trial: &Trial, place: usize, setting: &Setting) -> Option<String> {
    let what = match (setting.failed, trial.workload.kind.as_str()) {
        (0, _) => return None,
        (failed, "command") => format!("{} failed", counted(failed, "run")),
        (failed, _) => format!("{} without a reply", counted(failed, "request")),
    };
    let mut rounds = trial.rounds.iter().filter(|one| one.setting == place);
    let why = rounds.find_map(|one| one.why_failed.as_deref());
    let why = why.map_or(String::new(), |why| format!("; the first: {why}"));
    Some(format!("{}: {what}{why}.", name(trial, place)))
}

/// Where replies are slower than the rate, requests are sent one after the other.
fn late(trial: &Trial) -> Option<String> {
    /// From here on a burst's rate is not the one that was asked for.
    const NOTABLE: f64 = 0.05;
    // Of equal shares the last one is found.
    let settings = trial.settings.iter().enumerate().rev();
    let shares = settings.filter_map(|(place, setting)| {
        let late = setting.bursts.as_ref()?.late as f64;
        let sent = setting.figure.as_ref()?.count + setting.failed;
        Some((place, late / sent as f64))
    });
    let (place, most) = shares.max_by(|one, other| one.1.total_cmp(&other.1))?;
    (most >= NOTABLE).then(|| {
        format!(
            "{}: {} of the requests in bursts were sent after they were due, because the reply before came \
             later; use a lower rate.",
            name(trial, place),
            share(most)
        )
    })
}

/// CPUs that hardly sleep have nothing to wake from, whatever is set.
fn little_sleep(trial: &Trial) -> Option<String> {
    /// From here on most of what is measured meets a CPU that is awake.
    const BUSY_PERCENT: f64 = 70.0;
    let as_is = trial.settings.first()?.observed.as_ref()?;
    let awake = as_is.awake_percent.filter(|awake| *awake >= BUSY_PERCENT)?;
    Some(format!(
        "Under `as is` the CPUs were awake {} of the time: there was little sleep whose cost could \
         show.",
        share(awake / 100.0)
    ))
}

fn too_few_rounds(trial: &Trial) -> Option<String> {
    let least = trial.settings.iter().map(|setting| setting.rounds).min()?;
    let settings = trial.settings.len();
    let needed = rounds_needed(ERROR) as u64;
    let (what, needed) = match &trial.verdict.gain {
        _ if least < needed => ("The interval of a difference".to_owned(), needed),
        Some(gain) if gain.interval.is_none() => (
            format!("The interval of the best of {settings} settings"),
            rounds_needed(one_of_all(settings)) as u64,
        ),
        _ => return None,
    };
    Some(format!(
        "{what} needs {needed} rounds; here are {least}. Use --rounds."
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::BurstFigures;
    use crate::result::tests::{trial, workload};
    use crate::verdict::Verdict;

    #[test]
    fn the_best_setting_is_named_with_its_gain_and_interval() {
        assert_eq!(
            answer(&trial()),
            "`no sleep` is best: median 77 ns, 30 [30, 30] ns less than `as is`."
        );
    }

    #[test]
    fn unproven_gains_are_not_claimed() {
        let mut trial = trial();
        trial.verdict.gain = Some(Estimate {
            estimate: -1.0,
            interval: Some((-3.0, 1.0)),
            rounds: 10,
        });
        trial.verdict.as_good = vec![0];
        assert!(answer(&trial).contains("difference from `as is` is within noise"));
        trial.verdict = Verdict {
            best: Some(0),
            ..Verdict::default()
        };
        assert!(answer(&trial).starts_with("No setting beats `as is`"));
    }

    #[test]
    fn the_best_of_several_is_not_called_best_if_as_is_may_be_as_good() {
        let mut trial = trial();
        trial.verdict.as_good = vec![0];
        let answer = answer(&trial);
        assert!(
            answer.contains("may be so by chance. Not distinguishable"),
            "{answer}"
        );
    }

    #[test]
    fn a_distinguished_best_setting_is_called_best_even_without_an_interval() {
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
        // Six rounds on one side are enough to distinguish it, and seven for an interval of three.
        assert_eq!(
            answer(&trial),
            "`no sleep` is best: median 77 ns, 30 ns less than `as is`."
        );
        assert_eq!(
            notes(&trial)[0],
            "The interval of the best of 3 settings needs 7 rounds; here are 6. Use --rounds."
        );
        trial.verdict.as_good = vec![0];
        assert!(answer(&trial).contains("difference from `as is` is within noise"));
    }

    #[test]
    fn a_distinguished_best_setting_is_not_called_equal_to_as_is_if_its_interval_includes_zero() {
        let mut trial = trial();
        trial.verdict.gain = Some(Estimate {
            estimate: -30.0,
            interval: Some((-63.0, 1.0)),
            rounds: 10,
        });
        assert_eq!(
            answer(&trial),
            "`no sleep` is best: median 77 ns, less than `as is`, but the size of the difference is \
             uncertain: 30 [-1, 63] ns."
        );
    }

    #[test]
    fn a_dominated_setting_is_named_with_its_reason() {
        let mut trial = trial();
        trial.verdict.dominated = vec![Dominated {
            setting: 0,
            by: 1,
            in_figure: true,
            in_cost: false,
        }];
        assert_eq!(
            notes(&trial)[0],
            "`as is` is dominated: `no sleep` is faster and sleeps no less (77 ns against 107 ns)."
        );
        trial.workload = workload(true);
        trial.cost = Some(Cost::Power);
        assert!(notes(&trial)[0].contains("is better and takes no more power"));
    }

    #[test]
    fn a_busy_machine_is_reported_to_have_slept_little() {
        let mut trial = trial();
        let observed = trial.settings[0].observed.as_mut().unwrap();
        observed.awake_percent = Some(96.0);
        assert!(notes(&trial)[0].contains("awake 96.0% of the time"));
    }

    #[test]
    fn too_few_rounds_are_noted() {
        let mut trial = trial();
        trial.settings[0].rounds = 3;
        assert_eq!(
            notes(&trial)[0],
            "The interval of a difference needs 6 rounds; here are 3. Use --rounds."
        );
    }

    #[test]
    fn requests_without_a_reply_and_failed_runs_are_counted_with_the_first_reason() {
        let mut trial = trial();
        trial.rounds[3].why_failed = Some("refused".into());
        trial.settings[1].failed = 1;
        assert_eq!(
            notes(&trial),
            [
                "`as is`: 10 requests without a reply; the first: refused.",
                "`no sleep`: 1 request without a reply."
            ]
        );
        trial.workload.kind = "command".into();
        trial.settings[0].failed = 0;
        assert_eq!(notes(&trial), ["`no sleep`: 1 run failed."]);
    }

    #[test]
    fn requests_that_a_late_reply_delayed_are_noted_if_they_are_many() {
        let mut trial = trial();
        let late = |late| {
            Some(BurstFigures {
                first: None,
                late,
                asleep_percent: None,
                asleep_difference_percent: None,
            })
        };
        // Of 990 answers and 10 losses.
        for (place, count) in [(0, 49), (1, 51)] {
            trial.settings[place].failed = 10;
            trial.settings[place].figure.as_mut().unwrap().count = 990;
            trial.settings[place].bursts = late(count);
        }
        assert_eq!(
            notes(&trial).last().unwrap(),
            "`no sleep`: 5.10% of the requests in bursts were sent after they were due, because the reply \
             before came later; use a lower rate."
        );
        trial.settings[1].bursts = late(49);
        assert!(!notes(&trial).last().unwrap().contains("due"));
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
                "`no sleep` has the best median, 77 ns; it has no round in common with `as is`, so \
                 they are not compared.",
            ),
            (0, vec![], None, "No setting beats `as is`: median 107 ns."),
            (
                0,
                vec![1],
                None,
                "No setting is shown to beat `as is`: median 107 ns. Not distinguishable from the best \
                 by these rounds: `no sleep`.",
            ),
            (
                1,
                vec![0],
                gain(-30.0, clear),
                "`no sleep` has the best median, 77 ns, 30 [29, 31] ns less than `as is`; as the best of \
                 2 settings it may be so by chance.",
            ),
            (
                1,
                vec![0],
                gain(-30.0, unclear),
                "`no sleep` has the best median, 77 ns, but its difference from `as is` is within \
                 noise.",
            ),
        ] {
            trial.verdict = Verdict {
                best: Some(best),
                as_good,
                gain,
                ..Verdict::default()
            };
            let answer = answer(&trial);
            assert!(answer.starts_with(said), "{answer}");
        }
    }

    #[test]
    fn a_proven_best_setting_is_called_less_or_more_by_the_workloads_direction() {
        let mut trial = trial();
        for (higher_is_better, estimate, interval, said) in [
            (
                false,
                -30.0,
                Some((-31.0, -29.0)),
                ", 30 [29, 31] ns less than `as is`.",
            ),
            (
                true,
                30.0,
                Some((29.0, 31.0)),
                ", 30 [29, 31] ns more than `as is`.",
            ),
            (
                true,
                30.0,
                Some((-1.0, 63.0)),
                ", more than `as is`, but the size of the difference is uncertain: 30 [-1, 63] ns.",
            ),
            // An estimate of 0 has no sign, and the word is that of the better direction.
            (
                false,
                0.0,
                Some((-3.0, 1.0)),
                ", less than `as is`, but the size of the difference is uncertain: 0 [-1, 3] ns.",
            ),
            (
                true,
                0.0,
                Some((-1.0, 3.0)),
                ", more than `as is`, but the size of the difference is uncertain: 0 [-1, 3] ns.",
            ),
            (false, 0.0, None, ", 0 ns less than `as is`."),
            (true, 0.0, None, ", 0 ns more than `as is`."),
        ] {
            trial.workload = workload(higher_is_better);
            trial.verdict.gain = Some(Estimate {
                estimate,
                interval,
                rounds: 10,
            });
            let said = format!("`no sleep` is best: median 77 ns{said}");
            assert_eq!(answer(&trial), said);
        }
    }

    #[test]
    fn the_reason_for_domination_uses_the_names_of_figure_and_cost() {
        let mut trial = trial();
        let power = Some(Cost::Power);
        let awake = Some(Cost::TimeAwake);
        for (higher_is_better, cost, in_figure, in_cost, why) in [
            (false, awake, true, true, "is faster and sleeps more"),
            (false, awake, true, false, "is faster and sleeps no less"),
            (false, awake, false, true, "sleeps more and is no worse"),
            (false, power, true, true, "is faster and takes less power"),
            (
                false,
                power,
                true,
                false,
                "is faster and takes no more power",
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
            let expected =
                format!("`as is` is dominated: `no sleep` {why} (77 ns against 107 ns).");
            assert_eq!(notes(&trial)[0], expected);
        }
    }

    #[test]
    fn from_70_percent_on_the_cpus_are_reported_to_have_slept_little() {
        let mut trial = trial();
        let mut said = |awake| {
            let observed = trial.settings[0].observed.as_mut().unwrap();
            observed.awake_percent = awake;
            trial.settings.iter_mut().for_each(|one| one.failed = 0);
            notes(&trial).first().cloned()
        };
        let little = "Under `as is` the CPUs were awake 70.0% of the time: there was little sleep whose \
                      cost could show.";
        assert_eq!(said(Some(70.0)).as_deref(), Some(little));
        assert_eq!(said(Some(69.9)), None);
        assert_eq!(said(None), None);
    }

    #[test]
    fn equally_good_settings_are_listed() {
        let mut trial = trial();
        for name in ["C1", "C6"] {
            let mut setting = trial.settings[0].clone();
            setting.name = name.into();
            trial.settings.push(setting);
        }
        trial.verdict.as_good = vec![0, 2, 3];
        let said = " Not distinguishable from the best by these rounds: `as is`, `C1` and `C6`.";
        assert!(answer(&trial).ends_with(said));
    }
}
