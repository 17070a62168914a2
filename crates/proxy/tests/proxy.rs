//! The proxy between real clients and real servers, on loopback.

use std::convert::Infallible;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::header::HeaderMap;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use nix::sys::socket::{setsockopt, sockopt};
use reveille_kernel::Result;
use reveille_proxy::serve::{self, Event};
use reveille_results::statistics::Percentile;
use reveille_stage::config::{Config, Pattern, Service};
use reveille_stage::counts::Served;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

/// Longer than any answer takes on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(20);
/// A deadline that no test waits for.
const HOUR: Duration = Duration::from_secs(3600);

/// A proxy in a thread of the test.
struct Proxy {
    addresses: Vec<SocketAddr>,
    events: UnboundedSender<Event>,
    thread: Option<JoinHandle<Result<Vec<Served>>>>,
    now: serve::Ready,
    log: Arc<Mutex<Vec<String>>>,
}

fn service(upstream: &str, deadline: Duration) -> Service {
    Service {
        name: "test".into(),
        listen: ([127, 0, 0, 1], 0).into(),
        upstreams: vec![upstream.parse().unwrap()],
        deadline,
        percentile: Percentile::P99_9,
        exempt: vec![Pattern("/health*".into())],
        grid: None,
        direct: false,
        hints: None,
        hint_key: None,
        tls: None,
    }
}

impl Proxy {
    fn of(service: Service) -> Self {
        let config = Config {
            services: vec![service],
        };
        let (events, received) = unbounded_channel();
        let (ready, is_ready) = mpsc::channel();
        let log: Arc<Mutex<Vec<String>>> = Arc::default();
        let lines = Arc::clone(&log);
        let thread = std::thread::spawn(move || {
            let say = Arc::new(move |line| lines.lock().unwrap().push(line));
            let metrics = Some(([127, 0, 0, 1], 0).into());
            let ready = move |now| ready.send(now).unwrap();
            serve::run(config, metrics, None, received, say, ready)
        });
        let now: serve::Ready = is_ready.recv().unwrap();
        Self {
            addresses: now.addresses.clone(),
            events,
            thread: Some(thread),
            now,
            log,
        }
    }

    /// Staged, in front of that server, which it has learnt.
    fn staged(server: &Server, deadline: Duration) -> Self {
        let proxy = Self::of(service(&server.url(), deadline));
        proxy.learns();
        proxy
    }

    fn learns(&self) {
        let mut client = Client::to(self.addresses[0]);
        for _ in 0..20 {
            assert_eq!(client.get("/", "").status, 200);
        }
    }

    fn served(&self) -> Served {
        self.now.now().remove(0)
    }

    fn reload(&self, services: Vec<Service>) {
        let before = self.log.lock().unwrap().len();
        let config = Box::new(Config { services });
        self.events.send(Event::Reload(config)).unwrap();
        let end = Instant::now() + PATIENCE;
        while self.log.lock().unwrap().len() == before {
            assert!(Instant::now() < end);
            std::thread::sleep(ms(5));
        }
    }

    fn wait_for_held(&self, held: usize) {
        let end = Instant::now() + PATIENCE;
        while self.served().held_now != held {
            assert!(Instant::now() < end, "{:?}", self.served());
            std::thread::sleep(ms(10));
        }
    }

    fn end(mut self) -> Served {
        self.events.send(Event::Stop).unwrap();
        let served = self.thread.take().unwrap().join().unwrap();
        served.unwrap().remove(0)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.events.send(Event::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A server that answers each connection by a function.
struct Server {
    address: SocketAddr,
    requests: Arc<AtomicUsize>,
}

impl Server {
    /// Each request is answered by its own head.
    fn plain() -> Self {
        Self::by(|stream, requests| {
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            while let Some(head) = head(&mut reader) {
                requests.fetch_add(1, Ordering::SeqCst);
                let body = head.join("\n");
                let length = body.len();
                let text = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{body}");
                if stream.write_all(text.as_bytes()).is_err() {
                    return;
                }
            }
        })
    }

    fn by(answer: impl Fn(&mut TcpStream, &AtomicUsize) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::<AtomicUsize>::default();
        let (count, answer) = (Arc::clone(&requests), Arc::new(answer));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (count, answer) = (Arc::clone(&count), Arc::clone(&answer));
                std::thread::spawn(move || answer(&mut stream.unwrap(), &count));
            }
        });
        Self { address, requests }
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }
}

/// The lines of a head; `None` at the end of the connection.
fn head(reader: &mut impl BufRead) -> Option<Vec<String>> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        match line.trim_end() {
            "" => return Some(lines),
            line => lines.push(line.to_owned()),
        }
    }
}

struct Client(BufReader<TcpStream>);

struct Answer {
    status: u16,
    body: String,
    took: Duration,
}

impl Client {
    fn to(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self(BufReader::new(stream))
    }

    fn send(&mut self, text: &str) {
        self.0.get_mut().write_all(text.as_bytes()).unwrap();
    }

    fn get(&mut self, path: &str, headers: &str) -> Answer {
        let start = Instant::now();
        self.send(&format!(
            "GET {path} HTTP/1.1\r\nHost: test\r\n{headers}\r\n"
        ));
        self.answer(start)
    }

    fn answer(&mut self, start: Instant) -> Answer {
        let head = head(&mut self.0).expect("an answer");
        let took = start.elapsed();
        let length = head.iter().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            let is_length = name.eq_ignore_ascii_case("content-length");
            is_length.then(|| value.trim().parse().unwrap())
        });
        let mut body = vec![0; length.unwrap_or(0)];
        self.0.read_exact(&mut body).unwrap();
        Answer {
            status: head[0].split(' ').nth(1).unwrap().parse().unwrap(),
            body: String::from_utf8(body).unwrap(),
            took,
        }
    }
}

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

#[test]
fn a_request_is_held_for_most_of_its_deadline() {
    let server = Server::plain();
    let proxy = Proxy::staged(&server, ms(3000));
    let mut client = Client::to(proxy.addresses[0]);
    let headers = "x-forwarded-for: 10.0.0.1\r\nConnection: x-mine\r\nx-mine: 1\r\n";
    let answer = client.get("/a?b=c", headers);
    assert!(answer.took > ms(400), "{:?}", answer.took);
    // What the server got.
    for line in [
        "GET /a?b=c HTTP/1.1",
        "host: test",
        "x-forwarded-for: 10.0.0.1, 127.0.0.1",
    ] {
        let has_line = answer.body.lines().any(|one| one == line);
        assert!(has_line, "{line}: {}", answer.body);
    }
    assert!(!answer.body.contains("x-mine"));
    // Exempt, and with a deadline of its own.
    let exempt = client.get("/healthz", "");
    // A machine that is busy may need most of a short one for the answer itself.
    let own = client.get("/", "x-reveille-deadline-ms: 1500\r\n");
    assert!(
        exempt.took + ms(750) < answer.took && own.took + ms(750) < answer.took,
        "{:?} {:?} {:?}",
        exempt.took,
        own.took,
        answer.took
    );
    let counts = proxy.end().counts;
    assert_eq!((counts.requests, counts.held), (23, 2));
    assert_eq!((counts.passed_learning, counts.passed_exempt), (20, 1));
    assert_eq!(counts.latency_s.count(), 23);
}

#[test]
fn held_requests_go_together_and_once() {
    let server = Server::plain();
    let proxy = Proxy::staged(&server, ms(4000));
    let address = proxy.addresses[0];
    let client = move || Client::to(address).get("/", "").took;
    // A burst is at most twice the largest one that was learnt, and these are of one.
    let first = std::thread::spawn(client);
    proxy.wait_for_held(1);
    assert_eq!(server.requests(), 20);
    let second = std::thread::spawn(client);
    let (first, second) = (first.join().unwrap(), second.join().unwrap());
    assert!(second < first, "{second:?} {first:?}");
    assert_eq!(server.requests(), 22);
    let served = proxy.end();
    assert_eq!(
        (served.counts.bursts, served.held_now, served.open_now),
        (1, 0, 0)
    );
}

#[test]
fn the_end_releases_what_is_held() {
    let server = Server::plain();
    let proxy = Proxy::staged(&server, HOUR);
    let address = proxy.addresses[0];
    let client = std::thread::spawn(move || Client::to(address).get("/", ""));
    proxy.wait_for_held(1);
    let served = proxy.end();
    assert_eq!(client.join().unwrap().status, 200);
    assert_eq!(
        (served.held_now, served.open_now, served.counts.failed),
        (0, 0, 0)
    );
    assert!(TcpStream::connect(address).is_err(), "it listens still");
}

#[test]
fn a_client_that_is_gone_is_not_asked_for() {
    let server = Server::plain();
    let proxy = Proxy::staged(&server, HOUR);
    let mut client = Client::to(proxy.addresses[0]);
    client.send("GET / HTTP/1.1\r\nHost: test\r\n\r\n");
    proxy.wait_for_held(1);
    // By a reset: an end without one may be that of a client that waits for its answer.
    let at_once = nix::libc::linger {
        l_onoff: 1,
        l_linger: 0,
    };
    setsockopt(client.0.get_ref(), sockopt::Linger, &at_once).unwrap();
    drop(client);
    proxy.wait_for_held(0);
    let served = proxy.end();
    assert_eq!((server.requests(), served.open_now), (20, 0));
    assert_eq!(served.counts.gone, 1);
}

#[test]
fn a_reload_changes_the_services_and_releases_what_is_held() {
    let server = Server::plain();
    let mut first = service(&server.url(), HOUR);
    // A port that is free, as a reload names the same address.
    let free = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    first.listen = free.local_addr().unwrap();
    drop(free);
    let proxy = Proxy::of(first.clone());
    proxy.learns();
    let mut before = Client::to(proxy.addresses[0]);
    before.send("GET /a HTTP/1.1\r\nHost: test\r\n\r\n");
    proxy.wait_for_held(1);
    let reload = |services: Vec<Service>| {
        let config = Box::new(Config { services });
        proxy.events.send(Event::Reload(config)).unwrap();
    };
    reload(Vec::new());
    let mut second = first.clone();
    second.direct = true;
    reload(vec![second]);
    assert_eq!(before.answer(Instant::now()).status, 200);
    // The same connection, under the new rules.
    assert!(before.get("/b", "").took < PATIENCE);
    // The account goes on.
    assert_eq!(proxy.served().counts.requests, 22);
    let log = proxy.log.lock().unwrap().join("\n");
    assert!(
        log.contains("no service; the services are as before"),
        "{log}"
    );
    assert!(log.contains("reloaded: 1 service"), "{log}");
}

#[test]
fn a_server_that_is_down_or_talks_rubbish_is_an_error_of_one_line() {
    let closed = TcpListener::bind(("127.0.0.1", 0))
        .unwrap()
        .local_addr()
        .unwrap();
    let rubbish = Server::by(|stream, _| {
        head(&mut BufReader::new(stream.try_clone().unwrap()));
        let _ = stream.write_all(b"\x16\x03\x01 what\r\n\r\n");
    });
    let reset = Server::by(|stream, _| {
        head(&mut BufReader::new(stream.try_clone().unwrap()));
    });
    for url in [format!("http://{closed}"), rubbish.url(), reset.url()] {
        let proxy = Proxy::of(service(&url, ms(500)));
        let mut client = Client::to(proxy.addresses[0]);
        for _ in 0..3 {
            let answer = client.get("/", "");
            assert_eq!(answer.status, 502);
            let line = "reveille stage: the server does not answer: ";
            assert!(answer.body.starts_with(line), "{}", answer.body);
            assert_eq!(answer.body.matches('\n').count(), 1);
            assert!(!answer.body.contains("client error"), "{}", answer.body);
        }
        let served = proxy.end();
        // Nothing is learnt of failures, so nothing is held.
        assert_eq!(
            (served.counts.failed, served.counts.held, served.open_now),
            (3, 0, 0)
        );
        assert_eq!(served.one_request_s, None);
    }
}

/// In HTTP/1.1 and HTTP/2, and once it is gone.
#[test]
fn a_server_at_a_unix_socket_is_asked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a socket");
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    listener.set_nonblocking(true).unwrap();
    let serves = async move {
        let listener = tokio::net::UnixListener::from_std(listener).unwrap();
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let answer = service_fn(|request: Request<Incoming>| async move {
                let host = request.headers().get("host");
                let host = host.map_or("", |host| host.to_str().unwrap());
                let body = format!("{:?} {host}", request.version());
                Ok::<_, Infallible>(Response::new(body))
            });
            tokio::spawn(async move {
                let server = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
                let _ = server.serve_connection(TokioIo::new(stream), answer).await;
            });
        }
    };
    std::thread::spawn(|| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.unwrap().block_on(serves);
    });
    for (scheme, answer) in [("unix", "HTTP/1.1 test"), ("unix+h2c", "HTTP/2.0 ")] {
        let proxy = Proxy::of(service(&format!("{scheme}:{}", path.display()), ms(300)));
        let mut client = Client::to(proxy.addresses[0]);
        for _ in 0..21 {
            assert_eq!(client.get("/", "").body, answer);
        }
        assert_eq!(proxy.end().counts.held, 1);
    }
    std::fs::remove_file(&path).unwrap();
    let proxy = Proxy::of(service(&format!("unix:{}", path.display()), ms(300)));
    let answer = Client::to(proxy.addresses[0]).get("/", "");
    assert_eq!(answer.status, 502);
    assert!(answer.body.contains("No such file"), "{}", answer.body);
    let log = proxy.log.lock().unwrap().join("\n");
    assert!(log.contains(&format!("unix:{}", path.display())), "{log}");
}

/// A frame of HTTP/2 (RFC 9113, section 4.1).
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// A server of HTTP/2 that answers the first two requests of each connection, and then ends it, as servers do after some
/// number of them (nginx's `keepalive_requests`). The answer is how many bytes the body has.
fn ends_after_two(stream: &mut TcpStream, answered: &AtomicUsize) {
    const DATA: u8 = 0;
    const HEADERS: u8 = 1;
    const SETTINGS: u8 = 4;
    const GOAWAY: u8 = 7;
    const END_STREAM: u8 = 1;
    const ACK: u8 = 1;
    const END_HEADERS: u8 = 4;
    // Of HPACK's static table: `:status: 200`, and `content-length` with a value (RFC 7541, appendix A).
    const STATUS_200: u8 = 0x88;
    const CONTENT_LENGTH: [u8; 2] = [0x0f, 28 - 15];
    let mut preface = [0; 24];
    let _ = stream.read_exact(&mut preface);
    let mut bodies = std::collections::BTreeMap::new();
    let _ = stream.write_all(&frame(SETTINGS, 0, 0, &[]));
    let mut head = [0; 9];
    while stream.read_exact(&mut head).is_ok() {
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; length as usize];
        let _ = stream.read_exact(&mut payload);
        let (kind, flags) = (head[3], head[4]);
        let number = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        match kind {
            SETTINGS if flags & ACK == 0 => {
                let _ = stream.write_all(&frame(SETTINGS, ACK, 0, &[]));
            }
            HEADERS => {
                bodies.insert(number, 0);
            }
            DATA => *bodies.entry(number).or_default() += payload.len(),
            _ => {}
        }
        if !matches!(kind, DATA | HEADERS) || flags & END_STREAM == 0 || number > 3 {
            continue;
        }
        answered.fetch_add(1, Ordering::SeqCst);
        let body = bodies[&number].to_string();
        let mut fields = vec![STATUS_200];
        fields.extend(CONTENT_LENGTH);
        fields.extend([1, b'0' + body.len() as u8]);
        let mut answer = frame(HEADERS, END_HEADERS, number, &fields);
        answer.extend(frame(DATA, END_STREAM, number, body.as_bytes()));
        if number == 3 {
            answer.extend(frame(GOAWAY, 0, 0, &[0, 0, 0, 3, 0, 0, 0, 0]));
        }
        let _ = stream.write_all(&answer);
    }
}

#[test]
fn what_a_server_refuses_as_it_ends_a_connection_is_sent_again() {
    let server = Server::by(ends_after_two);
    let proxy = Proxy::of(service(&format!("h2c://{}", server.address), ms(400)));
    let address = proxy.addresses[0];
    let post = move |bytes: usize| {
        let mut client = Client::to(address);
        client.send(&format!(
            "POST / HTTP/1.1\r\nHost: test\r\nContent-Length: {bytes}\r\n\r\n{}",
            "x".repeat(bytes)
        ));
        client.answer(Instant::now())
    };
    for _ in 0..21 {
        assert_eq!(post(7).body, "7");
    }
    // A burst of them.
    let bursts: Vec<_> = (0..12)
        .map(|nth| std::thread::spawn(move || (nth * 1000, post(nth * 1000))))
        .collect();
    for one in bursts {
        let (bytes, answer) = one.join().unwrap();
        assert_eq!((answer.status, answer.body), (200, bytes.to_string()));
    }
    let counts = proxy.end().counts;
    assert_eq!((counts.requests, counts.failed), (33, 0));
    assert_eq!(server.requests(), 33);
}

/// The kernel refuses at once what its queue has no room for.
#[test]
fn a_burst_waits_for_room_in_the_queue_of_a_unix_socket() {
    use nix::sys::socket::{
        AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind, listen, socket,
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let bound = socket(
        AddressFamily::Unix,
        SockType::Stream,
        SockFlag::empty(),
        None,
    )
    .unwrap();
    bind(bound.as_raw_fd(), &UnixAddr::new(&path).unwrap()).unwrap();
    listen(&bound, Backlog::new(1).unwrap()).unwrap();
    let listener = std::os::unix::net::UnixListener::from(bound);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            std::thread::sleep(ms(5));
            head(&mut BufReader::new(stream.try_clone().unwrap()));
            let _ = stream
                .write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
        }
    });
    let proxy = direct(&format!("unix:{}", path.display()));
    let mut clients: Vec<Client> = (0..20).map(|_| Client::to(proxy.addresses[0])).collect();
    for client in &mut clients {
        client.send("GET / HTTP/1.1\r\nHost: test\r\n\r\n");
    }
    let start = Instant::now();
    for client in &mut clients {
        assert_eq!(client.answer(start).status, 200);
    }
}

#[test]
fn half_a_response_is_cut_off_for_the_client_too() {
    let server = Server::by(|stream, _| {
        head(&mut BufReader::new(stream.try_clone().unwrap()));
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhalf");
    });
    let proxy = Proxy::of(service(&server.url(), ms(500)));
    let mut client = Client::to(proxy.addresses[0]);
    client.send("GET / HTTP/1.1\r\nHost: test\r\n\r\n");
    let mut all = Vec::new();
    let _ = client.0.read_to_end(&mut all);
    assert!(all.starts_with(b"HTTP/1.1 200") && all.len() < 1000);
}

#[test]
fn shapes_of_request_smuggling_never_reach_the_server_as_two() {
    let server = Server::plain();
    let proxy = Proxy::of(service(&server.url(), ms(500)));
    let hidden = "GET /hidden HTTP/1.1\r\nHost: test\r\n\r\n";
    let length = hidden.len();
    for shape in [
        format!("Content-Length: 0\r\nContent-Length: {length}\r\n\r\n{hidden}"),
        format!("Content-Length: {length}, 0\r\n\r\n{hidden}"),
        format!(
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n{hidden}"
        ),
        format!("Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n{hidden}"),
        format!("Content-Length: +{length}\r\n\r\n{hidden}"),
        format!("Content-Length : {length}\r\n\r\n{hidden}"),
        format!("Transfer-Encoding: chunked\r\n\r\n-1\r\n{hidden}"),
        format!("Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n{hidden}"),
        format!("X: a\r\n b\r\nTransfer-Encoding:\x0bchunked\r\n\r\n{hidden}"),
    ] {
        let before = server.requests();
        let mut client = Client::to(proxy.addresses[0]);
        client.send(&format!("POST / HTTP/1.1\r\nHost: test\r\n{shape}"));
        let mut all = Vec::new();
        client.0.get_ref().set_read_timeout(Some(ms(500))).unwrap();
        let _ = client.0.read_to_end(&mut all);
        let all = String::from_utf8_lossy(&all);
        assert!(!all.contains("GET /hidden"), "{shape}\n{all}");
        assert!(server.requests() <= before + 1, "{shape}");
    }
}

/// A head with both lengths is refused, or the chunks count (RFC 9112, section 6.1); the server never sees both.
#[test]
fn a_server_never_gets_two_lengths() {
    let server = Server::plain();
    let proxy = Proxy::of(service(&server.url(), ms(500)));
    let mut client = Client::to(proxy.addresses[0]);
    client.send(
        "POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    );
    let answer = client.answer(Instant::now());
    let body = answer.body.to_ascii_lowercase();
    assert!(
        !(body.contains("content-length") && body.contains("transfer-encoding")),
        "{body}"
    );
}

#[test]
fn a_head_without_an_end_is_refused_and_others_are_served() {
    let server = Server::plain();
    let proxy = Proxy::of(service(&server.url(), ms(500)));
    let mut endless = Client::to(proxy.addresses[0]);
    endless.send("GET / HTTP/1.1\r\nHost: test\r\n");
    let line = format!("X-A: {}\r\n", "a".repeat(8000));
    let mut written = 0;
    while endless.0.get_mut().write_all(line.as_bytes()).is_ok() && written < 200 {
        written += 1;
        std::thread::sleep(ms(2));
    }
    assert_eq!(endless.answer(Instant::now()).status, 431, "{written}");
    // Silent connections, and one that is served beside them.
    let connect = |_| TcpStream::connect(proxy.addresses[0]).unwrap();
    let silent: Vec<TcpStream> = (0..400).map(connect).collect();
    assert_eq!(
        Client::to(proxy.addresses[0]).get("/healthz", "").status,
        200
    );
    drop(silent);
}

#[test]
fn bodies_stream_both_ways() {
    // It sends back each line as it comes.
    let server = Server::by(|stream, _| {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        head(&mut reader);
        let head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        stream.write_all(head).unwrap();
        let mut line = String::new();
        while reader.read_line(&mut line).unwrap_or(0) > 0 {
            if line.contains("part") {
                write!(stream, "{:x}\r\n{line}\r\n", line.len()).unwrap();
            }
            line.clear();
        }
    });
    let proxy = Proxy::of(service(&server.url(), ms(500)));
    let mut client = Client::to(proxy.addresses[0]);
    client.send("POST / HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n");
    for part in ["part one\n", "part two\n"] {
        client.send(&format!("{:x}\r\n{part}\r\n", part.len()));
        loop {
            let mut line = String::new();
            assert!(client.0.read_line(&mut line).unwrap() > 0);
            if line == part {
                break;
            }
        }
    }
}

#[test]
fn an_upgraded_connection_is_a_tunnel() {
    let server = Server::by(|stream, _| {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let head = head(&mut reader).unwrap();
        let is_upgrade = |line: &String| line.eq_ignore_ascii_case("upgrade: echo");
        assert!(head.iter().any(is_upgrade), "{head:?}");
        let switch =
            b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n";
        stream.write_all(switch).unwrap();
        let mut buffer = [0; 64];
        while let Ok(read @ 1..) = reader.read(&mut buffer) {
            stream.write_all(&buffer[..read]).unwrap();
        }
    });
    let proxy = Proxy::of(service(&server.url(), ms(500)));
    let mut client = Client::to(proxy.addresses[0]);
    client.send(
        "GET / HTTP/1.1\r\nHost: test\r\nConnection: keep-alive, Upgrade\r\nUpgrade: echo\r\n\r\n",
    );
    let head = head(&mut client.0).unwrap();
    assert!(head[0].contains("101"), "{head:?}");
    for text in ["one", "two"] {
        client.send(text);
        let mut back = [0; 3];
        client.0.read_exact(&mut back).unwrap();
        assert_eq!(back, text.as_bytes());
    }
    // Others do not pass because of it.
    assert_eq!(proxy.served().open_now, 0);
}

#[test]
fn connect_is_passed_on() {
    let server = Server::by(|stream, _| {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let head = head(&mut reader).unwrap();
        assert_eq!(head[0], "CONNECT somewhere:7 HTTP/1.1");
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\nhello").unwrap();
        let mut buffer = [0; 3];
        reader.read_exact(&mut buffer).unwrap();
        stream.write_all(&buffer).unwrap();
    });
    let proxy = Proxy::of(service(&server.url(), ms(500)));
    let mut client = Client::to(proxy.addresses[0]);
    client.send("CONNECT somewhere:7 HTTP/1.1\r\nHost: somewhere:7\r\n\r\n");
    let head = head(&mut client.0).unwrap();
    assert!(head[0].contains("200"), "{head:?}");
    client.send("bye");
    let mut back = [0; 8];
    client.0.read_exact(&mut back).unwrap();
    assert_eq!(&back, b"hellobye");
}

/// A stream that is there already.
struct Frames<I>(I);

impl<I: Iterator + Unpin> futures_core::Stream for Frames<I> {
    type Item = I::Item;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<I::Item>> {
        std::task::Poll::Ready(self.0.next())
    }
}

type Message = StreamBody<Frames<std::array::IntoIter<Part, 2>>>;
type Part = std::result::Result<Frame<Bytes>, Infallible>;

/// A message and a trailer.
fn message(text: &'static str, name: &'static str, value: &'static str) -> Message {
    let mut trailers = HeaderMap::new();
    trailers.insert(name, value.parse().unwrap());
    let frames = [
        Frame::data(Bytes::from_static(text.as_bytes())),
        Frame::trailers(trailers),
    ];
    StreamBody::new(Frames(frames.map(Ok).into_iter()))
}

/// A gRPC server's way: HTTP/2 without TLS, a message, and trailers.
#[test]
fn http2_passes_with_its_trailers() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let proxy = Proxy::of(service(&format!("h2c://{address}"), ms(500)));
    let to = proxy.addresses[0];
    runtime.unwrap().block_on(async move {
        let listener = tokio::net::TcpListener::from_std(listener).unwrap();
        tokio::spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            let answer = service_fn(|request: Request<Incoming>| async move {
                assert_eq!(request.headers()["te"], "trailers");
                let all = request.into_body().collect().await.unwrap();
                assert_eq!(all.trailers().unwrap()["x-end"], "client");
                Ok::<_, Infallible>(Response::new(message("reply", "grpc-status", "0")))
            });
            let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            let _ = server.serve_connection(TokioIo::new(stream), answer).await;
        });
        let stream = tokio::net::TcpStream::connect(to).await.unwrap();
        let connected =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
        let (mut client, connection) = connected.await.unwrap();
        tokio::spawn(connection);
        let request = Request::post("http://test/a.B/C").header("te", "trailers");
        let request = request
            .header("grpc-timeout", "200m")
            .body(message("ask", "x-end", "client"));
        let response = client.send_request(request.unwrap()).await.unwrap();
        let all = response.into_body().collect().await.unwrap();
        assert_eq!(all.trailers().unwrap()["grpc-status"], "0");
        assert_eq!(all.to_bytes(), Bytes::from_static(b"reply"));
    });
}

#[test]
fn metrics_and_the_state_can_be_read() {
    let server = Server::plain();
    let proxy = Proxy::staged(&server, ms(500));
    let mut client = Client::to(proxy.addresses[1]);
    let metrics = client.get("/metrics", "").body;
    for line in [
        "reveille_stage_requests_total{service=\"test\"} 20\n",
        "reveille_stage_released_total{service=\"test\",why=\"learning\"} 20\n",
        "reveille_stage_latency_seconds_count{service=\"test\"} 20\n",
    ] {
        assert!(metrics.contains(line), "{metrics}");
    }
    let status = client.get("/status", "").body;
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    assert_eq!(status[0]["requests"], 20);
    assert_eq!(client.get("/", "").status, 404);
}

#[test]
fn a_deadline_that_cannot_be_kept_is_said_once_and_passes() {
    let server = Server::by(|stream, _| {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        while head(&mut reader).is_some() {
            std::thread::sleep(ms(30));
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        }
    });
    let proxy = Proxy::of(service(&server.url(), ms(20)));
    let mut client = Client::to(proxy.addresses[0]);
    for _ in 0..25 {
        client.get("/", "");
    }
    let log = proxy.log.lock().unwrap().clone();
    assert_eq!(log.len(), 1, "{log:?}");
    assert!(
        log[0].contains("a deadline of 20.0 ms leaves no time to hold it"),
        "{log:?}"
    );
    let counts = proxy.end().counts;
    assert_eq!((counts.passed_deadline, counts.held), (5, 0));
    // It is the server's fault, by the account.
    assert_eq!((counts.missed, counts.late), (0, 25));
}

#[test]
fn many_requests_are_all_answered_once() {
    let server = Server::plain();
    let proxy = Proxy::staged(&server, ms(600));
    let address = proxy.addresses[0];
    let client = |nth: u64| {
        std::thread::spawn(move || {
            let mut client = Client::to(address);
            let mut random = fastrand::Rng::with_seed(nth);
            for one in 0..10 {
                std::thread::sleep(ms(random.u64(0..50)));
                let answer = client.get(&format!("/{nth}/{one}"), "");
                let is_its = answer.body.starts_with(&format!("GET /{nth}/{one} "));
                assert!(answer.status == 200 && is_its);
            }
        })
    };
    let clients: Vec<_> = (0..20).map(client).collect();
    for client in clients {
        client.join().unwrap();
    }
    let served = proxy.end();
    let why = &served.counts;
    assert_eq!((server.requests(), why.requests, why.failed), (220, 220, 0));
    assert_eq!((served.held_now, served.open_now), (0, 0));
    let passed = why.passed_awake + why.passed_learning + why.passed_deadline + why.passed_busy;
    assert_eq!(why.held + passed, 220);
    // How many, other load decides.
    assert!(why.held > 0, "{why:?}");
}

/// A proxy that holds nothing, in front of that server.
fn direct(url: &str) -> Proxy {
    let mut service = service(url, HOUR);
    service.direct = true;
    Proxy::of(service)
}

fn status_of(proxy: &Proxy, request: &str) -> u16 {
    let mut client = Client::to(proxy.addresses[0]);
    client.send(request);
    client.answer(Instant::now()).status
}

#[test]
fn a_request_needs_one_valid_host() {
    let server = Server::plain();
    let proxy = direct(&server.url());
    for wrong in [
        "GET / HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a b/@c\r\n\r\n",
        "GET http://u:p@evil/ HTTP/1.1\r\nHost: good\r\n\r\n",
    ] {
        assert_eq!(status_of(&proxy, wrong), 400, "{wrong}");
    }
    let mut client = Client::to(proxy.addresses[0]);
    // The target's authority is whom it is for.
    client.send("GET http://other/x HTTP/1.1\r\nHost: good\r\n\r\n");
    let body = client.answer(Instant::now()).body;
    assert!(
        body.contains("host: other") && body.contains("GET /x "),
        "{body}"
    );
    client.send("GET /y HTTP/1.1\r\nHost: good\r\nConnection: host\r\n\r\n");
    let body = client.answer(Instant::now()).body;
    assert!(body.contains("host: good"), "{body}");
    assert_eq!(server.requests(), 2);
    let counts = proxy.end().counts;
    assert_eq!((counts.refused, counts.failed), (4, 0));
}

#[test]
fn cookies_are_one_line_and_upgrades_to_http2_are_not_passed_on() {
    let server = Server::plain();
    let proxy = direct(&server.url());
    let mut client = Client::to(proxy.addresses[0]);
    let headers = "cookie: a=1\r\ncookie: b=2\r\nConnection: upgrade, http2-settings\r\n\
                   Upgrade: h2c, x\r\nHTTP2-Settings: AAMAAABk\r\n";
    let body = client.get("/", headers).body.to_lowercase();
    assert!(body.contains("cookie: a=1; b=2"), "{body}");
    assert!(
        !body.contains("upgrade") && !body.contains("http2-settings"),
        "{body}"
    );
}

/// A server that closes each connection after its first answer, as the next request comes.
#[test]
fn a_connection_that_the_server_has_just_closed_is_no_error_of_the_client() {
    let server = Server::by(|stream, requests| {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        if head(&mut reader).is_some() {
            requests.fetch_add(1, Ordering::SeqCst);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        }
        // The next one is read and not answered.
        let _ = head(&mut reader);
    });
    let proxy = direct(&server.url());
    let mut client = Client::to(proxy.addresses[0]);
    for _ in 0..10 {
        assert_eq!(client.get("/", "").status, 200);
    }
    // One that changes something is not sent twice.
    let requests = server.requests();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
    let status = client.answer(Instant::now()).status;
    assert!(
        status == 502 || server.requests() == requests + 1,
        "{status}"
    );
}

#[test]
fn the_next_server_takes_what_the_first_does_not() {
    let server = Server::plain();
    let mut service = service("http://127.0.0.1:9", HOUR);
    service.upstreams.push(server.url().parse().unwrap());
    service.direct = true;
    let proxy = Proxy::of(service);
    let mut client = Client::to(proxy.addresses[0]);
    for _ in 0..6 {
        assert_eq!(client.get("/", "").status, 200);
    }
    // Said once, not at each turn.
    assert_eq!(proxy.log.lock().unwrap().len(), 1);
    assert_eq!(proxy.end().counts.failed, 0);
}

#[test]
fn the_end_does_not_wait_for_who_asks_nothing_and_can_be_hurried() {
    let server = Server::by(|stream, _| {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        while head(&mut reader).is_some() {}
        drop(stream.shutdown(std::net::Shutdown::Both));
    });
    let proxy = direct(&server.url());
    let mut silent = Client::to(proxy.addresses[0]);
    silent.send("GET / HTTP/1.1\r\nHo");
    let nothing = TcpStream::connect(proxy.addresses[0]).unwrap();
    std::thread::sleep(ms(100));
    let began = Instant::now();
    proxy.end();
    assert!(
        began.elapsed() < Duration::from_secs(10),
        "{:?}",
        began.elapsed()
    );
    drop((silent, nothing));
    // The server never answers.
    let proxy = direct(&server.url());
    let mut client = Client::to(proxy.addresses[0]);
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    std::thread::sleep(ms(100));
    let began = Instant::now();
    proxy.events.send(Event::Stop).unwrap();
    std::thread::sleep(ms(300));
    proxy.end();
    assert!(
        began.elapsed() < Duration::from_secs(10),
        "{:?}",
        began.elapsed()
    );
}

#[test]
fn a_slow_client_and_one_that_breaks_off_are_not_the_servers_fault() {
    let server = Server::by(|stream, requests| {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        while let Some(lines) = head(&mut reader) {
            let length = lines.iter().find_map(|line| {
                let (name, value) = line.split_once(':')?;
                name.eq_ignore_ascii_case("content-length")
                    .then(|| value.trim().parse::<usize>().unwrap())
            });
            let mut body = vec![0; length.unwrap_or(0)];
            if reader.read_exact(&mut body).is_err() {
                return;
            }
            requests.fetch_add(1, Ordering::SeqCst);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        }
    });
    let proxy = Proxy::staged(&server, ms(1500));
    let learnt = proxy.served().one_request_s.unwrap();
    let mut slow = Client::to(proxy.addresses[0]);
    slow.send("POST /healthz HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n");
    let mut held = Client::to(proxy.addresses[0]);
    held.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n");
    std::thread::sleep(ms(2500));
    slow.send("abc");
    held.send("abc");
    assert_eq!(slow.answer(Instant::now()).status, 200);
    assert_eq!(held.answer(Instant::now()).status, 200);
    let now = proxy.served();
    // The second that the client took is in no figure; what other load takes may be.
    let latency_s = now.counts.latency_s.sum;
    assert!(now.counts.late == 0 && latency_s < 2.4, "{now:?}");
    assert!(now.one_request_s.unwrap() < learnt + 0.5, "{now:?}");
    let broken = "POST /healthz HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n";
    assert_eq!(status_of(&proxy, broken), 400);
    let counts = proxy.end().counts;
    assert_eq!((counts.failed, counts.refused), (0, 1));
}

#[test]
fn a_proxy_in_front_of_itself_says_so() {
    let free = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let mut service = service(&format!("http://{address}"), HOUR);
    (service.listen, service.direct) = (address, true);
    let proxy = Proxy::of(service);
    assert_eq!(status_of(&proxy, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"), 508);
    assert_eq!(proxy.end().counts.requests, 2);
}

/// A server that becomes a tunnel: it sends `lines` lines, one each 200 ms, and waits for the client's end.
fn tunnel(lines: usize) -> Server {
    Server::by(move |stream, _| {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        head(&mut reader).unwrap();
        let switch =
            "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n";
        let _ = stream.write_all(switch.as_bytes());
        for _ in 0..lines {
            std::thread::sleep(ms(200));
            let _ = stream.write_all(b"line\n");
        }
        let _ = reader.read_to_end(&mut Vec::new());
    })
}

const UPGRADE: &str = "GET / HTTP/1.1\r\nHost: test\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n";

#[test]
fn a_tunnel_ends_with_its_service_once_nothing_passes() {
    let server = tunnel(15);
    let proxy = Proxy::of(service(&server.url(), ms(500)));
    let mut client = Client::to(proxy.addresses[0]);
    client.send(UPGRADE);
    assert!(head(&mut client.0).unwrap()[0].contains("101"));
    proxy.events.send(Event::Stop).unwrap();
    let mut all = String::new();
    client.0.read_to_string(&mut all).unwrap();
    assert_eq!(all, "line\n".repeat(15));
    let began = Instant::now();
    drop(proxy);
    assert!(began.elapsed() < Duration::from_secs(3));
    // And with one that a reload ends.
    let server = tunnel(0);
    let first = service(&server.url(), ms(500));
    let proxy = Proxy::of(first.clone());
    let mut client = Client::to(proxy.addresses[0]);
    client.send(UPGRADE);
    assert!(head(&mut client.0).unwrap()[0].contains("101"));
    let listen = ([127, 0, 0, 2], 0).into();
    proxy.reload(vec![Service { listen, ..first }]);
    assert_eq!(client.0.read_to_end(&mut Vec::new()).unwrap(), 0);
}

/// Of `address`, within a while.
fn is_served(address: SocketAddr, is_served: bool) {
    let end = Instant::now() + PATIENCE;
    while TcpStream::connect(address).is_ok() != is_served {
        assert!(Instant::now() < end, "{address}");
        std::thread::sleep(ms(20));
    }
}

#[test]
fn a_reload_changes_the_address_of_a_port() {
    let server = Server::plain();
    let free = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let of = |address: [u8; 4]| {
        let mut one = service(&server.url(), ms(500));
        one.listen = (address, port).into();
        one
    };
    let (narrow, other) = ([127, 0, 0, 1], SocketAddr::from(([127, 0, 0, 2], port)));
    let proxy = Proxy::of(of([0, 0, 0, 0]));
    is_served(other, true);
    // One that fails changes nothing: the second service's port is taken.
    let taken = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let mut second = of(narrow);
    second.name = "second".into();
    second.listen = taken.local_addr().unwrap();
    proxy.reload(vec![of(narrow), second]);
    is_served(other, true);
    proxy.reload(vec![of(narrow)]);
    is_served(other, false);
    let get = || Client::to((narrow, port).into()).get("/", "").status;
    assert_eq!(get(), 200);
    // Nobody else gets the port.
    assert!(TcpListener::bind(("0.0.0.0", port)).is_err());
    proxy.reload(vec![of([0, 0, 0, 0])]);
    is_served(other, true);
    assert_eq!(get(), 200);
    let log = proxy.log.lock().unwrap().join("\n");
    assert_eq!(log.matches("reloaded: 1 service").count(), 2, "{log}");
    assert_eq!(
        log.matches("the services are as before").count(),
        1,
        "{log}"
    );
}

#[test]
fn no_counter_goes_back_at_a_reload() {
    let server = Server::plain();
    let first = service(&server.url(), ms(600));
    let proxy = Proxy::of(first.clone());
    proxy.learns();
    Client::to(proxy.addresses[0]).get("/", "");
    let bursts = |proxy: &Proxy| {
        let metrics = Client::to(proxy.addresses[1]).get("/metrics", "").body;
        metrics.contains("reveille_stage_bursts_total{service=\"test\"} 1\n")
    };
    assert!(bursts(&proxy));
    // The machine has another service, so that nothing is known of it.
    let percentile = Percentile::P99;
    proxy.reload(vec![Service {
        percentile,
        ..first
    }]);
    assert_eq!(proxy.served().one_request_s, None);
    assert!(bursts(&proxy));
}

#[test]
fn a_held_request_has_its_body_asked_for_at_once() {
    let server = Server::by(|stream, _| {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        while let Some(lines) = head(&mut reader) {
            let body = match lines.iter().any(|line| line == "content-length: 3") {
                true => {
                    let mut body = [0; 3];
                    reader.read_exact(&mut body).unwrap();
                    String::from_utf8(body.to_vec()).unwrap()
                }
                false => String::new(),
            };
            let length = body.len();
            let text = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{body}");
            let _ = stream.write_all(text.as_bytes());
        }
    });
    let proxy = Proxy::staged(&server, HOUR);
    let expect = |length: usize| {
        let mut client = Client::to(proxy.addresses[0]);
        client.send(&format!(
            "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: {length}\r\n\r\n"
        ));
        let head = head(&mut client.0).unwrap();
        assert_eq!(head, ["HTTP/1.1 100 Continue"]);
        client
    };
    // One that breaks off its body meanwhile is none.
    let broken = expect(3);
    proxy.wait_for_held(1);
    drop(broken);
    proxy.wait_for_held(0);
    assert_eq!(proxy.served().counts.refused, 1);
    // Not all of a long body is taken: the rest waits in the client.
    let mut long = expect(1 << 30);
    long.0.get_mut().set_write_timeout(Some(ms(500))).unwrap();
    let mib = vec![0; 1 << 20];
    let taken = (0..64).take_while(|_| long.0.get_mut().write_all(&mib).is_ok());
    assert!(taken.count() < 64);
    drop(long);
    let mut client = expect(3);
    client.send("abc");
    std::thread::sleep(ms(200));
    proxy.events.send(Event::Stop).unwrap();
    let answer = client.answer(Instant::now());
    assert_eq!((answer.status, &*answer.body), (200, "abc"));
}

#[test]
fn a_client_that_ends_its_side_gets_its_answer() {
    let server = Server::plain();
    let proxy = Proxy::staged(&server, ms(1000));
    // Held, and not.
    for path in ["/", "/healthz"] {
        let mut client = Client::to(proxy.addresses[0]);
        client.send(&format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
        let socket = client.0.get_ref();
        socket.shutdown(std::net::Shutdown::Write).unwrap();
        assert_eq!(client.answer(Instant::now()).status, 200, "{path}");
        // And the connection's end at once.
        let began = Instant::now();
        assert_eq!(client.0.read_to_end(&mut Vec::new()).unwrap(), 0);
        assert!(began.elapsed() < Duration::from_secs(5));
    }
    let counts = proxy.end().counts;
    assert_eq!((counts.held, counts.gone), (1, 0));
}

/// What comes to a server by its one connection, as it comes.
fn raw() -> (Server, Arc<Mutex<Vec<u8>>>) {
    let came: Arc<Mutex<Vec<u8>>> = Arc::default();
    let all = Arc::clone(&came);
    let server = Server::by(move |stream, _| {
        let mut buffer = [0; 4096];
        while let Ok(read @ 1..) = stream.read(&mut buffer) {
            let mut all = all.lock().unwrap();
            all.extend_from_slice(&buffer[..read]);
            if all.ends_with(b"0\r\n\r\n") || all.ends_with(b"abc") {
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
            }
        }
    });
    (server, came)
}

/// What a server may take in two ways is refused, or comes to it in one way (RFC 9112, sections 2.2, 6.1 and 7.1).
#[test]
fn a_server_sees_one_framing_and_whole_line_ends() {
    let host = "POST / HTTP/1.1\r\nHost: a\r\n";
    let chunked = "Transfer-Encoding: chunked\r\n\r\n";
    for (request, is_passed) in [
        // Chunks count, and the length is left out.
        (
            format!("{host}Content-Length: 3\r\n{chunked}3\r\nabc\r\n0\r\n\r\n"),
            true,
        ),
        (
            format!("{host}Content-Length: 0\r\n{chunked}3\r\nabc\r\n0\r\n\r\n"),
            true,
        ),
        // Line ends of one character: whole ones in front of the server.
        (
            "POST / HTTP/1.1\nHost: a\nContent-Length: 3\n\nabc".to_owned(),
            true,
        ),
        (
            "POST / HTTP/1.1\nHost: a\nTransfer-Encoding: chunked\n\n3\r\nabc\r\n0\r\n\r\n"
                .to_owned(),
            true,
        ),
        // But none within chunks.
        (format!("{host}{chunked}3\nabc\n0\n\n"), false),
        (format!("{host}{chunked}3\r\nabc\n0\r\n\r\n"), false),
        // Nor a carriage return alone.
        (format!("{host}X: a\rContent-Length: 3\r\n\r\nabc"), false),
    ] {
        let (server, came) = raw();
        let proxy = direct(&server.url());
        let status = status_of(&proxy, &request);
        let came = String::from_utf8(came.lock().unwrap().clone()).unwrap();
        if !is_passed {
            assert_eq!(status, 400, "{request:?}");
            // A body that breaks off may have begun; it has no end.
            assert!(!came.contains("\r\n0\r\n"), "{request:?}: {came:?}");
            continue;
        }
        assert_eq!(status, 200, "{request:?}");
        let (head, body) = came.split_once("\r\n\r\n").unwrap();
        let framings: Vec<&str> = head
            .split("\r\n")
            .filter(|line| {
                line.starts_with("content-length") || line.starts_with("transfer-encoding")
            })
            .collect();
        match framings[..] {
            ["content-length: 3"] => assert_eq!(body, "abc", "{request:?}"),
            ["transfer-encoding: chunked"] => {
                assert_eq!(body, "3\r\nabc\r\n0\r\n\r\n", "{request:?}");
            }
            _ => panic!("{request:?}: {came:?}"),
        }
        assert!(!head.replace("\r\n", "").contains(['\r', '\n']), "{came:?}");
    }
}

/// It reads the answer only once it has sent all, as many clients do.
#[test]
fn a_server_that_refuses_an_upload_is_heard() {
    let server = Server::by(|stream, _| {
        head(&mut BufReader::new(stream.try_clone().unwrap()));
        let refusal =
            "HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
        let _ = stream.write_all(refusal.as_bytes());
    });
    for (head, nth) in [
        ("Content-Length: 16777216", 0),
        ("Transfer-Encoding: chunked", 1),
    ] {
        let proxy = direct(&server.url());
        let mut client = Client::to(proxy.addresses[0]);
        client.send(&format!("POST / HTTP/1.1\r\nHost: a\r\n{head}\r\n\r\n"));
        let frame = [
            vec![b'x'; 1 << 20],
            [b"100000\r\n", &[b'x'; 1 << 20][..], b"\r\n"].concat(),
        ];
        for _ in 0..16 {
            client.0.get_mut().write_all(&frame[nth]).unwrap();
            std::thread::sleep(ms(5));
        }
        assert_eq!(client.answer(Instant::now()).status, 413, "{head}");
        proxy.end();
    }
}
