//! `reveille doctor` on the machine that runs the tests, as the current user and as nobody.

use std::os::unix::process::CommandExt;
use std::process::Command;

use reveille_alone::{Part, Use, take};
use serde_json::Value;

fn doctor(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_reveille"));
    command.arg("doctor").args(arguments);
    command
}

fn text(mut command: Command) -> String {
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn it_ends_with_what_a_measurement_will_use() {
    for arguments in [&[][..], &["--all"], &["--missing"]] {
        let shown = text(doctor(arguments));
        let plan = shown.find("reveille measure uses: the ").expect(&shown);
        assert!(shown[plan..].lines().count() <= 2, "{shown}");
    }
}

#[test]
fn with_all_every_feature_is_listed_by_subject() {
    let shown = text(doctor(&["--all"]));
    for heading in [
        "This user",
        "BPF",
        "Tracepoints",
        "Idle states and their limits",
        "The machine",
    ] {
        assert!(
            shown.lines().any(|line| line == heading),
            "{heading}: {shown}"
        );
    }
    assert!(
        shown.lines().all(|line| line.chars().count() <= 100),
        "{shown}"
    );
    assert!(!shown.contains('\x1b'), "colours are for terminals");
    let missing = text(doctor(&["--missing"]));
    assert!(!missing.contains("\n  yes "), "{missing}");
    assert!(shown.lines().count() > missing.lines().count(), "{shown}");
}

#[test]
fn what_matters_fits_a_small_terminal() {
    let shown = text(doctor(&[]));
    assert!(shown.contains("; --all lists them"), "{shown}");
    assert!(shown.lines().count() < 24, "{shown}");
}

#[test]
fn json_has_the_cost_and_remedy_of_every_missing_feature() {
    let _held = take(&[Use::Beside(Part::IdleStates)]);
    let json: Value = serde_json::from_str(&text(doctor(&["--json"]))).unwrap();
    let features = json["features"].as_array().unwrap();
    assert!(features.len() > 30);
    for feature in features {
        let present = feature["present"].as_str().unwrap();
        assert!(
            ["yes", "no", "denied", "unknown"].contains(&present),
            "{feature}"
        );
        for field in ["name", "group", "detail", "costs", "brings"] {
            assert!(feature[field].is_string(), "{field}: {feature}");
        }
    }
    let probe = &json["measure_will_use"]["probe"];
    assert!(probe == "bpf" || probe == "user", "{probe}");

    // Others hold bounds meanwhile: what was missing before is to be missing after.
    let absent = || {
        let json: Value = serde_json::from_str(&text(doctor(&["--json"]))).unwrap();
        let features = json["features"].as_array().unwrap().iter();
        let absent = features.filter(|feature| feature["present"] != "yes");
        absent.cloned().collect::<Vec<_>>()
    };
    let (missing, absent) = (0..20)
        .find_map(|_| {
            let before = absent();
            let missing = text(doctor(&["--json", "--missing"]));
            (absent() == before).then_some((missing, before))
        })
        .expect("nothing changes for a moment");
    let missing: Value = serde_json::from_str(&missing).unwrap();
    let named = |features: &[Value]| -> Vec<Value> {
        features
            .iter()
            .map(|feature| feature["name"].clone())
            .collect()
    };
    assert_eq!(
        named(missing["features"].as_array().unwrap()),
        named(&absent)
    );
    // A skipped feature is missing from the list, not from the plan.
    assert_eq!(probe, &json["measure_will_use"]["probe"]);
}

#[test]
fn a_low_default_descriptor_limit_does_not_prevent_measuring() {
    let plan = |command: Command| -> Value {
        let json: Value = serde_json::from_str(&text(command)).unwrap();
        json["measure_will_use"]["instead_of_bpf"].clone()
    };
    let mut few = doctor(&["--json"]);
    let before_exec = || {
        use nix::sys::resource::{Resource, getrlimit, setrlimit};
        let (_, most) = getrlimit(Resource::RLIMIT_NOFILE)?;
        Ok(setrlimit(Resource::RLIMIT_NOFILE, 12, most)?)
    };
    // SAFETY: between fork and exec only system calls are made.
    unsafe { few.pre_exec(before_exec) };
    assert_eq!(plan(few), plan(doctor(&["--json"])));
}

#[test]
fn too_few_descriptors_are_the_reported_reason() {
    if !nix::unistd::geteuid().is_root() {
        return println!("skipped: nobody has BPF without root");
    }
    let mut few = doctor(&["--json"]);
    let before_exec = || {
        use nix::sys::resource::{Resource, setrlimit};
        Ok(setrlimit(Resource::RLIMIT_NOFILE, 12, 12)?)
    };
    // SAFETY: between fork and exec only system calls are made.
    unsafe { few.pre_exec(before_exec) };
    let shown = text(few);
    assert!(shown.contains("ulimit -n"), "{shown}");
    assert!(!shown.contains("`reveille doctor`"), "{shown}");
}

#[test]
fn a_user_without_rights_sees_what_root_would_add() {
    if !nix::unistd::geteuid().is_root() {
        return println!("skipped: only root can become nobody");
    }
    let _held = take(&[Use::Beside(Part::IdleStates)]);
    // The user nobody may not read the build's folder.
    let folder = tempfile::Builder::new()
        .permissions(open_to_all())
        .tempdir_in("/tmp")
        .unwrap();
    let program = folder.path().join("reveille");
    // By a separate process, so that no other test's child has it open for writing.
    let copied = Command::new("cp")
        .arg(env!("CARGO_BIN_EXE_reveille"))
        .arg(&program)
        .status();
    assert!(copied.unwrap().success());
    let mut command = Command::new(&program);
    const NOBODY: u32 = 65534;
    command.arg("doctor").uid(NOBODY).gid(NOBODY);
    let shown = text(command);
    assert!(shown.contains("user 65534"), "{shown}");
    assert!(shown.contains("Available as root: "), "{shown}");
    assert!(shown.contains("--all lists them"), "{shown}");
    assert!(
        shown.contains("reveille measure uses: the user probe (BPF lacks: "),
        "{shown}"
    );
}

fn open_to_all() -> std::fs::Permissions {
    std::os::unix::fs::PermissionsExt::from_mode(0o755)
}
