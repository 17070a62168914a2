//! The engine in the running kernel, on direct reads of a file. It needs root, BPF and a file on a
//! disk that takes direct reads; without, each test says that it was skipped and why.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use nix::libc;
use reveille_anticipate::{
    AwakePower, BlockDevice, Engine, Error, Operation, OperationStatistics, Settings, Subject,
};
use reveille_machine::Root;

/// Two engines at a time would each see the other's requests.
static ALONE: Mutex<()> = Mutex::new(());

/// What is waited for comes within this, on a machine however busy.
const PATIENCE: Duration = Duration::from_secs(90);

/// A file on a disk, read past the page cache.
struct Reads {
    file: File,
    device: BlockDevice,
    _folder: tempfile::TempDir,
}

const SIZE: u64 = 4 << 20;

/// `None`, with a word, where nothing can be anticipated.
fn reads(test: &str) -> Option<(MutexGuard<'static, ()>, Reads)> {
    let guard = ALONE.lock().unwrap_or_else(|error| error.into_inner());
    let skip = |why: &str| {
        println!("skipped: {test}: {why}");
        None
    };
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let path = folder.path().join("file");
    let mut written = File::create(&path).unwrap();
    written.write_all(&vec![7; SIZE as usize]).unwrap();
    written.sync_all().unwrap();
    let open = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_DIRECT)
        .open(&path);
    let Ok(file) = open else {
        return skip("no direct reads here");
    };
    let Some(device) = disk_of(&path) else {
        return skip("the file is on no disk of which /sys tells");
    };
    let settings = Settings {
        devices: vec![device.clone()],
        ..Settings::default()
    };
    match Engine::start(&settings) {
        Err(Error::Cannot(why)) => return skip(&why),
        started => drop(started.unwrap()),
    }
    let reads = Reads {
        file,
        device,
        _folder: folder,
    };
    Some((guard, reads))
}

fn disk_of(path: &Path) -> Option<BlockDevice> {
    let number = path.metadata().ok()?.dev();
    let (major, minor) = (libc::major(number), libc::minor(number));
    let entry = std::fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")).ok()?;
    BlockDevice::named(&Root::default(), entry.file_name()?.to_str()?).ok()
}

impl Reads {
    fn settings(&self) -> Settings {
        Settings {
            devices: vec![self.device.clone()],
            writes: false,
            subject: Subject::Process(std::process::id()),
            budget: 0.5,
            budget_in_all: 0.5,
            control: 0.2,
            ..Settings::default()
        }
    }

    fn read_one(&self, number: u64) {
        let mut page = Page([0; 4096]);
        let offset = number * 7919 % (SIZE / 4096) * 4096;
        // SAFETY: the buffer is as long as is asked for, and aligned as direct reads want it.
        let read = unsafe {
            libc::pread(
                self.file.as_raw_fd(),
                page.0.as_mut_ptr().cast(),
                page.0.len(),
                offset as libc::off_t,
            )
        };
        assert_eq!((read, page.0[0]), (4096, 7));
    }

    /// Reads, with pauses in which a CPU can sleep, until the engine says what is wanted.
    fn until(
        &self,
        engine: &Engine,
        wanted: impl Fn(&OperationStatistics) -> bool,
    ) -> OperationStatistics {
        let began = Instant::now();
        for number in 0.. {
            self.read_one(number);
            std::thread::sleep(Duration::from_micros(500));
            if number % 64 == 63
                && let Some(seen) = seen(engine)
            {
                if wanted(&seen) {
                    return seen;
                }
                assert!(began.elapsed() < PATIENCE, "in vain: {seen:?}");
            }
            assert!(began.elapsed() < 2 * PATIENCE, "no read was seen");
        }
        unreachable!()
    }
}

#[repr(align(4096))]
struct Page([u8; 4096]);

fn seen(engine: &Engine) -> Option<OperationStatistics> {
    let operations = engine.statistics().unwrap().operations;
    operations
        .into_iter()
        .find(|one| one.operation == Operation::Read)
}

/// A process that is not this one.
fn in_another_process(read: impl FnOnce()) -> i32 {
    // SAFETY: the child only reads and ends; it takes no lock that another thread may hold.
    match unsafe { libc::fork() } {
        0 => {
            read();
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(0) }
        }
        child => child,
    }
}

#[test]
fn every_request_is_accounted_for() {
    let Some((_alone, reads)) = reads("every_request_is_accounted_for") else {
        return;
    };
    let engine = Engine::start(&reads.settings()).unwrap();
    let seen = reads.until(&engine, |seen| {
        let fates = seen.assistance;
        fates.assisted >= 40 && fates.control >= 4
    });
    let fates = seen.assistance;
    let told = fates.learning
        + fates.crowded
        + fates.over_budget
        + fates.plan_full
        + fates.unattended
        + fates.control
        + fates.assisted;
    assert_eq!(told, seen.requests, "{seen:?}");
    assert_eq!(
        fates.in_time + fates.early + fates.late + fates.cpu_busy,
        fates.assisted,
        "{seen:?}"
    );
    assert!(fates.learning >= 4, "{seen:?}");
    // Of those assisted one in four is followed. A wait is lost where the waiter goes on on another
    // CPU: here, once in a while.
    for (latency, requests, least) in [
        (&seen.assisted, fates.assisted, 1),
        (&seen.left_alone, fates.control, fates.control / 2),
    ] {
        let waits = latency.as_ref().map_or(0, |latency| latency.count);
        assert!((least..=requests).contains(&waits), "{seen:?}");
    }
    assert!(
        seen.models
            .iter()
            .any(|model| model.count >= 5 && model.mean_us > 0.0)
    );
    let accounting = engine.statistics().unwrap().accounting;
    assert!(
        accounting
            .iter()
            .any(|one| { one.process == std::process::id() && one.requests >= fates.assisted }),
        "{accounting:?}"
    );
}

#[test]
fn time_awake_is_told_in_joules_where_the_power_is_known() {
    let Some((_alone, reads)) = reads("time_awake_is_told_in_joules_where_the_power_is_known")
    else {
        return;
    };
    let power = AwakePower {
        median_w: 2.5,
        low_w: 2.0,
        high_w: 3.0,
    };
    for known in [None, Some(power)] {
        let engine = Engine::start(&Settings {
            awake_power: known,
            ..reads.settings()
        });
        let engine = engine.unwrap();
        reads.until(&engine, |seen| seen.assistance.assisted >= 100);
        // Nothing more is done while it is read.
        engine.run(false);
        let told = engine.statistics().unwrap();
        let charged = told.accounting.iter().map(|one| (one.awake_s, one.awake_j));
        let by_cpu = told.cpus.iter().map(|cpu| (cpu.awake_s, cpu.awake_j));
        for (awake_s, awake_j) in charged.chain(by_cpu).chain([(told.awake_s, told.awake_j)]) {
            assert_eq!(awake_j, known.map(|power| awake_s * power.median_w));
        }
        let all_s: f64 = told.cpus.iter().map(|cpu| cpu.awake_s).sum();
        assert_eq!(told.awake_s, all_s);
        if all_s == 0.0 {
            println!(
                "skipped: time_awake_is_told_in_joules_where_the_power_is_known: busy CPUs were \
                 not kept awake"
            );
        }
    }
}

#[test]
fn the_budget_is_kept() {
    let Some((_alone, reads)) = reads("the_budget_is_kept") else {
        return;
    };
    let settings = Settings {
        budget: 0.002,
        budget_in_all: 0.002,
        ..reads.settings()
    };
    let engine = Engine::start(&settings).unwrap();
    reads.until(&engine, |seen| seen.requests >= 1500);
    let statistics = engine.statistics().unwrap();
    let cpus = statistics.cpus.len() as f64;
    let awake_s: f64 = statistics.cpus.iter().map(|cpu| cpu.awake_s).sum();
    if statistics
        .operations
        .iter()
        .all(|one| one.assistance.over_budget == 0)
    {
        return println!("skipped: the_budget_is_kept: busy CPUs needed none of it");
    }
    // What accrues in a tenth of a second may be spent at once, and a loop may be held up at its end
    // by an interrupt or the hypervisor.
    let each_s = 0.002 * (engine.elapsed().as_secs_f64() + 0.1) + 0.005;
    assert!(awake_s <= each_s * cpus, "{awake_s} s: {statistics:?}");
    for cpu in &statistics.cpus {
        assert!(cpu.awake_s <= each_s, "{statistics:?}");
    }
}

#[test]
fn requests_of_others_are_left_alone() {
    let Some((_alone, reads)) = reads("requests_of_others_are_left_alone") else {
        return;
    };
    let engine = Engine::start(&reads.settings()).unwrap();
    let child = in_another_process(|| (0..200).for_each(|number| reads.read_one(number)));
    let mut status = 0;
    // SAFETY: waits for the child that was just made, into a local.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0);
    let seen = seen(&engine).expect("the model learns from all requests of the disk");
    assert_eq!(seen.requests, 0, "{seen:?}");
    assert!(seen.models.iter().map(|model| model.count).sum::<u64>() >= 200);
}

#[test]
fn applications_are_served_by_the_same_plans() {
    let Some((_alone, reads)) = reads("applications_are_served_by_the_same_plans") else {
        return;
    };
    let engine = Engine::start(&reads.settings()).unwrap();
    let desk = engine.desk();
    let now_ns = || {
        let now = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC).unwrap();
        now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64
    };
    let me = std::process::id();
    assert_eq!(desk.expect(9999, now_ns(), 1000, me), None);
    desk.expect(0, 1, 1000, me).unwrap();
    let ticket = desk
        .expect(0, now_ns() + 5_000_000_000, 100_000, me)
        .unwrap();
    desk.cancel(ticket);
    let began = Instant::now();
    let wished = loop {
        let wished = engine.statistics().unwrap().expectations;
        if wished.past + wished.taken == 2 {
            break wished;
        }
        assert!(began.elapsed() < PATIENCE, "{wished:?}");
        std::thread::sleep(Duration::from_millis(20));
    };
    assert_eq!((wished.past, wished.taken), (1, 1));
}

/// How often the engine's threads, which are this process's, have run so far, by their names; `None`
/// where one of them does not sleep.
fn runs_of_its_threads() -> Option<Vec<(String, String)>> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let mut runs = Vec::new();
    for task in tasks {
        let read = |name| std::fs::read_to_string(task.path().join(name)).ok();
        let (Some(name), Some(status)) = (read("comm"), read("status")) else {
            continue;
        };
        if name.starts_with("ready-") {
            let line = |key| status.lines().find(|line: &&str| line.starts_with(key));
            line("State:").filter(|state| state.contains('S'))?;
            runs.push((name, line("voluntary_ctxt_switches:")?.to_owned()));
        }
    }
    runs.sort();
    Some(runs)
}

#[test]
fn without_requests_it_arms_no_timer_and_wakes_nobody() {
    let test = "without_requests_it_arms_no_timer_and_wakes_nobody";
    let Some((_alone, reads)) = reads(test) else {
        return;
    };
    let engine = Engine::start(&reads.settings()).unwrap();
    let done = || {
        let cpus = engine.statistics().unwrap().cpus;
        let done = cpus.iter().map(|cpu| (cpu.timers, cpu.fired, cpu.notices));
        (done.collect::<Vec<_>>(), runs_of_its_threads())
    };
    // Its threads have to be where they belong, and asleep.
    let began = Instant::now();
    let before = loop {
        let now = done();
        std::thread::sleep(Duration::from_millis(200));
        if now.1.is_some() && now == done() {
            break now;
        }
        assert!(began.elapsed() < PATIENCE, "its threads do not sleep");
    };
    // CPUs sleep and wake, and others' requests come and go.
    let child = in_another_process(|| (0..200).for_each(|number| reads.read_one(number)));
    let mut status = 0;
    // SAFETY: waits for the child that was just made, into a local.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    for _ in 0..500 {
        std::thread::sleep(Duration::from_millis(1));
    }
    let after = done();
    if seen(&engine).is_some_and(|seen| seen.requests > 0) {
        return println!("skipped: {test}: this program itself was read from the disk");
    }
    assert_eq!(after, before);
}

#[test]
fn its_own_cost_is_told_for_each_request() {
    let Some((_alone, reads)) = reads("its_own_cost_is_told_for_each_request") else {
        return;
    };
    let engine = Engine::start(&reads.settings()).unwrap();
    assert_eq!(engine.cost_per_request_ns(|| {}).unwrap(), None);
    let told = engine.cost_per_request_ns(|| (0..300).for_each(|number| reads.read_one(number)));
    match told.unwrap() {
        // By what would be absurd on any machine; `make bench` has the figure.
        Some(own_ns) => assert!(own_ns > 10.0 && own_ns < 1e6, "{own_ns}"),
        None => println!(
            "skipped: its_own_cost_is_told_for_each_request: the kernel does not count how long \
             programs run"
        ),
    }
}

#[test]
fn figures_out_of_range_are_refused() {
    let device = BlockDevice {
        name: "sda".to_owned(),
        major: 8,
        minor: 0,
    };
    let good = Settings {
        devices: vec![device.clone()],
        ..Settings::default()
    };
    good.check().unwrap();
    let refused = |settings: Settings, word: &str| match settings.check() {
        Err(Error::Usage(why)) => assert!(why.contains(word), "{why}"),
        other => panic!("{other:?}"),
    };
    refused(
        Settings {
            budget: 0.0,
            ..good.clone()
        },
        "budget",
    );
    refused(
        Settings {
            budget_in_all: 1.5,
            ..good.clone()
        },
        "budget",
    );
    refused(
        Settings {
            control: f64::NAN,
            ..good.clone()
        },
        "control",
    );
    refused(
        Settings {
            devices: Vec::new(),
            ..good.clone()
        },
        "no block device",
    );
    refused(
        Settings {
            devices: vec![device; 17],
            ..good.clone()
        },
        "too many",
    );
    refused(
        Settings {
            reads: false,
            writes: false,
            ..good.clone()
        },
        "neither",
    );
    refused(
        Settings {
            lead: Some(Duration::ZERO),
            ..good.clone()
        },
        "lead",
    );
    refused(
        Settings {
            nap: Duration::from_secs(1),
            ..good
        },
        "nap",
    );
}

#[test]
fn a_disk_that_is_not_there_is_said() {
    let root = Root::default();
    for bad in ["no-such-disk", "", "../sda", "/dev/../etc"] {
        match BlockDevice::named(&root, bad) {
            Err(Error::Usage(why)) => assert!(why.contains("there is no block device"), "{why}"),
            other => panic!("{bad}: {other:?}"),
        }
    }
}
