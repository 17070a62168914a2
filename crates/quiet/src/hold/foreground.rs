//! Whether the foreground waits, by BPF programs.

use std::io::Read;
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;
use std::time::Duration;

use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use libbpf_rs::{Iter, RingBuffer, RingBufferBuilder};
use nix::libc;
use reveille_kernel::bpf::{self as kernel, KernelBtf, Plain, Shared, word};

use super::policy;
use crate::{Error, Result};

mod skeleton {
    #![allow(clippy::all, non_camel_case_types, dead_code, unused_imports)]
    include!(concat!(env!("OUT_DIR"), "/foreground.skel.rs"));
}
use skeleton::{ForegroundSkel, ForegroundSkelBuilder, types};

/// The required tracepoints: group, name, the kernel's option.
const NEEDED: [(&str, &str, &str); 3] = [
    ("sched", "sched_waking", "CONFIG_TRACEPOINTS"),
    ("sched", "sched_switch", "CONFIG_TRACEPOINTS"),
    ("irq", "softirq_raise", "CONFIG_TRACEPOINTS"),
];

/// The loaded and attached programs. Dropping it removes them; so does any end of the process.
pub struct Watched {
    // Before the programs, whose buffer it reads.
    bell: RingBuffer<'static>,
    variables: Shared<types::bss>,
    _skel: Box<ForegroundSkel<'static>>,
}

impl Watched {
    /// The tasks of the cgroup with this number, and of those below it.
    ///
    /// # Errors
    /// [`Error::Cannot`] if BTF, a tracepoint or the right to load BPF programs is missing.
    pub fn start(cgroup: u64) -> Result<Self> {
        let btf = KernelBtf::read()?;
        for (group, name, option) in NEEDED {
            btf.require(group, name, option)?;
        }
        // Before 5.18 sched_switch lacks the previous task's state; the verifier refuses to read it.
        let load = |has_prev_state| load(&btf, cgroup, has_prev_state);
        let mut skel = Box::new(load(true).or_else(|_| load(false))?);
        let variables = Shared::of(&skel.maps.bss, 1)?;
        skel.attach().map_err(kernel::cannot_load)?;
        let link = skel.progs.enter_present.attach()?;
        let mut nothing = Vec::new();
        Iter::new(&link)?
            .read_to_end(&mut nothing)
            .map_err(Error::system("going through the tasks by BPF"))?;
        let mut bell = RingBufferBuilder::new();
        bell.add(&skel.maps.bell, |_| 0)?;
        Ok(Self {
            bell: bell.build()?,
            variables,
            _skel: skel,
        })
    }

    /// How the foreground is.
    pub fn now(&self) -> policy::Foreground {
        let variables = self.variables.at(0);
        let awake = word!(variables, types::bss, awake).load(Ordering::SeqCst);
        let unknown = word!(variables, types::bss, unknown).load(Ordering::SeqCst);
        let waiting = word!(variables, types::bss, waiting_since).load(Ordering::SeqCst);
        let unknown_since = word!(variables, types::bss, unknown_since).load(Ordering::SeqCst);
        let since = Duration::from_nanos;
        match (awake, unknown) {
            (1.., _) => policy::Foreground::Runs,
            (_, 1..) => policy::Foreground::MayWaitForBackground {
                since: since(unknown_since),
            },
            _ => policy::Foreground::Waits {
                since: since(waiting),
            },
        }
    }

    /// From now on the bell is rung when the foreground begins to run; or not.
    pub fn tell_running(&self, tell: bool) {
        word!(self.variables.at(0), types::bss, held).store(tell.into(), Ordering::SeqCst);
    }

    /// The bell is rung when the foreground waits next.
    pub fn tell_waiting(&self) {
        word!(self.variables.at(0), types::bss, tell_waiting).store(1, Ordering::SeqCst);
    }

    /// How often there was no room for a thread.
    pub fn unplaced(&self) -> u64 {
        word!(self.variables.at(0), types::bss, unplaced).load(Ordering::Relaxed)
    }

    /// Readable once the bell was rung, until [`Watched::silence`].
    pub fn bell(&self) -> BorrowedFd<'_> {
        // SAFETY: the buffer has it open as long as it lives.
        unsafe { BorrowedFd::borrow_raw(self.bell.epoll_fd()) }
    }

    /// Until it is rung again.
    ///
    /// # Errors
    /// If the buffer cannot be read.
    pub fn silence(&self) -> Result<()> {
        Ok(self.bell.consume()?)
    }
}

fn load(btf: &KernelBtf, cgroup: u64, has_prev_state: bool) -> Result<ForegroundSkel<'static>> {
    let mut open = ForegroundSkelBuilder::default().open(kernel::storage())?;
    let rodata = open.maps.rodata_data.as_deref_mut();
    let rodata = rodata.expect("the object has settings");
    rodata.cgroup = cgroup;
    rodata.sleep_calls = [libc::SYS_nanosleep as i32, libc::SYS_clock_nanosleep as i32];
    rodata.has_prev_state = has_prev_state;
    let cpus = libbpf_rs::num_possible_cpus()? as u32;
    open.maps.cpus.set_max_entries(cpus)?;
    kernel::choose(&mut open, btf, |_, _| true);
    open.progs.enter_present.set_autoattach(false);
    open.load().map_err(kernel::cannot_load)
}

// SAFETY: integers.
unsafe impl Plain for types::bss {}
