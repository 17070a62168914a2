//! A network namespace of one's own whose loopback hands packets to a chosen CPU.

use std::fs;

use nix::libc;
use nix::sched::{CloneFlags, unshare};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
use reveille_kernel::{Error, Result};
use std::os::fd::AsRawFd;

/// Enters it; it ends with the process.
///
/// # Errors
/// Where this is not root, or the kernel has no namespaces or no RPS.
pub fn enter(cpu: u32) -> Result<()> {
    let cannot = |what: &str, why: std::io::Error| Error::Cannot(format!("{what}: {why}"));
    unshare(CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWNS)
        .map_err(|errno| cannot("a namespace of its own", errno.into()))?;
    // A mount of its own: the other one shows the interfaces of the other namespace.
    let flags = libc::MS_REC | libc::MS_PRIVATE;
    mount(c"none", c"/", c"none", flags).map_err(|why| cannot("mount / private", why))?;
    mount(c"sysfs", c"/sys", c"sysfs", 0).map_err(|why| cannot("mount /sys", why))?;
    set_up().map_err(|why| cannot("the interface lo", why))?;
    let rps = "/sys/class/net/lo/queues/rx-0/rps_cpus";
    // Groups of 32 CPUs, the first one last.
    let groups = std::iter::once(format!("{:x}", 1u32 << (cpu % 32)));
    let groups = groups.chain((0..cpu / 32).map(|_| "00000000".to_owned()));
    let mask = groups.collect::<Vec<_>>().join(",");
    fs::write(rps, mask).map_err(|why| cannot(rps, why))
}

fn mount(
    source: &std::ffi::CStr,
    target: &std::ffi::CStr,
    kind: &std::ffi::CStr,
    flags: libc::c_ulong,
) -> std::io::Result<()> {
    // SAFETY: the strings end with a zero, and the call keeps none of them.
    let mounted = unsafe {
        libc::mount(
            source.as_ptr(),
            target.as_ptr(),
            kind.as_ptr(),
            flags,
            std::ptr::null(),
        )
    };
    match mounted {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

/// netdevice(7): lo has no other flags that count.
fn set_up() -> std::io::Result<()> {
    let socket = socket(
        AddressFamily::Inet,
        SockType::Datagram,
        SockFlag::empty(),
        None,
    )?;
    // SAFETY: all zeros are a valid value of this plain data.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(*b"lo") {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    // SAFETY: the request is as that call takes it, and outlives the call.
    match unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &request) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}
