//! `reveille report`, from the command line to the page.

mod suspended;

use std::process::{Command, Output};

use suspended::dmesg;

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
    // Other JSON makes no page.
    std::fs::write(&file, "{\"machines\": []}").unwrap();
    let other = reveille(&["report", "-o", "-", file.to_str().unwrap()]);
    assert_eq!(other.status.code(), Some(1));
}
