//! The socket's file: one engine at a time, nothing remains.

use std::fs::{self, File};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;

use reveille_expect::Error;
use reveille_expect::server::{Server, Settings};

use super::plan::{Engine, Recording};
use super::raw::{Raw, SECOND, US};

fn start(path: &Path) -> Result<Server, Error> {
    let settings = Settings {
        path: path.to_owned(),
        ..Settings::default()
    };
    Server::start(&settings, Arc::new(Recording::default()))
}

#[track_caller]
fn refused(path: &Path, why: &str) {
    let Err(Error::Cannot(said)) = start(path) else {
        panic!("it was not refused");
    };
    let expected = format!("cannot listen at {}: {why}", path.display());
    assert_eq!(said, expected);
}

fn names_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.collect()
}

const TAKEN: &str = "another process serves there; end that one first";

#[test]
fn any_user_may_connect_and_the_engine_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run/reveille/anticipate.sock");
    let server = start(&path).unwrap();
    assert_eq!(server.path(), path);
    let there = fs::symlink_metadata(&path).unwrap();
    assert!(there.file_type().is_socket());
    assert_eq!(there.permissions().mode() & 0o777, 0o666);
    Raw::welcomed(&path);
    drop(server);
    assert_eq!(names_in(folder.path()), [""; 0]);
}

#[test]
fn a_second_engine_is_refused_and_the_first_continues() {
    let engine = Engine::start();
    refused(&engine.path, TAKEN);
    let raw = Raw::welcomed(&engine.path);
    assert_eq!(raw.ask(1, 9 * SECOND, US), Ok(()));
}

#[test]
fn a_killed_engines_socket_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("engine.sock");
    // A socket file without a listener, and a lock without an owner.
    drop(UnixListener::bind(&path).unwrap());
    File::create(folder.path().join("engine.sock.lock")).unwrap();
    let server = start(&path).unwrap();
    Raw::welcomed(&path);
    drop(server);
    assert_eq!(names_in(folder.path()), [""; 0]);
}

#[test]
fn foreign_sockets_and_files_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("engine.sock");
    let listener = UnixListener::bind(&path).unwrap();
    refused(&path, TAKEN);
    drop(listener);
    fs::remove_file(&path).unwrap();
    fs::write(&path, "letters").unwrap();
    refused(&path, "there is a file that is not a socket; move it away");
    assert_eq!(fs::read_to_string(&path).unwrap(), "letters");
    assert_eq!(names_in(folder.path()), ["engine.sock"]);
}

#[test]
fn a_folder_writable_by_others_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("theirs");
    fs::create_dir(&at).unwrap();
    let path = at.join("engine.sock");
    let mode = |mode| fs::set_permissions(&at, fs::Permissions::from_mode(mode)).unwrap();
    mode(0o777);
    refused(&path, &format!("others may write to {}", at.display()));
    assert_eq!(names_in(&at), [""; 0]);
    mode(0o1777);
    drop(start(&path).unwrap());
    if !nix::unistd::geteuid().is_root() {
        println!("skipped: another user's folder: only root can give one away");
        return;
    }
    mode(0o755);
    std::os::unix::fs::chown(&at, Some(65_534), None).unwrap();
    refused(&path, &format!("{} belongs to another user", at.display()));
    assert_eq!(names_in(&at), [""; 0]);
}

#[test]
fn an_invalid_path_is_one_line() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("file"), "").unwrap();
    let long = folder.path().join("x".repeat(120));
    for path in [folder.path().join("file/engine.sock"), long] {
        let Err(Error::Cannot(said)) = start(&path) else {
            panic!("it was not refused");
        };
        assert!(!said.contains('\n'), "{said}");
    }
    assert_eq!(names_in(folder.path()), ["file"]);
}

#[test]
fn an_engine_that_ends_cancels_its_clients_requests() {
    let engine = Engine::start();
    let raw = Raw::welcomed(&engine.path);
    assert_eq!(raw.ask(1, 9 * SECOND, US), Ok(()));
    let plan = engine.plan.clone();
    drop(engine);
    assert_eq!(plan.cancelled_of(std::process::id()).len(), 1);
    assert_eq!(raw.answer(), None);
}
