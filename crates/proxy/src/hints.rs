//! Passes on when a client's next request comes, to the machine of the server.

use std::sync::Mutex;
use std::time::Duration;

use hyper::HeaderMap;
use reveille_expect::remote::{Announced, HEADER, Hint, Key, Sender, Service};
use reveille_kernel::{Error, Result};

use reveille_stage::config;

/// A service's hints.
pub struct Hints {
    service: Service,
    sender: Mutex<Sender>,
}

/// The server's side refuses longer ones.
const LONGEST: Duration = Duration::from_secs(1);
const WIDEST: Duration = Duration::from_millis(5);

impl Hints {
    /// Of a service; `None` if it has none.
    ///
    /// # Errors
    /// [`Error::Usage`] if the key cannot be read, or the name has no address.
    pub fn of(service: &config::Service) -> Result<Option<Self>> {
        let Some(to) = &service.hints else {
            return Ok(None);
        };
        let wrong =
            |why: String| Error::Usage(format!("service {}: hints to {to}: {why}", service.name));
        let key = service.hint_key.as_deref().map(Key::read).transpose();
        let sender = Sender::new(to, key.map_err(wrong)?);
        Ok(Some(Self {
            // The configuration has one server with hints.
            service: Service::tcp(service.upstreams[0].port()),
            sender: Mutex::new(sender.map_err(|error| wrong(error.to_string()))?),
        }))
    }

    /// Sends one if the request has a header for it.
    pub fn pass_on(&self, headers: &HeaderMap) {
        let header = headers.get(HEADER).and_then(|value| value.to_str().ok());
        let announced = header.and_then(Announced::parse);
        let is_taken = |one: &Announced| one.after <= LONGEST && one.within <= WIDEST;
        let Some(announced) = announced.filter(is_taken) else {
            return;
        };
        let hint = Hint {
            service: self.service,
            announced,
        };
        // One that is lost is a request without a hint.
        let mut sender = self.sender.lock().expect("nothing panics with it");
        let _ = sender.send(&hint);
    }
}
