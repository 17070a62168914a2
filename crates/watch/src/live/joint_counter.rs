//! The machine's joint sleep alone, for who reads it now and then.

use std::collections::BTreeMap;

use reveille_kernel::Root;
use reveille_kernel::asleep::Together;

use crate::Result;
use crate::live::seen::SeenJoint;

type Read = (SeenJoint, BTreeMap<String, u64>);

/// Counts the time in which all CPUs sleep at once, and who ends that, as the live view does. Dropping it removes its
/// programs.
pub struct JointCounter {
    so_far: Box<dyn Fn() -> Option<Read>>,
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
        use std::cell::RefCell;

        use crate::live::symbols::Symbols;
        use crate::live::{joint, kernel, programs, wakers};

        let idle = reveille_kernel::Idle::read(root)?;
        let symbols = Symbols::read(root);
        let mut kernel = kernel::Kernel::load(&kernel::Setup {
            cpus: programs::possible_cpus(root, &idle),
            polling_states: idle.polling_states(),
            symbols: symbols.as_ref(),
            counters: 0,
            wakers: true,
            joints: Some(&BTreeMap::new()),
            events: &[],
        })?;
        let machine: Vec<u32> = joint::online(&idle).into_iter().take(1).collect();
        // Events during attachment do not count.
        kernel.ended()?;
        let mut names = wakers::Names::new(root.clone(), symbols);
        let mut ended_by = BTreeMap::new();
        let state = RefCell::new(move || {
            for waker in &kernel.ended().ok()? {
                *ended_by.entry(names.of(waker)).or_default() += waker.joint;
            }
            ended_by.retain(|_, times| *times > 0);
            Some((kernel.together(&machine).pop()?, ended_by.clone()))
        });
        Ok(Self {
            so_far: Box::new(move || (state.borrow_mut())()),
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
        let read = (self.so_far)().filter(|_| online(&self.root) == self.online);
        let (seen, ended_by) = read?;
        Some(Together {
            at_ns: seen.at_ns,
            asleep_ns: seen.time_ns,
            times: seen.times,
            ended_ns: seen.ended_ns,
            ended_by,
        })
    }
}

fn online(root: &Root) -> Option<String> {
    root.text("sys/devices/system/cpu/online")
}
