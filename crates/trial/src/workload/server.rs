//! The other side of `trial --echo`: `reveille trial --serve`.
//!
//! Everything in it is bounded: the size of an answer (that of its request), the number of
//! connections and the time that each may be silent. It answers requests of [`message`] only.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use super::message;
use crate::{Error, Result};

/// The default port; IANA has registered no service there.
pub const PORT: u16 = 7177;

/// More are refused.
const CONNECTIONS: usize = 64;
/// A silent connection is closed after this.
const SILENCE: Duration = Duration::from_secs(60);

/// Answers UDP and TCP at one port, each in threads of its own, for as long as the process runs.
pub struct Server {
    address: SocketAddr,
}

/// An address of this machine to listen at, with a port or without.
pub fn parse_address(text: &str) -> std::result::Result<SocketAddr, String> {
    let alone = || text.parse::<IpAddr>().map(|ip| SocketAddr::new(ip, PORT));
    text.parse().or_else(|_| alone()).map_err(|_| {
        format!("not an address of this machine such as 192.168.1.2 or 192.168.1.2:{PORT}")
    })
}

impl Server {
    /// Listens at `address`; at every address of this machine without one.
    pub fn start(address: Option<SocketAddr>) -> Result<Self> {
        let everywhere = [
            // Takes IPv4 as well, unless net.ipv6.bindv6only says otherwise.
            SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), PORT),
            SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), PORT),
        ];
        let bind = |address| {
            let wrong = |error| Error::Failed(format!("serve at {address}: {error}"));
            bind(address).map_err(wrong)
        };
        let (udp, tcp) = match address {
            Some(address) => bind(address)?,
            None => bind(everywhere[0]).or_else(|_| bind(everywhere[1]))?,
        };
        let bound = udp
            .local_addr()
            .map_err(|error| Error::Failed(error.to_string()))?;
        thread::spawn(move || answer_datagrams(&udp));
        thread::spawn(move || answer_connections(&tcp));
        Ok(Self { address: bound })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// UDP and TCP at the same port, even where it is the kernel's to choose (0).
pub(super) fn bind(address: SocketAddr) -> std::io::Result<(UdpSocket, TcpListener)> {
    let tcp = TcpListener::bind(address)?;
    let udp = UdpSocket::bind(tcp.local_addr()?)?;
    Ok((udp, tcp))
}

pub(super) fn answer_datagrams(socket: &UdpSocket) {
    // Longer ones are cut, and then are no requests.
    let mut buffer = [0; message::MAX_SIZE + 1];
    loop {
        // An error here is a word of the network on an earlier answer (port unreachable).
        let Ok((length, from)) = socket.recv_from(&mut buffer) else {
            continue;
        };
        let request = &mut buffer[..length];
        if message::size_of_request(request) == Some(length) {
            message::turn_into_answer(request);
            let _ = socket.send_to(request, from);
        }
    }
}

fn answer_connections(listener: &TcpListener) {
    let open = Arc::new(AtomicUsize::new(0));
    for stream in listener.incoming() {
        let Ok(stream) = stream else {
            // Out of descriptors, say: not a reason to spin.
            thread::sleep(Duration::from_millis(100));
            continue;
        };
        if open.fetch_add(1, Ordering::Relaxed) >= CONNECTIONS {
            open.fetch_sub(1, Ordering::Relaxed);
            continue;
        }
        let open = open.clone();
        thread::spawn(move || {
            // However it ended, the connection is over.
            let _ = answer_stream(stream);
            open.fetch_sub(1, Ordering::Relaxed);
        });
    }
}

/// Each connection in the calling thread, until it is closed: only that thread answers.
pub(super) fn answer_one_by_one(listener: &TcpListener) {
    for stream in listener.incoming() {
        let Ok(stream) = stream else {
            thread::sleep(Duration::from_millis(100));
            continue;
        };
        // However it ended, the connection is over.
        let _ = answer_stream(stream);
    }
}

fn answer_stream(mut stream: TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(SILENCE))?;
    stream.set_write_timeout(Some(SILENCE))?;
    let mut buffer = [0; message::MAX_SIZE];
    loop {
        stream.read_exact(&mut buffer[..message::MIN_SIZE])?;
        let Some(size) = message::size_of_request(&buffer[..message::MIN_SIZE]) else {
            return Ok(());
        };
        stream.read_exact(&mut buffer[message::MIN_SIZE..size])?;
        message::turn_into_answer(&mut buffer[..size]);
        stream.write_all(&buffer[..size])?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_to_listen_at_may_lack_its_port() {
        assert_eq!(parse_address("10.0.0.1").unwrap().port(), PORT);
        assert_eq!(parse_address("10.0.0.1:80").unwrap().port(), 80);
        assert_eq!(
            parse_address("::1").unwrap().to_string(),
            format!("[::1]:{PORT}")
        );
        assert!(parse_address("router").unwrap_err().contains("192.168.1.2"));
    }

    fn local() -> SocketAddr {
        Server::start(Some("127.0.0.1:0".parse().unwrap()))
            .unwrap()
            .address()
    }

    #[test]
    fn an_invalid_request_gets_no_answer() {
        let server = local();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket
            .set_read_timeout(Some(Duration::from_secs(5)))
            .unwrap();
        let mut answer = message::request(64);
        message::turn_into_answer(&mut answer);
        socket.send_to(&answer, server).unwrap();
        socket.send_to(b"hello", server).unwrap();
        socket.send_to(&vec![0; 2000], server).unwrap();
        let mut asked = message::request(64);
        message::number(&mut asked, 3);
        socket.send_to(&asked, server).unwrap();
        // Datagrams of one socket to another on loopback keep their order: the first answer is to
        // the last one sent.
        let mut buffer = [0; 2000];
        let length = socket.recv(&mut buffer).unwrap();
        assert!(message::is_answer(&buffer[..length], &asked));
    }

    #[test]
    fn a_connection_with_other_data_is_closed() {
        let mut stream = TcpStream::connect(local()).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(5)))
            .unwrap();
        stream
            .write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            .unwrap();
        let mut rest = Vec::new();
        // Closed with unread bytes: an end, or a reset.
        assert!(matches!(stream.read_to_end(&mut rest), Ok(0) | Err(_)));
        assert!(rest.is_empty());
    }
}
