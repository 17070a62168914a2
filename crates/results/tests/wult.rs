//! Results of wult are read with our names and units, and errors in them are reported.

use std::fs;
use std::path::Path;

use reveille_results::{Columns, Loaded, Malformed, NULL, in_parts, open, open_columns, read};

const INFO: &str = "cpu: 3\ndevdescr: TSC deadline timer\ndevid: tdt\nformat_version: '1.2'\n\
                    reportid: first try\nresolution: 1\ntoolname: wult\ntoolver: 1.11.22\n";

const HEADER: &str = "WakeLatency,SilentTime,IntrLatency,IntrOff,LDist,ReqCState,CC0%,\
                      CC1Derived%,CC1%,CC6%,PC2%,PC6%,SMICnt,NMICnt\n";

/// The first lines of the test data in wult's own repository, and one that was woken by the
/// interrupt.
const LINES: &str = "\
4.1797981021053525,1746.30360946498,7.903527106738778,1,1757.788,C6,0.33,0.00,1.25,92.63,77.08,0.00,0,0
3.4180123568775187,3757.994327923707,6.894495110866822,0,3775.651,C1,0.16,9.64,48.81,48.49,23.99,17.72,0,2
";

fn wult(info: &str, csv: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("info.yml"), info).unwrap();
    fs::write(folder.path().join("datapoints.csv"), csv).unwrap();
    folder
}

fn in_microseconds(csv: &[u8]) -> Result<Loaded, Malformed> {
    let info = read::read_info_yml(b"toolname: wult\nformat_version: 1.3\n").unwrap();
    read::read_wult_csv(csv, Some(&info))
}

fn name<'a>(columns: &'a Columns, column: &str, row: usize) -> &'a str {
    let (codes, names) = columns.names(column).unwrap();
    &names[usize::from(codes[row])]
}

#[test]
fn a_result_is_read_in_nanoseconds_under_our_names() {
    let folder = wult(INFO, &format!("{HEADER}{LINES}"));
    let loaded = open(folder.path()).unwrap();
    let (description, columns) = (&loaded.description, &loaded.columns);
    assert_eq!(description.tool, "wult 1.11.22");
    assert_eq!(description.name, "first try");
    assert_eq!(description.settings.cpu, Some(3));
    assert_eq!(
        description.residency_columns,
        [
            "cc0_percent",
            "cc1_derived_percent",
            "cc1_percent",
            "cc6_percent",
            "pc2_percent",
            "pc6_percent"
        ]
    );
    assert_eq!(columns.rows, 2);
    assert_eq!(columns.integers("wake_latency_ns"), Some(&[4180, 3418][..]));
    assert_eq!(
        columns.integers("silent_time_ns"),
        Some(&[1_746_304, 3_757_994][..])
    );
    assert_eq!(
        columns.integers("interrupt_latency_ns"),
        Some(&[7904, 6894][..])
    );
    assert_eq!(
        columns.integers("launch_distance_ns"),
        Some(&[1_757_788, 3_775_651][..])
    );
    assert_eq!(columns.integers("nmi_count"), Some(&[0, 2][..]));
    assert_eq!(columns.percents("cc6_percent"), Some(&[92.63, 48.49][..]));
    assert_eq!(name(columns, "requested_state", 1), "C1");
    assert_eq!(
        (name(columns, "first", 0), name(columns, "first", 1)),
        ("after_idle", "interrupt")
    );
    assert_eq!(name(columns, "source", 0), "timer");
}

#[test]
fn a_csv_file_alone_is_a_result() {
    let folder = wult(INFO, &format!("{HEADER}{LINES}"));
    let path = folder.path().join("datapoints.csv");
    let all = open_columns(folder.path(), &["wake_latency_ns", "source"]).unwrap();
    assert_eq!(all.columns.columns.len(), 2);
    // With its info.yml beside it; then without.
    assert_eq!(open(&path).unwrap(), open(folder.path()).unwrap());
    fs::remove_file(folder.path().join("info.yml")).unwrap();
    let loaded = open_columns(&path, &["wake_latency_ns", "source"]).unwrap();
    assert_eq!(loaded.description.name, "datapoints");
    assert_eq!(loaded.columns.columns.len(), 1);
}

#[test]
fn many_blocks_are_read_in_order_with_all_their_names() {
    let mut csv = "WakeLatency,ReqCState\n".to_owned();
    let rows = 400_000;
    for row in 0..rows {
        // Each block starts with another name.
        csv.push_str(&format!("{row}.5,S{}\n", (row / 1000) % 200));
    }
    let loaded = in_microseconds(csv.as_bytes()).unwrap();
    let latencies = loaded.columns.integers("wake_latency_ns").unwrap();
    assert!(
        latencies
            .iter()
            .copied()
            .eq((0..rows).map(|row| row * 1000 + 500))
    );
    for row in (0..rows as usize).step_by(777) {
        let expected = format!("S{}", (row / 1000) % 200);
        assert_eq!(name(&loaded.columns, "requested_state", row), expected);
    }
}

fn complaint(csv: &str) -> String {
    in_microseconds(csv.as_bytes()).unwrap_err().to_string()
}

#[test]
fn an_invalid_line_is_reported_by_number() {
    assert_eq!(
        complaint("WakeLatency,LDist\n1,2\n3\n4,5\n"),
        "line 3: has 1 fields, expected 2 as in the header"
    );
    assert_eq!(
        complaint("WakeLatency,LDist\n1,2\n3,4,5\n"),
        "line 3: has more than the 2 fields of the header"
    );
    assert_eq!(
        complaint("WakeLatency,LDist\n1,x\n"),
        "line 2: column LDist: expected a number, found \"x\""
    );
    assert_eq!(
        complaint("WakeLatency\n1e40\n"),
        "line 2: column WakeLatency: expected a number within 64 bits, found \"1e40\""
    );
    assert_eq!(
        complaint("WakeLatency\nnan\n"),
        "line 2: column WakeLatency: expected a number, found \"nan\""
    );
    assert_eq!(
        complaint("WakeLatency,IntrOff\n1,2\n"),
        "line 2: column IntrOff: expected 0 or 1, found \"2\""
    );
    // Far into the file, where other threads read: the line number is still right.
    let mut csv = "WakeLatency,LDist\n".to_owned();
    for _ in 0..500_000 {
        csv.push_str("1.5,2.5\n");
    }
    csv.push_str("oops,1\n1,1\n");
    assert!(
        complaint(&csv).starts_with("line 500002: "),
        "{}",
        complaint(&csv)
    );
}

#[test]
fn an_invalid_header_is_reported() {
    assert!(complaint("").starts_with("is empty"));
    assert!(complaint("\n\n").starts_with("is empty"));
    assert!(complaint("a,b\n1,2\n").contains("expected a column WakeLatency"));
    assert!(complaint("WakeLatency,WakeLatency\n").contains("two columns are named"));
    assert!(complaint("WakeLatency,CC6%,cc6%\n1,2,3\n").contains("two columns mean cc6_percent"));
    let long = format!("WakeLatency{}", ",x".repeat(1 << 20));
    assert!(complaint(&long).contains("longer than 65536 bytes"));
    assert!(complaint("\u{0}\u{1}\n").contains("expected a column"));
    let bytes: &[u8] = b"\xff\xfe\n1\n";
    assert!(
        in_microseconds(bytes)
            .unwrap_err()
            .to_string()
            .contains("is not text")
    );
    let endless = format!("WakeLatency\n{}", "1".repeat(3 << 20));
    assert!(complaint(&endless).contains("is longer than"));
}

#[test]
fn a_file_that_ends_within_a_datapoint_is_read_up_to_there() {
    let loaded = in_microseconds(&b"WakeLatency,LDist\n1,2\n3,4\n5"[..]).unwrap();
    assert_eq!(
        loaded.columns.integers("wake_latency_ns"),
        Some(&[1000, 3000][..])
    );
    assert_eq!(
        loaded.columns.integers("launch_distance_ns"),
        Some(&[2000, 4000][..])
    );
    assert!(
        loaded
            .description
            .notes
            .iter()
            .any(|note| note.contains("ended within"))
    );
    // Without the newline the last line may be complete.
    let loaded = in_microseconds(&b"WakeLatency,LDist\r\n1,\r\n3,4"[..]).unwrap();
    assert_eq!(
        loaded.columns.integers("launch_distance_ns"),
        Some(&[NULL, 4000][..])
    );
}

#[test]
fn another_tools_info_file_is_refused() {
    let complaint = |text: &str| {
        read::read_info_yml(text.as_bytes())
            .unwrap_err()
            .to_string()
    };
    assert!(complaint("").contains("no key toolname"));
    assert!(complaint("toolname: ndl\nformat_version: '1.3'\n").contains("only wult"));
    assert!(
        complaint("toolname: wult\nformat_version: '1.4'\n").contains("reads 1.0, 1.1, 1.2, 1.3")
    );
    // Not a number, but a name: 1.10 and 1.03 are none of the four.
    for other in ["1.10", "1.03", "1", "2.0"] {
        let info = format!("toolname: wult\nformat_version: {other}\n");
        assert!(complaint(&info).contains("reads 1.0, "), "{other}");
    }
    assert!(complaint("toolname: wult\n").contains("reads 1.0, 1.1, 1.2, 1.3"));
    let info = read::read_info_yml(
        b"---\n# x\ntoolname: \"wult\" # y\nformat_version: 1.3\nlist:\n - a: b\n",
    )
    .unwrap();
    assert_eq!(info.get("toolname").map(String::as_str), Some("wult"));
    assert_eq!(info.get("format_version").map(String::as_str), Some("1.3"));
    assert!(!info.contains_key("- a"));
}

fn refused(path: &Path) -> String {
    let why = open(path).unwrap_err().to_string();
    assert_eq!(why.lines().count(), 1, "{why}");
    assert!(why.starts_with(&path.display().to_string()), "{why}");
    why
}

#[test]
fn other_files_get_one_line() {
    let folder = wult(INFO, "");
    refused(folder.path());
    fs::remove_file(folder.path().join("datapoints.csv")).unwrap();
    refused(folder.path());
    fs::create_dir(folder.path().join("datapoints.csv")).unwrap();
    assert!(refused(folder.path()).contains("is not a regular file"));
    fs::remove_dir(folder.path().join("datapoints.csv")).unwrap();
    std::os::unix::fs::symlink("/dev/null", folder.path().join("datapoints.csv")).unwrap();
    assert!(refused(folder.path()).contains("is not a regular file"));
    assert!(refused(Path::new("/dev/null")).contains("neither a folder nor a regular file"));
    assert!(refused(Path::new("/no/such/result")).contains("No such file"));
}

#[test]
fn a_streamed_wult_result_has_the_columns_of_an_opened_one() {
    let folder = wult(INFO, &format!("{HEADER}{LINES}"));
    let whole = open(folder.path()).unwrap().columns;
    let mut parts = Vec::new();
    in_parts(folder.path(), |part| {
        parts.push(part.clone());
        Ok(())
    })
    .unwrap();
    assert_eq!(parts, [whole]);
    // Without a datapoint the columns still exist, once.
    let empty = wult(INFO, HEADER);
    let mut rows = Vec::new();
    in_parts(empty.path(), |part| {
        assert!(part.integers("wake_latency_ns").is_some());
        rows.push(part.rows);
        Ok(())
    })
    .unwrap();
    assert_eq!(rows, [0]);
}

/// The header and the first datapoint of the test data that wult's repository had at format 1.0
/// (f9951e41), and a second one.
const FORMAT_1_0: &str = "\
SilentTime,WakeLatency,LDist,ReqCState,TotCyc,CC0Cyc,CC1Cyc,CC6Cyc,PC2Cyc,CC0%,CC1%,CC6%,PC2%
712011,52366,3919903,C6,2638690,52377,167791,2418522,246534,1.98,6.36,91.66,9.34
1200,2040,500000,C1,100,90,10,0,0,90.00,10.00,0.00,0.00
";

fn info(format: &str, more: &str) -> String {
    format!(
        "format_version: '{format}'\nreportid: testdata\ntoolname: wult\ntoolver: 1.8.0\ncpunum: 0\n\
         {more}"
    )
}

#[test]
fn format_1_0_is_in_nanoseconds_and_the_later_ones_in_microseconds() {
    let folder = wult(&info("1.0", "devid: tsc-deadline-timer\n"), FORMAT_1_0);
    let columns = open(folder.path()).unwrap().columns;
    assert_eq!(
        columns.integers("wake_latency_ns"),
        Some(&[52_366, 2040][..])
    );
    assert_eq!(
        columns.integers("silent_time_ns"),
        Some(&[712_011, 1200][..])
    );
    assert_eq!(
        columns.integers("launch_distance_ns"),
        Some(&[3_919_903, 500_000][..])
    );
    assert_eq!(columns.percents("cc6_percent"), Some(&[91.66, 0.0][..]));
    assert_eq!(name(&columns, "source", 0), "timer");
    // In parts, and by the path of the CSV itself.
    let csv = folder.path().join("datapoints.csv");
    in_parts(&csv, |part| {
        assert_eq!(part, &columns);
        Ok(())
    })
    .unwrap();
    assert_eq!(open(&csv).unwrap().columns, columns);
    for later in ["1.1", "1.2", "1.3"] {
        let folder = wult(&info(later, ""), FORMAT_1_0);
        let columns = open(folder.path()).unwrap().columns;
        assert_eq!(
            columns.integers("wake_latency_ns"),
            Some(&[52_366_000, 2_040_000][..]),
            "{later}"
        );
    }
}

#[test]
fn fractions_in_format_1_0_are_refused_since_a_later_wult_may_have_converted_them() {
    for fraction in ["52.366", "52366.0", "5e4"] {
        let csv = FORMAT_1_0.replace("52366", fraction);
        let folder = wult(&info("1.0", ""), &csv);
        let why = refused(folder.path());
        assert!(
            why.contains("line 2: column WakeLatency: expected whole nanoseconds"),
            "{why}"
        );
    }
}

#[test]
fn a_csv_alone_is_read_only_if_its_columns_determine_the_unit() {
    let folder = tempfile::tempdir().unwrap();
    let csv = folder.path().join("alone.csv");
    fs::write(&csv, FORMAT_1_0).unwrap();
    let why = refused(&csv);
    assert!(why.contains("the unit of the times is unknown"), "{why}");
    let why = in_parts(&csv, |_| Ok(())).unwrap_err().to_string();
    assert!(why.contains("the unit of the times is unknown"), "{why}");
    fs::write(&csv, format!("{HEADER}{LINES}")).unwrap();
    let columns = open(&csv).unwrap().columns;
    assert_eq!(columns.integers("wake_latency_ns"), Some(&[4180, 3418][..]));
}

#[test]
fn a_run_that_measured_only_interrupts_is_refused() {
    let csv = "WakeLatency,IntrLatency,ReqCState\n0,7.5,C6\n";
    let folder = wult(&info("1.2", "intr_focus: true\n"), csv);
    let why = refused(folder.path());
    assert!(why.contains("intr_focus"), "{why}");
    let folder = wult(&info("1.2", "intr_focus: false\n"), csv);
    open(folder.path()).unwrap();
}

#[test]
fn columns_that_changed_meaning_are_read_with_their_old_one() {
    let csv =
        "WakeLatency,IntrLatency,ReqCState,DerivedCC1%,CStates%,NMICnt\n5.5,7.5,C6,12.5,90,3\n";
    let folder = wult(&info("1.1", "devid: tdt\n"), csv);
    let loaded = open(folder.path()).unwrap();
    let columns = &loaded.columns;
    assert_eq!(
        columns.percents("cc1_derived_percent"),
        Some(&[12.5_f32][..])
    );
    assert_eq!(
        loaded.description.residency_columns,
        ["cc1_derived_percent"]
    );
    // NMIs and SMIs together; another timer's interrupt.
    assert_eq!(columns.integers("nmi_count"), None);
    assert_eq!(columns.integers("interrupt_latency_ns"), None);
    let notes = loaded.description.notes.join(" ");
    assert!(notes.contains("NMICnt was not read"), "{notes}");
    assert!(notes.contains("interrupt latency was not read"), "{notes}");
    assert!(notes.contains("not read: CStates%"), "{notes}");
    // If the meaning is known they exist.
    let both = csv.replace("CStates%", "SMICnt");
    let with_fix = info("1.2", "devid: tdt\n").replace("1.8.0", "1.10.59");
    let columns = open(wult(&with_fix, &both).path()).unwrap().columns;
    assert_eq!(columns.integers("nmi_count"), Some(&[3][..]));
    assert_eq!(columns.integers("interrupt_latency_ns"), Some(&[7500][..]));
    let of_another_device = info("1.1", "devid: '0000:04:00.0'\n");
    let columns = open(wult(&of_another_device, csv).path()).unwrap().columns;
    assert_eq!(columns.integers("interrupt_latency_ns"), Some(&[7500][..]));
}

#[test]
fn only_known_devices_give_the_source() {
    for (device, source) in [
        ("tdt", Some("timer")),
        ("hrt_bpf", Some("timer")),
        ("hrt-bpf", Some("timer")),
        ("tdt_bpf", Some("timer")),
        ("'0000:04:00.0'", Some("nic")),
        ("'04:00.1'", Some("nic")),
        ("quantum", None),
    ] {
        let folder = wult(
            &info("1.3", &format!("devid: {device}\n")),
            "WakeLatency,IntrOff\n5.5,1\n",
        );
        let columns = open(folder.path()).unwrap().columns;
        let is = columns.names("source").map(|(_, names)| names[0].as_str());
        assert_eq!(is, source, "{device}");
    }
}

#[test]
fn a_description_has_the_fields_of_the_info_file_and_notes_on_the_rest() {
    const METHOD: &str = "Measured by wult: its wake latency ends after idle also where the \
                          interrupt's handler ran first.";
    let csv = "WakeLatency,Weather,CC6%,Mood\n1.5,sunny,50,good\n2.5,dull,60,bad\n3";
    let folder = wult(
        "toolname: wult\nformat_version: 1.3\ntoolver: 1.12.20\nreportid: 'night # 2'\n\
         date: 1 Jan 2024 12:30 # a Monday\nhostname: ant\ncpunum: 7\ncpu: 8\ndevid: hrt\n\
         devdescr: a kernel timer\nresolution: 1\nearly_intr: True\nnote:none\n",
        csv,
    );
    let described = open(folder.path()).unwrap().description;
    assert_eq!(described.tool, "wult 1.12.20");
    assert_eq!(described.name, "night # 2");
    assert_eq!(described.started, "1 Jan 2024 12:30");
    assert_eq!(described.machine.hostname.as_deref(), Some("ant"));
    assert_eq!(described.settings.cpu, Some(7));
    assert_eq!(described.settings.sources, ["timer"]);
    assert_eq!(described.settings.arming, "a kernel timer");
    assert_eq!((described.counts.kept, described.counts.launched), (2, 0));
    assert_eq!(described.residency_columns, ["cc6_percent"]);
    assert_eq!(
        described.notes,
        [
            "Measured with wult's early_intr: interrupts were enabled before the idle state, which \
             the kernel does not do by itself.",
            "The resolution of wult's device: 1 ns.",
            METHOD,
            "Columns that were not read: Weather, Mood.",
            "The file ended within a datapoint, which was left out.",
        ]
    );

    // Keys without a value are like missing keys; the older key of the CPU, and no device.
    let empty = "toolname: wult\nformat_version: 1.3\ntoolver:\nreportid:\ndate: ''\nhostname:\n\
                 cpunum:\ncpu: 5\ndevid: tdt\ndevdescr:\nresolution:\nearly_intr: false\n";
    let folder = wult(empty, "WakeLatency,CC6%\n1.5,50\n");
    let described = open(folder.path()).unwrap().description;
    assert_eq!(described.tool, "wult");
    let name = folder.path().file_name().unwrap().to_string_lossy();
    assert_eq!(described.name, name);
    assert_eq!(described.started, "");
    assert_eq!(described.machine.hostname, None);
    assert_eq!(
        (described.settings.cpu, described.counts.kept),
        (Some(5), 1)
    );
    assert_eq!(described.settings.arming, "tdt");
    assert_eq!(described.notes, [METHOD]);

    let folder = wult(&empty.replace("cpu: 5", "cpu:"), "WakeLatency\n1.5\n");
    let described = open(folder.path()).unwrap().description;
    assert_eq!(
        described.notes,
        ["Which CPU was measured is unknown.", METHOD]
    );
    let alone = folder.path().join("alone.csv");
    fs::write(&alone, "WakeLatency,IntrOff\n1.5,1\n").unwrap();
    let described = open(&alone).unwrap().description;
    assert_eq!((&*described.tool, &*described.name), ("wult", "alone"));
    assert_eq!(described.settings.cpu, None);
    assert_eq!(described.settings.cpu_name(), "an unknown CPU");
    assert_eq!(
        described.notes,
        [
            "A CSV file alone: machine and settings are unknown.",
            METHOD
        ]
    );
    assert!(described.settings.sources.is_empty());
}

#[test]
fn a_pci_address_identifies_a_network_card() {
    for (device, is_card) in [
        ("0000:04:00.0", true),
        ("04:00.1", true),
        ("ffff:ff:1f.7", true),
        ("", false),
        ("04:00", false),
        ("04.1", false),
        ("0:0000:04:00.0", false),
        ("zz:00.0", false),
        ("04:zz.0", false),
        ("04:00.x", false),
        ("04:00.", false),
        (":00.0", false),
        ("04:.0", false),
    ] {
        let folder = wult(
            &info("1.3", &format!("devid: '{device}'\n")),
            "WakeLatency\n5.5\n",
        );
        let loaded = open(folder.path()).unwrap();
        let names = loaded.columns.names("source").map(|(_, names)| &names[0]);
        let source = is_card.then(|| "nic".to_owned());
        assert_eq!(names, source.as_ref(), "{device:?}");
        assert_eq!(
            loaded.description.settings.sources,
            source.into_iter().collect::<Vec<_>>()
        );
    }
    for timer in [
        "tdt",
        "tdt_bpf",
        "tsc-deadline-timer",
        "hrt",
        "hrtimer",
        "hrt-bpf",
        "hrt_bpf",
    ] {
        let folder = wult(
            &info("1.3", &format!("devid: {timer}\n")),
            "WakeLatency\n5.5\n",
        );
        let sources = open(folder.path()).unwrap().description.settings.sources;
        assert_eq!(sources, ["timer"], "{timer}");
    }
}

#[test]
fn only_states_with_alphanumeric_names_have_shares() {
    let header = "WakeLatency,CC1%,PC10%,CC1Derived%,%,Derived%,a b%,CC_6%,CC6,CC6%%";
    let csv = format!("{header}\n5,1,2,3,4,5,6,7,8,9\n");
    let loaded = in_microseconds(csv.as_bytes()).unwrap();
    let shares = ["cc1_percent", "pc10_percent", "cc1_derived_percent"];
    assert_eq!(loaded.description.residency_columns, shares);
    assert_eq!(
        shares.map(|share| loaded.columns.percents(share).unwrap()[0]),
        [1.0, 2.0, 3.0]
    );
    assert_eq!(loaded.columns.columns.len(), 4);
    let notes = loaded.description.notes.join(" ");
    assert!(
        notes.contains("Columns that were not read: %, Derived%, a b%, CC_6%, CC6, CC6%%."),
        "{notes}"
    );
}

#[test]
fn each_column_of_wults_is_read_in_our_unit() {
    let columns = [
        ("SilentTime", "silent_time_ns", 1500),
        ("IntrLatency", "interrupt_latency_ns", 1500),
        ("LDist", "launch_distance_ns", 1500),
        ("SMICnt", "smi_count", 2),
        ("NMICnt", "nmi_count", 2),
        ("SWIRQCnt", "softirq_count", 2),
        ("WakeLatencyRaw", "wake_latency_raw_ns", 1500),
        ("IntrLatencyRaw", "interrupt_latency_raw_ns", 1500),
        ("WarmupDelay", "warmup_delay_ns", 1500),
        ("LatchDelay", "latch_delay_ns", 1500),
        ("CPUFreq", "cpu_frequency_khz", 1500),
    ];
    let header: Vec<&str> = columns.iter().map(|(theirs, _, _)| *theirs).collect();
    let value = |ours: &str| if ours.ends_with("count") { "2" } else { "1.5" };
    let values: Vec<&str> = columns.iter().map(|(_, ours, _)| value(ours)).collect();
    // Only the wake latency is mandatory in each datapoint.
    let csv = format!(
        "WakeLatency,{}\n1.5,{}\n2,{}\n",
        header.join(","),
        values.join(","),
        ",".repeat(header.len() - 1)
    );
    let loaded = in_microseconds(csv.as_bytes()).unwrap().columns;
    assert_eq!(loaded.integers("wake_latency_ns"), Some(&[1500, 2000][..]));
    for (_, ours, expected) in columns {
        assert_eq!(loaded.integers(ours), Some(&[expected, NULL][..]), "{ours}");
    }
    assert_eq!(
        complaint("WakeLatency,LDist\n,5\n"),
        "line 2: column WakeLatency: expected a number, found \"\""
    );
}
