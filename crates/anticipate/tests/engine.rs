//! The engine in the running kernel, with direct reads of a file. It needs root, BPF and a file on
//! a disk that supports direct reads; otherwise each test reports that it was skipped and why.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use libbpf_rs::{MapCore, MapFlags};
use nix::libc;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use reveille_alone::{Part, Use, is_apart, take};
use reveille_anticipate::{
    AwakePower, BlockDevice, Engine, Error, Expectations, Operation, OperationStatistics, Settings,
    Subject, Unplanned,
};
use reveille_kernel::{Root, cpulist, load};

/// The longest wait for an expected event, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);
/// The longest wait for a CPU that has to be idle: it may be busy all the time.
const UNTIL_IDLE: Duration = Duration::from_secs(10);

/// A file on a disk, read past the page cache.
struct Reads {
    file: File,
    device: BlockDevice,
    _folder: tempfile::TempDir,
}

const SIZE: u64 = 4 << 20;

/// WINDOWS_ANNOUNCED of anticipate.h.
const ANNOUNCED: usize = 12;
/// WINDOWS_OF_USER.
const OF_USER: usize = 4;

fn last_cpu() -> u32 {
    let online = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap();
    *cpulist::parse(&online).unwrap().last().unwrap()
}

/// `None`, with a message, if anticipation is unavailable.
fn reads(test: &str) -> Option<(impl Sized, Reads)> {
    // Two engines would see each other's requests; they keep CPUs awake, and some tests take one offline.
    let parts = [Part::IdleStates, Part::Cpus, Part::Disk];
    let guard = take(&parts.map(Use::Alone));
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
        return skip("/sys has no disk with the file");
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
        // SAFETY: the buffer has the requested length and the alignment for direct reads.
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

    /// Reads, with pauses in which a CPU can sleep, until the engine's statistics meet the
    /// condition.
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
        let outcomes = seen.assistance;
        // The engine counts how a request went a little after it has counted the request.
        let told = outcomes.in_time + outcomes.early + outcomes.late + outcomes.cpu_busy;
        outcomes.assisted >= 40 && outcomes.control >= 4 && told == outcomes.assisted
    });
    let outcomes = seen.assistance;
    let counted = outcomes.learning
        + outcomes.crowded
        + outcomes.over_budget
        + outcomes.plan_full
        + outcomes.unattended
        + outcomes.control
        + outcomes.assisted;
    assert_eq!(counted, seen.requests, "{seen:?}");
    assert!(outcomes.learning >= 4, "{seen:?}");
    // One in four assisted requests is followed. A wait is lost if the waiter continues on another
    // CPU, which happens occasionally here.
    for (latency, requests, least) in [
        (&seen.assisted, outcomes.assisted, 1),
        (&seen.left_alone, outcomes.control, outcomes.control / 2),
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
        accounting.iter().any(|one| {
            one.process == Some(std::process::id()) && one.requests >= outcomes.assisted
        }),
        "{accounting:?}"
    );
}

/// In a container a process has another ID than in the initial namespace.
#[test]
fn every_request_is_accounted_for_in_a_pid_namespace_too() {
    const TEST: &str = "engine::every_request_is_accounted_for_in_a_pid_namespace_too";
    if is_apart(TEST, &["unshare", "--pid", "--fork", "--mount-proc"]) {
        every_request_is_accounted_for();
    }
}

#[test]
fn time_awake_is_reported_in_joules_if_the_power_is_known() {
    let Some((_alone, reads)) = reads("time_awake_is_reported_in_joules_if_the_power_is_known")
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
        // No further work while the statistics are read.
        engine.run(false);
        let statistics = engine.statistics().unwrap();
        let charged = statistics
            .accounting
            .iter()
            .map(|one| (one.awake_s, one.awake_j));
        let by_cpu = statistics.cpus.iter().map(|cpu| (cpu.awake_s, cpu.awake_j));
        for (awake_s, awake_j) in charged
            .chain(by_cpu)
            .chain([(statistics.awake_s, statistics.awake_j)])
        {
            assert_eq!(awake_j, known.map(|power| awake_s * power.median_w));
        }
        let all_s: f64 = statistics.cpus.iter().map(|cpu| cpu.awake_s).sum();
        assert_eq!(statistics.awake_s, all_s);
        if all_s == 0.0 {
            println!(
                "skipped: time_awake_is_reported_in_joules_if_the_power_is_known: busy CPUs were \
                 not kept awake"
            );
        }
    }
}

#[test]
fn the_engine_stays_within_its_budget() {
    let Some((_alone, reads)) = reads("the_engine_stays_within_its_budget") else {
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
        return println!(
            "skipped: the_engine_stays_within_its_budget: busy CPUs needed none of it"
        );
    }
    // The budget of a tenth of a second may be spent at once, and an interrupt or the hypervisor
    // may delay the end of a loop.
    let each_s = 0.002 * (engine.elapsed().as_secs_f64() + 0.1) + 0.005;
    assert!(awake_s <= each_s * cpus, "{awake_s} s: {statistics:?}");
    for cpu in &statistics.cpus {
        assert!(cpu.awake_s <= each_s, "{statistics:?}");
    }
}

#[test]
fn other_processes_requests_are_ignored() {
    if !is_apart("engine::other_processes_requests_are_ignored", &[]) {
        return;
    }
    let Some((_alone, reads)) = reads("other_processes_requests_are_ignored") else {
        return;
    };
    let engine = Engine::start(&reads.settings()).unwrap();
    let child = in_another_process(|| (0..200).for_each(|number| reads.read_one(number)));
    let mut status = 0;
    // SAFETY: waits for the child created above, into a local variable.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0);
    let seen = seen(&engine).expect("the model learns from all requests of the disk");
    assert_eq!(seen.requests, 0, "{seen:?}");
    // Except for those that complete while another CPU learns, and those with a missed completion.
    let learnt = seen.models.iter().map(|model| model.count).sum::<u64>();
    assert!(learnt >= 180, "{learnt} of 200");
}

#[test]
fn applications_get_the_same_plans() {
    let Some((_alone, reads)) = reads("applications_get_the_same_plans") else {
        return;
    };
    let engine = Engine::start(&reads.settings()).unwrap();
    let announcer = engine.announcer();
    let me = std::process::id();
    let expect = |cpu, at_ns, window_ns| announcer.expect(cpu, at_ns, window_ns, me, 0);
    assert_eq!(expect(9999, now_ns(), 1000), Err(Unplanned::Cpu));
    assert_eq!(expect(0, 1, 1000), Err(Unplanned::Past));
    let ticket = expect(0, now_ns() + 5_000_000_000, 100_000).unwrap();
    announcer.cancel(ticket);
    let long = expect(0, now_ns(), 10_000_000_000);
    assert_eq!(long, Err(Unplanned::Budget));
    let announced = engine.statistics().unwrap().expectations;
    let expected = Expectations {
        taken: 1,
        past: 1,
        over_budget: 1,
        no_cpu: 1,
        ..Expectations::default()
    };
    assert_eq!(announced, expected);
    drop(engine);
    assert_eq!(expect(0, now_ns(), 1000), Err(Unplanned::Cpu));
}

fn now_ns() -> u64 {
    let now = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC).unwrap();
    now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64
}

fn pin(cpu: u32) {
    let mut only = CpuSet::new();
    only.set(cpu as usize).unwrap();
    sched_setaffinity(Pid::from_raw(0), &only).unwrap();
}

/// Keeps the CPU awake until dropped.
struct Load {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Load {
    fn on(cpu: u32) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let ends = over.clone();
        let thread = std::thread::spawn(move || {
            pin(cpu);
            while !ends.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        Self {
            over,
            thread: Some(thread),
        }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// A CPU that can go offline, and is online again when this is dropped; `None`, with a reason, if
/// there is none.
struct Unplugged(u32);

impl Unplugged {
    fn can(test: &str) -> Option<u32> {
        let cpu = 1;
        let path = format!("/sys/devices/system/cpu/cpu{cpu}/online");
        match OpenOptions::new().write(true).open(&path) {
            Ok(_) => Some(cpu),
            Err(error) => {
                println!("skipped: {test}: {path}: {error}");
                None
            }
        }
    }

    fn new(cpu: u32) -> Self {
        set_online(cpu, "0").unwrap();
        Self(cpu)
    }
}

impl Drop for Unplugged {
    fn drop(&mut self) {
        let _ = set_online(self.0, "1");
    }
}

fn set_online(cpu: u32, value: &str) -> std::io::Result<()> {
    std::fs::write(format!("/sys/devices/system/cpu/cpu{cpu}/online"), value)
}

/// The CPU's idle time since boot.
fn idle(cpu: u32) -> Duration {
    // Ticks of a hundredth of a second.
    Duration::from_millis(10 * load::idle_ticks(&Root::default()).unwrap()[&cpu])
}

/// Announces windows until the CPU was kept awake in some of them. Panics if it idles for seconds
/// without being kept awake, or if windows are refused although the earlier ones are over. False if
/// other load kept it from idling for so long.
fn is_kept_awake(engine: &Engine, cpu: u32, patience: Duration) -> bool {
    let announcer = engine.announcer();
    let spells = || engine.statistics().unwrap().cpus[cpu as usize].spells;
    let (began, idle_before, before) = (Instant::now(), idle(cpu), spells());
    while spells() < before + 3 {
        let ticket = announcer.expect(cpu, now_ns() + 3_000_000, 500_000, 1, 12345);
        let refused = match ticket {
            Err(Unplanned::Full) => began.elapsed() > Duration::from_millis(200),
            Err(Unplanned::User | Unplanned::Cpu | Unplanned::Reader) => true,
            Ok(_) | Err(Unplanned::Budget | Unplanned::Past) => false,
        };
        assert!(
            !refused && idle(cpu) < idle_before + Duration::from_secs(5),
            "{ticket:?}: {:?}",
            engine.statistics().unwrap().cpus[cpu as usize]
        );
        if began.elapsed() > patience {
            return false;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    true
}

#[test]
fn windows_that_end_on_a_busy_cpu_do_not_block_its_plan() {
    let test = "windows_that_end_on_a_busy_cpu_do_not_block_its_plan";
    let Some((_alone, reads)) = reads(test) else {
        return;
    };
    let cpu = last_cpu();
    let engine = Engine::start(&reads.settings()).unwrap();
    let announcer = engine.announcer();
    let load = Load::on(cpu);
    std::thread::sleep(Duration::from_millis(100));
    // The maximum number, from as many users as necessary.
    let soon_ns = now_ns() + 300_000_000;
    let announce = |number: u32| {
        let at_ns = soon_ns + u64::from(number) * 30_000_000;
        announcer.expect(cpu, at_ns, 500_000, 1, number)
    };
    let taken = (0..30).filter(|number| announce(*number).is_ok()).count();
    assert_eq!(taken, ANNOUNCED, "{:?}", engine.statistics().unwrap());
    std::thread::sleep(Duration::from_millis(1500));
    drop(load);
    if !is_kept_awake(&engine, cpu, UNTIL_IDLE) {
        println!("skipped: {test}: CPU {cpu} was never idle");
    }
}

/// The same, repeatedly: in `ROUNDS` of them (20 unless set) windows are announced and cancelled
/// while the CPU is busy and reads, and sometimes goes offline; then it is idle.
#[test]
fn an_idle_cpu_is_served_after_it_was_busy() {
    let test = "an_idle_cpu_is_served_after_it_was_busy";
    let Some((_alone, reads)) = reads(test) else {
        return;
    };
    let rounds = std::env::var("ROUNDS").map_or(20, |rounds| rounds.parse().unwrap());
    let unplugged = Unplugged::can(test);
    let engine = Engine::start(&Settings {
        budget: 1.0,
        budget_in_all: 1.0,
        ..reads.settings()
    });
    let engine = engine.unwrap();
    let announcer = engine.announcer();
    let (mut random, mut served) = (fastrand::Rng::new(), 0);
    for round in 0..rounds {
        let cpu = round % (last_cpu() + 1);
        let load = Load::on(cpu);
        let busy_until = Instant::now() + Duration::from_millis(random.u64(20..50));
        while Instant::now() < busy_until {
            let (after_ns, window_ns) = (random.u64(0..30_000_000), random.u64(1..1_000_000));
            let user = random.u32(0..4);
            let taken = announcer.expect(cpu, now_ns() + after_ns, window_ns, 1, user);
            if let Ok(ticket) = taken
                && random.bool()
            {
                announcer.cancel(ticket);
            }
            reads.read_one(random.u64(0..1 << 20));
        }
        if round % 20 == 19
            && let Some(cpu) = unplugged
        {
            let gone = Unplugged::new(cpu);
            assert_eq!(
                announcer.expect(cpu, now_ns(), 1000, 1, 1),
                Err(Unplanned::Cpu)
            );
            drop(gone);
        }
        drop(load);
        served += u32::from(is_kept_awake(&engine, cpu, Duration::from_secs(1)));
    }
    let statistics = engine.statistics().unwrap();
    let full: u64 = statistics
        .operations
        .iter()
        .map(|one| one.assistance.plan_full)
        .sum();
    let requests: u64 = statistics.operations.iter().map(|one| one.requests).sum();
    println!(
        "{rounds} rounds, 0 jams, the CPU was idle and kept awake after {served} of them; {requests} \
         requests, {full} of them met a full plan; {:?}",
        statistics.expectations
    );
    assert!(full * 100 <= requests, "{statistics:?}");
}

#[test]
fn a_user_has_a_few_windows_of_a_cpu_and_requests_have_the_rest() {
    let test = "a_user_has_a_few_windows_of_a_cpu_and_requests_have_the_rest";
    let Some((_alone, reads)) = reads(test) else {
        return;
    };
    let engine = Engine::start(&reads.settings()).unwrap();
    let announcer = engine.announcer();
    let later_ns = now_ns() + 3_600_000_000_000;
    let expect = |user| announcer.expect(0, later_ns, 1_000_000, 1, user);
    let mut tickets = Vec::new();
    for user in 1..3 {
        tickets.extend((0..OF_USER).map(|_| expect(user).unwrap()));
        assert_eq!(expect(user), Err(Unplanned::User));
    }
    // Root has the remaining places.
    tickets.extend((tickets.len()..ANNOUNCED).map(|_| expect(0).unwrap()));
    assert_eq!(expect(0), Err(Unplanned::Full));
    assert_eq!(expect(3), Err(Unplanned::Full));
    // A cancelled window's place is free again; an earlier cancellation affects no other window.
    announcer.cancel(tickets[0]);
    expect(3).unwrap();
    announcer.cancel(tickets[0]);
    assert_eq!(expect(3), Err(Unplanned::Full));
    let on_it = std::thread::spawn(move || {
        pin(0);
        let seen = reads.until(&engine, |seen| seen.assistance.assisted >= 200);
        assert_eq!(seen.assistance.plan_full, 0, "{seen:?}");
    });
    on_it.join().unwrap();
}

#[test]
fn an_offline_cpu_is_refused_and_served_again_once_online() {
    let test = "an_offline_cpu_is_refused_and_served_again_once_online";
    let (Some((_alone, reads)), Some(cpu)) = (reads(test), Unplugged::can(test)) else {
        return;
    };
    let refused = |engine: &Engine| {
        let refused = engine.announcer().expect(cpu, now_ns(), 1000, 1, 1);
        assert_eq!(refused, Err(Unplanned::Cpu));
    };
    let gone = Unplugged::new(cpu);
    let engine = Engine::start(&reads.settings()).unwrap();
    refused(&engine);
    drop(gone);
    let served = is_kept_awake(&engine, cpu, UNTIL_IDLE);
    // Also with open windows.
    for user in 0..2 {
        for _ in 0..OF_USER {
            let _ = engine
                .announcer()
                .expect(cpu, now_ns() + 50_000_000, 500_000, 1, user);
        }
    }
    let gone = Unplugged::new(cpu);
    std::thread::sleep(Duration::from_millis(100));
    refused(&engine);
    drop(gone);
    if !(served && is_kept_awake(&engine, cpu, UNTIL_IDLE)) {
        println!("skipped: {test}: CPU {cpu} was never idle");
    }
}

/// Resident memory of this process, bytes.
fn resident() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

#[test]
fn announcements_for_a_busy_cpu_use_no_memory() {
    if !is_apart("engine::announcements_for_a_busy_cpu_use_no_memory", &[]) {
        return;
    }
    let Some((_alone, reads)) = reads("announcements_for_a_busy_cpu_use_no_memory") else {
        return;
    };
    let engine = Engine::start(&reads.settings()).unwrap();
    let announcer = engine.announcer();
    let cpu = last_cpu();
    let _load = Load::on(cpu);
    let before = resident();
    for number in 0..300_000 {
        let ticket = announcer.expect(cpu, now_ns() + 5_000_000_000, 1_000_000, 1, number);
        if let Ok(ticket) = ticket
            && number % 2 == 0
        {
            announcer.cancel(ticket);
        }
    }
    let more = resident().saturating_sub(before);
    assert!(more < 4 << 20, "{more} bytes more");
}

/// A program does not run inside itself: a completion that interrupts another one's program is
/// missed.
#[test]
fn requests_with_a_missed_completion_are_forgotten() {
    let Some((_alone, reads)) = reads("requests_with_a_missed_completion_are_forgotten") else {
        return;
    };
    let engine = Engine::start(&reads.settings()).unwrap();
    // The engine's own tables: the most recently created ones.
    let table = |name: &str| {
        let tables = libbpf_rs::query::MapInfoIter::default();
        let of_name = tables.filter(|table| table.name.to_str() == Some(name));
        let last = of_name.map(|table| table.id).max().unwrap();
        libbpf_rs::MapHandle::from_map_id(last).unwrap()
    };
    let (flights, devices) = (table("flights"), table("devices"));
    // Three of a CPU that does not exist, issued at boot, by `struct flight`; the device counts
    // them.
    let mut flight = vec![0; flights.value_size() as usize];
    flight[20..24].fill(0xff);
    for request in 1..=3u64 {
        let key = request.to_ne_bytes();
        flights.update(&key, &flight, MapFlags::NO_EXIST).unwrap();
    }
    let mut device = devices.lookup(&[0; 4], MapFlags::ANY).unwrap().unwrap();
    device[0] += 3;
    devices.update(&[0; 4], &device, MapFlags::EXIST).unwrap();
    reads.until(&engine, |seen| seen.assistance.assisted >= 20);
    for request in 1..=3u64 {
        let left = flights.lookup(&request.to_ne_bytes(), MapFlags::ANY);
        assert_eq!(left.unwrap(), None);
    }
}

/// In a separate process, which may open few files.
#[test]
fn too_few_descriptors_are_reported_with_their_limit() {
    const TEST: &str = "engine::too_few_descriptors_are_reported_with_their_limit";
    if !is_apart(TEST, &["sh", "-c", "ulimit -n 30; exec \"$0\" \"$@\""]) {
        return;
    }
    let device = BlockDevice {
        name: "sda".to_owned(),
        major: 8,
        minor: 0,
    };
    let started = Engine::start(&Settings {
        devices: vec![device],
        ..Settings::default()
    });
    match started.err() {
        Some(Error::Cannot(why)) => assert!(why.contains("ulimit -n"), "{why}"),
        other => panic!("{other:?}"),
    }
}

/// How often the engine's threads, which belong to this process, have run so far, by name; `None`
/// if one of them does not sleep.
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
fn without_requests_it_arms_no_timer_and_wakes_no_cpu() {
    if !is_apart(
        "engine::without_requests_it_arms_no_timer_and_wakes_no_cpu",
        &[],
    ) {
        return;
    }
    let test = "without_requests_it_arms_no_timer_and_wakes_no_cpu";
    let Some((_alone, reads)) = reads(test) else {
        return;
    };
    let engine = Engine::start(&reads.settings()).unwrap();
    let done = || {
        let cpus = engine.statistics().unwrap().cpus;
        let done = cpus.iter().map(|cpu| (cpu.timers, cpu.fired, cpu.notices));
        (done.collect::<Vec<_>>(), runs_of_its_threads())
    };
    // Its threads have to be on their CPUs, and asleep.
    let began = Instant::now();
    let before = loop {
        let now = done();
        std::thread::sleep(Duration::from_millis(200));
        if now.1.is_some() && now == done() {
            break now;
        }
        assert!(began.elapsed() < PATIENCE, "its threads do not sleep");
    };
    // CPUs sleep and wake, and other processes' requests are issued and completed.
    let child = in_another_process(|| (0..200).for_each(|number| reads.read_one(number)));
    let mut status = 0;
    // SAFETY: waits for the child created above, into a local variable.
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
fn the_interrupted_cpu_is_kept_awake_only_while_wanted() {
    let test = "the_interrupted_cpu_is_kept_awake_only_while_wanted";
    let Some((_alone, reads)) = reads(test) else {
        return;
    };
    let reads = Arc::new(reads);
    for cpu in 0..=last_cpu() {
        // With so short a lead the thread is late; until that is known it is notified all the same.
        let engine = Engine::start(&Settings {
            lead: Some(Duration::from_micros(2)),
            ..reads.settings()
        });
        let engine = Arc::new(engine.unwrap());
        let (on_it, reading) = (engine.clone(), reads.clone());
        let on_it = std::thread::spawn(move || {
            pin(cpu);
            reading.until(&on_it, |seen| seen.assistance.assisted >= 100)
        });
        if on_it.join().unwrap().assistance.two_cpus == 0 {
            continue;
        }
        let began = Instant::now();
        while runs_of_its_threads().is_none() {
            assert!(began.elapsed() < PATIENCE, "a thread does not sleep");
            std::thread::sleep(Duration::from_millis(20));
        }
        let statistics = engine.statistics().unwrap();
        let awake_s: f64 = statistics.cpus.iter().map(|cpu| cpu.awake_s).sum();
        assert!(
            awake_s < 0.5 * engine.elapsed().as_secs_f64(),
            "{statistics:?}"
        );
        return;
    }
    println!("skipped: {test}: the disk's interrupts come to the CPUs that wait");
}

#[test]
fn its_own_cost_is_reported_per_request() {
    let Some((_alone, reads)) = reads("its_own_cost_is_reported_per_request") else {
        return;
    };
    let engine = Engine::start(&reads.settings()).unwrap();
    assert_eq!(engine.own_cost(|| {}).unwrap(), None);
    let own = engine.own_cost(|| (0..300).for_each(|number| reads.read_one(number)));
    match own.unwrap() {
        // A limit that would be absurd on any machine; `make bench` has the figure.
        Some(own) => {
            assert!(own.ns > 10.0 && own.ns < 1e6, "{own:?}");
            // Idle periods and context switches are counted as well.
            let share = own.at_requests_ns / own.ns;
            assert!((0.01..1.0).contains(&share), "{own:?}");
        }
        None => println!(
            "skipped: its_own_cost_is_reported_per_request: the kernel does not count how long \
             programs run"
        ),
    }
}

#[test]
fn settings_out_of_range_are_refused() {
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
    // What applications announce needs no disk.
    let applications = Settings {
        devices: Vec::new(),
        ..good.clone()
    };
    applications.check().unwrap();
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
fn a_missing_disk_is_reported() {
    let root = Root::default();
    for bad in ["no-such-disk", "", "../sda", "/dev/../etc"] {
        match BlockDevice::named(&root, bad) {
            Err(Error::Usage(why)) => assert!(why.contains("no block device"), "{why}"),
            other => panic!("{bad}: {other:?}"),
        }
    }
}
