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
        self.naps += sign as i64 * other.naps;
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
    /// frequency. The account begins at `from`; how long an idle period is that began before, and with
    /// it what is not to be accounted for, is known now.
    #[inline(always)]
    pub(super) fn take(&mut self, behaviour: &Behaviour, from: f64, at: f64, work: f64) -> Served {
        let service = work * behaviour.stretch;
        let (start, found_ready) = if at <= self.free {
            (self.free, at >= self.ready)
        } else {
            let idle = at - self.free;
            if self.free < from {
                let before = self.idle_before(behaviour, from, Some(at));
                self.account.add(&before, -1.0);
            }
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

    /// The account begins at `from`.
    pub(super) fn open(&mut self, from: f64) {
        self.account = self.after(from);
    }

    /// The account from `from` to `until`; `next` is when the next request comes, where that is known.
    pub(super) fn close(
        &self,
        behaviour: &Behaviour,
        from: f64,
        until: f64,
        next: Option<f64>,
    ) -> Account {
        let mut account = self.account;
        account.add(&self.after(until), -1.0);
        account.add(&self.idle_before(behaviour, until, next), 1.0);
        let before = self.idle_before(behaviour, from, next.or(Some(until)));
        account.add(&before, -1.0);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{CState, Law};
    use crate::power::SERVER;

    fn behaviour(policy: &Policy, rate: f64) -> Behaviour {
        let service = Service::Deterministic { mean: 1.0 };
        Behaviour::of(policy, &SERVER, &service, rate).unwrap()
    }

    fn nap(timeout: f64) -> Policy {
        Policy::PowerNap(PowerNap {
            suspend: 2.0,
            resume: 3.0,
            timeout,
        })
    }

    fn c_states(choice: Choice) -> Policy {
        let state = |exit_latency, power, target_residency| CState {
            name: "C".into(),
            exit_latency,
            power,
            target_residency,
        };
        Policy::CStates(CStates {
            states: vec![state(0.5, 40.0, 1.0), state(2.0, 20.0, 4.0)],
            choice,
        })
    }

    fn dvfs(floor: f64, rule: Rule) -> Policy {
        Policy::Dvfs(Dvfs {
            floor,
            processor_share: 0.5,
            idle_share: 0.4,
            law: Law::Cubic,
            rule,
        })
    }

    /// What a server does up to an instant, and its power.
    #[derive(Clone, Copy, PartialEq)]
    enum Does {
        Serves(f64),
        Idles(f64),
        /// Starts a suspend, and with it a nap.
        Suspends,
        Resumes,
        Naps(f64),
        /// A nap starts without a suspend.
        Enters(f64),
    }
    use Does::*;

    /// The totals between two instants: active, idle, transition, nap, joules, and naps started.
    fn between(does: &[(Does, f64)], from: f64, until: f64) -> ([f64; 5], i64) {
        let (mut seconds, mut naps, mut start) = ([0.0; 5], 0, 0.0f64);
        for (what, end) in does {
            let part = (end.min(until) - start.max(from)).max(0.0);
            let (place, watts) = match what {
                Serves(watts) => (0, *watts),
                Idles(watts) => (1, *watts),
                Suspends | Resumes => (2, SERVER.transition),
                Naps(watts) | Enters(watts) => (3, *watts),
            };
            seconds[place] += part;
            seconds[4] += part * watts;
            let begins = matches!(what, Suspends | Enters(_)) && (from..until).contains(&start);
            naps += i64::from(begins);
            start = *end;
        }
        (seconds, naps)
    }

    /// The accounts of all windows whose ends are quarters of a second.
    #[track_caller]
    fn accounts_for(policy: &Policy, rate: f64, asked: &[(f64, f64)], does: &[(Does, f64)]) {
        let behaviour = behaviour(policy, rate);
        let quarters = (does[does.len() - 1].1 * 4.0) as u32;
        for from in 0..quarters {
            for until in from + 1..quarters {
                let (from, until) = (f64::from(from) / 4.0, f64::from(until) / 4.0);
                let mut server = Server::default();
                let mut asked = asked.iter().copied().peekable();
                while let Some((at, work)) = asked.next_if(|(at, _)| *at < from) {
                    server.take(&behaviour, 0.0, at, work);
                }
                server.open(from);
                while let Some((at, work)) = asked.next_if(|(at, _)| *at < until) {
                    server.take(&behaviour, from, at, work);
                }
                let account =
                    server.close(&behaviour, from, until, asked.peek().map(|(at, _)| *at));
                let Account {
                    active,
                    idle,
                    transition,
                    nap,
                    ..
                } = account;
                let joules = behaviour.energy(&account);
                let got = ([active, idle, transition, nap, joules], account.naps);
                assert_eq!(got, between(does, from, until), "{from} to {until}");
            }
        }
    }

    /// Arriving requests: at, work, and by hand: start, departure, found ready.
    type Served5 = (f64, f64, f64, f64, bool);

    #[track_caller]
    fn serves(policy: &Policy, rate: f64, requests: &[Served5]) -> Vec<(f64, f64)> {
        let behaviour = behaviour(policy, rate);
        let mut server = Server::default();
        for (at, work, start, departure, found_ready) in requests {
            let served = server.take(&behaviour, 0.0, *at, *work);
            let got = (served.start, served.departure, served.found_ready);
            assert_eq!(got, (*start, *departure, *found_ready), "at {at}");
        }
        let asked = requests.iter().map(|(at, work, ..)| (*at, *work));
        asked.collect()
    }

    #[test]
    fn a_napping_server_matches_a_calculation_by_hand() {
        let asked = serves(
            &nap(4.0),
            0.1,
            &[
                (1.0, 2.0, 1.0, 3.0, true),
                (2.0, 1.0, 3.0, 4.0, true),
                // Suspended from 8 to 10.
                (12.0, 1.0, 15.0, 16.0, false),
                (14.0, 1.0, 16.0, 17.0, false),
                // Just when it is ready,
                (15.0, 1.0, 17.0, 18.0, true),
                // free,
                (18.0, 2.0, 18.0, 20.0, true),
                // or would start to suspend.
                (24.0, 1.0, 24.0, 25.0, true),
                // In the suspend from 29 to 31.
                (30.0, 1.0, 34.0, 35.0, false),
            ],
        );
        let (serves, idles) = (Serves(100.0), Idles(60.0));
        accounts_for(
            &nap(4.0),
            0.1,
            &asked,
            &[
                (idles, 1.0),
                (serves, 4.0),
                (idles, 8.0),
                (Suspends, 10.0),
                (Naps(5.0), 12.0),
                (Resumes, 15.0),
                (serves, 20.0),
                (idles, 24.0),
                (serves, 25.0),
                (idles, 29.0),
                (Suspends, 31.0),
                (Resumes, 34.0),
                (serves, 35.0),
                (idles, 39.0),
                (Suspends, 41.0),
                (Naps(5.0), 45.0),
            ],
        );
    }

    #[test]
    fn a_server_with_idle_states_matches_a_calculation_by_hand() {
        let (serves_, idles) = (Serves(100.0), Idles(60.0));
        // The oracle stays awake below 1 s, and uses the deeper state from 4 s on.
        let asked = serves(
            &c_states(Choice::Oracle),
            0.5,
            &[
                (0.5, 0.5, 0.5, 1.0, true),
                (3.0, 1.5, 3.5, 5.0, false),
                (9.0, 1.0, 11.0, 12.0, false),
                (13.0, 0.5, 13.5, 14.0, false),
                (14.0, 0.5, 14.0, 14.5, true),
            ],
        );
        accounts_for(
            &c_states(Choice::Oracle),
            0.5,
            &asked,
            &[
                (idles, 0.5),
                (serves_, 1.0),
                (Enters(40.0), 3.0),
                (Resumes, 3.5),
                (serves_, 5.0),
                (Enters(20.0), 9.0),
                (Resumes, 11.0),
                (serves_, 12.0),
                (Enters(40.0), 13.0),
                (Resumes, 13.5),
                (serves_, 14.5),
            ],
        );
        // A mean of 2 s between requests: the shallower each time; or the deepest each time.
        for (choice, exit, watts) in [(Choice::Mean, 0.5, 40.0), (Choice::Deepest, 2.0, 20.0)] {
            let policy = c_states(choice);
            let asked = serves(
                &policy,
                0.5,
                &[
                    (0.5, 0.5, 0.5 + exit, 1.0 + exit, false),
                    (9.0, 1.0, 9.0 + exit, 10.0 + exit, false),
                ],
            );
            accounts_for(
                &policy,
                0.5,
                &asked,
                &[
                    (Enters(watts), 0.5),
                    (Resumes, 0.5 + exit),
                    (serves_, 1.0 + exit),
                    (Enters(watts), 9.0),
                    (Resumes, 9.0 + exit),
                    (serves_, 10.0 + exit),
                    (Enters(watts), 15.0),
                ],
            );
        }
    }

    #[test]
    fn a_slower_server_takes_longer_and_draws_less() {
        let policy = dvfs(0.25, Rule::Fixed(0.5));
        let asked = serves(
            &policy,
            0.1,
            &[(1.0, 1.0, 1.0, 3.0, true), (2.0, 1.5, 3.0, 6.0, true)],
        );
        // 0.5³ = 0.125: 100 · (0.5 + 0.5 · 0.125) and 60 · (0.6 + 0.4 · 0.125).
        let (serves, idles) = (Serves(56.25), Idles(39.0));
        let does = [(idles, 1.0), (serves, 6.0), (idles, 8.0)];
        accounts_for(&policy, 0.1, &asked, &does);
    }

    #[test]
    fn a_dispatcher_sees_which_servers_sleep_and_after_what_time() {
        let no_state = Policy::CStates(CStates {
            states: Vec::new(),
            choice: Choice::Oracle,
        });
        for (policy, rate, after) in [
            (Policy::AlwaysOn, 0.5, None),
            (dvfs(0.5, Rule::Linear), 0.5, None),
            (nap(4.0), 0.5, Some(4.0)),
            (nap(f64::INFINITY), 0.5, None),
            (c_states(Choice::Deepest), 0.5, Some(0.0)),
            (c_states(Choice::Mean), 0.5, Some(0.0)),
            // Requests arrive so often that no state fits.
            (c_states(Choice::Mean), 2.0, None),
            (c_states(Choice::Oracle), 2.0, Some(0.0)),
            (no_state, 0.5, None),
        ] {
            assert_eq!(behaviour(&policy, rate).sleeps_after(), after, "{policy:?}");
        }
    }

    #[test]
    fn an_overloaded_server_has_the_highest_frequency_of_its_rule() {
        for (floor, rule, rate, frequency) in [
            (0.25, Rule::Fixed(0.5), 0.4, 0.5),
            (0.25, Rule::Fixed(0.5), 0.75, 0.5),
            (0.625, Rule::Fixed(0.5), 0.75, 0.625),
            (0.25, Rule::Linear, 0.5, 0.625),
            (0.25, Rule::Linear, 1.5, 1.0),
            (0.25, Rule::Slowdown(2.0), 1.5, 1.0),
        ] {
            let policy = dvfs(floor, rule);
            assert_eq!(behaviour(&policy, rate).frequency, frequency, "{policy:?}");
        }
    }
}
