//! Hints of clients on other machines: the socket, the thread that reads it, and its counts.

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{SystemTime, UNIX_EPOCH};

use nix::errno::Errno;
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use reveille_expect::monotonic_ns;
use reveille_expect::remote::LONGEST;
use reveille_expect::server::{Allowed, Gate};
use serde::Serialize;

use crate::engine::Client;
use crate::{Announcer, Assistance, Engine, Error, Result, Unplanned};

/// What came on the socket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Hints {
    /// Datagrams that were read.
    pub received: u64,
    /// Of these, those for which a CPU was to be awake.
    pub followed: u64,
    /// Of these, those whose request came while the CPU was ready.
    pub helped: u64,
    /// Datagrams that were not followed, by reason.
    pub refused: BTreeMap<String, u64>,
    /// Datagrams of addresses that are not allowed; nobody read them.
    pub strangers: u64,
    /// Datagrams beyond what an address, or all of them, may send; nobody read them.
    pub floods: u64,
}

#[derive(Default)]
struct Counts {
    received: u64,
    followed: u64,
    refused: BTreeMap<String, u64>,
}

/// The socket and its thread; dropping it ends both.
pub struct Hearing {
    pub at: SocketAddr,
    counts: Arc<Mutex<Counts>>,
    over: Arc<EventFd>,
    thread: Option<JoinHandle<()>>,
}

impl Hearing {
    /// Hears hints at that address.
    ///
    /// # Errors
    /// [`Error::Cannot`] if the address is unavailable.
    pub fn start(engine: &Engine, at: SocketAddr, allowed: Allowed) -> Result<Self> {
        let cannot = |error: io::Error| Error::Cannot(format!("hints at {at}: {error}"));
        let socket = UdpSocket::bind(at).map_err(cannot)?;
        socket.set_nonblocking(true).map_err(cannot)?;
        let filter = engine.hint_filter().as_raw_fd();
        // SAFETY: the option reads one int.
        let set = unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_ATTACH_BPF,
                (&raw const filter).cast(),
                size_of_val(&filter) as libc::socklen_t,
            )
        };
        Errno::result(set).map_err(|errno| cannot(errno.into()))?;
        // What came before the filter.
        while socket.recv(&mut [0; LONGEST]).is_ok() {}
        let over = EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC);
        let over = Arc::new(over.map_err(|errno| cannot(errno.into()))?);
        let counts = Arc::new(Mutex::default());
        let bound = socket.local_addr().map_err(cannot)?;
        let reader = Reader {
            socket,
            over: over.clone(),
            counts: counts.clone(),
            announcer: engine.announcer(),
            gate: Gate::new(allowed, wall_ns()),
        };
        let thread = std::thread::Builder::new().name("hints".to_owned());
        let thread = thread.spawn(move || reader.run()).map_err(cannot)?;
        Ok(Self {
            at: bound,
            counts,
            over,
            thread: Some(thread),
        })
    }

    /// What came so far; `outcome` is the engine's count.
    pub fn hints(&self, engine: &Engine, outcome: &Assistance) -> Hints {
        let counts = locked(&self.counts);
        let (strangers, floods) = engine.dropped_hints();
        Hints {
            received: counts.received,
            followed: counts.followed,
            helped: outcome.in_time,
            refused: counts.refused.clone(),
            strangers,
            floods,
        }
    }
}

impl Drop for Hearing {
    fn drop(&mut self) {
        let _ = self.over.write(1);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Reader {
    socket: UdpSocket,
    over: Arc<EventFd>,
    counts: Arc<Mutex<Counts>>,
    announcer: Announcer,
    gate: Gate,
}

impl Reader {
    fn run(mut self) {
        loop {
            let mut waited = [
                PollFd::new(self.socket.as_fd(), PollFlags::POLLIN),
                PollFd::new(self.over.as_fd(), PollFlags::POLLIN),
            ];
            let polled = poll(&mut waited, PollTimeout::NONE);
            if !matches!(polled, Ok(_) | Err(Errno::EINTR)) || waited[1].any() == Some(true) {
                return;
            }
            // One byte more: longer datagrams are seen to be longer.
            let mut datagram = [0; LONGEST + 1];
            while let Ok((bytes, from)) = self.socket.recv_from(&mut datagram) {
                let why = self.follow(&datagram[..bytes], from).err();
                let mut counts = locked(&self.counts);
                counts.received += 1;
                match why {
                    None => counts.followed += 1,
                    Some(why) => *counts.refused.entry(why).or_default() += 1,
                }
            }
        }
    }

    fn follow(&mut self, datagram: &[u8], from: SocketAddr) -> std::result::Result<(), String> {
        let admitted = self
            .gate
            .admit(from.ip(), datagram, monotonic_ns(), wall_ns())
            .map_err(|why| why.to_string())?;
        let client = Client {
            address: from.ip(),
            protocol: admitted.hint.service.protocol,
            port: admitted.hint.service.port,
        };
        let (at_ns, window_ns) = (admitted.at_ns, admitted.window_ns);
        self.announcer
            .expect_of(&client, at_ns, window_ns, admitted.client)
            .map_err(|why| {
                self.gate.give_back(from.ip(), &admitted, monotonic_ns());
                match why {
                    Unplanned::User => "too many open hints of the client".to_owned(),
                    why => why.to_string(),
                }
            })
    }
}

/// Since 1970.
fn wall_ns() -> u64 {
    let wall = SystemTime::now().duration_since(UNIX_EPOCH);
    wall.map_or(0, |wall| wall.as_nanos() as u64)
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
