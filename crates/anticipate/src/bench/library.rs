//! The applications' library, as an application uses it.

use std::time::Duration;

use reveille_expect::{Served, Waker};

use crate::bench::Account;
use crate::bench::accelerator::{Connect, Predicted, Waking};
use crate::{Error, Result};

/// Asks the running engine, and where there is none, a thread of this process.
#[derive(Debug, Clone)]
pub struct Library {
    how: String,
}

impl Library {
    /// # Errors
    /// [`Error::Cannot`] where there is neither an engine nor a thread.
    pub fn new() -> Result<Self> {
        let how = match Waker::connect().served() {
            Served::ByEngine => "the running engine is told when a call should be done".into(),
            Served::ByThread(why) => format!(
                "a thread of this process wakes when a call should be done, for the engine is not \
                 asked: {why}"
            ),
            Served::ByNobody(why) => return Err(Error::Cannot(why)),
        };
        Ok(Self { how })
    }
}

impl Connect for Library {
    fn connect(&self) -> Result<Box<dyn Waking>> {
        Ok(Box::new(Waker::connect()))
    }

    fn how(&self) -> String {
        self.how.clone()
    }
}

impl Waking for Waker {
    fn observe(&mut self, kind: u32, ns: u64) {
        // It refuses nonsense, which is no reason to end.
        let _ = Self::observe(self, kind, Duration::from_nanos(ns));
    }

    fn predict(&mut self, kind: u32) -> Option<Predicted> {
        let next = Self::predict(self, kind)?;
        let ns = |duration: Duration| duration.as_nanos() as u64;
        Some(Predicted {
            early_ns: ns(next.early),
            late_ns: ns(next.late.max(next.early)),
        })
    }

    fn expect(&mut self, at_ns: u64, window_ns: u64) -> Result<()> {
        match self.expect_ns(at_ns, window_ns) {
            Ok(_) | Err(reveille_expect::Error::Refused(_)) => Ok(()),
            Err(error) => Err(Error::Cannot(error.to_string())),
        }
    }

    fn cancel(&mut self) -> Result<()> {
        match Self::cancel(self) {
            Ok(()) | Err(reveille_expect::Error::Refused(_)) => Ok(()),
            Err(error) => Err(Error::Cannot(error.to_string())),
        }
    }

    fn account(&mut self) -> Account {
        let counts = self.counts();
        Account {
            kept_awake_ns: self.awake().map(|awake| awake.as_nanos() as u64),
            waits: counts.asked,
            assisted: counts.accepted,
        }
    }
}
