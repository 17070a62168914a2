//! Sockets at which metrics are served: one of our own, or those that systemd passes.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::path::PathBuf;
use std::str::FromStr;

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::socket::{Backlog, SockType, getsockopt, listen, sockopt};
use reveille_expect::server::SocketFile;
use reveille_kernel::{Error, Result};

/// What `FileDescriptorName=` of a socket unit has to be.
const NAME: &str = "metrics";
/// Connections that wait to be accepted, which takes a third of a second if all are hostile. TCP beyond them
/// tries again after a second.
const BACKLOG: i32 = 512;

/// Where metrics are served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// A Unix socket of that path.
    Unix(PathBuf),
    /// TCP.
    Tcp(SocketAddr),
}

impl FromStr for Address {
    type Err = &'static str;

    /// `unix:/run/reveille/metrics.sock`, `127.0.0.1:9100`; a port alone is this machine's own.
    fn from_str(text: &str) -> std::result::Result<Self, Self::Err> {
        if let Some(path) = text.strip_prefix("unix:").filter(|path| !path.is_empty()) {
            return Ok(Self::Unix(path.into()));
        }
        let port = text.strip_prefix(':').unwrap_or(text).parse();
        let own = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let address = port.map(own).or_else(|_| text.parse());
        address.map(Self::Tcp).map_err(
            |_| "not an address, such as unix:/run/reveille/metrics.sock or 127.0.0.1:9816",
        )
    }
}

/// A socket that listens, non-blocking.
#[derive(Debug)]
pub struct Listener {
    socket: OwnedFd,
    // Dropping it removes the file.
    _file: Option<SocketFile>,
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Listener {
    /// Listens at an address.
    ///
    /// # Errors
    /// [`Error::Cannot`] where that cannot be done, such as where another program does.
    pub fn at(address: &Address) -> Result<Self> {
        let cannot = |why: String| Error::Cannot(format!("metrics: {why}"));
        let (file, socket) = match address {
            Address::Unix(path) => {
                let (file, socket) = SocketFile::listen(path, SockType::Stream)
                    .map_err(|error| cannot(error.to_string()))?;
                (Some(file), socket)
            }
            Address::Tcp(address) => {
                let socket = TcpListener::bind(address);
                let socket = socket.map_err(|error| {
                    cannot(format!(
                        "cannot listen at {address}: {error}; give another port"
                    ))
                })?;
                (None, socket.into())
            }
        };
        let system = Error::system("listening for scrapes");
        let all = Backlog::new(BACKLOG).and_then(|backlog| listen(&socket, backlog));
        all.and_then(|()| do_not_block(&socket)).map_err(system)?;
        Ok(Self {
            socket,
            _file: file,
        })
    }

    /// The sockets for metrics that systemd passes; and of what else it passes a line each, for the log.
    /// To be called once, before this process opens files of its own.
    pub fn passed() -> (Vec<Self>, Vec<String>) {
        let passed = match sd_notify::listen_fds_with_names() {
            Ok(passed) => passed,
            Err(error) => return (Vec::new(), vec![format!("sockets of systemd: {error}")]),
        };
        let (mut listeners, mut complaints) = (Vec::new(), Vec::new());
        for (number, name) in passed {
            // SAFETY: systemd passes it to this process, which takes it here and nowhere else.
            let socket = unsafe { OwnedFd::from_raw_fd(number) };
            match Self::of_passed(socket, &name) {
                Ok(listener) => listeners.push(listener),
                Err(why) => complaints.push(format!("socket {name:?} of systemd: {why}; not used")),
            }
        }
        (listeners, complaints)
    }

    fn of_passed(socket: OwnedFd, name: &str) -> std::result::Result<Self, String> {
        if name != NAME {
            return Err(format!("only FileDescriptorName={NAME} is known"));
        }
        let is_stream = getsockopt(&socket, sockopt::SockType) == Ok(SockType::Stream);
        if !is_stream || getsockopt(&socket, sockopt::AcceptConn) != Ok(true) {
            return Err("it does not listen for streams; give ListenStream= and Accept=no".into());
        }
        do_not_block(&socket).map_err(|error| error.to_string())?;
        Ok(Self {
            socket,
            _file: None,
        })
    }
}

fn do_not_block(socket: &OwnedFd) -> nix::Result<()> {
    let flags = OFlag::from_bits_retain(fcntl(socket, FcntlArg::F_GETFL)?);
    fcntl(socket, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK)).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_is_this_machines_own() {
        let tcp = |text: &str| Ok(Address::Tcp(text.parse().unwrap()));
        for (text, expected) in [
            ("9100", tcp("127.0.0.1:9100")),
            (":9100", tcp("127.0.0.1:9100")),
            ("0.0.0.0:9100", tcp("0.0.0.0:9100")),
            ("[::1]:9100", tcp("[::1]:9100")),
            ("unix:/a/b", Ok(Address::Unix("/a/b".into()))),
        ] {
            assert_eq!(Address::from_str(text), expected, "{text}");
        }
        for wrong in ["", "unix:", "70000", "eth0:9100", "::1", "/a/b"] {
            assert!(Address::from_str(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn only_a_listening_stream_of_the_right_name_is_taken() {
        let listening = || OwnedFd::from(TcpListener::bind("127.0.0.1:0").unwrap());
        assert!(Listener::of_passed(listening(), "metrics").is_ok());
        assert!(Listener::of_passed(listening(), "bus").is_err());
        let (one, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        assert!(Listener::of_passed(one.into(), "metrics").is_err());
        let datagrams = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        assert!(Listener::of_passed(datagrams.into(), "metrics").is_err());
        let file = std::fs::File::open("/dev/null").unwrap();
        assert!(Listener::of_passed(file.into(), "metrics").is_err());
    }
}
