//! The descriptor that is a hold's life.

use std::os::fd::OwnedFd;

use reveille_kernel::{Error, Result};
use tokio::io::Interest;
use tokio::net::unix::pipe::{self, Sender};

/// This end of a pipe, into which nothing is ever written. The program has the reading end, so there is
/// nothing that it can send: it can only close it, which the kernel reports here.
pub struct Life(Sender);

/// A life, and the descriptor for the program. The hold ends when its last copy is closed.
///
/// # Errors
/// Where this process has no descriptor left.
pub fn new() -> Result<(Life, OwnedFd)> {
    let failed = Error::system("making a pipe");
    let made = pipe::pipe().and_then(|(ours, theirs)| Ok((Life(ours), theirs.into_blocking_fd()?)));
    made.map_err(failed)
}

impl Life {
    /// Waits for its end.
    pub async fn end(self) {
        // An error of this call is the end of the runtime.
        while self
            .0
            .ready(Interest::ERROR)
            .await
            .is_ok_and(|ready| !ready.is_error())
        {}
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_life_ends_with_the_last_copy_of_its_descriptor() {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().build().unwrap();
        runtime.block_on(async {
            let (life, theirs) = new().unwrap();
            let copy = theirs.try_clone().unwrap();
            let mut end = Box::pin(life.end());
            drop(theirs);
            let pause = Duration::from_millis(50);
            assert!(tokio::time::timeout(pause, &mut end).await.is_err());
            drop(copy);
            let pause = Duration::from_secs(10);
            assert!(tokio::time::timeout(pause, end).await.is_ok());
        });
    }
    #[test]
    fn a_copy_that_waits_in_a_sockets_queue_is_one_of_them() {
        use std::io::IoSlice;
        use std::os::fd::AsRawFd;
        use std::os::unix::net::UnixStream;

        use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().build().unwrap();
        runtime.block_on(async {
            let (life, theirs) = new().unwrap();
            let (from, to) = UnixStream::pair().unwrap();
            let copies = [theirs.as_raw_fd()];
            let copies = [ControlMessage::ScmRights(&copies)];
            let byte = [IoSlice::new(b"x")];
            sendmsg::<()>(from.as_raw_fd(), &byte, &copies, MsgFlags::empty(), None).unwrap();
            let mut end = Box::pin(life.end());
            drop((theirs, from));
            let pause = Duration::from_millis(50);
            assert!(tokio::time::timeout(pause, &mut end).await.is_err());
            drop(to);
            let pause = Duration::from_secs(10);
            assert!(tokio::time::timeout(pause, end).await.is_ok());
        });
    }
}
