//! A hold of the service's, for a program without root.

use std::os::fd::OwnedFd;
use std::time::Duration;

use reveille_kernel::{Error, Result, cpulist};
use tokio::time::timeout;
use zbus::connection::Builder;
use zbus::fdo;
use zbus::proxy::{CacheProperties, MethodFlags};
use zbus::zvariant::{self, Value};

use crate::interface::{NAME, PATH};

/// Whoever runs answers a ping in that time, also while polkit asks the user.
const PATIENCE: Duration = Duration::from_secs(3);

/// Asks the service on the system bus for a hold on these CPUs (`None`: all), which lasts while the descriptor
/// is open. Waits for the user where polkit asks it.
///
/// # Errors
/// [`Error::Cannot`] where there is no bus, no service, or it refuses; [`Error::Usage`] where it does not take
/// the request; [`Error::Failed`] where it does not answer.
pub fn hold(cpus: Option<&[u32]>, latency_us: u32, reason: &str) -> Result<OwnedFd> {
    let scope = cpus.map_or("all".to_owned(), cpulist::format);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Error::system("starting D-Bus"))?;
    runtime.block_on(ask(&scope, latency_us, reason))
}

async fn ask(scope: &str, latency_us: u32, reason: &str) -> Result<OwnedFd> {
    let connection = async { Builder::system()?.build().await };
    let connection = match timeout(PATIENCE, connection).await {
        Ok(connection) => connection.map_err(|error| error.to_string()),
        Err(_) => Err("it does not answer; it may be stopped".to_owned()),
    };
    let connection = connection.map_err(|why| {
        let what = "--via-service: no system bus can be reached";
        Error::Cannot(format!(
            "{what} ({why}); as root, `reveille hold` needs none"
        ))
    })?;
    let service = zbus::proxy::Builder::<zbus::Proxy<'_>>::new(&connection)
        .destination(NAME)
        .and_then(|service| service.path(PATH))
        .and_then(|service| service.interface(NAME))
        .map(|service| service.cache_properties(CacheProperties::No));
    let service = async { service?.build().await }.await.map_err(refused)?;
    let no_options = std::collections::HashMap::<&str, Value<'_>>::new();
    let flags = MethodFlags::AllowInteractiveAuth.into();
    let request = (scope, latency_us, reason, no_options);
    let answer = service.call_with_flags("HoldLatency", flags, &request);
    let held: Option<zvariant::OwnedFd> = tokio::select! {
        answer = answer => answer.map_err(refused)?,
        () = is_stopped(&connection) => {
            let why = "--via-service: the service does not answer; it may be stopped";
            return Err(Error::Failed(why.into()));
        }
    };
    let held = held.ok_or_else(|| Error::Failed("--via-service: no answer".into()))?;
    Ok(held.into())
}

/// Returns once the service answers no ping. One that the bus starts has no owner yet.
async fn is_stopped(connection: &zbus::Connection) {
    let (bus, path) = ("org.freedesktop.DBus", "/org/freedesktop/DBus");
    let peer = Some("org.freedesktop.DBus.Peer");
    let ping = async || {
        let owner = connection.call_method(Some(bus), path, Some(bus), "GetNameOwner", &NAME);
        let owner: String = owner.await?.body().deserialize()?;
        connection
            .call_method(Some(owner.as_str()), PATH, peer, "Ping", &())
            .await
    };
    while timeout(PATIENCE, ping()).await.is_ok() {
        tokio::time::sleep(PATIENCE).await;
    }
}

fn refused(error: zbus::Error) -> Error {
    use fdo::Error as Of;
    let why = match fdo::Error::from(error) {
        Of::InvalidArgs(why) => return Error::Usage(format!("--via-service: {why}")),
        Of::ServiceUnknown(_) | Of::NameHasNoOwner(_) => {
            "no service; start it: `sudo systemctl start reveille`, or `sudo reveille govern`".into()
        }
        Of::AccessDenied(why) | Of::LimitsExceeded(why) => format!("refused: {why}"),
        Of::InteractiveAuthorizationRequired(_) => {
            "refused: an administrator has to allow it, and no polkit agent of this session asks for the \
             password (`pkttyagent` does in a terminal)"
                .into()
        }
        error => return Error::Failed(format!("--via-service: {error}")),
    };
    Error::Cannot(format!("--via-service: {why}"))
}
