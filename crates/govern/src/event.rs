//! What the service reacts to.

use std::fmt;
use std::sync::mpsc::{Sender, SyncSender};

use crate::holds::{Asked, Refused};
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
    /// A program asks for a hold: its number is the answer. If nobody takes the answer, the hold ends.
    Hold(Asked, Answer),
    /// The hold of that number ends.
    Unhold(u64),
    /// What keeps the bus from being served, a sentence without its full stop; `None`: it is served.
    Bus(Option<String>),
}

/// Takes the answer to who asks for a hold.
pub struct Answer(Box<dyn FnOnce(Result<u64, Refused>) -> bool + Send>);

impl Answer {
    /// By that, which returns false if who asked has left.
    pub fn by(answer: impl FnOnce(Result<u64, Refused>) -> bool + Send + 'static) -> Self {
        Self(Box::new(answer))
    }

    /// Answers; false if who asked has left.
    pub fn send(self, number: Result<u64, Refused>) -> bool {
        (self.0)(number)
    }
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Answer")
    }
}

/// Of an event to which the service has reacted when this is dropped.
#[derive(Debug)]
pub struct Seen(#[expect(dead_code, reason = "it is dropped")] pub(crate) Sender<()>);
