//! Latency requests for all CPUs, and who holds them.

use std::io;
use std::time::{Duration, Instant};

use reveille_kernel::Root;
use reveille_kernel::pm_qos::{self, Holder};

/// The holders are searched for only when the bound changes, or after this time: the search takes
/// some 10 µs per process.
const SEARCH_INTERVAL: Duration = Duration::from_secs(15);

/// The bound and its holders at the last look.
#[derive(Default)]
pub struct Requests {
    pub bound_us: Option<u32>,
    pub holders: Vec<Holder>,
    pub notes: Vec<String>,
    looked: Option<Instant>,
}

impl Requests {
    pub fn look(&mut self, root: &Root) {
        // A recorded machine has no device.
        if !root.is_live() {
            return;
        }
        self.notes.clear();
        let before = self.bound_us;
        match pm_qos::current_bound_us() {
            Ok(bound) => self.bound_us = bound,
            Err(error) => {
                self.bound_us = None;
                // Without such a device there are no requests.
                if error.kind() != io::ErrorKind::NotFound {
                    self.notes.push(format!(
                        "the latency bound on all CPUs cannot be read: {}: {error}; root can read it",
                        pm_qos::DEVICE
                    ));
                }
            }
        }
        let due = self
            .looked
            .is_none_or(|looked| looked.elapsed() >= SEARCH_INTERVAL);
        if due || before != self.bound_us {
            if let Ok((holders, _)) = pm_qos::holders(&root.path("proc")) {
                self.holders = holders;
            }
            self.looked = Some(Instant::now());
        }
    }
}
