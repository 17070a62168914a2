//! I/O for whose completion the thread polls: its CPU does not sleep while it waits.
//!
//! By the kernel's interface for asynchronous I/O (io_submit(2)), which both direct reads and writes
//! of files and devices take; its structures are those of `linux/aio_abi.h`.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use nix::libc;

use crate::Operation;

/// `struct iocb`, on a little-endian machine; the two halves of `key` change places on others, and
/// both are 0.
#[repr(C)]
#[derive(Default)]
struct Request {
    data: u64,
    key: u32,
    flags: u32,
    opcode: u16,
    priority: i16,
    descriptor: u32,
    buffer: u64,
    bytes: u64,
    offset: i64,
    reserved: u64,
    more_flags: u32,
    event: u32,
}

/// `struct io_event`.
#[repr(C)]
#[derive(Default)]
struct Event {
    data: u64,
    request: u64,
    result: i64,
    result2: i64,
}

/// A thread's own; one I/O at a time.
pub struct Polled {
    context: libc::c_ulong,
}

impl Polled {
    /// If the kernel has no such interface, or too many use it.
    pub fn new() -> io::Result<Self> {
        let mut context: libc::c_ulong = 0;
        // SAFETY: the kernel writes the context's number.
        check(unsafe { libc::syscall(libc::SYS_io_setup, 1, &raw mut context) })?;
        Ok(Self { context })
    }

    /// One I/O, from its issue until its completion is seen.
    ///
    /// # Errors
    /// The I/O's, and [`io::ErrorKind::UnexpectedEof`] for one that ends short.
    pub fn one(
        &mut self,
        file: &File,
        operation: Operation,
        bytes: &mut [u8],
        offset: u64,
    ) -> io::Result<()> {
        let request = Request {
            // IOCB_CMD_PREAD, IOCB_CMD_PWRITE
            opcode: match operation {
                Operation::Read => 0,
                Operation::Write => 1,
            },
            descriptor: file.as_raw_fd() as u32,
            buffer: bytes.as_mut_ptr() as u64,
            bytes: bytes.len() as u64,
            offset: offset as i64,
            ..Request::default()
        };
        let requests = [&raw const request];
        // SAFETY: the request and its buffer live until the event has come, below.
        check(unsafe { libc::syscall(libc::SYS_io_submit, self.context, 1, requests.as_ptr()) })?;
        let mut event = Event::default();
        let at_once = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        loop {
            // SAFETY: there is room for one event.
            let seen = unsafe {
                libc::syscall(
                    libc::SYS_io_getevents,
                    self.context,
                    0,
                    1,
                    &raw mut event,
                    &raw const at_once,
                )
            };
            match check(seen) {
                Ok(0) => {}
                Ok(_) => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // The buffer may still be written: nobody else may have it.
                Err(error) => panic!("io_getevents fails for an I/O on its way: {error}"),
            }
        }
        match event.result {
            done if done == bytes.len() as i64 => Ok(()),
            errno if errno < 0 => Err(io::Error::from_raw_os_error(-errno as i32)),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

impl Drop for Polled {
    fn drop(&mut self) {
        // SAFETY: the context is ours, and nothing is on its way.
        unsafe { libc::syscall(libc::SYS_io_destroy, self.context) };
    }
}

fn check(result: libc::c_long) -> io::Result<libc::c_long> {
    match result {
        -1 => Err(io::Error::last_os_error()),
        result => Ok(result),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn it_reads_and_writes_files_and_reports_missing_ones() {
        let Ok(mut polled) = Polled::new() else {
            println!("skipped: polled I/O: the kernel has no io_setup for this process");
            return;
        };
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"0123456789").unwrap();
        let mut bytes = *b"....";
        polled.one(&file, Operation::Read, &mut bytes, 3).unwrap();
        assert_eq!(&bytes, b"3456");
        polled.one(&file, Operation::Write, &mut bytes, 0).unwrap();
        polled.one(&file, Operation::Read, &mut bytes, 1).unwrap();
        assert_eq!(&bytes, b"4564");
        let short = polled.one(&file, Operation::Read, &mut bytes, 8);
        assert_eq!(short.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
