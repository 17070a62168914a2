//! Holds background work by freezing its cgroups.

use std::fs;
use std::io::{PipeWriter, pipe};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::thread::JoinHandle;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use reveille_kernel::freezer::{self, Freezer};
use reveille_kernel::{Journal, Root, affinity, journal, now_ns, workload};

use super::foreground::Watched;
use super::policy::{Because, Foreground, Policy, Step, Times};
use super::{Account, Background};
use crate::{Error, Result};

/// A thread that freezes and thaws.
pub struct Freeze {
    // Its end tells the thread to end.
    stop: PipeWriter,
    thread: JoinHandle<Account>,
}

impl Freeze {
    /// Holds the background while the cgroup `foreground` waits for something else. `failed` has what ends that early.
    ///
    /// # Errors
    /// [`Error::Cannot`] if a cgroup is frozen already, cannot be frozen, or BPF is missing; nothing is changed then.
    pub fn start(
        root: &Root,
        background: Vec<Background>,
        foreground: &Path,
        times: Times,
        journal: &mut Journal,
        failed: impl FnOnce(Error) + Send + 'static,
    ) -> Result<Self> {
        let (_, _, folder) = workload::cgroup(root, "--foreground", foreground)?;
        for cgroup in &background {
            if folder.starts_with(&cgroup.folder) || cgroup.folder.starts_with(&folder) {
                let (one, other) = (cgroup.folder.display(), folder.display());
                return Err(Error::Usage(format!(
                    "--foreground: {one} and {other} are one within the other"
                )));
            }
        }
        for Background { folder, number } in &background {
            let name = folder.display();
            if let Some(other) = journal.owner_of(&freezer::setting(*number))? {
                return Err(Error::Cannot(format!(
                    "{name}: process {other} holds it already"
                )));
            }
            if freezer::is_set(folder)? {
                return Err(Error::Cannot(format!(
                    "{name}: is frozen already; thaw it by `echo 0 > {name}/cgroup.freeze`"
                )));
            }
        }
        let mut watched = Watched::start(&folder)?;
        let mut held = Vec::new();
        for cgroup in background {
            journal.will_switch_off(&freezer::setting(cgroup.number))?;
            let (freezer, _) = Freezer::of(&cgroup.folder)?;
            freezer.begin();
            held.push(Held {
                cgroup,
                freezer,
                later: Journal::new(root, Path::new(journal::FOLDER)),
            });
        }
        let root = root.clone();
        let (stopped, stop) = pipe().map_err(Error::system("pipe"))?;
        let thread = std::thread::Builder::new().name("freeze".to_owned());
        let run = move || {
            // Behind busy background work it would thaw too late.
            affinity::be_prompt();
            let mut holding = Holding {
                root,
                background: held,
                account: Account::default(),
                held_since: None,
            };
            let ran = holding.run(&mut watched, times, &stopped);
            let thawed = holding.thaw();
            if let Err(error) = ran.and(thawed) {
                holding.account.failed = true;
                failed(error);
            }
            holding.account
        };
        let thread = thread.spawn(run).map_err(Error::system("a thread"))?;
        Ok(Self { stop, thread })
    }

    /// Thaws, and ends.
    pub fn stop(self) -> Account {
        drop(self.stop);
        let ended = self.thread.join();
        ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

/// A cgroup that may be removed and made again.
struct Held {
    cgroup: Background,
    freezer: Freezer,
    /// Has the one that was made again.
    later: Journal,
}

struct Holding {
    root: Root,
    background: Vec<Held>,
    account: Account,
    held_since: Option<Duration>,
}

impl Holding {
    fn run(&mut self, watched: &mut Watched, times: Times, stopped: &impl AsFd) -> Result<()> {
        let mut policy = Policy::new(times, now());
        loop {
            let wait = match policy.step(now(), watched.now()?) {
                Step::Hold => {
                    watched.tell_running(true);
                    self.freeze()?;
                    continue;
                }
                Step::Release(because) => {
                    self.thaw()?;
                    watched.tell_running(false);
                    if because == Because::ForegroundRuns {
                        self.account.for_foreground += 1;
                    }
                    continue;
                }
                Step::Until(time) => Some(time.saturating_sub(now())),
                Step::UntilItWaits => {
                    watched.tell_waiting();
                    // It may have begun to wait before that.
                    if watched.now()? != Foreground::Runs {
                        continue;
                    }
                    None
                }
            };
            if wait_for(watched, stopped, wait)? {
                return Ok(());
            }
        }
    }

    fn freeze(&mut self) -> Result<()> {
        self.follow()?;
        self.held_since = Some(now());
        if self.set(true)? {
            self.account.times += 1;
        } else {
            self.held_since = None;
        }
        Ok(())
    }

    fn thaw(&mut self) -> Result<()> {
        let done = self.set(false);
        if let Some(since) = self.held_since.take() {
            let held_s = now().saturating_sub(since).as_secs_f64();
            self.account.held_s += held_s;
            self.account.longest_s = self.account.longest_s.max(held_s);
        }
        done.map(|_| ())
    }

    /// Takes cgroups that were removed and made again since, as those of services are.
    fn follow(&mut self) -> Result<()> {
        for Held {
            cgroup,
            freezer,
            later,
        } in &mut self.background
        {
            let number = fs::metadata(&cgroup.folder).map(|folder| folder.ino());
            if let Ok(number) = number
                && number != cgroup.number
            {
                // Of the one that was removed.
                later.restore();
                // The claim is on what was opened, should the cgroup be made again just now.
                (*freezer, cgroup.number) = Freezer::of(&cgroup.folder)?;
                later.will_switch_off(&freezer::setting(cgroup.number))?;
                if !freezer::is_set(&cgroup.folder)? {
                    freezer.begin();
                }
            }
            let folder = &cgroup.folder;
            if workload::cgroup_of(&self.root, std::process::id())
                .is_some_and(|own| own.starts_with(folder))
            {
                let folder = folder.display();
                return Err(Error::Cannot(format!(
                    "this program was moved into {folder}, which it would freeze"
                )));
            }
        }
        Ok(())
    }

    /// Of all cgroups, even if one fails; false if all were removed.
    fn set(&mut self, frozen: bool) -> Result<bool> {
        let mut done = Ok(false);
        for Held { freezer, .. } in &self.background {
            match (freezer.set(frozen), &mut done) {
                (Ok(set), Ok(any)) => *any |= set,
                (Err(error), _) => done = Err(error),
                (Ok(_), Err(_)) => {}
            }
        }
        done
    }
}

/// Waits for the bell, for the time, or for the end, which is true.
fn wait_for(watched: &Watched, stopped: &impl AsFd, at_most: Option<Duration>) -> Result<bool> {
    let mut both = [
        PollFd::new(stopped.as_fd(), PollFlags::POLLIN),
        PollFd::new(watched.bell(), PollFlags::POLLIN),
    ];
    match ppoll(&mut both, at_most.map(TimeSpec::from), None) {
        Ok(_) | Err(Errno::EINTR) => {}
        Err(error) => return Err(Error::system("ppoll")(error)),
    }
    watched.silence()?;
    // The other end was closed.
    Ok(both[0].any().unwrap_or(false))
}

fn now() -> Duration {
    Duration::from_nanos(now_ns())
}
