//! `reveille report`, from the command line to the page.

use std::process::{Command, Output};

use crate::suspended::dmesg;

fn reveille(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_reveille"));
    command.args(arguments).output().unwrap()
}

#[test]
fn a_filter_error_points_at_its_position() {
    let folder = tempfile::tempdir().unwrap();
    let csv = folder.path().join("result.csv");
    std::fs::write(&csv, "WakeLatency,IntrOff,ReqCState\n3,1,C1\n").unwrap();
    for (filter, words, place) in [
        ("cpu == 0 && nosuch > 1", "no column nosuch", 12..18),
        ("smi_count > 1", "smi_count", 0..9),
        ("cpu >", "expected", 5..6),
    ] {
        let csv = csv.to_str().unwrap();
        let ended = reveille(&["report", csv, "-o", "-", "--filter", filter]);
        let said = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(2), "{said}");
        let lines: Vec<&str> = said.lines().collect();
        let [what, expression, carets] = lines[..] else {
            panic!("{said}");
        };
        assert!(
            what.starts_with("reveille: ") && what.contains(words),
            "{what}"
        );
        assert_eq!(expression, format!("  {filter}"));
        let (indent, carets) = carets[2..].split_at(place.start);
        assert_eq!((indent.trim(), carets), ("", &*"^".repeat(place.len())));
    }
}

#[test]
fn json_output_makes_a_page_whatever_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log.txt");
    std::fs::write(&log, dmesg(1)).unwrap();
    let json = reveille(&["resume", "analyze", "--json", log.to_str().unwrap()]).stdout;
    let file = folder.path().join("r.json");
    std::fs::write(&file, &json).unwrap();
    let by_name = reveille(&["report", "-o", "-", file.to_str().unwrap()]);
    let said = String::from_utf8_lossy(&by_name.stderr);
    assert!(by_name.status.success(), "{said}");
    assert!(reveille_show::page::is_page(&String::from_utf8_lossy(
        &by_name.stdout
    )));
    for (text, why) in [
        ("{\"machines\": []}", "unknown JSON"),
        ("{\"machines\": ", "is damaged JSON: EOF"),
    ] {
        std::fs::write(&file, text).unwrap();
        for command in [&["report", "-o", "-"][..], &["show"]] {
            let other = reveille(&[command, &[file.to_str().unwrap()]].concat());
            let said = String::from_utf8(other.stderr).unwrap();
            assert_eq!(other.status.code(), Some(1), "{said}");
            assert!(said.contains(why), "{said}");
        }
    }
}

#[test]
fn a_filtered_page_stands_beside_the_whole_one_and_an_empty_one_is_not_written() {
    let folder = tempfile::tempdir().unwrap();
    let result = folder.path().join("result");
    std::fs::create_dir(&result).unwrap();
    let csv = "time_ns,cpu,source,wake_latency_ns\n1,0,timer,5000\n2,0,timer,9000\n";
    std::fs::write(result.join("datapoints.partial.csv"), csv).unwrap();
    let result = result.to_str().unwrap();
    let pages = || {
        let names = std::fs::read_dir(result).unwrap();
        let mut names: Vec<_> = names.map(|one| one.unwrap().file_name()).collect();
        names.sort();
        names
            .into_iter()
            .filter(|name| name != "datapoints.partial.csv")
            .collect::<Vec<_>>()
    };
    let none = reveille(&["report", result, "--filter", "wake_latency_ns > 1s"]);
    let said = String::from_utf8(none.stderr).unwrap();
    assert_eq!(
        (none.status.code(), said.lines().count()),
        (Some(1), 1),
        "{said}"
    );
    assert!(said.contains("no datapoint matches the filter"), "{said}");
    assert!(pages().is_empty());
    assert!(reveille(&["report", result]).status.success());
    let some = reveille(&["report", result, "--filter", "wake_latency_ns > 6us"]);
    assert!(some.status.success());
    assert_eq!(pages(), ["report-filtered.html", "report.html"]);
    // What is printed or pasted says that it is of some datapoints.
    let filtered = ["--filter", "wake_latency_ns > 6us"];
    for command in [
        &["show", result][..],
        &["show", result, "--json"],
        &["show", result, result],
        &["report", result, "--markdown"],
    ] {
        let output = reveille(&[command, &filtered].concat());
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(
            said.contains("Only datapoints with wake_latency_ns > 6us: 1 of 2."),
            "{command:?}: {said}"
        );
        let is_json = command.contains(&"--json");
        assert_eq!(said.contains("Of the datapoints that pass"), !is_json);
    }
    let exported = reveille(&[
        "export",
        "--csv",
        result,
        "--filter",
        "wake_latency_ns > 6us",
    ]);
    let exported = String::from_utf8(exported.stdout).unwrap();
    assert_eq!(exported.lines().count(), 2, "{exported}");
    assert!(exported.ends_with("9000\n"), "{exported}");
    let none = [
        "export",
        "--csv",
        result,
        "--filter",
        "wake_latency_ns > 1s",
    ];
    assert_eq!(reveille(&none).status.code(), Some(1));
    let missing = ["export", "--csv", result, "--filter", "nosuch > 1s"];
    assert_eq!(reveille(&missing).status.code(), Some(2));
}
