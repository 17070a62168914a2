//! What the bus and the service tell each other.

use std::sync::Arc;

use tokio::sync::oneshot;
use zbus::fdo;

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

/// Gives events to the service.
#[derive(Clone)]
pub struct Tell(Arc<dyn Fn(Event) -> bool + Send + Sync>);

impl Tell {
    /// By that, which returns false if the service has ended.
    pub fn by(tell: impl Fn(Event) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(tell))
    }

    /// Gives an event; false if the service has ended.
    pub fn tell(&self, event: Event) -> bool {
        (self.0)(event)
    }

    /// Has the service hold that; the hold's number.
    ///
    /// # Errors
    /// Where there are too many, and where the service ends.
    pub async fn hold(&self, asked: Asked) -> fdo::Result<u64> {
        let (answer, number) = oneshot::channel();
        self.tell(Event::Hold(asked, answer));
        let number = number.await;
        let number = number.map_err(|_| fdo::Error::Failed("the service ends".into()))?;
        number.map_err(|refused| fdo::Error::LimitsExceeded(refused.to_string()))
    }
}

/// How the service stands, for who asks.
#[derive(Clone, Default)]
pub struct Standing {
    /// Is UPower's interface to be served?
    pub upower_qos: bool,
    /// The rules' names, in the file's order.
    pub rules: Vec<String>,
    /// What does not work, a sentence each without its full stop.
    pub problems: Vec<String>,
    /// By number, oldest first.
    pub holds: Vec<(u64, Arc<Hold>)>,
    /// Those whose bounds can be set, ascending.
    pub cpus: Vec<Arc<Cpu>>,
}

impl Standing {
    /// Is there nothing new for who listens? CPUs are others as soon as rules were read or judged anew.
    pub fn is_as(&self, other: &Self) -> bool {
        let numbers = |standing: &Self| -> Vec<u64> {
            let holds = standing.holds.iter();
            holds.map(|(number, _)| *number).collect()
        };
        let mut cpus = self.cpus.iter().zip(&other.cpus);
        (self.upower_qos, &self.rules, &self.problems)
            == (other.upower_qos, &other.rules, &other.problems)
            && numbers(self) == numbers(other)
            && self.cpus.len() == other.cpus.len()
            && cpus.all(|(one, other)| Arc::ptr_eq(one, other))
    }
}
