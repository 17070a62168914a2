//! A made-up meter: it answers as a Shelly socket of the second generation does, on loopback, with watts that a test
//! computes.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The meter's name for `--meter`. `watts` is asked every `every` for the true power, of which a reading has 5% of noise.
/// It ends with the test's process.
pub fn made_up(every: Duration, mut watts: impl FnMut() -> f64 + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let name = format!("shelly:{}", listener.local_addr().unwrap());
    let now = Arc::new(AtomicU64::new(watts().to_bits()));
    let next = now.clone();
    std::thread::spawn(move || {
        let mut random = fastrand::Rng::with_seed(5);
        loop {
            std::thread::sleep(every);
            // Uniform of a standard deviation of 5%.
            let noise = 1.0 + 0.05 * 3_f64.sqrt() * (2.0 * random.f64() - 1.0);
            next.store((watts() * noise).to_bits(), Ordering::Relaxed);
        }
    });
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(stream) = stream else { continue };
            let now = now.clone();
            std::thread::spawn(move || answer(&stream, &now));
        }
    });
    name
}

/// 60 W while somebody asks for no latency on all CPUs, which keeps them awake, else 40 W; `None` without the right
/// to ask for that, or a driver that honours it.
#[allow(dead_code, reason = "others have loads of their own")]
pub fn by_no_sleep() -> Option<String> {
    const ALL_CPUS: &str = "/dev/cpu_dma_latency";
    let bound = || {
        let mut us = [0; 4];
        File::open(ALL_CPUS)?.read_exact(&mut us)?;
        std::io::Result::Ok(i32::from_ne_bytes(us))
    };
    bound().ok()?;
    let idle = reveille_kernel::Idle::read(&reveille_kernel::Root::default()).ok()?;
    if !reveille_kernel::requests::honoured(&idle) {
        return None;
    }
    let watts = move || if bound().unwrap() == 0 { 60.0 } else { 40.0 };
    Some(made_up(Duration::from_millis(20), watts))
}

/// Whether other load ended a measurement, by what it printed.
#[allow(dead_code, reason = "others do not need a quiet machine")]
pub fn is_disturbed(printed: &str) -> bool {
    printed.contains("other load took")
}

fn answer(mut stream: &std::net::TcpStream, now: &AtomicU64) {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    while reader.read_line(&mut line).is_ok_and(|read| read > 0) {
        // The end of a request's head.
        if line == "\r\n" {
            let watts = f64::from_bits(now.load(Ordering::Relaxed));
            let body = format!("{{\"switch:0\":{{\"apower\":{watts:.3}}}}}");
            let length = body.len();
            let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{body}");
            if stream.write_all(answer.as_bytes()).is_err() {
                return;
            }
        }
        line.clear();
    }
}
