//! `reveille cost`, from the command line to the page.

mod complains;
mod program;

use complains::complains;
use program::{as_nobody, reveille, run};
use serde_json::Value;

#[test]
fn bad_input_gets_one_line() {
    for (arguments, words) in [
        (&["cost"][..], "--pid"),
        (&["cost", "--pid", "1", "--all"], "cannot be used with"),
        (&["cost", "--pid", "99999999"], "no process 99999999"),
        (&["cost", "--cgroup", "no-such-group"], "no-such-group"),
        (&["cost", "--all", "--duration", "0"], "no time"),
        (&["cost", "--all", "--duration=-1s"], "--duration"),
        (
            &["cost", "--", "no-such-command-here"],
            "no such command in PATH",
        ),
    ] {
        complains(reveille().args(arguments), 2, words);
    }
}

#[test]
fn without_the_right_it_says_what_to_do() {
    let Some((_folder, mut command)) = as_nobody() else {
        println!("skipped: without_the_right_it_says_what_to_do: it takes root to leave root");
        return;
    };
    complains(
        command.args(["cost", "--all", "--duration", "1s"]),
        3,
        "root",
    );
}

#[test]
fn a_commands_cost_is_kept_and_becomes_a_page_and_its_exit_code_is_handed_on() {
    const TEST: &str = "a_commands_cost_is_kept";
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("cost");
    let ended = run(reveille()
        .args(["cost", "--out"])
        .arg(&out)
        .args(["--", "sh", "-c"])
        .arg("for i in 1 2 3 4 5 6 7 8 9 10; do sleep 0.005; done; exit 7"));
    if ended.code == 3 {
        println!("skipped: {TEST}: {}", ended.stderr.trim());
        return;
    }
    assert_eq!(ended.code, 7, "{}", ended.stderr);
    let kept = std::fs::read_to_string(out.join("cost.json")).unwrap();
    let kept: Value = serde_json::from_str(&kept).unwrap();
    assert_eq!(kept["schema_version"], 1);
    let page = run(reveille().arg("report").arg(&out));
    assert_eq!(page.code, 0, "{}", page.stderr);
    let page = std::fs::read_to_string(out.join("report.html")).unwrap();
    assert!(reveille_report::is_page(&page[..page.len().min(4096)]));
    complains(
        reveille()
            .args(["cost", "--out"])
            .arg(&out)
            .args(["--", "true"]),
        2,
        "already",
    );
}
