//! `reveille stage` between clients and servers that others wrote: curl, h2load and gRPC's, nginx.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::port;
use crate::program;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Ends with the test, however that ends.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        // nginx ends its workers by this.
        let _ = kill(Pid::from_raw(self.0.id() as i32), Signal::SIGTERM);
        let _ = self.0.wait();
    }
}

/// The proxy and its account.
struct Proxy {
    child: Killed,
    port: u16,
    metrics: u16,
}

fn proxy(upstream: &str, words: &[&str]) -> Proxy {
    let (port, metrics) = (port::free(), port::free());
    let mut child = program::reveille()
        .args(["stage", "--json", "--upstream", upstream])
        .args(["--listen", &format!("127.0.0.1:{port}")])
        .args(["--metrics", &metrics.to_string()])
        .args(words)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut errors = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    errors.read_line(&mut line).unwrap();
    assert!(line.contains("answered within"), "{line}");
    std::thread::spawn(move || errors.read_to_end(&mut Vec::new()));
    Proxy {
        child: Killed(child),
        port,
        metrics,
    }
}

impl Proxy {
    /// What /status says now.
    fn status(&self) -> serde_json::Value {
        let url = format!("http://127.0.0.1:{}/status", self.metrics);
        serde_json::from_str(&curl(&[&url])).unwrap()
    }

    /// The account at the end.
    fn end(mut self) -> serde_json::Value {
        let child = &mut self.child.0;
        kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM).unwrap();
        let mut text = String::new();
        let mut output = child.stdout.take().unwrap();
        output.read_to_string(&mut text).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(0));
        serde_json::from_str::<serde_json::Value>(&text).unwrap()[0].clone()
    }
}

fn has(program: &str) -> bool {
    let tried = Command::new(program).arg("--version").output();
    tried.is_ok_and(|tried| tried.status.success())
}

fn curl(words: &[&str]) -> String {
    let ended = Command::new("curl")
        .args(["--silent", "--show-error", "--max-time", "60"])
        .args(words)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{words:?}: {errors}");
    String::from_utf8(ended.stdout).unwrap()
}

/// nginx of the system, or what `make/unpacked` unpacked below target: `make test` has the tests' programs in a folder there.
fn nginx_program() -> Option<PathBuf> {
    let targets = Path::new(env!("CARGO_BIN_EXE_reveille"))
        .ancestors()
        .skip(2)
        .take(2);
    let unpacked = targets.map(|target| target.join("nginx/usr/sbin/nginx"));
    let places = ["/usr/sbin/nginx", "/usr/bin/nginx"].map(PathBuf::from);
    places
        .into_iter()
        .chain(unpacked)
        // Unpacked, it may lack libraries.
        .find(|one| {
            let tried = Command::new(one).arg("-v").output();
            tried.is_ok_and(|tried| tried.status.success())
        })
}

/// Serves and takes files below `folder`.
fn nginx(program: &Path, folder: &Path) -> (Killed, u16) {
    let port = port::free();
    for name in ["files", "temporary"] {
        fs::create_dir(folder.join(name)).unwrap();
    }
    let user = match nix::unistd::geteuid().is_root() {
        true => "user root root;",
        false => "",
    };
    let config = format!(
        "{user}
worker_processes 1;
pid nginx.pid;
error_log stderr;
events {{ worker_connections 1024; }}
http {{
  access_log off;
  client_max_body_size 64m;
  client_body_temp_path temporary/body;
  proxy_temp_path temporary/proxy;
  fastcgi_temp_path temporary/fastcgi;
  uwsgi_temp_path temporary/uwsgi;
  scgi_temp_path temporary/scgi;
  server {{
    listen 127.0.0.1:{port};
    location / {{ root files; dav_methods PUT DELETE; }}
    location /small {{ return 200 small; }}
    location /version {{ return 200 $server_protocol; }}
    location /too-large {{ client_max_body_size 1k; root files; dav_methods PUT; }}
  }}
}}
"
    );
    fs::write(folder.join("nginx.conf"), config).unwrap();
    let child = Command::new(program)
        .arg("-p")
        .arg(folder)
        .args(["-c", "nginx.conf", "-e", "stderr", "-g", "daemon off;"])
        .spawn()
        .unwrap();
    let child = Killed(child);
    for _ in 0..500 {
        if TcpStream::connect(("127.0.0.1", port)).is_ok() {
            return (child, port);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("nginx takes no connection");
}

/// Bytes that no one would send by mistake.
fn content(size: usize) -> Vec<u8> {
    let mut state = 1_u32;
    let next = |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..size).map(next).collect()
}

fn certificate(folder: &Path) -> Option<(String, String)> {
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let (certificate, key) = (path("certificate"), path("key"));
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-nodes", "-days", "2"])
        .args(["-pkeyopt", "ec_paramgen_curve:P-256"])
        .args(["-subj", "/CN=localhost"])
        .args(["-addext", "subjectAltName=DNS:localhost"])
        .args(["-keyout", &key, "-out", &certificate])
        .output();
    made.is_ok_and(|made| made.status.success())
        .then_some((certificate, key))
}

/// By HTTP/1.1, HTTP/2 without and with TLS.
#[test]
fn curl_gets_from_nginx_what_it_would_get_without_the_proxy() {
    let test = "curl_gets_from_nginx_what_it_would_get_without_the_proxy";
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let Some(program) = nginx_program() else {
        return println!("skipped: {test}: nginx is missing");
    };
    let made = certificate(folder.path());
    let (true, Some((certificate, key))) = (has("curl"), made) else {
        return println!("skipped: {test}: curl or openssl is missing");
    };
    let (_server, server) = nginx(&program, folder.path());
    let upstream = format!("http://127.0.0.1:{server}");
    let sent = content(5_000_000);
    fs::write(path("sent"), &sent).unwrap();
    fs::write(path("files/large"), &sent).unwrap();
    let tls = ["--tls-certificate", &certificate, "--tls-key", &key];
    for (name, scheme, version) in [
        ("http1", "http", "--http1.1"),
        ("h2c", "http", "--http2-prior-knowledge"),
        ("tls1", "https", "--http1.1"),
        ("tls2", "https", "--http2"),
    ] {
        let mut words = vec!["--deadline", "100ms"];
        if scheme == "https" {
            words.extend(tls);
        }
        let proxy = proxy(&upstream, &words);
        let base = format!("{scheme}://localhost:{}", proxy.port);
        let resolve = format!("localhost:{}:127.0.0.1", proxy.port);
        let ask = |words: &[&str]| {
            let all = [version, "--cacert", &certificate, "--resolve", &resolve];
            curl(&[&all[..], words].concat())
        };
        let url = |rest: &str| format!("{base}{rest}");
        let code = ["--write-out", "%{http_version} %{http_code}"];
        let spoken = match version {
            "--http1.1" => "1.1",
            _ => "2",
        };

        let got = path(&format!("got-{name}"));
        let said = ask(&[&code[..], &["--output", &got, &url("/large")]].concat());
        assert_eq!(said, format!("{spoken} 200"), "{name}");
        assert!(
            fs::read(&got).unwrap() == sent,
            "{name}: a download differs"
        );

        // Of known length, in chunks, and after `100 Continue`; curl waits for that for 1 s, then goes on without.
        let put = |words: &[&str], file: &str| {
            let from = path("sent");
            let of = [&code[..], &["--upload-file", &from], words].concat();
            let said = ask(&[&of[..], &[&url(file)]].concat());
            assert_eq!(said, format!("{spoken} 201"), "{name}: {file}");
            let at = path(&format!("files{file}"));
            assert!(fs::read(&at).unwrap() == sent, "{name}: {file} differs");
        };
        put(&["--header", "Expect:"], &format!("/plain-{name}"));
        let expect = [
            "--header",
            "Expect: 100-continue",
            "--expect100-timeout",
            "50",
        ];
        put(&expect, &format!("/expect-{name}"));
        // HTTP/2 has no such chunks.
        let chunks = [
            "--header",
            "Transfer-Encoding: chunked",
            "--header",
            "Expect:",
        ];
        match spoken {
            "1.1" => put(&chunks, &format!("/chunks-{name}")),
            _ => put(&["--header", "Expect:"], &format!("/chunks-{name}")),
        }

        let said = ask(&["--head", &url("/large")]).to_lowercase();
        assert!(
            said.contains("content-length: 5000000\r\n"),
            "{name}: {said}"
        );
        let got = path(&format!("range-{name}"));
        let range = ["--range", "1000000-1000999", "--output", &got];
        let said = ask(&[&code[..], &range[..], &[&url("/large")]].concat());
        assert_eq!(said, format!("{spoken} 206"), "{name}");
        assert!(
            fs::read(&got).unwrap() == sent[1_000_000..1_001_000],
            "{name}"
        );

        // Twenty by one connection. curl 7.88 fails to use one of HTTP/2 without TLS again, with any server.
        let connections: u32 = match name {
            "h2c" => 20,
            _ => 1,
        };
        let small = match connections {
            1 => vec![url("/small?[1-20]")],
            _ => vec![url("/small"); 20],
        };
        let count = ["--write-out", " %{num_connects}\\n"];
        let said = small.iter().map(|url| ask(&[&count[..], &[url]].concat()));
        let said: String = said.collect();
        let connects = said.lines().filter_map(|line| line.strip_prefix("small "));
        let connects: Vec<u32> = connects.map(|count| count.parse().unwrap()).collect();
        let found = (connects.len(), connects.iter().sum());
        assert_eq!(found, (20, connections), "{name}: {said}");

        let said = ask(&[&code[..], &["--output", "/dev/null", &url("/none")]].concat());
        assert_eq!(said, format!("{spoken} 404"), "{name}");
        assert_eq!(ask(&[&url("/version")]), "HTTP/1.1");

        let account = proxy.end();
        assert_eq!(account["requests"], 28, "{name}: {account}");
        // A server that other load keeps from its CPU has no time for a wait.
        let [held, late] = ["held", "late"].map(|of| account[of].as_u64().unwrap());
        assert!(held > 0 || late > 0, "{name}: {account}");
        for none in ["failed", "broken", "refused", "gone"] {
            assert_eq!(account[none], 0, "{name}: {none} of {account}");
        }
    }
}

/// What h2load printed about how its requests ended: those that were done, and of them with a status of 2xx.
fn done(text: &str) -> (u64, u64) {
    let number = |line: &str, after: &str| -> u64 {
        let line = text.lines().find(|one| one.starts_with(line)).unwrap();
        let before = line.split(after).next().unwrap();
        before
            .rsplit(' ')
            .find(|word| !word.is_empty())
            .unwrap()
            .parse()
            .unwrap()
    };
    (
        number("requests:", " done"),
        number("status codes:", " 2xx"),
    )
}

#[test]
fn thousands_of_h2loads_requests_are_answered_and_counted() {
    let test = "thousands_of_h2loads_requests_are_answered_and_counted";
    let folder = tempfile::tempdir().unwrap();
    let (Some(program), true) = (nginx_program(), has("h2load") && has("curl")) else {
        return println!("skipped: {test}: nginx, h2load or curl is missing");
    };
    let (_server, server) = nginx(&program, folder.path());
    let proxy = proxy(
        &format!("http://127.0.0.1:{server}"),
        &["--deadline", "50ms"],
    );
    let url = format!("http://127.0.0.1:{}/small", proxy.port);
    let mut sum = 0;
    // All at once by few connections, by many, and in an even stream, which is what is held.
    for words in [
        &["-n", "5000", "-c", "10", "-m", "10"][..],
        &["-n", "5000", "-c", "50", "--h1"],
        &["-n", "2000", "-c", "20", "-r", "20", "--h1"],
        &["-D", "3", "-c", "1", "-m", "4"],
    ] {
        let ended = Command::new("h2load")
            .args(words)
            .arg(&url)
            .output()
            .unwrap();
        let text = String::from_utf8(ended.stdout).unwrap();
        let (done, well) = done(&text);
        assert_eq!(done, well, "{words:?}: {text}");
        if let Some(at) = words.iter().position(|word| *word == "-n") {
            assert_eq!(done.to_string(), words[at + 1], "{text}");
            sum += done;
            let status = proxy.status();
            let service = status.get("services").unwrap_or(&status)[0].clone();
            assert_eq!(service["requests"], sum, "{words:?}: {status}");
        }
    }
    let account = proxy.end();
    assert!(account["held"].as_u64().unwrap() > 0, "{account}");
    for none in ["failed", "broken", "refused"] {
        assert_eq!(account[none], 0, "{none} of {account}");
    }
}

/// A gRPC server without generated code: prints its port, and serves until it is ended.
const GRPC_SERVER: &str = r#"
import grpc, time
from concurrent import futures
def unary(request, context):
    left = context.time_remaining()
    context.set_trailing_metadata((("seen", "yes"),))
    return request + (b" with a deadline" if left is not None and left < 3600 else b"")
def stream(request, context):
    for number in range(int(request)):
        yield b"%d" % number
def error(request, context):
    context.set_trailing_metadata((("why", "a reason"),))
    context.abort(grpc.StatusCode.FAILED_PRECONDITION, "not like this: 100 %")
class Handler(grpc.GenericRpcHandler):
    def service(self, call):
        return {
            "/a.A/Unary": grpc.unary_unary_rpc_method_handler(unary),
            "/a.A/Stream": grpc.unary_stream_rpc_method_handler(stream),
            "/a.A/Error": grpc.unary_unary_rpc_method_handler(error),
        }.get(call.method)
server = grpc.server(futures.ThreadPoolExecutor(4))
server.add_generic_rpc_handlers((Handler(),))
print(server.add_insecure_port("127.0.0.1:0"), flush=True)
server.start()
server.wait_for_termination()
"#;

/// Calls it by the proxy at the port given.
const GRPC_CLIENT: &str = r#"
import grpc, sys, time
channel = grpc.insecure_channel("127.0.0.1:" + sys.argv[1])
unary = channel.unary_unary("/a.A/Unary")
# The first twenty pass, as little is known of the server.
for nth in range(20):
    answer, call = unary.with_call(b"%d" % nth)
    assert answer == b"%d" % nth, answer
    assert ("seen", "yes") in call.trailing_metadata(), call.trailing_metadata()
early = (("x-reveille-deadline-ms", "400"),)
large = b"x" * 3_000_000
assert unary(large, timeout=30, metadata=early) == large + b" with a deadline"
stream = channel.unary_stream("/a.A/Stream")
assert list(stream(b"1000", timeout=30, metadata=early)) == [b"%d" % n for n in range(1000)]
for method, code, details in [
    ("Error", grpc.StatusCode.FAILED_PRECONDITION, "not like this: 100 %"),
    ("None", grpc.StatusCode.UNIMPLEMENTED, "Method not found!"),
]:
    try:
        channel.unary_unary("/a.A/" + method)(b"", timeout=30, metadata=early)
    except grpc.RpcError as error:
        assert (error.code(), error.details()) == (code, details), error
        assert method != "Error" or ("why", "a reason") in error.trailing_metadata()
    else:
        raise AssertionError(method)
# One that has less time than the service gets its answer in this time.
for timeout in (1, 2, 2):
    unary(b"a", timeout=timeout)
print("done")
"#;

/// Debian's Python first: other Pythons do not see its packages.
fn python_with_grpc() -> Option<&'static str> {
    let imports = |python: &&str| {
        let tried = Command::new(python).args(["-c", "import grpc"]).output();
        tried.is_ok_and(|tried| tried.status.success())
    };
    ["/usr/bin/python3", "python3"].into_iter().find(imports)
}

#[test]
fn grpcs_calls_keep_their_streams_trailers_and_errors() {
    let test = "grpcs_calls_keep_their_streams_trailers_and_errors";
    let Some(python) = python_with_grpc() else {
        return println!("skipped: {test}: python3-grpcio is missing");
    };
    let server = Command::new(python)
        .args(["-c", GRPC_SERVER])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut server = Killed(server);
    let mut line = String::new();
    let mut printed = BufReader::new(server.0.stdout.take().unwrap());
    printed.read_line(&mut line).unwrap();
    let upstream = format!("h2c://127.0.0.1:{}", line.trim());
    let proxy = proxy(&upstream, &["--deadline", "5s"]);
    let client = Command::new(python)
        .args(["-c", GRPC_CLIENT, &proxy.port.to_string()])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&client.stdout);
    let errors = String::from_utf8_lossy(&client.stderr);
    assert_eq!(said, "done\n", "{errors}");
    let account = proxy.end();
    assert!(account["held"].as_u64().unwrap() > 0, "{account}");
    assert_eq!(
        (&account["failed"], &account["broken"]),
        (&0.into(), &0.into()),
        "{account}"
    );
}
