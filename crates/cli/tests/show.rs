//! `reveille show`: prints a kept result again.

use std::path::Path;
use std::process::{Command, Output};

use crate::{json_schemas, meter};
use reveille_alone::{Part, Use, take, take_to_change};
use serde_json::Value;

fn reveille(words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_reveille"));
    command.args(words).env("NO_COLOR", "1");
    command.output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// The last paragraph, which is the answer.
fn answer(printed: &str) -> &str {
    printed.trim_end().rsplit("\n\n").next().unwrap()
}

/// Runs the command, which keeps its result in `out` and prints it on one of its outputs; `show` prints the
/// same answer and the kept JSON, whose fields are listed.
fn is_shown_again(words: &[&str], out: &Path, file: &str) {
    let ran = reveille(words);
    let said = text(&ran.stderr);
    if ran.status.code() == Some(3) {
        return println!("skipped: show of {}: {said}", words[0]);
    }
    let printed = text(&ran.stdout) + &said;
    let is_never_idle = ran.status.code() == Some(1) && said.contains("no datapoint for ");
    if is_never_idle || meter::is_disturbed(&printed) {
        return println!("skipped: show of {words:?}: {printed}");
    }
    assert!(ran.status.success(), "{words:?}: {said}");
    let path = out.to_str().unwrap();
    let shown = reveille(&["show", path]);
    assert!(shown.status.success(), "{}", text(&shown.stderr));
    let shown = text(&shown.stdout);
    assert!(
        printed.contains(answer(&shown)),
        "{printed}\nbut shown:\n{shown}"
    );
    let kept = std::fs::read(out.join(file)).unwrap();
    let kept: Value = serde_json::from_slice(&kept).unwrap();
    let json: Value = serde_json::from_slice(&reveille(&["show", path, "--json"]).stdout).unwrap();
    assert_eq!(json, kept, "{words:?}");
    let schema = match file {
        "result.json" => "measure",
        "bench.json" => "anticipate-bench",
        _ => file.trim_end_matches(".json"),
    };
    // Kept for `show`, and printed by no command.
    let mut printed = json;
    let fields = printed.as_object_mut().unwrap();
    match schema {
        "trial" => drop(fields.remove("rounds")),
        "anticipate-bench" => drop(fields.remove("turns")),
        "stage-bench" => fields["turns"] = Value::Null,
        _ => {}
    }
    json_schemas::matches(schema, &[printed]);
    let markdown = text(&reveille(&["show", path, "--markdown"]).stdout);
    assert!(markdown.starts_with("## "), "{markdown}");
    // By its content, whatever its name.
    let other = out.join("renamed");
    std::fs::copy(out.join(file), &other).unwrap();
    if file != "result.json" {
        assert_eq!(
            text(&reveille(&["show", other.to_str().unwrap()]).stdout),
            shown
        );
    }
    let page = text(&reveille(&["show", path, "--page"]).stdout);
    assert_eq!(page.trim_end(), out.join("report.html").to_str().unwrap());
}

#[test]
fn every_kept_result_is_shown_again() {
    let Some(_held) = take_to_change(&[Use::Alone(Part::IdleStates)]) else {
        return;
    };
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let out = |name: &str| folder.path().join(name);
    let path = |name: &str| out(name).to_str().unwrap().to_owned();
    let measure = "measure --probe user --datapoints 30 --distance 200us..1ms --no-report --out";
    let trial = "trial --echo self --rounds 2 --requests 5 --interval 1ms --out";
    let bench = "anticipate bench --rounds 2 --ios 8 --warm-up 2 --file-size 1MiB";
    for (line, name, file) in [
        (format!("{measure} {}", path("m")), "m", "result.json"),
        (format!("{trial} {}", path("t")), "t", "trial.json"),
        (
            format!(
                "{bench} --dir {} --out {}",
                folder.path().display(),
                path("b")
            ),
            "b",
            "bench.json",
        ),
        (
            format!("cost --out {} -- sleep 0.05", path("c")),
            "c",
            "cost.json",
        ),
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        is_shown_again(&words, &out(name), file);
    }
}

#[test]
fn what_a_meter_measured_is_shown_again() {
    let _held = take(&[Use::Alone(Part::Cpus)]);
    let folder = tempfile::tempdir().unwrap();
    let name = meter::made_up(std::time::Duration::from_millis(20), || 40.0);
    // The tests of `power` look at its own.
    let file = "stage-bench.json";
    let out = folder.path().join(file);
    let line = "stage bench --turn 2s --seed 1 --rounds 2";
    let mut words: Vec<&str> = line.split(' ').collect();
    words.extend(["--meter", &name, "--out", out.to_str().unwrap()]);
    is_shown_again(&words, &out, file);
}

#[test]
fn an_analysis_is_shown_as_it_was_printed() {
    let log = Path::new(env!("CARGO_MANIFEST_DIR")).join("../resume/tests/logs/6.12-dmesg.txt");
    let log = log.to_str().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("x");
    std::fs::write(
        &file,
        reveille(&["resume", "analyze", "--json", log]).stdout,
    )
    .unwrap();
    let file = file.to_str().unwrap();
    for flags in [&[][..], &["--all"], &["--json"], &["--markdown"]] {
        let shown = reveille(&[&["show", file][..], flags].concat());
        let printed = reveille(&[&["resume", "analyze", log][..], flags].concat());
        assert_eq!(text(&shown.stdout), text(&printed.stdout), "{flags:?}");
    }
    // And it is no log.
    let ended = reveille(&["resume", "analyze", file]);
    let said = text(&ended.stderr);
    assert_eq!(ended.status.code(), Some(1), "{said}");
    assert!(said.contains(&format!("`reveille show {file}`")), "{said}");
}

#[test]
fn several_results_are_compared_if_they_are_of_measure() {
    let folder = tempfile::tempdir().unwrap();
    let result = |name: &str, us: u64| {
        let csv = folder.path().join(name);
        let row = |place: u64| format!("{place},0,timer,C1,{}\n", us * 1000 + place);
        let rows: String = (0..200).map(row).collect();
        let head = "time_ns,cpu,source,requested_state,wake_latency_ns\n";
        std::fs::write(&csv, head.to_owned() + &rows).unwrap();
        csv.to_str().unwrap().to_owned()
    };
    let (a, b) = (result("a.csv", 5), result("b.csv", 50));
    let both = reveille(&["show", &a, &b]);
    assert!(both.status.success(), "{}", text(&both.stderr));
    let shown = text(&both.stdout);
    assert!(shown.contains("5.10") && shown.contains("50.1"), "{shown}");
    let json: Value =
        serde_json::from_slice(&reveille(&["show", &a, &b, "--json"]).stdout).unwrap();
    assert_eq!(json["results"].as_array().map(Vec::len), Some(2));
    let compared = &json["comparisons"][0]["states"][0];
    assert_eq!(
        (&compared["state"], &compared["source"]),
        (&"C1".into(), &"timer".into())
    );
    let median = &compared["comparison"]["median"];
    assert_eq!(
        (&median["a_ns"], &median["b_ns"]),
        (&5099.into(), &50_099.into())
    );
    assert_eq!(compared["comparison"]["b_slower"], 1.0);
    let other = folder.path().join("cost.json");
    std::fs::write(&other, "{}").unwrap();
    let refused = reveille(&["show", &a, other.to_str().unwrap()]);
    assert_eq!(refused.status.code(), Some(2));
    let empty = tempfile::tempdir().unwrap();
    for missing in ["/nonexistent", empty.path().to_str().unwrap()] {
        let refused = reveille(&["show", missing]);
        let said = text(&refused.stderr);
        assert_eq!(
            (refused.status.code(), said.lines().count()),
            (Some(2), 1),
            "{said}"
        );
    }
}

#[test]
fn what_a_filter_leaves_out_is_stated_in_every_form() {
    let lab = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/example/results/lab"
    );
    let filter = ["--filter", "requested_state == 'C1'"];
    for form in [&[][..], &["--json"], &["--markdown"]] {
        let shown = reveille(&[&["show", lab], &filter[..], form].concat());
        let shown = text(&shown.stdout);
        let words = shown.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            words.contains("Only datapoints with requested_state == 'C1': "),
            "{form:?}: {words}"
        );
    }
}

/// A FIFO would be waited for, and some devices have no end.
#[test]
fn a_device_with_the_name_of_a_result_is_not_read() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["cost.json", "trial.json"] {
        let file = folder.path().join(name);
        std::os::unix::fs::symlink("/dev/null", &file).unwrap();
        for command in ["show", "report"] {
            let refused = reveille(&[command, file.to_str().unwrap()]);
            let why = text(&refused.stderr);
            assert_eq!(refused.status.code(), Some(1), "{why}");
            assert!(
                why.contains("is neither a folder nor a regular file"),
                "{why}"
            );
        }
    }
}
