//! Delays background work, and undoes it.
//!
//! By timer slack ([`Slack`]): sleeps end later, several at once. By freezing (`Freeze`): nothing runs while the
//! foreground waits for something else. By CPUs ([`cpus`]): it runs on few of them.

pub mod cpus;
#[cfg(feature = "bpf")]
mod foreground;
#[cfg(feature = "bpf")]
mod freeze;
pub mod policy;
#[cfg(not(feature = "bpf"))]
mod without_bpf;

#[cfg(feature = "bpf")]
pub use freeze::Freeze;
#[cfg(not(feature = "bpf"))]
pub use without_bpf::Freeze;

use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use reveille_kernel::timer_slack::{self, Raised};
use reveille_kernel::{Error, Journal, Result, Root, workload};
use serde::Serialize;

/// How often threads that came into a cgroup are looked for: this program's own wake-ups. Those that were forked there
/// have their parents' slack from the beginning.
pub const LOOK: Duration = Duration::from_secs(5);

/// A cgroup whose work waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Background {
    /// Its number.
    pub number: u64,
    /// Its folder.
    pub folder: PathBuf,
}

impl Background {
    /// The cgroup of this name, which `flag` named.
    ///
    /// # Errors
    /// [`Error::Usage`] if there is none, it is the root, or this program is in it; [`Error::Cannot`] without cgroup2.
    pub fn of(root: &Root, flag: &str, name: &Path) -> Result<Self> {
        let (number, depth, folder) = workload::cgroup(root, flag, name)?;
        if depth == 0 {
            return Err(Error::Usage(format!(
                "{flag}: the root of cgroup2 has every task that is in no other cgroup; name one below it"
            )));
        }
        let this = std::process::id();
        if workload::threads(&folder)?.contains(&this) {
            let folder = folder.display();
            return Err(Error::Usage(format!(
                "{flag}: {folder} has this program in it, which must not wait; start it elsewhere"
            )));
        }
        Ok(Self { number, folder })
    }
}

/// How often the background was held, and how long.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Account {
    /// How often.
    pub times: u64,
    /// Of these, those that ended because the foreground ran.
    pub for_foreground: u64,
    /// In all, s.
    pub held_s: f64,
    /// The longest time, s.
    pub longest_s: f64,
    /// It ended early.
    pub failed: bool,
}

/// What is delayed now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Held {
    /// By how much a sleep may be delayed at most, ns.
    pub slack_ns: u64,
    /// Threads whose sleeps may be delayed.
    pub threads: usize,
    /// Threads that have a timer slack of their own, which they keep.
    pub own_slack: usize,
}

/// A thread that looks at the background now and then, until this is stopped or dropped.
struct Looking {
    stop: Option<Sender<()>>,
    /// False after an error.
    thread: Option<JoinHandle<bool>>,
}

impl Looking {
    /// `failed` has each error; `goes_on`: it looks again after one.
    fn start(
        mut look: impl FnMut() -> Vec<Error> + Send + 'static,
        mut failed: impl FnMut(Error) + Send + 'static,
        goes_on: bool,
    ) -> Result<Self> {
        let (stop, stopped) = mpsc::channel();
        let look_again = move || {
            let mut whole = true;
            while (whole || goes_on) && stopped.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout)
            {
                for error in look() {
                    failed(error);
                    whole = false;
                }
            }
            whole
        };
        let thread = std::thread::Builder::new().name("look".to_owned());
        let thread = thread.spawn(look_again);
        Ok(Self {
            stop: Some(stop),
            thread: Some(thread.map_err(Error::system("a thread"))?),
        })
    }

    /// False after an error.
    fn stop(&mut self) -> bool {
        self.stop = None;
        let thread = self.thread.take();
        thread.is_none_or(|thread| thread.join().unwrap_or(false))
    }
}

impl Drop for Looking {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Delays the sleeps of background work by timer slack. A thread of its own looks after those that come.
pub struct Slack {
    looking: Looking,
    held: Held,
}

impl Slack {
    /// Delays the sleeps of these cgroups' threads by at most this time. The journal undoes it, after [`Slack::stop`].
    /// `failed` has what ends looking early.
    ///
    /// # Errors
    /// If a thread's slack cannot be written, or the journal.
    pub fn raise(
        root: &Root,
        background: Vec<Background>,
        within: Duration,
        journal: &mut Journal,
        failed: impl FnMut(Error) + Send + 'static,
    ) -> Result<Self> {
        let within_ns = u64::try_from(within.as_nanos()).unwrap_or(u64::MAX);
        let value_ns = timer_slack::unique(root, within_ns)?;
        journal.will_switch_off(&timer_slack::setting(value_ns))?;
        let raised = look(root, &background, value_ns)?;
        let root = root.clone();
        let look_again = move || {
            let looked = look(&root, &background, value_ns);
            looked.err().into_iter().collect()
        };
        Ok(Self {
            looking: Looking::start(look_again, failed, false)?,
            held: Held {
                slack_ns: value_ns,
                threads: raised.raised,
                own_slack: raised.own,
            },
        })
    }

    /// What was delayed at the start.
    pub fn held(&self) -> Held {
        self.held
    }

    /// Stops looking, before the journal undoes it. False if that had ended early.
    pub fn stop(mut self) -> bool {
        self.looking.stop()
    }
}

/// Raises the slack of the threads that are in these cgroups now. One that was removed has none.
fn look(root: &Root, background: &[Background], value_ns: u64) -> Result<Raised> {
    let mut all = Raised::default();
    for cgroup in background {
        let threads = match workload::threads(&cgroup.folder) {
            Ok(threads) => threads,
            Err(_) if !cgroup.folder.exists() => continue,
            Err(error) => return Err(error),
        };
        let now = timer_slack::raise(root, &threads, value_ns)?;
        all.raised += now.raised;
        all.own += now.own;
    }
    Ok(all)
}
