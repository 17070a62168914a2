//! Damaged and foreign files get a one-line error; nothing panics.

use std::fs;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use proptest::prelude::*;
use reveille_results::{
    Datapoint, First, ResultFolder, Source, WokenBy, export_result, open, read,
};

fn result(rows: i64) -> (tempfile::TempDir, PathBuf) {
    let parent = tempfile::tempdir().unwrap();
    let folder = ResultFolder::create(parent.path().join("r")).unwrap();
    let mut writer = folder.writer(&["cc6_percent".to_owned()]).unwrap();
    for time_ns in 0..rows {
        let datapoint = Datapoint {
            time_ns,
            cpu: 0,
            source: Source::Remote,
            woken_by: WokenBy::Flag,
            requested_state_index: (time_ns % 3 > 0).then_some(1),
            requested_state: (time_ns % 3 > 0).then(|| "C1, \"quoted\"".to_owned()),
            launch_distance_ns: 5,
            launch_error_ns: None,
            launch_clock: None,
            silent_time_ns: None,
            wake_latency_ns: -time_ns,
            interrupt_latency_ns: Some(1),
            first: First::Thread,
            smi_count: None,
            nmi_count: None,
            interrupt_count: None,
            softirq_count: None,
            round: None,
            residency_percent: vec![if time_ns % 2 == 0 { f32::NAN } else { 33.25 }],
        };
        writer.push(&datapoint).unwrap();
    }
    writer.finish().unwrap();
    let path = folder.path().to_owned();
    (parent, path)
}

fn refused(path: &Path) -> String {
    let why = open(path).unwrap_err().to_string();
    assert_eq!(why.lines().count(), 1, "{why}");
    why
}

#[test]
fn a_damaged_parquet_file_is_refused() {
    let (_parent, path) = result(100);
    let file = path.join("datapoints.parquet");
    let whole = fs::read(&file).unwrap();
    for cut in [0, 1, 4, 50, whole.len() / 2, whole.len() - 1] {
        fs::write(&file, &whole[..cut]).unwrap();
        assert!(refused(&path).contains("datapoints.parquet: "), "{cut}");
    }
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    assert!(refused(&path).contains("is not a regular file"));
}

#[test]
fn a_newer_schema_is_refused_by_number() {
    let (_parent, path) = result(1);
    fs::write(
        path.join("result.json"),
        r#"{"schema_version": 2, "all": "new"}"#,
    )
    .unwrap();
    assert!(refused(&path).contains("has schema version 2, but this program reads up to 1"));
    let file = path.join("datapoints.parquet");
    fs::remove_file(path.join("result.json")).unwrap();
    let mut bytes = fs::read(&file).unwrap();
    let key = b"reveille.schema_version";
    let at = bytes
        .windows(key.len())
        .position(|window| window == key)
        .unwrap()
        + key.len();
    let digit = at + bytes[at..].iter().position(|&byte| byte == b'1').unwrap();
    bytes[digit] = b'7';
    fs::write(&file, &bytes).unwrap();
    assert!(
        refused(&path).contains("has schema version 7"),
        "{}",
        refused(&path)
    );
}

#[test]
fn an_invalid_description_is_refused() {
    let (_parent, path) = result(1);
    for text in [
        "",
        " ",
        "{",
        "[]",
        "7",
        "{}",
        r#"{"schema_version": 1}"#,
        "\u{0}",
    ] {
        fs::write(path.join("result.json"), text).unwrap();
        assert!(refused(&path).contains("result.json"), "{text:?}");
    }
    let deep = "[".repeat(1 << 20);
    fs::write(path.join("result.json"), deep).unwrap();
    refused(&path);
}

#[test]
fn a_folder_without_a_result_is_refused() {
    let empty = tempfile::tempdir().unwrap();
    assert!(refused(empty.path()).contains("no result"));
    fs::write(empty.path().join("result.json"), "{}").unwrap();
    refused(empty.path());
    assert!(export_result(empty.path(), None, &mut Vec::new()).is_err());
}

#[test]
fn an_export_reads_like_the_result() {
    let (_parent, path) = result(5000);
    let whole = open(&path).unwrap().columns;
    let mut streamed = Vec::new();
    assert_eq!(export_result(&path, None, &mut streamed).unwrap(), 5000);
    let again = read::read_csv(streamed.as_slice()).unwrap();
    assert_eq!(again.rows, whole.rows);
    for column in &whole.columns {
        // NaN differs from itself, so shares are compared as text.
        assert_eq!(
            format!("{:?}", again.get(&column.name)),
            format!("{:?}", Some(&column.values))
        );
    }
}

#[test]
fn an_export_is_written_in_blocks() {
    /// The sizes of the writes.
    #[derive(Default)]
    struct Pieces(Vec<usize>);
    impl std::io::Write for Pieces {
        fn write(&mut self, text: &[u8]) -> std::io::Result<usize> {
            self.0.push(text.len());
            Ok(text.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let (_parent, path) = result(5000);
    let mut pieces = Pieces::default();
    export_result(&path, None, &mut pieces).unwrap();
    // The header, then 64 KiB and at most one more line at a time, then the rest.
    let sizes = &pieces.0[1..];
    let (last, full) = sizes.split_last().unwrap();
    assert!(full.len() >= 2, "{sizes:?}");
    for size in full {
        assert!((65_536..65_536 + 200).contains(size), "{sizes:?}");
    }
    assert!(*last < 65_536, "{sizes:?}");
}

#[test]
fn a_result_without_datapoints_exports_its_header() {
    let (_parent, path) = result(0);
    let mut text = Vec::new();
    assert_eq!(export_result(&path, None, &mut text).unwrap(), 0);
    let text = String::from_utf8(text).unwrap();
    assert_eq!(text.lines().count(), 1);
    assert!(text.starts_with("time_ns,cpu,source,"), "{text}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn one_changed_byte_never_panics(place in any::<prop::sample::Index>(), value in any::<u8>()) {
        thread_local! {
            static WHOLE: Vec<u8> = {
                let (_parent, path) = result(300);
                fs::read(path.join("datapoints.parquet")).unwrap()
            };
        }
        let mut bytes = WHOLE.with(Clone::clone);
        let at = place.index(bytes.len());
        bytes[at] = value;
        let _ = read::read_parquet(Bytes::from(bytes));
    }

    #[test]
    fn random_bytes_are_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(read::read_parquet(Bytes::from(bytes.clone())).is_err());
        prop_assert!(read::read_description(&bytes).is_err());
        prop_assert!(read::read_info_yml(&bytes).is_err());
        prop_assert!(read::read_wult_csv(bytes.as_slice(), None).is_err());
        prop_assert!(read::read_csv(bytes.as_slice()).is_err());
    }
}
