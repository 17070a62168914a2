//! Packets: the engine as `reveille anticipate` runs it, with the socket of hints.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use reveille_expect::server::Allowed;
use reveille_kernel::Root;
use reveille_kernel::network::Interface;

use crate::bench::assist::{Account, Assist, Device, OwnCost, Running};
use crate::bench::by_engine::SETTLE;
use crate::bench::packets::AssistPackets;
use crate::live::Live;
use crate::{Net, Packets, Result, Settings, provide_descriptors};

/// The engine for packets on `lo`, without a control group. It is loaded for the first turn and paused
/// in the turns of other policies.
pub struct ByLive {
    settings: Settings,
    live: Arc<Mutex<Option<Live>>>,
}

impl ByLive {
    /// `budget` is the share of each CPU's time for which it may be kept awake; `hinted`: by hints, not
    /// by periods.
    ///
    /// # Errors
    /// [`crate::Error::Usage`] without the interface `lo`.
    pub fn new(root: &Root, budget: f64, hinted: bool) -> Result<Self> {
        let lo = Interface::named(root, "lo")?;
        Ok(Self {
            settings: Settings {
                packets: Packets {
                    interfaces: vec![(lo.name, lo.index)],
                    periodic: !hinted,
                    hinted,
                    clients: Net::LOOPBACK.to_vec(),
                },
                budget,
                budget_in_all: budget,
                control: 0.0,
                ..Settings::default()
            },
            live: Arc::default(),
        })
    }

    fn load(&self) -> Result<Live> {
        provide_descriptors(0)?;
        let mut live = Live::start(&self.settings)?;
        if self.settings.packets.hinted {
            let anything = Allowed {
                key: None,
                per_second: 100_000,
                awake_ppm: (self.settings.budget * 1e6) as u32,
            };
            live.hear((Ipv4Addr::LOCALHOST, 0).into(), anything)?;
        }
        std::thread::sleep(SETTLE);
        Ok(live)
    }
}

impl Assist for ByLive {
    fn begin(&self, _: &Device) -> Result<Box<dyn Running>> {
        let mut loaded = locked(&self.live);
        let live = match loaded.take() {
            Some(live) => live,
            None => self.load()?,
        };
        loaded.insert(live).engine().run(true);
        Ok(Box::new(AtWork(self.live.clone())))
    }

    fn how(&self) -> String {
        let budget = 100.0 * self.settings.budget;
        match self.settings.packets.hinted {
            true => format!("reveille anticipate --hints 127.0.0.1:PORT --budget {budget}%"),
            false => format!("reveille anticipate --nic lo --budget {budget}% --control 0%"),
        }
    }
}

impl AssistPackets for ByLive {
    fn hints_at(&self) -> Option<SocketAddr> {
        locked(&self.live).as_ref()?.hears_at()
    }
}

struct AtWork(Arc<Mutex<Option<Live>>>);

impl Running for AtWork {
    fn account(&self) -> Option<Account> {
        let snapshot = locked(&self.0).as_ref()?.snapshot().ok()?;
        let (waits, assisted) = match (&snapshot.statistics.packets, &snapshot.hints) {
            (Some(packets), _) => (packets.arrivals, packets.assistance.assisted),
            (None, Some(hints)) => (hints.received, hints.followed),
            (None, None) => return None,
        };
        Some(Account {
            kept_awake_ns: Some((snapshot.statistics.awake_s * 1e9) as u64),
            waits,
            assisted,
        })
    }

    fn own_cost(&self, waits: &mut dyn FnMut()) -> Option<OwnCost> {
        // The turn asks for the address of hints meanwhile.
        let live = locked(&self.0).take()?;
        let hinted = live.hears_at().is_some();
        let cost = match hinted {
            true => None,
            false => live.engine().own_cost(waits).ok().flatten(),
        };
        locked(&self.0).replace(live);
        cost
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        if let Some(live) = locked(&self.0).as_ref() {
            live.engine().run(false);
        }
    }
}

fn locked(live: &Mutex<Option<Live>>) -> MutexGuard<'_, Option<Live>> {
    live.lock().unwrap_or_else(PoisonError::into_inner)
}
