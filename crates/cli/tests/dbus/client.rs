//! A program on the bus that asks the service.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::time::Duration;

use nix::libc;
use reveille_bus::{NAME, PATH};
use tokio::runtime::Runtime;
use zbus::connection::Builder;
use zbus::proxy::CacheProperties;
use zbus::zvariant::{self, Value};
use zbus::{Connection, Proxy};

use super::bus::Bus;

pub const NOBODY: u32 = 65534;

/// Longer than any answer takes on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A connection.
pub struct Client {
    runtime: Runtime,
    connection: Connection,
}

/// As `Holds` lists one: number, scope, latency, uid, pid, name, reason, held.
pub type Listed = (u64, String, u32, u32, u32, String, String, u64);

impl Client {
    pub fn root(bus: &Bus) -> Self {
        Self::connect(bus).expect("the bus takes root")
    }

    /// As that user, who may be refused by the bus's limits.
    pub fn of(bus: &Bus, uid: u32) -> zbus::Result<Self> {
        std::thread::scope(|scope| {
            let connected = scope.spawn(|| {
                // SAFETY: the calls take numbers. As system calls they change this thread alone, which
                // ends below.
                unsafe {
                    assert_eq!(libc::syscall(libc::SYS_setresgid, uid, uid, uid), 0);
                    assert_eq!(libc::syscall(libc::SYS_setresuid, uid, uid, uid), 0);
                }
                Self::connect(bus)
            });
            connected.join().unwrap()
        })
    }

    fn connect(bus: &Bus) -> zbus::Result<Self> {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().build().unwrap();
        let address = bus.address();
        let connection = runtime.block_on(async {
            let connection = Builder::address(address.as_str())?;
            connection.build().await
        })?;
        Ok(Self {
            runtime,
            connection,
        })
    }

    /// What never comes, as the service has ended, is a failure, and not waited for.
    fn wait<T>(&self, asked: impl Future<Output = T>) -> T {
        let asked = async { tokio::time::timeout(PATIENCE, asked).await };
        self.runtime.block_on(asked).expect("there is no answer")
    }

    /// Its name on the bus.
    pub fn name(&self) -> String {
        self.connection.unique_name().unwrap().to_string()
    }

    async fn service(&self) -> Proxy<'static> {
        let service = zbus::proxy::Builder::new(&self.connection);
        let service = service.destination(NAME).unwrap().path(PATH).unwrap();
        let service = service.interface(NAME).unwrap();
        let service = service.cache_properties(CacheProperties::No);
        service.build().await.unwrap()
    }

    /// Asks for a hold; the error is the D-Bus name's last word, and its text.
    pub fn hold(&self, scope: &str, latency_us: u32) -> Result<OwnedFd, (String, String)> {
        self.hold_with(scope, latency_us, HashMap::new())
    }

    pub fn hold_with(
        &self,
        scope: &str,
        latency_us: u32,
        options: HashMap<&str, Value<'_>>,
    ) -> Result<OwnedFd, (String, String)> {
        let request = (scope, latency_us, "a test", options);
        let asked = async { self.service().await.call("HoldLatency", &request).await };
        let answer: zbus::Result<zvariant::OwnedFd> = self.wait(asked);
        answer.map(Into::into).map_err(words)
    }

    /// Sends such a request, allowing interaction, and waits for nothing.
    pub fn send_hold(&self, scope: &str, latency_us: u32) {
        let options = HashMap::<&str, Value<'_>>::new();
        let message = zbus::Message::method_call(PATH, "HoldLatency")
            .and_then(|message| message.destination(NAME))
            .and_then(|message| message.interface(NAME))
            .and_then(|message| message.with_flags(zbus::message::Flags::AllowInteractiveAuth))
            .and_then(|message| message.build(&(scope, latency_us, "a test", options)));
        let message = message.unwrap();
        self.runtime
            .block_on(self.connection.send(&message))
            .unwrap();
    }

    pub fn holds(&self) -> zbus::Result<Vec<Listed>> {
        let asked = async { self.service().await.call("Holds", &()).await };
        self.wait(asked)
    }

    pub fn effective(&self, cpu: u32) -> Result<i32, (String, String)> {
        let asked = async { self.service().await.call("EffectiveLatency", &(cpu,)).await };
        self.wait(asked).map_err(words)
    }

    pub fn version(&self) -> zbus::Result<String> {
        let asked = async { self.service().await.get_property("Version").await };
        self.wait(asked)
    }

    pub fn rules(&self) -> zbus::Result<Vec<String>> {
        let asked = async { self.service().await.get_property("Rules").await };
        self.wait(asked)
    }

    /// What zbus answers by itself.
    pub fn introspect(&self) -> zbus::Result<String> {
        let asked = async {
            let object = Proxy::new(
                &self.connection,
                NAME,
                PATH,
                "org.freedesktop.DBus.Introspectable",
            );
            object.await?.call("Introspect", &()).await
        };
        self.wait(asked)
    }

    /// Waits for the signal `Changed` that comes of an action; at most so long.
    pub fn changed_by(&self, action: impl FnOnce(), longest: std::time::Duration) -> bool {
        use futures_lite::StreamExt;
        // The stream ends in a task of the runtime's.
        let _within = self.runtime.enter();
        let listen = async { self.service().await.receive_signal("Changed").await };
        let mut changes = self.wait(listen).unwrap();
        action();
        let change = async { tokio::time::timeout(longest, changes.next()).await };
        self.wait(change).is_ok()
    }

    /// Calls UPower's interface.
    pub fn upower<B, R>(&self, method: &str, body: &B) -> Result<R, (String, String)>
    where
        B: serde::Serialize + zvariant::DynamicType,
        R: for<'d> zvariant::DynamicDeserialize<'d>,
    {
        let called = async {
            let object = "/org/freedesktop/UPower/Policy";
            let interface = "org.freedesktop.UPower.QoS";
            let name = "org.freedesktop.UPower";
            let service = Proxy::new(&self.connection, name, object, interface).await?;
            service.call(method, body).await
        };
        self.wait(called).map_err(words)
    }

    /// Has somebody that name?
    pub fn has_owner(&self, name: &str) -> bool {
        let asked = async {
            let bus = zbus::fdo::DBusProxy::new(&self.connection).await?;
            bus.name_has_owner(name.try_into()?)
                .await
                .map_err(zbus::Error::from)
        };
        self.wait(asked).unwrap()
    }

    /// Takes a name; the error in words.
    pub fn own(&self, name: &str) -> Result<(), String> {
        let name = name.to_owned();
        let owned = self.wait(self.connection.request_name(name));
        owned.map_err(|error| error.to_string())
    }
}

fn words(error: zbus::Error) -> (String, String) {
    match error {
        zbus::Error::MethodError(name, text, _) => {
            let last = name.rsplit('.').next().unwrap_or_default();
            (last.to_owned(), text.unwrap_or_default())
        }
        error => (String::new(), error.to_string()),
    }
}
