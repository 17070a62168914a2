//! What systemd hears of the service (`Type=notify`). Without systemd nobody does.
//!
//! Source: sd_notify(3). The library passes messages on to the socket that `NOTIFY_SOCKET` names, if any.

use sd_notify::NotifyState;

/// The rules are in force.
pub fn ready() {
    notify(&[NotifyState::Ready]);
}

/// The rules are read anew; [`ready`] follows.
pub fn reloading() {
    // systemd takes it for an answer to its own signal only with a time after that.
    if let Ok(now) = NotifyState::monotonic_usec_now() {
        notify(&[NotifyState::Reloading, now]);
    }
}

/// The service ends.
pub fn stopping() {
    notify(&[NotifyState::Stopping]);
}

fn notify(states: &[NotifyState<'_>]) {
    // systemd that does not listen has no use for it.
    let _ = sd_notify::notify(states);
}
