use std::fs;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::sync::atomic::{AtomicUsize, Ordering};

use reveille_alone::is_apart;

use super::*;

const DISABLE: &str = "/sys/devices/system/cpu/cpu0/cpuidle/state1/disable";
const BOUND: &str = "/sys/devices/system/cpu/cpu0/power/pm_qos_resume_latency_us";
const ONLINE: &str = "/sys/devices/system/cpu/cpu1/online";
const SLEEP: &str = "/sys/power/mem_sleep";
const INTERRUPT: &str = "/proc/irq/24/smp_affinity_list";

/// A made-up machine, and a folder for its journal.
struct Machine {
    _folder: tempfile::TempDir,
    root: Root,
    run: PathBuf,
}

impl Machine {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let machine = Self {
            root: Root::at(folder.path()),
            run: folder.path().join("run"),
            _folder: folder,
        };
        for (setting, value) in [(DISABLE, "0"), (BOUND, "0"), (ONLINE, "1")] {
            machine.put(setting, value);
        }
        machine
    }

    /// A change by another program.
    fn put(&self, setting: &str, value: &str) {
        let path = self.root.path(setting);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{value}\n")).unwrap();
    }

    fn at(&self, setting: &str) -> String {
        self.root.text(setting).unwrap()
    }

    fn journal(&self) -> Journal {
        Journal::new(&self.root, &self.run)
    }

    fn claim(&self, setting: &str, value: &str) -> Journal {
        let mut journal = self.journal();
        journal.set(setting, value).unwrap();
        journal
    }

    fn recover(&self) -> Restored {
        recover(&self.root, &self.run).unwrap()
    }

    fn release(&self) -> Restored {
        release(&self.root, &self.run, false).unwrap()
    }

    fn is_clean(&self) -> bool {
        fs::read_dir(&self.run).map_or(0, |entries| entries.count()) == 0
    }

    fn page(&self) -> PathBuf {
        self.run.join("settings.json")
    }

    /// Rewrites the claims as another process's.
    fn rewrite(&self, change: impl Fn(&mut Claim)) {
        let Some(mut file) = JournalFile::open(&self.run, false, PATIENCE).unwrap() else {
            return; // it claimed what stood there already
        };
        let claims = file
            .records
            .iter_mut()
            .flat_map(|record| &mut record.claims);
        claims.for_each(change);
        file.save().unwrap();
    }

    /// Simulates that its program was killed.
    fn kill(&self, journal: Journal) {
        let number = journal.number;
        std::mem::forget(journal);
        self.rewrite(|claim| {
            if claim.journal == number {
                claim.owner.gone();
            }
        });
    }

    fn replace_in_page(&self, from: &str, to: &str) {
        let text = fs::read_to_string(self.page()).unwrap();
        assert!(text.contains(from), "{text}");
        fs::write(self.page(), text.replace(from, to)).unwrap();
    }
}

#[test]
fn a_dropped_journal_restores_settings_and_leaves_no_file() {
    let machine = Machine::new();
    let journal = machine.claim(DISABLE, "1");
    assert_eq!(machine.at(DISABLE), "1");
    assert!(!machine.is_clean());
    drop(journal);
    assert_eq!(machine.at(DISABLE), "0");
    assert!(machine.is_clean());
}

#[test]
fn a_setting_set_twice_returns_to_its_first_value() {
    let machine = Machine::new();
    let mut journal = machine.claim(BOUND, "50");
    journal.set(BOUND, "100").unwrap();
    assert_eq!(machine.at(BOUND), "100");
    assert_eq!(journal.restore().undone.len(), 1);
    assert_eq!(machine.at(BOUND), "0");
}

#[test]
fn a_value_changed_by_another_program_is_kept() {
    let machine = Machine::new();
    let mut journal = machine.claim(BOUND, "50");
    machine.put(BOUND, "7");
    let restored = journal.restore();
    assert_eq!(restored.foreign.len(), 1);
    assert_eq!(restored.foreign[0].1, "7");
    assert_eq!(machine.at(BOUND), "7");
    assert!(machine.is_clean());
}

#[test]
fn a_foreign_change_is_the_original_for_later_claims_only() {
    let machine = Machine::new();
    machine.put(SLEEP, "deep");
    let mut first = machine.claim(SLEEP, "s2idle");
    machine.put(SLEEP, "shallow");
    let second = machine.claim(SLEEP, "s2idle");
    assert_eq!(machine.at(SLEEP), "s2idle");
    drop(second);
    // Another program overruled the first claim.
    assert_eq!(machine.at(SLEEP), "shallow");
    assert_eq!(first.restore().foreign.len(), 1);
    assert_eq!(machine.at(SLEEP), "shallow");
    assert!(machine.is_clean());
}

#[test]
fn the_next_start_undoes_a_killed_programs_settings() {
    let machine = Machine::new();
    let journal = machine.claim(DISABLE, "1");
    // While the program runs, its changes stay.
    assert!(machine.recover().is_empty());
    machine.kill(journal);
    assert_eq!(machine.recover().undone.len(), 1);
    assert_eq!(machine.at(DISABLE), "0");
    assert!(machine.is_clean());
    assert!(machine.recover().is_empty());
}

#[test]
fn a_setting_that_cannot_be_restored_stays_in_the_journal() {
    let machine = Machine::new();
    let mut journal = machine.claim(DISABLE, "1");
    fs::remove_file(machine.root.path(DISABLE)).unwrap();
    assert_eq!(journal.restore().failed.len(), 1);
    assert!(!machine.is_clean());
    machine.put(DISABLE, "1");
    assert_eq!(machine.recover().undone.len(), 1);
    assert_eq!(machine.at(DISABLE), "0");
    assert!(machine.is_clean());
}

#[test]
fn an_absent_or_unknown_setting_is_an_error_and_not_created() {
    let machine = Machine::new();
    assert!(machine.journal().set(SLEEP, "deep").is_err());
    assert!(!machine.root.path(SLEEP).exists());
    machine.put("/etc/passwd", "root");
    let unknown = machine.journal().set("/etc/passwd", "0").unwrap_err();
    assert!(matches!(unknown, Error::Usage(_)), "{unknown}");
    let odd = machine.journal().set(DISABLE, "2").unwrap_err();
    assert!(matches!(odd, Error::Usage(_)), "{odd}");
    assert!(machine.is_clean());
}

#[test]
fn a_value_that_the_kernel_discards_leaves_the_former_one() {
    let machine = Machine::new();
    let earlier = machine.claim(DISABLE, "1");
    // It accepts a write, and reads as empty, which is a value of this setting.
    const ALARM: &str = "/sys/class/rtc/rtc0/wakealarm";
    let setting = machine.root.path(ALARM);
    fs::create_dir_all(setting.parent().unwrap()).unwrap();
    symlink("/dev/null", &setting).unwrap();
    let mut journal = machine.journal();
    let changes = [(DISABLE, "0"), (ALARM, "7")].map(|(path, value)| (path.into(), value.into()));
    let error = journal.set_all(&changes).unwrap_err();
    assert!(error.to_string().contains("just written"), "{error}");
    // The earlier settings stay changed until the journal is dropped.
    assert_eq!(machine.at(DISABLE), "0");
    drop(journal);
    assert_eq!(machine.at(DISABLE), "1");
    drop(earlier);
    assert_eq!(machine.at(DISABLE), "0");
}

#[test]
fn a_kept_value_stays_until_released() {
    let machine = Machine::new();
    machine.claim(DISABLE, "1").keep().unwrap();
    assert_eq!(machine.at(DISABLE), "1");
    assert!(machine.recover().is_empty());
    assert_eq!(machine.at(DISABLE), "1");
    assert_eq!(machine.release().undone.len(), 1);
    assert_eq!(machine.at(DISABLE), "0");
    assert!(machine.is_clean());
}

#[test]
fn a_value_that_was_undone_meanwhile_is_told() {
    let machine = Machine::new();
    machine.claim(DISABLE, "1").keep().unwrap();
    machine.put(DISABLE, "0");
    let released = machine.release();
    assert_eq!((released.undone.len(), released.gone.len()), (0, 1));
    assert_eq!(released.complaints().len(), 1);
    assert!(machine.is_clean());
    // One that was never written is not.
    let journal = machine.claim(DISABLE, "1");
    machine.kill(journal);
    machine.put(DISABLE, "0");
    machine.replace_in_page("\"ours\":[\"1\"]", "\"ours\":[\"0\",\"1\"]");
    assert!(machine.recover().is_empty());
}

#[test]
fn owners_may_end_in_any_order_and_the_last_restores_the_original() {
    // Orders of three owners' ends; each of them ends normally or is killed.
    let orders = [
        [0, 1, 2],
        [0, 2, 1],
        [1, 0, 2],
        [1, 2, 0],
        [2, 0, 1],
        [2, 1, 0],
    ];
    for values in [
        ["50", "50", "50"],
        ["100", "50", "20"],
        ["20", "50", "100"],
        ["50", "20", "50"],
    ] {
        for (order, killed) in orders
            .iter()
            .flat_map(|order| (0..8).map(move |k| (order, k)))
        {
            let machine = Machine::new();
            machine.put(BOUND, "70");
            let mut owners: Vec<_> = values
                .iter()
                .map(|value| (Some(machine.claim(BOUND, value)), value))
                .collect();
            for &next in order {
                let owner = owners[next].0.take().unwrap();
                match killed >> next & 1 {
                    0 => drop(owner),
                    _ => {
                        machine.kill(owner);
                        machine.recover();
                    }
                }
                let left = owners.iter().filter(|(owner, _)| owner.is_some());
                let tightest = left.map(|(_, value)| value.parse().unwrap()).min();
                let wanted = tightest.unwrap_or(70).min(70);
                let what = format!("{values:?} {order:?} {killed} after {next}");
                assert_eq!(machine.at(BOUND), wanted.to_string(), "{what}");
            }
            assert!(machine.is_clean());
        }
    }
}

#[test]
fn the_last_remaining_claim_on_a_switch_applies() {
    let machine = Machine::new();
    let first = machine.claim(DISABLE, "1");
    let second = machine.claim(DISABLE, "0");
    assert_eq!(machine.at(DISABLE), "0");
    let third = machine.claim(DISABLE, "1");
    drop(third);
    assert_eq!(machine.at(DISABLE), "0");
    drop(second);
    assert_eq!(machine.at(DISABLE), "1");
    drop(first);
    assert_eq!(machine.at(DISABLE), "0");
}

#[test]
fn a_looser_bound_applies_once_the_tighter_one_ends() {
    let machine = Machine::new();
    let tight = machine.claim(BOUND, "50");
    let loose = machine.claim(BOUND, "100");
    assert_eq!(machine.at(BOUND), "50");
    drop(tight);
    assert_eq!(machine.at(BOUND), "100");
    drop(loose);
    assert_eq!(machine.at(BOUND), "0");
}

#[test]
fn a_killed_owners_claim_ends_when_another_owner_ends() {
    let machine = Machine::new();
    let first = machine.claim(BOUND, "100");
    let killed = machine.claim(BOUND, "50");
    machine.kill(killed);
    drop(first);
    assert_eq!(machine.at(BOUND), "0");
    assert!(machine.is_clean());
}

#[test]
fn a_killed_owners_claim_ends_when_an_owner_of_another_setting_ends_or_starts() {
    let machine = Machine::new();
    let staying = machine.claim(BOUND, "100");
    let other = machine.claim(DISABLE, "1");
    let killed = machine.claim(BOUND, "50");
    machine.kill(killed);
    drop(other);
    assert_eq!(machine.at(BOUND), "100");
    let killed = machine.claim(BOUND, "50");
    machine.kill(killed);
    // The same with a new owner starting.
    let beginning = machine.claim(DISABLE, "1");
    assert_eq!(machine.at(BOUND), "100");
    drop((staying, beginning));
    assert_eq!(
        (machine.at(BOUND), machine.at(DISABLE)),
        ("0".into(), "0".into())
    );
    assert!(machine.is_clean());
}

#[test]
fn an_interrupt_waits_for_its_cpu_while_another_run_keeps_that_offline() {
    let machine = Machine::new();
    let list = "/sys/devices/system/cpu/online";
    machine.put(INTERRUPT, "1");
    machine.put(list, "0-1");
    // The kernel's side effects, below.
    let take_offline = || {
        let mut journal = machine.journal();
        journal.take_offline(&[1]).unwrap();
        journal
    };
    let first = take_offline();
    machine.put(list, "0");
    let mut file = JournalFile::open(&machine.run, true, PATIENCE)
        .unwrap()
        .unwrap();
    file.records.push(Record {
        path: INTERRUPT.into(),
        original: "1".into(),
        ours: vec!["0".into()],
        live: Vec::new(),
        locked: false,
        claims: vec![first.claim(&Owner::this().unwrap(), "1")],
        settled: true,
    });
    file.save().unwrap();
    drop(file);
    machine.put(INTERRUPT, "0");
    let mut second = take_offline();
    let mut first = first;
    assert!(first.restore().is_empty());
    assert_eq!(
        (machine.at(INTERRUPT), machine.at(ONLINE)),
        ("0".into(), "0".into())
    );
    assert_eq!(second.restore().undone.len(), 2);
    assert_eq!(
        (machine.at(INTERRUPT), machine.at(ONLINE)),
        ("1".into(), "1".into())
    );
    assert!(machine.is_clean());
}

#[test]
fn a_kept_value_is_released_below_a_running_claim_without_a_change() {
    let machine = Machine::new();
    machine.claim(DISABLE, "1").keep().unwrap();
    let running = machine.claim(DISABLE, "0");
    machine.release();
    assert_eq!(machine.at(DISABLE), "0");
    drop(running);
    assert_eq!(machine.at(DISABLE), "0");
    assert!(machine.is_clean());
}

#[test]
fn a_created_folder_is_removed_even_after_a_kill() {
    const INSTANCE: &str = "/sys/kernel/tracing/instances/reveille-1";
    let machine = Machine::new();
    let made = machine.root.path(INSTANCE);
    fs::create_dir_all(made.parent().unwrap()).unwrap();
    let mut journal = machine.journal();
    journal.make_folder(INSTANCE).unwrap();
    assert!(made.is_dir());
    assert!(machine.journal().make_folder(INSTANCE).is_err());
    machine.kill(journal);
    assert_eq!(machine.recover().undone.len(), 1);
    assert!(!made.exists());
    // A CPU that another program took offline needs nothing.
    let mut journal = machine.journal();
    journal.make_folder(INSTANCE).unwrap();
    fs::remove_dir(&made).unwrap();
    assert!(journal.restore().failed.is_empty());
    assert!(machine.is_clean());
}

#[test]
fn a_cards_output_is_switched_off_before_its_pin_even_after_a_kill() {
    const PERIOD: &str = "/sys/class/ptp/ptp0/period";
    const PIN: &str = "/sys/class/ptp/ptp0/pins/SDP0";
    let machine = Machine::new();
    machine.put(PIN, "0 0");
    machine.put(PERIOD, "what the card puts out");
    let mut journal = machine.claim(PIN, "2 0");
    journal.will_switch_off(PERIOD).unwrap();
    assert_eq!(machine.at(PIN), "2 0");
    assert_eq!(machine.at(PERIOD).trim(), "what the card puts out");
    machine.kill(journal);
    let undone = machine.recover().undone;
    let paths: Vec<_> = undone.iter().map(|one| one.path.clone()).collect();
    assert_eq!(paths, [PERIOD, PIN].map(|path| machine.root.path(path)));
    assert!(machine.at(PERIOD).starts_with("0 0 0 0 0"));
    assert_eq!(machine.at(PIN), "0 0");
    assert!(machine.is_clean());

    // The card has gone.
    let mut journal = machine.claim(PIN, "2 0");
    journal.will_switch_off(PERIOD).unwrap();
    fs::remove_dir_all(machine.root.path("/sys/class/ptp/ptp0")).unwrap();
    assert_eq!(journal.restore(), Restored::default());
    assert!(machine.is_clean());
}

#[test]
fn what_could_not_be_recorded_is_not_missed() {
    const PERIOD: &str = "/sys/class/ptp/ptp0/period";
    let machine = Machine::new();
    machine.put(PERIOD, "what the card puts out");
    // In the way of the new file.
    fs::create_dir_all(machine.page().with_file_name("settings.json.next")).unwrap();
    let mut journal = machine.journal();
    assert!(journal.will_switch_off(PERIOD).is_err());
    assert_eq!(journal.restore(), Restored::default());
    assert_eq!(machine.at(PERIOD).trim(), "what the card puts out");
}

#[test]
fn interrupts_moved_by_the_kernel_return_with_their_cpu() {
    let machine = Machine::new();
    machine.put(INTERRUPT, "1");
    machine.put("/proc/irq/25/smp_affinity_list", "0-1");
    machine.put("/proc/irq/26/smp_affinity_list", "0");
    let mut journal = machine.journal();
    journal.take_offline(&[1]).unwrap();
    assert_eq!(machine.at(ONLINE), "0");
    // No kernel moves them here: none was moved, and none is recorded.
    assert!(
        !fs::read_to_string(machine.page())
            .unwrap()
            .contains("/proc/irq")
    );
    drop(journal);
    assert!(machine.is_clean());

    // The kernel's actions between taking the CPU offline and its answer.
    let mut file = JournalFile::open(&machine.run, true, PATIENCE)
        .unwrap()
        .unwrap();
    let owner = Owner::this().unwrap();
    let mut journal = machine.journal();
    file.records.push(Record {
        path: INTERRUPT.into(),
        original: "1".into(),
        ours: Vec::new(),
        live: Vec::new(),
        locked: false,
        claims: vec![journal.claim(&owner, "1")],
        settled: false,
    });
    file.save().unwrap();
    drop(file);
    machine.put(INTERRUPT, "0");
    journal.has_claims = true;
    journal.set(ONLINE, "0").unwrap();
    journal.read_interrupts_back(&owner).unwrap();
    assert_eq!(machine.at(INTERRUPT), "0");
    assert_eq!(journal.restore().undone.len(), 2);
    assert_eq!(
        (machine.at(INTERRUPT), machine.at(ONLINE)),
        ("1".into(), "1".into())
    );
    assert!(machine.is_clean());
}

#[test]
fn an_interrupt_that_shows_its_original_cpus_may_still_move_away_from_them() {
    let machine = Machine::new();
    machine.put("/sys/devices/system/cpu/online", "0-1");
    machine.put(INTERRUPT, "0-1");
    let mut journal = machine.journal();
    journal.set(INTERRUPT, "1").unwrap();
    // As the kernel shows it while it moves the interrupt to CPU 1.
    machine.put(INTERRUPT, "0-1");
    assert_eq!(journal.restore().undone.len(), 1, "it was written");
    assert!(machine.is_clean());
}

#[test]
fn an_interrupt_that_the_kernel_moved_off_its_cpu_is_restored() {
    let machine = Machine::new();
    let list = "/sys/devices/system/cpu/online";
    machine.put(list, "0-1");
    machine.put(INTERRUPT, "0-1");
    let move_it = || {
        let journal = machine.claim(INTERRUPT, "1");
        // The kernel does that when CPU 1 goes offline, as another program might.
        machine.put(INTERRUPT, "0");
        journal
    };
    // CPU 1 is still online, or is back: another program's value, unless its owner knows better.
    let mut journal = move_it();
    assert_eq!(journal.restore().foreign.len(), 1);
    assert_eq!(machine.at(INTERRUPT), "0");
    machine.put(INTERRUPT, "0-1");
    let mut journal = move_it();
    journal.interrupts_may_have_moved(1).unwrap();
    assert_eq!(journal.restore().undone.len(), 1);
    assert_eq!(machine.at(INTERRUPT), "0-1");
    // It is offline, and the owner was killed; another owner wants it there, too, where it cannot go.
    let mut other = machine.claim(INTERRUPT, "1");
    let journal = move_it();
    machine.put(list, "0");
    assert_eq!(other.restore(), Restored::default());
    assert_eq!(machine.at(INTERRUPT), "0");
    machine.kill(journal);
    assert_eq!(machine.recover().undone.len(), 1);
    assert_eq!(machine.at(INTERRUPT), "0-1");
    assert!(machine.is_clean());
}

#[test]
fn an_empty_or_damaged_record_is_reported_once_and_set_aside() {
    for text in ["", "{\"version\":", "[]", "{\"version\": 1, \"boot\": 7}"] {
        let machine = Machine::new();
        machine.claim(DISABLE, "1").keep().unwrap();
        fs::write(machine.page(), text).unwrap();
        assert_eq!(machine.release().refused.len(), 1, "{text:?}");
        assert!(machine.release().is_empty(), "{text:?}");
        // And the journal works again.
        drop(machine.claim(BOUND, "50"));
        assert_eq!(machine.at(BOUND), "0");
    }
}

#[test]
fn a_record_of_another_boot_changes_nothing() {
    let machine = Machine::new();
    machine.claim(DISABLE, "1").keep().unwrap();
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    machine.replace_in_page(boot.trim(), "00000000-0000-0000-0000-000000000000");
    assert!(machine.release().undone.is_empty());
    assert_eq!(machine.at(DISABLE), "1");
    assert!(machine.is_clean());
}

#[test]
fn a_record_of_another_version_is_refused_and_kept() {
    let machine = Machine::new();
    machine.claim(DISABLE, "1").keep().unwrap();
    machine.replace_in_page("{\"version\":1", "{\"version\":77");
    let error = release(&machine.root, &machine.run, false).unwrap_err();
    assert!(error.to_string().contains("another version"), "{error}");
    assert_eq!(machine.at(DISABLE), "1");
    assert!(machine.page().exists());
}

#[test]
fn claims_of_another_pid_namespace_are_kept_unless_requested() {
    let machine = Machine::new();
    let journal = machine.claim(DISABLE, "1");
    machine.kill(journal);
    machine.rewrite(|claim| claim.owner.elsewhere());
    assert!(machine.recover().undone.is_empty());
    let released = machine.release();
    assert_eq!((released.elsewhere, released.undone.len()), (1, 0));
    assert_eq!(machine.at(DISABLE), "1");
    // A claim of this namespace keeps the other claim's value.
    drop(machine.claim(DISABLE, "0"));
    assert_eq!(machine.at(DISABLE), "1");
    let released = release(&machine.root, &machine.run, true).unwrap();
    assert_eq!(released.undone.len(), 1);
    assert_eq!(machine.at(DISABLE), "0");
}

#[test]
fn timer_slack_of_threads_that_are_not_seen_here_stays_in_the_journal() {
    let machine = Machine::new();
    machine.put("/proc/7/timerslack_ns", "50000");
    fs::create_dir_all(machine.root.path("/proc/7/task/7")).unwrap();
    let mut journal = machine.journal();
    let setting = crate::timer_slack::setting(99_000);
    journal.will_switch_off(&setting).unwrap();
    machine.kill(journal);
    machine.rewrite(|claim| claim.owner.elsewhere());
    let released = release(&machine.root, &machine.run, true).unwrap();
    assert_eq!((released.elsewhere, machine.is_clean()), (1, false));
    let namespaces = machine.root.path("/proc/self/ns");
    fs::create_dir_all(&namespaces).unwrap();
    symlink(crate::pm_qos::FIRST_PID_NAMESPACE, namespaces.join("pid")).unwrap();
    let released = release(&machine.root, &machine.run, true).unwrap();
    assert!(released.is_empty() && machine.is_clean());
}

#[test]
fn a_record_that_names_an_unlisted_file_or_value_writes_nothing() {
    for (from, to) in [
        (DISABLE, "/etc/passwd"),
        (
            DISABLE,
            "/sys/devices/system/cpu/cpu0/cpuidle/state1/../../../../../../../etc/passwd",
        ),
        ("\"original\":\"0\"", "\"original\":\"x\""),
        ("\"value\":\"1\"", "\"value\":\"10\""),
    ] {
        let machine = Machine::new();
        machine.put("/etc/passwd", "1");
        machine.claim(DISABLE, "1").keep().unwrap();
        machine.replace_in_page(from, to);
        let looked = only_look(&machine.root, &machine.run, |_| true).unwrap();
        assert!(looked.is_empty(), "{to}");
        let released = machine.release();
        assert_eq!(released.refused.len(), 1, "{to}");
        assert_eq!(machine.at("/etc/passwd"), "1");
        assert_eq!(machine.at(DISABLE), "1");
        assert!(machine.release().is_empty());
    }
}

#[test]
fn a_folder_or_record_that_others_may_write_or_that_is_no_file_is_refused() {
    type Spoil = fn(&Machine);
    let open_to_all = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    let mut spoilt: Vec<(&str, Spoil)> = vec![
        ("others may write", |machine| {
            fs::set_permissions(&machine.run, fs::Permissions::from_mode(0o777)).unwrap();
        }),
        ("others may write", |machine| {
            fs::set_permissions(machine.page(), fs::Permissions::from_mode(0o664)).unwrap();
        }),
        ("not a file", |machine| {
            fs::rename(machine.page(), machine.run.join("page")).unwrap();
            symlink("page", machine.page()).unwrap();
        }),
        ("not a file", |machine| {
            fs::remove_file(machine.page()).unwrap();
            nix::unistd::mkfifo(&machine.page(), nix::sys::stat::Mode::S_IRUSR).unwrap();
        }),
        ("not a file", |machine| {
            fs::remove_file(machine.page()).unwrap();
            fs::create_dir(machine.page()).unwrap();
        }),
        ("not a folder", |machine| {
            let moved = machine.run.with_extension("moved");
            fs::rename(&machine.run, &moved).unwrap();
            symlink(moved, &machine.run).unwrap();
        }),
        ("not a file", |machine| {
            let lock = machine.run.join("settings.lock");
            fs::remove_file(&lock).unwrap();
            nix::unistd::mkfifo(&lock, nix::sys::stat::Mode::S_IRUSR).unwrap();
        }),
    ];
    if nix::unistd::Uid::effective().is_root() {
        spoilt.push(("belongs to user", |machine| {
            std::os::unix::fs::chown(&machine.run, Some(65534), None).unwrap();
        }));
        spoilt.push(("belongs to user", |machine| {
            std::os::unix::fs::chown(machine.page(), Some(65534), None).unwrap();
        }));
    } else {
        println!("skipped: files of another user: making some needs root");
    }
    for (why, spoil) in spoilt {
        let machine = Machine::new();
        machine.claim(DISABLE, "1").keep().unwrap();
        spoil(&machine);
        for asked in [
            recover(&machine.root, &machine.run).map(drop),
            release(&machine.root, &machine.run, true).map(drop),
            machine.journal().set(BOUND, "50"),
        ] {
            let error = asked.unwrap_err();
            assert!(error.to_string().contains(why), "{why}: {error}");
        }
        assert_eq!(
            (machine.at(DISABLE), machine.at(BOUND)),
            ("1".into(), "0".into())
        );
        open_to_all(&machine.run, 0o755);
    }
}

#[test]
fn folder_and_record_have_their_modes_whatever_the_umask() {
    const TEST: &str = "journal::tests::folder_and_record_have_their_modes_whatever_the_umask";
    for umask in ["umask 000", "umask 077"] {
        let with_umask = format!("{umask}; exec \"$0\" \"$@\"");
        if !is_apart(TEST, &["sh", "-c", &with_umask]) {
            continue;
        }
        let machine = Machine::new();
        let mut journal = Journal::new(&machine.root, &machine.run);
        journal.set(DISABLE, "1").unwrap();
        journal.keep().unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o7777;
        assert_eq!(mode(&machine.run), 0o755);
        assert_eq!(mode(&machine.run.join("settings.json")), 0o644);
        assert_eq!(mode(&machine.run.join("settings.lock")), 0o600);
        release(&machine.root, &machine.run, false).unwrap();
        return;
    }
}

#[test]
fn a_partial_record_and_a_planted_one_are_removed() {
    let machine = Machine::new();
    drop(machine.claim(DISABLE, "1"));
    let outside = machine.root.path("/outside");
    fs::write(&outside, "mine").unwrap();
    symlink(&outside, machine.run.join("settings.json.next")).unwrap();
    assert!(machine.recover().is_empty());
    assert!(machine.is_clean());
    symlink(&outside, machine.run.join("settings.json.next")).unwrap();
    drop(machine.claim(DISABLE, "1"));
    assert!(machine.is_clean());
    assert_eq!(fs::read_to_string(&outside).unwrap(), "mine");
}

#[test]
fn if_the_journal_cannot_be_written_nothing_changes() {
    let machine = Machine::new();
    fs::create_dir(&machine.run).unwrap();
    fs::create_dir(machine.run.join("settings.json.next")).unwrap();
    assert!(machine.journal().set(DISABLE, "1").is_err());
    assert_eq!(machine.at(DISABLE), "0");
}

#[test]
fn if_the_journal_cannot_be_written_at_the_end_settings_are_still_restored() {
    let machine = Machine::new();
    let mut journal = machine.claim(DISABLE, "1");
    let next = machine.run.join("settings.json.next");
    fs::create_dir(&next).unwrap();
    let restored = journal.restore();
    assert_eq!(machine.at(DISABLE), "0");
    assert_eq!((restored.undone.len(), restored.refused.len()), (1, 1));
    // Its program ends with its claim in the file; the next start finds nothing to do.
    fs::remove_dir(&next).unwrap();
    machine.rewrite(|claim| claim.owner.gone());
    assert!(machine.recover().foreign.is_empty());
    assert_eq!(machine.at(DISABLE), "0");
    assert!(machine.is_clean());
}

#[test]
fn a_run_without_its_record_restores_its_own_settings_and_reports_that() {
    type Lose = fn(&Machine);
    let lose: [Lose; 3] = [
        |machine| fs::remove_dir_all(&machine.run).unwrap(),
        |machine| fs::remove_file(machine.page()).unwrap(),
        // Its content is not trusted.
        |machine| fs::set_permissions(&machine.run, PermissionsExt::from_mode(0o777)).unwrap(),
    ];
    for (nth, lose) in lose.into_iter().enumerate() {
        let machine = Machine::new();
        let mut journal = machine.claim(DISABLE, "1");
        journal.set(BOUND, "n/a").unwrap();
        lose(&machine);
        let restored = journal.restore();
        assert_eq!(
            (machine.at(DISABLE), machine.at(BOUND)),
            ("0".into(), "0".into())
        );
        assert_eq!(restored.undone.len(), 2, "{nth}");
        let complaints = restored.complaints().join("\n");
        assert!(complaints.contains("from memory"), "{complaints}");
        assert_eq!(journal.restore(), Restored::default());
    }
}

#[test]
fn a_value_set_while_the_record_was_missing_is_no_original() {
    let machine = Machine::new();
    let first = machine.claim(BOUND, "100");
    fs::remove_file(machine.page()).unwrap();
    let second = machine.claim(BOUND, "50");
    drop(first);
    assert_eq!(machine.at(BOUND), "50");
    drop(second);
    assert_eq!(machine.at(BOUND), "0");
    assert!(machine.is_clean());
}

#[test]
fn a_held_lock_is_waited_for_up_to_a_limit() {
    let machine = Machine::new();
    machine.claim(DISABLE, "1").keep().unwrap();
    let file = JournalFile::open(&machine.run, true, PATIENCE).unwrap();
    let error = recover(&machine.root, &machine.run).unwrap_err();
    let holder = format!("process {} has been changing", std::process::id());
    assert!(error.to_string().contains(&holder), "{error}");
    drop(file);
    assert!(machine.recover().is_empty());
    assert_eq!(machine.release().undone.len(), 1);
}

/// A new cgroup; `None`, with a word, where this user may not make one.
fn cgroup() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let mount = mounts.lines().find_map(|line| {
        let mut words = line.split(' ').skip(1);
        let folder = words.next()?;
        (words.next() == Some("cgroup2")).then_some(folder)
    });
    let Some(mount) = mount else {
        println!("skipped: no cgroup2 is mounted");
        return None;
    };
    static MADE: AtomicUsize = AtomicUsize::new(0);
    let number = MADE.fetch_add(1, Ordering::Relaxed);
    let name = format!("reveille-test-{}-{number}", std::process::id());
    let folder = Path::new(mount).join(name);
    match fs::create_dir(&folder) {
        Ok(()) => Some(folder),
        Err(error) => {
            println!("skipped: {}: {error}", folder.display());
            None
        }
    }
}

#[test]
fn a_cgroup_that_its_owner_froze_after_a_killed_run_stays_so() {
    let Some(folder) = cgroup() else { return };
    let setting = folder.join("cgroup.freeze");
    for (ours, stays) in [(&[][..], true), (&[true, false], true), (&[true], false)] {
        let machine = Machine::new();
        let (freezer, number) = crate::freezer::Freezer::of(&folder).unwrap();
        let mut run = Journal::new(&Root::default(), &machine.run);
        run.will_switch_off(&crate::freezer::setting(number))
            .unwrap();
        freezer.begin();
        for frozen in ours {
            assert!(freezer.set(*frozen).unwrap());
        }
        machine.kill(run);
        std::mem::forget(freezer);
        fs::write(&setting, "1").unwrap();
        let restored = recover(&Root::default(), &machine.run).unwrap();
        assert_eq!(restored.complaints(), Vec::<String>::new());
        let is_frozen = crate::freezer::is_set(&folder).unwrap();
        fs::write(&setting, "0").unwrap();
        assert_eq!(is_frozen, stays, "{ours:?}");
    }
    fs::remove_dir(&folder).unwrap();
}

#[test]
fn nothing_stays_on_a_cgroup_that_a_killed_run_had_thawed() {
    let Some(folder) = cgroup() else { return };
    let marks = || {
        let command = std::process::Command::new("python3")
            .args(["-c", "import os, sys; print(*os.listxattr(sys.argv[1]))"])
            .arg(&folder)
            .output();
        String::from_utf8(command.unwrap().stdout).unwrap()
    };
    for steps in [0, 1, 2, 4] {
        let machine = Machine::new();
        let (freezer, number) = crate::freezer::Freezer::of(&folder).unwrap();
        assert_eq!(marks().trim(), "", "before the journal has the claim");
        let mut run = Journal::new(&Root::default(), &machine.run);
        run.will_switch_off(&crate::freezer::setting(number))
            .unwrap();
        if steps > 0 {
            freezer.begin();
        }
        for step in 1..steps {
            assert!(freezer.set(step % 2 == 1).unwrap());
        }
        machine.kill(run);
        std::mem::forget(freezer);
        let restored = recover(&Root::default(), &machine.run).unwrap();
        assert_eq!(restored.complaints(), Vec::<String>::new());
        assert!(!crate::freezer::is_set(&folder).unwrap());
        assert_eq!(marks().trim(), "", "{steps} steps");
    }
    fs::remove_dir(&folder).unwrap();
}

#[test]
fn a_cgroup_that_a_killed_run_froze_is_thawed_though_a_process_in_it_holds_the_lock() {
    let Some(folder) = cgroup() else { return };
    let machine = Machine::new();
    let (freezer, number) = crate::freezer::Freezer::of(&folder).unwrap();
    let mut run = Journal::new(&Root::default(), &machine.run);
    run.will_switch_off(&crate::freezer::setting(number))
        .unwrap();
    machine.kill(run);
    let lock = machine.run.join("settings.lock");
    fs::write(&lock, "").unwrap();
    fs::set_permissions(&lock, fs::Permissions::from_mode(0o600)).unwrap();
    let holder = "exec 9<$0; flock 9; echo locked; read end";
    let mut holder = std::process::Command::new("sh")
        .args(["-c", holder])
        .arg(&lock)
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut locked = [0; 7];
    holder
        .stdout
        .as_mut()
        .unwrap()
        .read_exact(&mut locked)
        .unwrap();
    fs::write(folder.join("cgroup.procs"), holder.id().to_string()).unwrap();
    assert!(freezer.set(true).unwrap());
    // It goes on once it is thawed.
    drop(holder.stdin.take());
    let restored = recover(&Root::default(), &machine.run);
    let is_frozen = crate::freezer::is_set(&folder).unwrap();
    freezer.set(false).unwrap();
    holder.wait().unwrap();
    fs::remove_dir(&folder).unwrap();
    let restored = restored.unwrap();
    assert_eq!(restored.complaints(), Vec::<String>::new());
    assert_eq!(restored.undone.len(), 1);
    assert!(!is_frozen);
}
