//! What the bus and the service tell each other.

use std::sync::Arc;

use tokio::sync::oneshot;

use crate::force::Cpu;
use crate::holds::{Asked, Hold, Refused};

/// What the bus asks of the service, or tells it.
#[derive(Debug)]
pub enum Event {
    /// A program asks for a hold: its number is the answer. If nobody takes the answer, the hold ends.
    Hold(Asked, oneshot::Sender<std::result::Result<u64, Refused>>),
    /// The hold of that number ends.
    Unhold(u64),
    /// What keeps the bus from being served, a sentence without its full stop; `None`: it is served.
    Problem(Option<String>),
}

/// Gives an event to the service; false if the service has ended.
pub type Tell = Arc<dyn Fn(Event) -> bool + Send + Sync>;

/// How the service stands, for who asks.
#[derive(Clone, Default)]
pub struct Standing {
    /// The rules' names, in the file's order.
    pub rules: Vec<String>,
    /// What does not work, a sentence each without its full stop.
    pub problems: Vec<String>,
    /// By number, oldest first.
    pub holds: Vec<(u64, Arc<Hold>)>,
    /// Those whose bounds can be set, ascending.
    pub cpus: Vec<Arc<Cpu>>,
}
