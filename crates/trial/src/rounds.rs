//! Rounds: at each point every setting has one turn a round, in a new order each time.
//!
//! Settings take turns within seconds, so that drift (temperature, other work on the machine) affects
//! all of them; the order is shuffled, so that none always follows the same other one.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use reveille_results::description::Ended;

use crate::setting::InForce;
use crate::{Error, Result};

/// How many turns there are, and in what order.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Plan {
    /// Turns of each setting at each point; at least one.
    pub rounds: u32,
    /// Points at which the settings are compared; at least one.
    pub points: usize,
    /// Settings; at least one.
    pub settings: usize,
    /// Seed of the order.
    pub seed: u64,
    /// Keep a round of a point only if all settings had their turn in it.
    pub whole: bool,
}

/// Which turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct At {
    /// From 0.
    pub round: u32,
    /// From 0.
    pub point: usize,
    /// From 0.
    pub setting: usize,
}

/// What takes turns.
pub trait Turns {
    /// What a turn gives.
    type Turn;

    /// Shown while it runs: its setting, and its point where there are several.
    fn name(&self, at: At) -> String;

    /// About how long a turn at that point takes; `None` if unknown before the first one.
    fn expected(&self, point: usize) -> Option<Duration>;

    /// Puts a setting in force.
    fn begin(&self, setting: usize) -> Result<InForce>;

    /// One turn, with its setting in force; it ends early once `stop` is set. `None` if it gave nothing
    /// to keep.
    ///
    /// # Errors
    /// If later turns would fail, too.
    fn turn(&mut self, at: At, stop: &AtomicBool) -> Result<Option<Self::Turn>>;

    /// After each round but the last, with the turns so far, which may be kept in case that the run is killed.
    fn after_round(&mut self, _: &[Self::Turn]) {}
}

/// How far a run is. Reported before each turn, never during one: drawing wakes CPUs.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// From 0.
    pub round: u32,
    /// [`Turns::name`] of the next turn.
    pub turn: String,
    /// 0 to 1.
    pub done: f64,
    /// Time left at the pace so far; before the first turn as expected, `None` if that is unknown.
    pub left: Option<Duration>,
}

/// Runs all rounds, or those before something ends the run, and restores the machine. An error is returned
/// only if no turn was kept.
pub fn run<T: Turns>(
    work: &mut T,
    plan: &Plan,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(&Progress),
) -> Result<(Vec<T::Turn>, Ended)> {
    let mut random = fastrand::Rng::with_seed(plan.seed);
    let mut points: Vec<usize> = (0..plan.points).collect();
    let mut settings: Vec<usize> = (0..plan.settings).collect();
    let mut pace = Pace::new(work, plan);
    let mut turns = Vec::new();
    for round in 0..plan.rounds {
        random.shuffle(&mut points);
        for &point in &points {
            random.shuffle(&mut settings);
            let kept = turns.len();
            let mut ended = Ok(None);
            for &setting in &settings {
                let at = At {
                    round,
                    point,
                    setting,
                };
                progress(&pace.progress(round, work.name(at)));
                ended = turn(work, at, stop, &mut turns);
                if !matches!(ended, Ok(None)) {
                    break;
                }
                pace.add(point);
            }
            let is_whole = matches!(ended, Ok(None)) && turns.len() == kept + plan.settings;
            if plan.whole && !is_whole {
                turns.truncate(kept);
            }
            match ended {
                Ok(None) => {}
                Ok(Some(ended)) => return Ok((turns, ended)),
                Err(error) if turns.is_empty() => return Err(error),
                Err(error) => return Ok((turns, Ended::Disturbed(error.to_string()))),
            }
        }
        if round + 1 < plan.rounds {
            work.after_round(&turns);
        }
    }
    Ok((turns, Ended::Completed))
}

/// One turn. What ended the run, if something did.
fn turn<T: Turns>(
    work: &mut T,
    at: At,
    stop: &AtomicBool,
    turns: &mut Vec<T::Turn>,
) -> Result<Option<Ended>> {
    let in_force = work.begin(at.setting)?;
    let turn = work.turn(at, stop);
    let interrupted = in_force.interrupted();
    let taken_back = in_force.end();
    if let Some(why) = interrupted {
        return Err(Error::Disturbed(why));
    }
    turns.extend(turn?);
    match stop.load(Ordering::Relaxed) {
        true => Ok(Some(Ended::Interrupted)),
        false => taken_back.map(|()| None),
    }
}

/// The turns of one setting at one point, by round; `None` for a round without one.
#[derive(Debug, Clone)]
pub struct ByRound<'a, T>(pub(crate) Vec<Option<&'a T>>);

impl<'a, T> ByRound<'a, T> {
    /// Of `rounds` rounds, the first turn of each for which `round` gives the round's number.
    pub fn of(turns: &'a [T], rounds: u32, round: impl Fn(&T) -> Option<u32>) -> Self {
        let turn = |number| turns.iter().find(|turn| round(turn) == Some(number));
        Self((0..rounds).map(turn).collect())
    }

    /// The turns, in order of rounds.
    pub fn turns(&self) -> impl Iterator<Item = &'a T> + '_ {
        self.0.iter().copied().flatten()
    }

    /// A figure of each round; `None` for a round without it.
    pub fn each(&self, figure: impl Fn(&T) -> Option<f64>) -> Vec<Option<f64>> {
        self.0.iter().map(|turn| figure((*turn)?)).collect()
    }
}

/// How long turns take beside what was expected.
struct Pace {
    began: Instant,
    /// By point, s; 1 for each where it is unknown.
    expected_s: Vec<f64>,
    is_known: bool,
    done_s: f64,
    all_s: f64,
}

impl Pace {
    fn new(work: &impl Turns, plan: &Plan) -> Self {
        let expected: Vec<_> = (0..plan.points).map(|point| work.expected(point)).collect();
        let seconds = |one: &Option<Duration>| one.map_or(1.0, |one| one.as_secs_f64().max(1e-9));
        let expected_s: Vec<f64> = expected.iter().map(seconds).collect();
        Self {
            began: Instant::now(),
            is_known: expected.iter().all(Option::is_some),
            done_s: 0.0,
            all_s: f64::from(plan.rounds) * plan.settings as f64 * expected_s.iter().sum::<f64>(),
            expected_s,
        }
    }

    fn add(&mut self, point: usize) {
        self.done_s += self.expected_s[point];
    }

    fn progress(&self, round: u32, turn: String) -> Progress {
        let left_s = (self.all_s - self.done_s).max(0.0);
        let pace = match self.done_s > 0.0 {
            true => Some(self.began.elapsed().as_secs_f64() / self.done_s),
            false => self.is_known.then_some(1.0),
        };
        Progress {
            round,
            turn,
            done: (self.done_s / self.all_s).clamp(0.0, 1.0),
            left: pace.and_then(|pace| Duration::try_from_secs_f64(left_s * pace).ok()),
        }
    }
}

#[cfg(test)]
mod tests {
    use reveille_kernel::Root;

    use super::*;
    use crate::setting::{Kind, Machine};

    /// Turns that return their index, until one of them stops the run or fails.
    struct Recorded {
        machine: Machine,
        recorded: Vec<At>,
        after_rounds: Vec<usize>,
        ends: Option<(usize, Result<()>)>,
    }

    impl Turns for Recorded {
        type Turn = At;

        fn name(&self, at: At) -> String {
            format!("{} {}", at.point, at.setting)
        }

        fn expected(&self, _: usize) -> Option<Duration> {
            None
        }

        fn begin(&self, _: usize) -> Result<InForce> {
            Kind::AsIs.apply(&self.machine)
        }

        fn turn(&mut self, at: At, stop: &AtomicBool) -> Result<Option<At>> {
            self.recorded.push(at);
            if let Some((_, ended)) = self.ends.take_if(|(turn, _)| *turn == self.recorded.len()) {
                ended?;
                stop.store(true, Ordering::Relaxed);
            }
            Ok(Some(at))
        }

        fn after_round(&mut self, turns: &[At]) {
            self.after_rounds.push(turns.len());
        }
    }

    type Ran = (Result<(Vec<At>, Ended)>, Vec<At>, Vec<Progress>);

    /// Two rounds of two points and three settings.
    fn ran(whole: bool, ends: Option<(usize, Result<()>)>) -> Ran {
        let mut work = Recorded {
            machine: Machine::read(Root::default()).unwrap(),
            recorded: Vec::new(),
            after_rounds: Vec::new(),
            ends,
        };
        let plan = Plan {
            rounds: 2,
            points: 2,
            settings: 3,
            seed: 1,
            whole,
        };
        let (stop, mut shown) = (AtomicBool::new(false), Vec::new());
        let ran = run(&mut work, &plan, &stop, &mut |now| shown.push(now.clone()));
        let has_first_round = work.recorded.len() > 6;
        assert_eq!(work.after_rounds, [6][..usize::from(has_first_round)]);
        (ran, work.recorded, shown)
    }

    #[test]
    fn every_setting_has_one_turn_at_every_point_in_every_round() {
        let (run, recorded, shown) = ran(false, None);
        assert_eq!(run.unwrap(), (recorded.clone(), Ended::Completed));
        let mut all: Vec<_> = recorded
            .iter()
            .map(|at| (at.round, at.point, at.setting))
            .collect();
        assert!(recorded.windows(2).all(|two| two[0].round <= two[1].round));
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 12);
        // The time left is unknown before a turn has been timed.
        assert_eq!((shown[0].done, shown[0].left), (0.0, None));
        assert!(shown[6].done == 0.5 && shown[6].left.is_some());
        assert_eq!(
            shown[6].turn,
            format!("{} {}", recorded[6].point, recorded[6].setting)
        );
    }

    #[test]
    fn an_interrupted_run_keeps_the_turns_or_the_complete_rounds_before() {
        for (whole, kept) in [(false, 5), (true, 3)] {
            let (run, recorded, _) = ran(whole, Some((5, Ok(()))));
            assert_eq!(
                run.unwrap(),
                (recorded[..kept].to_vec(), Ended::Interrupted)
            );
            let failed = || Err(Error::Usage("the disk is gone".into()));
            let (run, recorded, _) = ran(whole, Some((5, failed())));
            let ended = Ended::Disturbed("the disk is gone".into());
            assert_eq!(run.unwrap(), (recorded[..kept.min(4)].to_vec(), ended));
            assert!(ran(whole, Some((1, failed()))).0.is_err());
        }
        // Nothing of an incomplete round is kept: the error is the result.
        let failed = Err(Error::Usage("the disk is gone".into()));
        assert!(ran(true, Some((3, failed))).0.is_err());
    }

    #[test]
    fn a_rounds_figure_is_unknown_if_the_round_has_no_turn() {
        let turns = [(0, 5.0), (2, 7.0), (2, 9.0)];
        let by_round = ByRound::of(&turns, 4, |turn| Some(turn.0));
        let each = by_round.each(|turn| Some(turn.1));
        assert_eq!(each, [Some(5.0), None, Some(7.0), None]);
        assert_eq!(by_round.turns().count(), 2);
    }
}
