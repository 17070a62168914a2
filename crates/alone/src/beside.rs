//! What runs beside a test, and ends with it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;

use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

/// Sets the flag once the test is through with it, also by a panic. A scope joins its threads in either case, and
/// would wait for ever for one that nobody has told.
#[derive(Debug)]
pub struct Over<'a>(pub &'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Does `work` while a thread of the usual policy spins on the CPU.
///
/// # Panics
/// If this process may not use the CPU.
pub fn while_spinning<T>(cpu: u32, work: impl FnOnce() -> T) -> T {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let _over = Over(&over);
        let (report, spins) = mpsc::channel();
        let over = &over;
        scope.spawn(move || {
            let mut only = CpuSet::new();
            only.set(cpu as usize).unwrap();
            sched_setaffinity(Pid::from_raw(0), &only).unwrap();
            report.send(()).unwrap();
            while !over.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        spins.recv().unwrap();
        work()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_spins_ends_with_work_that_panics() {
        let panics = || while_spinning(0, || panic!("expected here"));
        assert!(std::panic::catch_unwind(panics).is_err());
    }
}
