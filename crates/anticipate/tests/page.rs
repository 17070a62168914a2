//! A benchmark for readers: its page, and its columns in the JSON.

use reveille_anticipate::bench::policy::Policy;
use reveille_anticipate::bench::result::{
    Bench, Plan, Point, PolicyUsed, SCHEMA_VERSION, Skipped, Turn, Workload, conclude, parse,
};
use reveille_anticipate::bench::show;
use reveille_figures::rounds::Quantiles;
use reveille_results::description::Ended;
use reveille_results::kept::About;
use reveille_show::sheet::not_in_json;
use reveille_show::text::{self, Detail};
use reveille_show::{terminal, web};

const IDLE_NS: [u64; 4] = [0, 300_000, 1_000_000, 100_000_000];
const POLICIES: [Policy; 3] = [Policy::AsIs, Policy::NoSleep, Policy::Anticipate];

/// One turn; sleep costs 14 µs except with no idle time between reads.
fn turn(round: u32, point: usize, policy: Policy, power_w: Option<f64>) -> Turn {
    let noise = f64::from(round) * 150.0;
    let slept = if point == 0 { 0.0 } else { 14_000.0 };
    let (lost, awake) = match policy {
        Policy::AsIs => (slept, 20.0),
        Policy::NoSleep => (0.0, 100.0),
        _ => (slept / 4.0, 27.0),
    };
    let median = 41_000.0 + lost + noise;
    Turn {
        round,
        point,
        policy,
        began_s: f64::from(round),
        elapsed_s: 1.0,
        latency: Quantiles {
            count: if point == 3 { 40 } else { 500 },
            median,
            p90: Some(1.3 * median),
            p99: (point != 3).then_some(1.8 * median + lost),
            max: 9.0 * median,
        },
        per_s: 1e9 / median,
        awake_percent: Some(awake),
        others_awake_percent: Some(3.0),
        kept_awake_percent: (policy == Policy::Anticipate).then_some(6.5),
        assisted_percent: None,
        power_w: power_w.map(|least| least + awake / 10.0),
        packages_w: None,
        run_ns: None,
    }
}

fn bench(power_w: Option<f64>) -> Bench {
    let policies: Vec<PolicyUsed> = POLICIES
        .map(|policy| PolicyUsed {
            policy,
            how: "something <s> is changed".into(),
        })
        .into();
    let mut turns = Vec::new();
    for round in 0..7 {
        for point in 0..IDLE_NS.len() {
            turns.extend(POLICIES.map(|policy| turn(round, point, policy, power_w)));
        }
    }
    let (rows, gains) = conclude(IDLE_NS.len(), &policies, &turns);
    Bench {
        about: About {
            schema_version: SCHEMA_VERSION,
            tool: "reveille test".into(),
            name: "<i>test</i>".into(),
            started: String::new(),
            command_line: vec!["reveille".into(), "--dir".into(), "<u>".into()],
            ended: Ended::Completed,
            machine: reveille_kernel::Identity::default(),
            driver: Some("<b>driver".into()),
            governor: None,
        },
        workload: Workload {
            kind: "storage".into(),
            what: "random reads of <em>".into(),
            waits_for: "read".into(),
            device: Some("vda".into()),
            size_bytes: Some(4096),
            depth: Some(1),
            operation: None,
        },
        plan: Plan {
            rounds: 7,
            waits: 500,
            turn_s: 4.0,
            warm_up: 200,
            seed: 1,
            cpu: 1,
        },
        meter: None,
        points: IDLE_NS.map(Point::idle).into(),
        policies,
        skipped: vec![Skipped {
            policy: Policy::Shallowest,
            why: "there is <but> one".into(),
        }],
        rows,
        gains,
        notes: vec!["A <note>.".into()],
        turns,
    }
}

fn page_of(bench: &Bench) -> String {
    let kept = parse(&serde_json::to_vec(bench).unwrap()).unwrap();
    web::page(&show::sheet(&kept))
}

#[test]
fn every_column_is_a_field_of_the_json() {
    let mut bench = bench(Some(3.0));
    // "As is" has no change.
    bench.rows.retain(|row| row.change.is_some());
    let json = serde_json::to_value(&bench).unwrap();
    for (list, headings) in show::reference() {
        assert_eq!(not_in_json(&json, list, &headings), [""; 0], "{list}");
    }
}

#[test]
fn a_terminal_shows_figures_without_intervals_and_shares_with_them() {
    let mut bench = bench(None);
    bench.rows[2].own_cost_ns = Some(2900.0);
    bench.rows[2].own_cost_at_requests_ns = Some(2510.0);
    let text = |bench: &Bench, detail| {
        let mut out = Vec::new();
        text::write(&show::sheet(bench), detail, &mut out).unwrap();
        terminal::plain(out)
    };
    let [short, all] = [Detail::Short, Detail::All].map(|detail| text(&bench, detail));
    let line = |text: &str, words: &[&str]| {
        let mut lines = text.lines().map(|line| line.split_whitespace());
        lines.any(|line| {
            line.collect::<Vec<_>>()
                .join(" ")
                .starts_with(&words.join(" "))
        })
    };
    let as_is = ["1 ms", "as is", "3,500", "55.5", "72.1"];
    assert!(line(&short, &as_is), "{short}");
    // Only the idle time of the answer; what is regained is in its sentence.
    assert!(
        !line(&short, &["0", "as is"]) && line(&all, &["0", "as is"]),
        "{short}"
    );
    assert!(!short.contains("Cost of sleep"), "{short}");
    assert!(all.contains("+75.0 [+75.0, +75.0]"), "{all}");
    assert!(short.contains("7 of 7 in shuffled order"), "{short}");
    assert!(
        all.contains("2.9 µs for a read, without idle time between, 2.51 µs of it"),
        "{all}"
    );
    // The power was not measured.
    assert!(
        !short.contains("power") && !short.contains("Differences"),
        "{short}"
    );
    assert!(all.contains("Differences from as is"));
    bench.about.ended = Ended::Disturbed("the disk is gone".into());
    bench.gains.clear();
    let ended = text(&bench, Detail::Short);
    assert!(
        ended.contains("early: the disk is gone") && ended.contains("Differences"),
        "{ended}"
    );
}

#[test]
fn the_page_has_latency_above_and_cost_below_over_the_same_idle_times() {
    let html = page_of(&bench(None));
    let drawing = &html[html.find("<svg class=\"bars panels\"").unwrap()..];
    let drawing = &drawing[..drawing.find("</svg>").unwrap()];
    assert_eq!(drawing.matches("class=\"panel\"").count(), 2);
    assert!(drawing.contains("latency: median"), "{drawing}");
    assert!(drawing.contains("time awake of CPU 1"), "{drawing}");
    // Three policies: medians at four idle times, p99 at the three that have one; awake at four.
    assert_eq!(drawing.matches("<circle").count(), 3 * (4 + 3 + 4));
    assert!(
        drawing.contains("<title>1 ms, anticipate, median: 45 µs"),
        "{drawing}"
    );
    assert!(drawing.contains("break"), "{drawing}");
    for name in ["0", "300 µs", "1 ms", "100 ms"] {
        assert_eq!(
            drawing.matches(&format!(">{name}</text>")).count(),
            1,
            "{name}"
        );
    }
    assert!(
        html.contains("which regains 75 [75, 75]% of the difference"),
        "{html}"
    );
    assert!(html.contains("shallowest was left out"), "{html}");
}

#[test]
fn with_one_idle_time_the_policies_stand_side_by_side() {
    let mut bench = bench(None);
    bench.points = vec![Point::idle(IDLE_NS[2])];
    bench.rows.retain(|row| row.point == 2);
    bench.rows.iter_mut().for_each(|row| row.point = 0);
    bench.gains.clear();
    bench.turns.clear();
    let html = page_of(&bench);
    let mut places: Vec<&str> = html.split("<circle cx=\"").skip(1).collect();
    places
        .iter_mut()
        .for_each(|rest| *rest = rest.split('"').next().unwrap());
    places.sort_unstable();
    places.dedup();
    assert_eq!(places.len(), POLICIES.len(), "{places:?}");
    assert!(html.contains(">idle time after each</text>"), "{html}");
}

#[test]
fn power_has_its_own_panel_if_known() {
    let panels = |html: &str| html.matches("class=\"panel\"").count();
    assert_eq!(
        panels(&page_of(&bench(Some(3.0)))),
        panels(&page_of(&bench(None))) + 1
    );
}

#[test]
fn foreign_text_cannot_become_markup() {
    let html = page_of(&bench(None));
    for markup in [
        "<i>test",
        "<b>driver",
        "<u>",
        "<em>",
        "<s>",
        "<but>",
        "<note>",
    ] {
        assert!(!html.contains(markup), "{markup}");
    }
}

#[test]
fn a_benchmark_without_rounds_or_an_engine_still_makes_a_page() {
    let mut empty = bench(None);
    (empty.rows, empty.gains, empty.turns) = (vec![], vec![], vec![]);
    assert!(page_of(&empty).contains("No round was completed"));
    let mut without = bench(None);
    without.gains.clear();
    without.rows.retain(|row| row.policy != Policy::Anticipate);
    without.policies.pop();
    let html = page_of(&without);
    assert!(
        html.contains("55.5 µs at the median as is, 41.5 µs without sleep."),
        "{html}"
    );
    assert_eq!(html.matches("class=\"panel\"").count(), 2);
}

#[test]
fn several_results_are_side_by_side() {
    let mut series = bench(None);
    series.workload.kind = "accelerator".into();
    for (place, point) in series.points.iter_mut().enumerate() {
        *point = Point {
            name: format!("series {place}"),
            idle_ns: None,
        };
    }
    let html = page_of(&series);
    assert!(
        html.contains(">series 3</text>") && !html.contains("axis break"),
        "{html}"
    );
}

#[test]
fn a_file_that_is_no_benchmark_is_refused_in_one_line() {
    assert!(parse(b"[]").unwrap_err().contains("not a bench.json"));
    let mut newer = bench(None);
    newer.about.schema_version = 99;
    let why = parse(&serde_json::to_vec(&newer).unwrap()).unwrap_err();
    assert!(why.contains("version 99"), "{why}");
}

#[test]
fn polling_is_about_the_maximum_only_where_it_regains_most() {
    let polls = "A thread that polls for the completion of each read ";
    let maximum = ": about the maximum";
    // Anticipatory wake-up regains 75%.
    let with = |percent: f64| {
        let mut bench = bench(None);
        for place in 0..bench.gains.len() {
            let mut gain = bench.gains[place].clone();
            gain.policy = Policy::Poll;
            if let Some(median) = &mut gain.median.percent {
                median.estimate = percent;
                median.interval = Some((percent - 5.0, percent + 5.0));
            }
            bench.gains.push(gain);
        }
        bench
    };
    let most = page_of(&with(90.0));
    let words = format!("{polls}regains 90 [85, 95]% of the difference");
    assert!(most.contains(&words) && most.contains(maximum), "{most}");
    let less = page_of(&with(20.0));
    let words = format!("{polls}regains 20 [15, 25]% of the difference");
    assert!(less.contains(&words) && !less.contains(maximum), "{less}");
    let slower = page_of(&with(-30.0));
    let words = format!("{polls}is slower than as is and regains -30");
    assert!(
        slower.contains(&words) && !slower.contains(maximum),
        "{slower}"
    );
    // Without the engine's gain the idle time and the medians come first.
    let mut alone = with(90.0);
    alone.gains.retain(|gain| gain.policy == Policy::Poll);
    let html = page_of(&alone);
    let at = |words: &str| {
        html.find(words)
            .unwrap_or_else(|| panic!("{words}: {html}"))
    };
    assert!(at(" at the median as is, ") < at(polls));
}
