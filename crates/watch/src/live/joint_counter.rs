//! The machine's joint sleep alone, for who reads it now and then.

use reveille_kernel::Root;
use reveille_kernel::asleep::Together;

use crate::Result;
use crate::live::seen::SeenJoint;

/// Counts the time in which all CPUs sleep at once, as the live view does. Dropping it removes its programs.
pub struct JointCounter {
    so_far: Box<dyn Fn() -> Option<SeenJoint>>,
    root: Root,
    online: Option<String>,
}

impl JointCounter {
    /// Starts counting on the running machine.
    ///
    /// # Errors
    /// [`crate::Error::Cannot`] where the kernel lacks what is needed or this user the right, or where this
    /// program was built without BPF.
    #[cfg(feature = "bpf")]
    pub fn start(root: &Root) -> Result<Self> {
        use std::collections::BTreeMap;

        use crate::live::{joint, kernel, programs};

        let idle = reveille_kernel::Idle::read(root)?;
        let kernel = kernel::Kernel::load(&kernel::Setup {
            cpus: programs::possible_cpus(root, &idle),
            polling_states: idle.polling_states(),
            symbols: None,
            counters: 0,
            wakers: false,
            joints: Some(&BTreeMap::new()),
            events: &[],
        })?;
        let machine: Vec<u32> = joint::online(&idle).into_iter().take(1).collect();
        Ok(Self {
            so_far: Box::new(move || kernel.together(&machine).pop()),
            root: root.clone(),
            online: online(root),
        })
    }

    /// Cannot.
    ///
    /// # Errors
    /// [`crate::Error::Cannot`].
    #[cfg(not(feature = "bpf"))]
    pub fn start(_: &Root) -> Result<Self> {
        let without = reveille_kernel::BUILT_WITHOUT_BPF;
        Err(crate::Error::Cannot(without.into()))
    }

    /// How it stands; `None` if a CPU came or went since the start.
    pub fn so_far(&self) -> Option<Together> {
        let seen = (self.so_far)().filter(|_| online(&self.root) == self.online)?;
        Some(Together {
            at_ns: seen.at_ns,
            asleep_ns: seen.time_ns,
            times: seen.times,
            ended_ns: seen.ended_ns,
        })
    }
}

fn online(root: &Root) -> Option<String> {
    root.text("sys/devices/system/cpu/online")
}
