//! D-Bus: programs ask for holds on the system bus, by the interface `org.reveille.Reveille1` of the object
//! `/org/reveille/Reveille1`, which the name `org.reveille.Reveille1` has.
//!
//! ```text
//! HoldLatency(scope s, latency_us u, reason s, options a{sv}) -> h
//! Holds() -> a(tsuuusst)      number, scope, latency_us, uid, pid, name, reason, held_us
//! EffectiveLatency(cpu u) -> i
//! signal Changed()            the holds, the rules or the problems have changed
//! property Version s          const
//! property Rules as           the rules' names, in their order
//! property Problems as        what does not work, a sentence each
//! ```
//!
//! **`HoldLatency`** keeps CPUs out of idle states that take longer than `latency_us` to wake from; 0: no
//! sleep. `scope` is `all`, or a list of CPUs such as `0-3,8`. The bound is held while the descriptor, or a
//! copy of it, is open, also one in a socket's queue; there is nothing to read from it. So a program that ends
//! takes its holds along, unless it has passed a copy on, and a hold outlasts the bus. `options` has no keys yet, and others are refused.
//!
//! polkit decides by the action `org.reveille.hold-latency`; root needs none. A call whose message allows
//! interactive authorization may have polkit ask the user.
//!
//! **`EffectiveLatency`** is the bound that the service wants on the CPU at this instant, by rules and
//! holds, µs; -1: none. It changes with traffic, which `Changed` does not announce.
//!
//! | error | why |
//! | --- | --- |
//! | `org.freedesktop.DBus.Error.InvalidArgs` | no such CPU, a latency of 2000 s and more, an unknown option |
//! | `...AccessDenied` | polkit refuses, or there is none |
//! | `...InteractiveAuthorizationRequired` | polkit would ask the user, and the message does not allow it |
//! | `...LimitsExceeded` | too many holds or calls of this user, or too often |
//!
//! A user has at most 16 holds, and 10 new ones a second in the long run. Reads wait for their turn at more than 200 a
//! second of a user.
//!
//! # How
//!
//! A thread of its own serves the bus. It asks the thread of [`reveille_govern::service`] through [`Event`]s, and answers what
//! is only read from [`Standing`], which the service publishes at each change. It sleeps until the bus, a
//! hold's descriptor or the service has something.
//!
//! The bus is not trusted to stay: holds are descriptors, so they outlast it, and a bus that restarts is
//! connected to again.

mod authority;
mod callers;
pub mod client;
mod descriptor;
mod interface;
mod tell;
mod upower;

use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use futures_lite::future;
use nix::time::{ClockId, clock_gettime};
use reveille_govern::Standing;
use reveille_govern::budget::Budget;
use reveille_govern::event::Event;
use reveille_kernel::{Error, Result};
use tokio::sync::watch;
use zbus::connection::{Builder, Connection};
use zbus::fdo::{self, RequestNameFlags};

use self::callers::Callers;
use self::interface::Reveille;
pub use self::interface::{NAME, PATH};
use self::tell::Tell;
use self::upower::Qos;

/// Messages that were read and not yet looked at. The bus keeps the others, and counts them for who sent
/// them; each may have 32 MiB.
const QUEUE: usize = 8;
/// From one `Changed` to the next; the next one also stands for what changed in between.
const PAUSE: Duration = Duration::from_millis(100);
/// A bus that ended is connected to after this, then twice this...
const RETRY: Duration = Duration::from_millis(250);
/// ... and so on until this, four minutes after its end. Then it is not coming back.
const RETRY_MAX: Duration = Duration::from_secs(128);

/// The thread that serves the bus. Dropping it leaves the bus.
pub struct Bus {
    standing: Option<watch::Sender<Standing>>,
    thread: Option<JoinHandle<()>>,
}

impl Bus {
    /// Connects and serves from now on. Where that fails, an [`Event::Bus`] says why.
    ///
    /// # Errors
    /// Where no thread can be made.
    pub fn start(tell: impl Fn(Event) -> bool + Send + Sync + 'static) -> Result<Self> {
        have_descriptors();
        let (sender, standing) = watch::channel(Standing::default());
        let runtime = tokio::runtime::Builder::new_current_thread()
            // Not signals: they panic where descriptors run out.
            .enable_io()
            .enable_time()
            // Connecting takes a thread, which is not woken once more to end.
            .thread_keep_alive(Duration::ZERO)
            .on_thread_park(rests())
            .build()
            .map_err(Error::system("starting D-Bus"))?;
        let thread = std::thread::Builder::new().name("bus".into());
        let thread = thread.spawn(move || {
            let mut over = standing.clone();
            // The wait ends when the sender is gone.
            let over = async { drop(over.wait_for(|_| false).await) };
            runtime.block_on(future::or(over, serve(standing, Tell::by(tell))));
        });
        let thread = thread.map_err(Error::system("starting a thread"))?;
        Ok(Self {
            standing: Some(sender),
            thread: Some(thread),
        })
    }

    /// Answers with this from now on, and tells who listens if it is new.
    pub fn publish(&self, standing: Standing) {
        if let Some(sender) = &self.standing {
            sender.send_if_modified(|before| {
                let is_new = !standing.is_as(before);
                *before = standing;
                is_new
            });
        }
    }
}

impl Drop for Bus {
    fn drop(&mut self) {
        self.standing = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// To be called before the thread waits: rests where callers had it take more than their [`Budget`], whatever they
/// call. A rest is short, so that those within their rates have an answer.
fn rests() -> impl Fn() + Send + Sync + 'static {
    /// 20% of a CPU. Each user's calls have rates of their own.
    const PARTS: u32 = 5;
    const REST_MAX: Duration = Duration::from_millis(5);
    let cpu_time = || {
        let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID);
        time.map_or(Duration::ZERO, Duration::from)
    };
    let budget = Mutex::new((Budget::full(PARTS, Instant::now()), None));
    move || {
        let mut budget = budget.lock().unwrap_or_else(PoisonError::into_inner);
        let now = cpu_time();
        let before = budget.1.replace(now).unwrap_or(now);
        let took = now.saturating_sub(before);
        let rest = budget.0.pay(took, Instant::now());
        std::thread::sleep(rest.min(REST_MAX));
    }
}

/// Each hold has a descriptor: allows this process as many as it may have.
fn have_descriptors() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    if let Ok((_, most)) = getrlimit(Resource::RLIMIT_NOFILE) {
        // Fewer are fewer holds.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, most, most);
    }
}

/// Serves the bus, and again after it ended. A bus that was never there is not waited for.
async fn serve(standing: watch::Receiver<Standing>, tell: Tell) {
    let mut wait = RETRY;
    let mut was_served = false;
    loop {
        match connect(&standing, &tell).await {
            Ok((connection, callers)) => {
                tell.tell(Event::Bus(None));
                (was_served, wait) = (true, RETRY);
                let standing = standing.clone();
                let seen = attend(&connection, &callers, standing, &tell);
                future::or(connection.closed(), seen).await;
                let why = "D-Bus is not served: the bus has ended";
                tell.tell(Event::Bus(Some(why.into())));
            }
            Err(why) => {
                let why = format!("D-Bus is not served: {why}");
                tell.tell(Event::Bus(Some(why)));
            }
        }
        if !was_served || wait > RETRY_MAX {
            // Descriptors of holds are still waited for.
            return std::future::pending().await;
        }
        tokio::time::sleep(wait).await;
        wait *= 2;
    }
}

/// The connection, with the object and the name; or why there is none.
async fn connect(
    standing: &watch::Receiver<Standing>,
    tell: &Tell,
) -> std::result::Result<(Connection, Callers), String> {
    let connection = async { Builder::system()?.max_queued(QUEUE).build().await }.await;
    let connection =
        connection.map_err(|error| format!("no system bus can be reached ({error})"))?;
    let failed = |error: zbus::Error| format!("{NAME}: {error}");
    let callers = Callers::default();
    let object = Reveille::new(callers.clone(), standing.clone(), tell.clone());
    let server = connection.object_server();
    server.at(PATH, object).await.map_err(failed)?;
    own(&connection, NAME).await?;
    Ok((connection, callers))
}

/// Takes a name that nobody has.
async fn own(connection: &Connection, name: &str) -> std::result::Result<(), String> {
    // Neither is another's name taken, nor may another take this one.
    let flags = RequestNameFlags::DoNotQueue.into();
    let owned = connection.request_name_with_flags(name, flags).await;
    owned.map(drop).map_err(|error| match error {
        zbus::Error::NameTaken => format!("another program has the name {name}"),
        zbus::Error::FDO(error) if matches!(*error, fdo::Error::AccessDenied(_)) => format!(
            "the bus refuses the name {name}; install {NAME}.conf in /usr/share/dbus-1/system.d"
        ),
        zbus::Error::MethodError(error, ..) if error.ends_with(".AccessDenied") => format!(
            "the bus refuses the name {name}; install {NAME}.conf in /usr/share/dbus-1/system.d"
        ),
        error => format!("{name}: {error}"),
    })
}

/// Tells who listens of each change, and serves UPower's interface while the rules want it.
async fn attend(
    connection: &Connection,
    callers: &Callers,
    mut standing: watch::Receiver<Standing>,
    tell: &Tell,
) {
    let mut with_upower = false;
    let mut lowest = upower::lowest(&standing.borrow());
    loop {
        // Not marked as seen: what changed in the pause is yet to be told.
        let wanted = standing.borrow().upower_qos;
        if wanted != with_upower {
            let object = wanted.then(|| Qos::new(callers.clone(), standing.clone(), tell.clone()));
            let problem = upower(connection, object).await.err();
            tell.tell(Event::Bus(problem));
            with_upower = wanted;
        }
        if standing.changed().await.is_err() {
            return;
        }
        let server = connection.object_server();
        // Who cannot be told asks.
        if let Ok(object) = server.interface::<_, Reveille>(PATH).await {
            let _ = Reveille::changed(object.signal_emitter()).await;
        }
        if let Ok(object) = server.interface::<_, Qos>(upower::PATH).await {
            let _ = Qos::requests_changed(object.signal_emitter()).await;
            let now = upower::lowest(&standing.borrow());
            if std::mem::replace(&mut lowest, now) != now {
                let _ = Qos::latency_changed(object.signal_emitter(), upower::CPUS, now).await;
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Serves UPower's interface, or no longer.
async fn upower(connection: &Connection, object: Option<Qos>) -> std::result::Result<(), String> {
    let failed = |error: zbus::Error| format!("upower_qos: {error}");
    let server = connection.object_server();
    match object {
        Some(object) => {
            upower::is_missing(connection).await?;
            server.at(upower::PATH, object).await.map_err(failed)?;
            let owned = own(connection, upower::NAME).await;
            owned.map_err(|why| format!("upower_qos: {why}"))
        }
        None => {
            // Each is there unless it failed.
            let _ = connection.release_name(upower::NAME).await;
            let _ = server.remove::<Qos, _>(upower::PATH).await;
            Ok(())
        }
    }
}
