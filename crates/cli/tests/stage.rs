//! `reveille stage` as its users run it.

#[allow(dead_code, reason = "others are another user, too")]
mod program;

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

fn stage(words: &[&str]) -> Command {
    let mut command = program::reveille();
    command.arg("stage").args(words);
    command
}

fn ended(words: &[&str]) -> (Option<i32>, String) {
    let Output { status, stderr, .. } = stage(words).output().unwrap();
    (status.code(), String::from_utf8(stderr).unwrap())
}

/// A port that was free a moment ago.
fn port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    listener.local_addr().unwrap().port()
}

/// Started, once it listens.
fn started(words: &[&str]) -> (Child, BufReader<std::process::ChildStderr>) {
    let mut child = stage(words)
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
fn it_ends_on_sigterm_with_its_account() {
    let listen = format!("127.0.0.1:{}", port());
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
    let listen = port();
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
    let port = port();
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
    let listen = format!("127.0.0.1:{}", port());
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
    std::thread::sleep(Duration::from_millis(50));
    signal(&child, Signal::SIGTERM);
    assert_eq!(child.wait().unwrap().code(), Some(1));
}
