//! The kernel's uevents: devices that come and go.

use std::os::fd::{AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, socket,
};

use crate::{Error, Result};

/// A socket that receives them; waiting for one causes no wake-ups.
#[derive(Debug)]
pub struct Uevents(OwnedFd);

impl Uevents {
    /// From now on.
    ///
    /// # Errors
    /// Where the kernel gives this process none.
    pub fn open() -> Result<Self> {
        // The group of what comes from the kernel itself.
        let everything = NetlinkAddr::new(0, 1);
        let opened = socket(
            AddressFamily::Netlink,
            SockType::Datagram,
            SockFlag::SOCK_CLOEXEC,
            SockProtocol::NetlinkKObjectUEvent,
        );
        let bound = opened.and_then(|socket| {
            bind(socket.as_raw_fd(), &everything)?;
            Ok(Self(socket))
        });
        bound.map_err(system)
    }

    /// Waits for the next one, of any device.
    ///
    /// # Errors
    /// Where the socket fails.
    pub fn wait(&self) -> Result<()> {
        let mut uevent = [0; 8192];
        loop {
            match recv(self.0.as_raw_fd(), &mut uevent, MsgFlags::empty()) {
                // More came than were read: one of them may be what is waited for.
                Ok(_) | Err(Errno::ENOBUFS) => return Ok(()),
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(system(errno)),
            }
        }
    }
}

fn system(errno: Errno) -> Error {
    Error::system("the kernel's uevents")(errno)
}
