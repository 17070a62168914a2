//! polkit's answer to whether a caller may do something.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use enumflags2::BitFlags;
use futures_lite::{StreamExt, future};
use zbus::fdo::{Error, Result};
use zbus::message::{Flags, Header};
use zbus::names::UniqueName;
use zbus::proxy::CacheProperties;
use zbus::{Connection, MatchRule, MessageStream};
use zbus_polkit::policykit1::{AuthorityProxy, CheckAuthorizationFlags, Subject};

/// An authority that asks nobody answers within this.
const PATIENCE: Duration = Duration::from_secs(25);

/// Errors unless polkit lets the caller of that message do it. If the message allows interaction, polkit may
/// ask the user, which lasts as long as the user takes: hold no lock meanwhile.
pub async fn allows(connection: &Connection, call: &Header<'_>, action: &str) -> Result<()> {
    let authority = AuthorityProxy::builder(connection).cache_properties(CacheProperties::No);
    let authority = authority.build().await.map_err(no_authority)?;
    // The caller's name on the bus: of a process id anybody could get another's rights, for ids are used
    // again, and of this process's own everybody would have root's.
    let subject = Subject::new_for_message_header(call);
    let subject = subject.map_err(|error| Error::AccessDenied(error.to_string()))?;
    let none = HashMap::new();
    let asked = authority.check_authorization(&subject, action, &none, BitFlags::empty(), "");
    let answer = tokio::time::timeout(PATIENCE, asked).await;
    let late = |_| Error::AccessDenied("polkit does not answer".into());
    let answer = answer.map_err(late)?.map_err(no_authority)?;
    if answer.is_authorized {
        return Ok(());
    }
    if !answer.is_challenge {
        return Err(Error::AccessDenied(format!("polkit refuses {action}")));
    }
    if !call.primary().flags().contains(Flags::AllowInteractiveAuth) {
        return Err(Error::InteractiveAuthorizationRequired(format!(
            "{action} needs an administrator's password; allow interactive authorization"
        )));
    }
    ask_user(connection, &authority, call, &subject, action).await
}

/// Has polkit ask the user. If the caller leaves, the question is taken back.
async fn ask_user(
    connection: &Connection,
    authority: &AuthorityProxy<'_>,
    call: &Header<'_>,
    subject: &Subject,
    action: &str,
) -> Result<()> {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let question = format!("hold-{}", LAST.fetch_add(1, Ordering::Relaxed));
    let caller = call.sender().ok_or_else(left)?;
    let end = end_of(connection, caller).await?;
    let none = HashMap::new();
    let flags = CheckAuthorizationFlags::AllowUserInteraction.into();
    let answered = async {
        let asked = authority.check_authorization(subject, action, &none, flags, &question);
        match asked.await.map_err(no_authority)?.is_authorized {
            true => Ok(()),
            false => Err(Error::AccessDenied(format!("polkit refuses {action}"))),
        }
    };
    let left = async {
        end.await;
        // A question that has just been answered cannot be taken back.
        let _ = authority.cancel_check_authorization(&question).await;
        Err(left())
    };
    future::or(left, answered).await
}

/// A future that waits until that program leaves the bus, or the bus ends.
///
/// # Errors
/// If it has left already.
pub async fn end_of(
    connection: &Connection,
    name: &UniqueName<'_>,
) -> Result<impl Future<Output = ()> + use<>> {
    let rule = MatchRule::builder()
        .msg_type(zbus::message::Type::Signal)
        .sender("org.freedesktop.DBus")?
        .interface("org.freedesktop.DBus")?
        .member("NameOwnerChanged")?
        .arg(0, name.as_str())?
        .build();
    let mut changes = MessageStream::for_match_rule(rule, connection, Some(1)).await?;
    let bus = zbus::fdo::DBusProxy::builder(connection)
        .cache_properties(CacheProperties::No)
        .build()
        .await?;
    if !bus.name_has_owner(name.clone().into()).await? {
        return Err(left());
    }
    // A unique name has one change: its end.
    Ok(async move { drop(changes.next().await) })
}

fn left() -> Error {
    Error::Failed("the caller has left".into())
}

fn no_authority(error: zbus::Error) -> Error {
    Error::AccessDenied(match error {
        zbus::Error::MethodError(name, ..) if is_missing(&name) => {
            "there is no polkit on the bus to allow it: only root may hold".into()
        }
        error => format!("polkit: {error}"),
    })
}

fn is_missing(error: &str) -> bool {
    let missing = ["ServiceUnknown", "NameHasNoOwner", "Spawn.ServiceNotFound"];
    missing.iter().any(|name| error.ends_with(name))
}
