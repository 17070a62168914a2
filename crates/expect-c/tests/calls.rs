//! The header and the libraries for C, by a program that is compiled and run.

use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

use reveille_expect::Refusal;
use reveille_expect::remote::{Key, Service, decode};
use reveille_expect::server::{Owner, Plan, Server, Settings, Ticket};

/// `REVEILLE_BY_ENGINE`, `REVEILLE_BY_THREAD`.
const BY_ENGINE: &str = "1";
const BY_THREAD: &str = "2";

/// The system libraries that the standard library needs (rustc --print native-static-libs).
const SYSTEM: [&str; 6] = ["-lgcc_s", "-lutil", "-lrt", "-lpthread", "-lm", "-ldl"];

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Builds the libraries: nothing in Rust links them, so that `cargo test` does not build them. As users have them, and as
/// `make test` has them already.
fn library(name: &str) -> PathBuf {
    let mut build = Command::new(env!("CARGO"));
    build.args([
        "build",
        "--quiet",
        "--locked",
        "--release",
        "--message-format=json",
        "--package",
        "reveille-expect-c",
    ]);
    let done = build.current_dir(here()).output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{said}");
    // The tests may be built elsewhere than with cargo's own settings.
    let messages = String::from_utf8(done.stdout).unwrap();
    let mut quoted = messages.split('"').map(Path::new);
    let library = quoted.find(|path| path.file_name().is_some_and(|own| own == name));
    library.unwrap_or_else(|| panic!("{messages}")).to_owned()
}

/// Compiles the program, or reports that it cannot.
fn compile(folder: &Path, link: &[&str]) -> Option<PathBuf> {
    let program = folder.join("calls");
    let compiler = std::env::var_os("CC").unwrap_or("cc".into());
    let done = Command::new(&compiler)
        .args([
            "-std=c99",
            "-Wall",
            "-Wextra",
            "-Wpedantic",
            "-Werror",
            "-I",
        ])
        .arg(here().join("include"))
        .arg(here().join("tests/calls.c"))
        .arg("-o")
        .arg(&program)
        .args(link)
        .output();
    match done {
        Ok(done) => {
            let said = String::from_utf8_lossy(&done.stderr);
            assert!(done.status.success(), "{said}");
            Some(program)
        }
        Err(error) => {
            println!(
                "skipped: the library from C: {}: {error}",
                compiler.display()
            );
            None
        }
    }
}

fn run(program: &Path, socket: &Path, served: &str, hints: &[&str]) {
    let done = Command::new(program)
        .arg(socket)
        .arg(served)
        .args(hints)
        // Cargo's, where it would find the library by any name.
        .env_remove("LD_LIBRARY_PATH")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(
        done.status.success() && said.is_empty(),
        "{}: {said}",
        done.status
    );
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn a_c_program_with_the_static_library_is_served_by_its_own_thread() {
    let folder = tempfile::tempdir().unwrap();
    let library = library("libreveille_expect.a");
    let link: Vec<&str> = [text(&library)].into_iter().chain(SYSTEM).collect();
    if let Some(program) = compile(folder.path(), &link) {
        let machine = UdpSocket::bind("127.0.0.1:0").unwrap();
        let to = machine.local_addr().unwrap().to_string();
        let file = folder.path().join("key");
        std::fs::write(&file, "sixteen letters.").unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(&file, mode).unwrap();
        let nobody = folder.path().join("nobody.sock");
        run(&program, &nobody, BY_THREAD, &[&to, text(&file)]);
        machine
            .set_read_timeout(Some(Duration::from_secs(10)))
            .unwrap();
        let mut datagram = [0; 128];
        let bytes = machine.recv(&mut datagram).unwrap();
        let key = Key::read(&file).unwrap();
        let (hint, _) = decode(&datagram[..bytes], Some(&key)).unwrap();
        assert_eq!(hint.service, Service::udp(5060));
        assert_eq!(hint.announced.after, Duration::from_millis(3));
        assert_eq!(hint.announced.within, Duration::from_micros(500));
    }
}

/// The requests to the plan: CPU, length; and the cancellations.
#[derive(Default)]
struct Recording {
    asked: Mutex<Vec<(u32, u64, Owner)>>,
    cancelled: Mutex<Vec<Ticket>>,
}

impl Plan for Recording {
    fn expect(&self, cpu: u32, _: u64, window_ns: u64, owner: Owner) -> Result<Ticket, Refusal> {
        let mut asked = self.asked.lock().unwrap();
        asked.push((cpu, window_ns, owner));
        Ok(Ticket(asked.len() as u64))
    }

    fn cancel(&self, ticket: Ticket) {
        self.cancelled.lock().unwrap().push(ticket);
    }
}

#[test]
fn a_c_program_with_the_shared_library_is_served_by_the_engine() {
    let folder = tempfile::tempdir().unwrap();
    let library = library("libreveille_expect.so");
    // The program asks for the soname, as make install makes it; the first two numbers, before 1.0.
    let version = env!("CARGO_PKG_VERSION_MINOR");
    let soname = format!("libreveille_expect.so.0.{version}");
    std::os::unix::fs::symlink(&library, folder.path().join(soname)).unwrap();
    let search = format!("-L{}", text(library.parent().unwrap()));
    let run_path = format!("-Wl,-rpath,{}", text(folder.path()));
    let link = [&search, "-lreveille_expect", &run_path];
    let Some(program) = compile(folder.path(), &link) else {
        return;
    };
    let plan = std::sync::Arc::new(Recording::default());
    let settings = Settings {
        path: folder.path().join("engine.sock"),
        ..Settings::default()
    };
    let server = Server::start(&settings, plan.clone()).unwrap();
    run(&program, server.path(), BY_ENGINE, &[]);
    // Cancellations that had not arrived ended with it.
    drop(server);
    let asked = plan.asked.lock().unwrap();
    assert_eq!(asked.len(), 2);
    for (cpu, window_ns, owner) in asked.iter() {
        assert!(*cpu < 1024 && *window_ns == 100_000);
        // SAFETY: the call takes nothing.
        assert_eq!(owner.uid, unsafe { nix::libc::getuid() });
        assert_ne!(owner.pid, std::process::id() as i32);
    }
    let mut cancelled = plan.cancelled.lock().unwrap().clone();
    cancelled.sort_by_key(|ticket| ticket.0);
    assert_eq!(cancelled, [Ticket(1), Ticket(2)]);
}

#[test]
fn the_header_compiles_as_cplusplus() {
    let compiler = std::env::var_os("CXX").unwrap_or("c++".into());
    let header = here().join("include/reveille_expect.h");
    let done = Command::new(&compiler)
        .args([
            "-std=c++11",
            "-Wall",
            "-Werror",
            "-fsyntax-only",
            "-x",
            "c++",
        ])
        .arg(header)
        .output();
    match done {
        Ok(done) => assert!(
            done.status.success(),
            "{}",
            String::from_utf8_lossy(&done.stderr)
        ),
        Err(error) => println!(
            "skipped: the header in C++: {}: {error}",
            compiler.display()
        ),
    }
}
