//! `reveille anticipate`, killed at any point: while it loads, with open windows, while a CPU is
//! busy, goes offline or returns. `ROUNDS` sets the number of rounds (3 unless set).

use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::program;
use nix::libc;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use reveille_alone::{Over, Part, Use, take_to_change};
use reveille_expect::{Served, Waker};

/// The longest wait for an expected event, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The engine's programs and maps in the kernel.
fn left() -> usize {
    let programs = libbpf_rs::query::ProgInfoIter::default();
    let programs =
        programs.filter(|program| program.name == "on_issue" || program.name == "expect");
    let tables = libbpf_rs::query::MapInfoIter::default();
    let tables = tables.filter(|table| {
        let name = table.name.to_str();
        [Some("plans"), Some("flights"), Some("bell")].contains(&name)
    });
    programs.count() + tables.count()
}

/// The kernel's warnings from now on.
struct KernelLog(File);

impl KernelLog {
    fn follow() -> Self {
        let mut log = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open("/dev/kmsg")
            .unwrap();
        log.seek(SeekFrom::End(0)).unwrap();
        Self(log)
    }

    /// The kernel's log. Each read gives one record.
    fn complaints(&mut self) -> Vec<String> {
        const WORDS: [&str; 8] = [
            "WARNING:",
            "BUG:",
            "Oops",
            "Call Trace",
            "stall on",
            "stalls on",
            "hogged CPU",
            "lockup",
        ];
        let mut record = [0; 8192];
        let mut found = Vec::new();
        loop {
            match self.0.read(&mut record) {
                Ok(bytes) => {
                    let text = String::from_utf8_lossy(&record[..bytes]).into_owned();
                    if WORDS.iter().any(|word| text.contains(word)) {
                        found.push(text);
                    }
                }
                // Some were overwritten before they were read.
                Err(error) if error.raw_os_error() == Some(libc::EPIPE) => {}
                Err(_) => return found,
            }
        }
    }
}

fn reveille() -> Command {
    let mut command = program::with_own_journal(program::reveille());
    command.arg("anticipate");
    command
}

/// It runs for a moment, and ends by itself.
fn works(flags: &[&OsStr]) -> Output {
    let mut command = reveille();
    command.args(["--duration", "100ms", "--json"]).args(flags);
    command.output().unwrap()
}

/// The settings that the journal has not undone.
fn pages() -> Vec<OsString> {
    let entries = program::own_journal().read_dir().into_iter().flatten();
    entries.flatten().map(|entry| entry.file_name()).collect()
}

fn set_online(value: &str) -> bool {
    std::fs::write("/sys/devices/system/cpu/cpu1/online", value).is_ok()
}

/// Concurrent activity until stopped: windows are announced, a CPU is busy at times, and goes
/// offline and returns.
fn disturb(socket: &Path, over: &AtomicBool, seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut waker: Option<Waker> = None;
    while !over.load(Ordering::Relaxed) {
        match &mut waker {
            Some(waker) => {
                for _ in 0..10 {
                    let after = Duration::from_micros(random.u64(0..30_000));
                    let window = Duration::from_micros(random.u64(50..1_000));
                    let _ = waker.expect(Instant::now() + after, window);
                }
            }
            None if socket.exists() => {
                let connected = Waker::connect_to(socket);
                waker = (connected.served() == Served::ByEngine).then_some(connected);
            }
            None => {}
        }
        match random.u32(0..20) {
            0 => {
                set_online("0");
                std::thread::sleep(Duration::from_millis(random.u64(0..20)));
                set_online("1");
            }
            1..5 => {
                let busy = Instant::now() + Duration::from_millis(random.u64(1..30));
                while Instant::now() < busy {
                    std::hint::spin_loop();
                }
            }
            5..8 => {
                let mut only = CpuSet::new();
                let _ = only.set(random.usize(0..2));
                let _ = sched_setaffinity(Pid::from_raw(0), &only);
            }
            _ => std::thread::sleep(Duration::from_millis(random.u64(1..10))),
        }
    }
    set_online("1");
}

/// Kills it in the end, whatever the outcome.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn killed_at_any_point_it_leaves_nothing_and_the_kernel_logs_no_warning() {
    let test = "killed_at_any_point_it_leaves_nothing_and_the_kernel_logs_no_warning";
    // A CPU goes offline.
    let Some(_alone) = take_to_change(&[Use::Alone(Part::IdleStates), Use::Alone(Part::Cpus)])
    else {
        return;
    };
    let tried = works(&["--no-socket".as_ref()]);
    if !tried.status.success() {
        let why = String::from_utf8_lossy(&tried.stderr);
        return println!("skipped: {test}: {}", why.trim());
    }
    let rounds = std::env::var("ROUNDS").map_or(3, |rounds| rounds.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    let begin = || {
        let mut engine = reveille();
        engine.arg("--socket").arg(&socket);
        engine.stdout(Stdio::null()).stderr(Stdio::null());
        Running(engine.spawn().unwrap())
    };
    let (before, pages_before) = (left(), pages());
    let mut log = KernelLog::follow();
    let (mut serving, mut began) = (0, Instant::now());
    // Its time to start.
    let mut begins_in = {
        let _engine = begin();
        while !socket.exists() {
            assert!(began.elapsed() < PATIENCE, "it does not listen");
            std::thread::sleep(Duration::from_millis(10));
        }
        began.elapsed()
    };
    let mut random = fastrand::Rng::new();
    for round in 0..rounds {
        let _ = std::fs::remove_file(&socket);
        began = Instant::now();
        let mut engine = begin();
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let _over = Over(&over);
            scope.spawn(|| disturb(&socket, &over, round));
            // Half of them once it serves.
            let mut after = begins_in.mul_f64(random.f64());
            if random.bool() {
                while !socket.exists() {
                    assert!(began.elapsed() < PATIENCE, "it does not listen");
                    std::thread::sleep(Duration::from_millis(1));
                }
                begins_in = began.elapsed();
                serving += 1;
                after = Duration::from_millis(random.u64(0..200));
            }
            std::thread::sleep(after);
            engine.0.kill().unwrap();
            engine.0.wait().unwrap();
        });
        began = Instant::now();
        // The kernel removes them in its own time; other tests start and stop engines at the same
        // time.
        while left() > before {
            assert!(began.elapsed() < PATIENCE, "{} are left", left());
            std::thread::sleep(Duration::from_millis(5));
        }
        let complaints = log.complaints();
        assert!(complaints.is_empty(), "round {round}: {complaints:?}");
    }
    // The next one takes over, and leaves nothing.
    let next = works(&["--socket".as_ref(), socket.as_ref()]);
    assert!(next.status.success(), "{next:?}");
    assert_eq!(folder.path().read_dir().unwrap().count(), 0);
    let new: Vec<_> = pages()
        .into_iter()
        .filter(|page| !pages_before.contains(page))
        .collect();
    assert!(new.is_empty(), "{new:?}");
    println!("{rounds} kills, {serving} of them while it served: nothing left, no complaint");
}
