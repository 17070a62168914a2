//! The analysis as shown to a reader: the page, and the columns of its tables.

#[path = "../../show/tests/policy/mod.rs"]
mod policy;

use std::sync::Arc;

use crate::generator::kernel::{self, Threads};
use crate::generator::machine::{Draw, Machine};
use reveille_resume::analysis::{
    Analysis, Input, LinkKind, Question, Source, analyse, inputs, read,
};
use reveille_resume::cycle::{Cycle, Failure, Us};
use reveille_resume::power::Meter;
use reveille_resume::show;
use reveille_resume::what_if::Change;
use reveille_show::page::is_page;
use reveille_show::text::{self, Detail};
use reveille_show::{sheet, terminal, web};
use reveille_snapshot::snapshot;

fn cycles(seed: u64, devices: usize, count: usize) -> Vec<Cycle> {
    let machine = Machine::draw(seed, &Draw::fully_logged(devices..=devices));
    let mut threads = Threads::default();
    let mut at = 100_000_000;
    let mut cycles = Vec::new();
    for number in 1..=count {
        let truth = kernel::run(&machine, at, &mut threads);
        at = truth.end() + 5_000_000;
        cycles.push(truth.cycle(&machine, number));
    }
    cycles
}

fn input(name: &str, cycles: Vec<Cycle>) -> Input {
    Input {
        name: name.to_owned(),
        source: Source::default(),
        cycles,
        notes: Vec::new(),
        ..Input::default()
    }
}

fn analysis(cycles: Vec<Cycle>, question: &Question) -> Analysis {
    analyse(vec![input("laptop", cycles)], question).unwrap()
}

fn page(analysis: &Analysis) -> String {
    web::page(&show::sheet(analysis, None))
}

/// How often the words are in the page.
fn times(html: &str, words: &str) -> usize {
    html.matches(words).count()
}

#[test]
fn a_page_has_a_row_for_each_of_the_slowest_devices_and_a_bar_for_each_of_their_calls() {
    let analysis = analysis(cycles(1, 200, 1), &Question::default());
    let html = web::page(&show::sheet(&analysis, Some(7)));
    assert!(is_page(&html[..2_000]));
    let resume = html
        .split("<h2>Timeline of the resume</h2>")
        .nth(1)
        .unwrap();
    let resume = resume.split("</section>").next().unwrap();
    let cycle = analysis.machines[0].shown();
    let path = cycle.path.iter().filter_map(|link| link.device.as_deref());
    let path: std::collections::HashSet<&str> = path.collect();
    let rows = times(resume, "<text class=\"row\"");
    // The stages, the CPUs and seven devices; additionally at most those of the path.
    assert!((8..=9 + path.len()).contains(&rows), "{rows}");
    let slowest = &analysis.machines[0].devices[0].device;
    assert!(resume.contains(&format!("<title>{slowest}\n")), "{slowest}");
    assert!(resume.contains("class=\"critical\" d=\"M"));
}

#[test]
fn path_and_headline_have_the_analysis_figures() {
    let mut cycles = cycles(2, 30, 1);
    cycles[0].asleep_us = Some(21_500_000);
    let html = page(&analysis(cycles, &Question::default()));
    assert!(html.contains("<dt>Asleep</dt><dd>21.5 s</dd>"));
    assert!(html.contains("critical path of the resume"));
    assert!(html.contains("Starts and returns, bins"));
    // Nothing was changed, so there is no staircase; and no power meter.
    assert!(!html.contains("as measured") && !html.contains("<h2>Power</h2>"));
}

/// By the steps of removals, which look at the path anew after each: what is next is on that path.
#[test]
fn the_answer_names_the_longest_call_and_what_is_next_without_it() {
    let log = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/logs/6.12-dmesg.txt");
    let of = |changes: Vec<Change>| {
        let question = Question {
            changes,
            ..Question::default()
        };
        let logs = [std::path::PathBuf::from(log)];
        analyse(inputs(&logs, &[]).unwrap(), &question).unwrap()
    };
    let removed = |name: &str| Change::without(name).unwrap();
    let (plain, without) = (of(Vec::new()), of(vec![removed("2-3")]));
    let path = &without.machines[0].what_if.as_ref().unwrap().path;
    let calls = path.iter().filter(|link| link.what == LinkKind::Call);
    let longest = calls.max_by_key(|link| link.duration_us).unwrap();
    assert_eq!(longest.device.as_deref(), Some("1-1"));
    let changes = [
        vec![removed("2-3")],
        vec![removed("2-3"), removed("1-1")],
        vec![removed("00:05")],
        vec![Change::set("2-3=884ms").unwrap()],
        vec![Change::set("2-3=886ms").unwrap()],
    ];
    let mut said = vec![("[]".to_owned(), show::sheet(&plain, None).answer)];
    said.extend(changes.map(|changes| {
        let answer = show::sheet(&of(changes.clone()), None).answer;
        (format!("{changes:?}"), answer)
    }));
    snapshot!("answers", said);
}

#[test]
fn a_terminal_has_the_answer_within_a_screen_and_the_suspend_in_words() {
    let log = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/logs/6.12-dmesg.txt");
    let logs = [std::path::PathBuf::from(log)];
    let analysis = analyse(inputs(&logs, &[]).unwrap(), &Question::default()).unwrap();
    let written = |top: Option<usize>, detail| {
        let mut out = Vec::new();
        text::write(&show::sheet(&analysis, top), detail, &mut out).unwrap();
        terminal::plain(out)
    };
    let short = written(None, Detail::Short);
    assert!(short.contains("path of the suspend takes 634 ms"));
    assert!(!short.contains("Slowest devices in the suspend"));
    for whole in [written(None, Detail::All), written(Some(3), Detail::Short)] {
        assert!(whole.contains("Slowest devices in the suspend"));
    }
}

#[test]
fn what_ifs_are_a_staircase() {
    let cycles = cycles(3, 60, 1);
    let plain = analysis(cycles.clone(), &Question::default());
    let best = &plain.machines[0].removals[0];
    let question = Question {
        changes: vec![Change::without(&best.device).unwrap()],
        steps: 2,
        ..Question::default()
    };
    let html = page(&analysis(cycles, &question));
    assert!(html.contains("as measured"));
    assert!(
        html.contains(&format!(">without {}<", best.device)),
        "{}",
        best.device
    );
    assert!(html.contains(&format!("<p>without {}: removes ", best.device)));
    assert!(html.contains("the resume takes "));
}

#[test]
fn a_page_of_two_hundred_cycles_stays_small() {
    let cycle = cycles(4, 80, 1).remove(0);
    let cycles = (1..=200).map(|number| Cycle {
        number,
        ..cycle.clone()
    });
    let html = page(&analysis(cycles.collect(), &Question::default()));
    assert!(html.len() < 1_000_000, "{} bytes", html.len());
    assert!(html.contains("<dt>Cycle</dt><dd>1 of 200"));
    assert_eq!(times(&html, "<circle "), 400);
}

#[test]
fn machines_are_side_by_side() {
    let inputs = vec![
        input("before", cycles(5, 20, 2)),
        input("after <b>", cycles(5, 20, 3)),
    ];
    let analysis = analyse(inputs, &Question::default()).unwrap();
    let html = page(&analysis);
    assert!(html.contains("<h2>Machines, medians of all"));
    assert!(html.contains(": before, after &lt;b&gt;"));
    assert_eq!(times(&html, "<h3>Timeline of the resume</h3>"), 2);
}

#[test]
fn the_policy_allows_both_scripts_of_the_page() {
    let analysis = analysis(cycles(5, 20, 2), &Question::default());
    policy::check(&page(&analysis), 2);
}

#[test]
fn names_and_messages_from_logs_do_not_become_markup() {
    let mut cycles = cycles(6, 10, 1);
    for call in &mut cycles[0].calls {
        call.device = Arc::from("<script>alert('d')</script>");
        call.driver = Some(Arc::from("\"><img src=x>"));
        call.function = Some(Arc::from("</title><b>"));
    }
    cycles[0].calls[0].result = Some(-16);
    cycles[0].failures.push(Failure {
        device: Some(Arc::from("<i>")),
        message: "</p><script>alert('m')</script>".to_owned(),
        ..Failure::default()
    });
    cycles[0].at = Some("<u>".to_owned());
    let question = Question {
        changes: vec![Change::without("<*").unwrap()],
        steps: 1,
        ..Question::default()
    };
    let html = page(&analysis(cycles, &question));
    for markup in ["<script>alert", "<img", "</title><b>", "<i>:", "<u>"] {
        assert!(!html.contains(markup), "{markup}");
    }
    assert!(html.contains("returned -16") && html.contains("role=\"alert\""));
}

#[test]
fn power_is_drawn_with_the_time_asleep() {
    let mut cycles = cycles(7, 10, 1);
    cycles[0].asleep_us = Some(20_000_000);
    let lines: String = (0..60)
        .map(|second| {
            format!(
                "{second},{}\n",
                if (15..30).contains(&second) { 5 } else { 130 }
            )
        })
        .collect();
    let question = Question {
        meter: Some(Meter::parse(format!("s,W\n{lines}").as_bytes()).unwrap()),
        meter_offset_us: Some(10_000_000),
        ..Question::default()
    };
    let analysis = analysis(cycles, &question);
    let html = page(&analysis);
    assert!(html.contains("<h2>Power</h2>") && html.contains("by --power-offset"));
    assert!(html.contains("<g class=\"asleep\"><rect "));
    let json = serde_json::to_vec(&analysis).unwrap();
    assert_eq!(page(&read(&json).unwrap()), html);
}

#[test]
fn a_file_that_is_no_analysis_is_reported_in_one_line() {
    let error = read(b"{}").unwrap_err();
    assert!(error.contains("is not an analysis"), "{error}");
}

/// Browsers truncate lengths above 2^25 units: a call of a minute was cut.
#[test]
fn a_chart_of_a_minute_has_no_length_that_a_browser_truncates() {
    let mut cycle = cycles(1, 30, 1).remove(0);
    let last = cycle.stages.len() - 1;
    cycle.stages[last].end += 65_000_000;
    let html = page(&analysis(vec![cycle], &Question::default()));
    let mut widest: f64 = 0.0;
    for svg in html.split("<svg ").skip(1) {
        let svg = svg.split("</svg>").next().unwrap();
        for name in [" x=\"", " width=\"", " y=\"", " height=\"", " cx=\"", "H"] {
            for value in svg.split(name).skip(1) {
                let digits: String = value
                    .chars()
                    .take_while(|one| one.is_ascii_digit() || *one == '.')
                    .collect();
                widest = widest.max(digits.parse().unwrap_or(0.0));
            }
        }
    }
    assert!((900_000.0..=1_000_000.0).contains(&widest), "{widest}");
}

#[test]
fn stamps_of_whole_seconds_draw_no_chart_of_a_shorter_resume() {
    let page_of = |resolution_us: Us| {
        let mut cycles = cycles(3, 20, 1);
        cycles[0].resolution_us = resolution_us;
        page(&analysis(cycles, &Question::default()))
    };
    let (fine, coarse) = (page_of(1), page_of(100_000_000));
    for words in ["Timeline of the resume", "When calls start and return"] {
        assert!(fine.contains(words), "{words}");
        assert!(!coarse.contains(words), "{words}");
    }
    assert!(coarse.contains("took less than 3 min 20 s"));
}

#[test]
fn every_column_is_a_field_of_the_json_or_calculated_from_it() {
    let mut cycles = cycles(7, 10, 1);
    cycles[0].asleep_us = Some(20_000_000);
    let lines: String = (0..60).map(|second| format!("{second},130\n")).collect();
    let best = analysis(cycles.clone(), &Question::default()).machines[0].removals[0].clone();
    let question = Question {
        changes: vec![Change::without(&best.device).unwrap()],
        meter: Some(Meter::parse(format!("s,W\n{lines}").as_bytes()).unwrap()),
        meter_offset_us: Some(10_000_000),
        ..Question::default()
    };
    let json = serde_json::to_value(analysis(cycles, &question)).unwrap();
    for (list, headings) in show::reference() {
        let calculated: &[&str] = match list {
            "machines[]" => &["changed_us"],
            "machines[].cycles[].stages[]" => &["begins_us"],
            "machines[].cycles[].path[]" => &["at_us", "share"],
            "machines[].power.resume" => &["when", "of_idle"],
            _ => &[],
        };
        let missing = sheet::not_in_json(&json, list, &headings);
        assert_eq!(missing, calculated, "{list}");
    }
}
