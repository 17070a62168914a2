//! The engine, as the commands use it: live, in the benchmark, and for applications.

use std::sync::Mutex;
use std::time::Duration;

use reveille_anticipate::bench::accelerator::{Connect, Predicted, Waking};
use reveille_anticipate::bench::{Assist, Device, Running};
use reveille_anticipate::{BlockDevice, Desk, Engine, Error, Result, Settings};
use reveille_expect::Waker;
use reveille_expect::server::{self, Owner, Plan, Server, Ticket};
use reveille_expect::{Limits, Refusal};

pub use super::live::live;

/// The share of a CPU's time that the benchmark lets it be kept awake: it compares with no sleep at
/// all, and says what was spent.
const BENCH_BUDGET: f64 = 0.5;

/// What applications expect goes into the engine's plans.
pub struct Applications(pub Desk);

impl Plan for Applications {
    fn expect(
        &self,
        cpu: u32,
        at_ns: u64,
        window_ns: u64,
        owner: Owner,
    ) -> std::result::Result<Ticket, Refusal> {
        let process = u32::try_from(owner.pid).unwrap_or_default();
        let ticket = self.0.expect(cpu, at_ns, window_ns, process);
        ticket.map(Ticket).ok_or(Refusal::Cpu)
    }

    fn cancel(&self, ticket: Ticket) {
        self.0.cancel(ticket.0);
    }
}

/// For the benchmark of storage.
pub fn assist() -> Option<Box<dyn Assist>> {
    Some(Box::new(Storage))
}

struct Storage;

struct Assisting(Engine);

impl Assist for Storage {
    fn begin(&self, device: &Device) -> Result<Box<dyn Running>> {
        let settings = Settings {
            devices: vec![BlockDevice {
                name: device.disk.clone().unwrap_or_else(|| "?".to_owned()),
                major: device.major,
                minor: device.minor,
            }],
            budget: BENCH_BUDGET,
            budget_in_all: BENCH_BUDGET,
            control: 0.0,
            ..Settings::default()
        };
        Ok(Box::new(Assisting(Engine::start(&settings)?)))
    }

    fn how(&self) -> String {
        format!(
            "reveille anticipate --budget {:.0}% --control 0%",
            BENCH_BUDGET * 100.0
        )
    }
}

impl Running for Assisting {
    fn kept_awake_ns(&self) -> Option<u64> {
        let statistics = self.0.statistics().ok()?;
        let awake_s: f64 = statistics.cpus.iter().map(|cpu| cpu.awake_s).sum();
        Some((awake_s * 1e9) as u64)
    }
}

/// For the benchmark of the stand-in accelerator: through the socket, as an application would.
pub fn connect() -> Option<Box<dyn Connect>> {
    Some(Box::new(ThroughSocket(Mutex::default())))
}

#[derive(Default)]
struct ThroughSocket(Mutex<Option<Served>>);

/// The engine and a socket of its own.
struct Served {
    _engine: Engine,
    server: Server,
}

struct Client(Waker);

impl Connect for ThroughSocket {
    fn connect(&self) -> Result<Box<dyn Waking>> {
        let mut served = self.0.lock().unwrap_or_else(|error| error.into_inner());
        if served.is_none() {
            *served = Some(serve()?);
        }
        let path = served
            .as_ref()
            .map(|served| served.server.path().to_owned());
        let waker = path.map_or_else(Waker::alone, |path| Waker::connect_to(&path));
        Ok(Box::new(Client(waker)))
    }

    fn how(&self) -> String {
        "an application of the engine, by its library".to_owned()
    }
}

fn serve() -> Result<Served> {
    let settings = Settings {
        devices: BlockDevice::all(&reveille_machine::Root::default()),
        budget: BENCH_BUDGET,
        budget_in_all: BENCH_BUDGET,
        ..Settings::default()
    };
    let engine = Engine::start(&settings)?;
    let settings = server::Settings {
        path: format!("/run/reveille/bench-{}.sock", std::process::id()).into(),
        limits: Limits {
            awake_ppm: (BENCH_BUDGET * 1e6) as u32,
            ..Limits::default()
        },
        user_awake_ppm: (BENCH_BUDGET * 1e6) as u32,
        ..server::Settings::default()
    };
    let server = Server::start(&settings, Applications(engine.desk()))
        .map_err(|error| Error::Cannot(error.to_string()))?;
    Ok(Served {
        _engine: engine,
        server,
    })
}

impl Waking for Client {
    fn observe(&mut self, kind: u32, ns: u64) {
        // A nonsense duration is counted by the library.
        let _ = self.0.observe(kind, Duration::from_nanos(ns));
    }

    fn predict(&mut self, kind: u32) -> Option<Predicted> {
        let prediction = self.0.predict(kind)?;
        let after_ns = prediction.duration.as_nanos() as u64;
        let spread = prediction.late.saturating_sub(prediction.early) / 2;
        Some(Predicted {
            after_ns,
            spread_ns: spread.as_nanos() as u64,
        })
    }

    fn expect(&mut self, at_ns: u64, window_ns: u64) -> Result<()> {
        match self.0.expect_ns(at_ns, window_ns) {
            Ok(_) | Err(reveille_expect::Error::Refused(_)) => Ok(()),
            Err(error) => Err(Error::Cannot(error.to_string())),
        }
    }

    fn cancel(&mut self) -> Result<()> {
        self.0
            .cancel()
            .map_err(|error| Error::Cannot(error.to_string()))
    }
}
