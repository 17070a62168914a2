//! Two network namespaces with a veth pair between them. They belong to two threads and end with
//! them, however the test ends: nothing persistent is created.

use std::io;
use std::net::UdpSocket;
use std::os::fd::{FromRawFd, RawFd};
use std::process::Command;
use std::sync::mpsc;
use std::thread;

use nix::libc;
use nix::sched::{CloneFlags, CpuSet, sched_setaffinity, unshare};
use nix::unistd::{Pid, gettid};
use reveille_kernel::Root;
use reveille_kernel::network::Interface;

pub const SENDER: &str = "192.0.2.1";
pub const RECEIVER: &str = "192.0.2.2";

/// The calling thread receives; the job of [`Pair::send`] runs in the sender's namespace.
pub struct Pair {
    jobs: mpsc::Sender<Job>,
    /// The receiver's end.
    pub interface: Interface,
}

type Job = Box<dyn FnOnce() + Send>;

/// Moves the calling thread into a new namespace with the receiving end. `Err`: what this user or
/// kernel lacks.
pub fn pair() -> Result<Pair, String> {
    let (jobs, to_do) = mpsc::channel::<Job>();
    let (ready, is_ready) = mpsc::channel();
    thread::spawn(move || {
        let unshared = unshare(CloneFlags::CLONE_NEWNET);
        let _ = ready.send(unshared.map(|()| gettid()));
        // Until the test is over.
        to_do.into_iter().for_each(|job| job());
    });
    let sender = is_ready.recv().expect("the thread answers");
    let sender = sender.map_err(|error| format!("a network namespace: {error}"))?;
    // With a mount namespace, so that /sys shows this namespace's interfaces to this thread.
    unshare(CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWNS)
        .map_err(|error| format!("a network namespace: {error}"))?;
    for line in [
        "mount --make-rprivate /".to_owned(),
        "mount -t sysfs sysfs /sys".to_owned(),
        format!("ip link add receiver type veth peer name sender netns {sender}"),
        format!("ip addr add {RECEIVER}/24 dev receiver"),
        "ip link set receiver up".to_owned(),
        "ip link set lo up".to_owned(),
    ] {
        command(&line)?;
    }
    let interface = Interface::read(&Root::default(), "receiver").expect("it was just made");
    let pair = Pair { jobs, interface };
    let addressed = pair.send(|| {
        command(&format!("ip addr add {SENDER}/24 dev sender"))?;
        command("ip link set sender up")
    });
    addressed.recv().expect("the thread answers")?;
    Ok(pair)
}

impl Pair {
    /// Runs `job` in the sender's namespace, on CPU 0; its result comes over the channel.
    pub fn send<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> mpsc::Receiver<T> {
        let (done, is_done) = mpsc::channel();
        let job = Box::new(move || {
            on_cpu(0);
            let _ = done.send(job());
        });
        self.jobs.send(job).expect("the thread lives");
        is_done
    }
}

/// Binds the calling thread to a CPU.
pub fn on_cpu(cpu: usize) {
    let mut cpus = CpuSet::new();
    cpus.set(cpu).unwrap();
    sched_setaffinity(Pid::from_raw(0), &cpus).unwrap();
}

/// CLOCK_MONOTONIC, ns.
pub fn now() -> u64 {
    let time = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC).unwrap();
    time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64
}

fn command(line: &str) -> Result<(), String> {
    let mut words = line.split(' ');
    let output = Command::new(words.next().unwrap()).args(words).output();
    match output {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(format!(
            "`{line}`: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        )),
        Err(error) => Err(format!("`{line}`: {error}")),
    }
}

/// An echo request and its reply, at the sender.
#[derive(Debug, Clone, Copy)]
pub struct Ping {
    pub sequence: u16,
    pub before: u64,
    pub after: u64,
}

/// A socket that sends ICMP to the receiver.
fn icmp() -> io::Result<UdpSocket> {
    // SAFETY: the call takes plain values and returns a descriptor that is ours, or an error.
    let raw: RawFd = unsafe {
        libc::socket(
            libc::AF_INET,
            libc::SOCK_RAW | libc::SOCK_CLOEXEC,
            libc::IPPROTO_ICMP,
        )
    };
    if raw < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is an open socket and ours alone; sending and receiving are the same
    // calls for it as for UDP's.
    let socket = unsafe { UdpSocket::from_raw_fd(raw) };
    socket.connect((RECEIVER, 0))?;
    socket.set_read_timeout(Some(std::time::Duration::from_secs(5)))?;
    Ok(socket)
}

/// Sends ICMP echo requests for this time, as fast as possible.
pub fn flood(time: std::time::Duration) -> io::Result<()> {
    let (socket, begun) = (icmp()?, std::time::Instant::now());
    while begun.elapsed() < time {
        socket.send(&echo_request(1))?;
    }
    Ok(())
}

/// Sends `count` ICMP echo requests, each after the reply to the previous one and a pause.
pub fn ping(count: u16, pause: std::time::Duration) -> io::Result<Vec<Ping>> {
    let socket = icmp()?;
    let mut pings = Vec::new();
    for sequence in 1..=count {
        thread::sleep(pause);
        let before = now();
        socket.send(&echo_request(sequence))?;
        loop {
            // A raw socket also receives the IP header.
            let mut packet = [0; 128];
            let length = socket.recv(&mut packet)?;
            let icmp = &packet[..length][20..];
            if icmp[0] == 0 && icmp[6..8] == sequence.to_be_bytes() {
                break;
            }
        }
        pings.push(Ping {
            sequence,
            before,
            after: now(),
        });
    }
    Ok(pings)
}

/// Type 8 with the identifier 7 and 32 bytes of zeros (RFC 792).
fn echo_request(sequence: u16) -> [u8; 40] {
    let mut packet = [0; 40];
    packet[0] = 8;
    packet[4..6].copy_from_slice(&7_u16.to_be_bytes());
    packet[6..8].copy_from_slice(&sequence.to_be_bytes());
    let words = packet
        .chunks(2)
        .map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])));
    let sum: u32 = words.sum();
    let checksum = !((sum & 0xffff) + (sum >> 16)) as u16;
    packet[2..4].copy_from_slice(&checksum.to_be_bytes());
    packet
}

/// `Icmp: InEchos` of the calling thread's namespace.
pub fn echo_requests_received() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/net/snmp").unwrap();
    let mut lines = text.lines().filter(|line| line.starts_with("Icmp: "));
    let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
    let mut both = names.split(' ').zip(values.split(' '));
    let (_, count) = both.find(|(name, _)| *name == "InEchos").unwrap();
    count.parse().unwrap()
}
