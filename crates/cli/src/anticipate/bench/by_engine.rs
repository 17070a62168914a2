//! Storage: the engine, for the benchmark's own requests.

use reveille_anticipate::bench::{Account, Assist, Device, Running};
use reveille_anticipate::{BlockDevice, Engine, Error, Result, Settings, Subject};
use reveille_machine::Root;

/// Loads the engine for each turn, for the requests of this process alone and all of them: none is
/// left alone at random.
pub struct ByEngine {
    root: Root,
    settings: Settings,
}

impl ByEngine {
    /// `budget` is the share of each CPU's time for which it may be kept awake.
    pub fn new(root: &Root, budget: f64) -> Self {
        Self {
            root: root.clone(),
            settings: Settings {
                subject: Subject::Process(std::process::id()),
                budget,
                budget_in_all: budget,
                control: 0.0,
                ..Settings::default()
            },
        }
    }
}

impl Assist for ByEngine {
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
        Ok(Box::new(AtWork(Engine::start(&settings)?)))
    }

    fn how(&self) -> String {
        format!(
            "reveille anticipate --budget {}% --control 0%, for this program's requests",
            100.0 * self.settings.budget
        )
    }
}

struct AtWork(Engine);

impl Running for AtWork {
    fn account(&self) -> Option<Account> {
        let statistics = self.0.statistics().ok()?;
        let mut account = Account::default();
        for operation in &statistics.operations {
            account.waits += operation.requests;
            account.assisted += operation.assistance.assisted;
        }
        let awake_s: f64 = statistics.cpus.iter().map(|cpu| cpu.awake_s).sum();
        account.kept_awake_ns = Some((awake_s * 1e9) as u64);
        Some(account)
    }
}
