//! Clients in separate processes that are killed.

use std::io::{BufRead, BufReader, Read};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use reveille_expect::server::Client;
use reveille_expect::{Refusal, Waker};

use super::plan::Engine;
use super::raw::{Raw, SECOND, US, wait_for};

/// Makes this test program, when restarted, a client of the engine there.
const CLIENT_OF: &str = "REVEILLE_EXPECT_TEST_CLIENT_OF";
/// It passes its connection to a child.
const LEAVES_A_CHILD: &str = "REVEILLE_EXPECT_TEST_LEAVES_A_CHILD";
/// Its output after it has requested its windows.
const READY: &str = "client is ready";

/// A process with three open requests that waits.
pub struct Child {
    process: std::process::Child,
    /// The child that it leaves.
    pub left: Option<i32>,
}

impl Child {
    pub fn start(engine: &Path) -> Self {
        Self::begin(engine, |_| {})
    }

    fn begin(engine: &Path, change: impl FnOnce(&mut Command)) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["server::killed::as_a_client", "--exact", "--nocapture"])
            .env(CLIENT_OF, engine)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        change(&mut command);
        let mut process = command.spawn().unwrap();
        let mut said = BufReader::new(process.stdout.take().unwrap()).lines();
        let ready = said.find_map(|line| {
            line.ok()?
                .split_once(READY)
                .map(|(_, left)| left.trim().to_owned())
        });
        let left = ready.expect("the client has ended").parse().ok();
        Self { process, left }
    }

    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// With SIGKILL.
    pub fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Does nothing unless started as [`Child`].
#[test]
fn as_a_client() {
    let Some(engine) = std::env::var_os(CLIENT_OF).map(PathBuf::from) else {
        return;
    };
    let raw = Raw::welcomed(&engine);
    for id in 1..=3 {
        assert_eq!(raw.ask(id, 9 * SECOND, id * US), Ok(()));
    }
    let mut left = String::new();
    if std::env::var_os(LEAVES_A_CHILD).is_some() {
        fcntl(raw.socket().as_fd(), FcntlArg::F_SETFD(FdFlag::empty())).unwrap();
        let child = Command::new("sleep")
            .arg("600")
            .stdout(Stdio::null())
            .spawn();
        left = child.unwrap().id().to_string();
    }
    println!("{READY} {left}");
    // Until its parent ends.
    let _ = std::io::stdin().read(&mut [0]);
}

#[test]
fn a_killed_clients_requests_are_cancelled() {
    let engine = Engine::start();
    let mine = Raw::welcomed(&engine.path);
    assert_eq!(mine.ask(1, 9 * SECOND, US), Ok(()));
    let mut killed = Child::start(&engine.path);
    let mut stays = Child::start(&engine.path);
    killed.kill();
    wait_for("its requests to go", || {
        engine.plan.cancelled_of(killed.id()).len() == 3
    });
    wait_for("the count", || engine.server.counts().orphaned == 3);
    assert!(engine.plan.cancelled_of(stays.id()).is_empty());
    assert!(engine.plan.cancelled_of(std::process::id()).is_empty());
    assert_eq!(engine.server.clients().len(), 2);
    stays.kill();
    wait_for("those of the other", || {
        engine.plan.cancelled_of(stays.id()).len() == 3
    });
}

#[test]
fn a_child_with_the_connection_does_not_keep_a_killed_clients_requests() {
    let engine = Engine::start();
    let mut killed = Child::begin(&engine.path, |command| {
        command.env(LEAVES_A_CHILD, "");
    });
    killed.kill();
    let left = killed.left.unwrap();
    assert!(Path::new(&format!("/proc/{left}")).exists());
    wait_for("its requests to go", || {
        engine.plan.cancelled_of(killed.id()).len() == 3
    });
    // SAFETY: the call takes plain values; this test created the process.
    unsafe { nix::libc::kill(left, nix::libc::SIGKILL) };
}

#[test]
fn each_user_has_a_separate_budget() {
    if !nix::unistd::geteuid().is_root() {
        println!("skipped: another user's budget: only root can be another user");
        return;
    }
    let engine = Engine::start();
    let folder = engine.path.parent().unwrap();
    let permissions = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(folder, permissions).unwrap();
    let mine = Raw::welcomed(&engine.path);
    let asks: Vec<_> = (0..5)
        .map(|id| mine.ask(id, 9 * SECOND, 10_000 * US))
        .collect();
    assert!(asks.contains(&Err(Refusal::Budget)));
    // The test program itself may be inaccessible to others.
    let theirs = tempfile::tempdir().unwrap();
    let permissions = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(theirs.path(), permissions).unwrap();
    let program = theirs.path().join("client");
    // By a separate process: a file that this one has open for writing would be inherited by
    // children that other tests start at that moment, and cannot be executed until they have ended.
    let copied = Command::new("cp")
        .arg(std::env::current_exe().unwrap())
        .arg(&program)
        .status();
    assert!(copied.unwrap().success());
    let other = Child::begin(&engine.path, |command| {
        let mut theirs = Command::new(&program);
        theirs
            .args(command.get_args())
            .env(CLIENT_OF, &engine.path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .current_dir("/")
            .uid(65_534)
            .gid(65_534);
        *command = theirs;
    });
    let is_theirs = |one: &Client| {
        one.owner.pid == other.id() as i32 && one.owner.uid == 65_534 && one.open == 3
    };
    wait_for("the other's requests", || {
        engine.server.clients().iter().any(is_theirs)
    });
}

#[test]
fn closing_the_waker_cancels_its_windows() {
    let engine = Engine::start();
    let mut waker = super::wakers::served_by_engine(&engine.path);
    let at_ns = reveille_expect::monotonic_ns() + 9 * SECOND;
    waker.expect_on(0, at_ns, US).unwrap();
    assert!(waker.wait_for_answers(super::raw::DEADLINE));
    drop::<Waker>(waker);
    wait_for("its request to go", || engine.server.counts().orphaned == 1);
}
