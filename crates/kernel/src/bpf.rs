//! Loading BPF programs with what this kernel has, and the kernel's account of what they cost.
//!
//! ```ignore
//! let btf = KernelBtf::read()?;
//! let mut open = LiveSkelBuilder::default().open(reveille_kernel::bpf::storage())?;
//! // ... settings into open.maps.rodata_data ...
//! reveille_kernel::bpf::choose(&mut open, &btf, |_, target| target != "nmi_handler" || nmis_wanted);
//! let mut skel = open.load().map_err(reveille_kernel::bpf::cannot_load)?;
//! skel.attach().map_err(reveille_kernel::bpf::cannot_load)?;
//! ```

mod bell;
mod pid_namespace;
mod run_time;
mod shared;

use std::ffi::c_char;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::{Func, Typedef};
use libbpf_rs::skel::OpenSkel;
use libbpf_rs::{ErrorKind, OpenObject, libbpf_sys};
use nix::errno::Errno;
use nix::libc;
use nix::sys::resource::{Resource, getrlimit};
use nix::unistd::geteuid;

use crate::{Error, Result};

pub use crate::{word, words};
pub use bell::{Bell, Mapping};
pub use pid_namespace::pid_namespace;
pub use run_time::{Counting, RunTime, run_time, run_time_of_all};
pub use shared::{Place, Plain, Shared, Word, record};

/// Runs a BPF program that creates timers, and repeats it for ten seconds at most while the kernel has no
/// memory for them; its errno, or 0.
///
/// From Linux 6.18 on bpf_timer_init and bpf_wq_init allocate without locks (kmalloc_nolock) from the CPU's
/// slab. While no page is available without a lock (`alloc_pages_nolock` in mm/page_alloc.c) they fail
/// until something else fills the slab. So it is filled here.
///
/// # Errors
/// If the program cannot be run.
pub fn while_out_of_memory(
    mut run: impl FnMut() -> libbpf_rs::Result<u32>,
) -> libbpf_rs::Result<i32> {
    const TRIES: u32 = 1_000;
    const PAUSE: Duration = Duration::from_millis(10);
    for attempt in 1..TRIES {
        match -(run()? as i32) {
            libc::ENOMEM => {
                if attempt > 1 {
                    std::thread::sleep(PAUSE);
                }
                fill_slab();
            }
            errno => return Ok(errno),
        }
    }
    Ok(-(run()? as i32))
}

/// Puts free objects into this CPU's slab of accounted objects of 192 bytes, which timers use: a pipe
/// allocates one with locks (`struct pipe_inode_info`), and leaves it there when it is closed.
fn fill_slab() {
    // As many as a slab of one page holds, or as descriptors allow.
    const PIPES: usize = 21;
    let _pipes: Vec<_> = (0..PIPES).map_while(|_| std::io::pipe().ok()).collect();
}

/// Runs a program of the type `syscall` in the calling thread; its return value.
///
/// # Errors
/// Where the kernel does not run it.
pub fn run_here(program: BorrowedFd<'_>) -> Result<u32> {
    let mut options = libbpf_sys::bpf_test_run_opts {
        sz: size_of::<libbpf_sys::bpf_test_run_opts>() as _,
        ..Default::default()
    };
    // SAFETY: the options are as long as they state, and outlive the call.
    match unsafe { libbpf_sys::bpf_prog_test_run_opts(program.as_raw_fd(), &raw mut options) } {
        0 => Ok(options.retval),
        error => Err(Error::system("running a BPF program")(Errno::from_raw(
            -error,
        ))),
    }
}

/// What the running kernel has, by its BTF.
pub struct KernelBtf(Btf<'static>);

impl KernelBtf {
    /// # Errors
    /// [`Error::Cannot`] where the kernel carries no BTF or it cannot be read.
    pub fn read() -> Result<Self> {
        // The errors report what fails, in short.
        libbpf_rs::set_print(None);
        Btf::from_vmlinux().map(Self).map_err(|error| {
            Error::Cannot(format!(
                "the kernel's BTF cannot be read ({error}): watching by BPF needs \
                 CONFIG_DEBUG_INFO_BTF (/sys/kernel/btf/vmlinux)"
            ))
        })
    }

    /// Whether the kernel has this tracepoint, such as `cpu_idle`.
    pub fn tracepoint(&self, name: &str) -> bool {
        self.0
            .type_by_name::<Typedef<'_>>(&format!("btf_trace_{name}"))
            .is_some()
    }

    /// Whether the kernel has this function; fentry on it may still be refused.
    pub fn function(&self, name: &str) -> bool {
        self.0.type_by_name::<Func<'_>>(name).is_some()
    }

    /// # Errors
    /// [`Error::Cannot`] without the tracepoint; `of` is its group, `needs` the kernel's option.
    pub fn require(&self, of: &str, name: &str, needs: &str) -> Result<()> {
        match self.tracepoint(name) {
            true => Ok(()),
            false => Err(Error::Cannot(format!(
                "the kernel has no tracepoint {of}:{name} ({needs}); `reveille doctor` shows what \
                 it has"
            ))),
        }
    }
}

/// Storage for an opened object. It must outlive the skeleton, so a few bytes are leaked for each load.
pub fn storage() -> &'static mut MaybeUninit<OpenObject> {
    Box::leak(Box::new(MaybeUninit::uninit()))
}

/// Selects the programs to load: those whose tracepoint or function exists, and that are `wanted` (kind
/// and target of the section: `tp_btf`, `cpu_idle`; other kinds, such as `syscall`, have no target).
pub fn choose<'object>(
    open: &mut impl OpenSkel<'object>,
    btf: &KernelBtf,
    wanted: impl Fn(&str, &str) -> bool,
) {
    for mut program in open.open_object_mut().progs_mut() {
        let section = program.section().to_string_lossy().into_owned();
        let (kind, target) = section.split_once('/').unwrap_or((&section, ""));
        let known = match kind {
            "tp_btf" | "raw_tp" if !target.is_empty() => btf.tracepoint(target),
            "fentry" | "fexit" => btf.function(target),
            _ => true,
        };
        program.set_autoload(known && wanted(kind, target));
    }
}

/// The name of a thread (`comm`), with spaces for control characters.
pub fn thread_name(comm: &[c_char]) -> String {
    let bytes = comm.iter().map(|c| *c as u8).take_while(|c| *c != 0);
    let bytes: Vec<u8> = bytes.collect();
    String::from_utf8_lossy(&bytes).replace(char::is_control, " ")
}

/// Whether descriptors are short: programs and their maps take some 30.
fn lacks_descriptors() -> bool {
    const NEEDED: u64 = 40;
    let open = std::fs::read_dir("/proc/self/fd").map(|open| open.count() as u64);
    let most = getrlimit(Resource::RLIMIT_NOFILE);
    match (open, most) {
        (Ok(open), Ok((most, _))) => open + NEEDED > most,
        (open, _) => open.is_err_and(|error| error.raw_os_error() == Some(Errno::EMFILE as i32)),
    }
}

/// Why a program was refused, and what to do.
pub fn cannot_load(error: libbpf_rs::Error) -> Error {
    match error.kind() {
        // Root gets this error for a program that the verifier rejects.
        ErrorKind::PermissionDenied if !geteuid().is_root() => Error::Cannot(
            "BPF programs may not be loaded by this user: run as root (sudo), or with the \
             capabilities CAP_BPF and CAP_PERFMON"
                .into(),
        ),
        // libbpf then reports a missing kernel type instead.
        _ if lacks_descriptors() => Error::Cannot(
            "BPF programs need more file descriptors than this process may open: raise the limit \
             (ulimit -n; LimitNOFILE= of a service)"
                .into(),
        ),
        _ => Error::Cannot(format!(
            "the kernel refuses the BPF programs ({error}){}",
            Error::SEE_DOCTOR
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_control_the_terminal() {
        let comm = *b"a\x1b[2Jb\0left over";
        assert_eq!(thread_name(&comm.map(|byte| byte as c_char)), "a [2Jb");
    }

    #[test]
    fn the_running_kernel_reports_its_features() {
        match KernelBtf::read() {
            Ok(btf) => {
                assert!(btf.function("schedule") && !btf.function("snore"));
                assert!(!btf.tracepoint("snore"));
                assert!(
                    btf.require("bed", "snore", "CONFIG_BED")
                        .unwrap_err()
                        .to_string()
                        .contains("bed:snore (CONFIG_BED)")
                );
            }
            Err(error) => println!("skipped: {error}"),
        }
    }
}
