//! Bounds in force: a thread for each CPU, bound to it, that sets the CPU's bound and takes it back.
//!
//! A thread that is woken on a CPU runs before that CPU can go idle again, so the bound counts from the
//! next idle entry on. And it runs on the CPU when it takes the bound back, so the CPU chooses its next
//! idle state anew: without that, it would stay in a shallow one until something wakes it.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
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
use reveille_kernel::{Error, Result};

use crate::judge::Judged;
use crate::packets::OnCpu;

/// No hold.
const NONE: u32 = u32::MAX;
/// A bound that another program's value keeps out is tried again after this, then twice this...
const RETRY: Duration = Duration::from_secs(1);
/// ... and so on, up to this.
const RETRY_MAX: Duration = Duration::from_secs(60);
/// A look for quiet is later than it could be by up to this part of the quiet time.
const LATER: f64 = 1.0 / 8.0;
/// The threads call nothing deep.
const STACK_BYTES: usize = 256 << 10;

/// All CPUs' threads. Dropping it takes their bounds back.
pub struct Force {
    cpus: Vec<Arc<Cpu>>,
    threads: Vec<JoinHandle<()>>,
}

/// One CPU, for its thread and the service.
pub struct Cpu {
    /// Its number.
    pub number: u32,
    /// Rules without traffic that are in force, a bit each.
    always: AtomicU32,
    /// Rules with traffic that may be in force, a bit each.
    may: AtomicU32,
    /// The tightest of the holds, µs, or [`NONE`].
    hold_us: AtomicU32,
    /// Of each rule, µs, or [`NONE`].
    bounds_us: Vec<AtomicU32>,
    over: AtomicBool,
    /// The setting may be another than the thread's.
    look: AtomicBool,
    /// How often the thread was woken, and the number that it has served.
    wakes: AtomicU64,
    served: AtomicU64,
    kick: EventFd,
    state: Mutex<State>,
}

/// What is in force on a CPU.
#[derive(Debug, Clone, Default)]
pub struct State {
    /// What is wanted, µs; 0: no sleep.
    pub bound_us: Option<u32>,
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
}

impl Use {
    /// For how long it was in force, until now.
    pub fn held(&self) -> Duration {
        self.held + self.since.map_or(Duration::ZERO, |since| since.elapsed())
    }
}

/// What is asked for on a CPU, beside its traffic.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Asked {
    /// Rules without traffic whose conditions hold, a bit each.
    pub always: u32,
    /// Rules with traffic whose other conditions hold, a bit each.
    pub may: u32,
    /// The tightest of the holds, µs.
    pub hold_us: Option<u32>,
}

impl Cpu {
    /// What is in force.
    pub fn state(&self) -> State {
        self.locked().clone()
    }

    /// The bound that is wanted, µs.
    pub fn bound_us(&self) -> Option<u32> {
        self.locked().bound_us
    }

    /// Has the thread hold what is asked for from now on; one that holds it already goes on sleeping.
    pub fn ask(&self, asked: Asked) {
        let changed = |to: &AtomicU32, value| to.swap(value, Ordering::Relaxed) != value;
        let changes = [
            changed(&self.always, asked.always),
            changed(&self.may, asked.may),
            changed(&self.hold_us, asked.hold_us.unwrap_or(NONE)),
        ];
        // Others may have the service ask often: a CPU sleeps on where nothing changes.
        if changes.contains(&true) {
            self.wake();
        }
    }

    /// Has the rule at that place hold another bound on this CPU, µs.
    pub fn set_bound(&self, nth: usize, bound_us: Option<u32>) {
        let bound_us = bound_us.unwrap_or(NONE);
        if self.bounds_us[nth].swap(bound_us, Ordering::Relaxed) != bound_us {
            self.wake();
        }
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

    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Force {
    /// Starts a thread for each bound; `packets` of CPUs that have none is not used.
    ///
    /// # Errors
    /// Where no thread or descriptor can be made.
    pub fn start(bounds: Vec<LiveBound>, packets: Vec<OnCpu>, rules: &[Judged]) -> Result<Self> {
        let mut packets: Vec<Option<OnCpu>> = packets.into_iter().map(Some).collect();
        let mut force = Self {
            cpus: Vec::new(),
            threads: Vec::new(),
        };
        for bound in bounds {
            let kick = EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)
                .map_err(Error::system("making an event descriptor"))?;
            let bounds_us = rules.iter().map(|rule| rule.bound_us(bound.cpu));
            let bounds_us = bounds_us.map(|bound_us| bound_us.unwrap_or(NONE));
            let cpu = Arc::new(Cpu {
                number: bound.cpu,
                always: AtomicU32::new(0),
                may: AtomicU32::new(0),
                hold_us: AtomicU32::new(NONE),
                bounds_us: bounds_us.map(AtomicU32::new).collect(),
                over: AtomicBool::new(false),
                look: AtomicBool::new(false),
                wakes: AtomicU64::new(0),
                served: AtomicU64::new(0),
                kick,
                state: Mutex::new(State {
                    uses: vec![Use::default(); rules.len()],
                    ..State::default()
                }),
            });
            let keeper = Keeper {
                quiet: rules.iter().map(Judged::quiet).collect(),
                packets: packets.get_mut(bound.cpu as usize).and_then(Option::take),
                bound,
                cpu: cpu.clone(),
                traffic: 0,
                phase: 0.0,
                retry: RETRY,
            };
            let thread = std::thread::Builder::new()
                .name(format!("bound-{}", cpu.number))
                .stack_size(STACK_BYTES)
                .spawn(move || keeper.run());
            force.cpus.push(cpu);
            let thread = thread.map_err(Error::system("starting a thread"))?;
            force.threads.push(thread);
        }
        Ok(force)
    }

    /// The CPUs, ascending.
    pub fn cpus(&self) -> &[Arc<Cpu>] {
        &self.cpus
    }
}

impl Drop for Force {
    fn drop(&mut self) {
        for cpu in &self.cpus {
            cpu.over.store(true, Ordering::Release);
            cpu.wake();
        }
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
    packets: Option<OnCpu>,
    /// Of each rule.
    quiet: Vec<Duration>,
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
        self.note_held(0);
        let mut wait = None;
        loop {
            self.wait(wait);
            let wakes = self.cpu.wakes.load(Ordering::Acquire);
            if self.cpu.over.load(Ordering::Acquire) {
                self.traffic = 0;
                self.hold(0, None);
                return;
            }
            self.is_here();
            let quiet_in = self.follow_traffic();
            let always = self.cpu.always.load(Ordering::Relaxed);
            let hold = self.cpu.hold_us.load(Ordering::Relaxed);
            let is_held = self.hold(always | self.traffic, (hold != NONE).then_some(hold));
            self.note_held(self.traffic);
            let retry_in = (!is_held).then_some(self.retry);
            self.retry = match is_held {
                true => RETRY,
                false => (self.retry * 2).min(RETRY_MAX),
            };
            self.cpu.served.store(wakes, Ordering::Release);
            wait = quiet_in.into_iter().chain(retry_in).min();
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
            packets.note_held(rules | !self.cpu.may.load(Ordering::Relaxed));
        }
    }

    /// Takes up the rules that packets ask for, and drops those without packets for their quiet time; when
    /// the next one could end.
    fn follow_traffic(&mut self) -> Option<Duration> {
        let packets = self.packets.as_ref()?;
        let may = self.cpu.may.load(Ordering::Relaxed);
        self.phase = next_phase(self.phase);
        self.traffic = (self.traffic | packets.called()) & may;
        let mut next: Option<Duration> = None;
        for (nth, quiet) in self.quiet.iter().enumerate() {
            let bit = 1 << nth;
            if self.traffic & bit == 0 {
                continue;
            }
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

    /// Puts the tightest bound of these rules and of the holds in force; false if it is not.
    fn hold(&self, rules: u32, hold_us: Option<u32>) -> bool {
        let bounds = self.cpu.bounds_us.iter().enumerate();
        let bounds = bounds.filter(|(nth, _)| rules & 1 << nth != 0);
        let bounds = bounds.map(|(_, bound_us)| bound_us.load(Ordering::Relaxed));
        let bounds = bounds.filter(|bound_us| *bound_us != NONE);
        let wanted = bounds.chain(hold_us).min();
        let mut state = self.cpu.locked();
        let now = Instant::now();
        for (nth, of) in state.uses.iter_mut().enumerate() {
            match (rules & 1 << nth != 0, of.since) {
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
        }
        state.rules = rules;
        let is_in_force = state.in_the_way.is_none()
            && state.failed.is_none()
            && !self.cpu.look.swap(false, Ordering::Acquire);
        if state.bound_us == wanted && is_in_force {
            return true;
        }
        let set = self.bound.set(wanted);
        if state.bound_us != wanted {
            state.since = Some(now);
        }
        state.bound_us = wanted;
        state.in_the_way = match &set {
            Ok(Slot::Anothers(value)) if wanted.is_some() => Some(value.clone()),
            _ => None,
        };
        state.failed = set.err().map(|error| error.to_string());
        state.in_the_way.is_none() && state.failed.is_none()
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
