//! The engine, for the benchmark's own requests.

use reveille_machine::Root;

use crate::bench::{Account, Assist, Device, Running};
use crate::{BlockDevice, Engine, Error, Result, Settings, Subject};

/// Loads the engine for each turn, for the requests of this process alone and all of them: none is
/// left alone at random.
#[derive(Debug, Clone)]
pub struct InKernel {
    root: Root,
    settings: Settings,
}

impl InKernel {
    /// With these settings, but for the devices and for whose requests.
    pub fn new(root: &Root, settings: Settings) -> Self {
        Self {
            root: root.clone(),
            settings: Settings {
                devices: Vec::new(),
                subject: Subject::Process(std::process::id()),
                own_requests: true,
                control: 0.0,
                ..settings
            },
        }
    }
}

impl Assist for InKernel {
    fn begin(&self, device: &Device) -> Result<Box<dyn Running>> {
        if device.disks.is_empty() {
            return Err(Error::Cannot(
                "the file system is on no single block device whose requests could be followed"
                    .into(),
            ));
        }
        let disks = device.disks.iter();
        let devices: Result<Vec<_>> = disks
            .map(|disk| BlockDevice::named(&self.root, disk))
            .collect();
        let settings = Settings {
            devices: devices?,
            ..self.settings.clone()
        };
        Ok(Box::new(Engine::start(&settings)?))
    }

    fn how(&self) -> String {
        format!(
            "the engine wakes CPUs in time for this program's requests, budget {} % of each CPU's time",
            100.0 * self.settings.budget
        )
    }
}

impl Running for Engine {
    fn account(&self) -> Option<Account> {
        let statistics = self.statistics().ok()?;
        let operations = statistics.operations.iter();
        let (waits, assisted) = operations.fold((0, 0), |(waits, assisted), one| {
            (waits + one.requests, assisted + one.assistance.assisted)
        });
        let awake_s: f64 = statistics.cpus.iter().map(|cpu| cpu.awake_s).sum();
        Some(Account {
            kept_awake_ns: Some((awake_s * 1e9) as u64),
            waits,
            assisted,
        })
    }
}
