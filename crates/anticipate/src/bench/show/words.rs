//! What a benchmark says, in sentences.

use reveille_results::description::Ended;

use crate::bench::policy::Policy;
use crate::bench::result::{Bench, Gain, Point, Regained};
use reveille_figures::rounds::Estimate;

/// What stands above all tables: for each series, or for reads that are about 1 ms apart, what sleep
/// costs and how much of it was regained; and which policies were left out. Names of policies are
/// between backquotes.
pub fn sentences(bench: &Bench) -> Vec<String> {
    let mut all = Vec::new();
    for point in headline_points(bench) {
        let of_point = bench.gains.iter().filter(|gain| gain.point == point);
        // What could be regained comes after what was.
        let (limits, gains): (Vec<_>, Vec<_>) =
            of_point.partition(|gain| gain.policy == Policy::Poll);
        let before = all.len();
        let both = gains.into_iter().chain(limits);
        all.extend(both.filter_map(|gain| of_gain(bench, gain)));
        if all.len() == before {
            all.extend(of_loss(bench, point));
        }
    }
    if bench.rows.is_empty() {
        all.push("No round was completed: there are no figures.".into());
    }
    let (complete, asked) = (bench.complete_rounds(), bench.plan.rounds);
    let rounds =
        format!("{complete} of {asked} rounds are complete for every idle time or series.");
    match &bench.about.ended {
        Ended::Completed => {}
        Ended::Interrupted => all.push(format!("It was interrupted: {rounds}")),
        Ended::Disturbed(why) => all.push(format!("It ended early ({why}): {rounds}")),
    }
    for skipped in &bench.skipped {
        let name = skipped.policy.name();
        all.push(format!("`{name}` was left out: {}.", skipped.why));
    }
    all
}

/// The point that is nearest to 1 ms, where the paper has its figures; all where there are no idle
/// times.
fn headline_points(bench: &Bench) -> Vec<usize> {
    const HEADLINE_NS: f64 = 1e6;
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

/// "As is" and "no sleep", at the median.
fn ends(bench: &Bench, point: usize) -> Option<(String, String)> {
    let median = |policy| bench.row(point, policy)?.median_ns.clone();
    let (as_is, no_sleep) = (median(Policy::AsIs)?, median(Policy::NoSleep)?);
    Some((
        microseconds(as_is.estimate),
        microseconds(no_sleep.estimate),
    ))
}

fn of_loss(bench: &Bench, point: usize) -> Option<String> {
    let (as_is, no_sleep) = ends(bench, point)?;
    let between = between(bench, point);
    Some(format!(
        "{between}: {as_is} at the median as is, {no_sleep} without sleep."
    ))
}

fn of_gain(bench: &Bench, gain: &Gain) -> Option<String> {
    if gain.policy == Policy::Poll {
        return of_limit(bench, gain);
    }
    let name = gain.policy.name();
    let (as_is, no_sleep) = ends(bench, gain.point)?;
    let between = between(bench, gain.point);
    let own = bench.row(gain.point, gain.policy)?.median_ns.as_ref()?;
    let own = microseconds(own.estimate);
    let Some(median) = &gain.median.percent else {
        return Some(format!(
            "{between}: {as_is} at the median as is, {no_sleep} without sleep, {own} with `{name}`; it \
             is not shown that sleep costs anything here."
        ));
    };
    let cost = match &gain.awake_percent {
        Some(awake) => format!(
            ", for {} of the time awake that no sleep costs",
            percent(awake)
        ),
        None => String::new(),
    };
    let power = match &gain.power_percent {
        Some(power) => format!(" and {} of the power", percent(power)),
        None => String::new(),
    };
    Some(format!(
        "{between}: {as_is} at the median as is, {no_sleep} without sleep, {own} with `{name}`, which {} \
         {} of the difference{}{cost}{power}.",
        regains(median),
        percent(median),
        at_p99(&gain.p99)
    ))
}

/// What could be regained by being awake for the end, and not in the time between.
fn of_limit(bench: &Bench, gain: &Gain) -> Option<String> {
    Some(format!(
        "A thread that looks for the end of each {} by itself (`{}`) regains {}{}: about the most that \
         can be.",
        bench.workload.waits_for,
        gain.policy.name(),
        percent(gain.median.percent.as_ref()?),
        at_p99(&gain.p99)
    ))
}

/// What is shown of the share.
fn regains(share: &Estimate) -> &'static str {
    let (low, high) = share.interval.unwrap_or((share.estimate, share.estimate));
    match () {
        () if low > 0.0 => "regains",
        () if high < 0.0 => "is slower than as is and regains",
        () => "is not shown to be quicker than as is and regains",
    }
}

fn at_p99(p99: &Regained) -> String {
    match (&p99.percent, &p99.lost_ns) {
        (Some(share), _) => format!(" (at p99 {})", percent(share)),
        (None, Some(_)) => " (at p99 no difference is shown)".into(),
        (None, None) => " (too few for a p99)".into(),
    }
}

/// `80 % (75 to 90)`.
pub fn percent(figure: &Estimate) -> String {
    let interval = figure
        .interval
        .map(|(low, high)| format!(" ({low:.0} to {high:.0})"));
    format!("{:.0} %{}", figure.estimate, interval.unwrap_or_default())
}

/// `54.7 µs`.
pub fn microseconds(ns: f64) -> String {
    let us = ns / 1000.0;
    let decimals = if us < 99.95 { 1 } else { 0 };
    format!("{us:.decimals$} µs")
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::bench::result::{FILE, Plan, SCHEMA_VERSION, Skipped, Workload, conclude, tests};
    use reveille_results::kept::{self, About};

    pub(crate) fn bench(figures: &[(Policy, f64, f64)], waits: u64) -> Bench {
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
    fn a_gain_is_said_with_what_it_costs() {
        assert_eq!(
            sentences(&bench(&REAL, 200)),
            [
                "At 1 ms between reads: 55.3 µs at the median as is, 41.3 µs without sleep, 44.1 µs \
                 with `anticipate`, which regains 80 % (80 to 80) of the difference (at p99 80 % (80 to \
                 80)), for 10 % (10 to 10) of the time awake that no sleep costs.",
                "`shallowest` was left out: there is but one.",
            ]
        );
        let few = sentences(&bench(&REAL, 20));
        assert!(few[0].contains("too few for a p99"), "{few:?}");
    }

    #[test]
    fn a_policy_that_makes_it_worse_is_said_to() {
        let mut worse = REAL;
        worse[2].1 = 56_400.0;
        let said = sentences(&bench(&worse, 200));
        assert!(
            said[0].contains("is slower than as is and regains -10 %"),
            "{said:?}"
        );
        worse[2].1 = worse[0].1;
        let said = sentences(&bench(&worse, 200));
        assert!(said[0].contains("is not shown to be quicker"), "{said:?}");
    }

    #[test]
    fn the_idle_time_nearest_to_the_papers_is_told_and_without_an_engine_the_loss() {
        let mut bench = bench(&REAL[..2], 200);
        assert_eq!(
            sentences(&bench)[0],
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
    fn what_is_not_shown_is_not_said() {
        let alike = REAL.map(|(policy, _, awake)| (policy, 41_000.0, awake));
        let said = sentences(&bench(&alike, 200));
        assert!(said[0].contains("not shown that sleep costs"), "{said:?}");
        let mut none = bench(&REAL, 200);
        (none.rows, none.gains) = (vec![], vec![]);
        none.about.ended = Ended::Interrupted;
        let said = sentences(&none);
        assert!(said[0].contains("No round"), "{said:?}");
        assert!(said[1].contains("interrupted: 0 of 7 rounds"), "{said:?}");
        let mut gone = bench(&REAL, 200);
        gone.about.ended = Ended::Disturbed("the disk is gone".into());
        let said = sentences(&gone);
        assert!(
            said[1].contains("(the disk is gone): 7 of 7 rounds"),
            "{said:?}"
        );
    }

    #[test]
    fn what_was_written_is_read_and_what_is_damaged_is_said() {
        use reveille_results::output::{Folder, Naming};

        use crate::bench::result::parse;
        let folder = tempfile::tempdir().unwrap();
        let bench = bench(&REAL, 200);
        let out = Folder::make(&folder.path().join("new"), Naming::ByUser).unwrap();
        let path = kept::write(&bench, FILE, &out).unwrap();
        let text = std::fs::read_to_string(path).unwrap();
        assert_eq!(parse(text.as_bytes()), Ok(bench));
        let said = |text: &str| parse(text.as_bytes()).unwrap_err();
        assert!(said("{}").contains("no bench.json"));
        let newer = text.replacen("\"schema_version\":1", "\"schema_version\":2", 1);
        assert!(said(&newer).contains("version 2"));
        let damaged = text.replacen("\"point\":0", "\"point\":9", 1);
        assert!(said(&damaged).contains("damaged"));
        assert!(said(&text[..text.len() / 2]).contains("cut short"));
    }
}
