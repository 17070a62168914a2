//! Live bounds: set without the lock, restored whatever happens.

use std::fs;
use std::path::Path;

use super::{Journal, Slot, recover};
use crate::pm_qos::file_of;
use crate::{Root, requests};

/// A machine of two CPUs, and its journal's folder.
fn machine() -> (tempfile::TempDir, Root) {
    let folder = tempfile::tempdir().unwrap();
    let root = Root::at(folder.path());
    for cpu in [0, 1] {
        let path = root.path(&file_of(cpu));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "0\n").unwrap();
    }
    (folder, root)
}

/// The setting; a file of a test keeps what a shorter value leaves of a longer one, as sysfs does not.
fn setting(root: &Root, cpu: u32) -> String {
    let text = root.text(&file_of(cpu)).unwrap();
    text.lines().next().unwrap_or_default().to_owned()
}

fn put(root: &Root, cpu: u32, value: &str) {
    fs::write(root.path(&file_of(cpu)), format!("{value}\n")).unwrap();
}

fn run(folder: &Path) -> std::path::PathBuf {
    folder.join("run")
}

/// As if the process of the claims had been killed.
fn killed(folder: &Path, root: &Root, value: &str) {
    let (run, copy) = (run(folder), folder.join("copy"));
    fs::create_dir(&copy).unwrap();
    let mut journal = Journal::new(root, &run);
    let bounds = journal.live_bounds(&[0, 1]).unwrap();
    assert_eq!(bounds[0].set(Some(50)).unwrap(), Slot::Ours);
    put(root, 0, value);
    for entry in fs::read_dir(&run).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, copy.join(path.file_name().unwrap())).unwrap();
    }
    drop(bounds);
    drop(journal);
    put(root, 0, value);
    for entry in fs::read_dir(&copy).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, run.join(path.file_name().unwrap())).unwrap();
    }
    let file = run.join("settings.json");
    let text = fs::read_to_string(&file).unwrap();
    let started = text.split("\"started\":").nth(1).unwrap();
    let started = started.split(',').next().unwrap();
    let text = text.replace(&format!("\"started\":{started}"), "\"started\":1");
    let pidfd = text.split("\"pidfd\":").nth(1).unwrap();
    let pidfd = pidfd.split(',').next().unwrap().to_owned();
    let text = text.replace(&format!("\"pidfd\":{pidfd}"), "\"pidfd\":null");
    fs::write(file, text).unwrap();
}

#[test]
fn a_bound_is_set_and_taken_back_without_the_journals_lock() {
    let (folder, root) = machine();
    let mut journal = Journal::new(&root, &run(folder.path()));
    let bounds = journal.live_bounds(&[0, 1]).unwrap();
    assert_eq!(bounds[1].set(Some(0)).unwrap(), Slot::Ours);
    assert_eq!(setting(&root, 1), "n/a");
    assert_eq!(setting(&root, 0), "0");
    put(&root, 1, "n/a");
    assert_eq!(bounds[1].set(None).unwrap(), Slot::Ours);
    assert!(setting(&root, 1).starts_with('0'));
}

#[test]
fn anothers_value_is_left_alone() {
    let (folder, root) = machine();
    let mut journal = Journal::new(&root, &run(folder.path()));
    let bounds = journal.live_bounds(&[0]).unwrap();
    put(&root, 0, "20");
    let anothers = Slot::Anothers("20".into());
    assert_eq!(bounds[0].set(Some(50)).unwrap(), anothers);
    assert_eq!(bounds[0].set(None).unwrap(), anothers);
    drop(bounds);
    journal.restore();
    assert_eq!(setting(&root, 0), "20");
}

#[test]
fn a_value_that_was_there_before_is_called_anothers_and_not_a_change() {
    let (folder, root) = machine();
    put(&root, 0, "20");
    let mut journal = Journal::new(&root, &run(folder.path()));
    let bounds = journal.live_bounds(&[0, 1]).unwrap();
    bounds[0].set(Some(50)).unwrap();
    drop(bounds);
    let path = root.path(&file_of(0)).display().to_string();
    let complaints = journal.restore().complaints();
    assert!(
        complaints.len() == 1 && complaints[0].starts_with(&path) && complaints[0].contains("20"),
        "{complaints:?}"
    );
    assert_eq!(setting(&root, 0), "20");
}

#[test]
fn after_kill_9_the_next_start_takes_the_bound_back() {
    let (folder, root) = machine();
    killed(folder.path(), &root, "50");
    let seen = super::only_look(&root, &run(folder.path()), |_| true).unwrap();
    assert_eq!(
        seen.failed.len(),
        1,
        "a user hears of what is left: {seen:?}"
    );
    let restored = recover(&root, &run(folder.path())).unwrap();
    let undone = restored.undone.iter().map(|change| &change.path);
    let undone: Vec<_> = undone.collect();
    assert_eq!(undone, [&root.path(&file_of(0))], "CPU 1 had no bound");
    assert_eq!(setting(&root, 0), "0");
    let left = fs::read_dir(run(folder.path())).unwrap().count();
    assert_eq!(left, 0, "nothing is left in the folder");
}

#[test]
fn the_journal_does_not_grow_with_time() {
    let (folder, root) = machine();
    let run = run(folder.path());
    let mut journal = Journal::new(&root, &run);
    let bounds = journal.live_bounds(&[0]).unwrap();
    let size = || fs::metadata(run.join("settings.json")).unwrap().len();
    let mut sizes = Vec::new();
    for us in 100..120 {
        bounds[0].set(Some(us)).unwrap();
        put(&root, 0, &us.to_string());
        // Another run's claims rewrite the file.
        let mut other = Journal::new(&root, &run);
        requests::bound_cpus(&mut other, &root, &[1], 20).unwrap();
        sizes.push(size());
    }
    // Numbers of journals get longer.
    assert!(sizes[19] <= sizes[0] + 4, "{sizes:?}");
}

#[test]
fn after_kill_9_anothers_value_stays() {
    let (folder, root) = machine();
    killed(folder.path(), &root, "20");
    recover(&root, &run(folder.path())).unwrap();
    assert_eq!(setting(&root, 0), "20");
}

#[test]
fn a_hold_of_another_run_ends_with_the_bound_that_the_service_wants() {
    let (folder, root) = machine();
    let run = run(folder.path());
    let mut service = Journal::new(&root, &run);
    let bounds = service.live_bounds(&[0]).unwrap();
    bounds[0].set(Some(50)).unwrap();
    put(&root, 0, "50");
    let mut hold = Journal::new(&root, &run);
    requests::bound_cpus(&mut hold, &root, &[0], 20).unwrap();
    assert_eq!(setting(&root, 0), "20");
    drop(hold);
    assert_eq!(setting(&root, 0), "50");
    bounds[0].set(None).unwrap();
    assert!(setting(&root, 0).starts_with('0'));
}

#[test]
fn anothers_equal_value_stays_when_the_bound_is_taken_back() {
    let (folder, root) = machine();
    let mut journal = Journal::new(&root, &run(folder.path()));
    let bounds = journal.live_bounds(&[0]).unwrap();
    put(&root, 0, "50");
    assert_eq!(bounds[0].set(Some(50)).unwrap(), Slot::Ours);
    bounds[0].set(None).unwrap();
    assert_eq!(setting(&root, 0), "50");
    drop(bounds);
    journal.restore();
    assert_eq!(setting(&root, 0), "50");
}

#[test]
fn a_program_that_saves_and_restores_our_value_gives_it_back() {
    let (folder, root) = machine();
    let mut journal = Journal::new(&root, &run(folder.path()));
    let bounds = journal.live_bounds(&[0]).unwrap();
    bounds[0].set(Some(20)).unwrap();
    put(&root, 0, "5");
    for _ in 0..3 {
        let anothers = Slot::Anothers("5".into());
        assert_eq!(bounds[0].set(Some(50)).unwrap(), anothers);
    }
    put(&root, 0, "20");
    bounds[0].set(None).unwrap();
    assert!(setting(&root, 0).starts_with('0'));
}

#[test]
fn a_looser_hold_outlasts_the_bound_that_was_tighter() {
    let (folder, root) = machine();
    let run = run(folder.path());
    let mut service = Journal::new(&root, &run);
    let bounds = service.live_bounds(&[0]).unwrap();
    bounds[0].set(Some(50)).unwrap();
    put(&root, 0, "50");
    let mut hold = Journal::new(&root, &run);
    requests::bound_cpus(&mut hold, &root, &[0], 100).unwrap();
    assert_eq!(setting(&root, 0), "50", "the tightest counts");
    bounds[0].set(None).unwrap();
    assert_eq!(setting(&root, 0), "100", "the hold stays");
    bounds[0].set(Some(20)).unwrap();
    assert_eq!(setting(&root, 0), "20");
    drop(hold);
    assert_eq!(setting(&root, 0), "20");
    bounds[0].set(None).unwrap();
    assert!(setting(&root, 0).starts_with('0'));
}

#[test]
fn holds_that_come_and_go_beside_bursts_leave_nothing() {
    let (folder, root) = machine();
    let run = run(folder.path());
    let mut service = Journal::new(&root, &run);
    let bounds = service.live_bounds(&[0]).unwrap();
    // On a busy machine the lock may be the holds' for longer than is waited for it.
    let set = |bound| while bounds[0].set(bound).is_err() {};
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for us in 0..3000 {
                // The lengths of the texts are one: a file keeps what a shorter one leaves.
                let bound = (us % 3 > 0).then_some(2 + us % 3);
                for _ in 0..2 {
                    set(bound);
                }
            }
            set(None);
        });
        for us in 0..100 {
            let mut hold = Journal::new(&root, &run);
            requests::bound_cpus(&mut hold, &root, &[0], 5 + us % 4).unwrap();
            let restored = hold.restore();
            assert_eq!(restored.foreign, [], "{us}");
        }
    });
    assert_eq!(setting(&root, 0), "0");
    assert_eq!(service.restore().complaints(), Vec::<String>::new());
}

/// What is left when everything has ended.
fn left(folder: &Path) -> usize {
    fs::read_dir(run(folder)).map_or(0, Iterator::count)
}

#[test]
fn anothers_value_outlasts_holds_that_come_and_go_beside_a_service() {
    for (theirs, hold_us) in [("20", 10), ("20", 20), ("20", 50), ("n/a", 10)] {
        let (folder, root) = machine();
        let run = run(folder.path());
        let mut service = Journal::new(&root, &run);
        let bounds = service.live_bounds(&[0]).unwrap();
        put(&root, 0, theirs);
        for want in [None, Some(15), None] {
            let mut hold = Journal::new(&root, &run);
            requests::bound_cpus(&mut hold, &root, &[0], hold_us).unwrap();
            bounds[0].set(want).unwrap();
            drop(hold);
            assert_eq!(setting(&root, 0), theirs, "{hold_us}, {want:?}");
            bounds[0].set(None).unwrap();
            assert_eq!(setting(&root, 0), theirs, "{hold_us}, {want:?}");
        }
        drop(bounds);
        service.restore();
        assert_eq!(
            (setting(&root, 0).as_str(), left(folder.path())),
            (theirs, 0)
        );
    }
}

#[test]
fn a_value_that_another_withdrew_does_not_come_back() {
    let (folder, root) = machine();
    let run = run(folder.path());
    let mut service = Journal::new(&root, &run);
    let bounds = service.live_bounds(&[0]).unwrap();
    put(&root, 0, "20");
    let hold = || {
        let mut hold = Journal::new(&root, &run);
        requests::bound_cpus(&mut hold, &root, &[0], 10).unwrap();
        hold
    };
    drop(hold());
    put(&root, 0, "0");
    drop(hold());
    assert_eq!(setting(&root, 0), "0");
    // Withdrawn while it is held: the service's is in force again.
    put(&root, 0, "20");
    let held = hold();
    put(&root, 0, "0");
    assert_eq!(bounds[0].set(Some(50)).unwrap(), Slot::Ours);
    assert_eq!(setting(&root, 0), "50");
    put(&root, 0, "50");
    drop(held);
    bounds[0].set(None).unwrap();
    drop(bounds);
    service.restore();
    assert!(setting(&root, 0).starts_with('0'));
    assert_eq!(left(folder.path()), 0);
}

#[test]
fn of_two_services_the_tighter_bound_is_in_force() {
    let (folder, root) = machine();
    let run = run(folder.path());
    let (mut one, mut other) = (Journal::new(&root, &run), Journal::new(&root, &run));
    let first = one.live_bounds(&[0]).unwrap();
    first[0].set(Some(50)).unwrap();
    put(&root, 0, "50");
    let second = other.live_bounds(&[0]).unwrap();
    for (us, in_force) in [(20, "20"), (80, "50"), (30, "30")] {
        assert_eq!(second[0].set(Some(us)).unwrap(), Slot::Ours);
        assert_eq!(setting(&root, 0), in_force);
    }
    first[0].set(Some(25)).unwrap();
    assert_eq!(setting(&root, 0), "25");
    put(&root, 0, "25");
    // The one that is left writes it alone again.
    drop(first);
    one.restore();
    assert_eq!(setting(&root, 0), "30");
    put(&root, 0, "30");
    second[0].set(None).unwrap();
    drop(second);
    other.restore();
    assert!(setting(&root, 0).starts_with('0'));
    assert_eq!(left(folder.path()), 0);
}

#[test]
fn anothers_value_stays_beside_two_services() {
    let (folder, root) = machine();
    let run = run(folder.path());
    let (mut one, mut other) = (Journal::new(&root, &run), Journal::new(&root, &run));
    let (first, second) = (
        one.live_bounds(&[0]).unwrap(),
        other.live_bounds(&[0]).unwrap(),
    );
    first[0].set(Some(50)).unwrap();
    put(&root, 0, "40");
    let anothers = Slot::Anothers("40".into());
    assert_eq!(second[0].set(Some(20)).unwrap(), anothers);
    assert_eq!(first[0].set(None).unwrap(), anothers);
    drop((first, second));
    one.restore();
    other.restore();
    assert_eq!((setting(&root, 0).as_str(), left(folder.path())), ("40", 0));
}
