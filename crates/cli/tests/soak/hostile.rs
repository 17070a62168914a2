//! Misbehaving processes.

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockType, UnixAddr, connect, recv, send, socket,
};
use reveille_expect::monotonic_ns;
use reveille_expect::protocol::{Request, VERSION};

/// The endless work of one of them: each kind of abuse for some seconds, starting with a different
/// one in each process.
pub fn run(path: &Path, number: usize) {
    let kinds: [fn(&Hostile); 10] = [
        Hostile::connects_and_goes,
        Hostile::connects_and_goes_when_welcomed,
        Hostile::waits_in_line_and_goes,
        Hostile::is_silent,
        Hostile::floods,
        Hostile::asks_for_short_windows,
        Hostile::asks_for_much,
        Hostile::never_reads,
        Hostile::sends_rubbish,
        Hostile::cancels_in_the_window,
    ];
    let cpus = nix::unistd::sysconf(nix::unistd::SysconfVar::_NPROCESSORS_CONF);
    for turn in number.. {
        let hostile = Hostile {
            path: UnixAddr::new(path).expect("a path for a socket"),
            cpus: cpus.ok().flatten().unwrap_or(1) as u32,
            until: Instant::now() + Duration::from_secs(5),
        };
        kinds[turn % kinds.len()](&hostile);
    }
}

struct Hostile {
    path: UnixAddr,
    cpus: u32,
    until: Instant,
}

const DO_NOT_WAIT: MsgFlags =
    MsgFlags::from_bits_truncate(nix::libc::MSG_DONTWAIT | nix::libc::MSG_NOSIGNAL);

impl Hostile {
    fn goes_on(&self) -> bool {
        Instant::now() < self.until
    }

    fn connect_with(&self, flags: SockFlag) -> Option<OwnedFd> {
        let socket = socket(AddressFamily::Unix, SockType::SeqPacket, flags, None).ok()?;
        connect(socket.as_raw_fd(), &self.path).ok()?;
        Some(socket)
    }

    fn connect(&self) -> Option<OwnedFd> {
        self.connect_with(SockFlag::SOCK_NONBLOCK)
    }

    /// Welcomed, or about to be.
    fn hello(&self) -> Option<OwnedFd> {
        let socket = self.connect()?;
        is_sent(&socket, &Request::Hello { version: VERSION }).then_some(socket)
    }

    fn connects_and_goes(&self) {
        while self.goes_on() {
            drop(self.connect());
        }
    }

    fn waits_in_line_and_goes(&self) {
        while self.goes_on() {
            drop(self.connect_with(SockFlag::empty()));
        }
    }

    fn connects_and_goes_when_welcomed(&self) {
        while self.goes_on() {
            if let Some(socket) = self.hello() {
                let mut buffer = [0; 64];
                while self.goes_on()
                    && recv(socket.as_raw_fd(), &mut buffer, DO_NOT_WAIT) == Err(Errno::EAGAIN)
                {
                    std::thread::yield_now();
                }
            }
        }
    }

    fn is_silent(&self) {
        while self.goes_on() {
            let silent: Vec<_> = (0..200).filter_map(|_| self.connect()).collect();
            std::thread::sleep(Duration::from_millis(300));
            drop(silent);
        }
    }

    /// Sends it repeatedly on each of several connections, and reconnects when one has ended.
    fn repeats(&self, reads: bool, mut next: impl FnMut(u64) -> Request) {
        let mut sockets: Vec<OwnedFd> = Vec::new();
        let mut id = 0;
        while self.goes_on() {
            if sockets.len() < 8 {
                sockets.extend(self.hello());
            }
            sockets.retain(|socket| {
                id += 1;
                let there = is_sent(socket, &next(id));
                let mut buffer = [0; 64];
                while reads
                    && recv(socket.as_raw_fd(), &mut buffer, DO_NOT_WAIT).is_ok_and(|n| n > 0)
                {
                }
                there
            });
        }
    }

    fn floods(&self) {
        self.repeats(true, |id| Request::Cancel { id });
    }

    fn asks_for_short_windows(&self) {
        let cpus = u64::from(self.cpus);
        self.repeats(true, |id| Request::Expect {
            id,
            at_ns: monotonic_ns() + 1_000_000,
            window_ns: 1,
            cpu: (id % cpus) as u32,
        });
    }

    fn asks_for_much(&self) {
        let cpus = u64::from(self.cpus) + 1;
        self.repeats(true, |id| Request::Expect {
            id,
            at_ns: monotonic_ns() + 500_000_000 + id * 1_000 % 9_000_000_000,
            window_ns: 1_000 * (1 + id % 10_000),
            cpu: (id % cpus) as u32,
        });
    }

    fn never_reads(&self) {
        self.repeats(false, |id| Request::Expect {
            id,
            at_ns: monotonic_ns() + 2_000_000,
            window_ns: 50_000,
            cpu: 0,
        });
    }

    fn sends_rubbish(&self) {
        while self.goes_on() {
            if let Some(socket) = self.connect() {
                let _ = send(socket.as_raw_fd(), &[b'x'; 4_096], DO_NOT_WAIT);
                let _ = send(socket.as_raw_fd(), b"", DO_NOT_WAIT);
            }
        }
    }

    fn cancels_in_the_window(&self) {
        let mut asked = 0;
        self.repeats(true, |id| match id % 2 {
            0 => Request::Cancel { id: asked },
            _ => {
                asked = id;
                Request::Expect {
                    id,
                    at_ns: monotonic_ns(),
                    window_ns: 10_000_000,
                    cpu: 0,
                }
            }
        });
    }
}

/// Whether the other end is still open.
fn is_sent(socket: &OwnedFd, request: &Request) -> bool {
    let said = send(socket.as_raw_fd(), request.encode().as_ref(), DO_NOT_WAIT);
    matches!(said, Ok(_) | Err(Errno::EAGAIN))
}
