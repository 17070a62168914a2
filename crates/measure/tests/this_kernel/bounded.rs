//! Another program's latency bound during a measurement.

use reveille_kernel::requests::{Request, honoured, is_kept_to};
use reveille_kernel::{Idle, Root};

use crate::gathered::{options, run};
use crate::need_bpf;

#[test]
fn another_programs_bound_is_noted_in_the_result() {
    const TEST: &str = "another_programs_bound_is_noted_in_the_result";
    let _alone = need_bpf!();
    let options = options(50);
    let idle = Idle::read(&Root::default()).unwrap();
    let states = &idle.cpu(options.cpu).unwrap().states;
    let sleeps = states.iter().any(|state| state.exit_latency_us > Some(0));
    if !sleeps || !honoured(&idle) || !is_kept_to(&idle, 0) {
        return println!("skipped: {TEST}: no latency bound rules out a state here");
    }
    let request = match Request::hold(0) {
        Ok(request) => request,
        Err(error) => return println!("skipped: {TEST}: {error}"),
    };
    let (_, outcome) = run(&options);
    drop(request);
    let noted = |note: &String| note.starts_with("a latency bound of 0 µs");
    assert!(outcome.notes.iter().any(noted), "{:?}", outcome.notes);
}
