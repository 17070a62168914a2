//! The thread of a source that launches from another CPU.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::JoinHandle;

use crate::{Error, Result};

/// At most one thread, which ends with this.
#[derive(Default)]
pub struct Thread(Option<(Arc<AtomicBool>, JoinHandle<Result<()>>)>);

impl Thread {
    /// Starts `work`, which ends soon after the flag is set.
    ///
    /// # Errors
    /// If the kernel has no thread left.
    pub fn start(
        &mut self,
        name: &str,
        work: impl FnOnce(&AtomicBool) -> Result<()> + Send + 'static,
    ) -> Result<()> {
        self.end()?;
        let stop = Arc::new(AtomicBool::new(false));
        let flag = stop.clone();
        let thread = std::thread::Builder::new().name(name.into());
        let thread = thread.spawn(move || work(&flag));
        self.0 = Some((stop, thread.map_err(Error::system("starting a thread"))?));
        Ok(())
    }

    /// Whether it was started and nobody has waited for its end.
    pub fn is_started(&self) -> bool {
        self.0.is_some()
    }

    /// Whether it has ended by itself; [`Thread::end`] tells why.
    pub fn has_ended(&self) -> bool {
        (self.0.as_ref()).is_some_and(|(_, thread)| thread.is_finished())
    }

    /// Has it end, waits for that, and returns what it returned. Panics if it did.
    ///
    /// # Errors
    /// The thread's.
    pub fn end(&mut self) -> Result<()> {
        match self.0.take() {
            None => Ok(()),
            Some((stop, thread)) => {
                stop.store(true, Relaxed);
                thread
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            }
        }
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.0.take() {
            stop.store(true, Relaxed);
            // Its panic was reported, and this may be another's unwinding.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    fn until(what: impl Fn() -> bool) {
        let end = Instant::now() + Duration::from_secs(60);
        while !what() {
            assert!(Instant::now() < end);
            std::thread::yield_now();
        }
    }

    #[test]
    fn it_ends_when_asked_and_tells_if_it_ended_by_itself() {
        let mut thread = Thread::default();
        assert!(!thread.is_started() && !thread.has_ended());
        let wait = |stop: &AtomicBool| {
            while !stop.load(Relaxed) {
                std::thread::yield_now();
            }
            Ok(())
        };
        thread.start("waits", wait).unwrap();
        assert!(thread.is_started() && !thread.has_ended());
        thread.end().unwrap();
        assert!(!thread.is_started());
        let fails = |_: &AtomicBool| Err(Error::Cannot("the card is gone".into()));
        thread.start("fails", fails).unwrap();
        until(|| thread.has_ended());
        assert_eq!(thread.end().unwrap_err().to_string(), "the card is gone");
        assert!(thread.end().is_ok());
    }

    #[test]
    fn dropping_it_ends_it_and_does_not_pass_on_its_panic() {
        let ended = Arc::new(AtomicBool::new(false));
        let mut thread = Thread::default();
        let told = ended.clone();
        let work = move |stop: &AtomicBool| {
            until(|| stop.load(Relaxed));
            told.store(true, Relaxed);
            Ok(())
        };
        thread.start("ends", work).unwrap();
        drop(thread);
        assert!(ended.load(Relaxed));
        let mut thread = Thread::default();
        thread
            .start("panics", |_| panic!("of the test, as meant"))
            .unwrap();
        until(|| thread.has_ended());
        drop(thread);
    }
}
