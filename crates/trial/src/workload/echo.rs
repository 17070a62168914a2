//! A request and its answer by UDP or TCP, from a `reveille trial --serve` on the other side or from
//! a thread of this process.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use super::requests::{Answer, Exchange};
use super::{message, server};
use crate::{Error, Result};
use reveille_kernel::affinity::Binding;

/// By what it is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// A datagram each way.
    Udp,
    /// One connection for all requests.
    Tcp,
}

/// A server that is asked.
pub struct Echo {
    server: SocketAddr,
    transport: Transport,
    way: Option<Way>,
    sequence: u32,
    request: Vec<u8>,
    answer: Vec<u8>,
    /// The own server's thread, where it is bound to a CPU.
    answers_on: Option<Binding>,
}

enum Way {
    Datagrams(UdpSocket),
    Connection(TcpStream),
}

impl Echo {
    /// Asks `server` with messages of `size` bytes, [`message::MIN_SIZE`] to
    /// [`message::MAX_SIZE`].
    pub fn new(server: SocketAddr, transport: Transport, size: usize) -> Self {
        Self {
            server,
            transport,
            way: None,
            sequence: 0,
            request: message::request(size),
            answer: vec![0; size],
            answers_on: None,
        }
    }

    /// Asks a thread of this process over loopback; it runs on `cpu` where one is given.
    pub fn with_own_server(transport: Transport, size: usize, cpu: Option<u32>) -> Result<Self> {
        let wrong = |error: io::Error| Error::Failed(format!("echo over loopback: {error}"));
        let local = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let (udp, tcp) = server::bind(local).map_err(wrong)?;
        let address = udp.local_addr().map_err(wrong)?;
        let (send, bound) = mpsc::channel();
        thread::spawn(move || {
            let done = cpu.map(Binding::here).transpose();
            let may_run = done.is_ok();
            // The receiver waits, and is gone only if this process ends.
            let _ = send.send(done);
            match transport {
                _ if !may_run => {}
                Transport::Udp => server::answer_datagrams(&udp),
                Transport::Tcp => server::answer_one_by_one(&tcp),
            }
        });
        let answers_on = bound
            .recv()
            .map_err(|_| Error::Failed("echo over loopback: its server ended".into()))??;
        Ok(Self {
            answers_on,
            ..Self::new(address, transport, size)
        })
    }

    fn open(&self, timeout: Duration) -> io::Result<Way> {
        match self.transport {
            Transport::Udp => {
                let any: SocketAddr = match self.server {
                    SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
                    SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
                };
                let socket = UdpSocket::bind(any)?;
                // Only the server's datagrams are handed over, and "port unreachable" is an error.
                socket.connect(self.server)?;
                socket.set_read_timeout(Some(timeout))?;
                Ok(Way::Datagrams(socket))
            }
            Transport::Tcp => {
                let stream = TcpStream::connect_timeout(&self.server, timeout)?;
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(timeout))?;
                stream.set_write_timeout(Some(timeout))?;
                Ok(Way::Connection(stream))
            }
        }
    }

    fn exchange(&mut self, timeout: Duration) -> io::Result<f64> {
        let mut way = match self.way.take() {
            Some(way) => way,
            None => self.open(timeout)?,
        };
        self.sequence = self.sequence.wrapping_add(1);
        message::number(&mut self.request, self.sequence);
        let sent = Instant::now();
        let came = match &mut way {
            Way::Datagrams(socket) => {
                socket.send(&self.request)?;
                loop {
                    let length = socket.recv(&mut self.answer)?;
                    let came = Instant::now();
                    if message::is_answer(&self.answer[..length], &self.request) {
                        break came;
                    }
                    // An answer that was late for an earlier request.
                    if sent.elapsed() >= timeout {
                        return Err(io::ErrorKind::TimedOut.into());
                    }
                }
            }
            Way::Connection(stream) => {
                stream.write_all(&self.request)?;
                stream.read_exact(&mut self.answer)?;
                let came = Instant::now();
                if !message::is_answer(&self.answer, &self.request) {
                    return Err(io::Error::other("the reply is not from `trial --serve`"));
                }
                came
            }
        };
        // After an error the way is opened anew: an answer that is late must not meet the next
        // request.
        self.way = Some(way);
        Ok(came.duration_since(sent).as_nanos() as f64)
    }
}

impl Exchange for Echo {
    fn ask(&mut self, timeout: Duration) -> Answer {
        let exchanged = self.exchange(timeout).map(|ns| (ns, None));
        exchanged.map_err(|error| match error.kind() {
            io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => super::no_answer_within(timeout),
            io::ErrorKind::UnexpectedEof => "the connection was closed".into(),
            _ => error.to_string(),
        })
    }

    fn bound(&self) -> Option<Binding> {
        self.answers_on
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Server;

    #[test]
    fn the_built_in_and_a_started_server_answer_by_both_transports() {
        let server = Server::start(Some("127.0.0.1:0".parse().unwrap())).unwrap();
        for transport in [Transport::Udp, Transport::Tcp] {
            let own = Echo::with_own_server(transport, 64, None).unwrap();
            let other = Echo::new(server.address(), transport, 1400);
            for mut echo in [own, other] {
                for _ in 0..3 {
                    let answer = echo.ask(Duration::from_secs(5));
                    assert!(answer.is_ok(), "{transport:?}: {answer:?}");
                }
            }
        }
    }

    #[test]
    fn a_port_without_a_listener_is_reported() {
        let free = UdpSocket::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        for transport in [Transport::Udp, Transport::Tcp] {
            let answer = Echo::new(free, transport, 64).ask(Duration::from_secs(5));
            let why = answer.unwrap_err();
            assert!(why.contains("refused"), "{transport:?}: {why}");
        }
    }

    #[test]
    fn the_built_in_server_cannot_run_on_a_missing_cpu() {
        assert!(Echo::with_own_server(Transport::Udp, 64, Some(4000)).is_err());
    }
}
