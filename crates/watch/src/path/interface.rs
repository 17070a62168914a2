//! Interfaces of the network namespace that this process is in.

use reveille_kernel::network::{self, Interface};
use reveille_kernel::{Error, Result, Root};

/// The interface that `--nic` names.
///
/// # Errors
/// [`Error::Usage`] if there is none of that name, or only in another network namespace.
pub fn interface(root: &Root, name: &str) -> Result<Interface> {
    let interface = Interface::read(root, name).ok_or_else(|| {
        Error::Usage(format!(
            "--nic: no interface {name:?}; this machine has {}",
            network::names(root).join(", ")
        ))
    })?;
    match interface.is_here() {
        true => Ok(interface),
        false => Err(Error::Usage(format!(
            "--nic: {name} is in /sys, but not in this network namespace; enter one with \
             `ip netns exec NAME`, which brings its /sys along"
        ))),
    }
}
