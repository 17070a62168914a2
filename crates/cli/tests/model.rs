//! `reveille model` as a user meets it.

use std::io::Write;
use std::path::Path;
use std::process::Stdio;

use crate::program::{as_nobody, reveille, run};
use reveille_results::{Datapoint, First, ResultFolder, Source, WokenBy};
use serde_json::{Value, json};

const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/example/model.toml");

fn text(arguments: &[&str]) -> String {
    let output = reveille().arg("model").args(arguments).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {stderr}");
    String::from_utf8(output.stdout).unwrap()
}

fn read(arguments: &[&str]) -> Value {
    serde_json::from_str(&text(arguments)).unwrap()
}

/// The one line that reports a usage error.
fn refused(arguments: &[&str]) -> String {
    ended(arguments, 2)
}

/// The one line that reports the content of a file.
fn unread(arguments: &[&str]) -> String {
    ended(arguments, 1)
}

fn ended(arguments: &[&str], code: i32) -> String {
    let ended = run(reveille().arg("model").args(arguments));
    assert_eq!(ended.code, code, "{arguments:?}: {}", ended.stderr);
    assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
    ended.stderr
}

#[test]
fn text_and_json_report_the_same_point() {
    let all = read(&["run", "--utilisation", "0.5", "--json"]);
    // M/M/1 with 38 ms of service: 76 ms.
    let response = all["always_on"]["response_mean_s"].as_f64().unwrap();
    assert!((response - 0.076).abs() < 1e-9);
    assert_eq!(all["exact_for"], "poisson_arrivals");
    assert_eq!(all["parameters"]["service"]["mean_s"], 0.038);
    let names = all["parameters"]["policies"].as_array().unwrap();
    assert_eq!(all, read(&["run", "--utilisation", "50%", "--json"]));
    let shown = text(&["run", "--utilisation", "0.5"]);
    for (named, compared) in names.iter().zip(all["policies"].as_array().unwrap()) {
        let name = named["name"].as_str().unwrap();
        let line = shown.lines().find(|line| line.starts_with(name)).unwrap();
        let power = compared["power_mean_w"].as_f64().unwrap();
        let cell = reveille_show::quantity::aligned(power);
        assert!(line.contains(&format!(" {cell} ")), "{line}: {power}");
    }
    assert!(
        shown.lines().all(|line| line.chars().count() <= 80),
        "{shown}"
    );
}

#[test]
fn a_sweep_calculates_a_farm_at_the_requested_load() {
    let farm = [
        "--servers",
        "1000",
        "--price",
        "0.2",
        "--utilisation",
        "0.2",
    ];
    let run = text(&[&["run"], &farm[..]].concat());
    let sweep = text(&[&["sweep"], &farm[..]].concat());
    let year = |shown: &str| {
        let from = &shown[shown.find("In a year").unwrap()..];
        from[..from.find("\n\n").unwrap()].to_owned()
    };
    assert_eq!(year(&run), year(&sweep));
    assert!(year(&run).starts_with("In a year, 1000 servers at 20% load\n"));
    let all = read(&[&["sweep", "--json"], &farm[..]].concat());
    assert_eq!(all["years"].as_array().unwrap().len(), 6);
    // Without a question or a farm a single load gives no answer.
    assert!(refused(&["sweep", "--utilisation", "0.2"]).contains("model run"));
}

#[test]
fn a_page_on_standard_output_is_the_only_output_there() {
    let page = text(&["sweep", "--out", "-"]);
    assert!(page.starts_with("<!doctype html>") && page.trim_end().ends_with("</html>"));
    for other in ["--json", "--csv", "--markdown"] {
        assert!(refused(&["sweep", "--out", "-", other]).contains(other));
    }
}

#[test]
fn sentences_keep_to_80_columns() {
    let question = [
        "--largest-transition",
        "nap 50 ms",
        "DVFS",
        "--best-timeout",
    ];
    let budget = ["nap 650 ms", "--budget", "2s", "--utilisation", "0.1"];
    let shown = text(&[&["sweep"], &question[..], &budget[..]].concat());
    let words = shown.replace('\n', " ");
    assert!(words.contains("napping draws less than DVFS"), "{shown}");
    assert!(words.contains("needs no timeout"), "{shown}");
    for line in shown.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
}

#[test]
fn a_simulation_agrees_with_the_closed_form_beside_it() {
    let all = read(&["run", "--utilisation", "0.3", "--json"]);
    let rows = all["simulated"].as_array().unwrap();
    assert_eq!(rows.len(), 6);
    let closed = all["policies"][1]["power_mean_w"].as_f64().unwrap();
    let simulated = rows[2]["simulated"]["power_mean_w"]["value"]
        .as_f64()
        .unwrap();
    assert!(
        (simulated / closed - 1.0).abs() < 0.02,
        "{simulated} {closed}"
    );
    let percentiles = rows[2]["simulated"]["response_percentiles"]
        .as_array()
        .unwrap();
    let p50 = percentiles[0]["response_s"]["value"].as_f64().unwrap();
    let p99 = percentiles[3]["response_s"]["value"].as_f64().unwrap();
    assert!(p50 < p99);
}

#[test]
fn every_form_of_the_sweep_has_the_same_crossings() {
    let shown = text(&["sweep"]);
    assert!(
        shown.contains("nap 50 ms draws less than DVFS below 5"),
        "{shown}"
    );
    let all = read(&["sweep", "--json"]);
    let pairs = all["pairs"].as_array().unwrap();
    let at = |name: &str| {
        let pair = pairs.iter().find(|pair| pair["first"] == name).unwrap();
        pair["power"]["crossings"][0]["utilisation"]
            .as_f64()
            .unwrap()
    };
    assert!((at("nap 50 ms") - 0.54).abs() < 0.01);
    assert!((at("nap 650 ms") - 0.11).abs() < 0.01);
    let csv = text(&["sweep", "--csv"]);
    let lines: Vec<&str> = csv.lines().collect();
    // Always-on and five policies at 95 loads.
    assert_eq!(lines.len(), 1 + 6 * 95);
    let columns = lines[0].split(',').count();
    assert!(lines.iter().all(|line| line.split(',').count() == columns));
}

#[test]
fn questions_print_only_their_answers() {
    let answered = text(&[
        "sweep",
        "--utilisation",
        "0.3",
        "--largest-transition",
        "nap 50 ms",
        "dvfs",
        "--best-timeout",
        "nap 100 ms",
        "--budget",
        "100ms",
    ]);
    let answered = answered.replace('\n', " ");
    assert!(answered.contains("draws less than DVFS if suspend and resume take less than"));
    assert!(
        answered.contains("within a budget of 100 ms with a timeout of"),
        "{answered}"
    );
    assert!(!answered.contains("policy"), "{answered}");
}

/// By `model run` at one of these loads both draw 99.9 W, or one of them 100.
#[test]
fn a_policy_draws_less_where_three_digits_show_it() {
    let swept = read(&["sweep", "--json", "--crossing", "nap 10 ms", "always on"]);
    let power = &swept["pairs"][0]["power"];
    assert_eq!(power["first_is_lower_at_first"], true);
    assert_eq!(power["crossings"].as_array().unwrap().len(), 0);
    let alike = &power["alike"][0];
    assert!(
        (0.99..0.999).contains(&alike[0].as_f64().unwrap()),
        "{power}"
    );
    assert_eq!(alike[1], 0.999);
}

#[test]
fn a_page_is_written_and_other_files_are_not_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("model.html");
    let path = page.to_str().unwrap();
    let named = |shown: String| {
        let is_it = |line: &str| line.starts_with("Page ") && line.ends_with(path);
        assert!(shown.lines().any(is_it), "{shown}");
    };
    named(text(&["sweep", "--out", path]));
    named(text(&[
        "sweep",
        "--crossing",
        "nap 10 ms",
        "DVFS",
        "--out",
        path,
    ]));
    let whole = std::fs::read_to_string(&page).unwrap();
    assert!(whole.contains("Relative power against load"));
    text(&["sweep", "--out", path]);
    std::fs::write(&page, "mine").unwrap();
    assert!(refused(&["sweep", "--out", path]).contains("is not a page of reveille"));
    assert_eq!(std::fs::read_to_string(&page).unwrap(), "mine");
}

#[test]
fn the_books_example_runs_and_gives_a_farms_year() {
    let shown = text(&["run", "--params", EXAMPLE]);
    assert!(shown.contains("In a year, 1000 servers"), "{shown}");
    let all = read(&[
        "run",
        "--params",
        EXAMPLE,
        "--servers",
        "10",
        "--price",
        "1",
        "--json",
    ]);
    let years = all["years"].as_array().unwrap();
    let (energy, saved) = (&years[0]["saved_kwh"], &years[0]["saved_money"]);
    assert_eq!(energy, saved);
}

#[test]
fn wrong_use_is_one_line() {
    for (arguments, part) in [
        (vec!["run", "--utilisation", "1.2"], "stable below 1"),
        (vec!["run", "--utilisation", "-0.1"], "above 0"),
        (vec!["run", "--rate", "nan"], "above 0"),
        (vec!["run", "--price", "3"], "--servers"),
        (
            vec!["sweep", "--crossing", "nap 50 ms", "sleep"],
            "there is no policy `sleep`",
        ),
        (
            vec!["sweep", "--best-timeout", "DVFS", "--budget", "1s"],
            "does not nap",
        ),
        (
            vec!["sweep", "--best-timeout", "nap 50 ms", "--budget", "1ms"],
            "cannot be met",
        ),
        (
            vec!["sweep", "--best-timeout", "nap 50 ms", "--budget", "soon"],
            "not a time such as 50ms",
        ),
    ] {
        let said = refused(&arguments);
        assert!(said.contains(part), "{arguments:?}: {said}");
    }
    let folder = tempfile::tempdir().unwrap();
    let wrong = folder.path().join("wrong.toml");
    std::fs::write(&wrong, "[power]\nactiv = 3\n").unwrap();
    let said = unread(&["run", "--params", wrong.to_str().unwrap()]);
    assert!(
        said.contains("wrong.toml: line 2: unknown field `activ`"),
        "{said}"
    );
    for table in ["power", "arrivals", "sweep", "farm", "simulation"] {
        std::fs::write(&wrong, format!("{table} = 3\n")).unwrap();
        let said = unread(&["run", "--params", wrong.to_str().unwrap()]);
        assert!(said.contains("expected a table"), "{said}");
    }
    for flags in [
        &["run", "--params", "nowhere.toml"][..],
        &["simulate", "--trace", "nowhere.csv"],
        &["from", "nowhere.json"],
    ] {
        assert!(refused(flags).contains("No such file"), "{flags:?}");
    }
    std::fs::write(&wrong, b"\xff\xfe").unwrap();
    assert!(unread(&["run", "--params", wrong.to_str().unwrap()]).contains("is not text"));
}

fn analysis() -> Value {
    let spread =
        |median: u64| json!({"median": median, "min": median / 2, "max": median * 2, "count": 5});
    json!({
        "format": "reveille-resume", "version": 1, "tool": "made up",
        "machines": [{
            "name": "chromebook", "suspend_us": spread(49_000), "resume_us": spread(600_000),
            "what_if": {"all_cycles_us": spread(50_000)},
            "power": {"idle_w": 10.0, "asleep_w": 0.65, "transition_w": null}
        }]
    })
}

fn kept(folder: &Path, analysis: &Value) -> String {
    let path = folder.join("resume.json");
    std::fs::write(&path, analysis.to_string()).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn an_analysed_machine_naps_with_its_own_times_and_power() {
    let folder = tempfile::tempdir().unwrap();
    let path = kept(folder.path(), &analysis());
    let all = read(&["from", &path, "--utilisation", "0.2", "--json"]);
    let policies = all["parameters"]["policies"].as_array().unwrap();
    assert_eq!(policies[0]["name"], "nap, chromebook");
    assert_eq!(policies[0]["policy"]["suspend_s"], 0.049);
    assert_eq!(policies[0]["policy"]["resume_s"], 0.6);
    assert_eq!(policies[1]["name"], "nap, chromebook, what if");
    assert_eq!(policies[1]["policy"]["resume_s"], 0.05);
    let power = &all["parameters"]["power"];
    assert_eq!(
        (&power["idle_w"], &power["nap_w"]),
        (&json!(10.0), &json!(0.65))
    );
    // A file with one key leaves the rest at the defaults.
    let file = folder.path().join("load.toml");
    std::fs::write(&file, "[arrivals]\nutilisation = 0.4\n").unwrap();
    let other = read(&["from", &path, "--params", file.to_str().unwrap(), "--json"]);
    assert_eq!(&other["parameters"]["power"], power);
    // 49 ms and 600 ms are too long; the largest time has the same parts.
    let needed = &all["needed"][1];
    assert_eq!(
        (&needed["policy"], &needed["than"]),
        (&json!("nap, chromebook"), &json!("DVFS"))
    );
    let may_take = &needed["largest"]["seconds"];
    let transition = may_take["transition_s"].as_f64().unwrap();
    let suspend = may_take["nap"]["suspend_s"].as_f64().unwrap();
    assert!(
        (suspend / transition / (49.0 / 649.0) - 1.0).abs() < 1e-9,
        "{needed}"
    );
    let slowest = read(&["from", &path, "--by", "max", "--json"]);
    assert_eq!(
        slowest["parameters"]["policies"][0]["policy"]["resume_s"],
        1.2
    );
    let page = folder.path().join("from.html").display().to_string();
    let shown = text(&["from", &path, "--servers", "1000", "--out", &page]);
    let is_it = |line: &str| line.starts_with("Page ") && line.ends_with(&page);
    assert!(shown.lines().any(is_it), "{shown}");
    assert!(shown.contains("In a year, 1000 servers"), "{shown}");
    assert!(
        shown.contains("nap, chromebook, what if draws less than DVFS"),
        "{shown}"
    );
}

#[test]
fn an_analysis_can_come_through_a_pipe() {
    let mut child = reveille()
        .args(["model", "from", "-", "--json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let text = analysis().to_string();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(text.as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let all: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(all["parameters"]["policies"][0]["name"], "nap, chromebook");
}

#[test]
fn a_file_that_is_no_analysis_is_refused_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let with = |key: &str, value: Value| {
        let mut analysis = analysis();
        analysis[key] = value;
        unread(&["from", &kept(folder.path(), &analysis)])
    };
    assert!(with("format", json!("else")).contains("its format is `else`"));
    assert!(with("version", json!(9)).contains("version 9"));
    assert!(with("machines", json!([])).contains("has no machine"));
    let without = json!([{"name": "a", "suspend_us": null, "resume_us": null}]);
    assert!(with("machines", without).contains("no machine in it has a whole resume"));
    let path = kept(folder.path(), &analysis());
    let said = refused(&["from", &path, "--machine", "desktop"]);
    assert!(
        said.contains("has no machine `desktop`; it has: chromebook"),
        "{said}"
    );
    std::fs::write(&path, "dmesg").unwrap();
    assert!(unread(&["from", &path]).contains("is not an analysis"));
}

/// A result of `measure`: 200 wakes from C1, 5 µs each.
fn result(folder: &Path) -> String {
    let folder = ResultFolder::create(folder.join("measured")).unwrap();
    let description = json!({
        "schema_version": 1, "tool": "reveille", "name": "", "started": "", "command_line": [],
        "probe": "bpf", "ended": "completed",
        "machine": {
            "hostname": null, "cpu_model": null, "architecture": "x86_64", "kernel": null,
            "command_line": null, "hypervisor": null, "microcode": null, "cpus_online": 1,
            "cpus_present": 1, "clock_source": null
        },
        "driver": null, "governor": null, "states": [], "residency_columns": [], "settings": {},
        "characterisation": {}, "counts": {}, "statistics": [], "notes": []
    });
    let description = serde_json::from_value(description).unwrap();
    folder.describe(&description).unwrap();
    let mut writer = folder.writer(&[]).unwrap();
    for number in 0..200 {
        writer.push(&datapoint(number)).unwrap();
    }
    writer.finish().unwrap();
    folder.path().to_str().unwrap().to_owned()
}

fn datapoint(number: i64) -> Datapoint {
    Datapoint {
        time_ns: number * 1_000_000,
        cpu: 0,
        source: Source::Timer,
        woken_by: WokenBy::Interrupt,
        requested_state_index: Some(1),
        requested_state: Some("C1".to_owned()),
        launch_distance_ns: 500_000,
        launch_error_ns: None,
        launch_clock: None,
        silent_time_ns: Some(490_000),
        wake_latency_ns: 5_000,
        interrupt_latency_ns: Some(5_500),
        first: First::AfterIdle,
        smi_count: None,
        nmi_count: None,
        interrupt_count: None,
        softirq_count: None,
        round: None,
        residency_percent: Vec::new(),
    }
}

#[test]
fn exit_latencies_come_from_a_measurement() {
    let folder = tempfile::tempdir().unwrap();
    let result = result(folder.path());
    let all = read(&["run", "--params", EXAMPLE, "--states", &result, "--json"]);
    let states = &all["parameters"]["policies"][3]["policy"]["states"];
    assert_eq!(states[0]["exit_latency_s"], 5e-6);
    // C6 was not measured: it keeps the file's value, with a note.
    assert_eq!(states[1]["exit_latency_s"], 133e-6);
    let notes = all["notes"].to_string();
    assert!(notes.contains("the median of 200 wakes"), "{notes}");
    assert!(notes.contains("C6: not in the result"), "{notes}");
    let said = refused(&["run", "--states", &result]);
    assert!(said.contains("no policy of kind c_states"), "{said}");
}

#[test]
fn figures_of_no_measured_machine_are_called_so() {
    for command in ["run", "sweep", "simulate"] {
        let noted = |more: &[&str]| {
            let short = ["--requests", "2000"]
                .iter()
                .filter(|_| command == "simulate");
            let words: Vec<&str> = [command, "--json"]
                .iter()
                .chain(more)
                .chain(short)
                .copied()
                .collect();
            read(&words)["notes"].to_string().contains("a paper's")
        };
        assert_eq!(
            (noted(&[]), noted(&["--params", EXAMPLE])),
            (true, false),
            "{command}"
        );
    }
}

/// A table of the file is not all of them.
#[test]
fn what_a_file_leaves_out_is_still_a_papers() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("server.toml");
    let of_a_paper = |text: &str, more: &[&str]| {
        std::fs::write(&file, text).unwrap();
        let params = ["--params", file.to_str().unwrap(), "--json"];
        let all = read(&[more, &params[..]].concat());
        let parts = all["parameters"]["of_a_paper"].as_array().unwrap();
        let is_noted = all["notes"].to_string().contains("a paper's");
        assert_eq!(is_noted, !parts.is_empty(), "{text}");
        parts.clone()
    };
    let service = "[service]\ndistribution = \"deterministic\"\nmean = \"1ms\"\n";
    let power = "[power]\nactive = 50\nidle = 30\nnap = 2\ntransition = 30\n";
    let policy = "[[policy]]\nname = \"awake\"\nkind = \"always_on\"\n";
    for command in [
        &["run"][..],
        &["sweep"],
        &["simulate", "--requests", "2000"],
    ] {
        let of = |text: &str| of_a_paper(text, command);
        assert_eq!(of(service), ["powers", "policies"]);
        assert_eq!(of(power), ["service_times", "policies"]);
        assert_eq!(of(policy), ["powers", "service_times"]);
        assert_eq!(of(&[service, power, policy].concat()), [""; 0]);
    }
    let resume = kept(folder.path(), &analysis());
    let from = of_a_paper(power, &["from", &resume]);
    assert_eq!(from, ["service_times", "other_policies"]);
    let from = of_a_paper(service, &["from", &resume]);
    assert_eq!(from, ["other_powers", "other_policies"]);
}

/// At 99.9% load percentiles would need 4 billion requests of each policy.
#[test]
fn what_would_take_too_long_to_simulate_is_not_simulated() {
    let all = read(&["run", "--utilisation", "0.999", "--json"]);
    let p99 = |place: usize| &all["simulated"][place]["p99"];
    assert_eq!(
        (&p99(0)["by"], &p99(1)["by"]),
        (&json!("closed_form"), &json!("not_converged"))
    );
    assert!(
        p99(1)["requests"].as_u64().unwrap() > 100_000_000,
        "{}",
        p99(1)
    );
    let shown = text(&["run", "--utilisation", "0.999"]);
    assert!(shown.contains("not converged"), "{shown}");
}

/// It stands last in the file.
#[test]
fn the_policy_that_draws_least_is_compared_with_always_on_wherever_that_stands() {
    let shown = text(&["run", "--params", EXAMPLE]).replace('\n', " ");
    assert!(shown.contains("; always on: 72 W"), "{shown}");
    let few = ["--utilisation", "0.99", "--requests", "1000", "--json"];
    let all = read(&[&["simulate"], &few[..]].concat());
    let as_low = all["least"]["as_low"].as_array().unwrap();
    assert!(as_low.contains(&json!("always on")), "{as_low:?}");
    let p99s = all["policies"].as_array().unwrap().iter();
    assert!(
        p99s.map(|row| &row["p99"]["by"])
            .all(|by| by == "not_converged")
    );
}

#[test]
fn models_run_without_root() {
    let Some((_folder, mut program)) = as_nobody() else {
        println!("skipped: a model as the user nobody: it takes root to become nobody");
        return;
    };
    assert_eq!(run(program.args(["model", "run"])).code, 0);
}

/// From the log of the lab's suspend to the year of the book's chapter on it.
#[test]
fn the_books_farm_saves_the_stated_energy() {
    let log = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../resume/tests/logs/6.12-dmesg.txt"
    );
    let analyze = ["resume", "analyze", log, "--without", "usb*", "--json"];
    let analysis = reveille().args(analyze).output().unwrap();
    assert!(analysis.status.success());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("guest.json");
    std::fs::write(&path, analysis.stdout).unwrap();
    let path = path.to_str().unwrap();
    let saved = |load: &str| -> Vec<f64> {
        let farm = ["--utilisation", load, "--servers", "1000", "--json"];
        let all = read(&[&["from", path], &farm[..]].concat());
        let years = all["years"].as_array().unwrap();
        let mwh = |year: &Value| year["saved_kwh"].as_f64().unwrap() / 1000.0;
        years.iter().map(mwh).collect()
    };
    let near = |found: f64, stated: f64| {
        assert!(
            (found / stated - 1.0).abs() < 0.02,
            "{found} MWh, stated {stated}"
        );
    };
    let at_2_percent = saved("0.02");
    near(at_2_percent[1], 212.0);
    near(at_2_percent[2], 267.0);
    near(saved("0.1")[1], 17.3);
}
