//! `trial.json`: what was compared, on which machine, all figures, and the conclusion.

use std::collections::BTreeMap;

use reveille_meter::Watched;
use reveille_results::kept::{self, About};
use serde::{Deserialize, Serialize};

use crate::observe::Observed;
use crate::rounds::ByRound;
use crate::setting::Named;
use crate::verdict::{self, Cost, Flaw, Verdict};
use crate::workload::{Description, InBursts};
use reveille_figures::interval::{self, SIDE};
use reveille_figures::quantile::median;
use reveille_figures::rounds::{self, Against, ERROR, Estimate, Summary, paired};

/// The file's name in its folder.
pub const FILE: &str = "trial.json";

/// Of [`Trial`]; a reader refuses what it does not know.
pub const SCHEMA_VERSION: u32 = 1;

/// How the trial went about it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// As many as were asked for; [`Trial::rounds`] has fewer where the trial was cut short.
    pub rounds: u32,
    /// How long the machine got used to a setting before its figures counted, s.
    pub settle_s: f64,
    /// Of the order within the rounds.
    pub seed: u64,
}

/// One setting in one round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Round {
    /// From 0.
    pub round: u32,
    /// A place in [`Trial::settings`].
    pub setting: usize,
    /// Since the trial's beginning, at which this setting's workload began.
    pub began_s: f64,
    /// In the workload's unit, in order.
    pub figures: Vec<f64>,
    /// Requests without an answer, or runs that failed.
    pub failed: u64,
    /// Of the first that failed; `None` where none did.
    pub why_failed: Option<String>,
    /// From the kernel's receive stamp of an answer to the reader, ns; empty where there is none.
    pub reading_ns: Vec<f64>,
    /// Of requests in bursts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bursts: Option<InBursts>,
    /// What the machine did meanwhile.
    pub observed: Observed,
}

/// A setting, and the figures over its rounds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Setting {
    /// As the reader knows it: `as is`, `C1`, `hold 50us`, ...
    pub name: String,
    /// What is changed on the machine, in words.
    pub how: String,
    /// Rounds that have a figure.
    pub rounds: u64,
    /// Requests without an answer, or runs that failed.
    pub failed: u64,
    /// Of all rounds' figures together; `None` where there is none.
    pub figure: Option<Summary>,
    /// Of the rounds' medians from those of "as is"; `None` for that one itself.
    pub median_difference: Option<Estimate>,
    /// Of the 99th percentiles over all rounds; `None` below 1000 figures, or where more is better.
    pub p99_difference: Option<Estimate>,
    /// From the kernel's receive stamp to the reader, the median, ns.
    pub reading_median_ns: Option<f64>,
    /// The rounds' mean.
    pub observed: Option<Observed>,
    /// Of the rounds' powers from those of "as is", W.
    pub power_difference_w: Option<Estimate>,
    /// Of the rounds' time awake from that of "as is", percentage points.
    pub awake_difference_percent: Option<Estimate>,
    /// `None` without bursts.
    pub bursts: Option<BurstFigures>,
}

/// What requests in bursts gave apart from [`Setting::figure`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BurstFigures {
    /// Of the bursts' first requests, of all rounds together; `None` where none was answered.
    pub first: Option<Summary>,
    /// Requests that were sent late because the reply before came late.
    pub late: u64,
    /// Share of the pauses in which the CPU slept, 0 to 100, the rounds' mean; `None` if unknown.
    pub asleep_percent: Option<f64>,
    /// Of the rounds' shares from those of "as is", percentage points.
    pub asleep_difference_percent: Option<Estimate>,
}

/// A trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Where it was run, when and how it ended; [`SCHEMA_VERSION`] is its schema's version.
    #[serde(flatten)]
    pub about: About,
    /// What was run.
    pub workload: Description,
    /// How many rounds, and in what order.
    pub plan: Plan,
    /// The meter that was named, as it was seen before.
    pub meter: Option<Watched>,
    /// The first is "as is".
    pub settings: Vec<Setting>,
    /// What [`Trial::verdict`] weighs the figure against; `None` where neither is known.
    pub cost: Option<Cost>,
    /// Settings are places in [`Trial::settings`].
    pub verdict: Verdict,
    /// What a reader must know (one sentence each).
    pub notes: Vec<String>,
    /// In the order in which they were run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rounds: Vec<Round>,
}

impl Trial {
    /// Compares these settings by the rounds. `notes` are those of the run; the workload's own follow.
    pub fn of(
        about: About,
        workload: Description,
        plan: Plan,
        meter: Option<Watched>,
        names: &[Named],
        rounds: Vec<Round>,
        mut notes: Vec<String>,
    ) -> Self {
        let (settings, cost, verdict) = conclude(names, &workload, &rounds);
        notes.extend(workload.notes.iter().cloned());
        Self {
            about,
            workload,
            plan,
            meter,
            settings,
            cost,
            verdict,
            notes,
            rounds,
        }
    }
}

impl Setting {
    /// Requests, or runs, that ended one way or the other.
    pub fn tried(&self) -> u64 {
        self.figure.as_ref().map_or(0, |figure| figure.count) + self.failed
    }

    /// Whether more failed than under the other, beyond noise: if requests of both were equally likely to fail, this
    /// setting would have as large a share of the failures with a probability of at most 2.5%. Failures that come
    /// together count as independent, so this is true somewhat too often: it is for rounds that are too few, or not
    /// kept.
    fn more_requests_fail(&self, than: &Self) -> bool {
        let both = self.failed + than.failed;
        let share = self.tried() as f64 / (self.tried() + than.tried()).max(1) as f64;
        let fewer = self.failed.checked_sub(1);
        fewer.is_some_and(|fewer| 1.0 - interval::at_most(fewer, both, share) <= SIDE)
    }

    fn flaws(&self, fails_more: bool) -> Vec<Flaw> {
        let p99 = self.p99_difference.as_ref().map(Estimate::against_zero);
        let flaws = [
            (Flaw::FailsMore, fails_more),
            (Flaw::WorseP99, p99 == Some(Against::More)),
        ];
        let all = flaws.into_iter().filter(|(_, is_so)| *is_so);
        all.map(|(flaw, _)| flaw).collect()
    }
}

/// Those of the best setting.
fn flaws(settings: &[Setting], rounds: &[Round], best: Option<usize>) -> Vec<Flaw> {
    let best = best.and_then(|best| Some((best, settings.get(best)?)));
    best.map_or(Vec::new(), |(place, best)| {
        best.flaws(fails_more(settings, rounds, place))
    })
}

/// Whether more fails under the setting at that place than under "as is", beyond noise: by whole turns.
fn fails_more(settings: &[Setting], rounds: &[Round], place: usize) -> bool {
    let of = |setting: usize| -> BTreeMap<u32, [u64; 2]> {
        let turns = rounds.iter().filter(|turn| turn.setting == setting);
        let tried = |turn: &Round| turn.failed.saturating_add(turn.figures.len() as u64);
        turns
            .map(|turn| (turn.round, [turn.failed, tried(turn)]))
            .collect()
    };
    let as_is = of(0);
    let both = of(place).into_iter();
    let both = both.filter_map(|(round, turn)| Some([turn, *as_is.get(&round)?]));
    rounds::share_is_larger(&both.collect::<Vec<_>>())
        .unwrap_or_else(|| settings[place].more_requests_fail(&settings[0]))
}

impl From<&Setting> for Named {
    fn from(setting: &Setting) -> Self {
        Self {
            name: setting.name.clone(),
            how: setting.how.clone(),
        }
    }
}

/// Each setting, the cost that the figure is weighed against, and the verdict.
fn conclude(
    names: &[Named],
    workload: &Description,
    rounds: &[Round],
) -> (Vec<Setting>, Option<Cost>, Verdict) {
    let count = rounds.iter().map(|one| one.round + 1).max().unwrap_or(0);
    let turns_of = |setting| {
        let round = move |one: &Round| (one.setting == setting).then_some(one.round);
        ByRound::of(rounds, count, round)
    };
    let by_setting: Vec<ByRound<'_, Round>> = (0..names.len()).map(turns_of).collect();
    let settings = names.iter().zip(&by_setting).enumerate();
    let settings = settings.map(|(place, (name, turns))| {
        let as_is = by_setting.first().filter(|_| place > 0);
        setting(name, turns, as_is, workload)
    });
    let settings: Vec<Setting> = settings.collect();
    let cost = cost(&by_setting);
    let sign = if workload.higher_is_better { -1.0 } else { 1.0 };
    // The median of what did not fail is neither best nor better than another.
    let weighed = by_setting.iter().enumerate();
    let weighed = weighed.map(|(place, turns)| verdict::Rounds {
        median: median(&figures(turns))
            .filter(|_| !fails_more(&settings, rounds, place))
            .map(|median| sign * median),
        figures: turns.each(|one| Some(sign * median(&one.figures)?)),
        costs: match cost {
            Some(Cost::Power) => turns.each(|one| one.observed.power_w),
            Some(Cost::TimeAwake) => turns.each(|one| Some(one.observed.awake_percent? / 100.0)),
            None => Vec::new(),
        },
    });
    let mut verdict = verdict::judge(&weighed.collect::<Vec<_>>(), cost);
    verdict.gain = verdict.best.and_then(|best| gain(&by_setting, best));
    verdict.flaws = flaws(&settings, rounds, verdict.best);
    (settings, cost, verdict)
}

/// By how much the best setting differs from "as is". It was chosen by its figures, so that its
/// interval has to hold for any that might have been.
fn gain(by_setting: &[ByRound<'_, Round>], best: usize) -> Option<Estimate> {
    let as_is = by_setting.first().filter(|_| best > 0)?;
    let differences = paired(&medians(&by_setting[best]), &medians(as_is));
    rounds::median_difference(&differences, verdict::one_of_all(by_setting.len()))
}

/// Power if some turns of each setting have it, for a meter may fail in others; else the time awake, likewise.
fn cost(by_setting: &[ByRound<'_, Round>]) -> Option<Cost> {
    let had_turns = || {
        let all = by_setting.iter();
        all.filter(|turns| turns.turns().next().is_some())
    };
    let is_known = |known: fn(&Observed) -> Option<f64>| {
        let of_some = |turns: &ByRound<'_, Round>| {
            let mut turns = turns.turns();
            turns.any(|one| known(&one.observed).is_some())
        };
        had_turns().next().is_some() && had_turns().all(of_some)
    };
    if is_known(|observed| observed.power_w) {
        return Some(Cost::Power);
    }
    is_known(|observed| observed.awake_percent).then_some(Cost::TimeAwake)
}

fn setting(
    named: &Named,
    turns: &ByRound<'_, Round>,
    as_is: Option<&ByRound<'_, Round>>,
    workload: &Description,
) -> Setting {
    let reading = turns.turns().flat_map(|one| one.reading_ns.iter().copied());
    let difference = |value: fn(&Round) -> Option<f64>| {
        rounds::median_difference(&paired(&turns.each(value), &as_is?.each(value)), ERROR)
    };
    let observed: Vec<&Observed> = turns.turns().map(|one| &one.observed).collect();
    let p99_difference = as_is.filter(|_| !workload.higher_is_better);
    Setting {
        name: named.name.clone(),
        how: named.how.clone(),
        rounds: medians(turns).iter().flatten().count() as u64,
        failed: turns.turns().map(|one| one.failed).sum(),
        figure: rounds::summarise(figures(turns)),
        median_difference: difference(|one| median(&one.figures)),
        p99_difference: p99_difference
            .and_then(|as_is| rounds::p99_difference(&by_round(turns), &by_round(as_is))),
        reading_median_ns: median(&reading.collect::<Vec<_>>()),
        observed: Observed::mean(&observed),
        power_difference_w: difference(|one| one.observed.power_w),
        awake_difference_percent: difference(|one| one.observed.awake_percent),
        bursts: bursts(turns, difference(asleep_in_pauses)),
    }
}

fn asleep_in_pauses(round: &Round) -> Option<f64> {
    round.bursts.as_ref()?.asleep_percent
}

/// `None` if no round has bursts.
fn bursts(
    turns: &ByRound<'_, Round>,
    asleep_difference_percent: Option<Estimate>,
) -> Option<BurstFigures> {
    let all: Vec<&InBursts> = turns
        .turns()
        .filter_map(|one| one.bursts.as_ref())
        .collect();
    let asleep: Vec<f64> = turns.each(asleep_in_pauses).into_iter().flatten().collect();
    (!all.is_empty()).then(|| BurstFigures {
        first: rounds::summarise(all.iter().flat_map(|one| one.first.iter().copied())),
        late: all.iter().map(|one| one.late).sum(),
        asleep_percent: rounds::summarise(asleep).map(|percents| percents.mean),
        asleep_difference_percent,
    })
}

/// Each round's figures; empty for a round without any.
fn by_round<'a>(turns: &ByRound<'a, Round>) -> Vec<&'a [f64]> {
    let figures = |one: &Option<&'a Round>| one.map_or(&[][..], |one| one.figures.as_slice());
    turns.0.iter().map(figures).collect()
}

/// All rounds' figures together.
fn figures(turns: &ByRound<'_, Round>) -> Vec<f64> {
    by_round(turns).concat()
}

/// Each round's median; `None` if the setting has no figure in it.
fn medians(turns: &ByRound<'_, Round>) -> Vec<Option<f64>> {
    turns.each(|one| median(&one.figures))
}

/// Reads the text of a `trial.json`.
///
/// # Errors
/// In words, if it is another file, or has an unknown schema.
pub fn parse(text: &[u8]) -> Result<Trial, String> {
    let mut trial: Trial = kept::parse(text, FILE, SCHEMA_VERSION)?;
    let is_setting = |place: &usize| *place < trial.settings.len();
    let places = trial.rounds.iter().map(|round| round.setting);
    let verdict = &trial.verdict;
    let dominated = verdict
        .dominated
        .iter()
        .flat_map(|one| [one.setting, one.by]);
    let mut places = places
        .chain(verdict.best)
        .chain(verdict.as_good.iter().copied())
        .chain(dominated);
    match places.all(|place| is_setting(&place)) {
        true => {
            judge_anew(&mut trial);
            trial.verdict.flaws = flaws(&trial.settings, &trial.rounds, trial.verdict.best);
            Ok(trial)
        }
        false => Err("names a setting that it does not have; it is damaged".into()),
    }
}

/// Recomputes a verdict of an older version, which did not adjust for the choice of the best setting.
fn judge_anew(trial: &mut Trial) {
    if trial.verdict.permutations > 0 || trial.rounds.is_empty() {
        return;
    }
    let names: Vec<Named> = trial.settings.iter().map(Named::from).collect();
    (_, _, trial.verdict) = conclude(&names, &trial.workload, &trial.rounds);
}

#[cfg(test)]
pub(crate) mod tests {
    use std::fs;

    use reveille_kernel::Identity;
    use reveille_results::description::Ended;
    use reveille_results::output::{Folder, Naming};

    use super::*;
    use crate::workload::NANOSECONDS;

    pub(crate) fn workload(higher_is_better: bool) -> Description {
        Description {
            kind: "echo".into(),
            what: "a test".into(),
            figure: "round trip".into(),
            unit: NANOSECONDS.into(),
            higher_is_better,
            pace: None,
            notes: vec![],
        }
    }

    fn named(names: &[&str]) -> Vec<Named> {
        let named = |name: &&str| Named {
            name: (*name).to_owned(),
            how: String::new(),
        };
        names.iter().map(named).collect()
    }

    fn names() -> Vec<Named> {
        named(&["as is", "no sleep"])
    }

    /// Ten rounds; "no sleep" is quicker by 30 and awake all the time.
    fn rounds() -> Vec<Round> {
        let one = |round: u32, setting: usize| {
            let level = 100.0 + f64::from(round) - 30.0 * setting as f64;
            Round {
                round,
                setting,
                began_s: 0.0,
                figures: (0..100)
                    .map(|figure| level + f64::from(figure % 7))
                    .collect(),
                failed: 1,
                why_failed: None,
                reading_ns: vec![5.0],
                bursts: None,
                observed: Observed {
                    elapsed_s: 1.0,
                    awake_percent: Some(
                        if setting == 0 { 3.0 } else { 100.0 } + f64::from(round % 2),
                    ),
                    ..Observed::default()
                },
            }
        };
        (0..10)
            .flat_map(|round| [one(round, 1), one(round, 0)])
            .collect()
    }

    pub(crate) fn trial() -> Trial {
        let about = About {
            schema_version: SCHEMA_VERSION,
            tool: "reveille".into(),
            name: "test".into(),
            started: String::new(),
            command_line: vec![],
            ended: Ended::Completed,
            machine: Identity::default(),
            driver: None,
            governor: None,
        };
        let plan = Plan {
            rounds: 10,
            settle_s: 0.2,
            seed: 1,
        };
        Trial::of(
            about,
            workload(false),
            plan,
            None,
            &names(),
            rounds(),
            vec![],
        )
    }

    #[test]
    fn each_setting_is_compared_with_as_is_round_by_round() {
        let trial = trial();
        let [as_is, no_sleep] = trial.settings.as_slice() else {
            panic!("{:?}", trial.settings);
        };
        assert_eq!((as_is.median_difference.as_ref(), as_is.rounds), (None, 10));
        assert_eq!(no_sleep.figure.as_ref().unwrap().count, 1000);
        let difference = no_sleep.median_difference.as_ref().unwrap();
        // The rounds differ by ten, their differences not at all: drift cancels out.
        assert_eq!(difference.interval, Some((-30.0, -30.0)));
        assert_eq!(no_sleep.p99_difference.as_ref().unwrap().estimate, -30.0);
        assert_eq!(
            (no_sleep.failed, no_sleep.reading_median_ns),
            (10, Some(5.0))
        );
        let awake = no_sleep.awake_difference_percent.as_ref().unwrap();
        assert_eq!((awake.estimate, awake.rounds), (97.0, 10));
        assert_eq!(no_sleep.power_difference_w, None);
        assert_eq!(trial.cost, Some(Cost::TimeAwake));
        assert_eq!(
            (trial.verdict.best, trial.verdict.dominated.len()),
            (Some(1), 0)
        );
    }

    #[test]
    fn first_requests_and_sleep_in_pauses_are_figures_of_their_own() {
        let mut rounds = rounds();
        let without = conclude(&names(), &workload(false), &rounds);
        assert_eq!(without.0[1].bursts, None);
        for round in &mut rounds {
            let setting = round.setting as f64;
            round.bursts = Some(InBursts {
                first: vec![500.0, 700.0 + f64::from(round.round)],
                late: 3,
                asleep_percent: Some(99.0 - 9.0 * setting - f64::from(round.round % 2)),
            });
        }
        let (settings, _, verdict) = conclude(&names(), &workload(false), &rounds);
        let bursts = settings[1].bursts.as_ref().unwrap();
        let first = bursts.first.as_ref().unwrap();
        assert_eq!((first.count, first.median, first.max), (20, 500.0, 709.0));
        assert_eq!((bursts.late, bursts.asleep_percent), (30, Some(89.5)));
        let difference = bursts.asleep_difference_percent.as_ref().unwrap();
        assert_eq!((difference.estimate, difference.rounds), (-9.0, 10));
        // They change nothing else.
        assert_eq!(
            (&settings[1].figure, verdict),
            (&without.0[1].figure, without.2)
        );
    }

    #[test]
    fn if_more_is_better_the_best_has_the_most() {
        let (settings, _, verdict) = conclude(&names(), &workload(true), &rounds());
        assert_eq!(verdict.best, Some(0));
        // Slower and awake all the time.
        assert_eq!(verdict.dominated[0].setting, 1);
        assert_eq!(settings[1].p99_difference, None);
    }

    #[test]
    fn a_setting_under_which_more_fails_is_not_best() {
        let failing = |failed: u64| {
            let mut rounds = rounds();
            for round in rounds.iter_mut().filter(|one| one.setting == 1) {
                round.failed = failed;
            }
            conclude(&names(), &workload(false), &rounds)
        };
        // One in each round under "as is".
        let best = [1, 2, 90].map(|failed| failing(failed).2.best);
        assert_eq!(best, [Some(1), Some(0), Some(0)]);
        // All of one turn, which another setting might have met.
        let mut together = rounds();
        let mut turns = together.iter_mut().filter(|one| one.setting == 1);
        turns.next().unwrap().failed = 90;
        let (_, _, verdict) = conclude(&names(), &workload(false), &together);
        assert_eq!((verdict.best, &verdict.flaws[..]), (Some(1), &[][..]));
        // Of five rounds each request counts: 2 of each may be chance, 10 are not.
        let few = |failed: u64| {
            let mut rounds = rounds();
            rounds.retain(|one| one.round < 5);
            for round in rounds.iter_mut().filter(|one| one.setting == 1) {
                round.failed = failed;
            }
            conclude(&names(), &workload(false), &rounds).2.best
        };
        assert_eq!([2, 10].map(few), [Some(1), Some(0)]);
        // One that was judged so before is read with what speaks against it.
        let mut trial = trial();
        trial.settings[1].failed = 30;
        trial.rounds.clear();
        let read = parse(&serde_json::to_vec(&trial).unwrap()).unwrap();
        assert_eq!(read.verdict.flaws, [Flaw::FailsMore]);
    }

    #[test]
    fn a_best_median_with_a_worse_p99_is_read_and_judged_so() {
        let mut slow = rounds();
        for round in slow.iter_mut().filter(|one| one.setting == 1) {
            let slowest = round.figures.len() - 3;
            for figure in &mut round.figures[slowest..] {
                *figure += 500.0;
            }
        }
        let (settings, _, verdict) = conclude(&names(), &workload(false), &slow);
        assert_eq!(
            (verdict.best, &verdict.flaws[..]),
            (Some(1), &[Flaw::WorseP99][..])
        );
        let mut trial = trial();
        assert_eq!(trial.verdict.flaws, []);
        trial.settings[1].p99_difference = settings[1].p99_difference.clone();
        let read = parse(&serde_json::to_vec(&trial).unwrap()).unwrap();
        assert_eq!(read.verdict.flaws, [Flaw::WorseP99]);
    }

    #[test]
    fn power_is_weighed_by_the_rounds_that_have_it_if_each_setting_has_some() {
        let mut rounds = rounds();
        for round in &mut rounds[1..] {
            round.observed.power_w = Some(5.0);
        }
        let (settings, cost, _) = conclude(&names(), &workload(false), &rounds);
        assert_eq!(cost, Some(Cost::Power));
        assert_eq!(settings[1].power_difference_w.as_ref().unwrap().rounds, 9);
        for round in rounds.iter_mut().filter(|one| one.setting == 1) {
            round.observed.power_w = None;
        }
        let (_, cost, _) = conclude(&names(), &workload(false), &rounds);
        assert_eq!(cost, Some(Cost::TimeAwake));
    }

    #[test]
    fn a_partial_trial_reports_its_rounds() {
        let rounds = &rounds()[..5];
        let (settings, _, verdict) = conclude(&names(), &workload(false), rounds);
        assert_eq!((settings[0].rounds, settings[1].rounds), (2, 3));
        let difference = settings[1].median_difference.as_ref().unwrap();
        assert_eq!((difference.rounds, difference.interval), (2, None));
        assert_eq!(verdict.as_good, [0]);
        let (settings, cost, verdict) = conclude(&names(), &workload(false), &[]);
        assert_eq!(
            (settings[0].figure.as_ref(), cost, verdict.best),
            (None, None, None)
        );
    }

    #[test]
    fn a_trial_judged_by_the_older_test_is_judged_again() {
        let trial = trial();
        let mut value = serde_json::to_value(&trial).unwrap();
        let verdict = value["verdict"].as_object_mut().unwrap();
        for field in ["p_values", "permutations", "gain"] {
            assert!(verdict.remove(field).is_some(), "{field}");
        }
        verdict.insert("as_good".into(), serde_json::json!([0]));
        let read = parse(value.to_string().as_bytes()).unwrap();
        assert_eq!(read, trial);
    }

    #[test]
    fn the_best_settings_gain_is_valid_whichever_is_best() {
        let three = named(&["as is", "a", "b"]);
        let mut rounds = rounds();
        for (nth, round) in rounds.iter_mut().enumerate() {
            // Ten differences between 21 and 30.
            for figure in &mut round.figures {
                *figure += if round.setting == 1 {
                    nth as f64 / 2.0
                } else {
                    0.0
                };
            }
        }
        let again = rounds.iter().filter(|one| one.setting == 1).cloned();
        let others = again
            .map(|one| Round { setting: 2, ..one })
            .collect::<Vec<_>>();
        let of_two = conclude(&names(), &workload(false), &rounds)
            .2
            .gain
            .unwrap();
        rounds.extend(others);
        let of_three = conclude(&three, &workload(false), &rounds).2.gain.unwrap();
        assert_eq!(of_two.estimate, of_three.estimate);
        let width = |one: &Estimate| one.interval.map(|(low, high)| high - low).unwrap();
        assert!(width(&of_three) > width(&of_two), "{of_two:?} {of_three:?}");
        assert_eq!(
            conclude(&names(), &workload(true), &rounds[..20]).2.gain,
            None
        );
    }

    #[test]
    fn a_written_trial_is_read_back_and_a_damaged_one_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let trial = trial();
        let out = Folder::make(&folder.path().join("new"), Naming::ByUser).unwrap();
        let path = kept::write(&trial, FILE, &out).unwrap();
        let text = fs::read(&path).unwrap();
        assert_eq!(parse(&text).unwrap(), trial);
        assert!(
            parse(&text[..text.len() / 2])
                .unwrap_err()
                .contains("cut short")
        );
        let newer = String::from_utf8(text.clone()).unwrap();
        let newer = newer.replacen("\"schema_version\":1", "\"schema_version\":2", 1);
        assert!(
            parse(newer.as_bytes())
                .unwrap_err()
                .contains("schema version 2")
        );
        let mut wrong = trial;
        wrong.verdict.best = Some(7);
        assert!(
            parse(&serde_json::to_vec(&wrong).unwrap())
                .unwrap_err()
                .contains("damaged")
        );
    }

    #[test]
    fn half_a_percentage_point_more_time_awake_is_not_more() {
        let mut rounds = rounds();
        for round in &mut rounds {
            let awake = if round.setting == 0 { 50.0 } else { 50.5 };
            round.observed.awake_percent = Some(awake);
        }
        let (_, cost, verdict) = conclude(&names(), &workload(false), &rounds);
        assert_eq!(cost, Some(Cost::TimeAwake));
        let dominated = verdict::Dominated {
            setting: 0,
            by: 1,
            in_figure: true,
            in_cost: false,
        };
        assert_eq!(verdict.dominated, [dominated]);
    }

    #[test]
    fn a_trial_keeps_its_verdict_if_it_was_judged_so_or_has_no_rounds() {
        // The rounds do not determine it.
        let trial = trial();
        let mut judged = trial.clone();
        judged.verdict.as_good = vec![0];
        let read = |trial: &Trial| parse(&serde_json::to_vec(trial).unwrap()).unwrap();
        assert_eq!(read(&judged), judged);
        judged.verdict.permutations = 0;
        assert_eq!(read(&judged), trial);
        judged.rounds.clear();
        assert_eq!(read(&judged), judged);
    }

    #[test]
    fn an_index_beyond_the_last_setting_is_damage() {
        let mut trial = trial();
        trial.verdict.best = Some(trial.settings.len());
        let refused = parse(&serde_json::to_vec(&trial).unwrap()).unwrap_err();
        let why = "names a setting that it does not have; it is damaged";
        assert_eq!(refused, why);
    }
}
