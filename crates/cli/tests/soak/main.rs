//! Hostile users beside others, on the real engine: `make soak` for ten minutes, and for some
//! seconds with all tests.
//!
//! Processes of two users abuse the socket in every known way, are killed and restarted; busy loops
//! starve the engine's threads, and (in the long run) a CPU goes offline and returns. Beside them
//! root and a third user connect every 20 ms. The output is what the engine used, how long those
//! two waited, and what was refused.
//!
//! SOAK_SECONDS is the duration. Without it only counts and memory are judged, not times.

mod honest;
mod hostile;

use std::fmt::Display;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use honest::Account;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Gid, Pid, Uid, geteuid, setgid, setgroups, setuid};
use reveille_alone::{Part, Use, take};
use reveille_kernel::{Journal, Root, journal};
use serde_json::Value;

/// Restarted, this program is one of the others: its role, its user, and a number.
const ROLE: &str = "REVEILLE_SOAK_ROLE";
const SOCKET: &str = "REVEILLE_SOAK_SOCKET";

const HOSTILE_USERS: [u32; 2] = [65_531, 65_532];
const THIRD_USER: u32 = 65_533;

/// The limits: resident memory, KiB; connections, ms; the server's share of a CPU for a user;
/// wake-ups per second of a CPU by a user; windows of others without a place.
const MEMORY_KIB: u64 = 32 * 1024;
const CONNECT_MS: f64 = 50.0;
const SERVER_SHARE: f64 = 0.05;
const WAKEUPS: f64 = 100.0;
const CROWDED_OUT: f64 = 0.01;

fn main() -> ExitCode {
    if let Some(role) = std::env::var_os(ROLE) {
        play(&role.to_string_lossy());
        return ExitCode::SUCCESS;
    }
    let long = std::env::var("SOAK_SECONDS").ok();
    let seconds = long.as_deref().map_or(Ok(6), str::parse::<u64>);
    let Ok(seconds @ 1..) = seconds else {
        eprintln!("SOAK_SECONDS is not a number of seconds, 1 or more");
        return ExitCode::from(2);
    };
    let name = "hostile_users_leave_the_engine_to_the_others";
    let states = match long {
        Some(_) => Use::Alone(Part::IdleStates),
        None => Use::Beside(Part::IdleStates),
    };
    let _held = take(&[Use::Beside(Part::Cpus), states]);
    println!("\nrunning 1 test");
    let (word, passed) = match soak(Duration::from_secs(seconds), long.is_some()) {
        Ok(bad) => {
            bad.iter()
                .for_each(|bad| println!("beyond its bound: {bad}"));
            (if bad.is_empty() { "ok" } else { "FAILED" }, bad.is_empty())
        }
        Err(why) if long.is_some() => {
            eprintln!("the soak cannot run here: {why}");
            return ExitCode::from(3);
        }
        Err(why) => {
            println!("skipped: {name}: {why}");
            ("ok", true)
        }
    };
    println!("test {name} ... {word}");
    println!(
        "\ntest result: {word}. {} passed; {} failed; 0 ignored; 0 measured; 0 filtered out",
        u32::from(passed),
        u32::from(!passed)
    );
    ExitCode::from(u8::from(!passed))
}

// The other processes.

fn play(role: &str) {
    let mut words = role.split(' ');
    let mut number = || {
        words
            .next()
            .and_then(|word| word.parse::<u64>().ok())
            .unwrap_or(0)
    };
    let (kind, uid, number) = (number(), number() as u32, number());
    // It ends with its parent.
    // SAFETY: the call takes plain values.
    unsafe { nix::libc::prctl(nix::libc::PR_SET_PDEATHSIG, nix::libc::SIGKILL) };
    if kind == 1 {
        // The measurement is of the engine's answer, not of the client's wait for a CPU among the
        // busy processes.
        let first = nix::libc::sched_param { sched_priority: 1 };
        // SAFETY: the call takes plain values and a live struct.
        unsafe { nix::libc::sched_setscheduler(0, nix::libc::SCHED_RR, &first) };
    }
    if uid != 0 {
        setgroups(&[]).expect("root may");
        setgid(Gid::from_raw(uid)).expect("root may");
        setuid(Uid::from_raw(uid)).expect("root may");
        // A change of user clears it.
        // SAFETY: as above.
        unsafe { nix::libc::prctl(nix::libc::PR_SET_PDEATHSIG, nix::libc::SIGKILL) };
    }
    let path = PathBuf::from(std::env::var_os(SOCKET).expect("the parent gives it"));
    match kind {
        0 => hostile::run(&path, number as usize),
        1 => honest::run(&path, Duration::from_millis(number)),
        _ => burn(number as usize),
    }
}

/// Busy on a CPU for five seconds, and then not.
fn burn(cpu: usize) {
    let mut only = nix::sched::CpuSet::new();
    only.set(cpu).expect("a CPU of this machine");
    loop {
        // The CPU may be offline; then any other.
        let _ = nix::sched::sched_setaffinity(Pid::from_raw(0), &only);
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(5) {
            std::hint::spin_loop();
        }
        std::thread::sleep(Duration::from_secs(5));
    }
}

fn begin(role: u32, uid: u32, number: u64, socket: &Path) -> Ends {
    let child = Command::new(std::env::current_exe().expect("this program"))
        .env(ROLE, format!("{role} {uid} {number}"))
        .env(SOCKET, socket)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn();
    Ends(child.expect("one more process"))
}

/// A process that ends with this value.
struct Ends(Child);

impl Drop for Ends {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

// The soak.

/// The limits that were exceeded; `Err` if the soak cannot run here.
fn soak(duration: Duration, long: bool) -> Result<Vec<String>, String> {
    if !geteuid().is_root() {
        return Err("only root can be several users".into());
    }
    let over = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, over.clone()).map_err(|error| error.to_string())?;
    }
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(folder.path(), open).map_err(|error| error.to_string())?;
    let socket = folder.path().join("anticipate.sock");
    let mut engine = Engine::start(&socket)?;

    let processes = if long { 60 } else { 12 };
    let hostile = |number: u64| begin(0, HOSTILE_USERS[number as usize % 2], number / 2, &socket);
    let mut many: Vec<Ends> = (0..processes).map(hostile).collect();
    let ms = duration.as_millis() as u64;
    let honest = [0, THIRD_USER].map(|uid| begin(1, uid, ms, &socket));
    let cpus = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let burners: Vec<Ends> = (0..cpus)
        .map(|cpu| begin(2, 65_530, cpu, &socket))
        .collect();
    let hotplug = long.then(|| Hotplug::begin(cpus, over.clone()));

    let began = Instant::now();
    let mut killed: u64 = 0;
    while began.elapsed() < duration && !over.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(250));
        engine.look();
        // One of them is killed, with all its open connections, and another one starts.
        let which = fastrand::usize(..many.len());
        many[which] = hostile(fastrand::u64(..processes));
        killed += 1;
    }
    let interrupted = over.swap(true, Ordering::Relaxed);
    let elapsed = began.elapsed();
    let offline = hotplug.map_or(0, Hotplug::end);
    let accounts = match interrupted {
        true => Vec::new(),
        false => honest.map(account).into(),
    };
    drop((many, burners));
    let seen = engine.end()?;
    let figures = Figures {
        seen,
        accounts,
        elapsed,
        cpus,
    };
    println!(
        "{processes} processes of 2 users for {:.0} s, {killed} killed meanwhile, a CPU offline \
         {offline} times",
        elapsed.as_secs_f64()
    );
    Ok(figures.judge(long))
}

fn account(mut honest: Ends) -> Account {
    let mut said = String::new();
    let stdout = honest.0.stdout.as_mut();
    let _ = stdout.map(|stdout| stdout.read_to_string(&mut said));
    serde_json::from_str(&said).unwrap_or_default()
}

/// Takes the last CPU offline, for one second in four.
struct Hotplug {
    thread: std::thread::JoinHandle<u64>,
}

impl Hotplug {
    fn begin(cpus: u64, over: Arc<AtomicBool>) -> Self {
        let cpu = cpus.saturating_sub(1) as u32;
        let thread = std::thread::spawn(move || {
            let mut times = 0;
            let rest = |seconds| {
                let until = Instant::now() + Duration::from_secs(seconds);
                while Instant::now() < until && !over.load(Ordering::Relaxed) {
                    std::thread::sleep(Duration::from_millis(50));
                }
            };
            while cpus > 1 && !over.load(Ordering::Relaxed) {
                rest(3);
                // If this program is killed, the next reveille brings the CPU back.
                let mut journal = Journal::new(&Root::default(), Path::new(journal::FOLDER));
                times += u64::from(journal.take_offline(&[cpu]).is_ok());
                rest(1);
                journal.restore();
            }
            times
        });
        Self { thread }
    }

    fn end(self) -> u64 {
        self.thread.join().unwrap_or(0)
    }
}

// The engine's output and resource use.

struct Engine {
    process: Ends,
    lines: std::sync::mpsc::Receiver<Value>,
    first: Option<Value>,
    last: Option<Value>,
    memory_kib: u64,
    threads: Threads,
}

/// For the engine's threads, from the first reading to the last: wake-ups of the CPUs' threads, and
/// of the server; the server's own time, s.
#[derive(Default, Clone, Copy)]
struct Threads {
    agents: u64,
    server: u64,
    server_s: f64,
}

struct Seen {
    first: Value,
    last: Value,
    memory_kib: u64,
    threads: Threads,
}

impl Engine {
    fn start(socket: &Path) -> Result<Self, String> {
        let this = std::process::id().to_string();
        let mut process = Command::new(env!("CARGO_BIN_EXE_reveille"))
            .args(["anticipate", "--json", "--interval", "1s", "--pid", &this])
            .arg("--socket")
            .arg(socket)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| error.to_string())?;
        let (stdout, stderr) = (process.stdout.take(), process.stderr.take());
        let (sender, lines) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            for line in stdout
                .map(BufReader::new)
                .into_iter()
                .flat_map(BufRead::lines)
            {
                let line = line.ok().and_then(|line| serde_json::from_str(&line).ok());
                line.and_then(|line| sender.send(line).ok());
            }
        });
        let process = Ends(process);
        let began = Instant::now();
        while !socket.exists() {
            // Of an ended one only its number remains there.
            if !Path::new(&format!("/proc/{}/exe", process.0.id())).exists() {
                let mut why = String::new();
                let _ = stderr.map(|mut stderr| stderr.read_to_string(&mut why));
                return Err(why.trim().to_owned());
            }
            if began.elapsed() > Duration::from_secs(60) {
                return Err("the engine does not begin".into());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(Self {
            process,
            lines,
            first: None,
            last: None,
            memory_kib: 0,
            threads: Threads::default(),
        })
    }

    fn look(&mut self) {
        let process = PathBuf::from(format!("/proc/{}", self.process.0.id()));
        let memory = field(&process.join("status"), "VmHWM:");
        self.memory_kib = self.memory_kib.max(memory.unwrap_or(0));
        for line in self.lines.try_iter() {
            self.first.get_or_insert_with(|| line.clone());
            self.last = Some(line);
        }
        let tasks = std::fs::read_dir(process.join("task"));
        let mut threads = Threads::default();
        for task in tasks.into_iter().flatten().flatten() {
            let read = |name| std::fs::read_to_string(task.path().join(name)).unwrap_or_default();
            let slept = field(&task.path().join("status"), "voluntary_ctxt_switches:");
            let ran_ns = read("schedstat").split(' ').next().map(str::parse::<f64>);
            match read("comm").trim() {
                "expect-server" => {
                    threads.server += slept.unwrap_or(0);
                    threads.server_s += ran_ns.and_then(Result::ok).unwrap_or(0.0) / 1e9;
                }
                name if name.starts_with("ready-") => threads.agents += slept.unwrap_or(0),
                _ => {}
            }
        }
        if threads.server > 0 {
            self.threads = threads;
        }
    }

    fn end(mut self) -> Result<Seen, String> {
        self.look();
        let pid = Pid::from_raw(self.process.0.id() as i32);
        let _ = kill(pid, Signal::SIGINT);
        let status = self.process.0.wait().map_err(|error| error.to_string())?;
        // The reader sees the end of the stream.
        for line in self.lines.iter() {
            self.last = Some(line);
        }
        let none = || format!("the engine said nothing and ended with {status}");
        Ok(Seen {
            first: self.first.ok_or_else(none)?,
            last: self.last.ok_or_else(none)?,
            memory_kib: self.memory_kib,
            threads: self.threads,
        })
    }
}

/// The number after that word.
fn field(file: &Path, key: &str) -> Option<u64> {
    let text = std::fs::read_to_string(file).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    line.split_whitespace().next()?.parse().ok()
}

// The printed and judged figures.

struct Figures {
    seen: Seen,
    /// Root's and the third user's; none if it was interrupted.
    accounts: Vec<Account>,
    elapsed: Duration,
    cpus: u64,
}

impl Figures {
    fn judge(&self, long: bool) -> Vec<String> {
        let mut bad = Vec::new();
        let mut bound = |what: &dyn Display, figure: f64, most: f64, judged: bool| {
            println!("{what:<58} {figure:>10.3}  (at most {most})");
            if judged && (figure > most || figure.is_nan()) {
                bad.push(format!("{what}: {figure:.3}, at most {most}"));
            }
        };
        let Seen {
            first,
            last,
            memory_kib,
            threads,
        } = &self.seen;
        let seconds = self.elapsed.as_secs_f64();
        bound(
            &"resident memory, MiB",
            *memory_kib as f64 / 1024.0,
            MEMORY_KIB as f64 / 1024.0,
            true,
        );
        for (who, account) in ["root", "a third user"].iter().zip(&self.accounts) {
            let (all, failed) = (account.welcomed_ms.len(), account.failed.len());
            println!(
                "{who}: {all} connections, {failed} not answered; half within {:.2} ms, nine in ten \
                 {:.2} ms, the slowest {:.2} ms",
                account.quantile_ms(0.5),
                account.quantile_ms(0.9),
                account.quantile_ms(1.0)
            );
            account
                .failed
                .first()
                .iter()
                .for_each(|why| println!("  the first: {why}"));
            bound(
                &format!("{who}: 99% of connections, ms"),
                account.quantile_ms(0.99),
                CONNECT_MS,
                long,
            );
            let crowded = account.crowded_out as f64 / account.asked.max(1) as f64;
            bound(
                &format!("{who}: windows without a place, of {}", account.asked),
                crowded,
                CROWDED_OUT,
                long,
            );
            bound(
                &format!("{who}: connected never"),
                f64::from(u8::from(all == 0)),
                0.0,
                true,
            );
        }
        let of_user = |line: &Value, uid: u32, key: &str| {
            let users = line["applications"]["users"].as_array();
            let user = users.and_then(|users| users.iter().find(|user| user["uid"] == uid));
            user.and_then(|user| user[key].as_f64()).unwrap_or(0.0)
        };
        for uid in HOSTILE_USERS {
            let server = of_user(last, uid, "server_s") - of_user(first, uid, "server_s");
            // A burst is a quarter of a second's share.
            let most = SERVER_SHARE * (1.0 + 0.25 / seconds);
            bound(
                &format!("user {uid}: of a CPU in the server"),
                server / seconds,
                most,
                true,
            );
            let wakeups = of_user(last, uid, "wakeups") / seconds / self.cpus as f64;
            bound(
                &format!("user {uid}: wake-ups charged, of a CPU a second"),
                wakeups,
                WAKEUPS,
                true,
            );
            let of = |key| of_user(last, uid, key);
            println!(
                "  refused {:.0} requests and {:.0} connections, the server ran {:.1} times a second",
                of("refused"),
                of("sent_away"),
                of("turns") / seconds
            );
        }
        let fired: f64 = last["cpus"].as_array().map_or(0.0, |cpus| {
            cpus.iter().filter_map(|cpu| cpu["fired"].as_f64()).sum()
        });
        let charged: f64 = [0, HOSTILE_USERS[0], HOSTILE_USERS[1], THIRD_USER]
            .iter()
            .map(|&uid| of_user(last, uid, "wakeups"))
            .sum();
        let caused = threads.agents as f64 + fired;
        println!(
            "wake-ups a second: {:.1} caused ({:.1} of the CPUs' threads, {:.1} by timers), {:.1} \
             charged; the server's thread {:.1}, {:.2}% of a CPU in all",
            caused / seconds,
            threads.agents as f64 / seconds,
            fired / seconds,
            charged / seconds,
            threads.server as f64 / seconds,
            100.0 * threads.server_s / seconds
        );
        // Each CPU's thread goes to sleep at its start, without a request.
        let beginning = 8.0 * self.cpus as f64;
        bound(
            &"wake-ups charged to no user, of those caused",
            (caused - charged - beginning).max(0.0) / caused.max(1.0),
            0.01,
            true,
        );
        for what in ["refused", "sent_away"] {
            println!("{what}: {}", last["applications"][what]);
        }
        bad
    }
}
