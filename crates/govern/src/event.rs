//! What the service reacts to.

use std::sync::mpsc::{Sender, SyncSender};

use crate::bus;
use crate::status::Status;

/// What the service reacts to.
#[derive(Debug)]
pub enum Event {
    /// It is to end.
    End,
    /// The rules' file may have changed.
    Reload,
    /// A device came, went or changed.
    Devices(Seen),
    /// Another program wrote a CPU's bound.
    Settings(Seen),
    /// Something changed on which conditions depend.
    Conditions(Seen),
    /// Somebody asks for the status.
    Status(SyncSender<Status>),
    /// Something of the system bus.
    Bus(bus::Event),
}

/// Of an event to which the service has reacted when this is dropped.
#[derive(Debug)]
pub struct Seen(#[expect(dead_code, reason = "it is dropped")] pub(crate) Sender<()>);
