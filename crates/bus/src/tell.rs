//! What the bus asks of the service.

use std::sync::Arc;

use reveille_govern::event::{Answer, Event};
use reveille_govern::holds::Asked;
use tokio::sync::oneshot;
use zbus::fdo;

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
        let answer = Answer::by(move |number| answer.send(number).is_ok());
        self.tell(Event::Hold(asked, answer));
        let number = number.await;
        let number = number.map_err(|_| fdo::Error::Failed("the service ends".into()))?;
        number.map_err(|refused| fdo::Error::LimitsExceeded(refused.to_string()))
    }
}
