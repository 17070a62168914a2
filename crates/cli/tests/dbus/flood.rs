//! Thousands of programs that come, hold and die, some of them hostile, beside an honest one.

use std::collections::HashMap;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use zbus::zvariant::Value;

use super::authority::{Answer, Authority};
use super::bus::Bus;
use super::client::{Client, NOBODY};
use super::service::Service;
use super::{alone, until};

/// REVEILLE_CLIENTS takes another number of programs.
const CLIENTS: u32 = 600;
/// Users of the system's own, as every machine has them.
const HOSTILE: [u32; 2] = [1, NOBODY];
const HONEST: u32 = 2;
/// Of the service's memory, KiB: a program's messages of a megabyte, several times over.
const MOST: u64 = 128 << 10;
/// And from half of the time to the end: what the allocator and threads take at first.
const GROWTH_MAX: u64 = 16 << 10;

/// The service's memory, KiB: `VmRSS`, or the most that it had, `VmHWM`.
fn memory(service: &Service, of: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", service.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(of));
    let kib = line.unwrap().trim_start_matches(':').trim();
    kib.trim_end_matches(" kB").parse().unwrap()
}

/// One program: what it does depends on its number.
fn one(bus: &Bus, nth: u32) {
    if nth % 6 == 5 {
        half_a_message(bus);
        return;
    }
    let uid = HOSTILE[nth as usize / 6 % HOSTILE.len()];
    // The bus has limits of its own.
    let Ok(client) = Client::of(bus, uid) else {
        return;
    };
    match nth % 6 {
        0 => drop(client.hold("0", 0)),
        // And leaves before it is answered.
        1 => (0..50).for_each(|_| client.send_hold("all", fastrand::u32(..))),
        2 => {
            for _ in 0..20 {
                let _ = client.holds();
                let _ = client.effective(fastrand::u32(..));
            }
        }
        3 => {
            let junk: String = (0..fastrand::usize(..2000))
                .map(|_| fastrand::char(..))
                .collect();
            let _ = client.hold(&junk, fastrand::u32(..));
            let options = HashMap::from([(junk.as_str(), Value::from(junk.as_str()))]);
            let _ = client.hold_with("all", 0, options);
        }
        // A megabyte each.
        _ => (0..10).for_each(|_| client.send_hold(&"0,".repeat(1 << 19), 0)),
    }
}

/// Begins a call of a megabyte, and leaves.
fn half_a_message(bus: &Bus) {
    let Ok(mut stream) = UnixStream::connect(bus.socket()) else {
        return;
    };
    let _ = stream.set_read_timeout(Some(Duration::from_secs(5)));
    let mut answer = [0; 64];
    // Root's number, in hexadecimal digits of its text.
    let _ = stream.write_all(b"\0AUTH EXTERNAL 30\r\n");
    let _ = stream.read(&mut answer);
    let _ = stream.write_all(b"BEGIN\r\nl\x01\x00\x01\x00\x00\x10\x00\x01\x00\x00\x00\x40\x00");
}

#[test]
fn programs_that_come_and_die_leave_nothing_and_an_honest_one_is_answered() {
    let test = "programs_that_come_and_die_leave_nothing_and_an_honest_one_is_answered";
    let Some(_alone) = alone() else {
        return;
    };
    let Some(bus) = Bus::start(test) else { return };
    let service = Service::start(&bus);
    let _authority = Authority::start(&bus, Answer::Yes);
    let honest = Client::of(&bus, HONEST).unwrap();
    let kept = honest.hold("0", 0).unwrap();
    let clients = std::env::var("REVEILLE_CLIENTS").ok();
    let clients = clients.map_or(CLIENTS, |number| number.parse().unwrap());
    let next = AtomicU32::new(0);
    let over = AtomicBool::new(false);
    let mut waits = Vec::new();
    let (mut at_half, mut refused) = (None, 0);
    let open = service.descriptors();
    let started = Instant::now();
    std::thread::scope(|scope| {
        let come = || {
            while let nth @ ..1_000_000 = next.fetch_add(1, Ordering::Relaxed) {
                if nth >= clients {
                    break;
                }
                one(&bus, nth);
            }
        };
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(come)).collect();
        scope.spawn(|| {
            threads
                .into_iter()
                .for_each(|thread| thread.join().unwrap());
            over.store(true, Ordering::Relaxed);
        });
        while !over.load(Ordering::Relaxed) {
            let asked = Instant::now();
            refused += u32::from(honest.hold("0", 0).is_err());
            waits.push(asked.elapsed());
            if at_half.is_none() && next.load(Ordering::Relaxed) > clients / 2 {
                at_half = Some(memory(&service, "VmRSS"));
            }
            std::thread::sleep(Duration::from_millis(150));
        }
    });
    let took = started.elapsed();
    until("only the honest hold is left", || service.holds() == 1);
    until("the honest hold is in force", || {
        honest.effective(0) == Ok(0)
    });
    let (at_end, most) = (memory(&service, "VmRSS"), memory(&service, "VmHWM"));
    let at_half = at_half.unwrap();
    waits.sort();
    let own = &service.status()["own"]["cpu_s"];
    println!(
        "{clients} programs in {:.1} s; {} honest requests: median {:?}, p99 {:?}, longest {:?}; memory \
         {at_half} KiB at half, {at_end} KiB at the end, {most} KiB at most; the service's CPU time {own} s",
        took.as_secs_f64(),
        waits.len(),
        waits[waits.len() / 2],
        waits[waits.len() * 99 / 100],
        waits[waits.len() - 1],
    );
    assert_eq!(refused, 0, "the honest program is refused");
    assert!(
        at_end < at_half + GROWTH_MAX && most < MOST,
        "{at_half} KiB, then {at_end} KiB, at most {most} KiB"
    );
    until("no descriptor is left", || service.descriptors() <= open);
    drop(kept);
    until("nothing is held", || service.holds() == 0);
}

#[test]
fn a_user_who_reads_all_the_time_waits_and_others_do_not() {
    let test = "a_user_who_reads_all_the_time_waits_and_others_do_not";
    let _alone = alone();
    let Some(bus) = Bus::start(test) else { return };
    let service = Service::start(&bus);
    let cpu_s = || service.status()["own"]["cpu_s"].as_f64().unwrap();
    let other = Client::of(&bus, HONEST).unwrap();
    type Read = fn(&Client) -> bool;
    let reads: [(&str, Option<u32>, Read); 3] = [
        ("EffectiveLatency", Some(200), |one| {
            one.effective(0).is_ok()
        }),
        ("Rules", Some(200), |one| one.rules().is_ok()),
        // Of no user's rate, but of the thread's budget.
        ("Introspect", None, |one| one.introspect().is_ok()),
    ];
    for (what, a_second, read) in reads {
        let hostile = Client::of(&bus, NOBODY).unwrap();
        let (over, count) = (AtomicBool::new(false), AtomicU32::new(0));
        let (mut waits, before, began) = (Vec::new(), cpu_s(), Instant::now());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    count.fetch_add(u32::from(read(&hostile)), Ordering::Relaxed);
                }
            });
            for _ in 0..30 {
                std::thread::sleep(Duration::from_millis(100));
                let asked = Instant::now();
                other.effective(0).unwrap();
                waits.push(asked.elapsed());
            }
            over.store(true, Ordering::Relaxed);
        });
        let took = began.elapsed().as_secs_f64();
        let share = (cpu_s() - before) / took;
        let count = count.into_inner();
        waits.sort();
        println!(
            "{what}: {count} in {took:.1} s; the service took {share:.3} of a CPU; others waited {:?}, at most {:?}",
            waits[waits.len() / 2],
            waits[waits.len() - 1],
        );
        assert!(waits[waits.len() / 2] < Duration::from_secs(1), "{what}");
        let most = a_second.map(|a_second| f64::from(a_second) * (took + 1.0) + 10.0);
        assert!(
            most.is_none_or(|most| f64::from(count) <= most),
            "{what}: {count}"
        );
        assert!(count > 0);
    }
}
