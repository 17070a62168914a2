//! The load: a server that answers each request, and a client that asks in bursts.

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use nix::libc;
use reveille_kernel::{Error, Result, affinity, now_ns};

/// The server's port; the BPF program knows it.
pub const PORT: u16 = 7777;
/// Within a burst.
const INTERVAL: Duration = Duration::from_millis(1);
/// Of a burst.
const REQUESTS: u32 = 100;
/// Before each burst.
pub const PAUSE: Duration = Duration::from_millis(400);
/// Bursts of a turn.
pub const BURSTS: u32 = 1;
/// An emulated CPU may be late.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Round trips, ns.
#[derive(Debug, Clone, Default)]
pub struct Answers {
    /// Of each burst's first request.
    pub first: Vec<u64>,
    /// Of the others.
    pub rest: Vec<u64>,
    /// From a burst's first request to its last answer, together.
    pub bursts: Duration,
}

/// Asks from the thread that made it.
pub struct Client {
    socket: UdpSocket,
}

impl Client {
    /// Starts the server on `cpu` as well, for the process's life.
    pub fn start(cpu: u32) -> Result<Self> {
        let failed = |why: std::io::Error| Error::Cannot(format!("UDP over loopback: {why}"));
        let server = UdpSocket::bind(("127.0.0.1", PORT)).map_err(failed)?;
        std::thread::spawn(move || serve(&server, cpu));
        let socket = UdpSocket::bind("127.0.0.1:0").map_err(failed)?;
        socket.connect(("127.0.0.1", PORT)).map_err(failed)?;
        socket.set_read_timeout(Some(TIMEOUT)).map_err(failed)?;
        // SAFETY: prctl(PR_SET_TIMERSLACK) takes plain numbers.
        unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
        Ok(Self { socket })
    }

    /// Bursts, each after a pause, whose beginning and end `paused` gets, CLOCK_MONOTONIC, ns.
    pub fn ask(&mut self, paused: impl Fn(u64, u64)) -> Result<Answers> {
        let mut answers = Answers::default();
        for _ in 0..BURSTS {
            let from = now_ns();
            paused(from, from + PAUSE.as_nanos() as u64);
            std::thread::sleep(PAUSE);
            let began = Instant::now();
            for nth in 0..REQUESTS {
                let left = (began + INTERVAL * nth).checked_duration_since(Instant::now());
                if let Some(left) = left {
                    std::thread::sleep(left);
                }
                let took = self.request(nth == 0)?;
                match nth {
                    0 => answers.first.push(took),
                    _ => answers.rest.push(took),
                }
            }
            answers.bursts += began.elapsed();
        }
        Ok(answers)
    }

    fn request(&self, is_first: bool) -> Result<u64> {
        let failed = |why: std::io::Error| Error::Cannot(format!("a request over loopback: {why}"));
        let mut answer = [0; 64];
        let sent = Instant::now();
        self.socket
            .send(&[u8::from(is_first); 64])
            .map_err(failed)?;
        self.socket.recv(&mut answer).map_err(failed)?;
        Ok(sent.elapsed().as_nanos() as u64)
    }
}

fn serve(socket: &UdpSocket, cpu: u32) {
    // A server elsewhere shows: the CPU has packets, but does not answer.
    let _ = affinity::bind(&[cpu]);
    let mut request = [0; 64];
    while let Ok((length, from)) = socket.recv_from(&mut request) {
        let _ = socket.send_to(&request[..length], from);
    }
}
