//! The near side: a thread for each host, and one place where what comes of them is handled.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use reveille_show::progress::Step;

use crate::frames::{Frame, HEARTBEAT, Order, PROTOCOL, STOP};
use crate::ssh::{Came, Ssh};
use crate::{Host, Program};

/// How often the other side hears of this one.
const TICK: Duration = Duration::from_secs(1);
/// How often it is looked whether this command is to end.
const LOOK: Duration = Duration::from_millis(200);
/// A far side that is silent for so long is lost.
const SILENCE: Duration = Duration::from_secs(10);
/// The longest wait for the program to arrive and start there.
const ARRIVAL: Duration = Duration::from_secs(120);
/// The longest wait for a command that is to end.
const GRACE: Duration = Duration::from_secs(20);
/// The longest wait for the other side to remove its folder.
const REMOVAL: Duration = Duration::from_secs(5);
/// What waits to be handled here, of all hosts.
const QUEUED: usize = 64;

/// What is run on a host.
pub struct Request {
    /// Where.
    pub host: Host,
    /// The arguments after the program's name.
    pub arguments: Vec<String>,
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
    let (to, news) = sync_channel(QUEUED);
    let mut stops = Vec::new();
    for (place, request) in requests.into_iter().enumerate() {
        let one = One {
            program: program.clone(),
            stop: stop.clone(),
            own_stop: Arc::default(),
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
                near.line(place, String::from_utf8_lossy(&bytes).trim_end());
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

/// One host's thread.
struct One {
    program: Arc<Program>,
    stop: Arc<AtomicBool>,
    own_stop: Arc<AtomicBool>,
    place: usize,
    to: SyncSender<(usize, News)>,
}

impl One {
    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.own_stop.load(Ordering::Relaxed)
    }

    fn run(&self, request: &Request, asks: bool) -> Ended {
        let mut ssh = match Ssh::start(&request.host, asks) {
            Ok(ssh) => ssh,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let why = "the program ssh is missing; install openssh-client";
                return Ended::Cannot(why.to_owned());
            }
            Err(error) => return Ended::Failed(format!("ssh: {error}")),
        };
        let ended = match self.prepare(&ssh) {
            Ok(()) => self.follow(request, &ssh),
            Err(ended) => ended,
        };
        if matches!(ended, Ended::Code(_) | Ended::Failed(_)) {
            // The other side removes its folder before the connection is gone.
            ssh.close();
            let until = Instant::now() + REMOVAL;
            while let Some(left) = until.checked_duration_since(Instant::now()) {
                match ssh.came().recv_timeout(left) {
                    Ok(Came::Closed) | Err(_) => break,
                    Ok(_) => {}
                }
            }
        }
        ended
    }

    /// Until the program is there.
    fn prepare(&self, ssh: &Ssh) -> Result<(), Ended> {
        let mut sent_at: Option<Instant> = None;
        loop {
            match ssh.came().recv_timeout(LOOK) {
                Ok(Came::Machine([system, machine, hash])) => {
                    let carried = match self.program.is(&hash) {
                        true => &[][..],
                        false => {
                            let carried = self.program.for_machine(&system, &machine);
                            carried.map_err(Ended::Cannot)?
                        }
                    };
                    ssh.send(format!("{}\n", carried.len()).into_bytes());
                    ssh.send(carried.to_vec());
                    sent_at = Some(Instant::now());
                }
                Ok(Came::Refused(why)) => return Err(Ended::Cannot(why)),
                Ok(Came::Ready) => return Ok(()),
                Ok(Came::Closed) | Err(RecvTimeoutError::Disconnected) => {
                    let why = ssh.complaint();
                    return Err(Ended::Failed(match (sent_at, why) {
                        (None, Some(why)) => why,
                        (Some(_), Some(why)) => format!("the connection was lost: {why}"),
                        (_, None) => "the connection was lost, and ssh gives no reason".to_owned(),
                    }));
                }
                Ok(Came::Frame(_)) | Err(RecvTimeoutError::Timeout) => {}
            }
            if self.is_stopped() {
                return Err(Ended::Interrupted);
            }
            if sent_at.is_some_and(|sent| sent.elapsed() > ARRIVAL) {
                let seconds = ARRIVAL.as_secs();
                let why = format!("the program did not arrive there within {seconds} s");
                return Err(Ended::Failed(why));
            }
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
        let (mut heard, mut told) = (Instant::now(), Instant::now());
        let mut stopping: Option<Instant> = None;
        loop {
            match ssh.came().recv_timeout(LOOK) {
                Ok(Came::Frame(frame)) => {
                    heard = Instant::now();
                    match frame {
                        Frame::Heartbeat => {}
                        Frame::Exit(code) => return Ended::Code(code),
                        Frame::Failed(why) => return Ended::Failed(why),
                        frame => drop(self.to.send((self.place, News::Frame(frame)))),
                    }
                }
                Ok(Came::Closed) | Err(RecvTimeoutError::Disconnected) => {
                    return Ended::Lost(match ssh.complaint() {
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
            if told.elapsed() >= TICK {
                told = Instant::now();
                ssh.send(vec![HEARTBEAT]);
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
}
