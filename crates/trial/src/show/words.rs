//! What a trial shows, in sentences. Names of settings are between backquotes.

use reveille_figures::rounds::{Against, ERROR, Estimate, rounds_needed};
use reveille_show::quantity::{count, counted, listed, share};
use reveille_show::sheet::{Unit, Value};
use reveille_show::text::alone;

use super::figure;
use crate::observe::Observed;
use crate::result::{Setting, Trial};
use crate::verdict::{Cost, Dominated, Flaw, one_of_all};

/// The place of "as is" among a trial's settings.
const AS_IS: usize = 0;

/// The best setting, and which ones may be as good.
pub fn answer(trial: &Trial) -> String {
    let Some(best) = best(trial) else {
        return "No setting gave a figure.".to_owned();
    };
    // What is within noise of `as is` was said.
    let as_good = trial
        .verdict
        .as_good
        .iter()
        .filter(|place| **place != AS_IS);
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
    let flaws = &trial.verdict.flaws;
    if flaws.contains(&Flaw::FailsMore) {
        return Some(format!(
            "No setting is shown to be better than `as is`: {name} has the best median, {median}, {size} {than}, but \
             {} failed, and {} under `as is`.",
            lost(trial, place),
            lost(trial, AS_IS)
        ));
    }
    let (is_best, but) = match trial.settings[place].p99_difference.as_ref() {
        Some(p99) if flaws.contains(&Flaw::WorseP99) => (
            "has the best median,",
            format!(
                ", but its p99 is {} more",
                figure::text(&trial.workload, p99)
            ),
        ),
        _ => ("is best: median", String::new()),
    };
    Some(match (is_as_good, holds_zero) {
        (true, true) => format!(
            "No setting is shown to be better than `as is`: {name} has the best median, {median}, {size} {than}, \
             which is within noise."
        ),
        // Alone it would be beyond noise.
        (true, false) => format!(
            "No setting is shown to be better than `as is`: {name} has the best median, {median}, {size} {than}; \
             as the best of {} settings it may be so by chance.",
            trial.settings.len()
        ),
        (false, true) if gain.interval.is_some() => format!(
            "{name} {is_best} {median}, {than} than `as is`{but}; the size of the median's difference is \
             uncertain: {size}. {}{}",
            price(trial, place),
            lost_by_chance(trial, place)
        ),
        (false, _) => format!(
            "{name} {is_best} {median}, {size} {than} than `as is`{but}. {}{}",
            price(trial, place),
            lost_by_chance(trial, place)
        ),
    })
}

/// How many of how many requests, or runs, failed.
fn lost(trial: &Trial, place: usize) -> String {
    let setting = &trial.settings[place];
    let tried = counted(setting.tried(), noun(trial));
    format!("{} of {tried}", count(setting.failed))
}

/// A larger share of failures than under "as is", which the rounds do not show to be beyond noise; may be empty.
fn lost_by_chance(trial: &Trial, place: usize) -> String {
    let share = |place: usize| {
        let setting = &trial.settings[place];
        setting.failed as f64 / setting.tried().max(1) as f64
    };
    match share(place) > share(AS_IS) {
        true => format!(
            " {} failed, and {} under `as is`, which may be chance.",
            lost(trial, place),
            lost(trial, AS_IS)
        ),
        false => String::new(),
    }
}

/// What a setting costs beyond "as is", as far as it was measured.
fn price(trial: &Trial, place: usize) -> String {
    let settings = [place, AS_IS].map(|place| &trial.settings[place]);
    let means = |value: fn(&Observed) -> Option<f64>| {
        settings.map(|one| one.observed.as_ref().and_then(value))
    };
    let (means, difference, units, what) = match trial.cost {
        None => return "What it costs was not measured.".to_owned(),
        Some(Cost::Power) => (
            means(|one| one.power_w),
            &settings[0].power_difference_w,
            [Unit::Of("W"); 2],
            "it takes",
        ),
        Some(Cost::TimeAwake) => (
            means(|one| one.awake_percent),
            &settings[0].awake_difference_percent,
            [Unit::Percent, Unit::Of("points")],
            "CPUs are awake",
        ),
    };
    let ([Some(mean), Some(as_is)], Some(difference)) = (means, difference) else {
        return "What it costs was measured in no round beside `as is`.".to_owned();
    };
    let text = |unit, value: Value| alone(unit, &value).unwrap_or_default();
    let [mean, as_is] = [mean, as_is].map(|mean| text(units[0], mean.into()));
    let against = difference.against_zero();
    let of = if trial.cost == Some(Cost::TimeAwake) {
        " of the time"
    } else {
        ""
    };
    let (begin, than) = match against {
        Against::More => ("Its price", "more"),
        Against::Less => ("It costs less, too", "less"),
        Against::Unknown => ("Its price is not shown", "more"),
    };
    let size = text(
        units[1],
        (&size(difference, against == Against::Less)).into(),
    );
    format!("{begin}: {what} {mean}{of}, instead of {as_is} under `as is`: {size} {than}.")
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

fn noun(trial: &Trial) -> &'static str {
    match trial.workload.kind.as_str() {
        "command" => "run",
        _ => "request",
    }
}

/// Requests without a reply, or runs that failed.
fn failed(trial: &Trial, place: usize, setting: &Setting) -> Option<String> {
    if setting.failed == 0 {
        return None;
    }
    let without = match noun(trial) {
        "run" => "failed",
        _ => "without a reply",
    };
    let what = format!("{} {without}", counted(setting.failed, noun(trial)));
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
    use reveille_snapshot::snapshot;

    use super::*;
    use crate::result::BurstFigures;
    use crate::result::tests::{trial, workload};
    use crate::verdict::Verdict;

    /// The trial of `no sleep`, 30 ns less than `as is`, after a change of its verdict.
    fn answers(change: impl Fn(&mut Verdict)) -> String {
        let mut trial = trial();
        change(&mut trial.verdict);
        answer(&trial)
    }

    fn gain(estimate: f64, interval: Option<(f64, f64)>) -> Option<Estimate> {
        let rounds = 10;
        Some(Estimate {
            estimate,
            interval,
            rounds,
        })
    }

    #[test]
    fn the_first_sentence_claims_what_choice_and_interval_allow() {
        let (clear, unclear) = (Some((-31.0, -29.0)), Some((-31.0, 1.0)));
        let said = [
            (1, vec![], gain(-30.0, clear)),
            (1, vec![], gain(-30.0, Some((-63.0, 1.0)))),
            (1, vec![], None),
            (0, vec![], None),
            (0, vec![1], None),
            (1, vec![0], gain(-30.0, clear)),
            (1, vec![0], gain(-30.0, unclear)),
            (1, vec![0], gain(-1.0, Some((-3.0, 1.0)))),
        ]
        .map(|(best, as_good, gain)| {
            let case = format!("best {best}, as good {as_good:?}, {gain:?}");
            let verdict = Verdict {
                best: Some(best),
                as_good,
                gain,
                ..Verdict::default()
            };
            (case, answers(|of| *of = verdict.clone()))
        });
        snapshot!("words", said);
    }

    #[test]
    fn what_speaks_against_the_best_median_is_in_the_answer() {
        let mut trial = trial();
        trial.settings[1].failed = 900;
        trial.settings[1].p99_difference = gain(8_700.0, Some((8_000.0, 9_500.0)));
        let said = [vec![Flaw::WorseP99], vec![Flaw::FailsMore, Flaw::WorseP99]].map(|flaws| {
            trial.verdict.flaws = flaws;
            (format!("{:?}", trial.verdict.flaws), answer(&trial))
        });
        snapshot!("words", said);
    }

    #[test]
    fn failures_that_may_be_chance_are_in_the_answer_where_they_are_more() {
        let told = |failed: [u64; 2]| {
            let mut trial = trial();
            for (setting, failed) in trial.settings.iter_mut().zip(failed) {
                setting.failed = failed;
            }
            trial.verdict.flaws.clear();
            let other = lost(&trial, AS_IS);
            answer(&trial).contains(&other)
        };
        assert_eq!(
            [[0, 500], [500, 500], [7, 0]].map(told),
            [true, false, false]
        );
    }

    #[test]
    fn the_price_is_what_was_measured() {
        let of = |cost: Option<Cost>, power_w: Option<f64>, difference: Option<(f64, f64)>| {
            let mut trial = trial();
            trial.cost = cost;
            for (setting, w) in trial.settings.iter_mut().zip([Some(10.0), power_w]) {
                setting.observed.as_mut().unwrap().power_w = w;
            }
            trial.settings[1].power_difference_w = power_w.map(|w| Estimate {
                estimate: w - 10.0,
                interval: difference,
                rounds: 10,
            });
            price(&trial, 1)
        };
        let power = Some(Cost::Power);
        let said = [
            ("more", of(power, Some(14.2), Some((3.9, 4.5)))),
            ("less", of(power, Some(9.0), Some((-1.2, -0.8)))),
            ("not shown", of(power, Some(10.3), Some((-0.2, 0.8)))),
            ("no interval", of(power, Some(10.3), None)),
            ("no round with both", of(power, None, None)),
            ("not measured", of(None, None, None)),
        ];
        snapshot!("words", said);
    }

    #[test]
    fn a_distinguished_best_setting_is_called_best_even_without_an_interval() {
        let mut trial = trial();
        let third = trial.settings[0].clone();
        trial.settings.push(third);
        for setting in &mut trial.settings {
            setting.rounds = 6;
        }
        trial.verdict.gain = gain(-30.0, None);
        // Six rounds on one side are enough to distinguish it, and seven for an interval of three.
        let proven = format!("{}\n{}", answer(&trial), notes(&trial)[0]);
        trial.verdict.as_good = vec![0];
        snapshot!(
            "words",
            [("proven", proven), ("as is is as good", answer(&trial))]
        );
    }

    #[test]
    fn a_busy_machine_is_reported_to_have_slept_little_from_70_percent_on() {
        let mut trial = trial();
        let said = [Some(96.0), Some(70.0), Some(69.9), None].map(|awake| {
            let observed = trial.settings[0].observed.as_mut().unwrap();
            observed.awake_percent = awake;
            trial.settings.iter_mut().for_each(|one| one.failed = 0);
            (format!("{awake:?}"), notes(&trial).join("\n"))
        });
        snapshot!("words", said);
    }

    #[test]
    fn too_few_rounds_are_noted() {
        let mut trial = trial();
        trial.settings[0].rounds = 3;
        snapshot!("words", [("3 rounds", &notes(&trial)[0])]);
    }

    #[test]
    fn requests_without_a_reply_and_failed_runs_are_counted_with_the_first_reason() {
        let mut trial = trial();
        trial.rounds[3].why_failed = Some("refused".into());
        trial.settings[1].failed = 1;
        let requests = notes(&trial).join("\n");
        trial.workload.kind = "command".into();
        trial.settings[0].failed = 0;
        let runs = notes(&trial).join("\n");
        snapshot!("words", [("requests", requests), ("a command", runs)]);
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
        let notes_of = |trial: &Trial| notes(trial).join("\n");
        let many = notes_of(&trial);
        trial.settings[1].bursts = late(49);
        snapshot!(
            "words",
            [("49 and 51", many), ("49 and 49", notes_of(&trial))]
        );
    }

    #[test]
    fn a_proven_best_setting_is_called_less_or_more_by_the_workloads_direction() {
        let mut trial = trial();
        let said = [
            (false, -30.0, Some((-31.0, -29.0))),
            (true, 30.0, Some((29.0, 31.0))),
            (true, 30.0, Some((-1.0, 63.0))),
            // An estimate of 0 has no sign, and the word is that of the better direction.
            (false, 0.0, Some((-3.0, 1.0))),
            (true, 0.0, Some((-1.0, 3.0))),
            (false, 0.0, None),
            (true, 0.0, None),
        ]
        .map(|(higher_is_better, estimate, interval)| {
            trial.workload = workload(higher_is_better);
            trial.verdict.gain = gain(estimate, interval);
            let case = format!("{estimate} {interval:?}, higher is better: {higher_is_better}");
            (case, answer(&trial))
        });
        snapshot!("words", said);
    }

    #[test]
    fn a_dominated_setting_has_its_reason_in_the_names_of_figure_and_cost() {
        let mut trial = trial();
        let (power, awake) = (Some(Cost::Power), Some(Cost::TimeAwake));
        let said = [
            (false, awake, true, true),
            (false, awake, true, false),
            (false, awake, false, true),
            (false, power, true, true),
            (false, power, true, false),
            (false, power, false, true),
            (true, awake, true, true),
            (true, power, true, true),
            (true, power, true, false),
        ]
        .map(|(higher_is_better, cost, in_figure, in_cost)| {
            trial.workload = workload(higher_is_better);
            trial.cost = cost;
            let dominated = Dominated {
                setting: 0,
                by: 1,
                in_figure,
                in_cost,
            };
            let case = format!("{dominated:?}, {cost:?}, higher is better: {higher_is_better}");
            trial.verdict.dominated = vec![dominated];
            (case, notes(&trial)[0].clone())
        });
        snapshot!("words", said);
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
        snapshot!("words", [("0, 2 and 3", answer(&trial))]);
    }
}
