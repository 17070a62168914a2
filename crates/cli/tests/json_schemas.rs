//! The fields of `--json` are those that `json_schemas/COMMAND` lists: scripts rely on them. Those of `path`,
//! which needs traffic, are those of kept ones; `resume capture` prints those of `resume analyze`. Those of
//! `trial`, of benchmarks and of `power` are looked at where tests run them. Not covered is `anticipate` itself, which
//! needs applications.
//!
//! A line is a field's path; `[]` is any member of a list, `{}` any key of a map. `?` at its end:
//! only some runs have it. For a new field, add its line; `make/accept cli json_schemas` writes
//! the files.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::made_up;
use crate::meter;
use crate::recorded::recorded;
use reveille_alone::{Part, Use, take};
use serde_json::{Deserializer, Value};

/// Objects whose keys are data.
const MAPS: [&str; 5] = [
    "counts.dropped",
    "settings",
    "by_cpu[].leaving_by_state_ns",
    "groups[].causes",
    "readers.names",
];

/// The printed fields, and the objects (or lists of objects) that contain them.
#[derive(Default)]
struct Printed {
    fields: BTreeSet<String>,
    objects: BTreeSet<String>,
}

impl Printed {
    /// The field is missing although its object was printed: an object that is null has no fields.
    fn lacks(&self, field: &str) -> bool {
        let object = field.rsplit_once('.').map_or("", |(object, _)| object);
        let is_key = field.ends_with("{}");
        self.objects.contains(object) && !self.fields.contains(field) && !is_key
    }
}

fn gather(value: &Value, path: &str, printed: &mut Printed) {
    match value {
        Value::Array(members) => {
            for member in members {
                gather(member, &format!("{path}[]"), printed);
            }
        }
        Value::Object(members) => {
            printed.objects.insert(path.to_owned());
            for (key, member) in members {
                let key = if MAPS.contains(&path) { "{}" } else { key };
                let dot = if path.is_empty() { "" } else { "." };
                let path = format!("{path}{dot}{key}");
                gather(member, &path, printed);
                printed.fields.insert(path);
            }
        }
        _ => {}
    }
}

fn file(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/json_schemas");
    folder.join(name)
}

/// Compares the fields of the command's output.
fn check(name: &str, command: &mut Command) {
    let output = command.output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(3) {
        return println!("skipped: the fields of {name}: {error}");
    }
    if output.stdout.is_empty() && meter::is_disturbed(&error) {
        return println!("skipped: the fields of {name}: {error}");
    }
    // A measurement on a busy CPU prints its JSON, and fails.
    assert!(!output.stdout.is_empty(), "{name}: {error}");
    let values = Deserializer::from_slice(&output.stdout).into_iter::<Value>();
    let values: Vec<Value> = values.map(Result::unwrap).collect();
    matches(name, &values);
}

/// Compares the fields of what a command printed.
pub fn matches(name: &str, values: &[Value]) {
    let mut printed = Printed::default();
    for value in values {
        gather(value, "", &mut printed);
    }
    let file = file(name);
    let listed = std::fs::read_to_string(&file).unwrap_or_default();
    if reveille_snapshot::is_accepting() {
        let mut fields = printed.fields;
        // What only some runs have, and this one may have not.
        for line in listed.lines().filter(|line| line.ends_with('?')) {
            fields.remove(line.trim_end_matches('?'));
            fields.insert(line.to_owned());
        }
        let lines: Vec<String> = fields.into_iter().collect();
        return std::fs::write(&file, lines.join("\n") + "\n").unwrap();
    }
    let mut missing: Vec<&str> = listed.lines().filter(|line| !line.ends_with('?')).collect();
    missing.retain(|field| printed.lacks(field));
    assert!(missing.is_empty(), "{name} no longer has {missing:?}");
    let known = |field: &String| {
        listed
            .lines()
            .any(|line| line.trim_end_matches('?') == field)
    };
    let new: Vec<&String> = printed
        .fields
        .iter()
        .filter(|field| !known(field))
        .collect();
    assert!(new.is_empty(), "{}: add {new:?}", file.display());
}

fn reveille() -> Command {
    Command::new(env!("CARGO_BIN_EXE_reveille"))
}

fn words(line: &str) -> Command {
    let mut command = reveille();
    command.args(line.split(' '));
    command
}

#[test]
fn recorded_machines_match_their_schemas() {
    for (name, line) in [
        ("states", "states --json --root"),
        ("hold", "hold --latency 150us --json --dry-run --root"),
        ("limit", "limit --deepest C1_ACPI --json --dry-run --root"),
    ] {
        let Some(machine) = recorded("rpl0") else {
            return;
        };
        check(name, words(line).arg(machine.path()));
    }
}

#[test]
fn a_result_matches_its_schemas() {
    let folder = tempfile::tempdir().unwrap();
    let states = [(1, "C1", 3), (2, "C1E", 30), (3, "C6", 90)];
    let states = states.map(|(index, name, us)| (index, name, us, 3000));
    let result = made_up::result_of(folder.path(), &states);
    let advise = |flags: &str| {
        let mut command = reveille();
        command.arg("advise").arg(&result).args(flags.split(' '));
        command
    };
    check("advise", &mut advise("--budget 50us --json"));
    check("advise-table", &mut advise("--table --json"));
}

#[test]
fn a_meter_matches_its_schema() {
    let name = meter::made_up(std::time::Duration::from_millis(20), || 40.0);
    let mut command = words("power meters --json --time 300ms --meter");
    check("power-meters", command.arg(name));
}

#[test]
fn the_account_of_a_proxy_matches_its_schema() {
    let mut command = Command::new("timeout");
    command
        .args(["--preserve-status", "--signal=TERM", "--kill-after=20", "1"])
        .arg(env!("CARGO_BIN_EXE_reveille"))
        .args([
            "stage",
            "--listen",
            "127.0.0.1:0",
            "--upstream",
            "http://127.0.0.1:9",
        ])
        .args(["--deadline", "1s", "--json"]);
    check("stage", &mut command);
}

#[test]
fn a_log_matches_its_schemas() {
    let log = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/logs/abreu.txt");
    if !log.exists() {
        return println!("skipped: the fields of resume analyze: no logs at ../shared/logs");
    }
    check("resume-analyze", words("resume analyze --json").arg(log));
}

#[test]
fn kept_paths_match_their_schema() {
    for kept in [
        "../../docs/example/results/path.json",
        "tests/pages/path.json",
    ] {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(kept);
        check("path", words("show --json").arg(file));
    }
}

#[test]
fn models_match_their_schemas() {
    check(
        "model-run",
        &mut words("model run --json --utilisation 0.2"),
    );
    check("model-sweep", &mut words("model sweep --json"));
    check(
        "model-simulate",
        &mut words("model simulate --json --servers 4 --requests 20000"),
    );
    let log = Path::new(env!("CARGO_MANIFEST_DIR")).join("../resume/tests/logs/6.12-dmesg.txt");
    let analysis = words("resume analyze --json").arg(log).output().unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&file, analysis.stdout).unwrap();
    check("model-from", words("model from --json").arg(file.path()));
}

#[test]
fn measurements_of_this_machine_match_their_schemas() {
    let _held = take(&[Use::Beside(Part::IdleStates), Use::Alone(Part::Cpus)]);
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let line = "measure --probe user --datapoints 30 --distance 200us..1ms --json --out";
    check("measure", words(line).arg(folder.path().join("result")));
    check("top", &mut words("top --json --count 2 --interval 200ms"));
    check("doctor", &mut words("doctor --json"));
    let naps = "for i in 1 2 3 4 5 6 7 8; do sleep 0.02; done >&2";
    check("cost", words("cost --json -- sh -c").arg(naps));
    check("quiet-find", &mut words("quiet find --duration 1s --json"));
}
