//! The run time of programs, as the kernel counts it.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use libbpf_rs::{Object, libbpf_sys};
use nix::errno::Errno;

use super::run_here;
use crate::{Error, Result};

/// While it lives, the kernel counts the run time of all BPF programs on the machine, which costs each run
/// some 50 ns.
pub struct Counting {
    _descriptor: OwnedFd,
}

impl Counting {
    /// `None` if the kernel does not support it (before 5.8) or this user may not enable it.
    pub fn start() -> Option<Self> {
        // SAFETY: the call takes a plain value and returns a descriptor that is ours, or an error.
        let counting = unsafe { libbpf_sys::bpf_enable_stats(libbpf_sys::BPF_STATS_RUN_TIME) };
        // SAFETY: the descriptor is open and ours alone. The kernel counts until it is closed.
        (counting >= 0).then(|| Self {
            _descriptor: unsafe { OwnedFd::from_raw_fd(counting) },
        })
    }

    /// The cost of counting itself, ns per run: the least run time of a program that does nothing. 0 if
    /// such a program cannot be run on request (before Linux 5.10).
    ///
    /// # Errors
    /// If the kernel refuses the program, or does not report its time.
    pub fn of_nothing_ns(&self) -> Result<u64> {
        let nothing = load_nothing()?;
        let mut least = u64::MAX;
        for _ in 0..RUNS_OF_NOTHING {
            let before = run_time(nothing.as_fd())?;
            if run_here(nothing.as_fd()).is_err() {
                return Ok(0);
            }
            least = least.min(run_time(nothing.as_fd())?.ns - before.ns);
        }
        Ok(least)
    }
}

const RUNS_OF_NOTHING: usize = 200;

/// A program that does nothing.
fn load_nothing() -> Result<OwnedFd> {
    // include/uapi/linux/bpf.h: BPF_ALU64 | BPF_MOV | BPF_K, and BPF_JMP | BPF_EXIT.
    let instructions = [0xb7, 0x95].map(|code| libbpf_sys::bpf_insn {
        code,
        ..Default::default()
    });
    // SAFETY: both strings end with a zero, `insn_cnt` is the number of instructions, and there are
    // no options; the call keeps none of them.
    let loaded = unsafe {
        libbpf_sys::bpf_prog_load(
            libbpf_sys::BPF_PROG_TYPE_RAW_TRACEPOINT,
            c"nothing".as_ptr(),
            c"Dual BSD/GPL".as_ptr(),
            instructions.as_ptr(),
            instructions.len() as _,
            std::ptr::null_mut(),
        )
    };
    match loaded {
        // SAFETY: the descriptor is open and ours alone.
        descriptor if descriptor >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(descriptor) }),
        error => Err(Error::system("loading a BPF program that does nothing")(
            Errno::from_raw(-error),
        )),
    }
}

/// The run time of programs so far, on all CPUs together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RunTime {
    /// CPU time of all runs, ns, including the kernel's counting.
    pub ns: u64,
    /// How often programs ran.
    pub runs: u64,
}

impl RunTime {
    /// Adds another program's.
    pub fn add(&mut self, other: Self) {
        self.ns += other.ns;
        self.runs += other.runs;
    }

    /// The increase since an earlier reading, less the cost of counting
    /// ([`Counting::of_nothing_ns`] for each run), ns.
    pub fn own_ns_since(&self, before: Self, nothing_ns: u64) -> u64 {
        let counting_ns = (self.runs - before.runs) * nothing_ns;
        (self.ns - before.ns).saturating_sub(counting_ns)
    }
}

/// The run time of a program.
///
/// # Errors
/// Where the kernel does not report it.
pub fn run_time(program: BorrowedFd<'_>) -> Result<RunTime> {
    let mut info = libbpf_sys::bpf_prog_info::default();
    let mut length = size_of_val(&info) as u32;
    let descriptor = program.as_raw_fd();
    // SAFETY: `info` is plain data of the length given, and outlives the call.
    let result =
        unsafe { libbpf_sys::bpf_prog_get_info_by_fd(descriptor, &raw mut info, &raw mut length) };
    match result {
        0 => Ok(RunTime {
            ns: info.run_time_ns,
            runs: info.run_cnt,
        }),
        error => Err(Error::system("reading a BPF program's run time")(
            Errno::from_raw(-error),
        )),
    }
}

/// The run time of the programs of a loaded object (`skel.object()`).
///
/// # Errors
/// Where the kernel does not report it.
pub fn run_time_of_all(object: &Object) -> Result<RunTime> {
    let mut sum = RunTime::default();
    for program in object.progs().filter(|program| program.autoload()) {
        sum.add(run_time(program.as_fd())?);
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cost_of_counting_is_subtracted() {
        let before = RunTime { ns: 1000, runs: 10 };
        let after = RunTime { ns: 3000, runs: 20 };
        assert_eq!(after.own_ns_since(before, 50), 1500);
        assert_eq!(after.own_ns_since(before, 500), 0);
        assert_eq!(before.own_ns_since(before, 50), 0);
    }

    #[test]
    fn counting_an_empty_program_takes_a_little() {
        let test = "counting_an_empty_program_takes_a_little";
        let Some(counting) = Counting::start() else {
            return println!("skipped: {test}: the kernel does not count, or not for this user");
        };
        let nothing_ns = counting.of_nothing_ns().unwrap();
        if nothing_ns == 0 {
            return println!("skipped: {test}: this kernel runs no such program on request");
        }
        // The minimum of 200 runs is hardly disturbed on any machine.
        assert!(nothing_ns < 100_000, "{nothing_ns}");
    }
}
