//! Requests about a network interface, by its name (netdevice(7)).

use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixDatagram;

use nix::libc;

/// Sends a request whose struct has these 32-bit words; the kernel replaces them by its answer.
pub(super) fn send<const WORDS: usize>(
    interface: &str,
    request: u32,
    words: &mut [u32; WORDS],
) -> io::Result<()> {
    // Any socket will do, and this one needs no address.
    let socket = UnixDatagram::unbound()?;
    // SAFETY: an ifreq is plain data, and all zeros is one.
    let mut about: libc::ifreq = unsafe { std::mem::zeroed() };
    if interface.len() >= about.ifr_name.len() {
        return Err(io::Error::from_raw_os_error(libc::ENODEV));
    }
    for (place, byte) in about.ifr_name.iter_mut().zip(interface.bytes()) {
        *place = byte as libc::c_char;
    }
    about.ifr_ifru.ifru_data = words.as_mut_ptr().cast();
    // SAFETY: `about` holds the interface's name, ended by a zero, and points to the request's
    // struct, of the length that the kernel knows for it; both outlive the call.
    match unsafe { libc::ioctl(socket.as_raw_fd(), request as _, &raw mut about) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// `None` if the driver does not support the request.
pub(super) fn if_supported(answered: io::Result<()>) -> io::Result<Option<()>> {
    match answered.map_err(|error| (error.raw_os_error(), error)) {
        Ok(()) => Ok(Some(())),
        Err((Some(libc::EOPNOTSUPP | libc::EINVAL | libc::ENOTTY), _)) => Ok(None),
        Err((_, error)) => Err(error),
    }
}
