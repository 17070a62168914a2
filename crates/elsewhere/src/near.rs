//! The near side: a thread for each host, and one place where what comes of them is handled.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use reveille_show::progress::Step;

use crate::far::KEEPS;
use crate::frames::{DONE, Frame, Order, PROTOCOL, STOP};
use crate::ssh::{Came, Purpose, Ssh};
use crate::{Host, Program};

/// How often it is looked whether this command is to end.
const LOOK: Duration = Duration::from_millis(200);
/// After this silence the connection is lost. The far side gives up a second earlier, and still keeps the result.
const SILENCE: Duration = Duration::from_secs(6);
/// The longest wait for a login that asks for nothing: some look up names that nobody answers.
const LOGIN: Duration = Duration::from_secs(60);
/// The longest wait for more of the program to arrive there.
const ARRIVAL: Duration = Duration::from_secs(20);
/// Before a host is tried again.
const PAUSE: Duration = Duration::from_millis(500);
/// The longest wait for a command that is to end.
const GRACE: Duration = Duration::from_secs(20);
/// The longest wait for the other side to remove its folder.
const REMOVAL: Duration = Duration::from_secs(5);
/// Logins at the same time: beyond 10 an sshd refuses some (MaxStartups), such as that of a jump host.
const LOGINS: usize = 8;
/// What waits to be handled here, of all hosts.
const QUEUED: usize = 64;
/// The most that is shown of what a host says, and of a line of it: more would hide what the others say.
const LINES: u32 = 200;
const CHARACTERS: usize = 500;

/// What is run on a host.
pub struct Request {
    /// Where.
    pub host: Host,
    /// The arguments after the program's name.
    pub arguments: Vec<String>,
    /// Whether it makes files, which are kept there for a while if the connection is lost.
    pub has_files: bool,
}

/// How a command on another machine ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// With this exit code.
    Code(u8),
    /// It failed for this reason: no connection, or a file could not be kept.
    Failed(String),
    /// It was not run, for this machine or that one cannot: another architecture, no space.
    Cannot(String),
    /// The connection was lost while it ran.
    Lost(String),
    /// Ended here, before it ran.
    Interrupted,
}

/// Receives what comes, one after the other; `host` is the place in the list of requests.
pub trait Near {
    /// Of a command's standard output.
    ///
    /// # Errors
    /// In words, if there is too much, or its reader has gone: the command is ended.
    fn output(&mut self, host: usize, bytes: &[u8]) -> Result<(), String>;
    /// A line of a command's standard error.
    fn line(&mut self, host: usize, line: &str);
    /// How far a command is.
    fn progress(&mut self, host: usize, now: &Step);
    /// A file of a command.
    ///
    /// # Errors
    /// In words, if it cannot be kept: the command is ended.
    fn file(&mut self, host: usize, frame: Frame) -> Result<(), String>;
    /// It has ended.
    fn ended(&mut self, host: usize, how: &Ended);
}

enum News {
    Frame(Frame),
    Ended(Ended),
}

/// Runs the requests at the same time, and returns how each ended; `stop` ends all of them.
pub fn run(
    requests: Vec<Request>,
    program: Program,
    asks: bool,
    near: &mut impl Near,
    stop: &Arc<AtomicBool>,
) -> Vec<Ended> {
    let count = requests.len();
    let program = Arc::new(program);
    let logins = Arc::default();
    let (to, news) = sync_channel(QUEUED);
    let mut stops = Vec::new();
    for (place, request) in requests.into_iter().enumerate() {
        let one = One {
            program: program.clone(),
            stop: stop.clone(),
            own_stop: Arc::default(),
            logins: Arc::clone(&logins),
            place,
            to: to.clone(),
        };
        stops.push(one.own_stop.clone());
        thread::spawn(move || {
            let ended = one.run(&request, asks);
            let _ = one.to.send((one.place, News::Ended(ended)));
        });
    }
    drop(to);
    let thread_ended = || Ended::Failed("its thread ended".to_owned());
    let mut ended: Vec<Ended> = (0..count).map(|_| thread_ended()).collect();
    let mut wrong: Vec<Option<String>> = vec![None; count];
    let mut lines = vec![0; count];
    for (place, news) in news {
        let kept = match news {
            News::Ended(how) => {
                ended[place] = wrong[place].take().map_or(how, Ended::Failed);
                near.ended(place, &ended[place]);
                continue;
            }
            News::Frame(_) if wrong[place].is_some() => continue,
            News::Frame(Frame::Output(bytes)) => near.output(place, &bytes),
            News::Frame(Frame::Error(bytes)) => {
                lines[place] += 1;
                match lines[place] {
                    ..LINES => near.line(place, &short(String::from_utf8_lossy(&bytes).trim_end())),
                    LINES => near.line(place, "more of what it says is not shown"),
                    _ => {}
                }
                Ok(())
            }
            News::Frame(Frame::Progress(now)) => {
                near.progress(place, &now);
                Ok(())
            }
            News::Frame(frame) => near.file(place, frame),
        };
        if let Err(why) = kept {
            wrong[place] = Some(why);
            stops[place].store(true, Ordering::Relaxed);
        }
    }
    ended
}

fn complaint(ssh: &Ssh) -> Option<String> {
    ssh.complaint().map(|why| short(&why))
}

/// The beginning of what another machine says.
fn short(text: &str) -> String {
    match text.char_indices().nth(CHARACTERS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// One host's thread.
struct One {
    program: Arc<Program>,
    stop: Arc<AtomicBool>,
    own_stop: Arc<AtomicBool>,
    logins: Arc<AtomicUsize>,
    place: usize,
    to: SyncSender<(usize, News)>,
}

/// One of [`LOGINS`], until it is dropped.
struct Login(Arc<AtomicUsize>);

impl Login {
    fn one_of(logins: &Arc<AtomicUsize>) -> Option<Self> {
        let more = |count| (count < LOGINS).then_some(count + 1);
        let taken = logins.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        taken.ok().map(|_| Self(Arc::clone(logins)))
    }
}

impl Drop for Login {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl One {
    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.own_stop.load(Ordering::Relaxed)
    }

    fn run(&self, request: &Request, asks: bool) -> Ended {
        let login = loop {
            match Login::one_of(&self.logins) {
                Some(login) => break login,
                None if self.is_stopped() => return Ended::Interrupted,
                None => thread::sleep(LOOK),
            }
        };
        let mut ssh = match Ssh::start(&request.host, &Purpose::Run { asks }) {
            Ok(ssh) => ssh,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let why = "the program ssh is missing; install openssh-client";
                return Ended::Cannot(why.to_owned());
            }
            Err(error) => return Ended::Failed(format!("ssh: {error}")),
        };
        let folder = match self.prepare(&ssh, asks, login) {
            Ok(folder) => folder,
            Err(ended) => return ended,
        };
        match self.follow(request, &ssh) {
            Ended::Lost(why) if !self.is_stopped() => {
                drop(ssh);
                let is_fetched = request.has_files && self.fetch(&request.host, &folder);
                Ended::Lost(match is_fetched {
                    true => format!("{why}; a new one fetched the rest"),
                    false => why,
                })
            }
            Ended::Lost(why) => Ended::Lost(why),
            ended => {
                ssh.close();
                closed(&ssh);
                ended
            }
        }
    }

    /// Until the program is there; the folder of the run there.
    fn prepare(&self, ssh: &Ssh, asks: bool, login: Login) -> Result<String, Ended> {
        let mut login = Some(login);
        let began = Instant::now();
        let (mut arrived, mut since) = (0, None);
        loop {
            match ssh.came().recv_timeout(LOOK) {
                Ok(Came::Machine([system, machine, hash])) if since.is_none() => {
                    drop(login.take());
                    let carried = match self.program.is(&hash) {
                        true => &[][..],
                        false => {
                            let carried = self.program.for_machine(&system, &machine);
                            carried.map_err(Ended::Cannot)?
                        }
                    };
                    ssh.send(format!("{}\n", carried.len()).into_bytes());
                    ssh.send(carried.to_vec());
                    since = Some(Instant::now());
                }
                Ok(Came::Arrived(now)) if now > arrived => {
                    arrived = now;
                    since = Some(Instant::now());
                }
                Ok(Came::Refused(why)) => return Err(Ended::Cannot(short(&why))),
                Ok(Came::Ready(folder)) => return Ok(folder),
                Ok(Came::Closed) | Err(RecvTimeoutError::Disconnected) => {
                    let why = complaint(ssh);
                    return Err(Ended::Failed(match (since, why) {
                        (None, Some(why)) => why,
                        (Some(_), Some(why)) => format!("the connection was lost: {why}"),
                        (_, None) => "the connection was lost, and ssh gives no reason".to_owned(),
                    }));
                }
                Ok(_) | Err(RecvTimeoutError::Timeout) => {}
            }
            if self.is_stopped() {
                return Err(Ended::Interrupted);
            }
            let why = match since {
                None if !asks && began.elapsed() > LOGIN => "no shell answers there",
                Some(since) if since.elapsed() > ARRIVAL => "the program does not arrive there",
                _ => continue,
            };
            let seconds = since.map_or(LOGIN, |_| ARRIVAL).as_secs();
            return Err(Ended::Failed(format!("{why}: silent for {seconds} s")));
        }
    }

    /// Until the command has ended.
    fn follow(&self, request: &Request, ssh: &Ssh) -> Ended {
        let order = Order {
            protocol: PROTOCOL,
            arguments: request.arguments.clone(),
        };
        let mut order = serde_json::to_vec(&order).unwrap_or_default();
        order.push(b'\n');
        ssh.send(order);
        ssh.send_heartbeats();
        let mut heard = Instant::now();
        let mut stopping: Option<Instant> = None;
        loop {
            match ssh.came().recv_timeout(LOOK) {
                Ok(Came::Frame(frame)) => {
                    match frame {
                        Frame::Heartbeat => {}
                        Frame::Exit(code) => {
                            ssh.send(vec![DONE]);
                            return Ended::Code(code);
                        }
                        Frame::Failed(why) => {
                            ssh.send(vec![DONE]);
                            return Ended::Failed(short(&why));
                        }
                        frame => drop(self.to.send((self.place, News::Frame(frame)))),
                    }
                    // After it has been handled: who reads the output here may be slow.
                    heard = Instant::now();
                }
                Ok(Came::Refused(why)) => return Ended::Failed(short(&why)),
                Ok(Came::Closed) | Err(RecvTimeoutError::Disconnected) => {
                    return Ended::Lost(match complaint(ssh) {
                        Some(why) => format!("the connection was lost: {why}"),
                        None => "the connection was lost".to_owned(),
                    });
                }
                Ok(_) | Err(RecvTimeoutError::Timeout) => {}
            }
            if heard.elapsed() > SILENCE {
                let seconds = SILENCE.as_secs();
                return Ended::Lost(format!("the connection was lost: silent for {seconds} s"));
            }
            match stopping {
                None if self.is_stopped() => {
                    stopping = Some(Instant::now());
                    ssh.send(vec![STOP]);
                }
                Some(since) if since.elapsed() > GRACE => {
                    let seconds = GRACE.as_secs();
                    return Ended::Lost(format!("did not end within {seconds} s; cut off"));
                }
                _ => {}
            }
        }
    }

    /// What the far side still has of a result, by another connection; whether all of it came.
    fn fetch(&self, host: &Host, folder: &str) -> bool {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-".contains(&byte);
        if !folder.bytes().all(is_plain) {
            return false;
        }
        let until = Instant::now() + KEEPS;
        while Instant::now() < until && !self.is_stopped() {
            if let Some(is_fetched) = self.fetch_once(host, folder, until) {
                return is_fetched;
            }
            thread::sleep(PAUSE);
        }
        false
    }

    /// `None` if it may be tried again.
    fn fetch_once(&self, host: &Host, folder: &str, until: Instant) -> Option<bool> {
        let mut ssh = Ssh::start(host, &Purpose::Rest { folder }).ok()?;
        let mut heard = None;
        loop {
            match ssh.came().recv_timeout(LOOK) {
                Ok(Came::Ready(_)) => {
                    // No order.
                    ssh.send(b"\n".to_vec());
                    ssh.send_heartbeats();
                }
                Ok(Came::Frame(Frame::Exit(0))) => {
                    ssh.send(vec![DONE]);
                    ssh.close();
                    closed(&ssh);
                    return Some(true);
                }
                // There is nothing any more.
                Ok(Came::Refused(_) | Came::Frame(Frame::Exit(_))) => return Some(false),
                Ok(Came::Closed) | Err(RecvTimeoutError::Disconnected) => return None,
                Ok(Came::Frame(frame)) => {
                    drop(self.to.send((self.place, News::Frame(frame))));
                    heard = Some(Instant::now());
                }
                Ok(_) | Err(RecvTimeoutError::Timeout) => {}
            }
            let is_late = match heard {
                Some(heard) => heard.elapsed() > SILENCE,
                None => Instant::now() > until,
            };
            if is_late || self.is_stopped() {
                return None;
            }
        }
    }
}

/// The other side removes its folder before the connection is gone.
fn closed(ssh: &Ssh) {
    let until = Instant::now() + REMOVAL;
    while let Some(left) = until.checked_duration_since(Instant::now()) {
        match ssh.came().recv_timeout(left) {
            Ok(Came::Closed) | Err(_) => break,
            Ok(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_long_line_the_beginning_is_shown() {
        assert_eq!(short("no space"), "no space");
        let long = short(&"µ".repeat(10_000));
        assert_eq!(long.chars().count(), CHARACTERS + 1);
    }

    #[test]
    fn no_more_hosts_log_in_at_the_same_time_than_an_sshd_takes() {
        let logins = Arc::default();
        let mut all: Vec<_> = (0..LOGINS).map(|_| Login::one_of(&logins)).collect();
        assert!(all.iter().all(Option::is_some));
        assert!(Login::one_of(&logins).is_none());
        all.pop();
        assert!(Login::one_of(&logins).is_some());
    }
}
