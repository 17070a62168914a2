//! A thread that stands in for an accelerator: it takes a call, completes it after a drawn time, and
//! signals that to a control thread, which sleeps meanwhile.
//!
//! The times are those of figure 2 of Zhu and others, "Software Engagement with Sleeping CPUs" (HotOS XV,
//! 2015): GPU kernels of K-means take about 540 µs within 25 µs, those of StreamCluster about 500 µs within
//! 50 µs with a few outliers; the first call of a series takes long. The paper does not quantify
//! outliers and first calls; [`Series`] has how they are drawn.
//!
//! The stand-in spins on a CPU of its own, as a device is always awake: it sees a call at once. Its
//! signal wakes the control thread by an interrupt between CPUs.

use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use nix::sys::eventfd::{EfdFlags, EventFd};
use reveille_kernel::affinity::{self, Binding};
use reveille_kernel::asleep::Counts;
use reveille_trial::setting::Machine;

use crate::bench::assist::Account;
use crate::bench::clock;
use crate::bench::policy::{Policy, PolicySetting};
use crate::bench::result::{Plan, Point, Workload};
use crate::bench::work::{Sample, Work};
use crate::{Error, Result};

/// How long calls of one kind take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Series {
    /// Name in reports.
    pub name: &'static str,
    /// Typical time of a call, ns.
    pub typical_ns: u64,
    /// Calls are uniform within this distance of the typical time.
    pub spread_ns: u64,
    /// One call in this many takes 1.5 to 2 times as long; 0 for none.
    pub outlier_one_in: u64,
}

/// Those of the paper.
pub const SERIES: [Series; 2] = [
    Series {
        name: "K-means: 540 ± 25 µs",
        typical_ns: 540_000,
        spread_ns: 25_000,
        outlier_one_in: 0,
    },
    Series {
        name: "StreamCluster: 500 ± 50 µs, outliers",
        typical_ns: 500_000,
        spread_ns: 50_000,
        outlier_one_in: 50,
    },
];

/// The first call takes this many times as long as others.
const FIRST: u64 = 4;

/// What the control thread does between calls, ns.
const CONTROL_WORK_NS: u64 = 50_000;

impl Series {
    /// Draws the times of that many calls, ns.
    pub fn draw(&self, calls: usize, random: &mut fastrand::Rng) -> Vec<u64> {
        let even = |random: &mut fastrand::Rng| {
            self.typical_ns - self.spread_ns + random.u64(0..=2 * self.spread_ns)
        };
        let call = |place: usize| {
            let ns = even(random);
            match self.outlier_one_in {
                _ if place == 0 => FIRST * ns,
                0 => ns,
                one_in if random.u64(0..one_in) == 0 => ns + random.u64(ns / 2..=ns),
                _ => ns,
            }
        };
        (0..calls).map(call).collect()
    }
}

/// An application's announcements.
pub trait Announcing {
    /// A call of that kind took that long, ns.
    fn observe(&mut self, kind: u32, ns: u64);

    /// When few calls of that kind complete earlier, and few later, ns after the launch; `None` if unknown.
    fn predict(&mut self, kind: u32) -> Option<Range<u64>>;

    /// The calling thread's CPU is to be awake from that instant of CLOCK_MONOTONIC, for that long.
    ///
    /// # Errors
    /// If the server is gone. A refusal is no error.
    fn expect(&mut self, at_ns: u64, window_ns: u64) -> Result<()>;

    /// What was expected has happened.
    fn cancel(&mut self) -> Result<()>;

    /// Requests so far, and how many were granted.
    fn account(&mut self) -> Account;
}

/// Makes an [`Announcing`] for the calling thread.
pub trait Connect: Sync {
    /// [`Error::Cannot`] if none is available.
    fn connect(&self) -> Result<Box<dyn Announcing>>;

    /// What it does, in words.
    fn how(&self) -> String;
}

/// The workload.
pub struct Accelerator<'a> {
    machine: &'a Machine,
    plan: Plan,
    connect: Option<&'a dyn Connect>,
    points: Vec<Point>,
    counts: Counts,
    /// The stand-in's.
    other_cpu: u32,
}

impl<'a> Accelerator<'a> {
    /// [`Error::Cannot`] on one CPU.
    pub fn new(machine: &'a Machine, plan: Plan, connect: Option<&'a dyn Connect>) -> Result<Self> {
        let cpu = plan.cpu;
        let mut others = affinity::allowed()
            .into_iter()
            .filter(|other| *other != cpu);
        let other_cpu = others.next().ok_or_else(|| {
            Error::Cannot(
                "the stand-in for an accelerator needs a CPU of its own, and this process has only \
                 one; omit --accelerator"
                    .into(),
            )
        })?;
        let point = |series: &Series| Point {
            name: series.name.into(),
            idle_ns: None,
        };
        Ok(Self {
            counts: Counts::of(&machine.root, &machine.idle, cpu),
            points: SERIES.iter().map(point).collect(),
            machine,
            plan,
            connect,
            other_cpu,
        })
    }

    /// The control thread's turn.
    fn control(
        &self,
        point: usize,
        policy: Policy,
        times: &[u64],
        device: &Device,
        stop: &AtomicBool,
    ) -> Result<Sample> {
        let bound = Binding::here(self.plan.cpu)?;
        let kind = point as u32;
        let mut waking = match (policy, self.connect) {
            (Policy::Anticipate, Some(connect)) => Some(connect.connect()?),
            _ => None,
        };
        let mut sample = Sample::default();
        let before = self.counts.read();
        let began = clock::now_ns();
        for &ns in times {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            let launched = clock::now_ns();
            device.launch(ns, policy != Policy::NoSleep);
            if let Some(waking) = &mut waking
                && let Some(next) = waking.predict(kind)
            {
                waking.expect(launched + next.start, next.end - next.start)?;
            }
            match policy {
                Policy::NoSleep => device.poll(),
                _ => device.wait()?,
            }
            let seen = clock::now_ns();
            let done = device.done_at_ns.load(Ordering::Acquire);
            sample.latencies_ns.push(seen.saturating_sub(done));
            if let Some(waking) = &mut waking {
                waking.cancel()?;
                // As accelerators report it: the call's own time, without the wake-up.
                waking.observe(kind, done.saturating_sub(launched));
            }
            clock::spin_until(clock::now_ns() + CONTROL_WORK_NS);
        }
        bound.holds()?;
        sample.elapsed_ns = clock::now_ns() - began;
        sample.asleep_ns = self.counts.read().since(&before);
        sample.run_ns = Some(sample.elapsed_ns);
        sample.account = waking.map(|mut waking| Account {
            // Including calls for which nothing was asked, since nothing was known yet.
            waits: sample.latencies_ns.len() as u64,
            ..waking.account()
        });
        Ok(sample)
    }

    fn calls(&self) -> u64 {
        let typical = SERIES.iter().map(|series| series.typical_ns).max();
        let one_ns = typical.unwrap_or(1) + CONTROL_WORK_NS;
        let in_time = (self.plan.turn_s * 1e9) as u64 / one_ns;
        self.plan.waits.min(in_time).max(1)
    }
}

/// What the control thread and the stand-in share.
struct Device {
    /// Calls launched and done; the stand-in spins on the first.
    launched: AtomicU64,
    done: AtomicU64,
    /// Of the present call.
    takes_ns: AtomicU64,
    signals: AtomicBool,
    done_at_ns: AtomicU64,
    over: AtomicBool,
    event: EventFd,
}

impl Device {
    fn new() -> Result<Self> {
        let event = EventFd::from_value_and_flags(0, EfdFlags::EFD_CLOEXEC);
        Ok(Self {
            launched: AtomicU64::new(0),
            done: AtomicU64::new(0),
            takes_ns: AtomicU64::new(0),
            signals: AtomicBool::new(false),
            done_at_ns: AtomicU64::new(0),
            over: AtomicBool::new(false),
            event: event.map_err(|errno| Error::System {
                what: "eventfd",
                source: errno.into(),
            })?,
        })
    }

    /// Launches a call of that duration; `signals`: its end is signalled.
    fn launch(&self, takes_ns: u64, signals: bool) {
        self.takes_ns.store(takes_ns, Ordering::Relaxed);
        self.signals.store(signals, Ordering::Relaxed);
        self.launched.fetch_add(1, Ordering::Release);
    }

    /// Spins until the call is done.
    fn poll(&self) {
        let launched = self.launched.load(Ordering::Relaxed);
        while self.done.load(Ordering::Acquire) != launched && !self.over.load(Ordering::Relaxed) {
            std::hint::spin_loop();
        }
    }

    /// Sleeps until the call is done.
    fn wait(&self) -> Result<()> {
        loop {
            match nix::unistd::read(self.event.as_fd(), &mut [0; 8]) {
                Ok(_) => return Ok(()),
                Err(nix::errno::Errno::EINTR) => {}
                Err(errno) => {
                    return Err(Error::System {
                        what: "reading an eventfd",
                        source: errno.into(),
                    });
                }
            }
        }
    }

    /// The stand-in: every call that is launched, until it is over.
    fn serve(&self) {
        let mut calls = 0;
        while !self.over.load(Ordering::Relaxed) {
            if self.launched.load(Ordering::Acquire) == calls {
                std::hint::spin_loop();
                continue;
            }
            calls += 1;
            let until = clock::now_ns() + self.takes_ns.load(Ordering::Relaxed);
            clock::spin_until(until);
            self.done_at_ns.store(clock::now_ns(), Ordering::Release);
            self.done.store(calls, Ordering::Release);
            if self.signals.load(Ordering::Relaxed) {
                self.signal();
            }
        }
    }

    fn signal(&self) {
        let one = 1_u64.to_ne_bytes();
        // SAFETY: the descriptor is open as long as `self`, and the eight bytes are alive. It cannot
        // fail: the count is far from its end.
        unsafe {
            nix::libc::write(self.event.as_raw_fd(), one.as_ptr().cast(), one.len());
        }
    }
}

/// Ends the stand-in and what waits for it, also if a thread panics.
struct Ends<'a>(&'a Device);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.over.store(true, Ordering::Relaxed);
        self.0.signal();
    }
}

impl Work for Accelerator<'_> {
    fn describe(&self) -> Workload {
        Workload {
            kind: "accelerator".into(),
            what: format!(
                "{} calls in a series of a stand-in for an accelerator, on CPU {}",
                self.calls(),
                self.other_cpu
            ),
            waits_for: "completion".into(),
            ..Workload::default()
        }
    }

    fn points(&self) -> &[Point] {
        &self.points
    }

    fn expected(&self, point: usize) -> Duration {
        let calls = self.calls() + FIRST;
        Duration::from_nanos(calls * (SERIES[point].typical_ns + CONTROL_WORK_NS))
    }

    fn setting(&self, policy: Policy) -> Result<PolicySetting> {
        match policy {
            Policy::AsIs => Ok(PolicySetting::as_is("the control thread waits asleep")),
            Policy::Shallowest => PolicySetting::shallowest(&self.machine.idle, self.plan.cpu),
            Policy::NoSleep => Ok(PolicySetting::as_is("the control thread polls")),
            Policy::Poll => Err(Error::Cannot("`no sleep` polls already here".into())),
            Policy::Anticipate => {
                let connect = self
                    .connect
                    .ok_or_else(|| Error::Cannot(reveille_kernel::BUILT_WITHOUT_BPF.into()))?;
                drop(connect.connect()?);
                Ok(PolicySetting::as_is(&connect.how()))
            }
        }
    }

    fn turn(&self, point: usize, policy: Policy, round: u32, stop: &AtomicBool) -> Result<Sample> {
        // Every policy has the same times in a round.
        let seed = self.plan.seed ^ u64::from(round).rotate_left(48) ^ point as u64;
        let mut random = fastrand::Rng::with_seed(seed);
        let times = SERIES[point].draw(self.calls() as usize, &mut random);
        let device = Device::new()?;
        let panicked = std::panic::resume_unwind;
        std::thread::scope(|scope| {
            let ends = Ends(&device);
            let stand_in = scope.spawn(|| {
                let placed = Binding::here(self.other_cpu);
                device.serve();
                placed.and_then(|placed| placed.holds())
            });
            let control = scope
                .spawn(|| self.control(point, policy, &times, &device, stop))
                .join();
            drop(ends);
            let placed = stand_in.join().unwrap_or_else(|panic| panicked(panic));
            let sample = control.unwrap_or_else(|panic| panicked(panic))?;
            placed.map(|()| sample)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use reveille_kernel::Root;

    use super::*;

    #[test]
    fn times_are_those_of_the_paper() {
        let mut random = fastrand::Rng::with_seed(3);
        let k_means = SERIES[0].draw(1000, &mut random);
        assert!((4 * 515_000..=4 * 565_000).contains(&k_means[0]));
        assert!(
            k_means[1..]
                .iter()
                .all(|ns| (515_000..=565_000).contains(ns))
        );
        let stream = SERIES[1].draw(10_000, &mut random);
        let outliers = stream[1..].iter().filter(|ns| **ns > 550_000).count();
        assert!((100..300).contains(&outliers), "{outliers}");
        assert!(
            stream[1..]
                .iter()
                .all(|ns| (450_000..=1_100_000).contains(ns))
        );
    }

    /// Records its calls.
    #[derive(Default)]
    struct Recorded(Mutex<Vec<String>>);

    struct Recorder<'a> {
        calls_made: &'a Recorded,
        last_ns: Option<u64>,
    }

    impl Announcing for Recorder<'_> {
        fn observe(&mut self, kind: u32, ns: u64) {
            self.last_ns = Some(ns);
            self.calls_made
                .0
                .lock()
                .unwrap()
                .push(format!("observe {kind}"));
        }
        fn predict(&mut self, _: u32) -> Option<Range<u64>> {
            Some(self.last_ns?..self.last_ns? + 100_000)
        }
        fn expect(&mut self, at_ns: u64, window_ns: u64) -> Result<()> {
            assert_eq!(window_ns, 100_000);
            assert!(at_ns > 0);
            self.calls_made.0.lock().unwrap().push("expect".into());
            Ok(())
        }
        fn cancel(&mut self) -> Result<()> {
            self.calls_made.0.lock().unwrap().push("cancel".into());
            Ok(())
        }
        fn account(&mut self) -> Account {
            Account {
                kept_awake_ns: Some(7),
                waits: 0,
                assisted: 2,
            }
        }
    }

    /// Loses the control thread's binding, as the kernel does when its CPU goes offline.
    struct Loses(nix::sched::CpuSet);

    impl Announcing for Loses {
        fn observe(&mut self, _: u32, _: u64) {
            nix::sched::sched_setaffinity(nix::unistd::Pid::from_raw(0), &self.0).unwrap();
        }
        fn predict(&mut self, _: u32) -> Option<Range<u64>> {
            None
        }
        fn expect(&mut self, _: u64, _: u64) -> Result<()> {
            Ok(())
        }
        fn cancel(&mut self) -> Result<()> {
            Ok(())
        }
        fn account(&mut self) -> Account {
            Account::default()
        }
    }

    impl Connect for nix::sched::CpuSet {
        fn connect(&self) -> Result<Box<dyn Announcing>> {
            Ok(Box::new(Loses(*self)))
        }
        fn how(&self) -> String {
            "moves the thread".into()
        }
    }

    fn plan(waits: u64) -> Plan {
        Plan {
            rounds: 1,
            waits,
            turn_s: 10.0,
            warm_up: 0,
            seed: 1,
            cpu: affinity::allowed()[0],
        }
    }

    #[test]
    fn a_turn_whose_thread_leaves_its_cpu_is_an_error() {
        let machine = Machine::read(Root::default()).unwrap();
        let all = nix::sched::sched_getaffinity(nix::unistd::Pid::from_raw(0)).unwrap();
        let work = match Accelerator::new(&machine, plan(2), Some(&all)) {
            Ok(work) => work,
            Err(error) => return println!("skipped: the stand-in for an accelerator: {error}"),
        };
        let never = AtomicBool::new(false);
        let error = work.turn(0, Policy::Anticipate, 0, &never).unwrap_err();
        assert!(
            matches!(&error, Error::Disturbed(why) if why.contains("offline")),
            "{error}"
        );
    }

    /// The record lives as long as the test process.
    struct Connects(&'static Recorded);

    impl Connect for Connects {
        fn connect(&self) -> Result<Box<dyn Announcing>> {
            Ok(Box::new(Recorder {
                calls_made: self.0,
                last_ns: None,
            }))
        }
        fn how(&self) -> String {
            "is notified".into()
        }
    }

    #[test]
    fn every_policy_records_every_call_and_the_library_observes_each() {
        let machine = Machine::read(Root::default()).unwrap();
        let connects = Connects(Box::leak(Box::default()));
        let work = match Accelerator::new(&machine, plan(3), Some(&connects)) {
            Ok(work) => work,
            Err(Error::Cannot(why)) => {
                println!("skipped: the stand-in for an accelerator: {why}");
                return;
            }
            Err(error) => panic!("{error}"),
        };
        let never = AtomicBool::new(false);
        for policy in [Policy::AsIs, Policy::NoSleep, Policy::Anticipate] {
            work.setting(policy).unwrap();
            let sample = work.turn(1, policy, 0, &never).unwrap();
            assert_eq!(sample.latencies_ns.len(), 3, "{policy:?}");
            // The drawn duration is the minimum.
            assert!(sample.run_ns >= Some(3 * 450_000));
            let account = sample
                .account
                .map(|account| (account.waits, account.assisted));
            assert_eq!(account, (policy == Policy::Anticipate).then_some((3, 2)));
        }
        let calls_made = connects.0.0.lock().unwrap().clone();
        let all = "cancel, observe 1, expect, cancel, observe 1, expect, cancel, observe 1";
        assert_eq!(calls_made.join(", "), all);
    }
}
