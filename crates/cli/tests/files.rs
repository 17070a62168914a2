//! Output files among existing ones: a run changes nothing that it did not create, whatever has the
//! name of an output, and whoever created it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::hash::{DefaultHasher, Hasher};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, lchown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::program::{as_nobody, reveille, run};
use crate::suspended;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::stat::Mode;
use nix::unistd::{geteuid, mkfifo};
use reveille_alone::{Part, Use, take, take_to_change};
use reveille_results::{Datapoint, First, ResultFolder, Source, WokenBy};

/// Far longer than any run, even on a loaded machine: it catches endless ones.
const PATIENCE: Duration = Duration::from_secs(120);
/// The user who called sudo.
const NOBODY: u32 = 65534;
/// A user who plants files in the way.
const MALLORY: u32 = 12345;
const OUTSIDE: &str = "not to be touched";

/// A command that writes files.
struct Writes {
    name: &'static str,
    /// The arguments, for this folder of output and this folder of input.
    arguments: fn(&Path, &Path) -> Vec<OsString>,
    /// Files that exist only while it runs.
    passing: &'static [&'static str],
    /// Does it replace a regular file of the same owner?
    replaces: bool,
}

fn words(words: &[&str]) -> Vec<OsString> {
    words.iter().map(OsString::from).collect()
}

const WRITES: [Writes; 10] = [
    Writes {
        name: "measure",
        arguments: |out, _| {
            let mut words = words(&["measure", "--probe", "user", "--duration", "1s", "--out"]);
            words.push(out.into());
            words
        },
        passing: &["datapoints.partial.csv"],
        replaces: false,
    },
    Writes {
        name: "cost",
        arguments: |out, _| {
            let mut words = words(&["cost", "--stacks", "--out"]);
            words.extend([out.into(), "--".into(), "true".into()]);
            words
        },
        passing: &[],
        replaces: false,
    },
    Writes {
        name: "path",
        arguments: |out, _| {
            let mut words = words(&[
                "path",
                "--ping",
                "--duration",
                "5s",
                "--count",
                "1",
                "--out",
            ]);
            words.push(out.into());
            words
        },
        passing: &[],
        replaces: false,
    },
    Writes {
        name: "trial",
        arguments: |out, _| {
            let mut words = words(&["trial", "--rounds", "1", "--settle", "0s", "--out"]);
            words.extend([out.into(), "--".into(), "true".into()]);
            words
        },
        passing: &[],
        replaces: false,
    },
    Writes {
        name: "anticipate bench",
        arguments: |out, input| {
            let mut words = words(&[
                "anticipate",
                "bench",
                "--rounds",
                "1",
                "--ios",
                "5",
                "--warm-up",
                "0",
                "--gaps",
                "0",
                "--policies",
                "as-is",
                "--file-size",
                "1MiB",
                "--dir",
            ]);
            words.extend([input.into(), "--out".into(), out.into()]);
            words
        },
        passing: &[],
        replaces: false,
    },
    Writes {
        name: "report",
        arguments: |out, input| {
            let mut words = words(&["report"]);
            words.extend([
                input.join("result").into(),
                "-o".into(),
                out.join("page").into(),
            ]);
            words
        },
        passing: &[],
        replaces: true,
    },
    Writes {
        name: "resume analyze",
        arguments: |out, input| {
            let mut words = words(&["resume", "analyze"]);
            words.extend([
                input.join("dmesg").into(),
                "--out".into(),
                out.join("page").into(),
            ]);
            words
        },
        passing: &[],
        replaces: true,
    },
    Writes {
        name: "model sweep",
        arguments: |out, _| {
            let mut words = words(&["model", "sweep", "--out"]);
            words.push(out.join("page").into());
            words
        },
        passing: &[],
        replaces: true,
    },
    Writes {
        name: "export",
        arguments: |out, input| {
            let mut words = words(&["export", "--csv"]);
            words.extend([
                input.join("result").into(),
                "-o".into(),
                out.join("csv").into(),
            ]);
            words
        },
        passing: &[],
        replaces: false,
    },
    Writes {
        name: "manual",
        arguments: |out, _| vec!["manual".into(), out.into()],
        passing: &[],
        replaces: true,
    },
];

/// What already has an output's name.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Planted {
    Link,
    DanglingLink,
    HardLink,
    Fifo,
    FolderWithAFile,
    FileOfAnother,
}

const PLANTED: [Planted; 6] = [
    Planted::Link,
    Planted::DanglingLink,
    Planted::HardLink,
    Planted::Fifo,
    Planted::FolderWithAFile,
    Planted::FileOfAnother,
];

/// An output folder, a folder beside it that must not change, and an input folder.
struct Place {
    scratch: tempfile::TempDir,
    owner: u32,
}

impl Place {
    fn new(owner: u32) -> Self {
        // On a disk: elsewhere a benchmark's file is refused.
        let scratch = tempfile::tempdir_in("/var/tmp").unwrap();
        let open = |path: &Path| fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
        open(scratch.path());
        let place = Self { scratch, owner };
        for folder in ["out", "outside", "input"] {
            let folder = place.path(folder);
            fs::create_dir(&folder).unwrap();
            open(&folder);
        }
        place.give(&place.path("out"));
        make_result(&place.path("input/result"));
        fs::write(place.path("input/dmesg"), suspended::dmesg(1)).unwrap();
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    fn give(&self, path: &Path) {
        lchown(path, Some(self.owner), Some(self.owner)).unwrap();
    }

    /// Puts it under this name into the output folder.
    fn plant(&self, planted: Planted, name: &str) {
        let path = self.path("out").join(name);
        let folder = path.parent().unwrap();
        for above in folder.ancestors().take_while(|above| !above.exists()) {
            fs::create_dir_all(above).unwrap();
            self.give(above);
        }
        let outside = self.path("outside").join(name.replace('/', "-"));
        match planted {
            Planted::Link => {
                fs::write(&outside, OUTSIDE).unwrap();
                symlink(&outside, &path).unwrap();
            }
            Planted::DanglingLink => symlink(&outside, &path).unwrap(),
            Planted::HardLink => {
                fs::write(&outside, OUTSIDE).unwrap();
                // One that the user may write.
                self.give(&outside);
                fs::hard_link(&outside, &path).unwrap();
            }
            Planted::Fifo => mkfifo(&path, Mode::from_bits_truncate(0o666)).unwrap(),
            Planted::FolderWithAFile => {
                fs::create_dir(&path).unwrap();
                fs::write(path.join("file"), OUTSIDE).unwrap();
                self.give(&path.join("file"));
            }
            Planted::FileOfAnother => {
                fs::write(&path, OUTSIDE).unwrap();
                fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
                chown(&path, Some(MALLORY + 1), None).unwrap();
                return;
            }
        }
        self.give(&path);
    }

    /// Every file below `out` and `outside`, with everything that could have changed about it.
    fn state(&self) -> BTreeMap<PathBuf, String> {
        let mut state = BTreeMap::new();
        for folder in ["out", "outside"] {
            note(&self.path(folder), &mut state);
        }
        state
    }

    /// Names of all files below `out`.
    fn made(&self) -> Vec<String> {
        let out = self.path("out");
        let files = self.state().into_keys().filter(|path| path.is_file());
        let names =
            files.filter_map(|path| Some(path.strip_prefix(&out).ok()?.to_str()?.to_owned()));
        names.collect()
    }

    fn command(&self, writes: &Writes) -> Command {
        let mut command = reveille();
        command
            .args((writes.arguments)(&self.path("out"), &self.path("input")))
            .current_dir(self.path("input"))
            .env_remove("SUDO_UID")
            .env_remove("SUDO_GID");
        if self.owner == NOBODY {
            command
                .env("SUDO_UID", NOBODY.to_string())
                .env("SUDO_GID", NOBODY.to_string());
        }
        command
    }
}

fn note(path: &Path, state: &mut BTreeMap<PathBuf, String>) {
    let about = fs::symlink_metadata(path).unwrap();
    let kind = about.file_type();
    let content = match (kind.is_symlink(), kind.is_file()) {
        (true, _) => format!("{:?}", fs::read_link(path).unwrap()),
        (_, true) => {
            let mut hasher = DefaultHasher::new();
            hasher.write(&fs::read(path).unwrap());
            format!("{} bytes {:x}", about.len(), hasher.finish())
        }
        _ => String::new(),
    };
    // A folder's time changes when files are created in it.
    let changed = match kind.is_dir() {
        true => String::new(),
        false => format!("{}.{}", about.mtime(), about.mtime_nsec()),
    };
    let (mode, uid, gid) = (about.mode(), about.uid(), about.gid());
    state.insert(
        path.to_owned(),
        format!("{mode:o} {uid} {gid} {changed} {content}"),
    );
    if kind.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            note(&entry.unwrap().path(), state);
        }
    }
}

fn make_result(path: &Path) {
    let folder = ResultFolder::create(path).unwrap();
    let mut writer = folder.writer(&[]).unwrap();
    for launch in 0..50 {
        let datapoint = Datapoint {
            time_ns: launch * 1000,
            cpu: 0,
            source: Source::Timer,
            woken_by: WokenBy::Interrupt,
            requested_state_index: Some(1),
            requested_state: Some("C1".into()),
            launch_distance_ns: 100_000,
            launch_error_ns: None,
            launch_clock: None,
            silent_time_ns: Some(50_000),
            wake_latency_ns: 2000 + launch,
            interrupt_latency_ns: None,
            first: First::AfterIdle,
            smi_count: None,
            nmi_count: None,
            interrupt_count: None,
            softirq_count: None,
            round: None,
            residency_percent: Vec::new(),
        };
        writer.push(&datapoint).unwrap();
    }
    writer.finish().unwrap();
}

/// Runs it to its end, and returns how it ended; `None` if it would never end.
fn ended(command: &mut Command) -> Option<(i32, String)> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        if child.try_wait().unwrap().is_some() {
            let output = child.wait_with_output().unwrap();
            let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
            return Some((output.status.code().unwrap_or(-1), stderr));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    None
}

/// What `path` follows, while it lives.
struct Pings(std::process::Child);

impl Pings {
    fn start() -> Self {
        const PING: &str =
            "while :; do busybox ping -c 1 127.0.0.1; sleep 0.05; done >/dev/null 2>&1";
        let mut command = Command::new("sh");
        Self(command.args(["-c", PING]).spawn().unwrap())
    }
}

impl Drop for Pings {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Commands that this machine cannot run are not tried with planted files.
fn clean_run(writes: &Writes, owner: u32) -> Option<Vec<String>> {
    let place = Place::new(owner);
    let (code, stderr) = ended(&mut place.command(writes)).unwrap();
    if code == 3 || stderr.contains("no ICMP echo request") {
        println!("skipped: {}: {stderr}", writes.name);
        return None;
    }
    // On a busy CPU `measure` may keep no datapoint; it still writes its files.
    let busy = code == 1 && stderr.contains("no datapoint: ");
    assert!(code == 0 || busy, "{}: {code}: {stderr}", writes.name);
    let mut made = place.made();
    assert!(!made.is_empty(), "{}", writes.name);
    for (path, about) in place.state() {
        let expected = format!(" {owner} {owner} ");
        let is_ours = path.strip_prefix(place.path("out")).is_ok();
        let is_written_for_the_user = owner == NOBODY;
        if is_ours && is_written_for_the_user {
            assert!(
                about.contains(&expected),
                "{}: {path:?}: {about}",
                writes.name
            );
        }
    }
    made.extend(writes.passing.iter().map(|name| (*name).to_owned()));
    // Man pages and completions are written in the same way.
    if made.len() > 8 {
        made = made.into_iter().step_by(9).collect();
    }
    Some(made)
}

fn leaves_alone(writes: &Writes, owner: u32, planted: Planted, name: &str) {
    let place = Place::new(owner);
    fs::write(place.path("out/somebody's"), OUTSIDE).unwrap();
    place.plant(planted, name);
    // Predictable names.
    for ending in ["partial", "unfinished", "next", "tmp"] {
        let (stem, _) = name.rsplit_once('.').unwrap_or((name, ""));
        place.plant(Planted::Link, &format!("{name}.{ending}"));
        if stem != name {
            place.plant(Planted::Link, &format!("{stem}.{ending}"));
        }
    }
    let before = place.state();
    let case = format!("{} for {owner}: {name}: {planted:?}", writes.name);
    let Some((_, stderr)) = ended(&mut place.command(writes)) else {
        panic!("{case}: it hangs");
    };
    let after = place.state();
    for (path, about) in &before {
        let is_replaced = writes.replaces
            && planted == Planted::HardLink
            && *path == place.path("out").join(name);
        if !is_replaced {
            assert_eq!(after.get(path), Some(about), "{case}: {path:?}: {stderr}");
        }
    }
    let outside = place.path("outside");
    let new = after
        .keys()
        .find(|path| path.starts_with(&outside) && !before.contains_key(*path));
    assert_eq!(new, None, "{case}: {stderr}");
    let left = after.keys().find(|path| {
        path.to_string_lossy().ends_with(".unfinished") && !before.contains_key(*path)
    });
    assert_eq!(left, None, "{case}: {stderr}");
}

#[test]
fn an_existing_file_with_an_outputs_name_is_kept_and_not_written_through() {
    if !geteuid().is_root() {
        return println!("skipped: an_existing_file_with_an_outputs_name...: needs root");
    }
    let _pings = Pings::start();
    std::thread::scope(|scope| {
        for writes in &WRITES {
            scope.spawn(|| keeps_existing_files(writes));
        }
    });
}

fn keeps_existing_files(writes: &Writes) {
    // measure does for its floor.
    let changes_settings = matches!(writes.name, "measure" | "trial" | "anticipate bench");
    let _held = match changes_settings {
        true => match take_to_change(&[Use::Alone(Part::IdleStates)]) {
            Some(held) => held,
            None => return,
        },
        false => take(&[]),
    };
    for owner in [NOBODY, MALLORY] {
        let Some(names) = clean_run(writes, owner) else {
            continue;
        };
        for name in &names {
            for planted in PLANTED {
                leaves_alone(writes, owner, planted, name);
            }
        }
    }
}

/// As the user nobody, in nobody's folder with other users' files in it.
fn as_nobody_among_files(test: &str) -> Option<(tempfile::TempDir, Command, PathBuf)> {
    let Some((folder, command)) = as_nobody() else {
        println!("skipped: {test}: needs root");
        return None;
    };
    let full = folder.path().join("full");
    fs::create_dir_all(full.join("below")).unwrap();
    for name in ["notes.txt", "below/letter.txt"] {
        fs::write(full.join(name), OUTSIDE).unwrap();
    }
    for path in [&full, &full.join("below"), &full.join("notes.txt")] {
        chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    Some((folder, command, full))
}

fn are_there(full: &Path) {
    for name in ["notes.txt", "below/letter.txt"] {
        assert_eq!(
            fs::read_to_string(full.join(name)).unwrap(),
            OUTSIDE,
            "{name}"
        );
    }
}

#[test]
fn a_failed_measurement_keeps_an_existing_folder() {
    for out in ["full", "."] {
        let test = "a_failed_measurement_keeps_an_existing_folder";
        let Some((_folder, mut command, full)) = as_nobody_among_files(test) else {
            return;
        };
        let out = if out == "full" {
            full.clone()
        } else {
            out.into()
        };
        command
            .args(["measure", "--probe", "bpf", "--duration", "1s", "--out"])
            .arg(&out);
        let ended = run(command.current_dir(&full));
        assert_eq!(ended.code, 3, "{}", ended.stderr);
        are_there(&full);
        assert_eq!(fs::read_dir(&full).unwrap().count(), 2, "{}", ended.stderr);
    }
}

#[test]
fn an_unwritable_folder_is_refused_before_the_work() {
    let test = "an_unwritable_folder_is_refused_before_the_work";
    let Some((_folder, mut command, full)) = as_nobody_among_files(test) else {
        return;
    };
    fs::set_permissions(&full, Permissions::from_mode(0o555)).unwrap();
    command
        .args(["measure", "--probe", "user", "--duration", "10min", "--out"])
        .arg(&full);
    let (code, stderr) = ended(&mut command).unwrap();
    assert_eq!((code, stderr.lines().count()), (2, 1), "{stderr}");
    assert!(stderr.contains("Permission denied"), "{stderr}");
    are_there(&full);
}

#[test]
fn a_folder_removed_meanwhile_is_an_error_and_its_replacement_is_kept() {
    if !geteuid().is_root() {
        return println!("skipped: a_folder_removed_meanwhile...: needs root");
    }
    let Some(_held) = take_to_change(&[Use::Alone(Part::IdleStates)]) else {
        return;
    };
    let scratch = tempfile::tempdir().unwrap();
    let out = scratch.path().join("out");
    let shown = out.display();
    for script in [
        format!("rmdir {shown}"),
        format!("rmdir {shown}; mkdir {shown}; echo mine > {shown}/trial.json"),
    ] {
        let mut command = reveille();
        command.args([
            "trial",
            "--rounds",
            "1",
            "--settle",
            "0s",
            "--settings",
            "as-is,no-sleep",
        ]);
        command.arg("--out").arg(&out).args([
            "--",
            "sh",
            "-c",
            &format!("test ! -d {shown} || {{ {script}; }}"),
        ]);
        let (code, stderr) = ended(&mut command).unwrap();
        if code == 3 {
            return println!("skipped: a_folder_removed_meanwhile...: {stderr}");
        }
        assert_eq!((code, stderr.lines().count()), (2, 1), "{stderr}");
        assert!(stderr.contains("trial.json"), "{stderr}");
    }
    assert_eq!(
        fs::read_to_string(out.join("trial.json")).unwrap(),
        "mine\n"
    );
    assert_eq!(fs::read_dir(&out).unwrap().count(), 1);
}

/// A small disk with another user's file on it.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn new() -> Result<Self, String> {
        if !geteuid().is_root() {
            return Err("needs root".into());
        }
        let disk = Self(tempfile::tempdir().unwrap());
        mount(
            Some("none"),
            disk.0.path(),
            Some("tmpfs"),
            MsFlags::empty(),
            Some("size=64k"),
        )
        .map_err(|error| format!("no tmpfs: {error}"))?;
        fs::write(disk.0.path().join("mine"), vec![b'x'; 60 << 10]).unwrap();
        Ok(disk)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = umount2(self.0.path(), MntFlags::MNT_DETACH);
    }
}

#[test]
fn a_full_disk_leaves_no_partial_file_and_existing_ones_stay() {
    let disk = match SmallDisk::new() {
        Ok(disk) => disk,
        Err(why) => return println!("skipped: a_full_disk_leaves_no_partial_file...: {why}"),
    };
    let place = Place::new(0);
    let out = disk.0.path();
    for writes in &WRITES {
        // These write less than the remaining space, or write as they go.
        if ["trial", "path", "cost", "anticipate bench", "export"].contains(&writes.name) {
            continue;
        }
        let mut command = reveille();
        command.args((writes.arguments)(out, &place.path("input")));
        let (code, stderr) = ended(&mut command).unwrap();
        assert_ne!(code, 0, "{}", writes.name);
        assert!(
            stderr.contains("No space left"),
            "{}: {stderr}",
            writes.name
        );
        let names = fs::read_dir(out)
            .unwrap()
            .map(|entry| entry.unwrap().file_name());
        let half: Vec<_> = names
            .filter(|name| name.to_string_lossy().contains("unfinished"))
            .collect();
        assert!(half.is_empty(), "{}: {half:?}", writes.name);
        assert_eq!(fs::read(out.join("mine")).unwrap(), vec![b'x'; 60 << 10]);
    }
}

#[test]
fn under_sudo_files_belong_to_the_owner_of_their_place() {
    if !geteuid().is_root() {
        return println!("skipped: under_sudo_files_belong_to...: needs root");
    }
    let place = Place::new(NOBODY);
    let private = place.path("out/root's");
    fs::create_dir(&private).unwrap();
    fs::set_permissions(&private, Permissions::from_mode(0o700)).unwrap();
    fs::write(place.path("out/kept by root"), OUTSIDE).unwrap();
    fs::set_permissions(
        place.path("out/kept by root"),
        Permissions::from_mode(0o600),
    )
    .unwrap();
    let before = place.state();
    for (folder, owner) in [("out/a/b", NOBODY), ("out/root's/a", 0)] {
        let mut command = reveille();
        command
            .args(["report", "-o"])
            .arg(place.path(folder).join("page"))
            .arg(place.path("input/result"))
            .env("SUDO_UID", NOBODY.to_string())
            .env("SUDO_GID", NOBODY.to_string());
        // A page is put into an existing folder.
        assert_eq!(run(&mut command).code, 2);
        let mut manual = reveille();
        manual.arg("manual").arg(place.path(folder));
        manual
            .env("SUDO_UID", NOBODY.to_string())
            .env("SUDO_GID", NOBODY.to_string());
        let ended = run(&mut manual);
        assert_eq!(ended.code, 0, "{}", ended.stderr);
        let ended = run(&mut command);
        assert_eq!(ended.code, 0, "{}", ended.stderr);
        for made in ["page", "man1", "man1/reveille.1", ""] {
            let about = fs::metadata(place.path(folder).join(made)).unwrap();
            assert_eq!(
                (about.uid(), about.gid()),
                (owner, owner),
                "{folder}: {made}"
            );
        }
    }
    let after = place.state();
    for (path, about) in before {
        assert_eq!(after.get(&path), Some(&about), "{path:?}");
    }
}

#[test]
fn by_default_root_writes_no_folder_of_another_user_and_names_the_option() {
    if !geteuid().is_root() {
        return println!("skipped: by_default_root_writes_no_folder...: needs root");
    }
    let place = Place::new(MALLORY);
    make_result(&place.path("out/result"));
    place.give(&place.path("out/result"));
    let before = place.state();
    for arguments in [
        &["measure", "--duration", "10min"][..],
        &["report", "result"],
    ] {
        let mut command = reveille();
        command
            .args(arguments)
            .current_dir(place.path("out"))
            .env_remove("SUDO_UID");
        let (code, stderr) = ended(&mut command).unwrap();
        assert_eq!((code, stderr.lines().count()), (2, 1), "{stderr}");
        assert!(
            stderr.contains("belongs to user 12345") && stderr.contains("--out"),
            "{stderr}"
        );
        assert_eq!(place.state(), before);
    }
    let mut command = reveille();
    command
        .args(["report", "result", "-o", "page"])
        .current_dir(place.path("out"));
    let ended = run(command.env_remove("SUDO_UID"));
    assert_eq!(ended.code, 0, "{}", ended.stderr);
}

#[test]
fn a_page_goes_to_the_named_stream() {
    // Under sudo the calling user may not access root's descriptors.
    for user in [None, Some(NOBODY)] {
        goes_to_streams(user);
    }
}

fn goes_to_streams(user: Option<u32>) {
    let place = tempfile::tempdir().unwrap();
    make_result(&place.path().join("result"));
    let page = |output: &str, to: Stdio| {
        let mut command = reveille();
        command.env_remove("SUDO_UID");
        if let Some(user) = user {
            command.env("SUDO_UID", user.to_string());
        }
        command
            .args(["report", "result", "-o", output])
            .current_dir(place.path());
        let output = command.stdout(to).stderr(Stdio::piped()).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{stderr}");
        output.stdout
    };
    for stdout in ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"] {
        assert!(
            page(stdout, Stdio::piped()).starts_with(b"<!doctype html>"),
            "{stdout}"
        );
    }
    let file = fs::File::create(place.path().join("redirected")).unwrap();
    // Like /dev/stdout, which is the machine's.
    symlink("/proc/self/fd/1", place.path().join("stdout")).unwrap();
    page("stdout", file.into());
    let redirected = fs::read(place.path().join("redirected")).unwrap();
    assert!(redirected.starts_with(b"<!doctype html>"));
    page("/dev/null", Stdio::null());
    assert!(!fs::metadata("/dev/null").unwrap().is_file());
}

/// Its output to a terminal, including standard error; without styles.
fn in_a_terminal(arguments: &[OsString]) -> String {
    let terminal = nix::pty::openpty(None, None).unwrap();
    let end = || Stdio::from(terminal.slave.try_clone().unwrap());
    let mut command = reveille();
    command
        .args(arguments)
        .env("NO_COLOR", "1")
        .stdin(Stdio::null())
        .stdout(end())
        .stderr(end());
    let mut child = command.spawn().unwrap();
    drop(command);
    drop(terminal.slave);
    let mut text = Vec::new();
    // The end is an error (EIO): the terminal has no reader left.
    let _ = fs::File::from(terminal.master).read_to_end(&mut text);
    child.wait().unwrap();
    String::from_utf8(text).unwrap().replace("\r\n", "\n")
}

#[test]
fn foreign_names_cannot_control_the_terminal() {
    let place = tempfile::tempdir().unwrap();
    let hostile = "\x1b]0;owned\x07\u{9b}31m\u{202e}\nreveille: all is well";
    make_result(&place.path().join(hostile));
    let log = place.path().join(format!("{hostile}.log"));
    fs::write(&log, suspended::dmesg(1)).unwrap();
    let missing: OsString = place.path().join(format!("{hostile}.missing")).into();
    for arguments in [
        vec!["report".into(), place.path().join(hostile).into()],
        vec!["report".into(), missing.clone()],
        vec!["resume".into(), "analyze".into(), log.clone().into()],
        vec!["resume".into(), "analyze".into(), missing.clone()],
        vec![
            "resume".into(),
            "analyze".into(),
            "--json".into(),
            log.into(),
        ],
        vec!["cost".into(), "--".into(), missing.clone()],
        vec!["measure".into(), hostile.into()],
        vec!["export".into(), "--csv".into(), missing],
    ] {
        let text = in_a_terminal(&arguments);
        assert!(text.contains("\\u202e"), "{arguments:?}: {text}");
        let order = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
        assert!(!text.contains(order), "{arguments:?}: {text:?}");
        if text.starts_with("reveille:") {
            assert_eq!(text.lines().count(), 1, "{arguments:?}: {text}");
        }
    }
}
