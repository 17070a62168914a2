//! The server's thread: reads what clients send, and acts on it.
//!
//! Each user's connections have an epoll descriptor, and the thread waits for those of all users. So a
//! user who has used up a share is excluded from the wait as a whole.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::Sender;

use nix::errno::Errno;
use nix::libc;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::socket::{SockFlag, accept4};

use super::account::{Accounts, PAUSE_NS, Wait};
use super::client::{Connection, Key, Open, Received, send_answer};
use super::windows::Windows;
use super::{Counts, Owner, Plan, Settings, Snapshot, Ticket, peer};
use crate::clock::{monotonic_ns, own_time_ns};
use crate::limits::{Refusal, Window};
use crate::protocol::{Answer, CloseReason, OLDEST_VERSION, Request, VERSION};

/// Messages read from one client in a turn.
const IN_A_TURN: usize = 16;
/// Connections of a user that are read in a turn.
const OF_A_USER: usize = 16;
/// Connections accepted in a turn.
const ARRIVALS_IN_A_TURN: u32 = 64;
/// Refusing a user who connects too often takes at most this fraction of a CPU, and this time in a
/// turn, ns.
const REFUSING: u64 = 20;
const REFUSING_NS: u64 = 1_000_000;
/// The longest wait of new connections if the server's time for all users is used up, ns.
const LINE_NS: u64 = 20_000_000;
/// Without a descriptor, accepting is tried again after this time, ns, or when a connection ends.
const NO_DESCRIPTOR_NS: u64 = 1_000_000_000;

/// The data of an event of the outer epoll descriptor: these, or a UID.
const ASKED: u64 = 1 << 32;
const LISTENER: u64 = 2 << 32;

pub(super) struct Serving {
    settings: Settings,
    /// Requests for a snapshot, and snapshots.
    asked: UnixStream,
    snapshots: Sender<Snapshot>,
    listener: OwnedFd,
    /// Closed for a moment if no descriptor is left, to report that to a new connection.
    spare: Option<OwnedFd>,
    epoll: Epoll,
    /// By user.
    users: HashMap<u32, Epoll>,
    plan: Box<dyn Plan>,
    accounts: Accounts,
    connections: BTreeMap<Key, Connection>,
    last_key: Key,
    windows: Windows,
    /// By due time, ns of CLOCK_MONOTONIC; earliest first.
    timers: BinaryHeap<Reverse<(u64, Timer)>>,
    /// The listener is paused until a connection has ended.
    no_descriptor: bool,
    counts: Counts,
    /// This thread's CPU time already charged, ns.
    charged_ns: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    /// Accepting resumes.
    Listener,
    User(u32),
    Connection(Key),
    /// The hello is due.
    Hello(Key),
}

/// What happens to a connection next.
enum NextStep {
    Stays,
    Ends,
    Waits(Wait),
}

/// Sets real-time priority if allowed: otherwise a user's busy processes delay the answers to others by
/// 10 ms and more. (A nice value counts only within a control group, and at the next tick.) The time
/// spent for a user is bounded by its quota.
fn set_realtime() {
    let parameters = libc::sched_param { sched_priority: 1 };
    let policy = libc::SCHED_RR | libc::SCHED_RESET_ON_FORK;
    // SAFETY: the call takes plain values and a live struct, and concerns the calling thread.
    unsafe { libc::sched_setscheduler(0, policy, &parameters) };
}

fn waits(data: u64) -> EpollEvent {
    EpollEvent::new(EpollFlags::EPOLLIN, data)
}

/// The connection's end is reported in any case.
fn waits_not(data: u64) -> EpollEvent {
    EpollEvent::new(EpollFlags::empty(), data)
}

fn of_socket(key: Key) -> u64 {
    key << 1
}

fn of_process(key: Key) -> u64 {
    key << 1 | 1
}

impl Serving {
    /// A byte from `asked` requests a snapshot through `snapshots`; its end stops the server.
    pub fn new(
        settings: &Settings,
        listener: OwnedFd,
        (asked, snapshots): (UnixStream, Sender<Snapshot>),
        plan: Box<dyn Plan>,
    ) -> nix::Result<Self> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        epoll.add(&asked, waits(ASKED))?;
        epoll.add(&listener, waits(LISTENER))?;
        Ok(Self {
            settings: settings.clone(),
            asked,
            snapshots,
            listener,
            spare: spare(),
            epoll,
            users: HashMap::new(),
            plan,
            accounts: Accounts::new(settings, monotonic_ns()),
            connections: BTreeMap::new(),
            last_key: 0,
            windows: Windows::default(),
            timers: BinaryHeap::new(),
            no_descriptor: false,
            counts: Counts::default(),
            charged_ns: 0,
        })
    }

    /// Serves until it is stopped.
    pub fn run(mut self) {
        set_realtime();
        let mut events = [EpollEvent::empty(); 64];
        let mut timeout = EpollTimeout::NONE;
        loop {
            // An interrupted wait has no events.
            let happened = self.epoll.wait(&mut events, timeout).unwrap_or(0);
            match self.turn(&events[..happened]) {
                Some(until) => timeout = until,
                None => return self.end_all(),
            }
        }
    }

    /// Handles events and timers, and returns the next timeout; `None` to stop.
    fn turn(&mut self, events: &[EpollEvent]) -> Option<EpollTimeout> {
        for event in events {
            match event.data() {
                ASKED => self.send_snapshot()?,
                LISTENER => self.let_in(),
                user => self.serve(user as u32),
            }
        }
        Some(self.timeout())
    }

    /// Sends a snapshot; `None` where the receiver is gone.
    fn send_snapshot(&mut self) -> Option<()> {
        match self.asked.read(&mut [0]) {
            Ok(0) => return None,
            Ok(_) => {}
            Err(_) => return Some(()),
        }
        let now_ns = monotonic_ns();
        let welcomed = self
            .connections
            .values()
            .filter(|one| one.version.is_some());
        let snapshot = Snapshot {
            counts: self.counts,
            clients: welcomed.map(|one| one.client(now_ns)).collect(),
            users: self.accounts.users().collect(),
        };
        self.snapshots.send(snapshot).ok()
    }

    /// Handles due timers, and returns the time to the next.
    fn timeout(&mut self) -> EpollTimeout {
        let now_ns = monotonic_ns();
        while let Some(&Reverse((at_ns, timer))) = self.timers.peek() {
            let is_over = match timer {
                Timer::Hello(key) => {
                    let half_open = |one: &Connection| one.version.is_none();
                    !self.connections.get(&key).is_some_and(half_open)
                }
                _ => false,
            };
            if !is_over && at_ns > now_ns {
                let ms = (at_ns - now_ns).div_ceil(1_000_000);
                return EpollTimeout::try_from(ms).unwrap_or(EpollTimeout::MAX);
            }
            self.timers.pop();
            if !is_over {
                self.is_due(timer);
            }
        }
        EpollTimeout::NONE
    }

    fn is_due(&mut self, timer: Timer) {
        // Fails harmlessly for a connection that has ended meanwhile.
        let _ = match timer {
            Timer::Listener => {
                self.no_descriptor = false;
                self.epoll.modify(&self.listener, &mut waits(LISTENER))
            }
            Timer::User(uid) => match self.users.get(&uid) {
                Some(user) => self.epoll.modify(&user.0, &mut waits(uid.into())),
                None => Ok(()),
            },
            Timer::Connection(key) => self.listen_again(key),
            Timer::Hello(key) => {
                let owner = self.connections.get(&key).map(|one| one.owner);
                self.send_away(key, CloseReason::Late);
                if let Some(owner) = owner {
                    self.charge(owner.uid);
                }
                Ok(())
            }
        };
    }

    fn listen_again(&mut self, key: Key) -> nix::Result<()> {
        let Some(connection) = self.connections.get_mut(&key) else {
            return Ok(());
        };
        match self.users.get(&connection.owner.uid) {
            Some(user) => user.modify(connection.socket(), &mut waits(of_socket(key))),
            None => Ok(()),
        }
    }

    /// Charges this thread's CPU time since the last call to that user.
    fn charge(&mut self, uid: u32) -> u64 {
        let own_ns = own_time_ns();
        let ran_ns = own_ns - self.charged_ns;
        self.charged_ns = own_ns;
        self.accounts.spent(uid, monotonic_ns(), ran_ns);
        ran_ns
    }

    /// Accepts waiting connections. All users share one queue: so those who connect too often are refused
    /// at once and cheaply, and if there were any, accepting pauses for a while.
    fn let_in(&mut self) {
        // By user: the time of refusing connections that come too often, ns.
        let mut refusing: HashMap<u32, u64> = HashMap::new();
        for _ in 0..ARRIVALS_IN_A_TURN {
            let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
            match accept4(self.listener.as_raw_fd(), flags) {
                Ok(descriptor) => {
                    // SAFETY: the kernel has just opened it, for us alone.
                    let socket = unsafe { OwnedFd::from_raw_fd(descriptor) };
                    if let Some((uid, ran_ns)) = self.arrive(socket) {
                        let refusing_ns = refusing.entry(uid).or_default();
                        *refusing_ns += ran_ns;
                        if *refusing_ns > REFUSING_NS {
                            break;
                        }
                    }
                }
                Err(Errno::EINTR | Errno::ECONNABORTED) => {}
                Err(Errno::EAGAIN) => break,
                Err(Errno::EMFILE | Errno::ENFILE) if self.refuse_by_the_spare() => {
                    return self.pause_arrivals(PAUSE_NS);
                }
                Err(_) => {
                    self.no_descriptor = true;
                    return self.pause_arrivals(NO_DESCRIPTOR_NS);
                }
            }
        }
        let now_ns = monotonic_ns();
        let refused = refusing
            .into_values()
            .max()
            .map(|most_ns| REFUSING * most_ns);
        let spent = self.accounts.may_arrive(now_ns).err();
        // Not for long: root waits in the same queue.
        let spent = spent.map(|until_ns| until_ns.saturating_sub(now_ns).min(LINE_NS));
        if let Some(pause_ns) = refused.max(spent) {
            self.pause_arrivals(PAUSE_NS.max(pause_ns));
        }
    }

    fn pause_arrivals(&mut self, pause_ns: u64) {
        let _ = self.epoll.modify(&self.listener, &mut waits_not(LISTENER));
        let until_ns = monotonic_ns() + pause_ns;
        self.timers.push(Reverse((until_ns, Timer::Listener)));
    }

    /// Refuses a connection by means of the spare descriptor; false if that fails.
    fn refuse_by_the_spare(&mut self) -> bool {
        if self.spare.take().is_none() {
            return false;
        }
        let accepted = accept4(self.listener.as_raw_fd(), SockFlag::SOCK_CLOEXEC);
        if let Ok(descriptor) = accepted {
            // SAFETY: the kernel has just opened it, for us alone.
            let socket = unsafe { OwnedFd::from_raw_fd(descriptor) };
            self.refuse(&socket, CloseReason::Descriptors);
        }
        self.spare = spare();
        accepted.is_ok()
    }

    /// Admits or refuses a connection. If it came too often: its user, and the time it took, ns.
    fn arrive(&mut self, socket: OwnedFd) -> Option<(u32, u64)> {
        let owner = peer::owner(&socket).ok()?;
        let now_ns = monotonic_ns();
        let mut often = false;
        match self.accounts.arrive(owner.uid, now_ns) {
            Ok(()) => self.take_in(socket, owner, now_ns),
            Err(why) => {
                often = why == CloseReason::TooOften;
                // Sending the reason takes as long as all the rest, so its rate is limited.
                match self.accounts.turn(owner.uid, now_ns) {
                    Ok(()) => self.refuse(&socket, why),
                    Err(_) => self.counts.sent_away[why as usize] += 1,
                }
                drop(socket);
            }
        }
        let ran_ns = self.charge(owner.uid);
        often.then_some((owner.uid, ran_ns))
    }

    fn take_in(&mut self, socket: OwnedFd, owner: Owner, now_ns: u64) {
        let process = match peer::watch(&socket, owner) {
            Ok(process) => process,
            // It has ended.
            Err(Errno::ESRCH) => return,
            Err(_) => return self.refuse(&socket, CloseReason::Descriptors),
        };
        self.last_key += 1;
        let key = self.last_key;
        let connection = Connection::new(socket, process, owner);
        self.connections.insert(key, connection);
        self.accounts.open(owner, now_ns);
        if self.wait_for(key, owner.uid).is_err() {
            return self.send_away(key, CloseReason::Descriptors);
        }
        let until_ns = now_ns + self.settings.quotas.hello_ns;
        self.timers.push(Reverse((until_ns, Timer::Hello(key))));
        // Most have sent `Hello` already.
        let fate = self.listen_to(key);
        self.follow(key, fate);
    }

    fn wait_for(&mut self, key: Key, uid: u32) -> nix::Result<()> {
        let Some(connection) = self.connections.get_mut(&key) else {
            return Ok(());
        };
        if !self.users.contains_key(&uid) {
            let user = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
            self.epoll.add(&user.0, waits(uid.into()))?;
            self.users.insert(uid, user);
        }
        let user = &self.users[&uid];
        if let Some(process) = connection.process() {
            user.add(process, waits(of_process(key)))?;
        }
        user.add(connection.socket(), waits(of_socket(key)))
    }

    fn refuse(&mut self, socket: &OwnedFd, why: CloseReason) {
        send_answer(socket, &Answer::Closing { why });
        self.counts.sent_away[why as usize] += 1;
    }

    /// Reads the clients of a user, for one turn.
    fn serve(&mut self, uid: u32) {
        if let Err(until_ns) = self.accounts.turn(uid, monotonic_ns()) {
            self.hold_back(uid, until_ns);
            self.charge(uid);
            return;
        }
        let mut events = [EpollEvent::empty(); OF_A_USER];
        let Some(user) = self.users.get(&uid) else {
            return;
        };
        let happened = user.wait(&mut events, EpollTimeout::ZERO).unwrap_or(0);
        for event in &events[..happened] {
            let key = event.data() >> 1;
            let gone = EpollFlags::EPOLLHUP | EpollFlags::EPOLLERR;
            let ends = event.data() & 1 == 1 || event.events().intersects(gone);
            let fate = match ends {
                true => NextStep::Ends,
                false => self.listen_to(key),
            };
            let user_waits = matches!(fate, NextStep::Waits(Wait::User(_)));
            self.follow(key, fate);
            if user_waits {
                break;
            }
        }
        self.charge(uid);
    }

    fn follow(&mut self, key: Key, fate: NextStep) {
        match fate {
            NextStep::Stays => {}
            NextStep::Ends => self.end(key),
            NextStep::Waits(Wait::Process(until_ns)) => self.hold_back_one(key, until_ns),
            NextStep::Waits(Wait::User(until_ns)) => {
                if let Some(owner) = self.connections.get(&key).map(|one| one.owner) {
                    self.hold_back(owner.uid, until_ns);
                }
            }
        }
    }

    /// Pauses reading a user until then.
    fn hold_back(&mut self, uid: u32, until_ns: u64) {
        self.counts.held_back += 1;
        if let Some(user) = self.users.get(&uid) {
            let _ = self.epoll.modify(&user.0, &mut waits_not(uid.into()));
            self.timers.push(Reverse((until_ns, Timer::User(uid))));
        }
    }

    /// Pauses reading a client until then.
    fn hold_back_one(&mut self, key: Key, until_ns: u64) {
        self.counts.held_back += 1;
        let Some(connection) = self.connections.get_mut(&key) else {
            return;
        };
        if let Some(user) = self.users.get(&connection.owner.uid) {
            let _ = user.modify(connection.socket(), &mut waits_not(of_socket(key)));
            self.timers
                .push(Reverse((until_ns, Timer::Connection(key))));
        }
    }

    /// Reads a client, for one turn.
    fn listen_to(&mut self, key: Key) -> NextStep {
        for _ in 0..IN_A_TURN {
            let Some(connection) = self.connections.get_mut(&key) else {
                return NextStep::Stays;
            };
            let owner = connection.owner;
            if let Err(wait) = self.accounts.message(owner, monotonic_ns()) {
                return NextStep::Waits(wait);
            }
            let done = match connection.receive() {
                Received::Nothing => {
                    self.accounts.no_message(owner);
                    return NextStep::Stays;
                }
                Received::Gone => return NextStep::Ends,
                Received::Invalid => Err(CloseReason::InvalidMessage),
                Received::Request(request) => self.answer(key, request),
            };
            if let Err(why) = done {
                self.send_away(key, why);
                return NextStep::Stays;
            }
        }
        NextStep::Stays
    }

    /// Handles a request and answers it.
    fn answer(&mut self, key: Key, request: Request) -> Result<(), CloseReason> {
        let Some(connection) = self.connections.get_mut(&key) else {
            return Ok(());
        };
        let answer = match (request, connection.version) {
            (Request::Hello { version }, None) => {
                if !(OLDEST_VERSION..=VERSION).contains(&version) {
                    return Err(CloseReason::Version);
                }
                connection.version = Some(version);
                self.counts.clients += 1;
                Answer::Welcome {
                    version,
                    limits: self.settings.limits,
                }
            }
            (Request::Hello { .. }, Some(_)) | (_, None) => {
                return Err(CloseReason::InvalidMessage);
            }
            (Request::Cancel { id }, Some(_)) => {
                self.cancel(key, id);
                return Ok(());
            }
            (
                Request::Expect {
                    id,
                    at_ns,
                    window_ns,
                    cpu,
                },
                Some(version),
            ) => {
                let now_ns = monotonic_ns();
                connection.forget_past(now_ns);
                if connection.open.iter().any(|open| open.id == id) {
                    return Err(CloseReason::InvalidMessage);
                }
                match self.expect(key, now_ns, id, cpu, (at_ns, window_ns)) {
                    Ok(()) => Answer::Accepted { id },
                    Err(why) => Answer::Refused {
                        id,
                        why: why.in_version(version),
                    },
                }
            }
        };
        if let Some(connection) = self.connections.get_mut(&key)
            && !connection.send(&answer)
        {
            self.counts.unheard += 1;
        }
        Ok(())
    }

    fn expect(
        &mut self,
        key: Key,
        now_ns: u64,
        id: u64,
        cpu: u32,
        wanted: (u64, u64),
    ) -> Result<(), Refusal> {
        let planned = self.plan(key, now_ns, cpu, wanted);
        let Some(connection) = self.connections.get_mut(&key) else {
            return planned.map(drop);
        };
        let owner = connection.owner;
        match planned {
            Ok((window, ticket)) => {
                connection.accepted += 1;
                connection.asked_ns += window.length_ns;
                connection.open.push(Open {
                    id,
                    cpu,
                    window,
                    ticket,
                });
                self.windows.open(cpu, owner, key, id, window.end_ns());
                self.accounts.planned(owner.uid, cpu, now_ns);
                self.counts.accepted += 1;
                Ok(())
            }
            Err(why) => {
                connection.refused += 1;
                self.accounts.refused(owner.uid);
                self.counts.refused[why.index()] += 1;
                Err(why)
            }
        }
    }

    /// Checks each quota, and the plan last: what the plan refuses costs nothing.
    fn plan(
        &mut self,
        key: Key,
        now_ns: u64,
        cpu: u32,
        (at_ns, window_ns): (u64, u64),
    ) -> Result<(Window, Ticket), Refusal> {
        let Settings { limits, quotas, .. } = &self.settings;
        let connection = self.connections.get_mut(&key).ok_or(Refusal::Limit)?;
        let owner = connection.owner;
        if connection.open.len() >= limits.open as usize {
            return Err(Refusal::Limit);
        }
        let window = limits.window(now_ns, at_ns, window_ns)?;
        self.windows
            .room(cpu, owner, quotas, now_ns, &mut self.connections)?;
        self.accounts.may_wake(owner.uid, cpu, now_ns)?;
        self.accounts.take(owner, now_ns, window)?;
        let planned = self.plan.expect(cpu, window.at_ns, window.length_ns, owner);
        if planned.is_err() {
            self.accounts.give_back(owner, now_ns, window);
        }
        planned.map(|ticket| (window, ticket))
    }

    fn cancel(&mut self, key: Key, id: u64) {
        let Some(connection) = self.connections.get_mut(&key) else {
            return;
        };
        let Some(which) = connection.open.iter().position(|open| open.id == id) else {
            return;
        };
        let open = connection.open.remove(which);
        let owner = connection.owner;
        if let Some(left_ns) = self.take_back(key, owner, &open) {
            self.counts.cancelled += 1;
            if let Some(connection) = self.connections.get_mut(&key) {
                connection.asked_ns = connection.asked_ns.saturating_sub(left_ns);
            }
        }
    }

    /// Cancels a request: what was left of it, ns; `None` if it is over.
    fn take_back(&mut self, key: Key, owner: Owner, open: &Open) -> Option<u64> {
        let now_ns = monotonic_ns();
        self.windows.close(open.cpu, key, open.id);
        let left_ns = open.window.left_ns(now_ns);
        if left_ns == 0 {
            return None;
        }
        self.plan.cancel(open.ticket);
        self.accounts
            .cancelled(owner.uid, open.cpu, now_ns, open.window);
        self.accounts.give_back(owner, now_ns, open.window);
        Some(left_ns)
    }

    /// Sends a last message and ends the connection.
    fn send_away(&mut self, key: Key, why: CloseReason) {
        if let Some(connection) = self.connections.get_mut(&key) {
            connection.send_last(&Answer::Closing { why });
            self.counts.sent_away[why as usize] += 1;
            self.end(key);
        }
    }

    /// Ends a connection, and with it what it has asked for.
    fn end(&mut self, key: Key) {
        let Some(mut connection) = self.connections.remove(&key) else {
            return;
        };
        let owner = connection.owner;
        for open in std::mem::take(&mut connection.open) {
            if self.take_back(key, owner, &open).is_some() {
                self.counts.orphaned += 1;
            }
        }
        drop(connection);
        if self.accounts.close(owner) {
            self.users.remove(&owner.uid);
        }
        if std::mem::take(&mut self.no_descriptor) {
            let _ = self.epoll.modify(&self.listener, &mut waits(LISTENER));
        }
    }

    /// Ends all of them.
    fn end_all(&mut self) {
        while let Some((&key, _)) = self.connections.first_key_value() {
            self.end(key);
        }
    }
}

/// A descriptor of nothing in particular.
fn spare() -> Option<OwnedFd> {
    File::open("/dev/null").ok().map(OwnedFd::from)
}
