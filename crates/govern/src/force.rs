//! Bounds in force: a thread for each CPU, bound to it, that sets the CPU's bound and takes it back.
//!
//! A thread that is woken on a CPU runs before that CPU can go idle again, so the bound counts from the
//! next idle entry on. And it runs on the CPU when it takes the bound back, so the CPU chooses its next
//! idle state anew: without that, it would stay in a shallow one until something wakes it.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::libc;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::time::TimeSpec;
use nix::unistd::Pid;
use reveille_kernel::journal::{LiveBound, Slot};
use reveille_kernel::{Error, Result, requests};

use crate::packets::OnCpu;
use crate::quiet::Quiet;

/// A bound that another program's value keeps out is tried again after this, then twice this...
const RETRY: Duration = Duration::from_secs(1);
/// ... and so on, up to this.
const RETRY_MAX: Duration = Duration::from_secs(60);
/// A look for quiet is later than it could be by up to this part of the quiet time.
const LATER: f64 = 1.0 / 8.0;
/// The threads call nothing deep.
const STACK_BYTES: usize = 256 << 10;

/// All CPUs' threads. Dropping it takes their bounds back.
#[derive(Default)]
pub struct Force {
    cpus: Vec<Arc<Cpu>>,
    /// In the same order.
    threads: Vec<JoinHandle<()>>,
}

/// One CPU, for its thread and the service.
pub struct Cpu {
    /// Its number.
    pub number: u32,
    over: AtomicBool,
    /// The setting may be another than the thread's.
    look: AtomicBool,
    /// How often the thread was woken, and the number that it has served.
    wakes: AtomicU64,
    served: AtomicU64,
    kick: EventFd,
    shared: Mutex<Shared>,
}

/// What the service asks for, and what the thread made of it. Nobody waits for the kernel or a file while it is locked.
#[derive(Default)]
struct Shared {
    /// How often the CPU has got other rules.
    rules_number: u64,
    asked: Asked,
    /// Rules that the thread has yet to take up.
    rules: Option<Rules>,
    state: State,
}

/// What is in force on a CPU.
#[derive(Debug, Clone, Default)]
pub struct State {
    /// What is wanted, µs; 0: no sleep.
    pub bound_us: Option<u32>,
    /// The setting may be another yet.
    pub is_being_set: bool,
    /// Rules that ask for it, a bit each.
    pub rules: u32,
    /// Another program's value, which keeps the bound out.
    pub in_the_way: Option<String>,
    /// Why the bound could not be set or taken back.
    pub failed: Option<String>,
    /// Since when the bound is what it is.
    pub since: Option<Instant>,
    /// Of each rule, in their order.
    pub uses: Vec<Use>,
}

/// How a rule was in force on a CPU.
#[derive(Debug, Clone, Copy, Default)]
pub struct Use {
    /// How often it came into force.
    pub times: u64,
    /// For how long, without the present time.
    pub held: Duration,
    /// Since when it is in force.
    pub since: Option<Instant>,
    /// How long its bound outlasts the traffic now.
    pub quiet: Duration,
}

impl Use {
    /// For how long it was in force, until now.
    pub fn held(&self) -> Duration {
        self.held + self.since.map_or(Duration::ZERO, |since| since.elapsed())
    }
}

/// What is asked for on a CPU, beside its traffic.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Asked {
    /// Rules without traffic whose conditions hold, a bit each.
    pub always: u32,
    /// Rules with traffic whose other conditions hold, a bit each.
    pub may: u32,
    /// The tightest of the holds, µs.
    pub hold_us: Option<u32>,
    /// Of each rule, µs.
    pub bounds_us: Vec<Option<u32>>,
}

/// Rules of a CPU, in place of those before.
pub struct Rules {
    /// Of each rule.
    pub quiet: Vec<Quiet>,
    /// Of each rule the place that it had before; `None`: it is new. Those that were in force stay so.
    pub before: Vec<Option<usize>>,
    /// Who sees their packets; `None`: the same as before.
    pub packets: Option<Option<OnCpu>>,
}

impl Rules {
    /// In place of these, which were not taken up.
    fn instead_of(mut self, skipped: Option<Self>) -> Self {
        if let Some(skipped) = skipped {
            let before = |place: usize| skipped.before.get(place).copied().flatten();
            self.before = self
                .before
                .iter()
                .map(|place| place.and_then(before))
                .collect();
            self.packets = self.packets.or(skipped.packets);
        }
        self
    }
}

/// These bits of rules, each of which had that place before.
fn moved(bits: u32, before: &[Option<usize>]) -> u32 {
    let places = before.iter().enumerate();
    let set = places.filter(|(_, place)| place.is_some_and(|place| bits & 1 << place != 0));
    set.fold(0, |moved, (nth, _)| moved | 1 << nth)
}

impl Cpu {
    /// What is in force.
    pub fn state(&self) -> State {
        self.locked().state.clone()
    }

    /// The bound that is wanted, µs.
    pub fn bound_us(&self) -> Option<u32> {
        self.locked().state.bound_us
    }

    /// Has the thread hold what is asked for from now on; one that holds it already goes on sleeping.
    pub fn ask(&self, asked: Asked) {
        let before = std::mem::replace(&mut self.locked().asked, asked.clone());
        // Others may have the service ask often: a CPU sleeps on where nothing changes.
        if before != asked {
            self.wake();
        }
    }

    /// Has the thread take up other rules, of which that is asked for. What rules before and after ask for stays in
    /// force meanwhile.
    pub fn take_up(&self, rules: Rules, asked: Asked) {
        let mut shared = self.locked();
        shared.rules_number += 1;
        shared.asked = asked;
        let state = &mut shared.state;
        state.rules = moved(state.rules, &rules.before);
        let uses = rules.before.iter().zip(&rules.quiet);
        let uses = uses.map(|(place, quiet)| {
            let before = place.and_then(|place| state.uses.get(place)).copied();
            before.unwrap_or(Use {
                quiet: quiet.least,
                ..Use::default()
            })
        });
        state.uses = uses.collect();
        shared.rules = Some(rules.instead_of(shared.rules.take()));
        drop(shared);
        self.wake();
    }

    /// Has the thread compare the setting with its own value, and set it again.
    pub fn look(&self) {
        self.look.store(true, Ordering::Release);
        self.wake();
    }

    /// Whether the thread has served all that was asked until now.
    pub fn is_done(&self) -> bool {
        self.served.load(Ordering::Acquire) >= self.wakes.load(Ordering::Acquire)
    }

    /// Has the thread look at how things are.
    pub fn wake(&self) {
        self.wakes.fetch_add(1, Ordering::Release);
        // A counter that is full wakes, too.
        let _ = self.kick.write(1);
    }

    fn locked(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Force {
    /// Starts a thread for each bound, without rules.
    ///
    /// # Errors
    /// Where no thread or descriptor can be made.
    pub fn add(&mut self, bounds: Vec<LiveBound>) -> Result<()> {
        for bound in bounds {
            let kick = EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)
                .map_err(Error::system("making an event descriptor"))?;
            let cpu = Arc::new(Cpu {
                number: bound.cpu,
                over: AtomicBool::new(false),
                look: AtomicBool::new(false),
                wakes: AtomicU64::new(0),
                served: AtomicU64::new(0),
                kick,
                shared: Mutex::default(),
            });
            let keeper = Keeper {
                cpu: cpu.clone(),
                bound,
                rules_number: 0,
                asked: Asked::default(),
                packets: None,
                quiet: Vec::new(),
                quiet_now: Vec::new(),
                traffic: 0,
                phase: 0.0,
                retry: RETRY,
            };
            let thread = std::thread::Builder::new()
                .name(format!("bound-{}", cpu.number))
                .stack_size(STACK_BYTES)
                .spawn(move || keeper.run())
                .map_err(Error::system("starting a thread"))?;
            let place = self.cpus.partition_point(|other| other.number < cpu.number);
            self.cpus.insert(place, cpu);
            self.threads.insert(place, thread);
        }
        Ok(())
    }

    /// The CPUs, ascending.
    pub fn cpus(&self) -> &[Arc<Cpu>] {
        &self.cpus
    }

    /// Ends the threads of other CPUs than these, which takes their bounds back.
    pub fn keep(&mut self, cpus: &[u32]) {
        let is_kept = |cpu: &Arc<Cpu>| cpus.contains(&cpu.number);
        for place in (0..self.cpus.len()).rev() {
            if !is_kept(&self.cpus[place]) {
                end(&self.cpus.remove(place));
                let _ = self.threads.remove(place).join();
            }
        }
    }
}

fn end(cpu: &Cpu) {
    cpu.over.store(true, Ordering::Release);
    cpu.wake();
}

impl Drop for Force {
    fn drop(&mut self) {
        self.cpus.iter().for_each(|cpu| end(cpu));
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// The lowest priority: who serves the packet runs first. The thread runs before the CPU can go idle all the
/// same, which is when the bound counts.
fn give_way() {
    let parameter = libc::sched_param { sched_priority: 0 };
    // SAFETY: the call reads plain data and changes this thread only.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const parameter) };
}

/// The phase of the next look for quiet, from 0 to 1, evenly spread. A quiet time after the last packet is also
/// when a packet comes, where they come at a fixed distance: without a phase, each look would delay one.
fn next_phase(phase: f64) -> f64 {
    (phase + 0.618_033_988_75).fract()
}

/// The thread of one CPU.
struct Keeper {
    cpu: Arc<Cpu>,
    bound: LiveBound,
    /// As the service's, when this thread last looked.
    rules_number: u64,
    asked: Asked,
    packets: Option<OnCpu>,
    /// Of each rule.
    quiet: Vec<Quiet>,
    /// Of each rule, after its last packets.
    quiet_now: Vec<Duration>,
    /// Rules whose traffic has not ended, a bit each.
    traffic: u32,
    /// Of the next look for quiet, in [`LATER`].
    phase: f64,
    retry: Duration,
}

impl Keeper {
    fn run(mut self) {
        self.is_here();
        give_way();
        let mut wait = None;
        loop {
            self.wait(wait);
            let wakes = self.cpu.wakes.load(Ordering::Acquire);
            if self.cpu.over.load(Ordering::Acquire) {
                (self.asked, self.traffic) = (Asked::default(), 0);
                self.hold();
                return;
            }
            self.is_here();
            self.follow_service();
            let look_in = self.follow_traffic();
            let is_held = self.hold();
            self.note_held(self.traffic);
            let retry_in = (!is_held).then_some(self.retry);
            self.retry = match is_held {
                true => RETRY,
                false => (self.retry * 2).min(RETRY_MAX),
            };
            self.cpu.served.store(wakes, Ordering::Release);
            wait = look_in.into_iter().chain(retry_in).min();
        }
    }

    /// Takes up what the service asks for, and its rules.
    fn follow_service(&mut self) {
        let mut shared = self.cpu.locked();
        self.rules_number = shared.rules_number;
        self.asked.clone_from(&shared.asked);
        let Some(rules) = shared.rules.take() else {
            return;
        };
        drop(shared);
        self.traffic = moved(self.traffic, &rules.before);
        self.quiet_now = rules.quiet.iter().map(|quiet| quiet.least).collect();
        self.quiet = rules.quiet;
        if let Some(packets) = rules.packets {
            self.packets = packets;
        }
    }

    /// Waits for packets, for the service, or for that time.
    fn wait(&self, time: Option<Duration>) {
        let mut waited = vec![PollFd::new(self.cpu.kick.as_fd(), PollFlags::POLLIN)];
        let packets = self.packets.as_ref();
        waited.extend(packets.map(|packets| PollFd::new(packets.as_fd(), PollFlags::POLLIN)));
        // A signal ends it early, which costs a turn.
        let _ = ppoll(&mut waited, time.map(TimeSpec::from_duration), None);
        let _ = self.cpu.kick.read();
    }

    /// Binds this thread to its CPU. When the CPU goes offline, the kernel lets it run everywhere.
    fn is_here(&self) {
        let mut only = CpuSet::new();
        let itself = Pid::from_raw(0);
        if only.set(self.cpu.number as usize).is_ok() && sched_getaffinity(itself) != Ok(only) {
            let _ = sched_setaffinity(itself, &only);
        }
    }

    /// Notes that these rules' bounds are in force; nor are packets of rules to ask that may not be.
    fn note_held(&self, rules: u32) {
        if let Some(packets) = &self.packets {
            packets.note_held(rules | !self.asked.may);
        }
    }

    /// Takes up the rules that packets ask for, and drops those without packets for their quiet time; when
    /// the next one could end.
    fn follow_traffic(&mut self) -> Option<Duration> {
        let Some(packets) = &self.packets else {
            self.traffic = 0;
            return None;
        };
        self.phase = next_phase(self.phase);
        self.traffic = (self.traffic | packets.called()) & self.asked.may;
        let mut next: Option<Duration> = None;
        for (nth, quiet) in self.quiet.iter().enumerate() {
            let bit = 1 << nth;
            if self.traffic & bit == 0 {
                continue;
            }
            if quiet.follows {
                self.quiet_now[nth] = quiet.after(&packets.gaps(nth));
            }
            let quiet = self.quiet_now[nth];
            let left = |since: Duration| quiet.saturating_sub(since);
            let mut rest = left(packets.since_last(nth));
            if rest.is_zero() {
                // A packet from now on asks anew; one until now is seen here.
                self.note_held(self.traffic & !bit);
                rest = left(packets.since_last(nth));
            }
            match rest.is_zero() {
                true => self.traffic &= !bit,
                false => {
                    let look = rest + quiet.mul_f64(LATER * self.phase);
                    next = Some(next.map_or(look, |next| next.min(look)));
                }
            }
        }
        next
    }

    /// Puts the tightest bound of the rules and holds in force; false if it is not.
    fn hold(&self) -> bool {
        let rules = self.asked.always | self.traffic;
        let bounds = self.asked.bounds_us.iter().enumerate();
        let bounds = bounds.filter(|(nth, _)| rules & 1 << nth != 0);
        let bounds = bounds.filter_map(|(_, bound_us)| *bound_us);
        let wanted = bounds.chain(self.asked.hold_us).min();
        let mut shared = self.cpu.locked();
        if shared.rules_number == self.rules_number {
            shared.state.rules = rules;
        }
        let state = &mut shared.state;
        let is_in_force = state.in_the_way.is_none()
            && state.failed.is_none()
            && !self.cpu.look.swap(false, Ordering::Acquire);
        if state.bound_us == wanted && is_in_force {
            self.note_uses(&mut shared, rules);
            return true;
        }
        if state.bound_us != wanted {
            state.since = Some(Instant::now());
        }
        state.bound_us = wanted;
        state.is_being_set = true;
        drop(shared);
        let set = self.bound.set(wanted);
        let mut shared = self.cpu.locked();
        let state = &mut shared.state;
        state.is_being_set = false;
        state.in_the_way = match &set {
            Ok(Slot::Anothers(value)) if wanted.is_some() => Some(value.clone()),
            _ => None,
        };
        state.failed = set.err().map(|error| error.to_string());
        let is_set = state.in_the_way.is_none() && state.failed.is_none();
        self.note_uses(&mut shared, rules);
        is_set
    }

    fn note_uses(&self, shared: &mut Shared, rules: u32) {
        // Else the thread is about to be called again, by its other rules.
        if shared.rules_number != self.rules_number {
            return;
        }
        let (state, now) = (&mut shared.state, Instant::now());
        let kept = |(nth, bound_us): (usize, &Option<u32>)| {
            let is_kept = rules & 1 << nth != 0 && state.keeps(*bound_us);
            u32::from(is_kept) << nth
        };
        let bounds = self.asked.bounds_us.iter().enumerate();
        let kept = bounds.map(kept).fold(0, |all, one| all | one);
        state.note_uses(kept, &self.quiet_now, now);
    }
}

impl State {
    /// Whether a bound that is wanted is kept: no looser one of another program is in its place.
    pub fn keeps(&self, bound_us: Option<u32>) -> bool {
        let is_kept = |value: &str| bound_us.is_none_or(|us| requests::is_within(value, us));
        self.failed.is_none() && self.in_the_way.as_deref().is_none_or(is_kept)
    }

    fn note_uses(&mut self, kept: u32, quiet: &[Duration], now: Instant) {
        for (nth, of) in self.uses.iter_mut().enumerate() {
            match (kept & 1 << nth != 0, of.since) {
                (true, None) => {
                    of.times += 1;
                    of.since = Some(now);
                }
                (false, Some(since)) => {
                    of.held += now - since;
                    of.since = None;
                }
                _ => {}
            }
            of.quiet = quiet.get(nth).copied().unwrap_or(of.quiet);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_for_quiet_do_not_keep_step_with_packets() {
        let mut phase = 0.0;
        let mut eighths = [0; 8];
        for _ in 0..800 {
            phase = next_phase(phase);
            eighths[(phase * 8.0) as usize] += 1;
        }
        assert!(
            eighths.iter().all(|of| (98..=102).contains(of)),
            "{eighths:?}"
        );
    }
}
