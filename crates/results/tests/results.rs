//! Results are written, read, truncated, damaged and recovered.

use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use reveille_alone::is_apart;
use reveille_results::description::{Ended, Probe};
use reveille_results::{
    Columns, Datapoint, Description, Error, First, NULL, ResultFolder, Source, StreamError, Values,
    WokenBy, export_result, in_parts, open, open_columns, open_description, read,
};

fn datapoint(time_ns: i64) -> Datapoint {
    Datapoint {
        time_ns,
        cpu: 1,
        source: Source::Timer,
        woken_by: WokenBy::Interrupt,
        requested_state_index: Some(2),
        requested_state: Some("C6".into()),
        launch_distance_ns: 1_000_000,
        launch_error_ns: None,
        launch_clock: None,
        silent_time_ns: Some(990_000),
        wake_latency_ns: 40_000 + time_ns % 1000,
        interrupt_latency_ns: None,
        first: First::AfterIdle,
        smi_count: None,
        nmi_count: Some(0),
        interrupt_count: Some(1),
        softirq_count: None,
        round: None,
        residency_percent: vec![99.5],
    }
}

fn description(name: &str) -> Description {
    let text = serde_json::json!({
        "schema_version": 1, "tool": "reveille 0.1.0", "name": name,
        "started": "2026-01-02T03:04:05Z", "command_line": ["reveille", "measure"],
        "probe": "bpf", "ended": "completed", "machine": {
            "hostname": "h", "cpu_model": null, "architecture": "x86_64", "kernel": "6.12",
            "command_line": null, "hypervisor": null, "microcode": null, "cpus_online": 2,
            "cpus_present": 2, "clock_source": "tsc"
        },
        "driver": "intel_idle", "governor": "menu", "states": [],
        "residency_columns": ["cc6_percent"], "settings": {}, "characterisation": {},
        "counts": {}, "statistics": [], "notes": []
    });
    read::read_description(text.to_string().as_bytes()).unwrap()
}

fn residency() -> Vec<String> {
    vec!["cc6_percent".to_owned()]
}

fn result_with(rows: i64) -> (tempfile::TempDir, PathBuf) {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("a/result");
    let folder = ResultFolder::create(&path).unwrap();
    let mut writer = folder.writer(&residency()).unwrap();
    for time in 0..rows {
        writer.push(&datapoint(time)).unwrap();
    }
    assert_eq!(writer.finish().unwrap(), rows as u64);
    folder.describe(&description("")).unwrap();
    (parent, path)
}

#[test]
fn a_written_result_is_read_back() {
    let (_parent, path) = result_with(3);
    let loaded = open(&path).unwrap();
    assert_eq!(loaded.description.name, "result");
    assert_eq!(loaded.description.probe, Probe::Bpf);
    assert_eq!(loaded.description.ended, Ended::Completed);
    let columns = &loaded.columns;
    assert_eq!(columns.rows, 3);
    assert_eq!(columns.integers("time_ns"), Some(&[0, 1, 2][..]));
    assert_eq!(
        columns.integers("wake_latency_ns"),
        Some(&[40_000, 40_001, 40_002][..])
    );
    assert_eq!(
        columns.integers("interrupt_latency_ns"),
        Some(&[NULL; 3][..])
    );
    assert_eq!(columns.percents("cc6_percent"), Some(&[99.5; 3][..]));
    let (codes, names) = columns.names("requested_state").unwrap();
    assert_eq!((codes, names), (&[0, 0, 0][..], &["C6".to_owned()][..]));
    assert!(!path.join("datapoints.partial.csv").exists());
}

#[test]
fn row_groups_are_contiguous() {
    let rows = 140_000;
    let (_parent, path) = result_with(rows);
    let loaded = open_columns(&path, &["time_ns", "no_such_column"]).unwrap();
    assert_eq!(loaded.columns.columns.len(), 1);
    let times = loaded.columns.integers("time_ns").unwrap();
    assert!(times.iter().copied().eq(0..rows));
}

#[test]
fn a_folder_that_holds_a_result_is_refused() {
    let (_parent, path) = result_with(1);
    let refused = ResultFolder::create(&path).unwrap_err();
    assert!(matches!(refused, Error::Refused { .. }), "{refused}");
    let other = tempfile::tempdir().unwrap();
    fs::write(other.path().join("info.yml"), "toolname: wult\n").unwrap();
    assert!(matches!(
        ResultFolder::create(other.path()),
        Err(Error::Refused { .. })
    ));
    fs::remove_file(other.path().join("info.yml")).unwrap();
    ResultFolder::create(other.path()).unwrap();
}

#[test]
fn a_result_without_datapoints_is_a_result() {
    let (_parent, path) = result_with(0);
    assert_eq!(open(&path).unwrap().columns.rows, 0);
}

#[test]
fn an_unfinished_writer_loses_nothing() {
    let parent = tempfile::tempdir().unwrap();
    let folder = ResultFolder::create(parent.path().join("r")).unwrap();
    folder.describe(&description("cut")).unwrap();
    let mut writer = folder.writer(&residency()).unwrap();
    for time in 0..1000 {
        writer.push(&datapoint(time)).unwrap();
    }
    // As after kill -9: no destructor has run.
    std::mem::forget(writer);
    let loaded = open(folder.path()).unwrap();
    assert_eq!(loaded.columns.rows, 1000);
    assert!(
        loaded
            .description
            .notes
            .iter()
            .any(|note| note.contains("cut off"))
    );
    assert!(matches!(
        ResultFolder::create(folder.path()),
        Err(Error::Refused { .. })
    ));

    // A half-written line is omitted, whatever its content.
    let partial = folder.path().join("datapoints.partial.csv");
    let text = fs::read(&partial).unwrap();
    for cut in [1, 2, 20, 60] {
        fs::write(&partial, &text[..text.len() - cut]).unwrap();
        assert_eq!(
            open(folder.path()).unwrap().columns.rows,
            999,
            "{cut} bytes short"
        );
    }

    // Without a description the datapoints are still there.
    fs::remove_file(folder.path().join("result.json")).unwrap();
    let loaded = open(folder.path()).unwrap();
    assert_eq!(loaded.columns.rows, 999);
    assert_eq!(loaded.description.residency_columns, residency());
}

#[test]
fn a_process_killed_while_it_writes_leaves_every_datapoint_it_pushed() {
    // The test calls itself: the child writes until it is killed.
    const FOLDER: &str = "REVEILLE_TEST_WRITE_UNTIL_KILLED";
    if let Some(path) = std::env::var_os(FOLDER) {
        let folder = ResultFolder::create(PathBuf::from(path)).unwrap();
        let mut writer = folder.writer(&residency()).unwrap();
        for time in 0.. {
            writer.push(&datapoint(time)).unwrap();
            if time % 100 == 0 {
                fs::write(folder.path().join("pushed"), time.to_string()).unwrap();
            }
        }
    }
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("r");
    let mut child = std::process::Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "results::a_process_killed_while_it_writes_leaves_every_datapoint_it_pushed",
        ])
        .env(FOLDER, &path)
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let pushed = |path: &Path| -> i64 {
        let text = fs::read_to_string(path.join("pushed")).unwrap_or_default();
        text.parse().unwrap_or(0)
    };
    let started = std::time::Instant::now();
    while pushed(&path) < 1000 {
        assert!(started.elapsed().as_secs() < 60, "the child does not write");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let loaded = open(&path).unwrap();
    let times = loaded.columns.integers("time_ns").unwrap();
    assert!(times.len() as i64 > pushed(&path));
    assert!(times.iter().copied().eq(0..times.len() as i64));
}

#[test]
fn a_full_disk_ends_the_writing_and_keeps_every_earlier_datapoint() {
    // A file size limit stands for the full disk.
    const TEST: &str = "results::a_full_disk_ends_the_writing_and_keeps_every_earlier_datapoint";
    let limit = "trap '' XFSZ; ulimit -f 64; exec \"$0\" \"$@\"";
    if !is_apart(TEST, &["sh", "-c", limit]) {
        return;
    }
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("r");
    let folder = ResultFolder::create(path.clone()).unwrap();
    let mut writer = folder.writer(&residency()).unwrap();
    let full = (0..).find_map(|time| writer.push(&datapoint(time)).err());
    let message = full.unwrap().to_string();
    assert!(message.contains("datapoints.partial.csv: "), "{message}");
    let pushed = writer.rows();
    assert!(pushed > 100, "{pushed}");
    drop(writer);
    let partial = fs::read(path.join("datapoints.partial.csv")).unwrap();
    assert_eq!(partial.last(), Some(&b'\n'), "half a line was left");
    assert_eq!(open(&path).unwrap().columns.rows as u64, pushed);
}

#[test]
fn describing_replaces_the_whole_description() {
    let (_parent, path) = result_with(1);
    assert_eq!(open_description(&path).unwrap().name, "result");
    let other = tempfile::tempdir().unwrap();
    let folder = ResultFolder::create(other.path().join("x")).unwrap();
    let mut writer = folder.writer(&residency()).unwrap();
    writer.push(&datapoint(1)).unwrap();
    writer.finish().unwrap();
    folder
        .describe(&description("a name that is rather long"))
        .unwrap();
    folder.describe(&description("b")).unwrap();
    assert_eq!(open_description(folder.path()).unwrap().name, "b");
    assert!(!folder.path().join("result.json.unfinished").exists());
}

#[test]
fn a_datapoint_with_the_wrong_number_of_shares_is_refused() {
    let parent = tempfile::tempdir().unwrap();
    let folder = ResultFolder::create(parent.path().join("r")).unwrap();
    let mut writer = folder.writer(&[]).unwrap();
    let wrong = writer.push(&datapoint(1)).unwrap_err().to_string();
    assert!(wrong.contains("1 residency shares, expected 0"), "{wrong}");
    for name in ["time_ns", "CC6%", "a,b_percent", "_percent"] {
        let other = ResultFolder::create(parent.path().join("s")).unwrap();
        assert!(other.writer(&[name.to_owned()]).is_err(), "{name}");
    }
}

fn any_datapoint() -> impl Strategy<Value = Datapoint> {
    let state = prop_oneof![Just(None), "[A-Za-z0-9 _,-]{1,12}".prop_map(Some),];
    let count = || proptest::option::of(0_u32..5);
    (
        (
            any::<i64>().prop_map(|x| x.max(i64::MIN + 1)),
            any::<u32>(),
            state,
            0_u8..3,
        ),
        (
            proptest::option::of(-1_i32..9),
            any::<i32>(),
            proptest::option::of(0_i64..1 << 60),
        ),
        (
            -1_000_000_i64..1 << 40,
            proptest::option::of(any::<u32>()),
            count(),
            count(),
        ),
        prop_oneof![Just(f32::NAN), -1.0_f32..101.0],
    )
        .prop_map(
            |((time_ns, cpu, state, which), (index, distance, silent), rest, share)| {
                let (latency, interrupt, smi_count, softirq_count) = rest;
                Datapoint {
                    time_ns,
                    cpu,
                    source: [Source::Timer, Source::Remote, Source::Hpet, Source::Nic]
                        [usize::from(which)],
                    woken_by: [WokenBy::Flag, WokenBy::Interrupt][usize::from(which % 2)],
                    requested_state_index: index,
                    requested_state: state,
                    launch_distance_ns: i64::from(distance),
                    launch_error_ns: (which > 1).then_some(i64::from(distance) / 1000),
                    launch_clock: (which > 1).then_some(i64::from(distance) * 10),
                    silent_time_ns: silent,
                    wake_latency_ns: latency,
                    interrupt_latency_ns: interrupt.map(i64::from),
                    first: [First::AfterIdle, First::Interrupt, First::Thread][usize::from(which)],
                    smi_count,
                    nmi_count: None,
                    interrupt_count: Some(1),
                    softirq_count,
                    round: softirq_count.map(|count| count / 2),
                    residency_percent: vec![share],
                }
            },
        )
}

fn name_at<'a>(columns: &'a Columns, column: &str, row: usize) -> Option<&'a str> {
    let (codes, names) = columns.names(column)?;
    names.get(usize::from(codes[row])).map(String::as_str)
}

/// A file keeps a share to six decimals when exported as text.
fn near(read: f32, written: f32) -> bool {
    (read.is_nan() && written.is_nan()) || (read - written).abs() < 1e-5
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_datapoints_survive_parquet(
        datapoints in proptest::collection::vec(any_datapoint(), 0..50)
    ) {
        let parent = tempfile::tempdir().unwrap();
        let folder = ResultFolder::create(parent.path().join("r")).unwrap();
        let mut writer = folder.writer(&residency()).unwrap();
        for datapoint in &datapoints {
            writer.push(datapoint).unwrap();
        }
        writer.finish().unwrap();
        let columns = open(folder.path()).unwrap().columns;
        prop_assert_eq!(columns.rows, datapoints.len());
        let integer = |name: &str, row: usize| columns.integers(name).unwrap()[row];
        for (row, written) in datapoints.iter().enumerate() {
            let or_null = |value: Option<i64>| value.unwrap_or(NULL);
            prop_assert_eq!(integer("time_ns", row), written.time_ns);
            prop_assert_eq!(integer("cpu", row), i64::from(written.cpu));
            prop_assert_eq!(name_at(&columns, "source", row), Some(written.source.as_str()));
            prop_assert_eq!(name_at(&columns, "woken_by", row), Some(written.woken_by.as_str()));
            prop_assert_eq!(name_at(&columns, "first", row), Some(written.first.as_str()));
            prop_assert_eq!(name_at(&columns, "requested_state", row), written.requested_state.as_deref());
            prop_assert_eq!(integer("requested_state_index", row), or_null(written.requested_state_index.map(i64::from)));
            prop_assert_eq!(integer("launch_distance_ns", row), written.launch_distance_ns);
            prop_assert_eq!(integer("silent_time_ns", row), or_null(written.silent_time_ns));
            prop_assert_eq!(integer("wake_latency_ns", row), written.wake_latency_ns);
            prop_assert_eq!(integer("interrupt_latency_ns", row), or_null(written.interrupt_latency_ns));
            prop_assert_eq!(integer("smi_count", row), or_null(written.smi_count.map(i64::from)));
            prop_assert_eq!(integer("softirq_count", row), or_null(written.softirq_count.map(i64::from)));
            prop_assert_eq!(integer("round", row), or_null(written.round.map(i64::from)));
            let share = columns.percents("cc6_percent").unwrap()[row];
            prop_assert!(near(share, written.residency_percent[0]), "{} {:?}", share, written.residency_percent);
        }
    }
}

#[test]
fn a_column_is_requested_by_its_kind() {
    let (_parent, path) = result_with(1);
    let columns = open(&path).unwrap().columns;
    assert!(columns.integers("requested_state").is_none());
    assert!(matches!(columns.get("cpu"), Some(Values::Integer(_))));
}

/// The names of a folder's files; each file holds a result of this many datapoints.
fn folder_with(names: &[&str], rows: i64) -> tempfile::TempDir {
    let (_parent, finished) = result_with(rows);
    let other = tempfile::tempdir().unwrap();
    for name in names {
        let text = match *name {
            "info.yml" => b"toolname: wult\nformat_version: '1.3'\n".to_vec(),
            "datapoints.csv" => b"WakeLatency,IntrOff\n1.5,1\n".to_vec(),
            "datapoints.partial.csv" => {
                let mut text = Vec::new();
                export_result(&finished, None, &mut text).unwrap();
                text
            }
            name => fs::read(finished.join(name)).unwrap(),
        };
        fs::write(other.path().join(name), text).unwrap();
    }
    other
}

#[test]
fn a_folders_files_determine_its_format() {
    const MISSING: &str = "result.json is missing: machine and settings are unknown.";
    const ONE: &str = "The run was cut off; its one datapoint up to then is here.";
    const TWO: &str = "The run was cut off; its 2 datapoints up to then are all here.";
    let (json, parquet, partial) = (
        "result.json",
        "datapoints.parquet",
        "datapoints.partial.csv",
    );
    for (names, rows, notes) in [
        (&[json, parquet][..], 2, &[][..]),
        (&[parquet], 2, &[MISSING]),
        (&[json, partial], 2, &[TWO]),
        (&[json, partial], 1, &[ONE]),
        (&[partial], 2, &[MISSING, TWO]),
        // The finished file takes precedence.
        (&[json, parquet, partial], 2, &[]),
        (&[parquet, "info.yml", "datapoints.csv"], 2, &[MISSING]),
    ] {
        let folder = folder_with(names, rows);
        let loaded = open(folder.path()).unwrap();
        assert_eq!(loaded.columns.rows as i64, rows, "{names:?}");
        assert_eq!(loaded.description.notes, notes, "{names:?}");
        assert_eq!(loaded.description.residency_columns, residency());
        let probe = match names.contains(&json) {
            true => Probe::Bpf,
            false => Probe::Foreign,
        };
        assert_eq!(loaded.description.probe, probe, "{names:?}");
        let name = folder.path().file_name().unwrap().to_string_lossy();
        assert_eq!(loaded.description.name, name);
        let mut streamed = 0;
        in_parts(folder.path(), |part| {
            streamed += part.rows as i64;
            Ok(())
        })
        .unwrap();
        assert_eq!(streamed, rows, "{names:?}");
    }
    let wult = open(folder_with(&["info.yml", "datapoints.csv"], 0).path()).unwrap();
    assert_eq!(wult.columns.integers("wake_latency_ns"), Some(&[1500][..]));
}

#[test]
fn a_folder_that_lacks_a_file_is_refused_with_its_name() {
    let datapoints = "no result of `measure`; expected a folder with datapoints.parquet (reveille) or \
                      datapoints.csv (wult)";
    let lost = "holds result.json and no datapoints; the run gathered none, or datapoints.parquet was \
                removed";
    for (names, opened, streamed) in [
        (&["result.json"][..], lost, Some(lost)),
        (
            &["datapoints.csv"],
            "holds datapoints.csv without info.yml; give the path of the CSV itself to read it \
             alone",
            None,
        ),
        (
            &[],
            "no result of `measure`; expected a folder with result.json (reveille) or info.yml \
             (wult)",
            Some(datapoints),
        ),
    ] {
        let folder = folder_with(names, 1);
        let why = |what: &str| format!("{}: {what}", folder.path().display());
        assert_eq!(open(folder.path()).unwrap_err().to_string(), why(opened));
        let stream = in_parts(folder.path(), |_| Ok(()));
        assert_eq!(
            stream.err().map(|wrong| wrong.to_string()),
            streamed.map(why),
            "{names:?}"
        );
    }
    let folder = folder_with(&["info.yml"], 0);
    let why = open(folder.path()).unwrap_err().to_string();
    assert!(why.contains("holds info.yml and no datapoints"), "{why}");
}

#[test]
fn a_file_alone_is_a_result_without_a_description() {
    let folder = folder_with(&["datapoints.parquet", "datapoints.partial.csv"], 3);
    let alone = |name: &str| open(folder.path().join(name)).unwrap();
    let parquet = alone("datapoints.parquet");
    assert_eq!(parquet.columns.rows, 3);
    assert_eq!(parquet.description.name, "datapoints");
    assert_eq!(parquet.description.residency_columns, residency());
    assert_eq!(
        parquet.description.notes,
        ["A Parquet file alone: machine and settings are unknown."]
    );
    let partial = folder.path().join("datapoints.partial.csv");
    let text = fs::read_to_string(&partial).unwrap();
    // As an export; one without its last newline, and one truncated within a datapoint.
    for (short, rows, notes) in [
        (0, 3, &[][..]),
        (1, 3, &[]),
        (
            9,
            2,
            &["The file ended within a datapoint, which was left out."],
        ),
    ] {
        let name = format!("export.{short}.csv");
        fs::write(folder.path().join(&name), &text[..text.len() - short]).unwrap();
        let export = alone(&name);
        assert_eq!(export.columns.rows, rows, "{short}");
        assert_eq!(export.description.name, format!("export.{short}"));
        assert_eq!(export.description.residency_columns, residency());
        assert_eq!(export.description.settings.cpu, Some(1));
        let unknown = "A CSV file alone: machine and settings are unknown.";
        assert_eq!(
            export.description.notes,
            [&[unknown], notes].concat(),
            "{short}"
        );
        let streamed = export_result(folder.path().join(&name), None, &mut Vec::new()).unwrap();
        assert_eq!(streamed, rows as u64);
    }
    // The partial file of a run is never complete without its newline.
    fs::write(&partial, &text[..text.len() - 1]).unwrap();
    fs::remove_file(folder.path().join("datapoints.parquet")).unwrap();
    assert_eq!(open(folder.path()).unwrap().columns.rows, 2);
    assert_eq!(
        export_result(folder.path(), None, &mut Vec::new()).unwrap(),
        2
    );
    assert_eq!(export_result(&partial, None, &mut Vec::new()).unwrap(), 2);
}

#[test]
fn a_stream_ends_with_its_consumers_error() {
    let full = || std::io::Error::other("no room");
    for names in [
        &["datapoints.parquet"][..],
        &["datapoints.partial.csv"],
        &["info.yml", "datapoints.csv"],
    ] {
        for rows in [0, 3] {
            let folder = folder_with(names, rows);
            let mut calls = 0;
            let ended = in_parts(folder.path(), |_| {
                calls += 1;
                Err(full())
            });
            assert!(
                matches!(&ended, Err(StreamError::Sink(error)) if error.to_string() == "no room"),
                "{names:?}: {ended:?}"
            );
            assert_eq!(calls, 1, "{names:?}");
        }
    }
}

#[test]
fn a_residency_column_has_its_own_name_and_a_share_in_each_datapoint() {
    let parent = tempfile::tempdir().unwrap();
    let writer = |at: u32, names: &[&str]| {
        let folder = ResultFolder::create(parent.path().join(at.to_string())).unwrap();
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        folder.writer(&names).map_err(|wrong| wrong.to_string())
    };
    for (at, names) in [
        &["time_ns"][..],
        &["cc6_percent", "pc6_percent", "cc6_percent"],
    ]
    .into_iter()
    .enumerate()
    {
        let wrong = writer(at as u32, names).unwrap_err();
        let last = names[names.len() - 1];
        let what = format!(
            "datapoints.parquet: {last:?} cannot be a residency column; expected another name, \
             such as cc6_percent"
        );
        assert!(wrong.ends_with(&what), "{wrong}");
    }
    let mut writer = writer(9, &["cc6_percent", "pc6_percent"]).unwrap();
    let mut point = datapoint(1);
    for shares in [vec![], vec![1.0], vec![1.0; 3]] {
        point.residency_percent = shares;
        let wrong = writer.push(&point).unwrap_err().to_string();
        let count = point.residency_percent.len();
        let what = format!("a datapoint has {count} residency shares, expected 2");
        assert!(wrong.ends_with(&what), "{wrong}");
    }
    assert_eq!(writer.rows(), 0);
    point.residency_percent = vec![1.0, 2.0];
    for rows in 1..=3 {
        writer.push(&point).unwrap();
        assert_eq!(writer.rows(), rows);
    }
    assert_eq!(writer.finish().unwrap(), 3);
}

#[test]
fn a_description_of_up_to_16_mib_is_read() {
    let folder = folder_with(&["result.json", "datapoints.parquet"], 1);
    let path = folder.path().join("result.json");
    let mut text = fs::read(&path).unwrap();
    text.resize(16 << 20, b' ');
    fs::write(&path, &text).unwrap();
    assert_eq!(open(folder.path()).unwrap().description.probe, Probe::Bpf);
    text.push(b' ');
    fs::write(&path, &text).unwrap();
    let why = open(folder.path()).unwrap_err().to_string();
    assert!(why.contains("is larger than 16777216 bytes"), "{why}");
}
