//! One server: first come, first served, with a policy.
//!
//! With one queue served in order no list of events is needed: when a request comes, all that
//! happened since the one before it follows from the instant at which the server will be free
//! (Lindley 1952), and what it did in the idle period from that period's length.

use crate::closed::dvfs;
use crate::policy::{CStates, Choice, Dvfs, Policy, PowerNap, Rule, Shares};
use crate::power::Power;
use crate::service::Service;
use crate::{Error, Result};

/// A policy at a given load: what is settled before the first request comes.
#[derive(Debug, Clone)]
pub(super) struct Behaviour {
    /// Relative frequency: 1 but for DVFS.
    pub(super) frequency: f64,
    /// What a service time is multiplied with: 1 by the frequency.
    stretch: f64,
    rest: Rest,
    active_w: f64,
    idle_w: f64,
    transition_w: f64,
}

#[derive(Debug, Clone)]
enum Rest {
    Awake,
    Nap {
        nap: PowerNap,
        watts: f64,
    },
    States {
        states: CStates,
        /// The one that is entered each time; not with [`Choice::Oracle`].
        each_time: Option<usize>,
    },
}

impl Behaviour {
    /// `rate`: requests a second that come to this server in the mean.
    pub(super) fn of(policy: &Policy, power: &Power, service: &Service, rate: f64) -> Result<Self> {
        policy.check()?;
        let awake = Self {
            frequency: 1.0,
            stretch: 1.0,
            rest: Rest::Awake,
            active_w: power.active,
            idle_w: power.idle,
            transition_w: power.transition,
        };
        Ok(match policy {
            Policy::AlwaysOn => awake,
            Policy::PowerNap(nap) => Self {
                rest: Rest::Nap {
                    nap: *nap,
                    watts: power.nap,
                },
                ..awake
            },
            Policy::Dvfs(scaling) => {
                let frequency = frequency(scaling, service, rate)?;
                Self {
                    frequency,
                    stretch: 1.0 / frequency,
                    active_w: scaling.active_power(power, frequency),
                    idle_w: scaling.idle_power(power, frequency),
                    ..awake
                }
            }
            Policy::CStates(states) => Self {
                rest: Rest::States {
                    each_time: match states.choice {
                        Choice::Oracle => None,
                        Choice::Deepest | Choice::Mean => states.state(0.0, 1.0 / rate),
                    },
                    states: states.clone(),
                },
                ..awake
            },
        })
    }

    /// After how many seconds without work a dispatcher takes the server for asleep; `None`: never.
    pub(super) fn sleeps_after(&self) -> Option<f64> {
        match &self.rest {
            Rest::Awake => None,
            Rest::Nap { nap, .. } => nap.timeout.is_finite().then_some(nap.timeout),
            Rest::States { states, each_time } => {
                let may = each_time.is_some()
                    || states.choice == Choice::Oracle && !states.states.is_empty();
                may.then_some(0.0)
            }
        }
    }

    /// Seconds that one cycle spends on the way to sleep and back, at most.
    pub(super) fn transition(&self) -> f64 {
        match &self.rest {
            Rest::Awake => 0.0,
            Rest::Nap { nap, .. } => nap.suspend + nap.resume,
            Rest::States { states, .. } => {
                let exits = states.states.iter().map(|state| state.exit_latency);
                exits.fold(0.0, f64::max)
            }
        }
    }

    /// Joules.
    pub(super) fn energy(&self, account: &Account) -> f64 {
        account.active * self.active_w
            + account.idle * self.idle_w
            + account.transition * self.transition_w
            + account.nap_joules
    }

    /// Puts `elapsed` seconds without work into the account, of an idle period that lasts `total`.
    #[inline(always)]
    fn idle(&self, elapsed: f64, total: f64, account: &mut Account) {
        match &self.rest {
            Rest::Awake => account.idle += elapsed,
            Rest::Nap { nap, watts } => {
                let since = elapsed - nap.timeout;
                if since <= 0.0 {
                    account.idle += elapsed;
                    return;
                }
                account.idle += nap.timeout;
                account.transition += since.min(nap.suspend);
                let asleep = (since - nap.suspend).max(0.0);
                account.nap += asleep;
                account.nap_joules += asleep * watts;
                account.naps += 1;
            }
            Rest::States { states, each_time } => match entered(states, *each_time, total) {
                None => account.idle += elapsed,
                Some(state) => {
                    account.nap += elapsed;
                    account.nap_joules += elapsed * states.states[state].power;
                    account.naps += 1;
                }
            },
        }
    }

    /// Seconds from the arrival that ends an idle period of this length until it is served, and
    /// whether it found the server ready.
    #[inline(always)]
    fn setup(&self, idle: f64, account: &mut Account) -> (f64, bool) {
        match &self.rest {
            Rest::Awake => (0.0, true),
            Rest::Nap { nap, .. } => {
                let since = idle - nap.timeout;
                if since <= 0.0 {
                    return (0.0, true);
                }
                let setup = (nap.suspend - since).max(0.0) + nap.resume;
                account.transition += setup;
                (setup, false)
            }
            Rest::States { states, each_time } => match entered(states, *each_time, idle) {
                None => (0.0, true),
                Some(state) => {
                    let exit = states.states[state].exit_latency;
                    account.transition += exit;
                    (exit, false)
                }
            },
        }
    }
}

#[inline(always)]
fn entered(states: &CStates, each_time: Option<usize>, idle: f64) -> Option<usize> {
    match states.choice {
        Choice::Oracle => states.fitting(idle),
        Choice::Deepest | Choice::Mean => each_time,
    }
}

/// A trace may bring more than can be done: then the frequency is the highest that the rule allows.
fn frequency(scaling: &Dvfs, service: &Service, rate: f64) -> Result<f64> {
    match (dvfs::frequency(scaling, service, rate), scaling.rule) {
        (Err(Error::Unstable { .. }), Rule::Fixed(frequency)) => Ok(frequency.max(scaling.floor)),
        (Err(Error::Unstable { .. }), _) => Ok(1.0),
        (other, _) => other,
    }
}

/// Where a server's time went, in seconds.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Account {
    pub(super) active: f64,
    pub(super) idle: f64,
    pub(super) transition: f64,
    pub(super) nap: f64,
    nap_joules: f64,
    /// Less than 0 for a moment only, while what came before the window is taken off.
    pub(super) naps: i64,
}

impl Account {
    pub(super) fn shares(&self, seconds: f64) -> Shares {
        Shares {
            active: self.active / seconds,
            idle: self.idle / seconds,
            transition: self.transition / seconds,
            nap: self.nap / seconds,
        }
    }

    fn add(&mut self, other: &Self, sign: f64) {
        self.active += sign * other.active;
        self.idle += sign * other.idle;
        self.transition += sign * other.transition;
        self.nap += sign * other.nap;
        self.nap_joules += sign * other.nap_joules;
        self.naps += other.naps * sign as i64;
    }
}

/// When a request is served, and what it found.
#[derive(Debug, Clone, Copy)]
pub(super) struct Served {
    pub(super) start: f64,
    pub(super) departure: f64,
    /// The server was not asleep, nor on the way there or back.
    pub(super) found_ready: bool,
}

/// A server between two requests.
#[derive(Debug, Clone, Default)]
pub(super) struct Server {
    /// When all work that it has is done.
    pub(super) free: f64,
    /// When it was, or will be, ready for the first of those.
    ready: f64,
    account: Account,
}

impl Server {
    /// A request comes at `at`, not before the one before it, with `work` seconds of service at full
    /// frequency.
    #[inline(always)]
    pub(super) fn take(&mut self, behaviour: &Behaviour, at: f64, work: f64) -> Served {
        let service = work * behaviour.stretch;
        let (start, found_ready) = if at <= self.free {
            (self.free, at >= self.ready)
        } else {
            let idle = at - self.free;
            behaviour.idle(idle, idle, &mut self.account);
            let (setup, ready) = behaviour.setup(idle, &mut self.account);
            self.ready = at + setup;
            (self.ready, ready)
        };
        self.account.active += service;
        self.free = start + service;
        Served {
            start,
            departure: self.free,
            found_ready,
        }
    }

    /// The account begins at `from`; `next` is when the next request comes, where that is known.
    pub(super) fn open(&mut self, behaviour: &Behaviour, from: f64, next: Option<f64>) {
        self.account = Account::default();
        let after = self.after(from);
        self.account.add(&after, 1.0);
        let before = self.idle_before(behaviour, from, next);
        self.account.add(&before, -1.0);
    }

    /// The account up to `until`; `next` is when the next request comes, where that is known.
    pub(super) fn close(&self, behaviour: &Behaviour, until: f64, next: Option<f64>) -> Account {
        let mut account = self.account;
        account.add(&self.after(until), -1.0);
        account.add(&self.idle_before(behaviour, until, next), 1.0);
        account
    }

    /// What is accounted for already, but happens after `time`.
    fn after(&self, time: f64) -> Account {
        Account {
            active: (self.free - time.max(self.ready)).max(0.0),
            transition: (self.ready - time).max(0.0),
            ..Account::default()
        }
    }

    /// What has happened before `time`, but is accounted for when the next request comes. Only
    /// [`Choice::Oracle`] must know when that is; where nobody does, `time` takes its place.
    fn idle_before(&self, behaviour: &Behaviour, time: f64, next: Option<f64>) -> Account {
        let mut account = Account::default();
        let elapsed = time - self.free;
        if elapsed > 0.0 {
            let total = next.map_or(elapsed, |next| next - self.free);
            behaviour.idle(elapsed, total, &mut account);
        }
        account
    }
}
