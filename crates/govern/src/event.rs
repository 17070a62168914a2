//! What the service reacts to.

use std::sync::mpsc::SyncSender;

use crate::status::Status;

/// What the service reacts to.
#[derive(Debug)]
pub enum Event {
    /// It is to end.
    End,
    /// The rules' file may have changed.
    Reload,
    /// A device came or went.
    Devices,
    /// Somebody asks for the status.
    Status(SyncSender<Status>),
}
