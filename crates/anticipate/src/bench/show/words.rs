//! A benchmark's conclusion, in sentences.

use reveille_figures::rounds::{Against, ERROR, Estimate, rounds_needed};
use reveille_show::quantity::duration;
use reveille_show::sheet::Unit;
use reveille_show::text::alone;

use crate::bench::comparison::{Gain, Regained};
use crate::bench::policy::Policy;
use crate::bench::result::{Bench, Point};

/// For each series, or for I/Os about 1 ms apart, the cost of sleep and the share of it that is regained.
pub fn answer(bench: &Bench) -> String {
    if bench.rows.is_empty() {
        return "No round was completed: there are no figures.".into();
    }
    let mut all = Vec::new();
    for point in headline_points(bench) {
        let of_point = bench.gains.iter().filter(|gain| gain.point == point);
        // What could be regained comes after what was.
        let (limits, gains): (Vec<_>, Vec<_>) =
            of_point.partition(|gain| gain.policy == Policy::Poll);
        let before = all.len();
        let gains = gains.into_iter().filter_map(|gain| of_gain(bench, gain));
        all.extend(gains);
        if all.len() == before {
            all.extend(of_loss(bench, point));
        }
        all.extend(limits.into_iter().filter_map(|gain| of_limit(bench, gain)));
    }
    all.join(" ")
}

/// The policies that were left out.
pub fn notes(bench: &Bench) -> Vec<String> {
    let skipped = bench.skipped.iter();
    let note = skipped.map(|one| format!("{} was left out: {}.", one.policy.name(), one.why));
    let rounds = bench.plan.rounds as usize;
    let needed = rounds_needed(ERROR);
    let too_few = (rounds < needed)
        .then(|| format!("Intervals need {needed} rounds; here are {rounds}. Use --rounds."));
    note.chain(too_few).collect()
}

/// The point that is nearest to 1 ms, where the paper has its figures; all without storage.
pub fn headline_points(bench: &Bench) -> Vec<usize> {
    const HEADLINE_NS: f64 = 1e6;
    if !bench.is_storage() {
        return (0..bench.points.len()).collect();
    }
    let distance = |(place, point): (usize, &Point)| {
        let idle_ns = point.idle_ns?.max(1) as f64;
        Some((place, (idle_ns / HEADLINE_NS).ln().abs()))
    };
    let distances: Vec<(usize, f64)> = bench
        .points
        .iter()
        .enumerate()
        .filter_map(distance)
        .collect();
    match distances
        .iter()
        .min_by(|one, other| one.1.total_cmp(&other.1))
    {
        Some(nearest) => vec![nearest.0],
        None => (0..bench.points.len()).collect(),
    }
}

fn between(bench: &Bench, point: usize) -> String {
    let Point { name, idle_ns } = &bench.points[point];
    match idle_ns {
        Some(0) => format!("With nothing between {}s", bench.workload.waits_for),
        Some(_) => format!("At {name} between {}s", bench.workload.waits_for),
        None => name.clone(),
    }
}

/// The medians as is and without sleep.
fn ends(bench: &Bench, point: usize) -> Option<String> {
    let median = |policy| {
        Some(duration(
            bench.row(point, policy)?.median_ns.as_ref()?.estimate,
        ))
    };
    let between = between(bench, point);
    let (as_is, no_sleep) = (median(Policy::AsIs)?, median(Policy::NoSleep)?);
    Some(format!(
        "{between}: {as_is} at the median as is, {no_sleep} without sleep"
    ))
}

fn of_loss(bench: &Bench, point: usize) -> Option<String> {
    Some(ends(bench, point)? + ".")
}

fn of_gain(bench: &Bench, gain: &Gain) -> Option<String> {
    let policy = match gain.policy {
        Policy::Anticipate => "anticipatory wake-up",
        other => other.name(),
    };
    let own = bench.row(gain.point, gain.policy)?.median_ns.as_ref()?;
    let medians = format!(
        "{}, {} with {policy}",
        ends(bench, gain.point)?,
        duration(own.estimate)
    );
    let Some(median) = &gain.median.percent else {
        /// From here on a CPU hardly slept.
        const AWAKE_PERCENT: f64 = 90.0;
        let as_is = bench.row(gain.point, Policy::AsIs)?;
        let awake = as_is.awake_percent.as_ref();
        return Some(
            match awake.filter(|awake| awake.estimate >= AWAKE_PERCENT) {
                Some(awake) => format!(
                    "{medians}; the CPU hardly slept as is either (awake {}), so what sleep costs was not measured.",
                    percent(awake)
                ),
                None => format!("{medians}; sleep is not shown to cost anything here."),
            },
        );
    };
    let cost = gain.awake_percent.as_ref().map(|awake| {
        let awake = percent(awake);
        format!(", for {awake} of the time awake that no sleep costs")
    });
    let power = gain.power_percent.as_ref().map(percent);
    let power = power.map(|power| format!(" and {power} of the power"));
    Some(format!(
        "{medians}, which {} {} of the difference{}{}{}.",
        regains(median),
        percent(median),
        at_p99(&gain.p99),
        cost.unwrap_or_default(),
        power.unwrap_or_default()
    ))
}

/// The share that is regained by a CPU that is awake for the completion, and not in the time between.
fn of_limit(bench: &Bench, gain: &Gain) -> Option<String> {
    let median = gain.median.percent.as_ref()?;
    let others = bench.gains.iter().filter(|other| other.point == gain.point);
    let mut others = others.filter_map(|other| other.median.percent.as_ref());
    let gains = median.interval.is_some_and(|(low, _)| low > 0.0);
    let is_most = gains && others.all(|other| other.estimate <= median.estimate);
    Some(format!(
        "A thread that polls for the completion of each {} {} {} of the difference{}{}.",
        bench.workload.waits_for,
        regains(median),
        percent(median),
        at_p99(&gain.p99),
        if is_most { ": about the maximum" } else { "" }
    ))
}

/// What is shown of the share.
fn regains(share: &Estimate) -> &'static str {
    match (share.against_zero(), share.interval) {
        (Against::More, _) => "regains",
        (Against::Less, _) => "is slower than as is and regains",
        (Against::Unknown, Some(_)) => "is not shown to be faster than as is and regains",
        (Against::Unknown, None) => {
            "is not shown to be faster than as is (too few rounds) and regains"
        }
    }
}

fn at_p99(p99: &Regained) -> String {
    match (&p99.percent, &p99.lost_ns) {
        (Some(share), _) => format!(" (at p99 {})", percent(share)),
        (None, Some(_)) => " (at p99 no difference is shown)".into(),
        (None, None) => " (too few for a p99)".into(),
    }
}

/// `80 [75, 90]%`.
fn percent(figure: &Estimate) -> String {
    alone(Unit::Percent, &figure.into()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::comparison::{conclude, tests};
    use crate::bench::result::{FILE, Plan, SCHEMA_VERSION, Skipped, Workload};
    use reveille_results::description::Ended;
    use reveille_results::kept::{self, About};

    fn bench(figures: &[(Policy, f64, f64)], waits: u64) -> Bench {
        let policies: Vec<Policy> = figures.iter().map(|figure| figure.0).collect();
        let policies = tests::used(&policies);
        let turns = tests::turns(7, figures, waits);
        let (rows, gains) = conclude(1, &policies, &turns);
        Bench {
            about: About {
                schema_version: SCHEMA_VERSION,
                tool: "reveille test".into(),
                name: "test".into(),
                started: String::new(),
                command_line: Vec::new(),
                ended: Ended::Completed,
                machine: Default::default(),
                driver: None,
                governor: None,
            },
            workload: Workload {
                kind: "storage".into(),
                waits_for: "read".into(),
                ..Workload::default()
            },
            plan: Plan {
                rounds: 7,
                waits,
                turn_s: 4.0,
                warm_up: 0,
                seed: 1,
                cpu: 0,
            },
            meter: None,
            points: vec![Point::idle(1_000_000)],
            policies,
            skipped: vec![Skipped {
                policy: Policy::Shallowest,
                why: "there is but one".into(),
            }],
            rows,
            gains,
            notes: Vec::new(),
            turns,
        }
    }

    const REAL: [(Policy, f64, f64); 3] = [
        (Policy::AsIs, 55_000.0, 20.0),
        (Policy::NoSleep, 41_000.0, 100.0),
        (Policy::Anticipate, 43_800.0, 28.0),
    ];

    #[test]
    fn a_gain_is_reported_with_its_cost() {
        let real = bench(&REAL, 200);
        assert_eq!(
            answer(&real),
            "At 1 ms between reads: 55.3 µs at the median as is, 41.3 µs without sleep, 44.1 µs with \
             anticipatory wake-up, which regains 80 [80, 80]% of the difference (at p99 80 [80, 80]%), \
             for 10 [10, 10]% of the time awake that no sleep costs."
        );
        assert_eq!(notes(&real), ["shallowest was left out: there is but one."]);
        let few = answer(&bench(&REAL, 20));
        assert!(few.contains("too few for a p99"), "{few}");
    }

    #[test]
    fn a_policy_that_is_slower_is_reported_as_such() {
        let mut worse = REAL;
        worse[2].1 = 56_400.0;
        let slower = answer(&bench(&worse, 200));
        assert!(
            slower.contains("is slower than as is and regains -10 ["),
            "{slower}"
        );
        worse[2].1 = worse[0].1;
        let alike = answer(&bench(&worse, 200));
        assert!(alike.contains("is not shown to be faster"), "{alike}");
    }

    #[test]
    fn a_gain_without_an_interval_is_not_claimed() {
        let mut few = bench(&REAL, 200);
        for gain in &mut few.gains {
            for share in gain.median.percent.iter_mut().chain(&mut gain.p99.percent) {
                share.interval = None;
            }
        }
        few.plan.rounds = 5;
        assert_eq!(
            regains(few.gains[0].median.percent.as_ref().unwrap()),
            regains(&Estimate {
                estimate: 80.0,
                interval: None,
                rounds: 5,
            })
        );
        assert!(!answer(&few).contains("which regains"), "{}", answer(&few));
        assert_eq!(notes(&few).len(), 2);
    }

    #[test]
    fn the_answer_uses_the_papers_idle_time_and_without_an_engine_the_cost_of_sleep() {
        let mut bench = bench(&REAL[..2], 200);
        assert_eq!(
            answer(&bench),
            "At 1 ms between reads: 55.3 µs at the median as is, 41.3 µs without sleep."
        );
        bench.points = [0, 300_000, 10_000_000].map(Point::idle).into();
        assert_eq!(headline_points(&bench), [1]);
        bench
            .points
            .iter_mut()
            .for_each(|point| point.idle_ns = None);
        assert_eq!(headline_points(&bench), [0, 1, 2]);
    }

    #[test]
    fn unproven_gains_are_not_claimed() {
        let alike = REAL.map(|(policy, _, awake)| (policy, 41_000.0, awake));
        let alike = answer(&bench(&alike, 200));
        assert!(alike.contains("sleep is not shown to cost"), "{alike}");
        let awake = REAL.map(|(policy, ..)| (policy, 41_000.0, 100.0));
        let awake = answer(&bench(&awake, 200));
        assert!(awake.contains("was not measured"), "{awake}");
        let mut none = bench(&REAL, 200);
        (none.rows, none.gains) = (vec![], vec![]);
        assert!(answer(&none).contains("No round"));
    }

    #[test]
    fn a_written_result_is_read_back_and_a_damaged_one_is_refused() {
        use reveille_results::output::{Folder, Naming};

        use crate::bench::result::parse;
        let folder = tempfile::tempdir().unwrap();
        let bench = bench(&REAL, 200);
        let out = Folder::make(&folder.path().join("new"), Naming::ByUser).unwrap();
        let path = kept::write(&bench, FILE, &out).unwrap();
        let text = std::fs::read_to_string(path).unwrap();
        assert_eq!(parse(text.as_bytes()), Ok(bench));
        let refused = |text: &str| parse(text.as_bytes()).unwrap_err();
        assert!(refused("{}").contains("not a bench.json"));
        let newer = text.replacen("\"schema_version\":1", "\"schema_version\":2", 1);
        assert!(refused(&newer).contains("version 2"));
        let damaged = text.replacen("\"point\":0", "\"point\":9", 1);
        assert!(refused(&damaged).contains("damaged"));
        assert!(refused(&text[..text.len() / 2]).contains("cut short"));
    }
}
