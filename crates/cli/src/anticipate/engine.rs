//! The engine, as the commands use it: live, and for applications.

use std::fs;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::unistd::{SysconfVar, sysconf};
use reveille_anticipate::{Desk, Unplanned};
use reveille_expect::Refusal;
use reveille_expect::server::{DESCRIPTORS_OF_A_CLIENT, Owner, Plan, Ticket};

use crate::exit::Failure;

pub use super::live::live;

/// What applications expect goes into the engine's plans.
pub struct Applications(pub Desk);

impl Plan for Applications {
    fn expect(
        &self,
        cpu: u32,
        at_ns: u64,
        window_ns: u64,
        owner: Owner,
    ) -> std::result::Result<Ticket, Refusal> {
        let process = u32::try_from(owner.pid).unwrap_or_default();
        let ticket = self.0.expect(cpu, at_ns, window_ns, process, owner.uid);
        ticket.map(Ticket).map_err(|why| match why {
            Unplanned::Cpu => Refusal::Cpu,
            Unplanned::Past => Refusal::Past,
            Unplanned::Budget => Refusal::Budget,
            Unplanned::User | Unplanned::Full => Refusal::Slots,
        })
    }

    fn cancel(&self, ticket: Ticket) {
        self.0.cancel(ticket.0);
    }
}

/// Descriptors that are open for a moment: files of /sys and /proc, and what libraries open.
const BRIEFLY_OPEN: u64 = 64;

/// Raises the limit of file descriptors, where it is too low for an engine with that many applications.
///
/// # Errors
/// Where this user may not have as many.
pub fn provide_descriptors(clients: u32) -> anyhow::Result<()> {
    let cpus = sysconf(SysconfVar::_NPROCESSORS_CONF)?.unwrap_or(1) as u32;
    let applications = u64::from(clients) * u64::from(DESCRIPTORS_OF_A_CLIENT);
    let open = fs::read_dir("/proc/self/fd").map_or(0, Iterator::count) as u64;
    let needed = open + reveille_anticipate::descriptors(cpus) + applications + BRIEFLY_OPEN;
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    if soft >= needed || setrlimit(Resource::RLIMIT_NOFILE, needed, hard.max(needed)).is_ok() {
        return Ok(());
    }
    Err(Failure::cannot(format!(
        "{clients} applications on {cpus} CPUs may take {needed} file descriptors, and this process \
         may have {hard}: raise that limit (ulimit -Hn; LimitNOFILE= of a service) or lower --clients"
    )))
}
