//! A trial for readers.

use reveille_show::sheet::not_in_json;
use reveille_show::{markdown, text, web};
use reveille_trial::result::parse;
use reveille_trial::show::{reference, sheet};
use serde_json::{Value, json};

fn page(trial: &Value) -> String {
    let trial = parse(trial.to_string().as_bytes()).unwrap();
    web::page(&sheet(&trial))
}

/// A trial of two settings over eight rounds, as `trial.json` has it; the second one is dominated.
fn trial() -> Value {
    let observed = |awake: f64| {
        json!({
            "elapsed_s": 1.0, "residency": [{"state": "C6<b>", "percent": 100.0 - awake}],
            "awake_percent": awake, "wakeups_per_s": 100.0, "interrupts_per_s": 200.0,
            "context_switches_per_s": 300.0, "power_w": null, "frequency_mhz": null,
            "package_residency": [{"state": "PC6", "percent": 20.0}],
            "joint_enders": [{"name": "<s>thread (hrtimer_wakeup)", "per_s": 12.0}],
        })
    };
    let figure = |median: f64| {
        json!({
            "count": 40, "min": median - 4.0, "p1": null, "median": median, "p99": null,
            "max": median + 4.0, "mean": median, "standard_deviation": 3.0,
        })
    };
    let setting = |name: &str, median: f64, awake: f64| {
        json!({
            "name": name, "how": "something is changed", "rounds": 8, "failed": 0,
            "figure": figure(median), "median_difference": null, "p99_difference": null,
            "reading_median_ns": 5000.0, "observed": observed(awake),
            "power_difference_w": null, "awake_difference_percent": null,
        })
    };
    let rounds = (0..8).flat_map(|round| {
        [(0, 50_000.0, 3.0), (1, 60_000.0, 90.0)].map(|(setting, median, awake)| {
            json!({
                "round": round, "setting": setting, "began_s": f64::from(round) + f64::from(setting) / 2.0,
                "figures": [median - 4.0, median, median + 4.0], "failed": 0, "why_failed": null,
                "reading_ns": [], "observed": observed(awake),
            })
        })
    });
    let mut slow = setting("</text><script>", 60_000.0, 90.0);
    slow["median_difference"] =
        json!({"estimate": 10_000.0, "interval": [9_000.0, 11_000.0], "rounds": 8});
    json!({
        "schema_version": 1, "tool": "reveille test", "name": "<i>test</i>", "started": "",
        "command_line": ["reveille", "trial", "--ping", "<u>"], "ended": "completed", "machine": machine(),
        "driver": "intel_idle", "governor": "menu",
        "workload": {
            "kind": "ping", "what": "ping <host>", "figure": "round trip", "unit": "ns",
            "higher_is_better": false, "pace": null, "notes": [],
        },
        "plan": {"rounds": 8, "settle_s": 0.2, "seed": 1},
        "settings": [setting("as is", 50_000.0, 3.0), slow],
        "cost": "time_awake",
        "verdict": {
            "best": 0, "as_good": [],
            "dominated": [{"setting": 1, "by": 0, "in_figure": true, "in_cost": true}],
        },
        "notes": [], "rounds": rounds.collect::<Vec<_>>(),
    })
}

fn machine() -> Value {
    serde_json::to_value(reveille_kernel::Identity::default()).unwrap()
}

#[test]
fn the_page_draws_each_setting_and_marks_the_dominated_one() {
    let html = page(&trial());
    assert!(
        html.contains("No setting beats <code>as is</code>: median 50 µs."),
        "{html}"
    );
    assert_eq!(html.matches("class=\"setting ").count(), 2);
    assert_eq!(html.matches("class=\"setting dominated").count(), 1);
    assert!(html.contains("is dominated: <code>as is</code> is faster and sleeps more"));
    // Sixteen rounds over time, and as many around the discs.
    assert_eq!(html.matches("r=\"3\"/>").count(), 16);
    assert_eq!(html.matches("r=\"2\"/>").count(), 16);
    assert!(html.contains("<td class=\"interval bad\">+10 [+9,\u{a0}+11]\u{a0}µs</td>"));
}

/// The same with bursts, of which `p99` is known or null.
fn with_bursts(p99: Value) -> Value {
    let mut trial = trial();
    trial["workload"]["pace"] = json!({
        "requests_per_round": 40, "interval_ms": null, "timeout_ms": 1000.0, "size_bytes": 64,
        "bursts": {"per_s": 1000, "requests": 20, "length_ms": 20.0, "pause_ms": 80.0, "cpu": 1},
    });
    for (place, asleep) in [(0, 99.0), (1, 90.0)] {
        let mut first = trial["settings"][place]["figure"].clone();
        first["median"] = json!(123_000.0);
        first["p99"] = p99.clone();
        trial["settings"][place]["bursts"] = json!({
            "first": first, "late": 7, "asleep_percent": asleep,
            "asleep_difference_percent": {"estimate": asleep - 99.0, "interval": null, "rounds": 8},
        });
    }
    trial
}

#[test]
fn foreign_text_cannot_become_markup() {
    let html = page(&trial());
    for markup in ["<i>test", "<b>", "<host>", "<u>", "<s>", "</text><script>"] {
        assert!(!html.contains(markup), "{markup}");
    }
}

#[test]
fn a_trial_without_figures_or_costs_still_makes_a_page() {
    let mut trial = trial();
    trial["rounds"] = json!([]);
    trial["cost"] = Value::Null;
    trial["verdict"] = json!({"best": null, "as_good": [], "dominated": []});
    for setting in trial["settings"].as_array_mut().unwrap() {
        setting["figure"] = Value::Null;
        setting["observed"] = Value::Null;
        setting["median_difference"] = Value::Null;
    }
    let html = page(&trial);
    assert!(html.contains("No setting gave a figure"));
    assert!(html.contains("Not drawn"));
}

#[test]
fn a_file_that_is_no_trial_is_refused_in_one_line() {
    assert!(parse(b"{}").unwrap_err().contains("not a trial.json"));
    let mut newer = trial();
    newer["schema_version"] = json!(99);
    let said = parse(newer.to_string().as_bytes()).unwrap_err();
    assert!(said.contains("schema version 99"), "{said}");
}

#[test]
fn every_column_is_a_field_of_the_json() {
    // Settings and their figures come from what the program writes.
    let trial = parse(with_bursts(Value::Null).to_string().as_bytes()).unwrap();
    let json = serde_json::to_value(trial).unwrap();
    for (list, headings) in reference() {
        assert_eq!(
            not_in_json(&json, list, &headings),
            Vec::<&str>::new(),
            "{list}"
        );
    }
}

fn on_a_terminal(trial: &Value, detail: text::Detail) -> String {
    let trial = parse(trial.to_string().as_bytes()).unwrap();
    let mut out = Vec::new();
    text::write(&sheet(&trial), detail, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn figures_have_the_unit_of_the_workload_and_the_tail_of_its_direction() {
    let mut trial = trial();
    let heads = |trial: &Value, detail| {
        let text = on_a_terminal(trial, detail);
        let line = text.lines().find(|line| line.contains("median"));
        line.unwrap()
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
    };
    let (short, all) = (text::Detail::Short, text::Detail::All);
    assert_eq!(
        heads(&trial, short),
        "setting median p99 max against as is [95%] awake"
    );
    let text = on_a_terminal(&trial, short);
    assert!(text.contains("+10.0 [+9.00, +11.0]"), "{text}");
    trial["workload"]["unit"] = json!("MB/s");
    trial["workload"]["higher_is_better"] = json!(true);
    assert_eq!(
        heads(&trial, all),
        "setting rounds count failed median, MB/s p1, MB/s min, MB/s mean, MB/s sd, MB/s against as is \
         [95%], MB/s awake awake against as is [95%]"
    );
    let text = on_a_terminal(&trial, short);
    assert!(text.contains("median 60000 MB/s"), "{text}");
}

#[test]
fn bursts_have_their_first_requests_and_the_sleep_in_pauses_beside_the_figure() {
    let heads = |trial: &Value, detail| {
        let text = on_a_terminal(trial, detail);
        let line = text.lines().find(|line| line.contains("median"));
        line.unwrap()
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
    };
    let trial = with_bursts(Value::Null);
    assert_eq!(
        heads(&trial, text::Detail::Short),
        "setting median p99 first against as is [95%] awake asleep"
    );
    let short = on_a_terminal(&trial, text::Detail::Short);
    let row = short.lines().find(|line| line.starts_with("as is"));
    let row: Vec<&str> = row.unwrap().split_whitespace().collect();
    assert_eq!(row, ["as", "is", "50", "-", "123", "-", "3", "99"]);
    let trial = with_bursts(json!(200_000.0));
    assert!(heads(&trial, text::Detail::Short).contains(" first first p99 against"));
    let whole = on_a_terminal(&trial, text::Detail::All);
    assert!(
        whole.contains("40 a turn, 20 in a burst, 64 bytes"),
        "{whole}"
    );
    let all = heads(&trial, text::Detail::All);
    assert!(
        all.contains(" first first p99 first max late against"),
        "{all}"
    );
    assert!(all.ends_with(" asleep asleep against as is [95%]"), "{all}");
}

#[test]
fn the_cost_stands_beside_the_figure_and_the_rest_of_the_machine_is_shown_on_request() {
    let mut trial = trial();
    let short = on_a_terminal(&trial, text::Detail::Short);
    assert!(
        !short.contains("wake-ups") && !short.contains("power"),
        "{short}"
    );
    trial["cost"] = json!("power");
    let short = on_a_terminal(&trial, text::Detail::Short);
    assert!(
        short.contains("power") && !short.contains("awake"),
        "{short}"
    );
    let all = on_a_terminal(&trial, text::Detail::All);
    for columns in [
        "wake-ups",
        "interrupts",
        "  power  power against as is [95%]\n",
    ] {
        assert_eq!(all.matches(columns).count(), 1, "{columns}: {all}");
    }
}

#[test]
fn residency_has_a_column_for_each_state() {
    let trial = parse(trial().to_string().as_bytes()).unwrap();
    let text = markdown::markdown(&sheet(&trial));
    assert!(
        text.contains("| setting | C6\\<b>, % |\n| --- | --: |\n| as is | 97 |\n"),
        "{text}"
    );
}
