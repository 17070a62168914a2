//! Whether the foreground waits, by BPF programs.

use std::fs;
use std::io::Read;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use libbpf_rs::{Iter, Link, RingBuffer, RingBufferBuilder};
use nix::libc;
use reveille_kernel::bpf::{self as kernel, KernelBtf, Plain, Shared, word};
use reveille_kernel::now_ns;

use super::policy;
use crate::{Error, Result};

mod skeleton {
    #![allow(clippy::all, non_camel_case_types, dead_code, unused_imports)]
    include!(concat!(env!("OUT_DIR"), "/foreground.skel.rs"));
}
use skeleton::{ForegroundSkel, ForegroundSkelBuilder, types};

/// The required tracepoints: group, name, the kernel's option.
const NEEDED: [(&str, &str, &str); 4] = [
    ("cgroup", "cgroup_attach_task", "CONFIG_CGROUPS"),
    ("sched", "sched_waking", "CONFIG_TRACEPOINTS"),
    ("sched", "sched_switch", "CONFIG_TRACEPOINTS"),
    ("irq", "softirq_raise", "CONFIG_TRACEPOINTS"),
];

/// The loaded and attached programs. Dropping it removes them; so does any end of the process.
pub struct Watched {
    // Before the programs, whose buffer it reads.
    bell: RingBuffer<'static>,
    variables: Shared<types::bss>,
    /// Goes through all tasks.
    scan: Link,
    _skel: Box<ForegroundSkel<'static>>,
    folder: PathBuf,
    began: Duration,
    /// As it was when the tasks were gone through last.
    moved: u64,
}

/// THREADS of foreground.h: BTF carries no macros.
const THREADS: u32 = 65_536;

impl Watched {
    /// The tasks of the cgroup of this folder, and of those below it.
    ///
    /// # Errors
    /// [`Error::Cannot`] if BTF, a tracepoint or the right to load BPF programs is missing.
    pub fn start(folder: &Path) -> Result<Self> {
        let btf = KernelBtf::read()?;
        for (group, name, option) in NEEDED {
            btf.require(group, name, option)?;
        }
        // Before 5.18 sched_switch lacks the previous task's state; the verifier refuses to read it.
        let load = |has_prev_state| load(&btf, has_prev_state);
        let mut skel = Box::new(load(true).or_else(|_| load(false))?);
        let variables = Shared::of(&skel.maps.bss, 1)?;
        let scan = skel.progs.enter_present.attach()?;
        skel.attach().map_err(kernel::cannot_load)?;
        let mut bell = RingBufferBuilder::new();
        bell.add(&skel.maps.bell, |_| 0)?;
        let mut watched = Self {
            bell: bell.build()?,
            variables,
            scan,
            _skel: skel,
            folder: folder.to_owned(),
            began: Duration::from_nanos(now_ns()),
            moved: u64::MAX,
        };
        watched.now()?;
        Ok(watched)
    }

    /// How the foreground is. A cgroup that was removed and made again is the foreground, too.
    ///
    /// # Errors
    /// [`Error::Cannot`] if this machine has more threads than can be watched.
    pub fn now(&mut self) -> Result<policy::Foreground> {
        let variables = self.variables.at(0);
        let Ok(folder) = fs::metadata(&self.folder) else {
            return Ok(policy::Foreground::Absent);
        };
        let moved = word!(variables, types::bss, moved).load(Ordering::SeqCst);
        let number = word!(variables, types::bss, cgroup);
        if number.swap(folder.ino(), Ordering::SeqCst) != folder.ino() || moved != self.moved {
            self.moved = moved;
            let mut nothing = Vec::new();
            Iter::new(&self.scan)?
                .read_to_end(&mut nothing)
                .map_err(Error::system("going through the tasks by BPF"))?;
        }
        if word!(variables, types::bss, unplaced).load(Ordering::Relaxed) > 0 {
            return Err(Error::Cannot(format!(
                "this machine has more than {THREADS} threads, which are not all watched"
            )));
        }
        let members = word!(variables, types::bss, members).load(Ordering::SeqCst);
        let awake = word!(variables, types::bss, awake).load(Ordering::SeqCst);
        let unknown = word!(variables, types::bss, unknown).load(Ordering::SeqCst);
        let waiting = word!(variables, types::bss, waiting_since).load(Ordering::SeqCst);
        let unknown_since = word!(variables, types::bss, unknown_since).load(Ordering::SeqCst);
        // Before it was watched it may have run.
        let since = |ns| Duration::from_nanos(ns).max(self.began);
        Ok(match (members, awake, unknown) {
            (..=0, ..) => policy::Foreground::Absent,
            (_, 1.., _) => policy::Foreground::Runs,
            (_, _, 1..) => policy::Foreground::MayWaitForBackground {
                since: since(unknown_since),
            },
            _ => policy::Foreground::Waits {
                since: since(waiting),
            },
        })
    }

    /// From now on the bell is rung when the foreground begins to run; or not.
    pub fn tell_running(&self, tell: bool) {
        word!(self.variables.at(0), types::bss, held).store(tell.into(), Ordering::SeqCst);
    }

    /// The bell is rung when the foreground waits next.
    pub fn tell_waiting(&self) {
        word!(self.variables.at(0), types::bss, tell_waiting).store(1, Ordering::SeqCst);
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

fn load(btf: &KernelBtf, has_prev_state: bool) -> Result<ForegroundSkel<'static>> {
    let mut open = ForegroundSkelBuilder::default().open(kernel::storage())?;
    let rodata = open.maps.rodata_data.as_deref_mut();
    let rodata = rodata.expect("the object has settings");
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

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;
    use std::process::{Child, Command, Stdio};

    use super::*;

    /// Two cgroups, and tasks in the first one, which end with them.
    struct Groups(Vec<PathBuf>, Vec<Child>);

    impl Groups {
        fn of_sleepers(count: usize) -> Option<Self> {
            let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
            let mut mounts = mounts.lines().map(|line| line.split(' '));
            let mount = mounts.find_map(|mut words| {
                let place = words.nth(1)?;
                (words.next()? == "cgroup2").then_some(place)
            })?;
            let folder = |name: &str| {
                let name = format!("reveille-foreground-{name}-{}", std::process::id());
                Path::new(mount).join(name)
            };
            let mut groups = Self(Vec::new(), Vec::new());
            for folder in ["here", "there"].map(folder) {
                fs::create_dir(&folder).ok()?;
                groups.0.push(folder);
            }
            for _ in 0..count {
                let tasks = groups.0[0].join("cgroup.procs");
                let script = "import time\nprint(flush=True)\nwhile True: time.sleep(0.002)";
                let mut command = Command::new("python3");
                command.args(["-c", script]).stdout(Stdio::piped());
                // SAFETY: between fork and exec, in a child whose copy of the allocator nobody else uses.
                unsafe { command.pre_exec(move || fs::write(&tasks, "0")) };
                groups.1.push(command.spawn().ok()?);
            }
            // What started them has ended then.
            for task in &mut groups.1 {
                let mut line = [0];
                task.stdout.as_mut()?.read_exact(&mut line).ok()?;
            }
            Some(groups)
        }
    }

    impl Drop for Groups {
        fn drop(&mut self) {
            for task in &mut self.1 {
                let _ = task.kill();
                let _ = task.wait();
            }
            let end = now_ns() + 5_000_000_000;
            for folder in &self.0 {
                while fs::remove_dir(folder).is_err() && now_ns() < end {
                    std::thread::sleep(Duration::from_millis(5));
                }
            }
        }
    }

    /// They come and go while they run and sleep. All their waits are for the time, so that none is unknown once each has
    /// ended one.
    #[test]
    fn tasks_are_counted_once() {
        let Some(groups) = Groups::of_sleepers(8) else {
            return println!(
                "skipped: tasks_are_counted_once: no cgroup2, no python3, or not root"
            );
        };
        let mut watched = match Watched::start(&groups.0[0]) {
            Ok(watched) => watched,
            Err(why) => return println!("skipped: tasks_are_counted_once: {why}"),
        };
        for _ in 0..3000 {
            for folder in groups.0.iter().rev() {
                for task in &groups.1 {
                    fs::write(folder.join("cgroup.procs"), task.id().to_string()).unwrap();
                }
                watched.now().unwrap();
            }
        }
        std::thread::sleep(Duration::from_millis(100));
        let mut slept = false;
        for _ in 0..200 {
            watched.now().unwrap();
            let variables = watched.variables.at(0);
            let members = word!(variables, types::bss, members).load(Ordering::SeqCst);
            let unknown = word!(variables, types::bss, unknown).load(Ordering::SeqCst);
            let awake = word!(variables, types::bss, awake).load(Ordering::SeqCst);
            assert_eq!((members, unknown), (8, 0), "{awake} awake");
            assert!((0..=8).contains(&awake), "{awake}");
            slept |= awake == 0;
            std::thread::sleep(Duration::from_micros(200));
        }
        assert!(slept);
    }
}
