//! Requests to the driver: target times on channel 0 of a card's clock.

use std::os::fd::{AsRawFd, OwnedFd};

use nix::ioctl_write_ptr;

use super::perout::Request;
use crate::source::phc::ClockTime;
use crate::{Error, Result};

// From the kernel's include/uapi/linux/ptp_clock.h.
#[repr(C)]
struct PeroutRequest {
    start: ClockTime,
    period: ClockTime,
    index: u32,
    flags: u32,
    on: ClockTime,
}
ioctl_write_ptr!(perout_request, b'=', 12, PeroutRequest);

/// # Errors
/// [`Error::Cannot`] if the driver refuses.
pub fn arm(device: &OwnedFd, request: &Request) -> Result<()> {
    ask(device, request.start_ns, request.period_ns())
}

/// Ends all target times.
///
/// # Errors
/// As [`arm`].
pub fn switch_off(device: &OwnedFd) -> Result<()> {
    ask(device, 0, 0)
}

fn ask(device: &OwnedFd, start_ns: u64, period_ns: u64) -> Result<()> {
    let asked = PeroutRequest {
        start: ClockTime::of(start_ns),
        period: ClockTime::of(period_ns),
        index: 0,
        flags: 0,
        on: ClockTime::default(),
    };
    // SAFETY: the kernel reads `asked`, which has its layout.
    let answer = unsafe { perout_request(device.as_raw_fd(), &raw const asked) };
    answer.map(drop).map_err(|error| {
        let why = match error {
            nix::Error::EBUSY => "; another program took its pin or its output",
            _ => "",
        };
        Error::Cannot(format!(
            "source nic: the card takes no target time: {error}{why}"
        ))
    })
}
