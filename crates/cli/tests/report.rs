//! `reveille report`, from the command line to the page.

mod suspended;

use std::process::{Command, Output};

use suspended::dmesg;

fn reveille(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_reveille"));
    command.args(arguments).output().unwrap()
}

#[test]
fn what_json_printed_makes_a_page_by_whatever_name() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log.txt");
    std::fs::write(&log, dmesg(1)).unwrap();
    let json = reveille(&["resume", "analyze", "--json", log.to_str().unwrap()]).stdout;
    let file = folder.path().join("r.json");
    std::fs::write(&file, &json).unwrap();
    let by_name = reveille(&["report", "-o", "-", file.to_str().unwrap()]);
    let said = String::from_utf8_lossy(&by_name.stderr);
    assert!(by_name.status.success(), "{said}");
    assert!(reveille_report::is_page(&String::from_utf8_lossy(
        &by_name.stdout
    )));
    // JSON that is not ours makes none.
    std::fs::write(&file, "{\"machines\": []}").unwrap();
    let other = reveille(&["report", "-o", "-", file.to_str().unwrap()]);
    assert_eq!(other.status.code(), Some(1));
}
