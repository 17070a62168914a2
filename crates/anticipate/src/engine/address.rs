//! Addresses of the network, for the kernel's side.

use std::net::IpAddr;

/// An address as the kernel's side has it: family and bytes.
pub(super) fn bytes_of(address: IpAddr) -> (u8, [u8; 16]) {
    let mut bytes = [0; 16];
    match address.to_canonical() {
        IpAddr::V4(four) => {
            bytes[..4].copy_from_slice(&four.octets());
            (4, bytes)
        }
        IpAddr::V6(six) => (6, six.octets()),
    }
}
