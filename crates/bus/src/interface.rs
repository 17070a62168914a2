//! The object, as [`super`] describes its interface.

use std::collections::HashMap;
use std::time::Duration;

use reveille_govern::Standing;
use reveille_govern::event::Event;
use reveille_govern::holds::{Asked, Hold};
use reveille_kernel::{cpulist, pm_qos};
use serde::Serialize;
use tokio::sync::watch;
use zbus::fdo::{Error, Result};
use zbus::message::Header;
use zbus::object_server::SignalEmitter;
use zbus::zvariant::{OwnedFd, Type, Value};
use zbus::{Connection, interface};

use crate::callers::{Callers, Use};
use crate::tell::Tell;
use crate::{authority, descriptor};

/// Of a reason that a program gives; what is kept of it is shorter.
const REASON_BYTES_MAX: usize = 4096;

/// The service's name on the bus, and that of its interface.
pub const NAME: &str = "org.reveille.Reveille1";
/// Its object.
pub const PATH: &str = "/org/reveille/Reveille1";
/// polkit's name for a new hold.
pub const ACTION: &str = "org.reveille.hold-latency";
/// Of a scope, bytes: every other one of 8,192 CPUs.
const SCOPE_MAX: usize = 32 << 10;

/// The object.
pub(super) struct Reveille {
    callers: Callers,
    standing: watch::Receiver<Standing>,
    tell: Tell,
}

/// A hold, as `Holds` lists it.
#[derive(Debug, Serialize, Type)]
struct Listed {
    number: u64,
    scope: String,
    latency_us: u32,
    uid: u32,
    pid: u32,
    name: String,
    reason: String,
    held_us: u64,
}

impl Reveille {
    /// For those callers.
    pub fn new(callers: Callers, standing: watch::Receiver<Standing>, tell: Tell) -> Self {
        Self {
            callers,
            standing,
            tell,
        }
    }

    /// Waits until the caller may read a property.
    async fn read(&self, call: Option<Header<'_>>, connection: &Connection) -> Result<()> {
        match call {
            Some(call) => self.callers.read(connection, &call).await,
            // The service itself.
            None => Ok(()),
        }
    }

    /// The CPUs of a scope; `None`: all.
    fn cpus(&self, scope: &str) -> std::result::Result<Option<Vec<u32>>, String> {
        if scope == "all" {
            return Ok(None);
        }
        let cpus = Some(scope).filter(|scope| scope.len() <= SCOPE_MAX);
        let cpus = cpus.and_then(cpulist::parse).unwrap_or_default();
        if cpus.is_empty() {
            return Err("the scope is neither `all` nor a list of CPUs such as 0-3,8".into());
        }
        let standing = self.standing.borrow();
        let here = &standing.cpus;
        let is_here = |cpu: &&u32| here.binary_search_by_key(*cpu, |one| one.number).is_ok();
        match cpus.iter().find(|cpu| !is_here(cpu)) {
            Some(cpu) => Err(format!(
                "CPU {cpu}: no such CPU, or it has no latency bound"
            )),
            None => Ok(Some(cpus)),
        }
    }
}

// Calls take `&self`: zbus would have all others wait while one takes `&mut self`, and some wait for a
// person.
#[interface(name = "org.reveille.Reveille1")]
impl Reveille {
    async fn hold_latency(
        &self,
        #[zbus(header)] call: Header<'_>,
        #[zbus(connection)] connection: &Connection,
        scope: &str,
        latency_us: u32,
        reason: &str,
        options: HashMap<&str, Value<'_>>,
    ) -> Result<OwnedFd> {
        if let Some(option) = options.keys().next() {
            let option: String = option.chars().take(40).collect();
            return Err(Error::InvalidArgs(format!("unknown option {option:?}")));
        }
        // It is kept while polkit asks a person.
        if reason.len() > REASON_BYTES_MAX {
            let why = format!("reason: longer than {REASON_BYTES_MAX} bytes");
            return Err(Error::InvalidArgs(why));
        }
        let latency = Duration::from_micros(latency_us.into());
        let latency_us = pm_qos::bound_us(latency)
            .map_err(|why| Error::InvalidArgs(format!("latency_us: {why}")))?;
        let cpus = self.cpus(scope).map_err(Error::InvalidArgs)?;
        let caller = self.callers.admit(connection, &call, Use::Hold).await?;
        if caller.owner.uid != 0 {
            authority::allows(connection, &call, ACTION).await?;
        }
        let asked = Asked {
            owner: caller.owner.clone(),
            reason: reason.to_owned(),
            latency_us,
            cpus,
        };
        let failed = |error: reveille_kernel::Error| Error::Failed(error.to_string());
        let (life, theirs) = descriptor::new().map_err(failed)?;
        let number = self.tell.hold(asked).await?;
        let tell = self.tell.clone();
        tokio::spawn(async move {
            life.end().await;
            tell.tell(Event::Unhold(number));
        });
        Ok(theirs.into())
    }

    async fn holds(
        &self,
        #[zbus(header)] call: Header<'_>,
        #[zbus(connection)] connection: &Connection,
    ) -> Result<Vec<Listed>> {
        let _caller = self.callers.admit(connection, &call, Use::List).await?;
        let standing = self.standing.borrow();
        let holds = standing.holds.iter();
        Ok(holds.map(|(number, hold)| listed(*number, hold)).collect())
    }

    async fn effective_latency(
        &self,
        #[zbus(header)] call: Header<'_>,
        #[zbus(connection)] connection: &Connection,
        cpu: u32,
    ) -> Result<i32> {
        self.callers.read(connection, &call).await?;
        let standing = self.standing.borrow();
        let cpu = standing.cpus.iter().find(|one| one.number == cpu);
        let cpu = cpu.ok_or_else(|| {
            Error::InvalidArgs("no such CPU, or it has no latency bound".to_owned())
        })?;
        let us = cpu.bound_us().and_then(|us| i32::try_from(us).ok());
        Ok(us.unwrap_or(-1))
    }

    /// The holds, the rules or the problems have changed.
    #[zbus(signal)]
    pub async fn changed(emitter: &SignalEmitter<'_>) -> zbus::Result<()>;

    #[zbus(property(emits_changed_signal = "const"))]
    async fn version(
        &self,
        #[zbus(header)] call: Option<Header<'_>>,
        #[zbus(connection)] connection: &Connection,
    ) -> Result<&'static str> {
        self.read(call, connection).await?;
        Ok(env!("CARGO_PKG_VERSION"))
    }

    #[zbus(property(emits_changed_signal = "false"))]
    async fn rules(
        &self,
        #[zbus(header)] call: Option<Header<'_>>,
        #[zbus(connection)] connection: &Connection,
    ) -> Result<Vec<String>> {
        self.read(call, connection).await?;
        Ok(self.standing.borrow().rules.clone())
    }

    #[zbus(property(emits_changed_signal = "false"))]
    async fn problems(
        &self,
        #[zbus(header)] call: Option<Header<'_>>,
        #[zbus(connection)] connection: &Connection,
    ) -> Result<Vec<String>> {
        self.read(call, connection).await?;
        Ok(self.standing.borrow().problems.clone())
    }
}

fn listed(number: u64, hold: &Hold) -> Listed {
    let asked = &hold.asked;
    let cpus = asked.cpus.as_deref();
    Listed {
        number,
        scope: cpus.map_or("all".to_owned(), cpulist::format),
        latency_us: asked.latency_us,
        uid: asked.owner.uid,
        pid: asked.owner.pid,
        name: asked.owner.name.clone(),
        reason: asked.reason.clone(),
        held_us: hold
            .since
            .elapsed()
            .as_micros()
            .try_into()
            .unwrap_or(u64::MAX),
    }
}
