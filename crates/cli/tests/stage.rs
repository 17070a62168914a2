//! `reveille stage` as its users run it.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use std::{hint, thread};

use crate::port;
use crate::program;
use crate::program::without_terminal;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use reveille_alone::{Over, Part, Use, take};

fn stage(words: &[&str]) -> Command {
    let mut command = program::reveille();
    command.arg("stage").args(words);
    command
}

fn ended(words: &[&str]) -> (Option<i32>, String) {
    let Output { status, stderr, .. } = stage(words).output().unwrap();
    (status.code(), String::from_utf8(stderr).unwrap())
}

/// Started, once it listens.
fn started(words: &[&str]) -> (Child, BufReader<std::process::ChildStderr>) {
    started_by(stage(words))
}

fn started_by(mut command: Command) -> (Child, BufReader<std::process::ChildStderr>) {
    let mut child = without_terminal(&mut command)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut errors = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    errors.read_line(&mut line).unwrap();
    assert!(line.contains("answered within"), "{line}");
    (child, errors)
}

fn signal(child: &Child, signal: Signal) {
    kill(Pid::from_raw(child.id() as i32), signal).unwrap();
}

/// Its output, after it has ended well.
fn output(mut child: Child) -> String {
    let mut text = String::new();
    child
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut text)
        .unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    text
}

const DOWN: &str = "http://127.0.0.1:9";

#[test]
fn mistakes_get_one_line_and_an_exit_code() {
    let taken = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("stage.toml");
    fs::write(&file, "[[service]]\nname = 1\n").unwrap();
    let file = file.to_str().unwrap();
    // Opening it would wait.
    let fifo = folder.path().join("fifo");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let fifo = fifo.to_str().unwrap();
    let given = ["--upstream", DOWN, "--deadline", "500ms"];
    let with = |listen| [&["--listen", listen][..], &given[..]].concat();
    for (words, code, why) in [
        (vec![], 2, "--config"),
        (vec!["--listen", ":8080"], 2, "--upstream"),
        (with("here"), 2, "not an address"),
        (
            vec!["--listen", ":0", "--upstream", "a", "--deadline", "1s"],
            2,
            "is no upstream",
        ),
        (
            vec!["--listen", ":0", "--upstream", DOWN, "--deadline", "0s"],
            2,
            "a deadline of 0 cannot be kept",
        ),
        (
            [with(":0"), vec!["--percentile", "42"]].concat(),
            2,
            "not 90, 99, 99.9 or 99.99",
        ),
        (
            [
                with(":0"),
                vec!["--tls-certificate", "/none", "--tls-key", "/none"],
            ]
            .concat(),
            2,
            "/none",
        ),
        (
            [
                with(":0"),
                vec!["--tls-certificate", fifo, "--tls-key", fifo],
            ]
            .concat(),
            1,
            "is not a file",
        ),
        (with(&taken), 3, &taken),
        (vec!["--config", "/none"], 2, "/none"),
        (vec!["--config", file], 1, "line 2"),
        (vec!["bench", "--server-cpu", "9999"], 2, "CPU 9999"),
        (vec!["bench", "--rate", "0"], 2, "not a rate"),
    ] {
        let (ended, errors) = ended(&words);
        assert_eq!(ended, Some(code), "{words:?}: {errors}");
        assert!(errors.contains(why), "{words:?}: {errors}");
        assert!(code == 2 || errors.lines().count() == 1, "{errors}");
    }
}

#[test]
fn other_load_ends_its_bench_as_it_ends_other_measurements() {
    let _alone = take(&[Use::Beside(Part::Cpus)]);
    let is_over = AtomicBool::new(false);
    let (code, errors) = thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    hint::spin_loop();
                }
            });
        }
        let _over = Over(&is_over);
        ended(&["bench", "--rounds", "1", "--turn", "1s"])
    });
    assert_eq!(code, Some(1), "{errors}");
    assert!(errors.contains("other load took more than 25%"), "{errors}");
}

#[test]
fn it_ends_on_sigterm_with_its_account() {
    let listen = format!("127.0.0.1:{}", port::free());
    let words = [
        "--listen",
        &listen,
        "--upstream",
        DOWN,
        "--deadline",
        "500ms",
        "--json",
    ];
    let (child, _errors) = started(&words);
    signal(&child, Signal::SIGTERM);
    let account: serde_json::Value = serde_json::from_str(&output(child)).unwrap();
    assert_eq!(
        (&account[0]["requests"], &account[0]["missed"]),
        (&0.into(), &0.into())
    );
}

#[test]
fn sighup_reads_the_file_again_and_a_wrong_one_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("stage.toml");
    let listen = port::free();
    let service = format!(
        "[[service]]\nname = \"a\"\nlisten = \"127.0.0.1:{listen}\"\nupstream = [\"{DOWN}\"]\ndeadline = \"1s\"\n"
    );
    fs::write(&file, &service).unwrap();
    let (child, mut errors) = started(&["--config", file.to_str().unwrap()]);
    for (text, said) in [
        (service.replace("1s", "1"), "the services are as before"),
        (service.replace("1s", "2s"), "reloaded: 1 service"),
    ] {
        fs::write(&file, text).unwrap();
        signal(&child, Signal::SIGHUP);
        let mut line = String::new();
        errors.read_line(&mut line).unwrap();
        assert!(line.contains(said), "{line}");
    }
    signal(&child, Signal::SIGTERM);
    assert!(output(child).contains("0 of 0 requests held"));
}

/// A certificate of its own, as `openssl` makes it, and `curl`.
#[test]
fn clients_may_speak_tls_and_http2() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (certificate, key) = (path("certificate"), path("key"));
    let made = Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            "-days",
            "2",
        ])
        .args([
            "-subj",
            "/CN=localhost",
            "-addext",
            "subjectAltName=DNS:localhost",
        ])
        .args(["-keyout", &key, "-out", &certificate])
        .output();
    let has_curl = Command::new("curl").arg("--version").output().is_ok();
    if !made.is_ok_and(|made| made.status.success()) || !has_curl {
        return println!("skipped: TLS of stage: openssl or curl is missing");
    }
    let port = port::free();
    let listen = format!("127.0.0.1:{port}");
    let (child, _errors) = started(&[
        "--listen",
        &listen,
        "--upstream",
        DOWN,
        "--deadline",
        "500ms",
        "--tls-certificate",
        &certificate,
        "--tls-key",
        &key,
    ]);
    let curl = Command::new("curl")
        .args([
            "--silent",
            "--cacert",
            &certificate,
            "--resolve",
            &format!("localhost:{port}:127.0.0.1"),
        ])
        .args(["--write-out", "%{http_version} %{http_code}"])
        .arg(format!("https://localhost:{port}/"))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&curl.stdout);
    // No server is behind it.
    assert!(
        text.ends_with("2 502"),
        "{text} {}",
        String::from_utf8_lossy(&curl.stderr)
    );
    signal(&child, Signal::SIGTERM);
    assert!(output(child).contains("0 of 1 request held"));
}

#[test]
fn a_closed_pipe_or_a_full_disk_ends_it_with_a_code() {
    let listen = format!("127.0.0.1:{}", port::free());
    let mut child = stage(&[
        "--listen",
        &listen,
        "--upstream",
        DOWN,
        "--deadline",
        "500ms",
    ])
    .stdout(fs::File::create("/dev/full").unwrap())
    .stderr(Stdio::piped())
    .spawn()
    .unwrap();
    let mut errors = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    errors.read_line(&mut line).unwrap();
    thread::sleep(Duration::from_millis(50));
    signal(&child, Signal::SIGTERM);
    assert_eq!(child.wait().unwrap().code(), Some(1));
}

/// With 80 descriptors there are 8 connections of clients: those above the process's own, each with one to a server.
#[test]
fn tunnels_count_as_the_connections_that_they_were() {
    let server = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let upstream = format!("http://{}", server.local_addr().unwrap());
    thread::spawn(move || {
        for stream in server.incoming() {
            thread::spawn(move || {
                let mut reader = BufReader::new(stream.unwrap());
                let mut line = String::new();
                reader.read_line(&mut line).unwrap();
                let answer = match line.starts_with("CONNECT") {
                    true => "HTTP/1.1 200 OK\r\n\r\n",
                    false => {
                        "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n"
                    }
                };
                reader.get_mut().write_all(answer.as_bytes()).unwrap();
                let _ = reader.read_to_end(&mut Vec::new());
            });
        }
    });
    let address = format!("127.0.0.1:{}", port::free());
    let mut command = Command::new("sh");
    command
        .args(["-c", "ulimit -n 80; exec \"$0\" \"$@\""])
        .arg(env!("CARGO_BIN_EXE_reveille"))
        .args(["stage", "--listen", &address, "--upstream", &upstream])
        .args(["--deadline", "500ms"]);
    let (child, _errors) = started_by(command);
    let tunnel = |nth: usize| {
        let mut stream = TcpStream::connect(&address).unwrap();
        let head = match nth % 2 {
            0 => "CONNECT a:7 HTTP/1.1\r\nHost: a:7\r\n\r\n",
            _ => "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
        };
        stream.write_all(head.as_bytes()).unwrap();
        stream
    };
    let is_answered = |stream: &mut TcpStream, within: Duration| {
        stream.set_read_timeout(Some(within)).unwrap();
        stream.read(&mut [0; 512]).is_ok_and(|read| read > 0)
    };
    let long = Duration::from_secs(20);
    let mut tunnels: Vec<TcpStream> = (0..8).map(tunnel).collect();
    for stream in &mut tunnels {
        assert!(is_answered(stream, long));
    }
    let mut waits = tunnel(8);
    assert!(!is_answered(&mut waits, Duration::from_secs(1)));
    tunnels.pop();
    assert!(is_answered(&mut waits, long));
    // Nothing passes through them, so the end does not wait for theirs.
    signal(&child, Signal::SIGTERM);
    let began = std::time::Instant::now();
    output(child);
    assert!(began.elapsed() < Duration::from_secs(10));
}

/// A request announces the next one, and the server's machine gets to know.
#[test]
fn hints_of_clients_are_passed_on_to_the_servers_machine() {
    use std::io::Write;
    use std::net::{TcpStream, UdpSocket};

    use reveille_expect::remote::{Key, decode};

    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("key");
    fs::write(&key, "sixteen letters.\n").unwrap();
    fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let machine = UdpSocket::bind("127.0.0.1:0").unwrap();
    machine
        .set_read_timeout(Some(Duration::from_secs(30)))
        .unwrap();
    let hints = machine.local_addr().unwrap();
    let (listen, server) = (port::free(), port::free());
    let config = format!(
        "[[service]]\nname = \"a\"\nlisten = \"127.0.0.1:{listen}\"\nupstream = [\"http://127.0.0.1:{server}\"]\n\
         deadline = \"1s\"\ndirect = true\nhints = \"{hints}\"\nhint_key = \"{}\"\n",
        key.display()
    );
    let file = folder.path().join("stage.toml");
    fs::write(&file, config).unwrap();
    let (child, _errors) = started(&["--config", file.to_str().unwrap()]);
    let mut client = TcpStream::connect(("127.0.0.1", listen)).unwrap();
    for header in ["Reveille-Next: soon", "Reveille-Next: 3ms; within=500us"] {
        write!(client, "GET / HTTP/1.1\r\nHost: a\r\n{header}\r\n\r\n").unwrap();
        let mut answer = [0; 4096];
        // The server is down, which changes nothing.
        let bytes = client.read(&mut answer).unwrap();
        assert!(answer[..bytes].starts_with(b"HTTP/1.1 502"));
    }
    let mut datagram = [0; 128];
    let bytes = machine.recv(&mut datagram).unwrap();
    let key = Key::read(&key).unwrap();
    let (hint, _) = decode(&datagram[..bytes], Some(&key)).unwrap();
    assert_eq!((hint.service.protocol, hint.service.port), (6, server));
    assert_eq!(hint.announced.after, Duration::from_millis(3));
    assert_eq!(hint.announced.within, Duration::from_micros(500));
    signal(&child, Signal::SIGTERM);
    output(child);
}

/// Computes for some milliseconds for each request, and prints its port first.
const SERVER: &str = r#"
import http.server, time
class Server(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        end = time.monotonic() + 0.003
        while time.monotonic() < end:
            pass
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()
    def log_message(self, *_):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
print(server.server_address[1], flush=True)
# Its wake-ups of its own would release requests, too.
server.serve_forever(poll_interval=60)
"#;

/// Ends with the test, however that ends.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn get(stream: &mut TcpStream) {
    stream
        .write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        .unwrap();
    let mut answer = [0; 4096];
    let bytes = stream.read(&mut answer).unwrap();
    assert!(answer[..bytes].starts_with(b"HTTP/1.1 200"));
}

mod measuring {
    use super::*;

    /// A held request waits for most of its deadline, or until its server runs for another client.
    #[test]
    fn held_requests_go_while_their_server_runs_for_others() {
        use std::sync::atomic::{AtomicBool, Ordering};
        use std::time::Instant;

        let test = "held_requests_go_while_their_server_runs_for_others";
        let _alone = take(&[Use::Alone(Part::Cpus)]);
        let server = Command::new("python3")
            .args(["-c", SERVER])
            .stdout(Stdio::piped())
            .spawn();
        let Ok(server) = server else {
            return println!("skipped: {test}: python3 is missing");
        };
        let mut server = Killed(server);
        let mut line = String::new();
        let mut printed = BufReader::new(server.0.stdout.take().unwrap());
        printed.read_line(&mut line).unwrap();
        let upstream = format!("127.0.0.1:{}", line.trim());
        let address = format!("127.0.0.1:{}", port::free());
        let (child, mut errors) = started(&[
            "--listen",
            &address,
            "--upstream",
            &format!("http://{upstream}"),
            "--deadline",
            "3s",
            "--json",
        ]);
        line.clear();
        if nix::unistd::geteuid().is_root() {
            errors.read_line(&mut line).unwrap();
        }
        let is_seen = line.contains("released early while python3");
        if is_seen {
            let mut client = TcpStream::connect(&address).unwrap();
            // Too little is known of the server at first.
            (0..25).for_each(|_| get(&mut client));
            let mut took = || {
                let began = Instant::now();
                get(&mut client);
                began.elapsed()
            };
            assert!(took() > Duration::from_secs(1));
            let ends = AtomicBool::new(false);
            thread::scope(|scope| {
                let _over = Over(&ends);
                scope.spawn(|| {
                    let mut other = TcpStream::connect(&upstream).unwrap();
                    while !ends.load(Ordering::Relaxed) {
                        get(&mut other);
                        thread::sleep(Duration::from_millis(20));
                    }
                });
                let mut times: Vec<Duration> = (0..9).map(|_| took()).collect();
                times.sort_unstable();
                assert!(times[4] < Duration::from_secs(1), "{times:?}");
            });
        }
        signal(&child, Signal::SIGTERM);
        let account: serde_json::Value = serde_json::from_str(&output(child)).unwrap();
        match is_seen {
            true => assert!(account[0]["early"].as_u64().unwrap() > 0, "{account}"),
            false => println!("skipped: {test}: BPF is unavailable: {line}"),
        }
    }
}

/// Idle connections, and heads that come byte by byte, take little memory and no turn of others, and end after a minute.
#[test]
fn thousands_of_silent_and_slow_clients_keep_nobody_from_being_served() {
    use std::io::ErrorKind;
    use std::time::Instant;

    use nix::sys::resource::{Resource, getrlimit, setrlimit};

    // In a process of its own: the limit is one of all tests.
    let test = "stage::thousands_of_silent_and_slow_clients_keep_nobody_from_being_served";
    if !program::in_own_process(test) {
        return;
    }
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, most, most).unwrap();
    // The proxy has two descriptors for each, and so has this process at most.
    let silent = usize::try_from(most / 2 - 500).unwrap().min(10_000);
    let address = format!("127.0.0.1:{}", port::free());
    let (child, _errors) = started(&[
        "--listen",
        &address,
        "--upstream",
        DOWN,
        "--deadline",
        "500ms",
        "--exempt",
        "/*",
        "--json",
    ]);
    let connect = |_| TcpStream::connect(&address).unwrap();
    let mut idle: Vec<TcpStream> = (0..silent).map(connect).collect();
    let mut slow: Vec<TcpStream> = (0..50).map(connect).collect();
    let began = Instant::now();
    let memory = fs::read_to_string(format!("/proc/{}/statm", child.id())).unwrap();
    let pages: u64 = memory.split(' ').nth(1).unwrap().parse().unwrap();
    // 20 kB each.
    assert!(
        pages * 4096 < 40_000_000 + 20_000 * silent as u64,
        "{pages} pages"
    );
    for stream in &slow {
        stream.set_nonblocking(true).unwrap();
    }
    let mut head = b"GET / HTTP/1.1\r\nHost: a\r\n".to_vec();
    head.resize(1000, b'x');
    for byte in head {
        slow.retain_mut(|stream| {
            let is_open = stream.write_all(&[byte]).is_ok();
            let end = stream.read(&mut [0; 512]);
            // Before the end it gets an answer, or none.
            is_open
                && end.map_or_else(
                    |error| error.kind() == ErrorKind::WouldBlock,
                    |read| read > 0,
                )
        });
        if slow.is_empty() {
            break;
        }
        let mut client = TcpStream::connect(&address).unwrap();
        let asked = Instant::now();
        client
            .write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            .unwrap();
        let bytes = client.read(&mut [0; 512]).unwrap();
        assert!(bytes > 0 && asked.elapsed() < Duration::from_secs(10));
        thread::sleep(Duration::from_millis(500));
    }
    assert!(slow.is_empty(), "{} are open", slow.len());
    let minute = Duration::from_secs(60);
    assert!((minute - Duration::from_secs(2)..3 * minute).contains(&began.elapsed()));
    for stream in &mut idle {
        stream.set_read_timeout(Some(minute)).unwrap();
        assert!(!stream.read(&mut [0; 1]).is_ok_and(|read| read > 0));
    }
    assert!(began.elapsed() < 3 * minute);
    signal(&child, Signal::SIGTERM);
    output(child);
}

/// As in a small container.
#[test]
fn without_the_systems_certificates_only_servers_by_tls_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let none = |upstream: &str| {
        let listen = format!("127.0.0.1:{}", port::free());
        let mut command = stage(&["--listen", &listen, "--upstream", upstream]);
        command.args(["--deadline", "1s"]);
        command.env("SSL_CERT_FILE", "/dev/null");
        command.env("SSL_CERT_DIR", folder.path());
        command
    };
    let (child, _errors) = started_by(none(DOWN));
    signal(&child, Signal::SIGTERM);
    output(child);
    for upstream in ["https://localhost", "h2://localhost"] {
        let Output { status, stderr, .. } = none(upstream).output().unwrap();
        let errors = String::from_utf8(stderr).unwrap();
        assert_eq!(status.code(), Some(3), "{errors}");
        assert!(
            errors.contains("ca-certificates") && errors.lines().count() == 1,
            "{errors}"
        );
    }
}
