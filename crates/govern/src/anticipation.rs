//! Anticipatory wake-up inside the service: the engine of `reveille anticipate`, for the disks whose rules
//! are in force, and for applications on its socket.

use std::collections::BTreeMap;

use reveille_anticipate::live::Live;
use reveille_anticipate::{BlockDevice, Settings, first_leads, provide_descriptors};
use reveille_expect::server;
use reveille_kernel::{Error, Idle, Result};

/// The engine, while something is anticipated.
#[derive(Default)]
pub struct Anticipation {
    live: Option<Live>,
    wanted: Wanted,
    /// Why that cannot be anticipated.
    failed: Option<String>,
}

/// What is to be anticipated.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Wanted {
    /// Disks.
    pub disks: Vec<BlockDevice>,
    /// The share of each CPU's time, 0 to 1: the largest of the rules'.
    pub budget: f64,
    /// Serve applications.
    pub applications: bool,
}

impl Wanted {
    fn is_nothing(&self) -> bool {
        self.disks.is_empty() && !self.applications
    }
}

impl Anticipation {
    /// Anticipates that, and nothing else. The engine starts anew, which takes some seconds, only if it is
    /// something else than before.
    ///
    /// # Errors
    /// [`Error::Cannot`] where the engine cannot run, or another one serves applications; nothing is
    /// anticipated then.
    pub fn set(&mut self, wanted: Wanted, idle: Option<&Idle>) -> Result<()> {
        if wanted != self.wanted {
            self.live = None;
            self.wanted = wanted;
            self.failed = self.start(idle).err().map(|error| error.to_string());
        }
        match &self.failed {
            None => Ok(()),
            Some(why) => Err(Error::Cannot(why.clone())),
        }
    }

    fn start(&mut self, idle: Option<&Idle>) -> Result<()> {
        let wanted = &self.wanted;
        if wanted.is_nothing() {
            return Ok(());
        }
        let mut settings = Settings {
            devices: wanted.disks.clone(),
            budget: wanted.budget,
            budget_in_all: wanted.budget,
            ..Settings::default()
        };
        if let Some(idle) = idle {
            settings.first_lead_ns = first_leads(idle, |_| true, |_| None);
        }
        let of_server = server::Settings::default().within(wanted.budget);
        let clients = if wanted.applications {
            of_server.clients
        } else {
            0
        };
        provide_descriptors(clients)?;
        let mut live = Live::start(&settings)?;
        if wanted.applications {
            live.serve(&of_server)?;
        }
        self.live = Some(live);
        Ok(())
    }

    /// Is that disk anticipated?
    pub fn has(&self, disk: &str) -> bool {
        let mut disks = self.wanted.disks.iter();
        self.live.is_some() && disks.any(|one| one.name == disk)
    }

    /// Of each disk, requests that tasks waited for so far; `None` where nothing is anticipated.
    ///
    /// # Errors
    /// Where the kernel does not report them.
    pub fn requests(&self) -> Result<BTreeMap<String, u64>> {
        let mut requests = BTreeMap::new();
        if let Some(live) = &self.live {
            let snapshot = live
                .snapshot()
                .map_err(|error| Error::Failed(error.to_string()))?;
            for of in snapshot.statistics.operations {
                *requests.entry(of.device).or_default() += of.requests;
            }
        }
        Ok(requests)
    }
}
