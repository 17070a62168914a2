//! The interface `org.freedesktop.UPower.QoS`, which UPower had until 2013, for programs that still ask it.
//!
//! ```text
//! RequestLatency(type s, value i, persistent b) -> cookie u
//! CancelRequest(cookie u)
//! GetLatency(type s) -> i
//! GetLatencyRequests() -> a(uuustbsi)   cookie, uid, pid, name, held_us, persistent, type, value
//! SetMinimumLatency(type s, value i)    always refused
//! signals RequestsChanged(), LatencyChanged(type s, value i)
//! ```
//!
//! A request is a hold on all CPUs, by the same polkit action and within the same limits, and ends with its
//! program. Only that program, or root, cancels it. So `persistent` is refused: nothing would end it.
//! `SetMinimumLatency` is refused, for it loosened what other programs asked for; and the type `network`,
//! for which the kernel has no bound any more. 0 is a bound like any other.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use reveille_govern::Standing;
use reveille_govern::event::Event;
use reveille_govern::holds::Asked;
use reveille_kernel::pm_qos;
use tokio::sync::{oneshot, watch};
use zbus::fdo::{DBusProxy, Error, Result};
use zbus::message::Header;
use zbus::object_server::SignalEmitter;
use zbus::{Connection, interface};

use crate::authority;
use crate::callers::{Callers, Use};
use crate::interface::ACTION;
use crate::tell::Tell;

/// UPower's name.
pub const NAME: &str = "org.freedesktop.UPower";
/// The object.
pub const PATH: &str = "/org/freedesktop/UPower/Policy";
/// The type of bounds on CPUs.
pub const CPUS: &str = "cpu_dma";

/// The object.
pub struct Qos {
    callers: Callers,
    standing: watch::Receiver<Standing>,
    tell: Tell,
    requests: Arc<Mutex<Requests>>,
}

#[derive(Default)]
struct Requests {
    last: u32,
    /// By cookie.
    all: HashMap<u32, Request>,
}

struct Request {
    /// The hold's number.
    hold: u64,
    /// The program's name on the bus.
    owner: String,
    /// Dropping it ends the hold.
    _end: oneshot::Sender<()>,
}

/// As `GetLatencyRequests` lists it.
type Listed = (u32, u32, u32, String, u64, bool, String, i32);

/// Errors if UPower is installed: then the name is UPower's, even while it does not run.
pub async fn is_missing(connection: &Connection) -> std::result::Result<(), String> {
    let names = async {
        DBusProxy::new(connection)
            .await?
            .list_activatable_names()
            .await
    };
    let names = names
        .await
        .map_err(|error| format!("upower_qos: {error}"))?;
    match names.iter().any(|name| name.as_str() == NAME) {
        true => Err(format!(
            "upower_qos: UPower is installed, so {NAME} is left to it"
        )),
        false => Ok(()),
    }
}

impl Qos {
    /// For those callers.
    pub fn new(callers: Callers, standing: watch::Receiver<Standing>, tell: Tell) -> Self {
        Self {
            callers,
            standing,
            tell,
            requests: Arc::default(),
        }
    }

    /// Has the request end with its program; its cookie.
    fn keep(
        &self,
        hold: u64,
        owner: String,
        left: impl Future<Output = ()> + Send + 'static,
    ) -> u32 {
        let (end, ended) = oneshot::channel();
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        // There are fewer requests than numbers.
        let mut cookie = requests.last.wrapping_add(1);
        while cookie == 0 || requests.all.contains_key(&cookie) {
            cookie = cookie.wrapping_add(1);
        }
        requests.last = cookie;
        let request = Request {
            hold,
            owner,
            _end: end,
        };
        requests.all.insert(cookie, request);
        let (tell, all) = (self.tell.clone(), self.requests.clone());
        tokio::spawn(async move {
            futures_lite::future::or(left, async { drop(ended.await) }).await;
            let mut requests = all.lock().unwrap_or_else(PoisonError::into_inner);
            requests.all.remove(&cookie);
            tell.tell(Event::Unhold(hold));
        });
        cookie
    }
}

// `&self`, as in `interface`.
#[interface(name = "org.freedesktop.UPower.QoS")]
impl Qos {
    async fn request_latency(
        &self,
        #[zbus(header)] call: Header<'_>,
        #[zbus(connection)] connection: &Connection,
        r#type: &str,
        value: i32,
        persistent: bool,
    ) -> Result<u32> {
        of_cpus(r#type)?;
        let bound = u64::try_from(value).map(std::time::Duration::from_micros);
        let latency_us = bound.ok().and_then(|bound| pm_qos::bound_us(bound).ok());
        let latency_us = latency_us.ok_or_else(|| {
            Error::InvalidArgs(format!(
                "value: {value} us is not from 0 to less than 2000 s"
            ))
        })?;
        if persistent {
            let why = "persistent: a request ends with its program";
            return Err(Error::NotSupported(why.into()));
        }
        let caller = self.callers.admit(connection, &call, Use::Hold).await?;
        if caller.owner.uid != 0 {
            authority::allows(connection, &call, ACTION).await?;
        }
        let name = call
            .sender()
            .ok_or_else(|| Error::Failed("no sender".into()))?;
        let left = authority::end_of(connection, name).await?;
        let asked = Asked {
            owner: caller.owner.clone(),
            reason: "UPower QoS".into(),
            latency_us,
            cpus: None,
        };
        let hold = self.tell.hold(asked).await?;
        Ok(self.keep(hold, caller.owner.name.clone(), left))
    }

    async fn cancel_request(
        &self,
        #[zbus(header)] call: Header<'_>,
        #[zbus(connection)] connection: &Connection,
        cookie: u32,
    ) -> Result<()> {
        let caller = self.callers.admit(connection, &call, Use::List).await?;
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        let of_caller =
            |request: &Request| caller.owner.uid == 0 || request.owner == caller.owner.name;
        // Whether another's cookie exists is nobody's business.
        if !requests.all.get(&cookie).is_some_and(of_caller) {
            return Err(Error::InvalidArgs(format!(
                "no request of yours has the cookie {cookie}"
            )));
        }
        requests.all.remove(&cookie);
        Ok(())
    }

    async fn get_latency(
        &self,
        #[zbus(header)] call: Header<'_>,
        #[zbus(connection)] connection: &Connection,
        r#type: &str,
    ) -> Result<i32> {
        self.callers.read(connection, &call).await?;
        of_cpus(r#type)?;
        Ok(lowest(&self.standing.borrow()))
    }

    async fn get_latency_requests(
        &self,
        #[zbus(header)] call: Header<'_>,
        #[zbus(connection)] connection: &Connection,
    ) -> Result<Vec<Listed>> {
        let _caller = self.callers.admit(connection, &call, Use::List).await?;
        let requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        let standing = self.standing.borrow();
        let listed = requests.all.iter().filter_map(|(cookie, request)| {
            let holds = &standing.holds;
            let at = holds.binary_search_by_key(&request.hold, |(number, _)| *number);
            let hold = &holds[at.ok()?].1;
            let (asked, owner) = (&hold.asked, &hold.asked.owner);
            let held_us = hold
                .since
                .elapsed()
                .as_micros()
                .try_into()
                .unwrap_or(u64::MAX);
            let value = asked.latency_us.try_into().unwrap_or(i32::MAX);
            let name = owner.name.clone();
            Some((
                *cookie,
                owner.uid,
                owner.pid,
                name,
                held_us,
                false,
                CPUS.into(),
                value,
            ))
        });
        Ok(listed.collect())
    }

    async fn set_minimum_latency(&self, _type: &str, _value: i32) -> Result<()> {
        let why = "SetMinimumLatency: it would loosen what other programs ask for";
        Err(Error::NotSupported(why.into()))
    }

    /// Requests came or went.
    #[zbus(signal)]
    pub async fn requests_changed(emitter: &SignalEmitter<'_>) -> zbus::Result<()>;

    /// The tightest hold on all CPUs is another, µs; -1: none.
    #[zbus(signal)]
    pub async fn latency_changed(
        emitter: &SignalEmitter<'_>,
        r#type: &str,
        value: i32,
    ) -> zbus::Result<()>;
}

/// The tightest of the holds on all CPUs, µs; -1: none.
pub fn lowest(standing: &Standing) -> i32 {
    let holds = standing.holds.iter().map(|(_, hold)| &hold.asked);
    let bounds = holds.filter(|asked| asked.cpus.is_none());
    let lowest = bounds.map(|asked| asked.latency_us).min();
    lowest.and_then(|us| i32::try_from(us).ok()).unwrap_or(-1)
}

fn of_cpus(of: &str) -> Result<()> {
    match of {
        CPUS => Ok(()),
        "network" => Err(Error::NotSupported(
            "the kernel has no bound for `network` any more".into(),
        )),
        _ => Err(Error::InvalidArgs(
            "the type is neither `cpu_dma` nor `network`".into(),
        )),
    }
}
