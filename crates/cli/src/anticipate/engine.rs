//! The engine, as the commands use it: live, and for applications.

use reveille_anticipate::{Desk, Unplanned};
use reveille_expect::Refusal;
use reveille_expect::server::{Owner, Plan, Ticket};

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
            Unplanned::User | Unplanned::Full => Refusal::Limit,
        })
    }

    fn cancel(&self, ticket: Ticket) {
        self.0.cancel(ticket.0);
    }
}
