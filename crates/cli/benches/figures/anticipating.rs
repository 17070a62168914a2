//! The own cost of anticipatory wake-up, and that it causes no wake-ups without requests.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use nix::libc;
use reveille_anticipate::bench::assist::OwnCost;
use reveille_anticipate::{BlockDevice, Engine, Error, Settings, Subject};
use reveille_kernel::{Idle, Root};

use super::{Yardstick, median, row};

/// Of the file that is read.
const BYTES: u64 = 64 << 20;
const PAGE: usize = 4096;
const READS: u64 = 2000;
const ROUNDS: usize = 7;
/// How long CPUs are looked at, with and without the engine in turn.
const LOOK: Duration = Duration::from_secs(3);
/// What loading does to the machine is over by then.
const SETTLE: Duration = Duration::from_secs(1);

pub fn anticipating(yardstick: &Yardstick) {
    let Ok(folder) = tempfile::tempdir_in("/var/tmp") else {
        return println!("skipped: anticipatory wake-up: /var/tmp cannot be written");
    };
    let file = match readable(&folder.path().join("file")) {
        Ok(file) => file,
        Err(error) => return println!("skipped: anticipatory wake-up: direct reads: {error}"),
    };
    let disk = disk_of(&file).ok_or_else(|| "the file is on no disk that /sys tells of".to_owned());
    let settings = disk.map(|disk| Settings {
        devices: vec![disk],
        subject: Subject::Process(std::process::id()),
        control: 0.0,
        ..Settings::default()
    });
    let measured = settings.and_then(|settings| {
        idle(&settings).map_err(|error| error.to_string())?;
        let engine = Engine::start(&settings).map_err(|error| error.to_string())?;
        own_cost(&engine, &file, yardstick);
        Ok(())
    });
    if let Err(why) = measured {
        println!("skipped: anticipatory wake-up: {why}");
    }
}

fn own_cost(engine: &Engine, file: &File, yardstick: &Yardstick) {
    for (what, pause) in [
        ("one after the other", Duration::ZERO),
        ("1 ms apart", Duration::from_millis(1)),
    ] {
        // It learns first: what it does not know it does not anticipate.
        read(file, 200, pause);
        let rounds = (0..ROUNDS).map(|_| engine.own_cost(|| read(file, READS, pause)));
        let rounds: Vec<OwnCost> = rounds.filter_map(|cost| cost.ok().flatten()).collect();
        if rounds.is_empty() {
            return println!("skipped: the engine's own cost: the kernel does not count it");
        }
        let (least, most) = rounds
            .iter()
            .fold((f64::INFINITY, 0.0_f64), |(least, most), cost| {
                (least.min(cost.ns), most.max(cost.ns))
            });
        let median_of = |part: fn(&OwnCost) -> f64| median(rounds.iter().map(part).collect());
        let (ns, at_requests_ns) = (
            median_of(|cost| cost.ns),
            median_of(|cost| cost.at_requests_ns),
        );
        row(
            &format!(
                "anticipatory wake-up: the engine's programs for a read, {what}, bpf_stats less an empty program's"
            ),
            format!(
                "{ns:.0} ns ({least:.0} to {most:.0} in {ROUNDS} rounds), {at_requests_ns:.0} of them \
                 at issue and completion: {}",
                yardstick.of(ns)
            ),
            "2 µs",
        );
    }
}

/// The engine attached and nothing to anticipate, against the machine without it, in turn.
fn idle(settings: &Settings) -> Result<(), Error> {
    let (mut with, mut without) = (Vec::new(), Vec::new());
    let (mut armed, mut ran) = (0, 0);
    for _ in 0..ROUNDS {
        let engine = Engine::start(settings)?;
        sleep(SETTLE);
        let before = (timers(&engine)?, runs_of_its_threads());
        with.extend(wakeups_per_s());
        armed += timers(&engine)? - before.0;
        ran += runs_of_its_threads() - before.1;
        drop(engine);
        sleep(SETTLE);
        without.extend(wakeups_per_s());
    }
    row(
        "anticipatory wake-up, no request: timers armed, and runs of its threads",
        format!(
            "{armed} and {ran} in {:.0} s",
            ROUNDS as f64 * LOOK.as_secs_f64()
        ),
        "0",
    );
    if !with.is_empty() {
        row(
            "anticipatory wake-up, no request: wake-ups of all CPUs",
            format!("{:.0} per second", median(with)),
            format!("{:.0} per second without it", median(without)),
        );
    }
    Ok(())
}

/// That it has armed so far, and notices to its threads.
fn timers(engine: &Engine) -> Result<u64, Error> {
    let cpus = engine.statistics()?.cpus;
    Ok(cpus.iter().map(|cpu| cpu.timers + cpu.notices).sum())
}

/// By cpuidle's counts; `None` where there are none.
fn wakeups_per_s() -> Option<f64> {
    let before = entries();
    sleep(LOOK);
    let before = before?;
    Some((entries()? - before) as f64 / LOOK.as_secs_f64())
}

/// Into idle states, of all CPUs so far.
fn entries() -> Option<u64> {
    let root = Root::default();
    let idle = Idle::read(&root).ok()?;
    let mut sum = 0;
    for cpu in idle.cpus.iter().filter(|cpu| cpu.online) {
        for state in &cpu.states {
            let folder = format!("sys/devices/system/cpu/cpu{}/cpuidle", cpu.number);
            sum += root.number(&format!("{folder}/state{}/usage", state.index))?;
        }
    }
    (sum > 0).then_some(sum)
}

fn runs_of_its_threads() -> u64 {
    let tasks = fs::read_dir("/proc/self/task")
        .into_iter()
        .flatten()
        .flatten();
    let runs = tasks.filter_map(|task| {
        let read = |name| fs::read_to_string(task.path().join(name)).ok();
        read("comm").filter(|name| name.starts_with("ready-"))?;
        let status = read("status")?;
        let line = status.lines().find(|line| line.starts_with("voluntary"))?;
        line.split_whitespace().last()?.parse::<u64>().ok()
    });
    runs.sum()
}

fn readable(path: &Path) -> std::io::Result<File> {
    let mut written = File::create(path)?;
    written.write_all(&vec![7; BYTES as usize])?;
    written.sync_all()?;
    OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_DIRECT)
        .open(path)
}

fn disk_of(file: &File) -> Option<BlockDevice> {
    let number = file.metadata().ok()?.dev();
    let (major, minor) = (libc::major(number), libc::minor(number));
    let entry = fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")).ok()?;
    BlockDevice::named(&Root::default(), entry.file_name()?.to_str()?).ok()
}

#[repr(align(4096))]
struct Page([u8; PAGE]);

fn read(file: &File, reads: u64, pause: Duration) {
    let mut page = Page([0; PAGE]);
    for number in 0..reads {
        let offset = number * 7919 % (BYTES / PAGE as u64) * PAGE as u64;
        file.read_exact_at(&mut page.0, offset)
            .expect("the file is read");
        if !pause.is_zero() {
            sleep(pause);
        }
    }
}
