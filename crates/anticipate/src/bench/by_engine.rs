//! Storage: the engine, for the benchmark's own requests.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use reveille_kernel::Root;

use crate::bench::assist::{Account, Assist, Device, OwnCost, Running};
use crate::{BlockDevice, Engine, Error, Result, Settings, Subject, provide_descriptors};

/// The engine, for all requests of this process and no others, without a control group. It is loaded
/// for the first turn and paused in the turns of other policies.
pub struct ByEngine {
    root: Root,
    settings: Settings,
    engine: Arc<Mutex<Option<Engine>>>,
}

/// Loading no longer disturbs the machine after this.
pub(super) const SETTLE: Duration = Duration::from_secs(1);

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
            engine: Arc::default(),
        }
    }

    fn load(&self, device: &Device) -> Result<Engine> {
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
        provide_descriptors(0)?;
        let engine = Engine::start(&Settings {
            devices: devices?,
            ..self.settings.clone()
        })?;
        std::thread::sleep(SETTLE);
        Ok(engine)
    }
}

impl Assist for ByEngine {
    fn begin(&self, device: &Device) -> Result<Box<dyn Running>> {
        let mut loaded = locked(&self.engine);
        let engine = match loaded.take() {
            Some(engine) => engine,
            None => self.load(device)?,
        };
        loaded.insert(engine).run(true);
        Ok(Box::new(AtWork(self.engine.clone())))
    }

    fn how(&self) -> String {
        format!(
            "reveille anticipate --budget {}% --control 0%, for this program's requests",
            100.0 * self.settings.budget
        )
    }
}

struct AtWork(Arc<Mutex<Option<Engine>>>);

impl Running for AtWork {
    fn account(&self) -> Option<Account> {
        let statistics = locked(&self.0).as_ref()?.statistics().ok()?;
        let mut account = Account {
            kept_awake_ns: Some((statistics.awake_s * 1e9) as u64),
            ..Account::default()
        };
        for operation in &statistics.operations {
            account.waits += operation.requests;
            account.assisted += operation.assistance.assisted;
        }
        Some(account)
    }

    fn own_cost(&self, waits: &mut dyn FnMut()) -> Option<OwnCost> {
        let engine = locked(&self.0);
        engine.as_ref()?.own_cost(waits).ok()?
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        if let Some(engine) = locked(&self.0).as_ref() {
            engine.run(false);
        }
    }
}

fn locked(engine: &Mutex<Option<Engine>>) -> MutexGuard<'_, Option<Engine>> {
    engine.lock().unwrap_or_else(|error| error.into_inner())
}
