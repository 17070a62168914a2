//! Settings under several owners at a time, each a separate process, which end together or in any
//! order, by SIGTERM or SIGKILL: afterwards every setting is restored.
//!
//! The settings are the kernel's, so that a killed process has written a value or has not: two of
//! the test's own network namespace, by links from the paths of a CPU's settings.
//!
//! `make soak` runs 10,000 rounds; `ROUNDS` sets the number.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::libc::c_int;
use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, kill, sigaction};
use nix::unistd::{Pid, getppid};
use reveille_kernel::{Journal, Root, journal};

const BOUND: &str = "/sys/devices/system/cpu/cpu0/power/pm_qos_resume_latency_us";
const DISABLE: &str = "/sys/devices/system/cpu/cpu0/cpuidle/state1/disable";

/// They accept numbers from 1 to 255, and 0 or 1.
const STAND_INS: [(&str, &str); 2] = [
    (BOUND, "/proc/sys/net/ipv4/ip_default_ttl"),
    (DISABLE, "/proc/sys/net/ipv4/ip_forward"),
];

/// The path of the owner's machine.
const MACHINE: &str = "REVEILLE_TEST_OWNER_OF";

static ENDED: AtomicBool = AtomicBool::new(false);

extern "C" fn end(_signal: c_int) {
    ENDED.store(true, Ordering::Relaxed);
}

/// An owner's process: claims the settings listed on its standard input, reports that, and ends
/// normally at SIGTERM. Alone, this does nothing.
#[test]
fn an_owner() {
    let Some(machine) = std::env::var_os(MACHINE).map(PathBuf::from) else {
        return;
    };
    let action = SigAction::new(SigHandler::Handler(end), SaFlags::empty(), SigSet::empty());
    // SAFETY: the handler only stores to an atomic.
    unsafe { sigaction(Signal::SIGTERM, &action) }.unwrap();
    let mut journal = Journal::new(&Root::at(&machine), &machine.join("run"));
    for claim in std::io::stdin().lines() {
        let claim = claim.unwrap();
        if claim.is_empty() {
            break;
        }
        let (path, value) = claim.split_once(' ').unwrap();
        journal.set(path, value).unwrap();
    }
    println!("\nclaimed");
    let parent = getppid();
    while !ENDED.load(Ordering::Relaxed) && getppid() == parent {
        std::thread::park_timeout(Duration::from_millis(1));
    }
    assert_eq!(journal.restore().complaints(), [""; 0]);
}

struct Owner {
    process: Child,
    claims: Vec<(&'static str, &'static str)>,
}

impl Owner {
    fn start(machine: &Path, claims: Vec<(&'static str, &'static str)>) -> Self {
        let mut owner = Self::spawn(machine, claims);
        let mut lines = BufReader::new(owner.process.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap() == "claimed"));
        // Its messages at the end need a reader.
        std::thread::spawn(move || lines.for_each(drop));
        owner
    }

    fn spawn(machine: &Path, claims: Vec<(&'static str, &'static str)>) -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "owners::an_owner",
                "--nocapture",
                "--test-threads=1",
            ])
            .env(MACHINE, machine)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = process.stdin.take().unwrap();
        for (path, value) in &claims {
            writeln!(stdin, "{path} {value}").unwrap();
        }
        writeln!(stdin).unwrap();
        Self { process, claims }
    }

    fn end(&self, end: &End) {
        let signal = |signal| kill(Pid::from_raw(self.process.id() as i32), signal).unwrap();
        match end {
            End::Well => signal(Signal::SIGTERM),
            End::Killed => signal(Signal::SIGKILL),
            End::CutShort(after) => {
                signal(Signal::SIGTERM);
                std::thread::sleep(*after);
                signal(Signal::SIGKILL);
            }
        }
    }
}

enum End {
    Well,
    Killed,
    /// While it restores its settings.
    CutShort(Duration),
}

/// Its own generator, so that a round can be repeated by its number (xorshift64*).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % bound
    }

    fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }
}

/// The value in force under these claims, in the order in which they were made.
fn wanted(setting: &str, original: &str, owners: &[Owner]) -> String {
    let claims = owners.iter().flat_map(|owner| &owner.claims);
    let values: Vec<&str> = claims
        .filter(|claim| claim.0 == setting)
        .map(|claim| claim.1)
        .collect();
    if setting == DISABLE {
        return (*values.last().unwrap_or(&original)).to_owned();
    }
    let bounds = values.iter().copied().chain([original]);
    let us = bounds.map(|us| us.parse::<u32>().unwrap());
    us.min().unwrap().to_string()
}

/// A round: the number of owners, and the number of killed ones.
fn round(number: u64) -> (usize, usize) {
    let mut random = Random(number.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let folder = tempfile::tempdir().unwrap();
    let (machine, run) = (folder.path(), folder.path().join("run"));
    let root = Root::at(machine);
    let originals = [
        (BOUND, random.of(&["70", "200"])),
        (DISABLE, random.of(&["0", "1"])),
    ];
    for (setting, stand_in) in STAND_INS {
        let file = root.path(setting);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(stand_in, file).unwrap();
    }
    for (setting, value) in originals {
        std::fs::write(root.path(setting), value).unwrap();
    }
    let check = |owners: &[Owner], when: &str| {
        for (setting, original) in originals {
            let present = root.text(setting).unwrap();
            let what = format!("round {number}, {when}: {setting}");
            assert_eq!(present, wanted(setting, original, owners), "{what}");
        }
    };
    let mut owners = Vec::new();
    for _ in 0..2 + random.below(3) {
        let mut claims = vec![(BOUND, random.of(&["50", "50", "100", "20"]))];
        if random.below(2) == 0 {
            claims.push((DISABLE, random.of(&["1", "1", "0"])));
        }
        owners.push(Owner::start(machine, claims));
    }
    check(&owners, "all claimed");
    let count = owners.len();
    let mut killed = 0;
    if random.below(4) == 0 {
        // Perhaps while it claims.
        let mut hasty = Owner::spawn(machine, vec![(BOUND, "10"), (DISABLE, "1")]);
        std::thread::sleep(Duration::from_micros(random.below(8000) as u64));
        hasty.end(&End::Killed);
        hasty.process.wait().unwrap();
        killed += 1;
        journal::recover(&root, &run).unwrap();
        check(&owners, "one was killed while it began");
    }
    let how_often = random.of(&[0, 2, 4]);
    let mut draw = |random: &mut Random| {
        if random.below(4) >= how_often {
            return End::Well;
        }
        killed += 1;
        let after = Duration::from_micros(random.below(3000) as u64);
        match random.below(2) {
            0 => End::Killed,
            _ => End::CutShort(after),
        }
    };
    if random.below(2) == 0 {
        for owner in &owners {
            owner.end(&draw(&mut random));
        }
        for mut owner in owners.drain(..) {
            owner.process.wait().unwrap();
        }
    }
    while !owners.is_empty() {
        let mut owner = owners.remove(random.below(owners.len()));
        let end = draw(&mut random);
        owner.end(&end);
        owner.process.wait().unwrap();
        if !matches!(end, End::Well) {
            journal::recover(&root, &run).unwrap();
        }
        check(&owners, "one ended");
    }
    if killed == 0 {
        check(&[], "all ended well");
        assert_eq!(
            std::fs::read_dir(&run).unwrap().count(),
            0,
            "round {number}"
        );
    }
    journal::release(&root, &run, false).unwrap();
    check(&[], "restored");
    assert_eq!(
        std::fs::read_dir(&run).unwrap().count(),
        0,
        "round {number}"
    );
    (count, killed)
}

#[test]
fn owners_that_end_in_any_order_and_way_keep_the_others_settings() {
    if std::env::var_os(MACHINE).is_some() {
        return;
    }
    if let Err(errno) = unshare(CloneFlags::CLONE_NEWNET) {
        println!(
            "skipped: owners_that_end_in_any_order_and_way_keep_the_others_settings: a network \
             namespace is unavailable: {errno}"
        );
        return;
    }
    let rounds: u64 = std::env::var("ROUNDS").map_or(100, |rounds| rounds.parse().unwrap());
    let (mut owners, mut killed) = (0, 0);
    for number in 0..rounds {
        let (started, ended) = round(number);
        owners += started;
        killed += ended;
        if number % 1000 == 999 {
            println!(
                "{} rounds, {owners} owners, {killed} killed, 0 differences",
                number + 1
            );
        }
    }
    assert!(killed > 0 && killed < owners);
}
