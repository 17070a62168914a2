use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;

use super::*;
use crate::metrics::Address;

/// Clients' thread, on a socket of its own.
struct Serving {
    path: PathBuf,
    /// How often the text was made.
    made: Arc<AtomicUsize>,
    over: Arc<EventFd>,
    thread: Option<JoinHandle<()>>,
    _folder: tempfile::TempDir,
}

impl Serving {
    fn start(text: String) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.sock");
        let listener = Listener::at(&Address::Unix(path.clone())).unwrap();
        let over = Arc::new(EventFd::new().unwrap());
        let made = Arc::new(AtomicUsize::new(0));
        let (seen, count) = (over.clone(), made.clone());
        let make = move || {
            count.fetch_add(1, Ordering::Relaxed);
            Some(text.clone())
        };
        let thread = std::thread::spawn(move || Clients::new(vec![listener]).serve(&seen, make));
        Self {
            path,
            made,
            over,
            thread: Some(thread),
            _folder: folder,
        }
    }

    fn connect(&self) -> UnixStream {
        UnixStream::connect(&self.path).unwrap()
    }

    /// What a client that asks so gets.
    fn ask(&self, request: &str) -> String {
        let mut client = self.connect();
        client.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        answer
    }

    fn scrape(&self) -> String {
        self.ask("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n")
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.over.write(1).unwrap();
        self.thread.take().unwrap().join().unwrap();
    }
}

/// Has the other side closed the connection?
fn is_dropped(client: &mut UnixStream) -> bool {
    client.set_nonblocking(true).unwrap();
    match client.read(&mut [0; 64 << 10]) {
        Ok(length) => length == 0,
        Err(error) => error.kind() != std::io::ErrorKind::WouldBlock,
    }
}

#[test]
fn a_scrape_has_the_text_and_its_end() {
    let serving = Serving::start("a 1\n".into());
    let answer = serving.scrape();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.ends_with("\r\n\r\na 1\n"), "{answer}");
    let head = serving.ask("HEAD /metrics HTTP/1.1\r\n\r\n");
    assert!(
        head.contains("Content-Length: 4\r\n") && head.ends_with("\r\n\r\n"),
        "{head}"
    );
    assert!(
        serving
            .ask("GET / HTTP/1.1\r\n\r\n")
            .starts_with("HTTP/1.1 404 ")
    );
    assert!(
        serving
            .ask(&"x".repeat(REQUEST_MAX))
            .starts_with("HTTP/1.1 431 ")
    );
    assert_eq!(serving.made.load(Ordering::Relaxed), 2);
}

#[test]
fn a_request_may_come_in_pieces() {
    let serving = Serving::start("a 1\n".into());
    let mut client = serving.connect();
    for piece in ["GET /met", "rics HTTP/1.1\r\n", "Host: a\r\n", "\r\n"] {
        client.write_all(piece.as_bytes()).unwrap();
        std::thread::sleep(Duration::from_millis(50));
    }
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    assert!(answer.ends_with("a 1\n"), "{answer}");
}

#[test]
fn a_text_longer_than_any_buffer_comes_whole() {
    let text = "a 1\n".repeat(2 << 20);
    let serving = Serving::start(text.clone());
    let answer = serving.scrape();
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(body == text, "{} of {} bytes", body.len(), text.len());
}

#[test]
fn clients_that_say_nothing_or_trickle_or_do_not_read_lose_their_place_after_a_second() {
    let serving = Serving::start("a 1\n".repeat(2 << 20));
    let mut silent = serving.connect();
    let mut trickling = serving.connect();
    let mut deaf = serving.connect();
    deaf.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    let begin = Instant::now();
    // Beside other load the service may see it late.
    let mut are_dropped = false;
    while begin.elapsed() < PATIENCE * 3 || !are_dropped {
        assert!(begin.elapsed() < PATIENCE * 20);
        // Fails once the place is lost.
        let _ = trickling.write_all(b"G");
        std::thread::sleep(PATIENCE / 10);
        are_dropped = is_dropped(&mut silent) && is_dropped(&mut trickling);
        if begin.elapsed() < PATIENCE / 2 {
            assert!(!are_dropped, "they have a second");
        }
    }
    let mut answer = Vec::new();
    deaf.set_read_timeout(Some(PATIENCE * 5)).unwrap();
    deaf.read_to_end(&mut answer).unwrap();
    assert!(
        answer.len() < 2 << 20,
        "{} bytes to one that does not read",
        answer.len()
    );
}

#[test]
fn a_crowd_of_silent_clients_does_not_keep_an_honest_one_out() {
    let serving = Serving::start("a 1\n".into());
    let _crowd: Vec<UnixStream> = (0..10 * MOST).map(|_| serving.connect()).collect();
    let begin = Instant::now();
    assert!(serving.scrape().ends_with("a 1\n"));
    println!("behind {} silent clients: {:?}", 10 * MOST, begin.elapsed());
    assert!(begin.elapsed() < PATIENCE * 5);
}

#[test]
fn a_flood_gets_its_budget_and_an_honest_client_its_answer() {
    let serving = Serving::start("a 1\n".into());
    let over = AtomicBool::new(false);
    let flood = || {
        let mut count = 0;
        while !over.load(Ordering::Relaxed) {
            if let Ok(mut client) = UnixStream::connect(&serving.path) {
                let _ = client.write_all(b"GET /metrics HTTP/1.1\r\n\r\n");
                count += 1;
            }
        }
        count
    };
    std::thread::scope(|scope| {
        let flooding: Vec<_> = (0..4).map(|_| scope.spawn(flood)).collect();
        let begin = Instant::now();
        let mut longest = Duration::ZERO;
        for _ in 0..10 {
            let asked = Instant::now();
            assert!(serving.scrape().ends_with("a 1\n"));
            longest = longest.max(asked.elapsed());
        }
        std::thread::sleep(Duration::from_secs(1));
        over.store(true, Ordering::Relaxed);
        let made = serving.made.load(Ordering::Relaxed);
        let turns = (begin.elapsed().as_secs_f64() / REST_MIN.as_secs_f64()) as usize;
        let clients: usize = flooding.into_iter().map(|one| one.join().unwrap()).sum();
        println!("{clients} clients, {made} texts, the honest one's longest wait {longest:?}");
        assert!(clients > made, "several clients share a text");
        assert!(made <= turns + 1, "{made} texts in {turns} turns");
    });
}

#[test]
fn the_thread_ends_with_the_service() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("metrics.sock");
    let listener = Listener::at(&Address::Unix(path.clone())).unwrap();
    let over = EventFd::new().unwrap();
    let thread = std::thread::spawn(move || Clients::new(vec![listener]).serve(&over, || None));
    let mut client = UnixStream::connect(&path).unwrap();
    client.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    thread.join().unwrap();
    assert_eq!(client.read(&mut [0; 8]).unwrap_or(0), 0);
    assert!(!path.exists());
}
