//! Whether a server on this machine runs for others, by a BPF program.
//!
//! A queue has a [`Seat`], with the tasks of its servers. While it holds requests it is armed; the bell rings once one of
//! these tasks has run for [`LONG`], and disarms it.

use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use libbpf_rs::{MapCore, MapFlags, MapHandle, ProgramInput};
use reveille_kernel::bpf::{self as kernel, Bell, KernelBtf, Plain, Shared, word};
use reveille_kernel::{Error, Result, Root, now_ns};

mod skeleton {
    #![allow(clippy::all, non_camel_case_types, dead_code, unused_imports)]
    include!(concat!(env!("OUT_DIR"), "/server.skel.rs"));
}
use skeleton::{ServerSkel, ServerSkelBuilder, types};

/// A server that has run for this long is expected to run on until the requests come: the proxy takes about half of it.
pub const LONG: Duration = Duration::from_micros(200);

/// TASKS of server.h: BTF carries no macros.
const TASKS: usize = 4096;

/// The loaded and attached program. Dropping it removes it; so does any end of the process.
pub struct Program(
    #[expect(dead_code, reason = "it is attached while it lives")] Box<ServerSkel<'static>>,
);

/// The memory and the bell that the program shares with this process.
#[derive(Debug)]
pub struct Watch {
    variables: Shared<types::bss>,
    runs: Shared<types::run>,
    cpus: usize,
    servers: MapHandle,
    bell: Bell,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The bits of the seats that are taken.
    taken: u64,
    /// As in the program's map.
    tasks: HashMap<u32, u64>,
}

/// The place of a queue: a bit.
#[derive(Debug)]
pub struct Seat {
    watch: Arc<Watch>,
    bit: u64,
}

impl Watch {
    /// Loads the program.
    ///
    /// # Errors
    /// [`Error::Cannot`] if BTF, timers for BPF (Linux 5.17) or the right to load BPF programs is missing.
    pub fn start() -> Result<(Arc<Self>, Program)> {
        let btf = KernelBtf::read()?;
        btf.require("sched", "sched_switch", "CONFIG_TRACEPOINTS")?;
        let cpus = kernel::cpu_numbers(&Root::default())?;
        let mut open = ServerSkelBuilder::default().open(kernel::storage())?;
        let settings = open.maps.rodata_data.as_deref_mut();
        let settings = settings.expect("the object has settings");
        settings.long_ns = LONG.as_nanos() as u64;
        settings.cpu_numbers = cpus;
        settings.pid_namespace = kernel::pid_namespace()?;
        open.maps.runs.set_max_entries(cpus)?;
        open.maps.alarms.set_max_entries(cpus)?;
        let mut skel = Box::new(open.load().map_err(kernel::cannot_load)?);
        let mut bells = Bell::all(&skel.maps.bells)?;
        let prepare = || {
            let run = skel.progs.prepare.test_run(ProgramInput::default())?;
            Ok(run.return_value)
        };
        if let errno @ 1.. = kernel::while_out_of_memory(prepare)? {
            return Err(Error::Cannot(format!(
                "the kernel arms no timers for BPF: {}",
                std::io::Error::from_raw_os_error(errno)
            )));
        }
        skel.attach().map_err(kernel::cannot_load)?;
        let watch = Self {
            variables: Shared::of(&skel.maps.bss, 1)?,
            runs: Shared::of(&skel.maps.runs, cpus as usize)?,
            cpus: cpus as usize,
            servers: MapHandle::try_from(&skel.maps.servers)?,
            bell: bells.pop().expect("there is one"),
            state: Mutex::default(),
        };
        Ok((Arc::new(watch), Program(skel)))
    }

    /// A place for a queue; `None` if all 64 are taken.
    pub fn seat(self: &Arc<Self>) -> Option<Seat> {
        let mut state = self.state();
        let bit = 1_u64.checked_shl(state.taken.trailing_ones())?;
        state.taken |= bit;
        Some(Seat {
            watch: Arc::clone(self),
            bit,
        })
    }

    /// Until the bell rings again.
    pub fn silence(&self) {
        self.bell.silence();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn armed(&self) -> &std::sync::atomic::AtomicU64 {
        word!(self.variables.at(0), types::bss, armed)
    }
}

impl AsFd for Watch {
    /// Readable once the bell rings, until [`Watch::silence`].
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

impl Seat {
    /// The processes or threads of the servers, instead of those before; of more than there is room for, some.
    ///
    /// # Errors
    /// Where the kernel does not take them.
    pub fn follow(&self, tasks: &[u32]) -> Result<()> {
        let watch = &self.watch;
        let mut state = watch.state();
        for bits in state.tasks.values_mut() {
            *bits &= !self.bit;
        }
        for task in tasks {
            if state.tasks.len() < TASKS || state.tasks.contains_key(task) {
                *state.tasks.entry(*task).or_default() |= self.bit;
            }
        }
        for (task, bits) in &state.tasks {
            let key = task.to_ne_bytes();
            match bits {
                0 => drop(watch.servers.delete(&key)),
                bits => watch
                    .servers
                    .update(&key, &bits.to_ne_bytes(), MapFlags::ANY)?,
            }
        }
        state.tasks.retain(|_, bits| *bits != 0);
        Ok(())
    }

    /// The queue holds requests; or not.
    pub fn arm(&self, holds: bool) {
        let armed = self.watch.armed();
        match holds {
            true => armed.fetch_or(self.bit, Ordering::SeqCst),
            false => armed.fetch_and(!self.bit, Ordering::SeqCst),
        };
    }

    /// Has the bell rung for it since it was armed?
    pub fn has_rung(&self) -> bool {
        self.watch.armed().load(Ordering::SeqCst) & self.bit == 0
    }

    /// Does one of its servers run, and has for [`LONG`]?
    pub fn runs(&self) -> bool {
        let now = now_ns();
        (0..self.watch.cpus).any(|cpu| {
            let run = self.watch.runs.at(cpu);
            let since = word!(run, types::run, since).load(Ordering::Relaxed);
            let queues = word!(run, types::run, queues).load(Ordering::Relaxed);
            since != 0 && queues & self.bit != 0 && now >= since + LONG.as_nanos() as u64
        })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.arm(false);
        // The map is there as long as the watch.
        let _ = self.follow(&[]);
        self.watch.state().taken &= !self.bit;
    }
}

// SAFETY: integers.
unsafe impl Plain for types::bss {}
// SAFETY: integers.
unsafe impl Plain for types::run {}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    /// `None`, with a word, where this user or kernel cannot load it.
    fn watch(test: &str) -> Option<(Arc<Watch>, Program)> {
        let started = Watch::start();
        started
            .map_err(|error| println!("skipped: {test}: {error}"))
            .ok()
    }

    fn rings(watch: &Watch, within: Duration) -> bool {
        use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
        let mut bell = [PollFd::new(watch.as_fd(), PollFlags::POLLIN)];
        poll(&mut bell, PollTimeout::try_from(within).unwrap()).unwrap() == 1
    }

    /// A thread that runs for a time at a time, and its number.
    fn server(runs: Duration) -> (u32, std::sync::mpsc::Sender<()>) {
        let (sender, receiver) = std::sync::mpsc::channel();
        let (number, its_number) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            number.send(nix::unistd::gettid().as_raw() as u32).unwrap();
            while receiver.recv().is_ok() {
                let end = Instant::now() + runs;
                while Instant::now() < end {
                    std::hint::spin_loop();
                }
            }
        });
        (its_number.recv().unwrap(), sender)
    }

    #[test]
    fn the_bell_rings_for_a_server_that_runs_while_requests_are_held() {
        let Some((watch, _program)) = watch("the_bell_rings_for_a_server_that_runs") else {
            return;
        };
        let (long, runs_long) = server(Duration::from_millis(20));
        let (short, runs_short) = server(Duration::ZERO);
        let (seat, other) = (watch.seat().unwrap(), watch.seat().unwrap());
        seat.follow(&[long, short]).unwrap();
        other.follow(&[short]).unwrap();
        other.arm(true);
        let ms = Duration::from_millis;
        // Not armed.
        runs_long.send(()).unwrap();
        assert!(!rings(&watch, ms(50)));
        seat.arm(true);
        for _ in 0..20 {
            runs_short.send(()).unwrap();
            std::thread::sleep(ms(1));
        }
        if rings(&watch, ms(20)) {
            // It was run by a busy machine's hypervisor for longer.
            watch.silence();
            seat.arm(true);
            other.arm(true);
        }
        assert!(!seat.has_rung() && !seat.runs());
        runs_long.send(()).unwrap();
        assert!(rings(&watch, ms(1000)));
        watch.silence();
        assert!(seat.has_rung() && !other.has_rung());
        // Once.
        assert!(!rings(&watch, ms(50)));
        // Other tests may take its CPU for a while.
        let end = Instant::now() + ms(20_000);
        while !seat.runs() || other.runs() {
            assert!(Instant::now() < end);
            runs_long.send(()).unwrap();
            std::thread::sleep(ms(10));
        }
        drop(runs_long);
        let end = Instant::now() + ms(20_000);
        while seat.runs() {
            assert!(Instant::now() < end);
            std::thread::sleep(ms(1));
        }
    }

    #[test]
    fn seats_are_given_back() {
        let Some((watch, _program)) = watch("seats_are_given_back") else {
            return;
        };
        let seats: Vec<Seat> = std::iter::from_fn(|| watch.seat()).collect();
        assert_eq!(seats.len(), 64);
        seats[0].follow(&[1, 2]).unwrap();
        seats[1].follow(&[2]).unwrap();
        drop(seats);
        assert_eq!(watch.servers.keys().count(), 0);
        assert_eq!(watch.seat().unwrap().bit, 1);
    }
}
