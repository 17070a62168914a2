//! Every command that draws or runs long, in a terminal: it ends by Ctrl-C, by SIGTERM and with its terminal, in 2 s,
//! also while nobody reads what it writes; what it draws fits; what another thread says is seen; nothing stays behind.

use std::fs;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use reveille_alone::{Part, Use, take, take_to_change};
use reveille_kernel::{Idle, Root, requests};

use super::session::Session;
use crate::meter::made_up;
use crate::program::reveille;

/// Within this time each ends.
const SOON: Duration = Duration::from_secs(2);

/// Some of them wait rather than compute.
const AT_ONCE: usize = 8;

/// A command, and what its terminal shows once it is at work.
struct Long {
    words: &'static str,
    at_work: &'static str,
    /// Does it draw something that changes?
    draws: bool,
}

impl Long {
    /// Does it change how CPUs sleep, or end where somebody else does?
    fn sets(&self) -> bool {
        let first = self.words.split(' ').next().unwrap_or_default();
        ["hold", "limit", "govern", "trial", "anticipate", "measure"].contains(&first)
    }
}

const fn draws(words: &'static str, at_work: &'static str) -> Long {
    Long {
        words,
        at_work,
        draws: true,
    }
}

const fn holds(words: &'static str, at_work: &'static str) -> Long {
    Long {
        words,
        at_work,
        draws: false,
    }
}

/// `BOUND` is one that the governor keeps to. `FOLDER`, `PORT`, `METER` and `CGROUP` are made for each session. `power cpus` and `power states` end where other load
/// runs; they draw and end as `trial` does.
const ALL: &[Long] = &[
    draws("measure --duration 30s --out FOLDER/result", "%"),
    draws("top", "machine"),
    holds("top --text --interval 250ms", "machine"),
    draws("cost --all-tasks --duration 30s", "%"),
    holds("cost -- sleep 60", ""),
    draws("path --ping --duration 30s", "%"),
    draws("quiet find --duration 30s", "%"),
    holds("quiet run --cgroup CGROUP", "Ctrl-C"),
    draws("anticipate --no-socket", "request"),
    draws("anticipate bench --dir FOLDER --file-size 1MiB", "%"),
    draws("power meters --meter METER --time 30s", "%"),
    draws("power record --meter METER", "time,power_w"),
    draws("trial --echo self --rounds 200", "%"),
    holds("trial --serve 127.0.0.1:PORT", "Ctrl-C"),
    holds("hold --latency BOUND", "Ctrl-C"),
    holds("hold --latency BOUND --cpu 1", "Ctrl-C"),
    holds("hold --latency BOUND --cpu 1 -- sleep 60", "CPU"),
    holds("limit --deepest POLL --cpu 1", "Ctrl-C"),
    holds(
        "govern --config FOLDER/rules.toml --socket FOLDER/socket",
        "always",
    ),
    draws(
        "stage --listen 127.0.0.1:PORT --upstream http://127.0.0.1:1 --deadline 500ms",
        "requests/s",
    ),
    draws("stage bench --turn 5s", "%"),
    draws("model simulate --utilisation 0.2 --requests 5000000", "%"),
    draws("resume analyze FOLDER/log", "%"),
    holds("resume analyze -", ""),
];

/// What a session needs.
struct Place {
    folder: tempfile::TempDir,
    port: u16,
    cgroup: Option<Cgroup>,
}

impl Place {
    fn of(long: &Long) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let rule = "[[rule]]\nname = \"always\"\nlatency = \"BOUND\"\ncpus = \"1\"\n";
        let rule = rule.replace("BOUND", bound());
        fs::write(folder.path().join("rules.toml"), rule).unwrap();
        if long.words.contains("/log") {
            // Each line is another, so that none is left out soon.
            let line = |ns: u32| {
                let s = f64::from(ns) * 1e-6;
                format!("[{s:12.6}] usb 1-1: calling wakeup_rpm_resume @ 1, parent: usb1\n")
            };
            let log: String = (0..1_000_000).map(line).collect();
            fs::write(folder.path().join("log"), log).unwrap();
        }
        Self {
            folder,
            port: free.local_addr().unwrap().port(),
            cgroup: long.words.contains("CGROUP").then(Cgroup::new).flatten(),
        }
    }

    /// Does the service answer?
    fn is_served(&self) -> bool {
        let mut status = self.command("govern status --socket FOLDER/socket");
        status.output().unwrap().status.success()
    }

    fn command(&self, words: &str) -> Command {
        let meter = match words.contains("METER") {
            true => made_up(Duration::from_millis(20), || 40.0),
            false => String::new(),
        };
        let cgroup = self
            .cgroup
            .as_ref()
            .map_or(Path::new("/none"), |one| &one.path);
        let mut command = reveille();
        command
            .current_dir(self.folder.path())
            .args(words.split(' ').map(|word| {
                word.replace("FOLDER", self.folder.path().to_str().unwrap())
                    .replace("BOUND", bound())
                    .replace("PORT", &self.port.to_string())
                    .replace("METER", &meter)
                    .replace("CGROUP", cgroup.to_str().unwrap())
            }));
        command
    }
}

/// One that the governor keeps to.
fn bound() -> &'static str {
    let idle = Idle::read(&Root::default()).unwrap();
    match requests::is_kept_to(&idle, 100) {
        true => "100us",
        false => "0",
    }
}

/// What is set of CPU 1.
fn settings() -> Vec<String> {
    let root = Root::default();
    let disabled =
        (0..10).map(|state| format!("sys/devices/system/cpu/cpu1/cpuidle/state{state}/disable"));
    let files = disabled.chain([requests::file_of(1)]);
    files.flat_map(|file| root.text(&file)).collect()
}

/// A cgroup with a task.
struct Cgroup {
    path: PathBuf,
    task: Child,
}

impl Cgroup {
    fn new() -> Option<Self> {
        static MADE: AtomicUsize = AtomicUsize::new(0);
        let mounts = fs::read_to_string("/proc/mounts").unwrap();
        let mount = mounts.lines().find(|line| line.starts_with("cgroup2 "))?;
        let name = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("reveille-terminal-{}-{name}", std::process::id());
        let path = Path::new(mount.split(' ').nth(1)?).join(name);
        fs::create_dir(&path).ok()?;
        let task = Command::new("sleep").arg("600").spawn().unwrap();
        let made = Self { path, task };
        fs::write(made.path.join("cgroup.procs"), made.task.id().to_string()).unwrap();
        Some(made)
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let _ = self.task.kill();
        let _ = self.task.wait();
        let _ = fs::remove_dir(&self.path);
    }
}

/// What happens to a command at work.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// The terminal becomes narrow; then Ctrl-C.
    Narrowed,
    /// It was narrow from the beginning; then SIGTERM.
    Terminated,
    Unread(Signal),
    Closed,
}

const WAYS: [Way; 5] = [
    Way::Narrowed,
    Way::Terminated,
    Way::Unread(Signal::SIGINT),
    Way::Unread(Signal::SIGTERM),
    Way::Closed,
];

/// Why it is not tried here.
struct Cannot(String);

/// Runs the command, and ends it in that way: how long that took.
fn end(long: &Long, way: Way) -> Result<Duration, Cannot> {
    let place = Place::of(long);
    let mut command = place.command(long.words);
    let mut session = match way {
        Way::Terminated => Session::sized(&mut command, 40, 12),
        _ => Session::start(&mut command),
    };
    let begun = Instant::now();
    let is_at_work = |session: &Session| {
        session.seen(|screen| screen.all().contains(long.at_work))
            && (!long.words.starts_with("govern") || place.is_served())
    };
    while !is_at_work(&session) {
        if let Some(status) = session.ended_within(Duration::from_millis(20)) {
            let said = session.seen(|screen| screen.all());
            assert_eq!(status.code(), Some(3), "{}: {said}", long.words);
            return Err(Cannot(said.trim_end().to_owned()));
        }
        let screen = || session.seen(|screen| screen.all());
        assert!(
            begun.elapsed() < super::session::PATIENCE,
            "{}: {}",
            long.words,
            screen()
        );
    }
    if long.at_work.is_empty() {
        // Until its handlers are there.
        std::thread::sleep(Duration::from_millis(500));
    }
    match way {
        Way::Narrowed => narrowed(long, &mut session),
        Way::Terminated => {
            let screen = session.seen(|screen| screen.text());
            let is_bar = |line: &&str| line.contains('%') && long.at_work == "%";
            let mut bars = screen.lines().filter(is_bar);
            assert!(
                bars.all(|bar| bar.contains('[')),
                "{}: {screen}",
                long.words
            );
            session.send(Signal::SIGTERM);
        }
        Way::Unread(signal) => {
            session.stop_reading();
            // A drawing comes, and has no room.
            std::thread::sleep(Duration::from_millis(if long.draws { 1200 } else { 50 }));
            session.send(signal);
        }
        Way::Closed => session.close(),
    }
    let ending = Instant::now();
    let what = format!("{} {way:?}", long.words);
    let status = session.ended_within(Duration::from_secs(30));
    let took = ending.elapsed();
    let screen = session.seen(|screen| screen.all());
    let screen = screen.trim_end();
    let status = status.unwrap_or_else(|| panic!("{what}: goes on: {screen}"));
    let is_honoured = requests::honoured(&Idle::read(&Root::default()).unwrap());
    if status.code() == Some(3) && (long.at_work.is_empty() || long.sets() && !is_honoured) {
        // Refused later than its handlers were waited for, or in words that look as if it were at work.
        return Err(Cannot(screen.to_owned()));
    }
    // A signal that nothing is to be done about ends it as it ends any program.
    let by_signal = [Signal::SIGHUP, Signal::SIGINT, Signal::SIGTERM].map(|one| Some(one as i32));
    let is_end = match status.code() {
        Some(code) => [0, 129, 130, 143].contains(&code),
        None => by_signal.contains(&status.signal()),
    };
    assert!(is_end, "{what}: {status}: {screen}");
    assert!(!screen.contains("\\u00"), "{what}: {screen}");
    let unknown = session.seen(|screen| screen.unknown.clone());
    assert!(unknown.is_empty(), "{what}: {unknown:?}");
    assert!(session.is_restored(), "{what}");
    Ok(took)
}

/// What it draws fits then; and Ctrl-C.
fn narrowed(long: &Long, session: &mut Session) {
    session.resize(40, 12);
    if long.draws {
        // What was on its way was drawn for the old size.
        std::thread::sleep(Duration::from_millis(1200));
        session.seen(|screen| screen.wraps = 0);
        std::thread::sleep(Duration::from_millis(1500));
        let screen = session.seen(|screen| screen.text());
        assert_eq!(
            session.seen(|screen| screen.wraps),
            0,
            "{}: {screen}",
            long.words
        );
    }
    session.press("\x03");
}

/// Whether it ended soon; `None` with a word if it does not run here.
fn ends_soon(long: &Long, way: Way) -> Option<bool> {
    match end(long, way) {
        Ok(took) => Some(took < SOON),
        Err(Cannot(why)) => {
            println!("skipped: {} in a terminal: {why}", long.words);
            None
        }
    }
}

#[test]
fn every_long_command_ends_soon_in_every_way() {
    let _held = take(&[Use::Beside(Part::Cpus)]);
    all_end_soon(|long| !long.sets());
}

#[test]
fn what_changes_how_cpus_sleep_ends_soon_in_every_way_and_leaves_nothing() {
    let Some(_held) = take_to_change(&[Use::Alone(Part::IdleStates), Use::Beside(Part::Cpus)])
    else {
        return;
    };
    let before = settings();
    all_end_soon(Long::sets);
    let end = Instant::now() + super::session::PATIENCE;
    while settings() != before {
        assert!(Instant::now() < end, "{before:?}: now {:?}", settings());
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn all_end_soon(these: fn(&Long) -> bool) {
    let all: Vec<_> = ALL
        .iter()
        .filter(|long| these(long))
        .flat_map(|long| WAYS.map(|way| (long, way)))
        .collect();
    let (next, failed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let slow = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(&(long, way)) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
                    // All are tried, whatever becomes of one.
                    match std::panic::catch_unwind(|| ends_soon(long, way)) {
                        Ok(Some(false)) => slow.lock().unwrap().push((long, way)),
                        Ok(_) => {}
                        Err(_) => drop(failed.fetch_add(1, Ordering::Relaxed)),
                    }
                }
            });
        }
    });
    assert_eq!(failed.into_inner(), 0, "of {}", all.len());
    // What was slow beside the others is tried alone, until this machine has a moment for it.
    for (long, way) in slow.into_inner().unwrap() {
        let is_soon = (0..10).any(|_| ends_soon(long, way) != Some(false));
        assert!(is_soon, "{} {way:?}: not within {SOON:?}", long.words);
    }
}

/// The first message of a proxy's thread once stopped all of it.
#[test]
fn what_stage_says_appears_above_the_line_that_it_draws() {
    let listen = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let line = format!("stage --listen {listen} --upstream http://127.0.0.1:1 --deadline 500ms");
    let mut stage = Session::start(reveille().args(line.split(' ')));
    stage.until_shown("requests/s");
    let ask = move || {
        let mut client = TcpStream::connect(listen).unwrap();
        client
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        client.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
        let mut answer = Vec::new();
        std::io::Read::read_to_end(&mut client, &mut answer).unwrap();
        assert!(
            answer.starts_with(b"HTTP/1.0 502"),
            "{}",
            String::from_utf8_lossy(&answer)
        );
    };
    let clients = [(); 4].map(|()| std::thread::spawn(ask));
    clients
        .into_iter()
        .for_each(|client| client.join().unwrap());
    stage.until("the message", |screen| screen.all().contains("refused"));
    stage.until("the line below it", |screen| {
        let all = screen.all();
        all.rfind("requests/s") > all.rfind("refused")
    });
    let shown = stage.seen(|screen| screen.all());
    assert_eq!(shown.matches("requests/s").count(), 1, "{shown}");
    assert!(!shown.contains("\\u00"), "{shown}");
    stage.press("\x03");
    assert_eq!(stage.ended().code(), Some(0));
    stage.until_gone("requests/s,");
}

/// A service in a terminal ends with it; without one SIGHUP reads its file again.
#[test]
fn sighup_ends_a_service_in_a_terminal() {
    let place = Place::of(&ALL[0]);
    let file = place.folder.path().join("stage.toml");
    let text = format!(
        "[[service]]\nname = \"a\"\nlisten = \"127.0.0.1:{}\"\nupstream = [\"http://127.0.0.1:1\"]\ndeadline = \"1s\"\n",
        place.port
    );
    fs::write(file, text).unwrap();
    let mut stage = Session::start(&mut place.command("stage --config FOLDER/stage.toml"));
    stage.until_shown("requests/s");
    stage.send(Signal::SIGHUP);
    assert_eq!(stage.ended().code(), Some(0));
}
