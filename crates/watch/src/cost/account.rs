//! The programs' cost as the kernel counts it, in short windows: counting itself costs some 50 ns
//! per run of a program.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use libbpf_rs::Object;

use super::tallies::Counted;
use crate::{Error, Result};
use reveille_kernel::bpf::{Counting, RunTime, run_time};

/// The kernel counts for this time from the start on, and again after each pause.
const WINDOW: Duration = Duration::from_millis(250);
const PAUSE: Duration = Duration::from_millis(2250);

/// The program that starts to follow a new task, counted separately.
const OF_NEW_TASKS: &str = "on_fork";

/// All wake-ups on the machine since the programs were loaded.
type Issued = Box<dyn Fn() -> Result<u64> + Send>;

/// Counts from time to time until it is closed.
pub struct Account {
    closed: Sender<()>,
    thread: JoinHandle<Result<Counted>>,
}

impl Account {
    /// `None` where the kernel does not count, or this user may not switch it on.
    pub fn open(object: &Object, issued: Issued) -> Result<Option<Self>> {
        let Some(counting) = Counting::start() else {
            return Ok(None);
        };
        let counting_ns = counting.of_nothing_ns()?;
        drop(counting);
        let reader = Reader::of(object, issued)?;
        let (closed, close) = channel();
        let thread = std::thread::Builder::new()
            .name("account".to_owned())
            .spawn(move || count(&reader, counting_ns, &close))
            .map_err(|source| Error::System {
                what: "starting a thread",
                source,
            })?;
        Ok(Some(Self { closed, thread }))
    }

    /// Ends the current window and returns the sums of all windows.
    pub fn close(self) -> Result<Counted> {
        drop(self.closed);
        self.thread.join().expect("the account's thread ends well")
    }
}

fn count(reader: &Reader, counting_ns: u64, close: &Receiver<()>) -> Result<Counted> {
    let mut sum = Counted {
        counting_ns,
        ..Counted::default()
    };
    let closed = |after| close.recv_timeout(after) != Err(RecvTimeoutError::Timeout);
    loop {
        let Some(counting) = Counting::start() else {
            return Ok(sum);
        };
        let (began, before) = (Instant::now(), reader.read()?);
        let over = closed(WINDOW);
        let after = reader.read()?;
        sum.elapsed += began.elapsed();
        sum.machine_wakeups += after.issued - before.issued;
        sum.run_time_ns += after.following.ns - before.following.ns;
        sum.runs += after.following.runs - before.following.runs;
        sum.new_tasks += after.new_tasks.runs - before.new_tasks.runs;
        sum.new_tasks_ns += after.new_tasks.ns - before.new_tasks.ns;
        drop(counting);
        if over || closed(PAUSE) {
            return Ok(sum);
        }
    }
}

struct Reading {
    following: RunTime,
    new_tasks: RunTime,
    issued: u64,
}

struct Reader {
    following: Vec<OwnedFd>,
    new_tasks: Vec<OwnedFd>,
    issued: Issued,
}

impl Reader {
    fn of(object: &Object, issued: Issued) -> Result<Self> {
        let (mut following, mut new_tasks) = (Vec::new(), Vec::new());
        for program in object.progs().filter(|program| program.autoload()) {
            let descriptor = program.as_fd().try_clone_to_owned();
            let descriptor = descriptor.map_err(|source| Error::System {
                what: "duplicating a descriptor",
                source,
            })?;
            match program.name() == OF_NEW_TASKS {
                true => new_tasks.push(descriptor),
                false => following.push(descriptor),
            }
        }
        Ok(Self {
            following,
            new_tasks,
            issued,
        })
    }

    fn read(&self) -> Result<Reading> {
        let sum = |programs: &[OwnedFd]| {
            let mut sum = RunTime::default();
            for program in programs {
                sum.add(run_time(program.as_fd())?);
            }
            Ok::<_, Error>(sum)
        };
        Ok(Reading {
            following: sum(&self.following)?,
            new_tasks: sum(&self.new_tasks)?,
            issued: (self.issued)()?,
        })
    }
}
