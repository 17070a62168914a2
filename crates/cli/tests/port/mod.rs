//! Ports of tests.

use std::net::{TcpListener, UdpSocket};
use std::sync::atomic::{AtomicU32, Ordering};

/// A free port, which no other test gets meanwhile: it is below those that sockets get which ask for any
/// (net.ipv4.ip_local_port_range), and tried once.
pub fn free() -> u16 {
    const LOWEST: u32 = 10_000;
    const NUMBER: u32 = 22_000;
    static TRIED: AtomicU32 = AtomicU32::new(0);
    // Another program of tests begins elsewhere.
    let begin = std::process::id() * 97;
    loop {
        let next = TRIED.fetch_add(1, Ordering::Relaxed).wrapping_add(begin);
        let port = (LOWEST + next % NUMBER) as u16;
        let place = ("127.0.0.1", port);
        if TcpListener::bind(place).is_ok() && UdpSocket::bind(place).is_ok() {
            return port;
        }
    }
}
