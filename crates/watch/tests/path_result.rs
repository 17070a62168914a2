//! The result of `reveille path` for readers.

use reveille_show::page::is_page;
use reveille_show::{sheet, terminal, text, web};
use reveille_watch::path::{
    Cause, Counts, Delay, Estimate, Follow, Gathered, Met, Packet, Path, SCHEMA_VERSION, Sleep,
    Stage, Subject, read, show,
};

/// Pings that met a sleeping CPU and an awake one.
fn path() -> Path {
    let folder = tempfile::tempdir().unwrap();
    let state = folder
        .path()
        .join("sys/devices/system/cpu/cpu0/cpuidle/state2");
    std::fs::create_dir_all(&state).unwrap();
    std::fs::write(state.join("name"), "C6<b>\n").unwrap();
    let cpu = folder.path().join("sys/devices/system/cpu");
    std::fs::write(cpu.join("present"), "0\n").unwrap();
    std::fs::write(cpu.join("online"), "0\n").unwrap();
    let root = reveille_kernel::Root::at(folder.path());
    let idle = reveille_kernel::Idle::read(&root).unwrap();
    let mut gathered = Gathered::default();
    for (met, start) in [
        (
            Met::Asleep(Sleep {
                state: 2,
                length_ns: 900_000,
            }),
            1_000,
        ),
        (Met::Awake, 2_000),
    ] {
        gathered.add(
            &idle,
            &Packet {
                ends: [
                    (Stage::Wake, start),
                    (Stage::Interrupt, start + 3_000),
                    (Stage::Softirq, start + 4_000),
                    (Stage::Protocol, start + 6_500),
                    (Stage::Answer, start + 8_000),
                    (Stage::Transmit, start + 9_000),
                ]
                .into_iter()
                .filter(|(stage, _)| *stage != Stage::Wake || met != Met::Awake)
                .collect(),
                met,
                cause: Cause::Device(152),
                ..Packet::default()
            },
        );
    }
    let mut groups = gathered.groups();
    groups[0].estimate = Some(Estimate {
        result: "night <i>".to_owned(),
        source: "remote".to_owned(),
        median_ns: 133_000,
        p99_ns: None,
    });
    Path {
        schema_version: SCHEMA_VERSION,
        tool: "reveille test".to_owned(),
        subject: Subject {
            follow: Follow::Ping,
            interface: None,
            port: None,
            started: "2026-11-21T10:00:00Z".to_owned(),
            machine: reveille_kernel::Identity::default(),
            driver: None,
            governor: None,
        },
        elapsed_s: 1.0,
        interrupted: false,
        counts: Counts {
            seen: 3,
            followed: 2,
            unanswered: 1,
            ..Counts::default()
        },
        cost: None,
        groups,
        readers: None,
        delays: Vec::new(),
    }
}

fn page_of(path: &Path) -> String {
    let kept = read(&serde_json::to_vec(path).unwrap()).unwrap();
    web::page(&show::sheet(&kept))
}

#[test]
fn every_stage_is_in_the_chart_and_in_the_tables() {
    let html = page_of(&path());
    assert!(is_page(&html));
    for stage in ["interrupt", "softirq", "receive", "ICMP echo", "transmit"] {
        assert!(html.contains(&format!("<title>{stage}: ")), "{stage}");
        let row = format!("<th scope=\"row\" class=\"word\">{stage}</th>");
        assert_eq!(
            html.matches(&row).count(),
            // In the tables of its groups, and in the one that compares them.
            2 + usize::from(stage != "interrupt"),
            "{stage}"
        );
    }
    assert!(html.contains("<dd>1 unanswered</dd>"));
}

#[test]
fn a_terminal_shows_groups_beside_each_other_and_the_settings_that_add_latency() {
    let delay = |what: &str, adds: Option<&str>| Delay {
        what: what.into(),
        interface: None,
        now: "on".into(),
        adds: adds.map(Into::into),
        set: None,
    };
    let mut path = path();
    path.delays = vec![
        delay("steering", Some("an interrupt")),
        delay("interrupts", None),
        delay("polling", Some("nothing; if it is on, readers poll")),
    ];
    let of = |path: &Path, detail| {
        let mut out = Vec::new();
        text::write(&show::sheet(path), detail, &mut out).unwrap();
        terminal::plain(out)
    };
    let short = of(&path, text::Detail::Short);
    assert!(
        short.contains("steering: on; adds an interrupt\n"),
        "{short}"
    );
    for hidden in ["interrupts: on", "polling: on", "Announced by"] {
        assert!(!short.contains(hidden), "{short}");
        assert!(of(&path, text::Detail::All).contains(hidden), "{hidden}");
    }
    let heads = short.lines().find(|line| line.starts_with("stage "));
    assert!(heads.unwrap().ends_with("C6<b>  awake"), "{short}");
    assert!(
        short.contains("its wake-up, at the median about 133 µs from C6<b> (estimates)."),
        "{short}"
    );
    // One group has nothing to be compared with.
    path.groups.pop();
    let short = of(&path, text::Detail::Short);
    assert!(
        short.contains("Announced by") && short.contains("p99"),
        "{short}"
    );
}

#[test]
fn an_estimate_is_dashed_and_labelled_and_names_cannot_become_markup() {
    let html = page_of(&path());
    assert!(html.contains("wake-up, estimate: 133 µs"));
    assert!(html.contains("(an estimate: night &lt;i&gt;, source remote)"));
    assert!(html.contains("C6&lt;b&gt;") && !html.contains("C6<b>"));
}

#[test]
fn without_packets_the_page_has_no_figures() {
    let mut path = path();
    path.groups.clear();
    let html = page_of(&path);
    // But what the command says then.
    assert!(html.contains(&show::nothing(&path)[1..]));
}

#[test]
fn other_json_is_refused() {
    assert!(read(b"{}").unwrap_err().contains("schema_version"));
}

#[test]
fn every_column_is_a_field_of_the_json() {
    let json = serde_json::to_value(path()).unwrap();
    let (list, headings) = &show::reference()[0];
    // Follows from the stage.
    assert_eq!(sheet::not_in_json(&json, list, headings), ["until"]);
}

#[test]
fn an_estimate_is_of_the_state_by_the_source_most_like_a_packet() {
    let by = |state: &str, source: &str, median_ns: i64| {
        let figures = serde_json::json!({
            "count": 5, "min_ns": 1, "median_ns": median_ns, "p90_ns": null, "p99_ns": 9, "p99_9_ns": null,
            "p99_99_ns": null, "max_ns": 9, "mean_ns": 1.0, "standard_deviation_ns": null
        });
        serde_json::json!({
            "state": state, "index": 2, "source": source, "driver_exit_latency_us": null,
            "wake_latency": figures, "median_above_floor_ns": null, "exceedance": null,
            "verdict": "no_figure", "tail": { "refused": "few" }
        })
    };
    let mut text = serde_json::json!({
        "schema_version": 1, "tool": "reveille", "name": "night", "started": "", "command_line": [],
        "probe": "bpf", "ended": "completed", "machine": reveille_kernel::Identity::default(),
        "driver": null, "governor": null, "states": [], "residency_columns": [], "settings": {},
        "characterisation": {}, "counts": {}, "notes": []
    });
    let all = [
        by("C6<b>", "timer", 1),
        by("C6<b>", "remote", 2),
        by("C1", "nic", 3),
    ];
    text["statistics"] = all.into();
    let result = serde_json::from_value(text).unwrap();
    let mut path = path();
    path.estimate(&result);
    let estimate = path.groups[0].estimate.as_ref().unwrap();
    assert_eq!(
        (estimate.source.as_str(), estimate.median_ns),
        ("remote", 2)
    );
    assert_eq!(path.groups[1].estimate, None);
}
