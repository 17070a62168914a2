//! The page as shown to a reader.

#[path = "../../show/tests/policy/mod.rs"]
mod policy;

use crate::sample::{self, bare_description, columns_of, server};
use reveille_figures::tail::Tail;
use reveille_results::description::{Ended, Probe};
use reveille_results::show::{self, Error, Input, Views};
use reveille_results::{Column, Columns, Filter, Loaded, NULL, Values};
use reveille_show::page::is_page;
use reveille_show::sheet::not_in_json;
use reveille_show::web;

fn page(inputs: &[Input], title: Option<&str>) -> show::Result<String> {
    let views = Views::of(inputs)?;
    Ok(web::page(&show::sheet(&views, title)))
}

fn page_of(results: impl IntoIterator<Item = Loaded>) -> String {
    let inputs: Vec<Input> = results
        .into_iter()
        .map(|loaded| Input::new(loaded).unwrap())
        .collect();
    page(&inputs, None).unwrap()
}

fn of_latencies(latencies: impl IntoIterator<Item = i64>) -> Loaded {
    Loaded {
        description: bare_description("small", Probe::Bpf),
        columns: columns_of("C1", "timer", latencies),
    }
}

/// The data that the page's script reads.
fn outliers(html: &str) -> serde_json::Value {
    let from = html.split("id=\"outliers\">").nth(1).unwrap();
    serde_json::from_str(from.split("</script>").next().unwrap()).unwrap()
}

#[test]
fn the_page_has_every_state_and_its_verdict() {
    let loaded = server("one", 20_000, 1, 1.0);
    let input = Input::new(loaded).unwrap();
    let html = page(&[input], None).unwrap();
    for state in ["POLL", "C1", "C1E", "C6"] {
        assert!(
            html.contains(&format!("<h3>{state} · timer</h3>")),
            "{state}"
        );
    }
    assert!(
        html.contains("the driver says 2, and most wakes take longer. So do wakes of C6 (1 in 2")
    );
    assert!(html.contains("exceeded by most wakes"));
    assert!(html.contains("driver 133 µs") && html.contains("floor 880 ns"));
    assert!(html.contains("PC6 residency against silent time"));
}

#[test]
fn the_page_fetches_nothing_and_forbids_it() {
    let html = page_of([server("one", 2_000, 1, 1.0), server("two", 2_000, 2, 1.1)]);
    let without_namespace = html.replace("http://www.w3.org/2000/svg", "");
    for outside in [
        "http:",
        "https:",
        "src=",
        "url(",
        "@import",
        "fetch(",
        "href=\"//",
    ] {
        assert!(!without_namespace.contains(outside), "{outside}");
    }
    assert!(html.contains("http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'"));
}

#[test]
fn hostile_names_remain_text() {
    const HOSTILE: &str = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&";
    let mut loaded = server("x", 3_000, 1, 1.0);
    loaded.description.name = HOSTILE.to_owned();
    loaded.description.tool = HOSTILE.to_owned();
    loaded.description.driver = Some(HOSTILE.to_owned());
    loaded.description.machine.hostname = Some(HOSTILE.to_owned());
    loaded.description.machine.kernel = Some(HOSTILE.to_owned());
    loaded.description.notes = vec![HOSTILE.to_owned()];
    loaded.description.ended = Ended::Disturbed(HOSTILE.to_owned());
    loaded.description.probe = Probe::Foreign;
    loaded
        .description
        .counts
        .dropped
        .insert(HOSTILE.to_owned(), 3);
    loaded.description.states[3].name = HOSTILE.to_owned();
    loaded.description.characterisation.floors[0].source = HOSTILE.to_owned();
    for column in &mut loaded.columns.columns {
        if column.name == "cc6_percent" {
            column.name = format!("{HOSTILE}_percent");
        }
        if let reveille_results::Values::Name { names, .. } = &mut column.values {
            names
                .iter_mut()
                .for_each(|name| *name = format!("{name}{HOSTILE}"));
        }
    }
    let other = server("other", 3_000, 2, 1.0);
    let inputs = [Input::new(loaded).unwrap(), Input::new(other).unwrap()];
    let html = page(&inputs, Some(HOSTILE)).unwrap();
    assert!(!html.contains("<img") && !html.contains("<script>alert"));
    assert!(!html.contains("\"'&"), "an attribute could be left");
    // The page's own two scripts, and no third.
    assert_eq!(html.matches("</script").count(), 2);
    assert_eq!(outliers(&html)[0]["title"], format!("A: {HOSTILE}"));
}

#[test]
fn the_page_has_exactly_the_datapoints_beyond_p99_9_with_all_fields() {
    // 2000 datapoints: two are beyond the 1998th.
    let html = page_of([of_latencies((1..=2000).map(|place| place * 10))]);
    let data = outliers(&html);
    assert_eq!(data[0]["count"], 2);
    let columns = data[0]["columns"].as_array().unwrap();
    let values = |name: &str| {
        let column = columns.iter().find(|column| column["name"] == name);
        column.map(|column| column["values"].clone())
    };
    assert_eq!(
        values("wake_latency_ns"),
        Some(serde_json::json!([19_990, 20_000]))
    );
    assert_eq!(values("source"), Some(serde_json::json!([0, 0])));
    // Unknown for every datapoint, so of no use to a reader.
    assert_eq!(values("requested_state_index"), None);
}

#[test]
fn each_density_counts_every_datapoint_with_its_quantity() {
    let mut loaded = server("one", 5_000, 1, 1.0);
    let silent = loaded
        .columns
        .columns
        .iter_mut()
        .find(|column| column.name == "silent_time_ns");
    let reveille_results::Values::Integer(values) = &mut silent.unwrap().values else {
        panic!()
    };
    values[..1_000].fill(NULL);
    let html = page_of([loaded]);
    assert!(
        html.contains("aria-label=\"Wake latency against silent time: density of 4,000 datapoints")
    );
    assert!(html.contains(
        "aria-label=\"Wake latency against launch distance: density of 5,000 datapoints"
    ));
}

#[test]
fn an_empty_result_is_reported_as_empty() {
    let description = bare_description("nothing", Probe::Bpf);
    let html = page_of([Loaded {
        description,
        columns: Columns::default(),
    }]);
    assert!(html.contains("No datapoints, no verdict."));
    let no_rows = of_latencies([]);
    assert!(page_of([no_rows]).contains("No datapoints, no verdict."));
}

#[test]
fn one_datapoint_and_extreme_values_are_drawn() {
    for latencies in [
        vec![5_000],
        vec![0],
        vec![-3],
        vec![i64::MAX, i64::MIN + 1, 1],
    ] {
        let html = page_of([of_latencies(latencies.clone())]);
        assert!(html.contains("C1 · timer"), "{latencies:?}");
        assert!(
            !html.contains("NaN") && !html.contains("inf\""),
            "{latencies:?}"
        );
        assert!(!html.contains("1 datapoints"), "{latencies:?}");
    }
}

#[test]
fn the_user_probes_additional_time_is_stated_and_missing_figures_are_not_drawn() {
    let mut loaded = server("user", 2_000, 1, 1.0);
    loaded.description.probe = Probe::User;
    loaded
        .columns
        .columns
        .retain(|column| column.name != "silent_time_ns" && !column.name.ends_with("_percent"));
    let html = page_of([loaded]);
    assert!(html.contains("as cyclictest does"));
    assert!(html.contains("Not drawn: no datapoint has a silent time"));
    assert!(html.contains("No residency was counted"));
}

#[test]
fn different_probes_are_compared_with_a_warning() {
    let mut user = server("two", 2_000, 2, 1.0);
    user.description.probe = Probe::User;
    let html = page_of([server("one", 2_000, 1, 1.0), user]);
    assert!(html.contains("Results of different probes: "));
    let same = page_of([server("one", 2_000, 1, 1.0), server("two", 2_000, 2, 1.0)]);
    assert!(!same.contains("Results of different probes: "));
}

#[test]
fn several_results_have_differences_and_their_significance() {
    let html = page_of([
        server("before", 9_000, 1, 1.0),
        server("after", 9_000, 2, 1.3),
    ]);
    let answer = html.split("class=\"headline\">").nth(1).unwrap();
    assert!(answer.starts_with("C6: after is "), "{answer:.200}");
    assert!(
        answer
            .split("</p>")
            .next()
            .unwrap()
            .contains(" slower at the median (")
    );
    assert!(html.contains("wakes beyond"));
    let table = html
        .split("Wake latency of B: after minus that of A: before")
        .last()
        .unwrap();
    assert!(table.contains("B slower<"));
    // A difference has its sign and its interval.
    let row = table
        .split("<th scope=\"row\" class=\"word\">C6</th>")
        .nth(1)
        .unwrap();
    assert_eq!(
        row.split("</tr>").next().unwrap().matches(">+").count(),
        2,
        "{row:.300}"
    );
    let same = page_of([of_latencies(0..500), of_latencies(0..500)]);
    assert!(same.contains("class=\"headline\">C1: no significant difference.</p>"));
}

#[test]
fn a_filter_selects_the_datapoints_of_the_statistics() {
    let loaded = server("one", 9_000, 1, 1.0);
    let filter = Filter::parse("requested_state == \"C6\"").unwrap();
    let input = Input::filtered(loaded.clone(), &filter).unwrap();
    let left = input.datapoints();
    assert!(left > 0 && left < 9_000);
    let summary = reveille_results::show::summary_of(&input);
    let start = "Of the datapoints that pass the filter: C6 wakes in ";
    assert!(summary.answer.starts_with(start), "{}", summary.answer);
    let note = format!("Only datapoints with {filter}: ");
    assert!(summary.notes[0].starts_with(&note), "{:?}", summary.notes);
    drop(summary);
    let html = page(&[input], None).unwrap();
    assert!(html.contains("Only datapoints with requested_state == &quot;C6&quot;: "));
    assert!(html.contains("class=\"headline\">Of the datapoints that pass the filter: C6 "));
    assert!(html.contains("<h3>C6 · timer</h3>") && !html.contains("<h3>C1 · timer</h3>"));

    let unknown = Filter::parse("requested_state == \"C6\" && pc10_percent > 1").unwrap();
    assert!(matches!(
        Input::filtered(loaded, &unknown),
        Err(Error::Filter(_))
    ));
}

#[test]
fn a_damaged_result_is_refused_with_a_message() {
    let mut uneven = of_latencies(0..10);
    uneven.columns.rows = 11;
    let error = Input::new(uneven).unwrap_err().to_string();
    assert!(error.contains("10 values for 11 datapoints"), "{error}");
    let mut blind = of_latencies(0..10);
    blind
        .columns
        .columns
        .retain(|column| column.name != "wake_latency_ns");
    assert!(matches!(Input::new(blind), Err(Error::NoLatency)));
    assert!(matches!(page(&[], None), Err(Error::NoResult)));
}

#[test]
fn equal_results_give_equal_pages_that_are_recognized() {
    let results = || [server("one", 3_000, 1, 1.0)];
    let html = page_of(results());
    assert_eq!(html, page_of(results()));
    assert!(is_page(&html[..2_000]));
    assert!(!is_page("<!doctype html><title>somebody's</title>"));
}

#[test]
fn a_typical_page_is_smaller_than_a_mebibyte() {
    assert!(page_of([server("typical", 20_000, 1, 1.0)]).len() < 1 << 20);
}

#[test]
fn the_policy_allows_only_the_pages_own_script_and_style() {
    policy::check(&page_of([server("one", 2_000, 1, 1.0)]), 1);
}

#[test]
fn without_driver_figures_the_page_starts_with_the_medians() {
    let mut loaded = of_latencies(std::iter::repeat_n(2_500, 600).chain([9_000; 100]));
    loaded.description.probe = Probe::Foreign;
    loaded.description.tool = "wult 1.12.65".to_owned();
    let html = page_of([loaded]);
    let headline = html.split("class=\"headline\">").nth(1).unwrap();
    let headline = headline.split("</p>").next().unwrap();
    assert_eq!(
        headline,
        "C1 wakes in 2.5 µs at the median of 700 wakes; the driver gives no figure."
    );
}

/// The places of these texts, each after the one before.
fn assert_order(html: &str, texts: &[&str]) {
    let mut rest = html;
    for text in texts {
        let at = rest.find(text);
        rest = &rest[at.unwrap_or_else(|| panic!("{text} is not in its place"))..];
    }
}

#[test]
fn the_page_leads_with_the_answer_its_chart_and_the_verdicts() {
    let mut loaded = server("one", 20_000, 1, 1.0);
    loaded.description.notes = vec!["A note.".to_owned()];
    loaded.description.ended = Ended::Disturbed("CPU 3 went offline".to_owned());
    let html = page_of([loaded]);
    assert_order(
        &html,
        &[
            "class=\"headline\">C1 wakes in",
            "CPU 3 went offline",
            "class=\"lead\"",
            // What exceeds the driver's figure is thick, and said in the colour of the verdict.
            "C6: 133 µs</text>",
            "class=\"curve beyond-limit c2\"",
            "<b>C1</b>",
            "<span class=\"bad\">the driver says 2, and most wakes take longer</span>",
            "<b>C6</b>",
            "<b>POLL</b>",
            "exceeded by most wakes",
            "A note.",
            "<dt>Measured</dt>",
            "All datapoints",
        ],
    );
    // It is drawn once.
    assert_eq!(html.matches("exceedance, by state").count(), 1);
}

#[test]
fn several_results_are_overlaid_state_by_state() {
    let rows = |slow| server("x", 20_000, 7, slow);
    let mut results = [rows(1.0), rows(1.0), rows(1.4)];
    for (place, result) in results.iter_mut().enumerate() {
        result.description.name = format!("run {place}");
    }
    let html = page_of(results);
    let lead = html.split("<section id=\"summary\"").nth(1).unwrap();
    let lead = lead.split("</section>").next().unwrap();
    assert_eq!(lead.matches("<svg class=\"plot\"").count(), 4);
    for (place, title) in ["A: run 0", "B: run 1", "C: run 2"].iter().enumerate() {
        assert!(lead.contains(title));
        // A line in the legend, and a curve in each chart; the same dash is the same result.
        assert_eq!(
            lead.matches(&format!("dash{place}\"")).count(),
            5,
            "{title}"
        );
    }
    // The same colour is the same state, and the largest difference comes first.
    let first = lead.split("<figure>").nth(1).unwrap();
    assert!(
        first.contains("C6: C +") && first.contains("at the median; B: no significant difference")
    );
    assert_eq!(first.matches("class=\"curve c4 dash").count(), 3);
    assert_eq!(
        first.matches("class=\"mark").count(),
        1,
        "one driver's figure"
    );
    assert!(html.contains(
        "class=\"headline\">Against run 0: run 1 does not differ significantly; run 2 is "
    ));
    let seven = (0..7).map(|seed| server("x", 3_000, seed + 1, 1.0));
    assert!(page_of(seven).contains("Not drawn here: 1 more result;"));
}

#[test]
fn a_note_of_several_results_is_printed_once_and_names_them() {
    let of = |name: &str, notes: &[&str]| {
        let mut one = server(name, 2_000, 1, 1.0);
        one.description.notes = notes.iter().map(|note| (*note).to_owned()).collect();
        one
    };
    let mut other_kernel = of("third", &["Shared."]);
    other_kernel.description.machine.kernel = None;
    let html = page_of([
        of("first", &["Shared.", "Own."]),
        of("second", &["Shared."]),
        other_kernel,
    ]);
    assert_eq!(html.matches("A, B and C: Shared.").count(), 1);
    assert_eq!(html.matches("Shared.").count(), 1);
    assert!(html.contains("A: Own."));
    assert!(html.contains("The kernels differ: 6.12.0-example (A and B) and unknown (C)."));
    let [_, all, _] = as_text([of("first", &[]), of("second", &[])]);
    assert_eq!(all.matches("A and B: POLL (timer): no estimate").count(), 1);
    let wult = |tool: &str| {
        let mut one = of("x", &[]);
        one.description.probe = Probe::Foreign;
        one.description.tool = tool.to_owned();
        one
    };
    let html = page_of([wult("wult 1.12"), wult("wult 1.13")]);
    assert!(html.contains("The tools differ: wult 1.12 (A) and wult 1.13 (B)."));
    let same = page_of([wult("wult 1.12"), wult("wult 1.12")]);
    assert!(!same.contains(" differ:") && same.contains("A and B: Measured by another tool"));
}

#[test]
fn a_single_datapoint_is_a_point() {
    let html = page_of([of_latencies([5_000])]);
    let lead = html.split("<section id=\"summary\"").nth(1).unwrap();
    let lead = lead.split("</section>").next().unwrap();
    assert!(lead.contains("<circle class=\"single c1\"") && lead.contains(">C1</text>"));
    assert!(!html.contains("NaN"));
}

#[test]
fn names_that_are_not_their_own_are_letters_in_the_answer() {
    let answer = |names: [&str; 2]| {
        let html = page_of([
            server(names[0], 9_000, 1, 1.0),
            server(names[1], 9_000, 2, 1.3),
        ]);
        let answer = html.split("class=\"headline\">").nth(1).unwrap();
        answer.split("</p>").next().unwrap().to_owned()
    };
    assert!(answer(["a", "b"]).starts_with("C6: b is "));
    assert!(answer(["a", "a"]).starts_with("C6: B is "));
    assert!(answer(["a", ""]).starts_with("C6: B is "));
    assert!(answer(["a", &"b".repeat(25)]).starts_with("C6: B is "));
}

/// As text within 80 columns, as text in full, and as Markdown.
fn as_text(results: impl IntoIterator<Item = Loaded>) -> [String; 3] {
    use reveille_show::text::{self, Detail};
    let inputs: Vec<Input> = results
        .into_iter()
        .map(|one| Input::new(one).unwrap())
        .collect();
    let views = Views::of(&inputs).unwrap();
    let sheet = show::sheet(&views, None);
    let of = |detail| {
        let mut out = Vec::new();
        text::write(&sheet, detail, &mut out).unwrap();
        reveille_show::terminal::plain(out)
    };
    [
        of(Detail::Short),
        of(Detail::All),
        reveille_show::markdown::markdown(&sheet),
    ]
}

#[test]
fn one_result_as_text_is_its_subject_the_verdicts_and_the_answer() {
    let [short, all, markdown] = as_text([server("one", 20_000, 1, 1.0)]);
    assert_eq!(
        short,
        "\
Measured  one: CPU 3 of Example Xeon, made up for this page (rack7-node2),
          20,000 datapoints

state  verdict                 exit   count  median   p99   max
                                 µs              µs    µs    µs
POLL   no figure                  0   1,569    0.90  1.01  20.8
C1     exceeded by most wakes     2   2,837    2.63  3.33  3.60
C1E    exceeded by 1 in 1,469    10   4,406    7.30  9.50  30.9
C6     exceeded by 1 in 2       133  11,188     103   155   165

--all shows all facts and tables

C1 wakes in 2.63 µs at the median, 3.33 at p99; the driver says 2, and most
wakes take longer. So do wakes of C6 (1 in 2: 103 µs, p99 155, driver 133) and
C1E (1 in 1,469: 7.3 µs, p99 9.49, driver 10).
"
    );
    for part in [
        "above floor",
        "Machine and settings:",
        "POLL (timer): no estimate beyond",
    ] {
        assert!(all.contains(part) && !short.contains(part), "{part}");
    }
    assert!(markdown.starts_with("## Wake latency: one\n\n**C1 wakes in 2.63 µs"));
    assert!(markdown.contains("\n### By idle state\n\n| state | source | verdict | exit, µs |"));
    assert!(
        !markdown.contains("Shades count"),
        "no words about charts without charts"
    );
}

#[test]
fn two_results_as_text_are_told_apart_and_their_difference_is_last() {
    let [short, all, markdown] = as_text([
        server("before", 20_000, 1, 1.0),
        server("after", 20_000, 2, 0.92),
    ]);
    assert!(
        short.lines().all(|line| line.chars().count() <= 80),
        "{short}"
    );
    for part in [
        "Measured  A: before: CPU 3",
        "Measured  B: after: CPU 3",
        "result  state  verdict",
        "median, B-A",
        "C6     -8246 [-9135, -7373]",
    ] {
        assert!(short.contains(part), "{part} is not in:\n{short}");
    }
    assert!(
        short.ends_with(
            "\
C6: after is 8.25 µs [7.37, 9.13] faster at the median (94.5 against 103); C1E:
after is 591 ns [567, 611] faster at the median (6.71 µs against 7.3); C1 and
POLL: after is faster, too.
"
        ),
        "{short}"
    );
    assert!(all.contains("Brunner and Munzel's") || all.contains("Brunner\nand Munzel's"));
    assert!(all.contains("\nB: Idle states of the measured CPU:\n"));
    assert!(markdown.contains("**C6: after is 8.25 µs"));
    assert!(markdown.contains("\nB: Idle states of the measured CPU:\n\n| state |"));
}

#[test]
fn what_cannot_be_compared_is_not_said_to_be_alike() {
    let few = || of_latencies(0..9);
    let answer = |results: Vec<Loaded>| as_text(results)[0].lines().last().unwrap().to_owned();
    assert!(as_text([few(), few()])[0].ends_with(
        "No state can be compared: a comparison needs 10 wakes of the state in both\nresults.\n"
    ));
    let with = |state: &str| Loaded {
        description: bare_description(state, Probe::Bpf),
        columns: columns_of(state, "timer", 0..500),
    };
    let both = |other: &str| {
        let rows = |state: &'static str| {
            (0..500).map(move |latency| sample::Row {
                state,
                index: NULL,
                source: "timer",
                latency,
            })
        };
        let mut rows: Vec<_> = rows("C1").chain(rows("C6")).collect();
        rows.truncate(if other == "few" { 503 } else { 1000 });
        Loaded {
            description: bare_description(other, Probe::Bpf),
            columns: sample::columns_of_rows(&rows),
        }
    };
    assert_eq!(
        answer(vec![with("C1"), both("few")]),
        "C1: no significant difference; C6: too few wakes to compare."
    );
    let [empty, ..] = as_text([with("C1"), of_latencies([])]);
    assert!(
        empty.contains("No datapoints in B: small. No state can be compared"),
        "{empty}"
    );
}

/// Of every hundred datapoints the second half is of this source; they are a round.
fn take_turns(columns: &mut Columns, second: &str) {
    let rows = columns.rows;
    for column in &mut columns.columns {
        if column.name == "source" {
            column.values = Values::Name {
                codes: (0..rows).map(|row| (row / 50 % 2) as u8).collect(),
                names: vec!["timer".to_owned(), second.to_owned()],
            };
        }
    }
    columns.columns.push(Column {
        name: "round".to_owned(),
        values: Values::Integer((0..rows).map(|row| row as i64 / 100).collect()),
    });
}

#[test]
fn sources_that_took_turns_are_compared_on_the_page_and_in_the_summary() {
    let mut loaded = server("one", 40_000, 1, 1.0);
    take_turns(&mut loaded.columns, "hpet");
    loaded.description.settings.sources.push("hpet".to_owned());
    let text = on_a_terminal(&loaded);
    let section = "Sources against each other";
    assert!(text.contains(section), "{text}");
    let words = "C6: no difference between timer and hpet found; one of more than";
    assert!(text.contains(words), "{text}");
    let input = Input::new(loaded.clone()).unwrap();
    let page = page(std::slice::from_ref(&input), None).unwrap();
    assert_eq!(page.matches(words).count(), 1);
    assert!(page.contains(section));
    // Datapoints that a filter keeps are compared anew.
    let filter = Filter::parse("requested_state == \"C1\"").unwrap();
    let filtered = Input::filtered(loaded, &filter).unwrap();
    let differences = &filtered.description().source_differences;
    assert!(
        differences.iter().all(|one| one.state == "C1"),
        "{differences:?}"
    );
    let one = Input::new(server("one", 40_000, 1, 1.0)).unwrap();
    assert!(one.description().source_differences.is_empty());
}

#[test]
fn every_column_is_a_field_of_the_json() {
    let input = Input::new(server("one", 40_000, 1, 1.0)).unwrap();
    let page = page(std::slice::from_ref(&input), None).unwrap();
    assert!(page.contains("Beyond the data") && page.contains("no estimate beyond the data"));
    let Loaded {
        mut description,
        mut columns,
    } = server("one", 40_000, 1, 1.0);
    // Every other round is of another source.
    take_turns(&mut columns, "remote");
    description.settings.sources.push("remote".to_owned());
    let floors = &mut description.characterisation.floors;
    floors[0].medians_ns = (0..12).map(|round| Some(880 + round)).collect();
    let mut remote = floors[0].clone();
    remote.source = "remote".to_owned();
    floors.push(remote);
    description.conclude(&columns);
    // Some states have no driver figure, some no estimate of the tail.
    description
        .statistics
        .retain(|one| one.exceedance.is_some() && matches!(one.tail, Tail::Estimated(_)));
    let json = serde_json::to_value(&description).unwrap();
    for (list, headings) in show::reference() {
        assert_eq!(not_in_json(&json, list, &headings), [""; 0], "{list}");
    }
}

#[test]
fn the_summary_of_a_run_needs_no_datapoints() {
    let mut loaded = server("one", 20_000, 1, 1.0);
    loaded.description.conclude(&loaded.columns);
    loaded.description.ended = Ended::Disturbed("CPU 3 went offline".to_owned());
    let mut out = Vec::new();
    let sheet = show::summary(&loaded.description);
    reveille_show::text::write(&sheet, reveille_show::text::Detail::All, &mut out).unwrap();
    let text = reveille_show::terminal::plain(out);
    for part in [
        "CPU 3 of Example Xeon, made up for this page (rack7-node2)",
        "timer: 880 ns at the median, 1.24 µs at p99, in POLL, where nothing\n",
        "20,000 valid of 20,500 attempts in",
        "ENDED early: CPU 3 went offline; results so far are kept",
        "datapoints are of 20,000 idle periods, and cpuidle counts 22,000 idle",
        "exceeded by most wakes",
        "1 wake in 100,000",
    ] {
        assert!(text.contains(part), "{part} is not in:\n{text}");
    }
}

/// The summary as a terminal shows it, with the facts that decide and those of `measure`.
fn on_a_terminal(loaded: &Loaded) -> String {
    let mut description = loaded.description.clone();
    description.conclude(&loaded.columns);
    let mut sheet = show::summary(&description);
    let words: Vec<&str> = sheet.facts.iter().map(|(word, _)| *word).collect();
    assert_eq!(words[..2], ["Measured", "Wake-ups"]);
    sheet.facts.truncate(2);
    sheet.fact("Result", "reveille-results/rack7-node2-2026-03-01T12-00-00");
    sheet.fact(
        "Report",
        "reveille-results/rack7-node2-2026-03-01T12-00-00/report.html",
    );
    let mut out = Vec::new();
    reveille_show::text::write(&sheet, reveille_show::text::Detail::Short, &mut out).unwrap();
    reveille_show::terminal::plain(out)
}

#[test]
fn the_summary_of_four_states_fits_a_terminal_of_80_by_24() {
    let mut loaded = server("one", 20_000, 1, 1.0);
    loaded.description.notes = vec![
        "CPU 3 was not idle at 2993 of 3298 launches: something else runs on it, and what is left may \
         not be typical"
            .to_owned(),
    ];
    let text = on_a_terminal(&loaded);
    // The prompt needs a line, too.
    assert!(text.lines().count() < 24, "{text}");
    let mut virtual_machine = of_latencies([]);
    let latencies = (0..120_000).map(|place| if place < 11 { 90_000 } else { 24_500 });
    virtual_machine.columns = columns_of("haltpoll idle", "timer", latencies);
    virtual_machine.description.states = vec![
        serde_json::from_value(serde_json::json!({
            "index": 1, "name": "haltpoll idle", "description": "", "exit_latency_us": 30,
            "target_residency_us": 1, "disabled": false,
        }))
        .unwrap(),
    ];
    for text in [text, on_a_terminal(&virtual_machine)] {
        assert!(
            text.lines().all(|line| line.chars().count() <= 80),
            "{text}"
        );
    }
}
