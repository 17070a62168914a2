//! A hold of the service's, for a program without root.

use std::os::fd::OwnedFd;

use reveille_kernel::{Error, Result, cpulist};
use zbus::connection::Builder;
use zbus::fdo;
use zbus::proxy::{CacheProperties, MethodFlags};
use zbus::zvariant::{self, Value};

use crate::interface::{NAME, PATH};

/// Asks the service on the system bus for a hold on these CPUs (`None`: all), which lasts while the descriptor
/// is open. Waits for the user where polkit asks it.
///
/// # Errors
/// [`Error::Cannot`] where there is no bus, no service, or it refuses; [`Error::Usage`] where it does not take
/// the request.
pub fn hold(cpus: Option<&[u32]>, latency_us: u32, reason: &str) -> Result<OwnedFd> {
    let scope = cpus.map_or("all".to_owned(), cpulist::format);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Error::system("starting D-Bus"))?;
    runtime.block_on(ask(&scope, latency_us, reason))
}

async fn ask(scope: &str, latency_us: u32, reason: &str) -> Result<OwnedFd> {
    let connection = async { Builder::system()?.build().await }.await;
    let connection = connection.map_err(|error| {
        let what = "--via-service: no system bus can be reached";
        Error::Cannot(format!(
            "{what} ({error}); as root, `reveille hold` needs none"
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
    let answer = service
        .call_with_flags("HoldLatency", flags, &request)
        .await;
    let held: Option<zvariant::OwnedFd> = answer.map_err(refused)?;
    let held = held.ok_or_else(|| Error::Failed("--via-service: no answer".into()))?;
    Ok(held.into())
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
