//! Direct reads or writes at random places, with idle time between them.

mod buffer;
mod polled;
mod size;
mod target;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use reveille_kernel::affinity::Binding;
use reveille_kernel::asleep::Counts;
use reveille_trial::setting::Machine;

use crate::bench::assist::{Assist, Running};
use crate::bench::clock;
use crate::bench::policy::{Policy, PolicySetting};
use crate::bench::result::{Plan, Point, Workload};
use crate::bench::work::{Sample, Work};
use crate::{Error, Operation, Result};

use buffer::Buffer;
use polled::Polled;
pub use target::{Source, Target};

/// The I/Os.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// What each I/O does.
    pub operation: Operation,
    /// Bytes in each I/O.
    pub size: usize,
    /// I/Os in flight: one in each of this many threads.
    pub depth: usize,
    /// From the completion of an I/O to the same thread's next issue, ns.
    pub idle_ns: Vec<u64>,
}

/// Longest idle time between I/Os that do not count, ns.
const WARM_UP_IDLE_NS: u64 = 10_000_000;

/// The workload.
pub struct Storage<'a> {
    machine: &'a Machine,
    assist: Option<&'a dyn Assist>,
    points: Vec<Point>,
    pattern: Pattern,
}

impl<'a> Storage<'a> {
    /// If one I/O of that size fails.
    pub fn new(
        machine: &'a Machine,
        target: Target,
        mut options: Options,
        plan: Plan,
        assist: Option<&'a dyn Assist>,
    ) -> Result<Self> {
        options.idle_ns.sort_unstable();
        options.idle_ns.dedup();
        let pattern = Pattern {
            counts: Counts::of(&machine.root, &machine.idle, plan.cpu),
            target,
            options,
            plan,
        };
        pattern.try_once()?;
        let idle_ns = pattern.options.idle_ns.iter().copied();
        Ok(Self {
            machine,
            assist,
            points: idle_ns.map(Point::idle).collect(),
            pattern,
        })
    }
}

/// What the threads of every turn share.
struct Pattern {
    target: Target,
    options: Options,
    plan: Plan,
    counts: Counts,
}

impl Pattern {
    fn try_once(&self) -> Result<()> {
        let size = self.options.size;
        let mut buffer = Buffer::new(size);
        let tried = one(&self.target.file, self.options.operation, buffer.bytes(), 0);
        tried.map_err(|error| match error.raw_os_error() {
            Some(nix::libc::EINVAL) => Error::Usage(format!(
                "{}: refuses direct {}s of {size} bytes; its sectors may be larger",
                self.target.name, self.options.operation
            )),
            _ => self.failed(error),
        })
    }

    fn failed(&self, source: std::io::Error) -> Error {
        let path = (&self.target.name).into();
        Error::Io { path, source }
    }

    /// One turn: the threads' I/Os, and the CPU's counters.
    fn turn_of(&self, turn: &Turn<'_>) -> Result<Sample> {
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..self.options.depth as u64)
                .map(|thread| scope.spawn(move || self.thread(turn, thread)))
                .collect();
            let counts = scope.spawn(|| self.count(turn)).join();
            let mut latencies_ns = Vec::with_capacity(self.plan.waits as usize);
            for thread in threads {
                let latencies = thread.join();
                let latencies = latencies.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                latencies_ns.extend(latencies?);
            }
            let (elapsed_ns, asleep_ns) =
                counts.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            Ok(Sample {
                latencies_ns,
                elapsed_ns,
                asleep_ns,
                ..Sample::default()
            })
        })
    }

    /// Reads the counters between the barriers, on the same CPU, which is awake then, while the threads
    /// wait. Returns the time of all I/Os, ns, and how much of it the CPU was asleep.
    fn count(&self, turn: &Turn<'_>) -> (u64, Option<u64>) {
        let bound = Binding::here(self.plan.cpu);
        turn.meeting.wait();
        let before = self.counts.read();
        let began = clock::now_ns();
        turn.meeting.wait();
        turn.meeting.wait();
        let elapsed_ns = clock::now_ns() - began;
        let asleep_ns = self.counts.read().since(&before);
        let stayed = bound.and_then(|bound| bound.holds());
        (elapsed_ns, asleep_ns.filter(|_| stayed.is_ok()))
    }

    /// One thread: I/Os that do not count, the barriers between which the counters are read, and I/Os
    /// that count. It arrives at each barrier, whatever fails.
    fn thread(&self, turn: &Turn<'_>, thread: u64) -> Result<Vec<u64>> {
        let depth = self.options.depth as u64;
        let share = |ios: u64| ios / depth + u64::from(thread < ios % depth);
        let mut ios = Ios {
            pattern: self,
            turn,
            random: fastrand::Rng::with_seed(turn.seed ^ (thread + 1).rotate_left(32)),
            buffer: Buffer::new(self.options.size),
            latencies_ns: Vec::with_capacity(share(self.plan.waits) as usize),
            polled: None,
        };
        let warm_up = || {
            if turn.polls {
                ios.polled = Some(Polled::new().map_err(|error| self.failed(error))?);
            }
            let bound = Binding::here(self.plan.cpu)?;
            clock::exact_timers();
            let idle_ns = turn.idle_ns.min(WARM_UP_IDLE_NS);
            ios.go(share(self.plan.warm_up), idle_ns)?;
            ios.latencies_ns.clear();
            Ok((ios, bound))
        };
        let warmed_up = turn.noted(warm_up());
        turn.meeting.wait();
        turn.meeting.wait();
        let went = warmed_up.and_then(|(mut ios, bound)| {
            ios.go(share(self.plan.waits), turn.idle_ns)?;
            bound.holds()?;
            Ok(ios)
        });
        let went = turn.noted(went);
        turn.meeting.wait();
        // Dropping the rest is not part of the turn.
        went.map(|ios| ios.latencies_ns)
    }
}

/// What a turn's threads share.
struct Turn<'a> {
    idle_ns: u64,
    limit_ns: u64,
    seed: u64,
    polls: bool,
    stop: &'a AtomicBool,
    /// A thread's I/O failed: the others end.
    failed: AtomicBool,
    meeting: Barrier,
}

impl Turn<'_> {
    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.failed.load(Ordering::Relaxed)
    }

    fn noted<T>(&self, done: Result<T>) -> Result<T> {
        if done.is_err() {
            self.failed.store(true, Ordering::Relaxed);
        }
        done
    }
}

/// A thread's I/Os.
struct Ios<'a> {
    pattern: &'a Pattern,
    turn: &'a Turn<'a>,
    random: fastrand::Rng,
    buffer: Buffer,
    latencies_ns: Vec<u64>,
    /// Polls for completions; `None`: sleeps until then.
    polled: Option<Polled>,
}

impl Ios<'_> {
    /// That many I/Os, or as many as the turn has time for, with that much sleep after each.
    fn go(&mut self, ios: u64, idle_ns: u64) -> Result<()> {
        let Pattern {
            target, options, ..
        } = self.pattern;
        let blocks = target.bytes / options.size as u64;
        let end_ns = clock::now_ns() + self.turn.limit_ns;
        for _ in 0..ios {
            let offset = self.random.u64(0..blocks) * options.size as u64;
            let bytes = self.buffer.bytes();
            let began = clock::now_ns();
            if began >= end_ns || self.turn.is_over() {
                break;
            }
            let done = match &mut self.polled {
                Some(polled) => polled.one(&target.file, options.operation, bytes, offset),
                None => one(&target.file, options.operation, bytes, offset),
            };
            let ended = clock::now_ns();
            done.map_err(|source| self.pattern.failed(source))?;
            self.latencies_ns.push(ended - began);
            if idle_ns > 0 {
                clock::sleep_until(ended + idle_ns);
            }
        }
        Ok(())
    }
}

fn one(file: &File, operation: Operation, bytes: &mut [u8], offset: u64) -> std::io::Result<()> {
    match operation {
        Operation::Read => file.read_exact_at(bytes, offset),
        Operation::Write => file.write_all_at(bytes, offset),
    }
}

impl Work for Storage<'_> {
    fn describe(&self) -> Workload {
        let options = &self.pattern.options;
        let size = size::text(options.size as u64);
        let in_flight = match options.depth {
            1 => "one in flight".to_owned(),
            depth => format!("{depth} in flight"),
        };
        Workload {
            kind: "storage".into(),
            what: format!(
                "random direct {}s of {size} of {}, {in_flight}",
                options.operation, self.pattern.target.name
            ),
            waits_for: options.operation.to_string(),
            device: self.pattern.target.device.disk.clone(),
            size_bytes: Some(options.size as u64),
            depth: Some(options.depth as u64),
            operation: Some(options.operation),
        }
    }

    fn points(&self) -> &[Point] {
        &self.points
    }

    fn expected(&self, point: usize) -> Duration {
        /// About what a solid-state disk takes, ns.
        const IO_NS: u64 = 100_000;
        let Pattern { options, plan, .. } = &self.pattern;
        let idle_ns = options.idle_ns[point];
        let ns = |ios: u64, idle_ns: u64| {
            let ns = ios * (IO_NS + idle_ns) / options.depth as u64;
            Duration::from_nanos(ns).min(Duration::from_secs_f64(plan.turn_s))
        };
        ns(plan.warm_up, idle_ns.min(WARM_UP_IDLE_NS)) + ns(plan.waits, idle_ns)
    }

    fn setting(&self, policy: Policy) -> Result<PolicySetting> {
        match policy {
            Policy::AsIs => Ok(PolicySetting::as_is("nothing is changed")),
            Policy::Shallowest => {
                PolicySetting::shallowest(&self.machine.idle, self.pattern.plan.cpu)
            }
            Policy::NoSleep => PolicySetting::no_sleep(&self.machine.idle),
            Policy::Poll => match Polled::new() {
                Ok(_) => Ok(PolicySetting::as_is(
                    "the waiting thread polls for the completion",
                )),
                Err(error) => Err(Error::Cannot(format!(
                    "asynchronous I/O is unavailable to this process ({error})"
                ))),
            },
            Policy::Anticipate => {
                let assist = self
                    .assist
                    .ok_or_else(|| Error::Cannot(reveille_kernel::BUILT_WITHOUT_BPF.into()))?;
                drop(assist.begin(&self.pattern.target.device)?);
                Ok(PolicySetting::as_is(&assist.how()))
            }
        }
    }

    fn assisted(&self) -> Result<Option<Box<dyn Running>>> {
        let device = &self.pattern.target.device;
        self.assist.map(|assist| assist.begin(device)).transpose()
    }

    fn turn(&self, point: usize, policy: Policy, round: u32, stop: &AtomicBool) -> Result<Sample> {
        let turn = Turn {
            idle_ns: self.pattern.options.idle_ns[point],
            limit_ns: (self.pattern.plan.turn_s * 1e9) as u64,
            // Every policy has the same offsets in a round.
            seed: self.pattern.plan.seed ^ u64::from(round).rotate_left(48) ^ point as u64,
            polls: policy == Policy::Poll,
            stop,
            failed: AtomicBool::new(false),
            // The threads, and the one that reads the counters.
            meeting: Barrier::new(self.pattern.options.depth + 1),
        };
        self.pattern.turn_of(&turn)
    }
}
