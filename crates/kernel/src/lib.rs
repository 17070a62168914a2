//! What this computer has for idling, and its settings.
//!
//! Everything here reads `/sys` and `/proc` below a [`Root`], so that a recorded machine is read as
//! the running one is. Unknown values are `None`, never zero.
//!
//! - [`Idle::read`]: driver, governor, and every CPU's idle states, limits and place.
//! - [`Identity::read`]: which computer and kernel this is.
//! - [`groups`]: CPUs that are alike, with their states taken together.
//! - [`boot`]: idle settings on the kernel's command line, and what a machine without a driver does.
//! - [`counters`]: residency, SMI and cycle counters of perf, and how to open them.
//! - [`interrupts`]: interrupts per CPU, and the CPU that serves the fewest.
//! - [`listeners`]: the processes that listen at an address.
//! - [`network`]: network interfaces, their interrupts, and what makes a packet wait there.
//! - [`pm_qos`]: latency bounds that processes hold, and their holders.
//! - [`bounds`]: all that keeps CPUs from deep states: requests, limits, the command line.
//! - [`energy`] and [`frequency`]: RAPL, batteries, cpufreq.
//! - [`requests`]: holding a latency bound, on all CPUs or on some.
//! - [`limits`]: which idle states CPUs may use.
//! - [`affinity`]: which CPUs a thread may use.
//! - [`timer_slack`]: by how much the kernel may delay sleeps; [`freezer`]: stopping the tasks of a cgroup.
//! - [`Awake`]: CPUs that do not sleep because a thread spins on them.
//! - [`workload`]: the tasks of a process, a cgroup, or all.
//! - [`Btf`] and [`capabilities`]: what the kernel has and what this process may.
//! - [`features`]: what kernel, CPU and user allow (`reveille doctor`).
//! - [`Account`] and [`RunAs`]: user accounts, and running a command with their rights.
//! - `bpf` (with that feature): loading BPF programs, memory shared with them, their run time.
//! - [`Journal`]: settings that are changed temporarily and always restored.
//!
//! ```
//! use reveille_kernel::{Idle, Root};
//!
//! # fn main() -> reveille_kernel::Result<()> {
//! let idle = Idle::read(&Root::default())?; // or Root::at("/tmp/recorded-machine")
//! for group in idle.groups() {
//!     for state in &group.states {
//!         println!("{:?} {} {:?} µs", group.cpus, state.name, state.exit_latency_us);
//!     }
//! }
//! # Ok(())
//! # }
//! ```

mod account;
pub mod affinity;
pub mod asleep;
mod awake;
pub mod boot;
pub mod bounds;
#[cfg(feature = "bpf")]
pub mod bpf;
mod btf;
pub mod capabilities;
pub mod counters;
mod cpuinfo;
pub mod cpulist;
pub mod cpuset;
pub mod energy;
mod error;
pub mod features;
pub mod files;
pub mod freezer;
pub mod frequency;
pub mod groups;
mod identity;
mod idle;
pub mod interrupts;
pub mod journal;
pub mod limits;
pub mod listeners;
pub mod load;
pub mod network;
pub mod pm_qos;
mod prewake;
pub mod requests;
mod root;
mod run_as;
pub mod timer_slack;
mod topology;
mod uevents;
pub mod workload;

pub use account::Account;
pub use awake::Awake;
pub use btf::Btf;
pub use error::{BUILT_WITHOUT_BPF, Error, Result};
pub use identity::Identity;
pub use idle::{Cpu, Idle, IdleState, driver_and_governor, polls};
pub use journal::{Journal, Restored};
pub use prewake::PreWake;
pub use root::Root;
pub use run_as::{Inherited, RunAs};
pub use topology::CoreKind;
pub use uevents::Uevents;

/// CLOCK_MONOTONIC, ns.
pub fn now_ns() -> u64 {
    let now = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC)
        .expect("CLOCK_MONOTONIC is always there");
    now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64
}
