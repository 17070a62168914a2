//! The use of processes and users, kept beyond their connections.

use std::collections::HashMap;

use super::rate::Rate;
use super::{Owner, Quotas, Settings, User};
use crate::budget::Budget;
use crate::limits::{LEAST_CHARGED_NS, Refusal, Window};
use crate::protocol::CloseReason;

/// A burst is the messages of a tenth of a second.
const BURSTS_PER_SECOND: u32 = 10;
/// A request wakes the CPU's thread, and the CPU when its window begins.
const WAKEUPS: u32 = 2;
/// One place in eight is root's.
const RESERVE: u32 = 8;
/// How long a user is not read after using up a share of the server, ns.
pub(super) const PAUSE_NS: u64 = 10_000_000;
/// The first sweep is at this number of entries.
const SWEPT_FROM: usize = 64;

/// Budgets of processes and users. One that equals a new one is dropped if it has no connection.
#[derive(Debug)]
pub(super) struct Accounts {
    settings: Settings,
    processes: HashMap<Owner, Process>,
    users: HashMap<u32, UserAccount>,
    /// Connections of all, and of those to whom quotas apply.
    connections: u32,
    bound_connections: u32,
    /// The server's own time for all users whom quotas bind, ns.
    server_ns: Rate,
    /// Entries at the next sweep; it doubles, so that a sweep costs constant time per entry.
    swept_at: usize,
}

#[derive(Debug)]
struct Process {
    budget: Budget,
    messages: Rate,
    connections: u32,
}

#[derive(Debug)]
struct UserAccount {
    budget: Budget,
    connects: Rate,
    messages: Rate,
    /// Runs of the server's thread for this user, and their time, ns.
    turns: Rate,
    server_ns: Rate,
    /// Wake-ups of each CPU.
    cpus: HashMap<u32, Rate>,
    report: User,
}

/// Whether the process or the user has to wait, and until when, ns of CLOCK_MONOTONIC.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wait {
    Process(u64),
    User(u64),
}

impl UserAccount {
    fn new(uid: u32, settings: &Settings, now_ns: u64) -> Self {
        let quotas = &settings.quotas;
        Self {
            budget: Budget::new(settings.user_awake_ppm, settings.user_burst_ns(), now_ns),
            connects: Rate::new(quotas.connects, quotas.connects, now_ns),
            messages: Rate::new(quotas.messages, quotas.messages / BURSTS_PER_SECOND, now_ns),
            turns: Rate::at_most(quotas.wakeups, now_ns),
            server_ns: share_of_a_cpu(quotas.server_ppm, now_ns),
            cpus: HashMap::new(),
            report: User {
                uid,
                ..User::default()
            },
        }
    }

    fn is_as_new(&mut self, now_ns: u64) -> bool {
        self.cpus.retain(|_, rate| !rate.is_full(now_ns));
        self.report.connections == 0
            && self.cpus.is_empty()
            && self.budget.is_full(now_ns)
            && [
                &mut self.connects,
                &mut self.messages,
                &mut self.turns,
                &mut self.server_ns,
            ]
            .into_iter()
            .all(|rate| rate.is_full(now_ns))
    }
}

impl Accounts {
    pub fn new(settings: &Settings, now_ns: u64) -> Self {
        Self {
            settings: settings.clone(),
            processes: HashMap::new(),
            users: HashMap::new(),
            connections: 0,
            bound_connections: 0,
            server_ns: share_of_a_cpu(settings.quotas.server_of_users_ppm, now_ns),
            swept_at: SWEPT_FROM,
        }
    }

    fn quotas(&self) -> &Quotas {
        &self.settings.quotas
    }

    fn bind(&self, uid: u32) -> bool {
        self.quotas().bind(uid)
    }

    fn user(&mut self, uid: u32, now_ns: u64) -> &mut UserAccount {
        let settings = &self.settings;
        self.users
            .entry(uid)
            .or_insert_with(|| UserAccount::new(uid, settings, now_ns))
    }

    /// Whether the user may connect now: by rate, and by places.
    pub fn arrive(&mut self, uid: u32, now_ns: u64) -> Result<(), CloseReason> {
        self.forget(now_ns);
        let bound = self.bind(uid);
        let often = self.user(uid, now_ns).connects.take(now_ns).is_err();
        let done = match bound && often {
            true => Err(CloseReason::TooOften),
            false => self.place(uid, now_ns),
        };
        self.user(uid, now_ns).report.sent_away += u64::from(done.is_err());
        done
    }

    /// A user has at most a third as many places as are left: a quarter of all if alone, a fifth if there
    /// are two; it takes some 16 users to leave none (of 256).
    fn place(&mut self, uid: u32, now_ns: u64) -> Result<(), CloseReason> {
        let all = self.settings.clients;
        let left = match self.bind(uid) {
            true => (all - all / RESERVE)
                .saturating_sub(self.bound_connections)
                .min(all.saturating_sub(self.connections)),
            false => all.saturating_sub(self.connections),
        };
        let has = self.user(uid, now_ns).report.connections;
        match left {
            0 => Err(CloseReason::Full),
            _ if self.bind(uid) && has > 0 && 3 * has >= left => Err(CloseReason::Places),
            _ => Ok(()),
        }
    }

    /// One more connection.
    pub fn open(&mut self, owner: Owner, now_ns: u64) {
        self.connections += 1;
        self.bound_connections += u32::from(self.bind(owner.uid));
        self.user(owner.uid, now_ns).report.connections += 1;
        let limits = &self.settings.limits;
        let process = self.processes.entry(owner).or_insert_with(|| Process {
            budget: Budget::new(limits.awake_ppm, limits.window_ns, now_ns),
            messages: Rate::new(
                limits.messages_per_second,
                limits.messages_per_second / BURSTS_PER_SECOND,
                now_ns,
            ),
            connections: 0,
        });
        process.connections += 1;
    }

    /// One connection less: whether it was the user's last.
    pub fn close(&mut self, owner: Owner) -> bool {
        self.connections = self.connections.saturating_sub(1);
        let bound = u32::from(self.bind(owner.uid));
        self.bound_connections = self.bound_connections.saturating_sub(bound);
        if let Some(process) = self.processes.get_mut(&owner) {
            process.connections = process.connections.saturating_sub(1);
        }
        self.users.get_mut(&owner.uid).is_none_or(|user| {
            user.report.connections = user.report.connections.saturating_sub(1);
            user.report.connections == 0
        })
    }

    /// Whether the server's thread may run for that user now; if not, when.
    pub fn turn(&mut self, uid: u32, now_ns: u64) -> Result<(), u64> {
        let bound = self.bind(uid);
        let all = self.server_ns.ready(now_ns);
        let user = self.user(uid, now_ns);
        let done = user
            .server_ns
            .ready(now_ns)
            .and(all)
            .map_err(|until_ns| until_ns.max(now_ns + PAUSE_NS))
            .and_then(|()| user.turns.take(now_ns));
        let done = if bound { done } else { Ok(()) };
        user.report.turns += u64::from(done.is_ok());
        done
    }

    /// The server's thread has run for that user.
    pub fn spent(&mut self, uid: u32, now_ns: u64, ran_ns: u64) {
        if self.bind(uid) {
            self.server_ns.charge(now_ns, ran_ns);
        }
        let user = self.user(uid, now_ns);
        user.server_ns.charge(now_ns, ran_ns);
        user.report.server_ns += ran_ns;
    }

    /// Whether users with quotas may be accepted now; if not, when.
    pub fn may_arrive(&mut self, now_ns: u64) -> Result<(), u64> {
        self.server_ns.ready(now_ns)
    }

    /// Whether the client may send one more message.
    pub fn message(&mut self, owner: Owner, now_ns: u64) -> Result<(), Wait> {
        let bound = self.bind(owner.uid);
        let Some(process) = self.processes.get_mut(&owner) else {
            return Ok(());
        };
        process.messages.take(now_ns).map_err(Wait::Process)?;
        match self.user(owner.uid, now_ns).messages.take(now_ns) {
            Err(until_ns) if bound => {
                if let Some(process) = self.processes.get_mut(&owner) {
                    process.messages.put_back();
                }
                Err(Wait::User(until_ns.max(now_ns + PAUSE_NS)))
            }
            _ => Ok(()),
        }
    }

    /// Returns a message that was not sent.
    pub fn no_message(&mut self, owner: Owner) {
        if let Some(process) = self.processes.get_mut(&owner) {
            process.messages.put_back();
        }
        if let Some(user) = self.users.get_mut(&owner.uid) {
            user.messages.put_back();
        }
    }

    /// Whether that user may wake that CPU for one more window.
    pub fn may_wake(&mut self, uid: u32, cpu: u32, now_ns: u64) -> Result<(), Refusal> {
        let bound = self.bind(uid);
        let rate = self.user(uid, now_ns).cpus.get_mut(&cpu);
        match rate.map(|rate| rate.has(now_ns, WAKEUPS)) {
            Some(Err(_)) if bound => Err(Refusal::Wakeups),
            _ => Ok(()),
        }
    }

    /// Charges the wake-ups of a planned window. (The plan has checked the CPU's number.)
    pub fn planned(&mut self, uid: u32, cpu: u32, now_ns: u64) {
        self.wakes(uid, cpu, now_ns, u64::from(WAKEUPS));
    }

    /// Charges a cancellation, which wakes the CPU's thread; before its window it saves a wake-up.
    pub fn cancelled(&mut self, uid: u32, cpu: u32, now_ns: u64, window: Window) {
        if window.at_ns <= now_ns {
            self.wakes(uid, cpu, now_ns, 1);
        }
    }

    fn wakes(&mut self, uid: u32, cpu: u32, now_ns: u64, wakeups: u64) {
        let most = self.quotas().wakeups;
        let user = self.user(uid, now_ns);
        let rate = user.cpus.entry(cpu);
        rate.or_insert_with(|| Rate::at_most(most, now_ns))
            .charge(now_ns, wakeups);
        user.report.wakeups += wakeups;
    }

    /// Charges the time of a window to the process and the user.
    pub fn take(&mut self, owner: Owner, now_ns: u64, window: Window) -> Result<(), Refusal> {
        let window = charged(window);
        let process = self.processes.get_mut(&owner).ok_or(Refusal::Budget)?;
        let user = self.users.get_mut(&owner.uid).ok_or(Refusal::Budget)?;
        if !process.budget.allows(now_ns, window) {
            return Err(Refusal::Budget);
        }
        if !user.budget.allows(now_ns, window) {
            return Err(Refusal::UserBudget);
        }
        process.budget.take(window);
        user.budget.take(window);
        Ok(())
    }

    /// Returns what is left of a window; once begun, it costs at least [`LEAST_CHARGED_NS`].
    pub fn give_back(&mut self, owner: Owner, now_ns: u64, window: Window) {
        let window = charged(window);
        let used_ns = match window.at_ns <= now_ns {
            true => now_ns.max(window.at_ns + LEAST_CHARGED_NS),
            false => now_ns,
        };
        if let Some(process) = self.processes.get_mut(&owner) {
            process.budget.give_back(used_ns, window);
        }
        if let Some(user) = self.users.get_mut(&owner.uid) {
            user.budget.give_back(used_ns, window);
        }
    }

    /// A request was refused.
    pub fn refused(&mut self, uid: u32) {
        if let Some(user) = self.users.get_mut(&uid) {
            user.report.refused += 1;
        }
    }

    pub fn users(&self) -> impl Iterator<Item = User> {
        self.users.values().map(|user| user.report)
    }

    fn forget(&mut self, now_ns: u64) {
        if self.processes.len() + self.users.len() < self.swept_at {
            return;
        }
        self.processes.retain(|_, process| {
            let as_new = process.budget.is_full(now_ns) && process.messages.is_full(now_ns);
            process.connections > 0 || !as_new
        });
        self.users.retain(|_, user| !user.is_as_new(now_ns));
        self.swept_at = 2 * (self.processes.len() + self.users.len()) + SWEPT_FROM;
    }
}

fn share_of_a_cpu(ppm: u32, now_ns: u64) -> Rate {
    // A millionth of a second is 1000 ns.
    Rate::at_most(ppm.min(1_000_000).saturating_mul(1_000), now_ns)
}

/// The time awake that a window is charged.
fn charged(window: Window) -> Window {
    Window {
        length_ns: window.length_ns.max(LEAST_CHARGED_NS),
        ..window
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const SECOND: u64 = 1_000_000_000;

    fn owner(pid: i32, uid: u32) -> Owner {
        Owner { pid, uid }
    }

    fn window(at_ns: u64) -> Window {
        Window {
            at_ns,
            length_ns: 10 * MS,
        }
    }

    fn accounts(change: impl FnOnce(&mut Settings)) -> Accounts {
        let mut settings = Settings::default();
        change(&mut settings);
        Accounts::new(&settings, 0)
    }

    /// Whether there was a place.
    fn open(accounts: &mut Accounts, owner: Owner, now_ns: u64) -> Result<(), CloseReason> {
        accounts.arrive(owner.uid, now_ns)?;
        accounts.open(owner, now_ns);
        Ok(())
    }

    #[test]
    fn a_new_connection_brings_no_new_budget() {
        let mut accounts = accounts(|_| {});
        let one = owner(1, 1000);
        assert_eq!(open(&mut accounts, one, 0), Ok(()));
        assert_eq!(accounts.take(one, 0, window(0)), Ok(()));
        assert_eq!(open(&mut accounts, one, 0), Ok(()));
        assert_eq!(accounts.take(one, 0, window(0)), Err(Refusal::Budget));
        assert!(!accounts.close(one));
        assert!(accounts.close(one));
        assert_eq!(open(&mut accounts, one, MS), Ok(()));
        assert_eq!(accounts.take(one, MS, window(MS)), Err(Refusal::Budget));
    }

    #[test]
    fn all_users_except_root_share_the_servers_time() {
        let mut accounts = accounts(|_| {});
        // Each within a user's own share, as one person with subordinate ids may do.
        let mut ran_ns = 0;
        for uid in (0..3000).map(|nth| 100_000 + nth % 30) {
            if accounts.turn(uid, 0).is_ok() {
                accounts.spent(uid, 0, MS);
                ran_ns += MS;
            }
        }
        assert!((50 * MS..=51 * MS).contains(&ran_ns), "{ran_ns}");
        assert!(accounts.may_arrive(0).is_err());
        assert_eq!(accounts.turn(0, 0), Ok(()));
        assert!(accounts.turn(100_029, SECOND).is_ok());
    }

    #[test]
    fn a_debt_of_any_size_blocks_a_user_and_never_root() {
        let mut accounts = accounts(|_| {});
        accounts.spent(0, 0, u64::MAX);
        accounts.spent(1, 0, u64::MAX);
        assert_eq!(accounts.turn(0, 1), Ok(()));
        assert!(accounts.turn(1, 1).is_err());
    }

    #[test]
    fn a_users_processes_share_a_budget_and_users_do_not() {
        let mut accounts = accounts(|_| {});
        let mut asked = |pid, uid| {
            open(&mut accounts, owner(pid, uid), 0).unwrap();
            accounts.take(owner(pid, uid), 0, window(0))
        };
        // Twice the budget of one process.
        assert_eq!(asked(1, 1000), Ok(()));
        assert_eq!(asked(2, 1000), Ok(()));
        assert_eq!(asked(3, 1000), Err(Refusal::UserBudget));
        assert_eq!(asked(4, 1001), Ok(()));
    }

    #[test]
    fn a_short_window_costs_a_wake_up_even_if_cancelled() {
        let mut accounts = accounts(|_| {});
        let one = owner(1, 1000);
        open(&mut accounts, one, 0).unwrap();
        let short = Window {
            at_ns: SECOND,
            length_ns: 1,
        };
        // 10 ms are 200 times 50 µs; a user's are twice as many.
        for _ in 0..200 {
            assert_eq!(accounts.take(one, 0, short), Ok(()));
        }
        assert_eq!(accounts.take(one, 0, short), Err(Refusal::Budget));
        accounts.give_back(one, 0, short);
        assert_eq!(accounts.take(one, 0, short), Ok(()));
        for _ in 0..200 {
            accounts.give_back(one, SECOND, short);
        }
        let again = Window {
            at_ns: SECOND + 1,
            length_ns: 1,
        };
        assert_eq!(accounts.take(one, SECOND, again), Err(Refusal::Budget));
    }

    #[test]
    fn some_places_are_reserved_for_new_users_and_some_for_root() {
        let mut accounts = accounts(|settings| settings.quotas.connects = 10_000);
        let mut fill = |uid| {
            let opened = (0..).take_while(|_| open(&mut accounts, owner(1, uid), 0).is_ok());
            opened.count()
        };
        // Of 256 places 32 are root's: a quarter of the rest.
        assert_eq!(fill(1000), 56);
        assert_eq!(fill(1001), 42);
        let others: Vec<usize> = (1002..1100).map(&mut fill).collect();
        assert!(others.is_sorted_by(|before, next| before >= next));
        // It takes many users, each with the maximum, to leave nothing.
        assert!(others[..14].iter().all(|&places| places >= 1));
        assert!(fill(0) >= 32);
        let full = accounts.arrive(0, 0);
        assert_eq!(full, Err(CloseReason::Full));
        accounts.close(owner(1, 0));
        assert_eq!(accounts.arrive(0, 0), Ok(()));
    }

    #[test]
    fn a_user_with_all_places_is_refused_until_one_is_free() {
        let mut accounts = accounts(|settings| settings.clients = 9);
        assert_eq!(open(&mut accounts, owner(1, 1000), 0), Ok(()));
        assert_eq!(open(&mut accounts, owner(2, 1000), 0), Ok(()));
        let third = open(&mut accounts, owner(3, 1000), 0);
        assert_eq!(third, Err(CloseReason::Places));
        assert_eq!(open(&mut accounts, owner(4, 1001), 0), Ok(()));
        accounts.close(owner(4, 1001));
        accounts.close(owner(1, 1000));
        assert_eq!(open(&mut accounts, owner(3, 1000), 0), Ok(()));
    }

    #[test]
    fn only_a_user_who_connects_too_often_waits() {
        let mut accounts = accounts(|settings| settings.quotas.connects = 5);
        let mut connect = |uid, now_ns| {
            let done = open(&mut accounts, owner(1, uid), now_ns);
            accounts.close(owner(1, uid));
            done
        };
        for _ in 0..5 {
            assert_eq!(connect(1000, 0), Ok(()));
        }
        assert_eq!(connect(1000, 0), Err(CloseReason::TooOften));
        assert_eq!(connect(1001, 0), Ok(()));
        assert_eq!(connect(1000, 200 * MS), Ok(()));
        for _ in 0..100 {
            assert_eq!(connect(0, 0), Ok(()));
        }
    }

    #[test]
    fn a_users_processes_share_a_message_rate() {
        let mut accounts = accounts(|settings| settings.quotas.messages = 20);
        for (pid, uid) in [(1, 1000), (2, 1000), (3, 1001), (4, 0)] {
            open(&mut accounts, owner(pid, uid), 0).unwrap();
        }
        assert_eq!(accounts.message(owner(1, 1000), 0), Ok(()));
        assert_eq!(accounts.message(owner(2, 1000), 0), Ok(()));
        let waits = accounts.message(owner(1, 1000), 0);
        assert_eq!(waits, Err(Wait::User(50 * MS)));
        assert_eq!(accounts.message(owner(3, 1001), 0), Ok(()));
        assert!((0..100).all(|_| accounts.message(owner(4, 0), 0).is_ok()));
        assert_eq!(accounts.message(owner(2, 1000), 50 * MS), Ok(()));
    }

    #[test]
    fn wake_ups_are_charged_by_user_and_cpu() {
        let mut accounts = accounts(|_| {});
        // At the maximum rate, for ten seconds: each is cancelled during its window.
        let mut last_second = 0;
        for ms in 0..10_000 {
            let now_ns = ms * MS;
            if accounts.may_wake(1000, 3, now_ns).is_ok() {
                accounts.planned(1000, 3, now_ns);
                accounts.cancelled(1000, 3, now_ns, window(now_ns));
                last_second += u64::from(ms >= 9_000) * 3;
            }
        }
        assert!((60..=100).contains(&last_second), "{last_second}");
        assert_eq!(
            accounts.may_wake(1000, 3, 9_999 * MS),
            Err(Refusal::Wakeups)
        );
        assert_eq!(accounts.may_wake(1000, 4, 9_999 * MS), Ok(()));
        assert_eq!(accounts.may_wake(1001, 3, 9_999 * MS), Ok(()));
        for _ in 0..1_000 {
            accounts.planned(0, 3, 0);
            assert_eq!(accounts.may_wake(0, 3, 0), Ok(()));
        }
    }

    #[test]
    fn the_server_spends_a_share_of_time_on_a_user_and_not_too_often() {
        let mut accounts = accounts(|_| {});
        let mut now_ns = 0;
        let (mut turns, mut ran_ns) = (0, 0);
        // A millisecond each time.
        while now_ns < 10 * SECOND {
            match accounts.turn(1000, now_ns) {
                Ok(()) => {
                    accounts.spent(1000, now_ns, MS);
                    (turns, ran_ns) = (turns + 1, ran_ns + MS);
                    now_ns += MS;
                }
                Err(until_ns) => {
                    assert!(until_ns > now_ns);
                    now_ns = until_ns;
                }
            }
        }
        assert!(ran_ns <= 10 * SECOND / 20, "{ran_ns}");
        assert!(ran_ns >= 10 * SECOND / 40, "{ran_ns}");
        // And without any cost.
        turns = 0;
        for ms in 0..10_000 {
            turns += u32::from(accounts.turn(1001, ms * MS).is_ok());
        }
        assert!((700..=1_000).contains(&turns), "{turns}");
        assert!((0..1_000).all(|_| accounts.turn(0, 0).is_ok()));
    }

    #[test]
    fn an_account_without_debt_is_forgotten() {
        let mut accounts = accounts(|_| {});
        for (second, pid) in (0..10_000u64).zip(0..) {
            let one = owner(pid, pid as u32 % 5_000);
            open(&mut accounts, one, second * SECOND).unwrap();
            accounts.message(one, second * SECOND).unwrap();
            accounts.planned(one.uid, pid as u32, second * SECOND);
            accounts.close(one);
            assert!(accounts.processes.len() + accounts.users.len() <= 2 * SWEPT_FROM);
        }
    }
}
