//! The stand-in for an accelerator: the applications' library, as an application uses it.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use reveille_expect::{Served, Waker};

use crate::bench::accelerator::{Announcing, Connect};
use crate::bench::assist::Account;
use crate::{Error, Result};

/// An engine with a socket of its own for each turn; if none is available, what an application would
/// use: an engine that runs already, or a thread of its own.
pub struct ByLibrary {
    budget: f64,
    /// How the last one was served.
    how: Mutex<String>,
}

impl ByLibrary {
    /// `budget` is the share of each CPU's time for which an engine may keep it awake.
    pub fn new(budget: f64) -> Self {
        Self {
            budget,
            how: Mutex::default(),
        }
    }
}

impl Connect for ByLibrary {
    fn connect(&self) -> Result<Box<dyn Announcing>> {
        let (waker, engine, how) = match serve(self.budget) {
            Ok(served) => {
                let how = format!(
                    "an engine gets the predicted completions, budget {}%",
                    100.0 * self.budget
                );
                (Waker::connect_to(&served.path), Some(served), how)
            }
            Err(Error::Cannot(why)) => (Waker::connect(), None, format!("no engine: {why}")),
            Err(error) => return Err(error),
        };
        let how = match (waker.served(), &engine) {
            (Served::ByEngine, Some(_)) => how,
            (Served::ByEngine, None) => "the running engine gets the predicted completions".into(),
            (Served::ByThread(why), Some(_)) => {
                return Err(Error::Cannot(format!("the engine does not answer: {why}")));
            }
            (Served::ByThread(_), None) => {
                format!("a thread of this process wakes at the predicted completions ({how})")
            }
            (Served::ByNobody(why), _) => return Err(Error::Cannot(why)),
        };
        *self.how.lock().unwrap_or_else(PoisonError::into_inner) = how;
        Ok(Box::new(Client { waker, engine }))
    }

    fn how(&self) -> String {
        let how = self.how.lock();
        how.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

struct Client {
    waker: Waker,
    /// Ends after the waker.
    engine: Option<Serving>,
}

impl Announcing for Client {
    fn observe(&mut self, kind: u32, ns: u64) {
        // A nonsense duration is counted by the library.
        let _ = self.waker.observe(kind, Duration::from_nanos(ns));
    }

    fn predict(&mut self, kind: u32) -> Option<Range<u64>> {
        let next = self.waker.predict(kind)?;
        let ns = |duration: Duration| duration.as_nanos() as u64;
        Some(ns(next.early)..ns(next.late.max(next.early)))
    }

    fn expect(&mut self, at_ns: u64, window_ns: u64) -> Result<()> {
        match self.waker.expect_ns(at_ns, window_ns) {
            Ok(_) | Err(reveille_expect::Error::Refused(_)) => Ok(()),
            Err(error) => Err(Error::Cannot(error.to_string())),
        }
    }

    fn cancel(&mut self) -> Result<()> {
        match self.waker.cancel() {
            // The windows then pass by themselves.
            Ok(()) | Err(reveille_expect::Error::Refused(_)) => Ok(()),
            Err(error) => Err(Error::Cannot(error.to_string())),
        }
    }

    fn account(&mut self) -> Account {
        let counts = self.waker.counts();
        let by_engine = self.engine.as_ref().and_then(|engine| (engine.awake_ns)());
        let by_thread = self.waker.awake().map(|awake| awake.as_nanos() as u64);
        Account {
            kept_awake_ns: by_engine.or(by_thread),
            waits: counts.asked,
            assisted: counts.accepted,
        }
    }
}

/// An engine with a socket of its own; it ends when this is dropped.
struct Serving {
    path: PathBuf,
    /// Time that it has kept CPUs awake, ns; `None` if that cannot be read.
    awake_ns: Box<dyn Fn() -> Option<u64>>,
}

#[cfg(feature = "bpf")]
fn serve(budget: f64) -> Result<Serving> {
    let settings = crate::Settings {
        devices: crate::BlockDevice::all(&reveille_kernel::Root::default()),
        budget,
        budget_in_all: budget,
        ..crate::Settings::default()
    };
    let socket = reveille_expect::server::Settings {
        path: format!("/run/reveille/bench-{}.sock", std::process::id()).into(),
        ..reveille_expect::server::Settings::default().within(budget)
    };
    crate::provide_descriptors(socket.clients)?;
    let mut live = crate::live::Live::start(&settings)?;
    live.serve(&socket)?;
    Ok(Serving {
        path: socket.path,
        awake_ns: Box::new(move || Some((live.snapshot().ok()?.statistics.awake_s * 1e9) as u64)),
    })
}

#[cfg(not(feature = "bpf"))]
fn serve(_: f64) -> Result<Serving> {
    Err(Error::Cannot(reveille_kernel::BUILT_WITHOUT_BPF.into()))
}
