//! Commands that follow processes, in a PID namespace of their own, as in a container. `cost` has tests of its own.

use std::process::{Child, Command, Stdio};

use crate::program::in_a_pid_namespace;
use serde_json::{Deserializer, Value};

/// Sleeps 5 ms again and again, as one process.
const SLEEPER: &str = "exec 3<>\"$0\"; while :; do read -r -t 0.005 -u 3; done";

/// The same outside of the namespace, whose number means another process inside, or none.
struct Stranger(Child);

impl Drop for Stranger {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What a command says in JSON while a process sleeps beside it: each object, and that process's number inside.
fn beside_a_sleeper(test: &str, arguments: &str) -> Option<(u64, Vec<Value>)> {
    let folder = tempfile::tempdir().unwrap();
    let fifo = folder.path().join("never");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let mut sleeper = Command::new("bash");
    sleeper
        .args(["-c", SLEEPER])
        .arg(&fifo)
        .stdin(Stdio::null());
    let _stranger = Stranger(sleeper.spawn().unwrap());
    let script = format!(
        "bash -c '{SLEEPER}' {} & echo $!
         $REVEILLE {arguments} --json
         code=$?; kill $!; exit $code",
        fifo.display()
    );
    let output = in_a_pid_namespace(test, &script)?;
    let said = String::from_utf8(output.stdout).unwrap();
    let (number, said) = said.split_once('\n').unwrap();
    let all = Deserializer::from_str(said).into_iter::<Value>();
    Some((number.parse().unwrap(), all.map(Result::unwrap).collect()))
}

#[test]
fn who_wakes_cpus_is_named_inside_and_has_no_number_outside() {
    const TEST: &str = "who_wakes_cpus_is_named_inside_and_has_no_number_outside";
    // Where other tests keep all CPUs busy, nothing wakes one.
    for _ in 0..20 {
        let Some((number, all)) = beside_a_sleeper(TEST, "top --interval 1s --count 3") else {
            return;
        };
        let wakers = all.iter().flat_map(|one| one["wakers"].as_array().unwrap());
        let numbers: Vec<Option<u64>> = wakers
            .filter(|waker| waker["command"] == "bash")
            .map(|waker| waker["pid"].as_u64())
            .collect();
        let is_known = |one: &Option<u64>| one.is_none_or(|one| one == number);
        assert!(numbers.iter().all(is_known), "{number}: {numbers:?}");
        if numbers.contains(&Some(number)) {
            return;
        }
    }
    panic!("no CPU was seen to be woken by the process");
}

#[test]
fn who_may_wait_is_judged_inside_and_the_rest_is_elsewhere() {
    const TEST: &str = "who_may_wait_is_judged_inside_and_the_rest_is_elsewhere";
    let Some((_, all)) = beside_a_sleeper(TEST, "quiet find --duration 2s") else {
        return;
    };
    let groups = all[0]["groups"].as_array().unwrap();
    let processes = |command: &str| -> Vec<u64> {
        let of_command = groups.iter().filter(|group| group["command"] == command);
        of_command
            .map(|group| group["processes"].as_u64().unwrap())
            .collect()
    };
    assert_eq!(processes("bash"), [1], "{groups:?}");
    assert_eq!(processes("others"), [0], "{groups:?}");
}
