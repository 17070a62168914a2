//! Metrics of the service and of what it governs, as Prometheus reads them.
//!
//! The text is made when somebody asks; between two scrapes nothing runs. One thread serves all clients,
//! none of whom is trusted: it has a budget (`clients.rs`), and who is slow or silent is dropped.

mod clients;
mod content;
mod energy;
mod http;
mod latency;
mod listener;

use std::sync::Arc;
use std::sync::mpsc::{Sender, sync_channel};
use std::thread::JoinHandle;
use std::time::SystemTime;

use nix::sys::eventfd::{EfdFlags, EventFd};
use reveille_kernel::{Error, Result, Root};

use self::clients::Clients;
use self::content::Content;
pub use self::listener::{Address, Listener};
use crate::event::Event;

/// The thread that answers. Dropping it ends the thread and closes the sockets.
pub struct Metrics {
    over: Arc<EventFd>,
    thread: Option<JoinHandle<()>>,
}

impl Metrics {
    /// Answers at these sockets from now on, with what the service that gets `events` reports; `say` gets
    /// lines for the log.
    ///
    /// # Errors
    /// [`Error::System`] where no thread or descriptor can be made.
    pub fn serve(
        listeners: Vec<Listener>,
        events: Sender<Event>,
        say: impl Fn(&str) + Send + 'static,
    ) -> Result<Self> {
        let over = EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)
            .map_err(Error::system("making an event descriptor"))?;
        let over = Arc::new(over);
        let seen = over.clone();
        let started = SystemTime::now();
        let serve = move || {
            let mut content = Content::new(Root::default(), started, say);
            let text = move || {
                let (ask, status) = sync_channel(1);
                events.send(Event::Status(ask)).ok()?;
                Some(content.text(&status.recv().ok()?))
            };
            Clients::new(listeners).serve(&seen, text);
        };
        let thread = std::thread::Builder::new().name("metrics".into());
        let thread = thread
            .spawn(serve)
            .map_err(Error::system("starting a thread"))?;
        Ok(Self {
            over,
            thread: Some(thread),
        })
    }
}

impl Drop for Metrics {
    fn drop(&mut self) {
        let _ = self.over.write(1);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
