//! The sources of one run, which took turns in rounds: in which states do they differ, by how much, and do they
//! differ by more than on a CPU that does not sleep?
//!
//! Rounds are the independent units, as datapoints of one turn share the machine's temperature and its other load.
//! So a difference is that of the medians of two turns of one round, with the interval and the test of Wilcoxon's
//! signed ranks over the rounds.

use std::collections::BTreeMap;

use reveille_figures::holm;
use reveille_figures::quantile::median;
use reveille_figures::rounds::{
    Against, ERROR, Estimate, median_difference, p_value, p99_difference, rounds_needed,
};
use serde::{Deserialize, Serialize};

use crate::statistics::{Floor, WAKE_LATENCY, launch_error, name};
use crate::{Columns, NULL};

/// Datapoints that a turn needs: the median of fewer varies much.
pub const TURN_MIN: usize = 10;

/// Most rounds of a comparison; neighbours are pooled beyond that, so that a night's run is compared in seconds.
const ROUNDS_MOST: usize = 100;

/// The second source less the first, in one state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SourceDifference {
    /// The requested state's name.
    pub state: String,
    /// As in the column `source`.
    pub first: String,
    /// As in the column `source`.
    pub second: String,
    /// Datapoints of the first.
    pub count_first: u64,
    /// Datapoints of the second.
    pub count_second: u64,
    /// So many neighbouring rounds count as one, so that most have datapoints enough of both.
    pub rounds_pooled: u64,
    /// Of the medians, ns; `None` without a round that has [`TURN_MIN`] datapoints of both.
    pub median_ns: Option<Estimate>,
    /// Of the 99th percentiles, ns; `None` with fewer than ten datapoints beyond one of them.
    pub p99_ns: Option<Estimate>,
    /// Of the test that the medians do not differ; `None` with too few rounds for an interval.
    pub p_value: Option<f64>,
    /// The same with all comparisons of the result taken into account (Holm).
    pub adjusted_p_value: Option<f64>,
    /// Of the floors' medians, ns; `None` if one of them is missing, or was not measured in rounds.
    pub floor_ns: Option<Estimate>,
    /// The difference of the medians less that of the floors, ns. The intervals of all states and sources together
    /// hold with 95% (Bonferroni).
    pub above_floor_ns: Option<Estimate>,
    /// The launch times are known to this, ns, of both together; 0 if they are instants of the CPU's clock.
    pub launch_error_ns: i64,
    /// What that means.
    pub verdict: SourceVerdict,
}

/// What a comparison of two sources says.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SourceVerdict {
    /// Too few rounds have datapoints enough of both.
    TooFew {
        /// Rounds that have.
        rounds: u64,
        /// Rounds that an interval needs.
        needed: u64,
    },
    /// No difference was found.
    NotFound {
        /// A larger one is excluded with 95%, ns.
        at_most_ns: f64,
    },
    /// They differ, and no floors tell why.
    Differ,
    /// They differ, but not beyond what their floors differ by.
    AsFloors,
    /// They differ by more than their floors, or the other way.
    BeyondFloors,
}

/// Wake latencies of a state, by round and source.
type Turns = BTreeMap<i64, BTreeMap<String, Vec<f64>>>;

/// Every two of the sources in each state in which one of them has datapoints, by state and in the order of
/// `sources`; empty unless several took turns. The states of the floors are left out: nothing sleeps in them.
pub fn differences(
    columns: &Columns,
    sources: &[String],
    floors: &[Floor],
) -> Vec<SourceDifference> {
    let mut states = by_state(columns);
    states.retain(|(state, _)| !floors.iter().any(|floor| floor.state == *state));
    let later = |at| sources.iter().skip(at + 1);
    let pairs = sources.iter().enumerate();
    let pairs: Vec<_> = pairs
        .flat_map(|(at, first)| later(at).map(move |second| (first, second)))
        .collect();
    let of_all = ERROR / (states.len() * pairs.len()).max(1) as f64;
    let mut all = Vec::new();
    for (state, turns) in &states {
        for (first, second) in &pairs {
            let errors = [first, second].map(|source| launch_error(columns, source).unwrap_or(0));
            let floors = floor_differences(floors, first, second);
            let one = of_pair(state, [first, second], turns, &floors, of_all);
            all.extend(one.map(|one| SourceDifference {
                launch_error_ns: errors.iter().sum(),
                ..one
            }));
        }
    }
    judge(&mut all);
    all
}

/// `None` if neither has a datapoint.
fn of_pair(
    state: &str,
    [first, second]: [&str; 2],
    turns: &Turns,
    floors: &[f64],
    of_all: f64,
) -> Option<SourceDifference> {
    let of = |source: &str| -> Vec<&[f64]> {
        let turns = turns.values();
        turns
            .map(|round| round.get(source).map_or(&[][..], |turn| turn))
            .collect()
    };
    let (first_turns, second_turns) = (of(first), of(second));
    let count = |turns: &[&[f64]]| turns.iter().map(|turn| turn.len()).sum::<usize>() as u64;
    let (count_first, count_second) = (count(&first_turns), count(&second_turns));
    if count_first + count_second == 0 {
        return None;
    }
    let (rounds_pooled, rounds) = pooled(&first_turns, &second_turns);
    let differences: Vec<f64> = rounds
        .iter()
        .filter_map(|[first, second]| Some(median(second)? - median(first)?))
        .collect();
    let of = |at: usize| -> Vec<&[f64]> { rounds.iter().map(|round| &*round[at]).collect() };
    let above = median_difference(&differences, of_all);
    let floors_of_all = median_difference(floors, of_all);
    let is_enough = differences.len() >= rounds_needed(ERROR);
    Some(SourceDifference {
        state: state.to_owned(),
        first: first.to_owned(),
        second: second.to_owned(),
        count_first,
        count_second,
        rounds_pooled: rounds_pooled as u64,
        median_ns: median_difference(&differences, ERROR),
        p99_ns: p99_difference(&of(1), &of(0)),
        p_value: p_value(&differences).filter(|_| is_enough),
        adjusted_p_value: None,
        floor_ns: median_difference(floors, ERROR),
        above_floor_ns: above
            .zip(floors_of_all)
            .map(|(one, floors)| one.less(&floors)),
        launch_error_ns: 0,
        verdict: SourceVerdict::Differ,
    })
}

/// The rounds in which both have datapoints enough, and how many neighbours were pooled for that: as few as give
/// most rounds enough, and [`ROUNDS_MOST`] at most.
fn pooled(first: &[&[f64]], second: &[&[f64]]) -> (usize, Vec<[Vec<f64>; 2]>) {
    let of = |size: usize| -> Vec<[Vec<f64>; 2]> {
        let rounds = first.chunks(size).zip(second.chunks(size));
        let rounds = rounds.map(|(first, second)| [first.concat(), second.concat()]);
        rounds
            .filter(|round| round.iter().all(|turn| turn.len() >= TURN_MIN))
            .collect()
    };
    let mut size = first.len().div_ceil(ROUNDS_MOST).max(1);
    loop {
        let rounds = of(size);
        let (all, larger) = (first.len().div_ceil(size), first.len().div_ceil(2 * size));
        // Larger ones would be too few for an interval.
        if 2 * rounds.len() >= all || larger < rounds_needed(ERROR) {
            return (size, rounds);
        }
        size *= 2;
    }
}

/// The states in the order of their indices. Datapoints without a round are left out.
fn by_state(columns: &Columns) -> Vec<(String, Turns)> {
    let mut states: BTreeMap<(i64, &str), Turns> = BTreeMap::new();
    let (Some(latencies), Some(rounds)) =
        (columns.integers(WAKE_LATENCY), columns.integers("round"))
    else {
        return Vec::new();
    };
    let indices = columns.integers("requested_state_index");
    let [of_state, of_source] = ["requested_state", "source"].map(|column| columns.names(column));
    for (row, (&latency, &round)) in latencies.iter().zip(rounds).enumerate() {
        if latency == NULL || round == NULL {
            continue;
        }
        let index = indices.map_or(i64::MAX, |indices| indices[row]);
        let turns = states.entry((index, name(of_state, row))).or_default();
        let sources = turns.entry(round).or_default();
        match sources.get_mut(name(of_source, row)) {
            Some(turn) => turn.push(latency as f64),
            None => {
                sources.insert(name(of_source, row).to_owned(), vec![latency as f64]);
            }
        }
    }
    let states = states.into_iter();
    states
        .map(|((_, state), turns)| (state.to_owned(), turns))
        .collect()
}

/// By round: the second floor's median less the first's.
fn floor_differences(floors: &[Floor], first: &str, second: &str) -> Vec<f64> {
    let of = |source: &str| floors.iter().find(|floor| floor.source == source);
    let (Some(first), Some(second)) = (of(first), of(second)) else {
        return Vec::new();
    };
    let is_same = first.state == second.state;
    let rounds = first.medians_ns.iter().zip(&second.medians_ns);
    let rounds =
        rounds.filter_map(|(first, second)| Some((second.as_ref()? - first.as_ref()?) as f64));
    rounds.filter(|_| is_same).collect()
}

/// Adjusts the p-values and says what the differences mean.
fn judge(all: &mut [SourceDifference]) {
    let p_values: Vec<f64> = all.iter().filter_map(|one| one.p_value).collect();
    let mut adjusted = holm::adjusted(&p_values).into_iter();
    for one in all {
        one.adjusted_p_value = one.p_value.and_then(|_| adjusted.next());
        one.verdict = one.judged();
    }
}

impl SourceDifference {
    fn judged(&self) -> SourceVerdict {
        let error = self.launch_error_ns as f64;
        // As far as the launch times are known.
        let against = |one: &Estimate| {
            let interval = one.interval.map(|(low, high)| (low - error, high + error));
            Estimate {
                interval,
                ..one.clone()
            }
            .against_zero()
        };
        let interval = self.median_ns.as_ref().and_then(|one| one.interval);
        let (Some(median), Some((low, high)), Some(p)) =
            (&self.median_ns, interval, self.adjusted_p_value)
        else {
            return SourceVerdict::TooFew {
                rounds: self.median_ns.as_ref().map_or(0, |one| one.rounds),
                needed: rounds_needed(ERROR) as u64,
            };
        };
        if p >= ERROR || against(median) == Against::Unknown {
            return SourceVerdict::NotFound {
                at_most_ns: low.abs().max(high.abs()) + error,
            };
        }
        match &self.above_floor_ns {
            Some(above) if above.interval.is_none() => SourceVerdict::Differ,
            Some(above) if against(above) == Against::Unknown => SourceVerdict::AsFloors,
            Some(_) => SourceVerdict::BeyondFloors,
            None => SourceVerdict::Differ,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::columns::{Column, Values};

    /// A run of this many rounds on a machine that drifts, whose turns are disturbed: in C6 `second` is by
    /// `effect` slower than `first`, ns.
    fn run(random: &mut fastrand::Rng, rounds: usize, each: usize, effect: f64) -> Columns {
        let (mut latencies, mut numbers, mut codes) = (Vec::new(), Vec::new(), Vec::new());
        let mut drift = 0.0;
        for round in 0..rounds {
            let first = random.u8(0..2);
            for source in [first, 1 - first] {
                drift += 200.0 * random.f64();
                let level = 90_000.0 + drift + 300.0 * random.f64() + effect * f64::from(source);
                for _ in 0..each {
                    let tail = -2_000.0 * random.f64().max(1e-9).ln();
                    latencies.push((level + tail) as i64);
                    numbers.push(round as i64);
                    codes.push(source);
                }
            }
        }
        let rows = latencies.len();
        columns(
            latencies,
            numbers,
            vec![0; rows],
            &["C6"],
            codes,
            &["timer", "remote"],
        )
    }

    fn columns(
        latencies: Vec<i64>,
        rounds: Vec<i64>,
        states: Vec<u8>,
        state_names: &[&str],
        sources: Vec<u8>,
        source_names: &[&str],
    ) -> Columns {
        let names = |codes: Vec<u8>, names: &[&str]| Values::Name {
            codes,
            names: names.iter().map(|name| (*name).to_owned()).collect(),
        };
        let column = |name: &str, values| Column {
            name: name.to_owned(),
            values,
        };
        let indices = states.iter().map(|state| i64::from(*state)).collect();
        Columns::new(vec![
            column("requested_state", names(states, state_names)),
            column("requested_state_index", Values::Integer(indices)),
            column("source", names(sources, source_names)),
            column(WAKE_LATENCY, Values::Integer(latencies)),
            column("round", Values::Integer(rounds)),
        ])
        .unwrap()
    }

    fn floor(source: &str, medians: &[i64]) -> Floor {
        Floor {
            state: "POLL".into(),
            source: source.into(),
            count: 1000,
            median_ns: medians[0],
            p90_ns: None,
            p99_ns: None,
            max_ns: 9_000,
            medians_ns: medians.iter().copied().map(Some).collect(),
        }
    }

    fn of(columns: &Columns, floors: &[Floor]) -> Vec<SourceDifference> {
        differences(columns, &["timer".into(), "remote".into()], floors)
    }

    /// Twelve rounds of floors which differ by this.
    fn floors(difference: i64) -> [Floor; 2] {
        let timer: Vec<i64> = (0..12).map(|round| 800 + 7 * (round % 5)).collect();
        let remote: Vec<i64> = (0..12)
            .map(|round| 800 + difference + 5 * (round % 4))
            .collect();
        [floor("timer", &timer), floor("remote", &remote)]
    }

    #[test]
    fn a_true_difference_is_in_its_interval_in_19_of_20_runs_whatever_the_drift() {
        const TRIES: usize = 200;
        let mut random = fastrand::Rng::with_seed(5);
        for effect in [0.0, 700.0] {
            let holds = |_: &usize| {
                let run = run(&mut random, 10, 60, effect);
                let (low, high) = of(&run, &[])[0]
                    .median_ns
                    .as_ref()
                    .unwrap()
                    .interval
                    .unwrap();
                low <= effect && effect <= high
            };
            let held = (0..TRIES).filter(holds).count();
            // 190 expected, of a standard deviation of 3.1.
            assert!(held >= 181, "{effect}: {held}");
        }
    }

    #[test]
    fn no_difference_is_found_where_there_is_none_but_in_one_run_of_twenty() {
        const TRIES: usize = 200;
        let mut random = fastrand::Rng::with_seed(9);
        let is_found = |_: &usize| {
            let verdict = of(&run(&mut random, 12, 60, 0.0), &floors(0))[0].verdict;
            !matches!(verdict, SourceVerdict::NotFound { .. })
        };
        let found = (0..TRIES).filter(is_found).count();
        assert!(found <= 19, "{found}");
    }

    #[test]
    fn a_difference_is_beyond_the_floors_only_if_they_do_not_explain_it() {
        let mut random = fastrand::Rng::with_seed(1);
        let run = run(&mut random, 20, 100, 9_000.0);
        let verdict = |floors: &[Floor]| of(&run, floors)[0].verdict;
        assert_eq!(verdict(&floors(500)), SourceVerdict::BeyondFloors);
        assert_eq!(verdict(&floors(9_000)), SourceVerdict::AsFloors);
        assert_eq!(verdict(&[]), SourceVerdict::Differ);
        // The floors of one round, or of different states, tell nothing.
        let one = [floor("timer", &[800]), floor("remote", &[900])];
        assert_eq!(verdict(&one), SourceVerdict::Differ);
        let mut other = floors(500);
        other[1].state = "awake".into();
        assert_eq!(verdict(&other), SourceVerdict::Differ);
        let found = &of(&run, &floors(500))[0];
        assert_eq!((&*found.first, &*found.second), ("timer", "remote"));
        let above = found.above_floor_ns.as_ref().unwrap();
        assert!((7_900.0..9_100.0).contains(&above.estimate), "{above:?}");
    }

    #[test]
    fn a_difference_within_the_launch_error_is_not_found() {
        let mut random = fastrand::Rng::with_seed(1);
        let mut run = run(&mut random, 20, 100, 2_000.0);
        let add_errors = |run: &mut Columns, of_remote: i64| {
            let (codes, _) = run.names("source").unwrap();
            let errors = codes.iter().map(|code| match code {
                0 => NULL,
                _ => of_remote,
            });
            let values = Values::Integer(errors.collect());
            run.columns.push(Column {
                name: "launch_error_ns".into(),
                values,
            });
        };
        add_errors(&mut run, 5_000);
        let one = &of(&run, &floors(0))[0];
        assert_eq!(one.launch_error_ns, 5_000);
        let high = one.median_ns.as_ref().unwrap().interval.unwrap().1;
        assert_eq!(
            one.verdict,
            SourceVerdict::NotFound {
                at_most_ns: high + 5_000.0
            }
        );
        run.columns.pop();
        add_errors(&mut run, 200);
        assert_eq!(of(&run, &floors(0))[0].verdict, SourceVerdict::BeyondFloors);
    }

    #[test]
    fn too_few_rounds_or_datapoints_are_reported_as_such() {
        let mut random = fastrand::Rng::with_seed(1);
        let few = |rounds, needed| SourceVerdict::TooFew { rounds, needed };
        let five = run(&mut random, 5, 60, 90_000.0);
        assert_eq!(of(&five, &floors(0))[0].verdict, few(5, 6));
        assert_eq!(of(&five, &floors(0))[0].p_value, None);
        let nine_each = run(&mut random, 8, 9, 90_000.0);
        assert_eq!(of(&nine_each, &floors(0))[0].verdict, few(0, 6));
        // One source alone, and the state of the floor.
        let mut alone = run(&mut random, 8, 60, 0.0);
        alone.retain(
            &alone
                .names("source")
                .unwrap()
                .0
                .iter()
                .map(|code| *code == 0)
                .collect::<Vec<_>>(),
        );
        let one = &of(&alone, &[])[0];
        assert_eq!((one.count_first, one.count_second), (480, 0));
        assert_eq!(one.verdict, few(0, 6));
        let poll = columns(
            vec![5; 40],
            vec![0; 40],
            vec![0; 40],
            &["POLL"],
            vec![0; 40],
            &["timer"],
        );
        assert!(of(&poll, &floors(0)).is_empty());
        assert_eq!(of(&poll, &[]).len(), 1);
    }

    #[test]
    fn without_rounds_nothing_is_compared() {
        let mut random = fastrand::Rng::with_seed(1);
        let mut run = run(&mut random, 8, 60, 0.0);
        run.columns.retain(|column| column.name != "round");
        assert!(of(&run, &[]).is_empty());
    }

    #[test]
    fn rare_datapoints_are_pooled_over_neighbouring_rounds() {
        let of = |rounds: usize, each: usize| {
            let turn = vec![1.0; each];
            let turns = vec![&turn[..]; rounds];
            let (size, rounds) = pooled(&turns, &turns);
            (size, rounds.len())
        };
        assert_eq!(of(40, 10), (1, 40));
        assert_eq!(of(40, 9), (2, 20));
        assert_eq!(of(40, 3), (4, 10));
        // Eight would leave five rounds.
        assert_eq!(of(40, 2), (4, 0));
        assert_eq!(of(1000, 10), (10, 100));
        assert_eq!(of(0, 10), (1, 0));
    }

    #[test]
    fn all_states_and_sources_count_for_each_test() {
        let mut random = fastrand::Rng::with_seed(2);
        let (mut latencies, mut rounds) = (Vec::new(), Vec::new());
        let (mut states, mut sources) = (Vec::new(), Vec::new());
        for round in 0..8 {
            for (state, source) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
                for _ in 0..20 {
                    latencies.push(10_000 * i64::from(state + 1) + i64::from(random.u8(..)));
                    rounds.push(round);
                    states.push(state);
                    sources.push(source);
                }
            }
        }
        // In C1 remote is slower in every round.
        for (row, latency) in latencies.iter_mut().enumerate() {
            *latency += i64::from(states[row] == 0 && sources[row] == 1) * 5_000;
        }
        let both = columns(
            latencies,
            rounds,
            states,
            &["C1", "C6"],
            sources,
            &["timer", "remote"],
        );
        let all = of(&both, &[]);
        let names: Vec<_> = all.iter().map(|one| &*one.state).collect();
        assert_eq!(names, ["C1", "C6"]);
        assert_eq!(all[0].p_value, Some(2.0 / 256.0));
        assert_eq!(all[0].adjusted_p_value, Some(4.0 / 256.0));
        assert_eq!(all[0].verdict, SourceVerdict::Differ);
        assert!(
            matches!(all[1].verdict, SourceVerdict::NotFound { at_most_ns } if at_most_ns < 200.0)
        );
    }
}
