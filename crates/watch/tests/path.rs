//! Packets between two network namespaces, followed on the running kernel. The tests need root, BPF,
//! veth and ip(8); otherwise each reports that it was skipped and why.

mod namespaces;

use std::net::UdpSocket;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::idling::Idling;
use namespaces::{Pair, RECEIVER, now, on_cpu, ping};
use nix::sys::resource::{UsageWho, getrusage};
use reveille_alone::while_spinning;
use reveille_kernel::{Idle, Root};
use reveille_watch::path::{Cause, Follow, Follower, Met, Packet, Setup, Stage, stages, whole_ns};

/// Skips with a message without namespaces or BPF.
macro_rules! need {
    ($follow:expr) => {{
        let pair = match namespaces::pair() {
            Ok(pair) => pair,
            Err(why) => return println!("skipped: {}: {why}", module_path!()),
        };
        match follower(&pair, $follow) {
            Ok(follower) => (pair, follower),
            Err(why) => return println!("skipped: {}: {why}", module_path!()),
        }
    }};
}

fn follower(pair: &Pair, follow: Follow) -> reveille_watch::Result<Follower> {
    let idle = Idle::read(&Root::default())?;
    let setup = Setup {
        follow,
        interface: Some(&pair.interface),
        port: None,
    };
    Follower::start(&idle, &setup)
}

fn taken(follower: &Follower) -> Vec<Packet> {
    let mut packets = Vec::new();
    follower.take_in(|packet| packets.push(packet)).unwrap();
    packets
}

/// Instants ascend, and the stages between them add up to the whole.
fn is_whole(packet: &Packet) {
    let stages = stages(packet);
    assert!(stages.iter().all(|&(_, ns)| ns >= 0), "{packet:?}");
    let sum: i64 = stages.iter().map(|&(_, ns)| ns).sum();
    assert_eq!(sum, whole_ns(packet), "{packet:?}");
    assert!(stages.is_sorted_by_key(|&(stage, _)| stage), "{packet:?}");
}

#[test]
fn each_ping_is_seen_once_and_within_the_time_that_its_sender_waited() {
    const PINGS: u16 = 300;
    let (pair, follower) = need!(Follow::Ping);
    let before = namespaces::echo_requests_received();
    let pings = pair.send(|| ping(PINGS, Duration::from_millis(1)));
    let pings = pings.recv().unwrap().unwrap();
    let received = namespaces::echo_requests_received() - before;
    assert_eq!(received, u64::from(PINGS));
    let packets = taken(&follower);
    let counts = follower.counts();
    assert_eq!(
        (counts.seen, counts.followed),
        (received, received),
        "{counts:?}"
    );
    assert_eq!(packets.len() as u64, received);
    for (ping, packet) in pings.iter().zip(&packets) {
        is_whole(packet);
        assert_eq!((packet.identifier, packet.sequence), (7, ping.sequence));
        assert_eq!(packet.interface, pair.interface.index);
        // ICMP's 40 bytes and the IP header.
        assert_eq!(packet.length, 60);
        let (sent, transmit) = (packet.sent.unwrap(), packet.ends[&Stage::Queue]);
        assert!(
            ping.before <= sent && transmit <= ping.after,
            "{ping:?} {packet:?}"
        );
        assert!(
            [Stage::Answer, Stage::Transmit]
                .iter()
                .all(|stage| packet.ends.contains_key(stage)),
            "{packet:?}"
        );
    }
}

#[test]
fn pings_of_another_namespace_are_not_counted() {
    let (pair, follower) = need!(Follow::Ping);
    // To the sender's own address, over its loopback.
    let job = || {
        let up = std::process::Command::new("ip")
            .args(["link", "set", "lo", "up"])
            .status();
        assert!(up.unwrap().success());
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.send_to(b"x", "127.0.0.1:9").unwrap();
        ping(20, Duration::from_millis(1))
    };
    let pings = pair.send(job).recv().unwrap().unwrap();
    assert_eq!(pings.len(), 20);
    assert_eq!(taken(&follower).len(), 20);
    let counts = follower.counts();
    assert_eq!(counts.seen, 20, "the replies are no requests: {counts:?}");
}

#[test]
fn of_too_many_packets_some_are_left_out_and_each_is_counted() {
    let (pair, follower) = need!(Follow::Ping);
    let (before, begun) = (namespaces::echo_requests_received(), Instant::now());
    let flood = pair.send(|| namespaces::flood(Duration::from_secs(1)));
    flood.recv().unwrap().unwrap();
    // On a busy machine a kernel thread receives the last ones, when it runs.
    let end = Instant::now() + Duration::from_secs(20);
    let mut packets = Vec::new();
    let (received, counts) = loop {
        let received = namespaces::echo_requests_received() - before;
        packets.extend(taken(&follower));
        let counts = follower.counts();
        let known = counts.followed + counts.left_out + counts.unanswered + counts.ring_full;
        let is_all = counts.seen == received && known == received;
        if is_all && counts.followed == packets.len() as u64 || Instant::now() > end {
            break (received, counts);
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    // At most 10 000 per second, plus those of a partial window.
    let most = 10_000 * (begun.elapsed().as_secs() + 2);
    assert_eq!(counts.seen, received, "{counts:?}");
    assert_eq!(counts.followed, packets.len() as u64, "{counts:?}");
    let known = counts.followed + counts.left_out + counts.unanswered + counts.ring_full;
    assert_eq!(known, received, "{counts:?}");
    assert!(counts.followed <= most, "{counts:?}");
    // A slow machine sends no more than are followed.
    if received > most {
        assert!(counts.left_out > 0, "{counts:?}");
    }
    packets.iter().for_each(is_whole);
}

#[test]
fn a_packet_that_wakes_another_cpu_has_its_state_and_the_wake_up() {
    const ASLEEP: usize = 20;
    let idle = Idle::read(&Root::default()).unwrap();
    if idle.cpu(1).is_none_or(|cpu| !cpu.online) {
        return println!("skipped: {}: there is one CPU", module_path!());
    }
    let (pair, follower) = need!(Follow::Ping);
    // CPU 1 handles what CPU 0 sends.
    let steering = "/sys/class/net/receiver/queues/rx-0/rps_cpus";
    if let Err(error) = std::fs::write(steering, "2") {
        return println!("skipped: {}: {steering}: {error}", module_path!());
    }
    let (mut asleep, mut steered, mut all) = (0, 0, 0);
    let idling = Idling::of(1);
    // A busy machine's CPU 1 may be awake for most of them.
    for _ in 0..8 {
        let pings = pair.send(|| ping(100, Duration::from_millis(4)));
        pings.recv().unwrap().unwrap();
        for packet in taken(&follower) {
            is_whole(&packet);
            assert_eq!(packet.cpu, 1, "{packet:?}");
            all += 1;
            steered += usize::from(packet.cause == Cause::OtherCpu);
            let Met::Asleep(sleep) = packet.met else {
                continue;
            };
            asleep += 1;
            // The wake-up is observed because the sender is.
            assert!(sleep.state >= 0, "{packet:?}");
            let woke = packet.ends.get(&Stage::Wake);
            assert!(woke > packet.sent.as_ref(), "{packet:?}");
            assert_eq!(stages(&packet)[0].0, Stage::Wake, "{packet:?}");
        }
        if asleep >= ASLEEP {
            break;
        }
    }
    assert!(steered > 0, "of {all} packets another CPU announced none");
    if asleep < ASLEEP {
        let few = format!("{asleep} of {all} packets met a sleep");
        println!("skipped: {}: {}", module_path!(), idling.too_busy(&few));
    }
}

/// The reader's record of a packet.
struct Had {
    length: usize,
    at: u64,
    /// The reader slept until it came.
    slept: bool,
}

/// A reader in the calling thread's namespace that echoes packets and records when it got each.
fn reader(pair: &Pair, count: usize) -> (u16, mpsc::Receiver<Vec<Had>>) {
    let _ = pair;
    let socket = UdpSocket::bind((RECEIVER, 0)).unwrap();
    socket
        .set_read_timeout(Some(Duration::from_secs(10)))
        .unwrap();
    let port = socket.local_addr().unwrap().port();
    let (done, is_done) = mpsc::channel();
    // Threads inherit namespaces.
    let read = move || {
        let mut had = Vec::new();
        let mut packet = [0; 2048];
        while had.len() < count {
            let before = sleeps();
            let (length, from) = socket.recv_from(&mut packet).unwrap();
            had.push(Had {
                length,
                at: now(),
                slept: sleeps() > before,
            });
            socket.send_to(&packet[..length], from).unwrap();
        }
        let _ = done.send(had);
    };
    std::thread::Builder::new()
        .name("the-reader".to_owned())
        .spawn(read)
        .unwrap();
    (port, is_done)
}

/// This thread's voluntary context switches.
fn sleeps() -> i64 {
    let usage = getrusage(UsageWho::RUSAGE_THREAD).unwrap();
    usage.voluntary_context_switches()
}

/// Sends `count` packets of growing length, each after the echo of the previous one and a pause.
fn send_udp(port: u16, count: usize) {
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    socket
        .set_read_timeout(Some(Duration::from_secs(10)))
        .unwrap();
    on_cpu(0);
    for number in 0..count {
        std::thread::sleep(Duration::from_millis(3));
        socket
            .send_to(&vec![0; 100 + number], (RECEIVER, port))
            .unwrap();
        socket.recv(&mut [0; 2048]).unwrap();
    }
}

#[test]
fn a_packet_is_followed_to_the_first_instruction_of_the_reader_that_it_wakes() {
    const PACKETS: usize = 200;
    let (pair, follower) = need!(Follow::Socket);
    let (port, had) = reader(&pair, PACKETS);
    pair.send(move || send_udp(port, PACKETS)).recv().unwrap();
    let had = had.recv().unwrap();
    let packets = taken(&follower);
    let counts = follower.counts();
    assert_eq!(counts.followed, packets.len() as u64);
    let to_port: Vec<&Packet> = packets
        .iter()
        .filter(|packet| {
            packet
                .reader
                .as_ref()
                .is_some_and(|reader| reader.name == "the-reader")
        })
        .collect();
    // On a busy machine the reader may not be asleep again when the next one comes.
    let slept = had.iter().filter(|had| had.slept).count();
    // The kernel skips a program that already runs on that CPU: a reader that returns while another
    // task is preempted in the same program is counted and not followed.
    let not_followed = (counts.left_out + counts.ring_full + counts.not_returned) as usize;
    assert!(
        to_port.len() <= PACKETS && to_port.len() + not_followed >= slept,
        "{} followed, for {slept} the reader slept: {counts:?}",
        to_port.len()
    );
    assert!(
        counts.not_returned <= PACKETS as u64 / 10,
        "that is rare: {counts:?}"
    );
    for packet in to_port {
        is_whole(packet);
        // The headers of UDP and IP.
        let length = packet.length as usize - 28;
        let had = had.iter().find(|had| had.length == length).unwrap();
        let end = |stage| packet.ends.get(&stage).copied();
        let returned = end(Stage::Return).unwrap();
        assert!(returned <= had.at, "had at {}: {packet:?}", had.at);
        assert!(
            packet.sent < end(Stage::Protocol) && end(Stage::Protocol) < end(Stage::Socket),
            "{packet:?}"
        );
        assert!(end(Stage::Schedule) > end(Stage::Socket), "{packet:?}");
    }
}

#[test]
fn on_a_cpu_that_never_sleeps_no_packet_meets_an_idle_state() {
    const PINGS: u16 = 200;
    if Idle::read(&Root::default())
        .unwrap()
        .cpu(1)
        .is_none_or(|cpu| !cpu.online)
    {
        return println!("skipped: {}: there is one CPU", module_path!());
    }
    while_spinning(1, || {
        let (pair, follower) = need!(Follow::Ping);
        // CPU 0 sends, and notifies CPU 1 by an interrupt, as if it slept.
        let steering = "/sys/class/net/receiver/queues/rx-0/rps_cpus";
        if let Err(error) = std::fs::write(steering, "2") {
            return println!("skipped: {}: {steering}: {error}", module_path!());
        }
        let pings = pair.send(|| ping(PINGS, Duration::from_millis(1)));
        pings.recv().unwrap().unwrap();
        let packets = taken(&follower);
        let announced = packets.iter().filter(|one| one.cause == Cause::OtherCpu);
        let announced = announced.count();
        assert!(announced > usize::from(PINGS) / 2, "{announced}");
        for packet in packets {
            assert_eq!((packet.cpu, packet.met), (1, Met::Awake), "{packet:?}");
            assert_eq!(packet.ends.get(&Stage::Wake), None, "{packet:?}");
        }
    });
}
