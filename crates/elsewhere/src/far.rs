//! The far side: runs the command in a folder of its own, and leaves nothing.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{ChildStderr, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{
    Receiver, RecvTimeoutError, Sender, SyncSender, TrySendError, channel, sync_channel,
};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::{Pid, Uid};
use reveille_kernel::{Root, journal};
use reveille_show::progress::Step;

use crate::files::{Sent, remove};
use crate::frames::{DONE, Frame, HEARTBEAT, LARGEST, Order, PROTOCOL, STOP};

/// The folder of the result, in the folder of the run.
pub const OUT: &str = "out";

/// Is there while a lost run's result can be fetched; who fetches it locks it.
const KEPT: &str = "kept";
/// How long a result is kept after the near side was heard last: nothing is left after 10 s.
pub const KEEPS: Duration = Duration::from_secs(8);
/// How often it is looked whether it was fetched.
const LOOK: Duration = Duration::from_millis(100);

/// How often files are looked at, and the near side hears of this one. More often would disturb a measurement.
const TICK: Duration = Duration::from_secs(1);
/// A near side that is silent for so long is lost.
const SILENCE: Duration = Duration::from_secs(5);
/// The longest wait for a command to end as by Ctrl-C. Then it is killed, and its settings are restored here.
const GRACE: Duration = Duration::from_secs(2);
/// The longest wait for output of a command that has ended: others may hold its ends of the pipes.
const LAST_OUTPUT: Duration = Duration::from_secs(2);
/// The longest wait for the kernel to end what was killed.
const DEATH: Duration = Duration::from_secs(1);
/// An order has some kilobytes.
const LONGEST_ORDER: u64 = 1 << 20;
/// Frames that wait to be sent: 2 MiB at most.
const QUEUED: usize = 32;

enum Event {
    Ordered(Vec<u8>),
    Stop,
    /// The near side has the last frame.
    Done,
    NearLost,
    Ended(ExitStatus),
    OutputEnded,
    FilesSent,
}

/// What the threads share.
struct Shared {
    frames: SyncSender<Frame>,
    is_lost: AtomicBool,
    heard: Mutex<Instant>,
}

impl Shared {
    /// Queues the frame; drops it if the near side is lost, or silent while the queue is full.
    fn send(&self, mut frame: Frame) {
        while !self.is_lost.load(Ordering::Relaxed) {
            match self.frames.try_send(frame) {
                Err(TrySendError::Full(back)) if !self.is_silent() => {
                    frame = back;
                    thread::sleep(Duration::from_millis(20));
                }
                _ => return,
            }
        }
    }

    fn silent_for(&self) -> Duration {
        let heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        heard.elapsed()
    }

    fn is_silent(&self) -> bool {
        self.silent_for() > SILENCE
    }

    fn hear(&self) {
        *self.heard.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }
}

/// What is not run to its end.
enum Failure {
    NearLost,
    /// Why the command cannot be run.
    Cannot(String),
}

/// Receives an order on standard input, runs it in `folder`, removes the folder, and ends this process; `stop` ends
/// the command as the near side can. The exit code is the command's, and 1 if it was not run or the near side was
/// lost.
pub fn run(folder: &Path, stop: &AtomicBool) -> ! {
    let code = serve(folder, stop);
    remove(folder);
    // Threads may still wait for a near side that is lost.
    std::process::exit(code.into())
}

/// Whether the folder is one that the script makes, with nothing of others in it: it is removed with what is in it.
pub fn is_folder_of_a_run(folder: &Path) -> bool {
    let holds_the_program_at_most = |mut found: fs::ReadDir| {
        found.all(|one| one.is_ok_and(|one| one.file_name() == "reveille"))
    };
    is_of_the_script(folder) && fs::read_dir(folder).is_ok_and(holds_the_program_at_most)
}

/// Whether the folder is one that the script makes.
pub fn is_of_the_script(folder: &Path) -> bool {
    let name = folder.file_name().and_then(|name| name.to_str());
    let drawn = name.and_then(|name| name.strip_prefix("reveille."));
    let is_drawn = drawn.is_some_and(|drawn| {
        drawn.len() == 10 && drawn.bytes().all(|byte| byte.is_ascii_alphanumeric())
    });
    let is_private = |found: fs::Metadata| {
        found.is_dir() && found.uid() == Uid::effective().as_raw() && found.mode() & 0o777 == 0o700
    };
    is_drawn && fs::symlink_metadata(folder).is_ok_and(is_private)
}

fn serve(folder: &Path, stop: &AtomicBool) -> u8 {
    let (shared, to, events) = connect();
    let ran = ordered(&events, &shared);
    let ran = ran.and_then(|order| command(folder, order, stop, &shared, &to, &events));
    let (code, last) = match ran {
        Ok(code) => (code, Frame::Exit(code)),
        Err(Failure::Cannot(why)) => (1, Frame::Failed(why)),
        Err(Failure::NearLost) => {
            keep(folder, &shared, stop);
            return 1;
        }
    };
    shared.send(last);
    if !is_done(&events, &shared) {
        keep(folder, &shared, stop);
    }
    code
}

fn connect() -> (Arc<Shared>, Sender<Event>, Receiver<Event>) {
    let (to, events) = channel();
    let (frames, queue) = sync_channel(QUEUED);
    let shared = Arc::new(Shared {
        frames,
        is_lost: AtomicBool::new(false),
        heard: Mutex::new(Instant::now()),
    });
    listen(shared.clone(), to.clone());
    write(queue, to.clone());
    (shared, to, events)
}

/// Whether the near side has all that was sent.
fn is_done(events: &Receiver<Event>, shared: &Shared) -> bool {
    loop {
        match events.recv_timeout(TICK) {
            Ok(Event::Done) => return true,
            Ok(Event::NearLost) => return false,
            _ if shared.is_silent() => return false,
            _ => {}
        }
    }
}

/// Until the result was fetched by another connection, or for a time.
fn keep(folder: &Path, shared: &Shared, stop: &AtomicBool) {
    let marker = folder.join(KEPT);
    if !Sent::is_any_in(&folder.join(OUT)) || File::create_new(&marker).is_err() {
        return;
    }
    while let Ok(kept) = File::open(&marker) {
        if shared.silent_for() > KEEPS || stop.load(Ordering::Relaxed) {
            match Flock::lock(kept, FlockArg::LockExclusiveNonblock) {
                Err((_, Errno::EWOULDBLOCK)) => {}
                // Nobody begins to fetch what this process removes: it is locked until its end.
                locked => return std::mem::forget(locked),
            }
        }
        thread::sleep(LOOK);
    }
}

/// Sends what a lost run has left in `folder`, and ends this process: exit code 0 if the near side has it.
pub fn rest(folder: &Path) -> ! {
    let (shared, _, events) = connect();
    let marker = folder.join(KEPT);
    let locked = loop {
        let kept = File::open(&marker).ok();
        let locked = kept.and_then(|kept| Flock::lock(kept, FlockArg::LockExclusiveNonblock).ok());
        if locked.is_some() || !folder.exists() || shared.is_silent() {
            break locked;
        }
        thread::sleep(LOOK);
    };
    if locked.is_some() {
        Sent::of(folder.join(OUT)).all(&mut |frame| shared.send(frame));
    }
    shared.send(Frame::Exit(u8::from(locked.is_none())));
    let is_fetched = is_done(&events, &shared) && locked.is_some();
    if is_fetched {
        let _ = fs::remove_file(marker);
    }
    std::process::exit(i32::from(!is_fetched))
}

/// Standard input: an order, then single bytes.
fn listen(shared: Arc<Shared>, to: Sender<Event>) {
    thread::spawn(move || {
        let mut input = BufReader::new(io::stdin());
        let mut order = Vec::new();
        let _ = input
            .by_ref()
            .take(LONGEST_ORDER)
            .read_until(b'\n', &mut order);
        shared.hear();
        let _ = to.send(Event::Ordered(order));
        for byte in input.bytes() {
            match byte {
                Ok(STOP) => drop(to.send(Event::Stop)),
                Ok(DONE) => drop(to.send(Event::Done)),
                Ok(HEARTBEAT) => {}
                _ => break,
            }
            shared.hear();
        }
        let _ = to.send(Event::NearLost);
    });
}

fn write(queue: Receiver<Frame>, to: Sender<Event>) {
    thread::spawn(move || {
        let mut out = io::stdout();
        for frame in queue {
            if frame.write(&mut out).is_err() {
                let _ = to.send(Event::NearLost);
                return;
            }
        }
    });
}

fn ordered(events: &Receiver<Event>, shared: &Shared) -> Result<Order, Failure> {
    loop {
        match events.recv_timeout(TICK) {
            Ok(Event::Ordered(text)) if !text.ends_with(b"\n") => return Err(Failure::NearLost),
            Ok(Event::Ordered(text)) => {
                let invalid = |error| Failure::Cannot(format!("the order is invalid: {error}"));
                let order: Order = serde_json::from_slice(&text).map_err(invalid)?;
                return match order.protocol {
                    PROTOCOL => Ok(order),
                    other => Err(Failure::Cannot(format!(
                        "the reveille there has protocol {PROTOCOL}, not {other}; install the same version"
                    ))),
                };
            }
            Ok(Event::NearLost) => return Err(Failure::NearLost),
            _ if shared.is_silent() => return Err(Failure::NearLost),
            _ => {}
        }
    }
}

/// Runs the command to its end; its exit code.
fn command(
    folder: &Path,
    order: Order,
    stop: &AtomicBool,
    shared: &Arc<Shared>,
    to: &Sender<Event>,
    events: &Receiver<Event>,
) -> Result<u8, Failure> {
    let cannot = |error: io::Error| Failure::Cannot(format!("cannot run reveille there: {error}"));
    let program = std::env::current_exe().map_err(cannot)?;
    let this = Pid::this();
    let mut command = Command::new(program);
    command
        .arg0("reveille")
        .args(order.arguments)
        .current_dir(folder)
        .env(Step::VARIABLE, "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    let end_with_this = move || {
        set_pdeathsig(Signal::SIGTERM)?;
        match Pid::parent() == this {
            true => Ok(()),
            false => Err(io::ErrorKind::Interrupted.into()),
        }
    };
    // SAFETY: between fork and exec only prctl(2) and getppid(2) are called.
    unsafe { command.pre_exec(end_with_this) };
    let mut child = command.spawn().map_err(cannot)?;
    let group = Pid::from_raw(child.id() as i32);
    let (output, error) = (child.stdout.take(), child.stderr.take());
    pass_on(output, error, shared, to);
    let ended = to.clone();
    thread::spawn(move || {
        if let Ok(status) = child.wait() {
            let _ = ended.send(Event::Ended(status));
        }
    });
    let (finish, finished) = channel();
    send_files(
        Sent::of(folder.join(OUT)),
        finished,
        shared.clone(),
        to.clone(),
    );

    let (mut is_stopping, mut output_ended) = (false, false);
    // `None` once it has ended.
    let mut status = None;
    let mut until = None;
    let status = loop {
        let event = events.recv_timeout(TICK);
        if stop.load(Ordering::Relaxed) && !std::mem::replace(&mut is_stopping, true) {
            let _ = killpg(group, Signal::SIGINT);
        }
        match event {
            Ok(Event::Ended(how)) => {
                status = Some(how);
                until = Some(Instant::now() + LAST_OUTPUT);
            }
            Ok(Event::Stop) => drop(killpg(group, Signal::SIGINT)),
            Ok(Event::OutputEnded) => output_ended = true,
            Ok(Event::NearLost) => return Err(lost(group, status, events, shared)),
            _ => {}
        }
        if shared.is_silent() {
            return Err(lost(group, status, events, shared));
        }
        let is_late = until.is_some_and(|until| Instant::now() > until);
        match status {
            Some(status) if output_ended || is_late => break status,
            _ => {}
        }
        let _ = shared.frames.try_send(Frame::Heartbeat);
    };
    clean(group);
    drop(finish);
    loop {
        match events.recv_timeout(TICK) {
            Ok(Event::FilesSent) => return Ok(code(status)),
            Ok(Event::NearLost) => return Err(lost(group, Some(status), events, shared)),
            _ if shared.is_silent() => return Err(lost(group, Some(status), events, shared)),
            _ => {}
        }
    }
}

/// Its own code, or 128 and the number of the signal that ended it.
fn code(status: ExitStatus) -> u8 {
    let of_signal = || status.signal().map(|signal| 128 + signal);
    status
        .code()
        .or_else(of_signal)
        .map_or(1, |code| code as u8)
}

/// Ends the command as Ctrl-C does, or in any case; restores what it leaves.
fn lost(
    group: Pid,
    ended: Option<ExitStatus>,
    events: &Receiver<Event>,
    shared: &Shared,
) -> Failure {
    shared.is_lost.store(true, Ordering::Relaxed);
    if ended.is_none() {
        let _ = killpg(group, Signal::SIGINT);
        let until = Instant::now() + GRACE;
        while let Some(left) = until.checked_duration_since(Instant::now()) {
            match events.recv_timeout(left) {
                Ok(Event::Ended(_)) | Err(_) => break,
                _ => {}
            }
        }
    }
    clean(group);
    Failure::NearLost
}

/// Nothing of the command's group goes on, and what a killed run changed is restored.
fn clean(group: Pid) {
    if killpg(group, Signal::SIGKILL).is_ok() {
        // A claim on a setting is its owner's as long as that exists.
        let until = Instant::now() + DEATH;
        while killpg(group, None).is_ok() && Instant::now() < until {
            thread::sleep(Duration::from_millis(10));
        }
    }
    // The next command here reports what cannot be restored.
    let _ = journal::recover(&Root::default(), Path::new(journal::FOLDER));
}

fn pass_on(
    output: Option<ChildStdout>,
    error: Option<ChildStderr>,
    shared: &Arc<Shared>,
    to: &Sender<Event>,
) {
    let of_error = error.map(|error| {
        let shared = shared.clone();
        thread::spawn(move || pass_lines(BufReader::new(error), &shared))
    });
    let (shared, to) = (shared.clone(), to.clone());
    thread::spawn(move || {
        let mut bytes = vec![0; LARGEST];
        if let Some(mut output) = output {
            while let Ok(count @ 1..) = output.read(&mut bytes) {
                shared.send(Frame::Output(bytes[..count].to_vec()));
            }
        }
        of_error.map(JoinHandle::join);
        let _ = to.send(Event::OutputEnded);
    });
}

/// Standard error line by line: some are progress.
fn pass_lines(mut lines: impl BufRead, shared: &Shared) {
    let mut line = Vec::new();
    while let Ok(1..) = lines
        .by_ref()
        .take(LARGEST as u64)
        .read_until(b'\n', &mut line)
    {
        let line = std::mem::take(&mut line);
        match Step::of_line(&line) {
            Some(now) => shared.send(Frame::Progress(now)),
            None => shared.send(Frame::Error(line)),
        }
    }
}

fn send_files(mut sent: Sent, finished: Receiver<()>, shared: Arc<Shared>, to: Sender<Event>) {
    thread::spawn(move || {
        let mut send = |frame| shared.send(frame);
        while finished.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
            sent.look(&mut send);
        }
        sent.look(&mut send);
        let _ = to.send(Event::FilesSent);
    });
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn only_a_folder_of_the_script_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let make = |name: &str, mode: u32| {
            let run = folder.path().join(name);
            fs::create_dir(&run).unwrap();
            fs::set_permissions(&run, fs::Permissions::from_mode(mode)).unwrap();
            run
        };
        let run = make("reveille.Ab3XXXXXyz", 0o700);
        assert!(is_folder_of_a_run(&run));
        fs::write(run.join("reveille"), "").unwrap();
        assert!(is_folder_of_a_run(&run));
        fs::write(run.join("notes"), "").unwrap();
        assert!(!is_folder_of_a_run(&run), "it holds another file");
        assert!(!is_folder_of_a_run(&make("reveille.0123456789", 0o755)));
        assert!(!is_folder_of_a_run(&make("reveille.config", 0o700)));
        assert!(
            !is_folder_of_a_run(&folder.path().join("reveille.abcdefghij")),
            "there is none"
        );
        let link = folder.path().join("reveille.linklinkli");
        std::os::unix::fs::symlink(make("reveille.aaaaaaaaaa", 0o700), &link).unwrap();
        assert!(!is_folder_of_a_run(&link));
    }
}
