//! The page as shown to a reader.

#[path = "../../show/tests/policy/mod.rs"]
mod policy;
mod sample;

use reveille_figures::tail::Tail;
use reveille_results::description::{Ended, Probe};
use reveille_results::show::{self, Error, Input, Options, Views};
use reveille_results::{Columns, Filter, Loaded, NULL};
use reveille_show::page::is_page;
use reveille_show::sheet::not_in_json;
use reveille_show::web;
use sample::{bare_description, columns_of, server};

fn page(inputs: &[Input], options: &Options) -> show::Result<String> {
    let views = Views::of(inputs)?;
    Ok(web::page(&show::sheet(&views, options)))
}

fn page_of(results: impl IntoIterator<Item = Loaded>) -> String {
    let inputs: Vec<Input> = results
        .into_iter()
        .map(|loaded| Input::new(loaded).unwrap())
        .collect();
    page(&inputs, &Options::default()).unwrap()
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
    let html = page(&[input], &Options::default()).unwrap();
    for state in ["POLL", "C1", "C1E", "C6"] {
        assert!(
            html.contains(&format!("<h3>{state} · timer</h3>")),
            "{state}"
        );
    }
    assert!(html.contains("The driver&#39;s exit latency is exceeded by C1 (most wakes"));
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
    let options = Options {
        title: Some(HOSTILE.to_owned()),
        filter: Some(HOSTILE.to_owned()),
    };
    let other = server("other", 3_000, 2, 1.0);
    let inputs = [Input::new(loaded).unwrap(), Input::new(other).unwrap()];
    let html = page(&inputs, &options).unwrap();
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
    assert!(html.contains("This result has no datapoint"));
    let no_rows = of_latencies([]);
    assert!(page_of([no_rows]).contains("This result has no datapoint"));
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
    assert!(html.contains("These results were measured with different probes"));
    let same = page_of([server("one", 2_000, 1, 1.0), server("two", 2_000, 2, 1.0)]);
    assert!(!same.contains("These results were measured with different probes"));
}

#[test]
fn several_results_have_differences_and_their_significance() {
    let html = page_of([
        server("before", 9_000, 1, 1.0),
        server("after", 9_000, 2, 1.3),
    ]);
    assert!(html.contains("B: after against A: before"));
    assert!(html.contains("wakes beyond"));
    assert!(html.contains("C6 (timer): B is slower"));
    let table = html
        .split("Wake latency of B minus that of A")
        .last()
        .unwrap();
    assert!(table.contains("B slower than A"));
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
    assert!(same.contains("no difference that chance would not explain"));
}

#[test]
fn a_filter_selects_the_datapoints_of_the_statistics() {
    let loaded = server("one", 9_000, 1, 1.0);
    let filter = Filter::parse("requested_state == \"C6\"").unwrap();
    let input = Input::filtered(loaded.clone(), &filter).unwrap();
    let left = input.datapoints();
    assert!(left > 0 && left < 9_000);
    let options = Options {
        filter: Some(filter.to_string()),
        ..Options::default()
    };
    let html = page(&[input], &options).unwrap();
    assert!(html.contains("Only datapoints with requested_state == &quot;C6&quot;"));
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
    assert!(matches!(
        page(&[], &Options::default()),
        Err(Error::NoResult)
    ));
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
        "The median wake latency is 2.5 µs from C1 (700 datapoints). The driver gives no \
         exit latency to compare it with."
    );
    // If there is a driver's figure, the verdict is the main information.
    let html = page_of([server("one", 20_000, 1, 1.0)]);
    assert!(html.contains("class=\"headline\">The driver&#39;s exit latency"));
}

#[test]
fn every_column_is_a_field_of_the_json() {
    let input = Input::new(server("one", 40_000, 1, 1.0)).unwrap();
    let page = page(std::slice::from_ref(&input), &Options::default()).unwrap();
    assert!(page.contains("Beyond the data") && page.contains("no estimate beyond the data"));
    let mut description = server("one", 40_000, 1, 1.0).description;
    description.statistics = description.statistics_of(&server("one", 40_000, 1, 1.0).columns);
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
    loaded.description.statistics = loaded.description.statistics_of(&loaded.columns);
    loaded.description.ended = Ended::Disturbed("CPU 3 went offline".to_owned());
    let mut out = Vec::new();
    let sheet = show::summary(&loaded.description);
    reveille_show::text::write(&sheet, reveille_show::text::Detail::All, &mut out).unwrap();
    let text = reveille_show::terminal::plain(out);
    for part in [
        "CPU 3 of Example Xeon, made up for this page (rack7-node2)",
        "timer: 880 ns at the median, 1.24 µs at p99, in POLL, where nothing\n",
        "20,000 of 20,500 launched in",
        "ENDED early: CPU 3 went offline; what was gathered is kept",
        "datapoints are of 20,000 idle periods, and cpuidle counts 22,000 idle",
        "exceeded by most wakes",
        "1 wake in 100,000",
    ] {
        assert!(text.contains(part), "{part} is not in:\n{text}");
    }
}
